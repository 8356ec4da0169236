//! The loop's end at the sockets.
//!
//! Sockets are registered once, edge-triggered, for reading and writing. What an edge promises is remembered in the
//! connection until the socket is exhausted; a connection that has had its share of a turn waits for the next one, so
//! that no edge is lost and no client holds up the others.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::{Events, Poll, Registry, Token};
use zeroize::Zeroize;

use super::connection::{Closing, Due};
use super::connections::{Connections, trim};
use super::fetch::Fetcher;
use super::forwarded::Trust;
use super::http::{Gzip, HttpError, Reply};
use super::input::{Input, Step, Tools};
use super::limits::{IsTrusted, Limits};
use super::listeners::Listeners;
use super::machine::{Effects, Event, ListenerId, Machine, Moment};
use super::shared::SharedPool;

/// Tokens from 0 to this are left to the loop, for signals and the like.
pub const EXTERNAL_TOKENS: usize = 16;

/// Listening sockets of one reactor; `listen` refuses a further one.
pub const MAX_LISTENERS: usize = 16;

/// Tokens of requests to other servers.
pub const FETCH_TOKENS: usize = 4096;

const FIRST_FETCH: usize = EXTERNAL_TOKENS + MAX_LISTENERS;
const FIRST_CONNECTION: usize = FIRST_FETCH + FETCH_TOKENS;

/// Events taken from one poll; the rest comes with the next.
const EVENTS_PER_TURN: usize = 1024;

/// Time for which connections are served between two looks at the sockets, and for which output is written.
const SERVING_TIME: Duration = Duration::from_millis(2);
const FLUSHING_TIME: Duration = Duration::from_millis(1);

/// Units of work for which one connection is served before the others have their turn.
const SHARE: u32 = 100;

/// Reads from one connection in a turn.
const READS_PER_TURN: usize = 2;

/// Size of the buffer all reads go to.
const READ_BYTES: usize = 64 * 1024;

/// Connections that are closed at a time because buffers exceed their limit.
const EVICTED_AT_ONCE: usize = 16;

/// Figures about a reactor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Open connections, websockets included.
    pub connections: usize,
    /// Open websockets.
    pub websockets: usize,
    /// Bytes of memory in buffers of connections.
    pub buffered_bytes: usize,
    /// Connections accepted so far.
    pub accepted: u64,
    /// Connections turned away for lack of room so far.
    pub refused: u64,
    /// Requests and websocket messages handled so far.
    pub answered: u64,
}

/// What a turn has left for the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    external: u16,
}

impl Turn {
    /// Whether the source registered with this token has become ready.
    pub fn is_ready(&self, token: Token) -> bool {
        token.0 < EXTERNAL_TOKENS && self.external >> token.0 & 1 == 1
    }
}

/// Listeners, connections and their timers.
pub struct Reactor {
    poll: Poll,
    events: Events,
    listeners: Listeners,
    connections: Connections,
    /// By slot of the connection.
    inputs: Vec<Option<Input>>,
    trust: Trust,
    started: Instant,
    next_sweep: Instant,
    is_draining: bool,
    reply: Reply,
    gzip: Gzip,
    read_buffer: Box<[u8]>,
    spare_input: Vec<u8>,
}

