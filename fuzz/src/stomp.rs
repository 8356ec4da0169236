//! Fuzz target: STOMP, the broker with the limits of production, the decoder and the encoder.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use nisd::api::{ClockState, EventFeed, NodeContext, NodeStatus};
use nisd::budget::Budget;
use nisd::chain::harvest::UnlockedAccounts;
use nisd::chain::{ChainSnapshot, ReorgLog};
use nisd::codec::json::JsonDecoder;
use nisd::codec::{self, SigningForm, lenient_json};
use nisd::config::Settings;
use nisd::crypto::{KeyPair, PrivateKey, Randomness};
use nisd::mempool::Mempool;
use nisd::model::{Address, Height, NetworkByte, Timestamp, Transaction};
use nisd::net::SharedBytesCounter;
use nisd::net::fetch::{FetchId, FetchRequest};
use nisd::net::service::{Client, ConnectionId, Dropped, Effects, ListenerId, Message, Progress};
use nisd::peer::io::Now;
use nisd::store::Store;
use nisd::websocket_api::stomp::{DEFAULT_FRAME_BYTES, DecodeError, Decoder, Frame, MAX_HEADERS, allows_body, encoder};
use nisd::websocket_api::{Broker, Limits};

use crate::interface::node_info;
use crate::tiny;

/// Separates the records of an input: each is a byte that selects the session and events, and the message.
pub const SEPARATOR: u8 = 0xff;

/// Maximum bytes of a websocket message.
const MESSAGE_BYTES: usize = 65_536;
/// Maximum units of work in one call: the slice for a message, and the excess for one frame or the end of a session.
const UNITS_PER_CALL: u64 = 100 + 2_500;
/// Maximum units of work per byte, besides one for each call.
const UNITS_PER_BYTE: u64 = 2;
/// Maximum bytes sent per charged unit of work.
const BYTES_PER_UNIT: usize = 2_048;
/// Maximum bytes sent per received byte: it is escaped, or replaced if it is not UTF-8.
const BYTES_PER_BYTE: usize = 6;
/// Units of work of a slice.
const SLICE: u32 = 200;
/// Units by which a slice may be exceeded: one account, and the messages to one session.
const SLICE_EXCESS: u64 = 100;
/// Maximum slices until everything is published.
const MAX_SLICES: usize = 10_000;

/// Checks for any input of several sessions: the broker sends each of them whole frames that a client can read, and
/// nothing after it has closed a session. The cost of a message and the output for it are bounded by its length, each
/// call takes a limited amount of work, and nothing is left when all sessions are gone. Frames are the same however
/// their bytes are split into messages, and a frame that is written again is read as the same.
pub fn check(data: &[u8]) -> usize {
    let records: Vec<(u8, &[u8])> = data
        .split(|byte| *byte == SEPARATOR)
        .filter_map(|record| record.split_first())
        .map(|(selector, message)| (*selector, &message[..message.len().min(MESSAGE_BYTES)]))
        .collect();
    let mut conversation = Conversation::new();
    for (selector, message) in &records {
        conversation.record(*selector, message);
    }
    conversation.end();
    check_cuts(&records);
    conversation.client.messages
}

/// Checks the broker's output as it is sent.
#[derive(Default)]
struct FuzzClient {
    open: BTreeSet<ConnectionId>,
    /// Connections that the broker has closed and whose disconnect was not reported yet.
    closed: BTreeSet<ConnectionId>,
    resumed: Vec<ConnectionId>,
    charged: u64,
    bytes: usize,
    messages: usize,
}

impl Effects for FuzzClient {
    fn send(&mut self, socket: ConnectionId, message: Message<'_>) -> Result<(), Dropped> {
        assert!(self.open.contains(&socket) && !self.closed.contains(&socket), "sent to nobody");
        let body = message.body.map_or(&[][..], |body| body);
        check_sent(&[message.head, body, message.tail].concat());
        self.bytes += message.bytes();
        self.messages += 1;
        Ok(())
    }

    fn backlog(&self, _: ConnectionId) -> usize {
        0
    }

