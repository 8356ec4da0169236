//! Simulated peers for tests: requests wait until a test lets the peers answer, each according to its behaviour.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

pub use super::io::Reply;
use super::io::{Action, FetchedBlocks, LocalChain, Now, OwnTip, StoreUnreadable};
use super::manager::{ListedPeer, Manager, PeerSettings, Pusher};
use super::wire::{
    AuthenticatedRequest, AuthenticatedResponse, Challenge, CommunicationTimeStamps, Endpoint, ErrorBody,
    ExperiencePair, HashChain, Identity, List, MetaData, NodeExperiences, NodeInfo, NodeList, Score, Version,
};
use crate::codec::{Format, Writable};
use crate::crypto::{KeyPair, PrivateKey, PublicKey};
use crate::mempool::ShortId;
use crate::model::network::ChainParameters;
use crate::model::{Address, Hash256, Height, Network, NetworkByte, Timestamp, Transaction};
use crate::net::fetch::{self, FetchError, FetchResponse, Response};
pub use crate::net::fetch::{FetchId, FetchRequest};
pub use crate::net::service::ConnectionId;
use crate::rules::{RuleResult, ValidationResult};

pub const FORMAT: Format = Format::Binary;

/// The result of an entity that says nothing about its sender.
pub fn neutral() -> RuleResult {
    Err(ValidationResult::Neutral.into())
}

/// The result of an invalid entity.
pub fn harmful() -> RuleResult {
    Err(ValidationResult::FailureChainInvalid.into())
}

/// Unanswered request.
#[derive(Clone, Debug)]
pub struct Sent {
    pub call: FetchId,
    pub to: Endpoint,
    pub request: FetchRequest,
    pub at: Duration,
}

/// Host that records all actions.
pub struct FakeIo {
    pub waiting: VecDeque<Sent>,
    /// All requests in order: time, destination and path.
    pub history: Vec<(Duration, String, String)>,
    pub now: Duration,
    /// Clients so far, and the answers to those that waited.
    pub clients: u64,
    pub answers: Vec<(ConnectionId, Result<(), String>)>,
    pub fetched: Vec<FetchedBlocks>,
    /// Number of received lists of unconfirmed transactions.
    pub unconfirmed: usize,
    pub tip: Option<OwnTip>,
    pub hashes: Vec<Hash256>,
    pub importances: BTreeMap<Address, f64>,
}

impl FakeIo {
    pub fn new() -> FakeIo {
        let nemesis = Hash256([1; 32]);
        FakeIo {
            waiting: VecDeque::new(),
            history: Vec::new(),
            now: Duration::ZERO,
            clients: 0,
            answers: Vec::new(),
            fetched: Vec::new(),
            unconfirmed: 0,
            tip: Some(OwnTip { height: Height(1), hash: nemesis, signature: None, score: 0 }),
            hashes: vec![nemesis],
            importances: BTreeMap::new(),
        }
    }

    /// Records requests; returns the clients to resume.
    pub fn carry_out(&mut self, actions: Vec<Action>) -> Vec<ConnectionId> {
        let mut resumed = Vec::new();
        for action in actions {
            match action {
                Action::Fetch(call, request) => {
                    let fetch::Endpoint { host, port } = &request.endpoint;
                    let is_v6 = host.contains(':');
                    let to = Endpoint::http(if is_v6 { format!("[{host}]") } else { host.clone() }, *port);
                    self.history.push((self.now, to.to_string(), request.target.clone()));
                    self.waiting.push_back(Sent { call, to, request, at: self.now });
                }
                Action::Cancel(call) => self.waiting.retain(|sent| sent.call != call),
                Action::Resume(client) => resumed.push(client),
            }
        }
        resumed
    }

    /// Returns a new client.
    pub fn new_client(&mut self) -> ConnectionId {
        self.clients += 1;
        ConnectionId(self.clients)
    }
}

pub fn ok(body: Vec<u8>, from: IpAddr) -> Reply {
    Ok(FetchResponse { from, response: Response { status: 200, body } })
}

pub fn status(status: u16, body: Vec<u8>) -> Reply {
    Ok(FetchResponse { from: [10, 0, 0, 1].into(), response: Response { status, body } })
}

pub fn timed_out() -> Reply {
    Err(FetchError::Silent(Duration::from_secs(10)))
}

pub fn unreachable() -> Reply {
    Err(FetchError::Unreachable(std::io::Error::other("refused")))
}

pub fn broken() -> Reply {
    Err(FetchError::TooLarge)
}

