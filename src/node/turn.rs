//! The node's tick: block import, mempool maintenance, harvesting and publishing.

use std::time::Duration;

use super::import::Imported;
use super::teller::Teller;
use super::{Desk, Node, UNITS_PER_STEP};
use crate::api::views::{ClockState, date_and_time};
use crate::api::{Budget, ChainView};
use crate::chain::Switch;
use crate::clock::ClockMode;
use crate::model::{Height, Network, Timestamp};
use crate::net::machine::{Effects, Moment};
use crate::pool::Confirmed;
use crate::store::{Reader, StoreError, tip};

/// How many seconds the tip may be ahead of the clock, as the rules of the network allow for blocks.
const MOST_AHEAD: i32 = 10;
/// Minimum interval between warnings about the clock or about a chain that is ahead of it.
const TELL_OF_CLOCK_EVERY: Duration = Duration::from_secs(600);

impl Node<'_> {
    /// Runs pending and due work. `took` is the duration of the last tick.
    pub(super) fn turn(&mut self, budget: u32, took: Duration, now: Moment, effects: &mut dyn Effects) {
        // While a commit is not yet durable, everything reads the state before it.
        if !self.reader.store().is_awaited() {
            self.reader.release();
        }
        self.watch_clock(now);
        let is_alone = self.is_alone(now);
        self.import.iter_mut().for_each(|import| import.took(took, is_alone));
        self.catching_up.took(took, is_alone);
        if now.running >= self.reading.until() {
            let changed = match now.running >= self.writing.until() {
                true => self.change_chain(Budget::new(budget), now),
                false => Ok(()),
            };
            match (self.work(budget, now, effects), changed) {
                (Err(error), _) => self.reading.note(&error, now.running),
                (Ok(()), Err(error)) => {
                    self.writing.note(&error, now.running);
                    self.note_late_commit(now);
                }
                (Ok(()), Ok(())) => self.reading.is_well(now.running),
            }
            if let Err(error) = self.verification.work(&self.reader, now.running) {
                self.reading.note(&error, now.running);
            }
        }
        self.work_with_others(now, effects);
        self.tell_of_splits(now);
        self.log_figures(now, effects);
        self.broker.due(now.running, effects);
        effects.wake_at(self.next_turn(now));
    }

    /// Maintains the mempool and publishes news, on the last commit.
    fn work(&mut self, budget: u32, now: Moment, effects: &mut dyn Effects) -> Result<(), StoreError> {
        let time = self.time(now);
        self.unconfirmed.drop_expired(time, now.running);
        let mut for_pool = Budget::new(budget);
        let Node { reader, network, height, unconfirmed, .. } = self;
        if unconfirmed.has_work() {
            unconfirmed.work(&confirmed(reader, network, *height, time)?, &mut for_pool)?;
        }
        while let Some(transaction) = self.unconfirmed.pool.next_arrival() {
            self.broker.arrived(transaction);
        }
        self.publish(budget, now, effects)?;
        if self.may_announce() {
            std::mem::take(&mut self.waiting).into_iter().for_each(|connection| effects.resume(connection));
        }
        Ok(())
    }

    /// Returns whether an announced transaction can be validated at once: the mempool is up to date, and publishing is
    /// not far behind.
    pub(super) fn may_announce(&self) -> bool {
        !self.unconfirmed.has_work() && !self.broker.is_behind()
    }

    /// Imports blocks, harvests, or processes blocks of peers; only one of them may change the chain at a time. Does
    /// nothing while the store waits for the disk.
    fn change_chain(&mut self, mut budget: Budget, now: Moment) -> Result<(), StoreError> {
        if self.reader.store().waits_for_disk() {
            return Ok(());
        }
        // Takes the snapshot that everything reads until the commit below is durable.
        self.reader.snapshot()?;
        let time = self.time(now);
        let Some(import) = &mut self.import else {
            if self.may_catch_up() {
                return self.catch_up(&mut budget, now);
            }
            if !self.judge.holds_chain() {
                self.harvest(&mut budget, now)?;
            }
            return if self.harvester.holds_chain() { Ok(()) } else { self.judge_blocks(&mut budget, now) };
        };
        match import.work(time, now.running, &mut budget) {
            Imported::Working => {}
            Imported::Committed { first, last } => self.committed(first, last)?,
            Imported::Failed(error) => return Err(error),
            // The node continues with the chain as it is, since that may be what the operator needs most.
            Imported::Ended(result) => {
                self.import = None;
                if let Err(error) = result {
                    log::error!("no more blocks are taken in: {error}");
                }
            }
        }
        Ok(())
    }

    /// Returns whether the node has joined its network and does not wait for a known peer to answer.
    fn may_harvest(&self, now: Moment) -> bool {
        self.partners.have_joined() && self.partners.waits_until(now.running) <= now.running
    }

    /// Works on this node's next block.
    fn harvest(&mut self, budget: &mut Budget, now: Moment) -> Result<(), StoreError> {
        let time = self.time(now);
        // An attempt that has started is always finished: other work waits for the right to change the chain, and for
        // what is published.
        while (self.harvester.has_work() || self.may_harvest(now)) && !budget.is_spent() {
            budget.spend(UNITS_PER_STEP);
            let Node { reader, network, height, unconfirmed, harvester, .. } = self;
            let confirmed = confirmed(reader, network, *height, time)?;
            if let Some((switch, block)) = harvester.step(now.running, &confirmed, || unconfirmed.in_fee_order())? {
                self.switched(switch, time)?;
                self.passed_on.push(*block);
            }
            if !self.harvester.has_work() {
                break;
            }
        }
        Ok(())
    }

    /// Processes blocks of peers.
    fn judge_blocks(&mut self, budget: &mut Budget, now: Moment) -> Result<(), StoreError> {
        let time = self.time(now);
        while self.judge.has_work() && !budget.is_spent() {
            budget.spend(UNITS_PER_STEP);
            let step = self.judge.step(time);
            if let Some(from) = self.judge.take_dropped() {
                self.partners.could_not_judge(&from, self.peer_now(now));
            }
            let Some(judged) = step? else { continue };
            self.partners.judged(&judged, self.peer_now(now));
            if let Some(switch) = judged.switch {
                self.switched(switch, time)?;
            }
            self.passed_on.extend(judged.accepted.map(|block| *block));
        }
        Ok(())
    }

    /// Updates the node's state after a chain update that is visible and durable.
    fn switched(&mut self, switch: Switch, time: Timestamp) -> Result<(), StoreError> {
        self.writing.is_over();
        self.note_reorg(&switch, time);
        self.rise(switch.common, switch.last)?;
        self.unconfirmed.chain_changed(switch.confirmed, switch.returned);
        Ok(())
    }

    /// Handles a commit that is visible although it failed because the disk did not accept it in the end.
    fn note_late_commit(&mut self, now: Moment) {
        self.reader.release();
        let last = self.reader.snapshot().and_then(tip);
        let result = match last {
            Ok(Some(last)) if last.height > self.height => {
                let before = self.height;
                self.unconfirmed.blocks_added(before.next(), last.height);
                self.rise(before, last.height)
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            self.reading.note(&error, now.running);
        }
    }

    /// Sets the tip to `last`; the chain is unchanged up to `common`.
    pub(super) fn rise(&mut self, common: Height, last: Height) -> Result<(), StoreError> {
        self.reader.release();
        self.height = last;
        self.broker.chain_changed(common, last);
        if let Some(tip) = tip(self.reader.snapshot()?)? {
            self.tip_time = tip.timestamp;
        }
        Ok(())
    }

    /// Publishes news and answers queries. Blocks are published only once the mempool is up to date with them: an
    /// account's data shows what waits in the mempool, and transactions that a reorg returned to the mempool are
    /// published before the blocks that replace theirs.
    fn publish(&mut self, budget: u32, now: Moment, effects: &mut dyn Effects) -> Result<(), StoreError> {
        let (time, status, tells_blocks) = (self.time(now), self.status(), !self.unconfirmed.has_work());
        if !self.broker.has_work(tells_blocks) {
            return Ok(());
        }
        let present = self.peer_now(now);
        let Node {
            reader,
            network,
            height,
            broker,
            unconfirmed,
            harvester,
            judge,
            partners,
            identity,
            randomness,
            reorgs,
            ..
        } = self;
        let view = ChainView { snapshot: reader.snapshot()?, network, height: *height, status };
        let desk = Desk {
            unconfirmed,
            harvester,
            judge,
            identity,
            randomness,
            partners,
            reorgs,
            effects: None,
            now: present,
            connection: None,
            from: None,
            meeting: None,
            inquiry: None,
            is_to_end: false,
            sources: None,
            view,
            time,
        };
        let teller = Teller { desk };
        broker.work(tells_blocks, &teller, now.running, time, &mut { budget }, effects);
        Ok(())
    }

    /// Returns when the next tick is due.
    fn next_turn(&self, now: Moment) -> Duration {
        let tells_blocks = !self.unconfirmed.has_work();
        let tick = match self.partners.have_joined() {
            true => self.harvester.due().max(self.partners.waits_until(now.running)),
            false => Duration::MAX,
        };
        let changes_chain = self.import.is_some() || self.harvester.has_work() || self.judge.has_work();
        let for_chain = match changes_chain {
            // A tick follows when the disk is done.
            _ if self.reader.store().waits_for_disk() => Duration::MAX,
            _ if self.may_catch_up() => self.catching_up.due(),
            true => now.running,
            false => tick,
        };
        let for_chain = for_chain.max(self.writing.until());
        let is_busy = self.unconfirmed.has_work()
            || self.broker.has_work(tells_blocks)
            || (self.may_announce() && !self.waiting.is_empty())
            || self.partners.has_work();
        let of_others = self.partners.next_due().unwrap_or(Duration::MAX);
        let due = self.unconfirmed.due().min(self.broker.next_due().unwrap_or(Duration::MAX)).min(of_others);
        let due = due.min(self.verification.due());
        let for_rest = if is_busy { now.running } else { due };
        for_chain.min(for_rest).max(self.reading.until()).min(self.ends_at.unwrap_or(Duration::MAX))
    }

    /// Warns if the system's clock has jumped, if the chain is ahead of it, or if it differs from the clocks of peers.
    fn watch_clock(&mut self, now: Moment) {
        let follows = self.clock.mode() == ClockMode::System;
        if let Some(jump) = self.clock_watch.look(now).filter(|_| follows) {
            let seconds = jump as f64 / 1000.0;
            log::warn!(
                "the system's clock has jumped by {seconds:+.1} s; nothing is harvested until it has been steady for a \
                 while"
            );
            self.harvester.put_off(self.clock_watch.cautious_until());
        }
        let ahead = self.seconds_ahead(now);
        if ahead > MOST_AHEAD && now.running >= self.tell_ahead_at {
            self.tell_ahead_at = now.running + TELL_OF_CLOCK_EVERY;
            log::warn!(
                "the last block is {ahead} s ahead of this machine's clock, and none can follow it before; is the clock \
                 right?"
            );
        }
        let difference = self.partners.peers().and_then(|peers| peers.time().clock_difference());
        if let Some(millis) = difference.filter(|_| follows && now.running >= self.tell_difference_at) {
            self.tell_difference_at = now.running + TELL_OF_CLOCK_EVERY;
            let seconds = millis as f64 / 1000.0;
            log::warn!("the clocks of other nodes are ahead of this machine's by {seconds:+.1} s; is the clock right?");
        }
        if follows {
            self.tell_of_refused_time(now);
        }
    }

    /// Warns that peers report a time that too few listed peers confirm.
    fn tell_of_refused_time(&mut self, now: Moment) {
        let refused = self.partners.peers().and_then(|peers| peers.time().refused());
        let Some(offset) = refused.filter(|_| now.running >= self.tell_refused_at) else { return };
        self.tell_refused_at = now.running + TELL_OF_CLOCK_EVERY;
        let [theirs, own] = [offset, 0]
            .map(|offset| date_and_time(Timestamp::from_unix_millis(now.unix_millis.saturating_add(offset))));
        log::warn!(
            "other nodes say that it is {theirs} (UTC), and this machine's clock that it is {own}: network time does not \
             follow them, as too few nodes of the operator's list agree. If the clock is wrong, set it; if it is right, \
             somebody tells a wrong time, and nothing is to be done"
        );
    }

    /// Returns the state of the clock for the API.
    pub(super) fn clock_state(&self, now: Moment) -> ClockState {
        ClockState {
            chain_ahead: self.seconds_ahead(now),
            jumps: self.clock_watch.jumps(),
            is_distrusted: self.clock.mode() == ClockMode::System && now.running < self.clock_watch.cautious_until(),
        }
    }

    /// How many seconds the tip is ahead of the clock; negative if it is not.
    fn seconds_ahead(&self, now: Moment) -> i32 {
        self.tip_time.0.saturating_sub(self.time(now).0)
    }
}

pub(super) fn confirmed<'a>(
    reader: &'a Reader<'_>,
    network: &'a Network,
    height: Height,
    now: Timestamp,
) -> Result<Confirmed<'a>, StoreError> {
    Ok(Confirmed { snapshot: reader.snapshot()?, network, height, now })
}
