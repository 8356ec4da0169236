//! The reactor over real sockets on loopback: what a client may rely on, and what it cannot do.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nisd::net::http::{Reply, Request};
use nisd::net::websocket::handshake;
use nisd::net::{Caller, ConnectionId, Limits, Outbox, Reactor, Service, Stats};
use tungstenite::Message;

/// No test waits longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(10);

/// Echoes: `METHOD path?query body` over HTTP, messages over websockets. `/big/N` answers N bytes.
/// A websocket message `all N` sends N bytes to every websocket, `bye` closes the sender's.
#[derive(Default)]
struct Echo {
    open: HashMap<ConnectionId, u64>,
    closed: Vec<ConnectionId>,
}

impl Service for Echo {
    fn request(&mut self, _: Caller, _: Instant, request: &Request<'_>, reply: &mut Reply, _: &mut Outbox) {
        if request.path == "/ws" {
            match handshake(request, 9) {
                Ok(upgrade) => reply.upgrade = Some(upgrade),
                Err(refusal) => refusal.answer(reply),
            }
        } else if let Some(size) = request.path.strip_prefix("/big/") {
            reply.body.resize(size.parse().unwrap(), b'x');
        } else {
            let query = request.query.unwrap_or("-");
            write!(reply.body, "{} {}?{query} ", request.method, request.path).unwrap();
            reply.body.extend_from_slice(request.body);
        }
    }

    fn websocket_opened(&mut self, id: ConnectionId, _: Caller, tag: u64, _: Instant, outbox: &mut Outbox) {
        assert_eq!(self.open.insert(id, tag), None);
        outbox.text(id, format!("welcome {tag}").into_bytes());
    }

    fn websocket_message(&mut self, id: ConnectionId, message: &[u8], _: bool, _: Instant, outbox: &mut Outbox) {
        let text = std::str::from_utf8(message).unwrap_or_default();
        if let Some(size) = text.strip_prefix("all ") {
            let text = vec![b'm'; size.parse().unwrap()];
            for other in self.open.keys() {
                outbox.text(*other, text.clone());
            }
        } else if text == "bye" {
            outbox.close(id, 4001, "as you wish");
            outbox.text(id, b"never seen".to_vec());
        } else {
            outbox.text(id, message.to_vec());
        }
    }

    fn websocket_closed(&mut self, id: ConnectionId) {
        assert!(self.open.remove(&id).is_some(), "closed once");
        self.closed.push(id);
    }
}

/// A reactor in a thread of its own; it is shut down when this goes.
struct Server {
    addr: SocketAddr,
    stop: Sender<()>,
    stats: Receiver<(Stats, usize)>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(limits: Limits, max_connections: usize) -> Self {
        let mut reactor = Reactor::new(limits).unwrap();
        let listener = reactor.listen("127.0.0.1:0".parse().unwrap(), max_connections).unwrap();
        let addr = reactor.local_addr(listener).unwrap();
        let (stop, stopped) = channel();
        let (report, stats) = channel();
        let thread = std::thread::spawn(move || {
            let mut echo = Echo::default();
            let mut stopping: Option<Instant> = None;
            loop {
                let turn = Some(Duration::from_millis(5));
                reactor.turn(turn, &mut echo).unwrap();
                let stats = reactor.stats();
                assert_eq!(stats.websockets, echo.open.len());
                let _ = report.send((stats, echo.closed.len()));
                match stopping {
                    None if stopped.try_recv().is_ok() => {
                        reactor.shutdown();
                        stopping = Some(Instant::now());
                    }
                    Some(_) if stats.connections == 0 => return,
                    Some(since) => assert!(since.elapsed() < PATIENCE, "no end: {stats:?}"),
                    None => {}
                }
            }
        });
        Self { addr, stop, stats, thread: Some(thread) }
    }

