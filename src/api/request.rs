//! A request as the interface sees it, whatever transport it came by, and its query parameters
//! (specification 06 §1.3, §5).

use std::borrow::Cow;
use std::net::IpAddr;

use super::failure::Failure;
use crate::codec::text::repair_utf8;

/// The headers of a request; each transport has its own form of them.
pub trait Headers {
    /// The value of the first header with a name, in any letter case.
    fn header(&self, name: &str) -> Option<&str>;
}

/// One request.
pub struct Request<'a> {
    /// The method as sent.
    pub method: &'a str,
    /// The path as sent, without the query.
    pub path: &'a str,
    /// What follows the question mark, as sent.
    pub query: Option<&'a str>,
    /// The whole body.
    pub body: &'a [u8],
    /// Address of the client's end of the connection.
    pub peer: IpAddr,
    /// Its headers.
    pub headers: &'a dyn Headers,
}

impl<'a> Request<'a> {
    pub(super) fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.header(name)
    }

    /// Whether a browser asks what it may do before it does it.
    pub(super) fn is_preflight(&self) -> bool {
        self.method == "OPTIONS"
            && self.header("Origin").is_some()
            && self.header("Access-Control-Request-Method").is_some()
    }

    /// The value of a query parameter; several values are joined with commas. The first letter of the name may
    /// be sent in either case.
    pub(super) fn parameter(&self, name: &str) -> Result<Option<Cow<'a, str>>, Failure> {
        let mut value: Option<Cow<'a, str>> = None;
        for pair in self.query.unwrap_or_default().split('&') {
            let (key, text) = pair.split_once('=').unwrap_or((pair, ""));
            // The whole query must be well-formed, also where nobody looks.
            let (key, text) = (decode(key)?, decode(text)?);
            if !is_same_name(&key, name) {
                continue;
            }
            value = Some(match value {
                None => text,
                Some(earlier) => format!("{earlier},{text}").into(),
            });
        }
        Ok(value)
    }
}

fn is_same_name(sent: &str, name: &str) -> bool {
    match (sent.split_at_checked(1), name.split_at_checked(1)) {
        (Some((first, rest)), Some((wanted_first, wanted_rest))) => {
            first.eq_ignore_ascii_case(wanted_first) && rest == wanted_rest
        }
        _ => false,
    }
}

/// The text that a part of a query stands for.
fn decode(text: &str) -> Result<Cow<'_, str>, Failure> {
    if !text.bytes().any(|byte| byte == b'%' || byte == b'+') {
        return Ok(Cow::Borrowed(text));
    }
    let bytes = decode_percent(text, true).ok_or(Failure::internal("400: Unable to parse URI query"))?;
    Ok(Cow::Owned(repair_utf8(&bytes).into_owned()))
}

/// The bytes that a percent-encoded text stands for; `None` if an escape lacks its two digits.
pub(super) fn decode_percent(text: &str, plus_is_blank: bool) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => hex_digit(bytes.next()?)? << 4 | hex_digit(bytes.next()?)?,
            b'+' if plus_is_blank => b' ',
            other => other,
        });
    }
    Some(decoded)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NoHeaders;

    impl Headers for NoHeaders {
        fn header(&self, _: &str) -> Option<&str> {
            None
        }
    }

    fn parameter(query: Option<&str>, name: &str) -> Result<Option<String>, Failure> {
        let peer = IpAddr::from([127, 0, 0, 1]);
        let request = Request { method: "GET", path: "/", query, body: &[], peer, headers: &NoHeaders };
        Ok(request.parameter(name)?.map(Cow::into_owned))
    }

    #[test]
    fn parameters_are_found_decoded_and_joined() {
        for (query, value) in [
            (None, None),
            (Some(""), None),
            (Some("address"), Some("")),
            (Some("address="), Some("")),
            (Some("address=T"), Some("T")),
            (Some("x=1&Address=T&y"), Some("T")),
            (Some("ADDRESS=T"), None),
            (Some("address=A&address=B"), Some("A,B")),
            (Some("address=%20a+b%C3%A9=c"), Some(" a bé=c")),
            (Some("%61ddress=%ff"), Some("\u{fffd}")),
        ] {
            assert_eq!(parameter(query, "address").unwrap().as_deref(), value, "{query:?}");
        }
    }

    #[test]
    fn a_malformed_escape_anywhere_fails() {
        for query in ["address=%", "address=%z1", "address=T&x=%1", "%=1"] {
            let failure = parameter(Some(query), "address").unwrap_err();
            assert_eq!(failure, Failure::internal("400: Unable to parse URI query"), "{query}");
        }
    }
}
