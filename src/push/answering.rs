//! Answers to what sessions ask for, told to those who asked.

use std::collections::BTreeSet;
use std::time::Duration;

use super::books::Payer;
use super::content::Content;
use super::hub::Hub;
use super::publication::Audience;
use super::topics::ERRORS;
use super::turns::Turns;
use super::walk::{Means, Walk};
use super::{FactsError, Query, SessionId};
use crate::model::{Height, Timestamp};
use crate::net::SharedPool;
use crate::net::machine::Effects;

/// Unconfirmed transactions that a session is told at its request.
const MAX_UNCONFIRMED_TOLD: usize = 10;
/// Units of work that it takes to begin with a query.
const QUERY_UNITS: u32 = 5;
/// Time until a session that had too much to take is looked at again.
const BACKLOG_PAUSE: Duration = Duration::from_millis(50);

/// The sessions that wait for answers. The queries themselves lie in the sessions; one is answered at a time.
#[derive(Default)]
pub struct Answering {
    turns: Turns,
    /// What is told just now, and to whom.
    current: Option<(SessionId, Walk)>,
    /// Sessions that have too much to take, and when to look at them again.
    held_back: BTreeSet<(Payer, SessionId)>,
    retry_at: Duration,
}

impl Answering {
    /// A session has asked for something.
    pub fn enter(&mut self, payer: Payer, session: SessionId) {
        if !self.held_back.contains(&(payer, session)) {
            self.turns.enter(payer, session);
        }
    }

    /// A session is gone.
    pub fn leave(&mut self, payer: Payer, session: SessionId) {
        self.turns.leave(payer, session);
        self.held_back.remove(&(payer, session));
        if self.current.as_ref().is_some_and(|(current, _)| *current == session) {
            self.current = None;
        }
    }

    /// The chain is the same only up to `common`: what is told of a block that has been replaced is told anew, of the one
    /// that is the last then.
    pub fn chain_changed(&mut self, common: Height, hub: &mut Hub) {
        let replaced = self.current.take_if(|(_, walk)| walk.height().is_some_and(|height| height > common));
        if let Some((session, _)) = replaced
            && let Some(state) = hub.session_mut(session)
        {
            state.queries.push_front(Query::LastBlock);
            self.turns.enter(state.payer, session);
        }
    }

    /// Whether there is anything to tell just now.
    pub fn has_work(&self) -> bool {
        self.current.is_some() || !self.turns.is_empty()
    }

    /// When there may be something to tell again that cannot be told now.
    pub fn next_due(&self) -> Option<Duration> {
        (!self.held_back.is_empty()).then_some(self.retry_at)
    }

    /// Has sessions wait for their turn again that had too much to take.
    pub fn due(&mut self, now: Duration) {
        if now >= self.retry_at {
            for (payer, session) in std::mem::take(&mut self.held_back) {
                self.turns.enter(payer, session);
            }
        }
    }

    /// Tells until the units in `budget` are used up, each of which is charged to the session it is used for.
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

    /// Goes on with an answer, if there is still somebody who waits for it.
    fn go_on(&mut self, session: SessionId, mut walk: Walk, means: &mut Means<'_>, budget: &mut u32) {
        if means.hub.session(session).is_none() {
            return;
        }
        if !walk.work(means, budget) {
            self.current = Some((session, walk));
        } else if let Some(failure) = walk.into_failure() {
            tell_failure(session, &failure, means);
        }
    }

    /// Takes up the next query of a session.
    fn begin(&mut self, payer: Payer, session: SessionId, means: &mut Means<'_>) {
        let Some(state) = means.hub.session_mut(session) else { return self.turns.leave(payer, session) };
        if state.outlet.backlog(means.effects) >= means.settings.limits.query_backlog_bytes {
            self.turns.leave(payer, session);
            if self.held_back.is_empty() {
                self.retry_at = means.now + BACKLOG_PAUSE;
            }
            self.held_back.insert((payer, session));
            return;
        }
        let query = state.queries.pop_front();
        if state.queries.is_empty() {
            self.turns.leave(payer, session);
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

/// The way through the answer to a query.
fn walk_of(query: Query, session: SessionId, means: &Means<'_>) -> Result<Walk, FactsError> {
    let audience = Audience::Only(session);
    match query {
        Query::Account(address) => Ok(Walk::account(address, audience)),
        Query::UnconfirmedTransfers(address) => {
            Ok(Walk::unconfirmed(means.facts.unconfirmed(&address, MAX_UNCONFIRMED_TOLD)?, audience))
        }
        Query::LastBlock => Ok(Walk::block(means.facts.height(), audience)),
        Query::Transfers(_)
        | Query::Mosaics(_)
        | Query::MosaicDefinitions(_)
        | Query::Namespaces(_)
        | Query::NodeInfo => Err(FactsError("this node does not answer this request yet".into())),
    }
}

fn tell_failure(session: SessionId, failure: &FactsError, means: &mut Means<'_>) {
    tell_error(session, &failure.0, means.time, means.hub, means.pool, means.effects);
}

/// Tells a session on `/errors` why what it asked for has failed.
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
