//! Tests of the mempool.

use std::collections::BTreeSet;
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::budget::Budget;
use crate::crypto::{KeyPair, PrivateKey, PublicKey};
use crate::model::network::test_network;
use crate::model::transaction::{Cosignature, Multisig, Transfer, wire_version};
use crate::model::{Address, Amount, Body, Height, Network, NetworkByte};
use crate::rules::{Rejection, RuleResult, ValidationResult};
use crate::state::{Account, VestedBalance, put_account};
use crate::store::{Store, Table, Write, test_store};

const BYTE: NetworkByte = NetworkByte::TESTNET;
const NOW: Timestamp = Timestamp(100_000);
const FEE: Amount = Amount(150_000);
/// Accounts with funds. The last one is a multisig account of the first two.
const NAMES: [u8; 4] = [1, 2, 3, MULTISIG];
const MULTISIG: u8 = 4;

fn pair(name: u8) -> KeyPair {
    KeyPair::new(&PrivateKey::from_seed(&[name; 32]))
}

fn address(name: u8) -> Address {
    Address::from_public_key(&pair(name).public(), BYTE)
}

fn unsigned(signer: u8, body: Body) -> Transaction {
    let deadline = Timestamp(NOW.0 + 3600);
    let (version, signer) = (wire_version(BYTE, 1), pair(signer).public());
    Transaction { version, timestamp: NOW, signer, signature: None, fee: FEE, deadline, body }
}

fn signed(signer: u8, body: Body) -> Transaction {
    let mut transaction = unsigned(signer, body);
    transaction.signature = Some(pair(signer).sign(&transaction.signed_bytes()));
    transaction
}

fn transfer(units: u64) -> Body {
    Body::Transfer(Transfer { recipient: address(3), amount: Amount::whole(units), message: None, mosaics: Vec::new() })
}

fn payment(signer: u8, units: u64) -> Transaction {
    signed(signer, transfer(units))
}

/// The same with a given fee in micro XEM.
fn paying(signer: u8, units: u64, fee: u64) -> Transaction {
    let mut transaction = payment(signer, units);
    transaction.fee = Amount(fee);
    transaction.signature = Some(pair(signer).sign(&transaction.signed_bytes()));
    transaction
}

/// A multisig transaction initiated by the first cosignatory.
fn multisig() -> Transaction {
    multisig_of(1)
}

/// The same with a given initiator.
fn multisig_of(initiator: u8) -> Transaction {
    let inner = unsigned(MULTISIG, transfer(1));
    signed(initiator, Body::Multisig(Box::new(Multisig { inner, cosignatures: Vec::new() })))
}

fn cosignature(signer: u8, multisig: &Transaction) -> Transaction {
    let other_hash = multisig.inner().unwrap().hash().into();
    signed(signer, Body::Cosignature(Cosignature { other_hash, other_account: address(MULTISIG) }))
}

/// A mempool on a chain.
struct Scene {
    network: Network,
    store: Store,
    pool: Mempool,
    _folder: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let network = test_network(BYTE, address(255));
        let (store, folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        for name in NAMES {
            let balance = VestedBalance { height: 1, unvested: 0, vested: Amount::whole(100).0 };
            let account = Account { first_height: 1, balance, min_cosignatories: 2, ..Account::default() };
            put_account(&mut batch, &address(name), &account).unwrap();
        }
        for cosignatory in [1, 2] {
            let pair = |a: u8, b: u8| [address(a).as_bytes().as_slice(), address(b).as_bytes()].concat();
            batch.put(Table::Cosignatories, &pair(MULTISIG, cosignatory), &[]).unwrap();
            batch.put(Table::CosignatoryOf, &pair(cosignatory, MULTISIG), &[]).unwrap();
        }
        batch.commit().unwrap();
        Scene { network, store, pool: Mempool::default(), _folder: folder }
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Mempool, &ChainSnapshot<'_>) -> T) -> T {
        let snapshot = self.store.snapshot().unwrap();
        let confirmed = ChainSnapshot { snapshot: &snapshot, network: &self.network, height: Height(1000), now: NOW };
        act(&mut self.pool, &confirmed)
    }

    fn announce(&mut self, transaction: &Transaction) -> RuleResult {
        self.with(|pool, confirmed| pool.announce(transaction.clone(), confirmed).map(drop))
    }

    /// Adds a transaction as received from a peer's mempool.
    fn add_remote(&mut self, transaction: &Transaction) -> RuleResult {
        self.with(|pool, confirmed| pool.add(transaction.clone(), confirmed).map(drop))
    }

    fn work(&mut self) {
        self.with(|pool, confirmed| pool.step_rebuild(confirmed, &mut Budget::new(0))).unwrap();
    }

    /// Replaces a cosignatory by another account, as a block does.
    fn replace_cosignatory(&self, gone: u8, new: u8) {
        let pair = |a: u8, b: u8| [address(a).as_bytes().as_slice(), address(b).as_bytes()].concat();
        let mut batch = self.store.begin_write().unwrap();
        for (table, gone, new) in [
            (Table::Cosignatories, pair(MULTISIG, gone), pair(MULTISIG, new)),
            (Table::CosignatoryOf, pair(gone, MULTISIG), pair(new, MULTISIG)),
        ] {
            batch.delete(table, &gone).unwrap();
            batch.put(table, &new, &[]).unwrap();
        }
        batch.commit().unwrap();
    }

