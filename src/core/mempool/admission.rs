//! Acceptance of transactions: validation on the overlay state, and the spam filter.

use std::rc::Rc;

use super::{ChainSnapshot, ContentHash, Fate, MAX_BYTES, MAX_CLASS_BLOCKS, Mempool, MempoolContent, MempoolEntry};
use crate::codec::SigningForm;
use crate::crypto::Verifier;
use crate::model::transaction::wire_network;
use crate::model::{Body, Height, Transaction};
use crate::rules::{
    self, Exception, Purpose, Rejection, RuleResult, ValidationContext, ValidationResult, check_transaction, require,
};
use crate::state::{self, BlockContext, Effect, Ledger};
use crate::store::{Overlay, Result};

/// Number of a transaction and its children up to which it is validated, however little a block of the network can contain.
/// One that no block can contain is rejected above it.
const MIN_CHILDREN: usize = 64;

/// An accepted transaction as it arrived, which must be relayed if it was announced or pushed; `None` if it is valid, but
/// not kept: a further cosignature of one signer.
pub type Accepted = Option<Rc<Transaction>>;

impl Mempool {
    /// Validates and accepts an announced or pushed transaction, or returns the remembered result if it came before.
    pub fn announce(&mut self, transaction: Transaction, confirmed: &ChainSnapshot<'_>) -> RuleResult<Accepted> {
        let network = wire_network(transaction.version);
        require(network == confirmed.network.byte, ValidationResult::FailureWrongNetwork)?;
        let hash = content_hash(&transaction);
        if let Some(result) = self.recent_results.get(&hash, self.uptime) {
            return Err(result.into());
        }
        self.recent_results.insert(hash, self.uptime);
        let has_lifetime = transaction.has_lifetime();
        let outcome = self.add(transaction, confirmed);
        // All others are remembered as neutral already.
        match &outcome {
            // It is tried again when its time has come, or our clock is set.
            Err(Rejection::Result(ValidationResult::FailureTimestampTooFarInFuture)) => {
                self.recent_results.forget(&hash);
            }
            Err(Rejection::Result(ValidationResult::FailurePastDeadline)) if has_lifetime => {
                self.recent_results.forget(&hash);
            }
            Err(Rejection::Result(result)) => self.recent_results.set_result(&hash, *result),
            _ => {}
        }
        outcome
    }

    /// Returns the remembered result of a transaction that arrives while none are accepted. A transaction without one
    /// is remembered as neutral from then on.
    pub fn result_before_join(&mut self, transaction: &Transaction) -> Option<ValidationResult> {
        let hash = content_hash(transaction);
        let answer = self.recent_results.get(&hash, self.uptime);
        if answer.is_none() {
            self.recent_results.insert(hash, self.uptime);
        }
        answer
    }

    /// Validates and accepts a transaction of a remote mempool. The remembered results are neither used nor set, so that
    /// a copy with a wrong signature does not keep the valid transaction out. Completes a pending rebuild first. Costs at
    /// most one signature for each cosignatory of the account, however many cosignatures are attached.
    pub fn add(&mut self, transaction: Transaction, confirmed: &ChainSnapshot<'_>) -> RuleResult<Accepted> {
        // NIS1 accepts any number of attached cosignatures.
        let most = usize::try_from(confirmed.network.chain.max_transactions_per_block).unwrap_or(usize::MAX);
        let is_short = transaction.self_and_children().count() <= most.max(MIN_CHILDREN);
        require(is_short, ValidationResult::FailureTooManyTransactions)?;
        self.finish_rebuild(confirmed)?;
        let mut root = MempoolEntry::new(transaction, confirmed.network.byte, confirmed.now);
        require(!self.content.contains(&root.hashes), ValidationResult::Neutral)?;
        // The rules hold for all cosignatures, as in NIS1; the signatures of those that do not count are not looked at.
        let counted = self.content.drop_strangers(root.clone(), confirmed)?;
        if !self.content.has_room_for(&root, confirmed)? {
            // A copy with another signature has the same hash: it must not tell what became of the transaction.
            if check_signatures(&counted, confirmed, &mut self.verifier).is_ok() {
                self.fates.reject(root.hashes.own, Fate::Evicted, confirmed.now);
            }
            return Err(ValidationResult::FailureTransactionCacheTooFull.into());
        }
        rules::transactions_are_new(std::slice::from_ref(&counted.hashes), confirmed.snapshot)?;
        check_signatures(&counted, confirmed, &mut self.verifier)?;
        root.id = self.next_id();
        let hash = root.hashes.own;
        let outcome = self.content.insert(root, confirmed);
        match &outcome {
            Ok(Some(accepted)) => {
                self.newly_accepted.push_back(Rc::clone(accepted));
                // A cosignature also changes what is known of its multisig transaction.
                let known = self.content.by_hash(&hash).into_iter().flat_map(|root| root.hashes.all());
                self.fates.changed.extend(known);
            }
            Ok(None) => {
                let fate = Fate::Rejected(ValidationResult::FailureMultisigNoMatchingMultisig);
                self.fates.reject(hash, fate, confirmed.now);
            }
            Err(Rejection::Result(result)) if *result != ValidationResult::Neutral => {
                self.fates.reject(hash, Fate::Rejected(*result), confirmed.now);
            }
            Err(_) => {}
        }
        outcome
    }
}

