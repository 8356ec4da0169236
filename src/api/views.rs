//! Objects of the interface, written in either format (specification 06 §6). The push room writes the bodies
//! of its messages with them too.

use std::rc::Rc;

use super::catalogue::{Namespace, Numbered};
use super::desk::UnlockedInfo;
use super::ledger::{AccountInfo, AccountMeta};
use super::settings::NodeDescription;
use crate::codec::mosaic::{cut_name, write_definition, write_mosaic, write_mosaic_id};
use crate::codec::text::cut_units;
use crate::codec::{self, Form, Sink, limits};
use crate::model::{Block, Hash256, Height, Mosaic, MosaicDefinition, MosaicId, Timestamp, Transaction};
use crate::rules::ValidationResult;

/// Something the interface shows. Fields are written in definition order.
pub trait View {
    /// Writes the fields.
    fn write(&self, sink: &mut impl Sink);
}

/// `{"height": n}`.
impl View for Height {
    fn write(&self, sink: &mut impl Sink) {
        sink.u64("height", self.0);
    }
}

impl View for Block {
    fn write(&self, sink: &mut impl Sink) {
        codec::block::write(sink, self, Form::Verifiable);
    }
}

/// The answer of a check or an action (specification 06 §6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestResult {
    /// What kind of answer it is.
    pub kind: ResultKind,
    /// Its meaning depends on the kind.
    pub code: i32,
    /// A text for people.
    pub message: &'static str,
}

/// Kinds of [`RequestResult`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// 1: result of validation.
    Validation,
    /// 2: a sign of life.
    Heartbeat,
    /// 4: how far the node is.
    Status,
}

impl View for RequestResult {
    fn write(&self, sink: &mut impl Sink) {
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

impl View for AccountInfo {
    fn write(&self, sink: &mut impl Sink) {
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
    fn write(&self, sink: &mut impl Sink) {
        sink.string("status", Some(if self.unlocked { "UNLOCKED" } else { "LOCKED" }));
        sink.string("remoteStatus", Some(self.remote_status.name()));
        sink.list("cosignatoryOf", &self.cosignatory_of, |sink, account| account.write(sink));
        sink.list("cosignatories", &self.cosignatories, |sink, account| account.write(sink));
    }
}

/// An account with what goes with it.
#[derive(Clone, Copy, Debug)]
pub struct AccountPair<'a> {
    /// The account.
    pub account: &'a AccountInfo,
    /// What goes with it.
    pub meta: &'a AccountMeta,
}

impl View for AccountPair<'_> {
    fn write(&self, sink: &mut impl Sink) {
        sink.object("account", |sink| self.account.write(sink));
        sink.object("meta", |sink| self.meta.write(sink));
    }
}

/// Where a transaction is and what its hashes are (specification 06 §6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionMeta {
    /// Height of its block.
    pub height: Height,
    /// Its number in the node-wide sequence; 0 in notifications.
    pub id: u64,
    /// Its hash.
    pub hash: Hash256,
    /// Hash of the inner transaction of a multisig transaction.
    pub inner_hash: Option<Hash256>,
}

impl View for TransactionMeta {
    fn write(&self, sink: &mut impl Sink) {
        sink.u64("height", self.height.0);
        sink.u64("id", self.id);
        sink.hash("hash", &self.hash.0);
        match &self.inner_hash {
            Some(hash) => sink.hash("innerHash", &hash.0),
            None => sink.null_object("innerHash"),
        }
    }
}

/// A transaction with its meta data.
#[derive(Clone, Copy, Debug)]
pub struct TransactionPair<'a> {
    /// The transaction.
    pub transaction: &'a Transaction,
    /// Where it is.
    pub meta: TransactionMeta,
}

impl View for TransactionPair<'_> {
    fn write(&self, sink: &mut impl Sink) {
        sink.object("transaction", |sink| self.transaction.write(sink));
        sink.object("meta", |sink| self.meta.write(sink));
    }
}

impl View for Transaction {
    fn write(&self, sink: &mut impl Sink) {
        codec::transaction::write(sink, self, Form::Verifiable);
    }
}

/// The answer to an announced transaction (specification 06 §6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnounceResult {
    /// What became of it.
    pub result: ValidationResult,
    /// Its hash.
    pub hash: Hash256,
    /// Hash of the inner transaction of a multisig transaction.
    pub inner_hash: Option<Hash256>,
}

impl View for AnnounceResult {
    fn write(&self, sink: &mut impl Sink) {
        let (code, message) = (self.result.code(), self.result.name());
        RequestResult { kind: ResultKind::Validation, code, message }.write(sink);
        match &self.inner_hash {
            Some(hash) => sink.hash("innerTransactionHash", &hash.0),
            None => sink.null_object("innerTransactionHash"),
        }
        sink.hash("transactionHash", &self.hash.0);
    }
}

/// `{"data": hex}`.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a>(pub &'a [u8]);

impl View for Data<'_> {
    fn write(&self, sink: &mut impl Sink) {
        sink.bytes("data", Some(self.0));
    }
}

