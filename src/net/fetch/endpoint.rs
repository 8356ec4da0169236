//! Address of a server.

use std::fmt;
use std::net::IpAddr;

/// Host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// Name or address; an IPv6 address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Endpoint {
    /// Parses `http://host:port`, `host:port` or `host`, with or without a final `/`. The error describes the fault.
    pub fn parse(text: &str, default_port: u16) -> Result<Endpoint, &'static str> {
        if text.starts_with("https://") {
            return Err("https is not supported; use http://, if necessary through a tunnel");
        }
        let text = text.strip_prefix("http://").unwrap_or(text);
        let text = text.strip_suffix('/').unwrap_or(text);
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or("the ] after the address is missing")?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => digits.parse().ok().filter(|port| *port > 0).ok_or("the port is not from 1 to 65535")?,
            None if port.is_empty() => default_port,
            None => return Err("the text after the host is not a port"),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        if host.is_empty() || !host.chars().all(is_host) {
            return Err("it must look like http://host:port");
        }
        if host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified()) {
            return Err("this is an address to listen on, not to connect to; this machine is 127.0.0.1 or [::1]");
        }
        Ok(Endpoint { host: host.to_owned(), port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_in_their_usual_forms() {
        let parse = |text| Endpoint::parse(text, 7890).map(|endpoint| endpoint.to_string());
        assert_eq!(parse("http://127.0.0.1:8000/"), Ok("127.0.0.1:8000".to_owned()));
        assert_eq!(parse("node.example"), Ok("node.example:7890".to_owned()));
        assert_eq!(parse("http://[::1]"), Ok("[::1]:7890".to_owned()));
        assert_eq!(parse("[::1]:1"), Ok("[::1]:1".to_owned()));
        for text in [
            "",
            "https://a",
            "http://",
            "a:0",
            "a:65536",
            "a:b",
            "a/b",
            "[::1",
            "[::1]x",
            "a\r\nB: c",
            "a b",
            "[::]:1",
            "0.0.0.0",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
