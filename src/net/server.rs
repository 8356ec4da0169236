//! The server without sockets: connections with their input, handed time and readiness.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use zeroize::Zeroize;

use super::client_table::{ClientId, Priority};
use super::connection::{Closing, Readiness, RequestState, Timeout};
use super::connections::{Connections, trim};
use super::fetch::Fetcher;
use super::forwarded::TrustedProxies;
use super::http::{Gzip, HttpError, Response};
use super::input::{BYTES_PER_UNIT, Context, Input, Step};
use super::limits::{IsTrustedProxy, Limits};
use super::listener_quota::Candidate;
use super::service::{Client, ConnectionId, Effects, Event, ListenerId, LoopTime, Service};
use super::shared_bytes::SharedBytesCounter;
use super::socket::Socket;
use crate::ip::site;

/// Units of work per turn of a connection.
const TURN_BUDGET: u32 = 100;

/// Units charged per read, in addition to its bytes. With single bytes on many sockets, polling, reading and
/// acknowledging take 25 µs per read, mostly in the kernel.
const UNITS_PER_READ: u32 = 24;

/// Connections checked when choosing one to evict.
const MAX_EVICTION_CHECKS: usize = 256;

/// A busy connection is not checked again for this long, unless its client has no other.
const BUSY_RECHECK_TIME: Duration = Duration::from_secs(1);

/// Minimum idle time before a client's only connection is evicted.
const MIN_IDLE_TIME: Duration = Duration::from_secs(1);

/// Reads from one connection per turn.
const READS_PER_TURN: usize = 2;

/// Size of the shared read buffer.
const READ_BYTES: usize = 64 * 1024;

/// Connections closed at a time because the buffers exceed their limit.
const MAX_EVICTIONS: usize = 16;

/// Rejected connections that stay open until the client has read the reason; beyond this the oldest is dropped.
pub const MAX_REJECTED_CONNECTIONS: usize = 64;

/// Metrics of the connections of a reactor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Open connections, websockets included.
    pub connections: usize,
    /// Open websockets.
    pub websockets: usize,
    /// Memory in buffers of connections.
    pub buffered_bytes: usize,
    /// Clients with a usage record: those with connections or recent activity.
    pub clients: usize,
    /// Connections accepted.
    pub accepted: u64,
    /// Kernel memory that the connections may hold.
    pub kernel_bytes: usize,
    /// Connections rejected because a quota was full.
    pub rejected: u64,
    /// Connections evicted for new ones.
    pub evicted: u64,
    /// Connections checked when choosing one to evict.
    pub eviction_checks: u64,
    /// Connections closed because of the kernel memory they held.
    pub kernel_evicted: u64,
    /// Connections reset on arrival: the client exceeded its work quota or is banned, or the listener is unknown.
    pub reset: u64,
    /// Requests and websocket messages handled.
    pub handled: u64,
}

/// Connections, their input and their timers.
pub struct Server<S> {
    pub(super) connections: Connections<S>,
    /// By slot of the connection.
    inputs: Vec<Option<Input>>,
    /// Rejected connections, the oldest first; some may be gone.
    rejected: VecDeque<ConnectionId>,
    trusted_proxies: TrustedProxies,
    is_draining: bool,
    response: Response,
    gzip: Gzip,
    read_buffer: Box<[u8]>,
    spare_input: Vec<u8>,
    /// Slots whose read interest must be registered again.
    unmuted: Vec<usize>,
}

impl<S: Socket> Server<S> {
    /// Returns a server without connections. `is_trusted` selects the proxies whose forwarding headers are believed;
    /// `fetcher` makes requests to other servers.
    pub fn new(limits: Limits, is_trusted: IsTrustedProxy, fetcher: Fetcher, now: Instant) -> Self {
        Self {
            connections: Connections::new(limits, fetcher, SharedBytesCounter::default(), now),
            inputs: Vec::new(),
            rejected: VecDeque::new(),
            trusted_proxies: TrustedProxies(is_trusted),
            is_draining: false,
            response: Response::new(),
            gzip: Gzip::default(),
            read_buffer: vec![0; READ_BYTES].into_boxed_slice(),
            spare_input: Vec::new(),
            unmuted: Vec::new(),
        }
    }

    /// Sets the maximum of open connections of a listener; 0 by default.
    pub fn set_max(&mut self, id: ListenerId, connections: usize) {
        self.connections.quotas.set_max(id, connections);
    }

    /// Sets the current time.
    pub fn set_time(&mut self, now: Instant, time: LoopTime) {
        (self.connections.now, self.connections.time) = (now, time);
    }

