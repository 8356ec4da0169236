//! Signature verification, bit for bit as in NIS1.
//!
//! It is neither the lax nor the strict verification of the usual libraries: small-order and non-canonical public keys
//! are accepted, S = 0 and the all-zero key are not, the equation has no cofactor, and R is compared as bytes.

use std::fmt;

use ed25519_dalek::VerifyingKey;
use ed25519_dalek::hazmat::raw_verify;
use sha3::Keccak512;

use super::keys::{PublicKey, Signature};

/// The group order L, 32 bytes little-endian.
const GROUP_ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

/// The public key does not encode a point of the curve.
///
/// NIS1 treats this as a bad argument, with the text of `Display`, not as an invalid signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid Ed25519EncodedGroupElement.")]
pub struct NotAPoint;

/// Returns whether `signature` is one of `public` over `data`.
///
/// A signature with S out of range is false even if the key is not a point.
pub fn verify(public: &PublicKey, data: &[u8], signature: &Signature) -> Result<bool, NotAPoint> {
    if !passes_prechecks(public, signature) {
        return Ok(false);
    }
    Ok(equation_holds(&decode(public)?, data, signature))
}

/// [`verify`] with a cache of decoded public keys.
///
/// Decoding a key is a noticeable part of a verification, and a few signers make up most of a chain. The cache is a
/// table of fixed size in which each key has one possible slot. A new key replaces the one in its slot.
pub struct Verifier {
    decoded: Vec<Option<VerifyingKey>>,
}

impl Verifier {
    /// Default capacity for one node: a little under 1 MB.
    pub const DEFAULT_CAPACITY: usize = 4096;

    /// Creates a verifier that caches at most `capacity` keys of about 200 bytes each; 0 disables the cache.
    pub fn new(capacity: usize) -> Self {
        Self { decoded: vec![None; capacity] }
    }

    /// Returns the same result as [`verify`].
    pub fn verify(&mut self, public: &PublicKey, data: &[u8], signature: &Signature) -> Result<bool, NotAPoint> {
        if !passes_prechecks(public, signature) {
            return Ok(false);
        }
        let Some(place) = self.slot_of(public) else {
            return Ok(equation_holds(&decode(public)?, data, signature));
        };
        if let Some(key) = place.filter(|key| *key.as_bytes() == public.0) {
            return Ok(equation_holds(&key, data, signature));
        }
        let key = decode(public)?;
        let holds = equation_holds(&key, data, signature);
        // Only a key with a valid signature is cached, so that made-up keys cannot evict those in use.
        if holds {
            *place = Some(key);
        }
        Ok(holds)
    }

    /// Returns the slot of `public`, or `None` if the cache has no slots.
    fn slot_of(&mut self, public: &PublicKey) -> Option<&mut Option<VerifyingKey>> {
        let [a, b, c, d, ..] = public.0;
        // Public keys are practically random, so any four bytes are evenly distributed.
        let spread = u32::from_le_bytes([a, b, c, d]) as usize;
        let index = spread.checked_rem(self.decoded.len())?;
        self.decoded.get_mut(index)
    }
}

impl Default for Verifier {
    fn default() -> Self {
        Self::new(Self::DEFAULT_CAPACITY)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier(capacity {})", self.decoded.len())
    }
}

/// Steps 1 and 2: 0 < S < L, and the key is not all zeros.
fn passes_prechecks(public: &PublicKey, signature: &Signature) -> bool {
    let s = &signature.0[32..];
    let below_order = s.iter().rev().lt(GROUP_ORDER.iter().rev());
    below_order && s.iter().any(|byte| *byte != 0) && public.0 != [0; 32]
}

/// Step 4: any y is taken modulo p, and x = 0 with the sign bit set stays 0.
fn decode(public: &PublicKey) -> Result<VerifyingKey, NotAPoint> {
    VerifyingKey::from_bytes(&public.0).map_err(|_| NotAPoint)
}

