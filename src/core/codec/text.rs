//! Text as NIS1 reads and writes it: UTF-8 repair, lengths in UTF-16 units, JSON strings and numbers; and the text of files
//! that people write.

use std::borrow::Cow;
use std::io::Write;

use super::{ReadError, Result};

/// The content of a file is not UTF-8 text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotText {
    /// It has NUL bytes or the byte order mark of UTF-16.
    #[error("it is UTF-16 or a binary file; save it as UTF-8 text")]
    Utf16,
    /// This line, from 1, is the first one that is not UTF-8.
    #[error("line {0} is not UTF-8 text; save the file as UTF-8")]
    Line(usize),
}

/// Returns the text of a file that a person may have written, for all such files: UTF-8, without the byte order mark that
/// may be in front.
pub fn text_of_file(bytes: &[u8]) -> Result<&str, NotText> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") || bytes.contains(&0) {
        return Err(NotText::Utf16);
    }
    let read = str::from_utf8(without_byte_order_mark(bytes));
    read.map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        NotText::Line(1 + before.iter().filter(|byte| **byte == b'\n').count())
    })
}

/// Removes a byte order mark in front of UTF-8 text.
pub fn without_byte_order_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes)
}

/// Decodes `bytes` as UTF-8, replacing malformed sequences by U+FFFD.
///
/// Each maximal ill-formed prefix gets one replacement. A surrogate encoded in UTF-8, with or without its last byte, is
/// one sequence and gets one replacement.
pub fn repair_utf8(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    // Memory is allocated once, so that no copy of a secret stays behind.
    let replaced = bytes.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count();
    let mut text = String::with_capacity(bytes.len() + 2 * replaced);
    let mut at = 0;
    // End of the last encoded surrogate that was replaced.
    let mut replaced_up_to = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        at += chunk.valid().len();
        if !chunk.invalid().is_empty() && at >= replaced_up_to {
            text.push(char::REPLACEMENT_CHARACTER);
            replaced_up_to = at + encoded_surrogate_len(&bytes[at..]);
        }
        at += chunk.invalid().len();
    }
    Cow::Owned(text)
}

/// Returns how many bytes at the start of `bytes` belong to an encoded surrogate.
fn encoded_surrogate_len(bytes: &[u8]) -> usize {
    match bytes {
        [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => 3,
        [0xed, 0xa0..=0xbf, ..] => 2,
        _ => 0,
    }
}

/// Returns the first `units` UTF-16 units of `text`. If the cut splits a surrogate pair, the half becomes `?`.
pub fn truncate_utf16(text: &str, units: usize) -> Cow<'_, str> {
    // A unit takes at least one byte.
    if text.len() <= units {
        return Cow::Borrowed(text);
    }
    let mut left = units;
    for (at, character) in text.char_indices() {
        match left.checked_sub(character.len_utf16()) {
            Some(rest) => left = rest,
            None if left == 0 => return Cow::Borrowed(&text[..at]),
            None => return Cow::Owned([&text[..at], "?"].concat()),
        }
    }
    Cow::Borrowed(text)
}

/// Returns whether `text` is empty or only white space as Java defines it: the next line and non-breaking spaces are not
/// white space, the four information separators are.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|character| {
        let is_space = character.is_whitespace() && !matches!(character, '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}');
        is_space || matches!(character, '\u{1c}'..='\u{1f}')
    })
}

/// Appends `text` as a quoted JSON string with NIS1's escapes, which include `/` and the ranges U+007F–U+009F and
/// U+2000–U+20FF.
pub fn write_json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    write_json_characters(out, text);
    out.push(b'"');
}

/// Per byte whether it is a character that is written as it is.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b' ';
    while byte < 0x7f {
        plain[byte as usize] = !matches!(byte, b'"' | b'/' | b'\\');
        byte += 1;
    }
    plain
};

/// Appends `text` as [`write_json_string`] does, without the quotes.
pub fn write_json_characters(out: &mut Vec<u8>, text: &str) {
    // Nearly every text.
    if text.bytes().all(|byte| PLAIN[usize::from(byte)]) {
        return out.extend_from_slice(text.as_bytes());
    }
    out.reserve(text.len());
    let mut from = 0;
    for (at, character) in text.char_indices() {
        let letter = match character {
            '"' | '\\' | '/' => Some(character),
            '\u{8}' => Some('b'),
            '\u{c}' => Some('f'),
            '\n' => Some('n'),
            '\r' => Some('r'),
            '\t' => Some('t'),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2000}'..='\u{20ff}' => None,
            _ => continue,
        };
        out.extend_from_slice(&text.as_bytes()[from..at]);
        // A vector takes all that is written.
        let _ = match letter {
            Some(letter) => write!(out, "\\{letter}"),
            None => write!(out, "\\u{:04X}", u32::from(character)),
        };
        from = at + character.len_utf8();
    }
    out.extend_from_slice(&text.as_bytes()[from..]);
}

