//! SockJS on a running node, transport by transport, as a client sees it on the wire.

use std::net::SocketAddr;

use crate::common::daemon::{Node, new_network};
use crate::common::http::{Client, Response};
use crate::common::websocket::Stomp;

const CONNECT: &str = r#"["CONNECT\naccept-version:1.1,1.0\n\n\u0000"]"#;
const CONNECTED: &str = "CONNECTED\nversion:1.1\nheart-beat:0,0\n\n\0";
const SUBSCRIBE: &str = r#"["SUBSCRIBE\nid:s\ndestination:/blocks/new\n\n\u0000"]"#;
const DISCONNECT: &str = r#"["DISCONNECT\n\n\u0000"]"#;
const CALLBACK: &str = "_jp.abc";

/// Starts a node of a network that makes a block every second.
fn node() -> Node {
    Node::on_fast_network(&new_network(), 1, &[], &[])
}

/// A transport that receives frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Xhr,
    Jsonp,
    XhrStreaming,
    EventSource,
    HtmlFile,
}

use Transport::{EventSource, HtmlFile, Jsonp, Xhr, XhrStreaming};

const TRANSPORTS: [Transport; 5] = [Xhr, Jsonp, XhrStreaming, EventSource, HtmlFile];

impl Transport {
    fn request(self, session: &str) -> String {
        let (method, name) = match self {
            Xhr => ("POST", "xhr".to_owned()),
            XhrStreaming => ("POST", "xhr_streaming".to_owned()),
            EventSource => ("GET", "eventsource".to_owned()),
            HtmlFile => ("GET", format!("htmlfile?c={CALLBACK}")),
            Jsonp => ("GET", format!("jsonp?c={CALLBACK}")),
        };
        let length = if method == "POST" { "Content-Length: 0\r\n" } else { "" };
        format!("{method} /w/messages/000/{session}/{name} HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\n{length}\r\n")
    }

    fn content_type(self) -> &'static str {
        match self {
            Xhr | XhrStreaming | Jsonp => "application/javascript;charset=UTF-8",
            EventSource => "text/event-stream;charset=UTF-8",
            HtmlFile => "text/html;charset=utf-8",
        }
    }

    /// Returns the complete frames in a body so far.
    fn frames(self, body: &str) -> Vec<String> {
        let script = |text: &str| serde_json::from_str::<String>(&text.replace("\\'", "'")).expect("a string");
        let whole: Vec<&str> =
            body.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::trim_end).collect();
        let frames = whole.into_iter().filter(|line| !line.is_empty());
        match self {
            Xhr => frames.map(str::to_owned).collect(),
            // Clients ignore the first line.
            XhrStreaming => frames.skip(1).map(str::to_owned).collect(),
            EventSource => frames.map(|line| line.strip_prefix("data: ").expect("an event").to_owned()).collect(),
            HtmlFile => frames.filter_map(|line| line.strip_prefix("p(")?.strip_suffix(");")).map(script).collect(),
            Jsonp => {
                let call = format!("/**/{CALLBACK}(");
                let text =
                    |line: &str| script(line.strip_prefix(&call).expect("a call").strip_suffix(");").expect("its end"));
                frames.map(text).collect()
            }
        }
    }

    fn is_streaming(self) -> bool {
        !matches!(self, Xhr | Jsonp)
    }
}

/// The client of one session, with one connection to receive and another to send.
struct Session {
    address: SocketAddr,
    name: String,
    transport: Transport,
    receiver: Client,
    /// The current streaming response.
    answer: Option<Response>,
    /// How many of its frames were read.
    seen: usize,
    sender: Client,
}

impl Session {
    /// Opens a session.
    #[track_caller]
    fn open(address: SocketAddr, name: &str, way: Transport) -> Session {
        let (receiver, sender) = (Client::connect(address), Client::connect(address));
        let mut session =
            Session { address, name: name.to_owned(), transport: way, receiver, answer: None, seen: 0, sender };
        assert_eq!(session.next(), "o", "{way:?}");
        session
    }

