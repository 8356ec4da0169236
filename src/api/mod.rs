//! The HTTP interface on port 7890 as a pure function of a request, a read-only ledger and a desk
//! that takes in what is to be done (specification 06).

mod answer;
pub mod call;
pub mod catalogue;
mod desk;
mod failure;
mod ledger;
pub mod media;
mod path;
pub mod rate_limit;
mod request;
pub mod route;
mod routes;
mod secret;
mod settings;
pub mod views;

pub use answer::{Answer, Header};
pub use catalogue::{Catalogue, Definitions, Namespace, Numbered, Page};
pub use desk::{Desk, UnlockRefusal, UnlockedInfo, account_meta};
pub use failure::{ErrorObject, Failure};
pub use ledger::{
    AccountInfo, AccountMeta, FoundTransaction, Ledger, MultisigInfo, NodeStatus, RemoteStatus, TransactionLookup,
};
pub use request::{Headers, Request};
pub use routes::ROUTES;
pub use settings::{Features, NodeDescription, Settings};

use answer::Writer;
use call::Call;
use media::Wanted;
use path::Unusual;
use rate_limit::RateLimiter;
use route::{Access, Mapped, Route};

use crate::codec::json::JsonSink;
use crate::model::Timestamp;

/// Raw paths, in any letter case, that are answered while the chain is loaded.
const WHILE_LOADING: [&str; 2] = ["/status", "/chain/height"];

/// The present moment, by two clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Network time.
    pub network: Timestamp,
    /// The same in milliseconds.
    pub network_millis: i64,
    /// Milliseconds of a clock that never goes back, for the rate limit.
    pub monotonic_millis: u64,
}

/// The interface.
pub struct Api {
    settings: Settings,
    routes: &'static [Route],
    limiter: RateLimiter,
    json: JsonSink,
}

impl Api {
    /// The interface with all routes.
    pub fn new(settings: Settings) -> Api {
        Api::with_routes(settings, ROUTES)
    }

    /// The interface with these routes only.
    pub fn with_routes(settings: Settings, routes: &'static [Route]) -> Api {
        Api { settings, routes, limiter: RateLimiter::default(), json: JsonSink::default() }
    }

    /// What the node tells of itself.
    pub fn node(&self) -> &NodeDescription {
        &self.settings.node
    }

    /// Answers that the node itself failed, before it could look at the request.
    pub fn fail(&mut self, now: Now, answer: &mut Answer) {
        answer.reset();
        let mut writer = Writer { answer, json: &mut self.json, wanted: Wanted::JSON, now: now.network };
        writer.answer.common_headers();
        writer.container_error(500);
    }

    /// Whether a request would put something into the pool.
    pub fn is_into_the_pool(&self, request: &Request<'_>) -> bool {
        match find(self.routes, request.path) {
            Lookup::Found(mapped, _) => mapped.by_method(request.method).is_some_and(|route| route.fills_pool),
            Lookup::Unknown | Lookup::Malformed => false,
        }
    }

    /// Answers a request, in the order of specification 06 §1.11. What `answer` held before is forgotten.
    pub fn answer(
        &mut self,
        request: &Request<'_>,
        ledger: &dyn Ledger,
        desk: &mut dyn Desk,
        now: Now,
        answer: &mut Answer,
    ) {
        answer.reset();
        let refused = self.settings.limits_rate && self.limiter.refuses(request.peer, now.monotonic_millis);
        let mut writer = Writer { answer, json: &mut self.json, wanted: Wanted::JSON, now: now.network };
        if refused {
            writer.answer.header("DoSFilter", "unavailable");
            return writer.container_error(429);
        }
        writer.answer.common_headers();
        let mapped = match find(self.routes, request.path) {
            Lookup::Found(mapped, wanted) => {
                writer.wanted = wanted.unwrap_or_else(|| Wanted::by_accept(request.header("Accept")));
                mapped
            }
            Lookup::Unknown if matches!(request.method, "GET" | "POST" | "HEAD") => {
                return writer.container_error(404);
            }
            Lookup::Unknown => {
                writer.answer.status = 404;
                return;
            }
            Lookup::Malformed => return writer.answer.bad_message(),
        };
        if request.method == "OPTIONS" {
            return options(request, ledger, mapped, writer);
        }
        let Some(route) = mapped.by_method(request.method) else {
            let text = format!("Request method '{}' not supported", request.method);
            return writer.failure(&Failure::Internal(text.into()));
        };
        let mut call = Call { request, ledger, desk, settings: &self.settings, now, writer };
        if let Err(failure) = admit(route, &call).and_then(|()| (route.handler)(&mut call)) {
            call.writer.failure(&failure);
        }
    }
}

/// What a path leads to.
enum Lookup {
    /// Routes, and the format that an extension of the path asks for.
    Found(Mapped<'static>, Option<Wanted<'static>>),
    Unknown,
    Malformed,
}

fn find(routes: &'static [Route], raw: &str) -> Lookup {
    if let Some(mapped) = Mapped::find(routes, path::without_trailing_slash(raw)) {
        return Lookup::Found(mapped, None);
    }
    match path::normalise(raw) {
        Unusual::No => Lookup::Unknown,
        Unusual::Malformed => Lookup::Malformed,
        Unusual::Spelling(spelling) => match Mapped::find(routes, &spelling.path) {
            Some(mapped) => Lookup::Found(mapped, spelling.wanted()),
            None => Lookup::Unknown,
        },
    }
}

/// Checks the caller and the state of the node.
fn admit(route: &Route, call: &Call<'_>) -> Result<(), Failure> {
    let request = call.request;
    if route.access == Access::Local && !call.is_local() {
        let peer = request.peer.to_canonical();
        return Err(Failure::Refused(format!("remote {peer} attempted to call local {}", request.path)));
    }
    check_loaded(request, call.ledger)
}

fn check_loaded(request: &Request<'_>, ledger: &dyn Ledger) -> Result<(), Failure> {
    let exempt = || WHILE_LOADING.iter().any(|path| request.path.eq_ignore_ascii_case(path));
    if ledger.is_loading() && !exempt() { Err(Failure::LOADING) } else { Ok(()) }
}

fn options(request: &Request<'_>, ledger: &dyn Ledger, mapped: Mapped<'_>, mut writer: Writer<'_>) {
    if let Err(failure) = check_loaded(request, ledger) {
        return writer.failure(&failure);
    }
    if !request.is_preflight() {
        writer.answer.header("Allow", mapped.allow());
    }
}

#[cfg(test)]
mod tests;
