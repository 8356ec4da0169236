//! The session table: sessions, subscriptions, registered addresses and resource usage, kept consistent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use super::content::Content;
use super::quotas::{QuotaExceeded, QuotaTable, Usage};
use super::registry::{Reason, Registry};
use super::session::Session;
use super::session_transport::{OutboundFrame, SendContext, SessionTransport};
use super::sockjs::PollQueue;
use super::sockjs::poll_queue::{INTERRUPTED, TOO_SLOW};
use super::stomp::{Decoder, encoder};
use super::subscriptions::{self, EndedSubscription};
use super::topics::{self, Topics};
use super::{Limits, SessionId, Settings, pattern};
use crate::metrics::subtract;
use crate::model::Address;
use crate::net::ClientKey;
use crate::net::service::{ConnectionId, Dropped, Effects};

/// Maximum length of a subscription id, in bytes; a longer one is rejected.
const MAX_SUBSCRIPTION_ID_BYTES: usize = 256;
/// Estimated memory of an idle session, in bytes.
const SESSION_BYTES: usize = 2 * 1024;
/// Estimated memory of a registered address, in the tables of session and broker.
const REGISTRATION_BYTES: usize = 160;
/// Websocket close code of a session that the STOMP layer closes.
const CLOSE_PROTOCOL_ERROR: u16 = 1002;
/// Error message for a session that is closed because a global limit is reached.
const LOW_MEMORY_MESSAGE: &str = "The node is short of memory and this session takes much of it";

/// Why a session's request is rejected; `Display` is for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// The id is too long.
    LongId,
    /// The limit of subscriptions per session is reached.
    Subscriptions,
    /// The limit of subscriptions per session to one destination is reached.
    Destination,
    /// The limit of patterns per session is reached.
    Patterns,
    /// The limit of registered addresses per session is reached.
    Addresses,
    /// The memory limit per session is reached.
    SessionMemory,
    /// The memory limit per client is reached.
    ClientMemory,
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LongId => "The subscription id is too long",
            Self::Subscriptions => "The session has too many subscriptions, unsubscribe first",
            Self::Destination => "The session has too many subscriptions to this destination",
            Self::Patterns => "The session subscribes to too many patterns",
            Self::Addresses => "The session cannot register further addresses",
            Self::SessionMemory => "The session takes too much memory, unsubscribe first",
            Self::ClientMemory => "The sessions of this address take too much memory",
        })
    }
}

impl std::error::Error for LimitReached {}

impl From<QuotaExceeded> for LimitReached {
    fn from(reason: QuotaExceeded) -> LimitReached {
        match reason {
            QuotaExceeded::Session => LimitReached::SessionMemory,
            QuotaExceeded::Client => LimitReached::ClientMemory,
        }
    }
}

/// Sessions and everything that belongs to them.
pub struct SessionTable {
    settings: Settings,
    sessions: BTreeMap<SessionId, Session>,
    /// The session of each connection.
    session_by_connection: BTreeMap<ConnectionId, SessionId>,
    /// Sessions without a websocket, by the names that their clients gave them.
    polled_by_name: BTreeMap<String, SessionId>,
    polled_count_by_client: BTreeMap<ClientKey, usize>,
    /// Timers of the sessions' transports.
    timers: BTreeSet<(Duration, SessionId)>,
    /// Time since the start.
    now: Duration,
    topics: Topics,
    registry: Registry,
    quotas: QuotaTable,
    last_session: SessionId,
    /// Number of the next MESSAGE, across all sessions.
    next_message: u64,
    /// Sessions without a websocket that were dropped because too much waited for their clients.
    dropped: u64,
    /// Scratch buffer for frames and the heads of messages.
    scratch: Vec<u8>,
    /// Scratch buffer of the transport.
    transport_scratch: Vec<u8>,
}

