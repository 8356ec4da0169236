//! One accepted connection but for its input: the socket, its output, whom it belongs to, and what is due when.

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::callers::{AccountId, Credit};
use super::http::{HttpError, Reply};
use super::limits::Limits;
use super::machine::{Caller, ConnectionId, ListenerId, Message};
use super::output::Output;
use super::places::Place;
use super::socket::{MOST_UNSENT, Socket};
use super::websocket::{write_close, write_ping, write_text_head};

/// Whether a read or write that moves fewer bytes than asked for means that the socket has no more for now, so that
/// the call that would only say so can be saved. epoll(7) promises it for edge-triggered stream sockets; elsewhere
/// only `WouldBlock` counts.
const SHORT_IS_EXHAUSTED: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Close code for a client that does not keep up.
const TOO_SLOW: u16 = 4500;

/// How far the end of the connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    Open,
    /// Gone as soon as the other end has taken the output.
    AfterOutput,
    /// Once the other end has taken the output, the client has until `Limits::linger` to close its side.
    Linger,
}

/// What the machine has left to do for a request or message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Nothing.
    None,
    /// It goes on at the next share.
    Unfinished,
    /// It goes on when the machine says so.
    Parked,
    /// The same, for as long as the client wants it.
    Held,
}

impl Work {
    /// Whether it waits for the machine.
    pub fn is_waiting(self) -> bool {
        matches!(self, Work::Parked | Work::Held)
    }
}

/// What time has brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing more can be said: drop it.
    Drop,
    /// The request is not complete in time.
    SlowRequest,
    /// The answer is not there in time.
    SlowAnswer,
    /// The websocket has been silent for too long.
    IdleWebSocket,
    /// The websocket's client does not take its messages.
    SlowConsumer,
    /// Nothing has come from the websocket's client for so long that it is asked whether it is there.
    Ping,
}

#[derive(Debug)]
pub(super) struct Connection<S> {
    pub id: ConnectionId,
    pub listener: ListenerId,
    /// The other end.
    pub peer: IpAddr,
    /// Whom its costs are charged to.
    pub account: AccountId,
    /// Who made the last request.
    pub caller: Caller,
    pub socket: S,
    pub output: Output,
    pub closing: Closing,
    pub work: Work,
    /// It has been a websocket, and its end has not been reported.
    pub is_websocket: bool,
    /// Its place among those of its listener; none if it was turned away.
    pub place: Option<Place>,
    /// Its place was one of this machine's and is not any more: whether there is one for it has yet to be seen.
    pub has_moved: bool,
    /// In the queue of connections to be served.
    pub is_ready: bool,
    /// The system is not asked whether there is anything to read, as its client is throttled.
    pub is_muted: bool,
    /// In the queue of connections with fresh output.
    pub is_dirty: bool,
    /// Bytes of memory that have been counted for it.
    pub counted_bytes: usize,
    /// Bytes that the system may hold for it which have been counted.
    pub counted_kernel_bytes: usize,
    /// Bytes that the system may hold: those that were handed to it since it was last looked, as many as it can hold, and
    /// those it held then.
    unsent_bytes: usize,
    /// Something was handed over since it was last looked.
    is_unsent_guessed: bool,
    /// Bytes that the system holds as they could not be read for long.
    unread_bytes: usize,
    /// Work that a websocket may cause.
    pub credit: Credit,
    /// Since when there has been a request that is not answered.
    pub request_since: Option<Instant>,
    /// Bytes that were read since they were last counted.
    pub received_bytes: u64,
    /// Bytes that were written since.
    pub sent_bytes: u64,
    may_read: bool,
    may_write: bool,
    /// The client has closed its side, so reading goes on until that is seen.
    read_closed: bool,
    at_end: bool,
    /// Both sides are closed, or the connection is broken: nothing can be sent any more.
    is_broken: bool,
    last_active: Instant,
    /// When something has last come from the client.
    heard: Instant,
    /// When the client of a websocket was asked whether it is there, if nothing has come from it since.
    pinged: Option<Instant>,
    /// Bytes that were thrown away since the last answer.
    wasted_bytes: usize,
    stalled_since: Option<Instant>,
    /// Since when the other end has not taken the last of what was sent.
    draining_since: Option<Instant>,
    lingering_since: Option<Instant>,
}

/// What a socket has become ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There is something to read.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// The other end has closed its side: there is an end to be read.
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

