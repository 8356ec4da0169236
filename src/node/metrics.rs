//! All metrics of the node, in one table: each with its meaning and where its value comes from. Also the usage of the
//! node's bounded collections.

use std::fmt::Write as _;
use std::sync::LazyLock;
use std::time::Duration;

use super::Node;
use super::read_ahead::MAX_WAITING_BYTES;
use crate::api::routes::Method;
use crate::api::{self, ROUTES, routes};
use crate::mempool;
use crate::metrics::{Exposition, Labels, Value};
use crate::net;
use crate::net::metrics::{RouteMetrics, STATUSES, TOP_CLIENTS, TopUsage};
use crate::net::service::Effects;
use crate::peer::io::Now;
use crate::peer::peer_entry::State;
use crate::peer::{LimitUsage, Manager};
use crate::store::StoreMetrics;

/// Label for requests without a route: none was found, or none was looked up.
const OTHER: &str = "other";
/// Rank labels of the top clients, the most expensive first.
const RANKS: [&str; TOP_CLIENTS] = ["1", "2", "3", "4", "5"];
/// Status labels, in the order of [`RouteMetrics::responses`].
static STATUS_LABELS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let names = STATUSES.iter().map(u16::to_string);
    names.chain([OTHER.to_owned()]).collect()
});
/// States of the peers in the table.
const PEER_STATES: [State; 5] = [State::Active, State::Busy, State::Inactive, State::Failure, State::Untried];

/// Memory of the process in bytes, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident memory, mapped files included.
    pub resident: Option<u64>,
    /// The private part of it.
    pub private: Option<u64>,
}

/// What the values are read from.
struct Sources<'s, 'n> {
    node: &'s Node<'n>,
    now: Now,
    net: &'s net::metrics::Metrics,
    store: Option<&'s StoreMetrics>,
    memory: Memory,
}

impl Sources<'_, '_> {
    /// Returns a value of the peer layer; unknown while there is none.
    fn of_peers<T>(&self, value: impl Fn(&Manager) -> T) -> Option<T> {
        self.node.peers.as_ref().map(value)
    }
}

/// Reads the value of a metric.
type Read = for<'s> fn(&'s Sources<'s, '_>) -> Value<'s>;

/// A metric: its name, unit and value, its meaning, and details that only the documentation has. The name of a counter ends
/// with `_total`.
struct Metric(&'static str, &'static str, Read, &'static str, &'static str);

