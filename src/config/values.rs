//! Kinds of settings, and parsers of their values. Every parser returns the value, or a clause that describes the error.
//!
//! A new kind is a constant and a parser here. The place that reads a setting of the kind names the parser.
//!
//! White space around a value and around list elements is ignored. (NIS1 keeps trailing white space, which makes most
//! values wrong, so a file that is valid there means the same here.)

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::address_ranges::AddressRanges;
use super::key::Kind;
use super::local_addresses::{LocalAddresses, is_host_name};
use super::problem::quoted;
use super::secret::Secret;
use super::settings::Bind;
use crate::clock::ClockMode;
use crate::model::Checkpoint;
use crate::model::address::{Address, NetworkByte};
use crate::model::hash::Hash256;
use crate::peer::wire::{Endpoint, Version};

/// A value, or a description of the error. The description is shown, so it never repeats a secret.
pub(super) type Parsed<T> = Result<T, String>;

/// Maximum characters of a name.
const MAX_NAME: usize = 64;
/// Maximum bytes of a text.
const MAX_TEXT: usize = 1 << 14;

/// Defines a kind by the description of its allowed values and the check of one.
const fn form(allowed: &'static str, check: fn(&str) -> Parsed<()>) -> Kind {
    Kind::Form { allowed, check, is_secret: false }
}

/// Defines a kind whose values are never shown.
const fn secret_form(allowed: &'static str) -> Kind {
    Kind::Form { allowed, check: |text| secrets(text).map(drop), is_secret: true }
}

pub(super) const TEXT: Kind = form("a text", |text| self::text(text).map(drop));
pub(super) const NAME: Kind = form("a name of 1 to 64 characters", |text| name(text).map(drop));
pub(super) const PATH: Kind =
    form("a path; a relative one starts at the folder of the configuration file", |text| path(text).map(drop));
pub(super) const BOOLEAN: Kind = form("true or false", |text| boolean(text).map(drop));
pub(super) const HASH: Kind = form("64 hex digits", |text| hash(text).map(drop));
pub(super) const HASHES: Kind = form("nothing, or hashes of 64 hex digits, joined by |", |text| hashes(text).map(drop));
// Addresses are checked only when they are read, because the network is not known before.
pub(super) const ADDRESS: Kind = form("an address of the network: 40 letters and digits without hyphens", |_| Ok(()));
pub(super) const ADDRESSES: Kind =
    form("nothing, or addresses of the network without hyphens, joined by |", |_| Ok(()));
pub(super) const SECRET: Kind = secret_form("nothing, or a private key of 64 hex digits");
pub(super) const SECRETS: Kind = secret_form("nothing, or private keys of 64 hex digits, joined by |");
pub(super) const LOCAL_ADDRESSES: Kind = form(
    "nothing, or IP addresses, host names and patterns such as 10.0.*.* (IPv6: all eight parts), joined by |",
    |text| LocalAddresses::parse(text).map(drop),
);
pub(super) const ADDRESS_RANGES: Kind =
    form("nothing, or IP addresses and ranges such as 10.0.0.0/8 or 2001:db8::/32, joined by |", |text| {
        address_ranges(text).map(drop)
    });
pub(super) const HOST_NAMES: Kind =
    form("nothing, or host names and IP addresses without ports, joined by |", |text| host_names(text).map(drop));
pub(super) const ORIGINS: Kind =
    form("nothing, or origins such as http://127.0.0.1:3000, joined by |", |text| origins(text).map(drop));
pub(super) const ENDPOINTS: Kind =
    form("nothing, or HOST, HOST:PORT and [IPV6]:PORT, joined by |", |text| endpoints(text).map(drop));
pub(super) const CHECKPOINT: Kind = form("nothing, or HEIGHT:HASH", |text| checkpoint(text).map(drop));
pub(super) const BIND: Kind =
    form("an IP address of this machine, localhost for 127.0.0.1 and ::1, or * for all", |text| bind(text).map(drop));
