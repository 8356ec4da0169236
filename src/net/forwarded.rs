//! The client of a request that a proxy forwards.
//!
//! Each proxy appends an address to `X-Forwarded-For` or `Forwarded` (RFC 7239). Only trusted proxies are believed, so
//! the list is read from its end, as long as it names trusted proxies. Other proxy headers only show that a request was
//! forwarded.

use std::net::{IpAddr, SocketAddr};

use crate::net::http::Request;
use crate::net::limits::IsTrustedProxy;
use crate::net::service::{Client, ListenerId};
use crate::quota::Owner;

/// Addresses read, from the end of the list.
const MAX_HOPS: usize = 16;

/// The trusted proxies.
pub(super) struct TrustedProxies(pub IsTrustedProxy);

impl TrustedProxies {
    /// Returns whether an address is that of a trusted proxy.
    pub fn is_trusted(&self, address: IpAddr) -> bool {
        (self.0)(address)
    }

    /// Returns the client of a request received by `listener` from `peer`; not yet whether it is local.
    pub fn client(&self, request: &Request<'_>, listener: ListenerId, peer: IpAddr) -> Client {
        let is_proxy = self.is_trusted(peer);
        let named = if is_proxy { self.last_untrusted(request) } else { None };
        let (is_forwarded, address) = (is_proxy || has_proxy_header(request), named.unwrap_or(peer));
        Client { listener, address, is_forwarded, is_unidentified: is_forwarded && named.is_none(), is_local: false }
    }

    /// Returns the last address of the list that is no trusted proxy, or the first of the list if all are. Text that is
    /// no address ends the list, because what precedes it cannot be trusted.
    fn last_untrusted(&self, request: &Request<'_>) -> Option<IpAddr> {
        let mut named: Vec<&str> =
            request.header_values("X-Forwarded-For").flat_map(|value| value.split(',')).collect();
        if named.is_empty() {
            let elements = request.header_values("Forwarded").flat_map(|value| value.split(','));
            named = elements.filter_map(forwarded_for).collect();
        }
        let mut last = None;
        for text in named.iter().rev().take(MAX_HOPS) {
            let Some(address) = address(text) else { break };
            last = Some(address);
            if !(self.0)(address) {
                break;
            }
        }
        last
    }
}

/// Returns whether a request has a header that proxies add.
pub fn has_proxy_header(request: &Request<'_>) -> bool {
    request.headers().any(|(name, _)| is_proxy_header(name))
}

/// Returns whether proxies add this header.
fn is_proxy_header(name: &[u8]) -> bool {
    const FAMILY: &[u8] = b"x-forwarded-";
    let is_of_family = || name.get(..FAMILY.len()).is_some_and(|start| start.eq_ignore_ascii_case(FAMILY));
    let names: [&[u8]; 3] = [b"forwarded", b"via", b"x-real-ip"];
    names.iter().any(|header| name.eq_ignore_ascii_case(header)) || is_of_family()
}

/// Returns the value of `for` in an element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<&str> {
    element.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then_some(value)
    })
}

/// Parses an address with or without port, brackets and quotes.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