/// Steps 3 and 5: S·B − k·A, encoded, equals the bytes of R. The hash covers the key as encoded on the wire.
fn equation_holds(key: &VerifyingKey, data: &[u8], signature: &Signature) -> bool {
    let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
    raw_verify::<Keccak512>(key, data, &signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::hash::keccak512;
    use crate::crypto::{KeyPair, PrivateKey};
    use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
    use curve25519_dalek::scalar::Scalar;

    fn pair(number: u8) -> KeyPair {
        KeyPair::new(&PrivateKey::from_seed(&[number; 32]))
    }

    #[test]
    fn a_signature_is_valid_only_for_its_signer_and_data() {
        let signature = pair(1).sign(b"data");
        assert_eq!(verify(&pair(1).public(), b"data", &signature), Ok(true));
        assert_eq!(verify(&pair(1).public(), b"Data", &signature), Ok(false));
        assert_eq!(verify(&pair(2).public(), b"data", &signature), Ok(false));
    }

    #[test]
    fn an_unusable_signature_is_false_before_the_key_is_decoded() {
        let mut no_point = PublicKey([0; 32]);
        no_point.0[0] = 2;
        assert_eq!(verify(&no_point, b"", &Signature([0; 64])), Ok(false));
        assert_eq!(verify(&no_point, b"", &Signature([0xff; 64])), Ok(false));
        assert_eq!(verify(&no_point, b"", &Signature([1; 64])), Err(NotAPoint));
        let mut verifier = Verifier::default();
        let answer = verifier.verify(&no_point, b"", &Signature([1; 64]));
        assert_eq!(answer, Err(NotAPoint));
    }

    #[test]
    fn a_key_with_a_small_order_component_verifies_when_the_reduced_challenge_hides_it() {
        let order_two = {
            let mut y = [0xff; 32];
            y[0] = 0xec;
            y[31] = 0x7f;
            CompressedEdwardsY(y).decompress().unwrap()
        };
        let (secret, nonce) = (Scalar::from(123_456_789_u64), Scalar::from(987_654_321_u64));
        let public = PublicKey((EdwardsPoint::mul_base(&secret) + order_two).compress().to_bytes());
        let r = EdwardsPoint::mul_base(&nonce).compress().to_bytes();
        let mut outcomes = [0; 2];
        for message in 0..32 {
            let hash = keccak512(&[&r[..], &public.0, &[message]].concat());
            let challenge = Scalar::from_bytes_mod_order_wide(&hash);
            let s = challenge * secret + nonce;
            let mut signature = Signature([0; 64]);
            signature.0[..32].copy_from_slice(&r);
            signature.0[32..].copy_from_slice(s.as_bytes());

            let is_even = challenge.as_bytes()[0] & 1 == 0;
            assert_eq!(verify(&public, &[message], &signature), Ok(is_even));
            outcomes[usize::from(is_even)] += 1;
        }
        assert!(outcomes.iter().all(|count| *count > 0));
    }

    #[test]
    fn a_verifier_with_a_small_cache_equals_plain_verification() {
        for capacity in [0, 1, 2, 64] {
            let mut verifier = Verifier::new(capacity);
            for round in 0..3 {
                for signer in 0..5 {
                    let signature = pair(signer).sign(&[round]);
                    for claimed in 0..5 {
                        let public = pair(claimed).public();
                        assert_eq!(verifier.verify(&public, &[round], &signature), Ok(claimed == signer));
                    }
                }
            }
            assert_eq!(verifier.decoded.len(), capacity);
        }
    }

    #[test]
    fn only_keys_with_a_valid_signature_are_cached() {
        let mut verifier = Verifier::new(1);
        let signature = pair(1).sign(b"data");
        assert_eq!(verifier.verify(&pair(1).public(), b"data", &signature), Ok(true));
        assert_eq!(verifier.verify(&pair(2).public(), b"data", &signature), Ok(false));
        let remembered = verifier.decoded[0].map(|key| PublicKey(key.to_bytes()));
        assert_eq!(remembered, Some(pair(1).public()));
    }
}
