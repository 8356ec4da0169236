//! Table of known peers and the result of the last contact with each.
//!
//! A peer enters the table by answering, never by gossip alone. Listed peers (from the operator's list) are in it
//! from the start, stay for good, and become active with their first answer. Peers saved before a restart are in it at
//! their saved endpoints, without trust, and stay until others need their slots, whether they answer or not.
//!
//! **A peer keeps its endpoint.** An answer is signed, but the signature covers only the challenge: a relay can forward
//! challenges to a peer and return its answers with another endpoint in them. So an answer proves that the owner of the
//! key is alive, not where. A listed peer stays at its configured endpoint for good. Any other moves only after it
//! has been unreachable for [`MOVE_DELAY`], and counts as unknown at its new endpoint.
//!
//! **Limits.** An unknown peer fills a slot only by answering at an address of its own. The table is limited in all,
//! per address and per network ([`TableLimits`]); when an address or a network is full, only a failed peer of it is evicted.
//! Private addresses share one limit whatever their network, since one machine may run a whole network of nodes.
//!
//! Half of the slots are for *proven* peers: those that have delivered a block, or have answered for [`PROVEN_AFTER`](super::peer_entry::PROVEN_AFTER). In
//! each half, a newcomer gets in, and the peer that gives way is one of the network that holds most ([`Quota`]). So those
//! that come in great numbers evict each other. Listed peers are never evicted. A slot takes a description and about 500
//! bytes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::LimitUsage;
use super::peer_entry::{PeerEntry, PeerError, State, SyncBackoff, describe};
use super::wire::NodeInfo;
use crate::ip::{Scope, network, scope, site};
use crate::model::Address;
use crate::quota::{Owner, Quota};

/// Minimum interval between probes of a failed peer that signs of life cause.
pub const SIGN_PROBE_INTERVAL: Duration = Duration::from_secs(60);
/// The same for a peer that may have moved, and the time for which a failed probe counts as recent.
pub const MOVED_SIGN_PROBE_INTERVAL: Duration = Duration::from_secs(10);
/// Time for which a peer must be unreachable before it may move.
pub const MOVE_DELAY: Duration = Duration::from_secs(60);
/// Time since its last sign of life, or since the start, after which an active peer that is not selected gets one.
pub const SIGN_OF_LIFE_INTERVAL: Duration = Duration::from_secs(4 * 60);
/// Time since its last valid message after which an active peer is pinged: one that is gone is noticed within a minute.
pub const PING_AFTER: Duration = Duration::from_secs(45);
/// Time without a valid message after which others are no longer told that a peer is active.
pub const SILENT_AFTER: Duration = Duration::from_secs(60);
/// Maximum number of peers of one network that are pinged, probed or sent signs of life at once, as long as there are others.
const MAX_PER_NETWORK_AT_ONCE: usize = 2;
/// Maximum number of dropped peers that are remembered.
pub const MAX_DROPPED: usize = 50;

/// Maximum number of networks with a backoff.
pub const MAX_NETWORK_BACKOFFS: usize = 1_000;

/// Limits of the table.
#[derive(Clone, Copy, Debug)]
pub struct TableLimits {
    /// Peers in all, including listed ones.
    pub nodes: usize,
    /// Peers that are neither proven nor listed.
    pub unproven: usize,
    /// Peers per IPv4 address or IPv6 /64, the usual share of one host.
    pub per_address: usize,
    /// Peers per IPv4 /24 or IPv6 /48, the usual share of one site.
    pub per_network: usize,
    /// Peers at private and loopback addresses.
    pub private: usize,
}

impl Default for TableLimits {
    fn default() -> TableLimits {
        TableLimits { nodes: 1_000, unproven: 500, per_address: 8, per_network: 16, private: 250 }
    }
}

/// Peer that was dropped from the table.
#[derive(Clone, Debug)]
pub struct Dropped {
    /// Address of its account.
    pub address: Address,
    /// Last entry.
    pub node: PeerEntry,
    /// Time since the start of this node.
    pub at: Duration,
    /// Reason.
    pub reason: DropReason,
}

