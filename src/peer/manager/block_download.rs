//! Block download of a chain that is far ahead: starts it, sends its requests, and updates the peers' experiences.

use std::time::Duration;

use super::request_queue::{Completed, RequestKind};
use super::{Manager, SignedAnswer};
use crate::codec::Format;
use crate::model::{Address, Height};
use crate::peer::block_download::{
    BlockDownload, BlockRef, DownloadAnswer, DownloadOutcome, DownloadQuery, DownloadRequest, DownloadRequestId,
    MAX_BATCH_TRANSACTIONS, NextBlock,
};
use crate::peer::error::{PeerError, sanitize};
use crate::peer::io::{Now, OwnTip, PeerIo, Reply};
use crate::peer::schedule::Task;
use crate::peer::wire::{BlockList, ChainRequest, HashChain, Query};

/// Minimum number of blocks per request.
const MIN_BLOCKS: i32 = 10;
/// JSON is decoded in one go, so JSON batches are smaller.
const MAX_JSON_BATCH_TRANSACTIONS: i32 = 200;
/// Interval between selections of further download peers.
const SELECT_INTERVAL: Duration = Duration::from_secs(10);

/// Running block download.
#[derive(Debug)]
pub struct ActiveDownload {
    download: BlockDownload,
    select_at: Duration,
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
    /// Starts a block download from a sync peer.
    pub(super) fn start_block_download(&mut self, sync_peer: Address, base: OwnTip, target: Height, now: Now) {
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
        self.block_download = Some(ActiveDownload { download: run, select_at: now.monotonic });
    }

    /// Returns whether a block download is running.
    pub fn is_downloading_blocks(&self) -> bool {
        self.block_download.is_some()
    }

    /// Returns the progress of the block download, if one is running.
    pub fn sync_progress(&self) -> Option<SyncProgress> {
        let run = &self.block_download.as_ref()?.download;
        let followed = run.verifying().map(|(height, checkpoint)| (height, checkpoint.height));
        Some(SyncProgress {
            base: run.base(),
            target: run.target(),
            trusted_below: run.trusted_below(),
            verified: followed,
        })
    }

    /// Returns the next block to process, if a block download is running. After [`NextBlock::Ended`], and once all returned
    /// blocks are in the chain, the host calls [`Manager::end_block_download`].
    pub fn next_block(&mut self, now: Now) -> Option<NextBlock> {
        let run = &mut self.block_download.as_mut()?.download;
        let next = run.next(self.settings.context);
        for node in run.take_useful_peers() {
            self.experiences.succeeded(node, now.network);
        }
        Some(next)
    }

    /// Ends the block download: all returned blocks are in the chain, or this node cannot continue (blames no peer).
    pub fn end_block_download(&mut self, now: Now) {
        let Some(ActiveDownload { download: run, .. }) = self.block_download.take() else { return };
        match run.outcome() {
            Some(DownloadOutcome::SyncPeerMisbehaved(sync_peer)) => {
                self.penalize_sync_peer(sync_peer, "its statements about its chain are false", now)
            }
            Some(DownloadOutcome::CheckpointMismatch(sync_peer, hash)) => {
                self.penalize_sync_peer(
                    sync_peer,
                    &format!("its block at the height of --trust-below has another hash: {hash}"),
                    now,
                );
            }
            Some(DownloadOutcome::NoPeersLeft) => {
                log::info!("block download stopped: no peer is left that has its chain")
            }
            Some(DownloadOutcome::Done) | None => {}
        }
        let is_done = run.outcome() == Some(DownloadOutcome::Done);
        self.end_task(Task::Synchronisation, is_done, now);
        if is_done {
            self.synchronise_soon(now);
        }
    }

    /// Ends the block download because a block of the sync peer's chain is invalid.
    pub fn on_block_rejected(&mut self, reason: &str, now: Now) {
        if let Some(ActiveDownload { download: run, .. }) = self.block_download.take() {
            self.penalize_sync_peer(run.sync_peer(), reason, now);
            self.end_task(Task::Synchronisation, false, now);
        }
    }

