//! Private keys, public keys and signing.

use std::fmt;

use curve25519_dalek::edwards::CompressedEdwardsY;
use ed25519_dalek::VerifyingKey;
use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use sha3::Keccak512;
use zeroize::Zeroizing;

use super::hash::keccak512;
use super::hex_text::{HexError, decode_hex, decode_hex_into};
use super::verify::NotAPoint;

/// An encoded public key of 32 bytes, not necessarily a point of the curve.
///
/// Entities carry keys unchecked; only verification and encryption decode them. Displayed as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

/// A signature: R (32 bytes), then S (32 bytes, little-endian). Displayed as 128 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature(pub [u8; 64]);

/// Why a text or a byte string is not a public key.
/// Its text is NIS1's, which clients see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PublicKeyError {
    /// The text is not hex.
    #[error("{0}")]
    Hex(#[from] HexError),
    /// The length of the key, which is not 32 bytes.
    #[error("publicKey must be in compressed form")]
    Length(usize),
}

impl PublicKey {
    /// Parses hex of either case.
    pub fn from_hex(text: &str) -> Result<Self, PublicKeyError> {
        let bytes = decode_hex(text)?;
        Self::try_from(bytes.as_slice())
    }
}

impl TryFrom<&[u8]> for PublicKey {
    type Error = PublicKeyError;

    fn try_from(bytes: &[u8]) -> Result<Self, PublicKeyError> {
        match bytes.try_into() {
            Ok(key) => Ok(Self(key)),
            Err(_) => Err(PublicKeyError::Length(bytes.len())),
        }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex::<64>(&self.0, f)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex::<128>(&self.0, f)
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes `bytes` as exactly `DIGITS` lower-case hex digits.
fn write_hex<const DIGITS: usize>(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [0; DIGITS];
    hex::encode_to_slice(bytes, &mut text).map_err(|_| fmt::Error)?;
    f.pad(str::from_utf8(&text).map_err(|_| fmt::Error)?)
}

/// A private key: a non-negative integer of any size, erased from memory when dropped.
///
/// Only its low 32 bytes matter for signing, but it prints with all of them.
pub struct PrivateKey {
    /// Big-endian, without leading zero bytes; empty for zero.
    magnitude: Zeroizing<Vec<u8>>,
}

impl PrivateKey {
    /// Parses a hex number of any length and either case, most significant digit first.
    ///
    /// There is no limit: the key takes half as many bytes as the text, which the caller limits.
    pub fn from_hex(text: &str) -> Result<Self, HexError> {
        let significant = text.trim_start_matches('0');
        let mut magnitude = Zeroizing::new(Vec::new());
        match decode_hex_into(significant, &mut magnitude) {
            Ok(()) => Ok(Self { magnitude }),
            // Decoded again with the leading zeros, for the right index in the message. Into another vector: growing
            // the first one would leave its bytes in memory.
            Err(error) => Err(decode_hex_into(text, &mut Zeroizing::new(Vec::new())).err().unwrap_or(error)),
        }
    }

    /// Creates the key with this seed: 32 random bytes, taken as a little-endian number.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let digits = seed.iter().rev().copied();
        let mut magnitude = Zeroizing::new(Vec::with_capacity(seed.len()));
        magnitude.extend(digits.skip_while(|byte| *byte == 0));
        Self { magnitude }
    }

    /// Returns the text that NIS1 prints: minimal two's complement in lower-case hex. A key whose top bit is set has a
    /// leading `00`; a small key is short.
    pub fn printed(&self) -> Zeroizing<String> {
        let sign_byte = self.magnitude.first().is_none_or(|top| top & 0x80 != 0);
        let mut text = Zeroizing::new(String::with_capacity(2 * self.magnitude.len() + 2));
        if sign_byte {
            text.push_str("00");
        }
        let nibbles = self.magnitude.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        text.extend(nibbles.filter_map(|nibble| char::from_digit(nibble.into(), 16)));
        text
    }

    /// Returns the low 32 bytes in little-endian order, the input of key expansion.
    pub fn seed(&self) -> Zeroizing<[u8; 32]> {
        let mut seed = Zeroizing::new([0; 32]);
        for (place, byte) in seed.iter_mut().zip(self.magnitude.iter().rev()) {
            *place = *byte;
        }
        seed
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(hidden)")
    }
}

/// An expanded private key with its public key. Secrets are erased when dropped.
pub struct KeyPair {
    secret: ExpandedSecretKey,
    /// First half of the expanded key: the secret scalar before clamping and reduction modulo L. A point with a
    /// small-order component distinguishes it from the reduced scalar.
    raw_scalar: Zeroizing<[u8; 32]>,
    public: VerifyingKey,
}

impl KeyPair {
    /// Expands a private key: its Keccak-512 hash gives the secret scalar and the nonce prefix for signing.
    pub fn new(private: &PrivateKey) -> Self {
        let expanded = Zeroizing::new(keccak512(private.seed().as_slice()));
        let secret = ExpandedSecretKey::from_bytes(&expanded);
        let mut raw_scalar = Zeroizing::new([0; 32]);
        raw_scalar.copy_from_slice(&expanded[..32]);
        let public = VerifyingKey::from(&secret);
        Self { secret, raw_scalar, public }
    }

