//! Fuzz target: configuration files.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::path::Path;
use std::sync::LazyLock;

use nisd::codec::{network_from_text, network_to_text};
use nisd::config::properties::{self, MAX_FILE_BYTES};
use nisd::config::{ConfigError, Diagnostic, Origin, Override, Settings, build};

/// A private key that must not occur in any output.
pub const KEY: &str = "c0def1d0b5ec2e7ab1ade5ca1ab1e0ddba11f007ba5eba11deadfa11facade77";

/// Consecutive digits of the key that count as a leak.
const LEAK_DIGITS: u32 = 12;

/// Checks for any file: it is read or rejected, and a private key in it is never shown, whether the
/// key and its surroundings are well-formed or not. The text of a network, as a store holds it, is read the same after it
/// was written again.
///
/// The first byte selects the position of the key, its spelling, and whether there is a home folder.
pub fn check(data: &[u8]) -> usize {
    let Some((selector, content)) = data.split_first() else { return 0 };
    check_network(content);
    let (place, form) = (selector >> 3 & 7, selector & 7);
    let home = (selector & 0x40 == 0).then_some(Path::new("/home/user"));
    let bytes = file(content, place, &key_text(form));
    let built = build(Some((Path::new("a.properties"), &bytes)), Vec::new(), home);
    let read = properties::parse(Path::new("a.properties"), &bytes);
    // The content may also hold the key where it need not be hidden.
    if !leaks_key(&String::from_utf8_lossy(content)) {
        check_built(&built);
        check_read(&read);
    }
    usize::from(built.is_ok())
}

/// Checks that a network read from the text in a store is written as a text of the same.
fn check_network(content: &[u8]) {
    if let Some(network) = std::str::from_utf8(content).ok().and_then(network_from_text) {
        assert_eq!(network_from_text(&network_to_text(&network)), Some(network));
    }
}

/// Returns the first byte for [`check`].
pub fn selector(place: u8, form: u8) -> u8 {
    place << 3 | form
}

/// Returns the key as a person might write it.
fn key_text(form: u8) -> String {
    match form {
        0 => KEY.to_owned(),
        1 => format!("00{KEY}"),
        2 => format!("{KEY}|{KEY}"),
        3 => format!("{KEY}0"),
        4 => format!("0x{KEY}"),
        5 => format!("{KEY} {KEY}"),
        6 => KEY.to_uppercase(),
        _ => format!("x|{KEY}"),
    }
}

/// Returns the content with a private key in one of its proper places, or the content alone.
fn file(content: &[u8], place: u8, key: &str) -> Vec<u8> {
    let around = |before: String, after: String| [before.as_bytes(), content, after.as_bytes()].concat();
    match place {
        2 => around(format!("nis.bootKey={key}\n"), String::new()),
        // The empty line ends whatever the content has started.
        3 => around(String::new(), format!("\n\nnis.bootKey : {key}")),
        4 => around(format!("nis.additionalHarvesterPrivateKeys={key}\n"), String::new()),
        _ => content.to_vec(),
    }
}

/// Returns whether a text holds enough of the key to recognise it.
fn leaks_key(text: &str) -> bool {
    static KEYS_NUMBERS: LazyLock<BTreeSet<u64>> = LazyLock::new(|| digit_runs(KEY).collect());
    digit_runs(text).any(|number| KEYS_NUMBERS.contains(&number))
}

/// Returns the values of all runs of [`LEAK_DIGITS`] hex digits.
fn digit_runs(text: &str) -> impl Iterator<Item = u64> {
    let (mut number, mut digits) = (0, 0);
    text.chars().filter_map(move |character| {
        let Some(digit) = character.to_digit(16) else {
            digits = 0;
            return None;
        };
        number = (number << 4 | u64::from(digit)) & ((1 << (4 * LEAK_DIGITS)) - 1);
        digits += 1;
        (digits >= LEAK_DIGITS).then_some(number)
    })
}

fn check_built(built: &Result<Settings, ConfigError>) {
    match built {
        Ok(settings) => {
            hides_key(&[settings]);
            for notice in &settings.diagnostics {
                hides_key(&[notice]);
                shows_no_key(notice);
            }
        }
        Err(error) => {
            hides_key(&[error]);
            shows_no_key(error);
            if let Some(cause) = std::error::Error::source(error) {
                shows_no_key(&cause);
            }
        }
    }
}

fn check_read(read: &Result<Vec<Override>, Diagnostic>) {
    match read {
        Ok(properties) => {
            hides_key(properties);
            let line = |property: &Override| match property.origin {
                Origin::File { line, .. } => line,
                _ => panic!("{}", property.origin),
            };
            assert!(properties.is_sorted_by_key(line));
            assert!(properties.iter().all(|property| line(property) <= MAX_FILE_BYTES + 1));
        }
        Err(error) => {
            hides_key(&[error]);
            shows_no_key(error);
        }
    }
}

fn hides_key(values: &[impl Debug]) {
    for value in values {
        assert!(!leaks_key(&format!("{value:?}")), "a private key is shown");
    }
}

fn shows_no_key(value: &impl Display) {
    assert!(!leaks_key(&value.to_string()), "a private key is shown");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaked_key_is_detected_in_part_and_in_capitals() {
        assert!(leaks_key(&format!("the key x{}!", &KEY[20..32])));
        assert!(leaks_key(&KEY.to_uppercase()));
        assert!(!leaks_key(&KEY[20..31]));
        assert!(!leaks_key("c0def1d0 b5ec2e7a b1ade5ca"));
    }
}
