//! All accepted connections without their input, and the effects a service has on them.

use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use slab::Slab;

use super::client_table::{ClientId, ClientTable, Priority, RateLimit, TokenBucket};
use super::connection::{Connection, Origin, RequestState};
use super::fetch::{FetchId, FetchRequest, Fetcher};
use super::http::HttpError;
use super::limits::Limits;
use super::listener_quota::{ListenerQuotas, QuotaEntry};
use super::metrics::{Counters, Metrics};
use super::server::Stats;
use super::service::{Client, ConnectionId, Dropped, Effects, ListenerId, LoopTime, Message};
use super::shared_bytes::SharedBytesCounter;
use super::socket::Socket;
use crate::ip::site;
use crate::metrics::subtract;

/// Units of work a websocket may cause per second, and in one burst: a tenth of the processor. Also applies to exempt
/// clients.
const SOCKET_WORK_PER_SECOND: i64 = 100_000;

/// A spare buffer larger than this is freed.
const MAX_SPARE_BYTES: usize = 256 * 1024;

/// Connections measured at a time for unacknowledged bytes.
const MAX_MEASUREMENTS: usize = 512;

/// Kernel memory that may be held for a client.
#[derive(Default)]
struct KernelUsage {
    bytes: usize,
    /// Bytes of each connection, whether they are an estimate, and its slot.
    connections: BinaryHeap<(usize, bool, usize)>,
}

/// The connections, their clients, and requests to other servers.
pub(super) struct Connections<S> {
    pub limits: Limits,
    pub clients: ClientTable,
    pub fetcher: Fetcher,
    pub slab: Slab<Connection<S>>,
    pub quotas: ListenerQuotas,
    /// Slots with output to flush.
    pub dirty: VecDeque<usize>,
    /// Ended websockets and closed connections with a request in progress, not reported to the service yet.
    pub disconnected: Vec<ConnectionId>,
    /// Throttled websockets, by the time at which they may continue.
    throttled: BTreeSet<(Duration, usize)>,
    pub shared_bytes: SharedBytesCounter,
    pub stats: Stats,
    pub counters: Counters,
    pub now: Instant,
    pub time: LoopTime,
    /// When the service wants its next turn.
    pub wake_at: Option<Duration>,
    /// Units charged in the current turn of a connection.
    pub spent: u32,
    /// Slot at which the next measurement begins.
    next_measured: usize,
    next_serial: u32,
    pub spare_output: Vec<u8>,
}

impl<S: Socket> Connections<S> {
    pub fn new(limits: Limits, fetcher: Fetcher, shared: SharedBytesCounter, now: Instant) -> Self {
        Self {
            clients: ClientTable::new(&limits),
            limits,
            fetcher,
            slab: Slab::new(),
            quotas: ListenerQuotas::default(),
            dirty: VecDeque::new(),
            disconnected: Vec::new(),
            throttled: BTreeSet::new(),
            shared_bytes: shared,
            stats: Stats::default(),
            counters: Counters::default(),
            now,
            time: LoopTime::default(),
            wake_at: None,
            spent: 0,
            next_measured: 0,
            next_serial: 1,
            spare_output: Vec::new(),
        }
    }

    /// Adds a connection and returns its slot.
    pub fn insert(&mut self, socket: S, listener: ListenerId, peer: IpAddr, client_id: ClientId) -> usize {
        let entry = self.slab.vacant_entry();
        let slot = entry.key();
        let id = ConnectionId::new(slot, self.next_serial);
        self.next_serial = self.next_serial.wrapping_add(1).max(1);
        let bucket = TokenBucket::new(SOCKET_WORK_PER_SECOND, self.time.monotonic);
        entry.insert(Connection::new(Origin { id, listener, peer, account: client_id }, socket, bucket, self.now));
        self.clients.connected(client_id, self.time.monotonic);
        slot
    }

