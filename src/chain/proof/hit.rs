//! The generation hash of a block, and its hit.

use super::fixed::{Fixed, nearest_double};
use super::logarithm::minus_ln;
use crate::crypto::PublicKey;
use crate::crypto::hash::keccak256_parts;
use crate::model::Hash256;

/// Bits of a generation hash.
const HASH_BITS: usize = 256;

/// 2⁵⁴.
pub(super) const SCALE: f64 = 18_014_398_509_481_984.0;

/// Returns the generation hash of a block of `signer` on top of a block with the generation hash `parent`.
pub fn generation_hash(parent: &Hash256, signer: &PublicKey) -> Hash256 {
    Hash256(keccak256_parts(&[&parent.0, &signer.0]))
}

/// Returns the hit of a block: 2⁵⁴ · |ln(generation hash / 2²⁵⁶)|, at most 2⁶³ − 1.
pub fn hit(generation_hash: &Hash256) -> u64 {
    let value = Fixed::from_be_slice(&generation_hash.0);
    if value.is_zero() {
        return i64::MAX as u64;
    }
    (SCALE * minus_ln(nearest_double(value, HASH_BITS))) as u64
}
