//! The route table, and the lookup of a route by path.

use std::collections::HashMap;

use super::error::ApiError;
use super::request_context::RequestContext;
use super::{
    account_history, accounts, blocks, harvesting, mosaics, namespaces, node, peer_requests, push, status,
    transactions, transfers,
};

/// Maximum size of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLimit {
    /// 8 KiB, the default.
    Small,
    /// 64 KiB, for a transaction and for batches.
    Large,
    /// [`pushed_bytes`](super::Settings::max_pushed_bytes), for a block or a list of a peer.
    Pushed,
}

impl BodyLimit {
    /// Returns the limit in bytes.
    pub fn bytes(self, pushed_bytes: usize) -> usize {
        match self {
            BodyLimit::Small => 8 << 10,
            BodyLimit::Large => 64 << 10,
            BodyLimit::Pushed => pushed_bytes,
        }
    }
}

/// Handler of a route.
pub type Handler = fn(&mut RequestContext<'_>) -> Result<(), ApiError>;

/// HTTP method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET, and HEAD.
    Get,
    /// POST.
    Post,
}

/// Access to a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anyone.
    Public,
    /// Clients on this machine, or at addresses that count as local.
    Local,
    /// Local clients, and any client of the metrics listener.
    Metrics,
}

/// Entry of the route table.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Method.
    pub method: Method,
    /// Exact path.
    pub path: &'static str,
    /// Required access.
    pub access: Access,
    /// Whether it writes to the mempool.
    pub writes_mempool: bool,
    /// Maximum body size.
    pub body_limit: BodyLimit,
    /// Handler.
    pub handler: Handler,
}

/// Creates a public GET route.
pub const fn get(path: &'static str, handler: Handler) -> Route {
    let (access, body_limit) = (Access::Public, BodyLimit::Small);
    Route { method: Method::Get, path, access, writes_mempool: false, body_limit, handler }
}

/// Creates a public POST route.
pub const fn post(path: &'static str, handler: Handler) -> Route {
    Route { method: Method::Post, ..get(path, handler) }
}

impl Route {
    /// Restricts the route to local clients.
    pub const fn local(self) -> Route {
        Route { access: Access::Local, ..self }
    }

    /// Restricts the route to local clients and the metrics listener.
    pub const fn metrics(self) -> Route {
        Route { access: Access::Metrics, ..self }
    }

    /// Marks the route as writing to the mempool.
    pub const fn writing_mempool(self) -> Route {
        Route { writes_mempool: true, ..self }
    }

    /// Raises the body limit to [`BodyLimit::Large`].
    pub const fn with_large_bodies(self) -> Route {
        Route { body_limit: BodyLimit::Large, ..self }
    }

    /// Raises the body limit to [`BodyLimit::Pushed`].
    pub const fn with_pushed_bodies(self) -> Route {
        Route { body_limit: BodyLimit::Pushed, ..self }
    }
}

/// A route and its index in the table.
type IndexedRoute = (usize, &'static Route);

/// Routes of one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathRoutes {
    get: Option<IndexedRoute>,
    post: Option<IndexedRoute>,
}

/// Routes by path.
#[derive(Debug)]
pub struct RouteMap(HashMap<&'static str, PathRoutes>);

impl RouteMap {
    /// Builds the map of the routes that satisfy `is_included`.
    pub fn new(routes: &'static [Route], is_included: impl Fn(&Route) -> bool) -> RouteMap {
        let mut map: HashMap<_, PathRoutes> = HashMap::new();
        for (number, route) in routes.iter().enumerate().filter(|(_, route)| is_included(route)) {
            let mapped = map.entry(route.path).or_default();
            match route.method {
                Method::Get => mapped.get = Some((number, route)),
                Method::Post => mapped.post = Some((number, route)),
            }
        }
        RouteMap(map)
    }

    /// Returns the routes of a path.
    pub fn find(&self, path: &str) -> Option<PathRoutes> {
        self.0.get(path).copied()
    }
}

impl PathRoutes {
    /// Returns the route for a method, and its index in the table. Methods are case-sensitive.
    pub fn by_method(&self, method: &str) -> Option<(usize, &'static Route)> {
        match method {
            "GET" | "HEAD" => self.get,
            "POST" => self.post,
            _ => None,
        }
    }

    /// Returns the value of the second `Allow` header of a response to OPTIONS.
    pub fn allow(&self) -> &'static str {
        match (self.get.is_some(), self.post.is_some()) {
            (true, true) => "GET,HEAD,POST",
            (true, false) => "GET,HEAD",
            (false, _) => "POST",
        }
    }
}