    /// Returns the public key of this pair.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.public.to_bytes())
    }

    /// Signs `data`. The same data always gives the same signature.
    pub fn sign(&self, data: &[u8]) -> Signature {
        Signature(raw_sign::<Keccak512>(&self.secret, data, &self.public).to_bytes())
    }

    /// Returns the encoded point that both sides of a conversation can compute: own scalar times the other's public
    /// key.
    pub(super) fn shared_point(&self, other: &PublicKey) -> Result<Zeroizing<[u8; 32]>, NotAPoint> {
        let other = CompressedEdwardsY(other.0).decompress().ok_or(NotAPoint)?;
        let shared = other.mul_clamped(*self.raw_scalar);
        Ok(Zeroizing::new(shared.compress().to_bytes()))
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair(public {}, private hidden)", self.public())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: &str = "7e35298620a1c5d510ec229b2f7d540dbd897394b02cf2625253014347c86a11";
    const ALICE_PUBLIC: &str = "67b5f2d2647fcc400b589512cb8e5fdd93a682e66c5b3cb4fda97317bb195f86";

    fn alice() -> PrivateKey {
        PrivateKey::from_hex(ALICE).unwrap()
    }

    #[test]
    fn a_private_key_prints_as_minimal_twos_complement() {
        let printed = |text| PrivateKey::from_hex(text).unwrap().printed().to_string();
        assert_eq!(printed(""), "00");
        assert_eq!(printed("0000"), "00");
        assert_eq!(printed("7f"), "7f");
        assert_eq!(printed("80"), "0080");
        assert_eq!(printed("123"), "0123");
        assert_eq!(printed("0000ABAB"), "00abab");
    }

    #[test]
    fn a_seed_is_the_reversed_key_without_higher_bytes() {
        let key = PrivateKey::from_hex(&format!("ff{}01", "00".repeat(31))).unwrap();
        let mut expected = [0; 32];
        expected[0] = 1;
        assert_eq!(*key.seed(), expected);
        assert_eq!(key.printed().len(), 2 * 34);
    }

    #[test]
    fn a_key_made_from_a_seed_gives_that_seed_back() {
        for seed in [[0; 32], [0xff; 32], *alice().seed()] {
            assert_eq!(*PrivateKey::from_seed(&seed).seed(), seed);
        }
        let again = PrivateKey::from_seed(&alice().seed());
        assert_eq!(again.printed().as_str(), ALICE);
    }

    #[test]
    fn a_bad_digit_in_a_private_key_is_reported_with_its_index() {
        let said = |text| PrivateKey::from_hex(text).unwrap_err().to_string();
        assert_eq!(said("000x"), "Illegal hexadecimal character x at index 3");
        assert_eq!(said("00x"), "Illegal hexadecimal character x at index 3");
        assert_eq!(said("xy"), "Illegal hexadecimal character x at index 0");
    }

    #[test]
    fn a_public_key_has_32_bytes() {
        assert_eq!(PublicKey::from_hex(ALICE_PUBLIC).unwrap().to_string(), ALICE_PUBLIC);
        assert_eq!(PublicKey::from_hex("00"), Err(PublicKeyError::Length(1)));
        assert_eq!(PublicKey::from_hex("").unwrap_err().to_string(), "publicKey must be in compressed form");
        let not_hex = PublicKey::from_hex("g0");
        assert!(matches!(not_hex, Err(PublicKeyError::Hex(_))));
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let pair = KeyPair::new(&alice());
        assert_eq!(format!("{:?}", alice()), "PrivateKey(hidden)");
        assert_eq!(format!("{pair:?}"), format!("KeyPair(public {ALICE_PUBLIC}, private hidden)"));
    }
}
