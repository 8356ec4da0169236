//! Fuzz target: SockJS sessions of the broker, whose clients receive and send by requests in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nisd::model::{Height, NetworkByte, Timestamp};
use nisd::net::SharedBytesCounter;
use nisd::net::fetch::{FetchId, FetchRequest};
use nisd::net::http::{RequestReader, Response};
use nisd::net::service::{Client, ConnectionId, Dropped, Effects, Exchange, ListenerId, Message, Progress};
use nisd::peer::io::Now;
use nisd::websocket_api::{Broker, BrokerUsage, Limits, Settings};

use crate::stomp::{Chain, SEPARATOR, check_sent};

/// Maximum queued bytes of a session; small, so that inputs reach it.
const BACKLOG_BYTES: usize = 4_096;
/// Maximum sessions of one client.
const SESSIONS_PER_CLIENT: usize = 2;
/// Maximum bytes of a response: the padding for browsers, the limit on messages, and the last message, which two levels
/// of escapes enlarge.
const MAX_ANSWER: usize = 4 * 128 * 1024;
/// Maximum resumptions after one event.
const MAX_RESUMPTIONS: usize = 10_000;

/// An action of an input. Bits 0 to 3 of a record's first byte select it, bits 4 and 5 the connection, bits 6 and 7 the
/// session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Xhr,
    XhrStreaming,
    EventSource,
    HtmlFile,
    Jsonp,
    /// The rest of the record is the body.
    XhrSend,
    /// The rest of the record is the body.
    JsonpSend,
    /// Opens a websocket, or sends the rest of the record as a text message.
    Websocket,
    /// Opens a websocket, or sends the rest of the record as a binary message.
    Binary,
    /// The connection disconnects.
    Disconnect,
    /// This many seconds pass.
    Wait,
    /// A block is published.
    Block,
    /// Sends the rest of the record as the strings of a message.
    SendStrings,
}

impl Action {
    /// All actions; an input names one by its index.
    pub const ALL: [Action; 13] = [
        Action::Xhr,
        Action::XhrStreaming,
        Action::EventSource,
        Action::HtmlFile,
        Action::Jsonp,
        Action::XhrSend,
        Action::JsonpSend,
        Action::Websocket,
        Action::Binary,
        Action::Disconnect,
        Action::Wait,
        Action::Block,
        Action::SendStrings,
    ];
}

/// Checks for any actions of clients in any order: every response consists of whole frames, and every frame holds whole
/// STOMP frames; requests end with their session; nothing is sent to closed connections; sessions stay within their
/// limits, and nothing is left when all clients are gone.
pub fn check(data: &[u8]) -> usize {
    let mut scene = Harness::new();
    for record in data.split(|byte| *byte == SEPARATOR) {
        if let Some((selector, rest)) = record.split_first() {
            scene.act(*selector, &rest[..rest.len().min(8 * 1024)]);
        }
    }
    scene.end();
    scene.frames
}

/// Records the broker's effects.
#[derive(Default)]
struct Sockets {
    open: BTreeSet<ConnectionId>,
    closed: BTreeSet<ConnectionId>,
    resumed: Vec<ConnectionId>,
    received: Vec<Vec<u8>>,
}

impl Effects for Sockets {
    fn send(&mut self, socket: ConnectionId, message: Message<'_>) -> Result<(), Dropped> {
        if !self.open.contains(&socket) || self.closed.contains(&socket) {
            return Err(Dropped);
        }
        let body = message.body.map_or(&[][..], |body| body);
        self.received.push([message.head, body, message.tail].concat());
        Ok(())
    }

    fn backlog(&self, _: ConnectionId) -> usize {
        0
    }

    fn close(&mut self, socket: ConnectionId, code: u16, reason: &str) {
        assert!((1000..=4999).contains(&code) && reason.len() <= 123);
        assert!(self.open.contains(&socket) && self.closed.insert(socket), "closed twice");
    }

    fn resume(&mut self, connection: ConnectionId) {
        self.resumed.push(connection);
    }

    fn charge(&mut self, _: ConnectionId, _: u32) {}

    fn fetch(&mut self, _: FetchId, _: FetchRequest) {
        panic!("the broker asks no other server")
    }

    fn cancel(&mut self, _: FetchId) {
        panic!("the broker asks no other server")
    }

    fn wake_at(&mut self, _: Duration) {
        panic!("the node asks for turns")
    }
}

/// An open request.
struct Open {
    text: Vec<u8>,
    reply: Response,
    deed: Action,
    taken: Progress,
    /// The whole response so far.
    answer: Vec<u8>,
}

/// A broker and four connections.
struct Harness {
    broker: Broker,
    sockets: Sockets,
    requests: BTreeMap<ConnectionId, Open>,
    /// Websockets whose last message is not done.
    unfinished: BTreeMap<ConnectionId, Progress>,
    chain: Chain,
    now: Duration,
    frames: usize,
}

