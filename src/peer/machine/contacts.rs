//! Probes: a peer is asked for its identity and, unless gossip caused the probe, for its peers.
//!
//! A known peer is probed at its known endpoint, whatever it or others report. Only if it has been unreachable there
//! for a while, and still is, is it probed at a reported endpoint, where it counts as unknown.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::calls::{Ended, Proof, Purpose, Request};
use super::mishap::Mishap;
use super::{About, Peers, describe};
use crate::crypto::PublicKey;
use crate::model::Address;
use crate::peer::nodes::State;
use crate::peer::outside::{Now, Outside, Reply};
use crate::peer::wire::{Endpoint, NodeInfo, NodeList, Query, read_introduction};

/// Id of a probe. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContactId(u64);

/// Reason of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Selected in a refresh; the result sets the peer's state.
    Drawn,
    /// Reported by gossip in a refresh; only success has an effect.
    Hearsay,
    /// A sign of life named an inactive peer, or one at another endpoint; the result sets the peer's state.
    Revival,
    /// The peer does not answer at its known endpoint, and is reported to be at this one.
    Move,
}

/// Running probe.
#[derive(Clone, Debug)]
pub struct Contact {
    /// Probed endpoint.
    pub endpoint: Endpoint,
    /// Expected key; `None` if the peer has not introduced itself.
    pub key: Option<PublicKey>,
    /// Reason.
    pub way: Way,
    /// Other reported endpoints.
    elsewhere: Vec<Endpoint>,
    /// Network of the sign of life that caused the probe.
    by: Option<IpAddr>,
    /// Description that the peer reported in the first part of the probe.
    told: Option<NodeInfo>,
}

impl Contact {
    /// Creates a probe of a peer with a known key.
    pub fn with(node: &NodeInfo, way: Way) -> Contact {
        let (endpoint, key) = (node.endpoint.clone(), Some(node.identity.key));
        Contact { endpoint, key, way, elsewhere: Vec::new(), by: None, told: None }
    }

    /// Creates a probe of a known peer that is reported at another endpoint.
    pub fn with_moving(node: &NodeInfo, way: Way, elsewhere: Endpoint) -> Contact {
        let elsewhere = Some(elsewhere).filter(|elsewhere| *elsewhere != node.endpoint).into_iter().collect();
        Contact { elsewhere, ..Contact::with(node, way) }
    }

    /// Attributes the probe to a sign of life from a network.
    pub fn because_of(self, network: Option<IpAddr>) -> Contact {
        Contact { by: network, ..self }
    }

    /// Takes over the reported endpoints of another probe, if that is for the same peer and endpoint.
    pub fn take_over(&mut self, other: &Contact) -> bool {
        let is_same = self.key.is_some() && (self.key, &self.endpoint) == (other.key, &other.endpoint);
        if is_same {
            self.elsewhere.extend(other.elsewhere.iter().cloned());
        }
        is_same
    }

    /// Creates a probe of a pre-trusted peer without a known key.
    pub fn with_unknown(endpoint: Endpoint) -> Contact {
        Contact { endpoint, key: None, way: Way::Drawn, elsewhere: Vec::new(), by: None, told: None }
    }
}

/// Unfinished probes.
#[derive(Debug, Default)]
pub struct Contacts {
    begun: u64,
    open: BTreeMap<ContactId, Contact>,
}

impl Contacts {
    /// Returns the number of probes with a reason.
    pub fn count(&self, way: Way) -> usize {
        self.open.values().filter(|contact| contact.way == way).count()
    }

    /// Returns the number of probes caused by signs of life from a network.
    pub fn count_by(&self, network: Option<IpAddr>) -> usize {
        self.open.values().filter(|contact| contact.by.is_some() && contact.by == network).count()
    }

    /// Returns whether a peer is being probed at its endpoint.
    pub fn has(&self, node: &NodeInfo) -> bool {
        let key = Some(node.identity.key);
        self.open.values().any(|contact| contact.key == key && contact.endpoint == node.endpoint)
    }

    /// Merges the reported endpoints of another probe into an unanswered one of the same peer and endpoint.
    pub fn take_over(&mut self, other: &Contact) -> bool {
        self.open.values_mut().filter(|contact| contact.told.is_none()).any(|contact| contact.take_over(other))
    }
}