/// Where a connection comes from.
pub(super) struct Origin {
    pub id: ConnectionId,
    pub listener: ListenerId,
    pub peer: IpAddr,
    pub account: AccountId,
}

impl<S: Socket> Connection<S> {
    pub fn new(origin: Origin, socket: S, credit: Credit, now: Instant) -> Self {
        let Origin { id, listener, peer, account } = origin;
        Self {
            id,
            listener,
            peer,
            account,
            caller: Caller::itself(listener, peer),
            socket,
            output: Output::default(),
            closing: Closing::Open,
            work: Work::None,
            is_websocket: false,
            place: None,
            has_moved: false,
            is_ready: false,
            is_muted: false,
            is_dirty: false,
            counted_bytes: 0,
            counted_kernel_bytes: 0,
            unsent_bytes: 0,
            is_unsent_guessed: false,
            unread_bytes: 0,
            credit,
            request_since: None,
            received_bytes: 0,
            sent_bytes: 0,
            may_read: false,
            may_write: true,
            read_closed: false,
            at_end: false,
            is_broken: false,
            last_active: now,
            heard: now,
            pinged: None,
            wasted_bytes: 0,
            stalled_since: None,
            draining_since: None,
            lingering_since: None,
        }
    }

    /// Takes note of what the socket is ready for.
    pub fn notice(&mut self, ready: Readiness) {
        self.read_closed |= ready.read_closed;
        self.may_read |= ready.readable || self.read_closed;
        self.may_write |= ready.writable;
        self.is_broken |= ready.broken;
    }

    /// Whether reading now can bring something that may be handled. While a request is worked on, only the end of the
    /// connection matters.
    pub fn wants_read(&self) -> bool {
        let is_free = self.work == Work::None || self.closing != Closing::Open;
        self.may_read && !self.at_end && self.closing != Closing::AfterOutput && is_free
    }

    /// Whether a part of an answer is out, or on its way.
    pub fn is_amid_answer(&self) -> bool {
        self.work == Work::Unfinished || !self.output.is_empty()
    }

    /// Whether nothing is lost if it is closed now: it is in the middle of nothing, and no websocket.
    pub fn is_idle(&self) -> bool {
        !self.is_websocket && !self.is_busy()
    }

    /// Whether a request or message is worked on, or what was sent has not been taken.
    pub fn is_busy(&self) -> bool {
        self.work != Work::None || !self.output.is_empty() || self.has_unsent()
    }

