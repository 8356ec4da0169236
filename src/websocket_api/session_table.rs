//! The session table: sessions with their usage, subscriptions, registered addresses and timers, kept consistent.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use super::content::Content;
use super::session::{
    CloseReason, REGISTRATION_BYTES, Registration, SESSION_BYTES, Session, SessionId, SessionTransport, Usage,
};
use super::stomp::{Decoder, encoder};
use super::topics::{self, Ended, Topics, is_pattern};
use super::{Counts, Limits, Settings};
use crate::metrics::Ranking;
use crate::model::{Address, NetworkByte};
use crate::net::service::{Client, ConnectionId, Effects};
use crate::net::{ClientKey, SharedBytesCounter};
use crate::peer::io::Now;

/// Maximum length of a subscription id, in bytes; a longer one is rejected.
const MAX_SUBSCRIPTION_ID_BYTES: usize = 256;
/// Close code and reason when the session limit is reached.
pub const TOO_MANY_SESSIONS: CloseReason = (1013, "too many sessions");
/// Close code for a session whose client sends no first message.
const NO_FIRST_MESSAGE: u16 = 4500;
/// Websocket close code of a session that the STOMP layer closes.
const CLOSE_PROTOCOL_ERROR: u16 = 1002;
/// Error message for a session that is closed because a global limit is reached.
const LOW_MEMORY_MESSAGE: &str = "The node is short of memory and this session takes much of it";

/// Why a session's request is rejected; the text is for the client.
pub type Rejection = &'static str;
const LONG_ID: Rejection = "The subscription id is too long";
const TOO_MANY_SUBSCRIPTIONS: Rejection = "The session has too many subscriptions, unsubscribe first";
const TOO_MANY_AT_DESTINATION: Rejection = "The session has too many subscriptions to this destination";
const TOO_MANY_PATTERNS: Rejection = "The session subscribes to too many patterns";
const TOO_MANY_ADDRESSES: Rejection = "The session cannot register further addresses";
const SESSION_MEMORY: Rejection = "The session takes too much memory, unsubscribe first";
const CLIENT_MEMORY: Rejection = "The sessions of this address take too much memory";

/// Sessions and everything that belongs to them.
pub struct SessionTable {
    /// The settings and limits.
    pub settings: Settings,
    /// The network.
    pub network: NetworkByte,
    /// Holds the shared bodies.
    pub pool: SharedBytesCounter,
    /// The current time.
    pub now: Now,
    /// The subscription index.
    pub topics: Topics,
    /// Number of sessions that have registered each address.
    pub registered: BTreeMap<Address, u32>,
    /// Sessions that were removed, for whoever schedules their queries.
    pub removed: Vec<(ClientKey, SessionId)>,
    /// Counters.
    pub counts: Counts,
    /// Usage of all sessions together.
    pub total: Usage,
    /// The id of the session opened last.
    pub last_session: SessionId,
    sessions: BTreeMap<SessionId, Session>,
    clients: BTreeMap<ClientKey, ClientUsage>,
    /// Number of sessions of each client that is not on this machine.
    remote_sessions: Ranking<ClientKey>,
    /// The session of each websocket.
    session_by_connection: BTreeMap<ConnectionId, SessionId>,
    timers: BTreeSet<(Duration, SessionId)>,
    /// Scratch buffer for frames and the heads of messages.
    scratch: Vec<u8>,
}

/// Usage of one client.
#[derive(Debug, Default)]
struct ClientUsage {
    usage: Usage,
    /// Sessions that have not ended, by the time of their last message.
    by_last_message: BTreeSet<(Duration, SessionId)>,
}

impl SessionTable {
    /// Creates a table without sessions.
    pub fn new(settings: Settings, network: NetworkByte, pool: SharedBytesCounter) -> Self {
        Self {
            settings,
            network,
            pool,
            now: Now::default(),
            topics: Topics::default(),
            registered: BTreeMap::new(),
            removed: Vec::new(),
            counts: Counts::default(),
            total: Usage::default(),
            last_session: SessionId(0),
            sessions: BTreeMap::new(),
            clients: BTreeMap::new(),
            remote_sessions: Ranking::default(),
            session_by_connection: BTreeMap::new(),
            timers: BTreeSet::new(),
            scratch: Vec::new(),
        }
    }

