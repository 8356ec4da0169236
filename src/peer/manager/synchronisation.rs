//! Synchronisation with one sync peer at a time: the chain first, then, if both chains are the same or have the same
//! score, its unconfirmed transactions. The next synchronisation does not wait for those.
//!
//! Only what a peer sends lowers its experience, never that it is unreachable. But a peer that brought nothing is not
//! chosen next if there is another, and backs off longer if it failed or was slow, so that peers that trickle answers
//! or have nothing new take only part of our time. After a failed block request fewer transactions are requested: the
//! answer may have been larger than we accept, or than the peer can send in time.
//!
//! A chain that is far ahead is downloaded from several peers ([`BlockDownload`]) instead.

use std::time::Duration;

use super::requests::{Completed, RequestKind};
use super::{Manager, Phase, select};
use crate::codec::Format;
use crate::model::{Address, Height};
use crate::peer::block_download::{
    BlockDownload, BlockRef, DownloadAnswer, DownloadOutcome, DownloadQuery, DownloadRequest, MAX_BATCH_TRANSACTIONS,
    NextBlock,
};
use crate::peer::chain_comparison::{ChainComparison, Misbehavior, NextStep, SyncOutcome};
use crate::peer::io::{Action, FetchedBlocks, LocalChain, Now, OwnTip, ValidationOutcome};
use crate::peer::peer_table::{PeerError, sanitize};
use crate::peer::schedule::Task;
use crate::peer::wire::{ChainRequest, HashChain, NodeInfo, Query, ShortIds};

/// Time after which a fruitless synchronisation counts as slow.
const SLOW: Duration = Duration::from_secs(10);
/// Backoff as a multiple of the wasted time, and the minimum backoff, which lets another peer be chosen first.
const BACKOFF_FACTOR: u32 = 10;
const MIN_BACKOFF: Duration = Duration::from_secs(5);
/// Smallest block answer requested, as a fraction of a full one.
const MIN_ANSWER_FRACTION: u32 = 16;

/// Minimum number of blocks per request of a block download.
const MIN_BLOCKS: i32 = 10;
/// JSON is decoded in one go, so JSON batches are smaller.
const MAX_JSON_BATCH_TRANSACTIONS: i32 = 200;

/// Running synchronisation.
#[derive(Debug)]
pub struct Synchronisation {
    sync_peer: NodeInfo,
    address: Address,
    started_at: Duration,
    comparison: ChainComparison,
}

/// Progress of a block download, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncProgress {
    /// Last common block at the start.
    pub base: BlockRef,
    /// Height at which the download ends.
    pub target: Height,
    /// Height below which blocks are covered by the trusted checkpoint.
    pub trusted_below: Height,
    /// Verified height and height of the trusted checkpoint, while the blocks up to the checkpoint are verified.
    pub verified: Option<(Height, Height)>,
}

impl Manager {
    /// Starts a synchronisation.
    pub(super) fn synchronise(&mut self) {
        let drawn = self.select_sync_peer();
        let Some((address, sync_peer)) = drawn.and_then(|drawn| Some((drawn, self.info(&drawn)?))) else {
            return self.end_task(Task::Synchronisation, false);
        };
        self.table.count_synchronisation(&address);
        let (comparison, query) = ChainComparison::begin(self.settings.far_ahead, self.max_transactions);
        self.continue_with(Synchronisation { sync_peer, address, started_at: self.now.monotonic, comparison }, &query);
    }

    /// Selects a peer without backoff; failing that, one whose backoff ends within [`MIN_BACKOFF`]; failing that, any.
    fn select_sync_peer(&mut self) -> Option<Address> {
        [Duration::ZERO, MIN_BACKOFF, Duration::MAX].into_iter().find_map(|backoff| {
            let at = self.now.monotonic.saturating_add(backoff);
            self.selector.one_of(|node| !self.table.is_sync_backed_off(node, at), &mut self.random)
        })
    }

