//! Routes, and the lookup of a route by path.

use std::collections::HashMap;

use super::error::ApiError;
use super::request_context::RequestContext;

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
