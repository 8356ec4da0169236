//! Publishes blocks and unconfirmed transactions to all subscribers, one after the other.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use super::publication::Audience;
use super::walk::{Means, Walk};
use crate::model::{Height, Transaction};

/// Number of queued transactions at which announcements have to wait.
const MANY_ARRIVALS: usize = 1_000;
/// Maximum number of queued transactions. Further ones, which only a reorg can bring, are not published.
const MAX_ARRIVALS: usize = 5_000;

/// The queue of news.
#[derive(Default)]
pub struct Publisher {
    /// The first and the last block to publish.
    blocks: Option<(Height, Height)>,
    /// The first block of each chain update in the queue; its height is published before it.
    firsts: BTreeSet<Height>,
    /// Unconfirmed transactions to publish, the oldest first.
    arrivals: VecDeque<Rc<Transaction>>,
    /// How many of them precede the blocks, among them those that the update made unconfirmed again. `None` until the
    /// blocks may be published.
    before_blocks: Option<usize>,
    /// The last item was a block, so that a waiting transaction comes next.
    was_block: bool,
    /// The job in progress.
    walk: Option<Walk>,
    /// Transactions dropped since the queue was last below its limit.
    missed: usize,
}

impl Publisher {
    /// Handles a chain update that keeps blocks up to `common` and ends at `last`. Replaced blocks in the queue are
    /// published in their new form only, even if they were partly published.
    pub fn chain_changed(&mut self, common: Height, last: Height) {
        self.walk.take_if(|walk| walk.height().is_some_and(|height| height > common));
        let first = common.next();
        // Greater heights belong to replaced blocks.
        self.firsts.retain(|height| *height < first);
        self.firsts.insert(first);
        let first = self.blocks.map_or(first, |(waiting, _)| waiting.min(first));
        self.blocks = (first <= last).then_some((first, last));
        if self.blocks.is_none() {
            self.firsts.clear();
        }
        self.before_blocks = None;
    }

    /// Queues a transaction that has entered the mempool.
    pub fn arrived(&mut self, transaction: Rc<Transaction>) {
        if self.arrivals.len() < MAX_ARRIVALS {
            self.missed = 0;
            self.arrivals.push_back(transaction);
            return;
        }
        if self.missed == 0 {
            log::warn!("more than {MAX_ARRIVALS} unconfirmed transactions wait to be published, further ones are not");
        }
        self.missed += 1;
    }

    /// Returns whether so many transactions are queued that no more should be accepted for now.
    pub fn is_behind(&self) -> bool {
        self.arrivals.len() >= MANY_ARRIVALS
    }

    /// Returns whether there is anything to publish; blocks count only if `tells_blocks`.
    pub fn has_work(&self, tells_blocks: bool) -> bool {
        self.walk.is_some() || !self.arrivals.is_empty() || (tells_blocks && self.blocks.is_some())
    }

    /// Publishes until the budget is used up. A block starts only if `tells_blocks`, that is, once the mempool is up to
    /// date with it.
    pub fn work(&mut self, tells_blocks: bool, means: &mut Means<'_>, budget: &mut u32) {
        while *budget > 0 {
            let Some(mut walk) = self.walk.take().or_else(|| self.next(tells_blocks, means)) else { return };
            if !walk.work(means, budget) {
                self.walk = Some(walk);
            }
        }
    }

    /// Returns the next job.
    fn next(&mut self, tells_blocks: bool, means: &Means<'_>) -> Option<Walk> {
        if means.hub.topics().is_empty() {
            // There are no subscribers.
            self.arrivals.clear();
            if tells_blocks {
                self.blocks = None;
                self.firsts.clear();
            }
            return None;
        }
        if tells_blocks && self.blocks.is_some() {
            let before = *self.before_blocks.get_or_insert(self.arrivals.len());
            if before == 0 && (!self.was_block || self.arrivals.is_empty()) {
                return self.next_block();
            }
        }
        self.was_block = false;
        self.before_blocks = self.before_blocks.map(|before| before.saturating_sub(1));
        let transaction = self.arrivals.pop_front()?;
        Some(Walk::unconfirmed([transaction], Audience::Everybody))
    }

    fn next_block(&mut self) -> Option<Walk> {
        let (height, last) = self.blocks?;
        self.blocks = (height < last).then_some((height.next(), last));
        self.was_block = true;
        let is_first = self.firsts.remove(&height);
        Some(if is_first { Walk::new_block(height) } else { Walk::block(height, Audience::Everybody) })
    }
}
