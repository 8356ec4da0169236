//! The HTTP interface on port 7890.
//!
//! [`Api::route`] finds the route of a request in the route table, once. [`Api::answer`] calls its handler, which reads and
//! changes the node ([`NodeContext`]) and writes one view into the response. A response that can be long is a [`ResponseStream`],
//! written in budgeted steps; [`Api`] keeps it under the connection that waits for it until it is complete.
//!
//! | part | what it is |
//! |---|---|
//! | `routes` | the route table |
//! | `accounts`, `blocks`, `mosaics`, … | a resource each: its handlers, views and streams |
//! | `body_parser` | large bodies, parsed in steps and in turns |
//! | `request_context` | what a handler receives: parameters of the request, the node, the response |
//! | `access` | who may use a route, and the settings of the interface |
//! | [`streams`] | streamed responses, and those in progress by connection |
//! | [`events`] | the stream of events, and what all such streams share |
//! | `response` | writing of views, media types, and responses that are kept until the chain changes |

mod access;
mod account_history;
mod accounts;
mod blocks;
mod body_parser;
mod debug;
mod error;
pub mod events;
pub mod explorer;
mod harvesting;
mod mempool;
mod mosaics;
mod namespaces;
mod node;
mod peer_requests;
mod peers;
mod request_context;
mod response;
pub mod routes;
pub mod streams;
#[cfg(test)]
pub(crate) mod tests;
mod transaction_status;
mod transactions;
mod transfers;

pub use access::{Features, Settings};
pub use accounts::{AccountBody, AccountInfo, AccountMeta, AccountPair, MultisigInfo};
pub use blocks::BlockBody;
pub use error::ApiError;
pub use events::EventFeed;
pub use explorer::Explorer;
pub use mosaics::{DefinitionAndSupply, definitions_owned_by, mosaics_owned_by, supply_of};
pub use namespaces::namespaces_rented_by;
pub use node::{BootRequest, ClockState, NodeStatus, OPENAPI, RequestResult, ResultKind};
pub use request_context::{Command, NodeContext, Page, RequestContext};
pub use response::{MAX_CACHED_BYTES, container_error, too_many_requests};
pub use routes::ROUTES;
pub use streams::MAX_LIST_BYTES;
pub use transaction_status::TransactionStatus;
pub use transactions::{TransactionMeta, TransactionPair};
pub use transfers::{ALL_TRANSFERS, transfer_page};

pub use crate::codec::Format;
/// An object of the interface.
pub use crate::codec::Writable as View;
pub use crate::mempool::AccountSearch;
pub use crate::state::{LinkPhase, RemoteStatus};

use std::time::Duration;

use body_parser::{BodyParser, ParsingTurns};
use debug::RequestHistory;
use response::{Accept, ResponseCache, ResponseWriter};
use routes::{BodyLimit, MalformedPath, PathRoutes, Route};
use streams::{KeptLists, PendingStreams, ResponseStream};

use crate::budget::cost;
use crate::codec::json::JsonEncoder;
use crate::codec::lenient_json::Parser;
use crate::local_cookie;
use crate::metrics::{self, Exposition};
use crate::model::Timestamp;
use crate::net::SharedBytesCounter;
use crate::net::http::{HttpError, MatchedRoute, Request, Response};
use crate::net::service::{ConnectionId, Exchange, ListenerId, Progress};
use crate::quota::Owner;

/// Body size in bytes from which an incomplete JSON response is streamed. A streamed response is not compressed.
const STREAM_THRESHOLD_BYTES: usize = 256 << 10;
/// The same for the binary format, which peers use: they request the largest responses, and never compressed.
const BINARY_STREAM_THRESHOLD_BYTES: usize = 32 << 10;

/// Result of a step of a response.
pub struct Answer {
    /// Whether the response is complete.
    pub progress: Progress,
    /// What the node is to do; it must call [`Api::fail`] if that fails.
    pub command: Option<Command>,
    /// Work units spent, at most one unit of work more than the budget.
    pub used_units: u32,
}