/// All metrics, in titled groups.
#[rustfmt::skip]
const SECTIONS: &[(&str, &[Metric])] = &[
    ("The chain", &[
        Metric("nisd_info", "1", |s| {
                let network = s.node.chain.network.name.as_str();
                vec![(vec![("version", env!("CARGO_PKG_VERSION")), ("network", network)], 1)].into()
            },
            "Version of the program and name of the network; always 1.", ""),
        Metric("nisd_uptime_seconds", "s", |s| s.now.monotonic.into(),
            "Time since the start.", ""),
        Metric("nisd_status", "code", |s| s.node.status().code().into(),
            "State of the node, as in /status; 6 is synchronised.",
            "3 is running, 4 joining, 5 joined, 7 without active peers, 8 rebuilding its store."),
        Metric("nisd_height", "blocks", |s| s.node.chain.height.0.into(),
            "Height of the last block.", ""),
        Metric("nisd_rebuild_target_height", "blocks", |s| s.node.rebuild_target.map(|height| height.0).into(),
            "Height at which the rebuild of the store ends; only while it is rebuilt.",
            "`nisd_height` is the height that it has reached."),
        Metric("nisd_blocks_behind", "blocks", |s| {
            let network = s.node.peers.as_ref().and_then(|peers| peers.height_check.network_height());
            network.map(|height| height.0.saturating_sub(s.node.chain.height.0)).into()
        },
            "How many blocks half of the peers are ahead, by their reported heights.", ""),
        Metric("nisd_last_block_age_seconds", "s", |s| (-i64::from(s.node.clock_state(s.now).chain_ahead)).into(),
            "Time since the time stamp of the last block, by network time.", "Can be slightly negative."),
        Metric("nisd_unconfirmed_transactions", "", |s| s.node.mempool.len().into(),
            "Unconfirmed transactions.", "At most 1,200 of either kind with the network's defaults."),
        Metric("nisd_unconfirmed_bytes", "bytes", |s| s.node.mempool.bytes().into(),
            "Memory of the mempool.", "At most 64 MiB."),
        Metric("nisd_harvesting_accounts", "", |s| s.node.harvester.unlocked.count().into(),
            "Accounts that harvest on this node.", ""),
        Metric("nisd_harvested_blocks_total", "", |s| s.node.harvester.harvested.into(),
            "Blocks that these accounts have added to the chain.", ""),
        Metric("nisd_reorgs_total", "", |s| s.node.reorgs.count.into(),
            "Reorgs.", "`GET /local/reorgs` lists the last ones."),
        Metric("nisd_replaced_blocks_total", "", |s| s.node.reorgs.replaced.into(),
            "Blocks that reorgs have replaced.", ""),
        Metric("nisd_harvested_blocks_lost_total", "", |s| s.node.reorgs.own.into(),
            "Replaced blocks that were harvested on this node.", ""),
        Metric("nisd_clock_offset_seconds", "s",
            |s| s.of_peers(|peers| seconds(peers.time_sync.clock_difference())).into(),
            "How far the peers' clocks are ahead of this machine's; 0 while the difference does not matter.", ""),
        Metric("nisd_clock_rejected_offset_seconds", "s",
            |s| s.of_peers(|peers| seconds(peers.time_sync.rejected_offset)).into(),
            "How far the peers would move network time ahead of this machine's clock, although too few listed peers \
             agree; 0 if they would not.",
            ""),
        Metric("nisd_clock_jumps_total", "", |s| s.node.clock_state(s.now).jumps.into(),
            "Jumps of the system's clock.", "Only those by more than 5 s."),
        Metric("nisd_peers", "", |s| peers_by_state(s.node.peers.as_ref()).into(),
            "Peers by state.",
            "`state` is active, busy, inactive, failure, untried or unknown (see `nisd help peers`)."),
        Metric("nisd_peers_split", "", |s| s.of_peers(|peers| peers.split_peers(s.now.monotonic).nodes.len()).into(),
            "Active peers on a chain that neither they nor this node can leave: the network is split for good.",
            "Only listed peers and those that have delivered blocks, once for each public network."),
        Metric("nisd_peers_credible", "", |s| s.of_peers(|peers| peers.split_peers(s.now.monotonic).active).into(),
            "Active peers that can count for `nisd_peers_split`.", ""),
    ]),
    ("Requests and connections", &[
        Metric("nisd_http_requests_total", "", |s| responses(&s.net.counters.routes).into(),
            "Responses by method, route and status.",
            "Route `websocket` is that port, `other` unknown paths and requests that were rejected unread."),
        Metric("nisd_http_request_duration_seconds", "s", |s| {
                let times = routes(&s.net.counters.routes).map(|(labels, metrics)| (labels, &metrics.times));
                Value::Histograms(times.filter(|(_, times)| times.count() > 0).collect())
            },
            "Time from the complete request to the complete response, by method and route.", "A histogram."),
        Metric("nisd_connections", "", |s| s.net.stats.connections.into(),
            "Open incoming connections.", ""),
        Metric("nisd_connections_outgoing", "", |s| s.net.fetch.connections.into(),
            "Open outgoing connections.", ""),
        Metric("nisd_connections_accepted_total", "", |s| s.net.stats.accepted.into(),
            "Accepted connections.", ""),
        Metric("nisd_connections_rejected_total", "", |s| s.net.stats.rejected.into(),
            "Connections rejected because a quota was full.", ""),
        Metric("nisd_connections_evicted_total", "", |s| s.net.stats.evicted.into(),
            "Connections evicted for new ones, of the clients with the most.", ""),
        Metric("nisd_connections_reset_total", "", |s| s.net.stats.reset.into(),
            "Connections reset on arrival, because their clients had exceeded their work quota.", ""),
        Metric("nisd_connections_kernel_evicted_total", "", |s| s.net.stats.kernel_evicted.into(),
            "Connections closed because the kernel held too much that their clients did not receive.", ""),
        Metric("nisd_kernel_bytes", "bytes", |s| s.net.stats.kernel_bytes.into(),
            "Kernel memory that connections may hold: sent and not received, or received and not read.",
            "At most 64 MiB."),
        Metric("nisd_buffered_bytes", "bytes", |s| s.net.stats.buffered_bytes.into(),
            "Memory in buffers of connections.", "At most `nisd.maxBuffered`."),
        Metric("nisd_network_received_bytes_total", "bytes",
            |s| both_sides(s.net.counters.received_bytes, s.net.fetch.received_bytes),
            "Bytes read from connections, incoming and outgoing.", ""),
        Metric("nisd_network_sent_bytes_total", "bytes",
            |s| both_sides(s.net.counters.sent_bytes, s.net.fetch.sent_bytes),
            "Bytes written to connections, incoming and outgoing.", ""),
    ]),
    ("Usage per client", &[
        Metric("nisd_clients", "", |s| s.net.stats.clients.into(),
            "Clients with a usage record.", "A client is an address, or a /64."),
        Metric("nisd_clients_waiting", "", |s| s.net.throttled_clients.into(),
            "Connections that wait because their client is throttled until its deficit is refilled.", ""),
        Metric("nisd_client_work_ratio", "ratio", |s| top_clients(s, |client| client.share),
            "Share of the processor used recently by the clients that used most, by rank.",
            "That is the last 30 to 60 s. One client may use 0.25, and 127.0.0.1 more."),
        Metric("nisd_client_buffered_bytes", "bytes", |s| top_clients(s, |client| client.held_bytes as f64),
            "Buffered bytes of the clients that hold most, by rank.", ""),
    ]),
    ("Websocket sessions", &[
        Metric("nisd_event_streams", "", |s| s.node.events.streams().into(),
            "Open streams of `/events`.", "Each also counts as a connection."),
        Metric("nisd_websocket_sessions", "", |s| s.node.broker.table.session_count().into(),
            "Open sessions of the websocket port.", ""),
        Metric("nisd_websocket_session_bytes", "bytes", |s| s.node.broker.table.memory.total().into(),
            "Estimated memory of the sessions.", "At most 64 MiB."),
        Metric("nisd_websocket_waiting_bytes", "bytes", |s| s.node.broker.table.pool.held_bytes().into(),
            "Bytes of messages that wait for several sessions, each counted once.", "At most 16 MiB."),
        Metric("nisd_websocket_accounts", "", |s| s.node.broker.table.registered.len().into(),
            "Accounts that the sessions have registered.", ""),
        Metric("nisd_websocket_messages_sent_total", "", |s| s.node.broker.table.messages.into(),
            "Messages to subscribers.", ""),
        Metric("nisd_websocket_sessions_dropped_total", "", |s| {
                let counts = &s.net.counters;
                (counts.dropped_websockets + counts.silent_websockets).into()
            },
            "Sessions whose clients did not receive their messages or were gone.", ""),
    ]),
    ("The machine", &[
        Metric("nisd_loop_step_duration_seconds", "s",
            |s| Value::Histograms(vec![(Labels::new(), &s.net.counters.iterations)]),
            "Time from one poll of the sockets to the next, without the waiting.",
            "A histogram. A request may wait this long."),
        Metric("nisd_loop_step_longest_seconds", "s", |s| s.net.longest_iteration.into(),
            "The longest such time in the last 30 to 60 seconds.", ""),
        Metric("nisd_store_bytes", "bytes", |s| s.store.map(|store| store.bytes).into(),
            "Size of the store's file.", ""),
        Metric("nisd_store_map_bytes", "bytes", |s| s.store.map(|store| store.map_bytes).into(),
            "Maximum size of the store's file.", "Set by `nisd.mapSize`."),
        Metric("nisd_store_map_used_bytes", "bytes", |s| s.store.map(|store| store.used_bytes).into(),
            "Bytes of the store's file up to the last page in use.", ""),
        Metric("nisd_disk_free_bytes", "bytes", |s| s.store.and_then(|store| store.free_bytes).into(),
            "Free space on the disk of the store.", ""),
        Metric("nisd_store_readers", "", |s| s.store.and_then(|store| store.readers).into(),
            "Readers of the store, other programs included.", "The pages that they read are not reused meanwhile."),
        Metric("nisd_commit_duration_seconds", "s", |s| {
                let times = s.store.and_then(|store| store.commit_times.as_ref());
                Value::Histograms(times.into_iter().map(|times| (Labels::new(), times)).collect())
            },
            "Duration of commits, waiting for the disk included.", "A histogram."),
        Metric("nisd_disk_sync_waiting_seconds", "s", |s| {
                s.node.disk_asked_at.map_or(Duration::ZERO, |asked_at| s.now.monotonic.saturating_sub(asked_at)).into()
            },
            "How long the disk has not confirmed the present write; 0 if nothing waits for it.",
            "No block is processed meanwhile."),
        Metric("nisd_store_failing", "0, 1",
            |s| (s.node.read_backoff.is_failing() || s.node.write_backoff.is_failing()).into(),
            "1 while the store cannot be read or written.", ""),
        Metric("nisd_store_damaged_ranges", "", |s| s.node.verification.damaged_ranges().into(),
            "Damaged ranges of rows; requests that need them get an error.", "All others get their answer."),
        Metric("nisd_store_verifications_total", "", |s| s.node.verification.passes.into(),
            "Complete verifications of the store against its checksums.", ""),
        Metric("nisd_requests_read_ahead_total", "", |s| s.node.read_ahead.total.into(),
            "Requests that waited until a helper process had read their rows from the disk.",
            "Only while the store is not in memory."),
        Metric("nisd_blocks_read_ahead_total", "", |s| s.node.read_ahead.total_blocks.into(),
            "Blocks, or parts of large ones, for which a helper process had read the rows from the disk.",
            "Only while the store is not in memory."),
        Metric("nisd_memory_resident_bytes", "bytes", |s| s.memory.resident.into(),
            "Memory of the process, mapped files included.",
            "The parts of the store that the system holds for it count too."),
        Metric("nisd_memory_private_bytes", "bytes", |s| s.memory.private.into(),
            "Private memory of the process.", ""),
    ]),
];

