//! Mempools of many transactions, checked against the oracle.

use std::collections::{BTreeMap, BTreeSet};

use nisd::mempool::Mempool;
use nisd::model::transaction::Cosignature;
use nisd::model::{Body, Hash256, Transaction};

use super::NetworkRun;
use super::block_cases::invalidate_signature;
use super::court::Purpose;
use super::figures::Class;
use super::maker::{MICRO, Maker};
use super::model::Model;
use super::people::AccountIndex;
use super::rule::{Rule, RuleViolation, require};
use crate::Random;

/// Maximum number of transactions offered to one mempool.
const MAX_OFFERED: usize = 90;
/// Harvesters that are not accounts of the network.
const NOBODY: [AccountIndex; 2] = [usize::MAX; 2];

/// The model of a mempool.
struct MempoolModel {
    /// The state with all unconfirmed transactions applied.
    model: Model,
    entries: Vec<Entry>,
    /// Hashes of all unconfirmed transactions and of their inner ones.
    known: BTreeSet<Hash256>,
    /// Cosignatures to be offered later.
    pending_cosignatures: Vec<Transaction>,
}

struct Entry {
    transaction: Transaction,
    fee_payer: AccountIndex,
    /// Hash of the cosignature that counts, by signer.
    cosigned: BTreeMap<AccountIndex, Hash256>,
}

impl NetworkRun {
    /// Offers many transactions to one mempool.
    pub fn fill_mempool(&mut self) {
        if self.next_height() < 4 || self.next_height() == self.test_network.terms.forks.treasury {
            return;
        }
        let now = self.time();
        let per_block = self.test_network.terms.per_block as usize;
        let count = (2 * per_block + self.random.below(2 * per_block)).min(MAX_OFFERED);
        let (roots, known, coming) = (Vec::new(), BTreeSet::new(), Vec::new());
        let mut book = MempoolModel { model: self.model.clone(), entries: roots, known, pending_cosignatures: coming };
        let (mut pool, mut offered) = (Mempool::default(), Vec::new());
        for _ in 0..count {
            let Some((transaction, is_spoiled)) = self.candidate(&mut book, now) else { continue };
            let judged = self.validate_unconfirmed(&mut book, &transaction, is_spoiled, now);
            let found = self.node.announce_to(&mut pool, &transaction, now);
            self.statistics.announced += 1;
            self.check_mempool_result("in a pool", &transaction, judged, &found, now);
            offered.push((transaction, found));
        }
        if book.entries.len() > per_block {
            self.statistics.count_class(Class::ManyInPool);
        }
        self.check_mempool_content(&book, &pool);
        if let Some(recorder) = &mut self.recorder {
            recorder.pool(self.model.height, now, &offered);
        }
    }

    /// Compares the unconfirmed transactions with their counted cosignatures.
    fn check_mempool_content(&mut self, book: &MempoolModel, pool: &Mempool) {
        let found: BTreeMap<Hash256, BTreeSet<Hash256>> = pool
            .in_fee_order()
            .iter()
            .map(|one| (one.hash(), one.cosignatures().iter().map(Transaction::hash).collect()))
            .collect();
        let expected: BTreeMap<Hash256, BTreeSet<Hash256>> =
            book.entries.iter().map(|one| (one.transaction.hash(), one.cosigned.values().copied().collect())).collect();
        if found != expected {
            self.add_difference(format!("a pool holds {found:?}, not {expected:?}"));
        }
    }

    /// Returns a transaction to offer, and whether its signature is invalid.
    fn candidate(&mut self, book: &mut MempoolModel, now: i32) -> Option<(Transaction, bool)> {
        let mut random = Random(self.random.next());
        let court = self.test_network.oracle(&book.model, now, Purpose::Mempool);
        let mut maker = Maker { oracle: court, random: &mut random, time: now, harvesters: NOBODY };
        let confirmed = &self.model;
        match maker.random.below(12) {
            0 => {
                let one = maker.random_element(&book.entries)?.transaction.clone();
                let inner = one.inner().cloned().filter(|_| maker.random.coin());
                let again = match inner {
                    Some(mut inner) => {
                        maker.sign(&mut inner);
                        inner
                    }
                    None => one,
                };
                Some((again, false))
            }
            1 => {
                let mut one = maker.random_transaction().and_then(|draft| maker.finish(draft))?;
                invalidate_signature(&mut one, false, maker.random);
                Some((one, true))
            }
            2 | 3 => {
                let inner = maker.draft_of_multisig()?;
                let account = maker.oracle.key_ring.of_key(&inner.signer);
                let cosigners: Vec<AccountIndex> = maker.account(account).cosignatories.iter().copied().collect();
                let first = *maker.random_element(&cosigners)?;
                let stranger = maker.random_single_payer(0)?;
                let (hash, address) = (inner.hash(), maker.oracle.key_ring.address(account));
                for who in cosigners.into_iter().chain([stranger]) {
                    // One in three cosigns twice.
                    for _ in 0..if maker.once_in(3) { 2 } else { 1 } {
                        let body = Cosignature { other_hash: hash.into(), other_account: address };
                        let mut one = maker.draft(who, 1, Body::Cosignature(body));
                        maker.sign(&mut one);
                        book.pending_cosignatures.push(one);
                    }
                }
                let mut whole = maker.wrap_by(inner, first, &[]);
                maker.sign(&mut whole);
                Some((whole, false))
            }
            4..7 if !book.pending_cosignatures.is_empty() => {
                let place = maker.random.below(book.pending_cosignatures.len());
                Some((book.pending_cosignatures.swap_remove(place), false))
            }
            // The whole confirmed balance of an account, of which something is already spent.
            7 => {
                let who = maker.random_element(&book.entries)?.fee_payer;
                let is_single = !maker.account(who).is_multisig() && maker.can_act(who);
                let to = maker.random_payee();
                let balance = confirmed.accounts[who].balance;
                let draft = maker.transfer_of(who, to, balance.checked_sub(50 * MICRO)?, Vec::new());
                let draft = super::bends::version_1(draft);
                let whole = is_single.then(|| maker.finish(draft))??;
                Some((whole, false))
            }
            8 | 9 => {
                let draft = maker.random_transaction()?;
                Some((maker.finish(draft)?, false))
            }
            _ => {
                let draft = maker.small_transfer()?;
                Some((maker.finish(draft)?, false))
            }
        }
    }

