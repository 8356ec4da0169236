//! Consistency of the accounting under arbitrary input.

use super::*;

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
        ..Limits::default()
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
                Some(Progress::Suspended | Progress::Streaming) => {}
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
            prop_assert!(bench.broker.usage().session_bytes <= limits.total_bytes);
        }
        (1..5).for_each(|socket| bench.disconnect(socket));
        bench.work();
        prop_assert_eq!(bench.broker.usage(), BrokerUsage::default());
        prop_assert!(bench.broker.table.is_empty());
        prop_assert_eq!((bench.broker.next_due(), bench.broker.has_work(true)), (None, false));
    }
}
