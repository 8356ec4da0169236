//! Account data at earlier heights, which a store keeps if it is configured to, on the chain that is part of the
//! project.

use std::collections::BTreeMap;

use crate::common::daemon::CommandOutput;
use crate::common::data_folder::{ChainFiles, DataFolder, text};
use crate::common::recorded_chain::{Chain, digest_of, rows, tip_of};
use nisd::model::{Address, Height};
use nisd::state::{self, AccountHistory, AccountId, HistoryEntry};
use nisd::store::{AccessMode, Read, Store, Table};
use tempfile::TempDir;

const TIP: u64 = 60;

/// A store that keeps histories at times.
struct HistoryStore {
    chain: Chain,
    store: Store,
    _folder: TempDir,
}

impl HistoryStore {
    fn new(history_from: Option<u64>) -> HistoryStore {
        let (chain, folder) = (Chain::tiny(), tempfile::tempdir().expect("a folder"));
        let store = chain.store(folder.path());
        let mut place = HistoryStore { chain, store, _folder: folder };
        place.set_history(history_from);
        place
    }

    /// Keeps histories from a height on, or none.
    fn set_history(&mut self, history_from: Option<u64>) {
        self.chain.network.chain.history_from = history_from.map(Height);
    }

    fn import(&self, to: u64) {
        self.chain.import(&self.store, to);
        assert_eq!(tip_of(&self.store).height.0, to);
    }

    fn roll_back(&self, to: u64) {
        self.chain.roll_back(&self.store, to).expect("a rollback");
    }

    /// Returns the height from which histories are known.
    fn known_from(&self) -> Option<u64> {
        let snapshot = self.store.snapshot().expect("a snapshot");
        state::history_from(&snapshot, tip_of(&self.store).height).expect("a store").map(|height| height.0)
    }

    /// Returns the history entries of all accounts at all heights.
    fn history(&self) -> BTreeMap<(Address, u64), HistoryEntry> {
        let snapshot = self.store.snapshot().expect("a snapshot");
        let mut found = BTreeMap::new();
        for address in addresses(&snapshot) {
            let Some(mut history) = AccountHistory::new(&snapshot, &address).expect("a store") else { continue };
            for height in 0..=TIP + 1 {
                let entry = history.at(&snapshot, Height(height), &self.chain.network.chain).expect("a store");
                found.extend(entry.map(|entry| ((address, height), entry)));
            }
            // The order of the requested heights does not matter.
            for height in [TIP, 1, 30, 29, 31] {
                let entry = history.at(&snapshot, Height(height), &self.chain.network.chain).expect("a store");
                assert_eq!(entry.as_ref(), found.get(&(address, height)), "{address} at {height}");
            }
        }
        found
    }

    fn rows(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        rows(&self.store.snapshot().expect("a snapshot"), Table::BalanceHistory, &[])
    }
}

fn addresses(state: &impl Read) -> Vec<Address> {
    let keys = state.keys_with_prefix(Table::Accounts, &[]).expect("a store");
    keys.iter().map(|key| AccountId::split_key(key).unwrap().0.address(state).unwrap()).collect()
}

/// Returns the data of all accounts at all heights from a store imported up to each height.
fn expected_history() -> BTreeMap<(Address, u64), HistoryEntry> {
    let whole = HistoryStore::new(None);
    whole.import(TIP);
    let all = addresses(&whole.store.snapshot().expect("a snapshot"));
    let (place, mut found) = (HistoryStore::new(None), BTreeMap::new());
    for height in 1..=TIP {
        place.import(height);
        let snapshot = place.store.snapshot().expect("a snapshot");
        for address in &all {
            let balance = state::account(&snapshot, address).unwrap().balance;
            let importance = state::importance(&snapshot, address).unwrap();
            let entry = HistoryEntry {
                balance: balance.at(Height(height), &place.chain.network.chain),
                importance: importance.map_or(0.0, |entry| entry.importance),
                page_rank: importance.map_or(0.0, |entry| entry.page_rank),
            };
            found.insert((*address, height), entry);
        }
    }
    found
}

#[test]
fn the_account_history_has_the_balances_at_every_height() {
    let place = HistoryStore::new(Some(1));
    place.import(TIP);
    let history = place.history();
    assert_eq!(history, expected_history());
    let changing = |(address, height): &(Address, u64)| {
        let later = history.get(&(*address, height + 1));
        later.is_some_and(|later| later.balance.total() != history[&(*address, *height)].balance.total())
    };
    assert!(history.keys().filter(|key| changing(key)).count() > 50, "a chain on which balances change");
}

#[test]
fn the_account_history_does_not_affect_consensus_and_is_absent_if_disabled() {
    let (with, without) = (HistoryStore::new(Some(1)), HistoryStore::new(None));
    for height in [1, 20, TIP] {
        with.import(height);
        without.import(height);
        assert_eq!(digest_of(&with.store), digest_of(&without.store));
    }
    assert!(without.rows().is_empty() && without.known_from().is_none() && without.history().is_empty());
    assert_eq!(with.known_from(), Some(1));
}

#[test]
fn the_account_history_begins_at_the_configured_height() {
    let expected = expected_history();
    for from in [2, 35, TIP] {
        let place = HistoryStore::new(Some(from));
        place.import(from - 1);
        assert_eq!((place.known_from(), place.rows().len()), (None, 0), "before height {from}");
        place.import(TIP);
        assert_eq!(place.known_from(), Some(from));
        let expected: BTreeMap<_, _> =
            expected.clone().into_iter().filter(|((_, height), _)| *height >= from).collect();
        assert!(place.history() == expected, "from height {from}");
    }
}

