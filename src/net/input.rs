//! Input of a connection: its protocol, and the request or message in progress.

use super::access_log::AccessLogEntry;
use super::client_table::RateLimit;
use super::connection::{Closing, RequestState};
use super::connections::Connections;
use super::forwarded::TrustedProxies;
use super::http::{Gzip, HttpError, Request, RequestReader, Response};
use super::service::{Client, Effects, Event, Exchange, Progress, Service};
use super::socket::Socket;
use super::websocket::{WsConnection, WsEvent};

/// Units charged per request or message, and bytes per further unit: bytes of responses and all received bytes.
const UNITS_PER_INPUT: u32 = 2;
pub(super) const BYTES_PER_UNIT: usize = 1024;

/// Chunks of a body per unit of work. 16 chunks of one byte take half a microsecond to one.
const CHUNKS_PER_UNIT: u32 = 16;

/// Websocket frames per unit of work, with or without a message.
const FRAMES_PER_UNIT: u32 = 8;

/// Protocol of the connection.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // every connection begins with the larger one
enum Protocol {
    Http(RequestReader),
    WebSocket(WsConnection),
}

/// A response in progress, kept while its request is unfinished, suspended or held.
#[derive(Debug, Default)]
struct PendingResponse {
    response: Response,
    /// Chunks have been sent.
    has_begun: bool,
    /// Bytes sent in chunks.
    sent: usize,
    /// The connection must be closed after it.
    close: bool,
}

/// Result of [`Input::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A request or message was handled; there may be another.
    Handled,
    /// The websocket has ended.
    Closed,
    /// Waits for input or for the service.
    Waiting,
    /// Waits until the client has taken some output.
    Paused,
    /// The budget of this turn is used up.
    Exhausted,
}

/// Context for processing input, shared by all connections.
pub(super) struct Context<'a, M, S> {
    pub service: &'a mut M,
    pub connections: &'a mut Connections<S>,
    pub response: &'a mut Response,
    pub gzip: &'a mut Gzip,
    pub trusted_proxies: &'a TrustedProxies,
    /// The server is shutting down: each response is the last of its connection.
    pub is_draining: bool,
}

/// Received bytes and their protocol.
#[derive(Debug)]
pub(super) struct Input {
    protocol: Protocol,
    pending: Option<Box<PendingResponse>>,
}

impl Input {
    pub fn new() -> Input {
        Input { protocol: Protocol::Http(RequestReader::new(0)), pending: None }
    }

    /// Returns whether no request has begun.
    pub fn is_between_requests(&self) -> bool {
        matches!(&self.protocol, Protocol::Http(reader) if !reader.is_partial())
    }

    /// Returns whether a response was sent in part.
    pub fn has_partial_response(&self) -> bool {
        self.pending.as_ref().is_some_and(|kept| kept.has_begun)
    }

