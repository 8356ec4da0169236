//! View of the reorgs.

use super::View;
use crate::chain::{Reorg, ReorgLog};
use crate::codec::Encoder;
use crate::model::{Address, NetworkByte};

/// The latest reorgs, newest first.
pub struct ReorgsReport<'a> {
    /// The reorgs that the node keeps.
    pub reorgs: Option<&'a ReorgLog>,
    /// Network byte, to derive addresses.
    pub network: NetworkByte,
}

impl View for ReorgsReport<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        let all: Vec<&Reorg> = self.reorgs.into_iter().flat_map(ReorgLog::iter).collect();
        sink.list("data", &all, |sink, reorg| {
            sink.i32("timeStamp", reorg.time.0);
            sink.u64("commonHeight", reorg.common.0);
            sink.u64("height", reorg.tip.0);
            sink.u64("returnedTransactions", reorg.returned as u64);
            sink.list("replaced", &reorg.replaced, |sink, block| {
                sink.u64("height", block.height.0);
                sink.bytes("hash", Some(&block.hash.0));
                let harvester = Address::from_public_key(&block.signer, self.network);
                sink.string("harvester", Some(harvester.as_str()));
                sink.i32("timeStamp", block.timestamp.0);
                sink.u64("transactions", block.transactions as u64);
                sink.i32("isOwn", i32::from(block.is_own));
            });
        });
    }
}
