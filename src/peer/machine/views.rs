//! What the node tells of its peers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::calls::{AuditEntry, Ended};
use super::unpinned::Unpinned;
use super::{About, Peers, Phase};
use crate::crypto::PublicKey;
use crate::model::{Address, Height};
use crate::peer::experiences::Experience;
use crate::peer::nodes::{self, Dropped, LastTrouble, Node, State};
use crate::peer::outside::{Now, Outside};
use crate::peer::random::RandomSource;
use crate::peer::schedule::Timer;
use crate::peer::time_sync::TimeSync;
use crate::peer::wire::{
    self, Endpoint, ExperienceEntry, ExperiencePair, NodeCollection, NodeExperiences, NodeInfo, NodeList,
};

/// What is known of a node, for people.
#[derive(Clone, Debug)]
pub struct PeerView<'p> {
    /// Its address on the network.
    pub address: Address,
    /// What it says of itself.
    pub info: &'p NodeInfo,
    /// Where it answered.
    pub ip: Option<IpAddr>,
    /// What became of the last contact.
    pub state: State,
    /// Whether it is on the operator's list.
    pub is_pre_trusted: bool,
    /// The height of its chain when it was last asked for it.
    pub height: Option<Height>,
    /// The score of its chain when it was last asked for it.
    pub score: Option<i128>,
    /// When it last answered, since the start of this node.
    pub last_contact: Option<Duration>,
    /// Its share of the trust, if it took part in the last calculation.
    pub trust: Option<f64>,
    /// What this node has experienced with it.
    pub experience: Experience,
    /// Attempts to synchronise with it.
    pub synchronisations: u32,
    /// Its last failure.
    pub last_trouble: Option<&'p LastTrouble>,
    /// When it is asked again of its own accord, since the start of this node, if it has failed.
    pub asked_again: Option<Duration>,
}

/// Whether the node has joined its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// It has.
    Yes,
    /// It has not, since nobody says yet under which address it is seen.
    NotYet {
        /// How often nobody has said so.
        failures: u32,
    },
}

/// What became of something that another node has pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushResult {
    /// It was new and valid.
    Useful,
    /// It says nothing about the node: it was known already, came too early, or found no room.
    Neutral,
    /// It was not valid.
    Harmful,
}

/// Who has pushed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pusher {
    /// Whose signature it has.
    pub key: PublicKey,
    /// The address that it came from.
    pub from: IpAddr,
}

impl Peers {
    /// This node as others are told of it, with the endpoint at which they see it.
    pub fn local(&self) -> &NodeInfo {
        &self.local
    }

    /// Whether the node has joined its network.
    pub fn joined(&self) -> Joined {
        match &self.phase {
            Phase::Running(_) => Joined::Yes,
            Phase::Joining(joining) => Joined::NotYet { failures: joining.failures() },
        }
    }

    /// Whether the node has joined its network.
    pub fn is_booted(&self) -> bool {
        self.phase.is_booted()
    }

    /// Whether it has the chain that others have, as far as it knows.
    pub fn is_synchronised(&self) -> bool {
        self.height_check.is_synchronised()
    }

    /// Whether some node answered at the last contact.
    pub fn has_active_node(&self) -> bool {
        self.nodes.in_state(State::Active).next().is_some()
    }

    /// The nodes that this one tells of when it is asked whom it knows: partners, drawn anew, and other active nodes by
    /// chance up to the node limit, one at least. Nobody draws a node without trust; if it were never told of, two such nodes whose
    /// endpoints are no longer where they know each other would not find each other again. Walks the table of nodes.
    pub fn told_of(&self, random: &mut impl RandomSource) -> NodeList {
        let mut told = self.draw(&self.selector, random);
        let mut others: Vec<_> = self.nodes.in_state(State::Active).map(|(address, _)| *address).collect();
        others.retain(|node| !told.contains(node));
        let room = self.settings.node_limit.saturating_sub(told.len()).max(1);
        random.choose(&mut others, room);
        told.extend(others.into_iter().take(room));
        NodeList(self.infos(told))
    }

    /// All nodes that are active.
    pub fn active(&self) -> NodeList {
        NodeList(self.in_state(State::Active))
    }

    /// All nodes but those of the operator's list that were not contacted yet.
    pub fn collection(&self) -> NodeCollection {
        NodeCollection {
            active: self.in_state(State::Active),
            busy: self.in_state(State::Busy),
            inactive: self.in_state(State::Inactive),
            failure: self.in_state(State::Failure),
        }
    }

    fn in_state(&self, state: State) -> Vec<NodeInfo> {
        self.nodes.in_state(state).map(|(_, node)| node.about.info.clone()).collect()
    }

    /// What this node has experienced with others, as it tells them: with at most 100, by chance.
    pub fn experiences(&self, random: &mut impl RandomSource) -> NodeExperiences {
        let pair = |(address, experience): (Address, Experience)| {
            let node = self.nodes.get(&address)?.about.info.clone();
            Some(ExperiencePair { node, experience: on_wire(experience) })
        };
        let experiences = self.experiences.selection(random).into_iter().filter_map(pair).collect();
        NodeExperiences { node: self.local.clone(), experiences }
    }

