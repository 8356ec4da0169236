//! What the reactor and the machine above it say to each other: the machine is handed [`Event`]s and the time, and
//! has its effects through [`Effects`]. A simulation is another reactor for the same machine.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use super::fetch::{Answer, Fetch, FetchError, FetchId};
use super::figures::Figures;
use super::http::{Reply, Request};
use super::shared::Shared;

/// One of the sockets that are listened on, numbered from 0 in the order in which they were opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub usize);

/// A connection that somebody has made to this node. Never used twice (short of four billion connections later), so
/// an id kept too long reaches nobody rather than somebody else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    pub(super) fn new(slot: usize, serial: u32) -> Self {
        Self(u64::from(serial) << 32 | (slot as u64 & 0xffff_ffff))
    }

    pub(super) fn slot(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}:{}", self.0 >> 32, self.slot())
    }
}

/// The present, by two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds of Unix time, by the clock of the system, which people and protocols can set.
    pub unix_millis: i64,
    /// Time since the node was started, by a clock that never goes back.
    pub running: Duration,
}

/// Who makes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The listener it came in by.
    pub listener: ListenerId,
    /// The client's address: the other end of the connection, or whom a trusted proxy there names. An IPv4 address
    /// on an IPv6 socket is an IPv4 address.
    pub address: IpAddr,
    /// The request says that it was passed on, truly or not: it has none of the rights of a local caller.
    pub is_forwarded: bool,
    /// It says so, and is passed on by somebody whose word does not count, or who does not say for whom: `address` is where
    /// that one is, and nobody knows who asks. Nobody is called back there.
    pub is_unnamed: bool,
}

impl Caller {
    /// Whoever is at the other end of a connection that came in by a listener.
    pub fn itself(listener: ListenerId, peer: IpAddr) -> Caller {
        Caller { listener, address: peer, is_forwarded: false, is_unnamed: false }
    }

    /// Whether it is 127.0.0.1 or `::1` by its own word.
    pub fn is_local(&self) -> bool {
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        !self.is_forwarded && loopback.contains(&self.address.to_canonical())
    }
}

/// A request and its answer in the making.
#[derive(Debug)]
pub struct Exchange<'a> {
    /// The connection, for [`Effects::resume`].
    pub connection: ConnectionId,
    /// Who asks.
    pub caller: Caller,
    /// What is asked; the same each time the exchange is resumed.
    pub request: &'a Request<'a>,
    /// Takes the answer. When an exchange is resumed, it is as the machine left it, less the pieces already sent.
    pub reply: &'a mut Reply,
    /// The exchange was left [`Taken::Unfinished`], [`Taken::Parked`] or [`Taken::Held`] before.
    pub is_resumed: bool,
    /// The caller makes more requests than it may: to be answered 429.
    pub is_refused: bool,
}

/// What happens.
#[derive(Debug)]
pub enum Event<'a> {
    /// A request is there as a whole, or is to be worked on further.
    Request(Exchange<'a>),
    /// A connection has become a websocket.
    Opened {
        /// The websocket.
        socket: ConnectionId,
        /// Who opened it.
        caller: Caller,
    },
    /// A message has arrived on a websocket, possibly an empty one; valid UTF-8 if it is text.
    Heard {
        /// The websocket.
        socket: ConnectionId,
        /// The whole message.
        message: &'a [u8],
        /// Sent as text rather than as binary.
        is_text: bool,
    },
    /// What a websocket sent was left [`Taken::Unfinished`], or [`Taken::Parked`] and resumed, and is to be worked on
    /// further. Nothing more is heard from it before that is done.
    Resumed {
        /// The websocket.
        socket: ConnectionId,
    },
    /// A websocket can be sent nothing any more, whoever ended it and why; or the connection of an unfinished, parked
    /// or held request is gone. Comes exactly once for each.
    Gone {
        /// The connection.
        connection: ConnectionId,
    },
    /// A request to another server has come to its end.
    Fetched {
        /// Which.
        fetch: FetchId,
        /// The answer, or why there is none.
        result: Result<Answer, FetchError>,
    },
    /// Time to work on what waits for nobody, and on what is due.
    Turn {
        /// Units of work that may be done, each about a microsecond long.
        budget: u32,
        /// How long the last such turn took.
        took: Duration,
    },
}

