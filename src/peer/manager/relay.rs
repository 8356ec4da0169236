//! Messages that nodes send each other unasked: relay of blocks (at once) and transactions (in lists, once a second), and
//! signs of life, with which nodes announce themselves.
//!
//! A peer that does not accept pushes is skipped for a while and delays nobody else. Transactions that do not fit into
//! the buffer are not relayed by this node; peers get them by requesting unconfirmed transactions.
//!
//! The unknown sender of a sign of life is verified by a request to the address that the message came from, and to no other, so that
//! nobody can direct requests at third parties. A known peer is probed at its known endpoint, wherever the message came
//! from (see [`probes`](super::probes)).
//!
//! **Limit.** There are [`MAX_SIGN_PROBES`] places for requests that signs of life cause, held by the senders
//! ([`Quota`](crate::quota::Quota)). When all are taken, the oldest of the network that holds most gives way, or the new
//! one if it is of this network and no other client there holds more. One that is its network's only one keeps its place
//! for [`EVICTION_AGE`]. So unresponsive senders, however many networks they have, delay a newcomer no longer than it takes
//! to work through as many others as they bring. Additional addresses in a network do not help them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use super::probes::{Probe, ProbeReason};
use super::requests::{Answer, RequestKind};
use super::{Manager, PeerSettings};
use crate::ip::in_url;
use crate::model::{Address, Block, Hash256, Transaction};
use crate::net::fetch::FetchId;
use crate::net::service::ConnectionId;
use crate::peer::io::Now;
use crate::peer::peer_entry::{PeerError, State, sanitize};
use crate::peer::peer_table;
use crate::peer::wire::{Endpoint, List, Message, NodeInfo, Query, SecureEntity, limits};
use crate::quota::Owner;

/// Maximum number of transactions in the relay buffer.
pub const MAX_BUFFERED: usize = 2_000;
/// Maximum number of peers that get a sign of life at once, unless more are selected by trust.
pub const MAX_SIGNS_OF_LIFE: usize = 20;
/// Maximum overhead in bytes of a transaction in a list.
const LIST_OVERHEAD: usize = 4;
/// Maximum number of requests that signs of life cause at a time; listed peers are probed in addition. Fewer than
/// [`Priority::SignProbe`](super::requests::Priority::SignProbe) has places, so that some stay for pings and refreshes.
pub const MAX_SIGN_PROBES: usize = 32;
/// Time for which the only one of a network keeps its place when all are taken.
pub const EVICTION_AGE: Duration = Duration::from_secs(2);

/// Error for a sender that finds no place.
const TOO_MANY: &str = "too many signs of life at once";

/// Returns the maximum bytes of the relay buffer: a list must not exceed what a peer like this node accepts.
pub fn max_buffered_bytes(settings: &PeerSettings) -> usize {
    limits::pushed(&settings.chain, settings.format) - limits::ENVELOPE
}

/// Transactions to relay.
#[derive(Debug, Default)]
pub struct RelayBuffer {
    transactions: Vec<SecureEntity<Transaction>>,
    pub(super) hashes: BTreeSet<Hash256>,
    pub(super) bytes: usize,
}

impl Manager {
    /// Queues a transaction for relay, signed at once. Returns whether it was added; it is not if it is queued already or
    /// there is no space.
    pub fn queue_transaction(&mut self, transaction: &Transaction) -> bool {
        let (queued, hash) = (&self.relay_buffer.hashes, transaction.hash());
        if !self.is_booted() || queued.len() >= MAX_BUFFERED || queued.contains(&hash) {
            return false;
        }
        let signed = SecureEntity::sign(transaction.clone(), &self.keys, self.local.identity.name.clone());
        let bytes = self.settings.format.to_bytes(&signed).len() + LIST_OVERHEAD;
        let buffer = &mut self.relay_buffer;
        if buffer.bytes + bytes > max_buffered_bytes(&self.settings) {
            return false;
        }
        buffer.bytes += bytes;
        buffer.hashes.insert(hash);
        buffer.transactions.push(signed);
        true
    }

    /// Relays a block, signed with this node's key.
    pub fn push_block(&mut self, block: Block, now: Now) {
        self.now = now;
        if !self.is_booted() {
            return;
        }
        let block = SecureEntity::sign(block, &self.keys, self.local.identity.name.clone());
        self.push(&Message::PushBlock(&block));
        self.send_requests();
    }

    /// Relays the buffered transactions. The answers are ignored.
    pub(super) fn flush_buffer(&mut self) {
        let RelayBuffer { transactions, .. } = std::mem::take(&mut self.relay_buffer);
        if !transactions.is_empty() {
            self.push(&Message::PushTransactions(&List(transactions)));
        }
    }

    fn push(&mut self, message: &Message<'_>) {
        let request = message.request(self.settings.format);
        for peer in self.select_peers() {
            let kind = RequestKind::Push(self.address_of(&peer));
            if !self.queue_message(&peer.endpoint, &request, kind) {
                log::debug!("no space in the request queue: {} is not sent {}", peer.endpoint, request.target);
            }
        }
    }

