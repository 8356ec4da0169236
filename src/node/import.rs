//! Blocks of files, taken in while the node runs.

use std::time::Duration;

use super::UNITS_PER_STEP;
use crate::api::Budget;
use crate::chain::{BATCH_ROWS, BlockError, Intake, IntakeError, IntakeOptions, IntakeProgress};
use crate::commands;
use crate::model::{Block, Height, Timestamp};
use crate::progress::{Meter, Style};
use crate::store::StoreError;

/// Steps of an intake, and blocks, after which these are committed, whatever they have changed.
pub const BATCH: IntakeOptions =
    IntakeOptions { batch_steps: 8_000, batch_blocks: 256, stop_at: None, trusted_below: Height(0) };
/// Changed rows after which they are committed, to begin with, and at least.
const FIRST_ROWS: u32 = 2_000;
const LEAST_ROWS: u32 = 1_000;
/// How long a commit may take. It copies what has changed, and nobody is answered meanwhile: the number of rows follows
/// the speed of the machine.
const COMMIT_TIME: Duration = Duration::from_millis(8);

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
    batch_rows: u32,
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
        intake.set_batch_rows(FIRST_ROWS);
        Import {
            intake,
            batch_rows: FIRST_ROWS,
            has_committed: false,
            has_failed: false,
            is_handed: false,
            target,
            meter,
            from,
            show,
        }
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

    /// Takes note of how long the last slice took. If it was a commit, the next batch is made smaller or larger.
    pub fn took(&mut self, time: Duration) {
        if std::mem::take(&mut self.has_committed) {
            self.batch_rows = match time {
                _ if time > COMMIT_TIME => self.batch_rows - self.batch_rows / 4,
                _ if time < COMMIT_TIME * 2 / 3 => self.batch_rows + self.batch_rows / 8,
                _ => self.batch_rows,
            };
            self.batch_rows = self.batch_rows.clamp(LEAST_ROWS, BATCH_ROWS);
            self.intake.set_batch_rows(self.batch_rows);
        }
    }

    /// Works on blocks for one slice, or until another one is to be handed over. A commit ends it, and so does a long step on
    /// the way to the disk.
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

    /// Commits what was taken in so far. Returns the first and the last block that have become visible with it.
    pub fn commit(&mut self) -> Result<Option<(Height, Height)>, BlockError> {
        Ok(match self.intake.commit()? {
            IntakeProgress::Committed { first, last } => Some((first, last)),
            _ => None,
        })
    }
}
