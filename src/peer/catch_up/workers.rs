//! Peers of a block download.

use std::time::Duration;

use super::{MAX_ASKED_OF_ONE, MAX_WORKERS};
use crate::model::Address;

/// Consecutive failures after which a peer is removed.
const MAX_FAILURES: u32 = 5;
/// Backoff after the first failure; doubles with each further one.
const FIRST_REST: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Worker {
    node: Address,
    under_way: usize,
    /// Consecutive failures.
    failures: u32,
    rests_until: Duration,
}

impl Worker {
    fn is_ready(&self, now: Duration) -> bool {
        self.under_way < MAX_ASKED_OF_ONE && self.rests_until <= now
    }
}

/// Peers of a block download, chosen by fewest requests in flight.
#[derive(Debug, Default)]
pub struct Workers {
    workers: Vec<Worker>,
    /// Peers that must not be added again.
    removed: Vec<Address>,
}

impl Workers {
    /// Adds a peer, unless it is known, removed or there is no room.
    pub fn add(&mut self, node: Address) {
        if self.workers.len() < MAX_WORKERS && !self.has(&node) && !self.removed.contains(&node) {
            self.workers.push(Worker { node, under_way: 0, failures: 0, rests_until: Duration::ZERO });
        }
    }

    /// Removes a peer. Keeps the last `2 * MAX_WORKERS` removed peers, which cannot be added again.
    pub fn remove(&mut self, node: &Address) {
        let before = self.workers.len();
        self.workers.retain(|worker| worker.node != *node);
        if self.workers.len() < before {
            if self.removed.len() == 2 * MAX_WORKERS {
                self.removed.remove(0);
            }
            self.removed.push(*node);
        }
    }

    /// Returns the number of peers.
    pub fn len(&self) -> usize {
        self.workers.len()
    }

    /// Returns whether a peer is present.
    pub fn has(&self, node: &Address) -> bool {
        self.workers.iter().any(|worker| worker.node == *node)
    }

    /// Returns any of the peers.
    pub fn any(&self) -> Option<Address> {
        self.workers.first().map(|worker| worker.node)
    }

    /// Returns whether a peer can be queried.
    pub fn is_ready(&self, node: &Address, now: Duration) -> bool {
        self.workers.iter().any(|worker| worker.node == *node && worker.is_ready(now))
    }

    /// Returns the peer with the fewest requests in flight, then the fewest failures, among those that can be queried.
    pub fn choose(&self, now: Duration, is_admitted: impl Fn(&Address) -> bool) -> Option<Address> {
        let ready = self.workers.iter().filter(|worker| worker.is_ready(now) && is_admitted(&worker.node));
        ready.min_by_key(|worker| (worker.under_way, worker.failures)).map(|worker| worker.node)
    }

    /// Returns the ends of the backoffs.
    pub fn rests(&self) -> impl Iterator<Item = Duration> {
        self.workers.iter().map(|worker| worker.rests_until)
    }

    /// Counts a request to a peer.
    pub fn asked(&mut self, node: &Address) {
        if let Some(worker) = self.get(node) {
            worker.under_way += 1;
        }
    }

    /// Counts an answer.
    pub fn answered(&mut self, node: &Address) {
        if let Some(worker) = self.get(node) {
            worker.under_way = worker.under_way.saturating_sub(1);
            worker.failures = 0;
        }
    }

    /// Counts a failure, and removes the peer after `MAX_FAILURES`.
    pub fn failed(&mut self, node: &Address, now: Duration) {
        let Some(worker) = self.get(node) else { return };
        worker.under_way = worker.under_way.saturating_sub(1);
        worker.rests_until = now + FIRST_REST * 2_u32.pow(worker.failures.min(MAX_FAILURES));
        worker.failures += 1;
        if worker.failures >= MAX_FAILURES {
            self.remove(node);
        }
    }

    fn get(&mut self, node: &Address) -> Option<&mut Worker> {
        self.workers.iter_mut().find(|worker| worker.node == *node)
    }
}
