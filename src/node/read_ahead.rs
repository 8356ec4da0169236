//! Requests that wait while helper processes read from the disk what they need.
//!
//! A read of a row that is not in memory stops the only thread of the node. So a request that reads the store waits, while
//! the store is *cold*, until a helper has answered the same request on a snapshot of its own and thrown the answer away:
//! then its rows are in memory. A helper decides nothing. The store is cold after the start, while reads from the disk are
//! seen, and always if it is larger than the memory; never while it is small. A request that was read ahead a moment ago
//! does not wait again.
//!
//! Helpers are shared as everything is, by a [`Quota`]: a client with a thousand cold requests waits in its own line.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::net::http::Request;
use crate::net::service::ConnectionId;
use crate::quota::{Owner, Quota};
use crate::store::Store;

/// How long the store counts as cold after the start and after a read from the disk.
const COLD_FOR: Duration = Duration::from_secs(60);
/// Size up to which a store is read too soon to wait for it.
pub const SMALL_STORE: u64 = 16 << 20;
/// How long the rows of a request count as being in memory after it was read ahead, and the number of such requests.
const WARM_FOR: Duration = Duration::from_secs(60);
const MAX_WARM: usize = 4_096;
/// Time between two looks at the number of reads from the disk.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum size of a request that is read ahead, and of all that wait. Beyond that the largest of the client that holds
/// most gives way, with 503.
pub const MAX_REQUEST_BYTES: usize = 60 << 10;
pub const MAX_WAITING_BYTES: usize = 4 << 20;
/// Helpers that one after another may take too long for a request, which then gets 503. Each goes on where the last ended.
const MAX_TRIES: u32 = 6;
/// Units of work that a read from the disk counts, and a request without any.
const UNITS_PER_READ: u32 = 1_000;
const UNITS_PER_REQUEST: u32 = 50;
/// Units of work that a request counts for which a helper takes too long.
const UNITS_PER_TIMEOUT: u32 = 50_000;

/// A request to be read ahead.
#[derive(Debug, PartialEq, Eq)]
pub struct AheadRequest {
    /// The waiting connection.
    pub connection: ConnectionId,
    /// The request in the form of HTTP.
    pub bytes: Vec<u8>,
}

/// A request that a helper reads.
struct Reading {
    owner: Owner,
    /// The request; nothing if its client is gone.
    bytes: Vec<u8>,
}

/// The waiting requests.
#[derive(Default)]
pub struct ReadAhead {
    /// Bytes of memory; 0 if there are no helpers.
    memory: u64,
    /// Bytes of the store when this last looked.
    store: u64,
    cold_until: Duration,
    next_look: Duration,
    /// Reads from the disk by this process when it last looked.
    seen_reads: u64,
    places: Quota<ConnectionId>,
    waiting: BTreeMap<ConnectionId, Vec<u8>>,
    reading: BTreeMap<ConnectionId, Reading>,
    /// How many helpers have taken too long for a request.
    timeouts: BTreeMap<ConnectionId, u32>,
    finished: BTreeSet<ConnectionId>,
    gave_way: BTreeSet<ConnectionId>,
    warm: BTreeMap<u64, Duration>,
    /// Those that became warm, oldest first.
    warmed: VecDeque<(Duration, u64)>,
    /// Requests read ahead since the start.
    pub total: u64,
}

impl ReadAhead {
    /// Lets requests wait for helpers from now on, on a machine with this much `memory`.
    pub fn enable(&mut self, memory: u64, now: Duration) {
        (self.memory, self.cold_until) = (memory.max(1), now + COLD_FOR);
    }

    /// Looks at the size of the store and at the number of `reads` from the disk by this process, if it is time for that.
    pub fn look(&mut self, store: &Store, reads: fn() -> u64, now: Duration) {
        if self.memory == 0 || now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_INTERVAL;
        self.see(store.used_bytes(), reads(), now);
    }

    fn see(&mut self, store: u64, reads: u64, now: Duration) {
        self.store = store;
        if std::mem::replace(&mut self.seen_reads, reads) != reads {
            self.cold_until = now + COLD_FOR;
        }
    }

    /// Returns whether rows may not be in memory.
    fn is_cold(&self, now: Duration) -> bool {
        self.memory > 0 && self.store > SMALL_STORE && (self.store > self.memory || now < self.cold_until)
    }

