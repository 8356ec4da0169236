//! Parts of the chain, for other nodes.

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

/// The last block of a part of the chain, by which it is seen that the part is still in the chain: what follows the answer
/// of one branch must not be of another, or the node that asked would take this one for a liar.
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

/// Writes the hashes of blocks, one after the other, signed for another node.
pub struct HashList {
    next: Height,
    /// The height of the last of them.
    end: Height,
    last: Option<Last>,
    signature: Signature,
    list: Option<OpenList>,
}

impl HashList {
    /// Those from a height up to another that the chain has; none if that is lower.
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

/// Blocks that are looked at after the first ones.
const NEXT_QUERY: u64 = 100;

/// Writes blocks, one after the other, signed for another node: so many that their transactions are not more than it
/// wants. First these are counted, then the blocks are written as they are stored. As their number and their bytes are
/// known then, the answer is sent while it is written, and never held as a whole.
pub struct ChainPartWriter {
    limits: PartLimits,
    signature: Signature,
    count: Count,
    present: BlockWriter,
    list: Option<OpenList>,
}

/// The transactions that are counted.
struct Count {
    /// The block that is looked at.
    next: Height,
    /// Those of the blocks before.
    total: u64,
    /// The same with each multisig transaction once, as NIS1 counts them again for every further query.
    plain: u64,
    /// The last block of the present query.
    query_end: Height,
    /// Bytes of the blocks before in the binary format, with the length before each.
    bytes: usize,
    /// The block before.
    last: Option<Last>,
    /// All are counted; `next` is the first block that is not wanted.
    is_done: bool,
}

impl ChainPartWriter {
    /// The blocks after a height.
    pub fn new(after: Height, limits: PartLimits, signature: Signature) -> ChainPartWriter {
        let first = after.next();
        let query_end = after.plus(limits.first_query);
        let count =
            Count { next: first, total: 0, plain: 0, query_end, bytes: 0, last: None, is_done: first.0 <= after.0 };
        ChainPartWriter { limits, signature, count, present: BlockWriter::new(first), list: None }
    }

    /// Goes on counting; whether all are counted.
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
    /// Takes a block with so many transactions, if there is room for them.
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
