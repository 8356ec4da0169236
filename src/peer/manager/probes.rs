//! Probes: a peer is asked for its identity and, unless gossip caused the probe, for its peers.
//!
//! A known peer is probed at its known endpoint, whatever it or others report. Only if it has been unreachable there
//! for a while, and still is, is it probed at a reported endpoint, where it counts as unknown.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::requests::{Answer, RequestKind};
use super::{Manager, select};
use crate::crypto::PublicKey;
use crate::ip::scope;
use crate::model::{Address, Height};
use crate::net::fetch::FetchResponse;
use crate::peer::io::RandomSource;
use crate::peer::peer_entry::{LastFailure, PeerEntry, PeerError, State, describe};
use crate::peer::peer_table::AddError;
use crate::peer::schedule::Task;
use crate::peer::trust::Selector;
use crate::peer::wire::{Endpoint, NodeInfo, NodeList, Query};

/// Maximum number of concurrent pings.
pub const MAX_PINGS: usize = 64;
/// Time for the answer to a ping. Peers that fall silent hold the places of others for as long.
pub const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of concurrent probes.
pub const MAX_CONCURRENT_PROBES: usize = 24;
/// Maximum number of probes per gossip list.
pub const MAX_PROBES_PER_LIST: usize = 16;
/// Maximum number of entries of one gossip list that are considered, chosen at random. NIS1 seldom sends over 12.
pub const MAX_LIST_ENTRIES: usize = 128;
/// Maximum number of gossip probes per refresh.
pub const MAX_GOSSIP_PROBES: usize = 100;
/// Maximum number of additional probes per refresh of peers that failed or were long not probed.
pub const MAX_RECHECKS: usize = 8;
/// Maximum number of peers without a key that are probed per refresh.
pub const MAX_UNIDENTIFIED: usize = 100;

/// Reason of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeReason {
    /// Selected in a refresh; the result sets the peer's state.
    Selected,
    /// Reported by gossip in a refresh; only success has an effect.
    Gossip,
    /// A sign of life named an inactive peer, or one at another endpoint; the result sets the peer's state.
    SignOfLife,
    /// The peer does not answer at its known endpoint, and is reported to be at this one.
    Move,
}

/// Running probe.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Probed endpoint.
    pub endpoint: Endpoint,
    /// Expected key; `None` if the peer has not introduced itself.
    pub key: Option<PublicKey>,
    /// Reason.
    pub reason: ProbeReason,
    /// Other reported endpoints.
    pub(super) other_endpoints: Vec<Endpoint>,
    /// Address of the sign of life that caused the probe and for which it holds a place.
    pub(super) caused_by: Option<IpAddr>,
    /// Description that the peer reported in the first part of the probe.
    pub(super) reported: Option<NodeInfo>,
}

impl Probe {
    /// Creates a probe of an endpoint; `key` is `None` for a listed peer without a known key.
    pub fn new(endpoint: &Endpoint, key: Option<PublicKey>, reason: ProbeReason) -> Probe {
        let endpoint = endpoint.clone();
        Probe { endpoint, key, reason, other_endpoints: Vec::new(), caused_by: None, reported: None }
    }

    /// Creates a probe of a peer with a known key.
    pub fn of(node: &NodeInfo, reason: ProbeReason) -> Probe {
        Probe::new(&node.endpoint, Some(node.identity.key), reason)
    }

    /// Creates a probe of a known peer that is reported at another endpoint.
    pub fn with_other_endpoint(node: &NodeInfo, reason: ProbeReason, elsewhere: Endpoint) -> Probe {
        let elsewhere = Some(elsewhere).filter(|elsewhere| *elsewhere != node.endpoint).into_iter().collect();
        Probe { other_endpoints: elsewhere, ..Probe::of(node, reason) }
    }

    /// Takes over the reported endpoints of another probe, if that is for the same peer and endpoint.
    pub fn merge(&mut self, other: &Probe) -> bool {
        let is_same = self.key.is_some() && (self.key, &self.endpoint) == (other.key, &other.endpoint);
        if is_same {
            self.other_endpoints.extend(other.other_endpoints.iter().cloned());
        }
        is_same
    }

