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

use std::net::IpAddr;
use std::time::Duration;

use super::Manager;
use super::probes::{Probe, ProbeReason};
use super::requests::{Completed, RequestKind};
use crate::ip::site;
use crate::model::Address;
use crate::peer::io::{Action, CallId, Now};
use crate::peer::peer_table::{self, PeerError, State, sanitize};
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
    /// [`Action::SignOfLifeVerified`] follows later and once with the answer.
    Pending(CallId),
    /// The sender cannot be verified; answer with status 500 and this message.
    Failed(&'static str),
}

/// Request to an unverified sender, the host of the sender, and the time of its sign of life.
type Verification = (CallId, IpAddr, Duration);

/// Returns the slot that a sender from this host evicts when all are taken: of a network that holds more slots than its
/// own network, or else of its own network. Quadratic in the slots, which are in order of arrival.
fn eviction_candidate(slots: &[Verification], host: IpAddr, now: Duration) -> Option<CallId> {
    let of_host = |host: IpAddr| slots.iter().filter(|(_, other, _)| *other == host).count();
    let of_network = |host: IpAddr| slots.iter().filter(|(_, other, _)| site(*other) == site(host)).count();
    let all: Vec<_> = slots.iter().rev().map(|slot| ((of_network(slot.1), of_host(slot.1)), slot)).collect();
    // Of equals, `max_by_key` returns the last, which is the oldest.
    let most = all.iter().max_by_key(|(counts, _)| *counts).filter(|((network, _), _)| *network > of_network(host));
    let (most, held, (call, _, since)) = match most {
        Some(((in_network, _), slot)) => (*in_network, of_network(host), slot),
        None => {
            let own = all.iter().filter(|(_, (_, other, _))| site(*other) == site(host));
            let ((_, at_host), slot) = own.max_by_key(|(counts, _)| *counts)?;
            (*at_host, of_host(host), slot)
        }
    };
    let is_tried = now.saturating_sub(*since) >= EVICTION_AGE;
    (most > held + 1 || (most > held && is_tried)).then_some(*call)
}

impl Manager {
    /// Handles a sign of life that came from address `from`.
    pub fn on_sign_of_life(&mut self, node: &NodeInfo, from: IpAddr, now: Now) -> SignOfLifeResult {
        self.now = now;
        let from = from.to_canonical();
        let address = self.address_of(node);
        let is_elsewhere = node.endpoint.address().is_some_and(|ip| ip.to_canonical() != from);
        let is_own = address == self.address;
        if !self.is_booted() || is_own || is_elsewhere || !self.local.meta_data.is_compatible(&node.meta_data) {
            return SignOfLifeResult::Ignored;
        }
        let there = NodeInfo { endpoint: with_host(&node.endpoint, from), ..node.clone() };
        if self.table.get(&address).is_some() {
            self.probe_known(address, there.endpoint);
            return SignOfLifeResult::Ignored;
        }
        let host = peer_table::host(from);
        let slots = self.verifications();
        if slots.iter().filter(|(_, other, _)| *other == host).count() >= MAX_VERIFICATIONS_PER_HOST {
            return SignOfLifeResult::Failed(TOO_MANY);
        }
        let is_full = slots.len() >= MAX_VERIFICATIONS;
        let evicted = if is_full { eviction_candidate(&slots, host, now.monotonic) } else { None };
        if is_full && evicted.is_none() {
            return SignOfLifeResult::Failed(TOO_MANY);
        }
        let kind = RequestKind::Verification(host, now.monotonic);
        let Some(call) = self.queue_query(&there, &Query::NodeInfo, kind) else {
            return SignOfLifeResult::Failed("the node cannot be reached");
        };
        if let Some(evicted) = evicted {
            self.requests.cancel(evicted, now.monotonic, &mut self.actions);
            self.actions.push(Action::SignOfLifeVerified(evicted, Some(TOO_MANY.to_owned())));
        }
        self.send_requests();
        SignOfLifeResult::Pending(call)
    }

    /// Returns the unverified senders in order of arrival.
    pub(super) fn verifications(&self) -> Vec<Verification> {
        let slot = |(call, kind): (CallId, &RequestKind)| match kind {
            RequestKind::Verification(host, since) => Some((call, *host, *since)),
            _ => None,
        };
        let mut slots: Vec<_> = self.requests.kinds().filter_map(slot).collect();
        slots.sort_unstable_by_key(|(call, ..)| *call);
        slots
    }

    /// Probes a known peer that a sign of life or an answer places at `endpoint`, unless it is active there. A peer
    /// that just failed at its known endpoint is probed there at once if it may have moved or was saved with this
    /// endpoint.
    pub(super) fn probe_known(&mut self, address: Address, endpoint: Endpoint) {
        let Some(known) = self.table.get(&address) else { return };
        let info = known.data.info.clone();
        let is_as_known = known.state == State::Active && (known.is_pre_trusted || info.endpoint == endpoint);
        let (host, is_there) = (endpoint.address().map(peer_table::host), info.endpoint == endpoint);
        let by = host.map(site);
        let is_revival = |probe: &Probe| matches!(probe.reason, ProbeReason::SignOfLife | ProbeReason::Move);
        let is_within_share = self.count_probes(is_revival) < MAX_SIGN_PROBES
            && self.count_probes(|probe| probe.is_caused_by(by)) < MAX_SIGN_PROBES_PER_NETWORK;
        // Pre-trusted peers are limited by the operator's list and get room in any case.
        let has_room = known.is_pre_trusted || is_within_share;
        let there = NodeInfo { endpoint, ..info.clone() };
        if is_as_known || !has_room || self.count_probes(|probe| probe.is_of(&info) || probe.is_of(&there)) > 0 {
            return;
        }
        let probe = if self.table.admit_sign_probe(&address, self.now.monotonic) {
            Probe::with_other_endpoint(&info, ProbeReason::SignOfLife, there.endpoint)
        } else if host
            .is_some_and(|host| self.table.admit_immediate_probe(&address, host, is_there, self.now.monotonic))
        {
            Probe::new(&there, if is_there { ProbeReason::SignOfLife } else { ProbeReason::Move })
        } else {
            return;
        };
        self.start_probe(probe.caused_by_network(by));
        self.send_requests();
    }

    /// Processes the identity of the sender of a sign of life, or the failure of the request.
    pub(super) fn on_verification_reply(&mut self, call: CallId, completed: Completed) {
        let asked_at = completed.endpoint.clone();
        match self.read_identity(completed) {
            Ok((reported, ip)) => {
                self.actions.push(Action::SignOfLifeVerified(call, None));
                self.record_answer(NodeInfo { endpoint: asked_at, ..reported }, ip);
            }
            Err(PeerError { reason, .. }) => {
                log::debug!("the sender of a sign of life is not verified: {reason}");
                self.actions.push(Action::SignOfLifeVerified(call, Some(sanitize(&reason))));
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
