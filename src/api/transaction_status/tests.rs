//! Tests of what became of transactions, over blocks, reorgs, expiries and restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::tests::*;
use crate::api::{TransactionStatus, View};
use crate::budget::Budget;
use crate::chain::{ChainSnapshot, rollback};
use crate::codec::json::JsonEncoder;
use crate::crypto::{KeyPair, PrivateKey};
use crate::mempool::Mempool;
use crate::model::transaction::{
    AggregateModification, Cosignature, Modification, ModificationKind, Multisig, ProvisionNamespace, Transfer,
    wire_version,
};
use crate::model::{Amount, Body, Hash256, Height, Timestamp, Transaction};
use crate::rules::{Rejection, RuleResult, ValidationResult};
use crate::state::{Account, VestedBalance};

/// Accounts that each can pay one of these transactions, and not two. The last one is a multisig account.
const ACCOUNTS: u8 = 12;
const MULTISIG: u8 = ACCOUNTS - 1;
/// Initiator and other cosignatory of the multisig account.
const COSIGNATORIES: [u8; 2] = [20, 21];
const BALANCE: u64 = 100;
const PAID: u64 = 60;

fn pair_of(name: u8) -> KeyPair {
    KeyPair::new(&PrivateKey::from_seed(&[name; 32]))
}

fn signed(name: u8, at: Timestamp, deadline: Timestamp, body: Body) -> Transaction {
    let pair = pair_of(name);
    let (version, signer, fee) = (wire_version(NETWORK, 1), pair.public(), Amount::whole(6));
    let transaction = Transaction { version, timestamp: at, signer, signature: None, fee, deadline, body };
    Transaction { signature: Some(pair.sign(&transaction.signed_bytes())), ..transaction }
}

/// A payment of an account, different for each number; of the multisig account without the other signature.
fn payment(name: u8, number: u64, at: Timestamp, deadline: Timestamp) -> Transaction {
    let amount = Amount(Amount::whole(PAID).0 + number);
    let body = Body::Transfer(Transfer { recipient: address(90), amount, message: None, mosaics: Vec::new() });
    let paying = signed(name, at, deadline, body);
    if name != MULTISIG {
        return paying;
    }
    let inner = Transaction { signature: None, ..paying };
    signed(COSIGNATORIES[0], at, deadline, Body::Multisig(Box::new(Multisig { inner, cosignatures: Vec::new() })))
}

/// The other signature of a payment of the multisig account.
fn cosignature(payment: &Transaction) -> Transaction {
    let other_account = address_of(&pair_of(MULTISIG).public());
    let body = Cosignature { other_hash: payment.inner().unwrap().hash().into(), other_account };
    signed(COSIGNATORIES[1], payment.timestamp, payment.deadline, Body::Cosignature(body))
}

/// A node with a chain, as far as it tells what became of transactions.
struct World {
    scene: Scene,
    node: TestNode,
    now: Timestamp,
    uptime: Duration,
    /// The hashes of transactions whose statuses have been published.
    told: BTreeSet<Hash256>,
}

impl World {
    fn new() -> World {
        let scene = Scene::empty();
        scene.add_block(Vec::new());
        for name in 0..ACCOUNTS {
            let balance = VestedBalance { height: 1, unvested: 0, vested: Amount::whole(BALANCE).0 };
            let account = Account { first_height: 1, balance, ..Account::default() };
            let min_cosignatories = if name == MULTISIG { 2 } else { 0 };
            scene.put_account_of(address_of(&pair_of(name).public()), &Account { min_cosignatories, ..account });
        }
        for cosignatory in COSIGNATORIES {
            let cosignatory = address_of(&pair_of(cosignatory).public());
            scene.put_cosignatory_of(address_of(&pair_of(MULTISIG).public()), cosignatory);
        }
        let mut world =
            World { scene, node: TestNode::default(), now: NOW.network, uptime: Duration::ZERO, told: BTreeSet::new() };
        world.pass(0);
        world
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut TestNode, ChainSnapshot<'_>) -> T) -> T {
        let snapshot = self.scene.store.snapshot().unwrap();
        let chain = ChainSnapshot { now: self.now, ..self.scene.view(&snapshot, None) };
        act(&mut self.node, chain)
    }

