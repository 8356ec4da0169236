//! Queue of requests to peers, both in flight and waiting.
//!
//! The rate per peer stays below NIS1's limit, which rejects the 51st request of a second. Requests that cannot be sent
//! at once wait; when the waiting queue is full, requests are rejected.
//!
//! | collection | grows by | limit |
//! |---|---|---|
//! | requests in flight | sent requests | [`MAX_IN_FLIGHT`], [`MAX_IN_FLIGHT_PER_TARGET`] |
//! | waiting requests | requests that cannot be sent yet | [`MAX_WAITING`] |
//! | bodies of both | requests | [`MAX_BYTES`], of pushes [`MAX_PUSHED_BYTES`] |
//! | pushes to one peer | new blocks and transactions | [`MAX_PUSHES_PER_TARGET`] |
//! | peers with counters | requests of the last second | [`MAX_TARGETS`], of about 1 kB |
//! | latest calls | requests | [`MAX_LATEST_CALLS`] |

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::probes::Probe;
use super::synchronisation::Synchronisation;
use crate::crypto::PublicKey;
use crate::model::{Address, Height, Timestamp};
use crate::peer::block_download::DownloadRequest;
use crate::peer::io::{Action, CallId, MaxHeightQueryId, Now, Reply};
use crate::peer::wire::{Challenge, EncodedRequest, Endpoint};

/// Maximum number of requests in flight.
pub const MAX_IN_FLIGHT: usize = 100;
/// Maximum number of requests in flight to one peer.
pub const MAX_IN_FLIGHT_PER_TARGET: usize = 8;
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
/// Maximum number of calls in the list of latest calls.
pub const MAX_LATEST_CALLS: usize = 50;

/// Kind of a request, which selects the handler of its answer, and what the handler needs.
#[derive(Debug)]
pub enum RequestKind {
    /// Queries a peer's identity or its peers.
    Probe(Box<Probe>),
    /// Queries the identity of the sender of a sign of life, which came from a host at a time.
    Verification(IpAddr, Duration),
    /// Sends a sign of life.
    SignOfLife,
    /// Queries this node's address as the peer sees it, before joining the network.
    FirstAddress,
    /// The same after joining.
    Address,
    /// Queries a chain height for the height check.
    Height(Address),
    /// Queries a chain height to find the largest, for a client.
    MaxHeight(MaxHeightQueryId),
    /// Queries a clock.
    Time(Address),
    /// Queries a peer's experiences.
    Experiences(Address),
    /// Compares chains with the sync peer.
    Synchronisation(Box<Synchronisation>),
    /// Queries the hashes from a height on, to see whether the peer's chain forked below.
    LowestHash(Address, Height),
    /// Queries unconfirmed transactions, at this time.
    Unconfirmed(Address, Duration),
    /// Queries hashes or blocks for a block download.
    BlockDownload(DownloadRequest),
    /// Pushes blocks or transactions.
    Push,
}

impl RequestKind {
    fn is_push(&self) -> bool {
        matches!(self, RequestKind::Push)
    }
}

/// Proof of identity that an answer must contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Challenge to sign.
    pub challenge: Challenge,
    /// Key that must sign; `None` if the answer itself introduces the key.
    pub key: Option<PublicKey>,
}

/// Request to send.
#[derive(Debug)]
pub struct Request {
    /// Destination.
    pub endpoint: Endpoint,
    /// Message.
    pub message: EncodedRequest,
    /// Kind of the request.
    pub kind: RequestKind,
    /// Required proof, if any.
    pub proof: Option<Proof>,
}

/// Request that was answered or has failed.
#[derive(Debug)]
pub struct Completed {
    /// Destination.
    pub endpoint: Endpoint,
    /// Required proof, if any.
    pub proof: Option<Proof>,
    /// Time of sending in milliseconds of network time.
    pub sent: i64,
    /// Answer or failure.
    pub reply: Reply,
}

/// Request as shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Sequence number, from 1.
    pub number: u64,
    /// Host of the endpoint, as configured or reported.
    pub host: String,
    /// Path of the request.
    pub path: &'static str,
    /// Time of sending.
    pub started: Timestamp,
}

