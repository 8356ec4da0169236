//! A service that uses everything a service may, as its visitors request, and records it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nisd::ip::AddressRanges;
use nisd::net::http::{MatchedRoute, Request, Response};
use nisd::net::service::{
    Client, ConnectionId, Effects, Event, Exchange, ListenerId, LoopTime, Message, Progress, Service,
};
use nisd::net::websocket::handshake;
use nisd::net::{Limits, SharedBytesCounter};

/// Units of work for which one connection is served at a time.
const SHARE: u32 = 100;

/// Lengths of responses and messages.
const SIZES: [usize; 8] = [0, 1, 30, 500, 1500, 5000, 20_000, 70_000];

/// A request and its response.
#[derive(Debug)]
pub struct Answered {
    pub serial: u64,
    pub is_head: bool,
    pub is_http_10: bool,
    pub streaming: bool,
    pub is_upgraded: bool,
    pub is_done: bool,
    /// Bytes of body so far.
    pub length: usize,
}

/// State of a visitor's websocket.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Stage {
    /// No websocket.
    #[default]
    Http,
    /// Open for messages.
    Open,
    /// Closed; the disconnect will be reported.
    Over,
}

/// The record of a connection.
#[derive(Debug, Default)]
pub struct ConnectionRecord {
    pub answered: Vec<Answered>,
    pub stage: Stage,
    /// Number of received messages.
    pub received: usize,
    /// Serial number and length of each message sent.
    pub sent: Vec<(u64, usize)>,
    pub is_gone: bool,
    /// Remaining work for the present request or message.
    work: Option<PendingWork>,
}

#[derive(Clone, Copy, Debug)]
struct PendingWork {
    steps: u8,
    size: usize,
    suspends: bool,
    is_suspended: bool,
}

/// What the service does at its next tick.
#[derive(Clone, Copy, Debug)]
pub enum TickAction {
    Nothing,
    ResumeAll,
    ResumeOne(usize),
    Send(usize, u8),
    Share(u8),
    Close(usize),
    Charge(usize, u8),
}

pub struct FuzzService {
    pub records: BTreeMap<ConnectionId, ConnectionRecord>,
    pub tick_action: TickAction,
    /// Units charged since the present serving began.
    pub spent: u32,
    /// Total units that the server charged itself.
    pub units: u32,
    /// Requests and messages that were handled.
    pub handled: usize,
    pool: SharedBytesCounter,
    output_bytes: usize,
    backlog_bytes: usize,
    serial: u64,
    trusted_proxies: AddressRanges,
    peers: BTreeMap<u64, IpAddr>,
}

/// Returns the bytes of a response or message.
pub fn text(serial: u64, length: usize) -> impl Iterator<Item = u8> {
    std::iter::repeat_n(b'a' + (serial % 26) as u8, length)
}

/// Returns the route of a path, which has the maximum bytes of a body.
pub fn route(path: &str) -> MatchedRoute {
    MatchedRoute { id: 0, body_limit: if path.starts_with("/b") { 200_000 } else { 2000 } }
}

impl FuzzService {
    pub fn new(limits: &Limits, pool: SharedBytesCounter) -> FuzzService {
        FuzzService {
            records: BTreeMap::new(),
            tick_action: TickAction::Nothing,
            spent: 0,
            units: 0,
            handled: 0,
            pool,
            output_bytes: limits.output_bytes,
            backlog_bytes: limits.backlog_bytes,
            serial: 0,
            trusted_proxies: limits.trusted_proxies.clone(),
            peers: BTreeMap::new(),
        }
    }

    /// Records the address of the peer of a connection; numbers follow the order of arrival.
    pub fn arrived(&mut self, number: u64, peer: IpAddr) {
        self.peers.insert(number, peer);
    }

    /// Returns whether a request or message has remaining work.
    pub fn has_work(&self) -> bool {
        self.records.values().any(|visitor| visitor.work.is_some())
    }

