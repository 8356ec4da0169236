//! The socket of a connection, with the kernel's buffers, and the buffers of this program: what a connection has received,
//! what it sends, and bytes that many connections send.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::mem;
use std::net::Shutdown;
use std::ops::{Deref, Range};
use std::rc::Rc;
use std::time::Duration;

use mio::net::TcpStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::net::sockopt;
use zeroize::{Zeroize, Zeroizing};

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
    /// `_is_all_written`, the socket becomes writable once less is held. Cannot be measured after
    /// [`end_writing`](Self::end_writing).
    fn unsent_bytes(&mut self, _is_all_written: bool) -> usize {
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

/// Received bytes that are not used up. It owns memory between turns of the reactor only if bytes are unread: see
/// [`acquire`](Self::acquire).
///
/// Input may contain a private key, so all bytes are wiped when they are moved, taken or dropped.
#[derive(Debug, Default)]
pub struct RecvBuffer {
    bytes: Zeroizing<Vec<u8>>,
    /// Offset of the first unread byte.
    start: usize,
    /// Expected total of unread bytes; the buffer does not grow beyond it needlessly.
    pub expected: usize,
}

impl RecvBuffer {
    /// Appends received bytes and removes taken ones.
    pub fn receive(&mut self, bytes: &[u8]) {
        let taken = mem::take(&mut self.start);
        if taken > 0 {
            self.close_gap(0..taken);
        }
        let needed = self.bytes.len() + bytes.len();
        if needed > self.bytes.capacity() {
            // Doubles, but not beyond what is expected.
            let doubled = (2 * self.bytes.capacity()).min(self.expected);
            let mut larger = Vec::with_capacity(needed.max(doubled));
            larger.extend_from_slice(&self.bytes);
            self.bytes = larger.into();
        }
        self.bytes.extend_from_slice(bytes);
    }

    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub fn unread_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    /// Marks the first `count` unread bytes as taken and returns them.
    pub fn take(&mut self, count: usize) -> &mut [u8] {
        let begin = self.start;
        self.start = begin.saturating_add(count).min(self.bytes.len());
        &mut self.bytes[begin..self.start]
    }

    /// Returns the last `count` taken bytes.
    pub fn taken(&self, count: usize) -> &[u8] {
        &self.bytes[self.start.saturating_sub(count)..self.start]
    }

    /// Removes a range of the unread bytes.
    pub fn remove(&mut self, range: Range<usize>) {
        self.close_gap(self.start + range.start..self.start + range.end);
    }

    /// Returns the allocated bytes.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Lends `storage` to a buffer without memory, so that reading does not allocate.
    pub fn acquire(&mut self, storage: &mut Vec<u8>) {
        if self.bytes.capacity() == 0 {
            mem::swap(&mut *self.bytes, storage);
        }
    }

    /// Returns lent storage. Unread bytes move to an allocation of their own of exactly their size.
    pub fn release(&mut self, storage: &mut Vec<u8>) {
        let is_lent = storage.capacity() == 0;
        if is_lent {
            let mut lent = mem::take(&mut *self.bytes);
            self.bytes = lent[self.start..].to_vec().into();
            lent.as_mut_slice().zeroize();
            lent.clear();
            *storage = lent;
            self.start = 0;
        } else if self.unread().is_empty() {
            *self = Self::default();
        }
    }

    /// Removes a range of all bytes and wipes the bytes that moved.
    fn close_gap(&mut self, range: Range<usize>) {
        let (length, gap) = (self.bytes.len(), range.len());
        self.bytes.copy_within(range.end.., range.start);
        self.bytes[length - gap..].zeroize();
        self.bytes.truncate(length - gap);
    }
}

/// Slices per vectored write.
const SLICES_PER_WRITE: usize = 32;

/// Reference-counted bytes, held once however many outputs they are queued in.
#[derive(Clone, derive_more::Debug)]
#[debug("{} shared bytes", self.len())]
pub struct SharedBytes(Rc<CountedBytes>);

struct CountedBytes {
    bytes: Vec<u8>,
    counter: Rc<Cell<usize>>,
}

/// Creates [`SharedBytes`] bytes and counts those still referenced.
#[derive(Clone, Debug, Default)]
pub struct SharedBytesCounter(Rc<Cell<usize>>);

impl SharedBytesCounter {
    /// Makes bytes shareable.
    pub fn share(&self, bytes: Vec<u8>) -> SharedBytes {
        self.0.set(self.0.get() + bytes.capacity());
        SharedBytes(Rc::new(CountedBytes { bytes, counter: Rc::clone(&self.0) }))
    }

    /// Returns the memory held by shared bytes that are still referenced.
    pub fn held_bytes(&self) -> usize {
        self.0.get()
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.counter.set(self.counter.get() - self.bytes.capacity());
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.bytes
    }
}

/// Consecutive bytes of the queue: own bytes, then shared ones.
#[derive(Debug)]
struct Part {
    own: usize,
    shared: Option<SharedBytes>,
    /// When the message was queued that it ends.
    message_queued: Option<Duration>,
}

impl Part {
    /// Returns the shared bytes.
    fn shared(&self) -> &[u8] {
        self.shared.as_deref().unwrap_or_default()
    }
}

/// Output of one connection: own bytes, with references to shared ones between them. A message is sent whole or not at
/// all. Holds no memory while nothing is pending.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    own: Vec<u8>,
    /// Bytes of `own` already sent.
    own_sent: usize,
    /// The unsent bytes in order, except the own bytes that were queued last.
    parts: VecDeque<Part>,
    /// Unsent own bytes of all parts.
    parts_own: usize,
    /// Shared bytes of the first part already sent.
    shared_sent: usize,
    /// Shared bytes not sent yet.
    pub shared_pending: usize,
    /// The beginning of the first message was sent.
    has_begun_message: bool,
    /// The pending bytes contain a secret: the own ones are wiped once all are sent or dropped.
    pub is_secret: bool,
}

