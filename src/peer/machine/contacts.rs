//! Contacts: a node is asked who it is, and, unless others told of it, which nodes it works with.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::calls::{Ended, Proof, Purpose, Request};
use super::mishap::Mishap;
use super::{About, Peers, describe};
use crate::crypto::PublicKey;
use crate::model::Address;
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
    /// It has failed, and has given a sign of life since, which decides on its state.
    Revival,
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
    /// What it has said of itself.
    told: Option<NodeInfo>,
    /// Where it said so, if it says that it is elsewhere.
    answered_at: Option<Endpoint>,
}

impl Contact {
    /// A contact with a node whose key is known.
    pub fn with(node: &NodeInfo, way: Way) -> Contact {
        Contact { endpoint: node.endpoint.clone(), key: Some(node.identity.key), way, told: None, answered_at: None }
    }

    /// A contact with a node of the operator's list whose key is not known yet.
    pub fn with_unknown(endpoint: Endpoint) -> Contact {
        Contact { endpoint, key: None, way: Way::Drawn, told: None, answered_at: None }
    }

    /// The same once more where the node has answered, if it is not reached where it says that it is: somebody may have
    /// told it a wrong address.
    fn where_it_answered(&self) -> Option<Contact> {
        let (endpoint, told) = (self.answered_at.clone()?, self.told.clone()?);
        let told = NodeInfo { endpoint: endpoint.clone(), ..told };
        Some(Contact { endpoint, told: Some(told), answered_at: None, ..*self })
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
        let (told, ip) = match self.introduction(ended, reply) {
            Ok(told) => told,
            Err(mishap) => {
                self.contact_failed(&contact, &mishap, now);
                return false;
            }
        };
        if contact.way == Way::Hearsay {
            // Nobody has looked whether it is where it says.
            self.has_answered(NodeInfo { endpoint: contact.endpoint, ..told }, ip, true, now);
            return false;
        }
        if contact.key.is_none() && !self.pin(&contact.endpoint, &told, now) {
            return false;
        }
        // From now on it is reached where it says, if it is.
        let (endpoint, key) = (told.endpoint.clone(), Some(told.identity.key));
        let answered_at = Some(contact.endpoint).filter(|place| *place != endpoint);
        let second = Contact { endpoint, key, way: contact.way, told: Some(told), answered_at };
        if !self.contact(second.clone(), outside) {
            self.contact_failed(&second, &Mishap::failure("it is not reached where it says"), now);
            return false;
        }
        true
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
            Err(mishap) => {
                let again = contact.where_it_answered().is_some_and(|again| self.contact(again, outside));
                if !again {
                    self.contact_failed(&contact, &mishap, now);
                }
            }
            Ok((NodeList(others), ip)) => {
                if contact.way == Way::Drawn {
                    self.hear_of(others, ip, now, outside);
                }
                if let Some(told) = contact.told {
                    self.has_answered(told, ip, false, now);
                }
            }
        }
    }

    /// What a node says of itself, if it is the one that was asked and works with this one, and where it answered.
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
            true => Ok((NodeInfo { endpoint: told.endpoint.seen_at(ip), ..told }, ip)),
            false => Err(Mishap::failure("it is of another network, or its version does not go with this one")),
        }
    }

    /// A node works with this one. By hearsay it tells nothing new of a node that is active.
    pub(super) fn has_answered(&mut self, told: NodeInfo, ip: IpAddr, is_hearsay: bool, now: Now) {
        let address = self.address_of(&told);
        let was_active = self.nodes.is_active(&address);
        let former = self.nodes.get(&address).map(|node| &node.about);
        let about =
            About { height: former.and_then(|former| former.height), score: former.and_then(|f| f.score), info: told };
        let line = describe(&about.info, &address);
        let last_dropped = self.nodes.dropped().last().map(|dropped| (dropped.address, dropped.at));
        let result = match is_hearsay {
            true => self.nodes.introduced(address, ip, about, now.running),
            false => self.nodes.answered(address, ip, about, now.running),
        };
        match result {
            Err(refused) => log::debug!("{line} at {ip} is not taken: {refused:?}"),
            Ok(()) if !was_active => log::info!("{line} is active"),
            Ok(()) => {}
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

    fn contact_failed(&mut self, contact: &Contact, mishap: &Mishap, now: Now) {
        log::debug!("contact with {} failed: {mishap}", contact.endpoint);
        match contact.key {
            _ if contact.way == Way::Hearsay => {}
            None => self.unpinned_failed(&contact.endpoint, mishap, now),
            Some(key) => {
                let address = Address::from_public_key(&key, self.settings.context.network);
                if self.nodes.is_active(&address) {
                    log::info!("{} at {} is no longer active: {mishap}", address, contact.endpoint);
                }
                self.nodes.failed(&address, mishap.trouble, &mishap.reason, now.running);
            }
        }
    }
}
