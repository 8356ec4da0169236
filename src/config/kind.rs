//! Kinds of settings: allowed values, their description, and their parser. Every parser returns the value, or a clause
//! that describes the error.
//!
//! White space around a value and around list elements is ignored. (NIS1 keeps trailing white space, which makes most
//! values wrong, so a file that is valid there means the same here.)

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::IntErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use log::LevelFilter;

use super::reader::redact_value;
use crate::api::Features;
use crate::clock::ClockMode;
use crate::crypto::PrivateKey;
use crate::crypto::keys::USUAL_KEY_DIGITS;
use crate::ip::{AddressRanges, LocalAddresses, Url, parse_host, parse_own_host};
use crate::model::address::{Address, NetworkByte};
use crate::model::{BLOCK_CHAIN_FEATURES, Checkpoint, Hash256};
use crate::peer::IpDetection;
use crate::peer::wire::{Endpoint, Version};

/// A value, or a description of the error. The description is shown, so it never repeats a secret.
pub(super) type Parsed<T> = Result<T, String>;

/// Maximum characters of a name.
const MAX_NAME: usize = 64;
/// Maximum bytes of a text.
const MAX_TEXT: usize = 1 << 14;
/// Maximum entries of a list of addresses with which each request is compared.
const MAX_ADDRESSES: usize = 1024;
/// Address space for the store is a multiple of this, which LMDB accepts with any usual page size.
const MAP_UNIT: usize = 64 << 10;

/// The text of a value, and what its meaning depends on.
pub(super) struct Source<'a> {
    pub text: &'a str,
    /// Base folder of relative paths; `None` for the current folder.
    pub folder: Option<&'a Path>,
    /// The user's home folder, if known.
    pub home: Option<&'a Path>,
    /// The network of addresses; without it, addresses are not validated.
    pub network: Option<NetworkByte>,
}

/// Allowed values of a setting whose type is `T`. `Display` describes them for a person.
pub(super) enum Kind<T: 'static> {
    /// A whole number in decimal digits within these bounds.
    Integer { min: i64, max: i64, value: fn(i64) -> Option<T> },
    /// A number of bytes within these bounds, which are written like the value.
    Size { min: &'static str, max: &'static str, value: fn(usize) -> T },
    /// One of these names, each with its value.
    Choice(&'static [(&'static str, T)]),
    /// Any other text with a description of the allowed ones. A secret is never shown.
    Form { allowed: &'static str, parse: fn(&Source<'_>) -> Parsed<T>, is_secret: bool },
}

impl<T: Clone> Kind<T> {
    /// Parses a value; the error is a clause about what is wrong with it.
    pub fn parse(&self, source: &Source<'_>) -> Parsed<T> {
        let text = source.text;
        match self {
            Kind::Integer { min, max, value } => {
                value(parse_integer(text, *min, *max)?).ok_or_else(|| "is too large".to_owned())
            }
            Kind::Size { min, max, value } => match parse_size(text)? {
                bytes if bytes < parse_size(min)? => Err("is too small".to_owned()),
                bytes if bytes <= parse_size(max)? => Ok(value(usize::try_from(bytes).unwrap_or(usize::MAX))),
                _ => Err("is too large".to_owned()),
            },
            Kind::Choice(choices) => {
                let chosen = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim()));
                chosen.map(|(_, value)| value.clone()).ok_or_else(|| "is not one of the allowed values".to_owned())
            }
            Kind::Form { parse, .. } => parse(source),
        }
    }
}

impl<T> Kind<T> {
    /// Returns whether values must never be shown.
    pub const fn is_secret(&self) -> bool {
        matches!(self, Kind::Form { is_secret: true, .. })
    }
}

impl<T> fmt::Display for Kind<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Integer { min, max, .. } if [i64::from(i32::MAX), i64::MAX].contains(max) => {
                write!(f, "a whole number, at least {min}")
            }
            Kind::Integer { min, max, .. } => write!(f, "a whole number from {min} to {max}"),
            Kind::Size { min, max, .. } => {
                write!(f, "bytes, or a number followed by K, M, G or T, from {min} to {max}")
            }
            Kind::Choice(choices) => {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                f.write_str(&names.join(" or "))
            }
            Kind::Form { allowed, .. } => f.write_str(allowed),
        }
    }
}

