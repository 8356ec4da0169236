//! Streamed ranges of the chain, for peers.

use super::block::BlockStream;
use super::{BodyWriter, ListSize, ListWriter, ResponseStream, list_bytes};
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::{ChainSnapshot, PeerBlockSize};
use crate::api::error::ApiError;
use crate::api::media::Format;
use crate::api::views::{Data, DataListHead};
use crate::codec::binary::BinaryEncoder;
use crate::crypto::Signature;
use crate::model::{Hash256, Height};
use crate::net::service::Progress;
use crate::peer::wire::{AuthenticatedResponse, BlockListLimits};

/// The last written block of a range, to detect that it left the chain: a response that mixes two branches would make
/// the peer treat this node as malicious.
#[derive(Clone, Copy)]
struct LastWritten {
    height: Height,
    hash: Hash256,
}

impl LastWritten {
    fn check(this: Option<LastWritten>, view: &ChainSnapshot<'_>) -> Result<(), ApiError> {
        let Some(LastWritten { height, hash }) = this else { return Ok(()) };
        match view.header(height)? {
            Some(block) if block.hash == hash => Ok(()),
            _ => Err(super::block::REPLACED),
        }
    }
}

/// Signed stream of block hashes.
pub struct HashListStream {
    next: Height,
    /// Last height.
    end: Height,
    last: Option<LastWritten>,
    signature: Signature,
    list: Option<ListWriter>,
}

impl HashListStream {
    /// Creates a stream of the hashes from a height up to a height that the chain has; empty if the latter is lower.
    pub fn new(first: Height, last: Height, signature: Signature) -> HashListStream {
        HashListStream { next: first, end: last, last: None, signature, list: None }
    }
}

impl ResponseStream for HashListStream {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        LastWritten::check(self.last, view)?;
        let HashListStream { next, end, last, signature, list } = self;
        let list = list.get_or_insert_with(|| {
            ListWriter::open(writer, &AuthenticatedResponse { entity: DataListHead, signature: *signature })
        });
        while next <= end {
            let block = view.header(*next)?.ok_or(super::block::REPLACED)?;
            list.push(writer, &Data(&block.hash.0));
            *last = Some(LastWritten { height: *next, hash: block.hash });
            *next = next.next();
            budget.charge(cost::HEADER);
            if budget.is_exhausted() {
                return Ok(Progress::Yield);
            }
        }
        list.close(writer);
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        list_bytes(&self.list)
    }
}

/// Blocks per query after the first one.
const NEXT_QUERY: u64 = 100;

/// Signed stream of blocks whose transactions are within the limit that the peer requests. The transactions are counted
/// first, then the blocks are written as they are stored. The number of blocks and of bytes is then known, so the
/// response is streamed and never held as a whole.
pub struct BlockRangeStream {
    limits: BlockListLimits,
    signature: Signature,
    counter: TransactionCounter,
    current: BlockStream,
    list: Option<ListWriter>,
}

/// Counter of transactions.
struct TransactionCounter {
    /// Next height to count.
    next: Height,
    /// Transactions of the blocks counted so far, as NIS1 counts them.
    total: u64,
    /// The same with each multisig transaction counted once: NIS1 recounts from this value at every further query.
    plain: u64,
    /// Last height of the current query.
    query_end: Height,
    /// Bytes of the counted blocks in the binary format, with their length prefixes.
    bytes: usize,
    /// The last counted block.
    last: Option<LastWritten>,
    /// Counting is complete; `next` is the first block that is left out.
    is_done: bool,
}

impl BlockRangeStream {
    /// Creates a stream of the blocks after a height.
    pub fn new(after: Height, limits: BlockListLimits, signature: Signature) -> BlockRangeStream {
        let first = after.next();
        let query_end = after.plus(limits.first_query);
        let count = TransactionCounter {
            next: first,
            total: 0,
            plain: 0,
            query_end,
            bytes: 0,
            last: None,
            is_done: first.0 <= after.0,
        };
        BlockRangeStream { limits, signature, counter: count, current: BlockStream::new(first), list: None }
    }

    /// Continues counting; returns whether it is complete.
    fn count(&mut self, view: &ChainSnapshot<'_>, budget: &mut Budget) -> Result<bool, ApiError> {
        let first = self.current.height();
        while !self.counter.is_done {
            let blocks = self.counter.next.0 - first.0;
            if blocks >= self.limits.blocks || !view.has_block(self.counter.next) {
                self.counter.is_done = true;
            } else {
                let counted = view.size_for_peers(self.counter.next)?.ok_or(super::block::REPLACED)?;
                self.counter.add_block(counted, self.limits.transactions);
                budget.charge(cost::HEADER);
                if budget.is_exhausted() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl TransactionCounter {
    /// Adds a block if its transactions are within the limit.
    fn add_block(&mut self, counted: PeerBlockSize, limit: u64) {
        self.total += counted.with_children;
        self.plain += counted.plain;
        if self.total > limit {
            self.is_done = true;
            return;
        }
        if self.next == self.query_end {
            self.query_end = self.next.plus(NEXT_QUERY);
            self.total = self.plain;
        }
        self.bytes += BinaryEncoder::LENGTH_BYTES + counted.bytes;
        self.last = Some(LastWritten { height: self.next, hash: counted.hash });
        self.next = self.next.next();
    }
}

impl ResponseStream for BlockRangeStream {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        LastWritten::check(self.counter.last, view)?;
        if !self.count(view, budget)? {
            return Ok(Progress::Yield);
        }
        let list = self.list.get_or_insert_with(|| {
            let count = (self.counter.next.0 - self.current.height().0) as usize;
            let size = ListSize { count, bytes: self.counter.bytes };
            ListWriter::open_sized(
                writer,
                &AuthenticatedResponse { entity: DataListHead, signature: self.signature },
                size,
            )
        });
        while self.current.height() < self.counter.next {
            if self.current.write_in(list, view, writer, budget)? == Progress::Yield {
                return Ok(Progress::Yield);
            }
            self.current = BlockStream::new(self.current.height().next());
            if budget.is_exhausted() {
                return Ok(Progress::Yield);
            }
        }
        list.close(writer);
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        list_bytes(&self.list) + self.current.held_bytes()
    }

    fn is_streamable(&self, _: Format) -> bool {
        true
    }
}
