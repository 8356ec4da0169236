use crate::websocket_api::tests::*;

// Memory accounting per client and session.

#[test]
fn a_client_over_its_memory_quota_is_rejected_and_others_are_not() {
    let mut bench = Bench::new(Limits { client_bytes: 6_000, ..Limits::default() });
    bench.open(3, "10.0.0.1");
    let mut rejected = 0;
    for n in 0..50 {
        let subscribe = format!("SUBSCRIBE\nid:{n}\ndestination:/blocks/{n}\n\n\0");
        let out = bench.receive(1 + 2 * (n % 2), &subscribe);
        rejected += out.iter().filter(|text| text.contains("this address take too much memory")).count();
    }
    assert!((40..50).contains(&rejected), "{rejected}");
    bench.open(4, "10.0.0.1");
    assert_eq!(bench.effects.drain(), ["4 close 1013"]);
    bench.subscribe(2, "a", "/blocks");
}

#[test]
fn ipv6_clients_are_networks() {
    let mut bench = Bench::empty(Limits { client_bytes: 5_000, ..Limits::default() });
    bench.open(1, "2001:db8::1");
    bench.open(2, "2001:db8::2");
    bench.open(3, "2001:db8::3");
    assert_eq!(bench.effects.drain(), ["3 close 1013"]);
    bench.open(4, "2001:db8:0:1::3");
    assert_eq!(bench.effects.drain(), NOTHING);
}

#[test]
fn a_session_has_a_limit_of_its_own() {
    let mut bench = Bench::new(Limits { session_bytes: 4_000, ..Limits::default() });
    (0..5).for_each(|n| bench.subscribe(1, &n.to_string(), "/blocks"));
    assert!(bench.receive(1, "SUBSCRIBE\nid:x\ndestination:/blocks\n\n\0")[0].contains("session takes too much"));
}

#[test]
fn a_session_of_the_largest_client_is_evicted_when_memory_is_full() {
    let mut bench = Bench::new(Limits { total_bytes: 16_000, ..Limits::default() });
    bench.open(3, "10.0.0.1");
    for n in 0..12 {
        bench.subscribe(1, &n.to_string(), &format!("/blocks/{n}"));
        bench.subscribe(3, &n.to_string(), &format!("/blocks/{n}"));
    }
    (0..4).for_each(|n| bench.subscribe(2, &n.to_string(), &format!("/blocks/{n}")));
    let mut out = Vec::new();
    for socket in 4..8 {
        bench.open(socket, &format!("10.0.1.{socket}"));
        out.extend(bench.receive(socket, "SUBSCRIBE\nid:a\ndestination:/blocks\nreceipt:1\n\n\0"));
    }
    let closed: Vec<_> = out.iter().filter(|text| text.contains("close")).collect();
    assert!(closed.iter().all(|text| ["1 close 1002", "3 close 1002"].contains(&text.as_str())), "{out:?}");
    assert!(!closed.is_empty() && out.iter().any(|text| text.contains("ERROR\nmessage:The node is short of memory")));
    assert_eq!(out.iter().filter(|text| text.contains("RECEIPT")).count(), 4);
    assert!(bench.broker.table.memory.total() <= 16_000);
}

#[test]
fn a_session_of_the_largest_client_is_evicted_when_patterns_are_full() {
    let mut bench = Bench::new(Limits { patterns: 4, ..Limits::default() });
    bench.subscribe(2, "a", "/errors*");
    (0..3).for_each(|n| bench.subscribe(1, &n.to_string(), &format!("/blocks/{n}*")));
    bench.subscribe(2, "b", "/errors*");
    bench.open(3, "10.0.0.3");
    let out = bench.receive(3, "SUBSCRIBE\nid:a\ndestination:/node*\n\n\0");
    assert_eq!(out[1..], ["1 close 1002"]);
    assert_eq!(bench.broker.table.topics.pattern_count(), 2);
}

#[test]
fn unfinished_frames_count_towards_the_quota_of_their_client() {
    let mut bench = Bench::new(Limits { client_bytes: 90_000, ..Limits::default() });
    bench.open(3, "10.0.0.1");
    let part = "x".repeat(60_000);
    assert_eq!(bench.receive(1, &part), NOTHING);
    assert_eq!(bench.receive(2, &part), NOTHING);
    assert_eq!(bench.receive(3, &part)[1..], ["3 close 1002"]);
    let before = bench.broker.table.memory.total();
    assert_eq!(bench.receive(1, "\n\n").len(), 1, "no command");
    assert!(bench.broker.table.memory.total() + 50_000 < before);
}

#[test]
fn an_unfinished_answer_counts_as_memory_of_its_session_until_it_is_sent() {
    let mut bench = Bench::default();
    bench.put_block(7, transfers(500));
    bench.subscribe(1, "a", "/blocks");
    let before = bench.broker.table.memory.total();
    bench.receive(1, &send("block/last", ""));
    bench.slice(300);
    assert!(bench.broker.table.memory.total() > before + 16 * 1024);
    assert_eq!(bench.work().len(), 1);
    assert_eq!(bench.broker.table.memory.total(), before);
}