    /// Removes a connection.
    pub fn remove(&mut self, slot: usize) -> Option<Connection<S>> {
        let mut connection = self.slab.try_remove(slot)?;
        add_traffic(&mut connection, &mut self.counters);
        connection.discard_unsent();
        connection.output.release(&mut self.spare_output);
        connection.quota_entry.into_iter().for_each(|place| self.quotas.remove(place));
        subtract(&mut self.stats.buffered_bytes, connection.counted_bytes);
        subtract(&mut self.stats.kernel_bytes, connection.counted_kernel_bytes);
        self.clients.disconnected(connection.account, connection.counted_bytes, self.time.monotonic);
        let was_websocket = std::mem::take(&mut connection.is_websocket);
        subtract(&mut self.stats.websockets, usize::from(was_websocket));
        if was_websocket || connection.request_state != RequestState::Idle {
            self.disconnected.push(connection.id);
        }
        Some(connection)
    }

    /// Counts a request and attributes the connection to its client: a proxy forwards requests of many.
    pub fn count_request(&mut self, slot: usize, client: &Client) -> RateLimit {
        self.set_client(slot, client);
        let Some(connection) = self.slab.get(slot) else { return RateLimit::Within };
        self.clients.count_request(connection.account, client.listener, self.time.monotonic)
    }

    /// Attributes a connection and its quota entry to a client.
    pub fn set_client(&mut self, slot: usize, client: &Client) {
        let now = self.time.monotonic;
        let Some(connection) = self.slab.get_mut(slot).filter(|connection| connection.client != *client) else {
            return;
        };
        connection.client = *client;
        let client_id = self.clients.client_id(client.address, client.is_forwarded, now);
        if connection.account != client_id {
            let held = connection.counted_bytes;
            self.clients.disconnected(connection.account, held, now);
            self.clients.connected(client_id, now);
            self.clients.update_held_bytes(client_id, 0, held);
            connection.account = client_id;
        }
        if let Some(place) = connection.quota_entry {
            let site = site(client.address);
            let moved = QuotaEntry { client: client_id, site, is_local: client.is_local(), ..place };
            self.quotas.remove(place);
            self.quotas.add(moved);
            connection.quota_entry = Some(moved);
            connection.needs_quota_check |= place.is_local && !moved.is_local;
        }
    }

    /// Removes and returns the quota entry of a connection that changed from local to remote. `None` if it did not, or
    /// is local again.
    pub fn take_relocated_entry(&mut self, slot: usize) -> Option<QuotaEntry> {
        let connection = self.slab.get_mut(slot)?;
        let has_moved = std::mem::take(&mut connection.needs_quota_check);
        let place = connection.quota_entry.take_if(|place| has_moved && !place.is_local)?;
        self.quotas.remove(place);
        Some(place)
    }

    /// Restores that entry.
    pub fn restore_entry(&mut self, place: QuotaEntry) {
        self.quotas.add(place);
        self.slab.get_mut(place.slot).into_iter().for_each(|connection| connection.quota_entry = Some(place));
    }

