//! Response objects, written as JSON or binary. The websocket interface uses them for its messages too.

mod explorer;
mod node;

pub use explorer::{ExplorerBlockHead, ExplorerEntry};
pub use node::{
    ClockState, ExtendedInfo, NodeClock, NodeDescription, NodeStatus, PeersReport, ReorgsReport, RequestRecords,
    TimeSynchronisations, Timers, date_and_time,
};

/// An object of the interface.
pub use crate::codec::Writable as View;

use crate::codec;
use crate::codec::Encoder;
use crate::codec::mosaic::{truncate_name, write_definition, write_mosaic, write_mosaic_id};
use crate::crypto::PublicKey;
use crate::model::{
    Address, Amount, Block, Hash256, Height, Mosaic, MosaicDefinition, MosaicId, NamespaceId, Transaction,
};
use crate::rules::ValidationResult;
use crate::state::{AccountImportance, ExpiredMosaic, HistoryEntry};
use crate::store::StoredHeader;

/// Result of a check or an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestResult {
    /// Kind.
    pub kind: ResultKind,
    /// Code, with a meaning that depends on the kind.
    pub code: i32,
    /// Human-readable text.
    pub message: &'static str,
}

/// Kinds of [`RequestResult`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// 1: validation result.
    Validation,
    /// 2: heartbeat.
    Heartbeat,
    /// 4: status of the node.
    Status,
}

impl View for RequestResult {
    fn write(&self, sink: &mut impl Encoder) {
        let kind = match self.kind {
            ResultKind::Validation => 1,
            ResultKind::Heartbeat => 2,
            ResultKind::Status => 4,
        };
        sink.i32("type", kind);
        sink.i32("code", self.code);
        sink.string("message", Some(self.message));
    }
}

/// `{"data": hex}`.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a>(pub &'a [u8]);

impl View for Data<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.bytes("data", Some(self.0));
    }
}

/// A new key pair.
pub struct NewKey<'a> {
    /// Private key as NIS1 prints it.
    pub private_key: &'a str,
    /// Its public key.
    pub public_key: PublicKey,
    /// Its address.
    pub address: Address,
}

impl View for NewKey<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("privateKey", Some(self.private_key));
        sink.string("publicKey", Some(&self.public_key.to_string()));
        sink.string("address", Some(self.address.as_str()));
    }
}

/// `{"data": [...]}`, with a [`Encoder::spliced_list`] for the list.
#[derive(Clone, Copy, Debug)]
pub struct DataListHead;

impl View for DataListHead {
    fn write(&self, sink: &mut impl Encoder) {
        sink.spliced_list("data");
    }
}

/// An account.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountInfo {
    /// Address.
    pub address: Address,
    /// Public key, if the chain has it.
    pub public_key: Option<PublicKey>,
    /// Confirmed balance.
    pub balance: Amount,
    /// Vested part of the balance at the tip.
    pub vested_balance: Amount,
    /// Number of blocks harvested.
    pub harvested_blocks: u64,
    /// Last importance, 0 if there is none.
    pub importance: f64,
    /// Set if it has cosignatories.
    pub multisig: Option<MultisigInfo>,
}

/// Multisig parameters of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultisigInfo {
    /// Number of cosignatories.
    pub cosignatories: u32,
    /// Signatures needed, as stored: 0 means all. NIS1 shows this value too, not the effective number.
    pub min_cosignatories: u32,
}

/// Metadata of an account.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountMeta {
    /// Whether it harvests on this node.
    pub unlocked: bool,
    /// State of remote harvesting.
    pub remote_status: RemoteStatus,
    /// Multisig accounts that it cosigns.
    pub cosignatory_of: Vec<AccountInfo>,
    /// Its cosignatories.
    pub cosignatories: Vec<AccountInfo>,
}

/// State of remote harvesting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteStatus {
    /// Off.
    Inactive,
    /// Delegated, not yet in effect.
    Activating,
    /// Delegated.
    Active,
    /// Revoked, still in effect.
    Deactivating,
    /// This is the remote account.
    Remote,
}

impl RemoteStatus {
    /// Returns the name on the wire.
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

impl View for AccountInfo {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("address", Some(self.address.as_str()));
        sink.bytes("publicKey", self.public_key.as_ref().map(|key| key.0.as_slice()));
        sink.u64("balance", self.balance.0);
        sink.u64("vestedBalance", self.vested_balance.0);
        sink.u64("harvestedBlocks", self.harvested_blocks);
        sink.string("label", None);
        sink.f64("importance", self.importance);
        sink.optional("multisigInfo", self.multisig, |sink, multisig| {
            sink.i32("cosignatoriesCount", multisig.cosignatories as i32);
            sink.i32("minCosignatories", multisig.min_cosignatories as i32);
        });
    }
}

impl View for AccountMeta {
    fn write(&self, sink: &mut impl Encoder) {
        self.write_with(sink, |sink| {
            sink.list("cosignatoryOf", &self.cosignatory_of, |sink, account| account.write(sink));
        });
    }
}