    fn close(&mut self, socket: ConnectionId, code: u16, reason: &str) {
        assert!((1000..=4999).contains(&code) && reason.len() <= 123);
        assert!(self.open.contains(&socket) && self.closed.insert(socket), "closed twice");
    }

    fn resume(&mut self, connection: ConnectionId) {
        self.resumed.push(connection);
    }

    fn charge(&mut self, _: ConnectionId, units: u32) {
        self.charged += u64::from(units);
    }

    fn fetch(&mut self, _: FetchId, _: FetchRequest) {
        panic!("the broker asks no other server")
    }

    fn cancel(&mut self, _: FetchId) {
        panic!("the broker asks no other server")
    }

    fn wake_at(&mut self, _: Duration) {
        panic!("the node asks for turns")
    }
}

/// A broker, its clients, and a chain that grows.
struct Conversation {
    broker: Broker,
    limits: Limits,
    client: FuzzClient,
    /// Height up to which the broker knows the chain.
    height: Height,
    /// Progress of the last message of each websocket.
    progress: BTreeMap<ConnectionId, Progress>,
    now: Duration,
    /// Bytes of messages.
    received: usize,
    /// Calls that worked on messages, and the units charged in them.
    calls: u64,
    units: u64,
}

impl Conversation {
    fn new() -> Conversation {
        let limits = Limits::default();
        Conversation {
            broker: Broker::new(limits, NetworkByte::TESTNET, SharedBytesCounter::default()),
            limits,
            client: FuzzClient::default(),
            height: Height(1),
            progress: BTreeMap::new(),
            now: Duration::ZERO,
            received: 0,
            calls: 0,
            units: 0,
        }
    }

    /// Bits 0 and 1 of the selector name the session, bit 2 closes it first; afterwards bit 3 adds a block, bit 4 a
    /// transaction, and bit 5 lets a second pass and runs the broker.
    fn record(&mut self, selector: u8, message: &[u8]) {
        let socket = ConnectionId(u64::from(selector & 3));
        if selector & 4 != 0 {
            self.disconnect(socket);
        }
        if self.client.open.insert(socket) {
            let caller = Client::direct(ListenerId(1), [10, 0, 0, selector & 1].into());
            self.broker.open_websocket(socket, &caller, self.now, &mut self.client);
            self.progress.insert(socket, Progress::Done);
        }
        self.deliver(socket, message);
        if selector & 8 != 0 {
            self.height = self.height.next().min(TIP);
            self.broker.chain_changed(Height(self.height.0 - 1), self.height);
        }
        if selector & 16 != 0 {
            FIXTURE.with(|fixture| self.broker.news.on_transaction(Rc::clone(&fixture.transaction)));
        }
        if selector & 32 != 0 {
            self.now += Duration::from_secs(1);
            self.broker.on_timer(self.now, &mut self.client);
            self.work();
        }
        self.report_closed();
        let table = &self.broker.table;
        assert!(table.memory.total() <= self.limits.total_bytes);
        assert!(table.topics.pattern_count() <= self.limits.patterns);
        assert_eq!(table.pool.held_bytes(), 0, "nobody holds a message any more");
    }

    fn present(&self) -> Now {
        Now { monotonic: self.now, network: Timestamp(1_000), network_millis: 0 }
    }

    /// Delivers a message as the reactor does: only when the previous one is done.
    fn deliver(&mut self, socket: ConnectionId, message: &[u8]) {
        let present = self.present();
        match self.progress.get(&socket) {
            Some(Progress::Done) => {}
            Some(Progress::Yield) => return self.resume_until_done(socket),
            Some(Progress::Suspended | Progress::Queued | Progress::Streaming) | None => return,
        }
        if message.is_empty() {
            let taken = self.broker.on_message(socket, message, true, present, &mut self.client);
            return assert_eq!(taken, Progress::Done, "an empty message means nothing");
        }
        self.received += message.len();
        self.call(socket, |broker, client| broker.on_message(socket, message, true, present, client));
        self.resume_until_done(socket);
    }

    /// Resumes a websocket until the message is done or suspended.
    fn resume_until_done(&mut self, socket: ConnectionId) {
        let present = self.present();
        while self.progress.get(&socket) == Some(&Progress::Yield) {
            self.call(socket, |broker, client| broker.on_resumed(socket, present, client));
        }
    }

