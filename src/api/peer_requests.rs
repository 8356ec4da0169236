//! Routes for peers, which other clients may use too: handlers and streams. Signed challenges authenticate this node.
//! A push with a valid signature of its sender succeeds, whatever the validation result.

use std::net::IpAddr;

use super::blocks::{BlockBody, REPLACED, height, last_block, score, send_block};
use super::mempool::list_of;
use super::node::network_time;
use super::peers::WaitsForPeers;
use super::routes::{BodyLimit, Route, post};
use super::streams::{BodyWriter, DataListHead, ResponseStream, list_stream};
use super::transactions::{Data, submit};
use super::{ApiError, Command, NodeContext, RequestContext, View};
use crate::budget::cost;
use crate::chain::ChainSnapshot;
use crate::codec::binary::BinaryEncoder;
use crate::crypto::Signature;
use crate::model::transaction::wire_network;
use crate::model::{Block, Hash256, Height, Transaction};
use crate::net::service::Progress;
use crate::peer::Pusher;
use crate::peer::wire::{
    AnyChallenge, AuthenticatedRequest, AuthenticatedResponse, BlockListLimits, ChainRequest, Endpoint, LazyList,
    NodeExperiences, NodeInfo, SecureEntity, ShortIds, SignOfLife,
};
use crate::rules::{ValidationResult, require};
use crate::store::{block_row, stored_header};

/// Routes.
pub const ROUTES: &[Route] = &[
    post("/chain/height", height),
    post("/chain/score", score),
    post("/chain/last-block", last_block),
    post("/block/at", block_at).reading_store(),
    post("/node/info", info),
    post("/node/peer-list/active", active_nodes),
    post("/node/experiences", experiences),
    post("/chain/hashes-from", hashes_from).reading_store(),
    post("/chain/blocks-after", blocks_after).reading_store(),
    post("/transactions/unconfirmed", unconfirmed).with_bodies(BodyLimit::Pushed),
    post("/node/cysm", can_you_see_me),
    post("/node/sign-of-life", sign_of_life),
    post("/node/ping", ping),
    post("/time-sync/network-time", network_time),
    post("/push/transaction", push_transaction).with_bodies(BodyLimit::Large).reading_store().needing_mempool(),
    post("/push/transactions", push_transactions).with_bodies(BodyLimit::Pushed).reading_store().needing_mempool(),
    post("/push/block", push_block).with_bodies(BodyLimit::Pushed),
];

/// Signs the challenge of the client; fails unless the node has joined its network. A malformed challenge is answered
/// with a signature of zeros, as the client has no use for one.
fn sign(context: &mut RequestContext<'_>, AnyChallenge(challenge): &AnyChallenge) -> Result<Signature, ApiError> {
    context.node.require_joined()?;
    let Some(challenge) = challenge else { return Ok(Signature([0; 64])) };
    context.node.budget.charge(cost::SIGNATURE);
    Ok(challenge.sign(context.node.keys))
}

/// Signs the challenge that a peer sends by POST; a GET has none.
pub(super) fn signature_of(context: &mut RequestContext<'_>) -> Result<Option<Signature>, ApiError> {
    if context.request.method != "POST" {
        return Ok(None);
    }
    let challenge = context.body()?;
    sign(context, &challenge).map(Some)
}

/// Responds with an object, to a peer with the signature of its challenge.
pub(super) fn send_signed(context: &mut RequestContext<'_>, entity: &impl View) -> Result<(), ApiError> {
    match signature_of(context)? {
        Some(signature) => context.response.send(&AuthenticatedResponse { entity, signature }),
        None => context.response.send(entity),
    }
}

/// `POST /block/at`
fn block_at(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let AuthenticatedRequest::<Height, AnyChallenge> { entity: height, challenge } = context.body()?;
    let signature = sign(context, &challenge)?;
    send_block(context, height, Some(signature))
}

/// `POST /node/info`
fn info(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let info = context.node.info;
    send_signed(context, &info)
}

/// `POST /node/peer-list/active`
fn active_nodes(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let nodes = context.node.peers_to_share();
    send_signed(context, &nodes)
}

/// `POST /node/experiences`
fn experiences(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let mut random = || context.node.randomness.next_u64();
    let experiences = match &context.node.peers {
        Some(peers) => peers.experiences(&mut random),
        None => NodeExperiences { node: context.node.info.clone(), experiences: Vec::new() },
    };
    send_signed(context, &experiences)
}

/// `POST /node/cysm`: tells the client its own address.
fn can_you_see_me(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let endpoint: Endpoint = context.body()?;
    context.response.send(&Endpoint { host: shown_address(context.client.address), ..endpoint })
}

