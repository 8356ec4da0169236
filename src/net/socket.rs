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
/// Larger ones by which it is found out how much is held, in falling order.
const MEASURES: [usize; 2] = [64 * 1024, 16 * 1024];
/// Bytes of memory that the system may need for each that was received, in small pieces.
const MEMORY_PER_BYTE: usize = 2;

/// The end of a connection. Neither reading nor writing waits: both fail with
/// [`WouldBlock`](io::ErrorKind::WouldBlock) instead.
pub trait Socket: Read + Write {
    /// Tells the other end that nothing more will be written.
    fn end_writing(&mut self) -> io::Result<()>;

    /// Has the system forget what it has not sent when the socket is closed, and tell the other end of the end at once.
    fn discard_unsent(&mut self) {}

    /// Bytes of memory that the system may hold for what was written and the other end has not taken, at most; none if
    /// that is only a little. Where nothing more is to be written, the socket becomes writable once fewer are held. After
    /// the end of writing nobody can tell.
    fn unsent_bytes(&mut self, is_all_written: bool) -> usize {
        let _ = is_all_written;
        0
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

    fn unsent_bytes(&mut self, is_all_written: bool) -> usize {
        let held = measure_unsent(self);
        if !is_all_written {
            let _ = sockopt::set_socket_send_buffer_size(&*self, SEND_BUFFER);
            set_sent_ahead(self, SENT_AHEAD);
        }
        held
    }

    fn unread_bytes(&mut self) -> usize {
        let bytes = ioctl_fionread(&*self).map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        bytes.saturating_mul(MEMORY_PER_BYTE).min(2 * RECEIVE_BUFFER)
    }
}

/// What [`Socket::unsent_bytes`] tells. There is no other way to ask without unsafe code: the system says whether a buffer
/// has room, which it has if two thirds of twice its size are enough for what is held. The size that has none is left.
fn measure_unsent(socket: &TcpStream) -> usize {
    let has_room = |size| {
        let is_set = sockopt::set_socket_send_buffer_size(socket, size).is_ok();
        let mut sockets = [PollFd::new(socket, PollFlags::OUT)];
        let waiting = poll(&mut sockets, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        is_set && waiting.is_ok_and(|ready| ready > 0)
    };
    // What has not even been sent has no room either.
    if has_room(SMALL_BUFFER) {
        return 0;
    }
    set_sent_ahead(socket, u32::MAX);
    let mut held = MOST_UNSENT;
    for size in MEASURES {
        if !has_room(size) {
            return held;
        }
        held = 2 * size / 3 * 2;
    }
    if has_room(SMALL_BUFFER) { 0 } else { held }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn set_sent_ahead(socket: &TcpStream, bytes: u32) {
    // Where that fails, more seems to be held.
    let _ = socket2::SockRef::from(socket).set_tcp_notsent_lowat(bytes);
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn set_sent_ahead(_: &TcpStream, _: u32) {}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use mio::{Events, Interest, Poll, Token};
    use socket2::{Domain, SockRef, Type};

    use super::*;

    /// Both ends of a connection: one with the options of a listener, and one that takes in hardly anything unread.
    fn ends() -> (TcpStream, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let options = SockRef::from(&listener);
        options.set_send_buffer_size(SEND_BUFFER).unwrap();
        options.set_tcp_notsent_lowat(SENT_AHEAD).unwrap();
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
    fn what_the_other_end_has_not_taken_is_seen_and_that_it_has_taken_it() {
        let (mut socket, mut client) = ends();
        assert_eq!(socket.unsent_bytes(false), 0);
        // The system has not sent all of this, and takes no more for now.
        assert_eq!(socket.write(&[b'x'; 8000]).unwrap(), 8000);
        let held = socket.unsent_bytes(false);
        assert!((1..MEASURES[0]).contains(&held), "{held}");
        client.read_exact(&mut [0; 8000]).unwrap();
        // All that is bounded is the size of the buffer.
        set_sent_ahead(&socket, u32::MAX);
        let written = write_all(&mut socket);
        assert!(written > SEND_BUFFER, "{written}");
        assert_eq!(socket.unsent_bytes(false), MOST_UNSENT);
        assert!(socket.write(b"x").is_err(), "it holds as much as before");
        let mut taken = vec![0; written];
        let mut seen = Vec::new();
        let mut at = 0;
        while at < written {
            at += client.read(&mut taken[at..]).unwrap();
            seen.push(socket.unsent_bytes(false));
        }
        assert!(seen.iter().any(|held| (1..MOST_UNSENT).contains(held)), "{seen:?}");
        // It may take a moment until it is told.
        let begun = std::time::Instant::now();
        while socket.unsent_bytes(false) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(20), "all was taken");
        }
        assert!(socket.write(&[b'x'; 20_000]).unwrap() > 4096, "its buffer is what it was");
    }

    #[test]
    fn a_socket_that_all_is_written_to_becomes_writable_when_the_other_end_has_taken_it() {
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