pub(super) const LISTENER: Kind =
    form("nothing, or an IP address of this machine and a port, such as 10.0.0.5:9100 or [::]:9100", |text| {
        listener(text).map(drop)
    });
pub(super) const CONTEXT: Kind =
    form("nothing, or a path that begins with / and does not end with it", |text| context(text).map(drop));
pub(super) const CLOCK: Kind =
    form("system, or network seconds: N holds the clock there, N+ lets it run from there", |text| {
        clock(text).map(drop)
    });
pub(super) const VERSION: Kind =
    form("MAJOR.MINOR.BUILD compatible with 0.6 and 0.7, such as 0.6.102", |text| version(text).map(drop));

pub(super) fn text(text: &str) -> Parsed<String> {
    match text.trim() {
        text if text.len() > MAX_TEXT => Err("is too long".to_owned()),
        text if text.contains(char::is_control) => Err("contains control characters".to_owned()),
        text => Ok(text.to_owned()),
    }
}

pub(super) fn name(text: &str) -> Parsed<String> {
    let text = self::text(text)?;
    match text.chars().count() {
        0 => Err("is empty".to_owned()),
        length if length > MAX_NAME => Err("is too long".to_owned()),
        _ => Ok(text),
    }
}

pub(super) fn path(text: &str) -> Parsed<String> {
    match self::text(text)? {
        text if text.is_empty() => Err("is empty".to_owned()),
        text => Ok(text),
    }
}

/// Parses a decimal number with an optional sign, as NIS1 does.
pub(super) fn integer(text: &str, min: i64, max: i64) -> Parsed<i64> {
    let text = text.trim();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("is not a whole number in decimal digits".to_owned());
    }
    match text.parse::<i64>() {
        Ok(value) if value < min => Err("is too small".to_owned()),
        Ok(value) if value <= max => Ok(value),
        Err(_) if text.starts_with('-') => Err("is too small".to_owned()),
        _ => Err("is too large".to_owned()),
    }
}

/// Parses a number of bytes; `K`, `M`, `G` and `T` in either case are powers of 1024.
pub(super) fn size(text: &str, min: u64, max: u64) -> Parsed<u64> {
    let text = text.trim();
    let units = [('k', 10), ('m', 20), ('g', 30), ('t', 40)];
    let with_unit = units.iter().find_map(|(unit, shift)| {
        let number = text.strip_suffix([*unit, unit.to_ascii_uppercase()])?;
        Some((number, *shift))
    });
    let (number, shift) = with_unit.unwrap_or((text, 0));
    let number = integer(number, 0, i64::MAX)?.unsigned_abs();
    match number.checked_mul(1 << shift) {
        Some(bytes) if bytes < min => Err("is too small".to_owned()),
        Some(bytes) if bytes <= max => Ok(bytes),
        _ => Err("is too large".to_owned()),
    }
}

pub(super) fn boolean(text: &str) -> Parsed<bool> {
    match text.trim() {
        text if text.eq_ignore_ascii_case("true") => Ok(true),
        text if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err("is neither true nor false".to_owned()),
    }
}

