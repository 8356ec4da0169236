//! Usage of the bounded collections of the peer state machine.

use super::Manager;
use super::broadcast::{MAX_BUFFERED, max_buffered_bytes};
use super::probes::ProbeReason;
use super::refresh::{MAX_CONCURRENT_PROBES, MAX_GOSSIP_PROBES, Refresh};
use super::request_queue::{MAX_BYTES, MAX_IN_FLIGHT, MAX_LATEST_CALLS, MAX_TARGETS, MAX_WAITING};
use super::signs_of_life::{MAX_SIGN_PROBES, MAX_VERIFICATIONS};
use crate::peer::LimitUsage;
use crate::peer::time_sync::MAX_ROUNDS;

impl Manager {
    /// Returns the usage of every collection that others can make grow.
    pub fn usage(&self) -> Vec<LimitUsage> {
        let (under_way, waiting, bytes) = self.requests.usage();
        let (buffered, buffered_bytes) = self.relay_buffer.usage();
        let refreshing = self.probes.count(ProbeReason::Selected) + self.probes.count(ProbeReason::Gossip);
        let mut loads = vec![
            LimitUsage::new("requests in flight", under_way, MAX_IN_FLIGHT),
            LimitUsage::new("queued requests", waiting, MAX_WAITING),
            LimitUsage::new("bytes of requests", bytes, MAX_BYTES),
            LimitUsage::new("peers with counted requests", self.requests.targets(), MAX_TARGETS),
            LimitUsage::new("latest calls", self.requests.latest().count(), MAX_LATEST_CALLS),
            LimitUsage::new("transactions to relay", buffered, MAX_BUFFERED),
            LimitUsage::new("bytes to relay", buffered_bytes, max_buffered_bytes(&self.settings)),
            LimitUsage::new("signs of life to verify", self.verifications.count(), MAX_VERIFICATIONS),
            LimitUsage::new("probes by signs of life", self.probes.count(ProbeReason::SignOfLife), MAX_SIGN_PROBES),
            LimitUsage::new("probes of a refresh", refreshing, MAX_CONCURRENT_PROBES),
            LimitUsage::new(
                "gossiped peers",
                self.refresh.as_ref().map_or(0, Refresh::gossip_probes),
                MAX_GOSSIP_PROBES,
            ),
            LimitUsage::new("rounds of time synchronisation", self.time_sync.rounds().count(), MAX_ROUNDS),
        ];
        loads.extend(self.table.usage());
        loads.extend(self.experiences.usage());
        loads
    }
}
