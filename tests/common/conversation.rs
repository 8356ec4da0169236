//! Recorded conversations with the websocket interface: reads them, replays them, and compares the server's output.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::http::{Client, Response};
use super::json_text::Json;
use super::open_maybe_compressed;
use super::websocket::{BINARY, CLOSE, CONTINUATION, PING, PONG, Received, Socket, Stomp, TEXT, decode, encode};

/// Default time to wait for a recorded message.
pub const MAX_WAIT: Duration = Duration::from_secs(3);
/// Code that stands for a close frame without a code.
const NO_CODE: u16 = 1005;

/// A line of a recording.
#[derive(Clone, Debug, Deserialize)]
pub struct Line {
    pub conversation: String,
    /// Number of the client's action; the server's output after it has the same number.
    pub step: u64,
    /// Seconds since the start of the conversation.
    #[serde(rename = "t")]
    pub time: f64,
    /// `C` if the client sends, `S` if the server does.
    dir: char,
    /// Kind of what was sent, such as `text`.
    pub op: String,
    pub data: String,
}

/// Reads all lines of a file.
pub fn read_file(path: &Path) -> Vec<Line> {
    let lines = BufReader::new(open_maybe_compressed(path)).lines();
    lines.map(|line| serde_json::from_str(&line.expect("a text")).expect("a line is JSON")).collect()
}

/// What the client sends at once, and what the server sends after it.
#[derive(Clone, Debug, Default)]
pub struct Step {
    pub number: u64,
    pub sent: Vec<Line>,
    pub received: Vec<Line>,
}

/// A conversation.
#[derive(Clone, Debug)]
pub struct Conversation {
    pub name: String,
    pub steps: Vec<Step>,
}

/// Splits lines into conversations, in the order of their first lines. Whatever the client sends after server output
/// starts a new step.
pub fn conversations(lines: &[Line]) -> Vec<Conversation> {
    let mut all: Vec<Conversation> = Vec::new();
    for line in lines {
        let place = all.iter().position(|conversation| conversation.name == line.conversation);
        let place = place.unwrap_or_else(|| {
            all.push(Conversation { name: line.conversation.clone(), steps: Vec::new() });
            all.len() - 1
        });
        let steps = &mut all[place].steps;
        let is_next = |step: &Step| step.number != line.step || line.dir == 'C' && !step.received.is_empty();
        if steps.last().is_none_or(is_next) {
            steps.push(Step { number: line.step, ..Step::default() });
        }
        let step = steps.last_mut().expect("a step");
        if line.dir == 'C' { step.sent.push(line.clone()) } else { step.received.push(line.clone()) }
    }
    all
}

/// One piece of server output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerOutput {
    /// An HTTP response, also that to a handshake.
    Response(Response),
    Stomp(Stomp),
    /// A STOMP frame inside a SockJS frame.
    Sockjs(Stomp),
    /// A text that is not a STOMP frame.
    Text(String),
    Pong(Vec<u8>),
    Close(u16),
    /// The connection ends.
    End,
}

impl fmt::Display for ServerOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerOutput::Response(answer) => {
                write!(f, "{} {:?} {:?}", answer.status, answer.headers, String::from_utf8_lossy(&answer.body))
            }
            ServerOutput::Stomp(stomp) => write!(f, "{} {:?} {}", stomp.command, stomp.headers, stomp.body.trim_end()),
            ServerOutput::Sockjs(stomp) => {
                write!(f, "a[{} {:?} {}]", stomp.command, stomp.headers, stomp.body.trim_end())
            }
            ServerOutput::Text(text) => write!(f, "text {text:?}"),
            ServerOutput::Pong(payload) => write!(f, "pong {:?}", String::from_utf8_lossy(payload)),
            ServerOutput::Close(code) => write!(f, "close {code}"),
            ServerOutput::End => f.write_str("end"),
        }
    }
}

impl ServerOutput {
    /// Reads a line of the server; also the forms `close 1002` and `end` that tables use.
    pub fn from_line(line: &Line) -> ServerOutput {
        match line.op.as_str() {
            "http" => ServerOutput::Response(recorded_response(&line.data)),
            "text" => ServerOutput::from_text(&line.data),
            "pong" => ServerOutput::Pong(line.data.as_bytes().to_vec()),
            "close" => {
                ServerOutput::Close(line.data.split(' ').next().and_then(|code| code.parse().ok()).unwrap_or(NO_CODE))
            }
            "tcpclose" => ServerOutput::End,
            other => panic!("{}: a server does not send {other}", line.conversation),
        }
    }

    fn from_text(text: &str) -> ServerOutput {
        let strings = text.strip_prefix('a').and_then(|strings| serde_json::from_str::<[String; 1]>(strings).ok());
        if let Some([frame]) = strings {
            return ServerOutput::Sockjs(Stomp::parse(&frame));
        }
        if text.ends_with('\0') && text.contains("\n\n") {
            ServerOutput::Stomp(Stomp::parse(text))
        } else {
            ServerOutput::Text(text.to_owned())
        }
    }

