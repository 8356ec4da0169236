use crate::api::ApiError;
use crate::api::tests::{Fate, Mempool};
use crate::budget::cost;
use crate::websocket_api::tests::*;

// Opening, CONNECT, DISCONNECT, valid and invalid frames, and the end of sessions.

#[test]
fn a_client_without_headers_gets_the_documented_frames() {
    let mut bench = Bench::default();
    assert_eq!(bench.receive(1, "CONNECT\n\n\0"), ["1 CONNECTED\nheart-beat:0,0\n\n\0"]);
    bench.subscribe(1, "sub-0", "/blocks/new");
    assert_eq!(
        bench.height(77),
        ["1 MESSAGE\ndestination:/blocks/new\nsubscription:sub-0\nmessage-id:1-0\ncontent-length:4\n\n77\r\n\0"]
    );
}

#[test]
fn a_stomp_library_gets_the_height_as_an_object() {
    let mut bench = Bench::default();
    let connect = "CONNECT\naccept-version:1.1,1.0\nheart-beat:10000,10000\n\n\0";
    assert_eq!(bench.receive(1, connect), ["1 CONNECTED\nversion:1.1\nheart-beat:0,0\n\n\0"]);
    bench.subscribe(1, "sub-0", "/blocks/new");
    assert_eq!(
        bench.height(2),
        ["1 MESSAGE\ndestination:/blocks/new\nsubscription:sub-0\nmessage-id:1-0\n\
             content-length:14\n\n{\"height\":2}\r\n\0"]
    );
}

#[test]
fn an_empty_accept_version_counts_as_none() {
    let mut bench = Bench::default();
    let connect = "CONNECT\naccept-version:\n\n\0";
    assert_eq!(bench.receive(1, connect), ["1 CONNECTED\nheart-beat:0,0\n\n\0"]);
    bench.subscribe(1, "a", "/blocks/new");
    assert!(bench.height(7)[0].ends_with("\n\n7\r\n\0"));
    let connect = "CONNECT\naccept-version: \n\n\0";
    assert_eq!(bench.receive(2, connect), ["2 CONNECTED\nheart-beat:0,0\n\n\0"]);
}

#[test]
fn unknown_versions_are_rejected() {
    let connect = "CONNECT\naccept-version:1.3\n\n\0CONNECT\n\n\0";
    assert_eq!(
        Bench::default().receive(1, connect),
        ["1 ERROR\nmessage:Supported protocol versions are 1.0, 1.1, 1.2\ncontent-length:0\n\n\0", "1 close 1002"]
    );
}

#[test]
fn lenient_input_is_accepted() {
    let mut bench = Bench::default();
    let subscribe = "SUBSCRIBE\ndestination: /blocks \nreceipt:r:1\n\n\0";
    assert_eq!(bench.receive(1, subscribe), ["1 RECEIPT\nreceipt-id:r\\c1\n\n\0"]);
    assert_eq!(ids(&bench.height(2)), ["sub-0"]);
    let unsubscribe = "UNSUBSCRIBE\nid: sub-0\nreceipt:2\n\n\0SEND\nreceipt:3\n\n\0";
    assert_eq!(bench.receive(1, unsubscribe), ["1 RECEIPT\nreceipt-id:2\n\n\0", "1 RECEIPT\nreceipt-id:3\n\n\0"]);
    assert_eq!(bench.broker.table.topics.len(), 0);
}

#[test]
fn disconnect_with_receipt_leaves_the_connection_to_the_client() {
    let mut bench = Bench::default();
    bench.subscribe(1, "a", "/blocks");
    assert_eq!(bench.receive(1, "DISCONNECT\nreceipt:close-1\n\n\0"), ["1 RECEIPT\nreceipt-id:close-1\n\n\0"]);
    assert_eq!(bench.broker.table.topics.len(), 0);
    bench.subscribe(1, "a", "/blocks");
    assert_eq!(bench.height(2).len(), 1);
}

