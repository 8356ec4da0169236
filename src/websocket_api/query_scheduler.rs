//! Answers to the queries of sessions, sent to the sessions that asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::content::Content;
use super::fanout::Recipients;
use super::publish_job::{PublishContext, PublishJob};
use super::round_robin::RoundRobin;
use super::session_table::SessionTable;
use super::topics::ERRORS;
use super::{ChainSourceError, OwnedKind, Query, SessionId};
use crate::model::{Height, Timestamp};
use crate::net::service::Effects;
use crate::net::{ClientKey, SharedBytesCounter};

/// Maximum number of unconfirmed transactions in one answer.
const MAX_UNCONFIRMED_IN_ANSWER: usize = 10;
/// Work units for starting a query.
const QUERY_UNITS: u32 = 5;
/// Pause before a session with a full send queue is tried again.
const BACKLOG_PAUSE: Duration = Duration::from_millis(50);

/// Limits of paused answers: in total, per client, and in bytes together. An answer pauses when its session's send
/// queue is full or when other clients wait. Beyond the limits an answer runs to its end without pausing.
const MAX_PAUSED: usize = 256;
const MAX_PAUSED_PER_CLIENT: usize = 8;
const MAX_PAUSED_BYTES: usize = 16 << 20;

/// Schedules the queries of all sessions. The queries themselves are stored in the sessions; one is answered at a time.
#[derive(Default)]
pub struct QueryScheduler {
    round_robin: RoundRobin,
    /// The answer in progress, and its session.
    current: Option<(SessionId, PublishJob)>,
    /// Answers of which a part was sent.
    paused: BTreeMap<SessionId, (ClientKey, PublishJob)>,
    /// Sessions whose send queue is full, and when to try them again.
    backlogged: BTreeSet<(ClientKey, SessionId)>,
    retry_at: Duration,
}

impl QueryScheduler {
    /// Adds a session that has a query or a paused answer.
    pub fn add(&mut self, client_key: ClientKey, session: SessionId) {
        if !self.backlogged.contains(&(client_key, session)) {
            self.round_robin.add(client_key, session);
        }
    }

    /// Removes a session and its answer.
    pub fn remove(&mut self, client_key: ClientKey, session: SessionId) {
        self.round_robin.remove(client_key, session);
        self.backlogged.remove(&(client_key, session));
        self.paused.remove(&session);
        if self.current.as_ref().is_some_and(|(current, _)| *current == session) {
            self.current = None;
        }
    }

    /// Handles a chain update that keeps blocks up to `common`. An answer about a replaced block restarts with the new
    /// last block.
    pub fn chain_changed(&mut self, common: Height, session_table: &mut SessionTable) {
        let is_replaced = |cursor: &PublishJob| cursor.height().is_some_and(|height| height > common);
        let current = self.current.take_if(|(_, cursor)| is_replaced(cursor)).map(|(session, _)| session);
        let paused = self.paused.extract_if(.., |_, (_, cursor)| is_replaced(cursor)).map(|(session, _)| session);
        for session in paused.chain(current) {
            if let Some(state) = session_table.session_mut(session) {
                state.queries.push_front(Query::LastBlock);
                self.round_robin.add(state.client, session);
            }
        }
    }

    /// Returns whether an answer can make progress now.
    pub fn has_work(&self) -> bool {
        self.current.is_some() || !self.round_robin.is_empty()
    }

    /// Returns when to try the sessions with a full send queue again.
    pub fn next_due(&self) -> Option<Duration> {
        (!self.backlogged.is_empty()).then_some(self.retry_at)
    }

    /// Makes the sessions that had a full send queue wait for their turn again, if it is time.
    pub fn on_timer(&mut self, now: Duration) {
        if now >= self.retry_at {
            for (client_key, session) in std::mem::take(&mut self.backlogged) {
                self.round_robin.add(client_key, session);
            }
        }
    }

    /// Answers queries until the budget is used up. The units are charged to the sessions that cause them.
    pub fn work(&mut self, context: &mut PublishContext<'_>, budget: &mut u32) {
        while *budget > 0 {
            let before = *budget;
            let session_charged = match self.current.take() {
                Some((session, cursor)) => {
                    self.continue_answer(session, cursor, context, budget);
                    session
                }
                None => {
                    let Some((client_key, session)) = self.round_robin.next() else { return };
                    *budget = budget.saturating_sub(QUERY_UNITS);
                    self.start_next(client_key, session, context);
                    session
                }
            };
            if let Some(state) = context.session_table.session_mut(session_charged) {
                state.transport.charge(before - *budget, context.effects);
            }
        }
    }

