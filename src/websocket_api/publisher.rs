//! Publishes blocks and unconfirmed transactions to all subscribers, one after the other.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use super::fanout::Recipients;
use super::publish_job::{PublishContext, PublishJob};
use crate::model::{Height, Transaction};

/// Number of queued transactions at which announcements have to wait.
const BACKPRESSURE_ARRIVALS: usize = 1_000;
/// Maximum number of queued transactions. Further ones, which only a reorg can bring, are not published.
const MAX_ARRIVALS: usize = 5_000;

/// The queue of news.
#[derive(Default)]
pub struct Publisher {
    /// The first and the last block to publish.
    blocks: Option<(Height, Height)>,
    /// The first block of each chain update in the queue; its height is published before it.
    first_blocks: BTreeSet<Height>,
    /// Unconfirmed transactions to publish, the oldest first.
    arrivals: VecDeque<Rc<Transaction>>,
    /// How many of them precede the blocks, among them those that the update made unconfirmed again. `None` until the
    /// blocks may be published.
    before_blocks: Option<usize>,
    /// The last item was a block, so that a waiting transaction comes next.
    last_was_block: bool,
    /// The job in progress.
    job: Option<PublishJob>,
    /// Transactions dropped since the queue was last below its limit.
    dropped: usize,
}

impl Publisher {
    /// Handles a chain update that keeps blocks up to `common` and ends at `last`. Replaced blocks in the queue are
    /// published in their new form only, even if they were partly published.
    pub fn chain_changed(&mut self, common: Height, last: Height) {
        self.job.take_if(|cursor| cursor.height().is_some_and(|height| height > common));
        let first = common.next();
        // Greater heights belong to replaced blocks.
        self.first_blocks.retain(|height| *height < first);
        self.first_blocks.insert(first);
        let first = self.blocks.map_or(first, |(waiting, _)| waiting.min(first));
        self.blocks = (first <= last).then_some((first, last));
        if self.blocks.is_none() {
            self.first_blocks.clear();
        }
        self.before_blocks = None;
    }

    /// Queues a transaction that has entered the mempool.
    pub fn on_transaction(&mut self, transaction: Rc<Transaction>) {
        if self.arrivals.len() < MAX_ARRIVALS {
            self.dropped = 0;
            self.arrivals.push_back(transaction);
            return;
        }
        if self.dropped == 0 {
            log::warn!("more than {MAX_ARRIVALS} unconfirmed transactions wait to be published; more are dropped");
        }
        self.dropped += 1;
    }

    /// Returns whether so many transactions are queued that no more should be accepted for now.
    pub fn is_behind(&self) -> bool {
        self.arrivals.len() >= BACKPRESSURE_ARRIVALS
    }

    /// Returns whether there is anything to publish; blocks count only if `may_publish_blocks`.
    pub fn has_work(&self, may_publish_blocks: bool) -> bool {
        self.job.is_some() || !self.arrivals.is_empty() || (may_publish_blocks && self.blocks.is_some())
    }

    /// Publishes until the budget is used up. A block starts only if `may_publish_blocks`, that is, once the mempool is up to
    /// date with it.
    pub fn work(&mut self, may_publish_blocks: bool, context: &mut PublishContext<'_>, budget: &mut u32) {
        while *budget > 0 {
            let Some(mut job) = self.job.take().or_else(|| self.next(may_publish_blocks, context)) else { return };
            if !job.work(context, budget) {
                self.job = Some(job);
            }
        }
    }

    /// Returns the next job.
    fn next(&mut self, may_publish_blocks: bool, context: &PublishContext<'_>) -> Option<PublishJob> {
        if context.session_table.topics().is_empty() {
            // There are no subscribers.
            self.arrivals.clear();
            if may_publish_blocks {
                self.blocks = None;
                self.first_blocks.clear();
            }
            return None;
        }
        if may_publish_blocks && self.blocks.is_some() {
            let before = *self.before_blocks.get_or_insert(self.arrivals.len());
            if before == 0 && (!self.last_was_block || self.arrivals.is_empty()) {
                return self.next_block();
            }
        }
        self.last_was_block = false;
        self.before_blocks = self.before_blocks.map(|before| before.saturating_sub(1));
        let transaction = self.arrivals.pop_front()?;
        Some(PublishJob::unconfirmed([transaction], Recipients::All))
    }

    fn next_block(&mut self) -> Option<PublishJob> {
        let (height, last) = self.blocks?;
        self.blocks = (height < last).then_some((height.next(), last));
        self.last_was_block = true;
        let is_first = self.first_blocks.remove(&height);
        Some(if is_first { PublishJob::new_block(height) } else { PublishJob::block(height, Recipients::All) })
    }
}
