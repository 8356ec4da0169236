//! One accepted connection: its protocol, its output, and what is due when.

use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::time::Instant;

use mio::net::TcpStream;

use super::http::{Gzip, HttpError, Reply, RequestReader};
use super::limits::Limits;
use super::output::Output;
use super::service::{Caller, ConnectionId, Outbox, Service};
use super::websocket::{WsConnection, WsEvent, write_close, write_text};

/// Whether a read or write that moves fewer bytes than asked for means that the socket has no more
/// for now, so that the call that would only say so can be saved. epoll(7) promises it for
/// edge-triggered stream sockets; elsewhere only `WouldBlock` counts.
const SHORT_IS_EXHAUSTED: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Close code for a client that does not keep up (specification 07 §13).
const TOO_SLOW: u16 = 4500;

/// What the connection speaks.
#[derive(Debug)]
enum Protocol {
    Http(RequestReader),
    WebSocket(WsConnection),
}

/// How far the end of the connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    Open,
    /// Gone as soon as the output is sent.
    AfterOutput,
    /// Once the output is sent, the client has until `Limits::linger` to close its side.
    Linger,
}

/// What one [`Connection::answer`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A request or message was handled; there may be another.
    Answered,
    /// The connection has become a websocket.
    Opened { tag: u64 },
    /// The websocket has ended.
    Closed,
    /// More input is needed.
    Waiting,
    /// The client must take some output first.
    Paused,
    /// The connection has had its share of this turn.
    Exhausted,
}

/// What time has brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing more can be said: drop it.
    Drop,
    /// The request is not complete in time.
    SlowRequest,
    /// The websocket has been silent for too long.
    IdleWebSocket,
    /// The websocket's client does not take its messages.
    SlowConsumer,
}

/// What is needed to answer, shared by all connections.
pub(super) struct Desk<'a, S> {
    pub service: &'a mut S,
    pub reply: &'a mut Reply,
    pub gzip: &'a mut Gzip,
    pub outbox: &'a mut Outbox,
    pub limits: &'a Limits,
    pub now: Instant,
    /// The reactor is shutting down: every answer is the last of its connection.
    pub is_draining: bool,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub id: ConnectionId,
    pub caller: Caller,
    pub output: Output,
    /// In the reactor's queue of connections with input.
    pub is_ready: bool,
    /// In the reactor's queue of connections with fresh output.
    pub is_dirty: bool,
    /// Bytes of memory the reactor has counted for this connection.
    pub counted_bytes: usize,
    socket: TcpStream,
    protocol: Protocol,
    closing: Closing,
    may_read: bool,
    may_write: bool,
    /// The client has closed its side, so reading goes on until that is seen.
    read_closed: bool,
    at_end: bool,
    last_active: Instant,
    request_since: Option<Instant>,
    stalled_since: Option<Instant>,
    lingering_since: Option<Instant>,
}

impl Connection {
    pub fn new(id: ConnectionId, caller: Caller, socket: TcpStream, limits: &Limits, now: Instant) -> Self {
        Self {
            id,
            caller,
            output: Output::default(),
            is_ready: false,
            is_dirty: false,
            counted_bytes: 0,
            socket,
            protocol: Protocol::Http(RequestReader::new(limits.body_bytes)),
            closing: Closing::Open,
            may_read: false,
            may_write: true,
            read_closed: false,
            at_end: false,
            last_active: now,
            request_since: None,
            stalled_since: None,
            lingering_since: None,
        }
    }

    /// Takes note of what poll has reported.
    pub fn notice(&mut self, event: &mio::event::Event) {
        self.read_closed |= event.is_read_closed() || event.is_error();
        self.may_read |= event.is_readable() || self.read_closed;
        self.may_write |= event.is_writable();
    }

    /// Whether reading now can bring something that may be handled.
    pub fn wants_read(&self) -> bool {
        self.may_read && !self.at_end && self.closing != Closing::AfterOutput
    }

    /// Whether the connection has come to its end and everything has been sent.
    pub fn is_finished(&self) -> bool {
        match self.closing {
            Closing::Open => false,
            Closing::AfterOutput => self.output.is_empty(),
            Closing::Linger => self.at_end && self.output.is_empty(),
        }
    }

