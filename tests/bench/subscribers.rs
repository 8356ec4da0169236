//! Many connections and many subscribers, some of which do not read.
//!
//! `bash -c 'ulimit -n 20000 && cargo bench --bench measure -- subscribers'` has two parts:
//!
//! * 2,000 idle HTTP connections and 2,000 websocket sessions, each subscribed to `/blocks/new` and `/blocks`, on a
//!   private network that makes a block every second. It reports memory, whether every session got every height after
//!   its subscription in order, and the time between the first and the last session that got a message. This client
//!   reads all of them in one thread, so the time includes its own work.
//! * 50 sessions that read `/blocks` of `all-forks` at the full speed of an import, without and with 50 more that
//!   subscribe and never read.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

use super::support::{Memory, TIP, cpu_seconds, folder, in_millis, node_on_all_forks, print_machine};
use crate::common::daemon::{Node, new_network};
use crate::common::http::{Client, get};
use crate::common::websocket::upgrade_request;

/// Maximum wait.
const MAX_WAIT: Duration = Duration::from_secs(60);
const IDLE: usize = 2_000;
const SUBSCRIBERS: usize = 2_000;
/// Number of blocks, one a second, that part one observes; an idle connection is closed after 30 s.
const BLOCKS: u64 = 20;
/// Connections that part one opens at a time. More might not fit into the queue of a listening socket, whose overflow
/// costs a client a second; [`burst`] shows that.
const BURST: usize = 100;
const READERS: usize = 50;
const STALLED: usize = 50;

pub fn run(_: &[String]) -> ExitCode {
    print_machine();
    burst();
    many_subscribers();
    println!("\n{READERS} sessions that read /blocks at full speed of import");
    for stalled in [0, STALLED, 0, STALLED] {
        slow_readers(stalled);
    }
    ExitCode::SUCCESS
}

/// Measures connection times of clients that all connect at once.
fn burst() {
    let node = Node::on_fast_network(&new_network(), 1, &[], &[]);
    let begun = Instant::now();
    let clients: Vec<Client> = (0..IDLE).map(|_| Client::connect(node.http)).collect();
    println!("{} connections opened at once: {:.2} s", clients.len(), begun.elapsed().as_secs_f64());
}

/// Part one.
fn many_subscribers() {
    let node = Node::on_fast_network(&new_network(), 1, &[], &[]);
    println!("alone:                        {}", Memory::of(node.process.id()));
    let begun = Instant::now();
    let mut idle: Vec<Client> = Vec::new();
    while idle.len() < IDLE {
        let mut more: Vec<_> = (0..BURST).map(|_| Client::connect(node.http)).collect();
        request_heights(&mut more);
        idle.append(&mut more);
    }
    println!("with {IDLE} idle connections:  {}", Memory::of(node.process.id()));
    let height = Client::connect(node.http).height();
    let mut crowd = SubscriberSet::new(height + BLOCKS);
    (0..SUBSCRIBERS / BURST).for_each(|_| crowd.add(BURST, node.websocket, &["/blocks/new", "/blocks"]));
    println!("all connected {:.2} s after the start", begun.elapsed().as_secs_f64());
    let cpu = cpu_seconds(node.process.id());
    crowd.listen();
    println!("with {SUBSCRIBERS} sessions too:      {}", Memory::of(node.process.id()));
    let blocks = crowd.report();
    println!("processor time of the node: {:.1} ms a block", (cpu_seconds(node.process.id()) - cpu) / blocks * 1e3);
    request_heights(&mut idle);
    println!("all {IDLE} idle connections are answered at the end");
}

/// Requests the height on every connection, on all before the first answer is read, so that the scheduler of a busy
/// machine has no influence.
fn request_heights(clients: &mut [Client]) {
    clients.iter_mut().for_each(|client| client.send(get("/chain/height")));
    for client in clients {
        assert_eq!(client.answer().status, 200);
    }
}

