//! Block import while the node runs: from files, or as peers deliver the blocks of a chain that is far ahead.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::read_ahead::{AheadTicket, ReadAhead};
use super::{Node, UNITS_PER_STEP};
use crate::budget::Budget;
use crate::chain::{BlockImporter, ImportError, ImportOptions, ImportProgress};
use crate::crypto::PublicKey;
use crate::model::{Address, Block, Height, Timestamp};
use crate::peer::block_download::{BlockDownload, NextBlock};
use crate::peer::io::Now;
use crate::progress::Progress;
use crate::rules::{Rejection, ValidationResult};
use crate::store::{StoreError, tip};

/// Downloaded blocks are committed when no further block has arrived for this long.
const COMMIT_AFTER: Duration = Duration::from_millis(500);
/// Active clients see the imported blocks after this time.
const COMMIT_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of blocks whose rows are read ahead while earlier ones are executed.
const MAX_BLOCKS_AHEAD: usize = 64;
/// Maximum number of signers whose accounts count as read.
const MAX_PROOFS: usize = 1_000;

/// A block import and its batch size.
pub struct Import<'s> {
    pub(super) importer: BlockImporter<'s>,
    batch_size: BatchSize,
    /// The last slice ended with a commit whose duration is not known yet.
    has_committed: bool,
    /// The store has failed since the last commit.
    has_failed: bool,
    /// Height at which a download ends; `None` for an import of files.
    target: Option<Height>,
    /// The download has delivered its last block.
    is_complete: bool,
    /// Height before the first imported block.
    start: Height,
    /// The next blocks, in their order.
    queue: VecDeque<QueuedBlock>,
    /// What was read ahead for proofs, by the keys of the signers.
    proofs: BTreeMap<PublicKey, AheadTicket>,
    /// What is read ahead for the execution of the block in progress.
    rows: AheadTicket,
    /// Whether a block waits for what is read ahead.
    is_reading: bool,
}

/// A block that comes next, and what is read ahead for its proof and then for its execution. A wrong proof ends an import
/// before anything waits for the rest.
struct QueuedBlock {
    /// The block of a download; the importer has those of files.
    block: Option<Box<Block>>,
    proof: AheadTicket,
    rows: AheadTicket,
}

/// Progress of an import or a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockProgress {
    /// Height before the first imported block; `None` while only hashes are followed to the trusted checkpoint.
    pub start: Option<Height>,
    /// The height is that of the last commit, or of the last hash.
    pub progress: Progress,
}

