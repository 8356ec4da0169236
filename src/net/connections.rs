//! All accepted connections without their input, and the effects a service has on them.

use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use slab::Slab;

use super::callers::{AccountId, Callers, Credit, Rate, Task};
use super::connection::{Connection, Origin, Work};
use super::fetch::{Fetch, FetchId, Fetcher};
use super::figures::{Counts, Figures};
use super::http::HttpError;
use super::limits::Limits;
use super::machine::{Caller, ConnectionId, Dropped, Effects, ListenerId, Message, Moment};
use super::places::{ListenerQuotas, Place};
use super::server::Stats;
use super::shared::SharedPool;
use super::socket::Socket;
use crate::figures::take_off;
use crate::ip::site;

/// Units of work a websocket may cause per second, and in one burst: a tenth of the processor. Also applies to exempt
/// clients.
const SOCKET_WORK_PER_SECOND: i64 = 100_000;

/// A spare buffer larger than this is freed.
const SPARE_BYTES: usize = 256 * 1024;

/// Connections measured at a time for unacknowledged bytes.
const LOOKS_AT_ONCE: usize = 512;

/// Kernel memory that may be held for a client.
#[derive(Default)]
struct HeldFor {
    bytes: usize,
    /// Bytes of each connection, whether they are an estimate, and its slot.
    connections: BinaryHeap<(usize, bool, usize)>,
}

/// The connections, their clients, and requests to other servers.
pub(super) struct Connections<S> {
    pub limits: Limits,
    pub callers: Callers,
    pub fetcher: Fetcher,
    pub slab: Slab<Connection<S>>,
    pub quotas: ListenerQuotas,
    /// Slots with output to flush.
    pub dirty: VecDeque<usize>,
    /// Ended websockets and closed connections with a request in progress, not reported to the service yet.
    pub gone: Vec<ConnectionId>,
    /// Throttled websockets, by the time at which they may continue.
    resting: BTreeSet<(Duration, usize)>,
    pub shared: SharedPool,
    pub stats: Stats,
    pub counts: Counts,
    pub now: Instant,
    pub moment: Moment,
    /// When the service wants its next turn.
    pub wake_at: Option<Duration>,
    /// Units charged in the current turn of a connection.
    pub spent: u32,
    /// Slot at which the next measurement begins.
    looked_at: usize,
    next_serial: u32,
    pub spare_output: Vec<u8>,
}

impl<S: Socket> Connections<S> {
    pub fn new(limits: Limits, fetcher: Fetcher, shared: SharedPool, now: Instant) -> Self {
        Self {
            callers: Callers::new(&limits),
            limits,
            fetcher,
            slab: Slab::new(),
            quotas: ListenerQuotas::default(),
            dirty: VecDeque::new(),
            gone: Vec::new(),
            resting: BTreeSet::new(),
            shared,
            stats: Stats::default(),
            counts: Counts::default(),
            now,
            moment: Moment::default(),
            wake_at: None,
            spent: 0,
            looked_at: 0,
            next_serial: 1,
            spare_output: Vec::new(),
        }
    }

    /// Adds a connection and returns its slot.
    pub fn insert(&mut self, socket: S, listener: ListenerId, peer: IpAddr, account: AccountId) -> usize {
        let entry = self.slab.vacant_entry();
        let slot = entry.key();
        let id = ConnectionId::new(slot, self.next_serial);
        self.next_serial = self.next_serial.wrapping_add(1).max(1);
        let credit = Credit::new(SOCKET_WORK_PER_SECOND, self.moment.running);
        entry.insert(Connection::new(Origin { id, listener, peer, account }, socket, credit, self.now));
        self.callers.connected(account, self.moment.running);
        slot
    }

    /// Removes a connection.
    pub fn remove(&mut self, slot: usize) -> Option<Connection<S>> {
        let mut connection = self.slab.try_remove(slot)?;
        count_traffic(&mut connection, &mut self.counts);
        connection.discard_unsent();
        connection.output.give_back(&mut self.spare_output);
        connection.place.into_iter().for_each(|place| self.quotas.remove(place));
        take_off(&mut self.stats.buffered_bytes, connection.counted_bytes);
        take_off(&mut self.stats.kernel_bytes, connection.counted_kernel_bytes);
        self.callers.disconnected(connection.account, connection.counted_bytes, self.moment.running);
        let is_left = std::mem::take(&mut connection.is_websocket);
        take_off(&mut self.stats.websockets, usize::from(is_left));
        if is_left || connection.work != Work::None {
            self.gone.push(connection.id);
        }
        Some(connection)
    }

