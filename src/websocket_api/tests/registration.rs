//! How addresses are registered, and for how long.

use super::*;

#[test]
fn subscribing_to_an_address_registers_it_until_the_last_subscription_ends() {
    for topic in ["transactions", "unconfirmed", "account"] {
        let mut bench = Bench::default();
        bench.subscribe(1, "a", &format!("/{topic}/{A1}"));
        bench.subscribe(1, "b", &format!("/transactions/{A1}"));
        assert_eq!(bench.registered(), 1);
        bench.receive(1, "UNSUBSCRIBE\nid:a\n\n\0");
        assert_eq!(bench.registered(), 1);
        bench.receive(1, "UNSUBSCRIBE\nid:b\n\n\0");
        assert_eq!(bench.registered(), 0);
    }
    let mut bench = Bench::default();
    bench.subscribe(1, "a", &format!("/recenttransactions/{A1}"));
    bench.subscribe(1, "b", &format!("/transactions/{}", A1.to_lowercase()));
    bench.receive(1, "UNSUBSCRIBE\nid:b\n\n\0");
    assert_eq!(bench.registered(), 0);
}

#[test]
fn a_registration_by_a_query_lasts_until_the_socket_closes() {
    let mut bench = Bench::default();
    bench.ask(1, &send("account/get", A1));
    bench.receive(1, &send("account/subscribe", A2));
    bench.receive(1, "DISCONNECT\nreceipt:1\n\n\0");
    assert_eq!(bench.registered(), 2);
    bench.receive(2, &send("account/subscribe", A2));
    bench.disconnect(1);
    assert_eq!(bench.registered(), 1);
    bench.disconnect(2);
    assert_eq!(bench.registered(), 0);
}

#[test]
fn other_queries_register_no_address() {
    let mut bench = Bench::default();
    for path in ["account/mosaic/owned", "account/transfers/all", "account/transfers/unconfirmed"] {
        bench.ask(1, &send(path, A1));
    }
    assert_eq!(bench.registered(), 0);
}

#[test]
fn a_failed_registration_is_reported_to_the_session() {
    let mut bench = Bench::new(Limits { addresses_per_session: 1, ..Limits::default() });
    bench.subscribe(1, "e", "/errors");
    bench.subscribe(2, "e", "/errors");
    assert_eq!(bench.receive(1, &send("account/subscribe", A1)), NOTHING);
    for path in ["account/subscribe", "account/get"] {
        let sent = bench.ask(1, &send(path, A2));
        assert!(sent[0].contains("cannot register further addresses"), "{sent:?}");
        assert_eq!(topics(&sent), ["1 /errors"]);
    }
    let subscribe = format!("SUBSCRIBE\nid:a\ndestination:/unconfirmed/{A2}\nreceipt:1\n\n\0");
    assert_eq!(
        bench.receive(1, &subscribe),
        ["1 ERROR\nmessage:The session cannot register further addresses\ncontent-length:0\n\n\0"]
    );
    assert_eq!(bench.receive(2, &subscribe), ["2 RECEIPT\nreceipt-id:1\n\n\0"], "others are not concerned");
    bench.subscribe(1, "a", &format!("/unconfirmed/{A1}"));
}
