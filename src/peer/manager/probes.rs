//! Probes: a peer is asked for its identity and, unless gossip caused the probe, for its peers.
//!
//! A known peer is probed at its known endpoint, whatever it or others report. Only if it has been unreachable there
//! for a while, and still is, is it probed at a reported endpoint, where it counts as unknown.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::request_queue::{Completed, Proof, Request, RequestKind};
use super::{Manager, PeerInfo, describe};
use crate::crypto::PublicKey;
use crate::model::Address;
use crate::peer::error::PeerError;
use crate::peer::io::{Now, PeerIo, Reply};
use crate::peer::peer_table::State;
use crate::peer::wire::{Endpoint, NodeInfo, NodeList, Query, read_introduction};

/// Id of a probe. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeId(u64);

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
    other_endpoints: Vec<Endpoint>,
    /// Network of the sign of life that caused the probe.
    caused_by: Option<IpAddr>,
    /// Description that the peer reported in the first part of the probe.
    reported: Option<NodeInfo>,
}

impl Probe {
    /// Creates a probe of a peer with a known key.
    pub fn new(node: &NodeInfo, way: ProbeReason) -> Probe {
        let (endpoint, key) = (node.endpoint.clone(), Some(node.identity.key));
        Probe { endpoint, key, reason: way, other_endpoints: Vec::new(), caused_by: None, reported: None }
    }

    /// Creates a probe of a known peer that is reported at another endpoint.
    pub fn with_other_endpoint(node: &NodeInfo, way: ProbeReason, elsewhere: Endpoint) -> Probe {
        let elsewhere = Some(elsewhere).filter(|elsewhere| *elsewhere != node.endpoint).into_iter().collect();
        Probe { other_endpoints: elsewhere, ..Probe::new(node, way) }
    }

    /// Attributes the probe to a sign of life from a network.
    pub fn caused_by_network(self, network: Option<IpAddr>) -> Probe {
        Probe { caused_by: network, ..self }
    }

    /// Takes over the reported endpoints of another probe, if that is for the same peer and endpoint.
    pub fn merge(&mut self, other: &Probe) -> bool {
        let is_same = self.key.is_some() && (self.key, &self.endpoint) == (other.key, &other.endpoint);
        if is_same {
            self.other_endpoints.extend(other.other_endpoints.iter().cloned());
        }
        is_same
    }

    /// Creates a probe of a pre-trusted peer without a known key.
    pub fn without_key(endpoint: Endpoint) -> Probe {
        Probe {
            endpoint,
            key: None,
            reason: ProbeReason::Selected,
            other_endpoints: Vec::new(),
            caused_by: None,
            reported: None,
        }
    }
}

/// Unfinished probes.
#[derive(Debug, Default)]
pub struct Probes {
    started: u64,
    running: BTreeMap<ProbeId, Probe>,
}

impl Probes {
    /// Returns the number of probes with a reason.
    pub fn count(&self, way: ProbeReason) -> usize {
        self.running.values().filter(|probe| probe.reason == way).count()
    }

    /// Returns the number of probes caused by signs of life from a network.
    pub fn count_by(&self, network: Option<IpAddr>) -> usize {
        self.running.values().filter(|probe| probe.caused_by.is_some() && probe.caused_by == network).count()
    }

    /// Returns whether a peer is being probed at its endpoint.
    pub fn has(&self, node: &NodeInfo) -> bool {
        let key = Some(node.identity.key);
        self.running.values().any(|probe| probe.key == key && probe.endpoint == node.endpoint)
    }

    /// Merges the reported endpoints of another probe into an unanswered one of the same peer and endpoint.
    pub fn merge(&mut self, other: &Probe) -> bool {
        self.running.values_mut().filter(|probe| probe.reported.is_none()).any(|probe| probe.merge(other))
    }
}