    /// Replaces the limits, except the IPv6 prefix length, and the trusted proxies. Open connections stay.
    pub fn set_limits(&mut self, limits: Limits, is_trusted: IsTrustedProxy) {
        self.trusted_proxies = TrustedProxies(is_trusted);
        self.connections.clients.set_limits(&limits);
        self.connections.limits = Limits { ipv6_prefix: self.connections.limits.ipv6_prefix, ..limits };
    }

    /// Returns the pool that counts shared bytes for [`Limits::shared_bytes`].
    pub fn shared_bytes_counter(&self) -> SharedBytesCounter {
        self.connections.shared_bytes.clone()
    }

    /// Returns the write timeout of clients.
    pub(super) fn write_stall(&self) -> Duration {
        self.connections.limits.write_stall
    }

    /// Returns the current metrics.
    pub fn stats(&self) -> Stats {
        self.connections.stats()
    }

    /// Admits a connection, evicting another if needed, or rejects it with a 503. Returns its slot, or `None` if it was
    /// reset: its client has exceeded its work quota or is banned, or the listener is unknown.
    pub fn admit(&mut self, mut socket: S, id: ListenerId, peer: IpAddr) -> Option<usize> {
        let connections = &mut self.connections;
        let (peer, now) = (peer.to_canonical(), connections.time.monotonic);
        let account = connections.clients.client_id(peer, false, now);
        let is_within_quota =
            connections.clients.charge_connection(account, now) || self.trusted_proxies.is_trusted(peer);
        if !is_within_quota || connections.clients.is_banned(account, now) || !connections.quotas.has(id) {
            // A reset leaves no state in the kernel.
            socket.discard_unsent();
            connections.stats.reset += 1;
            return None;
        }
        let is_local = Client::direct(id, peer).is_local();
        // A proxy has connections of many clients.
        let may_connect = connections.clients.may_connect(account) || self.trusted_proxies.is_trusted(peer);
        let is_admitted = may_connect && self.evict_for(id, is_local, (account, site(peer)));
        let connections = &mut self.connections;
        if !is_admitted {
            connections.stats.rejected += 1;
            self.drop_oldest_rejected();
        }
        let connections = &mut self.connections;
        let slot = connections.insert(socket, id, peer, account);
        if is_admitted {
            connections.add_quota_entry(slot);
            connections.stats.accepted += 1;
        } else {
            self.rejected.extend(connections.slab.get(slot).map(|connection| connection.id));
            connections.reject(slot, HttpError::Overloaded);
        }
        if self.inputs.len() <= slot {
            self.inputs.resize_with(slot + 1, || None);
        }
        self.inputs[slot] = Some(Input::new());
        Some(slot)
    }

    /// Evicts a connection if a quota is full: the longest idle one of the client with the most, a busy one only if
    /// that client has no other. Returns whether a new connection fits.
    fn evict_for(&mut self, id: ListenerId, is_local: bool, newcomer: (ClientId, IpAddr)) -> bool {
        let connections = &mut self.connections;
        let (now, running, most) = (connections.now, connections.time.monotonic, connections.limits.connections);
        let mut idlest = None;
        for check in 1..=MAX_EVICTION_CHECKS {
            let Some(Candidate { entry: place, is_equal }) = connections.quotas.candidate(id, is_local, newcomer, most)
            else {
                break;
            };
            let Some(connection) = connections.slab.get_mut(place.slot) else {
                connections.quotas.remove(place);
                continue;
            };
            connections.stats.eviction_checks += 1;
            connection.measure_unsent();
            let (idle_time, is_busy) = (connection.idle_time(now), connection.is_busy());
            let is_kept =
                is_equal && (!connection.is_idle() || place.client != newcomer.0 && idle_time < MIN_IDLE_TIME);
            if !is_busy && !is_kept {
                idlest = idlest.max(Some((idle_time, place.slot)));
            }
            let is_skipped = is_busy || is_kept;
            let seen = if is_skipped { running + BUSY_RECHECK_TIME } else { running.saturating_sub(idle_time) };
            if seen > place.last_seen && place.last_seen <= running && check < MAX_EVICTION_CHECKS {
                connections.set_last_seen(place, seen);
                continue;
            }
            let evicted = idlest.map(|(_, slot)| slot).or_else(|| (!is_equal).then_some(place.slot));
            if let Some(slot) = evicted {
                connections.stats.evicted += 1;
                self.remove(slot);
            }
            break;
        }
        self.connections.quotas.has_capacity(id, is_local, most)
    }