/// Reason for dropping a peer.
#[derive(Clone, Copy, Debug, derive_more::Display, PartialEq, Eq)]
pub enum DropReason {
    /// It did not answer for a long time.
    #[display("no answer for a long time")]
    Unresponsive,
    /// Another peer needed its slot.
    #[display("another peer replaces it")]
    Evicted,
    /// It was unreachable and has moved.
    #[display("it has moved")]
    Moved,
}

/// Reason for not adding a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// It is this node.
    Local,
    /// Its address or network has no free slot.
    SubnetFull,
    /// The table is full.
    Full,
}

/// Set of addresses with a common limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// Host, by its first address.
    Host(IpAddr),
    /// Network, by its first address.
    Network(IpAddr),
    /// All private addresses.
    Private,
}

/// Returns whether an address is not part of the internet.
pub fn is_private(ip: IpAddr) -> bool {
    scope(ip) < Scope::Global
}

/// Returns the first address of a host's share: the IPv4 address or the IPv6 /64.
pub fn host(ip: IpAddr) -> IpAddr {
    network(ip, 32, 64)
}

impl TableLimits {
    /// Returns the groups of an address, and their limits.
    fn groups(self, ip: IpAddr) -> impl Iterator<Item = (Group, usize)> {
        let groups = if is_private(ip) {
            [Some((Group::Private, self.private)), None]
        } else {
            [Some((Group::Host(host(ip)), self.per_address)), Some((Group::Network(site(ip)), self.per_network))]
        };
        groups.into_iter().flatten()
    }
}

/// Table of known peers.
#[derive(Debug)]
pub struct PeerTable {
    /// Address of this node.
    pub local: Address,
    limits: TableLimits,
    entries: BTreeMap<Address, PeerEntry>,
    /// The operator's list, which may contain this node.
    pub listed: BTreeSet<Address>,
    /// The peers with a known address that are not listed: the unproven and the proven ones.
    unproven: Quota<Address>,
    proven: Quota<Address>,
    /// Backoffs by network, so that another peer of a network does not start afresh.
    network_backoffs: BTreeMap<IpAddr, SyncBackoff>,
    /// The peers that were dropped last, oldest first.
    pub dropped: VecDeque<Dropped>,
}

impl PeerTable {
    /// Creates an empty table for the node with address `local`.
    pub fn new(local: Address, limits: TableLimits) -> PeerTable {
        PeerTable {
            local,
            limits,
            entries: BTreeMap::new(),
            listed: BTreeSet::new(),
            unproven: Quota::default(),
            proven: Quota::default(),
            network_backoffs: BTreeMap::new(),
            dropped: VecDeque::new(),
        }
    }

    /// Adds a listed peer, which counts towards [`TableLimits::nodes`] only. This node may be listed, but is not added.
    pub fn add_listed(&mut self, node: Address, info: NodeInfo, now: Duration) -> Result<(), AddError> {
        if node == self.local {
            self.listed.insert(node);
            return Ok(());
        }
        if let Some(known) = self.entries.get_mut(&node) {
            known.is_listed = true;
        } else if self.listed.len() >= self.limits.nodes {
            return Err(AddError::Full);
        } else {
            self.entries.insert(node, PeerEntry { is_listed: true, ..PeerEntry::new(info, State::Untried) });
        }
        self.listed.insert(node);
        self.update_quotas(node, now);
        self.make_room(now);
        Ok(())
    }

    /// Adds a saved peer if it is unknown; `ip` is `None` if its endpoint is a name.
    pub fn add_saved(&mut self, node: Address, ip: Option<IpAddr>, info: NodeInfo) -> Result<(), AddError> {
        if self.entries.contains_key(&node) {
            return Ok(());
        }
        if self.entries.len() >= self.limits.nodes {
            return Err(AddError::Full);
        }
        let ip = ip.map(|ip| ip.to_canonical());
        if let Some(ip) = ip {
            self.reserve_slot(node, ip, Duration::ZERO)?;
        }
        self.entries.insert(node, PeerEntry { ip, ..PeerEntry::new(info, State::Untried) });
        self.update_quotas(node, Duration::ZERO);
        Ok(())
    }

