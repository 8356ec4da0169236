//! Receive buffer of a connection.

use std::mem;
use std::ops::Range;

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
