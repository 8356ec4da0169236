//! Requests to peers, and how their answers and pushes are authenticated.
//!
//! All requests are POSTs with a body in one format that ask for an answer in the same. The requester sends random bytes,
//! and the answer contains their signature.
//!
//! The signature covers only these bytes, not the answer. A push is signed in the same way, over a hash of 32 bytes
//! ([`SecureEntity`]), so a node that signed arbitrary bytes would let others push in its name: only
//! challenges of [`CHALLENGE_BYTES`] bytes are signed. Clients that send others get their answer with a signature of
//! zeros.

use std::time::Duration;

use super::chain::{ChainRequest, LazyList, ShortIds};
use super::node::{Endpoint, Identity, NodeInfo};
use super::{ReadField, WriteField};
use crate::codec::binary::BinaryDecoder;
use crate::codec::json::JsonDecoder;
use crate::codec::{self, Context, Decoder, Encoder, Format, ReadError, Readable, Writable};
use crate::crypto::hash::keccak256;
use crate::crypto::{KeyPair, PublicKey, Signature, verify};
use crate::ip::Scope;
use crate::model::network::ChainParameters;
use crate::model::{Block, Height, Transaction};
use crate::net::fetch::{self, FetchRequest, Method};

/// Bytes of a challenge.
pub const CHALLENGE_BYTES: usize = 64;
/// Prefix of everything that nodes sign for each other.
const PREFIX: &[u8] = b"nem trust challenge:";

/// Returns the bytes that a node signs to prove its key.
fn signed_payload(key: &PublicKey, salt: &[u8]) -> Vec<u8> {
    [PREFIX, &key.0, salt].concat()
}

/// Random bytes that the queried node must sign.
#[derive(Clone, derive_more::Debug, PartialEq, Eq)]
#[debug("Challenge({})", hex::encode(_0))]
pub struct Challenge(pub [u8; CHALLENGE_BYTES]);

impl Challenge {
    /// Signs the challenge.
    pub fn sign(&self, pair: &KeyPair) -> Signature {
        pair.sign(&signed_payload(&pair.public(), &self.0))
    }

    /// Returns whether the owner of a key has signed the challenge.
    pub fn is_signed_by(&self, key: &PublicKey, signature: &Signature) -> bool {
        verify(key, &signed_payload(key, &self.0), signature) == Ok(true)
    }
}

impl Writable for Challenge {
    fn write(&self, sink: &mut impl Encoder) {
        sink.bytes("data", Some(&self.0));
    }
}

impl Readable for Challenge {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        const WRONG: &str =
            "challenge must be 64 bytes: signing another length would let others push in this node's name";
        AnyChallenge::read(source)?.0.ok_or_else(|| ReadError::Argument(WRONG.to_owned()))
    }
}

/// Maximum bytes of a challenge that is answered at all.
pub const MAX_CHALLENGE_BYTES: usize = 1_024;

/// A challenge of any length up to [`MAX_CHALLENGE_BYTES`]; `None` if it does not have the regular one, so that it is
/// never signed.
pub struct AnyChallenge(pub Option<Challenge>);

impl Readable for AnyChallenge {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let bytes = source.need_bytes("data")?;
        match bytes.as_ref().try_into() {
            Ok(proper) => Ok(AnyChallenge(Some(Challenge(proper)))),
            Err(_) if bytes.len() <= MAX_CHALLENGE_BYTES => Ok(AnyChallenge(None)),
            Err(_) => {
                Err(ReadError::Argument(format!("challenge must be 64 bytes, but has more than {MAX_CHALLENGE_BYTES}")))
            }
        }
    }
}

message! {
    /// Request with a challenge.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AuthenticatedRequest<T, C = Challenge> {
        /// Requested data.
        pub entity: T = object "entity",
        /// Challenge to sign.
        pub challenge: C = object "challenge",
    }
}

message! {
    /// Answer with a proof of identity.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AuthenticatedResponse<T> {
        /// Answer; the signature does not cover it.
        pub entity: T = object "entity",
        /// Signature of the challenge.
        pub signature: Signature = "signature",
    }
}

/// Error in an authenticated answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The answer cannot be decoded.
    #[error("the answer cannot be decoded: {0}")]
    Unreadable(#[from] ReadError),
    /// The answer is not signed by the queried node.
    #[error("the answer is not signed by the queried node")]
    Impersonated,
}

/// Placeholder for an entity that is not decoded.
struct Undecoded;

impl Readable for Undecoded {
    fn read<'a, S: Decoder<'a>>(_: &mut S) -> Result<Self, ReadError> {
        Ok(Undecoded)
    }
}

