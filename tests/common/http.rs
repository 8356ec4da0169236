//! The HTTP client of the tests: a connection that is kept open and sends given bytes unchanged; and what servers of
//! tests need.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::{Domain, Socket, Type};

/// Maximum time for a response.
pub const MAX_WAIT: Duration = Duration::from_secs(20);
/// Maximum size of a request to a server of a test.
const REQUEST_LIMIT: usize = 8 << 20;

/// The files with the secrets of nodes, by the ports of the nodes.
static COOKIES: Mutex<BTreeMap<u16, PathBuf>> = Mutex::new(BTreeMap::new());

/// Has clients send a node the secret in a file.
pub fn set_cookie(node: SocketAddr, file: PathBuf) {
    COOKIES.lock().expect("no panic").insert(node.port(), file);
}

/// Returns the file with the secret of a node that was started.
pub fn cookie_file(node: SocketAddr) -> Option<PathBuf> {
    COOKIES.lock().expect("no panic").get(&node.port()).cloned()
}

/// Returns the header line with the secret of a node; empty if it has none.
pub fn authorization(node: SocketAddr) -> String {
    let cookie = cookie_file(node).and_then(|file| fs::read_to_string(file).ok());
    cookie.map_or(String::new(), |cookie| format!("Authorization: Bearer {cookie}\r\n"))
}

/// A response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// Returns all values of a header, in order.
    pub fn header_values(&self, name: &str) -> Vec<&str> {
        let found = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).collect()
    }

    /// Returns the first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.header_values(name).first().copied()
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

    /// Parses the bytes of a whole response.
    pub fn parse(bytes: &[u8]) -> Option<Response> {
        let (mut response, head) = Response::parse_head(bytes)?;
        response.body = bytes[head..].to_vec();
        if response.header_values("Transfer-Encoding") == ["chunked"] {
            response.body = unchunked(&response.body)?;
        }
        Some(response)
    }

    /// Parses the head of a response; returns its length, too.
    fn parse_head(bytes: &[u8]) -> Option<(Response, usize)> {
        let length = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let mut lines = std::str::from_utf8(&bytes[..length]).ok()?.trim_end().split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let header = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        Some((Response { status, headers: lines.map(header).collect::<Option<_>>()?, body: Vec::new() }, length))
    }
}

fn unchunked(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while let httparse::Status::Complete((start, size)) = httparse::parse_chunk_size(bytes).ok()? {
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(start..start + size as usize)?);
        bytes = bytes.get(start + size as usize + 2..)?;
    }
    None
}

