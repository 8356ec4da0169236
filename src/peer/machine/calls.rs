//! Requests to other nodes: those under way, and those that wait until they may be sent.
//!
//! A node is asked no faster than NIS1 answers, which refuses the 51st request of a second. What cannot be sent at once
//! waits; what does not even fit among those that wait is not taken.
//!
//! | what grows | by | limit |
//! |---|---|---|
//! | requests under way | requests that may be sent | [`MAX_UNDER_WAY`], [`MAX_UNDER_WAY_PER_TARGET`] |
//! | requests that wait | requests that may not | [`MAX_WAITING`] |
//! | bodies of both | requests | [`MAX_BYTES`], of pushes [`MAX_PUSHED_BYTES`] |
//! | pushes to one node | blocks and transactions that are new | [`MAX_PUSHES_PER_TARGET`] |
//! | targets that are kept count of | requests of the last second | [`MAX_TARGETS`], of about 1 kB |
//! | calls that are told of | requests | [`MAX_LATEST`] |

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::contacts::ContactId;
use crate::crypto::PublicKey;
use crate::model::{Address, Height, Timestamp};
use crate::peer::catch_up::{AskId, Question};
use crate::peer::outside::{CallId, InquiryId, MeetingId, Now, Outside};
use crate::peer::wire::{Challenge, Endpoint, Outgoing};

/// Most requests under way.
pub const MAX_UNDER_WAY: usize = 100;
/// Most requests under way to one node.
pub const MAX_UNDER_WAY_PER_TARGET: usize = 8;
/// Most requests to one node within [`SECOND`].
pub const MAX_PER_SECOND: usize = 40;
/// The time in which requests to one node are counted.
pub const SECOND: Duration = Duration::from_secs(1);
/// Most requests that wait.
pub const MAX_WAITING: usize = 1_000;
/// Most bytes of the bodies of all requests that have not ended.
pub const MAX_BYTES: usize = 16 << 20;
/// Most bytes of the bodies of pushes that have not ended; the rest is for everything else.
pub const MAX_PUSHED_BYTES: usize = 12 << 20;
/// Most pushes to one node that have not ended, so that one that is silent is left out for a while.
pub const MAX_PUSHES_PER_TARGET: usize = 4;
/// Most nodes that are kept count of.
pub const MAX_TARGETS: usize = 2_000;
/// Most calls that are told of.
pub const MAX_LATEST: usize = 50;

/// What an answer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Asks a node who it is or whom it knows.
    Contact(ContactId),
    /// Asks the sender of a sign of life who it is.
    Meeting(MeetingId),
    /// Tells a partner that this node is there.
    SignOfLife,
    /// Asks at which address this node is seen, before it joins the network.
    FirstAddress,
    /// Asks the same later.
    Address,
    /// Asks for the height of a chain.
    Height(Address),
    /// Asks for the height of a chain because somebody wants to know the largest.
    LargestHeight(InquiryId),
    /// Asks for a clock.
    Time(Address),
    /// Asks what a partner thinks of others.
    Experiences(Address),
    /// Compares the chain with that of a partner.
    Synchronisation,
    /// Asks a node which block it has at a height, to see whether its chain has left ours below.
    LowestHash(Address, Height),
    /// Asks a partner for its unconfirmed transactions.
    Unconfirmed,
    /// Fetches hashes or blocks of a chain that is far ahead.
    Ahead(AskId, Question),
    /// Passes on blocks or transactions.
    Push,
}

/// What an answer is to prove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// What is to be signed.
    pub challenge: Challenge,
    /// Whose signature it is to be; `None` if the node is yet to introduce itself.
    pub key: Option<PublicKey>,
}

/// A request that is to be sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where to.
    pub endpoint: Endpoint,
    /// What.
    pub outgoing: Outgoing,
    /// What for.
    pub purpose: Purpose,
    /// What the answer is to prove, unless it is to prove nothing.
    pub proof: Option<Proof>,
}

/// A request whose answer has come.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What it was for.
    pub purpose: Purpose,
    /// Where it was sent.
    pub endpoint: Endpoint,
    /// What the answer is to prove.
    pub proof: Option<Proof>,
    /// When it was sent, in milliseconds of network time.
    pub sent: i64,
}

/// A call as people are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Counts from 1.
    pub number: u64,
    /// The host that was called, as its endpoint names it.
    pub host: String,
    /// The path.
    pub path: &'static str,
    /// When it was begun.
    pub started: Timestamp,
}

/// Host and port of a node. Names that stand for one address are counted apart.
type Target = (String, i32);

/// What is under way to one node.
#[derive(Debug, Default)]
struct Traffic {
    waiting: usize,
    under_way: usize,
    pushes: usize,
    /// When requests of the last second were sent, the oldest first.
    sent: VecDeque<Duration>,
}

impl Traffic {
    /// When the next request may be sent, if it need not wait for another to end.
    fn ready_at(&self) -> Option<Duration> {
        match self.sent.front() {
            _ if self.under_way >= MAX_UNDER_WAY_PER_TARGET => None,
            Some(oldest) if self.sent.len() >= MAX_PER_SECOND => Some(*oldest + SECOND),
            _ => Some(Duration::ZERO),
        }
    }

    fn count_sent(&mut self, now: Duration) {
        if self.sent.len() >= MAX_PER_SECOND {
            self.sent.pop_front();
        }
        self.sent.push_back(now);
        self.under_way += 1;
    }

