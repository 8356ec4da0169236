//! Signs of life: messages of nodes that announce themselves.
//!
//! An unknown sender is verified by a request to the address that the message came from, and to no other, so that
//! nobody can direct requests at third parties. A known peer is probed at its known endpoint, wherever the message came
//! from (see [`probes`](super::probes)).
//!
//! **Unknown senders** have [`MAX_VERIFICATIONS`] slots, [`MAX_VERIFICATIONS_PER_HOST`] per host. When all are taken, a new
//! sender evicts a slot of the network (/24 of IPv4, /48 of IPv6) that holds most, there of the host that holds most,
//! and there the oldest: at once if it holds at least two more than the newcomer, or, if it holds one more, once the
//! slot is [`EVICTION_AGE`] old. So unresponsive senders, however many networks they have, delay a newcomer no longer than
//! it takes to work through as many others as they bring, [`MAX_VERIFICATIONS`] per [`EVICTION_AGE`]. Additional addresses in a
//! network do not help them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::Manager;
use super::probes::{Probe, ProbeReason};
use super::request_queue::{Completed, RequestKind};
use crate::ip::site;
use crate::model::Address;
use crate::peer::error::{PeerError, sanitize};
use crate::peer::io::{Now, PeerIo, Reply, VerificationId};
use crate::peer::peer_table::{self, State};
use crate::peer::wire::{Endpoint, NodeInfo, Query};

/// Maximum number of unverified senders.
pub const MAX_VERIFICATIONS: usize = 64;
/// Maximum number of them per host.
pub const MAX_VERIFICATIONS_PER_HOST: usize = 8;
/// Time for which an unknown sender keeps the only slot of its network when slots are short.
pub const EVICTION_AGE: Duration = Duration::from_secs(2);
/// Maximum number of running probes caused by signs of life; pre-trusted peers are probed beyond it.
pub const MAX_SIGN_PROBES: usize = 32;
/// Maximum number of them per network of the sender.
pub const MAX_SIGN_PROBES_PER_NETWORK: usize = 8;

/// Error for a sender that finds no slot.
const TOO_MANY: &str = "too many signs of life at once";

/// Result of a sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignOfLifeResult {
    /// No effect; answer with status 200.
    Ignored,
    /// [`PeerIo::sign_of_life_verified`] is called later and once with the answer.
    Pending(VerificationId),
    /// The sender cannot be verified; answer with status 500 and this message.
    Failed(&'static str),
}

/// Unverified sender.
#[derive(Clone, Copy, Debug)]
struct PendingVerification {
    /// Host of the sender.
    host: IpAddr,
    since: Duration,
}

/// Unverified senders.
#[derive(Debug, Default)]
pub struct Verifications {
    started: u64,
    /// In order of arrival.
    pending: BTreeMap<VerificationId, PendingVerification>,
}

impl Verifications {
    /// Returns the number of unverified senders.
    pub fn count(&self) -> usize {
        self.pending.len()
    }

    fn held_by_host(&self, host: IpAddr) -> usize {
        self.pending.values().filter(|waiting| waiting.host == host).count()
    }

    fn held_by_network(&self, host: IpAddr) -> usize {
        self.pending.values().filter(|waiting| site(waiting.host) == site(host)).count()
    }

    /// Returns the slot that a sender from this host evicts when all are taken: of a network that holds more slots than
    /// its own network, or else of its own network. Quadratic in the slots.
    fn eviction_candidate(&self, host: IpAddr, now: Duration) -> Option<VerificationId> {
        let held = (self.held_by_network(host), self.held_by_host(host));
        let counts = |(id, waiting): (&VerificationId, &PendingVerification)| {
            ((self.held_by_network(waiting.host), self.held_by_host(waiting.host)), site(waiting.host), *id)
        };
        let all: Vec<_> = self.pending.iter().rev().map(counts).collect();
        // Of equals, `max_by_key` returns the last, which is the oldest.
        let most = all.iter().max_by_key(|(counts, ..)| *counts).filter(|((in_network, _), ..)| *in_network > held.0);
        let (most, held, longest) = match most {
            Some(((in_network, _), _, id)) => (*in_network, held.0, *id),
            None => {
                let own = all.iter().filter(|(_, network, _)| *network == site(host));
                let ((_, at_host), _, id) = own.max_by_key(|(counts, ..)| *counts)?;
                (*at_host, held.1, *id)
            }
        };
        let is_tried =
            self.pending.get(&longest).is_some_and(|waiting| now.saturating_sub(waiting.since) >= EVICTION_AGE);
        (most > held + 1 || (most > held && is_tried)).then_some(longest)
    }
}