/// A whole number. The bounds must fit the type.
pub(super) const fn integer<T: TryFrom<i64>>(min: i64, max: i64) -> Kind<T> {
    Kind::Integer { min, max, value: |number| T::try_from(number).ok() }
}

/// A port; 0 lets the system choose.
pub(super) const PORT: Kind<u16> = integer(0, 65_535);

/// A whole number of seconds.
pub(super) const fn seconds(min: i64, max: i64) -> Kind<Duration> {
    Kind::Integer { min, max, value: |number| Some(Duration::from_secs(number.unsigned_abs())) }
}

/// A number of bytes.
pub(super) const fn size(min: &'static str, max: &'static str) -> Kind<usize> {
    Kind::Size { min, max, value: |bytes| bytes }
}

/// A number of bytes, rounded down to a multiple of [`MAP_UNIT`].
pub(super) const fn map_size(min: &'static str, max: &'static str) -> Kind<usize> {
    Kind::Size { min, max, value: |bytes| bytes / MAP_UNIT * MAP_UNIT }
}

const fn form<T>(allowed: &'static str, parse: fn(&Source<'_>) -> Parsed<T>) -> Kind<T> {
    Kind::Form { allowed, parse, is_secret: false }
}

/// A text that is never shown.
const fn secret<T>(allowed: &'static str, parse: fn(&Source<'_>) -> Parsed<T>) -> Kind<T> {
    Kind::Form { allowed, parse, is_secret: true }
}

pub(super) const TEXT: Kind<String> = form("a text", |source| parse_text(source.text));
pub(super) const NAME: Kind<String> = form("a name of 1 to 64 characters", |source| parse_name(source.text));
/// A path: `%h` is the home folder, and a relative path starts at the folder of the file that set it.
pub(super) const PATH: Kind<PathBuf> = form(
    "a path; a relative one starts at the folder of the configuration file",
    |source| {
        let text = match (parse_text(source.text)?, source.home) {
            (text, _) if text.is_empty() => return Err("is empty".to_owned()),
            (text, _) if text == "~" || text.starts_with("~/") => {
                return Err(
                    "begins with ~, which only a shell replaces, and only at the beginning of a word (--data ~/x); here %h is the home folder, and ./~ a folder of that name".to_owned()
                );
            }
            (text, _) if text.contains("${") || text.starts_with('$') => {
                return Err("names a variable, which only a shell replaces; here %h is the home folder".to_owned());
            }
            (text, _) if text.contains('\\') => {
                return Err("has a backslash, as paths of another system have; folders are separated by /".to_owned());
            }
            (text, Some(home)) => text.replace("%h", &home.to_string_lossy()),
            (text, None) if text.contains("%h") => {
                return Err("uses %h, but the home folder is not known".to_owned());
            }
            (text, None) => text,
        };
        // Without `.` components: the system cannot create a folder named `store/.`.
        let path: PathBuf = Path::new(&text).components().collect();
        Ok(source.folder.map_or(path.clone(), |folder| folder.join(path)))
    },
);
pub(super) const BOOLEAN: Kind<bool> = form("true or false", |source| match source.text.trim() {
    text if text.eq_ignore_ascii_case("true") => Ok(true),
    text if text.eq_ignore_ascii_case("false") => Ok(false),
    _ => Err("is neither true nor false".to_owned()),
});
pub(super) const HASH: Kind<Hash256> = form("64 hex digits", |source| {
    let text = source.text.trim();
    Hash256::from_hex(text).ok_or_else(|| format!("is not a hash ({} characters)", text.chars().count()))
});
pub(super) const HASHES: Kind<Vec<Hash256>> = form("nothing, or hashes of 64 hex digits, joined by |", |source| {
    list(source.text, |element| Hash256::from_hex(element).ok_or("no hash"))
});
/// The address of the nemesis signer, which is parsed once the network byte is known.
pub(super) const ADDRESS: Kind<String> =
    form("an address of the network: 40 letters and digits without hyphens", |source| Ok(source.text.to_owned()));
pub(super) const ADDRESSES: Kind<Vec<Address>> =
    form("nothing, or addresses of the network without hyphens, joined by |", |source| match source.network {
        Some(network) => {
            list(source.text, |element| Address::parse(element, network).ok_or("no valid address of the network"))
        }
        None => Ok(Vec::new()),
    });
pub(super) const SECRET: Kind<Option<PrivateKey>> =
    secret("nothing, or a private key of 64 hex digits", |source| match parse_secrets(source.text)? {
        mut keys if keys.len() <= 1 => Ok(keys.pop()),
        _ => Err("is a list".to_owned()),
    });
