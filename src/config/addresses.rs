//! Lists of IP addresses, as operators write them: proxies, and clients that count as local.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::diagnostics::quoted;

/// Maximum entries of a list; a longer one is rejected.
const MAX_ENTRIES: usize = 1024;
/// Maximum characters of a host name.
const MAX_HOST: usize = 253;

/// Ranges of IP addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRanges(Vec<IpNet>);

impl AddressRanges {
    /// Parses single addresses (`10.0.0.1`) and ranges (`10.0.0.0/8`, `2001:db8::/32`). The error is a clause about the
    /// list.
    pub(super) fn parse<'a>(entries: impl Iterator<Item = &'a str>) -> Result<AddressRanges, String> {
        let mut ranges = Vec::new();
        for entry in entries {
            if ranges.len() == MAX_ENTRIES {
                return Err(format!("has more than {MAX_ENTRIES} entries"));
            }
            let single = entry.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
            let range = single.or_else(|_| entry.parse::<IpNet>());
            ranges
                .push(range.map_err(|_| format!("holds {}, which is neither an address nor a range", quoted(entry)))?);
        }
        Ok(AddressRanges(ranges))
    }

    /// Returns whether an address is in one of the ranges. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|range| range.contains(&address))
    }

    /// Returns whether there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A part of a pattern: this value, or any value if `None`.
type Part = Option<u16>;

/// Clients that count as local: `127.0.0.1`, `::1` and those of `nis.additionalLocalIps`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalAddresses {
    addresses: Vec<IpAddr>,
    /// The parts of each pattern: four of IPv4 or eight of IPv6.
    patterns: Vec<Vec<Part>>,
    hosts: Vec<String>,
}

impl LocalAddresses {
    /// Parses a list separated by bars: IP addresses, host names, and patterns in which whole parts are `*`.
    ///
    /// A part of a pattern must have the form that NIS1 compares, since any other form would never match: decimal
    /// without leading zeros, or lower-case hex without leading zeros. The error is a clause about the entry.
    pub fn parse(text: &str) -> Result<LocalAddresses, String> {
        let mut read = LocalAddresses::default();
        let text = text.trim_end_matches(|c: char| c == '|' || c.is_whitespace());
        if text.is_empty() {
            return Ok(read);
        }
        for (index, entry) in text.split('|').map(str::trim).enumerate() {
            if index == MAX_ENTRIES {
                return Err(format!("has more than {MAX_ENTRIES} entries"));
            }
            let known = read.add_entry(entry);
            known.ok_or_else(|| format!("holds {}, which is no IP address, host name or pattern", quoted(entry)))?;
        }
        Ok(read)
    }

    fn add_entry(&mut self, entry: &str) -> Option<()> {
        if entry.contains('*') {
            self.patterns.push(match entry.contains('.') {
                true => pattern(entry, '.', 4, decimal_part)?,
                false => pattern(entry, ':', 8, hex_part)?,
            });
        } else if let Ok(address) = entry.parse::<IpAddr>() {
            self.add(address);
        } else {
            self.hosts.push(is_host_name(entry).then(|| entry.to_owned())?);
        }
        Some(())
    }

    /// Host names of the list; the start of the node resolves them once and adds their addresses.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Adds an address.
    pub fn add(&mut self, address: IpAddr) {
        self.addresses.push(address.to_canonical());
    }

    /// Returns whether a client is local. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, caller: IpAddr) -> bool {
        let caller = caller.to_canonical();
        let parts = match caller {
            IpAddr::V4(address) => address.octets().map(u16::from).to_vec(),
            IpAddr::V6(address) => address.segments().to_vec(),
        };
        let is_match = |pattern: &Vec<Part>| {
            let mut pairs = pattern.iter().zip(&parts);
            pattern.len() == parts.len() && pairs.all(|(part, own)| part.is_none_or(|part| part == *own))
        };
        caller == IpAddr::V4(Ipv4Addr::LOCALHOST)
            || caller == IpAddr::V6(Ipv6Addr::LOCALHOST)
            || self.addresses.contains(&caller)
            || self.patterns.iter().any(is_match)
    }
}

fn pattern(text: &str, separator: char, count: usize, read: fn(&str) -> Option<u16>) -> Option<Vec<Part>> {
    let part = |text| if text == "*" { Some(None) } else { read(text).map(Some) };
    text.split(separator).map(part).collect::<Option<Vec<Part>>>().filter(|parts| parts.len() == count)
}

fn decimal_part(text: &str) -> Option<u16> {
    let value = u16::from(text.parse::<u8>().ok()?);
    (value.to_string() == text).then_some(value)
}

