//! Adapter between the peer layer and the rest of the node: chain, mempool and event loop.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use super::block_processor::{BlockOrigin, BlockProcessor, Outcome, ProcessedBlocks};
use super::randomness::Randomness;
use crate::codec::block::read_without_transactions;
use crate::codec::{Context, Format};
use crate::crypto::KeyPair;
use crate::mempool::{Mempool, ShortId};
use crate::model::{Address, Block, Hash256, Height, Network, Transaction};
use crate::net::fetch::{self, FetchError, FetchId, FetchRequest, FetchResponse, Method, Response};
use crate::net::service::{ConnectionId, Effects};
use crate::peer::block_download::NextBlock;
use crate::peer::io::{
    Action, CallId, FetchedBlocks, LocalChain, MaxHeightQueryId, Now, OwnTip, Reply, StoreUnreadable, ValidationOutcome,
};
use crate::peer::saved_peers::SavedPeer;
use crate::peer::wire::{EncodedRequest, Endpoint, NodeInfo, TransactionList};
use crate::peer::{Manager, MaxHeight, PeerSettings, PreTrustedPeer, Pusher, SignOfLifeResult, SyncProgress};
use crate::rules::ValidationResult;
use crate::state;
use crate::store::{Snapshot, StoreError, block_row, stored_header, tip};

/// Timeouts for a whole request and for a pause within it, as in NIS1.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(180);
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Rows of the trust calculation per tick.
const TRUST_ROWS_PER_TICK: usize = 32;
/// Limit for unconfirmed transactions taken from one response.
const MAX_REMOTE_TRANSACTIONS: usize = 10_000;

/// What the peer layer works with: the last commit, the mempool and the event loop.
pub struct PeerContext<'a> {
    pub snapshot: &'a Snapshot<'a>,
    pub network: &'a Network,
    pub pool: &'a Mempool,
    pub effects: &'a mut dyn Effects,
}

/// The peer layer, once this node joins its network, and what it waits for.
#[derive(Default)]
pub struct PeerAdapter {
    peers: Option<Manager>,
    /// Format of requests to peers and of their responses.
    format: Option<Format>,
    /// Senders of pings that wait for their verification.
    ping_verifications: BTreeMap<CallId, WaitingPing>,
    /// Clients that wait for the maximum height of the peers, and the height once it is known.
    max_height_queries: BTreeMap<ConnectionId, (MaxHeightQueryId, Option<Height>)>,
    /// Transactions of a remote mempool that are still to be read and processed, and how many of them at most.
    remote_mempool: Option<(TransactionList, usize)>,
    pulled: Option<FetchedBlocks>,
    /// Pending adjustment of network time, in milliseconds.
    clock_shift: i64,
}

/// The sender of a ping, waiting until this node has contacted it in turn.
struct WaitingPing {
    connection: ConnectionId,
    /// The result once it is known: `None` if the sender was reached, or else why not.
    result: Option<Option<String>>,
}

impl PeerAdapter {
    /// Joins the network as this node.
    pub fn join(
        &mut self,
        local: NodeInfo,
        keys: Rc<KeyPair>,
        settings: PeerSettings,
        kept: &[SavedPeer],
        mut randomness: Randomness,
        now: Now,
    ) {
        self.format = Some(settings.format);
        let mut peers = Manager::new(local, keys, settings, Box::new(move || randomness.next_u64()), now);
        peers.add_saved_peers(kept);
        self.peers = Some(peers);
    }

    /// Returns whether this node has started to join its network.
    pub fn has_started(&self) -> bool {
        self.peers.is_some()
    }

    /// Adds new peers of the operator's list.
    pub fn add_listed(&mut self, known: Vec<PreTrustedPeer>) {
        self.peers.iter_mut().for_each(|peers| peers.add_pre_trusted_peers(known.clone()));
    }

    /// Returns the peer layer, once this node joins its network.
    pub fn peers(&self) -> Option<&Manager> {
        self.peers.as_ref()
    }

    /// Returns whether this node has joined its network.
    pub fn has_joined(&self) -> bool {
        self.peers.as_ref().is_some_and(Manager::is_booted)
    }

    /// Returns the time before which no block may be harvested; see [`Manager::harvesting_blocked_until`].
    pub fn harvest_blocked_until(&self, now: Duration) -> Duration {
        self.peers.as_ref().map_or(Duration::ZERO, |peers| peers.harvesting_blocked_until(now))
    }

