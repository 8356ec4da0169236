//! Validates a candidate branch as a whole: blocks that follow one of ours and may replace our blocks above it.
//!
//! What is cheap comes first: the headers, signatures and hits of all blocks, then the scores. Only a branch that is proven
//! and better makes our blocks be undone and its transactions be looked at.
//!
//! The hits of blocks far above the common one depend on blocks before them in the branch. They are checked as soon as
//! these are executed, and no transaction of such a block is looked at before. So one proven block below a
//! recalculation of importances makes our blocks be undone, and itself be executed, although the hits of those above it are
//! missing: our blocks cost a step each, and whoever sends such a branch is backed off like after any other rejection, which
//! leaves it ten such branches in the first hour.
//!
//! All work is done in one write transaction. It is committed if the branch is valid and better, and dropped otherwise,
//! so that the chain is never between two states. The outcome is returned once it is durable.

use std::collections::{BTreeSet, VecDeque};

use super::apply::{Retention, RollbackError, check_undoable, undo_tip};
use super::block_execution::{BlockExecution, ExecutionContext, Verified, check_block_signature, next_difficulty};
use super::chain_tip::ChainTip;
use super::recalculation::StakeCache;
use super::snapshot::ConfirmedBlock;
use crate::codec::block::EncodedTransactions;
use crate::crypto::Verifier;
use crate::model::transaction::wire_network;
use crate::model::{Block, Hash256, Height, Network, Timestamp, Transaction};
use crate::rules::{Exception, Rejection, RuleResult, ValidationResult, require};
use crate::store::{Read, Result, Store, StoreError, StoredHeader, WriteTxn, parent_hash, stored_header, tip};

/// Outcome of a branch.
#[derive(Debug)]
pub struct BranchOutcome {
    /// The first reason for which the branch is rejected. If it is not better, only the proofs of its blocks are checked.
    pub validity: RuleResult,
    /// Scores of our blocks above the one at which the branch is said to begin, and of the branch, if it is proven.
    pub scores: Option<(i64, i64)>,
    /// The change of our chain, if the branch was better.
    pub update: Option<ChainUpdate>,
}

/// A change of our chain.
#[derive(Clone, Debug)]
pub struct ChainUpdate {
    /// The last common block.
    pub common: Height,
    /// The new tip.
    pub tip: Height,
    /// Our replaced blocks, highest first.
    pub undone: Vec<ConfirmedBlock>,
    /// Hashes of the branch's top-level transactions.
    pub confirmed: BTreeSet<Hash256>,
    /// Top-level transactions of our replaced blocks that the branch does not contain, in the order in which they
    /// return to the mempool.
    pub returned: Vec<Transaction>,
    /// Hashes of the cosignatures of our replaced blocks whose multisig transactions the branch contains, maybe without
    /// them.
    pub cosignatures: Vec<Hash256>,
}

impl BranchOutcome {
    /// Returns the result for a pushed or harvested block, as NIS1 has it.
    pub fn as_push_result(&self) -> RuleResult {
        match (&self.validity, self.scores) {
            (Err(Rejection::Exception(exception)), _) => Err(exception.clone().into()),
            _ if self.update.is_some() => Ok(()),
            // A branch that adds nothing to the score counts as invalid.
            (Ok(()), Some((_, theirs))) if theirs != 0 => Err(ValidationResult::Neutral.into()),
            _ => Err(ValidationResult::FailureChainInvalid.into()),
        }
    }

    /// Returns the result for a branch that was requested because its sender reported a better chain.
    pub fn as_sync_result(&self) -> RuleResult {
        match &self.validity {
            Err(Rejection::Exception(exception)) => Err(exception.clone().into()),
            _ => require(self.update.is_some(), ValidationResult::FailureChainScoreInferior),
        }
    }
}

