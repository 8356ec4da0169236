//! Importances against vectors of NIS1, bit for bit. The section `stateOrder` is about tables that this node does not
//! have.

use std::collections::{BTreeMap, BTreeSet};

use nisd::chain::proof::effective_importance;
use nisd::crypto::PublicKey;
use nisd::importance::graph::{ClusterRole, Graph, SparseMatrix};
use nisd::importance::java_hash_map::{JavaHashMapOrder, Visit, capacity};
use nisd::importance::loops::{Csr, GroupAccess, Loop};
use nisd::importance::rank::Scores;
use nisd::importance::{Calculation, CalculationParameters, Importances, decay};
use nisd::model::{Address, Amount, Height, NetworkByte};
use nisd::state::{AccountId, AccountImportance, Outlink};
use serde_json::Value;

use super::values::{bits, list, number, numbers, text, to_bits};
use crate::common::vector_group;

const BLOCKS_PER_DAY: u64 = 1440;
const TOTAL: Amount = Amount::whole(9_000_000_000);

fn section(name: &str) -> Value {
    vector_group("poi", name)
}

fn decimals(value: &Value) -> Vec<f64> {
    list(value).iter().map(|value| value.as_f64().expect("a number")).collect()
}

fn all_bits(value: &Value) -> Vec<u64> {
    list(value).iter().map(bits).collect()
}

fn address(value: &Value) -> Address {
    let text = text(value);
    let network = match text.as_bytes()[0] {
        b'N' => NetworkByte::MAINNET,
        b'M' => NetworkByte::MIJINNET,
        _ => NetworkByte::TESTNET,
    };
    Address::parse(text, network).unwrap_or_else(|| panic!("not an address: {text}"))
}

fn addresses(value: &Value) -> Vec<Address> {
    list(value).iter().map(address).collect()
}

/// Returns addresses that are in no vector.
fn other_addresses(count: u8) -> Vec<Address> {
    (0..count).map(|number| Address::from_public_key(&PublicKey([number; 32]), NetworkByte::TESTNET)).collect()
}

/// Accounts in order of enumeration: address and vested balance.
type Accounts = Vec<(Address, u64)>;
/// Height, sender, recipient and weight.
type Links = Vec<(u64, Address, Address, u64)>;

fn in_given_order(height: u64) -> CalculationParameters {
    CalculationParameters { known_accounts: None, ..CalculationParameters::new(Height(height), BLOCKS_PER_DAY, 0) }
}

/// Returns the numbers of accounts: first those passed in, in order of their addresses, then the others.
fn numbered(accounts: &Accounts, links: &Links) -> BTreeMap<Address, u32> {
    let sorted: BTreeSet<Address> = accounts.iter().map(|account| account.0).collect();
    let others: BTreeSet<Address> = links.iter().map(|link| link.2).filter(|other| !sorted.contains(other)).collect();
    sorted.into_iter().chain(others).zip(0..).collect()
}

/// Returns a finished calculation; each account has its index as its first height.
fn calculate(settings: CalculationParameters, accounts: &Accounts, links: &Links, slice: u32) -> Calculation {
    let mut calculation = Calculation::new(settings);
    let numbers = numbered(accounts, links);
    let places: BTreeMap<_, _> = accounts.iter().enumerate().map(|(place, account)| (account.0, place)).collect();
    assert_eq!(places.len(), accounts.len());
    for (address, place) in places {
        let first_height = if settings.known_accounts.is_none() { place as u64 } else { 1 };
        calculation.add_account(numbers[&address], address, Amount(accounts[place].1), Height(first_height));
    }
    for (height, sender, recipient, weight) in links {
        let [sender, to] = [sender, recipient].map(|party| AccountId(numbers[party]));
        let outlink = Outlink { sender, recipient: to, weight: *weight, recipient_hash: recipient.java_hash() };
        calculation.add_outlinks(Height(*height), [outlink]);
    }
    while calculation.step(slice).expect("importances") {}
    calculation
}

fn by_address(results: Importances, accounts: &Accounts) -> BTreeMap<Address, AccountImportance> {
    assert!(results.accounts.is_sorted_by_key(|account| account.account));
    let addresses: Vec<Address> = numbered(accounts, &Links::new()).into_keys().collect();
    results.accounts.into_iter().map(|one| (addresses[one.account.0 as usize], one)).collect()
}

