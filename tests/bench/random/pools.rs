//! Mempools of many transactions, checked against the oracle.

use std::collections::{BTreeMap, BTreeSet};

use nisd::mempool::Mempool;
use nisd::model::transaction::Cosignature;
use nisd::model::{Body, Hash256, Transaction};

use super::Stage;
use super::block_cases::spoil;
use super::court::Purpose;
use super::figures::Class;
use super::maker::{MICRO, Maker};
use super::model::Model;
use super::people::Who;
use super::rule::{Rule, Ruling, Verdict, require};
use crate::common::Random;

/// Maximum number of transactions offered to one mempool.
const MOST: usize = 90;
/// Harvesters that are not accounts of the network.
const NOBODY: [Who; 2] = [usize::MAX; 2];

/// The model of a mempool.
struct Book {
    /// The state with all unconfirmed transactions applied.
    model: Model,
    roots: Vec<Entry>,
    /// Hashes of all unconfirmed transactions and of their inner ones.
    known: BTreeSet<Hash256>,
    /// Cosignatures to be offered later.
    coming: Vec<Transaction>,
}

struct Entry {
    transaction: Transaction,
    debtor: Who,
    /// Hash of the cosignature that counts, by signer.
    cosigned: BTreeMap<Who, Hash256>,
}

impl Stage {
    /// Offers many transactions to one mempool.
    pub fn fill_pool(&mut self) {
        if self.next_height() < 4 || self.next_height() == self.world.terms.forks.treasury {
            return;
        }
        let now = self.time();
        let per_block = self.world.terms.per_block as usize;
        let count = (2 * per_block + self.random.below(2 * per_block)).min(MOST);
        let (roots, known, coming) = (Vec::new(), BTreeSet::new(), Vec::new());
        let mut book = Book { model: self.model.clone(), roots, known, coming };
        let (mut pool, mut offered) = (Mempool::default(), Vec::new());
        for _ in 0..count {
            let Some((transaction, is_spoiled)) = self.candidate(&mut book, now) else { continue };
            let judged = self.judge_pooled(&mut book, &transaction, is_spoiled, now);
            let found = self.ground.announce_to(&mut pool, &transaction, now);
            self.figures.announced += 1;
            self.check_pooled(&transaction, judged, &found, now);
            offered.push((transaction, found));
        }
        if book.roots.len() > per_block {
            self.figures.note(Class::ManyInPool);
        }
        self.check_content(&book, &pool);
        if let Some(recorder) = &mut self.recorder {
            recorder.pool(self.model.height, now, &offered);
        }
    }

    fn check_pooled(&mut self, transaction: &Transaction, judged: Result<(), Ruling>, found: &Verdict, now: i32) {
        let expected = judged.as_ref().err().map_or(Verdict::Valid, |ruling| ruling.verdict.clone());
        if let Err(ruling) = &judged {
            self.figures.refuse(ruling.rule, true);
        }
        let is_refused = expected == Verdict::Somehow && *found != Verdict::Valid;
        if *found != expected && !is_refused {
            let hex = hex::encode(transaction.to_bytes(nisd::codec::SigningForm::Verifiable));
            self.differ(format!("in a pool: expected {judged:?}, given {found:?}; time {now}; {hex}"));
        }
    }

    /// Compares the unconfirmed transactions with their counted cosignatures.
    fn check_content(&mut self, book: &Book, pool: &Mempool) {
        let found: BTreeMap<Hash256, BTreeSet<Hash256>> = pool
            .in_fee_order()
            .iter()
            .map(|one| (one.hash(), one.cosignatures().iter().map(Transaction::hash).collect()))
            .collect();
        let expected: BTreeMap<Hash256, BTreeSet<Hash256>> =
            book.roots.iter().map(|one| (one.transaction.hash(), one.cosigned.values().copied().collect())).collect();
        if found != expected {
            self.differ(format!("a pool holds {found:?}, not {expected:?}"));
        }
    }