#[test]
fn disconnect_without_receipt_ends_the_session() {
    let mut bench = Bench::default();
    bench.subscribe(1, "a", "/blocks");
    assert_eq!(
        bench.receive(1, "DISCONNECT\n\n\0CONNECT\n\n\0"),
        ["1 ERROR\nmessage:Session closed.\ncontent-length:0\n\n\0", "1 close 1002"]
    );
    assert_eq!(bench.receive(1, "CONNECT\n\n\0"), NOTHING);
    assert_eq!(bench.height(2), NOTHING);
    bench.disconnect(1);
    assert_eq!(bench.receive(1, "CONNECT\n\n\0"), NOTHING);
}

#[test]
fn closing_the_socket_ends_the_subscriptions() {
    let mut bench = Bench::default();
    bench.subscribe(1, "a", "/blocks");
    bench.disconnect(1);
    assert_eq!((bench.broker.table.topics.len(), bench.broker.table.session_count()), (0, 1));
}

#[test]
fn an_undecodable_frame_gets_an_error_and_the_session_continues() {
    let mut bench = Bench::default();
    assert_eq!(
        bench.receive(1, "SEND\nbad\n\n\0CONNECT\n\n\0"),
        ["1 ERROR\nmessage:Illegal header\\c 'bad'. A header must be of the form \
             <name>\\c[<value>].\ncontent-length:0\n\n\0"]
    );
    assert_eq!(bench.receive(1, "\n"), NOTHING);
    assert_eq!(bench.receive(1, "CONNECT\n\n\0").len(), 1);
}

#[test]
fn frames_beyond_the_limit_end_the_session() {
    let mut bench = Bench::default();
    assert_eq!(
        bench.receive(1, "SEND\ncontent-length:70000\n\n"),
        [
            "1 ERROR\nmessage:STOMP 'content-length' header value 70000  exceeds configured \
             buffer size limit 65536\ncontent-length:0\n\n\0",
            "1 close 1002"
        ]
    );
    let half = "x".repeat(40_000);
    assert_eq!(bench.receive(2, &half), NOTHING);
    assert_eq!(bench.receive(2, &half)[1..], ["2 close 1002"]);
    assert_eq!(bench.broker.table.memory.total(), 0);
}

#[test]
fn clients_cannot_publish() {
    let mut bench = Bench::default();
    bench.subscribe(2, "a", "/blocks/new");
    for command in ["SEND", "MESSAGE"] {
        let forged = format!("{command}\ndestination:/blocks/new\n\n{{\"height\":9}}\0");
        assert_eq!(bench.ask(1, &forged), NOTHING);
    }
    let ignored = "ACK\nid:1\n\n\0NACK\n\n\0BEGIN\n\n\0COMMIT\n\n\0ABORT\n\n\0\
                   CONNECTED\n\n\0RECEIPT\n\n\0ERROR\n\nx\0";
    assert_eq!(bench.receive(1, ignored), NOTHING);
}

#[test]
fn every_frame_but_connect_gets_its_receipt() {
    let mut bench = Bench::default();
    let commands = ["BEGIN", "COMMIT", "ABORT", "ACK", "NACK", "CONNECTED", "RECEIPT", "MESSAGE", "ERROR"];
    for command in commands.into_iter().chain(["SUBSCRIBE", "UNSUBSCRIBE", "SEND", "DISCONNECT"]) {
        let answer = bench.receive(1, &format!("{command}\nreceipt:9\n\n\0"));
        assert_eq!(answer, ["1 RECEIPT\nreceipt-id:9\n\n\0"], "{command}");
    }
    for command in ["CONNECT", "STOMP"] {
        let answer = bench.receive(2, &format!("{command}\nreceipt:9\n\n\0"));
        assert!(answer.iter().all(|text| !text.contains("receipt")), "{answer:?}");
    }
}