    /// Drops the oldest rejected connections while there are too many.
    fn drop_oldest_rejected(&mut self) {
        while self.rejected.len() >= MAX_REJECTED_CONNECTIONS {
            let Some(oldest) = self.rejected.pop_front() else { return };
            if self.connections.slab.get(oldest.slot()).is_some_and(|connection| connection.id == oldest) {
                self.remove(oldest.slot());
            }
        }
    }

    /// Returns the socket of a connection.
    pub fn socket(&mut self, slot: usize) -> Option<&mut S> {
        self.connections.slab.get_mut(slot).map(|connection| &mut connection.socket)
    }

    /// Sets the readiness of a connection. An event of an earlier connection in this slot is harmless: the socket
    /// reports `WouldBlock`.
    pub fn set_readiness(&mut self, slot: usize, ready: Readiness) {
        if let Some(connection) = self.connections.slab.get_mut(slot) {
            connection.set_readiness(ready);
            let only_writable = Readiness { writable: true, ..Readiness::default() };
            if ready == only_writable && connection.output.is_empty() && !connection.is_draining() {
                return;
            }
            let task = if connection.is_mid_response() { Priority::Continuation } else { Priority::New };
            self.connections.enqueue(slot, task);
        }
    }

    /// Serves the next connection in turn. Returns whether there was one.
    pub fn serve_next(&mut self, service: &mut impl Service) -> bool {
        let slot = self.connections.next_ready();
        if let Some(slot) = slot {
            let connection = self.connections.slab.get_mut(slot);
            if connection.is_some_and(|connection| std::mem::take(&mut connection.is_muted)) {
                self.unmuted.push(slot);
            }
            self.run_connection(slot, service);
        }
        slot.is_some()
    }

    /// Marks a throttled connection as muted: it is served when its client is no longer throttled, so its read interest
    /// can be removed. Returns its socket, or `None` if the connection is not throttled, not queued or muted already.
    pub fn mute(&mut self, slot: usize) -> Option<&mut S> {
        let is_throttled = self.connections.is_throttled(slot);
        let connection =
            self.connections.slab.get_mut(slot).filter(|connection| is_throttled && connection.is_ready)?;
        (!std::mem::replace(&mut connection.is_muted, true)).then_some(&mut connection.socket)
    }

    /// Returns the next connection that is served again and needs its read interest back.
    pub fn unmute(&mut self) -> Option<(usize, &mut S)> {
        while let Some(slot) = self.unmuted.pop() {
            if self.connections.slab.contains(slot) {
                return Some((slot, &mut self.connections.slab.get_mut(slot)?.socket));
            }
        }
        None
    }

    /// Flushes the output of one connection. Returns whether there was one.
    pub fn flush_next(&mut self) -> bool {
        let Some(slot) = self.connections.dirty.pop_front() else { return false };
        let now = self.connections.now;
        if let Some(connection) = self.connections.slab.get_mut(slot) {
            connection.is_dirty = false;
            if connection.flush(now).is_err() || connection.is_finished() {
                self.remove(slot);
            } else {
                self.update_usage(slot);
            }
        }
        true
    }

    /// Returns the number of connections with output to flush.
    pub fn unflushed(&self) -> usize {
        self.connections.dirty.len()
    }

    /// Returns whether there is work that needs no event.
    pub fn has_work(&self) -> bool {
        let Connections { clients: callers, dirty, disconnected: gone, .. } = &self.connections;
        callers.has_ready() || !dirty.is_empty() || !gone.is_empty()
    }

    /// Gives the service its turn.
    pub fn tick(&mut self, service: &mut impl Service, budget: u32, last_tick: Duration) {
        self.connections.wake_at = None;
        let moment = self.connections.time;
        service.handle(Event::Tick { budget, last_tick }, moment, &mut self.connections);
        self.connections.limit_shared_bytes();
    }

    /// Returns when the service wants its next turn (monotonic).
    pub fn wake_at(&self) -> Option<Duration> {
        self.connections.wake_at
    }

    /// Returns when the next throttled client or websocket may continue (monotonic).
    pub fn next_refill(&self) -> Option<Duration> {
        self.connections.next_refill()
    }

