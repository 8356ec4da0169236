//! Tests mosaics against a model that copies and removes balances as NIS1 does.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::crypto::PublicKey;
use crate::model::mosaic::{LevyKind, MosaicProperties};
use crate::model::network::test_network;
use crate::model::transaction::Transfer;
use crate::model::{Amount, Body, Hash256, Levy, Mosaic, NamespaceId, Network, NetworkByte, Timestamp, Transaction};
use crate::state::{self, BlockContext, Effect, ExpiredCursor, ExpiredRow, ExpiryKind};
use crate::store::{StoredHeader, WriteTxn, test_store};

/// Number of accounts that own the namespace and hold the mosaic.
const ACCOUNTS: u8 = 4;
/// Term of a lease in blocks.
const TERM: u64 = 365 * 1440;

fn key(number: u8) -> PublicKey {
    PublicKey([number; 32])
}

fn account(number: u8) -> Address {
    Address::from_public_key(&key(number), NetworkByte::TESTNET)
}

fn id() -> MosaicId {
    MosaicId::parse("alice.vouchers:gift").unwrap()
}

fn definition(creator: u8, text: u8, supply: u64) -> MosaicDefinition {
    MosaicDefinition {
        creator: key(creator),
        id: id(),
        description: text.to_string(),
        properties: MosaicProperties {
            divisibility: 0,
            initial_supply: supply,
            supply_mutable: true,
            transferable: true,
        },
        levy: None,
    }
}

fn network(redefinition_fork: u64) -> Network {
    let mut network = test_network(NetworkByte::TESTNET, account(99));
    network.chain.forks.mosaic_redefinition = redefinition_fork;
    assert_eq!(network.chain.blocks_per_year(), TERM);
    network
}

/// One action per block.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// The owner defines the mosaic with this description and supply.
    Define(u8, u64),
    /// Transfers units from one account to another.
    Transfer(u8, u8, u64),
    /// Transfers all units of an account.
    TransferAll(u8, u8),
    Supply(u64, bool),
    /// Deletes all units of the creator.
    DeleteAll,
    /// The owner renews the root.
    Renew,
    /// The owner (0) or another account rents the root long after the last lease has ended, or even was pruned.
    RentLater(u8, bool),
    /// The last lease ends.
    End,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let deed = prop_oneof![
        4 => (0..3u8, 100..102u64).prop_map(|(text, supply)| Action::Define(text, supply)),
        4 => (0..ACCOUNTS, 0..ACCOUNTS, 0..60u64).prop_map(|(from, to, quantity)| Action::Transfer(from, to, quantity)),
        4 => (0..ACCOUNTS, 0..ACCOUNTS).prop_map(|(from, to)| Action::TransferAll(from, to)),
        2 => (1..50u64, any::<bool>()).prop_map(|(delta, more)| Action::Supply(delta, more)),
        1 => Just(Action::DeleteAll),
        2 => Just(Action::Renew),
        2 => (0..2u8, any::<bool>()).prop_map(|(owner, forgotten)| Action::RentLater(owner, forgotten)),
        2 => Just(Action::End),
    ];
    prop::collection::vec(deed, 1..60)
}

type Balances = BTreeMap<u8, u64>;
type Log = Vec<(u64, ExpiryKind, Balances)>;

/// A simple model of one mosaic in one namespace.
#[derive(Clone, Default)]
struct Model {
    height: u64,
    owner: u8,
    /// Height of the last lease.
    began: u64,
    has_ended: bool,
    /// Terms, supply and balances of each definition.
    definitions: Vec<(u64, u64, Balances)>,
    creator: u8,
    invested: BTreeSet<u8>,
    log: Log,
}

impl Model {
    fn holders(&self) -> Balances {
        self.definitions.last().map(|(_, _, balances)| balances.clone()).unwrap_or_default()
    }

    fn update(&mut self, who: u8) {
        if who == self.creator || self.holders().contains_key(&who) {
            self.invested.insert(who)
        } else {
            self.invested.remove(&who)
        };
    }

    fn define(&mut self, supply: u64, after_fork: bool) {
        let copy = match self.definitions.last() {
            Some((terms, now, balances)) if after_fork && *terms == supply => (supply, *now, balances.clone()),
            last => {
                if last.is_some() && !after_fork {
                    self.log.push((self.height, ExpiryKind::Expired, self.holders()));
                }
                (supply, supply, [(self.owner, supply)].into())
            }
        };
        self.creator = self.owner;
        self.definitions.push(copy);
        self.update(self.owner);
    }

