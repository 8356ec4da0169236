//! Blocks of files, taken in while the node runs.

use std::time::Duration;

use super::UNITS_PER_STEP;
use crate::api::Budget;
use crate::chain::{BlockError, Intake, IntakeError, IntakeOptions, IntakeProgress};
use crate::commands;
use crate::model::{Block, Height, Timestamp};
use crate::progress::{Meter, Style};
use crate::store::StoreError;

/// Steps of an intake, and blocks, after which these are committed, whatever they have changed.
pub const BATCH: IntakeOptions =
    IntakeOptions { batch_steps: BatchSize::MOST, batch_blocks: 256, stop_at: None, trusted_below: Height(0) };

/// What a slice of the import has come to.
pub enum Imported {
    /// Work goes on.
    Working,
    /// These blocks have become visible, and are durable soon.
    Committed { first: Height, last: Height },
    /// The store has failed. What was not committed is taken in again with the next slice.
    Failed(StoreError),
    /// There is nothing left to take in, or nothing more can be.
    Ended(Result<(), IntakeError>),
}

/// An intake, and how large its batches are.
pub struct Import<'s> {
    intake: Intake<'s>,
    size: BatchSize,
    /// The last slice ended with a commit, and how long it took is not known yet.
    has_committed: bool,
    /// The store has failed since the last commit.
    has_failed: bool,
    /// Blocks are handed over instead of being read, and more of them may come.
    is_handed: bool,
    /// The last height, if it is known.
    target: Option<u64>,
    meter: Meter,
    /// Height before the first block that is taken in.
    from: Height,
    show: fn(&str),
}

impl<'s> Import<'s> {
    /// Progress is shown in this style, by `show`.
    pub fn new(mut intake: Intake<'s>, style: Style, show: fn(&str)) -> Import<'s> {
        intake.allow_retry();
        Import::of(intake, None, Duration::ZERO, (style, show))
    }

    /// One of blocks that are handed over, up to a height, which begins now. After a failure of the store it cannot go on.
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

    /// Whether a block is to be handed over.
    pub fn wants_block(&self) -> bool {
        self.is_handed && self.intake.wants_block()
    }

    /// Hands over the next block.
    pub fn hand_over(&mut self, block: Box<Block>) {
        self.intake.hand_over(block);
    }

    /// No more blocks are handed over.
    pub fn finish(&mut self) {
        self.is_handed = false;
    }

    /// Takes note of how long the last slice took, and whether no client asks anything. If it was a commit, the next batch
    /// is made smaller or larger.
    pub fn took(&mut self, time: Duration, is_alone: bool) {
        self.size.heed(is_alone);
        if std::mem::take(&mut self.has_committed) {
            self.size.committed(time);
        }
        self.intake.set_batch_rows(self.size.rows);
    }

    /// Works on blocks for one slice, or until another one is to be handed over. A commit ends it, and so does waiting for the
    /// disk.
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

    /// Has what was taken in so far committed by the next slices. Whether there is any of it.
    pub fn commit_soon(&mut self) -> bool {
        self.intake.commit_soon()
    }

    /// Commits what was taken in so far. Returns the first and the last block that have become visible with it.
    pub fn commit(&mut self) -> Result<Option<(Height, Height)>, BlockError> {
        Ok(match self.intake.commit()? {
            IntakeProgress::Committed { first, last } => Some((first, last)),
            _ => None,
        })
    }
}

/// How many changed rows are committed at once. A commit copies what has changed, and nobody is answered meanwhile: the
/// number follows the speed of the machine. The larger a batch, the fewer pages are written for each block, so that a
/// commit may take longer while no client asks anything; the first that asks may wait so long.
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
    /// How long a commit may take while clients ask, and while none does.
    const TIME: Duration = Duration::from_millis(8);
    const TIME_ALONE: Duration = Duration::from_millis(30);

    /// Takes note of whether no client asks anything.
    fn heed(&mut self, is_alone: bool) {
        if std::mem::replace(&mut self.is_alone, is_alone) && !is_alone {
            let part = f64::from(self.rows) * Self::TIME.div_duration_f64(Self::TIME_ALONE);
            self.set(part as u32);
        }
    }

    /// Takes note of how long a commit took.
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

    /// Commits on a machine that takes so long for each row; returns the time of the last of them.
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
