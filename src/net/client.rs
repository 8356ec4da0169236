//! A small HTTP/1.1 client for commands: one request on one connection, and the caller waits.
//!
//! Everything is bounded: the time for the whole exchange, the head and the body of the answer. There is no TLS.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::http::{ChunkedBody, HttpError};

/// How long it may take until a connection stands, for each address of the host.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Addresses of a host that are tried.
const MAX_ADDRESSES: usize = 4;
/// Bytes of the head of an answer, and of all interim answers before it.
const HEAD_LIMIT: usize = 16 * 1024;
/// Headers of an answer.
const MAX_HEADERS: usize = 64;
/// Bytes of the body of an answer.
const BODY_LIMIT: usize = 4 * 1024 * 1024;
const READ_BYTES: usize = 16 * 1024;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name or address, an IPv6 address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Endpoint {
    /// Reads `http://host:port`, `host:port` or `host`, with or without a `/` at the end. The error says what is
    /// wrong.
    pub fn parse(text: &str, default_port: u16) -> Result<Endpoint, &'static str> {
        if text.starts_with("https://") {
            return Err("https is not supported; use http://, through a tunnel if need be");
        }
        let text = text.strip_prefix("http://").unwrap_or(text);
        let text = text.strip_suffix('/').unwrap_or(text);
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or("the ] behind the address is missing")?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => digits.parse().ok().filter(|port| *port > 0).ok_or("the port is not 1 to 65535")?,
            None if port.is_empty() => default_port,
            None => return Err("something other than a port follows the host"),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        if host.is_empty() || !host.chars().all(is_host) {
            return Err("it must look like http://host:port");
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

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// The body, free of transfer codings.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum ClientError {
    /// The name of the host is not known.
    UnknownHost(io::Error),
    /// No connection.
    Unreachable(io::Error),
    /// The connection broke.
    Broken(io::Error),
    /// The time is over.
    TimedOut(Duration),
    /// The answer is not HTTP/1.1 or breaks its rules.
    NotHttp(&'static str),
    /// The answer is longer than this client takes.
    TooLarge,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::UnknownHost(error) => write!(f, "the host is not known: {error}"),
            ClientError::Unreachable(error) => write!(f, "no connection: {error}"),
            ClientError::Broken(error) => write!(f, "the connection broke: {error}"),
            ClientError::TimedOut(limit) => write!(f, "no complete answer within {} s", limit.as_secs()),
            ClientError::NotHttp(reason) => write!(f, "the answer is not proper HTTP: {reason}"),
            ClientError::TooLarge => f.write_str("the answer is too long"),
        }
    }
}

impl std::error::Error for ClientError {}

/// Sends requests to one server.
#[derive(Clone, Debug)]
pub struct Client {
    endpoint: Endpoint,
    /// How long an exchange may take.
    time: Duration,
}

impl Client {
    /// A client that waits `time` for each answer.
    pub fn new(endpoint: Endpoint, time: Duration) -> Client {
        Client { endpoint, time }
    }

    /// The server.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends a GET for `target`, a path with its query in the form of the wire.
    pub fn get(&self, target: &str) -> Result<Answer, ClientError> {
        self.exchange(format!("GET {target} HTTP/1.1\r\n{}\r\n", self.common_headers()).into_bytes())
    }

    /// Sends a POST of JSON.
    pub fn post_json(&self, target: &str, body: &[u8]) -> Result<Answer, ClientError> {
        let (common, length) = (self.common_headers(), body.len());
        let mut request = format!(
            "POST {target} HTTP/1.1\r\n{common}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.exchange(request)
    }

    fn common_headers(&self) -> String {
        format!("Host: {}\r\nAccept: application/json\r\nConnection: close\r\n", self.endpoint)
    }

    fn exchange(&self, request: Vec<u8>) -> Result<Answer, ClientError> {
        let end = Instant::now() + self.time;
        let mut stream = connect(&self.endpoint)?;
        stream.set_write_timeout(Some(self.time)).map_err(ClientError::Broken)?;
        stream.write_all(&request).map_err(|error| self.broken(error))?;
        let mut reader = AnswerReader::default();
        let mut chunk = [0; READ_BYTES];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ClientError::TimedOut(self.time));
            }
            stream.set_read_timeout(Some(left)).map_err(ClientError::Broken)?;
            let count = match stream.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.map_err(|error| self.broken(error))?,
            };
            if let Some(answer) = reader.receive(chunk.get(..count).unwrap_or_default())? {
                return Ok(answer);
            }
        }
    }

    fn broken(&self, error: io::Error) -> ClientError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::TimedOut(self.time),
            _ => ClientError::Broken(error),
        }
    }
}

