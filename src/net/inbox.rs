//! Bytes received and not used up yet.

use std::mem;
use std::ops::Range;

/// The input of one connection. It needs memory of its own only between turns of the reactor, and
/// only if something is unread then: see [`lend`](Self::lend).
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    /// Offset of the first unread byte.
    start: usize,
}

impl Inbox {
    /// Appends received bytes, and forgets those that were taken.
    pub fn receive(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
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

    /// Makes the last `count` bytes that were taken unread again.
    pub fn untake(&mut self, count: usize) {
        self.start = self.start.saturating_sub(count);
    }

    /// The last `count` bytes that were taken.
    pub fn taken(&self, count: usize) -> &[u8] {
        &self.bytes[self.start.saturating_sub(count)..self.start]
    }

    /// Removes a range of the unread bytes.
    pub fn remove(&mut self, range: Range<usize>) {
        self.bytes.drain(self.start + range.start..self.start + range.end);
    }

    /// Bytes of memory held.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Lends `storage` to an inbox that holds none, so that reading allocates nothing.
    pub fn lend(&mut self, storage: &mut Vec<u8>) {
        if self.bytes.capacity() == 0 {
            mem::swap(&mut self.bytes, storage);
        }
    }

    /// Gives lent storage back. What is unread moves to memory of its own, as small as it can be.
    pub fn give_back(&mut self, storage: &mut Vec<u8>) {
        let is_lent = storage.capacity() == 0;
        if is_lent {
            let unread = self.bytes.split_off(self.start);
            *storage = mem::replace(&mut self.bytes, unread);
            storage.clear();
            self.start = 0;
        } else if self.unread().is_empty() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unread_bytes_take_memory() {
        let (mut inbox, mut spare) = (Inbox::default(), Vec::with_capacity(1000));
        inbox.lend(&mut spare);
        inbox.receive(b"abcdef");
        assert_eq!(inbox.take(4), b"abcd");
        assert_eq!(inbox.taken(2), b"cd");
        inbox.give_back(&mut spare);
        assert_eq!(inbox.unread(), b"ef");
        assert!(inbox.held_bytes() < 100 && spare.capacity() == 1000);
        inbox.lend(&mut spare);
        inbox.receive(b"gh");
        inbox.remove(1..3);
        assert_eq!(inbox.take(9), b"eh");
        inbox.give_back(&mut spare);
        assert_eq!((inbox.held_bytes(), spare.capacity()), (0, 1000));
    }
}
