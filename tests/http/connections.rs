//! The server's connections without system sockets and without a clock: tests that need an exact order of events.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;

use nisd::net::fetch::{FetchLimits, Fetcher};
use nisd::net::service::{
    Client, ConnectionId, Effects, Event, Exchange, ListenerId, LoopTime, Message, Progress, Service,
};
use nisd::net::websocket::handshake;
use nisd::net::{Clock, Limits, Readiness, Server, SharedBytes, Socket, Stats};

const LISTENER: ListenerId = ListenerId(0);

/// Maximum size of the body of a push.
const PUSHED_BYTES: usize = 1 << 20;

/// Size of the response of `/large`.
const LARGE: usize = 150_000;

/// Units of work that `/costly` consumes.
const COSTLY: u32 = 1_000_000;

/// Pieces of the response of `/long`, and the units of work that each consumes.
const PIECES: usize = 1_000;
const PIECE_UNITS: u32 = 2_000;

const UPGRADE: &str = "GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// One end of a connection whose other end reads everything at once.
#[derive(Clone, Default)]
struct Wire {
    sent: Rc<RefCell<Vec<u8>>>,
    received: Rc<RefCell<Vec<u8>>>,
    is_over: Rc<Cell<bool>>,
    /// The other end reads nothing; the system buffers what was written.
    is_stuck: Rc<Cell<bool>>,
    /// Bytes that the system buffers for it in addition.
    buffered: Rc<Cell<usize>>,
    /// How often the system was asked for these bytes.
    buffer_queries: Rc<Cell<u64>>,
    /// The system was told to discard them.
    is_discarded: Rc<Cell<bool>>,
}

impl Wire {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.received.borrow()).into_owned()
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut sent = self.sent.borrow_mut();
        let count = sent.len().min(buffer.len());
        buffer[..count].copy_from_slice(&sent[..count]);
        sent.drain(..count);
        if count == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.received.borrow_mut().write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.received.borrow_mut().write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket for Wire {
    fn end_writing(&mut self) -> io::Result<()> {
        self.is_over.set(true);
        Ok(())
    }

    fn discard_unsent(&mut self) {
        self.is_discarded.set(true);
    }

    fn unsent_bytes(&mut self, _: bool) -> usize {
        assert!(!self.is_over.get(), "nobody can tell after the end of writing");
        self.buffer_queries.set(self.buffer_queries.get() + 1);
        if self.is_stuck.get() { usize::MAX } else { self.buffered.get() }
    }
}

/// A service for these tests. `/stream` responds in chunks, the second of which is made on resume. `/held`, and
/// `/pieces` in chunks, are answered on the second resume. `/never` is never answered. `/push` and `/query` have empty
/// responses, `/large` a large one, `/costly` an empty one after much work. `/long` is streamed in many pieces, `/queued` is
/// answered on resume. It upgrades on request.
#[derive(Default)]
struct TestService {
    streaming: Option<ConnectionId>,
    held: u32,
    /// The pieces of `/long` that are written, by connection.
    pieces: BTreeMap<ConnectionId, usize>,
    opened: Vec<ConnectionId>,
    disconnected: Vec<ConnectionId>,
    resume: bool,
    publish: Option<SharedBytes>,
}

impl TestService {
    fn request(&mut self, exchange: Exchange<'_>, effects: &mut dyn Effects) -> Progress {
        let Exchange { connection, request, response: reply, is_resumed, .. } = exchange;
        match request.path {
            "/stream" => {
                reply.is_streaming = true;
                reply.body.extend_from_slice(b"piece");
                self.streaming = Some(connection);
                if is_resumed { Progress::Done } else { Progress::Suspended }
            }
            "/held" | "/pieces" => {
                reply.is_streaming = request.path == "/pieces";
                if reply.is_streaming {
                    reply.body.extend_from_slice(b"piece");
                }
                self.streaming = Some(connection);
                self.held += u32::from(is_resumed);
                if self.held < 2 {
                    return Progress::Streaming;
                }
                reply.body.extend_from_slice(b"end");
                Progress::Done
            }
            "/large" => {
                reply.body.extend_from_slice(&vec![b'x'; LARGE]);
                Progress::Done
            }
            "/long" => {
                reply.is_streaming = true;
                reply.body.extend_from_slice(b"piece");
                effects.charge(connection, PIECE_UNITS);
                let written = self.pieces.entry(connection).or_default();
                *written += 1;
                if *written < PIECES { Progress::Yield } else { Progress::Done }
            }
            "/queued" => {
                self.streaming = Some(connection);
                if is_resumed { Progress::Done } else { Progress::Queued }
            }
            "/never" => Progress::Yield,
            "/push" | "/query" => Progress::Done,
            "/costly" => {
                effects.charge(connection, COSTLY);
                Progress::Done
            }
            _ => {
                if request.header("Upgrade").is_some() {
                    handshake(request, reply);
                }
                Progress::Done
            }
        }
    }
}

impl Service for TestService {
    fn handle(&mut self, event: Event<'_>, _: LoopTime, effects: &mut dyn Effects) -> Progress {
        match event {
            Event::Request(exchange) => return self.request(exchange, effects),
            Event::WebSocketOpened { socket, .. } => self.opened.push(socket),
            Event::Disconnected { connection } => self.disconnected.push(connection),
            Event::Tick { .. } => {
                let body = self.publish.take();
                for socket in body.is_some().then_some(&self.opened).into_iter().flatten() {
                    effects.send(*socket, Message { head: b"", body: body.as_ref(), tail: b"" }).unwrap();
                }
                self.streaming.filter(|_| self.resume).into_iter().for_each(|id| effects.resume(id));
            }
            _ => {}
        }
        Progress::Done
    }

