//! An accepted connection: socket, input, output, client and timeouts.

use std::io;
use std::time::Duration;

use super::client_table::TokenBucket;
use crate::Limits;
use crate::http::{Gzip, HttpError, Request, RequestReader, Response};
use crate::quota::Owner;
use crate::service::{Client, ConnectionId, Message, Progress};
use crate::socket::{MAX_UNSENT, Readiness, RecvBuffer, SHORT_IS_EXHAUSTED, SendQueue, Socket};
use crate::websocket::{WsConnection, write_close, write_ping, write_text_head};

/// Close code for a client that does not take its messages.
pub(super) const CLOSE_CODE_TOO_SLOW: u16 = 4500;

/// Progress of closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    Open,
    /// Closes when the client has taken the output.
    AfterOutput,
    /// When the client has taken the output, it has `Limits::linger` to close its side.
    Linger,
}

/// A timeout that has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timeout {
    /// Drop the connection; nothing can be sent.
    Drop,
    /// The request is not complete, or not answered, in time.
    Reject(HttpError),
    /// The websocket was idle for too long.
    IdleWebSocket,
    /// The websocket's client does not take its messages.
    SlowConsumer,
    /// The websocket's client was silent for so long that a ping is due.
    Ping,
}

/// Received bytes in their protocol.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // every connection begins with the larger one
pub(super) enum Protocol {
    Http(RequestReader),
    WebSocket(WsConnection),
}

/// Received bytes, and the response in progress.
#[derive(Debug)]
pub(super) struct Input {
    pub protocol: Protocol,
    pub pending: Option<Box<PendingResponse>>,
}

/// A response in progress, kept while its request is unfinished, suspended or streaming.
#[derive(Debug, Default)]
pub(super) struct PendingResponse {
    pub response: Response,
    /// Chunks have been written.
    pub has_begun: bool,
    /// Bytes written.
    pub written: usize,
    /// The connection must be closed after it, as the request or the protocol says.
    pub close: bool,
}

/// All times are monotonic.
#[derive(Debug)]
pub(super) struct Connection<S> {
    pub id: ConnectionId,
    /// Client at the other end, a proxy or the client of all requests.
    pub peer: Client,
    /// Client of the last request.
    pub client: Client,
    /// The owner that the connection counts for.
    pub owner: Owner,
    pub socket: S,
    ready: Readiness,
    /// `None` while the connection is served.
    pub input: Option<Input>,
    pub output: SendQueue,
    pub closing: Closing,
    /// Progress of the request or message being processed; `Done` if there is none.
    pub progress: Progress,
    /// Whether the request in progress has said whose it is.
    pub is_attributed: bool,
    /// It is a websocket whose end has not been reported.
    pub is_websocket: bool,
    /// It has a place; it was not rejected.
    pub has_place: bool,
    /// When it was last seen active. Never later than its real activity, except that a busy connection is set a while into
    /// the future.
    pub last_seen: Duration,
    /// It waits to be served, or is throttled.
    pub is_queued: bool,
    /// The read interest is removed because the client is throttled.
    pub is_muted: bool,
    /// In the queue of connections to flush.
    pub is_dirty: bool,
    /// Work quota of a websocket.
    pub bucket: TokenBucket,
    /// The bytes that it holds in buffers.
    pub counted_bytes: usize,
    /// Its share of `Stats::kernel_bytes`.
    pub counted_kernel_bytes: usize,
    /// Upper bound on unacknowledged bytes: those at the last measurement and all written since, up to the size of the
    /// kernel's buffer.
    unsent_bytes: usize,
    /// Bytes were written since the last measurement.
    pub is_unsent_estimated: bool,
    /// Received bytes in the kernel at the last measurement.
    unread_bytes: usize,
    /// Bytes discarded since the last response.
    pub discarded_bytes: usize,
    /// The client has closed its side, and everything was read.
    pub at_end: bool,
    /// When the request in progress began.
    pub request_since: Option<Duration>,
    /// When something was last received or sent. A request in progress counts as active when it is resumed, and for as long
    /// as its client is throttled.
    pub last_active: Duration,
    /// When the client last sent something.
    last_received: Duration,
    /// When a ping was sent, if nothing was received since.
    pinged: Option<Duration>,
    /// Since when the client takes nothing of the output, or has not taken its end.
    stalled_since: Option<Duration>,
    lingering_since: Option<Duration>,
}

impl Input {
    pub fn new() -> Input {
        Input { protocol: Protocol::Http(RequestReader::new(0)), pending: None }
    }

