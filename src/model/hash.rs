//! Hashes of entities.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A Keccak-256 hash of 32 bytes. Serialised as hex.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Hash256(#[serde(with = "hex::serde")] pub [u8; 32]);

impl Hash256 {
    /// Parses 64 hex digits of either case.
    pub fn from_hex(text: &str) -> Option<Hash256> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Hash256(bytes))
    }
}

impl TryFrom<&[u8]> for Hash256 {
    type Error = std::array::TryFromSliceError;

    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        bytes.try_into().map(Hash256)
    }
}

impl fmt::Display for Hash256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Hash256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A hash as an entity carries it, of any length up to the limit of a byte string. A hash of another length than 32
/// bytes equals no [`Hash256`].
#[derive(Clone, PartialEq, Eq)]
pub struct WireHash(pub Vec<u8>);

impl From<Hash256> for WireHash {
    fn from(hash: Hash256) -> Self {
        WireHash(hash.0.to_vec())
    }
}

impl PartialEq<Hash256> for WireHash {
    fn eq(&self, other: &Hash256) -> bool {
        self.0 == other.0
    }
}

impl fmt::Debug for WireHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}