/// How to check and decode an authenticated answer. The caller must bound the body ([`super::limits`]). Each check costs one
/// signature verification.
#[derive(Clone, Debug)]
pub struct AnswerContext {
    /// Format of the answer.
    pub format: Format,
    /// Network context for decoding.
    pub context: Context,
    /// Challenge that the answer must sign.
    pub challenge: Challenge,
    /// Key of the queried peer; `None` if its answer introduces it ([`AnswerContext::read_introduction`]).
    pub key: Option<PublicKey>,
}

impl AnswerContext {
    /// Checks and decodes an answer; ignores trailing bytes. Nothing of an answer without the right signature is decoded.
    pub fn read<T: Readable>(&self, body: &[u8]) -> Result<T, AnswerError> {
        let answer: AuthenticatedResponse<T> = match self.format {
            Format::Binary => {
                self.check_signer(&mut BinaryDecoder::new(body, self.context))?;
                AuthenticatedResponse::read(&mut BinaryDecoder::new(body, self.context))?
            }
            Format::Json => {
                let value = codec::parse(body)?;
                self.check_signer(&mut JsonDecoder::new(&value, self.context)?)?;
                AuthenticatedResponse::read(&mut JsonDecoder::new(&value, self.context)?)?
            }
        };
        Ok(answer.entity)
    }

    /// Checks the signature of a list, whose elements are decoded one by one; those of more than `max_element` bytes are not.
    pub fn open_list<T: Readable>(&self, body: Vec<u8>, max_element: usize) -> Result<LazyList<T>, AnswerError> {
        match self.format {
            Format::Binary => {
                self.check_signer(&mut BinaryDecoder::new(&body, self.context))?;
                Ok(LazyList::of_binary(body, self.context, true, max_element)?)
            }
            Format::Json => {
                let value = codec::parse(&body)?;
                self.check_signer(&mut JsonDecoder::new(&value, self.context)?)?;
                Ok(LazyList::of_json(value, body.len(), true)?)
            }
        }
    }

    fn check_signer<'a, S: Decoder<'a>>(&self, source: &mut S) -> Result<(), AnswerError> {
        let AuthenticatedResponse::<Undecoded> { signature, .. } = AuthenticatedResponse::read(source)?;
        self.check(self.key.as_ref(), &signature)
    }

    fn check(&self, key: Option<&PublicKey>, signature: &Signature) -> Result<(), AnswerError> {
        let is_signed = key.is_some_and(|key| self.challenge.is_signed_by(key, signature));
        is_signed.then_some(()).ok_or(AnswerError::Impersonated)
    }

    /// Decodes the description of a node with an unknown key, and checks the signature with the key that it contains.
    pub fn read_introduction(&self, body: &[u8]) -> Result<NodeInfo, AnswerError> {
        let AuthenticatedResponse::<NodeInfo> { entity, signature } = self.format.read(body, self.context)?;
        self.check(Some(&entity.identity.key), &signature).map(|()| entity)
    }
}

message! {
    /// Block or transaction with the signature of the relaying node.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SecureEntity<T> {
        /// Entity with its own signatures.
        pub entity: T = object "entity",
        /// Signature of the relaying node over the hash of the entity.
        pub signature: Signature = "signature",
        /// Claimed identity of the relaying node.
        pub identity: Identity = object "identity",
    }
}

impl<T: Writable> SecureEntity<T> {
    /// Signs an entity with the key of the relaying node.
    pub fn sign(entity: T, pair: &KeyPair, name: Option<String>) -> SecureEntity<T> {
        let (payload, _) = payload(&pair.public(), &entity);
        SecureEntity { entity, signature: pair.sign(&payload), identity: Identity { key: pair.public(), name } }
    }

    /// Returns whether the signature belongs to the claimed identity, and the number of hashed bytes.
    pub fn verify(&self) -> (bool, usize) {
        let key = &self.identity.key;
        let (payload, hashed) = payload(key, &self.entity);
        (verify(key, &payload, &self.signature) == Ok(true), hashed)
    }
}

/// Returns the signed bytes, and the length of the entity's binary form.
fn payload(key: &PublicKey, entity: &impl Writable) -> (Vec<u8>, usize) {
    let bytes = Format::Binary.to_bytes(entity);
    (signed_payload(key, &keccak256(&bytes)), bytes.len())
}

/// `{"data": […]}`, bounded by the length of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T: Readable> Readable for List<T> {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        source.need_list("data", T::read).map(List)
    }
}

impl<T: Writable> Writable for List<T> {
    fn write(&self, sink: &mut impl Encoder) {
        self.0.write_field("data", sink);
    }
}

/// Timeouts for a whole request and for a pause within it, as in NIS1.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(180);
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a whole request whose answer is a number or two: a peer that answers byte by byte holds its place no longer. It
/// leaves time for connecting and for one pause, so that a silent peer still fails by these.
const SHORT_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of a whole message, whose answer nobody reads, and what each of its bytes adds: it is sent at 16 kB/s at least.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(8);
const TIME_PER_BYTE: Duration = Duration::from_nanos(62_500);

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
        post(path, body, format, limit)
    }
}

