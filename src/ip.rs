//! Grouping of IP addresses.

use std::net::IpAddr;

use ipnet::IpNet;

/// Returns the network address of an address: its first `ipv4_bits` or `ipv6_bits` bits, then zeros. An IPv4-mapped
/// IPv6 address counts as IPv4.
pub fn network(address: IpAddr, ipv4_bits: u8, ipv6_bits: u8) -> IpAddr {
    let address = address.to_canonical();
    let bits = if address.is_ipv4() { ipv4_bits.min(32) } else { ipv6_bits.min(128) };
    IpNet::new(address, bits).map_or(address, |network| network.network())
}

/// Returns the network that one organisation typically has: a /24 of IPv4 or a /48 of IPv6.
pub fn site(address: IpAddr) -> IpAddr {
    network(address, 24, 48)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_a_network_of_256_addresses_or_of_65536_networks() {
        let of = |text: &str| site(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:ffff::1"));
        assert_ne!(of("2001:db8:1::1"), of("2001:db8:2::1"));
        assert_eq!(of("::ffff:10.1.2.3"), of("10.1.2.250"));
        assert_ne!(of("10.1.2.3"), of("10.1.3.3"));
    }

    #[test]
    fn a_network_has_as_many_bits_as_an_address_at_most() {
        let of = |bits| network("::1".parse().unwrap(), 32, bits).to_string();
        assert_eq!([0, 127, 128, 200].map(of), ["::", "::", "::1", "::1"]);
        assert_eq!(network("10.1.2.3".parse().unwrap(), 33, 0).to_string(), "10.1.2.3");
    }
}
