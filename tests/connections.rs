//! The server's connections without sockets of the system and without a clock: what needs an exact order of events.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use nisd::net::fetch::{Fetcher, Fetching};
use nisd::net::machine::{ConnectionId, Effects, Event, Exchange, ListenerId, Machine, Message, Moment, Taken};
use nisd::net::websocket::handshake;
use nisd::net::{Limits, Readiness, Server, Shared, Socket};

const LISTENER: ListenerId = ListenerId(0);

/// Bytes that the body of a push may have.
const PUSHED_BYTES: usize = 1 << 20;

const UPGRADE: &str = "GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// One end of a connection whose other end takes everything.
#[derive(Clone, Default)]
struct Wire {
    sent: Rc<RefCell<Vec<u8>>>,
    received: Rc<RefCell<Vec<u8>>>,
    is_over: Rc<Cell<bool>>,
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
}

/// Answers `/stream` in pieces, of which the second is made when it is resumed; holds `/held` and, in pieces, `/pieces`,
/// which are answered when they are resumed for the second time; leaves `/never` unfinished for ever; answers `/push` and
/// `/query` with nothing; upgrades on request.
#[derive(Default)]
struct Service {
    streaming: Option<ConnectionId>,
    held: u32,
    opened: Vec<ConnectionId>,
    gone: Vec<ConnectionId>,
    resume: bool,
    publish: Option<Shared>,
}

impl Service {
    fn request(&mut self, exchange: Exchange<'_>) -> Taken {
        let Exchange { connection, request, reply, is_resumed, .. } = exchange;
        match request.path {
            "/stream" => {
                reply.pieces = true;
                reply.body.extend_from_slice(b"piece");
                self.streaming = Some(connection);
                if is_resumed { Taken::Done } else { Taken::Parked }
            }
            "/held" | "/pieces" => {
                reply.pieces = request.path == "/pieces";
                if reply.pieces {
                    reply.body.extend_from_slice(b"piece");
                }
                self.streaming = Some(connection);
                self.held += u32::from(is_resumed);
                if self.held < 2 {
                    return Taken::Held;
                }
                reply.body.extend_from_slice(b"end");
                Taken::Done
            }
            "/never" => Taken::Unfinished,
            "/push" | "/query" => Taken::Done,
            _ => {
                reply.upgrade = handshake(request).ok();
                Taken::Done
            }
        }
    }
}

impl Machine for Service {
    fn handle(&mut self, event: Event<'_>, _: Moment, effects: &mut dyn Effects) -> Taken {
        match event {
            Event::Request(exchange) => return self.request(exchange),
            Event::Opened { socket, .. } => self.opened.push(socket),
            Event::Gone { connection } => self.gone.push(connection),
            Event::Turn { .. } => {
                let body = self.publish.take();
                for socket in body.is_some().then_some(&self.opened).into_iter().flatten() {
                    effects.send(*socket, Message { head: b"", body: body.as_ref(), tail: b"" }).unwrap();
                }
                self.streaming.filter(|_| self.resume).into_iter().for_each(|id| effects.resume(id));
            }
            _ => {}
        }
        Taken::Done
    }

    fn body_limit(&self, _: ListenerId, _: &str, path: &str) -> usize {
        if path == "/push" { PUSHED_BYTES } else { 1000 }
    }
}

struct World {
    server: Server<Wire>,
    service: Service,
    began: Instant,
    running: Duration,
}

impl World {
    fn new(limits: Limits) -> World {
        let (began, fetcher) = (Instant::now(), Fetcher::new(Fetching::default(), 0));
        let mut server = Server::new(limits, Box::new(|_| false), fetcher, began);
        server.set_most(LISTENER, 1000);
        World { server, service: Service::default(), began, running: Duration::ZERO }
    }

    /// A client that has sent something that has not been served yet.
    fn client(&mut self, said: &str) -> (Wire, usize) {
        self.client_at([8, 8, 8, 8], said.as_bytes())
    }

    /// The same at an address.
    fn client_at(&mut self, address: [u8; 4], said: &[u8]) -> (Wire, usize) {
        let wire = Wire::default();
        let slot = self.server.admit(wire.clone(), LISTENER, address.into()).unwrap();
        self.say(&wire, slot, said);
        (wire, slot)
    }

    /// Clients that have sent the heads of large bodies, as many at each address.
    fn pushers(&mut self, addresses: u8, each: usize) -> Vec<(Wire, usize)> {
        let head = push_head(PUSHED_BYTES);
        let clients = (0..addresses).flat_map(|address| std::iter::repeat_n([9, 9, 9, address], each));
        clients.map(|address| self.client_at(address, head.as_bytes())).collect()
    }

    fn say(&mut self, wire: &Wire, slot: usize, said: &[u8]) {
        wire.sent.borrow_mut().extend_from_slice(said);
        self.server.notice(slot, Readiness { readable: true, ..Readiness::default() });
    }

    fn pass(&mut self, time: Duration) {
        self.running += time;
        self.server.set_time(self.began + self.running, Moment { unix_millis: 0, running: self.running });
    }

