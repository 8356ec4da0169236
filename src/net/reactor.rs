//! The loop's end at the sockets.
//!
//! Sockets are registered once, edge-triggered, for reading and writing. What an edge promises is remembered in the
//! connection until the socket is exhausted; a connection that has had its share of a turn waits for the next one, so
//! that no edge is lost and no client holds up the others.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Registry, Token};

use super::fetch::{Fetcher, Fetching};
use super::limits::{IsTrusted, Limits};
use super::listeners::Listeners;
use super::machine::{Event, ListenerId, Machine, Moment};
use super::server::{Server, Stats};
use super::shared::SharedPool;

/// Tokens from 0 to this are left to the loop, for signals and the like.
pub const EXTERNAL_TOKENS: usize = 16;

/// Listening sockets of one reactor; `listen` refuses a further one.
pub const MAX_LISTENERS: usize = 16;

/// First token of requests to other servers; those of connections come behind.
const FIRST_FETCH: usize = EXTERNAL_TOKENS + MAX_LISTENERS;

/// Events taken from one poll; the rest comes with the next.
const EVENTS_PER_TURN: usize = 1024;

/// Connections let in in a turn, and the time for which others are closed as they come.
const ACCEPTS_PER_TURN: usize = 64;
const ACCEPTING_TIME: Duration = Duration::from_millis(1);

/// Time for which connections are served between two looks at the sockets, and for which output is written.
const SERVING_TIME: Duration = Duration::from_millis(2);
const FLUSHING_TIME: Duration = Duration::from_millis(1);

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

/// Listeners, and a server whose connections are sockets of the system.
pub struct Reactor {
    poll: Poll,
    events: Events,
    listeners: Listeners,
    /// Token of the connection in slot 0.
    first_connection: usize,
    server: Server<TcpStream>,
    started: Instant,
    now: Instant,
    /// When the last look at the sockets has ended, until it is counted how long the round took that has followed.
    looked: Option<Instant>,
    sweep_interval: Duration,
    next_sweep: Instant,
}

