//! Queries and their answers.

use super::*;
use crate::budget::cost;

/// The account whose transactions are in the mempool, and their recipient.
fn sender() -> String {
    Address::from_public_key(&pair().public(), NETWORK).to_string()
}

fn recipient() -> String {
    crate::api::tests::address(2).to_string()
}

#[test]
fn answers_go_only_to_the_requesting_session() {
    let mut bench = Bench::default();
    for socket in [1, 2] {
        for topic in [format!("/account/{A1}"), "/errors".to_owned(), "/blocks".to_owned(), "/unconfirmed".to_owned()] {
            bench.subscribe(socket, &topic, &topic);
        }
    }
    bench.put_block(7, transfers(1));
    (1..=2).for_each(|number| bench.add_to_mempool(number));
    assert_eq!(topics(&bench.ask(1, &send("account/get", A1))), [format!("1 /account/{A1}")]);
    assert_eq!(topics(&bench.ask(2, &send("account/get", "TALICE"))), ["2 /errors"]);
    let block = bench.ask(1, "SEND\ndestination:/w/api//block/last\n\nignored\0");
    assert_eq!(topics(&block), ["1 /blocks".to_owned(), format!("1 /account/{A1}")]);
    assert_eq!(topics(&bench.ask(2, &send("account/transfers/unconfirmed", &sender()))), ["2 /unconfirmed"; 2]);
}

#[test]
fn a_query_without_the_subscription_has_no_answer_and_encodes_no_body() {
    let mut bench = Bench::default();
    bench.subscribe(2, "a", &format!("/account/{A1}"));
    assert_eq!(bench.ask(1, &send("account/get", A1)), NOTHING);
    assert_eq!(bench.ask(2, &send("account/get", A1)).len(), 1);
    assert!(bench.charged(1) + u64::from(cost::ACCOUNT) <= bench.charged(2));
    assert_eq!(bench.ask(1, &send("account/get", "TALICE")), NOTHING);
}

#[test]
fn a_failed_query_gets_the_error_text_of_nis1() {
    let mut bench = Bench::default();
    bench.subscribe(2, "sub-0", "/errors");
    assert_eq!(
        bench.ask(2, &send("account/get", "TALICE")),
        ["2 MESSAGE\ndestination:/errors\nsubscription:sub-0\nmessage-id:2-0\n\
             content-length:94\n\n{\"timeStamp\":367575434,\"error\":\"Bad Request\",\
             \"message\":\"address must be valid\",\"status\":400}\r\n\0"]
    );
}

#[test]
fn a_failed_query_is_reported_once_to_the_requesting_session() {
    let mut bench = Bench::default();
    for socket in [1, 2] {
        bench.subscribe(socket, "e", "/errors");
        bench.subscribe(socket, "a", &format!("/account/{A1}"));
    }
    bench.damage(A1);
    let sent = bench.ask(1, &send("account/get", A1));
    assert_eq!(topics(&sent), ["1 /errors"]);
    assert!(sent[0].contains("\"message\":\"the node's store failed\""));
}

#[test]
fn a_query_sends_unconfirmed_transactions_on_their_publication_topics() {
    let mut bench = Bench::default();
    let (from, to) = (sender(), recipient());
    for topic in ["/unconfirmed".to_owned(), format!("/unconfirmed/{from}"), format!("/unconfirmed/{to}")] {
        bench.subscribe(1, &topic, &topic);
    }
    (0..15).for_each(|number| bench.add_to_mempool(number));
    let sent = topics(&bench.ask(1, &send("account/transfers/unconfirmed", &to)));
    let each = ["1 /unconfirmed".to_owned(), format!("1 /unconfirmed/{from}"), format!("1 /unconfirmed/{to}")];
    assert_eq!(sent, std::iter::repeat_n(each, 10).flatten().collect::<Vec<_>>());
}

