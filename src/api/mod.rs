//! The HTTP interface on port 7890.
//!
//! [`Api::answer`] finds the route of a request in the route table and calls its handler, which reads a snapshot of the
//! chain ([`ChainSnapshot`]), calls the node ([`NodeHandle`]) and writes one view into the response. A response that can be
//! long is a [`ResponseStream`], written in budgeted steps; [`Api`] keeps it under the connection that waits for it until it
//! is complete.
//!
//! | part | what it is |
//! |---|---|
//! | [`views`] | response objects, written as JSON or binary |
//! | [`ChainSnapshot`], [`NodeHandle`] | the snapshot that handlers read, and the calls to the node |
//! | [`streams`] | streamed responses |
//! | `status` | whether the node answers, its metrics, and the OpenAPI document |
//! | [`LoadingApi`] | the interface of a node that has no chain yet |
//! | [`request_context`] | the context of one request |
//! | `request_history` | the recent requests, for the operator |
//! | `routes` | the route table |
//! | `accounts`, `blocks`, `mosaics`, … | a resource each: its handlers and streams |

mod account_history;
mod accounts;
mod blocks;
pub mod budget;
mod chain_snapshot;
mod error;
mod harvesting;
mod loading;
pub mod media;
mod mosaics;
mod namespaces;
mod node;
mod node_handle;
mod peer_requests;
mod pending_streams;
mod push;
pub mod request_context;
mod request_history;
mod response_writer;
pub mod routes;
mod secret;
mod settings;
mod status;
pub mod streams;
#[cfg(test)]
mod tests;
mod transactions;
mod transfers;
pub(crate) mod url;
pub mod views;

pub use accounts::AccountStream;
pub use blocks::BlockStream;
pub use budget::Budget;
pub use chain_snapshot::{BlockCursor, BlockReader, ChainSnapshot, Page, RawTransaction};
pub use error::ApiError;
pub use loading::LoadingApi;
pub use node_handle::{BootRequest, NodeHandle};
pub use request_context::Now;
pub use routes::ROUTES;
pub use settings::{Features, Settings};
pub use streams::{BodyWriter, ResponseStream};
pub use transfers::{TransferFilter, transfer_page};
pub use views::{
    AccountInfo, AccountMeta, ClockState, MultisigInfo, NodeDescription, NodeStatus, RemoteStatus, UnlockedInfo,
};

use budget::cost;
use media::{Accept, Format};
use pending_streams::PendingStreams;
use request_context::RequestContext;
use request_history::RequestHistory;
use response_writer::ResponseWriter;
use routes::{Access, BodyLimit, PathRoutes, Route, RouteMap};
use url::PathForm;

use crate::codec::json::JsonEncoder;
use crate::net::ClientKey;
use crate::net::http::{Request, Response};
use crate::net::service::{Client, ConnectionId, Exchange, Progress};

/// Body size in bytes from which an incomplete JSON response is streamed. A streamed response is not compressed.
const STREAM_THRESHOLD_BYTES: usize = 256 << 10;
/// The same for the binary format, which peers use: they request the largest responses, and never compressed.
const BINARY_STREAM_THRESHOLD_BYTES: usize = 32 << 10;

/// Route id of the first route of the table; the others follow in order. The reactor counts requests by route id.
pub const FIRST_ROUTE_ID: usize = 1;

/// The HTTP interface.
pub struct Api {
    settings: Settings,
    routes: RouteMap,
    /// Routes of the metrics listener.
    metrics_routes: RouteMap,
    json: JsonEncoder,
    pending_streams: PendingStreams,
    request_history: RequestHistory,
}

impl Api {
    /// Creates the interface.
    pub fn new(mut settings: Settings) -> Api {
        let history = RequestHistory::new(std::mem::take(&mut settings.unaudited_paths));
        let routes = RouteMap::new(ROUTES, |_| true);
        let metrics_routes = RouteMap::new(ROUTES, |route| route.access == Access::Metrics);
        let json = JsonEncoder::default();
        Api {
            settings,
            routes,
            metrics_routes,
            json,
            pending_streams: PendingStreams::default(),
            request_history: history,
        }
    }