/// Appends `value` in decimal.
pub fn write_integer(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends `value` in Java's notation of a double: plain from 10⁻³ to below 10⁷, else `d.dddE±n` without `+`.
/// Not-a-number is `NaN`, an infinity is `null`.
pub fn write_json_double(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        return out.extend_from_slice(b"NaN");
    }
    if value.is_infinite() {
        return out.extend_from_slice(b"null");
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let magnitude = value.abs();
    let mut text = format!("{magnitude:e}");
    if !text.contains('.') && magnitude != 0.0 {
        // Java looks for the nearest decimal of at least two digits: 4.9E-324, not 5.0E-324.
        text = format!("{magnitude:.1e}");
    }
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (first, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = if fraction == "0" { "" } else { fraction };
    let or_zero = |digits: &str| if digits.is_empty() { "0".to_owned() } else { digits.to_owned() };
    let exponent: i16 = exponent.parse().unwrap_or(0);
    let places = usize::from(exponent.unsigned_abs());
    // A vector takes all that is written.
    let _ = match exponent {
        -3..0 => write!(out, "0.{}{first}{fraction}", "0".repeat(places - 1)),
        0..7 => {
            let padded = format!("{fraction:0<places$}");
            let (whole, rest) = padded.split_at_checked(places).unwrap_or_default();
            write!(out, "{first}{whole}.{}", or_zero(rest))
        }
        _ => write!(out, "{first}.{}E{exponent}", or_zero(fraction)),
    };
}

/// The zero of every run of ten decimal digits.
const ZEROS: [u16; 37] = [
    0x0030, 0x0660, 0x06f0, 0x07c0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66, 0x0de6,
    0x0e50, 0x0ed0, 0x0f20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40,
    0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
];

fn digit(character: char) -> Option<i64> {
    let code = u16::try_from(u32::from(character)).ok()?;
    let zero = ZEROS[..ZEROS.partition_point(|zero| *zero <= code)].last()?;
    (code - zero < 10).then(|| i64::from(code - zero))
}

/// Parses a 64-bit integer as NIS1's text properties allow it: with a sign, leading zeros, and digits of any script of
/// the Basic Multilingual Plane. Fails with [`ReadError::NotANumber`].
pub fn parse_i64(text: &str) -> Result<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    // Summed as a negative number, so that the smallest integer does not overflow.
    let add = |sum: i64, character| sum.checked_mul(10)?.checked_sub(digit(character)?);
    let negated = digits.chars().try_fold(0, add).filter(|_| !digits.is_empty());
    let number = if negative { negated } else { negated.and_then(i64::checked_neg) };
    number.ok_or_else(|| ReadError::NotANumber(text.to_owned()))
}

/// Parses a 32-bit integer as [`parse_i64`] does.
pub fn parse_i32(text: &str) -> Result<i32> {
    parse_i64(text)?.try_into().map_err(|_| ReadError::NotANumber(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json_string(text: &str) -> String {
        let mut out = Vec::new();
        write_json_string(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    fn json_double(value: f64) -> String {
        let mut out = Vec::new();
        write_json_double(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_file_is_utf8_text_with_or_without_a_byte_order_mark() {
        assert_eq!(text_of_file("\u{feff}ä\n".as_bytes()), Ok("ä\n"));
        assert_eq!(text_of_file("a\u{feff}".as_bytes()), Ok("a\u{feff}"));
        assert_eq!(text_of_file(b""), Ok(""));
        assert_eq!(text_of_file(b"a\n\xe4"), Err(NotText::Line(2)));
        for is_little in [true, false] {
            let units = |mark: &str| -> Vec<u8> {
                let text = format!("{mark}nem.network = testnet\n");
                text.encode_utf16()
                    .flat_map(|unit| if is_little { unit.to_le_bytes() } else { unit.to_be_bytes() })
                    .collect()
            };
            for mark in ["", "\u{feff}"] {
                assert_eq!(text_of_file(&units(mark)), Err(NotText::Utf16));
            }
        }
    }

    #[test]
    fn an_encoded_surrogate_gets_one_replacement_even_without_its_last_byte() {
        assert_eq!(repair_utf8(b"a\xed\xa0\x80b"), "a\u{fffd}b");
        assert_eq!(repair_utf8(b"a\xed\xa0b"), "a\u{fffd}b");
        assert_eq!(repair_utf8(b"\xed\xbf"), "\u{fffd}");
        assert_eq!(repair_utf8(b"\xed\xa0\xed\xa0\x80"), "\u{fffd}\u{fffd}");
        assert_eq!(repair_utf8(b"\xed\xbf\x80\x80"), "\u{fffd}\u{fffd}");
        assert_eq!(repair_utf8(b"\xedA"), "\u{fffd}A");
    }

    #[test]
    fn well_formed_text_is_borrowed() {
        assert!(matches!(repair_utf8("h\u{e9}llo".as_bytes()), Cow::Borrowed("h\u{e9}llo")));
    }

    #[test]
    fn text_is_cut_in_utf16_units() {
        assert_eq!(truncate_utf16("hello", 5), "hello");
        assert_eq!(truncate_utf16("hello", 4), "hell");
        assert_eq!(truncate_utf16("hello", 0), "");
        assert_eq!(truncate_utf16("世界", 2), "世界");
        assert_eq!(truncate_utf16("世界", 1), "世");
        assert_eq!(truncate_utf16("a😀b", 3), "a😀");
        assert_eq!(truncate_utf16("a😀b", 2), "a?");
        assert_eq!(truncate_utf16("a😀b", 1), "a");
        assert_eq!(truncate_utf16("a😀b", 4), "a😀b");
    }

    #[test]
    fn white_space_is_defined_as_in_java() {
        assert!(is_blank(""));
        assert!(is_blank(" \t\r\n\u{b}\u{c}\u{1c}\u{1f}\u{2028}\u{3000}"));
        for solid in ["\u{a0}", "\u{2007}", "\u{202f}", "\u{85}", "\u{180e}", "\0", "x"] {
            assert!(!is_blank(solid), "{solid:?}");
        }
    }

    #[test]
    fn neighbours_of_the_escaped_ranges_are_written_raw() {
        let raw = "~\u{a0}\u{c0}\u{1fff}\u{2100}\u{2200}é世😀";
        assert_eq!(json_string(raw), format!("\"{raw}\""));
        assert_eq!(json_string("/\u{7f}\u{2019}"), r#""\/\u007F\u2019""#);
    }

    #[test]
    fn doubles_are_plain_between_a_thousandth_and_ten_million() {
        for (value, text) in [
            (0.001, "0.001"),
            (0.0009999, "9.999E-4"),
            (9999999.0, "9999999.0"),
            (9999999.5, "9999999.5"),
            (1e7, "1.0E7"),
            (-2.0, "-2.0"),
            (0.03, "0.03"),
            (120.0, "120.0"),
            (-0.5136240236002079, "-0.5136240236002079"),
            (2.2250738585072014e-308, "2.2250738585072014E-308"),
        ] {
            assert_eq!(json_double(value), text);
        }
    }

    #[test]
    fn non_finite_doubles_are_written_as_words() {
        assert_eq!(json_double(f64::NAN), "NaN");
        assert_eq!(json_double(f64::INFINITY), "null");
        assert_eq!(json_double(f64::NEG_INFINITY), "null");
    }

    #[test]
    fn integers_have_all_their_digits() {
        let mut out = Vec::new();
        write_integer(&mut out, i64::MIN);
        write_integer(&mut out, i64::MAX);
        assert_eq!(out, b"-92233720368547758089223372036854775807");
    }

    proptest! {
        #[test]
        fn a_written_string_reads_back(text in "\\PC*|[\\x00-\\x{2fff}]*") {
            let read: String = serde_json::from_str(&json_string(&text)).unwrap();
            prop_assert_eq!(read, text);
        }

        #[test]
        fn a_written_double_reads_back(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            prop_assert_eq!(json_double(value).parse::<f64>().unwrap().to_bits(), bits);
        }

        #[test]
        fn a_truncated_text_keeps_within_the_limit(text in "\\PC*", units in 0usize..40) {
            let cut = truncate_utf16(&text, units);
            let expected = units.min(text.encode_utf16().count());
            prop_assert_eq!(cut.encode_utf16().count(), expected);
        }

        #[test]
        fn utf8_repair_differs_from_the_standard_only_around_encoded_surrogates(bytes: Vec<u8>) {
            prop_assume!(!bytes.contains(&0xed));
            prop_assert_eq!(repair_utf8(&bytes), String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn signs_leading_zeros_and_other_scripts_are_read() {
        assert_eq!(parse_i64("+007"), Ok(7));
        assert_eq!(parse_i64("-0"), Ok(0));
        assert_eq!(parse_i64("٣٤"), Ok(34));
        assert_eq!(parse_i64("-9223372036854775808"), Ok(i64::MIN));
        assert!(parse_i64("9223372036854775808").is_err());
        assert_eq!(parse_i32("2147483648"), Err(ReadError::NotANumber("2147483648".to_owned())));
        for bad in ["", "+", "-", " 1", "1 ", "x", "0x1", "1.0"] {
            assert_eq!(parse_i64(bad), Err(ReadError::NotANumber(bad.to_owned())), "{bad}");
        }
    }
}
