//! Synchronisation with a sync peer: the chain first, then, if both chains are the same or have the same score, its
//! unconfirmed transactions. The next synchronisation does not wait for those, and for a slow sync peer only
//! [`FOREGROUND_TIME`]: up to [`MAX_BACKGROUND`] slow ones go on beside others.
//!
//! Only what a peer sends lowers its experience, never that it is unreachable. But a peer that brought nothing is not
//! chosen next if there is another, unless our chain has changed meanwhile. One that failed or sent no block that can be
//! used is not chosen for a time that doubles with each failure, up to an hour; nor is any other of its network that is
//! neither listed nor has delivered a block, so that many addresses of one network do not help. Every second
//! synchronisation is with a peer that is listed or has delivered blocks, so that others in any number cannot keep it out.
//! After a failed block request fewer transactions are requested: the answer may have been larger than we accept, or than
//! the peer can send in time.
//!
//! A chain that is far ahead is downloaded from several peers ([`BlockDownload`]), once the first blocks of it have come
//! from its peer and were valid, or, with a trusted checkpoint, if it claims to reach that: until then it is only a claim.
//! While hashes are followed to the checkpoint, synchronisations go on, and the claim of a listed peer replaces that of
//! another one.
//!
//! **Chain splits that cannot heal:** peers whose chain forked from ours further back than the rewrite limit. Neither side
//! can switch, so both have to report it.
//!
//! A peer whose chain stays worse than ours is queried from time to time for one hash: at the height of the lowest
//! block of ours that can be rolled back, or, if its chain ends below that, the lowest of its own. A peer with a better
//! chain is queried for that anyway. All this is self-reported, and hashes are easily invented. So only peers that are
//! listed or have delivered blocks count, once for each network, and none while our chain has no block besides the nemesis
//! block that cannot be rolled back: then the other chain is of another network.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::queries::counted_network;
use super::requests::{Answer, RequestKind};
use super::{Manager, PeerSettings, select};
use crate::codec::Format;
use crate::model::{Address, Checkpoint, Height, Transaction};
use crate::net::fetch::FetchId;
use crate::peer::block_download::{
    BlockDownload, DownloadAnswer, DownloadOutcome, DownloadRequest, MAX_BATCH_TRANSACTIONS, NextBlock,
};
use crate::peer::chain_comparison::{ChainComparison, Downloads, Misbehavior, SyncOutcome};
use crate::peer::io::{FetchedBlocks, LocalChain, Now, OwnTip};
use crate::peer::peer_entry::{PeerEntry, PeerError, State, sanitize};
use crate::peer::schedule::Task;
use crate::peer::wire::{ChainRequest, HashChain, NodeInfo, Query, ShortIds, limits};
use crate::rules::{Rejection, RuleResult, ValidationResult};

/// Time for which a synchronisation keeps others waiting.
pub const FOREGROUND_TIME: Duration = Duration::from_secs(2);
/// Maximum number of slower ones that go on; beyond it the oldest fails.
pub const MAX_BACKGROUND: usize = 8;
/// Time after which a fruitless synchronisation counts as slow.
const SLOW: Duration = Duration::from_secs(10);
/// Backoff as a multiple of the wasted time, and the minimum backoff, which lets another peer be chosen first.
const BACKOFF_FACTOR: u32 = 10;
const MIN_BACKOFF: Duration = Duration::from_secs(5);
/// Smallest block answer requested, as a fraction of a full one.
const MIN_ANSWER_FRACTION: u32 = 16;

/// Maximum number of unconfirmed transactions taken from one answer.
const MAX_REMOTE_TRANSACTIONS: usize = 10_000;

/// Minimum number of blocks per request of a block download.
const MIN_BLOCKS: i32 = 10;
/// JSON is decoded in one go, so JSON batches are smaller.
const MAX_JSON_BATCH_TRANSACTIONS: i32 = 200;

/// Time for which a peer's chain must be worse before its fork point is queried.
pub const MIN_WORSE_TIME: Duration = Duration::from_secs(60);
/// Interval between these queries to one peer.
pub const QUERY_INTERVAL: Duration = Duration::from_secs(300);
/// Lifetime of an observation, and minimum interval between warnings about one peer.
pub const OBSERVATION_TTL: Duration = Duration::from_secs(900);

/// Peers that can never agree with us on one chain, among the active ones that are listed or have delivered blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitPeers {
    /// The peers, one of each network.
    pub nodes: Vec<Address>,
    /// Number of networks with such peers, split or not.
    pub active: usize,
}