    /// Returns a transaction to offer, and whether its signature is invalid.
    fn candidate(&mut self, book: &mut Book, now: i32) -> Option<(Transaction, bool)> {
        let mut random = Random(self.random.next());
        let court = self.world.court(&book.model, now, Purpose::Pool);
        let mut maker = Maker { court, random: &mut random, time: now, harvesters: NOBODY };
        let confirmed = &self.model;
        match maker.random.below(12) {
            0 => {
                let one = maker.one_of(&book.roots)?.transaction.clone();
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
                let mut one = maker.something().and_then(|draft| maker.finish(draft))?;
                spoil(&mut one, false, maker.random);
                Some((one, true))
            }
            2 | 3 => {
                let inner = maker.draft_of_multisig()?;
                let account = maker.court.people.of_key(&inner.signer);
                let cosigners: Vec<Who> = maker.account(account).cosignatories.iter().copied().collect();
                let first = *maker.one_of(&cosigners)?;
                let stranger = maker.single_payer(0)?;
                let (hash, address) = (inner.hash(), maker.court.people.address(account));
                for who in cosigners.into_iter().chain([stranger]) {
                    // One in three cosigns twice.
                    for _ in 0..if maker.once_in(3) { 2 } else { 1 } {
                        let body = Cosignature { other_hash: hash.into(), other_account: address };
                        let mut one = maker.draft(who, 1, Body::Cosignature(body));
                        maker.sign(&mut one);
                        book.coming.push(one);
                    }
                }
                let mut whole = maker.wrap_by(inner, first, &[]);
                maker.sign(&mut whole);
                Some((whole, false))
            }
            4..7 if !book.coming.is_empty() => {
                let place = maker.random.below(book.coming.len());
                Some((book.coming.swap_remove(place), false))
            }
            // The whole confirmed balance of an account, of which something is already spent.
            7 => {
                let who = maker.one_of(&book.roots)?.debtor;
                let is_single = !maker.account(who).is_multisig() && maker.can_act(who);
                let to = maker.payee();
                let balance = confirmed.accounts[who].balance;
                let draft = maker.transfer_of(who, to, balance.checked_sub(50 * MICRO)?, Vec::new());
                let draft = super::bends::version_1(draft);
                let whole = is_single.then(|| maker.finish(draft))??;
                Some((whole, false))
            }
            8 | 9 => {
                let draft = maker.something()?;
                Some((maker.finish(draft)?, false))
            }
            _ => {
                let draft = maker.small_transfer()?;
                Some((maker.finish(draft)?, false))
            }
        }
    }

    fn judge_pooled(
        &mut self,
        book: &mut Book,
        transaction: &Transaction,
        is_spoiled: bool,
        now: i32,
    ) -> Result<(), Ruling> {
        let hashes: Vec<Hash256> = transaction.self_and_children().map(Transaction::hash).collect();
        require(!hashes.iter().any(|hash| book.known.contains(hash)), Rule::PoolKnown)?;
        let people = &self.world.people;
        let debtor = match &transaction.body {
            Body::Multisig(body) => people.of_key(&body.inner.signer),
            Body::Cosignature(body) => people.of_address(&body.other_account),
            _ => people.of_key(&transaction.signer),
        };
        require(self.is_room(book, transaction, debtor), Rule::PoolFull)?;
        require(!hashes.iter().any(|hash| self.model.hashes.contains_key(hash)), Rule::PoolKnown)?;
        require(!is_spoiled, Rule::PoolSignature)?;
        let judged = self.world.court(&book.model, now, Purpose::Pool).judge(transaction);
        let is_short = judged.as_ref().is_err_and(|ruling| [Rule::T6Balance, Rule::T20Balance].contains(&ruling.rule));
        let in_chain = self.world.court(&self.model, now, Purpose::Pool);
        if is_short && in_chain.judge(transaction).is_ok() {
            self.figures.note(Class::Accumulated);
        }
        let moves = judged?;
        let signer = self.world.people.of_key(&transaction.signer);
        let entry = match &transaction.body {
            Body::Cosignature(body) => {
                let is_cosignatory = self.model.accounts[debtor].cosignatories.contains(&signer);
                let is_meant = |entry: &&mut Entry| {
                    let inner = entry.transaction.inner();
                    inner.is_some_and(|inner| body.other_hash == inner.hash())
                        && entry.debtor == debtor
                        && entry.transaction.signer != transaction.signer
                };
                let entry = book.roots.iter_mut().find(is_meant).filter(|_| is_cosignatory);
                Some(entry.ok_or(Ruling::from(Rule::PoolAlone))?)
            }
            _ => None,
        };
        match entry {
            Some(entry) => {
                self.figures.note(if entry.cosigned.contains_key(&signer) { Class::Surplus } else { Class::Merged });
                entry.cosigned.entry(signer).or_insert(hashes[0]);
            }
            None => {
                let cosigned = transaction.cosignatures().iter();
                let cosigned = cosigned.map(|one| (self.world.people.of_key(&one.signer), one.hash())).collect();
                book.roots.push(Entry { transaction: transaction.clone(), debtor, cosigned });
            }
        }
        let (height, terms) = (self.model.height, &self.world.terms);
        moves.iter().for_each(|one| book.model.carry_out(one, height, terms));
        book.known.extend(hashes);
        Ok(())
    }

    /// Returns whether the fee of a transaction and its account's importance suffice for the present mempool.
    fn is_room(&self, book: &Book, transaction: &Transaction, debtor: Who) -> bool {
        let is_multisig = |one: &Transaction| matches!(one.body, Body::Multisig(_));
        let alike = || book.roots.iter().filter(|one| is_multisig(&one.transaction) == is_multisig(transaction));
        let (count, per_block) = (alike().count(), self.world.terms.per_block as usize);
        if count < per_block {
            return true;
        }
        let own = alike().filter(|one| one.debtor == debtor).count();
        let importance = self.ground.importance(&self.world.people.address(debtor)).unwrap_or(0.0);
        let worth = importance + f64::min(0.01, transaction.fee.0 as f64 / 1e9);
        let (count, most) = (count as f64, 10.0 * per_block as f64);
        let allowed = worth * (-3.0 * count / most).exp() * 100.0 * (most - count);
        (own as i64) < allowed as i64
    }
}
