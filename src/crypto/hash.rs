//! The three hash functions of the chain.
//!
//! Keccak here is the original submission (padding byte `01`), not the SHA-3 of FIPS-202.

use ripemd::Ripemd160;
use sha3::{Digest, Keccak256, Keccak512};

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
