//! What people are told of the pool.

use std::collections::BTreeSet;

use tempfile::TempDir;

use super::*;
use crate::crypto::{KeyPair, PrivateKey, Verifier};
use crate::model::network::test_network;
use crate::model::transaction::{Cosignature, Multisig, Transfer, wire_version};
use crate::model::{Address, Amount, Body, NetworkByte};
use crate::rules::{Refusal, ValidationResult, Verdict};
use crate::state::{Account, VestedBalance, put_account};
use crate::store::{Store, Table, Write, test_store};

const BYTE: NetworkByte = NetworkByte::TESTNET;
const NOW: Timestamp = Timestamp(100_000);
const FEE: Amount = Amount(150_000);
/// Accounts that have money. The last of them is a multisig account of the first two.
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

/// A multisig transaction that the first cosignatory begins.
fn multisig() -> Transaction {
    let inner = unsigned(MULTISIG, transfer(1));
    signed(1, Body::Multisig(Box::new(Multisig { inner, cosignatures: Vec::new() })))
}

fn cosignature(signer: u8, multisig: &Transaction) -> Transaction {
    let other_hash = multisig.inner().unwrap().hash().into();
    signed(signer, Body::Cosignature(Cosignature { other_hash, other_account: address(MULTISIG) }))
}

/// A pool on a chain.
struct Scene {
    network: Network,
    store: Store,
    pool: Pool,
    _folder: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let network = test_network(BYTE, address(255));
        let (store, folder) = test_store();
        let mut batch = store.begin().unwrap();
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
        Scene { network, store, pool: Pool::default(), _folder: folder }
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Pool, &Confirmed<'_>, &mut Verifier) -> T) -> T {
        let snapshot = self.store.snapshot().unwrap();
        let confirmed = Confirmed { snapshot: &snapshot, network: &self.network, height: Height(1000), now: NOW };
        act(&mut self.pool, &confirmed, &mut Verifier::default())
    }

    fn announce(&mut self, transaction: &Transaction) -> Verdict {
        self.with(|pool, confirmed, verifier| pool.announce(transaction.clone(), confirmed, verifier))
    }

    fn work(&mut self) {
        self.with(|pool, confirmed, verifier| pool.work(confirmed, verifier)).unwrap();
    }

    /// What people are told of, all work being done.
    fn told(&mut self) -> Vec<Transaction> {
        while self.pool.has_work() {
            self.work();
        }
        std::iter::from_fn(|| self.pool.next_arrival()).map(Rc::unwrap_or_clone).collect()
    }
}

fn hashes(transactions: &[&Transaction]) -> BTreeSet<Hash256> {
    transactions.iter().map(|transaction| transaction.hash()).collect()
}

#[test]
fn a_cosignature_is_told_of_by_itself_and_its_multisig_transaction_as_it_came_in() {
    let mut scene = Scene::new();
    let begun = multisig();
    let agreed = cosignature(2, &begun);
    for transaction in [&begun, &agreed] {
        assert!(scene.announce(transaction).is_ok());
        assert!(scene.announce(transaction).is_err());
    }
    assert_eq!(scene.told(), [begun.clone(), agreed.clone()]);
    let held = scene.pool.in_fee_order();
    assert_eq!((held.len(), held[0].cosignatures()), (1, &[agreed][..]));
    assert_eq!(scene.told(), []);
}

#[test]
fn what_another_node_offers_is_told_of_like_what_is_announced() {
    let mut scene = Scene::new();
    let begun = multisig();
    let agreed = cosignature(2, &begun);
    let offered = [payment(1, 1), begun, agreed];
    for transaction in offered.clone() {
        assert!(scene.with(|pool, confirmed, verifier| pool.add(transaction, confirmed, verifier)).is_ok());
    }
    assert_eq!(scene.told(), offered);
}

#[test]
fn a_forged_copy_keeps_the_true_transaction_out_of_announcements_but_not_out_of_what_other_nodes_offer() {
    let mut scene = Scene::new();
    let genuine = payment(1, 1);
    let mut forged = genuine.clone();
    forged.signature = payment(1, 2).signature;
    assert_eq!(forged.hash(), genuine.hash());
    let is_bad = |verdict| matches!(verdict, Err(Refusal::Result(ValidationResult::FailureSignatureNotVerifiable)));
    let offer = |scene: &mut Scene, transaction: &Transaction| {
        scene.with(|pool, confirmed, verifier| pool.add(transaction.clone(), confirmed, verifier))
    };
    assert!(is_bad(scene.announce(&forged)) && is_bad(scene.announce(&genuine)));
    assert!(is_bad(offer(&mut scene, &forged)));
    assert!(offer(&mut scene, &genuine).is_ok());
    assert_eq!(scene.told(), [genuine]);
}

#[test]
fn building_the_pool_anew_tells_of_nothing() {
    let mut scene = Scene::new();
    let (kept, confirmed) = (payment(1, 1), payment(2, 1));
    assert!(scene.announce(&kept).is_ok() && scene.announce(&confirmed).is_ok());
    assert_eq!(scene.told().len(), 2);
    scene.pool.on_chain_change(&hashes(&[&confirmed]), Vec::new());
    assert_eq!(scene.told(), []);
    assert_eq!(scene.pool.in_fee_order(), [Rc::new(kept)]);
}

#[test]
fn what_has_lost_its_block_is_told_of_once_however_the_chain_changes_meanwhile() {
    let mut scene = Scene::new();
    let returned = [payment(1, 1), payment(2, 1)];
    scene.pool.on_chain_change(&BTreeSet::new(), returned.to_vec());
    scene.work();
    scene.pool.on_chain_change(&BTreeSet::new(), Vec::new());
    assert_eq!(scene.told(), returned);
    assert_eq!(scene.pool.len(), 2);
}

#[test]
fn what_finds_another_block_before_it_has_come_back_stays_out() {
    let mut scene = Scene::new();
    let [back, still_out, gone] = [payment(1, 1), payment(2, 1), payment(3, 1)];
    scene.pool.on_chain_change(&BTreeSet::new(), vec![gone.clone(), back.clone(), still_out.clone()]);
    scene.work();
    scene.pool.on_chain_change(&hashes(&[&gone, &still_out]), Vec::new());
    assert_eq!(scene.told(), [gone, back.clone()]);
    assert_eq!(scene.pool.in_fee_order(), [Rc::new(back)]);
}
