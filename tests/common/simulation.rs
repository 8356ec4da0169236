//! Whole nodes in virtual time: the machine itself, with function calls where a running one has sockets.
#![allow(dead_code)] // not every test uses everything

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use nisd::config::Settings;
use nisd::model::Timestamp;
use nisd::model::units::EPOCH_UNIX_MILLIS;
use nisd::net::SharedPool;
use nisd::net::fetch::{Fetch, FetchId};
use nisd::net::http::{Gzip, Reply, RequestReader};
use nisd::net::machine::{
    Caller, ConnectionId, Dropped, Effects, Event, Exchange, ListenerId, Machine, Message, Moment, Taken,
};
use nisd::node::{HTTP, Node, Start, WEBSOCKET};
use nisd::store::Store;
use sha2::{Digest, Sha256};

/// Units of work in a turn.
const BUDGET: u32 = 500;
/// Turns at one moment after which a node that still wants another one is taken to go round in circles.
const MOST_TURNS: usize = 1_000_000;

/// What a node brings about, recorded.
pub struct World {
    now: Moment,
    wake_at: Option<Duration>,
    open: BTreeSet<ConnectionId>,
    resumed: BTreeSet<ConnectionId>,
    /// What websockets were sent, the oldest first.
    pub sent: VecDeque<(ConnectionId, Vec<u8>)>,
    /// Of all effects in order, byte for byte.
    digest: Sha256,
    /// How many there were.
    pub effects: u64,
}

impl World {
    fn record(&mut self, kind: u8, connection: u64, bytes: &[&[u8]]) {
        let length: usize = bytes.iter().map(|part| part.len()).sum();
        self.digest.update([kind]);
        self.digest.update(self.now.running.as_nanos().to_le_bytes());
        self.digest.update(connection.to_le_bytes());
        self.digest.update((length as u64).to_le_bytes());
        bytes.iter().for_each(|part| self.digest.update(part));
        self.effects += 1;
    }
}

impl Effects for World {
    fn send(&mut self, socket: ConnectionId, message: Message<'_>) -> Result<(), Dropped> {
        if !self.open.contains(&socket) {
            return Err(Dropped);
        }
        let body: &[u8] = message.body.map_or(&[], |body| body);
        self.record(1, socket.0, &[message.head, body, message.tail]);
        self.sent.push_back((socket, [message.head, body, message.tail].concat()));
        Ok(())
    }

    fn backlog(&self, _: ConnectionId) -> usize {
        0
    }

    fn close(&mut self, socket: ConnectionId, code: u16, reason: &str) {
        self.record(2, socket.0, &[&code.to_le_bytes(), reason.as_bytes()]);
        self.open.remove(&socket);
    }

    fn resume(&mut self, connection: ConnectionId) {
        self.record(3, connection.0, &[]);
        self.resumed.insert(connection);
    }

    fn charge(&mut self, connection: ConnectionId, units: u32) {
        self.record(4, connection.0, &[&units.to_le_bytes()]);
    }

    fn fetch(&mut self, _: Fetch) -> FetchId {
        panic!("nobody is there to be asked")
    }

    fn cancel(&mut self, _: FetchId) {}

    fn wake_at(&mut self, running: Duration) {
        self.wake_at = Some(self.wake_at.map_or(running, |at| at.min(running)));
    }
}

/// A node and its world.
pub struct SimulatedNode<'s> {
    machine: Node<'s>,
    pub world: World,
    next_connection: u64,
    /// Unix time when the node was started, in milliseconds.
    started: i64,
}

/// Status and body of an answer.
pub struct Answered {
    pub status: u16,
    pub body: Vec<u8>,
}