    /// Adds to the balance of an account; returns whether the sum is not negative.
    fn add(&mut self, who: u8, quantity: i64) -> bool {
        let Some((_, _, balances)) = self.definitions.last_mut() else { return false };
        let sum = balances.get(&who).map_or(0, |has| *has as i64) + quantity;
        match sum {
            0 => drop(balances.remove(&who)),
            _ => drop(balances.insert(who, sum as u64)),
        }
        sum >= 0
    }

    fn rent(&mut self, owner: u8) {
        if owner == self.owner && (self.began > 0) {
            self.invested.extend(self.holders().keys());
            if self.height >= self.began + TERM && !self.definitions.is_empty() {
                self.log.push((self.height, ExpiryKind::Restored, self.holders()));
            }
        } else {
            self.definitions.clear();
        }
        (self.owner, self.began, self.has_ended) = (owner, self.height, false);
    }

    fn end(&mut self) {
        self.height = self.began + TERM;
        let holders = self.holders();
        self.invested.retain(|who| !holders.contains_key(who));
        if !self.definitions.is_empty() {
            self.log.push((self.height, ExpiryKind::Expired, self.holders()));
        }
        self.has_ended = true;
    }
}

/// The model and the state side by side.
struct World<'a, 'b> {
    network: Network,
    batch: &'a mut WriteTxn<'b>,
    model: Model,
}

impl World<'_, '_> {
    fn in_block(&mut self, act: impl FnOnce(&mut Ledger<'_, WriteTxn<'_>>) -> StateResult) {
        let mut block = BlockContext::new(Height(self.model.height));
        let mut ledger = Ledger { txn: self.batch, block: &mut block, network: &self.network };
        act(&mut ledger).unwrap();
        ledger.flush().unwrap();
    }

