//! A place in the chain up to which a stream has told everything, and its text: the id of an event.
//!
//! The text is `HEIGHT.NEXT.HASH.ANCESTOR`: the height of a block, the index of its next transaction (`end` after the last
//! one), and the first eight bytes in hex of its hash and of that of its ancestor at the depth that no rollback exceeds,
//! which a block far below the tip does not need. Of a block that can still be replaced it goes on with those of its
//! ancestors 1, 2, 4, … blocks below it, so that a node that never had the block finds where its own chain branched off.
//! `NEXT-COMMON` stands for `NEXT` within a rollback to the height `COMMON`: whoever has begun to undo goes on down to there,
//! even if the chain has the block again. It is at most twice the rewrite limit below the block.

use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use super::feed::{EventFeed, FeedBlock};
use crate::chain::ChainSnapshot;
use crate::model::{Hash256, Height};
use crate::store::{StoreError, StoredHeader, stored_header};

/// Index after the last transaction of any block.
pub const END: u32 = u32::MAX;
/// Maximum number of ancestors: twice as many as any rewrite limit needs.
const MAX_ANCESTORS: usize = 128;

/// The first bytes of the hash of a block.
pub type ShortHash = [u8; 8];

/// Returns the first bytes of a hash.
pub fn short(hash: &Hash256) -> ShortHash {
    hash.0.first_chunk().copied().unwrap_or_default()
}

/// Names a block and some of its ancestors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockName {
    /// First bytes of its hash.
    pub hash: ShortHash,
    /// Those at [`depths`]; only the first one of a block that no rollback of the chain reaches, and none of a much older one.
    ancestors: Vec<ShortHash>,
}

/// A place in the chain: everything before it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Height of the block; 0 before the first one.
    pub height: Height,
    /// Index of the next transaction; [`END`] after the last one.
    pub next: u32,
    /// The block.
    pub block: Rc<BlockName>,
    /// Height down to which a rollback was told of which this place is a part; it is below the block.
    pub rollback: Option<Height>,
}

/// Where a place is, seen from the chain.
pub enum Position {
    /// Its block is in the chain.
    InChain,
    /// The chain may still reach it.
    Ahead,
    /// Its block was replaced here, and so were all others above this height.
    Undone(Rc<FeedBlock>, Height),
    /// Its block was replaced elsewhere; the chain has everything up to this height at least.
    Forked(Height),
    /// It is of another chain.
    Foreign,
}

/// Depths of the named ancestors below a block: the one that no rollback exceeds, or the first block, then powers of two.
fn depths(height: Height, rewrite_limit: u64) -> impl Iterator<Item = u64> {
    let deepest = rewrite_limit.max(1).min(height.0.saturating_sub(1));
    let powers = (0..u64::BITS).map(|power| 1 << power).take_while(move |depth| *depth < deepest);
    Some(deepest).filter(|depth| *depth > 0).into_iter().chain(powers)
}

impl BlockName {
    /// Names a block of the chain.
    pub fn of(header: &StoredHeader, chain: &ChainSnapshot<'_>) -> Result<BlockName, StoreError> {
        BlockName::with_ancestors(header, chain, &HashMap::new())
    }

    /// Names a block with ancestors that were undone, or are in the chain.
    pub fn with_ancestors(
        header: &StoredHeader,
        chain: &ChainSnapshot<'_>,
        undone: &HashMap<Height, Hash256>,
    ) -> Result<BlockName, StoreError> {
        let (hash, limit) = (short(&header.hash), chain.network.chain.rewrite_limit);
        let count = match chain.height.0.saturating_sub(header.height.0) / limit.max(1) {
            0 => MAX_ANCESTORS,
            // Another node may be on a shorter branch, in which it can still be replaced.
            1 => 1,
            _ => 0,
        };
        let mut ancestors = Vec::new();
        for depth in depths(header.height, limit).take(count) {
            let height = Height(header.height.0.saturating_sub(depth));
            ancestors.push(match undone.get(&height) {
                Some(hash) => short(hash),
                None => {
                    stored_header(chain.snapshot, height)?.map_or_else(Default::default, |found| short(&found.hash))
                }
            });
        }
        Ok(BlockName { hash, ancestors })
    }
}