impl Drop for SendQueue {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// Result of [`SendQueue::write_to`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub bytes: usize,
    /// The socket takes no more now.
    pub blocked: bool,
}

impl SendQueue {
    /// Returns the bytes not sent yet.
    pub fn pending(&self) -> usize {
        self.own.len() - self.own_sent + self.shared_pending
    }

    pub fn is_empty(&self) -> bool {
        self.pending() == 0
    }

    /// Returns the allocated bytes, without shared ones.
    pub fn held_bytes(&self) -> usize {
        self.own.capacity() + self.parts.capacity() * size_of::<Part>()
    }

    /// Returns the buffer to append own bytes to.
    pub fn queue(&mut self) -> &mut Vec<u8> {
        if self.own_sent > 0 && 2 * self.own_sent >= self.own.len() && !self.is_secret {
            self.own.drain(..self.own_sent);
            self.own_sent = 0;
        }
        &mut self.own
    }

    /// Appends shared bytes.
    pub fn queue_shared(&mut self, bytes: SharedBytes) {
        if !bytes.is_empty() {
            self.shared_pending += bytes.len();
            self.end_part(Some(bytes), None);
        }
    }

    fn end_part(&mut self, shared: Option<SharedBytes>, message_queued: Option<Duration>) {
        let own = self.own.len() - self.own_sent - self.parts_own;
        self.parts_own += own;
        self.parts.push_back(Part { own, shared, message_queued });
    }

    /// Ends a message: everything queued since the end of the last one.
    pub fn end_message(&mut self, now: Duration) {
        if self.own.len() > self.own_sent + self.parts_own {
            self.end_part(None, Some(now));
        } else if let Some(last) = self.parts.back_mut() {
            last.message_queued.get_or_insert(now);
        }
    }

    /// Returns how long the oldest message has waited.
    pub fn age(&self, now: Duration) -> Duration {
        let queued = self.parts.iter().find_map(|part| part.message_queued);
        queued.map_or(Duration::ZERO, |queued| now.saturating_sub(queued))
    }

