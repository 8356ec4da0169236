//! The reactor over real sockets on loopback: guarantees for clients, and limits on what clients can do.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nisd::net::fetch::FetchConfig;
use nisd::net::service::{
    ConnectionId, Effects, Event, Exchange, ListenerId, LoopTime, Message as Frame, Progress, Service,
};
use nisd::net::websocket::handshake;
use nisd::net::{Limits, Reactor, SharedBytesCounter, Stats};
use tungstenite::Message;

/// Maximum wait of all tests.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Maximum size of a body.
const BODY_LIMIT: usize = 4 * 1024 * 1024;
const LISTENER: ListenerId = ListenerId(0);

/// Echoes `METHOD path?query body` over HTTP and messages over websockets. `/big/N` responds with N bytes, `/pieces/N`
/// with N chunks of 10,000 bytes, `/steps/N` after N steps, `/park` after a request for `/resume`, `/caller` with the
/// client. The websocket message `all N` sends N bytes to every websocket, `bye` closes the sender's, `steps N` takes N
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
        let Exchange { connection, client: caller, request, response: reply, is_resumed, is_rate_limited: is_refused } =
            exchange;
        if is_refused {
            reply.status = 429;
        } else if request.path == "/ws" {
            match handshake(request) {
                Ok(upgrade) => reply.upgrade = Some(upgrade),
                Err(refusal) => refusal.fill_response(reply),
            }
        } else if let Some(size) = request.path.strip_prefix("/big/") {
            reply.body.resize(size.parse().unwrap(), b'x');
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
        } else if request.path == "/caller" {
            write!(reply.body, "{} {}", caller.address, caller.is_forwarded).unwrap();
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

    fn body_limit(&self, _: ListenerId, _: &str, path: &str) -> usize {
        if path == "/small" { 10 } else { BODY_LIMIT }
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
    fn start(limits: Limits, max_connections: usize) -> Self {
        let (stop, stopped) = channel();
        let (report, stats) = channel();
        let (bound, address) = channel();
        // Everything that belongs to the reactor stays in its thread.
        let thread = std::thread::spawn(move || {
            let trusted = |address: IpAddr| address == IpAddr::from([127, 0, 0, 9]);
            let mut reactor = Reactor::new(limits, Box::new(trusted), FetchConfig::default()).unwrap();
            bound.send(reactor.listen(LISTENER, "127.0.0.1:0".parse().unwrap(), max_connections).unwrap()).unwrap();
            let mut echo = Echo { shared: reactor.shared_bytes_counter(), ..Echo::default() };
            let mut stopping: Option<Instant> = None;
            loop {
                reactor.poll(Duration::from_millis(5), &mut echo).unwrap();
                reactor.tick(&mut echo, 500, Duration::ZERO);
                let stats = reactor.stats();
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
        Self::start(Limits::default(), 1000)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(MAX_WAIT)).unwrap();
        stream.set_write_timeout(Some(MAX_WAIT)).unwrap();
        stream
    }

    fn websocket(&self) -> tungstenite::WebSocket<TcpStream> {
        let url = format!("ws://{}/ws", self.addr);
        let (mut client, _) = tungstenite::client(url, self.connect()).unwrap();
        assert_eq!(client.read().unwrap(), Message::text("welcome 9"));
        client
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

/// Sends `request` and returns everything up to the end of the stream.
fn exchange(server: &Server, request: &[u8]) -> String {
    let mut stream = server.connect();
    stream.write_all(request).unwrap();
    read_to_end(&mut stream)
}

fn read_to_end(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

/// Reads one response with a Content-Length: its head and its body.
fn read_answer(stream: &mut TcpStream) -> (String, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.split("Content-Length: ").nth(1).unwrap();
    let length = length.split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")
}

fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 16]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_connection_serves_one_request_after_the_other() {
    let server = Server::default();
    let mut stream = server.connect();
    for number in 0..20 {
        stream.write_all(get(&format!("/{number}?q")).as_bytes()).unwrap();
        assert_eq!(read_answer(&mut stream).1, format!("GET /{number}?q "));
    }
    server.wait_for(|stats, _| stats.accepted == 1 && stats.handled == 20);
    server.wait_for(|stats, _| stats.connections == 1 && stats.buffered_bytes == 0);
}

#[test]
fn many_pipelined_requests_are_answered_in_order() {
    let server = Server::default();
    let mut stream = server.connect();
    let requests: String = (0..1000).map(|number| get(&format!("/{number}"))).collect();
    stream.write_all(requests.as_bytes()).unwrap();
    for number in 0..1000 {
        assert_eq!(read_answer(&mut stream).1, format!("GET /{number}?- "));
    }
}

#[test]
fn a_pipelining_client_that_does_not_read_is_throttled_and_dropped() {
    let limits = Limits { write_stall: Duration::from_millis(400), ..Limits::default() };
    let server = Server::start(limits, 10);
    let mut stream = server.connect();
    let requests = get("/big/1000000").repeat(50);
    stream.write_all(requests.as_bytes()).unwrap();
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
    slow.write_all(get("/big/20000000").as_bytes()).unwrap();
    let mut quick = server.connect();
    quick.write_all(get("/").as_bytes()).unwrap();
    assert_eq!(read_answer(&mut quick).1, "GET /?- ");
    assert_eq!(read_answer(&mut slow).1.len(), 20_000_000);
    server.wait_for(|stats, _| stats.connections == 2 && stats.buffered_bytes == 0);
}

#[test]
fn a_body_may_arrive_slowly_and_in_chunks() {
    let server = Server::default();
    let mut stream = server.connect();
    let text = "POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                5\r\nhello\r\n2;x\r\n, \r\n3\r\nyou\r\n0\r\n\r\n";
    for byte in text.as_bytes() {
        stream.write_all(&[*byte]).unwrap();
    }
    assert_eq!(read_answer(&mut stream).1, "POST /p?- hello, you");
    let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![b'y'; 3_000_000]).unwrap();
    assert_eq!(read_answer(&mut stream).1.len(), 3_000_009);
}

#[test]
fn a_client_that_expects_100_continue_gets_it() {
    let server = Server::default();
    let mut stream = server.connect();
    let head = "PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"body").unwrap();
    assert_eq!(read_answer(&mut stream).1, "PUT /?- body");
}

#[test]
fn head_has_the_length_and_no_body_and_close_closes() {
    let server = Server::default();
    let answer = exchange(&server, b"HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(answer.contains("Content-Length: 10\r\n"), "{answer}");
    assert!(answer.ends_with("Connection: close\r\nContent-Length: 10\r\n\r\n"));
    let answer = exchange(&server, b"GET /old HTTP/1.0\r\n\r\n");
    assert!(answer.ends_with("GET /old?- "), "{answer}");
}

#[test]
fn a_half_closed_client_still_gets_its_responses() {
    let server = Server::default();
    let mut stream = server.connect();
    stream.write_all(get("/a").repeat(200).as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let answers = read_to_end(&mut stream);
    assert_eq!(answers.matches("GET /a?- ").count(), 200);
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
        let answer = exchange(&server, request);
        assert!(answer.starts_with(start), "{answer}");
        assert!(answer.contains("<h1>Bad Message 4"), "{answer}");
    }
    server.wait_for(|stats, _| stats.connections == 0 && stats.buffered_bytes == 0);
}

#[test]
fn idle_connections_and_slow_requests_time_out() {
    let limits = Limits {
        keep_alive: Duration::from_millis(300),
        request_time: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = Server::start(limits, 10);
    let start = Instant::now();
    let (mut silent, mut slow) = (server.connect(), server.connect());
    slow.write_all(b"GET /never-ending").unwrap();
    assert!(is_closed(&mut silent));
    let answer = read_to_end(&mut slow);
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    assert!(start.elapsed() >= Duration::from_millis(250));
    // Sending something now and then does not extend the timeout.
    let mut dripping = server.connect();
    let start = Instant::now();
    while dripping.write_all(b"GET /").is_ok() && start.elapsed() < MAX_WAIT {
        std::thread::sleep(Duration::from_millis(20));
        if server.stats.try_iter().last().is_some_and(|(stats, _)| stats.connections == 0) {
            break;
        }
    }
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[test]
fn a_connection_over_the_limit_gets_status_503() {
    let server = Server::start(Limits::default(), 2);
    let (mut first, second) = (server.websocket(), server.websocket());
    server.wait_for(|stats, _| stats.connections == 2);
    let mut third = server.connect();
    let answer = read_to_end(&mut third);
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
    first.send(Message::text("hello")).unwrap();
    assert_eq!(first.read().unwrap(), Message::text("hello"));
    drop(second);
    server.wait_for(|stats, _| stats.connections == 1 && stats.rejected == 1);
    let mut fourth = server.connect();
    fourth.write_all(get("/").as_bytes()).unwrap();
    assert_eq!(read_answer(&mut fourth).1, "GET /?- ");
}

#[test]
fn memory_for_all_connections_together_is_limited() {
    let limits = Limits { buffered_bytes: 1_000_000, ..Limits::default() };
    let server = Server::start(limits, 10);
    let mut streams: Vec<TcpStream> = (0..3).map(|_| server.connect()).collect();
    for stream in &mut streams {
        let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        // The server may reject it before all is sent.
        let _ = stream.write_all(&vec![b'y'; 500_000]);
    }
    server.wait_for(|stats, _| {
        assert!(stats.buffered_bytes < 2_000_000);
        stats.connections < 3
    });
}

#[test]
fn websocket_messages_are_echoed_and_the_close_is_answered() {
    let server = Server::default();
    let mut client = server.websocket();
    for text in ["hello", "", "ünï", &"long".repeat(16_384)] {
        client.send(Message::text(text)).unwrap();
        assert_eq!(client.read().unwrap(), Message::text(text));
    }
    client.send(Message::Ping("p".into())).unwrap();
    assert_eq!(client.read().unwrap(), Message::Pong("p".into()));
    client.close(None).unwrap();
    assert!(client.read().unwrap().is_close());
    assert!(matches!(client.read(), Err(tungstenite::Error::ConnectionClosed)));
    server.wait_for(|stats, closed| stats.connections == 0 && closed == 1);
}

#[test]
fn frames_sent_along_with_the_upgrade_request_are_not_lost() {
    let server = Server::default();
    let mut stream = server.connect();
    let request = "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: abc\r\n\r\n";
    let mut bytes = request.as_bytes().to_vec();
    bytes.extend(b"\x81\x82\0\0\0\0hi");
    stream.write_all(&bytes).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\x81\x09welcome 9\x81\x02hi") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"));
}

#[test]
fn the_service_can_close_a_websocket_and_nothing_follows() {
    let server = Server::default();
    let mut client = server.websocket();
    client.send(Message::text("bye")).unwrap();
    client.send(Message::text("more")).unwrap();
    let Message::Close(Some(frame)) = client.read().unwrap() else {
        panic!("no close frame");
    };
    assert_eq!((u16::from(frame.code), frame.reason.as_str()), (4001, "as you wish"));
    server.wait_for(|stats, closed| stats.websockets == 0 && closed == 1);
}

#[test]
fn a_broken_frame_is_answered_with_its_close_code() {
    let server = Server::default();
    let mut client = server.websocket();
    client.get_mut().write_all(b"\x81\x02hi").unwrap();
    let Message::Close(Some(frame)) = client.read().unwrap() else {
        panic!("no close frame");
    };
    assert_eq!(u16::from(frame.code), 1002);
    server.wait_for(|stats, closed| stats.websockets == 0 && closed == 1);
}

#[test]
fn a_silent_websocket_is_closed_with_the_text_of_nis1() {
    let limits = Limits { websocket_idle: Duration::from_millis(200), ..Limits::default() };
    let server = Server::start(limits, 10);
    let mut client = server.websocket();
    let Message::Close(Some(frame)) = client.read().unwrap() else {
        panic!("no close frame");
    };
    assert_eq!(u16::from(frame.code), 1001);
    assert_eq!(frame.reason.as_str(), "Idle timeout expired: 200/200 ms");
}

#[test]
fn a_slow_consumer_is_dropped_without_affecting_others() {
    let server = Server::default();
    let slow = server.websocket();
    let mut reader = server.websocket();
    const SIZE: usize = 400_000;
    const COUNT: usize = 60;
    // More than the socket buffers of both ends together.
    for _ in 0..COUNT {
        reader.send(Message::text(format!("all {SIZE}"))).unwrap();
        assert_eq!(reader.read().unwrap().len(), SIZE);
    }
    server.wait_for(|stats, closed| stats.websockets == 1 && closed == 1);
    // A message that was begun arrives whole, followed by the reason.
    let mut slow = slow;
    let close = loop {
        match slow.read().unwrap() {
            Message::Text(text) => assert_eq!(text.len(), SIZE),
            other => break other,
        }
    };
    let Message::Close(Some(frame)) = close else {
        panic!("no close frame");
    };
    assert_eq!(u16::from(frame.code), 4500);
    reader.send(Message::text("still here")).unwrap();
    assert_eq!(reader.read().unwrap(), Message::text("still here"));
}

#[test]
fn an_unread_message_closes_its_websocket_at_its_timeout() {
    let limits = Limits { send_age: Duration::from_millis(200), backlog_bytes: 100_000_000, ..Limits::default() };
    let server = Server::start(limits, 10);
    let stuck = server.websocket();
    let mut sender = server.websocket();
    for _ in 0..40 {
        sender.send(Message::text("all 400000")).unwrap();
        assert_eq!(sender.read().unwrap().len(), 400_000);
    }
    server.wait_for(|stats, closed| stats.websockets == 1 && closed == 1);
    drop(stuck);
    server.wait_for(|stats, _| stats.connections == 1);
}

#[test]
fn hundreds_of_idle_websockets_hold_no_buffers() {
    let server = Server::start(Limits::default(), 500);
    let mut clients: Vec<_> = (0..300).map(|_| server.websocket()).collect();
    server.wait_for(|stats, _| stats.websockets == 300 && stats.buffered_bytes == 0);
    clients[0].send(Message::text("all 5000")).unwrap();
    for client in &mut clients {
        assert_eq!(client.read().unwrap().len(), 5000);
    }
    server.wait_for(|stats, _| stats.buffered_bytes == 0);
}

#[test]
fn shutdown_closes_websockets_with_1001_and_answers_open_requests() {
    let server = Server::default();
    let mut client = server.websocket();
    let mut idle = server.connect();
    idle.write_all(get("/").as_bytes()).unwrap();
    read_answer(&mut idle);
    let mut partial = server.connect();
    partial.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\no").unwrap();
    server.wait_for(|stats, _| stats.connections == 3 && stats.buffered_bytes > 0);
    server.stop.send(()).unwrap();
    assert!(is_closed(&mut idle));
    let Message::Close(Some(frame)) = client.read().unwrap() else {
        panic!("no close frame");
    };
    assert_eq!(u16::from(frame.code), 1001);
    partial.write_all(b"k").unwrap();
    let (head, body) = read_answer(&mut partial);
    assert!(head.contains("Connection: close\r\n") && body == "POST /?- ok");
    drop(client);
    let (stats, closed) = server.final_stats();
    assert_eq!((stats.connections, closed), (0, 1));
    assert!(TcpStream::connect(server.addr).is_err());
}

/// Connects from another address of this machine.
fn connect_from(server: &Server, last: u8) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, last], 0)).into()).unwrap();
    socket.connect(&server.addr.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(MAX_WAIT)).unwrap();
    stream.set_write_timeout(Some(MAX_WAIT)).unwrap();
    stream
}

