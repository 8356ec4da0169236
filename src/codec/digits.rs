//! Decimal integers as NIS1's text properties allow them: with a sign, leading zeros, and digits of any script of the
//! Basic Multilingual Plane.

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

/// Parses a 64-bit integer. Returns `None` if the text is not one.
pub fn parse_i64(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() {
        return None;
    }
    // Summed as a negative number, so that the smallest integer does not overflow.
    let negated = digits.chars().try_fold(0i64, |sum, c| sum.checked_mul(10)?.checked_sub(digit(c)?))?;
    if negative { Some(negated) } else { negated.checked_neg() }
}

/// Parses a 32-bit integer. Returns `None` if the text is not one.
pub fn parse_i32(text: &str) -> Option<i32> {
    parse_i64(text)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_leading_zeros_and_other_scripts_are_read() {
        assert_eq!(parse_i64("+007"), Some(7));
        assert_eq!(parse_i64("-0"), Some(0));
        assert_eq!(parse_i64("٣٤"), Some(34));
        assert_eq!(parse_i64("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64("9223372036854775808"), None);
        assert_eq!(parse_i32("2147483648"), None);
        for bad in ["", "+", "-", " 1", "1 ", "x", "0x1", "1.0"] {
            assert_eq!(parse_i64(bad), None, "{bad}");
        }
    }
}
