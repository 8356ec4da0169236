//! Ways into the pool.

use std::collections::VecDeque;
use std::rc::Rc;

use super::root::Root;
use super::{Confirmed, ContentHash, Pool, PoolContent};
use crate::codec::Form;
use crate::crypto::Verifier;
use crate::model::transaction::wire_network;
use crate::model::{Body, Height, Timestamp, Transaction};
use crate::rules::{self, Case, Exception, Purpose, Refusal, ValidationResult, Verdict, check_transaction};
use crate::state::{self, BlockContext, Effect, Ledger};
use crate::store::Overlay;

impl Pool {
    /// Answers a transaction that was announced or pushed, from memory if it has come before. What is accepted is to be
    /// passed on to other nodes.
    pub fn announce(
        &mut self,
        transaction: Transaction,
        confirmed: &Confirmed<'_>,
        verifier: &mut Verifier,
    ) -> Verdict {
        let network = wire_network(transaction.version);
        require(network == confirmed.network.byte, ValidationResult::FailureWrongNetwork)?;
        let hash = content_hash(&transaction);
        if let Some(result) = self.memory.answer(&hash, confirmed.now) {
            return Err(result.into());
        }
        self.memory.remember(hash, confirmed.now);
        let outcome = self.add(transaction, confirmed, verifier);
        match &outcome {
            Ok(()) => self.memory.set(&hash, ValidationResult::Success),
            Err(Refusal::Result(result)) => self.memory.set(&hash, *result),
            // What is remembered is neutral already.
            Err(_) => {}
        }
        outcome
    }

    /// What a transaction was answered that comes when none are taken in; if it has never come, it is remembered as
    /// neutral from now on.
    pub fn note_early(&mut self, transaction: &Transaction, now: Timestamp) -> Option<ValidationResult> {
        let hash = content_hash(transaction);
        let answer = self.memory.answer(&hash, now);
        if answer.is_none() {
            self.memory.remember(hash, now);
        }
        answer
    }

    /// Takes in a transaction, whatever was announced before. Work that a change of the chain has left is done first.
    pub fn add(&mut self, transaction: Transaction, confirmed: &Confirmed<'_>, verifier: &mut Verifier) -> Verdict {
        self.complete(confirmed)?;
        let root = Root::new(transaction, confirmed.network.byte);
        require(!self.content.contains(&root.hashes), ValidationResult::Neutral)?;
        let permissible = self.content.is_permissible(&root, confirmed)?;
        require(permissible, ValidationResult::FailureTransactionCacheTooFull)?;
        rules::transactions_are_new(std::slice::from_ref(&root.hashes), confirmed.snapshot)?;
        check_signatures(&root, confirmed, verifier)?;
        self.content.insert(root, confirmed, &mut self.arrivals)
    }
}

fn content_hash(transaction: &Transaction) -> ContentHash {
    ContentHash::of(&transaction.to_bytes(Form::Verifiable))
}

fn require(condition: bool, otherwise: ValidationResult) -> Verdict {
    if condition { Ok(()) } else { Err(otherwise.into()) }
}

/// The signatures of a transaction and of the cosignatures attached to it. What the treasury re-issuance lists needs
/// none.
pub(super) fn check_signatures(root: &Root, confirmed: &Confirmed<'_>, verifier: &mut Verifier) -> Verdict {
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

impl PoolContent {
    /// Judges a transaction whose signatures are good by all rules on the pool's state, carries it out there, and keeps
    /// it. A cosignature is kept by its multisig transaction, but has come in by itself.
    pub(super) fn insert(
        &mut self,
        root: Root,
        confirmed: &Confirmed<'_>,
        arrivals: &mut VecDeque<Rc<Transaction>>,
    ) -> Verdict {
        let transaction = Rc::clone(&root.transaction);
        let effects = self.judge(&transaction, confirmed)?;
        require(!self.contains(&root.hashes), ValidationResult::Neutral)?;
        let number = match &transaction.body {
            Body::Cosignature(body) => {
                let is_cosignatory = state::cosignatories(confirmed.snapshot, &body.other_account)?;
                let is_cosignatory = is_cosignatory.contains(&transaction.signer_address(confirmed.network.byte));
                let mut waiting = self.of_account(&body.other_account);
                let matching = waiting.find(|root| root.matches(&transaction, confirmed.network.byte));
                let number = matching.filter(|_| is_cosignatory).map(|found| found.number);
                Some(number.ok_or(ValidationResult::FailureMultisigNoMatchingMultisig)?)
            }
            _ => None,
        };
        self.carry_out(&effects, confirmed)?;
        match number {
            Some(number) => self.attach(number, &root, confirmed),
            None => self.push(root),
        }
        arrivals.push_back(transaction);
        Ok(())
    }

    fn judge<'t>(
        &mut self,
        transaction: &'t Transaction,
        confirmed: &Confirmed<'_>,
    ) -> Result<Vec<Effect<'t>>, Refusal> {
        let Confirmed { snapshot, network, height, now } = *confirmed;
        let overlay = Overlay::new(snapshot, &mut self.changes);
        let case = Case { state: &overlay, network, height: height.next(), now, purpose: Purpose::Pool };
        check_transaction(transaction, &case)
    }

    /// Carries out effects at the height of the last block, not of the next, as NIS1 does; but never at that of the
    /// nemesis block, where all that is received is vested at once.
    fn carry_out(&mut self, effects: &[Effect<'_>], confirmed: &Confirmed<'_>) -> Verdict {
        let height = confirmed.height.max(Height::NEMESIS.next());
        let mut overlay = Overlay::new(confirmed.snapshot, &mut self.changes);
        let mut block = BlockContext::new(height, confirmed.now);
        let mut ledger = Ledger { batch: &mut overlay, block: &mut block, network: confirmed.network };
        for effect in effects {
            ledger.apply(effect)?;
        }
        Ok(ledger.finish()?)
    }

    /// A second cosignature of the same signer is answered like the first and pays like it, but is not kept.
    fn attach(&mut self, number: u64, cosignature: &Root, confirmed: &Confirmed<'_>) {
        self.children.insert(cosignature.hashes.own);
        self.bytes += cosignature.bytes;
        if let Some(mut multisig) = self.roots.remove(&number) {
            multisig.attach(cosignature, confirmed.network.byte);
            self.index(&multisig);
            self.roots.insert(number, multisig);
        }
    }
}
