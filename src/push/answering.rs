//! Answers to the queries of sessions, sent to the sessions that asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::content::Content;
use super::hub::Hub;
use super::publication::Audience;
use super::topics::ERRORS;
use super::turns::Turns;
use super::walk::{Means, Walk};
use super::{FactsError, Ownership, Query, SessionId};
use crate::model::{Height, Timestamp};
use crate::net::machine::Effects;
use crate::net::{ClientKey, SharedPool};

/// Maximum number of unconfirmed transactions in one answer.
const MAX_UNCONFIRMED_TOLD: usize = 10;
/// Work units for starting a query.
const QUERY_UNITS: u32 = 5;
/// Pause before a session with a full send queue is tried again.
const BACKLOG_PAUSE: Duration = Duration::from_millis(50);

/// Limits of paused answers: in total, per client, and in bytes together. An answer pauses when its session's send
/// queue is full or when other clients wait. Beyond the limits an answer runs to its end without pausing.
const MAX_PAUSED: usize = 256;
const MAX_PAUSED_OF_CALLER: usize = 8;
const MAX_PAUSED_BYTES: usize = 16 << 20;

/// Schedules the queries of all sessions. The queries themselves are stored in the sessions; one is answered at a time.
#[derive(Default)]
pub struct Answering {
    turns: Turns,
    /// The answer in progress, and its session.
    current: Option<(SessionId, Walk)>,
    /// Answers of which a part was sent.
    paused: BTreeMap<SessionId, (ClientKey, Walk)>,
    /// Sessions whose send queue is full, and when to try them again.
    held_back: BTreeSet<(ClientKey, SessionId)>,
    retry_at: Duration,
}

impl Answering {
    /// Adds a session that has a query or a paused answer.
    pub fn enter(&mut self, payer: ClientKey, session: SessionId) {
        if !self.held_back.contains(&(payer, session)) {
            self.turns.enter(payer, session);
        }
    }

    /// Removes a session and its answer.
    pub fn leave(&mut self, payer: ClientKey, session: SessionId) {
        self.turns.leave(payer, session);
        self.held_back.remove(&(payer, session));
        self.paused.remove(&session);
        if self.current.as_ref().is_some_and(|(current, _)| *current == session) {
            self.current = None;
        }
    }

    /// Handles a chain update that keeps blocks up to `common`. An answer about a replaced block restarts with the new
    /// last block.
    pub fn chain_changed(&mut self, common: Height, hub: &mut Hub) {
        let is_replaced = |walk: &Walk| walk.height().is_some_and(|height| height > common);
        let current = self.current.take_if(|(_, walk)| is_replaced(walk)).map(|(session, _)| session);
        let paused = self.paused.extract_if(.., |_, (_, walk)| is_replaced(walk)).map(|(session, _)| session);
        for session in paused.chain(current) {
            if let Some(state) = hub.session_mut(session) {
                state.queries.push_front(Query::LastBlock);
                self.turns.enter(state.payer, session);
            }
        }
    }

    /// Returns whether an answer can make progress now.
    pub fn has_work(&self) -> bool {
        self.current.is_some() || !self.turns.is_empty()
    }

    /// Returns when to try the sessions with a full send queue again.
    pub fn next_due(&self) -> Option<Duration> {
        (!self.held_back.is_empty()).then_some(self.retry_at)
    }

    /// Makes the sessions that had a full send queue wait for their turn again, if it is time.
    pub fn due(&mut self, now: Duration) {
        if now >= self.retry_at {
            for (payer, session) in std::mem::take(&mut self.held_back) {
                self.turns.enter(payer, session);
            }
        }
    }

    /// Answers queries until the budget is used up. The units are charged to the sessions that cause them.
    pub fn work(&mut self, means: &mut Means<'_>, budget: &mut u32) {
        while *budget > 0 {
            let before = *budget;
            let charged = match self.current.take() {
                Some((session, walk)) => {
                    self.go_on(session, walk, means, budget);
                    session
                }
                None => {
                    let Some((payer, session)) = self.turns.next() else { return };
                    *budget = budget.saturating_sub(QUERY_UNITS);
                    self.begin(payer, session, means);
                    session
                }
            };
            if let Some(state) = means.hub.session_mut(charged) {
                state.outlet.charge(before - *budget, means.effects);
            }
        }
    }

