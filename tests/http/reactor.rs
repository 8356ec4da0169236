//! The reactor over real sockets on loopback: guarantees for clients, and limits on what clients can do.

use std::collections::HashMap;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nisd::net::fetch::FetchLimits;
use nisd::net::service::{
    ConnectionId, Effects, Event, Exchange, ListenerId, LoopTime, Message as Frame, Progress, Service,
};
use nisd::net::websocket::handshake;
use nisd::net::{Limits, Reactor, SharedBytesCounter, Stats};

use crate::common::http::{Client, get, post};
use crate::common::websocket::{CLOSE, PATH, Socket, TEXT, upgrade_request};

/// Maximum wait of all tests.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Maximum size of a body.
const BODY_LIMIT: usize = 4 * 1024 * 1024;
const LISTENER: ListenerId = ListenerId(0);

/// Echoes `METHOD path?query body` over HTTP and messages over websockets. `/big/N` responds with N bytes, `/pieces/N`
/// with N chunks of 10,000 bytes, `/steps/N` after N steps, `/park` after a request for `/resume`. The websocket message `all N` sends N bytes to every websocket, `bye` closes the sender's, `steps N` takes N
/// steps.
#[derive(Default)]
struct Echo {
    open: HashMap<ConnectionId, u32>,
    closed: Vec<ConnectionId>,
    shared: SharedBytesCounter,
    suspended: Vec<ConnectionId>,
    /// Remaining steps of unfinished work.
    remaining_steps: HashMap<ConnectionId, u32>,
}

impl Echo {
    fn request(&mut self, exchange: Exchange<'_>, effects: &mut dyn Effects) -> Progress {
        let Exchange { connection, request, response: reply, is_resumed, is_rate_limited: is_rejected, .. } = exchange;
        if is_rejected {
            reply.status = 429;
        } else if request.path == PATH {
            handshake(request, reply);
        } else if let Some(size) = request.path.strip_prefix("/big/") {
            reply.body.extend_from_slice(&vec![b'x'; size.parse().unwrap()]);
        } else if let Some(count) = request.path.strip_prefix("/pieces/") {
            reply.is_streaming = true;
            reply.body.extend_from_slice(&[b'p'; 10_000]);
            return self.step(connection, is_resumed, count);
        } else if let Some(count) = request.path.strip_prefix("/steps/") {
            if self.step(connection, is_resumed, count) == Progress::Yield {
                effects.charge(connection, 1000);
                return Progress::Yield;
            }
            reply.body.extend_from_slice(b"done");
        } else if request.path == "/park" {
            if !is_resumed {
                self.suspended.push(connection);
                return Progress::Suspended;
            }
            reply.body.extend_from_slice(b"resumed");
        } else if request.path == "/resume" {
            self.suspended.drain(..).for_each(|parked| effects.resume(parked));
        } else {
            let query = request.query.unwrap_or("-");
            write!(reply.body, "{} {}?{query} ", request.method, request.path).unwrap();
            reply.body.extend_from_slice(request.body);
        }
        Progress::Done
    }

    /// Performs one of `count` steps.
    fn step(&mut self, connection: ConnectionId, is_resumed: bool, count: &str) -> Progress {
        if !is_resumed {
            self.remaining_steps.insert(connection, count.parse().unwrap());
        }
        let left = self.remaining_steps.get_mut(&connection).expect("it was begun");
        *left -= 1;
        if *left > 0 {
            return Progress::Yield;
        }
        self.remaining_steps.remove(&connection);
        Progress::Done
    }

    fn on_message(&mut self, socket: ConnectionId, message: &[u8], effects: &mut dyn Effects) -> Progress {
        let text = std::str::from_utf8(message).unwrap_or_default();
        if let Some(size) = text.strip_prefix("all ") {
            let body = self.shared.share(vec![b'm'; size.parse().unwrap()]);
            for other in self.open.keys() {
                let _ = effects.send(*other, Frame { head: &[], body: Some(&body), tail: &[] });
            }
        } else if let Some(count) = text.strip_prefix("steps ") {
            return self.step(socket, false, count);
        } else if text == "bye" {
            effects.close(socket, 4001, "as you wish");
            assert!(effects.send(socket, Frame::of(b"never seen")).is_err());
        } else {
            let _ = effects.send(socket, Frame::of(message));
        }
        Progress::Done
    }
}

