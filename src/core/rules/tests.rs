//! Tests of the rules.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::crypto::{PublicKey, Signature};
use crate::model::network::test_network;
use crate::model::transaction::{
    AggregateModification, Cosignature, Hashes, ImportanceTransfer, LinkMode, Message, MessageKind, Modification,
    ModificationKind, MosaicDefinitionCreation, MosaicSupplyChange, Multisig, ProvisionNamespace, SupplyChangeKind,
    Transfer, wire_version,
};
use crate::model::{
    Address, Amount, Block, BlockKind, Body, Hash256, Height, Levy, LevyKind, Mosaic, MosaicDefinition, MosaicId,
    MosaicProperties, NamespaceId, Network, NetworkByte, Timestamp, Transaction,
};
use crate::state::{Ledger, LinkRole, RemoteLink, VestedBalance};
use crate::store::{Store, StoredHeader, Table, Write, WriteTxn, block_key, test_store};

const NOW: Timestamp = Timestamp(10_000);
/// A height away from every fork and limit.
const HEIGHT: u64 = 2_000_000;
const NEMESIS: PublicKey = PublicKey([9; 32]);
const ALICE: PublicKey = PublicKey([1; 32]);
const BOB: PublicKey = PublicKey([2; 32]);
const CAROL: PublicKey = PublicKey([3; 32]);
const DAVE: PublicKey = PublicKey([4; 32]);

thread_local! {
    /// A store to which no test commits anything.
    static STORE: (Store, tempfile::TempDir) = test_store();
}

/// Height of the block with the known transactions.
const KNOWN: Height = Height(2);

/// State, network, height and purpose of a test.
struct Fixture {
    accounts: BTreeMap<Address, Account>,
    cosignatories: BTreeMap<Address, Vec<Address>>,
    /// Provisions of root and sub-namespaces in ascending order: height, owner and name.
    provisions: Vec<(u64, Address, String)>,
    /// A mosaic of Alice, and to whom she sent how much of it.
    mosaic: Option<MosaicDefinition>,
    sent: Vec<(PublicKey, u64)>,
    /// Transactions of the chain.
    known: Vec<Transaction>,
    network: Network,
    height: u64,
    purpose: Purpose,
}

impl Fixture {
    /// Creates a scene in which Alice has 1000 units and no rule is about to change.
    fn new() -> Fixture {
        let mut scene = Fixture {
            accounts: BTreeMap::new(),
            cosignatories: BTreeMap::new(),
            provisions: Vec::new(),
            mosaic: None,
            sent: Vec::new(),
            known: Vec::new(),
            network: test_network(NetworkByte::TESTNET, address(&NEMESIS)),
            height: HEIGHT,
            purpose: Purpose::Block,
        };
        scene.pay(&ALICE, 1000);
        scene
    }

    /// Writes the state.
    fn write(&self, txn: &mut WriteTxn<'_>) {
        for (address, account) in &self.accounts {
            state::put_account(txn, address, account).unwrap();
        }
        let pair = |a: &Address, b: &Address| [a.as_bytes().as_slice(), b.as_bytes()].concat();
        for (account, cosignatory) in self.cosignatories.iter().flat_map(|(a, list)| list.iter().map(move |b| (a, b))) {
            txn.put(Table::Cosignatories, &pair(account, cosignatory), &[]).unwrap();
            txn.put(Table::CosignatoryOf, &pair(cosignatory, account), &[]).unwrap();
        }
        let mut apply = |height: u64, effect: &Effect<'_>| {
            let mut block = BlockContext::new(Height(height));
            let mut ledger = Ledger { txn, block: &mut block, network: &self.network };
            ledger.apply(effect).unwrap();
            ledger.flush().unwrap();
        };
        for (height, owner, name) in &self.provisions {
            apply(*height, &Effect::Namespace { owner: *owner, name: NamespaceId::parse(name).unwrap() });
        }
        if let Some(definition) = &self.mosaic {
            apply(HEIGHT - 9, &Effect::Definition(definition));
            for (recipient, quantity) in &self.sent {
                let (from, to, mosaic) = (address(&ALICE), address(recipient), Cow::Borrowed(&definition.id));
                apply(HEIGHT - 8, &Effect::MosaicTransfer { from, to, mosaic, quantity: *quantity });
            }
        }
        for (index, transaction) in (0..).zip(&self.known) {
            state::insert_hashes(txn, 0, KNOWN, index, transaction.hashes().all()).unwrap();
        }
        let header = StoredHeader {
            height: KNOWN,
            hash: Hash256::default(),
            generation_hash: Hash256::default(),
            timestamp: NOW,
            difficulty: 1,
            score: 1,
            total_fee: Amount::ZERO,
            beneficiary: None,
            previous_harvests: [Height(0); 2],
            ids: (1, 2),
        };
        let block = Block { height: KNOWN, signature: Some(Signature([0; 64])), ..block(self.known.clone()) };
        txn.put(Table::Blocks, &block_key(KNOWN), &header.to_bytes(&block, &block.encode_transactions())).unwrap();
    }

    /// Calls `check` with the context of a validation.
    fn with_context<T>(&self, check: impl FnOnce(&ValidationContext<'_>) -> T) -> T {
        STORE.with(|(store, _)| {
            let mut txn = store.begin_write().unwrap();
            self.write(&mut txn);
            let (network, height, purpose) = (&self.network, Height(self.height), self.purpose);
            check(&ValidationContext { state: &txn, block: None, network, height, now: NOW, purpose })
        })
    }

    fn account(&mut self, key: &PublicKey) -> &mut Account {
        self.accounts.entry(address(key)).or_default()
    }

    fn pay(&mut self, key: &PublicKey, units: u64) {
        self.account(key).balance = VestedBalance { height: 1, unvested: 0, vested: Amount::whole(units).0 };
    }

    fn link(&mut self, key: &PublicKey, role: LinkRole, other: &PublicKey, mode: LinkMode, age: u64) {
        let height = Height(self.height - age);
        self.account(key).links = vec![RemoteLink { role, linked_address: address(other), height, mode }];
    }

    /// Links an owner and a remote, `age` blocks before the current height.
    fn link_both(&mut self, owner: &PublicKey, remote: &PublicKey, mode: LinkMode, age: u64) {
        self.link(owner, LinkRole::Owner, remote, mode, age);
        self.link(remote, LinkRole::Remote, owner, mode, age);
    }

    fn make_multisig(&mut self, account: &PublicKey, cosignatories: &[PublicKey], needed: u32) {
        self.cosignatories.insert(address(account), cosignatories.iter().map(address).collect());
        self.account(account).min_cosignatories = needed;
    }

    fn lease(&mut self, owner: &PublicKey, root: &str, age: u64, children: &[&str]) {
        let provision = |name: &str| (self.height - age, address(owner), name.to_owned());
        self.provisions.extend(std::iter::once(&root).chain(children).map(|name| provision(name)));
    }

    /// Defines Alice's mosaic `alice:coin` with 100 units, all owned by her.
    fn define(&mut self, levy: Option<Levy>) {
        self.lease(&ALICE, "alice", 10, &[]);
        self.mosaic = Some(definition(levy));
    }

    fn check(&self, transaction: &Transaction) -> Result<(), Rejection> {
        self.with_context(|context| check_transaction(transaction, context).map(drop))
    }

    /// Returns the name of the result without `FAILURE_`, or the text of the exception.
    fn result(&self, transaction: &Transaction) -> String {
        short(self.check(transaction))
    }

    fn check_block(&self, block: &Block) -> String {
        let hashes: Vec<Hashes> = block.transactions.iter().map(Transaction::hashes).collect();
        self.with_context(|context| short(check_block(block, &hashes, context)))
    }
}

