//! Harvesting on a chain of 61 blocks, with the accounts that each test sets up.

use std::collections::BTreeMap;
use std::rc::Rc;

use tempfile::TempDir;

use super::*;
use crate::chain::{CandidateBranch, StakeCache, Verified, proof, pushed_branch};
use crate::crypto::{KeyPair, PrivateKey, PublicKey, Signature};
use crate::model::network::{MOSAIC_SINK, test_network};
use crate::model::transaction::{
    AggregateModification, Cosignature, LinkMode, Modification, ModificationKind, MosaicDefinitionCreation,
    MosaicSupplyChange, Multisig, SupplyChangeKind, Transfer, wire_version,
};
use crate::model::{
    Address, Amount, Block, BlockKind, Body, Hash256, Height, Mosaic, MosaicDefinition, MosaicId, MosaicProperties,
    NamespaceId, Network, NetworkByte, Timestamp, Transaction,
};
use crate::rules::{Purpose, Rejection, ValidationContext, ValidationResult, check_transaction};
use crate::state;
use crate::state::{
    Account, AccountImportance, BlockContext, Effect, ImportanceListWriter, Ledger, LinkRole, MAX_BALANCE,
    RecalculationRecord, RemoteLink, VestedBalance, put_account,
};
use crate::store::{Snapshot, Store, StoredHeader, Table, Write, block_key, test_store};

const BYTE: NetworkByte = NetworkByte::TESTNET;
/// Time of the created blocks; their parent is 40,000 seconds older.
const NOW: Timestamp = Timestamp(100_000);
/// Height of the tip: far above the rewrite limit, so that links have matured.
const LAST: Height = Height(1000);
const FEE: u64 = 150_000;

fn pair(name: u8) -> Box<KeyPair> {
    Box::new(KeyPair::new(&PrivateKey::from_seed(&[name; 32])))
}

fn public(name: u8) -> PublicKey {
    pair(name).public()
}

fn address(name: u8) -> Address {
    Address::from_public_key(&public(name), BYTE)
}

/// Returns the hit of an account for the next block.
fn hit(name: u8) -> u64 {
    proof::hit(&proof::generation_hash(&Hash256([7; 32]), &public(name)))
}

