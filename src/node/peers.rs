//! The node's periodic work with peers.

use super::randomness::Randomness;
use super::{Node, PeerAdapter, PeerContext, peer_settings};
use crate::codec::Context;
use crate::net::fetch::{FetchError, FetchId, FetchResponse};
use crate::net::service::{Effects, LoopTime};
use crate::peer::io::Now;
use crate::store::StoreError;

/// Transactions from remote mempools that are processed per tick.
const REMOTE_TRANSACTIONS_PER_TICK: usize = 4;

impl Node<'_> {
    /// The current time for the peer layer.
    pub(super) fn peer_now(&self, now: LoopTime) -> Now {
        let millis = self.clock.millis(now.unix_millis, now.monotonic.as_millis() as u64);
        Now { monotonic: now.monotonic, network: self.time(now), network_millis: millis }
    }

    /// Starts to join the network, if the node is booted and has not started yet. Joining is immediate if the own
    /// address need not be detected.
    pub(super) fn start_joining(&mut self, now: LoopTime, effects: &mut dyn Effects) {
        if !self.identity.is_booted || self.peer_adapter.peers().is_some() {
            return;
        }
        let known = std::mem::take(&mut self.known);
        let (local, present) = (self.identity.description.info.clone(), self.peer_now(now));
        let settings = peer_settings(self.settings, known);
        let randomness = Randomness::new(&self.randomness.next_bytes());
        self.peer_adapter.join(local, self.identity.keys(), settings, self.kept.peers(), randomness, present);
        let done = self.with_peer_adapter(now, effects, |peers, now, io| peers.tick(now, io));
        self.note_read_result(done, now);
    }

    /// Handles the result of a request to a peer.
    pub(super) fn on_fetch_completed(
        &mut self,
        fetch: FetchId,
        result: Result<FetchResponse, FetchError>,
        now: LoopTime,
        effects: &mut dyn Effects,
    ) {
        let done =
            self.with_peer_adapter(now, effects, |peers, now, io| peers.on_fetch_completed(fetch, result, now, io));
        self.note_read_result(done, now);
        effects.wake_at(now.monotonic);
    }

    /// Runs the due work of the peer layer, and applies its results to the node.
    pub(super) fn run_peers(&mut self, now: LoopTime, effects: &mut dyn Effects) {
        self.start_joining(now, effects);
        if self.peer_adapter.peers().is_none() || now.monotonic < self.read_backoff.retry_at() {
            return;
        }
        let blocks = std::mem::take(&mut self.relay_queue);
        let done = self.with_peer_adapter(now, effects, |peers, now, io| peers.tick(now, io));
        self.note_read_result(done, now);
        for block in blocks {
            let done = self.with_peer_adapter(now, effects, |peers, now, io| peers.push_block(block, now, io));
            self.note_read_result(done, now);
        }
        self.peer_adapter.dispatch_pulled(&mut self.block_processor);
        self.clock.shift(self.peer_adapter.take_clock_shift());
        self.identity.adopt_endpoint(self.peer_adapter.peers());
        let offered = self.add_remote_transactions(now);
        self.note_read_result(offered, now);
    }

    /// Adds some transactions from a remote mempool to this one. They are not relayed.
    fn add_remote_transactions(&mut self, now: LoopTime) -> Result<(), StoreError> {
        if !self.can_accept_announcements() {
            return Ok(());
        }
        let time = self.time(now);
        for _ in 0..REMOTE_TRANSACTIONS_PER_TICK {
            let Some(transaction) = self.peer_adapter.next_remote_transaction(Context::of(self.network)) else { break };
            let Node { reader, network, height, mempool: unconfirmed, .. } = self;
            let confirmed = super::tick::confirmed(reader, network, *height, time)?;
            // An invalid transaction has no consequences for the peer.
            drop(unconfirmed.add_remote(transaction, &confirmed));
        }
        Ok(())
    }

    fn with_peer_adapter<T>(
        &mut self,
        now: LoopTime,
        effects: &mut dyn Effects,
        run: impl FnOnce(&mut PeerAdapter, Now, PeerContext<'_>) -> T,
    ) -> Result<T, StoreError> {
        let now = self.peer_now(now);
        let Node { reader, network, mempool: unconfirmed, peer_adapter: peers, .. } = self;
        let peer_context = PeerContext { snapshot: reader.snapshot()?, network, pool: &unconfirmed.pool, effects };
        Ok(run(peers, now, peer_context))
    }

    fn note_read_result<T>(&mut self, result: Result<T, StoreError>, now: LoopTime) {
        if let Err(error) = result {
            self.read_backoff.record_failure(&error, now.monotonic);
        }
    }
}
