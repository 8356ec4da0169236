//! Encryption of secure messages.
//!
//! A payload is 32 bytes of salt, 16 bytes of initialisation vector, and the AES-256-CBC cipher text with PKCS#7
//! padding. There is no authentication tag: a wrong key usually causes bad padding, sometimes garbage.

use aes::Aes256;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use zeroize::Zeroizing;

use super::hash::keccak256;
use super::keys::{KeyPair, NotAPoint, PublicKey};

const SALT_BYTES: usize = 32;
const IV_BYTES: usize = 16;
const BLOCK_BYTES: usize = 16;

/// Why decryption cannot be attempted. NIS1 treats both cases as errors, unlike bad padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CipherError {
    /// The length of the cipher text, which is not a multiple of 16 bytes.
    #[error("a cipher text of {0} bytes is truncated or damaged: it must consist of whole blocks of 16 bytes")]
    PartialBlock(usize),
    /// The other side's public key is not a point of the curve.
    #[error("{0}")]
    NotAPoint(#[from] NotAPoint),
}

/// Returns the AES key of a message: Keccak-256 of the shared point XORed with `salt`. Both sides get the same key.
pub fn shared_key(own: &KeyPair, other: &PublicKey, salt: &[u8; 32]) -> Result<Zeroizing<[u8; 32]>, NotAPoint> {
    let mut mixed = own.shared_point(other)?;
    for (byte, salt) in mixed.iter_mut().zip(salt) {
        *byte ^= salt;
    }
    Ok(Zeroizing::new(keccak256(mixed.as_slice())))
}

/// Encrypts `plain` from `sender` to `recipient`. The payload is 48 bytes longer, plus 1 to 16 bytes of padding. `salt`
/// and `iv` must be fresh from a cryptographic random source.
pub fn encrypt(
    sender: &KeyPair,
    recipient: &PublicKey,
    salt: [u8; 32],
    iv: [u8; 16],
    plain: &[u8],
) -> Result<Vec<u8>, NotAPoint> {
    let key = shared_key(sender, recipient, &salt)?;
    let cipher = cbc::Encryptor::<Aes256>::new((&*key).into(), &iv.into());
    let cipher_text = cipher.encrypt_padded_vec::<Pkcs7>(plain);
    Ok([salt.as_slice(), &iv, &cipher_text].concat())
}

/// Decrypts `payload`. Returns `None` if it is too short or its padding is wrong, as nearly always with a wrong key.
/// `own` may be either side of the conversation; `other` is the opposite one.
pub fn decrypt(own: &KeyPair, other: &PublicKey, payload: &[u8]) -> Result<Option<Vec<u8>>, CipherError> {
    let Some((salt, rest)) = payload.split_first_chunk::<SALT_BYTES>() else { return Ok(None) };
    let Some((iv, cipher_text)) = rest.split_first_chunk::<IV_BYTES>() else { return Ok(None) };
    if cipher_text.len() < BLOCK_BYTES {
        return Ok(None);
    }
    if !cipher_text.len().is_multiple_of(BLOCK_BYTES) {
        return Err(CipherError::PartialBlock(cipher_text.len()));
    }
    let key = shared_key(own, other, salt)?;
    let cipher = cbc::Decryptor::<Aes256>::new((&*key).into(), iv.into());
    Ok(cipher.decrypt_padded_vec::<Pkcs7>(cipher_text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::PrivateKey;

    fn pair(number: u8) -> KeyPair {
        KeyPair::new(&PrivateKey::from_seed(&[number; 32]))
    }

    fn payload(plain: &[u8]) -> Vec<u8> {
        encrypt(&pair(1), &pair(2).public(), [3; 32], [4; 16], plain).unwrap()
    }

    #[test]
    fn both_sides_decrypt_the_message() {
        for length in [0, 1, 15, 16, 17, 1000] {
            let plain = vec![7; length];
            let payload = payload(&plain);
            assert_eq!(payload.len(), 48 + (length / 16 + 1) * 16);
            let by_recipient = decrypt(&pair(2), &pair(1).public(), &payload);
            assert_eq!(by_recipient, Ok(Some(plain.clone())));
            let by_sender = decrypt(&pair(1), &pair(2).public(), &payload);
            assert_eq!(by_sender, Ok(Some(plain)));
        }
    }

    #[test]
    fn a_payload_shorter_than_one_block_decrypts_to_nothing() {
        let whole = payload(b"");
        assert_eq!(whole.len(), SALT_BYTES + IV_BYTES + BLOCK_BYTES);
        for length in 0..whole.len() {
            let answer = decrypt(&pair(2), &pair(1).public(), &whole[..length]);
            assert_eq!(answer, Ok(None));
        }
    }

    #[test]
    fn a_partial_block_and_a_key_off_the_curve_are_errors() {
        let mut longer = payload(b"");
        longer.push(0);
        assert_eq!(decrypt(&pair(2), &pair(1).public(), &longer), Err(CipherError::PartialBlock(17)));
        let mut no_point = PublicKey([0; 32]);
        no_point.0[0] = 2;
        assert_eq!(decrypt(&pair(2), &no_point, &payload(b"")), Err(CipherError::NotAPoint(NotAPoint)));
        let sent = encrypt(&pair(1), &no_point, [0; 32], [0; 16], b"");
        assert_eq!(sent, Err(NotAPoint));
    }

    #[test]
    fn the_shared_scalar_is_not_reduced_modulo_the_group_order() {
        // A clamped scalar is a multiple of 8 and so maps every small-order point to the identity, whose encoding is a
        // one; the scalar modulo L would not.
        let mut order_two = PublicKey([0xff; 32]);
        order_two.0[0] = 0xec;
        order_two.0[31] = 0x7f;
        let mut identity = [0; 32];
        identity[0] = 1;
        for number in 0..8 {
            let key = shared_key(&pair(number), &order_two, &[0; 32]).unwrap();
            assert_eq!(*key, keccak256(&identity));
        }
    }
}