    /// Continues an answer, if its session still exists.
    fn go_on(&mut self, session: SessionId, mut walk: Walk, means: &mut Means<'_>, budget: &mut u32) {
        let Some(state) = means.hub.session(session) else { return };
        let payer = state.payer;
        if !walk.work(means, budget) {
            let Some(state) = means.hub.session(session) else { return };
            let is_full = state.outlet.backlog(means.effects) >= means.settings.limits.query_backlog_bytes;
            if !(is_full || self.turns.has_others(payer)) || !self.may_pause(payer, walk.held_bytes()) {
                self.current = Some((session, walk));
                return;
            }
            self.paused.insert(session, (payer, walk));
            match is_full {
                true => self.hold_back(payer, session, means.now),
                false => self.turns.enter(payer, session),
            }
        } else if let Some(failure) = walk.into_failure() {
            tell_failure(session, &failure, means);
        }
    }

    /// Returns whether the limits of paused answers allow one more.
    fn may_pause(&self, payer: ClientKey, bytes: usize) -> bool {
        let held: usize = self.paused.values().map(|(_, walk)| walk.held_bytes()).sum();
        let of_caller = self.paused.values().filter(|(other, _)| *other == payer).count();
        self.paused.len() < MAX_PAUSED && of_caller < MAX_PAUSED_OF_CALLER && held + bytes <= MAX_PAUSED_BYTES
    }

    fn hold_back(&mut self, payer: ClientKey, session: SessionId, now: Duration) {
        self.turns.leave(payer, session);
        if self.held_back.is_empty() {
            self.retry_at = now + BACKLOG_PAUSE;
        }
        self.held_back.insert((payer, session));
    }

    /// Resumes the paused answer of a session, or starts its next query.
    fn begin(&mut self, payer: ClientKey, session: SessionId, means: &mut Means<'_>) {
        let Some(state) = means.hub.session_mut(session) else { return self.turns.leave(payer, session) };
        if state.outlet.backlog(means.effects) >= means.settings.limits.query_backlog_bytes {
            return self.hold_back(payer, session, means.now);
        }
        let paused = self.paused.remove(&session).map(|(_, walk)| walk);
        let query = if paused.is_none() { state.queries.pop_front() } else { None };
        if state.queries.is_empty() {
            self.turns.leave(payer, session);
        }
        if let Some(walk) = paused {
            self.current = Some((session, walk));
            return;
        }
        if std::mem::take(&mut state.is_parked) {
            state.outlet.reader().into_iter().for_each(|connection| means.effects.resume(connection));
        }
        let Some(query) = query else { return };
        match walk_of(query, session, means) {
            Ok(walk) => self.current = Some((session, walk)),
            Err(failure) => tell_failure(session, &failure, means),
        }
    }
}

/// Creates the job that answers a query.
fn walk_of(query: Query, session: SessionId, means: &Means<'_>) -> Result<Walk, FactsError> {
    let audience = Audience::Only(session);
    match query {
        Query::Account(address) => Ok(Walk::account(address, audience)),
        Query::UnconfirmedTransfers(address) => {
            Ok(Walk::unconfirmed(means.facts.unconfirmed(&address, MAX_UNCONFIRMED_TOLD)?, audience))
        }
        Query::Transfers(address) => {
            let unconfirmed = means.facts.unconfirmed(&address, MAX_UNCONFIRMED_TOLD)?;
            Ok(Walk::transfers(address, unconfirmed, audience, means))
        }
        Query::Mosaics(address) => Ok(Walk::owned(Ownership::Mosaics, address, audience)),
        Query::MosaicDefinitions(address) => Ok(Walk::owned(Ownership::Definitions, address, audience)),
        Query::Namespaces(address) => Ok(Walk::owned(Ownership::Namespaces, address, audience)),
        Query::NodeInfo => Ok(Walk::node(audience, means)),
        Query::LastBlock => Ok(Walk::block(means.facts.height(), audience)),
    }
}

fn tell_failure(session: SessionId, failure: &FactsError, means: &mut Means<'_>) {
    tell_error(session, &failure.0, means.time, means.hub, means.pool, means.effects);
}

/// Sends an error message to a session on `/errors`, if it is subscribed to it.
pub fn tell_error(
    session: SessionId,
    message: &str,
    time: Timestamp,
    hub: &mut Hub,
    pool: &SharedPool,
    effects: &mut dyn Effects,
) {
    if hub.session(session).is_some_and(|state| state.subscriptions.matches(ERRORS)) {
        hub.deliver(session, ERRORS, &Content::error(message, time, pool), effects);
    }
}