    /// Returns whether a new request waits until it was read ahead.
    pub fn parks(&mut self, connection: ConnectionId, owner: Owner, request: &Request<'_>, now: Duration) -> bool {
        if !self.is_cold(now) {
            return false;
        }
        let bytes = request_bytes(request);
        let is_warm = self.warm.get(&xxh3_64(&bytes)).is_some_and(|since| now < *since + WARM_FOR);
        if is_warm || bytes.len() > MAX_REQUEST_BYTES {
            return false;
        }
        self.places.hold(connection, owner, bytes.len(), now);
        self.places.wait(connection, now);
        self.waiting.insert(connection, bytes);
        while self.places.total() > MAX_WAITING_BYTES
            && let Some((_, loser)) = self.places.gives_way()
        {
            self.remove(loser, now);
            self.gave_way.insert(loser);
            self.finished.insert(loser);
        }
        true
    }

    /// Returns whether a request that has waited gave way to others.
    pub fn has_given_way(&mut self, connection: ConnectionId) -> bool {
        self.gave_way.remove(&connection)
    }

    /// Returns whether requests wait for a helper.
    pub fn has_waiting(&self) -> bool {
        self.places.has_waiting()
    }

    /// Takes the next request for a helper.
    pub fn next(&mut self, now: Duration) -> Option<AheadRequest> {
        let (owner, connection) = self.places.next(now)?;
        self.places.release(connection, now);
        let bytes = self.waiting.remove(&connection)?;
        self.reading.insert(connection, Reading { owner, bytes: bytes.clone() });
        Some(AheadRequest { connection, bytes })
    }

    /// Takes the result of a helper: the number of its reads from the disk, or nothing if it failed. The request is answered
    /// in any case.
    pub fn finish(&mut self, connection: ConnectionId, reads: Option<u32>, now: Duration) {
        let Some(Reading { owner, bytes }) = self.reading.remove(&connection) else { return };
        let hash = xxh3_64(&bytes);
        self.timeouts.remove(&connection);
        self.finished.insert(connection);
        self.total += 1;
        let Some(reads) = reads else { return };
        if reads > 0 {
            self.cold_until = now + COLD_FOR;
        }
        self.places.charge(owner, UNITS_PER_REQUEST.saturating_add(reads.saturating_mul(UNITS_PER_READ)), now);
        self.warm.insert(hash, now);
        self.warmed.push_back((now, hash));
        while let Some((since, hash)) = self.warmed.front().copied()
            && (self.warmed.len() > MAX_WARM || now >= since + WARM_FOR)
        {
            self.warmed.pop_front();
            if self.warm.get(&hash) == Some(&since) {
                self.warm.remove(&hash);
            }
        }
    }

    /// Lets a request wait again for which a helper took too long: answered now, it could keep everybody waiting for what is
    /// not in memory yet.
    pub fn postpone(&mut self, connection: ConnectionId, now: Duration) {
        let Some(Reading { owner, bytes }) = self.reading.remove(&connection) else { return };
        self.places.charge(owner, UNITS_PER_TIMEOUT, now);
        if bytes.is_empty() {
            return;
        }
        let timeouts = self.timeouts.entry(connection).or_default();
        *timeouts += 1;
        if *timeouts == MAX_TRIES {
            self.timeouts.remove(&connection);
            self.gave_way.insert(connection);
            self.finished.insert(connection);
        } else {
            self.places.hold(connection, owner, bytes.len(), now);
            self.places.wait(connection, now);
            self.waiting.insert(connection, bytes);
        }
    }

    /// Answers all waiting requests without reading ahead: no helper can be started.
    pub fn give_up(&mut self, now: Duration) {
        while let Some(AheadRequest { connection, .. }) = self.next(now) {
            self.finish(connection, None, now);
        }
    }

    /// Takes the connections whose requests are to be answered.
    pub fn take_finished(&mut self) -> BTreeSet<ConnectionId> {
        std::mem::take(&mut self.finished)
    }

    /// Forgets a connection that was closed. What a helper reads for it is read in vain.
    pub fn remove(&mut self, connection: ConnectionId, now: Duration) {
        if self.waiting.remove(&connection).is_some() {
            self.places.release(connection, now);
        }
        if let Some(reading) = self.reading.get_mut(&connection) {
            reading.bytes.clear();
        }
        self.timeouts.remove(&connection);
        self.finished.remove(&connection);
        self.gave_way.remove(&connection);
    }

