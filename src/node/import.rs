//! Blocks of files, taken in while the node runs.

use std::time::Duration;

use crate::api::Budget;
use crate::chain::{BATCH_ROWS, BlockError, Intake, IntakeError, IntakeProgress};
use crate::commands;
use crate::model::{Height, Timestamp};
use crate::progress::{Meter, Style};
use crate::store::StoreError;

/// Steps of an intake, and blocks, after which these are committed, whatever they have changed.
pub const BATCH_STEPS: u32 = 8_000;
pub const BATCH_BLOCKS: u32 = 256;
/// Changed rows after which they are committed, to begin with, and at least.
const FIRST_ROWS: u32 = 2_000;
const LEAST_ROWS: u32 = 1_000;
/// How long a commit may take. It copies what has changed, and nobody is answered meanwhile: the number of rows follows
/// the speed of the machine.
const COMMIT_TIME: Duration = Duration::from_millis(8);
/// Units that a step costs: most of them verify a signature or carry out a transaction.
pub(super) const UNITS_PER_STEP: u32 = 50;

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
    meter: Meter,
    /// Height before the first block that is taken in.
    from: Height,
    show: fn(&str),
}

impl<'s> Import<'s> {
    /// Progress is shown in this style, by `show`.
    pub fn new(mut intake: Intake<'s>, style: Style, show: fn(&str)) -> Import<'s> {
        let meter = Meter::new(style, 0, &commands::progress_of(&intake, None));
        let from = intake.committed();
        intake.set_batch_rows(FIRST_ROWS);
        intake.allow_retry();
        Import { intake, batch_rows: FIRST_ROWS, has_committed: false, has_failed: false, meter, from, show }
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

    /// Works on blocks for one slice. A commit ends it, and so does a long step on the way to the disk.
    pub fn work(&mut self, time: Timestamp, running: Duration, mut budget: Budget) -> Imported {
        if self.has_failed {
            if let Err(error) = self.intake.retry() {
                return Imported::Failed(error);
            }
            self.has_failed = false;
        }
        while !budget.is_spent() {
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
        let (now, progress) = (running.as_millis() as u64, commands::progress_of(&self.intake, None));
        let line = if is_done { Some(self.meter.finish(now, &progress)) } else { self.meter.report(now, &progress) };
        line.iter().for_each(|line| (self.show)(line));
    }

    /// Commits what was taken in so far, before the node ends.
    pub fn commit(&mut self) -> Result<(), BlockError> {
        self.intake.commit().map(drop)
    }
}
