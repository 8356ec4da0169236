//! One session, and the transport that carries its frames to its client.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::Limits;
use super::content::{Content, Item};
use super::sockjs::{self, Transport, Wrapper};
use super::stomp::Decoder;
use super::topics::Subscriptions;
use crate::metrics::subtract;
use crate::model::Address;
use crate::net::ClientKey;
use crate::net::service::{ConnectionId, Dropped, Effects, Message, Progress};

/// Estimated memory of an idle session, in bytes.
pub const SESSION_BYTES: usize = 2 * 1024;
/// Estimated memory of a registered address, in the tables of session and broker.
pub const REGISTRATION_BYTES: usize = 160;
/// Bytes copied per work unit.
const BYTES_PER_UNIT: usize = 4 * 1024;

/// Id of a session. It is independent of the connection and never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Resources that one session, or all sessions of one client, use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory, estimated generously.
    pub bytes: usize,
    /// Subscriptions to patterns.
    pub patterns: usize,
}

/// What keeps an address registered for a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registration {
    /// Subscriptions, until they end.
    pub subscriptions: u32,
    /// A query, until the session ends.
    pub by_query: bool,
}

/// One open session.
#[derive(Debug)]
pub struct Session {
    /// First half of each `message-id`: 1 to 8 lower-case hex digits without padding, or the name given by a SockJS
    /// client.
    pub name: String,
    /// Carries its frames to the client.
    pub transport: SessionTransport,
    /// When it must be looked at next.
    pub timer: Option<Duration>,
    /// The client whose usage it counts for.
    pub client: ClientKey,
    /// Its part of that usage.
    pub usage: Usage,
    /// Time of its opening or last message.
    pub last_message: Duration,
    /// When it was opened, until its first message.
    pub silent_since: Option<Duration>,
    /// It has ended: nothing is read from it or sent to it any more.
    pub is_closing: bool,
    /// Decoder of its inbound byte stream.
    pub decoder: Decoder,
    /// Memory of the decoder beyond [`SESSION_BYTES`], as counted.
    pub decoder_bytes: usize,
    /// Its subscriptions.
    pub subscriptions: Subscriptions,
    /// Its registered addresses.
    pub registrations: BTreeMap<Address, Registration>,
    /// Its queries that are not answered yet.
    pub queries: VecDeque<Item>,
    /// Its frames wait until its query queue has space.
    pub is_suspended: bool,
    /// Its last CONNECT had an `accept-version`.
    pub has_accept_version: bool,
}

impl Session {
    /// Creates a session that has not received anything yet.
    pub fn new(name: String, transport: SessionTransport, client: ClientKey, decoder: Decoder, now: Duration) -> Self {
        Self {
            name,
            transport,
            timer: None,
            client,
            usage: Usage::default(),
            last_message: now,
            silent_since: Some(now),
            is_closing: false,
            decoder,
            decoder_bytes: 0,
            subscriptions: Subscriptions::default(),
            registrations: BTreeMap::new(),
            queries: VecDeque::new(),
            is_suspended: false,
            has_accept_version: false,
        }
    }

    /// Handles a CONNECT with this `accept-version`; an empty value counts as none. Returns the version for CONNECTED,
    /// which is none if the client named none, or `None` if no version is common.
    pub fn connect(&mut self, accept_version: Option<&str>, lenient: bool) -> Option<Option<&'static str>> {
        let accept_version = accept_version.filter(|versions| !versions.is_empty());
        self.has_accept_version = accept_version.is_some();
        let Some(versions) = accept_version else { return Some(None) };
        let accepts = |version: &&str| {
            versions.split(',').map(|item| if lenient { trim(item) } else { item }).any(|item| item == *version)
        };
        let supported = if lenient { &["1.2", "1.1", "1.0"][..] } else { &["1.2", "1.1"] };
        supported.iter().copied().find(accepts).map(Some)
    }

    /// Returns whether this is a legacy client: a plain websocket and no `accept-version`. It gets heights as bare
    /// numbers, and the transactions of the accounts that it registers, without a SUBSCRIBE.
    pub fn is_legacy_client(&self) -> bool {
        self.transport.is_raw() && !self.has_accept_version
    }

    /// Adds up what the session uses.
    pub fn current_usage(&self) -> Usage {
        if self.is_closing {
            return Usage::default();
        }
        let registrations = self.registrations.len() * REGISTRATION_BYTES;
        let bytes = SESSION_BYTES + self.decoder_bytes + self.transport.message_bytes + registrations;
        Usage { bytes: bytes + self.subscriptions.bytes, patterns: self.subscriptions.pattern_count() }
    }

    /// When the session must be looked at: its transport is due, or it is closed because of its silence. The end of a
    /// closed websocket is reported by its connection.
    pub fn due(&self, limits: &Limits) -> Option<Duration> {
        if self.is_closing && self.transport.socket().is_some() {
            return None;
        }
        let silence = self.silent_since.map(|since| since + limits.first_message);
        self.transport.due(limits).into_iter().chain(silence).min()
    }
}