impl Reactor {
    /// A reactor that listens on nothing yet. Proxies for which `trusted` says so name the callers whose requests they
    /// pass on; `fetcher` makes requests to other servers.
    pub fn new(limits: Limits, trusted: IsTrusted, fetcher: Fetcher) -> io::Result<Self> {
        let now = Instant::now();
        let (next_sweep, listeners) = (now + limits.sweep_interval(), Listeners::default());
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(EVENTS_PER_TURN),
            listeners,
            connections: Connections::new(limits, fetcher, SharedPool::default(), now),
            inputs: Vec::new(),
            trust: Trust(trusted),
            started: now,
            next_sweep,
            is_draining: false,
            reply: Reply::new(),
            gzip: Gzip::default(),
            read_buffer: vec![0; READ_BYTES].into_boxed_slice(),
            spare_input: Vec::new(),
        })
    }

    /// Listens on `address`, where connections are known to come in by `id`. Several addresses may have the same id.
    /// At most `max_connections` are open by that id at a time, and never more than [`Limits::connections`] in all.
    pub fn listen(&mut self, id: ListenerId, address: SocketAddr, max_connections: usize) -> io::Result<SocketAddr> {
        let index = self.listeners.len();
        if index >= MAX_LISTENERS {
            let message = format!("no more than {MAX_LISTENERS} listeners");
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        self.listeners.open(id, address, max_connections, self.poll.registry(), Token(EXTERNAL_TOKENS + index))
    }

    /// Where other sources can be registered, with tokens below [`EXTERNAL_TOKENS`]. [`Turn`] tells of their readiness.
    pub fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Counts bytes that are sent to many, for [`Limits::shared_bytes`].
    pub fn shared_pool(&self) -> SharedPool {
        self.connections.shared.clone()
    }

    /// The present.
    pub fn moment(&self) -> Moment {
        Moment { unix_millis: unix_millis(), running: self.started.elapsed() }
    }

    /// Figures at this moment.
    pub fn stats(&self) -> Stats {
        Stats { connections: self.connections.slab.len(), ..self.connections.stats }
    }

    /// Waits until something is ready, the machine wants a turn, a timer is due or `patience` ends; then deals with
    /// all that is ready and due.
    pub fn turn(&mut self, patience: Duration, machine: &mut impl Machine) -> io::Result<Turn> {
        let timeout = self.poll_timeout(patience);
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => self.events.clear(),
            result => result?,
        }
        self.set_time();
        let turn = self.sort_events();
        self.accept();
        self.serve(machine);
        self.fetch(machine);
        if self.connections.now >= self.next_sweep {
            self.sweep();
        }
        self.report_gone(machine);
        Ok(turn)
    }

    /// Has the machine work, then writes what is to be sent. How long the machine took.
    pub fn work(&mut self, machine: &mut impl Machine, budget: u32, took: Duration) -> Duration {
        self.set_time();
        let begun = self.connections.now;
        self.connections.wake_at = None;
        let moment = self.connections.moment;
        machine.handle(Event::Turn { budget, took }, moment, &mut self.connections);
        let took = begun.elapsed();
        self.connections.bound_shared();
        self.flush_dirty(FLUSHING_TIME);
        self.report_gone(machine);
        took
    }

    /// Whether the machine wants another turn at once.
    pub fn has_work(&self) -> bool {
        self.connections.wake_at.is_some_and(|at| at <= self.connections.moment.running)
    }

    /// Stops listening, closes websockets with 1001 and idle connections at once, and the others after their next
    /// answer. Turns go on until `stats().connections` is 0 or patience ends.
    pub fn shutdown(&mut self) {
        self.is_draining = true;
        self.listeners.stop();
        let slots: Vec<usize> = self.connections.slab.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let is_between = self.inputs.get(slot).and_then(Option::as_ref).is_some_and(Input::is_between_requests);
            let Some(connection) = self.connections.slab.get_mut(slot) else { continue };
            if connection.is_open_websocket() {
                let id = connection.id;
                self.connections.close(id, 1001, "");
            } else if is_between && connection.closing == Closing::Open {
                connection.closing = Closing::AfterOutput;
                self.connections.touch(slot);
            }
        }
        self.flush_dirty(Duration::MAX);
    }

    fn set_time(&mut self) {
        let now = Instant::now();
        self.connections.now = now;
        self.connections.moment = Moment { unix_millis: unix_millis(), running: now - self.started };
    }

    fn poll_timeout(&mut self, patience: Duration) -> Duration {
        let Connections { callers, dirty, gone, wake_at, moment, slab, fetcher, .. } = &self.connections;
        let undone = callers.has_ready() || !dirty.is_empty() || !gone.is_empty() || self.listeners.has_ready();
        if undone || fetcher.has_work() {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let is_idle = slab.is_empty() && !self.listeners.has_failed();
        let sweep = (!is_idle).then(|| self.next_sweep.saturating_duration_since(now));
        let fetch = fetcher.next_due().map(|due| due.saturating_duration_since(now));
        let passed = now.saturating_duration_since(self.connections.now);
        let later = |at: Duration| at.saturating_sub(moment.running).saturating_sub(passed);
        let woken = wake_at.map(later);
        let regained = self.connections.next_regained().map(later);
        [sweep, fetch, woken, regained].into_iter().flatten().min().map_or(patience, |time| time.min(patience))
    }

    /// Puts the events where they are dealt with.
    fn sort_events(&mut self) -> Turn {
        let mut turn = Turn::default();
        for event in &self.events {
            let Token(token) = event.token();
            if token < EXTERNAL_TOKENS {
                turn.external |= 1 << token;
            } else if token < FIRST_FETCH {
                self.listeners.notice(token - EXTERNAL_TOKENS);
            } else if token < FIRST_CONNECTION {
                self.connections.fetcher.notice(event);
            } else if let Some(connection) = self.connections.slab.get_mut(token - FIRST_CONNECTION) {
                // An event of an earlier connection in this slot does no harm: the socket will say that it has nothing.
                connection.notice(event);
                self.connections.ready(token - FIRST_CONNECTION, true);
            }
        }
        turn
    }

    fn accept(&mut self) {
        while let Some(slot) = self.listeners.accept(&mut self.connections, &self.trust) {
            let registered = self.connections.register(slot, self.poll.registry(), Token(FIRST_CONNECTION + slot));
            if let Err(error) = registered {
                log::warn!("cannot serve a connection: {error}");
                self.remove(slot);
                continue;
            }
            if self.inputs.len() <= slot {
                self.inputs.resize_with(slot + 1, || None);
            }
            self.inputs[slot] = Some(Input::new());
        }
    }

    /// Serves connections in turn until none is left or the time is over.
    fn serve(&mut self, machine: &mut impl Machine) {
        while let Some(slot) = self.connections.next_ready() {
            self.drive(slot, machine);
            if self.connections.now.elapsed() >= SERVING_TIME {
                break;
            }
        }
        self.flush_dirty(FLUSHING_TIME);
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
                    self.connections.ready(slot, false);
                    return true;
                }
                _ if !connection.wants_read() => return true,
                _ if reads_left == 0 => {
                    self.connections.ready(slot, false);
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

    /// Deals with requests to other servers.
    fn fetch(&mut self, machine: &mut impl Machine) {
        self.connections.fetcher.work(self.poll.registry(), self.connections.now);
        while let Some((fetch, result)) = self.connections.fetcher.next_done() {
            let moment = self.connections.moment;
            machine.handle(Event::Fetched { fetch, result }, moment, &mut self.connections);
        }
    }

    /// Writes fresh output for a while.
    fn flush_dirty(&mut self, time: Duration) {
        /// Connections between two looks at the clock.
        const BETWEEN_LOOKS: usize = 8;
        let begun = Instant::now();
        for count in 1..=self.connections.dirty.len() {
            let Some(slot) = self.connections.dirty.pop_front() else { break };
            let now = self.connections.now;
            let Some(connection) = self.connections.slab.get_mut(slot) else { continue };
            connection.is_dirty = false;
            if connection.flush(now).is_err() || connection.is_finished() {
                self.remove(slot);
            } else {
                self.settle(slot);
            }
            if count % BETWEEN_LOOKS == 0 && begun.elapsed() >= time {
                break;
            }
        }
    }

    /// Takes back what was lent, counts what is held, and makes room if that is too much.
    fn settle(&mut self, slot: usize) {
        self.connections.give_back_output(slot);
        let input_bytes = self.inputs.get(slot).and_then(Option::as_ref).map_or(0, Input::held_bytes);
        self.connections.count(slot, input_bytes);
        for _ in 0..EVICTED_AT_ONCE {
            if self.connections.stats.buffered_bytes <= self.connections.limits.buffered_bytes {
                return;
            }
            let Some(hog) = self.connections.hog() else { return };
            self.evict(hog);
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

    fn refuse(&mut self, slot: usize, error: HttpError) {
        if let Some(input) = self.inputs.get_mut(slot).and_then(Option::as_mut) {
            input.clear();
        }
        self.connections.refuse(slot, error);
    }

    /// Deals with everything that time has brought about.
    fn sweep(&mut self) {
        let Connections { now, limits, slab, .. } = &self.connections;
        self.next_sweep = *now + limits.sweep_interval();
        let due: Vec<(usize, Due)> =
            slab.iter().filter_map(|(slot, connection)| Some((slot, connection.due(*now, limits)?))).collect();
        self.listeners.try_again();
        self.connections.callers.forget_silent(self.connections.moment.running);
        self.connections.bound_shared();
        for (slot, due) in due {
            self.act(slot, due);
        }
    }

    fn act(&mut self, slot: usize, due: Due) {
        let now = self.connections.now;
        let Some(connection) = self.connections.slab.get_mut(slot) else { return };
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
            Due::SlowConsumer => {
                log::info!("{id:?}: dropped: a message has waited too long");
                connection.drop_slow_websocket(now);
                self.connections.ended(id);
            }
        }
    }

    /// Tells the machine of connections that are gone.
    fn report_gone(&mut self, machine: &mut impl Machine) {
        while let Some(connection) = self.connections.gone.pop() {
            let moment = self.connections.moment;
            machine.handle(Event::Gone { connection }, moment, &mut self.connections);
        }
    }

    fn remove(&mut self, slot: usize) {
        // Closing the socket takes it out of the poll as well.
        if let Some(connection) = self.connections.remove(slot) {
            self.listeners.closed(&connection);
        }
        if let Some(Some(mut input)) = self.inputs.get_mut(slot).map(Option::take) {
            input.give_back(&mut self.spare_input);
        }
    }
}

fn unix_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64)
}
