//! Checks entities in both formats.

use std::fmt::Debug;

use nisd::codec::{Context, Format, Readable, Writable};

/// Checks that both forms decode to the same value, and that it encodes to both forms byte for byte.
pub fn check<T: Readable + Writable + PartialEq + Debug>(name: &str, json: &str, binary: &[u8], context: Context) -> T {
    let read = |format: Format, body: &[u8]| -> T {
        format.read(body, context).unwrap_or_else(|error| panic!("{name}, {format:?}: {error}"))
    };
    let (from_json, from_binary) = (read(Format::Json, json.as_bytes()), read(Format::Binary, binary));
    assert_eq!(from_json, from_binary, "{name}");
    assert_eq!(String::from_utf8_lossy(&Format::Json.to_bytes(&from_binary)), json, "{name}");
    assert_eq!(hex::encode(Format::Binary.to_bytes(&from_json)), hex::encode(binary), "{name}");
    from_json
}
