use crate::websocket_api::tests::*;

// SUBSCRIBE, UNSUBSCRIBE and their limits.

#[test]
fn escaped_ids_are_returned_as_sent() {
    let mut bench = Bench::default();
    bench.subscribe(1, "a\\cb\\nc\\\\d", "/blocks");
    assert_eq!(ids(&bench.height(2)), ["a\\cb\\nc\\\\d"]);
}

#[test]
fn subscriptions_are_pairs_of_id_and_destination() {
    let mut bench = Bench::default();
    for (id, destination) in [("a", "/blocks"), ("a", "/blocks"), ("b", "/blocks"), ("a", "/errors")] {
        bench.subscribe(1, id, destination);
    }
    assert_eq!(ids(&bench.height(2)), ["a", "b"]);
    bench.receive(1, "UNSUBSCRIBE\nid:undefined\n\n\0UNSUBSCRIBE\n\n\0");
    assert_eq!(bench.broker.table.topics.len(), 2);
    bench.receive(1, "UNSUBSCRIBE\nid:a\n\n\0");
    assert_eq!(ids(&bench.height(3)), ["b"]);
    assert_eq!(bench.broker.table.topics.len(), 1);
}

#[test]
fn useless_subscriptions_are_ignored() {
    let mut bench = Bench::default();
    for head in ["id:a\ndestination:/w/api/account/get", "id:a\ndestination:/user/errors", "id:a"] {
        assert_eq!(bench.receive(1, &format!("SUBSCRIBE\n{head}\n\n\0")), NOTHING);
    }
    assert_eq!(bench.broker.table.topics.len(), 0);
}

#[test]
fn a_subscription_over_the_limit_is_rejected_and_the_session_continues() {
    let mut bench = Bench::default();
    for id in 0..1_000 {
        bench.subscribe(1, &id.to_string(), &format!("/blocks/{}", id / 8));
    }
    assert_eq!(
        bench.receive(1, "SUBSCRIBE\nid:x\ndestination:/blocks\nreceipt:1\n\n\0"),
        [
            "1 ERROR\nmessage:The session has too many subscriptions, unsubscribe first\nreceipt-id:1\ncontent-length:0\n\n\0"
        ]
    );
    bench.receive(1, "UNSUBSCRIBE\nid:17\n\n\0");
    bench.subscribe(1, "x", "/blocks");
}

#[test]
fn a_session_has_at_most_eight_subscriptions_per_destination() {
    let mut bench = Bench::default();
    (0..8).for_each(|id| bench.subscribe(1, &id.to_string(), "/blocks"));
    let charged = bench.charged(1);
    assert_eq!(
        bench.receive(1, "SUBSCRIBE\nid:8\ndestination:/blocks\n\n\0"),
        ["1 ERROR\nmessage:The session has too many subscriptions to this destination\ncontent-length:0\n\n\0"]
    );
    assert!(bench.charged(1) - charged < 10);
    bench.subscribe(1, "7", "/blocks");
    bench.subscribe(2, "8", "/blocks");
    assert_eq!(bench.height(2).len(), 9);
}

#[test]
fn patterns_have_a_limit_of_their_own() {
    let mut bench = Bench::new(Limits { patterns_per_session: 2, ..Limits::default() });
    bench.subscribe(1, "a", "/blocks/*");
    bench.subscribe(1, "b", "/blocks/*");
    bench.subscribe(1, "c", "/blocks");
    assert!(bench.receive(1, "SUBSCRIBE\nid:d\ndestination:/errors*\n\n\0")[0].contains("too many patterns"));
    bench.receive(1, "UNSUBSCRIBE\nid:a\n\n\0");
    bench.subscribe(1, "d", "/errors*");
}

#[test]
fn a_long_id_is_rejected() {
    let mut bench = Bench::default();
    let subscribe = |length| format!("SUBSCRIBE\nid:{}\ndestination:/blocks\n\n\0", "x".repeat(length));
    assert!(bench.receive(1, &subscribe(257))[0].contains("id is too long"));
    assert_eq!(bench.receive(1, &subscribe(256)), NOTHING);
}

#[test]
fn each_session_gets_its_messages_in_the_order_of_publication() {
    let mut bench = Bench::default();
    for socket in [1, 2] {
        bench.subscribe(socket, "a", "/blocks/**");
        bench.subscribe(socket, "b", "/blocks/**");
    }
    (2..50).for_each(|height| bench.add_block(height, 0));
    let sent = bench.work();
    for to in ["1 ", "2 "] {
        let own: Vec<_> = sent.iter().filter(|text| text.starts_with(to)).collect();
        let heights = own
            .iter()
            .filter(|text| text.contains("/blocks/new"))
            .map(|text| text.split("\n\n").nth(1).unwrap().trim_end_matches("\r\n\0").parse::<u64>().unwrap());
        assert!(heights.eq((2..50).flat_map(|height| [height, height])));
        assert!(own.chunks(4).all(|chunk| chunk[0].contains("/blocks/new") && chunk[2].contains(":/blocks\n")));
    }
    let number = |text: &String| {
        let id = text.split("message-id:").nth(1).unwrap().split('\n').next().unwrap();
        id.rsplit('-').next().unwrap().parse::<usize>().unwrap()
    };
    assert!(sent.iter().map(number).eq(0..sent.len()), "one counter for all");
}

// Transactions of registered accounts for sessions without subscriptions to them.

