//! The event loop's side of the sockets.
//!
//! Sockets are registered once, edge-triggered, for reading and writing. Readiness is remembered in the connection
//! until the socket is exhausted. A connection whose budget is used up waits for its next turn, so that no edge is lost
//! and no client delays the others.

use std::io::{self, ErrorKind};
use std::net::{Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token};
use socket2::{Domain, SockRef, Socket, Type};

use super::Limits;
use super::fetch::{FetchLimits, Fetcher};
use super::server::Server;
use super::service::{Client, ListenerId, LoopTime, Service};
#[cfg(any(target_os = "linux", target_os = "android"))]
use super::socket::NOTSENT_LOWAT;
use super::socket::{RECEIVE_BUFFER, SEND_BUFFER};

/// Tokens below this are left to the event loop, for signals and the like.
pub const EXTERNAL_TOKENS: usize = 16;

/// Listening sockets of one reactor; `listen` fails beyond this.
pub const MAX_LISTENERS: usize = 16;

/// First token of requests to other servers; tokens of connections follow.
const FIRST_FETCH: usize = EXTERNAL_TOKENS + MAX_LISTENERS;

/// Events taken from one poll; the rest comes with the next.
const EVENTS_PER_POLL: usize = 1024;

/// Connections admitted per turn, and the time spent on closing others on arrival.
const ACCEPTS_PER_TURN: usize = 64;
const ACCEPTING_TIME: Duration = Duration::from_millis(1);

/// Time for serving connections between two polls, and for writing output.
const SERVING_TIME: Duration = Duration::from_millis(2);
const FLUSHING_TIME: Duration = Duration::from_millis(1);

/// Which of the sources registered by the caller are ready, by their tokens.
type ExternalReadiness = [bool; EXTERNAL_TOKENS];

/// Listeners, and a server whose connections are TCP sockets.
pub struct Reactor {
    poll: Poll,
    events: Events,
    listeners: Listeners,
    /// Token of the connection in slot 0.
    first_connection: usize,
    /// The server; its time is that at which the last poll ended or the last tick began.
    pub server: Server<TcpStream>,
    started: Instant,
    now: Instant,
    /// When the last poll ended, until the duration of the iteration is counted.
    polled_at: Option<Instant>,
    next_sweep: Instant,
}

impl Reactor {
    /// Returns a reactor without listeners. `fetch_limits` are those of requests to other servers.
    pub fn new(limits: Limits, fetch_limits: FetchLimits) -> io::Result<Self> {
        let fetcher = Fetcher::new(fetch_limits, FIRST_FETCH);
        let now = Instant::now();
        let mut reactor = Self {
            poll: Poll::new()?,
            events: Events::with_capacity(EVENTS_PER_POLL),
            listeners: Listeners::default(),
            first_connection: fetcher.tokens().end,
            server: Server::new(limits, fetcher, Box::new(move || now.elapsed())),
            started: now,
            now,
            polled_at: None,
            next_sweep: now,
        };
        reactor.set_time();
        reactor.next_sweep += reactor.server.limits.sweep_interval();
        Ok(reactor)
    }

    /// Listens on `address`; its connections get the listener id `id`, which several addresses may share. Returns the bound
    /// address, with the port that the system chose if it was 0.
    pub fn listen(&mut self, id: ListenerId, address: SocketAddr) -> io::Result<SocketAddr> {
        let index = self.listeners.all.len();
        if index >= MAX_LISTENERS {
            let message = format!("at most {MAX_LISTENERS} listeners are allowed");
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        let mut socket = listening_socket(address, self.server.limits.write_stall)?;
        let token = Token(EXTERNAL_TOKENS + index);
        self.poll.registry().register(&mut socket, token, Interest::READABLE)?;
        let address = socket.local_addr()?;
        self.listeners.all.push(Listener { socket, address, id, is_ready: false });
        Ok(address)
    }

    /// Replaces the limits. Open connections stay.
    pub fn set_limits(&mut self, limits: Limits) {
        self.next_sweep = self.next_sweep.min(self.now + limits.sweep_interval());
        self.server.limits = limits;
    }

    /// Returns the registry for further sources, with tokens below [`EXTERNAL_TOKENS`]. [`poll`](Self::poll) returns their
    /// readiness.
    pub fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Waits until a socket is ready, the service wants a turn, a timer expires or `max_wait` is over, then handles
    /// everything ready and due.
    pub fn poll(&mut self, max_wait: Duration, service: &mut impl Service) -> io::Result<ExternalReadiness> {
        let now = Instant::now();
        if let Some(polled_at) = self.polled_at.take() {
            self.server.counters.count_iteration(now - polled_at, now - self.started);
        }
        let timeout = self.poll_timeout(now - self.started, max_wait);
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => self.events.clear(),
            result => result?,
        }
        self.set_time();
        self.polled_at = Some(self.now);
        let ready = self.dispatch_events();
        self.accept();
        self.serve(service);
        self.server.fetcher.work(self.poll.registry(), self.now - self.started);
        self.server.report_fetches(service);
        if self.now >= self.next_sweep {
            self.next_sweep = self.now + self.server.limits.sweep_interval();
            self.listeners.retry_failed();
            self.server.sweep();
        }
        self.server.report_disconnects(service);
        Ok(ready)
    }

