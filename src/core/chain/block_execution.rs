//! Processes one block on top of a chain, one step at a time, what is cheap first: its signature and proof of importance,
//! the signatures of its transactions, its transactions by all rules, its rewards, and the importances that are due
//! after it.

use std::collections::BTreeSet;

use super::apply::{self, AppliedBlock, Retention, lowest_undoable};
use super::chain_tip::{ChainTip, DifficultyWindow};
use super::proof;
use super::recalculation::{Recalculation, StakeCache, due_after};
use crate::codec::SigningForm;
use crate::codec::block::EncodedTransactions;
use crate::crypto::hash::keccak256;
use crate::crypto::{PublicKey, Signature, Verifier};
use crate::model::transaction::Hashes;
use crate::model::{Address, Block, Hash256, Height, Network, Timestamp, Transaction};
use crate::rules::{self, Purpose, Rejection, RuleResult, ValidationContext, ValidationResult, require};
use crate::state::registry::ListingUpdate;
use crate::state::{self, AccountId, BlockContext, Expiry, HashCompaction, Ledger, Pruning};
use crate::store::{
    Changes, Overlay, Read, Result, Snapshot, StoredHeader, Table, Write, WriteTxn, block_key, pack_blocks, tip,
};

/// Parameters for processing a block, besides the state.
pub struct ExecutionContext<'a> {
    /// The network.
    pub network: &'a Network,
    /// Network time.
    pub now: Timestamp,
    /// What is stored of the block, besides its effect on the state.
    pub retention: Retention,
    /// Caches the public keys that it decoded.
    pub verifier: &'a mut Verifier,
    /// The accounts with a stake, for recalculations.
    pub stakes: &'a mut StakeCache,
    /// Hashes of the earlier transactions of the same candidate branch, including nested ones.
    pub seen: &'a mut BTreeSet<Hash256>,
}

/// What is known of a block before it is processed.
#[derive(Default)]
pub struct Verified {
    /// Its hash, if its signature is valid with the parent that it names.
    pub hash: Option<Hash256>,
    /// The hashes of its transactions, if their signatures are valid.
    pub transactions: Option<Vec<Hashes>>,
    /// Its transactions, if they are encoded already.
    pub encoded: Option<EncodedTransactions>,
}

/// A block that is being processed: first its proof ([`BlockExecution::prove`]), then the signatures of its transactions
/// ([`BlockExecution::verify_step`]), then everything else. [`BlockExecution::step`] does all of it.
pub struct BlockExecution {
    /// The block.
    pub block: Block,
    /// Its transactions as they are hashed, signed and stored, once they are encoded.
    encoded: Option<EncodedTransactions>,
    /// The hashes of its transactions, once their signatures are checked.
    pub hashes: Vec<Hashes>,
    /// Whether a checkpoint covers the block and the parent hash that it names: no signatures and no proof are checked.
    is_trusted: bool,
    /// Its hash, if its signature is known to be valid.
    hash: Option<Hash256>,
    /// Its header without what follows from its execution. Known once its height and signature are checked.
    header: Option<StoredHeader>,
    /// Whether its hit is checked too, or need not be.
    pub is_proven: bool,
    stage: ExecutionStage,
    /// The accounts that the block has read and changed.
    context: BlockContext,
    /// Known once the transactions are executed.
    applied: AppliedBlock,
    /// The transaction that is being checked: the one to blame if the block is rejected.
    pub unfinished: Option<usize>,
}

enum ExecutionStage {
    /// The signatures of its transactions are being checked.
    CheckingSignatures(SignatureCheck),
    /// Nothing is changed yet.
    Starting,
    /// Its transactions are being executed; the number of those done.
    Executing(usize),
    /// The transactions are executed and the rewards credited; expired leases are processed.
    Expiring(Expiry),
    /// Old data is pruned.
    Pruning(Pruning),
    /// Its transactions are indexed: the number of those done, and the pending listing update of the last one.
    Indexing(usize, Option<ListingUpdate>),
    /// Changed accounts and other pending state are written.
    Flushing,
    /// The importances that are due are recalculated before the block is stored.
    Recalculating(Box<Recalculation>),
    /// Some old hashes are compacted before the block is stored. That changes nothing that undoing the block restores.
    Compacting(HashCompaction),
}

