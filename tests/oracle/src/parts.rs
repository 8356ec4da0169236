//! Chain parts of several blocks: imported at once, replacing others, and rejected for their last block.

use std::collections::BTreeSet;

use nisd::model::{Block, Hash256, Transaction};

use super::court::Purpose;
use super::figures::Class;
use super::ground::{FAR_FUTURE, NOT_BETTER};
use super::model::Model;
use super::people::HARVESTERS;
use super::record::Part;
use super::rule::{ExpectedResult, RuleViolation};
use super::{NetworkRun, bytes_of};

/// Maximum number of blocks that are undone: those that every network can undo, and one that was tried above them.
pub const MAX_UNDONE: usize = 8;

/// A block of the chain and the state before it.
pub struct PastBlock {
    pub model: Model,
    pub block: Block,
    /// Network time of its import.
    pub now: i32,
    /// Digest of the state before it.
    pub digest: Hash256,
}

impl NetworkRun {
    /// Returns at least `least` last blocks, a network time at which all were acceptable, and the model and digest
    /// before them.
    fn last_blocks(&mut self, least: usize) -> Option<(Vec<Block>, i32, Model, Hash256)> {
        let spare = self.history.len().checked_sub(least)?;
        let first = self.random.below(spare + 1);
        let pasts = self.history.range(first..);
        let now = pasts.clone().map(|past| past.now).max()?;
        let PastBlock { model, digest, .. } = &self.history[first];
        Some((pasts.map(|past| past.block.clone()).collect(), now, model.clone(), *digest))
    }

    /// Undoes several blocks and offers them again as one part, onto nothing or onto another block.
    pub fn try_part(&mut self) {
        let Some((blocks, now, past, digest)) = self.last_blocks(2) else { return };
        let (common, there) = (past.height, self.node.digest());
        self.node.roll_back(common);
        let ours = std::mem::replace(&mut self.model, past);
        self.check_state();
        if self.node.digest() != digest {
            self.add_difference("the state after several blocks were undone is not that before them".to_owned());
        }
        self.statistics.count_class(Class::DeepRollBack);
        let other = if self.random.coin() { self.put_other_block() } else { None };
        let bytes = bytes_of(&blocks);
        let (found, returned) = self.node.offer_bytes(common, &bytes, now);
        self.statistics.offered += 1;
        if found != ExpectedResult::Valid || self.node.digest() != there {
            let hex: Vec<String> = bytes.iter().map(hex::encode).collect();
            self.add_difference(format!(
                "{} good blocks: given {found:?}; time {now}; {}",
                blocks.len(),
                hex.join(" ")
            ));
        }
        self.model = ours;
        self.check_state();
        self.count_part_classes(&blocks);
        let instead = bytes_of(other.as_slice());
        if let Some(recorder) = &mut self.recorder {
            let tip = common + instead.len() as u64;
            let part = Part { above: common, tip, now, replaced: &instead, blocks: &bytes, found, returned: &returned };
            let pasts = self.history.iter().map(|past| &past.model).filter(|model| model.height >= common);
            recorder.undone(&self.test_network, &part, &pasts.chain([&self.model]).collect::<Vec<_>>());
        }
        if let Some(other) = other {
            self.check_returned(&other, &blocks, &returned);
            let (again, _) = self.node.offer_bytes(common, &instead, FAR_FUTURE);
            if let Some(recorder) = &mut self.recorder {
                let (tip, found) = (self.model.height, again.clone());
                let part =
                    Part { above: common, tip, now: FAR_FUTURE, replaced: &[], blocks: &instead, found, returned: &[] };
                recorder.undone(&self.test_network, &part, &[]);
            }
            if again != ExpectedResult::Exception(NOT_BETTER.to_owned()) || self.node.digest() != there {
                self.add_difference(format!("a part that is not better: {again:?}"));
            }
            self.statistics.count_class(Class::WorsePart);
        }
    }

    fn count_part_classes(&mut self, blocks: &[Block]) {
        if blocks.iter().filter(|block| !block.transactions.is_empty()).count() > 1 {
            self.statistics.count_class(Class::FullPart);
        }
        if blocks.iter().filter(|block| self.is_full(&block.transactions)).count() > 1 {
            self.statistics.count_class(Class::FullBlocks);
        }
        let forks = self.test_network.terms.forks.all();
        if blocks[1..].iter().any(|block| forks.contains(&block.height.0)) {
            self.statistics.count_class(Class::ForkInPart);
        }
    }

    /// Adds another valid block to the tip, if a random one is found. Its effects are not modelled, because other
    /// blocks are to replace it.
    fn put_other_block(&mut self) -> Option<Block> {
        if self.next_height() == self.test_network.terms.forks.treasury {
            return None;
        }
        let time = self.time();
        let transactions: Vec<Transaction> = self.random_transaction([HARVESTERS[0]; 2]).into_iter().collect();
        let block = self.block(HARVESTERS[0], time, transactions);
        let after = self.test_network.oracle(&self.model, time, Purpose::Block).validate_block(&block).ok()?;
        let found = self.node.offer(std::slice::from_ref(&block), time);
        if found != ExpectedResult::Valid {
            self.add_difference(format!("another good block: {found:?}"));
            return None;
        }
        let before = std::mem::replace(&mut self.model, after);
        self.check_state();
        if let Some(recorder) = &mut self.recorder {
            let bytes = bytes_of(std::slice::from_ref(&block));
            recorder.undone(&self.test_network, &Part::after(&before, &bytes, time), &[&before, &self.model]);
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
            self.add_difference(format!("{} transactions came back, not {}", returned.len(), expected.len()));
        }
        if !expected.is_empty() {
            self.statistics.count_class(Class::Replacement);
        }
    }

    /// Offers a bad block again at the end of a part that starts with blocks of the chain.
    pub fn offer_at_end(&mut self, bad: &Block, now: i32) {
        let Some((mut blocks, _, past, _)) = self.last_blocks(1) else { return };
        let there = self.node.digest();
        blocks.push(bad.clone());
        let Err(ruling) = self.validate_part(past, &blocks, now) else {
            return self.add_difference("what is bad alone is good in a part".to_owned());
        };
        self.statistics.offered += 1;
        let (above, bytes) = (blocks[0].height.0 - 1, bytes_of(&blocks));
        let (found, _) = self.node.offer_bytes(above, &bytes, now);
        self.check_refusal(&ruling, above, &bytes, now, &found);
        if self.node.height() > self.model.height {
            self.node.roll_back(self.model.height);
        }
        if self.node.digest() != there {
            self.add_difference("a refused part left something behind".to_owned());
        }
        self.statistics.count_class(Class::LatePart);
    }

    fn validate_part(&self, mut model: Model, blocks: &[Block], now: i32) -> Result<Model, RuleViolation> {
        let mut seen = BTreeSet::new();
        for block in blocks {
            model = self.test_network.oracle(&model, now, Purpose::Block).validate_next(block, &mut seen)?;
        }
        Ok(model)
    }
}
