//! What a stream tells.

use super::ApiError;
use super::feed::FeedBlock;
use crate::model::{Address, Body, MosaicId, Transaction};

/// Kinds of events that a client chooses. All others are always told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// Transactions of the chain, and undone ones.
    pub transactions: bool,
    /// Blocks.
    pub blocks: bool,
    /// Arrivals in the mempool.
    pub unconfirmed: bool,
    /// Transactions that left the mempool without being confirmed.
    pub left: bool,
}

impl Default for Kinds {
    fn default() -> Kinds {
        Kinds { transactions: true, blocks: false, unconfirmed: true, left: true }
    }
}

impl Kinds {
    /// Parses a list of names with commas.
    pub fn parse(text: &str) -> Result<Kinds, ApiError> {
        let mut kinds = Kinds { transactions: false, blocks: false, unconfirmed: false, left: false };
        for name in text.split(',') {
            match name.trim() {
                "transaction" => kinds.transactions = true,
                "block" => kinds.blocks = true,
                "unconfirmed" => kinds.unconfirmed = true,
                "left" => kinds.left = true,
                "rollback" | "undone" | "synchronising" => {}
                _ => {
                    return Err(ApiError::argument(
                        "kinds must be some of transaction, block, unconfirmed and left, with commas",
                    ));
                }
            }
        }
        Ok(kinds)
    }
}

/// What a stream tells.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Accounts, ascending; `None` for all.
    pub addresses: Option<Box<[Address]>>,
    /// The mosaic that a transaction must move, if any.
    pub mosaic: Option<MosaicId>,
    /// Kinds of events.
    pub kinds: Kinds,
    /// Confirmations that a block must have; 0 as 1, and the mempool is told too.
    pub confirmations: u64,
}

impl Filter {
    /// Returns whether the mempool is told.
    pub fn tells_mempool(&self) -> bool {
        self.confirmations == 0 && (self.kinds.unconfirmed || self.kinds.left)
    }

    /// Returns whether one of some accounts is told.
    pub fn has_one_of(&self, accounts: &[Address]) -> bool {
        let Some(addresses) = &self.addresses else { return true };
        accounts.iter().any(|account| addresses.binary_search(account).is_ok())
    }

    /// Returns whether a transaction moves the mosaic.
    pub fn moves_mosaic(&self, transaction: &Transaction) -> bool {
        let Some(wanted) = &self.mosaic else { return true };
        match &transaction.inner().unwrap_or(transaction).body {
            Body::Transfer(body) if body.mosaics.is_empty() => wanted.is_xem(),
            Body::Transfer(body) => body.mosaics.iter().any(|mosaic| mosaic.id == *wanted),
            Body::MosaicDefinitionCreation(body) => body.definition.id == *wanted,
            Body::MosaicSupplyChange(body) => body.mosaic == *wanted,
            _ => false,
        }
    }

    /// Returns the indexes of the transactions of a block that are told, ascending.
    pub fn indexes(&self, of: &FeedBlock) -> Vec<u32> {
        let block = &of.block;
        if !self.kinds.transactions {
            return Vec::new();
        }
        let mut indexes: Vec<u32> = match &self.addresses {
            None => (0..block.transactions.len() as u32).collect(),
            Some(addresses) if addresses.len() < block.by_account.len() => {
                addresses.iter().filter_map(|address| block.by_account.get(address)).flatten().copied().collect()
            }
            Some(addresses) => {
                let told = block.by_account.iter().filter(|(address, _)| addresses.binary_search(address).is_ok());
                told.flat_map(|(_, indexes)| indexes).copied().collect()
            }
        };
        indexes.sort_unstable();
        indexes.dedup();
        indexes.retain(|index| self.moves_mosaic(&block.transactions[*index as usize].1));
        indexes
    }
}