    /// Continues an answer, if its session still exists.
    fn continue_answer(
        &mut self,
        session: SessionId,
        mut job: PublishJob,
        context: &mut PublishContext<'_>,
        budget: &mut u32,
    ) {
        let Some(state) = context.session_table.session(session) else { return };
        let client_key = state.client;
        if !job.work(context, budget) {
            let Some(state) = context.session_table.session(session) else { return };
            let is_full = state.transport.backlog(context.effects) >= context.settings.limits.query_backlog_bytes;
            if !(is_full || self.round_robin.has_other_clients(client_key))
                || !self.may_pause(client_key, job.held_bytes())
            {
                self.current = Some((session, job));
                return;
            }
            self.paused.insert(session, (client_key, job));
            match is_full {
                true => self.set_backlogged(client_key, session, context.now),
                false => self.round_robin.add(client_key, session),
            }
        } else if let Some(failure) = job.into_failure() {
            send_failure(session, &failure, context);
        }
    }

    /// Returns whether the limits of paused answers allow one more.
    fn may_pause(&self, client_key: ClientKey, bytes: usize) -> bool {
        let held: usize = self.paused.values().map(|(_, cursor)| cursor.held_bytes()).sum();
        let of_client = self.paused.values().filter(|(other, _)| *other == client_key).count();
        self.paused.len() < MAX_PAUSED && of_client < MAX_PAUSED_PER_CLIENT && held + bytes <= MAX_PAUSED_BYTES
    }

    fn set_backlogged(&mut self, client_key: ClientKey, session: SessionId, now: Duration) {
        self.round_robin.remove(client_key, session);
        if self.backlogged.is_empty() {
            self.retry_at = now + BACKLOG_PAUSE;
        }
        self.backlogged.insert((client_key, session));
    }

    /// Resumes the paused answer of a session, or starts its next query.
    fn start_next(&mut self, client_key: ClientKey, session: SessionId, context: &mut PublishContext<'_>) {
        let Some(state) = context.session_table.session_mut(session) else {
            return self.round_robin.remove(client_key, session);
        };
        if state.transport.backlog(context.effects) >= context.settings.limits.query_backlog_bytes {
            return self.set_backlogged(client_key, session, context.now);
        }
        let paused = self.paused.remove(&session).map(|(_, cursor)| cursor);
        let query = if paused.is_none() { state.queries.pop_front() } else { None };
        if state.queries.is_empty() {
            self.round_robin.remove(client_key, session);
        }
        if let Some(job) = paused {
            self.current = Some((session, job));
            return;
        }
        if std::mem::take(&mut state.is_suspended) {
            state.transport.reading_connection().into_iter().for_each(|connection| context.effects.resume(connection));
        }
        let Some(query) = query else { return };
        match job_of(query, session, context) {
            Ok(cursor) => self.current = Some((session, cursor)),
            Err(failure) => send_failure(session, &failure, context),
        }
    }
}

/// Creates the job that answers a query.
fn job_of(query: Query, session: SessionId, context: &PublishContext<'_>) -> Result<PublishJob, ChainSourceError> {
    let recipients = Recipients::Only(session);
    match query {
        Query::Account(address) => Ok(PublishJob::account(address, recipients)),
        Query::UnconfirmedTransfers(address) => {
            Ok(PublishJob::unconfirmed(context.source.unconfirmed(&address, MAX_UNCONFIRMED_IN_ANSWER)?, recipients))
        }
        Query::Transfers(address) => {
            let unconfirmed = context.source.unconfirmed(&address, MAX_UNCONFIRMED_IN_ANSWER)?;
            Ok(PublishJob::transfers(address, unconfirmed, recipients, context))
        }
        Query::Mosaics(address) => Ok(PublishJob::owned(OwnedKind::Mosaics, address, recipients)),
        Query::MosaicDefinitions(address) => Ok(PublishJob::owned(OwnedKind::Definitions, address, recipients)),
        Query::Namespaces(address) => Ok(PublishJob::owned(OwnedKind::Namespaces, address, recipients)),
        Query::NodeInfo => Ok(PublishJob::node(recipients, context)),
        Query::LastBlock => Ok(PublishJob::block(context.source.height(), recipients)),
    }
}

fn send_failure(session: SessionId, error: &ChainSourceError, context: &mut PublishContext<'_>) {
    send_error(session, &error.0, context.time, context.session_table, context.pool, context.effects);
}

/// Sends an error message to a session on `/errors`, if it is subscribed to it.
pub fn send_error(
    session: SessionId,
    message: &str,
    time: Timestamp,
    session_table: &mut SessionTable,
    pool: &SharedBytesCounter,
    effects: &mut dyn Effects,
) {
    if session_table.session(session).is_some_and(|state| state.subscriptions.matches(ERRORS)) {
        session_table.deliver(session, ERRORS, &Content::error(message, time, pool), effects);
    }
}
