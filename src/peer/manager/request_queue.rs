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
//! | targets with counters | requests of the last second | [`MAX_TARGETS`], of about 1 kB |
//! | latest calls | requests | [`MAX_LATEST_CALLS`] |

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::probes::ProbeId;
use crate::crypto::PublicKey;
use crate::model::{Address, Height, Timestamp};
use crate::peer::block_download::{DownloadQuery, DownloadRequestId};
use crate::peer::io::{CallId, MaxHeightQueryId, Now, PeerIo, VerificationId};
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

/// Kind of a request, which selects the handler of its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Queries a peer's identity or its peers.
    Probe(ProbeId),
    /// Queries the identity of the sender of a sign of life.
    Verification(VerificationId),
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
    Synchronisation,
    /// Queries the hashes from a height on, to see whether the peer's chain forked below.
    LowestHash(Address, Height),
    /// Queries unconfirmed transactions.
    Unconfirmed,
    /// Queries hashes or blocks for a block download.
    BlockDownload(DownloadRequestId, DownloadQuery),
    /// Pushes blocks or transactions.
    Push,
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
#[derive(Clone, Debug)]
pub struct Request {
    /// Destination.
    pub endpoint: Endpoint,
    /// Message.
    pub outgoing: EncodedRequest,
    /// Kind of the request.
    pub kind: RequestKind,
    /// Required proof, if any.
    pub proof: Option<Proof>,
}

/// Request that was answered or has failed.
#[derive(Clone, Debug)]
pub struct Completed {
    /// Kind of the request.
    pub kind: RequestKind,
    /// Destination.
    pub endpoint: Endpoint,
    /// Required proof, if any.
    pub proof: Option<Proof>,
    /// Time of sending in milliseconds of network time.
    pub sent: i64,
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

/// Host and port. Different names of one address are counted separately.
type Target = (String, i32);

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

    fn count_sent(&mut self, now: Duration) {
        if self.sent.len() >= MAX_PER_SECOND {
            self.sent.pop_front();
        }
        self.sent.push_back(now);
        self.in_flight += 1;
    }

    fn is_idle(&self, now: Duration) -> bool {
        let is_past = self.sent.back().is_none_or(|last| *last + RATE_WINDOW <= now);
        self.waiting == 0 && self.in_flight == 0 && is_past
    }
}

#[derive(Debug)]
struct InFlight {
    completed: Completed,
    target: Target,
    body_bytes: usize,
    audit: AuditEntry,
}

/// All unfinished requests.
#[derive(Debug, Default)]
pub struct RequestQueue {
    in_flight: BTreeMap<CallId, InFlight>,
    waiting: VecDeque<(Target, Request)>,
    targets: BTreeMap<Target, TargetCounters>,
    bytes: usize,
    pushed_bytes: usize,
    sent_count: u64,
    latest: VecDeque<AuditEntry>,
}

impl RequestQueue {
    /// Queues a request. Returns whether there was room.
    pub fn enqueue(&mut self, request: Request) -> bool {
        let (bytes, is_push) = (request.outgoing.body.len(), request.kind == RequestKind::Push);
        let target = (request.endpoint.host.clone(), request.endpoint.port);
        let known = self.targets.get(&target);
        let has_room = self.waiting.len() < MAX_WAITING
            && self.bytes + bytes <= MAX_BYTES
            && (known.is_some() || self.targets.len() < MAX_TARGETS);
        let may_push = self.pushed_bytes + bytes <= MAX_PUSHED_BYTES
            && known.is_none_or(|traffic| traffic.pushes < MAX_PUSHES_PER_TARGET);
        if !has_room || (is_push && !may_push) || request.endpoint.to_connect().is_none() {
            return false;
        }
        let traffic = self.targets.entry(target.clone()).or_default();
        traffic.waiting += 1;
        traffic.pushes += usize::from(is_push);
        self.bytes += bytes;
        self.pushed_bytes += if is_push { bytes } else { 0 };
        self.waiting.push_back((target, request));
        true
    }

    /// Sends the requests that may be sent, in queue order.
    pub fn send(&mut self, now: Now, io: &mut impl PeerIo) {
        let mut place = 0;
        while place < self.waiting.len() && self.in_flight.len() < MAX_IN_FLIGHT {
            let ready = self.targets.get(&self.waiting[place].0).and_then(TargetCounters::ready_at);
            if ready.is_none_or(|ready| ready > now.monotonic) {
                place += 1;
            } else if let Some((target, request)) = self.waiting.remove(place) {
                self.send_one(request, target, now, io);
            }
        }
        if self.targets.len() > MAX_IN_FLIGHT {
            self.targets.retain(|_, traffic| !traffic.is_idle(now.monotonic));
        }
    }

    fn send_one(&mut self, request: Request, target: Target, now: Now, io: &mut impl PeerIo) {
        let Request { endpoint, outgoing, kind: purpose, proof } = request;
        if let Some(traffic) = self.targets.get_mut(&target) {
            traffic.waiting = traffic.waiting.saturating_sub(1);
            traffic.count_sent(now.monotonic);
        }
        self.sent_count += 1;
        let audit = AuditEntry {
            number: self.sent_count,
            host: endpoint.host.clone(),
            path: outgoing.path,
            started: now.network,
        };
        if self.latest.len() == MAX_LATEST_CALLS {
            self.latest.pop_back();
        }
        self.latest.push_front(audit.clone());
        let body_bytes = outgoing.body.len();
        let call = io.send(&endpoint, outgoing);
        let ended = Completed { kind: purpose, endpoint, proof, sent: now.network_millis };
        self.in_flight.insert(call, InFlight { completed: ended, target, body_bytes, audit });
    }

    /// Ends a request. Returns `None` for an unknown id.
    pub fn complete(&mut self, call: CallId, now: Duration) -> Option<Completed> {
        let InFlight { completed: ended, target, body_bytes, .. } = self.in_flight.remove(&call)?;
        let is_push = ended.kind == RequestKind::Push;
        self.bytes = self.bytes.saturating_sub(body_bytes);
        self.pushed_bytes = self.pushed_bytes.saturating_sub(if is_push { body_bytes } else { 0 });
        if let Some(traffic) = self.targets.get_mut(&target) {
            traffic.in_flight = traffic.in_flight.saturating_sub(1);
            traffic.pushes = traffic.pushes.saturating_sub(usize::from(is_push));
            if traffic.is_idle(now) {
                self.targets.remove(&target);
            }
        }
        Some(ended)
    }

    /// Cancels a request, whether it waits or is in flight.
    pub fn cancel(&mut self, kind: &RequestKind, now: Duration, io: &mut impl PeerIo) {
        if let Some(place) = self.waiting.iter().position(|(_, request)| request.kind == *kind)
            && let Some((target, request)) = self.waiting.remove(place)
        {
            self.bytes = self.bytes.saturating_sub(request.outgoing.body.len());
            if let Some(traffic) = self.targets.get_mut(&target) {
                traffic.waiting = traffic.waiting.saturating_sub(1);
            }
        }
        let call = self.in_flight.iter().find(|(_, call)| call.completed.kind == *kind).map(|(id, _)| *id);
        if let Some(call) = call {
            self.complete(call, now);
            io.cancel(call);
        }
    }

    /// Returns when a waiting request may be sent; `None` if one in flight must end first.
    pub fn next_due(&self) -> Option<Duration> {
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            return None;
        }
        self.waiting.iter().filter_map(|(target, _)| self.targets.get(target)?.ready_at()).min()
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
