//! Errors of state changes.

use std::fmt;

use crate::store::StoreError;

/// A failure while changing or reading the state.
#[derive(Debug)]
pub enum StateError {
    /// The store failed; the block may be valid.
    Store(StoreError),
    /// The change is impossible, so the block is invalid. Holds the reason.
    Impossible(String),
    /// The transaction has an invalid argument. Holds NIS1's text.
    Argument(String),
    /// A number is out of range. Holds NIS1's text.
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

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::Store(error) => error.fmt(f),
            StateError::Impossible(why) | StateError::Argument(why) => f.write_str(why),
            StateError::Arithmetic(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for StateError {}

impl From<StoreError> for StateError {
    fn from(error: StoreError) -> Self {
        StateError::Store(error)
    }
}