fn short(outcome: RuleResult) -> String {
    let text = outcome.map_or_else(|rejection| rejection.to_string(), |()| "SUCCESS".to_owned());
    text.trim_start_matches("FAILURE_").to_owned()
}

fn address(key: &PublicKey) -> Address {
    Address::from_public_key(key, NetworkByte::TESTNET)
}

fn coin() -> MosaicId {
    MosaicId::parse("alice:coin").unwrap()
}

fn definition(levy: Option<Levy>) -> MosaicDefinition {
    let properties =
        MosaicProperties { divisibility: 0, initial_supply: 100, supply_mutable: true, transferable: true };
    MosaicDefinition { creator: ALICE, id: coin(), description: "a coin".to_owned(), properties, levy }
}

fn levy(kind: LevyKind, mosaic: MosaicId, fee: u64) -> Option<Levy> {
    Some(Levy { kind, recipient: address(&CAROL), mosaic, fee })
}

fn transaction(signer: PublicKey, body: Body) -> Transaction {
    let version = if matches!(body, Body::Transfer(_) | Body::AggregateModification(_)) { 2 } else { 1 };
    Transaction {
        version: wire_version(NetworkByte::TESTNET, version),
        timestamp: NOW,
        signer,
        signature: Some(Signature([0; 64])),
        fee: Amount::whole(2),
        deadline: Timestamp(NOW.0 + 100),
        body,
    }
}

fn transfer(from: PublicKey, to: PublicKey, units: u64, mosaics: Vec<Mosaic>) -> Transaction {
    let amount = Amount::whole(units);
    transaction(from, Body::Transfer(Transfer { recipient: address(&to), amount, message: None, mosaics }))
}

fn link(owner: PublicKey, remote: PublicKey, mode: LinkMode) -> Transaction {
    transaction(owner, Body::ImportanceTransfer(ImportanceTransfer { mode, remote }))
}

fn modify(signer: PublicKey, list: &[(ModificationKind, PublicKey)], change: Option<i32>) -> Transaction {
    let one =
        |(kind, cosignatory): &(ModificationKind, PublicKey)| Modification { kind: *kind, cosignatory: *cosignatory };
    let modifications = list.iter().map(one).collect();
    let body = AggregateModification { modifications, min_cosignatories_change: change };
    transaction(signer, Body::AggregateModification(body))
}

fn cosignature(signer: PublicKey, inner: &Transaction) -> Transaction {
    let other_account = address(&inner.signer);
    transaction(signer, Body::Cosignature(Cosignature { other_hash: inner.hash().into(), other_account }))
}

fn multisig(initiator: PublicKey, inner: Transaction, cosigners: &[PublicKey]) -> Transaction {
    let cosignatures = cosigners.iter().map(|cosigner| cosignature(*cosigner, &inner)).collect();
    let inner = Transaction { signature: None, ..inner };
    transaction(initiator, Body::Multisig(Box::new(Multisig { inner, cosignatures })))
}

fn provision(signer: PublicKey, parent: Option<&str>, new_part: &str, rent: u64) -> Transaction {
    let body = ProvisionNamespace {
        rental_fee_sink: Fixture::new().network.namespace_sink(),
        rental_fee: Amount::whole(rent),
        new_part: new_part.to_owned(),
        parent: parent.map(|parent| NamespaceId::parse(parent).unwrap()),
    };
    transaction(signer, Body::ProvisionNamespace(body))
}

fn define(definition: MosaicDefinition) -> Transaction {
    let body = MosaicDefinitionCreation {
        definition,
        creation_fee_sink: Fixture::new().network.mosaic_sink(),
        creation_fee: Amount::whole(10),
    };
    transaction(ALICE, Body::MosaicDefinitionCreation(Box::new(body)))
}

