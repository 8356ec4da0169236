//! The session table: sessions with their usage, subscriptions, registered addresses and timers, kept consistent.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::content::{Content, Item};
use super::publish_job::PublishJob;
use super::stomp::{Decoder, encoder};
use super::topics::{self, Subscription, Subscriptions, Topics, is_pattern};
use super::{Limits, sockjs};
use crate::model::{Address, Height};
use crate::net::SharedBytesCounter;
use crate::net::service::{Client, ConnectionId, Dropped, Effects, Message};
use crate::peer::io::Now;
use crate::quota::{Owner, Quota};

/// Maximum length of a subscription id, in bytes; a longer one is rejected.
const MAX_SUBSCRIPTION_ID_BYTES: usize = 256;
/// Time until the first message of a session; without one it is closed with 4500.
const FIRST_MESSAGE: Duration = Duration::from_secs(60);
/// Time without a frame after which a SockJS session gets a heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(25);
/// Generated ids that are tried per work unit.
const IDS_PER_UNIT: u64 = 5;
/// Close code and reason when the session limit is reached.
pub const TOO_MANY_SESSIONS: CloseReason = (1013, "too many sessions");
/// Close code for a session whose client sends no first message.
const NO_FIRST_MESSAGE: u16 = 4500;
/// Websocket close code of a session that the STOMP layer closes.
pub const CLOSE_PROTOCOL_ERROR: u16 = 1002;
/// Error message for a session that is closed because a global limit is reached.
const LOW_MEMORY_MESSAGE: &str = "The node is short of memory and this session takes much of it";

// Why a request of a session is rejected, for its client.
const LONG_ID: &str = "The subscription id is too long";
const TOO_MANY_SUBSCRIPTIONS: &str = "The session has too many subscriptions, unsubscribe first";
const TOO_MANY_AT_DESTINATION: &str = "The session has too many subscriptions to this destination";
const TOO_MANY_PATTERNS: &str = "The session subscribes to too many patterns";
const TOO_MANY_ADDRESSES: &str = "The session cannot register further addresses, the event stream /events takes more";
const SESSION_MEMORY: &str = "The session takes too much memory, unsubscribe first";
const CLIENT_MEMORY: &str = "The sessions of this address take too much memory";

/// Sessions and everything that belongs to them.
#[derive(Default)]
pub struct SessionTable {
    /// The limits. Sessions keep what they hold when these change.
    pub limits: Limits,
    /// Holds the shared bodies.
    pub pool: SharedBytesCounter,
    /// The current time.
    pub now: Now,
    /// The subscription index.
    pub topics: Topics,
    /// Number of sessions that have registered each address.
    pub registered: BTreeMap<Address, u32>,
    /// Messages sent.
    pub messages: u64,
    /// Places of the sessions, and the turns of their queries.
    pub places: Quota<SessionId>,
    /// Their memory in bytes.
    pub memory: Quota<SessionId>,
    /// Their subscriptions to patterns.
    patterns: Quota<SessionId>,
    /// The id of the session opened last.
    pub last_session: SessionId,
    /// The sessions. Their subscriptions and registrations are changed only through this table.
    pub sessions: BTreeMap<SessionId, Session>,
    /// The session of each websocket.
    session_by_connection: BTreeMap<ConnectionId, SessionId>,
    timers: BTreeSet<(Duration, SessionId)>,
    /// Scratch buffer for frames and the heads of messages.
    scratch: Vec<u8>,
}

impl SessionTable {
    /// Creates a table without sessions.
    pub fn new(limits: Limits, pool: SharedBytesCounter) -> Self {
        Self { limits, pool, ..Self::default() }
    }