    fn penalize_sync_peer(&mut self, sync_peer: Address, reason: &str, now: Now) {
        log::warn!("the chain of {sync_peer} is rejected: {}", sanitize(reason));
        self.experiences.failed(sync_peer, now.network);
    }

    /// Sends the due requests of the block download.
    pub(super) fn send_download_requests(&mut self, now: Now, io: &mut impl PeerIo) {
        self.select_download_peers(now, io);
        while let Some(ask) =
            self.block_download.as_mut().and_then(|catching_up| catching_up.download.next_request(now.monotonic))
        {
            let is_sent = self.queue_download_request(ask, io);
            if let Some(ActiveDownload { download: run, .. }) = self.block_download.as_mut().filter(|_| !is_sent) {
                run.on_failure(ask.id, now.monotonic);
            }
        }
    }

    fn select_download_peers(&mut self, now: Now, io: &mut impl PeerIo) {
        let is_due = |one: &ActiveDownload| one.select_at <= now.monotonic && one.download.wants_peers();
        if !self.block_download.as_ref().is_some_and(is_due) {
            return;
        }
        let drawn = self.select_by(&self.selector, io);
        if let Some(ActiveDownload { download: run, select_at: draw_at }) = &mut self.block_download {
            *draw_at = now.monotonic + SELECT_INTERVAL;
            drawn.into_iter().for_each(|node| run.add_peer(node));
        }
    }

    fn queue_download_request(&mut self, ask: DownloadRequest, io: &mut impl PeerIo) -> bool {
        let Some(node) = self.table.get(&ask.peer).map(|node| node.data.info.clone()) else { return false };
        let transactions = match self.settings.format {
            Format::Binary => MAX_BATCH_TRANSACTIONS,
            Format::Json => MAX_JSON_BATCH_TRANSACTIONS,
        };
        let query = match ask.query {
            DownloadQuery::HashesFrom(first) => Query::HashesFrom(first),
            DownloadQuery::BlocksAfter(height) => {
                Query::BlocksAfter(ChainRequest::new(height, MIN_BLOCKS, transactions, &self.settings.chain))
            }
        };
        self.queue_query(&node, &query, RequestKind::BlockDownload(ask.id, ask.query), io)
    }

    /// Returns the time of the next delayed request.
    pub(super) fn next_download_due(&self) -> Option<Duration> {
        let ActiveDownload { download: run, select_at: draw_at } = self.block_download.as_ref()?;
        let draws = run.wants_peers().then_some(*draw_at);
        [draws, run.next_due()].into_iter().flatten().min()
    }

    /// Processes the answer to a request for hashes or blocks, or its failure.
    pub(super) fn on_download_reply(
        &mut self,
        id: DownloadRequestId,
        question: DownloadQuery,
        completed: Completed,
        response: Reply,
        now: Now,
        io: &mut impl PeerIo,
    ) {
        let (giver, endpoint) = (self.queried_peer(&completed), completed.endpoint.clone());
        let received = match question {
            DownloadQuery::HashesFrom(_) => {
                self.read_answer(completed.proof, response).map(|(HashChain(hashes), _)| DownloadAnswer::Hashes(hashes))
            }
            DownloadQuery::BlocksAfter(_) => self.open_blocks(completed, response).map(DownloadAnswer::Blocks),
        };
        if let Some(giver) = giver.filter(|_| received.is_ok()) {
            self.record_valid_answer(&giver, &endpoint, now, io);
        }
        let Some(ActiveDownload { download: run, .. }) = &mut self.block_download else { return };
        match received {
            Ok(received) => run.on_answer(id, received),
            Err(PeerError { reason, .. }) => {
                log::debug!("no answer to {question:?}: {reason}");
                run.on_failure(id, now.monotonic);
            }
        }
    }

    fn open_blocks(&self, completed: Completed, response: Reply) -> Result<BlockList, PeerError> {
        let SignedAnswer { body, challenge, key, .. } = self.signed_answer(completed.proof, response)?;
        Ok(BlockList::open(self.settings.format, body, self.settings.context, &challenge, &key)?)
    }
}
