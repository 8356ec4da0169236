//! A blocking HTTP/1.1 client for commands: one request per connection.
//!
//! The time of an exchange and the size of the response's head and body are limited. A stream of Server-Sent Events has
//! no end: it is read in pieces, and its reader limits the time; [`EventReader`] parses it (`text/event-stream`, as
//! WHATWG's HTML standard defines it). There is no TLS.

use std::collections::VecDeque;
use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};
use zeroize::Zeroizing;

use super::fetch::{CONNECT_TIME, Endpoint, FetchError, MAX_ATTEMPTS, Method, Response, ResponseReader, request_head};
use crate::local_cookie::LocalCookie;

/// Bytes of a response body.
const BODY_LIMIT: usize = 4 * 1024 * 1024;
/// Media type of requests and responses.
const JSON: &str = "application/json";
const READ_BYTES: usize = 16 * 1024;
/// Time between two looks at whether to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(500);
/// The empty line at the end of a head.
const END_OF_HEAD: &[u8] = b"\r\n";

/// Sends requests to one server.
#[derive(Clone, Debug)]
pub struct BlockingClient {
    /// The server.
    pub endpoint: Endpoint,
    /// Path in front of all targets, without `/` at its end.
    pub context: String,
    /// Timeout of an exchange, counted from its start. It does not cut short DNS and connecting.
    timeout: Duration,
    /// Sent to the node of this secret only.
    pub cookie: Option<LocalCookie>,
    /// When this is set, waiting for a response ends with an error.
    pub stop: Arc<AtomicBool>,
}

impl BlockingClient {
    /// Returns a client that waits `time` for each response.
    pub fn new(endpoint: Endpoint, time: Duration) -> BlockingClient {
        BlockingClient { endpoint, context: String::new(), timeout: time, cookie: None, stop: Arc::default() }
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
        self.send(method, target, &headers, body.unwrap_or_default())
    }

    /// Connects and sends a request. `headers` are complete lines in addition to the usual ones.
    fn send(&self, method: Method, target: &str, headers: &str, body: &[u8]) -> Result<ResponseStream, FetchError> {
        let target = format!("{}{target}", self.context);
        let mut head = request_head(&self.endpoint, method, &target, JSON, body.len(), false)?;
        head.truncate(head.len() - END_OF_HEAD.len());
        let mut stream = connect(&self.endpoint, self.cookie.as_ref().and_then(LocalCookie::address))?;
        let (own, server) =
            stream.local_addr().and_then(|own| Ok((own, stream.peer_addr()?))).map_err(FetchError::Broken)?;
        let authorization = self.cookie.as_ref().and_then(|cookie| cookie.authorization_for(own.ip(), server));
        let authorization = authorization.map(|value| Zeroizing::new(format!("Authorization: {}\r\n", value.as_str())));
        let authorization = authorization.as_ref().map_or("", |line| line.as_str());
        let request = Zeroizing::new([&head, headers.as_bytes(), authorization.as_bytes(), END_OF_HEAD, body].concat());
        stream.set_write_timeout(Some(self.timeout)).map_err(FetchError::Broken)?;
        stream.write_all(&request).map_err(|error| match error.kind() {
            WouldBlock | TimedOut => FetchError::TimedOut(self.timeout),
            _ => FetchError::Broken(error),
        })?;
        Ok(ResponseStream { stream, reader: ResponseReader::new(BODY_LIMIT) })
    }

    fn exchange(&self, method: Method, target: &str, body: &[u8]) -> Result<Response, FetchError> {
        let end = Instant::now() + self.timeout;
        let mut stream = self.send(method, target, "", body)?;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(FetchError::TimedOut(self.timeout));
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(FetchError::Broken(Interrupted.into()));
            }
            let Some(received) = stream.receive(left.min(STOP_INTERVAL))? else { continue };
            if received.is_empty() {
                return stream.reader.close();
            }
            if let Some(response) = stream.reader.receive(&received)? {
                return Ok(response);
            }
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
    /// Reads once, waiting for at most `time`. Returns the received bytes, none at the end of the connection; `None` if
    /// nothing has arrived, or a signal came.
    fn receive(&mut self, time: Duration) -> Result<Option<Vec<u8>>, FetchError> {
        self.stream.set_read_timeout(Some(time)).map_err(FetchError::Broken)?;
        let mut received = vec![0; READ_BYTES];
        match self.stream.read(&mut received) {
            Ok(count) => {
                received.truncate(count);
                Ok(Some(received))
            }
            Err(error) if matches!(error.kind(), Interrupted | WouldBlock | TimedOut) => Ok(None),
            Err(error) => Err(FetchError::Broken(error)),
        }
    }