/// The subscription ids with which a confirmed transaction between accounts 1 and 2 reaches session 1.
fn received(bench: &mut Bench, height: u64) -> Vec<String> {
    bench.add_block(height, 1);
    let sent = bench.work();
    let own: Vec<_> = sent.into_iter().filter(|text| text.contains("/transactions/")).collect();
    own.iter().zip(ids(&own)).map(|(text, id)| format!("{}{id}", if text.contains(A1) { "1:" } else { "2:" })).collect()
}

#[test]
fn registration_subscribes_a_session_without_a_version_implicitly() {
    let mut bench = Bench::default();
    bench.receive(1, "CONNECT\n\n\0");
    bench.receive(1, &send("account/subscribe", A1));
    bench.receive(1, &send("account/subscribe", A1));
    assert_eq!(received(&mut bench, 2), ["1:sub-0"]);
    bench.receive(1, &send("account/subscribe", A2));
    assert_eq!(received(&mut bench, 3), ["1:sub-0", "2:sub-1"]);
}

#[test]
fn an_implicit_subscription_costs_the_same_beside_a_thousand_others_and_ids_that_are_tried_in_vain_are_charged() {
    let charged = |others: u32, text: &str| {
        let mut bench = Bench::default();
        (0..others).for_each(|number| bench.subscribe(1, &format!("sub-{number}"), &format!("/errors/{number}")));
        let before = bench.charged(1);
        bench.receive(1, text);
        bench.charged(1) - before
    };
    let implicit = send("account/subscribe", A1);
    assert_eq!(charged(998, &implicit), charged(0, &implicit));
    // The ids of subscriptions without one count up.
    let unnamed = "SUBSCRIBE\ndestination:/blocks\n\n\0";
    assert!(charged(998, unnamed) >= charged(0, unnamed) + 998 / 5);
}

#[test]
fn other_subscriptions_before_or_after_do_not_matter() {
    let mut bench = Bench::default();
    bench.receive(1, "CONNECT\naccept-version:\n\n\0");
    bench.subscribe(1, "sub-0", "/blocks/new");
    bench.receive(1, &send("account/subscribe", A1));
    bench.subscribe(1, "x", "/blocks");
    assert_eq!(received(&mut bench, 2), ["1:sub-1"]);
}

#[test]
fn an_explicit_subscription_replaces_the_implicit_one() {
    let mut bench = Bench::default();
    bench.receive(1, &send("account/subscribe", A1));
    bench.subscribe(1, "mine", &format!("/transactions/{A1}"));
    assert_eq!(received(&mut bench, 2), ["1:mine"]);
    bench.receive(1, &send("account/subscribe", A1));
    assert_eq!(received(&mut bench, 3), ["1:mine"], "there is none beside an explicit one");
    bench.receive(1, "UNSUBSCRIBE\nid:mine\n\n\0");
    assert_eq!(received(&mut bench, 4), NOTHING);
}

#[test]
fn an_explicit_subscription_without_an_id_gets_that_of_the_implicit_one_it_replaces() {
    let mut bench = Bench::default();
    bench.receive(1, &send("account/subscribe", A1));
    bench.receive(1, &format!("SUBSCRIBE\ndestination:/transactions/{A1}\n\n\0"));
    assert_eq!(received(&mut bench, 2), ["1:sub-0"]);
}

#[test]
fn an_explicit_subscription_may_take_the_id_of_an_implicit_one() {
    let mut bench = Bench::default();
    bench.receive(1, &send("account/subscribe", A1));
    bench.subscribe(1, "sub-0", "/blocks/new");
    assert_eq!(received(&mut bench, 2), ["1:sub-1"]);
    bench.receive(1, "UNSUBSCRIBE\nid:sub-0\n\n\0");
    assert_eq!(received(&mut bench, 3), ["1:sub-1"]);
    bench.receive(1, "UNSUBSCRIBE\nid:sub-1\n\n\0");
    assert_eq!(received(&mut bench, 4), NOTHING);
    assert_eq!(bench.broker.table.topics.len(), 0);
}

#[test]
fn a_full_session_may_still_make_an_implicit_subscription_explicit() {
    let mut bench = Bench::new(Limits { subscriptions_per_session: 1, ..Limits::default() });
    bench.receive(1, &send("account/subscribe", A1));
    bench.subscribe(1, "mine", &format!("/transactions/{A1}"));
    assert_eq!(received(&mut bench, 2), ["1:mine"]);
}

#[test]
fn an_implicit_subscription_over_the_limit_is_reported() {
    let mut bench = Bench::new(Limits { subscriptions_per_session: 1, ..Limits::default() });
    bench.subscribe(1, "e", "/errors");
    assert!(bench.receive(1, &send("account/subscribe", A1))[0].contains("too many subscriptions"));
}

#[test]
fn sessions_with_a_version_get_no_implicit_subscription() {
    let mut bench = Bench::default();
    bench.receive(1, "CONNECT\naccept-version:1.2\n\n\0");
    bench.receive(1, &send("account/subscribe", A1));
    assert_eq!(received(&mut bench, 2), NOTHING);
}

#[test]
fn implicit_subscriptions_end_with_disconnect() {
    let mut bench = Bench::default();
    bench.receive(1, &send("account/subscribe", A1));
    bench.receive(1, "DISCONNECT\nreceipt:1\n\n\0");
    assert_eq!(received(&mut bench, 2), NOTHING);
}
