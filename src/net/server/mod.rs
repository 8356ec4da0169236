//! The server without sockets and clocks: connections, their clients and quotas, handed time and readiness.
//!
//! | part | contents |
//! |---|---|
//! | this file | admission, timeouts, the effects of a service |
//! | `turn` | one turn of a connection: reads, handles requests and messages, writes |
//! | `connection` | one connection: socket, input, output and its timeouts |
//! | `client_table` | places and turns of connections, usage and rate limits of their clients |
//! | `eviction` | what happens when connections, buffers or kernel memory are short |

mod client_table;
mod connection;
mod eviction;
mod turn;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use slab::Slab;

pub use eviction::MAX_REJECTED_CONNECTIONS;

use self::client_table::{ClientTable, TokenBucket};
use self::connection::{CLOSE_CODE_TOO_SLOW, Closing, Connection, Input, PendingResponse, Protocol, Timeout};
use super::Limits;
use super::fetch::{FetchId, FetchRequest, Fetcher};
use super::http::{Gzip, HttpError, Response};
use super::metrics::{Counters, Metrics, Stats};
use super::service::{Client, ConnectionId, Dropped, Effects, Event, LoopTime, Message, Progress, Service};
use super::socket::{Readiness, SharedBytesCounter, Socket};
use crate::quota::Owner;

/// Size of the shared read buffer.
const READ_BYTES: usize = 64 * 1024;

/// Units of work a websocket may cause per second, and in one burst: a tenth of the processor. Also applies to exempt
/// clients.
const SOCKET_WORK_PER_SECOND: i64 = 100_000;

/// Reads the monotonic time, as in [`LoopTime::monotonic`].
pub type Clock = Box<dyn Fn() -> Duration>;

/// Connections, their clients, and requests to other servers.
pub struct Server<S> {
    pub fetcher: Fetcher,
    pub(super) counters: Counters,
    pub(super) limits: Limits,
    clients: ClientTable,
    slab: Slab<Connection<S>>,
    /// Slots with output to flush.
    pub(super) dirty: VecDeque<usize>,
    /// Ended websockets and closed connections with a request in progress, not reported to the service yet.
    disconnected: Vec<ConnectionId>,
    /// Rejected connections, the oldest first; some may be gone.
    rejected: VecDeque<ConnectionId>,
    /// Slots whose read interest must be registered again.
    unmuted: Vec<usize>,
    /// Counts shared bytes for [`Limits::shared_bytes`].
    pub shared_bytes: SharedBytesCounter,
    stats: Stats,
    /// The current time, which whoever has the server sets.
    pub time: LoopTime,
    /// For the durations of responses.
    clock: Clock,
    /// When the service wants its next turn.
    pub(super) wake_at: Option<Duration>,
    is_draining: bool,
    /// The connection whose turn it is, the units spent in this turn, and those not charged to its owner yet.
    current: Option<ConnectionId>,
    spent: u32,
    uncharged: u32,
    /// Until when the time of the turn is charged: its end, once it has ended.
    pub(super) counted_until: Duration,
    /// Slot at which the next measurement begins.
    next_measured: usize,
    next_serial: u32,
    /// A response that is not in use, and the body of one, for their memory.
    spare_response: Option<Box<PendingResponse>>,
    spare_body: Vec<u8>,
    gzip: Gzip,
    read_buffer: Box<[u8]>,
    spare_input: Vec<u8>,
    spare_output: Vec<u8>,
}

impl<S: Socket> Server<S> {
    /// Returns a server without connections. `fetcher` makes requests to other servers.
    pub fn new(limits: Limits, fetcher: Fetcher, clock: Clock) -> Self {
        Self {
            fetcher,
            counters: Counters::default(),
            clients: ClientTable::default(),
            limits,
            slab: Slab::new(),
            dirty: VecDeque::new(),
            disconnected: Vec::new(),
            rejected: VecDeque::new(),
            unmuted: Vec::new(),
            shared_bytes: SharedBytesCounter::default(),
            stats: Stats::default(),
            time: LoopTime::default(),
            clock,
            wake_at: None,
            is_draining: false,
            current: None,
            spent: 0,
            uncharged: 0,
            counted_until: Duration::ZERO,
            next_measured: 0,
            next_serial: 1,
            spare_response: None,
            spare_body: Vec::new(),
            gzip: Gzip::default(),
            read_buffer: vec![0; READ_BYTES].into_boxed_slice(),
            spare_input: Vec::new(),
            spare_output: Vec::new(),
        }
    }

