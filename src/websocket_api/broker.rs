//! The broker: entry points for events of sessions and of the chain; and what waits to be published: news for all
//! subscribers, and queries whose answers go to the sessions that asked.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::content::Item;
use super::publish_job::{PublishContext, PublishJob};
use super::session_table::{QueryReading, SessionId, SessionTable, TOO_MANY_SESSIONS};
use super::{Limits, sockjs};
use crate::api::{ApiError, NodeContext};
use crate::model::{Hash256, Height, NetworkByte, Transaction};
use crate::net::SharedBytesCounter;
use crate::net::service::{Client, ConnectionId, Effects, Message, Progress};
use crate::peer::io::Now;
use crate::quota::Owner;

/// Bytes of a SockJS message parsed per work unit.
const PAYLOAD_BYTES_PER_UNIT: usize = 50;
/// Close code for a binary message where only text is allowed.
const CANNOT_ACCEPT: u16 = 1003;

/// Number of queued transactions at which announcements have to wait.
const BACKPRESSURE_ARRIVALS: usize = 1_000;
/// Maximum number of queued transactions. Further ones, which only a reorg can bring, are not published.
const MAX_ARRIVALS: usize = 5_000;

/// Bytes waiting to be sent to a session at which none of its queries is started, and its answer pauses.
const QUERY_BACKLOG_BYTES: usize = 64 * 1024;
/// Work units for a turn of a query.
const QUERY_UNITS: u32 = 5;
/// Pause before a session with a full send queue, or one that waits for the mempool, is tried again.
const BACKLOG_PAUSE: Duration = Duration::from_millis(50);

/// The node's broker.
///
/// The frames of a session are handled in the order of arrival, and its messages are sent in the order of publication.
/// An answer to a query goes only to the session that asked, through its subscriptions to the topic of the answer. News
/// is published to all subscribers, once, when it happens.
pub struct Broker {
    /// The sessions.
    pub table: SessionTable,
    /// The network.
    pub(super) network: NetworkByte,
    /// What waits for all subscribers.
    pub news: NewsQueue,
    pub(super) queries: QueryQueue,
    /// Whether queries wait until what they need was read from the disk.
    pub reads_ahead: bool,
    /// The connection that is about to become a websocket, and its session's name if it uses SockJS.
    pub(super) upgrading: Option<(ConnectionId, Option<String>)>,
}

impl Broker {
    /// Creates a broker without sessions.
    pub fn new(limits: Limits, network: NetworkByte, pool: SharedBytesCounter) -> Self {
        let (table, news, queries) = (SessionTable::new(limits, pool), NewsQueue::default(), QueryQueue::default());
        Self { table, network, news, queries, reads_ahead: false, upgrading: None }
    }

    /// Opens a session on a new websocket. Closes the websocket with 1013 if no session is available.
    pub fn open_websocket(&mut self, socket: ConnectionId, client: &Client, now: Duration, effects: &mut dyn Effects) {
        self.on_disconnect(socket, now);
        let name = self.upgrading.take().filter(|(upgraded, _)| *upgraded == socket).and_then(|(_, name)| name);
        if self.table.open(socket, name.as_deref(), client, effects).is_none() {
            effects.close(socket, TOO_MANY_SESSIONS.0, TOO_MANY_SESSIONS.1);
        } else if name.is_some() {
            // A closed websocket is reported later.
            let _ = effects.send(socket, Message::of(sockjs::OPEN));
        }
    }

