//! Private keys in request bodies.

use std::borrow::Cow;

use zeroize::Zeroizing;

use super::request_context::Readable;
use crate::codec::wipe::Wiped;
use crate::codec::{Decoder, ReadError};
use crate::crypto::PrivateKey;

/// Significant bytes of a private key.
const SEED_BYTES: usize = 32;

/// `{"value": hex}`: a big-endian number of any length.
impl Readable for PrivateKey {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        read_key(source, "value")
    }
}

/// Reads a private key; only its last 32 bytes are significant.
pub fn read_key<'a, S: Decoder<'a>>(source: &mut S, label: &'static str) -> Result<PrivateKey, ReadError> {
    let bytes = Wiped(source.need_bytes(label).map(Cow::into_owned)?);
    let mut seed = Zeroizing::new([0; SEED_BYTES]);
    for (place, byte) in seed.iter_mut().zip(bytes.iter().rev()) {
        *place = *byte;
    }
    Ok(PrivateKey::from_seed(&seed))
}
