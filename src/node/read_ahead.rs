//! What waits while helper processes read from the disk what it needs.
//!
//! A read of a row that is not in memory stops the only thread of the node. So a request that reads the store waits, while
//! the store is *cold*, until a helper has answered the same request on a snapshot of its own and thrown the answer away:
//! then its rows are in memory. A block waits in the same way until a helper has executed its transactions, and a range of
//! rows before it is verified. A helper decides nothing. The store is cold after the start, while reads from the disk are
//! seen, and always if it is larger than the memory; never while it is small. A request that was read ahead a moment ago
//! does not wait again.
//!
//! Helpers are shared as everything is, by a [`Quota`]: a client with a thousand cold requests waits in its own line. A
//! helper works for a moment on each and then on the next, so a newcomer waits for no more than that; what it has read is in
//! memory when it comes back. Half of the helpers' time is the node's, if it needs that much.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::chain::RecalculationPart;
use crate::codec::SigningForm;
use crate::model::{Address, Block};
use crate::net::http::Request;
use crate::net::service::ConnectionId;
use crate::quota::{Owner, Quota};
use crate::store::{Store, Table};

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
pub const MAX_REQUEST_BYTES: usize = 80 << 10;
pub const MAX_WAITING_BYTES: usize = 4 << 20;
/// Maximum bytes of the transactions of a block that are read ahead together.
const MAX_PART_BYTES: usize = 64 << 10;
/// Maximum number of accounts that are read ahead together.
const MAX_ACCOUNTS: usize = 1_000;
/// Time that helpers spend on one request or block at most. The request then gets 503, the block is executed.
const MAX_READING_TIME: Duration = Duration::from_secs(60);
/// Time after the last request that was read ahead until helpers read what nobody waits for.
const QUIET_FOR: Duration = Duration::from_secs(1);
/// Minimum units of work that a request counts.
const UNITS_PER_REQUEST: u32 = 50;
/// Time of a helper for one unit, and the most that it counts.
const TIME_PER_UNIT: Duration = Duration::from_micros(100);
const MAX_UNITS: u32 = 50_000;

/// Who waits for a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waiting {
    /// The client of a connection.
    Client(ConnectionId),
    /// The node itself, for the work with this number.
    Node(u64),
    /// Nobody: the node is going to need it.
    Nobody,
}

/// What a helper reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AheadKind {
    /// What answers a request in the form of HTTP.
    Request,
    /// What the execution of a block needs.
    Block,
    /// The rows of a range: its table in one byte, and a key.
    Range,
    /// Accounts with their importances, by their addresses.
    Accounts,
    /// What a recalculation of importances reads ([`RecalculationPart`]).
    Recalculation,
}

impl AheadKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [AheadKind; 5] =
        [AheadKind::Request, AheadKind::Block, AheadKind::Range, AheadKind::Accounts, AheadKind::Recalculation];
}

/// Work for a helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AheadWork {
    /// What it reads.
    pub kind: AheadKind,
    /// The request, the block, the range or the accounts; empty if nobody waits for it any more.
    pub bytes: Vec<u8>,
}

/// Work of the node that is read ahead: the numbers of its parts from the first to the one after the last. There is none if
/// everything is in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadTicket {
    first: u64,
    end: u64,
}

/// Work that waits for a helper, or that one does at present.
struct Pending {
    work: AheadWork,
    /// The client; none for the node.
    owner: Option<Owner>,
    /// Time that helpers have spent on it.
    spent: Duration,
    is_reading: bool,
}

/// What waits for helpers.
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
    /// All work, that of the node in its order.
    pending: BTreeMap<Waiting, Pending>,
    /// The number of the next work of the node.
    next_own: u64,
    /// Whether the last that a helper got was for the node.
    was_own: bool,
    /// From when on helpers read what nobody waits for.
    quiet_at: Duration,
    /// The accounts that are read ahead.
    accounts: Option<AheadTicket>,
    finished: BTreeSet<ConnectionId>,
    gave_way: BTreeSet<ConnectionId>,
    warm: BTreeMap<u64, Duration>,
    /// Those that became warm, oldest first.
    warmed: VecDeque<(Duration, u64)>,
    /// Requests read ahead since the start, and parts of blocks.
    pub total: u64,
    pub total_blocks: u64,
}