pub(super) const SECRETS: Kind<Vec<PrivateKey>> =
    secret("nothing, or private keys of 64 hex digits, joined by |", |source| parse_secrets(source.text));
pub(super) const LOCAL_ADDRESSES: Kind<LocalAddresses> = form(
    "nothing, or IP addresses, host names and patterns such as 10.0.*.* (IPv6: all eight parts), joined by |",
    |source| addresses(source.text, LocalAddresses::add_entry),
);
pub(super) const ADDRESS_RANGES: Kind<AddressRanges> =
    form("nothing, or IP addresses and ranges such as 10.0.0.0/8 or 2001:db8::/32, joined by |", |source| {
        addresses(source.text, AddressRanges::add)
    });
/// The host of an endpoint: an IPv6 address in brackets, as NIS1 writes it.
pub(super) const HOST: Kind<String> = form("a host name or an IP address, without http:// and port", |source| {
    parse_own_host(source.text).map_err(|why| format!("is no host: {why}"))
});
pub(super) const HOST_NAMES: Kind<Vec<String>> =
    form("nothing, or host names and IP addresses without ports, joined by |", |source| parse_host_names(source.text));
pub(super) const ORIGINS: Kind<Vec<String>> =
    form("nothing, or origins such as http://127.0.0.1:3000, joined by |", |source| {
        list(source.text, |element| origin(element).map_err(|why| format!("no origin: {why}")))
    });
pub(super) const ENDPOINTS: Kind<Vec<Endpoint>> =
    form("nothing, or HOST, HOST:PORT and [IPV6]:PORT, joined by |", |source| {
        list(source.text, |element| Endpoint::parse(element).map_err(|why| format!("no endpoint: {why}")))
    });
pub(super) const CHECKPOINT: Kind<Option<Checkpoint>> =
    form("nothing, or HEIGHT:HASH", |source| match source.text.trim() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|why| format!("is not a block: {why}")),
    });
pub(super) const BIND: Kind<Bind> =
    form("an IP address of this machine, localhost for 127.0.0.1 and ::1, or * for all", |source| {
        match source.text.trim() {
            "*" => Ok(Bind::All),
            text if text.eq_ignore_ascii_case("localhost") => Ok(Bind::Loopback),
            text => {
                // For the parser of hosts only a port may stand behind a colon.
                let has_reason = text.matches(':').count() < 2 || text.contains(['/', '[']);
                let reason = |why| if has_reason { format!(": {why}") } else { String::new() };
                let host = parse_host(text).map_err(|why| format!("is not an IP address{}", reason(why)))?;
                host.parse().map(Bind::One).map_err(|_| "is not an IP address".to_owned())
            }
        }
    });
pub(super) const LISTENER: Kind<Option<SocketAddr>> =
    form("nothing, or an IP address of this machine and a port, such as 10.0.0.5:9100 or [::]:9100", |source| {
        match source.text.trim() {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| listener_fault(text)),
        }
    });
/// A path prefix: empty, or `/` and unreserved characters, without `/` at its end.
pub(super) const CONTEXT: Kind<String> =
    form("nothing, or a path that begins with / and does not end with it", |source| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~".contains(&b);
        match source.text.trim() {
            "" => Ok(String::new()),
            text if text.len() > MAX_NAME => Err("is too long".to_owned()),
            text if !text.starts_with('/') => Err("does not begin with /".to_owned()),
            text if text.ends_with('/') || text.contains("//") => Err("has a superfluous /".to_owned()),
            text if text.bytes().all(allowed) => Ok(text.to_owned()),
            _ => Err("has characters other than letters, digits, and - . _ ~ /".to_owned()),
        }
    });
pub(super) const CLOCK: Kind<ClockMode> =
    form("system, or network seconds: N holds the clock there, N+ lets it run from there", |source| {
        source.text.trim().parse().map_err(str::to_owned)
    });
/// A version that NIS1 nodes are compatible with.
pub(super) const VERSION: Kind<Version> =
    form("MAJOR.MINOR.BUILD compatible with 0.6 and 0.7, such as 0.6.102", |source| {
        let version: Version = source.text.trim().parse().map_err(|_| "is no version".to_owned())?;
        let is_compatible = version.is_compatible(&Version::OWN);
        Some(version).filter(|_| is_compatible).ok_or("is incompatible with the versions of other nodes".to_owned())
    });
