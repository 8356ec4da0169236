//! What the operator is warned of: jumps and differences of clocks, reorgs, and peers on a chain that cannot be reconciled
//! with ours.

use std::time::Duration;

use super::Node;
use crate::api::ClockState;
use crate::chain::{ChainUpdate, Reorg, ReplacedBlock};
use crate::clock::ClockMode;
use crate::model::{Address, Timestamp};
use crate::net::service::LoopTime;
use crate::peer::io::Now;

/// How many seconds the tip may be ahead of the clock, as the rules of the network allow for blocks.
const MAX_AHEAD: i32 = 10;
/// Difference from the peers' clocks from which on a jump away from them is not accepted.
const DISPUTED_MILLIS: u64 = 60_000;
/// Maximum time for which it is not: what peers say of their clocks proves nothing.
const MAX_DISPUTE: Duration = Duration::from_secs(60 * 60);
/// Minimum interval between warnings about the clock or about a chain that is ahead of it.
const CLOCK_WARNING_INTERVAL: Duration = Duration::from_secs(600);

/// Interval between checks for peers whose chain cannot be followed, and minimum interval between warnings about them.
const SPLIT_CHECK_INTERVAL: Duration = Duration::from_secs(5);
const SPLIT_WARNING_INTERVAL: Duration = Duration::from_secs(600);
/// Maximum number of addresses named in one line.
const MAX_NAMED: usize = 5;

/// Earliest time of the next warning of each kind.
#[derive(Debug, Default)]
pub struct WarningTimes {
    /// The chain is ahead of the clock.
    ahead: Duration,
    /// The clocks of peers differ from this one.
    offset: Duration,
    /// Peers report a time that too few listed peers confirm.
    rejected_time: Duration,
    /// Peers are on a chain that cannot be followed.
    split: Duration,
}

impl Node<'_> {
    /// Warns if the system's clock has jumped, if the chain is ahead of it, or if it differs from the clocks of peers.
    pub(super) fn check_clock(&mut self, now: LoopTime) {
        let follows_system_clock = self.clock.mode == ClockMode::System;
        if let Some(jump) = self.clock_monitor.check(now).filter(|_| follows_system_clock) {
            let seconds = jump as f64 / 1000.0;
            log::warn!(
                "the system's clock has jumped by {seconds:+.1} s; harvesting pauses until it has been stable \
                 for a while"
            );
            self.harvester.postpone(self.clock_monitor.distrusted_until);
            self.block_processor.drop_harvested();
            let shift = self.peers.as_mut().map_or(0, |peers| peers.clock_jumped(jump));
            self.clock.shift(shift);
            self.mempool.clock_jumped(jump + shift);
        }
        let ahead = self.seconds_ahead(self.now(now));
        if ahead > MAX_AHEAD && now.monotonic >= self.warn_at.ahead {
            self.warn_at.ahead = now.monotonic + CLOCK_WARNING_INTERVAL;
            log::warn!(
                "the last block is {ahead} s ahead of this machine's clock, and no block can follow it before that \
                 time; check this machine's clock"
            );
        }
        let difference = self.peers.as_ref().and_then(|peers| peers.time_sync.clock_difference());
        // A jump is accepted once the clock has been steady for a while, unless it has led far away from the peers' clocks.
        let is_far = difference.is_some_and(|millis| millis.unsigned_abs() >= DISPUTED_MILLIS);
        let more = if is_far { MAX_DISPUTE } else { Duration::ZERO };
        self.mempool.is_clock_disputed &= now.monotonic < self.clock_monitor.distrusted_until + more;
        if let Some(millis) = difference.filter(|_| follows_system_clock && now.monotonic >= self.warn_at.offset) {
            self.warn_at.offset = now.monotonic + CLOCK_WARNING_INTERVAL;
            let seconds = millis as f64 / 1000.0;
            log::warn!("the peers' clocks are ahead of this machine's by {seconds:+.1} s; check this machine's clock");
        }
        if follows_system_clock {
            self.warn_of_rejected_time(now);
        }
    }

    /// Warns that peers report a time that too few listed peers confirm.
    fn warn_of_rejected_time(&mut self, now: LoopTime) {
        let rejected = self.peers.as_ref().and_then(|peers| peers.time_sync.rejected_offset);
        let Some(offset) = rejected.filter(|_| now.monotonic >= self.warn_at.rejected_time) else { return };
        self.warn_at.rejected_time = now.monotonic + CLOCK_WARNING_INTERVAL;
        let [theirs, own] = [offset, 0]
            .map(|offset| Timestamp::from_unix_millis(now.unix_millis.saturating_add(offset)).date_and_time());
        log::warn!(
            "peers report the time {theirs} (UTC), but this machine's clock shows {own}: network time does not follow \
             the peers, because too few peers of the operator's list agree. If the clock is wrong, set it; if it is \
             right, some peers report a wrong time, and no action is needed"
        );
    }

    /// Returns the state of the clock for the API.
    pub(super) fn clock_state(&self, now: Now) -> ClockState {
        ClockState {
            chain_ahead: self.seconds_ahead(now),
            jumps: self.clock_monitor.jumps,
            is_unreliable: self.clock.mode == ClockMode::System && now.monotonic < self.clock_monitor.distrusted_until,
        }
    }

    /// How many seconds the tip is ahead of the clock, which may show a time before the first block; negative if it is not.
    fn seconds_ahead(&self, now: Now) -> i32 {
        let clock = (now.network_millis.saturating_add(500)).div_euclid(1000);
        let ahead = i64::from(self.tip_time.0).saturating_sub(clock);
        ahead.clamp(i32::MIN.into(), i32::MAX.into()) as i32
    }

    /// Records a chain update, and logs the blocks that it replaced.
    pub(super) fn note_reorg(&mut self, chain_update: &ChainUpdate, time: Timestamp) {
        let (harvester, byte) = (&self.harvester, self.chain.network.byte);
        let signed_by = |replaced: &ReplacedBlock| Address::from_public_key(&replaced.signer, byte);
        let is_own = |replaced: &ReplacedBlock| {
            harvester.recent_hashes.contains(&replaced.hash) || harvester.unlocked.contains(&signed_by(replaced))
        };
        let Some(reorg) = Reorg::of(chain_update, time, is_own) else { return };
        let mut harvesters: Vec<_> = reorg.replaced.iter().map(signed_by).collect();
        harvesters.sort_unstable();
        harvesters.dedup();
        log::info!(
            "reorg: blocks {} to {} are replaced ({} back), the tip is now at height {}; they were harvested by {}; the \
             new blocks lack {} of their transactions",
            reorg.common.next(),
            reorg.common.0 + reorg.replaced.len() as u64,
            reorg.replaced.len(),
            reorg.tip,
            format_addresses(&harvesters),
            reorg.returned
        );
        for ReplacedBlock { height, hash, .. } in reorg.own() {
            log::warn!(
                "the block {hash} that was harvested here is lost: another block replaced it at height {height}"
            );
        }
        self.reorgs.add(reorg);
    }

    /// Warns that peers are on a chain from which neither side can change to the other.
    pub(super) fn warn_of_splits(&mut self, now: Now) {
        if now.monotonic < self.warn_at.split {
            return;
        }
        let Some(peers) = &self.peers else { return };
        let split = peers.split_peers(now.monotonic);
        self.warn_at.split = now.monotonic + SPLIT_CHECK_INTERVAL;
        if split.nodes.is_empty() {
            return;
        }
        self.warn_at.split = now.monotonic + SPLIT_WARNING_INTERVAL;
        let is_majority = 2 * split.nodes.len() >= split.active;
        log::log!(
            if is_majority { log::Level::Error } else { log::Level::Warn },
            "the network is split for good: of {} networks with active peers that are listed or have delivered blocks, \
             {} ({}) are on another chain, which branches off more than {} blocks back, so neither side can switch to \
             the other's chain. Decide which chain to keep; stop the nodes of the other, move data.mdb, lock.mdb and \
             nisd.lock out of their data folders, and start them again with the list of peers: they download the chain \
             that is kept. See `nisd help trouble`",
            split.active,
            split.nodes.len(),
            format_addresses(&split.nodes),
            self.chain.network.chain.rewrite_limit
        );
    }
}

