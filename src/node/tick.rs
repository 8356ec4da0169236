//! The node's tick: block import, mempool maintenance, harvesting and publishing.

use std::time::Duration;

use super::block_processor::BlockOrigin;
use super::{Node, UNITS_PER_STEP};
use crate::api::ApiError;
use crate::budget::Budget;
use crate::chain::ConfirmedBlock;
use crate::mempool::{Fate, FateRecord, MempoolEvent};
use crate::model::Height;
use crate::net::service::{ConnectionId, Effects, LoopTime};
use crate::peer::Manager;
use crate::peer::io::Now;
use crate::rules::ValidationResult;
use crate::store::{StoreError, tip};

/// The parts of a tick, in their order.
pub enum TickPart {
    /// Blocks are imported, harvested or processed.
    Chain,
    /// The mempool follows the chain, and news are published.
    News,
    /// Stored rows are compared with their checksums.
    Verification,
    Peers,
}

impl Node<'_> {
    /// Runs pending and due work. `last_tick` is the duration of the last tick.
    pub(super) fn tick(&mut self, budget: u32, last_tick: Duration, time: LoopTime, effects: &mut dyn Effects) {
        // Until a commit is durable and its consequences have begun, everything reads the state before it.
        let store = self.chain.reader.store();
        if self.imported.is_none()
            && !store.durability().is_sync_awaited()
            && !store.durability().has_unsynced_commit()
            && store.failure().is_none()
        {
            self.chain.reader.release();
        }
        self.check_clock(time);
        let now = self.now(time);
        self.read_ahead.look(store, self.reads_from_disk, now.monotonic);
        for connection in self.read_ahead.take_finished() {
            self.end_reading(connection, now, effects);
        }
        self.resume_due(now, effects);
        let is_idle = self.rebuild_target.is_some() || self.is_idle(now);
        if let Some(import) = &mut self.import {
            import.observe_slice(last_tick, is_idle, now.monotonic);
        }
        let tick = self.budget(budget);
        for part in 0..self.tick_parts.len() {
            // A part that has waited for the disk lets clients come first.
            if part > 0 && tick.is_late() {
                effects.wake_at(now.monotonic);
                break;
            }
            self.run_part(budget, now, effects);
            self.tick_parts.rotate_left(1);
        }
        self.warn_of_splits(now);
        if std::mem::take(&mut self.must_log_metrics) {
            log::info!("metrics\n{}", self.metrics(now, effects).to_lines());
        }
        self.broker.on_timer(now.monotonic, effects);
        effects.wake_at(self.next_tick(now));
    }

    /// Runs the next part of a tick.
    fn run_part(&mut self, budget: u32, now: Now, effects: &mut dyn Effects) {
        let can_read = now.monotonic >= self.read_backoff.retry_at;
        let can_write = now.monotonic >= self.write_backoff.retry_at;
        let (result, backoff) = match self.tick_parts[0] {
            TickPart::Chain if can_read && can_write => (self.change_chain(budget, now), &mut self.write_backoff),
            TickPart::News if can_read => (self.work(budget, now, effects), &mut self.read_backoff),
            TickPart::Verification if can_read => {
                let result = self.verification.work(&self.chain.reader, &mut self.read_ahead, now.monotonic);
                (result, &mut self.read_backoff)
            }
            TickPart::Peers => return self.run_peers(now, effects),
            _ => return,
        };
        if let Err(error) = result {
            backoff.record_failure(&error, now.monotonic);
        }
    }

    /// Maintains the mempool and publishes news, on the last commit.
    fn work(&mut self, budget: u32, now: Now, effects: &mut dyn Effects) -> Result<(), StoreError> {
        let time = now.network;
        self.read_new_tip()?;
        self.mempool.tick(time, now.monotonic);
        if self.mempool.has_work() {
            self.mempool.work(&self.chain.at(time)?, &mut Budget::timed(budget, self.monotonic))?;
        }
        self.tell_mempool_changes();
        for hash in std::mem::take(&mut self.mempool.fates.changed) {
            self.broker.status_changed(&hash);
        }
        self.publish(budget, now, effects)?;
        for connection in self.events.take_due(now.monotonic) {
            effects.resume(connection);
        }
        if self.can_accept_announcements() {
            for connection in std::mem::take(&mut self.waiting_for_mempool) {
                effects.resume(connection);
            }
        }
        self.read_backoff.record_no_failure(now.monotonic);
        Ok(())
    }

    /// Hands the changes of the mempool to the websocket API and to the event streams.
    fn tell_mempool_changes(&mut self) {
        let Node { mempool, events, broker, .. } = self;
        let tells_events = events.tells_mempool();
        while let Some(transaction) = mempool.newly_accepted.pop_front() {
            if tells_events && let Some(entry) = mempool.by_hash(&transaction.hash()) {
                let is_root = entry.hashes.own == transaction.hash();
                let event = if is_root { MempoolEvent::Arrived } else { MempoolEvent::Cosigned };
                events.mempool_changed(entry, event);
            }
            broker.news.on_transaction(transaction);
        }
        while let Some((entry, event)) = mempool.newly_changed.pop_front() {
            let is_replaced = matches!(event, MempoolEvent::Left(FateRecord { fate: Fate::Replaced(..), .. }));
            self.invalid_returned += u64::from(is_replaced);
            if tells_events {
                events.mempool_changed(&entry, event);
            }
        }
        if self.invalid_returned > 0 && !mempool.has_work() {
            let count = std::mem::take(&mut self.invalid_returned);
            log::warn!(
                "transactions of the replaced blocks that are invalid now: {count}; /transaction/status tells why"
            );
        }
    }

    /// Returns whether an announced transaction can be validated at once: the mempool is up to date, and publishing is
    /// not far behind.
    pub(super) fn can_accept_announcements(&self) -> bool {
        !self.mempool.has_work() && !self.broker.news.is_behind()
    }

    /// Imports blocks, harvests, or processes blocks of peers; only one of them may change the chain at a time. A download
    /// without a block at hand keeps nobody waiting. Does nothing while the store waits for the disk.
    fn change_chain(&mut self, budget: u32, now: Now) -> Result<(), StoreError> {
        let store = self.chain.reader.store();
        if store.durability().waits_for_disk() {
            return Ok(());
        }
        if self.imported.is_some() && store.durability().begin_sync()? {
            self.show_imported();
        }
        // Takes the snapshot that everything reads until the commit below is durable.
        self.chain.reader.snapshot()?;
        self.import_blocks(&mut self.budget(budget), now)?;
        if self.import.is_some() {
            return Ok(());
        }
        if self.imported.is_some() {
            return store.durability().poll_sync().map(drop);
        }
        let mut budget = self.budget(budget);
        if !self.block_processor.holds_chain() && !self.is_catching_up(now.network) {
            self.harvest(&mut budget, now)?;
        }
        self.process_blocks(&mut budget, now)
    }

    /// Returns the time before which no block may be harvested: the node has to join its network, and may wait for a
    /// known peer to answer.
    fn harvest_blocked_until(&self) -> Duration {
        let joined = self.peers.as_ref().filter(|peers| peers.is_booted());
        joined.map_or(Duration::MAX, |peers| peers.harvesting_blocked_until)
    }

    /// Returns when this node works on its next block.
    fn harvest_due(&self, now: Now) -> Duration {
        if self.is_catching_up(now.network) {
            Duration::MAX
        } else if self.harvester.has_work() {
            now.monotonic
        } else {
            self.harvester.next_round.max(self.harvest_blocked_until())
        }
    }

    /// Works on this node's next block.
    fn harvest(&mut self, budget: &mut Budget, now: Now) -> Result<(), StoreError> {
        // An attempt that has started is always finished: other work waits for the right to change the chain, and for
        // what is published.
        while (self.harvester.has_work() || self.harvest_blocked_until() <= now.monotonic) && !budget.is_exhausted() {
            budget.charge(UNITS_PER_STEP);
            let (chain, unconfirmed) = (self.chain.at(now.network)?, || self.mempool.in_fee_order());
            if let Some(harvested) = self.harvester.step(now.monotonic, &chain, unconfirmed)? {
                self.block_processor.add_harvested(harvested)?;
            }
            if !self.harvester.has_work() {
                break;
            }
        }
        Ok(())
    }

    /// Processes blocks of peers, and harvested ones.
    fn process_blocks(&mut self, budget: &mut Budget, now: Now) -> Result<(), StoreError> {
        loop {
            self.block_processor.read_ahead(self.chain.height, &mut self.read_ahead, now);
            if !self.block_processor.has_work(now.network) || budget.is_exhausted() {
                break;
            }
            budget.charge(UNITS_PER_STEP);
            let processed = match self.block_processor.step(now) {
                Ok(Some(processed)) => processed,
                Ok(None) => continue,
                Err((error, dropped)) => {
                    // It is not the peer's fault.
                    if let (Some(from), Some(peers)) = (dropped, &mut self.peers) {
                        peers.on_blocks_validated(&from, &Err(ValidationResult::Neutral.into()), now);
                    }
                    return Err(error);
                }
            };
            match (&processed.origin, &mut self.peers) {
                (BlockOrigin::Pulled(from), Some(peers)) => peers.on_blocks_validated(from, &processed.result, now),
                (BlockOrigin::Pushed(block), Some(peers)) => {
                    peers.record_pushed_block(&block.by, &processed.result, now);
                }
                _ => {}
            }
            let Some(chain_update) = processed.chain_update else {
                // However many blocks wait, this node's own is next.
                if self.harvest_due(now) <= now.monotonic {
                    break;
                }
                continue;
            };
            if let BlockOrigin::Harvested(block) = &processed.origin {
                self.harvester.record_own(block, &chain_update);
            }
            self.write_backoff.record_success();
            self.relay_queue.extend(processed.origin.into_block());
            // Nothing is read: whatever the disk does, the consequences of the update happen.
            self.note_reorg(&chain_update, now.network);
            self.mempool.cosignatures_may_be_lost(chain_update.cosignatures);
            self.mempool.chain_changed(chain_update.common, chain_update.confirmed, chain_update.returned);
            self.set_tip(chain_update.common, chain_update.tip, chain_update.undone);
            // The event streams read one change of the chain before the next one.
            break;
        }
        Ok(())
    }

    /// Sets the tip to `last`; the chain is unchanged up to `common`, and `undone` blocks, highest first, are no longer in
    /// it. What has to be read for that is left to [`read_new_tip`](Self::read_new_tip).
    pub(super) fn set_tip(&mut self, common: Height, last: Height, undone: Vec<ConfirmedBlock>) {
        self.chain.reader.release();
        self.chain.height = last;
        self.api.chain_changed();
        self.broker.chain_changed(common, last);
        self.unread_changes.push_back((common, undone));
    }

    /// Reads the new tip after changes of the chain, and hands them to the event streams.
    fn read_new_tip(&mut self) -> Result<(), StoreError> {
        while let Some((common, undone)) = self.unread_changes.front_mut() {
            if let Some(tip) = tip(self.chain.reader.snapshot()?)? {
                self.tip_time = tip.timestamp;
            }
            let chain = self.chain.at(self.tip_time)?;
            // Blocks that it cannot describe now are unknown to it.
            let result = self.events.chain_changed(*common, std::mem::take(undone), &chain);
            self.unread_changes.pop_front();
            result?;
        }
        Ok(())
    }

    /// Publishes news and answers queries. Blocks are published only once the mempool is up to date with them: an
    /// account's data shows what waits in the mempool, and transactions that a reorg returned to the mempool are
    /// published before the blocks that replace theirs.
    fn publish(&mut self, budget: u32, now: Now, effects: &mut dyn Effects) -> Result<(), StoreError> {
        let is_mempool_current = !self.mempool.has_work();
        if !self.broker.has_work(is_mempool_current) {
            return Ok(());
        }
        self.broker.reads_ahead = self.read_ahead.is_cold(now.monotonic);
        self.with_context(self.budget(budget), now, |_, broker, node| {
            broker.work(is_mempool_current, node, effects);
        })?;
        for (socket, client, request) in self.broker.take_reads() {
            if !self.read_ahead.parks(socket, client, request.into_bytes(), now.monotonic) {
                self.end_reading(socket, now, effects);
            }
        }
        Ok(())
    }

    /// Lets the request or the query of a connection go on for which something was read.
    fn end_reading(&mut self, connection: ConnectionId, now: Now, effects: &mut dyn Effects) {
        let Some(session) = self.broker.table.session_of(connection) else { return effects.resume(connection) };
        let rejection = self.read_ahead.has_given_way(connection).then_some(ApiError::TOO_MUCH_TO_READ);
        self.broker.end_reading(session, rejection.as_ref(), now, effects);
    }

    /// Returns when the next tick is due.
    fn next_tick(&self, now: Now) -> Duration {
        let may_publish_blocks = !self.mempool.has_work();
        let for_chain = if self.chain.reader.store().durability().waits_for_disk() {
            // A tick follows when the disk is done.
            Duration::MAX
        } else if self.imported.is_some() && !self.chain.reader.store().durability().is_syncing() {
            now.monotonic
        } else if self.import.is_some() {
            self.import_due()
        } else {
            let next_block = if self.block_processor.has_work(now.network) { now.monotonic } else { Duration::MAX };
            let import = if self.may_import() { self.import_due() } else { Duration::MAX };
            self.harvest_due(now).min(next_block).min(import)
        };
        let for_chain = for_chain.max(self.write_backoff.retry_at);
        let is_busy = self.mempool.has_work()
            || self.broker.has_work(may_publish_blocks)
            || (self.can_accept_announcements() && !self.waiting_for_mempool.is_empty())
            || self.peers.as_ref().is_some_and(Manager::has_work);
        let peers_due = self.peers.as_ref().and_then(Manager::next_due);
        let timers = [peers_due, self.broker.next_due(), self.events.next_due(), self.api.next_due()];
        let due = self.mempool.next_expiry.min(self.verification.next_due(&self.read_ahead));
        let timers = timers.into_iter().flatten().chain([due]).min();
        let other_work_at = timers.filter(|_| !is_busy).unwrap_or(now.monotonic);
        for_chain.min(other_work_at).max(self.read_backoff.retry_at).min(self.shutdown_at.unwrap_or(Duration::MAX))
    }
}