impl Manager {
    /// Starts a probe or its second part. Returns whether there was room.
    pub(super) fn start_probe(&mut self, probe: Probe, io: &mut impl PeerIo) -> bool {
        let query = if probe.reported.is_some() { Query::ActivePeers } else { Query::NodeInfo };
        let challenge = super::new_challenge(io);
        let outgoing = query.request(&challenge, self.settings.format, &self.settings.chain);
        self.probes.started += 1;
        let id = ProbeId(self.probes.started);
        let proof = Some(Proof { challenge, key: probe.key });
        let request = Request { endpoint: probe.endpoint.clone(), outgoing, kind: RequestKind::Probe(id), proof };
        let is_taken = self.requests.enqueue(request);
        if is_taken {
            self.probes.running.insert(id, probe);
        }
        is_taken
    }

    /// Processes the result of a probe request.
    pub(super) fn on_probe_reply(
        &mut self,
        id: ProbeId,
        completed: Completed,
        response: Reply,
        now: Now,
        io: &mut impl PeerIo,
    ) {
        let Some(probe) = self.probes.running.remove(&id) else { return };
        let goes_on = match probe.reported {
            None => self.on_identity(probe, completed, response, now, io),
            Some(_) => {
                self.on_peer_list(probe, completed, response, now, io);
                false
            }
        };
        if !goes_on {
            self.continue_refresh(now, io);
        }
    }

    /// Processes a peer's identity. Returns whether the probe continues.
    fn on_identity(
        &mut self,
        probe: Probe,
        completed: Completed,
        response: Reply,
        now: Now,
        io: &mut impl PeerIo,
    ) -> bool {
        let is_refusal = matches!(response, Reply::ErrorStatus { .. });
        let (told, ip) = match self.read_identity(completed, response) {
            Ok((told, ip)) => (NodeInfo { endpoint: probe.endpoint.clone(), ..told }, ip),
            Err(error) => {
                self.on_probe_failed(&probe, error, now);
                if !is_refusal {
                    self.probe_other_endpoints(probe, now, io);
                }
                return false;
            }
        };
        match probe.reason {
            // Gossiped peers are not asked for their peers.
            ProbeReason::Gossip => self.record_answer(told, ip, now),
            ProbeReason::Move => self.record_move(told, ip, now),
            ProbeReason::Selected | ProbeReason::SignOfLife => {
                if probe.key.is_none() && !self.pin(&told, now) {
                    return false;
                }
                let second = Probe { key: Some(told.identity.key), reported: Some(told), ..probe };
                let goes_on = self.start_probe(second.clone(), io);
                if !goes_on {
                    self.on_probe_failed(&second, PeerError::failure("too many requests to it are pending"), now);
                }
                return goes_on;
            }
        }
        false
    }

    /// Handles a peer that did not answer at its known endpoint: probes the other reported ones. A peer that answers
    /// there with an HTTP error, for example while starting, is present.
    fn probe_other_endpoints(&mut self, probe: Probe, now: Now, io: &mut impl PeerIo) {
        let Some(key) = probe.key else { return };
        let address = Address::from_public_key(&key, self.settings.context.network);
        if probe.reason == ProbeReason::Move || !self.has_endpoint(&address, &probe.endpoint) {
            return;
        }
        self.table.record_unreachable(&address, now.monotonic);
        if self.table.may_move(&address, now.monotonic) {
            for endpoint in probe.other_endpoints.clone() {
                let moving =
                    Probe { endpoint, reason: ProbeReason::Move, other_endpoints: Vec::new(), ..probe.clone() };
                self.start_probe(moving, io);
            }
        }
    }

    /// Returns whether a peer is known at an endpoint.
    pub(super) fn has_endpoint(&self, node: &Address, endpoint: &Endpoint) -> bool {
        self.table.get(node).is_some_and(|known| known.data.info.endpoint == *endpoint)
    }

    fn on_peer_list(&mut self, probe: Probe, completed: Completed, response: Reply, now: Now, io: &mut impl PeerIo) {
        match self.read_answer::<NodeList>(completed.proof, response) {
            Err(error) => self.on_probe_failed(&probe, error, now),
            Ok((NodeList(others), ip)) => {
                if probe.reason == ProbeReason::Selected {
                    self.on_gossip(others, ip, now, io);
                }
                if let Some(reported) = probe.reported {
                    self.record_answer(reported, ip, now);
                }
            }
        }
    }