    fn call(&mut self, socket: ConnectionId, call: impl FnOnce(&mut Broker, &mut FuzzClient) -> Progress) {
        let (charged, bytes) = (self.client.charged, self.client.bytes);
        let taken = call(&mut self.broker, &mut self.client);
        let units = self.client.charged - charged;
        assert!(units > 0 || self.client.closed.contains(&socket), "nothing is for free");
        assert!(units <= UNITS_PER_CALL, "{units} units in one call");
        self.calls += 1;
        self.units += units;
        let most = self.calls + UNITS_PER_BYTE * self.received as u64;
        assert!(self.units <= most, "{} units for {} bytes", self.units, self.received);
        let most = BYTES_PER_UNIT * units as usize + BYTES_PER_BYTE * MESSAGE_BYTES;
        assert!(self.client.bytes - bytes <= most, "{} bytes for {units} units", self.client.bytes - bytes);
        self.progress.insert(socket, taken);
    }

    /// Runs the broker until everything is published, and resumes suspended websockets.
    fn work(&mut self) {
        for _ in 0..MAX_SLICES {
            let messages = self.client.messages;
            self.work_once();
            let told = (self.client.messages - messages) as u64;
            assert!(told <= u64::from(SLICE) + SLICE_EXCESS, "{told} messages in one slice");
            for socket in std::mem::take(&mut self.client.resumed) {
                if self.progress.get(&socket) == Some(&Progress::Suspended) {
                    self.progress.insert(socket, Progress::Yield);
                    self.resume_until_done(socket);
                }
            }
            self.report_closed();
            if !self.broker.has_work(true) {
                return;
            }
        }
        panic!("there is no end of what there is to tell");
    }

    fn work_once(&mut self) {
        let now = self.present();
        FIXTURE.with(|fixture| {
            let (snapshot, network) = (fixture.store.snapshot().expect("a snapshot"), &fixture.settings.network);
            let node = NodeContext {
                chain: ChainSnapshot { snapshot: &snapshot, network, height: self.height, now: now.network },
                status: NodeStatus::Booted,
                now,
                clock: ClockState::default(),
                forgets_hashes: false,
                mempool: &mut Mempool::default(),
                unlocked: &mut UnlockedAccounts::new(1),
                peers: None,
                info: &node_info(),
                started: Timestamp(0),
                keys: &KeyPair::new(&PrivateKey::from_seed(&[7; 32])),
                reorgs: &ReorgLog::default(),
                events: &mut EventFeed::default(),
                randomness: &mut Randomness::new(&[5; 32]),
                budget: Budget::new(SLICE),
            };
            self.broker.work(true, node, &mut self.client);
        });
    }

    /// Reports closed websockets to the broker.
    fn report_closed(&mut self) {
        for socket in std::mem::take(&mut self.client.closed) {
            self.disconnect(socket);
        }
    }

    fn disconnect(&mut self, socket: ConnectionId) {
        self.broker.on_disconnect(socket, self.now);
        self.client.open.remove(&socket);
        self.client.closed.remove(&socket);
        self.progress.remove(&socket);
    }

    /// Disconnects all; nothing may be left.
    fn end(&mut self) {
        for socket in std::mem::take(&mut self.client.open) {
            self.disconnect(socket);
        }
        self.work();
        let table = &self.broker.table;
        assert!(table.session_count() == 0 && table.topics.is_empty());
        assert_eq!((table.registered.len(), table.memory.total(), table.pool.held_bytes()), (0, 0, 0));
        assert_eq!(self.broker.next_due(), None);
    }
}

/// Height of the chain.
const TIP: Height = Height(53);

/// A recorded chain, created once per thread.
struct Fixture {
    settings: Settings,
    store: Store,
    /// A transaction that enters the mempool again and again.
    transaction: Rc<Transaction>,
}

impl Fixture {
    fn new() -> Fixture {
        let settings = tiny::settings();
        let store = tiny::store(&settings, TIP);
        Fixture { settings, store, transaction: transaction() }
    }
}

thread_local! {
    static FIXTURE: Fixture = Fixture::new();
}

