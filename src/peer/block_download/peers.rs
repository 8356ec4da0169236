//! Peers of a block download.

use std::time::Duration;

use super::{MAX_DOWNLOAD_PEERS, MAX_IN_FLIGHT_PER_PEER};
use crate::model::Address;

/// Consecutive failures after which a peer is removed.
const MAX_FAILURES: u32 = 5;
/// Backoff after the first failure; doubles with each further one.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct DownloadPeer {
    node: Address,
    in_flight: usize,
    /// Consecutive failures.
    failures: u32,
    retry_at: Duration,
}

impl DownloadPeer {
    fn is_ready(&self, now: Duration) -> bool {
        self.in_flight < MAX_IN_FLIGHT_PER_PEER && self.retry_at <= now
    }
}

/// Peers of a block download, chosen by fewest requests in flight.
#[derive(Debug, Default)]
pub struct DownloadPeers {
    peers: Vec<DownloadPeer>,
    /// Peers that must not be added again.
    removed: Vec<Address>,
}

impl DownloadPeers {
    /// Adds a peer, unless it is known, removed or there is no room.
    pub fn add(&mut self, node: Address) {
        if self.peers.len() < MAX_DOWNLOAD_PEERS && !self.has(&node) && !self.removed.contains(&node) {
            self.peers.push(DownloadPeer { node, in_flight: 0, failures: 0, retry_at: Duration::ZERO });
        }
    }

    /// Removes a peer. Keeps the last `2 * MAX_DOWNLOAD_PEERS` removed peers, which cannot be added again.
    pub fn remove(&mut self, node: &Address) {
        let before = self.peers.len();
        self.peers.retain(|worker| worker.node != *node);
        if self.peers.len() < before {
            if self.removed.len() == 2 * MAX_DOWNLOAD_PEERS {
                self.removed.remove(0);
            }
            self.removed.push(*node);
        }
    }

    /// Returns the number of peers.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Returns whether a peer is present.
    pub fn has(&self, node: &Address) -> bool {
        self.peers.iter().any(|worker| worker.node == *node)
    }

    /// Returns any of the peers.
    pub fn any(&self) -> Option<Address> {
        self.peers.first().map(|worker| worker.node)
    }

    /// Returns whether a peer can be queried.
    pub fn is_ready(&self, node: &Address, now: Duration) -> bool {
        self.peers.iter().any(|worker| worker.node == *node && worker.is_ready(now))
    }

    /// Returns the peer with the fewest requests in flight, then the fewest failures, among those that can be queried.
    pub fn choose(&self, now: Duration, is_admitted: impl Fn(&Address) -> bool) -> Option<Address> {
        let ready = self.peers.iter().filter(|worker| worker.is_ready(now) && is_admitted(&worker.node));
        ready.min_by_key(|worker| (worker.in_flight, worker.failures)).map(|worker| worker.node)
    }

    /// Returns the ends of the backoffs.
    pub fn retry_times(&self) -> impl Iterator<Item = Duration> {
        self.peers.iter().map(|worker| worker.retry_at)
    }

    /// Counts a request to a peer.
    pub fn on_request(&mut self, node: &Address) {
        if let Some(worker) = self.get(node) {
            worker.in_flight += 1;
        }
    }

    /// Counts an answer.
    pub fn on_answer(&mut self, node: &Address) {
        if let Some(worker) = self.get(node) {
            worker.in_flight = worker.in_flight.saturating_sub(1);
            worker.failures = 0;
        }
    }

    /// Counts a failure, and removes the peer after `MAX_FAILURES`.
    pub fn on_failure(&mut self, node: &Address, now: Duration) {
        let Some(worker) = self.get(node) else { return };
        worker.in_flight = worker.in_flight.saturating_sub(1);
        worker.retry_at = now + FIRST_BACKOFF * 2_u32.pow(worker.failures.min(MAX_FAILURES));
        worker.failures += 1;
        if worker.failures >= MAX_FAILURES {
            self.remove(node);
        }
    }

    fn get(&mut self, node: &Address) -> Option<&mut DownloadPeer> {
        self.peers.iter_mut().find(|worker| worker.node == *node)
    }
}
