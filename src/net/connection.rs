//! An accepted connection without its input: socket, output, client and timeouts.

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::client_table::{ClientId, TokenBucket};
use super::http::{HttpError, Response};
use super::limits::Limits;
use super::listener_quota::QuotaEntry;
use super::send_queue::SendQueue;
use super::service::{Client, ConnectionId, ListenerId, Message};
use super::socket::{MAX_UNSENT, Socket};
use super::websocket::{write_close, write_ping, write_text_head};

/// Whether a short read or write means that the socket is exhausted, which saves the call that would return
/// `WouldBlock`. epoll(7) guarantees it for edge-triggered stream sockets.
const SHORT_IS_EXHAUSTED: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Close code for a client that does not take its messages.
const CLOSE_CODE_TOO_SLOW: u16 = 4500;

/// Progress of closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    Open,
    /// Closes when the client has taken the output.
    AfterOutput,
    /// When the client has taken the output, it has `Limits::linger` to close its side.
    Linger,
}

/// State of the request or message being processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestState {
    /// None is in progress.
    Idle,
    /// Continues in the client's next turn.
    Yielded,
    /// Suspended until the service resumes it.
    Suspended,
    /// Suspended without a response timeout.
    Streaming,
}

impl RequestState {
    /// Returns whether it waits for the service.
    pub fn is_waiting(self) -> bool {
        matches!(self, RequestState::Suspended | RequestState::Streaming)
    }
}

/// A timeout that has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timeout {
    /// Drop the connection; nothing can be sent.
    Drop,
    /// The request is not complete in time.
    SlowRequest,
    /// The service has not answered in time.
    SlowResponse,
    /// The websocket was idle for too long.
    IdleWebSocket,
    /// The websocket's client does not take its messages.
    SlowConsumer,
    /// The websocket's client was silent for so long that a ping is due.
    Ping,
}

#[derive(Debug)]
pub(super) struct Connection<S> {
    pub id: ConnectionId,
    pub listener: ListenerId,
    pub peer: IpAddr,
    /// Client charged for the connection.
    pub account: ClientId,
    /// Client of the last request.
    pub client: Client,
    pub socket: S,
    pub output: SendQueue,
    pub closing: Closing,
    pub request_state: RequestState,
    /// It is a websocket whose end has not been reported.
    pub is_websocket: bool,
    /// Its entry in the listener's quota; `None` if it was rejected.
    pub quota_entry: Option<QuotaEntry>,
    /// It was counted as local and is now remote; the quota has yet to be checked.
    pub needs_quota_check: bool,
    /// In the queue of connections to serve.
    pub is_ready: bool,
    /// The read interest is removed because the client is throttled.
    pub is_muted: bool,
    /// In the queue of connections to flush.
    pub is_dirty: bool,
    /// Its share of `Stats::buffered_bytes`.
    pub counted_bytes: usize,
    /// Its share of `Stats::kernel_bytes`.
    pub counted_kernel_bytes: usize,
    /// Upper bound on unacknowledged bytes: those at the last measurement and all written since, up to the size of the
    /// kernel's buffer.
    unsent_bytes: usize,
    /// Bytes were written since the last measurement.
    is_unsent_estimated: bool,
    /// Received bytes in the kernel at the last measurement.
    unread_bytes: usize,
    /// Work quota of a websocket.
    pub bucket: TokenBucket,
    /// When the request in progress began.
    pub request_since: Option<Instant>,
    /// Bytes read since the last count.
    pub received_bytes: u64,
    /// Bytes written since the last count.
    pub sent_bytes: u64,
    may_read: bool,
    may_write: bool,
    /// The client has closed its side; read until the end is seen.
    read_closed: bool,
    at_end: bool,
    /// Both sides are closed or the connection is broken; nothing can be sent.
    is_broken: bool,
    last_active: Instant,
    /// When the client last sent something.
    last_received: Instant,
    /// When a ping was sent, if nothing was received since.
    pinged: Option<Instant>,
    /// Bytes discarded since the last response.
    discarded_bytes: usize,
    stalled_since: Option<Instant>,
    /// Since when the client has not taken the end of the output.
    draining_since: Option<Instant>,
    lingering_since: Option<Instant>,
}

/// Readiness of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Data can be read.
    pub readable: bool,
    /// Data can be written.
    pub writable: bool,
    /// The other end has closed its side.
    pub read_closed: bool,
    /// Nothing can be sent any more.
    pub broken: bool,
}

impl From<&mio::event::Event> for Readiness {
    fn from(event: &mio::event::Event) -> Readiness {
        Readiness {
            readable: event.is_readable(),
            writable: event.is_writable(),
            read_closed: event.is_read_closed() || event.is_error(),
            broken: event.is_write_closed(),
        }
    }
}

/// Identity of a new connection.
pub(super) struct Origin {
    pub id: ConnectionId,
    pub listener: ListenerId,
    pub peer: IpAddr,
    pub account: ClientId,
}