/// Request paths in lower case.
pub(super) const PATHS: Kind<Vec<String>> = form("a text", |source| {
    let paths = parse_text(source.text)?.to_lowercase();
    Ok(paths.split('|').map(|path| path.trim().to_owned()).filter(|path| !path.is_empty()).collect())
});
pub(super) const LOG_LEVEL: Kind<LevelFilter> = form("off or error or warn or info or debug or trace", |source| {
    source.text.trim().parse().map_err(|_| "is not one of the allowed values".to_owned())
});
pub(super) const LOG_FORMAT: Kind<bool> = Kind::Choice(&[("text", false), ("json", true)]);
pub(super) const PROTOCOL: Kind<&'static str> = Kind::Choice(&[("http", "http"), ("https", "https")]);
pub(super) const LOCAL_ACCESS: Kind<LocalAccess> =
    Kind::Choice(&[("cookie", LocalAccess::Cookie), ("address", LocalAccess::Address)]);
pub(super) const IP_DETECTION: Kind<IpDetection> = Kind::Choice(&[
    ("AutoRequired", IpDetection::Required),
    ("AutoOptional", IpDetection::Optional),
    ("Disabled", IpDetection::Disabled),
]);
pub(super) const FEATURES: Kind<Features> = form(
    "nothing, or some of TRANSACTION_HASH_LOOKUP, HISTORICAL_ACCOUNT_DATA, TRACK_EXPIRED_MOSAICS, joined by |",
    |source| {
        let known = ["TRANSACTION_HASH_LOOKUP", "HISTORICAL_ACCOUNT_DATA", "TRACK_EXPIRED_MOSAICS"];
        let names = parse_names(source.text, &known)?;
        let [transaction_hash_lookup, historical_account_data, track_expired_mosaics] =
            known.map(|name| names.contains(&name));
        Ok(Features { transaction_hash_lookup, historical_account_data, track_expired_mosaics })
    },
);
/// Names of `nis.blockChainFeatures`, in the order of the known ones.
pub(super) const CHAIN_FEATURES: Kind<Vec<&'static str>> = form(
    "nothing, or some of PROOF_OF_IMPORTANCE, PROOF_OF_STAKE, WB_TIME_BASED_VESTING, WB_IMMEDIATE_VESTING, \
     STABILIZE_BLOCK_TIMES, joined by |",
    |source| parse_names(source.text, &BLOCK_CHAIN_FEATURES),
);

/// What gives a request local access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalAccess {
    /// The secret in the data folder.
    #[default]
    Cookie,
    /// The address of the client, as in NIS1.
    Address,
}

/// Addresses to listen on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bind {
    /// All addresses of the machine, IPv6 and IPv4.
    #[default]
    All,
    /// 127.0.0.1 and, where the machine has it, ::1.
    Loopback,
    /// This address.
    One(IpAddr),
}

impl Bind {
    /// Returns whether only programs on this machine can reach the node.
    pub fn is_loopback(self) -> bool {
        match self {
            Bind::All => false,
            Bind::Loopback => true,
            Bind::One(address) => address.to_canonical().is_loopback(),
        }
    }