    /// Returns what else is to be published.
    fn changes(&mut self) -> Vec<(Hash256, MempoolEvent)> {
        self.pool.newly_changed.drain(..).map(|(entry, event)| (entry.hashes.own, event)).collect()
    }

    /// Completes pending work and returns the transactions to publish.
    fn published(&mut self) -> Vec<Transaction> {
        while self.pool.is_rebuilding() {
            self.work();
        }
        std::iter::from_fn(|| self.pool.newly_accepted.pop_front()).map(Rc::unwrap_or_clone).collect()
    }
}

fn hashes(transactions: &[&Transaction]) -> BTreeSet<Hash256> {
    transactions.iter().map(|transaction| transaction.hash()).collect()
}

#[test]
fn a_cosignature_is_published_by_itself_and_its_multisig_transaction_unchanged() {
    let mut scene = Scene::new();
    let begun = multisig();
    let agreed = cosignature(2, &begun);
    for transaction in [&begun, &agreed] {
        assert!(scene.announce(transaction).is_ok());
        assert!(scene.announce(transaction).is_err());
    }
    assert_eq!(scene.published(), [begun.clone(), agreed.clone()]);
    let held = scene.pool.in_fee_order();
    assert_eq!((held.len(), held[0].cosignatures()), (1, &[agreed][..]));
    assert_eq!(scene.published(), []);
}

#[test]
fn transactions_from_peers_are_published_like_announced_ones() {
    let mut scene = Scene::new();
    let begun = multisig();
    let agreed = cosignature(2, &begun);
    let offered = [payment(1, 1), begun, agreed];
    for transaction in offered.clone() {
        assert!(scene.add_remote(&transaction).is_ok());
    }
    assert_eq!(scene.published(), offered);
}

#[test]
fn a_forged_copy_does_not_block_the_genuine_transaction() {
    let mut scene = Scene::new();
    let genuine = payment(1, 1);
    let mut forged = genuine.clone();
    forged.signature = payment(1, 2).signature;
    assert_eq!(forged.hash(), genuine.hash());
    let refused = |verdict| match verdict {
        Err(Rejection::Result(result)) => Some(result),
        _ => None,
    };
    let bad = Some(ValidationResult::FailureSignatureNotVerifiable);
    assert_eq!(refused(scene.announce(&forged)), bad);
    assert_eq!(refused(scene.announce(&forged)), bad, "the same bytes are answered from memory");
    assert!(scene.announce(&genuine).is_ok());
    assert_eq!(refused(scene.announce(&genuine)), Some(ValidationResult::Neutral));
    assert_eq!(refused(scene.announce(&forged)), bad);
    assert_eq!(scene.published(), [genuine]);
}

#[test]
fn a_copy_with_a_wrong_cosignature_does_not_block_the_genuine_multisig_transaction() {
    let mut scene = Scene::new();
    let (genuine, mut agreed) = (multisig(), cosignature(2, &multisig()));
    agreed.signature = cosignature(1, &multisig()).signature;
    let mut forged = genuine.clone();
    let Body::Multisig(body) = &mut forged.body else { unreachable!() };
    body.cosignatures.push(agreed);
    assert_eq!(forged.hash(), genuine.hash());
    assert!(scene.announce(&forged).is_err() && scene.announce(&genuine).is_ok());
}

#[test]
fn a_forged_copy_before_the_boot_does_not_block_the_genuine_transaction() {
    let mut scene = Scene::new();
    let genuine = payment(1, 1);
    let forged = Transaction { signature: payment(1, 2).signature, ..genuine.clone() };
    let mut note = |one: &Transaction| scene.with(|pool, _| pool.result_before_join(one));
    assert_eq!([note(&forged), note(&genuine)], [None, None]);
    assert_eq!(note(&genuine), Some(ValidationResult::Neutral));
}

#[test]
fn rebuilding_the_mempool_publishes_nothing() {
    let mut scene = Scene::new();
    let (kept, confirmed) = (payment(1, 1), payment(2, 1));
    assert!(scene.announce(&kept).is_ok() && scene.announce(&confirmed).is_ok());
    assert_eq!(scene.published().len(), 2);
    scene.pool.chain_changed(Height(1000), hashes(&[&confirmed]), Vec::new());
    assert_eq!(scene.published(), []);
    assert_eq!(scene.pool.in_fee_order(), [Rc::new(kept)]);
}

#[test]
fn a_rolled_back_transaction_is_published_once() {
    let mut scene = Scene::new();
    let returned = [payment(1, 1), payment(2, 1)];
    scene.pool.chain_changed(Height(1000), BTreeSet::new(), returned.to_vec());
    scene.work();
    scene.pool.chain_changed(Height(1000), BTreeSet::new(), Vec::new());
    assert_eq!(scene.published(), returned);
    assert_eq!(scene.pool.len(), 2);
}

