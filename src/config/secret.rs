//! Private keys in settings.

use std::fmt;

use zeroize::Zeroizing;

/// Maximum hex digits of a private key: 32 bytes, and the `00` that NIS1 prints before a key whose top bit is set.
const MAX_DIGITS: usize = 66;
/// Hex digits of a private key of full length.
const DIGITS: usize = 64;
/// Minimum hex digits. NIS1 omits leading zeros, but never so many by chance: a shorter key was cut or is invalid.
const MIN_DIGITS: usize = 58;

/// The hex text of a private key, wiped from memory when dropped and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Accepts hex digits of either case: 58 to 64, or 66 that start with `00`. The key is the number that they write,
    /// most significant digit first.
    pub fn from_hex(text: &str) -> Option<Secret> {
        let significant = if text.len() == MAX_DIGITS { text.strip_prefix("00")? } else { text };
        let valid =
            (MIN_DIGITS..=DIGITS).contains(&significant.len()) && significant.bytes().all(|b| b.is_ascii_hexdigit());
        valid.then(|| Secret(Zeroizing::new(significant.to_owned())))
    }

    /// Returns the hex text: 58 to 64 digits. The caller must not show it.
    pub fn expose_hex(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nis1_forms_of_a_private_key_are_taken() {
        let key = "b".repeat(64);
        assert_eq!(Secret::from_hex(&key).unwrap().expose_hex(), key);
        assert_eq!(Secret::from_hex(&format!("00{key}")).unwrap().expose_hex(), key);
        let short = "Ab".repeat(MIN_DIGITS / 2);
        assert_eq!(Secret::from_hex(&short).unwrap().expose_hex(), short);
        let wrong = ["b".repeat(65), "b".repeat(66), "0".repeat(68), "b".repeat(57), "x".repeat(64), " ".repeat(64)];
        for wrong in wrong.iter().map(String::as_str).chain(["", "12345678"]) {
            assert_eq!(Secret::from_hex(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn debug_output_does_not_show_the_key() {
        let shown = format!("{:?}", Secret::from_hex(&"c0ffee11".repeat(8)).unwrap());
        assert!(!shown.contains("c0ffee"), "{shown}");
    }
}
