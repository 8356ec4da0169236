//! All metrics of the node; `nisd help metrics` describes each. Also the usage of its bounded collections.

use std::time::Duration;

use super::Node;
use crate::api::ROUTES;
use crate::api::routes::Method;
use crate::mempool;
use crate::metrics::Exposition;
use crate::model::Height;
use crate::net::metrics::{MAX_ROUTES, Metrics, RouteMetrics, STATUSES, TOP_CLIENTS};
use crate::net::service::{Effects, LoopTime};
use crate::peer::peer_table::State;
use crate::peer::{LimitUsage, Manager};
use crate::store::{ReaderCounts, StoreMetrics};
use crate::websocket_api::Broker;

/// Route id of requests to the websocket port; follows the ids of the HTTP API.
pub const WEBSOCKET_ROUTE_ID: usize = 1 + ROUTES.len();
/// Route id of requests for the explorer exposition.
pub const EXPLORER_ROUTE_ID: usize = WEBSOCKET_ROUTE_ID + 1;
const _: () = assert!(EXPLORER_ROUTE_ID < MAX_ROUTES);
/// Label for requests without a route: none was found, or none was looked up.
const OTHER: &str = "other";
/// Rank labels of the top clients, the most expensive first.
const RANKS: [&str; TOP_CLIENTS] = ["1", "2", "3", "4", "5"];

/// Memory of the process in bytes, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident memory, mapped files included.
    pub resident: Option<u64>,
    /// The private part of it.
    pub private: Option<u64>,
}

impl Node<'_> {
    /// Collects all metrics.
    pub(super) fn metrics(&self, now: LoopTime, effects: &dyn Effects) -> Exposition {
        let mut exposition = Exposition::default();
        let network = effects.metrics();
        let labels = vec![("version", env!("CARGO_PKG_VERSION")), ("network", self.network.name.as_str())];
        exposition.gauges("nisd_info", "Version of the program and name of the network; always 1.", [(labels, 1)]);
        exposition.gauge("nisd_uptime_seconds", "Time since the start.", now.monotonic);
        let status = self.status().code();
        exposition.gauge("nisd_status", "State of the node, as in /status; 6 is synchronised.", status);
        chain(&mut exposition, self, now);
        peers(&mut exposition, self.peers.as_ref(), now.monotonic);
        requests(&mut exposition, &network.counters.routes);
        connections(&mut exposition, &network);
        clients(&mut exposition, &network);
        sessions(&mut exposition, &network, &self.broker);
        loop_iterations(&mut exposition, &network);
        if let Ok(metrics) = self.reader.store().metrics() {
            store(&mut exposition, &metrics);
        }
        let is_failing = self.read_backoff.is_failing() || self.write_backoff.is_failing();
        exposition.gauge("nisd_store_failing", "1 while the store cannot be read or written.", is_failing);
        exposition.gauge(
            "nisd_store_damaged_ranges",
            "Damaged ranges of rows; requests that need them get an error.",
            self.verification.damaged_ranges(),
        );
        exposition.counter(
            "nisd_store_verifications_total",
            "Complete verifications of the store against its checksums.",
            self.verification.passes(),
        );
        let memory = (self.memory)();
        exposition.gauge(
            "nisd_memory_resident_bytes",
            "Memory of the process, mapped files included.",
            memory.resident,
        );
        exposition.gauge("nisd_memory_private_bytes", "Private memory of the process.", memory.private);
        exposition
    }

    /// Returns the usage of every collection that outsiders can grow and that has its own limit: of the mempool, the
    /// block processor and the peer layer.
    pub fn limit_usage(&self) -> Vec<LimitUsage> {
        let pool = &self.mempool;
        let mut loads = vec![
            LimitUsage::new("unconfirmed transactions", pool.len(), mempool::max_transactions(&self.network.chain)),
            LimitUsage::new("bytes of the mempool", pool.bytes(), mempool::MAX_BYTES),
            LimitUsage::new("cached results of transactions", pool.remembered_results(), mempool::MAX_RESULTS),
        ];
        loads.extend(self.block_processor.limit_usage());
        loads.extend(self.peers.as_ref().into_iter().flat_map(Manager::usage));
        loads
    }
}