    /// Returns the current metrics.
    pub fn stats(&self) -> Stats {
        Stats {
            connections: self.slab.len(),
            clients: self.clients.usage.len(),
            buffered_bytes: self.clients.buffers.total(),
            ..self.stats
        }
    }

    /// Admits a connection, evicting another if needed, or rejects it with a 503. Returns its slot, or `None` if it was
    /// reset: its client has exceeded its work quota or is banned.
    pub fn admit(&mut self, mut socket: S, peer: Client) -> Option<usize> {
        let (owner, now) = (Owner::at(peer.address), self.time.monotonic);
        // A proxy has connections of many clients. One on this machine may be a proxy, trusted or not, or the operator.
        let is_loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()].contains(&peer.address);
        let is_this_machine = peer.is_on_this_machine || is_loopback;
        let is_proxy = self.limits.trusted_proxies.contains(peer.address);
        let is_shared = is_this_machine || is_proxy;
        let is_within_quota =
            is_proxy || self.clients.charge_connection(owner, now) && !self.clients.is_banned(owner, now);
        if !is_within_quota && !is_shared {
            // A reset leaves no state in the kernel.
            socket.discard_unsent();
            self.stats.reset += 1;
            return None;
        }
        let is_admitted = is_shared || self.clients.places.held_by_client(owner) < self.limits.connections_per_client;
        let entry = self.slab.vacant_entry();
        let slot = entry.key();
        let id = ConnectionId::new(slot, self.next_serial);
        self.next_serial = self.next_serial.wrapping_add(1).max(1);
        let bucket = TokenBucket::new(SOCKET_WORK_PER_SECOND, now);
        let connection = entry.insert(Connection::new(id, peer, owner, socket, bucket, now));
        connection.has_place = is_admitted;
        self.clients.places.hold(slot, owner, usize::from(is_admitted), now);
        if is_admitted {
            self.stats.accepted += 1;
            if self.clients.places.total() > self.limits.connections {
                self.evict_connection();
            }
        } else {
            self.note_rejected(id);
            self.send_rejection(slot, HttpError::overloaded("too many connections of this client; close some"));
        }
        Some(slot)
    }

    /// Attributes a connection to a client: a proxy forwards requests of many. Returns whether it had another owner. The turn
    /// so far counts for the new one, as it has read the head of its request: a proxy has used nothing, and its connections
    /// come first until they have said whose they are.
    fn set_client(&mut self, slot: usize, client: Client) -> bool {
        let (owner, now) = (Owner::of(&client), self.time.monotonic);
        let Some(connection) = self.slab.get_mut(slot) else { return false };
        connection.client = client;
        if std::mem::replace(&mut connection.owner, owner) == owner {
            return false;
        }
        let (place, seen, held) = (connection.has_place, connection.last_seen, connection.counted_bytes);
        self.clients.places.hold(slot, owner, usize::from(place), seen);
        self.clients.buffers.hold(slot, owner, held, now);
        true
    }

    /// Attributes a connection between two requests to its proxy, if it has one.
    fn return_to_proxy(&mut self, slot: usize) {
        let Some(connection) = self.slab.get(slot).filter(|connection| !connection.is_attributed) else { return };
        let peer = connection.peer;
        if self.limits.trusted_proxies.contains(peer.address) {
            self.set_client(slot, peer);
        }
    }

    /// Returns the microseconds of the turn so far, and begins to count again.
    fn time_of_turn(&mut self) -> u32 {
        let begun = std::mem::replace(&mut self.counted_until, (self.clock)());
        u32::try_from(self.counted_until.saturating_sub(begun).as_micros()).unwrap_or(u32::MAX)
    }

    /// Charges units to a connection and its owner: to the owner's turns `took` microseconds, if that is more.
    fn charge_owner(&mut self, slot: usize, units: u32, took: u32) {
        let now = self.time.monotonic;
        let Some(connection) = self.slab.get_mut(slot) else { return };
        connection.bucket.take(units, SOCKET_WORK_PER_SECOND, now);
        self.clients.charge(connection.owner, units, took, now);
    }

    /// Returns the socket of a connection.
    pub fn socket(&mut self, slot: usize) -> Option<&mut S> {
        self.slab.get_mut(slot).map(|connection| &mut connection.socket)
    }

    /// Sets the readiness of a connection. An event of an earlier connection in this slot is harmless: the socket
    /// reports `WouldBlock`.
    pub fn set_readiness(&mut self, slot: usize, ready: Readiness) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        if connection.set_readiness(ready) {
            self.enqueue(slot);
        }
    }

    /// Queues a connection to be served.
    fn enqueue(&mut self, slot: usize) {
        if let Some(connection) = self.slab.get_mut(slot)
            && !std::mem::replace(&mut connection.is_queued, true)
        {
            self.clients.places.wait(slot, self.time.monotonic);
        }
    }

    /// Marks a throttled connection as muted: it is served when its client is no longer throttled, so its read interest
    /// can be removed. Returns its socket, or `None` if the connection is not throttled, not queued or muted already.
    pub fn mute(&mut self, slot: usize) -> Option<&mut S> {
        let now = self.time.monotonic;
        let connection = self.slab.get_mut(slot).filter(|connection| connection.is_queued)?;
        let own = connection.bucket.refill_at(SOCKET_WORK_PER_SECOND).filter(|_| connection.is_websocket);
        let is_throttled = own.is_some_and(|at| at > now) || self.clients.is_throttled(connection.owner, now);
        (is_throttled && !std::mem::replace(&mut connection.is_muted, true)).then_some(&mut connection.socket)
    }

    /// Returns the next connection that is served again and needs its read interest back.
    pub fn unmute(&mut self) -> Option<(usize, &mut S)> {
        let slot = std::iter::from_fn(|| self.unmuted.pop()).find(|slot| self.slab.contains(*slot))?;
        Some((slot, &mut self.slab.get_mut(slot)?.socket))
    }

    /// Flushes the output of one connection. Returns whether there was one.
    pub fn flush_next(&mut self) -> bool {
        let Some(slot) = self.dirty.pop_front() else { return false };
        if let Some(connection) = self.slab.get_mut(slot) {
            connection.is_dirty = false;
            let result = connection.flush(self.time.monotonic, &mut self.counters.sent_bytes);
            if result.is_err() || connection.is_finished() {
                self.remove(slot);
            } else {
                self.update_usage(slot);
            }
        }
        true
    }

    /// Queues a connection to be flushed.
    fn mark_dirty(&mut self, slot: usize) {
        if let Some(connection) = self.slab.get_mut(slot)
            && !std::mem::replace(&mut connection.is_dirty, true)
        {
            self.dirty.push_back(slot);
        }
    }

    /// Returns whether there is work that needs no event.
    pub fn has_work(&self) -> bool {
        self.clients.places.has_waiting() || !self.dirty.is_empty() || !self.disconnected.is_empty()
    }

    /// Gives the service its turn.
    pub fn tick(&mut self, service: &mut impl Service, budget: u32, last_tick: Duration) {
        self.wake_at = None;
        service.handle(Event::Tick { budget, last_tick }, self.time, self);
        self.limit_shared_bytes();
    }

    /// Returns when the next throttled connection may continue (monotonic).
    pub fn next_refill(&self) -> Option<Duration> {
        self.clients.throttled.first().map(|(refill_at, _)| *refill_at)
    }

    /// Closes websockets with code 1001, ends streaming requests, closes idle connections at once and all others after their
    /// next response.
    pub fn shutdown(&mut self) {
        self.is_draining = true;
        let slots: Vec<usize> = self.slab.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let Some(connection) = self.slab.get_mut(slot).filter(|connection| connection.closing == Closing::Open)
            else {
                continue;
            };
            let protocol = connection.input.as_ref().map(|input| &input.protocol);
            if connection.is_websocket {
                let id = connection.id;
                self.close(id, 1001, "");
            } else if connection.progress == Progress::Streaming {
                let end = connection.without_answer();
                self.handle_timeout(slot, end);
            } else if matches!(protocol, Some(Protocol::Http(reader)) if !reader.is_partial()) {
                connection.closing = Closing::AfterOutput;
                self.mark_dirty(slot);
            }
        }
    }

    /// Sends an error response and ends the connection. In the middle of a response the connection is cut instead,
    /// which the client notices.
    fn reject(&mut self, slot: usize, error: HttpError) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        if let Some(input) = &mut connection.input {
            if input.pending.as_ref().is_some_and(|pending| pending.has_begun) {
                return self.remove(slot);
            }
            *input = Input::new();
        }
        self.send_rejection(slot, error);
    }

    /// Sends an error response and ends the connection, whose input is dropped already.
    fn send_rejection(&mut self, slot: usize, error: HttpError) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        if std::mem::replace(&mut connection.progress, Progress::Done) != Progress::Done {
            self.disconnected.push(connection.id);
        }
        log::debug!("{:?}: rejected: {error}", connection.id);
        Response::write_rejection(error, connection.output.queue());
        connection.closing = Closing::Linger;
        self.counters.count_rejection(error.status);
        self.mark_dirty(slot);
    }

    /// Handles all timeouts.
    pub fn sweep(&mut self) {
        for (_, slot) in &self.clients.throttled {
            if let Some(connection) = self.slab.get_mut(*slot).filter(|connection| !connection.is_websocket) {
                connection.last_active = self.time.monotonic;
            }
        }
        let due = |(slot, connection): (usize, &Connection<S>)| {
            Some((slot, connection.expired_timeout(self.time.monotonic, &self.limits)?))
        };
        let due: Vec<(usize, Timeout)> = self.slab.iter().filter_map(due).collect();
        self.clients.remove_inactive(self.time.monotonic);
        self.limit_shared_bytes();
        for (slot, timeout) in due {
            self.handle_timeout(slot, timeout);
        }
        self.measure_unsent(true);
        self.measure_unread();
        self.evict_kernel_excess();
    }

    fn handle_timeout(&mut self, slot: usize, timeout: Timeout) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        let id = connection.id;
        match timeout {
            Timeout::Drop => {
                self.counters.silent_websockets += u64::from(connection.is_open_websocket());
                self.remove(slot);
            }
            Timeout::Ping => {
                connection.ping(self.time.monotonic);
                self.mark_dirty(slot);
            }
            Timeout::Reject(error) => self.reject(slot, error),
            Timeout::IdleWebSocket => {
                let limit = self.limits.websocket_idle.as_millis();
                let reason = format!("Idle timeout expired: {limit}/{limit} ms");
                self.close(id, 1001, &reason);
            }
            Timeout::SlowConsumer => self.drop_slow(id, "a message has waited too long"),
        }
    }

    /// Closes a websocket whose client is too slow, dropping messages whose sending has not begun.
    fn drop_slow(&mut self, id: ConnectionId, why: &str) {
        let Some(connection) = self.slab.get_mut(id.slot()) else { return };
        log::info!("{id:?}: dropped: {why}");
        connection.output.drop_unsent();
        connection.close_websocket(CLOSE_CODE_TOO_SLOW, "", self.time.monotonic);
        self.counters.dropped_websockets += 1;
        self.end_websocket(id);
    }

    /// Queues the end of a websocket to be reported, and its last output to be flushed.
    fn end_websocket(&mut self, id: ConnectionId) {
        let Some(connection) = self.slab.get_mut(id.slot()) else { return };
        if std::mem::take(&mut connection.is_websocket) {
            connection.progress = Progress::Done;
            self.stats.websockets = self.stats.websockets.saturating_sub(1);
            self.disconnected.push(id);
        }
        self.mark_dirty(id.slot());
    }

    /// Delivers the disconnects to the service.
    pub fn report_disconnects(&mut self, service: &mut impl Service) {
        while let Some(connection) = self.disconnected.pop() {
            service.handle(Event::Disconnected { connection }, self.time, self);
        }
    }

    /// Delivers the outcomes of requests to other servers to the service.
    pub(super) fn report_fetches(&mut self, service: &mut impl Service) {
        while let Some((fetch, result)) = self.fetcher.next_completed() {
            service.handle(Event::FetchCompleted { fetch, result }, self.time, self);
        }
    }

    /// Removes a connection.
    pub fn remove(&mut self, slot: usize) {
        let Some(mut connection) = self.slab.try_remove(slot) else { return };
        connection.discard_unsent();
        connection.output.release(&mut self.spare_output);
        if let Some(input) = &mut connection.input {
            input.release(&mut self.spare_input);
        }
        self.stats.kernel_bytes = self.stats.kernel_bytes.saturating_sub(connection.counted_kernel_bytes);
        self.stats.websockets = self.stats.websockets.saturating_sub(usize::from(connection.is_websocket));
        self.clients.remove(slot, self.time.monotonic);
        if connection.is_websocket || connection.progress != Progress::Done {
            self.disconnected.push(connection.id);
        }
    }

    fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection<S>> {
        self.slab.get_mut(id.slot()).filter(|connection| connection.id == id)
    }
}

