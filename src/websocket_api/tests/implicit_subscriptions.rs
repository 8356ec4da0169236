//! Transactions of registered accounts for sessions without subscriptions to them.

use super::*;

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
    assert_eq!(bench.broker.usage().topics, 0);
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