// Consistency of the accounting under arbitrary input.

/// Fragments, many of which are valid frames.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let frames = vec![
        "CONNECT\n\n\0".to_owned(),
        "CONNECT\naccept-version:1.2\n\n\0".to_owned(),
        "SUBSCRIBE\nid:a\ndestination:/errors\n\n\0".to_owned(),
        "SUBSCRIBE\nid:b\ndestination:/account/**\n\n\0".to_owned(),
        "SUBSCRIBE\ndestination:/blocks/new\n\n\0".to_owned(),
        format!("SUBSCRIBE\nid:sub-0\ndestination:/transactions/{A1}\n\n\0"),
        format!("SUBSCRIBE\nid:a\ndestination:/unconfirmed/{A1}\n\n\0"),
        format!("SUBSCRIBE\nid:a\ndestination:/account/{A2}\n\n\0"),
        "UNSUBSCRIBE\nid:a\n\n\0".to_owned(),
        "UNSUBSCRIBE\nid:sub-0\n\n\0".to_owned(),
        "DISCONNECT\nreceipt:1\n\n\0".to_owned(),
        send("account/subscribe", A1),
        send("account/subscribe", A2),
        send("account/get", A1),
        send("account/get", "x"),
        send("block/last", ""),
        "SEND\ncontent-length:9\n\n".to_owned(),
    ];
    prop_oneof![
        6 => prop::sample::select(frames).prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ]
}

impl crate::websocket_api::session_table::SessionTable {
    /// Returns whether no connections, timers, quotas and addresses are left.
    fn is_empty(&self) -> bool {
        self.session_by_connection.is_empty()
            && self.timers.is_empty()
            && (self.places.is_empty() && self.memory.is_empty() && self.patterns.is_empty())
            && (self.registered.is_empty() && self.topics.is_empty())
    }
}

/// Limits that are small enough to be reached.
fn small() -> Limits {
    Limits {
        sessions: 3,
        subscriptions_per_session: 4,
        subscriptions_per_destination: 2,
        patterns_per_session: 1,
        patterns: 1,
        addresses_per_session: 1,
        queries_per_session: 2,
        session_bytes: 5_000,
        client_bytes: 9_000,
        total_bytes: 12_000,
    }
}

proptest! {
    #[test]
    #[ignore = "slow: computes for long"]
    fn arbitrary_input_keeps_usage_within_quotas_and_leaves_none(
        is_small in any::<bool>(),
        messages in prop::collection::vec((1..5u64, prop::collection::vec(piece(), 0..6), 0..6u8), 0..60)
    ) {
        let limits = if is_small { small() } else { Limits::default() };
        let mut bench = Bench::empty(limits);
        let mut waiting: BTreeMap<u64, Progress> = BTreeMap::new();
        let mut height = 1;
        for (socket, pieces, then) in messages {
            match waiting.get(&socket) {
                None => {
                    bench.open(socket, &format!("10.0.0.{}", socket / 2));
                    waiting.insert(socket, Progress::Done);
                }
                Some(Progress::Done) => {
                    let taken = bench.broker.on_message(ConnectionId(socket), &pieces.concat(), true, PRESENT, &mut bench.effects);
                    waiting.insert(socket, taken);
                }
                Some(Progress::Yield) => {
                    let taken = bench.broker.on_resumed(ConnectionId(socket), PRESENT, &mut bench.effects);
                    waiting.insert(socket, taken);
                }
                Some(Progress::Suspended | Progress::Queued | Progress::Streaming) => {}
            }
            match then {
                0 => { height += 1; bench.add_block(height, 2) }
                1 => bench.broker.news.on_transaction(Rc::new(transfer(height as i32))),
                2 => bench.slice(30),
                3 => { bench.disconnect(socket); waiting.remove(&socket); }
                _ => bench.slice(500),
            }
            for socket in std::mem::take(&mut bench.effects.resumed) {
                if waiting.get(&socket) == Some(&Progress::Suspended) {
                    let taken = bench.broker.on_resumed(ConnectionId(socket), PRESENT, &mut bench.effects);
                    waiting.insert(socket, taken);
                }
            }
            for sent in std::mem::take(&mut bench.effects.sent) {
                if let Sent::Close(socket, _) = sent {
                    bench.disconnect(socket);
                    waiting.remove(&socket);
                    bench.effects.dropped.retain(|dropped| *dropped != socket);
                }
            }
            prop_assert!(bench.broker.table.memory.total() <= limits.total_bytes);
        }
        (1..5).for_each(|socket| bench.disconnect(socket));
        bench.work();
        prop_assert_eq!((bench.broker.table.session_count(), bench.broker.table.pool.held_bytes()), (0, 0));
        prop_assert!(bench.broker.table.is_empty());
        prop_assert_eq!((bench.broker.next_due(), bench.broker.has_work(true)), (None, false));
    }
}
