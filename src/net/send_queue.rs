//! Send queue of a connection, and bytes that many queues share.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::mem;
use std::ops::Deref;
use std::rc::Rc;
use std::time::Duration;

use zeroize::Zeroize;

use crate::metrics::subtract;

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

/// Shared bytes between own bytes of the queue.
#[derive(Debug)]
struct SharedSegment {
    /// Own bytes before it, counted from the first one ever queued.
    at: u64,
    bytes: SharedBytes,
}

/// The end of a message, which must be sent whole or not at all, and when it was queued.
#[derive(Clone, Copy, Debug)]
struct MessageBoundary {
    /// Counted from the first byte ever queued.
    end: u64,
    /// The same, counting only own bytes.
    own_end: u64,
    queued: Duration,
}

/// Output of one connection: own bytes, with references to shared ones between them. Holds no memory while nothing is
/// pending.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    own: Vec<u8>,
    /// Bytes of `own` already sent.
    own_sent: usize,
    /// Bytes removed from the front of `own` so far.
    own_removed: u64,
    segments: VecDeque<SharedSegment>,
    /// Bytes of the first segment already sent.
    segment_sent: usize,
    /// Bytes ever sent.
    sent: u64,
    /// Bytes of segments not sent yet.
    shared_pending: usize,
    boundaries: VecDeque<MessageBoundary>,
    /// End of the last message that was sent whole.
    last_boundary: u64,
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
        self.own.capacity()
            + self.boundaries.capacity() * size_of::<MessageBoundary>()
            + self.segments.capacity() * size_of::<SharedSegment>()
    }

    /// Returns the buffer to append own bytes to.
    pub fn queue(&mut self) -> &mut Vec<u8> {
        if self.own_sent > 0 && 2 * self.own_sent >= self.own.len() && !self.is_secret {
            self.own.drain(..self.own_sent);
            self.own_removed += self.own_sent as u64;
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
            self.segments.push_back(SharedSegment { at: self.own_end(), bytes });
        }
    }

    fn own_end(&self) -> u64 {
        self.own_removed + self.own.len() as u64
    }

    /// Ends a message: everything queued since the last boundary.
    pub fn end_message(&mut self, now: Duration) {
        let end = self.sent + self.pending() as u64;
        if self.boundaries.back().map_or(self.last_boundary, |boundary| boundary.end) < end {
            self.boundaries.push_back(MessageBoundary { end, own_end: self.own_end(), queued: now });
        }
    }

    /// Returns how long the oldest message has waited.
    pub fn age(&self, now: Duration) -> Duration {
        self.boundaries.front().map_or(Duration::ZERO, |boundary| now.saturating_sub(boundary.queued))
    }

    /// Drops all messages whose sending has not begun.
    pub fn drop_unsent(&mut self) {
        let partly_sent = self.boundaries.front().copied().filter(|_| self.sent > self.last_boundary);
        self.boundaries.truncate(usize::from(partly_sent.is_some()));
        let own_end = partly_sent.map_or(self.own_removed + self.own_sent as u64, |boundary| boundary.own_end);
        self.own.truncate(usize::try_from(own_end - self.own_removed).unwrap_or(usize::MAX));
        let kept_segments = match partly_sent {
            // A message begins with own bytes, so a segment at the end of this one belongs to it.
            Some(_) => self.segments.partition_point(|segment| segment.at <= own_end),
            None => 0,
        };
        self.segments.truncate(kept_segments);
        self.shared_pending = self.segments.iter().map(|segment| segment.bytes.len()).sum::<usize>();
        let sent = if kept_segments > 0 { self.segment_sent } else { mem::take(&mut self.segment_sent) };
        subtract(&mut self.shared_pending, sent);
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
        if self.segments.is_empty() {
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
        let place = |at: u64| usize::try_from(at - self.own_removed).unwrap_or(usize::MAX);
        let mut begin = self.own_sent;
        let pairs = self.segments.iter().enumerate().flat_map(move |(index, segment)| {
            let own = &self.own[begin..place(segment.at)];
            begin = place(segment.at);
            let sent = if index == 0 { self.segment_sent } else { 0 };
            [own, &segment.bytes[sent..]]
        });
        let last = self.segments.back().map_or(self.own_sent, |segment| place(segment.at));
        pairs.chain([&self.own[last..]])
    }

    /// Records `count` bytes as sent.
    fn record_sent(&mut self, mut count: usize) {
        self.sent += count as u64;
        while count > 0 {
            let own_end = self.segments.front().map_or(self.own_end(), |segment| segment.at);
            let own_left = usize::try_from(own_end - self.own_removed).unwrap_or(usize::MAX) - self.own_sent;
            let own = count.min(own_left);
            self.own_sent += own;
            count -= own;
            let Some(segment) = self.segments.front().filter(|_| count > 0) else { return };
            let left = segment.bytes.len() - self.segment_sent;
            let shared = count.min(left);
            self.segment_sent += shared;
            subtract(&mut self.shared_pending, shared);
            count -= shared;
            if shared == left {
                self.segments.pop_front();
                self.segment_sent = 0;
            }
        }
    }

    fn drop_sent(&mut self) {
        while let Some(boundary) = self.boundaries.pop_front_if(|boundary| boundary.end <= self.sent) {
            self.last_boundary = boundary.end;
        }
        if self.is_empty() {
            self.last_boundary = self.sent;
            self.own_removed = self.own_end();
            self.own_sent = 0;
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
        if self.boundaries.capacity() > 0 {
            self.boundaries = VecDeque::new();
        }
        if self.segments.capacity() > 0 {
            self.segments = VecDeque::new();
        }
        let used = mem::take(&mut self.own);
        if storage.capacity() == 0 {
            *storage = used;
        }
    }
}

#[cfg(test)]
mod tests {
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