/// The HTTP interface.
#[derive(Default)]
pub struct Api {
    /// The settings.
    pub settings: Settings,
    json: JsonEncoder,
    /// Responses in progress.
    pub pending_streams: PendingStreams,
    parsing_turns: ParsingTurns,
    request_history: RequestHistory,
    /// Responses that are kept until the chain changes.
    pub cache: ResponseCache,
    /// Lists that are written once for all clients.
    pub kept_lists: KeptLists,
}

impl Api {
    /// Creates the interface.
    pub fn new(settings: Settings) -> Api {
        Api { settings, ..Api::default() }
    }

    /// Sets what counts the bodies that many connections share.
    pub fn count_shared(&mut self, pool: SharedBytesCounter) {
        self.cache.pool = pool.clone();
        self.kept_lists.pool = pool;
    }

    /// Replaces the settings, from the next request on.
    pub fn change(&mut self, settings: Settings) {
        self.settings = settings;
        self.cache.clear();
    }

    /// Drops the cached responses, as the chain has changed.
    pub fn chain_changed(&mut self) {
        self.cache.clear();
        self.kept_lists.chain_changed();
    }

    /// Finds the route of a request, with the maximum size of its body.
    pub fn route(&self, listener: ListenerId, method: &str, path: &str) -> MatchedRoute {
        let is_metrics_listener = listener == self.settings.metrics_listener;
        let path = explorer::routed_path(self.settings.inner_path(listener, path));
        let found = PathRoutes::find(path, is_metrics_listener).ok().flatten();
        let id = found.and_then(|routes| routes.by_method(method)).unwrap_or(0);
        let limit = routes::by_id(id).map_or(BodyLimit::Small, |route| route.body_limit);
        MatchedRoute { id, body_limit: limit.bytes(self.settings.max_pushed_bytes) }
    }

    /// Answers a request, or continues a suspended or unfinished response. The progress is `Suspended` if the response
    /// waits for a peer or for a turn to parse its body, and `Queued` if it waits for other long responses of its client;
    /// [`Api::take_resumable`] returns the connections to resume.
    pub fn answer(&mut self, exchange: &mut Exchange<'_>, mut node: NodeContext<'_>) -> Answer {
        node.budget.charge(cost::REQUEST);
        let Exchange { connection, client, request, .. } = *exchange;
        let stream = self.pending_streams.remove(connection).filter(|_| exchange.is_resumed);
        let client_key = Owner::of(&client);
        if !exchange.is_resumed {
            self.parsing_turns.forget(connection, node.now.monotonic);
        }
        let Api { settings, json, pending_streams, parsing_turns, request_history, cache, kept_lists } = self;
        request_history.begin_step();
        let (path, route) = (settings.inner_path(client.listener, request.path), routes::by_id(request.route));
        let now = node.chain.now;
        let accept = accept_of(request, path, route);
        let response = ResponseWriter { response: exchange.response, json, accept, now };
        let (parsed_body, command, cache_key, pending) = (None, None, None, None);
        let mut context = RequestContext {
            request,
            client,
            connection,
            path,
            route,
            node,
            settings,
            request_history,
            kept_lists,
            parsed_body,
            command,
            cache_key,
            response,
            pending,
        };
        let begun = match stream {
            Some(stream) => stream.and_then(|stream| context.run_stream(stream)).map(|()| Progress::Done),
            None => begin(&mut context, exchange.is_rate_limited, cache, parsing_turns),
        };
        let stored = begun.and_then(|progress| match context.pending.take() {
            None => Ok(progress),
            // The head is that of a response to GET, whose body would be endless.
            Some((_, Progress::Streaming)) if context.request.method == "HEAD" => {
                context.response.response.is_streaming = true;
                Ok(Progress::Done)
            }
            Some((stream, progress)) => store_stream(&mut context, stream, progress, pending_streams),
        });
        let progress = stored.unwrap_or_else(|error| {
            context.response.failure(&error);
            if error.status == 401 && context.settings.needs_cookie {
                context.response.response.header("WWW-Authenticate", local_cookie::SCHEME);
            }
            Progress::Done
        });
        if let Some(key) =
            context.cache_key.filter(|_| progress == Progress::Done && context.response.response.status == 200)
        {
            cache.insert(key, &context.response.response.body);
        }
        pending_streams.activate_queued(client_key);
        match progress {
            Progress::Done => {
                context.node.events.remove(connection);
                context.request_history.finish(connection);
            }
            _ => context.request_history.suspend(connection),
        }
        Answer { progress, command: context.command, used_units: context.node.budget.used() }
    }

