//! A node: the machine that is handed what happens and says what is to be done.
//!
//! | part | what it does |
//! |---|---|
//! | [`Node`] | hands events to the rooms, and what they want to the loop |
//! | [`Beginning`] | a node that waits for the nemesis block |
//! | `unconfirmed` | the pool and its upkeep |
//! | `harvester` | blocks of accounts that harvest on this node |
//! | [`Import`] | blocks of files, taken in while the node runs |
//! | `catching_up` | blocks of a chain that is far ahead, as they come from other nodes |
//! | `judge` | blocks of other nodes on their way into the chain |
//! | `partners` | other nodes: what their room wants done |
//! | `desk` | pool and harvester as the interfaces use them |
//! | `reorgs` | what is said of blocks that were replaced |
//! | `clock_watch`, `trouble` | clocks that jump, stores that fail |
//! | `figures` | what those see who watch the node |
//! | `loads` | how much is held of what others can make grow |
//!
//! Nothing here touches sockets, clocks or the system's randomness: the same machine runs in the event loop, in a
//! simulation and under a fuzzer.

mod answering;
mod beginning;
mod catching_up;
mod clock_watch;
mod desk;
mod figures;
mod harvester;
mod identity;
mod import;
mod judge;
mod loads;
mod others;
mod partners;
mod randomness;
mod reorgs;
mod teller;
mod trouble;
mod turn;
mod unconfirmed;
mod verification;

use std::collections::BTreeSet;
use std::time::Duration;

pub use self::beginning::Beginning;
pub use self::figures::Memory;
pub use self::import::{BATCH, Import};
pub use crate::peer::KnownPeer;
pub use crate::peer::kept_peers::MAX_BYTES as MAX_KEPT_BYTES;

use self::catching_up::CatchingUp;
use self::clock_watch::ClockWatch;
use self::desk::Desk;
use self::harvester::Harvester;
use self::identity::Identity;
use self::judge::Judge;
use self::partners::{Means, Partners};
use self::randomness::Randomness;
use self::trouble::Trouble;
use self::unconfirmed::Unconfirmed;
use self::verification::Verification;
use crate::api::{self, Api, NodeStatus};
use crate::chain::Reorgs;
use crate::clock::NetworkClock;
use crate::codec::{Context, Format};
use crate::config;
use crate::config::{LocalAddresses, Settings};
use crate::crypto::PrivateKey;
use crate::explorer::{self, Explorer};
use crate::model::{Block, Height, Network, Timestamp};
use crate::net::SharedPool;
use crate::net::machine::{ConnectionId, Effects, Event, ListenerId, Machine, Moment, Taken};
use crate::peer::attempt::far_ahead;
use crate::peer::{IpDetection, KeptPeers, PeerSettings, wire};
use crate::pool::Confirmed;
use crate::push::{self, Broker, Present};
use crate::store::{Reader, Store, StoreError, tip};

/// The listener of the HTTP interface.
pub const HTTP: ListenerId = ListenerId(0);
/// The listener of the websocket interface.
pub const WEBSOCKET: ListenerId = ListenerId(1);
/// The listener for the figures alone, if there is one.
pub const METRICS: ListenerId = ListenerId(2);
/// Connections that it has at most.
pub const METRICS_CONNECTIONS: usize = 16;
/// Requests that a caller may make in a second on each of them, if their rate is limited.
pub const REQUESTS_PER_SECOND: usize = 50;
/// How long no client has asked anything of a node that is alone.
const ALONE_AFTER: Duration = Duration::from_secs(5);
/// From a request to end the node to its end, so that it can be answered.
const FAREWELL: Duration = Duration::from_millis(200);
/// Units that a step of an intake, of harvesting or of judging blocks costs: most of them verify a signature or carry out a
/// transaction.
const UNITS_PER_STEP: u32 = 50;
/// Units of work for one share of a request.
const UNITS_PER_SHARE: u32 = 300;

/// What a node begins with.
pub struct Start<'a, 's> {
    /// The present.
    pub now: Moment,
    /// Randomness from the system.
    pub seed: &'a [u8; 32],
    /// Callers that count as local, host names resolved.
    pub local: LocalAddresses,
    /// Counts what is sent to many.
    pub shared: SharedPool,
    /// Blocks to take in.
    pub import: Option<Import<'s>>,
    /// Nodes of the operator's list.
    pub known: Vec<KnownPeer>,
    /// What [`Node::peers_to_keep`] has handed out last before the node was started; nothing if there is none. It may be
    /// damaged.
    pub kept: Vec<u8>,
}