    /// Records that a peer introduced itself at `ip`, its known endpoint or that of a new peer: it becomes active with
    /// this description. If its name now resolves to an address without a free slot, it becomes active with its former
    /// one.
    pub fn record_introduction(
        &mut self,
        node: Address,
        ip: IpAddr,
        info: NodeInfo,
        now: Duration,
    ) -> Result<(), AddError> {
        let ip = ip.to_canonical();
        if let Some(known) = self.entries.get_mut(&node) {
            known.set_active(now);
            known.introduced_at = Some(now);
        }
        self.reserve_slot(node, ip, now)?;
        if let Some(known) = self.entries.get_mut(&node) {
            (known.info, known.ip) = (info, Some(ip));
        } else {
            self.entries.insert(node, PeerEntry::new_introduced(info, ip, now));
        }
        self.update_quotas(node, now);
        self.make_room(now);
        if self.entries.contains_key(&node) { Ok(()) } else { Err(AddError::Full) }
    }

    /// Records that an unreachable peer introduced itself at another endpoint, at `ip`. All former data are dropped.
    pub fn record_move(&mut self, node: Address, ip: IpAddr, info: NodeInfo, now: Duration) -> Result<(), AddError> {
        let ip = ip.to_canonical();
        self.reserve_slot(node, ip, now)?;
        if let Some(former) = self.entries.insert(node, PeerEntry::new_introduced(info, ip, now)) {
            self.note_dropped(Dropped { address: node, node: former, at: now, reason: DropReason::Moved });
        }
        self.update_quotas(node, now);
        self.make_room(now);
        Ok(())
    }

    /// Returns whether a peer may be probed elsewhere: not listed, and unreachable for [`MOVE_DELAY`].
    pub fn may_move(&self, node: &Address, now: Duration) -> bool {
        let is_gone = |since: Duration| now.saturating_sub(since) >= MOVE_DELAY;
        self.entries.get(node).is_some_and(|node| !node.is_listed && node.failing_since.is_some_and(is_gone))
    }

    /// Records that nothing answered at a peer's known endpoint, and starts its unreachable time unless it is running.
    pub fn record_unreachable(&mut self, node: &Address, now: Duration) {
        if let Some(node) = self.entries.get_mut(node) {
            node.unreachable_at = Some(now);
            node.failing_since = node.failing_since.or(Some(now));
        }
    }

    /// Returns whether a peer may move and a probe of its known endpoint has just failed.
    pub fn may_move_at_once(&self, node: &Address, now: Duration) -> bool {
        let is_new = |unreached: Duration| now.saturating_sub(unreached) < MOVED_SIGN_PROBE_INTERVAL;
        self.may_move(node, now) && self.entries.get(node).is_some_and(|node| node.unreachable_at.is_some_and(is_new))
    }

    /// Returns whether a sign of life from this host causes a probe there at once although a probe of the known
    /// endpoint has just failed, and records it: if the peer may move, or if it is known there (`is_there`) and has not
    /// answered since the start. At most once per [`SIGN_PROBE_INTERVAL`] and host, unless another host's sign comes between.
    pub fn admit_immediate_probe(&mut self, node: &Address, host: IpAddr, is_there: bool, now: Duration) -> bool {
        let may_move = !is_there && self.may_move_at_once(node, now);
        let is_asked = |node: &&mut PeerEntry| may_move || (is_there && !node.is_listed && node.last_contact.is_none());
        let Some(node) = self.entries.get_mut(node).filter(is_asked) else { return false };
        let is_other = |(last, asked)| last != host || now.saturating_sub(asked) >= SIGN_PROBE_INTERVAL;
        let may = node.immediate_probe.is_none_or(is_other);
        if may {
            node.immediate_probe = Some((host, now));
        }
        may
    }

    /// Records a valid signed message of a peer, which becomes active if it ever introduced itself. Returns whether it
    /// was inactive.
    pub fn record_alive(&mut self, node: &Address, now: Duration) -> bool {
        let Some(known) = self.entries.get_mut(node).filter(|known| known.last_contact.is_some()) else { return false };
        let is_back = known.state != State::Active;
        known.set_active(now);
        self.update_quotas(*node, now);
        is_back
    }

    /// Records that a peer has delivered a block that was valid and new.
    pub fn record_delivery(&mut self, node: &Address, now: Duration) {
        if let Some(node) = self.entries.get_mut(node) {
            (node.has_delivered, node.sync_backoff.failures) = (true, 0);
        }
        self.update_quotas(*node, now);
    }