    /// Sends signs of life to peers selected by trust, and to active peers that have not received one lately. Peers
    /// without trust are never selected; such a peer may know an old address of this node and learns the new one only
    /// here. The answers are ignored.
    pub(super) fn send_signs_of_life(&mut self) {
        let request = Message::SignOfLife(&self.local).request(self.settings.format);
        let mut receivers = self.select_peers();
        let drawn: Vec<_> = receivers.iter().map(|node| self.address_of(node)).collect();
        let more = MAX_SIGNS_OF_LIFE.saturating_sub(drawn.len());
        let now = self.now.monotonic;
        receivers.extend(self.infos(self.table.due_for_sign_of_life(&drawn, now, more)));
        for node in receivers {
            let address = self.address_of(&node);
            if self.queue_message(&node.endpoint, &request, RequestKind::SignOfLife)
                && let Some(peer) = self.table.get_mut(&address)
            {
                peer.sign_sent_at = now;
            }
        }
    }

    /// Handles a sign of life that came from address `from`. The client gets the answer later if there is none yet.
    pub fn on_sign_of_life(
        &mut self,
        node: &NodeInfo,
        from: IpAddr,
        client: ConnectionId,
        now: Now,
    ) -> Option<Result<(), String>> {
        self.now = now;
        let from = from.to_canonical();
        let address = self.address_of(node);
        let is_elsewhere = node.endpoint.address().is_some_and(|ip| ip.to_canonical() != from);
        let is_own = address == self.table.local;
        if !self.is_booted() || is_own || is_elsewhere || !self.local.meta_data.is_compatible(&node.meta_data) {
            return Some(Ok(()));
        }
        let endpoint = Endpoint { host: in_url(&from.to_string()), ..node.endpoint.clone() };
        let there = NodeInfo { endpoint, ..node.clone() };
        if self.table.get(&address).is_some() {
            self.probe_known(address, there.endpoint);
            return Some(Ok(()));
        }
        let Some(id) = self.queue_query(&there, &Query::NodeInfo, RequestKind::Verification(client)) else {
            return Some(Err("the node cannot be reached".to_owned()));
        };
        if !self.hold_place(id, from) {
            return Some(Err(TOO_MANY.to_owned()));
        }
        self.send_requests();
        self.clients.insert(client, None);
        None
    }

    /// Holds a place for a request that a sign of life from this address has caused; cancels the one that gives way, if there
    /// are too many. Returns whether the request stays.
    pub(super) fn hold_place(&mut self, id: FetchId, by: IpAddr) -> bool {
        let (now, by, places) = (self.now.monotonic, Owner::at(by), &mut self.sign_probes);
        places.hold(id, by, 1, now);
        if places.len() <= MAX_SIGN_PROBES {
            return true;
        }
        let Some((owner, first)) = places.gives_way() else { return true };
        let is_kept = if places.gives_way_beside(by) == Some((owner, first)) {
            places.held_by_client(owner) <= places.held_by_client(by)
        } else {
            places.held_by_network(owner) == 1 && !self.requests.is_sent_for(first, EVICTION_AGE, self.now)
        };
        let evicted = if is_kept { id } else { first };
        places.release(evicted, now);
        if let Some(RequestKind::Verification(client)) = self.requests.cancel(evicted, now, &mut self.actions) {
            self.answer_client(client, Err(TOO_MANY.to_owned()));
        }
        evicted != id
    }

    /// Probes a known peer that a sign of life or an answer places at `endpoint`, unless it is active there. A peer
    /// that just failed at its known endpoint is probed there at once if it may have moved or was saved with this
    /// endpoint.
    pub(super) fn probe_known(&mut self, address: Address, endpoint: Endpoint) {
        let Some(known) = self.table.get(&address) else { return };
        let info = known.info.clone();
        let is_as_known = known.state == State::Active && (known.is_listed || info.endpoint == endpoint);
        let (host, is_there) = (endpoint.address().map(peer_table::host), info.endpoint == endpoint);
        // Listed peers are limited by the operator's list and need no place.
        let caused_by = endpoint.address().filter(|_| !known.is_listed);
        let there = NodeInfo { endpoint, ..info.clone() };
        if is_as_known || self.count_probes(|probe| probe.is_of(&info) || probe.is_of(&there)) > 0 {
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
        self.start_probe(Probe { caused_by, ..probe });
        self.send_requests();
    }

    /// Processes the identity of the sender of a sign of life, or the failure of the request.
    pub(super) fn on_verification_reply(&mut self, client: ConnectionId, answer: Answer) {
        match self.read_identity(&answer) {
            Ok((reported, ip)) => {
                self.answer_client(client, Ok(()));
                self.record_answer(NodeInfo { endpoint: answer.endpoint, ..reported }, ip);
            }
            Err(PeerError { reason, .. }) => {
                log::debug!("the sender of a sign of life is not verified: {reason}");
                self.answer_client(client, Err(sanitize(&reason)));
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