    /// Writes a 500 response for a request that the node failed before it handled it.
    pub fn fail_unhandled(&mut self, response: &mut Response, now: Timestamp) {
        response.reset();
        let mut writer = ResponseWriter { response, json: &mut self.json, accept: Accept::JSON, now };
        writer.common_headers();
        writer.container_error(500);
    }

    /// Replaces the response to a request whose [`Command`] failed.
    pub fn fail(&mut self, exchange: &mut Exchange<'_>, error: &ApiError, now: Timestamp) {
        let Exchange { request, client, .. } = *exchange;
        let path = self.settings.inner_path(client.listener, request.path);
        let accept = accept_of(request, path, routes::by_id(request.route));
        ResponseWriter { response: exchange.response, json: &mut self.json, accept, now }.failure(error);
    }

    /// Responds with the metrics; returns the work units spent.
    pub fn send_metrics(&self, response: &mut Response, metrics: &Exposition) -> u32 {
        response.header("Content-Type", metrics::CONTENT_TYPE);
        response.header("Cache-Control", response::NO_CACHE);
        response.body.extend_from_slice(metrics.text().as_bytes());
        cost::bytes(metrics.text().len())
    }

    /// Returns the connections to resume, each once. `now` is monotonic.
    pub fn take_resumable(&mut self, now: Duration) -> Vec<ConnectionId> {
        let mut connections = self.pending_streams.take_resumable();
        connections.extend(self.parsing_turns.grant(now));
        connections
    }

    /// Returns when [`Api::take_resumable`] must be called at the latest.
    pub fn next_due(&self) -> Option<Duration> {
        self.parsing_turns.next_due()
    }

    /// Drops the unfinished response of a connection that was closed. `now` is monotonic.
    pub fn on_disconnect(&mut self, connection: ConnectionId, now: Duration) {
        self.pending_streams.on_disconnect(connection);
        self.parsing_turns.forget(connection, now);
        self.request_history.finish(connection);
    }
}

/// Starts a response; the progress is `Suspended` if the request waits for a turn to parse its body, and then begins anew. The
/// order of the checks decides which error the client gets.
fn begin(
    context: &mut RequestContext<'_>,
    is_rate_limited: bool,
    cache: &ResponseCache,
    turns: &mut ParsingTurns,
) -> Result<Progress, ApiError> {
    let writer = &mut context.response;
    writer.response.reset();
    writer.response.compress = true;
    if is_rate_limited {
        response::too_many_requests(writer.response, writer.now);
        return Ok(Progress::Done);
    }
    writer.common_headers();
    let Some(route) = context.route else {
        return respond_without_route(context).map(|()| Progress::Done);
    };
    if !context.may_use(route.access) {
        let (peer, path) = (context.client.address, context.path);
        return Err(context.unauthorized(format!("remote {peer} attempted to call local {path}")));
    }
    let mut parser = None;
    if context.has_large_body(route) {
        let (body, client) = (context.request.body, Owner::of(&context.client));
        let Some(turn) = turns.take(context.connection, client, body.len(), context.node.now.monotonic) else {
            return Ok(Progress::Suspended);
        };
        // The handler reports a body that cannot even begin to be parsed.
        parser = Parser::new(body).ok().map(|parser| BodyParser::new(parser, turn));
    }
    context.record();
    if let NodeStatus::Loading(target) = context.node.status
        && !route.answers_while_loading
    {
        return Err(ApiError::loading(context.node.chain.height, target));
    }
    let key = context.cache_key(route);
    if let Some(body) = key.as_ref().and_then(|key| cache.get(key)) {
        context.send_shared(body);
    } else if let Some(parser) = parser {
        context.run_stream(Box::new(parser))?;
    } else {
        context.cache_key = key;
        (route.handler)(context)?;
    }
    Ok(Progress::Done)
}

