//! Ranges of IP addresses, as operators write them.

use std::net::IpAddr;

use ipnet::IpNet;

use super::problem::quoted;

/// Maximum entries of a list; a longer one is rejected.
const MAX_ENTRIES: usize = 1024;

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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &str) -> Result<AddressRanges, String> {
        AddressRanges::parse(list.split('|').filter(|entry| !entry.is_empty()))
    }

    #[test]
    fn an_address_is_in_the_ranges_with_its_prefix() {
        let ranges = parse("127.0.0.1|10.1.0.0/16|2001:db8::/32|::ffff:9.9.9.9").unwrap();
        for address in ["127.0.0.1", "::ffff:127.0.0.1", "10.1.255.7", "2001:db8:ffff::1", "9.9.9.9"] {
            assert!(ranges.contains(address.parse().unwrap()), "{address}");
        }
        for address in ["127.0.0.2", "10.2.0.0", "2001:db9::", "::1"] {
            assert!(!ranges.contains(address.parse().unwrap()), "{address}");
        }
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn an_invalid_range_is_named_in_the_error() {
        for entry in ["10.0.0.0/33", "10.0.0/8", "proxy.example", "10.0.*.*", "::/129", "1.2.3.4/", "/8"] {
            let error = parse(&format!("10.0.0.1|{entry}")).unwrap_err();
            assert!(error.starts_with(&format!("holds {entry:?}")), "{error}");
        }
        assert!(parse(&vec!["10.0.0.1"; MAX_ENTRIES + 1].join("|")).unwrap_err().contains("1024"));
    }
}
