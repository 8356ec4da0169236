//! A harvesting node in virtual time, also with a system clock that is wrong for a while.

use std::time::Duration;

use crate::common::load_settings;
use crate::common::node_network::announcement;
use crate::common::private_network::{Genesis, TOTAL, address, key_pair, private_key, transfer};
use crate::common::recorded_chain::import_list;
use crate::common::simulated_node::SimulatedNode;
use nisd::model::{Amount, Hash256, Timestamp};
use nisd::store::{ChainIdentity, Options, Store};
use serde_json::{Value, json};

const START: Timestamp = Timestamp(300_000_000);
const DAY: i64 = 86_400;
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
    let folder = tempfile::tempdir().expect("a folder");
    let genesis = Genesis::new(START, &[(address(&key_pair(1)), Amount::whole(TOTAL))]);
    let config = genesis.write_hasty(folder.path(), &private_key(1).printed(), &[]);
    let settings = load_settings(Some(&config), &[]);
    let store = Store::open(&folder.path().join("s"), &ChainIdentity::of(&settings.network), Options::default());
    let store = store.expect("a store");
    import_list(&store, &settings.network, &genesis.block, []);
    test(&mut SimulatedNode::start(&store, &settings, START));
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