/// Responds to OPTIONS, or with the reason why a request has no route.
fn respond_without_route(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let request = context.request;
    match PathRoutes::find(context.path, context.is_at_metrics_listener()) {
        Err(MalformedPath) => HttpError::malformed("Bad Request").fill_response(context.response.response),
        Ok(None) if matches!(request.method, "GET" | "POST" | "HEAD") => context.response.container_error(404),
        Ok(None) => context.response.response.status = 404,
        Ok(Some(routes)) if request.method == "OPTIONS" => {
            context.record();
            let response = &mut *context.response.response;
            if is_preflight(request) {
                // With this header, pages that read a stream by fetch resume it.
                if routes::without_trailing_slash(context.path) == "/events" {
                    response.header("Access-Control-Allow-Headers", "Last-Event-ID");
                }
            } else {
                // NIS1 sends this header twice, and so do its routes here.
                if routes.are_own() {
                    response.headers.retain(|(name, _)| name != "Allow");
                }
                response.header("Allow", routes.allow());
            }
        }
        Ok(Some(_)) => {
            return Err(ApiError::new(500, format!("Request method '{}' not supported", request.method)));
        }
    }
    Ok(())
}

/// Returns the format that a request accepts: by the extension of its path, or else by its header.
fn accept_of<'a>(request: &'a Request<'a>, path: &str, route: Option<&Route>) -> Accept<'a> {
    let Some(route) = route else { return Accept::by_accept(request.header("Accept")) };
    if route.takes_any_accept {
        return Accept::JSON;
    }
    let is_exact = route.path == routes::without_trailing_slash(path);
    let normal = if is_exact { None } else { routes::normalise(path).ok().flatten() };
    match normal.and_then(|(_, extension)| extension) {
        Some(extension) => Accept::by_extension(&extension),
        None => Accept::by_accept(request.header("Accept")),
    }
}

/// Stores the rest of a response after a step with this progress. It is streamed from then on if its body is large.
fn store_stream(
    context: &mut RequestContext<'_>,
    rest: Box<dyn ResponseStream>,
    progress: Progress,
    unfinished: &mut PendingStreams,
) -> Result<Progress, ApiError> {
    let ResponseWriter { response, accept, .. } = &mut context.response;
    let threshold = match accept.format.filter(|format| rest.is_streamable(*format)) {
        Some(Format::Json) => STREAM_THRESHOLD_BYTES,
        Some(Format::Binary) => BINARY_STREAM_THRESHOLD_BYTES,
        None => usize::MAX,
    };
    // What a stream of events has written is sent at once.
    let is_endless = progress == Progress::Streaming;
    let bytes = rest.held_bytes() + if is_endless { 0 } else { response.body.len() };
    let stored = unfinished.insert(context.connection, Owner::of(&context.client), rest, bytes, progress)?;
    // A parked response must not be sent yet.
    response.is_streaming |= is_endless || stored == Progress::Yield && response.body.len() >= threshold;
    Ok(stored)
}

/// Returns whether a request is a CORS preflight.
pub fn is_preflight(request: &Request<'_>) -> bool {
    request.header("Origin").is_some() && request.header("Access-Control-Request-Method").is_some()
}
