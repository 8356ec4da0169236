//! Access log: one line per answered request.
//!
//! ```text
//! 127.0.0.1 GET /chain/height 200 0.031 ms 17 bytes
//! ```
//!
//! At level `trace` the query and the headers are logged too. Secrets are never logged: no bodies, no query values that
//! could be private keys, no authentication headers.

use std::fmt;
use std::time::Duration;

use super::http::Request;
use super::service::Client;

/// Bytes logged of a text chosen by a client.
const MAX_TEXT_BYTES: usize = 256;
/// Hexadecimal digits of the shortest private key.
const KEY_DIGITS: usize = 60;
/// Parameters whose values are long but public numbers.
const PUBLIC_PARAMETERS: [&str; 2] = ["publicKey", "hash"];
/// Headers whose values are not logged.
const SECRET_HEADERS: [&str; 3] = ["Authorization", "Proxy-Authorization", "Cookie"];

/// A request and its outcome.
pub(super) struct AccessLogEntry<'a> {
    pub request: &'a Request<'a>,
    pub client: Client,
    pub status: u16,
    /// Bytes of the response, head included.
    pub bytes: usize,
    /// Time since the request began, if it arrived in several reads, or else since it was complete; for a streaming
    /// request, since it was last resumed.
    pub took: Duration,
}

impl AccessLogEntry<'_> {
    /// Writes the log lines, if their levels are enabled.
    pub fn log(&self) {
        if log::log_enabled!(log::Level::Debug) {
            log::debug!("{self}");
        }
        if log::log_enabled!(log::Level::Trace) {
            log::trace!("{}", Details(self.request));
        }
    }
}

impl fmt::Display for AccessLogEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AccessLogEntry { request, client, status, bytes, took } = self;
        let took = took.as_secs_f64() * 1e3;
        let (method, path) = (Escaped(request.method.as_bytes()), Escaped(request.path.as_bytes()));
        write!(f, "{} {method} {path} {status} {took:.3} ms {bytes} bytes", client.address)
    }
}

/// Path, query and headers of a request.
struct Details<'a>(&'a Request<'a>);

impl fmt::Display for Details<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Escaped(self.0.path.as_bytes()))?;
        let parameters = self.0.query.into_iter().flat_map(|query| query.split('&'));
        for (index, parameter) in parameters.enumerate() {
            f.write_str(if index == 0 { "?" } else { "&" })?;
            match is_loggable(parameter) {
                true => write!(f, "{}", Escaped(parameter.as_bytes()))?,
                false => f.write_str("(redacted)")?,
            }
        }
        for (name, value) in self.0.headers() {
            let is_secret = SECRET_HEADERS.iter().any(|secret| name.eq_ignore_ascii_case(secret.as_bytes()));
            let value = if is_secret { b"(redacted)".as_slice() } else { value };
            write!(f, ", {}: {}", Escaped(name), Escaped(value))?;
        }
        Ok(())
    }
}

/// Returns whether a query parameter contains nothing that could be a private key.
fn is_loggable(parameter: &str) -> bool {
    let (name, value) = parameter.split_once('=').unwrap_or(("", parameter));
    PUBLIC_PARAMETERS.contains(&name) || !has_long_number(value)
}

/// Returns whether a text contains as many hexadecimal digits in a row as a private key.
fn has_long_number(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_hexdigit()).any(|digits| digits.len() >= KEY_DIGITS)
}

/// A text chosen by a client, escaped to one line and truncated.
struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0[..self.0.len().min(MAX_TEXT_BYTES)];
        write!(f, "{}", text.escape_ascii())?;
        if text.len() < self.0.len() { f.write_str("...") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(query: Option<&'a str>, header_lines: &'a [u8]) -> Request<'a> {
        Request {
            method: "GET",
            path: "/a",
            query,
            body: b"",
            keep_alive: true,
            is_http_10: false,
            route: 0,
            header_lines,
        }
    }

    #[test]
    fn possible_private_keys_are_redacted() {
        let key = "5".repeat(64);
        let query = format!("publicKey={key}&key={key}&id=5&{key}&x=%20{}", "a".repeat(60));
        let text = Details(&request(Some(&query), b"")).to_string();
        assert_eq!(text, format!("/a?publicKey={key}&(redacted)&id=5&(redacted)&(redacted)"));
    }

    #[test]
    fn credential_headers_are_redacted() {
        let text = Details(&request(None, b"Host: a\r\ncookie: secret\r\nauthorization:secret\r\n")).to_string();
        assert_eq!(text, "/a, Host: a, cookie: (redacted), authorization: (redacted)");
    }

    #[test]
    fn a_text_stays_on_its_line_and_is_truncated() {
        assert_eq!(Escaped(b"a\n\x1b[2K\xff").to_string(), r"a\n\x1b[2K\xff");
        assert_eq!(Escaped(&[b'a'; 300]).to_string(), format!("{}...", "a".repeat(256)));
    }
}
