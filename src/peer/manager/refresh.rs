//! Refresh: probes selected peers to update their states, and peers learnt by gossip to extend the table.
//!
//! The effect of one gossip list is bounded: at most [`MAX_PROBES_PER_LIST`] of its entries are probed, inactive ones first, in
//! random order. An unreadable or unreachable peer affects only itself. States change with each answer; peers are
//! selected anew when all probes have ended.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

use super::Manager;
use super::probes::{Probe, ProbeReason};
use crate::model::Address;
use crate::peer::io::{Now, PeerIo};
use crate::peer::peer_table;
use crate::peer::random::RandomSource;
use crate::peer::schedule::Task;
use crate::peer::trust::Selector;
use crate::peer::wire::{Endpoint, NodeInfo};

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
/// Maximum number of them per network, as long as there are others.
pub const MAX_RECHECKS_PER_NETWORK: usize = 2;
/// Maximum number of peers without a key that are probed per refresh.
pub const MAX_UNPINNED: usize = 100;

/// Running refresh.
#[derive(Debug, Default)]
pub struct Refresh {
    selected: BTreeSet<Address>,
    /// Probed gossip: peer and endpoint; the known endpoint unless the peer may have moved, otherwise the reported one.
    /// Several reports may place a peer at different endpoints, and some may be false.
    gossiped: BTreeSet<(Address, String, i32)>,
    queue: VecDeque<Probe>,
}

impl Refresh {
    /// Returns the number of gossip probes.
    pub fn gossip_probes(&self) -> usize {
        self.gossiped.len()
    }
}

impl Manager {
    /// Starts a refresh.
    pub(super) fn begin_refresh(&mut self, now: Now, io: &mut impl PeerIo) {
        let selector = Selector::among_all(self.trust.values(), &self.table);
        let mut drawn = self.select_by(&selector, io);
        for node in self.table.due_for_recheck(now.monotonic, MAX_RECHECKS, MAX_RECHECKS_PER_NETWORK) {
            if !drawn.contains(&node) {
                drawn.push(node);
            }
        }
        drawn.retain(|node| self.table.may_be_contacted(node, now.monotonic));
        let infos = drawn.iter().filter_map(|node| self.table.get(node)).map(|node| &node.data.info);
        let mut queue: VecDeque<_> = infos.map(|info| Probe::new(info, ProbeReason::Selected)).collect();
        let unpinned = self.unpinned.iter().take(MAX_UNPINNED);
        queue.extend(unpinned.map(|unpinned| Probe::without_key(unpinned.endpoint.clone())));
        for (address, probe) in self.reconnect_probes(&drawn) {
            drawn.push(address);
            queue.push_back(probe);
        }
        self.refresh = Some(Refresh { selected: drawn.into_iter().collect(), queue, ..Refresh::default() });
        self.continue_refresh(now, io);
    }

    /// Starts waiting probes, and ends the refresh when none is left.
    pub(super) fn continue_refresh(&mut self, now: Now, io: &mut impl PeerIo) {
        let mut under_way = self.probes.count(ProbeReason::Selected) + self.probes.count(ProbeReason::Gossip);
        while under_way < MAX_CONCURRENT_PROBES
            && let Some(refresh) = &mut self.refresh
            && let Some(probe) = refresh.queue.pop_front()
        {
            under_way += usize::from(self.start_probe(probe, io));
        }
        if under_way == 0 && self.refresh.take().is_some() {
            self.renew_selector();
            self.end_task(Task::Refresh, true, now);
        }
    }

    /// Processes a gossip list that came from address `by`.
    pub(super) fn on_gossip(&mut self, mut others: Vec<NodeInfo>, by: IpAddr, now: Now, io: &mut impl PeerIo) {
        let mut random = || io.random();
        random.choose(&mut others, MAX_LIST_ENTRIES);
        others.truncate(MAX_LIST_ENTRIES);
        others.sort_by_cached_key(|node| self.table.is_active(&self.address_of(node)));
        let tells_of_private = peer_table::is_private(by);
        let mut contacted = 0;
        for node in others {
            let address = self.address_of(&node);
            let is_elsewhere = !tells_of_private && is_private(&node.endpoint);
            let may_move = self.table.may_move(&address, now.monotonic) && !self.is_known_at(&node);
            let is_of_use = may_move || self.table.may_be_contacted(&address, now.monotonic);
            let may_be_met = is_of_use && node.endpoint.to_connect().is_some() && may_be_host(&node.endpoint);
            let contact = match self.table.get(&address) {
                Some(_) if self.table.may_move_at_once(&address, now.monotonic) => Probe::new(&node, ProbeReason::Move),
                Some(known) => Probe::with_other_endpoint(&known.data.info, ProbeReason::Gossip, node.endpoint.clone()),
                None => Probe::new(&node, ProbeReason::Gossip),
            };
            let Some(refresh) = &mut self.refresh else { return };
            if contacted == MAX_PROBES_PER_LIST || refresh.gossiped.len() == MAX_GOSSIP_PROBES {
                return;
            }
            let place = if may_move { &node.endpoint } else { &contact.endpoint };
            let place = (address, place.host.clone(), place.port);
            let may_be_met = may_be_met && !is_elsewhere && !refresh.selected.contains(&address);
            if may_be_met && refresh.gossiped.insert(place) {
                contacted += 1;
                // A waiting or running probe of the known endpoint only takes over the reported one.
                let is_added = refresh.queue.iter_mut().any(|queued| queued.merge(&contact));
                if !is_added && !self.probes.merge(&contact) {
                    refresh.queue.push_back(contact);
                }
            }
        }
    }
}

/// Returns whether an endpoint may belong to a single host, as far as its form shows.
fn may_be_host(endpoint: &Endpoint) -> bool {
    endpoint.address().is_none_or(peer_table::is_unicast)
}

/// Returns whether an endpoint is private, as far as its form shows: also names without a dot or of reserved suffixes.
fn is_private(endpoint: &Endpoint) -> bool {
    const ENDINGS: [&str; 4] = [".localhost", ".local", ".internal", ".home.arpa"];
    let name = endpoint.host.strip_suffix('.').unwrap_or(&endpoint.host).to_ascii_lowercase();
    let is_private_name = || !name.contains('.') || ENDINGS.iter().any(|ending| name.ends_with(ending));
    endpoint.address().map_or_else(is_private_name, peer_table::is_private)
}
