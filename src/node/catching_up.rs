//! Block download: imports the blocks of a chain that is far ahead as peers deliver them.

use std::time::Duration;

use super::import::{BATCH, Import, Imported};
use super::{Node, UNITS_PER_STEP};
use crate::api::Budget;
use crate::chain::{BlockError, Intake, IntakeOptions};
use crate::commands;
use crate::model::{Block, Height};
use crate::net::machine::Moment;
use crate::peer::catch_up::Ahead;
use crate::peer::{Outlook, Peers};
use crate::progress::{Meter, Standing};
use crate::store::{Store, StoreError, tip};

/// Imported blocks are committed when no block has arrived for this long.
const COMMIT_AFTER: Duration = Duration::from_millis(500);

/// State of the block download on the node's side.
pub struct CatchingUp<'s> {
    store: &'s Store,
    /// The import, once the first block has arrived.
    import: Option<Import<'s>>,
    /// Shows how many hashes were fetched before the first block is imported.
    meter: Option<Meter>,
    /// Since when the next block is missing.
    waits_since: Option<Duration>,
}

impl<'s> CatchingUp<'s> {
    /// Creates the state of a node with nothing to download.
    pub fn new(store: &'s Store) -> CatchingUp<'s> {
        CatchingUp { store, import: None, meter: None, waits_since: None }
    }

    /// Records how long the last slice took, and whether the node is idle.
    pub fn took(&mut self, time: Duration, is_alone: bool) {
        self.import.iter_mut().for_each(|import| import.took(time, is_alone));
    }

    /// Returns when there is work even if no block arrives.
    pub fn due(&self) -> Duration {
        match (&self.import, self.waits_since) {
            (_, None) => Duration::ZERO,
            (Some(_), Some(since)) => since + COMMIT_AFTER,
            (None, Some(_)) => Duration::MAX,
        }
    }

    /// Commits the imported blocks before the node ends.
    pub fn commit(&mut self) -> Result<(), BlockError> {
        self.import.take().map_or(Ok(()), |mut import| import.commit().map(drop))
    }

    fn tell_followed(&mut self, outlook: &Outlook, running: Duration) {
        let Some(followed) = outlook.followed else {
            self.meter = None;
            return;
        };
        let standing = Standing { height: followed.0.0, target: Some(followed.1.0), bytes: None };
        let millis = running.as_millis() as u64;
        let meter = self.meter.get_or_insert_with(|| Meter::new(commands::style(), millis, &standing));
        meter.report(millis, &standing).iter().for_each(|line| commands::show(line));
    }
}

impl<'s> Node<'s> {
    /// Returns whether a block download is running and nothing else holds the right to change the chain.
    pub(super) fn may_catch_up(&self) -> bool {
        let is_ahead = self.partners.peers().is_some_and(Peers::is_catching_up);
        self.import.is_none() && is_ahead && !self.judge.holds_chain() && !self.harvester.holds_chain()
    }

    /// Imports the downloaded blocks that have arrived, within the budget.
    pub(super) fn catch_up(&mut self, budget: &mut Budget, now: Moment) -> Result<(), StoreError> {
        while !budget.is_spent() {
            let wants_block = self.catching_up.import.as_ref().is_none_or(Import::wants_block);
            let goes_on = if wants_block { self.take_next(budget, now)? } else { self.go_on_with_import(budget, now)? };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Takes the next block, if it has arrived. Returns whether there is more to do now.
    fn take_next(&mut self, budget: &mut Budget, now: Moment) -> Result<bool, StoreError> {
        budget.spend(UNITS_PER_STEP);
        let present = self.peer_now(now);
        let next = self.partners.next_block(present);
        if !matches!(next, Some(Ahead::Waiting)) {
            self.catching_up.waits_since = None;
        }
        match next {
            Some(Ahead::Block(block)) => self.hand_over(block, now)?,
            Some(Ahead::Working) => {
                let outlook = self.partners.outlook();
                outlook.iter().for_each(|outlook| self.catching_up.tell_followed(outlook, now.running));
            }
            Some(Ahead::Waiting) => {
                let since = *self.catching_up.waits_since.get_or_insert(now.running);
                let is_due = now.running >= since + COMMIT_AFTER;
                if is_due {
                    self.commit_ahead(now)?;
                }
                return Ok(is_due && !self.catching_up.store.waits_for_disk());
            }
            Some(Ahead::Over) | None => match &mut self.catching_up.import {
                Some(import) => import.finish(),
                None => {
                    self.partners.caught_up(present);
                    return Ok(false);
                }
            },
        }
        Ok(true)
    }

    /// Passes a block to the import, which the first block creates.
    fn hand_over(&mut self, block: Box<Block>, now: Moment) -> Result<(), StoreError> {
        if let Some(import) = &mut self.catching_up.import {
            import.hand_over(block);
            return Ok(());
        }
        let Some(outlook) = self.partners.outlook() else { return Ok(()) };
        let last = tip(&self.catching_up.store.snapshot()?)?.ok_or(StoreError::Empty)?;
        if last.hash != outlook.base.hash {
            // Our chain has changed since it was compared with the peer's.
            self.partners.caught_up(self.peer_now(now));
            return Ok(());
        }
        let options = IntakeOptions { trusted_below: outlook.trusted_below, ..BATCH };
        let intake = Intake::new(self.catching_up.store, self.network, Vec::new(), Vec::new(), options)?;
        let mut import = Import::of_handed(intake, outlook.target, now.running);
        import.hand_over(block);
        self.catching_up.import = Some(import);
        Ok(())
    }

    /// Processes the blocks at hand. Returns whether there is more to do now.
    fn go_on_with_import(&mut self, budget: &mut Budget, now: Moment) -> Result<bool, StoreError> {
        let (time, present) = (self.time(now), self.peer_now(now));
        let Some(import) = &mut self.catching_up.import else { return Ok(false) };
        match import.work(time, now.running, budget) {
            Imported::Working => return Ok(self.catching_up.import.as_ref().is_some_and(Import::wants_block)),
            Imported::Committed { first, last } => self.committed(first, last)?,
            Imported::Failed(error) => {
                // Uncommitted blocks are downloaded again.
                self.catching_up.import = None;
                self.partners.caught_up(present);
                return Err(error);
            }
            Imported::Ended(result) => {
                self.catching_up.import = None;
                match result {
                    Ok(()) => self.partners.caught_up(present),
                    Err(error) => self.partners.block_refused(&error.to_string(), present),
                }
            }
        }
        Ok(false)
    }

    /// Commits the imported blocks while none arrives, and then makes them durable.
    fn commit_ahead(&mut self, now: Moment) -> Result<(), StoreError> {
        let Some(import) = &mut self.catching_up.import else { return Ok(()) };
        self.catching_up.waits_since = Some(now.running);
        if !import.commit_soon() {
            self.catching_up.store.settle_soon()?;
        }
        Ok(())
    }

    /// Updates the node's state after a commit of blocks has become visible.
    pub(super) fn committed(&mut self, first: Height, last: Height) -> Result<(), StoreError> {
        self.writing.is_over();
        self.rise(Height(first.0.saturating_sub(1)), last)?;
        self.unconfirmed.blocks_added(first, last);
        Ok(())
    }
}
