//! Why a block is refused.

use std::fmt;

use crate::codec::ReadError;
use crate::importance::ImportanceError;
use crate::model::Height;
use crate::rules::{Exception, Refusal, ValidationResult};
use crate::state::StateError;
use crate::store::StoreError;

/// A block that cannot be taken in.
#[derive(Debug)]
pub enum BlockError {
    /// Its bytes are no block.
    Unreadable(ReadError),
    /// It has another height than the one after the last block.
    Height { expected: Height, found: Height },
    /// It names another block as the one before it.
    Parent,
    /// A rule refuses it, or the transaction in it with this index.
    Refused(ValidationResult, Option<usize>),
    /// It, or the transaction in it with this index, is wrong in a way for which NIS1 has a text instead of a result.
    Exception(Exception, Option<usize>),
    /// Its time stamps make the difficulty impossible.
    NoTimePasses,
    /// The nemesis block is not that of the configured network; why.
    Nemesis(&'static str),
    /// It changes the state in an impossible way; why.
    Impossible(String),
    /// The importances after it cannot be computed.
    Importance(ImportanceError),
    /// The store failed; the block may be fine.
    Store(StoreError),
}

impl BlockError {
    /// What a rule said, of the block or of a transaction in it.
    pub fn by_rule(refusal: Refusal, transaction: Option<usize>) -> BlockError {
        match refusal {
            Refusal::Result(result) => BlockError::Refused(result, transaction),
            Refusal::Exception(exception) => BlockError::Exception(exception, transaction),
            Refusal::Store(error) => BlockError::Store(error),
        }
    }
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockError::Unreadable(error) => write!(f, "it cannot be read: {error}"),
            BlockError::Height { expected, found } => write!(f, "it has height {found}, expected was {expected}"),
            BlockError::Parent => f.write_str("it does not follow the block before it"),
            BlockError::Refused(result, transaction) => {
                concerned(f, *transaction)?;
                match explanation(*result) {
                    Some(text) => write!(f, "{text} ({})", result.name()),
                    None => f.write_str(result.name()),
                }
            }
            BlockError::Exception(exception, transaction) => {
                concerned(f, *transaction)?;
                f.write_str(&exception.text)
            }
            BlockError::NoTimePasses => f.write_str("no time passes in the blocks before it"),
            BlockError::Nemesis(why) => write!(f, "the nemesis block does not fit the network: {why}"),
            BlockError::Impossible(why) => f.write_str(why),
            BlockError::Importance(error) => error.fmt(f),
            BlockError::Store(error) => error.fmt(f),
        }
    }
}

fn concerned(f: &mut fmt::Formatter<'_>, transaction: Option<usize>) -> fmt::Result {
    transaction.map_or(Ok(()), |index| write!(f, "its transaction {index}: "))
}

/// Words for the results that concern the block itself; for the others the name is enough.
fn explanation(result: ValidationResult) -> Option<&'static str> {
    match result {
        ValidationResult::FailureBlockUnexpectedHeight => Some("its height is not the next one"),
        ValidationResult::FailureBlockUnverifiable => Some("its signature is wrong, or it follows another block"),
        ValidationResult::FailureBlockNotHit => Some("its signer may not make a block at that time"),
        ValidationResult::FailureTransactionUnverifiable => Some("a signature is wrong"),
        ValidationResult::FailureTransactionDuplicateInChain => Some("it is there twice"),
        ValidationResult::Neutral => Some("a transaction is in the chain already"),
        ValidationResult::FailureUnknown => Some("it does not hold the transactions that the network agreed on"),
        _ => None,
    }
}

impl std::error::Error for BlockError {}

impl From<StoreError> for BlockError {
    fn from(error: StoreError) -> Self {
        BlockError::Store(error)
    }
}

impl From<StateError> for BlockError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Store(error) => BlockError::Store(error),
            other => BlockError::Impossible(other.to_string()),
        }
    }
}

impl From<ReadError> for BlockError {
    fn from(error: ReadError) -> Self {
        BlockError::Unreadable(error)
    }
}

impl From<ImportanceError> for BlockError {
    fn from(error: ImportanceError) -> Self {
        BlockError::Importance(error)
    }
}