    pub fn websockets(&self) -> usize {
        self.records.values().filter(|visitor| visitor.stage != Stage::Http && !visitor.is_gone).count()
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn visitor(&mut self, id: ConnectionId) -> &mut ConnectionRecord {
        let visitor = self.records.entry(id).or_default();
        assert!(!visitor.is_gone, "nothing happens on a connection that is gone");
        visitor
    }

    /// Checks the invariants whenever something is handled for a connection.
    fn begin(&mut self, id: ConnectionId, effects: &dyn Effects) {
        assert!(self.spent < SHARE, "a connection is served for {} units", self.spent);
        assert!(effects.backlog(id) <= self.output_bytes, "nothing is handled for a client that reads nothing");
        self.handled += 1;
    }

    fn charge(&mut self, id: ConnectionId, units: u32, effects: &mut dyn Effects) {
        self.spent += units;
        effects.charge(id, units);
    }

    /// Counts what the server charges for a request or message of this many bytes.
    fn charged_by_server(&mut self, bytes: usize) {
        let units = 2 + (bytes / 1024) as u32;
        self.spent += units;
        self.units = self.units.saturating_add(units);
    }

    fn check_caller(&self, id: ConnectionId, client: Client, request: &Request<'_>) {
        let peer = self.peers[&(id.0 >> 32)];
        let names: [&[u8]; 2] = [b"x-forwarded-for", b"forwarded"];
        let says_so = request.headers().any(|(name, _)| names.contains(&name.to_ascii_lowercase().as_slice()));
        assert_eq!(client.is_forwarded, says_so || self.trusted_proxies.contains(peer));
        let may_name = says_so && self.trusted_proxies.contains(peer);
        assert!(client.address == peer || may_name, "only a trusted proxy names callers");
    }

    fn request(&mut self, exchange: Exchange<'_>, effects: &mut dyn Effects) -> Progress {
        let Exchange {
            connection: id,
            client: caller,
            request,
            response: reply,
            is_resumed,
            is_rate_limited: is_rejected,
        } = exchange;
        self.begin(id, effects);
        self.check_caller(id, caller, request);
        let visitor = self.visitor(id);
        assert_eq!(visitor.stage, Stage::Http);
        assert_eq!(visitor.work.is_some(), is_resumed);
        if !is_resumed {
            let serial = self.next_serial();
            let [kind, amount] = plan(request.path, is_rejected);
            let visitor = self.visitor(id);
            assert!(visitor.answered.last().is_none_or(|last| last.is_done), "one request at a time");
            reply.status = if is_rejected { 429 } else { 200 };
            reply.header("X-N", serial.to_string());
            reply.compress = kind == b'z';
            reply.is_streaming = matches!(kind, b's' | b't');
            reply.close = kind == b'c';
            let mut steps = if matches!(kind, b'u' | b'p' | b's' | b't') { amount & 15 } else { 0 };
            let mut upgraded = Response::new();
            if kind == b'w' && handshake(request, &mut upgraded) {
                (reply.upgrade, steps) = (upgraded.upgrade, 0);
            }
            visitor.answered.push(Answered {
                serial,
                is_head: request.method == "HEAD",
                is_http_10: request.is_http_10,
                streaming: reply.is_streaming,
                is_upgraded: reply.upgrade.is_some(),
                is_done: false,
                length: 0,
            });
            let parks = matches!(kind, b'p' | b't');
            visitor.work = Some(PendingWork {
                steps,
                size: SIZES[usize::from(amount >> 4 & 7)],
                suspends: parks,
                is_suspended: false,
            });
            if kind == b'g' {
                self.charge(id, u32::from(amount) * 16, effects);
            }
        }
        let visitor = self.visitor(id);
        let (work, answered) = (visitor.work.take().expect("work"), visitor.answered.last_mut().expect("an answer"));
        assert_eq!(reply.headers.first().map(|(_, value)| value.parse()), Some(Ok(answered.serial)));
        assert_eq!(reply.body.len(), if answered.streaming { 0 } else { answered.length }, "left as it was");
        reply.body.extend(text(answered.serial, work.size));
        answered.length += work.size;
        let taken = advance(work, &mut visitor.work);
        answered.is_done = taken == Progress::Done;
        self.charged_by_server(reply.body.len());
        taken
    }

    fn on_message(&mut self, id: ConnectionId, message: &[u8], effects: &mut dyn Effects) -> Progress {
        let visitor = self.visitor(id);
        assert_eq!(visitor.stage, Stage::Open);
        assert!(visitor.work.is_none(), "nothing is heard before the last message is dealt with");
        visitor.received += 1;
        let (kind, amount) = (message.first().copied(), message.get(1).copied().unwrap_or_default());
        match kind.unwrap_or_default() {
            b'e' => self.send(id, amount, effects),
            b's' => self.share(amount, effects),
            b'c' => self.close(id, effects),
            b'g' => self.charge(id, u32::from(amount) * 16, effects),
            b'u' | b'p' => {
                let parks = kind == Some(b'p');
                self.visitor(id).work =
                    Some(PendingWork { steps: amount & 15, size: 0, suspends: parks, is_suspended: false });
                return self.resumed(id, effects);
            }
            _ => {}
        }
        Progress::Done
    }

    fn resumed(&mut self, id: ConnectionId, effects: &mut dyn Effects) -> Progress {
        let work = self.visitor(id).work.take().expect("something to go on with");
        self.send(id, 0x20, effects);
        let visitor = self.visitor(id);
        if visitor.stage == Stage::Open { advance(work, &mut visitor.work) } else { Progress::Done }
    }

    fn send(&mut self, id: ConnectionId, amount: u8, effects: &mut dyn Effects) {
        let (serial, length) = (self.next_serial(), SIZES[usize::from(amount >> 4 & 7)]);
        let text: Vec<u8> = text(serial, length).collect();
        self.deliver(id, serial, Message::of(&text), effects);
    }

    /// Sends all open websockets the same body, with a few bytes of their own around it.
    fn share(&mut self, amount: u8, effects: &mut dyn Effects) {
        let (serial, length) = (self.next_serial(), SIZES[usize::from(amount >> 4 & 7)]);
        let body = self.pool.share(text(serial, length).collect());
        let own: Vec<u8> = text(serial, usize::from(amount & 15)).collect();
        let open = self.records.iter().filter(|(_, visitor)| visitor.stage == Stage::Open && !visitor.is_gone);
        let open: Vec<ConnectionId> = open.map(|(id, _)| *id).collect();
        for id in open {
            self.deliver(id, serial, Message { head: &own, body: Some(&body), tail: &own[..own.len() / 2] }, effects);
        }
    }

    fn deliver(&mut self, id: ConnectionId, serial: u64, message: Message<'_>, effects: &mut dyn Effects) {
        let Some(visitor) = self.records.get_mut(&id) else { return };
        let sent = effects.send(id, message);
        if visitor.stage != Stage::Open || visitor.is_gone {
            assert!(sent.is_err(), "a websocket that has ended takes no messages");
            return;
        }
        match sent {
            Ok(()) => visitor.sent.push((serial, message.bytes())),
            Err(_) => (visitor.stage, visitor.work) = (Stage::Over, None),
        }
        // Besides messages: replies to pings, which stop when nothing is read, and the head of one message.
        let bound = self.backlog_bytes.max(message.bytes() + 14) + self.output_bytes + 70_000;
        assert!(effects.backlog(id) <= bound, "{} bytes wait for one websocket", effects.backlog(id));
    }

    fn close(&mut self, id: ConnectionId, effects: &mut dyn Effects) {
        effects.close(id, 1000, "as you wish");
        if let Some(visitor) = self.records.get_mut(&id).filter(|visitor| visitor.stage == Stage::Open) {
            (visitor.stage, visitor.work) = (Stage::Over, None);
        }
    }

    fn turn(&mut self, effects: &mut dyn Effects) {
        let nth = |number: usize| self.records.keys().nth(number % self.records.len().max(1)).copied();
        match self.tick_action {
            TickAction::Nothing => {}
            TickAction::ResumeAll => self.resume(|_| true, effects),
            TickAction::ResumeOne(number) => {
                let chosen = nth(number);
                self.resume(|id| Some(id) == chosen, effects);
            }
            TickAction::Send(number, amount) => nth(number).into_iter().for_each(|id| self.send(id, amount, effects)),
            TickAction::Share(amount) => self.share(amount, effects),
            TickAction::Close(number) => nth(number).into_iter().for_each(|id| self.close(id, effects)),
            TickAction::Charge(number, units) => {
                nth(number).into_iter().for_each(|id| effects.charge(id, u32::from(units) * 1000));
            }
        }
        self.tick_action = TickAction::Nothing;
    }

    fn resume(&mut self, is_meant: impl Fn(ConnectionId) -> bool, effects: &mut dyn Effects) {
        for (id, visitor) in self.records.iter_mut().filter(|(id, _)| is_meant(**id)) {
            if let Some(work) = visitor.work.as_mut().filter(|work| work.is_suspended) {
                work.is_suspended = false;
                effects.resume(*id);
            } else {
                // Has no effect on a connection that is not suspended.
                effects.resume(*id);
            }
        }
    }

    fn on_disconnect(&mut self, id: ConnectionId) {
        let visitor = self.visitor(id);
        assert!(visitor.stage != Stage::Http || visitor.work.is_some(), "only what was begun can be gone");
        (visitor.is_gone, visitor.work) = (true, None);
    }
}

/// Returns the action for a request, from its path.
fn plan(path: &str, is_rejected: bool) -> [u8; 2] {
    let mut bytes = path.bytes().skip(1).chain([0, 0]);
    let plan = [bytes.next().unwrap_or_default(), bytes.next().unwrap_or_default()];
    if is_rejected { [b'n', 0] } else { plan }
}

/// Performs one step of the remaining work.
fn advance(work: PendingWork, left: &mut Option<PendingWork>) -> Progress {
    let Some(steps) = work.steps.checked_sub(1) else { return Progress::Done };
    let is_parked = work.suspends && steps & 1 == 0;
    *left = Some(PendingWork { steps, is_suspended: is_parked, ..work });
    if is_parked { Progress::Suspended } else { Progress::Yield }
}

impl Service for FuzzService {
    fn handle(&mut self, event: Event<'_>, _: LoopTime, effects: &mut dyn Effects) -> Progress {
        match event {
            Event::Request(exchange) => return self.request(exchange, effects),
            Event::WebSocketOpened { socket, .. } => {
                let visitor = self.visitor(socket);
                assert!(visitor.answered.last().is_some_and(|last| last.is_upgraded && last.is_done));
                assert_eq!(visitor.stage, Stage::Http);
                visitor.stage = Stage::Open;
            }
            Event::WebSocketMessage { socket, message, is_text } => {
                assert!(!is_text || str::from_utf8(message).is_ok());
                self.begin(socket, effects);
                self.charged_by_server(0);
                return self.on_message(socket, message, effects);
            }
            Event::WebSocketResumed { socket } => {
                self.begin(socket, effects);
                assert_eq!(self.visitor(socket).stage, Stage::Open);
                return self.resumed(socket, effects);
            }
            Event::Disconnected { connection } => self.on_disconnect(connection),
            Event::Tick { .. } => self.turn(effects),
            Event::FetchCompleted { .. } => panic!("nothing was fetched"),
        }
        Progress::Done
    }

    fn route(&self, _: ListenerId, _: &str, path: &str) -> MatchedRoute {
        route(path)
    }
}