    fn height(&mut self) -> Height {
        self.with(|_, chain| chain.height)
    }

    fn announce(&mut self, transaction: &Transaction) -> RuleResult {
        self.with(|node, chain| node.mempool.add(transaction.clone(), &chain).map(drop))
    }

    /// Brings the mempool up to date. Returns the work units that it took.
    fn work(&mut self) -> u32 {
        let mut used = 0;
        while self.node.mempool.has_work() {
            let mut budget = Budget::new(1_000);
            self.with(|node, chain| node.mempool.work(&chain, &mut budget)).unwrap();
            used += budget.used();
        }
        used
    }

    /// Lets seconds pass.
    fn pass(&mut self, seconds: i32) {
        self.now.0 += seconds;
        self.uptime += Duration::from_secs(2);
        self.node.mempool.tick(self.now, self.uptime);
        self.work();
    }

    /// Replaces the blocks above a height by blocks with these transactions. Returns the work units of the mempool.
    fn replace_above(&mut self, common: Height, blocks: Vec<Vec<Transaction>>) -> u32 {
        let undone: Vec<_> = (common.0 + 1..=self.height().0).map(|height| self.scene.block(Height(height))).collect();
        let mut txn = self.scene.store.begin_write().unwrap();
        if !undone.is_empty() {
            rollback(&mut txn, common).unwrap();
        }
        txn.commit().unwrap();
        let confirmed: BTreeSet<_> = blocks.iter().flatten().map(Transaction::hash).collect();
        for block in blocks {
            self.told.extend(block.iter().flat_map(|one| one.hashes().all().copied().collect::<Vec<_>>()));
            self.scene.add_block(block);
        }
        let undone = undone.into_iter().rev().flat_map(|block| block.transactions);
        let (kept, returned): (Vec<_>, Vec<_>) = undone.partition(|one| confirmed.contains(&one.hash()));
        let cosignatures = kept.iter().flat_map(Transaction::cosignatures).map(Transaction::hash).collect();
        self.node.mempool.cosignatures_may_be_lost(cosignatures);
        self.node.mempool.chain_changed(common, confirmed, returned);
        self.work()
    }

    fn add_block(&mut self, transactions: Vec<Transaction>) {
        let tip = self.height();
        self.replace_above(tip, vec![transactions]);
    }

    fn restart(&mut self) {
        self.node.mempool = Mempool::default();
        self.uptime = Duration::ZERO;
        self.pass(0);
    }

    /// The transaction as the mempool has it, with its cosignatures.
    fn in_mempool(&self, hash: &Hash256) -> Option<Transaction> {
        self.node.mempool.by_hash(hash).map(|entry| (*entry.transaction).clone())
    }

    fn status(&mut self, hash: Hash256) -> Value {
        let text = self.with(|node, chain| {
            let mut context = node.context(chain, crate::api::NodeStatus::Synchronized, PLENTY);
            let status = TransactionStatus::look_up(hash, &mut context).unwrap();
            JsonEncoder::document(|sink| status.write(sink))
        });
        serde_json::from_slice(&text).unwrap()
    }

    /// The word, by all hashes of a transaction.
    fn word(&mut self, transaction: &Transaction) -> String {
        let hashes = transaction.hashes();
        let words: BTreeSet<_> = hashes.all().map(|hash| self.status(*hash)["status"].to_string()).collect();
        assert_eq!(words.len(), 1, "{words:?}");
        words.into_iter().next().unwrap().trim_matches('"').to_owned()
    }
}