impl<'s> Import<'s> {
    /// Creates an import of files, which begins with the program. It resumes after a failure of the store.
    pub fn new(importer: BlockImporter<'s>) -> Import<'s> {
        Import::create(importer, None, Duration::ZERO)
    }

    fn create(mut importer: BlockImporter<'s>, target: Option<Height>, now: Duration) -> Import<'s> {
        let mut batch_size = BatchSize::new(now);
        if importer.rebuild_target().is_some() {
            batch_size.max_idle_time = BatchSize::MAX_COMMIT_TIME_REBUILD;
        }
        importer.options.batch_rows = batch_size.rows;
        let start = importer.committed();
        Import {
            importer,
            batch_size,
            has_committed: false,
            has_failed: false,
            target,
            is_complete: false,
            start,
            queue: VecDeque::new(),
            proofs: BTreeMap::new(),
            rows: AheadTicket::default(),
            is_reading: false,
        }
    }

    /// Returns the height at which the rebuild of a store ends, if this is one.
    pub(super) fn rebuild_target(&self) -> Option<Height> {
        self.importer.rebuild_target()
    }

    /// Returns whether the blocks come from peers.
    pub fn is_download(&self) -> bool {
        self.target.is_some()
    }

    /// Returns whether the blocks come from files.
    fn reads_files(&self) -> bool {
        !self.is_download() && self.rebuild_target().is_none()
    }

    /// Returns whether the next block of the download is needed.
    fn needs_block(&self) -> bool {
        self.is_download() && !self.is_complete && self.importer.accepts_block()
    }

    /// Records how long the last slice took, and whether the node is idle. If the slice ended with a commit, this
    /// adapts the batch size. Active clients get a commit if the last one was long ago. `now` is the time since start.
    pub fn observe_slice(&mut self, time: Duration, is_idle: bool, now: Duration) {
        self.batch_size.set_idle(is_idle);
        if std::mem::take(&mut self.has_committed) {
            self.batch_size.observe_commit(time, now);
        } else if self.batch_size.is_overdue(now) {
            self.importer.request_commit();
        }
        self.importer.options.batch_rows = self.batch_size.rows;
    }

    /// Imports blocks for one slice, or until the next block is needed. Anything but [`ImportProgress::Working`] ends
    /// the slice. After a failure of the store the next slice imports uncommitted blocks of files again.
    fn work(&mut self, now: Now, budget: &mut Budget, ahead: &mut ReadAhead) -> Result<ImportProgress, ImportError> {
        if self.has_failed {
            self.importer.retry().map_err(|error| ImportError::Store(self.importer.height(), error))?;
            self.cancel_reads(ahead);
            self.has_failed = false;
        }
        // A commit does not wait for the next block.
        self.is_reading = false;
        let time = now.network;
        while !budget.is_exhausted() && !self.needs_block() {
            budget.charge(UNITS_PER_STEP);
            if self.reads_files() && !self.takes_next(ahead, now.monotonic) || self.waits_for_rows(ahead) {
                break;
            }
            let step = self.importer.step(time);
            self.has_committed = matches!(step, Ok(ImportProgress::Committed { .. }));
            self.has_failed = matches!(step, Err(ImportError::Store(..)));
            if !matches!(step, Ok(ImportProgress::Working)) {
                return step;
            }
        }
        Ok(ImportProgress::Working)
    }

    /// Reads ahead what the next blocks of files need. Returns whether the next step can be done: not if it would read a block
    /// whose proof waits for that.
    fn takes_next(&mut self, ahead: &mut ReadAhead, now: Duration) -> bool {
        let is_idle = self.importer.accepts_block();
        if !is_idle && !self.waits_for_rows(ahead) {
            return true;
        }
        while self.queue.len() < MAX_BLOCKS_AHEAD
            && ahead.has_room(now)
            && let Some(block) = self.importer.peek(self.queue.len())
        {
            self.enqueue(block, ahead, now);
        }
        if is_idle {
            self.submit_next(ahead);
        }
        !self.is_reading
    }

    /// Reads ahead what a block needs that comes after those in the queue.
    fn enqueue(&mut self, block: Block, ahead: &mut ReadAhead, now: Duration) {
        if self.proofs.len() >= MAX_PROOFS {
            self.proofs.clear();
        }
        let signer = Address::from_public_key(&block.signer, self.importer.network.byte);
        let proof = *self.proofs.entry(block.signer).or_insert_with(|| ahead.read_accounts(&[signer], now));
        let rows = ahead.read_block(&block, &self.importer.recalculation_after(block.height), now);
        let block = self.is_download().then(|| Box::new(block));
        self.queue.push_back(QueuedBlock { block, proof, rows });
    }

    /// Takes the next block of the queue, if what its proof needs was read ahead: that of a download goes to the importer.
    /// Returns whether there was one.
    fn submit_next(&mut self, ahead: &ReadAhead) -> bool {
        self.is_reading = self.queue.front().is_some_and(|next| ahead.is_reading(next.proof));
        let Some(next) = self.queue.pop_front_if(|_| !self.is_reading) else { return false };
        self.rows = next.rows;
        if let Some(block) = next.block {
            self.importer.submit_block(*block);
        }
        true
    }

    /// Returns whether the block in progress is proven and waits until what its execution needs was read ahead.
    fn waits_for_rows(&mut self, ahead: &ReadAhead) -> bool {
        self.is_reading = self.importer.begins_execution() && ahead.is_reading(self.rows);
        self.is_reading
    }

    /// Forgets the blocks in the queue and what is read ahead.
    fn cancel_reads(&mut self, ahead: &mut ReadAhead) {
        let queued = self.queue.drain(..).flat_map(|next| [next.proof, next.rows]);
        for ticket in queued.chain([std::mem::take(&mut self.rows)]) {
            ahead.cancel(ticket);
        }
        self.proofs.clear();
    }
}

impl<'s> Node<'s> {
    /// Returns whether blocks are imported, or can be once they arrive.
    pub(super) fn may_import(&self) -> bool {
        self.import.is_some() || (self.download().is_some() && !self.block_processor.holds_chain())
    }

    /// Returns whether this node is far behind and downloads blocks: its own blocks would replace none of these.
    pub(super) fn is_catching_up(&self, time: Timestamp) -> bool {
        let chain = &self.chain.network.chain;
        let rewritable = chain.rewrite_limit.saturating_mul(u64::from(chain.target_time));
        let age = u64::try_from(time.0.saturating_sub(self.tip_time.0)).unwrap_or(0);
        self.download().is_some() && age > rewritable
    }

    fn download(&self) -> Option<&BlockDownload> {
        self.peers.as_ref()?.block_download.as_ref()
    }

    /// Ends the download with its import; see [`Manager::end_block_download`](crate::peer::Manager::end_block_download).
    fn end_download(&mut self, rejection: Option<&str>, now: Now) {
        self.end_import();
        if let Some(peers) = &mut self.peers {
            peers.end_block_download(rejection, now);
        }
    }

    /// Returns when the import has work even if no block arrives. A download without an import has its own timers.
    pub(super) fn import_due(&self) -> Duration {
        match (&self.import, self.missing_since) {
            // A tick follows when a helper is done.
            (Some(import), _) if import.is_reading => Duration::MAX,
            (Some(import), Some(since)) if import.is_download() => since + COMMIT_AFTER,
            (None, Some(_)) => Duration::MAX,
            _ => Duration::ZERO,
        }
    }

    /// Returns the progress of the import, or of the download before its first block.
    pub fn block_progress(&self) -> Option<BlockProgress> {
        if let Some(Import { importer, target, start, .. }) = &self.import {
            let (height, target) = (importer.committed().0, target.or(self.rebuild_target).map(|target| target.0));
            let bytes = importer.bytes().filter(|_| target.is_none());
            return Some(BlockProgress { start: Some(*start), progress: Progress { height, target, bytes } });
        }
        let (verified, checkpoint) = self.download()?.verifying()?;
        let progress = Progress { height: verified.0, target: Some(checkpoint.height.0), bytes: None };
        Some(BlockProgress { start: None, progress })
    }

    /// Imports the blocks of files or those that have arrived, within the budget.
    pub(super) fn import_blocks(&mut self, budget: &mut Budget, now: Now) -> Result<(), StoreError> {
        while self.may_import() && !budget.is_exhausted() {
            let can_continue = if self.import.as_ref().is_none_or(Import::needs_block) {
                self.take_next_block(budget, now)?
            } else {
                self.run_import(budget, now)?
            };
            if !can_continue {
                break;
            }
        }
        Ok(())
    }

    /// Takes the next block of the download, if it has arrived. Returns whether there is more to do now.
    fn take_next_block(&mut self, budget: &mut Budget, now: Now) -> Result<bool, StoreError> {
        let next = self.queue_next(budget, now);
        let is_working = matches!(next, Some(NextBlock::Block(_) | NextBlock::Working));
        let Some(import) = &mut self.import else {
            match next {
                Some(NextBlock::Block(block)) => self.start_download_import(*block, now)?,
                Some(NextBlock::Working) => {}
                Some(NextBlock::Waiting) => _ = self.missing_since.get_or_insert(now.monotonic),
                Some(NextBlock::Ended) | None => self.end_download(None, now),
            }
            return Ok(is_working);
        };
        if import.queue.is_empty() && !is_working {
            return self.miss_block(matches!(next, Some(NextBlock::Waiting)), now);
        }
        Ok(import.submit_next(&self.read_ahead) || is_working)
    }

    /// Puts the next block of the download into the queue of the import, if both have arrived. Returns what the download has
    /// next otherwise; nothing while the queue is full.
    fn queue_next(&mut self, budget: &mut Budget, now: Now) -> Option<NextBlock> {
        budget.charge(UNITS_PER_STEP);
        let queued = self.import.as_ref().map_or(0, |import| import.queue.len());
        let can_queue = queued == 0 || queued < MAX_BLOCKS_AHEAD && self.read_ahead.has_room(now.monotonic);
        let next = if can_queue { self.peers.as_mut().and_then(|peers| peers.next_block(now)) } else { None };
        if !matches!(next, Some(NextBlock::Waiting)) {
            self.missing_since = None;
        }
        match (next, &mut self.import) {
            (Some(NextBlock::Block(block)), Some(import)) => {
                import.enqueue(*block, &mut self.read_ahead, now.monotonic);
                Some(NextBlock::Working)
            }
            (next, _) => next,
        }
    }

    /// Handles the lack of a next block: it has not arrived yet (`is_awaited`), or there is none. Returns whether there is more
    /// to do now.
    fn miss_block(&mut self, is_awaited: bool, now: Now) -> Result<bool, StoreError> {
        let Some(import) = &mut self.import else { return Ok(false) };
        let download = self.peers.as_ref().and_then(|peers| peers.block_download.as_ref());
        if !is_awaited || download.is_none_or(|download| download.is_late(now.monotonic)) {
            // Others may change the chain until the next block arrives.
            import.is_complete = true;
            return Ok(true);
        }
        let since = *self.missing_since.get_or_insert(now.monotonic);
        let is_due = now.monotonic >= since + COMMIT_AFTER;
        if is_due {
            // The imported blocks are committed while none arrives.
            self.missing_since = Some(now.monotonic);
        }
        Ok(is_due && import.importer.request_commit())
    }

    /// Starts the import of a download with its first block.
    fn start_download_import(&mut self, block: Block, now: Now) -> Result<(), StoreError> {
        let Some(download) = self.download() else { return Ok(()) };
        let (target, trusted_below) = (download.target, download.trusted_below());
        let store = self.chain.reader.store();
        let last = tip(&store.snapshot()?)?.ok_or(StoreError::Empty)?;
        if block.previous_hash != last.hash {
            // Our chain has changed since it was compared with the peer's, or while no block arrived.
            self.end_download(None, now);
            return Ok(());
        }
        let write_cache = self.settings.write_cache;
        let options = ImportOptions { write_cache, trusted_below, ..ImportOptions::DEFAULT };
        let importer = BlockImporter::new(store, self.chain.network, Vec::new(), Vec::new(), options)?;
        let import = self.import.insert(Import::create(importer, Some(target), now.monotonic));
        import.enqueue(block, &mut self.read_ahead, now.monotonic);
        Ok(())
    }

    /// Processes the blocks at hand. Returns whether there is more to do now.
    fn run_import(&mut self, budget: &mut Budget, now: Now) -> Result<bool, StoreError> {
        let Some(import) = &mut self.import else { return Ok(false) };
        // The clock does not matter to the blocks of a rebuild, which were verified before.
        let network = self.rebuild_target.map_or(now.network, |_| Timestamp::MAX);
        let is_download = import.is_download();
        let result = import.work(Now { network, ..now }, budget, &mut self.read_ahead);
        match result {
            Ok(ImportProgress::Working) if is_download && import.is_reading => {
                // The next blocks are read ahead while one waits for its rows.
                while !budget.is_exhausted() && matches!(self.queue_next(budget, now), Some(NextBlock::Working)) {}
            }
            Ok(ImportProgress::Working) => return Ok(import.needs_block()),
            Ok(ImportProgress::Syncing) => {}
            Ok(ImportProgress::Committed { last, .. }) => {
                self.write_backoff.record_success();
                self.imported = Some(last);
            }
            Ok(ImportProgress::Done) => {
                self.end_import();
                if is_download && self.download().is_some_and(|download| download.outcome.is_some()) {
                    self.end_download(None, now);
                }
            }
            Err(ImportError::Store(_, error)) => {
                if is_download {
                    // Uncommitted blocks are downloaded again.
                    self.end_download(None, now);
                }
                return Err(error);
            }
            // The clock of this node may be slow: the peer is not blamed.
            Err(ImportError::Rejected(_, _, Rejection::Result(ValidationResult::FailureTimestampTooFarInFuture)))
                if is_download =>
            {
                self.end_download(None, now);
            }
            Err(error) if is_download => self.end_download(Some(&error.to_string()), now),
            Err(error) => {
                self.end_import();
                if self.rebuild_target.is_some() {
                    self.rebuild_failure = Some(error);
                } else {
                    // The node continues with the chain as it is, since that may be what the operator needs most.
                    log::error!("the import has stopped: {error}");
                }
            }
        }
        Ok(false)
    }

    /// Ends the import. Nothing that was not executed is read any more.
    fn end_import(&mut self) {
        if let Some(mut import) = self.import.take() {
            import.cancel_reads(&mut self.read_ahead);
        }
    }

    /// Updates the node's state after imported blocks have become durable. They follow those that it knows.
    pub(super) fn show_imported(&mut self) {
        let Some(last) = self.imported.take() else { return };
        self.mempool.blocks_added(self.chain.height.next(), last);
        self.set_tip(self.chain.height, last, Vec::new());
    }
}

/// Number of changed rows per commit, adapted to the speed of the machine: a commit copies the changed rows, and
/// nothing is answered meanwhile. Larger batches write fewer pages per block, so commits may take longer and be rarer while
/// the node is idle; the first client then waits for at most one such commit, and sees the new blocks after it.
#[derive(Debug)]
struct BatchSize {
    rows: u32,
    is_idle: bool,
    /// Maximum duration of a commit while the node is idle.
    max_idle_time: Duration,
    /// Time of the last commit, or of the beginning of the import, since the start of the program.
    last_commit: Duration,
}

impl BatchSize {
    const INITIAL_ROWS: u32 = 2_000;
    const MIN_ROWS: u32 = 1_000;
    const MAX_ROWS: u32 = ImportOptions::DEFAULT.batch_rows;
    /// Maximum duration of a commit while clients are active, and while the node is idle.
    const MAX_COMMIT_TIME: Duration = Duration::from_millis(5);
    const MAX_COMMIT_TIME_IDLE: Duration = Duration::from_millis(30);
    /// The same while a store is rebuilt, when clients want nothing but its progress.
    const MAX_COMMIT_TIME_REBUILD: Duration = Duration::from_millis(300);

    /// Returns the size of the first batch of an import that begins `now`.
    fn new(now: Duration) -> BatchSize {
        BatchSize {
            rows: BatchSize::INITIAL_ROWS,
            is_idle: false,
            max_idle_time: BatchSize::MAX_COMMIT_TIME_IDLE,
            last_commit: now,
        }
    }

    /// Records whether the node is idle.
    fn set_idle(&mut self, is_idle: bool) {
        if std::mem::replace(&mut self.is_idle, is_idle) && !is_idle {
            let part = f64::from(self.rows) * Self::MAX_COMMIT_TIME.div_duration_f64(self.max_idle_time);
            self.rows = Self::MIN_ROWS.max(part as u32);
        }
    }

    /// Returns whether active clients have waited long enough for new blocks.
    fn is_overdue(&self, now: Duration) -> bool {
        !self.is_idle && now >= self.last_commit + COMMIT_INTERVAL
    }

    /// Records how long a commit took that has ended `now`.
    fn observe_commit(&mut self, time: Duration, now: Duration) {
        self.last_commit = now;
        let limit = if self.is_idle { self.max_idle_time } else { Self::MAX_COMMIT_TIME };
        let rows = match time {
            _ if time > limit => self.rows - self.rows / 4,
            _ if time < limit * 2 / 3 => self.rows + self.rows / 8,
            _ => self.rows,
        };
        self.rows = rows.clamp(Self::MIN_ROWS, Self::MAX_ROWS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::AheadKind;
    use crate::node::block_processor::tests::Chain;

    /// Simulates commits on a machine with this cost per row; returns the duration of the last commit.
    fn commits(size: &mut BatchSize, is_alone: bool, count: usize, of_row: Duration) -> Duration {
        (0..count).fold(Duration::ZERO, |_, _| {
            size.set_idle(is_alone);
            let time = of_row * size.rows;
            size.observe_commit(time, Duration::ZERO);
            time
        })
    }

    /// Imports blocks as a download delivers them, until they wait for what is read ahead. Returns the end of the import.
    fn download(import: &mut Import<'_>, ahead: &mut ReadAhead) -> Option<Result<ImportProgress, ImportError>> {
        let now = Now { monotonic: Duration::ZERO, network: Timestamp(i32::MAX - 100), network_millis: 0 };
        for _ in 0..10_000 {
            if import.needs_block() {
                if !import.submit_next(ahead) {
                    return None;
                }
                continue;
            }
            match import.work(now, &mut Budget::new(10), ahead) {
                Ok(ImportProgress::Working) if import.is_reading => return None,
                Ok(ImportProgress::Done) => return Some(Ok(ImportProgress::Done)),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
        panic!("it does not end");
    }

    #[test]
    fn a_downloaded_block_is_proven_before_its_rows_are_awaited_and_a_wrong_one_leaves_no_reads_behind() {
        let chain = Chain::up_to(20);
        let (store, network) = (chain.store(), &chain.settings.network);
        let importer = BlockImporter::new(&store, network, Vec::new(), Vec::new(), ImportOptions::DEFAULT).unwrap();
        let mut import = Import::create(importer, Some(Height(40)), Duration::ZERO);
        let mut ahead = ReadAhead::cold(Duration::ZERO);
        let mut blocks = chain.blocks()[19..23].to_vec();
        blocks[1].timestamp.0 += 1;
        for block in blocks {
            import.enqueue(block, &mut ahead, Duration::ZERO);
        }
        let (mut read, mut end) = (Vec::new(), None);
        while end.is_none() {
            end = download(&mut import, &mut ahead);
            if end.is_none() {
                let (waiting, work) = ahead.next(Duration::ZERO).expect("what the import waits for");
                read.push(work.kind);
                ahead.finish(waiting, Some(true), Duration::ZERO, Duration::ZERO);
            }
        }
        assert!(matches!(end, Some(Err(ImportError::Rejected(Height(22), ..)))), "{end:?}");
        // The first block needs both, the second one is rejected once its signer is known.
        let is_proof = |kind: &&AheadKind| **kind == AheadKind::Accounts;
        assert_eq!((read.len() - read.iter().filter(is_proof).count(), read.first()), (1, Some(&AheadKind::Accounts)));
        assert!(ahead.has_waiting());
        import.cancel_reads(&mut ahead);
        assert!(!ahead.has_waiting());
    }

    #[test]
    fn a_block_waits_for_what_the_recalculation_after_it_reads() {
        let chain = Chain::up_to(20);
        let (store, network) = (chain.store(), &chain.settings.network);
        let importer = BlockImporter::new(&store, network, Vec::new(), Vec::new(), ImportOptions::DEFAULT).unwrap();
        let mut import = Import::create(importer, None, Duration::ZERO);
        let mut ahead = ReadAhead::cold(Duration::ZERO);
        for height in [358, 359].map(Height) {
            import.enqueue(Block { height, ..chain.blocks()[20].clone() }, &mut ahead, Duration::ZERO);
        }
        let waits_for = [0, 1].map(|place| import.queue[place].rows);
        let mut read = Vec::new();
        while let Some((waiting, work)) = ahead.next(Duration::ZERO) {
            read.push((work.kind, waits_for.map(|rows| ahead.is_reading(rows))));
            ahead.finish(waiting, Some(true), Duration::ZERO, Duration::ZERO);
        }
        let of_last = [false, true];
        let expected = [
            (AheadKind::Accounts, [true, true]),
            (AheadKind::Block, [true, true]),
            (AheadKind::Block, of_last),
            (AheadKind::Recalculation, of_last),
            (AheadKind::Recalculation, of_last),
            (AheadKind::Recalculation, of_last),
        ];
        assert_eq!(read, expected, "the accounts, the last month, and the last lists");
    }

    #[test]
    fn the_commit_size_adapts_to_the_speed_of_the_machine() {
        for (is_alone, most) in [(false, BatchSize::MAX_COMMIT_TIME), (true, BatchSize::MAX_COMMIT_TIME_IDLE)] {
            for of_row in [500, 1_000, 5_000].map(Duration::from_nanos) {
                let time = commits(&mut BatchSize::new(Duration::ZERO), is_alone, 60, of_row);
                assert!(time <= most && time > most / 2, "{is_alone}, {of_row:?} for each row: {time:?}");
            }
        }
    }

    #[test]
    fn the_first_client_request_shortens_commits_at_once() {
        let (mut size, of_row) = (BatchSize::new(Duration::ZERO), Duration::from_nanos(700));
        assert!(commits(&mut size, true, 60, of_row) > BatchSize::MAX_COMMIT_TIME_IDLE / 2);
        assert!(commits(&mut size, false, 1, of_row) <= BatchSize::MAX_COMMIT_TIME);
    }

    #[test]
    fn active_clients_see_new_blocks_some_seconds_after_the_last_commit_and_an_idle_node_need_not_commit() {
        let at = Duration::from_secs;
        let mut size = BatchSize::new(at(7));
        let overdue = |size: &mut BatchSize, is_idle: bool, second: u64| {
            size.set_idle(is_idle);
            size.is_overdue(at(second))
        };
        let seconds = COMMIT_INTERVAL.as_secs();
        assert_eq!([0, seconds - 1, seconds].map(|after| overdue(&mut size, false, 7 + after)), [false, false, true]);
        size.observe_commit(Duration::ZERO, at(100));
        assert!(!overdue(&mut size, true, 1_000));
        // The first client waits for one commit only.
        assert!(overdue(&mut size, false, 1_000));
        size.observe_commit(Duration::ZERO, at(1_000));
        assert!(!overdue(&mut size, false, 1_001));
    }

    #[test]
    fn a_batch_is_never_smaller_or_larger_than_its_limits() {
        let mut size = BatchSize::new(Duration::ZERO);
        commits(&mut size, true, 100, Duration::from_secs(1));
        assert_eq!(size.rows, BatchSize::MIN_ROWS);
        commits(&mut size, true, 100, Duration::ZERO);
        assert_eq!(size.rows, BatchSize::MAX_ROWS);
    }
}