fn chain(exposition: &mut Exposition, node: &Node<'_>, now: LoopTime) {
    let (height, clock) = (node.height, node.clock_state(now));
    exposition.gauge("nisd_height", "Height of the last block.", height.0);
    let blocks_behind = peer_height(node.peers.as_ref()).map(|others| others.0.saturating_sub(height.0));
    exposition.gauge(
        "nisd_blocks_behind",
        "How many blocks half of the peers are ahead, by their reported heights.",
        blocks_behind,
    );
    let age = -i64::from(clock.chain_ahead);
    exposition.gauge(
        "nisd_last_block_age_seconds",
        "Time since the time stamp of the last block, by network time.",
        age,
    );
    let pool = &node.mempool;
    exposition.gauge("nisd_unconfirmed_transactions", "Unconfirmed transactions.", pool.len());
    exposition.gauge("nisd_unconfirmed_bytes", "Memory of the mempool.", pool.bytes());
    let harvester = &node.harvester;
    exposition.gauge("nisd_harvesting_accounts", "Accounts that harvest on this node.", harvester.unlocked.count());
    exposition.counter(
        "nisd_harvested_blocks_total",
        "Blocks that these accounts have added to the chain.",
        harvester.harvested(),
    );
    let reorgs = &node.reorgs;
    exposition.counter("nisd_reorgs_total", "Reorgs.", reorgs.count());
    exposition.counter("nisd_replaced_blocks_total", "Blocks that reorgs have replaced.", reorgs.replaced());
    exposition.counter(
        "nisd_harvested_blocks_lost_total",
        "Replaced blocks that were harvested on this node.",
        reorgs.own(),
    );
    let offset = node.peers.as_ref().map(|peers| peers.time_sync.clock_difference().unwrap_or(0) as f64 / 1000.0);
    exposition.gauge(
        "nisd_clock_offset_seconds",
        "How far the peers' clocks are ahead of this machine's; 0 while the difference does not matter.",
        offset,
    );
    let refused = node.peers.as_ref().map(|peers| peers.time_sync.rejected_offset().unwrap_or(0) as f64 / 1000.0);
    exposition.gauge(
        "nisd_clock_refused_offset_seconds",
        "How far the peers would move network time ahead of this machine's clock, although too few listed peers agree; \
         0 if they would not.",
        refused,
    );
    exposition.counter("nisd_clock_jumps_total", "Jumps of the system's clock.", clock.jumps);
}

/// Returns the height that half of the active peers report, or the target of the block download if that is higher.
fn peer_height(peers: Option<&Manager>) -> Option<Height> {
    let peers = peers?;
    let active = peers.table.in_state(State::Active);
    let reached = reached_by_half(active.filter_map(|(_, peer)| peer.height).collect());
    reached.into_iter().chain(peers.block_download.as_ref().map(|download| download.target)).max()
}

/// Returns the greatest height that at least half of these have reached, so that one false report among several changes
/// nothing.
fn reached_by_half(mut heights: Vec<Height>) -> Option<Height> {
    heights.sort_unstable();
    heights.get(heights.len() / 2).copied()
}

fn peers(exposition: &mut Exposition, peers: Option<&Manager>, now: Duration) {
    const STATES: [(State, &str); 5] = [
        (State::Active, "active"),
        (State::Busy, "busy"),
        (State::Inactive, "inactive"),
        (State::Failure, "failure"),
        (State::Untried, "untried"),
    ];
    let count = |state: State| peers.map_or(0, |peers| peers.table.in_state(state).count());
    let unknown = (vec![("state", "unknown")], peers.map_or(0, |peers| peers.unpinned.len()));
    let counts = STATES.iter().map(|(state, name)| (vec![("state", *name)], count(*state))).chain([unknown]);
    exposition.gauges("nisd_peers", "Peers by state.", counts);
    exposition.gauge(
        "nisd_peers_apart",
        "Active peers on a chain that neither they nor this node can leave: the network is split for good.",
        peers.map(|peers| peers.split_peers(now).nodes.len()),
    );
}

