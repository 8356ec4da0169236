//! Block download: imports the blocks of a chain that is far ahead as peers deliver them.

use std::time::Duration;

use super::import::{IMPORT_OPTIONS, Import, ImportProgress};
use super::{Node, UNITS_PER_STEP};
use crate::api::Budget;
use crate::chain::{BlockError, BlockImporter, ImportOptions};
use crate::commands;
use crate::model::{Block, Height};
use crate::net::service::LoopTime;
use crate::peer::block_download::NextBlock;
use crate::peer::{Manager, SyncProgress};
use crate::progress::{Progress, ProgressMeter};
use crate::store::{Store, StoreError, tip};

/// Imported blocks are committed when no block has arrived for this long.
const COMMIT_AFTER: Duration = Duration::from_millis(500);

/// State of the block download on the node's side.
pub struct DownloadImport<'s> {
    store: &'s Store,
    /// The import, once the first block has arrived.
    import: Option<Import<'s>>,
    /// Shows how many hashes were fetched before the first block is imported.
    meter: Option<ProgressMeter>,
    /// Since when the next block is missing.
    missing_since: Option<Duration>,
}

impl<'s> DownloadImport<'s> {
    /// Creates the state of a node with nothing to download.
    pub fn new(store: &'s Store) -> DownloadImport<'s> {
        DownloadImport { store, import: None, meter: None, missing_since: None }
    }

    /// Records how long the last slice took, and whether the node is idle.
    pub fn observe_slice(&mut self, time: Duration, is_idle: bool) {
        self.import.iter_mut().for_each(|import| import.observe_slice(time, is_idle));
    }

    /// Returns when there is work even if no block arrives.
    pub fn due(&self) -> Duration {
        match (&self.import, self.missing_since) {
            (_, None) => Duration::ZERO,
            (Some(_), Some(since)) => since + COMMIT_AFTER,
            (None, Some(_)) => Duration::MAX,
        }
    }

    /// Commits the imported blocks before the node ends.
    pub fn commit(&mut self) -> Result<(), BlockError> {
        self.import.take().map_or(Ok(()), |mut import| import.commit().map(drop))
    }

    fn report_hashes(&mut self, sync_progress: &SyncProgress, running: Duration) {
        let Some(followed) = sync_progress.verified else {
            self.meter = None;
            return;
        };
        let standing = Progress { height: followed.0.0, target: Some(followed.1.0), bytes: None };
        let millis = running.as_millis() as u64;
        let meter = self.meter.get_or_insert_with(|| ProgressMeter::new(commands::style(), millis, &standing));
        meter.report(millis, &standing).iter().for_each(|line| commands::show(line));
    }
}

impl<'s> Node<'s> {
    /// Returns whether a block download is running and nothing else holds the right to change the chain.
    pub(super) fn may_import_download(&self) -> bool {
        let is_ahead = self.peer_adapter.peers().is_some_and(Manager::is_downloading_blocks);
        self.import.is_none() && is_ahead && !self.block_processor.holds_chain() && !self.harvester.holds_chain()
    }

    /// Imports the downloaded blocks that have arrived, within the budget.
    pub(super) fn import_download(&mut self, budget: &mut Budget, now: LoopTime) -> Result<(), StoreError> {
        while !budget.is_exhausted() {
            let wants_block = self.download_import.import.as_ref().is_none_or(Import::needs_block);
            let can_continue =
                if wants_block { self.take_next_block(budget, now)? } else { self.continue_import(budget, now)? };
            if !can_continue {
                break;
            }
        }
        Ok(())
    }