fn address_of(text: &str) -> Address {
    Address::parse(text, NetworkByte::TESTNET).expect("an address")
}

/// Returns a transfer to an address that inputs often name.
fn transaction() -> Rc<Transaction> {
    let text = format!(
        r#"{{"timeStamp":67191609,"amount":1000000,"signature":"{}","fee":1000000,"recipient":"{}","type":257,
        "deadline":67195209,"message":{{}},"version":-1744830463,"signer":"{}"}}"#,
        "0a".repeat(64),
        "TATKYDM665JL57UGFU4G7OWQPA2J2WNXOYO7WOLU",
        "c4db8627b36975d61fb643283a0407a8be48ba4a1825a293aef5f0542dcb4a44",
    );
    let value = lenient_json::parse(text.as_bytes()).expect("an object");
    let context = codec::Context {
        network: NetworkByte::TESTNET,
        nemesis_signer: address_of("TAABRCHNTAKNKOB77TWEORMYVCF3ERG4VUMQBLDK"),
        trusted: false,
    };
    let mut source = JsonDecoder::new(&value, context).expect("an object");
    Rc::new(codec::transaction::read(&mut source, SigningForm::Verifiable).expect("a transfer"))
}

/// Checks that a sent message is one server frame, in UTF-8.
fn check_sent(bytes: &[u8]) {
    std::str::from_utf8(bytes).expect("a text message");
    let mut decoder = Decoder::new(usize::MAX);
    decoder.feed(bytes);
    let frame = decoder.next_frame().expect("a frame is well-formed").expect("a frame is whole");
    match frame.command {
        "MESSAGE" => {
            assert!(frame.body.ends_with(b"\r\n"));
            assert_eq!(frame.headers().count(), 4);
        }
        "CONNECTED" | "RECEIPT" | "ERROR" => {}
        other => panic!("a server sent {other}"),
    }
    assert_eq!(decoder.next_frame(), Ok(None));
    assert_eq!(decoder.buffered(), 0, "one frame is sent at a time");
}

/// Content of a frame.
#[derive(Debug, PartialEq)]
struct DecodedFrame {
    command: &'static str,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl DecodedFrame {
    fn of(frame: &Frame<'_>) -> DecodedFrame {
        let headers = frame.headers().filter(|(name, _)| name != "content-length");
        DecodedFrame {
            command: frame.command,
            headers: headers.map(|(name, value)| (name.into_owned(), value.into_owned())).collect(),
            body: frame.body.to_vec(),
        }
    }
}

/// Decodes the frames of a stream up to its first error, and the error.
fn decode<'a>(messages: impl Iterator<Item = &'a [u8]>) -> (Vec<DecodedFrame>, Option<DecodeError>) {
    let mut decoder = Decoder::new(DEFAULT_FRAME_BYTES);
    let mut frames = Vec::new();
    for message in messages {
        decoder.feed(message);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(DecodedFrame::of(&frame)),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.buffered(), 0, "after an error nothing is kept");
                    return (frames, Some(error));
                }
            }
        }
        assert!(decoder.buffered() <= DEFAULT_FRAME_BYTES);
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
        // A frame that is both wrong and too large is rejected for what is noticed first.
        let too_large = |error: &Option<DecodeError>| error.as_ref().is_some_and(|error| error.is_fatal);
        let either = too_large(error) || too_large(&whole_error);
        assert!(*error == whole_error || either && error.is_some() && whole_error.is_some());
    }
    // A frame with a body is written with a `content-length`, which counts as a header.
    for said in whole.iter().filter(|said| said.headers.len() < MAX_HEADERS || !allows_body(said.command)) {
        check_written(said);
    }
}

fn check_written(said: &DecodedFrame) {
    let headers = said.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let body = allows_body(said.command).then_some(said.body.as_slice());
    let mut bytes = Vec::new();
    encoder::frame(&mut bytes, said.command, headers, body);
    let mut decoder = Decoder::new(usize::MAX);
    decoder.feed(&bytes);
    let again = decoder.next_frame().expect("a frame is well-formed").expect("a frame is whole");
    assert_eq!(DecodedFrame::of(&again), *said);
}
