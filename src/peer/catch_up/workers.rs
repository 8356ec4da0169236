//! The nodes that are asked.

use std::time::Duration;

use super::{MAX_ASKED_OF_ONE, MAX_WORKERS};
use crate::model::Address;

/// Failures in a row after which a node is not asked any more.
const MAX_FAILURES: u32 = 5;
/// Rest after the first failure; after each that follows it is twice as long.
const FIRST_REST: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Worker {
    node: Address,
    under_way: usize,
    /// In a row.
    failures: u32,
    rests_until: Duration,
}

impl Worker {
    fn is_ready(&self, now: Duration) -> bool {
        self.under_way < MAX_ASKED_OF_ONE && self.rests_until <= now
    }
}

/// Nodes that are asked, those with the fewest requests under way first.
#[derive(Debug, Default)]
pub struct Workers {
    workers: Vec<Worker>,
    /// Who is not asked any more.
    removed: Vec<Address>,
}

impl Workers {
    /// Adds a node, if it is new and there is room.
    pub fn add(&mut self, node: Address) {
        if self.workers.len() < MAX_WORKERS && !self.has(&node) && !self.removed.contains(&node) {
            self.workers.push(Worker { node, under_way: 0, failures: 0, rests_until: Duration::ZERO });
        }
    }

    /// A node is not asked any more. Of those that were removed the first may come back once there are too many.
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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.workers.len()
    }

    /// Whether a node is one of them.
    pub fn has(&self, node: &Address) -> bool {
        self.workers.iter().any(|worker| worker.node == *node)
    }

    /// Any of them.
    pub fn any(&self) -> Option<Address> {
        self.workers.first().map(|worker| worker.node)
    }

    /// Whether a node can be asked.
    pub fn is_ready(&self, node: &Address, now: Duration) -> bool {
        self.workers.iter().any(|worker| worker.node == *node && worker.is_ready(now))
    }

    /// Somebody who can be asked.
    pub fn choose(&self, now: Duration, is_admitted: impl Fn(&Address) -> bool) -> Option<Address> {
        let ready = self.workers.iter().filter(|worker| worker.is_ready(now) && is_admitted(&worker.node));
        ready.min_by_key(|worker| (worker.under_way, worker.failures)).map(|worker| worker.node)
    }

    /// When those that rest can be asked again.
    pub fn rests(&self) -> impl Iterator<Item = Duration> {
        self.workers.iter().map(|worker| worker.rests_until)
    }

    /// A node is asked.
    pub fn asked(&mut self, node: &Address) {
        if let Some(worker) = self.get(node) {
            worker.under_way += 1;
        }
    }

    /// It has answered.
    pub fn answered(&mut self, node: &Address) {
        if let Some(worker) = self.get(node) {
            worker.under_way = worker.under_way.saturating_sub(1);
            worker.failures = 0;
        }
    }

    /// It has failed.
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