impl Service for Echo {
    fn handle(&mut self, event: Event<'_>, _: LoopTime, effects: &mut dyn Effects) -> Progress {
        match event {
            Event::Request(exchange) => return self.request(exchange, effects),
            Event::WebSocketOpened { socket, .. } => {
                assert_eq!(self.open.insert(socket, 9), None);
                effects.send(socket, Frame { head: b"wel", body: None, tail: b"come 9" }).unwrap();
            }
            Event::WebSocketMessage { socket, message, .. } => return self.on_message(socket, message, effects),
            Event::WebSocketResumed { socket } => {
                let taken = self.step(socket, true, "");
                if taken == Progress::Done {
                    effects.send(socket, Frame::of(b"done")).unwrap();
                }
                return taken;
            }
            Event::Disconnected { connection } => {
                assert!(self.open.remove(&connection).is_some() || self.suspended.contains(&connection));
                self.closed.push(connection);
            }
            Event::FetchCompleted { .. } | Event::Tick { .. } => {}
        }
        Progress::Done
    }

    fn is_local(&self, client: &nisd::net::service::Client, _: &nisd::net::http::Request<'_>) -> bool {
        client.address == std::net::Ipv4Addr::LOCALHOST
    }

    fn route(&self, _: ListenerId, _: &str, path: &str) -> nisd::net::http::MatchedRoute {
        nisd::net::http::MatchedRoute { id: 0, body_limit: if path == "/small" { 10 } else { BODY_LIMIT } }
    }
}

/// A reactor in its own thread; dropping the value shuts it down.
struct Server {
    addr: SocketAddr,
    stop: Sender<()>,
    stats: Receiver<(Stats, usize)>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(limits: Limits) -> Self {
        let (stop, stopped) = channel();
        let (report, stats) = channel();
        let (bound, address) = channel();
        // Everything that belongs to the reactor stays in its thread.
        let thread = std::thread::spawn(move || {
            let mut reactor = Reactor::new(limits, FetchLimits::default()).unwrap();
            bound.send(reactor.listen(LISTENER, "127.0.0.1:0".parse().unwrap()).unwrap()).unwrap();
            let mut echo = Echo { shared: reactor.server.shared_bytes.clone(), ..Echo::default() };
            let mut stopping: Option<Instant> = None;
            loop {
                reactor.poll(Duration::from_millis(5), &mut echo).unwrap();
                reactor.tick(&mut echo, 500, Duration::ZERO);
                let stats = reactor.server.stats();
                assert_eq!(stats.websockets, echo.open.len());
                let _ = report.send((stats, echo.closed.len()));
                match stopping {
                    None if stopped.try_recv().is_ok() => {
                        reactor.shutdown();
                        stopping = Some(Instant::now());
                    }
                    Some(_) if stats.connections == 0 => return,
                    Some(since) => assert!(since.elapsed() < MAX_WAIT, "no end: {stats:?}"),
                    None => {}
                }
            }
        });
        Self { addr: address.recv().unwrap(), stop, stats, thread: Some(thread) }
    }

    fn default() -> Self {
        Self::start(Limits::default())
    }

    fn connect(&self) -> Client {
        Client::connect(self.addr)
    }

    /// Connects from another address of this machine.
    fn connect_from(&self, last: u8) -> Client {
        Client::connect_from([127, 0, 0, last], self.addr).unwrap()
    }

    fn websocket(&self) -> Socket {
        let mut socket = Socket::open(self.addr);
        assert_eq!(socket.next_text(), "welcome 9");
        socket
    }

