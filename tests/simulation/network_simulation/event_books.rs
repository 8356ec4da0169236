//! What clients of `/events` keep must equal the chain in the end.

use std::collections::{BTreeMap, BTreeSet};

use nisd::model::{Address, Hash256, Height};
use nisd::state;
use nisd::store::stored_block;
use serde_json::json;

use super::event_client::{ClientCounts, EventClient, Kept};
use super::member::Running;
use super::network::Network;
use super::payments::{accounts, movements};
use super::plan::ForkPlan;
use crate::common::bookkeeper::{Books, MempoolWatch, Undoing};
use crate::common::private_network::{NETWORK, address, key_pair};

/// Seconds within which clients must have read everything.
const SETTLED_WITHIN: u64 = 300;
/// Seconds after which a client tries another node if the network is forked for good: one that was told more elsewhere
/// waits in vain.
const TRIES_ANOTHER: u64 = 20;
/// Hashes of which a node tells the status at once.
const BATCH: usize = 500;

/// Adds clients: bookkeepers of all accounts and of 200, some of which wait for confirmations, and one that watches the
/// mempool.
pub fn add_clients(network: &mut Network<'_>) {
    let plan = network.plan;
    let (limit, is_forked) = (plan.rewrite_limit, plan.fork == Some(ForkPlan::BeyondLimit));
    let books = |undoing, confirmations| Kept::Books(Books::new(undoing, confirmations, confirmations > limit));
    let few = 2 + plan.seed % 5;
    let clients = [
        (books(Undoing::OneByOne, 1), 1, None),
        (books(Undoing::AtOnce, 1), 1, None),
        (books(Undoing::OneByOne, 1), 1, Some(accounts())),
        (books(Undoing::AtOnce, few), few, Some(accounts())),
        (books(Undoing::OneByOne, limit + 1), limit + 1, None),
        (Kept::Mempool(MempoolWatch::default()), 0, None),
    ];
    for (number, (kept, confirmations, addresses)) in clients.into_iter().enumerate() {
        let kinds = if matches!(kept, Kept::Books(_)) { "&kinds=transaction,block" } else { "" };
        let query = format!("from=1&confirmations={confirmations}{kinds}");
        network.add_client(EventClient::new(&query, addresses, kept, number as u8, plan.seed, is_forked));
    }
}

/// Lets the clients read on undisturbed until what each of them keeps equals the chain; returns how often something
/// happened to each.
pub fn settle(network: &mut Network<'_>) -> Vec<ClientCounts> {
    network.clients.iter_mut().for_each(|client| client.is_calm = true);
    let mut open: BTreeSet<usize> = (0..network.clients.len()).collect();
    let mut differences = BTreeMap::new();
    for second in 1..=SETTLED_WITHIN {
        network.run_until(network.now + super::run::SECOND);
        for number in open.clone() {
            if second % TRIES_ANOTHER == 0 && network.plan.fork == Some(ForkPlan::BeyondLimit) {
                network.disconnect_client(number);
            }
            network.client_turn(number);
            match difference(network, number) {
                None => _ = open.remove(&number),
                Some(what) => _ = differences.insert(number, what),
            }
        }
        if open.is_empty() {
            return network.clients.iter().map(EventClient::counts).collect();
        }
    }
    differences.retain(|number, _| open.contains(number));
    panic!("clients differ from the chain: {differences:#?}");
}

/// Returns how what a client keeps differs from the chain of its member.
fn difference(network: &mut Network<'_>, number: usize) -> Option<String> {
    let Some(member) = network.clients[number].member() else { return Some("no connection".to_owned()) };
    let sent: Vec<_> = network.watch.sent.iter().map(|transaction| transaction.hash()).collect();
    let running = network.members[member].running.as_mut()?;
    running.set_now(network.now);
    let client = &network.clients[number];
    match client.kept() {
        Kept::Books(books) => books_difference(books, client.addresses(), running),
        Kept::Mempool(watch) => {
            let waiting = waiting(running, &sent);
            let count = watch.waiting.symmetric_difference(&waiting).count();
            (count > 0).then(|| format!("told {:?}, and {waiting:?} wait", watch.waiting))
        }
    }
}

/// Returns those transactions that wait in the mempool of a node.
fn waiting(running: &mut Running<'_>, hashes: &[Hash256]) -> BTreeSet<String> {
    let mut waiting = BTreeSet::new();
    for batch in hashes.chunks(BATCH) {
        let list: Vec<_> = batch.iter().map(|hash| json!({ "hash": hash.to_string() })).collect();
        let answer = running.node.post("/transaction/status/batch", &json!({ "data": list }).to_string());
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, 200, "{text}");
        let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let all = answer["data"].as_array().expect("a list").iter();
        let found = all.filter(|one| one["status"] == "unconfirmed").filter_map(|one| one["hash"].as_str());
        waiting.extend(found.map(str::to_owned));
    }
    waiting
}

/// Compares books with the chain of a node and with its state. Every transaction of the accounts must be there once and
/// in order, and every balance must be right.
fn books_difference(books: &Books, accounts: Option<&[Address]>, running: &Running<'_>) -> Option<String> {
    let snapshot = running.store.snapshot().expect("a snapshot");
    let height = running.view.height();
    let told = (height + 1).saturating_sub(books.confirmations);
    let expected = told.checked_sub(1).map(|index| (told, running.view.chain[index as usize].hash.to_string()));
    let last = books.last_block().map(|(height, hash)| (height, hash.to_owned()));
    if last != expected {
        return Some(format!("told up to {last:?}, and it should be {expected:?}"));
    }
    let is_kept = |account: &Address| accounts.is_none_or(|accounts| accounts.contains(account));
    let (mut sheet, mut entries) = (BTreeMap::<Address, i128>::new(), books.entries.iter());
    for height in 1..=told {
        let (_, block) = stored_block(&snapshot, Height(height)).expect("a store").expect("a block");
        let next = entries.next().map(|entry| (entry.height, entry.index));
        assert_eq!(next, Some((height, None)), "the entry of a block");
        *sheet.entry(Address::from_public_key(&block.signer, NETWORK)).or_default() += i128::from(block.total_fee().0);
        for (index, transaction) in block.transactions.iter().enumerate() {
            let moved = movements(transaction);
            let is_due = moved.iter().any(|(account, _)| is_kept(account));
            moved.into_iter().for_each(|(account, amount)| *sheet.entry(account).or_default() += amount);
            let place = (height, Some(index as u64));
            let is_told = entries.as_slice().first().is_some_and(|entry| (entry.height, entry.index) == place);
            if is_due && !is_told {
                return Some(format!("transaction {index} of block {height} is missing: {transaction:?}"));
            }
            if is_told {
                let told = entries.next().map(|entry| entry.hash.clone());
                assert_eq!(told, Some(transaction.hash().to_string()), "transaction {index} of block {height}");
            }
        }
    }
    assert_eq!(entries.next().map(|entry| entry.height), None, "more entries than the chain has");
    let balances = books.balances();
    let nemesis = address(&key_pair(0));
    for (account, expected) in sheet.into_iter().filter(|(account, _)| is_kept(account) && *account != nemesis) {
        let kept = balances.get(&account).copied().unwrap_or(0);
        assert_eq!(kept, expected, "{account} by the blocks up to {told}");
        if told == height {
            let balance = state::account(&snapshot, &account).expect("a store").balance.total();
            assert_eq!(kept, i128::from(balance), "{account}");
        }
    }
    None
}
