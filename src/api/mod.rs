//! The HTTP interface on port 7890.
//!
//! [`Api::answer`] finds the route of a request in the route table and calls its handler, which reads a snapshot of the
//! chain ([`ChainView`]), calls the node ([`Actions`]) and writes one view into the response. A response that can be
//! long is a [`LongView`], written in budgeted steps; [`Api`] keeps it under the connection that waits for it until it
//! is complete.
//!
//! | part | what it is |
//! |---|---|
//! | [`views`] | response objects, written as JSON or binary |
//! | [`ChainView`], [`Actions`] | the snapshot that handlers read, and the calls to the node |
//! | [`long`] | streamed responses |
//! | `openapi` | the OpenAPI document |
//! | [`LoadingApi`] | the interface of a node that has no chain yet |
//! | [`call`] | the context of one request |
//! | `audits` | the recent requests, for the operator |
//! | `routes` | the route table and the handlers |

mod actions;
mod audits;
pub mod budget;
pub mod call;
mod chain_view;
mod failure;
mod loading;
pub mod long;
pub mod media;
mod openapi;
mod path;
pub(crate) mod percent;
mod query;
mod reply;
mod rights;
pub mod route;
mod routes;
mod secret;
mod settings;
#[cfg(test)]
mod tests;
mod unfinished;
pub mod views;

pub use actions::{Actions, BootRequest};
pub use budget::Budget;
pub use call::Now;
pub use chain_view::{BlockCursor, BlockReader, ChainView, Page, RawTransaction};
pub use failure::Failure;
pub use loading::LoadingApi;
pub use long::{AccountWriter, BlockWriter, LongView, Sheet};
pub use routes::ROUTES;
pub use settings::{Features, Settings};
pub use views::{
    AccountInfo, AccountMeta, ClockState, MultisigInfo, NodeDescription, NodeStatus, RemoteStatus, UnlockedInfo,
};

use audits::Audits;
use budget::cost;
use call::Call;
use media::{Format, Wanted};
use path::Unusual;
use reply::Writer;
use route::{Access, BodyLimit, Mapped, Route, RouteMap};
use unfinished::Unfinished;

use crate::codec::json::JsonSink;
use crate::net::ClientKey;
use crate::net::http::{Reply, Request};
use crate::net::machine::{Caller, ConnectionId, Exchange, Taken};

/// Body size in bytes from which an incomplete JSON response is streamed. A streamed response is not compressed.
const PIECE_BYTES: usize = 256 << 10;
/// The same for the binary format, which peers use: they request the largest responses, and never compressed.
const BINARY_PIECE_BYTES: usize = 32 << 10;

/// Route id of the first route of the table; the others follow in order. The reactor counts requests by route id.
pub const FIRST_KIND: usize = 1;

/// The HTTP interface.
pub struct Api {
    settings: Settings,
    routes: RouteMap,
    /// Routes of the metrics listener.
    metrics_routes: RouteMap,
    json: JsonSink,
    unfinished: Unfinished,
    audits: Audits,
}

impl Api {
    /// Creates the interface.
    pub fn new(mut settings: Settings) -> Api {
        let audits = Audits::new(std::mem::take(&mut settings.unaudited_paths));
        let routes = RouteMap::new(ROUTES, |_| true);
        let metrics_routes = RouteMap::new(ROUTES, |route| route.access == Access::Metrics);
        let json = JsonSink::default();
        Api { settings, routes, metrics_routes, json, unfinished: Unfinished::default(), audits }
    }

    /// Replaces the settings, from the next request on.
    pub fn change(&mut self, mut settings: Settings) {
        self.audits.leave_out(std::mem::take(&mut settings.unaudited_paths));
        self.settings = settings;
    }

    /// Returns the maximum body size of a request in bytes.
    pub fn body_limit(&self, method: &str, path: &str) -> usize {
        let limit = self.route(method, path).map_or(BodyLimit::Small, |route| route.body_limit);
        limit.bytes(self.settings.pushed_bytes)
    }

    /// Returns whether a request has local access.
    pub fn is_local(&self, caller: &Caller, request: &Request<'_>) -> bool {
        rights::is_local(caller, request, &self.settings)
    }

    /// Returns whether the route of a request writes to the mempool.
    pub fn fills_pool(&self, method: &str, path: &str) -> bool {
        self.route(method, path).is_some_and(|route| route.fills_pool)
    }