/// Returns the documentation of all metrics: a table for each group.
pub fn metrics_documentation() -> String {
    let mut text = String::new();
    for (title, metrics) in SECTIONS {
        let _ = writeln!(text, "\n## {title}\n\n| Metric | Unit | Meaning |\n|---|---|---|");
        for Metric(name, unit, _, meaning, details) in *metrics {
            let words = [*meaning, details].join(" ");
            let _ = writeln!(text, "| `{name}` | {unit} | {} |", words.trim_end());
        }
    }
    text
}

impl Node<'_> {
    /// Collects all metrics.
    pub(super) fn metrics(&self, now: Now, effects: &dyn Effects) -> Exposition {
        let (net, store) = (effects.metrics(), self.chain.reader.store().metrics().ok());
        let sources = Sources { node: self, now, net: &net, store: store.as_ref(), memory: (self.memory)() };
        let mut exposition = Exposition::default();
        for Metric(name, _, read, meaning, _) in SECTIONS.iter().flat_map(|(_, metrics)| *metrics) {
            exposition.add(name, meaning, read(&sources));
        }
        exposition
    }

    /// Returns the usage of every collection that outsiders can grow and that has its own limit: of the mempool, the
    /// block processor and the peer layer.
    pub fn limit_usage(&self) -> Vec<LimitUsage> {
        let Node { mempool, events, read_ahead: ahead, .. } = self;
        let mut usage = vec![
            LimitUsage::new(
                "unconfirmed transactions",
                mempool.len(),
                mempool::max_transactions(&self.chain.network.chain),
            ),
            LimitUsage::new("bytes of the mempool", mempool.bytes(), mempool::MAX_BYTES),
            LimitUsage::new("fates of transactions", mempool.fates.count(), 2 * mempool::MAX_FATES),
            LimitUsage::new("bytes of blocks and changes for events", events.bytes(), api::events::MAX_BYTES),
            LimitUsage::new("bytes of cached responses", self.api.cache.bytes, api::MAX_CACHED_BYTES),
            LimitUsage::new("bytes of kept lists", self.api.kept_lists.bytes(), api::MAX_LIST_BYTES),
            LimitUsage::new("bytes of requests that wait for the disk", ahead.waiting_bytes(), MAX_WAITING_BYTES),
            LimitUsage::new("cached results of transactions", mempool.remembered_results(), mempool::MAX_RESULTS),
        ];
        usage.extend(self.block_processor.limit_usage());
        usage.extend(self.peers.as_ref().into_iter().flat_map(Manager::usage));
        usage
    }
}

