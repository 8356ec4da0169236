//! Fuzz target: the server's connections, with input in arbitrary pieces, clients that do not read, time, limits, and a
//! service that uses everything it may.

mod conversation;
mod service;
mod wire;

use std::net::IpAddr;
use std::time::Duration;

use nisd::ip::AddressRanges;
use nisd::net::fetch::{FetchLimits, Fetcher};
use nisd::net::http::RequestReader;
use nisd::net::service::{ConnectionId, ListenerId, LoopTime};
use nisd::net::websocket::{WsConnection, WsEvent};
use nisd::net::{Limits, Readiness, Server, Stats};

use conversation::End;
use service::{ConnectionRecord, FuzzService, Stage, TickAction, route};
use wire::{Client, connect};

/// Maximum steps of a script.
const MAX_STEPS: usize = 600;
/// Approximate maximum of bytes sent to all clients of a script.
const MAX_RECEIVED: usize = 4 << 20;
/// Maximum connections of a script.
const MAX_CONNECTIONS: usize = 200;

/// Addresses of clients. The last but one is a trusted proxy, the last an untrusted one.
const CLIENT_ADDRESSES: [&str; 8] =
    ["127.0.0.1", "8.8.8.8", "9.9.9.9", "::1", "2001:db8::1", "2001:db8::2", "10.0.0.9", "10.0.0.8"];

/// Time steps, in milliseconds.
const PAUSES: [u64; 8] = [1, 20, 300, 1000, 3000, 11_000, 31_000, 301_000];

/// Requests of clients.
const PHRASES: [&str; 16] = [
    "GET /n0 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /nP HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /p3 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /u2 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /s% HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /td HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /s3 HTTP/1.0\r\n\r\n",
    "HEAD /tB HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /zQ HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n",
    "GET /g~ HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /n3 HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n",
    "GET /c0 HTTP/1.1\r\nHost: a\r\nForwarded: for=7.7.7.7\r\n\r\n",
    "POST /n2 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 12\r\n\r\nhello, world",
    "POST /u2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "POST /b0 HTTP/1.1\r\nHost: a\r\nContent-Length: 150000\r\n\r\n",
    "GET /w0 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
];

/// A step of a script; further bytes are its arguments.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Connect,
    SendPhrase,
    Bytes,
    Frame,
    Room,
    End,
    Break,
    Wait,
    Sweep,
    Serve,
    Flush,
    Tick,
    Report,
    Ready,
    Shutdown,
    Remove,
}

const STEPS: [Step; 16] = [
    Step::Connect,
    Step::SendPhrase,
    Step::Bytes,
    Step::Frame,
    Step::Room,
    Step::End,
    Step::Break,
    Step::Wait,
    Step::Sweep,
    Step::Serve,
    Step::Flush,
    Step::Tick,
    Step::Report,
    Step::Ready,
    Step::Shutdown,
    Step::Remove,
];

/// Checks for any actions of clients and any order of the loop: requests are answered once and in order, or their
/// connection is closed; disconnects are reported once; output is well-formed; statistics are right; work and memory
/// stay within the limits; and at the end nothing is left.
///
/// The first byte selects limits below those of production; each step starts with [`first_byte`].
pub fn check(data: &[u8]) -> usize {
    run(data).handled
}

/// Cost of a script.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Requests and messages that were handled.
    pub handled: usize,
    /// Bytes sent by the clients, and bytes sent to them.
    pub sent: usize,
    pub received: usize,
    /// Units of work that the server charged itself.
    pub units: u32,
    /// Maximum bytes held at a time, in buffers and in shared buffers.
    pub max_held: usize,
    pub max_shared: usize,
}

/// Runs a script, see [`check`].
pub fn run(data: &[u8]) -> Costs {
    let Some((choice, script)) = data.split_first() else { return Costs::default() };
    let mut scene = Harness::new(limits(*choice));
    let mut bytes = script.iter().copied();
    for _ in 0..MAX_STEPS {
        let Some(step) = bytes.next() else { break };
        scene.step(STEPS[usize::from(step & 15)], usize::from(step >> 4), &mut bytes);
        scene.check();
        if scene.received() > MAX_RECEIVED {
            break;
        }
    }
    scene.quiesce();
    scene.end();
    scene.costs
}

/// Returns the first byte of a step for connection `who`, counted from the last.
pub fn first_byte(step: Step, who: u8) -> u8 {
    who << 4 | step as u8
}

