//! The route table: the routes of all resources, and the lookup of a route by path.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::url::{self, MalformedPath};
use super::{ApiError, RequestContext};
use super::{
    account_history, accounts, blocks, events, explorer, harvesting, mempool, mosaics, namespaces, node, peer_requests,
    peers, push, transaction_status, transactions, transfers,
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
    /// 512 KiB, for 10,000 addresses.
    Addresses,
}

impl BodyLimit {
    /// Returns the limit in bytes.
    pub fn bytes(self, pushed_bytes: usize) -> usize {
        match self {
            BodyLimit::Small => 8 << 10,
            BodyLimit::Large => 64 << 10,
            BodyLimit::Pushed => pushed_bytes,
            BodyLimit::Addresses => 512 << 10,
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

/// What the responses of a route depend on, and so how long they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// On more than the following; they are not kept.
    Never,
    /// On the chain and the request alone; they are kept until the chain changes.
    Chain,
    /// Also on which accounts harvest on this node and on unconfirmed importance transfers; they are kept until one of these
    /// changes too.
    AccountStatus,
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
    /// Whether it waits until the mempool is up to date with the chain.
    pub needs_mempool: bool,
    /// What its responses depend on, and so how long they are kept.
    pub caching: Caching,
    /// Whether a client gets the response whatever it accepts.
    pub takes_any_accept: bool,
    /// Maximum body size.
    pub body_limit: BodyLimit,
    /// Handler.
    pub handler: Handler,
}

/// Creates a public GET route.
pub const fn get(path: &'static str, handler: Handler) -> Route {
    let (access, body_limit) = (Access::Public, BodyLimit::Small);
    let (needs_mempool, caching, takes_any_accept) = (false, Caching::Never, false);
    Route { method: Method::Get, path, access, needs_mempool, caching, takes_any_accept, body_limit, handler }
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

    /// Makes requests wait until the mempool is up to date with the chain.
    pub const fn needing_mempool(self) -> Route {
        Route { needs_mempool: true, ..self }
    }

    /// Marks the responses of a public route as depending on nothing but the chain and the request.
    pub const fn cached(self) -> Route {
        Route { caching: Caching::Chain, ..self }
    }

    /// Marks the responses of a public route as depending also on the status of accounts on this node.
    pub const fn cached_with_account_status(self) -> Route {
        Route { caching: Caching::AccountStatus, ..self }
    }

    /// Answers a client whatever it accepts.
    pub const fn with_any_accept(self) -> Route {
        Route { takes_any_accept: true, ..self }
    }

    /// Raises the body limit to [`BodyLimit::Addresses`].
    pub const fn with_address_bodies(self) -> Route {
        Route { body_limit: BodyLimit::Addresses, ..self }
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

/// The routes of each resource.
const RESOURCES: &[&[Route]] = &[
    blocks::ROUTES,
    accounts::ROUTES,
    transfers::ROUTES,
    account_history::ROUTES,
    transactions::ROUTES,
    mempool::ROUTES,
    transaction_status::ROUTES,
    events::ROUTES,
    harvesting::ROUTES,
    namespaces::ROUTES,
    mosaics::ROUTES,
    node::ROUTES,
    peers::ROUTES,
    peer_requests::ROUTES,
    push::ROUTES,
    explorer::ROUTES,
];

/// All routes. The id of a route is its place, from 1 on.
pub static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| RESOURCES.concat());

/// Returns the route with an id.
pub fn by_id(id: usize) -> Option<&'static Route> {
    ROUTES.get(id.checked_sub(1)?)
}

/// Routes by path.
static BY_PATH: LazyLock<HashMap<&'static str, PathRoutes>> = LazyLock::new(|| {
    let mut map: HashMap<_, PathRoutes> = HashMap::new();
    for (route, id) in ROUTES.iter().zip(1..) {
        let routes = map.entry(route.path).or_default();
        match route.method {
            Method::Get => routes.get = Some(id),
            Method::Post => routes.post = Some(id),
        }
    }
    map
});

/// Ids of the routes of one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathRoutes {
    get: Option<usize>,
    post: Option<usize>,
}

impl PathRoutes {
    /// Finds the routes of a path; of the metrics listener only those of the metrics.
    pub fn find(path: &str, is_metrics_listener: bool) -> Result<Option<PathRoutes>, MalformedPath> {
        let plain = BY_PATH.get(url::without_trailing_slash(path));
        let found = match plain {
            Some(routes) => Some(routes),
            None => url::normalise(path)?.and_then(|(path, _)| BY_PATH.get(path.as_str())),
        };
        let is_there =
            |id: &usize| !is_metrics_listener || by_id(*id).is_some_and(|route| route.access == Access::Metrics);
        let found =
            found.map(|routes| PathRoutes { get: routes.get.filter(is_there), post: routes.post.filter(is_there) });
        Ok(found.filter(|routes| routes.get.is_some() || routes.post.is_some()))
    }

    /// Returns the id of the route for a method. Methods are case-sensitive.
    pub fn by_method(&self, method: &str) -> Option<usize> {
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