    /// How long it has done nothing.
    pub fn idle_time(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last_active)
    }

    /// Bytes that the system may hold for it: what was handed over and may not have been taken by the other end, and
    /// what came and could not be read.
    pub fn kernel_bytes(&self) -> usize {
        self.unsent_bytes + self.unread_bytes
    }

    /// Looks how much of what was sent the other end has not taken.
    pub fn look_at_unsent(&mut self) {
        if self.unsent_bytes > 0 {
            let is_all_written = self.closing != Closing::Open && self.output.is_empty();
            self.unsent_bytes = self.unsent_bytes.min(self.socket.unsent_bytes(is_all_written));
            self.is_unsent_guessed = false;
        }
    }

    /// Whether the other end may not have taken all that was sent, when it was last looked.
    pub fn has_unsent(&self) -> bool {
        self.unsent_bytes > 0
    }

    /// Whether it has not been looked since something was sent.
    pub fn is_unsent_guessed(&self) -> bool {
        self.has_unsent() && self.is_unsent_guessed
    }

    /// Whether it ends as soon as the other end has taken what was sent.
    pub fn is_draining(&self) -> bool {
        self.closing != Closing::Open && self.output.is_empty() && self.has_unsent()
    }

    /// Looks what has come and could not be read.
    pub fn look_at_unread(&mut self) {
        self.unread_bytes = if self.may_read && !self.at_end { self.socket.unread_bytes() } else { 0 };
    }

    /// Has the system forget what the other end does not take, as the connection is about to be closed.
    pub fn discard_unsent(&mut self) {
        self.look_at_unsent();
        if !self.output.is_empty() || self.has_unsent() {
            self.socket.discard_unsent();
        }
    }

    /// Whether so much was thrown away since its last answer that no more is read.
    pub fn has_wasted(&self, limit: usize) -> bool {
        self.wasted_bytes > limit
    }

    /// Whether the client has sent all that it will send.
    pub fn is_at_end(&self) -> bool {
        self.at_end
    }

    /// Whether the connection has come to its end and everything has been sent that can be.
    pub fn is_finished(&self) -> bool {
        match self.closing {
            _ if self.is_broken => true,
            // Who waits for no more of an answer that has no end in sight is seen to go.
            Closing::Open => self.work == Work::Held && self.read_closed && self.output.is_empty(),
            _ if self.has_unsent() || !self.output.is_empty() => false,
            Closing::AfterOutput => true,
            Closing::Linger => self.at_end,
        }
    }

    /// Whether this is a websocket that can be sent messages.
    pub fn is_open_websocket(&self) -> bool {
        self.is_websocket && self.closing == Closing::Open
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
        // The end of the stream is reported only once, perhaps together with these bytes: if it has been, it must be
        // read as well.
        if count < buffer.len() && SHORT_IS_EXHAUSTED && !self.read_closed {
            self.may_read = false;
        }
        // An answer to a ping says that the client is there, and not that it does anything.
        if self.pinged.take().is_none() {
            self.last_active = now;
        }
        self.heard = now;
        self.unread_bytes = 0;
        self.received_bytes += count as u64;
        if self.closing != Closing::Open {
            self.wasted_bytes = self.wasted_bytes.saturating_add(count);
        }
        Ok(count)
    }

    /// Answers what cannot be read or served, and ends the connection.
    pub fn refuse(&mut self, error: HttpError) {
        log::debug!("{:?}: refused: {error}", self.id);
        Reply::write_refusal(error, self.output.queue());
        self.closing = Closing::Linger;
    }

    /// A message has come from the client of a websocket.
    pub fn heard_message(&mut self, now: Instant) {
        self.last_active = now;
    }

    /// Asks the client of an open websocket whether it is there.
    pub fn ping(&mut self, now: Instant) {
        write_ping(self.output.queue());
        self.output.mark(now);
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
        self.output.mark(now);
    }

    /// Ends an open websocket from this side.
    pub fn close_websocket(&mut self, code: u16, reason: &str, now: Instant) {
        write_close(code, reason, self.output.queue());
        self.output.mark(now);
        self.closing = Closing::Linger;
    }

    /// Ends a websocket whose client does not keep up: what has not begun to go out is dropped.
    pub fn drop_slow_websocket(&mut self, now: Instant) {
        self.output.drop_unsent();
        self.close_websocket(TOO_SLOW, "", now);
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
                self.unsent_bytes = self.unsent_bytes.saturating_add(written.bytes).min(MOST_UNSENT);
                self.is_unsent_guessed = true;
            }
        }
        if self.output.is_empty() {
            // What the other end of a closed socket has not taken would be the system's for long, and nobody's; after the
            // end of writing it could not be told how much that is.
            if self.is_draining() && self.may_write {
                self.look_at_unsent();
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

    /// What is due at `now`.
    pub fn due(&self, now: Instant, limits: &Limits) -> Option<Due> {
        let exceeds = |since: Instant, limit| now.saturating_duration_since(since) >= limit;
        if let Some(since) = self.lingering_since {
            return exceeds(since, limits.linger).then_some(Due::Drop);
        }
        if let Some(since) = self.draining_since {
            return exceeds(since, limits.write_stall).then_some(Due::Drop);
        }
        if self.is_open_websocket() {
            if self.output.age(now) >= limits.send_age {
                return Some(Due::SlowConsumer);
            }
            if exceeds(self.last_active, limits.websocket_idle) {
                return Some(Due::IdleWebSocket);
            }
            return match self.pinged {
                Some(pinged) => exceeds(pinged, limits.websocket_silence).then_some(Due::Drop),
                None => exceeds(self.heard, limits.websocket_silence).then_some(Due::Ping),
            };
        }
        if let Some(since) = self.stalled_since {
            return exceeds(since, limits.write_stall).then_some(Due::Drop);
        }
        if self.closing != Closing::Open {
            // Its last output has yet to be written.
            return None;
        }
        if self.work == Work::Held {
            return exceeds(self.last_active, limits.websocket_idle).then_some(Due::SlowAnswer);
        }
        if let Some(since) = self.request_since {
            let due = if self.work == Work::None { Due::SlowRequest } else { Due::SlowAnswer };
            return exceeds(since, limits.request_time).then_some(due);
        }
        exceeds(self.last_active, limits.keep_alive).then_some(Due::Drop)
    }
}
