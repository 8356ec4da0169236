//! The form of a route, and finding the one a path names (specification 06 §1.4).

use super::call::Call;
use super::failure::Failure;

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

/// Who may call a route (specification 06 §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anyone.
    Public,
    /// Only callers from this machine, or from addresses that count as such.
    Local,
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
    /// What answers it.
    pub handler: Handler,
}

/// A public GET route.
pub const fn get(path: &'static str, handler: Handler) -> Route {
    Route { method: Method::Get, path, access: Access::Public, fills_pool: false, handler }
}

/// A public POST route.
pub const fn post(path: &'static str, handler: Handler) -> Route {
    Route { method: Method::Post, path, access: Access::Public, fills_pool: false, handler }
}

impl Route {
    /// The same route, for local callers only.
    pub const fn local(self) -> Route {
        Route { access: Access::Local, ..self }
    }

    /// The same route, said to put something into the pool.
    pub const fn into_the_pool(self) -> Route {
        Route { fills_pool: true, ..self }
    }
}

/// The routes of one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mapped<'a> {
    get: Option<&'a Route>,
    post: Option<&'a Route>,
}

impl<'a> Mapped<'a> {
    /// The routes of a path; `None` if it has none.
    pub fn find(routes: &'a [Route], path: &str) -> Option<Mapped<'a>> {
        let mut mapped = Mapped::default();
        for route in routes.iter().filter(|route| route.path == path) {
            match route.method {
                Method::Get => mapped.get = Some(route),
                Method::Post => mapped.post = Some(route),
            }
        }
        (mapped.get.is_some() || mapped.post.is_some()).then_some(mapped)
    }

    /// The route for a method as sent; methods are case-sensitive.
    pub fn by_method(&self, method: &str) -> Option<&'a Route> {
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
