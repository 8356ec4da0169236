//! Encoder of requests to other servers.

use super::{Endpoint, FetchError, Method};

/// Value of `User-Agent`.
const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

/// Parts of a request head. Its headers are those of NIS1 nodes, in their order.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The server.
    pub endpoint: &'a Endpoint,
    /// The method.
    pub method: Method,
    /// Encoded path and query.
    pub target: &'a str,
    /// Media type of the body and of the wanted response.
    pub media_type: &'a str,
    /// Asks the server to keep the connection open.
    pub keep_alive: bool,
}

impl RequestHead<'_> {
    /// Encodes the head of a request with a body of `body_length` bytes. Fails if the target contains characters that
    /// would break it.
    pub fn to_bytes(self, body_length: usize) -> Result<Vec<u8>, FetchError> {
        let RequestHead { endpoint, method, target, media_type, keep_alive: is_kept } = self;
        if !target.starts_with('/') || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(FetchError::BadTarget);
        }
        let name = match method {
            Method::Get => "GET",
            Method::Post => "POST",
        };
        let mut head = format!("{name} {target} HTTP/1.1\r\nAccept: {media_type}\r\n");
        if method == Method::Post {
            head.push_str(&format!("Content-Length: {body_length}\r\nContent-Type: {media_type}\r\n"));
        }
        let connection = if is_kept { "Keep-Alive" } else { "close" };
        head.push_str(&format!("Host: {endpoint}\r\nConnection: {connection}\r\nUser-Agent: {USER_AGENT}\r\n\r\n"));
        Ok(head.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_cannot_add_headers() {
        let endpoint = Endpoint { host: "::1".to_owned(), port: 7890 };
        let head = |method, target, is_kept| {
            let media_type = "application/json";
            RequestHead { endpoint: &endpoint, method, target, media_type, keep_alive: is_kept }.to_bytes(5)
        };
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(
            text(head(Method::Get, "/a?b=%20", true).unwrap()),
            format!(
                "GET /a?b=%20 HTTP/1.1\r\nAccept: application/json\r\nHost: [::1]:7890\r\nConnection: Keep-Alive\r\n\
                 User-Agent: {USER_AGENT}\r\n\r\n"
            )
        );
        assert_eq!(
            text(head(Method::Post, "/", false).unwrap()),
            format!(
                "POST / HTTP/1.1\r\nAccept: application/json\r\nContent-Length: 5\r\n\
                 Content-Type: application/json\r\nHost: [::1]:7890\r\nConnection: close\r\n\
                 User-Agent: {USER_AGENT}\r\n\r\n"
            )
        );
        for target in ["", "a", "/a b", "/a\r\nX: y", "/\u{e9}", "http://a/"] {
            assert!(matches!(head(Method::Get, target, true), Err(FetchError::BadTarget)), "{target}");
        }
    }
}