    /// Appends received bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        match &mut self.protocol {
            Protocol::Http(reader) => reader.receive(bytes),
            Protocol::WebSocket(websocket) => websocket.receive(bytes),
        }
    }

    /// Drops all input.
    pub fn clear(&mut self) {
        *self = Input::new();
    }

    /// Handles the next request or message, or continues the one in progress.
    pub fn step<M: Service, S: Socket>(&mut self, slot: usize, context: &mut Context<'_, M, S>) -> Step {
        let limit = context.connections.limits.output_bytes;
        let Some(connection) = context.connections.slab.get(slot) else { return Step::Waiting };
        if connection.closing != Closing::Open || connection.request_state.is_waiting() {
            return Step::Waiting;
        }
        if connection.output.pending() > limit {
            return Step::Paused;
        }
        let (is_at_end, is_websocket) = (connection.is_at_end(), matches!(self.protocol, Protocol::WebSocket(_)));
        let step = if is_websocket { self.step_websocket(slot, context) } else { self.step_http(slot, context) };
        let Some(connection) = context.connections.slab.get_mut(slot) else { return step };
        if step == Step::Waiting && is_at_end && connection.request_state == RequestState::Idle {
            connection.closing = Closing::AfterOutput;
            if is_websocket {
                return Step::Closed;
            }
        }
        step
    }

    fn step_http<M: Service, S: Socket>(&mut self, slot: usize, context: &mut Context<'_, M, S>) -> Step {
        let Protocol::Http(reader) = &mut self.protocol else { return Step::Waiting };
        let request = match next_request(reader, slot, context) {
            Ok(Some(request)) => request,
            Ok(None) => return Step::Waiting,
            Err(error) => {
                self.clear();
                context.connections.reject(slot, error);
                return Step::Waiting;
            }
        };
        let mut pending = self.pending.take();
        let progress = exchange(&request, slot, &mut pending, context);
        let Some(connection) = context.connections.slab.get_mut(slot) else { return Step::Waiting };
        let caller = connection.client;
        let out = connection.output.queue();
        let waiting = out.len();
        if progress != Progress::Done {
            let mut kept = pending.unwrap_or_default();
            kept.write_chunk(context.response, &request, false, out);
            kept.sent += out.len() - waiting;
            kept.swap_response(context.response);
            self.pending = Some(kept);
            reader.restore_last();
            connection.request_since = connection.request_since.or(Some(context.connections.now));
            connection.request_state = request_state_of(progress);
            return if connection.request_state.is_waiting() { Step::Waiting } else { Step::Exhausted };
        }
        let since = connection.request_since.take().unwrap_or(context.connections.now);
        connection.request_state = RequestState::Idle;
        let sent = pending.as_ref().map_or(0, |kept| kept.sent);
        let close = match pending.or_else(|| context.response.is_streaming.then(Box::default)) {
            Some(mut kept) if context.response.is_streaming => kept.write_chunk(context.response, &request, true, out),
            _ => context.response.write(&request, context.gzip, out),
        };
        let bytes = sent + out.len() - waiting;
        let status = if context.response.upgrade.is_some() { 101 } else { context.response.status };
        AccessLogEntry { request: &request, client: caller, status, bytes, started: since }.log();
        context.connections.counters.count_response(context.response.route_id, status, since.elapsed());
        if context.response.is_secret {
            connection.output.wipe_when_sent();
            context.response.reset();
        }
        if context.response.upgrade.take().is_some() {
            let mut websocket = WsConnection::new();
            websocket.receive(reader.remaining());
            self.protocol = Protocol::WebSocket(websocket);
            return open_websocket(slot, context);
        }
        if close {
            connection.closing = Closing::AfterOutput;
        }
        let proxy = Client::direct(connection.listener, connection.peer);
        if context.trusted_proxies.is_trusted(proxy.address) {
            // The next request of a proxy may be of another client.
            context.connections.set_client(slot, &proxy);
        }
        Step::Handled
    }

    fn step_websocket<M: Service, S: Socket>(&mut self, slot: usize, context: &mut Context<'_, M, S>) -> Step {
        let Protocol::WebSocket(websocket) = &mut self.protocol else { return Step::Waiting };
        let Context { service: machine, connections, .. } = context;
        let (now, moment) = (connections.now, connections.time);
        let Some(connection) = connections.slab.get_mut(slot) else { return Step::Waiting };
        let socket = connection.id;
        let progress = if connection.request_state == RequestState::Yielded {
            machine.handle(Event::WebSocketResumed { socket }, moment, *connections)
        } else {
            let event = websocket.next_event(connection.output.queue());
            connection.output.end_message(now);
            match event {
                None => {
                    connections.charge(socket, websocket.take_frames().div_ceil(FRAMES_PER_UNIT));
                    return Step::Waiting;
                }
                Some(WsEvent::Message { data, is_text }) => {
                    connection.record_message(now);
                    connections.charge(socket, UNITS_PER_INPUT);
                    machine.handle(Event::WebSocketMessage { socket, message: data, is_text }, moment, *connections)
                }
                Some(WsEvent::Closed { code, reason, by_client }) => {
                    log::debug!("{socket:?}: websocket closed: {code} {reason}");
                    connection.closing = if by_client { Closing::AfterOutput } else { Closing::Linger };
                    return Step::Closed;
                }
            }
        };
        let Some(connection) = connections.slab.get_mut(slot) else { return Step::Waiting };
        connection.request_state = match progress {
            // The service may have closed it while handling the event.
            _ if !connection.is_websocket => RequestState::Idle,
            Progress::Streaming => RequestState::Suspended,
            taken => request_state_of(taken),
        };
        match progress {
            Progress::Done => Step::Handled,
            Progress::Yield => Step::Exhausted,
            Progress::Suspended | Progress::Streaming => Step::Waiting,
        }
    }

    /// Lends the reactor's buffer for a turn.
    pub fn acquire(&mut self, storage: &mut Vec<u8>) {
        match &mut self.protocol {
            Protocol::Http(reader) => reader.acquire(storage),
            Protocol::WebSocket(websocket) => websocket.acquire(storage),
        }
    }

    /// Returns the lent buffer.
    pub fn release(&mut self, storage: &mut Vec<u8>) {
        match &mut self.protocol {
            Protocol::Http(reader) => reader.release(storage),
            Protocol::WebSocket(websocket) => websocket.release(storage),
        }
    }

    /// Returns the allocated bytes, those of a response in progress included.
    pub fn held_bytes(&self) -> usize {
        let input = match &self.protocol {
            Protocol::Http(reader) => reader.held_bytes(),
            Protocol::WebSocket(websocket) => websocket.held_bytes(),
        };
        input + self.pending.as_ref().map_or(0, |kept| kept.response.body.capacity())
    }
}