    /// Opens a session, with the client's name for it if there is one. When all sessions are taken, the longest silent
    /// session of the client with the most is evicted, if that client has more than this one would have. Fails if a limit
    /// is reached.
    pub fn open(
        &mut self,
        transport: SessionTransport,
        name: Option<&str>,
        client: &Client,
        effects: &mut dyn Effects,
    ) -> Option<SessionId> {
        let limits = self.settings.limits;
        let client = ClientKey::of(client, limits.ipv6_prefix);
        let used = self.clients.get(&client).map_or(0, |own| own.usage.bytes);
        if used + SESSION_BYTES > limits.client_bytes {
            return None;
        }
        if self.is_full_for(client) {
            self.evict(self.eviction_candidate(client)?, effects);
            if self.is_full_for(client) {
                return None;
            }
        }
        let id = SessionId(self.last_session.0 + 1);
        self.last_session = id;
        // Eight hex digits name four billion sessions, which are never open at the same time.
        let name = name.map_or_else(|| format!("{:x}", id.0 as u32), str::to_owned);
        let own = self.clients.entry(client).or_default();
        own.by_last_message.insert((self.now.monotonic, id));
        self.session_by_connection.insert(transport.socket, id);
        let decoder = Decoder::new(limits.frame_bytes, self.settings.lenient);
        self.sessions.insert(id, Session::new(name, transport, client, decoder, self.now.monotonic));
        self.count_sessions(client);
        self.update_usage(id);
        self.schedule(id);
        self.enforce_global_limits(effects);
        Some(id)
    }

    /// Removes a session and everything that belongs to it.
    fn remove(&mut self, id: SessionId) {
        self.end(id);
        let Some(session) = self.sessions.remove(&id) else { return };
        self.removed.push((session.client, id));
        self.session_by_connection.remove(&session.transport.socket);
        session.timer.into_iter().for_each(|due| _ = self.timers.remove(&(due, id)));
    }

    /// Updates the number of a client's sessions, and forgets a client without sessions.
    fn count_sessions(&mut self, client: ClientKey) {
        let count = self.sessions_of(client);
        if !client.is_local() {
            self.remote_sessions.set(client, count);
        }
        if count == 0 {
            self.clients.remove(&client);
        }
    }

    fn sessions_of(&self, client: ClientKey) -> usize {
        self.clients.get(&client).map_or(0, |own| own.by_last_message.len())
    }

    /// Numbers of sessions of the clients of this machine: one for IPv4 and one for IPv6.
    fn local_sessions(&self) -> impl Iterator<Item = (usize, ClientKey)> {
        let local = self.clients.iter().rev().take_while(|(client, _)| client.is_local());
        local.map(|(client, own)| (own.by_last_message.len(), *client))
    }

    /// Returns whether no session is left for a client. Some sessions are reserved for this machine.
    fn is_full_for(&self, client: ClientKey) -> bool {
        let Limits { sessions, .. } = self.settings.limits;
        let local: usize = self.local_sessions().map(|(count, _)| count).sum();
        let reserved = if client.is_local() { 0 } else { self.settings.limits.reserved_local_sessions() };
        self.remote_sessions.total() + local.max(reserved) >= sessions
    }

    /// Returns the session to evict for a new session of a client when all are taken: the longest silent session of the
    /// client with the most sessions, if that client has more than the other would have. Sessions reserved for this
    /// machine do not count.
    fn eviction_candidate(&self, client: ClientKey) -> Option<SessionId> {
        let reserved = self.settings.limits.reserved_local_sessions();
        let local = self.local_sessions().map(|(count, client)| (count.saturating_sub(reserved), client));
        let (count, largest) = self.remote_sessions.largest().into_iter().chain(local).max()?;
        let own = self.clients.get(&largest).filter(|_| count > self.sessions_of(client) + 1)?;
        own.by_last_message.first().map(|(_, session)| *session)
    }