#[test]
fn a_suspended_request_is_answered_when_resumed_without_delaying_others() {
    let server = Server::default();
    let (mut parked, mut other) = (server.connect(), server.connect());
    parked.write_all((get("/park") + &get("/after")).as_bytes()).unwrap();
    for _ in 0..20 {
        other.write_all(get("/").as_bytes()).unwrap();
        assert_eq!(read_answer(&mut other).1, "GET /?- ");
    }
    other.write_all(get("/resume").as_bytes()).unwrap();
    read_answer(&mut other);
    assert_eq!(read_answer(&mut parked).1, "resumed");
    assert_eq!(read_answer(&mut parked).1, "GET /after?- ");
}

#[test]
fn a_suspended_request_times_out_with_status_503_and_a_disconnect() {
    let limits = Limits { request_time: Duration::from_millis(300), ..Limits::default() };
    let server = Server::start(limits, 10);
    let answer = exchange(&server, get("/park").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    server.wait_for(|_, closed| closed == 1);
    let mut gone = server.connect();
    gone.write_all(get("/park").as_bytes()).unwrap();
    server.wait_for(|stats, _| stats.buffered_bytes > 0);
    drop(gone);
    server.wait_for(|stats, closed| closed == 2 && stats.connections == 0);
}

#[test]
fn a_request_in_many_steps_does_not_delay_others() {
    let server = Server::default();
    let (mut long, mut other) = (server.connect(), server.connect());
    long.write_all(get("/steps/200").as_bytes()).unwrap();
    other.write_all(get("/").as_bytes()).unwrap();
    assert_eq!(read_answer(&mut other).1, "GET /?- ");
    assert_eq!(read_answer(&mut long).1, "done");
    let mut socket = server.websocket();
    socket.send(Message::text("steps 50")).unwrap();
    socket.send(Message::text("after")).unwrap();
    assert_eq!(socket.read().unwrap(), Message::text("done"));
    assert_eq!(socket.read().unwrap(), Message::text("after"));
}

#[test]
fn a_streamed_response_waits_for_the_client_to_read() {
    let server = Server::default();
    let mut stream = server.connect();
    // More than the buffers of both sockets hold.
    stream.write_all(get("/pieces/2000").as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    server.wait_for(|stats, _| {
        assert!(stats.buffered_bytes < 400_000, "{stats:?}");
        stats.buffered_bytes > 0
    });
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n0\r\n\r\n") {
        let mut piece = [0; 65_536];
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0);
        answer.extend_from_slice(&piece[..count]);
    }
    assert_eq!(answer.iter().filter(|byte| **byte == b'p').count(), 20_000_000);
    stream.write_all(get("/").as_bytes()).unwrap();
    assert_eq!(read_answer(&mut stream).1, "GET /?- ");
}

