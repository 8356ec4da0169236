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

use super::probes::{Probe, ProbeReason};
use super::requests::{Completed, RequestKind, Verification};
use super::{ClientAnswer, Manager};
use crate::ip::site;
use crate::model::Address;
use crate::net::fetch::FetchId;
use crate::net::service::ConnectionId;
use crate::peer::io::{Now, Reply};
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

/// Returns the slot that a sender from this host evicts when all are taken: of a network that holds more slots than its
/// own network, or else of its own network. Quadratic in the slots, which are in order of arrival.
fn eviction_candidate(slots: &[Slot], host: IpAddr, now: Duration) -> Option<Slot> {
    let of_host = |host: IpAddr| slots.iter().filter(|(_, other)| other.host == host).count();
    let of_network = |host: IpAddr| slots.iter().filter(|(_, other)| site(other.host) == site(host)).count();
    let all: Vec<_> = slots.iter().rev().map(|slot| ((of_network(slot.1.host), of_host(slot.1.host)), slot)).collect();
    // Of equals, `max_by_key` returns the last, which is the oldest.
    let most = all.iter().max_by_key(|(counts, _)| *counts).filter(|((network, _), _)| *network > of_network(host));
    let (most, held, slot) = match most {
        Some(((in_network, _), slot)) => (*in_network, of_network(host), *slot),
        None => {
            let own = all.iter().filter(|(_, (_, other))| site(other.host) == site(host));
            let ((_, at_host), slot) = own.max_by_key(|(counts, _)| *counts)?;
            (*at_host, of_host(host), *slot)
        }
    };
    let is_tried = now.saturating_sub(slot.1.since) >= EVICTION_AGE;
    (most > held + 1 || (most > held && is_tried)).then_some(*slot)
}

/// Request to an unverified sender.
type Slot = (FetchId, Verification);

impl Manager {
    /// Handles a sign of life that came from address `from`. The client gets the answer later if there is none yet.
    pub fn on_sign_of_life(
        &mut self,
        node: &NodeInfo,
        from: IpAddr,
        client: ConnectionId,
        now: Now,
    ) -> Option<ClientAnswer> {
        self.now = now;
        let from = from.to_canonical();
        let address = self.address_of(node);
        let is_elsewhere = node.endpoint.address().is_some_and(|ip| ip.to_canonical() != from);
        let is_own = address == self.address;
        if !self.is_booted() || is_own || is_elsewhere || !self.local.meta_data.is_compatible(&node.meta_data) {
            return Some(ClientAnswer::Accepted);
        }
        let there = NodeInfo { endpoint: with_host(&node.endpoint, from), ..node.clone() };
        if self.table.get(&address).is_some() {
            self.probe_known(address, there.endpoint);
            return Some(ClientAnswer::Accepted);
        }
        let host = peer_table::host(from);
        let slots = self.verifications();
        let is_full = slots.len() >= MAX_VERIFICATIONS;
        let evicted = if is_full { eviction_candidate(&slots, host, now.monotonic) } else { None };
        let at_host = slots.iter().filter(|(_, other)| other.host == host).count();
        if at_host >= MAX_VERIFICATIONS_PER_HOST || (is_full && evicted.is_none()) {
            return Some(ClientAnswer::Rejected(TOO_MANY.to_owned()));
        }
        let kind = RequestKind::Verification(Verification { host, since: now.monotonic, client });
        if self.queue_query(&there, &Query::NodeInfo, kind).is_none() {
            return Some(ClientAnswer::Rejected("the node cannot be reached".to_owned()));
        }
        if let Some((id, Verification { client, .. })) = evicted {
            self.requests.cancel(id, now.monotonic, &mut self.actions);
            self.answer_client(client, ClientAnswer::Rejected(TOO_MANY.to_owned()));
        }
        self.send_requests();
        self.clients.insert(client, None);
        None
    }

    /// Returns the unverified senders in order of arrival.
    pub(super) fn verifications(&self) -> Vec<Slot> {
        let slot = |(id, kind): (FetchId, &RequestKind)| match kind {
            RequestKind::Verification(verification) => Some((id, *verification)),
            _ => None,
        };
        self.requests.kinds().filter_map(slot).collect()
    }

    /// Probes a known peer that a sign of life or an answer places at `endpoint`, unless it is active there. A peer
    /// that just failed at its known endpoint is probed there at once if it may have moved or was saved with this
    /// endpoint.
    pub(super) fn probe_known(&mut self, address: Address, endpoint: Endpoint) {
        let Some(known) = self.table.get(&address) else { return };
        let info = known.info.clone();
        let is_as_known = known.state == State::Active && (known.is_pre_trusted || info.endpoint == endpoint);
        let (host, is_there) = (endpoint.address().map(peer_table::host), info.endpoint == endpoint);
        let by = host.map(site);
        let is_revival = |probe: &Probe| matches!(probe.reason, ProbeReason::SignOfLife | ProbeReason::Move);
        let is_within_share = self.count_probes(is_revival) < MAX_SIGN_PROBES
            && self.count_probes(|probe| by.is_some() && probe.caused_by == by) < MAX_SIGN_PROBES_PER_NETWORK;
        // Pre-trusted peers are limited by the operator's list and get space in any case.
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
            Probe::of(&there, if is_there { ProbeReason::SignOfLife } else { ProbeReason::Move })
        } else {
            return;
        };
        self.start_probe(Probe { caused_by: by, ..probe });
        self.send_requests();
    }

    /// Processes the identity of the sender of a sign of life, or the failure of the request.
    pub(super) fn on_verification_reply(&mut self, client: ConnectionId, completed: Completed, reply: Reply) {
        match self.read_identity(&completed, reply) {
            Ok((reported, ip)) => {
                self.answer_client(client, ClientAnswer::Accepted);
                self.record_answer(NodeInfo { endpoint: completed.endpoint, ..reported }, ip);
            }
            Err(PeerError { reason, .. }) => {
                log::debug!("the sender of a sign of life is not verified: {reason}");
                self.answer_client(client, ClientAnswer::Rejected(sanitize(&reason)));
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