impl<'s> SimulatedNode<'s> {
    /// Starts a node at a moment of network time.
    pub fn start(store: &'s Store, settings: &'s Settings, time: Timestamp, seed: u8) -> SimulatedNode<'s> {
        let started = EPOCH_UNIX_MILLIS + i64::from(time.0) * 1000;
        let now = Moment { unix_millis: started, running: Duration::ZERO };
        let (local, shared) = (settings.local.clone(), SharedPool::default());
        let start = Start { now, seed: &[seed; 32], local, shared, import: None, known: Vec::new() };
        let machine = Node::new(store, settings, start).expect("a node");
        let (open, resumed, digest) = (BTreeSet::new(), BTreeSet::new(), Sha256::new());
        let world = World { now, wake_at: None, open, resumed, sent: VecDeque::new(), digest, effects: 0 };
        let mut node = SimulatedNode { machine, world, next_connection: 1, started };
        node.turn();
        node
    }

    /// Network time.
    pub fn time(&self) -> Timestamp {
        Timestamp::from_unix_millis(self.world.now.unix_millis)
    }

    /// Lets time go by; the node has a turn whenever it wants one.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.world.now.running + time;
        while let Some(at) = self.world.wake_at.filter(|at| *at <= end) {
            self.set_time(at.max(self.world.now.running));
            self.turn();
        }
        self.set_time(end);
    }

    /// Sets the system's clock forwards or backwards, as somebody may do by mistake.
    pub fn shift_clock(&mut self, seconds: i64) {
        self.started += 1000 * seconds;
        self.set_time(self.world.now.running);
    }

    /// Digest of all effects so far.
    pub fn digest(&self) -> String {
        hex::encode(self.world.digest.clone().finalize())
    }

    /// Sends a request from 127.0.0.1 and waits for the answer.
    pub fn request(&mut self, bytes: &[u8]) -> Answered {
        let connection = self.connect();
        let mut reader = RequestReader::new(1 << 20);
        reader.receive(bytes);
        let (mut reply, mut is_resumed, mut body) = (Reply::new(), false, Vec::new());
        loop {
            let request = reader.next_request().expect("a request").expect("a whole one");
            let caller = caller(HTTP);
            let exchange =
                Exchange { connection, caller, request: &request, reply: &mut reply, is_resumed, is_refused: false };
            let taken = self.machine.handle(Event::Request(exchange), self.world.now, &mut self.world);
            if reply.pieces {
                body.append(&mut reply.body);
            }
            if taken == Taken::Done {
                let mut out = Vec::new();
                reply.write(&request, &mut Gzip::default(), &mut out);
                self.world.record(5, connection.0, &[&out, &body]);
                body.append(&mut reply.body);
                return Answered { status: reply.status, body };
            }
            is_resumed = true;
            reader.put_back();
            if taken == Taken::Parked {
                self.turn();
                assert!(self.world.resumed.remove(&connection), "a parked request is resumed");
            }
        }
    }

    /// Sends JSON by POST.
    pub fn post(&mut self, path: &str, json: &str) -> Answered {
        let length = json.len();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
        self.request(format!("{head}Content-Length: {length}\r\n\r\n{json}").as_bytes())
    }

    /// Sends a GET.
    pub fn get(&mut self, path: &str) -> Answered {
        self.request(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
    }

    /// Opens a websocket.
    pub fn open(&mut self) -> ConnectionId {
        let socket = self.connect();
        self.world.open.insert(socket);
        let opened = Event::Opened { socket, caller: caller(WEBSOCKET) };
        self.machine.handle(opened, self.world.now, &mut self.world);
        socket
    }

    /// Sends a message by a websocket.
    pub fn say(&mut self, socket: ConnectionId, message: &str) {
        let event = Event::Heard { socket, message: message.as_bytes(), is_text: true };
        let mut taken = self.machine.handle(event, self.world.now, &mut self.world);
        while taken != Taken::Done {
            self.turn();
            taken = self.machine.handle(Event::Resumed { socket }, self.world.now, &mut self.world);
        }
        self.turn();
    }

    fn connect(&mut self) -> ConnectionId {
        self.next_connection += 1;
        ConnectionId(self.next_connection)
    }

    fn set_time(&mut self, running: Duration) {
        self.world.now = Moment { unix_millis: self.started + running.as_millis() as i64, running };
    }

    /// Gives the node turns until it wants none for now.
    fn turn(&mut self) {
        for _ in 0..MOST_TURNS {
            self.world.wake_at = None;
            let turn = Event::Turn { budget: BUDGET, took: Duration::ZERO };
            self.machine.handle(turn, self.world.now, &mut self.world);
            if self.world.wake_at.is_none_or(|at| at > self.world.now.running) {
                return;
            }
        }
        panic!("the node has work without end");
    }
}

fn caller(listener: ListenerId) -> Caller {
    Caller { listener, address: IpAddr::V4(Ipv4Addr::LOCALHOST), is_forwarded: false }
}