/// Formats the first addresses, and the number of the rest.
fn format_addresses(addresses: &[Address]) -> String {
    let names: Vec<_> = addresses.iter().take(MAX_NAMED).map(Address::as_str).collect();
    let more = addresses.len().saturating_sub(MAX_NAMED);
    names.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// Maximum drift of the system's clock against the monotonic clock between two checks. Clock corrections at a steady
/// rate stay below it.
const MAX_DRIFT_MILLIS: i64 = 5_000;
/// How long nothing is harvested after a jump.
const HARVEST_PAUSE: Duration = Duration::from_secs(90);

/// Compares the system's clock with the monotonic clock.
///
/// People and programs can set the clock, also by mistake. If a node harvested while its clock was a day ahead for one
/// minute, its block could have no successor for a day.
#[derive(Debug)]
pub struct ClockMonitor {
    /// Unix time of the node's start in milliseconds, as computed by the last check.
    unix_start: i64,
    /// Time before which nothing may be harvested; in the past if the clock is steady.
    distrusted_until: Duration,
    /// Number of jumps so far.
    jumps: u32,
}

impl ClockMonitor {
    /// Starts the monitor.
    pub fn new(now: LoopTime) -> ClockMonitor {
        ClockMonitor { unix_start: unix_start_of(now), distrusted_until: Duration::ZERO, jumps: 0 }
    }

    /// Returns by how many milliseconds the clock has jumped since the last check, if it has.
    pub fn check(&mut self, now: LoopTime) -> Option<i64> {
        let start = unix_start_of(now);
        let jump = start - std::mem::replace(&mut self.unix_start, start);
        (jump.abs() > MAX_DRIFT_MILLIS).then(|| {
            self.distrusted_until = now.monotonic + HARVEST_PAUSE;
            self.jumps = self.jumps.saturating_add(1);
            jump
        })
    }
}

fn unix_start_of(now: LoopTime) -> i64 {
    now.unix_millis.saturating_sub(now.monotonic.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, ahead_millis: i64) -> LoopTime {
        let running = Duration::from_secs(seconds);
        LoopTime { unix_millis: 1_700_000_000_000 + running.as_millis() as i64 + ahead_millis, monotonic: running }
    }

    #[test]
    fn a_clock_that_is_wrong_for_a_minute_is_not_followed() {
        let mut watch = ClockMonitor::new(at(0, 0));
        assert_eq!(watch.check(at(100, 3)), None);
        assert_eq!(watch.check(at(101, 86_400_000)), Some(86_399_997));
        assert_eq!(watch.check(at(160, 86_400_001)), None);
        assert!(watch.distrusted_until > at(161, 0).monotonic);
        assert_eq!(watch.check(at(161, 1)), Some(-86_400_000));
        assert_eq!(watch.distrusted_until, at(161 + 90, 0).monotonic);
    }

    #[test]
    fn a_clock_that_is_corrected_slowly_is_followed() {
        let mut watch = ClockMonitor::new(at(0, 0));
        assert!((1..1000).all(|second| watch.check(at(second, second as i64 * 20)).is_none()));
        assert_eq!(watch.distrusted_until, Duration::ZERO);
    }
}
