//! Messages of the client: a JSON array of strings, each a part of its byte stream.

use crate::api::percent;
use crate::codec::lenient_json::{self, Value};

/// Maximum number of strings in one message.
pub const MAX_STRINGS: usize = 4_096;
/// Maximum size of one message as JSON, in bytes.
pub const MAX_BYTES: usize = 64 * 1024;
/// Maximum size of one message in a form, in bytes; each byte may be encoded as three.
pub const MAX_FORM_BYTES: usize = 3 * MAX_BYTES;

/// Why a message is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadError {
    /// The message is empty.
    Empty,
    /// Its first string is null.
    Null,
    /// It is not an array of strings, is an empty array, or exceeds [`MAX_STRINGS`] or [`MAX_BYTES`].
    Broken,
}

impl PayloadError {
    /// The error text for the client.
    pub fn text(self) -> &'static str {
        match self {
            Self::Empty => "Payload expected.",
            Self::Null | Self::Broken => "Broken JSON encoding.",
        }
    }
}

/// Concatenates the strings of a message.
pub fn read(message: &[u8]) -> Result<Vec<u8>, PayloadError> {
    if message.is_empty() {
        return Err(PayloadError::Empty);
    }
    if message.len() > MAX_BYTES {
        return Err(PayloadError::Broken);
    }
    let Ok(Value::Array(values)) = lenient_json::parse(message) else { return Err(PayloadError::Broken) };
    if values.is_empty() || values.len() > MAX_STRINGS {
        return Err(PayloadError::Broken);
    }
    if values.first() == Some(&Value::Null) {
        return Err(PayloadError::Null);
    }
    let mut stream = Vec::with_capacity(message.len());
    for value in values {
        let Value::String(piece) = value else { return Err(PayloadError::Broken) };
        stream.extend_from_slice(piece.as_bytes());
    }
    Ok(stream)
}

/// Concatenates the strings of a message, which is the field `d` of a form if the content type says so.
pub fn read_form(body: &[u8], content_type: Option<&str>) -> Result<Vec<u8>, PayloadError> {
    const FORM: &str = "application/x-www-form-urlencoded";
    let is_form =
        content_type.and_then(|value| value.get(..FORM.len())).is_some_and(|kind| kind.eq_ignore_ascii_case(FORM));
    if !is_form {
        return read(body);
    }
    let field = body.split(|byte| *byte == b'&').find_map(|field| field.strip_prefix(b"d=")).unwrap_or_default();
    let text = std::str::from_utf8(field).map_err(|_| PayloadError::Broken)?;
    read(&percent::decode(text, true).ok_or(PayloadError::Broken)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_is_an_array_whose_strings_are_all_read() {
        assert_eq!(read(br#"["a\u0000", "b"]"#), Ok(b"a\0b".to_vec()));
        assert_eq!(read(b"['a']"), Ok(b"a".to_vec()));
        assert_eq!(read(br#"[""]"#), Ok(Vec::new()));
        assert_eq!(read(b""), Err(PayloadError::Empty));
        for broken in
            ["{}", "[]", "[1]", "[\"a\",null]", "[[\"a\"]]", "[\"a\",1]", "xx", "\"a\"", "[\"CONNECT\\n\\n\\u0000"]
        {
            assert_eq!(read(broken.as_bytes()), Err(PayloadError::Broken), "{broken}");
        }
        for null in ["[null]", "[null,\"a\"]"] {
            assert_eq!(read(null.as_bytes()), Err(PayloadError::Null), "{null}");
        }
        let many = |count: usize| format!("[{}\"\"]", "\"\",".repeat(count - 1));
        assert!(read(many(MAX_STRINGS).as_bytes()).is_ok() && read(many(MAX_STRINGS + 1).as_bytes()).is_err());
        let long = |bytes: usize| format!("[\"{}\"]", "x".repeat(bytes - 4));
        assert!(read(long(MAX_BYTES).as_bytes()).is_ok() && read(long(MAX_BYTES + 1).as_bytes()).is_err());
    }

    #[test]
    fn a_form_has_the_message_in_its_field() {
        let form = Some("application/x-www-form-urlencoded; charset=UTF-8");
        assert_eq!(read_form(b"x=1&d=%5B%22a+b%2B%22%5D", form), Ok(b"a b+".to_vec()));
        assert_eq!(read_form(b"d=%5", form), Err(PayloadError::Broken));
        for empty in ["", "d=", "x=1"] {
            assert_eq!(read_form(empty.as_bytes(), form), Err(PayloadError::Empty), "{empty:?}");
        }
        assert_eq!(read_form(br#"["d=1"]"#, Some("text/plain")), Ok(b"d=1".to_vec()));
        assert_eq!(read_form(br#"["d=1"]"#, None), Ok(b"d=1".to_vec()));
    }

    proptest! {
        #[test]
        fn strings_are_joined_in_order(strings in proptest::collection::vec(".*", 1..5)) {
            let message = serde_json::to_vec(&strings).unwrap();
            prop_assert_eq!(read(&message), Ok(strings.concat().into_bytes()));
        }

        #[test]
        fn arbitrary_payloads_are_rejected_or_read_with_bounded_length(message: Vec<u8>) {
            let read = read(&message);
            prop_assert!(read.is_err() || read.unwrap().len() <= 3 * message.len());
        }
    }
}
