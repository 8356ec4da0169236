//! Unpredictable random numbers from a seed that the event loop obtained from the system.

use zeroize::Zeroizing;

use super::hash::keccak512;

/// A random number generator. Its state reveals no earlier output, and its output reveals no state.
pub struct Randomness(Zeroizing<[u8; 32]>);

impl Randomness {
    /// Creates a generator from a seed.
    pub fn new(seed: &[u8; 32]) -> Randomness {
        Randomness(Zeroizing::new(*seed))
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.next_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// Returns the next 32 bytes.
    pub fn next_bytes(&mut self) -> Zeroizing<[u8; 32]> {
        let (mut drawn, hash) = (Zeroizing::new([0; 32]), Zeroizing::new(keccak512(self.0.as_slice())));
        let (kept, given) = hash.split_at(32);
        self.0.copy_from_slice(kept);
        drawn.copy_from_slice(given);
        drawn
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes_without_repetition() {
        let draw = |seed| {
            let mut randomness = Randomness::new(&[seed; 32]);
            (0..100).map(|_| *randomness.next_bytes()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        let all: BTreeSet<_> = draw(1).into_iter().chain(draw(2)).chain([[1; 32], [2; 32]]).collect();
        assert_eq!(all.len(), 202);
    }
}
