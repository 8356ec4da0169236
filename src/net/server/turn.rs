//! One turn of a connection: it reads, handles requests and messages, and writes, until it has no input or its budget
//! is used up.

use std::mem;
use std::net::IpAddr;

use zeroize::Zeroize;

use super::client_table::RateLimit;
use super::connection::{Closing, Input, PendingResponse, Protocol};
use super::eviction::trim;
use super::{SOCKET_WORK_PER_SECOND, Server};
use crate::http::{HttpError, Request, RequestReader};
use crate::metrics::log_response;
use crate::service::{Client, Effects, Event, Exchange, Progress, Service};
use crate::socket::Socket;
use crate::websocket::{WsConnection, WsEnd, WsEvent};

/// Units of work per turn of a connection.
const TURN_BUDGET: u32 = 100;

/// Reads from one connection per turn.
const READS_PER_TURN: usize = 2;

/// Units charged per read, in addition to its bytes. With single bytes on many sockets, polling, reading and
/// acknowledging take 25 µs per read, mostly in the kernel.
const UNITS_PER_READ: u32 = 24;

/// Units charged per request or message, and bytes per further unit: bytes of responses and all received bytes.
const UNITS_PER_INPUT: u32 = 2;
const BYTES_PER_UNIT: usize = 1024;

/// Chunks of a body per unit of work. 16 chunks of one byte take half a microsecond to one.
const CHUNKS_PER_UNIT: u32 = 16;

/// Websocket frames per unit of work, with or without a message.
const FRAMES_PER_UNIT: u32 = 8;

/// Why the handling of received input stops, or that it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
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

impl<S: Socket> Server<S> {
    /// Serves the next connection in turn. Returns whether there was one.
    pub fn serve_next(&mut self, service: &mut impl Service) -> bool {
        // Websockets that exceed their work quota are throttled.
        let refill_at = |slot: usize| {
            let websocket = self.slab.get(slot).filter(|connection| connection.is_websocket);
            websocket.and_then(|websocket| websocket.bucket.refill_at(SOCKET_WORK_PER_SECOND))
        };
        let Some(slot) = self.clients.next(self.time.monotonic, refill_at) else { return false };
        let Some(connection) = self.slab.get_mut(slot) else { return true };
        connection.is_queued = false;
        if mem::take(&mut connection.is_muted) {
            self.unmuted.push(slot);
        }
        let Some(mut input) = connection.input.take() else { return true };
        (self.current, self.spent, self.uncharged) = (Some(connection.id), 0, 0);
        input.buffer().acquire(&mut self.spare_input);
        connection.output.acquire(&mut self.spare_output);
        self.counted_until = (self.clock)();
        let stays_open = self.run(slot, &mut input, service);
        let took = self.time_of_turn();
        self.current = None;
        self.charge_owner(slot, self.uncharged, took);
        self.return_to_proxy(slot);
        input.release(&mut self.spare_input);
        trim(&mut self.spare_input);
        if stays_open && let Some(connection) = self.slab.get_mut(slot) {
            connection.input = Some(input);
            self.update_usage(slot);
        } else {
            self.remove(slot);
        }
        true
    }

    /// Runs the turn of a connection. Returns whether it stays open.
    fn run(&mut self, slot: usize, input: &mut Input, service: &mut impl Service) -> bool {
        let mut reads_left = READS_PER_TURN;
        loop {
            let step = loop {
                match self.step(slot, input, service) {
                    Step::Handled => self.stats.handled += 1,
                    step => break step,
                }
            };
            let now = self.time.monotonic;
            let Some(connection) = self.slab.get_mut(slot) else { return false };
            if connection.flush(now, &mut self.counters.sent_bytes).is_err() || connection.is_finished() {
                return false;
            }
            match step {
                Step::Paused if connection.output.pending() <= self.limits.output_bytes => continue,
                Step::Paused => return true,
                Step::Exhausted => {
                    self.enqueue(slot);
                    return true;
                }
                _ if !connection.wants_read() => return true,
                _ if reads_left == 0 => {
                    self.enqueue(slot);
                    return true;
                }
                _ => reads_left -= 1,
            }
            let Ok(count) = connection.read(&mut self.read_buffer, now) else { return false };
            self.counters.received_bytes += count as u64;
            if connection.closing == Closing::Open {
                input.buffer().receive(&self.read_buffer[..count]);
            }
            self.read_buffer[..count].zeroize();
            let is_wasted = connection.discarded_bytes > self.limits.discarded_bytes;
            let peer = connection.peer.address;
            self.charge_input(peer, UNITS_PER_READ + (count / BYTES_PER_UNIT) as u32);
            if is_wasted {
                return false;
            }
        }
    }

