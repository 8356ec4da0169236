//! The server without sockets: connections with their input, handed time and readiness.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use zeroize::Zeroize;

use super::callers::{AccountId, Task};
use super::connection::{Closing, Due, Readiness, Work};
use super::connections::{Connections, trim};
use super::fetch::Fetcher;
use super::forwarded::Trust;
use super::http::{Gzip, HttpError, Reply};
use super::input::{BYTES_PER_UNIT, Input, Step, Tools};
use super::limits::{IsTrusted, Limits};
use super::machine::{Caller, ConnectionId, Effects, Event, ListenerId, Machine, Moment};
use super::places::Candidate;
use super::shared::SharedPool;
use super::socket::Socket;
use crate::ip::site;

/// Units of work per turn of a connection.
const SHARE: u32 = 100;

/// Units charged per read, in addition to its bytes. With single bytes on many sockets, polling, reading and
/// acknowledging take 25 µs per read, mostly in the kernel.
const UNITS_PER_READ: u32 = 24;

/// Connections checked when choosing one to evict.
const LOOKS: usize = 256;

/// A busy connection is not checked again for this long, unless its client has no other.
const LET_ALONE: Duration = Duration::from_secs(1);

/// Minimum idle time before a client's only connection is evicted.
const IDLE: Duration = Duration::from_secs(1);

/// Reads from one connection per turn.
const READS_PER_TURN: usize = 2;

/// Size of the shared read buffer.
const READ_BYTES: usize = 64 * 1024;

/// Connections closed at a time because the buffers exceed their limit.
const EVICTED_AT_ONCE: usize = 16;

/// Rejected connections that stay open until the client has read the reason; beyond this the oldest is dropped.
pub const TURNED_AWAY_AT_ONCE: usize = 64;

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
    pub callers: usize,
    /// Connections accepted.
    pub accepted: u64,
    /// Kernel memory that the connections may hold.
    pub kernel_bytes: usize,
    /// Connections rejected because a quota was full.
    pub refused: u64,
    /// Connections evicted for new ones.
    pub displaced: u64,
    /// Connections checked when choosing one to evict.
    pub looks: u64,
    /// Connections closed because of the kernel memory they held.
    pub cut: u64,
    /// Connections reset on arrival: the client exceeded its work quota or is banned, or the listener is unknown.
    pub declined: u64,
    /// Requests and websocket messages handled.
    pub answered: u64,
}

/// Connections, their input and their timers.
pub struct Server<S> {
    pub(super) connections: Connections<S>,
    /// By slot of the connection.
    inputs: Vec<Option<Input>>,
    /// Rejected connections, the oldest first; some may be gone.
    turned_away: VecDeque<ConnectionId>,
    trust: Trust,
    is_draining: bool,
    reply: Reply,
    gzip: Gzip,
    read_buffer: Box<[u8]>,
    spare_input: Vec<u8>,
    /// Slots whose read interest must be registered again.
    unmuted: Vec<usize>,
}