    /// Gives the service its turn, then flushes. Returns how long the service took.
    pub fn tick(&mut self, service: &mut impl Service, budget: u32, last_tick: Duration) -> Duration {
        self.set_time();
        self.server.tick(service, budget, last_tick);
        let took = self.now.elapsed();
        self.flush(FLUSHING_TIME);
        self.server.report_disconnects(service);
        took
    }

    /// Returns whether the service wants another turn at once.
    pub fn has_work(&self) -> bool {
        self.server.wake_at.is_some_and(|at| at <= self.now - self.started)
    }

    /// Stops listening, closes websockets with code 1001 and idle connections at once, and all others after their next
    /// response. Call `poll` until `stats().connections` is 0 or the grace period is over.
    pub fn shutdown(&mut self) {
        self.listeners.all.clear();
        self.server.shutdown();
        self.flush(Duration::MAX);
    }

    fn set_time(&mut self) {
        self.now = Instant::now();
        self.server.time = LoopTime { unix_millis: unix_millis(), monotonic: self.now - self.started };
    }

    fn poll_timeout(&self, now: Duration, max_wait: Duration) -> Duration {
        let fetcher = &self.server.fetcher;
        if self.server.has_work() || self.listeners.all.iter().any(|listener| listener.is_ready) || fetcher.has_work() {
            return Duration::ZERO;
        }
        let is_idle = self.server.stats().connections == 0 && !self.listeners.has_failed;
        let sweep = (!is_idle).then_some(self.next_sweep - self.started);
        let timers = [sweep, fetcher.next_due(), self.server.wake_at, self.server.next_refill()];
        let due = timers.into_iter().flatten().min();
        due.map_or(max_wait, |due| due.saturating_sub(now).min(max_wait))
    }

    /// Dispatches the events of a poll.
    fn dispatch_events(&mut self) -> ExternalReadiness {
        let mut ready = [false; EXTERNAL_TOKENS];
        for event in &self.events {
            let Token(token) = event.token();
            if token < EXTERNAL_TOKENS {
                ready[token] = true;
            } else if token < FIRST_FETCH {
                if let Some(listener) = self.listeners.all.get_mut(token - EXTERNAL_TOKENS) {
                    listener.is_ready = true;
                }
            } else if token < self.first_connection {
                self.server.fetcher.set_readiness(event);
            } else {
                let slot = token - self.first_connection;
                self.server.set_readiness(slot, event.into());
                if let Some(socket) = self.server.mute(slot) {
                    // If this fails, the connection only gets useless events.
                    let _ = self.poll.registry().reregister(socket, event.token(), Interest::WRITABLE);
                }
            }
        }
        ready
    }

    fn accept(&mut self) {
        let mut admitted = 0;
        for attempt in 1.. {
            let is_time_over = attempt % ACCEPTS_PER_TURN == 0 && self.now.elapsed() >= ACCEPTING_TIME;
            if admitted == ACCEPTS_PER_TURN || is_time_over {
                return;
            }
            let had_failed = self.listeners.has_failed;
            let mut accepted = self.listeners.accept();
            // Without a free file descriptor, the connection that gives way makes one free.
            if self.listeners.has_failed && !had_failed && self.server.evict_connection() {
                self.listeners.retry_failed();
                accepted = self.listeners.accept();
            }
            let Some((socket, peer)) = accepted else { return };
            // Resetting a rejected connection is cheap, and others wait behind it.
            let Some(slot) = self.server.admit(socket, peer) else { continue };
            admitted += 1;
            let Some(socket) = self.server.socket(slot) else { continue };
            let token = Token(self.first_connection + slot);
            let interest = Interest::READABLE | Interest::WRITABLE;
            if let Err(error) = self.poll.registry().register(socket, token, interest) {
                log::warn!("cannot serve {}: {error}", peer.address);
                self.server.remove(slot);
            }
        }
    }

