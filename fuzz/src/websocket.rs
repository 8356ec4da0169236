//! Fuzz target: the websocket handshake and frames.

use std::io::{self, Cursor, Read, Write};

use nisd::model::Timestamp;
use nisd::net::http::{RequestReader, Response};
use nisd::net::service::{Client, ConnectionId, Exchange, ListenerId};
use nisd::net::websocket::{
    MESSAGE_LIMIT, WsConnection, WsEnd, WsEvent, handshake, negotiate_subprotocol, write_text_head,
};
use nisd::websocket_api::http::{SUBPROTOCOLS, answer};
use tungstenite::protocol::{Message, Role, WebSocket};

use crate::pieces::{MAX_PIECE, Pieces};

/// Maximum bytes of a frame header.
const FRAME_HEADER: usize = 14;

/// An event of a connection.
#[derive(Debug, PartialEq)]
enum Event {
    Handshake { status: u16, accept: Option<String> },
    Text(String),
    Binary(Vec<u8>),
    Closed { code: u16, reason: String, by_client: bool },
}

/// A stream that starts with `GET ` is a handshake and what follows, any other one is frames only. Checks that events
/// and output are the same however the stream is split. Every text is echoed. Another client implementation reads the
/// output, and must receive the echoes, and the close frame if there is one.
pub fn check(data: &[u8]) -> usize {
    let pieces = Pieces::of(data);
    let with_handshake = pieces.bytes.starts_with(b"GET ");
    let (expected, answered) = Server::new(with_handshake).run(std::iter::once(pieces.bytes));
    let cut = Server::new(with_handshake).run(pieces.iter());
    assert_eq!(cut, (expected, answered.clone()), "the way a stream is cut must not matter");
    check_answer(&cut.0, answered);
    cut.0.len()
}

/// The server's side of one connection.
struct Server {
    reader: Option<RequestReader>,
    websocket: WsConnection,
    events: Vec<Event>,
    out: Vec<u8>,
}

impl Server {
    fn new(with_handshake: bool) -> Server {
        Server {
            reader: with_handshake.then(|| RequestReader::new(64)),
            websocket: WsConnection::default(),
            events: Vec::new(),
            out: Vec::new(),
        }
    }

    fn run<'a>(mut self, pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Event>, Vec<u8>) {
        let mut storage = Vec::with_capacity(1024);
        for piece in pieces {
            let Some(mut reader) = self.reader.take() else {
                self.frames(piece, &mut storage);
                continue;
            };
            reader.receive(piece);
            match self.requests(&mut reader) {
                Stream::Http => self.reader = Some(reader),
                Stream::Websocket => self.frames(reader.buffer.unread(), &mut storage),
                Stream::Over => break,
            }
        }
        (self.events, self.out)
    }

    /// Answers requests until one upgrades the connection.
    fn requests(&mut self, reader: &mut RequestReader) -> Stream {
        loop {
            let request = match reader.next_request() {
                Ok(Some(request)) => request,
                Ok(None) => return Stream::Http,
                Err(_) => return Stream::Over,
            };
            let mut decision = Response::new();
            let is_upgraded = handshake(&request, &mut decision);
            let offers: Vec<&str> = request.header_values("Sec-WebSocket-Protocol").collect();
            if let Some(agreed) = negotiate_subprotocol(offers.iter().copied(), &SUBPROTOCOLS) {
                assert!(offers.iter().any(|offer| offer.contains(agreed)));
            }
            let mut page = Response::new();
            let caller = Client::direct(ListenerId(0), [10, 0, 0, 1].into());
            let (connection, reply) = (ConnectionId(1), &mut page);
            let mut exchange = Exchange {
                connection,
                client: caller,
                request: &request,
                response: reply,
                is_resumed: false,
                is_rate_limited: false,
            };
            let _ = answer(&mut exchange, Timestamp(1), -1);
            check_page(&page);
            let Response { status, upgrade: accept, .. } = decision;
            match &accept {
                Some(accept) => assert_eq!(accept.len(), 28, "base64 of SHA-1"),
                None => assert!(status >= 400),
            }
            self.events.push(Event::Handshake { status, accept });
            if is_upgraded {
                reader.finish_request();
                return Stream::Websocket;
            }
        }
    }

    fn frames(&mut self, bytes: &[u8], storage: &mut Vec<u8>) {
        self.websocket.buffer.acquire(storage);
        self.websocket.receive(bytes);
        while let Some(event) = self.websocket.next_event(&mut self.out) {
            self.events.push(match event {
                WsEvent::Message { data, is_text: false } => Event::Binary(data.to_vec()),
                WsEvent::Message { data, is_text: true } => {
                    Event::Text(String::from_utf8(data.to_vec()).expect("a text is valid UTF-8"))
                }
                WsEvent::Closed(WsEnd { code, reason, by_client }) => {
                    Event::Closed { code, reason: reason.into_owned(), by_client }
                }
            });
            if let Some(Event::Text(text)) = self.events.last() {
                write_text_head(text.len(), &mut self.out);
                self.out.extend_from_slice(text.as_bytes());
            }
        }
        self.websocket.release(storage);
        // Both buffers grow by doubling, the one for fragments at most to twice its limit.
        let most = 2 * (MESSAGE_LIMIT + FRAME_HEADER + bytes.len().max(MAX_PIECE)) + 2 * MESSAGE_LIMIT;
        assert!(self.websocket.held_bytes() <= most);
        if matches!(self.events.last(), Some(Event::Closed { .. })) {
            assert_eq!(self.websocket.held_bytes(), 0, "a closed websocket holds nothing");
        }
    }
}

/// The protocol of the following bytes.
enum Stream {
    Http,
    Websocket,
    Over,
}

/// Checks that no response header can be mistaken for two.
fn check_page(page: &Response) {
    for (name, value) in &page.headers {
        assert!(!value.contains(['\r', '\n', '\0']), "{name}: {value:?}");
    }
}

/// Reads the frames that the server wrote.
fn check_answer(events: &[Event], answered: Vec<u8>) {
    let mut client = WebSocket::from_raw_socket(Wire(Cursor::new(answered)), Role::Client, None);
    let mut expected = events.iter().filter(|event| matches!(event, Event::Text(_) | Event::Closed { .. }));
    loop {
        match client.read() {
            Ok(Message::Pong(payload)) => assert!(payload.len() <= 125),
            Ok(Message::Text(text)) => {
                assert_eq!(expected.next(), Some(&Event::Text(text.as_str().to_owned())));
            }
            Ok(Message::Close(frame)) => {
                let told = frame.as_ref().map_or(1005, |frame| u16::from(frame.code));
                let Some(Event::Closed { code, reason, by_client }) = expected.next() else {
                    panic!("a close frame that nobody heard of");
                };
                assert_eq!(told, *code);
                let text = frame.as_ref().map_or("", |frame| frame.reason.as_str());
                assert!(if *by_client { text == reason } else { reason.starts_with(text) });
            }
            Ok(other) => panic!("{other:?} was not to be sent"),
            Err(tungstenite::Error::Io(_) | tungstenite::Error::ConnectionClosed) => break,
            Err(tungstenite::Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake)) => break,
            Err(error) => panic!("the answer is not understood: {error}"),
        }
    }
    assert_eq!(expected.next(), None, "every echo and the close frame arrive");
    let wire = client.get_ref();
    assert_eq!(wire.0.position(), wire.0.get_ref().len() as u64, "the answer ends with a frame");
}

/// Returns what the server wrote, and discards what the client writes.
struct Wire(Cursor<Vec<u8>>);

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