impl BlockExecution {
    /// Starts a block. If it is trusted, no signatures and no proof are checked.
    pub fn new(block: Block, network: &Network, is_trusted: bool, known: Verified) -> BlockExecution {
        let stage = match known.transactions {
            Some(_) => ExecutionStage::Starting,
            None => ExecutionStage::CheckingSignatures(SignatureCheck::new(&block, network, is_trusted)),
        };
        BlockExecution {
            context: BlockContext::default(),
            encoded: known.encoded,
            block,
            hashes: known.transactions.unwrap_or_default(),
            is_trusted,
            hash: known.hash,
            header: None,
            is_proven: false,
            stage,
            applied: AppliedBlock::default(),
            unfinished: None,
        }
    }

    /// Returns whether its hit follows from a state that agrees with that of its parent up to the height `common`.
    pub fn is_provable(&self, common: Height, network: &Network) -> bool {
        // Links change at most once within the rewrite limit, and have no effect before it has passed.
        let height = self.block.height;
        height.importance_height() <= common && height <= common.plus(network.chain.rewrite_limit)
    }

    /// Returns whether the signatures of its transactions are checked.
    pub fn is_verified(&self) -> bool {
        !matches!(self.stage, ExecutionStage::CheckingSignatures(_))
    }

    /// Returns whether the next step begins to execute it: its proof and all signatures are checked.
    pub fn begins_execution(&self) -> bool {
        self.is_proven && matches!(self.stage, ExecutionStage::Starting)
    }

    /// Checks one signature. Returns whether all are checked.
    pub fn verify_step(&mut self, verifier: &mut Verifier) -> RuleResult<bool> {
        if let ExecutionStage::CheckingSignatures(check) = &mut self.stage {
            self.unfinished = check.next_transaction(&self.block);
            if check.step(&self.block, verifier)? {
                return Ok(false);
            }
            self.unfinished = None;
            self.hashes = std::mem::take(&mut check.hashes);
            self.stage = ExecutionStage::Starting;
        }
        Ok(true)
    }

    /// Checks height and signature of the block after `parent`, and its hit by a state that agrees with that of its
    /// parent up to the height `common`. If the hit depends on blocks above `common`, it is checked later, on top of them.
    /// Returns the header without what follows from the execution of the block.
    pub fn prove(
        &mut self,
        state: &impl Read,
        parent: &ChainTip,
        common: Height,
        network: &Network,
        verifier: &mut Verifier,
    ) -> RuleResult<StoredHeader> {
        let header = self.header.map_or_else(|| self.check_header(parent, network, verifier), Ok)?;
        self.header = Some(header);
        let Some(parent) = parent.block.as_ref().filter(|_| !self.is_trusted) else {
            self.is_proven = true;
            return Ok(header);
        };
        self.is_proven = self.is_provable(common, network);
        if self.is_proven {
            let signer = Address::from_public_key(&self.block.signer, network.byte);
            let importance = harvesting_importance(state, &signer, self.block.height, network)?;
            let elapsed = self.block.timestamp.0.wrapping_sub(parent.timestamp.0);
            let target = proof::target(elapsed, importance, header.difficulty, &network.chain);
            require(proof::is_hit(proof::hit(&header.generation_hash), &target), ValidationResult::FailureBlockNotHit)?;
        }
        Ok(header)
    }