impl LocalChain for FakeIo {
    fn tip(&self) -> Result<OwnTip, StoreUnreadable> {
        self.tip.ok_or(StoreUnreadable)
    }

    fn hashes_from(&self, first: Height, most: u64) -> Result<Vec<Hash256>, StoreUnreadable> {
        Ok(self.hashes.iter().skip(first.0 as usize - 1).take(most as usize).copied().collect())
    }

    fn short_ids(&self) -> Vec<ShortId> {
        vec![7]
    }

    fn importance(&self, node: &Address) -> Result<f64, StoreUnreadable> {
        self.tip()?;
        Ok(self.importances.get(node).copied().unwrap_or(0.0))
    }

    fn important_accounts(&self) -> Result<u64, StoreUnreadable> {
        self.tip()?;
        Ok(100)
    }
}

/// Behaviour of a peer.
#[derive(Clone, Debug, PartialEq)]
pub enum Behaviour {
    Good,
    Silent,
    Unreachable,
    Broken,
    Status(u16, Option<&'static str>),
    SignedByAnother,
    OtherIdentity,
    Garbage,
    /// Good, but reports a loopback endpoint.
    KnowsNoAddress,
    /// Good, but does not answer requests to one path.
    SilentAt(&'static str),
}

/// Simulated peer.
pub struct SimulatedPeer {
    pub pair: KeyPair,
    pub info: NodeInfo,
    pub behaviour: Behaviour,
    pub list: Vec<NodeInfo>,
    /// Experiences that it reports.
    pub experiences: Vec<ExperiencePair>,
    pub speaks_for: Option<NodeInfo>,
    pub height: u64,
    pub score: i128,
    /// Block hashes that it sends, whatever is requested.
    pub hashes: Vec<Hash256>,
    /// Hashes of its whole chain, sent as requested, unless empty.
    pub chain: Vec<Hash256>,
    /// Offset of its clock in milliseconds.
    pub ahead: i64,
    /// Host at which it sees this node: at first the one that this node has.
    pub sees: &'static str,
    /// Description that it reports instead of the true one.
    pub reported_info: Option<NodeInfo>,
}

impl SimulatedPeer {
    /// Creates a good peer.
    fn good(number: usize) -> SimulatedPeer {
        SimulatedPeer {
            pair: pair(number),
            info: info(number),
            behaviour: Behaviour::Good,
            list: Vec::new(),
            experiences: Vec::new(),
            speaks_for: None,
            height: 1,
            score: 0,
            hashes: Vec::new(),
            chain: Vec::new(),
            ahead: 0,
            sees: "69.199.8.1",
            reported_info: None,
        }
    }
}

pub fn pair(number: usize) -> KeyPair {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&(number as u64 + 1).to_le_bytes());
    KeyPair::new(&PrivateKey::from_seed(&seed))
}

/// Returns the description of a peer at an address of a separate network.
pub fn info(number: usize) -> NodeInfo {
    let host = format!("{}.{}.8.1", 20 + number / 200, number % 200);
    NodeInfo {
        identity: Identity { key: pair(number).public(), name: Some(format!("node {number}")) },
        endpoint: Endpoint::http(host, 7890),
        meta_data: MetaData {
            version: Version::OWN,
            network_id: MetaData::network_id_of(NetworkByte::TESTNET),
            ..MetaData::default()
        },
    }
}

pub fn address_of(number: usize) -> Address {
    Address::from_public_key(&pair(number).public(), NetworkByte::TESTNET)
}

pub fn ip_of(number: usize) -> IpAddr {
    info(number).endpoint.address().expect("an address")
}

/// Returns a pusher at the peer's address.
pub fn pusher(number: usize) -> Pusher {
    Pusher { key: pair(number).public(), from: ip_of(number) }
}

pub fn settings(known: &[usize]) -> PeerSettings {
    let chain = ChainParameters::after_all_forks();
    let network = Network { byte: NetworkByte::TESTNET, chain, ..Network::example() };
    let listed = known.iter().map(|number| ListedPeer::Node(info(*number))).collect();
    PeerSettings { format: FORMAT, far_ahead: 240, ..PeerSettings::of(&network, listed) }
}

pub const LOCAL: usize = 9_999;

/// The tested state machine among simulated peers.
pub struct Scene {
    pub manager: Manager,
    pub fake: FakeIo,
    pub simulated_peers: Vec<SimulatedPeer>,
    pub now: Duration,
}

impl Scene {
    /// Creates a scene with this many good peers, some of which may be listed.
    pub fn new(settings: PeerSettings, others: usize) -> Scene {
        Scene::seeded(settings, others, 1)
    }