/// The machine.
pub struct Node<'s> {
    network: &'s Network,
    clock: NetworkClock,
    explorer: Option<Explorer>,
    api: Api,
    broker: Broker,
    height: Height,
    /// Time of the last block.
    tip_time: Timestamp,
    identity: Identity,
    unconfirmed: Unconfirmed,
    harvester: Harvester<'s>,
    judge: Judge<'s>,
    partners: Partners,
    settings: &'s Settings,
    /// Nodes of the operator's list, until this one joins its network.
    known: Vec<KnownPeer>,
    /// Changes of the chain that have replaced blocks.
    reorgs: Reorgs,
    /// What of other nodes is to be kept over a restart, and when it was handed out.
    kept: KeptPeers,
    /// Blocks that have come into the chain here, and are to be passed on.
    passed_on: Vec<Block>,
    import: Option<Import<'s>>,
    catching_up: CatchingUp<'s>,
    /// Announcements that wait for the pool.
    waiting: BTreeSet<ConnectionId>,
    /// When a client last asked something of this node.
    asked_at: Duration,
    clock_watch: ClockWatch,
    /// When the operator is told again that the chain is ahead of the clock.
    tell_ahead_at: Duration,
    /// When the operator is told again that other nodes have another time.
    tell_difference_at: Duration,
    /// When the operator is told again that listed nodes do not agree on a time that others tell.
    tell_refused_at: Duration,
    /// When the operator is told again of nodes whose chain cannot be followed.
    tell_apart_at: Duration,
    /// The store fails to show what is committed.
    reading: Trouble,
    /// It fails to take more.
    writing: Trouble,
    verification: Verification,
    /// Bytes of any body at most, by the settings.
    most_body_bytes: usize,
    /// Fresh each time it is asked for.
    entropy: u64,
    randomness: Randomness,
    /// When the node is to end, if somebody has asked for it.
    ends_at: Option<Duration>,
    /// Whether figures are to be written to the log.
    is_to_log_figures: bool,
    /// Tells how much memory the process has.
    memory: fn() -> Memory,
    /// Released at the beginning of each turn, so that the store can use old pages again.
    reader: Reader<'s>,
}