#[test]
fn a_rolled_back_payment_that_spends_what_another_one_paid_returns_whatever_their_order() {
    let mut scene = Scene::new();
    // Blocks are rolled back from the highest one down.
    let (spending, paid, impossible) = (payment(3, 120), payment(1, 50), payment(2, 1_000));
    let returned = vec![impossible.clone(), spending.clone(), paid.clone()];
    scene.pool.chain_changed(Height(1000), BTreeSet::new(), returned);
    assert_eq!(scene.published(), [paid, spending]);
    assert!(matches!(fate(&scene, &impossible), Some(Fate::Replaced(..))));
}

#[test]
fn what_waits_on_top_of_a_rolled_back_payment_stays_with_it() {
    let mut scene = Scene::new();
    let fund = |scene: &Scene, name: u8, units: u64| {
        let mut batch = scene.store.begin_write().unwrap();
        let balance = VestedBalance { height: 1, unvested: 0, vested: Amount::whole(units).0 };
        put_account(&mut batch, &address(name), &Account { first_height: 1, balance, ..Account::default() }).unwrap();
        batch.commit().unwrap();
    };
    let (paid, spending, too_much) = (payment(1, 50), payment(3, 120), payment(2, 90));
    fund(&scene, 3, 150);
    assert!(scene.announce(&spending).is_ok() && scene.announce(&too_much).is_ok());
    let id = scene.pool.by_hash(&spending.hash()).unwrap().id;
    assert_eq!(scene.published().len(), 2);
    // The block with the payment is replaced, and what another account has paid remains.
    fund(&scene, 3, 100);
    fund(&scene, 2, 10);
    scene.pool.chain_changed(Height(999), BTreeSet::new(), vec![paid.clone()]);
    scene.work();
    assert!(scene.pool.by_hash(&spending.hash()).is_some(), "it is found until it is decided");
    // The next change of the chain comes before it is tried again.
    scene.work();
    scene.work();
    scene.pool.chain_changed(Height(1000), BTreeSet::new(), Vec::new());
    assert_eq!(scene.published(), std::slice::from_ref(&paid), "what stays is not published again");
    assert_eq!(scene.pool.by_hash(&spending.hash()).map(|entry| entry.id), Some(id));
    let rejected = Some(Fate::Rejected(ValidationResult::FailureInsufficientBalance));
    assert_eq!([&paid, &spending, &too_much].map(|one| fate(&scene, one)), [None, None, rejected]);
    let left: Vec<_> = scene.pool.newly_changed.iter().map(|(entry, _)| entry.hashes.own).collect();
    assert_eq!(left, [too_much.hash()]);
}

#[test]
fn what_a_rebuild_was_about_to_try_again_is_tried_after_the_next_change_of_the_chain() {
    let mut scene = Scene::new();
    let (spending, paid, confirmed) = (payment(3, 120), payment(1, 50), payment(2, 1_000));
    let returned = vec![confirmed.clone(), spending.clone()];
    scene.pool.chain_changed(Height(1000), BTreeSet::new(), returned);
    scene.work();
    scene.work();
    scene.pool.chain_changed(Height(1000), hashes(&[&confirmed]), vec![paid.clone()]);
    assert_eq!(scene.published(), [paid, spending]);
    assert_eq!(fate(&scene, &confirmed), None);
}

#[test]
fn a_rolled_back_transaction_that_is_confirmed_again_does_not_return_to_the_mempool() {
    let mut scene = Scene::new();
    let [back, still_out, gone] = [payment(1, 1), payment(2, 1), payment(3, 1)];
    scene.pool.chain_changed(Height(1000), BTreeSet::new(), vec![gone.clone(), back.clone(), still_out.clone()]);
    scene.work();
    scene.pool.chain_changed(Height(1000), hashes(&[&gone, &still_out]), Vec::new());
    assert_eq!(scene.published(), [gone, back.clone()]);
    assert_eq!(scene.pool.in_fee_order(), [Rc::new(back)]);
}

fn is_rejected_with(result: ValidationResult, verdict: &RuleResult) -> bool {
    matches!(verdict, Err(Rejection::Result(found)) if *found == result)
}

#[test]
fn the_spam_filter_applies_once_the_mempool_holds_one_block() {
    let mut scene = Scene::new();
    scene.network.chain.max_transactions_per_block = 2;
    assert!(scene.add_remote(&payment(1, 1)).is_ok() && scene.add_remote(&payment(1, 2)).is_ok());
    // With two transactions, 0.74 * 1,800 times the fee in thousands of XEM are allowed: none, two and three.
    for refused in [payment(2, 1), payment(1, 3), paying(1, 3, 1_600_000)] {
        assert!(is_rejected_with(ValidationResult::FailureTransactionCacheTooFull, &scene.add_remote(&refused)));
    }
    assert!(scene.add_remote(&paying(1, 3, 2_500_000)).is_ok());
    assert!(scene.add_remote(&paying(2, 3, 1_600_000)).is_ok());
    // Multisig transactions are counted separately.
    assert!(scene.add_remote(&multisig()).is_ok());
    assert_eq!(scene.pool.len(), 5);
}