    /// Returns whether the probe belongs to a refresh: one that no sign of life caused.
    pub fn is_of_refresh(&self) -> bool {
        match self.reason {
            ProbeReason::Selected | ProbeReason::Gossip => true,
            ProbeReason::Move => self.caused_by.is_none(),
            ProbeReason::SignOfLife => false,
        }
    }

    /// Returns whether it probes a peer at its endpoint.
    pub fn is_of(&self, node: &NodeInfo) -> bool {
        self.key == Some(node.identity.key) && self.endpoint == node.endpoint
    }
}

/// Running refresh.
#[derive(Debug, Default)]
pub struct Refresh {
    selected: BTreeSet<Address>,
    /// Probed gossip: peer and endpoint; the known endpoint unless the peer may have moved, otherwise the reported one.
    /// Several reports may place a peer at different endpoints, and some may be false.
    pub(super) gossiped: BTreeSet<(Address, String, i32)>,
    pub(super) queue: VecDeque<Probe>,
}

/// Listed peer without a known key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnidentifiedPeer {
    /// Configured endpoint.
    pub endpoint: Endpoint,
    /// Last failure.
    pub last_failure: Option<LastFailure>,
}

impl Manager {
    /// Returns the number of unfinished probes for which `counts` is true.
    pub(super) fn count_probes(&self, counts: impl Fn(&Probe) -> bool) -> usize {
        self.requests.probes().filter(|probe| counts(probe)).count()
    }

    /// Starts a probe or its second part. Returns whether there was space.
    pub(super) fn start_probe(&mut self, probe: Probe) -> bool {
        let query = if probe.reported.is_some() { Query::ActivePeers } else { Query::NodeInfo };
        let (endpoint, key) = (probe.endpoint.clone(), probe.key);
        let by = probe.caused_by;
        let id = self.queue(&endpoint, key, &query, RequestKind::Probe(Box::new(probe)));
        id.is_some_and(|id| by.is_none_or(|by| self.hold_place(id, by)))
    }

    /// Processes the result of a probe request.
    pub(super) fn on_probe_reply(&mut self, probe: Probe, answer: &Answer) {
        match probe.reported {
            None => self.on_identity(probe, answer),
            Some(_) => self.on_peer_list(probe, answer),
        }
        self.continue_refresh();
    }

    fn on_identity(&mut self, probe: Probe, answer: &Answer) {
        let is_rejection = answer.reply.as_ref().is_ok_and(|response| response.response.status != 200);
        let (reported, ip) = match self.read_identity(answer) {
            Ok((reported, ip)) => (NodeInfo { endpoint: probe.endpoint.clone(), ..reported }, ip),
            Err(error) => {
                self.on_probe_failed(&probe, error);
                if !is_rejection {
                    self.probe_other_endpoints(probe);
                }
                return;
            }
        };
        match probe.reason {
            // Gossiped peers are not asked for their peers.
            ProbeReason::Gossip => self.record_answer(reported, ip),
            ProbeReason::Move => self.record_move(reported, ip),
            ProbeReason::Selected | ProbeReason::SignOfLife => {
                if probe.key.is_none() && !self.pin(&reported) {
                    return;
                }
                // A peer that has answered keeps no other out.
                let key = Some(reported.identity.key);
                let second = Probe { key, reported: Some(reported), caused_by: None, ..probe };
                if !self.start_probe(second.clone()) {
                    self.on_probe_failed(&second, PeerError::failure("too many requests to it are pending"));
                }
            }
        }
    }