/// A candidate branch that is being processed.
pub struct CandidateBranch<'s> {
    store: &'s Store,
    network: &'s Network,
    /// All its changes of the chain, until they are committed or dropped.
    txn: Option<WriteTxn<'s>>,
    verifier: Verifier,
    seen: BTreeSet<Hash256>,
    /// The last common block: at first that at which the branch is said to begin.
    common: Height,
    /// Our undone blocks, highest first.
    undone: Vec<ConfirmedBlock>,
    /// Score of our chain up to the block at which the branch is said to begin.
    common_score: i128,
    /// Scores of our blocks above that one, and of the proven blocks of the branch. As in NIS1, sums wrap at 64 bits.
    scores: (i64, i64),
    /// Its blocks that are not stored yet.
    blocks: VecDeque<Box<BlockExecution>>,
    /// The number of those that are stored, and how many of the next ones are proven. 0 until the branch is known to be
    /// better.
    stored: usize,
    proven: usize,
    stage: BranchStage,
    /// Hashes of the branch's top-level transactions.
    confirmed: BTreeSet<Hash256>,
    /// The outcome, which waits for the disk.
    outcome: Option<BranchOutcome>,
}

enum BranchStage {
    /// Nothing is checked yet.
    Starting,
    /// The proofs are checked as far as they follow from the blocks executed so far: the chain up to the last checked block,
    /// and the number of those.
    Proving(ChainTip, usize),
    /// Our blocks above the common one are undone; after the first proofs there are none left.
    Undoing,
    /// The signatures of the transactions of the proven blocks are checked; the number of blocks done. All are checked before
    /// the first of these blocks is executed.
    Verifying(usize),
    /// The proven blocks are executed on top of this tip.
    Executing(ChainTip),
}

