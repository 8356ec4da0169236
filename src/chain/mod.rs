//! Taking blocks in and rolling them back.

mod apply;
mod difficulty;
mod error;
mod intake;
mod nemesis;
mod rollback;
mod verify;

pub use difficulty::Window;
pub use error::BlockError;
pub use intake::{Intake, IntakeError, IntakeOptions, Progress};
pub use nemesis::nemesis_block;
pub use rollback::{RollbackError, rollback};
pub use verify::{Unverified, Verified};