    /// Handles a peer that did not answer at its known endpoint: probes the other reported ones. A peer that answers
    /// there with an HTTP error, for example while starting, is present.
    fn probe_other_endpoints(&mut self, probe: Probe) {
        let Some(key) = probe.key else { return };
        let address = Address::from_public_key(&key, self.settings.context.network);
        if probe.reason == ProbeReason::Move || !self.has_endpoint(&address, &probe.endpoint) {
            return;
        }
        self.table.record_unreachable(&address, self.now.monotonic);
        if self.table.may_move(&address, self.now.monotonic) {
            for endpoint in probe.other_endpoints.clone() {
                let moving =
                    Probe { endpoint, reason: ProbeReason::Move, other_endpoints: Vec::new(), ..probe.clone() };
                match &mut self.refresh {
                    // First in the queue, so that the limit of concurrent probes covers it.
                    Some(refresh) if moving.is_of_refresh() => refresh.queue.push_front(moving),
                    _ => drop(self.start_probe(moving)),
                }
            }
        }
    }

    fn on_peer_list(&mut self, probe: Probe, answer: &Answer) {
        match self.read_answer::<NodeList>(answer) {
            Err(error) => self.on_probe_failed(&probe, error),
            Ok((NodeList(others), ip)) => {
                if probe.reason == ProbeReason::Selected {
                    self.on_gossip(others);
                }
                if let Some(reported) = probe.reported {
                    self.record_answer(reported, ip);
                }
            }
        }
    }

    /// Reads an identity and the address that it came from. Checks key and compatibility; its endpoint is not proven.
    pub(super) fn read_identity(&self, answer: &Answer) -> Result<(NodeInfo, IpAddr), PeerError> {
        let (FetchResponse { from, response }, context) = self.response(answer)?;
        let reported = match context.key {
            None => context.read_introduction(&response.body)?,
            Some(_) => context.read::<NodeInfo>(&response.body)?,
        };
        if context.key.is_some_and(|key| key != reported.identity.key) {
            return Err(PeerError::failure("it identifies as another node"));
        }
        if !self.local.meta_data.is_compatible(&reported.meta_data) {
            return Err(PeerError::failure("it is of another network, or its version is incompatible"));
        }
        Ok((reported, *from))
    }

    /// Records that a compatible peer answered at the endpoint in `reported`.
    pub(super) fn record_answer(&mut self, reported: NodeInfo, ip: IpAddr) {
        let address = self.address_of(&reported);
        let former = self.table.get(&address);
        let was_active = former.is_some_and(|former| former.state == State::Active);
        if former.is_some_and(|former| former.info.endpoint != reported.endpoint) {
            return log::debug!("{} is known at another endpoint", describe(&reported, &address));
        }
        let (line, is_new) = (describe(&reported, &address), former.is_none());
        // A peer in the table that has never answered is listed or was saved before the restart.
        if former.is_some_and(|former| former.last_contact.is_none()) {
            self.harvesting_blocked_until = Duration::ZERO;
        }
        match self.table.record_introduction(address, ip, reported, self.now.monotonic) {
            Err(rejected) => return log::debug!("{line} at {ip} is not added: {rejected:?}"),
            Ok(()) if !was_active => log::info!("{line} is active"),
            Ok(()) => {}
        }
        if is_new {
            // Experiences from before it was dropped may be from another endpoint.
            self.forget_experiences(&address);
        }
    }

    /// Records that an unreachable peer answered at another endpoint, the one in `reported`, where it starts without trust.
    fn record_move(&mut self, reported: NodeInfo, ip: IpAddr) {
        let address = self.address_of(&reported);
        if !self.table.may_move(&address, self.now.monotonic) {
            return;
        }
        let line = describe(&reported, &address);
        match self.table.record_move(address, ip, reported, self.now.monotonic) {
            Err(rejected) => log::debug!("{line} cannot move to {ip}: {rejected:?}"),
            Ok(()) => {
                self.forget_experiences(&address);
                log::info!("{line} has moved and is active");
            }
        }
    }

    /// Removes the experiences and trust of a peer, as they may belong to another node that used its name elsewhere.
    pub(super) fn forget_experiences(&mut self, node: &Address) {
        self.experiences.forget(node);
        if self.trust.forget(node) {
            self.renew_selector();
        }
    }