/// Part two.
fn slow_readers(stalled: usize) {
    let folder = folder();
    let node = node_on_all_forks(folder.path(), true);
    let mut crowd = SubscriberSet::new(TIP);
    crowd.add(READERS, node.websocket, &["/blocks"]);
    let deaf = open(stalled, node.websocket, &["/blocks"]);
    let begun = Instant::now();
    crowd.listen();
    println!("with {stalled} that do not read: tip after {:.2} s", begun.elapsed().as_secs_f64());
    crowd.report();
    let dropped = deaf.into_iter().map(last_height).filter(|height| height.is_some_and(|height| height < TIP)).count();
    let told = node.process.log().matches("does not receive its messages").count();
    println!("{dropped} of {stalled} that did not read were dropped before the tip ({told} in the log)");
    println!("memory: {}", Memory::of(node.process.id()));
}

/// Returns the height of the last complete message of a session that the node has closed; `None` if it is still open.
fn last_height(mut socket: WebSocket<std::net::TcpStream>) -> Option<u64> {
    socket.get_ref().set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    let mut last = 0;
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => last = height_in(text.as_bytes()).unwrap_or(last),
            Ok(_) => {}
            Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(_) => return Some(last),
        }
    }
}

/// A session that reads, and the last height on each of its destinations.
struct Session {
    socket: WebSocket<TcpStream>,
    last: Vec<Option<u64>>,
    open: bool,
}

/// When a message reached its first and its last session, and the number of sessions.
struct Delivery {
    first: Instant,
    last: Instant,
    sessions: usize,
}

/// Sessions read by one thread until each has received the last height on every destination.
struct SubscriberSet {
    poll: Poll,
    sessions: Vec<Session>,
    tip: u64,
    /// By index of the destination and height.
    deliveries: BTreeMap<(usize, u64), Delivery>,
    gaps: usize,
    names: BTreeMap<usize, String>,
}

impl SubscriberSet {
    fn new(tip: u64) -> SubscriberSet {
        let poll = Poll::new().expect("a poll");
        let (deliveries, names) = (BTreeMap::new(), BTreeMap::new());
        SubscriberSet { poll, sessions: Vec::new(), tip, deliveries, gaps: 0, names }
    }

    /// Adds sessions.
    fn add(&mut self, count: usize, address: SocketAddr, destinations: &[&str]) {
        for socket in open(count, address, destinations) {
            let stream = socket.get_ref().try_clone().expect("a socket");
            stream.set_nonblocking(true).expect("a socket that does not block");
            let mut stream = TcpStream::from_std(stream);
            let token = Token(self.sessions.len());
            self.poll.registry().register(&mut stream, token, Interest::READABLE).expect("a place in the poll");
            let socket = WebSocket::from_raw_socket(stream, Role::Client, None);
            self.sessions.push(Session { socket, last: vec![None; destinations.len()], open: true });
        }
        self.names.extend(destinations.iter().map(|name| (*name).to_owned()).enumerate());
    }

    /// Reads until every session is at the tip or closed.
    fn listen(&mut self) {
        let mut events = Events::with_capacity(4096);
        let begun = Instant::now();
        while self.sessions.iter().any(|session| session.open && !session.is_at(self.tip)) {
            assert!(begun.elapsed() < MAX_WAIT, "some sessions do not get the last block");
            self.poll.poll(&mut events, Some(Duration::from_millis(500))).expect("events");
            for event in &events {
                self.read(event.token().0);
            }
        }
    }