impl Peers {
    /// Starts a probe or its second part. Returns whether there was room.
    pub(super) fn contact(&mut self, contact: Contact, outside: &mut impl Outside) -> bool {
        let query = if contact.told.is_some() { Query::ActivePeers } else { Query::NodeInfo };
        let challenge = super::new_challenge(outside);
        let outgoing = query.request(&challenge, self.settings.format, &self.settings.chain);
        self.contacts.begun += 1;
        let id = ContactId(self.contacts.begun);
        let proof = Some(Proof { challenge, key: contact.key });
        let request = Request { endpoint: contact.endpoint.clone(), outgoing, purpose: Purpose::Contact(id), proof };
        let is_taken = self.calls.take(request);
        if is_taken {
            self.contacts.open.insert(id, contact);
        }
        is_taken
    }

    /// Processes the result of a probe request.
    pub(super) fn contact_ended(
        &mut self,
        id: ContactId,
        ended: Ended,
        reply: Reply,
        now: Now,
        outside: &mut impl Outside,
    ) {
        let Some(contact) = self.contacts.open.remove(&id) else { return };
        let goes_on = match contact.told {
            None => self.has_introduced_itself(contact, ended, reply, now, outside),
            Some(_) => {
                self.has_listed_others(contact, ended, reply, now, outside);
                false
            }
        };
        if !goes_on {
            self.continue_refresh(now, outside);
        }
    }

    /// Processes a peer's identity. Returns whether the probe continues.
    fn has_introduced_itself(
        &mut self,
        contact: Contact,
        ended: Ended,
        reply: Reply,
        now: Now,
        outside: &mut impl Outside,
    ) -> bool {
        let is_refusal = matches!(reply, Reply::Refused { .. });
        let (told, ip) = match self.introduction(ended, reply) {
            Ok((told, ip)) => (NodeInfo { endpoint: contact.endpoint.clone(), ..told }, ip),
            Err(mishap) => {
                self.contact_failed(&contact, &mishap, now);
                if !is_refusal {
                    self.ask_elsewhere(contact, now, outside);
                }
                return false;
            }
        };
        match contact.way {
            // Gossiped peers are not asked for their peers.
            Way::Hearsay => self.has_answered(told, ip, now),
            Way::Move => self.has_moved(told, ip, now),
            Way::Drawn | Way::Revival => {
                if contact.key.is_none() && !self.pin(&told, now) {
                    return false;
                }
                let second = Contact { key: Some(told.identity.key), told: Some(told), ..contact };
                let goes_on = self.contact(second.clone(), outside);
                if !goes_on {
                    self.contact_failed(&second, &Mishap::failure("there are too many requests to it"), now);
                }
                return goes_on;
            }
        }
        false
    }

    /// Handles a peer that did not answer at its known endpoint: probes the other reported ones. A peer that answers
    /// there with an HTTP error, for example while starting, is present.
    fn ask_elsewhere(&mut self, contact: Contact, now: Now, outside: &mut impl Outside) {
        let Some(key) = contact.key else { return };
        let address = Address::from_public_key(&key, self.settings.context.network);
        if contact.way == Way::Move || !self.is_there(&address, &contact.endpoint) {
            return;
        }
        self.nodes.unreached(&address, now.running);
        if self.nodes.may_move(&address, now.running) {
            for endpoint in contact.elsewhere.clone() {
                let moving = Contact { endpoint, way: Way::Move, elsewhere: Vec::new(), ..contact.clone() };
                self.contact(moving, outside);
            }
        }
    }

    /// Returns whether a peer is known at an endpoint.
    pub(super) fn is_there(&self, node: &Address, endpoint: &Endpoint) -> bool {
        self.nodes.get(node).is_some_and(|known| known.about.info.endpoint == *endpoint)
    }

    fn has_listed_others(
        &mut self,
        contact: Contact,
        ended: Ended,
        reply: Reply,
        now: Now,
        outside: &mut impl Outside,
    ) {
        match self.read_answer::<NodeList>(ended.proof, reply) {
            Err(mishap) => self.contact_failed(&contact, &mishap, now),
            Ok((NodeList(others), ip)) => {
                if contact.way == Way::Drawn {
                    self.hear_of(others, ip, now, outside);
                }
                if let Some(told) = contact.told {
                    self.has_answered(told, ip, now);
                }
            }
        }
    }