    fn serve(&mut self) {
        while self.server.serve_next(&mut self.service) {}
        while self.server.flush_next() {}
    }

    fn turn(&mut self) {
        self.server.turn(&mut self.service, 1000, Duration::ZERO);
    }
}

fn push_head(length: usize) -> String {
    format!("POST /push HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")
}

/// Has clients send their bodies slowly, side by side; the most that was held. Meanwhile somebody else asks and is
/// answered at once.
fn send_slowly(world: &mut World, clients: &[(Wire, usize)]) -> usize {
    const PIECE: usize = 8 << 10;
    let (asker, slot) = world.client_at([7, 7, 7, 7], b"");
    let mut most = 0;
    for round in 1..=PUSHED_BYTES / PIECE / 2 {
        for (wire, slot) in clients {
            let is_there = world.server.socket(*slot).is_some_and(|socket| Rc::ptr_eq(&socket.sent, &wire.sent));
            if is_there && !wire.is_over.get() {
                world.say(wire, *slot, &[0; PIECE]);
            }
        }
        world.say(&asker, slot, b"GET /query HTTP/1.1\r\nHost: a\r\n\r\n");
        world.serve();
        most = most.max(world.server.stats().buffered_bytes);
        assert_eq!(asker.text().matches("HTTP/1.1 200").count(), round, "an answer in each round");
        world.pass(Duration::from_millis(100));
    }
    most
}

#[test]
fn bodies_that_come_slowly_from_many_addresses_take_no_more_memory_than_all_may() {
    const MOST: usize = 8 << 20;
    let limits = Limits { buffered_bytes: MOST, buffered_bytes_per_caller: MOST, ..Limits::default() };
    let mut world = World::new(limits);
    let clients = world.pushers(60, 4);
    let most = send_slowly(&mut world, &clients);
    assert!((MOST / 2..=MOST).contains(&most), "{most} bytes of {MOST}");
    // Half of them would take 120 MiB; those that are not there any more were told why.
    let told = clients.iter().filter(|(wire, _)| wire.text().starts_with("HTTP/1.1 503")).count();
    assert!(told > clients.len() / 2, "{told}");
}

#[test]
fn bodies_that_come_slowly_from_one_address_take_no_more_memory_than_one_caller_may_and_do_not_keep_others_out() {
    const MOST: usize = 2 << 20;
    let mut world = World::new(Limits { buffered_bytes_per_caller: MOST, ..Limits::default() });
    let clients = world.pushers(1, 50);
    let most = send_slowly(&mut world, &clients);
    // The asker holds nothing between its questions.
    assert!((MOST / 2..=MOST).contains(&most), "{most} bytes of {MOST}");
    let honest = [push_head(PUSHED_BYTES).as_bytes(), &[0; PUSHED_BYTES]].concat();
    let (wire, _) = world.client_at([6, 6, 6, 6], &honest);
    world.serve();
    assert!(wire.text().starts_with("HTTP/1.1 200"), "{:?}", wire.text());
}

#[test]
fn the_machine_itself_may_hold_as_much_as_all_may() {
    let mut world = World::new(Limits { buffered_bytes_per_caller: 1 << 20, ..Limits::default() });
    let head = push_head(PUSHED_BYTES);
    let clients: Vec<_> = (0..20).map(|_| world.client_at([127, 0, 0, 1], head.as_bytes())).collect();
    let most = send_slowly(&mut world, &clients);
    assert!(most >= 20 * PUSHED_BYTES / 2, "{most}");
    assert!(clients.iter().all(|(wire, _)| wire.text().is_empty()));
}