    /// Whether this is a websocket that can be sent messages.
    pub fn is_open_websocket(&self) -> bool {
        matches!(self.protocol, Protocol::WebSocket(_)) && self.closing == Closing::Open
    }

    /// Whether this is an open HTTP connection that has no request to answer.
    pub fn is_between_requests(&self) -> bool {
        match &self.protocol {
            Protocol::Http(reader) => self.closing == Closing::Open && !reader.is_partial(),
            Protocol::WebSocket(_) => false,
        }
    }

    /// Reads once. Returns the number of bytes, none if there are none for now.
    pub fn read(&mut self, buffer: &mut [u8], now: Instant) -> io::Result<usize> {
        let count = match self.socket.read(buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.may_read = false;
                return Ok(0);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(0),
            Err(error) => return Err(error),
        };
        if count == 0 {
            self.at_end = true;
            return Ok(0);
        }
        // The end of the stream is reported only once, perhaps together with these bytes: if it
        // has been, it must be read as well.
        if count < buffer.len() && SHORT_IS_EXHAUSTED && !self.read_closed {
            self.may_read = false;
        }
        self.last_active = now;
        if self.closing == Closing::Open {
            match &mut self.protocol {
                Protocol::Http(reader) => reader.receive(&buffer[..count]),
                Protocol::WebSocket(websocket) => websocket.receive(&buffer[..count]),
            }
        }
        Ok(count)
    }

    /// Handles the next request or message that has been received.
    pub fn answer<S: Service>(&mut self, desk: &mut Desk<'_, S>) -> Step {
        if self.closing != Closing::Open {
            return Step::Waiting;
        }
        if self.output.pending() > desk.limits.output_bytes {
            return Step::Paused;
        }
        let step = match self.protocol {
            Protocol::Http(_) => self.answer_request(desk),
            Protocol::WebSocket(_) => self.answer_message(desk),
        };
        if step == Step::Waiting && self.at_end {
            self.closing = Closing::AfterOutput;
            if matches!(self.protocol, Protocol::WebSocket(_)) {
                return Step::Closed;
            }
        }
        step
    }

    fn answer_request<S: Service>(&mut self, desk: &mut Desk<'_, S>) -> Step {
        let Protocol::Http(reader) = &mut self.protocol else {
            return Step::Waiting;
        };
        let request = match reader.next_request() {
            Ok(Some(request)) => request,
            Ok(None) => {
                if reader.take_continue() {
                    let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
                    self.output.queue().extend_from_slice(interim);
                }
                self.request_since = match reader.is_partial() {
                    true => self.request_since.or(Some(desk.now)),
                    false => None,
                };
                return Step::Waiting;
            }
            Err(error) => {
                self.refuse(error);
                return Step::Waiting;
            }
        };
        desk.reply.reset();
        let (service, reply) = (&mut *desk.service, &mut *desk.reply);
        service.request(self.caller, desk.now, &request, reply, desk.outbox);
        if reply.later {
            reader.put_back();
            self.request_since = self.request_since.or(Some(desk.now));
            return Step::Exhausted;
        }
        self.request_since = None;
        reply.close |= desk.is_draining;
        let close = reply.write(&request, desk.gzip, self.output.queue());
        if let Some(upgrade) = reply.upgrade.take() {
            let mut websocket = WsConnection::new();
            websocket.receive(reader.rest());
            self.protocol = Protocol::WebSocket(websocket);
            self.output.mark(desk.now);
            return Step::Opened { tag: upgrade.tag };
        }
        if close {
            self.closing = Closing::AfterOutput;
        }
        Step::Answered
    }

    fn answer_message<S: Service>(&mut self, desk: &mut Desk<'_, S>) -> Step {
        let Protocol::WebSocket(websocket) = &mut self.protocol else {
            return Step::Waiting;
        };
        let step = match websocket.next_event(self.output.queue()) {
            None => Step::Waiting,
            Some(WsEvent::Message { data, is_text }) => {
                let service = &mut *desk.service;
                service.websocket_message(self.id, data, is_text, desk.now, desk.outbox);
                Step::Answered
            }
            Some(WsEvent::Closed { code, reason, by_client }) => {
                log::debug!("{:?}: websocket closed: {code} {reason}", self.id);
                self.closing = match by_client {
                    true => Closing::AfterOutput,
                    false => Closing::Linger,
                };
                Step::Closed
            }
        };
        self.output.mark(desk.now);
        step
    }

