//! A websocket client that exposes every frame as sent, and the STOMP frames inside.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::http::{Client, MAX_WAIT, get_with};

pub const CONTINUATION: u8 = 0;
pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
pub const PONG: u8 = 10;

/// Path of the raw websocket endpoint.
pub const PATH: &str = "/w/messages/websocket";
/// The headers of a valid upgrade; the key is that of RFC 6455.
const UPGRADE: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                           Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n";
/// The accept value that the server derives from that key.
pub const ACCEPT: &str = "BACScCJPNqyz+UBoqMH89VmURoA=";

/// An arbitrary mask; the server must undo any.
const MASK: [u8; 4] = [0x5a, 0x00, 0xff, 0x13];

/// Returns the request for a websocket.
pub fn upgrade_request() -> String {
    get_with(PATH, UPGRADE)
}

/// A websocket frame from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub opcode: u8,
    pub payload: Vec<u8>,
}

/// What a wait for bytes brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    Bytes,
    /// Nothing came in time.
    Nothing,
    /// The node has closed the connection.
    End,
}

/// A websocket.
pub struct Socket {
    stream: TcpStream,
    /// Bytes that are not read yet.
    pub buffer: Vec<u8>,
}

impl Socket {
    /// Connects and upgrades.
    #[track_caller]
    pub fn open(address: SocketAddr) -> Socket {
        let mut client = Client::connect(address);
        client.send(upgrade_request());
        let answer = client.head();
        assert_eq!(answer.status, 101, "{answer:?}");
        assert_eq!(answer.header("Sec-WebSocket-Accept"), Some(ACCEPT));
        assert_eq!(answer.header("Sec-WebSocket-Extensions"), None);
        Socket::from_parts(client.into_parts())
    }

    /// Opens a session without a version.
    #[track_caller]
    pub fn connected(address: SocketAddr) -> Socket {
        let mut socket = Socket::open(address);
        socket.text("CONNECT\n\n\0");
        assert_eq!(socket.next_text(), "CONNECTED\nheart-beat:0,0\n\n\0");
        socket
    }

    /// Continues a connection after its upgrade, with the bytes received after the response.
    pub fn from_parts((stream, buffer): (TcpStream, Vec<u8>)) -> Socket {
        Socket { stream, buffer }
    }

    /// Sends a frame.
    pub fn frame(&mut self, last: bool, opcode: u8, payload: &[u8]) {
        self.raw(&encode(last, opcode, payload)).expect("the node reads");
    }

    /// Sends bytes that need not form a frame; fails if the node has closed the connection.
    pub fn raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends a text message.
    pub fn text(&mut self, text: &str) {
        self.frame(true, TEXT, text.as_bytes());
    }

    /// Reads the next frame and checks that it breaks no rule for servers.
    #[track_caller]
    pub fn next(&mut self) -> Frame {
        self.next_within(MAX_WAIT).expect("a frame in time")
    }

    /// Reads the next frame, if one arrives in time.
    #[track_caller]
    pub fn next_within(&mut self, limit: Duration) -> Option<Frame> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some((frame, length)) = decode(&self.buffer) {
                self.buffer.drain(..length);
                return Some(frame);
            }
            match self.receive(deadline) {
                Received::Bytes => {}
                Received::Nothing => return None,
                Received::End => panic!("the connection ended without a close frame"),
            }
        }
    }

    /// Reads some bytes into the buffer.
    pub fn receive(&mut self, deadline: Instant) -> Received {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Received::Nothing;
        }
        self.stream.set_read_timeout(Some(left)).expect("a time limit");
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(count) if count > 0 => {
                self.buffer.extend_from_slice(&chunk[..count]);
                Received::Bytes
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Received::Nothing,
            Ok(_) | Err(_) => Received::End,
        }
    }

    /// Reads the next text message.
    #[track_caller]
    pub fn next_text(&mut self) -> String {
        let frame = self.next();
        assert_eq!(frame.opcode, TEXT, "{frame:?}");
        String::from_utf8(frame.payload).expect("a text message is text")
    }

    /// Reads the next STOMP frame.
    #[track_caller]
    pub fn next_stomp(&mut self) -> Stomp {
        Stomp::parse(&self.next_text())
    }

    /// Checks that the server closes with this code, answers, and waits for the end. Returns the reason.
    #[track_caller]
    pub fn expect_close(&mut self, code: u16) -> String {
        let frame = self.next();
        assert_eq!(frame.opcode, CLOSE, "{frame:?}");
        assert_eq!(frame.payload.get(..2), Some(&code.to_be_bytes()[..]), "{frame:?}");
        // The node may already have disconnected.
        let _ = self.raw(&[0x88, 0x80, 0, 0, 0, 0]);
        self.expect_end();
        String::from_utf8(frame.payload[2..].to_vec()).expect("a reason is text")
    }

    /// Waits until the node closes the connection.
    #[track_caller]
    pub fn expect_end(&mut self) {
        let deadline = Instant::now() + MAX_WAIT;
        let end = std::iter::repeat_with(|| self.receive(deadline)).find(|received| *received != Received::Bytes);
        assert_eq!(end, Some(Received::End), "the connection does not end");
    }

    /// Subscribes and waits for the receipt.
    #[track_caller]
    pub fn subscribe(&mut self, id: &str, destination: &str) {
        self.text(&format!("SUBSCRIBE\nid:{id}\ndestination:{destination}\nreceipt:r-{id}\n\n\0"));
        let receipt = format!("RECEIPT\nreceipt-id:r-{id}\n\n\0");
        for _ in 0..1000 {
            // Messages of earlier subscriptions may come first.
            if self.next_text() == receipt {
                return;
            }
        }
        panic!("no receipt for {destination}");
    }
}

