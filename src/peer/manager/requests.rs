//! Requests to peers: the queue of those in flight and waiting, and the check of their answers.
//!
//! A request in flight has a connection of its own. The second half of them is for peers that have none, so that a few slow
//! peers cannot use all. The rate per peer stays below NIS1's limit, which rejects the 51st request of a second. Requests
//! that cannot be sent at once wait; when the waiting queue is full, requests are rejected.
//!
//! A peer may take 20 s for a short answer, and strangers cause pings and probes in any number. So what waits is sent in the
//! order of its [`Priority`], and no priority can take the places of a higher one.
//!
//! | collection | grows by | limit |
//! |---|---|---|
//! | requests in flight | sent requests | [`MAX_IN_FLIGHT`], [`MAX_IN_FLIGHT_PER_TARGET`] |
//! | waiting requests | requests that cannot be sent yet | [`MAX_WAITING`] |
//! | bodies of both | requests | [`MAX_BYTES`], of pushes [`MAX_PUSHED_BYTES`] |
//! | pushes to one peer | new blocks and transactions | [`MAX_PUSHES_PER_TARGET`] |
//! | peers with counters | requests of the last second | [`MAX_TARGETS`], of about 1 kB |
//! | latest requests | requests | [`MAX_LATEST`] |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::ops::Bound;
use std::time::Duration;

use super::Manager;
use super::probes::{PING_TIMEOUT, Probe};
use super::synchronisation::Synchronisation;
use crate::codec::Readable;
use crate::crypto::PublicKey;
use crate::model::{Address, Height, Timestamp};
use crate::net::fetch::{FetchId, FetchRequest, FetchResponse};
use crate::net::service::ConnectionId;
use crate::peer::LimitUsage;
use crate::peer::block_download::DownloadRequest;
use crate::peer::io::{Action, LocalChain, Now, RandomSource, Reply};
use crate::peer::peer_entry::PeerError;
use crate::peer::wire::{AnswerContext, CHALLENGE_BYTES, Challenge, Endpoint, NodeInfo, Query};

/// Maximum number of requests in flight.
pub const MAX_IN_FLIGHT: usize = 100;
/// Maximum number of requests in flight to one peer.
pub const MAX_IN_FLIGHT_PER_TARGET: usize = 4;
/// Maximum number of requests to one peer within [`RATE_WINDOW`].
pub const MAX_PER_SECOND: usize = 40;
/// Window of the rate limit.
pub const RATE_WINDOW: Duration = Duration::from_secs(1);
/// Maximum number of waiting requests.
pub const MAX_WAITING: usize = 1_000;
/// Maximum body bytes of all unfinished requests.
pub const MAX_BYTES: usize = 16 << 20;
/// Maximum body bytes of unfinished pushes; the rest of [`MAX_BYTES`] is for other requests.
pub const MAX_PUSHED_BYTES: usize = 12 << 20;
/// Maximum number of unfinished pushes to one peer, so that an unresponsive peer is skipped for a while.
pub const MAX_PUSHES_PER_TARGET: usize = 4;
/// Maximum number of peers with request counters.
pub const MAX_TARGETS: usize = 2_000;
/// Maximum number of requests in the list of the latest.
pub const MAX_LATEST: usize = 50;

/// Kind of a request, which selects the handler of its answer, and what the handler needs.
#[derive(Debug)]
pub enum RequestKind {
    /// Queries a peer's identity or its peers.
    Probe(Box<Probe>),
    /// Queries the identity of the unknown sender of a sign of life, who waits for the result on this connection.
    Verification(ConnectionId),
    /// Sends a sign of life.
    SignOfLife,
    /// Queries this node's address as the peer sees it, before joining the network.
    FirstAddress,
    /// The same after joining; whether the peer is listed.
    Address(bool),
    /// Challenges this node itself at an address where others see it.
    OwnAddress,
    /// Queries a chain height to see whether the peer is still there.
    Ping(Address),
    /// Queries something else of a peer; the handler of the answer.
    Query(Address, Handler),
    /// Compares chains with the sync peer.
    Synchronisation(Box<Synchronisation>),
    /// Queries the hashes from a height on, to see whether the peer's chain forked below.
    LowestHash(Address, Height),
    /// Queries unconfirmed transactions, at this time.
    Unconfirmed(Address, Duration),
    /// Queries hashes or blocks for a block download.
    BlockDownload(DownloadRequest),
    /// Pushes blocks or transactions to this peer.
    Push(Address),
}