/// Request counters of one peer.
#[derive(Debug, Default)]
struct TargetCounters {
    waiting: usize,
    in_flight: usize,
    pushes: usize,
    /// Times of the requests of the last second, oldest first.
    sent: VecDeque<Duration>,
}

impl TargetCounters {
    /// Returns when the next request may be sent; `None` if one in flight must end first.
    fn ready_at(&self) -> Option<Duration> {
        match self.sent.front() {
            _ if self.in_flight >= MAX_IN_FLIGHT_PER_TARGET => None,
            Some(oldest) if self.sent.len() >= MAX_PER_SECOND => Some(*oldest + RATE_WINDOW),
            _ => Some(Duration::ZERO),
        }
    }

    fn is_idle(&self, now: Duration) -> bool {
        let is_past = self.sent.back().is_none_or(|last| *last + RATE_WINDOW <= now);
        self.waiting == 0 && self.in_flight == 0 && is_past
    }
}

#[derive(Debug)]
struct InFlight {
    endpoint: Endpoint,
    kind: RequestKind,
    proof: Option<Proof>,
    sent: i64,
    body_bytes: usize,
    audit: AuditEntry,
}

/// All unfinished requests.
#[derive(Debug, Default)]
pub struct RequestQueue {
    in_flight: BTreeMap<CallId, InFlight>,
    waiting: VecDeque<(CallId, Request)>,
    /// Counters by endpoint. Different names of one address are counted separately.
    targets: BTreeMap<Endpoint, TargetCounters>,
    bytes: usize,
    pushed_bytes: usize,
    queued_count: u64,
    sent_count: u64,
    latest: VecDeque<AuditEntry>,
}

impl RequestQueue {
    /// Queues a request. Returns its id if there was room.
    pub fn enqueue(&mut self, request: Request) -> Option<CallId> {
        let (bytes, is_push) = (request.message.body.len(), request.kind.is_push());
        let known = self.targets.get(&request.endpoint);
        let has_room = self.waiting.len() < MAX_WAITING
            && self.bytes + bytes <= MAX_BYTES
            && (known.is_some() || self.targets.len() < MAX_TARGETS);
        let may_push = self.pushed_bytes + bytes <= MAX_PUSHED_BYTES
            && known.is_none_or(|counters| counters.pushes < MAX_PUSHES_PER_TARGET);
        if !has_room || (is_push && !may_push) || request.endpoint.to_connect().is_none() {
            return None;
        }
        let counters = self.targets.entry(request.endpoint.clone()).or_default();
        counters.waiting += 1;
        counters.pushes += usize::from(is_push);
        self.bytes += bytes;
        self.pushed_bytes += if is_push { bytes } else { 0 };
        self.queued_count += 1;
        let call = CallId(self.queued_count);
        self.waiting.push_back((call, request));
        Some(call)
    }

    /// Sends the requests that may be sent, in queue order.
    pub fn send(&mut self, now: Now, actions: &mut Vec<Action>) {
        let mut place = 0;
        while place < self.waiting.len() && self.in_flight.len() < MAX_IN_FLIGHT {
            let ready = self.targets.get(&self.waiting[place].1.endpoint).and_then(TargetCounters::ready_at);
            if ready.is_none_or(|ready| ready > now.monotonic) {
                place += 1;
            } else if let Some((call, request)) = self.waiting.remove(place) {
                actions.push(self.send_one(call, request, now));
            }
        }
        if self.targets.len() > MAX_IN_FLIGHT {
            self.targets.retain(|_, counters| !counters.is_idle(now.monotonic));
        }
    }

    fn send_one(&mut self, call: CallId, request: Request, now: Now) -> Action {
        let Request { endpoint, message, kind, proof } = request;
        if let Some(counters) = self.targets.get_mut(&endpoint) {
            counters.waiting = counters.waiting.saturating_sub(1);
            counters.in_flight += 1;
            if counters.sent.len() >= MAX_PER_SECOND {
                counters.sent.pop_front();
            }
            counters.sent.push_back(now.monotonic);
        }
        self.sent_count += 1;
        let (number, host, path) = (self.sent_count, endpoint.host.clone(), message.path);
        let audit = AuditEntry { number, host, path, started: now.network };
        self.latest.truncate(MAX_LATEST_CALLS - 1);
        self.latest.push_front(audit.clone());
        let (to, sent, body_bytes) = (endpoint.clone(), now.network_millis, message.body.len());
        self.in_flight.insert(call, InFlight { endpoint, kind, proof, sent, body_bytes, audit });
        Action::Send { call, to, request: message }
    }