    /// Sends an error response and ends the connection.
    pub fn reject(&mut self, slot: usize, error: HttpError) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        if std::mem::replace(&mut connection.request_state, RequestState::Idle) != RequestState::Idle {
            self.disconnected.push(connection.id);
        }
        connection.reject(error);
        self.counters.count_rejection(error.status());
        self.mark_dirty(slot);
    }

    /// Updates the memory held by a connection, `input_bytes` of it by its input, and its traffic.
    pub fn update_held_bytes(&mut self, slot: usize, input_bytes: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        let held = input_bytes + connection.output.held_bytes();
        self.stats.buffered_bytes = self.stats.buffered_bytes.saturating_add(held);
        subtract(&mut self.stats.buffered_bytes, connection.counted_bytes);
        update_kernel_bytes(connection, &mut self.stats);
        self.clients.update_held_bytes(connection.account, connection.counted_bytes, held);
        connection.counted_bytes = held;
        add_traffic(connection, &mut self.counters);
    }

    /// Returns the connection to close because too much is buffered: the largest of the largest client if the total is
    /// exceeded, or else the largest of the client of `slot` if that exceeds its limit and is no proxy.
    pub fn largest_excess(&self, slot: usize, is_proxy: impl Fn(IpAddr) -> bool) -> Option<usize> {
        let own = self.slab.get(slot).filter(|own| self.clients.exceeds_held_bytes(own.account) && !is_proxy(own.peer));
        let largest_client = match own {
            _ if self.stats.buffered_bytes > self.limits.buffered_bytes => self.clients.largest()?,
            own => own?.account,
        };
        let candidates = self.slab.iter().filter(|(_, connection)| connection.account == largest_client);
        let largest = candidates.max_by_key(|(_, connection)| connection.counted_bytes);
        largest.filter(|(_, connection)| connection.counted_bytes > 0).map(|(slot, _)| slot)
    }

    /// Adds a connection to the quota of its listener.
    pub fn add_quota_entry(&mut self, slot: usize) {
        let seen = self.time.monotonic;
        if let Some(connection) = self.slab.get_mut(slot) {
            let Connection { listener, account: client, client: caller, .. } = *connection;
            let (is_local, site) = (caller.is_local(), site(caller.address));
            let place = QuotaEntry { listener, is_local, client, site, last_seen: seen, slot };
            connection.quota_entry = Some(place);
            self.quotas.add(place);
        }
    }

    /// Sets when the connection of a quota entry was last seen active.
    pub fn set_last_seen(&mut self, mut place: QuotaEntry, seen: Duration) {
        self.quotas.remove(place);
        place.last_seen = seen;
        self.quotas.add(place);
        self.slab.get_mut(place.slot).into_iter().for_each(|connection| connection.quota_entry = Some(place));
    }

    /// Measures the received bytes that were not read, for all connections.
    pub fn measure_unread(&mut self) {
        for (_, connection) in &mut self.slab {
            connection.measure_unread();
            update_kernel_bytes(connection, &mut self.stats);
        }
    }

    /// Measures unacknowledged bytes of some connections, round-robin: with `is_for_all` of any that may have some, or
    /// else of those written to since the last measurement. Returns whether all were measured.
    pub fn measure_unsent(&mut self, is_for_all: bool) -> bool {
        let (slots, mut measured) = (self.slab.capacity(), 0);
        for slot in (self.next_measured..slots).chain(0..self.next_measured.min(slots)) {
            let is_due = |connection: &&mut Connection<S>| match is_for_all {
                true => connection.has_unsent(),
                false => connection.is_unsent_estimated(),
            };
            let Some(connection) = self.slab.get_mut(slot).filter(is_due) else { continue };
            if measured == MAX_MEASUREMENTS {
                self.next_measured = slot;
                return false;
            }
            measured += 1;
            let is_draining = connection.is_draining();
            connection.measure_unsent();
            update_kernel_bytes(connection, &mut self.stats);
            if is_draining && !connection.has_unsent() {
                self.mark_dirty(slot);
            }
        }
        true
    }

    /// Returns the connections to close because the kernel holds too much: the largest of the largest clients, until a
    /// quarter is free. Each is measured first; at most `MAX_MEASUREMENTS` per call.
    pub fn kernel_evictions(&mut self) -> Vec<usize> {
        let mut by_caller: HashMap<ClientId, KernelUsage> = HashMap::new();
        for (slot, connection) in &mut self.slab {
            update_kernel_bytes(connection, &mut self.stats);
            let bytes = connection.kernel_bytes();
            if bytes > 0 {
                let held = by_caller.entry(connection.account).or_default();
                held.bytes += bytes;
                held.connections.push((bytes, true, slot));
            }
        }
        let mut clients: BinaryHeap<_> = by_caller.iter().map(|(account, held)| (held.bytes, *account)).collect();
        let (mut excess, mut looks, mut held) = (Vec::new(), 0, self.stats.kernel_bytes);
        while held > self.limits.kernel_bytes / 4 * 3
            && looks < MAX_MEASUREMENTS
            && let Some((sum, account)) = clients.pop()
            && let Some(KernelUsage { connections, .. }) = by_caller.get_mut(&account)
            && let Some((bytes, is_guess, slot)) = connections.pop()
            && let Some(connection) = self.slab.get_mut(slot)
        {
            let mut left = 0;
            if is_guess {
                looks += 1;
                connection.measure_unsent();
                connection.measure_unread();
                update_kernel_bytes(connection, &mut self.stats);
                left = connection.kernel_bytes();
                connections.push((left, false, slot));
            } else {
                excess.push(slot);
            }
            let change = |all: usize| all.saturating_sub(bytes).saturating_add(left);
            held = change(held);
            clients.push((change(sum), account));
        }
        excess
    }

    /// Drops the websocket with the most shared bytes pending if there are too many.
    pub fn limit_shared_bytes(&mut self) {
        if self.shared_bytes.held_bytes() <= self.limits.shared_bytes {
            return;
        }
        let waiting = self.slab.iter().filter(|(_, connection)| connection.is_open_websocket());
        let slowest = waiting.max_by_key(|(_, connection)| connection.output.shared_pending());
        let slowest = slowest.filter(|(_, connection)| connection.output.shared_pending() > 0).map(|(slot, _)| slot);
        if let Some(connection) = slowest.and_then(|slot| self.slab.get(slot)) {
            self.drop_slow(connection.id, "the memory for queued messages is exhausted");
        }
    }

    /// Closes a websocket whose client is too slow.
    pub fn drop_slow(&mut self, id: ConnectionId, why: &str) {
        let now = self.now;
        let Some(connection) = self.slab.get_mut(id.slot()) else { return };
        log::info!("{id:?}: dropped: {why}");
        connection.drop_slow_websocket(now);
        self.counters.dropped_websockets += 1;
        self.end_websocket(id);
    }

    /// Returns the lent output buffer of a connection.
    pub fn release_output(&mut self, slot: usize) {
        if let Some(connection) = self.slab.get_mut(slot) {
            connection.output.release(&mut self.spare_output);
            trim(&mut self.spare_output);
        }
    }

    /// Queues the end of a websocket to be reported, and its last output to be flushed.
    pub fn end_websocket(&mut self, id: ConnectionId) {
        let Some(connection) = self.slab.get_mut(id.slot()) else { return };
        if std::mem::take(&mut connection.is_websocket) {
            connection.request_state = RequestState::Idle;
            subtract(&mut self.stats.websockets, 1);
            self.disconnected.push(id);
        }
        self.mark_dirty(id.slot());
    }

    /// Queues a connection to be flushed.
    pub fn mark_dirty(&mut self, slot: usize) {
        if let Some(connection) = self.slab.get_mut(slot)
            && !connection.is_dirty
        {
            connection.is_dirty = true;
            self.dirty.push_back(slot);
        }
    }

    /// Queues a connection to be served.
    pub fn enqueue(&mut self, slot: usize, priority: Priority) {
        if let Some(connection) = self.slab.get_mut(slot)
            && !connection.is_ready
        {
            connection.is_ready = true;
            self.clients.enqueue(connection.account, slot, priority);
        }
    }

    /// Returns the next connection to serve. Websockets that exceed their work quota are throttled.
    pub fn next_ready(&mut self) -> Option<usize> {
        let now = self.time.monotonic;
        while let Some((due, slot)) = self.throttled.first().copied().filter(|(due, _)| *due <= now) {
            self.throttled.remove(&(due, slot));
            self.enqueue(slot, Priority::Continuation);
        }
        loop {
            let slot = self.clients.next(now)?;
            let Some(connection) = self.slab.get_mut(slot) else { continue };
            connection.is_ready = false;
            let regained = connection.bucket.refill_at(SOCKET_WORK_PER_SECOND);
            match regained.filter(|regained| connection.is_websocket && *regained > now) {
                Some(regained) => drop(self.throttled.insert((regained, slot))),
                None => return Some(slot),
            }
        }
    }

    /// Returns whether a connection is throttled, by its client's quota or by its own as a websocket.
    pub fn is_throttled(&self, slot: usize) -> bool {
        let now = self.time.monotonic;
        self.slab.get(slot).is_some_and(|connection| {
            let own = connection.bucket.refill_at(SOCKET_WORK_PER_SECOND).filter(|_| connection.is_websocket);
            own.is_some_and(|regained| regained > now) || self.clients.is_throttled(connection.account, now)
        })
    }

    /// Returns when the next throttled client or websocket may continue.
    pub fn next_refill(&self) -> Option<Duration> {
        let own = self.throttled.first().map(|(regained, _)| *regained);
        own.into_iter().chain(self.clients.next_refill()).min()
    }

    /// Returns the current metrics.
    pub fn stats(&self) -> Stats {
        Stats { connections: self.slab.len(), clients: self.clients.len(), ..self.stats }
    }

    /// Charges received input. Input from a proxy counts against the turn's budget only.
    pub fn charge_input(&mut self, id: ConnectionId, is_proxy: bool, units: u32) {
        match is_proxy {
            true => self.spent = self.spent.saturating_add(units),
            false => self.charge(id, units),
        }
    }

    fn open_websocket(&mut self, id: ConnectionId) -> Option<&mut Connection<S>> {
        let connection = self.slab.get_mut(id.slot())?;
        (connection.id == id && connection.is_open_websocket()).then_some(connection)
    }
}