/// Returns the nodes of every cluster, hubs and outliers.
fn partition(graph: &Graph) -> (BTreeSet<Vec<u64>>, Vec<u64>, Vec<u64>) {
    let (mut blocks, mut hubs, mut outliers) = (BTreeMap::<u32, Vec<u64>>::new(), Vec::new(), Vec::new());
    for (node, (block, role)) in graph.block.iter().zip(&graph.roles).enumerate() {
        match role {
            ClusterRole::Member => blocks.entry(*block).or_default().push(node as u64),
            ClusterRole::Hub => hubs.push(node as u64),
            ClusterRole::Outlier => outliers.push(node as u64),
        }
    }
    (blocks.into_values().collect(), hubs, outliers)
}

fn expected_partition(expected: &Value) -> (BTreeSet<Vec<u64>>, Vec<u64>, Vec<u64>) {
    let clusters = list(&expected["clusters"]).iter().map(numbers).collect();
    (clusters, numbers(&expected["hubs"]), numbers(&expected["outliers"]))
}

/// Returns the entries of a matrix: row, column and bits of the value.
fn entries(matrix: &SparseMatrix) -> Vec<(u64, u64, u64)> {
    let row = |row| matrix.group(row).iter().map(move |(column, m)| (row as u64, u64::from(*column), m.to_bits()));
    (0..matrix.groups()).flat_map(row).collect()
}

fn expected_entries(expected: &Value) -> Vec<(u64, u64, u64)> {
    list(expected).iter().map(|entry| (number(&entry[0]), number(&entry[1]), bits(&entry[2]))).collect()
}

/// Returns the rows of a matrix regardless of their order.
fn rows(entries: Vec<(u64, u64, u64)>) -> Vec<Vec<(u64, u64)>> {
    let mut rows = BTreeMap::<u64, Vec<_>>::new();
    entries.into_iter().for_each(|(row, column, bits)| rows.entry(row).or_default().push((column, bits)));
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.sort();
    rows
}

#[test]
fn outlinks_decay() {
    let rows = section("decay");
    let decays: Vec<_> = (0..31).map(|days| decay(days).expect("a day of the window")).collect();
    assert_eq!(to_bits(&decays), all_bits(&rows));
    assert_eq!(decay(31), None);
}

#[test]
fn addresses_have_the_hashes_of_java() {
    let rows = section("hashes");
    for row in list(&rows) {
        assert_eq!(u64::from(address(&row[0]).java_hash()), number(&row[2]), "{row}");
    }
}

#[test]
fn keys_are_in_the_order_of_java_hash_maps() {
    let rows = section("hashOrder");
    for row in list(&rows) {
        let (mut table, mut first) = (JavaHashMapOrder::new(300), BTreeMap::new());
        let mut inserted = Vec::new();
        for (index, key) in addresses(&row["keys"]).into_iter().enumerate() {
            if first.insert(key, index).is_none() {
                table.insert(key.java_hash());
                inserted.push(index as u64);
            }
        }
        assert_eq!(u64::from(table.capacity), number(&row["capacity"]), "{row}");
        let mut order = Vec::new();
        loop {
            match table.visit() {
                Visit::Pending => {}
                Visit::Key(key) => order.push(inserted[key]),
                Visit::End => break,
            }
        }
        assert_eq!(order, numbers(&row["order"]), "{row}");
    }
}

/// Runs a stage to its end in slices of one unit.
fn in_small_slices(mut stage: impl FnMut(&mut Loop) -> bool) {
    let mut work = Loop::default();
    loop {
        work.begin_slice(1);
        if stage(&mut work) {
            return;
        }
    }
}

#[test]
fn graphs_have_the_clusters_and_the_proximity_of_the_reference() {
    let graphs = section("clustering");
    for graph in list(&graphs) {
        let nodes = number(&graph["n"]) as usize;
        let edges: BTreeSet<_> =
            list(&graph["edges"]).iter().map(|edge| (number(&edge[0]), number(&edge[1]))).collect();
        let mut outflows = Csr::default();
        for column in 0..nodes as u64 {
            edges.iter().filter(|edge| edge.1 == column).for_each(|edge| outflows.items.push((edge.0 as u32, 1.0)));
            outflows.close_group();
        }
        let mut found = Graph::new(outflows, graph["epsilon"].as_f64().expect("a number"));
        in_small_slices(|work| found.step(work));
        assert_eq!(partition(&found), expected_partition(graph), "{graph}");
        assert_eq!(rows(entries(&found.proximity)), rows(expected_entries(&graph["R"])), "{graph}");
    }
}

#[test]
fn scores_are_combined_as_by_the_reference() {
    let inputs = section("scorer");
    for input in list(&inputs) {
        let part = |name: &str| decimals(&input[name]);
        let (outlinks, vested) = (part("outlinkScore"), part("vested"));
        let (ranks, weights) = (part("pageRank"), part("graphWeight"));
        let mut scores = Scores::default();
        in_small_slices(|work| scores.combine_stakes(&outlinks, &vested, work));
        in_small_slices(|work| scores.combine_ranks(&ranks, |account| weights[account], work));
        in_small_slices(|work| scores.normalise(work));
        assert_eq!(to_bits(&scores.values), all_bits(&input["expected"]), "{input}");
    }
}