    /// Waits for at most `time` for something to arrive, or until a signal comes.
    pub fn read(&mut self, time: Duration) -> Result<StreamPart, FetchError> {
        let Some(received) = self.receive(time)? else { return Ok(StreamPart::Nothing) };
        let complete = if !received.is_empty() {
            self.reader.receive(&received)?
        } else if self.reader.status() == Some(200) {
            // The server need not have completed the body.
            return Ok(StreamPart::End(self.reader.take_body()));
        } else {
            Some(self.reader.close()?)
        };
        Ok(match (self.reader.status(), complete) {
            (_, Some(response)) if response.status == 200 => StreamPart::End(response.body),
            (_, Some(response)) => StreamPart::Response(response),
            (Some(200), None) => StreamPart::Body(self.reader.take_body()),
            (_, None) => StreamPart::Body(Vec::new()),
        })
    }
}

/// Connects to a server; to one at `own`, an address of this machine, from the same address: only then both sides know that
/// they are on one machine. The system may choose another one of the same network.
fn connect(endpoint: &Endpoint, own: Option<IpAddr>) -> Result<TcpStream, FetchError> {
    let open = |address: SocketAddr| {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        if own == Some(address.ip()) {
            // Without the address, another machine may have it.
            let _ = socket.bind(&SocketAddr::new(address.ip(), 0).into());
        }
        socket.connect_timeout(&address.into(), CONNECT_TIME).map(|()| socket.into())
    };
    let addresses = (endpoint.host.as_str(), endpoint.port).to_socket_addrs();
    let addresses = addresses.map_err(|error| FetchError::UnknownHost(error.to_string()))?;
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    for address in addresses.take(MAX_ATTEMPTS) {
        match open(address) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(FetchError::Unreachable(failure))
}

/// Bytes of one event, all its lines together.
pub const MAX_EVENT_BYTES: usize = 4 * 1024 * 1024;
/// May stand at the start of a stream.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Name of an event that names none.
const DEFAULT_NAME: &str = "message";

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The last id so far, which resumes the stream behind this event; `None` if the stream has not told one.
    pub id: Option<String>,
    /// Name of the kind.
    pub name: String,
    /// The data; empty if the event only moves the id.
    pub data: String,
}

/// An event exceeds [`MAX_EVENT_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event has more than {MAX_EVENT_BYTES} bytes")]
pub struct EventTooLong;

/// Parses one stream, from its first byte on.
#[derive(Debug, Default)]
pub struct EventReader {
    /// The incomplete line.
    line: Vec<u8>,
    /// The last line ended with CR; an LF that follows belongs to it.
    after_cr: bool,
    /// A line has been read, so no byte order mark follows.
    has_begun: bool,
    /// The last id, which stays when an event has none of its own.
    id: Option<String>,
    /// The event that is being read has moved the id.
    has_id: bool,
    name: String,
    /// Data of the event that is being read, each line with LF at its end.
    data: String,
    /// Bytes of complete lines of the event that is being read.
    event_bytes: usize,
    events: VecDeque<Event>,
}

impl EventReader {
    /// Handles received bytes. Must not be called again after an error.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), EventTooLong> {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\r' | b'\n')) {
            if std::mem::take(&mut self.after_cr) && piece == b"\n" {
                continue;
            }
            let (text, end) =
                piece.split_at(piece.len() - usize::from(piece.ends_with(b"\r") || piece.ends_with(b"\n")));
            if self.event_bytes + self.line.len() + text.len() > MAX_EVENT_BYTES {
                return Err(EventTooLong);
            }
            self.line.extend_from_slice(text);
            if end.is_empty() {
                break;
            }
            self.after_cr = end == b"\r";
            let line = std::mem::take(&mut self.line);
            self.event_bytes += line.len();
            let is_first = !std::mem::replace(&mut self.has_begun, true);
            let mark = if is_first { BYTE_ORDER_MARK } else { b"" };
            self.handle_line(&String::from_utf8_lossy(line.strip_prefix(mark).unwrap_or(&line)));
        }
        Ok(())
    }

    /// Returns the next complete event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn handle_line(&mut self, line: &str) {
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => self.data.extend([value, "\n"]),
            "id" if !value.contains('\0') => {
                self.id = Some(value.to_owned()).filter(|id| !id.is_empty());
                self.has_id = true;
            }
            // A comment, the time between connections, or a field of a later standard.
            _ => {}
        }
    }

    fn end_event(&mut self) {
        self.event_bytes = 0;
        let (mut name, mut data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
        let has_data = data.pop().is_some();
        if std::mem::take(&mut self.has_id) || has_data {
            if name.is_empty() {
                DEFAULT_NAME.clone_into(&mut name);
            }
            self.events.push_back(Event { id: self.id.clone(), name, data });
        }
    }
}

