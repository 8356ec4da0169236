//! Why a block is rejected.

use thiserror::Error;

use crate::codec::ReadError;
use crate::importance::ImportanceError;
use crate::model::Height;
use crate::rules::{Exception, Rejection, ValidationResult};
use crate::state::StateError;
use crate::store::StoreError;

/// A reason why a block cannot be processed.
#[derive(Debug, Error)]
pub enum BlockError {
    /// Its bytes are not a block.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] ReadError),
    /// Its height is not that of the tip plus one.
    #[error("it has height {found} instead of {expected}")]
    Height { expected: Height, found: Height },
    /// It names another parent than the tip.
    #[error("it does not follow the block before it")]
    Parent,
    /// A rule rejects it, or its transaction with this index.
    #[error("{}{}", transaction_prefix(*.1), explanation(*.0))]
    Rejected(ValidationResult, Option<usize>),
    /// It, or its transaction with this index, is invalid, and NIS1 has an exception text instead of a result.
    #[error("{}{}", transaction_prefix(*.1), .0)]
    Exception(Exception, Option<usize>),
    /// Its time stamps make the difficulty undefined.
    #[error("the time stamps of the blocks before it do not advance")]
    ZeroElapsedTime,
    /// The nemesis block is not that of the configured network; the reason.
    #[error("the nemesis block does not belong to the network: {0}")]
    Nemesis(&'static str),
    /// It changes the state in an impossible way; the reason.
    #[error("{0}")]
    Impossible(String),
    /// The importances after it cannot be computed.
    #[error(transparent)]
    Importance(#[from] ImportanceError),
    /// The store failed; the block may be valid.
    #[error(transparent)]
    Store(#[from] StoreError),
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

impl From<StateError> for BlockError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Store(error) => BlockError::Store(error),
            other => BlockError::Impossible(other.to_string()),
        }
    }
}

fn transaction_prefix(transaction: Option<usize>) -> String {
    transaction.map_or_else(String::new, |index| format!("its transaction {index}: "))
}

/// Returns the name of a result, after a text if it concerns the block itself. For the others the name is enough.
fn explanation(result: ValidationResult) -> String {
    let text = match result {
        ValidationResult::FailureBlockUnexpectedHeight => "its height is not the next one",
        ValidationResult::FailureBlockUnverifiable => "its signature is wrong, or it follows another block",
        ValidationResult::FailureBlockNotHit => "its signer may not harvest a block at that time",
        ValidationResult::FailureTransactionUnverifiable => "a signature is wrong",
        ValidationResult::FailureTransactionDuplicateInChain => "the block contains it twice",
        ValidationResult::Neutral => "a transaction is already in the chain",
        ValidationResult::FailureUnknown => "it does not contain the transactions that the network agreed on",
        _ => return result.name().to_owned(),
    };
    format!("{text} ({})", result.name())
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
