//! A harvesting node in virtual time, also with a system clock that is wrong for a while.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::common::http::post_binary;
use crate::common::load_settings;
use crate::common::node_network::announcement;
use crate::common::private_network::{Genesis, TOTAL, address, block, key_pair, private_key, transfer};
use crate::common::recorded_chain::import_list;
use crate::common::simulated_node::SimulatedNode;
use nisd::codec::Format;
use nisd::model::{Amount, Hash256, Timestamp};
use nisd::peer::wire::SecureEntity;
use nisd::store::{ChainIdentity, Options, Store, tip};
use serde_json::{Value, json};

const START: Timestamp = Timestamp(300_000_000);
const DAY: i64 = 86_400;
/// An account that does not harvest, and what it owns.
const PAYER: u64 = 5;
const FUNDS: u64 = 1_000;
const SECOND: Duration = Duration::from_secs(1);

fn ask(node: &mut SimulatedNode<'_>, path: &str) -> Value {
    let answer = node.get(path);
    assert_eq!(answer.status, 200, "{path}");
    serde_json::from_slice(&answer.body).expect("JSON")
}

fn height(node: &mut SimulatedNode<'_>) -> u64 {
    ask(node, "/chain/height")["height"].as_u64().expect("a height")
}

/// Runs a test on a node whose network makes a block every second.
fn with_node(test: impl FnOnce(&mut SimulatedNode<'_>)) {
    with_node_and_store(|node, _| test(node));
}

/// The same for a test that also reads the store of the node.
fn with_node_and_store(test: impl FnOnce(&mut SimulatedNode<'_>, &Store)) {
    let folder = tempfile::tempdir().expect("a folder");
    let (rich, payer) = (address(&key_pair(1)), address(&key_pair(PAYER)));
    let genesis = Genesis::new(START, &[(rich, Amount::whole(TOTAL - FUNDS)), (payer, Amount::whole(FUNDS))]);
    let config = genesis.write_hasty(folder.path(), &private_key(1).printed(), &[]);
    let settings = load_settings(Some(&config), &[]);
    let store = Store::open(&folder.path().join("s"), &ChainIdentity::of(&settings.network), Options::default());
    let store = store.expect("a store");
    import_list(&store, &settings.network, &genesis.block, []);
    test(&mut SimulatedNode::start(&store, &settings, START), &store);
}

#[test]
fn an_account_that_always_hits_makes_a_block_every_second() {
    with_node(|node| {
        node.run_for(20 * SECOND);
        let before = height(node);
        node.run_for(40 * SECOND);
        let made = height(node) - before;
        assert!((36..=40).contains(&made), "{made} blocks in 40 seconds");
    });
}

#[test]
fn a_clock_a_day_ahead_for_a_minute_does_not_stop_the_chain() {
    with_node(|node| {
        node.run_for(20 * SECOND);
        let before = height(node);
        assert!(before > 5, "{before}");
        node.shift_clock(DAY);
        node.run_for(60 * SECOND);
        assert_eq!(height(node), before, "nothing is harvested by a clock that has just jumped");
        let clock = ask(node, "/node/clock");
        assert_eq!((&clock["clockJumps"], &clock["harvesting"]), (&json!(1), &json!("waits for the clock")));
        node.shift_clock(-DAY);
        node.run_for(120 * SECOND);
        assert!(height(node) > before + 10, "the chain goes on once the clock is right and steady");
        let clock = ask(node, "/node/clock");
        assert_eq!((&clock["clockJumps"], &clock["harvesting"]), (&json!(2), &json!("follows the clock")));
    });
}

#[test]
fn a_waiting_transaction_outlasts_a_clock_a_day_ahead_for_a_minute() {
    with_node(|node| {
        node.run_for(20 * SECOND);
        let hash = announce(node, 1);
        let status = |node: &mut _| ask(node, &format!("/transaction/status?hash={hash}"))["status"].clone();
        node.shift_clock(DAY);
        node.run_for(60 * SECOND);
        assert_eq!(status(node), "unconfirmed");
        node.shift_clock(-DAY);
        let before = height(node);
        node.run_for(120 * SECOND);
        assert!(height(node) > before);
        // No block contains a transaction of its own harvester.
        assert_eq!(status(node), "unconfirmed");
    });
}

#[test]
fn a_clock_that_stays_a_day_ahead_ends_what_waits_after_a_while() {
    with_node(|node| {
        node.run_for(20 * SECOND);
        let hash = announce(node, 1);
        node.shift_clock(DAY);
        node.run_for(100 * SECOND);
        assert_eq!(ask(node, &format!("/transaction/status?hash={hash}"))["status"], "expired");
    });
}

#[test]
fn a_harvest_in_progress_is_dropped_when_the_clock_jumps() {
    for turns in 1..8 {
        with_node(|node| {
            node.run_for(20 * SECOND);
            // So many that making a block takes more than one tick.
            for amount in 1..=40 {
                announce(node, amount);
            }
            for _ in 0..turns {
                node.set_running(node.wake_at().expect("the next tick"));
                node.tick(Duration::ZERO);
            }
            let before = height(node);
            node.shift_clock(DAY);
            node.run_for(60 * SECOND);
            assert_eq!(height(node), before, "after {turns} turns");
        });
    }
}

#[test]
fn a_node_makes_its_block_however_many_pushed_blocks_wait() {
    for transactions in 1..=8 {
        make_a_block_beside_pushed_blocks_of(transactions);
    }
}

/// Lets a node make a block while many pushed blocks wait, each with so many transactions, the last of them invalid.
fn make_a_block_beside_pushed_blocks_of(transactions: u64) {
    with_node_and_store(|node, store| {
        node.run_for(20 * SECOND);
        let tip = || tip(&store.snapshot().expect("a snapshot")).expect("a store that works").expect("a tip");
        let waiting = |node: &SimulatedNode<'_>| {
            let usage = node.limit_usage();
            usage.iter().find(|limit| limit.name == "queued pushed blocks").expect("the queue").used
        };
        let (time, last) = (node.time(), tip());
        let to = address(&key_pair(2));
        let funded: Vec<_> =
            (1..transactions).map(|one| transfer(&key_pair(PAYER), to, Amount(one), Amount::whole(1), time)).collect();
        for amount in 1..=60 {
            let mut invalid = funded.clone();
            invalid.push(transfer(&key_pair(3), to, Amount(amount), Amount::whole(1), time));
            let invalid = block(&key_pair(1), last.height.0 + 1, Timestamp(time.0 + 5), last.hash, invalid);
            let pushed = Format::Binary.to_bytes(&SecureEntity::sign(invalid, &key_pair(4), None));
            let sent = node.submit(Ipv4Addr::LOCALHOST.into(), &post_binary("/push/block", &pushed), false);
            sent.expect("a whole request");
        }
        assert_eq!(waiting(node), 60);
        // One of them holds the chain when the turn of this node comes.
        node.tick(Duration::ZERO);
        node.set_running(node.wake_at().expect("the next tick") + SECOND);
        let before = waiting(node);
        while tip().height == last.height {
            let passed = before - waiting(node);
            assert!(passed <= 2, "{passed} of {before} blocks with {transactions} transactions went before its own");
            node.tick(Duration::ZERO);
        }
    });
}

/// Announces a transfer, and returns its hash.
fn announce(node: &mut SimulatedNode<'_>, amount: u64) -> Hash256 {
    let time = Timestamp(node.time().0 - 5);
    let transaction = transfer(&key_pair(1), address(&key_pair(2)), Amount::whole(amount), Amount::whole(1), time);
    let answer = node.post("/transaction/announce", &announcement(&transaction));
    assert!(String::from_utf8_lossy(&answer.body).contains("SUCCESS"));
    transaction.hash()
}

#[test]
fn the_seconds_by_which_the_chain_is_ahead_of_the_clock_are_reported() {
    with_node(|node| {
        node.run_for(20 * SECOND);
        node.shift_clock(-DAY);
        node.run_for(300 * SECOND);
        let ahead = ask(node, "/node/clock")["chainAheadSeconds"].as_i64().expect("a number");
        assert!((DAY - 400..=DAY).contains(&ahead), "{ahead}");
    });
}