    /// Opens a session, with the client's name for it if it uses SockJS. When too many are open, the longest silent session
    /// of the client that has most, in the network that has most, is evicted. Fails if its client holds too much memory.
    pub fn open(
        &mut self,
        socket: ConnectionId,
        name: Option<&str>,
        client: &Client,
        effects: &mut dyn Effects,
    ) -> Option<SessionId> {
        let (limits, now) = (self.limits, self.now.monotonic);
        let client = Owner::of(client);
        if self.memory.held_by_client(client) + SESSION_BYTES > limits.client_bytes {
            return None;
        }
        let id = SessionId(self.last_session.0 + 1);
        self.last_session = id;
        // Eight hex digits name four billion sessions, which are never open at the same time.
        let (is_sockjs, name) = (name.is_some(), name.map_or_else(|| format!("{:x}", id.0 as u32), str::to_owned));
        self.session_by_connection.insert(socket, id);
        self.sessions.insert(id, Session::new(name, socket, is_sockjs, client, now));
        self.places.hold(id, client, 1, now);
        self.schedule(id);
        while self.places.total() > limits.sessions
            && let Some((_, first)) = self.places.gives_way()
        {
            log::debug!("session {} is closed: its network and client have the most", first.0);
            self.close(first, TOO_MANY_SESSIONS, false, effects);
        }
        self.update_memory(id, effects);
        Some(id)
    }

    /// Handles the loss of a websocket: its session is removed with everything that belongs to it, and returned.
    pub fn on_disconnect(&mut self, socket: ConnectionId) -> Option<SessionId> {
        let id = self.session_of(socket)?;
        self.end(id);
        Some(id)
    }

    /// Handles a chain update that keeps blocks up to `common`. An answer about a replaced block restarts with the new last
    /// block.
    pub fn chain_changed(&mut self, common: Height) {
        for (id, session) in &mut self.sessions {
            let is_replaced = |job: &mut PublishJob| job.block.is_some_and(|height| height > common);
            if session.answer.take_if(is_replaced).is_some() {
                session.queries.push_front(Item::LastBlock);
                self.places.wait(*id, self.now.monotonic);
            }
        }
    }

    /// Runs the due timers: sends heartbeats, and closes sessions without a first message.
    pub fn on_timer(&mut self, effects: &mut dyn Effects) {
        let now = self.now.monotonic;
        while let Some((due, id)) = self.timers.first().copied().filter(|(due, _)| *due <= now) {
            self.timers.remove(&(due, id));
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            session.timer = None;
            let is_heartbeat_due = session.heartbeat_due().is_some_and(|due| due <= now);
            if is_heartbeat_due && session.send_message(Message::of(sockjs::HEARTBEAT), now, effects).is_err() {
                self.end(id);
            }
            let session = self.sessions.get(&id);
            if session.and_then(|session| session.silent_since).is_some_and(|since| now >= since + FIRST_MESSAGE) {
                self.close(id, (NO_FIRST_MESSAGE, ""), true, effects);
            }
            self.schedule(id);
        }
    }

    /// When the next timer is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Sets the timer of a session. What is sent meanwhile does not move it: a timer that fires too early is set again.
    pub fn schedule(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let due = session.due();
        if let Some(before) = std::mem::replace(&mut session.timer, due) {
            self.timers.remove(&(before, id));
        }
        self.timers.extend(due.map(|due| (due, id)));
    }

    /// Records that a session has sent something.
    pub fn record_message(&mut self, id: SessionId) {
        if let Some(client) = self.sessions.get(&id).map(|session| session.client) {
            self.places.hold(id, client, 1, self.now.monotonic);
        }
    }

    /// Returns the session of a websocket.
    pub fn session_of(&self, connection: ConnectionId) -> Option<SessionId> {
        self.session_by_connection.get(&connection).copied()
    }

