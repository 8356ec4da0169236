//! The node: a state machine that receives events and returns effects.
//!
//! | module | purpose |
//! |---|---|
//! | [`Node`] | dispatches events to the layers and their effects to the event loop |
//! | `harvester` | blocks harvested by accounts of this node |
//! | [`Import`] | block import while the node runs: from files, or from peers whose chain is far ahead |
//! | `block_processor` | processing of blocks that were pulled from or pushed by peers, or harvested here |
//! | `peers` | what the peer layer reads, its effects, and its work for the rest of the node |
//! | `requests` | dispatches requests, with the parts of the node that handlers use |
//! | `warnings` | clock jumps, reorgs and network splits, as the operator sees them |
//! | `store_health` | backoff after store errors, verification of stored rows |
//! | `metrics` | metrics, usage of every bounded collection |
//!
//! Nothing here touches sockets, clocks or the system's randomness: the same code runs in the event loop, in a
//! simulation and under a fuzzer.

mod block_processor;
mod harvester;
mod import;
mod metrics;
mod peers;
mod read_ahead;
mod requests;
mod store_health;
mod tick;
mod warnings;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

pub use self::import::{BlockProgress, Import};
pub use self::metrics::{Memory, metrics_documentation};
pub use self::peers::node_importance;
pub use self::read_ahead::{AheadKind, AheadWork, ReadAhead, SMALL_STORE, Waiting};
pub use crate::peer::ListedPeer;
pub use crate::peer::saved_peers::MAX_BYTES as MAX_SAVED_BYTES;

use self::block_processor::BlockProcessor;
use self::harvester::Harvester;
use self::peers::Identity;
use self::store_health::{StoreBackoff, Verification};
use self::tick::TickPart;
use self::warnings::{ClockMonitor, WarningTimes};
use crate::api::{self, Api, EventFeed, Explorer, NodeStatus};
use crate::budget::Budget;
use crate::chain::{ChainSnapshot, ConfirmedBlock, ImportError, ReorgLog};
use crate::clock::NetworkClock;
use crate::codec::Format;
use crate::config::Settings;
use crate::crypto::{PrivateKey, Randomness};
use crate::ip::LocalAddresses;
use crate::local_cookie::LocalCookie;
use crate::mempool::Mempool;
use crate::model::{Block, Height, Network, Timestamp};
use crate::net::SharedBytesCounter;
use crate::net::http::{MatchedRoute, Request};
use crate::net::service::{Client, ConnectionId, Effects, Event, ListenerId, LoopTime, Progress, Service};
use crate::peer::io::Now;
use crate::peer::{IpDetection, Manager, PeerSettings, SavedPeers, wire};
use crate::store::{SnapshotCache, Store, StoreError, tip};
use crate::websocket_api::{self, Broker};

/// The listener of the HTTP interface.
pub const HTTP: ListenerId = ListenerId(0);
/// The listener of the websocket interface.
pub const WEBSOCKET: ListenerId = ListenerId(1);
/// The optional listener that serves only metrics.
pub const METRICS: ListenerId = ListenerId(2);
/// Requests per second that a client may make on each listener, if the rate is limited.
pub const REQUESTS_PER_SECOND: usize = 50;
/// Time without a client request after which the node counts as idle.
const IDLE_AFTER: Duration = Duration::from_secs(5);
/// Delay between a shutdown request and the end of the node, so that the request can be answered.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(200);
/// Work units of one step of block import, harvesting or block processing. Most steps verify a signature or execute a
/// transaction.
const UNITS_PER_STEP: u32 = 50;
/// Work units of one slice of a request.
const UNITS_PER_SLICE: u32 = 300;

/// What gives clients local access.
#[derive(Clone, Debug)]
pub struct LocalRights {
    /// Addresses of clients that may have it, host names resolved.
    pub addresses: LocalAddresses,
    /// The secret that gives it to their requests; none if only the address does.
    pub cookie: Option<LocalCookie>,
    /// Whether it needs the secret; if not, the address suffices (`nisd.localAccess = address`).
    pub needs_cookie: bool,
}