impl<'s> Node<'s> {
    /// A node on a store that holds at least the nemesis block.
    pub fn new(store: &'s Store, settings: &'s Settings, start: Start<'_, 's>) -> Result<Node<'s>, StoreError> {
        let Start { now, seed, local, shared, import, known, kept } = start;
        let clock = NetworkClock::new(settings.clock, now.running.as_millis() as u64);
        let time = clock.now(now.unix_millis, now.running.as_millis() as u64);
        let mut randomness = Randomness::new(seed);
        let identity = Identity::new(settings, PrivateKey::from_seed(&randomness.draw()), time);
        let snapshot = store.snapshot()?;
        let tip = tip(&snapshot)?.ok_or(StoreError::Empty)?;
        let network = &settings.network;
        let confirmed = Confirmed { snapshot: &snapshot, network, height: tip.height, now: time };
        let mut harvester = Harvester::new(store, settings);
        if identity.is_booted {
            harvester.unlock_configured(None, &confirmed)?;
        }
        let entropy = randomness.draw();
        let (entropy, _) = entropy.split_first_chunk().unwrap_or((&[0; 8], &[]));
        let entropy = u64::from_le_bytes(*entropy);
        Ok(Node {
            network,
            clock,
            explorer: explorer(settings),
            api: Api::new(api_settings(settings, local)),
            broker: Broker::new(push_settings(settings), network.byte, shared),
            height: tip.height,
            tip_time: tip.timestamp,
            identity,
            unconfirmed: Unconfirmed::default(),
            harvester,
            judge: Judge::new(store, network),
            partners: Partners::default(),
            settings,
            known,
            reorgs: Reorgs::default(),
            kept: KeptPeers::read(&kept),
            passed_on: Vec::new(),
            import,
            catching_up: CatchingUp::new(store),
            waiting: BTreeSet::new(),
            asked_at: now.running,
            clock_watch: ClockWatch::new(now),
            tell_ahead_at: Duration::ZERO,
            tell_difference_at: Duration::ZERO,
            tell_refused_at: Duration::ZERO,
            tell_apart_at: Duration::ZERO,
            reading: Trouble::default(),
            writing: Trouble::default(),
            verification: Verification::new(now.running),
            most_body_bytes: settings.limits.body_size,
            entropy,
            randomness,
            ends_at: None,
            is_to_log_figures: false,
            memory: Memory::default,
            reader: Reader::new(store),
        })
    }

    /// Has the figures tell how much memory the process has, which only the loop can find out.
    pub fn watch_memory(&mut self, memory: fn() -> Memory) {
        self.memory = memory;
    }

    /// Height of the last committed block.
    pub fn height(&self) -> Height {
        self.height
    }

    /// The network's clock.
    pub fn clock(&self) -> &NetworkClock {
        &self.clock
    }

    /// Has the figures written to the log at the next turn.
    pub fn log_figures_soon(&mut self) {
        self.is_to_log_figures = true;
    }

    /// Takes over settings that have changed, who counts as local, and nodes that are new on the operator's list.
    pub fn change(&mut self, settings: &Settings, local: LocalAddresses, known: Vec<KnownPeer>) {
        self.api.change(api_settings(settings, local));
        self.broker.change(push_settings(settings));
        self.most_body_bytes = settings.limits.body_size;
        match self.partners.has_begun() {
            true => self.partners.know(known),
            false => self.known.extend(known),
        }
    }

    /// What it does, in a line for a person.
    pub fn occupation(&self) -> String {
        let doing = match (&self.import, self.status()) {
            (Some(_), _) => "takes in blocks of files",
            (None, NodeStatus::Running) => "not booted",
            (None, NodeStatus::Booting) => "joins its network",
            (None, NodeStatus::Booted) => "synchronises",
            (None, NodeStatus::NoRemoteNode) => "without other nodes",
            (None, _) => "in step",
        };
        format!("height {}, {doing}", self.height)
    }

    /// Commits what was taken in, before the node ends.
    pub fn stop(&mut self) -> Result<(), crate::chain::BlockError> {
        self.catching_up.commit()?;
        self.import.take().map_or(Ok(()), |mut import| import.commit().map(drop))
    }

    /// What is known of other nodes, if it is to be kept now: the next start is handed the last that was handed out, and
    /// asks these nodes before it harvests. `is_last` when the node is about to end.
    pub fn peers_to_keep(&mut self, now: Moment, is_last: bool) -> Option<Vec<u8>> {
        let present = self.peer_now(now);
        self.kept.to_write(self.partners.peers()?, present, is_last)
    }

    /// Whether somebody has asked the node to end, and has been answered.
    pub fn is_to_end(&self, now: Moment) -> bool {
        self.ends_at.is_some_and(|end| now.running >= end)
    }

    /// Network time.
    fn time(&self, now: Moment) -> Timestamp {
        self.clock.now(now.unix_millis, now.running.as_millis() as u64)
    }

    fn present(&self, now: Moment) -> Present {
        Present { running: now.running, network: self.time(now) }
    }

    /// Whether an event has left something to be worked on.
    fn has_news(&self) -> bool {
        self.unconfirmed.pool.has_arrivals() || self.broker.has_work(!self.unconfirmed.has_work())
    }

    /// Whether no client has asked anything for a while, and none is connected that would be told of anything.
    fn is_alone(&self, now: Moment) -> bool {
        now.running.saturating_sub(self.asked_at) > ALONE_AFTER && !self.broker.has_sessions()
    }

    fn status(&self) -> NodeStatus {
        match self.partners.peers() {
            _ if !self.identity.is_booted => NodeStatus::Running,
            _ if !self.partners.have_joined() => NodeStatus::Booting,
            Some(peers) if peers.has_active_node() && peers.is_synchronised() => NodeStatus::Synchronized,
            Some(peers) if peers.has_active_node() => NodeStatus::Booted,
            _ => NodeStatus::NoRemoteNode,
        }
    }
}