    /// The same for people: with all nodes that are known.
    pub fn experience_entries(&self) -> Vec<ExperienceEntry> {
        let entry = |(address, node): (&Address, &Node<About>)| ExperienceEntry {
            node: node.about.info.clone(),
            experience: on_wire(self.experiences.between(&self.address, address)),
            syncs: i32::try_from(node.synchronisations).unwrap_or(i32::MAX),
        };
        self.nodes.iter().map(entry).collect()
    }

    /// The recurring tasks; none before the node has joined its network.
    pub fn timers(&self) -> &[Timer] {
        match &self.phase {
            Phase::Running(schedule) => schedule.timers(),
            Phase::Joining(_) => &[],
        }
    }

    /// Rounds of time synchronisation, and how far the own clock is off.
    pub fn time(&self) -> &TimeSync {
        &self.time_sync
    }

    /// Calls under way, the oldest first.
    pub fn outstanding_calls(&self) -> Vec<&AuditEntry> {
        self.calls.outstanding()
    }

    /// The last calls, the newest first.
    pub fn latest_calls(&self) -> impl Iterator<Item = &AuditEntry> {
        self.calls.latest()
    }

    /// All nodes that are known, in the order of their addresses.
    pub fn known<'p>(&'p self) -> Vec<PeerView<'p>> {
        let trust: BTreeMap<_, _> = self.trust.values().iter().collect();
        let view = |(address, node): (&'_ Address, &'p Node<About>)| PeerView {
            address: *address,
            info: &node.about.info,
            ip: node.ip,
            state: node.state,
            is_pre_trusted: node.is_pre_trusted,
            height: node.about.height,
            score: node.about.score,
            last_contact: node.last_contact,
            trust: trust.get(address).copied(),
            experience: self.experiences.between(&self.address, address),
            synchronisations: node.synchronisations,
            last_trouble: node.last_trouble.as_ref(),
            asked_again: node.asked_again(),
        };
        self.nodes.iter().map(view).collect()
    }

    /// Nodes of the operator's list that have not said yet who they are.
    pub fn unpinned(&self) -> &[Unpinned] {
        &self.unpinned
    }

    /// Nodes that were dropped last, and why, the oldest first.
    pub fn dropped(&self) -> impl Iterator<Item = &Dropped<About>> {
        self.nodes.dropped()
    }

    /// What another node has pushed was judged. It counts only for nodes that are known and not shunned, and only if it comes
    /// from where the node is known: what a node pushes is signed, but anyone can pass it on later, and the node would be
    /// trusted or blamed for it; nor is a node there where it is known because it has pushed something from elsewhere. What is
    /// of use counts for a node of the operator's list wherever it comes from: that one is nowhere else.
    pub fn pushed(&mut self, by: &Pusher, result: PushResult, now: Now) {
        let node = Address::from_public_key(&by.key, self.settings.context.network);
        // All addresses of the loopback are this machine; which of them a connection comes from says nothing.
        let host = |ip: IpAddr| (!ip.to_canonical().is_loopback()).then(|| nodes::host(ip));
        let may_be_elsewhere = |known: &Node<About>| known.is_pre_trusted && result == PushResult::Useful;
        let is_there = |known: &Node<About>| may_be_elsewhere(known) || known.ip.map(host) == Some(host(by.from));
        if !self.nodes.get(&node).is_some_and(is_there) {
            return;
        }
        if result == PushResult::Useful {
            self.is_alive(&node, now);
        }
        let counts = |known: &Node<About>| matches!(known.state, State::Active | State::Busy);
        if !self.nodes.get(&node).is_some_and(counts) {
            return;
        }
        match result {
            PushResult::Useful => self.experiences.succeeded(node, now.time),
            PushResult::Harmful => self.experiences.failed(node, now.time),
            PushResult::Neutral => {}
        }
    }

    /// A node has given an answer that was accepted, at an endpoint. One that has never said who it is is asked that.
    pub(super) fn has_given(&mut self, node: &Address, endpoint: &Endpoint, now: Now, outside: &mut impl Outside) {
        let Some(known) = self.nodes.get(node).filter(|_| self.is_there(node, endpoint)) else { return };
        match known.last_contact {
            Some(_) => self.is_alive(node, now),
            None => self.look_at_known(*node, endpoint.clone(), now, outside),
        }
    }

    /// Who was asked, if it has to prove who it is.
    pub(super) fn giver(&self, ended: &Ended) -> Option<Address> {
        let key = ended.proof.as_ref()?.key?;
        Some(Address::from_public_key(&key, self.settings.context.network))
    }

    /// Something of a node was just accepted. It is signed, so that its owner lives, and the node is active where it is known.
    /// Where it is nothing of this proves.
    fn is_alive(&mut self, node: &Address, now: Now) {
        if self.nodes.is_alive(node, now.running) {
            log::info!("{node} is active again: it has sent something of use");
            self.renew_selector();
        }
    }
}

fn on_wire(experience: Experience) -> wire::Experience {
    wire::Experience { successes: experience.successes(), failures: experience.failures() }
}
