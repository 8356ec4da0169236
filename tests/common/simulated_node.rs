//! Whole nodes in virtual time: the node's state machine, driven by function calls instead of sockets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use nisd::chain::{CandidateBranch, StakeCache};
use nisd::config::Settings;
use nisd::model::network::ChainParameters;
use nisd::model::units::EPOCH_UNIX_MILLIS;
use nisd::model::{Amount, Block, Hash256, Height, Network, Timestamp};
use nisd::net::SharedBytesCounter;
use nisd::net::fetch::{FetchError, FetchId, FetchRequest, FetchResponse};
use nisd::net::http::{Gzip, RequestReader, Response};
use nisd::net::service::{
    Client, ConnectionId, Dropped, Effects, Event, Exchange, ListenerId, LoopTime, Message, Progress, Service,
};
use nisd::node::{HTTP, Import, ListedPeer, LocalRights, Node, Start, WEBSOCKET};
use nisd::peer::LimitUsage;
use nisd::store::{Store, StoreError};
use sha2::{Digest, Sha256};

use super::Random;
use super::http;
use super::private_network::{NETWORK, TOTAL, address, key_pair};

/// Units of work per tick.
const BUDGET: u32 = 500;
/// Ticks at one point in time after which a node that still wants another one counts as looping forever.
const MAX_TICKS: usize = 1_000_000;
/// How long a request may stay suspended in a replay, and virtual time per step of waiting.
const SUSPEND_TIMEOUT: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(10);
/// Bytes that the client of an event stream has not read yet, from which on the stream waits.
const STREAM_WINDOW: usize = 2 << 10;
/// Address of a client on the same machine.
const LOCAL_CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The recorded effects of a node.
pub struct EffectRecorder {
    now: LoopTime,
    wake_at: Option<Duration>,
    open: BTreeSet<ConnectionId>,
    resumed: BTreeSet<ConnectionId>,
    /// Messages sent to websockets, oldest first.
    pub sent: VecDeque<(ConnectionId, Vec<u8>)>,
    /// Requests to other nodes, oldest first; `None` if the simulation has no other nodes.
    pub outgoing_requests: Option<VecDeque<(FetchId, FetchRequest)>>,
    /// Cancelled requests to other nodes.
    pub cancelled: Vec<FetchId>,
    /// Digest of all effects in order, byte for byte.
    digest: Sha256,
}

impl EffectRecorder {
    fn record(&mut self, kind: u8, connection: u64, bytes: &[&[u8]]) {
        let length: usize = bytes.iter().map(|part| part.len()).sum();
        self.digest.update([kind]);
        self.digest.update(self.now.monotonic.as_nanos().to_le_bytes());
        self.digest.update(connection.to_le_bytes());
        self.digest.update((length as u64).to_le_bytes());
        bytes.iter().for_each(|part| self.digest.update(part));
    }
}

impl Effects for EffectRecorder {
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

    fn fetch(&mut self, id: FetchId, request: FetchRequest) {
        self.record(6, id.0, &[request.target.as_bytes(), &request.body]);
        self.outgoing_requests.as_mut().expect("nobody is there to be asked").push_back((id, request));
    }

    fn cancel(&mut self, fetch: FetchId) {
        self.record(7, fetch.0, &[]);
        self.cancelled.push(fetch);
    }

    fn wake_at(&mut self, running: Duration) {
        self.wake_at = Some(self.wake_at.map_or(running, |at| at.min(running)));
    }
}

/// The clock of a machine: people set it, and it drifts.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    /// Unix time at the start of the node, in milliseconds.
    pub started: i64,
    /// Drift in microseconds per second.
    pub drift: i64,
}

/// A node and its world.
pub struct SimulatedNode<'s> {
    node: Node<'s>,
    pub recorder: EffectRecorder,
    next_connection: u64,
    clock: WallClock,
    /// Requests without an answer so far.
    open_requests: BTreeMap<ConnectionId, OpenRequest>,
    /// Answers not fetched yet.
    answered: BTreeMap<ConnectionId, http::Response>,
}