    /// Ends a request with its result. Returns `None` for an unknown id.
    pub fn complete(&mut self, call: CallId, reply: Reply, now: Duration) -> Option<(RequestKind, Completed)> {
        let InFlight { endpoint, kind, proof, sent, body_bytes, .. } = self.in_flight.remove(&call)?;
        self.bytes = self.bytes.saturating_sub(body_bytes);
        self.pushed_bytes = self.pushed_bytes.saturating_sub(if kind.is_push() { body_bytes } else { 0 });
        if let Some(counters) = self.targets.get_mut(&endpoint) {
            counters.in_flight = counters.in_flight.saturating_sub(1);
            counters.pushes = counters.pushes.saturating_sub(usize::from(kind.is_push()));
            if counters.is_idle(now) {
                self.targets.remove(&endpoint);
            }
        }
        Some((kind, Completed { endpoint, proof, sent, reply }))
    }

    /// Cancels a request other than a push, whether it waits or is in flight.
    pub fn cancel(&mut self, call: CallId, now: Duration, actions: &mut Vec<Action>) {
        let place = self.waiting.iter().position(|(waiting, _)| *waiting == call);
        if let Some((_, request)) = place.and_then(|place| self.waiting.remove(place)) {
            self.bytes = self.bytes.saturating_sub(request.message.body.len());
            if let Some(counters) = self.targets.get_mut(&request.endpoint) {
                counters.waiting = counters.waiting.saturating_sub(1);
            }
        } else if self.complete(call, Reply::TimedOut, now).is_some() {
            actions.push(Action::Cancel(call));
        }
    }

    /// Returns the kinds of all unfinished requests, waiting or in flight.
    pub fn kinds(&self) -> impl Iterator<Item = (CallId, &RequestKind)> {
        let waiting = self.waiting.iter().map(|(call, request)| (*call, &request.kind));
        self.in_flight.iter().map(|(call, in_flight)| (*call, &in_flight.kind)).chain(waiting)
    }

    /// Returns the unfinished probes.
    pub fn probes(&self) -> impl Iterator<Item = &Probe> {
        self.kinds().filter_map(|(_, kind)| if let RequestKind::Probe(probe) = kind { Some(&**probe) } else { None })
    }

    /// Returns the unfinished probes, to change them.
    pub fn probes_mut(&mut self) -> impl Iterator<Item = &mut Probe> {
        let waiting = self.waiting.iter_mut().map(|(_, request)| &mut request.kind);
        let kinds = self.in_flight.values_mut().map(|in_flight| &mut in_flight.kind).chain(waiting);
        kinds.filter_map(|kind| if let RequestKind::Probe(probe) = kind { Some(&mut **probe) } else { None })
    }

    /// Returns when a waiting request may be sent; `None` if one in flight must end first.
    pub fn next_due(&self) -> Option<Duration> {
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            return None;
        }
        self.waiting.iter().filter_map(|(_, request)| self.targets.get(&request.endpoint)?.ready_at()).min()
    }

    /// Returns the calls in flight, oldest first.
    pub fn outstanding(&self) -> Vec<&AuditEntry> {
        let mut entries: Vec<_> = self.in_flight.values().map(|call| &call.audit).collect();
        entries.sort_unstable_by_key(|entry| entry.number);
        entries
    }

    /// Returns the latest calls, ended or not, newest first.
    pub fn latest(&self) -> impl Iterator<Item = &AuditEntry> {
        self.latest.iter()
    }

    /// Returns the requests in flight, the waiting requests, and the bytes of their bodies.
    pub fn usage(&self) -> (usize, usize, usize) {
        (self.in_flight.len(), self.waiting.len(), self.bytes)
    }

    /// Returns the number of peers with request counters.
    pub fn targets(&self) -> usize {
        self.targets.len()
    }
}
