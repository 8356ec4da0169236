//! What the interface reads. The chain store answers it; nothing here changes anything.

use super::catalogue::Catalogue;
use super::failure::Failure;
use crate::crypto::PublicKey;
use crate::model::{Address, Amount, Block, Hash256, Height, MosaicDefinition, MosaicId, Transaction};

/// A read-only view of chain, state and node, the same for the whole of one request.
pub trait Ledger: Catalogue {
    /// Height of the last block.
    fn height(&self) -> Result<Height, Failure>;
    /// Whether the chain is still being read into memory (specification 06 §2.2).
    fn is_loading(&self) -> bool;
    /// What `/status` tells; asked only when not loading.
    fn node_status(&self) -> NodeStatus;
    /// The block at a height, if there is one.
    fn block(&self, height: Height) -> Result<Option<Block>, Failure>;
    /// The confirmed transaction with a hash.
    fn transaction(&self, hash: &Hash256) -> Result<TransactionLookup, Failure>;
    /// The account of an address. An address the chain has not seen has an empty account.
    fn account(&self, address: &Address) -> Result<AccountInfo, Failure>;
    /// What else is known about the account of an address.
    fn account_meta(&self, address: &Address) -> Result<AccountMeta, Failure>;
    /// The definition of a mosaic that the state goes by, `nem:xem` included.
    fn mosaic_definition(&self, id: &MosaicId) -> Result<Option<MosaicDefinition>, Failure>;
}

/// How far the node is (specification 06 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStatus {
    /// Not booted.
    Running,
    /// Boot in progress.
    Booting,
    /// Booted, not synchronised.
    Booted,
    /// Booted, and no partner has a greater height.
    Synchronized,
    /// Booted, but no other node is active.
    NoRemoteNode,
    /// The chain is being loaded.
    Loading,
}

impl NodeStatus {
    /// The number on the wire.
    pub fn code(self) -> i32 {
        match self {
            NodeStatus::Running => 3,
            NodeStatus::Booting => 4,
            NodeStatus::Booted => 5,
            NodeStatus::Synchronized => 6,
            NodeStatus::NoRemoteNode => 7,
            NodeStatus::Loading => 8,
        }
    }
}

/// What is known about a hash.
#[derive(Clone, Debug, PartialEq)]
pub enum TransactionLookup {
    /// No transaction has it, or it was forgotten after the retention time.
    Unknown,
    /// It is that of an inner transaction or of a cosignature.
    Nested,
    /// It is that of a transaction of a block.
    Found(Box<FoundTransaction>),
}

/// A transaction and its place in the chain.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundTransaction {
    /// The transaction.
    pub transaction: Transaction,
    /// Height of its block.
    pub height: Height,
    /// Its number in the node-wide sequence (specification 06 §6.6).
    pub id: u64,
}

/// An account as the interface shows it (specification 06 §6.2).
#[derive(Clone, Debug, PartialEq)]
pub struct AccountInfo {
    /// Its address.
    pub address: Address,
    /// Its key, if the chain has shown it.
    pub public_key: Option<PublicKey>,
    /// Confirmed balance.
    pub balance: Amount,
    /// Vested part of the balance at the last block.
    pub vested_balance: Amount,
    /// Blocks harvested.
    pub harvested_blocks: u64,
    /// Last computed importance, 0 if there is none.
    pub importance: f64,
    /// Set if it has cosignatories.
    pub multisig: Option<MultisigInfo>,
}

/// How many sign for a multisig account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultisigInfo {
    /// Number of cosignatories.
    pub cosignatories: u32,
    /// Signatures needed, as the state holds it: 0 stands for all. (Specification 06 §6.2 speaks of the effective
    /// number, but a real node shows this one.)
    pub min_cosignatories: u32,
}

/// What goes with an account (specification 06 §6.2).
#[derive(Clone, Debug, PartialEq)]
pub struct AccountMeta {
    /// Whether it harvests on this node; the ledger does not know, see [`super::account_meta`].
    pub unlocked: bool,
    /// State of remote harvesting.
    pub remote_status: RemoteStatus,
    /// Multisig accounts it signs for.
    pub cosignatory_of: Vec<AccountInfo>,
    /// Accounts that sign for it.
    pub cosignatories: Vec<AccountInfo>,
}

/// State of remote harvesting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteStatus {
    /// Off.
    Inactive,
    /// Lent, not yet in effect.
    Activating,
    /// Lent.
    Active,
    /// Taken back, still in effect.
    Deactivating,
    /// This is the remote account.
    Remote,
}

impl RemoteStatus {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            RemoteStatus::Inactive => "INACTIVE",
            RemoteStatus::Activating => "ACTIVATING",
            RemoteStatus::Active => "ACTIVE",
            RemoteStatus::Deactivating => "DEACTIVATING",
            RemoteStatus::Remote => "REMOTE",
        }
    }
}
