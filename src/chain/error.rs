//! Why a block is refused.

use std::fmt;

use crate::codec::ReadError;
use crate::model::Height;
use crate::state::StateError;
use crate::store::StoreError;

/// A block that cannot be taken in.
#[derive(Debug)]
pub enum BlockError {
    /// Its bytes are no block.
    Unreadable(ReadError),
    /// It is not the one after the tip.
    Height { expected: Height, found: Height },
    /// It names another block before it.
    Parent,
    /// Its kind does not fit its height.
    Kind,
    /// Its signature is wrong.
    Signature,
    /// The signature of the transaction with this index, or of a cosignature in it, is wrong.
    TransactionSignature(usize),
    /// It is the block of the treasury re-issuance and holds other transactions than the network agreed on.
    Treasury,
    /// Its time stamp makes the difficulty impossible.
    Difficulty,
    /// The nemesis block is not that of the configured network; why.
    Nemesis(&'static str),
    /// It changes the state in an impossible way; why.
    State(String),
    /// The store failed; the block may be fine.
    Store(StoreError),
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockError::Unreadable(error) => write!(f, "it cannot be read: {error}"),
            BlockError::Height { expected, found } => write!(f, "it has height {found}, expected was {expected}"),
            BlockError::Parent => f.write_str("it does not follow the block before it"),
            BlockError::Kind => f.write_str("its type does not fit its height"),
            BlockError::Signature => f.write_str("its signature is wrong"),
            BlockError::TransactionSignature(index) => write!(f, "a signature of its transaction {index} is wrong"),
            BlockError::Treasury => f.write_str("it does not hold the transactions of the treasury re-issuance"),
            BlockError::Difficulty => f.write_str("no time passes in the blocks before it"),
            BlockError::Nemesis(why) => write!(f, "the nemesis block does not fit the network: {why}"),
            BlockError::State(why) => f.write_str(why),
            BlockError::Store(error) => error.fmt(f),
        }
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
            StateError::Impossible(why) | StateError::Argument(why) => BlockError::State(why),
            StateError::Arithmetic(why) => BlockError::State(why.to_owned()),
        }
    }
}

impl From<ReadError> for BlockError {
    fn from(error: ReadError) -> Self {
        BlockError::Unreadable(error)
    }
}
