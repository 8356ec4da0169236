//! Data about peers for people and other nodes.

use std::net::IpAddr;

use super::request_queue::{AuditEntry, Completed};
use super::unpinned::Unpinned;
use super::{Manager, PeerInfo, Phase};
use crate::crypto::PublicKey;
use crate::model::Address;
use crate::peer::error::FailureKind;
use crate::peer::experiences::Experience;
use crate::peer::io::{Now, PeerIo};
use crate::peer::peer_table::{self, PeerEntry, PeerTable, State};
use crate::peer::random::RandomSource;
use crate::peer::schedule::Timer;
use crate::peer::time_sync::TimeSync;
use crate::peer::trust::TrustValues;
use crate::peer::wire::{
    Endpoint, ExperienceEntry, ExperiencePair, NodeCollection, NodeExperiences, NodeInfo, NodeList,
};

/// Whether the node has joined its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// Joined.
    Yes,
    /// Not joined: no peer has reported this node's address.
    NotYet {
        /// Number of rounds without an answer.
        failures: u32,
    },
}

/// Result of a peer's push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushResult {
    /// New and valid.
    Useful,
    /// No statement about the peer: known already, too early, or no room.
    Neutral,
    /// Invalid.
    Harmful,
}

/// Sender of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pusher {
    /// Key that signed the push.
    pub key: PublicKey,
    /// Address that the push came from.
    pub from: IpAddr,
}

impl Manager {
    /// Returns this node's public description, with the detected endpoint.
    pub fn local(&self) -> &NodeInfo {
        &self.local
    }

    /// Returns whether the node has joined its network, and the failures so far.
    pub fn joined(&self) -> Joined {
        match &self.phase {
            Phase::Running(_) => Joined::Yes,
            Phase::Joining(joining) => Joined::NotYet { failures: joining.failures() },
        }
    }

    /// Returns whether the node has joined its network.
    pub fn is_booted(&self) -> bool {
        self.phase.is_booted()
    }

    /// Returns whether the last height checks found this node synchronised.
    pub fn is_synchronised(&self) -> bool {
        self.height_check.is_synchronised()
    }

    /// Returns whether any peer is active.
    pub fn has_active_node(&self) -> bool {
        self.table.in_state(State::Active).next().is_some()
    }

    /// Returns the peers to name when asked: freshly selected ones, plus a random choice of other active peers up to
    /// the node limit, at least one. Peers without trust are never selected; if they were never named, two such peers
    /// with outdated endpoints would not find each other again. Linear in the peer table.
    pub fn peers_to_share(&self, random: &mut impl RandomSource) -> NodeList {
        let mut reported = self.select(&self.selector, random);
        let mut others: Vec<_> = self.table.in_state(State::Active).map(|(address, _)| *address).collect();
        others.retain(|node| !reported.contains(node));
        let room = self.settings.node_limit.saturating_sub(reported.len()).max(1);
        random.choose(&mut others, room);
        reported.extend(others.into_iter().take(room));
        NodeList(self.infos(reported))
    }

    /// Returns all active peers.
    pub fn active(&self) -> NodeList {
        NodeList(self.in_state(State::Active))
    }

    /// Returns all peers by state, except those that were not contacted yet.
    pub fn collection(&self) -> NodeCollection {
        NodeCollection {
            active: self.in_state(State::Active),
            busy: self.in_state(State::Failed(FailureKind::Busy)),
            inactive: self.in_state(State::Failed(FailureKind::Inactive)),
            failure: self.in_state(State::Failed(FailureKind::Failure)),
        }
    }

    fn in_state(&self, state: State) -> Vec<NodeInfo> {
        self.table.in_state(state).map(|(_, node)| node.data.info.clone()).collect()
    }

    /// Returns own experiences to send to a peer: at most 100, chosen at random.
    pub fn experiences(&self, random: &mut impl RandomSource) -> NodeExperiences {
        let pair = |(address, experience): (Address, Experience)| {
            let node = self.table.get(&address)?.data.info.clone();
            Some(ExperiencePair { node, experience })
        };
        let experiences = self.experiences.selection(random).into_iter().filter_map(pair).collect();
        NodeExperiences { node: self.local.clone(), experiences }
    }