/// Trims blanks from both ends of a header value.
pub fn trim(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

/// Bytes of messages after which a response ends, and the client must send a new request.
pub const ANSWER_BYTES: usize = 128 * 1024;
/// Bytes after which a part of a response is sent before more is added.
const CHUNK_BYTES: usize = 32 * 1024;
/// Requests that wait until the messages of another request are processed.
pub const MAX_WAITING_SENDERS: usize = 8;
/// Bytes of messages that are kept for the client of an ended session.
pub const MAX_CLOSING_BYTES: usize = 2 * 1024;
/// Memory of a message besides its text, in bytes.
const MESSAGE_OVERHEAD: usize = 32;
/// Why a session is closed, or a request gets no messages: a close code and a reason.
pub type CloseReason = (u16, &'static str);

/// The client does not fetch its messages.
pub const TOO_SLOW: CloseReason = (4500, "");
/// Another request already waits for messages of the session.
pub const STILL_OPEN: CloseReason = (2010, "Another connection still open");
/// The session has ended, and the client has been informed.
pub const GO_AWAY: CloseReason = (3000, "Go away!");
/// A connection that received or sent messages was lost; some messages may be lost.
pub const INTERRUPTED: CloseReason = (1002, "Connection interrupted");

/// How the frames of a session reach its client: on a websocket, or in the responses to requests, for which messages
/// are queued.
#[derive(Debug)]
pub struct SessionTransport {
    /// The SockJS transport that opened the session; `None` for a plain websocket.
    pub sockjs: Option<Transport>,
    /// The websocket, or the request that waits for messages.
    pub receiver: Option<ConnectionId>,
    /// The request whose messages are being read.
    pub sender: Option<ConnectionId>,
    waiting_senders: VecDeque<ConnectionId>,
    /// Each is a JSON string with its quotes.
    messages: VecDeque<Box<[u8]>>,
    /// Bytes of queued messages.
    pub message_bytes: usize,
    is_open: bool,
    is_heartbeat_due: bool,
    /// Why the session has ended.
    end: Option<CloseReason>,
    /// The client has been informed of the end.
    is_end_sent: bool,
    /// Bytes of messages in the current response.
    response_bytes: usize,
    /// When something was last sent, or the last receiver left.
    last_activity: Duration,
    /// Work units to charge to the next receiver.
    deferred_cost: u32,
}

impl SessionTransport {
    /// Creates the transport of a new session: on a websocket, or fetched by requests, whose first response starts with an
    /// open frame.
    pub fn new(sockjs: Option<Transport>, websocket: Option<ConnectionId>, now: Duration) -> SessionTransport {
        SessionTransport {
            sockjs,
            receiver: websocket,
            sender: None,
            waiting_senders: VecDeque::new(),
            messages: VecDeque::new(),
            message_bytes: 0,
            is_open: false,
            is_heartbeat_due: false,
            end: None,
            is_end_sent: false,
            response_bytes: 0,
            last_activity: now,
            deferred_cost: 0,
        }
    }

    /// Returns whether it is a plain websocket.
    pub fn is_raw(&self) -> bool {
        self.sockjs.is_none()
    }

    /// Returns whether the client fetches messages by requests.
    pub fn is_polled(&self) -> bool {
        self.sockjs.is_some_and(|transport| transport != Transport::Websocket)
    }

    /// Returns the websocket, if there is one.
    pub fn socket(&self) -> Option<ConnectionId> {
        self.receiver.filter(|_| !self.is_polled())
    }

    /// All connections that currently carry data of the session.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        self.receiver.into_iter().chain(self.sender).chain(self.waiting_senders.iter().copied())
    }

    /// Returns the connection whose messages are being read.
    pub fn reading_connection(&self) -> Option<ConnectionId> {
        if self.is_polled() { self.sender } else { self.receiver }
    }

    /// Sends a STOMP frame: `head` and, if it is a MESSAGE, its body, in the form for a legacy client or not. Returns the
    /// work units beyond the usual cost.
    pub fn send(
        &mut self,
        head: &[u8],
        body: Option<(&Content, bool)>,
        now: Duration,
        max_backlog: usize,
        effects: &mut dyn Effects,
    ) -> Result<u32, Dropped> {
        if self.is_raw() {
            let body = body.map(|(content, is_legacy_client)| content.for_session(is_legacy_client));
            self.send_message(Message { head, body, tail: &[] }, now, effects)?;
            return Ok(0);
        }
        let body = body.map(|(content, _)| content.escaped());
        let mut escaped = Vec::with_capacity(2 * head.len());
        escaped.extend_from_slice(if self.is_polled() { b"\"" } else { sockjs::MESSAGE_START });
        sockjs::escape(&mut escaped, &String::from_utf8_lossy(head));
        if !self.is_polled() {
            self.send_message(Message { head: &escaped, body, tail: sockjs::MESSAGE_END }, now, effects)?;
            return Ok(0);
        }
        let message = [&escaped[..], body.map_or(&[], |body| &body[..]), b"\""].concat();
        let units = message.len() / BYTES_PER_UNIT;
        let queued = self.push(message.into(), max_backlog, now);
        self.receiver.into_iter().for_each(|receiver| effects.resume(receiver));
        queued?;
        Ok(u32::try_from(units).unwrap_or(u32::MAX))
    }

    /// Sends a message on the websocket.
    fn send_message(&mut self, message: Message<'_>, now: Duration, effects: &mut dyn Effects) -> Result<(), Dropped> {
        effects.send(self.receiver.ok_or(Dropped)?, message)?;
        self.last_activity = now;
        Ok(())
    }

    /// Closes the transport. A SockJS websocket also gets a close frame unless `silently`.
    pub fn close(&mut self, reason: CloseReason, silently: bool, now: Duration, effects: &mut dyn Effects) {
        if self.is_polled() {
            self.end(reason, now);
            self.connections().for_each(|connection| effects.resume(connection));
        } else if let Some(socket) = self.receiver {
            let needs_frame = !self.is_raw() && !silently;
            if !needs_frame || effects.send(socket, Message::of(&sockjs::close_frame(reason))).is_ok() {
                effects.close(socket, reason.0, reason.1);
            }
        }
    }

    /// Charges the client with work.
    pub fn charge(&mut self, units: u32, effects: &mut dyn Effects) {
        match self.receiver.or(self.sender) {
            Some(connection) => effects.charge(connection, units),
            None => self.deferred_cost = self.deferred_cost.saturating_add(units),
        }
    }

    /// Bytes that wait for the client.
    pub fn backlog(&self, effects: &dyn Effects) -> usize {
        self.message_bytes + self.receiver.map_or(0, |receiver| effects.backlog(receiver))
    }

    /// When the transport needs a heartbeat or times out.
    pub fn due(&self, limits: &Limits) -> Option<Duration> {
        let pause = if self.receiver.is_some() { limits.heartbeat } else { limits.disconnect_delay };
        self.sockjs.map(|_| self.last_activity + pause)
    }

    /// Sends the heartbeat that is due. Returns false if the session has timed out instead, and an error if its websocket
    /// is gone.
    pub fn on_timer(&mut self, now: Duration, effects: &mut dyn Effects) -> Result<bool, Dropped> {
        let Some(receiver) = self.receiver else { return Ok(false) };
        match self.is_polled() {
            true => {
                self.is_heartbeat_due = true;
                self.last_activity = now;
                effects.resume(receiver);
            }
            false => self.send_message(Message::of(sockjs::HEARTBEAT), now, effects)?,
        }
        Ok(true)
    }

    /// Queues a message, a JSON string with its quotes. Fails and ends the session if more than `limit` bytes would be
    /// queued, unless the queue is empty.
    fn push(&mut self, message: Box<[u8]>, limit: usize, now: Duration) -> Result<(), Dropped> {
        let bytes = message.len() + MESSAGE_OVERHEAD;
        if !self.messages.is_empty() && self.message_bytes + bytes > limit {
            self.end(TOO_SLOW, now);
            return Err(Dropped);
        }
        self.message_bytes += bytes;
        self.messages.push_back(message);
        Ok(())
    }

    /// Ends the session. Only the newest [`MAX_CLOSING_BYTES`] of messages are kept, and none for a client that did not fetch
    /// them.
    fn end(&mut self, reason: CloseReason, now: Duration) {
        if self.end.is_some() {
            return;
        }
        self.end = Some(reason);
        if self.receiver.is_none() {
            self.last_activity = now;
        }
        // A client that has missed messages gets none of the rest.
        let kept = if reason.0 == TOO_SLOW.0 { 0 } else { MAX_CLOSING_BYTES };
        while self.message_bytes > kept && self.take().is_some() {}
        self.messages.shrink_to_fit();
    }

    /// Attaches a request that receives. Returns the work units to charge to it.
    pub fn attach(&mut self, connection: ConnectionId) -> Result<u32, CloseReason> {
        if self.receiver.is_some() {
            return Err(STILL_OPEN);
        }
        if self.is_end_sent {
            return Err(GO_AWAY);
        }
        self.receiver = Some(connection);
        self.response_bytes = 0;
        Ok(std::mem::take(&mut self.deferred_cost))
    }

    /// Writes queued messages into the receiver's response. When the response is complete, the receiver is detached.
    pub fn write_pending(&mut self, wrapper: &Wrapper<'_>, now: Duration, out: &mut Vec<u8>) -> Progress {
        let before = out.len();
        let taken = self.write(wrapper, out);
        if out.len() > before {
            self.last_activity = now;
            self.is_heartbeat_due = false;
        }
        if taken == Progress::Done {
            self.receiver = None;
            // Free the memory of the fetched messages.
            self.messages.shrink_to_fit();
        }
        taken
    }

    fn write(&mut self, wrapper: &Wrapper<'_>, out: &mut Vec<u8>) -> Progress {
        let is_polling = !wrapper.transport.is_streaming();
        if !std::mem::replace(&mut self.is_open, true) {
            wrapper.frame(out, sockjs::OPEN);
            if is_polling {
                return Progress::Done;
            }
        }
        if is_polling && !self.messages.is_empty() {
            wrapper.frame(out, &self.batch_frame());
            return Progress::Done;
        }
        while let Some(message) = self.take() {
            let frame = [b"a[", &*message, b"]"].concat();
            wrapper.frame(out, &frame);
            self.response_bytes += frame.len() + 1;
            if self.response_bytes >= ANSWER_BYTES {
                return Progress::Done;
            }
            if out.len() >= CHUNK_BYTES {
                return Progress::Yield;
            }
        }
        if let Some(reason) = self.end {
            self.is_end_sent = true;
            wrapper.frame(out, &sockjs::close_frame(reason));
            return Progress::Done;
        }
        if self.is_heartbeat_due {
            wrapper.frame(out, sockjs::HEARTBEAT);
            if is_polling {
                return Progress::Done;
            }
        }
        Progress::Streaming
    }

    /// Combines messages into one frame, up to the size of a response.
    fn batch_frame(&mut self) -> Vec<u8> {
        let mut frame = b"a[".to_vec();
        while let Some(message) = self.take() {
            frame.extend_from_slice(&message);
            frame.push(b',');
            if frame.len() >= ANSWER_BYTES {
                break;
            }
        }
        frame.pop();
        frame.push(b']');
        frame
    }

    fn take(&mut self) -> Option<Box<[u8]>> {
        let message = self.messages.pop_front()?;
        subtract(&mut self.message_bytes, message.len() + MESSAGE_OVERHEAD);
        Some(message)
    }

    /// Starts to read the messages of a request. Returns whether it is its turn; fails if too many requests wait.
    pub fn begin_sending(&mut self, connection: ConnectionId) -> Result<bool, Dropped> {
        if self.sender.is_none() {
            self.waiting_senders.retain(|waiting| *waiting != connection);
            self.sender = Some(connection);
            return Ok(true);
        }
        if !self.waiting_senders.contains(&connection) {
            if self.waiting_senders.len() >= MAX_WAITING_SENDERS {
                return Err(Dropped);
            }
            self.waiting_senders.push_back(connection);
        }
        Ok(false)
    }

    /// Ends the reading of a request's messages. Returns the next request to resume.
    pub fn end_sending(&mut self) -> Option<ConnectionId> {
        self.sender = None;
        self.waiting_senders.front().copied()
    }

    /// Handles a lost connection. Returns whether messages may be lost.
    pub fn on_disconnect(&mut self, connection: ConnectionId, now: Duration) -> bool {
        self.waiting_senders.retain(|waiting| *waiting != connection);
        let is_receiver = self.receiver.take_if(|receiver| *receiver == connection).is_some();
        if is_receiver {
            self.last_activity = now;
        }
        self.sender.take_if(|sender| *sender == connection).is_some() || is_receiver
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::websocket_api::testing::{Recorder, client};

    fn session() -> Session {
        let client_key = ClientKey::of(&client("10.0.0.1"), 64);
        Session::new(
            "1c884f9d".to_owned(),
            SessionTransport::new(None, Some(ConnectionId(7)), Duration::ZERO),
            client_key,
            Decoder::default(),
            Duration::ZERO,
        )
    }

    #[test]
    fn the_version_is_the_highest_both_sides_know() {
        let cases = [
            (None, Some(None), Some(None)),
            (Some(""), Some(None), Some(None)),
            (Some("1.1,1.0"), Some(Some("1.1")), Some(Some("1.1"))),
            (Some("1.0,1.1,1.2"), Some(Some("1.2")), Some(Some("1.2"))),
            (Some("1.0"), None, Some(Some("1.0"))),
            (Some(" 1.2"), None, Some(Some("1.2"))),
            (Some("1.1, 1.2"), Some(Some("1.1")), Some(Some("1.2"))),
            (Some("1.3"), None, None),
        ];
        for (versions, strict, lenient) in cases {
            assert_eq!(session().connect(versions, false), strict, "{versions:?}");
            assert_eq!(session().connect(versions, true), lenient, "{versions:?}");
        }
    }

    #[test]
    fn the_last_connect_decides_whether_a_session_is_legacy() {
        let mut session = session();
        assert!(session.is_legacy_client());
        session.connect(Some("1.1"), true);
        assert!(!session.is_legacy_client());
        session.connect(None, true);
        assert!(session.is_legacy_client());
        session.connect(Some("1.1"), true);
        session.connect(Some(""), true);
        assert!(session.is_legacy_client());
    }

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);
    const LIMIT: usize = 512 * 1024;
    const POLL: Wrapper<'_> = Wrapper { transport: Transport::Xhr, callback: "" };
    const STREAM: Wrapper<'_> = Wrapper { transport: Transport::XhrStreaming, callback: "" };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn transport(wrapper: &Wrapper<'_>) -> SessionTransport {
        let mut transport = SessionTransport::new(Some(wrapper.transport), None, at(0));
        assert_eq!(fetch(&mut transport, wrapper, 0).0, "o\n");
        transport
    }

    /// The response to a request of connection A, and its progress.
    fn fetch(transport: &mut SessionTransport, wrapper: &Wrapper<'_>, now: u64) -> (String, Progress) {
        if transport.receiver.is_none() {
            transport.attach(A).unwrap();
        }
        let mut out = Vec::new();
        let taken = transport.write_pending(wrapper, at(now), &mut out);
        (String::from_utf8(out).unwrap(), taken)
    }

    fn post(transport: &mut SessionTransport, text: &str) -> Result<(), Dropped> {
        transport.push(format!("\"{text}\"").into_bytes().into(), LIMIT, at(1))
    }

    #[test]
    fn polling_gets_all_queued_messages_at_once_and_streaming_one_frame_each() {
        let (mut polled, mut streamed) = (transport(&POLL), transport(&STREAM));
        assert_eq!((polled.receiver, streamed.receiver), (None, Some(A)));
        for transport in [&mut polled, &mut streamed] {
            post(transport, "x").unwrap();
            post(transport, "y").unwrap();
        }
        assert_eq!(fetch(&mut polled, &POLL, 1), ("a[\"x\",\"y\"]\n".to_owned(), Progress::Done));
        assert_eq!(fetch(&mut streamed, &STREAM, 1), ("a[\"x\"]\na[\"y\"]\n".to_owned(), Progress::Streaming));
        assert_eq!((polled.message_bytes, streamed.message_bytes), (0, 0));
        assert_eq!(fetch(&mut polled, &POLL, 1), (String::new(), Progress::Streaming));
    }

    #[test]
    fn a_second_receiver_is_rejected_and_the_first_stays_attached() {
        let mut transport = transport(&STREAM);
        assert_eq!(transport.attach(B), Err(STILL_OPEN));
        assert_eq!(transport.receiver, Some(A));
    }

    #[test]
    fn a_streamed_response_ends_at_its_byte_limit_and_is_written_in_chunks() {
        let mut transport = transport(&STREAM);
        let text = "x".repeat(10_000);
        (0..20).for_each(|_| post(&mut transport, &text).unwrap());
        let mut pieces = Vec::new();
        loop {
            let (piece, taken) = fetch(&mut transport, &STREAM, 1);
            pieces.push(piece.len());
            if taken == Progress::Done {
                break;
            }
            assert_eq!(taken, Progress::Yield);
        }
        let sent: usize = pieces.iter().sum();
        assert!((ANSWER_BYTES..ANSWER_BYTES + 10_010).contains(&sent), "{sent}");
        assert!(pieces.len() > 3 && pieces.iter().all(|piece| *piece < CHUNK_BYTES + 10_010), "{pieces:?}");
        // The next response starts anew.
        assert_eq!(transport.receiver, None);
        let (rest, taken) = fetch(&mut transport, &STREAM, 1);
        assert!(rest.len() > 10_000 && taken == Progress::Yield);
    }

    #[test]
    fn a_poll_response_is_limited_in_bytes() {
        let mut transport = transport(&POLL);
        (0..20).for_each(|_| post(&mut transport, &"x".repeat(10_000)).unwrap());
        let first = fetch(&mut transport, &POLL, 1).0;
        assert!((ANSWER_BYTES..ANSWER_BYTES + 10_010).contains(&first.len()));
        assert_eq!(first.len() + fetch(&mut transport, &POLL, 1).0.len(), 20 * 10_003 + 6);
    }

    #[test]
    fn a_heartbeat_ends_a_poll_and_continues_a_stream() {
        for (wrapper, taken) in [(POLL, Progress::Done), (STREAM, Progress::Streaming)] {
            let mut transport = transport(&wrapper);
            assert_eq!(fetch(&mut transport, &wrapper, 3), (String::new(), Progress::Streaming));
            assert_eq!(transport.due(&Limits::default()), Some(at(25)), "what was written last was written at 0");
            assert_eq!(transport.on_timer(at(25), &mut Recorder::default()), Ok(true));
            assert_eq!(fetch(&mut transport, &wrapper, 26), ("h\n".to_owned(), taken));
            assert_eq!(
                transport.due(&Limits::default()),
                Some(if taken == Progress::Streaming { at(51) } else { at(31) })
            );
        }
    }

    #[test]
    fn a_closed_session_reports_its_close_code_once_and_then_go_away() {
        let mut transport = transport(&POLL);
        post(&mut transport, "last").unwrap();
        transport.end((1002, ""), at(2));
        transport.end((1000, "another"), at(3));
        assert_eq!(transport.due(&Limits::default()), Some(at(7)));
        assert_eq!(fetch(&mut transport, &POLL, 3), ("a[\"last\"]\n".to_owned(), Progress::Done));
        assert_eq!(fetch(&mut transport, &POLL, 3), ("c[1002,\"null\"]\n".to_owned(), Progress::Done));
        assert_eq!(transport.attach(A), Err(GO_AWAY));
    }

    #[test]
    fn a_client_that_does_not_poll_loses_the_session_and_its_queue() {
        let mut transport = transport(&POLL);
        let text = "x".repeat(100_000);
        let posted = (0..10).take_while(|_| post(&mut transport, &text).is_ok()).count();
        assert_eq!((posted, transport.message_bytes), (5, 0));
        assert_eq!(fetch(&mut transport, &POLL, 1).0, "c[4500,\"null\"]\n");
    }

    #[test]
    fn one_message_of_any_size_is_queued() {
        let mut transport = transport(&POLL);
        post(&mut transport, &"x".repeat(2 * LIMIT)).unwrap();
        assert_eq!(fetch(&mut transport, &POLL, 1).0.len(), 2 * LIMIT + 6);
        assert!(post(&mut transport, "y").is_ok());
    }

    #[test]
    fn send_requests_are_serialised_and_their_queue_is_limited() {
        let mut transport = transport(&POLL);
        assert_eq!(transport.begin_sending(A), Ok(true));
        let others = (10..).map(ConnectionId);
        let waiting = others.take_while(|other| transport.begin_sending(*other) == Ok(false)).count();
        assert_eq!(waiting, MAX_WAITING_SENDERS);
        assert_eq!(transport.begin_sending(ConnectionId(10)), Ok(false), "it waits already");
        assert_eq!(transport.end_sending(), Some(ConnectionId(10)));
        assert_eq!(transport.begin_sending(ConnectionId(10)), Ok(true));
        assert!(!transport.on_disconnect(ConnectionId(11), at(1)), "nothing of it was read");
        assert!(transport.on_disconnect(ConnectionId(10), at(1)));
        assert_eq!(transport.end_sending(), Some(ConnectionId(12)));
    }

    proptest! {
        #[test]
        fn all_messages_are_delivered_once_and_in_order(
            steps in proptest::collection::vec((0u8..4, 0usize..40_000), 1..60),
            is_streaming: bool,
        ) {
            let wrapper = if is_streaming { STREAM } else { POLL };
            let mut transport = transport(&wrapper);
            let (mut posted, mut got) = (Vec::new(), Vec::new());
            let mut receive = |transport: &mut SessionTransport| {
                let (text, taken) = fetch(transport, &wrapper, 1);
                for line in text.lines().filter_map(|line| line.strip_prefix('a')) {
                    got.extend(serde_json::from_str::<Vec<String>>(line).unwrap());
                }
                taken
            };
            for (step, size) in steps {
                match step {
                    0 | 1 => {
                        let text = format!("{}{}", posted.len(), "x".repeat(size));
                        let held = transport.message_bytes;
                        if post(&mut transport, &text).is_err() {
                            prop_assert!(held + size > LIMIT - 100);
                            return Ok(());
                        }
                        posted.push(text);
                    }
                    2 => drop(receive(&mut transport)),
                    _ => drop(transport.on_timer(at(2), &mut Recorder::default())),
                }
                prop_assert!(transport.message_bytes <= LIMIT);
            }
            for _ in 0..1000 {
                if receive(&mut transport) == Progress::Streaming {
                    break;
                }
            }
            prop_assert_eq!(transport.message_bytes, 0);
            prop_assert_eq!(got, posted);
        }
    }
}
