//! The broker: entry points for events of sessions and of the chain.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use super::answering::Answering;
use super::frames::{Hand, UNITS_PER_CALL};
use super::hub::Hub;
use super::outlet::Outlet;
use super::publisher::Publisher;
use super::sockjs::frame;
use super::sockjs::mailbox::Refusal;
use super::sockjs::payload::{self, PayloadError};
use super::walk::Means;
use super::{Facts, SessionId, Settings};
use crate::model::{Height, NetworkByte, Timestamp, Transaction};
use crate::net::machine::{Caller, ConnectionId, Effects, Message, Taken};
use crate::net::{ClientKey, SharedPool};

/// Close code and reason when the session limit is reached.
pub(super) const TOO_MANY_SESSIONS: Refusal = (1013, "too many sessions");
/// Bytes of a SockJS message parsed per work unit.
const PAYLOAD_BYTES_PER_UNIT: usize = 50;
/// Close code for a session whose client sends no first message.
const SESSION_NOT_RELIABLE: u16 = 4500;

/// Close code for a binary message where only text is allowed.
const CANNOT_ACCEPT: u16 = 1003;
/// Close code for a malformed message.
const BAD_DATA: u16 = 1007;

/// Close code for a message whose first string is null; NIS1 fails on it.
const SERVER_ERROR: u16 = 1011;

/// The current time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// Time since the start.
    pub running: Duration,
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
    pub(super) hub: Hub,
    pub(super) pool: SharedPool,
    pub(super) answering: Answering,
    publisher: Publisher,
    /// Sessions that have not sent anything yet, in the order in which they were opened.
    silent: BTreeSet<(Duration, SessionId)>,
    /// The connection that is about to become a websocket, and its session's name if it uses SockJS.
    pub(super) upgrading: Option<(ConnectionId, Option<String>)>,
}

