//! Configuration files.

use std::fmt::{Debug, Display};
use std::path::Path;

use nisd::config::properties::{self, MAX_FILE_BYTES, Property, SyntaxError};
use nisd::config::{ConfigError, Settings, build, config_json};

/// A private key to look for in whatever is shown.
pub const KEY: &str = "c0def1d0b5ec2e7ab1ade5ca1ab1e0ddba11f007ba5eba11deadfa11facade77";

/// Digits of the key that give it away.
const TELLING: usize = 10;

/// Whatever a file holds, in either form, it is read or refused; and a private key in it is never shown, whether
/// it is well-formed or not, and whether what surrounds it is.
///
/// The first byte says how the key is written.
pub fn check(data: &[u8]) -> usize {
    let Some((selector, content)) = data.split_first() else { return 0 };
    let home = (selector & 0x10 != 0).then_some(Path::new("/home/user"));
    let mut accepted = 0;
    for (name, bytes) in files(content, &key_text(*selector)) {
        let built = build(Some((Path::new(name), &bytes)), Vec::new(), home);
        accepted += usize::from(built.is_ok());
        if !shows_key_itself(content) {
            check_built(&built);
            check_read(&properties::parse(&bytes));
            check_read(&config_json::parse(&bytes));
        }
    }
    accepted
}

/// The key as a person might write it.
fn key_text(selector: u8) -> String {
    match selector & 7 {
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

/// The content alone, and with a private key in the places where one belongs.
fn files(content: &[u8], key: &str) -> Vec<(&'static str, Vec<u8>)> {
    let properties = |before: String, after: String| [before.as_bytes(), content, after.as_bytes()].concat();
    let member = |name: &str| format!("{{\"nisConfiguration\":{{\"{name}\":\"{key}\",");
    vec![
        ("a.properties", content.to_vec()),
        ("a.json", content.to_vec()),
        ("a.properties", properties(format!("nis.bootKey={key}\n"), String::new())),
        // The empty line ends whatever the content has begun.
        ("a.properties", properties(String::new(), format!("\n\nnis.bootKey : {key}"))),
        ("a.properties", properties(format!("nis.additionalHarvesterPrivateKeys={key}\n"), String::new())),
        ("a.json", properties(member("nis.bootKey"), "}}".to_owned())),
        ("a.json", properties(member("nis.additionalHarvesterPrivateKeys"), "}}".to_owned())),
    ]
}

/// Whether the content holds the key too, perhaps where it need not be kept.
fn shows_key_itself(content: &[u8]) -> bool {
    gives_away(&String::from_utf8_lossy(content))
}

/// Whether a text holds enough of the key to recognise it.
fn gives_away(text: &str) -> bool {
    // Most of a text is no hex digit, so little of it is compared.
    let runs = text.as_bytes().split(|byte| !byte.is_ascii_hexdigit()).filter(|run| run.len() >= TELLING);
    runs.flat_map(|run| run.windows(TELLING)).any(|digits| {
        KEY.as_bytes().windows(TELLING).any(|telling| digits.eq_ignore_ascii_case(telling))
    })
}

fn check_built(built: &Result<Settings, ConfigError>) {
    match built {
        Ok(settings) => {
            hides_key(&[settings]);
            for notice in &settings.notices {
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

fn check_read(read: &Result<Vec<Property>, SyntaxError>) {
    match read {
        Ok(properties) => {
            hides_key(properties);
            assert!(properties.is_sorted_by_key(|property| property.line));
            assert!(properties.iter().all(|property| property.line <= MAX_FILE_BYTES + 1));
        }
        Err(error) => {
            hides_key(&[error]);
            shows_no_key(error);
        }
    }
}

fn hides_key(values: &[impl Debug]) {
    for value in values {
        assert!(!gives_away(&format!("{value:?}")), "a private key is shown");
    }
}

fn shows_no_key(value: &impl Display) {
    assert!(!gives_away(&value.to_string()), "a private key is shown");
}
