//! Views of transactions and blocks.

use super::{RequestResult, ResultKind, View};
use crate::codec::{self, Encoder};
use crate::model::{Block, Hash256, Height, Transaction};
use crate::rules::ValidationResult;

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