impl<S: Socket> Effects for Server<S> {
    fn send(&mut self, socket: ConnectionId, message: Message<'_>) -> Result<(), Dropped> {
        let (now, limit) = (self.time.monotonic, self.limits.backlog_bytes);
        let connection = self.slab.get_mut(socket.slot()).filter(|connection| connection.id == socket);
        let connection = connection.filter(|connection| connection.is_open_websocket()).ok_or(Dropped)?;
        let exceeds = |connection: &Connection<S>| {
            let pending = connection.output.pending();
            pending > 0 && pending.saturating_add(message.bytes()) > limit
        };
        // A socket error is handled when the connection is flushed again.
        if exceeds(connection) && (connection.flush(now, &mut self.counters.sent_bytes).is_err() || exceeds(connection))
        {
            self.drop_slow(socket, "its client does not receive its messages");
            return Err(Dropped);
        }
        connection.queue_text(message, now);
        self.mark_dirty(socket.slot());
        Ok(())
    }

    fn backlog(&self, socket: ConnectionId) -> usize {
        let connection = self.slab.get(socket.slot()).filter(|connection| connection.id == socket);
        connection.map_or(0, |connection| connection.output.pending())
    }

    fn close(&mut self, socket: ConnectionId, code: u16, reason: &str) {
        let now = self.time.monotonic;
        if let Some(connection) = self.connection(socket).filter(|connection| connection.is_open_websocket()) {
            connection.close_websocket(code, reason, now);
            self.end_websocket(socket);
        }
    }