    /// Number of sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Adds the subscription of a SUBSCRIBE, and with it the registration of `address`, if its topic has one; or an
    /// implicit one, unless there is another to the destination. An existing subscription is unchanged. That of a
    /// SUBSCRIBE replaces an implicit subscription to the same destination; an implicit subscription with the same id
    /// gets another id.
    pub fn subscribe(
        &mut self,
        id: SessionId,
        subscription: Option<&str>,
        destination: &str,
        address: Option<Address>,
        is_implicit: bool,
        effects: &mut dyn Effects,
    ) -> Result<(), &'static str> {
        let destination = Rc::from(destination);
        let Some(session) = self.sessions.get(&id) else { return Ok(()) };
        let existing = &session.subscriptions;
        let is_there = is_implicit && existing.count_at(&destination) > 0;
        if is_there || subscription.is_some_and(|own| existing.has_explicit(own, &destination)) {
            return Ok(());
        }
        let replaced = existing.implicit_id_at(&destination);
        self.check_subscription(session, subscription.map_or(0, str::len), &destination, replaced.is_some())?;
        if let Some(address) = address {
            self.register(id, address, effects)?;
        }
        if replaced.is_some() {
            // An implicit subscription never shares its id.
            self.unsubscribe(id, replaced.as_deref());
        }
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        let tried = session.subscriptions.add(subscription, &destination, is_implicit);
        effects.charge(session.socket, u32::try_from(tried.div_ceil(IDS_PER_UNIT)).unwrap_or(u32::MAX));
        self.topics.add(destination, id);
        self.update_memory(id, effects);
        Ok(())
    }

    /// Checks whether a session may have one more subscription, which may replace another.
    fn check_subscription(
        &self,
        session: &Session,
        id_bytes: usize,
        destination: &Rc<str>,
        replaces: bool,
    ) -> Result<(), &'static str> {
        let limits = &self.limits;
        let (existing, replaced) = (&session.subscriptions, usize::from(replaces));
        if id_bytes > MAX_SUBSCRIPTION_ID_BYTES {
            return Err(LONG_ID);
        }
        if existing.count() - replaced >= limits.subscriptions_per_session {
            return Err(TOO_MANY_SUBSCRIPTIONS);
        }
        if existing.count_at(destination) - replaced >= limits.subscriptions_per_destination {
            return Err(TOO_MANY_AT_DESTINATION);
        }
        if is_pattern(destination) && existing.pattern_count() >= limits.patterns_per_session {
            return Err(TOO_MANY_PATTERNS);
        }
        self.check_memory(session, topics::bytes_of(id_bytes, destination))
    }

    /// Checks whether a session may use more memory.
    fn check_memory(&self, session: &Session, more: usize) -> Result<(), &'static str> {
        if session.held_bytes() + more > self.limits.session_bytes {
            return Err(SESSION_MEMORY);
        }
        let held = self.memory.held_by_client(session.client);
        if held + more > self.limits.client_bytes { Err(CLIENT_MEMORY) } else { Ok(()) }
    }

    /// Ends the subscriptions of a session that have this id, or all. Returns their number.
    pub fn unsubscribe(&mut self, id: SessionId, subscription: Option<&str>) -> usize {
        let Some(session) = self.sessions.get_mut(&id) else { return 0 };
        let ended = match subscription {
            Some(subscription) => session.subscriptions.remove(subscription),
            None => session.subscriptions.remove_all(),
        };
        for Subscription { destination, is_implicit, .. } in &ended {
            if session.subscriptions.count_at(destination) == 0 {
                self.topics.remove(destination, id);
            }
            if !is_implicit
                && let Some(text) = topics::registering_address(destination)
                && release_address(&mut session.registrations, text.as_bytes())
            {
                release_address(&mut self.registered, text.as_bytes());
            }
        }
        self.count(id);
        ended.len()
    }

    /// Registers an address for a session: until a subscription ends, or because of a query, until the session ends.
    pub fn register(&mut self, id: SessionId, address: Address, effects: &mut dyn Effects) -> Result<(), &'static str> {
        let Some(session) = self.sessions.get(&id) else { return Ok(()) };
        if !session.registrations.contains_key(&address) {
            if session.registrations.len() >= self.limits.addresses_per_session {
                return Err(TOO_MANY_ADDRESSES);
            }
            self.check_memory(session, REGISTRATION_BYTES)?;
            *self.registered.entry(address).or_default() += 1;
        }
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        let reasons = session.registrations.entry(address).or_default();
        *reasons = reasons.saturating_add(1);
        self.update_memory(id, effects);
        Ok(())
    }

    /// Counts what a session holds.
    fn count(&mut self, id: SessionId) {
        let now = self.now.monotonic;
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let (client, counted) = (session.client, (session.held_bytes(), session.subscriptions.pattern_count()));
        if std::mem::replace(&mut session.counted, counted) == counted {
            return;
        }
        self.memory.hold(id, client, counted.0, now);
        match counted.1 {
            0 => self.patterns.release(id, now),
            patterns => self.patterns.hold(id, client, patterns, now),
        }
    }

    /// Counts what a session holds. The session fails if its client holds too much, and others if all together do.
    pub fn update_memory(&mut self, id: SessionId, effects: &mut dyn Effects) {
        self.count(id);
        let client = self.sessions.get(&id).map(|session| session.client);
        if client.is_some_and(|client| self.memory.held_by_client(client) > self.limits.client_bytes) {
            self.fail(id, CLIENT_MEMORY, effects);
        }
        self.enforce_global_limits(effects);
    }

    /// Sends one frame to a session. A session that cannot be sent to ends.
    pub fn send(&mut self, id: SessionId, effects: &mut dyn Effects, write: impl FnOnce(&mut Vec<u8>)) {
        let SessionTable { sessions, now, scratch, .. } = self;
        let Some(session) = sessions.get_mut(&id) else { return };
        scratch.clear();
        write(scratch);
        if session.send(scratch, None, now.monotonic, effects).is_err() {
            self.end(id);
        }
    }

    /// Sends a MESSAGE to a session for each of its subscriptions that match `topic`. Returns the work units; 0 if
    /// there are none.
    pub fn deliver(&mut self, id: SessionId, topic: &Rc<str>, content: &Content, effects: &mut dyn Effects) -> u32 {
        let SessionTable { sessions, now, scratch, messages, .. } = self;
        let Some(session) = sessions.get_mut(&id) else { return 0 };
        // The NUL after the body is not part of it.
        let length = content.for_session(session.is_legacy_client()).len() - 1;
        let subscriptions = session.subscriptions.matching_ids(topic);
        let sent = subscriptions.len() as u32;
        for subscription in subscriptions {
            scratch.clear();
            encoder::message_head(scratch, topic, &subscription, &session.name, *messages, length);
            *messages = messages.wrapping_add(1);
            if session.send(scratch, Some(content), now.monotonic, effects).is_err() {
                self.end(id);
                return sent;
            }
        }
        if sent > 0 {
            effects.charge(session.socket, sent);
        }
        sent
    }

    /// Sends an error message to a session on `/errors`, if it is subscribed to it.
    pub fn send_query_error(&mut self, id: SessionId, message: &str, effects: &mut dyn Effects) {
        let topic = &Rc::from(topics::ERRORS);
        if self.sessions.get(&id).is_some_and(|session| session.subscriptions.matches(topic)) {
            self.deliver(id, topic, &Content::error(message, self.now.network, &self.pool), effects);
        }
    }

    /// Closes a session after an ERROR frame.
    pub fn fail(&mut self, id: SessionId, message: &str, effects: &mut dyn Effects) {
        self.send(id, effects, |out| encoder::error(out, message, None));
        self.close(id, (CLOSE_PROTOCOL_ERROR, ""), false, effects);
    }

    /// Closes a session with a code and a reason. That of SockJS also gets a close frame unless `silently`.
    pub fn close(&mut self, id: SessionId, reason: CloseReason, silently: bool, effects: &mut dyn Effects) {
        let Some(session) = self.sessions.get(&id) else { return };
        let needs_frame = session.is_sockjs && !silently;
        if !needs_frame || effects.send(session.socket, Message::of(&sockjs::close_frame(reason))).is_ok() {
            effects.close(session.socket, reason.0, reason.1);
        }
        self.end(id);
    }

    /// Removes a session with everything that belongs to it. What comes from its websocket until that is gone is
    /// ignored.
    fn end(&mut self, id: SessionId) {
        self.unsubscribe(id, None);
        let Some(session) = self.sessions.remove(&id) else { return };
        self.session_by_connection.remove(&session.socket);
        for address in session.registrations.keys() {
            release_address(&mut self.registered, address.borrow());
        }
        let now = self.now.monotonic;
        for quota in [&mut self.places, &mut self.memory, &mut self.patterns] {
            quota.release(id, now);
        }
        if let Some(due) = session.timer {
            self.timers.remove(&(due, id));
        }
    }

    /// Evicts the sessions that give way until no limit of all sessions is exceeded.
    fn enforce_global_limits(&mut self, effects: &mut dyn Effects) {
        let Limits { total_bytes, patterns, .. } = self.limits;
        loop {
            let first = if self.memory.total() > total_bytes {
                self.memory.gives_way()
            } else if self.topics.pattern_count() > patterns {
                self.patterns.gives_way()
            } else {
                return;
            };
            let Some((_, first)) = first else { return };
            log::debug!("session {} is closed: a limit of all sessions is exceeded, and it uses the most", first.0);
            self.fail(first, LOW_MEMORY_MESSAGE, effects);
        }
    }
}