    /// Waits until the reactor's statistics and the number of closed websockets meet a condition.
    fn wait_for(&self, wanted: impl Fn(&Stats, usize) -> bool) {
        let start = Instant::now();
        // Earlier values do not count.
        let mut last = self.stats.try_iter().last();
        while start.elapsed() < MAX_WAIT {
            let figures = self.stats.recv_timeout(MAX_WAIT).unwrap();
            if wanted(&figures.0, figures.1) {
                return;
            }
            last = Some(figures);
        }
        panic!("still {last:?}");
    }

    /// Returns the last statistics of the reactor once it has stopped by itself.
    fn final_stats(&self) -> (Stats, usize) {
        self.stats.iter().last().expect("a figure before the end")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        let end = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            end.unwrap().expect("the reactor ended well");
        }
    }
}

/// Sends a request; returns the text of the answer.
#[track_caller]
fn ask(client: &mut Client, path: &str) -> String {
    client.get(path).text().to_owned()
}

#[test]
fn a_pipelining_client_that_does_not_read_is_throttled_and_dropped() {
    let limits = Limits { write_stall: Duration::from_millis(400), ..Limits::default() };
    let server = Server::start(limits);
    let mut stream = server.connect();
    let requests = get("/big/1000000").repeat(50);
    stream.send(requests);
    server.wait_for(|stats, _| stats.buffered_bytes > 100_000);
    server.wait_for(|stats, _| {
        assert!(stats.buffered_bytes < 4_000_000, "{stats:?}");
        stats.connections == 0
    });
}

#[test]
fn a_large_response_is_complete_and_does_not_delay_others() {
    let server = Server::default();
    let mut slow = server.connect();
    slow.send(get("/big/20000000"));
    let mut quick = server.connect();
    assert_eq!(ask(&mut quick, "/"), "GET /?- ");
    assert_eq!(slow.answer().body.len(), 20_000_000);
    server.wait_for(|stats, _| stats.connections == 2 && stats.buffered_bytes == 0);
}

#[test]
fn a_client_that_expects_100_continue_gets_it() {
    let server = Server::default();
    let mut stream = server.connect();
    let head = "PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    stream.send(head);
    let interim = stream.head();
    assert_eq!((interim.status, interim.headers.len()), (100, 0));
    stream.send(b"body");
    assert_eq!(stream.answer().text(), "PUT /?- body");
}

#[test]
fn a_half_closed_client_still_gets_its_responses() {
    let server = Server::default();
    let mut client = server.connect();
    client.send(get("/a").repeat(200));
    client.stream().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.expect_end().matches("GET /a?- ").count(), 200);
    server.wait_for(|stats, _| stats.connections == 0);
}

#[test]
fn oversized_and_malformed_requests_are_rejected_and_closed() {
    let server = Server::default();
    let long_line = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(9000));
    let long_headers = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(9000));
    let mut large_body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n".to_vec();
    large_body.resize(2_000_000, b'z');
    for (request, start) in [
        (long_line.as_bytes(), "HTTP/1.1 414 URI Too Long\r\n"),
        (long_headers.as_bytes(), "HTTP/1.1 431 Request Header"),
        (&large_body[..], "HTTP/1.1 413 Payload Too Large\r\n"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "HTTP/1.1 400 "),
        (b"GET /\r\n\r\n", "HTTP/1.1 400 "),
    ] {
        let mut client = server.connect();
        client.send(request);
        let answer = client.expect_end();
        assert!(answer.starts_with(start), "{answer}");
        assert!(answer.contains("<h1>Bad Message 4"), "{answer}");
    }
    server.wait_for(|stats, _| stats.connections == 0 && stats.buffered_bytes == 0);
}

