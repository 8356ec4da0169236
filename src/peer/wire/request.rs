//! All requests to peers: POSTs with a body in one format that ask for an answer in the same.

use super::authentication::{AuthenticatedRequest, Challenge};
use super::chain::{ChainRequest, ShortIds};
use super::endpoint::Endpoint;
use super::limits;
use super::node::NodeInfo;
use super::secure::List;
use super::secure::SecureEntity;
use crate::codec::{Format, Writable};
use crate::model::network::ChainParameters;
use crate::model::{Block, Height, Transaction};

/// Encoded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRequest {
    /// Path.
    pub path: &'static str,
    /// Body.
    pub body: Vec<u8>,
    /// Maximum bytes of the answer's body; a longer answer is not worth reading.
    pub answer_limit: usize,
    /// Whether it may be resent after a connection failure, as it changes nothing.
    pub is_idempotent: bool,
}

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
    /// Returns the path.
    pub fn path(&self) -> &'static str {
        match self {
            Query::NodeInfo => "/node/info",
            Query::ActivePeers => "/node/peer-list/active",
            Query::Experiences => "/node/experiences",
            Query::Height => "/chain/height",
            Query::Score => "/chain/score",
            Query::LastBlock => "/chain/last-block",
            Query::NetworkTime => "/time-sync/network-time",
            Query::HashesFrom(_) => "/chain/hashes-from",
            Query::BlocksAfter(_) => "/chain/blocks-after",
            Query::BlockAt(_) => "/block/at",
            Query::Unconfirmed(_) => "/transactions/unconfirmed",
        }
    }

    /// Encodes the request. The answer limit follows from the chain parameters and the query.
    pub fn request(&self, challenge: &Challenge, format: Format, chain: &ChainParameters) -> EncodedRequest {
        let body = match self {
            Query::HashesFrom(height) | Query::BlockAt(height) => authenticated_body(format, height, challenge),
            Query::BlocksAfter(request) => authenticated_body(format, request, challenge),
            Query::Unconfirmed(known) => authenticated_body(format, known, challenge),
            _ => format.to_bytes(challenge),
        };
        let answer_limit = answer_limit(self.entity_limit(chain), format);
        EncodedRequest { path: self.path(), body, answer_limit, is_idempotent: true }
    }

    /// Returns the maximum bytes of the answer's entity.
    fn entity_limit(&self, chain: &ChainParameters) -> usize {
        match self {
            Query::NodeInfo => limits::NODE,
            Query::ActivePeers => limits::NODE_LIST,
            Query::Experiences => limits::NODE_EXPERIENCES,
            Query::Height | Query::Score | Query::NetworkTime => limits::NUMBERS,
            Query::BlockAt(Height::NEMESIS) => limits::NEMESIS,
            // The tip is requested only of a peer with a greater score, which has more than the nemesis block.
            Query::LastBlock | Query::BlockAt(_) => limits::block(chain),
            Query::HashesFrom(_) => limits::hashes(chain),
            Query::BlocksAfter(request) => {
                let part = request.limits(chain);
                limits::blocks(part.blocks, part.transactions)
            }
            Query::Unconfirmed(_) => limits::UNCONFIRMED,
        }
    }
}

/// Encodes a request for the nemesis block: a [`Block`] without an envelope. The block itself shows whether it is
/// right, so no proof of identity is needed, and a node that has not joined its network answers too.
pub fn nemesis_request(format: Format) -> EncodedRequest {
    EncodedRequest {
        path: "/block/at/public",
        body: format.to_bytes(&Height::NEMESIS),
        answer_limit: answer_limit(limits::NEMESIS, format),
        is_idempotent: true,
    }
}

fn authenticated_body(format: Format, entity: &impl Writable, challenge: &Challenge) -> Vec<u8> {
    format.to_bytes(&AuthenticatedRequest { entity, challenge: challenge.clone() })
}

/// Returns the maximum bytes of a body for those of its entity in the binary format.
fn answer_limit(entity: usize, format: Format) -> usize {
    let factor = match format {
        Format::Binary => 1,
        Format::Json => limits::JSON_FACTOR,
    };
    entity.saturating_mul(factor).saturating_add(limits::ENVELOPE)
}

/// Message to a peer. The answer is empty unless stated below.
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
    /// Returns the path.
    pub fn path(&self) -> &'static str {
        match self {
            Message::CanYouSeeMe(_) => "/node/cysm",
            Message::SignOfLife(_) => "/node/sign-of-life",
            Message::PushTransactions(_) => "/push/transactions",
            Message::PushBlock(_) => "/push/block",
        }
    }

    /// Encodes the request.
    pub fn request(&self, format: Format) -> EncodedRequest {
        let body = match self {
            Message::CanYouSeeMe(endpoint) => format.to_bytes(endpoint),
            Message::SignOfLife(node) => format.to_bytes(node),
            Message::PushTransactions(transactions) => format.to_bytes(transactions),
            Message::PushBlock(block) => format.to_bytes(block),
        };
        let is_idempotent = matches!(self, Message::CanYouSeeMe(_));
        EncodedRequest { path: self.path(), body, answer_limit: answer_limit(limits::NUMBERS, format), is_idempotent }
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
        let limit = |query: Query, chain| query.request(&challenge, Format::Binary, chain).answer_limit;
        let blocks = |transactions| Query::BlocksAfter(ChainRequest::new(Height(1), 10, transactions, &chain));
        assert_eq!(limit(Query::HashesFrom(Height(1)), &chain), 400 * 40 + 1024);
        assert_eq!(limit(Query::HashesFrom(Height(1)), &small), 60 * 40 + 1024);
        assert_eq!(limit(blocks(10_000), &chain), 400 * 256 + 10_000 * 4096 + 1024);
        assert_eq!(limit(blocks(1), &chain), 400 * 256 + 120 * 4096 + 1024);
        assert_eq!(limit(blocks(10_000), &small), 60 * 256 + 2400 * 4096 + 1024);
        assert_eq!(limit(Query::BlockAt(Height(2)), &chain), 256 + 120 * 4096 + 1024);
        assert!(limit(Query::BlockAt(Height(1)), &chain) > 279_786);
        let json = Query::Height.request(&challenge, Format::Json, &chain);
        assert_eq!((json.answer_limit, json.path, json.is_idempotent), (4 * 64 + 1024, "/chain/height", true));
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
            assert_eq!((request.is_idempotent, request.answer_limit), (is_idempotent, 1088), "{}", request.path);
        }
    }
}