impl Reactor {
    /// A reactor that listens on nothing yet. Proxies for which `trusted` says so name the callers whose requests they
    /// pass on; `fetching` is how requests to other servers are made.
    pub fn new(limits: Limits, trusted: IsTrusted, fetching: Fetching) -> io::Result<Self> {
        let fetcher = Fetcher::new(fetching, FIRST_FETCH);
        let (now, sweep_interval) = (Instant::now(), limits.sweep_interval());
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(EVENTS_PER_TURN),
            listeners: Listeners::default(),
            first_connection: fetcher.tokens().end,
            server: Server::new(limits, trusted, fetcher, now),
            started: now,
            now,
            looked: None,
            sweep_interval,
            next_sweep: now + sweep_interval,
        })
    }

    /// Listens on `address`, where connections are known to come in by `id`. Several addresses may have the same id.
    /// At most `most` connections are open by that id at a time, and never more than [`Limits::connections`] in all.
    /// Gives the address with the port that the system chose if it was 0.
    pub fn listen(&mut self, id: ListenerId, address: SocketAddr, most: usize) -> io::Result<SocketAddr> {
        let index = self.listeners.len();
        if index >= MAX_LISTENERS {
            let message = format!("no more than {MAX_LISTENERS} listeners");
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        self.server.set_max(id, most);
        let token = Token(EXTERNAL_TOKENS + index);
        self.listeners.open(id, address, self.poll.registry(), token, self.server.write_stall())
    }

    /// Other limits count from now on, and other proxies are trusted; by how much of its address a caller is known stays.
    /// Nobody loses a connection by that at once. `most` are open at a time by each listener.
    pub fn change(&mut self, limits: Limits, trusted: IsTrusted, most: impl IntoIterator<Item = (ListenerId, usize)>) {
        self.sweep_interval = limits.sweep_interval();
        self.next_sweep = self.next_sweep.min(self.now + self.sweep_interval);
        self.server.change(limits, trusted);
        most.into_iter().for_each(|(id, most)| self.server.set_max(id, most));
    }

    /// Where other sources can be registered, with tokens below [`EXTERNAL_TOKENS`]. [`Turn`] tells of their readiness.
    pub fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Counts bytes that are sent to many, for [`Limits::shared_bytes`].
    pub fn shared_pool(&self) -> SharedPool {
        self.server.shared_pool()
    }

    /// The present.
    pub fn moment(&self) -> Moment {
        Moment { unix_millis: unix_millis(), running: self.started.elapsed() }
    }

    /// Figures at this moment.
    pub fn stats(&self) -> Stats {
        self.server.stats()
    }

    /// Waits until something is ready, the machine wants a turn, a timer is due or `patience` ends; then deals with
    /// all that is ready and due.
    pub fn turn(&mut self, patience: Duration, machine: &mut impl Machine) -> io::Result<Turn> {
        self.count_round();
        let timeout = self.poll_timeout(patience);
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => self.events.clear(),
            result => result?,
        }
        self.set_time();
        self.looked = Some(self.now);
        let turn = self.sort_events();
        self.accept();
        self.serve(machine);
        self.fetch(machine);
        if self.now >= self.next_sweep {
            self.next_sweep = self.now + self.sweep_interval;
            self.listeners.try_again();
            self.server.sweep();
        }
        self.server.report_gone(machine);
        Ok(turn)
    }

    /// Has the machine work, then writes what is to be sent. How long the machine took.
    pub fn work(&mut self, machine: &mut impl Machine, budget: u32, took: Duration) -> Duration {
        self.set_time();
        self.server.turn(machine, budget, took);
        let took = self.now.elapsed();
        self.flush(FLUSHING_TIME);
        self.server.report_gone(machine);
        took
    }

    /// Whether the machine wants another turn at once.
    pub fn has_work(&self) -> bool {
        self.server.wake_at().is_some_and(|at| at <= self.now - self.started)
    }

    /// Stops listening, closes websockets with 1001 and idle connections at once, and the others after their next
    /// answer. Turns go on until `stats().connections` is 0 or patience ends.
    pub fn shutdown(&mut self) {
        self.listeners.stop();
        self.server.shutdown();
        self.flush(Duration::MAX);
    }

    fn set_time(&mut self) {
        self.now = Instant::now();
        let moment = Moment { unix_millis: unix_millis(), running: self.now - self.started };
        self.server.set_time(self.now, moment);
    }

    /// Counts the round that ends with the next look at the sockets.
    fn count_round(&mut self) {
        if let Some(looked) = self.looked.take() {
            let now = Instant::now();
            self.server.connections.counts.went_round(now - looked, now - self.started);
        }
    }

    fn poll_timeout(&self, patience: Duration) -> Duration {
        let fetcher = &self.server.connections.fetcher;
        if self.server.has_work() || self.listeners.has_ready() || fetcher.has_work() {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let is_idle = self.server.stats().connections == 0 && !self.listeners.has_failed();
        let sweep = (!is_idle).then_some(self.next_sweep);
        let running = [self.server.wake_at(), self.server.next_regained()].map(|at| self.started.checked_add(at?));
        let due = [sweep, fetcher.next_due()].into_iter().chain(running).flatten().min();
        due.map_or(patience, |due| due.saturating_duration_since(now).min(patience))
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
            } else if token < self.first_connection {
                self.server.connections.fetcher.notice(event);
            } else {
                let slot = token - self.first_connection;
                self.server.notice(slot, event.into());
                if let Some(socket) = self.server.mute(slot) {
                    // Where that fails, it is told of what comes in vain.
                    let _ = self.poll.registry().reregister(socket, event.token(), Interest::WRITABLE);
                }
            }
        }
        turn
    }

    fn accept(&mut self) {
        let mut let_in = 0;
        for looked in 1.. {
            let is_time_over = looked % ACCEPTS_PER_TURN == 0 && self.now.elapsed() >= ACCEPTING_TIME;
            if let_in == ACCEPTS_PER_TURN || is_time_over {
                return;
            }
            let Some((id, socket, peer)) = self.listeners.accept() else { return };
            // Closing those that are not let in costs little, and those behind them wait for it.
            let Some(slot) = self.server.admit(socket, id, peer.ip()) else { continue };
            let_in += 1;
            let Some(socket) = self.server.socket(slot) else { continue };
            let token = Token(self.first_connection + slot);
            let interest = Interest::READABLE | Interest::WRITABLE;
            if let Err(error) = self.poll.registry().register(socket, token, interest) {
                log::warn!("cannot serve {peer}: {error}");
                self.server.remove(slot);
            }
        }
    }

    /// Serves connections in turn until none is left or the time is over.
    fn serve(&mut self, machine: &mut impl Machine) {
        while self.server.serve_next(machine) {
            if self.now.elapsed() >= SERVING_TIME {
                break;
            }
        }
        while let Some((slot, socket)) = self.server.unmute() {
            let (token, interest) = (Token(self.first_connection + slot), Interest::READABLE | Interest::WRITABLE);
            if let Err(error) = self.poll.registry().reregister(socket, token, interest) {
                log::warn!("cannot serve a connection any more: {error}");
                self.server.remove(slot);
            }
        }
        self.flush(FLUSHING_TIME);
    }

    /// Deals with requests to other servers.
    fn fetch(&mut self, machine: &mut impl Machine) {
        let connections = &mut self.server.connections;
        connections.fetcher.work(self.poll.registry(), self.now);
        while let Some((fetch, result)) = connections.fetcher.next_done() {
            let moment = connections.moment;
            machine.handle(Event::Fetched { fetch, result }, moment, connections);
        }
    }

    /// Writes fresh output for a while.
    fn flush(&mut self, time: Duration) {
        /// Connections between two looks at the clock.
        const BETWEEN_LOOKS: usize = 8;
        let waiting = self.server.unflushed();
        if waiting == 0 {
            return;
        }
        let begun = Instant::now();
        for count in 1..=waiting {
            self.server.flush_next();
            if count % BETWEEN_LOOKS == 0 && begun.elapsed() >= time {
                break;
            }
        }
    }
}

fn unix_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64)
}
