//! What a connection needs of its socket.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use mio::net::TcpStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::net::sockopt;

/// Bytes of the buffers of a connection, which the system doubles for what it needs besides. What is on its way to a
/// client, a tenth of a second away say, must fit into the first, and it is all that its client can make the system hold:
/// 1 MiB and more a second.
pub(super) const SEND_BUFFER: usize = 128 * 1024;
pub(super) const RECEIVE_BUFFER: usize = 64 * 1024;
/// Bytes that the system takes beyond what it can send at once, besides the piece that goes beyond it: a client that
/// reads nothing makes it hold a piece, 48 KiB on a loopback, and not the send buffer.
pub(super) const SENT_AHEAD: u32 = 4 * 1024;
/// Most bytes that a connection can make the system hold of what is sent.
pub(super) const MOST_UNSENT: usize = 2 * SEND_BUFFER;
/// A send buffer in which hardly anything has room: whoever can be written to has taken everything.
const SMALL_BUFFER: usize = 2 * 1024;
/// Bytes of memory that the system may need for each that was received, in small pieces.
const MEMORY_PER_BYTE: usize = 2;

/// The end of a connection. Neither reading nor writing waits: both fail with
/// [`WouldBlock`](io::ErrorKind::WouldBlock) instead.
pub trait Socket: Read + Write {
    /// Tells the other end that nothing more will be written.
    fn end_writing(&mut self) -> io::Result<()>;

    /// Has the system forget what it has not sent when the socket is closed, and tell the other end of the end at once.
    fn discard_unsent(&mut self) {}

    /// Whether the system has sent all that was written but for a little.
    fn has_sent(&mut self) -> bool {
        true
    }

    /// Whether the other end has taken all that was written but for a little.
    fn is_drained(&mut self) -> bool {
        true
    }

    /// Bytes of memory that the system may hold for what has not been read.
    fn unread_bytes(&mut self) -> usize {
        0
    }
}

impl Socket for TcpStream {
    fn end_writing(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn discard_unsent(&mut self) {
        // Where that fails, the system forgets it later.
        let _ = sockopt::set_socket_linger(&*self, Some(Duration::ZERO));
    }

    fn has_sent(&mut self) -> bool {
        let mut sockets = [PollFd::new(&*self, PollFlags::OUT)];
        let waiting = poll(&mut sockets, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        waiting.is_ok_and(|ready| ready > 0)
    }

    fn is_drained(&mut self) -> bool {
        // There is no other way to ask without unsafe code: the system says whether there is room.
        let is_small = sockopt::set_socket_send_buffer_size(&*self, SMALL_BUFFER).is_ok();
        let has_sent = self.has_sent();
        let _ = sockopt::set_socket_send_buffer_size(&*self, SEND_BUFFER);
        is_small && has_sent
    }

    fn unread_bytes(&mut self) -> usize {
        let bytes = ioctl_fionread(&*self).map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        bytes.saturating_mul(MEMORY_PER_BYTE).min(2 * RECEIVE_BUFFER)
    }
}