impl SessionTable {
    /// Creates a table without sessions.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            sessions: BTreeMap::new(),
            session_by_connection: BTreeMap::new(),
            polled_by_name: BTreeMap::new(),
            polled_count_by_client: BTreeMap::new(),
            timers: BTreeSet::new(),
            now: Duration::ZERO,
            topics: Topics::default(),
            registry: Registry::default(),
            quotas: QuotaTable::default(),
            last_session: SessionId(0),
            next_message: 0,
            dropped: 0,
            scratch: Vec::new(),
            transport_scratch: Vec::new(),
        }
    }

    /// Applies new settings.
    pub fn reload(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Number of messages sent.
    pub fn messages(&self) -> u64 {
        self.next_message
    }

    /// Number of sessions without a websocket that were dropped because their clients did not fetch their messages.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Sets the time since the start.
    pub fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// The time since the start.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Returns the session to evict so that a client can open a new one, if all are taken and one can be evicted.
    pub fn session_to_evict(&self, client: ClientKey) -> Option<SessionId> {
        let is_full = self.quotas.is_full_for(client, &self.settings.limits);
        if is_full { self.quotas.eviction_candidate(client, &self.settings.limits) } else { None }
    }

    /// Returns whether the client's own limits allow one more session; `is_polled` for a session that is fetched
    /// from.
    pub fn may_open(&self, client: ClientKey, is_polled: bool) -> bool {
        let limits = &self.settings.limits;
        let polled_sessions = self.polled_count_by_client.get(&client).copied().unwrap_or(0);
        let within_limits = self.quotas.check(client, self.last_session, 0, SESSION_BYTES, limits);
        within_limits.is_ok() && !(is_polled && polled_sessions >= limits.polled_sessions_per_client)
    }

    /// Opens a session, with the client's name for it if there is one. Fails if a limit is reached.
    pub fn open(
        &mut self,
        transport: SessionTransport,
        name: Option<&str>,
        client_key: ClientKey,
        effects: &mut dyn Effects,
    ) -> Option<SessionId> {
        let socket = transport.socket();
        if self.quotas.is_full_for(client_key, &self.settings.limits) || !self.may_open(client_key, socket.is_none()) {
            return None;
        }
        let id = SessionId(self.last_session.0 + 1);
        self.last_session = id;
        // Eight hex digits name four billion sessions, which are never open at the same time.
        let name = name.map_or_else(|| format!("{:x}", id.0 as u32), str::to_owned);
        match socket {
            Some(socket) => drop(self.session_by_connection.insert(socket, id)),
            None => {
                self.polled_by_name.insert(name.clone(), id);
                *self.polled_count_by_client.entry(client_key).or_default() += 1;
            }
        }
        let decoder = Decoder::new(self.settings.limits.frame_bytes, self.settings.lenient);
        self.sessions.insert(id, Session::new(name, transport, client_key, decoder));
        self.schedule(id);
        self.quotas.open(client_key, id, self.now);
        self.quotas.add(client_key, id, Usage { bytes: SESSION_BYTES, patterns: 0 });
        self.enforce_global_limits(effects);
        Some(id)
    }

    /// Removes a session and everything that belongs to it.
    pub fn remove_session(&mut self, id: SessionId, effects: &mut dyn Effects) -> Option<Session> {
        self.release_resources(id);
        let session = self.sessions.remove(&id)?;
        let connections = session.transport.connections();
        connections.iter().for_each(|connection| _ = self.session_by_connection.remove(connection));
        if session.transport.socket().is_none() {
            // Waiting requests must still be answered.
            connections.into_iter().for_each(|connection| effects.resume(connection));
            self.polled_by_name.remove(&session.name);
            if let Some(count) = self.polled_count_by_client.get_mut(&session.client) {
                subtract(count, 1);
                if *count == 0 {
                    self.polled_count_by_client.remove(&session.client);
                }
            }
        }
        session.timer.into_iter().for_each(|due| _ = self.timers.remove(&(due, id)));
        Some(session)
    }

    /// Returns the session without a websocket that has this name.
    pub fn find_by_name(&self, name: &str) -> Option<SessionId> {
        self.polled_by_name.get(name).copied()
    }

    /// Returns the poll queue of a session, including an ended one.
    pub fn poll_queue(&mut self, id: SessionId) -> Option<&mut PollQueue> {
        self.sessions.get_mut(&id).and_then(|session| session.transport.poll_queue())
    }

    /// Assigns a connection to a session, or to none.
    pub fn attach(&mut self, connection: ConnectionId, session: Option<SessionId>) {
        match session {
            Some(id) => drop(self.session_by_connection.insert(connection, id)),
            None => drop(self.session_by_connection.remove(&connection)),
        }
    }

    /// Handles the loss of a connection. Returns whether the session must be removed with it. A session without a
    /// websocket ends instead, if messages may have been lost.
    pub fn on_disconnect(&mut self, connection: ConnectionId, id: SessionId, effects: &mut dyn Effects) -> bool {
        self.session_by_connection.remove(&connection);
        let now = self.now;
        let Some(poll_queue) = self.poll_queue(id) else { return true };
        let is_interrupted = poll_queue.on_disconnect(connection, now);
        if is_interrupted && self.session(id).is_some() {
            self.close_session(id, INTERRUPTED.0, INTERRUPTED.1, false, effects);
        }
        self.schedule(id);
        false
    }

    /// Runs due timers until a session has timed out, and returns that session, which must be removed.
    pub fn on_timer(&mut self, effects: &mut dyn Effects) -> Option<SessionId> {
        while let Some((due, id)) = self.timers.first().copied().filter(|(due, _)| *due <= self.now) {
            self.timers.remove(&(due, id));
            let Some(state) = self.sessions.get_mut(&id) else { continue };
            state.timer = None;
            if state.is_closing && state.transport.socket().is_some() {
                continue;
            }
            let is_due = state.transport.due(&self.settings.limits).is_some_and(|due| due <= self.now);
            if is_due {
                match state.transport.on_timer(self.now, effects) {
                    Ok(true) => {}
                    Ok(false) => return Some(id),
                    Err(Dropped) => self.release(id),
                }
            }
            self.schedule(id);
        }
        None
    }

    /// When the next timer is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Sets the timer of a session if it is due earlier than the current timer. A timer that fires too early is set
    /// again.
    pub fn schedule(&mut self, id: SessionId) {
        let Some(state) = self.sessions.get_mut(&id) else { return };
        let Some(due) = state.transport.due(&self.settings.limits) else { return };
        if state.timer.is_some_and(|noted| noted <= due) {
            return;
        }
        if let Some(noted) = state.timer.replace(due) {
            self.timers.remove(&(noted, id));
        }
        self.timers.insert((due, id));
    }

    /// Records that a session has sent something.
    pub fn record_message(&mut self, id: SessionId) {
        if let Some(client_key) = self.client_of(id) {
            self.quotas.record_message(client_key, id, self.now);
        }
    }

    /// Returns the client of a session, including an ended one.
    pub fn client_of(&self, id: SessionId) -> Option<ClientKey> {
        self.sessions.get(&id).map(|session| session.client)
    }

    /// Returns the session of a connection.
    pub fn session_of(&self, connection: ConnectionId) -> Option<SessionId> {
        self.session_by_connection.get(&connection).copied()
    }

    /// Returns a session that has not ended.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id).filter(|session| !session.is_closing)
    }

    /// Returns a session that has not ended. Its subscriptions and registrations are changed only through this table.
    pub fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(&id).filter(|session| !session.is_closing)
    }

    /// Number of sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Returns whether no connections, names and timers are left.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        let no_mailbox = self.polled_by_name.is_empty() && self.polled_count_by_client.is_empty();
        self.session_by_connection.is_empty() && self.timers.is_empty() && no_mailbox
    }

    /// The id of the session opened last.
    pub fn last_session(&self) -> SessionId {
        self.last_session
    }

    /// The subscription index.
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// The registered addresses.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The resource usage.
    pub fn quotas(&self) -> &QuotaTable {
        &self.quotas
    }

    /// Adds the subscription of a SUBSCRIBE, and with it the registration of `address`, if its topic has one. An
    /// existing subscription is unchanged. It replaces an implicit subscription to the same destination; an implicit
    /// subscription with the same id gets another id.
    pub fn subscribe(
        &mut self,
        session: SessionId,
        id: Option<&str>,
        destination: &str,
        address: Option<Address>,
        effects: &mut dyn Effects,
    ) -> Result<(), LimitReached> {
        let Some(state) = self.session(session) else { return Ok(()) };
        if id.is_some_and(|id| state.subscriptions.has_explicit(id, destination)) {
            return Ok(());
        }
        let replaced = usize::from(state.subscriptions.implicit_id_at(destination).is_some());
        let id_bytes = id.map_or(0, str::len);
        self.check_subscription(session, id_bytes, destination, replaced)?;
        if let Some(address) = address {
            self.register(session, address, Reason::Subscription, effects)?;
        }
        if let Some(ended) =
            self.session_mut(session).and_then(|state| state.subscriptions.remove_implicit(destination))
        {
            self.on_subscription_ended(session, &ended);
        }
        let Some(state) = self.session_mut(session) else { return Ok(()) };
        let id = id.map_or_else(|| state.subscriptions.generate_id(), str::to_owned);
        self.add_subscription(session, &id, destination, false);
        self.reassign_implicit_id(session, &id);
        self.enforce_global_limits(effects);
        Ok(())
    }

    /// Subscribes a session to the transactions of an address, unless it is already subscribed to them.
    pub fn subscribe_implicitly(
        &mut self,
        session: SessionId,
        address: &Address,
        effects: &mut dyn Effects,
    ) -> Result<(), LimitReached> {
        let destination = format!("{}{address}", topics::TRANSACTIONS_OF);
        let Some(state) = self.session(session) else { return Ok(()) };
        if state.subscriptions.count_at(&destination) > 0 {
            return Ok(());
        }
        let id = state.subscriptions.free_id();
        self.check_subscription(session, id.len(), &destination, 0)?;
        self.add_subscription(session, &id, &destination, true);
        self.enforce_global_limits(effects);
        Ok(())
    }

    /// Ends the subscriptions of a session that have this id. Returns their number.
    pub fn unsubscribe(&mut self, session: SessionId, id: &str) -> usize {
        let ended = self.session_mut(session).map(|state| state.subscriptions.remove(id)).unwrap_or_default();
        ended.iter().for_each(|ended| self.on_subscription_ended(session, ended));
        ended.len()
    }

    /// Ends all subscriptions of a session. Returns their number.
    pub fn unsubscribe_all(&mut self, session: SessionId) -> usize {
        let ended = self.session_mut(session).map(|state| state.subscriptions.remove_all()).unwrap_or_default();
        ended.iter().for_each(|ended| self.on_subscription_ended(session, ended));
        ended.len()
    }

    /// Registers an address for a session.
    pub fn register(
        &mut self,
        session: SessionId,
        address: Address,
        reason: Reason,
        effects: &mut dyn Effects,
    ) -> Result<(), LimitReached> {
        let limits = self.settings.limits;
        let Some(state) = self.session(session) else { return Ok(()) };
        let client_key = state.client;
        if !state.registrations.contains(&address) {
            if state.registrations.len() >= limits.addresses_per_session {
                return Err(LimitReached::Addresses);
            }
            self.quotas.check(client_key, session, REGISTRATION_BYTES, 0, &limits)?;
        }
        let Some(state) = self.session_mut(session) else { return Ok(()) };
        if state.registrations.add(address, reason) {
            self.registry.add(address);
            self.quotas.add(client_key, session, Usage { bytes: REGISTRATION_BYTES, patterns: 0 });
            self.enforce_global_limits(effects);
        }
        Ok(())
    }

    /// Updates the usage of a session's decoder. Fails if it exceeds the client's limit.
    pub fn update_decoder_usage(&mut self, session: SessionId, effects: &mut dyn Effects) -> Result<(), LimitReached> {
        let Some(state) = self.session_mut(session) else { return Ok(()) };
        // The memory of an idle decoder is part of [`SESSION_BYTES`].
        let now = state.decoder.held_bytes().saturating_sub(SESSION_BYTES / 2);
        let before = std::mem::replace(&mut state.decoder_bytes, now);
        let client_key = state.client;
        self.quotas.remove(client_key, session, Usage { bytes: before, patterns: 0 });
        let room = self.quotas.check(client_key, session, 0, now, &self.settings.limits);
        self.quotas.add(client_key, session, Usage { bytes: now, patterns: 0 });
        room?;
        self.enforce_global_limits(effects);
        Ok(())
    }

    /// Sends one frame to a session. A session that cannot be sent to ends.
    pub fn send(&mut self, session: SessionId, effects: &mut dyn Effects, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(state) = self.sessions.get_mut(&session).filter(|state| !state.is_closing) else { return };
        self.scratch.clear();
        write(&mut self.scratch);
        let SessionTable { settings, now, scratch, transport_scratch: room, .. } = self;
        let mut sending = SendContext { now: *now, limits: &settings.limits, scratch: room, effects };
        let sent = state.transport.send(OutboundFrame { head: scratch, body: None }, &mut sending);
        self.update_queue_usage(session, sent.is_ok(), effects);
    }

    /// Updates the usage of a session's poll queue. The session ends if sending failed, or if too much waits for its
    /// client.
    fn update_queue_usage(&mut self, session: SessionId, is_sent: bool, effects: &mut dyn Effects) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        if !is_sent {
            self.dropped += u64::from(state.transport.socket().is_none());
            return self.release(session);
        }
        let now = state.transport.held_bytes();
        let before = std::mem::replace(&mut state.queued_bytes, now);
        if before == now {
            return;
        }
        let client_key = state.client;
        self.quotas.remove(client_key, session, Usage { bytes: before, patterns: 0 });
        let room = self.quotas.check(client_key, session, 0, now, &self.settings.limits);
        self.quotas.add(client_key, session, Usage { bytes: now, patterns: 0 });
        if room.is_err() {
            self.dropped += 1;
            self.close_silently(session, TOO_SLOW, effects);
        }
    }

    /// Updates a session whose client has fetched messages.
    pub fn on_fetched(&mut self, session: SessionId, effects: &mut dyn Effects) {
        if self.session(session).is_some() {
            self.update_queue_usage(session, true, effects);
        }
        self.schedule(session);
    }

    /// Sends a MESSAGE to a session for each of its subscriptions that match `topic`. Returns the work units; 0 if
    /// there are none.
    pub fn deliver(&mut self, session: SessionId, topic: &str, content: &Content, effects: &mut dyn Effects) -> u32 {
        let SessionTable { sessions, settings, scratch, transport_scratch: room, next_message, now, .. } = self;
        let Some(state) = sessions.get_mut(&session).filter(|state| !state.is_closing) else { return 0 };
        let is_legacy_client = state.is_legacy_client();
        let length = content.for_session(is_legacy_client).len();
        let (mut sent, mut is_dropped) = (0, false);
        let Session { subscriptions, transport: outlet, name, .. } = state;
        let mut sending = SendContext { now: *now, limits: &settings.limits, scratch: room, effects };
        subscriptions.for_each_match(topic, |id| {
            if is_dropped {
                return;
            }
            scratch.clear();
            let head = encoder::MessageHead {
                destination: topic,
                subscription: id,
                session_name: name,
                number: *next_message,
                // The NUL after the body is not part of it.
                content_length: length - 1,
            };
            encoder::message_head(scratch, head);
            *next_message = next_message.wrapping_add(1);
            let frame = OutboundFrame { head: scratch, body: Some((content, is_legacy_client)) };
            match outlet.send(frame, &mut sending) {
                Ok(units) => sent += 1 + units,
                Err(Dropped) => is_dropped = true,
            }
        });
        if !is_dropped && sent > 0 {
            outlet.charge(sent, effects);
        }
        self.update_queue_usage(session, !is_dropped, effects);
        self.enforce_global_limits(effects);
        sent
    }

    /// Closes a session after an ERROR frame.
    pub fn fail(&mut self, session: SessionId, message: &str, effects: &mut dyn Effects) {
        self.send(session, effects, |out| encoder::error(out, message));
        self.close_session(session, CLOSE_PROTOCOL_ERROR, "", false, effects);
    }

    /// Closes a session without an ERROR frame or a SockJS close frame.
    pub fn close_silently(&mut self, session: SessionId, code: u16, effects: &mut dyn Effects) {
        self.close_session(session, code, "", true, effects);
    }

    /// Closes a session with a code and a reason.
    pub fn close_session(
        &mut self,
        session: SessionId,
        code: u16,
        reason: &str,
        silently: bool,
        effects: &mut dyn Effects,
    ) {
        let now = self.now;
        if let Some(state) = self.session_mut(session) {
            state.transport.close(code, reason, silently, now, effects);
            self.release(session);
        }
    }

    /// Releases everything of an ended session. The rest stays until its connection is gone or its client has been
    /// informed.
    fn release(&mut self, session: SessionId) {
        self.release_resources(session);
        if let Some(state) = self.sessions.get_mut(&session) {
            state.is_closing = true;
        }
        self.schedule(session);
    }

    /// Releases everything that a session holds.
    fn release_resources(&mut self, session: SessionId) {
        self.unsubscribe_all(session);
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let registrations = std::mem::take(&mut state.registrations);
        registrations.into_addresses().for_each(|address| self.registry.remove(&address));
        state.decoder.clear();
        state.queries = Default::default();
        (state.decoder_bytes, state.queued_bytes) = (0, 0);
        self.quotas.close(state.client, session);
    }

    /// Checks whether a session may have one more subscription that replaces `replaced` others.
    fn check_subscription(
        &self,
        session: SessionId,
        id: usize,
        destination: &str,
        replaced: usize,
    ) -> Result<(), LimitReached> {
        let limits = &self.settings.limits;
        let Some(state) = self.session(session) else { return Ok(()) };
        let held = &state.subscriptions;
        if id > MAX_SUBSCRIPTION_ID_BYTES {
            return Err(LimitReached::LongId);
        }
        if held.len() - replaced >= limits.subscriptions_per_session {
            return Err(LimitReached::Subscriptions);
        }
        if held.count_at(destination) - replaced >= limits.subscriptions_per_destination {
            return Err(LimitReached::Destination);
        }
        if pattern::is_pattern(destination) && held.pattern_count() >= limits.patterns_per_session {
            return Err(LimitReached::Patterns);
        }
        let bytes = subscriptions::bytes_of("", destination) + id;
        Ok(self.quotas.check(state.client, session, bytes, 0, limits)?)
    }

    fn add_subscription(&mut self, session: SessionId, id: &str, destination: &str, is_implicit: bool) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let destination: Rc<str> = Rc::from(destination);
        state.subscriptions.add(id, &destination, is_implicit);
        self.topics.add(&destination, session);
        self.quotas.add(state.client, session, usage_of(id, &destination));
    }

    /// Assigns another id to the implicit subscription whose id an explicit one has taken.
    fn reassign_implicit_id(&mut self, session: SessionId, taken: &str) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Some(destination) = state.subscriptions.implicit_destination(taken) else { return };
        let free = state.subscriptions.free_id();
        state.subscriptions.rename_implicit(&destination, &free);
        self.quotas.remove(state.client, session, usage_of(taken, &destination));
        self.quotas.add(state.client, session, usage_of(&free, &destination));
    }

    /// Updates index, registry and usage after the end of a subscription.
    fn on_subscription_ended(&mut self, session: SessionId, ended: &EndedSubscription) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        self.quotas.remove(state.client, session, usage_of(&ended.id, &ended.destination));
        if state.subscriptions.count_at(&ended.destination) == 0 {
            self.topics.remove(&ended.destination, session);
        }
        if self.settings.register_on_subscribe
            && !ended.is_implicit
            && let Some(text) = topics::registering_address(&ended.destination)
            && let Some(address) = state.registrations.unsubscribed(text)
        {
            self.registry.remove(&address);
            self.quotas.remove(state.client, session, Usage { bytes: REGISTRATION_BYTES, patterns: 0 });
        }
    }

    /// Evicts the largest sessions of the largest clients until no global limit is exceeded.
    fn enforce_global_limits(&mut self, effects: &mut dyn Effects) {
        let Limits { total_bytes, patterns, .. } = self.settings.limits;
        loop {
            let largest = if self.quotas.total().bytes > total_bytes {
                self.quotas.largest_session(|held| held.bytes)
            } else if self.topics.pattern_count() > patterns {
                self.quotas.largest_session(|held| held.patterns)
            } else {
                return;
            };
            let Some(largest) = largest else { return };
            log::debug!("session {} is closed: a limit of all sessions is exceeded, and it uses the most", largest.0);
            self.fail(largest, LOW_MEMORY_MESSAGE, effects);
        }
    }
}

fn usage_of(id: &str, destination: &str) -> Usage {
    Usage { bytes: subscriptions::bytes_of(id, destination), patterns: usize::from(pattern::is_pattern(destination)) }
}