    fn read(&mut self, index: usize) {
        let session = &mut self.sessions[index];
        while session.open {
            match session.socket.read() {
                Ok(Message::Text(text)) => {
                    let Some((destination, height)) = parse(text.as_bytes()) else { continue };
                    let before = session.last[destination].replace(height);
                    self.gaps += usize::from(before.is_some_and(|before| before + 1 != height));
                    let now = Instant::now();
                    let place = self.deliveries.entry((destination, height));
                    let delivery = place.or_insert(Delivery { first: now, last: now, sessions: 0 });
                    delivery.last = now;
                    delivery.sessions += 1;
                }
                Ok(_) => {}
                Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    println!("a session that reads was closed: {error}");
                    session.open = false;
                }
            }
        }
    }

    /// Prints the deliveries; returns the number of blocks that all sessions got.
    fn report(&self) -> f64 {
        let whole = self.sessions.iter().filter(|session| session.open && session.is_at(self.tip)).count();
        println!("{whole} of {} sessions got messages up to the tip; {} gaps", self.sessions.len(), self.gaps);
        let mut count = 0.0;
        for (destination, name) in &self.names {
            let deliveries = self.deliveries.iter().filter(|((number, _), _)| number == destination);
            // Before the first such height, some sessions had not subscribed yet.
            let complete = deliveries.clone().filter(|(_, delivery)| delivery.sessions == self.sessions.len());
            let from = complete.clone().map(|((_, height), _)| *height).min().unwrap_or(0);
            let all = deliveries.filter(|((_, height), _)| *height >= from).count();
            let mut spreads: Vec<f64> = complete.map(|(_, d)| (d.last - d.first).as_secs_f64()).collect();
            count = spreads.len() as f64;
            let spread = in_millis(&mut spreads);
            println!("{name}: {count} of {all} blocks from {from} on reached all; first to last: {spread}");
        }
        count
    }
}

impl Session {
    fn is_at(&self, tip: u64) -> bool {
        self.last.iter().all(|last| *last == Some(tip))
    }
}

/// Returns the subscription and the height of a message; `None` for any other frame.
fn parse(frame: &[u8]) -> Option<(usize, u64)> {
    const SUBSCRIPTION: &[u8] = b"\nsubscription:";
    let end = frame.windows(2).position(|window| window == b"\n\n")?;
    let (head, body) = frame.split_at(end);
    let place = head.windows(SUBSCRIPTION.len()).position(|window| window == SUBSCRIPTION)?;
    let id = head.get(place + SUBSCRIPTION.len())?.checked_sub(b'0')?;
    Some((usize::from(id), height_in(body.get(2..)?)?))
}

/// Returns the number after the last `"height":` of a JSON text, or the number that is the whole text.
fn height_in(json: &[u8]) -> Option<u64> {
    const KEY: &[u8] = b"\"height\":";
    let place = json.windows(KEY.len()).rposition(|window| window == KEY).map_or(0, |place| place + KEY.len());
    let digits = json.get(place..)?.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(None, |number: Option<u64>, digit| Some(number.unwrap_or(0) * 10 + u64::from(digit - b'0')))
}

/// Opens sessions and subscribes them.
fn open(count: usize, address: SocketAddr, destinations: &[&str]) -> Vec<WebSocket<std::net::TcpStream>> {
    let streams: Vec<_> = (0..count).map(|_| std::net::TcpStream::connect(address).expect("a connection")).collect();
    for mut stream in &streams {
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(MAX_WAIT)).expect("a timeout");
        stream.write_all(upgrade_request().as_bytes()).expect("a request");
    }
    streams.into_iter().map(|stream| subscribe(stream, destinations)).collect()
}

/// Reads the response to the handshake and subscribes.
fn subscribe(mut stream: std::net::TcpStream, destinations: &[&str]) -> WebSocket<std::net::TcpStream> {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    while !head.ends_with(b"\r\n\r\n") {
        // Nothing follows the head before this side sends something.
        let count = stream.read(&mut piece).expect("an answer");
        assert!(count > 0, "closed by the node");
        head.extend_from_slice(&piece[..count]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    let mut socket = WebSocket::from_raw_socket(stream, Role::Client, None);
    socket.send(Message::text("CONNECT\naccept-version:1.2\n\n\0")).expect("a session");
    for (id, destination) in destinations.iter().enumerate() {
        let frame = format!("SUBSCRIBE\nid:{id}\ndestination:{destination}\n\n\0");
        socket.send(Message::text(frame)).expect("a subscription");
    }
    socket
}