    /// Returns own experiences with all known peers, for people.
    pub fn experience_entries(&self) -> Vec<ExperienceEntry> {
        let entry = |(address, node): (&Address, &PeerEntry<PeerInfo>)| ExperienceEntry {
            node: node.data.info.clone(),
            experience: self.experience(address),
            syncs: i32::try_from(node.synchronisations).unwrap_or(i32::MAX),
        };
        self.table.iter().map(entry).collect()
    }

    /// Returns the recurring tasks; empty before joining.
    pub fn timers(&self) -> &[Timer] {
        match &self.phase {
            Phase::Running(schedule) => schedule.timers(),
            Phase::Joining(_) => &[],
        }
    }

    /// Returns the state of time synchronisation.
    pub fn time(&self) -> &TimeSync {
        &self.time_sync
    }

    /// Returns the calls in flight, oldest first.
    pub fn outstanding_calls(&self) -> Vec<&AuditEntry> {
        self.requests.outstanding()
    }

    /// Returns the latest calls, newest first.
    pub fn latest_calls(&self) -> impl Iterator<Item = &AuditEntry> {
        self.requests.latest()
    }

    /// Returns the table of known peers.
    pub fn table(&self) -> &PeerTable<PeerInfo> {
        &self.table
    }

    /// Returns the trust in the nodes that took part in the last calculation.
    pub fn trust(&self) -> &TrustValues {
        self.trust.values()
    }

    /// Returns this node's experience with a peer.
    pub fn experience(&self, node: &Address) -> Experience {
        self.experiences.between(&self.address, node)
    }

    /// Returns the pre-trusted peers without a known key.
    pub fn unpinned(&self) -> &[Unpinned] {
        &self.unpinned
    }

    /// Records the validation result of a push. It counts only for known peers that are active or busy, and only if the
    /// push came from the peer's known address: pushes are signed, but anyone can replay them later, and the peer would
    /// be trusted or blamed for it; nor does a push from elsewhere show that the peer is at its known endpoint. A
    /// useful push of a pre-trusted peer counts wherever it comes from, as such a peer never moves.
    pub fn record_push(&mut self, by: &Pusher, result: PushResult, now: Now) {
        let node = Address::from_public_key(&by.key, self.settings.context.network);
        // All loopback addresses are this machine; which of them a connection uses is irrelevant.
        let host = |ip: IpAddr| (!ip.to_canonical().is_loopback()).then(|| peer_table::host(ip));
        let may_be_elsewhere = |known: &PeerEntry<PeerInfo>| known.is_pre_trusted && result == PushResult::Useful;
        let is_there =
            |known: &PeerEntry<PeerInfo>| may_be_elsewhere(known) || known.ip.map(host) == Some(host(by.from));
        if !self.table.get(&node).is_some_and(is_there) {
            return;
        }
        if result == PushResult::Useful {
            self.record_alive(&node, now);
        }
        let counts =
            |known: &PeerEntry<PeerInfo>| matches!(known.state, State::Active | State::Failed(FailureKind::Busy));
        if !self.table.get(&node).is_some_and(counts) {
            return;
        }
        match result {
            PushResult::Useful => self.experiences.succeeded(node, now.network),
            PushResult::Harmful => self.experiences.failed(node, now.network),
            PushResult::Neutral => {}
        }
    }

    /// Records a valid answer of a peer from an endpoint. A peer that has never introduced itself is probed.
    pub(super) fn record_valid_answer(&mut self, node: &Address, endpoint: &Endpoint, now: Now, io: &mut impl PeerIo) {
        let Some(known) = self.table.get(node).filter(|_| self.has_endpoint(node, endpoint)) else { return };
        match known.last_contact {
            Some(_) => self.record_alive(node, now),
            None => self.probe_known(*node, endpoint.clone(), now, io),
        }
    }

    /// Returns the peer that was queried, if the answer had to prove it.
    pub(super) fn queried_peer(&self, completed: &Completed) -> Option<Address> {
        let key = completed.proof.as_ref()?.key?;
        Some(Address::from_public_key(&key, self.settings.context.network))
    }

    /// Records a valid signed message of a peer. The owner of the key is alive, so the peer is active at its known
    /// endpoint; the message does not prove where it is.
    fn record_alive(&mut self, node: &Address, now: Now) {
        if self.table.record_alive(node, now.monotonic) {
            log::info!("{node} is active again: it sent a valid message");
            self.renew_selector();
        }
    }
}