fn content_hash(transaction: &Transaction) -> ContentHash {
    ContentHash::of(&transaction.to_bytes(SigningForm::Verifiable))
}

/// Checks the signatures of a transaction and its cosignatures. Those of the treasury reissuance need none.
pub(super) fn check_signatures(
    root: &MempoolEntry,
    confirmed: &ChainSnapshot<'_>,
    verifier: &mut Verifier,
) -> RuleResult {
    if confirmed.network.chain.forks.treasury_hashes.contains(&root.hashes.own) {
        return Ok(());
    }
    for one in std::iter::once(&*root.transaction).chain(root.transaction.cosignatures()) {
        let signature = one.signature.ok_or(ValidationResult::FailureSignatureNotVerifiable)?;
        let good = verifier.verify(&one.signer, &one.signed_bytes(), &signature);
        let good = good.map_err(Exception::argument)?;
        require(good, ValidationResult::FailureSignatureNotVerifiable)?;
    }
    Ok(())
}

impl MempoolContent {
    /// Validates a transaction with valid signatures by all rules on the overlay state, applies it there and stores it
    /// without attached cosignatures that do not count.
    /// A cosignature is stored in its multisig transaction, but returned separately as accepted. A second one of the same
    /// signer is valid, and nothing else happens with it.
    pub(super) fn insert(&mut self, root: MempoolEntry, confirmed: &ChainSnapshot<'_>) -> RuleResult<Accepted> {
        let announced = Rc::clone(&root.transaction);
        let mut effects = self.validate(&announced, confirmed)?;
        let mut root = self.drop_strangers(root, confirmed)?;
        root.look_up_cosignatories(confirmed)?;
        let transaction = Rc::clone(&root.transaction);
        if !Rc::ptr_eq(&announced, &transaction) {
            effects = self.validate(&transaction, confirmed)?;
        }
        require(!self.contains(&root.hashes), ValidationResult::Neutral)?;
        let number = match &transaction.body {
            Body::Cosignature(body) => {
                let cosignatories = state::cosignatories(confirmed.snapshot, &body.other_account)?;
                let signer = transaction.signer_address(confirmed.network.byte);
                let number = self.cosigned(&transaction, body).filter(|_| cosignatories.contains(&signer));
                let number = number.ok_or(ValidationResult::FailureMultisigNoMatchingMultisig)?;
                if self.entries.get(&number).is_some_and(|root| root.is_cosigned_by(&signer, confirmed.network.byte)) {
                    return Ok(None);
                }
                Some(number)
            }
            _ => None,
        };
        self.apply(&effects, confirmed)?;
        match number {
            Some(number) => self.attach(number, &root, confirmed),
            None => self.push(root),
        }
        Ok(Some(transaction))
    }

