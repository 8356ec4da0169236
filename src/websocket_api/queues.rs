//! What waits to be published: news for all subscribers, and queries whose answers go to the sessions that asked.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::content::Item;
use super::publish_job::{PublishContext, PublishJob};
use super::session::SessionId;
use super::session_table::SessionTable;
use crate::model::{Hash256, Height, Transaction};

/// Number of queued transactions at which announcements have to wait.
const BACKPRESSURE_ARRIVALS: usize = 1_000;
/// Maximum number of queued transactions. Further ones, which only a reorg can bring, are not published.
const MAX_ARRIVALS: usize = 5_000;

/// Work units for a turn of a query.
const QUERY_UNITS: u32 = 5;
/// Pause before a session with a full send queue, or one that waits for the mempool, is tried again.
const BACKLOG_PAUSE: Duration = Duration::from_millis(50);

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
        while !context.node.budget.is_exhausted() {
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

/// Answers the queries of all sessions. Queries and unfinished answers are stored in the sessions; a quota of the session
/// table decides whose turn is next ([`SessionTable::places`]).
#[derive(Default)]
pub struct QueryQueue {
    /// Sessions whose send queue is full, or whose query waits for the mempool, and when to try them again.
    backlogged: BTreeSet<SessionId>,
    retry_at: Duration,
}

impl QueryQueue {
    /// Lets a session that has a query wait for its turn.
    pub fn add(&mut self, session: SessionId, table: &mut SessionTable) {
        if !self.backlogged.contains(&session) {
            table.places.wait(session, table.now.monotonic);
        }
    }

    /// Forgets a removed session.
    pub fn remove(&mut self, session: SessionId) {
        self.backlogged.remove(&session);
    }

    /// Returns when to try the sessions with a full send queue again.
    pub fn next_due(&self) -> Option<Duration> {
        (!self.backlogged.is_empty()).then_some(self.retry_at)
    }

    /// Makes the sessions that had a full send queue or waited for the mempool wait for their turn again, if it is
    /// time.
    pub fn on_timer(&mut self, table: &mut SessionTable) {
        let now = table.now.monotonic;
        if now >= self.retry_at {
            for session in std::mem::take(&mut self.backlogged) {
                table.places.wait(session, now);
            }
        }
    }

    /// Answers queries until the budget is used up. The units are charged to the clients that cause them.
    pub fn work(&mut self, context: &mut PublishContext<'_>) {
        let now = context.table.now.monotonic;
        while !context.node.budget.is_exhausted()
            && let Some((client, id)) = context.table.places.next(now)
        {
            let before = context.node.budget.left();
            context.node.budget.charge(QUERY_UNITS);
            let socket = context.table.session(id).map(|session| session.transport.socket);
            self.serve(id, context);
            let units = before - context.node.budget.left();
            context.table.places.charge(client, units, now);
            if let Some(socket) = socket {
                context.effects.charge(socket, units);
            }
        }
    }

    /// Continues the answer of a session, or starts that to its next query.
    fn serve(&mut self, id: SessionId, context: &mut PublishContext<'_>) {
        let (max_backlog, now) = (context.table.limits.query_backlog_bytes, context.table.now.monotonic);
        let Some(session) = context.table.session_mut(id) else { return };
        // A transaction of a replaced block may be on its way back into the mempool.
        let is_about_mempool = session.answer.is_none() && matches!(session.queries.front(), Some(Item::Status(_)));
        let waits_for_mempool = is_about_mempool && !context.is_mempool_current;
        if waits_for_mempool || context.effects.backlog(session.transport.socket) >= max_backlog {
            if self.backlogged.is_empty() {
                self.retry_at = now + BACKLOG_PAUSE;
            }
            self.backlogged.insert(id);
            return;
        }
        if session.answer.is_none() {
            session.answer = session.queries.pop_front().map(|query| PublishJob::new(query, Some(id)));
            if std::mem::take(&mut session.is_suspended) {
                context.effects.resume(session.transport.socket);
            }
        }
        let Some(mut job) = session.answer.take() else { return };
        let is_done = job.work(context);
        if let Some(error) = job.failure.take_if(|_| is_done) {
            context.table.send_query_error(id, error.message(), context.effects);
        }
        let Some(session) = context.table.session_mut(id) else { return };
        session.answer = (!is_done).then_some(job);
        if !is_done || !session.queries.is_empty() {
            context.table.places.wait(id, now);
        }
        context.table.update_memory(id, context.effects);
    }
}
