//! What is recorded for debugging: the recent requests and the recurring tasks, as `/debug/...` shows them.
//!
//! Every request with a route that its client may use is recorded, except those to paths that the operator excludes. An
//! entry reuses the memory of the entry that it replaces.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use super::routes::{Route, get};
use super::{ApiError, RequestContext, View};
use crate::codec::Encoder;
use crate::model::{Hash256, Timestamp};
use crate::net::service::ConnectionId;
use crate::peer::schedule::Timer;
use crate::peer::time_sync::TimeSyncRound;
use crate::peer::{Manager, RequestRecord};

/// Routes.
pub const ROUTES: &[Route] = &[
    get("/debug/timers", timers),
    get("/debug/connections/incoming", incoming_requests).local(),
    get("/debug/connections/outgoing", outgoing_requests).local(),
    get("/debug/time-synchronization", time_synchronisation),
];

/// Maximum number of latest requests that are kept.
pub const MAX_LATEST: usize = 50;
/// Maximum number of requests of more than one step that are kept at a time; further ones are not recorded.
pub const MAX_OUTSTANDING: usize = 256;
/// Minimum time between two log lines about transactions that were signed in another form.
const WARN_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of bytes kept of a path. No route is that long.
pub const MAX_PATH: usize = 128;

/// History of incoming requests.
#[derive(Debug, Default)]
pub struct RequestHistory {
    recorded: u64,
    /// Newest first.
    latest: VecDeque<RequestRecord<IpAddr>>,
    /// Requests of more than one step, oldest first: at most [`MAX_OUTSTANDING`].
    outstanding: Vec<(ConnectionId, RequestRecord<IpAddr>)>,
    /// The newest recorded request is the one in hand.
    has_current: bool,
    /// When the next log line about a transaction that was signed in another form is due.
    next_rewritten_warning: Duration,
}

impl RequestHistory {
    /// Logs, at most once a minute, that a rejected transaction was signed in another form. Returns whether it was
    /// logged.
    pub fn warn_rewritten(&mut self, hash: &Hash256, running: Duration) -> bool {
        let is_due = running >= self.next_rewritten_warning;
        if is_due {
            self.next_rewritten_warning = running + WARN_INTERVAL;
            log::warn!(
                "transaction {hash} is rejected with FAILURE_SIGNATURE_NOT_VERIFIABLE: its mosaics or modifications \
                 were signed in another order than that of NIS1; see `nisd help coming-from-nis1`"
            );
        }
        is_due
    }

    /// Starts a step of a request, the first or a later one.
    pub fn begin_step(&mut self) {
        self.has_current = false;
    }

    /// Records the request in hand, which has a route, unless its path is excluded, ignoring case.
    pub fn record(&mut self, excluded_paths: &[String], path: &str, address: IpAddr, now: Timestamp) {
        if excluded_paths.iter().any(|unaudited| unaudited.eq_ignore_ascii_case(path)) {
            return;
        }
        self.recorded += 1;
        let oldest = if self.latest.len() == MAX_LATEST { self.latest.pop_back() } else { None };
        let mut text = oldest.map_or_else(|| String::with_capacity(MAX_PATH), |oldest| oldest.path);
        text.clear();
        text.push_str(&path[..path.floor_char_boundary(MAX_PATH)]);
        self.latest.push_front(RequestRecord { number: self.recorded, host: address, path: text, started: now });
        self.has_current = true;
    }

    /// Records that the request in hand, of this connection, takes another step.
    pub fn suspend(&mut self, connection: ConnectionId) {
        let has_room = self.outstanding.len() < MAX_OUTSTANDING;
        if let Some(entry) = self.latest.front().filter(|_| self.has_current && has_room) {
            self.outstanding.push((connection, entry.clone()));
        }
    }

    /// Removes the request of a connection from those in progress: it is answered, or its client disconnected.
    pub fn finish(&mut self, connection: ConnectionId) {
        self.outstanding.retain(|(waiting, _)| *waiting != connection);
    }

    /// Returns the requests in progress, including the one in hand, oldest first.
    pub fn outstanding(&self) -> impl Iterator<Item = &RequestRecord<IpAddr>> {
        let current = self.latest.front().filter(|_| self.has_current);
        self.outstanding.iter().map(|(_, entry)| entry).chain(current)
    }
}

/// Requests in progress, oldest first, and the latest requests, newest first.
struct RequestRecords<'a, H> {
    outstanding: Vec<&'a RequestRecord<H>>,
    latest: Vec<&'a RequestRecord<H>>,
    now: Timestamp,
}

impl<H: ToString> View for RequestRecords<'_, H> {
    fn write(&self, sink: &mut impl Encoder) {
        for (label, history) in [("outstanding", &self.outstanding), ("most-recent", &self.latest)] {
            sink.list(label, history, |sink, record| {
                sink.i32("id", clamped(record.number));
                sink.string("host", Some(&record.host.to_string()));
                sink.string("path", Some(&record.path));
                sink.i32("start-time", record.started.0);
                sink.i32("elapsed-time", self.now.0.saturating_sub(record.started.0));
            });
        }
    }
}

/// `GET /debug/timers`
fn timers(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let timers = context.node.peers.as_deref().map(Manager::timers).unwrap_or_default();
    context.response.send(&Timers(timers))
}

/// `GET /debug/connections/incoming`
fn incoming_requests(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let history = &context.request_history;
    let (outstanding, latest) = (history.outstanding().collect(), history.latest.iter().collect());
    context.response.send(&RequestRecords { outstanding, latest, now: context.node.chain.now })
}