/// Running synchronisation.
#[derive(Debug)]
pub struct Synchronisation {
    sync_peer: NodeInfo,
    pub(super) address: Address,
    started_at: Duration,
    comparison: ChainComparison,
}

impl Manager {
    /// Starts a synchronisation, unless blocks of a download arrive.
    pub(super) fn synchronise(&mut self) {
        let now = self.now.monotonic;
        let is_downloading = |download: &BlockDownload| download.verifying().is_none() && !download.is_late(now);
        if self.block_download.as_ref().is_some_and(is_downloading) {
            return self.end_task(Task::Synchronisation, true);
        }
        let proven = self.far_ahead_peer.take();
        let drawn = proven.or_else(|| self.select_sync_peer());
        let Some((address, sync_peer)) = drawn.and_then(|drawn| Some((drawn, self.info(&drawn)?))) else {
            return self.end_task(Task::Synchronisation, false);
        };
        if let Some(peer) = self.table.get_mut(&address) {
            peer.synchronisations = peer.synchronisations.saturating_add(1);
        }
        let checkpoint = self.settings.checkpoint.map(|checkpoint| checkpoint.height);
        let downloads = if proven.is_some() { Downloads::Proven } else { Downloads::Checkpoint(checkpoint) };
        let (comparison, query) = ChainComparison::begin(self.settings.far_ahead, downloads, self.max_transactions);
        self.sync_started_at = Some(now);
        self.continue_with(Synchronisation { sync_peer, address, started_at: now, comparison }, &query);
    }

    /// Selects a peer without backoff; failing that, one whose backoff ends within [`MIN_BACKOFF`]; failing that, any.
    fn select_sync_peer(&mut self) -> Option<Address> {
        let busy: Vec<_> = self.synchronisations().map(|(_, run)| run.address).collect();
        self.wants_credible = !self.wants_credible;
        for needs_credible in [self.wants_credible, false] {
            for backoff in [Duration::ZERO, MIN_BACKOFF, Duration::MAX] {
                let at = self.now.monotonic.saturating_add(backoff);
                let may_be_asked =
                    |peer: &PeerEntry| at >= self.table.sync_retry_at(peer) && (peer.is_credible() || !needs_credible);
                let is_eligible =
                    |node: &Address| self.table.get(node).is_some_and(may_be_asked) && !busy.contains(node);
                let drawn = self.selector.one_of(is_eligible, &mut self.random);
                if drawn.is_some() {
                    return drawn;
                }
            }
        }
        None
    }

    /// Returns the synchronisations that wait for an answer, the oldest first.
    fn synchronisations(&self) -> impl Iterator<Item = (FetchId, &Synchronisation)> {
        self.requests.kinds().filter_map(|(id, kind)| match kind {
            RequestKind::Synchronisation(run) => Some((id, &**run)),
            _ => None,
        })
    }

    /// Returns when a synchronisation no longer keeps others waiting.
    pub(super) fn synchronisation_due(&self) -> Option<Duration> {
        let is_validated = |at: &Duration| self.validating.as_ref().is_some_and(|run| run.started_at == *at);
        self.sync_started_at.filter(|at| !is_validated(at)).map(|at| at + FOREGROUND_TIME)
    }

    /// Lets others go on beside a slow synchronisation.
    pub(super) fn release_slow_synchronisation(&mut self) {
        if self.synchronisation_due().is_none_or(|due| due > self.now.monotonic) {
            return;
        }
        let oldest = self.synchronisations().min_by_key(|(_, run)| run.started_at);
        if let Some((id, run)) = oldest.filter(|_| self.synchronisations().count() > MAX_BACKGROUND) {
            let (address, started_at) = (run.address, run.started_at);
            self.requests.cancel(id, self.now.monotonic, &mut self.actions);
            self.back_off(address, started_at, true);
        }
        self.sync_started_at = None;
        self.end_task(Task::Synchronisation, false);
        self.run_soon(Task::Synchronisation);
    }

    /// Ends the synchronisation that started at a time. Its task has ended before if it was slow.
    fn end_synchronisation(&mut self, started_at: Duration, was_successful: bool) {
        if self.sync_started_at.take_if(|at| *at == started_at).is_some() {
            self.end_task(Task::Synchronisation, was_successful);
        }
    }

