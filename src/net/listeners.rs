//! The sockets that are listened on.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use socket2::SockRef;

use super::machine::ListenerId;
#[cfg(any(target_os = "linux", target_os = "android"))]
use super::socket::SENT_AHEAD;
use super::socket::{RECEIVE_BUFFER, SEND_BUFFER};

/// Connections that the system keeps until they are accepted, as far as its own limit allows. Beyond it a client must
/// try again after a second; the usual 128 are exceeded by clients that reconnect all at once.
const ACCEPT_QUEUE: i32 = 4096;

struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    id: ListenerId,
    /// There may be more to accept.
    is_ready: bool,
}

/// All of them.
#[derive(Default)]
pub(super) struct Listeners {
    all: Vec<Listener>,
    /// Accepting has failed for lack of something; the next sweep tries again.
    has_failed: bool,
    /// The listener that was served last.
    last: usize,
}

impl Listeners {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Opens one more, whose clients may take nothing for so long before the system gives up on them. The address it is
    /// bound to, with the port that the system chose if it was 0.
    pub fn open(
        &mut self,
        id: ListenerId,
        address: SocketAddr,
        registry: &Registry,
        token: Token,
        write_stall: Duration,
    ) -> io::Result<SocketAddr> {
        let mut socket = TcpListener::bind(address)?;
        // Connections get these from their listener.
        let options = SockRef::from(&socket);
        options.set_tcp_nodelay(true)?;
        options.set_send_buffer_size(SEND_BUFFER)?;
        options.set_recv_buffer_size(RECEIVE_BUFFER)?;
        if let Err(error) = bound_unsent(&options, write_stall) {
            log::info!(
                "the system does not let what it buffers for a connection be bounded by more than its size: {error}"
            );
        }
        // Listening again changes nothing but the length of the queue.
        rustix::net::listen(&socket, ACCEPT_QUEUE)?;
        registry.register(&mut socket, token, Interest::READABLE)?;
        let address = socket.local_addr()?;
        self.all.push(Listener { socket, address, id, is_ready: false });
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

    /// The next connection, of each listener in turn; none if there are no more for now.
    pub fn accept(&mut self) -> Option<(ListenerId, TcpStream, SocketAddr)> {
        let count = self.all.len();
        while let Some(index) =
            (1..=count).map(|step| (self.last + step) % count).find(|index| self.all[*index].is_ready)
        {
            let listener = &mut self.all[index];
            self.last = index;
            match listener.socket.accept() {
                Ok((socket, peer)) => return Some((listener.id, socket, peer)),
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
        None
    }
}

/// Has the system take no more than it can send, and keep for no longer than a time what the other end does not take,
/// even when the socket is closed.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn bound_unsent(options: &SockRef<'_>, write_stall: Duration) -> io::Result<()> {
    options.set_tcp_notsent_lowat(SENT_AHEAD)?;
    options.set_tcp_user_timeout(Some(write_stall))
}

/// Elsewhere the size of the buffer is the bound.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn bound_unsent(_: &SockRef<'_>, _: Duration) -> io::Result<()> {
    Ok(())
}

/// Whether accepting failed because of the one connection that was to be accepted.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted)
}