/// Usage of the broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
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
    pub fn new(settings: Settings, network: NetworkByte, pool: SharedPool) -> Self {
        Self {
            settings,
            network,
            hub: Hub::new(settings),
            pool,
            answering: Answering::default(),
            publisher: Publisher::default(),
            silent: BTreeSet::new(),
            upgrading: None,
        }
    }

    /// Applies new settings. Existing sessions keep what they hold.
    pub fn change(&mut self, settings: Settings) {
        self.settings = settings;
        self.hub.change(settings);
    }

    /// Opens a session on a new websocket. Closes the websocket with 1013 if no session is available.
    pub fn open(&mut self, socket: ConnectionId, caller: &Caller, now: Duration, effects: &mut dyn Effects) {
        self.gone(socket, now, effects);
        let name = self.upgrading.take().filter(|(upgraded, _)| *upgraded == socket).and_then(|(_, name)| name);
        let outlet = match name {
            None => Outlet::Websocket(socket),
            Some(_) => Outlet::Sockjs { socket, since: now },
        };
        let speaks_sockjs = !outlet.is_raw();
        if self.welcome(outlet, name.as_deref(), caller, effects).is_none() {
            effects.close(socket, TOO_MANY_SESSIONS.0, TOO_MANY_SESSIONS.1);
        } else if speaks_sockjs {
            // A closed websocket is reported later.
            let _ = effects.send(socket, Message::of(frame::OPEN));
        }
    }

    /// Opens a session, if the limits allow it; evicts another session if necessary.
    pub(super) fn welcome(
        &mut self,
        outlet: Outlet,
        name: Option<&str>,
        caller: &Caller,
        effects: &mut dyn Effects,
    ) -> Option<SessionId> {
        let payer = ClientKey::of(caller, self.settings.limits.ipv6_prefix);
        if self.hub.may_open(payer, outlet.socket().is_none())
            && let Some(session) = self.hub.gives_way_to(payer)
        {
            self.displace(session, effects);
        }
        let id = self.hub.open(outlet, name, payer, effects)?;
        let now = self.hub.now();
        if let Some(session) = self.hub.session_mut(id) {
            session.silent_since = Some(now);
            self.silent.insert((now, id));
        }
        Some(id)
    }

    /// Evicts a session in favour of a client with fewer sessions.
    fn displace(&mut self, id: SessionId, effects: &mut dyn Effects) {
        log::debug!("session {} gives way to one of a client that has fewer", id.0);
        self.hub.finish(id, TOO_MANY_SESSIONS.0, TOO_MANY_SESSIONS.1, false, effects);
        // Without a connection, ended sessions would accumulate until their clients' time to reconnect is over.
        if self.hub.mailbox(id).is_some_and(|mailbox| mailbox.connections().next().is_none()) {
            self.forget(id, effects);
        }
    }

    /// Handles a message from a websocket. Messages for unknown or ended sessions are ignored.
    pub fn heard(
        &mut self,
        socket: ConnectionId,
        message: &[u8],
        is_text: bool,
        present: Present,
        effects: &mut dyn Effects,
    ) -> Taken {
        self.hub.set_now(present.running);
        let Some(id) = self.hub.on(socket) else { return Taken::Done };
        let Some(session) = self.hub.session(id) else { return Taken::Done };
        if session.outlet.is_raw() {
            if message.is_empty() {
                return Taken::Done;
            }
            self.feed(id, message);
            return self.read(id, present.network, effects);
        }
        if !is_text {
            self.hub.finish(id, CANNOT_ACCEPT, "Binary messages not supported", true, effects);
            return Taken::Done;
        }
        effects.charge(socket, payload_units(message));
        match payload::read(message) {
            Ok(stream) => {
                self.feed(id, &stream);
                self.read(id, present.network, effects)
            }
            Err(PayloadError::Empty) => Taken::Done,
            Err(PayloadError::Null) => {
                self.hub.end_silently(id, SERVER_ERROR, effects);
                Taken::Done
            }
            Err(PayloadError::Broken) => {
                self.hub.finish(id, BAD_DATA, "", false, effects);
                Taken::Done
            }
        }
    }

    /// Feeds received bytes into a session's decoder.
    pub(super) fn feed(&mut self, id: SessionId, stream: &[u8]) {
        let Some(session) = self.hub.session_mut(id) else { return };
        if let Some(since) = session.silent_since.take() {
            self.silent.remove(&(since, id));
        }
        session.decoder.feed(stream);
        self.hub.heard(id);
    }

    /// Continues a message that [`heard`](Self::heard) left unfinished.
    pub fn resumed(&mut self, socket: ConnectionId, present: Present, effects: &mut dyn Effects) -> Taken {
        self.hub.set_now(present.running);
        self.hub.on(socket).map_or(Taken::Done, |id| self.read(id, present.network, effects))
    }

    /// Handles a closed connection, whichever side closed it. Unknown connections are ignored.
    pub fn gone(&mut self, connection: ConnectionId, now: Duration, effects: &mut dyn Effects) {
        self.hub.set_now(now);
        if let Some(id) = self.hub.on(connection)
            && self.hub.lose(connection, id, effects)
        {
            self.forget(id, effects);
        }
    }

    /// Runs the due timers: closes sessions that have not sent a first message in time, removes sessions from which
    /// nobody fetches, and sends heartbeats.
    pub fn due(&mut self, now: Duration, effects: &mut dyn Effects) {
        self.hub.set_now(now);
        while let Some(id) = self.hub.keep_up(effects) {
            self.forget(id, effects);
        }
        while let Some((since, id)) = self.silent.first().copied() {
            if now < since + self.settings.limits.first_message {
                break;
            }
            self.silent.pop_first();
            self.hub.end_silently(id, SESSION_NOT_RELIABLE, effects);
        }
        self.answering.due(now);
    }

    /// Returns when [`due`](Self::due) must be called next, unless another event comes first.
    pub fn next_due(&self) -> Option<Duration> {
        let silent = self.silent.first().map(|(since, _)| *since + self.settings.limits.first_message);
        silent.into_iter().chain(self.answering.next_due()).chain(self.hub.next_due()).min()
    }

    /// Handles a chain update, visible and durable, that keeps blocks up to `common` and ends at `last`. The new blocks
    /// are published, each once.
    pub fn chain_changed(&mut self, common: Height, last: Height) {
        self.publisher.chain_changed(common, last);
        self.answering.chain_changed(common, &mut self.hub);
    }

    /// Publishes a transaction that has entered the mempool.
    pub fn arrived(&mut self, transaction: Rc<Transaction>) {
        self.publisher.arrived(transaction);
    }

    /// Returns whether so many unconfirmed transactions wait to be published that no more should be accepted.
    pub fn is_behind(&self) -> bool {
        self.publisher.is_behind()
    }

    /// Returns whether [`work`](Self::work) has anything to do.
    pub fn has_work(&self, tells_blocks: bool) -> bool {
        self.publisher.has_work(tells_blocks) || self.answering.has_work()
    }

    /// Publishes news and answers queries within the budget; each of the two is guaranteed half of it. Blocks are
    /// published only if `tells_blocks`, that is, once the mempool is up to date with them: an account's data shows
    /// what waits in the mempool, and transactions that a reorg returned to the mempool are published before the blocks
    /// that replace theirs.
    pub fn work(
        &mut self,
        tells_blocks: bool,
        facts: &dyn Facts,
        now: Duration,
        time: Timestamp,
        budget: &mut u32,
        effects: &mut dyn Effects,
    ) {
        self.hub.set_now(now);
        let Self { settings, network, hub, pool, answering, publisher, .. } = self;
        let mut means = Means { hub, facts, pool, network: *network, settings, now, time, effects };
        let mut half = *budget / 2;
        let spared = *budget - half;
        answering.work(&mut means, &mut half);
        *budget = spared + half;
        publisher.work(tells_blocks, &mut means, budget);
        answering.work(&mut means, budget);
    }

    /// Returns the broker's usage.
    pub fn figures(&self) -> Figures {
        Figures {
            sessions: self.hub.session_count(),
            topics: self.hub.topics().len(),
            addresses: self.hub.registry().len(),
            patterns: self.hub.topics().pattern_count(),
            session_bytes: self.hub.books().total().bytes,
            message_bytes: self.pool.held_bytes(),
        }
    }

    /// Returns whether any session is open.
    pub fn has_sessions(&self) -> bool {
        self.hub.session_count() > 0
    }

    /// Returns the broker's counters.
    pub fn counts(&self) -> Counts {
        Counts { messages: self.hub.messages(), dropped: self.hub.dropped() }
    }

    /// Handles frames of a session until all are done, the work limit of one call is reached, or the session has too
    /// many queries.
    pub(super) fn read(&mut self, id: SessionId, time: Timestamp, effects: &mut dyn Effects) -> Taken {
        let Some(session) = self.hub.session_mut(id) else { return Taken::Done };
        session.is_parked = false;
        let connection = session.outlet.reader();
        let mut decoder = std::mem::take(&mut session.decoder);
        let mut hand = Hand { session: id, time, effects, units: 1 };
        let taken = loop {
            let Some(session) = self.hub.session_mut(id) else { break Taken::Done };
            if session.queries.len() >= self.settings.limits.queries_per_session {
                session.is_parked = true;
                break Taken::Parked;
            }
            if hand.units >= UNITS_PER_CALL && decoder.has_unread() {
                break Taken::Unfinished;
            }
            match decoder.next_frame() {
                Ok(Some(frame)) => self.handle(&frame, &mut hand),
                Ok(None) => break Taken::Done,
                Err(error) => self.refuse(&error, &mut hand),
            }
        };
        let Hand { effects, units, .. } = hand;
        connection.into_iter().for_each(|connection| effects.charge(connection, units));
        if let Some(session) = self.hub.session_mut(id) {
            session.decoder = decoder;
            if let Err(refused) = self.hub.account_for_stream(id, effects) {
                self.hub.end(id, &refused.to_string(), effects);
            }
        }
        if self.hub.session(id).is_none() { Taken::Done } else { taken }
    }

    fn forget(&mut self, id: SessionId, effects: &mut dyn Effects) {
        if let Some(payer) = self.hub.payer(id) {
            self.answering.leave(payer, id);
        }
        if let Some(since) = self.hub.close(id, effects).and_then(|session| session.silent_since) {
            self.silent.remove(&(since, id));
        }
    }
}

/// Work units for parsing a SockJS message.
pub(super) fn payload_units(message: &[u8]) -> u32 {
    u32::try_from(message.len() / PAYLOAD_BYTES_PER_UNIT).unwrap_or(u32::MAX)
}