#[test]
fn a_rejected_client_can_read_the_error_while_it_sends() {
    let server = Server::start(Limits::default(), 1);
    let _first = server.websocket();
    server.wait_for(|stats, _| stats.connections == 1);
    for _ in 0..20 {
        let mut stream = server.connect();
        let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&[b'x'; 100_000]).unwrap();
        let answer = read_to_end(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
    }
}

#[test]
fn connections_are_limited_per_client() {
    let limits = Limits { connections_per_client: 5, ..Limits::default() };
    let server = Server::start(limits, 1000);
    let mut held: Vec<TcpStream> = (0..5).map(|_| connect_from(&server, 2)).collect();
    server.wait_for(|stats, _| stats.connections == 5);
    assert!(read_to_end(&mut connect_from(&server, 2)).starts_with("HTTP/1.1 503 "));
    for mut other in [connect_from(&server, 3), server.connect(), connect_from(&server, 9)] {
        other.write_all(get("/").as_bytes()).unwrap();
        assert_eq!(read_answer(&mut other).1, "GET /?- ");
    }
    held.pop();
    server.wait_for(|stats, _| stats.connections < 5);
    let mut again = connect_from(&server, 2);
    again.write_all(get("/").as_bytes()).unwrap();
    assert_eq!(read_answer(&mut again).1, "GET /?- ");
}