    /// Replaces the settings, from the next request on.
    pub fn change(&mut self, mut settings: Settings) {
        self.request_history.set_excluded_paths(std::mem::take(&mut settings.unaudited_paths));
        self.settings = settings;
    }

    /// Returns the maximum body size of a request in bytes.
    pub fn body_limit(&self, method: &str, path: &str) -> usize {
        let limit = self.route(method, path).map_or(BodyLimit::Small, |route| route.body_limit);
        limit.bytes(self.settings.max_pushed_bytes)
    }

    /// Returns whether a request has local access.
    pub fn is_local(&self, client: &Client, request: &Request<'_>) -> bool {
        settings::is_local(client, request, &self.settings)
    }

    /// Returns whether the route of a request writes to the mempool.
    pub fn writes_mempool(&self, method: &str, path: &str) -> bool {
        self.route(method, path).is_some_and(|route| route.writes_mempool)
    }

    fn route(&self, method: &str, path: &str) -> Option<&'static Route> {
        match find(&self.routes, self.settings.inner_path(path)) {
            Lookup::Found(mapped, _) => mapped.by_method(method).map(|(_, route)| route),
            Lookup::Unknown | Lookup::Malformed => None,
        }
    }

    /// Writes a 500 response for a request that the node failed before it handled it.
    pub fn fail(&mut self, now: Now, reply: &mut Response) {
        reply.reset();
        let mut writer =
            ResponseWriter { response: reply, json: &mut self.json, accept: Accept::JSON, now: now.network };
        writer.common_headers();
        writer.container_error(500);
    }

    /// Answers a request, or continues a suspended or unfinished response, on a snapshot of the last commit. The cost
    /// is charged to the budget, which it can overrun by one unit of work. Returns `Suspended` if the response waits for a
    /// peer or for other long responses of the same client; [`Api::take_resumable`] returns the connections to resume.
    pub fn answer(
        &mut self,
        exchange: &mut Exchange<'_>,
        view: &ChainSnapshot<'_>,
        actions: &mut dyn NodeHandle,
        now: Now,
        budget: &mut Budget,
    ) -> Progress {
        budget.charge(cost::REQUEST);
        let stream = self.pending_streams.remove(exchange.connection).filter(|_| exchange.is_resumed);
        let client = ClientKey::of(&exchange.client, self.settings.ipv6_prefix);
        let Api { settings, routes, metrics_routes, json, pending_streams: unfinished, request_history: history } =
            self;
        history.begin_step();
        let (request, caller) = (exchange.request, exchange.client);
        let (routes, path) = match caller.listener == settings.metrics_listener {
            true => (metrics_routes, request.path),
            false => (routes, settings.inner_path(request.path)),
        };
        let writer = ResponseWriter { response: exchange.response, json, accept: Accept::JSON, now: now.network };
        let mut call = RequestContext {
            request,
            client: caller,
            path,
            chain: view,
            node: actions,
            settings,
            request_history: history,
            now,
            budget,
            writer,
            pending: None,
        };
        let result = match stream {
            Some(rest) => rest.and_then(|rest| resume(&mut call, routes, rest)),
            None => begin(&mut call, routes, exchange.is_rate_limited),
        };
        let stored = result.and_then(|()| match call.pending.take() {
            Some((rest, taken)) => store_stream(&mut call, rest, taken, unfinished, (exchange.connection, client)),
            None => Ok(Progress::Done),
        });
        let progress = stored.unwrap_or_else(|failure| {
            call.writer.failure(&failure);
            Progress::Done
        });
        unfinished.activate_queued(client);
        match progress {
            Progress::Done => history.finish(exchange.connection),
            _ => history.suspend(exchange.connection),
        }
        progress
    }

    /// Drops the unfinished response of a connection that was closed.
    pub fn on_disconnect(&mut self, connection: ConnectionId) {
        self.pending_streams.on_disconnect(connection);
        self.request_history.finish(connection);
    }

    /// Returns the parked connections that can be resumed, each once.
    pub fn take_resumable(&mut self) -> Vec<ConnectionId> {
        self.pending_streams.take_resumable()
    }
}

