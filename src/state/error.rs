//! Why a block cannot be applied.

use std::fmt;

use crate::store::StoreError;

/// A failure while the state is changed or read.
#[derive(Debug)]
pub enum StateError {
    /// The store failed; the block may be fine.
    Store(StoreError),
    /// The change is impossible, so the block is not valid; why.
    Impossible(String),
    /// The transaction asks for something impossible, in NIS1's words.
    Argument(String),
    /// A number leaves its range, in NIS1's words.
    Arithmetic(&'static str),
}

impl StateError {
    /// An impossible change.
    pub fn impossible(why: impl Into<String>) -> StateError {
        StateError::Impossible(why.into())
    }

    /// An illegal argument.
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