/// Returns the one of `names` that matches exactly.
pub(super) fn choice(text: &str, names: &[&'static str]) -> Parsed<&'static str> {
    let text = text.trim();
    names.iter().find(|name| **name == text).copied().ok_or_else(|| "is not one of the allowed values".to_owned())
}

/// Splits a list at its bars. Empty elements at the end are dropped; others are kept and cause errors.
fn elements(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim_end_matches(|c: char| c == '|' || c.is_whitespace());
    let count = if text.is_empty() { 0 } else { usize::MAX };
    text.split('|').map(str::trim).take(count)
}

/// Returns those of `known` that the list contains, in the order of `known`.
pub(super) fn names(text: &str, known: &[&'static str]) -> Parsed<Vec<&'static str>> {
    for element in elements(text) {
        if !known.contains(&element) {
            return Err(format!("holds {}, which is unknown", quoted(element)));
        }
    }
    Ok(known.iter().filter(|name| elements(text).any(|element| element == **name)).copied().collect())
}

/// Parses a version that NIS1 nodes are compatible with.
pub(super) fn version(text: &str) -> Parsed<Version> {
    let version: Version = text.trim().parse().map_err(|_| "is no version".to_owned())?;
    match version.is_compatible(&Version::OWN) {
        true => Ok(version),
        false => Err("is incompatible with the versions of other nodes".to_owned()),
    }
}

pub(super) fn hash(text: &str) -> Parsed<Hash256> {
    let text = text.trim();
    Hash256::from_hex(text).ok_or_else(|| format!("is not a hash ({} characters)", text.chars().count()))
}

pub(super) fn hashes(text: &str) -> Parsed<Vec<Hash256>> {
    let read =
        |element| Hash256::from_hex(element).ok_or_else(|| format!("holds {}, which is no hash", quoted(element)));
    elements(text).map(read).collect()
}

pub(super) fn address(text: &str, network: NetworkByte) -> Parsed<Address> {
    let wrong = "is not a valid address of the network";
    Address::parse(text.trim(), network).ok_or_else(|| wrong.to_owned())
}

pub(super) fn addresses(text: &str, network: NetworkByte) -> Parsed<Vec<Address>> {
    let read = |element| {
        let wrong = || format!("holds {}, which is no valid address of the network", quoted(element));
        Address::parse(element, network).ok_or_else(wrong)
    };
    elements(text).map(read).collect()
}

/// Parses private keys; an error shows only the length of the wrong one.
pub(super) fn secrets(text: &str) -> Parsed<Vec<Secret>> {
    let read = |element: &str| {
        let wrong = || {
            let length = element.chars().count();
            match element.bytes().all(|b| b.is_ascii_hexdigit()) {
                true => format!("holds a key of {length} hex digits; a private key has 64"),
                false => format!("holds {length} characters that are not all hex digits"),
            }
        };
        Secret::from_hex(element).ok_or_else(wrong)
    };
    elements(text).map(read).collect()
}

/// Parses zero or one private key.
pub(super) fn secret(text: &str) -> Parsed<Option<Secret>> {
    let mut keys = secrets(text)?;
    match keys.len() {
        0 | 1 => Ok(keys.pop()),
        _ => Err("is a list".to_owned()),
    }
}

pub(super) fn bind(text: &str) -> Parsed<Bind> {
    match text.trim() {
        "*" => Ok(Bind::All),
        "localhost" => Ok(Bind::Loopback),
        text => ip_address(text).map(Bind::One).ok_or_else(|| "is not an IP address".to_owned()),
    }
}

/// Parses an address with a port; an empty text is `None`.
pub(super) fn listener(text: &str) -> Parsed<Option<SocketAddr>> {
    match text.trim() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| "is not an IP address with a port".to_owned()),
    }
}

/// Parses an IP address; brackets, as around an IPv6 address in a URL, are accepted.
fn ip_address(text: &str) -> Option<IpAddr> {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text).parse().ok()
}

pub(super) fn address_ranges(text: &str) -> Parsed<AddressRanges> {
    AddressRanges::parse(elements(text))
}

/// Parses host names and IP addresses, and normalises them: lower case, and the usual form.
pub(super) fn host_names(text: &str) -> Parsed<Vec<String>> {
    let read = |element: &str| match ip_address(element) {
        Some(address) => Ok(address.to_string()),
        None if is_host_name(element) => Ok(element.to_ascii_lowercase()),
        None => Err(format!("holds {}, which is no host name; ports and paths are not part of one", quoted(element))),
    };
    elements(text).map(read).collect()
}

/// Parses origins of web pages, as browsers send them: a scheme, a host in lower case, and a port unless it is the
/// default of the scheme.
pub(super) fn origins(text: &str) -> Parsed<Vec<String>> {
    let read = |element: &str| {
        let origin = element.to_ascii_lowercase();
        let (port, authority) = match origin.split_once("://") {
            Some(("http", authority)) => (":80", authority),
            Some(("https", authority)) => (":443", authority),
            _ => ("", ""),
        };
        let (host, number) = match authority.rsplit_once(':').filter(|(_, number)| !number.ends_with(']')) {
            Some((host, number)) => (host, Some(number)),
            None => (authority, None),
        };
        let has_host = is_host_name(host)
            || host.parse::<Ipv4Addr>().is_ok()
            || (host.starts_with('[') && ip_address(host).is_some());
        let has_port = number.is_none_or(|number| number.parse::<u16>().is_ok_and(|port| port > 0));
        match has_host && has_port {
            true => Ok(origin.strip_suffix(port).map_or(origin.clone(), str::to_owned)),
            false => Err(format!("holds {}, which is no origin: write http://HOST:PORT", quoted(element))),
        }
    };
    elements(text).map(read).collect()
}

/// Parses endpoints of peers.
pub(super) fn endpoints(text: &str) -> Parsed<Vec<Endpoint>> {
    let read = |element| Endpoint::parse(element).map_err(|why| format!("holds {}, which {why}", quoted(element)));
    elements(text).map(read).collect()
}

/// Parses a trusted checkpoint; an empty text is `None`.
pub(super) fn checkpoint(text: &str) -> Parsed<Option<Checkpoint>> {
    let text = text.trim();
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|why| format!("is not a block: {why}")) }
}

