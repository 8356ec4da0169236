//! What this room wants from outside, and what it is told.
//!
//! Whoever drives the room hands in the time, what came of requests and what other nodes tell, and brings about what it
//! asks for: an event loop does it with sockets, a simulation with queues.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use super::wire::{BlockList, Endpoint, Outgoing};
use crate::crypto::Signature;
use crate::model::{Address, Hash256, Height, Timestamp};

/// The present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Since the start of the node.
    pub running: Duration,
    /// Network time, which stamps what is remembered.
    pub time: Timestamp,
    /// The same in milliseconds, with which clocks are compared.
    pub millis: i64,
}

/// Number of a request to another node. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Number of a sign of life whose sender waits for an answer. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MeetingId(pub u64);

/// Number of a question for the largest height of partners, on whose answer any number of callers may wait. Never used
/// twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InquiryId(pub u64);

/// What came of a request to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It was answered with status 200.
    Answer {
        /// The body.
        body: Vec<u8>,
        /// The address that answered.
        from: IpAddr,
    },
    /// It was answered with another status.
    Refused {
        /// The status.
        status: u16,
        /// The body.
        body: Vec<u8>,
    },
    /// There was no connection.
    Unreachable(String),
    /// There was a connection, and silence for too long.
    Silent,
    /// It failed in another way.
    Broken(String),
}

/// What blocks of another node turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They are valid, and have replaced ours above the common one.
    Better,
    /// They say nothing about the node: our chain has changed meanwhile, or this node could not judge them.
    Neutral,
    /// They say nothing about the node either: they would undo more of our blocks than may be undone.
    TooDeep,
    /// They are not valid, or no better than ours.
    Bad,
}

/// The store could not be read; whoever drives the room knows more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store cannot be read")
    }
}

impl std::error::Error for Unreadable {}

/// The end of our chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnTip {
    /// Height of the last block.
    pub height: Height,
    /// Its hash.
    pub hash: Hash256,
    /// Its signature.
    pub signature: Option<Signature>,
    /// Score of the whole chain.
    pub score: i128,
}

/// Blocks of another node that are to be judged: whether they replace ours above the common one.
#[derive(Debug)]
pub struct Pulled {
    /// The node that they come from, which is told of with what the blocks turn out to be.
    pub from: Address,
    /// The last block that both chains have.
    pub common: Height,
    /// The end of our chain when they were compared; if it has changed since, the blocks are dropped.
    pub base: Hash256,
    /// The blocks, in the order of their heights, which are not read yet.
    pub blocks: BlockList,
}

/// What is known of an account that a node is known by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Importance {
    /// The importance of the account, or of the account that has lent its importance to it; 0 if it was not computed the
    /// last time.
    pub value: f64,
}

/// What the room reads of our chain and brings about outside.
pub trait Outside {
    /// Sends a request to another node. What came of it is told once, whatever that is, and never from within this call.
    fn send(&mut self, to: &Endpoint, request: Outgoing) -> CallId;

    /// Nobody wants to know any more what comes of a request, and nobody is told.
    fn give_up(&mut self, call: CallId);

    /// 64 random bits that nobody can foresee.
    fn random(&mut self) -> u64;

    /// The end of our chain.
    fn tip(&self) -> Result<OwnTip, Unreadable>;

    /// Hashes of our blocks from a height on, at most so many.
    fn hashes_from(&self, first: Height, most: u64) -> Result<Vec<Hash256>, Unreadable>;

    /// Hashes, as short ids, of all transactions in the pool and of the cosignatures in them.
    fn short_ids(&self) -> Vec<crate::pool::ShortId>;

    /// How important the account of a node is at the last calculation.
    fn importance(&self, node: &Address) -> Result<Importance, Unreadable>;

    /// How many accounts took part in the last calculation of importances.
    fn important_accounts(&self) -> Result<u64, Unreadable>;

    /// Judges blocks. [`super::Peers::judged`] tells the outcome, later and once.
    fn judge(&mut self, pulled: Pulled);

    /// Takes unconfirmed transactions of another node into the pool, as a batch. The body of its answer is handed over as it
    /// came: it was signed by the node, and is not read yet.
    fn take_unconfirmed(&mut self, body: Vec<u8>);

    /// A sign of life that waits is to be answered: with 200, or with 500 and these words.
    fn met(&mut self, meeting: MeetingId, failure: Option<String>);

    /// The largest height that a partner has told, or that of the nemesis block if none did, is to be told to all who
    /// wait for it.
    fn tell_largest_height(&mut self, inquiry: InquiryId, height: Height);

    /// Network time is to change by so many milliseconds.
    fn shift_clock(&mut self, millis: i64);
}