    /// Handles a message from a websocket. Messages for unknown or ended sessions are ignored.
    pub fn on_message(
        &mut self,
        socket: ConnectionId,
        message: &[u8],
        is_text: bool,
        now: Now,
        effects: &mut dyn Effects,
    ) -> Progress {
        self.table.now = now;
        let Some(id) = self.table.session_of(socket) else { return Progress::Done };
        let is_sockjs = self.table.sessions.get(&id).is_some_and(|session| session.is_sockjs);
        if is_sockjs && !is_text {
            self.table.close(id, (CANNOT_ACCEPT, "Binary messages not supported"), true, effects);
            return Progress::Done;
        }
        if message.is_empty() {
            return Progress::Done;
        }
        let mut stream = Cow::Borrowed(message);
        if is_sockjs {
            effects.charge(socket, u32::try_from(message.len() / PAYLOAD_BYTES_PER_UNIT).unwrap_or(u32::MAX));
            match sockjs::read_message(message) {
                Ok(joined) => stream = Cow::Owned(joined),
                Err(code) => {
                    self.table.close(id, (code, ""), code == sockjs::SERVER_ERROR, effects);
                    return Progress::Done;
                }
            }
        }
        let Some(session) = self.table.sessions.get_mut(&id) else { return Progress::Done };
        session.decoder.feed(&stream);
        if session.silent_since.take().is_some() {
            self.table.schedule(id);
        }
        self.table.record_message(id);
        self.handle_frames(id, effects)
    }

    /// Continues a message that [`on_message`](Self::on_message) left unfinished.
    pub fn on_resumed(&mut self, socket: ConnectionId, now: Now, effects: &mut dyn Effects) -> Progress {
        self.table.now = now;
        self.table.session_of(socket).map_or(Progress::Done, |id| self.handle_frames(id, effects))
    }

    /// Handles a closed connection, whichever side closed it. Unknown connections are ignored.
    pub fn on_disconnect(&mut self, connection: ConnectionId, now: Duration) {
        self.table.now.monotonic = now;
        if let Some(id) = self.table.on_disconnect(connection) {
            self.queries.backlogged.remove(&id);
        }
    }

    /// Runs the due timers: closes sessions that have not sent a first message in time, and sends heartbeats.
    pub fn on_timer(&mut self, now: Duration, effects: &mut dyn Effects) {
        self.table.now.monotonic = now;
        self.table.on_timer(effects);
        self.queries.on_timer(&mut self.table);
    }

    /// Returns when [`on_timer`](Self::on_timer) must be called next, unless another event comes first.
    pub fn next_due(&self) -> Option<Duration> {
        let retry = (!self.queries.backlogged.is_empty()).then_some(self.queries.retry_at);
        retry.into_iter().chain(self.table.next_due()).min()
    }

    /// Handles a chain update, visible and durable, that keeps blocks up to `common` and ends at `last`. The new blocks
    /// are published, each once.
    pub fn chain_changed(&mut self, common: Height, last: Height) {
        self.news.chain_changed(common, last);
        self.table.chain_changed(common);
    }

    /// Publishes what became of a transaction, as its entry into the mempool or its exit has changed it. Those of new
    /// blocks are published with them.
    pub fn status_changed(&mut self, hash: &Hash256) {
        if self.table.topics.has_status_of(hash) {
            self.news.statuses.insert(*hash);
        }
    }

    /// Returns whether [`work`](Self::work) has anything to do.
    pub fn has_work(&self, is_mempool_current: bool) -> bool {
        self.news.has_work(is_mempool_current) || self.table.places.has_waiting()
    }

    /// Publishes news and answers queries with the budget of the node's context; each of the two is guaranteed half of it.
    /// Blocks and statuses are published only if `is_mempool_current`, that is, once the mempool is up to date with the
    /// chain: an account's data shows what waits in the mempool, and transactions that a reorg returned to the mempool are
    /// published before the blocks that replace theirs.
    pub fn work(&mut self, is_mempool_current: bool, node: NodeContext<'_>, effects: &mut dyn Effects) {
        self.table.now = node.now;
        let units = node.budget.left();
        let (table, reads_ahead) = (&mut self.table, self.reads_ahead);
        let mut context = PublishContext { table, node, effects, is_mempool_current, reads_ahead };
        context.node.budget = context.node.budget.part(units / 2);
        self.queries.work(&mut context);
        context.node.budget = context.node.budget.part(context.node.budget.left() + units.div_ceil(2));
        self.news.work(&mut context);
        self.queries.work(&mut context);
    }

