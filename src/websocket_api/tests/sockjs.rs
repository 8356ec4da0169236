//! SockJS sessions, on a websocket and by HTTP requests.

use std::collections::BTreeMap;

use super::*;
use crate::net::http::{RequestReader, Response};
use crate::net::service::Exchange;
use crate::net::websocket::handshake;
use crate::websocket_api::session::MAX_WAITING_SENDERS;

const CONNECT: &str = r#"["CONNECT\naccept-version:1.1\n\n\u0000"]"#;
const CONNECTED: &str = r#"a["CONNECTED\nversion:1.1\nheart-beat:0,0\n\n\u0000"]"#;
const SUBSCRIBE: &str = r#"["SUBSCRIBE\nid:s\ndestination:/blocks/new\n\n\u0000"]"#;
const DISCONNECT: &str = r#"["DISCONNECT\n\n\u0000"]"#;

/// A broker and clients that send requests, as the reactor passes them in.
struct Port {
    bench: Bench,
    now: Duration,
    /// Unanswered requests: their text, and the response so far.
    open: BTreeMap<u64, (String, Response, Progress)>,
    from: &'static str,
}

impl Port {
    fn new() -> Port {
        Port::limited(Limits::default())
    }

    fn limited(limits: Limits) -> Port {
        let bench = Bench::empty(Settings { limits, ..Settings::default() });
        Port { bench, now: NOW, open: BTreeMap::new(), from: "10.0.0.1" }
    }

    /// Starts or resumes a request; returns its response so far.
    fn feed(&mut self, connection: u64, text: &str, mut reply: Response, is_resumed: bool) -> Response {
        let mut reader = RequestReader::new(1 << 20);
        reader.receive(text.as_bytes());
        let request = reader.next_request().unwrap().unwrap();
        let exchange = Exchange {
            connection: ConnectionId(connection),
            client: client(self.from),
            request: &request,
            response: &mut reply,
            is_resumed,
            is_rate_limited: false,
        };
        let present = Now { monotonic: self.now, ..PRESENT };
        let taken = self.bench.broker.request(exchange, present, 7, &mut self.bench.effects);
        if taken == Progress::Done {
            self.open.remove(&connection);
        } else {
            self.open.insert(connection, (text.to_owned(), copy(&reply), taken));
        }
        reply
    }

    /// Sends a request on a connection; returns the response so far.
    fn ask(&mut self, connection: u64, method: &str, path: &str, body: &str) -> Response {
        let length = body.len();
        let text = format!("{method} /w/messages/{path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}");
        let reply = self.feed(connection, &text, Response::new(), false);
        self.resume_all();
        self.open.get(&connection).map_or(reply, |(_, reply, _)| copy(reply))
    }

    fn post(&mut self, connection: u64, path: &str, body: &str) -> (u16, String) {
        let reply = self.ask(connection, "POST", path, body);
        (reply.status, String::from_utf8(reply.body).unwrap())
    }

    /// Resumes connections until no more are to be resumed.
    fn resume_all(&mut self) {
        for _ in 0..10_000 {
            let mut resumed = std::mem::take(&mut self.bench.effects.resumed);
            resumed.extend(self.open.iter().filter(|(_, open)| open.2 == Progress::Yield).map(|(id, _)| *id));
            let Some(_) = resumed.first() else { return };
            for connection in resumed {
                let is_waiting = |open: &&(String, Response, Progress)| open.2 != Progress::Done;
                if self.open.get(&connection).filter(is_waiting).is_none() {
                    continue;
                }
                if let Some((text, reply, _)) = self.open.remove(&connection) {
                    let reply = self.feed(connection, &text, reply, true);
                    self.open.entry(connection).or_insert((String::new(), reply, Progress::Done));
                }
            }
        }
        panic!("somebody is resumed for ever");
    }

    /// The new part of the response to an open request, and whether the response is complete.
    fn take_output(&mut self, connection: u64) -> (String, bool) {
        let (_, reply, taken) = self.open.get_mut(&connection).expect("an open request");
        let text = String::from_utf8(std::mem::take(&mut reply.body)).unwrap();
        let is_over = *taken == Progress::Done;
        if is_over {
            self.open.remove(&connection);
        }
        (text, is_over)
    }