#[test]
fn a_connection_over_the_limit_can_read_status_503_while_it_sends() {
    let server = Server::start(Limits { connections_per_client: 2, ..Limits::default() });
    let (mut first, second) = (server.connect_from(2), server.connect_from(2));
    server.wait_for(|stats, _| stats.connections == 2);
    for _ in 0..20 {
        let mut client = server.connect_from(2);
        client.send(post("/", &"x".repeat(100_000)));
        let answer = client.expect_end();
        assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
        for part in ["\r\nRetry-After: 5\r\n", "\r\nAccess-Control-Allow-Origin: *\r\n", "too many connections"] {
            assert!(answer.contains(part), "{part}: {answer}");
        }
    }
    assert_eq!(ask(&mut first, "/"), "GET /?- ");
    drop(second);
    server.wait_for(|stats, _| stats.connections == 1 && stats.rejected == 20);
    assert_eq!(ask(&mut server.connect_from(2), "/"), "GET /?- ");
}

#[test]
fn frames_sent_along_with_the_upgrade_request_are_not_lost() {
    let server = Server::default();
    let mut client = server.connect();
    client.send([upgrade_request().as_bytes(), b"\x81\x82\0\0\0\0hi"].concat());
    assert_eq!(client.head().status, 101);
    let mut socket = Socket::from_parts(client.into_parts());
    assert_eq!([socket.next_text(), socket.next_text()], ["welcome 9", "hi"]);
}

#[test]
fn the_service_can_close_a_websocket_and_nothing_follows() {
    let server = Server::default();
    let mut client = server.websocket();
    client.text("bye");
    client.text("more");
    assert_eq!(client.expect_close(4001), "as you wish");
    server.wait_for(|stats, closed| stats.websockets == 0 && closed == 1);
}

#[test]
fn a_slow_consumer_is_dropped_without_affecting_others() {
    let server = Server::default();
    let mut slow = server.websocket();
    let mut reader = server.websocket();
    const SIZE: usize = 400_000;
    const COUNT: usize = 60;
    // More than the socket buffers of both ends together.
    for _ in 0..COUNT {
        reader.text(&format!("all {SIZE}"));
        assert_eq!(reader.next_text().len(), SIZE);
    }
    server.wait_for(|stats, closed| stats.websockets == 1 && closed == 1);
    // A message that was begun arrives whole, followed by the reason.
    let close =
        std::iter::repeat_with(|| slow.next()).find(|frame| frame.opcode != TEXT || frame.payload.len() != SIZE);
    let close = close.unwrap();
    assert_eq!((close.opcode, close.payload.get(..2)), (CLOSE, Some(&4500u16.to_be_bytes()[..])), "{close:?}");
    reader.text("still here");
    assert_eq!(reader.next_text(), "still here");
}

#[test]
fn an_unread_message_closes_its_websocket_at_its_timeout() {
    let limits = Limits { send_age: Duration::from_millis(200), backlog_bytes: 100_000_000, ..Limits::default() };
    let server = Server::start(limits);
    let stuck = server.websocket();
    let mut sender = server.websocket();
    for _ in 0..40 {
        sender.text("all 400000");
        assert_eq!(sender.next_text().len(), 400_000);
    }
    server.wait_for(|stats, closed| stats.websockets == 1 && closed == 1);
    drop(stuck);
    server.wait_for(|stats, _| stats.connections == 1);
}

#[test]
fn shutdown_closes_websockets_with_1001_and_answers_open_requests() {
    let server = Server::default();
    let mut client = server.websocket();
    let mut idle = server.connect();
    idle.get("/");
    let mut partial = server.connect();
    partial.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\no");
    server.wait_for(|stats, _| stats.connections == 3 && stats.buffered_bytes > 0);
    server.stop.send(()).unwrap();
    idle.expect_end();
    client.expect_close(1001);
    partial.send(b"k");
    let last = partial.answer();
    assert_eq!((last.header("Connection"), last.text()), (Some("close"), "POST /?- ok"));
    drop(client);
    let (stats, closed) = server.final_stats();
    assert_eq!((stats.connections, closed), (0, 1));
    assert!(TcpStream::connect(server.addr).is_err());
}

