//! STOMP: the broker, the decoder and the encoder.

use std::collections::BTreeSet;

use nisd::model::{Address, NetworkByte};
use nisd::push::stomp::{Command, DecodeError, Decoder, Frame, encoder};
use nisd::push::{Broker, Context, Limits, Outbox, Output, Settings};

/// Separates the records of an input: each is a byte that says whose message it is, and the message.
pub const SEPARATOR: u8 = 0xff;

/// Small limits, so that they are reached.
const LIMITS: Limits = Limits {
    sessions: 3,
    subscriptions_per_session: 4,
    subscriptions: 8,
    patterns_per_session: 2,
    patterns: 3,
    registered_addresses: 2,
    frame_bytes: 512,
    incomplete_bytes: 1024,
};

/// Failed requests that one message gets reported, see `push::broker`.
const REPORTS: usize = 16;

const ADDRESS_TOPIC: &str = "/transactions/TATKYDM665JL57UGFU4G7OWQPA2J2WNXOYO7WOLU";

/// Whatever several sessions send, the broker sends each of them whole frames that a client can read, nothing
/// after it has closed a session, and no more than the messages warrant. Frames are the same however their bytes
/// are cut into messages, and a frame that is written again is read as the same.
pub fn check(data: &[u8]) -> usize {
    let records: Vec<(u8, &[u8])> =
        data.split(|byte| *byte == SEPARATOR).filter_map(|record| record.split_first()).map(|(a, b)| (*a, b)).collect();
    let mut conversation = Conversation::new();
    for (selector, message) in &records {
        conversation.message(*selector, message);
    }
    check_cuts(&records);
    conversation.frames
}

/// What the broker needs to know of a node.
struct Node;

impl Context for Node {
    fn network_time(&self) -> i32 {
        1_000
    }

    fn is_address(&self, text: &str) -> bool {
        Address::parse(text, NetworkByte::TESTNET).is_some_and(|address| address.as_str() == text)
    }
}

/// A broker and whoever is connected to it.
struct Conversation {
    broker: Broker,
    out: Outbox,
    open: BTreeSet<u64>,
    /// Frames sent so far.
    frames: usize,
}

impl Conversation {
    fn new() -> Conversation {
        let settings = Settings { limits: LIMITS, ..Settings::default() };
        Conversation { broker: Broker::new(settings), out: Outbox::new(), open: BTreeSet::new(), frames: 0 }
    }

    /// Bits 0 and 1 of the selector name the session, bit 2 closes it before, bit 3 publishes afterwards.
    fn message(&mut self, selector: u8, message: &[u8]) {
        let session = u64::from(selector & 3);
        if selector & 4 != 0 {
            self.broker.close(session);
            self.open.remove(&session);
        }
        if !self.open.contains(&session) {
            let opened = self.broker.open(session, format!("{session:x}"));
            assert_eq!(opened.is_ok(), self.open.len() < LIMITS.sessions);
            if opened.is_ok() {
                self.open.insert(session);
            }
        }
        self.broker.receive(session, message, &Node, &mut self.out);
        self.deliver(message.len() + REPORTS * LIMITS.subscriptions, None);
        if selector & 8 != 0 {
            self.publish();
        }
    }