/// Returns the limits of production, with a lower one for each set bit.
fn limits(choice: u8) -> Limits {
    let production = Limits::default();
    let lower = |bit: u8, low: usize, usual: usize| if choice >> bit & 1 == 1 { low } else { usual };
    let mut trusted_proxies = AddressRanges::default();
    trusted_proxies.add(CLIENT_ADDRESSES[6]).unwrap();
    Limits {
        trusted_proxies,
        output_bytes: lower(0, 600, production.output_bytes),
        backlog_bytes: lower(1, 3000, production.backlog_bytes),
        buffered_bytes: lower(2, 8000, production.buffered_bytes),
        shared_bytes: lower(3, 3000, production.shared_bytes),
        connections: lower(4, 5, production.connections),
        connections_per_client: lower(5, 2, production.connections_per_client),
        requests_per_second: production.requests_per_second.map(|usual| lower(6, 3, usual)),
        ..production
    }
}

/// A connection from its client's side.
struct ClientConnection {
    id: ConnectionId,
    slot: usize,
    client: Client,
    /// All bytes that the client has sent.
    sent: Vec<u8>,
    /// Bytes that the client will send next.
    unsent: Vec<u8>,
}

struct Harness {
    server: Server<wire::End>,
    service: FuzzService,
    limits: Limits,
    client_connections: Vec<ClientConnection>,
    running: Duration,
    is_draining: bool,
    costs: Costs,
}

impl Harness {
    fn new(limits: Limits) -> Harness {
        let fetcher = Fetcher::new(FetchLimits::default(), 0);
        let server = Server::new(limits.clone(), fetcher, Box::new(|| Duration::ZERO));
        let service = FuzzService::new(&limits, server.shared_bytes.clone());
        let figures = Costs::default();
        Harness {
            server,
            service,
            limits,
            client_connections: Vec::new(),
            running: Duration::ZERO,
            is_draining: false,
            costs: figures,
        }
    }

    fn step(&mut self, step: Step, who: usize, bytes: &mut impl Iterator<Item = u8>) {
        let mut byte = || bytes.next().unwrap_or_default();
        match step {
            Step::Connect => self.connect(byte()),
            Step::SendPhrase => self.say(who, byte()),
            Step::Bytes => {
                let length = byte();
                let said = (0..length).map(|_| byte()).collect();
                self.send(who, said);
            }
            Step::Frame => {
                let frame = client_frame(byte(), &[byte(), byte()], byte());
                self.send(who, frame);
            }
            Step::Room => {
                let room = usize::from(byte()).pow(2);
                self.with(who, |client| client.wire().room += room, WRITABLE);
            }
            Step::End => self.with(who, Client::end, ENDED),
            Step::Break => self.with(who, Client::break_off, BROKEN),
            Step::Wait => self.pass(Duration::from_millis(PAUSES[who & 7])),
            Step::Sweep => self.server.sweep(),
            Step::Serve => self.serve(who + 1),
            Step::Flush => {
                let _ = (0..=who).filter(|_| self.server.flush_next()).count();
            }
            Step::Tick => self.turn(tick_action(who, byte())),
            Step::Report => self.server.report_disconnects(&mut self.service),
            Step::Ready => self.with(who, |_| {}, Readiness { readable: true, ..WRITABLE }),
            Step::Shutdown => {
                self.is_draining |= who == 0;
                if who == 0 {
                    self.server.shutdown()
                }
            }
            Step::Remove => {
                let slot = self.visit(who).filter(|visit| !visit.client.wire().is_dropped).map(|visit| visit.slot);
                slot.into_iter().for_each(|slot| self.server.remove(slot));
            }
        }
    }

    fn connect(&mut self, choice: u8) {
        if self.client_connections.len() >= MAX_CONNECTIONS {
            return;
        }
        let peer: IpAddr = CLIENT_ADDRESSES[usize::from(choice & 7)].parse().expect("an address");
        let (client, end) = connect(if choice & 8 == 0 { usize::MAX / 2 } else { 0 });
        let listener = ListenerId(usize::from(choice >> 4 & 1));
        let Some(slot) = self.server.admit(end, nisd::net::service::Client::direct(listener, peer)) else { return };
        let number = self.client_connections.len() as u64 + 1;
        self.service.arrived(number, peer);
        let id = ConnectionId(number << 32 | slot as u64);
        self.client_connections.push(ClientConnection { id, slot, client, sent: Vec::new(), unsent: Vec::new() });
    }