    pub fn seeded(settings: PeerSettings, others: usize, seed: u64) -> Scene {
        let start = at(Duration::ZERO);
        let others = (0..others).map(SimulatedPeer::good);
        Scene {
            manager: Manager::new(info(LOCAL), Rc::new(pair(LOCAL)), settings, Box::new(seeded(seed)), start),
            fake: FakeIo::new(),
            simulated_peers: others.collect(),
            now: Duration::ZERO,
        }
    }

    pub fn now(&self) -> Now {
        at(self.now)
    }

    /// Runs the state machine, and records the actions that it yields.
    pub fn act<T>(&mut self, run: impl FnOnce(&mut Manager, Now, &FakeIo) -> T) -> T {
        self.fake.now = self.now;
        let result = run(&mut self.manager, at(self.now), &self.fake);
        for client in self.fake.carry_out(self.manager.take_actions()) {
            self.fake.answers.extend(self.manager.take_answer(client).map(|answer| (client, answer)));
        }
        self.fake.fetched.extend(self.manager.fetched_blocks.take());
        self.fake.unconfirmed += usize::from(self.manager.remote_mempool.take().is_some());
        result
    }

    /// Handles a sign of life.
    pub fn greet(&mut self, node: &NodeInfo, from: IpAddr) -> Option<Result<(), String>> {
        let client = self.fake.new_client();
        self.act(|manager, now, _| manager.on_sign_of_life(node, from, client, now))
    }

    /// Asks for the largest height of the peers.
    pub fn ask_max_height(&mut self) -> Option<Height> {
        let client = self.fake.new_client();
        self.act(|manager, now, _| manager.max_chain_height(client, now))
    }

    pub fn tick(&mut self) {
        self.act(|manager, now, fake| manager.tick(now, 1_000, fake));
    }

    /// Answers the oldest waiting request according to the peer's behaviour.
    pub fn answer_one(&mut self) -> bool {
        let Some(sent) = self.fake.waiting.pop_front() else { return false };
        let reply = self.reply(&sent);
        self.end(sent.call, reply);
        true
    }

    /// Ends a request with a given reply.
    pub fn end(&mut self, call: FetchId, response: Reply) {
        self.act(|manager, now, fake| manager.on_reply(call, response, now, fake));
    }

    /// Answers all requests and those that follow, except to silent peers.
    pub fn answer_all(&mut self) {
        for _ in 0..10_000 {
            let is_silent = |sent: &Sent| matches!(self.reply(sent), Err(FetchError::Silent(_)));
            let Some(place) = self.fake.waiting.iter().position(|sent| !is_silent(sent)) else { return };
            let sent = self.fake.waiting.remove(place).expect("a request");
            let reply = self.reply(&sent);
            self.end(sent.call, reply);
        }
        panic!("it never ends");
    }