impl<S: Socket> Server<S> {
    /// Returns a server without connections. `trusted` selects the proxies whose forwarding headers are believed;
    /// `fetcher` makes requests to other servers.
    pub fn new(limits: Limits, trusted: IsTrusted, fetcher: Fetcher, now: Instant) -> Self {
        Self {
            connections: Connections::new(limits, fetcher, SharedPool::default(), now),
            inputs: Vec::new(),
            turned_away: VecDeque::new(),
            trust: Trust(trusted),
            is_draining: false,
            reply: Reply::new(),
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
    pub fn set_time(&mut self, now: Instant, moment: Moment) {
        (self.connections.now, self.connections.moment) = (now, moment);
    }

    /// Replaces the limits, except the IPv6 prefix length, and the trusted proxies. Open connections stay.
    pub fn change(&mut self, limits: Limits, trusted: IsTrusted) {
        self.trust = Trust(trusted);
        self.connections.callers.set_limits(&limits);
        self.connections.limits = Limits { ipv6_prefix: self.connections.limits.ipv6_prefix, ..limits };
    }

    /// Returns the pool that counts shared bytes for [`Limits::shared_bytes`].
    pub fn shared_pool(&self) -> SharedPool {
        self.connections.shared.clone()
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
        let (peer, now) = (peer.to_canonical(), connections.moment.running);
        let account = connections.callers.account(peer, false, now);
        let is_paid = connections.callers.charge_connection(account, now) || self.trust.is_trusted(peer);
        if !is_paid || connections.callers.is_banned(account, now) || !connections.quotas.has(id) {
            // A reset leaves no state in the kernel.
            socket.discard_unsent();
            connections.stats.declined += 1;
            return None;
        }
        let is_local = Caller::itself(id, peer).is_local();
        // A proxy has connections of many clients.
        let may_connect = connections.callers.may_connect(account) || self.trust.is_trusted(peer);
        let is_let_in = may_connect && self.make_room(id, is_local, (account, site(peer)));
        let connections = &mut self.connections;
        if !is_let_in {
            connections.stats.refused += 1;
            self.make_room_to_turn_away();
        }
        let connections = &mut self.connections;
        let slot = connections.insert(socket, id, peer, account);
        if is_let_in {
            connections.place(slot);
            connections.stats.accepted += 1;
        } else {
            self.turned_away.extend(connections.slab.get(slot).map(|connection| connection.id));
            connections.refuse(slot, HttpError::Overloaded);
        }
        if self.inputs.len() <= slot {
            self.inputs.resize_with(slot + 1, || None);
        }
        self.inputs[slot] = Some(Input::new());
        Some(slot)
    }

    /// Evicts a connection if a quota is full: the longest idle one of the client with the most, a busy one only if
    /// that client has no other. Returns whether a new connection fits.
    fn make_room(&mut self, id: ListenerId, is_local: bool, newcomer: (AccountId, IpAddr)) -> bool {
        let connections = &mut self.connections;
        let (now, running, most) = (connections.now, connections.moment.running, connections.limits.connections);
        let mut idlest = None;
        for look in 1..=LOOKS {
            let Some(Candidate { place, is_equal }) = connections.quotas.candidate(id, is_local, newcomer, most) else {
                break;
            };
            let Some(connection) = connections.slab.get_mut(place.slot) else {
                connections.quotas.remove(place);
                continue;
            };
            connections.stats.looks += 1;
            connection.look_at_unsent();
            let (idle_time, is_busy) = (connection.idle_time(now), connection.is_busy());
            let is_kept = is_equal && (!connection.is_idle() || place.client != newcomer.0 && idle_time < IDLE);
            if !is_busy && !is_kept {
                idlest = idlest.max(Some((idle_time, place.slot)));
            }
            let is_let_alone = is_busy || is_kept;
            let seen = if is_let_alone { running + LET_ALONE } else { running.saturating_sub(idle_time) };
            if seen > place.seen && place.seen <= running && look < LOOKS {
                connections.seen(place, seen);
                continue;
            }
            let way = idlest.map(|(_, slot)| slot).or_else(|| (!is_equal).then_some(place.slot));
            if let Some(slot) = way {
                connections.stats.displaced += 1;
                self.remove(slot);
            }
            break;
        }
        self.connections.quotas.has_room(id, is_local, most)
    }

    /// Drops the oldest rejected connections while there are too many.
    fn make_room_to_turn_away(&mut self) {
        while self.turned_away.len() >= TURNED_AWAY_AT_ONCE {
            let Some(oldest) = self.turned_away.pop_front() else { return };
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
    pub fn notice(&mut self, slot: usize, ready: Readiness) {
        if let Some(connection) = self.connections.slab.get_mut(slot) {
            connection.notice(ready);
            let has_room = Readiness { writable: true, ..Readiness::default() };
            if ready == has_room && connection.output.is_empty() && !connection.is_draining() {
                return;
            }
            let task = if connection.is_amid_answer() { Task::GoOn } else { Task::Begin };
            self.connections.ready(slot, task);
        }
    }

    /// Serves the next connection in turn. Returns whether there was one.
    pub fn serve_next(&mut self, machine: &mut impl Machine) -> bool {
        let slot = self.connections.next_ready();
        if let Some(slot) = slot {
            let connection = self.connections.slab.get_mut(slot);
            if connection.is_some_and(|connection| std::mem::take(&mut connection.is_muted)) {
                self.unmuted.push(slot);
            }
            self.drive(slot, machine);
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
                self.settle(slot);
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
        let Connections { callers, dirty, gone, .. } = &self.connections;
        callers.has_ready() || !dirty.is_empty() || !gone.is_empty()
    }

    /// Gives the service its turn.
    pub fn turn(&mut self, machine: &mut impl Machine, budget: u32, took: Duration) {
        self.connections.wake_at = None;
        let moment = self.connections.moment;
        machine.handle(Event::Turn { budget, took }, moment, &mut self.connections);
        self.connections.bound_shared();
    }

    /// Returns when the service wants its next turn (monotonic).
    pub fn wake_at(&self) -> Option<Duration> {
        self.connections.wake_at
    }

    /// Returns when the next throttled client or websocket may continue (monotonic).
    pub fn next_regained(&self) -> Option<Duration> {
        self.connections.next_regained()
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
            } else if connection.work == Work::Held && connection.closing == Closing::Open {
                self.act(slot, Due::SlowAnswer);
            } else if is_between && connection.closing == Closing::Open {
                connection.closing = Closing::AfterOutput;
                self.connections.touch(slot);
            }
        }
    }

    /// Reads, processes and writes for one connection until it has no input or its budget is used up.
    fn drive(&mut self, slot: usize, machine: &mut impl Machine) {
        let Some(Some(mut input)) = self.inputs.get_mut(slot).map(Option::take) else { return };
        self.connections.spent = 0;
        input.lend(&mut self.spare_input);
        if let Some(connection) = self.connections.slab.get_mut(slot) {
            connection.output.lend(&mut self.connections.spare_output);
        }
        let stays = self.converse(slot, &mut input, machine);
        input.give_back(&mut self.spare_input);
        trim(&mut self.spare_input);
        if stays {
            self.inputs[slot] = Some(input);
            self.settle(slot);
        } else {
            self.remove(slot);
        }
    }

    /// The part of [`drive`](Self::drive) between lending and returning buffers. Returns whether the connection stays
    /// open.
    fn converse(&mut self, slot: usize, input: &mut Input, machine: &mut impl Machine) -> bool {
        let mut reads_left = READS_PER_TURN;
        loop {
            let step = self.answer(slot, input, machine);
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
                    self.connections.ready(slot, Task::GoOn);
                    return true;
                }
                _ if !connection.wants_read() => return true,
                _ if reads_left == 0 => {
                    self.connections.ready(slot, Task::GoOn);
                    return true;
                }
                _ => reads_left -= 1,
            }
            let Ok(count) = connection.read(&mut self.read_buffer, now) else { return false };
            let is_wasted = connection.has_wasted(self.connections.limits.wasted_bytes);
            if connection.closing == Closing::Open {
                input.receive(&self.read_buffer[..count]);
            }
            self.read_buffer[..count].zeroize();
            let (id, is_proxy) = (connection.id, self.trust.is_trusted(connection.peer));
            self.connections.charge_input(id, is_proxy, UNITS_PER_READ + (count / BYTES_PER_UNIT) as u32);
            if is_wasted {
                return false;
            }
        }
    }

    /// Handles the received input of a connection within its budget.
    fn answer(&mut self, slot: usize, input: &mut Input, machine: &mut impl Machine) -> Step {
        loop {
            if self.connections.spent >= SHARE {
                return Step::Exhausted;
            }
            let mut tools = Tools {
                machine,
                connections: &mut self.connections,
                reply: &mut self.reply,
                gzip: &mut self.gzip,
                trust: &self.trust,
                is_draining: self.is_draining,
            };
            match input.step(slot, &mut tools) {
                Step::Handled => self.connections.stats.answered += 1,
                Step::Closed => {
                    let id = self.connections.slab.get(slot).map(|connection| connection.id);
                    id.into_iter().for_each(|id| self.connections.ended(id));
                    return Step::Waiting;
                }
                step => return step,
            }
        }
    }

    /// Returns lent buffers, updates the usage, and evicts while too much is held.
    fn settle(&mut self, slot: usize) {
        self.connections.give_back_output(slot);
        self.keep_place(slot);
        let input_bytes = self.inputs.get(slot).and_then(Option::as_ref).map_or(0, Input::held_bytes);
        self.connections.count(slot, input_bytes);
        self.cut_excess();
        for _ in 0..EVICTED_AT_ONCE {
            let Some(excess) = self.connections.excess(slot, |peer| self.trust.is_trusted(peer)) else { return };
            self.evict(excess);
        }
    }

    /// Counts a connection as remote whose proxy is on this machine but whose client is not, evicting another if
    /// needed, or rejects it.
    fn keep_place(&mut self, slot: usize) {
        let Some(place) = self.connections.take_moved(slot) else { return };
        if self.make_room(place.listener, false, (place.client, place.site)) {
            return self.connections.put_back(place);
        }
        self.connections.stats.refused += 1;
        self.make_room_to_turn_away();
        let Some(connection) = self.connections.slab.get(slot) else { return };
        let id = connection.id;
        self.turned_away.push_back(id);
        match connection.is_open_websocket() {
            true => self.connections.close(id, 1013, ""),
            false => self.refuse(slot, HttpError::Overloaded),
        }
    }

    /// Closes connections if the kernel holds too much.
    fn cut_excess(&mut self) {
        if self.connections.stats.kernel_bytes <= self.connections.limits.kernel_bytes {
            return;
        }
        // The count is an upper bound; measure before closing anything.
        let all_are_known = self.connections.look_at_unsent(false);
        if !all_are_known || self.connections.stats.kernel_bytes <= self.connections.limits.kernel_bytes {
            return;
        }
        let excess = self.connections.kernel_excess();
        if !excess.is_empty() {
            log::info!("{} connections cut: the system holds too much that their clients do not take", excess.len());
        }
        self.connections.stats.cut += excess.len() as u64;
        excess.into_iter().for_each(|slot| self.remove(slot));
    }

    /// Closes a connection whose client holds too much.
    fn evict(&mut self, slot: usize) {
        let Some(connection) = self.connections.slab.get(slot) else { return };
        log::info!("{:?}: closed: no memory left for buffers, and its caller holds most", connection.id);
        if connection.is_websocket || connection.closing != Closing::Open || !connection.output.is_empty() {
            return self.remove(slot);
        }
        self.refuse(slot, HttpError::Overloaded);
        self.connections.count(slot, 0);
    }

    /// Sends an error response and ends the connection. In the middle of a response the connection is cut instead,
    /// which the client notices.
    fn refuse(&mut self, slot: usize, error: HttpError) {
        if let Some(input) = self.inputs.get_mut(slot).and_then(Option::as_mut) {
            if input.is_answering() {
                return self.remove(slot);
            }
            input.clear();
        }
        self.connections.refuse(slot, error);
    }

    /// Handles all timeouts.
    pub fn sweep(&mut self) {
        let Connections { now, limits, slab, .. } = &self.connections;
        let due: Vec<(usize, Due)> =
            slab.iter().filter_map(|(slot, connection)| Some((slot, connection.due(*now, limits)?))).collect();
        self.connections.callers.forget_silent(self.connections.moment.running);
        self.connections.bound_shared();
        for (slot, due) in due {
            self.act(slot, due);
        }
        self.connections.look_at_unsent(true);
        self.connections.count_unread();
        self.cut_excess();
    }

    fn act(&mut self, slot: usize, due: Due) {
        let Some(connection) = self.connections.slab.get(slot) else { return };
        let id = connection.id;
        match due {
            Due::Drop => {
                self.connections.counts.silent_websockets += u64::from(connection.is_open_websocket());
                self.remove(slot);
            }
            Due::Ping => {
                let now = self.connections.now;
                self.connections.slab.get_mut(slot).into_iter().for_each(|connection| connection.ping(now));
                self.connections.touch(slot);
            }
            Due::SlowRequest => self.refuse(slot, HttpError::TooSlow),
            Due::SlowAnswer if connection.output.is_empty() => self.refuse(slot, HttpError::Overloaded),
            Due::SlowAnswer => self.remove(slot),
            Due::IdleWebSocket => {
                let limit = self.connections.limits.websocket_idle.as_millis();
                let reason = format!("Idle timeout expired: {limit}/{limit} ms");
                self.connections.close(id, 1001, &reason);
            }
            Due::SlowConsumer => self.connections.drop_slow(id, "a message has waited too long"),
        }
    }

    /// Delivers the disconnects to the service.
    pub fn report_gone(&mut self, machine: &mut impl Machine) {
        while let Some(connection) = self.connections.gone.pop() {
            let moment = self.connections.moment;
            machine.handle(Event::Gone { connection }, moment, &mut self.connections);
        }
    }

    /// Removes a connection.
    pub fn remove(&mut self, slot: usize) {
        drop(self.connections.remove(slot));
        if let Some(Some(mut input)) = self.inputs.get_mut(slot).map(Option::take) {
            input.give_back(&mut self.spare_input);
        }
    }
}