/// Formats an address as NIS1 does: IPv6 in brackets, with all its parts.
fn shown_address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{}]", address.segments().map(|part| format!("{part:x}")).join(":")),
    }
}

/// `POST /chain/hashes-from`
fn hashes_from(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let AuthenticatedRequest::<Height, AnyChallenge> { entity: first, challenge } = context.body()?;
    let signature = sign(context, &challenge)?;
    let chain = context.node.chain;
    let end = first.plus(chain.network.chain.max_blocks_per_sync() - 1).min(chain.height);
    let (mut next, mut last) = (first, None);
    let list = list_stream(move |step| {
        let chain = step.node.chain;
        require_in_chain(last, &chain)?;
        while next <= end {
            let block = stored_header(chain.snapshot, next)?.ok_or(REPLACED)?;
            step.push(&Data(&block.hash.0));
            last = Some((next, block.hash));
            next = next.next();
            step.node.budget.charge(cost::HEADER);
            if !step.should_continue((end.0 + 1).saturating_sub(next.0) as usize) {
                break;
            }
        }
        Ok(())
    });
    context.send_stream(list.signed(signature))
}

/// `POST /chain/blocks-after`: the signed list of the blocks after a height whose transactions are within the limit that the
/// peer requests. The transactions are counted first, then the blocks are written as they are stored. The number of blocks
/// and of bytes is then known, so the response is streamed and never held as a whole.
fn blocks_after(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let AuthenticatedRequest::<ChainRequest, AnyChallenge> { entity: request, challenge } = context.body()?;
    let signature = sign(context, &challenge)?;
    let limits = request.limits(&context.node.chain.network.chain);
    let mut counter = TransactionCounter::new(request.after, limits);
    let mut block = BlockBody::new(counter.first);
    let list = list_stream(move |step| {
        require_in_chain(counter.last, &step.node.chain)?;
        counter.count(step.node)?;
        // The budget may end with the last block to count: the next step finds that counting is complete.
        if !counter.is_done {
            step.is_interrupted = true;
            return Ok(());
        }
        step.open_sized(&DataListHead, (counter.next.0 - counter.first.0) as usize, counter.bytes);
        while block.height < counter.next && step.element(|step| block.write(step))? {
            block = BlockBody::new(block.height.next());
            if step.must_pause() {
                break;
            }
        }
        Ok(())
    });
    context.send_stream(list.signed(signature))
}

/// `POST /transactions/unconfirmed`
fn unconfirmed(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let AuthenticatedRequest::<ShortIds, AnyChallenge> { entity: ShortIds(known), challenge } = context.body()?;
    let signature = sign(context, &challenge)?;
    let transactions = context.node.mempool.unknown_to(&known.into_iter().collect());
    context.node.budget.charge(cost::listed(transactions.len()));
    context.send_stream(list_of(transactions).signed(signature))
}

/// `POST /node/sign-of-life`
fn sign_of_life(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let node: NodeInfo = context.body()?;
    handle_sign_of_life(context, &node)
}

/// `POST /node/ping`
fn ping(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let SignOfLife(node) = context.body()?;
    handle_sign_of_life(context, &node)
}

/// Handles a sign of life of a peer, which may be verified by a request back to it before the response. If the address
/// of the client is unknown, no request is made: it would go to a proxy, whose host an attacker could then have scanned
/// for open ports.
fn handle_sign_of_life(context: &mut RequestContext<'_>, node: &NodeInfo) -> Result<(), ApiError> {
    context.node.require_joined()?;
    if context.client.is_unidentified {
        return Ok(());
    }
    let (connection, from, now) = (context.connection, context.client.address, context.node.now);
    let Some(peers) = &mut context.node.peers else { return Ok(()) };
    match peers.on_sign_of_life(node, from, connection, now) {
        Some(answer) => answer.map_err(|reason| ApiError::new(500, reason)),
        None => context.run_stream(Box::new(WaitsForPeers(connection, |_, _| ()))),
    }
}

/// Fails if the last written block of a range left the chain: a response that mixes two branches would make the peer treat
/// this node as malicious.
fn require_in_chain(last: Option<(Height, Hash256)>, chain: &ChainSnapshot<'_>) -> Result<(), ApiError> {
    let Some((height, hash)) = last else { return Ok(()) };
    match stored_header(chain.snapshot, height)? {
        Some(block) if block.hash == hash => Ok(()),
        _ => Err(REPLACED),
    }
}

/// Blocks per query after the first one.
const NEXT_QUERY: u64 = 100;