/// All routes.
pub const ROUTES: &[Route] = &[
    get("/chain/height", blocks::height),
    get("/chain/score", blocks::score),
    get("/chain/last-block", blocks::last_block),
    post("/block/at/public", blocks::block_at),
    get("/block/get", blocks::block_by_hash),
    get("/account/get", accounts::by_address),
    get("/account/get/from-public-key", accounts::by_public_key),
    get("/account/transfers/incoming", transfers::incoming),
    get("/account/transfers/outgoing", transfers::outgoing),
    get("/account/transfers/all", transfers::all),
    post("/local/account/transfers/incoming", transfers::incoming_of_key).local(),
    post("/local/account/transfers/outgoing", transfers::outgoing_of_key).local(),
    post("/local/account/transfers/all", transfers::all_of_key).local(),
    get("/account/get/forwarded", accounts::forwarded),
    get("/account/get/forwarded/from-public-key", accounts::forwarded_by_public_key),
    post("/account/get/batch", accounts::batch).with_large_bodies(),
    get("/account/status", accounts::status),
    get("/account/harvests", accounts::harvests),
    get("/account/importances", accounts::importances),
    get("/account/historical/get", account_history::history),
    post("/account/historical/get/batch", account_history::histories).with_large_bodies(),
    get("/account/generate", node::new_key).local(),
    post("/local/block/at", blocks::explorer_block).local(),
    post("/local/chain/blocks-after", blocks::explorer_blocks).local(),
    get("/transaction/get", transactions::by_hash),
    post("/transaction/announce", transactions::announce).with_large_bodies().writing_mempool(),
    post("/transaction/prepare-announce", transactions::prepare_announce).with_large_bodies().local().writing_mempool(),
    post("/transaction/prepare", transactions::prepare).with_large_bodies().local(),
    get("/account/unconfirmedTransactions", transactions::unconfirmed),
    post("/account/unlock", harvesting::unlock),
    post("/account/lock", harvesting::lock),
    post("/local/account/isunlocked", harvesting::is_unlocked).local(),
    post("/account/isunlocked", harvesting::is_address_unlocked),
    post("/account/unlocked/info", harvesting::unlocked_info),
    get("/namespace", namespaces::by_name),
    get("/namespace/root/page", namespaces::roots),
    get("/namespace/mosaic/definition/page", mosaics::in_namespace),
    get("/account/namespace/page", namespaces::by_owner),
    get("/mosaic/definition", mosaics::definition),
    get("/mosaic/definition/last", mosaics::last_definition),
    get("/mosaic/definition/page", mosaics::definitions),
    get("/mosaic/holders", mosaics::holders),
    get("/mosaic/supply", mosaics::supply),
    post("/mosaic/supply/batch", mosaics::supplies).with_large_bodies(),
    get("/local/mosaic/definition/supply", mosaics::supply_at).local(),
    get("/local/mosaics/expired", mosaics::expired).local(),
    get("/account/mosaic/definition/page", mosaics::by_creator),
    get("/account/mosaic/owned", mosaics::owned),
    get("/account/mosaic/owned/definition", mosaics::owned_definitions),
    post("/account/mosaic/owned/definition/batch", mosaics::owned_definitions_of_all).with_large_bodies(),
    get("/node/info", node::info),
    get("/node/extended-info", node::extended_info),
    get("/node/clock", node::clock),
    get("/time-sync/network-time", node::network_time),
    get("/heartbeat", status::heartbeat),
    get("/status", status::status),
    get("/openapi.json", status::openapi),
    get("/metrics", status::metrics).metrics(),
    post("/node/boot", node::boot).local(),
    get("/shutdown", node::shut_down).local(),
    get("/node/peer-list/all", node::known_nodes),
    get("/node/peer-list/reachable", node::reachable_nodes),
    get("/node/peer-list/active", node::active_nodes),
    get("/node/experiences", node::experiences),
    get("/node/active-peers/max-chain-height", node::max_chain_height),
    get("/local/peers", node::peers).local(),
    get("/local/reorgs", node::reorgs).local(),
    get("/debug/timers", node::timers),
    get("/debug/connections/incoming", node::incoming_requests),
    get("/debug/connections/outgoing", node::outgoing_requests),
    get("/debug/time-synchronization", node::time_synchronisation),
    post("/chain/height", peer_requests::height),
    post("/chain/score", peer_requests::score),
    post("/chain/last-block", peer_requests::last_block),
    post("/block/at", peer_requests::block_at),
    post("/node/info", peer_requests::info),
    post("/node/peer-list/active", peer_requests::active_nodes),
    post("/node/experiences", peer_requests::experiences),
    post("/chain/hashes-from", peer_requests::hashes_from),
    post("/chain/blocks-after", peer_requests::blocks_after),
    post("/transactions/unconfirmed", peer_requests::unconfirmed).with_pushed_bodies(),
    post("/node/cysm", peer_requests::can_you_see_me),
    post("/node/sign-of-life", peer_requests::sign_of_life),
    post("/node/ping", peer_requests::ping),
    post("/push/transaction", push::transaction).with_large_bodies().writing_mempool(),
    post("/push/transactions", push::transactions).with_pushed_bodies().writing_mempool(),
    post("/push/block", push::block).with_pushed_bodies(),
    post("/time-sync/network-time", peer_requests::network_time),
];