    /// Evicts a session in favour of a client with fewer sessions.
    fn evict(&mut self, id: SessionId, effects: &mut dyn Effects) {
        log::debug!("session {} is closed in favour of a client with fewer sessions", id.0);
        self.close(id, TOO_MANY_SESSIONS, false, effects);
    }

    /// Handles the loss of a websocket: its session is removed.
    pub fn on_disconnect(&mut self, socket: ConnectionId) {
        self.session_of(socket).into_iter().for_each(|id| self.remove(id));
    }

    /// Runs the due timers: sends heartbeats, and closes sessions without a first message.
    pub fn on_timer(&mut self, effects: &mut dyn Effects) {
        let (now, limits) = (self.now.monotonic, self.settings.limits);
        while let Some((due, id)) = self.timers.first().copied().filter(|(due, _)| *due <= now) {
            self.timers.remove(&(due, id));
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            session.timer = None;
            let is_heartbeat_due = session.transport.due(&limits).is_some_and(|due| due <= now);
            if !session.is_closing && is_heartbeat_due && session.transport.on_timer(now, effects).is_err() {
                self.end(id);
            }
            let session = self.session(id);
            if session.and_then(|session| session.silent_since).is_some_and(|since| now >= since + limits.first_message)
            {
                self.close(id, (NO_FIRST_MESSAGE, ""), true, effects);
            }
            self.schedule(id);
        }
    }

    /// When the next timer is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Sets the timer of a session if it is due earlier than the current timer. A timer that fires too early is set
    /// again.
    pub fn schedule(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let due = session.due(&self.settings.limits);
        if due.is_some_and(|due| session.timer.is_some_and(|timer| timer <= due)) {
            return;
        }
        let before = std::mem::replace(&mut session.timer, due);
        before.into_iter().for_each(|before| _ = self.timers.remove(&(before, id)));
        self.timers.extend(due.map(|due| (due, id)));
    }

    /// Records that a session has sent something.
    pub fn record_message(&mut self, id: SessionId) {
        let now = self.now.monotonic;
        let Some(session) = self.session_mut(id) else { return };
        let (client, before) = (session.client, std::mem::replace(&mut session.last_message, now));
        if let Some(own) = self.clients.get_mut(&client) {
            own.by_last_message.remove(&(before, id));
            own.by_last_message.insert((now, id));
        }
    }

    /// Returns the session of a websocket.
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

