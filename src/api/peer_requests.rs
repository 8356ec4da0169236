//! Routes for peers, which other clients may use too: handlers and streams. Signed challenges authenticate this node.

use std::net::IpAddr;

use super::blocks::{BlockStream, REPLACED};
use super::node::{AnswerOfPeers, time_stamps};
use super::transactions::unconfirmed_list;
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::{ChainSnapshot, PeerBlockSize};
use crate::api::error::ApiError;
use crate::api::media::Format;
use crate::api::request_context::RequestContext;
use crate::api::streams::{BodyWriter, ListSize, ListWriter, ResponseStream, list_bytes, list_stream};
use crate::api::views::{Data, DataListHead, View};
use crate::codec::binary::BinaryEncoder;
use crate::crypto::Signature;
use crate::model::{Hash256, Height};
use crate::net::service::Progress;
use crate::peer::ClientAnswer;
use crate::peer::wire::{
    AnyChallenge, AuthenticatedRequest, AuthenticatedResponse, BlockListLimits, ChainRequest, Endpoint, NodeInfo,
    Score, ShortIds, SignOfLife,
};

/// Signs the challenge of the client; fails unless the node has joined its network. A malformed challenge is answered
/// with a signature of zeros, as the client has no use for one.
fn sign(context: &mut RequestContext<'_>, challenge: &AnyChallenge) -> Result<Signature, ApiError> {
    context.require_joined()?;
    let AnyChallenge::Valid(challenge) = challenge else { return Ok(Signature([0; 64])) };
    context.budget.charge(cost::SIGNATURE);
    Ok(context.node.sign_challenge(challenge))
}

/// Responds with an object and the signed challenge.
fn send_signed(context: &mut RequestContext<'_>, entity: &impl View) -> Result<(), ApiError> {
    let challenge = context.body()?;
    let signature = sign(context, &challenge)?;
    context.send(&AuthenticatedResponse { entity, signature })
}

/// `POST /chain/height`
pub fn height(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let height = context.chain.height;
    send_signed(context, &height)
}

/// `POST /chain/score`
pub fn score(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let score = context.chain.score()?;
    send_signed(context, &Score(score))
}

/// `POST /chain/last-block`
pub fn last_block(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let challenge = context.body()?;
    let signature = sign(context, &challenge)?;
    context.send_stream(BlockStream::new(context.chain.height).signed(signature))
}

/// `POST /block/at`
pub fn block_at(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let AuthenticatedRequest::<Height, AnyChallenge> { entity: height, challenge } = context.body()?;
    let signature = sign(context, &challenge)?;
    if !context.chain.has_block(height) {
        return Err(ApiError::no_block(height));
    }
    context.send_stream(BlockStream::new(height).signed(signature))
}

/// `POST /node/info`
pub fn info(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let node = context.node.description().info.clone();
    send_signed(context, &node)
}

/// `POST /node/peer-list/active`
pub fn active_nodes(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let nodes = context.node.active_peer_sample();
    send_signed(context, &nodes)
}

/// `POST /node/experiences`
pub fn experiences(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let experiences = context.node.experiences();
    send_signed(context, &experiences)
}

/// `POST /time-sync/network-time`
pub fn network_time(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let time = time_stamps(context);
    send_signed(context, &time)
}

/// `POST /node/cysm`: tells the client its own address.
pub fn can_you_see_me(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let endpoint: Endpoint = context.body()?;
    context.send(&Endpoint { host: shown_address(context.client.address), ..endpoint })
}

/// Formats an address as NIS1 does: IPv6 in brackets, with all its parts.
fn shown_address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{}]", address.segments().map(|part| format!("{part:x}")).join(":")),
    }
}

/// `POST /chain/hashes-from`
pub fn hashes_from(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let AuthenticatedRequest::<Height, AnyChallenge> { entity: first, challenge } = context.body()?;
    let signature = sign(context, &challenge)?;
    let last = first.plus(context.chain.network.chain.max_blocks_per_sync() - 1).min(context.chain.height);
    context.send_stream(hash_list(first, last, signature))
}

/// `POST /chain/blocks-after`
pub fn blocks_after(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let AuthenticatedRequest::<ChainRequest, AnyChallenge> { entity: request, challenge } = context.body()?;
    let signature = sign(context, &challenge)?;
    let limits = request.limits(&context.chain.network.chain);
    context.send_stream(BlockRangeStream::new(request.after, limits, signature))
}

/// `POST /transactions/unconfirmed`
pub fn unconfirmed(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let AuthenticatedRequest::<ShortIds, AnyChallenge> { entity: ShortIds(known), challenge } = context.body()?;
    let signature = sign(context, &challenge)?;
    let transactions = context.node.unknown_to(&known.into_iter().collect());
    context.budget.charge(cost::listed(transactions.len()));
    context.send_stream(unconfirmed_list(transactions, Some(signature)))
}

/// `POST /node/sign-of-life`
pub fn sign_of_life(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let node: NodeInfo = context.body()?;
    handle_sign_of_life(context, &node)
}

/// `POST /node/ping`
pub fn ping(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let SignOfLife(node) = context.body()?;
    handle_sign_of_life(context, &node)
}

/// Handles a sign of life of a peer, which may be verified by a request back to it before the response. If the address
/// of the client is unknown, no request is made: it would go to a proxy, whose host an attacker could then have scanned
/// for open ports.
fn handle_sign_of_life(context: &mut RequestContext<'_>, node: &NodeInfo) -> Result<(), ApiError> {
    context.require_joined()?;
    if context.client.is_unidentified {
        return Ok(());
    }
    match context.node.sign_of_life(node, context.client.address) {
        Some(ClientAnswer::Rejected(reason)) => Err(ApiError::Internal(reason.into())),
        Some(_) => Ok(()),
        None => context.run_stream(AnswerOfPeers(None)),
    }
}