impl ReadAhead {
    /// Lets requests wait for helpers from now on, on a machine with this much `memory`, if that is known.
    pub fn enable(&mut self, memory: Option<u64>, now: Duration) {
        (self.memory, self.cold_until) = (memory.unwrap_or(u64::MAX).max(1), now + COLD_FOR);
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
    pub fn is_cold(&self, now: Duration) -> bool {
        self.memory > 0 && self.store > SMALL_STORE && (self.store > self.memory || now < self.cold_until)
    }

    /// Returns whether a new request, in the form of HTTP, waits until it was read ahead.
    pub fn parks(&mut self, connection: ConnectionId, owner: Owner, bytes: Vec<u8>, now: Duration) -> bool {
        if !self.is_cold(now) {
            return false;
        }
        let is_warm = self.warm.get(&xxh3_64(&bytes)).is_some_and(|since| now < *since + WARM_FOR);
        if is_warm || bytes.len() > MAX_REQUEST_BYTES {
            return false;
        }
        let work = AheadWork { kind: AheadKind::Request, bytes };
        let pending = Pending { work, owner: Some(owner), spent: Duration::ZERO, is_reading: false };
        self.add(Waiting::Client(connection), pending, now);
        while self.places.total() > MAX_WAITING_BYTES
            && let Some((_, loser)) = self.places.gives_way()
        {
            self.remove(loser, now);
            self.reject(loser);
        }
        true
    }

    /// Lets work wait for a helper.
    fn add(&mut self, waiting: Waiting, pending: Pending, now: Duration) {
        if let (Waiting::Client(connection), Some(owner)) = (waiting, pending.owner) {
            self.places.hold(connection, owner, pending.work.bytes.len(), now);
            self.places.wait(connection, now);
        }
        self.pending.insert(waiting, pending);
    }

    /// Lets a request be answered with 503.
    fn reject(&mut self, connection: ConnectionId) {
        self.gave_way.insert(connection);
        self.finished.insert(connection);
    }

    /// Returns whether a request that has waited is not to be answered: others came first, or it takes too long.
    pub fn has_given_way(&mut self, connection: ConnectionId) -> bool {
        self.gave_way.remove(&connection)
    }

    /// Reads ahead what the execution of a block needs, in parts, and those of the `recalculation` after it; nothing while
    /// everything is in memory.
    pub fn read_block(&mut self, block: &Block, recalculation: &[RecalculationPart], now: Duration) -> AheadTicket {
        if !self.is_cold(now) {
            return AheadTicket::default();
        }
        let first = self.next_own;
        let whole = block.to_bytes(SigningForm::Verifiable);
        if whole.len() <= MAX_PART_BYTES {
            self.add_own(AheadKind::Block, whole);
        } else {
            let mut part = block.clone();
            let mut bytes = 0;
            for transaction in std::mem::take(&mut part.transactions) {
                let more = transaction.to_bytes(SigningForm::Verifiable).len();
                if bytes > 0 && bytes + more > MAX_PART_BYTES {
                    self.add_own(AheadKind::Block, part.to_bytes(SigningForm::Verifiable));
                    part.transactions.clear();
                    bytes = 0;
                }
                bytes += more;
                part.transactions.push(transaction);
            }
            self.add_own(AheadKind::Block, part.to_bytes(SigningForm::Verifiable));
        }
        recalculation.iter().for_each(|part| self.add_own(AheadKind::Recalculation, part.to_bytes()));
        AheadTicket { first, end: self.next_own }
    }

    /// Reads ahead the range of a key; nothing while everything is in memory.
    pub fn read_range(&mut self, table: Table, key: &[u8], now: Duration) -> AheadTicket {
        let first = self.next_own;
        if self.is_cold(now) {
            self.add_own(AheadKind::Range, [&[table as u8], key].concat());
        }
        AheadTicket { first, end: self.next_own }
    }

    /// Reads ahead accounts with their importances. Returns whether that is done, or everything is in memory; until then the
    /// caller asks again.
    pub fn has_read_accounts(&mut self, accounts: &[Address], now: Duration) -> bool {
        if let Some(ticket) = self.accounts {
            let is_done = !self.is_reading(ticket);
            self.accounts = self.accounts.filter(|_| !is_done);
            return is_done;
        }
        if !self.is_cold(now) || accounts.is_empty() {
            return true;
        }
        self.accounts = Some(self.read_accounts(accounts, now));
        false
    }

    /// Reads ahead accounts with their importances; nothing while everything is in memory.
    pub fn read_accounts(&mut self, accounts: &[Address], now: Duration) -> AheadTicket {
        let first = self.next_own;
        if self.is_cold(now) {
            for part in accounts.chunks(MAX_ACCOUNTS) {
                self.add_own(AheadKind::Accounts, part.iter().flat_map(Address::as_bytes).copied().collect());
            }
        }
        AheadTicket { first, end: self.next_own }
    }

    /// Reads ahead a part of a recalculation for which nothing waits yet. Returns whether it is going to be read: helpers read
    /// one such part at a time, and none while everything is in memory.
    pub fn read_early(&mut self, part: &RecalculationPart, now: Duration) -> bool {
        let is_free = self.is_cold(now) && !self.pending.contains_key(&Waiting::Nobody);
        if is_free {
            self.insert(Waiting::Nobody, AheadKind::Recalculation, part.to_bytes());
        }
        is_free
    }

    fn add_own(&mut self, kind: AheadKind, bytes: Vec<u8>) {
        self.insert(Waiting::Node(self.next_own), kind, bytes);
        self.next_own += 1;
    }

    fn insert(&mut self, waiting: Waiting, kind: AheadKind, bytes: Vec<u8>) {
        let work = AheadWork { kind, bytes };
        self.pending.insert(waiting, Pending { work, owner: None, spent: Duration::ZERO, is_reading: false });
    }

    /// Returns whether more work of the node may wait; there is none while everything is in memory.
    pub fn has_room(&self, now: Duration) -> bool {
        self.is_cold(now) && self.own().map(|(_, work)| work.bytes.len()).sum::<usize>() < MAX_WAITING_BYTES
    }

    /// Returns the work of the node that waits; last that for which nobody does.
    fn own(&self) -> impl Iterator<Item = (Waiting, &AheadWork)> {
        let own = self.pending.range(Waiting::Node(0)..).filter(|(_, pending)| !pending.is_reading);
        own.map(|(waiting, pending)| (*waiting, &pending.work))
    }

    /// Returns whether work of the node is still being read ahead.
    pub fn is_reading(&self, ticket: AheadTicket) -> bool {
        let AheadTicket { first, end } = ticket;
        self.pending.range(Waiting::Node(first)..Waiting::Node(end)).next().is_some()
    }

    /// Forgets work of the node that is no longer needed. What a helper reads for it is read in vain.
    pub fn cancel(&mut self, ticket: AheadTicket) {
        for number in ticket.first..ticket.end {
            self.forget(Waiting::Node(number));
        }
    }

    /// Forgets some work; a helper that works on it does not do so again.
    fn forget(&mut self, waiting: Waiting) {
        match self.pending.get_mut(&waiting) {
            Some(pending) if pending.is_reading => pending.work.bytes.clear(),
            _ => drop(self.pending.remove(&waiting)),
        }
    }

    /// Returns whether anything waits for a helper.
    pub fn has_waiting(&self) -> bool {
        self.own().next().is_some() || self.places.has_waiting()
    }

    /// Takes the next work for a helper.
    pub fn next(&mut self, now: Duration) -> Option<(Waiting, AheadWork)> {
        let own = self.own().next().map(|(waiting, _)| waiting);
        let own = own.filter(|own| match own {
            Waiting::Nobody => self.pending.len() == 1 && now >= self.quiet_at,
            _ => !self.was_own || !self.places.has_waiting(),
        });
        self.was_own = own.is_some();
        let waiting = if let Some(own) = own {
            own
        } else {
            let (_, connection) = self.places.next(now)?;
            self.places.release(connection, now);
            Waiting::Client(connection)
        };
        let pending = self.pending.get_mut(&waiting)?;
        pending.is_reading = true;
        Some((waiting, pending.work.clone()))
    }

    /// Takes the result of a helper: whether it has read from the disk, or nothing if it failed, and the time it `took`. What
    /// waits goes on in any case.
    pub fn finish(&mut self, waiting: Waiting, has_read: Option<bool>, took: Duration, now: Duration) {
        let Some(Pending { owner, work, .. }) = self.pending.remove(&waiting) else { return };
        if has_read == Some(true) {
            self.cold_until = now + COLD_FOR;
        }
        self.total_blocks += u64::from(work.kind == AheadKind::Block && has_read.is_some());
        let (Waiting::Client(connection), Some(owner)) = (waiting, owner) else { return };
        self.finished.insert(connection);
        self.quiet_at = now + QUIET_FOR;
        self.total += 1;
        self.charge(owner, took, now);
        if has_read.is_none() {
            return;
        }
        let hash = xxh3_64(&work.bytes);
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

    fn charge(&mut self, owner: Owner, took: Duration, now: Duration) {
        let units = took.div_duration_f64(TIME_PER_UNIT) as u32;
        self.places.charge(owner, units.clamp(UNITS_PER_REQUEST, MAX_UNITS), now);
    }

    /// Lets wait again what a helper has not finished in the time that it `took`: executed now, it could keep everybody
    /// waiting for what is not in memory yet.
    pub fn postpone(&mut self, waiting: Waiting, took: Duration, now: Duration) {
        self.cold_until = now + COLD_FOR;
        let Some(mut pending) = self.pending.remove(&waiting) else { return };
        if let Some(owner) = pending.owner {
            self.charge(owner, took, now);
        }
        (pending.spent, pending.is_reading) = (pending.spent + took, false);
        let is_over = pending.spent >= MAX_READING_TIME;
        match waiting {
            _ if pending.work.bytes.is_empty() => {}
            Waiting::Client(connection) if is_over => self.reject(connection),
            Waiting::Node(_) | Waiting::Nobody if is_over => {}
            _ => self.add(waiting, pending, now),
        }
    }

    /// Lets everything go on without reading ahead: no helper can be started.
    pub fn give_up(&mut self, now: Duration) {
        while let Some((waiting, _)) = self.next(now) {
            self.finish(waiting, None, Duration::ZERO, now);
        }
    }

    /// Takes the connections whose requests are to be answered.
    pub fn take_finished(&mut self) -> BTreeSet<ConnectionId> {
        std::mem::take(&mut self.finished)
    }

    /// Forgets a connection that was closed. What a helper reads for it is read in vain.
    pub fn remove(&mut self, connection: ConnectionId, now: Duration) {
        self.places.release(connection, now);
        self.forget(Waiting::Client(connection));
        self.finished.remove(&connection);
        self.gave_way.remove(&connection);
    }

    /// Returns the bytes of the requests that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.places.total()
    }
}

/// Returns what a handler needs of a request.
pub fn request_bytes(request: &Request<'_>) -> Vec<u8> {
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
impl ReadAhead {
    /// Returns one whose store is cold.
    pub fn cold(now: Duration) -> ReadAhead {
        let mut ahead = ReadAhead { store: SMALL_STORE + 2, ..ReadAhead::default() };
        ahead.enable(Some(SMALL_STORE + 1), now);
        ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::PublicKey;
    use crate::model::NetworkByte;
    use crate::net::http::{MatchedRoute, RequestReader};

    const START: Duration = Duration::from_secs(100);
    const MOMENT: Duration = Duration::from_millis(10);

    fn client(connection: u64) -> Waiting {
        Waiting::Client(ConnectionId(connection))
    }

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
        ReadAhead { store: SMALL_STORE + 1, ..ReadAhead::cold(START) }
    }

    fn parks(ahead: &mut ReadAhead, connection: u64, client: u8, account: usize, now: Duration) -> bool {
        ahead.parks(ConnectionId(connection), owner(client), request_bytes(&get(account).request().unwrap()), now)
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
        let (_, work) = ahead.next(START).unwrap();
        assert!(work.bytes.starts_with(b"GET /account/get?address=1 HTTP/1.1\r\n"));
        assert!(ahead.take_finished().is_empty());
        ahead.finish(client(1), Some(true), MOMENT, START);
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
        ahead.enable(Some(100 << 20), START);
        for (store, later, expected) in [
            (SMALL_STORE, START, false),
            (SMALL_STORE + 1, START, true),
            (SMALL_STORE + 1, 2 * START, false),
            (101 << 20, 3 * START, true),
        ] {
            ahead.see(store, 1, later);
            assert_eq!(parks(&mut ahead, 1, 1, 1, later), expected, "{store}");
        }
        ahead.enable(None, START);
        assert!(!parks(&mut ahead, 1, 1, 1, 4 * START), "a memory of unknown size has room for it");
    }

    #[test]
    fn a_client_with_a_thousand_cold_requests_waits_in_its_own_line() {
        let mut ahead = enabled();
        (0..1_000).for_each(|account| assert!(parks(&mut ahead, account as u64, 1, account, START)));
        assert!(parks(&mut ahead, 2_000, 2, 5_000, START));
        let served: Vec<_> = (0..3)
            .map(|_| {
                let (next, _) = ahead.next(START).unwrap();
                ahead.finish(next, Some(true), MOMENT, START);
                next
            })
            .collect();
        assert!(served.contains(&client(2_000)), "{served:?}");
    }

    #[test]
    fn the_requests_of_whoever_holds_most_give_way_when_too_much_waits() {
        let mut ahead = enabled();
        let body = "x".repeat(MAX_REQUEST_BYTES - 1_000);
        let large = reader(&format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        let large = request_bytes(&large.request().unwrap());
        for connection in 0..100 {
            assert!(ahead.parks(ConnectionId(connection), owner(1), large.clone(), START));
        }
        assert!(ahead.waiting_bytes() <= MAX_WAITING_BYTES);
        assert!(parks(&mut ahead, 200, 2, 1, START));
        let losers = ahead.take_finished();
        assert!(losers.len() >= 15 && losers.iter().all(|loser| loser.0 < 100 && ahead.has_given_way(*loser)));
        let longer = "x".repeat(MAX_REQUEST_BYTES);
        let longer =
            reader(&format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{longer}", longer.len()));
        assert!(!ahead.parks(ConnectionId(300), owner(1), request_bytes(&longer.request().unwrap()), START));
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
        let (taken, _) = ahead.next(START).unwrap();
        ahead.remove(ConnectionId(3), START);
        ahead.finish(taken, Some(true), MOMENT, START);
        assert_eq!(
            ahead.take_finished(),
            BTreeSet::from([ConnectionId(3)]),
            "resuming a closed connection has no effect"
        );
    }

    #[test]
    fn what_takes_long_is_charged_and_goes_on_after_others_and_gets_503_in_the_end() {
        let mut ahead = enabled();
        let slice = MAX_READING_TIME / 3;
        assert!(parks(&mut ahead, 1, 1, 1, START));
        for slices in 1..=3 {
            let (next, work) = ahead.next(START).unwrap();
            assert!(work.bytes.starts_with(b"GET /account/get?address=1 "));
            ahead.postpone(next, slice, START);
            assert_eq!(ahead.has_waiting(), slices < 3);
        }
        assert!(ahead.take_finished().contains(&ConnectionId(1)) && ahead.has_given_way(ConnectionId(1)));
        // Another client comes first.
        assert!(parks(&mut ahead, 2, 1, 2, START) && parks(&mut ahead, 3, 2, 3, START));
        assert_eq!(ahead.next(START).unwrap().0, client(3));
        // Nobody waits for the request of a client that is gone.
        ahead.remove(ConnectionId(3), START);
        ahead.postpone(client(3), slice, START);
        assert_eq!(ahead.next(START).unwrap().0, client(2));
        assert!(ahead.next(START).is_none() && ahead.pending.len() == 1);
    }

    #[test]
    fn the_node_and_its_clients_share_the_helpers() {
        let mut ahead = enabled();
        (0..3).for_each(|number| assert!(parks(&mut ahead, number, 1, number as usize, START)));
        for _ in 0..3 {
            ahead.read_range(Table::Blocks, b"a", START);
        }
        let next = |ahead: &mut ReadAhead| matches!(ahead.next(START), Some((Waiting::Node(_), _)));
        assert_eq!([(); 6].map(|()| next(&mut ahead)), [true, false, true, false, true, false]);
        assert!(!ahead.has_waiting());
    }

    #[test]
    fn what_nobody_waits_for_is_read_while_nothing_else_is_and_no_client_was_served_for_a_second() {
        let mut ahead = enabled();
        let part = RecalculationPart::from_bytes(&[0; 17]).unwrap();
        assert!(ahead.read_early(&part, START) && !ahead.read_early(&part, START), "one at a time");
        let next = |ahead: &mut ReadAhead, now| ahead.next(now).map(|(waiting, _)| waiting);
        assert!(parks(&mut ahead, 1, 1, 1, START));
        assert_eq!([next(&mut ahead, START), next(&mut ahead, START)], [Some(client(1)), None]);
        ahead.finish(client(1), Some(true), MOMENT, START);
        let quiet = START + QUIET_FOR;
        assert_eq!([next(&mut ahead, START), next(&mut ahead, quiet)], [None, Some(Waiting::Nobody)]);
        ahead.postpone(Waiting::Nobody, MOMENT, quiet);
        assert!(parks(&mut ahead, 2, 1, 2, quiet));
        assert_eq!([next(&mut ahead, quiet), next(&mut ahead, quiet + QUIET_FOR)], [Some(client(2)), None]);
        ahead.finish(client(2), Some(true), MOMENT, quiet);
        assert_eq!(next(&mut ahead, quiet + QUIET_FOR), Some(Waiting::Nobody));
        ahead.postpone(Waiting::Nobody, MAX_READING_TIME, quiet);
        assert!(!ahead.has_waiting() && ahead.read_early(&part, quiet));
    }

    #[test]
    fn work_of_the_node_goes_on_if_it_takes_too_long_or_is_cancelled_or_no_helper_runs() {
        let mut ahead = enabled();
        let range = |ahead: &mut ReadAhead| ahead.read_range(Table::Blocks, b"a", START);
        let ticket = range(&mut ahead);
        let (waiting, work) = ahead.next(START).unwrap();
        assert_eq!((work.kind, &work.bytes[..]), (AheadKind::Range, &[Table::Blocks as u8, b'a'][..]));
        ahead.postpone(waiting, MAX_READING_TIME, START);
        assert!(!ahead.is_reading(ticket) && !ahead.has_waiting() && ahead.pending.is_empty());
        let ticket = range(&mut ahead);
        ahead.cancel(ticket);
        assert!(!ahead.is_reading(ticket) && !ahead.has_waiting());
        // What a helper reads at present is not read again.
        let ticket = range(&mut ahead);
        let (waiting, _) = ahead.next(START).unwrap();
        ahead.cancel(ticket);
        ahead.postpone(waiting, MOMENT, START);
        assert!(!ahead.is_reading(ticket) && !ahead.has_waiting() && ahead.pending.is_empty());
        let ticket = range(&mut ahead);
        ahead.give_up(START);
        assert!(!ahead.is_reading(ticket));
        let accounts = [Address::from_public_key(&PublicKey([1; 32]), NetworkByte::TESTNET); MAX_ACCOUNTS + 1];
        for count in [MAX_ACCOUNTS, 1] {
            assert!(!ahead.has_read_accounts(&accounts, START));
            let (waiting, work) = ahead.next(START).unwrap();
            assert_eq!((work.kind, work.bytes.len()), (AheadKind::Accounts, 40 * count));
            ahead.finish(waiting, Some(true), MOMENT, START);
        }
        assert!(ahead.has_read_accounts(&accounts, START) && ahead.has_room(START));
        assert!(ReadAhead::default().has_read_accounts(&accounts, START), "there are no helpers");
        let key = vec![0; MAX_WAITING_BYTES];
        ahead.read_range(Table::Blocks, &key, START);
        assert!(!ahead.has_room(START));
        let mut ahead = ReadAhead::default();
        ahead.read_range(Table::Blocks, b"a", START);
        assert!(!ahead.has_waiting(), "there are no helpers");
    }

    #[test]
    fn what_is_remembered_of_warm_requests_is_bounded() {
        let mut ahead = enabled();
        for account in 0..3 * MAX_WARM {
            assert!(parks(&mut ahead, 1, 1, account, START));
            let (next, _) = ahead.next(START).unwrap();
            ahead.finish(next, Some(true), MOMENT, START);
        }
        assert!(ahead.warm.len() <= MAX_WARM && ahead.warmed.len() <= MAX_WARM);
        ahead.see(SMALL_STORE + 1, 1, START + WARM_FOR);
        assert!(parks(&mut ahead, 1, 1, 1, START + WARM_FOR));
        ahead.next(START);
        ahead.finish(client(1), Some(true), MOMENT, START + WARM_FOR);
        assert_eq!((ahead.warm.len(), ahead.warmed.len()), (1, 1));
    }
}