/// Inputs for starting a node.
pub struct Start<'a, 's> {
    /// The current time.
    pub now: LoopTime,
    /// Random seed from the system.
    pub seed: &'a [u8; 32],
    /// What gives clients local access.
    pub local: LocalRights,
    /// Counts the memory of messages that many connections share.
    pub shared: SharedBytesCounter,
    /// Blocks to import.
    pub import: Option<Import<'s>>,
    /// Peers from the operator's list.
    pub listed: Vec<ListedPeer>,
    /// The last output of [`Node::peers_to_save`] from an earlier run; empty if there is none. May be damaged.
    pub saved: Vec<u8>,
}

/// The node's state machine.
pub struct Node<'s> {
    chain: NodeChain<'s>,
    /// The network clock.
    pub clock: NetworkClock,
    api: Api,
    broker: Broker,
    /// Timestamp of the tip.
    tip_time: Timestamp,
    /// Changes of the chain of which the event streams do not know yet: the last common block, and the undone blocks.
    unread_changes: VecDeque<(Height, Vec<ConfirmedBlock>)>,
    identity: Identity,
    mempool: Mempool,
    /// Number of transactions of replaced blocks that were found to be invalid since, and not logged yet.
    invalid_returned: u64,
    harvester: Harvester<'s>,
    block_processor: BlockProcessor<'s>,
    /// The peer layer, once the node starts to join its network.
    peers: Option<Manager>,
    settings: &'s Settings,
    /// Peers from the operator's list, until the node joins its network.
    listed: Vec<ListedPeer>,
    /// Reorgs since the start.
    reorgs: ReorgLog,
    /// What the event streams share.
    events: EventFeed,
    /// Peer data that survives a restart, and when it was last handed out.
    saved: SavedPeers,
    /// Blocks that this node accepted or harvested, to be relayed.
    relay_queue: Vec<Block>,
    /// The import of blocks from files or of a rebuild, or of a download whose first block has arrived.
    import: Option<Import<'s>>,
    /// Height at which the rebuild of the store ends, if the node runs for that alone.
    rebuild_target: Option<Height>,
    /// Why the rebuild has failed.
    pub rebuild_failure: Option<ImportError>,
    /// The last block of an import that is committed and not yet shown, since it may not be durable.
    imported: Option<Height>,
    /// Since when the next block of a download is missing.
    missing_since: Option<Duration>,
    /// Connections of the requests that wait until the mempool is up to date.
    waiting_for_mempool: BTreeSet<ConnectionId>,
    /// Time of the last client request.
    last_request: Duration,
    clock_monitor: ClockMonitor,
    /// When the next warnings are due.
    warn_at: WarningTimes,
    /// Backoff after failed reads of the store.
    read_backoff: StoreBackoff,
    /// Backoff after failed writes of the store.
    write_backoff: StoreBackoff,
    verification: Verification,
    randomness: Randomness,
    /// When to shut down, if a client requested it.
    shutdown_at: Option<Duration>,
    /// The metrics are to be written to the log at the next tick.
    pub must_log_metrics: bool,
    /// Requests that wait until their rows are in memory.
    pub read_ahead: ReadAhead,
    /// When the request was written that the disk has not confirmed, for the metrics.
    pub disk_asked_at: Option<Duration>,
    /// Returns how often the process has waited for a page from the disk, and its memory usage for the metrics; only the
    /// event loop can determine them.
    pub reads_from_disk: fn() -> u64,
    pub memory: fn() -> Memory,
    /// Returns the monotonic time, which ends what takes long.
    pub monotonic: fn() -> Duration,
    /// Connections that the program can have to peers.
    pub peer_connections: usize,
    /// Whether requests of peers are answered before the node has joined its network: its answers are thrown away.
    pub counts_as_joined: bool,
    /// The parts of a tick, the next one first.
    tick_parts: [TickPart; 4],
}