/// Order in which waiting requests are sent, and the places that they may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Pushes, synchronisation and block download with peers that are listed or proven: all places.
    First,
    /// Other requests: three quarters of the places, together with the last ones.
    Normal,
    /// Probes that signs of life cause: half of the places, together with the last ones.
    SignProbe,
    /// Pings and probes of a refresh: three eighths of the places.
    Last,
}

impl Priority {
    pub(super) const ALL: [Priority; 4] = [Priority::First, Priority::Normal, Priority::SignProbe, Priority::Last];

    /// Returns how many of these places requests of this and lower priorities may take.
    fn share(self, places: usize) -> usize {
        match self {
            Priority::First => places,
            Priority::Normal => places - places / 4,
            Priority::SignProbe => places.div_ceil(2),
            Priority::Last => (3 * places).div_ceil(8),
        }
    }
}

/// Handles the answer of a peer, or the failure of the request.
pub type Handler = fn(&mut Manager, Address, &Answer, &dyn LocalChain);

/// Request to send.
#[derive(Debug)]
pub struct Request {
    /// Destination.
    pub endpoint: Endpoint,
    /// Message; its own destination is set when it is sent.
    pub message: FetchRequest,
    /// Kind of the request.
    pub kind: RequestKind,
    /// Its priority.
    pub priority: Priority,
    /// Required proof, if any.
    pub proof: Option<AnswerContext>,
    /// Its record and the time of sending in milliseconds of network time, once it is in flight.
    pub sent: Option<(RequestRecord, i64)>,
}

/// The answer to a request, or its failure.
#[derive(Debug)]
pub struct Answer {
    /// Destination.
    pub endpoint: Endpoint,
    /// Required proof, if any.
    pub proof: Option<AnswerContext>,
    /// Time of sending in milliseconds of network time.
    pub sent: i64,
    /// The answer itself.
    pub reply: Reply,
}

/// Request from or to another host, as shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord<H = String> {
    /// Sequence number, from 1.
    pub number: u64,
    /// Address of the client, or host of the peer's endpoint as configured or reported.
    pub host: H,
    /// Path of the request.
    pub path: String,
    /// Network time of its start.
    pub started: Timestamp,
}

/// Request counters of one peer.
#[derive(Debug, Default)]
struct TargetCounters {
    /// Waiting or in flight.
    unfinished: usize,
    in_flight: usize,
    pushes: usize,
    /// Times of the requests of the last second, oldest first.
    sent: VecDeque<Duration>,
}

impl TargetCounters {
    /// Returns when the next request may be sent, while no more than `max_in_flight` to this peer are in flight; `None` if
    /// one in flight must end first.
    fn ready_at(&self, max_in_flight: usize) -> Option<Duration> {
        match self.sent.front() {
            _ if self.in_flight >= max_in_flight => None,
            Some(oldest) if self.sent.len() >= MAX_PER_SECOND => Some(*oldest + RATE_WINDOW),
            _ => Some(Duration::ZERO),
        }
    }

    fn is_idle(&self, now: Duration) -> bool {
        let is_past = self.sent.back().is_none_or(|last| *last + RATE_WINDOW <= now);
        self.unfinished == 0 && is_past
    }
}

/// All unfinished requests.
#[derive(Debug, Default)]
pub struct RequestQueue {
    max_in_flight: usize,
    unfinished: BTreeMap<FetchId, Request>,
    /// Those that are not in flight, in order of sending.
    waiting: BTreeSet<(Priority, FetchId)>,
    /// Number of those in flight by priority.
    in_flight: [usize; Priority::ALL.len()],
    /// Counters by endpoint. Different names of one address are counted separately.
    targets: BTreeMap<Endpoint, TargetCounters>,
    bytes: usize,
    pushed_bytes: usize,
    queued_count: u64,
    sent_count: u64,
    /// The latest requests, ended or not, newest first.
    pub latest: VecDeque<RequestRecord>,
}