#[test]
fn an_answer_that_has_begun_is_cut_when_its_time_is_over() {
    let mut world = World::new(Limits::default());
    let (wire, _) = world.client("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    world.serve();
    let begun = wire.text();
    assert!(begun.ends_with("\r\n\r\n5\r\npiece\r\n"), "{begun}");
    world.pass(Duration::from_secs(31));
    world.server.sweep();
    world.serve();
    world.server.report_gone(&mut world.service);
    assert_eq!(wire.text(), begun, "no second answer within the first");
    assert_eq!((world.server.stats().connections, world.service.gone.len()), (0, 1));
}

#[test]
fn an_answer_that_has_begun_is_the_last_of_its_connection_when_the_server_shuts_down() {
    let mut world = World::new(Limits::default());
    let (wire, _) = world.client("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    world.serve();
    world.server.shutdown();
    world.service.resume = true;
    world.turn();
    world.serve();
    assert!(wire.text().ends_with("5\r\npiece\r\n0\r\n\r\n"));
    assert_eq!(world.server.stats().connections, 0);
}

#[test]
fn a_websocket_that_is_opened_while_the_server_shuts_down_is_told_so() {
    let mut world = World::new(Limits::default());
    let (begin, end) = UPGRADE.split_at(50);
    let (wire, slot) = world.client(begin);
    world.serve();
    world.server.shutdown();
    world.say(&wire, slot, end.as_bytes());
    world.serve();
    world.server.report_gone(&mut world.service);
    assert!(wire.received.borrow().ends_with(&[0x88, 2, 3, 0xe9]), "1001");
    assert!(wire.is_over.get());
    assert_eq!(world.service.gone, world.service.opened);
}

#[test]
fn a_connection_is_refused_once_however_late_that_is_written() {
    let mut world = World::new(Limits::default());
    let (wire, slot) = world.client("GET /never HTTP/1.1\r\nHost: a\r\n\r\n");
    world.server.serve_next(&mut world.service);
    world.pass(Duration::from_secs(31));
    world.server.sweep();
    world.pass(Duration::from_secs(31));
    world.server.sweep();
    assert!(world.server.socket(slot).is_some(), "it waits for its last output");
    world.serve();
    assert!(wire.text().starts_with("HTTP/1.1 503 "));
    assert_eq!(wire.text().matches("HTTP/1.1").count(), 1);
    world.pass(Duration::from_secs(3));
    world.server.sweep();
    assert_eq!(world.server.stats().connections, 0);
}

#[test]
fn pings_are_paid_for_like_messages() {
    let mut world = World::new(Limits::default());
    let (wire, slot) = world.client(UPGRADE);
    world.serve();
    let pings = [0x89, 0x80, 0, 0, 0, 0].repeat(10_000);
    let mut rounds = 0;
    while world.server.next_regained().is_none() {
        world.say(&wire, slot, &pings);
        world.serve();
        rounds += 1;
        assert!(rounds < 200, "two million pings in no time");
    }
    // A websocket may cause 100,000 units of work at once, which are as many microseconds.
    assert!(rounds >= 10, "{rounds}");
}

#[test]
fn messages_that_the_machine_keeps_to_itself_cost_no_websocket() {
    let mut world = World::new(Limits { shared_bytes: 1000, ..Limits::default() });
    let (wire, _) = world.client(UPGRADE);
    world.serve();
    let kept = world.server.shared_pool().share(vec![b'x'; 2000]);
    world.turn();
    world.service.publish = Some(world.server.shared_pool().share(vec![b'y'; 10]));
    world.serve();
    assert_eq!((world.server.stats().websockets, wire.is_over.get()), (1, false));
    drop(kept);
    world.turn();
    world.serve();
    assert!(wire.text().ends_with("yyyyyyyyyy"));
}

#[test]
fn a_held_request_waits_as_long_as_something_is_sent_and_is_given_time_again_each_time_it_is_resumed() {
    for (target, said, end) in
        [("/held", "", "\r\n\r\nend"), ("/pieces", "5\r\npiece\r\n", "8\r\npieceend\r\n0\r\n\r\n")]
    {
        let mut world = World::new(Limits::default());
        let (wire, _) = world.client(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        world.serve();
        world.service.resume = true;
        for _ in 0..2 {
            assert!(wire.text().ends_with(said), "{:?}", wire.text());
            world.pass(Duration::from_secs(140));
            world.server.sweep();
            world.serve();
            world.turn();
            world.serve();
            world.server.sweep();
        }
        assert!(wire.text().ends_with(end), "{:?}", wire.text());
        assert_eq!(world.server.stats().connections, 1);
        assert!(world.service.gone.is_empty());
    }
}

#[test]
fn a_held_request_of_which_nothing_is_said_for_too_long_is_ended() {
    for (target, answer) in [("/held", "HTTP/1.1 503 "), ("/pieces", "HTTP/1.1 200 ")] {
        let mut world = World::new(Limits::default());
        let (wire, _) = world.client(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        world.serve();
        world.pass(Limits::default().websocket_idle);
        world.server.sweep();
        world.serve();
        world.server.report_gone(&mut world.service);
        assert!(wire.text().starts_with(answer) && !wire.text().ends_with("0\r\n\r\n"), "{:?}", wire.text());
        assert_eq!(world.service.gone.len(), 1);
    }
}

#[test]
fn a_client_that_closes_its_side_while_its_request_is_held_is_gone_at_once() {
    for target in ["/held", "/pieces"] {
        let mut world = World::new(Limits::default());
        let (_, slot) = world.client(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        world.serve();
        world.server.notice(slot, Readiness { read_closed: true, ..Readiness::default() });
        world.serve();
        world.server.report_gone(&mut world.service);
        assert_eq!((world.server.stats().connections, world.service.gone.len()), (0, 1));
    }
}

#[test]
fn held_requests_end_when_the_server_shuts_down() {
    for (target, answer) in [("/held", "HTTP/1.1 503 "), ("/pieces", "HTTP/1.1 200 ")] {
        let mut world = World::new(Limits::default());
        let (wire, _) = world.client(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        world.serve();
        world.server.shutdown();
        world.serve();
        assert!(wire.text().starts_with(answer), "{:?}", wire.text());
        world.pass(Duration::from_secs(3));
        world.server.sweep();
        assert_eq!(world.server.stats().connections, 0);
    }
}
