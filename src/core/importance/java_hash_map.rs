//! Iteration order of Java's `HashMap`.
//!
//! NIS1 adds some floating-point sums in this order, which decides their last bits.

/// Minimum number of buckets.
const MIN_CAPACITY: u32 = 16;
/// Maximum number of buckets.
const MAX_CAPACITY: u32 = 1 << 30;
/// When a bucket with at least this many keys gets another, a table of fewer than `CROWDED_CAPACITY` buckets grows.
const CROWDED_KEYS: usize = 8;
/// Number of buckets from which on a crowded bucket no longer makes the table grow.
const CROWDED_CAPACITY: u32 = 64;

/// Empty buckets passed in one unit of work.
const EMPTY_PER_VISIT: usize = 16;

/// Returns the number of buckets of a table with `keys` keys, without growth for crowded buckets: the smallest capacity
/// of which three quarters are at least `keys`.
pub fn capacity(keys: u64) -> u32 {
    let mut capacity = MIN_CAPACITY;
    while is_over_full(keys, capacity) {
        capacity *= 2;
    }
    capacity
}

fn is_over_full(keys: u64, capacity: u32) -> bool {
    capacity < MAX_CAPACITY && keys > u64::from(capacity / 4 * 3)
}

/// A hash table that yields only an order. Keys are numbered by insertion. The caller inserts all keys and then visits
/// them, which leaves the table empty for reuse.
#[derive(Debug, Default)]
pub struct JavaHashMapOrder {
    hashes: Vec<u32>,
    /// Number of buckets.
    pub capacity: u32,
    /// Per bucket its first key plus one; 0 if the bucket is empty. Sized for the largest table.
    heads: Vec<u32>,
    /// Per key the next key of its bucket plus one; 0 if there is none.
    next: Vec<u32>,
    /// Keys not yet linked. The last is linked first, so that a bucket starts with its oldest key.
    unlinked: Option<usize>,
    bucket: usize,
}

/// Result of one unit of work of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// No key yet.
    Pending,
    /// The next key in order.
    Key(usize),
    /// No more keys; the table is empty.
    End,
}

impl JavaHashMapOrder {
    /// Creates a table for at most `keys` keys.
    pub fn new(keys: usize) -> JavaHashMapOrder {
        let buckets = capacity(keys as u64).max(CROWDED_CAPACITY);
        JavaHashMapOrder {
            hashes: Vec::with_capacity(keys),
            capacity: MIN_CAPACITY,
            heads: vec![0; buckets as usize],
            next: Vec::with_capacity(keys),
            unlinked: None,
            bucket: 0,
        }
    }

    /// Inserts a new key by its hash.
    pub fn insert(&mut self, hash: u32) {
        if self.capacity < CROWDED_CAPACITY {
            let bucket = |hash: u32| hash & (self.capacity - 1);
            let sharing = self.hashes.iter().filter(|other| bucket(**other) == bucket(hash)).count();
            if sharing >= CROWDED_KEYS {
                self.capacity *= 2;
            }
        }
        self.hashes.push(hash);
        self.next.push(0);
        if is_over_full(self.hashes.len() as u64, self.capacity) {
            self.capacity *= 2;
        }
    }

    /// Does one unit of work of the iteration through all keys in order.
    pub fn visit(&mut self) -> Visit {
        match self.hashes.len() {
            0 => return Visit::End,
            1 => {
                self.clear();
                return Visit::Key(0);
            }
            _ => {}
        }
        let unlinked = *self.unlinked.get_or_insert(self.hashes.len());
        if let Some(key) = unlinked.checked_sub(1) {
            let bucket = (self.hashes[key] & (self.capacity - 1)) as usize;
            self.next[key] = std::mem::replace(&mut self.heads[bucket], key as u32 + 1);
            self.unlinked = Some(key);
            return Visit::Pending;
        }
        if self.bucket == self.capacity as usize {
            self.clear();
            return Visit::End;
        }
        // Several empty buckets are one unit of work.
        let end = self.capacity as usize;
        let ahead = &self.heads[self.bucket..end.min(self.bucket + EMPTY_PER_VISIT)];
        let empty = ahead.iter().take_while(|head| **head == 0).count();
        self.bucket += empty;
        if empty == ahead.len() {
            return Visit::Pending;
        }
        let head = &mut self.heads[self.bucket];
        let key = *head - 1;
        // Removing keys while visiting them leaves the buckets empty for the next table.
        *head = self.next[key as usize];
        Visit::Key(key as usize)
    }

    fn clear(&mut self) {
        self.hashes.clear();
        self.next.clear();
        (self.capacity, self.unlinked, self.bucket) = (MIN_CAPACITY, None, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(table: &mut JavaHashMapOrder, hashes: &[u32]) -> (u32, Vec<usize>) {
        hashes.iter().for_each(|hash| table.insert(*hash));
        let (capacity, mut order) = (table.capacity, Vec::new());
        loop {
            match table.visit() {
                Visit::Pending => {}
                Visit::Key(key) => order.push(key),
                Visit::End => return (capacity, order),
            }
        }
    }

    #[test]
    fn a_table_grows_when_more_than_three_quarters_are_full() {
        assert_eq!([0, 12, 13, 24, 25, 1355].map(capacity), [16, 16, 32, 32, 64, 2048]);
        assert_eq!(capacity(u64::MAX), MAX_CAPACITY);
        for keys in 0..200 {
            let hashes: Vec<u32> = (0..keys).collect();
            assert_eq!(walk(&mut JavaHashMapOrder::new(200), &hashes).0, capacity(u64::from(keys)));
        }
    }

    #[test]
    fn keys_are_ordered_by_bucket_then_age_and_the_table_is_reusable() {
        let mut table = JavaHashMapOrder::new(200);
        assert_eq!(walk(&mut table, &[17, 0, 1, 33, 15]), (16, vec![1, 0, 2, 3, 4]));
        assert_eq!(walk(&mut table, &(0..100).rev().collect::<Vec<_>>()).1, (0..100).rev().collect::<Vec<_>>());
        assert_eq!(walk(&mut table, &[17, 0, 1, 33, 15]), (16, vec![1, 0, 2, 3, 4]));
        assert_eq!(walk(&mut table, &[]), (16, vec![]));
    }

    #[test]
    fn the_ninth_key_of_a_bucket_makes_a_small_table_grow() {
        assert_eq!(walk(&mut JavaHashMapOrder::new(200), &[5; 8]).0, 16);
        assert_eq!(walk(&mut JavaHashMapOrder::new(200), &[5; 9]).0, 32);
    }
}
