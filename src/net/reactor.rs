//! The loop's end at the sockets: the one part of this room that touches them and the clock.
//!
//! Sockets are registered once, edge-triggered, for reading and writing. What an edge promises is
//! remembered in the connection until the socket is exhausted; a connection that has had its share
//! of a turn waits in a queue, so that no edge is lost and no client holds up the others.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Registry, Token};
use slab::Slab;

use super::connection::{Connection, Desk, Due, Step};
use super::http::{Gzip, HttpError, Reply};
use super::limits::Limits;
use super::service::{Caller, ConnectionId, Dropped, ListenerId, Outbox, Outgoing, Service};

/// Tokens from 0 to this are left to the node, for signals and the like.
pub const EXTERNAL_TOKENS: usize = 16;

/// Listeners of one reactor; `listen` refuses a further one.
pub const MAX_LISTENERS: usize = 16;

const FIRST_CONNECTION: usize = EXTERNAL_TOKENS + MAX_LISTENERS;

/// Events taken from one poll; the rest comes with the next.
const EVENTS_PER_TURN: usize = 1024;

/// Connections accepted from one listener in a turn.
const ACCEPTS_PER_TURN: usize = 64;

/// Connections that the system keeps until they are accepted, as far as its own limit allows. Beyond it a
/// client must try again after a second; the usual 128 are exceeded by clients that reconnect all at once.
const ACCEPT_QUEUE: i32 = 4096;

/// Requests or messages answered for one connection in a turn: the costly ones, each about a tenth of a millisecond,
/// must not keep the others waiting.
const ANSWERS_PER_TURN: usize = 16;

/// Reads from one connection in a turn.
const READS_PER_TURN: usize = 2;

/// Connections whose fresh output is written in a turn, besides those with events.
const FLUSHES_PER_TURN: usize = 256;

/// Size of the buffer all reads go to.
const READ_BYTES: usize = 64 * 1024;

/// Websocket output is collected until the end of the turn, but no more of it than this.
const COALESCED_BYTES: usize = 16 * 1024;

/// A larger buffer is freed instead of being lent again.
const SPARE_BYTES: usize = 256 * 1024;

struct Listener {
    socket: TcpListener,
    local_addr: SocketAddr,
    max_connections: usize,
    connections: usize,
    /// There may be more to accept.
    is_ready: bool,
}

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
    limits: Limits,
    poll: Poll,
    events: Events,
    listeners: Vec<Option<Listener>>,
    connections: Slab<Connection>,
    next_serial: u32,
    /// Slots with input or room for output to deal with.
    ready: VecDeque<usize>,
    /// Slots with fresh output.
    dirty: VecDeque<usize>,
    /// Websockets whose end has not been reported.
    closed: Vec<ConnectionId>,
    next_sweep: Instant,
    now: Instant,
    is_draining: bool,
    /// Accepting has failed for lack of something; the next sweep tries again.
    accept_failed: bool,
    stats: Stats,
    reply: Reply,
    gzip: Gzip,
    outbox: Outbox,
    read_buffer: Box<[u8]>,
    spare_input: Vec<u8>,
    spare_output: Vec<u8>,
}

impl Reactor {
    /// A reactor that listens on nothing yet.
    pub fn new(limits: Limits) -> io::Result<Self> {
        let now = Instant::now();
        Ok(Self {
            next_sweep: now + limits.sweep_interval(),
            limits,
            poll: Poll::new()?,
            events: Events::with_capacity(EVENTS_PER_TURN),
            listeners: Vec::new(),
            connections: Slab::new(),
            next_serial: 1,
            ready: VecDeque::new(),
            dirty: VecDeque::new(),
            closed: Vec::new(),
            now,
            is_draining: false,
            accept_failed: false,
            stats: Stats::default(),
            reply: Reply::new(),
            gzip: Gzip::default(),
            outbox: Outbox::default(),
            read_buffer: vec![0; READ_BYTES].into_boxed_slice(),
            spare_input: Vec::new(),
            spare_output: Vec::new(),
        })
    }