    /// Prefers other sync peers until a time; after a failed synchronisation for a time that doubles with each, also to all of
    /// its network that are neither listed nor have delivered a block.
    pub fn back_off_from_sync_peer(&mut self, node: &Address, until: Duration, has_failed: bool, now: Duration) {
        let Some(peer) = self.entries.get_mut(node) else { return };
        peer.sync_backoff.retry_at = peer.sync_backoff.retry_at.max(until);
        if !has_failed {
            return;
        }
        peer.sync_backoff.record_failure(now);
        let Some(network) = peer.answerable_network() else { return };
        self.network_backoffs.entry(network).or_default().record_failure(now);
        if self.network_backoffs.len() > MAX_NETWORK_BACKOFFS {
            let others = self.network_backoffs.iter().filter(|(other, _)| **other != network);
            let first = others.min_by_key(|(_, backoff)| backoff.retry_at).map(|(other, _)| *other);
            first.and_then(|first| self.network_backoffs.remove(&first));
        }
    }

    /// Returns the time until which other sync peers are preferred to one of the table.
    pub fn sync_retry_at(&self, peer: &PeerEntry) -> Duration {
        let of_network = peer.answerable_network().and_then(|network| self.network_backoffs.get(&network));
        peer.sync_backoff.retry_at.max(of_network.map_or(Duration::ZERO, |backoff| backoff.retry_at))
    }

    /// Records a failed contact. Ignores unknown peers.
    pub fn record_failure(&mut self, node: &Address, error: PeerError, now: Duration) {
        if let Some(known) = self.entries.get_mut(node) {
            known.set_failed(error, now);
            self.update_quotas(*node, now);
            self.make_room(now);
        }
    }

    /// Returns at most `most` active peers that have sent nothing valid for [`PING_AFTER`], and records their pings.
    pub fn due_for_ping(&mut self, now: Duration, most: usize) -> Vec<Address> {
        let silent_since = |node: &PeerEntry| node.last_contact.filter(|_| node.state == State::Active);
        let is_due = |node: &PeerEntry, last: &Duration| node.pinged_at.max(*last) + PING_AFTER <= now;
        let due = self.in_due_order(|node| silent_since(node).filter(|last| is_due(node, last)), most);
        for node in &due {
            if let Some(node) = self.entries.get_mut(node) {
                node.pinged_at = now;
            }
        }
        due
    }

    /// Returns whether a peer may be contacted: it is not this node, and is unknown or not backed off.
    pub fn may_be_contacted(&self, node: &Address, now: Duration) -> bool {
        *node != self.local
            && self.entries.get(node).is_none_or(|node| !node.state.is_backed_off() || node.retry_at <= now)
    }

    /// Returns at most `most` peers to probe: failed ones, then those that have not introduced themselves for
    /// [`RECHECK_INTERVAL`](super::peer_entry::RECHECK_INTERVAL), each kind in turn.
    pub fn due_for_recheck(&self, now: Duration, most: usize) -> Vec<Address> {
        let due = |node: &PeerEntry| {
            let next_look = node.next_recheck().filter(|next_look| *next_look <= now)?;
            Some((node.state == State::Active, next_look))
        };
        self.in_due_order(due, most)
    }

    /// Returns at most `most` active peers, except `drawn`, whose last sign of life is [`SIGN_OF_LIFE_INTERVAL`] old.
    pub fn due_for_sign_of_life(&self, drawn: &[Address], now: Duration, most: usize) -> Vec<Address> {
        let due = |node: &PeerEntry| {
            let is_due = node.state == State::Active && node.sign_sent_at + SIGN_OF_LIFE_INTERVAL <= now;
            is_due.then_some(node.sign_sent_at)
        };
        let mut nodes = self.in_due_order(due, most.saturating_add(drawn.len()));
        nodes.retain(|node| !drawn.contains(node));
        nodes.truncate(most);
        nodes
    }