/// Transactions of the pool (specification 06 §6.6).
#[derive(Clone, Copy, Debug)]
pub struct UnconfirmedList<'a>(pub &'a [Rc<Transaction>]);

impl View for UnconfirmedList<'_> {
    fn write(&self, sink: &mut impl Sink) {
        sink.list("data", self.0, |sink, transaction| {
            sink.object("transaction", |sink| transaction.write(sink));
            let inner_hash = transaction.inner().map(Transaction::hash);
            sink.object("meta", |sink| sink.bytes("data", inner_hash.as_ref().map(|hash| hash.0.as_slice())));
        });
    }
}

impl View for UnlockedInfo {
    fn write(&self, sink: &mut impl Sink) {
        sink.i32("num-unlocked", self.count);
        sink.i32("max-unlocked", self.max);
    }
}

/// `{"data": [...]}`.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a, T>(pub &'a [T]);

impl<T: View> View for Listing<'_, T> {
    fn write(&self, sink: &mut impl Sink) {
        sink.list("data", self.0, |sink, item| item.write(sink));
    }
}

impl View for Namespace {
    fn write(&self, sink: &mut impl Sink) {
        sink.string("fqn", Some(cut_name(self.name.as_str())));
        sink.string("owner", Some(self.owner.as_str()));
        sink.u64("height", self.height.0);
    }
}

impl View for Numbered<Namespace> {
    fn write(&self, sink: &mut impl Sink) {
        sink.object("namespace", |sink| self.item.write(sink));
        sink.object("meta", |sink| sink.u64("id", self.id));
    }
}

impl View for Mosaic {
    fn write(&self, sink: &mut impl Sink) {
        write_mosaic(sink, self);
    }
}

impl View for MosaicDefinition {
    fn write(&self, sink: &mut impl Sink) {
        write_definition(sink, self);
    }
}

impl View for Numbered<MosaicDefinition> {
    fn write(&self, sink: &mut impl Sink) {
        sink.object("mosaic", |sink| self.item.write(sink));
        sink.object("meta", |sink| sink.u64("id", self.id));
    }
}

/// How much there is of a mosaic.
#[derive(Clone, Copy, Debug)]
pub struct MosaicSupply<'a> {
    /// The mosaic.
    pub id: &'a MosaicId,
    /// Whole units.
    pub supply: u64,
}

impl View for MosaicSupply<'_> {
    fn write(&self, sink: &mut impl Sink) {
        sink.object("mosaicId", |sink| write_mosaic_id(sink, self.id));
        sink.u64("supply", self.supply);
    }
}

/// The node as others see it (specification 06 §6.8).
impl View for NodeDescription {
    fn write(&self, sink: &mut impl Sink) {
        sink.object("identity", |sink| {
            sink.bytes("public-key", Some(&self.public_key.0));
            sink.string("name", Some(&cut_units(&self.name, limits::TEXT_UNITS)));
        });
        sink.object("endpoint", |sink| {
            sink.string("protocol", Some(self.protocol));
            sink.string("host", Some(&cut_units(&self.host, limits::TEXT_UNITS)));
            sink.i32("port", self.port.into());
        });
        sink.object("metaData", |sink| {
            sink.string("version", Some(NodeDescription::PROTOCOL_VERSION));
            sink.string("platform", Some(&self.platform));
            sink.string("application", None);
            sink.i32("features", self.features as i32);
            sink.i32("networkId", i32::from(self.network.0 as i8));
        });
    }
}

/// The node, and the program that it runs (specification 06 §6.8).
#[derive(Clone, Copy, Debug)]
pub struct ExtendedInfo<'a> {
    /// The node.
    pub node: &'a NodeDescription,
    /// Network time.
    pub now: Timestamp,
}

impl View for ExtendedInfo<'_> {
    fn write(&self, sink: &mut impl Sink) {
        sink.object("node", |sink| self.node.write(sink));
        sink.object("nisInfo", |sink| {
            sink.string("application", Some(env!("CARGO_PKG_NAME")));
            sink.string("version", Some(env!("CARGO_PKG_VERSION")));
            sink.string("signer", None);
            sink.i32("startTime", self.node.started.0);
            sink.i32("currentTime", self.now.0);
        });
    }
}

/// The node's clock as others ask for it.
#[derive(Clone, Copy, Debug)]
pub struct NetworkTime {
    /// Network time in milliseconds, at which the request came and is answered.
    pub millis: i64,
}

impl View for NetworkTime {
    fn write(&self, sink: &mut impl Sink) {
        sink.i64("sendTimeStamp", self.millis);
        sink.i64("receiveTimeStamp", self.millis);
    }
}

/// A definition with the supply (specification 07 §9.9).
#[derive(Clone, Copy, Debug)]
pub struct DefinitionAndSupply<'a> {
    /// The definition.
    pub definition: &'a MosaicDefinition,
    /// Whole units.
    pub supply: u64,
}

impl View for DefinitionAndSupply<'_> {
    fn write(&self, sink: &mut impl Sink) {
        sink.object("mosaicDefinition", |sink| self.definition.write(sink));
        sink.u64("supply", self.supply);
    }
}