    /// Returns the received bytes.
    pub fn buffer(&mut self) -> &mut RecvBuffer {
        match &mut self.protocol {
            Protocol::Http(reader) => &mut reader.buffer,
            Protocol::WebSocket(websocket) => &mut websocket.buffer,
        }
    }

    /// Returns the lent buffer.
    pub fn release(&mut self, storage: &mut Vec<u8>) {
        match &mut self.protocol {
            Protocol::Http(reader) => reader.buffer.release(storage),
            Protocol::WebSocket(websocket) => websocket.release(storage),
        }
    }

    /// Returns the allocated bytes, those of a response in progress included.
    pub fn held_bytes(&self) -> usize {
        let input = match &self.protocol {
            Protocol::Http(reader) => reader.buffer.held_bytes(),
            Protocol::WebSocket(websocket) => websocket.held_bytes(),
        };
        input + self.pending.as_ref().map_or(0, |pending| pending.response.body.capacity())
    }
}

impl PendingResponse {
    /// Makes this an empty response again. Memory is kept.
    pub fn reset(&mut self) {
        self.response.reset();
        (self.has_begun, self.written, self.close) = (false, 0, false);
    }

    /// Writes a complete response, or the body so far as a chunk if the response is streamed, with the head before the
    /// first chunk.
    pub fn write(&mut self, request: &Request<'_>, is_complete: bool, gzip: &mut Gzip, output: &mut SendQueue) {
        let before = output.pending();
        let out = output.queue();
        if self.response.is_streaming {
            if !std::mem::replace(&mut self.has_begun, true) {
                self.close = self.response.write_streaming_head(request, out);
            }
            self.response.write_chunk(request, is_complete, out);
        } else if is_complete {
            let (close, shared) = self.response.write(request, gzip, out);
            self.close = close;
            if let Some(body) = shared {
                output.queue_shared(body);
            }
        }
        self.written += output.pending() - before;
    }
}

impl<S: Socket> Connection<S> {
    pub fn new(id: ConnectionId, client: Client, owner: Owner, socket: S, bucket: TokenBucket, now: Duration) -> Self {
        Self {
            id,
            peer: client,
            client,
            owner,
            socket,
            ready: Readiness { writable: true, ..Readiness::default() },
            input: Some(Input::new()),
            output: SendQueue::default(),
            closing: Closing::Open,
            progress: Progress::Done,
            is_attributed: false,
            is_websocket: false,
            has_place: false,
            last_seen: now,
            is_queued: false,
            is_muted: false,
            is_dirty: false,
            bucket,
            counted_bytes: 0,
            counted_kernel_bytes: 0,
            unsent_bytes: 0,
            is_unsent_estimated: false,
            unread_bytes: 0,
            discarded_bytes: 0,
            at_end: false,
            request_since: None,
            last_active: now,
            last_received: now,
            pinged: None,
            stalled_since: None,
            lingering_since: None,
        }
    }

    /// Adds to the readiness of the socket. Returns whether the connection should be served.
    pub fn set_readiness(&mut self, ready: Readiness) -> bool {
        self.ready.add(ready);
        let only_writable = Readiness { writable: true, ..Readiness::default() };
        ready != only_writable || !self.output.is_empty() || self.is_draining()
    }

    /// Returns whether a request or message waits for the service.
    pub fn is_suspended(&self) -> bool {
        matches!(self.progress, Progress::Suspended | Progress::Queued | Progress::Streaming)
    }

    /// Returns whether reading now is useful. While a request is processed, nothing is read.
    pub fn wants_read(&self) -> bool {
        let is_free = self.progress == Progress::Done || self.closing != Closing::Open;
        self.ready.readable && !self.at_end && self.closing != Closing::AfterOutput && is_free
    }

    /// Returns whether a request or message is in progress or output was not taken.
    pub fn is_busy(&self) -> bool {
        self.progress != Progress::Done || !self.output.is_empty() || self.has_unsent()
    }

    /// Returns an upper bound on the kernel memory for unacknowledged and unread bytes.
    pub fn kernel_bytes(&self) -> usize {
        self.unsent_bytes + self.unread_bytes
    }

    /// Measures how many written bytes are unacknowledged.
    pub fn measure_unsent(&mut self) {
        if self.has_unsent() {
            let is_all_written = self.closing != Closing::Open && self.output.is_empty();
            self.unsent_bytes = self.unsent_bytes.min(self.socket.unsent_bytes(is_all_written));
            self.is_unsent_estimated = false;
        }
    }

    /// Returns whether written bytes were unacknowledged at the last measurement, or may be since.
    pub fn has_unsent(&self) -> bool {
        self.unsent_bytes > 0
    }

