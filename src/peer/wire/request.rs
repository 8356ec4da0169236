//! All requests to peers: POSTs with a body in one format that ask for an answer in the same.

use std::time::Duration;

use super::authentication::{AuthenticatedRequest, Challenge, List, SecureEntity};
use super::chain::{ChainRequest, ShortIds};
use super::node::{Endpoint, NodeInfo};
use crate::codec::{Format, Writable};
use crate::ip::Scope;
use crate::model::network::ChainParameters;
use crate::model::{Block, Height, Transaction};
use crate::net::fetch::{self, FetchRequest, Method};

/// Timeouts for a whole request and for a pause within it, as in NIS1.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(180);
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Query to a peer. The answer is an [`super::AuthenticatedResponse`] with the type given below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// The peer's description: a [`NodeInfo`].
    NodeInfo,
    /// Some of the peer's active peers: a [`super::NodeList`].
    ActivePeers,
    /// Its experiences: [`super::NodeExperiences`].
    Experiences,
    /// The height of its tip: a [`Height`].
    Height,
    /// The score of its chain: a [`super::Score`].
    Score,
    /// Its tip: a [`Block`].
    LastBlock,
    /// Its clock: [`super::CommunicationTimeStamps`].
    NetworkTime,
    /// The hashes of its blocks from a height on: a [`super::HashChain`].
    HashesFrom(Height),
    /// Its blocks after a height: a [`super::BlockList`].
    BlocksAfter(ChainRequest),
    /// The block at a height: a [`Block`]; status 404 if there is none.
    BlockAt(Height),
    /// Its unconfirmed transactions without these: a [`super::TransactionList`].
    Unconfirmed(ShortIds),
}

impl Query {
    /// Encodes the request, without its destination. The answer limit follows from the chain parameters and the query.
    pub fn request(&self, challenge: &Challenge, format: Format, chain: &ChainParameters) -> FetchRequest {
        let plain = || format.to_bytes(challenge);
        let (path, limit, body) = match self {
            Query::NodeInfo => ("/node/info", limits::NODE, plain()),
            Query::ActivePeers => ("/node/peer-list/active", limits::NODE_LIST, plain()),
            Query::Experiences => ("/node/experiences", limits::NODE_EXPERIENCES, plain()),
            Query::Height => ("/chain/height", limits::NUMBERS, plain()),
            Query::Score => ("/chain/score", limits::NUMBERS, plain()),
            // The tip is requested only of a peer with a greater score, which has more than the nemesis block.
            Query::LastBlock => ("/chain/last-block", limits::block(chain), plain()),
            Query::NetworkTime => ("/time-sync/network-time", limits::NUMBERS, plain()),
            Query::HashesFrom(first) => {
                ("/chain/hashes-from", limits::hashes(chain), authenticated(first, challenge, format))
            }
            Query::BlocksAfter(request) => {
                let part = request.limits(chain);
                let limit = limits::blocks(part.blocks, part.transactions);
                ("/chain/blocks-after", limit, authenticated(request, challenge, format))
            }
            Query::BlockAt(height) => {
                let limit = if *height == Height::NEMESIS { limits::NEMESIS } else { limits::block(chain) };
                ("/block/at", limit, authenticated(height, challenge, format))
            }
            Query::Unconfirmed(known) => {
                ("/transactions/unconfirmed", limits::UNCONFIRMED, authenticated(known, challenge, format))
            }
        };
        post(path, body, format, limit, true)
    }
}

fn authenticated(entity: &impl Writable, challenge: &Challenge, format: Format) -> Vec<u8> {
    format.to_bytes(&AuthenticatedRequest { entity, challenge: challenge.clone() })
}

/// Returns a request without its destination; `limit` is the maximum of the answer's entity in bytes of the binary
/// format.
fn post(path: &str, body: Vec<u8>, format: Format, limit: usize, is_idempotent: bool) -> FetchRequest {
    let factor = if format == Format::Json { limits::JSON_FACTOR } else { 1 };
    FetchRequest {
        endpoint: fetch::Endpoint { host: String::new(), port: 0 },
        least_scope: Scope::Global,
        method: Method::Post,
        target: path.to_owned(),
        media_type: format.media_type(),
        body: body.into(),
        body_limit: limit.saturating_mul(factor).saturating_add(limits::ENVELOPE),
        timeout: REQUEST_TIMEOUT,
        read_timeout: READ_TIMEOUT,
        is_idempotent,
    }
}

