//! The broker: entry points for events of sessions and of the chain.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use super::frames::{FrameContext, UNITS_PER_CALL};
use super::publish_job::PublishContext;
use super::publisher::Publisher;
use super::query_scheduler::QueryScheduler;
use super::session_table::SessionTable;
use super::session_transport::SessionTransport;
use super::sockjs::frame;
use super::sockjs::payload::{self, PayloadError};
use super::sockjs::poll_queue::CloseReason;
use super::{ChainSource, SessionId, Settings};
use crate::model::{Height, NetworkByte, Timestamp, Transaction};
use crate::net::service::{Client, ConnectionId, Effects, Message, Progress};
use crate::net::{ClientKey, SharedBytesCounter};

/// Close code and reason when the session limit is reached.
pub(super) const TOO_MANY_SESSIONS: CloseReason = (1013, "too many sessions");
/// Bytes of a SockJS message parsed per work unit.
const PAYLOAD_BYTES_PER_UNIT: usize = 50;
/// Close code for a session whose client sends no first message.
const NO_FIRST_MESSAGE: u16 = 4500;

/// Close code for a binary message where only text is allowed.
const CANNOT_ACCEPT: u16 = 1003;
/// Close code for a malformed message.
const BAD_DATA: u16 = 1007;

/// Close code for a message whose first string is null; NIS1 fails on it.
const SERVER_ERROR: u16 = 1011;

/// The current time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerTime {
    /// Time since the start.
    pub monotonic: Duration,
    /// Network time.
    pub network: Timestamp,
}

/// The node's broker.
///
/// The frames of a session are handled in the order of arrival, and its messages are sent in the order of publication.
/// An answer to a query goes only to the session that asked, through its subscriptions to the topic of the answer. News
/// is published to all subscribers, once, when it happens.
pub struct Broker {
    pub(super) settings: Settings,
    pub(super) network: NetworkByte,
    pub(super) session_table: SessionTable,
    pub(super) pool: SharedBytesCounter,
    pub(super) query_scheduler: QueryScheduler,
    publisher: Publisher,
    /// Sessions that have not sent anything yet, in the order in which they were opened.
    silent: BTreeSet<(Duration, SessionId)>,
    /// The connection that is about to become a websocket, and its session's name if it uses SockJS.
    pub(super) upgrading: Option<(ConnectionId, Option<String>)>,
}

/// Usage of the broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerUsage {
    /// Open sessions, including those that wait for their connection to close.
    pub sessions: usize,
    /// Pairs of session and topic; patterns do not count.
    pub topics: usize,
    /// Distinct registered addresses.
    pub addresses: usize,
    /// Distinct subscribed patterns.
    pub patterns: usize,
    /// Estimated memory of all sessions, in bytes.
    pub session_bytes: usize,
    /// Bytes of shared messages that wait to be sent.
    pub message_bytes: usize,
}

/// Counters of the broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent.
    pub messages: u64,
    /// Sessions without a websocket that were dropped because their clients did not fetch their messages.
    pub dropped: u64,
}

impl Broker {
    /// Creates a broker without sessions.
    pub fn new(settings: Settings, network: NetworkByte, pool: SharedBytesCounter) -> Self {
        Self {
            settings,
            network,
            session_table: SessionTable::new(settings),
            pool,
            query_scheduler: QueryScheduler::default(),
            publisher: Publisher::default(),
            silent: BTreeSet::new(),
            upgrading: None,
        }
    }

    /// Applies new settings. Existing sessions keep what they hold.
    pub fn reload(&mut self, settings: Settings) {
        self.settings = settings;
        self.session_table.reload(settings);
    }

    /// Opens a session on a new websocket. Closes the websocket with 1013 if no session is available.
    pub fn open_websocket(&mut self, socket: ConnectionId, client: &Client, now: Duration, effects: &mut dyn Effects) {
        self.on_disconnect(socket, now, effects);
        let name = self.upgrading.take().filter(|(upgraded, _)| *upgraded == socket).and_then(|(_, name)| name);
        let transport = match name {
            None => SessionTransport::Websocket(socket),
            Some(_) => SessionTransport::Sockjs { socket, last_sent: now },
        };
        let speaks_sockjs = !transport.is_raw();
        if self.open_session(transport, name.as_deref(), client, effects).is_none() {
            effects.close(socket, TOO_MANY_SESSIONS.0, TOO_MANY_SESSIONS.1);
        } else if speaks_sockjs {
            // A closed websocket is reported later.
            let _ = effects.send(socket, Message::of(frame::OPEN));
        }
    }

