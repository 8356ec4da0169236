//! State changes by transactions and blocks.
//!
//! A transaction is converted to [`Effect`]s, which a [`Ledger`] applies one after another. A rollback does not invert
//! effects: the store restores the old values.

mod account;
mod account_ids;
mod account_tx_list;
mod balance;
mod bytes;
mod dump;
mod expiry;
mod harvests;
mod hashes;
mod importances;
mod ledger;
mod mosaics;
mod namespaces;
pub mod registry;

pub use account::*;
pub use account_tx_list::*;
pub use balance::*;
pub use dump::*;
pub use expiry::*;
pub use harvests::*;
pub use hashes::{TOTALS_KEY as HASH_TOTALS_KEY, *};
pub use importances::*;
pub use ledger::*;
pub use mosaics::*;
pub use namespaces::*;

use crate::store::StoreError;

/// Invalid input for which NIS1 has an exception text, held here, instead of a result code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exception {
    /// Illegal argument.
    #[error("{0}")]
    Argument(String),
    /// Any other exception.
    #[error("{0}")]
    Other(String),
}

impl Exception {
    /// Creates an illegal-argument exception.
    pub fn argument(text: impl ToString) -> Exception {
        Exception::Argument(text.to_string())
    }
}

/// A failure while changing or reading the state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The store failed; the block may be valid.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The change is impossible, so the block is invalid.
    #[error("{0}")]
    Exception(#[from] Exception),
}

/// Result of a change of the state.
pub type StateResult<T = ()> = Result<T, StateError>;

impl StateError {
    /// Creates the error for a change that NIS1 cannot make either. Holds the reason.
    pub fn impossible(why: impl Into<String>) -> StateError {
        Exception::Other(why.into()).into()
    }
}