#[test]
fn a_suspended_request_is_answered_when_resumed_without_delaying_others() {
    let server = Server::default();
    let (mut parked, mut other) = (server.connect(), server.connect());
    parked.send(get("/park") + &get("/after"));
    for _ in 0..20 {
        assert_eq!(ask(&mut other, "/"), "GET /?- ");
    }
    other.get("/resume");
    assert_eq!(parked.answer().text(), "resumed");
    assert_eq!(parked.answer().text(), "GET /after?- ");
}

#[test]
fn a_request_in_many_steps_does_not_delay_others() {
    let server = Server::default();
    let (mut long, mut other) = (server.connect(), server.connect());
    long.send(get("/steps/200"));
    assert_eq!(ask(&mut other, "/"), "GET /?- ");
    assert_eq!(long.answer().text(), "done");
    let mut socket = server.websocket();
    socket.text("steps 50");
    socket.text("after");
    assert_eq!(socket.next_text(), "done");
    assert_eq!(socket.next_text(), "after");
}

#[test]
fn a_streamed_response_waits_for_the_client_to_read() {
    let server = Server::default();
    let mut stream = server.connect();
    // More than the buffers of both sockets hold.
    stream.send(get("/pieces/2000"));
    std::thread::sleep(Duration::from_millis(200));
    server.wait_for(|stats, _| {
        assert!(stats.buffered_bytes < 400_000, "{stats:?}");
        stats.buffered_bytes > 0
    });
    assert_eq!(stream.answer().body, vec![b'p'; 20_000_000]);
    assert_eq!(ask(&mut stream, "/"), "GET /?- ");
}

#[test]
fn connections_are_limited_per_client() {
    let limits = Limits { connections_per_client: 5, ..Limits::default() };
    let server = Server::start(limits);
    let mut held: Vec<Client> = (0..5).map(|_| server.connect_from(2)).collect();
    server.wait_for(|stats, _| stats.connections == 5);
    assert!(server.connect_from(2).expect_end().starts_with("HTTP/1.1 503 "));
    for mut other in [server.connect_from(3), server.connect(), server.connect_from(9)] {
        assert_eq!(ask(&mut other, "/"), "GET /?- ");
    }
    held.pop();
    server.wait_for(|stats, _| stats.connections < 5);
    let mut again = server.connect_from(2);
    assert_eq!(ask(&mut again, "/"), "GET /?- ");
}

#[test]
fn a_client_over_its_rate_limit_is_rejected_and_far_over_it_disconnected() {
    let server = Server::default();
    let mut hasty = server.connect_from(2);
    let _ = hasty.try_send(get("/").repeat(2000));
    let answers = hasty.expect_end();
    assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 50);
    let refused = answers.matches("HTTP/1.1 429 ").count();
    assert!((1..=500).contains(&refused), "{refused}");
    // New connections of this client are rejected for a while; others are accepted.
    match Client::connect_from([127, 0, 0, 2], server.addr) {
        Ok(mut again) => {
            let _ = again.try_send(get("/"));
            again.expect_end();
        }
        // The reset may come before the system has told that there is a connection.
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    let mut other = server.connect_from(3);
    assert_eq!(ask(&mut other, "/"), "GET /?- ");
}

#[test]
fn a_message_queued_for_many_websockets_is_held_once() {
    let limits = Limits { shared_bytes: 3_000_000, backlog_bytes: 100_000_000, ..Limits::default() };
    let server = Server::start(limits);
    let mut deaf: Vec<_> = (0..100).map(|_| server.websocket()).collect();
    let mut sender = server.websocket();
    for _ in 0..40 {
        sender.text("all 400000");
        assert_eq!(sender.next_text().len(), 400_000);
        server.wait_for(|stats, _| {
            assert!(stats.buffered_bytes < 1_000_000, "{stats:?}");
            true
        });
    }
    // Clients that do not read are dropped one after another once the total limit of unsent bytes is reached.
    server.wait_for(|stats, _| stats.websockets < 101);
    deaf.clear();
    server.wait_for(|stats, _| stats.websockets == 1);
}