    /// Returns whether it closes as soon as the client has taken the written bytes.
    pub fn is_draining(&self) -> bool {
        self.closing != Closing::Open && self.output.is_empty() && self.has_unsent()
    }

    /// Measures the received bytes that were not read.
    pub fn measure_unread(&mut self) {
        self.unread_bytes = if self.ready.readable && !self.at_end { self.socket.unread_bytes() } else { 0 };
    }

    /// Makes the kernel discard unsent bytes at close, if there are any.
    pub fn discard_unsent(&mut self) {
        self.measure_unsent();
        if !self.output.is_empty() || self.has_unsent() {
            self.socket.discard_unsent();
        }
    }

    /// Returns whether the connection can be removed: broken, or closing and done.
    pub fn is_finished(&self) -> bool {
        match self.closing {
            _ if self.ready.broken => true,
            // A client that closes its side ends a streaming request.
            Closing::Open => self.progress == Progress::Streaming && self.ready.read_closed && self.output.is_empty(),
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
    pub fn read(&mut self, buffer: &mut [u8], now: Duration) -> io::Result<usize> {
        let Some(count) = self.ready.read(&mut self.socket, buffer)? else { return Ok(0) };
        if count == 0 {
            self.at_end = true;
            return Ok(0);
        }
        // A pong is no activity.
        if self.pinged.take().is_none() {
            self.last_active = now;
        }
        self.last_received = now;
        self.unread_bytes = 0;
        if self.closing != Closing::Open {
            self.discarded_bytes = self.discarded_bytes.saturating_add(count);
        }
        Ok(count)
    }

    /// Sends a ping on an open websocket.
    pub fn ping(&mut self, now: Duration) {
        write_ping(self.output.queue());
        self.output.end_message(now);
        self.pinged = Some(now);
    }

    /// Queues a text message for an open websocket.
    pub fn queue_text(&mut self, message: Message<'_>, now: Duration) {
        self.last_active = now;
        let out = self.output.queue();
        write_text_head(message.bytes(), out);
        out.extend_from_slice(message.head);
        if let Some(body) = message.body {
            self.output.queue_shared(body.clone());
        }
        self.output.queue().extend_from_slice(message.tail);
        self.output.end_message(now);
    }

    /// Closes an open websocket from this side.
    pub fn close_websocket(&mut self, code: u16, reason: &str, now: Duration) {
        write_close(code, reason, self.output.queue());
        self.output.end_message(now);
        self.closing = Closing::Linger;
    }

    /// Writes what the socket takes, and adds the number of bytes to `sent`.
    pub fn flush(&mut self, now: Duration, sent: &mut u64) -> io::Result<()> {
        if !self.output.is_empty() && self.ready.writable {
            let written = self.output.write_to(&mut self.socket, SHORT_IS_EXHAUSTED)?;
            self.ready.writable = !written.blocked;
            *sent += written.bytes as u64;
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
            if self.is_draining() && self.ready.writable {
                self.measure_unsent();
                self.ready.writable = !self.has_unsent();
                self.stalled_since.get_or_insert(now);
            }
            if self.closing == Closing::Linger && !self.has_unsent() && self.lingering_since.is_none() {
                self.lingering_since = Some(now);
                self.socket.end_writing()?;
            }
        } else {
            self.stalled_since.get_or_insert(now);
        }
        Ok(())
    }

    /// Returns how it ends if the service does not answer: a part of a response may be pending.
    pub fn without_answer(&self) -> Timeout {
        if self.output.is_empty() { Timeout::Reject(HttpError::overloaded("no answer in time")) } else { Timeout::Drop }
    }

    /// Returns the timeout that has expired at `now`, if any.
    pub fn expired_timeout(&self, now: Duration, limits: &Limits) -> Option<Timeout> {
        let exceeds = |since: Duration, limit| now.saturating_sub(since) >= limit;
        if let Some(since) = self.lingering_since {
            return exceeds(since, limits.linger).then_some(Timeout::Drop);
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
        let (since, limit, timeout) = match (self.progress, self.request_since) {
            (Progress::Yield | Progress::Suspended, _) => {
                (self.last_active, limits.request_time, self.without_answer())
            }
            (Progress::Queued | Progress::Streaming, _) => {
                (self.last_active, limits.websocket_idle, self.without_answer())
            }
            (Progress::Done, Some(since)) => (since, limits.request_time, Timeout::Reject(HttpError::TOO_SLOW)),
            (Progress::Done, None) => (self.last_active, limits.keep_alive, Timeout::Drop),
        };
        exceeds(since, limit).then_some(timeout)
    }
}