impl AccountMeta {
    fn write_with<S: Encoder>(&self, sink: &mut S, cosignatory_of: impl FnOnce(&mut S)) {
        sink.string("status", Some(if self.unlocked { "UNLOCKED" } else { "LOCKED" }));
        sink.string("remoteStatus", Some(self.remote_status.name()));
        cosignatory_of(sink);
        sink.list("cosignatories", &self.cosignatories, |sink, account| account.write(sink));
    }
}

/// An account with its metadata.
#[derive(Clone, Copy, Debug)]
pub struct AccountPair<'a> {
    /// The account.
    pub account: &'a AccountInfo,
    /// The metadata.
    pub meta: &'a AccountMeta,
}

impl View for AccountPair<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("account", |sink| self.account.write(sink));
        sink.object("meta", |sink| self.meta.write(sink));
    }
}

/// An account with its metadata, and a [`Encoder::spliced_list`] for the multisig accounts that it cosigns.
#[derive(Clone, Copy, Debug)]
pub struct AccountPairHead<'a>(pub AccountPair<'a>);

impl View for AccountPairHead<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        let AccountPair { account, meta } = self.0;
        sink.object("account", |sink| account.write(sink));
        sink.object("meta", |sink| meta.write_with(sink, |sink| sink.spliced_list("cosignatoryOf")));
    }
}

/// The metadata of an account, and a [`Encoder::spliced_list`] for the multisig accounts that it cosigns.
#[derive(Clone, Copy, Debug)]
pub struct AccountMetaHead<'a>(pub &'a AccountMeta);

impl View for AccountMetaHead<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        self.0.write_with(sink, |sink| sink.spliced_list("cosignatoryOf"));
    }
}

/// Number of accounts that harvest on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnlockedInfo {
    /// Limit; no limit if negative.
    pub max: i32,
    /// Current number.
    pub count: i32,
}

impl View for UnlockedInfo {
    fn write(&self, sink: &mut impl Encoder) {
        sink.i32("num-unlocked", self.count);
        sink.i32("max-unlocked", self.max);
    }
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Full name.
    pub name: NamespaceId,
    /// Owner of its root.
    pub owner: Address,
    /// Height at which the lease of its root began.
    pub height: Height,
}

/// An item with the id by which it is paged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered<T> {
    /// Id.
    pub id: u64,
    /// Item.
    pub item: T,
}

impl View for Namespace {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("fqn", Some(truncate_name(self.name.as_str())));
        sink.string("owner", Some(self.owner.as_str()));
        sink.u64("height", self.height.0);
    }
}

impl View for Numbered<Namespace> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("namespace", |sink| self.item.write(sink));
        sink.object("meta", |sink| sink.u64("id", self.id));
    }
}

impl View for Mosaic {
    fn write(&self, sink: &mut impl Encoder) {
        write_mosaic(sink, self);
    }
}

impl View for Numbered<MosaicBalance> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("holder", |sink| self.item.write(sink));
        sink.object("meta", |sink| sink.u64("id", self.id));
    }
}

impl View for MosaicDefinition {
    fn write(&self, sink: &mut impl Encoder) {
        write_definition(sink, self);
    }
}

impl View for Numbered<MosaicDefinition> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("mosaic", |sink| self.item.write(sink));
        sink.object("meta", |sink| sink.u64("id", self.id));
    }
}

/// Supply of a mosaic.
#[derive(Clone, Copy, Debug)]
pub struct MosaicSupply<'a> {
    /// The mosaic.
    pub id: &'a MosaicId,
    /// Whole units.
    pub supply: u64,
}

impl View for MosaicSupply<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("mosaicId", |sink| write_mosaic_id(sink, self.id));
        sink.u64("supply", self.supply);
    }
}

/// A definition and the supply.
#[derive(Clone, Copy, Debug)]
pub struct DefinitionAndSupply<'a> {
    /// The definition.
    pub definition: &'a MosaicDefinition,
    /// Whole units.
    pub supply: u64,
}

impl View for DefinitionAndSupply<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("mosaicDefinition", |sink| self.definition.write(sink));
        sink.u64("supply", self.supply);
    }
}

/// A definition, the supply at a height, and the expiration height of its namespace.
#[derive(Clone, Copy, Debug)]
pub struct ExpiringDefinition<'a> {
    /// The definition.
    pub definition: &'a MosaicDefinition,
    /// Whole units.
    pub supply: u64,
    /// Height at which the namespace expires.
    pub expiration: Height,
}

impl View for ExpiringDefinition<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("mosaicDefinition", |sink| self.definition.write(sink));
        sink.u64("supply", self.supply);
        sink.u64("expirationHeight", self.expiration.0);
    }
}

/// A mosaic that expired or was restored, with a [`Encoder::spliced_list`] for the balances at that time.
#[derive(Clone, Copy, Debug)]
pub struct ExpiredMosaicHead<'a>(pub &'a ExpiredMosaic);