/// Counts one reason less for which an address is registered. Returns whether it was the last one.
fn release_address(registered: &mut BTreeMap<Address, u32>, address: &[u8]) -> bool {
    let Some(reasons) = registered.get_mut(address) else { return false };
    *reasons = reasons.saturating_sub(1);
    *reasons == 0 && registered.remove(address).is_some()
}

/// Estimated memory of an idle session, in bytes.
pub const SESSION_BYTES: usize = 2 * 1024;
/// Estimated memory of a registered address, in the tables of session and broker.
pub const REGISTRATION_BYTES: usize = 160;

/// Id of a session. It is independent of the connection and never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// One open session.
pub struct Session {
    /// First half of each `message-id`: 1 to 8 lower-case hex digits without padding, or the name given by a SockJS
    /// client.
    pub name: String,
    /// Its websocket.
    pub socket: ConnectionId,
    /// Frames are wrapped into those of SockJS.
    pub is_sockjs: bool,
    /// When something was last sent.
    last_sent: Duration,
    /// When it must be looked at next.
    pub timer: Option<Duration>,
    /// The client whose usage it counts for.
    pub client: Owner,
    /// The bytes and patterns that are counted for it.
    pub counted: (usize, usize),
    /// When it was opened, until its first message.
    pub silent_since: Option<Duration>,
    /// Decoder of its inbound byte stream.
    pub decoder: Decoder,
    /// Memory of the decoder beyond [`SESSION_BYTES`], as counted.
    pub decoder_bytes: usize,
    /// Its subscriptions.
    pub subscriptions: Subscriptions,
    /// Its registered addresses, each with the number of subscriptions and queries for which it is registered.
    pub registrations: BTreeMap<Address, u32>,
    /// Its queries that are not answered yet.
    pub queries: VecDeque<Item>,
    /// Whether what the first of them needs was read from the disk.
    pub reading: QueryReading,
    /// The unfinished answer to another query.
    pub answer: Option<PublishJob>,
    /// Its frames wait until its query queue has space.
    pub is_suspended: bool,
    /// Its last CONNECT had an `accept-version`.
    pub has_accept_version: bool,
}