/// Parses a path prefix: empty, or `/` and unreserved characters, without `/` at its end.
pub(super) fn context(text: &str) -> Parsed<String> {
    let text = text.trim();
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~".contains(&b);
    match text {
        "" => Ok(String::new()),
        text if text.len() > MAX_NAME => Err("is too long".to_owned()),
        text if !text.starts_with('/') => Err("does not begin with /".to_owned()),
        text if text.ends_with('/') || text.contains("//") => Err("has a superfluous /".to_owned()),
        text if text.bytes().all(allowed) => Ok(text.to_owned()),
        _ => Err("has characters other than letters, digits, and - . _ ~ /".to_owned()),
    }
}

pub(super) fn clock(text: &str) -> Parsed<ClockMode> {
    text.trim().parse().map_err(|error: crate::clock::InvalidClockMode| error.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::table;
    use super::*;

    #[test]
    fn integers_keep_to_their_bounds() {
        assert_eq!(integer(" +7 ", 0, 9), Ok(7));
        assert_eq!(integer("-1", -1, 9), Ok(-1));
        assert_eq!(integer("9223372036854775807", 0, i64::MAX), Ok(i64::MAX));
        for (text, wrong) in [("10", "large"), ("-1", "small"), ("9".repeat(30).as_str(), "large")] {
            assert!(integer(text, 0, 9).unwrap_err().contains(wrong), "{text}");
        }
        for text in ["", "+", "0x98", "1 000", "1.0", "+-1", "\u{664}"] {
            assert!(integer(text, 0, 9).unwrap_err().contains("decimal"), "{text}");
        }
    }

    #[test]
    fn the_announced_version_must_be_compatible_with_peers() {
        for text in ["0.6.102", " 0.6.103 ", "0.7.0", "0.6.102-BETA"] {
            assert_eq!(version(text).map(|version| version.to_string()), Ok(text.trim().to_owned()));
        }
        for text in ["", "0.6", "1.0.0", "0.8.1", "v0.6.102", "0.5.9"] {
            assert!(version(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(size("1000", 0, u64::MAX), Ok(1000));
        assert_eq!(size("2k", 0, u64::MAX), Ok(2048));
        assert_eq!(size("3 G", 0, u64::MAX), Ok(3 << 30));
        assert_eq!(size("9999999T", 0, u64::MAX), Ok(9_999_999 << 40));
        for text in ["-1", "k", "1kk", "1KB", "9223372036854775807T", ""] {
            assert!(size(text, 0, u64::MAX).is_err(), "{text}");
        }
        assert!(size("1K", 1025, 2000).is_err());
    }

    #[test]
    fn lists_drop_empty_entries_only_at_the_end() {
        let read = |text| elements(text).collect::<Vec<_>>();
        assert_eq!(read(""), Vec::<&str>::new());
        assert_eq!(read(" || "), Vec::<&str>::new());
        assert_eq!(read(" a | b ||"), ["a", "b"]);
        assert_eq!(read("a||b"), ["a", "", "b"]);
        assert!(names("A||B", &["A", "B"]).is_err());
        assert_eq!(names("B|A|B", &["A", "B", "C"]), Ok(vec!["A", "B"]));
    }

    #[test]
    fn an_invalid_private_key_is_not_shown_in_the_error() {
        let error = secrets(&format!("{}|secret words", "c0ffee11".repeat(8))).unwrap_err();
        assert!(error.contains("12 characters") && !error.contains("secret w"), "{error}");
        assert_eq!(secrets("c0ffee11").unwrap_err(), "holds a key of 8 hex digits; a private key has 64");
        assert_eq!(secret(" "), Ok(None));
        assert!(secret("c0|fe").is_err());
    }

    #[test]
    fn context_paths_have_no_trailing_slash() {
        assert_eq!(context(" "), Ok(String::new()));
        assert_eq!(context("/api/v1"), Ok("/api/v1".to_owned()));
        for text in ["api", "/", "/api/", "/a//b", "/a b", "/ä", "/a?b"] {
            assert!(context(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_to_listen_on_may_have_brackets() {
        assert_eq!(bind("*"), Ok(Bind::All));
        assert_eq!(bind("127.0.0.1"), Ok(Bind::One([127, 0, 0, 1].into())));
        assert_eq!(bind("[::1]"), bind("::1"));
        assert_eq!(bind("localhost"), Ok(Bind::Loopback));
        assert!(bind("wallet.example").is_err());
        assert_eq!(listener(" "), Ok(None));
        assert_eq!(listener("[::1]:9100"), Ok(Some(([0, 0, 0, 0, 0, 0, 0, 1], 9100).into())));
        assert!(listener("9100").is_err() && listener("10.0.0.5").is_err());
    }

    #[test]
    fn host_names_are_compared_in_one_form() {
        let read = host_names("Node.Example|[2001:DB8:0::1]|10.0.0.1|").unwrap();
        assert_eq!(read, ["node.example", "2001:db8::1", "10.0.0.1"]);
        for text in ["node.example:7890", "http://node.example", "a b", "*.example", "a||b", "1.2.3"] {
            assert!(host_names(text).unwrap_err().contains("no host name"), "{text}");
        }
    }

    #[test]
    fn origins_have_the_form_that_browsers_send() {
        let read =
            origins("http://127.0.0.1:22080|HTTPS://Wallet.Example:443|http://[::1]:80|http://[::1]|http://localhost");
        let expected =
            ["http://127.0.0.1:22080", "https://wallet.example", "http://[::1]", "http://[::1]", "http://localhost"];
        assert_eq!(read.unwrap(), expected);
        for text in [
            "localhost:3000",
            "null",
            "http://",
            "http://a/",
            "http://a:0",
            "http://a:b",
            "ftp://a",
            "http://*",
            "http://::1",
        ] {
            assert!(origins(text).unwrap_err().contains("no origin"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic_any_value_reader(text in r"\PC{0,40}|[0-9|:.*+KMG -]{0,60}") {
            for key in table::keys() {
                let _ = key.kind.check(&text);
            }
            let _ = addresses(&text, NetworkByte::TESTNET);
        }
    }
}
