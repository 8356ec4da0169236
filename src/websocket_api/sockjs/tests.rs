//! SockJS sessions.
use crate::net::http::{RequestReader, Response};
use crate::net::service::Exchange;
use crate::websocket_api::tests::*;

const CONNECT: &str = r#"["CONNECT\naccept-version:1.1\n\n\u0000"]"#;
const CONNECTED: &str = r#"a["CONNECTED\nversion:1.1\nheart-beat:0,0\n\n\u0000"]"#;
const DISCONNECT: &str = r#"["DISCONNECT\n\n\u0000"]"#;

/// A broker and clients that upgrade to websockets, as the reactor passes them in.
struct Port {
    bench: Bench,
    now: Duration,
}

impl Port {
    fn new() -> Port {
        Port { bench: Bench::empty(Limits::default()), now: NOW }
    }

    /// Advances the time.
    fn advance(&mut self, time: Duration) {
        self.now += time;
        self.bench.broker.on_timer(self.now, &mut self.bench.effects);
    }

    fn upgrade(&mut self, socket: u64, session: &str) {
        let mut reader = RequestReader::new(100);
        reader.receive(
            format!(
                "GET /w/messages/1/{session}/websocket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
                 Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            .as_bytes(),
        );
        let (request, mut response) = (reader.next_request().unwrap().unwrap(), Response::new());
        let (connection, client) = (ConnectionId(socket), client("10.0.0.1"));
        let (is_resumed, is_rate_limited) = (false, false);
        let exchange =
            Exchange { connection, client, request: &request, response: &mut response, is_resumed, is_rate_limited };
        self.bench.broker.request(exchange, TIME, 7);
        assert!(response.upgrade.is_some());
        self.bench.broker.open_websocket(connection, &client, self.now, &mut self.bench.effects);
    }

    fn receive_message(&mut self, socket: u64, message: &str, is_text: bool) -> Vec<String> {
        let present = Now { monotonic: self.now, ..PRESENT };
        let Bench { broker, effects, .. } = &mut self.bench;
        let taken = broker.on_message(ConnectionId(socket), message.as_bytes(), is_text, present, effects);
        assert_eq!(taken, Progress::Done);
        self.bench.effects.drain()
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_sockjs_websocket_exchanges_frames() {
    let mut port = Port::new();
    port.upgrade(1, "kdlicigz");
    assert_eq!(port.bench.effects.drain(), ["1 o"]);
    assert_eq!(port.receive_message(1, CONNECT, true), [format!("1 {CONNECTED}")]);
    assert_eq!(port.receive_message(1, "", true), NOTHING);
    // All strings of a message are read, and a frame may span several.
    let split = r#"["SUBSCRIBE\nid:s\n","destination:/blocks/new\n\n\u0000","SUBSCRIBE\nid:t\ndestination:/blocks/new\n\n\u0000"]"#;
    assert_eq!(port.receive_message(1, split, true), NOTHING);
    let sent = port.bench.height(2);
    let message = |id: &str, number: u64| {
        format!(
            "1 a[\"MESSAGE\\ndestination:\\/blocks\\/new\\nsubscription:{id}\\nmessage-id:kdlicigz-{number}\\n\
             content-length:14\\n\\n{{\\\"height\\\":2}}\\r\\n\\u0000\"]"
        )
    };
    assert_eq!(sent, [message("s", 0), message("t", 1)]);
    let error = r#"1 a["ERROR\nmessage:Session closed.\ncontent-length:0\n\n\u0000"]"#;
    assert_eq!(port.receive_message(1, DISCONNECT, true), [error, r#"1 c[1002,"null"]"#, "1 close 1002"]);
}

#[test]
fn an_invalid_message_closes_the_websocket() {
    for broken in ["{}", "[]", "[1]", "xx", "[\"CONNECT\\n\\n\\u0000"] {
        let mut port = Port::new();
        port.upgrade(1, "a");
        port.bench.effects.drain();
        assert_eq!(port.receive_message(1, broken, true), [r#"1 c[1007,"null"]"#, "1 close 1007"], "{broken}");
    }
    for (message, is_text, end) in
        [(CONNECT, false, "1 close 1003"), ("[null]", true, "1 close 1011"), ("[null,\"a\"]", true, "1 close 1011")]
    {
        let mut port = Port::new();
        port.upgrade(1, "a");
        port.bench.effects.drain();
        assert_eq!(port.receive_message(1, message, is_text), [end]);
    }
}

#[test]
fn every_websocket_is_its_own_session_with_any_name() {
    let mut port = Port::new();
    port.upgrade(1, "abc");
    port.upgrade(2, "abc");
    assert_eq!(port.bench.effects.drain(), ["1 o", "2 o"]);
    assert_eq!(port.receive_message(1, CONNECT, true), [format!("1 {CONNECTED}")]);
    assert_eq!(port.receive_message(2, CONNECT, true), [format!("2 {CONNECTED}")]);
}

#[test]
fn a_websocket_gets_a_heartbeat_after_25_seconds_without_a_frame() {
    let mut port = Port::new();
    port.upgrade(1, "abc");
    port.advance(seconds(24));
    port.receive_message(1, CONNECT, true);
    port.bench.effects.drain();
    port.advance(seconds(24));
    assert_eq!(port.bench.effects.drain(), NOTHING);
    assert_eq!(port.bench.broker.next_due(), Some(NOW + seconds(49)));
    port.advance(seconds(1));
    assert_eq!(port.bench.effects.drain(), ["1 h"]);
    port.advance(seconds(25));
    assert_eq!(port.bench.effects.drain(), ["1 h"]);
}

#[test]
fn a_plain_websocket_gets_no_heartbeat() {
    let mut port = Port::new();
    port.bench.open(1, "10.0.0.1");
    port.bench.receive(1, "CONNECT\n\n\0");
    port.advance(seconds(59));
    assert_eq!(port.bench.effects.drain(), NOTHING);
}

#[test]
fn a_session_that_never_sends_is_closed_in_spite_of_its_heartbeats() {
    let mut port = Port::new();
    port.upgrade(1, "ws");
    port.advance(seconds(25));
    port.advance(seconds(25));
    assert_eq!(port.bench.effects.drain(), ["1 o", "1 h", "1 h"]);
    port.advance(seconds(10));
    assert_eq!(port.bench.effects.drain(), ["1 close 4500"], "without a frame");
}
