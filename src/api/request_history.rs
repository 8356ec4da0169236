//! The recent incoming requests, as `/debug/connections/incoming` shows them: those in progress, and the latest.
//!
//! Every request with a route that its client may use is recorded, except those to paths that the operator excludes. An
//! entry reuses the memory of the entry that it replaces.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use super::View;
use super::peers::clamped;
use crate::codec::Encoder;
use crate::model::{Hash256, Timestamp};
use crate::net::service::ConnectionId;
use crate::peer::RequestRecord;

/// Maximum number of latest requests that are kept.
pub const MAX_LATEST: usize = 50;
/// Maximum number of requests of more than one step that are kept at a time; further ones are not recorded.
pub const MAX_OUTSTANDING: usize = 256;
/// Minimum time between two log lines about transactions that were signed in another form.
const WARN_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of bytes kept of a path. No route is that long.
pub const MAX_PATH: usize = 128;

/// History of incoming requests.
#[derive(Debug)]
pub struct RequestHistory {
    /// Excluded paths.
    pub excluded_paths: Vec<String>,
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
    /// Creates an empty history that excludes these paths, ignoring case.
    pub fn new(excluded_paths: Vec<String>) -> RequestHistory {
        RequestHistory {
            excluded_paths,
            recorded: 0,
            latest: VecDeque::new(),
            outstanding: Vec::new(),
            has_current: false,
            next_rewritten_warning: Duration::ZERO,
        }
    }

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

    /// Records the request in hand, which has a route.
    pub fn record(&mut self, path: &str, address: IpAddr, now: Timestamp) {
        if self.excluded_paths.iter().any(|unaudited| unaudited.eq_ignore_ascii_case(path)) {
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

    /// Returns the latest requests, newest first.
    pub fn latest(&self) -> impl Iterator<Item = &RequestRecord<IpAddr>> {
        self.latest.iter()
    }
}

/// Requests in progress, oldest first, and the latest requests, newest first.
pub struct RequestRecords<'a, H> {
    /// Requests in progress.
    pub outstanding: Vec<&'a RequestRecord<H>>,
    /// Latest requests, answered or not.
    pub latest: Vec<&'a RequestRecord<H>>,
    /// Network time.
    pub now: Timestamp,
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn numbers<'a>(history: impl Iterator<Item = &'a RequestRecord<IpAddr>>) -> Vec<u64> {
        history.map(|record| record.number).collect()
    }

    #[test]
    fn the_request_history_keeps_the_latest_requests_in_constant_memory() {
        let mut history = RequestHistory::new(vec!["/Status".to_owned()]);
        for path in ["/a", "/status", "/b"] {
            history.record(path, HOST, Timestamp(1));
        }
        assert_eq!(numbers(history.latest()), [2, 1]);
        let long = "é".repeat(MAX_PATH);
        for _ in 0..2 * MAX_LATEST {
            history.record(&long, HOST, Timestamp(2));
        }
        let latest = numbers(history.latest());
        assert_eq!((latest.len(), latest[0], latest[49]), (MAX_LATEST, 102, 53));
        assert!(history.latest.iter().all(|entry| entry.path.len() <= MAX_PATH && entry.path.capacity() == MAX_PATH));
    }

    #[test]
    fn a_request_is_outstanding_until_it_is_answered_or_disconnected() {
        let mut history = RequestHistory::new(vec!["/quiet".to_owned()]);
        history.record("/a", HOST, Timestamp(1));
        assert_eq!(numbers(history.outstanding()), [1]);
        history.suspend(ConnectionId(7));
        history.begin_step();
        history.record("/quiet", HOST, Timestamp(1));
        history.suspend(ConnectionId(8));
        assert_eq!(numbers(history.outstanding()), [1], "one that is left out waits unseen");
        history.begin_step();
        history.suspend(ConnectionId(7));
        history.record("/b", HOST, Timestamp(2));
        assert_eq!(numbers(history.outstanding()), [1, 2]);
        history.begin_step();
        history.finish(ConnectionId(7));
        assert_eq!(history.outstanding().count(), 0);
        assert_eq!(numbers(history.latest()), [2, 1]);
    }

    #[test]
    fn the_outstanding_request_list_is_limited() {
        let mut history = RequestHistory::new(Vec::new());
        for connection in 0..2 * MAX_OUTSTANDING {
            history.begin_step();
            history.record("/a", HOST, Timestamp(1));
            history.suspend(ConnectionId(connection as u64));
        }
        history.begin_step();
        assert_eq!(history.outstanding().count(), MAX_OUTSTANDING);
        (0..2 * MAX_OUTSTANDING).for_each(|connection| history.finish(ConnectionId(connection as u64)));
        assert_eq!(history.outstanding().count(), 0);
    }

    #[test]
    fn the_warning_about_a_rewritten_transaction_appears_once_a_minute() {
        let mut history = RequestHistory::new(Vec::new());
        let seconds = [0, 1, 59, 60, 61, 119, 121];
        let reported = seconds.map(|second| history.warn_rewritten(&Hash256::default(), Duration::from_secs(second)));
        assert_eq!(reported, [true, false, false, true, false, false, true]);
    }
}