    /// Does one step on top of `tip`. Returns the header once the block is stored.
    pub fn step(
        &mut self,
        txn: &mut WriteTxn<'_>,
        tip: &ChainTip,
        env: &mut ExecutionContext<'_>,
    ) -> RuleResult<Option<StoredHeader>> {
        let (network, count) = (env.network, self.block.transactions.len());
        let Some(header) = self.header.filter(|_| self.is_proven) else {
            self.prove(txn, tip, tip.height(), network, env.verifier)?;
            return Ok(None);
        };
        match &mut self.stage {
            ExecutionStage::CheckingSignatures(_) => {
                self.verify_step(env.verifier)?;
            }
            ExecutionStage::Starting => {
                self.context = apply::begin(&self.block, txn, network)?;
                self.stage = ExecutionStage::Executing(0);
            }
            ExecutionStage::Executing(done) if *done < count => {
                let index = *done;
                self.execute(txn, index, env)?;
                self.stage = ExecutionStage::Executing(index + 1);
            }
            ExecutionStage::Executing(_) => self.stage = ExecutionStage::Expiring(self.credit(txn, tip, env)?),
            ExecutionStage::Expiring(expiry) => {
                if !expiry.step(&mut Ledger { txn, block: &mut self.context, network })? {
                    let pruning = Pruning::due(self.block.height, self.block.timestamp, &network.chain);
                    self.stage = pruning.map_or(ExecutionStage::Indexing(0, None), ExecutionStage::Pruning);
                }
            }
            ExecutionStage::Pruning(pruning) => {
                if !pruning.step(txn)? {
                    self.stage = ExecutionStage::Indexing(0, None);
                }
            }
            ExecutionStage::Indexing(done, pending) => match pending {
                Some(update) => {
                    if !update.step(txn, network.byte)? {
                        *pending = None;
                    }
                }
                None if *done < count => {
                    let mut ledger = Ledger { txn, block: &mut self.context, network };
                    *pending = apply::index_transaction(&mut ledger, &self.block, &self.hashes, &self.applied, *done)?;
                    *done += 1;
                }
                None => self.stage = ExecutionStage::Flushing,
            },
            ExecutionStage::Flushing => {
                if !(Ledger { txn, block: &mut self.context, network }).flush_step()? {
                    let changed = std::mem::take(&mut self.context).changed_stakes;
                    env.stakes.follow(tip.block.as_ref().map(|parent| parent.hash), header.hash, changed);
                    self.stage = match due_after(self.block.height) {
                        Some(due) => ExecutionStage::Recalculating(Box::new(Recalculation::new(due, header.hash))),
                        None => self.begin_compaction(txn, tip)?,
                    };
                }
            }
            ExecutionStage::Recalculating(recalculation) => {
                if !recalculation.step(txn, network, env.stakes)? {
                    self.stage = self.begin_compaction(txn, tip)?;
                }
            }
            ExecutionStage::Compacting(compaction) => {
                if !compaction.step(txn)? {
                    let AppliedBlock { beneficiary, ids, previous_harvests, .. } = self.applied;
                    let header = StoredHeader { beneficiary, ids, previous_harvests, ..header };
                    let encoded = self.encoded.get_or_insert_with(|| self.block.encode_transactions());
                    let row = header.to_bytes(&self.block, encoded);
                    apply::store(txn, &header, &row, env.retention, network.chain.rewrite_limit)?;
                    return Ok(Some(header));
                }
            }
        }
        Ok(None)
    }

    /// Undoes everything done for the block so far, so that it can start again. Signatures and proof stay checked.
    pub fn restart(&mut self, txn: &mut WriteTxn<'_>, tip: &ChainTip) -> Result<()> {
        let begun = txn.take_journal();
        txn.undo(&begun)?;
        self.stage = ExecutionStage::Starting;
        let in_force = if tip.block.is_some() { tip.height().next().importance_height() } else { Height(0) };
        state::delete_lists_above(txn, in_force)
    }

