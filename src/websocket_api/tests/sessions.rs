//! Opening, CONNECT, DISCONNECT, valid and invalid frames, and the end of sessions.

use super::*;

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
    assert_eq!(bench.broker.usage().topics, 0);
}

#[test]
fn disconnect_with_receipt_leaves_the_connection_to_the_client() {
    let mut bench = Bench::default();
    bench.subscribe(1, "a", "/blocks");
    assert_eq!(bench.receive(1, "DISCONNECT\nreceipt:close-1\n\n\0"), ["1 RECEIPT\nreceipt-id:close-1\n\n\0"]);
    assert_eq!(bench.broker.usage().topics, 0);
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
    assert_eq!((bench.broker.usage().topics, bench.broker.usage().sessions), (0, 1));
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
    assert_eq!(bench.broker.usage().session_bytes, 0);
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
    assert_eq!(bench.broker.usage().topics, 0);
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