    /// Returns when the next work is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.peers.as_ref().and_then(Manager::next_due)
    }

    /// Runs the due work.
    pub fn tick(&mut self, now: Now, peer_context: PeerContext<'_>) {
        self.with(peer_context, |peers, chain| peers.tick(now, TRUST_ROWS_PER_TICK, chain));
    }

    /// Handles the result of a request.
    pub fn on_fetch_completed(
        &mut self,
        fetch: FetchId,
        result: Result<FetchResponse, FetchError>,
        now: Now,
        peer_context: PeerContext<'_>,
    ) {
        self.with(peer_context, |peers, chain| peers.on_reply(fetch, to_peer_reply(result), now, chain));
    }

    /// Handles a ping from a node at this address.
    pub fn on_ping(
        &mut self,
        node: &NodeInfo,
        from: std::net::IpAddr,
        now: Now,
        peer_context: PeerContext<'_>,
    ) -> SignOfLifeResult {
        self.with(peer_context, |peers, _| peers.on_sign_of_life(node, from, now)).unwrap_or(SignOfLifeResult::Ignored)
    }

    /// Registers the connection on which the sender of a ping waits.
    pub fn wait_for_verification(&mut self, verification: CallId, connection: ConnectionId) {
        self.ping_verifications.insert(verification, WaitingPing { connection, result: None });
    }

    /// Returns the result for the sender of a ping, once it is known.
    pub fn take_ping_result(&mut self, verification: CallId) -> Option<Option<String>> {
        self.ping_verifications.get(&verification)?.result.as_ref()?;
        self.ping_verifications.remove(&verification)?.result
    }

    /// Queries peers for their maximum height, or returns it if it is known.
    pub fn max_height(&mut self, now: Now, peer_context: PeerContext<'_>) -> MaxHeight {
        let asked = self.with(peer_context, |peers, _| peers.max_chain_height(now));
        asked.unwrap_or(MaxHeight::Known(Height::NEMESIS))
    }

    /// Registers a connection that waits for the maximum height.
    pub fn wait_for_max_height(&mut self, query: MaxHeightQueryId, connection: ConnectionId) {
        self.max_height_queries.insert(connection, (query, None));
    }

    /// Returns, once, the maximum height for a connection, when it is known.
    pub fn take_max_height(&mut self, connection: ConnectionId) -> Option<Height> {
        let (_, told) = self.max_height_queries.get(&connection)?;
        let height = (*told)?;
        self.max_height_queries.remove(&connection);
        Some(height)
    }

    /// Forgets a closed connection.
    pub fn on_disconnect(&mut self, connection: ConnectionId) {
        self.max_height_queries.remove(&connection);
        self.ping_verifications.retain(|_, waiting| waiting.connection != connection);
    }

    /// Relays a block.
    pub fn push_block(&mut self, block: Block, now: Now, peer_context: PeerContext<'_>) {
        self.with(peer_context, |peers, _| peers.push_block(block, now));
    }

    /// Relays an accepted transaction.
    pub fn relay(&mut self, transaction: &Transaction) {
        if let Some(peers) = self.peers.as_mut().filter(|peers| peers.is_booted()) {
            peers.queue_transaction(transaction.clone(), transaction.hash());
        }
    }

    /// Records the result of something that a peer pushed.
    pub fn record_push(&mut self, by: &Pusher, result: ValidationResult, now: Now) {
        if let Some(peers) = &mut self.peers {
            peers.record_push(by, push_result(result), now);
        }
    }

    /// Records the result of processed blocks.
    pub fn record_processed(&mut self, processed: &ProcessedBlocks, now: Now) {
        let Some(peers) = &mut self.peers else { return };
        match (&processed.origin, &processed.outcome) {
            (BlockOrigin::Harvested(_), _) => {}
            (BlockOrigin::Pulled(node), outcome) => peers.on_blocks_validated(node, verdict(outcome), now),
            (BlockOrigin::Pushed(block), Outcome::Result(result)) => {
                peers.record_push(&block.by, push_result(*result), now);
            }
            (BlockOrigin::Pushed(block), Outcome::TooDeep) => {
                peers.record_push(&block.by, ValidationOutcome::Neutral, now);
            }
            (BlockOrigin::Pushed(block), _) => peers.record_push(&block.by, ValidationOutcome::Harmful, now),
        }
    }

    /// Records that the store failed while blocks pulled from a peer were validated; the peer is not blamed.
    pub fn validation_aborted(&mut self, from: &Address, now: Now) {
        self.peers.iter_mut().for_each(|peers| peers.on_blocks_validated(from, ValidationOutcome::Neutral, now));
    }

    /// Returns the next block of the block download; see [`Manager::next_block`].
    pub fn next_block(&mut self, now: Now) -> Option<NextBlock> {
        self.peers.as_mut().and_then(|peers| peers.next_block(now))
    }

    /// Returns the progress of the block download, if one is running.
    pub fn sync_progress(&self) -> Option<SyncProgress> {
        self.peers.as_ref().and_then(Manager::sync_progress)
    }

    /// Ends the block download: its blocks are imported as far as possible.
    pub fn end_download(&mut self, now: Now) {
        self.peers.iter_mut().for_each(|peers| peers.end_block_download(now));
    }

    /// Ends the block download because a block is invalid.
    pub fn reject_downloaded(&mut self, reason: &str, now: Now) {
        self.peers.iter_mut().for_each(|peers| peers.on_block_rejected(reason, now));
    }

    fn format(&self) -> Format {
        self.format.unwrap_or(Format::Binary)
    }

    /// Passes pulled blocks to the block processor, if it can accept them.
    pub fn dispatch_pulled(&mut self, block_processor: &mut BlockProcessor<'_>) {
        if self.pulled.is_some() && block_processor.may_pull() {
            self.pulled.take().into_iter().for_each(|pulled| block_processor.pull(pulled));
        }
    }

    /// Returns the next transaction of the remote mempool. The first undecodable transaction ends the list.
    pub fn next_remote_transaction(&mut self, context: Context) -> Option<Transaction> {
        let (list, left) = self.remote_mempool.as_mut()?;
        let next = if *left > 0 { list.next(context) } else { None };
        *left = left.saturating_sub(1);
        match next {
            Some(Ok(transaction)) => return Some(transaction),
            Some(Err(error)) => log::debug!("an unconfirmed transaction of a peer cannot be decoded: {error}"),
            None => {}
        }
        self.remote_mempool = None;
        None
    }

    /// Returns, once, by how many milliseconds network time is to change.
    pub fn take_clock_shift(&mut self) -> i64 {
        std::mem::take(&mut self.clock_shift)
    }

    /// Returns whether there is work for the rest of the node: blocks to process, transactions to add, or a clock
    /// shift.
    pub fn has_work(&self) -> bool {
        self.pulled.is_some() || self.remote_mempool.is_some() || self.clock_shift != 0
    }

    /// Runs the peer layer, and carries out the actions that it yields.
    fn with<'m, T>(
        &mut self,
        mut context: PeerContext<'m>,
        run: impl FnOnce(&mut Manager, &PeerContext<'m>) -> T,
    ) -> Option<T> {
        let peers = self.peers.as_mut()?;
        let result = run(peers, &context);
        for action in peers.take_actions() {
            self.carry_out(action, &mut context);
        }
        Some(result)
    }

    fn carry_out(&mut self, action: Action, context: &mut PeerContext<'_>) {
        match action {
            Action::Send { call, to, request } => {
                let request = to_client_request(&to, request, self.format(), REQUEST_TIMEOUT, READ_TIMEOUT);
                context.effects.fetch(call, request);
            }
            Action::Cancel(call) => context.effects.cancel(call),
            Action::Validate(pulled) => self.pulled = Some(pulled),
            Action::SubmitUnconfirmed(body) => {
                match TransactionList::from_verified(self.format(), body, Context::of(context.network)) {
                    Ok(transactions) => self.remote_mempool = Some((transactions, MAX_REMOTE_TRANSACTIONS)),
                    Err(error) => log::debug!("unconfirmed transactions of a peer cannot be decoded: {error}"),
                }
            }
            Action::SignOfLifeVerified(verification, failure) => {
                if let Some(waiting) = self.ping_verifications.get_mut(&verification) {
                    waiting.result = Some(failure);
                    context.effects.resume(waiting.connection);
                }
            }
            Action::ReportMaxHeight(query, height) => {
                for (connection, (awaited, reported)) in &mut self.max_height_queries {
                    if *awaited == query {
                        *reported = Some(height);
                        context.effects.resume(*connection);
                    }
                }
            }
            Action::ShiftClock(millis) => self.clock_shift += millis,
        }
    }
}