#[test]
fn a_rolled_back_transaction_is_unconfirmed_again_and_can_be_confirmed_in_another_block() {
    let mut world = World::new();
    let (now, deadline) = (world.now, Timestamp(world.now.0 + 3_600));
    let (plain, outer) = (payment(0, 0, now, deadline), payment(MULTISIG, 0, now, deadline));
    for one in [&plain, &outer, &cosignature(&outer)] {
        assert!(world.announce(one).is_ok());
    }
    let outer = world.in_mempool(&outer.hash()).unwrap();
    assert_eq!([&plain, &outer].map(|one| world.word(one)), ["unconfirmed"; 2]);
    world.add_block(vec![plain.clone(), outer.clone()]);
    assert_eq!([&plain, &outer].map(|one| world.word(one)), ["confirmed"; 2]);
    let before = world.status(plain.hash());
    world.pass(5);
    world.replace_above(Height(1), vec![Vec::new(), Vec::new()]);
    assert_eq!([&plain, &outer].map(|one| world.word(one)), ["unconfirmed"; 2]);
    assert_eq!(world.status(plain.hash())["since"], world.now.0);
    let signatures = &world.status(outer.hash())["multisig"];
    assert_eq!((signatures["signed"].as_array().unwrap().len(), &signatures["missing"]), (2, &json!([])));
    world.replace_above(Height(1), vec![Vec::new(), vec![plain.clone()], Vec::new()]);
    let after = world.status(plain.hash());
    assert_eq!((&before["height"], &after["height"], &after["confirmations"]), (&json!(2), &json!(3), &json!(2)));
    assert_ne!(before["blockHash"], after["blockHash"]);
    assert_eq!(world.word(&outer), "unconfirmed");
}

#[test]
fn a_cosignature_without_which_another_branch_confirms_its_transaction_is_rejected() {
    let mut world = World::new();
    let (now, deadline) = (world.now, Timestamp(world.now.0 + 3_600));
    let begun = payment(MULTISIG, 0, now, deadline);
    let agreed = cosignature(&begun);
    assert!(world.announce(&begun).is_ok() && world.announce(&agreed).is_ok());
    let complete = world.in_mempool(&begun.hash()).unwrap();
    world.add_block(vec![complete.clone()]);
    assert_eq!(world.word(&complete), "confirmed");
    assert_eq!(world.node.mempool.fates.count(), 0, "it is confirmed with its transaction");
    world.replace_above(Height(1), vec![vec![begun.clone()], Vec::new()]);
    assert_eq!([&begun, &agreed].map(|one| world.word(one)), ["confirmed", "rejected"]);
    world.replace_above(Height(1), vec![Vec::new(), vec![complete.clone()], Vec::new()]);
    assert_eq!(world.word(&complete), "confirmed");
}

#[test]
fn a_cosignatory_that_is_being_removed_neither_signs_nor_is_missing() {
    let mut world = World::new();
    let (now, deadline) = (world.now, Timestamp(world.now.0 + 3_600));
    let removed = Modification { kind: ModificationKind::Delete, cosignatory: pair_of(COSIGNATORIES[1]).public() };
    let body = AggregateModification { modifications: vec![removed], min_cosignatories_change: Some(-1) };
    let inner = Transaction { signature: None, ..signed(MULTISIG, now, deadline, Body::AggregateModification(body)) };
    let inner = Transaction { version: wire_version(NETWORK, 2), ..inner };
    let outer = Body::Multisig(Box::new(Multisig { inner, cosignatures: Vec::new() }));
    let outer = signed(COSIGNATORIES[0], now, deadline, outer);
    assert!(world.announce(&outer).is_ok());
    let initiator = address_of(&pair_of(COSIGNATORIES[0]).public());
    let expected = json!({"signed": [{"address": initiator.as_str()}], "missing": [], "required": 1});
    assert_eq!(world.status(outer.hash())["multisig"], expected);
}