/// Whether what the next query of a session needs was read from the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueryReading {
    #[default]
    No,
    /// It is being read.
    Awaited,
    Done,
}

impl Session {
    /// Creates a session that has not received anything yet.
    pub fn new(name: String, socket: ConnectionId, is_sockjs: bool, client: Owner, now: Duration) -> Self {
        Self {
            name,
            socket,
            is_sockjs,
            last_sent: now,
            timer: None,
            client,
            counted: (0, 0),
            silent_since: Some(now),
            decoder: Decoder::default(),
            decoder_bytes: 0,
            subscriptions: Subscriptions::default(),
            registrations: BTreeMap::new(),
            queries: VecDeque::new(),
            reading: QueryReading::default(),
            answer: None,
            is_suspended: false,
            has_accept_version: false,
        }
    }

    /// Handles a CONNECT with this `accept-version`; an empty value counts as none. Returns the version for CONNECTED,
    /// which is none if the client named none, or `None` if no version is common.
    pub fn connect(&mut self, accept_version: Option<&str>) -> Option<Option<&'static str>> {
        let accept_version = accept_version.filter(|versions| !versions.is_empty());
        self.has_accept_version = accept_version.is_some();
        let Some(versions) = accept_version else { return Some(None) };
        let accepts = |version: &&str| versions.split(',').any(|item| trim(item) == *version);
        ["1.2", "1.1", "1.0"].into_iter().find(accepts).map(Some)
    }

    /// Returns whether this is a legacy client: a plain websocket and no `accept-version`. It gets heights as bare
    /// numbers, and the transactions of the accounts that it registers, without a SUBSCRIBE.
    pub fn is_legacy_client(&self) -> bool {
        !self.is_sockjs && !self.has_accept_version
    }

    /// Returns the bytes of memory that it holds, estimated generously.
    pub fn held_bytes(&self) -> usize {
        let registrations = self.registrations.len() * REGISTRATION_BYTES;
        let answer = self.answer.as_ref().map_or(0, PublishJob::held_bytes);
        SESSION_BYTES + self.decoder_bytes + registrations + self.subscriptions.bytes + answer
    }

    /// When it must be looked at: it gets a heartbeat, or is closed because of its silence.
    pub fn due(&self) -> Option<Duration> {
        let silence = self.silent_since.map(|since| since + FIRST_MESSAGE);
        self.heartbeat_due().into_iter().chain(silence).min()
    }

    /// When its websocket gets a heartbeat.
    pub fn heartbeat_due(&self) -> Option<Duration> {
        self.is_sockjs.then(|| self.last_sent + HEARTBEAT)
    }

    /// Sends a STOMP frame: `head` and, if it is a MESSAGE, its body, in the form for a legacy client or not.
    pub fn send(
        &mut self,
        head: &[u8],
        body: Option<&Content>,
        now: Duration,
        effects: &mut dyn Effects,
    ) -> Result<(), Dropped> {
        if !self.is_sockjs {
            let body = body.map(|content| content.for_session(self.is_legacy_client()));
            return self.send_message(Message { head, body, tail: &[] }, now, effects);
        }
        let mut escaped = Vec::with_capacity(2 * head.len());
        escaped.extend_from_slice(sockjs::MESSAGE_START);
        sockjs::escape(&mut escaped, &String::from_utf8_lossy(head));
        let body = body.map(Content::escaped);
        self.send_message(Message { head: &escaped, body, tail: sockjs::MESSAGE_END }, now, effects)
    }

    /// Sends a message of the websocket.
    pub fn send_message(
        &mut self,
        message: Message<'_>,
        now: Duration,
        effects: &mut dyn Effects,
    ) -> Result<(), Dropped> {
        effects.send(self.socket, message)?;
        self.last_sent = now;
        Ok(())
    }
}