    /// Opens a session, if the limits allow it; evicts another session if necessary.
    pub(super) fn open_session(
        &mut self,
        transport: SessionTransport,
        name: Option<&str>,
        client: &Client,
        effects: &mut dyn Effects,
    ) -> Option<SessionId> {
        let client_key = ClientKey::of(client, self.settings.limits.ipv6_prefix);
        if self.session_table.may_open(client_key, transport.socket().is_none())
            && let Some(session) = self.session_table.session_to_evict(client_key)
        {
            self.evict(session, effects);
        }
        let id = self.session_table.open(transport, name, client_key, effects)?;
        let now = self.session_table.now();
        if let Some(session) = self.session_table.session_mut(id) {
            session.silent_since = Some(now);
            self.silent.insert((now, id));
        }
        Some(id)
    }

    /// Evicts a session in favour of a client with fewer sessions.
    fn evict(&mut self, id: SessionId, effects: &mut dyn Effects) {
        log::debug!("session {} is closed in favour of a client with fewer sessions", id.0);
        self.session_table.close_session(id, TOO_MANY_SESSIONS.0, TOO_MANY_SESSIONS.1, false, effects);
        // Without a connection, ended sessions would accumulate until their clients' time to reconnect is over.
        if self.session_table.poll_queue(id).is_some_and(|poll_queue| poll_queue.connections().next().is_none()) {
            self.remove_session(id, effects);
        }
    }

    /// Handles a message from a websocket. Messages for unknown or ended sessions are ignored.
    pub fn on_message(
        &mut self,
        socket: ConnectionId,
        message: &[u8],
        is_text: bool,
        present: BrokerTime,
        effects: &mut dyn Effects,
    ) -> Progress {
        self.session_table.set_now(present.monotonic);
        let Some(id) = self.session_table.session_of(socket) else { return Progress::Done };
        let Some(session) = self.session_table.session(id) else { return Progress::Done };
        if session.transport.is_raw() {
            if message.is_empty() {
                return Progress::Done;
            }
            self.feed(id, message);
            return self.handle_frames(id, present.network, effects);
        }
        if !is_text {
            self.session_table.close_session(id, CANNOT_ACCEPT, "Binary messages not supported", true, effects);
            return Progress::Done;
        }
        effects.charge(socket, payload_units(message));
        match payload::read(message) {
            Ok(stream) => {
                self.feed(id, &stream);
                self.handle_frames(id, present.network, effects)
            }
            Err(PayloadError::Empty) => Progress::Done,
            Err(PayloadError::Null) => {
                self.session_table.close_silently(id, SERVER_ERROR, effects);
                Progress::Done
            }
            Err(PayloadError::Broken) => {
                self.session_table.close_session(id, BAD_DATA, "", false, effects);
                Progress::Done
            }
        }
    }

    /// Feeds received bytes into a session's decoder.
    pub(super) fn feed(&mut self, id: SessionId, stream: &[u8]) {
        let Some(session) = self.session_table.session_mut(id) else { return };
        if let Some(since) = session.silent_since.take() {
            self.silent.remove(&(since, id));
        }
        session.decoder.feed(stream);
        self.session_table.record_message(id);
    }

    /// Continues a message that [`on_message`](Self::on_message) left unfinished.
    pub fn on_resumed(&mut self, socket: ConnectionId, present: BrokerTime, effects: &mut dyn Effects) -> Progress {
        self.session_table.set_now(present.monotonic);
        self.session_table
            .session_of(socket)
            .map_or(Progress::Done, |id| self.handle_frames(id, present.network, effects))
    }

    /// Handles a closed connection, whichever side closed it. Unknown connections are ignored.
    pub fn on_disconnect(&mut self, connection: ConnectionId, now: Duration, effects: &mut dyn Effects) {
        self.session_table.set_now(now);
        if let Some(id) = self.session_table.session_of(connection)
            && self.session_table.on_disconnect(connection, id, effects)
        {
            self.remove_session(id, effects);
        }
    }

    /// Runs the due timers: closes sessions that have not sent a first message in time, removes sessions from which
    /// nobody fetches, and sends heartbeats.
    pub fn on_timer(&mut self, now: Duration, effects: &mut dyn Effects) {
        self.session_table.set_now(now);
        while let Some(id) = self.session_table.on_timer(effects) {
            self.remove_session(id, effects);
        }
        while let Some((since, id)) = self.silent.first().copied() {
            if now < since + self.settings.limits.first_message {
                break;
            }
            self.silent.pop_first();
            self.session_table.close_silently(id, NO_FIRST_MESSAGE, effects);
        }
        self.query_scheduler.on_timer(now);
    }

    /// Returns when [`on_timer`](Self::on_timer) must be called next, unless another event comes first.
    pub fn next_due(&self) -> Option<Duration> {
        let silent = self.silent.first().map(|(since, _)| *since + self.settings.limits.first_message);
        silent.into_iter().chain(self.query_scheduler.next_due()).chain(self.session_table.next_due()).min()
    }

