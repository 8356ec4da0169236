//! Account data and mosaic supplies at earlier heights, as NIS1 answered on the recorded chains.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::common::exchange::{Exchange, read_file};
use crate::common::recorded_chain::{Chain, rows};
use crate::common::{print_notice, recorded};
use nisd::model::{Address, Height, MosaicDefinition, MosaicId};
use nisd::state::AccountHistory;
use nisd::state::registry::{HistoricalSupply, ListingIndex, SupplyQuery, definition_at};
use nisd::store::{Read, Snapshot, Store, Table};
use serde_json::Value;
use tempfile::TempDir;

/// Tolerance of doubles relative to the value: nodes of the network differ among themselves.
const TOLERANCE: f64 = 1e-14;

/// NIS1 compares some numbers by object identity; only equal numbers up to this one are the same object.
const LARGEST_CACHED_INTEGER: u64 = 127;

/// A chain with full account histories, and the recorded answers of NIS1.
struct Recording {
    chain: Chain,
    exchanges: Vec<Exchange>,
    store: Store,
    _folder: TempDir,
}

impl Recording {
    fn open(name: &str) -> Recording {
        let (mut chain, file) = (Chain::open(name), recorded(&format!("http/{name}.jsonl.gz")));
        chain.network.chain.history_from = Some(Height::NEMESIS);
        let folder = tempfile::tempdir().expect("a folder");
        let store = chain.store(folder.path());
        chain.import(&store, u64::MAX);
        Recording { chain, exchanges: read_file(&file), store, _folder: folder }
    }

    /// Iterates over the JSON answers of a route.
    fn answers(&self, path: &str) -> impl Iterator<Item = (&Exchange, Value)> {
        let found = self.exchanges.iter().filter(move |exchange| {
            exchange.path.trim_end_matches('/') == path && exchange.expected.status == 200 && exchange.method != "HEAD"
        });
        found.filter_map(|exchange| Some((exchange, serde_json::from_slice(&exchange.expected.body).ok()?)))
    }
}

fn number<T: FromStr>(value: &Value) -> T {
    value.to_string().parse().unwrap_or_else(|_| panic!("{value} is no number"))
}

fn is_close(recorded: &Value, found: f64) -> bool {
    let recorded: f64 = number(recorded);
    (recorded - found).abs() <= TOLERANCE * recorded.abs()
}

/// Compares a list of entries of one account; returns their number.
fn compare_entries(recording: &Recording, state: &Snapshot<'_>, list: &Value) -> usize {
    let (network, list) = (&recording.chain.network, list.as_array().expect("a list"));
    let mut history: Option<(String, AccountHistory)> = None;
    for entry in list {
        let text = entry["address"].as_str().expect("an address").to_owned();
        if history.as_ref().is_none_or(|(address, _)| *address != text) {
            let address = Address::parse(&text, network.byte).expect("an address");
            history = Some((text, AccountHistory::new(state, &address).expect("a store").expect("a history")));
        }
        let (_, history) = history.as_mut().expect("a history");
        let at = history.at(state, Height(number(&entry["height"])), &network.chain);
        let found = at.expect("a store").expect("a known height");
        let amounts = [found.balance.total(), found.balance.vested, found.balance.unvested];
        let recorded = ["balance", "vestedBalance", "unvestedBalance"].map(|member| number::<u64>(&entry[member]));
        assert_eq!(recorded, amounts, "{entry}");
        let doubles = [("importance", found.importance), ("pageRank", found.page_rank)];
        assert!(doubles.iter().all(|(member, found)| is_close(&entry[*member], *found)), "{entry}: found {found:?}");
    }
    list.len()
}

fn histories_and_supplies_are_as_recorded(name: &str) {
    let recording = Recording::open(name);
    let state = recording.store.snapshot().expect("a snapshot");
    let mut entries = 0;
    for (_, answer) in recording.answers("/account/historical/get") {
        entries += compare_entries(&recording, &state, &answer["data"]);
    }
    for (_, answer) in recording.answers("/account/historical/get/batch") {
        for list in answer["data"].as_array().expect("lists") {
            entries += compare_entries(&recording, &state, &list["data"]);
        }
    }
    assert!(entries > 100, "{name}: {entries} entries");
    let (mut supplies, mut others) = (0, 0);
    for (exchange, answer) in recording.answers("/local/mosaic/definition/supply") {
        let is_other = compare_supply(&state, exchange, &answer, u32::MAX);
        assert_eq!(compare_supply(&state, exchange, &answer, 1), is_other, "in small pieces");
        supplies += 1;
        others += u32::from(is_other);
    }
    print_notice(&format!("{name}: {entries} account entries, {supplies} supplies, {others} with an equal levy"));
    assert!(supplies > 10 && others < 5, "{name}: {supplies} supplies, {others} of them with an equal levy");
}

for_each_chain!(account_histories_supplies_and_expirations_are_as_recorded, histories_and_supplies_are_as_recorded);

/// Returns the heights of the importance lists in a store.
fn lists(store: &Store) -> BTreeSet<u64> {
    let keys = store.snapshot().expect("a snapshot").keys_with_prefix(Table::Importances, &[]).expect("a store");
    keys.iter().map(|key| u64::from_be_bytes(key[..8].try_into().expect("a height"))).collect()
}