fn hex_part(text: &str) -> Option<u16> {
    let value = u16::from_str_radix(text, 16).ok()?;
    (format!("{value:x}") == text).then_some(value)
}

/// Accepts 1 to 253 letters, digits and `-._` with at least one letter: without any it is a mistyped IPv4 address.
pub(super) fn is_host_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    (1..=MAX_HOST).contains(&text.len()) && text.bytes().all(allowed) && text.bytes().any(|b| b.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(list: &str) -> Result<AddressRanges, String> {
        AddressRanges::parse(list.split('|').filter(|entry| !entry.is_empty()))
    }

    #[test]
    fn an_address_is_in_the_ranges_with_its_prefix() {
        let listed = ranges("127.0.0.1|10.1.0.0/16|2001:db8::/32|::ffff:9.9.9.9").unwrap();
        for address in ["127.0.0.1", "::ffff:127.0.0.1", "10.1.255.7", "2001:db8:ffff::1", "9.9.9.9"] {
            assert!(listed.contains(address.parse().unwrap()), "{address}");
        }
        for address in ["127.0.0.2", "10.2.0.0", "2001:db9::", "::1"] {
            assert!(!listed.contains(address.parse().unwrap()), "{address}");
        }
        assert!(ranges("").unwrap().is_empty());
    }

    #[test]
    fn an_invalid_range_is_named_in_the_error() {
        for entry in ["10.0.0.0/33", "10.0.0/8", "proxy.example", "10.0.*.*", "::/129", "1.2.3.4/", "/8"] {
            let error = ranges(&format!("10.0.0.1|{entry}")).unwrap_err();
            assert!(error.starts_with(&format!("holds {entry:?}")), "{error}");
        }
        assert!(ranges(&vec!["10.0.0.1"; MAX_ENTRIES + 1].join("|")).unwrap_err().contains("1024"));
    }

    fn is_local(list: &str, caller: &str) -> bool {
        LocalAddresses::parse(list).unwrap().contains(caller.parse().unwrap())
    }

    #[test]
    fn loopback_is_local_without_any_entry() {
        assert!(is_local("", "127.0.0.1"));
        assert!(is_local("", "::ffff:127.0.0.1"));
        assert!(is_local(" ", "::1"));
        assert!(!is_local("", "127.0.0.2"));
        assert!(!is_local("", "10.0.0.1"));
    }

    #[test]
    fn addresses_and_patterns_match_their_addresses() {
        let list = "127.0.0.2|127.0.1.*| 10.*.*.7 |fe80:0:0:0:*:*:*:1|2001:db8::5|";
        for caller in
            ["127.0.0.2", "127.0.1.0", "127.0.1.255", "10.1.2.7", "::ffff:10.1.2.7", "fe80::a:b:c:1", "2001:db8::5"]
        {
            assert!(is_local(list, caller), "{caller}");
        }
        for caller in ["127.0.0.3", "127.1.1.1", "10.1.2.8", "fe80::1:a:b:c:2", "2001:db8::6"] {
            assert!(!is_local(list, caller), "{caller}");
        }
        assert!(!is_local("*.*.*.*", "fe80::1"));
        assert!(!is_local("*:*:*:*:*:*:*:*", "10.0.0.1"));
    }

    #[test]
    fn host_names_are_kept_unresolved_until_addresses_are_added() {
        let mut read = LocalAddresses::parse("wallet.example|10.0.0.1").unwrap();
        assert_eq!(read.hosts(), ["wallet.example"]);
        assert!(!read.contains([10, 0, 0, 9].into()));
        read.add([10, 0, 0, 9].into());
        assert!(read.contains([10, 0, 0, 9].into()));
    }

    #[test]
    fn a_malformed_entry_is_named_in_the_error() {
        for entry in [
            "10.0.*",
            "10.0.0.0.*",
            "*",
            "*:*",
            "10.0.0.256.*",
            "10.00.0.*",
            "FE80:*:*:*:*:*:*:*",
            "1.2.3",
            "a b",
            "a||b",
            "fe80:::1",
            "10.0.0.+*",
            "10.+1.*.*",
        ] {
            let error = LocalAddresses::parse(&format!("10.0.0.1|{entry}|10.0.0.2")).unwrap_err();
            assert!(error.starts_with("holds \""), "{entry}: {error}");
        }
        let many = vec!["10.0.0.1"; MAX_ENTRIES + 1].join("|");
        assert!(LocalAddresses::parse(&many).unwrap_err().contains("1024"));
    }
}