    /// Advances time; requests are answered at once, except to silent peers, which time out after ten seconds.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.tick();
            self.answer_all();
            let given_up = self.fake.waiting.front().map(|sent| sent.at + Duration::from_secs(10));
            if let Some(sent) = self.fake.waiting.front().filter(|_| given_up.is_some_and(|end| end <= self.now)) {
                let call = sent.call;
                self.fake.waiting.pop_front();
                self.end(call, timed_out());
                continue;
            }
            let next = [self.manager.next_due(), given_up].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
        }
        self.now = end;
    }

    pub fn run_seconds(&mut self, seconds: u64) {
        self.run(Duration::from_secs(seconds));
    }

    /// Returns the numbers of the peers that were sent requests to a path.
    pub fn asked(&self, path: &str) -> Vec<usize> {
        let asked = self.fake.history.iter().filter(|(_, _, other)| *other == path);
        asked
            .filter_map(|(_, to, _)| {
                self.simulated_peers.iter().position(|other| other.info.endpoint.to_string() == *to)
            })
            .collect()
    }

    /// Returns a peer's known endpoint.
    pub fn place(&self, number: usize) -> Option<Endpoint> {
        self.manager.table.get(&address_of(number)).map(|peer| peer.info.endpoint.clone())
    }

    /// Adds a relay at another endpoint that forwards all requests to a peer and returns the peer's answers as its own.
    pub fn relay(&mut self, number: usize, endpoint: Endpoint) -> usize {
        let info = NodeInfo { endpoint, ..info(number) };
        self.simulated_peers.push(SimulatedPeer { pair: pair(number), info, ..SimulatedPeer::good(number) });
        self.simulated_peers.len() - 1
    }

    pub fn state(&self, number: usize) -> Option<super::peer_entry::State> {
        self.manager.table.get(&address_of(number)).map(|peer| peer.state)
    }

    /// Returns a peer's trust, if it has any.
    pub fn trust(&self, number: usize) -> Option<f64> {
        let node = address_of(number);
        self.manager.table.get(&node).and_then(|_| self.manager.trust.values.of(&node))
    }

    pub fn experience(&self, number: usize) -> (u64, u64) {
        let node = address_of(number);
        assert!(self.manager.table.get(&node).is_some(), "a node");
        let experience = self.manager.experience(&node);
        (experience.successes, experience.failures)
    }

    /// Returns a peer's reply to a request.
    pub fn reply(&self, sent: &Sent) -> Reply {
        let Some(other) = self.simulated_peers.iter().find(|other| other.info.endpoint == sent.to) else {
            return unreachable();
        };
        let from = other.info.endpoint.address().expect("an address");
        let body = match &other.behaviour {
            Behaviour::Silent => return timed_out(),
            Behaviour::SilentAt(path) if *path == sent.request.target => return timed_out(),
            Behaviour::Unreachable => return unreachable(),
            Behaviour::Broken => return broken(),
            Behaviour::Status(code, message) => {
                let body = FORMAT.to_bytes(&ErrorBody::new(*code, *message, Timestamp(1)));
                return status(*code, body);
            }
            Behaviour::Garbage => vec![1, 2, 3],
            _ => self.good_answer(other, &sent.request),
        };
        ok(body, from)
    }

    fn good_answer(&self, other: &SimulatedPeer, request: &FetchRequest) -> Vec<u8> {
        let info = match other.behaviour {
            Behaviour::OtherIdentity => info(5_555),
            Behaviour::KnowsNoAddress => NodeInfo { endpoint: Endpoint::http("127.0.0.1", 7890), ..other.info.clone() },
            _ => other.reported_info.clone().unwrap_or_else(|| other.info.clone()),
        };
        let remote = at(self.now).network_millis + other.ahead;
        match &*request.target {
            "/node/cysm" => FORMAT.to_bytes(&Endpoint::http(other.sees, 1)),
            "/node/info" => signed(other, request, info),
            "/node/peer-list/active" => signed(other, request, NodeList(other.list.clone())),
            "/node/experiences" => {
                let node = other.speaks_for.clone().unwrap_or(info);
                signed(other, request, NodeExperiences { node, experiences: other.experiences.clone() })
            }
            "/chain/height" => signed(other, request, Height(other.height)),
            "/chain/hashes-from" if !other.chain.is_empty() => {
                let asked = FORMAT.read::<AuthenticatedRequest<Height>>(&request.body, settings(&[]).context);
                let first = asked.expect("a height").entity.0 as usize;
                signed(other, request, HashChain(other.chain.iter().skip(first - 1).copied().collect()))
            }
            "/chain/hashes-from" => signed(other, request, HashChain(other.hashes.clone())),
            "/chain/score" => signed(other, request, Score(other.score)),
            "/time-sync/network-time" => {
                signed(other, request, CommunicationTimeStamps { send: remote, receive: remote })
            }
            "/transactions/unconfirmed" => signed(other, request, List::<Transaction>(Vec::new())),
            _ => Vec::new(),
        }
    }
}

/// Returns a peer's answer with the signature of the challenge that ends the request.
pub fn signed(other: &SimulatedPeer, request: &FetchRequest, entity: impl Writable) -> Vec<u8> {
    let bytes = request.body.last_chunk::<64>().expect("a challenge");
    let signature = match other.behaviour {
        Behaviour::SignedByAnother => Challenge(*bytes).sign(&pair(5_555)),
        _ => Challenge(*bytes).sign(&other.pair),
    };
    FORMAT.to_bytes(&AuthenticatedResponse { entity, signature })
}

/// Returns the present at this time since the start of the node.
pub fn at(running: Duration) -> Now {
    let millis = 1_000_000_000 + running.as_millis() as i64;
    Now { monotonic: running, network: Timestamp((millis / 1_000) as i32), network_millis: millis }
}

/// Returns a splitmix64 generator.
pub fn seeded(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Returns an address for each number.
pub fn address(number: usize) -> Address {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&number.to_le_bytes());
    Address::from_public_key(&PublicKey(key), NetworkByte::TESTNET)
}
