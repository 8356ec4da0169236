//! Block import while the node runs.

use std::time::Duration;

use super::UNITS_PER_STEP;
use crate::api::Budget;
use crate::chain::{self, BlockError, BlockImporter, ImportError, ImportOptions};
use crate::commands;
use crate::model::{Block, Height, Timestamp};
use crate::progress::{ProgressMeter, Style};
use crate::store::StoreError;

/// Batch limits: steps and blocks after which a commit follows regardless of the number of changed rows.
pub const IMPORT_OPTIONS: ImportOptions =
    ImportOptions { batch_steps: BatchSize::MAX_ROWS, batch_blocks: 256, stop_at: None, trusted_below: Height(0) };

/// Result of one slice of the import.
pub enum ImportProgress {
    /// The import continues.
    Working,
    /// These blocks have become visible and will soon be durable.
    Committed { first: Height, last: Height },
    /// The store has failed. The next slice imports uncommitted blocks again.
    Failed(StoreError),
    /// All blocks are imported, or an error stopped the import.
    Ended(Result<(), ImportError>),
}

/// A block import and its batch size.
pub struct Import<'s> {
    importer: BlockImporter<'s>,
    batch_size: BatchSize,
    /// The last slice ended with a commit whose duration is not known yet.
    has_committed: bool,
    /// The store has failed since the last commit.
    has_failed: bool,
    /// Blocks come from [`Import::push_block`] instead of a file, and more may follow.
    is_fed: bool,
    /// The target height, if it is known.
    target: Option<u64>,
    meter: ProgressMeter,
    /// Height before the first imported block.
    start_height: Height,
    show: fn(&str),
}

impl<'s> Import<'s> {
    /// Creates an import that reports its progress in this style with `show`.
    pub fn new(mut importer: BlockImporter<'s>, style: Style, show: fn(&str)) -> Import<'s> {
        importer.allow_retry();
        Import::create(importer, None, Duration::ZERO, (style, show))
    }

    /// Creates an import of blocks from [`Import::push_block`] up to the height `target`. It cannot resume after a store
    /// failure.
    pub fn of_blocks(importer: BlockImporter<'s>, target: Height, running: Duration) -> Import<'s> {
        let import = Import::create(importer, Some(target.0), running, (commands::style(), commands::show));
        Import { is_fed: true, ..import }
    }

    fn create(
        mut intake: BlockImporter<'s>,
        target: Option<u64>,
        running: Duration,
        (style, show): (Style, fn(&str)),
    ) -> Import<'s> {
        let meter = ProgressMeter::new(style, running.as_millis() as u64, &commands::progress_of(&intake, target));
        let from = intake.committed();
        let size = BatchSize::default();
        intake.set_batch_rows(size.rows);
        Import {
            importer: intake,
            batch_size: size,
            has_committed: false,
            has_failed: false,
            is_fed: false,
            target,
            meter,
            start_height: from,
            show,
        }
    }

    /// Returns whether the import needs the next block from [`Import::push_block`].
    pub fn needs_block(&self) -> bool {
        self.is_fed && self.importer.accepts_block()
    }

    /// Passes the next block to the import.
    pub fn push_block(&mut self, block: Block) {
        self.importer.submit_block(block);
    }

    /// Marks the end of the blocks from [`Import::push_block`].
    pub fn end_input(&mut self) {
        self.is_fed = false;
    }

    /// Records how long the last slice took, and whether the node is idle. If the slice ended with a commit, this
    /// adapts the batch size.
    pub fn observe_slice(&mut self, time: Duration, is_idle: bool) {
        self.batch_size.set_idle(is_idle);
        if std::mem::take(&mut self.has_committed) {
            self.batch_size.observe_commit(time);
        }
        self.importer.set_batch_rows(self.batch_size.rows);
    }

    /// Imports blocks for one slice, or until the next block is needed. A commit or a wait for the disk ends the slice.
    pub fn work(&mut self, time: Timestamp, running: Duration, budget: &mut Budget) -> ImportProgress {
        if self.has_failed {
            if let Err(error) = self.importer.retry() {
                return ImportProgress::Failed(error);
            }
            self.has_failed = false;
        }
        while !budget.is_exhausted() && !self.needs_block() {
            budget.charge(UNITS_PER_STEP);
            match self.importer.step(time) {
                Ok(chain::ImportProgress::Working) => {}
                Ok(chain::ImportProgress::Syncing) => return ImportProgress::Working,
                Ok(chain::ImportProgress::Committed { first, last }) => {
                    self.has_committed = true;
                    return ImportProgress::Committed { first, last };
                }
                Ok(chain::ImportProgress::Done) => {
                    self.report(running, true);
                    return ImportProgress::Ended(Ok(()));
                }
                Err(ImportError::Block(_, BlockError::Store(error))) => {
                    self.has_failed = true;
                    return ImportProgress::Failed(error);
                }
                Err(error) => {
                    self.report(running, true);
                    return ImportProgress::Ended(Err(error));
                }
            }
        }
        self.report(running, false);
        ImportProgress::Working
    }

    fn report(&mut self, running: Duration, is_done: bool) {
        if self.importer.committed() == self.start_height {
            return;
        }
        let (now, progress) = (running.as_millis() as u64, commands::progress_of(&self.importer, self.target));
        let line = if is_done { Some(self.meter.finish(now, &progress)) } else { self.meter.report(now, &progress) };
        line.iter().for_each(|line| (self.show)(line));
    }

    /// Makes the next slices commit what is imported so far. Returns whether there is anything to commit.
    pub fn request_commit(&mut self) -> bool {
        self.importer.request_commit()
    }

    /// Commits what is imported so far. Returns the first and the last block that became visible.
    pub fn commit(&mut self) -> Result<Option<(Height, Height)>, BlockError> {
        Ok(match self.importer.commit()? {
            chain::ImportProgress::Committed { first, last } => Some((first, last)),
            _ => None,
        })
    }
}

/// Number of changed rows per commit, adapted to the speed of the machine: a commit copies the changed rows, and
/// nothing is answered meanwhile. Larger batches write fewer pages per block, so commits may take longer while the node
/// is idle; the first client then waits for at most one such commit.
#[derive(Debug)]
struct BatchSize {
    rows: u32,
    is_idle: bool,
}

impl Default for BatchSize {
    fn default() -> BatchSize {
        BatchSize { rows: BatchSize::INITIAL_ROWS, is_idle: false }
    }
}

impl BatchSize {
    const INITIAL_ROWS: u32 = 2_000;
    const MIN_ROWS: u32 = 1_000;
    const MAX_ROWS: u32 = 80_000;
    /// Maximum duration of a commit while clients are active, and while the node is idle.
    const MAX_COMMIT_TIME: Duration = Duration::from_millis(8);
    const MAX_COMMIT_TIME_IDLE: Duration = Duration::from_millis(30);