#[test]
fn an_error_names_the_receipt_of_the_rejected_frame() {
    let mut bench = Bench::new(Limits { subscriptions_per_session: 2, ..Limits::default() });
    let answer = bench.receive(1, "BEGIN\nreceipt:9\n\nbody\0");
    assert_eq!(answer.len(), 1);
    assert!(answer[0].starts_with("1 ERROR\nmessage:BEGIN") && answer[0].contains("\nreceipt-id:9\n"), "{answer:?}");
    // So does one of a frame that cannot be decoded, if the header was read before.
    let long = "x:y\n".repeat(1_001);
    for rest in ["a:\\x\n", "a:b\rc\n", "a\n", "content-length:2\n\nabc\0", &long, "content-length:70000\n\n"] {
        let answer = bench.receive(1, &format!("SEND\nreceipt:9\n{rest}"));
        assert!(answer[0].starts_with("1 ERROR") && answer[0].contains("\nreceipt-id:9\n"), "{rest:?}: {answer:?}");
        bench = Bench::new(Limits { subscriptions_per_session: 2, ..Limits::default() });
    }
    for unnamed in ["SEND\nreceipt:9\\x\n", "SEND\na\nreceipt:9\n", "JUMP\nreceipt:9\n", "CONNECT\nreceipt:9\na\n"] {
        let answer = bench.receive(1, unnamed);
        assert!(answer[0].starts_with("1 ERROR") && !answer[0].contains("receipt-id"), "{unnamed:?}: {answer:?}");
    }
    for id in 0..2 {
        assert_eq!(bench.receive(1, &format!("SUBSCRIBE\nid:{id}\ndestination:/blocks\n\n\0")), NOTHING);
    }
    let answer = bench.receive(1, "SUBSCRIBE\nid:x\ndestination:/blocks\nreceipt:10\n\n\0");
    assert!(answer[0].starts_with("1 ERROR") && answer[0].contains("\nreceipt-id:10\n"), "{answer:?}");
}

#[test]
fn sessions_are_limited_and_get_unique_names() {
    let mut bench = Bench::new(Limits { sessions: 2, ..Limits::default() });
    bench.open(3, "10.0.0.2");
    assert_eq!(bench.effects.drain(), ["2 close 1013"]);
    assert_eq!(bench.receive(2, "CONNECT\n\n\0"), NOTHING);
    bench.disconnect(2);
    bench.subscribe(3, "a", "/blocks/new");
    assert!(bench.height(2)[0].contains("\nmessage-id:3-0\n"));
}

#[test]
fn a_session_silent_for_a_minute_is_closed() {
    let mut bench = Bench::default();
    assert_eq!(bench.broker.next_due(), Some(NOW + Duration::from_secs(60)));
    bench.receive(1, "\n");
    bench.receive(2, "");
    let almost = NOW + Duration::from_secs(60) - Duration::from_millis(1);
    bench.broker.on_timer(almost, &mut bench.effects);
    assert_eq!(bench.effects.drain(), NOTHING);
    bench.broker.on_timer(NOW + Duration::from_secs(60), &mut bench.effects);
    assert_eq!(bench.effects.drain(), ["2 close 4500"]);
    assert_eq!(bench.broker.next_due(), None);
}

#[test]
fn a_session_whose_connection_was_dropped_ends() {
    let mut bench = Bench::default();
    bench.subscribe(1, "a", "/blocks");
    bench.effects.dropped.push(1);
    assert_eq!(bench.height(2), NOTHING);
    assert_eq!(bench.broker.table.topics.len(), 0);
    assert_eq!(bench.receive(1, "CONNECT\n\n\0"), NOTHING);
}