    fn on_probe_failed(&mut self, probe: &Probe, error: PeerError) {
        log::debug!("probe of {} failed: {error}", probe.endpoint);
        let Some(key) = probe.key else { return self.on_unidentified_failed(&probe.endpoint, error) };
        let address = Address::from_public_key(&key, self.settings.context.network);
        let decides = matches!(probe.reason, ProbeReason::Selected | ProbeReason::SignOfLife);
        if !decides || !self.has_endpoint(&address, &probe.endpoint) {
            return;
        }
        self.record_failure(&address, error);
    }

    /// Pings active peers that have been silent for a while.
    pub(super) fn ping_silent_peers(&mut self) {
        let free = MAX_PINGS.saturating_sub(self.requests.pings());
        let due = self.table.due_for_ping(self.now.monotonic, free);
        for (node, info) in due.into_iter().filter_map(|node| Some((node, self.info(&node)?))).collect::<Vec<_>>() {
            self.queue_query(&info, &Query::Height, RequestKind::Ping(node));
        }
    }

    /// Processes the answer to a ping, or its failure, which sets the peer's state.
    pub(super) fn on_ping_reply(&mut self, node: Address, answer: &Answer) {
        match self.read_answer::<Height>(answer) {
            Ok(_) => self.record_valid_answer(&node, &answer.endpoint),
            Err(error) if self.has_endpoint(&node, &answer.endpoint) => self.record_failure(&node, error),
            Err(_) => {}
        }
    }

    /// Records that a peer has failed at its known endpoint.
    fn record_failure(&mut self, node: &Address, error: PeerError) {
        if let Some(known) = self.table.get(node).filter(|known| known.state == State::Active) {
            log::info!("{node} at {} is no longer active: {error}", known.info.endpoint);
        }
        self.table.record_failure(node, error, self.now.monotonic);
    }

    /// Starts a refresh.
    pub(super) fn begin_refresh(&mut self) {
        let selector = Selector::among_all(&self.trust.values, &self.table);
        let mut drawn = select(&selector, self.settings.node_limit, &mut self.random);
        for node in self.table.due_for_recheck(self.now.monotonic, MAX_RECHECKS) {
            if !drawn.contains(&node) {
                drawn.push(node);
            }
        }
        drawn.retain(|node| self.table.may_be_contacted(node, self.now.monotonic));
        let infos = drawn.iter().filter_map(|node| self.table.get(node)).map(|node| &node.info);
        let mut queue: VecDeque<_> = infos.map(|info| Probe::of(info, ProbeReason::Selected)).collect();
        let unidentified = self.unidentified.iter().take(MAX_UNIDENTIFIED);
        queue.extend(unidentified.map(|unidentified| Probe::new(&unidentified.endpoint, None, ProbeReason::Selected)));
        for (address, probe) in self.reconnect_probes(&drawn) {
            drawn.push(address);
            queue.push_back(probe);
        }
        self.refresh = Some(Refresh { selected: drawn.into_iter().collect(), queue, ..Refresh::default() });
        self.continue_refresh();
    }

    /// Starts waiting probes, and ends the refresh when none is left.
    pub(super) fn continue_refresh(&mut self) {
        let mut under_way = self.count_probes(Probe::is_of_refresh);
        while under_way < MAX_CONCURRENT_PROBES
            && let Some(refresh) = &mut self.refresh
            && let Some(probe) = refresh.queue.pop_front()
        {
            under_way += usize::from(self.start_probe(probe));
        }
        if under_way == 0 && self.refresh.take().is_some() {
            self.renew_selector();
            self.end_task(Task::Refresh, true);
        }
    }

    /// Returns whether an endpoint may be called, as far as its form shows. The address of a name is tested when it is
    /// connected to ([`FetchRequest::least_scope`](crate::net::fetch::FetchRequest::least_scope)).
    fn may_be_called(&self, endpoint: &Endpoint) -> bool {
        let least = self.least_scope(endpoint);
        endpoint.to_connect().is_some() && endpoint.address().is_none_or(|address| scope(address) >= least)
    }