/// The chain as the node knows it.
struct NodeChain<'s> {
    network: &'s Network,
    /// Height of the tip.
    height: Height,
    /// Released at the start of each tick, so that the store can reuse old pages.
    reader: SnapshotCache<'s>,
}

impl NodeChain<'_> {
    /// Returns the chain at the last commit; `now` is network time.
    fn at(&self, now: Timestamp) -> Result<ChainSnapshot<'_>, StoreError> {
        let NodeChain { network, height, reader } = self;
        Ok(ChainSnapshot { snapshot: reader.snapshot()?, network, height: *height, now })
    }
}

impl<'s> Node<'s> {
    /// Creates a node on a store that holds at least the nemesis block.
    pub fn new(store: &'s Store, settings: &'s Settings, start: Start<'_, 's>) -> Result<Node<'s>, StoreError> {
        let Start { now, seed, local, shared, import, listed, saved } = start;
        let clock = NetworkClock::new(settings.node.clock, now.monotonic.as_millis() as u64);
        let time = clock.now(now.unix_millis, now.monotonic.as_millis() as u64);
        let mut randomness = Randomness::new(seed);
        let rebuild_target = import.as_ref().and_then(Import::rebuild_target);
        let mut identity = Identity::new(settings, PrivateKey::from_seed(&randomness.next_bytes()), time);
        identity.is_booted &= rebuild_target.is_none();
        let snapshot = store.snapshot()?;
        let tip = tip(&snapshot)?.ok_or(StoreError::Empty)?;
        let network = &settings.network;
        let confirmed = ChainSnapshot { snapshot: &snapshot, network, height: tip.height, now: time };
        let mut harvester = Harvester::new(settings);
        if identity.is_booted {
            harvester.unlock_configured(None, &confirmed)?;
        }
        let mut api = Api::new(api_settings(settings, local));
        api.count_shared(shared.clone());
        Ok(Node {
            chain: NodeChain { network, height: tip.height, reader: SnapshotCache::new(store) },
            clock,
            api,
            broker: Broker::new(websocket_limits(settings), network.byte, shared),
            tip_time: tip.timestamp,
            unread_changes: VecDeque::new(),
            identity,
            mempool: Mempool::default(),
            invalid_returned: 0,
            harvester,
            block_processor: BlockProcessor::new(store, network),
            peers: None,
            settings,
            listed,
            reorgs: ReorgLog::default(),
            events: EventFeed::default(),
            saved: SavedPeers::read(&saved),
            relay_queue: Vec::new(),
            import,
            rebuild_target,
            rebuild_failure: None,
            imported: None,
            missing_since: None,
            waiting_for_mempool: BTreeSet::new(),
            last_request: now.monotonic,
            clock_monitor: ClockMonitor::new(now),
            warn_at: WarningTimes::default(),
            read_backoff: StoreBackoff::default(),
            write_backoff: StoreBackoff::default(),
            verification: Verification::new(now.monotonic),
            randomness,
            shutdown_at: None,
            must_log_metrics: false,
            read_ahead: ReadAhead::default(),
            disk_asked_at: None,
            reads_from_disk: || 0,
            memory: Memory::default,
            monotonic: || Duration::ZERO,
            peer_connections: usize::MAX,
            counts_as_joined: false,
            tick_parts: [TickPart::Chain, TickPart::News, TickPart::Verification, TickPart::Peers],
        })
    }

    /// Returns the failure after which the process has to end, so that another one opens the store.
    pub fn store_failure(&self) -> Option<StoreError> {
        self.chain.reader.store().failure()
    }

    /// Height of the tip.
    pub fn height(&self) -> Height {
        self.chain.height
    }

    /// Returns whether the node runs for the rebuild of its store, and the new store is complete and durable.
    pub fn is_rebuilt(&self) -> bool {
        self.rebuild_target.is_some() && self.rebuild_failure.is_none() && self.import.is_none()
    }

    /// Applies changed settings, local rights, and new peers of the operator's list.
    pub fn reload(&mut self, settings: &Settings, local: LocalRights, listed: Vec<ListedPeer>) {
        self.api.change(api_settings(settings, local));
        self.broker.table.limits = websocket_limits(settings);
        match &mut self.peers {
            Some(peers) => peers.add_listed_peers(listed),
            None => self.listed.extend(listed),
        }
    }

    /// Returns a one-line status for the operator.
    pub fn status_line(&self) -> String {
        let activity = match (self.import.as_ref().filter(|import| !import.is_download()), self.status()) {
            (_, NodeStatus::Loading(target)) => {
                return format!("height {} of {target}, rebuilding the store", self.chain.height);
            }
            (Some(_), _) => "importing blocks from files",
            (None, NodeStatus::Running) => "not booted",
            (None, NodeStatus::Booting) => "joining its network",
            (None, NodeStatus::Booted) => "synchronising",
            (None, NodeStatus::NoRemoteNode) => "without active peers",
            (None, _) => "synchronised",
        };
        format!("height {}, {activity}", self.chain.height)
    }

    /// Commits imported and downloaded blocks before the node ends.
    pub fn stop(&mut self) -> Result<(), StoreError> {
        self.import.take().map_or(Ok(()), |mut import| import.importer.commit().map(drop))
    }

    /// Returns peer data to store on disk, if it is due. The next start reads the last output and contacts these peers
    /// before it harvests. `is_last`: the node is about to end.
    pub fn peers_to_save(&mut self, now: LoopTime, is_last: bool) -> Option<Vec<u8>> {
        let now = self.now(now);
        self.saved.to_write(self.peers.as_ref()?, now, is_last)
    }

    /// Returns whether a client requested shutdown and the grace period for the response is over.
    pub fn is_shutdown_due(&self, now: LoopTime) -> bool {
        self.shutdown_at.is_some_and(|end| now.monotonic >= end)
    }

    /// Returns a budget of a step that begins now.
    fn budget(&self, units: u32) -> Budget {
        Budget::timed(units, self.monotonic)
    }

    /// The current time, network time included.
    fn now(&self, LoopTime { unix_millis, monotonic }: LoopTime) -> Now {
        let millis = monotonic.as_millis() as u64;
        let (network, network_millis) = (self.clock.now(unix_millis, millis), self.clock.millis(unix_millis, millis));
        Now { monotonic, network, network_millis }
    }

    /// Returns whether no client has made a request for [`IDLE_AFTER`], and no websocket session and no event stream is open.
    fn is_idle(&self, now: Now) -> bool {
        now.monotonic.saturating_sub(self.last_request) > IDLE_AFTER
            && self.broker.table.session_count() == 0
            && self.events.streams() == 0
    }

    fn status(&self) -> NodeStatus {
        if let Some(target) = self.rebuild_target {
            return NodeStatus::Loading(target);
        }
        match &self.peers {
            _ if self.counts_as_joined => NodeStatus::Synchronized,
            _ if !self.identity.is_booted => NodeStatus::Running,
            _ if !self.has_joined() => NodeStatus::Booting,
            Some(peers) if peers.has_active_node() && peers.height_check.is_synchronised() => NodeStatus::Synchronized,
            Some(peers) if peers.has_active_node() => NodeStatus::Booted,
            _ => NodeStatus::NoRemoteNode,
        }
    }
}

