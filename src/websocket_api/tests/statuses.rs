//! What became of transactions, on `/status/<HASH>`.

use super::*;
use crate::api::tests::{Fate, Mempool};

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
    /// The transaction with this number leaves the mempool with this fate.
    fn drop_from_mempool(&mut self, number: i32, fate: Fate) {
        self.node.mempool = Mempool::default();
        self.node.mempool.fates.drop(&acceptable(number).hashes(), fate, TIME);
    }
}

#[test]
fn a_subscriber_gets_the_present_status_at_once_and_then_each_change() {
    let mut bench = Bench::default();
    let (hash, other) = (acceptable(1).hash(), acceptable(2).hash());
    let subscribe = |id, hash| format!("SUBSCRIBE\nid:{id}\ndestination:{}\n\n\0", topic(hash));
    let change = |bench: &mut Bench| {
        [&hash, &other].into_iter().for_each(|hash| bench.broker.status_changed(hash));
        statuses(&bench.work())
    };
    assert_eq!(statuses(&bench.ask(1, &subscribe("a", &hash))), [expected(1, &hash, "unknown")]);
    (1..=2).for_each(|number| bench.add_to_mempool(number));
    assert_eq!(change(&mut bench), [expected(1, &hash, "unconfirmed")]);
    bench.put_block(2, vec![acceptable(1)]);
    assert_eq!(change(&mut bench), [expected(1, &hash, "confirmed")]);
    bench.put_block(2, Vec::new());
    bench.drop_from_mempool(1, Fate::Evicted);
    assert_eq!(change(&mut bench), [expected(1, &hash, "evicted")]);
    // A second one gets the present status alone.
    assert_eq!(statuses(&bench.ask(2, &subscribe("a", &hash))), [expected(2, &hash, "evicted")]);
    bench.add_to_mempool(1);
    assert_eq!(change(&mut bench), [1, 2].map(|to| expected(to, &hash, "unconfirmed")));
    bench.receive(1, "UNSUBSCRIBE\nid:a\n\n\0");
    bench.disconnect(2);
    bench.drop_from_mempool(1, Fate::Expired);
    assert_eq!(change(&mut bench), NOTHING, "nobody is subscribed");
    assert!(!bench.broker.has_work(true));
    assert_eq!(bench.broker.usage().topics, 0);
}

#[test]
fn the_transactions_of_a_block_are_published_by_all_their_hashes() {
    let mut bench = Bench::default();
    let (plain, outer) = (transfer(0), multisig());
    let hashes = [plain.hash(), outer.hash(), outer.inner().unwrap().hash(), outer.cosignatures()[0].hash()];
    for hash in &hashes {
        bench.subscribe(1, "a", &topic(hash));
    }
    bench.work();
    bench.add_block_of(2, vec![plain, outer]);
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
    let hash = acceptable(1).hash();
    bench.subscribe(1, "a", &topic(&hash));
    let work = |bench: &mut Bench| {
        bench.work_once(false, 1_000);
        bench.effects.drain()
    };
    assert_eq!(work(&mut bench), NOTHING, "the first status waits");
    assert_eq!(bench.broker.next_due(), Some(NOW + Duration::from_millis(50)));
    let later = NOW + Duration::from_millis(50);
    bench.broker.on_timer(later, &mut bench.effects);
    assert_eq!(statuses(&bench.work()), [expected(1, &hash, "unknown")]);
    bench.add_to_mempool(1);
    bench.broker.status_changed(&hash);
    bench.drop_from_mempool(1, Fate::Evicted);
    bench.broker.status_changed(&hash);
    assert!(!bench.broker.has_work(false));
    assert_eq!(work(&mut bench), NOTHING);
    assert_eq!(statuses(&bench.work()), [expected(1, &hash, "evicted")], "two changes are one message");
}

#[test]
fn a_block_costs_one_lookup_for_each_of_its_transactions_however_many_are_subscribed_to() {
    let cost = |subscriptions: i32| {
        let mut bench = Bench::new(Limits { session_bytes: usize::MAX, ..Limits::default() });
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
