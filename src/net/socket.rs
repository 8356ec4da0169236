//! Socket operations needed by connections.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use mio::net::TcpStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::net::sockopt;

/// Sizes of the kernel buffers of a connection, which Linux doubles for bookkeeping. The send buffer must hold the
/// bytes in flight, at a round trip of 100 ms enough for more than 1 MiB/s, and limits what a client can make the
/// kernel hold.
pub(super) const SEND_BUFFER: usize = 128 * 1024;
pub(super) const RECEIVE_BUFFER: usize = 64 * 1024;
/// Unsent bytes that the kernel accepts beyond what it can send at once, besides the segment that exceeds it. A client
/// that reads nothing makes it hold one segment (48 KiB on loopback) instead of the send buffer.
pub(super) const NOTSENT_LOWAT: u32 = 4 * 1024;
/// Maximum kernel memory for the written bytes of a connection.
pub(super) const MAX_UNSENT: usize = 2 * SEND_BUFFER;
/// A send buffer with hardly any space: if it is writable, everything was acknowledged.
const SMALLEST_PROBE: usize = 2 * 1024;
/// Send buffer sizes for measuring larger amounts, in descending order.
const PROBE_SIZES: [usize; 2] = [64 * 1024, 16 * 1024];
/// Kernel memory per received byte, for small packets.
const MEMORY_PER_BYTE: usize = 2;

/// Whether a short read or write means that the socket is exhausted, which saves the call that would return
/// `WouldBlock`. epoll(7) guarantees it for edge-triggered stream sockets.
pub(super) const SHORT_IS_EXHAUSTED: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Readiness of an edge-triggered socket, remembered until the socket is exhausted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Data can be read.
    pub readable: bool,
    /// Data can be written.
    pub writable: bool,
    /// The other end has closed its side; read until the end is seen.
    pub read_closed: bool,
    /// Nothing can be sent any more.
    pub broken: bool,
}

impl From<&mio::event::Event> for Readiness {
    fn from(event: &mio::event::Event) -> Readiness {
        Readiness {
            readable: event.is_readable(),
            writable: event.is_writable(),
            read_closed: event.is_read_closed() || event.is_error(),
            broken: event.is_write_closed(),
        }
    }
}

impl Readiness {
    /// Adds what an event reports.
    pub(super) fn add(&mut self, reported: Readiness) {
        self.read_closed |= reported.read_closed;
        self.readable |= reported.readable || self.read_closed;
        self.writable |= reported.writable;
        self.broken |= reported.broken;
    }