    /// Answers what cannot be read, and ends the connection.
    pub fn refuse(&mut self, error: HttpError) {
        log::debug!("{:?}: refused: {error}", self.id);
        Reply::write_refusal(error, self.output.queue());
        // Nothing of the request is needed any more.
        self.protocol = Protocol::Http(RequestReader::new(0));
        self.closing = Closing::Linger;
    }

    /// Queues a text message for an open websocket.
    pub fn queue_text(&mut self, text: &[u8], now: Instant) {
        write_text(text, self.output.queue());
        self.output.mark(now);
    }

    /// Ends an open websocket from this side.
    pub fn close_websocket(&mut self, code: u16, reason: &str, now: Instant) {
        if let Protocol::WebSocket(websocket) = &mut self.protocol {
            websocket.close();
            write_close(code, reason, self.output.queue());
            self.output.mark(now);
            self.closing = Closing::Linger;
        }
    }

    /// Ends a websocket whose client does not keep up: what has not begun to go out is dropped.
    pub fn drop_slow_websocket(&mut self, now: Instant) {
        self.output.drop_unsent();
        self.close_websocket(TOO_SLOW, "", now);
    }

    /// Ends the connection after the output that is pending.
    pub fn close_after_output(&mut self) {
        self.closing = Closing::AfterOutput;
    }

    /// Writes what the socket takes.
    pub fn flush(&mut self, now: Instant) -> io::Result<()> {
        if !self.output.is_empty() && self.may_write {
            let written = self.output.write_to(&mut self.socket, SHORT_IS_EXHAUSTED)?;
            self.may_write = !written.blocked;
            if written.bytes > 0 {
                self.last_active = now;
                self.stalled_since = None;
            }
        }
        if self.output.is_empty() {
            if self.closing == Closing::Linger && self.lingering_since.is_none() {
                self.lingering_since = Some(now);
                self.socket.shutdown(Shutdown::Write)?;
            }
        } else if self.stalled_since.is_none() {
            self.stalled_since = Some(now);
        }
        Ok(())
    }

    /// What is due at `now`.
    pub fn due(&self, now: Instant, limits: &Limits) -> Option<Due> {
        let exceeds = |since: Instant, limit| now.saturating_duration_since(since) >= limit;
        if let Some(since) = self.lingering_since {
            return exceeds(since, limits.linger).then_some(Due::Drop);
        }
        if self.is_open_websocket() {
            if self.output.age(now) >= limits.websocket_send_age {
                return Some(Due::SlowConsumer);
            }
            return exceeds(self.last_active, limits.websocket_idle).then_some(Due::IdleWebSocket);
        }
        if let Some(since) = self.stalled_since {
            return exceeds(since, limits.write_stall).then_some(Due::Drop);
        }
        if let Some(since) = self.request_since {
            return exceeds(since, limits.request_time).then_some(Due::SlowRequest);
        }
        exceeds(self.last_active, limits.keep_alive).then_some(Due::Drop)
    }

    /// Lends the reactor's buffers to this connection for the length of a turn.
    pub fn lend(&mut self, input: &mut Vec<u8>, output: &mut Vec<u8>) {
        match &mut self.protocol {
            Protocol::Http(reader) => reader.lend(input),
            Protocol::WebSocket(websocket) => websocket.lend(input),
        }
        self.output.lend(output);
    }

    /// Gives them back.
    pub fn give_back(&mut self, input: &mut Vec<u8>, output: &mut Vec<u8>) {
        match &mut self.protocol {
            Protocol::Http(reader) => reader.give_back(input),
            Protocol::WebSocket(websocket) => websocket.give_back(input),
        }
        self.output.give_back(output);
    }

    /// Bytes of memory held in buffers.
    pub fn held_bytes(&self) -> usize {
        let input = match &self.protocol {
            Protocol::Http(reader) => reader.held_bytes(),
            Protocol::WebSocket(websocket) => websocket.held_bytes(),
        };
        input + self.output.held_bytes()
    }
}
