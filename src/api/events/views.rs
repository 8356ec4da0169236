//! The data of the events.

use super::super::View;
use super::super::transaction_status::Signatures;
use super::super::transactions::{TransactionMeta, TransactionPair, write_hash};
use super::feed::FeedBlock;
use crate::codec::Encoder;
use crate::mempool::MempoolEntry;
use crate::model::{Hash256, Height, Transaction};
use crate::store::StoredHeader;

/// Data of `synchronising`.
pub struct SyncState {
    pub height: Height,
    /// The largest height that peers report, or the own one.
    pub network_height: Height,
    pub status: &'static str,
}

impl View for SyncState {
    fn write(&self, sink: &mut impl Encoder) {
        sink.u64("height", self.height.0);
        sink.u64("networkHeight", self.network_height.0);
        sink.u64("behind", self.network_height.0.saturating_sub(self.height.0));
        sink.string("status", Some(self.status));
    }
}

/// Data of `rollback`: everything told above a height is undone.
pub struct Rollback {
    pub height: Height,
    /// Whether the undone transactions follow.
    pub is_listed: bool,
}

impl View for Rollback {
    fn write(&self, sink: &mut impl Encoder) {
        sink.u64("height", self.height.0);
        sink.string("transactions", Some(if self.is_listed { "listed" } else { "unknown" }));
    }
}

/// Data of `block`.
pub struct BlockEvent<'a> {
    pub block: &'a FeedBlock,
    pub confirmations: u64,
}

impl View for BlockEvent<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        let block = &self.block.block;
        sink.u64("confirmations", self.confirmations);
        sink.u64("height", block.header.height.0);
        sink.bytes("hash", Some(&block.header.hash.0));
        sink.i32("timeStamp", block.header.timestamp.0);
        sink.bytes("signer", Some(&block.signer.0));
        sink.string("harvester", Some(block.harvester.as_str()));
        sink.u64("totalFee", block.header.total_fee.0);
        sink.i32("transactions", block.transactions.len() as i32);
    }
}

/// Data of `transaction` and `undone`, without the confirmations.
pub struct TransactionEvent<'a> {
    pub header: &'a StoredHeader,
    pub index: u32,
    pub id: u64,
    pub hash: Hash256,
    pub transaction: &'a Transaction,
}

impl View for TransactionEvent<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        let TransactionEvent { header, transaction, .. } = *self;
        sink.u64("height", header.height.0);
        sink.i32("index", self.index as i32);
        sink.bytes("blockHash", Some(&header.hash.0));
        sink.i32("timeStamp", header.timestamp.0);
        let inner_hash = transaction.inner().map(Transaction::hash);
        let meta = TransactionMeta { height: header.height, id: self.id, hash: self.hash, inner_hash };
        TransactionPair { transaction, meta }.write(sink);
    }
}

/// Data of `unconfirmed`.
pub struct UnconfirmedEvent<'a> {
    pub entry: &'a MempoolEntry,
    pub signatures: Option<Signatures>,
}

impl View for UnconfirmedEvent<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        let MempoolEntry { transaction, hashes, since, .. } = self.entry;
        sink.object("meta", |sink| {
            sink.hash("hash", &hashes.own.0);
            write_hash(sink, "innerHash", self.entry.inner_hash());
        });
        sink.i32("since", since.0);
        sink.i32("deadline", transaction.deadline.0);
        if let Some(signatures) = &self.signatures {
            sink.object("multisig", |sink| signatures.write(sink));
        }
        sink.object("transaction", |sink| transaction.write(sink));
    }
}