#[test]
#[ignore = "slow: a whole recorded chain"]
fn importances_are_kept_from_the_configured_height_and_pruned_gradually() {
    let mut chain = Chain::open("all-forks");
    let folder = tempfile::tempdir().expect("a folder");
    chain.network.chain.history_from = Some(Height(1000));
    let store = chain.store(folder.path());
    let groups = |from: u64, to: u64| (from..=to).map(|number| number * 359).collect::<BTreeSet<_>>();
    chain.import(&store, 3600);
    assert_eq!(lists(&store), groups(2, 10), "the one in force at height 1000 is the first");
    chain.network.chain.history_from = None;
    for (to, first) in [(3948, 2), (3949, 4), (4010, 4)] {
        chain.import(&store, to);
        assert_eq!(lists(&store).first(), Some(&(first * 359)), "at height {to}");
    }
}

/// Returns the requested mosaic and height; `None` if the request does not have the usual form.
fn requested_supply(exchange: &Exchange) -> Option<(MosaicId, Height)> {
    let query = exchange.query.as_ref()?.replace("%20", " ").replace("+", " ").replace("%27", "'").replace("%3A", ":");
    let mut parameters = query.split('&').map(|parameter| parameter.split_once('='));
    let (mut id, mut height) = (None, Height(u64::MAX - 1));
    while let Some(Some((name, value))) = parameters.next() {
        match name.to_lowercase().as_str() {
            "mosaicid" => id = MosaicId::parse(value).ok(),
            "height" if !value.is_empty() => height = Height(value.parse().ok()?),
            _ => {}
        }
    }
    Some((id?, height))
}

/// Compares one answer, computed in chunks of `rows` rows. Returns whether the supply differs because the definition
/// has a levy whose fee NIS1 treats as different from an equal one.
fn compare_supply(state: &impl Read, exchange: &Exchange, answer: &Value, rows: u32) -> bool {
    let Some((id, height)) = requested_supply(exchange) else { panic!("{} is not of the usual form", exchange.line()) };
    let recorded = answer["data"].as_array().expect("a list");
    let Some(mut query) = SupplyQuery::new(state, &id, height).expect("a store") else {
        assert!(recorded.is_empty(), "{}: {answer}", exchange.line());
        return false;
    };
    let mut pieces = 0;
    let found = loop {
        let mut left = rows;
        let visit = || {
            left -= 1;
            left > 0
        };
        pieces += 1;
        match query.resume(state, visit).expect("a store") {
            Some(found) => break found,
            None => assert!(pieces < 100_000, "it never ends"),
        }
    };
    let [recorded] = recorded.as_slice() else { panic!("{}: {answer}", exchange.line()) };
    let (supply, expiration): (i64, u64) = (number(&recorded["supply"]), number(&recorded["expirationHeight"]));
    let line = exchange.line();
    assert_eq!(Some(expiration), found.expiration.map(|height| height.0), "{line}");
    compare_definition(&recorded["mosaicDefinition"], &found.definition);
    let is_other = supply != found.units;
    if is_other {
        let fee = found.definition.levy.as_ref().map(|levy| levy.fee);
        assert!(
            fee.is_some_and(|fee| fee > LARGEST_CACHED_INTEGER),
            "{line}: expected {supply}, found {}",
            found.units
        );
        assert_eq!(supply, supply_since(state, &found, height), "{line}");
    }
    is_other
}

/// Returns the supply of a mosaic at a height, ignoring what preceded its definition.
fn supply_since(state: &impl Read, found: &HistoricalSupply, height: Height) -> i64 {
    let mut rows_before = ListingIndex::DefinitionsOf(&found.definition.id).before(state, u64::MAX).expect("a store");
    let is_it = |row: &u64| definition_at(state, *row).expect("a definition").1 == found.definition;
    let newest = rows_before.find_map(|row| Some(row.expect("a row")).filter(is_it));
    let mut supply = found.definition.properties.initial_supply as i64;
    for (key, value) in rows(state, Table::SupplyChanges, &newest.expect("a row").to_be_bytes()) {
        let at = u64::from_be_bytes(key[8..16].try_into().expect("a height"));
        supply += if at <= height.0 { i64::from_le_bytes(value.try_into().expect("units")) } else { 0 };
    }
    supply
}

fn compare_definition(recorded: &Value, found: &MosaicDefinition) {
    let property = |name: &str| {
        let properties = recorded["properties"].as_array().expect("properties");
        let property = properties.iter().find(|property| property["name"] == name).expect("the property");
        property["value"].as_str().expect("a text").to_owned()
    };
    assert_eq!(recorded["creator"], found.creator.to_string());
    assert_eq!(recorded["description"], found.description.as_str());
    assert_eq!(property("initialSupply"), found.properties.initial_supply.to_string());
    assert_eq!(property("divisibility"), found.properties.divisibility.to_string());
    let levy_fee = found.levy.as_ref().map(|levy| levy.fee);
    assert_eq!(recorded["levy"].get("fee").map(number::<u64>), levy_fee);
}

#[test]
fn a_rollback_undoes_supply_changes() {
    let (chain, folder) = (Chain::tiny(), tempfile::tempdir().expect("a folder"));
    let store = chain.store(folder.path());
    let coin = MosaicId::parse("tiny:coin").expect("a mosaic");
    let supply = || {
        let snapshot = store.snapshot().expect("a snapshot");
        let mut query = SupplyQuery::new(&snapshot, &coin, Height(1000)).expect("a store")?;
        Some(query.resume(&snapshot, || true).expect("a store").expect("an end").units)
    };
    chain.import(&store, 60);
    assert_eq!(supply(), Some(1_000_400));
    for (height, expected) in [(50, Some(1_000_500)), (15, Some(1_000_000)), (9, None)] {
        chain.roll_back(&store, height).expect("a rollback");
        assert_eq!(supply(), expected, "at height {height}");
    }
}
