//! The node: a state machine that receives events and returns effects.
//!
//! | module | purpose |
//! |---|---|
//! | [`Node`] | dispatches events to the layers and their effects to the event loop |
//! | [`Beginning`] | a node whose store lacks the nemesis block |
//! | `unconfirmed` | the mempool and its maintenance |
//! | `harvester` | blocks harvested by accounts of this node |
//! | [`Import`] | block import from files while the node runs |
//! | `catching_up` | block download from peers when their chain is far ahead |
//! | `judge` | processing of blocks pulled from or pushed by peers |
//! | `partners` | adapter between the peer layer and the rest of the node |
//! | `desk` | mempool, harvester and chain as the API uses them |
//! | `reorgs` | log lines about replaced blocks and network splits |
//! | `clock_watch`, `trouble` | detection of clock jumps, backoff after store errors |
//! | `figures` | metrics |
//! | `loads` | usage of every bounded collection |
//!
//! Nothing here touches sockets, clocks or the system's randomness: the same code runs in the event loop, in a
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
/// The optional listener that serves only metrics.
pub const METRICS: ListenerId = ListenerId(2);
/// Maximum connections on the metrics listener.
pub const METRICS_CONNECTIONS: usize = 16;
/// Requests per second that a client may make on each listener, if the rate is limited.
pub const REQUESTS_PER_SECOND: usize = 50;
/// Time without a client request after which the node counts as idle.
const ALONE_AFTER: Duration = Duration::from_secs(5);
/// Delay between a shutdown request and the end of the node, so that the request can be answered.
const FAREWELL: Duration = Duration::from_millis(200);
/// Work units of one step of block import, harvesting or block processing. Most steps verify a signature or execute a
/// transaction.
const UNITS_PER_STEP: u32 = 50;
/// Work units of one slice of a request.
const UNITS_PER_SHARE: u32 = 300;

/// Inputs for starting a node.
pub struct Start<'a, 's> {
    /// The current time.
    pub now: Moment,
    /// Random seed from the system.
    pub seed: &'a [u8; 32],
    /// Addresses of clients that count as local, host names resolved.
    pub local: LocalAddresses,
    /// Counts the memory of messages that many connections share.
    pub shared: SharedPool,
    /// Blocks to import.
    pub import: Option<Import<'s>>,
    /// Peers from the operator's list.
    pub known: Vec<KnownPeer>,
    /// The last output of [`Node::peers_to_keep`] from an earlier run; empty if there is none. May be damaged.
    pub kept: Vec<u8>,
}

/// The node's state machine.
pub struct Node<'s> {
    network: &'s Network,
    clock: NetworkClock,
    explorer: Option<Explorer>,
    api: Api,
    broker: Broker,
    height: Height,
    /// Timestamp of the tip.
    tip_time: Timestamp,
    identity: Identity,
    unconfirmed: Unconfirmed,
    harvester: Harvester<'s>,
    judge: Judge<'s>,
    partners: Partners,
    settings: &'s Settings,
    /// Peers from the operator's list, until the node joins its network.
    known: Vec<KnownPeer>,
    /// Reorgs since the start.
    reorgs: Reorgs,
    /// Peer data that survives a restart, and when it was last handed out.
    kept: KeptPeers,
    /// Blocks that this node accepted or harvested, to be relayed.
    passed_on: Vec<Block>,
    import: Option<Import<'s>>,
    catching_up: CatchingUp<'s>,
    /// Connections of announcements that wait for the mempool.
    waiting: BTreeSet<ConnectionId>,
    /// Time of the last client request.
    asked_at: Duration,
    clock_watch: ClockWatch,
    /// Earliest time of the next warning that the chain is ahead of the clock.
    tell_ahead_at: Duration,
    /// Earliest time of the next warning that the clocks of peers differ from this one.
    tell_difference_at: Duration,
    /// Earliest time of the next warning that peers report a time that too few listed peers confirm.
    tell_refused_at: Duration,
    /// Earliest time of the next warning about peers whose chain cannot be followed.
    tell_apart_at: Duration,
    /// Backoff after failed reads of the store.
    reading: Trouble,
    /// Backoff after failed writes of the store.
    writing: Trouble,
    verification: Verification,
    /// Limit for the body of any request, in bytes; from the settings.
    most_body_bytes: usize,
    /// State of the generator behind `next_entropy`.
    entropy: u64,
    randomness: Randomness,
    /// When to shut down, if a client requested it.
    ends_at: Option<Duration>,
    /// The metrics are to be written to the log.
    is_to_log_figures: bool,
    /// Returns the memory usage of the process.
    memory: fn() -> Memory,
    /// Released at the start of each tick, so that the store can reuse old pages.
    reader: Reader<'s>,
}

impl<'s> Node<'s> {
    /// Creates a node on a store that holds at least the nemesis block.
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

    /// Sets the source of the process's memory usage for the metrics; only the event loop can determine it.
    pub fn watch_memory(&mut self, memory: fn() -> Memory) {
        self.memory = memory;
    }

    /// Height of the tip.
    pub fn height(&self) -> Height {
        self.height
    }

    /// The network clock.
    pub fn clock(&self) -> &NetworkClock {
        &self.clock
    }

    /// Requests that the metrics be written to the log at the next tick.
    pub fn log_figures_soon(&mut self) {
        self.is_to_log_figures = true;
    }

    /// Applies changed settings, local addresses, and new peers of the operator's list.
    pub fn change(&mut self, settings: &Settings, local: LocalAddresses, known: Vec<KnownPeer>) {
        self.api.change(api_settings(settings, local));
        self.broker.change(push_settings(settings));
        self.most_body_bytes = settings.limits.body_size;
        match self.partners.has_begun() {
            true => self.partners.know(known),
            false => self.known.extend(known),
        }
    }

    /// Returns a one-line status for the operator.
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

    /// Commits imported and downloaded blocks before the node ends.
    pub fn stop(&mut self) -> Result<(), crate::chain::BlockError> {
        self.catching_up.commit()?;
        self.import.take().map_or(Ok(()), |mut import| import.commit().map(drop))
    }

    /// Returns peer data to store on disk, if it is due. The next start reads the last output and contacts these peers
    /// before it harvests. `is_last`: the node is about to end.
    pub fn peers_to_keep(&mut self, now: Moment, is_last: bool) -> Option<Vec<u8>> {
        let present = self.peer_now(now);
        self.kept.to_write(self.partners.peers()?, present, is_last)
    }

    /// Returns whether a client requested shutdown and the grace period for the response is over.
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

    /// Returns whether an event left work to do.
    fn has_news(&self) -> bool {
        self.unconfirmed.pool.has_arrivals() || self.broker.has_work(!self.unconfirmed.has_work())
    }

    /// Returns whether no client has made a request for [`ALONE_AFTER`] and no websocket session is open.
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
            // Requests for metrics have no body.
            METRICS => 0,
            _ => self.api.body_limit(method, path),
        };
        limit.min(self.most_body_bytes)
    }
}

/// Returns whether an event comes from a client. A binary request comes from a peer, which tolerates delay; a peer that
/// uses JSON counts as a client.
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

/// The explorer page, if it is enabled.
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