fn connect(endpoint: &Endpoint) -> Result<TcpStream, ClientError> {
    let addresses = (endpoint.host.as_str(), endpoint.port).to_socket_addrs().map_err(ClientError::UnknownHost)?;
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    for address in addresses.take(MAX_ADDRESSES) {
        let address: SocketAddr = address;
        match TcpStream::connect_timeout(&address, CONNECT_TIME) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(ClientError::Unreachable(failure))
}

/// Makes an answer out of received bytes.
#[derive(Default)]
struct AnswerReader {
    /// What has arrived behind the head, or all of it while the head is not complete.
    bytes: Vec<u8>,
    head: Option<Head>,
}

struct Head {
    status: u16,
    framing: Framing,
}

/// How the end of a body is found.
enum Framing {
    Length(usize),
    Chunked(ChunkedBody),
    UntilClosed,
}

impl AnswerReader {
    /// Takes what has arrived, nothing if the server has closed; the answer as soon as it is complete.
    fn receive(&mut self, received: &[u8]) -> Result<Option<Answer>, ClientError> {
        self.bytes.extend_from_slice(received);
        while self.head.is_none() {
            match parse_head(&self.bytes)? {
                None if received.is_empty() => return Err(ClientError::NotHttp("it ends early")),
                None => return Ok(None),
                // Interim answers announce another one.
                Some((length, head)) => {
                    self.bytes.drain(..length);
                    self.head = (head.status >= 200).then_some(head);
                }
            }
        }
        let complete = self.body_is_complete(received.is_empty())?;
        let answer = |head: &Head, body| Answer { status: head.status, body };
        Ok(self.head.as_ref().filter(|_| complete).map(|head| answer(head, std::mem::take(&mut self.bytes))))
    }

    fn body_is_complete(&mut self, closed: bool) -> Result<bool, ClientError> {
        let Some(head) = &mut self.head else { return Ok(false) };
        let complete = match &mut head.framing {
            Framing::Length(length) => {
                self.bytes.truncate(*length);
                self.bytes.len() == *length
            }
            Framing::Chunked(body) => {
                let used = body.advance(&mut self.bytes, BODY_LIMIT).map_err(in_chunks)?;
                self.bytes.drain(body.decoded..used);
                if body.is_done() {
                    self.bytes.truncate(body.decoded);
                }
                body.is_done()
            }
            Framing::UntilClosed if self.bytes.len() > BODY_LIMIT => return Err(ClientError::TooLarge),
            Framing::UntilClosed => closed,
        };
        match complete {
            false if closed => Err(ClientError::NotHttp("it ends early")),
            complete => Ok(complete),
        }
    }
}

fn in_chunks(error: HttpError) -> ClientError {
    match error {
        HttpError::BodyTooLarge | HttpError::HeadersTooLarge => ClientError::TooLarge,
        _ => ClientError::NotHttp("its chunks are malformed"),
    }
}

/// The head at the start of `bytes` and its length; `None` if it is not complete.
fn parse_head(bytes: &[u8]) -> Result<Option<(usize, Head)>, ClientError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_LIMIT => length,
        Ok(httparse::Status::Partial) if bytes.len() <= HEAD_LIMIT => return Ok(None),
        Err(error) if error != httparse::Error::TooManyHeaders => {
            return Err(ClientError::NotHttp("its head is malformed"));
        }
        _ => return Err(ClientError::TooLarge),
    };
    let status = response.code.unwrap_or_default();
    let framing = framing(status, response.headers)?;
    Ok(Some((length, Head { status, framing })))
}