    /// Reads an identity and the address that it came from. Checks key and compatibility; its endpoint is not proven.
    pub(super) fn read_identity(&self, completed: Completed, response: Reply) -> Result<(NodeInfo, IpAddr), PeerError> {
        let (reported, ip) = match (completed.proof, response) {
            (Some(Proof { challenge, key: None }), Reply::Answer { body, from }) => {
                (read_introduction(self.settings.format, &body, self.settings.context, &challenge)?, from)
            }
            (Some(Proof { challenge, key: Some(key) }), response) => {
                let proof = Some(Proof { challenge, key: Some(key) });
                let (reported, from) = self.read_answer::<NodeInfo>(proof, response)?;
                if reported.identity.key != key {
                    return Err(PeerError::failure("it identifies as another node"));
                }
                (reported, from)
            }
            (_, response) => return Err(PeerError::from_reply(response, self.settings.format, self.settings.context)),
        };
        match self.local.meta_data.is_compatible(&reported.meta_data) {
            true => Ok((reported, ip)),
            false => Err(PeerError::failure("it is of another network, or its version is incompatible")),
        }
    }

    /// Records that a compatible peer answered at the endpoint in `told`.
    pub(super) fn record_answer(&mut self, reported: NodeInfo, ip: IpAddr, now: Now) {
        let address = self.address_of(&reported);
        let former = self.table.get(&address);
        let was_active = former.is_some_and(|former| former.state == State::Active);
        if former.is_some_and(|former| former.data.info.endpoint != reported.endpoint) {
            return log::debug!("{} is known at another endpoint", describe(&reported, &address));
        }
        // A peer in the table that has never answered is pre-trusted or was saved before the restart.
        let is_return = former.is_some_and(|former| former.last_contact.is_none());
        self.reconnect.has_answer |= is_return;
        let former = self.table.get(&address);
        let known = former.map(|former| (former.data.height, former.data.score));
        let (height, score) = known.unwrap_or_default();
        let line = describe(&reported, &address);
        let last_dropped = self.table.dropped().last().map(|dropped| (dropped.address, dropped.at));
        match self.table.record_introduction(address, ip, PeerInfo { info: reported, height, score }, now.monotonic) {
            Err(refused) => return log::debug!("{line} at {ip} is not added: {refused:?}"),
            Ok(()) if !was_active => log::info!("{line} is active"),
            Ok(()) => {}
        }
        if known.is_none() {
            // Experiences from before it was dropped may be from another endpoint.
            self.forget_experiences(&address);
        }
        if let Some(dropped) = self.table.dropped().last()
            && last_dropped != Some((dropped.address, dropped.at))
        {
            log::info!("{} is dropped: another peer replaces it", describe(&dropped.node.data.info, &dropped.address));
        }
    }

    /// Records that an unreachable peer answered at another endpoint, the one in `told`, where it starts without trust.
    fn record_move(&mut self, reported: NodeInfo, ip: IpAddr, now: Now) {
        let address = self.address_of(&reported);
        if !self.table.may_move(&address, now.monotonic) {
            return;
        }
        let line = describe(&reported, &address);
        let about = PeerInfo { info: reported, height: None, score: None };
        match self.table.record_move(address, ip, about, now.monotonic) {
            Err(refused) => log::debug!("{line} cannot move to {ip}: {refused:?}"),
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

    fn on_probe_failed(&mut self, probe: &Probe, error: PeerError, now: Now) {
        log::debug!("probe of {} failed: {error}", probe.endpoint);
        let Some(key) = probe.key else { return self.on_unpinned_failed(&probe.endpoint, error, now) };
        let address = Address::from_public_key(&key, self.settings.context.network);
        let decides = matches!(probe.reason, ProbeReason::Selected | ProbeReason::SignOfLife);
        if !decides || !self.has_endpoint(&address, &probe.endpoint) {
            return;
        }
        if self.table.is_active(&address) {
            log::info!("{} at {} is no longer active: {error}", address, probe.endpoint);
        }
        self.table.record_failure(&address, error, now.monotonic);
    }
}