impl<'s> CandidateBranch<'s> {
    /// Creates a branch of blocks that follow our block at the height `common`. Fails if that is above our tip or
    /// deeper than our blocks can be undone. They can be undone down to the rewrite limit below the highest block that
    /// the chain ever had: a rollback does not extend that.
    pub fn new(
        store: &'s Store,
        network: &'s Network,
        common: Height,
        blocks: Vec<Block>,
    ) -> Result<CandidateBranch<'s>, RollbackError> {
        let start = |block| Box::new(BlockExecution::new(block, network, false, Verified::default()));
        CandidateBranch::of_blocks(store, network, common, blocks.into_iter().map(start).collect())
    }

    fn of_blocks(
        store: &'s Store,
        network: &'s Network,
        common: Height,
        blocks: VecDeque<Box<BlockExecution>>,
    ) -> Result<CandidateBranch<'s>, RollbackError> {
        let txn = store.begin_write()?;
        let last = check_undoable(&txn, common)?;
        let base = stored_header(&txn, common)?.ok_or(StoreError::Damaged("a block is missing"))?;
        Ok(CandidateBranch {
            store,
            network,
            txn: Some(txn),
            verifier: Verifier::default(),
            seen: BTreeSet::new(),
            common,
            undone: Vec::new(),
            common_score: base.score,
            scores: ((last.score - base.score) as i64, 0),
            blocks,
            stored: 0,
            proven: 0,
            stage: BranchStage::Starting,
            confirmed: BTreeSet::new(),
            outcome: None,
        })
    }

    /// Returns whether the branch has become our chain but its outcome was not returned yet.
    pub fn is_committed(&self) -> bool {
        self.outcome.is_some()
    }

    /// Returns the block whose proof is checked next, if its hit is.
    pub fn next_to_prove(&self) -> Option<&Block> {
        match &self.stage {
            BranchStage::Proving(_, checked) => {
                let block = self.blocks.get(*checked)?;
                block.is_provable(self.executed_up_to(), self.network).then_some(&block.block)
            }
            _ => None,
        }
    }

    /// Returns the proven blocks that are going to be executed, without the first `known` of them.
    pub fn proven_blocks(&self, known: usize) -> impl Iterator<Item = &Block> {
        let first = known.saturating_sub(self.stored).min(self.proven);
        self.blocks.range(first..self.proven).map(|block| &block.block)
    }

    /// Returns the place among the proven blocks of the one that the next step executes, if it does.
    pub fn next_to_execute(&self) -> Option<usize> {
        (matches!(self.stage, BranchStage::Executing(_)) && self.proven > 0).then_some(self.stored)
    }

    /// Returns the height up to which the state at hand is that of the branch.
    fn executed_up_to(&self) -> Height {
        self.common.plus(self.stored as u64)
    }

    /// Does one piece of work; `now` is network time, and `stakes` are those of our chain. Must not be called while the
    /// store waits for the disk ([`Durability::waits_for_disk`](crate::store::Durability::waits_for_disk)). Returns the
    /// outcome once it is durable; nothing is left to do then. Fails only if the store does. Then a branch that
    /// [is committed](Self::is_committed) waits until the next step makes it durable; any other one must be dropped, and
    /// nothing has changed.
    pub fn step(&mut self, now: Timestamp, stakes: &mut StakeCache) -> Result<Option<BranchOutcome>> {
        if self.outcome.is_none() {
            let outcome = match self.advance(now, stakes) {
                Ok(false) => return Ok(None),
                // At most one commit may be not yet durable.
                Ok(true) if !self.store.durability().poll_sync()? => return Ok(None),
                Ok(true) => self.decide()?,
                Err(Rejection::Store(error)) => return Err(error),
                Err(rejection) => BranchOutcome { validity: Err(rejection), scores: None, update: None },
            };
            self.txn = None;
            if outcome.update.is_none() {
                return Ok(Some(outcome));
            }
            self.outcome = Some(outcome);
        }
        Ok(if self.store.durability().poll_sync()? { self.outcome.take() } else { None })
    }

    /// Does one piece of work. Returns whether the branch can be decided.
    fn advance(&mut self, now: Timestamp, stakes: &mut StakeCache) -> RuleResult<bool> {
        let executed_up_to = self.executed_up_to();
        let Some(txn) = &mut self.txn else { return Ok(true) };
        let (network, verifier) = (self.network, &mut self.verifier);
        match &mut self.stage {
            BranchStage::Starting => {
                let tip = ChainTip::load_at(txn, self.common)?;
                check_times_and_length(&self.blocks, &tip, network)?;
                self.stage = BranchStage::Proving(tip, 0);
            }
            BranchStage::Proving(tip, checked) => match self.blocks.get_mut(*checked) {
                Some(block) => {
                    let header = block.prove(txn, tip, executed_up_to, network, verifier)?;
                    tip.push(header);
                    self.scores.1 = (header.score - self.common_score) as i64;
                    let is_ours = |ours: StoredHeader| ours.hash == header.hash;
                    // A peer may send our own blocks, with whatever parent they name: they are not replaced by themselves.
                    if *checked == 0 && stored_header(txn, header.height)?.is_some_and(is_ours) {
                        self.common = header.height;
                        for hashes in block.block.transactions.iter().map(Transaction::hashes) {
                            self.seen.extend(hashes.all());
                        }
                        self.blocks.pop_front();
                    } else {
                        *checked += 1;
                    }
                }
                None if is_better(self.scores.0, self.scores.1) => {
                    self.proven = self.blocks.iter().take_while(|block| block.is_proven).count();
                    self.stage = BranchStage::Undoing;
                }
                None => return Ok(true),
            },
            BranchStage::Undoing => match tip(txn)?.ok_or(StoreError::Empty)?.height {
                last if last > executed_up_to => {
                    self.undone.extend(ConfirmedBlock::read(txn, last, network)?);
                    undo_tip(txn, last)?;
                }
                _ => self.stage = BranchStage::Verifying(0),
            },
            BranchStage::Verifying(verified) => match self.blocks.get_mut(*verified) {
                Some(block) if *verified < self.proven => {
                    if block.verify_step(verifier)? {
                        self.confirmed.extend(block.hashes.iter().map(|hashes| hashes.own));
                        *verified += 1;
                    }
                }
                _ => self.stage = BranchStage::Executing(ChainTip::load(txn)?),
            },
            BranchStage::Executing(tip) => {
                let Some(block) = self.blocks.front_mut() else { return Ok(true) };
                if self.proven == 0 {
                    self.stage = BranchStage::Proving(ChainTip::load(txn)?, 0);
                    return Ok(false);
                }
                let (retention, seen) = (Retention::Chain, &mut self.seen);
                let mut env = ExecutionContext { network, now, retention, verifier, stakes, seen };
                if let Some(header) = block.step(txn, tip, &mut env)? {
                    tip.push(header);
                    self.blocks.pop_front();
                    self.stored += 1;
                    self.proven -= 1;
                }
            }
        }
        Ok(false)
    }

    /// Commits a valid branch if its score is higher; on a tie our blocks stay.
    fn decide(&mut self) -> Result<BranchOutcome> {
        let txn = self.txn.take().ok_or(StoreError::Empty)?;
        let (ours, theirs) = self.scores;
        let mut outcome = BranchOutcome { validity: Ok(()), scores: Some((ours, theirs)), update: None };
        if is_better(ours, theirs) {
            let last = tip(&txn)?.ok_or(StoreError::Empty)?;
            let (undone, confirmed) = (std::mem::take(&mut self.undone), std::mem::take(&mut self.confirmed));
            let (returned, cosignatures) = returned(&undone, &confirmed);
            txn.commit_deferred_sync()?;
            let (common, tip) = (self.common, last.height);
            outcome.update = Some(ChainUpdate { common, tip, undone, confirmed, returned, cosignatures });
        }
        Ok(outcome)
    }
}

