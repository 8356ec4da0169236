//! Routes, and the lookup of a route by path.

use std::collections::HashMap;

use super::call::Call;
use super::failure::Failure;

/// Maximum size of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLimit {
    /// 8 KiB, the default.
    Small,
    /// 64 KiB, for a transaction and for batches.
    Large,
    /// [`pushed_bytes`](super::Settings::pushed_bytes), for a block or a list of a peer.
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
pub type Handler = fn(&mut Call<'_>) -> Result<(), Failure>;

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
    pub fills_pool: bool,
    /// Maximum body size.
    pub body_limit: BodyLimit,
    /// Handler.
    pub handler: Handler,
}

/// Creates a public GET route.
pub const fn get(path: &'static str, handler: Handler) -> Route {
    let (access, body_limit) = (Access::Public, BodyLimit::Small);
    Route { method: Method::Get, path, access, fills_pool: false, body_limit, handler }
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
    pub const fn into_the_pool(self) -> Route {
        Route { fills_pool: true, ..self }
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
type Numbered = (usize, &'static Route);

/// Routes of one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mapped {
    get: Option<Numbered>,
    post: Option<Numbered>,
}

/// Routes by path.
#[derive(Debug)]
pub struct RouteMap(HashMap<&'static str, Mapped>);

impl RouteMap {
    /// Builds the map of the routes that satisfy `is_wanted`.
    pub fn new(routes: &'static [Route], is_wanted: impl Fn(&Route) -> bool) -> RouteMap {
        let mut map: HashMap<_, Mapped> = HashMap::new();
        for (number, route) in routes.iter().enumerate().filter(|(_, route)| is_wanted(route)) {
            let mapped = map.entry(route.path).or_default();
            match route.method {
                Method::Get => mapped.get = Some((number, route)),
                Method::Post => mapped.post = Some((number, route)),
            }
        }
        RouteMap(map)
    }

    /// Returns the routes of a path.
    pub fn find(&self, path: &str) -> Option<Mapped> {
        self.0.get(path).copied()
    }
}

impl Mapped {
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
