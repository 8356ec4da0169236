//! Blocks of files, taken in while the node runs.

use std::time::Duration;

use crate::api::Budget;
use crate::chain::{BlockError, Intake, IntakeError, IntakeProgress};
use crate::commands;
use crate::model::{Height, Timestamp};
use crate::progress::{Meter, Style};
use crate::store::StoreError;

/// Steps of an intake after which its blocks are committed, whatever they cost.
pub const BATCH_STEPS: u32 = 1_500;
/// Blocks after which an intake commits, to begin with and at most. Nobody is answered during a commit, so their
/// number follows the time that commits take on this disk.
pub const BATCH_BLOCKS: u32 = 24;
const MAX_BATCH_BLOCKS: u32 = 256;
/// How long a commit should take.
const COMMIT_TIME: Duration = Duration::from_millis(3);
/// Units that a step costs: most of them verify a signature or carry out a transaction.
const UNITS_PER_STEP: u32 = 50;

/// What a slice of the import has come to.
pub enum Imported {
    /// Work goes on.
    Working,
    /// These blocks have become visible and durable.
    Committed { first: Height, last: Height },
    /// The store has failed. What was not committed is taken in again with the next slice.
    Failed(StoreError),
    /// There is nothing left to take in, or nothing more can be.
    Ended(Result<(), IntakeError>),
}

/// An intake, and how large its batches are.
pub struct Import<'s> {
    intake: Intake<'s>,
    batch_blocks: u32,
    /// Time spent on blocks since the last commit.
    worked: Duration,
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
    pub fn new(intake: Intake<'s>, style: Style, show: fn(&str)) -> Import<'s> {
        let meter = Meter::new(style, 0, &commands::progress_of(&intake, None));
        let (from, batch_blocks, worked) = (intake.committed(), BATCH_BLOCKS, Duration::ZERO);
        Import { intake, batch_blocks, worked, has_committed: false, has_failed: false, meter, from, show }
    }

    /// Takes note of how long the last slice took.
    pub fn took(&mut self, time: Duration) {
        if std::mem::take(&mut self.has_committed) {
            self.adapt(time);
        } else {
            self.worked += time;
        }
    }

    /// Makes the next batch smaller or larger, after a commit that took this long: short enough for those who wait
    /// meanwhile, but at least half as long as the work before it, as a commit has a price however small it is.
    fn adapt(&mut self, commit: Duration) {
        let worked = std::mem::take(&mut self.worked);
        if worked < commit * 2 {
            self.batch_blocks = (self.batch_blocks * 5 / 4 + 1).min(MAX_BATCH_BLOCKS);
        } else if commit > COMMIT_TIME {
            self.batch_blocks = (self.batch_blocks * 3 / 4).max(1);
        } else if commit < COMMIT_TIME / 2 {
            self.batch_blocks = (self.batch_blocks + 4).min(MAX_BATCH_BLOCKS);
        }
        self.intake.set_batch_blocks(self.batch_blocks);
    }

    /// Works on blocks for one slice. A commit ends it.
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