    /// Checks height and signature. The parent hash becomes the hash of the parent, whatever the block names.
    fn check_header(
        &mut self,
        parent: &ChainTip,
        network: &Network,
        verifier: &mut Verifier,
    ) -> RuleResult<StoredHeader> {
        require(self.block.height == parent.height().next(), ValidationResult::FailureBlockUnexpectedHeight)?;
        let difficulty = next_difficulty(&parent.window, network)?;
        let (mut generation_hash, mut score) = (network.generation_hash, 0);
        if let Some(parent) = &parent.block {
            self.block.previous_hash = parent.hash.into();
            generation_hash = proof::generation_hash(&parent.generation_hash, &self.block.signer);
            let elapsed = self.block.timestamp.0.wrapping_sub(parent.timestamp.0);
            score = parent.score + i128::from(proof::block_score(difficulty, elapsed));
        }
        let known = self.hash.map(|hash| (hash, true));
        let (hash, good) = known.unwrap_or_else(|| {
            let encoded = self.encoded.get_or_insert_with(|| self.block.encode_transactions());
            check_block_signature(&self.block, encoded, self.is_trusted, verifier)
        });
        require(good, ValidationResult::FailureBlockUnverifiable)?;
        Ok(StoredHeader {
            height: self.block.height,
            hash,
            generation_hash,
            timestamp: self.block.timestamp,
            difficulty,
            score,
            total_fee: self.block.total_fee(),
            ..StoredHeader::default()
        })
    }

    fn execute(&mut self, txn: &mut WriteTxn<'_>, index: usize, env: &mut ExecutionContext<'_>) -> RuleResult {
        self.unfinished = Some(index);
        let (transaction, hashes) = (&self.block.transactions[index], &self.hashes[index]);
        let is_new = !hashes.all().any(|hash| env.seen.contains(hash));
        require(is_new, ValidationResult::FailureTransactionDuplicateInChain)?;
        let mut ledger = Ledger { txn, block: &mut self.context, network: env.network };
        if self.block.height == Height::NEMESIS {
            let mut effects = Vec::new();
            state::effects(transaction, ledger.txn, env.network.byte, &mut effects)?;
            apply::apply_transaction(&mut ledger, transaction, &effects)?;
        } else {
            execute_transaction(&mut ledger, transaction, env.now)?;
        }
        env.seen.extend(hashes.all());
        self.unfinished = None;
        Ok(())
    }

    /// Checks the block as a whole and credits it. Returns the leases that end with it.
    fn credit(&mut self, txn: &mut WriteTxn<'_>, tip: &ChainTip, env: &ExecutionContext<'_>) -> RuleResult<Expiry> {
        let mut ledger = Ledger { txn, block: &mut self.context, network: env.network };
        if self.block.height != Height::NEMESIS {
            rules::check_block(&self.block, &self.hashes, &validation_context(&ledger, env.now))?;
        }
        self.applied = apply::credit_block(&mut ledger, &self.block, tip.block.as_ref())?;
        Ok(ledger.expiry()?)
    }

    fn begin_compaction(&self, state: &impl Read, tip: &ChainTip) -> Result<ExecutionStage> {
        let hashes = self.hashes.iter().map(|hashes| 1 + hashes.children.len()).sum();
        let final_height = tip.block.as_ref().map_or(Ok(Height(0)), |block| lowest_undoable(state, block.height))?;
        Ok(ExecutionStage::Compacting(HashCompaction::new(state, final_height, hashes)?))
    }
}

/// Returns the context for validating what a block in progress contains. `now` is network time.
pub(super) fn validation_context<'a>(ledger: &'a Ledger<'_, impl Write>, now: Timestamp) -> ValidationContext<'a> {
    let (state, block, height, network) = (&*ledger.txn, Some(&*ledger.block), ledger.block.height, ledger.network);
    ValidationContext { state, block, network, height, now, purpose: Purpose::Block }
}

