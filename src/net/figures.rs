//! What a server is doing and has done since it was started, for those who watch it.

use std::time::Duration;

use super::fetch::FetchStats;
use super::server::Stats;
use crate::figures::{Histogram, Recent};

/// Statuses that are counted by themselves; all others are counted together.
pub const STATUSES: [u16; 17] = [101, 200, 204, 304, 400, 401, 403, 404, 406, 408, 413, 414, 429, 431, 500, 503, 505];
/// Kinds of requests that are told apart, at most. What the machine numbers higher is of kind 0.
pub const MAX_KINDS: usize = 256;
/// Callers of whom [`Figures::costliest`] tells.
pub const COSTLIEST: usize = 5;

const fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

/// Steps of the time that answers take.
const ANSWER_TIMES: &[Duration] = &[
    micros(500),
    micros(1_000),
    micros(2_500),
    micros(5_000),
    micros(10_000),
    micros(25_000),
    micros(100_000),
    micros(500_000),
    micros(5_000_000),
];
/// Steps of the time of a round.
const ROUND_TIMES: &[Duration] = &[
    micros(100),
    micros(500),
    micros(1_000),
    micros(2_000),
    micros(5_000),
    micros(10_000),
    micros(25_000),
    micros(100_000),
    micros(1_000_000),
];

/// What became of requests of one kind.
#[derive(Clone, Debug)]
pub struct OfKind {
    /// Answers by status, in the order of [`STATUSES`]; those of all others at the end.
    pub answers: [u64; STATUSES.len() + 1],
    /// How long they took, from the complete request to the complete answer; those of requests that were refused
    /// before they were read as a whole are not among them.
    pub times: Histogram,
}

impl Default for OfKind {
    fn default() -> OfKind {
        OfKind { answers: [0; STATUSES.len() + 1], times: Histogram::new(ANSWER_TIMES) }
    }
}

impl OfKind {
    fn count(&mut self, status: u16) {
        let place = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len());
        self.answers[place] += 1;
    }
}

/// What has been counted so far.
#[derive(Clone, Debug)]
pub struct Counts {
    /// What became of requests, by the kind that the machine has given their answers; there may be fewer kinds than it
    /// has.
    pub requests: Vec<OfKind>,
    /// Bytes read from connections.
    pub received_bytes: u64,
    /// Bytes written to them.
    pub sent_bytes: u64,
    /// Websockets that were dropped as nothing came from their clients, not even answers to pings.
    pub silent_websockets: u64,
    /// Websockets that were dropped as their clients did not take their messages.
    pub dropped_websockets: u64,
    /// How long rounds of the loop took, from one look at the sockets to the next, the waiting left out.
    pub rounds: Histogram,
    /// The longest of them lately.
    pub longest_round: Recent<Duration>,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            requests: Vec::new(),
            received_bytes: 0,
            sent_bytes: 0,
            silent_websockets: 0,
            dropped_websockets: 0,
            rounds: Histogram::new(ROUND_TIMES),
            longest_round: Recent::default(),
        }
    }
}

impl Counts {
    /// Counts an answer.
    pub(super) fn answered(&mut self, kind: usize, status: u16, took: Duration) {
        let kind = self.kind(kind);
        kind.count(status);
        kind.times.observe(took);
    }

    /// Counts a request that could not be read or served.
    pub(super) fn refused(&mut self, status: u16) {
        self.kind(0).count(status);
    }

    /// Counts a round that has ended at a moment of the running time.
    pub(super) fn went_round(&mut self, took: Duration, now: Duration) {
        self.rounds.observe(took);
        let longest = self.longest_round.at(now);
        *longest = took.max(*longest);
    }

    fn kind(&mut self, kind: usize) -> &mut OfKind {
        let kind = if kind < MAX_KINDS { kind } else { 0 };
        if self.requests.len() <= kind {
            self.requests.resize_with(kind + 1, OfKind::default);
        }
        &mut self.requests[kind]
    }
}

/// What a caller costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// The part of the processor that it has lately used, by the units of work that were charged to it.
    pub share: f64,
    /// Bytes that are held for its connections.
    pub held_bytes: usize,
}

/// All of it at a moment.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// What there is.
    pub stats: Stats,
    /// What there has been.
    pub counts: Counts,
    /// Requests to other servers.
    pub fetch: FetchStats,
    /// What the callers cost that cost most, the costliest first: by the work that they cause, and by the bytes that
    /// they hold.
    pub costliest: [Cost; COSTLIEST],
    /// Callers that wait until they have paid for what they have caused.
    pub resting: usize,
    /// The longest round of the loop lately.
    pub longest_round: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_statuses_without_end_are_counted_in_places_that_are_few() {
        let mut counts = Counts::default();
        for kind in 0..10 * MAX_KINDS {
            counts.answered(kind, kind as u16, Duration::ZERO);
        }
        assert_eq!(counts.requests.len(), MAX_KINDS);
        let total: u64 = counts.requests.iter().flat_map(|kind| kind.answers).sum();
        assert_eq!(total, 10 * MAX_KINDS as u64);
        let of_ok: Vec<u64> = counts.requests.iter().map(|kind| kind.answers[1]).filter(|count| *count > 0).collect();
        assert_eq!(of_ok, [1]);
    }

    #[test]
    fn what_is_refused_unread_has_no_time() {
        let mut counts = Counts::default();
        counts.refused(431);
        counts.answered(0, 200, micros(1));
        let place = STATUSES.iter().position(|status| *status == 431).unwrap();
        assert_eq!((counts.requests[0].answers[place], counts.requests[0].times.count()), (1, 1));
    }
}