    /// Processes a gossip list.
    pub(super) fn on_gossip(&mut self, mut others: Vec<NodeInfo>) {
        self.random.choose(&mut others, MAX_LIST_ENTRIES);
        others.sort_by_cached_key(|node| self.table.is_active(&self.address_of(node)));
        let mut contacted = 0;
        for node in others {
            let address = self.address_of(&node);
            let may_move = self.table.may_move(&address, self.now.monotonic) && !self.is_known_at(&node);
            let is_of_use = may_move || self.table.may_be_contacted(&address, self.now.monotonic);
            let may_be_met = is_of_use && self.may_be_called(&node.endpoint);
            let contact = match self.table.get(&address) {
                Some(_) if self.table.may_move_at_once(&address, self.now.monotonic) => {
                    Probe::of(&node, ProbeReason::Move)
                }
                Some(known) => Probe::with_other_endpoint(&known.info, ProbeReason::Gossip, node.endpoint.clone()),
                None => Probe::of(&node, ProbeReason::Gossip),
            };
            let Some(refresh) = &mut self.refresh else { return };
            if contacted == MAX_PROBES_PER_LIST || refresh.gossiped.len() == MAX_GOSSIP_PROBES {
                return;
            }
            let place = if may_move { &node.endpoint } else { &contact.endpoint };
            let place = (address, place.host.clone(), place.port);
            let may_be_met = may_be_met && !refresh.selected.contains(&address);
            if may_be_met && refresh.gossiped.insert(place) {
                contacted += 1;
                // A waiting or running probe of the known endpoint only takes over the reported one.
                let mut unanswered = self.requests.probes_mut().filter(|probe| probe.reported.is_none());
                let is_added = refresh.queue.iter_mut().any(|queued| queued.merge(&contact))
                    || unanswered.any(|probe| probe.merge(&contact));
                if !is_added {
                    refresh.queue.push_back(contact);
                }
            }
        }
    }

    /// Pins the key of a listed peer that introduced itself at the endpoint in `reported`. Returns `false` if the peer
    /// is this node, is listed at another endpoint, or finds no space.
    pub(super) fn pin(&mut self, reported: &NodeInfo) -> bool {
        let (address, endpoint) = (self.address_of(reported), &reported.endpoint);
        let is_elsewhere = |node: &PeerEntry| node.is_listed && node.info.endpoint != *endpoint;
        if let Some(listed) = self.table.get(&address).filter(|node| is_elsewhere(node)) {
            let reason = format!("it identifies as {address}, which is listed at {}", listed.info.endpoint);
            self.on_unidentified_failed(endpoint, PeerError::failure(reason));
            return false;
        }
        match self.add_listed_peer(reported.clone()) {
            Ok(()) => {
                log::info!("the node at {endpoint} is {}", describe(reported, &address));
                self.unidentified.retain(|unidentified| unidentified.endpoint != *endpoint);
                address != self.table.local
            }
            Err(rejected) => {
                self.on_unidentified_failed(endpoint, PeerError::failure(format!("it is not added: {rejected:?}")));
                false
            }
        }
    }

    /// Adds a listed peer at its configured endpoint, wherever else it was known or listed before.
    pub(super) fn add_listed_peer(&mut self, info: NodeInfo) -> Result<(), AddError> {
        let address = self.address_of(&info);
        if self.table.get(&address).is_some_and(|node| node.info.endpoint != info.endpoint) {
            self.table.remove(&address);
            self.forget_experiences(&address);
        }
        self.table.add_listed(address, info, self.now.monotonic)
    }

    pub(super) fn on_unidentified_failed(&mut self, endpoint: &Endpoint, error: PeerError) {
        if let Some(unidentified) = self.unidentified.iter_mut().find(|unidentified| unidentified.endpoint == *endpoint)
        {
            unidentified.last_failure = Some(LastFailure { at: self.now.monotonic, error });
        }
    }
}

#[cfg(test)]
mod tests;