/// Validates a transaction by all rules on top of those before it in the block, and applies it. `now` is network time.
pub(super) fn execute_transaction(
    ledger: &mut Ledger<'_, impl Write>,
    transaction: &Transaction,
    now: Timestamp,
) -> RuleResult {
    // Rules and effects need the same accounts: each is read once.
    for account in rules::participants(transaction, ledger.network.byte) {
        ledger.account(&account)?;
    }
    let effects = rules::check_transaction(transaction, &validation_context(ledger, now))?;
    Ok(apply::apply_transaction(ledger, transaction, &effects)?)
}

/// Returns the importance with which an account signs a block at a height, in whole units, by the recalculation that is in
/// force there. An importance of another importance height counts as 0: such an account is not eligible, and the NEM
/// network never accepts its blocks.
pub fn harvesting_importance(state: &impl Read, signer: &Address, height: Height, network: &Network) -> Result<u64> {
    let account = state::account(state, signer)?;
    let harvester = account.harvests_for(height, network.chain.rewrite_limit).unwrap_or(*signer);
    let list = height.importance_height();
    let Some(id) = AccountId::of(state, &harvester)? else { return Ok(0) };
    let importance = state::importance_in(state, list, id)?.filter(|found| found.height == list);
    Ok(importance.map_or(0, |found| proof::effective_importance(found.importance, network.total_amount)))
}

/// The check of all transaction signatures of one block.
pub struct SignatureCheck {
    hashes: Vec<Hashes>,
    /// Number of checked cosignatures of the last checked transaction.
    cosignatures: usize,
    /// Whether only hashes are computed.
    trusted: bool,
}

impl SignatureCheck {
    /// Starts with the first transaction. Signatures in the treasury re-issuance block are not checked: its
    /// transactions must be those that the network agreed on.
    pub fn new(block: &Block, network: &Network, trusted: bool) -> SignatureCheck {
        let treasury = block.height > Height::NEMESIS && block.height.0 == network.chain.forks.treasury_reissuance;
        let hashes = Vec::with_capacity(block.transactions.len());
        SignatureCheck { hashes, cosignatures: 0, trusted: trusted || treasury }
    }

    /// Checks one signature, of a transaction or a cosignature. Returns `false` once all are checked.
    pub fn step(&mut self, block: &Block, verifier: &mut Verifier) -> RuleResult<bool> {
        if let Some(cosignature) = self.pending_cosignature(block) {
            self.cosignatures += 1;
            self.require_good(cosignature, &cosignature.signed_bytes(), verifier)?;
            return Ok(true);
        }
        let Some(transaction) = block.transactions.get(self.hashes.len()) else { return Ok(false) };
        let signed = transaction.signed_bytes();
        self.require_good(transaction, &signed, verifier)?;
        let own = Hash256(keccak256(&signed));
        self.hashes.push(Hashes { own, children: transaction.children().map(Transaction::hash).collect() });
        self.cosignatures = 0;
        Ok(true)
    }

    /// Returns the first unchecked cosignature of the last checked transaction.
    fn pending_cosignature<'b>(&self, block: &'b Block) -> Option<&'b Transaction> {
        block.transactions.get(self.hashes.len().checked_sub(1)?)?.cosignatures().get(self.cosignatures)
    }

    /// Returns the index of the transaction whose signature, or one of whose cosignatures, is checked next.
    pub fn next_transaction(&self, block: &Block) -> Option<usize> {
        let done = self.hashes.len();
        if self.pending_cosignature(block).is_some() { done.checked_sub(1) } else { Some(done) }
    }

    fn require_good(&self, entity: &Transaction, signed: &[u8], verifier: &mut Verifier) -> RuleResult {
        let good = self.trusted || is_good(verifier, &entity.signer, signed, entity.signature.as_ref());
        require(good, ValidationResult::FailureTransactionUnverifiable)
    }
}