    /// Drops all messages whose sending has not begun.
    pub fn drop_unsent(&mut self) {
        let end = self.parts.iter().position(|part| part.message_queued.is_some());
        let kept = end.filter(|_| self.has_begun_message).map_or(0, |end| end + 1);
        self.parts.truncate(kept);
        self.parts_own = self.parts.iter().map(|part| part.own).sum();
        self.own.truncate(self.own_sent + self.parts_own);
        if kept == 0 {
            (self.has_begun_message, self.shared_sent) = (false, 0);
        }
        self.shared_pending = self.parts.iter().map(|part| part.shared().len()).sum();
        self.shared_pending = self.shared_pending.saturating_sub(self.shared_sent);
    }

    /// Writes as much as `socket` takes.
    ///
    /// With `short_is_full`, a short write means that the socket is full, so the next write is not tried.
    pub fn write_to(&mut self, socket: &mut impl Write, short_is_full: bool) -> io::Result<Written> {
        let mut written = Written { bytes: 0, blocked: false };
        while !self.is_empty() {
            let (result, offered) = self.write_once(socket);
            match result {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.record_sent(count);
                    written.bytes += count;
                    written.blocked = short_is_full && count < offered;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => written.blocked = true,
                Err(error) => return Err(error),
            }
            if written.blocked {
                break;
            }
        }
        if self.is_empty() {
            (self.own_sent, self.has_begun_message) = (0, false);
            self.wipe();
            self.own.clear();
        }
        Ok(written)
    }

    /// Writes once. Also returns the number of bytes offered.
    fn write_once(&self, socket: &mut impl Write) -> (io::Result<usize>, usize) {
        if self.shared_pending == 0 {
            let rest = &self.own[self.own_sent..];
            return (socket.write(rest), rest.len());
        }
        let mut slices = [IoSlice::new(&[]); SLICES_PER_WRITE];
        let (mut count, mut offered) = (0, 0);
        for slice in self.slices().filter(|slice| !slice.is_empty()).take(SLICES_PER_WRITE) {
            slices[count] = IoSlice::new(slice);
            count += 1;
            offered += slice.len();
        }
        (socket.write_vectored(&slices[..count]), offered)
    }