    /// Sends the next request to the sync peer.
    fn continue_with(&mut self, run: Synchronisation, query: &Query) {
        let (endpoint, key) = (run.sync_peer.endpoint.clone(), run.sync_peer.identity.key);
        let started_at = run.started_at;
        if self.queue(&endpoint, Some(key), query, RequestKind::Synchronisation(Box::new(run))).is_none() {
            self.end_synchronisation(started_at, false);
        }
    }

    /// Processes an answer of the sync peer, or the failure of the request.
    pub(super) fn on_sync_reply(&mut self, mut run: Synchronisation, answer: Answer, chain: &dyn LocalChain) {
        let waited_for_blocks = run.comparison.waits_for_blocks();
        let next = self.body_of(answer).and_then(|(body, context)| {
            let next = run.comparison.on_answer(body, &context, chain, &self.settings.chain);
            if let Some(peer) = self.table.get_mut(&run.address) {
                peer.score = run.comparison.score().or(peer.score);
            }
            next
        });
        if waited_for_blocks {
            self.adjust_max_transactions(next.is_ok());
        }
        match next {
            Ok(Ok(query)) => {
                self.record_valid_answer(&run.address, &run.sync_peer.endpoint);
                self.continue_with(run, &query);
            }
            Ok(Err(outcome)) => self.on_comparison_end(run, outcome, chain),
            Err(PeerError { reason, .. }) => {
                log::debug!("synchronisation with {} failed: {reason}", run.sync_peer.endpoint);
                self.back_off(run.address, run.started_at, true);
                self.end_synchronisation(run.started_at, false);
            }
        }
    }

    /// Doubles the number of transactions to request after success, and halves it after failure.
    fn adjust_max_transactions(&mut self, have_come: bool) {
        let most = self.settings.chain.max_transactions;
        let next = if have_come { self.max_transactions.saturating_mul(2) } else { self.max_transactions / 2 };
        self.max_transactions = next.clamp(most / MIN_ANSWER_FRACTION, most);
    }

    /// Backs off from a peer that brought nothing; longer if it failed or was slow.
    fn back_off(&mut self, sync_peer: Address, started_at: Duration, has_failed: bool) {
        let wasted = self.now.monotonic.saturating_sub(started_at);
        let backoff = if has_failed || wasted > SLOW { BACKOFF_FACTOR * wasted } else { Duration::ZERO };
        let until = self.now.monotonic + backoff + MIN_BACKOFF;
        self.table.back_off_from_sync_peer(&sync_peer, until, has_failed, self.now.monotonic);
    }

    fn on_comparison_end(&mut self, run: Synchronisation, outcome: SyncOutcome, chain: &dyn LocalChain) {
        let (address, started_at) = (run.address, run.started_at);
        if !matches!(outcome, SyncOutcome::Misbehaved(_)) {
            self.record_valid_answer(&address, &run.sync_peer.endpoint);
        }
        let has_failed = matches!(outcome, SyncOutcome::TooFarBehind | SyncOutcome::Misbehaved(_));
        match outcome {
            SyncOutcome::Same => {
                self.clear_split(&address);
                self.request_unconfirmed(&run.sync_peer, chain);
            }
            SyncOutcome::FarAhead(base, target) => {
                self.clear_split(&address);
                if self.may_start_block_download(&address) {
                    self.start_block_download(address, *base, target);
                    return self.end_synchronisation(started_at, true);
                }
            }
            SyncOutcome::LowerScore => self.on_worse_chain(&run.sync_peer, chain),
            SyncOutcome::TooFarBehind | SyncOutcome::Misbehaved(_) => {
                log::debug!("synchronisation with {} ended: {outcome:?}", run.sync_peer.endpoint);
                if matches!(outcome, SyncOutcome::Misbehaved(Misbehavior::InvalidHashes)) && self.may_split(chain) {
                    self.record_split(address);
                }
                self.experiences.failed(address, self.now.monotonic);
            }
            // Blocks of another peer are being validated; those of this one are requested again.
            SyncOutcome::Blocks { .. } if self.validating.is_some() => {}
            SyncOutcome::Blocks { common, base, blocks } => {
                self.validating = Some(run);
                self.fetched_blocks = Some(FetchedBlocks { from: address, common, base, blocks });
                return;
            }
        }
        self.back_off(address, started_at, has_failed);
        self.end_synchronisation(started_at, true);
    }