#[test]
fn inner_transactions_and_cosignatures_in_the_mempool_are_neutral_when_repeated() {
    let mut scene = Scene::new();
    let begun = multisig();
    let agreed = cosignature(2, &begun);
    assert!(scene.add_remote(&begun).is_ok() && scene.add_remote(&agreed).is_ok());
    // The same inner transaction, initiated by the other cosignatory; and the cosignature once more.
    for known in [multisig_of(2), agreed] {
        assert!(is_rejected_with(ValidationResult::Neutral, &scene.add_remote(&known)));
    }
    assert_eq!(scene.pool.len(), 1);
}

#[test]
fn a_surplus_cosignature_is_valid_as_in_nis1_but_kept_nowhere() {
    let mut scene = Scene::new();
    let begun = multisig();
    let (agreed, dearer) = (cosignature(2, &begun), {
        let mut dearer = cosignature(2, &begun);
        dearer.fee = Amount(FEE.0 + 1);
        dearer.signature = Some(pair(2).sign(&dearer.signed_bytes()));
        dearer
    });
    for transaction in [&begun, &agreed] {
        assert!(scene.add_remote(transaction).is_ok());
    }
    let (bytes, published) = (scene.pool.bytes(), scene.published().len());
    for _ in 0..2 {
        assert!(scene.add_remote(&dearer).is_ok());
    }
    assert_eq!((scene.pool.bytes(), published, scene.published().len()), (bytes, 2, 0));
    assert_eq!(scene.pool.in_fee_order()[0].cosignatures(), std::slice::from_ref(&agreed));
    // It is known at once that this signature will not be confirmed, and remains known over a rebuild.
    for _ in 0..2 {
        let no_use = Some(Fate::Rejected(ValidationResult::FailureMultisigNoMatchingMultisig));
        assert_eq!([&begun, &agreed, &dearer].map(|one| fate(&scene, one)), [None, None, no_use]);
        assert!(scene.pool.by_hash(&dearer.hash()).is_none() && scene.pool.by_hash(&agreed.hash()).is_some());
        scene.pool.chain_changed(Height(1000), BTreeSet::new(), Vec::new());
        scene.published();
    }
}

/// A multisig transaction with the cosignatures of accounts attached.
fn with_cosignatures(begun: &Transaction, signers: &[u8]) -> Transaction {
    let mut complete = begun.clone();
    let Body::Multisig(body) = &mut complete.body else { unreachable!() };
    body.cosignatures = signers.iter().map(|signer| cosignature(*signer, begun)).collect();
    complete
}

#[test]
fn attached_cosignatures_count_only_as_long_as_their_signers_are_cosignatories() {
    let mut scene = Scene::new();
    let begun = multisig();
    // Those of strangers are validated, as by NIS1, and dropped.
    assert_eq!(scene.announce(&with_cosignatures(&begun, &[2, 3, 5])).map_err(|error| format!("{error:?}")), Ok(()));
    let held = |scene: &Scene| scene.pool.in_fee_order().iter().map(|one| (**one).clone()).collect::<Vec<_>>();
    assert_eq!(held(&scene), [with_cosignatures(&begun, &[2])]);
    assert!(scene.pool.by_hash(&cosignature(2, &begun).hash()).is_some());
    assert!(scene.pool.by_hash(&cosignature(3, &begun).hash()).is_none());
    scene.pool.fates.changed.clear();
    scene.replace_cosignatory(2, 3);
    scene.pool.chain_changed(Height(1000), BTreeSet::new(), Vec::new());
    scene.published();
    assert_eq!(held(&scene), std::slice::from_ref(&begun));
    assert_eq!(scene.changes(), [(begun.hash(), MempoolEvent::Cosigned)]);
    let changed: BTreeSet<Hash256> = scene.pool.fates.changed.iter().copied().collect();
    assert!(begun.hashes().all().chain([&cosignature(2, &begun).hash()]).all(|hash| changed.contains(hash)));
    let lost = Some(Fate::Rejected(ValidationResult::FailureMultisigNoMatchingMultisig));
    assert_eq!([fate(&scene, &begun), fate(&scene, &cosignature(2, &begun))], [None, lost]);
    assert!(scene.pool.by_hash(&cosignature(2, &begun).hash()).is_none());
    assert!(scene.announce(&cosignature(3, &begun)).is_ok());
    assert_eq!(held(&scene), [with_cosignatures(&begun, &[3])]);
    // Whoever was a cosignatory while it waited learns of its end.
    scene.pool.drop_expired(Timestamp(NOW.0 + 4_000));
    let told: BTreeSet<Address> = scene.pool.newly_changed.pop_back().unwrap().0.cosignatories.into_iter().collect();
    assert_eq!(told, [1, 2, 3].map(address).into());
}