    /// Counts a request and attributes the connection to its client: a proxy forwards requests of many.
    pub fn note_request(&mut self, slot: usize, caller: &Caller) -> Rate {
        self.set_caller(slot, caller);
        let Some(connection) = self.slab.get(slot) else { return Rate::Within };
        self.callers.note_request(connection.account, caller.listener, self.moment.running)
    }

    /// Attributes a connection and its quota entry to a client.
    pub fn set_caller(&mut self, slot: usize, caller: &Caller) {
        let now = self.moment.running;
        let Some(connection) = self.slab.get_mut(slot).filter(|connection| connection.caller != *caller) else {
            return;
        };
        connection.caller = *caller;
        let account = self.callers.account(caller.address, caller.is_forwarded, now);
        if connection.account != account {
            let held = connection.counted_bytes;
            self.callers.disconnected(connection.account, held, now);
            self.callers.connected(account, now);
            self.callers.hold(account, 0, held);
            connection.account = account;
        }
        if let Some(place) = connection.place {
            let site = site(caller.address);
            let moved = Place { client: account, site, is_local: caller.is_local(), ..place };
            self.quotas.remove(place);
            self.quotas.add(moved);
            connection.place = Some(moved);
            connection.has_moved |= place.is_local && !moved.is_local;
        }
    }

    /// Removes and returns the quota entry of a connection that changed from local to remote. `None` if it did not, or
    /// is local again.
    pub fn take_moved(&mut self, slot: usize) -> Option<Place> {
        let connection = self.slab.get_mut(slot)?;
        let has_moved = std::mem::take(&mut connection.has_moved);
        let place = connection.place.take_if(|place| has_moved && !place.is_local)?;
        self.quotas.remove(place);
        Some(place)
    }

    /// Restores that entry.
    pub fn put_back(&mut self, place: Place) {
        self.quotas.add(place);
        self.slab.get_mut(place.slot).into_iter().for_each(|connection| connection.place = Some(place));
    }