    /// Requests a peer's unconfirmed transactions, unless such a request is running.
    fn request_unconfirmed(&mut self, sync_peer: &NodeInfo, chain: &dyn LocalChain) {
        if self.requests.kinds().any(|(_, kind)| matches!(kind, RequestKind::Unconfirmed(..))) {
            return;
        }
        let kind = RequestKind::Unconfirmed(self.address_of(sync_peer), self.now.monotonic);
        self.queue_query(sync_peer, &Query::Unconfirmed(ShortIds(chain.short_ids())), kind);
    }

    /// Opens the list of a peer's unconfirmed transactions, or handles the failure. Neither affects its experience.
    pub(super) fn on_unconfirmed_reply(&mut self, sync_peer: Address, since: Duration, answer: Answer) {
        let endpoint = answer.endpoint.clone();
        let most = limits::block(&self.settings.chain);
        let opened = self.body_of(answer).and_then(|(body, context)| Ok(context.open_list(body, most)?));
        self.back_off(sync_peer, since, opened.is_err());
        match opened {
            Ok(transactions) => {
                self.remote_mempool = Some((sync_peer, transactions, MAX_REMOTE_TRANSACTIONS));
                self.record_valid_answer(&sync_peer, &endpoint);
            }
            Err(error) => log::debug!("request for the unconfirmed transactions of {sync_peer} failed: {error}"),
        }
    }

    /// Returns the next of a peer's unconfirmed transactions. The first undecodable transaction ends the list.
    pub fn next_remote_transaction(&mut self) -> Option<Transaction> {
        let (_, list, left) = self.remote_mempool.as_mut()?;
        let next = if *left > 0 { list.next(self.settings.context) } else { None };
        *left = left.saturating_sub(1);
        match next {
            Some(Ok(transaction)) => return Some(transaction),
            Some(Err(error)) => log::debug!("an unconfirmed transaction of a peer cannot be decoded: {error}"),
            None => {}
        }
        self.remote_mempool = None;
        None
    }

    /// Ends the list of a peer's unconfirmed transactions, of which the last one has a wrong signature: no node keeps such a
    /// transaction, and every signature costs as much as a good one. Backs off from the peer.
    pub fn reject_remote_transactions(&mut self, now: Now) {
        self.now = now;
        if let Some((peer, ..)) = self.remote_mempool.take() {
            log::debug!("an unconfirmed transaction of {peer} has a wrong signature");
            self.back_off(peer, now.monotonic, true);
        }
    }

    /// Processes the validation result of a peer's blocks.
    pub fn on_blocks_validated(&mut self, from: &Address, result: &RuleResult, now: Now) {
        self.now = now;
        let Some(run) = self.validating.take_if(|run| run.address == *from) else { return };
        let is_harmful = result.as_ref().is_err_and(Rejection::blames_sender);
        // If the peer has moved, whoever answers at the new endpoint did not send the blocks.
        if self.has_endpoint(from, &run.sync_peer.endpoint) {
            self.count_experience(*from, result);
            if matches!(result, Err(Rejection::TooDeep)) {
                self.record_split(*from);
            } else if result.is_ok() {
                self.clear_split(from);
                self.table.record_delivery(from, now.monotonic);
                if run.comparison.is_far_ahead {
                    self.far_ahead_peer = Some(*from);
                }
            }
            // Our chain has changed meanwhile, or the store failed, which is not the peer's fault unless it was slow.
            let is_neutral = matches!(result, Err(Rejection::Result(ValidationResult::Neutral)));
            let is_slow = now.monotonic.saturating_sub(run.started_at) > SLOW;
            if result.is_err() && (!is_neutral || is_slow) {
                let has_failed = is_harmful || matches!(result, Err(Rejection::Unusable));
                self.back_off(*from, run.started_at, has_failed);
            }
        }
        self.end_synchronisation(run.started_at, !is_harmful);
        if self.far_ahead_peer.is_some() {
            self.run_soon(Task::Synchronisation);
        }
    }

    /// Returns whether a peer's claim starts a block download: if none is running, or one that still follows the claim of an
    /// unlisted peer to the checkpoint and this peer is listed, unless it supplies blocks of that chain.
    fn may_start_block_download(&self, claimed_by: &Address) -> bool {
        let Some(download) = &self.block_download else { return true };
        let is_listed = |node: &Address| self.table.listed.contains(node);
        download.verifying().is_some()
            && is_listed(claimed_by)
            && !is_listed(&download.claimed_by)
            && !download.has_agreed(claimed_by)
    }

