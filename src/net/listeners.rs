//! The sockets that are listened on, and who is let in.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};

use super::connection::Connection;
use super::connections::Connections;
use super::forwarded::Trust;
use super::http::HttpError;
use super::machine::ListenerId;

/// Connections accepted in a turn.
const ACCEPTS_PER_TURN: usize = 64;

/// Connections that the system keeps until they are accepted, as far as its own limit allows. Beyond it a client must
/// try again after a second; the usual 128 are exceeded by clients that reconnect all at once.
const ACCEPT_QUEUE: i32 = 4096;

/// Connections at a time that are turned away with an answer that the client can read; further ones are just closed.
pub const TURNED_AWAY_AT_ONCE: usize = 64;

struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    id: ListenerId,
    max_connections: usize,
    /// There may be more to accept.
    is_ready: bool,
}

/// All of them.
#[derive(Default)]
pub(super) struct Listeners {
    all: Vec<Listener>,
    /// Connections by the number of their listener's id.
    connections: Vec<usize>,
    turned_away: usize,
    /// Accepting has failed for lack of something; the next sweep tries again.
    has_failed: bool,
    accepted_in_turn: usize,
    /// The listener that was served last.
    last: usize,
}

impl Listeners {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Opens one more. The address it is bound to, with the port that the system chose if it was 0.
    pub fn open(
        &mut self,
        id: ListenerId,
        address: SocketAddr,
        max_connections: usize,
        registry: &Registry,
        token: Token,
    ) -> io::Result<SocketAddr> {
        let mut socket = TcpListener::bind(address)?;
        // Listening again changes nothing but the length of the queue.
        rustix::net::listen(&socket, ACCEPT_QUEUE)?;
        registry.register(&mut socket, token, Interest::READABLE)?;
        let address = socket.local_addr()?;
        self.all.push(Listener { socket, address, id, max_connections, is_ready: false });
        if self.connections.len() <= id.0 {
            self.connections.resize(id.0 + 1, 0);
        }
        Ok(address)
    }

    /// Stops listening.
    pub fn stop(&mut self) {
        self.all.clear();
    }

    /// A listener has connections to accept.
    pub fn notice(&mut self, index: usize) {
        if let Some(listener) = self.all.get_mut(index) {
            listener.is_ready = true;
        }
    }

    pub fn has_ready(&self) -> bool {
        self.all.iter().any(|listener| listener.is_ready)
    }

    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Tries again where accepting has failed.
    pub fn try_again(&mut self) {
        if std::mem::take(&mut self.has_failed) {
            self.all.iter_mut().for_each(|listener| listener.is_ready = true);
        }
    }

    /// Takes in the next connection of this turn and gives its slot; none if there are no more, or enough for a turn.
    pub fn accept(&mut self, connections: &mut Connections, trust: &Trust) -> Option<usize> {
        while self.accepted_in_turn < ACCEPTS_PER_TURN {
            let count = self.all.len();
            let Some(index) = (1..=count).map(|step| (self.last + step) % count).find(|index| self.all[*index].is_ready)
            else {
                break;
            };
            let listener = &mut self.all[index];
            self.accepted_in_turn += 1;
            self.last = index;
            match listener.socket.accept() {
                Ok((socket, peer)) => {
                    let slot = self.take_in(index, socket, peer, connections, trust);
                    if slot.is_some() {
                        return slot;
                    }
                }
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    if error.kind() != ErrorKind::WouldBlock {
                        // Most likely out of file descriptors.
                        log::warn!("cannot accept on {}: {error}", listener.address);
                        self.has_failed = true;
                    }
                    listener.is_ready = false;
                }
            }
        }
        self.accepted_in_turn = 0;
        None
    }

    /// Lets a connection in, or has it told that there is no room for it.
    fn take_in(
        &mut self,
        index: usize,
        socket: TcpStream,
        peer: SocketAddr,
        connections: &mut Connections,
        trust: &Trust,
    ) -> Option<usize> {
        let Listener { id, max_connections, .. } = self.all[index];
        let (peer, now) = (peer.ip().to_canonical(), connections.moment.running);
        let account = connections.callers.account(peer, false, now);
        if connections.callers.is_banned(account, now) {
            return None;
        }
        let open = connections.slab.len() - self.turned_away;
        let has_room = self.connections[id.0] < max_connections && open < connections.limits.connections;
        // A proxy has the connections of many.
        let is_let_in = has_room && (connections.callers.may_connect(account) || trust.is_trusted(peer));
        if !is_let_in {
            connections.stats.refused += 1;
            if self.turned_away >= TURNED_AWAY_AT_ONCE {
                return None;
            }
        }
        let slot = connections.insert(socket, id, peer, account);
        if is_let_in {
            self.connections[id.0] += 1;
            connections.stats.accepted += 1;
        } else {
            self.turned_away += 1;
            connections.slab[slot].is_turned_away = true;
            connections.refuse(slot, HttpError::Overloaded);
        }
        Some(slot)
    }

    /// A connection is gone.
    pub fn closed(&mut self, connection: &Connection) {
        if connection.is_turned_away {
            self.turned_away -= 1;
        } else if let Some(count) = self.connections.get_mut(connection.listener.0) {
            *count -= 1;
        }
    }
}

/// Whether accepting failed because of the one connection that was to be accepted.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted)
}
