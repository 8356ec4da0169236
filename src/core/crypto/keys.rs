//! Private keys, public keys, signing and verification, and hex as NIS1 decodes it: either case; an odd number of digits
//! gets a leading `0`.
//!
//! Verification is that of NIS1, bit for bit: neither the lax nor the strict verification of the usual libraries.
//! Small-order and non-canonical public keys are accepted, S = 0 and the all-zero key are not, the equation has no
//! cofactor, and R is compared as bytes.

use std::collections::HashMap;

use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::scalar::Scalar;
use data_encoding::HEXLOWER;
use derive_more::{Debug, Display};
use ed25519_dalek::VerifyingKey;
use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign, raw_verify};
use sha3::Keccak512;
use zeroize::Zeroizing;

use super::hash::keccak512;

/// An encoded public key of 32 bytes, not necessarily a point of the curve.
///
/// Entities carry keys unchecked; only verification and encryption decode them. Displayed as 64 lower-case hex digits.
#[derive(Clone, Copy, Debug, Default, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[display("{}", HEXLOWER.encode_display(_0))]
#[debug("{self}")]
pub struct PublicKey(pub [u8; 32]);

/// A signature: R (32 bytes), then S (32 bytes, little-endian). Displayed as 128 hex digits.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, Hash)]
#[display("{}", HEXLOWER.encode_display(_0))]
#[debug("{self}")]
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
        Self::try_from(decode_hex(text)?.as_slice())
    }
}

impl TryFrom<&[u8]> for PublicKey {
    type Error = PublicKeyError;

    fn try_from(bytes: &[u8]) -> Result<Self, PublicKeyError> {
        bytes.try_into().map(Self).map_err(|_| PublicKeyError::Length(bytes.len()))
    }
}

/// Minimum hex digits of a private key that is written as usual. NIS1 omits leading zeros, but never so many by chance.
pub const USUAL_KEY_DIGITS: usize = 58;

/// Returns what to tell a person about a private key of this many hex digits, if a part of it was probably lost: it is
/// short, or the number is odd, while NIS1 prints whole bytes.
pub fn incomplete_key_note(digits: usize) -> Option<String> {
    (digits < USUAL_KEY_DIGITS || digits % 2 == 1).then(|| {
        format!(
            "a private key of {digits} hex digits, not 64: was it copied completely? If so, write zeros in front of it"
        )
    })
}

/// A private key: a non-negative integer of any size, erased from memory when dropped.
///
/// Only its low 32 bytes matter for signing, but it prints with all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[debug("PrivateKey(hidden)")]
pub struct PrivateKey {
    /// Big-endian, without leading zero bytes; empty for zero.
    magnitude: Zeroizing<Vec<u8>>,
}

impl PrivateKey {
    /// Parses a hex number of any length and either case, most significant digit first.
    ///
    /// There is no limit: the key takes half as many bytes as the text, which the caller limits.
    pub fn from_hex(text: &str) -> Result<Self, HexError> {
        let mut magnitude = Zeroizing::new(Vec::new());
        decode_hex_into(text, &mut magnitude)?;
        let zeros = magnitude.iter().take_while(|byte| **byte == 0).count();
        magnitude.drain(..zeros);
        Ok(Self { magnitude })
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
        HEXLOWER.encode_append(&self.magnitude, &mut text);
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

/// An expanded private key with its public key. Secrets are erased when dropped.
#[derive(Debug)]
#[debug("KeyPair(public {}, private hidden)", self.public())]
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
        Ok(Zeroizing::new(other.mul_clamped(*self.raw_scalar).compress().to_bytes()))
    }
}

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
    Verifier::default().verify(public, data, signature)
}

/// [`verify()`] with a cache of decoded public keys.
///
/// Decoding a key is a noticeable part of a verification, and a few signers make up most of a chain. A full cache is
/// emptied.
#[derive(Debug, Default)]
#[debug("Verifier({} keys)", decoded.len())]
pub struct Verifier {
    decoded: HashMap<PublicKey, VerifyingKey>,
    /// Number of signatures whose check took its time.
    pub checked: u64,
}

/// Maximum number of cached keys: a little under 1 MB.
const MAX_KEYS: usize = 3584;

impl Verifier {
    /// Returns the same result as [`verify()`].
    pub fn verify(&mut self, public: &PublicKey, data: &[u8], signature: &Signature) -> Result<bool, NotAPoint> {
        // 0 < S < L, and the key is not all zeros.
        let [_, s] = signature.0.as_chunks::<32>().0 else { return Ok(false) };
        let s: Option<Scalar> = Scalar::from_canonical_bytes(*s).into();
        if s.is_none_or(|s| s == Scalar::ZERO) || public.0 == [0; 32] {
            return Ok(false);
        }
        self.checked += 1;
        let cached = self.decoded.get(public).copied();
        // Any y is taken modulo p, and x = 0 with the sign bit set stays 0.
        let decode = || VerifyingKey::from_bytes(&public.0).map_err(|_| NotAPoint);
        let key = cached.map_or_else(decode, Ok)?;
        // S·B − k·A, encoded, equals the bytes of R. The hash covers the key as encoded on the wire.
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
        let holds = raw_verify::<Keccak512>(&key, data, &signature).is_ok();
        // Only a key with a valid signature is cached, so that made-up keys cannot evict those in use.
        if holds && cached.is_none() {
            if self.decoded.len() == MAX_KEYS {
                self.decoded.clear();
            }
            self.decoded.insert(*public, key);
        }
        Ok(holds)
    }
}