/// A connection.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Client {
        Client::from_stream(TcpStream::connect_timeout(&address, MAX_WAIT).expect("the node takes connections"))
    }

    /// Connects from an address of this machine.
    pub fn connect_from(from: impl Into<IpAddr>, address: SocketAddr) -> io::Result<Client> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(from.into(), 0).into())?;
        socket.connect_timeout(&address.into(), MAX_WAIT)?;
        Ok(Client::from_stream(socket.into()))
    }

    /// Uses an existing connection.
    pub fn from_stream(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(MAX_WAIT)).expect("a time limit");
        stream.set_write_timeout(Some(MAX_WAIT)).expect("a time limit");
        stream.set_nodelay(true).expect("no delay");
        Client { stream, buffer: Vec::new() }
    }

    /// Returns the stream and the buffered bytes, for use after an upgrade.
    pub fn into_parts(self) -> (TcpStream, Vec<u8>) {
        (self.stream, self.buffer)
    }

    /// Returns the stream.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Sends bytes.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the node reads");
    }

    /// Sends bytes; fails if the node has closed the connection.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Reads the response to a request other than HEAD.
    #[track_caller]
    pub fn answer(&mut self) -> Response {
        self.try_answer().unwrap_or_else(|error| panic!("{error}, but {:?}", String::from_utf8_lossy(&self.buffer)))
    }

    /// Reads a response; fails if the node closes the connection, or sends nothing for too long.
    pub fn try_answer(&mut self) -> io::Result<Response> {
        let mut answer = self.try_head()?;
        if answer.header("Transfer-Encoding") == Some("chunked") {
            while self.try_chunk(&mut answer)? {}
        } else {
            let length = answer.header("Content-Length").map_or(0, |length| length.parse().expect("a length"));
            answer.body = self.bytes(length)?;
        }
        Ok(answer)
    }

    /// Reads the head of a response; this is all of it after a HEAD.
    #[track_caller]
    pub fn head(&mut self) -> Response {
        self.try_head().unwrap_or_else(|error| panic!("{error}, but {:?}", String::from_utf8_lossy(&self.buffer)))
    }

    fn try_head(&mut self) -> io::Result<Response> {
        loop {
            if let Some((response, length)) = Response::parse_head(&self.buffer) {
                self.buffer.drain(..length);
                return Ok(response);
            }
            self.receive_more()?;
        }
    }

    /// Reads the next chunk of a chunked response; returns whether more chunks follow.
    #[track_caller]
    pub fn chunk(&mut self, answer: &mut Response) -> bool {
        self.try_chunk(answer).expect("a chunk")
    }

    fn try_chunk(&mut self, answer: &mut Response) -> io::Result<bool> {
        let (start, size) = loop {
            match httparse::parse_chunk_size(&self.buffer).expect("the size of a chunk") {
                httparse::Status::Complete(found) => break found,
                httparse::Status::Partial => self.receive_more()?,
            }
        };
        self.buffer.drain(..start);
        answer.body.append(&mut self.bytes(size as usize)?);
        assert_eq!(self.bytes(2)?, b"\r\n");
        Ok(size > 0)
    }

    fn bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < length {
            self.receive_more()?;
        }
        let rest = self.buffer.split_off(length);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    fn receive_more(&mut self) -> io::Result<()> {
        if self.receive()? { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    /// Reads some bytes; returns `false` at the end of the stream.
    fn receive(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 16 * 1024];
        let count = self.stream.read(&mut chunk)?;
        self.buffer.extend_from_slice(&chunk[..count]);
        Ok(count > 0)
    }

    /// Waits until the node closes the connection; returns what it still sends.
    #[track_caller]
    pub fn expect_end(&mut self) -> String {
        while match self.receive() {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            received => received.expect("the end in time"),
        } {}
        String::from_utf8_lossy(&std::mem::take(&mut self.buffer)).into_owned()
    }

    /// Sends a request and reads the response.
    #[track_caller]
    pub fn request(&mut self, request: impl AsRef<[u8]>) -> Response {
        self.send(request);
        self.answer()
    }

    /// Sends a GET with the secret of the node, if it has one, and reads the response.
    #[track_caller]
    pub fn get(&mut self, target: &str) -> Response {
        self.request(get_with(target, &self.authorization()))
    }

    /// Sends a POST of JSON with the secret of the node, if it has one, and reads the response.
    #[track_caller]
    pub fn post(&mut self, target: &str, body: &str) -> Response {
        self.request(post_with(target, body, &self.authorization()))
    }

    /// Returns the header line with the secret of the node; empty if it has none.
    pub fn authorization(&self) -> String {
        self.stream.peer_addr().map_or(String::new(), authorization)
    }

    /// Requests the chain height.
    #[track_caller]
    pub fn height(&mut self) -> u64 {
        self.get("/chain/height").json()["height"].as_u64().expect("a height")
    }

    /// Waits until the chain has at least this height; returns the height.
    #[track_caller]
    pub fn wait_for_height(&mut self, height: u64) -> u64 {
        let begun = Instant::now();
        loop {
            let present = self.height();
            if present >= height {
                return present;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "height {height} is not reached, only {present}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Requests the block at a height.
    #[track_caller]
    pub fn block(&mut self, height: u64) -> Response {
        self.post("/block/at/public", &format!("{{\"height\":{height}}}"))
    }
}

/// Returns the bytes of a GET request.
pub fn get(target: &str) -> String {
    get_with(target, "")
}

/// Returns the bytes of a GET request with further header lines.
pub fn get_with(target: &str, headers: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
}

/// Returns the bytes of a POST request with JSON.
pub fn post(target: &str, body: &str) -> String {
    post_with(target, body, "")
}

/// Returns the bytes of a POST request with JSON and with further header lines.
pub fn post_with(target: &str, body: &str, headers: &str) -> String {
    let length = body.len();
    format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n\
         {headers}Content-Length: {length}\r\n\r\n{body}"
    )
}

/// Returns the bytes of a POST request with a binary body.
pub fn post_binary(target: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/binary\r\n\
         Accept: application/binary\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Returns the bytes of a response; `head` is its status with the reason, and may contain header lines.
pub fn response(head: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

/// A request that a server of a test has received.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub method: String,
    pub path: String,
    /// Request line and headers.
    pub head: String,
    pub body: Vec<u8>,
}

/// Reads the next request on a connection; `None` if the client has disconnected. `received` keeps the surplus bytes.
pub fn receive_request(stream: &mut impl Read, received: &mut Vec<u8>) -> io::Result<Option<ReceivedRequest>> {
    loop {
        if let Some(end) = received.windows(4).position(|end| end == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&received[..end]).into_owned();
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
            let whole = end + 4 + length.unwrap_or(0);
            if received.len() >= whole {
                let mut words = head.split(' ').map(str::to_owned);
                let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                let body = received[end + 4..whole].to_vec();
                received.drain(..whole);
                return Ok(Some(ReceivedRequest { method, path, head, body }));
            }
        }
        let mut chunk = [0; 16 << 10];
        let count = stream.read(&mut chunk)?;
        if count == 0 || received.len() > REQUEST_LIMIT {
            return Ok(None);
        }
        received.extend_from_slice(&chunk[..count]);
    }
}
