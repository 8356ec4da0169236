//! The peer layer in the node: the chain and mempool that it reads, its effects, and the work that it has for the rest of
//! the node.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::Node;
use super::block_processor::{BlockOrigin, ProcessedBlocks};
use super::read_ahead::ReadAhead;
use crate::chain::ChainSnapshot;
use crate::crypto::Randomness;
use crate::mempool::{Mempool, ShortId};
use crate::model::{Address, Hash256, Height, Network};
use crate::net::service::Effects;
use crate::peer::io::{Action, LocalChain, Now, OwnTip, StoreUnreadable};
use crate::peer::{Manager, PeerSettings};
use crate::rules::{Rejection, ValidationResult};
use crate::state;
use crate::store::{Read, Snapshot, StoreError, block_row, stored_header, tip};

/// Rows of the trust calculation per tick.
const TRUST_ROWS_PER_TICK: usize = 32;
/// Transactions from remote mempools that are processed per tick.
const REMOTE_TRANSACTIONS_PER_TICK: usize = 4;

/// Carries out the actions that the peer layer has yielded.
pub fn carry_out_actions(peers: &mut Manager, effects: &mut dyn Effects) {
    for action in peers.take_actions() {
        match action {
            Action::Fetch(id, request) => effects.fetch(id, request),
            Action::Cancel(id) => effects.cancel(id),
            Action::Resume(client) => effects.resume(client),
        }
    }
}

impl Node<'_> {
    /// Returns whether this node has joined its network.
    pub(super) fn has_joined(&self) -> bool {
        self.peers.as_ref().is_some_and(Manager::is_booted)
    }

    /// Starts to join the network, if the node is booted and has not started yet. Joining is immediate if the own
    /// address need not be detected.
    pub(super) fn start_joining(&mut self, now: Now, effects: &mut dyn Effects) {
        if !self.identity.is_booted || self.peers.is_some() {
            return;
        }
        let listed = std::mem::take(&mut self.listed);
        let local = self.identity.info.clone();
        let connections = self.peer_connections;
        let settings = PeerSettings { connections, ..super::peer_settings(self.settings, listed) };
        let mut randomness = Randomness::new(&self.randomness.next_bytes());
        let random = Box::new(move || randomness.next_u64());
        let mut peers = Manager::new(local, Rc::clone(&self.identity.keys), settings, random, now);
        peers.add_saved_peers(&self.saved.saved);
        self.peers = Some(peers);
        self.with_peers(now, effects, |peers, chain| peers.tick(now, TRUST_ROWS_PER_TICK, chain));
    }

    /// Runs the due work of the peer layer, and applies its results to the node.
    pub(super) fn run_peers(&mut self, now: Now, effects: &mut dyn Effects) {
        self.start_joining(now, effects);
        let Some(peers) = &mut self.peers else { return };
        for block in std::mem::take(&mut self.relay_queue) {
            peers.push_block(block, now);
        }
        carry_out_actions(peers, effects);
        if now.monotonic < self.read_backoff.retry_at {
            return;
        }
        self.with_peers(now, effects, |peers, chain| peers.tick(now, TRUST_ROWS_PER_TICK, chain));
        if let Some(peers) = &mut self.peers {
            if self.block_processor.may_pull()
                && let Some(blocks) = peers.fetched_blocks.take()
            {
                self.block_processor.pull(blocks);
            }
            self.clock.shift(std::mem::take(&mut peers.clock_shift));
            self.identity.info.endpoint.clone_from(&peers.local.endpoint);
        }
        if let Err(error) = self.add_remote_transactions(now) {
            self.read_backoff.record_failure(&error, now.monotonic);
        }
    }

    /// Adds some transactions from a remote mempool to this one. They are not relayed.
    fn add_remote_transactions(&mut self, now: Now) -> Result<(), StoreError> {
        if !self.can_accept_announcements() {
            return Ok(());
        }
        let budget = self.budget(0);
        for _ in 0..REMOTE_TRANSACTIONS_PER_TICK {
            // The accounts of one may have been read from the disk.
            if budget.is_late() {
                break;
            }
            let transaction = self.peers.as_mut().and_then(Manager::next_remote_transaction);
            let Some(transaction) = transaction else { break };
            let Node { reader, network, height, mempool, .. } = self;
            let chain = ChainSnapshot { snapshot: reader.snapshot()?, network, height: *height, now: now.network };
            // Any other invalid transaction has no consequences for the peer: it may be valid on the peer's chain.
            if let Err(Rejection::Result(ValidationResult::FailureSignatureNotVerifiable)) =
                mempool.add(transaction, &chain)
                && let Some(peers) = &mut self.peers
            {
                peers.reject_remote_transactions(now);
            }
        }
        Ok(())
    }

    /// Runs the peer layer on the last commit, and carries out its actions. If the store cannot be read, only starts the
    /// read backoff.
    pub(super) fn with_peers(
        &mut self,
        now: Now,
        effects: &mut dyn Effects,
        run: impl FnOnce(&mut Manager, &ChainReader<'_>),
    ) {
        let Node { reader, network, mempool, peers, read_backoff, read_ahead, .. } = self;
        let Some(peers) = peers else { return };
        match reader.snapshot() {
            Ok(snapshot) => {
                let read_ahead = RefCell::new(read_ahead);
                run(peers, &ChainReader { snapshot, network, mempool, read_ahead, now: now.monotonic });
                carry_out_actions(peers, effects);
            }
            Err(error) => read_backoff.record_failure(&error, now.monotonic),
        }
    }

    /// Records the result of processed blocks.
    pub(super) fn record_processed(&mut self, processed: &ProcessedBlocks, now: Now) {
        let Some(peers) = &mut self.peers else { return };
        match &processed.origin {
            BlockOrigin::Harvested(_) => {}
            BlockOrigin::Pulled(node) => peers.on_blocks_validated(node, &processed.result, now),
            BlockOrigin::Pushed(block) => peers.record_pushed_block(&block.by, &processed.result, now),
        }
    }
}

/// The last commit and the mempool, as the peer layer reads them.
pub struct ChainReader<'a> {
    snapshot: &'a Snapshot<'a>,
    network: &'a Network,
    mempool: &'a Mempool,
    read_ahead: RefCell<&'a mut ReadAhead>,
    now: Duration,
}

/// Returns the importance of a node's account, or of the one that delegated its importance to it, at the last calculation; 0
/// if it was not computed then.
pub fn node_importance(state: &impl Read, node: &Address, network: &Network) -> Result<f64, StoreError> {
    let height = tip(state)?.ok_or(StoreError::Empty)?.height;
    let lender = state::account(state, node)?.harvests_for(height, network.chain.rewrite_limit);
    state::current_importance(state, &lender.unwrap_or(*node))
}

impl LocalChain for ChainReader<'_> {
    fn tip(&self) -> Result<OwnTip, StoreUnreadable> {
        let read = || {
            let last = tip(self.snapshot)?.ok_or(StoreError::Empty)?;
            let row = block_row(self.snapshot, last.height)?.ok_or(StoreError::Empty)?;
            let signature = Some(row.signature);
            Ok(OwnTip { height: last.height, hash: last.hash, signature, score: last.score })
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
        self.mempool.short_ids()
    }

    fn importance(&self, node: &Address) -> Result<f64, StoreUnreadable> {
        node_importance(self.snapshot, node, self.network).map_err(unreadable)
    }

    fn has_read(&self, nodes: &[Address]) -> bool {
        self.read_ahead.borrow_mut().has_read_accounts(nodes, self.now)
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