/// A request and the answer in progress.
struct OpenRequest {
    reader: RequestReader,
    client: Client,
    is_rate_limited: bool,
    response: Response,
    is_resumed: bool,
    body: Vec<u8>,
    /// An event stream, whose client reads the body meanwhile.
    is_endless: bool,
}

impl OpenRequest {
    /// Returns whether it must wait until its client reads on.
    fn is_blocked(&self) -> bool {
        self.is_endless && self.body.len() >= STREAM_WINDOW
    }
}

impl<'s> SimulatedNode<'s> {
    /// Starts a node at a network time.
    pub fn start(store: &'s Store, settings: &'s Settings, time: Timestamp) -> SimulatedNode<'s> {
        let clock = WallClock { started: EPOCH_UNIX_MILLIS + i64::from(time.0) * 1000, drift: 0 };
        let mut node = SimulatedNode::new(store, settings, clock, [1; 32], None, Vec::new()).expect("a node");
        node.run_ticks();
        node
    }

    /// Creates a node that has not had its first tick; it has peers if `known` is given.
    pub fn new(
        store: &'s Store,
        settings: &'s Settings,
        clock: WallClock,
        seed: [u8; 32],
        known: Option<Vec<ListedPeer>>,
        kept: Vec<u8>,
    ) -> Result<SimulatedNode<'s>, StoreError> {
        SimulatedNode::importing(store, settings, clock, seed, known, kept, None)
    }

    /// Like [`SimulatedNode::new`], with an import of blocks.
    pub fn importing(
        store: &'s Store,
        settings: &'s Settings,
        clock: WallClock,
        seed: [u8; 32],
        known: Option<Vec<ListedPeer>>,
        saved: Vec<u8>,
        import: Option<Import<'s>>,
    ) -> Result<SimulatedNode<'s>, StoreError> {
        let now = LoopTime { unix_millis: clock.started, monotonic: Duration::ZERO };
        let local = LocalRights { addresses: settings.http.local.clone(), cookie: None, needs_cookie: false };
        let shared = SharedBytesCounter::default();
        let outgoing_requests = known.is_some().then(VecDeque::new);
        let start = Start { now, seed: &seed, local, shared, import, listed: known.unwrap_or_default(), saved };
        let node = Node::new(store, settings, start)?;
        let recorder = EffectRecorder {
            now,
            wake_at: None,
            open: BTreeSet::new(),
            resumed: BTreeSet::new(),
            sent: VecDeque::new(),
            outgoing_requests,
            cancelled: Vec::new(),
            digest: Sha256::new(),
        };
        let (open_requests, answered) = (BTreeMap::new(), BTreeMap::new());
        Ok(SimulatedNode { node, recorder, next_connection: 1, clock, open_requests, answered })
    }

    /// Returns the network time.
    pub fn time(&self) -> Timestamp {
        Timestamp::from_unix_millis(self.recorder.now.unix_millis)
    }

    /// Advances time; the node gets a tick whenever it asks for one.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.recorder.now.monotonic + time;
        while let Some(at) = self.recorder.wake_at.filter(|at| *at <= end) {
            self.set_time(at.max(self.recorder.now.monotonic));
            self.run_ticks();
        }
        self.set_time(end);
    }

    /// Sets the system clock forwards or backwards, like a user's mistake.
    pub fn shift_clock(&mut self, seconds: i64) {
        self.clock.started += 1000 * seconds;
        self.set_time(self.recorder.now.monotonic);
    }

    /// Returns the digest of all effects so far.
    pub fn digest(&self) -> String {
        hex::encode(self.recorder.digest.clone().finalize())
    }

    /// Sends a request from 127.0.0.1 and waits for the answer.
    pub fn request(&mut self, bytes: &[u8]) -> http::Response {
        let connection = self.submit(LOCAL_CLIENT, bytes, false).expect("a whole request");
        loop {
            if let Some(answered) = self.take_answer(connection) {
                return answered;
            }
            self.run_ticks();
            assert!(self.recorder.resumed.contains(&connection), "a parked request is resumed");
            self.resume();
        }
    }

    /// Accepts a request and processes it until it is answered or suspended. Fails with the status of the answer if it
    /// is rejected before it reaches the node.
    pub fn submit(&mut self, from: IpAddr, bytes: &[u8], is_rate_limited: bool) -> Result<ConnectionId, u16> {
        let mut reader = RequestReader::new(0);
        reader.receive(bytes);
        let whole = reader.advance(|method, path| self.node.route(HTTP, method, path));
        assert!(whole.map_err(|error| error.status)?, "a part of a request");
        let connection = self.connect();
        let (mut client, response, body) = (client_at(HTTP, from), Response::new(), Vec::new());
        client.is_local = reader.request().is_some_and(|request| self.node.is_local(&client, &request));
        let request =
            OpenRequest { reader, client, is_rate_limited, response, is_resumed: false, body, is_endless: false };
        self.work_on(connection, request);
        Ok(connection)
    }

    fn work_on(&mut self, connection: ConnectionId, mut open: OpenRequest) {
        loop {
            let OpenRequest { reader, client, is_rate_limited, response, is_resumed, body, is_endless } = &mut open;
            let request = reader.request().expect("a whole request");
            let (client, is_rate_limited, is_resumed_now) = (*client, *is_rate_limited, *is_resumed);
            let exchange = Exchange {
                connection,
                client,
                request: &request,
                response,
                is_resumed: is_resumed_now,
                is_rate_limited,
            };
            let progress = self.node.handle(Event::Request(exchange), self.recorder.now, &mut self.recorder);
            if response.is_streaming || progress == Progress::Done {
                body.append(&mut response.body);
            }
            if progress == Progress::Done {
                response.is_streaming = false;
                response.body = std::mem::take(body);
                let mut written = Vec::new();
                let (_, shared) = response.write(&request, &mut Gzip::default(), &mut written);
                written.extend_from_slice(shared.as_deref().unwrap_or_default());
                self.recorder.record(5, connection.0, &[&written]);
                self.answered.insert(connection, http::Response::parse(&written).expect("a response"));
                return;
            }
            *is_resumed = true;
            *is_endless = progress == Progress::Streaming;
            if matches!(progress, Progress::Suspended | Progress::Queued | Progress::Streaming) {
                self.open_requests.insert(connection, open);
                return;
            }
        }
    }

    /// Continues requests that the node has resumed.
    pub fn resume(&mut self) {
        for connection in std::mem::take(&mut self.recorder.resumed) {
            if self.open_requests.get(&connection).is_some_and(OpenRequest::is_blocked) {
                self.recorder.resumed.insert(connection);
            } else if let Some(request) = self.open_requests.remove(&connection) {
                self.work_on(connection, request);
            }
        }
    }

    /// Returns the answer to a request once it exists.
    pub fn take_answer(&mut self, connection: ConnectionId) -> Option<http::Response> {
        self.answered.remove(&connection)
    }

    /// Returns what an event stream has sent since the last call; `None` if it has ended.
    pub fn read_stream(&mut self, connection: ConnectionId) -> Option<Vec<u8>> {
        self.open_requests.get_mut(&connection).map(|open| std::mem::take(&mut open.body))
    }

    /// Disconnects a client that waits for an answer.
    pub fn disconnect(&mut self, connection: ConnectionId) {
        self.answered.remove(&connection);
        if self.open_requests.remove(&connection).is_some() {
            self.node.handle(Event::Disconnected { connection }, self.recorder.now, &mut self.recorder);
        }
    }

    /// Completes a request to another node.
    pub fn complete_fetch(&mut self, fetch: FetchId, result: Result<FetchResponse, FetchError>) {
        self.node.handle(Event::FetchCompleted { fetch, result }, self.recorder.now, &mut self.recorder);
    }

    /// Returns the usage of every bounded collection.
    pub fn limit_usage(&self) -> Vec<LimitUsage> {
        self.node.limit_usage()
    }

    /// Returns the peers that the node wants to save now, if any.
    pub fn peers_to_save(&mut self, is_last: bool) -> Option<Vec<u8>> {
        self.node.peers_to_save(self.recorder.now, is_last)
    }

    /// Returns when the node wants a tick, relative to its start.
    pub fn wake_at(&self) -> Option<Duration> {
        self.recorder.wake_at
    }

    /// Sets the uptime.
    pub fn set_running(&mut self, running: Duration) {
        self.set_time(running);
    }

    /// Returns whether the node has rebuilt its store.
    pub fn is_rebuilt(&self) -> bool {
        self.node.is_rebuilt()
    }

    /// Gives the node one tick; `last_tick` is the duration of the previous one.
    pub fn tick(&mut self, last_tick: Duration) {
        self.recorder.wake_at = None;
        self.node.handle(Event::Tick { budget: BUDGET, last_tick }, self.recorder.now, &mut self.recorder);
    }

    /// Sends JSON by POST.
    pub fn post(&mut self, path: &str, json: &str) -> http::Response {
        self.request(http::post(path, json).as_bytes())
    }

    /// Sends a GET.
    pub fn get(&mut self, path: &str) -> http::Response {
        self.request(http::get(path).as_bytes())
    }

    /// Opens a websocket.
    pub fn open(&mut self) -> ConnectionId {
        let socket = self.connect();
        self.recorder.open.insert(socket);
        let opened = Event::WebSocketOpened { socket, client: client_at(WEBSOCKET, LOCAL_CLIENT) };
        self.node.handle(opened, self.recorder.now, &mut self.recorder);
        socket
    }

    /// Sends a message over a websocket.
    pub fn send_message(&mut self, socket: ConnectionId, message: &str) {
        let event = Event::WebSocketMessage { socket, message: message.as_bytes(), is_text: true };
        let mut progress = self.node.handle(event, self.recorder.now, &mut self.recorder);
        while progress != Progress::Done {
            self.run_ticks();
            progress = self.node.handle(Event::WebSocketResumed { socket }, self.recorder.now, &mut self.recorder);
        }
        self.run_ticks();
    }

    fn connect(&mut self) -> ConnectionId {
        self.next_connection += 1;
        ConnectionId(self.next_connection)
    }

    fn set_time(&mut self, running: Duration) {
        let gained = running.as_millis() as i64 * self.clock.drift / 1_000_000;
        let unix_millis = self.clock.started + running.as_millis() as i64 + gained;
        self.recorder.now = LoopTime { unix_millis, monotonic: running };
    }

    /// Gives the node ticks until it wants no more for now.
    fn run_ticks(&mut self) {
        for _ in 0..MAX_TICKS {
            self.tick(Duration::ZERO);
            if self.recorder.wake_at.is_none_or(|at| at > self.recorder.now.monotonic) {
                return;
            }
        }
        panic!("the node has work without end");
    }
}

