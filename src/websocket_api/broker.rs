//! The broker: entry points for events of sessions and of the chain.

use std::rc::Rc;
use std::time::Duration;

use super::publish_job::PublishContext;
use super::queues::{NewsQueue, QueryQueue};
use super::session::{SessionId, SessionTransport};
use super::session_table::{SessionTable, TOO_MANY_SESSIONS};
use super::{Counts, Limits, sockjs};
use crate::api::NodeContext;
use crate::budget::Budget;
use crate::model::{Hash256, Height, NetworkByte, Transaction};
use crate::net::SharedBytesCounter;
use crate::net::service::{Client, ConnectionId, Effects, Message, Progress};
use crate::peer::io::Now;

/// Bytes of a SockJS message parsed per work unit.
const PAYLOAD_BYTES_PER_UNIT: usize = 50;
/// Close code for a binary message where only text is allowed.
const CANNOT_ACCEPT: u16 = 1003;
/// Close code for a malformed message.
const BAD_DATA: u16 = 1007;
/// Close code for a message whose first string is null; NIS1 fails on it.
const SERVER_ERROR: u16 = 1011;

/// The node's broker.
///
/// The frames of a session are handled in the order of arrival, and its messages are sent in the order of publication.
/// An answer to a query goes only to the session that asked, through its subscriptions to the topic of the answer. News
/// is published to all subscribers, once, when it happens.
pub struct Broker {
    pub(super) table: SessionTable,
    news: NewsQueue,
    pub(super) queries: QueryQueue,
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

impl Broker {
    /// Creates a broker without sessions.
    pub fn new(limits: Limits, network: NetworkByte, pool: SharedBytesCounter) -> Self {
        let table = SessionTable::new(limits, network, pool);
        Self { table, news: NewsQueue::default(), queries: QueryQueue::default(), upgrading: None }
    }

    /// Applies new limits. Existing sessions keep what they hold.
    pub fn reload(&mut self, limits: Limits) {
        self.table.limits = limits;
    }

    /// Opens a session on a new websocket. Closes the websocket with 1013 if no session is available.
    pub fn open_websocket(&mut self, socket: ConnectionId, client: &Client, now: Duration, effects: &mut dyn Effects) {
        self.on_disconnect(socket, now);
        let name = self.upgrading.take().filter(|(upgraded, _)| *upgraded == socket).and_then(|(_, name)| name);
        let transport = SessionTransport::new(socket, name.is_some(), now);
        if self.table.open(transport, name.as_deref(), client, effects).is_none() {
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
        let Some(session) = self.table.session(id) else { return Progress::Done };
        if !session.transport.is_sockjs {
            if message.is_empty() {
                return Progress::Done;
            }
            self.feed(id, message);
            return self.handle_frames(id, effects);
        }
        if !is_text {
            self.table.close(id, (CANNOT_ACCEPT, "Binary messages not supported"), true, effects);
            return Progress::Done;
        }
        effects.charge(socket, u32::try_from(message.len() / PAYLOAD_BYTES_PER_UNIT).unwrap_or(u32::MAX));
        match sockjs::read_message(message) {
            Ok(stream) => {
                self.feed(id, &stream);
                return self.handle_frames(id, effects);
            }
            Err(sockjs::PayloadError::Empty) => {}
            Err(sockjs::PayloadError::Null) => self.table.close(id, (SERVER_ERROR, ""), true, effects),
            Err(sockjs::PayloadError::Broken) => self.table.close(id, (BAD_DATA, ""), false, effects),
        }
        Progress::Done
    }

    /// Feeds received bytes into a session's decoder.
    fn feed(&mut self, id: SessionId, stream: &[u8]) {
        let Some(session) = self.table.session_mut(id) else { return };
        session.decoder.feed(stream);
        if session.silent_since.take().is_some() {
            self.table.schedule(id);
        }
        self.table.record_message(id);
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
            self.queries.remove(id);
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
        self.queries.next_due().into_iter().chain(self.table.next_due()).min()
    }

    /// Handles a chain update, visible and durable, that keeps blocks up to `common` and ends at `last`. The new blocks
    /// are published, each once.
    pub fn chain_changed(&mut self, common: Height, last: Height) {
        self.news.chain_changed(common, last);
        self.table.chain_changed(common);
    }

    /// Publishes a transaction that has entered the mempool.
    pub fn on_transaction(&mut self, transaction: Rc<Transaction>) {
        self.news.on_transaction(transaction);
    }

    /// Publishes what became of a transaction, as its entry into the mempool or its exit has changed it. Those of new
    /// blocks are published with them.
    pub fn status_changed(&mut self, hash: &Hash256) {
        if self.table.topics.has_status_of(hash) {
            self.news.on_status(*hash);
        }
    }

    /// Returns whether so many unconfirmed transactions wait to be published that no more should be accepted.
    pub fn is_behind(&self) -> bool {
        self.news.is_behind()
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
        let mut context = PublishContext { table: &mut self.table, node, effects, is_mempool_current };
        context.node.budget = Budget::new(units / 2);
        self.queries.work(&mut context);
        context.node.budget = Budget::new(context.node.budget.left() + units.div_ceil(2));
        self.news.work(&mut context);
        self.queries.work(&mut context);
    }

    /// Returns the broker's usage.
    pub fn usage(&self) -> BrokerUsage {
        BrokerUsage {
            sessions: self.table.session_count(),
            topics: self.table.topics.len(),
            addresses: self.table.registered.len(),
            patterns: self.table.topics.pattern_count(),
            session_bytes: self.table.memory.total(),
            message_bytes: self.table.pool.held_bytes(),
        }
    }

    /// Returns the broker's counters.
    pub fn counts(&self) -> Counts {
        self.table.counts
    }
}