#[test]
fn a_block_that_changes_who_must_sign_is_told_once_whatever_restarts_the_rebuild() {
    let mut scene = Scene::new();
    let (begun, other) = (multisig(), payment(1, 1));
    // It returns from a replaced block, and the rebuild restarts.
    assert!(scene.announce(&other).is_ok());
    scene.pool.chain_changed(Height(999), BTreeSet::new(), vec![begun.clone()]);
    (0..2).for_each(|_| scene.work());
    let rebuild = |scene: &mut Scene| {
        scene.pool.chain_changed(Height(1000), BTreeSet::new(), Vec::new());
        scene.published();
    };
    rebuild(&mut scene);
    assert!(scene.pool.by_hash(&begun.hash()).is_some());
    assert_eq!(scene.changes(), []);
    // Another account must sign, or another number of them.
    scene.replace_cosignatory(2, 3);
    scene.pool.chain_changed(Height(1000), BTreeSet::new(), Vec::new());
    (0..2).for_each(|_| scene.work());
    rebuild(&mut scene);
    assert_eq!(scene.changes(), [(begun.hash(), MempoolEvent::Cosigned)]);
    let mut batch = scene.store.begin_write().unwrap();
    let account = crate::state::account(&batch, &address(MULTISIG)).unwrap();
    put_account(&mut batch, &address(MULTISIG), &Account { min_cosignatories: 1, ..account }).unwrap();
    batch.commit().unwrap();
    rebuild(&mut scene);
    assert_eq!(scene.changes(), [(begun.hash(), MempoolEvent::Cosigned)]);
    rebuild(&mut scene);
    assert_eq!(scene.changes(), []);
    // A block confirms it.
    scene.pool.chain_changed(Height(1000), [begun.hash()].into(), Vec::new());
    scene.published();
    assert_eq!(scene.changes(), [(begun.hash(), MempoolEvent::Confirmed)]);
}

#[test]
fn only_some_former_cosignatories_are_remembered() {
    let scene = Scene::new();
    let mut entry = MempoolEntry::new(multisig(), BYTE, NOW);
    entry.cosignatories = (100..200).map(address).collect();
    let snapshot = scene.store.snapshot().unwrap();
    let chain = ChainSnapshot { snapshot: &snapshot, network: &scene.network, height: Height(1000), now: NOW };
    entry.look_up_cosignatories(&chain).unwrap();
    assert_eq!(entry.cosignatories.len(), 2 + MAX_FORMER_COSIGNATORIES);
    assert!([1, 2, 100].map(address).iter().all(|one| entry.cosignatories.contains(one)));
}

#[test]
fn a_cosignature_without_which_its_transaction_is_confirmed_is_rejected() {
    let begun = multisig();
    let agreed = cosignature(2, &begun);
    for is_waiting in [true, false] {
        let mut scene = Scene::new();
        if is_waiting {
            assert!(scene.announce(&begun).is_ok() && scene.announce(&agreed).is_ok());
        } else {
            scene.pool.cosignatures_may_be_lost(vec![agreed.hash()]);
        }
        scene.pool.fates.changed.clear();
        scene.pool.chain_changed(Height(1000), hashes(&[&begun]), Vec::new());
        scene.published();
        let lost = Some(Fate::Rejected(ValidationResult::FailureMultisigNoMatchingMultisig));
        assert_eq!([fate(&scene, &begun), fate(&scene, &agreed)], [None, lost]);
        assert_eq!(scene.pool.fates.changed, [agreed.hash()]);
        assert!(!scene.pool.has_work());
    }
}

#[test]
fn only_the_cosignatures_that_count_are_verified() {
    let mut scene = Scene::new();
    let begun = multisig();
    let mut crowded = with_cosignatures(&begun, &[2]);
    let Body::Multisig(body) = &mut crowded.body else { unreachable!() };
    // As many as a block can contain with the transaction itself and the inner one.
    let most = scene.network.chain.max_transactions_per_block as usize - 2;
    let forged = |number: u8| Transaction { signer: PublicKey([number; 32]), ..cosignature(2, &begun) };
    body.cosignatures.extend((1..most).map(|number| forged(number as u8)));
    let too_crowded = {
        let mut more = crowded.clone();
        let Body::Multisig(body) = &mut more.body else { unreachable!() };
        body.cosignatures.push(forged(255));
        more
    };
    for is_remote in [true, false] {
        let result = if is_remote { scene.add_remote(&too_crowded) } else { scene.announce(&too_crowded) };
        assert!(is_rejected_with(ValidationResult::FailureTooManyTransactions, &result), "{result:?}");
    }
    assert_eq!((scene.pool.checked_signatures(), fate(&scene, &begun)), (0, None));
    assert!(scene.add_remote(&crowded).is_ok());
    assert_eq!(scene.pool.checked_signatures(), 2);
    assert_eq!(*scene.pool.in_fee_order()[0], with_cosignatures(&begun, &[2]));
}

#[test]
fn a_transaction_that_a_fast_clock_has_rejected_is_accepted_once_the_clock_is_right() {
    let mut scene = Scene::new();
    let (payment, now) = (payment(1, 1), NOW);
    let snapshot = scene.store.snapshot().unwrap();
    let mut announce = |now| {
        let confirmed = ChainSnapshot { snapshot: &snapshot, network: &scene.network, height: Height(1000), now };
        scene.pool.announce(payment.clone(), &confirmed).map(drop)
    };
    let late = announce(Timestamp(now.0 + 90_000));
    assert!(is_rejected_with(ValidationResult::FailurePastDeadline, &late));
    assert!(announce(now).is_ok());
}

