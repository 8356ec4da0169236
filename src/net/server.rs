//! The server without its sockets: all connections with their input, handed time and readiness.

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

/// Units of work for which one connection is served before the others have their turn.
const SHARE: u32 = 100;

/// Units of work that reading once costs, besides those of the bytes. To be told of a byte on one of many sockets, to read
/// it and to tell the other end so takes 25 µs, most of them the system's, where the bytes come one by one.
const UNITS_PER_READ: u32 = 24;

/// Connections that are looked at for one to give way to a newcomer.
const LOOKS: usize = 256;

/// One that is in the middle of an answer is not looked at again for this long, unless its client has no other.
const LET_ALONE: Duration = Duration::from_secs(1);

/// A client that has one connection loses it to a newcomer only after it did nothing for this long.
const IDLE: Duration = Duration::from_secs(1);

/// Reads from one connection in a turn.
const READS_PER_TURN: usize = 2;

/// Size of the buffer all reads go to.
const READ_BYTES: usize = 64 * 1024;

/// Connections that are closed at a time because buffers exceed their limit.
const EVICTED_AT_ONCE: usize = 16;

/// Connections at a time that are turned away and stay until the client has read why; the oldest makes room for another.
pub const TURNED_AWAY_AT_ONCE: usize = 64;

/// Figures about a reactor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Open connections, websockets included.
    pub connections: usize,
    /// Open websockets.
    pub websockets: usize,
    /// Bytes of memory in buffers of connections.
    pub buffered_bytes: usize,
    /// Callers that have an account: those with connections, and those that have lately sent something.
    pub callers: usize,
    /// Connections accepted so far.
    pub accepted: u64,
    /// Bytes that the system may hold for them.
    pub kernel_bytes: usize,
    /// Connections turned away for lack of room so far.
    pub refused: u64,
    /// Connections that gave way to newcomers as places were short, those of the callers that had most, so far.
    pub displaced: u64,
    /// Connections that were looked at for that so far.
    pub looks: u64,
    /// Connections that were cut as the system held too much for them so far.
    pub cut: u64,
    /// Connections that were closed as they came so far, because their callers had caused too much work.
    pub declined: u64,
    /// Requests and websocket messages handled so far.
    pub answered: u64,
}

/// Connections, their input and their timers.
pub struct Server<S> {
    pub(super) connections: Connections<S>,
    /// By slot of the connection.
    inputs: Vec<Option<Input>>,
    /// Connections that were turned away, the oldest first; some of them may be gone.
    turned_away: VecDeque<ConnectionId>,
    trust: Trust,
    is_draining: bool,
    reply: Reply,
    gzip: Gzip,
    read_buffer: Box<[u8]>,
    spare_input: Vec<u8>,
    /// Connections of which the system is to be asked again whether there is anything to read.
    unmuted: Vec<usize>,
}

impl<S: Socket> Server<S> {
    /// A server without connections. Proxies for which `trusted` says so name the callers whose requests they pass on;
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

    /// Sets how many connections that came in by a listener may be open at a time; by default none.
    pub fn set_max(&mut self, id: ListenerId, connections: usize) {
        self.connections.quotas.set_max(id, connections);
    }

    /// Takes note of the present.
    pub fn set_time(&mut self, now: Instant, moment: Moment) {
        (self.connections.now, self.connections.moment) = (now, moment);
    }

    /// Other limits count from now on, and other proxies are trusted. Nobody loses a connection by that at once.
    pub fn change(&mut self, limits: Limits, trusted: IsTrusted) {
        self.trust = Trust(trusted);
        self.connections.callers.set_limits(&limits);
        self.connections.limits = Limits { ipv6_prefix: self.connections.limits.ipv6_prefix, ..limits };
    }

    /// Counts bytes that are sent to many, for [`Limits::shared_bytes`].
    pub fn shared_pool(&self) -> SharedPool {
        self.connections.shared.clone()
    }

    /// How long a client may take nothing.
    pub(super) fn write_stall(&self) -> Duration {
        self.connections.limits.write_stall
    }

    /// Figures at this moment.
    pub fn stats(&self) -> Stats {
        self.connections.stats()
    }