impl Service for Node<'_> {
    fn handle(&mut self, event: Event<'_>, time: LoopTime, effects: &mut dyn Effects) -> Progress {
        let now = self.now(time);
        if comes_from_client(&event) {
            self.last_request = now.monotonic;
        }
        let mut progress = Progress::Done;
        match event {
            Event::Request(exchange) => progress = self.request(exchange, now, effects),
            Event::WebSocketMessage { socket, message, is_text } => {
                progress = self.broker.on_message(socket, message, is_text, now, effects);
            }
            Event::WebSocketResumed { socket } => progress = self.broker.on_resumed(socket, now, effects),
            Event::WebSocketOpened { socket, client } => {
                self.broker.open_websocket(socket, &client, now.monotonic, effects);
            }
            Event::Disconnected { connection } => self.on_disconnect(connection, now, effects),
            Event::FetchCompleted { fetch, result } => {
                self.with_peers(now, effects, |peers, chain| peers.on_reply(fetch, result, now, chain));
                effects.wake_at(now.monotonic);
            }
            Event::Tick { budget, last_tick } => {
                self.tick(budget, last_tick, time, effects);
                return progress;
            }
        }
        let mempool = &self.mempool;
        let has_news = !mempool.newly_accepted.is_empty() || !mempool.fates.changed.is_empty();
        if has_news || self.broker.has_work(!mempool.has_work()) {
            effects.wake_at(now.monotonic);
        } else if let Some(due) = self.broker.next_due().into_iter().chain(self.events.next_due()).min() {
            effects.wake_at(due.max(now.monotonic));
        }
        progress
    }

    fn is_local(&self, client: &Client, request: &Request<'_>) -> bool {
        self.api.settings.is_local(client, request)
    }

    fn is_counted(&self, route: usize) -> bool {
        api::routes::by_id(route).is_none_or(|route| route.is_counted)
    }

    fn route(&self, listener: ListenerId, method: &str, path: &str) -> MatchedRoute {
        match listener {
            WEBSOCKET => MatchedRoute { id: metrics::websocket_route(), body_limit: websocket_api::http::BODY_BYTES },
            // Requests for metrics have no body.
            METRICS => MatchedRoute { body_limit: 0, ..self.api.route(listener, method, path) },
            _ => self.api.route(listener, method, path),
        }
    }
}