    /// Reads once. Returns the number of bytes, 0 at the end of the stream, `None` if there are none now.
    pub(super) fn read(&mut self, socket: &mut impl Read, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match socket.read(buffer) {
            Ok(count) => {
                // The end of the stream is reported only once, perhaps together with these bytes, so it must be read
                // too.
                if count < buffer.len() && SHORT_IS_EXHAUSTED && !self.read_closed {
                    self.readable = false;
                }
                Ok(Some(count))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(None)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A non-blocking stream socket: reading and writing fail with [`WouldBlock`](io::ErrorKind::WouldBlock) instead of
/// waiting.
pub trait Socket: Read + Write {
    /// Shuts down the writing side.
    fn end_writing(&mut self) -> io::Result<()>;

    /// Makes closing the socket discard unsent bytes and reset the connection.
    fn discard_unsent(&mut self) {}

    /// Returns an upper bound on the kernel memory for written, unacknowledged bytes; 0 if it is small. With
    /// `is_all_written`, the socket becomes writable once less is held. Cannot be measured after
    /// [`end_writing`](Self::end_writing).
    fn unsent_bytes(&mut self, is_all_written: bool) -> usize {
        let _ = is_all_written;
        0
    }

    /// Returns an upper bound on the kernel memory for bytes that were not read.
    fn unread_bytes(&mut self) -> usize {
        0
    }
}

impl Socket for TcpStream {
    fn end_writing(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn discard_unsent(&mut self) {
        // If this fails, the kernel discards them later.
        let _ = sockopt::set_socket_linger(&*self, Some(Duration::ZERO));
    }

    fn unsent_bytes(&mut self, is_all_written: bool) -> usize {
        let held = measure_unsent(self);
        if !is_all_written {
            let _ = sockopt::set_socket_send_buffer_size(&*self, SEND_BUFFER);
            set_notsent_lowat(self, NOTSENT_LOWAT);
        }
        held
    }

    fn unread_bytes(&mut self) -> usize {
        let bytes = ioctl_fionread(&*self).map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        bytes.saturating_mul(MEMORY_PER_BYTE).min(2 * RECEIVE_BUFFER)
    }
}

/// Implements [`Socket::unsent_bytes`] without unsafe code, by changing the send buffer size: the socket is writable if
/// two thirds of twice the size exceed what is held. Leaves the last size without space set.
fn measure_unsent(socket: &TcpStream) -> usize {
    let has_room = |size| {
        let is_set = sockopt::set_socket_send_buffer_size(socket, size).is_ok();
        let mut sockets = [PollFd::new(socket, PollFlags::OUT)];
        let waiting = poll(&mut sockets, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        is_set && waiting.is_ok_and(|ready| ready > 0)
    };
    // Bytes that were not even sent have no space either.
    if has_room(SMALLEST_PROBE) {
        return 0;
    }
    set_notsent_lowat(socket, u32::MAX);
    let mut held = MAX_UNSENT;
    for size in PROBE_SIZES {
        if !has_room(size) {
            return held;
        }
        held = 2 * size / 3 * 2;
    }
    if has_room(SMALLEST_PROBE) { 0 } else { held }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn set_notsent_lowat(socket: &TcpStream, bytes: u32) {
    // If this fails, more seems to be held.
    let _ = socket2::SockRef::from(socket).set_tcp_notsent_lowat(bytes);
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn set_notsent_lowat(_: &TcpStream, _: u32) {}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use mio::{Events, Interest, Poll, Token};
    use socket2::{Domain, SockRef, Type};

    use super::*;

    /// Returns both ends of a connection: one with the options of a listener, and one with a small receive buffer.
    fn ends() -> (TcpStream, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let options = SockRef::from(&listener);
        options.set_send_buffer_size(SEND_BUFFER).unwrap();
        options.set_tcp_notsent_lowat(NOTSENT_LOWAT).unwrap();
        let client = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        client.set_recv_buffer_size(4096).unwrap();
        client.connect(&listener.local_addr().unwrap().into()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        (TcpStream::from_std(accepted), client.into())
    }

    fn write_all(socket: &mut TcpStream) -> usize {
        let (mut count, bytes) = (0, vec![b'x'; SEND_BUFFER]);
        while let Ok(written) = socket.write(&bytes) {
            count += written;
        }
        count
    }

    #[test]
    fn unsent_bytes_are_counted_until_the_other_end_has_read_them() {
        let (mut socket, mut client) = ends();
        assert_eq!(socket.unsent_bytes(false), 0);
        // The kernel has not sent all of this, and takes no more now.
        assert_eq!(socket.write(&[b'x'; 8000]).unwrap(), 8000);
        let held = socket.unsent_bytes(false);
        assert!((1..PROBE_SIZES[0]).contains(&held), "{held}");
        client.read_exact(&mut [0; 8000]).unwrap();
        // Only the size of the buffer is limited.
        set_notsent_lowat(&socket, u32::MAX);
        let written = write_all(&mut socket);
        assert!(written > SEND_BUFFER, "{written}");
        assert_eq!(socket.unsent_bytes(false), MAX_UNSENT);
        assert!(socket.write(b"x").is_err(), "it holds as much as before");
        let mut taken = vec![0; written];
        let mut seen = Vec::new();
        let mut at = 0;
        while at < written {
            at += client.read(&mut taken[at..]).unwrap();
            seen.push(socket.unsent_bytes(false));
        }
        assert!(seen.iter().any(|held| (1..MAX_UNSENT).contains(held)), "{seen:?}");
        // The acknowledgement may take a moment.
        let begun = std::time::Instant::now();
        while socket.unsent_bytes(false) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(20), "all was taken");
        }
        assert!(socket.write(&[b'x'; 20_000]).unwrap() > 4096, "its buffer is what it was");
    }

    #[test]
    fn a_full_socket_becomes_writable_when_the_other_end_has_read() {
        let (mut socket, mut client) = ends();
        let mut poll = Poll::new().unwrap();
        let mut events = Events::with_capacity(8);
        poll.registry().register(&mut socket, Token(0), Interest::READABLE | Interest::WRITABLE).unwrap();
        let written = write_all(&mut socket);
        assert!(socket.unsent_bytes(true) > 0);
        poll.poll(&mut events, Some(Duration::from_millis(20))).unwrap();
        assert!(events.iter().all(|event| !event.is_writable()), "nothing has been taken");
        client.read_exact(&mut vec![0; written]).unwrap();
        let begun = std::time::Instant::now();
        while socket.unsent_bytes(true) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(20), "it never becomes writable");
            poll.poll(&mut events, Some(Duration::from_secs(20))).unwrap();
            assert!(events.iter().any(|event| event.is_writable()));
        }
    }
}
