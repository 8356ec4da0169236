//! What waits to be published: news for all subscribers, and queries whose answers go to the sessions that asked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;

use super::content::Item;
use super::publish_job::{PublishContext, PublishJob};
use super::session::SessionId;
use super::session_table::SessionTable;
use crate::model::{Hash256, Height, Transaction};
use crate::net::ClientKey;

/// Number of queued transactions at which announcements have to wait.
const BACKPRESSURE_ARRIVALS: usize = 1_000;
/// Maximum number of queued transactions. Further ones, which only a reorg can bring, are not published.
const MAX_ARRIVALS: usize = 5_000;

/// Work units for starting a query.
const QUERY_UNITS: u32 = 5;
/// Pause before a session with a full send queue, or one that waits for the mempool, is tried again.
const BACKLOG_PAUSE: Duration = Duration::from_millis(50);
/// Limits of paused answers: in total, per client, and in bytes together. An answer pauses when its session's send
/// queue is full or when other clients wait. Beyond the limits an answer runs to its end without pausing.
const MAX_PAUSED: usize = 256;
const MAX_PAUSED_PER_CLIENT: usize = 8;
const MAX_PAUSED_BYTES: usize = 16 << 20;

/// The queue of news.
#[derive(Default)]
pub struct NewsQueue {
    /// The first and the last block to publish.
    blocks: Option<(Height, Height)>,
    /// The first block of each chain update in the queue; its height is published before it.
    first_blocks: BTreeSet<Height>,
    /// Unconfirmed transactions to publish, the oldest first.
    arrivals: VecDeque<Rc<Transaction>>,
    /// Transactions whose statuses are to be published, other than those of the blocks. Each had a subscriber.
    statuses: BTreeSet<Hash256>,
    /// How many of the unconfirmed transactions precede the blocks, among them those that the update made unconfirmed
    /// again. `None` until the blocks may be published.
    before_blocks: Option<usize>,
    /// The last item was a block, so that a waiting transaction comes next.
    last_was_block: bool,
    /// The job in progress.
    job: Option<PublishJob>,
    /// Transactions dropped since the queue was last below its limit.
    dropped: usize,
}

impl NewsQueue {
    /// Handles a chain update that keeps blocks up to `common` and ends at `last`. Replaced blocks in the queue are
    /// published in their new form only, even if they were partly published.
    pub fn chain_changed(&mut self, common: Height, last: Height) {
        self.job.take_if(|job| job.block.is_some_and(|height| height > common));
        let first = common.next();
        // Greater heights belong to replaced blocks.
        self.first_blocks.retain(|height| *height < first);
        self.first_blocks.insert(first);
        let first = self.blocks.map_or(first, |(waiting, _)| waiting.min(first));
        self.blocks = (first <= last).then_some((first, last));
        if self.blocks.is_none() {
            self.first_blocks.clear();
        }
        self.before_blocks = None;
    }

    /// Queues a transaction that has entered the mempool.
    pub fn on_transaction(&mut self, transaction: Rc<Transaction>) {
        if self.arrivals.len() < MAX_ARRIVALS {
            self.dropped = 0;
            self.arrivals.push_back(transaction);
            return;
        }
        if self.dropped == 0 {
            log::warn!("more than {MAX_ARRIVALS} unconfirmed transactions wait to be published; more are dropped");
        }
        self.dropped += 1;
    }

    /// Queues the status of a transaction that has a subscriber.
    pub fn on_status(&mut self, hash: Hash256) {
        self.statuses.insert(hash);
    }

    /// Returns whether so many transactions are queued that no more should be accepted for now.
    pub fn is_behind(&self) -> bool {
        self.arrivals.len() >= BACKPRESSURE_ARRIVALS
    }

    /// Returns whether there is anything to publish; blocks and statuses count only if the mempool is up to date with
    /// the chain.
    pub fn has_work(&self, is_mempool_current: bool) -> bool {
        let waits_for_mempool = self.blocks.is_some() || !self.statuses.is_empty();
        self.job.is_some() || !self.arrivals.is_empty() || (is_mempool_current && waits_for_mempool)
    }

    /// Publishes until the budget is used up. A block or a status starts only once the mempool is up to date with it.
    pub fn work(&mut self, context: &mut PublishContext<'_>) {
        while !context.budget.is_exhausted() {
            let Some(mut job) = self.job.take().or_else(|| self.next(context)) else { return };
            if !job.work(context) {
                self.job = Some(job);
            }
        }
    }