    fn resume(&mut self, connection: ConnectionId) {
        let now = self.time.monotonic;
        if let Some(suspended) = self.connection(connection).filter(|connection| connection.is_suspended()) {
            if !suspended.is_websocket {
                // The response timeout applies from here on.
                suspended.last_active = now;
            }
            if suspended.progress == Progress::Streaming {
                // The time for which a client waits by design is no time of its response.
                suspended.request_since = Some(now);
            }
            suspended.progress = Progress::Yield;
            self.enqueue(connection.slot());
        }
    }

    fn charge(&mut self, connection: ConnectionId, units: u32) {
        self.spent = self.spent.saturating_add(units);
        if self.current == Some(connection) {
            self.uncharged = self.uncharged.saturating_add(units);
        } else if self.connection(connection).is_some() {
            self.charge_owner(connection.slot(), units, 0);
        }
    }

    fn fetch(&mut self, id: FetchId, request: FetchRequest) {
        self.fetcher.start(id, request, self.time.monotonic)
    }

    fn cancel(&mut self, fetch: FetchId) {
        self.fetcher.cancel(fetch);
    }

    fn wake_at(&mut self, monotonic: Duration) {
        self.wake_at = Some(self.wake_at.map_or(monotonic, |at| at.min(monotonic)));
    }

    fn metrics(&self) -> Metrics {
        let now = self.time.monotonic;
        let [before, current] = self.counters.longest_iteration.last_two(now).0;
        Metrics {
            stats: self.stats(),
            counters: self.counters.clone(),
            fetch: self.fetcher.stats(),
            top_clients: self.clients.top_clients(now),
            throttled_clients: self.clients.throttled.len(),
            longest_iteration: before.max(current),
        }
    }
}
