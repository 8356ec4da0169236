//! The `config.json` of a recorded chain: its member `nisConfiguration` holds NIS1's keys and their values.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use zeroize::Zeroizing;

use super::problem::Diagnostic;
use super::properties::{MAX_FILE_BYTES, Property, strip_byte_order_mark, too_large};

/// Member of the file that holds the configuration keys.
const MEMBER: &str = "nisConfiguration";

/// Returns whether a file is JSON rather than properties: its first character is a brace.
pub fn looks_like_json(bytes: &[u8]) -> bool {
    strip_byte_order_mark(bytes).trim_ascii_start().starts_with(b"{")
}

/// Reads the members of `nisConfiguration` in order; other members are skipped.
///
/// A value is a text, a whole number or a boolean. The line of a property is that of its key.
pub fn parse(bytes: &[u8]) -> Result<Vec<Property>, Diagnostic> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(too_large());
    }
    let bytes = strip_byte_order_mark(bytes);
    let file: File = serde_json::from_slice(bytes).map_err(|error| explain(&error))?;
    let mut lines = LineFinder::new(bytes);
    Ok(file.0.into_iter().map(|(key, value)| Property { line: lines.line_of(&key), key, value: value.0 }).collect())
}

/// Describes a JSON error without repeating the file's content, which may be secret.
fn explain(error: &serde_json::Error) -> Diagnostic {
    let what = match error.classify() {
        serde_json::error::Category::Data => {
            format!("the file needs an object {MEMBER:?} whose values are texts, whole numbers or booleans")
        }
        _ => format!("not valid JSON (column {})", error.column()),
    };
    Diagnostic::error(error.line(), what)
}

struct File(Vec<(String, Scalar)>);

impl<'de> Deserialize<'de> for File {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = File;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<File, A::Error> {
                let mut found = None;
                while let Some(name) = members.next_key::<String>()? {
                    if name == MEMBER {
                        found = Some(members.next_value::<Pairs>()?.0);
                    } else {
                        members.next_value::<serde::de::IgnoredAny>()?;
                    }
                }
                found.map(File).ok_or_else(|| A::Error::missing_field(MEMBER))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// The members of an object, in order.
struct Pairs(Vec<(String, Scalar)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = members.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

struct Scalar(Zeroizing<String>);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsText;
        impl Visitor<'_> for AsText {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a whole number or a boolean")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(Zeroizing::new(text.to_owned())))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar, E> {
                self.visit_str(if value { "true" } else { "false" })
            }
        }
        deserializer.deserialize_any(AsText)
    }
}

/// Finds the lines of a sequence of keys, in one pass over the file.
struct LineFinder<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> LineFinder<'a> {
    fn new(bytes: &'a [u8]) -> LineFinder<'a> {
        let mut finder = LineFinder { rest: std::str::from_utf8(bytes).unwrap_or_default(), line: 1 };
        finder.line_of(MEMBER);
        finder
    }

    /// Returns the line of the next occurrence of `key` in quotes; if it is not found, because its text holds escapes,
    /// the line of the previous key.
    fn line_of(&mut self, key: &str) -> usize {
        let quoted = format!("\"{key}\"");
        if let Some((before, after)) = self.rest.split_once(&quoted) {
            self.line += before.bytes().filter(|b| *b == b'\n').count();
            self.rest = after;
        }
        self.line
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_values_and_lines_are_read_in_order() {
        let text = "{\n \"network\": {\"a\": [1, {}]},\n \"nisConfiguration\": {\n  \"b\": \"x|y\",\n  \"a\": 7,\n\n  \"c\": \
                    -1, \"d\": true, \"\\u0065\": \"\"\n }\n}";
        let read: Vec<_> =
            parse(text.as_bytes()).unwrap().into_iter().map(|p| (p.key, p.value.to_string(), p.line)).collect();
        let expected = [("b", "x|y", 4), ("a", "7", 5), ("c", "-1", 7), ("d", "true", 7), ("e", "", 7)];
        assert_eq!(read, expected.map(|(k, v, l)| (k.to_owned(), v.to_owned(), l)));
    }

    #[test]
    fn a_file_without_the_member_or_with_invalid_values_is_rejected_by_line() {
        for text in ["{\n}", "{\"nisConfiguration\":\n\"s3cret\"}", "{\n\"nisConfiguration\":{\"a\":[\"s3cret\"]}}"] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.line, 2, "{error}");
            assert!(error.text.contains("nisConfiguration") && !error.text.contains("s3cret"), "{error}");
        }
        for text in ["{\n\"nisConfiguration\":{\"a\":1.5}}", "{\n\"nisConfiguration\":{\"a\":null}}"] {
            assert_eq!(parse(text.as_bytes()).unwrap_err().line, 2, "{text}");
        }
    }

    #[test]
    fn broken_json_is_rejected_with_its_line_and_column() {
        assert_eq!(parse(b"{\n\"a\": ,\n}").unwrap_err().to_string(), "line 2: not valid JSON (column 6)");
        assert!(parse(b"{} {}").is_err());
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
        assert_eq!(parse(&vec![b' '; MAX_FILE_BYTES + 1]).unwrap_err(), too_large());
    }

    #[test]
    fn json_is_recognised_by_its_first_character() {
        assert!(looks_like_json(b"\xef\xbb\xbf \r\n{"));
        assert!(!looks_like_json(b"# {"));
        assert!(!looks_like_json(b""));
    }

    proptest! {
        #[test]
        fn arbitrary_json_text_does_not_panic_the_parser(text in r#"\{"nisConfiguration":\{[a-c":,\\{}\[\]0-9 ]{0,40}"#) {
            let _ = parse(text.as_bytes());
        }
    }
}