    fn is_of_no_interest(&self, now: Duration) -> bool {
        let is_past = self.sent.back().is_none_or(|last| *last + SECOND <= now);
        self.waiting == 0 && self.under_way == 0 && is_past
    }
}

#[derive(Debug)]
struct UnderWay {
    ended: Ended,
    target: Target,
    body_bytes: usize,
    audit: AuditEntry,
}

/// All requests that have not ended.
#[derive(Debug, Default)]
pub struct Calls {
    under_way: BTreeMap<CallId, UnderWay>,
    waiting: VecDeque<(Target, Request)>,
    targets: BTreeMap<Target, Traffic>,
    bytes: usize,
    pushed_bytes: usize,
    begun: u64,
    latest: VecDeque<AuditEntry>,
}

impl Calls {
    /// Takes a request that is to be sent as soon as it may. Returns whether there was room for it.
    pub fn take(&mut self, request: Request) -> bool {
        let (bytes, is_push) = (request.outgoing.body.len(), request.purpose == Purpose::Push);
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

    /// Sends what may be sent, in the order in which it was taken.
    pub fn send(&mut self, now: Now, outside: &mut impl Outside) {
        let mut place = 0;
        while place < self.waiting.len() && self.under_way.len() < MAX_UNDER_WAY {
            let ready = self.targets.get(&self.waiting[place].0).and_then(Traffic::ready_at);
            if ready.is_none_or(|ready| ready > now.running) {
                place += 1;
            } else if let Some((target, request)) = self.waiting.remove(place) {
                self.send_one(request, target, now, outside);
            }
        }
        if self.targets.len() > MAX_UNDER_WAY {
            self.targets.retain(|_, traffic| !traffic.is_of_no_interest(now.running));
        }
    }

    fn send_one(&mut self, request: Request, target: Target, now: Now, outside: &mut impl Outside) {
        let Request { endpoint, outgoing, purpose, proof } = request;
        if let Some(traffic) = self.targets.get_mut(&target) {
            traffic.waiting = traffic.waiting.saturating_sub(1);
            traffic.count_sent(now.running);
        }
        self.begun += 1;
        let audit =
            AuditEntry { number: self.begun, host: endpoint.host.clone(), path: outgoing.path, started: now.time };
        if self.latest.len() == MAX_LATEST {
            self.latest.pop_back();
        }
        self.latest.push_front(audit.clone());
        let body_bytes = outgoing.body.len();
        let call = outside.send(&endpoint, outgoing);
        let ended = Ended { purpose, endpoint, proof, sent: now.millis };
        self.under_way.insert(call, UnderWay { ended, target, body_bytes, audit });
    }

    /// A request has ended. `None` if there is none of this number.
    pub fn end(&mut self, call: CallId, now: Duration) -> Option<Ended> {
        let UnderWay { ended, target, body_bytes, .. } = self.under_way.remove(&call)?;
        let is_push = ended.purpose == Purpose::Push;
        self.bytes = self.bytes.saturating_sub(body_bytes);
        self.pushed_bytes = self.pushed_bytes.saturating_sub(if is_push { body_bytes } else { 0 });
        if let Some(traffic) = self.targets.get_mut(&target) {
            traffic.under_way = traffic.under_way.saturating_sub(1);
            traffic.pushes = traffic.pushes.saturating_sub(usize::from(is_push));
            if traffic.is_of_no_interest(now) {
                self.targets.remove(&target);
            }
        }
        Some(ended)
    }

    /// Nobody wants the answer to a request any more.
    pub fn give_up(&mut self, purpose: &Purpose, now: Duration, outside: &mut impl Outside) {
        if let Some(place) = self.waiting.iter().position(|(_, request)| request.purpose == *purpose)
            && let Some((target, request)) = self.waiting.remove(place)
        {
            self.bytes = self.bytes.saturating_sub(request.outgoing.body.len());
            if let Some(traffic) = self.targets.get_mut(&target) {
                traffic.waiting = traffic.waiting.saturating_sub(1);
            }
        }
        let call = self.under_way.iter().find(|(_, call)| call.ended.purpose == *purpose).map(|(id, _)| *id);
        if let Some(call) = call {
            self.end(call, now);
            outside.give_up(call);
        }
    }

    /// When a request that waits may be sent, if it need not wait for another to end.
    pub fn next_due(&self) -> Option<Duration> {
        if self.under_way.len() >= MAX_UNDER_WAY {
            return None;
        }
        self.waiting.iter().filter_map(|(target, _)| self.targets.get(target)?.ready_at()).min()
    }

    /// Calls under way, the oldest first.
    pub fn outstanding(&self) -> Vec<&AuditEntry> {
        let mut entries: Vec<_> = self.under_way.values().map(|call| &call.audit).collect();
        entries.sort_unstable_by_key(|entry| entry.number);
        entries
    }

    /// The last calls, whether they have ended or not, the newest first.
    pub fn latest(&self) -> impl Iterator<Item = &AuditEntry> {
        self.latest.iter()
    }

    /// Requests under way and requests that wait, and the bytes of their bodies.
    pub fn load(&self) -> (usize, usize, usize) {
        (self.under_way.len(), self.waiting.len(), self.bytes)
    }

    /// Nodes that are kept count of.
    pub fn targets(&self) -> usize {
        self.targets.len()
    }
}