impl Machine for Node<'_> {
    fn handle(&mut self, event: Event<'_>, now: Moment, effects: &mut dyn Effects) -> Taken {
        if comes_from_client(&event) {
            self.asked_at = now.running;
        }
        let taken = match event {
            Event::Request(exchange) => self.request(exchange, now, effects),
            Event::Heard { socket, message, is_text } => {
                self.broker.heard(socket, message, is_text, self.present(now), effects)
            }
            Event::Resumed { socket } => self.broker.resumed(socket, self.present(now), effects),
            Event::Opened { socket, caller } => {
                self.broker.open(socket, &caller, now.running, effects);
                Taken::Done
            }
            Event::Gone { connection } => {
                self.gone(connection, now, effects);
                Taken::Done
            }
            Event::Fetched { fetch, result } => {
                self.fetched(fetch, result, now, effects);
                Taken::Done
            }
            Event::Turn { budget, took } => {
                self.turn(budget, took, now, effects);
                return Taken::Done;
            }
        };
        if self.has_news() {
            effects.wake_at(now.running);
        } else if let Some(due) = self.broker.next_due() {
            effects.wake_at(due);
        }
        taken
    }

    fn body_limit(&self, listener: ListenerId, method: &str, path: &str) -> usize {
        let limit = match listener {
            WEBSOCKET => push::http::body_limit(path),
            // Nobody who asks for figures sends anything.
            METRICS => 0,
            _ => self.api.body_limit(method, path),
        };
        limit.min(self.most_body_bytes)
    }
}

/// Whether a client asks, and not another node, which sends binary and has time.
fn comes_from_client(event: &Event<'_>) -> bool {
    match event {
        Event::Request(exchange) => exchange.request.header("content-type") != Some(Format::Binary.media_type()),
        event => matches!(event, Event::Heard { .. }),
    }
}

fn peer_settings(settings: &Settings, known: Vec<KnownPeer>) -> PeerSettings {
    let peers = &settings.peers;
    PeerSettings {
        node_limit: peers.node_limit,
        time_sync_node_limit: peers.time_sync_node_limit,
        format: if peers.binary_transport { Format::Binary } else { Format::Json },
        uses_network_time: peers.use_network_time,
        ip_detection: match peers.ip_detection {
            config::IpDetection::AutoRequired => IpDetection::Required,
            config::IpDetection::AutoOptional => IpDetection::Optional,
            config::IpDetection::Disabled => IpDetection::Disabled,
        },
        chain: settings.network.chain.clone(),
        far_ahead: far_ahead(&settings.network.chain),
        checkpoint: peers.checkpoint,
        context: Context::of(&settings.network),
        known,
    }
}

fn api_settings(settings: &Settings, local: LocalAddresses) -> api::Settings {
    api::Settings {
        context_path: settings.http.context.clone(),
        compress: settings.http.gzip,
        features: settings.features,
        is_local: Box::new(move |caller| local.contains(caller)),
        host_names: settings.host_names.clone(),
        local_origins: settings.local_origins.clone(),
        allowed_harvesters: settings.allowed_harvesters.clone(),
        forgets_hashes: settings.forgets_hashes,
        unaudited_paths: settings.peers.unaudited_paths.clone(),
        pushed_bytes: wire::limits::pushed(&settings.network.chain, Format::Binary),
        ipv6_prefix: settings.limits.ipv6_prefix_length,
        metrics_listener: METRICS,
    }
}

/// The page for people, if it is wanted.
fn explorer(settings: &Settings) -> Option<Explorer> {
    settings.http.explorer.then(|| {
        Explorer::new(explorer::Settings {
            context_path: settings.http.context.clone(),
            http_port: settings.http.port,
            websocket_port: settings.websocket.port,
            network_byte: settings.network.byte.0,
            target_seconds: settings.network.chain.target_time,
        })
    })
}

fn push_settings(settings: &Settings) -> push::Settings {
    let (websocket, limits) = (&settings.websocket, &settings.limits);
    push::Settings {
        blocks_new: websocket.blocks_new_body,
        register_on_subscribe: websocket.register_on_subscribe,
        implicit_subscription: websocket.implicit_subscription,
        forgiving: websocket.forgiving_stomp,
        limits: push::Limits {
            sessions: limits.websocket_connections,
            subscriptions_per_session: limits.subscriptions,
            addresses_per_session: limits.registered_addresses,
            ipv6_prefix: limits.ipv6_prefix_length,
            ..push::Limits::default()
        },
    }
}
