//! A blocking HTTP/1.1 client for commands: one request per connection.
//!
//! The time of an exchange and the size of the response's head and body are limited. A stream of Server-Sent Events has
//! no end: it is read in pieces, and its reader limits the time. There is no TLS.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::fetch::{Endpoint, FetchError, Method, Response, ResponseReader, request_head};
use crate::local_cookie::LocalCookie;

/// Connect timeout for each address of the host.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Addresses of a host to try.
const MAX_ADDRESSES: usize = 4;
/// Bytes of a response body.
const BODY_LIMIT: usize = 4 * 1024 * 1024;
/// Media type of requests and responses.
const JSON: &str = "application/json";
const READ_BYTES: usize = 16 * 1024;
/// The empty line at the end of a head.
const END_OF_HEAD: &[u8] = b"\r\n";

/// Sends requests to one server.
#[derive(Clone, Debug)]
pub struct BlockingClient {
    endpoint: Endpoint,
    /// Timeout of an exchange, counted from its start. It does not cut short DNS and connecting.
    timeout: Duration,
    /// Sent to the node of this secret only.
    pub cookie: Option<LocalCookie>,
}

impl BlockingClient {
    /// Returns a client that waits `time` for each response.
    pub fn new(endpoint: Endpoint, time: Duration) -> BlockingClient {
        BlockingClient { endpoint, timeout: time, cookie: None }
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

    /// Opens a stream of Server-Sent Events with a POST of JSON, or with a GET if there is no body. It resumes after the
    /// event with the given id.
    pub fn open_stream(
        &self,
        target: &str,
        body: Option<&[u8]>,
        last_event_id: Option<&str>,
    ) -> Result<ResponseStream, FetchError> {
        let method = if body.is_some() { Method::Post } else { Method::Get };
        // The answer is JSON if it is an error.
        let mut headers = "Accept: text/event-stream\r\nCache-Control: no-cache\r\n".to_owned();
        if let Some(id) = last_event_id {
            if !id.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(FetchError::BadTarget);
            }
            headers += &format!("Last-Event-ID: {id}\r\n");
        }
        let stream = self.send(method, target, &headers, body.unwrap_or_default())?;
        Ok(ResponseStream { stream, reader: ResponseReader::new(BODY_LIMIT) })
    }

    /// Connects and sends a request. `headers` are complete lines in addition to the usual ones.
    fn send(&self, method: Method, target: &str, headers: &str, body: &[u8]) -> Result<TcpStream, FetchError> {
        let mut head = request_head(&self.endpoint, method, target, JSON, body.len(), false)?;
        head.truncate(head.len() - END_OF_HEAD.len());
        let mut stream = connect(&self.endpoint)?;
        let server = stream.peer_addr().map_err(FetchError::Broken)?;
        let authorization = self.cookie.as_ref().and_then(|cookie| cookie.authorization_for(server));
        let authorization = authorization.map(|value| Zeroizing::new(format!("Authorization: {}\r\n", value.as_str())));
        let authorization = authorization.as_ref().map_or("", |line| line.as_str());
        let request = Zeroizing::new([&head, headers.as_bytes(), authorization.as_bytes(), END_OF_HEAD, body].concat());
        stream.set_write_timeout(Some(self.timeout)).map_err(FetchError::Broken)?;
        stream.write_all(&request).map_err(|error| self.broken(error))?;
        Ok(stream)
    }

    fn exchange(&self, method: Method, target: &str, body: &[u8]) -> Result<Response, FetchError> {
        let end = Instant::now() + self.timeout;
        let mut stream = self.send(method, target, "", body)?;
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

/// The response to [`BlockingClient::open_stream`].
pub struct ResponseStream {
    stream: TcpStream,
    reader: ResponseReader,
}

/// What arrived of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamPart {
    /// Nothing in this time.
    Nothing,
    /// Bytes of the body of a response with status 200; none if only its head or a part of its transfer coding arrived.
    Body(Vec<u8>),
    /// A complete response with another status.
    Response(Response),
    /// Status 200, and the rest of a body that has ended.
    End(Vec<u8>),
}

impl ResponseStream {
    /// Waits for at most `time` for something to arrive, or until a signal comes.
    pub fn read(&mut self, time: Duration) -> Result<StreamPart, FetchError> {
        self.stream.set_read_timeout(Some(time)).map_err(FetchError::Broken)?;
        let mut chunk = [0; READ_BYTES];
        let received = match self.stream.read(&mut chunk) {
            Ok(count) => chunk.get(..count).unwrap_or_default(),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    return Ok(StreamPart::Nothing);
                }
                _ => return Err(FetchError::Broken(error)),
            },
        };
        let complete = match received.is_empty() {
            // The server need not have completed the body.
            true if self.reader.status() == Some(200) => return Ok(StreamPart::End(self.reader.take_body())),
            true => Some(self.reader.close()?),
            false => self.reader.receive(received)?.map(|complete| complete.response),
        };
        Ok(match (self.reader.status(), complete) {
            (_, Some(response)) if response.status == 200 => StreamPart::End(response.body),
            (_, Some(response)) => StreamPart::Response(response),
            (Some(200), None) => StreamPart::Body(self.reader.take_body()),
            (_, None) => StreamPart::Body(Vec::new()),
        })
    }
}

fn connect(endpoint: &Endpoint) -> Result<TcpStream, FetchError> {
    let addresses = (endpoint.host.as_str(), endpoint.port).to_socket_addrs();
    let addresses = addresses.map_err(|error| FetchError::UnknownHost(error.to_string()))?;
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    for address in addresses.take(MAX_ADDRESSES) {
        match TcpStream::connect_timeout(&address, CONNECT_TIME) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(FetchError::Unreachable(failure))
}
