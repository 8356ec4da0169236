//! News for everybody: blocks and unconfirmed transactions, told one after the other.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use super::publication::Audience;
use super::walk::{Means, Walk};
use crate::model::{Height, Transaction};

/// While so many unconfirmed transactions wait to be told, announcements wait.
const MANY_ARRIVALS: usize = 1_000;
/// Unconfirmed transactions that wait to be told; further ones, which only a change of the chain can bring, are not.
const MAX_ARRIVALS: usize = 5_000;

/// What is still to be told, and how far that is.
#[derive(Default)]
pub struct Publisher {
    /// The first and the last block to be told.
    blocks: Option<(Height, Height)>,
    /// The first block of each change of the chain, among those to be told: its height is told before it.
    firsts: BTreeSet<Height>,
    /// Unconfirmed transactions to be told, the oldest first.
    arrivals: VecDeque<Rc<Transaction>>,
    /// How many of them come before the blocks: those that have lost their block to them are among these. Not known
    /// until the blocks may be told.
    before_blocks: Option<usize>,
    /// What was told last was a block: transactions that wait too come next.
    was_block: bool,
    /// What is told just now.
    walk: Option<Walk>,
    /// Arrivals that did not fit, since one did.
    missed: usize,
}

impl Publisher {
    /// Blocks have become part of the chain: it is the same up to `common`, and ends at `last` now. Those that were
    /// still to be told and have been replaced are told in their new form only, also one of which a part was told.
    pub fn chain_changed(&mut self, common: Height, last: Height) {
        self.walk.take_if(|walk| walk.height().is_some_and(|height| height > common));
        let first = common.next();
        // Heights above it are those of blocks that have been replaced.
        self.firsts.retain(|height| *height < first);
        self.firsts.insert(first);
        let first = self.blocks.map_or(first, |(waiting, _)| waiting.min(first));
        self.blocks = (first <= last).then_some((first, last));
        if self.blocks.is_none() {
            self.firsts.clear();
        }
        self.before_blocks = None;
    }

    /// A transaction has come into the pool.
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

    /// Whether so many arrivals wait that no more should come in for now.
    pub fn is_behind(&self) -> bool {
        self.arrivals.len() >= MANY_ARRIVALS
    }

    /// Whether there is anything to tell; blocks only if `tells_blocks`.
    pub fn has_work(&self, tells_blocks: bool) -> bool {
        self.walk.is_some() || !self.arrivals.is_empty() || (tells_blocks && self.blocks.is_some())
    }

    /// Tells until the units in `budget` are used up. Blocks are begun only if `tells_blocks`: not before the pool
    /// stands on them too.
    pub fn work(&mut self, tells_blocks: bool, means: &mut Means<'_>, budget: &mut u32) {
        while *budget > 0 {
            let Some(mut walk) = self.walk.take().or_else(|| self.next(tells_blocks, means)) else { return };
            if !walk.work(means, budget) {
                self.walk = Some(walk);
            }
        }
    }

    /// What is told next.
    fn next(&mut self, tells_blocks: bool, means: &Means<'_>) -> Option<Walk> {
        if means.hub.topics().is_empty() {
            // Nobody listens.
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
