//! Chain parts of several blocks: imported at once, replacing others, and rejected for their last block.

use std::collections::BTreeSet;

use nisd::model::{Block, Hash256, Transaction};

use super::court::Purpose;
use super::figures::Class;
use super::ground::{LATE, NOT_BETTER};
use super::model::Model;
use super::people::HARVESTERS;
use super::record::Part;
use super::rule::{Ruling, Verdict};
use super::{Stage, bytes_of};

/// Maximum number of blocks that are undone: those that every network can undo, and one that was tried above them.
pub const LONGEST: usize = 8;

/// A block of the chain and the state before it.
pub struct Past {
    pub model: Model,
    pub block: Block,
    /// Network time of its import.
    pub now: i32,
    /// Digest of the state before it.
    pub digest: Hash256,
}

impl Stage {
    /// Returns at least `least` last blocks, a network time at which all were acceptable, and the model and digest
    /// before them.
    fn last_blocks(&mut self, least: usize) -> Option<(Vec<Block>, i32, Model, Hash256)> {
        let spare = self.history.len().checked_sub(least)?;
        let first = self.random.below(spare + 1);
        let pasts = self.history.range(first..);
        let now = pasts.clone().map(|past| past.now).max()?;
        let Past { model, digest, .. } = &self.history[first];
        Some((pasts.map(|past| past.block.clone()).collect(), now, model.clone(), *digest))
    }

    /// Undoes several blocks and offers them again as one part, onto nothing or onto another block.
    pub fn try_part(&mut self) {
        let Some((blocks, now, past, digest)) = self.last_blocks(2) else { return };
        let (common, there) = (past.height, self.ground.digest());
        self.ground.go_back(common);
        let ours = std::mem::replace(&mut self.model, past);
        self.check_state();
        if self.ground.digest() != digest {
            self.differ("the state after several blocks were undone is not that before them".to_owned());
        }
        self.figures.note(Class::DeepRollBack);
        let other = if self.random.coin() { self.put_other_block() } else { None };
        let bytes = bytes_of(&blocks);
        let (found, returned) = self.ground.offer_bytes(common, &bytes, now);
        self.figures.offered += 1;
        if found != Verdict::Valid || self.ground.digest() != there {
            let hex: Vec<String> = bytes.iter().map(hex::encode).collect();
            self.differ(format!("{} good blocks: given {found:?}; time {now}; {}", blocks.len(), hex.join(" ")));
        }
        self.model = ours;
        self.check_state();
        self.note_part(&blocks);
        let instead = bytes_of(other.as_slice());
        if let Some(recorder) = &mut self.recorder {
            let tip = common + instead.len() as u64;
            let part = Part { above: common, tip, now, instead: &instead, blocks: &bytes, found, returned: &returned };
            let pasts = self.history.iter().map(|past| &past.model).filter(|model| model.height >= common);
            recorder.undone(&self.world, &part, &pasts.chain([&self.model]).collect::<Vec<_>>());
        }
        if let Some(other) = other {
            self.check_returned(&other, &blocks, &returned);
            let (again, _) = self.ground.offer_bytes(common, &instead, LATE);
            if let Some(recorder) = &mut self.recorder {
                let (tip, found) = (self.model.height, again.clone());
                let part = Part { above: common, tip, now: LATE, instead: &[], blocks: &instead, found, returned: &[] };
                recorder.undone(&self.world, &part, &[]);
            }
            if again != Verdict::Exception(NOT_BETTER.to_owned()) || self.ground.digest() != there {
                self.differ(format!("a part that is not better: {again:?}"));
            }
            self.figures.note(Class::WorsePart);
        }
    }

    fn note_part(&mut self, blocks: &[Block]) {
        if blocks.iter().filter(|block| !block.transactions.is_empty()).count() > 1 {
            self.figures.note(Class::FullPart);
        }
        if blocks.iter().filter(|block| self.is_full(&block.transactions)).count() > 1 {
            self.figures.note(Class::FullBlocks);
        }
        let forks = self.world.terms.forks.all();
        if blocks[1..].iter().any(|block| forks.contains(&block.height.0)) {
            self.figures.note(Class::ForkInPart);
        }
    }

    /// Adds another valid block to the tip, if a random one is found. Its effects are not modelled, because other
    /// blocks are to replace it.
    fn put_other_block(&mut self) -> Option<Block> {
        if self.next_height() == self.world.terms.forks.treasury {
            return None;
        }
        let time = self.time();
        let transactions: Vec<Transaction> = self.something([HARVESTERS[0]; 2]).into_iter().collect();
        let block = self.block(HARVESTERS[0], time, transactions);
        let after = self.world.court(&self.model, time, Purpose::Block).judge_block(&block).ok()?;
        let found = self.ground.offer(std::slice::from_ref(&block), time);
        if found != Verdict::Valid {
            self.differ(format!("another good block: {found:?}"));
            return None;
        }
        let before = std::mem::replace(&mut self.model, after);
        self.check_state();
        if let Some(recorder) = &mut self.recorder {
            let bytes = bytes_of(std::slice::from_ref(&block));
            recorder.undone(&self.world, &Part::after(&before, &bytes, time), &[&before, &self.model]);
        }
        self.model = before;
        Some(block)
    }

    /// Checks that the transactions of a replaced block are returned unless the part holds them too.
    fn check_returned(&mut self, replaced: &Block, part: &[Block], returned: &[Transaction]) {
        let hashes = |list: &[Transaction]| list.iter().map(Transaction::hash).collect::<BTreeSet<_>>();
        let kept: BTreeSet<Hash256> = part.iter().flat_map(|block| hashes(&block.transactions)).collect();
        let expected: BTreeSet<Hash256> = hashes(&replaced.transactions).difference(&kept).copied().collect();
        if hashes(returned) != expected {
            self.differ(format!("{} transactions came back, not {}", returned.len(), expected.len()));
        }
        if !expected.is_empty() {
            self.figures.note(Class::Replacement);
        }
    }

    /// Offers a bad block again at the end of a part that starts with blocks of the chain.
    pub fn offer_late(&mut self, bad: &Block, now: i32) {
        let Some((mut blocks, _, past, _)) = self.last_blocks(1) else { return };
        let there = self.ground.digest();
        blocks.push(bad.clone());
        let Err(ruling) = self.judge_part(past, &blocks, now) else {
            return self.differ("what is bad alone is good in a part".to_owned());
        };
        self.figures.offered += 1;
        let (above, bytes) = (blocks[0].height.0 - 1, bytes_of(&blocks));
        let (found, _) = self.ground.offer_bytes(above, &bytes, now);
        self.check_refusal(&ruling, above, &bytes, now, &found);
        if self.ground.height() > self.model.height {
            self.ground.go_back(self.model.height);
        }
        if self.ground.digest() != there {
            self.differ("a refused part left something behind".to_owned());
        }
        self.figures.note(Class::LatePart);
    }

    fn judge_part(&self, mut model: Model, blocks: &[Block], now: i32) -> Result<Model, Ruling> {
        let mut seen = BTreeSet::new();
        for block in blocks {
            model = self.world.court(&model, now, Purpose::Block).judge_next(block, &mut seen)?;
        }
        Ok(model)
    }
}
