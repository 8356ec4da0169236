//! A small HTTP client that sends given bytes unchanged.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::exchange::Exchange;

/// Maximum time for a response.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Size of the chunks of a chunked request.
const CHUNK_BYTES: usize = 50;

/// A response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// Returns all values of a header, in order.
    pub fn header_values(&self, name: &str) -> Vec<&str> {
        let found = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).collect()
    }

    /// Returns the methods of the second `Allow` header, sorted; none if there is only one.
    pub fn second_allow(&self) -> Vec<&str> {
        let values = self.header_values("Allow");
        let second = values.get(1).copied().unwrap_or_default();
        let mut methods: Vec<_> = second.split(',').map(str::trim).filter(|method| !method.is_empty()).collect();
        methods.sort_unstable();
        methods
    }

    /// Parses a whole response.
    pub fn parse(bytes: &[u8]) -> Option<HttpResponse> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.trim().to_owned()))
        };
        let headers = lines.map(header).collect::<Option<_>>()?;
        let mut response = HttpResponse { status, headers, body: bytes[end + 4..].to_vec() };
        if response.header_values("Transfer-Encoding") == ["chunked"] {
            response.body = unchunked(&response.body)?;
        }
        Some(response)
    }
}

fn unchunked(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|window| window == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).ok()?, 16).ok()?;
        let rest = &bytes[end + 2..];
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..length)?);
        bytes = rest.get(length + 2..)?;
    }
}

/// Sends the request of an exchange to a port of this machine.
pub fn send(exchange: &Exchange, port: u16) -> io::Result<HttpResponse> {
    let mut stream = connect(exchange.source, port)?;
    // A node may answer and close before it has read a request that is too long.
    let sent = stream.write_all(&request(exchange, port));
    let mut bytes = Vec::new();
    let received = stream.read_to_end(&mut bytes);
    match HttpResponse::parse(&bytes) {
        Some(response) => Ok(response),
        None => {
            sent?;
            received?;
            let shown = String::from_utf8_lossy(&bytes);
            Err(io::Error::new(io::ErrorKind::InvalidData, format!("not a response: {shown:?}")))
        }
    }
}

fn connect(source: Option<IpAddr>, port: u16) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    let target = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    socket.connect_timeout(&target.into(), TIMEOUT)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Returns the bytes of the request: `Host`, `Connection: close`, the recorded headers and the framing.
fn request(exchange: &Exchange, port: u16) -> Vec<u8> {
    let query = exchange.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
    let mut head = format!("{} {}{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n", exchange.method, exchange.path);
    head.push_str("Connection: close\r\n");
    for (name, value) in &exchange.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let is_chunked = exchange.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("Transfer-Encoding"));
    let sends_length = matches!(exchange.method.as_str(), "POST" | "PUT" | "PATCH");
    let length = exchange.body.as_ref().map(Vec::len).or(sends_length.then_some(0));
    if let (Some(length), false) = (length, is_chunked) {
        head.push_str(&format!("Content-Length: {length}\r\n"));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    let body = exchange.body.as_deref().unwrap_or_default();
    if !is_chunked {
        bytes.extend_from_slice(body);
        return bytes;
    }
    for chunk in body.chunks(CHUNK_BYTES) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}