/// Returns whether an event comes from a client. A binary request comes from a peer, which tolerates delay; a peer that
/// uses JSON counts as a client.
fn comes_from_client(event: &Event<'_>) -> bool {
    match event {
        Event::Request(exchange) => exchange.request.header("content-type") != Some(Format::Binary.media_type()),
        event => matches!(event, Event::WebSocketMessage { .. }),
    }
}

fn peer_settings(settings: &Settings, listed: Vec<ListedPeer>) -> PeerSettings {
    let peers = &settings.peers;
    PeerSettings {
        node_limit: peers.node_limit,
        time_sync_node_limit: peers.time_sync_node_limit,
        format: if peers.binary_transport { Format::Binary } else { Format::Json },
        uses_network_time: peers.use_network_time,
        ip_detection: if settings.announces_host() { IpDetection::Disabled } else { peers.ip_detection },
        least_scope: settings.peer_scope(),
        checkpoint: peers.checkpoint,
        ..PeerSettings::of(&settings.network, listed)
    }
}

fn api_settings(settings: &Settings, local: LocalRights) -> api::Settings {
    let LocalRights { addresses, cookie, needs_cookie } = local;
    api::Settings {
        context_path: settings.http.context.clone(),
        features: settings.node.features,
        local: addresses,
        cookie,
        needs_cookie,
        host_names: settings.host_names.clone(),
        local_origins: settings.http.local_origins.clone(),
        allowed_harvesters: settings.http.allowed_harvesters.clone(),
        unaudited_paths: settings.peers.unaudited_paths.clone(),
        max_pushed_bytes: wire::limits::pushed(&settings.network.chain, Format::Binary),
        metrics_listener: METRICS,
        explorer: (settings.http.explorer)
            .then(|| Explorer::new(settings.http.port, settings.websocket.port, &settings.network)),
    }
}

fn websocket_limits(settings: &Settings) -> websocket_api::Limits {
    websocket_api::Limits {
        sessions: settings.http.connections,
        addresses_per_session: settings.websocket.registered_addresses,
        ..websocket_api::Limits::default()
    }
}