    /// Takes the next block, if it has arrived. Returns whether there is more to do now.
    fn take_next_block(&mut self, budget: &mut Budget, now: LoopTime) -> Result<bool, StoreError> {
        budget.charge(UNITS_PER_STEP);
        let present = self.peer_now(now);
        let next = self.peer_adapter.next_block(present);
        if !matches!(next, Some(NextBlock::Waiting)) {
            self.download_import.missing_since = None;
        }
        match next {
            Some(NextBlock::Block(block)) => self.add_downloaded(*block, now)?,
            Some(NextBlock::Working) => {
                let sync_progress = self.peer_adapter.sync_progress();
                sync_progress.iter().for_each(|outlook| self.download_import.report_hashes(outlook, now.monotonic));
            }
            Some(NextBlock::Waiting) => {
                let since = *self.download_import.missing_since.get_or_insert(now.monotonic);
                let is_due = now.monotonic >= since + COMMIT_AFTER;
                if is_due {
                    self.commit_downloaded(now)?;
                }
                return Ok(is_due && !self.download_import.store.waits_for_disk());
            }
            Some(NextBlock::Ended) | None => match &mut self.download_import.import {
                Some(import) => import.end_input(),
                None => {
                    self.peer_adapter.end_download(present);
                    return Ok(false);
                }
            },
        }
        Ok(true)
    }

    /// Passes a block to the import, which the first block creates.
    fn add_downloaded(&mut self, block: Block, now: LoopTime) -> Result<(), StoreError> {
        if let Some(import) = &mut self.download_import.import {
            import.push_block(block);
            return Ok(());
        }
        let Some(sync_progress) = self.peer_adapter.sync_progress() else { return Ok(()) };
        let last = tip(&self.download_import.store.snapshot()?)?.ok_or(StoreError::Empty)?;
        if last.hash != sync_progress.base.hash {
            // Our chain has changed since it was compared with the peer's.
            self.peer_adapter.end_download(self.peer_now(now));
            return Ok(());
        }
        let options = ImportOptions { trusted_below: sync_progress.trusted_below, ..IMPORT_OPTIONS };
        let importer = BlockImporter::new(self.download_import.store, self.network, Vec::new(), Vec::new(), options)?;
        let mut import = Import::of_blocks(importer, sync_progress.target, now.monotonic);
        import.push_block(block);
        self.download_import.import = Some(import);
        Ok(())
    }

    /// Processes the blocks at hand. Returns whether there is more to do now.
    fn continue_import(&mut self, budget: &mut Budget, now: LoopTime) -> Result<bool, StoreError> {
        let (time, present) = (self.time(now), self.peer_now(now));
        let Some(import) = &mut self.download_import.import else { return Ok(false) };
        match import.work(time, now.monotonic, budget) {
            ImportProgress::Working => {
                return Ok(self.download_import.import.as_ref().is_some_and(Import::needs_block));
            }
            ImportProgress::Committed { first, last } => self.on_committed(first, last)?,
            ImportProgress::Failed(error) => {
                // Uncommitted blocks are downloaded again.
                self.download_import.import = None;
                self.peer_adapter.end_download(present);
                return Err(error);
            }
            ImportProgress::Ended(result) => {
                self.download_import.import = None;
                match result {
                    Ok(()) => self.peer_adapter.end_download(present),
                    Err(error) => self.peer_adapter.reject_downloaded(&error.to_string(), present),
                }
            }
        }
        Ok(false)
    }

    /// Commits the imported blocks while none arrives, and then makes them durable.
    fn commit_downloaded(&mut self, now: LoopTime) -> Result<(), StoreError> {
        let Some(import) = &mut self.download_import.import else { return Ok(()) };
        self.download_import.missing_since = Some(now.monotonic);
        if !import.request_commit() {
            self.download_import.store.poll_sync()?;
        }
        Ok(())
    }

    /// Updates the node's state after a commit of blocks has become visible.
    pub(super) fn on_committed(&mut self, first: Height, last: Height) -> Result<(), StoreError> {
        self.write_backoff.record_success();
        self.set_tip(Height(first.0.saturating_sub(1)), last)?;
        self.mempool.blocks_added(first, last);
        Ok(())
    }
}
