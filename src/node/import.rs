//! Block import while the node runs.

use std::time::Duration;

use super::UNITS_PER_STEP;
use crate::api::Budget;
use crate::chain::{BlockError, Intake, IntakeError, IntakeOptions, IntakeProgress};
use crate::commands;
use crate::model::{Block, Height, Timestamp};
use crate::progress::{Meter, Style};
use crate::store::StoreError;

/// Batch limits: steps and blocks after which a commit follows regardless of the number of changed rows.
pub const BATCH: IntakeOptions =
    IntakeOptions { batch_steps: BatchSize::MOST, batch_blocks: 256, stop_at: None, trusted_below: Height(0) };

/// Result of one slice of the import.
pub enum Imported {
    /// The import continues.
    Working,
    /// These blocks have become visible and will soon be durable.
    Committed { first: Height, last: Height },
    /// The store has failed. The next slice imports uncommitted blocks again.
    Failed(StoreError),
    /// All blocks are imported, or an error stopped the import.
    Ended(Result<(), IntakeError>),
}

/// A block import and its batch size.
pub struct Import<'s> {
    intake: Intake<'s>,
    size: BatchSize,
    /// The last slice ended with a commit whose duration is not known yet.
    has_committed: bool,
    /// The store has failed since the last commit.
    has_failed: bool,
    /// Blocks come from [`Import::hand_over`] instead of a file, and more may follow.
    is_handed: bool,
    /// The target height, if it is known.
    target: Option<u64>,
    meter: Meter,
    /// Height before the first imported block.
    from: Height,
    show: fn(&str),
}