#[test]
fn a_rolled_back_transaction_that_is_not_valid_any_more_is_replaced() {
    let mut world = World::new();
    let (now, deadline) = (world.now, Timestamp(world.now.0 + 3_600));
    let (spent, late) = (payment(0, 0, now, deadline), payment(1, 0, now, Timestamp(now.0 + 60)));
    world.add_block(vec![spent.clone(), late.clone()]);
    world.pass(100);
    assert_eq!(world.word(&late), "confirmed", "its deadline does not matter any more");
    // The other branch has another payment of the same account.
    let other = payment(0, 1, now, deadline);
    world.replace_above(Height(1), vec![Vec::new(), vec![other.clone()], Vec::new()]);
    for (one, code, conflict) in [
        (
            spent,
            ValidationResult::FailureInsufficientBalance.code(),
            json!({"hash": other.hash().to_string(), "height": 3}),
        ),
        (late, ValidationResult::FailurePastDeadline.code(), Value::Null),
    ] {
        let status = world.status(one.hash());
        let found = [&status["status"], &status["code"], &status["since"], &status["conflict"]];
        assert_eq!(found, [&json!("replaced"), &json!(code), &json!(world.now.0), &conflict]);
    }
}

#[test]
fn a_multisig_transaction_waits_although_its_inner_one_is_confirmed_in_another_as_in_nis1() {
    let mut world = World::new();
    let balance = VestedBalance { height: 1, unvested: 0, vested: Amount::whole(10 * BALANCE).0 };
    let account = Account { first_height: 1, balance, min_cosignatories: 2, ..Account::default() };
    world.scene.put_account_of(address_of(&pair_of(MULTISIG).public()), &account);
    let (now, deadline) = (world.now, Timestamp(world.now.0 + 60));
    let waiting = payment(MULTISIG, 0, now, deadline);
    assert!(world.announce(&waiting).is_ok());
    // The other cosignatory has begun the same.
    let other = signed(COSIGNATORIES[1], now, deadline, waiting.body.clone());
    world.add_block(vec![other.clone()]);
    let words = |world: &mut World| {
        [waiting.hash(), waiting.inner().unwrap().hash(), other.hash()].map(|hash| world.status(hash)["status"].clone())
    };
    assert_eq!(words(&mut world), ["unconfirmed", "confirmed", "confirmed"]);
    world.pass(100);
    assert_eq!(words(&mut world), ["expired", "confirmed", "confirmed"]);
}

/// Accounts that can pay the rent of a namespace.
const TENANTS: [u8; 2] = [30, 31];

/// Returns a world with these accounts, and how each of them rents the same namespace.
fn with_tenants() -> (World, impl Fn(u8) -> Transaction) {
    let world = World::new();
    for name in TENANTS {
        let balance = VestedBalance { height: 1, unvested: 0, vested: Amount::whole(1_000_000).0 };
        let account = Account { first_height: 1, balance, ..Account::default() };
        world.scene.put_account_of(address_of(&pair_of(name).public()), &account);
    }
    let (now, rental_fee_sink) = (world.now, world.scene.network.namespace_sink());
    let rent = move |name: u8| {
        let (new_part, rental_fee) = ("shop".to_owned(), Amount::whole(50_000));
        let body = ProvisionNamespace { rental_fee_sink, rental_fee, new_part, parent: None };
        signed(name, now, Timestamp(now.0 + 3_600), Body::ProvisionNamespace(body))
    };
    (world, rent)
}

#[test]
fn the_search_for_a_conflict_is_charged_and_ends_after_some_transactions() {
    let units = |payments: u64| {
        let (mut world, rent) = with_tenants();
        let deadline = Timestamp(world.now.0 + 60);
        world.add_block(vec![rent(30)]);
        let later = (0..payments).map(|number| payment(31, number, world.now, deadline)).collect();
        world.replace_above(Height(1), vec![vec![rent(31)], later])
    };
    let least = units(0);
    let each = units(1) - least;
    assert!(each > 0);
    assert_eq!(units(20), least + 20 * each);
    assert_eq!(units(60), units(40));
}