    /// Records whether the node is idle.
    fn set_idle(&mut self, is_idle: bool) {
        if std::mem::replace(&mut self.is_idle, is_idle) && !is_idle {
            let part = f64::from(self.rows) * Self::MAX_COMMIT_TIME.div_duration_f64(Self::MAX_COMMIT_TIME_IDLE);
            self.set(part as u32);
        }
    }

    /// Records how long a commit took.
    fn observe_commit(&mut self, time: Duration) {
        let limit = if self.is_idle { Self::MAX_COMMIT_TIME_IDLE } else { Self::MAX_COMMIT_TIME };
        self.set(match time {
            _ if time > limit => self.rows - self.rows / 4,
            _ if time < limit * 2 / 3 => self.rows + self.rows / 8,
            _ => self.rows,
        });
    }

    fn set(&mut self, rows: u32) {
        self.rows = rows.clamp(Self::MIN_ROWS, Self::MAX_ROWS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates commits on a machine with this cost per row; returns the duration of the last commit.
    fn commits(size: &mut BatchSize, is_alone: bool, count: usize, of_row: Duration) -> Duration {
        (0..count).fold(Duration::ZERO, |_, _| {
            size.set_idle(is_alone);
            let time = of_row * size.rows;
            size.observe_commit(time);
            time
        })
    }

    #[test]
    fn the_commit_size_adapts_to_the_speed_of_the_machine() {
        for (is_alone, most) in [(false, BatchSize::MAX_COMMIT_TIME), (true, BatchSize::MAX_COMMIT_TIME_IDLE)] {
            for of_row in [500, 1_000, 5_000].map(Duration::from_nanos) {
                let time = commits(&mut BatchSize::default(), is_alone, 60, of_row);
                assert!(time <= most && time > most / 2, "{is_alone}, {of_row:?} for each row: {time:?}");
            }
        }
    }

    #[test]
    fn the_first_client_request_shortens_commits_at_once() {
        let (mut size, of_row) = (BatchSize::default(), Duration::from_nanos(700));
        assert!(commits(&mut size, true, 60, of_row) > BatchSize::MAX_COMMIT_TIME_IDLE / 2);
        assert!(commits(&mut size, false, 1, of_row) <= BatchSize::MAX_COMMIT_TIME);
    }

    #[test]
    fn a_batch_is_never_smaller_or_larger_than_its_limits() {
        let mut size = BatchSize::default();
        commits(&mut size, true, 100, Duration::from_secs(1));
        assert_eq!(size.rows, BatchSize::MIN_ROWS);
        commits(&mut size, true, 100, Duration::ZERO);
        assert_eq!(size.rows, BatchSize::MAX_ROWS);
    }
}
