//! Fuzz target: the state machine for peers, with responses of any kind in any order, incoming requests, and time.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

use nisd::codec::{Context, Format, Readable, SigningForm, Writable};
use nisd::crypto::{KeyPair, PrivateKey};
use nisd::ip::Scope;
use nisd::model::network::ChainParameters;
use nisd::model::{Address, Block, BlockKind, Checkpoint, Hash256, Height, NetworkByte, Timestamp};
use nisd::net::fetch::{FetchError, FetchId, FetchRequest, FetchResponse, Response};
use nisd::net::service::ConnectionId;
use nisd::peer::Manager;
use nisd::peer::block_download::NextBlock;
use nisd::peer::io::{Action, LocalChain, Now, OwnTip, Reply, StoreUnreadable};
use nisd::peer::manager::requests::{MAX_BYTES, MAX_IN_FLIGHT, MAX_LATEST};
use nisd::peer::manager::{IpDetection, ListedPeer, PeerSettings, Pusher};
use nisd::peer::time_sync::MAX_FREE_OFFSET;
use nisd::peer::trust::Experience;
use nisd::peer::wire::{
    AuthenticatedRequest, AuthenticatedResponse, ChainRequest, Challenge, CommunicationTimeStamps, Endpoint,
    ExperiencePair, HashChain, Identity, List, MetaData, NodeExperiences, NodeInfo, NodeList, Score, Version,
};
use nisd::rules::{RuleResult, ValidationResult};

/// Maximum steps of a script.
const MAX_STEPS: usize = 400;
/// Number of peers. The last of them is this node itself.
const NODES: usize = 8;
/// Time steps, in milliseconds.
const PAUSES: [u64; 8] = [1, 20, 200, 1_000, 3_000, 11_000, 61_000, 3_601_000];

/// An event of an input. The low half of a byte selects it; the high half, and further bytes, are its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time passes.
    Pass,
    /// The oldest request gets a good response.
    Answer,
    /// A list, blocks or the like with the length in a further byte.
    Long,
    /// The oldest request gets a good response, in which two further bytes select and change one byte.
    Spoilt,
    /// A good response is truncated.
    Cut,
    /// The request selected by a further byte fails.
    Fail,
    /// A peer sends a sign of life.
    SignOfLife,
    Validated,
    Push,
    Block,
    /// Our chain grows.
    Grow,
    /// The store fails, or works again.
    Store,
    /// Downloaded blocks are imported.
    Ahead,
}

impl Event {
    /// All events; an input names one by its index.
    pub const ALL: [Event; 13] = [
        Event::Pass,
        Event::Answer,
        Event::Long,
        Event::Spoilt,
        Event::Cut,
        Event::Fail,
        Event::SignOfLife,
        Event::Validated,
        Event::Push,
        Event::Block,
        Event::Grow,
        Event::Store,
        Event::Ahead,
    ];
}

/// Checks that nothing panics, no limit is exceeded, and no unsent request is completed. Returns the number of tasks
/// that succeeded.
pub fn check(data: &[u8]) -> usize {
    let Some((settings, script)) = data.split_first() else { return 0 };
    let mut scene = Harness::new(*settings);
    let mut script = script.iter().copied();
    for _ in 0..MAX_STEPS {
        let Some(byte) = script.next() else { break };
        let event = Event::ALL[usize::from(byte & 0xf) % Event::ALL.len()];
        scene.apply(event, usize::from(byte >> 4), &mut script);
        scene.world.carry_out(scene.peers.take_actions());
        scene.take_work();
        scene.check_limits();
    }
    scene.peers.timers().iter().map(|timer| timer.successes as usize).sum()
}

struct World {
    format: Format,
    waiting: VecDeque<(FetchId, FetchRequest)>,
    validating: Vec<Address>,
    tip: Option<OwnTip>,
    /// Milliseconds by which network time was shifted.
    shifted: i64,
}

struct Harness {
    peers: Manager,
    world: World,
    now: Duration,
    has_list: bool,
}

fn result(which: usize) -> RuleResult {
    match which % 3 {
        0 => Ok(()),
        1 => Err(ValidationResult::Neutral.into()),
        _ => Err(ValidationResult::FailureChainInvalid.into()),
    }
}

fn pairs() -> &'static [KeyPair] {
    static PAIRS: OnceLock<Vec<KeyPair>> = OnceLock::new();
    PAIRS.get_or_init(|| (0..NODES).map(|node| KeyPair::new(&PrivateKey::from_seed(&[node as u8; 32]))).collect())
}