/// Checks that all difficulties are defined, which NIS1 does before everything else, and that there are not too many blocks.
fn check_times_and_length(blocks: &VecDeque<Box<BlockExecution>>, tip: &ChainTip, network: &Network) -> RuleResult {
    let mut window = tip.window.clone();
    for block in blocks.iter().map(|block| &block.block) {
        let difficulty = next_difficulty(&window, network)?;
        window.push(difficulty, block.timestamp);
    }
    let is_allowed = blocks.len() as u64 <= network.chain.max_blocks_per_sync();
    require(is_allowed, ValidationResult::FailureMaxChainSizeExceeded)
}

/// Decides between our blocks and valid ones of a peer above the common block by the sums of their scores: on a tie ours
/// stay, and so they do if the peer's add nothing to the score.
pub fn is_better(our_score: i64, peer_score: i64) -> bool {
    peer_score != 0 && peer_score > our_score
}

/// Checks a pushed block before any work is done for it: it must be of this network, and follow our tip or be its
/// sibling. The signature of a sibling is checked later, like those of all candidate branches. Returns the hash of a block
/// that follows our tip, whose signature is valid.
pub fn check_pushed(
    block: &Block,
    transactions: &EncodedTransactions,
    state: &impl Read,
    network: &Network,
    verifier: &mut Verifier,
) -> RuleResult<Option<Hash256>> {
    require(wire_network(block.version) == network.byte, ValidationResult::FailureWrongNetwork)?;
    let last = tip(state)?.ok_or(StoreError::Empty)?;
    if block.previous_hash == last.hash {
        let (hash, good) = check_block_signature(block, transactions, false, verifier);
        require(good, ValidationResult::FailureSignatureNotVerifiable)?;
        return Ok(Some(hash));
    }
    let before = parent_hash(state, last.height)?;
    require(block.previous_hash == before, ValidationResult::FailureEntityUnusableOutOfSync)?;
    Ok(None)
}

/// Creates a branch of one block that a peer pushed, or that this node harvested. A block that is known or follows none of
/// ours is rejected as neutral.
pub fn pushed_branch<'s>(
    store: &'s Store,
    network: &'s Network,
    block: Block,
    verified: Verified,
) -> RuleResult<CandidateBranch<'s>> {
    if block.height <= Height::NEMESIS {
        return Err(Exception::argument("height must be positive").into());
    }
    let common = Height(block.height.0 - 1);
    let snapshot = store.snapshot()?;
    let is_ours = |ours: StoredHeader| ours.hash == verified.hash.unwrap_or_else(|| block.hash());
    let is_known = stored_header(&snapshot, block.height)?.is_some_and(is_ours);
    let parent = stored_header(&snapshot, common)?;
    if is_known || parent.is_none_or(|parent| block.previous_hash != parent.hash) {
        return Err(ValidationResult::Neutral.into());
    }
    let block = BlockExecution::new(block, network, false, verified);
    CandidateBranch::of_blocks(store, network, common, VecDeque::from([Box::new(block)])).map_err(|error| match error {
        RollbackError::Store(error) => error.into(),
        // Blocks deeper than the rewrite limit are never replaced.
        RollbackError::NotBelow { .. } | RollbackError::TooDeep { .. } => ValidationResult::Neutral.into(),
    })
}