#[test]
fn a_rolled_back_rent_of_a_namespace_names_the_rent_of_another_account_that_replaced_it() {
    let (mut world, rent) = with_tenants();
    let now = world.now;
    world.add_block(vec![rent(30)]);
    // The newer payment of the same account in the new blocks does not prevent it.
    world.replace_above(Height(1), vec![vec![rent(31)], vec![payment(30, 0, now, Timestamp(now.0 + 60))]]);
    let status = world.status(rent(30).hash());
    let found = [&status["status"], &status["message"], &status["conflict"]];
    let conflict = json!({"hash": rent(31).hash().to_string(), "height": 2});
    assert_eq!(found, [&json!("replaced"), &json!("FAILURE_NAMESPACE_PROVISION_TOO_EARLY"), &conflict]);
}

#[test]
fn every_end_is_known_over_a_reorg_and_unknown_after_a_restart() {
    let mut world = World::new();
    let (now, soon, late) = (world.now, Timestamp(world.now.0 + 60), Timestamp(world.now.0 + 3_600));
    let confirmed = payment(0, 0, now, late);
    let [unconfirmed, expired, dropped, rejected, replaced, displaced] =
        [(1, late), (2, soon), (3, late), (0, late), (4, late), (5, late)]
            .map(|(name, deadline)| payment(name, 1, now, deadline));
    world.add_block(vec![confirmed.clone()]);
    world.add_block(vec![replaced.clone()]);
    for one in [&unconfirmed, &expired, &dropped] {
        assert!(world.announce(one).is_ok());
    }
    assert!(world.announce(&rejected).is_err());
    world.pass(100);
    // Other payments of the same accounts: one in a block, one in a block that replaces another.
    world.replace_above(Height(2), vec![vec![payment(4, 2, now, late)], vec![payment(3, 2, now, late)]]);
    // The mempool holds more than a block, and prefers higher fees.
    world.scene.network.chain.max_transactions_per_block = 1;
    let displaced = Transaction { fee: Amount(1), signature: None, ..displaced };
    let displaced = Transaction { signature: Some(pair_of(5).sign(&displaced.signed_bytes())), ..displaced };
    assert!(world.announce(&displaced).is_err());

    let all = [&confirmed, &unconfirmed, &expired, &dropped, &rejected, &replaced, &displaced];
    let words = ["confirmed", "unconfirmed", "expired", "rejected", "rejected", "replaced", "evicted"];
    assert_eq!(all.map(|one| world.word(one)), words);
    let blocks: Vec<_> = [3, 4].map(|height| world.scene.block(Height(height)).transactions).into();
    world.replace_above(Height(2), [vec![Vec::new()], blocks].concat());
    assert_eq!(all.map(|one| world.word(one)), words);
    world.now.0 += 50;
    world.restart();
    assert_eq!(all.map(|one| world.word(one)), [&words[..1], &["unknown"; 6]].concat()[..]);
    assert_eq!(world.status(expired.hash())["knownSince"], world.now.0);
    // What is rolled back after the restart is known again.
    world.replace_above(Height(1), vec![Vec::new()]);
    assert_eq!(world.word(&confirmed), "unconfirmed");
}

/// What the oracle knows of a transaction.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    Unknown,
    Pool {
        since: Timestamp,
        signed: usize,
    },
    Chain(Height),
    /// A replaced one may have a conflict with a transaction of a block.
    Ended {
        word: &'static str,
        code: i32,
        since: Timestamp,
        conflict: Option<(Hash256, Height)>,
    },
}

#[derive(Clone, Debug)]
struct Followed {
    transaction: Transaction,
    /// Who pays; none if it is a cosignature.
    payer: Option<u8>,
    known: Known,
    /// It ended after it had been accepted: a later rejection does not change what is told.
    was_accepted: bool,
}

/// A world and a simple oracle: each account can pay once, in the chain or in the mempool.
struct Oracle {
    world: World,
    seed: u64,
    known: Vec<Followed>,
    /// Payments of the multisig account that have both signatures, and their places among all.
    cosigned: BTreeSet<usize>,
    /// When the node was started last.
    restarted: Timestamp,
    /// What was told last, without the number of confirmations.
    statuses: BTreeMap<Hash256, Value>,
}

