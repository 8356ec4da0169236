//! Network endpoints of nodes.

use std::fmt;
use std::net::IpAddr;

use crate::codec::text::truncate_utf16;
use crate::codec::{Decoder, Encoder, ReadError, Readable, Writable, limits};

/// Default port of a node's HTTP interface.
pub const DEFAULT_PORT: u16 = 7890;
/// Protocols that NIS1 accepts in a URL.
const PROTOCOLS: [&str; 5] = ["http", "https", "ftp", "file", "jar"];
const MAX_HOST_LENGTH: usize = 253;

/// Network endpoint of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// Protocol; `http` for every node that can be reached.
    pub protocol: &'static str,
    /// Host name or IP address; IPv6 usually in brackets.
    pub host: String,
    /// Port of the HTTP interface. Peers may report any number from -1 on, including invalid ones.
    pub port: i32,
}

/// Error in an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadEndpoint {
    /// The protocol is unknown, or the port is below -1.
    Url,
    /// The host is neither an address nor a name.
    Host,
}

impl fmt::Display for BadEndpoint {
    /// NIS1's messages, which other nodes see.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadEndpoint::Url => "url is malformed",
            BadEndpoint::Host => "host is unknown",
        })
    }
}

impl std::error::Error for BadEndpoint {}

impl From<BadEndpoint> for ReadError {
    fn from(error: BadEndpoint) -> ReadError {
        ReadError::Internal(error.to_string())
    }
}

impl Endpoint {
    /// Creates an endpoint for plain HTTP.
    pub fn http(host: impl Into<String>, port: u16) -> Endpoint {
        Endpoint { protocol: "http", host: host.into(), port: port.into() }
    }

    /// Checks the form. Names are not resolved, which would take long.
    pub fn checked(protocol: &str, host: String, port: i32) -> Result<Endpoint, BadEndpoint> {
        let protocol = PROTOCOLS.into_iter().find(|known| *known == protocol).filter(|_| port >= -1);
        let protocol = protocol.ok_or(BadEndpoint::Url)?;
        if may_be_host(&host) { Ok(Endpoint { protocol, host, port }) } else { Err(BadEndpoint::Host) }
    }

    /// Parses `HOST`, `HOST:PORT` or `http://HOST:PORT`; IPv6 with a port needs brackets. The error tells what is
    /// wrong.
    pub fn parse(text: &str) -> Result<Endpoint, &'static str> {
        let text = text.strip_prefix("http://").unwrap_or(text);
        let text = text.strip_suffix('/').unwrap_or(text);
        let is_bare_ipv6 = text.matches(':').count() > 1 && !text.starts_with('[');
        let (host, port) = match text.rfind(':') {
            Some(colon) if !is_bare_ipv6 && !text.ends_with(']') => (&text[..colon], Some(&text[colon + 1..])),
            _ => (text, None),
        };
        let host = if is_bare_ipv6 { format!("[{host}]") } else { host.to_owned() };
        let port = port.map_or(Ok(DEFAULT_PORT), |digits| digits.parse().map_err(|_| ()));
        let port = port.ok().filter(|port| *port > 0).ok_or("has a port that is not 1 to 65535")?;
        Endpoint::checked("http", host, port.into()).map_err(|_| "must look like HOST, HOST:PORT or [IPV6]:PORT")
    }

    /// Returns the IP address, if the host is not a name.
    pub fn address(&self) -> Option<IpAddr> {
        self.bare_host().parse().ok()
    }

    /// Returns host and port for a connection, IPv6 without brackets; `None` if the endpoint cannot be reached.
    pub fn to_connect(&self) -> Option<(&str, u16)> {
        let port = u16::try_from(self.port).ok().filter(|port| *port > 0)?;
        (self.protocol == "http").then_some((self.bare_host(), port))
    }

    fn bare_host(&self) -> &str {
        bare(&self.host)
    }
}

/// Removes the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(host)
}

/// Returns whether a text is a valid IP address or host name.
fn may_be_host(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    bare(text).parse::<IpAddr>().is_ok() || (name.len() <= MAX_HOST_LENGTH && name.split('.').all(is_label))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.protocol, self.host, self.port)
    }
}

impl Writable for Endpoint {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("protocol", Some(self.protocol));
        sink.string("host", Some(&truncate_utf16(&self.host, limits::MAX_TEXT_UTF16)));
        sink.i32("port", self.port);
    }
}

impl Readable for Endpoint {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Ok(Endpoint::read_unchecked(source)??)
    }
}

impl Endpoint {
    /// Decodes an endpoint; the inner error is an invalid endpoint, the outer one a malformed message.
    pub(super) fn read_unchecked<'a, S: Decoder<'a>>(source: &mut S) -> Result<Result<Self, BadEndpoint>, ReadError> {
        let protocol = source.need_string("protocol", limits::MAX_TEXT_UTF16)?;
        let host = source.need_string("host", limits::MAX_TEXT_UTF16)?.into_owned();
        Ok(Endpoint::checked(&protocol, host, source.need_i32("port")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_in_common_spellings() {
        let parse = |text| Endpoint::parse(text).map(|endpoint| endpoint.to_string());
        for (text, url) in [
            ("node.example", "http://node.example:7890"),
            ("node.example:80", "http://node.example:80"),
            ("http://10.0.0.1:7895/", "http://10.0.0.1:7895"),
            ("[::1]:80", "http://[::1]:80"),
            ("[::1]", "http://[::1]:7890"),
            ("2001:db8::1", "http://[2001:db8::1]:7890"),
        ] {
            assert_eq!(parse(text), Ok(url.to_owned()), "{text}");
        }
        for text in
            ["", ":80", "a:0", "a:65536", "a:", "a:b", "a/b", "a b", "https://a", "[::1", "[::1]x", "[::1]:", "a@b"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_connection_needs_http_and_a_port_that_exists() {
        let endpoint = |protocol, host: &str, port| Endpoint::checked(protocol, host.to_owned(), port).unwrap();
        assert_eq!(endpoint("http", "[::1]", 7890).to_connect(), Some(("::1", 7890)));
        assert_eq!(endpoint("http", "a.b", 65_535).to_connect(), Some(("a.b", 65_535)));
        for (protocol, port) in [("https", 7890), ("ftp", 21), ("http", -1), ("http", 0), ("http", 65_536)] {
            assert_eq!(endpoint(protocol, "a", port).to_connect(), None, "{protocol} {port}");
        }
        assert_eq!(endpoint("http", "[::1]", 1).address(), Some("::1".parse().unwrap()));
        assert_eq!(endpoint("http", "a.b", 1).address(), None);
    }

    #[test]
    fn malformed_endpoints_are_rejected() {
        let checked = |protocol, host: &str, port| Endpoint::checked(protocol, host.to_owned(), port);
        assert_eq!(checked("gopher", "a", 1), Err(BadEndpoint::Url));
        assert_eq!(checked("http", "a", -2), Err(BadEndpoint::Url));
        for host in ["", "a..b", "a b", "ä", "[::1", "a/b", &"a.".repeat(200)] {
            assert_eq!(checked("http", host, 1), Err(BadEndpoint::Host), "{host}");
        }
    }
}