impl Manager {
    /// Handles a sign of life that came from address `from`.
    pub fn on_sign_of_life(
        &mut self,
        node: &NodeInfo,
        from: IpAddr,
        now: Now,
        io: &mut impl PeerIo,
    ) -> SignOfLifeResult {
        let from = from.to_canonical();
        let address = self.address_of(node);
        let is_elsewhere = node.endpoint.address().is_some_and(|ip| ip.to_canonical() != from);
        let is_own = address == self.address;
        if !self.is_booted() || is_own || is_elsewhere || !self.local.meta_data.is_compatible(&node.meta_data) {
            return SignOfLifeResult::Ignored;
        }
        let there = NodeInfo { endpoint: with_host(&node.endpoint, from), ..node.clone() };
        if self.table.get(&address).is_some() {
            self.probe_known(address, there.endpoint, now, io);
            return SignOfLifeResult::Ignored;
        }
        let host = peer_table::host(from);
        if self.verifications.held_by_host(host) >= MAX_VERIFICATIONS_PER_HOST {
            return SignOfLifeResult::Failed(TOO_MANY);
        }
        let is_full = self.verifications.count() >= MAX_VERIFICATIONS;
        let given_up = if is_full { self.verifications.eviction_candidate(host, now.monotonic) } else { None };
        if is_full && given_up.is_none() {
            return SignOfLifeResult::Failed(TOO_MANY);
        }
        self.verifications.started += 1;
        let verification = VerificationId(self.verifications.started);
        if !self.queue_query(&there, &Query::NodeInfo, RequestKind::Verification(verification), io) {
            return SignOfLifeResult::Failed("the node cannot be reached");
        }
        if let Some(given_up) = given_up {
            self.verifications.pending.remove(&given_up);
            self.requests.cancel(&RequestKind::Verification(given_up), now.monotonic, io);
            io.sign_of_life_verified(given_up, Some(TOO_MANY.to_owned()));
        }
        self.verifications.pending.insert(verification, PendingVerification { host, since: now.monotonic });
        self.requests.send(now, io);
        SignOfLifeResult::Pending(verification)
    }

    /// Probes a known peer that a sign of life or an answer places at `endpoint`, unless it is active there. A peer
    /// that just failed at its known endpoint is probed there at once if it may have moved or was saved with this
    /// endpoint.
    pub(super) fn probe_known(&mut self, address: Address, endpoint: Endpoint, now: Now, io: &mut impl PeerIo) {
        let Some(known) = self.table.get(&address) else { return };
        let info = known.data.info.clone();
        let is_as_known = known.state == State::Active && (known.is_pre_trusted || info.endpoint == endpoint);
        let (host, is_there) = (endpoint.address().map(peer_table::host), info.endpoint == endpoint);
        let by = host.map(site);
        let revivals = self.probes.count(ProbeReason::SignOfLife) + self.probes.count(ProbeReason::Move);
        let is_within_share = revivals < MAX_SIGN_PROBES && self.probes.count_by(by) < MAX_SIGN_PROBES_PER_NETWORK;
        // Pre-trusted peers are limited by the operator's list and get room in any case.
        let has_room = known.is_pre_trusted || is_within_share;
        let there = NodeInfo { endpoint, ..info.clone() };
        if is_as_known || !has_room || self.probes.has(&info) || self.probes.has(&there) {
            return;
        }
        let probe = if self.table.admit_sign_probe(&address, now.monotonic) {
            Probe::with_other_endpoint(&info, ProbeReason::SignOfLife, there.endpoint)
        } else if host.is_some_and(|host| self.table.admit_immediate_probe(&address, host, is_there, now.monotonic)) {
            Probe::new(&there, if is_there { ProbeReason::SignOfLife } else { ProbeReason::Move })
        } else {
            return;
        };
        self.start_probe(probe.caused_by_network(by), io);
        self.requests.send(now, io);
    }

    /// Processes the identity of the sender of a sign of life, or the failure of the request.
    pub(super) fn on_verification_reply(
        &mut self,
        verification: VerificationId,
        completed: Completed,
        response: Reply,
        now: Now,
        io: &mut impl PeerIo,
    ) {
        if self.verifications.pending.remove(&verification).is_none() {
            return;
        }
        let asked_at = completed.endpoint.clone();
        match self.read_identity(completed, response) {
            Ok((reported, ip)) => {
                io.sign_of_life_verified(verification, None);
                self.record_answer(NodeInfo { endpoint: asked_at, ..reported }, ip, now);
            }
            Err(PeerError { reason, .. }) => {
                log::debug!("the sender of a sign of life is not verified: {reason}");
                io.sign_of_life_verified(verification, Some(sanitize(&reason)));
            }
        }
    }
}

/// Replaces the host of an endpoint.
fn with_host(endpoint: &Endpoint, ip: IpAddr) -> Endpoint {
    let host = match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    Endpoint { host, ..endpoint.clone() }
}