#[test]
fn a_toggled_account_history_is_known_only_since_it_was_last_enabled() {
    let (expected, mut place) = (expected_history(), HistoryStore::new(None));
    let is_right = |place: &HistoryStore, from: u64| {
        assert_eq!(place.known_from(), Some(from));
        let last = tip_of(&place.store).height.0;
        let mut expected = expected.clone();
        let known: Vec<Address> = addresses(&place.store.snapshot().unwrap());
        expected.retain(|(address, height), _| (from..=last).contains(height) && known.contains(address));
        assert!(place.history() == expected, "from height {from} to {last}");
    };
    place.import(10);
    place.set_history(Some(1));
    assert_eq!(place.known_from(), None);
    place.import(30);
    is_right(&place, 11);
    place.set_history(None);
    is_right(&place, 11);
    place.import(31);
    assert_eq!(place.known_from(), None);
    place.import(40);
    place.set_history(Some(1));
    place.import(50);
    is_right(&place, 41);
    // Undoing blocks removes their history entries and restores the earlier ones.
    place.roll_back(45);
    is_right(&place, 41);
    place.roll_back(41);
    is_right(&place, 41);
    place.roll_back(40);
    assert_eq!(place.known_from(), None);
    place.roll_back(30);
    is_right(&place, 11);
    place.import(TIP);
    is_right(&place, 11);
    place.roll_back(10);
    assert_eq!((place.known_from(), place.rows().len()), (None, 0));
    place.import(TIP);
    is_right(&place, 11);
}

#[test]
fn a_rollback_restores_the_account_history() {
    let place = HistoryStore::new(Some(1));
    for height in [1, 7, 30, 59] {
        place.import(TIP);
        place.roll_back(height);
        let straight = HistoryStore::new(Some(1));
        straight.import(height);
        assert_eq!(place.rows(), straight.rows(), "height {height}");
    }
}

/// The chain `tiny` in a data folder that commands work on.
struct TinyStore {
    chain: ChainFiles,
    folder: DataFolder,
}

impl TinyStore {
    /// Creates it with the chain up to a height and these settings.
    fn with(to: u64, settings: &[&str]) -> TinyStore {
        let store = TinyStore { chain: ChainFiles::of("tiny"), folder: DataFolder::new() };
        store.import(to, settings);
        store
    }

    /// Imports blocks; returns the log.
    fn import(&self, to: u64, settings: &[&str]) -> String {
        let to = to.to_string();
        let arguments = [settings, &["--stop-at", &to]].concat();
        self.chain.import(&self.folder.path(), &arguments).expect_success().stderr
    }

    fn run(&self, command: &str, arguments: &[&str]) -> CommandOutput {
        self.folder.run(command, arguments)
    }

    fn reindex(&self, settings: &[&str]) -> String {
        self.run("reindex", &[&["--config", text(&self.chain.config)], settings].concat()).expect_success().stderr
    }

    fn known_from(&self) -> Option<u64> {
        let store = self.folder.open(AccessMode::Shared);
        let snapshot = store.snapshot().expect("a snapshot");
        state::history_from(&snapshot, tip_of(&store).height).expect("a store").map(|height| height.0)
    }

    fn is_without_history(&self) -> bool {
        let store = self.folder.open(AccessMode::Shared);
        !store.snapshot().expect("a snapshot").has_prefix(Table::BalanceHistory, &[]).expect("a store")
    }
}

const ON: [&str; 2] = ["--set", "nis.optionalFeatures=TRANSACTION_HASH_LOOKUP|HISTORICAL_ACCOUNT_DATA"];
const FROM_20: [&str; 4] = [ON[0], ON[1], "--set", "nisd.historyFrom=20"];

#[test]
fn an_incomplete_account_history_is_reported_and_rebuilt_by_a_reindex() {
    let folder = TinyStore::with(40, &[]);
    let said = folder.import(50, &ON);
    assert!(said.contains("known from height 41 on") && said.contains("`nisd reindex`"), "{said}");
    assert_eq!(folder.known_from(), Some(41));
    let digest = folder.run("digest", &[]).expect_success().text();
    // The store remembers what it was configured to keep.
    assert!(folder.run("reindex", &[]).expect_success().stderr.contains("known from height 1 on"));
    assert_eq!(folder.known_from(), Some(1));
    assert!(folder.reindex(&FROM_20).contains("known from height 20 on"));
    assert_eq!(folder.known_from(), Some(20));
    let said = folder.import(TIP, &[]);
    assert!(said.contains("no longer kept") && said.contains("height 50"), "{said}");
    assert!(folder.known_from().is_none() && !folder.is_without_history());
    folder.reindex(&[]);
    assert!(folder.is_without_history());
    folder.run("rollback", &["--to", "50"]).expect_success();
    assert_eq!(folder.run("digest", &[]).expect_success().text(), digest);
}

#[test]
fn a_check_verifies_the_account_history_from_its_first_known_height() {
    let plain = TinyStore::with(TIP, &[]).run("check", &[]).expect_success().text();
    let mixed = TinyStore::with(30, &[]);
    mixed.import(45, &ON);
    mixed.run("check", &[]).expect_success();
    mixed.import(50, &[]);
    mixed.run("check", &[]).expect_success();
    mixed.import(TIP, &ON);
    for folder in [&mixed, &TinyStore::with(TIP, &ON), &TinyStore::with(TIP, &FROM_20)] {
        assert_eq!(folder.run("check", &[]).expect_success().text(), plain);
    }
}
