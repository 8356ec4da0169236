//! A blocking HTTP/1.1 client for commands: one request per connection.
//!
//! The time of the exchange and the size of the response's head and body are limited. There is no TLS.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::fetch::{Endpoint, FetchError, Method, Response, ResponseReader, request_head};

/// Connect timeout for each address of the host.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Addresses of a host to try.
const MAX_ADDRESSES: usize = 4;
/// Bytes of a response body.
const BODY_LIMIT: usize = 4 * 1024 * 1024;
/// Media type of requests and responses.
const JSON: &str = "application/json";
const READ_BYTES: usize = 16 * 1024;

/// Sends requests to one server.
#[derive(Clone, Debug)]
pub struct BlockingClient {
    endpoint: Endpoint,
    /// Timeout of an exchange, counted from its start. It does not cut short DNS and connecting.
    timeout: Duration,
}

impl BlockingClient {
    /// Returns a client that waits `time` for each response.
    pub fn new(endpoint: Endpoint, time: Duration) -> BlockingClient {
        BlockingClient { endpoint, timeout: time }
    }

    /// Returns the server.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends a GET for `target`, an encoded path with its query.
    pub fn get(&self, target: &str) -> Result<Response, FetchError> {
        self.exchange(Method::Get, target, &[])
    }

    /// Sends a POST of JSON.
    pub fn post_json(&self, target: &str, body: &[u8]) -> Result<Response, FetchError> {
        self.exchange(Method::Post, target, body)
    }

    fn exchange(&self, method: Method, target: &str, body: &[u8]) -> Result<Response, FetchError> {
        let end = Instant::now() + self.timeout;
        let mut request = request_head(&self.endpoint, method, target, JSON, body.len(), false)?;
        request.extend_from_slice(body);
        let mut stream = connect(&self.endpoint)?;
        stream.set_write_timeout(Some(self.timeout)).map_err(FetchError::Broken)?;
        stream.write_all(&request).map_err(|error| self.broken(error))?;
        let mut reader = ResponseReader::new(BODY_LIMIT);
        let mut chunk = [0; READ_BYTES];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(FetchError::TimedOut(self.timeout));
            }
            stream.set_read_timeout(Some(left)).map_err(FetchError::Broken)?;
            let received = match stream.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => chunk.get(..result.map_err(|error| self.broken(error))?).unwrap_or_default(),
            };
            if received.is_empty() {
                return reader.close();
            }
            if let Some(complete) = reader.receive(received)? {
                return Ok(complete.response);
            }
        }
    }

    fn broken(&self, error: io::Error) -> FetchError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => FetchError::TimedOut(self.timeout),
            _ => FetchError::Broken(error),
        }
    }
}

fn connect(endpoint: &Endpoint) -> Result<TcpStream, FetchError> {
    let addresses = (endpoint.host.as_str(), endpoint.port).to_socket_addrs();
    let addresses = addresses.map_err(|error| FetchError::UnknownHost(error.to_string()))?;
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    for address in addresses.take(MAX_ADDRESSES) {
        let address: SocketAddr = address;
        match TcpStream::connect_timeout(&address, CONNECT_TIME) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(FetchError::Unreachable(failure))
}