/// What became of a request or message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is done with: a reply is complete. Also what every other event is answered with.
    Done,
    /// It is to be resumed at the next share of its caller. If [`Reply::pieces`] is set, what is in the reply's body
    /// is sent as the next piece, and it is resumed when the client has taken most of what it was sent.
    Unfinished,
    /// It is to be left alone until [`Effects::resume`].
    Parked,
    /// As `Parked`, for a request whose client is content to wait: only the time in which nothing at all is sent is
    /// limited ([`Limits::websocket_idle`](super::Limits::websocket_idle)), and a client that closes its side is gone.
    /// If [`Reply::pieces`] is set, what is in the body is sent as the next piece. For a message the same as `Parked`.
    Held,
}

/// A message for a websocket, in up to three parts. Together they must be UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// What is said to this socket only.
    pub head: &'a [u8],
    /// What is said to many, held once for all of them.
    pub body: Option<&'a Shared>,
    /// What follows.
    pub tail: &'a [u8],
}

impl<'a> Message<'a> {
    /// A message of one part.
    pub fn of(text: &'a [u8]) -> Message<'a> {
        Message { head: text, body: None, tail: &[] }
    }

    /// Bytes of all parts.
    pub fn len(&self) -> usize {
        self.head.len() + self.body.map_or(0, |body| body.len()) + self.tail.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The websocket is gone: closed, dropped for being too slow, or never there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped;

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the websocket is closed or was dropped because its client does not keep up")
    }
}

impl std::error::Error for Dropped {}

/// What a machine can bring about while it handles an event.
pub trait Effects {
    /// Puts a text message into the output of a websocket. Fails if the websocket is closed, or is dropped just now
    /// because too much is waiting for it ([`Limits::backlog_bytes`](super::Limits::backlog_bytes)).
    fn send(&mut self, socket: ConnectionId, message: Message<'_>) -> Result<(), Dropped>;

    /// Bytes that wait to be sent to a websocket.
    fn backlog(&self, socket: ConnectionId) -> usize;

    /// Ends a websocket with a close code (1000 to 4999) and a reason, after what it was sent before. The machine
    /// hears [`Event::Gone`] later.
    fn close(&mut self, socket: ConnectionId, code: u16, reason: &str);

    /// Has a parked or held request or message resumed. No effect on any other connection, nor on one that the event in
    /// hand is about to leave parked or held.
    fn resume(&mut self, connection: ConnectionId);

    /// Charges a connection, and who made it, with units of work beyond the event in hand. What the event itself
    /// costs is charged to its own connection with this too.
    fn charge(&mut self, connection: ConnectionId, units: u32);

    /// Sends a request to another server. [`Event::Fetched`] tells the outcome, once, whatever it is.
    fn fetch(&mut self, fetch: Fetch) -> FetchId;

    /// Gives up a request to another server; its outcome is not told any more.
    fn cancel(&mut self, fetch: FetchId);

    /// Asks for a turn at a moment ([`Moment::running`]) at the latest; a moment that has passed means at once. Each
    /// turn forgets what was asked before.
    fn wake_at(&mut self, running: Duration);

    /// What the reactor is doing and has done; nothing where nobody counts.
    fn figures(&self) -> Figures {
        Figures::default()
    }
}

/// What decides: handed events, having effects.
pub trait Machine {
    /// Handles what happens at a moment.
    fn handle(&mut self, event: Event<'_>, now: Moment, effects: &mut dyn Effects) -> Taken;

    /// Bytes that the body of a request may have; asked as soon as its head has arrived.
    fn body_limit(&self, listener: ListenerId, method: &str, path: &str) -> usize;
}