/// Starts with a transfer that violates all general rules, and fixes it step by step.
#[test]
fn rules_are_checked_in_order() {
    let mut scene = Fixture::new();
    scene.purpose = Purpose::Mempool;
    scene.link(&BOB, LinkRole::Remote, &CAROL, LinkMode::Activate, 1);
    scene.make_multisig(&ALICE, &[CAROL], 0);
    scene.define(None);
    let coins = |count: u64| (0..count).map(|n| Mosaic { id: coin(), quantity: 200 + n }).collect();
    let mut one = transfer(ALICE, BOB, 1, coins(11));
    let set = |one: &mut Transaction, change: &dyn Fn(&mut Transfer)| match &mut one.body {
        Body::Transfer(body) => change(body),
        _ => unreachable!(),
    };
    (one.timestamp, one.deadline) = (Timestamp(NOW.0 + 11), Timestamp(NOW.0 + 11));
    (one.version, one.fee) = (wire_version(NetworkByte::MAINNET, 3), Amount(0));
    set(&mut one, &|body| {
        body.amount = Amount(1_500_000);
        body.message = Some(Message { kind: MessageKind::Plain, payload: vec![0; 1025] });
    });
    let mut expect = |result: &str, mend: &mut dyn FnMut(&mut Transaction, &mut Fixture)| {
        assert_eq!(scene.result(&one), result);
        mend(&mut one, &mut scene);
    };
    expect("PAST_DEADLINE", &mut |one, _| one.deadline = Timestamp(one.timestamp.0 + 86_401));
    expect("FUTURE_DEADLINE", &mut |one, _| one.deadline = Timestamp(one.timestamp.0 + 86_400));
    expect("INSUFFICIENT_FEE", &mut |one, _| one.fee = Amount::whole(1001));
    expect("ENTITY_INVALID_VERSION", &mut |one, _| one.version = wire_version(NetworkByte::MAINNET, 2));
    expect("TIMESTAMP_TOO_FAR_IN_FUTURE", &mut |one, _| one.timestamp = NOW);
    expect("FUTURE_DEADLINE", &mut |one, _| one.deadline = Timestamp(NOW.0 + 86_400));
    expect("INSUFFICIENT_BALANCE", &mut |one, _| one.fee = Amount::whole(1000));
    expect("WRONG_NETWORK", &mut |one, _| one.version = wire_version(NetworkByte::TESTNET, 2));
    expect("TRANSACTION_NOT_ALLOWED_FOR_REMOTE", &mut |_, scene| scene.account(&BOB).links.clear());
    expect("TRANSACTION_NOT_ALLOWED_FOR_MULTISIG", &mut |_, scene| scene.cosignatories.clear());
    expect("MESSAGE_TOO_LARGE", &mut |one, _| set(one, &|body| body.message = None));
    expect("TOO_MANY_MOSAIC_TRANSFERS", &mut |one, _| set(one, &|body| body.mosaics.truncate(1)));
    expect("MOSAIC_DIVISIBILITY_VIOLATED", &mut |one, _| set(one, &|body| body.amount = Amount::whole(1)));
    expect("INSUFFICIENT_BALANCE", &mut |one, _| set(one, &|body| body.mosaics[0].quantity = 100));
    expect("SUCCESS", &mut |one, _| (one.timestamp, one.deadline) = (Timestamp(NOW.0 - 9), Timestamp(NOW.0 - 1)));
    expect("PAST_DEADLINE", &mut |_, scene| scene.purpose = Purpose::Block);
    expect("SUCCESS", &mut |_, _| {});
}

#[test]
fn the_mempool_accepts_a_deadline_that_is_now_but_not_past() {
    let scene = Fixture { purpose: Purpose::Mempool, ..Fixture::new() };
    let until = |deadline| {
        let deadline = Timestamp(deadline);
        scene.result(&Transaction { timestamp: Timestamp(NOW.0 - 9), deadline, ..transfer(ALICE, BOB, 1, Vec::new()) })
    };
    assert_eq!([until(NOW.0), until(NOW.0 - 1)], ["SUCCESS", "PAST_DEADLINE"]);
}

#[test]
fn multisig_rules_are_checked_before_those_of_the_inner_transactions() {
    let mut scene = Fixture::new();
    scene.make_multisig(&ALICE, &[BOB, CAROL, DAVE], 0);
    let delete = |key| (ModificationKind::Delete, key);
    let inner = modify(ALICE, &[delete(BOB), delete(CAROL)], None);
    assert_eq!(scene.result(&multisig(BOB, inner.clone(), &[])), "MULTISIG_INVALID_COSIGNERS");
    assert_eq!(scene.result(&multisig(BOB, inner.clone(), &[DAVE])), "MULTISIG_MODIFICATION_MULTIPLE_DELETES");
    let mut late = multisig(BOB, inner, &[DAVE]);
    if let Body::Multisig(body) = &mut late.body {
        body.cosignatures[0].deadline = NOW;
    }
    assert_eq!(scene.result(&late), "PAST_DEADLINE");
}

#[test]
fn an_unconfirmed_multisig_transaction_waits_for_its_signatures() {
    let mut scene = Fixture::new();
    scene.make_multisig(&ALICE, &[BOB, CAROL], 0);
    let one = multisig(BOB, transfer(ALICE, DAVE, 1, Vec::new()), &[]);
    for (purpose, expected) in
        [(Purpose::Mempool, "SUCCESS"), (Purpose::Prepare, "SUCCESS"), (Purpose::Block, "MULTISIG_INVALID_COSIGNERS")]
    {
        scene.purpose = purpose;
        assert_eq!(scene.result(&one), expected);
    }
    assert_eq!(scene.result(&multisig(DAVE, transfer(ALICE, DAVE, 1, Vec::new()), &[])), "MULTISIG_NOT_A_COSIGNER");
}

#[test]
fn exceptions_have_the_class_and_text_of_nis1() {
    let mut scene = Fixture::new();
    let exception = |scene: &Fixture, one: &Transaction| match scene.check(one) {
        Err(Rejection::Exception(Exception::Argument(text))) => (400, text),
        Err(Rejection::Exception(Exception::Other(text))) => (500, text),
        other => panic!("{other:?}"),
    };
    let mut one = transfer(ALICE, BOB, 1, Vec::new());
    (one.timestamp, one.deadline) = (Timestamp(2_147_397_248), Timestamp(i32::MAX));
    assert_eq!(exception(&scene, &one), (400, "time must be non-negative".to_owned()));
    let mut one = transfer(ALICE, BOB, 1, vec![Mosaic { id: coin(), quantity: 1 }]);
    assert_eq!(exception(&scene, &one), (400, "unable to find fee information for 'alice:coin'".to_owned()));
    let long = "a".repeat(17);
    let text = format!("'{long}' is not a valid namespace.");
    assert_eq!(exception(&scene, &provision(ALICE, None, &long, 100)), (400, text));
    let deep = provision(ALICE, Some("a.b.c"), "d", 10);
    assert_eq!(exception(&scene, &deep), (400, "'a.b.c.d' is not a valid namespace.".to_owned()));
    scene.define(levy(LevyKind::Percentile, MosaicId::xem(), 10_000));
    if let Body::Transfer(body) = &mut one.body {
        body.mosaics[0].quantity = 922_337_203_685_478;
    }
    one.fee = Amount::whole(100);
    assert_eq!(exception(&scene, &one), (400, "quantity (-922337203685477) must be non-negative".to_owned()));
    let unpaid = Transaction { fee: Amount(0), ..one.clone() };
    assert_eq!(scene.result(&unpaid), "INSUFFICIENT_FEE");
    if let Body::Transfer(body) = &mut one.body {
        (body.amount, body.mosaics[0].quantity) = (Amount::whole(2), i64::MAX as u64);
    }
    assert_eq!(exception(&scene, &one), (500, "BigInteger out of long range".to_owned()));
}