/// A chain in its own store.
struct Fixture {
    network: Network,
    accounts: BTreeMap<Address, Account>,
    store: Store,
    _folder: TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        let network = test_network(BYTE, address(255));
        let (store, folder) = test_store();
        let scene = Fixture { network, accounts: BTreeMap::new(), store, _folder: folder };
        for height in LAST.0 - 60..=LAST.0 {
            scene.put_block(height);
        }
        scene
    }

    /// Puts a block onto the chain. Blocks are a minute apart; the tip has the time stamp 60,000.
    fn put_block(&self, height: u64) {
        let timestamp = Timestamp((height as i32 - LAST.0 as i32) * 60 + 60_000);
        let block = Block {
            kind: BlockKind::Regular,
            version: wire_version(BYTE, 1),
            timestamp,
            signer: public(255),
            signature: Some(Signature([0; 64])),
            previous_hash: Hash256::default().into(),
            height: Height(height),
            transactions: Vec::new(),
        };
        let stored = StoredHeader {
            height: Height(height),
            hash: Hash256([height as u8; 32]),
            generation_hash: Hash256([7; 32]),
            timestamp,
            difficulty: 100_000_000_000_000,
            score: 0,
            total_fee: Amount::ZERO,
            beneficiary: None,
            previous_harvests: [Height(0); 2],
            ids: (1, 1),
        };
        let mut batch = self.store.begin_write().unwrap();
        batch
            .put(Table::Blocks, &block_key(Height(height)), &stored.to_bytes(&block, &block.encode_transactions()))
            .unwrap();
        batch.commit().unwrap();
    }

    /// Changes an account that is known to the chain.
    fn with(mut self, name: u8, change: impl FnOnce(&mut Account)) -> Fixture {
        let account = self.accounts.entry(address(name)).or_insert(Account { first_height: 1, ..Account::default() });
        change(account);
        let mut batch = self.store.begin_write().unwrap();
        put_account(&mut batch, &address(name), account).unwrap();
        batch.commit().unwrap();
        self
    }

    fn with_vested(self, name: u8, units: u64) -> Fixture {
        let vested = Amount::whole(units).0;
        self.with(name, |account| account.balance = VestedBalance { height: 1, unvested: 0, vested })
    }

    /// Links an account to a remote account, at a height.
    fn linked(self, owner: u8, remote: u8, height: u64) -> Fixture {
        self.with_link(owner, remote, height, LinkMode::Activate)
    }

    fn with_link(self, owner: u8, remote: u8, height: u64, mode: LinkMode) -> Fixture {
        let link = |role, other| RemoteLink { role, linked_address: other, height: Height(height), mode };
        let scene = self.with(owner, |account| account.push_link(link(LinkRole::Owner, address(remote))));
        scene.with(remote, |account| account.push_link(link(LinkRole::Remote, address(owner))))
    }

    /// Rents a root namespace for an account, far below the tip.
    fn leased(self, owner: u8, name: &str) -> Fixture {
        let mut batch = self.store.begin_write().unwrap();
        let mut block = BlockContext::new(Height(LAST.0 - 100));
        let mut ledger = Ledger { txn: &mut batch, block: &mut block, network: &self.network };
        ledger.apply(&Effect::Namespace { owner: address(owner), name: NamespaceId::parse(name).unwrap() }).unwrap();
        batch.commit().unwrap();
        self
    }

    fn with_balance(self, address: Address, balance: VestedBalance) -> Fixture {
        let account = Account { first_height: 1, balance, ..Account::default() };
        let mut batch = self.store.begin_write().unwrap();
        put_account(&mut batch, &address, &account).unwrap();
        batch.commit().unwrap();
        self
    }

    fn multisig(self, account: u8, cosignatories: &[u8]) -> Fixture {
        let mut batch = self.store.begin_write().unwrap();
        for cosignatory in cosignatories {
            let [down, up] = [(account, *cosignatory), (*cosignatory, account)]
                .map(|(a, b)| [address(a).as_bytes().as_slice(), address(b).as_bytes()].concat());
            batch.put(Table::Cosignatories, &down, &[]).unwrap();
            batch.put(Table::CosignatoryOf, &up, &[]).unwrap();
        }
        batch.commit().unwrap();
        self
    }

    /// Gives accounts equal shares of the total importance, computed for the importance height of `at`.
    fn with_importance(self, names: &[u8], at: Height) -> Fixture {
        let mut batch = self.store.begin_write().unwrap();
        let share = 1.0 / names.len() as f64;
        let addresses: Vec<Address> = names.iter().map(|name| address(*name)).collect();
        let count = addresses.len() as u64;
        let list =
            RecalculationRecord { height: LAST.next().importance_height(), accounts_counted: count, eligible: count };
        let mut writer = ImportanceListWriter::begin(list, &mut batch).unwrap();
        let known = |address: &Address| state::account(&batch, address).unwrap();
        let accounts: Vec<(Address, Account)> = addresses.iter().map(|address| (*address, known(address))).collect();
        let numbers = accounts.iter().map(|(address, account)| put_account(&mut batch, address, account).unwrap());
        let mut numbers: Vec<_> = numbers.collect();
        numbers.sort();
        for account in numbers {
            let entry =
                AccountImportance { account, height: at.importance_height(), importance: share, page_rank: 0.0 };
            writer.push(entry, &mut batch).unwrap();
        }
        writer.finish(&mut batch).unwrap();
        batch.commit().unwrap();
        self
    }

    fn state(&self) -> Snapshot<'_> {
        self.store.snapshot().unwrap()
    }

    fn with_chain<T>(&self, act: impl FnOnce(&ChainSnapshot<'_>) -> T) -> T {
        self.with_chain_at(NOW, act)
    }

    fn with_chain_at<T>(&self, now: Timestamp, act: impl FnOnce(&ChainSnapshot<'_>) -> T) -> T {
        act(&ChainSnapshot { snapshot: &self.state(), network: &self.network, height: LAST, now })
    }

    /// Returns the indices of the transactions that a block of account 1 contains.
    fn selected(&self, unconfirmed: &[Transaction]) -> Vec<usize> {
        let candidates = unconfirmed.iter().cloned().map(Rc::new).collect();
        let mut choice = TxSelection::new(candidates, &address(1), LAST.next(), NOW, &self.network);
        self.with_chain(|chain| while choice.step(chain).unwrap() {});
        let place = |chosen: &Rc<Transaction>| unconfirmed.iter().position(|one| *one == **chosen).unwrap();
        choice.selected.iter().map(place).collect()
    }

    fn unlocked(&self, names: &[u8]) -> UnlockedAccounts {
        let mut unlocked = UnlockedAccounts::new(4);
        for name in names {
            assert_eq!(self.unlock(&mut unlocked, *name), UnlockResult::Success);
        }
        unlocked
    }

    fn unlock(&self, unlocked: &mut UnlockedAccounts, name: u8) -> UnlockResult {
        self.unlock_as(KeyOrigin::LocalClient, unlocked, name)
    }

    fn configure(&self, unlocked: &mut UnlockedAccounts, name: u8) -> UnlockResult {
        self.unlock_as(KeyOrigin::Configured, unlocked, name)
    }

    fn unlock_as(&self, origin: KeyOrigin, unlocked: &mut UnlockedAccounts, name: u8) -> UnlockResult {
        self.with_chain(|chain| unlocked.unlock(pair(name), origin, chain)).unwrap()
    }

    fn begin(&self, unlocked: &mut UnlockedAccounts) -> Option<HarvestRound> {
        self.with_chain(|chain| HarvestRound::begin(unlocked, chain)).unwrap()
    }

    fn step(
        &self,
        tick: &mut HarvestRound,
        unlocked: &UnlockedAccounts,
        unconfirmed: &[Transaction],
    ) -> HarvestProgress {
        let unconfirmed = || unconfirmed.iter().cloned().map(Rc::new).collect();
        self.with_chain(|chain| tick.step(unlocked, unconfirmed, chain)).unwrap()
    }

    /// Runs a harvest round to its end. Returns its block and the errors of discarded blocks.
    fn tick(&self, unlocked: &mut UnlockedAccounts) -> (Option<Harvested>, Vec<String>) {
        let (mut discarded, mut tick) = (Vec::new(), self.begin(unlocked).unwrap());
        loop {
            match self.step(&mut tick, unlocked, &[]) {
                HarvestProgress::Working => {}
                HarvestProgress::Discarded(account, error) => discarded.push(format!("{account}: {error}")),
                HarvestProgress::Done(harvested) => return (harvested, discarded),
            }
        }
    }
}

fn transaction(signer: u8, body: Body) -> Transaction {
    Transaction {
        version: wire_version(BYTE, 1),
        timestamp: Timestamp(NOW.0 - 10),
        signer: public(signer),
        signature: Some(Signature([0; 64])),
        fee: Amount(FEE),
        deadline: Timestamp(NOW.0 + 10),
        body,
    }
}

/// A transfer; the units distinguish transfers of the same accounts.
fn transfer(from: u8, to: u8, units: u64) -> Transaction {
    let body = Transfer { recipient: address(to), amount: Amount::whole(units), message: None, mosaics: Vec::new() };
    transaction(from, Body::Transfer(body))
}

fn cosignature(signer: u8, account: u8, inner: &Transaction) -> Transaction {
    let body = Cosignature { other_hash: inner.hash().into(), other_account: address(account) };
    transaction(signer, Body::Cosignature(body))
}

/// The inner transaction is signed by account 20.
fn multisig(initiator: u8, cosignatories: &[u8], inner: Transaction) -> Transaction {
    let cosignatures = cosignatories.iter().map(|name| cosignature(*name, 20, &inner)).collect();
    let inner = Transaction { signature: None, ..inner };
    transaction(initiator, Body::Multisig(Box::new(Multisig { inner, cosignatures })))
}

#[test]
fn selection_takes_only_transactions_before_the_block_and_before_their_deadline() {
    let scene = Fixture::new().with_vested(2, 100);
    let at = |timestamp, deadline| Transaction {
        timestamp: Timestamp(NOW.0 + timestamp),
        deadline: Timestamp(NOW.0 + deadline),
        ..transfer(2, 3, 1)
    };
    assert_eq!(scene.selected(&[at(0, 10), at(-1, 10), at(-10, -1), at(-10, 0)]), [1, 3]);
}

#[test]
fn selection_leaves_out_transactions_signed_by_the_harvester() {
    let scene = Fixture::new().with_vested(1, 100).with_vested(2, 100);
    assert_eq!(scene.selected(&[transfer(1, 3, 1), transfer(2, 1, 1)]), [1]);
}

#[test]
fn the_first_transaction_that_does_not_fit_ends_the_selection() {
    let mut scene =
        Fixture::new().with_vested(2, 100).with_vested(10, 100).with_vested(20, 100).multisig(20, &[10, 11]);
    scene.network.chain.max_transactions_per_block = 6;
    let unconfirmed = [
        transfer(2, 3, 1),
        transfer(2, 3, 2),
        multisig(10, &[11], transfer(20, 3, 3)),
        multisig(10, &[11], transfer(20, 3, 4)),
        transfer(2, 3, 5),
    ];
    assert_eq!(scene.selected(&unconfirmed), [0, 1, 2]);
    scene.network.chain.max_transactions_per_block = 9;
    assert_eq!(scene.selected(&unconfirmed), [0, 1, 2, 3, 4]);
}

#[test]
fn a_transaction_may_spend_only_income_from_transactions_selected_before_it() {
    let scene = Fixture::new().with_vested(2, 100);
    let (brings, spends) = (transfer(2, 3, 50), transfer(3, 4, 40));
    assert_eq!(scene.selected(&[brings.clone(), spends.clone()]), [0, 1]);
    assert_eq!(scene.selected(&[spends, brings]), [1]);
}

#[test]
fn a_transaction_that_raises_an_exception_does_not_stop_the_selection() {
    let scene = Fixture::new().with_vested(2, 100);
    let mut unknown = transfer(2, 3, 1);
    unknown.version = wire_version(BYTE, 2);
    if let Body::Transfer(body) = &mut unknown.body {
        body.mosaics = vec![Mosaic { id: MosaicId::parse("no:such").unwrap(), quantity: 1 }];
    }
    let state = scene.state();
    let context = ValidationContext {
        state: &state,
        block: None,
        network: &scene.network,
        height: LAST.next(),
        now: NOW,
        purpose: Purpose::Block,
    };
    let rejection = check_transaction(&unknown, &context).unwrap_err();
    assert!(matches!(rejection, Rejection::Exception(_)), "{rejection}");
    assert_eq!(scene.selected(&[unknown, transfer(2, 3, 2)]), [1]);
}

#[test]
fn a_transaction_that_cannot_be_applied_leaves_no_trace() {
    let full = VestedBalance { height: LAST.0, unvested: MAX_BALANCE, vested: 0 };
    let scene = Fixture::new().with_vested(2, 100).with_vested(10, 100).with_vested(20, 100).multisig(20, &[10, 11]);
    let scene = scene.with(3, |account| account.balance = full);
    let mut fails = multisig(10, &[11], transfer(20, 3, 1));
    if let Body::Multisig(body) = &mut fails.body {
        body.cosignatures[0].fee = Amount::whole(50);
    }
    // It fails after the cosignature fee was paid; if that were kept, the last transaction would lack the fee.
    assert_eq!(scene.selected(&[transfer(2, 4, 1), fails, multisig(10, &[11], transfer(20, 4, 90))]), [0, 2]);
}

#[test]
fn a_definition_that_cannot_be_applied_leaves_no_mosaic() {
    let scene = Fixture::new().with_vested(2, 1000).leased(2, "two");
    let sink = Address::from_public_key(&MOSAIC_SINK, BYTE);
    let definition = MosaicDefinition {
        creator: public(2),
        id: MosaicId::parse("two:coins").unwrap(),
        description: "coins".to_owned(),
        properties: MosaicProperties { divisibility: 0, initial_supply: 1, supply_mutable: true, transferable: true },
        levy: None,
    };
    let (mosaic, kind) = (definition.id.clone(), SupplyChangeKind::Create);
    let body = MosaicDefinitionCreation { definition, creation_fee_sink: sink, creation_fee: Amount::whole(10) };
    let fails = transaction(2, Body::MosaicDefinitionCreation(Box::new(body)));
    let uses = transaction(2, Body::MosaicSupplyChange(MosaicSupplyChange { mosaic, kind, delta: 1 }));
    assert_eq!(scene.selected(&[fails.clone(), uses.clone()]), [0]);
    let full = VestedBalance { height: LAST.0, unvested: MAX_BALANCE, vested: 0 };
    let scene = scene.with_balance(sink, full);
    // The mosaic is defined before crediting the fee fails.
    assert_eq!(scene.selected(&[fails, uses, transfer(2, 3, 1)]), [2]);
}

/// Returns the greatest number of changes and reverts that a candidate causes.
fn most_writes(scene: &Fixture, unconfirmed: &[Transaction], selected: usize) -> usize {
    let candidates = unconfirmed.iter().cloned().map(Rc::new).collect();
    let mut selection = TxSelection::new(candidates, &address(1), LAST.next(), NOW, &scene.network);
    let mut most = 0;
    loop {
        let before = selection.changes.writes;
        if !scene.with_chain(|chain| selection.step(chain)).unwrap() {
            break;
        }
        most = most.max(selection.changes.writes - before);
    }
    assert_eq!(selection.selected.len(), selected);
    most
}

#[test]
fn a_candidate_costs_the_same_after_many_selected_ones() {
    let mut scene = Fixture::new().with_vested(2, 1_000_000);
    scene.network.chain.max_transactions_per_block = 10_000;
    let unconfirmed: Vec<Transaction> = (0..1000).map(|units| transfer(2, 3, units % 50)).collect();
    let writes = |count: usize| most_writes(&scene, &unconfirmed[..count], count);
    assert_eq!(writes(1000), writes(50));
    assert!(writes(50) > 0);
}

#[test]
fn a_candidate_costs_the_same_after_many_failed_ones() {
    let full = VestedBalance { height: LAST.0, unvested: MAX_BALANCE, vested: 0 };
    let mut scene = Fixture::new().with_vested(2, 1_000_000).with(3, |account| account.balance = full);
    scene.network.chain.max_transactions_per_block = 10_000;
    let unconfirmed: Vec<Transaction> = (0..400).map(|place: u32| transfer(2, 3 + (place % 2) as u8, 1)).collect();
    let writes = |count: usize| most_writes(&scene, &unconfirmed[..count], count / 2);
    assert_eq!(writes(400), writes(20));
}

#[test]
fn two_modifications_of_the_same_multisig_account_exclude_each_other() {
    let scene = Fixture::new().with_vested(2, 100).with_vested(3, 100);
    let change = |signer, cosignatory| {
        let added = Modification { kind: ModificationKind::Add, cosignatory: public(cosignatory) };
        let body = AggregateModification { modifications: vec![added], min_cosignatories_change: None };
        Transaction { fee: Amount(500_000), ..transaction(signer, Body::AggregateModification(body)) }
    };
    assert_eq!(scene.selected(&[change(2, 10), change(2, 11), change(3, 12)]), [0, 2]);
}

#[test]
fn multisig_transactions_need_their_cosignatures_which_are_never_selected_alone() {
    let scene = Fixture::new().with_vested(10, 100).with_vested(20, 100).multisig(20, &[10, 11]);
    let inner = transfer(20, 3, 1);
    let unconfirmed = [
        multisig(10, &[], inner.clone()),
        cosignature(11, 20, &inner),
        multisig(10, &[11], cosignature(20, 20, &inner)),
        multisig(10, &[11], multisig(20, &[], inner.clone())),
        multisig(10, &[11], inner),
    ];
    assert_eq!(scene.selected(&unconfirmed), [4]);
}

#[test]
fn the_treasury_block_takes_listed_transactions_by_age_and_prefers_the_fallback() {
    let mut scene = Fixture::new();
    let aged = |units, age| Transaction { timestamp: Timestamp(NOW.0 - age), ..transfer(2, 3, units) };
    let unconfirmed = [aged(1, 10), aged(2, 30), aged(3, 20), aged(4, 40)];
    let hashes: Vec<Hash256> = unconfirmed.iter().map(Transaction::hash).collect();
    let forks = &mut scene.network.chain.forks;
    forks.treasury_reissuance = LAST.next().0;
    forks.treasury_hashes = vec![hashes[1], hashes[2], hashes[0]];
    assert_eq!(scene.selected(&unconfirmed), [1, 2, 0]);
    scene.network.chain.forks.treasury_fallback_hashes = vec![hashes[3]];
    assert_eq!(scene.selected(&unconfirmed), [3]);
    assert_eq!(scene.selected(&unconfirmed[..3]), [1, 2, 0]);
}

#[test]
fn an_account_is_unlocked_if_it_is_known_and_has_enough_vested() {
    let scene = Fixture::new().with_vested(1, 10_000).with(2, |account| {
        account.balance = VestedBalance { height: 999, unvested: 1, vested: Amount::whole(10_000).0 - 1 };
    });
    let mut unlocked = UnlockedAccounts::new(4);
    assert_eq!(scene.unlock(&mut unlocked, 1), UnlockResult::Success);
    assert_eq!(scene.unlock(&mut unlocked, 2), UnlockResult::HarvestingIneligible);
    assert_eq!(scene.unlock(&mut unlocked, 3), UnlockResult::UnknownAccount);
    assert!(unlocked.contains(&address(1)) && !unlocked.contains(&address(2)));
    assert_eq!(unlocked.count(), 1);
}

#[test]
fn a_remote_account_uses_the_balance_of_its_owner_from_the_first_link() {
    let scene = Fixture::new().with_vested(1, 10_000).linked(1, 2, LAST.0).linked(3, 4, LAST.0);
    let mut unlocked = UnlockedAccounts::new(4);
    assert_eq!(scene.unlock(&mut unlocked, 2), UnlockResult::Success);
    assert_eq!(scene.unlock(&mut unlocked, 4), UnlockResult::HarvestingIneligible);
}

#[test]
fn the_unlocked_limit_is_exact_and_a_negative_one_is_unlimited() {
    let scene = Fixture::new().with_vested(1, 10_000).with_vested(2, 10_000);
    assert_eq!(scene.unlock(&mut UnlockedAccounts::new(0), 1), UnlockResult::ServerLimit);
    let mut one = UnlockedAccounts::new(1);
    assert_eq!(scene.unlock(&mut one, 1), UnlockResult::Success);
    assert_eq!(scene.unlock(&mut one, 2), UnlockResult::ServerLimit);
    assert_eq!(scene.unlock(&mut one, 1), UnlockResult::Success, "it harvests already");
    let mut unlimited = UnlockedAccounts::new(-1);
    assert_eq!(scene.unlock(&mut unlimited, 1), UnlockResult::Success);
    assert_eq!(scene.unlock(&mut unlimited, 2), UnlockResult::Success);
}

#[test]
fn at_the_limit_the_last_key_of_the_least_origin_gives_way_to_a_better_origin() {
    use KeyOrigin::{Configured, LocalClient, RemoteClient};
    let scene = (1..=7).fold(Fixture::new(), |scene, name| scene.with_vested(name, 10_000));
    let mut unlocked = UnlockedAccounts::new(3);
    let names =
        |unlocked: &UnlockedAccounts| (1..=7).filter(|name| unlocked.contains(&address(*name))).collect::<Vec<u8>>();
    for name in [3, 1, 2] {
        assert_eq!(scene.unlock_as(RemoteClient, &mut unlocked, name), UnlockResult::Success);
    }
    assert_eq!(scene.unlock_as(RemoteClient, &mut unlocked, 4), UnlockResult::ServerLimit);
    assert_eq!(scene.unlock_as(LocalClient, &mut unlocked, 9), UnlockResult::UnknownAccount);
    assert_eq!(names(&unlocked), [1, 2, 3], "only a key that may harvest takes a place");
    assert_eq!(scene.unlock_as(LocalClient, &mut unlocked, 4), UnlockResult::Success);
    assert_eq!(names(&unlocked), [1, 3, 4]);
    // A remote client cannot lower the origin of a key, and a local one raises it.
    assert_eq!(scene.unlock_as(RemoteClient, &mut unlocked, 4), UnlockResult::Success);
    assert_eq!(scene.unlock_as(LocalClient, &mut unlocked, 3), UnlockResult::Success);
    assert_eq!(scene.unlock_as(LocalClient, &mut unlocked, 5), UnlockResult::Success);
    assert_eq!(names(&unlocked), [3, 4, 5]);
    assert_eq!(scene.unlock_as(LocalClient, &mut unlocked, 6), UnlockResult::ServerLimit);
    for (name, left) in [(6, [3, 4, 6]), (7, [3, 6, 7]), (1, [1, 6, 7])] {
        assert_eq!(scene.unlock_as(Configured, &mut unlocked, name), UnlockResult::Success);
        assert_eq!(names(&unlocked), left);
    }
    assert_eq!(scene.unlock_as(Configured, &mut unlocked, 2), UnlockResult::ServerLimit);
}

#[test]
fn a_configured_key_that_becomes_eligible_takes_the_place_of_a_key_of_a_remote_client() {
    let scene = Fixture::new().with_vested(2, 10_000);
    let mut unlocked = UnlockedAccounts::new(1);
    assert_eq!(scene.configure(&mut unlocked, 1), UnlockResult::UnknownAccount);
    assert_eq!(scene.unlock_as(KeyOrigin::RemoteClient, &mut unlocked, 2), UnlockResult::Success);
    assert!(scene.begin(&mut unlocked).is_some());
    assert!(unlocked.contains(&address(2)));
    let scene = scene.with_vested(1, 10_000);
    let version = unlocked.version;
    assert!(scene.begin(&mut unlocked).is_some());
    assert!(unlocked.contains(&address(1)) && !unlocked.contains(&address(2)));
    assert_ne!(unlocked.version, version);
}

#[test]
fn a_remote_account_harvests_until_its_link_has_ended() {
    let limit = Fixture::new().network.chain.rewrite_limit;
    let ended_at = |height| {
        let scene = Fixture::new().with_vested(1, 10_000).linked(1, 2, 1);
        scene.with_link(1, 2, height, LinkMode::Deactivate)
    };
    let at_limit = ended_at(LAST.next().0 - limit);
    let mut unlocked = at_limit.unlocked(&[2]);
    assert!(at_limit.begin(&mut unlocked).is_none(), "in the next block it may not harvest");
    let scene = ended_at(LAST.0 - limit);
    assert_eq!(scene.unlock(&mut unlocked, 2), UnlockResult::HarvestingIneligible);
    assert_eq!(scene.configure(&mut unlocked, 2), UnlockResult::HarvestingIneligible);
    let scene = scene.linked(1, 2, LAST.0);
    assert!(scene.begin(&mut unlocked).is_some(), "a configured key is retried once it is linked again");
}

#[test]
fn the_results_of_unlocking_have_the_names_of_the_protocol() {
    use UnlockResult::{HarvestingBlocked, HarvestingIneligible, ServerLimit, Success, UnknownAccount};
    let names = [Success, ServerLimit, HarvestingBlocked, UnknownAccount, HarvestingIneligible].map(UnlockResult::name);
    let expected = [
        "SUCCESS",
        "FAILURE_SERVER_LIMIT",
        "FAILURE_HARVESTING_BLOCKED",
        "FAILURE_UNKNOWN_ACCOUNT",
        "FAILURE_HARVESTING_INELIGIBLE",
    ];
    assert_eq!(names, expected);
}

#[test]
fn an_account_that_becomes_too_poor_is_unlocked_again_only_by_the_configuration() {
    let scene = Fixture::new().with_vested(1, 10_000).with_vested(2, 10_000);
    let mut unlocked = scene.unlocked(&[1]);
    assert_eq!(scene.configure(&mut unlocked, 2), UnlockResult::Success);
    let scene = scene.with_vested(1, 9_999).with_vested(2, 9_999);
    assert!(scene.begin(&mut unlocked).is_none());
    assert_eq!(unlocked.count(), 0);
    let scene = scene.with_vested(1, 10_000).with_vested(2, 10_000);
    assert!(scene.begin(&mut unlocked).is_some());
    assert!(!unlocked.contains(&address(1)) && unlocked.contains(&address(2)));
}

#[test]
fn the_version_of_the_unlocked_accounts_changes_whenever_one_starts_or_stops_to_harvest() {
    let scene = Fixture::new().with_vested(1, 10_000);
    let mut unlocked = UnlockedAccounts::new(4);
    let mut last = unlocked.version;
    let mut has_changed = |unlocked: &UnlockedAccounts| std::mem::replace(&mut last, unlocked.version) != last;
    assert_eq!(scene.unlock(&mut unlocked, 1), UnlockResult::Success);
    assert!(has_changed(&unlocked));
    assert_eq!(scene.unlock(&mut unlocked, 1), UnlockResult::Success);
    assert_eq!(scene.configure(&mut unlocked, 2), UnlockResult::UnknownAccount);
    unlocked.lock(&address(3));
    assert!(!has_changed(&unlocked));
    let scene = scene.with_vested(2, 10_000);
    scene.begin(&mut unlocked);
    assert!(has_changed(&unlocked));
    scene.begin(&mut unlocked);
    assert!(!has_changed(&unlocked));
    let scene = scene.with_vested(1, 9_999);
    scene.begin(&mut unlocked);
    assert!(has_changed(&unlocked));
    unlocked.lock(&address(2));
    assert!(has_changed(&unlocked));
}

#[test]
fn a_configured_account_harvests_once_eligible_unless_it_was_locked() {
    let scene = Fixture::new();
    let mut unlocked = UnlockedAccounts::new(4);
    assert_eq!(scene.configure(&mut unlocked, 1), UnlockResult::UnknownAccount);
    assert_eq!(scene.configure(&mut unlocked, 2), UnlockResult::UnknownAccount);
    unlocked.lock(&address(2));
    let scene = scene.with_vested(1, 10_000).with_vested(2, 10_000);
    assert!(scene.begin(&mut unlocked).is_some());
    assert!(unlocked.contains(&address(1)) && !unlocked.contains(&address(2)));
    unlocked.lock(&address(1));
    assert!(scene.begin(&mut unlocked).is_none());
    assert_eq!(unlocked.count(), 0);
}

#[test]
fn an_account_with_a_hit_makes_a_signed_block_on_the_tip() {
    let scene = Fixture::new().with_vested(1, 10_000).with_importance(&[1], LAST.next());
    let mut unlocked = scene.unlocked(&[1]);
    let (harvested, discarded) = scene.tick(&mut unlocked);
    let Harvested { block, hashes, score } = harvested.unwrap();
    assert_eq!(hashes, block.transactions.iter().map(Transaction::hashes).collect::<Vec<_>>());
    assert!(discarded.is_empty());
    assert_eq!((block.height, block.timestamp, block.signer), (LAST.next(), NOW, public(1)));
    assert_eq!(block.previous_hash, Hash256([LAST.0 as u8; 32]));
    assert_eq!(score, 100_000_000_000_000 - 40_000);
    let (_, good) = crate::chain::check_block_signature(
        &block,
        &block.encode_transactions(),
        false,
        &mut crate::crypto::Verifier::default(),
    );
    assert!(good);
}

#[test]
fn a_harvested_block_is_committed_before_the_disk_has_it() {
    let scene = Fixture::new().with_vested(1, 10_000).with_importance(&[1], LAST.next());
    let Harvested { block, hashes, .. } = scene.tick(&mut scene.unlocked(&[1])).0.unwrap();
    scene.store.durability().set_helper(true);
    let verified = Verified { transactions: Some(hashes), ..Verified::default() };
    let mut branch = pushed_branch(&scene.store, &scene.network, block, verified).unwrap();
    let is_committed =
        |branch: &CandidateBranch<'_>| (branch.is_committed(), scene.store.durability().has_unsynced_commit());
    while !scene.store.durability().waits_for_disk() {
        assert_eq!(is_committed(&branch), (false, false));
        assert!(branch.step(NOW, &mut StakeCache::default()).unwrap().is_none());
    }
    assert_eq!(is_committed(&branch), (true, true));
    for _ in 0..2 {
        scene.store.durability().next_sync().unwrap();
        scene.store.durability().on_synced(Ok(()));
    }
    let outcome = branch.step(NOW, &mut StakeCache::default()).unwrap().expect("it is durable");
    assert_eq!(outcome.update.map(|update| update.tip), Some(LAST.next()));
}

#[test]
fn a_hit_needs_a_time_after_the_last_block() {
    let scene = Fixture::new().with_vested(1, 10_000).with_importance(&[1], LAST.next());
    let mut unlocked = scene.unlocked(&[1]);
    for now in [0, 60_000] {
        let mut tick =
            scene.with_chain_at(Timestamp(now), |chain| HarvestRound::begin(&mut unlocked, chain)).unwrap().unwrap();
        assert!(matches!(scene.step(&mut tick, &unlocked, &[]), HarvestProgress::Working));
        assert!(matches!(scene.step(&mut tick, &unlocked, &[]), HarvestProgress::Done(None)));
    }
}

#[test]
fn an_importance_of_an_older_height_excludes_only_its_account() {
    let scene = Fixture::new().with_vested(1, 10_000).with_importance(&[1], Height(359));
    assert!(scene.tick(&mut scene.unlocked(&[1])).0.is_none());
    let scene = Fixture::new().with_vested(1, 10_000).with_vested(2, 10_000).with_importance(&[2], LAST.next());
    assert_eq!(scene.tick(&mut scene.unlocked(&[1, 2])).0.unwrap().block.signer, public(2));
}

#[test]
fn an_invalid_block_is_discarded_and_the_next_account_harvests() {
    // The owner hits, but only its remote account may sign.
    let scene = Fixture::new().with_vested(1, 10_000).linked(1, 2, 10).with_importance(&[1], LAST.next());
    let (harvested, discarded) = scene.tick(&mut scene.unlocked(&[1, 2]));
    assert_eq!(harvested.unwrap().block.signer, public(2));
    let (alone, discarded_alone) = scene.tick(&mut scene.unlocked(&[1]));
    assert!(alone.is_none());
    let name = ValidationResult::FailureIneligibleBlockSigner.name();
    assert!(discarded_alone.len() == 1 && discarded_alone[0].contains(name), "{discarded_alone:?}");
    assert_eq!(discarded.len(), usize::from(hit(1) < hit(2)), "the better draw comes first");
}

#[test]
fn the_account_with_the_best_hit_for_its_importance_makes_the_block() {
    let names = [1, 2, 3];
    let best = names.into_iter().min_by_key(|name| hit(*name)).unwrap();
    let scene = names.iter().fold(Fixture::new(), |scene, name| scene.with_vested(*name, 10_000));
    let scene = scene.with_importance(&names, LAST.next());
    assert_eq!(scene.tick(&mut scene.unlocked(&names)).0.unwrap().block.signer, public(best));
    let draws = |hit, importance| HarvestHit { hit, importance };
    assert!(draws(11, 2).hits_after(&draws(5, 1)) && !draws(5, 1).hits_after(&draws(11, 2)));
    assert!(draws(u64::MAX, 1).hits_after(&draws(u64::MAX, u64::MAX)));
    assert!(draws(20, 100).hits_after(&draws(1, 6)) && !draws(10, 2).hits_after(&draws(5, 1)));
}

#[test]
fn a_block_of_a_remote_leaves_out_the_transactions_of_its_owner() {
    let scene =
        Fixture::new().with_vested(1, 10_000).with_vested(3, 10).linked(1, 2, 10).with_importance(&[1], LAST.next());
    let unlocked = &mut scene.unlocked(&[2]);
    let unconfirmed = [transfer(1, 4, 1), transfer(3, 4, 1)];
    let mut tick = scene.begin(unlocked).unwrap();
    let block = loop {
        match scene.step(&mut tick, unlocked, &unconfirmed) {
            HarvestProgress::Working => {}
            HarvestProgress::Done(harvested) => break harvested.unwrap().block,
            discarded => panic!("{discarded:?}"),
        }
    };
    assert_eq!(block.transactions, unconfirmed[1..]);
}

#[test]
fn a_harvest_round_ends_without_a_block_if_the_tip_changes_or_the_account_is_locked() {
    let scene = Fixture::new().with_vested(1, 10_000).with_importance(&[1], LAST.next());
    let mut unlocked = scene.unlocked(&[1]);
    let mut tick = scene.begin(&mut unlocked).unwrap();
    assert!(matches!(scene.step(&mut tick, &unlocked, &[]), HarvestProgress::Working));
    let mut locked = scene.begin(&mut unlocked).unwrap();
    assert!(matches!(scene.step(&mut locked, &unlocked, &[]), HarvestProgress::Working));
    unlocked.lock(&address(1));
    for _ in 0..2 {
        assert!(matches!(scene.step(&mut locked, &unlocked, &[]), HarvestProgress::Working));
    }
    assert!(matches!(scene.step(&mut locked, &unlocked, &[]), HarvestProgress::Done(None)));
    scene.put_block(LAST.0 + 1);
    assert!(matches!(scene.step(&mut tick, &unlocked, &[]), HarvestProgress::Done(None)));
}