    /// Handles the next request or message, or continues the one in progress.
    fn step(&mut self, slot: usize, input: &mut Input, service: &mut impl Service) -> Step {
        if self.spent >= TURN_BUDGET {
            return Step::Exhausted;
        }
        let Some(connection) = self.slab.get(slot) else { return Step::Waiting };
        if connection.closing != Closing::Open || connection.is_suspended() {
            return Step::Waiting;
        }
        if connection.output.pending() > self.limits.output_bytes {
            return Step::Paused;
        }
        let (id, is_at_end) = (connection.id, connection.at_end);
        let is_websocket = matches!(input.protocol, Protocol::WebSocket(_));
        let step = match &mut input.protocol {
            Protocol::Http(_) => self.step_http(slot, input, service),
            Protocol::WebSocket(websocket) => self.step_websocket(slot, websocket, service),
        };
        let Some(connection) = self.slab.get_mut(slot) else { return step };
        let is_over = step == Step::Waiting && is_at_end && connection.progress == Progress::Done;
        if is_over {
            connection.closing = Closing::AfterOutput;
        }
        if step == Step::Closed || is_over && is_websocket {
            self.end_websocket(id);
        }
        step
    }

    /// Handles the next request, or continues the one in progress.
    fn step_http(&mut self, slot: usize, input: &mut Input, service: &mut impl Service) -> Step {
        let Input { protocol: Protocol::Http(reader), pending } = input else { return Step::Waiting };
        let is_complete = match self.read_request(slot, reader, service) {
            Ok(is_complete) => is_complete,
            Err(error) => {
                *input = Input::new();
                self.send_rejection(slot, error);
                return Step::Waiting;
            }
        };
        // What comes after the head waits for a turn of the client that it names.
        if let Some(request) = reader.begun_request()
            && self.attribute(slot, &request, service)
        {
            return Step::Exhausted;
        }
        if !is_complete {
            return Step::Waiting;
        }
        let Some(connection) = self.slab.get(slot) else { return Step::Waiting };
        let Some(request) = reader.request() else { return Step::Waiting };
        let (id, is_resumed) = (connection.id, connection.progress != Progress::Done);
        let Some(client) = self.slab.get(slot).map(|connection| connection.client) else { return Step::Waiting };
        // A resumed request is not counted again in the client's rate.
        let is_counted = !is_resumed && service.is_counted(request.route);
        let rate = if is_counted { self.count_request(slot) } else { RateLimit::Within };
        let mut current = pending.take().unwrap_or_else(|| {
            let mut empty = self.spare_response.take().unwrap_or_default();
            empty.reset();
            empty
        });
        if current.has_begun {
            current.response.body = mem::take(&mut self.spare_body);
        }
        let exchange = Exchange {
            connection: id,
            client,
            request: &request,
            response: &mut current.response,
            is_resumed,
            is_rate_limited: rate != RateLimit::Within,
        };
        let progress = service.handle(Event::Request(exchange), self.time, self);
        // The bytes of a forwarded request were not charged when read from the proxy.
        let forwarded_bytes = if client.is_forwarded && !is_resumed { request.body.len() } else { 0 };
        let bytes = current.response.plain_body().len() + forwarded_bytes;
        self.charge(id, UNITS_PER_INPUT + (bytes / BYTES_PER_UNIT) as u32);
        current.response.close |= self.is_draining || rate == RateLimit::Ban;
        let Some(connection) = self.slab.get_mut(slot) else { return Step::Waiting };
        connection.progress = progress;
        let is_complete = progress == Progress::Done;
        current.write(&request, is_complete, &mut self.gzip, &mut connection.output);
        if !is_complete {
            if current.has_begun {
                // Between turns the body is empty; its memory serves other streams.
                self.spare_body = mem::take(&mut current.response.body);
                trim(&mut self.spare_body);
            }
            if progress == Progress::Streaming {
                reader.drop_body();
            }
            connection.request_since.get_or_insert(self.time.monotonic);
            *pending = Some(current);
            return if connection.is_suspended() { Step::Waiting } else { Step::Exhausted };
        }
        let is_upgrade = self.finish_response(slot, &request, current);
        reader.finish_request();
        if is_upgrade {
            let mut websocket = WsConnection::default();
            websocket.receive(reader.buffer.unread());
            input.protocol = Protocol::WebSocket(websocket);
            return self.open(slot, service);
        }
        Step::Handled
    }

