//! Errors of state changes.

use crate::store::StoreError;

/// A failure while changing or reading the state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The store failed; the block may be valid.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The change is impossible, so the block is invalid. Holds the reason.
    #[error("{0}")]
    Impossible(String),
    /// The transaction has an invalid argument. Holds NIS1's text.
    #[error("{0}")]
    Argument(String),
    /// A number is out of range. Holds NIS1's text.
    #[error("{0}")]
    Arithmetic(&'static str),
}

impl StateError {
    /// Creates an impossible-change error.
    pub fn impossible(why: impl Into<String>) -> StateError {
        StateError::Impossible(why.into())
    }

    /// Creates an invalid-argument error.
    pub fn argument(text: impl Into<String>) -> StateError {
        StateError::Argument(text.into())
    }
}