/// Returns the input of one calculation of the section `poi`.
fn poi_input(case: &Value) -> (CalculationParameters, Accounts, Links) {
    let known = addresses(&case["addresses"]);
    let mut settings = in_given_order(number(&case["height"]));
    if let Some(minimum) = case["options"]["minOutlinkWeight"].as_f64() {
        settings.min_flow = minimum;
    }
    if let Some(epsilon) = case["options"]["epsilon"].as_f64() {
        settings.similarity = epsilon;
    }
    let (mut accounts, mut links) = (Vec::new(), Vec::new());
    for account in list(&case["accounts"]) {
        let sender = known[number(&account[0]) as usize];
        accounts.push((sender, number(&account[1])));
        for link in list(&account[2]) {
            links.push((number(&link[0]), sender, known[number(&link[1]) as usize], number(&link[2])));
        }
    }
    (settings, accounts, links)
}

#[test]
fn complete_calculations_equal_those_of_the_reference_in_every_bit() {
    let cases = section("poi");
    assert_eq!(list(&cases).len(), 24);
    for case in list(&cases) {
        let (settings, accounts, links) = poi_input(case);
        let (name, expected) = (case["name"].as_str().expect("a name"), &case["expected"]);
        let calculation = calculate(settings, &accounts, &links, u32::MAX);
        assert_eq!(to_bits(&calculation.flows.scores), all_bits(&expected["outlinkScore"]), "{name}");
        let graph = &calculation.graph;
        let dangling: Vec<_> = graph.dangling.iter().map(|node| u64::from(*node)).collect();
        assert_eq!(dangling, numbers(&expected["dangling"]), "{name}");
        assert_eq!(partition(graph), expected_partition(expected), "{name}");
        if expected["matrix"].is_array() {
            assert_eq!(entries(&graph.rows), expected_entries(&expected["matrix"]), "{name}");
            let proximity = rows(entries(&graph.proximity));
            assert_eq!(proximity, rows(expected_entries(&expected["R"])), "{name}");
        }
        let results = calculation.into_results();
        assert!(results.accounts.iter().all(|one| one.height == settings.height), "{name}");
        assert_eq!(results.accounts_counted, accounts.len() as u64, "{name}");
        assert_eq!(u64::from(results.iterations), number(&expected["iterations"]), "{name}");
        let found = by_address(results, &accounts);
        let eligible = numbers(&expected["eligible"]);
        assert_eq!(found.len(), eligible.len(), "{name}");
        let known = addresses(&case["addresses"]);
        let found: Vec<_> = eligible.iter().map(|index| found[&known[*index as usize]]).collect();
        let importances: Vec<_> = found.iter().map(|account| account.importance).collect();
        let ranks: Vec<_> = found.iter().map(|account| account.page_rank).collect();
        assert_eq!(to_bits(&ranks), all_bits(&expected["pageRank"]), "{name}");
        assert_eq!(to_bits(&importances), all_bits(&expected["importance"]), "{name}");
        let effective: Vec<_> = importances.iter().map(|one| effective_importance(*one, TOTAL)).collect();
        assert_eq!(effective, numbers(&expected["effective"]), "{name}");
    }
}

#[test]
fn slices_of_any_size_give_the_same_bits() {
    let cases = section("poi");
    for case in list(&cases) {
        let (settings, accounts, links) = poi_input(case);
        let results = |slice| {
            let results = calculate(settings, &accounts, &links, slice).into_results();
            let bits = |one: &AccountImportance| (one.account, one.importance.to_bits(), one.page_rank.to_bits());
            results.accounts.iter().map(bits).collect::<Vec<_>>()
        };
        let whole = results(u32::MAX);
        for slice in [1, 7, 1000] {
            assert_eq!(results(slice), whole, "{}", case["name"]);
        }
    }
}

#[test]
fn stakes_are_shared_as_by_the_reference() {
    let cases = section("pos");
    for case in list(&cases) {
        let vested = numbers(&case["accounts"]);
        let holders = other_addresses(vested.len() as u8);
        let settings = CalculationParameters::new(Height(number(&case["height"])), BLOCKS_PER_DAY, 0);
        let mut calculation = Calculation::new(CalculationParameters { proof_of_stake: true, ..settings });
        for ((id, address), vested) in (0..).zip(holders).zip(&vested) {
            calculation.add_account(id, address, Amount(*vested), Height(1));
        }
        while calculation.step(3).expect("importances") {}
        let results = calculation.into_results();
        assert_eq!(results.accounts_counted, vested.len() as u64);
        let importances: Vec<_> = results.accounts.iter().map(|account| account.importance).collect();
        assert_eq!(to_bits(&importances), all_bits(&case["expected"]), "{}", case["name"]);
    }
}

