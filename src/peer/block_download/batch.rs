//! Blocks that are downloaded together.

use std::collections::VecDeque;

use super::DownloadQuery;
use crate::codec::Context;
use crate::model::{Address, Block, Hash256, Height};
use crate::peer::wire::BlockList;

/// Consecutive blocks, from the first that is still missing on.
#[derive(Debug)]
pub struct BlockBatch {
    first: Height,
    /// Expected hashes of the blocks.
    hashes: VecDeque<Hash256>,
    /// Peer that supplied the hashes.
    hashes_from: Address,
    received: Option<(Address, BlockList)>,
}

impl BlockBatch {
    /// Creates a batch without blocks.
    pub fn new(first: Height, hashes: VecDeque<Hash256>, claimed_by: Address) -> BlockBatch {
        BlockBatch { first, hashes, hashes_from: claimed_by, received: None }
    }

    /// Returns the peer that supplied the hashes.
    pub fn hashes_from(&self) -> Address {
        self.hashes_from
    }

    /// Returns the request for the batch.
    pub fn query(&self) -> DownloadQuery {
        DownloadQuery::BlocksAfter(Height(self.first.0.saturating_sub(1)))
    }

    /// Returns whether blocks have been received.
    pub fn is_received(&self) -> bool {
        self.received.is_some()
    }

    /// Returns the peer that sent the blocks.
    pub fn sender(&self) -> Option<Address> {
        self.received.as_ref().map(|(from, _)| *from)
    }

    /// Returns whether all blocks were taken.
    pub fn is_consumed(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Returns the bytes of memory that the received blocks hold.
    pub fn held_bytes(&self) -> usize {
        self.received.as_ref().map_or(0, |(_, blocks)| blocks.held_bytes())
    }

    /// Stores received blocks. If they are fewer than expected, returns a batch of the remaining hashes.
    pub fn receive(&mut self, from: Address, blocks: BlockList) -> Option<BlockBatch> {
        let received = blocks.left().min(self.hashes.len());
        let rest = self.hashes.split_off(received);
        self.received = Some((from, blocks));
        (!rest.is_empty()).then(|| BlockBatch::new(Height(self.first.0 + received as u64), rest, self.hashes_from))
    }

    /// Returns the next block and its hash. If it is missing or has another hash, discards the received blocks and
    /// returns `None`; this block and all that follow are then missing again.
    pub fn next(&mut self, context: Context) -> Option<(Box<Block>, Hash256)> {
        let (_, blocks) = self.received.as_mut()?;
        let (expected, height) = (*self.hashes.front()?, self.first);
        let block = blocks.next(context).and_then(Result::ok).filter(|block| block.height == height);
        let found = block.map(|block| (block.hash(), block)).filter(|(hash, _)| *hash == expected);
        match found {
            Some((hash, block)) => {
                self.hashes.pop_front();
                self.first = self.first.next();
                Some((Box::new(block), hash))
            }
            None => {
                self.received = None;
                None
            }
        }
    }
}
