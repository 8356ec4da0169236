//! Buffers of a connection: what it has received, and what it sends; and bytes that many connections send.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::mem;
use std::ops::Deref;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use zeroize::Zeroize;

/// Received bytes that are not used up. It owns memory between turns of the reactor only if bytes are unread: see
/// [`acquire`](Self::acquire).
///
/// Input may contain a private key, so all bytes are wiped when they are moved, taken or dropped.
#[derive(Debug, Default)]
pub(super) struct RecvBuffer {
    bytes: Vec<u8>,
    /// Offset of the first unread byte.
    start: usize,
    /// Expected total of unread bytes; the buffer does not grow beyond it needlessly.
    expected: usize,
}

impl RecvBuffer {
    /// Appends received bytes and removes taken ones.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.drop_taken();
        let needed = self.bytes.len() + bytes.len();
        if needed > self.bytes.capacity() {
            // Doubles, but not beyond what is expected.
            let doubled = (2 * self.bytes.capacity()).min(self.expected);
            self.move_to(Vec::with_capacity(needed.max(doubled)));
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Sets the expected total of unread bytes.
    pub fn expect(&mut self, count: usize) {
        self.expected = count;
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
            mem::swap(&mut self.bytes, storage);
        }
    }

    /// Returns lent storage. Unread bytes move to an allocation of their own of exactly their size.
    pub fn release(&mut self, storage: &mut Vec<u8>) {
        let is_lent = storage.capacity() == 0;
        if is_lent {
            let mut lent = mem::take(&mut self.bytes);
            self.bytes = lent[self.start..].to_vec();
            lent.as_mut_slice().zeroize();
            lent.clear();
            *storage = lent;
            self.start = 0;
        } else if self.unread().is_empty() {
            *self = Self::default();
        }
    }

    fn drop_taken(&mut self) {
        if self.start > 0 {
            let start = mem::take(&mut self.start);
            self.close_gap(0..start);
        }
    }

    /// Removes a range of all bytes and wipes the bytes that moved.
    fn close_gap(&mut self, range: Range<usize>) {
        let (length, gap) = (self.bytes.len(), range.len());
        self.bytes.copy_within(range.end.., range.start);
        self.bytes[length - gap..].zeroize();
        self.bytes.truncate(length - gap);
    }

    /// Moves the contents to other memory and wipes the old.
    fn move_to(&mut self, mut other: Vec<u8>) {
        other.extend_from_slice(&self.bytes);
        self.bytes.as_mut_slice().zeroize();
        self.bytes = other;
    }
}

impl Drop for RecvBuffer {
    fn drop(&mut self) {
        self.bytes.as_mut_slice().zeroize();
    }
}

/// Slices per vectored write.
const SLICES_PER_WRITE: usize = 32;

/// Reference-counted bytes, held once however many outputs they are queued in.
#[derive(Clone)]
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

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} shared bytes", self.len())
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
    shared_pending: usize,
    /// The beginning of the first message was sent.
    has_begun_message: bool,
    /// The pending bytes contain a secret.
    is_secret: bool,
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

    /// Returns the shared bytes not sent yet.
    pub fn shared_pending(&self) -> usize {
        self.shared_pending
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

    /// Wipes the own bytes once all are sent or dropped.
    pub fn wipe_when_sent(&mut self) {
        self.is_secret = true;
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
        self.drop_sent();
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

    fn drop_sent(&mut self) {
        if self.is_empty() {
            self.own_sent = 0;
            self.has_begun_message = false;
            self.wipe();
            self.own.clear();
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

#[cfg(test)]
mod tests {
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
        let mut buffer = RecvBuffer::default();
        buffer.expect(1000);
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
        assert_eq!(buffer.bytes, b"open");
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
    use crate::net::SharedBytesCounter;

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