#[test]
fn a_client_over_its_rate_limit_is_rejected_and_far_over_it_disconnected() {
    let server = Server::default();
    let mut hasty = connect_from(&server, 2);
    let requests = get("/").repeat(2000);
    let _ = hasty.write_all(requests.as_bytes());
    let mut answers = Vec::new();
    let _ = hasty.read_to_end(&mut answers);
    let answers = String::from_utf8(answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 50);
    let refused = answers.matches("HTTP/1.1 429 ").count();
    assert!((1..=500).contains(&refused), "{refused}");
    // New connections of this client are rejected for a while; others are accepted.
    let mut again = connect_from(&server, 2);
    let _ = again.write_all(get("/").as_bytes());
    assert!(is_closed(&mut again));
    let mut other = connect_from(&server, 3);
    other.write_all(get("/").as_bytes()).unwrap();
    assert_eq!(read_answer(&mut other).1, "GET /?- ");
}

#[test]
fn clients_behind_a_trusted_proxy_are_distinguished() {
    let server = Server::default();
    let ask = |last: u8, named: &str| {
        let mut stream = connect_from(&server, last);
        let request = format!("GET /caller HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {named}\r\n\r\n");
        (0..60)
            .map(|_| {
                stream.write_all(request.as_bytes()).unwrap();
                read_answer(&mut stream)
            })
            .collect::<Vec<_>>()
    };
    let through_proxy = ask(9, "10.1.1.1");
    assert_eq!(through_proxy[0].1, "10.1.1.1 true");
    assert!(through_proxy[59].0.starts_with("HTTP/1.1 429 "));
    assert_eq!(ask(9, "10.1.1.2")[0].1, "10.1.1.2 true");
    // Clients that are not trusted cannot set another address, and even the loopback address has a rate limit then.
    assert_eq!(ask(4, "10.1.1.3")[0].1, "127.0.0.4 true");
    let loopback = ask(1, "10.1.1.4");
    assert_eq!(loopback[0].1, "127.0.0.1 true");
    assert!(loopback[59].0.starts_with("HTTP/1.1 429 "));
}