/// Method and path for a route id.
fn route(kind: usize) -> (&'static str, &'static str) {
    match kind.checked_sub(1).and_then(|number| ROUTES.get(number)) {
        Some(route) if route.method == Method::Get => ("GET", route.path),
        Some(route) => ("POST", route.path),
        None => match kind {
            WEBSOCKET_ROUTE_ID => (OTHER, "websocket"),
            EXPLORER_ROUTE_ID => (OTHER, "explorer"),
            _ => (OTHER, OTHER),
        },
    }
}

fn requests(exposition: &mut Exposition, requests: &[RouteMetrics]) {
    let names = STATUSES.map(|status| status.to_string());
    let names: Vec<&str> = names.iter().map(String::as_str).chain([OTHER]).collect();
    let routes = || {
        requests.iter().enumerate().map(|(kind, metrics)| {
            let (method, path) = route(kind);
            (vec![("method", method), ("route", path)], metrics)
        })
    };
    let answers = routes().flat_map(|(labels, metrics)| {
        let counts = names.iter().zip(metrics.responses).filter(|(_, count)| *count > 0);
        counts.map(move |(status, count)| (labels.iter().copied().chain([("status", *status)]).collect(), count))
    });
    exposition.counters("nisd_http_requests_total", "Responses by method, route and status.", answers);
    let times = routes().map(|(labels, metrics)| (labels, &metrics.times)).filter(|(_, times)| times.count() > 0);
    exposition.histograms(
        "nisd_http_request_duration_seconds",
        "Time from the complete request to the complete response, by method and route.",
        times,
    );
}

fn connections(exposition: &mut Exposition, metrics: &Metrics) {
    let Metrics { stats, counters: counts, fetch, .. } = metrics;
    exposition.gauge("nisd_connections", "Open incoming connections.", stats.connections);
    exposition.gauge("nisd_connections_outgoing", "Open outgoing connections.", fetch.connections);
    exposition.counter("nisd_connections_accepted_total", "Accepted connections.", stats.accepted);
    exposition.counter(
        "nisd_connections_refused_total",
        "Connections rejected because a quota was full.",
        stats.rejected,
    );
    exposition.counter(
        "nisd_connections_displaced_total",
        "Connections evicted for new ones, of the clients with the most.",
        stats.evicted,
    );
    exposition.counter(
        "nisd_connections_declined_total",
        "Connections reset on arrival, because their clients had exceeded their work quota.",
        stats.reset,
    );
    exposition.counter(
        "nisd_connections_cut_total",
        "Connections closed because the kernel held too much that their clients did not receive.",
        stats.kernel_evicted,
    );
    exposition.gauge(
        "nisd_kernel_bytes",
        "Kernel memory that connections may hold: sent and not received, or received and not read.",
        stats.kernel_bytes,
    );
    exposition.gauge("nisd_buffered_bytes", "Memory in buffers of connections.", stats.buffered_bytes);
    let sides = |incoming: u64, outgoing: u64| {
        [(vec![("connections", "incoming")], incoming), (vec![("connections", "outgoing")], outgoing)]
    };
    exposition.counters(
        "nisd_network_received_bytes_total",
        "Bytes read from connections, incoming and outgoing.",
        sides(counts.received_bytes, fetch.received_bytes),
    );
    exposition.counters(
        "nisd_network_sent_bytes_total",
        "Bytes written to connections, incoming and outgoing.",
        sides(counts.sent_bytes, fetch.sent_bytes),
    );
}

