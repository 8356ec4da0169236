//! Identity of a client for quotas.

use std::net::IpAddr;

use super::service::Client;
use crate::ip::network;

/// A client: this machine, an IPv4 address, or the network of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientKey {
    is_local: bool,
    address: IpAddr,
}

impl ClientKey {
    /// Returns the key of a client. IPv6 addresses are cut to `ipv6_prefix` bits.
    pub fn of(client: &Client, ipv6_prefix: u8) -> ClientKey {
        ClientKey { is_local: client.is_local(), address: network(client.address, 32, ipv6_prefix) }
    }

    /// Returns whether the client is 127.0.0.1 and its request was not forwarded.
    pub(super) fn is_exempt(&self) -> bool {
        self.is_local && self.address.is_ipv4()
    }

    /// Returns whether the client is 127.0.0.1 or `::1` and its request was not forwarded.
    pub fn is_local(&self) -> bool {
        self.is_local
    }
}

#[cfg(test)]
mod tests {
    use super::super::service::ListenerId;
    use super::*;

    fn key(address: &str, ipv6_prefix: u8, is_forwarded: bool) -> ClientKey {
        let client =
            Client { listener: ListenerId(0), address: address.parse().unwrap(), is_forwarded, is_unidentified: false };
        ClientKey::of(&client, ipv6_prefix)
    }

    #[test]
    fn an_ipv6_network_and_an_ipv4_address_are_one_client_each() {
        let of = |address| key(address, 64, false);
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        let both = |prefix| [key("::2", prefix, false), key("8000::", prefix, false)];
        assert!(both(0)[0] == both(0)[1] && both(1)[0] != both(1)[1]);
        assert!(both(128)[0] != both(128)[1] && both(200)[0] != both(0)[0]);
    }

    #[test]
    fn only_loopback_clients_that_are_not_forwarded_are_local() {
        for (address, is_local) in
            [("127.0.0.1", true), ("::ffff:127.0.0.1", true), ("::1", true), ("127.0.0.2", false), ("::2", false)]
        {
            assert_eq!(key(address, 64, false).is_local(), is_local, "{address}");
            assert!(!key(address, 64, true).is_local(), "{address}");
        }
    }
}