    /// Number of sessions, including those that wait for their connection to close.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Returns whether no connections, timers, clients and addresses are left.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.session_by_connection.is_empty()
            && self.timers.is_empty()
            && self.clients.is_empty()
            && (self.registered.is_empty() && self.topics.is_empty() && self.total == Usage::default())
    }

    /// Adds the subscription of a SUBSCRIBE, and with it the registration of `address`, if its topic has one. An
    /// existing subscription is unchanged. It replaces an implicit subscription to the same destination; an implicit
    /// subscription with the same id gets another id.
    pub fn subscribe(
        &mut self,
        id: SessionId,
        subscription: Option<&str>,
        destination: &str,
        address: Option<Address>,
        effects: &mut dyn Effects,
    ) -> Result<(), Rejection> {
        let destination = &Rc::from(destination);
        let Some(session) = self.session(id) else { return Ok(()) };
        if subscription.is_some_and(|own| session.subscriptions.has_explicit(own, destination)) {
            return Ok(());
        }
        let replaced = session.subscriptions.implicit_id_at(destination);
        self.check_subscription(session, subscription.map_or(0, str::len), destination, replaced.is_some())?;
        if let Some(address) = address {
            self.register(id, address, false, effects)?;
        }
        if let Some(replaced) = replaced {
            // An implicit subscription never shares its id.
            self.unsubscribe(id, &replaced);
        }
        let Some(session) = self.session_mut(id) else { return Ok(()) };
        let own = subscription.map_or_else(|| session.subscriptions.generate_id(), str::to_owned);
        session.subscriptions.add(&own, destination, false);
        session.subscriptions.rename_implicit(&own);
        self.topics.add(destination, id);
        self.update_usage(id);
        self.enforce_global_limits(effects);
        Ok(())
    }

    /// Subscribes a session to the transactions of an address, unless it is already subscribed to them.
    pub fn subscribe_implicitly(
        &mut self,
        id: SessionId,
        address: &Address,
        effects: &mut dyn Effects,
    ) -> Result<(), Rejection> {
        let destination = Rc::from(format!("{}{address}", topics::TRANSACTIONS_OF));
        let Some(session) = self.session(id).filter(|session| session.subscriptions.count_at(&destination) == 0) else {
            return Ok(());
        };
        let own = session.subscriptions.free_id();
        self.check_subscription(session, own.len(), &destination, false)?;
        self.session_mut(id).into_iter().for_each(|session| session.subscriptions.add(&own, &destination, true));
        self.topics.add(&destination, id);
        self.update_usage(id);
        self.enforce_global_limits(effects);
        Ok(())
    }

    /// Checks whether a session may have one more subscription, which may replace another.
    fn check_subscription(
        &self,
        session: &Session,
        id_bytes: usize,
        destination: &Rc<str>,
        replaces: bool,
    ) -> Result<(), Rejection> {
        let limits = &self.settings.limits;
        let (held, replaced) = (&session.subscriptions, usize::from(replaces));
        if id_bytes > MAX_SUBSCRIPTION_ID_BYTES {
            return Err(LONG_ID);
        }
        if held.count() - replaced >= limits.subscriptions_per_session {
            return Err(TOO_MANY_SUBSCRIPTIONS);
        }
        if held.count_at(destination) - replaced >= limits.subscriptions_per_destination {
            return Err(TOO_MANY_AT_DESTINATION);
        }
        if is_pattern(destination) && held.pattern_count() >= limits.patterns_per_session {
            return Err(TOO_MANY_PATTERNS);
        }
        self.check_memory(session, topics::bytes_of(id_bytes, destination))
    }

    /// Checks whether a session may use more memory.
    fn check_memory(&self, session: &Session, more: usize) -> Result<(), Rejection> {
        if session.usage.bytes + more > self.settings.limits.session_bytes {
            return Err(SESSION_MEMORY);
        }
        let held = self.clients.get(&session.client).map_or(0, |own| own.usage.bytes);
        if held + more > self.settings.limits.client_bytes { Err(CLIENT_MEMORY) } else { Ok(()) }
    }

    /// Ends the subscriptions of a session that have this id. Returns their number.
    pub fn unsubscribe(&mut self, id: SessionId, subscription: &str) -> usize {
        let ended = self.session_mut(id).map(|session| session.subscriptions.remove(subscription));
        self.on_unsubscribed(id, ended.unwrap_or_default())
    }

    /// Ends all subscriptions of a session. Returns their number.
    pub fn unsubscribe_all(&mut self, id: SessionId) -> usize {
        let ended = self.session_mut(id).map(|session| session.subscriptions.remove_all());
        self.on_unsubscribed(id, ended.unwrap_or_default())
    }

    /// Updates index, registrations and usage after the end of subscriptions.
    fn on_unsubscribed(&mut self, id: SessionId, ended: Vec<Ended>) -> usize {
        let Some(session) = self.sessions.get_mut(&id) else { return 0 };
        for (destination, is_implicit) in &ended {
            if session.subscriptions.count_at(destination) == 0 {
                self.topics.remove(destination, id);
            }
            if self.settings.register_on_subscribe
                && !is_implicit
                && let Some(text) = topics::registering_address(destination)
                && let Some(reasons) = session.registrations.get_mut(text.as_bytes())
            {
                reasons.subscriptions = reasons.subscriptions.saturating_sub(1);
                if reasons.subscriptions == 0
                    && !reasons.by_query
                    && let Some((address, _)) = session.registrations.remove_entry(text.as_bytes())
                {
                    release_address(&mut self.registered, &address);
                }
            }
        }
        self.update_usage(id);
        ended.len()
    }

    /// Registers an address for a session, because of a query or of a subscription.
    pub fn register(
        &mut self,
        id: SessionId,
        address: Address,
        by_query: bool,
        effects: &mut dyn Effects,
    ) -> Result<(), Rejection> {
        let Some(session) = self.session(id) else { return Ok(()) };
        if !session.registrations.contains_key(&address) {
            if session.registrations.len() >= self.settings.limits.addresses_per_session {
                return Err(TOO_MANY_ADDRESSES);
            }
            self.check_memory(session, REGISTRATION_BYTES)?;
            *self.registered.entry(address).or_default() += 1;
        }
        let Some(session) = self.session_mut(id) else { return Ok(()) };
        let Registration { subscriptions, by_query: has_query } = session.registrations.entry(address).or_default();
        match by_query {
            true => *has_query = true,
            false => *subscriptions += 1,
        }
        self.update_usage(id);
        self.enforce_global_limits(effects);
        Ok(())
    }

    /// Updates the usage of a session, its client and all. Returns whether the client is within its limit.
    fn update_usage(&mut self, id: SessionId) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else { return true };
        let usage = session.current_usage();
        let before = std::mem::replace(&mut session.usage, usage);
        let Some(own) = self.clients.get_mut(&session.client) else { return true };
        for held in [&mut own.usage, &mut self.total] {
            held.bytes = (held.bytes + usage.bytes).saturating_sub(before.bytes);
            held.patterns = (held.patterns + usage.patterns).saturating_sub(before.patterns);
        }
        own.usage.bytes <= self.settings.limits.client_bytes
    }

    /// Updates the usage of a session's decoder. The session fails if it exceeds its client's limit.
    pub fn update_decoder_usage(&mut self, id: SessionId, effects: &mut dyn Effects) {
        let Some(session) = self.session_mut(id) else { return };
        // The memory of an idle decoder is part of `SESSION_BYTES`.
        session.decoder_bytes = session.decoder.held_bytes().saturating_sub(SESSION_BYTES / 2);
        match self.update_usage(id) {
            true => self.enforce_global_limits(effects),
            false => self.fail(id, CLIENT_MEMORY, effects),
        }
    }

    /// Sends one frame to a session. A session that cannot be sent to ends.
    pub fn send(&mut self, id: SessionId, effects: &mut dyn Effects, write: impl FnOnce(&mut Vec<u8>)) {
        let SessionTable { sessions, now, scratch, .. } = self;
        let Some(session) = sessions.get_mut(&id).filter(|session| !session.is_closing) else { return };
        scratch.clear();
        write(scratch);
        if session.transport.send(scratch, None, now.monotonic, effects).is_err() {
            self.end(id);
        }
    }

    /// Sends a MESSAGE to a session for each of its subscriptions that match `topic`. Returns the work units; 0 if
    /// there are none.
    pub fn deliver(&mut self, id: SessionId, topic: &Rc<str>, content: &Content, effects: &mut dyn Effects) -> u32 {
        let SessionTable { sessions, now, scratch, counts, .. } = self;
        let Some(session) = sessions.get_mut(&id).filter(|session| !session.is_closing) else { return 0 };
        let is_legacy_client = session.is_legacy_client();
        // The NUL after the body is not part of it.
        let length = content.for_session(is_legacy_client).len() - 1;
        let (mut sent, mut is_dropped) = (0, false);
        let Session { subscriptions, transport, name, .. } = session;
        for subscription in subscriptions.matching_ids(topic) {
            scratch.clear();
            encoder::message_head(scratch, topic, subscription, name, counts.messages, length);
            counts.messages = counts.messages.wrapping_add(1);
            is_dropped = transport.send(scratch, Some((content, is_legacy_client)), now.monotonic, effects).is_err();
            if is_dropped {
                break;
            }
            sent += 1;
        }
        if is_dropped {
            self.end(id);
        } else if sent > 0 {
            effects.charge(transport.socket, sent);
        }
        sent
    }

    /// Sends an error message to a session on `/errors`, if it is subscribed to it.
    pub fn send_query_error(&mut self, id: SessionId, message: &str, effects: &mut dyn Effects) {
        let topic = &Rc::from(topics::ERRORS);
        if self.session(id).is_some_and(|session| session.subscriptions.matches(topic)) {
            self.deliver(id, topic, &Content::error(message, self.now.network, &self.pool), effects);
        }
    }

    /// Closes a session after an ERROR frame.
    pub fn fail(&mut self, id: SessionId, message: &str, effects: &mut dyn Effects) {
        self.send(id, effects, |out| encoder::error(out, message));
        self.close(id, (CLOSE_PROTOCOL_ERROR, ""), false, effects);
    }

    /// Closes a session with a code and a reason, without a SockJS close frame if `silently`.
    pub fn close(&mut self, id: SessionId, reason: CloseReason, silently: bool, effects: &mut dyn Effects) {
        if let Some(session) = self.session(id) {
            session.transport.close(reason, silently, effects);
            self.end(id);
        }
    }

    /// Releases everything that a session holds. The rest stays until its websocket is gone.
    fn end(&mut self, id: SessionId) {
        self.unsubscribe_all(id);
        let Some(session) = self.session_mut(id) else { return };
        session.is_closing = true;
        session.silent_since = None;
        session.decoder.clear();
        session.queries = Default::default();
        let (client, last_message) = (session.client, session.last_message);
        let registrations = std::mem::take(&mut session.registrations);
        registrations.keys().for_each(|address| release_address(&mut self.registered, address));
        self.update_usage(id);
        if let Some(own) = self.clients.get_mut(&client) {
            own.by_last_message.remove(&(last_message, id));
        }
        self.count_sessions(client);
        self.schedule(id);
    }

    /// Evicts the largest sessions of the largest clients until no global limit is exceeded.
    fn enforce_global_limits(&mut self, effects: &mut dyn Effects) {
        let Limits { total_bytes, patterns, .. } = self.settings.limits;
        loop {
            let measure: fn(&Usage) -> usize = if self.total.bytes > total_bytes {
                |usage| usage.bytes
            } else if self.topics.pattern_count() > patterns {
                |usage| usage.patterns
            } else {
                return;
            };
            let largest = self.clients.values().max_by_key(|own| measure(&own.usage));
            let sessions = largest.into_iter().flat_map(|own| own.by_last_message.iter().map(|(_, id)| *id));
            let used = |id: &SessionId| self.sessions.get(id).map_or(0, |session| measure(&session.usage));
            let Some(largest) = sessions.max_by_key(|id| (used(id), *id)) else { return };
            log::debug!("session {} is closed: a limit of all sessions is exceeded, and it uses the most", largest.0);
            self.fail(largest, LOW_MEMORY_MESSAGE, effects);
        }
    }
}