    /// Lets a connection in, for which another may have to give way, or has it told that there is no room for it. Its
    /// slot; `None` if it was closed at once, as its client had caused too much work.
    pub fn admit(&mut self, mut socket: S, id: ListenerId, peer: IpAddr) -> Option<usize> {
        let connections = &mut self.connections;
        let (peer, now) = (peer.to_canonical(), connections.moment.running);
        let account = connections.callers.account(peer, false, now);
        let is_paid = connections.callers.charge_connection(account, now) || self.trust.is_trusted(peer);
        if !is_paid || connections.callers.is_banned(account, now) || !connections.quotas.has(id) {
            // Nothing is read or said, and the system has nothing to remember.
            socket.discard_unsent();
            connections.stats.declined += 1;
            return None;
        }
        let is_local = Caller::itself(id, peer).is_local();
        // A proxy has the connections of many.
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

    /// Has a connection give way to a newcomer where places are short: that of the client that has most which did nothing
    /// for longest, in the middle of an answer only if that client has no other. Whether there is room.
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

    /// Drops the connection that was turned away first, if there are as many as may be.
    fn make_room_to_turn_away(&mut self) {
        while self.turned_away.len() >= TURNED_AWAY_AT_ONCE {
            let Some(oldest) = self.turned_away.pop_front() else { return };
            if self.connections.slab.get(oldest.slot()).is_some_and(|connection| connection.id == oldest) {
                self.remove(oldest.slot());
            }
        }
    }

    /// The socket of a connection.
    pub fn socket(&mut self, slot: usize) -> Option<&mut S> {
        self.connections.slab.get_mut(slot).map(|connection| &mut connection.socket)
    }

    /// A socket has become ready. One of an earlier connection in this slot does no harm: the socket will say that it
    /// has nothing.
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

    /// Serves the connection whose turn it is; whether there was one.
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

    /// A connection of which the system need not be asked whether there is more to read: it is served when its client is
    /// no longer throttled, whatever comes until then. `None` if that is known already.
    pub fn mute(&mut self, slot: usize) -> Option<&mut S> {
        let is_throttled = self.connections.is_throttled(slot);
        let connection =
            self.connections.slab.get_mut(slot).filter(|connection| is_throttled && connection.is_ready)?;
        (!std::mem::replace(&mut connection.is_muted, true)).then_some(&mut connection.socket)
    }

    /// A connection that is served again, of which the system is to be asked.
    pub fn unmute(&mut self) -> Option<(usize, &mut S)> {
        while let Some(slot) = self.unmuted.pop() {
            // It may be gone.
            if self.connections.slab.contains(slot) {
                return Some((slot, &mut self.connections.slab.get_mut(slot)?.socket));
            }
        }
        None
    }

    /// Writes what waits for one client; whether anything waited.
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

    /// Connections for which something waits to be written.
    pub fn unflushed(&self) -> usize {
        self.connections.dirty.len()
    }

    /// Whether there is something to be done that waits for nobody.
    pub fn has_work(&self) -> bool {
        let Connections { callers, dirty, gone, .. } = &self.connections;
        callers.has_ready() || !dirty.is_empty() || !gone.is_empty()
    }

    /// Gives the machine a turn.
    pub fn turn(&mut self, machine: &mut impl Machine, budget: u32, took: Duration) {
        self.connections.wake_at = None;
        let moment = self.connections.moment;
        machine.handle(Event::Turn { budget, took }, moment, &mut self.connections);
        self.connections.bound_shared();
    }

    /// When the machine wants its next turn, in running time.
    pub fn wake_at(&self) -> Option<Duration> {
        self.connections.wake_at
    }

    /// When a caller or websocket has paid for what it has caused, in running time.
    pub fn next_regained(&self) -> Option<Duration> {
        self.connections.next_regained()
    }

    /// Closes websockets with 1001, and idle connections and those of held requests at once, and the others after their
    /// next answer.
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

    /// Reads, answers and writes for one connection until it has nothing more or has had its share.
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

    /// The part of [`drive`](Self::drive) between lending and giving back; whether the connection stays.
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

    /// Handles what one connection has received, as far as its share goes.
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

    /// Takes back what was lent, counts what is held, and makes room if that is too much.
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

    /// Has another connection give way to one that came from this machine and turns out to be that of somebody else, or
    /// has it told that there is no room for it.
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

    /// Cuts connections if the system may hold too much.
    fn cut_excess(&mut self) {
        if self.connections.stats.kernel_bytes <= self.connections.limits.kernel_bytes {
            return;
        }
        // What is held at most may be much more than what is held.
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

    /// Closes a connection whose caller holds too much.
    fn evict(&mut self, slot: usize) {
        let Some(connection) = self.connections.slab.get(slot) else { return };
        log::info!("{:?}: closed: no memory left for buffers, and its caller holds most", connection.id);
        if connection.is_websocket || connection.closing != Closing::Open || !connection.output.is_empty() {
            return self.remove(slot);
        }
        self.refuse(slot, HttpError::Overloaded);
        self.connections.count(slot, 0);
    }

    /// Answers what cannot be read or served, and ends the connection. In the middle of an answer there is no place for
    /// another: the client sees that it is cut.
    fn refuse(&mut self, slot: usize, error: HttpError) {
        if let Some(input) = self.inputs.get_mut(slot).and_then(Option::as_mut) {
            if input.is_answering() {
                return self.remove(slot);
            }
            input.clear();
        }
        self.connections.refuse(slot, error);
    }

    /// Deals with everything that time has brought about.
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

    /// Tells the machine of connections that are gone.
    pub fn report_gone(&mut self, machine: &mut impl Machine) {
        while let Some(connection) = self.connections.gone.pop() {
            let moment = self.connections.moment;
            machine.handle(Event::Gone { connection }, moment, &mut self.connections);
        }
    }

    /// Drops a connection.
    pub fn remove(&mut self, slot: usize) {
        drop(self.connections.remove(slot));
        if let Some(Some(mut input)) = self.inputs.get_mut(slot).map(Option::take) {
            input.give_back(&mut self.spare_input);
        }
    }
}