impl RequestQueue {
    /// Creates a queue for a program that can have `connections` to peers.
    pub fn new(connections: usize) -> RequestQueue {
        RequestQueue { max_in_flight: connections.min(MAX_IN_FLIGHT), ..RequestQueue::default() }
    }

    /// Queues a request. Returns its id if there was space.
    pub fn enqueue(&mut self, mut request: Request) -> Option<FetchId> {
        request.message.endpoint = request.endpoint.to_connect()?;
        let (bytes, is_push) = (request.message.body.len(), matches!(request.kind, RequestKind::Push(_)));
        let known = self.targets.get(&request.endpoint);
        let has_room = self.waiting.len() < MAX_WAITING
            && self.bytes + bytes <= MAX_BYTES
            && (known.is_some() || self.targets.len() < MAX_TARGETS);
        let may_push = self.pushed_bytes + bytes <= MAX_PUSHED_BYTES
            && known.is_none_or(|counters| counters.pushes < MAX_PUSHES_PER_TARGET);
        if !has_room || (is_push && !may_push) {
            return None;
        }
        let counters = self.targets.entry(request.endpoint.clone()).or_default();
        counters.unfinished += 1;
        counters.pushes += usize::from(is_push);
        self.bytes += bytes;
        self.pushed_bytes += if is_push { bytes } else { 0 };
        self.queued_count += 1;
        let id = FetchId(self.queued_count);
        self.waiting.insert((request.priority, id));
        self.unfinished.insert(id, request);
        Some(id)
    }

    /// Sends the requests that may be sent, by priority, then in queue order.
    pub fn send(&mut self, now: Now, actions: &mut Vec<Action>) {
        let mut last = (Priority::First, FetchId(0));
        while let Some(next) = self.waiting.range((Bound::Excluded(last), Bound::Unbounded)).next().copied()
            && self.has_place(next.0)
        {
            if self.ready_at(next).is_some_and(|ready| ready <= now.monotonic) {
                self.waiting.remove(&next);
                actions.extend(self.send_one(next.1, now));
            }
            last = next;
        }
        if self.targets.len() > MAX_IN_FLIGHT {
            self.targets.retain(|_, counters| !counters.is_idle(now.monotonic));
        }
    }

    fn send_one(&mut self, id: FetchId, now: Now) -> Option<Action> {
        let request = self.unfinished.get_mut(&id)?;
        self.in_flight[request.priority as usize] += 1;
        if let Some(counters) = self.targets.get_mut(&request.endpoint) {
            counters.in_flight += 1;
            if counters.sent.len() >= MAX_PER_SECOND {
                counters.sent.pop_front();
            }
            counters.sent.push_back(now.monotonic);
        }
        self.sent_count += 1;
        let (host, path) = (request.endpoint.host.clone(), request.message.target.clone());
        let record = RequestRecord { number: self.sent_count, host, path, started: now.network };
        self.latest.truncate(MAX_LATEST - 1);
        self.latest.push_front(record.clone());
        request.sent = Some((record, now.network_millis));
        Some(Action::Fetch(id, request.message.clone()))
    }

    fn remove(&mut self, id: FetchId, now: Duration) -> Option<Request> {
        let request = self.unfinished.remove(&id)?;
        let Request { endpoint, message, kind, priority, sent, .. } = &request;
        let (bytes, is_push) = (message.body.len(), matches!(kind, RequestKind::Push(_)));
        self.waiting.remove(&(*priority, id));
        let in_flight = &mut self.in_flight[*priority as usize];
        *in_flight = in_flight.saturating_sub(usize::from(sent.is_some()));
        self.bytes = self.bytes.saturating_sub(bytes);
        self.pushed_bytes = self.pushed_bytes.saturating_sub(if is_push { bytes } else { 0 });
        if let Some(counters) = self.targets.get_mut(endpoint) {
            counters.unfinished = counters.unfinished.saturating_sub(1);
            counters.in_flight = counters.in_flight.saturating_sub(usize::from(sent.is_some()));
            counters.pushes = counters.pushes.saturating_sub(usize::from(is_push));
            if counters.is_idle(now) {
                self.targets.remove(endpoint);
            }
        }
        Some(request)
    }

