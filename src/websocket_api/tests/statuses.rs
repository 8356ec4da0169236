//! What became of transactions, on `/status/<HASH>`.

use super::*;
use crate::model::Hash256;

fn topic(hash: &Hash256) -> String {
    format!("/status/{hash}")
}

/// Topics and statuses of messages, in order: recipient, first digits of the hash, status.
fn statuses(sent: &[String]) -> Vec<String> {
    let text = |frame: &String| {
        let (to, frame) = frame.split_once(' ').unwrap();
        let (head, body) = frame.split_once("\n\n").unwrap();
        let hash = head.split_once("destination:/status/").unwrap().1.split('\n').next().unwrap();
        let body: serde_json::Value = serde_json::from_str(body.trim_end_matches("\r\n\0")).unwrap();
        assert_eq!(body["hash"], hash);
        format!("{to} {} {}", &hash[..4], body["status"].as_str().unwrap())
    };
    sent.iter().map(text).collect()
}

fn expected(to: u64, hash: &Hash256, status: &str) -> String {
    format!("{to} {} {status}", &hash.to_string()[..4])
}

impl Bench {
    fn set_status(&mut self, hash: &Hash256, status: &'static str) {
        self.node.statuses.insert(*hash, status);
        self.broker.status_changed(hash);
    }
}

#[test]
fn a_subscriber_gets_the_present_status_at_once_and_then_each_change() {
    let mut bench = Bench::default();
    let (hash, other) = (transfer(1).hash(), transfer(2).hash());
    let subscribe = |id, hash| format!("SUBSCRIBE\nid:{id}\ndestination:{}\n\n\0", topic(hash));
    assert_eq!(statuses(&bench.ask(1, &subscribe("a", &hash))), [expected(1, &hash, "unknown")]);
    for status in ["unconfirmed", "confirmed", "replaced"] {
        bench.set_status(&hash, status);
        bench.set_status(&other, status);
        assert_eq!(statuses(&bench.work()), [expected(1, &hash, status)]);
    }
    // A second one gets the present status alone.
    assert_eq!(statuses(&bench.ask(2, &subscribe("a", &hash))), [expected(2, &hash, "replaced")]);
    bench.set_status(&hash, "unconfirmed");
    assert_eq!(statuses(&bench.work()), [1, 2].map(|to| expected(to, &hash, "unconfirmed")));
    bench.receive(1, "UNSUBSCRIBE\nid:a\n\n\0");
    bench.disconnect(2);
    bench.set_status(&hash, "expired");
    assert!(!bench.broker.has_work(true), "nobody is subscribed");
    assert_eq!(bench.broker.usage().topics, 0);
}

#[test]
fn the_transactions_of_a_block_are_published_by_all_their_hashes() {
    let mut bench = Bench::default();
    let (plain, outer) = (transfer(0), multisig());
    let hashes = [plain.hash(), outer.hash(), outer.inner().unwrap().hash(), outer.cosignatures()[0].hash()];
    for hash in &hashes {
        bench.node.statuses.insert(*hash, "confirmed");
        bench.subscribe(1, "a", &topic(hash));
    }
    bench.work();
    let mut block = block_of(Height(2), 1);
    block.transactions.push(outer);
    bench.node.blocks.insert(2, block);
    bench.broker.chain_changed(Height(1), Height(2));
    let mut sent = statuses(&bench.work());
    sent.sort_unstable();
    let mut all = hashes.map(|hash| expected(1, &hash, "confirmed"));
    all.sort_unstable();
    assert_eq!(sent, all);
    // A query for the last block answers with the block, not with statuses.
    assert_eq!(bench.ask(1, "SEND\ndestination:/w/api/block/last\n\n\0"), NOTHING);
}

#[test]
fn destinations_without_a_hash_are_ignored() {
    let mut bench = Bench::default();
    let hash = transfer(1).hash().to_string();
    for destination in [
        "/status".to_owned(),
        "/status/".to_owned(),
        "/status/*".to_owned(),
        format!("/status/{}", &hash[1..]),
        format!("/status/{hash}0"),
        format!("/status/{hash}/"),
        format!("/status/{}", hash.to_uppercase()),
        format!("/status/{}?", &hash[1..]),
        format!("/status/{}", "xy".repeat(32)),
        format!("/status/{}", "é".repeat(32)),
    ] {
        bench.subscribe(1, "a", &destination);
        assert_eq!(bench.work(), NOTHING, "{destination}");
    }
    assert_eq!((bench.broker.usage().topics, bench.broker.usage().patterns), (0, 0));
}

#[test]
fn statuses_wait_for_the_mempool_and_are_told_once() {
    let mut bench = Bench::default();
    let hash = transfer(1).hash();
    bench.subscribe(1, "a", &topic(&hash));
    let work = |bench: &mut Bench| {
        bench.broker.work(false, &mut bench.node, PRESENT, 1_000, &mut bench.effects);
        bench.effects.drain()
    };
    assert_eq!(work(&mut bench), NOTHING, "the first status waits");
    assert_eq!(bench.broker.next_due(), Some(NOW + Duration::from_millis(50)));
    let later = NOW + Duration::from_millis(50);
    bench.broker.on_timer(later, &mut bench.effects);
    assert_eq!(statuses(&bench.work()), [expected(1, &hash, "unknown")]);
    bench.set_status(&hash, "unconfirmed");
    bench.set_status(&hash, "rejected");
    assert!(!bench.broker.has_work(false));
    assert_eq!(work(&mut bench), NOTHING);
    assert_eq!(statuses(&bench.work()), [expected(1, &hash, "rejected")], "two changes are one message");
}

#[test]
fn a_block_costs_one_lookup_for_each_of_its_transactions_however_many_are_subscribed_to() {
    let cost = |subscriptions: i32| {
        let mut bench = Bench::limited(Limits { session_bytes: usize::MAX, ..Limits::default() });
        bench.effects.counts_only = true;
        (0..subscriptions).for_each(|number| bench.subscribe(1, "a", &topic(&transfer(1_000 + number).hash())));
        bench.work();
        let before = bench.effects.messages;
        bench.add_block(2, 120);
        let mut slices = 0;
        while bench.broker.has_work(true) {
            bench.slice(20);
            slices += 1;
        }
        assert_eq!(bench.effects.messages, before, "nobody is told");
        slices
    };
    assert_eq!(cost(1), cost(900));
}

#[test]
fn status_subscriptions_have_the_limits_of_others() {
    let mut bench = Bench::default();
    let hash: Hash256 = transfer(1).hash();
    for id in 0..8 {
        bench.receive(1, &format!("SUBSCRIBE\nid:{id}\ndestination:{}\n\n\0", topic(&hash)));
    }
    let ninth = bench.ask(1, &format!("SUBSCRIBE\nid:8\ndestination:{}\n\n\0", topic(&hash)));
    assert!(ninth[0].contains("too many subscriptions to this destination"), "{ninth:?}");
    // Each present status is a query, of which a session has sixteen at most: further frames wait.
    let frames: String = (0..20)
        .map(|number| format!("SUBSCRIBE\nid:{number}\ndestination:{}\n\n\0", topic(&transfer(100 + number).hash())))
        .collect();
    let mut bench = Bench::default();
    assert_eq!(bench.feed(1, frames.as_bytes()), None, "the rest waits");
    let told: Vec<String> = statuses(&bench.work());
    assert_eq!(told.len(), 20);
}
