//! The node's periodic work with peers.

use super::{Means, Node, Partners, peer_settings};
use crate::codec::Context;
use crate::net::fetch::{Answer, FetchError, FetchId};
use crate::net::machine::{Effects, Moment};
use crate::peer::outside::Now;
use crate::store::StoreError;

/// Transactions from remote mempools that are processed per tick.
const OFFERED_PER_TURN: usize = 4;

impl Node<'_> {
    /// The current time for the peer layer.
    pub(super) fn peer_now(&self, now: Moment) -> Now {
        let millis = self.clock.millis(now.unix_millis, now.running.as_millis() as u64);
        Now { running: now.running, time: self.time(now), millis }
    }

    /// Starts to join the network, if the node is booted and has not started yet. Joining is immediate if the own
    /// address need not be detected.
    pub(super) fn join_if_told(&mut self, now: Moment, effects: &mut dyn Effects) {
        if !self.identity.is_booted || self.partners.peers().is_some() {
            return;
        }
        let known = std::mem::take(&mut self.known);
        let (local, present) = (self.identity.description.info.clone(), self.peer_now(now));
        let settings = peer_settings(self.settings, known);
        self.partners.join(local, self.identity.keys(), settings, self.kept.nodes(), present);
        let done = self.with_partners(now, effects, |partners, now, means| partners.turn(now, means));
        self.note_reading(done, now);
    }

    /// Handles the result of a request to a peer.
    pub(super) fn fetched(
        &mut self,
        fetch: FetchId,
        result: Result<Answer, FetchError>,
        now: Moment,
        effects: &mut dyn Effects,
    ) {
        let done = self.with_partners(now, effects, |partners, now, means| partners.fetched(fetch, result, now, means));
        self.note_reading(done, now);
        effects.wake_at(now.running);
    }

    /// Runs the due work of the peer layer, and applies its results to the node.
    pub(super) fn work_with_others(&mut self, now: Moment, effects: &mut dyn Effects) {
        self.join_if_told(now, effects);
        if self.partners.peers().is_none() || now.running < self.reading.until() {
            return;
        }
        let blocks = std::mem::take(&mut self.passed_on);
        let done = self.with_partners(now, effects, |partners, now, means| partners.turn(now, means));
        self.note_reading(done, now);
        for block in blocks {
            let done = self.with_partners(now, effects, |partners, now, means| partners.push_block(block, now, means));
            self.note_reading(done, now);
        }
        self.partners.hand_over(&mut self.judge);
        self.clock.shift(self.partners.take_shift());
        self.identity.seen_at(self.partners.peers());
        let offered = self.look_at_offered(now);
        self.note_reading(offered, now);
    }

    /// Adds some transactions from a remote mempool to this one. They are not relayed.
    fn look_at_offered(&mut self, now: Moment) -> Result<(), StoreError> {
        if !self.may_announce() {
            return Ok(());
        }
        let time = self.time(now);
        for _ in 0..OFFERED_PER_TURN {
            let Some(transaction) = self.partners.next_offered(Context::of(self.network)) else { break };
            let Node { reader, network, height, unconfirmed, .. } = self;
            let confirmed = super::turn::confirmed(reader, network, *height, time)?;
            // An invalid transaction has no consequences for the peer.
            drop(unconfirmed.take_over(transaction, &confirmed));
        }
        Ok(())
    }

    fn with_partners<T>(
        &mut self,
        now: Moment,
        effects: &mut dyn Effects,
        act: impl FnOnce(&mut Partners, Now, Means<'_>) -> T,
    ) -> Result<T, StoreError> {
        let now = self.peer_now(now);
        let Node { reader, network, unconfirmed, randomness, partners, .. } = self;
        let means = Means { snapshot: reader.snapshot()?, network, pool: &unconfirmed.pool, randomness, effects };
        Ok(act(partners, now, means))
    }

    fn note_reading<T>(&mut self, result: Result<T, StoreError>, now: Moment) {
        if let Err(error) = result {
            self.reading.note(&error, now.running);
        }
    }
}