    /// Sends an error response and ends the connection.
    pub fn refuse(&mut self, slot: usize, error: HttpError) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        if std::mem::replace(&mut connection.work, Work::None) != Work::None {
            self.gone.push(connection.id);
        }
        connection.refuse(error);
        self.counts.refused(error.status());
        self.touch(slot);
    }

    /// Updates the memory held by a connection, `input_bytes` of it by its input, and its traffic.
    pub fn count(&mut self, slot: usize, input_bytes: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        let held = input_bytes + connection.output.held_bytes();
        self.stats.buffered_bytes = self.stats.buffered_bytes.saturating_add(held);
        take_off(&mut self.stats.buffered_bytes, connection.counted_bytes);
        count_kernel(connection, &mut self.stats);
        self.callers.hold(connection.account, connection.counted_bytes, held);
        connection.counted_bytes = held;
        count_traffic(connection, &mut self.counts);
    }

    /// Returns the connection to close because too much is buffered: the largest of the largest client if the total is
    /// exceeded, or else the largest of the client of `slot` if that exceeds its limit and is no proxy.
    pub fn excess(&self, slot: usize, is_proxy: impl Fn(IpAddr) -> bool) -> Option<usize> {
        let own = self.slab.get(slot).filter(|own| self.callers.holds_too_much(own.account) && !is_proxy(own.peer));
        let hog = match own {
            _ if self.stats.buffered_bytes > self.limits.buffered_bytes => self.callers.hog()?,
            own => own?.account,
        };
        let of_hog = self.slab.iter().filter(|(_, connection)| connection.account == hog);
        let largest = of_hog.max_by_key(|(_, connection)| connection.counted_bytes);
        largest.filter(|(_, connection)| connection.counted_bytes > 0).map(|(slot, _)| slot)
    }

    /// Adds a connection to the quota of its listener.
    pub fn place(&mut self, slot: usize) {
        let seen = self.moment.running;
        if let Some(connection) = self.slab.get_mut(slot) {
            let Connection { listener, account: client, caller, .. } = *connection;
            let (is_local, site) = (caller.is_local(), site(caller.address));
            let place = Place { listener, is_local, client, site, seen, slot };
            connection.place = Some(place);
            self.quotas.add(place);
        }
    }

    /// Sets when the connection of a quota entry was last seen active.
    pub fn seen(&mut self, mut place: Place, seen: Duration) {
        self.quotas.remove(place);
        place.seen = seen;
        self.quotas.add(place);
        self.slab.get_mut(place.slot).into_iter().for_each(|connection| connection.place = Some(place));
    }

    /// Measures the received bytes that were not read, for all connections.
    pub fn count_unread(&mut self) {
        for (_, connection) in &mut self.slab {
            connection.look_at_unread();
            count_kernel(connection, &mut self.stats);
        }
    }

    /// Measures unacknowledged bytes of some connections, round-robin: with `is_of_all` of any that may have some, or
    /// else of those written to since the last measurement. Returns whether all were measured.
    pub fn look_at_unsent(&mut self, is_of_all: bool) -> bool {
        let (slots, mut looks) = (self.slab.capacity(), 0);
        for slot in (self.looked_at..slots).chain(0..self.looked_at.min(slots)) {
            let is_due = |connection: &&mut Connection<S>| match is_of_all {
                true => connection.has_unsent(),
                false => connection.is_unsent_guessed(),
            };
            let Some(connection) = self.slab.get_mut(slot).filter(is_due) else { continue };
            if looks == LOOKS_AT_ONCE {
                self.looked_at = slot;
                return false;
            }
            looks += 1;
            let is_draining = connection.is_draining();
            connection.look_at_unsent();
            count_kernel(connection, &mut self.stats);
            if is_draining && !connection.has_unsent() {
                self.touch(slot);
            }
        }
        true
    }

    /// Returns the connections to close because the kernel holds too much: the largest of the largest clients, until a
    /// quarter is free. Each is measured first; at most `LOOKS_AT_ONCE` per call.
    pub fn kernel_excess(&mut self) -> Vec<usize> {
        let mut by_caller: HashMap<AccountId, HeldFor> = HashMap::new();
        for (slot, connection) in &mut self.slab {
            count_kernel(connection, &mut self.stats);
            let bytes = connection.kernel_bytes();
            if bytes > 0 {
                let held = by_caller.entry(connection.account).or_default();
                held.bytes += bytes;
                held.connections.push((bytes, true, slot));
            }
        }
        let mut callers: BinaryHeap<_> = by_caller.iter().map(|(account, held)| (held.bytes, *account)).collect();
        let (mut excess, mut looks, mut held) = (Vec::new(), 0, self.stats.kernel_bytes);
        while held > self.limits.kernel_bytes / 4 * 3
            && looks < LOOKS_AT_ONCE
            && let Some((sum, account)) = callers.pop()
            && let Some(HeldFor { connections, .. }) = by_caller.get_mut(&account)
            && let Some((bytes, is_guess, slot)) = connections.pop()
            && let Some(connection) = self.slab.get_mut(slot)
        {
            let mut left = 0;
            if is_guess {
                looks += 1;
                connection.look_at_unsent();
                connection.look_at_unread();
                count_kernel(connection, &mut self.stats);
                left = connection.kernel_bytes();
                connections.push((left, false, slot));
            } else {
                excess.push(slot);
            }
            let change = |all: usize| all.saturating_sub(bytes).saturating_add(left);
            held = change(held);
            callers.push((change(sum), account));
        }
        excess
    }

    /// Drops the websocket with the most shared bytes pending if there are too many.
    pub fn bound_shared(&mut self) {
        if self.shared.held_bytes() <= self.limits.shared_bytes {
            return;
        }
        let waiting = self.slab.iter().filter(|(_, connection)| connection.is_open_websocket());
        let slowest = waiting.max_by_key(|(_, connection)| connection.output.shared_pending());
        let slowest = slowest.filter(|(_, connection)| connection.output.shared_pending() > 0).map(|(slot, _)| slot);
        if let Some(connection) = slowest.and_then(|slot| self.slab.get(slot)) {
            self.drop_slow(connection.id, "no memory left for messages that wait");
        }
    }

    /// Closes a websocket whose client is too slow.
    pub fn drop_slow(&mut self, id: ConnectionId, why: &str) {
        let now = self.now;
        let Some(connection) = self.slab.get_mut(id.slot()) else { return };
        log::info!("{id:?}: dropped: {why}");
        connection.drop_slow_websocket(now);
        self.counts.dropped_websockets += 1;
        self.ended(id);
    }

    /// Returns the lent output buffer of a connection.
    pub fn give_back_output(&mut self, slot: usize) {
        if let Some(connection) = self.slab.get_mut(slot) {
            connection.output.give_back(&mut self.spare_output);
            trim(&mut self.spare_output);
        }
    }

    /// Queues the end of a websocket to be reported, and its last output to be flushed.
    pub fn ended(&mut self, id: ConnectionId) {
        let Some(connection) = self.slab.get_mut(id.slot()) else { return };
        if std::mem::take(&mut connection.is_websocket) {
            connection.work = Work::None;
            take_off(&mut self.stats.websockets, 1);
            self.gone.push(id);
        }
        self.touch(id.slot());
    }

    /// Queues a connection to be flushed.
    pub fn touch(&mut self, slot: usize) {
        if let Some(connection) = self.slab.get_mut(slot)
            && !connection.is_dirty
        {
            connection.is_dirty = true;
            self.dirty.push_back(slot);
        }
    }

    /// Queues a connection to be served.
    pub fn ready(&mut self, slot: usize, task: Task) {
        if let Some(connection) = self.slab.get_mut(slot)
            && !connection.is_ready
        {
            connection.is_ready = true;
            self.callers.ready(connection.account, slot, task);
        }
    }

    /// Returns the next connection to serve. Websockets that exceed their work quota are throttled.
    pub fn next_ready(&mut self) -> Option<usize> {
        let now = self.moment.running;
        while let Some((due, slot)) = self.resting.first().copied().filter(|(due, _)| *due <= now) {
            self.resting.remove(&(due, slot));
            self.ready(slot, Task::GoOn);
        }
        loop {
            let slot = self.callers.next(now)?;
            let Some(connection) = self.slab.get_mut(slot) else { continue };
            connection.is_ready = false;
            let regained = connection.credit.regained(SOCKET_WORK_PER_SECOND);
            match regained.filter(|regained| connection.is_websocket && *regained > now) {
                Some(regained) => drop(self.resting.insert((regained, slot))),
                None => return Some(slot),
            }
        }
    }

    /// Returns whether a connection is throttled, by its client's quota or by its own as a websocket.
    pub fn is_throttled(&self, slot: usize) -> bool {
        let now = self.moment.running;
        self.slab.get(slot).is_some_and(|connection| {
            let own = connection.credit.regained(SOCKET_WORK_PER_SECOND).filter(|_| connection.is_websocket);
            own.is_some_and(|regained| regained > now) || self.callers.is_throttled(connection.account, now)
        })
    }

    /// Returns when the next throttled client or websocket may continue.
    pub fn next_regained(&self) -> Option<Duration> {
        let own = self.resting.first().map(|(regained, _)| *regained);
        own.into_iter().chain(self.callers.next_regained()).min()
    }

    /// Returns the current metrics.
    pub fn stats(&self) -> Stats {
        Stats { connections: self.slab.len(), callers: self.callers.len(), ..self.stats }
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
            self.drop_slow(socket, "its client does not take its messages");
            return Err(Dropped);
        }
        connection.queue_text(message, now);
        self.touch(socket.slot());
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
            self.ended(socket);
        }
    }

    fn resume(&mut self, connection: ConnectionId) {
        let now = self.now;
        let parked = self.slab.get_mut(connection.slot());
        if let Some(parked) = parked.filter(|parked| parked.id == connection && parked.work.is_waiting()) {
            if parked.work == Work::Held {
                // The response timeout applies from here on.
                parked.request_since = Some(now);
            }
            parked.work = Work::Unfinished;
            self.ready(connection.slot(), Task::GoOn);
        }
    }

    fn charge(&mut self, connection: ConnectionId, units: u32) {
        let now = self.moment.running;
        self.spent = self.spent.saturating_add(units);
        let charged = self.slab.get_mut(connection.slot());
        if let Some(charged) = charged.filter(|charged| charged.id == connection) {
            charged.credit.charge(units, SOCKET_WORK_PER_SECOND, now);
            self.callers.charge(charged.account, units, now);
        }
    }

    fn fetch(&mut self, fetch: Fetch) -> FetchId {
        self.fetcher.start(fetch, self.now)
    }

    fn cancel(&mut self, fetch: FetchId) {
        self.fetcher.cancel(fetch, self.now);
    }

    fn wake_at(&mut self, running: Duration) {
        self.wake_at = Some(self.wake_at.map_or(running, |at| at.min(running)));
    }

    fn figures(&self) -> Figures {
        let now = self.moment.running;
        let [before, current] = self.counts.longest_round.both(now).0;
        Figures {
            stats: self.stats(),
            counts: self.counts.clone(),
            fetch: self.fetcher.stats(),
            costliest: self.callers.costliest(now),
            resting: self.callers.resting(),
            longest_round: before.max(current),
        }
    }
}

/// Counts the traffic since the last count.
fn count_traffic<S>(connection: &mut Connection<S>, counts: &mut Counts) {
    counts.received_bytes += std::mem::take(&mut connection.received_bytes);
    counts.sent_bytes += std::mem::take(&mut connection.sent_bytes);
}

/// Updates the kernel memory of a connection in the total.
fn count_kernel<S: Socket>(connection: &mut Connection<S>, stats: &mut Stats) {
    let held = connection.kernel_bytes();
    let before = std::mem::replace(&mut connection.counted_kernel_bytes, held);
    stats.kernel_bytes = stats.kernel_bytes.saturating_add(held);
    take_off(&mut stats.kernel_bytes, before);
}

/// Frees a spare buffer that became unusually large.
pub(super) fn trim(spare: &mut Vec<u8>) {
    if spare.capacity() > SPARE_BYTES {
        *spare = Vec::new();
    }
}