    fn work(&mut self) {
        for _ in 0..100 {
            self.bench.slice(1_000);
            self.resume_all();
        }
    }

    /// Advances the time.
    fn advance(&mut self, time: Duration) {
        self.now += time;
        self.bench.broker.on_timer(self.now, &mut self.bench.effects);
        self.resume_all();
    }

    fn disconnect(&mut self, connection: u64) {
        self.open.remove(&connection);
        self.bench.broker.on_disconnect(ConnectionId(connection), self.now, &mut self.bench.effects);
        self.resume_all();
    }

    fn height(&mut self, height: u64) {
        self.bench.add_block(height, 0);
        self.work();
    }

    /// Opens a SockJS websocket.
    fn upgrade(&mut self, socket: u64, session: &str) {
        let text = format!(
            "GET /w/messages/1/{session}/websocket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        let reply = self.feed(socket, &text, Response::new(), false);
        assert!(reply.upgrade.is_some() && handshake_of(&text));
        self.bench.broker.open_websocket(ConnectionId(socket), &client(self.from), self.now, &mut self.bench.effects);
    }

    fn receive_message(&mut self, socket: u64, message: &str, is_text: bool) -> Vec<String> {
        let present = Now { monotonic: self.now, ..PRESENT };
        let Bench { broker, effects, .. } = &mut self.bench;
        let taken = broker.on_message(ConnectionId(socket), message.as_bytes(), is_text, present, effects);
        assert_eq!(taken, Progress::Done);
        self.bench.effects.drain()
    }
}

/// Copies status, headers and body of a response.
fn copy(response: &Response) -> Response {
    let Response { status, is_streaming: pieces, headers, body, .. } = response;
    Response { status: *status, is_streaming: *pieces, headers: headers.clone(), body: body.clone(), ..Response::new() }
}

fn handshake_of(text: &str) -> bool {
    let mut reader = RequestReader::new(100);
    reader.receive(text.as_bytes());
    handshake(&reader.next_request().unwrap().unwrap(), &mut Response::new())
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The path of a transport of the session `abc`.
fn path(transport: &str) -> String {
    format!("000/abc/{transport}")
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
    port.height(2);
    let message = |id: &str, number: u64| {
        format!(
            "1 a[\"MESSAGE\\ndestination:\\/blocks\\/new\\nsubscription:{id}\\nmessage-id:kdlicigz-{number}\\n\
             content-length:14\\n\\n{{\\\"height\\\":2}}\\r\\n\\u0000\"]"
        )
    };
    assert_eq!(port.bench.effects.drain(), [message("s", 0), message("t", 1)]);
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
    assert_eq!(port.post(3, &path("xhr_send"), CONNECT).0, 404, "a websocket is no mailbox");
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
fn polling_opens_a_session_sends_and_receives() {
    let mut port = Port::new();
    let opened = port.ask(1, "POST", &path("xhr"), "");
    assert_eq!((opened.status, opened.body.as_slice()), (200, b"o\n".as_slice()));
    let headers: Vec<_> = opened.headers[3..].iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(
        headers,
        [
            "Content-Type: application/javascript;charset=UTF-8",
            "Cache-Control: no-store, no-cache, must-revalidate, max-age=0"
        ]
    );
    let sent = port.ask(2, "POST", &path("xhr_send"), CONNECT);
    assert_eq!((sent.status, sent.body.len()), (204, 0));
    assert_eq!(port.post(2, &path("xhr_send"), SUBSCRIBE).0, 204);
    assert_eq!(port.post(1, &path("xhr"), ""), (200, format!("{CONNECTED}\n")));
    // With an empty queue the request is held.
    assert_eq!(port.post(1, &path("xhr"), ""), (200, String::new()));
    port.height(2);
    let (message, is_over) = port.take_output(1);
    assert!(message.starts_with("a[\"MESSAGE\\n") && message.contains("message-id:abc-0\\n") && is_over, "{message}");
    // All queued messages are sent at once.
    port.height(3);
    port.height(4);
    let both = port.post(1, &path("xhr"), "").1;
    let messages: Vec<String> = serde_json::from_str(&both[1..]).unwrap();
    assert_eq!(messages.len(), 2);
}

#[test]
fn streaming_transports_continue_with_their_own_framing() {
    for (transport, method, begin, frame) in [
        ("xhr_streaming", "POST", "h\n", "o\n"),
        ("eventsource", "GET", "\r\n", "data: o\r\n\r\n"),
        ("htmlfile?c=cb", "GET", " ", "<script>\np(\"o\");\n</script>\r\n"),
    ] {
        let mut port = Port::new();
        let reply = port.ask(1, method, &path(transport), "");
        let text = String::from_utf8(reply.body).unwrap();
        assert!(reply.is_streaming && text.ends_with(&format!("{begin}{frame}")), "{transport}: {text}");
        port.take_output(1);
        assert_eq!(port.post(2, &path("xhr_send"), CONNECT).0, 204);
        let (text, is_over) = port.take_output(1);
        assert!(text.contains("CONNECTED") && !is_over, "{text}");
        port.advance(seconds(25));
        let (text, is_over) = port.take_output(1);
        assert_eq!((text, is_over), (frame.replace('o', "h"), false));
    }
}

#[test]
fn jsonp_accepts_only_a_valid_callback_name() {
    let mut port = Port::new();
    assert_eq!(port.ask(1, "GET", &path("jsonp?c=_jp.a"), "").body, b"/**/_jp.a(\"o\");\r\n");
    assert_eq!(port.post(2, &path("jsonp_send"), CONNECT), (200, "ok".to_owned()));
    let delivered = String::from_utf8(port.ask(1, "GET", &path("jsonp?c=_jp.b"), "").body).unwrap();
    assert!(
        delivered.starts_with("/**/_jp.b(\"a[\\\"CONNECTED\\\\n") && delivered.ends_with("\\\"]\");\r\n"),
        "{delivered}"
    );
    for bad in ["jsonp", "jsonp?c=", "jsonp?c=alert(1)", "htmlfile", "htmlfile?c=%3Cscript%3E"] {
        let reply = port.ask(1, "GET", &path(bad), "");
        assert_eq!(
            (reply.status, reply.body.as_slice()),
            (500, b"\"callback\" parameter required".as_slice()),
            "{bad}"
        );
    }
}

#[test]
fn a_second_receiver_gets_2010_and_the_first_continues() {
    for (transport, begin) in [("xhr", String::new()), ("xhr_streaming", format!("{}\n", "h".repeat(2048)))] {
        let mut port = Port::new();
        port.post(1, &path(transport), "");
        if transport == "xhr" {
            port.post(1, &path(transport), "");
        }
        let (status, text) = port.post(2, &path(transport), "");
        assert_eq!((status, text), (200, format!("{begin}c[2010,\"Another connection still open\"]\n")));
        assert!(!port.open.contains_key(&2));
        port.take_output(1);
        port.post(3, &path("xhr_send"), CONNECT);
        assert!(port.take_output(1).0.contains("CONNECTED"));
    }
}

#[test]
fn a_session_belongs_to_the_transport_that_opened_it() {
    let mut port = Port::new();
    port.post(1, &path("xhr"), "");
    for (method, other) in [("POST", "xhr_streaming"), ("GET", "eventsource"), ("GET", "htmlfile?c=x")] {
        assert_eq!(port.ask(2, method, &path(other), "").status, 404, "{other}");
    }
    assert_eq!(port.ask(2, "GET", &path("jsonp?c=x"), "").status, 200, "both are polling");
    assert_eq!(port.post(3, "000/unknown/xhr_send", CONNECT), (404, String::new()));
}

#[test]
fn an_ended_session_reports_its_close_code_then_go_away_until_it_is_removed() {
    let mut port = Port::new();
    port.post(1, &path("xhr"), "");
    assert_eq!(port.post(2, &path("xhr_send"), DISCONNECT).0, 204);
    assert_eq!(port.post(2, &path("xhr_send"), CONNECT).0, 500);
    assert!(port.post(1, &path("xhr"), "").1.starts_with("a[\"ERROR\\nmessage:Session closed."));
    assert_eq!(port.post(1, &path("xhr"), "").1, "c[1002,\"null\"]\n");
    assert_eq!(port.post(1, &path("xhr"), "").1, "c[3000,\"Go away!\"]\n");
    port.advance(seconds(6));
    assert_eq!(port.post(2, &path("xhr_send"), CONNECT).0, 404);
    assert_eq!(port.post(1, &path("xhr"), "").1, "o\n");
}

#[test]
fn a_stream_gets_the_close_frame_at_once() {
    let mut port = Port::new();
    port.post(1, &path("xhr_streaming"), "");
    port.take_output(1);
    port.post(2, &path("xhr_send"), DISCONNECT);
    let (text, is_over) = port.take_output(1);
    assert!(text.starts_with("a[\"ERROR") && text.ends_with("\nc[1002,\"null\"]\n") && is_over, "{text}");
}

#[test]
fn a_session_without_a_receiver_is_removed_after_5_seconds() {
    let mut port = Port::new();
    port.post(1, &path("xhr"), "");
    port.post(2, &path("xhr_send"), SUBSCRIBE);
    port.advance(seconds(4));
    assert_eq!(port.post(1, &path("xhr"), "").1, "", "held");
    port.advance(seconds(20));
    assert_eq!(port.bench.broker.usage().sessions, 1, "who waits is there");
    port.height(2);
    assert!(port.take_output(1).1);
    port.advance(Duration::from_millis(4_900));
    assert_eq!(port.bench.broker.usage().sessions, 1);
    port.advance(Duration::from_millis(200));
    assert_eq!(port.bench.broker.usage(), BrokerUsage::default());
}

#[test]
fn a_broken_receiver_ends_the_session() {
    for transport in ["xhr", "xhr_streaming"] {
        let mut port = Port::new();
        port.post(1, &path(transport), "");
        if transport == "xhr" {
            port.post(1, &path(transport), "");
        }
        port.disconnect(1);
        let delivered = port.post(2, &path(transport), "").1;
        assert!(delivered.ends_with("c[1002,\"Connection interrupted\"]\n"), "{delivered}");
        assert_eq!(port.bench.broker.usage().session_bytes, 0);
        port.advance(seconds(6));
        assert_eq!(port.bench.broker.usage(), BrokerUsage::default());
    }
}

#[test]
fn a_pending_poll_gets_a_heartbeat_after_25_seconds() {
    let mut port = Port::new();
    port.post(1, &path("xhr"), "");
    port.post(1, &path("xhr"), "");
    port.advance(seconds(24));
    assert_eq!(port.open[&1].1.body.len(), 0);
    port.advance(seconds(1));
    assert_eq!(port.take_output(1), ("h\n".to_owned(), true));
}

#[test]
fn an_unreadable_payload_is_rejected_and_the_session_continues() {
    let mut port = Port::new();
    port.post(1, &path("xhr"), "");
    for send in ["xhr_send", "jsonp_send"] {
        assert_eq!(port.post(2, &path(send), ""), (500, "Payload expected.".to_owned()));
        for broken in ["[\"x", "{}", "[1]", "x"] {
            assert_eq!(port.post(2, &path(send), broken), (500, "Broken JSON encoding.".to_owned()));
        }
    }
    assert_eq!(port.post(2, &path("xhr_send"), CONNECT).0, 204);
    assert_eq!(port.post(1, &path("xhr"), "").1, format!("{CONNECTED}\n"));
}

#[test]
fn a_client_that_never_polls_loses_its_session_and_its_memory() {
    let mut port = Port::limited(Limits { backlog_bytes: 2_000, ..Limits::default() });
    port.post(1, &path("xhr"), "");
    port.post(2, &path("xhr_send"), SUBSCRIBE);
    let before = port.bench.broker.usage().session_bytes;
    port.height(2);
    assert!(port.bench.broker.usage().session_bytes > before, "what waits is in the books");
    for height in 3..30 {
        port.height(height);
        assert!(port.bench.broker.usage().session_bytes < before + 2_000);
    }
    assert_eq!(port.bench.broker.usage().session_bytes, 0);
    assert_eq!(port.post(1, &path("xhr"), "").1, "c[4500,\"null\"]\n");
}

#[test]
fn queued_messages_are_limited_per_client() {
    let limits = Limits { client_bytes: 20_000, ..Limits::default() };
    let mut port = Port::limited(limits);
    for session in 0..5 {
        port.post(1, &format!("0/{session}/xhr"), "");
        port.post(2, &format!("0/{session}/xhr_send"), SUBSCRIBE);
    }
    port.from = "10.0.0.2";
    port.post(1, "0/other/xhr", "");
    port.post(2, "0/other/xhr_send", SUBSCRIBE);
    for height in 2..50 {
        port.height(height);
        assert!(port.bench.broker.usage().session_bytes <= 40_000);
    }
    assert!(port.post(1, "0/other/xhr", "").1.starts_with("a["), "another caller loses nothing");
    assert!((0..5).any(|session| port.post(1, &format!("0/{session}/xhr"), "").1 == "c[4500,\"null\"]\n"));
    assert!((1..=5).contains(&port.bench.broker.counts().dropped));
}

#[test]
fn polled_sessions_are_limited_per_client() {
    let mut port = Port::limited(Limits { polled_sessions_per_client: 3, ..Limits::default() });
    let open = |port: &mut Port, session: u32| port.post(1, &format!("0/{session}/xhr"), "").1;
    assert!((0..3).all(|session| open(&mut port, session) == "o\n"));
    assert_eq!(open(&mut port, 3), "c[1013,\"too many sessions\"]\n");
    port.from = "10.0.0.2";
    assert_eq!(open(&mut port, 4), "o\n");
    port.advance(seconds(6));
    port.from = "10.0.0.1";
    assert_eq!(open(&mut port, 3), "o\n");
}

#[test]
fn polled_sessions_do_not_block_newcomers_and_evicted_ones_are_removed() {
    const ADDRESSES: [&str; 4] = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"];
    let mut port = Port::limited(Limits { sessions: 40, ..Limits::default() });
    for session in 0..1_000 {
        port.from = ADDRESSES[session % 4];
        port.post(1, &format!("0/{session}/xhr"), "");
    }
    port.bench.open(10, "10.0.0.9");
    assert_eq!(port.bench.effects.drain(), NOTHING);
    assert_eq!(port.bench.broker.usage().sessions, 40);
    // An evicted session with an open request gets a close frame.
    port.from = "10.0.0.1";
    port.advance(seconds(6));
    assert_eq!(port.bench.broker.usage().sessions, 1);
    for session in 0..39 {
        port.post(1, &format!("0/{session}/xhr"), "");
        assert_eq!(port.post(100 + session, &format!("0/{session}/xhr"), ""), (200, String::new()));
    }
    port.from = "10.0.0.2";
    assert_eq!(port.post(2, "0/new/xhr", ""), (200, "o\n".to_owned()));
    let (_, delivered, taken) = &port.open[&100];
    assert_eq!((delivered.body.as_slice(), *taken), (b"c[1013,\"too many sessions\"]\n".as_slice(), Progress::Done));
    assert_eq!(port.open[&101].2, Progress::Streaming);
}

#[test]
fn send_requests_wait_for_each_other_and_for_query_capacity() {
    let mut port = Port::new();
    port.post(1, &path("xhr"), "");
    let query = format!("SEND\\ndestination:/w/api/account/get\\n\\n{{'account':'{A1}'}}\\u0000");
    let many = format!("[{}]", vec![format!("\"{query}\""); 40].join(","));
    port.post(1, &path("xhr_send"), r#"["SUBSCRIBE\nid:a\ndestination:/account/*\n\n\u0000"]"#);
    // 16 queries fit; the rest is read when some have been answered.
    port.post(2, &path("xhr_send"), &many);
    assert_eq!(port.open[&2].2, Progress::Suspended);
    port.post(3, &path("xhr_send"), r#"["CONNECT\naccept-version:1.2\n\n\u0000"]"#);
    assert_eq!(port.open[&3].2, Progress::Suspended);
    port.work();
    assert_eq!((port.open[&2].1.status, port.open[&3].1.status), (204, 204));
    let delivered: Vec<String> = serde_json::from_str(&port.post(1, &path("xhr"), "").1[1..]).unwrap();
    assert_eq!(delivered.len(), 41, "all were answered");
    assert!(delivered.iter().any(|frame| frame.starts_with("CONNECTED\nversion:1.2")));
}

#[test]
fn waiting_send_requests_are_limited() {
    let mut port = Port::new();
    port.post(1, &path("xhr"), "");
    let query = format!("\"SEND\\ndestination:/w/api/account/get\\n\\n{{'account':'{A1}'}}\\u0000\"");
    let many = format!("[{}]", vec![query; 40].join(","));
    let last = 2 + MAX_WAITING_SENDERS as u64;
    let answers: Vec<u16> =
        (2..=last + 1).map(|connection| port.post(connection, &path("xhr_send"), &many).0).collect();
    assert_eq!((answers[answers.len() - 2], answers[answers.len() - 1]), (200, 503));
    // Losing the connection whose frames are being read ends the session; the other requests are answered.
    port.disconnect(2);
    assert!((3..=last).all(|connection| port.open[&connection].1.status == 500));
    port.advance(seconds(6));
    assert!(port.bench.broker.table.is_empty());
}

#[test]
fn a_session_that_never_sends_is_closed() {
    let mut port = Port::new();
    port.upgrade(1, "ws");
    port.post(2, &path("xhr_streaming"), "");
    port.take_output(2);
    port.advance(seconds(25));
    port.advance(seconds(25));
    port.bench.effects.drain();
    port.take_output(2);
    port.advance(seconds(10));
    assert_eq!(port.bench.effects.drain(), ["1 close 4500"], "without a frame");
    assert_eq!(port.take_output(2), ("c[4500,\"null\"]\n".to_owned(), true));
}

proptest! {
    #[test]
    fn usage_is_zero_after_all_clients_have_left(
        steps in proptest::collection::vec((0u8..9, 0u64..4, 0u64..3), 1..80),
    ) {
        let mut port = Port::limited(Limits { backlog_bytes: 3_000, polled_sessions_per_client: 2, ..Limits::default() });
        let mut height = 1;
        for (step, connection, session) in steps {
            // A connection has one request at a time.
            let is_free = port.open.get(&connection).is_none_or(|open| open.2 == Progress::Done);
            match step {
                0 if is_free => drop(port.post(connection, &format!("0/{session}/xhr"), "")),
                1 if is_free => drop(port.post(connection, &format!("0/{session}/xhr_streaming"), "")),
                2 if is_free => drop(port.post(connection, &format!("0/{session}/xhr_send"), SUBSCRIBE)),
                3 if is_free => drop(port.post(connection, &format!("0/{session}/xhr_send"), DISCONNECT)),
                4 => port.disconnect(connection),
                5 => port.advance(seconds(3)),
                6 => port.advance(seconds(25)),
                _ => {
                    height += 1;
                    port.height(height);
                }
            }
            prop_assert!(port.bench.broker.usage().sessions <= 2);
        }
        (0..4).for_each(|connection| port.disconnect(connection));
        port.advance(seconds(6));
        port.advance(seconds(6));
        prop_assert_eq!(port.bench.broker.usage(), BrokerUsage::default());
        prop_assert_eq!(port.bench.broker.next_due(), None);
        prop_assert!(port.bench.broker.table.is_empty());
    }
}