    /// Ends a request in flight. Returns `None` for an unknown id.
    pub fn complete(&mut self, id: FetchId, reply: Reply, now: Duration) -> Option<(RequestKind, Answer)> {
        self.unfinished.get(&id)?.sent.as_ref()?;
        let Request { endpoint, kind, proof, sent, .. } = self.remove(id, now)?;
        sent.map(|(_, sent)| (kind, Answer { endpoint, proof, sent, reply }))
    }

    /// Cancels a request, whether it waits or is in flight. Returns its kind.
    pub fn cancel(&mut self, id: FetchId, now: Duration, actions: &mut Vec<Action>) -> Option<RequestKind> {
        let request = self.remove(id, now)?;
        if request.sent.is_some() {
            actions.push(Action::Cancel(id));
        }
        Some(request.kind)
    }

    /// Returns whether a request has been in flight for this long.
    pub fn is_sent_for(&self, id: FetchId, time: Duration, now: Now) -> bool {
        let sent = self.unfinished.get(&id).and_then(|request| request.sent.as_ref());
        sent.is_some_and(|(_, sent)| u128::from(now.network_millis.abs_diff(*sent)) >= time.as_millis())
    }

    /// Returns the kinds of all unfinished requests, waiting or in flight, oldest first.
    pub fn kinds(&self) -> impl Iterator<Item = (FetchId, &RequestKind)> {
        self.unfinished.iter().map(|(id, request)| (*id, &request.kind))
    }

    /// Returns the unfinished probes.
    pub fn probes(&self) -> impl Iterator<Item = &Probe> {
        self.kinds().filter_map(|(_, kind)| if let RequestKind::Probe(probe) = kind { Some(&**probe) } else { None })
    }

    /// Returns the unfinished probes, to change them.
    pub fn probes_mut(&mut self) -> impl Iterator<Item = &mut Probe> {
        let kinds = self.unfinished.values_mut().map(|request| &mut request.kind);
        kinds.filter_map(|kind| if let RequestKind::Probe(probe) = kind { Some(&mut **probe) } else { None })
    }

    /// Returns the number of unfinished pings.
    pub fn pings(&self) -> usize {
        self.kinds().filter(|(_, kind)| matches!(kind, RequestKind::Ping(_))).count()
    }

    /// Returns the number of requests in flight of this and lower priorities.
    fn in_flight(&self, priority: Priority) -> usize {
        self.in_flight[priority as usize..].iter().sum()
    }

    /// Returns whether there is a place for a request of a priority. If there is none, there is none for lower ones.
    fn has_place(&self, priority: Priority) -> bool {
        let mut upwards = Priority::ALL.into_iter().filter(|other| *other <= priority);
        upwards.all(|other| self.in_flight(other) < other.share(self.max_in_flight))
    }

    fn ready_at(&self, (priority, id): (Priority, FetchId)) -> Option<Duration> {
        // Requests of lower priorities take nothing from the first ones here either.
        let held = if priority == Priority::First { self.in_flight[0] } else { self.in_flight(Priority::First) };
        let most = if held < self.max_in_flight.div_ceil(2) { MAX_IN_FLIGHT_PER_TARGET } else { 1 };
        self.targets.get(&self.unfinished.get(&id)?.endpoint)?.ready_at(most)
    }

    /// Returns when a waiting request may be sent; `None` if one in flight must end first.
    pub fn next_due(&self) -> Option<Duration> {
        let with_place = self.waiting.iter().take_while(|(priority, _)| self.has_place(*priority));
        with_place.filter_map(|waiting| self.ready_at(*waiting)).min()
    }