#[test]
fn income_can_be_spent_only_after_it_is_credited() {
    let mut scene = Fixture::new();
    // The amount is returned before the fee is charged, but the sender must have it first.
    assert_eq!(scene.result(&transfer(ALICE, ALICE, 1000, Vec::new())), "SUCCESS");
    assert_eq!(scene.result(&transfer(ALICE, ALICE, 1001, Vec::new())), "INSUFFICIENT_BALANCE");
    assert_eq!(scene.result(&transfer(ALICE, BOB, 998, Vec::new())), "SUCCESS");
    assert_eq!(scene.result(&transfer(ALICE, BOB, 999, Vec::new())), "INSUFFICIENT_BALANCE");
    scene.define(levy(LevyKind::Absolute, coin(), 1));
    let coins = |quantity| transfer(ALICE, BOB, 1, vec![Mosaic { id: coin(), quantity }]);
    assert_eq!(scene.result(&coins(99)), "SUCCESS");
    assert_eq!(scene.result(&coins(100)), "INSUFFICIENT_BALANCE");
    // Units sent to their own sender can pay the levy after they are credited, but they must exist before.
    let round = |quantity| transfer(ALICE, ALICE, 1, vec![Mosaic { id: coin(), quantity }]);
    assert_eq!(scene.result(&round(100)), "SUCCESS");
    assert_eq!(scene.result(&round(101)), "INSUFFICIENT_BALANCE");
}

/// Per case: age and mode of the link of Alice with Bob, and the results of a deactivation, of an activation with
/// another remote, and of an activation of the same remote by a third account.
#[test]
fn importance_link_boundaries_are_as_recorded() {
    use LinkMode::{Activate, Deactivate};
    const IN_PROGRESS: &str = "IMPORTANCE_TRANSFER_IN_PROGRESS";
    const TO_DEACTIVATE: &str = "IMPORTANCE_TRANSFER_NEEDS_TO_BE_DEACTIVATED";
    for (mode, age, expected) in [
        (Activate, 0, [IN_PROGRESS; 3]),
        (Activate, 359, [IN_PROGRESS; 3]),
        (Activate, 360, ["SUCCESS", TO_DEACTIVATE, TO_DEACTIVATE]),
        (Deactivate, 0, [IN_PROGRESS; 3]),
        (Deactivate, 359, [IN_PROGRESS; 3]),
        (Deactivate, 360, ["IMPORTANCE_TRANSFER_IS_NOT_ACTIVE", "SUCCESS", "SUCCESS"]),
    ] {
        let mut scene = Fixture::new();
        scene.link_both(&ALICE, &BOB, mode, age);
        scene.pay(&DAVE, 1000);
        let found = [link(ALICE, BOB, Deactivate), link(ALICE, CAROL, Activate), link(DAVE, BOB, Activate)];
        assert_eq!(found.map(|one| scene.result(&one)), expected, "{mode:?} {age}");
    }
}