impl<S: Socket> Connection<S> {
    pub fn new(origin: Origin, socket: S, bucket: TokenBucket, now: Instant) -> Self {
        let Origin { id, listener, peer, account } = origin;
        Self {
            id,
            listener,
            peer,
            account,
            client: Client::direct(listener, peer),
            socket,
            output: SendQueue::default(),
            closing: Closing::Open,
            request_state: RequestState::Idle,
            is_websocket: false,
            quota_entry: None,
            needs_quota_check: false,
            is_ready: false,
            is_muted: false,
            is_dirty: false,
            counted_bytes: 0,
            counted_kernel_bytes: 0,
            unsent_bytes: 0,
            is_unsent_estimated: false,
            unread_bytes: 0,
            bucket,
            request_since: None,
            received_bytes: 0,
            sent_bytes: 0,
            may_read: false,
            may_write: true,
            read_closed: false,
            at_end: false,
            is_broken: false,
            last_active: now,
            last_received: now,
            pinged: None,
            discarded_bytes: 0,
            stalled_since: None,
            draining_since: None,
            lingering_since: None,
        }
    }

    /// Adds to the readiness of the socket.
    pub fn set_readiness(&mut self, ready: Readiness) {
        self.read_closed |= ready.read_closed;
        self.may_read |= ready.readable || self.read_closed;
        self.may_write |= ready.writable;
        self.is_broken |= ready.broken;
    }

    /// Returns whether reading now is useful. While a request is processed, nothing is read.
    pub fn wants_read(&self) -> bool {
        let is_free = self.request_state == RequestState::Idle || self.closing != Closing::Open;
        self.may_read && !self.at_end && self.closing != Closing::AfterOutput && is_free
    }

    /// Returns whether a part of a response was sent or is queued.
    pub fn is_mid_response(&self) -> bool {
        self.request_state == RequestState::Yielded || !self.output.is_empty()
    }

    /// Returns whether closing it now loses nothing: it is no websocket and not busy.
    pub fn is_idle(&self) -> bool {
        !self.is_websocket && !self.is_busy()
    }

    /// Returns whether a request or message is in progress or output was not taken.
    pub fn is_busy(&self) -> bool {
        self.request_state != RequestState::Idle || !self.output.is_empty() || self.has_unsent()
    }