    /// Returns the STOMP frame.
    pub fn frame(&self) -> Option<&Stomp> {
        match self {
            ServerOutput::Stomp(frame) | ServerOutput::Sockjs(frame) => Some(frame),
            _ => None,
        }
    }

    /// Returns the topic of a message.
    pub fn topic(&self) -> Option<&str> {
        let frame = self.frame()?;
        frame.headers.iter().find(|(name, _)| name == "destination").map(|(_, topic)| topic.as_str())
    }

    /// Reads the short form of a table: a STOMP frame, `close 1002` or `end`.
    pub fn from_short(text: &str) -> ServerOutput {
        match text.strip_prefix("close ") {
            Some(code) => ServerOutput::Close(code.parse().expect("a code")),
            None if text == "end" => ServerOutput::End,
            None => ServerOutput::Stomp(Stomp::parse(&format!("{text}\0"))),
        }
    }
}

/// Reads a recorded response; that to an upgrade lacks the empty line at its end.
fn recorded_response(text: &str) -> Response {
    let whole = if text.contains("\r\n\r\n") { text.to_owned() } else { format!("{text}\r\n\r\n") };
    Response::parse(whole.as_bytes()).unwrap_or_else(|| panic!("not a response: {text:?}"))
}

/// Headers that do not describe the server's behaviour.
const IGNORED_HEADERS: [&str; 3] = ["Date", "Server", "Content-Length"];
/// Values in bodies, by topic, that differ from run to run.
const IGNORED_VALUES: [(&str, &[&str]); 2] =
    [("/node/info", &["/metaData/version", "/metaData/platform", "/endpoint/port"]), ("/errors", &["/timeStamp"])];

/// Returns how two pieces of server output differ, or `None`.
pub fn difference(expected: &ServerOutput, got: &ServerOutput) -> Option<String> {
    let is_same = match (expected, got) {
        (ServerOutput::Response(expected), ServerOutput::Response(got)) => is_same_response(expected, got),
        (ServerOutput::Stomp(expected), ServerOutput::Stomp(got))
        | (ServerOutput::Sockjs(expected), ServerOutput::Sockjs(got)) => is_same_frame(expected, got),
        _ => expected == got,
    };
    (!is_same).then(|| format!("expected {expected}\n      got      {got}"))
}

fn is_same_response(expected: &Response, got: &Response) -> bool {
    let headers = |answer: &Response| -> Vec<_> {
        let counted = answer.headers.iter().filter(|(name, _)| !IGNORED_HEADERS.contains(&name.as_str()));
        let mut headers: Vec<_> = counted.cloned().collect();
        headers.iter_mut().filter(|(name, _)| name == "Expires").for_each(|(_, value)| value.clear());
        headers.sort();
        headers
    };
    let json = |answer: &Response| {
        let mut json = Json::parse(std::str::from_utf8(&answer.body).ok()?).ok()?;
        ["/timeStamp", "/entropy"].iter().for_each(|path| _ = json.at_path(path, &mut blank_ignored_values));
        Some(json)
    };
    let is_same_body = expected.body == got.body || json(expected).is_some_and(|body| Some(body) == json(got));
    expected.status == got.status && headers(expected) == headers(got) && is_same_body
}

fn blank_ignored_values(value: &mut Json) {
    *value = Json::Literal("free".to_owned());
}

fn is_same_frame(expected: &Stomp, got: &Stomp) -> bool {
    // Lengths follow from bodies; ids are checked where all ids of a conversation are known.
    let headers = |frame: &Stomp| -> Vec<(String, String)> {
        let is_free = |name: &str| name == "message-id" || name == "content-length";
        let pair = |(name, value): &(String, String)| {
            (name.clone(), if is_free(name) { String::new() } else { value.clone() })
        };
        frame.headers.iter().map(pair).collect()
    };
    expected.command == got.command && headers(expected) == headers(got) && body_of(expected) == body_of(got)
}

/// Returns the body as JSON without the values that differ from run to run; the body unchanged if it is not JSON.
pub fn body_of(frame: &Stomp) -> Json {
    let Ok(mut json) = Json::parse(&frame.body) else { return Json::String(frame.body.clone()) };
    let topic = frame.headers.iter().find(|(name, _)| name == "destination").map_or("", |(_, topic)| topic);
    let paths = IGNORED_VALUES.iter().filter(|(name, _)| topic == *name).flat_map(|(_, paths)| *paths);
    paths.for_each(|path| _ = json.at_path(path, &mut blank_ignored_values));
    json
}