    /// Returns the requests in flight, oldest first.
    pub fn outstanding(&self) -> Vec<&RequestRecord> {
        let sent = self.unfinished.values().filter_map(|request| request.sent.as_ref());
        let mut records: Vec<_> = sent.map(|(record, _)| record).collect();
        records.sort_unstable_by_key(|record| record.number);
        records
    }

    /// Returns the usage of its collections.
    pub fn usage(&self) -> [LimitUsage; 5] {
        [
            LimitUsage::new("requests in flight", self.in_flight(Priority::First), MAX_IN_FLIGHT),
            LimitUsage::new("queued requests", self.waiting.len(), MAX_WAITING),
            LimitUsage::new("bytes of requests", self.bytes, MAX_BYTES),
            LimitUsage::new("peers with counted requests", self.targets.len(), MAX_TARGETS),
            LimitUsage::new("latest calls", self.latest.len(), MAX_LATEST),
        ]
    }
}

/// One question to several peers, until all have answered or failed: the answers so far.
#[derive(Debug)]
pub struct FanOut<T> {
    outstanding: usize,
    pub(super) answers: Vec<T>,
}

impl<T> Default for FanOut<T> {
    fn default() -> FanOut<T> {
        FanOut::new(0)
    }
}

impl<T> FanOut<T> {
    /// Creates a query to `outstanding` peers.
    pub fn new(outstanding: usize) -> FanOut<T> {
        FanOut { outstanding, answers: Vec::with_capacity(outstanding) }
    }

    /// Returns whether no answer is outstanding.
    pub fn is_over(&self) -> bool {
        self.outstanding == 0
    }

    /// Records an answer, or a failure as `None`. Returns all answers with the last one. Ignores answers after the end.
    pub fn record(&mut self, answer: Option<T>) -> Option<Vec<T>> {
        self.outstanding = self.outstanding.checked_sub(1)?;
        self.answers.extend(answer);
        self.is_over().then(|| std::mem::take(&mut self.answers))
    }
}

impl Manager {
    /// Queues a query, whose answer must be signed by this key, or by the one that it introduces. Returns the id of the
    /// request if there was space.
    pub(super) fn queue(
        &mut self,
        to: &Endpoint,
        key: Option<PublicKey>,
        query: &Query,
        kind: RequestKind,
    ) -> Option<FetchId> {
        let mut challenge = Challenge([0; CHALLENGE_BYTES]);
        for part in challenge.0.chunks_exact_mut(size_of::<u64>()) {
            part.copy_from_slice(&self.random.bits().to_le_bytes());
        }
        let message = query.request(&challenge, self.settings.format, &self.settings.chain);
        let timeout = if let RequestKind::Ping(_) = kind { PING_TIMEOUT } else { message.timeout };
        let message = FetchRequest { least_scope: self.least_scope(to), timeout, ..message };
        let (priority, context) = (self.priority_of(&kind), self.settings.context);
        let proof = Some(AnswerContext { format: self.settings.format, context, challenge, key });
        self.requests.enqueue(Request { endpoint: to.clone(), message, kind, priority, proof, sent: None })
    }

    fn priority_of(&self, kind: &RequestKind) -> Priority {
        let node = match kind {
            RequestKind::Ping(_) => return Priority::Last,
            RequestKind::Probe(probe) if probe.is_of_refresh() => return Priority::Last,
            RequestKind::Probe(_) | RequestKind::Verification(_) => return Priority::SignProbe,
            RequestKind::Push(node) => node,
            RequestKind::Synchronisation(run) => &run.address,
            RequestKind::BlockDownload(request) => &request.peer,
            _ => return Priority::Normal,
        };
        let is_known_well = self.table.get(node).is_some_and(|peer| peer.is_listed || peer.is_proven());
        if is_known_well { Priority::First } else { Priority::Normal }
    }

    /// Queues a query to a peer. Returns the id of the request if there was space.
    pub(super) fn queue_query(&mut self, node: &NodeInfo, query: &Query, kind: RequestKind) -> Option<FetchId> {
        self.queue(&node.endpoint, Some(node.identity.key), query, kind)
    }