    /// Reads on. Returns whether a request is complete.
    fn read_request(
        &mut self,
        slot: usize,
        reader: &mut RequestReader,
        service: &impl Service,
    ) -> Result<bool, HttpError> {
        let Some(connection) = self.slab.get(slot) else { return Ok(false) };
        let (peer, listener) = (connection.peer.address, connection.peer.listener);
        let result = reader.advance(|method, path| service.route(listener, method, path));
        self.charge_input(peer, reader.take_chunks().div_ceil(CHUNKS_PER_UNIT));
        let is_complete = result?;
        if !is_complete && let Some(connection) = self.slab.get_mut(slot) {
            if reader.take_continue() {
                connection.output.queue().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            let since = connection.request_since.or(Some(self.time.monotonic));
            connection.request_since = since.filter(|_| reader.is_partial());
        }
        Ok(is_complete)
    }

    /// Logs and counts a response that is written, and keeps its memory for the next one. Returns whether the connection
    /// becomes a websocket.
    fn finish_response(&mut self, slot: usize, request: &Request<'_>, mut current: Box<PendingResponse>) -> bool {
        let Some(connection) = self.slab.get_mut(slot) else { return false };
        let since = connection.request_since.take().unwrap_or(self.time.monotonic);
        let took = (self.clock)().saturating_sub(since);
        let response = &mut current.response;
        let is_upgrade = response.upgrade.take().is_some();
        if !is_upgrade && (current.close || response.close) {
            connection.closing = Closing::AfterOutput;
        }
        let status = if is_upgrade { 101 } else { response.status };
        log_response(request, connection.client.address, status, current.written, took);
        self.counters.count_response(request.route, status, took);
        if response.is_secret {
            connection.output.is_secret = true;
            response.reset();
        }
        self.spare_response = Some(current);
        // The next request of a proxy may be of another client.
        connection.is_attributed = is_upgrade;
        if self.limits.trusted_proxies.contains(connection.peer.address) {
            let (units, took) = (mem::take(&mut self.uncharged), self.time_of_turn());
            self.charge_owner(slot, units, took);
        }
        is_upgrade
    }

    fn step_websocket(&mut self, slot: usize, websocket: &mut WsConnection, service: &mut impl Service) -> Step {
        let now = self.time.monotonic;
        let Some(connection) = self.slab.get_mut(slot) else { return Step::Waiting };
        let socket = connection.id;
        let progress = if connection.progress == Progress::Yield {
            service.handle(Event::WebSocketResumed { socket }, self.time, self)
        } else {
            let event = websocket.next_event(connection.output.queue());
            connection.output.end_message(now);
            match event {
                None => {
                    self.charge(socket, websocket.take_frames().div_ceil(FRAMES_PER_UNIT));
                    return Step::Waiting;
                }
                Some(WsEvent::Message { data, is_text }) => {
                    connection.last_active = now;
                    self.charge(socket, UNITS_PER_INPUT);
                    service.handle(Event::WebSocketMessage { socket, message: data, is_text }, self.time, self)
                }
                Some(WsEvent::Closed(WsEnd { code, reason, by_client })) => {
                    log::debug!("{socket:?}: websocket closed: {code} {reason}");
                    connection.closing = if by_client { Closing::AfterOutput } else { Closing::Linger };
                    return Step::Closed;
                }
            }
        };
        let Some(connection) = self.slab.get_mut(slot) else { return Step::Waiting };
        connection.progress = match progress {
            // The service may have closed it while handling the event.
            _ if !connection.is_websocket => Progress::Done,
            Progress::Queued | Progress::Streaming => Progress::Suspended,
            progress => progress,
        };
        match progress {
            Progress::Done => Step::Handled,
            Progress::Yield => Step::Exhausted,
            Progress::Suspended | Progress::Queued | Progress::Streaming => Step::Waiting,
        }
    }

    /// Reports a new websocket to the service.
    fn open(&mut self, slot: usize, service: &mut impl Service) -> Step {
        let Some(connection) = self.slab.get_mut(slot) else { return Step::Waiting };
        connection.output.end_message(self.time.monotonic);
        connection.is_websocket = true;
        let (socket, client) = (connection.id, connection.client);
        self.stats.websockets += 1;
        service.handle(Event::WebSocketOpened { socket, client }, self.time, self);
        if self.is_draining {
            self.close(socket, 1001, "");
        }
        Step::Handled
    }

    /// Attributes a connection to the client of a request, once. Returns whether it had another owner.
    fn attribute(&mut self, slot: usize, request: &Request<'_>, service: &impl Service) -> bool {
        let Some(connection) = self.slab.get_mut(slot) else { return false };
        if mem::replace(&mut connection.is_attributed, true) {
            return false;
        }
        let mut client = Client::of(request, connection.peer, &self.limits.trusted_proxies);
        client.is_local = service.is_local(&client, request);
        self.set_client(slot, client)
    }

    /// Counts a request of the client.
    fn count_request(&mut self, slot: usize) -> RateLimit {
        let Some(connection) = self.slab.get(slot) else { return RateLimit::Within };
        let (limit, listener) = (self.limits.requests_per_second, connection.client.listener);
        self.clients.count_request(connection.owner, listener, limit, self.time.monotonic)
    }

    /// Charges received input. Input from a proxy counts against the turn's budget only.
    fn charge_input(&mut self, peer: IpAddr, units: u32) {
        self.spent = self.spent.saturating_add(units);
        if !self.limits.trusted_proxies.contains(peer) {
            self.uncharged = self.uncharged.saturating_add(units);
        }
    }
}
