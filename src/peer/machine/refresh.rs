//! Refresh: probes selected peers to update their states, and peers learnt by gossip to extend the table.
//!
//! The effect of one gossip list is bounded: at most [`MAX_OF_LIST`] of its entries are probed, inactive ones first, in
//! random order. An unreadable or unreachable peer affects only itself. States change with each answer; peers are
//! selected anew when all probes have ended.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

use super::Peers;
use super::contacts::{Contact, Way};
use crate::model::Address;
use crate::peer::nodes;
use crate::peer::outside::{Now, Outside};
use crate::peer::random::RandomSource;
use crate::peer::schedule::Task;
use crate::peer::trust::Selector;
use crate::peer::wire::{Endpoint, NodeInfo};

/// Maximum number of concurrent probes.
pub const CONTACTS_AT_ONCE: usize = 24;
/// Maximum number of probes per gossip list.
pub const MAX_OF_LIST: usize = 16;
/// Maximum number of entries of one gossip list that are considered, chosen at random. NIS1 seldom sends over 12.
pub const MAX_LOOKED_AT: usize = 128;
/// Maximum number of gossip probes per refresh.
pub const MAX_HEARSAY: usize = 100;
/// Maximum number of additional probes per refresh of peers that failed or were long not probed.
pub const MAX_LOOKS: usize = 8;
/// Maximum number of them per network, as long as there are others.
pub const MAX_LOOKS_PER_NETWORK: usize = 2;
/// Maximum number of peers without a key that are probed per refresh.
pub const MAX_UNPINNED: usize = 100;

/// Running refresh.
#[derive(Debug, Default)]
pub struct Refresh {
    drawn: BTreeSet<Address>,
    /// Probed gossip: peer and endpoint; the known endpoint unless the peer may have moved, otherwise the reported one.
    /// Several reports may place a peer at different endpoints, and some may be false.
    heard_of: BTreeSet<(Address, String, i32)>,
    queue: VecDeque<Contact>,
}

impl Refresh {
    /// Returns the number of gossip probes.
    pub fn hearsay(&self) -> usize {
        self.heard_of.len()
    }
}

impl Peers {
    /// Starts a refresh.
    pub(super) fn begin_refresh(&mut self, now: Now, outside: &mut impl Outside) {
        let selector = Selector::of_all(self.trust.values(), &self.nodes);
        let mut drawn = self.draw_by(&selector, outside);
        for node in self.nodes.to_look_at_again(now.running, MAX_LOOKS, MAX_LOOKS_PER_NETWORK) {
            if !drawn.contains(&node) {
                drawn.push(node);
            }
        }
        drawn.retain(|node| self.nodes.may_be_contacted(node, now.running));
        let infos = drawn.iter().filter_map(|node| self.nodes.get(node)).map(|node| &node.about.info);
        let mut queue: VecDeque<_> = infos.map(|info| Contact::with(info, Way::Drawn)).collect();
        let unpinned = self.unpinned.iter().take(MAX_UNPINNED);
        queue.extend(unpinned.map(|unpinned| Contact::with_unknown(unpinned.endpoint.clone())));
        for (address, contact) in self.contacts_to_return(&drawn) {
            drawn.push(address);
            queue.push_back(contact);
        }
        self.refresh = Some(Refresh { drawn: drawn.into_iter().collect(), queue, ..Refresh::default() });
        self.continue_refresh(now, outside);
    }

    /// Starts waiting probes, and ends the refresh when none is left.
    pub(super) fn continue_refresh(&mut self, now: Now, outside: &mut impl Outside) {
        let mut under_way = self.contacts.count(Way::Drawn) + self.contacts.count(Way::Hearsay);
        while under_way < CONTACTS_AT_ONCE
            && let Some(refresh) = &mut self.refresh
            && let Some(contact) = refresh.queue.pop_front()
        {
            under_way += usize::from(self.contact(contact, outside));
        }
        if under_way == 0 && self.refresh.take().is_some() {
            self.renew_selector();
            self.end_task(Task::Refresh, true, now);
        }
    }

    /// Processes a gossip list that came from address `by`.
    pub(super) fn hear_of(&mut self, mut others: Vec<NodeInfo>, by: IpAddr, now: Now, outside: &mut impl Outside) {
        let mut random = || outside.random();
        random.choose(&mut others, MAX_LOOKED_AT);
        others.truncate(MAX_LOOKED_AT);
        others.sort_by_cached_key(|node| self.nodes.is_active(&self.address_of(node)));
        let tells_of_private = nodes::is_private(by);
        let mut contacted = 0;
        for node in others {
            let address = self.address_of(&node);
            let is_elsewhere = !tells_of_private && is_private(&node.endpoint);
            let may_move = self.nodes.may_move(&address, now.running) && !self.is_known_at(&node);
            let is_of_use = may_move || self.nodes.may_be_contacted(&address, now.running);
            let may_be_met = is_of_use && node.endpoint.to_connect().is_some() && may_be_called(&node.endpoint);
            let contact = match self.nodes.get(&address) {
                Some(_) if self.nodes.may_move_at_once(&address, now.running) => Contact::with(&node, Way::Move),
                Some(known) => Contact::with_moving(&known.about.info, Way::Hearsay, node.endpoint.clone()),
                None => Contact::with(&node, Way::Hearsay),
            };
            let Some(refresh) = &mut self.refresh else { return };
            if contacted == MAX_OF_LIST || refresh.heard_of.len() == MAX_HEARSAY {
                return;
            }
            let place = if may_move { &node.endpoint } else { &contact.endpoint };
            let place = (address, place.host.clone(), place.port);
            let may_be_met = may_be_met && !is_elsewhere && !refresh.drawn.contains(&address);
            if may_be_met && refresh.heard_of.insert(place) {
                contacted += 1;
                // A waiting or running probe of the known endpoint only takes over the reported one.
                let is_added = refresh.queue.iter_mut().any(|queued| queued.take_over(&contact));
                if !is_added && !self.contacts.take_over(&contact) {
                    refresh.queue.push_back(contact);
                }
            }
        }
    }
}

/// Returns whether an endpoint may belong to a single host, as far as its form shows.
fn may_be_called(endpoint: &Endpoint) -> bool {
    endpoint.address().is_none_or(nodes::is_of_one_host)
}

/// Returns whether an endpoint is private, as far as its form shows: also names without a dot or of reserved suffixes.
fn is_private(endpoint: &Endpoint) -> bool {
    const ENDINGS: [&str; 4] = [".localhost", ".local", ".internal", ".home.arpa"];
    let name = endpoint.host.strip_suffix('.').unwrap_or(&endpoint.host).to_ascii_lowercase();
    let is_private_name = || !name.contains('.') || ENDINGS.iter().any(|ending| name.ends_with(ending));
    endpoint.address().map_or_else(is_private_name, nodes::is_private)
}