    /// Returns the address at which programs on this machine reach the node.
    pub fn local_address(self) -> IpAddr {
        match self {
            Bind::One(address) => match address.to_canonical() {
                IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
                address if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                address => address,
            },
            Bind::All | Bind::Loopback => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// Returns whether these addresses and another listener on `address` cannot have the same port.
    pub fn overlaps(self, address: IpAddr) -> bool {
        let own: &[IpAddr] = match self {
            Bind::All => return true,
            Bind::Loopback => &[IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
            Bind::One(own) => &[own],
        };
        own.iter().any(|own| includes(*own, address) || includes(address, *own))
    }
}

/// Returns whether a listener on one address takes the connections to another, too. One on `::` also listens on IPv4.
fn includes(listener: IpAddr, address: IpAddr) -> bool {
    let (listener, address) = (listener.to_canonical(), address.to_canonical());
    listener == address || listener.is_unspecified() && (listener.is_ipv6() || address.is_ipv4())
}

fn parse_text(text: &str) -> Parsed<String> {
    match text.trim() {
        text if text.len() > MAX_TEXT => Err("is too long".to_owned()),
        text if text.contains(char::is_control) => Err("contains control characters".to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn parse_name(text: &str) -> Parsed<String> {
    let text = parse_text(text)?;
    match text.chars().count() {
        0 => Err("is empty".to_owned()),
        length if length > MAX_NAME => Err("is too long".to_owned()),
        _ => Ok(text),
    }
}

/// Parses a decimal number with an optional sign, as NIS1 does.
fn parse_integer(text: &str, min: i64, max: i64) -> Parsed<i64> {
    let why = match text.trim().parse::<i64>().map_err(|error| *error.kind()) {
        Ok(value) if (min..=max).contains(&value) => return Ok(value),
        Ok(value) if value < min => "is too small",
        Ok(_) | Err(IntErrorKind::PosOverflow) => "is too large",
        Err(IntErrorKind::NegOverflow) => "is too small",
        Err(_) => "is not a whole number in decimal digits",
    };
    Err(why.to_owned())
}

/// Parses a number of bytes; `K`, `M`, `G` and `T` in either case are powers of 1024.
fn parse_size(text: &str) -> Parsed<u64> {
    let text = text.trim();
    let units = [('k', 10), ('m', 20), ('g', 30), ('t', 40)];
    let with_unit = units.iter().find_map(|(unit, shift)| {
        let number = text.strip_suffix([*unit, unit.to_ascii_uppercase()])?;
        Some((number, *shift))
    });
    let (number, shift) = with_unit.unwrap_or((text, 0));
    let number = parse_integer(number, 0, i64::MAX)?.unsigned_abs();
    number.checked_mul(1 << shift).ok_or_else(|| "is too large".to_owned())
}

/// Splits a list at its bars. Empty elements at the end are dropped; others are kept and cause errors.
pub(super) fn elements(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim_end_matches(|c: char| c == '|' || c.is_whitespace());
    let count = if text.is_empty() { 0 } else { usize::MAX };
    text.split('|').map(str::trim).take(count)
}

/// Parses each element of a list; the error shows the first one that is not what it must be, and what it is instead.
fn list<T, E: fmt::Display>(text: &str, mut parse: impl FnMut(&str) -> Result<T, E>) -> Parsed<Vec<T>> {
    let read = |element| parse(element).map_err(|wrong| format!("holds {}, which is {wrong}", redact_value(element)));
    elements(text).map(read).collect()
}

/// Parses a list of addresses, each of which is added to the value.
fn addresses<T: Default, E: fmt::Display>(text: &str, add: fn(&mut T, &str) -> Result<(), E>) -> Parsed<T> {
    let mut value = T::default();
    let entries = list(text, |element| add(&mut value, element))?;
    if entries.len() > MAX_ADDRESSES { Err(format!("has more than {MAX_ADDRESSES} entries")) } else { Ok(value) }
}

/// Returns those of `known` that the list contains, in the order of `known`.
fn parse_names(text: &str, known: &[&'static str]) -> Parsed<Vec<&'static str>> {
    let named = list(text, |element| known.iter().find(|name| **name == element).ok_or("unknown"))?;
    Ok(known.iter().filter(|name| named.contains(name)).copied().collect())
}

/// Parses private keys; an error shows only the length of the wrong one. A key whose top bit is set may have `00` in
/// front, as NIS1 prints it.
fn parse_secrets(text: &str) -> Parsed<Vec<PrivateKey>> {
    let read = |element: &str| {
        let length = element.chars().count();
        let digits = if length == 66 { element.strip_prefix("00").unwrap_or(element) } else { element };
        match PrivateKey::from_hex(digits) {
            Ok(key) if (USUAL_KEY_DIGITS..=64).contains(&digits.len()) => Ok(key),
            Ok(_) => Err(format!("holds a key of {length} hex digits; a private key has 64")),
            Err(_) => Err(format!("holds {length} characters that are not all hex digits")),
        }
    };
    elements(text).map(read).collect()
}

/// Parses host names and IP addresses, and normalises them: lower case, and the usual form.
pub(super) fn parse_host_names(text: &str) -> Parsed<Vec<String>> {
    list(text, |element| {
        let host = parse_host(element).map_err(|why| format!("no host name: {why}"))?;
        Ok::<_, String>(host.parse::<IpAddr>().map_or(host.to_ascii_lowercase(), |address| address.to_string()))
    })
}

/// Says what is wrong with a text that is no IP address with a port.
fn listener_fault(text: &str) -> String {
    let what = match Url::parse(text) {
        Err(why) => why,
        Ok(url) if url.host.parse::<IpAddr>().is_err() => "a name cannot stand for it".to_owned(),
        Ok(url) if url.port.is_none() => format!("the port is missing, as in {}:9100", url.authority()),
        Ok(url) => format!("write only {}", url.authority()),
    };
    format!("is not an IP address with a port: {what}")
}

/// Parses the origin of a web page, as browsers send it: a scheme, a host in lower case, and a port unless it is the
/// default of the scheme.
fn origin(element: &str) -> Parsed<String> {
    let mut url = Url::parse(&element.to_ascii_lowercase())?;
    let default_port = match url.scheme.as_str() {
        "http" => 80,
        "https" => 443,
        "" => return Err(format!("write http://{}", url.authority())),
        _ => return Err("its scheme is neither http nor https".to_owned()),
    };
    if !url.path.is_empty() {
        return Err(format!("write only {}://{}", url.scheme, url.authority()));
    }
    url.port = url.port.filter(|port| *port != default_port);
    Ok(format!("{}://{}", url.scheme, url.authority()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Origin, Override, build, table};
    use super::*;

    fn parsed<T: Clone>(kind: Kind<T>, text: &str) -> Parsed<T> {
        kind.parse(&Source { text, folder: None, home: None, network: None })
    }

    #[test]
    fn a_path_of_a_shell_or_of_another_system_is_no_path() {
        for (text, words) in [
            ("~/nem", "only a shell replaces"),
            ("${user.home}/nem", "only a shell replaces"),
            ("$HOME/nem", "only a shell replaces"),
            ("C:\\nem", "backslash"),
        ] {
            assert!(parsed(PATH, text).is_err_and(|error| error.contains(words)), "{text}");
        }
        assert_eq!(parsed(PATH, "/srv/a$b~c"), Ok(PathBuf::from("/srv/a$b~c")));
    }

    #[test]
    fn integers_keep_to_their_bounds() {
        assert_eq!(parse_integer(" +7 ", 0, 9), Ok(7));
        assert_eq!(parse_integer("-1", -1, 9), Ok(-1));
        assert_eq!(parse_integer("9223372036854775807", 0, i64::MAX), Ok(i64::MAX));
        for (text, wrong) in [("10", "large"), ("-1", "small"), ("9".repeat(30).as_str(), "large")] {
            assert!(parse_integer(text, 0, 9).unwrap_err().contains(wrong), "{text}");
        }
        for text in ["", "+", "0x98", "1 000", "1.0", "+-1", "\u{664}"] {
            assert!(parse_integer(text, 0, 9).unwrap_err().contains("decimal"), "{text}");
        }
    }

    #[test]
    fn the_announced_version_must_be_compatible_with_peers() {
        for text in ["0.6.102", " 0.6.103 ", "0.7.0", "0.6.102-BETA"] {
            assert_eq!(parsed(VERSION, text).map(|version| version.to_string()), Ok(text.trim().to_owned()));
        }
        for text in ["", "0.6", "1.0.0", "0.8.1", "v0.6.102", "0.5.9"] {
            assert!(parsed(VERSION, text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(parse_size("1000"), Ok(1000));
        assert_eq!(parse_size("2k"), Ok(2048));
        assert_eq!(parse_size("3 G"), Ok(3 << 30));
        assert_eq!(parse_size("9999999T"), Ok(9_999_999 << 40));
        for text in ["-1", "k", "1kk", "1KB", "9223372036854775807T", ""] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert!(parsed(size("1025", "2K"), "1K").unwrap_err().contains("small"));
        assert!(parsed(size("1K", "2000"), "2K").unwrap_err().contains("large"));
        assert_eq!(parsed(size("1K", "2K"), "2K"), Ok(2048));
    }

    #[test]
    fn lists_drop_empty_entries_only_at_the_end() {
        let read = |text| elements(text).collect::<Vec<_>>();
        assert_eq!(read(""), Vec::<&str>::new());
        assert_eq!(read(" || "), Vec::<&str>::new());
        assert_eq!(read(" a | b ||"), ["a", "b"]);
        assert_eq!(read("a||b"), ["a", "", "b"]);
        assert!(parse_names("A||B", &["A", "B"]).is_err());
        assert_eq!(parse_names("B|A|B", &["A", "B", "C"]), Ok(vec!["A", "B"]));
    }

    #[test]
    fn an_invalid_private_key_is_not_shown_in_the_error() {
        let error = parsed(SECRETS, &format!("{}|secret words", "c0ffee11".repeat(8))).unwrap_err();
        assert!(error.contains("12 characters") && !error.contains("secret w"), "{error}");
        assert_eq!(parsed(SECRETS, "c0ffee11").unwrap_err(), "holds a key of 8 hex digits; a private key has 64");
        assert_eq!(parsed(SECRET, " "), Ok(None));
        assert!(parsed(SECRET, "c0|fe").is_err());
    }

    #[test]
    fn context_paths_have_no_trailing_slash() {
        assert_eq!(parsed(CONTEXT, " "), Ok(String::new()));
        assert_eq!(parsed(CONTEXT, "/api/v1"), Ok("/api/v1".to_owned()));
        for text in ["api", "/", "/api/", "/a//b", "/a b", "/ä", "/a?b"] {
            assert!(parsed(CONTEXT, text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_to_listen_on_may_have_brackets() {
        assert_eq!(parsed(BIND, "*"), Ok(Bind::All));
        assert_eq!(parsed(BIND, "127.0.0.1"), Ok(Bind::One([127, 0, 0, 1].into())));
        assert_eq!(parsed(BIND, "[::1]"), parsed(BIND, "::1"));
        assert_eq!(parsed(BIND, "localhost"), Ok(Bind::Loopback));
        assert!(parsed(BIND, "wallet.example").is_err());
        assert_eq!(parsed(LISTENER, " "), Ok(None));
        assert_eq!(parsed(LISTENER, "[::1]:9100"), Ok(Some(([0, 0, 0, 0, 0, 0, 0, 1], 9100).into())));
        assert!(parsed(LISTENER, "9100").is_err() && parsed(LISTENER, "10.0.0.5").is_err());
    }

    #[test]
    fn host_names_are_compared_in_one_form() {
        let read = parsed(HOST_NAMES, "Node.Example|[2001:DB8:0::1]|10.0.0.1|").unwrap();
        assert_eq!(read, ["node.example", "2001:db8::1", "10.0.0.1"]);
        for text in ["node.example:7890", "http://node.example", "a b", "*.example", "a||b", "1.2.3"] {
            assert!(parsed(HOST_NAMES, text).unwrap_err().contains("no host name"), "{text}");
        }
        let error = parsed(HOST_NAMES, "node.example|http://node.example:7890/").unwrap_err();
        assert_eq!(error, "holds \"http://node.example:7890/\", which is no host name: write only node.example");
    }

    #[test]
    fn a_wrong_address_is_named_and_lists_are_bounded() {
        let error = parsed(LOCAL_ADDRESSES, "10.0.0.1|a||b").unwrap_err();
        assert_eq!(error, "holds \"\", which is no IP address, host name or pattern: the host is missing");
        let error = parsed(LOCAL_ADDRESSES, "10.0.0.1:7890").unwrap_err();
        assert!(error.ends_with("or pattern: write only 10.0.0.1"), "{error}");
        let error = parsed(ADDRESS_RANGES, "10.0.0.1|proxy.example").unwrap_err();
        assert_eq!(error, "holds \"proxy.example\", which is neither an address nor a range");
        let error = parsed(ADDRESS_RANGES, "http://10.0.0.1").unwrap_err();
        assert!(error.ends_with("neither an address nor a range: write only 10.0.0.1"), "{error}");
        let many = vec!["10.0.0.1"; MAX_ADDRESSES + 1].join("|");
        assert!(parsed(LOCAL_ADDRESSES, &many).unwrap_err().contains("more than 1024"));
        assert!(parsed(ADDRESS_RANGES, &many).unwrap_err().contains("more than 1024"));
    }

    #[test]
    fn a_wrong_host_endpoint_or_listener_is_told_the_right_spelling() {
        for (text, host) in
            [("Node.example", "Node.example"), (" 1.2.3.4 ", "1.2.3.4"), ("::1", "[::1]"), ("[::1]", "[::1]")]
        {
            assert_eq!(parsed(HOST, text).as_deref(), Ok(host));
        }
        for (error, expected) in [
            (parsed(HOST, "http://1.2.3.4").unwrap_err(), "is no host: write only 1.2.3.4"),
            (parsed(HOST, "HTTPS://node.example:7890/").unwrap_err(), "is no host: write only node.example"),
            (parsed(HOST, "[::1]:7890").unwrap_err(), "is no host: write only ::1"),
            (parsed(HOST, "").unwrap_err(), "is no host: the host is missing"),
            (parsed(HOST, "224.0.0.1").unwrap_err(), "is no host: this is an address of many machines"),
            (parsed(HOST, "255.255.255.255").unwrap_err(), "is no host: this is an address of many machines"),
            (parsed(HOST, "[ff02::1]").unwrap_err(), "is no host: this is an address of many machines"),
            (parsed(BIND, "http://127.0.0.1").unwrap_err(), "is not an IP address: write only 127.0.0.1"),
            (parsed(BIND, "node.example").unwrap_err(), "is not an IP address"),
            (parsed(BIND, "127.0.0.1:7890").unwrap_err(), "is not an IP address: write only 127.0.0.1"),
            (parsed(BIND, "fe80::1%lo").unwrap_err(), "is not an IP address"),
            (parsed(BIND, "127.0.0.1,::1").unwrap_err(), "is not an IP address"),
            (
                parsed(LISTENER, "http://10.0.0.5:9100/").unwrap_err(),
                "is not an IP address with a port: write only 10.0.0.5:9100",
            ),
            (
                parsed(LISTENER, "10.0.0.5").unwrap_err(),
                "is not an IP address with a port: the port is missing, as in 10.0.0.5:9100",
            ),
            (
                parsed(LISTENER, "localhost:9100").unwrap_err(),
                "is not an IP address with a port: a name cannot stand for it",
            ),
            (
                parsed(ENDPOINTS, "a|https://b").unwrap_err(),
                "holds \"https://b\", which is no endpoint: https is not supported; use http://, if necessary through a tunnel",
            ),
            (
                parsed(ORIGINS, "node.example:80").unwrap_err(),
                "holds \"node.example:80\", which is no origin: write http://node.example:80",
            ),
            (
                parsed(ORIGINS, "https://a/").unwrap_err(),
                "holds \"https://a/\", which is no origin: write only https://a",
            ),
        ] {
            assert_eq!(error, expected);
        }
        assert_eq!(parsed(ENDPOINTS, "HTTP://A:80").unwrap()[0].to_string(), "http://A:80");
        assert_eq!(parsed(PROTOCOL, "HTTPS"), Ok("https"));
        assert_eq!(parsed(BIND, "Localhost"), Ok(Bind::Loopback));
    }

    #[test]
    fn origins_have_the_form_that_browsers_send() {
        let read = parsed(
            ORIGINS,
            "http://127.0.0.1:22080|HTTPS://Wallet.Example:443|http://[::1]:80|http://[::1]|http://localhost",
        );
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
            assert!(parsed(ORIGINS, text).unwrap_err().contains("no origin"), "{text}");
        }
    }

    #[test]
    fn map_sizes_are_whole_pages() {
        assert_eq!(parsed(map_size("0", "1T"), "74565"), Ok(0x10000));
        assert_eq!(parsed(map_size("0", "1T"), "1G"), Ok(1 << 30));
    }

    #[test]
    fn nis1_forms_of_a_private_key_are_taken() {
        let key = "b".repeat(64);
        let read = |text: &str| parsed(SECRETS, text).map(|keys| keys[0].printed().to_string());
        assert_eq!(read(&key), Ok(format!("00{key}")));
        assert_eq!(read(&format!("00{key}")), read(&key));
        let short = "1a".repeat(29);
        assert_eq!(read(&short.to_uppercase()), Ok(short));
        let wrong = ["b".repeat(65), "b".repeat(66), "0".repeat(68), "b".repeat(57), "x".repeat(64)];
        for wrong in wrong.iter().map(String::as_str).chain(["12345678"]) {
            assert!(parsed(SECRETS, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn debug_output_does_not_show_the_key() {
        let shown = format!("{:?}", parsed(SECRET, &"c0ffee11".repeat(8)));
        assert!(!shown.contains("c0ffee"), "{shown}");
    }

    proptest! {
        #[test]
        #[ignore = "slow: computes for long"]
        fn arbitrary_text_does_not_panic_any_value_reader(text in r"\PC{0,40}|[0-9|:.*+KMG -]{0,60}") {
            for key in table::keys() {
                let flag = Override { key: key.name.to_owned(), value: text.clone().into(), origin: Origin::Flag("--set") };
                let _ = build(None, vec![flag], Some(Path::new("/home")));
            }
        }
    }
}