    fn publish(&mut self) {
        for topic in ["/blocks", ADDRESS_TOPIC] {
            let wanted = self.broker.wanted(topic);
            self.broker.publish(topic, br#"{"a":"b\u0000"}"#, &mut self.out);
            assert_eq!(wanted, !self.out.is_empty(), "what is wanted is sent");
            self.deliver(LIMITS.subscriptions, Some(topic));
        }
        self.broker.publish_height(7, &mut self.out);
        self.deliver(LIMITS.subscriptions, Some("/blocks/new"));
        self.broker.publish_error(Some("so"), 1, &mut self.out);
        self.deliver(LIMITS.subscriptions, Some("/errors"));
    }

    /// Does what the broker wants done; with `topic`, all of it is a publication there.
    fn deliver(&mut self, most: usize, topic: Option<&str>) {
        assert!(self.out.len() <= most, "{} outputs where {most} are warranted", self.out.len());
        let mut closed = Vec::new();
        while let Some(output) = self.out.pop() {
            match output {
                Output::Send { session, frame } => {
                    assert!(self.open.contains(&session) && !closed.contains(&session));
                    check_sent(&frame, topic);
                    self.frames += 1;
                }
                Output::Close { session, reason, .. } => {
                    assert!(self.open.contains(&session) && !closed.contains(&session));
                    assert!(topic.is_none() && reason.len() <= 123);
                    closed.push(session);
                }
                Output::Request { session, .. } => assert!(self.open.contains(&session)),
            }
        }
        for session in closed {
            self.broker.close(session);
            self.open.remove(&session);
        }
    }
}

/// What is sent is one frame of a server, in UTF-8.
fn check_sent(bytes: &[u8], topic: Option<&str>) {
    std::str::from_utf8(bytes).expect("a text message");
    let mut decoder = Decoder::new(usize::MAX, false);
    decoder.feed(bytes);
    let frame = decoder.next_frame().expect("a frame is well-formed").expect("a frame is whole");
    match frame.command() {
        Command::Message => {
            assert!(frame.body().ends_with(b"\r\n"));
            assert!(topic.is_none_or(|topic| frame.header("destination").as_deref() == Some(topic)));
        }
        Command::Connected | Command::Receipt | Command::Error => assert_eq!(topic, None),
        other => panic!("a server sent {other:?}"),
    }
    assert_eq!(decoder.next_frame(), Ok(None));
    assert_eq!(decoder.buffered(), 0, "one frame is sent at a time");
}

/// What a frame says.
#[derive(Debug, PartialEq)]
struct Said {
    command: Command,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Said {
    fn of(frame: &Frame<'_>) -> Said {
        let headers = frame.headers().filter(|(name, _)| name != "content-length");
        Said {
            command: frame.command(),
            headers: headers.map(|(name, value)| (name.into_owned(), value.into_owned())).collect(),
            body: frame.body().to_vec(),
        }
    }
}

/// The frames of a stream up to its first error, and that.
fn decode<'a>(messages: impl Iterator<Item = &'a [u8]>) -> (Vec<Said>, Option<DecodeError>) {
    let mut decoder = Decoder::new(LIMITS.frame_bytes, true);
    let mut frames = Vec::new();
    for message in messages {
        decoder.feed(message);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(Said::of(&frame)),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.buffered(), 0, "after an error nothing is kept");
                    return (frames, Some(error));
                }
            }
        }
        assert!(decoder.buffered() <= LIMITS.frame_bytes);
    }
    (frames, None)
}

fn check_cuts(records: &[(u8, &[u8])]) {
    let stream: Vec<u8> = records.iter().flat_map(|(_, message)| message.iter().copied()).collect();
    let (whole, whole_error) = decode(std::iter::once(stream.as_slice()));
    let (cut, cut_error) = decode(records.iter().map(|(_, message)| *message));
    let (single, single_error) = decode(stream.chunks(1));
    assert!(whole == cut && whole == single, "{whole:?}, {cut:?}, {single:?}");
    for error in [&cut_error, &single_error] {
        // A frame that is both wrong and too large is refused for what is noticed first.
        let too_large = |error: &Option<DecodeError>| matches!(error, Some(DecodeError::FrameLimit { .. }));
        let either = too_large(error) || too_large(&whole_error);
        assert!(*error == whole_error || either && error.is_some() && whole_error.is_some());
    }
    for said in &whole {
        check_written(said);
    }
}

fn check_written(said: &Said) {
    let headers = said.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let body = said.command.allows_body().then_some(said.body.as_slice());
    let mut bytes = Vec::new();
    encoder::frame(&mut bytes, said.command, headers, body);
    let mut decoder = Decoder::new(usize::MAX, false);
    decoder.feed(&bytes);
    let again = decoder.next_frame().expect("a frame is well-formed").expect("a frame is whole");
    assert_eq!(Said::of(&again), *said);
}