impl Oracle {
    fn draw(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn end(&mut self, place: usize, word: &'static str, result: ValidationResult, was_accepted: bool) {
        let one = &mut self.known[place];
        // What became of an accepted transaction is told even if it is rejected when it comes again.
        if was_accepted || !one.was_accepted {
            one.known = Known::Ended { word, code: result.code(), since: self.world.now, conflict: None };
        }
        one.was_accepted |= was_accepted;
    }

    fn is_expired(&self, place: usize) -> bool {
        self.known[place].transaction.is_expired(self.world.now)
    }

    /// The place of the payment of an account that is in the chain or in the mempool.
    fn active(&self, name: u8) -> Option<usize> {
        let is_active = |one: &Followed| matches!(one.known, Known::Pool { .. } | Known::Chain(_));
        self.known.iter().position(|one| one.payer == Some(name) && is_active(one))
    }

    fn in_chain(&self, place: usize) -> bool {
        matches!(self.known[place].known, Known::Chain(_))
    }

    fn in_pool(&self, place: usize) -> bool {
        matches!(self.known[place].known, Known::Pool { .. })
    }

    /// Makes a payment, without announcing it.
    fn make(&mut self) -> usize {
        let name = self.draw(ACCOUNTS.into()) as u8;
        let life = [60, 3_600, 40_000][self.draw(3) as usize];
        let deadline = Timestamp(self.world.now.0 + life);
        let transaction = payment(name, self.known.len() as u64, self.world.now, deadline);
        self.known.push(Followed { transaction, payer: Some(name), known: Known::Unknown, was_accepted: false });
        self.known.len() - 1
    }

    fn announce(&mut self, place: usize) {
        let (one, active) = (self.known[place].clone(), self.known[place].payer.map(|name| self.active(name)));
        let is_complete = self.cosigned.contains(&place);
        let result = self.world.announce(&one.transaction);
        let rejected = match result {
            Ok(()) => None,
            Err(Rejection::Result(result)) => Some(result),
            Err(other) => panic!("{other}"),
        };
        let expected = match active {
            _ if self.in_chain(place) || self.in_pool(place) => Some(ValidationResult::Neutral),
            Some(Some(_)) => Some(ValidationResult::FailureInsufficientBalance),
            _ if self.is_expired(place) => Some(ValidationResult::FailurePastDeadline),
            _ => None,
        };
        assert_eq!(rejected, expected, "{:?}", one.known);
        match expected {
            None => {
                let signed = 1 + usize::from(is_complete);
                self.known[place].known = Known::Pool { since: self.world.now, signed };
            }
            Some(ValidationResult::Neutral) => {}
            Some(result) => self.end(place, "rejected", result, false),
        }
    }

    /// Announces the other signature of the payment of the multisig account that waits for it.
    fn cosign(&mut self) {
        let Some(place) = self.active(MULTISIG).filter(|place| self.in_pool(*place)) else { return };
        let result = self.world.announce(&cosignature(&self.known[place].transaction));
        if self.cosigned.insert(place) {
            assert!(result.is_ok());
            let signed = self.world.in_mempool(&self.known[place].transaction.hash()).unwrap();
            self.known[place].transaction = signed;
            let Known::Pool { signed, .. } = &mut self.known[place].known else { unreachable!() };
            *signed = 2;
        } else {
            assert!(matches!(result, Err(Rejection::Result(ValidationResult::Neutral))));
        }
    }

    /// Draws the transactions of a new block, among those that the blocks before it do not prevent.
    fn draw_block(&mut self, height: Height, paid: &mut BTreeMap<u8, usize>) -> Vec<Transaction> {
        let mut block = Vec::new();
        for name in 0..ACCOUNTS {
            let candidates: Vec<usize> =
                (0..self.known.len()).filter(|place| self.known[*place].payer == Some(name)).collect();
            if candidates.is_empty() || paid.contains_key(&name) || self.draw(3) > 0 {
                continue;
            }
            let place = candidates[self.draw(candidates.len() as u64) as usize];
            if name == MULTISIG && !self.cosigned.contains(&place) {
                continue;
            }
            paid.insert(name, place);
            block.push(self.known[place].transaction.clone());
            self.known[place].known = Known::Chain(height);
        }
        block
    }

    /// Replaces this number of blocks by one more.
    fn reorg(&mut self, depth: u64) {
        let tip = self.world.height();
        let common = Height(tip.0 - depth.min(tip.0 - 1));
        let chain = (0..self.known.len()).filter(|place| self.in_chain(*place));
        let (undone, kept): (Vec<_>, Vec<_>) =
            chain.partition(|place| matches!(self.known[*place].known, Known::Chain(height) if height > common));
        let pool: Vec<_> = (0..self.known.len()).filter(|place| self.in_pool(*place)).collect();
        let mut paid: BTreeMap<u8, usize> =
            kept.iter().map(|place| (self.known[*place].payer.unwrap(), *place)).collect();
        let mut blocks = Vec::new();
        for number in 1..=tip.0 - common.0 + 1 {
            blocks.push(self.draw_block(Height(common.0 + number), &mut paid));
        }
        let now = self.world.now;
        for (place, is_returned) in
            pool.into_iter().map(|place| (place, false)).chain(undone.iter().map(|place| (*place, true)))
        {
            let name = self.known[place].payer.unwrap();
            let word = if is_returned { "replaced" } else { "rejected" };
            match paid.get(&name) {
                Some(other) if *other == place => {}
                Some(other) => {
                    self.end(place, word, ValidationResult::FailureInsufficientBalance, true);
                    let Known::Chain(height) = self.known[*other].known else { unreachable!() };
                    let by = self.known[*other].transaction.hash();
                    if let Known::Ended { conflict, .. } = &mut self.known[place].known {
                        *conflict = Some((by, height)).filter(|_| is_returned);
                    }
                }
                None if self.is_expired(place) => self.end(place, word, ValidationResult::FailurePastDeadline, true),
                None if is_returned => {
                    let signed = 1 + usize::from(self.cosigned.contains(&place));
                    self.known[place].known = Known::Pool { since: now, signed };
                }
                None => {}
            }
        }
        self.world.replace_above(common, blocks);
    }

    fn pass(&mut self, seconds: i32) {
        self.world.pass(seconds);
        for place in 0..self.known.len() {
            if self.in_pool(place) && self.is_expired(place) {
                self.end(place, "expired", ValidationResult::FailurePastDeadline, true);
            }
        }
    }

    fn restart(&mut self) {
        self.world.restart();
        // Nobody stays connected.
        self.statuses.clear();
        self.restarted = self.world.now;
        for one in &mut self.known {
            one.was_accepted = false;
            if !matches!(one.known, Known::Chain(_)) {
                one.known = Known::Unknown;
            }
        }
    }

    fn step(&mut self) {
        match self.draw(16) {
            0..4 => {
                let place = self.make();
                self.announce(place);
            }
            // Known to others only, until a block has it.
            4 => drop(self.make()),
            5 | 6 if !self.known.is_empty() => {
                let place = self.draw(self.known.len() as u64) as usize;
                self.announce(place);
            }
            7 | 8 => self.cosign(),
            9 => self.reorg(0),
            10 | 11 => {
                let depth = self.draw(4);
                self.reorg(depth);
            }
            12..15 => {
                let seconds = self.draw(900) as i32;
                self.pass(seconds);
            }
            _ if self.draw(3) == 0 => self.restart(),
            _ => {}
        }
    }

    /// Compares what the node tells of every transaction with what the oracle knows. Every change must have been told.
    fn check(&mut self) {
        let mut told = std::mem::take(&mut self.world.told);
        told.extend(std::mem::take(&mut self.world.node.mempool.fates.changed));
        let tip = self.world.height();
        for place in 0..self.known.len() {
            let Followed { transaction, known, was_accepted, .. } = self.known[place].clone();
            let hashes = transaction.hashes();
            // The inner hash of a transaction that was never accepted is not known.
            let is_shared = was_accepted || !matches!(known, Known::Ended { .. });
            for hash in hashes.all().take(if is_shared { usize::MAX } else { 1 }) {
                let status = self.world.status(*hash);
                let mut expected = match &known {
                    Known::Unknown => json!({"status": "unknown", "knownSince": self.restarted.0}),
                    Known::Pool { since, .. } => {
                        json!({"status": "unconfirmed", "since": since.0, "deadline": transaction.deadline.0})
                    }
                    Known::Chain(height) => {
                        let block = self.world.scene.block(*height);
                        let index = block.transactions.iter().position(|one| one.hash() == hashes.own).unwrap();
                        let (block, confirmations) = (block.hash().to_string(), tip.0 - height.0 + 1);
                        json!({"status": "confirmed", "height": height.0, "index": index, "blockHash": block,
                               "confirmations": confirmations})
                    }
                    Known::Ended { word, code, since, conflict } => {
                        let result = ValidationResult::from_code(*code).unwrap();
                        let mut ended = json!({"status": word, "since": since.0, "code": code, "message": result.name(),
                                               "reason": result.explanation()});
                        if let Some((by, height)) = conflict {
                            ended["conflict"] = json!({"hash": by.to_string(), "height": height.0});
                        }
                        ended
                    }
                };
                expected["hash"] = json!(hash.to_string());
                if let (Known::Pool { signed, .. }, Some(_)) = (&known, transaction.inner()) {
                    let mut names = COSIGNATORIES.map(|name| address_of(&pair_of(name).public()));
                    let first = names[0];
                    names.sort_unstable();
                    let (has, lacks): (Vec<_>, Vec<_>) = names.iter().partition(|name| **name == first || *signed == 2);
                    let list = |names: Vec<_>| -> Vec<_> {
                        names
                            .into_iter()
                            .map(|name: &crate::model::Address| json!({"address": name.as_str()}))
                            .collect()
                    };
                    expected["multisig"] = json!({"signed": list(has), "missing": list(lacks), "required": 2});
                }
                assert_eq!(status, expected, "{place} {known:?}");
                expected["confirmations"] = Value::Null;
                let before = self.statuses.insert(*hash, expected.clone());
                let is_same = before.is_none_or(|before| before == expected);
                assert!(is_same || told.contains(hash), "{place} {known:?} is not published");
            }
        }
    }
}

#[test]
fn the_status_of_every_transaction_agrees_with_an_oracle_over_random_histories() {
    let mut seen = BTreeSet::new();
    for seed in 0..8 {
        let world = World::new();
        let restarted = world.now;
        let mut oracle =
            Oracle { world, seed, known: Vec::new(), cosigned: BTreeSet::new(), restarted, statuses: BTreeMap::new() };
        for _ in 0..80 {
            oracle.step();
            oracle.check();
            seen.extend(oracle.known.iter().map(|one| match one.known {
                Known::Unknown => ("unknown", 0),
                Known::Pool { signed, .. } => ("unconfirmed", signed as i32),
                Known::Chain(_) => ("confirmed", 0),
                Known::Ended { word, code, .. } => (word, code),
            }));
        }
    }
    let (late, poor) =
        (ValidationResult::FailurePastDeadline.code(), ValidationResult::FailureInsufficientBalance.code());
    let ends = ["rejected", "replaced"].into_iter().flat_map(|word| [(word, late), (word, poor)]);
    let others = [("unknown", 0), ("unconfirmed", 1), ("unconfirmed", 2), ("confirmed", 0), ("expired", late)];
    assert_eq!(seen, ends.chain(others).collect(), "the histories have all of them");
}