    /// Starts a block download from a sync peer.
    fn start_block_download(&mut self, sync_peer: Address, base: OwnTip, target: Height) {
        let base = Checkpoint { height: base.height, hash: base.hash };
        let PeerSettings { format, chain, checkpoint, .. } = &self.settings;
        let transactions = match format {
            Format::Binary => MAX_BATCH_TRANSACTIONS,
            Format::Json => MAX_JSON_BATCH_TRANSACTIONS,
        };
        let batch = ChainRequest::new(base.height, MIN_BLOCKS, transactions, chain);
        let max_hashes = chain.max_blocks_per_sync();
        if let Some(BlockDownload { claimed_by, .. }) = &self.block_download {
            log::info!("the chain that {claimed_by} claims is given up: {sync_peer}, a listed peer, claims one");
        }
        self.download_count += 1;
        let download =
            BlockDownload::new(self.download_count, sync_peer, (base, target), max_hashes, batch, *checkpoint);
        match download.verifying() {
            Some((_, checkpoint)) => log::info!(
                "downloading blocks up to height {target}, this node has {}; hashes are verified first, up to height \
                 {} (--trust-below)",
                base.height,
                checkpoint.height
            ),
            None => log::info!("downloading blocks up to height {target}, this node has {}", base.height),
        }
        self.block_download = Some(download);
    }

    /// Returns the next block to process, if a block download is running. After [`NextBlock::Ended`], and once all
    /// returned blocks are in the chain, the host calls [`Manager::end_block_download`].
    pub fn next_block(&mut self, now: Now) -> Option<NextBlock> {
        self.now = now;
        let download = self.block_download.as_mut()?;
        let next = download.next(self.settings.context, now.monotonic);
        for node in download.useful_peers.drain(..) {
            self.experiences.succeeded(node, now.monotonic);
        }
        Some(next)
    }

    /// Ends the block download: all returned blocks are in the chain, this node cannot continue (blames no peer), or a
    /// block of the sync peer's chain was rejected for a reason.
    pub fn end_block_download(&mut self, rejection: Option<&str>, now: Now) {
        self.now = now;
        let Some(download) = self.block_download.take() else { return };
        if rejection.is_none() && download.outcome == Some(DownloadOutcome::Done) {
            self.table.record_delivery(&download.sync_peer, now.monotonic);
            return self.run_soon(Task::Synchronisation);
        }
        let outcome = download.outcome.map(|outcome| outcome.to_string());
        let Some(reason) = rejection.map(str::to_owned).or(outcome) else { return };
        let rejected = match download.outcome {
            _ if rejection.is_some() => Some(download.sync_peer),
            Some(DownloadOutcome::SyncPeerMisbehaved(peer) | DownloadOutcome::CheckpointMismatch(peer, _)) => {
                Some(peer)
            }
            _ => None,
        };
        match rejected {
            Some(peer) => log::warn!("the chain of {peer} is rejected: {}", sanitize(&reason)),
            None => log::info!("block download stopped: {reason}"),
        }
        let failed = rejected.unwrap_or(download.claimed_by);
        self.experiences.failed(failed, now.monotonic);
        for peer in BTreeSet::from([failed, download.claimed_by]) {
            self.back_off(peer, now.monotonic, true);
        }
    }

    /// Selects further peers for the block download if that is due, and sends its due requests.
    pub(super) fn send_download_requests(&mut self) {
        let now = self.now.monotonic;
        if let Some(download) = self.block_download.as_mut().filter(|download| download.wants_peers(now)) {
            download.add_peers(select(&self.selector, self.settings.node_limit, &mut self.random), now);
        }
        while let Some(request) = self.block_download.as_mut().and_then(|download| download.next_request(now)) {
            let kind = RequestKind::BlockDownload(request.clone());
            let node = self.info(&request.peer);
            let is_queued = node.is_some_and(|node| self.queue_query(&node, &request.query, kind).is_some());
            if let Some(download) = self.block_download.as_mut().filter(|_| !is_queued) {
                download.on_failure(&request, now);
            }
        }
    }

    /// Processes the answer to a request for hashes or blocks, or its failure.
    pub(super) fn on_download_reply(&mut self, request: DownloadRequest, answer: Answer) {
        let endpoint = answer.endpoint.clone();
        let most = limits::block(&self.settings.chain);
        let received = self.body_of(answer).and_then(|(body, context)| {
            Ok(match request.query {
                Query::HashesFrom(_) => DownloadAnswer::Hashes(context.read::<HashChain>(&body)?.0),
                _ => DownloadAnswer::Blocks(context.open_list(body, most)?),
            })
        });
        if received.is_ok() {
            self.record_valid_answer(&request.peer, &endpoint);
        }
        let Some(download) = &mut self.block_download else { return };
        match received {
            Ok(received) => download.on_answer(&request, received),
            Err(PeerError { reason, .. }) => {
                log::debug!("no answer to {:?}: {reason}", request.query);
                download.on_failure(&request, self.now.monotonic);
            }
        }
    }