#[cfg(test)]
mod event_tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a stream in pieces of `size` bytes; returns each event as `id/name/data`.
    fn read(bytes: &[u8], size: usize) -> Vec<String> {
        let mut reader = EventReader::default();
        bytes.chunks(size).for_each(|piece| reader.receive(piece).unwrap());
        let text = |event: Event| format!("{}/{}/{}", event.id.unwrap_or_default(), event.name, event.data);
        std::iter::from_fn(|| reader.next_event()).map(text).collect()
    }

    #[test]
    fn events_are_the_same_wherever_the_bytes_are_cut_and_however_lines_end() {
        let text = "retry: 3000\n\n: hello\n\nid: 1.2.ab\nevent: transaction\ndata: {\"a\":1}\n\n:\n\n\
                    event:undone\ndata:{é}\n\nid: 7\n\ndata\n\nid\ndata: x\n\n";
        let expected = ["1.2.ab/transaction/{\"a\":1}", "1.2.ab/undone/{é}", "7/message/", "7/message/", "/message/x"];
        for end in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', end);
            for size in [1, 2, 3, 5, 64, 1000] {
                assert_eq!(read(text.as_bytes(), size), expected, "{size} {end:?}");
            }
        }
    }

    #[test]
    fn data_of_several_lines_is_joined() {
        assert_eq!(read(b"data: a\ndata:  b\ndata\ndata: c\n\n", 4), ["/message/a\n b\n\nc"]);
    }

    #[test]
    fn a_byte_order_mark_is_ignored_at_the_start_only() {
        let text = "\u{feff}data: a\n\n\u{feff}data: b\n\ndata: c\n\n";
        for size in [1, 2, 100] {
            assert_eq!(read(text.as_bytes(), size), ["/message/a", "/message/c"]);
        }
        assert_eq!(read("\u{feff}\ndata: a\n\n".as_bytes(), 1), ["/message/a"]);
    }

    #[test]
    fn an_event_without_an_empty_line_behind_it_is_not_complete() {
        assert!(read(b"id: 1\nevent: block\ndata: {}\n", 100).is_empty());
        assert!(read(b"event: block\n\n: comment\n\n\n", 1).is_empty());
        assert_eq!(read(b"event: block\n\ndata: x\n\n", 1), ["/message/x"], "a name is that of one event");
    }

    #[test]
    fn an_id_with_a_nul_is_ignored_and_bytes_that_are_not_text_are_replaced() {
        assert_eq!(read(b"id: a\nid: b\0c\ndata: \xff\n\n", 3), ["a/message/\u{fffd}"]);
    }

    #[test]
    fn an_event_has_a_limit_and_a_stream_has_none() {
        let line = [b"data: ".as_slice(), &[b'a'; 1000], b"\n"].concat();
        let lines = MAX_EVENT_BYTES / (line.len() - 1);
        let mut reader = EventReader::default();
        for _ in 0..2 {
            (0..lines).for_each(|_| reader.receive(&line).unwrap());
            reader.receive(b"\n").unwrap();
            assert!(reader.next_event().is_some());
        }
        (0..lines).for_each(|_| reader.receive(&line).unwrap());
        assert_eq!(reader.receive(&line), Err(EventTooLong));
        let mut reader = EventReader::default();
        let piece = [b':'; 4096];
        (0..MAX_EVENT_BYTES / 4096).for_each(|_| reader.receive(&piece).unwrap());
        assert_eq!(reader.receive(b":"), Err(EventTooLong));
    }

    proptest! {
        #[test]
        fn events_of_noise_do_not_depend_on_how_it_is_cut(
            noise in prop::collection::vec(
                prop_oneof![
                    any::<Vec<u8>>(),
                    Just(b"data: x".to_vec()),
                    Just(b"id: 5".to_vec()),
                    Just(b"\r".to_vec()),
                    Just(b"\n".to_vec()),
                    Just("\u{feff}".as_bytes().to_vec()),
                ],
                0..20,
            ),
            size in 1..9usize,
        ) {
            let bytes = noise.concat();
            prop_assert_eq!(read(&bytes, size), read(&bytes, usize::MAX));
        }
    }
}
