//! The three hash functions of the chain, and random numbers from one of them.
//!
//! Keccak here is the original submission (padding byte `01`), not the SHA-3 of FIPS-202.

use ripemd::Ripemd160;
use sha3::{Digest, Keccak256, Keccak512};
use zeroize::Zeroizing;

/// Returns Keccak-256 of `data`.
pub fn keccak256(data: &[u8]) -> [u8; 32] {
    Keccak256::digest(data).into()
}

/// Returns Keccak-256 of the concatenation of `parts`, without building it.
pub fn keccak256_parts(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Keccak256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// Returns Keccak-512 of `data`.
pub fn keccak512(data: &[u8]) -> [u8; 64] {
    Keccak512::digest(data).into()
}

/// Returns RIPEMD-160 of `data`. Only addresses use it.
pub fn ripemd160(data: &[u8]) -> [u8; 20] {
    Ripemd160::digest(data).into()
}

/// A generator of unpredictable random numbers from a seed that the event loop obtained from the system. Its state
/// reveals no earlier output, and its output reveals no state.
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
    use super::*;

    #[test]
    fn parts_hash_like_their_concatenation() {
        let whole = keccak256(b"generation and signer");
        assert_eq!(keccak256_parts(&[b"generation", b"", b" and ", b"signer"]), whole);
        assert_eq!(keccak256_parts(&[]), keccak256(b""));
    }

    #[test]
    fn keccak_is_the_original_submission_and_not_fips_202() {
        assert_eq!(hex::encode(keccak256(b"")), "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
    }
}

#[cfg(test)]
mod randomness_tests {
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