    fn apply(&mut self, effects: &[Effect<'_>]) {
        self.in_block(|ledger| effects.iter().try_for_each(|effect| ledger.apply(effect)));
    }

    fn rent(&mut self, owner: u8) {
        self.model.rent(owner);
        let names = ["alice", "alice.vouchers"].map(|name| NamespaceId::parse(name).unwrap());
        let [root, child] = names.map(|name| Effect::Namespace { owner: account(owner), name });
        self.apply(&[root]);
        let lease = state::leases(self.batch, "alice").unwrap().pop().unwrap();
        if !state::is_in_lease(self.batch, &lease, &id().namespace).unwrap() {
            self.apply(&[child]);
        }
    }

    fn apply_action(&mut self, deed: Action) {
        self.model.height += 1;
        let mosaic = id();
        // Units of an expired mosaic still move as levies. The rules allow no other change.
        let is_there = self.model.began > 0 && !self.model.definitions.is_empty();
        let is_alive = !self.model.has_ended && is_there;
        match deed {
            Action::Define(text, supply) if !self.model.has_ended => {
                let after_fork = self.model.height >= self.network.chain.forks.mosaic_redefinition;
                self.model.define(supply, after_fork);
                self.apply(&[Effect::Definition(&definition(self.model.owner, text, supply))]);
            }
            Action::Transfer(from, to, quantity) if is_there => {
                let has = self.model.holders().get(&from).copied().unwrap_or(0);
                self.transfer(from, to, quantity.min(has), &mosaic);
            }
            Action::TransferAll(from, to) if is_there => {
                let has = self.model.holders().get(&from).copied().unwrap_or(0);
                self.transfer(from, to, has, &mosaic);
            }
            Action::Supply(delta, true) if is_alive => {
                self.model.add(self.model.creator, delta as i64);
                self.model.definitions.last_mut().unwrap().1 += delta;
                self.change_supply(delta, SupplyChangeKind::Create);
            }
            Action::Supply(_, false) | Action::DeleteAll if is_alive => {
                let has = self.model.holders().get(&self.model.creator).copied().unwrap_or(0);
                let delta = if let Action::Supply(delta, _) = deed { delta.min(has) } else { has };
                self.model.add(self.model.creator, -(delta as i64));
                self.model.definitions.last_mut().unwrap().1 -= delta;
                if !self.model.holders().contains_key(&self.model.creator) {
                    self.model.invested.remove(&self.model.creator);
                }
                self.change_supply(delta, SupplyChangeKind::Delete);
            }
            Action::Renew => self.rent(self.model.owner),
            Action::RentLater(owner, forgotten) if self.model.has_ended => {
                self.model.height = self.model.height.max(self.model.began + TERM + 45_000);
                if forgotten {
                    while namespaces::prune_oldest(self.batch, Height(self.model.height)).unwrap() {}
                    self.model.began = 0;
                    self.model.definitions.clear();
                }
                self.rent(owner);
            }
            Action::End if !self.model.has_ended => {
                self.model.end();
                self.in_block(|ledger| {
                    let mut expiry = ledger.expiry()?;
                    while expiry.step(ledger)? {}
                    Ok(())
                });
            }
            _ => {}
        }
    }

    fn transfer(&mut self, from: u8, to: u8, quantity: u64, mosaic: &MosaicId) {
        assert!(self.model.add(from, -(quantity as i64)) && self.model.add(to, quantity as i64));
        self.model.update(from);
        self.model.update(to);
        self.apply(&[Effect::MosaicTransfer {
            from: account(from),
            to: account(to),
            mosaic: Cow::Borrowed(mosaic),
            quantity,
        }]);
    }

    fn change_supply(&mut self, delta: u64, kind: SupplyChangeKind) {
        let supplier = account(self.model.creator);
        self.apply(&[Effect::Supply { supplier, mosaic: &id(), delta, kind }]);
    }

    /// Compares all queries.
    fn compare(&self) -> Result<(), TestCaseError> {
        let numbers: BTreeMap<Address, u8> = (0..ACCOUNTS).map(|number| (account(number), number)).collect();
        let balances = |version, lease_state| {
            let mut found = Balances::new();
            let visited = for_each_balance(self.batch, version, lease_state, None, |account, has| {
                if has > 0 {
                    found.insert(numbers[&account.address(self.batch)?], has);
                }
                Ok(true)
            });
            visited.map(|()| found).unwrap()
        };
        let found = if self.model.began == 0 { Vec::new() } else { history(self.batch, &id()).unwrap() };
        prop_assert_eq!(found.len(), self.model.definitions.len());
        for ((version, entry), (_, supply, expected)) in found.iter().zip(&self.model.definitions) {
            prop_assert_eq!(entry.supply, *supply);
            prop_assert_eq!(&balances(*version, LeaseState(u32::MAX)), expected);
        }
        for who in 0..ACCOUNTS {
            let has = self.model.holders().get(&who).copied().unwrap_or(0);
            prop_assert_eq!(state::mosaic_balance(self.batch, &id(), &account(who)).unwrap(), has);
            let is_invested = self.model.invested.contains(&who);
            prop_assert_eq!(state::holds_mosaic(self.batch, &account(who)).unwrap(), is_invested, "{}", who);
            let holdings = state::holdings(self.batch, &account(who)).unwrap();
            prop_assert_eq!(holdings, if is_invested { vec![id()] } else { Vec::new() });
        }
        let mut found: Log = Vec::new();
        let heights: BTreeSet<u64> = self.model.log.iter().map(|(height, ..)| *height).collect();
        for height in heights {
            let mut cursor = ExpiredCursor::new(Height(height));
            loop {
                match cursor.step(self.batch).unwrap() {
                    ExpiredRow::Mosaic(expired) => {
                        found.push((height, expired.kind, balances(expired.version, expired.lease_state)));
                    }
                    ExpiredRow::Absent => {}
                    ExpiredRow::End => break,
                }
            }
        }
        prop_assert_eq!(&found, &self.model.log);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    #[ignore = "slow: computes for long"]
    fn lazy_mosaic_balances_equal_the_copying_model(
        deeds in actions(),
        fork in prop_oneof![Just(0), Just(10), Just(u64::MAX)],
    ) {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let model = Model { height: 1, ..Model::default() };
        let mut world = World { network: network(fork), batch: &mut batch, model };
        world.rent(0);
        for deed in deeds {
            world.apply_action(deed);
            world.compare()?;
        }
    }
}

/// Returns the journal bytes of an action when `holders` accounts hold the mosaic.
fn cost(holders: u32, act: impl FnOnce(&mut World<'_, '_>)) -> usize {
    let (store, _folder) = test_store();
    let mut batch = store.begin_write().unwrap();
    let model = Model { height: 1, ..Model::default() };
    let mut world = World { network: network(0), batch: &mut batch, model };
    world.rent(0);
    world.apply_action(Action::Define(0, 1_000_000));
    for number in 0..holders {
        let mut key = [7; 32];
        key[..4].copy_from_slice(&number.to_le_bytes());
        let to = Address::from_public_key(&PublicKey(key), NetworkByte::TESTNET);
        world.apply(&[Effect::MosaicTransfer { from: account(0), to, mosaic: Cow::Owned(id()), quantity: 1 }]);
    }
    world.batch.take_journal();
    act(&mut world);
    world.batch.take_journal().len()
}

#[test]
fn redefinition_lease_end_and_renewal_cost_is_independent_of_the_holders() {
    let acts: [fn(&mut World<'_, '_>); 3] = [
        |world| world.apply_action(Action::Define(1, 1_000_000)),
        |world| world.apply_action(Action::End),
        |world| world.apply_action(Action::Renew),
    ];
    for act in acts {
        assert_eq!(cost(3_000, act), cost(3, act));
    }
    let forgotten = |world: &mut World<'_, '_>| {
        world.apply_action(Action::End);
        world.apply_action(Action::RentLater(1, true));
    };
    assert_eq!(cost(3_000, forgotten), cost(3, forgotten));
}

#[test]
fn an_unreferenced_mosaic_owner_is_in_the_dump_until_the_undo() {
    let (store, _folder) = test_store();
    let mut batch = store.begin_write().unwrap();
    let mut world = World { network: network(0), batch: &mut batch, model: Model { height: 1, ..Model::default() } };
    world.rent(0);
    let levy = Levy { kind: LevyKind::Absolute, recipient: account(77), mosaic: id(), fee: 5 };
    world.apply(&[Effect::Definition(&MosaicDefinition { levy: Some(levy), ..definition(0, 0, 1000) })]);
    world.batch.take_journal();
    let block = StoredHeader {
        height: Height(1),
        hash: Hash256::default(),
        generation_hash: Hash256::default(),
        timestamp: Timestamp(0),
        difficulty: 0,
        score: 0,
        total_fee: Amount(0),
        beneficiary: None,
        previous_harvests: [Height(0); 2],
        ids: (0, 0),
    };
    let dumped = |world: &World<'_, '_>| -> serde_json::Value {
        let mut text = Vec::new();
        crate::state::dump(&*world.batch, &world.network, &block, &mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    };
    let before = dumped(&world);
    let transfer = Transfer {
        recipient: account(1),
        amount: Amount::whole(1),
        message: None,
        mosaics: vec![Mosaic { id: id(), quantity: 10 }],
    };
    let transaction = Transaction {
        version: 0,
        timestamp: Timestamp(0),
        signer: key(0),
        signature: None,
        fee: Amount(0),
        deadline: Timestamp(0),
        body: Body::Transfer(transfer),
    };
    let mut effects = Vec::new();
    crate::state::effects(&transaction, &*world.batch, world.network.byte, &mut effects).unwrap();
    // Currency balances do not matter here.
    effects.retain(|effect| !matches!(effect, Effect::Debit { .. }));
    world.apply(&effects);
    let after = dumped(&world);
    let entry = |dump: &serde_json::Value, who: u8| {
        let accounts = dump["accounts"].as_array().unwrap();
        accounts.iter().find(|one| one["address"] == account(who).as_str()).cloned()
    };
    let receiver = entry(&after, 77).unwrap();
    assert_eq!((&receiver["known"], &receiver["balance"]), (&false.into(), &0.into()));
    assert_eq!(receiver["mosaicIds"], serde_json::json!([id().to_string()]));
    assert!(receiver["firstHeight"].is_null());
    assert_eq!(entry(&after, 1).unwrap()["known"], true);
    let journal = world.batch.take_journal();
    world.batch.undo(&journal).unwrap();
    assert_eq!(entry(&dumped(&world), 77), None);
    assert_eq!(dumped(&world), before);
}

#[test]
fn holdings_are_read_in_parts_and_one_that_does_not_count_hides_no_other() {
    let (store, _folder) = test_store();
    let mut batch = store.begin_write().unwrap();
    let mut world = World { network: network(0), batch: &mut batch, model: Model { height: 1, ..Model::default() } };
    world.rent(0);
    let [a, b, c] = ["a", "b", "c"].map(|name| MosaicId::parse(&format!("alice.vouchers:{name}")).unwrap());
    for id in [&a, &b, &c] {
        world.apply(&[Effect::Definition(&MosaicDefinition { id: id.clone(), ..definition(0, 0, 10) })]);
    }
    let part = |world: &World<'_, '_>, after| {
        let mut part = Vec::new();
        state::for_each_holding_after(&*world.batch, &account(0), after, |id, is_invested| {
            part.push((id, is_invested));
            Ok(part.len() < 2)
        })
        .unwrap();
        part
    };
    let first = vec![(a.clone(), true), (b.clone(), true)];
    assert_eq!(part(&world, None), first);
    assert_eq!(part(&world, Some(&b)), [(c, true)]);
    let supply = |mosaic, kind| Effect::Supply { supplier: account(0), mosaic, delta: 10, kind };
    world.apply(&[supply(&b, SupplyChangeKind::Create)]);
    assert_eq!(part(&world, None), first, "a creator who has units");
    world.apply(&[supply(&a, SupplyChangeKind::Delete), supply(&a, SupplyChangeKind::Create)]);
    assert_eq!(part(&world, None), [(a, false), (b, true)], "one who had none");
    assert!(holds_mosaic(&*world.batch, &account(0)).unwrap());
}
