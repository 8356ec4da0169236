//! Views of blocks for explorers.

use super::View;
use crate::codec::{self, Encoder, SigningForm};
use crate::model::{Address, Block, Hash256, Transaction};
use crate::store::StoredHeader;

/// A transaction of a block with its hashes.
#[derive(Clone, Copy, Debug)]
pub struct ExplorerEntry<'a> {
    /// The transaction.
    pub transaction: &'a Transaction,
    /// Its hash.
    pub hash: Hash256,
    /// Hash of the inner transaction of a multisig transaction.
    pub inner_hash: Option<Hash256>,
}

impl View for ExplorerEntry<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("tx", |sink| codec::transaction::write(sink, self.transaction, SigningForm::Verifiable));
        sink.bytes("hash", Some(&self.hash.0));
        if let Some(hash) = &self.inner_hash {
            sink.bytes("innerHash", Some(&hash.0));
        }
    }
}

/// A block with header data and two [`Encoder::spliced_list`]s: for its transactions, and for those with hashes (first in JSON).
#[derive(Clone, Copy, Debug)]
pub struct ExplorerBlockHead<'a> {
    /// The block.
    pub block: &'a Block,
    /// Header.
    pub header: &'a StoredHeader,
    /// Account that received its fees.
    pub beneficiary: Address,
}

impl View for ExplorerBlockHead<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("block", |sink| codec::block::write_spliced(sink, self.block));
        sink.bytes("hash", Some(&self.header.hash.0));
        sink.u64("difficulty", self.header.difficulty);
        sink.spliced_list("txes");
        sink.string("beneficiary", Some(self.beneficiary.as_str()));
        sink.u64("totalFee", self.header.total_fee.0);
    }
}
