//! A place in the chain up to which a stream has told everything, and its text: the id of an event.
//!
//! The text is `HEIGHT.NEXT.HASH`: the height of a block, the index of its next transaction (`end` after the last one), and
//! the first eight bytes of its hash in hex. Of a block that can still be replaced it goes on with those of its ancestors
//! 1, 2, 4, … blocks below it, and at the depth that no rollback exceeds, so that a node that never had the block finds
//! where its own chain branched off.

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
    hash: ShortHash,
    /// Those at [`depths`]; none of a block that no rollback reaches.
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
}

/// Where a place is, seen from the chain.
pub enum Position {
    /// Its block is in the chain.
    InChain,
    /// The chain may still reach it.
    Ahead,
    /// Its block was replaced here.
    Undone(Rc<FeedBlock>),
    /// Its block was replaced elsewhere; the chain has everything up to this height at least.
    Forked(Height),
    /// It is of another chain.
    Foreign,
}

/// Depths of the named ancestors below a block.
fn depths(rewrite_limit: u64) -> impl Iterator<Item = u64> {
    let powers = (0..u64::BITS).map(|power| 1 << power);
    powers.take_while(move |depth| *depth < rewrite_limit).chain([rewrite_limit.max(1)])
}

impl BlockName {
    /// Names a block of the chain.
    pub fn of(header: &StoredHeader, chain: &ChainSnapshot<'_>) -> Result<BlockName, StoreError> {
        let ancestor = |height| stored_header(chain.snapshot, height).map(|found| found.map(|header| header.hash));
        BlockName::with_ancestors(header, chain, ancestor)
    }

    /// Names a block whose ancestors a function returns.
    pub fn with_ancestors(
        header: &StoredHeader,
        chain: &ChainSnapshot<'_>,
        ancestor: impl Fn(Height) -> Result<Option<Hash256>, StoreError>,
    ) -> Result<BlockName, StoreError> {
        let (hash, limit) = (short(&header.hash), chain.network.chain.rewrite_limit);
        let mut ancestors = Vec::new();
        if chain.height.0.saturating_sub(header.height.0) < limit {
            for depth in depths(limit).take_while(|depth| *depth < header.height.0) {
                let found = ancestor(Height(header.height.0 - depth))?;
                ancestors.push(found.as_ref().map(short).unwrap_or_default());
            }
        }
        Ok(BlockName { hash, ancestors })
    }

    /// Returns the first bytes of the hash of the block.
    pub fn hash(&self) -> ShortHash {
        self.hash
    }
}

impl Place {
    /// Returns the place before the first block.
    pub fn start() -> Place {
        let block = BlockName { hash: ShortHash::default(), ancestors: Vec::new() };
        Place { height: Height(0), next: END, block: Rc::new(block) }
    }

    /// Returns the place after the block at a height of the chain.
    pub fn after(height: Height, chain: &ChainSnapshot<'_>) -> Result<Place, StoreError> {
        if height.0 == 0 {
            return Ok(Place::start());
        }
        let header = stored_header(chain.snapshot, height)?.ok_or(StoreError::Damaged("a block is missing"))?;
        Ok(Place { height, next: END, block: Rc::new(BlockName::of(&header, chain)?) })
    }

    /// Parses an id.
    pub fn parse(text: &str) -> Option<Place> {
        let mut parts = text.split('.');
        let height = number(parts.next()?)?;
        let next = match parts.next()? {
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
        is_whole.then(|| Place { height: Height(height), next, block: Rc::new(BlockName { hash, ancestors }) })
    }

    /// Returns where the place is. Reads at most one header for each of its hashes.
    pub fn position(&self, chain: &ChainSnapshot<'_>, feed: &EventFeed) -> Result<Position, StoreError> {
        if self.height.0 == 0 {
            return Ok(Position::InChain);
        }
        let has = |height: Height, hash: &ShortHash| -> Result<bool, StoreError> {
            let header = stored_header(chain.snapshot, height)?;
            Ok(header.is_some_and(|header| short(&header.hash) == *hash))
        };
        if chain.has_block(self.height) && has(self.height, &self.block.hash)? {
            return Ok(Position::InChain);
        }
        if let Some(block) = feed.undone(self.height, &self.block.hash) {
            return Ok(Position::Undone(block));
        }
        self.common(chain, has)
    }

    /// Returns the position by the ancestors of the block alone.
    pub fn position_by_ancestors(&self, chain: &ChainSnapshot<'_>) -> Result<Position, StoreError> {
        self.common(chain, |height, hash| {
            let header = stored_header(chain.snapshot, height)?;
            Ok(header.is_some_and(|header| short(&header.hash) == *hash))
        })
    }

    fn common(
        &self,
        chain: &ChainSnapshot<'_>,
        has: impl Fn(Height, &ShortHash) -> Result<bool, StoreError>,
    ) -> Result<Position, StoreError> {
        let mut may_be_ahead = !chain.has_block(self.height);
        let depths = depths(chain.network.chain.rewrite_limit);
        for (depth, hash) in depths.zip(&self.block.ancestors) {
            let Some(height) = self.height.0.checked_sub(depth).map(Height).filter(|height| height.0 > 0) else {
                break;
            };
            if !chain.has_block(height) {
                continue;
            }
            match has(height, hash)? {
                true if may_be_ahead => return Ok(Position::Ahead),
                true => return Ok(Position::Forked(height)),
                false => may_be_ahead = false,
            }
        }
        // The nemesis block is common to all chains of a network.
        let is_near_start = self.height.0 <= chain.network.chain.rewrite_limit;
        Ok(match may_be_ahead {
            true => Position::Ahead,
            false if is_near_start && !self.block.ancestors.is_empty() => Position::Forked(Height::NEMESIS),
            false => Position::Foreign,
        })
    }
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
        for hash in std::iter::once(&self.block.hash).chain(&self.block.ancestors) {
            write!(f, ".{:016x}", u64::from_be_bytes(*hash))?;
        }
        Ok(())
    }
}
