//! A block of the chain with all that is told about it: its transactions, their ids, and the accounts that they affect.

use std::collections::HashMap;

use crate::codec::Context;
use crate::crypto::PublicKey;
use crate::model::{Address, Hash256, Height, Network, Transaction};
use crate::state::affected_in_block;
use crate::store::{Read, StoreError, StoredHeader, block_row, parent_hash, stored_block};

/// A block that is or was in the chain. It needs no store, so it can be kept when the block is undone.
#[derive(Clone, Debug)]
pub struct ConfirmedBlock {
    /// Its header.
    pub header: StoredHeader,
    /// Hash of its parent.
    pub parent: Hash256,
    /// Key that signed it.
    pub signer: PublicKey,
    /// The account credited with its fees.
    pub harvester: Address,
    /// Bytes of its transactions in the store.
    pub bytes: usize,
    /// Its top-level transactions with their ids.
    pub transactions: Vec<(u64, Transaction)>,
    /// The indexes of the transactions that affect an account, ascending.
    pub by_account: HashMap<Address, Vec<u32>>,
}

impl ConfirmedBlock {
    /// Reads the block at a height; `None` if the chain has none.
    pub fn read(state: &impl Read, height: Height, network: &Network) -> Result<Option<ConfirmedBlock>, StoreError> {
        let Some((header, block)) = stored_block(state, height, Context::of(network))? else { return Ok(None) };
        let affected = affected_in_block(state, height)?;
        if affected.len() != block.transactions.len() {
            return Err(StoreError::Damaged("the accounts that a block affects"));
        }
        let mut addresses = HashMap::new();
        let mut by_account: HashMap<Address, Vec<u32>> = HashMap::new();
        for (index, (_, accounts)) in (0..).zip(&affected) {
            for account in accounts {
                let address = match addresses.get(&account.0) {
                    Some(address) => *address,
                    None => *addresses.entry(account.0).or_insert(account.address(state)?),
                };
                by_account.entry(address).or_default().push(index);
            }
        }
        let signer = block.signer;
        let harvester = header.beneficiary.unwrap_or_else(|| Address::from_public_key(&signer, network.byte));
        let ids = affected.into_iter().map(|(id, _)| id);
        let transactions = ids.zip(block.transactions).collect();
        let parent = parent_hash(state, height)?;
        let bytes = block_row(state, height)?.map_or(0, |row| row.transaction_bytes());
        Ok(Some(ConfirmedBlock { header, parent, signer, harvester, bytes, transactions, by_account }))
    }
}