#[test]
fn a_newcomer_evicts_the_longest_silent_session_of_the_largest_client() {
    let mut bench = Bench::empty(Limits { sessions: 99, ..Limits::default() });
    for socket in 0..99 {
        bench.open(socket, &format!("10.0.{}.1", 1 + socket % 9));
        let later = Now { monotonic: NOW + Duration::from_secs(socket), ..PRESENT };
        bench.broker.on_message(ConnectionId(socket), b"\n", true, later, &mut bench.effects);
    }
    for newcomer in 100..140 {
        bench.open(newcomer, &format!("10.1.{newcomer}.1"));
        assert_eq!(
            bench.receive(newcomer, "CONNECT\n\n\0").last().unwrap(),
            &format!("{newcomer} CONNECTED\nheart-beat:0,0\n\n\0")
        );
    }
    let ended = bench.effects.dropped.clone();
    assert_eq!(ended.len(), 40);
    for client in 0..9 {
        let of_client: Vec<u64> = ended.iter().copied().filter(|socket| socket % 9 == client).collect();
        let expected: Vec<u64> = (0..of_client.len() as u64).map(|turn| client + 9 * turn).collect();
        assert!(of_client == expected && (4..=5).contains(&expected.len()), "{client}: {of_client:?}");
    }
}

#[test]
fn queries_of_many_clients_in_one_network_delay_another_network_by_one_turn() {
    let mut bench = Bench::empty(Limits::default());
    for socket in 1..=200 {
        bench.open(socket, &format!("10.0.1.{socket}"));
    }
    bench.open(201, "10.0.2.1");
    for socket in 1..=201 {
        bench.subscribe(socket, "a", &format!("/account/{A1}"));
        bench.receive(socket, &send("account/get", A1).repeat(10));
    }
    let order: Vec<String> = bench.work().iter().map(|text| text.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(order.len(), 2_010);
    let turns: Vec<usize> = (0..order.len()).filter(|turn| order[*turn] == "201").collect();
    assert!(turns.iter().zip(0..).all(|(turn, number)| *turn <= 2 * number + 1), "{turns:?}");
}

// How addresses are registered, and for how long.

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
        [
            "1 ERROR\nmessage:The session cannot register further addresses, the event stream /events takes more\nreceipt-id:1\ncontent-length:0\n\n\0"
        ]
    );
    assert_eq!(bench.receive(2, &subscribe), ["2 RECEIPT\nreceipt-id:1\n\n\0"], "others are not concerned");
    bench.subscribe(1, "a", &format!("/unconfirmed/{A1}"));
}

// Queries and their answers.

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
fn a_query_waits_until_what_it_needs_was_read_from_the_disk() {
    let mut bench = Bench::default();
    bench.broker.reads_ahead = true;
    for topic in ["/errors".to_owned(), format!("/account/{A1}"), "/node/info".to_owned()] {
        bench.subscribe(1, &topic, &topic);
    }
    for rejection in [None, Some(ApiError::TOO_MUCH_TO_READ)] {
        assert_eq!(bench.ask(1, &send("account/get", A1)), NOTHING);
        assert_eq!(bench.ask(1, "SEND\ndestination:/w/api/node/info\n\n\0"), NOTHING, "queries keep their order");
        let reads = bench.broker.take_reads();
        let [(socket, _, request)] = &reads[..] else { panic!("{reads:?}") };
        assert_eq!(*request, format!("GET /account/get?address={A1} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let session = bench.broker.table.session_of(*socket).unwrap();
        bench.broker.end_reading(session, rejection.as_ref(), PRESENT, &mut bench.effects);
        let answer = if rejection.is_some() { "1 /errors".to_owned() } else { format!("1 /account/{A1}") };
        assert_eq!(topics(&bench.work()), [answer, "1 /node/info".to_owned()]);
        assert!(bench.broker.take_reads().is_empty());
    }
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

// What became of transactions, on `/status/<HASH>`.

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
        self.node.mempool.fates.drop(acceptable(number).hashes().all(), fate, TIME);
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
    assert_eq!(bench.broker.table.topics.len(), 0);
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
    assert_eq!((bench.broker.table.topics.len(), bench.broker.table.topics.pattern_count()), (0, 0));
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