impl PendingResponse {
    /// Swaps the response in progress with the shared one. Once chunks are sent, its body is empty between turns, and
    /// the body's allocation stays with the shared one.
    fn swap_response(&mut self, response: &mut Response) {
        std::mem::swap(response, &mut self.response);
        if self.has_begun {
            self.response.body.clear();
            std::mem::swap(&mut response.body, &mut self.response.body);
        }
    }

    /// Writes the body as a chunk if the response is streamed, with the head before the first chunk. Returns whether
    /// the connection must be closed after the response.
    fn write_chunk(
        &mut self,
        response: &mut Response,
        request: &Request<'_>,
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        if response.is_streaming {
            if !std::mem::replace(&mut self.has_begun, true) {
                self.close = response.write_streaming_head(request, out);
            }
            response.write_chunk(request, is_last, out);
        }
        self.close || response.close
    }
}

fn request_state_of(progress: Progress) -> RequestState {
    match progress {
        Progress::Done => RequestState::Idle,
        Progress::Yield => RequestState::Yielded,
        Progress::Suspended => RequestState::Suspended,
        Progress::Streaming => RequestState::Streaming,
    }
}

/// Returns the next complete request.
fn next_request<'r, M: Service, S: Socket>(
    reader: &'r mut RequestReader,
    slot: usize,
    context: &mut Context<'_, M, S>,
) -> Result<Option<Request<'r>>, HttpError> {
    let Context { service: machine, connections, trusted_proxies: trust, .. } = context;
    let Some(connection) = connections.slab.get(slot) else { return Ok(None) };
    let (id, listener, is_proxy) = (connection.id, connection.listener, trust.is_trusted(connection.peer));
    let advanced = reader.advance(|method, path| machine.body_limit(listener, method, path));
    connections.charge_input(id, is_proxy, reader.take_chunks().div_ceil(CHUNKS_PER_UNIT));
    let Some(connection) = connections.slab.get_mut(slot) else { return Ok(None) };
    if !advanced? {
        if reader.take_continue() {
            connection.output.queue().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let since = connection.request_since.or(Some(connections.now));
        connection.request_since = since.filter(|_| reader.is_partial());
        return Ok(None);
    }
    Ok(reader.take_request())
}

/// Hands a request to the service. A resumed request is not counted again in the client's rate.
fn exchange<M: Service, S: Socket>(
    request: &Request<'_>,
    slot: usize,
    pending: &mut Option<Box<PendingResponse>>,
    context: &mut Context<'_, M, S>,
) -> Progress {
    let Context { service: machine, connections, response: reply, trusted_proxies: trust, is_draining, .. } = context;
    let Some(connection) = connections.slab.get(slot) else { return Progress::Done };
    let (id, listener) = (connection.id, connection.listener);
    let caller = trust.client(request, listener, connection.peer);
    let is_resumed = connection.request_state != RequestState::Idle;
    let mut rate = RateLimit::Within;
    match pending {
        Some(kept) => kept.swap_response(reply),
        None => {
            reply.reset();
            reply.route_id = 0;
        }
    }
    if !is_resumed {
        rate = connections.count_request(slot, &caller);
    }
    let is_refused = rate != RateLimit::Within;
    let exchange =
        Exchange { connection: id, client: caller, request, response: reply, is_resumed, is_rate_limited: is_refused };
    let moment = connections.time;
    let progress = machine.handle(Event::Request(exchange), moment, *connections);
    // The bytes of a forwarded request were not charged when read from the proxy.
    let forwarded_bytes = if caller.is_forwarded && !is_resumed { request.body.len() } else { 0 };
    connections.charge(id, UNITS_PER_INPUT + ((reply.body.len() + forwarded_bytes) / BYTES_PER_UNIT) as u32);
    reply.close |= *is_draining || rate == RateLimit::Ban;
    progress
}

/// Reports a new websocket to the service.
fn open_websocket<M: Service, S: Socket>(slot: usize, context: &mut Context<'_, M, S>) -> Step {
    let Context { service: machine, connections, is_draining, .. } = context;
    let Some(connection) = connections.slab.get_mut(slot) else { return Step::Waiting };
    connection.output.end_message(connections.now);
    connection.is_websocket = true;
    let (socket, client) = (connection.id, connection.client);
    connections.stats.websockets += 1;
    let moment = connections.time;
    machine.handle(Event::WebSocketOpened { socket, client }, moment, *connections);
    if *is_draining {
        connections.close(socket, 1001, "");
    }
    Step::Handled
}