    /// Handles a chain update, visible and durable, that keeps blocks up to `common` and ends at `last`. The new blocks
    /// are published, each once.
    pub fn chain_changed(&mut self, common: Height, last: Height) {
        self.publisher.chain_changed(common, last);
        self.query_scheduler.chain_changed(common, &mut self.session_table);
    }

    /// Publishes a transaction that has entered the mempool.
    pub fn on_transaction(&mut self, transaction: Rc<Transaction>) {
        self.publisher.on_transaction(transaction);
    }

    /// Returns whether so many unconfirmed transactions wait to be published that no more should be accepted.
    pub fn is_behind(&self) -> bool {
        self.publisher.is_behind()
    }

    /// Returns whether [`work`](Self::work) has anything to do.
    pub fn has_work(&self, may_publish_blocks: bool) -> bool {
        self.publisher.has_work(may_publish_blocks) || self.query_scheduler.has_work()
    }

    /// Publishes news and answers queries within the budget; each of the two is guaranteed half of it. Blocks are
    /// published only if `may_publish_blocks`, that is, once the mempool is up to date with them: an account's data shows
    /// what waits in the mempool, and transactions that a reorg returned to the mempool are published before the blocks
    /// that replace theirs.
    pub fn work(
        &mut self,
        may_publish_blocks: bool,
        source: &dyn ChainSource,
        now: Duration,
        time: Timestamp,
        budget: &mut u32,
        effects: &mut dyn Effects,
    ) {
        self.session_table.set_now(now);
        let Self { settings, network, session_table: hub, pool, query_scheduler: answering, publisher, .. } = self;
        let mut context =
            PublishContext { session_table: hub, source, pool, network: *network, settings, now, time, effects };
        let mut answer_budget = *budget / 2;
        let publish_budget = *budget - answer_budget;
        answering.work(&mut context, &mut answer_budget);
        *budget = publish_budget + answer_budget;
        publisher.work(may_publish_blocks, &mut context, budget);
        answering.work(&mut context, budget);
    }

    /// Returns the broker's usage.
    pub fn usage(&self) -> BrokerUsage {
        BrokerUsage {
            sessions: self.session_table.session_count(),
            topics: self.session_table.topics().len(),
            addresses: self.session_table.registry().len(),
            patterns: self.session_table.topics().pattern_count(),
            session_bytes: self.session_table.quotas().total().bytes,
            message_bytes: self.pool.held_bytes(),
        }
    }

    /// Returns whether any session is open.
    pub fn has_sessions(&self) -> bool {
        self.session_table.session_count() > 0
    }

    /// Returns the broker's counters.
    pub fn counts(&self) -> Counts {
        Counts { messages: self.session_table.messages(), dropped: self.session_table.dropped() }
    }

    /// Handles frames of a session until all are done, the work limit of one call is reached, or the session has too
    /// many queries.
    pub(super) fn handle_frames(&mut self, id: SessionId, time: Timestamp, effects: &mut dyn Effects) -> Progress {
        let Some(session) = self.session_table.session_mut(id) else { return Progress::Done };
        session.is_suspended = false;
        let connection = session.transport.reading_connection();
        let mut decoder = std::mem::take(&mut session.decoder);
        let mut context = FrameContext { session: id, time, effects, units: 1 };
        let progress = loop {
            let Some(session) = self.session_table.session_mut(id) else { break Progress::Done };
            if session.queries.len() >= self.settings.limits.queries_per_session {
                session.is_suspended = true;
                break Progress::Suspended;
            }
            if context.units >= UNITS_PER_CALL && decoder.has_unread() {
                break Progress::Yield;
            }
            match decoder.next_frame() {
                Ok(Some(frame)) => self.handle(&frame, &mut context),
                Ok(None) => break Progress::Done,
                Err(error) => self.on_decode_error(&error, &mut context),
            }
        };
        let FrameContext { effects, units, .. } = context;
        connection.into_iter().for_each(|connection| effects.charge(connection, units));
        if let Some(session) = self.session_table.session_mut(id) {
            session.decoder = decoder;
            if let Err(refused) = self.session_table.update_decoder_usage(id, effects) {
                self.session_table.fail(id, &refused.to_string(), effects);
            }
        }
        if self.session_table.session(id).is_none() { Progress::Done } else { progress }
    }

    fn remove_session(&mut self, id: SessionId, effects: &mut dyn Effects) {
        if let Some(client_key) = self.session_table.client_of(id) {
            self.query_scheduler.remove(client_key, id);
        }
        if let Some(since) = self.session_table.remove_session(id, effects).and_then(|session| session.silent_since) {
            self.silent.remove(&(since, id));
        }
    }
}

/// Work units for parsing a SockJS message.
pub(super) fn payload_units(message: &[u8]) -> u32 {
    u32::try_from(message.len() / PAYLOAD_BYTES_PER_UNIT).unwrap_or(u32::MAX)
}