impl Place {
    /// Returns the place before the first block.
    pub fn start() -> Place {
        let block = BlockName { hash: ShortHash::default(), ancestors: Vec::new() };
        Place { height: Height(0), next: END, block: Rc::new(block), rollback: None }
    }

    /// Returns the place after the block at a height of the chain.
    pub fn after(height: Height, chain: &ChainSnapshot<'_>) -> Result<Place, StoreError> {
        if height.0 == 0 {
            return Ok(Place::start());
        }
        let header = stored_header(chain.snapshot, height)?.ok_or(StoreError::Damaged("a block is missing"))?;
        Ok(Place { height, next: END, block: Rc::new(BlockName::of(&header, chain)?), rollback: None })
    }

    /// Parses an id in a chain with a rewrite limit. A rollback is at most twice as deep: a chain that has replaced another
    /// may be shorter, and be replaced in turn before the first rollback is told.
    pub fn parse(text: &str, rewrite_limit: u64) -> Option<Place> {
        let mut parts = text.split('.');
        let height = number(parts.next()?)?;
        let next = parts.next()?;
        let (next, rollback) = match next.split_once('-') {
            Some((next, rollback)) => {
                let deepest = height.saturating_sub(rewrite_limit.saturating_mul(2)).max(1);
                (next, Some(number(rollback).filter(|rollback| (deepest..height).contains(rollback))?))
            }
            None => (next, None),
        };
        let next = match next {
            "end" => END,
            next => number(next).and_then(|next| u32::try_from(next).ok()).filter(|next| *next != END)?,
        };
        let mut hashes = parts.map(|part| {
            let mut hash = ShortHash::default();
            hex::decode_to_slice(part, &mut hash).ok().map(|()| hash)
        });
        let hash = hashes.next()??;
        let ancestors = hashes.by_ref().take(MAX_ANCESTORS).collect::<Option<Vec<_>>>()?;
        let is_whole = hashes.next().is_none();
        let block = Rc::new(BlockName { hash, ancestors });
        // Nothing is told of the place before the first block.
        let exists = height > 0 || next == END;
        (is_whole && exists).then(|| Place { height: Height(height), next, block, rollback: rollback.map(Height) })
    }

    /// Returns where the place is. Reads at most one header for each of its hashes.
    pub fn position(&self, chain: &ChainSnapshot<'_>, feed: &EventFeed) -> Result<Position, StoreError> {
        if self.height.0 == 0 {
            return Ok(Position::InChain);
        }
        if has(chain, self.height, &self.block.hash)? {
            return Ok(Position::InChain);
        }
        if let Some(block) = feed.undone(self.height, &self.block.hash)
            && let Some(common) = feed.common_of(&block, chain)?
        {
            return Ok(Position::Undone(block, common));
        }
        // Only the ancestors of the block tell.
        let mut may_be_ahead = !chain.has_block(self.height);
        let mut named: Vec<_> =
            depths(self.height, chain.network.chain.rewrite_limit).zip(&self.block.ancestors).collect();
        named.sort_unstable_by_key(|(depth, _)| *depth);
        for (depth, hash) in named {
            let height = Height(self.height.0.saturating_sub(depth));
            if !chain.has_block(height) {
                continue;
            }
            if has(chain, height, hash)? {
                return Ok(if may_be_ahead { Position::Ahead } else { Position::Forked(height) });
            }
            may_be_ahead = false;
        }
        // A chain that has branched off further down than it could go back from the place may be shorter, and go back.
        Ok(if chain.has_block(self.height) { Position::Foreign } else { Position::Ahead })
    }
}

/// Returns whether the chain has a block.
fn has(chain: &ChainSnapshot<'_>, height: Height, hash: &ShortHash) -> Result<bool, StoreError> {
    let header = stored_header(chain.snapshot, height)?;
    Ok(header.is_some_and(|header| short(&header.hash) == *hash))
}

/// Parses a number without sign.
fn number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.next {
            END => write!(f, "{}.end", self.height)?,
            next => write!(f, "{}.{next}", self.height)?,
        }
        if let Some(rollback) = self.rollback {
            write!(f, "-{rollback}")?;
        }
        for hash in std::iter::once(&self.block.hash).chain(&self.block.ancestors) {
            write!(f, ".{:016x}", u64::from_be_bytes(*hash))?;
        }
        Ok(())
    }
}