fn context() -> Context {
    Context { network: NetworkByte::TESTNET, nemesis_signer: address(0), trusted: false }
}

fn ip(node: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(20, node as u8, 1, 1))
}

fn info(node: usize) -> NodeInfo {
    NodeInfo {
        identity: Identity { key: pairs()[node % NODES].public(), name: None },
        endpoint: Endpoint::http(ip(node % NODES).to_string(), 7890),
        meta_data: MetaData {
            version: Version::OWN,
            network_id: MetaData::network_id_of(NetworkByte::TESTNET),
            ..MetaData::default()
        },
    }
}

fn address(node: usize) -> Address {
    Address::from_public_key(&pairs()[node % NODES].public(), NetworkByte::TESTNET)
}

/// Returns consecutive blocks, from height 2 on.
fn chain() -> &'static [Block] {
    static CHAIN: OnceLock<Vec<Block>> = OnceLock::new();
    CHAIN.get_or_init(|| {
        let mut blocks: Vec<Block> = Vec::new();
        for height in 2..=250 {
            let previous = blocks.last().map_or(Hash256([1; 32]), Block::hash);
            blocks.push(block_after(previous, height));
        }
        blocks
    })
}

/// Returns a block on top of the first.
fn block(height: u64) -> Block {
    block_after(Hash256([1; 32]), height)
}

fn block_after(previous: Hash256, height: u64) -> Block {
    let mut block = Block {
        kind: BlockKind::Regular,
        version: 0x9800_0001_u32 as i32,
        timestamp: Timestamp(1),
        signer: pairs()[0].public(),
        signature: None,
        previous_hash: previous.into(),
        height: Height(height),
        transactions: Vec::new(),
    };
    block.signature = Some(pairs()[0].sign(&block.to_bytes(SigningForm::NonVerifiable)));
    block
}

impl Harness {
    fn new(settings: u8) -> Harness {
        let format = if settings & 1 == 0 { Format::Binary } else { Format::Json };
        let detection = [IpDetection::Required, IpDetection::Optional, IpDetection::Disabled, IpDetection::Optional];
        let listed = (0..usize::from(settings >> 4) % NODES).map(|node| match node {
            1 => ListedPeer::Endpoint(info(node).endpoint),
            _ => ListedPeer::Node(info(node)),
        });
        let settings = PeerSettings {
            node_limit: 3,
            time_sync_node_limit: 3,
            connections: usize::MAX,
            format,
            uses_network_time: true,
            ip_detection: detection[usize::from(settings >> 1 & 3)],
            least_scope: Scope::Loopback,
            chain: ChainParameters { rewrite_limit: 5, ..ChainParameters::after_all_forks() },
            far_ahead: 100,
            checkpoint: (settings & 8 != 0).then(|| Checkpoint { height: Height(90), hash: chain()[88].hash() }),
            context: context(),
            listed: listed.collect(),
        };
        let local = info(NODES - 1);
        let keys = Rc::new(KeyPair::new(&PrivateKey::from_seed(&[(NODES - 1) as u8; 32])));
        let tip = OwnTip { height: Height(1), hash: Hash256([1; 32]), signature: None, score: 0 };
        let world = World { format, waiting: VecDeque::new(), validating: Vec::new(), tip: Some(tip), shifted: 0 };
        let has_list = !settings.listed.is_empty();
        Harness {
            peers: Manager::new(local, keys, settings, Box::new(random()), now(Duration::ZERO)),
            world,
            now: Duration::ZERO,
            has_list,
        }
    }

