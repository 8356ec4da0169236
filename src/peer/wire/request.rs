//! All requests to another node. They are POSTs with a body in one format, and ask for an answer in the same.

use super::authentication::{AuthenticatedRequest, Challenge};
use super::chain::{ChainRequest, ShortIds};
use super::endpoint::Endpoint;
use super::limits;
use super::list::List;
use super::node::NodeInfo;
use super::secure::SecureEntity;
use crate::codec::{Format, Writable};
use crate::model::network::ChainParameters;
use crate::model::{Block, Height, Transaction};

/// A request as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub path: &'static str,
    /// What is sent.
    pub body: Vec<u8>,
    /// Bytes that the body of the answer may have; one that is longer is not worth reading.
    pub answer_limit: usize,
    /// Whether it may be sent once more if a connection breaks: it only asks.
    pub is_idempotent: bool,
}

/// What a node asks another. The answer is an [`super::AuthenticatedResponse`] with what stands beside each question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// Who it is: a [`NodeInfo`].
    NodeInfo,
    /// Some nodes that it works with: a [`super::NodeList`].
    ActivePeers,
    /// What it thinks of others: [`super::NodeExperiences`].
    Experiences,
    /// The height of its last block: a [`Height`].
    Height,
    /// The score of its chain: a [`super::Score`].
    Score,
    /// Its last block: a [`Block`].
    LastBlock,
    /// Its clock: [`super::CommunicationTimeStamps`].
    NetworkTime,
    /// The hashes of its blocks from a height on: a [`super::HashChain`].
    HashesFrom(Height),
    /// Its blocks after a height: a [`super::BlockList`].
    BlocksAfter(ChainRequest),
    /// The block at a height: a [`Block`]; status 404 if there is none.
    BlockAt(Height),
    /// Its unconfirmed transactions but these: a [`super::TransactionList`].
    Unconfirmed(ShortIds),
}

impl Query {
    /// Its path.
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

    /// The request, for a node of the same chain. The limit of the answer follows from what the parameters of the chain
    /// and the question itself allow.
    pub fn request(&self, challenge: &Challenge, format: Format, chain: &ChainParameters) -> Outgoing {
        let body = match self {
            Query::HashesFrom(height) | Query::BlockAt(height) => asked(format, height, challenge),
            Query::BlocksAfter(request) => asked(format, request, challenge),
            Query::Unconfirmed(known) => asked(format, known, challenge),
            _ => format.to_bytes(challenge),
        };
        let answer_limit = answer_limit(self.entity_limit(chain), format);
        Outgoing { path: self.path(), body, answer_limit, is_idempotent: true }
    }

    /// Bytes of what is asked for, at most.
    fn entity_limit(&self, chain: &ChainParameters) -> usize {
        match self {
            Query::NodeInfo => limits::NODE,
            Query::ActivePeers => limits::NODE_LIST,
            Query::Experiences => limits::NODE_EXPERIENCES,
            Query::Height | Query::Score | Query::NetworkTime => limits::NUMBERS,
            Query::BlockAt(Height::NEMESIS) => limits::NEMESIS,
            // A node that has only the nemesis block has no score for which it would be asked.
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

/// Asks for the nemesis block: a [`Block`] without an envelope. Nobody has to prove who he is, as the block tells by
/// itself whether it is right; so a node that has not joined its network answers as well.
pub fn nemesis_request(format: Format) -> Outgoing {
    Outgoing {
        path: "/block/at/public",
        body: format.to_bytes(&Height::NEMESIS),
        answer_limit: answer_limit(limits::NEMESIS, format),
        is_idempotent: true,
    }
}

fn asked(format: Format, entity: &impl Writable, challenge: &Challenge) -> Vec<u8> {
    format.to_bytes(&AuthenticatedRequest { entity, challenge: challenge.clone() })
}

/// Bytes of a body, by those of its entity in the binary format.
fn answer_limit(entity: usize, format: Format) -> usize {
    let factor = match format {
        Format::Binary => 1,
        Format::Json => limits::JSON_FACTOR,
    };
    entity.saturating_mul(factor).saturating_add(limits::ENVELOPE)
}

/// What a node tells another. The answer is empty unless something else stands beside it.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// Where it believes to be reached. The answer is the [`Endpoint`] with the address that the request came from.
    CanYouSeeMe(&'a Endpoint),
    /// That it is there. The other node asks back before it answers.
    SignOfLife(&'a NodeInfo),
    /// Transactions.
    PushTransactions(&'a List<SecureEntity<Transaction>>),
    /// A block.
    PushBlock(&'a SecureEntity<Block>),
}

impl Message<'_> {
    /// Its path.
    pub fn path(&self) -> &'static str {
        match self {
            Message::CanYouSeeMe(_) => "/node/cysm",
            Message::SignOfLife(_) => "/node/sign-of-life",
            Message::PushTransactions(_) => "/push/transactions",
            Message::PushBlock(_) => "/push/block",
        }
    }

    /// The request.
    pub fn request(&self, format: Format) -> Outgoing {
        let body = match self {
            Message::CanYouSeeMe(endpoint) => format.to_bytes(endpoint),
            Message::SignOfLife(node) => format.to_bytes(node),
            Message::PushTransactions(transactions) => format.to_bytes(transactions),
            Message::PushBlock(block) => format.to_bytes(block),
        };
        let is_idempotent = matches!(self, Message::CanYouSeeMe(_));
        Outgoing { path: self.path(), body, answer_limit: answer_limit(limits::NUMBERS, format), is_idempotent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_an_answer_follows_the_question_and_the_chain() {
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
    fn what_changes_something_is_sent_once() {
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