impl<S: Socket> Effects for Connections<S> {
    fn send(&mut self, socket: ConnectionId, message: Message<'_>) -> Result<(), Dropped> {
        let (now, limit) = (self.now, self.limits.backlog_bytes);
        let connection = self.open_websocket(socket).ok_or(Dropped)?;
        let exceeds = |connection: &Connection<S>| {
            let pending = connection.output.pending();
            pending > 0 && pending.saturating_add(message.len()) > limit
        };
        // A socket error is handled when the connection is flushed again.
        if exceeds(connection) && (connection.flush(now).is_err() || exceeds(connection)) {
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
        let now = self.now;
        if let Some(connection) = self.open_websocket(socket) {
            connection.close_websocket(code, reason, now);
            self.end_websocket(socket);
        }
    }

    fn resume(&mut self, connection: ConnectionId) {
        let now = self.now;
        let suspended = self.slab.get_mut(connection.slot());
        if let Some(parked) = suspended.filter(|parked| parked.id == connection && parked.request_state.is_waiting()) {
            if parked.request_state == RequestState::Streaming {
                // The response timeout applies from here on.
                parked.request_since = Some(now);
            }
            parked.request_state = RequestState::Yielded;
            self.enqueue(connection.slot(), Priority::Continuation);
        }
    }

    fn charge(&mut self, connection: ConnectionId, units: u32) {
        let now = self.time.monotonic;
        self.spent = self.spent.saturating_add(units);
        let charged = self.slab.get_mut(connection.slot());
        if let Some(charged) = charged.filter(|charged| charged.id == connection) {
            charged.bucket.take(units, SOCKET_WORK_PER_SECOND, now);
            self.clients.charge(charged.account, units, now);
        }
    }

    fn fetch(&mut self, request: FetchRequest) -> FetchId {
        self.fetcher.start(request, self.now)
    }

    fn cancel(&mut self, fetch: FetchId) {
        self.fetcher.cancel(fetch, self.now);
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
            throttled_clients: self.clients.throttled_count(),
            longest_iteration: before.max(current),
        }
    }
}

/// Counts the traffic since the last count.
fn add_traffic<S>(connection: &mut Connection<S>, counts: &mut Counters) {
    counts.received_bytes += std::mem::take(&mut connection.received_bytes);
    counts.sent_bytes += std::mem::take(&mut connection.sent_bytes);
}

/// Updates the kernel memory of a connection in the total.
fn update_kernel_bytes<S: Socket>(connection: &mut Connection<S>, stats: &mut Stats) {
    let held = connection.kernel_bytes();
    let before = std::mem::replace(&mut connection.counted_kernel_bytes, held);
    stats.kernel_bytes = stats.kernel_bytes.saturating_add(held);
    subtract(&mut stats.kernel_bytes, before);
}

/// Frees a spare buffer that became unusually large.
pub(super) fn trim(spare: &mut Vec<u8>) {
    if spare.capacity() > MAX_SPARE_BYTES {
        *spare = Vec::new();
    }
}
