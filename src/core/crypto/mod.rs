//! Hashes, keys, signatures and message encryption.
//!
//! The curve is Ed25519, but with Keccak-512 instead of SHA-512 and with NIS1's verification rules. Nothing here reads
//! randomness: the caller supplies salts and seeds.

pub mod cipher;
pub mod hash;
pub mod keys;

pub use cipher::CipherError;
pub use hash::Randomness;
pub use keys::{HexError, KeyPair, NotAPoint, PrivateKey, PublicKey, PublicKeyError, Signature, Verifier, verify};