impl Owner {
    /// Returns the owner for a client.
    pub fn of(client: &Client) -> Owner {
        match client.is_local {
            true => Owner::local(client.address),
            false => Owner::at(client.address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::http::RequestReader;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn client_of(headers: &str, peer: &str) -> (String, bool) {
        let client = whole(headers, peer);
        (client.address.to_string(), client.is_forwarded)
    }

    fn whole(headers: &str, peer: &str) -> Client {
        let trust = TrustedProxies(Box::new(|address| [ip("127.0.0.1"), ip("10.0.0.9")].contains(&address)));
        let mut reader = RequestReader::new(0);
        reader.receive(format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n").as_bytes());
        trust.client(&reader.next_request().unwrap().unwrap(), ListenerId(0), ip(peer))
    }

    #[test]
    fn trusted_proxies_name_the_client() {
        for (headers, address) in [
            ("X-Forwarded-For: 1.2.3.4\r\n", "1.2.3.4"),
            ("X-Forwarded-For: 6.6.6.6, 1.2.3.4\r\n", "1.2.3.4"),
            ("X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 1.2.3.4, 10.0.0.9\r\n", "1.2.3.4"),
            ("X-Forwarded-For: 10.0.0.9, 127.0.0.1\r\n", "10.0.0.9"),
            ("X-Forwarded-For: 1.2.3.4:5678\r\n", "1.2.3.4"),
            ("X-Forwarded-For: 2001:db8::1\r\n", "2001:db8::1"),
            ("X-Forwarded-For: ::ffff:1.2.3.4\r\n", "1.2.3.4"),
            ("Forwarded: for=6.6.6.6, for=1.2.3.4;proto=http\r\n", "1.2.3.4"),
            ("Forwarded: proto=http;For=\"[2001:db8::1]:80\"\r\n", "2001:db8::1"),
            ("X-Forwarded-For: 1.2.3.4, unknown\r\n", "127.0.0.1"),
            ("Forwarded: for=_hidden\r\n", "127.0.0.1"),
            ("Forwarded: by=1.2.3.4\r\n", "127.0.0.1"),
            ("X-Forwarded-For:\r\n", "127.0.0.1"),
        ] {
            assert_eq!(client_of(headers, "127.0.0.1"), (address.to_owned(), true), "{headers}");
        }
    }

    #[test]
    fn a_forwarded_client_is_identified_only_by_a_trusted_proxy() {
        for (headers, peer, is_unnamed) in [
            // A trusted proxy that names no client.
            ("", "127.0.0.1", true),
            ("", "8.8.8.8", false),
            ("X-Forwarded-For: 1.2.3.4\r\n", "127.0.0.1", false),
            ("X-Forwarded-For: 10.0.0.9\r\n", "127.0.0.1", false),
            ("X-Forwarded-For: unknown\r\n", "127.0.0.1", true),
            ("Forwarded: by=1.2.3.4\r\n", "10.0.0.9", true),
            ("X-Forwarded-For: 1.2.3.4\r\n", "::1", true),
            ("X-Forwarded-For: 1.2.3.4\r\n", "10.0.0.8", true),
            ("forwarded: for=127.0.0.1\r\n", "8.8.8.8", true),
            // Forwarded without the address of the client.
            ("X-Real-IP: 1.2.3.4\r\n", "127.0.0.1", true),
            ("via: 1.1 proxy\r\n", "127.0.0.1", true),
            ("X-Forwarded-Host: a\r\n", "127.0.0.1", true),
            ("x-forwarded-PROTO: https\r\n", "8.8.8.8", true),
            ("X-Forwarded-Proto: https\r\nX-Forwarded-For: 1.2.3.4\r\n", "127.0.0.1", false),
            ("Viable: 1\r\nX-Forwarded: 1\r\n", "8.8.8.8", false),
        ] {
            assert_eq!(whole(headers, peer).is_unidentified, is_unnamed, "{headers} {peer}");
        }
    }

    #[test]
    fn untrusted_forwarding_headers_remove_local_access_but_name_no_client() {
        assert_eq!(client_of("X-Forwarded-For: 127.0.0.1\r\n", "8.8.8.8"), ("8.8.8.8".to_owned(), true));
        assert_eq!(client_of("forwarded: for=1.2.3.4\r\n", "::1"), ("::1".to_owned(), true));
        assert_eq!(client_of("", "::1"), ("::1".to_owned(), false));
        assert_eq!(client_of("", "127.0.0.1"), ("127.0.0.1".to_owned(), true), "a trusted proxy");
    }
}

#[cfg(test)]
mod client_key_tests {
    use super::super::service::ListenerId;
    use super::*;

    fn of(address: &str) -> Owner {
        Owner::of(&Client::direct(ListenerId(0), address.parse().unwrap()))
    }

    #[test]
    fn an_ipv6_network_and_an_ipv4_address_are_one_client_each() {
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }

    #[test]
    fn an_address_alone_is_not_this_machine() {
        let client = Client::direct(ListenerId(0), "127.0.0.1".parse().unwrap());
        assert!(!Owner::of(&client).is_local());
        assert!(Owner::of(&Client { is_local: true, ..client }).is_local());
    }
}