#[test]
fn an_account_in_use_cannot_become_a_remote() {
    type Mutation<'a> = &'a dyn Fn(&mut Fixture);
    let in_use: [(&str, Mutation<'_>); 4] = [
        ("a mosaic", &|scene| {
            scene.define(None);
            scene.sent.push((BOB, 1));
        }),
        ("a namespace", &|scene| scene.lease(&BOB, "bob", 1_000_000, &[])),
        ("cosignatories", &|scene| scene.make_multisig(&BOB, &[CAROL], 0)),
        ("a multisig account", &|scene| scene.make_multisig(&CAROL, &[BOB], 0)),
    ];
    let activate = link(ALICE, BOB, LinkMode::Activate);
    for (what, happen) in in_use {
        let mut scene = Fixture::new();
        assert_eq!(scene.result(&activate), "SUCCESS");
        happen(&mut scene);
        assert_eq!(scene.result(&activate), "DESTINATION_ACCOUNT_IN_USE", "{what}");
        scene.network.chain.forks.remote_account = HEIGHT + 1;
        assert_eq!(scene.result(&activate), "SUCCESS", "{what}");
        scene.pay(&BOB, 1);
        assert_eq!(scene.result(&activate), "DESTINATION_ACCOUNT_IN_USE");
    }
}

#[test]
fn a_remote_cannot_receive_transfers_until_its_link_has_ended() {
    for (age, mode, after_fork, expected) in [
        (359, LinkMode::Activate, true, "TRANSACTION_NOT_ALLOWED_FOR_REMOTE"),
        (360, LinkMode::Activate, true, "TRANSACTION_NOT_ALLOWED_FOR_REMOTE"),
        (359, LinkMode::Deactivate, true, "TRANSACTION_NOT_ALLOWED_FOR_REMOTE"),
        (360, LinkMode::Deactivate, true, "SUCCESS"),
        (360, LinkMode::Deactivate, false, "TRANSACTION_NOT_ALLOWED_FOR_REMOTE"),
    ] {
        let mut scene = Fixture::new();
        scene.link(&BOB, LinkRole::Remote, &CAROL, mode, age);
        scene.network.chain.forks.mosaic_redefinition = if after_fork { HEIGHT } else { HEIGHT + 1 };
        assert_eq!(scene.result(&transfer(ALICE, BOB, 1, Vec::new())), expected, "{mode:?} {age} {after_fork}");
    }
}

#[test]
fn a_mosaic_levy_cannot_go_to_a_remote() {
    let mut scene = Fixture::new();
    scene.lease(&ALICE, "alice", 10, &[]);
    let creation = define(definition(levy(LevyKind::Absolute, MosaicId::xem(), 1)));
    assert_eq!(scene.result(&creation), "SUCCESS");
    scene.link(&CAROL, LinkRole::Remote, &BOB, LinkMode::Activate, 1000);
    assert_eq!(scene.result(&creation), "TRANSACTION_NOT_ALLOWED_FOR_REMOTE");
}

/// The remote is one of the accounts of the multisig transaction, and no remote may take part in one.
#[test]
fn a_multisig_account_ends_its_link_only_by_naming_another_account() {
    let mut scene = Fixture::new();
    scene.make_multisig(&ALICE, &[CAROL], 0);
    scene.link_both(&ALICE, &BOB, LinkMode::Activate, 1000);
    let end = |remote| multisig(CAROL, link(ALICE, remote, LinkMode::Deactivate), &[]);
    assert_eq!(scene.result(&end(BOB)), "TRANSACTION_NOT_ALLOWED_FOR_REMOTE");
    assert_eq!(scene.result(&end(DAVE)), "SUCCESS");
}

/// An account with three cosignatories, and the signers of a transfer or of the deletion of the third.
#[test]
fn signatures_are_counted_as_in_the_table() {
    const MISSING: &str = "MULTISIG_INVALID_COSIGNERS";
    for (needed, transfers, deletions) in [
        (0, [MISSING, MISSING, "SUCCESS"], [MISSING, "SUCCESS", MISSING]),
        (1, ["SUCCESS"; 3], ["SUCCESS"; 3]),
        (2, [MISSING, "SUCCESS", "SUCCESS"], [MISSING, "SUCCESS", MISSING]),
        (3, [MISSING, MISSING, "SUCCESS"], [MISSING, "MULTISIG_MIN_COSIGNATORIES_OUT_OF_RANGE", MISSING]),
    ] {
        let mut scene = Fixture::new();
        scene.make_multisig(&ALICE, &[BOB, CAROL, DAVE], needed);
        let inner = transfer(ALICE, BOB, 1, Vec::new());
        let signed = [&[][..], &[CAROL], &[CAROL, DAVE]].map(|with| multisig(BOB, inner.clone(), with));
        assert_eq!(signed.map(|one| scene.result(&one)), transfers, "{needed}");
        let inner = modify(ALICE, &[(ModificationKind::Delete, DAVE)], None);
        let signed = [&[][..], &[CAROL], &[DAVE]].map(|with| multisig(BOB, inner.clone(), with));
        assert_eq!(signed.map(|one| scene.result(&one)), deletions, "{needed}");
    }
}

#[test]
fn multisig_modifications_must_be_possible_and_effective() {
    use ModificationKind::{Add, Delete, Unknown};
    let mut scene = Fixture::new();
    scene.make_multisig(&BOB, &[CAROL], 0);
    for (list, change, expected) in [
        (vec![(Add, DAVE)], Some(1), "SUCCESS"),
        (vec![(Add, DAVE)], Some(2), "MULTISIG_MIN_COSIGNATORIES_OUT_OF_RANGE"),
        (vec![(Add, DAVE)], Some(-1), "MULTISIG_MIN_COSIGNATORIES_OUT_OF_RANGE"),
        (vec![(Add, ALICE)], None, "MULTISIG_ACCOUNT_CANNOT_BE_COSIGNER"),
        (vec![(Add, BOB)], None, "MULTISIG_ACCOUNT_CANNOT_BE_COSIGNER"),
        (vec![(Delete, DAVE)], None, "MULTISIG_NOT_A_COSIGNER"),
        (vec![(Add, DAVE), (Add, DAVE)], None, "MULTISIG_MODIFICATION_REDUNDANT_MODIFICATIONS"),
        (vec![(Add, DAVE), (Unknown, DAVE)], None, "MULTISIG_MODIFICATION_REDUNDANT_MODIFICATIONS"),
    ] {
        assert_eq!(scene.result(&modify(ALICE, &list, change)), expected, "{list:?} {change:?}");
    }
    scene.pay(&CAROL, 10);
    assert_eq!(scene.result(&modify(CAROL, &[(Add, DAVE)], None)), "MULTISIG_ACCOUNT_CANNOT_BE_COSIGNER");
    let many =
        |count: u8| modify(ALICE, &(0..count).map(|n| (Add, PublicKey([100 + n; 32]))).collect::<Vec<_>>(), None);
    assert_eq!(scene.result(&many(32)), "SUCCESS");
    assert_eq!(scene.result(&many(33)), "TOO_MANY_MULTISIG_COSIGNERS");
}

/// Per case: blocks since the lease, and the results for its owner and for others.
#[test]
fn namespaces_are_renewed_as_in_the_table() {
    const EARLY: &str = "NAMESPACE_PROVISION_TOO_EARLY";
    for (age, owner, others, active) in [
        (1, EARLY, EARLY, true),
        (482_399, EARLY, EARLY, true),
        (482_400, "SUCCESS", EARLY, true),
        (525_599, "SUCCESS", EARLY, true),
        (525_600, "SUCCESS", EARLY, false),
        (568_799, "SUCCESS", EARLY, false),
        (568_800, "SUCCESS", "SUCCESS", false),
    ] {
        let mut scene = Fixture::new();
        scene.lease(&ALICE, "name", age, &[]);
        scene.pay(&BOB, 1000);
        let found = [ALICE, BOB].map(|signer| scene.result(&provision(signer, None, "name", 100)));
        assert_eq!(found, [owner, others], "{age}");
        let child = scene.result(&provision(ALICE, Some("name"), "child", 10));
        assert_eq!(child, if active { "SUCCESS" } else { "NAMESPACE_EXPIRED" }, "{age}");
    }
}

#[test]
fn namespace_rentals_are_checked_for_owner_part_parent_and_fee() {
    let mut scene = Fixture::new();
    scene.pay(&BOB, 1000);
    scene.lease(&ALICE, "root", 10, &["root.sub"]);
    for (signer, parent, part, rent, expected) in [
        (ALICE, None, "nem", 100, "NAMESPACE_NOT_CLAIMABLE"),
        (ALICE, Some("root"), "com", 10, "NAMESPACE_NOT_CLAIMABLE"),
        (ALICE, None, "company", 99, "NAMESPACE_INVALID_RENTAL_FEE"),
        (ALICE, None, "company", 100, "SUCCESS"),
        (ALICE, Some("other"), "sub", 10, "NAMESPACE_UNKNOWN"),
        (ALICE, Some("root.none"), "sub", 10, "NAMESPACE_UNKNOWN"),
        (BOB, Some("root"), "new", 10, "NAMESPACE_OWNER_CONFLICT"),
        (ALICE, Some("root"), "sub", 10, "NAMESPACE_ALREADY_EXISTS"),
        (ALICE, Some("root.sub"), "new", 9, "NAMESPACE_INVALID_RENTAL_FEE"),
        (ALICE, Some("root.sub"), "new", 10, "SUCCESS"),
    ] {
        assert_eq!(scene.result(&provision(signer, parent, part, rent)), expected, "{parent:?} {part} {rent}");
    }
    let mut wrong_sink = provision(ALICE, None, "company", 100);
    if let Body::ProvisionNamespace(body) = &mut wrong_sink.body {
        body.rental_fee_sink = address(&BOB);
    }
    assert_eq!(scene.result(&wrong_sink), "NAMESPACE_INVALID_RENTAL_FEE_SINK");
}

#[test]
fn mosaic_terms_change_only_while_the_creator_holds_the_whole_supply() {
    let mut scene = Fixture::new();
    scene.define(None);
    let with = |change: &dyn Fn(&mut MosaicDefinition)| {
        let mut changed = definition(None);
        change(&mut changed);
        define(changed)
    };
    let same = with(&|_| {});
    let described = with(&|definition| definition.description.push('!'));
    let more = with(&|definition| definition.properties.initial_supply = 101);
    let fixed = with(&|definition| definition.properties.transferable = false);
    let levied = with(&|definition| definition.levy = levy(LevyKind::Absolute, MosaicId::xem(), 1));
    let unknown = with(&|definition| definition.levy = levy(LevyKind::Absolute, MosaicId::parse("a:b").unwrap(), 1));
    let results = |scene: &Fixture| {
        [&same, &described, &more, &fixed, &levied, &unknown].map(|one| scene.result(one).replace("MOSAIC_", ""))
    };
    const REJECTED: &str = "MODIFICATION_NOT_ALLOWED";
    assert_eq!(results(&scene), [REJECTED, "SUCCESS", "SUCCESS", REJECTED, "SUCCESS", "UNKNOWN"]);
    scene.sent.push((BOB, 1));
    assert_eq!(results(&scene), [REJECTED, "SUCCESS", REJECTED, REJECTED, REJECTED, REJECTED]);
}

#[test]
fn a_non_transferable_mosaic_moves_only_from_or_to_its_creator() {
    let mut scene = Fixture::new();
    scene.define(None);
    scene.pay(&BOB, 10);
    scene.sent.push((BOB, 10));
    if let Some(definition) = &mut scene.mosaic {
        definition.properties.transferable = false;
    }
    let send = |from, to| transfer(from, to, 1, vec![Mosaic { id: coin(), quantity: 1 }]);
    assert_eq!(scene.result(&send(ALICE, BOB)), "SUCCESS");
    assert_eq!(scene.result(&send(BOB, ALICE)), "SUCCESS");
    assert_eq!(scene.result(&send(BOB, CAROL)), "MOSAIC_NOT_TRANSFERABLE");
}

#[test]
fn a_supply_changes_within_its_bounds_and_by_its_creator() {
    use SupplyChangeKind::{Create, Delete};
    let mut scene = Fixture::new();
    scene.define(None);
    scene.pay(&BOB, 10);
    let change = |signer, kind, delta| {
        transaction(signer, Body::MosaicSupplyChange(MosaicSupplyChange { mosaic: coin(), kind, delta }))
    };
    const REMAINING: u64 = 9_000_000_000_000_000 - 100;
    for (signer, kind, delta, expected) in [
        (ALICE, Create, REMAINING, "SUCCESS"),
        (ALICE, Create, REMAINING + 1, "MOSAIC_MAX_SUPPLY_EXCEEDED"),
        (ALICE, Delete, 100, "SUCCESS"),
        (ALICE, Delete, 101, "MOSAIC_SUPPLY_NEGATIVE"),
        (BOB, Create, 1, "MOSAIC_CREATOR_CONFLICT"),
    ] {
        assert_eq!(scene.result(&change(signer, kind, delta)), expected, "{kind:?} {delta}");
    }
    scene.height += 525_600;
    assert_eq!(scene.result(&change(ALICE, Create, 1)), "NAMESPACE_EXPIRED");
    scene.mosaic = None;
    assert_eq!(scene.result(&change(ALICE, Create, 1)), "MOSAIC_UNKNOWN");
}

#[test]
fn the_supply_of_a_divisible_mosaic_is_compared_with_quantities_in_smallest_units() {
    let mut scene = Fixture::new();
    scene.define(None);
    scene.mosaic.as_mut().unwrap().properties.divisibility = 2;
    let levy = levy(LevyKind::Absolute, MosaicId::xem(), 1);
    let levied = define(MosaicDefinition { levy, ..scene.mosaic.clone().unwrap() });
    let delete = |delta| {
        let body = MosaicSupplyChange { mosaic: coin(), kind: SupplyChangeKind::Delete, delta };
        transaction(ALICE, Body::MosaicSupplyChange(body))
    };
    let results = |scene: &Fixture| {
        [&levied, &delete(99), &delete(100), &delete(101)].map(|one| scene.result(one).replace("MOSAIC_", ""))
    };
    const NEGATIVE: &str = "SUPPLY_NEGATIVE";
    assert_eq!(results(&scene), ["SUCCESS", "SUCCESS", "SUCCESS", NEGATIVE]);
    scene.sent.push((BOB, 1));
    assert_eq!(results(&scene), ["MODIFICATION_NOT_ALLOWED", "SUCCESS", NEGATIVE, NEGATIVE]);
}

/// Nobody has the key of the testnet address that owns `nem` on other networks.
#[test]
fn a_mosaic_cannot_be_defined_in_the_built_in_namespace() {
    let mut scene = Fixture::new();
    let mut xem = definition(None);
    xem.id = MosaicId::parse("nem:coin").unwrap();
    assert_eq!(scene.result(&define(xem.clone())), "NAMESPACE_OWNER_CONFLICT");
    xem.id = coin();
    assert_eq!(scene.result(&define(xem.clone())), "NAMESPACE_EXPIRED");
    scene.lease(&BOB, "alice", 1, &[]);
    assert_eq!(scene.result(&define(xem)), "NAMESPACE_OWNER_CONFLICT");
}

#[test]
fn the_treasury_re_issuance_has_its_exceptions() {
    let mut scene = Fixture::new();
    scene.make_multisig(&ALICE, &[BOB], 0);
    let one = transfer(ALICE, BOB, 1, Vec::new());
    let nemesis = transfer(NEMESIS, BOB, 0, Vec::new());
    let nemesis = Transaction { fee: Amount(0), ..nemesis };
    const NEMESIS_REJECTED: &str = "NEMESIS_ACCOUNT_TRANSACTION_AFTER_NEMESIS_BLOCK";
    assert_eq!(scene.result(&nemesis), NEMESIS_REJECTED);
    scene.network.chain.forks.treasury_reissuance = HEIGHT;
    assert_eq!(scene.result(&nemesis), "SUCCESS");
    assert_eq!(scene.result(&one), "TRANSACTION_NOT_ALLOWED_FOR_MULTISIG");
    scene.network.chain.forks.treasury_fallback_hashes = vec![one.hash()];
    assert_eq!(scene.result(&one), "TRANSACTION_NOT_ALLOWED_FOR_MULTISIG");
    scene.network.chain.forks.treasury_hashes = vec![one.hash()];
    assert_eq!(scene.result(&one), "SUCCESS");
    scene.height += 1;
    assert_eq!(scene.result(&one), "TRANSACTION_NOT_ALLOWED_FOR_MULTISIG");
}

#[test]
fn the_fee_sinks_are_found_on_testnet_only() {
    let mut scene = Fixture::new();
    let sink = crate::model::network::NAMESPACE_SINK;
    let outcome = |scene: &mut Fixture| {
        let byte = scene.network.byte;
        let sink_address = Address::from_public_key(&sink, byte);
        let cosignatory = Address::from_public_key(&BOB, byte);
        scene.cosignatories.insert(sink_address, vec![cosignatory]);
        let balance = VestedBalance { height: 1, unvested: 0, vested: Amount::whole(100).0 };
        scene.accounts.insert(sink_address, Account { balance, ..Account::default() });
        let mut one = multisig(BOB, transfer(sink, CAROL, 1, Vec::new()), &[]);
        one.version = wire_version(byte, 1);
        if let Body::Multisig(body) = &mut one.body {
            body.inner.version = wire_version(byte, 2);
        }
        scene.result(&one)
    };
    assert_eq!(outcome(&mut scene), "TRANSACTION_NOT_ALLOWED_FOR_MULTISIG");
    scene.network.chain.forks.treasury_reissuance = HEIGHT;
    assert_eq!(outcome(&mut scene), "SUCCESS");
    scene.network.chain.forks.treasury_reissuance = 1;
    scene.network.byte = NetworkByte::MAINNET;
    assert_eq!(outcome(&mut scene), "SUCCESS");
}

#[test]
fn transactions_that_no_block_can_contain_are_rejected() {
    let mut scene = Fixture::new();
    scene.make_multisig(&ALICE, &[BOB], 0);
    let alone = cosignature(BOB, &transfer(ALICE, BOB, 1, Vec::new()));
    let wrapped = multisig(BOB, cosignature(ALICE, &transfer(ALICE, BOB, 1, Vec::new())), &[]);
    for (purpose, expected) in [(Purpose::Mempool, "SUCCESS"), (Purpose::Block, "TRANSACTION_NOT_ALLOWED_FOR_MULTISIG")]
    {
        scene.purpose = purpose;
        assert_eq!(scene.result(&alone), expected);
        assert_eq!(scene.result(&wrapped), "TRANSACTION_NOT_ALLOWED_FOR_MULTISIG");
    }
    assert_eq!(scene.check_block(&Block { kind: BlockKind::Nemesis, ..block(Vec::new()) }), "BLOCK_UNVERIFIABLE");
}

fn block(transactions: Vec<Transaction>) -> Block {
    Block {
        kind: BlockKind::Regular,
        version: wire_version(NetworkByte::TESTNET, 1),
        timestamp: NOW,
        signer: DAVE,
        signature: None,
        previous_hash: Hash256::default().into(),
        height: Height(HEIGHT),
        transactions,
    }
}

/// Starts with a block that violates as many rules as possible, and fixes it step by step.
#[test]
fn block_rules_are_checked_in_order() {
    let mut scene = Fixture::new();
    scene.network.chain.max_transactions_per_block = 3;
    scene.network.chain.forks.treasury_reissuance = HEIGHT;
    scene.link(&DAVE, LinkRole::Owner, &BOB, LinkMode::Activate, 360);
    let coins = transfer(ALICE, BOB, 1, vec![Mosaic { id: coin(), quantity: 1 }]);
    let change = || modify(ALICE, &[(ModificationKind::Add, BOB)], None);
    let late = Transaction { deadline: Timestamp(NOW.0 + 10), ..transfer(DAVE, BOB, 1, Vec::new()) };
    let nested = multisig(BOB, change(), &[]);
    let transactions = vec![define(definition(None)), coins, change(), nested, late];
    scene.known = vec![transactions[1].clone(), transactions[3].clone()];
    let mut one =
        Block { timestamp: Timestamp(NOW.0 + 11), version: 2, signer: PublicKey(BLOCKED), ..block(transactions) };
    let mut expect = |result: &str, mend: &mut dyn FnMut(&mut Block, &mut Fixture)| {
        assert_eq!(scene.check_block(&one), result);
        mend(&mut one, &mut scene);
    };
    expect("TIMESTAMP_TOO_FAR_IN_FUTURE", &mut |one, _| one.timestamp = Timestamp(NOW.0 + 11 - 1));
    expect("CANNOT_HARVEST_FROM_BLOCKED_ACCOUNT", &mut |one, _| one.signer = DAVE);
    expect("INELIGIBLE_BLOCK_SIGNER", &mut |_, scene| scene.account(&DAVE).links.clear());
    expect("TOO_MANY_TRANSACTIONS", &mut |_, scene| scene.network.chain.max_transactions_per_block = 6);
    expect("SELF_SIGNED_TRANSACTION", &mut |_, scene| {
        scene.link(&CAROL, LinkRole::Remote, &DAVE, LinkMode::Activate, 360);
    });
    expect("SELF_SIGNED_TRANSACTION", &mut |one, _| one.signer = CAROL);
    expect("SELF_SIGNED_TRANSACTION", &mut |one, _| one.transactions.truncate(4));
    // Known transactions show last: the result is neutral, and every failure replaces it.
    expect("WRONG_NETWORK", &mut |one, _| one.version = wire_version(NetworkByte::TESTNET, 2));
    expect("ENTITY_INVALID_VERSION", &mut |one, _| one.version = wire_version(NetworkByte::TESTNET, 1));
    expect("UNKNOWN", &mut |one, scene| {
        scene.network.chain.forks.treasury_hashes = one.transactions.iter().map(Transaction::hash).collect();
    });
    expect("CONFLICTING_MULTISIG_MODIFICATION", &mut |one, scene| {
        one.transactions.truncate(3);
        scene.network.chain.forks.treasury_fallback_hashes = one.transactions.iter().map(Transaction::hash).collect();
    });
    expect("CONFLICTING_MOSAIC_CREATION", &mut |one, scene| {
        one.transactions.remove(0);
        scene.network.chain.forks.treasury_reissuance = 1;
    });
    expect("NEUTRAL", &mut |_, scene| scene.known.clear());
    expect("SUCCESS", &mut |one, _| one.timestamp = Timestamp(NOW.0 + 101));
    expect("TIMESTAMP_TOO_FAR_IN_FUTURE", &mut |one, _| {
        one.timestamp = NOW;
        one.transactions[0].deadline = Timestamp(NOW.0 - 1);
    });
    expect("PAST_DEADLINE", &mut |one, _| one.transactions[0].deadline = NOW);
    expect("SUCCESS", &mut |_, _| {});
}

/// One of the blocked keys.
const BLOCKED: [u8; 32] = [
    0xb7, 0x4e, 0x39, 0x14, 0xb1, 0x3c, 0xb7, 0x42, 0xdf, 0xbc, 0xee, 0xf1, 0x10, 0xd8, 0x5b, 0xad, 0x14, 0xbd, 0x3b,
    0xb7, 0x70, 0x51, 0xa0, 0x8b, 0xe9, 0x3c, 0x0f, 0x8a, 0x06, 0x51, 0xfd, 0xe2,
];

#[test]
fn a_mosaic_is_neither_used_nor_its_namespace_rented_in_the_block_that_defines_it() {
    let creation = define(definition(None));
    let holds = |others: &[&Transaction]| {
        let mut content = ConflictSet::default();
        for one in others {
            content.add(content.conflict_keys(std::slice::from_ref(*one)).unwrap());
        }
        short(content.conflict_keys(std::slice::from_ref(&creation)).map(drop))
    };
    assert_eq!(holds(&[]), "SUCCESS");
    assert_eq!(holds(&[&creation, &provision(ALICE, Some("alice"), "sub", 10)]), "SUCCESS");
    assert_eq!(holds(&[&provision(ALICE, None, "alice", 100)]), "CONFLICTING_MOSAIC_CREATION");
    let coins = transfer(ALICE, BOB, 1, vec![Mosaic { id: coin(), quantity: 1 }]);
    assert_eq!(holds(&[&coins]), "CONFLICTING_MOSAIC_CREATION");
    assert_eq!(holds(&[&multisig(BOB, coins, &[])]), "CONFLICTING_MOSAIC_CREATION");
}

/// Returns transactions that often conflict: of two accounts, with two mosaics of each of two namespaces.
fn conflicting(signer: bool, kind: u8, which: u8) -> Transaction {
    let signer = if signer { ALICE } else { BOB };
    let namespace = if which & 1 == 0 { "one" } else { "two" };
    let name = if which & 2 == 0 { "coin" } else { "note" };
    let id = MosaicId::parse(&format!("{namespace}:{name}")).unwrap();
    match kind % 6 {
        0 => modify(signer, &[(ModificationKind::Add, CAROL)], None),
        1 => define(MosaicDefinition { id, ..definition(None) }),
        2 => transfer(signer, CAROL, 1, vec![Mosaic { id, quantity: 1 }]),
        3 => {
            let kind = SupplyChangeKind::Create;
            transaction(signer, Body::MosaicSupplyChange(MosaicSupplyChange { mosaic: id, kind, delta: 1 }))
        }
        4 if which & 2 == 0 => provision(signer, None, namespace, 100),
        4 => provision(signer, Some(namespace), "sub", 10),
        _ => multisig(CAROL, conflicting(signer == ALICE, kind / 6 % 5, which), &[DAVE]),
    }
}

/// B10, independently of [`ConflictSet`]: no account changes its cosignatories twice.
fn one_modification_per_account<'t>(transactions: impl IntoIterator<Item = &'t Transaction>) -> RuleResult {
    let mut changed = BTreeSet::new();
    for transaction in transactions.into_iter().flat_map(Transaction::self_and_children) {
        let is_change = matches!(transaction.body, Body::AggregateModification(_));
        require(
            !is_change || changed.insert(transaction.signer.0),
            ValidationResult::FailureConflictingMultisigModification,
        )?;
    }
    Ok(())
}