    /// Returns connection `who`, counted from the last.
    fn visit(&mut self, who: usize) -> Option<&mut ClientConnection> {
        let last = self.client_connections.len().checked_sub(1)?;
        self.client_connections.get_mut(last - who % (last + 1))
    }

    /// Acts on the client's end, and reports readiness to the server.
    fn with(&mut self, who: usize, act: impl FnOnce(&Client), ready: Readiness) {
        let Some(visit) = self.visit(who) else { return };
        act(&visit.client);
        let (slot, is_there) = (visit.slot, !visit.client.wire().is_dropped);
        if is_there {
            self.server.set_readiness(slot, ready);
        }
    }

    /// Sends a phrase: up to four times, or only its beginning, with the rest for the next time.
    fn say(&mut self, who: usize, choice: u8) {
        let Some(visit) = self.visit(who) else { return };
        let phrase = PHRASES[usize::from(choice & 15)].as_bytes();
        let mut said = std::mem::take(&mut visit.unsent);
        let times = 1 + usize::from(choice >> 4 & 3);
        said.extend(phrase.repeat(times));
        if choice & 0x80 != 0 {
            visit.unsent = said.split_off(said.len() / 2);
        }
        self.send(who, said);
    }

    fn send(&mut self, who: usize, bytes: Vec<u8>) {
        let Some(visit) = self.visit(who) else { return };
        if !visit.client.is_ended() {
            visit.sent.extend_from_slice(&bytes);
            self.costs.sent += bytes.len();
        }
        self.with(who, |client| client.send(bytes), READABLE);
    }

    fn pass(&mut self, time: Duration) {
        self.running += time;
        let moment = LoopTime { unix_millis: self.running.as_millis() as i64, monotonic: self.running };
        self.server.time = moment;
    }

    fn serve(&mut self, times: usize) {
        for _ in 0..times {
            self.service.spent = 0;
            if !self.server.serve_next(&mut self.service) {
                return;
            }
            let held = self.server.stats().buffered_bytes;
            assert!(held <= self.limits.buffered_bytes, "{held} bytes are held after serving");
        }
    }

    fn turn(&mut self, wish: TickAction) {
        self.service.tick_action = wish;
        self.server.tick(&mut self.service, 1000, Duration::ZERO);
    }

    fn received(&self) -> usize {
        self.client_connections.iter().map(|visit| visit.client.wire().received.len()).sum()
    }

    /// Checks the invariants after each step.
    fn check(&mut self) {
        let stats = self.server.stats();
        let open = self.client_connections.iter().filter(|visit| !visit.client.wire().is_dropped).count();
        assert_eq!(stats.connections, open);
        // A disconnect that is not reported yet makes the difference.
        assert!(stats.websockets <= self.service.websockets());
        assert!(stats.accepted + stats.rejected >= self.client_connections.len() as u64);
        let shared = self.server.shared_bytes.held_bytes();
        self.costs.max_held = self.costs.max_held.max(stats.buffered_bytes);
        self.costs.max_shared = self.costs.max_shared.max(shared);
    }

    /// Lets all clients read, resumes whatever waits, and serves everything; then everything must be answered.
    fn quiesce(&mut self) {
        for visit in &self.client_connections {
            let mut wire = visit.client.wire();
            wire.room = usize::MAX / 2;
            if !wire.is_dropped {
                self.server.set_readiness(visit.slot, WRITABLE);
            }
        }
        let mut iterations = 0;
        while self.server.has_work() || self.service.has_work() || self.server.next_refill().is_some() {
            self.turn(TickAction::ResumeAll);
            self.serve(1000);
            while self.server.flush_next() {}
            self.server.report_disconnects(&mut self.service);
            let paid = self.server.next_refill().unwrap_or_default();
            self.pass(paid.saturating_sub(self.running));
            iterations += 1;
            assert!(iterations < 20_000, "somebody is never served");
        }
        self.check();
        assert_eq!(self.server.stats().websockets, self.service.websockets());
        let unknown = ConnectionRecord::default();
        for visit in &self.client_connections {
            let visitor = self.service.records.get(&visit.id).unwrap_or(&unknown);
            self.costs.received += visit.client.wire().received.len();
            visit.check(visitor);
        }
        self.costs.handled = self.service.handled;
        self.costs.units = self.service.units;
    }