    /// Reads an identity and the address that it came from. Checks key and compatibility; its endpoint is not proven.
    pub(super) fn introduction(&self, ended: Ended, reply: Reply) -> Result<(NodeInfo, IpAddr), Mishap> {
        let (told, ip) = match (ended.proof, reply) {
            (Some(Proof { challenge, key: None }), Reply::Answer { body, from }) => {
                (read_introduction(self.settings.format, &body, self.settings.context, &challenge)?, from)
            }
            (Some(Proof { challenge, key: Some(key) }), reply) => {
                let proof = Some(Proof { challenge, key: Some(key) });
                let (told, from) = self.read_answer::<NodeInfo>(proof, reply)?;
                if told.identity.key != key {
                    return Err(Mishap::failure("it says that it is another node"));
                }
                (told, from)
            }
            (_, reply) => return Err(Mishap::of(reply, self.settings.format, self.settings.context)),
        };
        match self.local.meta_data.is_compatible(&told.meta_data) {
            true => Ok((told, ip)),
            false => Err(Mishap::failure("it is of another network, or its version does not go with this one")),
        }
    }

    /// Records that a compatible peer answered at the endpoint in `told`.
    pub(super) fn has_answered(&mut self, told: NodeInfo, ip: IpAddr, now: Now) {
        let address = self.address_of(&told);
        let former = self.nodes.get(&address);
        let was_active = former.is_some_and(|former| former.state == State::Active);
        if former.is_some_and(|former| former.about.info.endpoint != told.endpoint) {
            return log::debug!("{} is known elsewhere", describe(&told, &address));
        }
        // A peer in the table that has never answered is pre-trusted or was saved before the restart.
        let is_return = former.is_some_and(|former| former.last_contact.is_none());
        self.returning.is_answered |= is_return;
        let former = self.nodes.get(&address);
        let known = former.map(|former| (former.about.height, former.about.score));
        let (height, score) = known.unwrap_or_default();
        let line = describe(&told, &address);
        let last_dropped = self.nodes.dropped().last().map(|dropped| (dropped.address, dropped.at));
        match self.nodes.answered(address, ip, About { info: told, height, score }, now.running) {
            Err(refused) => return log::debug!("{line} at {ip} is not taken: {refused:?}"),
            Ok(()) if !was_active => log::info!("{line} is active"),
            Ok(()) => {}
        }
        if known.is_none() {
            // Experiences from before it was dropped may be from another endpoint.
            self.forget_experiences(&address);
        }
        if let Some(dropped) = self.nodes.dropped().last()
            && last_dropped != Some((dropped.address, dropped.at))
        {
            log::info!(
                "{} is dropped: another node takes its place",
                describe(&dropped.node.about.info, &dropped.address)
            );
        }
    }

    /// Records that an unreachable peer answered at another endpoint, the one in `told`, where it starts without trust.
    fn has_moved(&mut self, told: NodeInfo, ip: IpAddr, now: Now) {
        let address = self.address_of(&told);
        if !self.nodes.may_move(&address, now.running) {
            return;
        }
        let line = describe(&told, &address);
        let about = About { info: told, height: None, score: None };
        match self.nodes.moved(address, ip, about, now.running) {
            Err(refused) => log::debug!("{line} at {ip} is not taken: {refused:?}"),
            Ok(()) => {
                self.forget_experiences(&address);
                log::info!("{line} has moved, and is active");
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

    fn contact_failed(&mut self, contact: &Contact, mishap: &Mishap, now: Now) {
        log::debug!("contact with {} failed: {mishap}", contact.endpoint);
        let Some(key) = contact.key else { return self.unpinned_failed(&contact.endpoint, mishap, now) };
        let address = Address::from_public_key(&key, self.settings.context.network);
        let decides = matches!(contact.way, Way::Drawn | Way::Revival);
        if !decides || !self.is_there(&address, &contact.endpoint) {
            return;
        }
        if self.nodes.is_active(&address) {
            log::info!("{} at {} is no longer active: {mishap}", address, contact.endpoint);
        }
        self.nodes.failed(&address, mishap.trouble, &mishap.reason, now.running);
    }
}