    /// Returns the next job.
    fn next(&mut self, context: &PublishContext<'_>) -> Option<PublishJob> {
        if context.table.topics.is_empty() {
            // There are no subscribers.
            self.arrivals.clear();
            self.statuses.clear();
            if context.is_mempool_current {
                self.blocks = None;
                self.first_blocks.clear();
            }
            return None;
        }
        if context.is_mempool_current
            && let Some(hash) = self.statuses.pop_first()
        {
            return Some(PublishJob::new(Item::Status(hash), None));
        }
        if context.is_mempool_current && self.blocks.is_some() {
            let before = *self.before_blocks.get_or_insert(self.arrivals.len());
            if before == 0 && (!self.last_was_block || self.arrivals.is_empty()) {
                return self.next_block();
            }
        }
        self.last_was_block = false;
        self.before_blocks = self.before_blocks.map(|before| before.saturating_sub(1));
        let transaction = self.arrivals.pop_front()?;
        Some(PublishJob::new(Item::Unconfirmed(transaction), None))
    }

    fn next_block(&mut self) -> Option<PublishJob> {
        let (height, last) = self.blocks?;
        self.blocks = (height < last).then_some((height.next(), last));
        self.last_was_block = true;
        let is_first = self.first_blocks.remove(&height);
        Some(PublishJob::new(if is_first { Item::Height(height) } else { Item::Block(height) }, None))
    }
}

/// Schedules the queries of all sessions. The queries themselves are stored in the sessions; one is answered at a time.
#[derive(Default)]
pub struct QueryQueue {
    round_robin: RoundRobin,
    /// Answers that were started.
    answers: BTreeMap<SessionId, (ClientKey, PublishJob)>,
    /// The session whose answer is in progress; all other answers are paused.
    current: Option<SessionId>,
    /// Sessions whose send queue is full, or whose query waits for the mempool, and when to try them again.
    backlogged: BTreeSet<(ClientKey, SessionId)>,
    retry_at: Duration,
}

impl QueryQueue {
    /// Adds a session that has a query or a paused answer.
    pub fn add(&mut self, client: ClientKey, session: SessionId) {
        if !self.backlogged.contains(&(client, session)) {
            self.round_robin.add(client, session);
        }
    }

    /// Removes a session and its answer.
    pub fn remove(&mut self, client: ClientKey, session: SessionId) {
        self.round_robin.remove(client, session);
        self.backlogged.remove(&(client, session));
        self.answers.remove(&session);
        self.current.take_if(|current| *current == session);
    }