    /// Shuts the server down; nothing may be left.
    fn end(&mut self) {
        self.server.shutdown();
        for _ in 0..6 {
            while self.server.flush_next() {}
            self.server.report_disconnects(&mut self.service);
            self.pass(Duration::from_secs(31));
            self.server.sweep();
        }
        // Readiness of a removed connection must be ignored.
        self.serve(10_000);
        self.server.report_disconnects(&mut self.service);
        self.pass(Duration::from_secs(2));
        self.server.sweep();
        self.check();
        assert_eq!(self.service.websockets(), 0, "every websocket was reported");
        assert!(!self.service.has_work(), "so was every request that was not answered");
        assert_eq!(self.server.shared_bytes.held_bytes(), 0);
        let Stats { connections, websockets, buffered_bytes, clients: callers, .. } = self.server.stats();
        assert_eq!((connections, websockets, buffered_bytes, callers), (0, 0, 0, 0), "nothing is left");
    }
}

impl ClientConnection {
    /// Checks the final state: the client has received what it should, and if the connection is open, everything it
    /// sent was handled.
    fn check(&self, visitor: &ConnectionRecord) {
        let wire = self.client.wire();
        let end = conversation::read(&wire.received, visitor, wire.is_dropped);
        let is_open = !wire.is_dropped && !wire.is_answered;
        drop(wire);
        if !is_open {
            return;
        }
        assert_eq!(end, End::Whole, "everything was sent");
        assert!(self.client.is_read(), "everything was read");
        let (requests, messages) = count_handled(&self.sent, visitor);
        assert_eq!(visitor.answered.len(), requests, "every request was answered");
        assert_eq!(visitor.received, messages, "every message was heard");
        assert!(visitor.answered.iter().all(|answered| answered.is_done));
        assert!(visitor.stage != Stage::Over && !visitor.is_gone);
    }
}

/// Counts the requests and messages in what a client has sent, up to the first error: a reader may notice late that the
/// beginning of a head is wrong.
fn count_handled(bytes: &[u8], visitor: &ConnectionRecord) -> (usize, usize) {
    let mut reader = RequestReader::new(0);
    reader.receive(bytes);
    let mut requests = 0;
    while let Ok(true) = reader.advance(|_, path| route(path)) {
        reader.finish_request();
        requests += 1;
        if visitor.answered.get(requests - 1).is_some_and(|answered| answered.is_upgraded) {
            return (requests, messages(reader.buffer.unread()));
        }
    }
    (requests, 0)
}

fn messages(bytes: &[u8]) -> usize {
    let (mut websocket, mut out) = (WsConnection::default(), Vec::new());
    websocket.receive(bytes);
    let mut messages = 0;
    while let Some(event) = websocket.next_event(&mut out) {
        assert!(matches!(event, WsEvent::Message { .. }), "a close frame ends the websocket");
        messages += 1;
    }
    messages
}

const READABLE: Readiness = Readiness { readable: true, writable: false, read_closed: false, broken: false };
const WRITABLE: Readiness = Readiness { readable: false, writable: true, read_closed: false, broken: false };
const ENDED: Readiness = Readiness { readable: true, writable: false, read_closed: true, broken: false };
const BROKEN: Readiness = Readiness { readable: true, writable: true, read_closed: true, broken: true };

fn tick_action(who: usize, choice: u8) -> TickAction {
    match choice & 7 {
        0 | 1 => TickAction::ResumeAll,
        2 => TickAction::ResumeOne(who),
        3 => TickAction::Send(who, choice),
        4 => TickAction::Share(choice),
        5 => TickAction::Close(who),
        6 => TickAction::Charge(who, choice),
        _ => TickAction::Nothing,
    }
}

/// Returns a masked frame with `payload` padded by `padding` times 16 bytes.
fn client_frame(first: u8, payload: &[u8], padding: u8) -> Vec<u8> {
    const MASK: [u8; 4] = [1, 2, 3, 4];
    let mut payload = payload.to_vec();
    payload.resize(payload.len() + usize::from(padding) * 16, b'.');
    let mut frame = vec![first];
    match payload.len() {
        short @ 0..126 => frame.push(0x80 | short as u8),
        longer => {
            frame.push(0x80 | 126);
            frame.extend((longer as u16).to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}