/// Counter of the transactions of the blocks after a height, up to the limit that a peer requests.
struct TransactionCounter {
    limits: BlockListLimits,
    first: Height,
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
    last: Option<(Height, Hash256)>,
    /// Counting is complete; `next` is the first block that is left out.
    is_done: bool,
}

impl TransactionCounter {
    fn new(after: Height, limits: BlockListLimits) -> TransactionCounter {
        let (first, query_end) = (after.next(), after.plus(limits.first_query));
        let is_done = first.0 <= after.0;
        TransactionCounter { limits, first, next: first, total: 0, plain: 0, query_end, bytes: 0, last: None, is_done }
    }

    /// Continues counting, within the budget.
    fn count(&mut self, node: &mut NodeContext<'_>) -> Result<(), ApiError> {
        while !self.is_done {
            if self.next.0 - self.first.0 >= self.limits.blocks || !node.chain.has_block(self.next) {
                self.is_done = true;
            } else {
                self.add_block(&node.chain)?;
                node.budget.charge(cost::HEADER);
                if node.budget.is_exhausted() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Adds a block if its transactions are within the limit.
    fn add_block(&mut self, chain: &ChainSnapshot<'_>) -> Result<(), ApiError> {
        let row = block_row(chain.snapshot, self.next)?.ok_or(REPLACED)?;
        self.total += row.nis1_transaction_count;
        self.plain += row.count() as u64;
        if self.total > self.limits.transactions {
            self.is_done = true;
            return Ok(());
        }
        if self.next == self.query_end {
            self.query_end = self.next.plus(NEXT_QUERY);
            self.total = self.plain;
        }
        self.bytes += BinaryEncoder::LENGTH_BYTES + row.bytes();
        self.last = Some((self.next, row.header.hash));
        self.next = self.next.next();
        Ok(())
    }
}

/// A transaction pushed by a peer.
type Pushed = SecureEntity<Transaction>;

/// Returns what was pushed, if its sender has signed it.
fn verified<T: View>(pushed: SecureEntity<T>, node: &mut NodeContext<'_>) -> Result<T, ApiError> {
    let (is_genuine, hashed) = pushed.verify();
    node.budget.charge(cost::VERIFICATION + cost::bytes(hashed));
    if is_genuine { Ok(pushed.entity) } else { Err(ApiError::internal("entity source cannot be verified")) }
}

/// Submits a pushed transaction.
fn submit_pushed(pushed: Pushed, from: IpAddr, node: &mut NodeContext<'_>) -> Result<(), ApiError> {
    let key = pushed.identity.key;
    let transaction = verified(pushed, node)?;
    let has_lifetime = transaction.has_lifetime();
    let result = match submit(transaction, node)? {
        // Our clock may be fast.
        ValidationResult::FailurePastDeadline if has_lifetime => ValidationResult::Neutral,
        result => result,
    };
    if let Some(peers) = &mut node.peers {
        peers.record_push(&Pusher { key, from }, &require(result.is_success(), result), node.now);
    }
    Ok(())
}

/// Pushed transactions that are still to be decoded and submitted, one after another.
struct Submission {
    pushed: LazyList<Pushed>,
    /// Address of the client.
    from: IpAddr,
}

impl ResponseStream for Submission {
    fn write_chunk(&mut self, node: &mut NodeContext<'_>, _: &mut BodyWriter<'_>) -> Result<Progress, ApiError> {
        while let Some(pushed) = self.pushed.next(node.chain.context()) {
            node.budget.charge(cost::DECODING);
            submit_pushed(pushed?, self.from, node)?;
            if node.budget.is_exhausted() && self.pushed.left() > 0 {
                return Ok(Progress::Yield);
            }
        }
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        self.pushed.held_bytes()
    }
}

/// `POST /push/transaction`
fn push_transaction(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let pushed = context.body()?;
    submit_pushed(pushed, context.client.address, &mut context.node)
}

/// `POST /push/transactions`
fn push_transactions(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (pushed, from) = (context.body_list()?, context.client.address);
    context.run_stream(Box::new(Submission { pushed, from }))
}

/// `POST /push/block`: the block is validated after the response.
fn push_block(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let pushed: SecureEntity<Block> = context.body()?;
    let pusher = Pusher { key: pushed.identity.key, from: context.client.address };
    let block = verified(pushed, &mut context.node)?;
    if wire_network(block.version) != context.node.chain.network.byte {
        return Ok(());
    }
    // For the hash and signature of the block itself.
    context.node.budget.charge(cost::VERIFICATION + 2 * cost::bytes(context.request.body.len()));
    context.command = Some(Command::PushBlock(Box::new(block), pusher));
    Ok(())
}
