//! Who is there and who gets which message: sessions, subscriptions, registered addresses and the books on all of them,
//! always in agreement.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use super::books::{Books, Holdings, NoRoom};
use super::content::Content;
use super::outlet::{Letter, Outlet, Sending};
use super::registry::{Reason, Registry};
use super::session::Session;
use super::sockjs::Mailbox;
use super::sockjs::mailbox::{INTERRUPTED, TOO_SLOW};
use super::stomp::{Decoder, encoder};
use super::subscriptions::{self, Ended};
use super::topics::{self, Topics};
use super::{Limits, SessionId, Settings, pattern};
use crate::figures::take_off;
use crate::model::Address;
use crate::net::ClientKey;
use crate::net::machine::{ConnectionId, Dropped, Effects};

/// Longest subscription id, in bytes; a longer one is refused.
const MAX_SUBSCRIPTION_ID_BYTES: usize = 256;
/// Bytes that a session is reckoned to take before it does anything.
const SESSION_BYTES: usize = 2 * 1024;
/// Bytes that a registered address takes, in the tables of session and broker.
const REGISTRATION_BYTES: usize = 160;
/// Websocket close code of a session that the STOMP layer ends.
const CLOSE_PROTOCOL_ERROR: u16 = 1002;
/// What the session is told that is ended because a total is reached.
const HOG: &str = "The node is short of memory and this session takes much of it";

/// Why a session is not given what it asks for; `Display` is for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The id is too long.
    LongId,
    /// The session has as many subscriptions as one may have.
    Subscriptions,
    /// The session has as many subscriptions to one destination as one may have.
    Destination,
    /// The session has as many patterns as one may have.
    Patterns,
    /// The session has registered as many addresses as one may.
    Addresses,
    /// The session takes as much memory as one may.
    SessionMemory,
    /// The sessions of the caller take as much memory as those of one may.
    CallerMemory,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LongId => "The subscription id is too long",
            Self::Subscriptions => "The session has too many subscriptions, unsubscribe first",
            Self::Destination => "The session has too many subscriptions to this destination",
            Self::Patterns => "The session subscribes to too many patterns",
            Self::Addresses => "The session cannot register further addresses",
            Self::SessionMemory => "The session takes too much memory, unsubscribe first",
            Self::CallerMemory => "The sessions of this address take too much memory",
        })
    }
}

impl std::error::Error for Refused {}

impl From<NoRoom> for Refused {
    fn from(reason: NoRoom) -> Refused {
        match reason {
            NoRoom::Session => Refused::SessionMemory,
            NoRoom::Caller => Refused::CallerMemory,
        }
    }
}

/// Sessions and what belongs to them.
pub struct Hub {
    settings: Settings,
    sessions: BTreeMap<SessionId, Session>,
    /// The session of each connection that carries something for one.
    carriers: BTreeMap<ConnectionId, SessionId>,
    /// Sessions with a mailbox, by the names that their clients have given them.
    mailboxes: BTreeMap<String, SessionId>,
    mailboxes_by_payer: BTreeMap<ClientKey, usize>,
    /// Sessions whose outlets are to be looked after, by when.
    agenda: BTreeSet<(Duration, SessionId)>,
    /// The running time.
    now: Duration,
    topics: Topics,
    registry: Registry,
    books: Books,
    last_session: SessionId,
    /// Number of the next MESSAGE of the process.
    next_message: u64,
    /// Sessions with a mailbox that were dropped as more waited in it than may.
    dropped: u64,
    /// Where frames and the heads of messages are put together.
    scratch: Vec<u8>,
    /// Where what carries them is.
    room: Vec<u8>,
}