/// Trims blanks from both ends of a header value.
pub fn trim(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

/// Why a session is closed: a close code and a reason.
pub type CloseReason = (u16, &'static str);

#[cfg(test)]
mod table_tests {
    use super::*;
    use crate::websocket_api::tests::{Recorder, client};

    const LOCAL: &str = "127.0.0.1";
    const A: &str = "10.0.0.1";
    const B: &str = "10.0.0.2";
    const C: &str = "10.0.0.3";

    fn open(table: &mut SessionTable, from: &str) -> Option<SessionId> {
        let socket = ConnectionId(table.last_session.0 + 1);
        table.open(socket, None, &client(from), &mut Recorder::default())
    }

    /// A table with one session for each of these clients, opened one second after the other.
    fn table(sessions: usize, clients: &[&str]) -> SessionTable {
        let mut table = SessionTable::new(Limits { sessions, ..Limits::default() }, SharedBytesCounter::default());
        for (second, from) in (1..).zip(clients) {
            table.now.monotonic = Duration::from_secs(second);
            open(&mut table, from).expect("a session");
        }
        table
    }

    #[test]
    fn the_largest_session_of_the_largest_client_is_evicted_when_memory_is_short() {
        let mut table = table(100, &[A, B, B]);
        for (session, bytes) in [(1, 60_000), (2, 30_000), (3, 40_000)] {
            table.sessions.get_mut(&SessionId(session)).unwrap().decoder_bytes = bytes;
            table.count(SessionId(session));
        }
        for (total, evicted) in [(120_000, 3), (80_000, 1), (20_000, 2)] {
            table.limits.total_bytes = total;
            table.enforce_global_limits(&mut Recorder::default());
            assert!(!table.sessions.contains_key(&SessionId(evicted)), "{evicted}");
            assert!(table.memory.total() <= total);
        }
        assert!(table.memory.is_empty() && table.places.is_empty());
    }

    #[test]
    fn limits_of_memory_apply_to_the_session_and_to_its_client() {
        let mut table = table(100, &[A, A]);
        table.limits.session_bytes = SESSION_BYTES + 100;
        table.limits.client_bytes = 2 * SESSION_BYTES + 150;
        table.sessions.get_mut(&SessionId(1)).unwrap().decoder_bytes = 90;
        table.update_memory(SessionId(1), &mut Recorder::default());
        let check = |id, more| table.check_memory(table.sessions.get(&SessionId(id)).unwrap(), more);
        assert_eq!((check(1, 11), check(1, 10)), (Err(SESSION_MEMORY), Ok(())));
        assert_eq!((check(2, 61), check(2, 60)), (Err(CLIENT_MEMORY), Ok(())));
        assert_eq!(open(&mut table, A), None);
        assert!(open(&mut table, B).is_some());
        table.sessions.get_mut(&SessionId(2)).unwrap().decoder_bytes = 61;
        table.update_memory(SessionId(2), &mut Recorder::default());
        assert!(!table.sessions.contains_key(&SessionId(2)) && table.sessions.contains_key(&SessionId(1)));
    }

    /// Opens a session each second; returns the sessions that give way.
    fn evicted(table: &mut SessionTable, clients: &[&str]) -> Vec<u64> {
        for from in clients {
            table.now.monotonic += Duration::from_secs(1);
            open(table, from);
        }
        (1..=table.last_session.0).filter(|id| !table.sessions.contains_key(&SessionId(*id))).collect()
    }

    #[test]
    fn a_newcomer_gets_in_and_the_longest_silent_session_of_the_largest_client_gives_way() {
        let mut table = table(5, &[B, A, A, A, B]);
        assert_eq!(evicted(&mut table, &[C]), [2]);
        table.record_message(SessionId(1));
        assert_eq!(evicted(&mut table, &[C]), [2, 3], "all have two, and this is silent for longest");
        assert_eq!(evicted(&mut table, &[B]), [2, 3, 5], "its own, since it has the most");
    }

    #[test]
    fn sessions_of_a_crowded_network_give_way_and_those_of_this_machine_do_not() {
        let crowd: Vec<String> = (0..200).map(|host| format!("10.0.1.{host}")).collect();
        let crowd: Vec<&str> = crowd.iter().map(String::as_str).collect();
        let mut table = table(50, &[LOCAL, LOCAL, "::1", "10.0.2.1", "10.0.2.1", "10.0.3.1"]);
        let gone = evicted(&mut table, &crowd);
        assert_eq!(gone, (7..=6 + 200 - 44).collect::<Vec<u64>>(), "those of the crowd that came first");
        assert_eq!(table.places.total(), 50);
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod session_tests {
    use super::*;
    use crate::websocket_api::tests::client;

    fn session() -> Session {
        let owner = Owner::of(&client("10.0.0.1"));
        Session::new("1c884f9d".to_owned(), ConnectionId(7), false, owner, Duration::ZERO)
    }

    #[test]
    fn the_version_is_the_highest_both_sides_know() {
        let cases = [
            (None, Some(None)),
            (Some(""), Some(None)),
            (Some("1.1,1.0"), Some(Some("1.1"))),
            (Some("1.0,1.1,1.2"), Some(Some("1.2"))),
            (Some("1.0"), Some(Some("1.0"))),
            (Some(" 1.2"), Some(Some("1.2"))),
            (Some("1.1, 1.2"), Some(Some("1.2"))),
            (Some("1.3"), None),
        ];
        for (versions, expected) in cases {
            assert_eq!(session().connect(versions), expected, "{versions:?}");
        }
    }

    #[test]
    fn the_last_connect_decides_whether_a_session_is_legacy() {
        let mut session = session();
        assert!(session.is_legacy_client());
        session.connect(Some("1.1"));
        assert!(!session.is_legacy_client());
        session.connect(None);
        assert!(session.is_legacy_client());
        session.connect(Some("1.1"));
        session.connect(Some(""));
        assert!(session.is_legacy_client());
    }
}
