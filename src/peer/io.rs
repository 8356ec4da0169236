//! Interface between the peer state machine and its host.
//!
//! The host passes in the time, the results of requests and the messages of peers, and carries out the actions: an
//! event loop with sockets, a simulation with queues.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use super::wire::{BlockList, EncodedRequest, Endpoint};
use crate::crypto::Signature;
use crate::model::{Address, Hash256, Height, Timestamp};

/// The present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Time since the start of the node.
    pub monotonic: Duration,
    /// Network time, for timestamps.
    pub network: Timestamp,
    /// Network time in milliseconds, for comparing clocks.
    pub network_millis: i64,
}

/// Id of a request to a peer. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Id of a sign of life whose sender waits for an answer. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VerificationId(pub u64);

/// Id of a query for the peers' largest height, which any number of clients may wait for. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MaxHeightQueryId(pub u64);

/// Result of a request to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Answer with status 200.
    Answer {
        /// Body.
        body: Vec<u8>,
        /// Address that answered.
        from: IpAddr,
    },
    /// Answer with another status.
    ErrorStatus {
        /// Status.
        status: u16,
        /// Body.
        body: Vec<u8>,
    },
    /// No connection.
    Unreachable(String),
    /// Connected, but timed out.
    TimedOut,
    /// Any other failure.
    Failed(String),
}

/// Validation result of a peer's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationOutcome {
    /// Valid; they have replaced ours above the common block.
    Better,
    /// No statement about the peer: our chain has changed meanwhile, or this node could not validate them.
    Neutral,
    /// No statement about the peer: they would roll back more blocks than the rewrite limit allows.
    TooDeep,
    /// Invalid, or no better than ours.
    Bad,
}

/// The store could not be read; the host knows the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreUnreadable;

impl fmt::Display for StoreUnreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store cannot be read")
    }
}

impl std::error::Error for StoreUnreadable {}

/// Our tip.
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

/// Blocks of a peer to validate as a replacement of ours above the common block.
#[derive(Debug)]
pub struct FetchedBlocks {
    /// Peer that sent them, to be named with the validation result.
    pub from: Address,
    /// Last common block.
    pub common: Height,
    /// Our tip when the chains were compared; if it has changed, the blocks are discarded.
    pub base: Hash256,
    /// Undecoded blocks in order of height.
    pub blocks: BlockList,
}

/// Importance of a node's account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Importance {
    /// Importance of the account, or of the one that delegated its importance to it; 0 if not computed last time.
    pub value: f64,
}

/// Reads of our chain, and actions of the host.
pub trait PeerIo {
    /// Sends a request to a peer. Its result is reported exactly once, but not from within this call.
    fn send(&mut self, to: &Endpoint, request: EncodedRequest) -> CallId;

    /// Cancels a request. Its result must not be reported.
    fn cancel(&mut self, call: CallId);

    /// Returns 64 unpredictable random bits.
    fn random(&mut self) -> u64;

    /// Returns our tip.
    fn tip(&self) -> Result<OwnTip, StoreUnreadable>;

    /// Returns the hashes of our blocks from height `first` on, at most `max`.
    fn hashes_from(&self, first: Height, max: u64) -> Result<Vec<Hash256>, StoreUnreadable>;

    /// Returns the short ids of all transactions in the mempool and of their cosignatures.
    fn short_ids(&self) -> Vec<crate::mempool::ShortId>;

    /// Returns the importance of a node's account at the last calculation.
    fn importance(&self, node: &Address) -> Result<Importance, StoreUnreadable>;

    /// Returns the number of accounts in the last importance calculation.
    fn important_accounts(&self) -> Result<u64, StoreUnreadable>;

    /// Validates blocks. [`super::Manager::on_blocks_validated`] must be called with the result, later and once.
    fn validate(&mut self, pulled: FetchedBlocks);

    /// Adds a peer's unconfirmed transactions to the mempool as a batch. `body` is the undecoded answer with valid
    /// signature.
    fn submit_unconfirmed(&mut self, body: Vec<u8>);

    /// Answers a waiting sign of life: with status 200, or with 500 and this message.
    fn sign_of_life_verified(&mut self, verification: VerificationId, failure: Option<String>);

    /// Returns the largest height that a peer reported, or the nemesis height if none did, to all that wait for it.
    fn report_max_height(&mut self, query: MaxHeightQueryId, height: Height);

    /// Shifts network time by this many milliseconds.
    fn shift_clock(&mut self, millis: i64);
}