    /// Sends the next request to the sync peer.
    fn continue_with(&mut self, run: Synchronisation, query: &Query) {
        let (endpoint, key) = (run.sync_peer.endpoint.clone(), run.sync_peer.identity.key);
        if self.queue(&endpoint, Some(key), query, RequestKind::Synchronisation(Box::new(run))).is_none() {
            self.end_task(Task::Synchronisation, false);
        }
    }

    /// Processes an answer of the sync peer, or the failure of the request.
    pub(super) fn on_sync_reply(&mut self, run: Synchronisation, completed: Completed, chain: &impl LocalChain) {
        let (address, started_at) = (run.address, run.started_at);
        let (sync_peer, waited_for_blocks) = (completed.endpoint.clone(), run.comparison.waits_for_blocks());
        let result = self.process_answer(run, completed, chain);
        if waited_for_blocks {
            self.adjust_max_transactions(result.is_ok());
        }
        if let Err(PeerError { reason, .. }) = result {
            log::debug!("synchronisation with {sync_peer} failed: {reason}");
            self.back_off(address, started_at, true);
            self.end_task(Task::Synchronisation, false);
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
        self.table.back_off_sync(&sync_peer, self.now.monotonic + backoff + MIN_BACKOFF);
    }

    fn process_answer(
        &mut self,
        mut run: Synchronisation,
        completed: Completed,
        chain: &impl LocalChain,
    ) -> Result<(), PeerError> {
        let (body, _, context) = self.signed_body(completed)?;
        let next = run.comparison.on_answer(body, &context, chain, &self.settings.chain);
        if let Some(about) = self.table.data_mut(&run.address) {
            about.score = run.comparison.score().or(about.score);
        }
        match next? {
            NextStep::Request(query) => {
                self.record_valid_answer(&run.address, &run.sync_peer.endpoint);
                self.continue_with(run, &query);
            }
            NextStep::End(outcome) => self.on_comparison_end(run, outcome, chain),
        }
        Ok(())
    }

    fn on_comparison_end(&mut self, run: Synchronisation, outcome: SyncOutcome, chain: &impl LocalChain) {
        let (address, started_at) = (run.address, run.started_at);
        if !matches!(outcome, SyncOutcome::Misbehaved(_)) {
            self.record_valid_answer(&address, &run.sync_peer.endpoint);
        }
        match outcome {
            SyncOutcome::Same => {
                self.clear_split(&address);
                self.request_unconfirmed(&run.sync_peer, chain);
                self.back_off(address, started_at, false);
                self.end_task(Task::Synchronisation, true);
            }
            SyncOutcome::FarAhead(base, target) => {
                self.clear_split(&address);
                self.start_block_download(address, base, target);
            }
            SyncOutcome::LowerScore => {
                self.on_worse_chain(&run.sync_peer, chain);
                self.back_off(address, started_at, false);
                self.end_task(Task::Synchronisation, true);
            }
            SyncOutcome::TooFarBehind | SyncOutcome::Misbehaved(_) => {
                log::debug!("synchronisation with {} ended: {outcome:?}", run.sync_peer.endpoint);
                if matches!(outcome, SyncOutcome::Misbehaved(Misbehavior::InvalidHashes)) {
                    self.record_split(address);
                }
                self.experiences.failed(address, self.now.network);
                self.back_off(address, started_at, true);
                self.end_task(Task::Synchronisation, true);
            }
            SyncOutcome::Blocks { common, base, blocks } => {
                self.validating = Some(run);
                self.actions.push(Action::Validate(FetchedBlocks { from: address, common, base, blocks }));
            }
        }
    }

    /// Requests a peer's unconfirmed transactions, unless such a request is running.
    fn request_unconfirmed(&mut self, sync_peer: &NodeInfo, chain: &impl LocalChain) {
        if self.requests.kinds().any(|(_, kind)| matches!(kind, RequestKind::Unconfirmed(..))) {
            return;
        }
        let kind = RequestKind::Unconfirmed(self.address_of(sync_peer), self.now.monotonic);
        self.queue_query(sync_peer, &Query::Unconfirmed(ShortIds(chain.short_ids())), kind);
    }

    /// Forwards a peer's unconfirmed transactions undecoded, or handles the failure. Neither affects its experience.
    pub(super) fn on_unconfirmed_reply(&mut self, sync_peer: Address, since: Duration, completed: Completed) {
        let endpoint = completed.endpoint.clone();
        let checked = self.signed_body(completed).and_then(|(body, _, context)| {
            context.check(&body)?;
            Ok(body)
        });
        let has_failed = checked.is_err();
        match checked {
            Ok(body) => {
                self.actions.push(Action::SubmitUnconfirmed(body));
                self.record_valid_answer(&sync_peer, &endpoint);
            }
            Err(error) => {
                log::debug!("request for the unconfirmed transactions of {sync_peer} failed: {}", error.reason);
            }
        }
        self.back_off(sync_peer, since, has_failed);
    }

    /// Processes the validation result of a peer's blocks.
    pub fn on_blocks_validated(&mut self, from: &Address, outcome: ValidationOutcome, now: Now) {
        self.now = now;
        let Some(run) = self.validating.take_if(|run| run.address == *from) else { return };
        let (is_useful, is_harmful) = (outcome == ValidationOutcome::Useful, outcome == ValidationOutcome::Harmful);
        // If the peer has moved, whoever answers at the new endpoint did not send the blocks.
        if self.has_endpoint(from, &run.sync_peer.endpoint) {
            self.count_experience(*from, outcome);
            if outcome == ValidationOutcome::TooDeep {
                self.record_split(*from);
            } else if is_useful {
                self.clear_split(from);
            }
            // Our chain has changed meanwhile, which is not the peer's fault unless it was slow.
            let is_slow = now.monotonic.saturating_sub(run.started_at) > SLOW;
            if !is_useful && (outcome != ValidationOutcome::Neutral || is_slow) {
                self.back_off(*from, run.started_at, is_harmful);
            }
        }
        self.end_task(Task::Synchronisation, !is_harmful);
    }

    /// Starts a block download from a sync peer.
    fn start_block_download(&mut self, sync_peer: Address, base: OwnTip, target: Height) {
        let base = BlockRef { height: base.height, hash: base.hash };
        let answer = self.settings.chain.max_blocks_per_sync();
        self.download_count += 1;
        let run = BlockDownload::new(self.download_count, sync_peer, (base, target), answer, self.settings.checkpoint);
        match run.verifying() {
            Some((_, checkpoint)) => log::info!(
                "downloading blocks up to height {target}, this node has {}; hashes are verified first, up to height \
                 {} (--trust-below)",
                base.height,
                checkpoint.height
            ),
            None => log::info!("downloading blocks up to height {target}, this node has {}", base.height),
        }
        self.block_download = Some(run);
    }

    /// Returns whether a block download is running.
    pub fn is_downloading_blocks(&self) -> bool {
        self.block_download.is_some()
    }

    /// Returns the progress of the block download, if one is running.
    pub fn sync_progress(&self) -> Option<SyncProgress> {
        let run = self.block_download.as_ref()?;
        let verified = run.verifying().map(|(height, checkpoint)| (height, checkpoint.height));
        Some(SyncProgress { base: run.base(), target: run.target(), trusted_below: run.trusted_below(), verified })
    }

    /// Returns the next block to process, if a block download is running. After [`NextBlock::Ended`], and once all
    /// returned blocks are in the chain, the host calls [`Manager::end_block_download`].
    pub fn next_block(&mut self, now: Now) -> Option<NextBlock> {
        self.now = now;
        let run = self.block_download.as_mut()?;
        let next = run.next(self.settings.context);
        for node in run.take_useful_peers() {
            self.experiences.succeeded(node, now.network);
        }
        Some(next)
    }

    /// Ends the block download: all returned blocks are in the chain, or this node cannot continue (blames no peer).
    pub fn end_block_download(&mut self, now: Now) {
        self.now = now;
        let Some(run) = self.block_download.take() else { return };
        match run.outcome() {
            Some(DownloadOutcome::SyncPeerMisbehaved(sync_peer)) => {
                self.penalize_sync_peer(sync_peer, "its statements about its chain are false");
            }
            Some(DownloadOutcome::CheckpointMismatch(sync_peer, hash)) => {
                let reason = format!("its block at the height of --trust-below has another hash: {hash}");
                self.penalize_sync_peer(sync_peer, &reason);
            }
            Some(DownloadOutcome::NoPeersLeft) => {
                log::info!("block download stopped: no peer is left that has its chain");
            }
            Some(DownloadOutcome::Done) | None => {}
        }
        let is_done = run.outcome() == Some(DownloadOutcome::Done);
        self.end_task(Task::Synchronisation, is_done);
        if is_done {
            self.synchronise_soon();
        }
    }

    /// Makes the next synchronisation due now, after one that made progress.
    pub(super) fn synchronise_soon(&mut self) {
        if let Phase::Running(schedule) = &mut self.phase {
            schedule.run_now(Task::Synchronisation, self.now.monotonic);
        }
    }

    /// Ends the block download because a block of the sync peer's chain is invalid.
    pub fn on_block_rejected(&mut self, reason: &str, now: Now) {
        self.now = now;
        if let Some(run) = self.block_download.take() {
            self.penalize_sync_peer(run.sync_peer(), reason);
            self.end_task(Task::Synchronisation, false);
        }
    }

    fn penalize_sync_peer(&mut self, sync_peer: Address, reason: &str) {
        log::warn!("the chain of {sync_peer} is rejected: {}", sanitize(reason));
        self.experiences.failed(sync_peer, self.now.network);
    }

    /// Selects further peers for the block download if that is due, and sends its due requests.
    pub(super) fn send_download_requests(&mut self) {
        let now = self.now.monotonic;
        if let Some(run) = self.block_download.as_mut().filter(|run| run.wants_peers(now)) {
            run.add_peers(select(&self.selector, self.settings.node_limit, &mut self.random), now);
        }
        while let Some(request) = self.block_download.as_mut().and_then(|run| run.next_request(now)) {
            if !self.queue_download_request(request)
                && let Some(run) = &mut self.block_download
            {
                run.on_failure(request.id, now);
            }
        }
    }

    fn queue_download_request(&mut self, request: DownloadRequest) -> bool {
        let Some(node) = self.info(&request.peer) else { return false };
        let transactions = match self.settings.format {
            Format::Binary => MAX_BATCH_TRANSACTIONS,
            Format::Json => MAX_JSON_BATCH_TRANSACTIONS,
        };
        let query = match request.query {
            DownloadQuery::HashesFrom(first) => Query::HashesFrom(first),
            DownloadQuery::BlocksAfter(height) => {
                Query::BlocksAfter(ChainRequest::new(height, MIN_BLOCKS, transactions, &self.settings.chain))
            }
        };
        self.queue_query(&node, &query, RequestKind::BlockDownload(request)).is_some()
    }

    /// Processes the answer to a request for hashes or blocks, or its failure.
    pub(super) fn on_download_reply(&mut self, request: DownloadRequest, completed: Completed) {
        let endpoint = completed.endpoint.clone();
        let received = self.signed_body(completed).and_then(|(body, _, context)| {
            Ok(match request.query {
                DownloadQuery::HashesFrom(_) => DownloadAnswer::Hashes(context.read::<HashChain>(&body)?.0),
                DownloadQuery::BlocksAfter(_) => DownloadAnswer::Blocks(context.open_list(body)?),
            })
        });
        if received.is_ok() {
            self.record_valid_answer(&request.peer, &endpoint);
        }
        let Some(run) = &mut self.block_download else { return };
        match received {
            Ok(received) => run.on_answer(request.id, received),
            Err(PeerError { reason, .. }) => {
                log::debug!("no answer to {:?}: {reason}", request.query);
                run.on_failure(request.id, self.now.monotonic);
            }
        }
    }
}