impl Harness {
    fn new() -> Harness {
        let limits = Limits {
            backlog_bytes: BACKLOG_BYTES,
            polled_sessions_per_client: SESSIONS_PER_CLIENT,
            ..Limits::default()
        };
        let settings = Settings { limits, ..Settings::default() };
        Harness {
            broker: Broker::new(settings, NetworkByte::TESTNET, SharedBytesCounter::default()),
            sockets: Sockets::default(),
            requests: BTreeMap::new(),
            unfinished: BTreeMap::new(),
            chain: Chain::new(),
            now: Duration::ZERO,
            frames: 0,
        }
    }

    fn current_time(&self) -> Now {
        Now { monotonic: self.now, network: Timestamp(1_000), network_millis: 0 }
    }

    fn act(&mut self, selector: u8, rest: &[u8]) {
        let deed = Action::ALL[usize::from(selector & 15) % Action::ALL.len()];
        let (connection, session) = (ConnectionId(u64::from(selector >> 4 & 3)), selector >> 6);
        match deed {
            Action::Disconnect => self.gone(connection),
            Action::Wait => {
                self.now += Duration::from_secs(u64::from(rest.first().copied().unwrap_or(1)));
                self.broker.on_timer(self.now, &mut self.sockets);
            }
            Action::Block => {
                self.chain.height = self.chain.height.next();
                self.broker.chain_changed(Height(self.chain.height.0 - 1), self.chain.height);
            }
            Action::Websocket | Action::Binary => self.websocket(connection, session, rest, deed == Action::Websocket),
            Action::SendStrings => {
                let text = String::from_utf8_lossy(rest);
                let body = serde_json::to_vec(&text.split('|').collect::<Vec<_>>()).expect("strings");
                self.ask(connection, Action::XhrSend, session, &body);
            }
            _ => self.ask(connection, deed, session, rest),
        }
        self.run_until_idle();
        let figures = self.broker.usage();
        assert!(figures.sessions <= SESSIONS_PER_CLIENT + 4 + self.sockets.closed.len());
        assert!(figures.session_bytes <= figures.sessions * (8 * BACKLOG_BYTES + 256 * 1024));
    }

    /// Sends a request on a connection without an open one.
    fn ask(&mut self, connection: ConnectionId, deed: Action, session: u8, body: &[u8]) {
        if self.requests.contains_key(&connection) || self.sockets.open.contains(&connection) {
            return;
        }
        let (method, name) = match deed {
            Action::Xhr => ("POST", "xhr"),
            Action::XhrStreaming => ("POST", "xhr_streaming"),
            Action::EventSource => ("GET", "eventsource"),
            Action::HtmlFile => ("GET", "htmlfile?c=cb"),
            Action::Jsonp => ("GET", "jsonp?c=cb"),
            Action::JsonpSend => ("POST", "jsonp_send"),
            _ => ("POST", "xhr_send"),
        };
        let body = if matches!(deed, Action::XhrSend | Action::JsonpSend) { body } else { &[] };
        let head = format!(
            "{method} /w/messages/0/{session}/{name} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let open = Open {
            text: [head.as_bytes(), body].concat(),
            reply: Response::new(),
            deed,
            taken: Progress::Done,
            answer: Vec::new(),
        };
        self.deliver(connection, open, false);
    }

    fn deliver(&mut self, connection: ConnectionId, mut open: Open, is_resumed: bool) {
        let mut reader = RequestReader::new(64 * 1024);
        reader.receive(&open.text);
        let request = reader.next_request().expect("a good request").expect("a whole one");
        let caller = Client::direct(ListenerId(1), [10, 0, 0, 1].into());
        let reply = &mut open.reply;
        let exchange = Exchange {
            connection,
            client: caller,
            request: &request,
            response: reply,
            is_resumed,
            is_rate_limited: false,
        };
        let present = self.current_time();
        open.taken = self.broker.request(exchange, present, 1, &mut self.sockets);
        if open.reply.is_streaming || open.taken == Progress::Done {
            open.answer.append(&mut open.reply.body);
        }
        assert!(open.answer.len() <= MAX_ANSWER, "{} bytes", open.answer.len());
        match open.taken {
            Progress::Done => self.check_answer(&open),
            _ => drop(self.requests.insert(connection, open)),
        }
    }