    /// Listens on `addr` for at most `max_connections` at a time (and never more than
    /// [`Limits::connections`] over all listeners).
    pub fn listen(&mut self, addr: SocketAddr, max_connections: usize) -> io::Result<ListenerId> {
        let id = self.listeners.len();
        if id >= MAX_LISTENERS {
            let message = format!("no more than {MAX_LISTENERS} listeners");
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        let mut socket = TcpListener::bind(addr)?;
        // Listening again changes nothing but the length of the queue.
        rustix::net::listen(&socket, ACCEPT_QUEUE)?;
        let token = Token(EXTERNAL_TOKENS + id);
        self.registry().register(&mut socket, token, Interest::READABLE)?;
        self.listeners.push(Some(Listener {
            local_addr: socket.local_addr()?,
            socket,
            max_connections,
            connections: 0,
            is_ready: false,
        }));
        Ok(ListenerId(id))
    }

    /// The address a listener is bound to, with the port the system chose if it was 0. `None` after
    /// [`shutdown`](Self::shutdown).
    pub fn local_addr(&self, listener: ListenerId) -> Option<SocketAddr> {
        let listener = self.listeners.get(listener.0)?.as_ref()?;
        Some(listener.local_addr)
    }

    /// Where other sources can be registered, with tokens below [`EXTERNAL_TOKENS`]. [`Turn`] tells
    /// of their readiness.
    pub fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Figures at this moment.
    pub fn stats(&self) -> Stats {
        Stats { connections: self.connections.len(), ..self.stats }
    }

    /// Waits until something is ready, `timeout` has passed or a timer is due; then deals with all
    /// that is ready and due. `None` waits as long as it takes.
    ///
    /// Returns at once if an earlier turn left something undone.
    pub fn turn(&mut self, timeout: Option<Duration>, service: &mut impl Service) -> io::Result<Turn> {
        let timeout = self.poll_timeout(timeout);
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => self.events.clear(),
            result => result?,
        }
        self.now = Instant::now();
        let turn = self.sort_events();
        self.accept_all();
        for _ in 0..self.ready.len() {
            let Some(slot) = self.ready.pop_front() else {
                break;
            };
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.is_ready = false;
                self.drive(slot, service);
            }
        }
        self.flush_dirty(FLUSHES_PER_TURN);
        if self.now >= self.next_sweep {
            self.sweep();
        }
        self.report_closed(service);
        Ok(turn)
    }

    /// Sends a text message, which must be UTF-8, to a websocket. It goes out in the next turn or
    /// [`flush`](Self::flush), or earlier.
    ///
    /// Fails if the websocket is closed, or is dropped just now because too much is waiting for it
    /// ([`Limits::websocket_backlog_bytes`]).
    pub fn send_text(&mut self, id: ConnectionId, text: &[u8]) -> Result<(), Dropped> {
        let now = self.now;
        let limits = &self.limits;
        let connection = open_websocket(&mut self.connections, id).ok_or(Dropped)?;
        let exceeds = |connection: &Connection| {
            let pending = connection.output.pending();
            pending > 0 && pending.saturating_add(text.len()) > limits.websocket_backlog_bytes
        };
        // An error of the socket is left to the turn that finds it again.
        if exceeds(connection) && (connection.flush(now).is_err() || exceeds(connection)) {
            log::info!("{id:?}: dropped: its client does not take its messages");
            connection.drop_slow_websocket(now);
            self.ended(id);
            return Err(Dropped);
        }
        connection.queue_text(text, now);
        if connection.output.pending() > COALESCED_BYTES {
            let _ = connection.flush(now);
        }
        self.touch(id.slot());
        Ok(())
    }

    /// Ends a websocket with this close code (1000 to 4999) and reason. The service is told by
    /// `websocket_closed`. Does nothing if it is closed already.
    pub fn close_websocket(&mut self, id: ConnectionId, code: u16, reason: &str) {
        let now = self.now;
        if let Some(connection) = open_websocket(&mut self.connections, id) {
            connection.close_websocket(code, reason, now);
            self.ended(id);
        }
    }

    /// Writes what is pending now rather than in the next turn, as far as the sockets take it.
    pub fn flush(&mut self) {
        self.flush_dirty(self.dirty.len());
    }

    /// Stops listening, closes websockets with 1001 and idle connections at once, and the others
    /// after their next answer. Turns go on until `stats().connections` is 0 or patience ends.
    pub fn shutdown(&mut self) {
        self.is_draining = true;
        self.listeners.iter_mut().for_each(|slot| *slot = None);
        let slots: Vec<usize> = self.connections.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let Some(connection) = self.connections.get_mut(slot) else {
                continue;
            };
            if connection.is_open_websocket() {
                let id = connection.id;
                self.close_websocket(id, 1001, "");
            } else if connection.is_between_requests() {
                connection.close_after_output();
                self.touch(slot);
            }
        }
        self.flush();
    }

    fn poll_timeout(&self, wanted: Option<Duration>) -> Option<Duration> {
        let undone = !self.ready.is_empty() || !self.dirty.is_empty() || !self.closed.is_empty();
        let accepting = self.listeners.iter().flatten();
        if undone || accepting.clone().any(|listener| listener.is_ready) {
            return Some(Duration::ZERO);
        }
        if self.connections.is_empty() && !self.accept_failed {
            return wanted;
        }
        let sweep = self.next_sweep.saturating_duration_since(Instant::now());
        Some(wanted.map_or(sweep, |wanted| wanted.min(sweep)))
    }

    /// Puts the events where they are dealt with.
    fn sort_events(&mut self) -> Turn {
        let mut turn = Turn::default();
        for event in &self.events {
            let Token(token) = event.token();
            if token < EXTERNAL_TOKENS {
                turn.external |= 1 << token;
            } else if token < FIRST_CONNECTION {
                if let Some(Some(listener)) = self.listeners.get_mut(token - EXTERNAL_TOKENS) {
                    listener.is_ready = true;
                }
            } else if let Some(connection) = self.connections.get_mut(token - FIRST_CONNECTION) {
                // An event of an earlier connection in this slot does no harm: the socket will say
                // that it has nothing.
                connection.notice(event);
                if !connection.is_ready {
                    connection.is_ready = true;
                    self.ready.push_back(token - FIRST_CONNECTION);
                }
            }
        }
        turn
    }

    fn accept_all(&mut self) {
        for index in 0..self.listeners.len() {
            for _ in 0..ACCEPTS_PER_TURN {
                match self.listeners.get_mut(index) {
                    Some(Some(listener)) if listener.is_ready => self.accept(index),
                    _ => break,
                }
            }
        }
    }

    fn accept(&mut self, index: usize) {
        let Some(Some(listener)) = self.listeners.get_mut(index) else {
            return;
        };
        let (mut socket, peer) = match listener.socket.accept() {
            Ok(accepted) => accepted,
            Err(error) if is_of_the_client(&error) => return,
            Err(error) => {
                if error.kind() != ErrorKind::WouldBlock {
                    // Most likely out of file descriptors.
                    log::warn!("cannot accept on {}: {error}", listener.local_addr);
                    self.accept_failed = true;
                }
                listener.is_ready = false;
                return;
            }
        };
        if listener.connections >= listener.max_connections || self.connections.len() >= self.limits.connections {
            self.stats.refused += 1;
            let mut answer = Vec::new();
            Reply::write_refusal(HttpError::Overloaded, &mut answer);
            let _ = socket.write(&answer);
            return;
        }
        let entry = self.connections.vacant_entry();
        let slot = entry.key();
        let registry = self.poll.registry();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let prepared = socket
            .set_nodelay(true)
            .and_then(|()| registry.register(&mut socket, Token(FIRST_CONNECTION + slot), interest));
        if let Err(error) = prepared {
            log::warn!("cannot serve {peer}: {error}");
            return;
        }
        let id = ConnectionId::new(slot, self.next_serial);
        let caller = Caller { listener: ListenerId(index), peer };
        entry.insert(Connection::new(id, caller, socket, &self.limits, self.now));
        self.next_serial = self.next_serial.wrapping_add(1).max(1);
        listener.connections += 1;
        self.stats.accepted += 1;
    }

    /// Reads, answers and writes for one connection until it has nothing more or has had its share.
    fn drive(&mut self, slot: usize, service: &mut impl Service) {
        let mut answers_left = ANSWERS_PER_TURN;
        let mut reads_left = READS_PER_TURN;
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.lend(&mut self.spare_input, &mut self.spare_output);
        }
        loop {
            let step = self.answer(slot, &mut answers_left, service);
            let Some(connection) = self.connections.get_mut(slot) else {
                return;
            };
            if connection.flush(self.now).is_err() || connection.is_finished() {
                self.remove(slot);
                return;
            }
            match step {
                Step::Paused if connection.output.pending() <= self.limits.output_bytes => continue,
                Step::Paused => break,
                Step::Exhausted => {
                    self.put_off(slot);
                    break;
                }
                _ if !connection.wants_read() => break,
                _ if reads_left == 0 => {
                    self.put_off(slot);
                    break;
                }
                _ => reads_left -= 1,
            }
            if connection.read(&mut self.read_buffer, self.now).is_err() {
                self.remove(slot);
                return;
            }
        }
        self.settle(slot);
    }

    /// Answers what one connection has received.
    fn answer(&mut self, slot: usize, left: &mut usize, service: &mut impl Service) -> Step {
        loop {
            let Some(connection) = self.connections.get_mut(slot) else {
                return Step::Waiting;
            };
            if *left == 0 {
                return Step::Exhausted;
            }
            let (id, caller, now) = (connection.id, connection.caller, self.now);
            let step = connection.answer(&mut Desk {
                service,
                reply: &mut self.reply,
                gzip: &mut self.gzip,
                outbox: &mut self.outbox,
                limits: &self.limits,
                now,
                is_draining: self.is_draining,
            });
            match step {
                Step::Answered => {
                    *left -= 1;
                    self.stats.answered += 1;
                }
                Step::Opened { tag } => {
                    self.stats.websockets += 1;
                    service.websocket_opened(id, caller, tag, now, &mut self.outbox);
                }
                Step::Closed => {
                    self.ended(id);
                    return Step::Waiting;
                }
                Step::Waiting | Step::Paused | Step::Exhausted => return step,
            }
            if !self.outbox.items.is_empty() {
                self.deliver();
            }
        }
    }

    /// Sends what a callback has put into the outbox.
    fn deliver(&mut self) {
        let mut items = std::mem::take(&mut self.outbox.items);
        for (id, outgoing) in items.drain(..) {
            match outgoing {
                // The service will be told, or has been.
                Outgoing::Text(text) => drop(self.send_text(id, &text)),
                Outgoing::Close { code, reason } => self.close_websocket(id, code, &reason),
            }
        }
        self.outbox.items = items;
    }

    fn flush_dirty(&mut self, at_most: usize) {
        for _ in 0..at_most.min(self.dirty.len()) {
            let Some(slot) = self.dirty.pop_front() else {
                break;
            };
            let Some(connection) = self.connections.get_mut(slot) else {
                continue;
            };
            connection.is_dirty = false;
            if connection.flush(self.now).is_err() || connection.is_finished() {
                self.remove(slot);
            } else {
                self.settle(slot);
            }
        }
    }

    /// Takes back what was lent and counts what is held.
    fn settle(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        connection.give_back(&mut self.spare_input, &mut self.spare_output);
        trim(&mut self.spare_input);
        trim(&mut self.spare_output);
        self.count(slot);
        if self.stats.buffered_bytes <= self.limits.buffered_bytes {
            return;
        }
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        if connection.counted_bytes == 0 {
            return;
        }
        log::warn!("{:?}: closed: no memory left for buffers", connection.id);
        if connection.is_open_websocket() || !connection.output.is_empty() {
            self.remove(slot);
        } else {
            connection.refuse(HttpError::Overloaded);
            self.count(slot);
            self.touch(slot);
        }
    }

    fn count(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot) {
            let held = connection.held_bytes();
            self.stats.buffered_bytes += held;
            self.stats.buffered_bytes -= connection.counted_bytes;
            connection.counted_bytes = held;
        }
    }

    /// Deals with everything that time has brought about.
    fn sweep(&mut self) {
        self.next_sweep = self.now + self.limits.sweep_interval();
        if std::mem::take(&mut self.accept_failed) {
            for listener in self.listeners.iter_mut().flatten() {
                listener.is_ready = true;
            }
        }
        let (now, limits) = (self.now, &self.limits);
        let due: Vec<(usize, Due)> = self
            .connections
            .iter()
            .filter_map(|(slot, connection)| Some((slot, connection.due(now, limits)?)))
            .collect();
        for (slot, due) in due {
            self.act(slot, due);
        }
    }

    fn act(&mut self, slot: usize, due: Due) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let id = connection.id;
        match due {
            Due::Drop => self.remove(slot),
            Due::SlowRequest => {
                connection.refuse(HttpError::TooSlow);
                self.touch(slot);
            }
            Due::IdleWebSocket => {
                let limit = self.limits.websocket_idle.as_millis();
                let reason = format!("Idle timeout expired: {limit}/{limit} ms");
                self.close_websocket(id, 1001, &reason);
            }
            Due::SlowConsumer => {
                log::info!("{id:?}: dropped: a message has waited too long");
                connection.drop_slow_websocket(now);
                self.ended(id);
            }
        }
    }

    /// Keeps the end of a websocket for `websocket_closed`, and has its last output written.
    fn ended(&mut self, id: ConnectionId) {
        self.stats.websockets -= 1;
        self.closed.push(id);
        self.touch(id.slot());
    }

    fn report_closed(&mut self, service: &mut impl Service) {
        for id in self.closed.drain(..) {
            service.websocket_closed(id);
        }
    }

    /// Has the output of a connection written soon.
    fn touch(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.is_dirty
        {
            connection.is_dirty = true;
            self.dirty.push_back(slot);
        }
    }

    /// Has a connection driven again in the next turn.
    fn put_off(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.is_ready
        {
            connection.is_ready = true;
            self.ready.push_back(slot);
        }
    }

    fn remove(&mut self, slot: usize) {
        let Some(mut connection) = self.connections.try_remove(slot) else {
            return;
        };
        // Closing the socket takes it out of the poll as well.
        connection.give_back(&mut self.spare_input, &mut self.spare_output);
        self.stats.buffered_bytes -= connection.counted_bytes;
        if let Some(Some(listener)) = self.listeners.get_mut(connection.caller.listener.0) {
            listener.connections -= 1;
        }
        if connection.is_open_websocket() {
            self.ended(connection.id);
        }
    }
}

/// Frees a spare buffer that one unusual request or answer has made large.
fn trim(spare: &mut Vec<u8>) {
    if spare.capacity() > SPARE_BYTES {
        *spare = Vec::new();
    }
}

/// Whether accepting failed because of the one connection that was to be accepted.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted)
}

fn open_websocket(connections: &mut Slab<Connection>, id: ConnectionId) -> Option<&mut Connection> {
    let connection = connections.get_mut(id.slot())?;
    (connection.id == id && connection.is_open_websocket()).then_some(connection)
}