/// Returns a network with these parameters whose generation hash, and thereby who hits when, is random.
pub fn simulated_network(chain: ChainParameters, random: &mut Random) -> Network {
    Network {
        name: "simulated".to_owned(),
        byte: NETWORK,
        generation_hash: random_hash(random),
        nemesis_signer: address(&key_pair(0)),
        total_amount: Amount::whole(TOTAL),
        chain,
    }
}

/// Returns a random hash.
pub fn random_hash(random: &mut Random) -> Hash256 {
    Hash256(random_bytes(random))
}

/// Returns 32 random bytes.
pub fn random_bytes(random: &mut Random) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.as_chunks_mut().0.iter_mut().for_each(|part| *part = random.next().to_le_bytes());
    bytes
}

/// The answer of another node to a request of this node at a time, or `None`.
pub type Responder<'a> = &'a mut dyn FnMut(&FetchRequest, Duration) -> Option<nisd::net::fetch::Response>;

/// A node in the place of a recorded one: its clock shows the time of the recording, and its own requests to peers get
/// no answer except where the recording has one.
pub struct ReplayedNode<'s> {
    node: SimulatedNode<'s>,
    store: &'s Store,
    settings: &'s Settings,
    /// Unix time at the start of the recording in milliseconds, and time from then to the start of the node.
    began: i64,
    started: Duration,
}