    fn apply(&mut self, event: Event, which: usize, script: &mut impl Iterator<Item = u8>) {
        let time = now(self.now);
        let mut next = || usize::from(script.next().unwrap_or_default());
        match event {
            Event::Pass => {
                self.now += Duration::from_millis(PAUSES[which % PAUSES.len()]);
                self.peers.tick(now(self.now), 1 + which, &self.world);
            }
            Event::Answer => self.answer(which, |_| {}),
            Event::Long => {
                let length = next();
                self.answer(length, |_| {});
            }
            Event::Spoilt => {
                let (place, change) = (next() * 3, next() as u8 | 1);
                self.answer(which, |body| {
                    let place = place.checked_rem(body.len()).unwrap_or(0);
                    body.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= change);
                });
            }
            Event::Cut => {
                let length = next();
                self.answer(which, |body| body.truncate(length));
            }
            Event::Fail => {
                let place = next();
                let call = place.checked_rem(self.world.waiting.len()).and_then(|at| self.world.waiting.remove(at));
                // An id that was never assigned, if no request is open.
                let call = call.map_or(FetchId(u64::MAX), |(call, _)| call);
                let rejected = |status, length| answer(status, vec![which as u8; length], 0);
                let reply = match which % 5 {
                    0 => Err(FetchError::Silent(Duration::from_secs(10))),
                    1 => Err(FetchError::Unreachable(std::io::ErrorKind::ConnectionRefused.into())),
                    2 => Err(FetchError::TooLarge),
                    3 => rejected(503, 0),
                    _ => rejected(500, 300),
                };
                self.peers.on_reply(call, reply, time, &self.world);
            }
            Event::SignOfLife => {
                let from = if which > NODES { ip(0) } else { ip(which % NODES) };
                self.peers.on_sign_of_life(&info(which), from, ConnectionId(which as u64), time);
            }
            Event::Validated => {
                let of = self.world.validating.pop().unwrap_or_else(|| address(which));
                self.peers.on_blocks_validated(&of, &result(which), time);
            }
            Event::Push => {
                let key = pairs()[which % NODES].public();
                self.peers.record_push(&Pusher { key, from: [10, 0, 0, 1].into() }, &result(which), time);
            }
            Event::Block => self.peers.push_block(block(2), time),
            Event::Grow => {
                if let Some(tip) = &mut self.world.tip {
                    (tip.height, tip.score) = (Height(1 + which as u64), which as i128);
                }
            }
            Event::Ahead => self.import_blocks(which, time),
            Event::Store => {
                let tip = OwnTip { height: Height(1), hash: Hash256([1; 32]), signature: None, score: 0 };
                self.world.tip = (which & 1 == 0).then_some(tip);
            }
        }
    }

    /// Imports some of the downloaded blocks, and rejects one of them if it gets that far.
    fn import_blocks(&mut self, most: usize, time: Now) {
        for taken in 0..=most * 4 {
            match self.peers.next_block(time) {
                Some(NextBlock::Block(block)) if taken == 50 => {
                    assert!(block.height.0 > 1);
                    self.peers.end_block_download(Some("it is refused"), time);
                }
                Some(NextBlock::Ended) => self.peers.end_block_download(None, time),
                Some(NextBlock::Block(_) | NextBlock::Working) => {}
                Some(NextBlock::Waiting) | None => break,
            }
        }
    }

    /// Completes the oldest request with a good response for `size`, modified by `change`.
    fn answer(&mut self, size: usize, change: impl FnOnce(&mut Vec<u8>)) {
        let Some((call, request)) = self.world.waiting.pop_front() else { return };
        let to = Some(&request.endpoint);
        let node = (0..NODES).find(|node| info(*node).endpoint.to_connect().as_ref() == to).unwrap_or(0);
        let mut body = self.good_answer(node, &request, size);
        change(&mut body);
        self.peers.on_reply(call, answer(200, body, node), now(self.now), &self.world);
    }

    fn good_answer(&self, node: usize, request: &FetchRequest, size: usize) -> Vec<u8> {
        let hash = |height: u64| Hash256([height as u8; 32]);
        let experience = Experience::new(size as i64, 1);
        match &*request.target {
            "/node/cysm" => self.world.format.to_bytes(&Endpoint::http(ip(NODES - 1).to_string(), 1)),
            "/node/info" => self.signed(node, request, info(node)),
            "/node/peer-list/active" => self.signed(node, request, NodeList((0..size).map(info).collect())),
            "/node/experiences" => {
                let experiences = (0..size).map(|node| ExperiencePair { node: info(node), experience }).collect();
                self.signed(node, request, NodeExperiences { node: info(node), experiences })
            }
            "/chain/height" => self.signed(node, request, Height(1 + size as u64)),
            "/chain/score" => self.signed(node, request, Score(size as i128)),
            "/time-sync/network-time" => {
                let time = now(self.now).network_millis + size as i64 * 100;
                self.signed(node, request, CommunicationTimeStamps { send: time, receive: time })
            }
            "/chain/last-block" if size & 1 != 0 => self.signed(node, request, &chain()[chain().len() - 1]),
            "/chain/last-block" | "/block/at" => self.signed(node, request, block(2)),
            "/chain/hashes-from" if size & 1 != 0 => {
                let first = self.asked::<Height>(request).map_or(1, |height| height.0 as usize);
                let all = std::iter::once(Hash256([1; 32])).chain(chain().iter().map(Block::hash));
                self.signed(node, request, HashChain(all.skip(first - 1).take(45 + size / 16).collect()))
            }
            "/chain/hashes-from" => self.signed(node, request, HashChain((1..=size as u64).map(hash).collect())),
            "/chain/blocks-after" if size & 1 != 0 => {
                let after = self.asked::<ChainRequest>(request).map_or(1, |asked| asked.after.0 as usize);
                let blocks = chain().iter().skip(after - 1).take(size).cloned().collect();
                self.signed(node, request, List::<Block>(blocks))
            }
            "/chain/blocks-after" | "/transactions/unconfirmed" => {
                self.signed(node, request, List((2..size as u64).map(block).collect()))
            }
            _ => Vec::new(),
        }
    }

    /// Returns the entity of a request with a challenge.
    fn asked<T: Readable>(&self, request: &FetchRequest) -> Option<T> {
        let read = self.world.format.read::<AuthenticatedRequest<T>>(&request.body, context());
        read.ok().map(|request| request.entity)
    }

    fn signed(&self, node: usize, request: &FetchRequest, entity: impl Writable) -> Vec<u8> {
        let challenge = match self.world.format {
            Format::Binary => request.body.last_chunk().copied(),
            // The first text of the request with the length of a challenge.
            Format::Json => {
                let text = String::from_utf8_lossy(&request.body);
                let digits = text.split('"').find(|part| part.len() == 128).and_then(|part| hex::decode(part).ok());
                digits.and_then(|bytes| bytes.try_into().ok())
            }
        };
        let signature = Challenge(challenge.unwrap_or([0; 64])).sign(&pairs()[node]);
        self.world.format.to_bytes(&AuthenticatedResponse { entity, signature })
    }

    /// Takes what the peer layer has for the rest of the node.
    fn take_work(&mut self) {
        if let Some(mut fetched) = self.peers.fetched_blocks.take() {
            while fetched.blocks.next(context()).is_some() {}
            self.world.validating = vec![fetched.from];
        }
        while self.peers.next_remote_transaction().is_some() {}
        self.world.shifted += std::mem::take(&mut self.peers.clock_shift);
    }

    fn check_limits(&self) {
        let peers = &self.peers;
        assert_eq!(peers.requests.outstanding().len(), self.world.waiting.len());
        assert!(self.world.waiting.len() <= MAX_IN_FLIGHT);
        assert!(self.world.waiting.iter().map(|(_, request)| request.body.len()).sum::<usize>() <= MAX_BYTES);
        assert!(peers.requests.latest.len() <= MAX_LATEST);
        assert!(peers.table.len() < NODES, "this node is not among the others");
        assert!(self.world.validating.len() <= 1);
        let is_free = self.has_list || self.world.shifted.abs() <= MAX_FREE_OFFSET;
        assert!(is_free, "nodes of no list have moved network time by {} ms", self.world.shifted);
    }
}