#[test]
fn accepted_transactions_outlast_a_clock_that_is_wrong_for_a_while() {
    for jump in [90_000, -90_000] {
        let mut scene = Scene::new();
        let begun = multisig();
        assert!(scene.announce(&payment(1, 1)).is_ok() && scene.announce(&begun).is_ok());
        assert!(scene.announce(&cosignature(2, &begun)).is_ok());
        scene.pool.clock_jumped(i64::from(jump) * 1000);
        let snapshot = scene.store.snapshot().unwrap();
        let (network, now) = (&scene.network, Timestamp(NOW.0 + jump));
        let confirmed = ChainSnapshot { snapshot: &snapshot, network, height: Height(1000), now };
        let pass = |pool: &mut Mempool, seconds| {
            pool.tick(now, Duration::from_secs(seconds));
            pool.chain_changed(Height(1000), BTreeSet::new(), vec![payment(1, 2)]);
            pool.work(&confirmed, &mut Budget::new(u32::MAX)).unwrap();
        };
        pass(&mut scene.pool, 10);
        assert_eq!(scene.pool.len(), 3, "also one that a reorg returns");
        assert_eq!(scene.pool.by_hash(&begun.hash()).unwrap().transaction.cosignatures().len(), 1);
        // The time is right after all.
        scene.pool.is_clock_disputed = false;
        pass(&mut scene.pool, 20);
        assert!(scene.pool.is_empty());
    }
}

#[test]
fn a_transaction_of_the_future_is_tried_again_and_a_clock_that_is_set_changes_no_memory() {
    let mut scene = Scene::new();
    let future = ValidationResult::FailureTimestampTooFarInFuture;
    let early = payment(1, 1);
    let mut announce = |uptime: u64, now: i32| {
        let snapshot = scene.store.snapshot().unwrap();
        let (network, now) = (&scene.network, Timestamp(now));
        let confirmed = ChainSnapshot { snapshot: &snapshot, network, height: Height(1000), now };
        scene.pool.tick(now, Duration::from_secs(uptime));
        scene.pool.announce(early.clone(), &confirmed).map(drop)
    };
    let time = early.timestamp.0;
    assert!((0..2).all(|_| is_rejected_with(future, &announce(1, time - 11))));
    assert!(announce(2, time).is_ok());
    // It is remembered for ten minutes, whatever the clock says.
    assert!(is_rejected_with(ValidationResult::Neutral, &announce(601, time - 5_000)));
    assert!(!is_rejected_with(ValidationResult::FailurePastDeadline, &announce(601, time + 90_000)));
    assert!(is_rejected_with(ValidationResult::FailurePastDeadline, &announce(700, time + 90_000)));
}

#[test]
fn a_rolled_back_transaction_that_cannot_return_names_the_one_of_the_mempool_that_prevents_it() {
    let mut scene = Scene::new();
    let (poor, spending, other) = (payment(1, 60), payment(1, 50), multisig_of(2));
    // Around the same inner transaction.
    let same = multisig();
    assert!(scene.announce(&other).is_ok() && scene.announce(&spending).is_ok());
    let unpaid = payment(3, 1_000);
    scene.pool.chain_changed(Height(999), BTreeSet::new(), vec![poor.clone(), same.clone(), unpaid.clone()]);
    assert_eq!(scene.published(), [other.clone(), spending.clone()], "those that arrived before");
    let found = |one: &Transaction| scene.pool.fates.get(&one.hash(), NOW).map(|record| record.fate);
    let by = |prevents: &Transaction| Some(Conflict { hash: prevents.hash(), height: None });
    use ValidationResult::{FailureInsufficientBalance, Neutral};
    assert_eq!(found(&poor), Some(Fate::Replaced(FailureInsufficientBalance, by(&spending))));
    assert_eq!(found(&same), Some(Fate::Replaced(Neutral, by(&other))));
    assert_eq!(found(&unpaid), Some(Fate::Replaced(FailureInsufficientBalance, None)));
    assert_eq!(scene.pool.len(), 2);
}

#[test]
fn a_transaction_that_a_rebuild_cannot_validate_is_rejected_and_does_not_vanish() {
    let mut scene = Scene::new();
    let unknown = |signer: u8| {
        let quantity = crate::model::Mosaic { id: crate::model::MosaicId::parse("no:such").unwrap(), quantity: 1 };
        let Body::Transfer(body) = transfer(1) else { unreachable!() };
        let mut transaction = unsigned(signer, Body::Transfer(Transfer { mosaics: vec![quantity], ..body }));
        transaction.version = wire_version(BYTE, 2);
        transaction.signature = Some(pair(signer).sign(&transaction.signed_bytes()));
        transaction
    };
    let (waiting, returned) = (unknown(1), unknown(2));
    assert!(matches!(scene.announce(&returned), Err(Rejection::Exception(_))));
    scene.pool.add_unchecked(waiting.clone(), BYTE);
    scene.pool.chain_changed(Height(999), BTreeSet::new(), vec![returned.clone()]);
    assert_eq!(scene.published(), []);
    let unknown = ValidationResult::FailureUnknown;
    assert_eq!(fate(&scene, &waiting), Some(Fate::Rejected(unknown)));
    assert_eq!(fate(&scene, &returned), Some(Fate::Replaced(unknown, None)));
    assert_eq!((scene.pool.len(), scene.pool.newly_changed.len()), (0, 2));
}