/// Returns milliseconds, if there are any, in seconds.
fn seconds(millis: Option<i64>) -> f64 {
    millis.unwrap_or(0) as f64 / 1000.0
}

fn peers_by_state(peers: Option<&Manager>) -> Vec<(Labels<'static>, usize)> {
    let count = |state: State| peers.map_or(0, |peers| peers.table.in_state(state).count());
    let unknown = (vec![("state", "unknown")], peers.map_or(0, |peers| peers.unidentified.len()));
    PEER_STATES.map(|state| (vec![("state", state.name())], count(state))).into_iter().chain([unknown]).collect()
}

/// Route id of requests to the websocket port; follows the ids of the HTTP API.
pub(super) fn websocket_route() -> usize {
    1 + ROUTES.len()
}

/// Method and path for a route id.
fn route(id: usize) -> (&'static str, &'static str) {
    match routes::by_id(id) {
        Some(route) if route.method == Method::Get => ("GET", route.path),
        Some(route) => ("POST", route.path),
        None => (OTHER, if id == websocket_route() { "websocket" } else { OTHER }),
    }
}

/// Returns the metrics of each route, with its labels.
fn routes(requests: &[RouteMetrics]) -> impl Iterator<Item = (Labels<'static>, &RouteMetrics)> {
    requests.iter().enumerate().map(|(id, metrics)| {
        let (method, path) = route(id);
        (vec![("method", method), ("route", path)], metrics)
    })
}

/// Returns the responses of each route by status; without those statuses that it never had.
fn responses(requests: &[RouteMetrics]) -> Vec<(Labels<'static>, u64)> {
    let of_route = |(labels, metrics): (Labels<'static>, &RouteMetrics)| {
        let counts = STATUS_LABELS.iter().zip(metrics.responses).filter(|(_, count)| *count > 0);
        let labelled = |(status, count): (&'static String, _)| ([&labels[..], &[("status", status)]].concat(), count);
        counts.map(labelled).collect::<Vec<_>>()
    };
    routes(requests).flat_map(of_route).collect()
}

/// Returns a value of incoming connections and one of outgoing connections.
fn both_sides(incoming: u64, outgoing: u64) -> Value<'static> {
    vec![(vec![("connections", "incoming")], incoming), (vec![("connections", "outgoing")], outgoing)].into()
}

/// Returns a value of the top clients by rank. Their addresses are private and not reported.
fn top_clients(sources: &Sources<'_, '_>, value: fn(&TopUsage) -> f64) -> Value<'static> {
    let ranked = RANKS.into_iter().zip(&sources.net.top_clients);
    ranked.map(|(rank, client)| (vec![("rank", rank)], value(client))).collect::<Vec<_>>().into()
}
