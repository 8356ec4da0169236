//! Blocks that are fetched together.

use std::collections::VecDeque;

use super::Question;
use crate::codec::Context;
use crate::model::{Address, Block, Hash256, Height};
use crate::peer::wire::BlockList;

/// Blocks that follow each other, from the first that is still wanted on.
#[derive(Debug)]
pub struct Piece {
    first: Height,
    /// The hashes that they must have.
    hashes: VecDeque<Hash256>,
    /// Who says so.
    claimed_by: Address,
    heard: Option<(Address, BlockList)>,
}

impl Piece {
    /// Blocks with these hashes, as a node says, of which none has come.
    pub fn new(first: Height, hashes: VecDeque<Hash256>, claimed_by: Address) -> Piece {
        Piece { first, hashes, claimed_by, heard: None }
    }

    /// Who says that they have these hashes.
    pub fn claimed_by(&self) -> Address {
        self.claimed_by
    }

    /// How it is asked for.
    pub fn question(&self) -> Question {
        Question::BlocksAfter(Height(self.first.0.saturating_sub(1)))
    }

    /// Whether its blocks have come.
    pub fn is_heard(&self) -> bool {
        self.heard.is_some()
    }

    /// Who has sent them.
    pub fn from(&self) -> Option<Address> {
        self.heard.as_ref().map(|(from, _)| *from)
    }

    /// Whether all of them were taken.
    pub fn is_through(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Bytes of memory that its blocks hold.
    pub fn held_bytes(&self) -> usize {
        self.heard.as_ref().map_or(0, |(_, blocks)| blocks.held_bytes())
    }

    /// Takes blocks that a node has sent. What they are too few for is a piece of its own.
    pub fn hear(&mut self, from: Address, blocks: BlockList) -> Option<Piece> {
        let heard = blocks.left().min(self.hashes.len());
        let rest = self.hashes.split_off(heard);
        self.heard = Some((from, blocks));
        (!rest.is_empty()).then(|| Piece::new(Height(self.first.0 + heard as u64), rest, self.claimed_by))
    }

    /// The next block, with its hash; `None` if it is not the one that was claimed, or none at all. Then this one and all
    /// that follow are wanted again.
    pub fn next(&mut self, context: Context) -> Option<(Box<Block>, Hash256)> {
        let (_, blocks) = self.heard.as_mut()?;
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
                self.heard = None;
                None
            }
        }
    }
}