/// What became of a transaction, by all its hashes.
fn fate(scene: &Scene, transaction: &Transaction) -> Option<Fate> {
    let hashes = transaction.hashes();
    let fates: BTreeSet<_> = hashes.all().map(|hash| format!("{:?}", scene.pool.fates.get(hash, NOW))).collect();
    assert_eq!(fates.len(), 1, "all its hashes have the same: {fates:?}");
    scene.pool.fates.get(&hashes.own, NOW).map(|record| record.fate)
}

#[test]
fn the_fate_of_a_rejected_transaction_is_its_result_unless_only_a_copy_was_rejected() {
    let mut scene = Scene::new();
    let (too_much, small) = (payment(1, 1_000), payment(1, 1));
    assert!(scene.announce(&too_much).is_err());
    assert_eq!(fate(&scene, &too_much), Some(Fate::Rejected(ValidationResult::FailureInsufficientBalance)));
    // A copy with a wrong signature has the same hash.
    let forged = Transaction { signature: payment(2, 1).signature, ..payment(1, 2) };
    assert!(scene.announce(&forged).is_err());
    assert_eq!(fate(&scene, &forged), None);
    assert!(scene.announce(&small).is_ok());
    assert!(scene.add_remote(&small).is_err(), "it is there already");
    assert_eq!(fate(&scene, &small), None);
    assert_eq!(scene.pool.by_hash(&small.hash()).map(|entry| entry.since), Some(NOW));
}

#[test]
fn a_multisig_transaction_is_found_by_the_hashes_of_its_children() {
    let mut scene = Scene::new();
    let begun = multisig();
    let agreed = cosignature(2, &begun);
    assert!(scene.announce(&begun).is_ok() && scene.announce(&agreed).is_ok());
    for hash in [begun.hash(), begun.inner().unwrap().hash(), agreed.hash()] {
        assert_eq!(scene.pool.by_hash(&hash).map(|entry| entry.hashes.own), Some(begun.hash()));
    }
    assert!(scene.pool.by_hash(&payment(1, 1).hash()).is_none());
}

#[test]
fn the_fate_of_a_transaction_whose_deadline_passes_is_expired_for_all_its_hashes() {
    let mut scene = Scene::new();
    let begun = multisig();
    assert!(scene.announce(&begun).is_ok() && scene.announce(&cosignature(2, &begun)).is_ok());
    let later = Timestamp(NOW.0 + 4_000);
    scene.pool.tick(later, Duration::from_secs(10));
    for hash in [begun.hash(), begun.inner().unwrap().hash(), cosignature(2, &begun).hash()] {
        let record = scene.pool.fates.get(&hash, later);
        assert_eq!(record, Some(FateRecord { fate: Fate::Expired, at: later }));
    }
}

#[test]
fn the_fate_of_a_transaction_that_a_block_makes_invalid_is_its_result() {
    let mut scene = Scene::new();
    let (first, second) = (payment(1, 60), payment(1, 30));
    assert!(scene.announce(&first).is_ok() && scene.announce(&second).is_ok());
    // A block spends the funds otherwise.
    let mut batch = scene.store.begin_write().unwrap();
    let balance = VestedBalance { height: 1, unvested: 0, vested: Amount::whole(70).0 };
    put_account(&mut batch, &address(1), &Account { first_height: 1, balance, ..Account::default() }).unwrap();
    batch.commit().unwrap();
    scene.pool.chain_changed(Height(1000), BTreeSet::new(), Vec::new());
    scene.published();
    let fates = [&first, &second].map(|one| fate(&scene, one));
    let invalid = Some(Fate::Rejected(ValidationResult::FailureInsufficientBalance));
    assert!(fates == [None, invalid] || fates == [invalid, None], "{fates:?}");
}

#[test]
fn a_transaction_that_a_rebuild_drops_is_not_found_any_more_before_the_rebuild_ends() {
    let mut scene = Scene::new();
    let payments = [payment(1, 60), payment(1, 30)];
    assert!(payments.iter().all(|one| scene.announce(one).is_ok()));
    let mut batch = scene.store.begin_write().unwrap();
    let account = Account { first_height: 1, min_cosignatories: 2, ..Account::default() };
    put_account(&mut batch, &address(1), &account).unwrap();
    batch.commit().unwrap();
    scene.pool.chain_changed(Height(1000), BTreeSet::new(), Vec::new());
    while scene.pool.newly_changed.is_empty() {
        scene.work();
    }
    assert!(scene.pool.is_rebuilding());
    let dropped = scene.pool.newly_changed[0].0.hashes.own;
    assert!(scene.pool.by_hash(&dropped).is_none());
    let listed = std::iter::successors(scene.pool.after(&Hash256::default()), |one| scene.pool.after(&one.hashes.own));
    assert!(listed.map(|one| one.hashes.own).all(|hash| hash != dropped));
}

