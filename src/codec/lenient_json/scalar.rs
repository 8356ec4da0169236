//! Scalars of lenient JSON: unquoted tokens, and strings that are assembled from pieces.

use super::Value;
use crate::codec::wipe::Wiped;

/// A string built from text and single UTF-16 units. The halves of a surrogate pair arrive one by one; an unpaired one
/// becomes `?`.
pub(super) struct Utf16Builder {
    text: Wiped<String>,
    high: Option<u16>,
}

impl Utf16Builder {
    /// Creates an empty string with a capacity of `bytes`, so that it need not be reallocated.
    pub(super) fn with_capacity(bytes: usize) -> Utf16Builder {
        Utf16Builder { text: Wiped(String::with_capacity(bytes)), high: None }
    }

    pub(super) fn push_str(&mut self, text: &str) {
        if !text.is_empty() {
            self.flush_unpaired();
            self.text.push_str(text);
        }
    }

    pub(super) fn push_unit(&mut self, unit: u16) {
        if let (Some(high), 0xdc00..=0xdfff) = (self.high, unit) {
            self.text.extend(char::decode_utf16([high, unit]).flatten());
            self.high = None;
            return;
        }
        self.flush_unpaired();
        match unit {
            0xd800..=0xdbff => self.high = Some(unit),
            _ => self.text.push(char::from_u32(unit.into()).unwrap_or('?')),
        }
    }

    fn flush_unpaired(&mut self) {
        if self.high.take().is_some() {
            self.text.push('?');
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.flush_unpaired();
        std::mem::take(&mut *self.text)
    }
}

/// Returns the value of an unquoted token.
pub(super) fn classify(token: &str) -> Value {
    match token {
        "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "NaN" => Value::Decimal(f64::NAN),
        _ => number(token).unwrap_or_else(|| Value::String(token.to_owned())),
    }
}

/// Parses `token` as a number: as in RFC 8259, but leading zeros are allowed.
fn number(token: &str) -> Option<Value> {
    let mut rest = after_digits(token.strip_prefix('-').unwrap_or(token))?;
    if rest.is_empty() {
        return Some(token.parse().map_or(Value::HugeInteger, Value::Integer));
    }
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = after_digits(fraction)?;
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        rest = after_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))?;
    }
    match rest {
        "" => token.parse().ok().map(Value::Decimal),
        _ => None,
    }
}

/// Returns the text after the digits at the start of `text`; `None` if there are none.
fn after_digits(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|character: char| character.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::lenient_json::parse;

    fn unquoted(text: &str) -> Value {
        match parse(format!("[ {text} ]").as_bytes()) {
            Ok(Value::Array(mut values)) if values.len() == 1 => values.remove(0),
            other => panic!("{text} gave {other:?}"),
        }
    }

    fn quoted(text: &str) -> String {
        match parse(format!("\"{text}\"").as_bytes()) {
            Ok(Value::String(string)) => string,
            other => panic!("{text} gave {other:?}"),
        }
    }

    #[test]
    fn unquoted_words_and_numbers_keep_their_meaning() {
        for (text, value) in [
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("005", Value::Integer(5)),
            ("-0", Value::Integer(0)),
            ("9223372036854775807", Value::Integer(i64::MAX)),
            ("-9223372036854775808", Value::Integer(i64::MIN)),
            ("9223372036854775808", Value::HugeInteger),
            ("-9223372036854775809", Value::HugeInteger),
            ("5.0", Value::Decimal(5.0)),
            ("-00.25e1", Value::Decimal(-2.5)),
            ("1E+2", Value::Decimal(100.0)),
            ("1e-2", Value::Decimal(0.01)),
            ("1e999", Value::Decimal(f64::INFINITY)),
        ] {
            assert_eq!(unquoted(text), value, "{text}");
        }
        assert!(matches!(unquoted("NaN"), Value::Decimal(number) if number.is_nan()));
    }

    #[test]
    fn any_other_unquoted_text_is_a_string() {
        for text in [
            "+1", "0x10", ".5", "1.", "-", "1e", "1e+", "1.e5", "--1", "5/*c*/", "nul", "True", "1 2", "inf", "nan",
            "-NaN",
        ] {
            assert_eq!(unquoted(text), Value::String(text.to_owned()));
        }
    }

    #[test]
    fn half_of_a_surrogate_pair_becomes_a_question_mark() {
        for (text, string) in [
            (r"\ud83d\ude00", "😀"),
            (r"\ud83d", "?"),
            (r"\ude00", "?"),
            (r"\ud83dx\ude00", "?x?"),
            (r"\ud83d\ud83d\ude00", "?😀"),
            (r"\ude00\ud83d\u0041", "??A"),
        ] {
            assert_eq!(quoted(text), string, "{text}");
        }
    }
}