/// Starts a response. The order of the checks decides which error the client gets.
fn begin(context: &mut RequestContext<'_>, routes: &RouteMap, is_rate_limited: bool) -> Result<(), ApiError> {
    let (request, writer) = (context.request, &mut context.writer);
    writer.response.reset();
    writer.response.compress = context.settings.compress;
    if is_rate_limited {
        writer.too_many_requests();
        return Ok(());
    }
    writer.common_headers();
    let mapped = match find(routes, context.path) {
        Lookup::Found(mapped, wanted) => {
            writer.accept = wanted.unwrap_or_else(|| Accept::by_accept(request.header("Accept")));
            mapped
        }
        Lookup::Unknown => {
            match request.method {
                "GET" | "POST" | "HEAD" => writer.container_error(404),
                _ => writer.response.status = 404,
            }
            return Ok(());
        }
        Lookup::Malformed => {
            writer.bad_message();
            return Ok(());
        }
    };
    if request.method == "OPTIONS" {
        context.request_history.record(context.path, context.client.address, context.now.network);
        if !is_preflight(request) {
            writer.response.header("Allow", mapped.allow());
        }
        return Ok(());
    }
    let Some((number, route)) = mapped.by_method(request.method) else {
        return Err(ApiError::Internal(format!("Request method '{}' not supported", request.method).into()));
    };
    context.writer.response.route_id = FIRST_ROUTE_ID + number;
    if !context.may_use(route.access) {
        let (peer, path) = (context.client.address, context.path);
        return Err(ApiError::Unauthorized(format!("remote {peer} attempted to call local {path}")));
    }
    context.request_history.record(context.path, context.client.address, context.now.network);
    (route.handler)(context)
}

/// Continues a response whose head is written.
fn resume(context: &mut RequestContext<'_>, routes: &RouteMap, rest: Box<dyn ResponseStream>) -> Result<(), ApiError> {
    if let Lookup::Found(_, wanted) = find(routes, context.path) {
        context.writer.accept = wanted.unwrap_or_else(|| Accept::by_accept(context.request.header("Accept")));
    }
    context.resume(rest)
}

/// Stores the rest of a response after a step that returned `taken`. It is streamed from then on if its body is large.
fn store_stream(
    context: &mut RequestContext<'_>,
    rest: Box<dyn ResponseStream>,
    progress: Progress,
    unfinished: &mut PendingStreams,
    (connection, client): (ConnectionId, ClientKey),
) -> Result<Progress, ApiError> {
    let ResponseWriter { response: reply, accept: wanted, .. } = &mut context.writer;
    let threshold = wanted.format.filter(|format| rest.is_streamable(*format)).map(|format| match format {
        Format::Json => STREAM_THRESHOLD_BYTES,
        Format::Binary => BINARY_STREAM_THRESHOLD_BYTES,
    });
    let bytes = rest.held_bytes() + reply.body.len();
    let stored = unfinished.insert(connection, client, rest, bytes, progress)?;
    // A parked response must not be sent yet.
    reply.is_streaming |= stored == Progress::Yield && threshold.is_some_and(|least| reply.body.len() >= least);
    Ok(stored)
}

/// Returns whether a request is a CORS preflight.
fn is_preflight(request: &Request<'_>) -> bool {
    request.header("Origin").is_some() && request.header("Access-Control-Request-Method").is_some()
}

/// Result of a path lookup.
enum Lookup {
    /// The routes of the path, and the format that its extension requests.
    Found(PathRoutes, Option<Accept<'static>>),
    Unknown,
    Malformed,
}

fn find(routes: &RouteMap, path: &str) -> Lookup {
    if let Some(mapped) = routes.find(url::without_trailing_slash(path)) {
        return Lookup::Found(mapped, None);
    }
    match url::normalise(path) {
        PathForm::Plain => Lookup::Unknown,
        PathForm::Malformed => Lookup::Malformed,
        PathForm::Normalised(spelling) => match routes.find(&spelling.path) {
            Some(mapped) => Lookup::Found(mapped, spelling.accept()),
            None => Lookup::Unknown,
        },
    }
}