    /// Queues the same query to several peers.
    pub(super) fn fan_out<T>(&mut self, nodes: &[NodeInfo], query: &Query, handler: Handler) -> FanOut<T> {
        let kind = |node| RequestKind::Query(node, handler);
        let queued = nodes.iter().filter(|node| self.queue_query(node, query, kind(self.address_of(node))).is_some());
        FanOut::new(queued.count())
    }

    /// Queues a message, whose answer need not be signed. Returns whether there was space.
    pub(super) fn queue_message(&mut self, to: &Endpoint, message: &FetchRequest, kind: RequestKind) -> bool {
        let message = FetchRequest { least_scope: self.least_scope(to), ..message.clone() };
        let priority = self.priority_of(&kind);
        let request = Request { endpoint: to.clone(), message, kind, priority, proof: None, sent: None };
        self.requests.enqueue(request).is_some()
    }

    pub(super) fn send_requests(&mut self) {
        self.requests.send(self.now, &mut self.actions);
    }

    /// Processes the result of a request.
    pub fn on_reply(&mut self, id: FetchId, reply: Reply, now: Now, chain: &dyn LocalChain) {
        self.now = now;
        let Some((kind, answer)) = self.requests.complete(id, reply, now.monotonic) else { return };
        self.sign_probes.release(id, now.monotonic);
        match kind {
            RequestKind::Probe(probe) => self.on_probe_reply(*probe, &answer),
            RequestKind::Verification(client) => self.on_verification_reply(client, answer),
            RequestKind::FirstAddress => self.on_first_address_reply(&answer),
            RequestKind::Address(is_listed) => self.on_address_reply(is_listed, &answer),
            RequestKind::OwnAddress => self.on_own_address_reply(answer),
            RequestKind::Ping(node) => self.on_ping_reply(node, &answer),
            RequestKind::Query(node, handler) => handler(self, node, &answer, chain),
            RequestKind::Synchronisation(run) => self.on_sync_reply(*run, answer, chain),
            RequestKind::LowestHash(node, height) => self.on_lowest_hash_reply(node, height, &answer, chain),
            RequestKind::Unconfirmed(node, since) => self.on_unconfirmed_reply(node, since, answer),
            RequestKind::BlockDownload(request) => self.on_download_reply(request, answer),
            RequestKind::SignOfLife | RequestKind::Push(_) => {}
        }
        self.send_requests();
    }

    /// Returns a successful response of the queried peer, and how to check it.
    pub(super) fn response<'r>(&self, answer: &'r Answer) -> Result<(&'r FetchResponse, &'r AnswerContext), PeerError> {
        match (&answer.proof, &answer.reply) {
            (Some(context), Ok(fetched)) if fetched.response.status == 200 => Ok((fetched, context)),
            (_, reply) => Err(PeerError::from_reply(reply, self.settings.format, self.settings.context)),
        }
    }

    /// Returns the body of an answer of the queried peer, and how to check it.
    pub(super) fn body_of(&self, answer: Answer) -> Result<(Vec<u8>, AnswerContext), PeerError> {
        match (answer.proof, answer.reply) {
            (Some(context), Ok(fetched)) if fetched.response.status == 200 => Ok((fetched.response.body, context)),
            (_, reply) => Err(PeerError::from_reply(&reply, self.settings.format, self.settings.context)),
        }
    }

    /// Checks and reads an answer of the queried peer. Returns it with the address that it came from.
    pub(super) fn read_answer<T: Readable>(&self, answer: &Answer) -> Result<(T, IpAddr), PeerError> {
        let (fetched, context) = self.response(answer)?;
        Ok((context.read(&fetched.response.body)?, fetched.from))
    }

    /// Reads the answer of a peer, and records that it is valid.
    pub(super) fn read_from<T: Readable>(&mut self, node: &Address, answer: &Answer) -> Option<(T, IpAddr)> {
        let read = self.read_answer(answer).ok()?;
        self.record_valid_answer(node, &answer.endpoint);
        Some(read)
    }
}

#[cfg(test)]
mod tests;
