//! This node in the place of a recorded node that answers requests: the node's state machine, driven by function calls
//! instead of sockets. Its own requests to peers get no answer, except where the recording has one.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use nisd::chain::{BlockImporter, CandidateBranch, ImportOptions, ImportProgress};
use nisd::codec::SigningForm;
use nisd::codec::block_file::BlockFile;
use nisd::config::Settings;
use nisd::model::{Block, Height, Timestamp};
use nisd::net::SharedBytesCounter;
use nisd::net::fetch::{FetchError, FetchId, FetchRequest, FetchResponse};
use nisd::net::http::{Gzip, RequestReader, Response};
use nisd::net::service::{
    Client, ConnectionId, Dropped, Effects, Event, Exchange, LoopTime, Message, Progress, Service,
};
use nisd::node::{HTTP, Node, Start};
use nisd::store::{Store, StoreError};

use super::http;

/// Units of work per tick.
const BUDGET: u32 = 500;
/// Largest body of a recorded request.
const BODY_LIMIT: usize = 1 << 20;
/// How long a request may stay suspended.
const SUSPEND_TIMEOUT: Duration = Duration::from_secs(20);
/// Virtual time per step while the test waits.
const STEP: Duration = Duration::from_millis(10);

/// Collects the effects of the node.
#[derive(Default)]
struct EffectCollector {
    wake_at: Option<Duration>,
    resumed: BTreeSet<ConnectionId>,
    fetches: VecDeque<(FetchId, FetchRequest)>,
}

impl Effects for EffectCollector {
    fn send(&mut self, _: ConnectionId, _: Message<'_>) -> Result<(), Dropped> {
        Err(Dropped)
    }

    fn backlog(&self, _: ConnectionId) -> usize {
        0
    }

    fn close(&mut self, _: ConnectionId, _: u16, _: &str) {}

    fn resume(&mut self, connection: ConnectionId) {
        self.resumed.insert(connection);
    }

    fn charge(&mut self, _: ConnectionId, _: u32) {}

    fn fetch(&mut self, id: FetchId, request: FetchRequest) {
        self.fetches.push_back((id, request));
    }

    fn cancel(&mut self, fetch: FetchId) {
        self.fetches.retain(|(id, _)| *id != fetch);
    }

    fn wake_at(&mut self, running: Duration) {
        self.wake_at = Some(self.wake_at.map_or(running, |at| at.min(running)));
    }
}

/// The answer of another node to a request, or `None`.
pub type Responder<'a> = &'a mut dyn FnMut(&FetchRequest, Duration) -> Option<nisd::net::fetch::Response>;

/// A node on a store.
pub struct AnsweringNode<'s> {
    node: Node<'s>,
    effects: EffectCollector,
    store: &'s Store,
    settings: &'s Settings,
    /// Unix time at the start of the recording, in milliseconds.
    began: i64,
    now: Duration,
    connections: u64,
}