/// How the body ends (RFC 9112 §6.3), for answers to GET and POST.
fn framing(status: u16, headers: &[httparse::Header<'_>]) -> Result<Framing, ClientError> {
    let values =
        |name: &'static str| headers.iter().filter(move |h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value);
    if values("Content-Encoding").any(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
        return Err(ClientError::NotHttp("it is compressed, which was not asked for"));
    }
    if status < 200 || status == 204 || status == 304 {
        return Ok(Framing::Length(0));
    }
    if let Some(coding) = values("Transfer-Encoding").next() {
        return match coding.trim_ascii().eq_ignore_ascii_case(b"chunked") {
            true => Ok(Framing::Chunked(ChunkedBody::new())),
            false => Err(ClientError::NotHttp("its transfer coding is not known")),
        };
    }
    let mut lengths = values("Content-Length").map(content_length);
    let Some(length) = lengths.next() else { return Ok(Framing::UntilClosed) };
    let length = length.filter(|first| lengths.all(|other| other == Some(*first)));
    match length.ok_or(ClientError::NotHttp("its length is no number"))? {
        length if length > BODY_LIMIT => Err(ClientError::TooLarge),
        length => Ok(Framing::Length(length)),
    }
}

/// The number, if it is one; what does not fit is over any limit, whatever it is.
fn content_length(value: &[u8]) -> Option<usize> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `text` in pieces of `size` bytes, then the end of the connection.
    fn read(text: &str, size: usize) -> Result<Option<Answer>, ClientError> {
        let mut reader = AnswerReader::default();
        for piece in text.as_bytes().chunks(size) {
            if let Some(answer) = reader.receive(piece)? {
                return Ok(Some(answer));
            }
        }
        reader.receive(b"")
    }

    #[test]
    fn every_framing_gives_the_body_whatever_the_pieces() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nA: b\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\nhello",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\nContent-Length: 5\r\n\r\nhello",
        ] {
            for size in [1, 2, 7, 1000] {
                let answer = read(text, size).unwrap().unwrap();
                assert_eq!((answer.status, answer.body.as_slice()), (200, b"hello".as_slice()), "{size} {text}");
            }
        }
        let empty = read("HTTP/1.1 204 No Content\r\n\r\n", 3).unwrap().unwrap();
        assert_eq!(empty, Answer { status: 204, body: Vec::new() });
    }

    #[test]
    fn what_is_not_an_answer_is_refused() {
        for text in [
            "",
            "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 4\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        ] {
            assert!(matches!(read(text, 4), Err(ClientError::NotHttp(_))), "{text}");
        }
    }

    #[test]
    fn heads_and_bodies_have_limits() {
        let long_head = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(HEAD_LIMIT));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(MAX_HEADERS + 1));
        let announced = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", BODY_LIMIT + 1);
        let huge = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n".to_owned();
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n".to_owned();
        let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "b".repeat(BODY_LIMIT + 1));
        for text in [long_head, many, announced, huge, chunked, endless] {
            assert!(matches!(read(&text, 4096), Err(ClientError::TooLarge)), "{:.60}", text);
        }
    }

    #[test]
    fn endpoints_are_read_in_their_usual_forms() {
        let parse = |text| Endpoint::parse(text, 7890).map(|endpoint| endpoint.to_string());
        assert_eq!(parse("http://127.0.0.1:8000/"), Ok("127.0.0.1:8000".to_owned()));
        assert_eq!(parse("node.example"), Ok("node.example:7890".to_owned()));
        assert_eq!(parse("http://[::1]"), Ok("[::1]:7890".to_owned()));
        assert_eq!(parse("[::1]:1"), Ok("[::1]:1".to_owned()));
        for text in ["", "https://a", "http://", "a:0", "a:65536", "a:b", "a/b", "[::1", "[::1]x", "a\r\nB: c", "a b"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