/// Removes an address that a session no longer holds.
fn release_address(registered: &mut BTreeMap<Address, u32>, address: &Address) {
    if let Some(holders) = registered.get_mut(address) {
        *holders = holders.saturating_sub(1);
        if *holders == 0 {
            registered.remove(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket_api::testing::{NETWORK, Recorder, client};

    const LOCAL: &str = "127.0.0.1";
    const A: &str = "10.0.0.1";
    const B: &str = "10.0.0.2";
    const C: &str = "10.0.0.3";

    fn key(address: &str) -> ClientKey {
        ClientKey::of(&client(address), 64)
    }

    fn open(table: &mut SessionTable, from: &str) -> Option<SessionId> {
        let socket = ConnectionId(table.last_session.0 + 1);
        table.open(
            SessionTransport::new(socket, false, table.now.monotonic),
            None,
            &client(from),
            &mut Recorder::default(),
        )
    }

    /// A table with one session for each of these clients, opened one second after the other.
    fn table(sessions: usize, clients: &[&str]) -> SessionTable {
        let limits = Limits { sessions, ..Limits::default() };
        let settings = Settings { limits, ..Settings::default() };
        let mut table = SessionTable::new(settings, NETWORK, SharedBytesCounter::default());
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
            table.session_mut(SessionId(session)).unwrap().decoder_bytes = bytes;
            table.update_usage(SessionId(session));
        }
        for (total, evicted) in [(120_000, 3), (80_000, 1), (20_000, 2)] {
            table.settings.limits.total_bytes = total;
            table.enforce_global_limits(&mut Recorder::default());
            assert!(table.session(SessionId(evicted)).is_none(), "{evicted}");
            assert!(table.total.bytes <= total);
        }
        assert!(table.clients.is_empty() && table.total == Usage::default());
    }

    #[test]
    fn quotas_apply_to_the_session_and_to_its_client() {
        let mut table = table(100, &[A, A]);
        table.settings.limits.session_bytes = SESSION_BYTES + 100;
        table.settings.limits.client_bytes = 2 * SESSION_BYTES + 150;
        table.session_mut(SessionId(1)).unwrap().decoder_bytes = 90;
        assert!(table.update_usage(SessionId(1)));
        let check = |id, more| table.check_memory(table.session(SessionId(id)).unwrap(), more);
        assert_eq!((check(1, 11), check(1, 10)), (Err(SESSION_MEMORY), Ok(())));
        assert_eq!((check(2, 61), check(2, 60)), (Err(CLIENT_MEMORY), Ok(())));
        table.session_mut(SessionId(2)).unwrap().decoder_bytes = 61;
        assert!(!table.update_usage(SessionId(2)));
        assert_eq!(open(&mut table, A), None);
        assert!(open(&mut table, B).is_some());
    }

    #[test]
    fn the_longest_silent_session_of_the_largest_client_is_evicted_for_a_smaller_one() {
        let mut table = table(100, &[B, A, A, A, B]);
        assert_eq!(table.eviction_candidate(key(C)), Some(SessionId(2)));
        assert_eq!(table.eviction_candidate(key(B)), None, "it would have as many");
        assert_eq!(table.eviction_candidate(key(A)), None);
        table.now.monotonic = Duration::from_secs(9);
        table.record_message(SessionId(2));
        assert_eq!(table.eviction_candidate(key(C)), Some(SessionId(3)));
        (2..=4).for_each(|session| table.end(SessionId(session)));
        assert_eq!(table.eviction_candidate(key(C)), Some(SessionId(1)));
        table.end(SessionId(1));
        assert_eq!(table.eviction_candidate(key(C)), None, "nobody has more than one");
        table.end(SessionId(5));
        assert!(table.clients.is_empty());
    }

    #[test]
    fn reserved_sessions_of_local_clients_are_not_evicted() {
        let mut full = table(200, &[A; 198]);
        assert_eq!(full.settings.limits.reserved_local_sessions(), 2);
        let is_full = |table: &SessionTable| [A, B, LOCAL].map(|from| table.is_full_for(key(from)));
        assert_eq!(is_full(&full), [true, true, false]);
        open(&mut full, LOCAL);
        assert_eq!(is_full(&full), [true, true, false]);
        open(&mut full, "::1");
        assert_eq!(is_full(&full), [true, true, true]);
        full.end(SessionId(1));
        assert_eq!(is_full(&full), [false, false, false]);
        let of_this_machine = table(200, &[LOCAL; 200]);
        assert!(of_this_machine.is_full_for(key(A)));
        assert_eq!(of_this_machine.eviction_candidate(key(A)), Some(SessionId(1)), "beyond its places it is like all");
        assert_eq!(table(200, &[LOCAL, LOCAL, A]).eviction_candidate(key(B)), None);
    }
}
