//! Byte buffers shared by many send queues.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

/// Reference-counted bytes, held once however many outputs they are queued in.
#[derive(Clone)]
pub struct SharedBytes(Rc<CountedBytes>);

struct CountedBytes {
    bytes: Vec<u8>,
    counter: Rc<Cell<usize>>,
}

/// Creates [`SharedBytes`] bytes and counts those still referenced.
#[derive(Clone, Default)]
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

impl fmt::Debug for SharedBytesCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes shared", self.held_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