impl Hub {
    /// A hub without sessions.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            sessions: BTreeMap::new(),
            carriers: BTreeMap::new(),
            mailboxes: BTreeMap::new(),
            mailboxes_by_payer: BTreeMap::new(),
            agenda: BTreeSet::new(),
            now: Duration::ZERO,
            topics: Topics::default(),
            registry: Registry::default(),
            books: Books::default(),
            last_session: SessionId(0),
            next_message: 0,
            dropped: 0,
            scratch: Vec::new(),
            room: Vec::new(),
        }
    }

    /// Other settings count from now on.
    pub fn change(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// How many messages were sent so far.
    pub fn messages(&self) -> u64 {
        self.next_message
    }

    /// How many sessions with a mailbox were dropped as their clients did not fetch their messages.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes note of the running time.
    pub fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// The running time.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// The session that has to end before a client can open one more, if all places are taken and one gives way.
    pub fn gives_way_to(&self, client: ClientKey) -> Option<SessionId> {
        let is_full = self.books.is_full_for(client, &self.settings.limits);
        if is_full { self.books.gives_way_to(client, &self.settings.limits) } else { None }
    }

    /// Whether a client may have one more session, if there is a place for it; `has_mailbox` if it is to be fetched from.
    pub fn may_open(&self, client: ClientKey, has_mailbox: bool) -> bool {
        let limits = &self.settings.limits;
        let mailboxes = self.mailboxes_by_payer.get(&client).copied().unwrap_or(0);
        let room = self.books.check(client, self.last_session, 0, SESSION_BYTES, limits);
        room.is_ok() && !(has_mailbox && mailboxes >= limits.mailboxes_per_caller)
    }

    /// Opens a session, which its client may have given a name; fails if there is no room for it.
    pub fn open(
        &mut self,
        outlet: Outlet,
        name: Option<&str>,
        payer: ClientKey,
        effects: &mut dyn Effects,
    ) -> Option<SessionId> {
        let socket = outlet.socket();
        if self.books.is_full_for(payer, &self.settings.limits) || !self.may_open(payer, socket.is_none()) {
            return None;
        }
        let id = SessionId(self.last_session.0 + 1);
        self.last_session = id;
        // Eight digits name four billion sessions, which are never open at once.
        let name = name.map_or_else(|| format!("{:x}", id.0 as u32), str::to_owned);
        match socket {
            Some(socket) => drop(self.carriers.insert(socket, id)),
            None => {
                self.mailboxes.insert(name.clone(), id);
                *self.mailboxes_by_payer.entry(payer).or_default() += 1;
            }
        }
        let decoder = Decoder::new(self.settings.limits.frame_bytes, self.settings.forgiving);
        self.sessions.insert(id, Session::new(name, outlet, payer, decoder));
        self.schedule(id);
        self.books.open(payer, id, self.now);
        self.books.add(payer, id, Holdings { bytes: SESSION_BYTES, patterns: 0 });
        self.make_room(effects);
        Some(id)
    }

    /// Forgets a session and all that belongs to it.
    pub fn close(&mut self, id: SessionId, effects: &mut dyn Effects) -> Option<Session> {
        self.strip(id);
        let session = self.sessions.remove(&id)?;
        let connections = session.outlet.connections();
        connections.iter().for_each(|connection| _ = self.carriers.remove(connection));
        if session.outlet.socket().is_none() {
            // Requests that wait are to be answered all the same.
            connections.into_iter().for_each(|connection| effects.resume(connection));
            self.mailboxes.remove(&session.name);
            if let Some(count) = self.mailboxes_by_payer.get_mut(&session.payer) {
                take_off(count, 1);
                if *count == 0 {
                    self.mailboxes_by_payer.remove(&session.payer);
                }
            }
        }
        session.due.into_iter().for_each(|due| _ = self.agenda.remove(&(due, id)));
        Some(session)
    }

    /// The session whose client has given it this name and fetches from it.
    pub fn named(&self, name: &str) -> Option<SessionId> {
        self.mailboxes.get(name).copied()
    }

    /// The mailbox of a session, even one that has come to its end.
    pub fn mailbox(&mut self, id: SessionId) -> Option<&mut Mailbox> {
        self.sessions.get_mut(&id).and_then(|session| session.outlet.mailbox())
    }

    /// A request carries something for a session from now on, or none any more.
    pub fn carry(&mut self, connection: ConnectionId, session: Option<SessionId>) {
        match session {
            Some(id) => drop(self.carriers.insert(connection, id)),
            None => drop(self.carriers.remove(&connection)),
        }
    }

    /// A connection of a session is gone. Whether the session is to be forgotten with it; one that messages may have
    /// been lost of comes to its end.
    pub fn lose(&mut self, connection: ConnectionId, id: SessionId, effects: &mut dyn Effects) -> bool {
        self.carriers.remove(&connection);
        let now = self.now;
        let Some(mailbox) = self.mailbox(id) else { return true };
        let is_interrupted = mailbox.lose(connection, now);
        if is_interrupted && self.session(id).is_some() {
            self.finish(id, INTERRUPTED.0, INTERRUPTED.1, false, effects);
        }
        self.schedule(id);
        false
    }

    /// Looks after outlets for which something is due, up to the first session that is to be forgotten.
    pub fn keep_up(&mut self, effects: &mut dyn Effects) -> Option<SessionId> {
        while let Some((due, id)) = self.agenda.first().copied().filter(|(due, _)| *due <= self.now) {
            self.agenda.remove(&(due, id));
            let Some(state) = self.sessions.get_mut(&id) else { continue };
            state.due = None;
            if state.is_closing && state.outlet.socket().is_some() {
                continue;
            }
            let is_due = state.outlet.due(&self.settings.limits).is_some_and(|due| due <= self.now);
            if is_due {
                match state.outlet.keep_up(self.now, effects) {
                    Ok(true) => {}
                    Ok(false) => return Some(id),
                    Err(Dropped) => self.retire(id),
                }
            }
            self.schedule(id);
        }
        None
    }

    /// When an outlet is to be looked after next.
    pub fn next_due(&self) -> Option<Duration> {
        self.agenda.first().map(|(due, _)| *due)
    }

    /// Notes when the outlet of a session is to be looked after, if that is earlier than what is noted. Later is found
    /// out when the time has come.
    pub fn schedule(&mut self, id: SessionId) {
        let Some(state) = self.sessions.get_mut(&id) else { return };
        let Some(due) = state.outlet.due(&self.settings.limits) else { return };
        if state.due.is_some_and(|noted| noted <= due) {
            return;
        }
        if let Some(noted) = state.due.replace(due) {
            self.agenda.remove(&(noted, id));
        }
        self.agenda.insert((due, id));
    }

    /// Notes that a session was heard from.
    pub fn heard(&mut self, id: SessionId) {
        if let Some(payer) = self.payer(id) {
            self.books.heard(payer, id, self.now);
        }
    }

    /// Who answers for a session, even one that has come to its end.
    pub fn payer(&self, id: SessionId) -> Option<ClientKey> {
        self.sessions.get(&id).map(|session| session.payer)
    }

    /// The session that a connection carries something for.
    pub fn on(&self, connection: ConnectionId) -> Option<SessionId> {
        self.carriers.get(&connection).copied()
    }

    /// A session that has not come to its end.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id).filter(|session| !session.is_closing)
    }

    /// A session that has not come to its end. Its subscriptions and registrations are changed only through the hub.
    pub fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(&id).filter(|session| !session.is_closing)
    }

    /// Number of sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Whether nothing is left of connections, names and what is due.
    #[cfg(test)]
    pub fn is_clear(&self) -> bool {
        let no_mailbox = self.mailboxes.is_empty() && self.mailboxes_by_payer.is_empty();
        self.carriers.is_empty() && self.agenda.is_empty() && no_mailbox
    }

    /// The session opened last.
    pub fn last_session(&self) -> SessionId {
        self.last_session
    }

    /// Who is subscribed to what.
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// Which addresses are registered.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Who holds how much.
    pub fn books(&self) -> &Books {
        &self.books
    }

    /// Gives a session the subscription that a SUBSCRIBE asks for, and with it the registration of `address`, if it is
    /// to a topic of one. What exists already is left as it is. An implicit subscription to the same destination ends,
    /// and one with the same id gets another id.
    pub fn subscribe(
        &mut self,
        session: SessionId,
        id: Option<&str>,
        destination: &str,
        address: Option<Address>,
        effects: &mut dyn Effects,
    ) -> Result<(), Refused> {
        let Some(state) = self.session(session) else { return Ok(()) };
        if id.is_some_and(|id| state.subscriptions.has_explicit(id, destination)) {
            return Ok(());
        }
        let replaced = usize::from(state.subscriptions.implicit_at(destination).is_some());
        let id_bytes = id.map_or(0, str::len);
        self.check(session, id_bytes, destination, replaced)?;
        if let Some(address) = address {
            self.register(session, address, Reason::Subscription, effects)?;
        }
        if let Some(ended) =
            self.session_mut(session).and_then(|state| state.subscriptions.remove_implicit(destination))
        {
            self.settle(session, &ended);
        }
        let Some(state) = self.session_mut(session) else { return Ok(()) };
        let id = id.map_or_else(|| state.subscriptions.generate_id(), str::to_owned);
        self.add(session, &id, destination, false);
        self.give_way(session, &id);
        self.make_room(effects);
        Ok(())
    }

    /// Subscribes a session to the transactions of an address, if it is not subscribed to them.
    pub fn subscribe_implicitly(
        &mut self,
        session: SessionId,
        address: &Address,
        effects: &mut dyn Effects,
    ) -> Result<(), Refused> {
        let destination = format!("{}{address}", topics::TRANSACTIONS_OF);
        let Some(state) = self.session(session) else { return Ok(()) };
        if state.subscriptions.count_at(&destination) > 0 {
            return Ok(());
        }
        let id = state.subscriptions.free_id();
        self.check(session, id.len(), &destination, 0)?;
        self.add(session, &id, &destination, true);
        self.make_room(effects);
        Ok(())
    }

    /// Ends those subscriptions of a session that have this id, and says how many they were.
    pub fn unsubscribe(&mut self, session: SessionId, id: &str) -> usize {
        let ended = self.session_mut(session).map(|state| state.subscriptions.remove(id)).unwrap_or_default();
        ended.iter().for_each(|ended| self.settle(session, ended));
        ended.len()
    }

    /// Ends all subscriptions of a session, and says how many they were.
    pub fn unsubscribe_all(&mut self, session: SessionId) -> usize {
        let ended = self.session_mut(session).map(|state| state.subscriptions.remove_all()).unwrap_or_default();
        ended.iter().for_each(|ended| self.settle(session, ended));
        ended.len()
    }

    /// Registers an address for a session.
    pub fn register(
        &mut self,
        session: SessionId,
        address: Address,
        reason: Reason,
        effects: &mut dyn Effects,
    ) -> Result<(), Refused> {
        let limits = self.settings.limits;
        let Some(state) = self.session(session) else { return Ok(()) };
        let payer = state.payer;
        if !state.registrations.contains(&address) {
            if state.registrations.len() >= limits.addresses_per_session {
                return Err(Refused::Addresses);
            }
            self.books.check(payer, session, REGISTRATION_BYTES, 0, &limits)?;
        }
        let Some(state) = self.session_mut(session) else { return Ok(()) };
        if state.registrations.add(address, reason) {
            self.registry.add(address);
            self.books.add(payer, session, Holdings { bytes: REGISTRATION_BYTES, patterns: 0 });
            self.make_room(effects);
        }
        Ok(())
    }

    /// Enters what the byte stream of a session holds into the books. Fails if that is too much for its caller.
    pub fn account_for_stream(&mut self, session: SessionId, effects: &mut dyn Effects) -> Result<(), Refused> {
        let Some(state) = self.session_mut(session) else { return Ok(()) };
        // What an idle stream holds is part of what the session is reckoned to take.
        let now = state.decoder.held_bytes().saturating_sub(SESSION_BYTES / 2);
        let before = std::mem::replace(&mut state.buffered, now);
        let payer = state.payer;
        self.books.remove(payer, session, Holdings { bytes: before, patterns: 0 });
        let room = self.books.check(payer, session, 0, now, &self.settings.limits);
        self.books.add(payer, session, Holdings { bytes: now, patterns: 0 });
        room?;
        self.make_room(effects);
        Ok(())
    }

    /// Sends one frame to a session. One that cannot be sent to has come to its end.
    pub fn send(&mut self, session: SessionId, effects: &mut dyn Effects, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(state) = self.sessions.get_mut(&session).filter(|state| !state.is_closing) else { return };
        self.scratch.clear();
        write(&mut self.scratch);
        let Hub { settings, now, scratch, room, .. } = self;
        let mut sending = Sending { now: *now, limits: &settings.limits, room, effects };
        let sent = state.outlet.send(Letter { head: scratch, body: None }, &mut sending);
        self.settle_mail(session, sent.is_ok(), effects);
    }

    /// Enters what waits in the mailbox of a session into the books. A session that could not be sent to has come to its
    /// end, and so has one whose caller leaves too much waiting.
    fn settle_mail(&mut self, session: SessionId, is_sent: bool, effects: &mut dyn Effects) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        if !is_sent {
            self.dropped += u64::from(state.outlet.socket().is_none());
            return self.retire(session);
        }
        let now = state.outlet.held_bytes();
        let before = std::mem::replace(&mut state.mail, now);
        if before == now {
            return;
        }
        let payer = state.payer;
        self.books.remove(payer, session, Holdings { bytes: before, patterns: 0 });
        let room = self.books.check(payer, session, 0, now, &self.settings.limits);
        self.books.add(payer, session, Holdings { bytes: now, patterns: 0 });
        if room.is_err() {
            self.dropped += 1;
            self.end_silently(session, TOO_SLOW, effects);
        }
    }

    /// What waited for a session has been fetched.
    pub fn fetched(&mut self, session: SessionId, effects: &mut dyn Effects) {
        if self.session(session).is_some() {
            self.settle_mail(session, true, effects);
        }
        self.schedule(session);
    }

    /// Sends a MESSAGE to a session for each of its subscriptions to `topic`, and says how many units of work that
    /// took; none if there was none to send.
    pub fn deliver(&mut self, session: SessionId, topic: &str, content: &Content, effects: &mut dyn Effects) -> u32 {
        let Hub { sessions, settings, scratch, room, next_message, now, .. } = self;
        let Some(state) = sessions.get_mut(&session).filter(|state| !state.is_closing) else { return 0 };
        let is_bare = state.is_bare();
        let length = content.for_session(is_bare).len();
        let (mut sent, mut is_dropped) = (0, false);
        let Session { subscriptions, outlet, name, .. } = state;
        let mut sending = Sending { now: *now, limits: &settings.limits, room, effects };
        subscriptions.each_match(topic, |id| {
            if is_dropped {
                return;
            }
            scratch.clear();
            let head = encoder::MessageHead {
                destination: topic,
                subscription: id,
                session_name: name,
                number: *next_message,
                // The NUL behind the body is none of it.
                content_length: length - 1,
            };
            encoder::message_head(scratch, head);
            *next_message = next_message.wrapping_add(1);
            let letter = Letter { head: scratch, body: Some((content, is_bare)) };
            match outlet.send(letter, &mut sending) {
                Ok(units) => sent += 1 + units,
                Err(Dropped) => is_dropped = true,
            }
        });
        if !is_dropped && sent > 0 {
            outlet.charge(sent, effects);
        }
        self.settle_mail(session, !is_dropped, effects);
        self.make_room(effects);
        sent
    }

    /// Ends a session: ERROR, then close.
    pub fn end(&mut self, session: SessionId, message: &str, effects: &mut dyn Effects) {
        self.send(session, effects, |out| encoder::error(out, message));
        self.finish(session, CLOSE_PROTOCOL_ERROR, "", false, effects);
    }

    /// Ends a session without a word.
    pub fn end_silently(&mut self, session: SessionId, code: u16, effects: &mut dyn Effects) {
        self.finish(session, code, "", true, effects);
    }

    /// Ends a session with a code and a reason.
    pub fn finish(&mut self, session: SessionId, code: u16, reason: &str, silently: bool, effects: &mut dyn Effects) {
        let now = self.now;
        if let Some(state) = self.session_mut(session) {
            state.outlet.close(code, reason, silently, now, effects);
            self.retire(session);
        }
    }

    /// Takes everything from a session that has come to its end; what is left of it waits for its connection to go,
    /// or for its client to be told.
    fn retire(&mut self, session: SessionId) {
        self.strip(session);
        if let Some(state) = self.sessions.get_mut(&session) {
            state.is_closing = true;
        }
        self.schedule(session);
    }

    /// Takes everything from a session.
    fn strip(&mut self, session: SessionId) {
        self.unsubscribe_all(session);
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let registrations = std::mem::take(&mut state.registrations);
        registrations.into_addresses().for_each(|address| self.registry.remove(&address));
        state.decoder.clear();
        state.queries = Default::default();
        (state.buffered, state.mail) = (0, 0);
        self.books.close(state.payer, session);
    }

    /// Checks whether a session may have one more subscription, in the place of `replaced` others.
    fn check(&self, session: SessionId, id: usize, destination: &str, replaced: usize) -> Result<(), Refused> {
        let limits = &self.settings.limits;
        let Some(state) = self.session(session) else { return Ok(()) };
        let held = &state.subscriptions;
        if id > MAX_SUBSCRIPTION_ID_BYTES {
            return Err(Refused::LongId);
        }
        if held.len() - replaced >= limits.subscriptions_per_session {
            return Err(Refused::Subscriptions);
        }
        if held.count_at(destination) - replaced >= limits.subscriptions_per_destination {
            return Err(Refused::Destination);
        }
        if pattern::is_pattern(destination) && held.pattern_count() >= limits.patterns_per_session {
            return Err(Refused::Patterns);
        }
        let bytes = subscriptions::bytes_of("", destination) + id;
        Ok(self.books.check(state.payer, session, bytes, 0, limits)?)
    }

    fn add(&mut self, session: SessionId, id: &str, destination: &str, is_implicit: bool) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let destination: Rc<str> = Rc::from(destination);
        state.subscriptions.add(id, &destination, is_implicit);
        self.topics.add(&destination, session);
        self.books.add(state.payer, session, holdings_of(id, &destination));
    }

    /// Gives the implicit subscription whose id an explicit one has taken another id.
    fn give_way(&mut self, session: SessionId, taken: &str) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Some(destination) = state.subscriptions.implicit_called(taken) else { return };
        let free = state.subscriptions.free_id();
        state.subscriptions.rename_implicit(&destination, &free);
        self.books.remove(state.payer, session, holdings_of(taken, &destination));
        self.books.add(state.payer, session, holdings_of(&free, &destination));
    }

    /// Brings index, registry and books in line with the end of a subscription.
    fn settle(&mut self, session: SessionId, ended: &Ended) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        self.books.remove(state.payer, session, holdings_of(&ended.id, &ended.destination));
        if state.subscriptions.count_at(&ended.destination) == 0 {
            self.topics.remove(&ended.destination, session);
        }
        if self.settings.register_on_subscribe
            && !ended.is_implicit
            && let Some(text) = topics::registering_address(&ended.destination)
            && let Some(address) = state.registrations.unsubscribed(text)
        {
            self.registry.remove(&address);
            self.books.remove(state.payer, session, Holdings { bytes: REGISTRATION_BYTES, patterns: 0 });
        }
    }

    /// Ends the largest sessions of those who hold most until no total is exceeded.
    fn make_room(&mut self, effects: &mut dyn Effects) {
        let Limits { total_bytes, patterns, .. } = self.settings.limits;
        loop {
            let hog = if self.books.total().bytes > total_bytes {
                self.books.hog(|held| held.bytes)
            } else if self.topics.pattern_count() > patterns {
                self.books.hog(|held| held.patterns)
            } else {
                return;
            };
            let Some(hog) = hog else { return };
            log::debug!("session {} is ended: it takes most of what has become scarce", hog.0);
            self.end(hog, HOG, effects);
        }
    }
}

fn holdings_of(id: &str, destination: &str) -> Holdings {
    Holdings {
        bytes: subscriptions::bytes_of(id, destination),
        patterns: usize::from(pattern::is_pattern(destination)),
    }
}