impl<'s> Import<'s> {
    /// Creates an import that reports its progress in this style with `show`.
    pub fn new(mut intake: Intake<'s>, style: Style, show: fn(&str)) -> Import<'s> {
        intake.allow_retry();
        Import::of(intake, None, Duration::ZERO, (style, show))
    }

    /// Creates an import of blocks from [`Import::hand_over`] up to the height `target`. It cannot resume after a store
    /// failure.
    pub fn of_handed(intake: Intake<'s>, target: Height, running: Duration) -> Import<'s> {
        let import = Import::of(intake, Some(target.0), running, (commands::style(), commands::show));
        Import { is_handed: true, ..import }
    }

    fn of(
        mut intake: Intake<'s>,
        target: Option<u64>,
        running: Duration,
        (style, show): (Style, fn(&str)),
    ) -> Import<'s> {
        let meter = Meter::new(style, running.as_millis() as u64, &commands::progress_of(&intake, target));
        let from = intake.committed();
        let size = BatchSize::default();
        intake.set_batch_rows(size.rows);
        Import { intake, size, has_committed: false, has_failed: false, is_handed: false, target, meter, from, show }
    }

    /// Returns whether the import needs the next block from [`Import::hand_over`].
    pub fn wants_block(&self) -> bool {
        self.is_handed && self.intake.wants_block()
    }

    /// Passes the next block to the import.
    pub fn hand_over(&mut self, block: Box<Block>) {
        self.intake.hand_over(block);
    }

    /// Marks the end of the blocks from [`Import::hand_over`].
    pub fn finish(&mut self) {
        self.is_handed = false;
    }

    /// Records how long the last slice took, and whether the node is idle. If the slice ended with a commit, this
    /// adapts the batch size.
    pub fn took(&mut self, time: Duration, is_alone: bool) {
        self.size.heed(is_alone);
        if std::mem::take(&mut self.has_committed) {
            self.size.committed(time);
        }
        self.intake.set_batch_rows(self.size.rows);
    }

    /// Imports blocks for one slice, or until the next block is needed. A commit or a wait for the disk ends the slice.
    pub fn work(&mut self, time: Timestamp, running: Duration, budget: &mut Budget) -> Imported {
        if self.has_failed {
            if let Err(error) = self.intake.retry() {
                return Imported::Failed(error);
            }
            self.has_failed = false;
        }
        while !budget.is_spent() && !self.wants_block() {
            budget.spend(UNITS_PER_STEP);
            match self.intake.step(time) {
                Ok(IntakeProgress::Working) => {}
                Ok(IntakeProgress::Settling) => return Imported::Working,
                Ok(IntakeProgress::Committed { first, last }) => {
                    self.has_committed = true;
                    return Imported::Committed { first, last };
                }
                Ok(IntakeProgress::Done) => {
                    self.report(running, true);
                    return Imported::Ended(Ok(()));
                }
                Err(IntakeError::Block(_, BlockError::Store(error))) => {
                    self.has_failed = true;
                    return Imported::Failed(error);
                }
                Err(error) => {
                    self.report(running, true);
                    return Imported::Ended(Err(error));
                }
            }
        }
        self.report(running, false);
        Imported::Working
    }

    fn report(&mut self, running: Duration, is_done: bool) {
        if self.intake.committed() == self.from {
            return;
        }
        let (now, progress) = (running.as_millis() as u64, commands::progress_of(&self.intake, self.target));
        let line = if is_done { Some(self.meter.finish(now, &progress)) } else { self.meter.report(now, &progress) };
        line.iter().for_each(|line| (self.show)(line));
    }

    /// Makes the next slices commit what is imported so far. Returns whether there is anything to commit.
    pub fn commit_soon(&mut self) -> bool {
        self.intake.commit_soon()
    }

    /// Commits what is imported so far. Returns the first and the last block that became visible.
    pub fn commit(&mut self) -> Result<Option<(Height, Height)>, BlockError> {
        Ok(match self.intake.commit()? {
            IntakeProgress::Committed { first, last } => Some((first, last)),
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
    is_alone: bool,
}

impl Default for BatchSize {
    fn default() -> BatchSize {
        BatchSize { rows: BatchSize::FIRST, is_alone: false }
    }
}

impl BatchSize {
    const FIRST: u32 = 2_000;
    const LEAST: u32 = 1_000;
    const MOST: u32 = 80_000;
    /// Maximum duration of a commit while clients are active, and while the node is idle.
    const TIME: Duration = Duration::from_millis(8);
    const TIME_ALONE: Duration = Duration::from_millis(30);

    /// Records whether the node is idle.
    fn heed(&mut self, is_alone: bool) {
        if std::mem::replace(&mut self.is_alone, is_alone) && !is_alone {
            let part = f64::from(self.rows) * Self::TIME.div_duration_f64(Self::TIME_ALONE);
            self.set(part as u32);
        }
    }

    /// Records how long a commit took.
    fn committed(&mut self, time: Duration) {
        let limit = if self.is_alone { Self::TIME_ALONE } else { Self::TIME };
        self.set(match time {
            _ if time > limit => self.rows - self.rows / 4,
            _ if time < limit * 2 / 3 => self.rows + self.rows / 8,
            _ => self.rows,
        });
    }

    fn set(&mut self, rows: u32) {
        self.rows = rows.clamp(Self::LEAST, Self::MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates commits on a machine with this cost per row; returns the duration of the last commit.
    fn commits(size: &mut BatchSize, is_alone: bool, count: usize, of_row: Duration) -> Duration {
        (0..count).fold(Duration::ZERO, |_, _| {
            size.heed(is_alone);
            let time = of_row * size.rows;
            size.committed(time);
            time
        })
    }

    #[test]
    fn a_commit_takes_as_long_as_it_may_on_machines_of_any_speed() {
        for (is_alone, most) in [(false, BatchSize::TIME), (true, BatchSize::TIME_ALONE)] {
            for of_row in [500, 1_000, 5_000].map(Duration::from_nanos) {
                let time = commits(&mut BatchSize::default(), is_alone, 60, of_row);
                assert!(time <= most && time > most / 2, "{is_alone}, {of_row:?} for each row: {time:?}");
            }
        }
    }

    #[test]
    fn the_first_client_that_asks_makes_commits_short_at_once() {
        let (mut size, of_row) = (BatchSize::default(), Duration::from_nanos(700));
        assert!(commits(&mut size, true, 60, of_row) > BatchSize::TIME_ALONE / 2);
        assert!(commits(&mut size, false, 1, of_row) <= BatchSize::TIME);
    }

    #[test]
    fn a_batch_is_never_smaller_or_larger_than_its_limits() {
        let mut size = BatchSize::default();
        commits(&mut size, true, 100, Duration::from_secs(1));
        assert_eq!(size.rows, BatchSize::LEAST);
        commits(&mut size, true, 100, Duration::ZERO);
        assert_eq!(size.rows, BatchSize::MOST);
    }
}
