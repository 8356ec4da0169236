//! Private keys in requests: how they are read, and how what is left of them is erased.

use std::borrow::Cow;

use zeroize::{Zeroize, Zeroizing};

use super::call::Readable;
use crate::codec::lax_json::Value;
use crate::codec::{ReadError, Source};
use crate::crypto::PrivateKey;

/// Bytes of a private key that matter.
const SEED_BYTES: usize = 32;

/// `{"value": hex}`: a big-endian number of any length.
impl Readable for PrivateKey {
    const IS_SECRET: bool = true;

    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let bytes = Zeroizing::new(source.need_bytes("value").map(Cow::into_owned)?);
        let mut seed = Zeroizing::new([0; SEED_BYTES]);
        for (place, byte) in seed.iter_mut().zip(bytes.iter().rev()) {
            *place = *byte;
        }
        Ok(PrivateKey::from_seed(&seed))
    }
}

/// Erases all texts of a value.
pub fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(values) => values.iter_mut().for_each(wipe),
        Value::Object(members) => members.iter_mut().for_each(|(_, value)| wipe(value)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::lax_json;

    #[test]
    fn no_text_of_a_value_is_left() {
        let mut value = lax_json::parse(br#"{"a":"secret","b":[{"c":"secret"},1]}"#).unwrap();
        wipe(&mut value);
        assert!(!format!("{value:?}").contains("secret"));
    }
}