impl<'s> AnsweringNode<'s> {
    /// Starts the node at a time of the recording.
    pub fn start(store: &'s Store, settings: &'s Settings, began: i64, now: Duration) -> AnsweringNode<'s> {
        AnsweringNode::try_start(store, settings, began, now).expect("a node")
    }

    /// Like [`AnsweringNode::start`], for a store that may be damaged.
    pub fn try_start(
        store: &'s Store,
        settings: &'s Settings,
        began: i64,
        now: Duration,
    ) -> Result<AnsweringNode<'s>, StoreError> {
        let moment = LoopTime { unix_millis: began + now.as_millis() as i64, monotonic: now };
        let (local, shared) = (settings.http.local.clone(), SharedBytesCounter::default());
        let start =
            Start { now: moment, seed: &[1; 32], local, shared, import: None, known: Vec::new(), kept: Vec::new() };
        let machine = Node::new(store, settings, start)?;
        Ok(AnsweringNode {
            node: machine,
            effects: EffectCollector::default(),
            store,
            settings,
            began,
            now,
            connections: 0,
        })
    }

    fn loop_time(&self) -> LoopTime {
        LoopTime { unix_millis: self.began + self.now.as_millis() as i64, monotonic: self.now }
    }

    /// Advances virtual time to a time of the recording.
    pub fn run_to(&mut self, time: Duration, answers: Responder<'_>) {
        self.work(answers);
        while self.now < time {
            let next = self.effects.wake_at.unwrap_or(time).max(self.now + Duration::from_millis(1));
            self.now = next.min(time);
            self.work(answers);
        }
    }

    /// Runs the node until nothing is due.
    fn work(&mut self, answers: Responder<'_>) {
        loop {
            self.effects.wake_at = None;
            let now = self.loop_time();
            self.node.handle(Event::Tick { budget: BUDGET, last_tick: Duration::ZERO }, now, &mut self.effects);
            while let Some((fetch, request)) = self.effects.fetches.pop_front() {
                let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
                let result = match answers(&request, self.now) {
                    Some(response) => Ok(FetchResponse { from, response }),
                    None => Err(FetchError::Unreachable(io::ErrorKind::ConnectionRefused.into())),
                };
                self.node.handle(Event::FetchCompleted { fetch, result }, now, &mut self.effects);
            }
            if self.effects.wake_at.is_none_or(|at| at > self.now) {
                return;
            }
        }
    }

    /// Sends a request from 127.0.0.1 and waits for the answer.
    pub fn request(&mut self, bytes: &[u8], answers: Responder<'_>) -> http::Response {
        self.connections += 1;
        let connection = ConnectionId(self.connections);
        let caller = Client {
            listener: HTTP,
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            is_forwarded: false,
            is_unidentified: false,
        };
        let mut reader = RequestReader::new(BODY_LIMIT);
        reader.receive(bytes);
        let (mut reply, mut is_resumed, mut body) = (Response::new(), false, Vec::new());
        let until = self.now + SUSPEND_TIMEOUT;
        loop {
            let request = reader.next_request().expect("a request").expect("a whole one");
            let exchange = Exchange {
                connection,
                client: caller,
                request: &request,
                response: &mut reply,
                is_resumed,
                is_rate_limited: false,
            };
            let taken = self.node.handle(Event::Request(exchange), self.loop_time(), &mut self.effects);
            if reply.is_streaming {
                body.append(&mut reply.body);
            }
            if taken == Progress::Done {
                body.append(&mut reply.body);
                reply.is_streaming = false;
                reply.body = body;
                let mut written = Vec::new();
                reply.write(&request, &mut Gzip::default(), &mut written);
                self.work(answers);
                return http::Response::parse(&written).expect("a response");
            }
            is_resumed = true;
            reader.restore_last();
            while matches!(taken, Progress::Suspended | Progress::Streaming)
                && !self.effects.resumed.remove(&connection)
            {
                assert!(self.now < until, "a parked request is resumed");
                self.run_to(self.now + STEP, answers);
            }
        }
    }

    /// Adds blocks to the chain if they make it better, as if the node had fetched them, then restarts the node.
    pub fn add_fetched_blocks(self, blocks: &[Block]) -> AnsweringNode<'s> {
        let AnsweringNode { store, settings, began, now, .. } = self;
        let time = Timestamp::from_unix_millis(began + now.as_millis() as i64);
        drop(self.node);
        let common = Height(blocks[0].height.0 - 1);
        let mut part = CandidateBranch::new(store, &settings.network, common, blocks.to_vec()).expect("a part");
        while part.step(time).expect("a store that works").is_none() {}
        AnsweringNode::start(store, settings, began, now)
    }
}

/// Imports the nemesis block and the blocks above it into a store.
pub fn import_chain(store: &Store, settings: &Settings, nemesis: &[u8], blocks: &[Block]) {
    let mut file = Vec::new();
    for block in blocks {
        let bytes = block.to_bytes(SigningForm::Verifiable);
        file.extend((bytes.len() as u32).to_le_bytes());
        file.extend(bytes);
    }
    let options = ImportOptions { batch_steps: 20_000, batch_blocks: 1_000, stop_at: None, trusted_below: Height(0) };
    let files = vec![BlockFile::new(file.as_slice()).expect("blocks")];
    let mut intake = BlockImporter::new(store, &settings.network, nemesis.to_vec(), files, options).expect("an intake");
    while intake.step(Timestamp(i32::MAX - 100)).expect("valid blocks") != ImportProgress::Done {}
}