#[test]
fn a_session_with_many_queries_waits_and_loses_none() {
    let mut bench = Bench::default();
    bench.subscribe(1, "a", &format!("/account/{A1}"));
    let message = send("account/get", A1).repeat(40);
    assert_eq!(bench.feed(1, message.as_bytes()), None, "it is parked");
    assert_eq!(bench.broker.on_resumed(ConnectionId(1), PRESENT, &mut bench.effects), Progress::Suspended);
    assert_eq!(bench.work().len(), 40);
    assert!(bench.effects.resumed.is_empty());
    assert!(bench.charged(1) >= 40 * 10);
}

#[test]
fn queries_are_served_round_robin_by_client_then_by_session() {
    let mut bench = Bench::default();
    bench.open(3, "10.0.0.1");
    for (socket, count) in [(1, 4), (3, 4), (2, 2)] {
        bench.subscribe(socket, "a", &format!("/account/{A1}"));
        bench.receive(socket, &send("account/get", A1).repeat(count));
    }
    let order: Vec<_> = bench.work().iter().map(|text| text[..1].to_owned()).collect();
    assert_eq!(order.concat(), "1232131313");
}

#[test]
fn a_query_waits_while_its_session_has_a_large_backlog() {
    let mut bench = Bench::default();
    bench.receive(1, "\n");
    bench.receive(2, "\n");
    bench.subscribe(1, "a", &format!("/account/{A1}"));
    bench.subscribe(2, "a", &format!("/account/{A1}"));
    bench.effects.backlogs.insert(1, 64 * 1024);
    bench.receive(1, &send("account/get", A1));
    bench.receive(2, &send("account/get", A1));
    assert_eq!(topics(&bench.work()), [format!("2 /account/{A1}")]);
    let retry = bench.broker.next_due().unwrap();
    assert!(retry > NOW);
    bench.effects.backlogs.insert(1, 64 * 1024 - 1);
    bench.broker.on_timer(retry, &mut bench.effects);
    assert_eq!(topics(&bench.work()), [format!("1 /account/{A1}")]);
    assert_eq!(bench.broker.next_due(), None);
}

#[test]
fn the_frames_of_a_message_are_handled_in_order_and_answers_follow() {
    let mut bench = Bench::default();
    let frames = format!(
        "SUBSCRIBE\nid:a\ndestination:/account/{A1}\nreceipt:1\n\n\0{}UNSUBSCRIBE\nid:a\n\
         receipt:2\n\n\0SUBSCRIBE\nid:b\ndestination:/account/{A1}\n\n\0",
        send("account/get", A1)
    );
    let out = bench.ask(1, &frames);
    assert!(out[0].starts_with("1 RECEIPT") && out[1].starts_with("1 RECEIPT"), "{out:?}");
    assert_eq!(ids(&out[2..]), ["b"]);
}

#[test]
fn a_block_replaced_during_its_publication_is_published_again() {
    let mut bench = Bench::default();
    bench.subscribe(1, "a", "/blocks");
    bench.put_block(7, transfers(100));
    bench.receive(1, &send("block/last", ""));
    bench.slice(100);
    assert_eq!(bench.effects.sent.len(), 0, "it is not told yet");
    bench.put_block(7, transfers(1));
    bench.broker.chain_changed(Height(6), Height(7));
    let sent = bench.work();
    assert_eq!(topics(&sent), ["1 /blocks", "1 /blocks"], "one that was asked for and one that is new");
    assert!(sent.iter().all(|text| text.matches("\"type\":257").count() == 1), "{sent:?}");
}

#[test]
fn the_queries_of_a_closed_session_are_discarded() {
    let mut bench = Bench::default();
    bench.put_block(7, transfers(500));
    bench.subscribe(1, "a", "/blocks");
    bench.receive(1, &send("block/last", "").repeat(3));
    bench.slice(50);
    bench.disconnect(1);
    assert!(!bench.broker.has_work(true));
    bench.receive(2, &send("block/last", "").repeat(3));
    bench.receive(2, "DISCONNECT\n\n\0");
    bench.effects.drain();
    assert_eq!((bench.slices(), bench.work()), (0, NOTHING.map(str::to_owned).to_vec()));
}
