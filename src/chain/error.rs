//! Why a block is rejected.

use std::fmt;

use crate::codec::ReadError;
use crate::importance::ImportanceError;
use crate::model::Height;
use crate::rules::{Exception, Rejection, ValidationResult};
use crate::state::StateError;
use crate::store::StoreError;

/// A reason why a block cannot be processed.
#[derive(Debug)]
pub enum BlockError {
    /// Its bytes are not a block.
    Unreadable(ReadError),
    /// Its height is not that of the tip plus one.
    Height { expected: Height, found: Height },
    /// It names another parent than the tip.
    Parent,
    /// A rule rejects it, or its transaction with this index.
    Rejected(ValidationResult, Option<usize>),
    /// It, or its transaction with this index, is invalid, and NIS1 has an exception text instead of a result.
    Exception(Exception, Option<usize>),
    /// Its time stamps make the difficulty undefined.
    ZeroElapsedTime,
    /// The nemesis block is not that of the configured network; the reason.
    Nemesis(&'static str),
    /// It changes the state in an impossible way; the reason.
    Impossible(String),
    /// The importances after it cannot be computed.
    Importance(ImportanceError),
    /// The store failed; the block may be valid.
    Store(StoreError),
}

impl BlockError {
    /// Converts a rejection by a rule, of the block or of the transaction with an index.
    pub fn from_rejection(rejection: Rejection, transaction: Option<usize>) -> BlockError {
        match rejection {
            Rejection::Result(result) => BlockError::Rejected(result, transaction),
            Rejection::Exception(exception) => BlockError::Exception(exception, transaction),
            Rejection::Store(error) => BlockError::Store(error),
        }
    }
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockError::Unreadable(error) => write!(f, "it cannot be read: {error}"),
            BlockError::Height { expected, found } => write!(f, "it has height {found} instead of {expected}"),
            BlockError::Parent => f.write_str("it does not follow the block before it"),
            BlockError::Rejected(result, transaction) => {
                write_transaction_prefix(f, *transaction)?;
                match explanation(*result) {
                    Some(text) => write!(f, "{text} ({})", result.name()),
                    None => f.write_str(result.name()),
                }
            }
            BlockError::Exception(exception, transaction) => {
                write_transaction_prefix(f, *transaction)?;
                f.write_str(&exception.text)
            }
            BlockError::ZeroElapsedTime => f.write_str("the time stamps of the blocks before it do not advance"),
            BlockError::Nemesis(why) => write!(f, "the nemesis block does not belong to the network: {why}"),
            BlockError::Impossible(why) => f.write_str(why),
            BlockError::Importance(error) => error.fmt(f),
            BlockError::Store(error) => error.fmt(f),
        }
    }
}

fn write_transaction_prefix(f: &mut fmt::Formatter<'_>, transaction: Option<usize>) -> fmt::Result {
    transaction.map_or(Ok(()), |index| write!(f, "its transaction {index}: "))
}

/// Returns a text for results that concern the block itself. For the others the name is enough.
fn explanation(result: ValidationResult) -> Option<&'static str> {
    match result {
        ValidationResult::FailureBlockUnexpectedHeight => Some("its height is not the next one"),
        ValidationResult::FailureBlockUnverifiable => Some("its signature is wrong, or it follows another block"),
        ValidationResult::FailureBlockNotHit => Some("its signer may not harvest a block at that time"),
        ValidationResult::FailureTransactionUnverifiable => Some("a signature is wrong"),
        ValidationResult::FailureTransactionDuplicateInChain => Some("the block contains it twice"),
        ValidationResult::Neutral => Some("a transaction is already in the chain"),
        ValidationResult::FailureUnknown => Some("it does not contain the transactions that the network agreed on"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_is_explained_if_it_concerns_the_block_itself() {
        for (result, text) in [
            (ValidationResult::FailureBlockUnexpectedHeight, "its height is not the next one"),
            (ValidationResult::FailureBlockUnverifiable, "its signature is wrong, or it follows another block"),
            (ValidationResult::FailureBlockNotHit, "its signer may not harvest a block at that time"),
            (ValidationResult::FailureTransactionUnverifiable, "a signature is wrong"),
            (ValidationResult::FailureTransactionDuplicateInChain, "the block contains it twice"),
            (ValidationResult::Neutral, "a transaction is already in the chain"),
            (ValidationResult::FailureUnknown, "it does not contain the transactions that the network agreed on"),
        ] {
            assert_eq!(BlockError::Rejected(result, None).to_string(), format!("{text} ({result})"));
        }
        assert_eq!(
            BlockError::Rejected(ValidationResult::FailureInsufficientFee, None).to_string(),
            "FAILURE_INSUFFICIENT_FEE"
        );
    }

    #[test]
    fn a_rejection_names_the_transaction_that_causes_it() {
        let rejected = BlockError::Rejected(ValidationResult::FailureInsufficientFee, Some(7));
        assert_eq!(rejected.to_string(), "its transaction 7: FAILURE_INSUFFICIENT_FEE");
        let exception = BlockError::Exception(Exception::argument("no such account"), Some(0));
        assert_eq!(exception.to_string(), "its transaction 0: no such account");
    }
}