    /// Takes the queries for which something is to be read from the disk: the socket and its client, and the request of the
    /// HTTP interface that reads the same. [`end_reading`](Self::end_reading) lets each go on.
    pub fn take_reads(&mut self) -> Vec<(ConnectionId, Owner, String)> {
        std::mem::take(&mut self.queries.reads)
    }

    /// Lets the query of a session go on for which something was read, or rejects it for a reason.
    pub fn end_reading(&mut self, id: SessionId, rejection: Option<&ApiError>, now: Now, effects: &mut dyn Effects) {
        self.table.now = now;
        let Some(session) = self.table.sessions.get_mut(&id) else { return };
        if session.reading == QueryReading::Awaited {
            session.reading = QueryReading::Done;
            if let Some(error) = rejection {
                session.reading = QueryReading::No;
                session.queries.pop_front();
                self.table.send_query_error(id, &error.message, effects);
                self.table.update_memory(id, effects);
            }
            self.queries.add(id, &mut self.table);
        }
    }
}

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

    /// Queues a transaction that has entered the mempool, to be published.
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
    /// What is to be read from the disk for queries that wait for it.
    reads: Vec<(ConnectionId, Owner, String)>,
}

impl QueryQueue {
    /// Lets a session that has a query wait for its turn.
    pub fn add(&mut self, session: SessionId, table: &mut SessionTable) {
        if !self.backlogged.contains(&session) {
            table.places.wait(session, table.now.monotonic);
        }
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
            let before = context.node.budget.used();
            context.node.budget.charge(QUERY_UNITS);
            let socket = context.table.sessions.get(&id).map(|session| session.socket);
            self.serve(id, context);
            let units = context.node.budget.used() - before;
            context.table.places.charge(client, units, now);
            if let Some(socket) = socket {
                context.effects.charge(socket, units);
            }
        }
    }

    /// Continues the answer of a session, or starts that to its next query.
    fn serve(&mut self, id: SessionId, context: &mut PublishContext<'_>) {
        let (reads_ahead, now) = (context.reads_ahead, context.table.now.monotonic);
        let Some(session) = context.table.sessions.get_mut(&id) else { return };
        // A transaction of a replaced block may be on its way back into the mempool.
        let is_about_mempool = session.answer.is_none() && matches!(session.queries.front(), Some(Item::Status(_)));
        let waits_for_mempool = is_about_mempool && !context.is_mempool_current;
        if waits_for_mempool || context.effects.backlog(session.socket) >= QUERY_BACKLOG_BYTES {
            if self.backlogged.is_empty() {
                self.retry_at = now + BACKLOG_PAUSE;
            }
            self.backlogged.insert(id);
            return;
        }
        if reads_ahead
            && session.answer.is_none()
            && session.reading != QueryReading::Done
            && let Some(request) = session.queries.front().and_then(Item::request)
        {
            if session.reading == QueryReading::No {
                session.reading = QueryReading::Awaited;
                self.reads.push((session.socket, session.client, request));
            }
            return;
        }
        if session.answer.is_none() {
            session.reading = QueryReading::No;
            session.answer = session.queries.pop_front().map(|query| PublishJob::new(query, Some(id)));
            if std::mem::take(&mut session.is_suspended) {
                context.effects.resume(session.socket);
            }
        }
        let Some(mut job) = session.answer.take() else { return };
        let is_done = job.work(context);
        if let Some(error) = job.failure.take_if(|_| is_done) {
            context.table.send_query_error(id, &error.message, context.effects);
        }
        let Some(session) = context.table.sessions.get_mut(&id) else { return };
        session.answer = (!is_done).then_some(job);
        if !is_done || !session.queries.is_empty() {
            context.table.places.wait(id, now);
        }
        context.table.update_memory(id, context.effects);
    }
}

#[cfg(test)]
mod tests;