    fn is_local(&self, _: &Client, request: &nisd::net::http::Request<'_>) -> bool {
        request.header("Authorization").is_some()
    }

    fn route(&self, _: ListenerId, _: &str, path: &str) -> nisd::net::http::MatchedRoute {
        nisd::net::http::MatchedRoute { id: 0, body_limit: if path == "/push" { PUSHED_BYTES } else { 1000 } }
    }
}

struct Harness {
    server: Server<Wire>,
    service: TestService,
    uptime: Duration,
}

impl Harness {
    fn new(limits: Limits) -> Harness {
        Harness::with_proxies(limits, &[])
    }

    /// Creates a server that has begun to serve a request.
    fn asked(target: &str) -> (Harness, Wire, usize) {
        let mut world = Harness::new(Limits::default());
        let (wire, slot) = world.client(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        world.serve();
        (world, wire, slot)
    }

    /// Like [`Harness::new`], with these trusted proxies.
    fn with_proxies(limits: Limits, proxies: &[[u8; 4]]) -> Harness {
        Harness::with_clock(limits, proxies, Box::new(|| Duration::ZERO))
    }

    fn with_clock(mut limits: Limits, proxies: &[[u8; 4]], clock: Clock) -> Harness {
        for proxy in proxies {
            limits.trusted_proxies.add(&IpAddr::from(*proxy).to_string()).unwrap();
        }
        let fetcher = Fetcher::new(FetchLimits::default(), 0);
        let server = Server::new(limits, fetcher, clock);
        Harness { server, service: TestService::default(), uptime: Duration::ZERO }
    }

    /// Connects a client that has sent bytes which are not served yet.
    fn client(&mut self, said: &str) -> (Wire, usize) {
        self.client_at([8, 8, 8, 8], said.as_bytes())
    }

    /// Like [`Harness::client`], from a given address.
    fn client_at(&mut self, address: [u8; 4], said: &[u8]) -> (Wire, usize) {
        let wire = Wire::default();
        let slot = self.server.admit(wire.clone(), Client::direct(LISTENER, address.into())).unwrap();
        self.send(&wire, slot, said);
        (wire, slot)
    }

    /// Connects clients that have sent the heads of large bodies, `each` of them at each of these addresses.
    fn pushers(&mut self, addresses: u8, each: usize, at: fn(u8) -> [u8; 4]) -> Vec<(Wire, usize)> {
        let head = push_head(PUSHED_BYTES);
        let clients = (0..addresses).flat_map(|address| std::iter::repeat_n(at(address), each));
        clients.map(|address| self.client_at(address, head.as_bytes())).collect()
    }

    fn send(&mut self, wire: &Wire, slot: usize, said: &[u8]) {
        wire.sent.borrow_mut().extend_from_slice(said);
        self.server.set_readiness(slot, Readiness { readable: true, ..Readiness::default() });
    }

    fn advance(&mut self, time: Duration) {
        self.uptime += time;
        self.server.time = LoopTime { unix_millis: 0, monotonic: self.uptime };
    }

    fn serve(&mut self) {
        while self.server.serve_next(&mut self.service) {}
        while self.server.flush_next() {}
    }

    fn ready(&mut self, slot: usize, readiness: Readiness) {
        self.server.set_readiness(slot, readiness);
        self.serve();
    }

    /// Lets time pass, and does what is then due.
    fn pass(&mut self, time: Duration) {
        self.advance(time);
        self.server.sweep();
        self.serve();
        self.server.report_disconnects(&mut self.service);
    }

    fn tick(&mut self) {
        self.server.tick(&mut self.service, 1000, Duration::ZERO);
    }
}

fn push_head(length: usize) -> String {
    format!("POST /push HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")
}

/// Lets clients send their bodies slowly and interleaved, and returns the maximum number of bytes held. Meanwhile
/// another client sends requests, which must be answered at once.
fn send_slowly(world: &mut Harness, clients: &[(Wire, usize)]) -> usize {
    const PIECE: usize = 8 << 10;
    let (asker, slot) = world.client_at([7, 7, 7, 7], b"");
    let mut most = 0;
    for round in 1..=PUSHED_BYTES / PIECE / 2 {
        for (wire, slot) in clients {
            let is_there = world.server.socket(*slot).is_some_and(|socket| Rc::ptr_eq(&socket.sent, &wire.sent));
            if is_there && !wire.is_over.get() {
                world.send(wire, *slot, &[0; PIECE]);
            }
        }
        world.send(&asker, slot, b"GET /query HTTP/1.1\r\nHost: a\r\n\r\n");
        world.serve();
        most = most.max(world.server.stats().buffered_bytes);
        assert_eq!(asker.text().matches("HTTP/1.1 200").count(), round, "an answer in each round");
        world.advance(Duration::from_millis(100));
    }
    most
}

#[test]
fn slow_bodies_from_many_addresses_keep_within_the_total_memory_limit() {
    const MOST: usize = 8 << 20;
    let limits = Limits { buffered_bytes: MOST, ..Limits::default() };
    let mut world = Harness::new(limits);
    let clients = world.pushers(60, 4, |number| [9, 9, number, 9]);
    let most = send_slowly(&mut world, &clients);
    assert!((MOST / 2..=MOST).contains(&most), "{most} bytes of {MOST}");
    // Half of them would take 120 MiB; the disconnected ones have received the reason.
    let told = clients.iter().filter(|(wire, _)| wire.text().starts_with("HTTP/1.1 503")).count();
    assert!(told > clients.len() / 2, "{told}");
}

#[test]
fn slow_bodies_from_one_network_keep_within_an_eighth_of_the_memory() {
    const MOST: usize = 2 << 20;
    let mut world = Harness::new(Limits { buffered_bytes: 8 * MOST, ..Limits::default() });
    let clients = world.pushers(10, 5, |number| [9, 9, 9, number]);
    let most = send_slowly(&mut world, &clients);
    // The querying client holds nothing between its requests.
    assert!((MOST / 2..=MOST).contains(&most), "{most} bytes of {MOST}");
    let honest = [push_head(PUSHED_BYTES).as_bytes(), &[0; PUSHED_BYTES]].concat();
    let (wire, _) = world.client_at([6, 6, 6, 6], &honest);
    world.serve();
    assert!(wire.text().starts_with("HTTP/1.1 200"), "{:?}", wire.text());
}

#[test]
fn a_started_response_is_aborted_at_its_timeout() {
    let (mut world, wire, _) = Harness::asked("/stream");
    let begun = wire.text();
    assert!(begun.ends_with("\r\n\r\n5\r\npiece\r\n"), "{begun}");
    world.pass(Duration::from_secs(31));
    assert_eq!(wire.text(), begun, "no second answer within the first");
    assert_eq!((world.server.stats().connections, world.service.disconnected.len()), (0, 1));
}

#[test]
fn sixteen_long_responses_that_one_client_takes_at_once_are_whole_however_long_its_rate_makes_them() {
    const STEP: Duration = Duration::from_millis(10);
    let mut world = Harness::new(Limits::default());
    let request = "GET /long HTTP/1.1\r\nHost: a\r\n\r\n";
    let wires: Vec<Wire> = (0..16).map(|_| world.client(request).0).collect();
    let is_whole = |wire: &Wire| wire.text().ends_with("5\r\npiece\r\n0\r\n\r\n");
    while world.server.stats().connections > 0 && !wires.iter().all(is_whole) {
        world.pass(STEP);
    }
    assert!(wires.iter().all(is_whole), "{:?}", world.uptime);
    assert!(wires.iter().all(|wire| wire.text().matches("piece").count() == PIECES));
    assert!(world.uptime > 4 * Limits::default().request_time, "{:?}", world.uptime);
}

#[test]
fn requests_that_wait_for_a_minute_because_their_client_is_throttled_are_answered() {
    let mut world = Harness::new(Limits::default());
    let clients: Vec<(Wire, usize)> =
        (0..20).map(|_| world.client("GET /costly HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    // Each response costs what the rate allows in four seconds.
    for _ in 0..90 {
        world.pass(Duration::from_secs(1));
    }
    assert!(clients.iter().all(|(wire, _)| wire.text().starts_with("HTTP/1.1 200 ")));
}

#[test]
fn a_request_that_waits_in_a_line_for_a_minute_is_answered() {
    let (mut world, wire, _) = Harness::asked("/queued");
    world.pass(Duration::from_secs(61));
    world.service.resume = true;
    world.tick();
    world.serve();
    assert!(wire.text().starts_with("HTTP/1.1 200 "), "{:?}", wire.text());
    let (mut world, wire, _) = Harness::asked("/queued");
    world.pass(Limits::default().websocket_idle);
    assert!(wire.text().starts_with("HTTP/1.1 503 "), "{:?}", wire.text());
}

#[test]
fn a_started_response_is_the_last_of_its_connection_during_shutdown() {
    let (mut world, wire, _) = Harness::asked("/stream");
    world.server.shutdown();
    world.service.resume = true;
    world.tick();
    world.serve();
    assert!(wire.text().ends_with("5\r\npiece\r\n0\r\n\r\n"));
    assert_eq!(world.server.stats().connections, 0);
}

#[test]
fn a_websocket_opened_during_shutdown_gets_close_code_1001() {
    let mut world = Harness::new(Limits::default());
    let (begin, end) = UPGRADE.split_at(50);
    let (wire, slot) = world.client(begin);
    world.serve();
    world.server.shutdown();
    world.send(&wire, slot, end.as_bytes());
    world.serve();
    world.server.report_disconnects(&mut world.service);
    assert!(wire.received.borrow().ends_with(&[0x88, 2, 3, 0xe9]), "1001");
    assert!(wire.is_over.get());
    assert_eq!(world.service.disconnected, world.service.opened);
}

#[test]
fn a_timed_out_connection_gets_one_error_response() {
    let mut world = Harness::new(Limits::default());
    let (wire, slot) = world.client("GET /never HTTP/1.1\r\nHost: a\r\n\r\n");
    world.server.serve_next(&mut world.service);
    world.advance(Duration::from_secs(31));
    world.server.sweep();
    world.advance(Duration::from_secs(31));
    world.server.sweep();
    assert!(world.server.socket(slot).is_some(), "it waits for its last output");
    world.serve();
    assert!(wire.text().starts_with("HTTP/1.1 503 "));
    assert_eq!(wire.text().matches("HTTP/1.1").count(), 1);
    world.advance(Duration::from_secs(3));
    world.server.sweep();
    assert_eq!(world.server.stats().connections, 0);
}

#[test]
fn idle_connections_and_slow_requests_time_out() {
    let limits =
        Limits { keep_alive: Duration::from_secs(3), request_time: Duration::from_secs(3), ..Limits::default() };
    let mut world = Harness::new(limits);
    let (silent, slow, dripping) = (world.client(""), world.client("GET /never-ending"), world.client("GET /"));
    for _ in 0..2 {
        world.serve();
        world.server.sweep();
        assert_eq!(world.server.stats().connections, 3);
        world.advance(Duration::from_millis(1_600));
        // Sending something now and then does not extend the time.
        world.send(&dripping.0, dripping.1, b"x");
    }
    world.server.sweep();
    world.serve();
    assert!(!world.has(&silent) && silent.0.text().is_empty());
    for (wire, _) in [&slow, &dripping] {
        assert!(wire.text().starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{}", wire.text());
    }
}

#[test]
fn pings_are_charged_like_messages() {
    let mut world = Harness::new(Limits::default());
    let (wire, slot) = world.client(UPGRADE);
    world.serve();
    let pings = [0x89, 0x80, 0, 0, 0, 0].repeat(10_000);
    let mut rounds = 0;
    while world.server.next_refill().is_none() {
        world.send(&wire, slot, &pings);
        world.serve();
        rounds += 1;
        assert!(rounds < 200, "two million pings in no time");
    }
    // A websocket has a budget of 100,000 units of work, which correspond to as many microseconds.
    assert!(rounds >= 10, "{rounds}");
}

#[test]
fn shared_bytes_held_by_the_service_evict_no_websocket() {
    let mut world = Harness::new(Limits { shared_bytes: 1000, ..Limits::default() });
    let (wire, _) = world.client(UPGRADE);
    world.serve();
    let kept = world.server.shared_bytes.share(vec![b'x'; 2000]);
    world.tick();
    world.service.publish = Some(world.server.shared_bytes.share(vec![b'y'; 10]));
    world.serve();
    assert_eq!((world.server.stats().websockets, wire.is_over.get()), (1, false));
    drop(kept);
    world.tick();
    world.serve();
    assert!(wire.text().ends_with("yyyyyyyyyy"));
}

#[test]
fn the_timeout_of_a_suspended_request_restarts_at_each_resumption() {
    for (target, said, end) in
        [("/held", "", "\r\n\r\nend"), ("/pieces", "5\r\npiece\r\n", "8\r\npieceend\r\n0\r\n\r\n")]
    {
        let (mut world, wire, _) = Harness::asked(target);
        world.service.resume = true;
        for _ in 0..2 {
            assert!(wire.text().ends_with(said), "{:?}", wire.text());
            world.pass(Duration::from_secs(140));
            world.tick();
            world.serve();
            world.server.sweep();
        }
        assert!(wire.text().ends_with(end), "{:?}", wire.text());
        assert_eq!(world.server.stats().connections, 1);
        assert!(world.service.disconnected.is_empty());
    }
}

#[test]
fn a_suspended_request_without_progress_times_out() {
    for (target, answer) in [("/held", "HTTP/1.1 503 "), ("/pieces", "HTTP/1.1 200 ")] {
        let (mut world, wire, _) = Harness::asked(target);
        world.pass(Limits::default().websocket_idle);
        assert!(wire.text().starts_with(answer) && !wire.text().ends_with("0\r\n\r\n"), "{:?}", wire.text());
        assert_eq!(world.service.disconnected.len(), 1);
    }
}

#[test]
fn a_client_that_closes_its_side_during_a_suspended_request_is_disconnected_at_once() {
    for target in ["/held", "/pieces"] {
        let (mut world, _, slot) = Harness::asked(target);
        world.ready(slot, Readiness { read_closed: true, ..Readiness::default() });
        world.server.report_disconnects(&mut world.service);
        assert_eq!((world.server.stats().connections, world.service.disconnected.len()), (0, 1));
    }
}

#[test]
fn suspended_requests_end_at_shutdown() {
    for (target, answer) in [("/held", "HTTP/1.1 503 "), ("/pieces", "HTTP/1.1 200 ")] {
        let (mut world, wire, _) = Harness::asked(target);
        world.server.shutdown();
        world.serve();
        assert!(wire.text().starts_with(answer), "{:?}", wire.text());
        world.advance(Duration::from_secs(3));
        world.server.sweep();
        assert_eq!(world.server.stats().connections, 0);
    }
}

const QUERY: &str = "GET /query HTTP/1.1\r\nHost: a\r\n\r\n";

impl Harness {
    /// Creates a server that allows this many connections.
    fn with_connection_limit(connections: usize) -> Harness {
        Harness::new(Limits { connections, ..Limits::default() })
    }

    /// Connects clients at this many addresses, all in different networks, `each` with that many connections and one
    /// request on every connection.
    fn connect_many(&mut self, series: u8, addresses: u16, each: usize, said: &str) -> Vec<(Wire, usize)> {
        let mut clients = Vec::new();
        for number in 0..addresses {
            let [high, low] = number.to_be_bytes();
            for _ in 0..each {
                clients.push(self.client_at([10 + high, series, low, 0], said.as_bytes()));
            }
            self.serve();
            self.advance(Duration::from_millis(1));
        }
        clients
    }

    /// Returns whether the connection of this wire still exists.
    fn has(&mut self, (wire, slot): &(Wire, usize)) -> bool {
        self.server.socket(*slot).is_some_and(|socket| Rc::ptr_eq(&socket.sent, &wire.sent))
    }

    /// Returns whether a client at a new address is admitted and answered.
    fn admits(&mut self, address: [u8; 4]) -> bool {
        let (wire, _) = self.client_at(address, QUERY.as_bytes());
        self.serve();
        wire.text().starts_with("HTTP/1.1 200")
    }
}

#[test]
fn a_newcomer_evicts_the_longest_idle_connection_of_the_largest_client() {
    let mut world = Harness::with_connection_limit(300);
    let few = world.connect_many(1, 20, 2, QUERY);
    let most = world.connect_many(2, 1, 60, QUERY);
    let many = world.connect_many(3, 4, 50, QUERY);
    assert_eq!(world.server.stats().connections, 300);
    // The first of the clients with the most connections is not the one idle for longest.
    world.send(&most[0].0, most[0].1, QUERY.as_bytes());
    world.serve();
    world.advance(Duration::from_millis(1));
    assert!(world.admits([10, 9, 0, 0]));
    assert!(world.has(&most[0]) && !world.has(&most[1]) && many.iter().chain(&few).all(|client| world.has(client)));
    for newcomer in 1..=250 {
        assert!(world.admits([10, 9, 0, newcomer]), "newcomer {newcomer}");
        assert_eq!(world.server.stats().connections, 300);
    }
    // 251 newcomers, 25 others and one connection each: no client has lost its last connection before.
    let left =
        |world: &mut Harness, clients: &[(Wire, usize)]| clients.iter().filter(|client| world.has(client)).count();
    assert!(few.chunks(2).all(|own| left(&mut world, own) >= 1));
    assert!(many.chunks(50).all(|own| left(&mut world, own) >= 1) && left(&mut world, &most) >= 1);
    assert_eq!((world.server.stats().evicted, world.server.stats().rejected), (251, 0));
}

#[test]
fn a_newcomer_aborts_a_response_only_if_its_client_has_no_idle_connection() {
    let mut world = Harness::with_connection_limit(30);
    let busy = world.connect_many(1, 1, 20, "GET /never HTTP/1.1\r\nHost: a\r\n\r\n");
    let idle = world.client_at([10, 1, 0, 0], QUERY.as_bytes());
    let rest = world.connect_many(2, 9, 1, QUERY);
    assert_eq!(world.server.stats().connections, 30);
    assert!(world.admits([10, 9, 0, 0]));
    assert!(!world.has(&idle) && busy.iter().chain(&rest).all(|client| world.has(client)));
    assert!(world.admits([10, 9, 0, 1]));
    assert_eq!(busy.iter().filter(|client| world.has(client)).count(), 19);
    assert!(rest.iter().all(|client| world.has(client)));
}

#[test]
fn a_newcomer_gets_in_where_all_have_one_connection_and_the_longest_idle_gives_way() {
    let mut world = Harness::with_connection_limit(30);
    let sockets = world.connect_many(1, 28, 1, UPGRADE);
    let idle = world.connect_many(2, 2, 1, QUERY);
    world.send(&sockets[0].0, sockets[0].1, &[0x89, 0x80, 0, 0, 0, 0]);
    world.serve();
    for newcomer in 0..30 {
        assert!(world.admits([10, 9, newcomer, 0]), "newcomer {newcomer}");
        world.advance(Duration::from_millis(1));
    }
    // The last of them gives way to the thirtieth newcomer.
    assert!(!world.has(&sockets[1]) && idle.iter().all(|client| !world.has(client)));
    assert_eq!((world.server.stats().connections, world.server.stats().rejected), (30, 0));
}

#[test]
fn websockets_from_many_addresses_of_few_networks_do_not_block_newcomers() {
    let mut world = Harness::with_connection_limit(300);
    let rest = world.connect_many(1, 50, 1, UPGRADE);
    let mut owned: Vec<(Wire, usize)> = Vec::new();
    for number in 0..250u16 {
        // Each IPv6 /64 network is one client.
        let address = Ipv6Addr::new(0x2001, 0xdb8, number % 2, number, 0, 0, 0, 1);
        let wire = Wire::default();
        let slot = world.server.admit(wire.clone(), Client::direct(LISTENER, address.into())).unwrap();
        world.send(&wire, slot, UPGRADE.as_bytes());
        world.serve();
        owned.push((wire, slot));
    }
    assert_eq!(world.server.stats().connections, 300);
    for newcomer in 0..200u8 {
        assert!(world.admits([20, newcomer, 0, 0]), "newcomer {newcomer}");
    }
    assert!(rest.iter().all(|client| world.has(client)));
    let left = owned.iter().filter(|client| world.has(client)).count();
    assert_eq!((left, world.server.stats().rejected), (50, 0));
}

#[test]
fn many_addresses_of_one_network_give_way_to_a_client_of_this_machine() {
    let mut world = Harness::with_connection_limit(300);
    let few = world.connect_many(1, 50, 1, UPGRADE);
    let crowd: Vec<_> = (0..250).map(|number| world.client_at([10, 2, 0, number], UPGRADE.as_bytes())).collect();
    world.serve();
    for _ in 0..20 {
        assert!(world.admits([127, 0, 0, 1]));
    }
    assert!(few.iter().all(|client| world.has(client)));
    assert_eq!(crowd.iter().filter(|client| world.has(client)).count(), 230);
}

#[test]
fn the_eviction_candidate_is_found_in_few_checks() {
    let mut world = Harness::new(Limits { connections: 4_000, requests_per_second: None, ..Limits::default() });
    let clients = world.connect_many(1, 20, 200, QUERY);
    let (mut active, mut newcomers) = (clients.len() as u64, 0);
    for round in 0..20u8 {
        for (wire, slot) in clients.iter().skip(usize::from(round)).step_by(7) {
            if world.has(&(wire.clone(), *slot)) {
                world.send(wire, *slot, QUERY.as_bytes());
                active += 1;
            }
        }
        world.serve();
        world.advance(Duration::from_millis(10));
        for number in 0..100 {
            assert!(world.admits([10, 9, round, number]));
            newcomers += 1;
        }
    }
    let Stats { eviction_checks: looks, evicted: displaced, connections, .. } = world.server.stats();
    assert!(connections >= 4_000 && displaced > 1_000, "{connections} {displaced}");
    assert!(looks <= active + newcomers, "{looks} looks for {newcomers} newcomers, {active} times something was done");
}

#[test]
fn unread_responses_keep_within_the_kernel_memory_limit_and_readers_stay_connected() {
    let limits = Limits { kernel_bytes: 8 << 20, requests_per_second: None, ..Limits::default() };
    let mut world = Harness::new(limits);
    let readers = world.connect_many(1, 50, 1, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut stuck = Vec::new();
    for number in 0..240u8 {
        let (wire, slot) = world.client_at([10, 2, 0, number % 12], b"");
        wire.is_stuck.set(true);
        world.send(&wire, slot, b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        world.serve();
        stuck.push((wire, slot));
        assert!(world.server.stats().kernel_bytes <= 8 << 20, "{:?}", world.server.stats());
    }
    assert!(readers.iter().all(|client| world.has(client)), "those who read are not cut");
    let cut = stuck.iter().filter(|(wire, _)| wire.is_discarded.get()).count() as u64;
    let held = stuck.iter().filter(|client| world.has(client)).count();
    assert_eq!((cut, cut as usize + held), (world.server.stats().kernel_evicted, stuck.len()));
    assert!((20..=8 * 1024 * 1024 / LARGE).contains(&held), "{held}");
}

#[test]
fn a_closing_connection_stays_counted_until_its_output_is_sent_or_stalls() {
    let mut world = Harness::new(Limits::default());
    let closing = b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let (reader, _) = world.client_at([10, 1, 0, 0], closing);
    world.serve();
    assert!(!reader.is_discarded.get() && world.server.stats().connections == 0);
    let (wire, slot) = world.client_at([10, 1, 0, 0], b"");
    wire.is_stuck.set(true);
    world.send(&wire, slot, closing);
    world.serve();
    let Stats { connections, kernel_bytes, .. } = world.server.stats();
    assert!(connections == 1 && kernel_bytes >= LARGE, "it is there, and counted");
    world.pass(Duration::from_secs(3));
    assert!(!wire.is_discarded.get() && world.server.stats().connections == 1, "it may be slow");
    world.advance(Limits::default().write_stall);
    world.server.sweep();
    assert!(wire.is_discarded.get());
    assert_eq!((world.server.stats().connections, world.server.stats().kernel_bytes), (0, 0));
}

#[test]
fn a_half_closed_connection_ends_once_the_last_response_is_read() {
    let closing = b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for closes_its_side in [false, true] {
        let mut world = Harness::new(Limits::default());
        let (wire, slot) = world.client_at([10, 1, 0, 0], b"");
        wire.buffered.set(20_000);
        wire.sent.borrow_mut().extend_from_slice(closing);
        world
            .server
            .set_readiness(slot, Readiness { readable: true, read_closed: closes_its_side, ..Readiness::default() });
        world.serve();
        assert_eq!((world.server.stats().connections, world.server.stats().kernel_bytes), (1, 20_000));
        let looks = wire.buffer_queries.get();
        world.ready(slot, Readiness { readable: true, ..Readiness::default() });
        assert_eq!(wire.buffer_queries.get(), looks, "whatever else comes is not worth a look");
        wire.buffered.set(0);
        world.ready(slot, Readiness { writable: true, ..Readiness::default() });
        assert_eq!((world.server.stats().connections, wire.is_discarded.get()), (0, false));
    }
}

#[test]
fn a_response_that_is_being_read_is_not_aborted_for_a_newcomer() {
    let mut world = Harness::with_connection_limit(30);
    let taking = world.connect_many(1, 1, 10, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    taking[..9].iter().for_each(|(wire, _)| wire.buffered.set(20_000));
    let rest = world.connect_many(2, 20, 1, QUERY);
    assert!(world.admits([10, 9, 0, 0]));
    assert!(!world.has(&taking[9]) && taking[..9].iter().chain(&rest).all(|client| world.has(client)));
}

#[test]
fn many_small_backlogs_do_not_evict_a_fast_reader_and_are_measured_in_few_checks() {
    let limits = Limits { requests_per_second: None, ..Limits::default() };
    let most = limits.kernel_bytes;
    let mut world = Harness::new(limits);
    let large = "GET /large HTTP/1.1\r\nHost: a\r\n\r\n";
    let fast = world.client_at([10, 1, 0, 0], b"");
    let mut all = vec![fast.clone()];
    let looks = |all: &[(Wire, usize)]| all.iter().map(|(wire, _)| wire.buffer_queries.get()).sum::<u64>();
    for round in 0..2 {
        for number in 0..600u16 {
            let [high, low] = number.to_be_bytes();
            if round == 0 {
                all.push(world.client_at([10, 2, high, low], b""));
            }
            // They have read all but a little, while the reader is in the middle of a long response.
            let (wire, slot) = all[1 + usize::from(number)].clone();
            wire.buffered.set(20_000);
            fast.0.buffered.set(100_000);
            let before = looks(&all);
            world.send(&wire, slot, large.as_bytes());
            world.send(&fast.0, fast.1, large.as_bytes());
            world.serve();
            assert!(looks(&all) - before <= 2 * 512, "{} looks at once", looks(&all) - before);
            assert!(world.server.stats().kernel_bytes <= most);
        }
    }
    assert!(all.iter().all(|client| world.has(client)));
    assert_eq!(world.server.stats().kernel_evicted, 0);
    // Of idle clients, only some are checked at a time.
    let before = looks(&all);
    world.server.sweep();
    assert_eq!(looks(&all) - before, 512);
    world.server.sweep();
    assert_eq!(world.server.stats().kernel_bytes, 600 * 20_000 + 100_000);
}

const PROXY: [u8; 4] = [10, 8, 0, 1];

/// Returns a request that a proxy forwards for a client.
fn forwarded_request(path: &str, client: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n")
}

#[test]
fn the_deficit_of_a_client_does_not_delay_others_behind_the_same_proxy() {
    let mut world = Harness::with_proxies(Limits::default(), &[PROXY]);
    let (wire, slot) = world.client_at(PROXY, forwarded_request("/costly", "1.1.1.1").as_bytes());
    world.serve();
    let direct = world.server.admit(Wire::default(), Client::direct(LISTENER, [1, 1, 1, 1].into()));
    assert!(direct.is_none(), "whoever owes that much itself is not let in");
    for count in 2..10 {
        world.send(&wire, slot, forwarded_request("/query", "2.2.2.2").as_bytes());
        world.serve();
        assert_eq!(wire.text().matches("HTTP/1.1 200").count(), count);
    }
    // A proxy that forwards much for many clients is not charged.
    for round in 0..200 {
        let length = PUSHED_BYTES / 8;
        let head =
            format!("POST /push HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 3.3.{round}.3\r\nContent-Length: {length}");
        world.send(&wire, slot, &[head.as_bytes(), b"\r\n\r\n", &vec![0; length]].concat());
        world.serve();
        assert_eq!(wire.text().matches("HTTP/1.1 200").count(), 10 + round);
    }
}

/// Returns how many turns a newcomer waits for its answer, directly or behind a proxy, beside 63 busy networks of both
/// kinds. The proxy opens a connection for each request.
fn turns_beside_busy_networks(is_behind_proxy: bool) -> usize {
    const BUSY: u8 = 63;
    const WARM_UP: usize = 5_000;
    let time = Cell::new(Duration::ZERO);
    let clock = Box::new(move || time.replace(time.get() + Duration::from_micros(20)));
    let mut world = Harness::with_clock(Limits::default(), &[PROXY], clock);
    let ask = |world: &mut Harness, number: u8, is_behind_proxy: bool| {
        if is_behind_proxy {
            world.client_at(PROXY, forwarded_request("/query", &format!("30.{number}.0.1")).as_bytes())
        } else {
            world.client_at([20, number, 0, 1], QUERY.as_bytes())
        }
    };
    let busy = (0..BUSY).flat_map(|number| [(number, true), (number, false)]);
    let mut busy: Vec<_> = busy.map(|(number, kind)| (number, kind, ask(&mut world, number, kind))).collect();
    let mut newcomer = None;
    for turn in 0..10 * WARM_UP {
        let (wire, _) = newcomer.get_or_insert_with(|| (Wire::default(), 0));
        if !wire.text().is_empty() {
            return turn - WARM_UP;
        }
        if turn == WARM_UP {
            newcomer = Some(ask(&mut world, BUSY, is_behind_proxy));
        }
        assert!(world.server.serve_next(&mut world.service));
        while world.server.flush_next() {}
        if turn % 50 == 0 {
            world.advance(Duration::from_millis(1));
        }
        for (number, kind, (wire, slot)) in &mut busy {
            if !wire.text().is_empty() {
                world.server.remove(*slot);
                (*wire, *slot) = ask(&mut world, *number, *kind);
            }
        }
    }
    panic!("the newcomer has no answer");
}

#[test]
fn a_newcomer_behind_a_proxy_waits_about_as_little_as_a_direct_one_beside_many_busy_networks() {
    let [direct, behind_proxy] = [false, true].map(turns_beside_busy_networks);
    assert!(behind_proxy < 20 && direct < 20, "{behind_proxy} turns behind the proxy, {direct} directly");
}

#[test]
fn an_idle_proxy_connection_counts_for_the_proxy_and_not_for_its_clients() {
    let mut world = Harness::with_proxies(Limits { connections: 30, ..Limits::default() }, &[PROXY]);
    let ask = |world: &mut Harness, client| {
        let (wire, slot) = world.client_at(PROXY, forwarded_request("/query", client).as_bytes());
        world.serve();
        world.advance(Duration::from_millis(1));
        (wire, slot)
    };
    let own = world.client_at([1, 1, 1, 1], QUERY.as_bytes());
    world.serve();
    world.advance(Duration::from_millis(1));
    let by_proxy: Vec<_> = (0..10).map(|_| ask(&mut world, "1.1.1.1")).collect();
    let rest = world.connect_many(2, 2, 9, QUERY);
    world.connect_many(3, 1, 1, QUERY);
    assert!(world.admits([10, 9, 0, 0]));
    assert!(!world.has(&by_proxy[0]), "the proxy has most");
    assert!(by_proxy[1..].iter().chain(&rest).chain([&own]).all(|client| world.has(client)));
}

#[test]
fn clients_behind_a_local_proxy_count_for_their_own_networks() {
    const LOCAL: [u8; 4] = [127, 0, 0, 1];
    let upgrade = |client: &str| UPGRADE.replace("Host: a", &format!("Host: a\r\nX-Forwarded-For: {client}"));
    let mut world = Harness::with_proxies(Limits { connections: 300, ..Limits::default() }, &[LOCAL]);
    let named = |world: &mut Harness, name: String| {
        let client = world.client_at(LOCAL, upgrade(&name).as_bytes());
        world.serve();
        client
    };
    let crowd: Vec<_> = (0..250).map(|number| named(&mut world, format!("9.9.9.{number}"))).collect();
    let others: Vec<_> = (0..100).map(|number| named(&mut world, format!("8.8.{number}.8"))).collect();
    assert!(others.iter().all(|client| world.has(client)));
    assert_eq!(crowd.iter().filter(|client| world.has(client)).count(), 200);
}

#[test]
fn tiny_chunks_are_charged() {
    let mut world = Harness::new(Limits::default());
    let head = b"POST /push HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut chunks = 0;
    while world.server.next_refill().is_none() {
        let (wire, slot) = world.client_at([10, 1, 0, 0], head);
        world.serve();
        // As many minimal chunks as one read returns.
        world.send(&wire, slot, &b"1\r\nx\r\n".repeat(10_000));
        world.serve();
        world.server.remove(slot);
        chunks += 10_000;
        assert!(chunks < 10_000_000, "they cost nothing");
    }
    // Sixteen of them cost one microsecond of work.
    assert!((2_000_000..=4_500_000).contains(&chunks), "{chunks}");
}

#[test]
fn a_connection_flood_is_admitted_within_its_budget_and_others_always() {
    let mut world = Harness::new(Limits::default());
    let mut let_in = 0;
    for attempt in 0..40_000u32 {
        if attempt % 40 == 0 {
            world.advance(Duration::from_millis(1));
        }
        let wire = Wire::default();
        match world.server.admit(wire.clone(), Client::direct(LISTENER, [10, 1, 0, 0].into())) {
            Some(slot) => {
                let_in += 1;
                world.server.remove(slot);
            }
            None => assert!(wire.is_discarded.get(), "it costs the system nothing more"),
        }
        if attempt % 1000 == 0 {
            assert!(world.admits([10, 2, 0, (attempt / 1000) as u8]));
        }
    }
    // In one second: a quarter of a second of work, plus the maximum deficit of half a second.
    assert!((5_000..=16_000).contains(&let_in), "{let_in} of 40,000");
    assert_eq!(u64::from(40_000u32 - let_in), world.server.stats().reset);
}

#[test]
fn a_throttled_client_is_deregistered_from_polling_until_it_is_served_again() {
    let mut world = Harness::new(Limits::default());
    let slots = [[10, 1, 0, 0], [10, 1, 0, 0], [10, 2, 0, 0]].map(|address| world.client_at(address, b"G"));
    world.serve();
    let [(wire, heavy), (_, other), (_, stranger)] = &slots;
    world.send(wire, *heavy, b"ET /costly HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(world.server.mute(*heavy).is_none(), "it owes nothing yet");
    world.serve();
    for (wire, slot) in &slots {
        world.send(wire, *slot, b"E");
    }
    assert_eq!([*heavy, *other, *stranger].map(|slot| world.server.mute(slot).is_some()), [true, true, false]);
    assert!([*heavy, *other].iter().all(|slot| world.server.mute(*slot).is_none()), "once is enough");
    // The deficit is three quarters of the caused work; it refills at a quarter of the processor time, so the wait is
    // slightly longer than 3 s.
    world.advance(Duration::from_millis(3_005));
    world.serve();
    assert!(world.server.unmute().is_none());
    world.advance(Duration::from_millis(10));
    world.serve();
    let mut again: Vec<_> = std::iter::from_fn(|| Some(world.server.unmute()?.0)).collect();
    again.sort_unstable();
    let mut muted = vec![*heavy, *other];
    muted.sort_unstable();
    assert_eq!(again, muted);
    world.send(wire, *heavy, b"x");
    assert!(world.server.mute(*heavy).is_none());
}

#[test]
fn input_after_an_error_response_is_read_up_to_a_limit() {
    let mut world = Harness::new(Limits::default());
    let (wire, slot) = world.client("nonsense\r\n\r\n");
    world.serve();
    assert!(wire.text().starts_with("HTTP/1.1 400"));
    let mut sent = 0;
    while world.has(&(wire.clone(), slot)) {
        assert!(sent <= 2 << 20, "{sent} bytes are read");
        world.send(&wire, slot, &[b'x'; 64 << 10]);
        world.serve();
        sent += 64 << 10;
    }
    assert!(sent > 1 << 20);
}

#[test]
fn tiny_reads_without_progress_are_charged() {
    let mut world = Harness::new(Limits::default());
    let (wire, slot) = world.client_at([10, 1, 0, 0], push_head(PUSHED_BYTES).as_bytes());
    let clients = world.connect_many(1, 1, 200, "P");
    let (mut reads, mut bytes) = (0u32, 0);
    // A body that arrives byte by byte, beside clients that do not even complete the head of a request.
    while world.server.next_refill().is_none() {
        world.send(&wire, slot, b"x");
        (reads, bytes) = (reads + 1, bytes + 1);
        for (wire, slot) in clients.iter().skip(reads as usize % 200).take(10) {
            world.send(wire, *slot, b"O");
            reads += 1;
        }
        world.serve();
        assert!(reads < 300_000 && bytes < PUSHED_BYTES, "{reads} reads of {bytes} bytes cost nothing");
        assert!(clients.iter().all(|(wire, _)| wire.text().is_empty() || wire.text().contains(" 4")));
    }
}

#[test]
fn a_silent_websocket_is_pinged_and_dropped_without_a_pong() {
    let mut world = Harness::new(Limits::default());
    let [(silent, _), (living, slot)] = [world.client(UPGRADE), world.client(UPGRADE)];
    world.serve();
    let upgraded = silent.received.borrow().len();
    world.pass(Duration::from_secs(59));
    assert_eq!(silent.received.borrow().len(), upgraded);
    world.pass(Duration::from_secs(1));
    assert_eq!(silent.received.borrow()[upgraded..], [0x89, 0], "an empty ping");
    // A pong.
    world.send(&living, slot, &[0x8a, 0x80, 1, 2, 3, 4]);
    world.serve();
    world.pass(Duration::from_secs(59));
    assert_eq!(world.server.stats().websockets, 2);
    world.pass(Duration::from_secs(1));
    assert_eq!((world.server.stats().websockets, world.service.disconnected.len()), (1, 1));
    assert_eq!(living.received.borrow()[upgraded..], [0x89, 0, 0x89, 0]);
    // Pongs are not activity: the websocket counts as idle.
    for _ in 0..3 {
        world.send(&living, slot, &[0x8a, 0x80, 1, 2, 3, 4]);
        world.serve();
        world.pass(Duration::from_secs(60));
    }
    assert_eq!(world.server.stats().websockets, 0);
    let end = living.received.borrow()[upgraded..].to_vec();
    assert!(end.windows(2).any(|pair| pair == [0x03, 0xe9]), "closed with 1001: {end:?}");
    let idle = Limits::default().websocket_idle.as_millis();
    let text = format!("Idle timeout expired: {idle}/{idle} ms");
    assert!(String::from_utf8_lossy(&end).contains(&text), "the text of NIS1: {end:?}");
}
