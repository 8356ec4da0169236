//! Decodes hex as NIS1 does: either case; an odd number of digits gets a leading `0`.

/// A character that is not a hex digit. Its text is NIS1's, without the name of the exception: NIS1 names a single unit,
/// and half of a surrogate pair is written as `?`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Illegal hexadecimal character {} at index {index}", if .character.len_utf16() == 1 { *.character } else { '?' })]
pub struct HexError {
    /// The character.
    pub character: char,
    /// Its index in UTF-16 units, counted in the text *after* padding to an even length.
    pub index: usize,
}

/// Decodes hex `text`. Empty text gives no bytes.
///
/// There is no limit: the result is half as long as the text, which the caller limits.
pub fn decode_hex(text: &str) -> Result<Vec<u8>, HexError> {
    let mut bytes = Vec::new();
    decode_hex_into(text, &mut bytes)?;
    Ok(bytes)
}

/// Like [`decode_hex`], but appends to `bytes`. The vector grows at most once, before the first digit is read, so that
/// a secret leaves no copy behind.
pub fn decode_hex_into(text: &str, bytes: &mut Vec<u8>) -> Result<(), HexError> {
    // Not `is_ascii`, which copies the text in blocks.
    let units: usize = text.chars().map(char::len_utf16).sum();
    let padding = units % 2;
    bytes.reserve_exact(units.div_ceil(2));

    let mut high = (padding == 1).then_some(0);
    // Everything before the first bad character is ASCII, so characters and units agree.
    for (index, character) in text.chars().enumerate() {
        let digit = character.to_digit(16).ok_or(HexError { character, index: index + padding })? as u8;
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push(high << 4 | digit),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_case_and_odd_lengths_are_read() {
        assert_eq!(decode_hex("00aBfF"), Ok(vec![0x00, 0xab, 0xff]));
        assert_eq!(decode_hex("123"), Ok(vec![0x01, 0x23]));
        assert_eq!(decode_hex(""), Ok(vec![]));
    }

    #[test]
    fn the_first_bad_digit_is_reported_with_its_index_in_the_padded_text() {
        let said = |text| decode_hex(text).unwrap_err().to_string();
        assert_eq!(said("zz"), "Illegal hexadecimal character z at index 0");
        assert_eq!(said("12g"), "Illegal hexadecimal character g at index 3");
        assert_eq!(said("00é0"), "Illegal hexadecimal character é at index 2");
        assert_eq!(said("0😀"), "Illegal hexadecimal character ? at index 2");
    }
}