    fn default() -> Self {
        Self::start(Limits::default(), 1000)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn websocket(&self) -> tungstenite::WebSocket<TcpStream> {
        let url = format!("ws://{}/ws", self.addr);
        let (mut client, _) = tungstenite::client(url, self.connect()).unwrap();
        assert_eq!(client.read().unwrap(), Message::text("welcome 9"));
        client
    }

    /// Waits until the figures of the reactor, and the number of websockets closed so far, are as
    /// wanted.
    fn wait_for(&self, wanted: impl Fn(&Stats, usize) -> bool) {
        let start = Instant::now();
        // What was true before this call does not count.
        let mut last = self.stats.try_iter().last();
        while start.elapsed() < PATIENCE {
            let figures = self.stats.recv_timeout(PATIENCE).unwrap();
            if wanted(&figures.0, figures.1) {
                return;
            }
            last = Some(figures);
        }
        panic!("still {last:?}");
    }

    /// The figures at the end of the reactor, once it has stopped by itself.
    fn last_figures(&self) -> (Stats, usize) {
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

/// Sends `request` and returns the whole answer up to the end of the stream.
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

/// Reads one answer with a Content-Length: its head and its body.
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
    server.wait_for(|stats, _| stats.accepted == 1 && stats.answered == 20);
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
fn a_pipelining_client_that_does_not_read_is_held_not_fed() {
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
fn a_large_answer_arrives_whole_and_others_are_served_meanwhile() {
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
fn a_body_may_come_slowly_and_in_chunks() {
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
fn a_client_that_expects_it_is_told_to_continue() {
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
fn a_client_that_has_closed_its_side_still_gets_its_answers() {
    let server = Server::default();
    let mut stream = server.connect();
    stream.write_all(get("/a").repeat(200).as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let answers = read_to_end(&mut stream);
    assert_eq!(answers.matches("GET /a?- ").count(), 200);
    server.wait_for(|stats, _| stats.connections == 0);
}

#[test]
fn what_is_too_large_or_not_http_is_refused_and_closed() {
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
fn an_idle_connection_and_a_slow_request_end_in_time() {
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
    // Sending now and then does not buy more time.
    let mut dripping = server.connect();
    let start = Instant::now();
    while dripping.write_all(b"GET /").is_ok() && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
        if server.stats.try_iter().last().is_some_and(|(stats, _)| stats.connections == 0) {
            break;
        }
    }
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[test]
fn a_connection_over_the_limit_is_told_so() {
    let server = Server::start(Limits::default(), 2);
    let (mut first, second) = (server.connect(), server.connect());
    server.wait_for(|stats, _| stats.connections == 2);
    let mut third = server.connect();
    let answer = read_to_end(&mut third);
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
    first.write_all(get("/").as_bytes()).unwrap();
    assert_eq!(read_answer(&mut first).1, "GET /?- ");
    drop(second);
    server.wait_for(|stats, _| stats.connections == 1 && stats.refused == 1);
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
        // The server may refuse it under way.
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
fn a_silent_websocket_is_closed_with_the_text_of_the_specification() {
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
fn a_slow_consumer_is_dropped_while_others_get_everything() {
    let server = Server::default();
    let slow = server.websocket();
    let mut reader = server.websocket();
    const SIZE: usize = 400_000;
    const COUNT: usize = 60;
    // More than the socket buffers of both ends hold together.
    for _ in 0..COUNT {
        reader.send(Message::text(format!("all {SIZE}"))).unwrap();
        assert_eq!(reader.read().unwrap().len(), SIZE);
    }
    server.wait_for(|stats, closed| stats.websockets == 1 && closed == 1);
    // What had begun arrives whole, then the reason.
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
fn a_message_nobody_takes_ends_its_websocket_in_time() {
    let limits = Limits {
        websocket_send_age: Duration::from_millis(200),
        websocket_backlog_bytes: 100_000_000,
        ..Limits::default()
    };
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
fn shutting_down_says_goodbye() {
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
    let (stats, closed) = server.last_figures();
    assert_eq!((stats.connections, closed), (0, 1));
    assert!(TcpStream::connect(server.addr).is_err());
}