    /// Closes websockets with code 1001, ends held requests, closes idle connections at once and all others after their
    /// next response.
    pub fn shutdown(&mut self) {
        self.is_draining = true;
        let slots: Vec<usize> = self.connections.slab.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let is_between = self.inputs.get(slot).and_then(Option::as_ref).is_some_and(Input::is_between_requests);
            let Some(connection) = self.connections.slab.get_mut(slot) else { continue };
            if connection.is_open_websocket() {
                let id = connection.id;
                self.connections.close(id, 1001, "");
            } else if connection.request_state == RequestState::Streaming && connection.closing == Closing::Open {
                self.handle_timeout(slot, Timeout::SlowResponse);
            } else if is_between && connection.closing == Closing::Open {
                connection.closing = Closing::AfterOutput;
                self.connections.mark_dirty(slot);
            }
        }
    }

    /// Reads, processes and writes for one connection until it has no input or its budget is used up.
    fn run_connection(&mut self, slot: usize, service: &mut impl Service) {
        let Some(Some(mut input)) = self.inputs.get_mut(slot).map(Option::take) else { return };
        self.connections.spent = 0;
        input.acquire(&mut self.spare_input);
        if let Some(connection) = self.connections.slab.get_mut(slot) {
            connection.output.acquire(&mut self.connections.spare_output);
        }
        let stays_open = self.process(slot, &mut input, service);
        input.release(&mut self.spare_input);
        trim(&mut self.spare_input);
        if stays_open {
            self.inputs[slot] = Some(input);
            self.update_usage(slot);
        } else {
            self.remove(slot);
        }
    }

    /// The part of [`run_connection`](Self::run_connection) between lending and returning buffers. Returns whether the connection stays
    /// open.
    fn process(&mut self, slot: usize, input: &mut Input, service: &mut impl Service) -> bool {
        let mut reads_left = READS_PER_TURN;
        loop {
            let step = self.process_input(slot, input, service);
            let now = self.connections.now;
            let limit = self.connections.limits.output_bytes;
            let Some(connection) = self.connections.slab.get_mut(slot) else { return false };
            if connection.flush(now).is_err() || connection.is_finished() {
                return false;
            }
            match step {
                Step::Paused if connection.output.pending() <= limit => continue,
                Step::Paused => return true,
                Step::Exhausted => {
                    self.connections.enqueue(slot, Priority::Continuation);
                    return true;
                }
                _ if !connection.wants_read() => return true,
                _ if reads_left == 0 => {
                    self.connections.enqueue(slot, Priority::Continuation);
                    return true;
                }
                _ => reads_left -= 1,
            }
            let Ok(count) = connection.read(&mut self.read_buffer, now) else { return false };
            let is_wasted = connection.has_discarded_more_than(self.connections.limits.discarded_bytes);
            if connection.closing == Closing::Open {
                input.receive(&self.read_buffer[..count]);
            }
            self.read_buffer[..count].zeroize();
            let (id, is_proxy) = (connection.id, self.trusted_proxies.is_trusted(connection.peer));
            self.connections.charge_input(id, is_proxy, UNITS_PER_READ + (count / BYTES_PER_UNIT) as u32);
            if is_wasted {
                return false;
            }
        }
    }

    /// Handles the received input of a connection within its budget.
    fn process_input(&mut self, slot: usize, input: &mut Input, service: &mut impl Service) -> Step {
        loop {
            if self.connections.spent >= TURN_BUDGET {
                return Step::Exhausted;
            }
            let mut context = Context {
                service,
                connections: &mut self.connections,
                response: &mut self.response,
                gzip: &mut self.gzip,
                trusted_proxies: &self.trusted_proxies,
                is_draining: self.is_draining,
            };
            match input.step(slot, &mut context) {
                Step::Handled => self.connections.stats.handled += 1,
                Step::Closed => {
                    let id = self.connections.slab.get(slot).map(|connection| connection.id);
                    id.into_iter().for_each(|id| self.connections.end_websocket(id));
                    return Step::Waiting;
                }
                step => return step,
            }
        }
    }

    /// Returns lent buffers, updates the usage, and evicts while too much is held.
    fn update_usage(&mut self, slot: usize) {
        self.connections.release_output(slot);
        self.recheck_quota(slot);
        let input_bytes = self.inputs.get(slot).and_then(Option::as_ref).map_or(0, Input::held_bytes);
        self.connections.update_held_bytes(slot, input_bytes);
        self.evict_kernel_excess();
        for _ in 0..MAX_EVICTIONS {
            let Some(excess) = self.connections.largest_excess(slot, |peer| self.trusted_proxies.is_trusted(peer))
            else {
                return;
            };
            self.evict(excess);
        }
    }

    /// Counts a connection as remote whose proxy is on this machine but whose client is not, evicting another if
    /// needed, or rejects it.
    fn recheck_quota(&mut self, slot: usize) {
        let Some(place) = self.connections.take_relocated_entry(slot) else { return };
        if self.evict_for(place.listener, false, (place.client, place.site)) {
            return self.connections.restore_entry(place);
        }
        self.connections.stats.rejected += 1;
        self.drop_oldest_rejected();
        let Some(connection) = self.connections.slab.get(slot) else { return };
        let id = connection.id;
        self.rejected.push_back(id);
        match connection.is_open_websocket() {
            true => self.connections.close(id, 1013, ""),
            false => self.reject(slot, HttpError::Overloaded),
        }
    }

    /// Closes connections if the kernel holds too much.
    fn evict_kernel_excess(&mut self) {
        if self.connections.stats.kernel_bytes <= self.connections.limits.kernel_bytes {
            return;
        }
        // The count is an upper bound; measure before closing anything.
        let all_are_known = self.connections.measure_unsent(false);
        if !all_are_known || self.connections.stats.kernel_bytes <= self.connections.limits.kernel_bytes {
            return;
        }
        let excess = self.connections.kernel_evictions();
        if !excess.is_empty() {
            log::info!("{} connections closed: the kernel held too much that clients did not receive", excess.len());
        }
        self.connections.stats.kernel_evicted += excess.len() as u64;
        excess.into_iter().for_each(|slot| self.remove(slot));
    }

    /// Closes a connection whose client holds too much.
    fn evict(&mut self, slot: usize) {
        let Some(connection) = self.connections.slab.get(slot) else { return };
        log::info!("{:?}: closed: the memory for buffers is exhausted, and its client holds the most", connection.id);
        if connection.is_websocket || connection.closing != Closing::Open || !connection.output.is_empty() {
            return self.remove(slot);
        }
        self.reject(slot, HttpError::Overloaded);
        self.connections.update_held_bytes(slot, 0);
    }

    /// Sends an error response and ends the connection. In the middle of a response the connection is cut instead,
    /// which the client notices.
    fn reject(&mut self, slot: usize, error: HttpError) {
        if let Some(input) = self.inputs.get_mut(slot).and_then(Option::as_mut) {
            if input.has_partial_response() {
                return self.remove(slot);
            }
            input.clear();
        }
        self.connections.reject(slot, error);
    }

    /// Handles all timeouts.
    pub fn sweep(&mut self) {
        let Connections { now, limits, slab, .. } = &self.connections;
        let due: Vec<(usize, Timeout)> = slab
            .iter()
            .filter_map(|(slot, connection)| Some((slot, connection.expired_timeout(*now, limits)?)))
            .collect();
        self.connections.clients.remove_inactive(self.connections.time.monotonic);
        self.connections.limit_shared_bytes();
        for (slot, due) in due {
            self.handle_timeout(slot, due);
        }
        self.connections.measure_unsent(true);
        self.connections.measure_unread();
        self.evict_kernel_excess();
    }

    fn handle_timeout(&mut self, slot: usize, timeout: Timeout) {
        let Some(connection) = self.connections.slab.get(slot) else { return };
        let id = connection.id;
        match timeout {
            Timeout::Drop => {
                self.connections.counters.silent_websockets += u64::from(connection.is_open_websocket());
                self.remove(slot);
            }
            Timeout::Ping => {
                let now = self.connections.now;
                self.connections.slab.get_mut(slot).into_iter().for_each(|connection| connection.ping(now));
                self.connections.mark_dirty(slot);
            }
            Timeout::SlowRequest => self.reject(slot, HttpError::TooSlow),
            Timeout::SlowResponse if connection.output.is_empty() => self.reject(slot, HttpError::Overloaded),
            Timeout::SlowResponse => self.remove(slot),
            Timeout::IdleWebSocket => {
                let limit = self.connections.limits.websocket_idle.as_millis();
                let reason = format!("Idle timeout expired: {limit}/{limit} ms");
                self.connections.close(id, 1001, &reason);
            }
            Timeout::SlowConsumer => self.connections.drop_slow(id, "a message has waited too long"),
        }
    }

    /// Delivers the disconnects to the service.
    pub fn report_disconnects(&mut self, service: &mut impl Service) {
        while let Some(connection) = self.connections.disconnected.pop() {
            let moment = self.connections.time;
            service.handle(Event::Disconnected { connection }, moment, &mut self.connections);
        }
    }

    /// Removes a connection.
    pub fn remove(&mut self, slot: usize) {
        drop(self.connections.remove(slot));
        if let Some(Some(mut input)) = self.inputs.get_mut(slot).map(Option::take) {
            input.release(&mut self.spare_input);
        }
    }
}
