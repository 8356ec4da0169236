//! Hashes, keys, signatures and message encryption.
//!
//! The curve is Ed25519, but with Keccak-512 where everyone else has SHA-512, and with verification
//! rules of its own. Nothing here reads randomness: salts and seeds are handed in.

pub mod cipher;
pub mod hash;
pub mod hex_text;
pub mod keys;
pub mod verify;

pub use cipher::CipherError;
pub use hex_text::HexError;
pub use keys::{KeyPair, PrivateKey, PublicKey, PublicKeyError, Signature};
pub use verify::{NotAPoint, Verifier, verify};