/// The last written block of a range, to detect that it left the chain: a response that mixes two branches would make
/// the peer treat this node as malicious.
#[derive(Clone, Copy)]
struct LastWritten {
    height: Height,
    hash: Hash256,
}

impl LastWritten {
    fn check(this: Option<LastWritten>, view: &ChainSnapshot<'_>) -> Result<(), ApiError> {
        let Some(LastWritten { height, hash }) = this else { return Ok(()) };
        match view.header(height)? {
            Some(block) if block.hash == hash => Ok(()),
            _ => Err(REPLACED),
        }
    }
}

/// The signed hashes from a height up to a height that the chain has; empty if the latter is lower.
fn hash_list(first: Height, end: Height, signature: Signature) -> impl ResponseStream {
    let (mut next, mut last) = (first, None);
    let list = list_stream(move |step| {
        LastWritten::check(last, step.view)?;
        while next <= end {
            let block = step.view.header(next)?.ok_or(REPLACED)?;
            step.push(&Data(&block.hash.0));
            last = Some(LastWritten { height: next, hash: block.hash });
            next = next.next();
            step.budget.charge(cost::HEADER);
            if !step.should_continue((end.0 + 1).saturating_sub(next.0) as usize) {
                break;
            }
        }
        Ok(())
    });
    list.signed(signature)
}

/// Blocks per query after the first one.
const NEXT_QUERY: u64 = 100;

/// Signed stream of blocks whose transactions are within the limit that the peer requests. The transactions are counted
/// first, then the blocks are written as they are stored. The number of blocks and of bytes is then known, so the
/// response is streamed and never held as a whole.
pub struct BlockRangeStream {
    limits: BlockListLimits,
    signature: Signature,
    counter: TransactionCounter,
    current: BlockStream,
    list: Option<ListWriter>,
}

/// Counter of transactions.
struct TransactionCounter {
    /// Next height to count.
    next: Height,
    /// Transactions of the blocks counted so far, as NIS1 counts them.
    total: u64,
    /// The same with each multisig transaction counted once: NIS1 recounts from this value at every further query.
    plain: u64,
    /// Last height of the current query.
    query_end: Height,
    /// Bytes of the counted blocks in the binary format, with their length prefixes.
    bytes: usize,
    /// The last counted block.
    last: Option<LastWritten>,
    /// Counting is complete; `next` is the first block that is left out.
    is_done: bool,
}

impl BlockRangeStream {
    /// Creates a stream of the blocks after a height.
    pub fn new(after: Height, limits: BlockListLimits, signature: Signature) -> BlockRangeStream {
        let first = after.next();
        let query_end = after.plus(limits.first_query);
        let count = TransactionCounter {
            next: first,
            total: 0,
            plain: 0,
            query_end,
            bytes: 0,
            last: None,
            is_done: first.0 <= after.0,
        };
        BlockRangeStream { limits, signature, counter: count, current: BlockStream::new(first), list: None }
    }

    /// Continues counting; returns whether it is complete.
    fn count(&mut self, view: &ChainSnapshot<'_>, budget: &mut Budget) -> Result<bool, ApiError> {
        let first = self.current.height();
        while !self.counter.is_done {
            let blocks = self.counter.next.0 - first.0;
            if blocks >= self.limits.blocks || !view.has_block(self.counter.next) {
                self.counter.is_done = true;
            } else {
                let counted = view.size_for_peers(self.counter.next)?.ok_or(REPLACED)?;
                self.counter.add_block(counted, self.limits.transactions);
                budget.charge(cost::HEADER);
                if budget.is_exhausted() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl TransactionCounter {
    /// Adds a block if its transactions are within the limit.
    fn add_block(&mut self, counted: PeerBlockSize, limit: u64) {
        self.total += counted.with_children;
        self.plain += counted.plain;
        if self.total > limit {
            self.is_done = true;
            return;
        }
        if self.next == self.query_end {
            self.query_end = self.next.plus(NEXT_QUERY);
            self.total = self.plain;
        }
        self.bytes += BinaryEncoder::LENGTH_BYTES + counted.bytes;
        self.last = Some(LastWritten { height: self.next, hash: counted.hash });
        self.next = self.next.next();
    }
}

impl ResponseStream for BlockRangeStream {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        LastWritten::check(self.counter.last, view)?;
        if !self.count(view, budget)? {
            return Ok(Progress::Yield);
        }
        let list = self.list.get_or_insert_with(|| {
            let count = (self.counter.next.0 - self.current.height().0) as usize;
            let size = ListSize { count, bytes: self.counter.bytes };
            ListWriter::open_sized(
                writer,
                &AuthenticatedResponse { entity: DataListHead, signature: self.signature },
                size,
            )
        });
        while self.current.height() < self.counter.next {
            if self.current.write_in(list, view, writer, budget)? == Progress::Yield {
                return Ok(Progress::Yield);
            }
            self.current = BlockStream::new(self.current.height().next());
            if budget.is_exhausted() {
                return Ok(Progress::Yield);
            }
        }
        list.close(writer);
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        list_bytes(&self.list) + self.current.held_bytes()
    }

    fn is_streamable(&self, _: Format) -> bool {
        true
    }
}