    fn validate_unconfirmed(
        &mut self,
        book: &mut MempoolModel,
        transaction: &Transaction,
        is_spoiled: bool,
        now: i32,
    ) -> Result<(), RuleViolation> {
        let hashes: Vec<Hash256> = transaction.self_and_children().map(Transaction::hash).collect();
        require(!hashes.iter().any(|hash| book.known.contains(hash)), Rule::PoolKnown)?;
        let people = &self.test_network.key_ring;
        let debtor = match &transaction.body {
            Body::Multisig(body) => people.of_key(&body.inner.signer),
            Body::Cosignature(body) => people.of_address(&body.other_account),
            _ => people.of_key(&transaction.signer),
        };
        require(self.has_room(book, transaction, debtor), Rule::PoolFull)?;
        require(!hashes.iter().any(|hash| self.model.hashes.contains_key(hash)), Rule::PoolKnown)?;
        require(!is_spoiled, Rule::PoolSignature)?;
        let judged = self.test_network.oracle(&book.model, now, Purpose::Mempool).validate(transaction);
        let is_short = judged.as_ref().is_err_and(|ruling| [Rule::T6Balance, Rule::T20Balance].contains(&ruling.rule));
        let in_chain = self.test_network.oracle(&self.model, now, Purpose::Mempool);
        if is_short && in_chain.validate(transaction).is_ok() {
            self.statistics.count_class(Class::Accumulated);
        }
        let moves = judged?;
        let signer = self.test_network.key_ring.of_key(&transaction.signer);
        let entry = match &transaction.body {
            Body::Cosignature(body) => {
                let is_cosignatory = self.model.accounts[debtor].cosignatories.contains(&signer);
                let is_meant = |entry: &&mut Entry| {
                    let inner = entry.transaction.inner();
                    inner.is_some_and(|inner| body.other_hash == inner.hash())
                        && entry.fee_payer == debtor
                        && entry.transaction.signer != transaction.signer
                };
                let entry = book.entries.iter_mut().find(is_meant).filter(|_| is_cosignatory);
                Some(entry.ok_or(RuleViolation::from(Rule::PoolAlone))?)
            }
            _ => None,
        };
        match entry {
            Some(entry) => {
                self.statistics.count_class(if entry.cosigned.contains_key(&signer) {
                    Class::Surplus
                } else {
                    Class::Merged
                });
                entry.cosigned.entry(signer).or_insert(hashes[0]);
            }
            None => {
                let cosigned = transaction.cosignatures().iter();
                let cosigned =
                    cosigned.map(|one| (self.test_network.key_ring.of_key(&one.signer), one.hash())).collect();
                book.entries.push(Entry { transaction: transaction.clone(), fee_payer: debtor, cosigned });
            }
        }
        let (height, terms) = (self.model.height, &self.test_network.terms);
        moves.iter().for_each(|one| book.model.apply(one, height, terms));
        book.known.extend(hashes);
        Ok(())
    }

    /// Returns whether the fee of a transaction and its account's importance suffice for the present mempool.
    fn has_room(&self, book: &MempoolModel, transaction: &Transaction, debtor: AccountIndex) -> bool {
        let is_multisig = |one: &Transaction| matches!(one.body, Body::Multisig(_));
        let alike = || book.entries.iter().filter(|one| is_multisig(&one.transaction) == is_multisig(transaction));
        let (count, per_block) = (alike().count(), self.test_network.terms.per_block as usize);
        if count < per_block {
            return true;
        }
        let own = alike().filter(|one| one.fee_payer == debtor).count();
        let importance = self.node.importance(&self.test_network.key_ring.address(debtor)).unwrap_or(0.0);
        let worth = importance + f64::min(0.01, transaction.fee.0 as f64 / 1e9);
        let (count, most) = (count as f64, 10.0 * per_block as f64);
        let allowed = worth * (-3.0 * count / most).exp() * 100.0 * (most - count);
        (own as i64) < allowed as i64
    }
}
