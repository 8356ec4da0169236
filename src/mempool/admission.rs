//! Acceptance of transactions.

use std::collections::VecDeque;
use std::rc::Rc;

use super::entry::MempoolEntry;
use super::{ConfirmedChain, ContentHash, Mempool, MempoolContent};
use crate::codec::SigningForm;
use crate::crypto::Verifier;
use crate::model::transaction::wire_network;
use crate::model::{Body, Height, Timestamp, Transaction};
use crate::rules::{
    self, Exception, Purpose, Rejection, RuleResult, ValidationContext, ValidationResult, check_transaction,
};
use crate::state::{self, BlockContext, Effect, Ledger};
use crate::store::Overlay;

impl Mempool {
    /// Validates and accepts an announced or pushed transaction, or returns the remembered result if it came before. An
    /// accepted one must be relayed to peers.
    pub fn announce(
        &mut self,
        transaction: Transaction,
        confirmed: &ConfirmedChain<'_>,
        verifier: &mut Verifier,
    ) -> RuleResult {
        let network = wire_network(transaction.version);
        require(network == confirmed.network.byte, ValidationResult::FailureWrongNetwork)?;
        let hash = content_hash(&transaction);
        if let Some(result) = self.recent_results.get(&hash, confirmed.now) {
            return Err(result.into());
        }
        self.recent_results.insert(hash, confirmed.now);
        let outcome = self.add(transaction, confirmed, verifier);
        match &outcome {
            Ok(()) => self.recent_results.set_result(&hash, ValidationResult::Success),
            Err(Rejection::Result(result)) => self.recent_results.set_result(&hash, *result),
            // It is remembered as neutral already.
            Err(_) => {}
        }
        outcome
    }

    /// Returns the remembered result of a transaction that arrives while none are accepted. A transaction without one
    /// is remembered as neutral from then on.
    pub fn result_before_join(&mut self, transaction: &Transaction, now: Timestamp) -> Option<ValidationResult> {
        let hash = content_hash(transaction);
        let answer = self.recent_results.get(&hash, now);
        if answer.is_none() {
            self.recent_results.insert(hash, now);
        }
        answer
    }

    /// Validates and accepts a transaction without the remembered results. Completes a pending rebuild first.
    pub fn add(
        &mut self,
        transaction: Transaction,
        confirmed: &ConfirmedChain<'_>,
        verifier: &mut Verifier,
    ) -> RuleResult {
        self.finish_rebuild(confirmed)?;
        let root = MempoolEntry::new(transaction, confirmed.network.byte);
        require(!self.content.contains(&root.hashes), ValidationResult::Neutral)?;
        let has_room = self.content.has_room_for(&root, confirmed)?;
        require(has_room, ValidationResult::FailureTransactionCacheTooFull)?;
        rules::transactions_are_new(std::slice::from_ref(&root.hashes), confirmed.snapshot)?;
        check_signatures(&root, confirmed, verifier)?;
        self.content.insert(root, confirmed, &mut self.newly_accepted)
    }
}

fn content_hash(transaction: &Transaction) -> ContentHash {
    ContentHash::of(&transaction.to_bytes(SigningForm::Verifiable))
}

fn require(condition: bool, otherwise: ValidationResult) -> RuleResult {
    if condition { Ok(()) } else { Err(otherwise.into()) }
}

/// Checks the signatures of a transaction and its cosignatures. Those of the treasury reissuance need none.
pub(super) fn check_signatures(
    root: &MempoolEntry,
    confirmed: &ConfirmedChain<'_>,
    verifier: &mut Verifier,
) -> RuleResult {
    if confirmed.network.chain.forks.treasury_hashes.contains(&root.hashes.own) {
        return Ok(());
    }
    for one in std::iter::once(&*root.transaction).chain(root.transaction.cosignatures()) {
        let signature = one.signature.ok_or(ValidationResult::FailureSignatureNotVerifiable)?;
        let good = verifier.verify(&one.signer, &one.signed_bytes(), &signature);
        let good = good.map_err(|error| Exception::argument(error.to_string()))?;
        require(good, ValidationResult::FailureSignatureNotVerifiable)?;
    }
    Ok(())
}

impl MempoolContent {
    /// Validates a transaction with valid signatures by all rules on the overlay state, applies it there and stores it.
    /// A cosignature is stored in its multisig transaction, but reported separately as accepted.
    pub(super) fn insert(
        &mut self,
        root: MempoolEntry,
        confirmed: &ConfirmedChain<'_>,
        newly_accepted: &mut VecDeque<Rc<Transaction>>,
    ) -> RuleResult {
        let transaction = Rc::clone(&root.transaction);
        let effects = self.validate(&transaction, confirmed)?;
        require(!self.contains(&root.hashes), ValidationResult::Neutral)?;
        let number = match &transaction.body {
            Body::Cosignature(body) => {
                let is_cosignatory = state::cosignatories(confirmed.snapshot, &body.other_account)?;
                let is_cosignatory = is_cosignatory.contains(&transaction.signer_address(confirmed.network.byte));
                let mut affecting = self.affecting(&body.other_account);
                let matching = affecting.find(|root| root.matches(&transaction, confirmed.network.byte));
                let number = matching.filter(|_| is_cosignatory).map(|found| found.number);
                Some(number.ok_or(ValidationResult::FailureMultisigNoMatchingMultisig)?)
            }
            _ => None,
        };
        self.apply(&effects, confirmed)?;
        match number {
            Some(number) => self.attach(number, &root, confirmed),
            None => self.push(root),
        }
        newly_accepted.push_back(transaction);
        Ok(())
    }

    fn validate<'t>(
        &mut self,
        transaction: &'t Transaction,
        confirmed: &ConfirmedChain<'_>,
    ) -> Result<Vec<Effect<'t>>, Rejection> {
        let ConfirmedChain { snapshot, network, height, now } = *confirmed;
        let overlay = Overlay::new(snapshot, &mut self.changes);
        let (height, purpose) = (height.next(), Purpose::Mempool);
        let context = ValidationContext { state: &overlay, block: None, network, height, now, purpose };
        check_transaction(transaction, &context)
    }

    /// Applies effects at the height of the tip, not of the next block, as NIS1 does; but never at the height of the
    /// nemesis block, where all received amounts are vested at once.
    fn apply(&mut self, effects: &[Effect<'_>], confirmed: &ConfirmedChain<'_>) -> RuleResult {
        let height = confirmed.height.max(Height::NEMESIS.next());
        let mut overlay = Overlay::new(confirmed.snapshot, &mut self.changes);
        let mut block = BlockContext::new(height, confirmed.now);
        let mut ledger = Ledger { txn: &mut overlay, block: &mut block, network: confirmed.network };
        for effect in effects {
            ledger.apply(effect)?;
        }
        Ok(ledger.flush()?)
    }

    /// Attaches a cosignature. A second one of the same signer is accepted and pays like the first, but is not stored.
    fn attach(&mut self, number: u64, cosignature: &MempoolEntry, confirmed: &ConfirmedChain<'_>) {
        self.children.insert(cosignature.hashes.own);
        self.bytes += cosignature.bytes;
        if let Some(mut multisig) = self.entries.remove(&number) {
            multisig.attach(cosignature, confirmed.network.byte);
            self.index(&multisig);
            self.entries.insert(number, multisig);
        }
    }
}