    /// Serves connections in turn until none is ready or the time is over.
    fn serve(&mut self, service: &mut impl Service) {
        let end = self.now - self.started + SERVING_TIME;
        while self.server.serve_next(service) && self.server.counted_until < end {}
        while let Some((slot, socket)) = self.server.unmute() {
            let (token, interest) = (Token(self.first_connection + slot), Interest::READABLE | Interest::WRITABLE);
            if let Err(error) = self.poll.registry().reregister(socket, token, interest) {
                log::warn!("cannot continue to serve a connection: {error}");
                self.server.remove(slot);
            }
        }
        self.flush(FLUSHING_TIME);
    }

    /// Flushes connections for at most `time`.
    fn flush(&mut self, time: Duration) {
        /// Connections between two readings of the clock.
        const FLUSHES_PER_CLOCK_READ: usize = 8;
        let waiting = self.server.dirty.len();
        if waiting == 0 {
            return;
        }
        let start = Instant::now();
        for count in 1..=waiting {
            self.server.flush_next();
            if count % FLUSHES_PER_CLOCK_READ == 0 && start.elapsed() >= time {
                break;
            }
        }
    }
}

/// Returns Unix time in milliseconds; 0 before its epoch.
pub fn unix_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64)
}

/// Length of the accept queue, as far as the system's own limit allows. Clients beyond it retry after a second; the
/// usual 128 are too few when many clients reconnect at once.
const ACCEPT_QUEUE: i32 = 4096;

struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    id: ListenerId,
    /// There may be connections to accept.
    is_ready: bool,
}

/// All listening sockets.
#[derive(Default)]
struct Listeners {
    all: Vec<Listener>,
    /// Accepting failed, for example for lack of file descriptors; the next sweep retries.
    has_failed: bool,
    /// The listener that was served last.
    last_served: usize,
}

impl Listeners {
    /// Retries after a failure to accept.
    pub fn retry_failed(&mut self) {
        if std::mem::take(&mut self.has_failed) {
            for listener in &mut self.all {
                listener.is_ready = true;
            }
        }
    }

    /// Accepts the next connection, from each listener in turn; `None` if there are no more now.
    pub fn accept(&mut self) -> Option<(TcpStream, Client)> {
        use ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
        let count = self.all.len();
        while let Some(index) =
            (1..=count).map(|step| (self.last_served + step) % count).find(|index| self.all[*index].is_ready)
        {
            let listener = &mut self.all[index];
            self.last_served = index;
            match listener.socket.accept() {
                Ok((socket, peer)) => {
                    let mut client = Client::direct(listener.id, peer.ip());
                    let own = socket.local_addr().map(|own| own.ip().to_canonical());
                    client.is_on_this_machine = own.is_ok_and(|own| own == client.address);
                    return Some((socket, client));
                }
                // It concerns the one connection.
                Err(error) if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) => {}
                Err(error) => {
                    if error.kind() != ErrorKind::WouldBlock {
                        // Most likely out of file descriptors.
                        log::warn!("cannot accept on {}: {}", listener.address, nisd_core::files::describe(&error));
                        self.has_failed = true;
                    }
                    listener.is_ready = false;
                }
            }
        }
        None
    }
}

/// Opens a listening socket. The kernel drops a client that acknowledges nothing for `write_stall`.
fn listening_socket(address: SocketAddr, write_stall: Duration) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        // All addresses are those of IPv4, too, whatever the default of the system.
        socket.set_only_v6(false)?;
    }
    // A restart gets the port although connections of the last run are not forgotten yet.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    // Connections inherit these from their listener.
    let options = SockRef::from(&socket);
    options.set_tcp_nodelay(true)?;
    options.set_send_buffer_size(SEND_BUFFER)?;
    options.set_recv_buffer_size(RECEIVE_BUFFER)?;
    if let Err(error) = limit_unsent(&options, write_stall) {
        log::info!("the system cannot limit unsent data of a connection other than by the size of its buffer: {error}");
    }
    socket.listen(ACCEPT_QUEUE)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Limits unsent bytes in the kernel, and the time for which it keeps unacknowledged ones, also after the socket is
/// closed.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn limit_unsent(options: &SockRef<'_>, write_stall: Duration) -> io::Result<()> {
    options.set_tcp_notsent_lowat(NOTSENT_LOWAT)?;
    options.set_tcp_user_timeout(Some(write_stall))
}

/// On other systems only the size of the buffer is a limit.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn limit_unsent(_: &SockRef<'_>, _: Duration) -> io::Result<()> {
    Ok(())
}
