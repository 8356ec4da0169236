//! Contacts: a node is asked who it is, and, unless others told of it, which nodes it works with.
//!
//! A node that is known is asked where it is known, whatever others or itself say about where it is. Only if it has been out
//! of reach there for a while, and still is, it is asked where it is said to be, and is a stranger there.

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

/// Number of a contact. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContactId(u64);

/// Why a node is contacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It was drawn in a refresh, which decides on its state.
    Drawn,
    /// A drawn node told of it in a refresh: only if it answers this changes anything.
    Hearsay,
    /// A sign of life was given in its name, and it is not active, or is said to be elsewhere: this decides on its state.
    Revival,
    /// It does not answer where it was known, and is said to be here.
    Move,
}

/// A node that is being contacted.
#[derive(Clone, Debug)]
pub struct Contact {
    /// Where it is asked.
    pub endpoint: Endpoint,
    /// The key that it has to have; `None` if it is yet to introduce itself.
    pub key: Option<PublicKey>,
    /// Why.
    pub way: Way,
    /// Where else it is said to be.
    elsewhere: Vec<Endpoint>,
    /// The network of whoever has brought it about, if it was a sign of life.
    by: Option<IpAddr>,
    /// What it has said of itself.
    told: Option<NodeInfo>,
}

impl Contact {
    /// A contact with a node whose key is known.
    pub fn with(node: &NodeInfo, way: Way) -> Contact {
        let (endpoint, key) = (node.endpoint.clone(), Some(node.identity.key));
        Contact { endpoint, key, way, elsewhere: Vec::new(), by: None, told: None }
    }

    /// A contact with a node that is known, and said to be at another endpoint.
    pub fn with_moving(node: &NodeInfo, way: Way, elsewhere: Endpoint) -> Contact {
        let elsewhere = Some(elsewhere).filter(|elsewhere| *elsewhere != node.endpoint).into_iter().collect();
        Contact { elsewhere, ..Contact::with(node, way) }
    }

    /// The same because of a sign of life that came from a network.
    pub fn because_of(self, network: Option<IpAddr>) -> Contact {
        Contact { by: network, ..self }
    }

    /// Takes over where else a node is said to be, if another contact is with the same one where this one asks it.
    pub fn take_over(&mut self, other: &Contact) -> bool {
        let is_same = self.key.is_some() && (self.key, &self.endpoint) == (other.key, &other.endpoint);
        if is_same {
            self.elsewhere.extend(other.elsewhere.iter().cloned());
        }
        is_same
    }

    /// A contact with a node of the operator's list whose key is not known yet.
    pub fn with_unknown(endpoint: Endpoint) -> Contact {
        Contact { endpoint, key: None, way: Way::Drawn, elsewhere: Vec::new(), by: None, told: None }
    }
}

/// The contacts that have not ended.
#[derive(Debug, Default)]
pub struct Contacts {
    begun: u64,
    open: BTreeMap<ContactId, Contact>,
}

impl Contacts {
    /// How many there are that were begun for a reason.
    pub fn count(&self, way: Way) -> usize {
        self.open.values().filter(|contact| contact.way == way).count()
    }

    /// How many a network has brought about by signs of life.
    pub fn count_by(&self, network: Option<IpAddr>) -> usize {
        self.open.values().filter(|contact| contact.by.is_some() && contact.by == network).count()
    }

    /// Whether a node is being contacted at its endpoint.
    pub fn has(&self, node: &NodeInfo) -> bool {
        let key = Some(node.identity.key);
        self.open.values().any(|contact| contact.key == key && contact.endpoint == node.endpoint)
    }

    /// Takes over where else a node is said to be, if it is being contacted where another contact would ask it, and has not
    /// answered yet.
    pub fn take_over(&mut self, other: &Contact) -> bool {
        self.open.values_mut().filter(|contact| contact.told.is_none()).any(|contact| contact.take_over(other))
    }
}

impl Peers {
    /// Begins a contact, or the second part of one. Returns whether there was room for it.
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

    /// A node that is being contacted has answered, or has failed.
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

    /// Returns whether the contact goes on.
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
            // Nobody has looked whom it works with.
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

    /// A node has not answered where it is known. Whatever answers there with a status is there; a node that is starting
    /// does so.
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

    /// Whether a node is known at an endpoint.
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

    /// What a node says of itself, if it is the one that was asked and works with this one, and the address that answered.
    /// Nothing proves the endpoint that it tells.
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

    /// A node works with this one: it has answered at its endpoint in `told`.
    pub(super) fn has_answered(&mut self, told: NodeInfo, ip: IpAddr, now: Now) {
        let address = self.address_of(&told);
        let former = self.nodes.get(&address);
        let was_active = former.is_some_and(|former| former.state == State::Active);
        if former.is_some_and(|former| former.about.info.endpoint != told.endpoint) {
            return log::debug!("{} is known elsewhere", describe(&told, &address));
        }
        // Whoever has not answered before is of the operator's list, or kept from before the start.
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
            // What was experienced with it before it was forgotten need not have been here.
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

    /// A node that is out of reach where it was known has answered at its endpoint in `told`, where it is a stranger.
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

    /// Nobody trusts a node for what another one at another place has done under its name.
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