/// A character that is not a hex digit. Its text is NIS1's, without the name of the exception: NIS1 names a single unit,
/// and half of a surrogate pair is written as `?`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Illegal hexadecimal character {} at index {index}", if .character.len_utf16() == 1 { *.character } else { '?' })]
pub struct HexError {
    /// The character.
    pub character: char,
    /// Its index in UTF-16 units, counted in the text *after* padding to an even length.
    pub index: usize,
}

/// Decodes hex `text`. Empty text gives no bytes.
///
/// There is no limit: the result is half as long as the text, which the caller limits.
pub fn decode_hex(text: &str) -> Result<Vec<u8>, HexError> {
    let mut bytes = Vec::new();
    decode_hex_into(text, &mut bytes)?;
    Ok(bytes)
}

/// Like [`decode_hex`], but appends to `bytes`. The vector grows at most once, before the first digit is read, so that
/// a secret leaves no copy behind.
pub fn decode_hex_into(text: &str, bytes: &mut Vec<u8>) -> Result<(), HexError> {
    // Not `is_ascii`, which copies the text in blocks.
    let units: usize = text.chars().map(char::len_utf16).sum();
    let padding = units % 2;
    bytes.reserve_exact(units.div_ceil(2));

    let mut high = (padding == 1).then_some(0);
    // Everything before the first bad character is ASCII, so characters and units agree.
    for (index, character) in text.chars().enumerate() {
        let digit = character.to_digit(16).ok_or(HexError { character, index: index + padding })? as u8;
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push(high << 4 | digit),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_few_or_an_odd_number_of_digits_is_probably_incomplete() {
        let noted: Vec<usize> = (50..=66).filter(|digits| incomplete_key_note(*digits).is_some()).collect();
        assert_eq!(noted, [50, 51, 52, 53, 54, 55, 56, 57, 59, 61, 63, 65]);
        assert!(incomplete_key_note(63).unwrap().starts_with("a private key of 63 hex digits"));
    }

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

#[cfg(test)]
mod verification_tests {
    use super::*;
    use crate::crypto::hash::keccak512;
    use crate::crypto::{KeyPair, PrivateKey};
    use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};

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
        let mut valid = 0;
        for message in 0..32 {
            let hash = keccak512(&[&r[..], &public.0, &[message]].concat());
            let challenge = Scalar::from_bytes_mod_order_wide(&hash);
            let s = challenge * secret + nonce;
            let mut signature = Signature([0; 64]);
            signature.0[..32].copy_from_slice(&r);
            signature.0[32..].copy_from_slice(s.as_bytes());

            let is_even = challenge.as_bytes()[0] & 1 == 0;
            assert_eq!(verify(&public, &[message], &signature), Ok(is_even));
            valid += u32::from(is_even);
        }
        assert!((1..32).contains(&valid), "{valid}");
    }

    #[test]
    fn a_verifier_equals_plain_verification_and_keeps_the_keys_that_sign() {
        let mut verifier = Verifier::default();
        for (round, signers) in [(0, 5), (1, 5), (2, 40), (3, 40)] {
            for signer in 0..signers {
                let signature = pair(signer).sign(&[round]);
                for claimed in [signer, (signer + 1) % signers, 200] {
                    let public = pair(claimed).public();
                    assert_eq!(verifier.verify(&public, &[round], &signature), Ok(claimed == signer));
                }
            }
            assert_eq!(verifier.decoded.len(), usize::from(signers), "{round}");
        }
    }

    #[test]
    fn a_verifier_has_a_largest_size() {
        let key = VerifyingKey::from_bytes(&pair(1).public().0).unwrap();
        let other = |number: usize| {
            let mut other = PublicKey::default();
            other.0[..8].copy_from_slice(&number.to_le_bytes());
            (other, key)
        };
        let mut verifier = Verifier { decoded: (0..MAX_KEYS).map(other).collect(), checked: 0 };
        assert_eq!(verifier.verify(&pair(2).public(), b"", &pair(2).sign(b"")), Ok(true));
        assert_eq!(verifier.decoded.into_keys().collect::<Vec<_>>(), [pair(2).public()]);
    }

    #[test]
    fn only_keys_with_a_valid_signature_are_cached() {
        let mut verifier = Verifier::default();
        let signature = pair(1).sign(b"data");
        assert_eq!(verifier.verify(&pair(1).public(), b"data", &signature), Ok(true));
        assert_eq!(verifier.verify(&pair(2).public(), b"data", &signature), Ok(false));
        assert_eq!(verifier.decoded.into_keys().collect::<Vec<_>>(), [pair(1).public()]);
    }

    #[test]
    fn either_case_and_odd_lengths_are_read() {
        assert_eq!(decode_hex("00aBfF"), Ok(vec![0x00, 0xab, 0xff]));
        assert_eq!(decode_hex("123"), Ok(vec![0x01, 0x23]));
        assert_eq!(decode_hex(""), Ok(vec![]));
    }

    #[test]
    fn the_first_bad_digit_is_reported_with_its_index_in_the_padded_text() {
        let said = |text| decode_hex(text).unwrap_err().to_string();
        assert_eq!(said("zz"), "Illegal hexadecimal character z at index 0");
        assert_eq!(said("12g"), "Illegal hexadecimal character g at index 3");
        assert_eq!(said("00é0"), "Illegal hexadecimal character é at index 2");
        assert_eq!(said("0😀"), "Illegal hexadecimal character ? at index 2");
    }
}