#[test]
fn the_fate_of_a_rolled_back_transaction_that_is_invalid_on_the_new_branch_is_replaced() {
    let mut scene = Scene::new();
    let returned = payment(1, 1_000);
    let valid = payment(1, 1);
    scene.pool.chain_changed(Height(1000), BTreeSet::new(), vec![returned.clone(), valid.clone()]);
    scene.published();
    assert_eq!(fate(&scene, &returned), Some(Fate::Replaced(ValidationResult::FailureInsufficientBalance, None)));
    assert_eq!(fate(&scene, &valid), None);
    assert!(scene.pool.by_hash(&valid.hash()).is_some());
}

#[test]
fn the_fate_of_a_signed_transaction_that_finds_the_mempool_full_is_evicted() {
    let mut scene = Scene::new();
    let per_block = scene.network.chain.max_transactions_per_block;
    // The spam filter applies once the mempool holds one block.
    (0..per_block).for_each(|number| scene.pool.add_unchecked(payment(2, u64::from(number)), BYTE));
    let full = paying(3, 1, 1);
    let forged = Transaction { signature: payment(2, 1).signature, ..full.clone() };
    for (sent, expected) in [(&forged, None), (&full, Some(Fate::Evicted))] {
        let result = scene.announce(sent);
        assert!(is_rejected_with(ValidationResult::FailureTransactionCacheTooFull, &result), "{result:?}");
        assert_eq!(fate(&scene, sent), expected);
    }
}

/// Ids and hashes of the transactions, in the order of arrival.
fn arrivals(scene: &Scene) -> Vec<(u64, Hash256)> {
    scene.pool.arrived_after(0).map(|entry| (entry.id, entry.hashes.own)).collect()
}

#[test]
fn a_transaction_keeps_its_place_in_the_order_of_arrival_over_a_rebuild() {
    let mut scene = Scene::new();
    // The order in blocks, by fee, is another one.
    let [first, second, third] = [1_000_000, 3_000_000, 2_000_000].map(|fee| paying(1, 1, fee));
    let (begun, returned) = (multisig(), payment(2, 1));
    for one in [&first, &second, &begun, &cosignature(2, &begun), &third] {
        assert!(scene.announce(one).is_ok());
    }
    let before = arrivals(&scene);
    assert!(before.iter().map(|(_, hash)| *hash).eq([&first, &second, &begun, &third].map(Transaction::hash)));
    let place = before[1].0;
    assert!(scene.pool.arrived_after(place).map(|entry| entry.id).eq(before[2..].iter().map(|(id, _)| *id)));
    scene.pool.chain_changed(Height(1000), hashes(&[&second]), vec![returned.clone()]);
    // Also while the rebuild is in progress, and if it begins anew.
    let kept = [before[0], before[2], before[3]];
    assert_eq!(arrivals(&scene), kept);
    (0..5).for_each(|_| scene.work());
    scene.pool.chain_changed(Height(1000), BTreeSet::new(), Vec::new());
    scene.published();
    let after = arrivals(&scene);
    assert_eq!(after[..3], kept);
    assert_eq!((after.len(), after[3].1), (4, returned.hash()));
    assert!(after[3].0 > after[2].0);
    assert_eq!(scene.pool.by_hash(&begun.hash()).and_then(MempoolEntry::inner_hash), begun.hashes().children.last());
}

#[test]
fn every_change_of_a_status_is_noted_and_a_rebuild_alone_is_none() {
    let mut scene = Scene::new();
    let changed = |scene: &mut Scene| -> BTreeSet<Hash256> {
        std::mem::take(&mut scene.pool.fates.changed).into_iter().collect()
    };
    let all = |transaction: &Transaction| -> BTreeSet<Hash256> { transaction.hashes().all().copied().collect() };
    let (begun, rejected, kept) = (multisig(), payment(1, 1_000), payment(2, 1));
    let agreed = cosignature(2, &begun);
    assert!(scene.announce(&kept).is_ok() && scene.announce(&begun).is_ok());
    assert_eq!(changed(&mut scene), &all(&kept) | &all(&begun));
    assert!(scene.announce(&agreed).is_ok());
    assert_eq!(changed(&mut scene), &all(&begun) | &all(&agreed), "a signature changes the status of all of them");
    assert!(scene.announce(&rejected).is_err() && scene.announce(&kept).is_err());
    assert_eq!(changed(&mut scene), all(&rejected), "a repeated one changes nothing");
    scene.pool.chain_changed(Height(1000), BTreeSet::new(), Vec::new());
    scene.published();
    assert_eq!(changed(&mut scene), BTreeSet::new());
    let (returned, replaced) = (payment(3, 1), payment(3, 1_000));
    scene.pool.chain_changed(Height(1000), BTreeSet::new(), vec![returned.clone(), replaced.clone()]);
    scene.published();
    assert_eq!(changed(&mut scene), &all(&returned) | &all(&replaced));
    scene.pool.tick(Timestamp(NOW.0 + 4_000), Duration::from_secs(10));
    assert_eq!(changed(&mut scene), [&kept, &begun, &agreed, &returned].into_iter().flat_map(all).collect());
}
