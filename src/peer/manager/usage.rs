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
            LimitUsage::new("requests under way", under_way, MAX_IN_FLIGHT),
            LimitUsage::new("requests that wait", waiting, MAX_WAITING),
            LimitUsage::new("bytes of requests", bytes, MAX_BYTES),
            LimitUsage::new("nodes that requests are counted of", self.requests.targets(), MAX_TARGETS),
            LimitUsage::new("calls that are told of", self.requests.latest().count(), MAX_LATEST_CALLS),
            LimitUsage::new("transactions to be passed on", buffered, MAX_BUFFERED),
            LimitUsage::new("bytes to be passed on", buffered_bytes, max_buffered_bytes(&self.settings)),
            LimitUsage::new("signs of life that wait", self.verifications.count(), MAX_VERIFICATIONS),
            LimitUsage::new("contacts by signs of life", self.probes.count(ProbeReason::SignOfLife), MAX_SIGN_PROBES),
            LimitUsage::new("contacts of a refresh", refreshing, MAX_CONCURRENT_PROBES),
            LimitUsage::new(
                "nodes of hearsay",
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