/// Message to a peer, whose answer needs no proof of identity and is empty unless stated below.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// Own endpoint. The answer is the [`Endpoint`] with the address that the request came from.
    CanYouSeeMe(&'a Endpoint),
    /// Announcement of this node. The peer verifies it before it answers.
    SignOfLife(&'a NodeInfo),
    /// Transactions.
    PushTransactions(&'a List<SecureEntity<Transaction>>),
    /// A block.
    PushBlock(&'a SecureEntity<Block>),
}

impl Message<'_> {
    /// Encodes the request, without its destination.
    pub fn request(&self, format: Format) -> FetchRequest {
        let (path, body) = match self {
            Message::CanYouSeeMe(endpoint) => ("/node/cysm", format.to_bytes(endpoint)),
            Message::SignOfLife(node) => ("/node/sign-of-life", format.to_bytes(node)),
            Message::PushTransactions(transactions) => ("/push/transactions", format.to_bytes(transactions)),
            Message::PushBlock(block) => ("/push/block", format.to_bytes(block)),
        };
        post(path, body, format, limits::NUMBERS, matches!(self, Message::CanYouSeeMe(_)))
    }
}

/// Maximum sizes of messages. All are bytes of the binary format unless stated otherwise; JSON bodies may be
/// [`JSON_FACTOR`](limits::JSON_FACTOR) times as long.
pub mod limits {
    use crate::codec::Format;
    use crate::model::network::ChainParameters;

    /// Maximum JSON bytes per binary byte: a byte takes two hex digits, and every field has a name.
    pub const JSON_FACTOR: usize = 4;
    /// Overhead of an answer: signature, error text instead of an answer, and a few ignored trailing bytes.
    pub const ENVELOPE: usize = 1 << 10;
    /// One or two numbers.
    pub const NUMBERS: usize = 64;
    /// Node with texts of maximum length.
    pub const NODE: usize = 2 << 10;
    /// Number of nodes in a list.
    pub const LISTED_NODES: usize = 1000;
    /// List of nodes. A node takes about 200 bytes.
    pub const NODE_LIST: usize = 1 << 20;
    /// Number of nodes in an experience report. NIS1 never sends more.
    pub const EXPERIENCES: usize = 100;
    /// Experience report.
    pub const NODE_EXPERIENCES: usize = (EXPERIENCES + 1) * (NODE + NUMBERS);
    /// Hash in a list.
    pub const HASH: usize = 40;
    /// Block without transactions.
    pub const BLOCK_HEAD: usize = 256;
    /// Transaction; one with the longest message and ten mosaics takes about 3,300. Inner transactions count separately.
    pub const TRANSACTION: usize = 4 << 10;
    /// Nemesis block, whose transactions have no limit. Mainnet's takes 279,786.
    pub const NEMESIS: usize = 4 << 20;
    /// Unconfirmed transactions of a peer. If there are more, they arrive with later blocks.
    pub const UNCONFIRMED: usize = 4 << 20;

    /// Push, whatever the chain parameters.
    pub const PUSHED: usize = 1 << 20;
    /// The same in JSON, which is decoded in one go: the worst case takes some milliseconds. A block of 120 transactions
    /// with messages of 512 bytes takes about 200,000.
    pub const PUSHED_JSON: usize = 256 << 10;

    /// Returns the limit of a block other than the nemesis block.
    pub fn block(chain: &ChainParameters) -> usize {
        blocks(1, u64::from(chain.max_transactions_per_block))
    }

    /// Returns the limit of this many blocks and transactions; inner transactions count too.
    pub fn blocks(blocks: u64, transactions: u64) -> usize {
        let [blocks, transactions] = [blocks, transactions].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        blocks.saturating_mul(BLOCK_HEAD).saturating_add(transactions.saturating_mul(TRANSACTION))
    }

    /// Returns the limit of a push or a list of known transactions: the largest block, but at most [`PUSHED`] or
    /// [`PUSHED_JSON`]. Longer blocks arrive by synchronisation.
    pub fn pushed(chain: &ChainParameters, format: Format) -> usize {
        let most = match format {
            Format::Binary => PUSHED,
            Format::Json => PUSHED_JSON,
        };
        block(chain).saturating_add(ENVELOPE).min(most)
    }

    /// Returns the limit of a hash list.
    pub fn hashes(chain: &ChainParameters) -> usize {
        usize::try_from(chain.max_blocks_per_sync()).unwrap_or(usize::MAX).saturating_mul(HASH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_limit_follows_the_request_and_the_chain() {
        let chain = ChainParameters::after_all_forks();
        let small = ChainParameters { rewrite_limit: 20, max_transactions: 2400, ..chain.clone() };
        let challenge = Challenge([0; 64]);
        let limit = |query: Query, chain| query.request(&challenge, Format::Binary, chain).body_limit;
        let blocks = |transactions| Query::BlocksAfter(ChainRequest::new(Height(1), 10, transactions, &chain));
        assert_eq!(limit(Query::HashesFrom(Height(1)), &chain), 400 * 40 + 1024);
        assert_eq!(limit(Query::HashesFrom(Height(1)), &small), 60 * 40 + 1024);
        assert_eq!(limit(blocks(10_000), &chain), 400 * 256 + 10_000 * 4096 + 1024);
        assert_eq!(limit(blocks(1), &chain), 400 * 256 + 120 * 4096 + 1024);
        assert_eq!(limit(blocks(10_000), &small), 60 * 256 + 2400 * 4096 + 1024);
        assert_eq!(limit(Query::BlockAt(Height(2)), &chain), 256 + 120 * 4096 + 1024);
        assert!(limit(Query::BlockAt(Height(1)), &chain) > 279_786);
        let json = Query::Height.request(&challenge, Format::Json, &chain);
        assert_eq!((json.body_limit, &*json.target, json.is_idempotent), (4 * 64 + 1024, "/chain/height", true));
    }

    #[test]
    fn requests_with_side_effects_are_not_idempotent() {
        let node = NodeInfo {
            identity: super::super::Identity { key: crate::crypto::PublicKey([1; 32]), name: None },
            endpoint: Endpoint::http("a", 1),
            meta_data: Default::default(),
        };
        for (message, is_idempotent) in [
            (Message::CanYouSeeMe(&node.endpoint), true),
            (Message::SignOfLife(&node), false),
            (Message::PushTransactions(&List(Vec::new())), false),
        ] {
            let request = message.request(Format::Binary);
            assert_eq!((request.is_idempotent, request.body_limit), (is_idempotent, 1088), "{}", request.target);
        }
    }
}
