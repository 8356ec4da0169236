//! Verifying a whole store anew: its blocks are taken into an empty one by all rules, and what comes out is compared.

use std::fmt;
use std::io;

use crate::codec::block_file::write_block;
use crate::model::Height;
use crate::state;
use crate::store::{Read, StoreError, StoredBlock, Table, stored_header};

/// The blocks of a chain as a file of blocks, read one after another.
pub struct StoredBlocks<'a, R> {
    state: &'a R,
    next: Height,
    /// The present block, and how much of it was read.
    block: Vec<u8>,
    read: usize,
}

impl<'a, R: Read> StoredBlocks<'a, R> {
    /// The blocks of a chain from a height on.
    pub fn new(state: &'a R, first: Height) -> StoredBlocks<'a, R> {
        StoredBlocks { state, next: first, block: Vec::new(), read: 0 }
    }
}

impl<R: Read> io::Read for StoredBlocks<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.block.len() {
            let Some((_, bytes)) = stored_header(self.state, self.next).map_err(io::Error::other)? else {
                return Ok(0);
            };
            self.block.clear();
            write_block(&mut self.block, bytes)?;
            self.next = self.next.next();
            self.read = 0;
        }
        let count = buffer.len().min(self.block.len() - self.read);
        buffer[..count].copy_from_slice(&self.block[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}

/// Where a store differs from what results from its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// What is known of the block at this height.
    Block(Height, &'static str),
    /// An entry of the state at the tip.
    State(Table, Vec<u8>),
    /// The importances in force at the tip.
    Importances,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Block(height, member) => {
                write!(f, "the {member} of the block at height {height} is not what its chain gives")
            }
            Difference::State(table, key) => write!(
                f,
                "the state at the tip is not what the blocks give: the first difference is in table {} at {}",
                table.name(),
                key.escape_ascii()
            ),
            Difference::Importances => f.write_str("the importances at the tip are not what the blocks give"),
        }
    }
}

/// The first difference in what two stores know of the blocks of a range of heights.
pub fn compare_blocks(
    ours: &impl Read,
    computed: &impl Read,
    first: Height,
    last: Height,
) -> Result<Option<Difference>, StoreError> {
    for height in (first.0..=last.0).map(Height) {
        let pair = stored_header(ours, height)?.zip(stored_header(computed, height)?);
        let ((ours, _), (computed, _)) = pair.ok_or(StoreError::Damaged("a block is missing"))?;
        if let Some(member) = first_difference(&ours, &computed) {
            return Ok(Some(Difference::Block(height, member)));
        }
    }
    Ok(None)
}

fn first_difference(a: &StoredBlock, b: &StoredBlock) -> Option<&'static str> {
    let members = [
        ("hash", a.hash == b.hash),
        ("generation hash", a.generation_hash == b.generation_hash),
        ("time stamp", a.timestamp == b.timestamp),
        ("difficulty", a.difficulty == b.difficulty),
        ("chain score", a.score == b.score),
        ("total fee", a.total_fee == b.total_fee),
        ("lessor", a.lessor == b.lessor),
        ("numbering of the transactions", a.ids == b.ids),
    ];
    members.into_iter().find(|(_, same)| !same).map(|(member, _)| member)
}

/// The first difference of the states of two stores.
pub fn compare_states(ours: &impl Read, computed: &impl Read) -> Result<Option<Difference>, StoreError> {
    for table in Table::state() {
        let (mut a, mut b) = (ours.walk(table)?, computed.walk(table)?);
        let mut entries = (a.seek(&[])?, b.seek(&[])?);
        while entries.0.is_some() || entries.1.is_some() {
            if entries.0 != entries.1 {
                // Of two different keys the lower one is missing in the other store.
                let keys = entries.0.into_iter().chain(entries.1).map(|(key, _)| key);
                return Ok(keys.min().map(|key| Difference::State(table, key.to_vec())));
            }
            entries = (a.next()?, b.next()?);
        }
    }
    Ok((state::digest(ours)? != state::digest(computed)?).then_some(Difference::Importances))
}