    /// Returns at most `most` peers in the order of the key that `due` returns, listed ones first, and at most
    /// [`MAX_PER_NETWORK_AT_ONCE`] of one network as long as there are others. Linear in the table.
    fn in_due_order<D: Ord>(&self, due: impl Fn(&PeerEntry) -> Option<D>, most: usize) -> Vec<Address> {
        let waiting = self.entries.iter().filter_map(|(address, node)| {
            let ip = node.ip.filter(|ip| !node.is_listed && !is_private(*ip));
            Some((!node.is_listed, due(node)?, *address, ip.map(site)))
        });
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort_unstable();
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        let (mut first, beyond): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(.., network)| {
            network.is_none_or(|network| {
                let count = counts.entry(network).or_default();
                *count += 1;
                *count <= MAX_PER_NETWORK_AT_ONCE
            })
        });
        first.extend(beyond);
        first.truncate(most);
        first.into_iter().map(|(_, _, address, _)| address).collect()
    }

    /// Returns whether a peer's sign of life causes a probe in spite of backoff, and records it: at most once per
    /// [`SIGN_PROBE_INTERVAL`], or [`MOVED_SIGN_PROBE_INTERVAL`] if the peer may move.
    pub fn admit_sign_probe(&mut self, node: &Address, now: Duration) -> bool {
        let rest = if self.may_move(node, now) { MOVED_SIGN_PROBE_INTERVAL } else { SIGN_PROBE_INTERVAL };
        let Some(node) = self.entries.get_mut(node) else { return false };
        let may = node.last_recheck.is_none_or(|looked| now.saturating_sub(looked) >= rest);
        if may {
            node.last_recheck = Some(now);
        }
        may
    }

    /// Drops peers that had not answered at the last pruning, nor since. Listed peers stay, and so do saved peers
    /// that have not answered since the start.
    pub fn prune(&mut self, now: Duration) {
        let is_silent =
            |node: &PeerEntry| !node.is_listed && node.last_contact.is_some() && node.state != State::Active;
        let silent = self.entries.iter_mut().filter(|(_, node)| is_silent(node));
        let was_candidate = |node: &mut PeerEntry| std::mem::replace(&mut node.is_prune_candidate, true);
        let gone: Vec<_> = silent.filter_map(|(address, node)| was_candidate(node).then_some(*address)).collect();
        for node in gone {
            self.drop_peer(node, DropReason::Unresponsive, now);
        }
    }

    /// Returns the entry of a peer.
    pub fn get(&self, node: &Address) -> Option<&PeerEntry> {
        self.entries.get(node)
    }

    /// Returns the entry of a peer, to change what only the caller knows.
    pub fn get_mut(&mut self, node: &Address) -> Option<&mut PeerEntry> {
        self.entries.get_mut(node)
    }

    /// Returns whether a peer answered at the last contact.
    pub fn is_active(&self, node: &Address) -> bool {
        self.entries.get(node).is_some_and(|node| node.state == State::Active)
    }

    /// Returns all entries in order of address.
    pub fn iter(&self) -> impl Iterator<Item = (&Address, &PeerEntry)> {
        self.entries.iter()
    }

    /// Returns the entries with one state, in order of address.
    pub fn in_state(&self, state: State) -> impl Iterator<Item = (&Address, &PeerEntry)> {
        self.entries.iter().filter(move |(_, node)| node.state == state)
    }

    /// Returns the number of peers.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the usage of the table, and of the fullest group of each kind.
    pub fn usage(&self) -> [LimitUsage; 7] {
        let mut groups = BTreeMap::<Group, usize>::new();
        for (group, _) in self.addresses().flat_map(|(_, ip)| self.limits.groups(ip)) {
            *groups.entry(group).or_default() += 1;
        }
        let fullest = |is_one: fn(&Group) -> bool| {
            groups.iter().filter(|(group, _)| is_one(group)).map(|(_, count)| *count).max().unwrap_or(0)
        };
        let TableLimits { nodes, unproven, per_address, per_network, private } = self.limits;
        [
            LimitUsage::new("known peers", self.entries.len(), nodes),
            LimitUsage::new("unproven peers", self.unproven.len(), unproven),
            LimitUsage::new("peers of one address", fullest(|group| matches!(group, Group::Host(_))), per_address),
            LimitUsage::new("peers of one network", fullest(|group| matches!(group, Group::Network(_))), per_network),
            LimitUsage::new("peers of private networks", fullest(|group| matches!(group, Group::Private)), private),
            LimitUsage::new("networks with a backoff", self.network_backoffs.len(), MAX_NETWORK_BACKOFFS),
            LimitUsage::new("dropped peers", self.dropped.len(), MAX_DROPPED),
        ]
    }

    /// Returns the known addresses of peers that are not listed.
    fn addresses(&self) -> impl Iterator<Item = (&Address, IpAddr)> {
        let others = self.entries.iter().filter(|(_, node)| !node.is_listed);
        others.filter_map(|(address, node)| Some((address, node.ip?)))
    }

    /// Returns the peers for a trust calculation, without this node: active ones, busy ones that have answered before
    /// or are listed, and untried listed ones.
    pub fn trust_candidates(&self) -> Vec<Address> {
        let is_met = |node: &PeerEntry| node.is_listed || node.last_contact.is_some();
        [State::Active, State::Busy, State::Untried]
            .into_iter()
            .flat_map(|state| self.in_state(state).filter(|(_, node)| is_met(node)).map(|(address, _)| *address))
            .collect()
    }

    /// Checks that the groups of an address have a slot for a peer; evicts a failed peer if one is full. Linear in the
    /// table.
    fn reserve_slot(&mut self, node: Address, ip: IpAddr, now: Duration) -> Result<(), AddError> {
        if node == self.local {
            return Err(AddError::Local);
        }
        if self.entries.get(&node).is_some_and(|known| known.is_listed || known.ip == Some(ip)) {
            return Ok(());
        }
        // At most one peer is evicted: an eviction from a host also frees a slot of its network.
        let limits = self.limits;
        for (group, limit) in limits.groups(ip) {
            let is_other = |(other, ip): &(&Address, IpAddr)| {
                **other != node && limits.groups(*ip).any(|(other, _)| other == group)
            };
            let others: Vec<_> = self.addresses().filter(is_other).map(|(other, _)| *other).collect();
            if others.len() >= limit {
                let failed = others.into_iter().filter_map(|other| Some((other, self.entries.get(&other)?)));
                let failed = failed.filter(|(_, node)| node.state.is_backed_off());
                let (longest, _) = failed.min_by_key(|(_, node)| node.last_contact).ok_or(AddError::SubnetFull)?;
                self.drop_peer(longest, DropReason::Evicted, now);
            }
        }
        Ok(())
    }

    /// Updates the quotas after a change of a peer.
    fn update_quotas(&mut self, address: Address, now: Duration) {
        let node = self.entries.get(&address).filter(|node| !node.is_listed);
        let held = node.and_then(|node| Some((node.ip?, node.is_proven(), node.last_contact.unwrap_or_default())));
        let Some((ip, is_proven, last_contact)) = held else {
            self.unproven.release(address, now);
            self.proven.release(address, now);
            return;
        };
        let (unproven, proven) = (&mut self.unproven, &mut self.proven);
        let (holder, other) = if is_proven { (proven, unproven) } else { (unproven, proven) };
        holder.hold(address, Owner::at(ip), 1, last_contact);
        other.release(address, now);
    }

    /// Drops the peers that give way while there are too many.
    fn make_room(&mut self, now: Duration) {
        loop {
            let is_crowded = self.unproven.len() > self.limits.unproven;
            let first = match (is_crowded, self.entries.len() > self.limits.nodes) {
                (true, _) => self.unproven.gives_way(),
                (false, true) => self.proven.gives_way().or_else(|| self.unproven.gives_way()),
                (false, false) => return,
            };
            let Some((_, first)) = first else { return };
            self.drop_peer(first, DropReason::Evicted, now);
        }
    }

    /// Removes a peer from the table.
    pub fn remove(&mut self, node: &Address) -> Option<PeerEntry> {
        let known = self.entries.remove(node)?;
        self.update_quotas(*node, known.last_contact.unwrap_or_default());
        Some(known)
    }

    fn drop_peer(&mut self, address: Address, reason: DropReason, at: Duration) {
        let Some(node) = self.remove(&address) else { return };
        log::info!("{} is dropped: {reason}", describe(&node.info, &address));
        self.note_dropped(Dropped { address, node, at, reason });
    }

    fn note_dropped(&mut self, dropped: Dropped) {
        if self.dropped.len() == MAX_DROPPED {
            self.dropped.pop_front();
        }
        self.dropped.push_back(dropped);
    }
}

#[cfg(test)]
mod tests;