    fn validate<'t>(
        &mut self,
        transaction: &'t Transaction,
        confirmed: &ChainSnapshot<'_>,
    ) -> RuleResult<Vec<Effect<'t>>> {
        let ChainSnapshot { snapshot, network, height, now } = *confirmed;
        let overlay = Overlay::new(snapshot, &mut self.changes);
        let (height, purpose) = (height.next(), Purpose::Mempool);
        let context = ValidationContext { state: &overlay, block: None, network, height, now, purpose };
        check_transaction(transaction, &context)
    }

    /// Applies effects at the height of the tip, not of the next block, as NIS1 does; but never at the height of the
    /// nemesis block, where all received amounts are vested at once.
    fn apply(&mut self, effects: &[Effect<'_>], confirmed: &ChainSnapshot<'_>) -> RuleResult {
        let height = confirmed.height.max(Height::NEMESIS.next());
        let mut overlay = Overlay::new(confirmed.snapshot, &mut self.changes);
        let mut block = BlockContext::new(height);
        let mut ledger = Ledger { txn: &mut overlay, block: &mut block, network: confirmed.network };
        for effect in effects {
            ledger.apply(effect)?;
        }
        Ok(ledger.flush()?)
    }

    /// Returns a transaction without the attached cosignatures of accounts that are no cosignatories, neither confirmed nor
    /// with the transactions of the mempool: with them no block could contain it.
    pub(super) fn drop_strangers(&mut self, root: MempoolEntry, confirmed: &ChainSnapshot<'_>) -> Result<MempoolEntry> {
        if root.transaction.cosignatures().is_empty() {
            return Ok(root);
        }
        let (network, overlay) = (confirmed.network.byte, Overlay::new(confirmed.snapshot, &mut self.changes));
        let mut known = state::cosignatories(confirmed.snapshot, &root.fee_payer)?;
        known.extend(state::cosignatories(&overlay, &root.fee_payer)?);
        let counts = |one: &Transaction| known.contains(&one.signer_address(network));
        if root.transaction.cosignatures().iter().all(counts) {
            return Ok(root);
        }
        let mut transaction = Rc::unwrap_or_clone(root.transaction);
        if let Body::Multisig(body) = &mut transaction.body {
            body.cosignatures.retain(counts);
        }
        let MempoolEntry { id, cosignatories, min_cosignatories, number, since, .. } = root;
        let root = MempoolEntry::new(transaction, network, since);
        Ok(MempoolEntry { id, cosignatories, min_cosignatories, number, ..root })
    }

    /// Attaches a cosignature.
    fn attach(&mut self, number: u64, cosignature: &MempoolEntry, confirmed: &ChainSnapshot<'_>) {
        self.children.insert(cosignature.hashes.own, number);
        self.bytes += cosignature.bytes;
        if let Some(mut multisig) = self.entries.remove(&number) {
            multisig.attach(cosignature, confirmed.network.byte);
            self.index(&multisig);
            self.entries.insert(number, multisig);
        }
    }
}

/// Maximum that a fee adds to the importance, reached at 10 XEM.
const MAX_FEE_IMPORTANCE: f64 = 0.01;

/// The fuller the mempool, the higher the fee or the importance of the account must be.
impl MempoolContent {
    /// Returns whether there is space for a transaction.
    pub(super) fn has_room_for(&self, root: &MempoolEntry, confirmed: &ChainSnapshot<'_>) -> Result<bool> {
        if self.bytes + self.changes.bytes() + root.bytes > MAX_BYTES {
            return Ok(false);
        }
        let is_multisig = root.is_multisig();
        let multisigs = self.multisigs_by_age.len();
        let count = if is_multisig { multisigs } else { self.entries.len() - multisigs } as u64;
        let per_block = u64::from(confirmed.network.chain.max_transactions_per_block);
        if count < per_block {
            return Ok(true);
        }
        let of_fee_payer = self.by_fee_payer.get(&(is_multisig, root.fee_payer)).copied().unwrap_or(0);
        let importance = state::current_importance(confirmed.snapshot, &root.fee_payer)?;
        Ok((of_fee_payer as i64) < max_per_account(importance, root.transaction.fee.0, count, per_block))
    }
}

/// Returns how many transactions an account may have in a mempool that holds `count` of their class.
fn max_per_account(importance: f64, fee: u64, count: u64, per_block: u64) -> i64 {
    let limit = (MAX_CLASS_BLOCKS * per_block) as f64;
    let count = count as f64;
    let effective = importance + MAX_FEE_IMPORTANCE.min(fee as f64 / 1_000_000_000.0);
    (effective * (-3.0 * count / limit).exp() * 100.0 * (limit - count)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows by count, columns by fee.
    #[test]
    fn an_account_without_importance_is_limited_as_in_the_table() {
        let fees = [50_000, 100_000, 150_000, 500_000, 1_000_000, 5_000_000, 10_000_000];
        let table = [
            (120, [4, 8, 12, 40, 80, 400, 800]),
            (150, [3, 7, 10, 36, 72, 360, 721]),
            (200, [3, 6, 9, 30, 60, 303, 606]),
            (300, [2, 4, 6, 21, 42, 212, 425]),
            (400, [1, 2, 4, 14, 29, 147, 294]),
            (500, [1, 2, 3, 10, 20, 100, 200]),
            (600, [0, 1, 2, 6, 13, 66, 133]),
            (800, [0, 0, 0, 2, 5, 27, 54]),
            (1000, [0, 0, 0, 0, 1, 8, 16]),
            (1100, [0, 0, 0, 0, 0, 3, 6]),
            (1150, [0, 0, 0, 0, 0, 1, 2]),
            (1199, [0, 0, 0, 0, 0, 0, 0]),
            (1200, [0, 0, 0, 0, 0, 0, 0]),
        ];
        for (count, row) in table {
            assert_eq!(fees.map(|fee| max_per_account(0.0, fee, count, 120)), row, "{count}");
        }
        assert_eq!(max_per_account(0.0, 50_000_000, 120, 120), 800);
        assert_eq!(max_per_account(0.001, 50_000, 600, 120), 14);
    }
}