/// B11, independently of [`ConflictSet`]: no mosaic is used, and its namespace is not rented, in the block that defines it, whatever the order.
fn mosaics_do_not_conflict<'t>(transactions: impl IntoIterator<Item = &'t Transaction> + Clone) -> RuleResult {
    let all = || transactions.clone().into_iter().flat_map(Transaction::self_and_children);
    let defined: BTreeSet<&MosaicId> = all().filter_map(defined_mosaic).collect();
    let conflicts = |transaction: &Transaction| match &transaction.body {
        Body::Transfer(body) => body.mosaics.iter().any(|mosaic| defined.contains(&mosaic.id)),
        Body::MosaicSupplyChange(body) => defined.contains(&body.mosaic),
        Body::ProvisionNamespace(body) => {
            body.name().is_ok_and(|name| defined.iter().any(|mosaic| mosaic.namespace == name))
        }
        _ => false,
    };
    require(defined.is_empty() || !all().any(conflicts), ValidationResult::FailureConflictingMosaicCreation)
}

fn defined_mosaic(transaction: &Transaction) -> Option<&MosaicId> {
    match &transaction.body {
        Body::MosaicDefinitionCreation(body) => Some(&body.definition.id),
        _ => None,
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_transaction_is_added_only_if_the_block_stays_conflict_free(
        list in proptest::collection::vec((proptest::bool::ANY, 0u8..30, 0u8..4), 1..8),
    ) {
        let (mut content, mut added) = (ConflictSet::default(), Vec::new());
        for (signer, kind, which) in list {
            let one = conflicting(signer, kind, which);
            added.push(one.clone());
            let whole = one_modification_per_account(&added).and_then(|()| mosaics_do_not_conflict(&added));
            if whole.is_err() {
                added.pop();
            }
            let outcome = content.conflict_keys(&[one]).map(|addition| content.add(addition));
            let at_once = ConflictSet::default().conflict_keys(&added).map(drop);
            proptest::prop_assert!(whole.is_err() || at_once.is_ok());
            proptest::prop_assert_eq!(short(outcome), short(whole));
        }
    }
}
