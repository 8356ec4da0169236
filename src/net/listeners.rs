//! Listening sockets.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use socket2::SockRef;

use super::service::ListenerId;
#[cfg(any(target_os = "linux", target_os = "android"))]
use super::socket::NOTSENT_LOWAT;
use super::socket::{RECEIVE_BUFFER, SEND_BUFFER};

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
pub(super) struct Listeners {
    all: Vec<Listener>,
    /// Accepting failed, for example for lack of file descriptors; the next sweep retries.
    has_failed: bool,
    /// The listener that was served last.
    last_served: usize,
}

impl Listeners {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Opens a listener. The kernel drops a client that acknowledges nothing for `write_stall`. Returns the bound
    /// address, with the port that the system chose if it was 0.
    pub fn open(
        &mut self,
        id: ListenerId,
        address: SocketAddr,
        registry: &Registry,
        token: Token,
        write_stall: Duration,
    ) -> io::Result<SocketAddr> {
        let mut socket = TcpListener::bind(address)?;
        // Connections inherit these from their listener.
        let options = SockRef::from(&socket);
        options.set_tcp_nodelay(true)?;
        options.set_send_buffer_size(SEND_BUFFER)?;
        options.set_recv_buffer_size(RECEIVE_BUFFER)?;
        if let Err(error) = limit_unsent(&options, write_stall) {
            log::info!(
                "the system cannot limit unsent data of a connection other than by the size of its buffer: {error}"
            );
        }
        // Listening again only changes the length of the queue.
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

    /// Marks a listener as ready.
    pub fn set_ready(&mut self, index: usize) {
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

    /// Retries after a failure to accept.
    pub fn retry_failed(&mut self) {
        if std::mem::take(&mut self.has_failed) {
            self.all.iter_mut().for_each(|listener| listener.is_ready = true);
        }
    }

    /// Accepts the next connection, from each listener in turn; `None` if there are no more now.
    pub fn accept(&mut self) -> Option<(ListenerId, TcpStream, SocketAddr)> {
        let count = self.all.len();
        while let Some(index) =
            (1..=count).map(|step| (self.last_served + step) % count).find(|index| self.all[*index].is_ready)
        {
            let listener = &mut self.all[index];
            self.last_served = index;
            match listener.socket.accept() {
                Ok((socket, peer)) => return Some((listener.id, socket, peer)),
                Err(error) if is_connection_error(&error) => {}
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

/// Returns whether accepting failed because of the one connection.
fn is_connection_error(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted)
}