    /// Returns the peers whose chain was lately seen to have forked further back than the rewrite limit.
    pub fn split_peers(&self, now: Duration) -> SplitPeers {
        let is_split = |node: &PeerEntry| node.split_at.is_some_and(|at| now.saturating_sub(at) < OBSERVATION_TTL);
        let mut networks = BTreeMap::<_, Option<Address>>::new();
        for (address, node) in self.table.in_state(State::Active).filter(|(_, node)| node.is_credible()) {
            let split = networks.entry(counted_network(address, node)).or_default();
            *split = split.or(is_split(node).then_some(*address));
        }
        SplitPeers { active: networks.len(), nodes: networks.into_values().flatten().collect() }
    }

    /// Returns whether our chain has a block above the nemesis block that cannot be rolled back.
    fn may_split(&self, chain: &dyn LocalChain) -> bool {
        chain.tip().is_ok_and(|tip| self.settings.chain.lowest_rollback(tip.height) > Height::NEMESIS)
    }

    /// Records that a peer's chain shares a recent enough block with ours, or cannot be compared.
    pub(super) fn clear_split(&mut self, node: &Address) {
        if let Some(peer) = self.table.get_mut(node) {
            (peer.fork_query_at, peer.split_at) = (None, None);
        }
    }

    /// Records that a peer's chain forked too far back.
    pub(super) fn record_split(&mut self, node: Address) {
        let now = self.now.monotonic;
        let Some(peer) = self.table.get_mut(&node) else { return };
        let was_warned = peer.split_warned_at.is_some_and(|at| now.saturating_sub(at) < OBSERVATION_TTL);
        if peer.split_at.replace(now).is_some() || was_warned {
            return;
        }
        peer.split_warned_at = Some(now);
        log::log!(
            if peer.is_credible() { log::Level::Warn } else { log::Level::Debug },
            "{node} is on another chain, which forked from ours more than {} blocks ago: neither can switch chains",
            self.settings.chain.rewrite_limit
        );
    }

    /// Records that a peer's chain is worse than ours. Queries its fork point if that persists.
    pub(super) fn on_worse_chain(&mut self, node: &NodeInfo, chain: &dyn LocalChain) {
        let (address, now) = (self.address_of(node), self.now.monotonic);
        let Some(peer) = self.table.get_mut(&address) else { return };
        let query_at = peer.fork_query_at.get_or_insert(now + MIN_WORSE_TIME);
        if now < *query_at {
            return;
        }
        if let Ok(tip) = chain.tip() {
            *query_at = now + QUERY_INTERVAL;
            self.query_lowest_hash(node, tip.height);
        }
    }

    /// Queries a peer's hashes from the lowest height to which a chain that ends at `last` can be rolled back.
    fn query_lowest_hash(&mut self, node: &NodeInfo, last: Height) {
        let lowest = self.settings.chain.lowest_rollback(last);
        let purpose = RequestKind::LowestHash(self.address_of(node), lowest);
        self.queue_query(node, &Query::HashesFrom(lowest), purpose);
    }

    /// Processes a peer's hashes, or the failure of the request.
    pub(super) fn on_lowest_hash_reply(
        &mut self,
        node: Address,
        height: Height,
        answer: &Answer,
        chain: &dyn LocalChain,
    ) {
        let Ok((HashChain(theirs), _)) = self.read_answer(answer) else { return };
        let Ok(ours) = chain.hashes_from(height, 1) else { return };
        match (ours.first(), theirs.first()) {
            (Some(ours), Some(theirs)) if ours != theirs => {
                if self.may_split(chain) {
                    self.record_split(node);
                }
            }
            // The peer's chain ends below. It can still follow ours if it can roll back to a block of ours.
            (Some(_), None) => {
                let known = self.table.get(&node);
                let last = known.and_then(|known| Some((known.info.clone(), known.height?)));
                let last = last.filter(|(_, last)| self.settings.chain.lowest_rollback(*last) < height);
                if let Some((info, last)) = last {
                    self.query_lowest_hash(&info, last);
                }
            }
            (None, _) => {}
            _ => self.clear_split(&node),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
