//! A small HTTP client that keeps its connection open and sends given bytes unchanged.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Maximum time for a response.
pub const MAX_WAIT: Duration = Duration::from_secs(20);

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl ClientResponse {
    /// Returns the first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.as_str())
    }

    /// Returns the body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    /// Returns the body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// A connection.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect_timeout(&address, MAX_WAIT).expect("the node takes connections");
        Client::from_stream(stream)
    }

    /// Uses an existing connection.
    pub fn from_stream(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(MAX_WAIT)).expect("a time limit");
        stream.set_write_timeout(Some(MAX_WAIT)).expect("a time limit");
        stream.set_nodelay(true).expect("no delay");
        Client { stream, buffer: Vec::new() }
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the node reads");
    }

    /// Reads the response to a request other than HEAD.
    #[track_caller]
    pub fn answer(&mut self) -> ClientResponse {
        let mut answer = self.head();
        if answer.header("Transfer-Encoding") == Some("chunked") {
            while self.chunk(&mut answer) {}
        } else {
            let length = answer.header("Content-Length").map_or(0, |length| length.parse().expect("a length"));
            answer.body = self.bytes(length);
        }
        answer
    }

    /// Reads the next chunk of a chunked response; returns whether more chunks follow.
    #[track_caller]
    pub fn chunk(&mut self, answer: &mut ClientResponse) -> bool {
        let (start, size) = loop {
            match httparse::parse_chunk_size(&self.buffer).expect("the size of a chunk") {
                httparse::Status::Complete(found) => break found,
                httparse::Status::Partial => assert!(self.receive(), "the body ends early"),
            }
        };
        self.buffer.drain(..start);
        answer.body.append(&mut self.bytes(size as usize));
        assert_eq!(self.bytes(2), b"\r\n");
        size > 0
    }

    /// Reads `length` bytes.
    #[track_caller]
    fn bytes(&mut self, length: usize) -> Vec<u8> {
        while self.buffer.len() < length {
            assert!(self.receive(), "the body ends early");
        }
        self.buffer.drain(..length).collect()
    }

    /// Reads the head of a response; this is all of it after a HEAD.
    #[track_caller]
    pub fn head(&mut self) -> ClientResponse {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            assert!(self.receive(), "no answer, but {:?}", String::from_utf8_lossy(&self.buffer));
        };
        let head = String::from_utf8(self.buffer.drain(..end + 4).collect()).expect("the head is text");
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().expect("a status line");
        let status = status.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).expect("HTTP/1.1 and a status");
        let pair = |line: &str| {
            let (name, value) = line.split_once(": ").expect("a header");
            (name.to_owned(), value.to_owned())
        };
        ClientResponse {
            status: status.parse().expect("a status"),
            headers: lines.map(pair).collect(),
            body: Vec::new(),
        }
    }

    /// Waits until the node closes the connection; discards what it still sends.
    pub fn expect_end(&mut self) {
        while self.receive() {}
    }

    /// Reads some bytes; returns `false` at the end of the stream.
    #[track_caller]
    fn receive(&mut self) -> bool {
        let mut chunk = [0; 16 * 1024];
        let count = self.stream.read(&mut chunk).expect("bytes in time");
        self.buffer.extend_from_slice(&chunk[..count]);
        count > 0
    }

    /// Returns the stream and the buffered bytes, for use after an upgrade.
    pub fn into_parts(self) -> (TcpStream, Vec<u8>) {
        (self.stream, self.buffer)
    }

    /// Sends a GET and reads the response.
    #[track_caller]
    pub fn get(&mut self, target: &str) -> ClientResponse {
        self.send(get(target));
        self.answer()
    }

    /// Sends a POST of JSON and reads the response.
    #[track_caller]
    pub fn post(&mut self, target: &str, body: &str) -> ClientResponse {
        self.send(post(target, body));
        self.answer()
    }

    /// Requests the chain height.
    #[track_caller]
    pub fn height(&mut self) -> u64 {
        self.get("/chain/height").json()["height"].as_u64().expect("a height")
    }

    /// Requests the block at a height.
    #[track_caller]
    pub fn block(&mut self, height: u64) -> ClientResponse {
        self.post("/block/at/public", &format!("{{\"height\":{height}}}"))
    }
}

/// Returns the bytes of a GET request.
pub fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// Returns the bytes of a POST request with JSON.
pub fn post(target: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}
