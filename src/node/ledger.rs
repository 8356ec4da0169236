//! What the interface reads, from a snapshot of the store.

use crate::api::{
    AccountInfo, AccountMeta, Failure, FoundTransaction, Ledger, MultisigInfo, NodeStatus, RemoteStatus,
    TransactionLookup,
};
use crate::codec::Context;
use crate::model::{Address, Amount, Block, Hash256, Height, MosaicDefinition, MosaicId, Network, Timestamp};
use crate::pool::Confirmed;
use crate::state::{self, Account, LinkPhase, assign_ids};
use crate::store::{Snapshot, StoreError, stored_block, tip};

/// A snapshot of the store as the interface reads it.
pub struct ChainLedger<'a> {
    /// The last commit.
    pub snapshot: &'a Snapshot<'a>,
    /// The network.
    pub network: &'a Network,
    /// Height of the snapshot.
    pub height: Height,
    /// What `/status` tells.
    pub status: NodeStatus,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        // The client can do nothing about it; the operator must hear of it.
        log::error!("{error}");
        Failure::internal("the node's store failed")
    }
}

impl<'a> ChainLedger<'a> {
    /// The same state as the pool is told of it.
    pub fn confirmed(&self, now: Timestamp) -> Confirmed<'a> {
        Confirmed { snapshot: self.snapshot, network: self.network, height: self.height, now }
    }
}

impl ChainLedger<'_> {
    fn context(&self) -> Context {
        Context::of(self.network).trusting()
    }

    fn info(&self, address: &Address, account: &Account, cosignatories: usize) -> Result<AccountInfo, Failure> {
        let balance = account.balance.at(self.height, &self.network.chain);
        let importance = state::importance(self.snapshot, address)?.map_or(0.0, |last| last.importance);
        Ok(AccountInfo {
            address: *address,
            public_key: account.public_key,
            balance: Amount(balance.total()),
            vested_balance: Amount(balance.vested),
            harvested_blocks: account.harvested_blocks,
            importance,
            multisig: (cosignatories > 0).then_some(MultisigInfo {
                cosignatories: cosignatories as u32,
                min_cosignatories: account.min_cosignatories,
            }),
        })
    }

    fn infos(&self, addresses: Vec<Address>) -> Result<Vec<AccountInfo>, Failure> {
        addresses.iter().map(|address| self.account(address)).collect()
    }
}

impl Ledger for ChainLedger<'_> {
    fn height(&self) -> Result<Height, Failure> {
        Ok(self.height)
    }

    /// Never: the state lies in the store and needs no loading.
    fn is_loading(&self) -> bool {
        false
    }

    fn node_status(&self) -> NodeStatus {
        self.status
    }

    fn block(&self, height: Height) -> Result<Option<Block>, Failure> {
        Ok(stored_block(self.snapshot, height, self.context())?.map(|(_, block)| block))
    }

    fn transaction(&self, hash: &Hash256) -> Result<TransactionLookup, Failure> {
        let Some(entry) = state::hash_entry(self.snapshot, hash)? else { return Ok(TransactionLookup::Unknown) };
        let Some(index) = entry.index else { return Ok(TransactionLookup::Nested) };
        let (header, mut block) = stored_block(self.snapshot, entry.height, self.context())?
            .ok_or(StoreError::Damaged("the block of a transaction"))?;
        let id = assign_ids(&block, header.ids.0).0.get(index as usize).copied();
        let id = id.ok_or(StoreError::Damaged("the place of a transaction"))?;
        let transaction = block.transactions.swap_remove(index as usize);
        Ok(TransactionLookup::Found(Box::new(FoundTransaction { transaction, height: entry.height, id })))
    }

    fn account(&self, address: &Address) -> Result<AccountInfo, Failure> {
        let account = state::account(self.snapshot, address)?;
        let cosignatories = state::cosignatories(self.snapshot, address)?.len();
        self.info(address, &account, cosignatories)
    }

    fn account_meta(&self, address: &Address) -> Result<AccountMeta, Failure> {
        let account = state::account(self.snapshot, address)?;
        Ok(AccountMeta {
            unlocked: false,
            remote_status: remote_status(&account, self.height, self.network),
            cosignatory_of: self.infos(state::cosignatory_of(self.snapshot, address)?)?,
            cosignatories: self.infos(state::cosignatories(self.snapshot, address)?)?,
        })
    }

    fn mosaic_definition(&self, id: &MosaicId) -> Result<Option<MosaicDefinition>, Failure> {
        Ok(state::mosaic_definition(self.snapshot, id)?)
    }
}

/// The status as the interface names it (specification 03 §19.2).
fn remote_status(account: &Account, height: Height, network: &Network) -> RemoteStatus {
    match account.remote_status(height, network.chain.rewrite_limit) {
        state::RemoteStatus::NotSet | state::RemoteStatus::Owner(LinkPhase::Inactive) => RemoteStatus::Inactive,
        state::RemoteStatus::Owner(LinkPhase::Activating) => RemoteStatus::Activating,
        state::RemoteStatus::Owner(LinkPhase::Active) => RemoteStatus::Active,
        state::RemoteStatus::Owner(LinkPhase::Deactivating) => RemoteStatus::Deactivating,
        state::RemoteStatus::Remote(_) => RemoteStatus::Remote,
    }
}

/// Height of the last block of a snapshot; 1 while there is none.
pub fn height_of(snapshot: &Snapshot<'_>) -> Result<Height, StoreError> {
    Ok(tip(snapshot)?.map_or(Height::NEMESIS, |tip| tip.height))
}