#[test]
fn the_largest_client_is_evicted_when_memory_is_short() {
    let limits = Limits { buffered_bytes: 2_000_000, ..Limits::default() };
    let server = Server::start(limits, 100);
    let body = |stream: &mut TcpStream, length: usize, sent: usize| {
        let head = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&vec![b'y'; sent]))
    };
    let mut hogs: Vec<TcpStream> = (0..8).map(|_| connect_from(&server, 2)).collect();
    for hog in &mut hogs {
        let _ = body(hog, 300_000, 240_000);
    }
    server.wait_for(|stats, _| stats.buffered_bytes > 1_500_000);
    // The last client, which holds little, is not the one evicted.
    let mut modest = connect_from(&server, 3);
    body(&mut modest, 150_001, 150_000).unwrap();
    for hog in &mut hogs {
        let _ = hog.write_all(&[b'y'; 59_999]);
    }
    server.wait_for(|stats, _| stats.connections < 9 && stats.buffered_bytes <= 2_000_000);
    modest.write_all(b"y").unwrap();
    assert_eq!(read_answer(&mut modest).1.len(), 150_010);
}

#[test]
fn a_message_queued_for_many_websockets_is_held_once() {
    let limits = Limits { shared_bytes: 3_000_000, backlog_bytes: 100_000_000, ..Limits::default() };
    let server = Server::start(limits, 300);
    let mut deaf: Vec<_> = (0..100).map(|_| server.websocket()).collect();
    let mut sender = server.websocket();
    for _ in 0..40 {
        sender.send(Message::text("all 400000")).unwrap();
        assert_eq!(sender.read().unwrap().len(), 400_000);
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

#[test]
fn only_clients_that_do_not_read_are_evicted_at_the_kernel_memory_limit() {
    let limits = Limits { kernel_bytes: 1 << 20, requests_per_second: None, ..Limits::default() };
    let server = Server::start(limits, 1000);
    let mut reader = connect_from(&server, 3);
    let ask = |_| {
        let mut stream = connect_from(&server, 2);
        stream.write_all(get("/big/1000000").as_bytes()).unwrap();
        stream
    };
    let deaf: Vec<TcpStream> = (0..40).map(ask).collect();
    for _ in 0..30 {
        reader.write_all(get("/big/100000").as_bytes()).unwrap();
        assert_eq!(read_answer(&mut reader).1.len(), 100_000);
    }
    server.wait_for(|stats, _| {
        assert!(stats.kernel_bytes <= 1 << 20, "{stats:?}");
        stats.kernel_evicted >= 30
    });
    reader.write_all(get("/").as_bytes()).unwrap();
    assert_eq!(read_answer(&mut reader).1, "GET /?- ");
    drop(deaf);
}