    /// Sends a message; returns the status of the response.
    #[track_caller]
    fn send(&mut self, message: &str) -> u16 {
        let (name, kind, body) = match self.transport {
            Jsonp => ("jsonp_send", "application/x-www-form-urlencoded", format!("d={}", percent(message))),
            _ => ("xhr_send", "text/plain", message.to_owned()),
        };
        let (session, length) = (&self.name, body.len());
        self.sender.send(format!(
            "POST /w/messages/000/{session}/{name} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ));
        self.sender.answer().status
    }

    /// Returns the next frame; requests as often as necessary.
    #[track_caller]
    fn next(&mut self) -> String {
        loop {
            if let Some(frame) = self.buffered() {
                return frame;
            }
            self.read_more();
        }
    }

    fn buffered(&mut self) -> Option<String> {
        let frames = self.transport.frames(self.answer.as_ref()?.text());
        let frame = frames.get(self.seen).cloned();
        self.seen += usize::from(frame.is_some());
        frame
    }

    /// Reads more of the response, or sends a new request when it has ended.
    #[track_caller]
    fn read_more(&mut self) {
        match &mut self.answer {
            Some(answer) if answer.header("Transfer-Encoding").is_some() => {
                if !self.receiver.chunk(answer) {
                    self.answer = None;
                }
            }
            _ => {
                self.receiver.send(self.transport.request(&self.name));
                let answer = if self.transport.is_streaming() { self.receiver.head() } else { self.receiver.answer() };
                assert_eq!(answer.status, 200);
                assert_eq!(answer.header("Content-Type"), Some(self.transport.content_type()));
                assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("http://b"));
                assert_eq!(answer.header("Access-Control-Allow-Credentials"), Some("true"));
                let cache = "no-store, no-cache, must-revalidate, max-age=0";
                assert_eq!(answer.header("Cache-Control"), Some(cache));
                assert_eq!(answer.header("Set-Cookie"), None);
                assert_eq!(answer.header("Transfer-Encoding").is_some(), self.transport.is_streaming());
                (self.answer, self.seen) = (Some(answer), 0);
            }
        }
    }

    /// Returns the STOMP frames in the next frame that is not a heart-beat.
    #[track_caller]
    fn stomp(&mut self) -> Vec<String> {
        let frame = self.next();
        serde_json::from_str(frame.strip_prefix('a').unwrap_or_else(|| panic!("{frame}"))).expect("an array of strings")
    }

    /// Returns the response to another client that requests frames of the same session.
    #[track_caller]
    fn fetch_as_other_client(&self) -> String {
        let answer = Client::connect(self.address).request(self.transport.request(&self.name));
        assert_eq!(answer.status, 200);
        self.transport.frames(answer.text()).concat()
    }
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn every_transport_opens_sends_receives_and_ends() {
    let node = node();
    let address = node.websocket;
    std::thread::scope(|scope| {
        TRANSPORTS
            .into_iter()
            .enumerate()
            .for_each(|(number, way)| _ = scope.spawn(move || talk(address, number, way)));
    });
}

/// Opens a session, sends and receives, and ends it.
fn talk(address: SocketAddr, number: usize, way: Transport) {
    let name = format!("session{number}");
    let mut session = Session::open(address, &name, way);
    let accepted = if way == Jsonp { 200 } else { 204 };
    assert_eq!(session.send(CONNECT), accepted);
    assert_eq!(session.stomp(), [CONNECTED], "{way:?}");
    assert_eq!(session.send(SUBSCRIBE), accepted);
    let mut heights = Vec::new();
    while heights.len() < 2 {
        for frame in session.stomp() {
            let frame = Stomp::parse(&frame);
            assert_eq!((frame.command.as_str(), frame.header("destination")), ("MESSAGE", "/blocks/new"));
            assert!(frame.header("message-id").starts_with(&format!("{name}-")), "{frame:?}");
            let body: serde_json::Value = serde_json::from_str(&frame.body).expect("JSON");
            heights.push(body["height"].as_u64().expect("a height"));
        }
    }
    assert!(heights.is_sorted() && heights[0] < heights[1], "{way:?}: {heights:?}");

    session.send(DISCONNECT);
    let last = std::iter::repeat_with(|| session.stomp()).flatten().find(|frame| frame.starts_with("ERROR"));
    assert!(last.expect("endless").starts_with("ERROR\nmessage:Session closed."), "{way:?}");
    assert_eq!(session.next(), r#"c[1002,"null"]"#, "{way:?}");
    assert_eq!(session.fetch_as_other_client(), r#"c[3000,"Go away!"]"#, "{way:?}");
    assert_eq!(session.send(CONNECT), 500);
}