    /// Handles a chain update that keeps blocks up to `common`. An answer about a replaced block restarts with the new
    /// last block.
    pub fn chain_changed(&mut self, common: Height, table: &mut SessionTable) {
        let is_replaced = |job: &PublishJob| job.block.is_some_and(|height| height > common);
        for (id, _) in self.answers.extract_if(.., |_, (_, job)| is_replaced(job)) {
            self.current.take_if(|current| *current == id);
            if let Some(session) = table.session_mut(id) {
                session.queries.push_front(Item::LastBlock);
                self.round_robin.add(session.client, id);
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

    /// Makes the sessions that had a full send queue or waited for the mempool wait for their turn again, if it is
    /// time.
    pub fn on_timer(&mut self, now: Duration) {
        if now >= self.retry_at {
            for (client, session) in std::mem::take(&mut self.backlogged) {
                self.round_robin.add(client, session);
            }
        }
    }

    /// Returns whether the limits of paused answers allow that the current one, of this client, also pauses.
    fn may_pause(&self, client: ClientKey) -> bool {
        let bytes: usize = self.answers.values().map(|(_, job)| job.held_bytes()).sum();
        let of_client = self.answers.values().filter(|(other, _)| *other == client).count();
        self.answers.len() <= MAX_PAUSED && of_client <= MAX_PAUSED_PER_CLIENT && bytes <= MAX_PAUSED_BYTES
    }

    fn set_backlogged(&mut self, client: ClientKey, session: SessionId, now: Duration) {
        self.round_robin.remove(client, session);
        if self.backlogged.is_empty() {
            self.retry_at = now + BACKLOG_PAUSE;
        }
        self.backlogged.insert((client, session));
    }

    /// Answers queries until the budget is used up. The units are charged to the sessions that cause them.
    pub fn work(&mut self, context: &mut PublishContext<'_>) {
        while !context.budget.is_exhausted() {
            let before = context.budget.left();
            let id = match self.current {
                Some(id) => {
                    self.continue_answer(id, context);
                    id
                }
                None => {
                    let Some((client, id)) = self.round_robin.next() else { return };
                    context.budget.charge(QUERY_UNITS);
                    self.start_answer(client, id, context);
                    id
                }
            };
            if let Some(session) = context.table.session_mut(id) {
                context.effects.charge(session.transport.socket, before - context.budget.left());
            }
        }
    }

    /// Continues the current answer, if its session still exists.
    fn continue_answer(&mut self, id: SessionId, context: &mut PublishContext<'_>) {
        let Some((client, job)) = self.answers.get_mut(&id).filter(|_| context.table.session(id).is_some()) else {
            return self.end_answer(id);
        };
        let client = *client;
        if job.work(context) {
            if let Some(error) = job.failure.take() {
                context.table.send_query_error(id, &error.0, context.effects);
            }
            return self.end_answer(id);
        }
        let Some(session) = context.table.session(id) else { return self.end_answer(id) };
        let is_full =
            context.effects.backlog(session.transport.socket) >= context.table.settings.limits.query_backlog_bytes;
        if (is_full || self.round_robin.has_other_clients(client)) && self.may_pause(client) {
            self.current = None;
            match is_full {
                true => self.set_backlogged(client, id, context.table.now.monotonic),
                false => self.round_robin.add(client, id),
            }
        }
    }

    fn end_answer(&mut self, id: SessionId) {
        self.answers.remove(&id);
        self.current = None;
    }

    /// Resumes the paused answer of a session, or starts its next query.
    fn start_answer(&mut self, client: ClientKey, id: SessionId, context: &mut PublishContext<'_>) {
        let (max_backlog, now) = (context.table.settings.limits.query_backlog_bytes, context.table.now.monotonic);
        let Some(session) = context.table.session_mut(id) else {
            return self.round_robin.remove(client, id);
        };
        let is_paused = self.answers.contains_key(&id);
        // A transaction of a replaced block may be on its way back into the mempool.
        let is_about_mempool = !is_paused && matches!(session.queries.front(), Some(Item::Status(_)));
        let waits_for_mempool = is_about_mempool && !context.is_mempool_current;
        if waits_for_mempool || context.effects.backlog(session.transport.socket) >= max_backlog {
            return self.set_backlogged(client, id, now);
        }
        if !is_paused && let Some(query) = session.queries.pop_front() {
            self.answers.insert(id, (client, PublishJob::new(query, Some(id))));
        }
        if !is_paused && std::mem::take(&mut session.is_suspended) {
            context.effects.resume(session.transport.socket);
        }
        if session.queries.is_empty() {
            self.round_robin.remove(client, id);
        }
        self.current = self.answers.contains_key(&id).then_some(id);
    }
}

/// The waiting sessions.
#[derive(Debug, Default)]
pub struct RoundRobin {
    waiting: BTreeMap<ClientKey, ClientQueue>,
    last: Option<ClientKey>,
}

/// The waiting sessions of one client.
#[derive(Debug, Default)]
struct ClientQueue {
    sessions: BTreeSet<SessionId>,
    last: Option<SessionId>,
}

impl RoundRobin {
    /// Adds a session; it waits at most once.
    pub fn add(&mut self, client: ClientKey, session: SessionId) {
        self.waiting.entry(client).or_default().sessions.insert(session);
    }

    /// Removes a session.
    pub fn remove(&mut self, client: ClientKey, session: SessionId) {
        if let Some(own) = self.waiting.get_mut(&client) {
            own.sessions.remove(&session);
            if own.sessions.is_empty() {
                self.waiting.remove(&client);
            }
        }
    }

    /// Returns the next session. It keeps waiting until it is removed.
    pub fn next(&mut self) -> Option<(ClientKey, SessionId)> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let following = self.waiting.range((after, Bound::Unbounded)).next().map(|(client, _)| *client);
        let client = following.or_else(|| self.waiting.keys().next().copied())?;
        self.last = Some(client);
        let own = self.waiting.get_mut(&client)?;
        let after = own.last.map_or(Bound::Unbounded, Bound::Excluded);
        let following = own.sessions.range((after, Bound::Unbounded)).next().copied();
        own.last = following.or_else(|| own.sessions.first().copied());
        own.last.map(|session| (client, session))
    }

    /// Returns whether sessions of other clients wait.
    pub fn has_other_clients(&self, client: ClientKey) -> bool {
        self.waiting.keys().any(|other| *other != client)
    }

    /// Returns whether no session waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket_api::testing::client;

    fn client_key(number: u8) -> ClientKey {
        ClientKey::of(&client(&format!("10.0.0.{number}")), 64)
    }

    #[test]
    fn clients_are_served_round_robin_regardless_of_their_sessions() {
        let mut waiting = RoundRobin::default();
        (1..=100).for_each(|id| waiting.add(client_key(1), SessionId(id)));
        waiting.add(client_key(2), SessionId(101));
        waiting.add(client_key(3), SessionId(102));
        let order: Vec<u64> = (0..9).filter_map(|_| waiting.next()).map(|(_, session)| session.0).collect();
        assert_eq!(order, [1, 101, 102, 2, 101, 102, 3, 101, 102]);
    }

    #[test]
    fn a_removed_session_is_not_served() {
        let mut waiting = RoundRobin::default();
        waiting.add(client_key(1), SessionId(1));
        waiting.add(client_key(1), SessionId(2));
        waiting.remove(client_key(1), SessionId(1));
        assert_eq!(
            (waiting.next(), waiting.next()),
            (Some((client_key(1), SessionId(2))), Some((client_key(1), SessionId(2))))
        );
        waiting.remove(client_key(1), SessionId(2));
        waiting.remove(client_key(1), SessionId(2));
        assert!(waiting.next().is_none() && waiting.is_empty());
    }
}