    /// Returns the bytes that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.places.total()
    }
}

/// Returns what a handler needs of a request.
fn request_bytes(request: &Request<'_>) -> Vec<u8> {
    let (separator, query) = request.query.map_or(("", ""), |query| ("?", query));
    let mut head = format!("{} {}{separator}{query} HTTP/1.1\r\nHost: localhost\r\n", request.method, request.path);
    for name in ["Accept", "Content-Type"] {
        if let Some(value) = request.header(name) {
            head += &format!("{name}: {value}\r\n");
        }
    }
    if !request.body.is_empty() {
        head += &format!("Content-Length: {}\r\n", request.body.len());
    }
    [head.as_bytes(), b"\r\n", request.body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::http::{MatchedRoute, RequestReader};

    const START: Duration = Duration::from_secs(100);

    fn reader(text: &str) -> RequestReader {
        let mut reader = RequestReader::new(0);
        reader.receive(text.as_bytes());
        assert!(reader.advance(|_, _| MatchedRoute { id: 0, body_limit: 100 << 10 }).unwrap());
        reader
    }

    fn get(account: usize) -> RequestReader {
        reader(&format!("GET /account/get?address={account} HTTP/1.1\r\nHost: a\r\nAccept: text/plain\r\nX: y\r\n\r\n"))
    }

    fn owner(client: u8) -> Owner {
        Owner::at([10, 0, client, 1].into())
    }

    fn enabled() -> ReadAhead {
        let mut ahead = ReadAhead { store: SMALL_STORE + 1, ..ReadAhead::default() };
        ahead.enable(SMALL_STORE + 1, START);
        ahead
    }

    fn parks(ahead: &mut ReadAhead, connection: u64, client: u8, account: usize, now: Duration) -> bool {
        ahead.parks(ConnectionId(connection), owner(client), &get(account).request().unwrap(), now)
    }

    #[test]
    fn a_helper_gets_what_a_handler_needs_of_the_request() {
        let bytes = |text: &str| String::from_utf8(request_bytes(&reader(text).request().unwrap())).unwrap();
        let get = "GET /a/b?c=d%20&e HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n";
        assert_eq!(bytes(&get.replace("\r\n\r\n", "\r\nCookie: a\r\n\r\n")), get);
        let post =
            "POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(bytes(post), post);
    }

    #[test]
    fn requests_wait_while_the_store_is_cold_and_those_just_read_do_not() {
        let mut ahead = enabled();
        assert!(parks(&mut ahead, 1, 1, 1, START));
        assert!(ahead.next(START).unwrap().bytes.starts_with(b"GET /account/get?address=1 HTTP/1.1\r\n"));
        assert!(ahead.take_finished().is_empty());
        ahead.finish(ConnectionId(1), Some(3), START);
        assert_eq!(ahead.take_finished(), BTreeSet::from([ConnectionId(1)]));
        assert!(!parks(&mut ahead, 2, 2, 1, START + WARM_FOR / 2), "it is warm");
        assert!(parks(&mut ahead, 2, 2, 2, START + WARM_FOR / 2));
        assert!(!parks(&mut ahead, 3, 2, 3, START + COLD_FOR), "nothing was read for a minute");
        // A read by this process itself.
        ahead.see(SMALL_STORE + 1, 1, START + COLD_FOR);
        assert!(parks(&mut ahead, 3, 2, 3, START + COLD_FOR) && parks(&mut ahead, 4, 2, 1, START + WARM_FOR));
    }

    #[test]
    fn a_small_store_is_never_cold_and_one_that_is_larger_than_the_memory_always() {
        let mut ahead = ReadAhead::default();
        ahead.see(1 << 40, 1, START);
        assert!(!parks(&mut ahead, 1, 1, 1, START), "there are no helpers");
        ahead.enable(100 << 20, START);
        for (store, later, expected) in [
            (SMALL_STORE, START, false),
            (SMALL_STORE + 1, START, true),
            (SMALL_STORE + 1, 2 * START, false),
            (101 << 20, 3 * START, true),
        ] {
            ahead.see(store, 1, later);
            assert_eq!(parks(&mut ahead, 1, 1, 1, later), expected, "{store}");
        }
    }

    #[test]
    fn a_client_with_a_thousand_cold_requests_waits_in_its_own_line() {
        let mut ahead = enabled();
        (0..1_000).for_each(|account| assert!(parks(&mut ahead, account as u64, 1, account, START)));
        assert!(parks(&mut ahead, 2_000, 2, 5_000, START));
        let served: Vec<_> = (0..3)
            .map(|_| {
                let next = ahead.next(START).unwrap().connection;
                ahead.finish(next, Some(10), START);
                next.0
            })
            .collect();
        assert!(served.contains(&2_000), "{served:?}");
    }

    #[test]
    fn the_requests_of_whoever_holds_most_give_way_when_too_much_waits() {
        let mut ahead = enabled();
        let body = "x".repeat(50 << 10);
        let large = reader(&format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        for connection in 0..100 {
            assert!(ahead.parks(ConnectionId(connection), owner(1), &large.request().unwrap(), START));
        }
        assert!(ahead.waiting_bytes() <= MAX_WAITING_BYTES);
        assert!(parks(&mut ahead, 200, 2, 1, START));
        let losers = ahead.take_finished();
        assert!(losers.len() >= 15 && losers.iter().all(|loser| loser.0 < 100 && ahead.has_given_way(*loser)));
        let longer =
            reader(&format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 61440\r\n\r\n{}", "x".repeat(61_440)));
        assert!(!ahead.parks(ConnectionId(300), owner(1), &longer.request().unwrap(), START));
    }

    #[test]
    fn a_request_is_answered_if_no_helper_reads_it_and_forgotten_if_its_client_is_gone() {
        let mut ahead = enabled();
        assert!(parks(&mut ahead, 1, 1, 1, START) && parks(&mut ahead, 2, 1, 2, START));
        ahead.remove(ConnectionId(1), START);
        ahead.give_up(START);
        assert_eq!(ahead.take_finished(), BTreeSet::from([ConnectionId(2)]));
        assert!(!ahead.has_waiting() && ahead.waiting_bytes() == 0 && ahead.warm.is_empty());
        assert!(parks(&mut ahead, 3, 1, 3, START));
        let taken = ahead.next(START).unwrap().connection;
        ahead.remove(taken, START);
        ahead.finish(taken, Some(1), START);
        assert_eq!(ahead.take_finished(), BTreeSet::from([taken]), "resuming a closed connection has no effect");
    }

    #[test]
    fn a_request_for_which_helpers_take_too_long_is_charged_waits_again_and_gets_503_in_the_end() {
        let mut ahead = enabled();
        assert!(parks(&mut ahead, 1, 1, 1, START));
        for timeout in 1..=MAX_TRIES {
            let next = ahead.next(START).unwrap();
            assert!(next.bytes.starts_with(b"GET /account/get?address=1 "));
            ahead.postpone(next.connection, START);
            assert_eq!(ahead.has_waiting(), timeout < MAX_TRIES);
        }
        assert!(ahead.take_finished().contains(&ConnectionId(1)) && ahead.has_given_way(ConnectionId(1)));
        // Another client comes first.
        assert!(parks(&mut ahead, 2, 1, 2, START) && parks(&mut ahead, 3, 2, 3, START));
        assert_eq!(ahead.next(START).unwrap().connection, ConnectionId(3));
        // Nobody waits for the request of a client that is gone.
        ahead.remove(ConnectionId(3), START);
        ahead.postpone(ConnectionId(3), START);
        assert_eq!(ahead.next(START).unwrap().connection, ConnectionId(2));
        assert!(ahead.next(START).is_none() && ahead.timeouts.is_empty());
    }

    #[test]
    fn what_is_remembered_of_warm_requests_is_bounded() {
        let mut ahead = enabled();
        for account in 0..3 * MAX_WARM {
            assert!(parks(&mut ahead, 1, 1, account, START));
            let next = ahead.next(START).unwrap().connection;
            ahead.finish(next, Some(1), START);
        }
        assert!(ahead.warm.len() <= MAX_WARM && ahead.warmed.len() <= MAX_WARM);
        ahead.see(SMALL_STORE + 1, 1, START + WARM_FOR);
        assert!(parks(&mut ahead, 1, 1, 1, START + WARM_FOR));
        ahead.next(START);
        ahead.finish(ConnectionId(1), Some(1), START + WARM_FOR);
        assert_eq!((ahead.warm.len(), ahead.warmed.len()), (1, 1));
    }
}
