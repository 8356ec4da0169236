//! Objects of the interface, written in either format (specification 06 §6). The push room writes the bodies
//! of its messages with them too.

use std::rc::Rc;

use super::desk::UnlockedInfo;
use super::ledger::{AccountInfo, AccountMeta};
use crate::codec::{self, Form, Sink};
use crate::model::{Block, Hash256, Height, Transaction};
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