impl View for ExpiredMosaicHead<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("mosaicId", |sink| write_mosaic_id(sink, &self.0.id));
        sink.i32("expiredMosaicType", self.0.kind.code().into());
        sink.spliced_list("balances");
    }
}

/// Balance of an account in a mosaic.
#[derive(Clone, Copy, Debug)]
pub struct MosaicBalance {
    /// The account.
    pub address: Address,
    /// Smallest units.
    pub quantity: u64,
}

impl View for MosaicBalance {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("address", Some(self.address.as_str()));
        sink.u64("quantity", self.quantity);
    }
}

/// A block with a [`Encoder::spliced_list`] for its transactions.
#[derive(Clone, Copy, Debug)]
pub struct BlockHead<'a>(pub &'a Block);

impl View for BlockHead<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        codec::block::write_spliced(sink, self.0);
    }
}

/// Location and hashes of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionMeta {
    /// Height of its block.
    pub height: Height,
    /// Id in the node-wide sequence; 0 in notifications.
    pub id: u64,
    /// Its hash.
    pub hash: Hash256,
    /// Hash of the inner transaction of a multisig transaction.
    pub inner_hash: Option<Hash256>,
}

impl View for TransactionMeta {
    fn write(&self, sink: &mut impl Encoder) {
        sink.u64("height", self.height.0);
        sink.u64("id", self.id);
        sink.hash("hash", &self.hash.0);
        match &self.inner_hash {
            Some(hash) => sink.hash("innerHash", &hash.0),
            None => sink.null_object("innerHash"),
        }
    }
}

/// A transaction with its metadata.
#[derive(Clone, Copy, Debug)]
pub struct TransactionPair<'a> {
    /// The transaction.
    pub transaction: &'a Transaction,
    /// Metadata.
    pub meta: TransactionMeta,
}

impl View for TransactionPair<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("transaction", |sink| self.transaction.write(sink));
        sink.object("meta", |sink| self.meta.write(sink));
    }
}

/// Response to an announced transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnounceResult {
    /// Validation result.
    pub result: ValidationResult,
    /// Its hash.
    pub hash: Hash256,
    /// Hash of the inner transaction of a multisig transaction.
    pub inner_hash: Option<Hash256>,
}

impl View for AnnounceResult {
    fn write(&self, sink: &mut impl Encoder) {
        let (code, message) = (self.result.code(), self.result.name());
        RequestResult { kind: ResultKind::Validation, code, message }.write(sink);
        match &self.inner_hash {
            Some(hash) => sink.hash("innerTransactionHash", &hash.0),
            None => sink.null_object("innerTransactionHash"),
        }
        sink.hash("transactionHash", &self.hash.0);
    }
}

/// An unconfirmed transaction.
#[derive(Clone, Copy, Debug)]
pub struct Unconfirmed<'a>(pub &'a Transaction);

impl View for Unconfirmed<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("transaction", |sink| self.0.write(sink));
        let inner_hash = self.0.inner().map(Transaction::hash);
        sink.object("meta", |sink| sink.bytes("data", inner_hash.as_ref().map(|hash| hash.0.as_slice())));
    }
}

/// A harvested block.
#[derive(Clone, Copy, Debug)]
pub struct HarvestInfo<'a>(pub &'a StoredHeader);

impl View for HarvestInfo<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        let block = self.0;
        sink.u64("id", block.height.0);
        sink.u64("height", block.height.0);
        sink.i32("timeStamp", block.timestamp.0);
        sink.u64("totalFee", block.total_fee.0);
        sink.u64("difficulty", block.difficulty);
    }
}

/// An account and its importance.
#[derive(Clone, Copy, Debug)]
pub struct ImportanceEntry {
    /// Its address.
    pub address: Address,
    /// Importance of the last recalculation that included the account; `None` if there is none.
    pub importance: Option<AccountImportance>,
}

impl View for ImportanceEntry {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("address", Some(self.address.as_str()));
        sink.object("importance", |sink| {
            sink.i32("isSet", self.importance.is_some().into());
            if let Some(importance) = &self.importance {
                sink.f64("score", importance.importance);
                sink.f64("ev", importance.page_rank);
                sink.u64("height", importance.height.0);
            }
        });
    }
}

/// State of an account at a height.
#[derive(Clone, Copy, Debug)]
pub struct HistoryPoint {
    /// The height.
    pub height: Height,
    /// The account.
    pub address: Address,
    /// State.
    pub entry: HistoryEntry,
}

impl View for HistoryPoint {
    fn write(&self, sink: &mut impl Encoder) {
        let HistoryEntry { balance, importance, page_rank } = self.entry;
        sink.u64("height", self.height.0);
        sink.string("address", Some(self.address.as_str()));
        sink.u64("balance", balance.total());
        sink.u64("vestedBalance", balance.vested);
        sink.u64("unvestedBalance", balance.unvested);
        sink.f64("importance", importance);
        sink.f64("pageRank", page_rank);
    }
}