/// Encodes a frame of a client.
pub fn encode(last: bool, opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![u8::from(last) << 7 | opcode];
    match payload.len() {
        length @ 0..126 => bytes.push(0x80 | length as u8),
        length @ 126..0x1_0000 => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// Decodes the first frame in `bytes` and its length, if it is complete.
pub fn decode(bytes: &[u8]) -> Option<(Frame, usize)> {
    let (&[first, second], rest) = bytes.split_first_chunk()?;
    assert_eq!(first & 0xf0, 0x80, "a fragment or a reserved bit");
    assert_eq!(second & 0x80, 0, "a server does not mask");
    let (length, head) = match second {
        126 => (u16::from_be_bytes(*rest.first_chunk()?) as usize, 4),
        127 => (u64::from_be_bytes(*rest.first_chunk()?) as usize, 10),
        length => (usize::from(length), 2),
    };
    let payload = bytes.get(head..head + length)?.to_vec();
    Some((Frame { opcode: first & 0x0f, payload }, head + length))
}

/// A STOMP frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stomp {
    pub command: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Stomp {
    /// Parses a frame that is one whole websocket message.
    #[track_caller]
    pub fn parse(text: &str) -> Stomp {
        let (head, rest) = text.split_once("\n\n").unwrap_or_else(|| panic!("not a frame: {text:?}"));
        let body = rest.strip_suffix('\0').unwrap_or_else(|| panic!("no NUL at the end: {text:?}"));
        assert!(!head.contains('\r') && !body.contains('\0'), "{text:?}");
        let mut lines = head.split('\n');
        let command = lines.next().expect("a command").to_owned();
        let pair = |line: &str| {
            let (name, value) = line.split_once(':').expect("a header");
            (name.to_owned(), value.to_owned())
        };
        Stomp { command, headers: lines.map(pair).collect(), body: body.to_owned() }
    }

    /// Returns the value of a header.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// Checks that this is a MESSAGE with exactly the required headers, and returns its body without the line end.
    #[track_caller]
    pub fn message(&self, destination: &str, subscription: &str) -> &str {
        assert_eq!(self.command, "MESSAGE", "{self:?}");
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["destination", "subscription", "message-id", "content-length"]);
        assert_eq!(self.header("destination"), destination);
        assert_eq!(self.header("subscription"), subscription);
        let (session, number) = self.header("message-id").split_once('-').expect("a session and a number");
        assert!((1..=8).contains(&session.len()) && u32::from_str_radix(session, 16).is_ok(), "{self:?}");
        assert_eq!(session, session.to_lowercase());
        number.parse::<u64>().expect("a number");
        assert_eq!(self.header("content-length"), self.body.len().to_string());
        self.body.strip_suffix("\r\n").unwrap_or_else(|| panic!("no CR LF at the end of {self:?}"))
    }

    /// Like [`Stomp::message`], parsed as JSON.
    #[track_caller]
    pub fn json(&self, destination: &str, subscription: &str) -> Value {
        serde_json::from_str(self.message(destination, subscription)).expect("the body is JSON")
    }
}