/// Returns the accounts of a recalculation, padded up to `all` with accounts without a balance, and the expected page
/// ranks and importances.
fn recorded_accounts(
    recorded: &Value,
    address: impl Fn(&Value) -> Address,
) -> (Accounts, BTreeMap<Address, (u64, u64)>) {
    let mut accounts: Accounts = list(&recorded["accounts"]).iter().map(|a| (address(&a[0]), number(&a[1]))).collect();
    let expected = list(&recorded["accounts"]).iter().map(|a| (address(&a[0]), (bits(&a[2]), bits(&a[3])))).collect();
    let missing = number(&recorded["nAll"]) as usize - accounts.len();
    accounts.extend(other_addresses(missing as u8).into_iter().map(|stranger| (stranger, 0)));
    (accounts, expected)
}

fn assert_equal_bits(found: &BTreeMap<Address, AccountImportance>, expected: &BTreeMap<Address, (u64, u64)>) {
    let bits = |one: &AccountImportance| (one.page_rank.to_bits(), one.importance.to_bits());
    let found: BTreeMap<_, _> = found.iter().map(|(address, one)| (*address, bits(one))).collect();
    assert_eq!(&found, expected);
}

fn assert_nearly_equal(found: &BTreeMap<Address, AccountImportance>, expected: &BTreeMap<Address, (u64, u64)>) {
    assert_eq!(found.len(), expected.len());
    for (address, (rank, importance)) in expected {
        for (found, expected) in [(found[address].page_rank, rank), (found[address].importance, importance)] {
            let expected = f64::from_bits(*expected);
            assert!((found - expected).abs() <= expected * 1e-14, "{address}: {found} is not {expected}");
        }
        let effective = effective_importance(f64::from_bits(*importance), TOTAL);
        assert_eq!(effective_importance(found[address].importance, TOTAL), effective, "{address}");
    }
}

#[test]
fn the_nemesis_blocks_give_the_importances_of_the_reference() {
    let networks = section("nemesis");
    for (network, recorded) in networks.as_object().expect("networks") {
        let (accounts, expected) = recorded_accounts(recorded, address);
        let results = calculate(in_given_order(1), &accounts, &Links::new(), 1000).into_results();
        assert_eq!(results.accounts_counted, number(&recorded["nAll"]), "{network}");
        assert_eq!(u64::from(results.iterations), number(&recorded["iterations"]), "{network}");
        assert_equal_bits(&by_address(results, &accounts), &expected);
        let settings = CalculationParameters::new(Height::NEMESIS, BLOCKS_PER_DAY, 0);
        let results = calculate(settings, &accounts, &Links::new(), 1000).into_results();
        assert_nearly_equal(&by_address(results, &accounts), &expected);
    }
}

#[test]
fn the_nemesis_accounts_are_recorded_in_the_order_of_their_buckets() {
    let networks = section("nemesis");
    for (network, recorded) in networks.as_object().expect("networks") {
        let buckets = capacity(number(&recorded["nAll"]) + 1);
        let bucket = |account: &Value| address(&account[0]).java_hash() & (buckets - 1);
        assert!(list(&recorded["accounts"]).is_sorted_by_key(bucket), "{network}");
    }
}

#[test]
fn a_chain_gives_the_importances_of_the_reference_at_each_recalculation() {
    let chain = section("chain");
    let known = addresses(&chain["addresses"]);
    let known = |index: &Value| known[number(index) as usize];
    for recorded in list(&chain["recalculations"]) {
        let (accounts, expected) = recorded_accounts(recorded, known);
        let mut links = Links::new();
        for account in list(&recorded["accounts"]) {
            for link in list(&account[4]) {
                links.push((number(&link[0]), known(&account[0]), known(&link[1]), number(&link[2])));
            }
        }
        let height = number(&recorded["groupedHeight"]);
        let results = calculate(in_given_order(height), &accounts, &links, 100).into_results();
        assert_eq!(u64::from(results.iterations), number(&recorded["iterations"]), "{height}");
        assert_equal_bits(&by_address(results, &accounts), &expected);
        let settings = CalculationParameters::new(Height(height), BLOCKS_PER_DAY, number(&recorded["nAll"]) + 1);
        let results = calculate(settings, &accounts, &links, 100).into_results();
        assert_nearly_equal(&by_address(results, &accounts), &expected);
    }
}