/// Returns the transactions of replaced blocks that return to the mempool, those of each block in the order of kinds, and
/// the hashes of the cosignatures of the others.
fn returned(undone: &[ConfirmedBlock], kept: &BTreeSet<Hash256>) -> (Vec<Transaction>, Vec<Hash256>) {
    let (mut returned, mut cosignatures) = (Vec::new(), Vec::new());
    for block in undone {
        let mut transactions: Vec<&Transaction> =
            block.transactions.iter().map(|(_, transaction)| transaction).collect();
        transactions.sort_by_key(|transaction| transaction.body.kind());
        for transaction in transactions {
            if kept.contains(&transaction.hash()) {
                cosignatures.extend(transaction.cosignatures().iter().map(Transaction::hash));
            } else {
                returned.push(transaction.clone());
            }
        }
    }
    (returned, cosignatures)
}

#[cfg(test)]
mod tests {
    use super::super::reorgs::ReplacedBlock;
    use super::super::reorgs::tests::confirmed;
    use super::*;
    use crate::crypto::PublicKey;
    use crate::model::transaction::Multisig;
    use crate::model::{Amount, Body};

    #[test]
    fn a_chain_switch_needs_a_strictly_higher_positive_score() {
        for (ours, theirs, expected) in [(5, 6, true), (5, 5, false), (0, -1, false), (0, 0, false), (-1, 0, false)] {
            assert_eq!(is_better(ours, theirs), expected, "{ours} {theirs}");
        }
    }

    #[test]
    fn cosignatures_of_replaced_blocks_may_be_lost_if_the_branch_has_their_transactions() {
        let block = ReplacedBlock {
            height: Height(5),
            hash: Hash256::default(),
            signer: PublicKey([1; 32]),
            timestamp: Timestamp(7),
            transactions: 1,
            is_own: false,
        };
        let mut undone = confirmed(&block);
        let plain = undone.transactions[0].1.clone();
        let multisig = |fee| {
            let body = Multisig { inner: plain.clone(), cosignatures: vec![plain.clone()] };
            Transaction { fee: Amount(fee), body: Body::Multisig(Box::new(body)), ..plain.clone() }
        };
        undone.transactions = vec![(1, multisig(1)), (2, multisig(2)), (3, plain.clone())];
        let (back, cosignatures) = returned(&[undone], &[multisig(1).hash()].into());
        assert_eq!((back, cosignatures), (vec![multisig(2), plain.clone()], vec![plain.hash()]));
    }

    #[test]
    fn an_outcome_has_a_result_for_pushed_and_one_for_requested_blocks() {
        use ValidationResult::{FailureChainInvalid, FailureChainScoreInferior, Neutral, Success};
        let update = ChainUpdate {
            common: Height(1),
            tip: Height(2),
            undone: vec![],
            confirmed: BTreeSet::new(),
            returned: vec![],
            cosignatures: vec![],
        };
        let outcome = |validity, scores, update| BranchOutcome { validity, scores, update };
        let rejected = || Err(ValidationResult::FailureBlockNotHit.into());
        let result = |result: RuleResult| match result {
            Ok(()) => Success,
            Err(Rejection::Result(result)) => result,
            Err(other) => panic!("{other}"),
        };
        for (outcome, pushed, requested) in [
            (outcome(Ok(()), Some((5, 6)), Some(update)), Success, Success),
            (outcome(Ok(()), Some((5, 5)), None), Neutral, FailureChainScoreInferior),
            (outcome(Ok(()), Some((5, 0)), None), FailureChainInvalid, FailureChainScoreInferior),
            (outcome(rejected(), None, None), FailureChainInvalid, FailureChainScoreInferior),
        ] {
            let results = (result(outcome.as_push_result()), result(outcome.as_sync_result()));
            assert_eq!(results, (pushed, requested), "{outcome:?}");
        }
        let exception = Exception::argument("no such block");
        let outcome = outcome(Err(exception.clone().into()), None, None);
        for result in [outcome.as_push_result(), outcome.as_sync_result()] {
            assert!(matches!(result, Err(Rejection::Exception(found)) if found == exception));
        }
    }
}
