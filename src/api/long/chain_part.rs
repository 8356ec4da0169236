//! Streamed ranges of the chain, for peers.

use super::block::BlockWriter;
use super::{ListSize, LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::{ChainView, Counted};
use crate::api::failure::Failure;
use crate::api::media::Format;
use crate::api::views::{Data, DataGap};
use crate::codec::binary::BinarySink;
use crate::crypto::Signature;
use crate::model::{Hash256, Height};
use crate::net::machine::Taken;
use crate::peer::wire::{AuthenticatedResponse, PartLimits};

/// The last written block of a range, to detect that it left the chain: a response that mixes two branches would make
/// the peer treat this node as malicious.
#[derive(Clone, Copy)]
struct Last {
    height: Height,
    hash: Hash256,
}

impl Last {
    fn check(this: Option<Last>, view: &ChainView<'_>) -> Result<(), Failure> {
        let Some(Last { height, hash }) = this else { return Ok(()) };
        match view.header(height)? {
            Some(block) if block.hash == hash => Ok(()),
            _ => Err(super::block::REPLACED),
        }
    }
}

/// Signed stream of block hashes.
pub struct HashList {
    next: Height,
    /// Last height.
    end: Height,
    last: Option<Last>,
    signature: Signature,
    list: Option<OpenList>,
}

impl HashList {
    /// Creates a stream of the hashes from a height up to a height that the chain has; empty if the latter is lower.
    pub fn new(first: Height, last: Height, signature: Signature) -> HashList {
        HashList { next: first, end: last, last: None, signature, list: None }
    }
}

impl LongView for HashList {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        Last::check(self.last, view)?;
        let HashList { next, end, last, signature, list } = self;
        let list = list.get_or_insert_with(|| {
            OpenList::open(sheet, &AuthenticatedResponse { entity: DataGap, signature: *signature })
        });
        while next <= end {
            let block = view.header(*next)?.ok_or(super::block::REPLACED)?;
            list.push(sheet, &Data(&block.hash.0));
            *last = Some(Last { height: *next, hash: block.hash });
            *next = next.next();
            budget.spend(cost::HEADER);
            if budget.is_spent() {
                return Ok(Taken::Unfinished);
            }
        }
        list.close(sheet);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.list)
    }
}

/// Blocks per query after the first one.
const NEXT_QUERY: u64 = 100;

/// Signed stream of blocks whose transactions are within the limit that the peer requests. The transactions are counted
/// first, then the blocks are written as they are stored. The number of blocks and of bytes is then known, so the
/// response is streamed and never held as a whole.
pub struct ChainPartWriter {
    limits: PartLimits,
    signature: Signature,
    count: Count,
    present: BlockWriter,
    list: Option<OpenList>,
}

/// Counter of transactions.
struct Count {
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
    last: Option<Last>,
    /// Counting is complete; `next` is the first block that is left out.
    is_done: bool,
}

impl ChainPartWriter {
    /// Creates a stream of the blocks after a height.
    pub fn new(after: Height, limits: PartLimits, signature: Signature) -> ChainPartWriter {
        let first = after.next();
        let query_end = after.plus(limits.first_query);
        let count =
            Count { next: first, total: 0, plain: 0, query_end, bytes: 0, last: None, is_done: first.0 <= after.0 };
        ChainPartWriter { limits, signature, count, present: BlockWriter::new(first), list: None }
    }

    /// Continues counting; returns whether it is complete.
    fn count(&mut self, view: &ChainView<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        let first = self.present.height();
        while !self.count.is_done {
            let taken = self.count.next.0 - first.0;
            if taken >= self.limits.blocks || !view.has_block(self.count.next) {
                self.count.is_done = true;
            } else {
                let counted = view.counted_by_peers(self.count.next)?.ok_or(super::block::REPLACED)?;
                self.count.take_block(counted, self.limits.transactions);
                budget.spend(cost::HEADER);
                if budget.is_spent() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl Count {
    /// Adds a block if its transactions are within the limit.
    fn take_block(&mut self, counted: Counted, most: u64) {
        self.total += counted.with_children;
        self.plain += counted.plain;
        if self.total > most {
            self.is_done = true;
            return;
        }
        if self.next == self.query_end {
            self.query_end = self.next.plus(NEXT_QUERY);
            self.total = self.plain;
        }
        self.bytes += BinarySink::LENGTH_BYTES + counted.bytes;
        self.last = Some(Last { height: self.next, hash: counted.hash });
        self.next = self.next.next();
    }
}

impl LongView for ChainPartWriter {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        Last::check(self.count.last, view)?;
        if !self.count(view, budget)? {
            return Ok(Taken::Unfinished);
        }
        let list = self.list.get_or_insert_with(|| {
            let count = (self.count.next.0 - self.present.height().0) as usize;
            let size = ListSize { count, bytes: self.count.bytes };
            OpenList::open_sized(sheet, &AuthenticatedResponse { entity: DataGap, signature: self.signature }, size)
        });
        while self.present.height() < self.count.next {
            if self.present.write_in(list, view, sheet, budget)? == Taken::Unfinished {
                return Ok(Taken::Unfinished);
            }
            self.present = BlockWriter::new(self.present.height().next());
            if budget.is_spent() {
                return Ok(Taken::Unfinished);
            }
        }
        list.close(sheet);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.list) + self.present.held_bytes()
    }

    fn can_be_cut(&self, _: Format) -> bool {
        true
    }
}
