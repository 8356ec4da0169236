//! The server without its sockets: all connections with their input, handed time and readiness.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use zeroize::Zeroize;

use super::callers::Task;
use super::connection::{Closing, Connection, Due, Readiness, Work};
use super::connections::{Connections, trim};
use super::fetch::Fetcher;
use super::forwarded::Trust;
use super::http::{Gzip, HttpError, Reply};
use super::input::{Input, Step, Tools};
use super::limits::{IsTrusted, Limits};
use super::machine::{ConnectionId, Effects, Event, ListenerId, Machine, Moment};
use super::shared::SharedPool;
use super::socket::Socket;

/// Units of work for which one connection is served before the others have their turn.
const SHARE: u32 = 100;

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
    /// Connections turned away for lack of room so far.
    pub refused: u64,
    /// Requests and websocket messages handled so far.
    pub answered: u64,
}

/// Connections that came in by one listener.
#[derive(Clone, Copy, Debug, Default)]
struct Gate {
    open: usize,
    most: usize,
}

/// Connections, their input and their timers.
pub struct Server<S> {
    pub(super) connections: Connections<S>,
    /// By slot of the connection.
    inputs: Vec<Option<Input>>,
    /// By number of the listener.
    gates: Vec<Gate>,
    /// Connections that were let in, by all of them.
    let_in: usize,
    /// Connections that were turned away, the oldest first; some of them may be gone.
    turned_away: VecDeque<ConnectionId>,
    trust: Trust,
    is_draining: bool,
    reply: Reply,
    gzip: Gzip,
    read_buffer: Box<[u8]>,
    spare_input: Vec<u8>,
}

impl<S: Socket> Server<S> {
    /// A server without connections. Proxies for which `trusted` says so name the callers whose requests they pass on;
    /// `fetcher` makes requests to other servers.
    pub fn new(limits: Limits, trusted: IsTrusted, fetcher: Fetcher, now: Instant) -> Self {
        Self {
            connections: Connections::new(limits, fetcher, SharedPool::default(), now),
            inputs: Vec::new(),
            gates: Vec::new(),
            let_in: 0,
            turned_away: VecDeque::new(),
            trust: Trust(trusted),
            is_draining: false,
            reply: Reply::new(),
            gzip: Gzip::default(),
            read_buffer: vec![0; READ_BYTES].into_boxed_slice(),
            spare_input: Vec::new(),
        }
    }

    /// Sets how many connections that came in by a listener may be open at a time; by default none.
    pub fn set_most(&mut self, id: ListenerId, connections: usize) {
        if self.gates.len() <= id.0 {
            self.gates.resize(id.0 + 1, Gate::default());
        }
        self.gates[id.0].most = connections;
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

    /// Figures at this moment.
    pub fn stats(&self) -> Stats {
        self.connections.stats()
    }

    /// Lets a connection in, or has it told that there is no room for it. Its slot; `None` if it is just to be closed.
    pub fn admit(&mut self, socket: S, id: ListenerId, peer: IpAddr) -> Option<usize> {
        let connections = &mut self.connections;
        let (peer, now) = (peer.to_canonical(), connections.moment.running);
        let account = connections.callers.account(peer, false, now);
        if connections.callers.is_banned(account, now) {
            return None;
        }
        let gate = *self.gates.get(id.0)?;
        let has_room = gate.open < gate.most && self.let_in < connections.limits.connections;
        // A proxy has the connections of many.
        let is_let_in = has_room && (connections.callers.may_connect(account) || self.trust.is_trusted(peer));
        if !is_let_in {
            connections.stats.refused += 1;
            self.make_room_to_turn_away();
        }
        let connections = &mut self.connections;
        let slot = connections.insert(socket, id, peer, account);
        if is_let_in {
            self.gates[id.0].open += 1;
            self.let_in += 1;
            connections.stats.accepted += 1;
        } else {
            self.turned_away.push_back(connections.slab[slot].id);
            connections.slab[slot].is_turned_away = true;
            connections.refuse(slot, HttpError::Overloaded);
        }
        if self.inputs.len() <= slot {
            self.inputs.resize_with(slot + 1, || None);
        }
        self.inputs[slot] = Some(Input::new());
        Some(slot)
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
            let task = if connection.is_amid_answer() { Task::GoOn } else { Task::Begin };
            self.connections.ready(slot, task);
        }
    }

    /// Serves the connection whose turn it is; whether there was one.
    pub fn serve_next(&mut self, machine: &mut impl Machine) -> bool {
        let slot = self.connections.next_ready();
        slot.into_iter().for_each(|slot| self.drive(slot, machine));
        slot.is_some()
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
            if connection.closing == Closing::Open {
                input.receive(&self.read_buffer[..count]);
            }
            self.read_buffer[..count].zeroize();
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
        let input_bytes = self.inputs.get(slot).and_then(Option::as_ref).map_or(0, Input::held_bytes);
        self.connections.count(slot, input_bytes);
        for _ in 0..EVICTED_AT_ONCE {
            let Some(excess) = self.connections.excess(slot, |peer| self.trust.is_trusted(peer)) else { return };
            self.evict(excess);
        }
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
    }

    fn act(&mut self, slot: usize, due: Due) {
        let Some(connection) = self.connections.slab.get(slot) else { return };
        let id = connection.id;
        match due {
            Due::Drop => self.remove(slot),
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
        match self.connections.remove(slot) {
            None | Some(Connection { is_turned_away: true, .. }) => {}
            Some(Connection { listener, .. }) => {
                self.let_in -= 1;
                self.gates.get_mut(listener.0).into_iter().for_each(|gate| gate.open -= 1);
            }
        }
        if let Some(Some(mut input)) = self.inputs.get_mut(slot).map(Option::take) {
            input.give_back(&mut self.spare_input);
        }
    }
}