impl LocalChain for PeerContext<'_> {
    fn tip(&self) -> Result<OwnTip, StoreUnreadable> {
        let read = || {
            let last = tip(self.snapshot)?.ok_or(StoreError::Empty)?;
            let row = block_row(self.snapshot, last.height)?.ok_or(StoreError::Empty)?;
            let context = Context::of(self.network).trusted();
            let head = read_without_transactions(row.head(), context).map_err(|_| StoreError::Damaged("a block"))?;
            Ok(OwnTip { height: last.height, hash: last.hash, signature: head.signature, score: last.score })
        };
        read().map_err(unreadable)
    }

    fn hashes_from(&self, first: Height, most: u64) -> Result<Vec<Hash256>, StoreUnreadable> {
        let mut hashes = Vec::new();
        for height in (first.0..first.0.saturating_add(most)).map(Height) {
            match stored_header(self.snapshot, height).map_err(unreadable)? {
                Some(header) => hashes.push(header.hash),
                None => break,
            }
        }
        Ok(hashes)
    }

    fn short_ids(&self) -> Vec<ShortId> {
        self.pool.short_ids()
    }

    fn importance(&self, node: &Address) -> Result<f64, StoreUnreadable> {
        let read = || {
            let (state, network) = (self.snapshot, self.network);
            let Some(last) = state::last_recalculation(state)? else { return Ok(0.0) };
            let account = state::account(state, node)?;
            let height = tip(state)?.ok_or(StoreError::Empty)?.height;
            let lender = account.forwarded(height, network.chain.rewrite_limit).unwrap_or(*node);
            let importance = state::importance(state, &lender)?.filter(|found| found.height == last.height);
            Ok(importance.map_or(0.0, |found| found.importance))
        };
        read().map_err(unreadable)
    }

    fn important_accounts(&self) -> Result<u64, StoreUnreadable> {
        let last = state::last_recalculation(self.snapshot).map_err(unreadable)?;
        Ok(last.map_or(0, |last| last.eligible))
    }
}