    fn websocket(&mut self, socket: ConnectionId, session: u8, message: &[u8], is_text: bool) {
        if self.requests.contains_key(&socket) || self.sockets.closed.contains(&socket) {
            return;
        }
        if self.sockets.open.insert(socket) {
            let text = format!(
                "GET /w/messages/0/{session}/websocket HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\
                 Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            );
            let mut reader = RequestReader::new(0);
            reader.receive(text.as_bytes());
            let request = reader.next_request().expect("a good request").expect("a whole one");
            let caller = Client::direct(ListenerId(1), [10, 0, 0, 1].into());
            let mut reply = Response::new();
            let exchange = Exchange {
                connection: socket,
                client: caller,
                request: &request,
                response: &mut reply,
                is_resumed: false,
                is_rate_limited: false,
            };
            let present = self.current_time();
            assert_eq!(self.broker.request(exchange, present, 1, &mut self.sockets), Progress::Done);
            assert!(reply.upgrade.is_some());
            self.broker.open_websocket(socket, &caller, self.now, &mut self.sockets);
        } else if !self.unfinished.contains_key(&socket) && (!is_text || std::str::from_utf8(message).is_ok()) {
            let present = self.current_time();
            let taken = self.broker.on_message(socket, message, is_text, present, &mut self.sockets);
            if taken != Progress::Done {
                self.unfinished.insert(socket, taken);
            }
        }
    }

    fn gone(&mut self, connection: ConnectionId) {
        self.requests.remove(&connection);
        self.unfinished.remove(&connection);
        self.sockets.open.remove(&connection);
        self.sockets.closed.remove(&connection);
        self.broker.on_disconnect(connection, self.now, &mut self.sockets);
    }

    /// Runs the broker, and resumes connections, until no work is left.
    fn run_until_idle(&mut self) {
        for _ in 0..MAX_RESUMPTIONS {
            let mut resumed: BTreeSet<_> = std::mem::take(&mut self.sockets.resumed).into_iter().collect();
            let requests = self.requests.iter().filter(|(_, open)| open.taken == Progress::Yield);
            resumed.extend(requests.map(|(connection, _)| *connection));
            let left = self.unfinished.iter().filter(|(_, taken)| **taken == Progress::Yield);
            resumed.extend(left.map(|(socket, _)| *socket));
            let is_idle = resumed.is_empty() && !self.broker.has_work(true);
            for connection in resumed {
                if let Some(open) = self.requests.remove(&connection) {
                    self.deliver(connection, open, true);
                } else if self.unfinished.remove(&connection).is_some() {
                    let present = self.current_time();
                    let taken = self.broker.on_resumed(connection, present, &mut self.sockets);
                    if taken != Progress::Done {
                        self.unfinished.insert(connection, taken);
                    }
                }
            }
            let present = self.current_time();
            self.broker.work(true, &mut self.chain, present, 1_000, &mut self.sockets);
            for frame in std::mem::take(&mut self.sockets.received) {
                self.check_frame(&frame);
            }
            if is_idle {
                let stuck = self.requests.values().any(|open| open.taken == Progress::Suspended);
                return assert!(!stuck, "a request that sends waits for nothing");
            }
        }
        panic!("there is no end of what there is to do");
    }

    /// Checks a complete response.
    fn check_answer(&mut self, open: &Open) {
        if open.reply.status != 200 || open.deed == Action::XhrSend || open.deed == Action::JsonpSend {
            return assert!(open.answer.len() < 100);
        }
        let text = std::str::from_utf8(&open.answer).expect("an answer is text");
        let script = |text: &str| serde_json::from_str::<String>(&text.replace("\\'", "'")).expect("a string");
        let frames: Vec<String> = match open.deed {
            Action::Xhr => text.lines().map(str::to_owned).collect(),
            Action::XhrStreaming => text.lines().skip(1).map(str::to_owned).collect(),
            Action::EventSource => {
                text.lines().filter(|line| !line.is_empty()).map(|line| line["data: ".len()..].to_owned()).collect()
            }
            Action::HtmlFile => {
                text.lines().filter_map(|line| line.strip_prefix("p(")?.strip_suffix(");")).map(script).collect()
            }
            _ => text.lines().map(|line| script(&line["/**/cb(".len()..line.len() - 2])).collect(),
        };
        assert!(!frames.is_empty(), "an answer without a frame: {text:?}");
        for frame in frames {
            self.check_frame(frame.as_bytes());
        }
    }

    fn check_frame(&mut self, frame: &[u8]) {
        self.frames += 1;
        match frame.split_first() {
            Some((b'o' | b'h', [])) => {}
            Some((b'a', messages)) => {
                let messages: Vec<String> = serde_json::from_slice(messages).expect("an array of strings");
                assert!(!messages.is_empty());
                messages.iter().for_each(|message| check_sent(message.as_bytes()));
            }
            Some((b'c', end)) => {
                let (code, reason): (u16, String) = serde_json::from_slice(end).expect("a code and a reason");
                assert!((1000..5000).contains(&code) && !reason.is_empty());
            }
            _ => panic!("no frame: {:?}", String::from_utf8_lossy(frame)),
        }
    }

    /// Disconnects all, and lets time pass.
    fn end(&mut self) {
        (0..4).for_each(|connection| self.gone(ConnectionId(connection)));
        self.run_until_idle();
        for _ in 0..3 {
            self.now += Duration::from_secs(100);
            self.broker.on_timer(self.now, &mut self.sockets);
            self.run_until_idle();
        }
        assert_eq!(self.broker.usage(), BrokerUsage::default());
        assert_eq!(self.broker.next_due(), None);
    }
}