/// Returns the difficulty of the next block. Fails if the time stamps of the blocks before do not advance.
pub fn next_difficulty(window: &DifficultyWindow, network: &Network) -> RuleResult<u64> {
    let difficulty = window.difficulty(network.chain.target_time);
    difficulty.ok_or_else(|| Rejection::impossible("BigInteger divide by zero"))
}

/// Returns the hash of a block, and whether it is trusted or its signature is valid.
pub fn check_block_signature(
    block: &Block,
    transactions: &EncodedTransactions,
    trusted: bool,
    verifier: &mut Verifier,
) -> (Hash256, bool) {
    let signed = block.to_bytes_with(transactions, SigningForm::NonVerifiable);
    let good = trusted || is_good(verifier, &block.signer, &signed, block.signature.as_ref());
    (Hash256(keccak256(&signed)), good)
}

/// Returns whether a signature is valid. A key that is not a point of the curve counts as an invalid signature.
fn is_good(verifier: &mut Verifier, signer: &PublicKey, signed: &[u8], signature: Option<&Signature>) -> bool {
    signature.is_some_and(|signature| verifier.verify(signer, signed, signature).unwrap_or(false))
}

/// Executes a block on a snapshot of the chain before it, or long before it, and throws the result away. What fails, as blocks
/// in between are missing, does not matter. Returns `None` if the time `is_over` before all is done.
pub fn read_rows_of(
    block: &Block,
    snapshot: &Snapshot<'_>,
    network: &Network,
    is_over: impl Fn() -> bool,
) -> Option<()> {
    /// Repeats a step while work remains. Returns `None` once the time is over.
    fn run<E>(is_over: impl Fn() -> bool, mut step: impl FnMut() -> Result<bool, E>) -> Option<()> {
        while step().unwrap_or(false) && !is_over() {}
        (!is_over()).then_some(())
    }
    let mut changes = Changes::default();
    let mut overlay = Overlay::new(snapshot, &mut changes);
    let mut context = BlockContext::new(block.height);
    let mut ledger = Ledger { txn: &mut overlay, block: &mut context, network };
    for transaction in &block.transactions {
        run(&is_over, || execute_transaction(&mut ledger, transaction, block.timestamp).map(|()| false))?;
    }
    let hashes: Vec<Hashes> = block.transactions.iter().map(Transaction::hashes).collect();
    let _ = rules::check_block(block, &hashes, &validation_context(&ledger, block.timestamp));
    let parent = tip(snapshot).ok().flatten();
    if let Ok(applied) = apply::credit_block(&mut ledger, block, parent.as_ref()) {
        for number in 0..block.transactions.len() {
            let update = apply::index_transaction(&mut ledger, block, &hashes, &applied, number);
            let mut update = update.unwrap_or_default();
            run(&is_over, || update.as_mut().map_or(Ok(false), |update| update.step(ledger.txn, network.byte)))?;
        }
    }
    if let Ok(mut expiry) = ledger.expiry() {
        run(&is_over, || expiry.step(&mut ledger))?;
    }
    if let Some(mut pruning) = Pruning::due(block.height, block.timestamp, &network.chain) {
        run(&is_over, || pruning.step(ledger.txn))?;
    }
    run(&is_over, || ledger.flush_step())?;
    let count = hashes.iter().map(|hashes| 1 + hashes.children.len()).sum();
    let final_height = lowest_undoable(&overlay, block.height.minus(1)).unwrap_or_default();
    if let Ok(mut compaction) = HashCompaction::new(&overlay, final_height, count) {
        run(&is_over, || compaction.step(&mut overlay))?;
    }
    let old = block.height.minus(network.chain.rewrite_limit);
    let _ = overlay.delete_unjournaled(Table::Undo, &block_key(old));
    let _ = pack_blocks(&mut overlay, old);
    for table in [Table::Blocks, Table::Undo] {
        let _ = overlay.put_unjournaled(table, &block_key(block.height), &[]);
    }
    changes.keys().try_for_each(|(table, key)| (!is_over()).then(|| snapshot.read_for_write(table, key)))
}
