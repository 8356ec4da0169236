//! Input of a connection: its protocol, and the request or message in progress.

use super::access_log::Answered;
use super::callers::Rate;
use super::connection::{Closing, Work};
use super::connections::Connections;
use super::forwarded::Trust;
use super::http::{Gzip, HttpError, Reply, Request, RequestReader};
use super::machine::{Caller, Effects, Event, Exchange, Machine, Taken};
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
struct Kept {
    reply: Reply,
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
pub(super) struct Tools<'a, M, S> {
    pub machine: &'a mut M,
    pub connections: &'a mut Connections<S>,
    pub reply: &'a mut Reply,
    pub gzip: &'a mut Gzip,
    pub trust: &'a Trust,
    /// The server is shutting down: each response is the last of its connection.
    pub is_draining: bool,
}

/// Received bytes and their protocol.
#[derive(Debug)]
pub(super) struct Input {
    protocol: Protocol,
    kept: Option<Box<Kept>>,
}

impl Input {
    pub fn new() -> Input {
        Input { protocol: Protocol::Http(RequestReader::new(0)), kept: None }
    }

    /// Returns whether no request has begun.
    pub fn is_between_requests(&self) -> bool {
        matches!(&self.protocol, Protocol::Http(reader) if !reader.is_partial())
    }

    /// Returns whether a response was sent in part.
    pub fn is_answering(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.has_begun)
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
    pub fn step<M: Machine, S: Socket>(&mut self, slot: usize, tools: &mut Tools<'_, M, S>) -> Step {
        let limit = tools.connections.limits.output_bytes;
        let Some(connection) = tools.connections.slab.get(slot) else { return Step::Waiting };
        if connection.closing != Closing::Open || connection.work.is_waiting() {
            return Step::Waiting;
        }
        if connection.output.pending() > limit {
            return Step::Paused;
        }
        let (is_at_end, is_websocket) = (connection.is_at_end(), matches!(self.protocol, Protocol::WebSocket(_)));
        let step = if is_websocket { self.step_websocket(slot, tools) } else { self.step_http(slot, tools) };
        let Some(connection) = tools.connections.slab.get_mut(slot) else { return step };
        if step == Step::Waiting && is_at_end && connection.work == Work::None {
            connection.closing = Closing::AfterOutput;
            if is_websocket {
                return Step::Closed;
            }
        }
        step
    }

    fn step_http<M: Machine, S: Socket>(&mut self, slot: usize, tools: &mut Tools<'_, M, S>) -> Step {
        let Protocol::Http(reader) = &mut self.protocol else { return Step::Waiting };
        let request = match next_request(reader, slot, tools) {
            Ok(Some(request)) => request,
            Ok(None) => return Step::Waiting,
            Err(error) => {
                self.clear();
                tools.connections.refuse(slot, error);
                return Step::Waiting;
            }
        };
        let mut kept = self.kept.take();
        let taken = exchange(&request, slot, &mut kept, tools);
        let Some(connection) = tools.connections.slab.get_mut(slot) else { return Step::Waiting };
        let caller = connection.caller;
        let out = connection.output.queue();
        let waiting = out.len();
        if taken != Taken::Done {
            let mut kept = kept.unwrap_or_default();
            kept.write_piece(tools.reply, &request, false, out);
            kept.sent += out.len() - waiting;
            kept.swap_reply(tools.reply);
            self.kept = Some(kept);
            reader.put_back();
            connection.request_since = connection.request_since.or(Some(tools.connections.now));
            connection.work = work_of(taken);
            return if connection.work.is_waiting() { Step::Waiting } else { Step::Exhausted };
        }
        let since = connection.request_since.take().unwrap_or(tools.connections.now);
        connection.work = Work::None;
        let sent = kept.as_ref().map_or(0, |kept| kept.sent);
        let close = match kept.or_else(|| tools.reply.pieces.then(Box::default)) {
            Some(mut kept) if tools.reply.pieces => kept.write_piece(tools.reply, &request, true, out),
            _ => tools.reply.write(&request, tools.gzip, out),
        };
        let bytes = sent + out.len() - waiting;
        let status = if tools.reply.upgrade.is_some() { 101 } else { tools.reply.status };
        Answered { request: &request, caller, status, bytes, since }.log();
        tools.connections.counts.answered(tools.reply.kind, status, since.elapsed());
        if tools.reply.is_secret {
            connection.output.wipe_when_sent();
            tools.reply.reset();
        }
        if tools.reply.upgrade.take().is_some() {
            let mut websocket = WsConnection::new();
            websocket.receive(reader.rest());
            self.protocol = Protocol::WebSocket(websocket);
            return open(slot, tools);
        }
        if close {
            connection.closing = Closing::AfterOutput;
        }
        let itself = Caller::itself(connection.listener, connection.peer);
        if tools.trust.is_trusted(itself.address) {
            // The next request of a proxy may be of another client.
            tools.connections.set_caller(slot, &itself);
        }
        Step::Handled
    }