fn answer(status: u16, body: Vec<u8>, node: usize) -> Reply {
    Ok(FetchResponse { from: ip(node), response: Response { status, body } })
}

impl World {
    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Fetch(call, request) => self.waiting.push_back((call, request)),
                Action::Cancel(call) => self.waiting.retain(|(waiting, _)| *waiting != call),
                Action::Resume(_) => {}
            }
        }
    }
}

impl LocalChain for World {
    fn tip(&self) -> Result<OwnTip, StoreUnreadable> {
        self.tip.ok_or(StoreUnreadable)
    }

    fn hashes_from(&self, _: Height, _: u64) -> Result<Vec<Hash256>, StoreUnreadable> {
        self.tip.map(|tip| vec![tip.hash]).ok_or(StoreUnreadable)
    }

    fn short_ids(&self) -> Vec<i64> {
        vec![1, -1]
    }

    fn importance(&self, _: &Address) -> Result<f64, StoreUnreadable> {
        self.tip.map(|_| 0.1).ok_or(StoreUnreadable)
    }

    fn important_accounts(&self) -> Result<u64, StoreUnreadable> {
        self.tip.map(|tip| tip.height.0 - 1).ok_or(StoreUnreadable)
    }
}

/// Returns a linear congruential generator.
fn random() -> impl FnMut() -> u64 {
    let mut state: u64 = 1;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    }
}

fn now(running: Duration) -> Now {
    let millis = 1_000_000_000 + running.as_millis() as i64;
    Now { monotonic: running, network: Timestamp((millis / 1_000) as i32), network_millis: millis }
}