impl<'s> ReplayedNode<'s> {
    /// Starts the node at a time of the recording; fails on a damaged store.
    pub fn start(
        store: &'s Store,
        settings: &'s Settings,
        began: i64,
        started: Duration,
    ) -> Result<ReplayedNode<'s>, StoreError> {
        // Whole milliseconds, so that the clock shows the milliseconds of the recording.
        let started = Duration::from_millis(started.as_millis() as u64);
        let clock = WallClock { started: began + started.as_millis() as i64, drift: 0 };
        let node = SimulatedNode::new(store, settings, clock, [1; 32], Some(Vec::new()), Vec::new())?;
        Ok(ReplayedNode { node, store, settings, began, started })
    }

    fn now(&self) -> Duration {
        self.started + self.node.recorder.now.monotonic
    }

    /// Advances to a time of the recording.
    pub fn run_to(&mut self, time: Duration, answers: Responder<'_>) {
        self.work(answers);
        while self.now() < time {
            let next = self.node.recorder.wake_at.map_or(time, |at| at + self.started);
            let next = next.max(self.now() + Duration::from_millis(1)).min(time);
            self.node.set_running(next - self.started);
            self.work(answers);
        }
    }

    /// Runs the node until nothing is due.
    fn work(&mut self, answers: Responder<'_>) {
        loop {
            self.node.run_ticks();
            let recorder = &mut self.node.recorder;
            let cancelled = std::mem::take(&mut recorder.cancelled);
            let mut sent: Vec<_> = recorder.outgoing_requests.iter_mut().flat_map(std::mem::take).collect();
            sent.retain(|(id, _)| !cancelled.contains(id));
            if sent.is_empty() {
                return;
            }
            for (id, request) in sent {
                let result = match answers(&request, self.now()) {
                    Some(response) => Ok(FetchResponse { from: LOCAL_CLIENT, response }),
                    None => Err(FetchError::Unreachable(io::ErrorKind::ConnectionRefused.into())),
                };
                self.node.complete_fetch(id, result);
            }
        }
    }

    /// Sends a request from 127.0.0.1 and waits for the answer.
    pub fn request(&mut self, bytes: &[u8], answers: Responder<'_>) -> http::Response {
        let connection = self.node.submit(LOCAL_CLIENT, bytes, false).expect("a whole request");
        let until = self.now() + SUSPEND_TIMEOUT;
        loop {
            if let Some(answer) = self.node.take_answer(connection) {
                self.work(answers);
                return answer;
            }
            assert!(self.now() < until, "a suspended request is resumed");
            self.run_to(self.now() + STEP, answers);
            self.node.resume();
        }
    }

    /// Adds blocks to the chain if they make it better, as if the node had fetched them, then restarts the node.
    pub fn add_fetched_blocks(self, blocks: &[Block]) -> ReplayedNode<'s> {
        let (now, time) = (self.now(), self.node.time());
        let ReplayedNode { node, store, settings, began, .. } = self;
        drop(node);
        let common = Height(blocks[0].height.0 - 1);
        let mut branch = CandidateBranch::new(store, &settings.network, common, blocks.to_vec()).expect("a branch");
        let mut stakes = StakeCache::default();
        while branch.step(time, &mut stakes).expect("a store that works").is_none() {}
        ReplayedNode::start(store, settings, began, now).expect("a node")
    }
}

fn client_at(listener: ListenerId, address: IpAddr) -> Client {
    Client::direct(listener, address)
}