    fn step_websocket<M: Machine, S: Socket>(&mut self, slot: usize, tools: &mut Tools<'_, M, S>) -> Step {
        let Protocol::WebSocket(websocket) = &mut self.protocol else { return Step::Waiting };
        let Tools { machine, connections, .. } = tools;
        let (now, moment) = (connections.now, connections.moment);
        let Some(connection) = connections.slab.get_mut(slot) else { return Step::Waiting };
        let socket = connection.id;
        let taken = if connection.work == Work::Unfinished {
            machine.handle(Event::Resumed { socket }, moment, *connections)
        } else {
            let event = websocket.next_event(connection.output.queue());
            connection.output.mark(now);
            match event {
                None => {
                    connections.charge(socket, websocket.take_frames().div_ceil(FRAMES_PER_UNIT));
                    return Step::Waiting;
                }
                Some(WsEvent::Message { data, is_text }) => {
                    connection.heard_message(now);
                    connections.charge(socket, UNITS_PER_INPUT);
                    machine.handle(Event::Heard { socket, message: data, is_text }, moment, *connections)
                }
                Some(WsEvent::Closed { code, reason, by_client }) => {
                    log::debug!("{socket:?}: websocket closed: {code} {reason}");
                    connection.closing = if by_client { Closing::AfterOutput } else { Closing::Linger };
                    return Step::Closed;
                }
            }
        };
        let Some(connection) = connections.slab.get_mut(slot) else { return Step::Waiting };
        connection.work = match taken {
            // The service may have closed it while handling the event.
            _ if !connection.is_websocket => Work::None,
            Taken::Held => Work::Parked,
            taken => work_of(taken),
        };
        match taken {
            Taken::Done => Step::Handled,
            Taken::Unfinished => Step::Exhausted,
            Taken::Parked | Taken::Held => Step::Waiting,
        }
    }

    /// Lends the reactor's buffer for a turn.
    pub fn lend(&mut self, storage: &mut Vec<u8>) {
        match &mut self.protocol {
            Protocol::Http(reader) => reader.lend(storage),
            Protocol::WebSocket(websocket) => websocket.lend(storage),
        }
    }

    /// Returns the lent buffer.
    pub fn give_back(&mut self, storage: &mut Vec<u8>) {
        match &mut self.protocol {
            Protocol::Http(reader) => reader.give_back(storage),
            Protocol::WebSocket(websocket) => websocket.give_back(storage),
        }
    }

    /// Returns the allocated bytes, those of a response in progress included.
    pub fn held_bytes(&self) -> usize {
        let input = match &self.protocol {
            Protocol::Http(reader) => reader.held_bytes(),
            Protocol::WebSocket(websocket) => websocket.held_bytes(),
        };
        input + self.kept.as_ref().map_or(0, |kept| kept.reply.body.capacity())
    }
}

impl Kept {
    /// Swaps the response in progress with the shared one. Once chunks are sent, its body is empty between turns, and
    /// the body's allocation stays with the shared one.
    fn swap_reply(&mut self, reply: &mut Reply) {
        std::mem::swap(reply, &mut self.reply);
        if self.has_begun {
            self.reply.body.clear();
            std::mem::swap(&mut reply.body, &mut self.reply.body);
        }
    }

    /// Writes the body as a chunk if the response is streamed, with the head before the first chunk. Returns whether
    /// the connection must be closed after the response.
    fn write_piece(&mut self, reply: &mut Reply, request: &Request<'_>, is_last: bool, out: &mut Vec<u8>) -> bool {
        if reply.pieces {
            if !std::mem::replace(&mut self.has_begun, true) {
                self.close = reply.write_first(request, out);
            }
            reply.write_piece(request, is_last, out);
        }
        self.close || reply.close
    }
}

fn work_of(taken: Taken) -> Work {
    match taken {
        Taken::Done => Work::None,
        Taken::Unfinished => Work::Unfinished,
        Taken::Parked => Work::Parked,
        Taken::Held => Work::Held,
    }
}

/// Returns the next complete request.
fn next_request<'r, M: Machine, S: Socket>(
    reader: &'r mut RequestReader,
    slot: usize,
    tools: &mut Tools<'_, M, S>,
) -> Result<Option<Request<'r>>, HttpError> {
    let Tools { machine, connections, trust, .. } = tools;
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
    Ok(reader.whole())
}

/// Hands a request to the service. A resumed request is not counted again in the client's rate.
fn exchange<M: Machine, S: Socket>(
    request: &Request<'_>,
    slot: usize,
    kept: &mut Option<Box<Kept>>,
    tools: &mut Tools<'_, M, S>,
) -> Taken {
    let Tools { machine, connections, reply, trust, is_draining, .. } = tools;
    let Some(connection) = connections.slab.get(slot) else { return Taken::Done };
    let (id, listener) = (connection.id, connection.listener);
    let caller = trust.caller(request, listener, connection.peer);
    let is_resumed = connection.work != Work::None;
    let mut rate = Rate::Within;
    match kept {
        Some(kept) => kept.swap_reply(reply),
        None => {
            reply.reset();
            reply.kind = 0;
        }
    }
    if !is_resumed {
        rate = connections.note_request(slot, &caller);
    }
    let is_refused = rate != Rate::Within;
    let exchange = Exchange { connection: id, caller, request, reply, is_resumed, is_refused };
    let moment = connections.moment;
    let taken = machine.handle(Event::Request(exchange), moment, *connections);
    // The bytes of a forwarded request were not charged when read from the proxy.
    let passed_on = if caller.is_forwarded && !is_resumed { request.body.len() } else { 0 };
    connections.charge(id, UNITS_PER_INPUT + ((reply.body.len() + passed_on) / BYTES_PER_UNIT) as u32);
    reply.close |= *is_draining || rate == Rate::FarOver;
    taken
}

/// Reports a new websocket to the service.
fn open<M: Machine, S: Socket>(slot: usize, tools: &mut Tools<'_, M, S>) -> Step {
    let Tools { machine, connections, is_draining, .. } = tools;
    let Some(connection) = connections.slab.get_mut(slot) else { return Step::Waiting };
    connection.output.mark(connections.now);
    connection.is_websocket = true;
    let (socket, caller) = (connection.id, connection.caller);
    connections.stats.websockets += 1;
    let moment = connections.moment;
    machine.handle(Event::Opened { socket, caller }, moment, *connections);
    if *is_draining {
        connections.close(socket, 1001, "");
    }
    Step::Handled
}