    /// Returns the pending bytes in order.
    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let (mut begin, mut shared_sent) = (self.own_sent, self.shared_sent);
        let parts = self.parts.iter().flat_map(move |part| {
            let own = &self.own[begin..begin + part.own];
            begin += part.own;
            [own, &part.shared()[mem::take(&mut shared_sent)..]]
        });
        parts.chain([&self.own[self.own_sent + self.parts_own..]])
    }

    /// Records `count` bytes as sent.
    fn record_sent(&mut self, mut count: usize) {
        while count > 0 {
            self.has_begun_message = true;
            let Some(part) = self.parts.front_mut() else {
                self.own_sent += count;
                return;
            };
            let own = count.min(part.own);
            part.own -= own;
            self.own_sent += own;
            self.parts_own = self.parts_own.saturating_sub(own);
            let left = part.shared().len() - self.shared_sent;
            let shared = (count - own).min(left);
            self.shared_sent += shared;
            self.shared_pending = self.shared_pending.saturating_sub(shared);
            count -= own + shared;
            if part.own == 0 && shared == left {
                self.has_begun_message = part.message_queued.is_none();
                self.shared_sent = 0;
                self.parts.pop_front();
            }
        }
    }

    fn wipe(&mut self) {
        if mem::take(&mut self.is_secret) {
            self.own.zeroize();
        }
    }

    /// Lends `storage` to an output without memory.
    pub fn acquire(&mut self, storage: &mut Vec<u8>) {
        if self.own.capacity() == 0 {
            mem::swap(&mut self.own, storage);
        }
    }

    /// Returns lent storage if nothing is pending; frees the memory if `storage` is in place already.
    pub fn release(&mut self, storage: &mut Vec<u8>) {
        if !self.is_empty() {
            return;
        }
        if self.parts.capacity() > 0 {
            self.parts = VecDeque::new();
        }
        let used = mem::take(&mut self.own);
        if storage.capacity() == 0 {
            *storage = used;
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[cfg(test)]
mod socket_tests {
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

#[cfg(test)]
mod recv_buffer_tests {
    use super::*;

    #[test]
    fn only_unread_bytes_take_memory() {
        let (mut buffer, mut spare) = (RecvBuffer::default(), Vec::with_capacity(1000));
        buffer.acquire(&mut spare);
        buffer.receive(b"abcdef");
        assert_eq!(buffer.take(4), b"abcd");
        assert_eq!(buffer.taken(2), b"cd");
        buffer.release(&mut spare);
        assert_eq!(buffer.unread(), b"ef");
        assert!(buffer.held_bytes() < 100 && spare.capacity() == 1000);
        buffer.acquire(&mut spare);
        buffer.receive(b"gh");
        buffer.remove(1..3);
        assert_eq!(buffer.take(9), b"eh");
        buffer.release(&mut spare);
        assert_eq!((buffer.held_bytes(), spare.capacity()), (0, 1000));
    }

    #[test]
    fn memory_follows_the_expected_length() {
        let mut buffer = RecvBuffer { expected: 1000, ..RecvBuffer::default() };
        for _ in 0..100 {
            buffer.receive(&[7; 10]);
        }
        assert_eq!((buffer.unread().len(), buffer.held_bytes()), (1000, 1000));
    }

    #[test]
    fn taken_bytes_are_wiped() {
        let (mut buffer, mut spare) = (RecvBuffer::default(), Vec::with_capacity(100));
        buffer.acquire(&mut spare);
        buffer.receive(b"secret, open");
        buffer.take(8);
        buffer.receive(b"");
        assert_eq!(*buffer.bytes, b"open");
        buffer.take(2);
        buffer.release(&mut spare);
        assert_eq!(buffer.unread(), b"en");
        // Bytes behind the length of the storage become visible once it is filled again.
        assert!(spare.is_empty() && spare.capacity() == 100);
    }
}

#[cfg(test)]
mod send_queue_tests {
    use proptest::prelude::*;

    use super::*;
    use crate::SharedBytesCounter;

    /// Takes `capacity` bytes, at most `at_once` per call, then blocks.
    struct Sink {
        taken: Vec<u8>,
        capacity: usize,
        at_once: usize,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.capacity).min(self.at_once);
            if count == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.capacity -= count;
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            self.write(&slices.iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<u8>>())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn sink(capacity: usize) -> Sink {
        Sink { taken: Vec::new(), capacity, at_once: usize::MAX }
    }

    #[test]
    fn dropping_unsent_messages_keeps_the_one_being_sent() {
        let now = Duration::ZERO;
        for (capacity, kept) in [(0, ""), (3, "aaaa"), (4, "aaaa"), (5, "aaaabbbb"), (8, "aaaabbbb")] {
            let mut output = SendQueue::default();
            for piece in [b"aaaa", b"bbbb", b"cccc"] {
                output.queue().extend_from_slice(piece);
                output.end_message(now);
            }
            let mut socket = sink(capacity);
            output.write_to(&mut socket, false).unwrap();
            output.drop_unsent();
            output.queue().extend_from_slice(b"!");
            output.end_message(now);
            socket.capacity = 100;
            output.write_to(&mut socket, false).unwrap();
            assert_eq!(socket.taken, format!("{kept}!").into_bytes(), "{capacity} sent");
            assert!(output.is_empty());
        }
    }

    #[test]
    fn the_age_is_that_of_the_oldest_unsent_message() {
        let start = Duration::ZERO;
        let mut output = SendQueue::default();
        for second in 0..3 {
            output.queue().extend_from_slice(b"1234");
            output.end_message(start + Duration::from_secs(second));
        }
        let now = start + Duration::from_secs(10);
        assert_eq!(output.age(now).as_secs(), 10);
        output.write_to(&mut sink(6), true).unwrap();
        assert_eq!(output.age(now).as_secs(), 9);
        output.write_to(&mut sink(6), true).unwrap();
        assert_eq!(output.age(now).as_secs(), 0);
    }

    #[test]
    fn storage_is_released_when_everything_is_sent() {
        let (mut output, mut spare) = (SendQueue::default(), Vec::with_capacity(64));
        output.acquire(&mut spare);
        output.queue().extend_from_slice(b"abc");
        output.release(&mut spare);
        assert_eq!((spare.capacity(), output.pending()), (0, 3));
        let written = output.write_to(&mut sink(2), true).unwrap();
        assert!(written.blocked && written.bytes == 2);
        output.write_to(&mut sink(9), true).unwrap();
        output.release(&mut spare);
        assert_eq!((spare.capacity(), output.held_bytes()), (64, 0));
    }

    #[test]
    fn many_send_queues_hold_shared_bytes_once() {
        let (pool, now) = (SharedBytesCounter::default(), Duration::ZERO);
        let body = pool.share(vec![b'x'; 10_000]);
        let mut outputs: Vec<SendQueue> = (0..100).map(|_| SendQueue::default()).collect();
        for output in &mut outputs {
            output.queue().extend_from_slice(b"head");
            output.queue_shared(body.clone());
            output.end_message(now);
        }
        drop(body);
        let held: usize = outputs.iter().map(SendQueue::held_bytes).sum();
        assert!(held < 100 * 400 && pool.held_bytes() == 10_000, "{held}");
        outputs.iter_mut().for_each(|output| assert_eq!(output.pending(), 10_004));
        outputs.iter_mut().for_each(SendQueue::drop_unsent);
        assert_eq!(pool.held_bytes(), 0);
    }

    #[test]
    fn shared_bytes_count_once_until_the_last_reference_is_dropped() {
        let pool = SharedBytesCounter::default();
        let first = pool.share(vec![7; 100]);
        let second = first.clone();
        drop(first);
        assert_eq!((pool.held_bytes(), &second[..3]), (100, [7; 3].as_slice()));
        drop(second);
        assert_eq!(pool.held_bytes(), 0);
    }

    proptest! {
        #[test]
        fn queued_bytes_are_sent_in_order_in_any_pieces(
            pieces in prop::collection::vec((1..20usize, 0..30usize, 0..5usize), 1..20),
            capacities in prop::collection::vec((0..60usize, 1..40usize), 0..40),
            drop_after in prop::option::of(0..40usize),
        ) {
            let (pool, now) = (SharedBytesCounter::default(), Duration::ZERO);
            let (mut output, mut wanted, mut ends) = (SendQueue::default(), Vec::new(), vec![0]);
            for (index, (head, body, tail)) in pieces.iter().enumerate() {
                let letter = b'a' + (index % 26) as u8;
                output.queue().extend(vec![letter; *head]);
                output.queue_shared(pool.share(vec![letter.to_ascii_uppercase(); *body]));
                output.queue().extend(vec![letter; *tail]);
                output.end_message(now);
                wanted.extend(vec![letter; *head]);
                wanted.extend(vec![letter.to_ascii_uppercase(); *body]);
                wanted.extend(vec![letter; *tail]);
                ends.push(wanted.len());
            }
            let mut socket = sink(0);
            for (index, (capacity, at_once)) in capacities.iter().enumerate() {
                (socket.capacity, socket.at_once) = (*capacity, *at_once);
                output.write_to(&mut socket, index % 2 == 0).unwrap();
                prop_assert_eq!(socket.taken.len() + output.pending(), wanted.len());
                if drop_after == Some(index) {
                    output.drop_unsent();
                    let end = *ends.iter().find(|end| **end >= socket.taken.len()).unwrap();
                    wanted.truncate(end);
                    prop_assert_eq!(socket.taken.len() + output.pending(), wanted.len());
                }
            }
            (socket.capacity, socket.at_once) = (usize::MAX, usize::MAX);
            output.write_to(&mut socket, false).unwrap();
            prop_assert_eq!(socket.taken, wanted);
            prop_assert_eq!((output.pending(), pool.held_bytes()), (0, 0));
        }
    }
}