    fn route(&self, method: &str, path: &str) -> Option<&'static Route> {
        match find(&self.routes, self.settings.inner_path(path)) {
            Lookup::Found(mapped, _) => mapped.by_method(method).map(|(_, route)| route),
            Lookup::Unknown | Lookup::Malformed => None,
        }
    }

    /// Writes a 500 response for a request that the node failed before it handled it.
    pub fn fail(&mut self, now: Now, reply: &mut Reply) {
        reply.reset();
        let mut writer = Writer { reply, json: &mut self.json, wanted: Wanted::JSON, now: now.network };
        writer.common_headers();
        writer.container_error(500);
    }

    /// Answers a request, or continues a suspended or unfinished response, on a snapshot of the last commit. The cost
    /// is charged to the budget, which it can overrun by one unit of work. Returns `Parked` if the response waits for a
    /// peer or for other long responses of the same client; [`Api::take_due`] returns the connections to resume.
    pub fn answer(
        &mut self,
        exchange: &mut Exchange<'_>,
        view: &ChainView<'_>,
        actions: &mut dyn Actions,
        now: Now,
        budget: &mut Budget,
    ) -> Taken {
        budget.spend(cost::REQUEST);
        let rest = self.unfinished.take(exchange.connection).filter(|_| exchange.is_resumed);
        let client = ClientKey::of(&exchange.caller, self.settings.ipv6_prefix);
        let Api { settings, routes, metrics_routes, json, unfinished, audits } = self;
        audits.look();
        let (request, caller) = (exchange.request, exchange.caller);
        let (routes, path) = match caller.listener == settings.metrics_listener {
            true => (metrics_routes, request.path),
            false => (routes, settings.inner_path(request.path)),
        };
        let writer = Writer { reply: exchange.reply, json, wanted: Wanted::JSON, now: now.network };
        let mut call = Call { request, caller, path, view, actions, settings, audits, now, budget, writer, rest: None };
        let result = match rest {
            Some(rest) => rest.and_then(|rest| resume(&mut call, routes, rest)),
            None => begin(&mut call, routes, exchange.is_refused),
        };
        let kept = result.and_then(|()| match call.rest.take() {
            Some((rest, taken)) => keep(&mut call, rest, taken, unfinished, (exchange.connection, client)),
            None => Ok(Taken::Done),
        });
        let taken = kept.unwrap_or_else(|failure| {
            call.writer.failure(&failure);
            Taken::Done
        });
        unfinished.go_on(client);
        match taken {
            Taken::Done => audits.end(exchange.connection),
            _ => audits.wait(exchange.connection),
        }
        taken
    }

    /// Drops the unfinished response of a connection that was closed.
    pub fn gone(&mut self, connection: ConnectionId) {
        self.unfinished.gone(connection);
        self.audits.end(connection);
    }

    /// Returns the parked connections that can be resumed, each once.
    pub fn take_due(&mut self) -> Vec<ConnectionId> {
        self.unfinished.take_due()
    }
}

/// Starts a response. The order of the checks decides which error the client gets.
fn begin(call: &mut Call<'_>, routes: &RouteMap, is_refused: bool) -> Result<(), Failure> {
    let (request, writer) = (call.request, &mut call.writer);
    writer.reply.reset();
    writer.reply.compress = call.settings.compress;
    if is_refused {
        writer.too_many_requests();
        return Ok(());
    }
    writer.common_headers();
    let mapped = match find(routes, call.path) {
        Lookup::Found(mapped, wanted) => {
            writer.wanted = wanted.unwrap_or_else(|| Wanted::by_accept(request.header("Accept")));
            mapped
        }
        Lookup::Unknown => {
            match request.method {
                "GET" | "POST" | "HEAD" => writer.container_error(404),
                _ => writer.reply.status = 404,
            }
            return Ok(());
        }
        Lookup::Malformed => {
            writer.bad_message();
            return Ok(());
        }
    };
    if request.method == "OPTIONS" {
        call.audits.begin(call.path, call.caller.address, call.now.network);
        if !is_preflight(request) {
            writer.reply.header("Allow", mapped.allow());
        }
        return Ok(());
    }
    let Some((number, route)) = mapped.by_method(request.method) else {
        return Err(Failure::Internal(format!("Request method '{}' not supported", request.method).into()));
    };
    call.writer.reply.kind = FIRST_KIND + number;
    if !call.may_use(route.access) {
        let (peer, path) = (call.caller.address, call.path);
        return Err(Failure::Refused(format!("remote {peer} attempted to call local {path}")));
    }
    call.audits.begin(call.path, call.caller.address, call.now.network);
    (route.handler)(call)
}

/// Continues a response whose head is written.
fn resume(call: &mut Call<'_>, routes: &RouteMap, rest: Box<dyn LongView>) -> Result<(), Failure> {
    if let Lookup::Found(_, wanted) = find(routes, call.path) {
        call.writer.wanted = wanted.unwrap_or_else(|| Wanted::by_accept(call.request.header("Accept")));
    }
    call.resume(rest)
}

/// Stores the rest of a response after a step that returned `taken`. It is streamed from then on if its body is large.
fn keep(
    call: &mut Call<'_>,
    rest: Box<dyn LongView>,
    taken: Taken,
    unfinished: &mut Unfinished,
    (connection, client): (ConnectionId, ClientKey),
) -> Result<Taken, Failure> {
    let Writer { reply, wanted, .. } = &mut call.writer;
    let piece_bytes = wanted.format.filter(|format| rest.can_be_cut(*format)).map(|format| match format {
        Format::Json => PIECE_BYTES,
        Format::Binary => BINARY_PIECE_BYTES,
    });
    let bytes = rest.held_bytes() + reply.body.len();
    let kept = unfinished.keep(connection, client, rest, bytes, taken)?;
    // A parked response must not be sent yet.
    reply.pieces |= kept == Taken::Unfinished && piece_bytes.is_some_and(|least| reply.body.len() >= least);
    Ok(kept)
}

/// Returns whether a request is a CORS preflight.
fn is_preflight(request: &Request<'_>) -> bool {
    request.header("Origin").is_some() && request.header("Access-Control-Request-Method").is_some()
}

/// Result of a path lookup.
enum Lookup {
    /// The routes of the path, and the format that its extension requests.
    Found(Mapped, Option<Wanted<'static>>),
    Unknown,
    Malformed,
}

fn find(routes: &RouteMap, path: &str) -> Lookup {
    if let Some(mapped) = routes.find(path::without_trailing_slash(path)) {
        return Lookup::Found(mapped, None);
    }
    match path::normalise(path) {
        Unusual::No => Lookup::Unknown,
        Unusual::Malformed => Lookup::Malformed,
        Unusual::Spelling(spelling) => match routes.find(&spelling.path) {
            Some(mapped) => Lookup::Found(mapped, spelling.wanted()),
            None => Lookup::Unknown,
        },
    }
}
