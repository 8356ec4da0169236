//! The form of a route, and finding the one a path names.

use std::collections::HashMap;

use super::call::Call;
use super::failure::Failure;

/// How long the body of a request may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLimit {
    /// 8 KiB, unless a route says otherwise.
    Small,
    /// 64 KiB, for a transaction and for batches.
    Large,
    /// What [`pushed_bytes`](super::Settings::pushed_bytes) says, for a block or a list of another node.
    Pushed,
}

impl BodyLimit {
    /// The limit in bytes.
    pub fn bytes(self, pushed_bytes: usize) -> usize {
        match self {
            BodyLimit::Small => 8 << 10,
            BodyLimit::Large => 64 << 10,
            BodyLimit::Pushed => pushed_bytes,
        }
    }
}

/// Answers a call.
pub type Handler = fn(&mut Call<'_>) -> Result<(), Failure>;

/// Method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET, and HEAD.
    Get,
    /// POST.
    Post,
}

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anyone.
    Public,
    /// Only callers from this machine, or from addresses that count as such.
    Local,
    /// The same, and anyone by the listener that is there for it alone.
    Metrics,
}

/// A line of the route table.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Method.
    pub method: Method,
    /// Exact path.
    pub path: &'static str,
    /// Who may call it.
    pub access: Access,
    /// Whether it puts something into the pool.
    pub fills_pool: bool,
    /// How long its body may be.
    pub body_limit: BodyLimit,
    /// What answers it.
    pub handler: Handler,
}

/// A public GET route.
pub const fn get(path: &'static str, handler: Handler) -> Route {
    let (access, body_limit) = (Access::Public, BodyLimit::Small);
    Route { method: Method::Get, path, access, fills_pool: false, body_limit, handler }
}

/// A public POST route.
pub const fn post(path: &'static str, handler: Handler) -> Route {
    Route { method: Method::Post, ..get(path, handler) }
}

impl Route {
    /// The same route, for local callers only.
    pub const fn local(self) -> Route {
        Route { access: Access::Local, ..self }
    }

    /// The same route, for local callers, and for anyone by the listener that is there for it alone.
    pub const fn metrics(self) -> Route {
        Route { access: Access::Metrics, ..self }
    }

    /// The same route, said to put something into the pool.
    pub const fn into_the_pool(self) -> Route {
        Route { fills_pool: true, ..self }
    }

    /// The same route, for bodies that may be larger.
    pub const fn with_large_bodies(self) -> Route {
        Route { body_limit: BodyLimit::Large, ..self }
    }

    /// The same route, for bodies with a block or a list of another node.
    pub const fn with_pushed_bodies(self) -> Route {
        Route { body_limit: BodyLimit::Pushed, ..self }
    }
}

/// A route, and its place in the table.
type Numbered = (usize, &'static Route);

/// The routes of one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mapped {
    get: Option<Numbered>,
    post: Option<Numbered>,
}

/// Routes by their paths.
#[derive(Debug)]
pub struct RouteMap(HashMap<&'static str, Mapped>);

impl RouteMap {
    /// Those of these routes that are wanted.
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

    /// The routes of a path; `None` if it has none.
    pub fn find(&self, path: &str) -> Option<Mapped> {
        self.0.get(path).copied()
    }
}

impl Mapped {
    /// The route for a method as sent, and its place in the table; methods are case-sensitive.
    pub fn by_method(&self, method: &str) -> Option<(usize, &'static Route)> {
        match method {
            "GET" | "HEAD" => self.get,
            "POST" => self.post,
            _ => None,
        }
    }

    /// Value of the second `Allow` header of an answer to OPTIONS.
    pub fn allow(&self) -> &'static str {
        match (self.get.is_some(), self.post.is_some()) {
            (true, true) => "GET,HEAD,POST",
            (true, false) => "GET,HEAD",
            (false, _) => "POST",
        }
    }
}