/// Usage of the top clients. Their addresses are private and not reported.
fn clients(exposition: &mut Exposition, metrics: &Metrics) {
    let Metrics { stats, top_clients: costliest, throttled_clients: resting, .. } = metrics;
    exposition.gauge("nisd_callers", "Clients with a usage record.", stats.clients);
    exposition.gauge("nisd_callers_waiting", "Clients that are throttled until their deficit is refilled.", *resting);
    let ranked = || RANKS.into_iter().zip(costliest).map(|(rank, cost)| (vec![("rank", rank)], cost));
    exposition.gauges(
        "nisd_caller_work_ratio",
        "Share of the processor used recently by the clients that used most, by rank.",
        ranked().map(|(labels, cost)| (labels, cost.share)),
    );
    exposition.gauges(
        "nisd_caller_buffered_bytes",
        "Buffered bytes of the clients that hold most, by rank.",
        ranked().map(|(labels, cost)| (labels, cost.held_bytes)),
    );
}

fn sessions(exposition: &mut Exposition, metrics: &Metrics, broker: &Broker) {
    let (sessions, counts) = (broker.usage(), broker.counts());
    exposition.gauge(
        "nisd_websocket_sessions",
        "Open sessions of the websocket port, SockJS without a websocket included.",
        sessions.sessions,
    );
    exposition.gauge("nisd_websocket_session_bytes", "Estimated memory of the sessions.", sessions.session_bytes);
    exposition.gauge(
        "nisd_websocket_waiting_bytes",
        "Bytes of messages that wait for several sessions, each counted once.",
        sessions.message_bytes,
    );
    exposition.gauge("nisd_websocket_accounts", "Accounts that the sessions have registered.", sessions.addresses);
    exposition.counter("nisd_websocket_messages_sent_total", "Messages to subscribers.", counts.messages);
    let net = &metrics.counters;
    let dropped = net.dropped_websockets + net.silent_websockets + counts.dropped;
    exposition.counter(
        "nisd_websocket_sessions_dropped_total",
        "Sessions whose clients did not receive their messages or were gone.",
        dropped,
    );
}

fn loop_iterations(exposition: &mut Exposition, metrics: &Metrics) {
    let times = [(Vec::new(), &metrics.counters.iterations)];
    exposition.histograms(
        "nisd_loop_step_duration_seconds",
        "Time from one poll of the sockets to the next, without the waiting.",
        times,
    );
    let longest = metrics.longest_iteration;
    exposition.gauge("nisd_loop_step_longest_seconds", "The longest such time in the last 30 to 60 seconds.", longest);
}

fn store(exposition: &mut Exposition, metrics: &StoreMetrics) {
    exposition.gauge("nisd_store_bytes", "Size of the store's file.", metrics.bytes);
    exposition.gauge("nisd_store_map_bytes", "Maximum size of the store's file.", metrics.map_bytes);
    exposition.gauge(
        "nisd_store_map_used_bytes",
        "Bytes of the store's file up to the last page in use.",
        metrics.used_bytes,
    );
    exposition.gauge("nisd_disk_free_bytes", "Free space on the disk of the store.", metrics.free_bytes);
    let readers = |count: fn(ReaderCounts) -> usize| metrics.readers.map(count);
    exposition.gauge(
        "nisd_store_readers",
        "Readers of the store, other programs included.",
        readers(|readers| readers.reading),
    );
    exposition.gauge(
        "nisd_store_stale_readers",
        "Readers whose programs were killed; the pages that they read are not reused.",
        readers(|readers| readers.stale),
    );
    let times = metrics.commit_times.iter().map(|times| (Vec::new(), times));
    exposition.histograms("nisd_commit_duration_seconds", "Duration of commits, waiting for the disk included.", times);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_peer_with_an_exaggerated_height_changes_nothing() {
        let reached = |heights: &[u64]| reached_by_half(heights.iter().copied().map(Height).collect());
        assert_eq!(reached(&[]), None);
        assert_eq!(reached(&[7]), Some(Height(7)));
        assert_eq!(reached(&[9_000_000, 100, 101]), Some(Height(101)));
        assert_eq!(reached(&[1, 9_000_000, 99, 101, 100]), Some(Height(100)));
        assert_eq!(reached(&[100, 101, 99, 102]), Some(Height(101)), "two of four are there");
    }
}