    /// Returns the time since its last activity.
    pub fn idle_time(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last_active)
    }

    /// Returns an upper bound on the kernel memory for unacknowledged and unread bytes.
    pub fn kernel_bytes(&self) -> usize {
        self.unsent_bytes + self.unread_bytes
    }

    /// Measures how many written bytes are unacknowledged.
    pub fn measure_unsent(&mut self) {
        if self.unsent_bytes > 0 {
            let is_all_written = self.closing != Closing::Open && self.output.is_empty();
            self.unsent_bytes = self.unsent_bytes.min(self.socket.unsent_bytes(is_all_written));
            self.is_unsent_estimated = false;
        }
    }

    /// Returns whether written bytes were unacknowledged at the last measurement, or may be since.
    pub fn has_unsent(&self) -> bool {
        self.unsent_bytes > 0
    }

    /// Returns whether bytes were written since the last measurement.
    pub fn is_unsent_estimated(&self) -> bool {
        self.has_unsent() && self.is_unsent_estimated
    }

    /// Returns whether it closes as soon as the client has taken the written bytes.
    pub fn is_draining(&self) -> bool {
        self.closing != Closing::Open && self.output.is_empty() && self.has_unsent()
    }

    /// Measures the received bytes that were not read.
    pub fn measure_unread(&mut self) {
        self.unread_bytes = if self.may_read && !self.at_end { self.socket.unread_bytes() } else { 0 };
    }

    /// Makes the kernel discard unsent bytes at close, if there are any.
    pub fn discard_unsent(&mut self) {
        self.measure_unsent();
        if !self.output.is_empty() || self.has_unsent() {
            self.socket.discard_unsent();
        }
    }

    /// Returns whether too many bytes were discarded since the last response.
    pub fn has_discarded_more_than(&self, limit: usize) -> bool {
        self.discarded_bytes > limit
    }

    /// Returns whether the client has closed its side.
    pub fn is_at_end(&self) -> bool {
        self.at_end
    }

    /// Returns whether the connection can be removed: broken, or closing and done.
    pub fn is_finished(&self) -> bool {
        match self.closing {
            _ if self.is_broken => true,
            // A client that closes its side ends a held request.
            Closing::Open => {
                self.request_state == RequestState::Streaming && self.read_closed && self.output.is_empty()
            }
            _ if self.has_unsent() || !self.output.is_empty() => false,
            Closing::AfterOutput => true,
            Closing::Linger => self.at_end,
        }
    }

    /// Returns whether this is a websocket that can be sent messages.
    pub fn is_open_websocket(&self) -> bool {
        self.is_websocket && self.closing == Closing::Open
    }

    /// Reads once. Returns the number of bytes, 0 if there are none now.
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
        // The end of the stream is reported only once, perhaps together with these bytes, so it must be read too.
        if count < buffer.len() && SHORT_IS_EXHAUSTED && !self.read_closed {
            self.may_read = false;
        }
        // A pong is no activity.
        if self.pinged.take().is_none() {
            self.last_active = now;
        }
        self.last_received = now;
        self.unread_bytes = 0;
        self.received_bytes += count as u64;
        if self.closing != Closing::Open {
            self.discarded_bytes = self.discarded_bytes.saturating_add(count);
        }
        Ok(count)
    }

    /// Sends an error response and ends the connection.
    pub fn reject(&mut self, error: HttpError) {
        log::debug!("{:?}: rejected: {error}", self.id);
        Response::write_rejection(error, self.output.queue());
        self.closing = Closing::Linger;
    }

    /// Records a websocket message from the client.
    pub fn record_message(&mut self, now: Instant) {
        self.last_active = now;
    }

    /// Sends a ping on an open websocket.
    pub fn ping(&mut self, now: Instant) {
        write_ping(self.output.queue());
        self.output.end_message(now);
        self.pinged = Some(now);
    }

    /// Queues a text message for an open websocket.
    pub fn queue_text(&mut self, message: Message<'_>, now: Instant) {
        self.last_active = now;
        let out = self.output.queue();
        write_text_head(message.len(), out);
        out.extend_from_slice(message.head);
        if let Some(body) = message.body {
            self.output.queue_shared(body.clone());
        }
        self.output.queue().extend_from_slice(message.tail);
        self.output.end_message(now);
    }

    /// Closes an open websocket from this side.
    pub fn close_websocket(&mut self, code: u16, reason: &str, now: Instant) {
        write_close(code, reason, self.output.queue());
        self.output.end_message(now);
        self.closing = Closing::Linger;
    }

    /// Closes a websocket whose client is too slow, dropping messages whose sending has not begun.
    pub fn drop_slow_websocket(&mut self, now: Instant) {
        self.output.drop_unsent();
        self.close_websocket(CLOSE_CODE_TOO_SLOW, "", now);
    }

    /// Writes what the socket takes.
    pub fn flush(&mut self, now: Instant) -> io::Result<()> {
        if !self.output.is_empty() && self.may_write {
            let written = self.output.write_to(&mut self.socket, SHORT_IS_EXHAUSTED)?;
            self.may_write = !written.blocked;
            self.sent_bytes += written.bytes as u64;
            if written.bytes > 0 {
                if self.pinged.is_none() {
                    self.last_active = now;
                }
                self.stalled_since = None;
                self.unsent_bytes = self.unsent_bytes.saturating_add(written.bytes).min(MAX_UNSENT);
                self.is_unsent_estimated = true;
            }
        }
        if self.output.is_empty() {
            // After closing, the kernel would hold unacknowledged bytes uncounted, and after the end of writing they
            // cannot be measured. So wait until the client has taken them.
            if self.is_draining() && self.may_write {
                self.measure_unsent();
                self.may_write = !self.has_unsent();
                self.draining_since.get_or_insert(now);
            }
            if self.closing == Closing::Linger && !self.has_unsent() && self.lingering_since.is_none() {
                self.lingering_since = Some(now);
                self.socket.end_writing()?;
            }
        } else if self.stalled_since.is_none() {
            self.stalled_since = Some(now);
        }
        Ok(())
    }

    /// Returns the timeout that has expired at `now`, if any.
    pub fn expired_timeout(&self, now: Instant, limits: &Limits) -> Option<Timeout> {
        let exceeds = |since: Instant, limit| now.saturating_duration_since(since) >= limit;
        if let Some(since) = self.lingering_since {
            return exceeds(since, limits.linger).then_some(Timeout::Drop);
        }
        if let Some(since) = self.draining_since {
            return exceeds(since, limits.write_stall).then_some(Timeout::Drop);
        }
        if self.is_open_websocket() {
            if self.output.age(now) >= limits.send_age {
                return Some(Timeout::SlowConsumer);
            }
            if exceeds(self.last_active, limits.websocket_idle) {
                return Some(Timeout::IdleWebSocket);
            }
            return match self.pinged {
                Some(pinged) => exceeds(pinged, limits.websocket_ping_timeout).then_some(Timeout::Drop),
                None => exceeds(self.last_received, limits.websocket_ping_timeout).then_some(Timeout::Ping),
            };
        }
        if let Some(since) = self.stalled_since {
            return exceeds(since, limits.write_stall).then_some(Timeout::Drop);
        }
        if self.closing != Closing::Open {
            // Its last output has yet to be written.
            return None;
        }
        if self.request_state == RequestState::Streaming {
            return exceeds(self.last_active, limits.websocket_idle).then_some(Timeout::SlowResponse);
        }
        if let Some(since) = self.request_since {
            let due =
                if self.request_state == RequestState::Idle { Timeout::SlowRequest } else { Timeout::SlowResponse };
            return exceeds(since, limits.request_time).then_some(due);
        }
        exceeds(self.last_active, limits.keep_alive).then_some(Timeout::Drop)
    }
}