fn authenticated(entity: &impl Writable, challenge: &Challenge, format: Format) -> Vec<u8> {
    format.to_bytes(&AuthenticatedRequest { entity, challenge: challenge.clone() })
}

/// Returns a request without its destination; `limit` is the maximum of the answer's entity in bytes of the binary
/// format.
fn post(path: &str, body: Vec<u8>, format: Format, limit: usize) -> FetchRequest {
    let factor = if format == Format::Json { limits::JSON_FACTOR } else { 1 };
    FetchRequest {
        endpoint: fetch::Endpoint { host: String::new(), port: 0 },
        least_scope: Scope::Global,
        method: Method::Post,
        target: path.to_owned(),
        media_type: format.media_type(),
        body: body.into(),
        body_limit: limit.saturating_mul(factor).saturating_add(limits::ENVELOPE),
        timeout: if limit <= limits::NUMBERS { SHORT_TIMEOUT } else { REQUEST_TIMEOUT },
        read_timeout: READ_TIMEOUT,
        is_idempotent: true,
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
        let bytes = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let request = post(path, body, format, limits::NUMBERS);
        match self {
            Message::CanYouSeeMe(_) => request,
            _ => {
                let timeout = (MESSAGE_TIMEOUT + TIME_PER_BYTE * bytes).min(REQUEST_TIMEOUT);
                FetchRequest { timeout, is_idempotent: false, ..request }
            }
        }
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
    use crate::crypto::PrivateKey;
    use crate::model::Network;

    fn pair(number: u8) -> KeyPair {
        KeyPair::new(&PrivateKey::from_seed(&[number; 32]))
    }

    fn answer_context(format: Format, challenge: &Challenge, key: PublicKey) -> AnswerContext {
        AnswerContext { format, context: context(), challenge: challenge.clone(), key: Some(key) }
    }

    fn context() -> Context {
        Context::of(&Network::example())
    }

    #[test]
    fn only_challenges_of_64_bytes_are_read() {
        for length in [0, 1, 31, 32, 33, 63, 65, 128, 2048, 3000] {
            let bytes = vec![7; length];
            let binary = [&(length as i32).to_le_bytes()[..], &bytes].concat();
            let json = format!("{{\"data\":\"{}\"}}", hex::encode(&bytes));
            for (format, body) in [(Format::Binary, binary), (Format::Json, json.into_bytes())] {
                let error = format.read::<Challenge>(&body, context()).unwrap_err();
                assert_eq!((error.http_status(), &error.to_string()[..26]), (400, "challenge must be 64 bytes"));
                let any = format.read::<AnyChallenge>(&body, context());
                assert_eq!(any.ok().map(|any| any.0), (length <= MAX_CHALLENGE_BYTES).then_some(None), "{length}");
            }
        }
        let challenge = Challenge([7; 64]);
        for format in [Format::Binary, Format::Json] {
            assert_eq!(format.read(&format.to_bytes(&challenge), context()), Ok(challenge.clone()));
            let any = format.read::<AnyChallenge>(&format.to_bytes(&challenge), context());
            assert_eq!(any.map(|any| any.0), Ok(Some(challenge.clone())));
        }
    }

    #[test]
    fn an_answer_is_accepted_only_from_the_queried_peer_and_surplus_bytes_are_ignored() {
        let (challenge, asked) = (Challenge([1; 64]), pair(1));
        for format in [Format::Binary, Format::Json] {
            let answer = |signer: &KeyPair, challenge: &Challenge| {
                let answer = AuthenticatedResponse { entity: Height(7), signature: challenge.sign(signer) };
                [format.to_bytes(&answer), b"surplus".to_vec()].concat()
            };
            let read = |body: &[u8]| answer_context(format, &challenge, asked.public()).read::<Height>(body);
            assert_eq!(read(&answer(&asked, &challenge)), Ok(Height(7)));
            assert_eq!(read(&answer(&pair(2), &challenge)), Err(AnswerError::Impersonated));
            assert_eq!(read(&answer(&asked, &Challenge([2; 64]))), Err(AnswerError::Impersonated));
            assert!(matches!(read(b""), Err(AnswerError::Unreadable(_))));
        }
    }

    #[test]
    fn an_impersonated_answer_is_not_decoded() {
        let challenge = Challenge([1; 64]);
        let height = AuthenticatedResponse { entity: Height(0), signature: challenge.sign(&pair(2)) };
        for format in [Format::Binary, Format::Json] {
            let body = format.to_bytes(&height);
            let read = |key| answer_context(format, &challenge, key).read::<Height>(&body);
            assert_eq!(read(pair(1).public()), Err(AnswerError::Impersonated));
            assert!(matches!(read(pair(2).public()), Err(AnswerError::Unreadable(_))), "no block has the height 0");
        }
    }

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
