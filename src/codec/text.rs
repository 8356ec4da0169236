//! Text as NIS1 reads and writes it: UTF-8 repair, lengths in UTF-16 units, JSON strings and numbers.

use std::borrow::Cow;
use std::io::Write;

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

/// Returns whether `text` is empty or only white space as Java defines it: non-breaking spaces are not white space, the
/// four information separators are.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|character| {
        matches!(
            character,
            '\u{9}'..='\u{d}'
                | '\u{1c}'..=' '
                | '\u{1680}'
                | '\u{2000}'..='\u{2006}'
                | '\u{2008}'..='\u{200a}'
                | '\u{2028}'
                | '\u{2029}'
                | '\u{205f}'
                | '\u{3000}'
        )
    })
}

/// Bytes that may need an escape: those that always do, and the first bytes of the ranges U+0080–U+009F and
/// U+2000–U+20FF.
const MAY_NEED_ESCAPE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table[b'/' as usize] = true;
    table[0x7f] = true;
    table[0xc2] = true;
    table[0xe2] = true;
    table
};

/// Appends `text` as a quoted JSON string with NIS1's escapes, which include `/` and the ranges U+007F–U+009F and
/// U+2000–U+20FF.
pub fn write_json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    write_json_characters(out, text);
    out.push(b'"');
}

/// Appends `text` as [`write_json_string`] does, without the quotes.
pub fn write_json_characters(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len());
    let mut from = 0;
    let mut at = 0;
    while let Some(skip) = bytes[at..].iter().position(|byte| MAY_NEED_ESCAPE[usize::from(*byte)]) {
        at += skip;
        let Some((escaped, width)) = escape_at(&bytes[at..]) else {
            at += 1;
            continue;
        };
        out.extend_from_slice(&bytes[from..at]);
        match escaped {
            Escape::Letter(letter) => out.extend_from_slice(&[b'\\', letter]),
            Escape::Unit(unit) => write_unit_escape(out, unit),
        }
        at += width;
        from = at;
    }
    out.extend_from_slice(&bytes[from..]);
}

/// How a character is escaped.
enum Escape {
    /// A backslash and this letter.
    Letter(u8),
    /// `\uXXXX` with this value.
    Unit(u16),
}

/// Returns the escape of the character at the start of `bytes` and its width in bytes; `None` if it is written as it
/// is.
fn escape_at(bytes: &[u8]) -> Option<(Escape, usize)> {
    let letter = |letter| Some((Escape::Letter(letter), 1));
    match *bytes {
        [byte @ (b'"' | b'\\' | b'/'), ..] => letter(byte),
        [0x08, ..] => letter(b'b'),
        [0x0c, ..] => letter(b'f'),
        [b'\n', ..] => letter(b'n'),
        [b'\r', ..] => letter(b'r'),
        [b'\t', ..] => letter(b't'),
        [byte @ (0..=0x1f | 0x7f), ..] => Some((Escape::Unit(byte.into()), 1)),
        [0xc2, last @ 0x80..=0x9f, ..] => Some((Escape::Unit(last.into()), 2)),
        [0xe2, middle @ 0x80..=0x83, last, ..] => {
            let unit = 0x2000 | u16::from(middle & 0x3f) << 6 | u16::from(last & 0x3f);
            Some((Escape::Unit(unit), 3))
        }
        _ => None,
    }
}

/// Appends `\uXXXX` with upper-case digits.
fn write_unit_escape(out: &mut Vec<u8>, unit: u16) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(b"\\u");
    for shift in [12, 8, 4, 0] {
        out.push(DIGITS[usize::from(unit >> shift & 15)]);
    }
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
    let mut text = Scientific::of(format_args!("{magnitude:e}"));
    if text.parts().1.is_empty() && magnitude != 0.0 {
        // Java looks for the nearest decimal of at least two digits: 4.9E-324, not 5.0E-324.
        text = Scientific::of(format_args!("{magnitude:.1e}"));
    }
    let (first, fraction, exponent) = text.parts();
    match exponent {
        -3..0 => write_below_one(out, first, fraction, exponent.unsigned_abs().into()),
        0..7 => write_above_one(out, first, fraction, exponent.unsigned_abs().into()),
        _ => {
            write_above_one(out, first, fraction, 0);
            out.push(b'E');
            write_integer(out, exponent.into());
        }
    }
}

/// Appends `0.00dddd`: the first digit is at decimal place `places`.
fn write_below_one(out: &mut Vec<u8>, first: &str, fraction: &str, places: usize) {
    out.extend_from_slice(b"0.");
    out.extend(std::iter::repeat_n(b'0', places.saturating_sub(1)));
    out.extend_from_slice(first.as_bytes());
    out.extend_from_slice(fraction.as_bytes());
}

/// Appends `dddd.ddd`: `places` digits after the first one are before the point, padded with zeros.
fn write_above_one(out: &mut Vec<u8>, first: &str, fraction: &str, places: usize) {
    let (whole, rest) = fraction.split_at_checked(places).unwrap_or((fraction, ""));
    out.extend_from_slice(first.as_bytes());
    out.extend_from_slice(whole.as_bytes());
    out.extend(std::iter::repeat_n(b'0', places - whole.len()));
    out.push(b'.');
    out.extend_from_slice(if rest.is_empty() { b"0" } else { rest.as_bytes() });
}

/// A finite non-negative double as `d.ddde±n`, on the stack.
struct Scientific {
    text: [u8; Self::MAX_BYTES],
    length: usize,
}

impl Scientific {
    /// 17 digits, a point, `e-` and a three-digit exponent are 23 bytes.
    const MAX_BYTES: usize = 24;

    fn of(text: std::fmt::Arguments<'_>) -> Self {
        let mut held = [0; Self::MAX_BYTES];
        let mut free = held.as_mut_slice();
        let fits = free.write_fmt(text).is_ok();
        debug_assert!(fits, "a double has more than 17 digits");
        let length = Self::MAX_BYTES - free.len();
        Self { text: held, length }
    }

    /// Returns the first digit, the digits after it (none if they are a single zero) and the exponent.
    fn parts(&self) -> (&str, &str, i16) {
        let text = str::from_utf8(&self.text[..self.length]).unwrap_or_default();
        let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let (first, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let fraction = if fraction == "0" { "" } else { fraction };
        (first, fraction, exponent.parse().unwrap_or(0))
    }
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
}