fn unreadable(error: StoreError) -> StoreUnreadable {
    log::warn!("{error}");
    StoreUnreadable
}

/// Converts a request to a peer into one of the HTTP client.
pub(super) fn to_client_request(
    to: &Endpoint,
    request: EncodedRequest,
    format: Format,
    time: Duration,
    silence: Duration,
) -> FetchRequest {
    let EncodedRequest { path, body, answer_limit, is_idempotent } = request;
    let (host, port) = to.to_connect().unwrap_or(("", 0));
    FetchRequest {
        endpoint: fetch::Endpoint { host: host.to_owned(), port },
        method: Method::Post,
        target: path.to_owned(),
        media_type: format.media_type(),
        body: body.into(),
        body_limit: answer_limit,
        timeout: time,
        read_timeout: silence,
        is_idempotent,
    }
}

/// Converts a result of the HTTP client into one of the peer layer.
pub(super) fn to_peer_reply(result: Result<FetchResponse, FetchError>) -> Reply {
    match result {
        Ok(FetchResponse { from, response: Response { status: 200, body } }) => Reply::Answer { body, from },
        Ok(FetchResponse { response: Response { status, body }, .. }) => Reply::ErrorStatus { status, body },
        Err(FetchError::Unreachable(error)) => Reply::Unreachable(error.to_string()),
        Err(FetchError::Silent(_)) => Reply::TimedOut,
        Err(error) => Reply::Failed(error.to_string()),
    }
}

fn push_result(result: ValidationResult) -> ValidationOutcome {
    use ValidationResult::{FailureEntityUnusableOutOfSync, FailureTransactionCacheTooFull, Neutral, Success};
    match result {
        Success => ValidationOutcome::Useful,
        Neutral | FailureEntityUnusableOutOfSync | FailureTransactionCacheTooFull => ValidationOutcome::Neutral,
        _ => ValidationOutcome::Harmful,
    }
}

fn verdict(outcome: &Outcome) -> ValidationOutcome {
    match outcome {
        Outcome::Result(ValidationResult::Success) => ValidationOutcome::Useful,
        Outcome::TooDeep => ValidationOutcome::TooDeep,
        Outcome::Result(ValidationResult::Neutral) | Outcome::Unreadable(_) => ValidationOutcome::Neutral,
        Outcome::Result(_) | Outcome::Exception(_) => ValidationOutcome::Harmful,
    }
}