/// Checks what holds for every frame: lengths are right, no id repeats, a body ends with CR LF.
pub fn check_frame(frame: &Stomp, ids: &mut BTreeSet<String>) -> Option<String> {
    if let Some((_, length)) = frame.headers.iter().find(|(name, _)| name == "content-length")
        && *length != frame.body.len().to_string()
    {
        return Some(format!("a wrong content-length in {frame:?}"));
    }
    if frame.command != "MESSAGE" {
        return None;
    }
    let (id, names) = (frame.header("message-id"), frame.headers.iter().map(|(name, _)| name.as_str()));
    if !names.eq(["destination", "subscription", "message-id", "content-length"]) {
        return Some(format!("other headers than those of a message in {frame:?}"));
    }
    let is_new = ids.insert(id.to_owned()) && ids.first().map(|id| id.split('-').next()) == Some(id.split('-').next());
    (!is_new || !frame.body.ends_with("\r\n")).then(|| format!("an id that came before, or no line end: {frame:?}"))
}

/// A connection whose requests and frames are those of a recording.
pub struct Wire {
    socket: Socket,
    is_websocket: bool,
    has_ended: bool,
    pings: u32,
}

impl Wire {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Wire {
        let socket = Socket::from_parts(Client::connect(address).into_parts());
        Wire { socket, is_websocket: false, has_ended: false, pings: 0 }
    }

    /// Returns whether the server has closed the connection.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Performs the client's action of a line; `bytes` is its data as sent.
    pub fn send(&mut self, line: &Line, bytes: &[u8]) {
        let (kind, how) = line.op.split_once(' ').unwrap_or((&line.op, ""));
        let opcode = match kind {
            "http" => return self.write(bytes),
            "cont" => CONTINUATION,
            "text" => TEXT,
            "binary" => BINARY,
            "close" => CLOSE,
            "ping" => PING,
            "pong" => PONG,
            other => other.parse().expect("an opcode"),
        };
        let mut frame = encode(how != "nofin", opcode, bytes);
        if how == "unmasked" {
            assert!(bytes.len() < 126, "a short frame");
            frame = [&[0x80 | opcode, bytes.len() as u8], bytes].concat();
        }
        self.write(&frame);
    }

    fn write(&mut self, bytes: &[u8]) {
        // The server may already have closed the connection; the next read detects that.
        let _ = self.socket.raw(bytes);
    }

    /// Returns the server's next output, or `None` after the time limit.
    pub fn receive(&mut self, limit: Duration) -> Option<ServerOutput> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(said) = self.next_buffered() {
                return Some(said);
            }
            match if self.has_ended { Received::Nothing } else { self.socket.receive(deadline) } {
                Received::Bytes => {}
                Received::Nothing => return None,
                Received::End => {
                    self.has_ended = true;
                    return Some(ServerOutput::End);
                }
            }
        }
    }

    fn next_buffered(&mut self) -> Option<ServerOutput> {
        if !self.is_websocket {
            let answer = Response::parse(&self.socket.buffer)?;
            let length = answer.header_values("Content-Length").first().map_or(0, |length| length.parse().unwrap_or(0));
            let head = self.socket.buffer.len() - answer.body.len();
            if answer.body.len() < length {
                return None;
            }
            self.socket.buffer.drain(..head + length);
            self.is_websocket = answer.status == 101;
            return Some(ServerOutput::Response(Response { body: answer.body[..length].to_vec(), ..answer }));
        }
        let (frame, length) = decode(&self.socket.buffer)?;
        self.socket.buffer.drain(..length);
        Some(match frame.opcode {
            TEXT => ServerOutput::from_text(std::str::from_utf8(&frame.payload).expect("a text message is text")),
            PONG => ServerOutput::Pong(frame.payload),
            CLOSE => ServerOutput::Close(frame.payload.first_chunk().map_or(NO_CODE, |code| u16::from_be_bytes(*code))),
            other => panic!("a server does not send opcode {other}"),
        })
    }

    /// Reads `count` pieces of output, each within `patience`, and, unless this is the last step, everything else that
    /// comes before the answer to a ping.
    pub fn receive_all(&mut self, count: usize, patience: Duration, is_last: bool) -> Vec<ServerOutput> {
        let mut heard = Vec::new();
        while heard.len() < count
            && let Some(said) = self.receive(patience)
        {
            heard.push(said);
        }
        if !is_last {
            heard.append(&mut self.receive_pending());
        }
        heard
    }

    /// Reads everything that comes before the answer to a ping: all that the server has already sent.
    pub fn receive_pending(&mut self) -> Vec<ServerOutput> {
        let mut heard = Vec::new();
        if self.has_ended || !self.is_websocket {
            return heard;
        }
        self.pings += 1;
        let ping = format!("ping {}", self.pings).into_bytes();
        self.write(&encode(true, PING, &ping));
        while let Some(said) = self.receive(MAX_WAIT) {
            if said == ServerOutput::Pong(ping.clone()) {
                break;
            }
            heard.push(said);
        }
        heard
    }
}
