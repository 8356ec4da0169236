//! Metrics of the server.

use std::time::Duration;

use super::fetch::FetchStats;
use super::server::Stats;
use crate::figures::{Histogram, Recent};

/// Status codes with a counter of their own; all others share one.
pub const STATUSES: [u16; 17] = [101, 200, 204, 304, 400, 401, 403, 404, 406, 408, 413, 414, 429, 431, 500, 503, 505];
/// Number of routes with metrics of their own. A higher number counts as route 0.
pub const MAX_KINDS: usize = 256;
/// Clients listed in [`Figures::costliest`].
pub const COSTLIEST: usize = 5;

const fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

/// Histogram buckets of response times.
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
/// Histogram buckets of loop iterations.
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

/// Responses of one route.
#[derive(Clone, Debug)]
pub struct OfKind {
    /// Responses by status in the order of [`STATUSES`]; all other statuses last.
    pub answers: [u64; STATUSES.len() + 1],
    /// Response times: from the request's first incomplete read, or its arrival if it came whole, to the complete
    /// response; for a held request, from its last resume. Requests rejected while being read are not included.
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

/// Counters since the start.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Responses by the route number of [`Reply::kind`](super::http::Reply::kind), as far as the highest one seen.
    pub requests: Vec<OfKind>,
    /// Bytes read from connections.
    pub received_bytes: u64,
    /// Bytes written to connections.
    pub sent_bytes: u64,
    /// Websockets dropped because their clients sent nothing, not even pongs.
    pub silent_websockets: u64,
    /// Websockets dropped because their clients did not take their messages.
    pub dropped_websockets: u64,
    /// Durations of loop iterations, from the end of one poll to the start of the next.
    pub rounds: Histogram,
    /// Longest recent iteration.
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
    /// Counts a response.
    pub(super) fn answered(&mut self, kind: usize, status: u16, took: Duration) {
        let kind = self.kind(kind);
        kind.count(status);
        kind.times.observe(took);
    }

    /// Counts a request that was rejected before the service saw it.
    pub(super) fn refused(&mut self, status: u16) {
        self.kind(0).count(status);
    }

    /// Counts a loop iteration that ended at `now` (monotonic).
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

/// Resources used by a client.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Recent fraction of the processor, by charged units of work.
    pub share: f64,
    /// Bytes buffered for its connections.
    pub held_bytes: usize,
}

/// All metrics at one time.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Gauges and counters of connections.
    pub stats: Stats,
    /// Counters of requests and the loop.
    pub counts: Counts,
    /// Requests to other servers.
    pub fetch: FetchStats,
    /// The largest users, in descending order. `share` and `held_bytes` are ranked independently: the two values of an
    /// entry may belong to different clients.
    pub costliest: [Cost; COSTLIEST],
    /// Clients that have work pending but are throttled.
    pub resting: usize,
    /// Longest recent loop iteration.
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