/// `GET /debug/connections/outgoing`
fn outgoing_requests(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let requests = context.node.peers.as_deref().map(|peers| &peers.requests);
    let outstanding = requests.into_iter().flat_map(|requests| requests.outstanding()).collect();
    let latest = requests.into_iter().flat_map(|requests| &requests.latest).collect();
    context.response.send(&RequestRecords { outstanding, latest, now: context.node.chain.now })
}

/// `GET /debug/time-synchronization`
fn time_synchronisation(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.node.require_joined()?;
    let peers = context.node.peers.as_deref();
    let rounds = peers.into_iter().flat_map(|peers| peers.time_sync.rounds.iter()).copied().collect();
    context.response.send(&TimeSynchronisations(rounds))
}

/// Rounds of time synchronization with peers, oldest first.
struct TimeSynchronisations(Vec<TimeSyncRound>);

impl View for TimeSynchronisations {
    fn write(&self, sink: &mut impl Encoder) {
        sink.list("data", &self.0, |sink, round| {
            sink.string("dateTime", Some(&round.time.date_and_time()));
            sink.i64("currentTimeOffset", round.offset);
            sink.i64("change", round.change);
        });
    }
}

/// The recurring tasks and their statistics.
struct Timers<'a>(&'a [Timer]);

impl View for Timers<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.list("data", self.0, |sink, timer| {
            sink.string("name", Some(timer.name));
            sink.i32("executions", clamped(timer.executions));
            sink.i32("successes", clamped(timer.successes));
            sink.i32("failures", clamped(timer.failures));
            sink.i32("last-delay-time", clamped(timer.last_delay.as_millis()));
            sink.i32("last-operation-start-time", timer.last_start.0);
            sink.i32("last-operation-time", clamped(timer.last_seconds));
            sink.i32("average-operation-time", clamped(timer.average_seconds()));
            sink.i32("is-executing", i32::from(timer.is_executing));
        });
    }
}

/// Converts a number to `i32`; one that does not fit, such as milliseconds of more than 24.8 days, becomes the maximum.
fn clamped(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::json::JsonEncoder;

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn numbers<'a>(history: impl Iterator<Item = &'a RequestRecord<IpAddr>>) -> Vec<u64> {
        history.map(|record| record.number).collect()
    }

    #[test]
    fn the_request_history_keeps_the_latest_requests_in_constant_memory() {
        let mut history = RequestHistory::default();
        for path in ["/a", "/status", "/b"] {
            history.record(&["/Status".to_owned()], path, HOST, Timestamp(1));
        }
        assert_eq!(numbers(history.latest.iter()), [2, 1]);
        let long = "é".repeat(MAX_PATH);
        for _ in 0..2 * MAX_LATEST {
            history.record(&[], &long, HOST, Timestamp(2));
        }
        let latest = numbers(history.latest.iter());
        assert_eq!((latest.len(), latest[0], latest[49]), (MAX_LATEST, 102, 53));
        assert!(history.latest.iter().all(|entry| entry.path.len() <= MAX_PATH && entry.path.capacity() == MAX_PATH));
    }

    #[test]
    fn a_request_is_outstanding_until_it_is_answered_or_disconnected() {
        let mut history = RequestHistory::default();
        history.record(&[], "/a", HOST, Timestamp(1));
        assert_eq!(numbers(history.outstanding()), [1]);
        history.suspend(ConnectionId(7));
        history.begin_step();
        history.record(&["/quiet".to_owned()], "/quiet", HOST, Timestamp(1));
        history.suspend(ConnectionId(8));
        assert_eq!(numbers(history.outstanding()), [1], "one that is left out waits unseen");
        history.begin_step();
        history.suspend(ConnectionId(7));
        history.record(&[], "/b", HOST, Timestamp(2));
        assert_eq!(numbers(history.outstanding()), [1, 2]);
        history.begin_step();
        history.finish(ConnectionId(7));
        assert_eq!(history.outstanding().count(), 0);
        assert_eq!(numbers(history.latest.iter()), [2, 1]);
    }

    #[test]
    fn the_outstanding_request_list_is_limited() {
        let mut history = RequestHistory::default();
        for connection in 0..2 * MAX_OUTSTANDING {
            history.begin_step();
            history.record(&[], "/a", HOST, Timestamp(1));
            history.suspend(ConnectionId(connection as u64));
        }
        history.begin_step();
        assert_eq!(history.outstanding().count(), MAX_OUTSTANDING);
        (0..2 * MAX_OUTSTANDING).for_each(|connection| history.finish(ConnectionId(connection as u64)));
        assert_eq!(history.outstanding().count(), 0);
    }

    #[test]
    fn the_warning_about_a_rewritten_transaction_appears_once_a_minute() {
        let mut history = RequestHistory::default();
        let seconds = [0, 1, 59, 60, 61, 119, 121];
        let reported = seconds.map(|second| history.warn_rewritten(&Hash256::default(), Duration::from_secs(second)));
        assert_eq!(reported, [true, false, false, true, false, false, true]);
    }

    #[test]
    fn time_synchronisation_rounds_show_date_and_time() {
        let rounds = vec![TimeSyncRound { time: Timestamp(86_400), offset: -3, change: 4 }];
        let text = JsonEncoder::document(|sink| TimeSynchronisations(rounds.clone()).write(sink));
        let expected = r#"{"data":[{"dateTime":"2015-03-30 00:06:25","currentTimeOffset":-3,"change":4}]}"#;
        assert_eq!(String::from_utf8_lossy(&text).trim_end(), expected);
        assert_eq!(Timestamp(i32::MAX).date_and_time(), "2083-04-16 03:20:32");
    }

    #[test]
    fn a_number_that_does_not_fit_becomes_the_largest() {
        let delay = std::time::Duration::from_secs(25 * 86_400);
        assert_eq!((clamped(delay.as_millis()), clamped(3_u64), clamped(u32::MAX)), (i32::MAX, 3, i32::MAX));
    }
}
