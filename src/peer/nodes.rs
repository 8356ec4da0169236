//! Table of known peers and the result of the last contact with each.
//!
//! A peer enters the table by answering, never by gossip alone. Pre-trusted peers (from the operator's list) are in it
//! from the start, stay for good, and become active with their first answer. Peers saved before a restart are in it at
//! their saved endpoints, without trust, and stay until others need their slots, whether they answer or not.
//!
//! **A peer keeps its endpoint.** An answer is signed, but the signature covers only the challenge: a relay can forward
//! challenges to a peer and return its answers with another endpoint in them. So an answer proves that the owner of the
//! key is alive, not where. A pre-trusted peer stays at its configured endpoint for good. Any other moves only after it
//! has been unreachable for [`BEFORE_A_MOVE`], and counts as unknown at its new endpoint.
//!
//! **Limits.** An unknown peer fills a slot only by answering at an address of its own. The table is limited in all,
//! per address and per network ([`Limits`]). When it is full, a failed peer is evicted for one that answers; an active
//! peer is never evicted. Private addresses share one limit whatever their network, since one machine may run a whole
//! network of nodes. A slot takes the caller's data and about 300 bytes.
//!
//! **Backoff.** A failed peer is not contacted for a minute, doubling with each further failure up to an hour. NIS1
//! backs off for one to two hours at once, so a restarted node is lost for that long, and nodes that are started
//! together lose each other. Here a restart costs a minute, and a dead peer costs six calls in the first hour and one
//! per hour later, as few as with NIS1.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::load::Load;
use crate::ip::{network, site};
use crate::model::Address;

/// Backoff after the first failure.
pub const FIRST_REST: Duration = Duration::from_secs(60);
/// Maximum backoff.
pub const LONGEST_REST: Duration = Duration::from_secs(60 * 60);
/// Minimum interval between probes of a failed peer that signs of life cause.
pub const BETWEEN_SIGNS: Duration = Duration::from_secs(60);
/// The same for a peer that may have moved, and the time for which a failed probe counts as recent.
pub const BETWEEN_SIGNS_ELSEWHERE: Duration = Duration::from_secs(10);
/// Time for which a peer must be unreachable before it may move.
pub const BEFORE_A_MOVE: Duration = Duration::from_secs(60);
/// Time since its last introduction after which an active peer is probed, if it is not selected meanwhile. Otherwise a
/// peer without trust (never selected) would stay active wherever it went, and would never be asked for its peers.
pub const BEFORE_A_LOOK: Duration = Duration::from_secs(5 * 60);
/// Time since its last sign of life, or since the start, after which an active peer that is not selected gets one.
pub const BETWEEN_OWN_SIGNS: Duration = Duration::from_secs(4 * 60);
/// Maximum number of dropped peers that are remembered.
pub const MAX_DROPPED: usize = 50;
/// Maximum number of characters of a failure reason.
pub const MAX_REASON: usize = 128;

/// Limits of the table.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Peers in all, including pre-trusted ones.
    pub nodes: usize,
    /// Peers per IPv4 address or IPv6 /64, the usual share of one host.
    pub per_address: usize,
    /// Peers per IPv4 /24 or IPv6 /48, the usual share of one site.
    pub per_network: usize,
    /// Peers at private and loopback addresses.
    pub private: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { nodes: 1_000, per_address: 8, per_network: 16, private: 250 }
    }
}

/// Result of the last contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// In the table from the start and not contacted yet.
    Untried,
    /// It answered.
    Active,
    /// It timed out, or is starting.
    Busy,
    /// It was unreachable.
    Inactive,
    /// It failed in another way.
    Failure,
}

impl State {
    /// Returns whether such a peer is backed off from.
    fn is_shunned(self) -> bool {
        matches!(self, State::Inactive | State::Failure)
    }
}

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Timed out, or starting.
    Busy,
    /// Unreachable.
    Inactive,
    /// Anything else.
    Failure,
}

/// Last failure of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastTrouble {
    /// Time since the start of this node.
    pub at: Duration,
    /// Kind of the failure.
    pub trouble: Trouble,
    /// Message for people, at most [`MAX_REASON`] characters.
    pub reason: String,
}

/// Entry of the table. `T` is the caller's data: name, endpoint and the like.
#[derive(Clone, Debug)]
pub struct Node<T> {
    /// The caller's data.
    pub about: T,
    /// Address that answered; `None` before the first answer of a peer that is known by name.
    pub ip: Option<IpAddr>,
    /// Result of the last contact.
    pub state: State,
    /// Whether it is on the operator's list.
    pub is_pre_trusted: bool,
    /// Time of the last answer, since the start of this node.
    pub last_contact: Option<Duration>,
    /// Time of the last introduction at its known endpoint, since the start of this node.
    introduced: Option<Duration>,
    /// Time of the last sign of life sent to it, since the start of this node; zero if none.
    given_sign: Duration,
    /// Last failure; successes do not reset it.
    pub last_trouble: Option<LastTrouble>,
    /// Failures since its last answer.
    pub failures: u32,
    /// Time of the first of these failures.
    fails_since: Option<Duration>,
    /// Time of the last of them, if nothing answered at the known endpoint.
    unreached: Option<Duration>,
    /// Synchronisations started with it.
    pub synchronisations: u32,
    /// Time of the next retry after a failure.
    look_again: Duration,
    /// Time of the last probe that a failure or a sign of life caused.
    looked: Option<Duration>,
    /// Host and time of the last sign of life that caused a probe at once after a failed one.
    asked_at_once: Option<(IpAddr, Duration)>,
    /// Time until which other sync peers are preferred.
    rests_until: Duration,
}

impl<T> Node<T> {
    /// Creates the entry of a peer that has just introduced itself at an endpoint that was not known.
    fn introduced(about: T, ip: IpAddr, now: Duration) -> Node<T> {
        let (last_contact, introduced) = (Some(now), Some(now));
        Node { ip: Some(ip), last_contact, introduced, ..Node::new(about, State::Active) }
    }

    fn new(about: T, state: State) -> Node<T> {
        Node {
            about,
            ip: None,
            state,
            is_pre_trusted: false,
            last_contact: None,
            introduced: None,
            given_sign: Duration::ZERO,
            last_trouble: None,
            failures: 0,
            fails_since: None,
            unreached: None,
            synchronisations: 0,
            look_again: Duration::ZERO,
            looked: None,
            asked_at_once: None,
            rests_until: Duration::ZERO,
        }
    }

    /// Returns the time of the next retry, if the last contact failed.
    pub fn asked_again(&self) -> Option<Duration> {
        (!matches!(self.state, State::Untried | State::Active)).then_some(self.look_again)
    }

    /// Returns the time of the next probe independent of selection; `None` if it was never tried.
    fn next_look(&self) -> Option<Duration> {
        match self.state {
            State::Untried => None,
            State::Active => self.introduced.map(|last| last + BEFORE_A_LOOK),
            State::Busy | State::Inactive | State::Failure => Some(self.look_again),
        }
    }

    fn has_answered(&mut self, now: Duration) {
        self.state = State::Active;
        self.last_contact = Some(now);
        self.failures = 0;
        self.fails_since = None;
        self.unreached = None;
    }

    fn has_failed(&mut self, trouble: Trouble, reason: &str, now: Duration) {
        self.state = match trouble {
            Trouble::Busy => State::Busy,
            Trouble::Inactive => State::Inactive,
            Trouble::Failure => State::Failure,
        };
        self.last_trouble = Some(LastTrouble { at: now, trouble, reason: reason.chars().take(MAX_REASON).collect() });
        self.look_again = now + rest(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.fails_since.get_or_insert(now);
        self.unreached = None;
        self.looked = Some(now);
    }
}

/// Returns the backoff after a failure that `before` others precede.
fn rest(before: u32) -> Duration {
    let factor = 2_u32.checked_pow(before).unwrap_or(u32::MAX);
    FIRST_REST.saturating_mul(factor).min(LONGEST_REST)
}

/// Peer that was dropped from the table.
#[derive(Clone, Debug)]
pub struct Dropped<T> {
    /// Address of its account.
    pub address: Address,
    /// Last entry.
    pub node: Node<T>,
    /// Time since the start of this node.
    pub at: Duration,
    /// Reason.
    pub why: Why,
}

/// Reason for dropping a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It did not answer for a long time.
    Silent,
    /// It had failed and was evicted for another peer.
    Displaced,
    /// It was unreachable and has moved.
    Moved,
}

/// Reason for not adding a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is this node.
    Local,
    /// Its address or network has no free slot.
    Crowded,
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

/// Returns whether an address is private, link-local or loopback.
pub fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_private() || ip.is_loopback() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_loopback() || ip.is_unicast_link_local(),
    }
}

/// Returns whether an address is a unicast address of a host.
pub fn is_of_one_host(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    !ip.is_unspecified() && !ip.is_multicast() && ip != IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Returns the first address of a host's share: the IPv4 address or the IPv6 /64.
pub fn host(ip: IpAddr) -> IpAddr {
    network(ip, 32, 64)
}

impl Group {
    /// Returns the groups of an address.
    fn of(ip: IpAddr) -> impl Iterator<Item = Group> {
        let groups = match is_private(ip) {
            true => [Some(Group::Private), None],
            false => [Some(Group::Host(host(ip))), Some(Group::Network(site(ip)))],
        };
        groups.into_iter().flatten()
    }

    fn limit(self, limits: &Limits) -> usize {
        match self {
            Group::Host(_) => limits.per_address,
            Group::Network(_) => limits.per_network,
            Group::Private => limits.private,
        }
    }
}

/// Table of known peers.
#[derive(Debug)]
pub struct Nodes<T> {
    local: Address,
    limits: Limits,
    nodes: BTreeMap<Address, Node<T>>,
    /// The operator's list, which may contain this node.
    pre_trusted: BTreeSet<Address>,
    /// Number of peers per group, without pre-trusted ones.
    groups: BTreeMap<Group, usize>,
    /// Peers that had not answered at the last pruning, nor since.
    candidates: BTreeSet<Address>,
    dropped: VecDeque<Dropped<T>>,
}

impl<T> Nodes<T> {
    /// Creates an empty table for the node with address `local`.
    pub fn new(local: Address, limits: Limits) -> Nodes<T> {
        Nodes {
            local,
            limits,
            nodes: BTreeMap::new(),
            pre_trusted: BTreeSet::new(),
            groups: BTreeMap::new(),
            candidates: BTreeSet::new(),
            dropped: VecDeque::new(),
        }
    }

    /// Returns the address of this node.
    pub fn local(&self) -> Address {
        self.local
    }

    /// Adds a pre-trusted peer, which counts towards [`Limits::nodes`] only. This node may be listed, but is not added.
    pub fn add_pre_trusted(&mut self, node: Address, about: T) -> Result<(), Refused> {
        if node == self.local {
            self.pre_trusted.insert(node);
            return Ok(());
        }
        if let Some(known) = self.nodes.get_mut(&node) {
            if !known.is_pre_trusted {
                known.is_pre_trusted = true;
                let ip = known.ip;
                self.leave_groups(ip);
            }
        } else if self.nodes.len() >= self.limits.nodes {
            return Err(Refused::Full);
        } else {
            self.nodes.insert(node, Node { is_pre_trusted: true, ..Node::new(about, State::Untried) });
        }
        self.pre_trusted.insert(node);
        Ok(())
    }

    /// Adds a saved peer if it is unknown; `ip` is `None` if its endpoint is a name.
    pub fn add_kept(&mut self, node: Address, ip: Option<IpAddr>, about: T) -> Result<(), Refused> {
        if self.nodes.contains_key(&node) {
            return Ok(());
        }
        if self.nodes.len() >= self.limits.nodes {
            return Err(Refused::Full);
        }
        if let Some(ip) = ip {
            self.settle(node, ip, Duration::ZERO)?;
        }
        self.nodes.insert(node, Node { ip: ip.map(|ip| ip.to_canonical()), ..Node::new(about, State::Untried) });
        Ok(())
    }

    /// Records that a peer introduced itself at `ip`, its known endpoint or that of a new peer: it becomes active with
    /// the data `about`. If its name now resolves to an address without a free slot, it becomes active with its former
    /// data.
    pub fn answered(&mut self, node: Address, ip: IpAddr, about: T, now: Duration) -> Result<(), Refused> {
        let ip = ip.to_canonical();
        self.candidates.remove(&node);
        if let Some(known) = self.nodes.get_mut(&node) {
            known.has_answered(now);
            known.introduced = Some(now);
        }
        self.settle(node, ip, now)?;
        match self.nodes.get_mut(&node) {
            Some(known) => (known.about, known.ip) = (about, Some(ip)),
            None => drop(self.nodes.insert(node, Node::introduced(about, ip, now))),
        }
        Ok(())
    }

    /// Records that an unreachable peer introduced itself at another endpoint, at `ip`. All former data are dropped.
    pub fn moved(&mut self, node: Address, ip: IpAddr, about: T, now: Duration) -> Result<(), Refused> {
        let ip = ip.to_canonical();
        self.settle(node, ip, now)?;
        self.candidates.remove(&node);
        if let Some(former) = self.nodes.insert(node, Node::introduced(about, ip, now)) {
            self.note_dropped(Dropped { address: node, node: former, at: now, why: Why::Moved });
        }
        Ok(())
    }

    /// Returns whether a peer may be probed elsewhere: not pre-trusted, and unreachable for [`BEFORE_A_MOVE`].
    pub fn may_move(&self, node: &Address, now: Duration) -> bool {
        let is_gone = |since: Duration| now.saturating_sub(since) >= BEFORE_A_MOVE;
        self.nodes.get(node).is_some_and(|node| !node.is_pre_trusted && node.fails_since.is_some_and(is_gone))
    }

    /// Records that nothing answered at a peer's known endpoint, and starts its unreachable time unless it is running.
    pub fn unreached(&mut self, node: &Address, now: Duration) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.unreached = Some(now);
            node.fails_since = node.fails_since.or(Some(now));
        }
    }

    /// Returns whether a peer may move and a probe of its known endpoint has just failed.
    pub fn may_move_at_once(&self, node: &Address, now: Duration) -> bool {
        let is_new = |unreached: Duration| now.saturating_sub(unreached) < BETWEEN_SIGNS_ELSEWHERE;
        self.may_move(node, now) && self.nodes.get(node).is_some_and(|node| node.unreached.is_some_and(is_new))
    }

    /// Returns whether a sign of life from this host causes a probe there at once although a probe of the known
    /// endpoint has just failed, and records it: if the peer may move, or if it is known there (`is_there`) and has not
    /// answered since the start. At most once per [`BETWEEN_SIGNS`] and host, unless another host's sign comes between.
    pub fn ask_at_once_after_sign(&mut self, node: &Address, host: IpAddr, is_there: bool, now: Duration) -> bool {
        let may_move = !is_there && self.may_move_at_once(node, now);
        let is_asked =
            |node: &&mut Node<T>| may_move || (is_there && !node.is_pre_trusted && node.last_contact.is_none());
        let Some(node) = self.nodes.get_mut(node).filter(is_asked) else { return false };
        let is_other = |(last, asked)| last != host || now.saturating_sub(asked) >= BETWEEN_SIGNS;
        let may = node.asked_at_once.is_none_or(is_other);
        if may {
            node.asked_at_once = Some((host, now));
        }
        may
    }

    /// Records a valid signed message of a peer, which becomes active if it ever introduced itself. Returns whether it
    /// was inactive.
    pub fn is_alive(&mut self, node: &Address, now: Duration) -> bool {
        let Some(known) = self.nodes.get_mut(node).filter(|known| known.last_contact.is_some()) else { return false };
        let is_back = known.state != State::Active;
        known.has_answered(now);
        self.candidates.remove(node);
        is_back
    }

    /// Records a failed contact. Ignores unknown peers.
    pub fn failed(&mut self, node: &Address, trouble: Trouble, reason: &str, now: Duration) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.has_failed(trouble, reason, now);
        }
    }

    /// Counts a synchronisation with a peer.
    pub fn synchronising(&mut self, node: &Address) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.synchronisations = node.synchronisations.saturating_add(1);
        }
    }

    /// Prefers other sync peers until the given time.
    pub fn let_rest(&mut self, node: &Address, until: Duration) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.rests_until = node.rests_until.max(until);
        }
    }

    /// Returns whether other sync peers are preferred.
    pub fn is_resting(&self, node: &Address, now: Duration) -> bool {
        self.nodes.get(node).is_some_and(|node| now < node.rests_until)
    }

    /// Returns whether a peer may be contacted: it is not this node, and is unknown or not backed off.
    pub fn may_be_contacted(&self, node: &Address, now: Duration) -> bool {
        *node != self.local
            && self.nodes.get(node).is_none_or(|node| !node.state.is_shunned() || node.look_again <= now)
    }

    /// Returns at most `most` peers to probe: failed ones, then those that have not introduced themselves for
    /// [`BEFORE_A_LOOK`], each kind in turn.
    pub fn to_look_at_again(&self, now: Duration, most: usize, share: usize) -> Vec<Address> {
        let due = |node: &Node<T>| {
            let next_look = node.next_look().filter(|next_look| *next_look <= now)?;
            Some((node.state == State::Active, next_look))
        };
        self.in_turn(due, most, share)
    }

    /// Returns at most `most` active peers, except `drawn`, whose last sign of life is [`BETWEEN_OWN_SIGNS`] old.
    pub fn to_give_sign(&self, drawn: &[Address], now: Duration, most: usize, share: usize) -> Vec<Address> {
        let due = |node: &Node<T>| {
            let is_due = node.state == State::Active && node.given_sign + BETWEEN_OWN_SIGNS <= now;
            is_due.then_some(node.given_sign)
        };
        let mut nodes = self.in_turn(due, most.saturating_add(drawn.len()), share);
        nodes.retain(|node| !drawn.contains(node));
        nodes.truncate(most);
        nodes
    }

    /// Records that a sign of life was sent to a peer.
    pub fn sign_given(&mut self, node: &Address, now: Duration) {
        self.nodes.get_mut(node).into_iter().for_each(|node| node.given_sign = now);
    }

    /// Returns at most `most` peers in the order of the key that `due` returns, pre-trusted ones first, and at most
    /// `share` of one network as long as there are others. Linear in the table.
    fn in_turn<D: Ord>(&self, due: impl Fn(&Node<T>) -> Option<D>, most: usize, share: usize) -> Vec<Address> {
        let waiting = self.nodes.iter().filter_map(|(address, node)| {
            let ip = node.ip.filter(|ip| !node.is_pre_trusted && !is_private(*ip));
            Some((!node.is_pre_trusted, due(node)?, *address, ip.map(site)))
        });
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort_unstable();
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        let (mut first, beyond): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(.., network)| {
            network.is_none_or(|network| {
                let count = counts.entry(network).or_default();
                *count += 1;
                *count <= share
            })
        });
        first.extend(beyond);
        first.truncate(most);
        first.into_iter().map(|(_, _, address, _)| address).collect()
    }

    /// Returns whether a peer's sign of life causes a probe in spite of backoff, and records it: at most once per
    /// [`BETWEEN_SIGNS`], or [`BETWEEN_SIGNS_ELSEWHERE`] if the peer may move.
    pub fn look_after_sign(&mut self, node: &Address, now: Duration) -> bool {
        let rest = if self.may_move(node, now) { BETWEEN_SIGNS_ELSEWHERE } else { BETWEEN_SIGNS };
        let Some(node) = self.nodes.get_mut(node) else { return false };
        let may = node.looked.is_none_or(|looked| now.saturating_sub(looked) >= rest);
        if may {
            node.looked = Some(now);
        }
        may
    }

    /// Drops peers that had not answered at the last pruning, nor since, and returns their number. Pre-trusted peers
    /// stay, and so do saved peers that have not answered since the start.
    pub fn prune(&mut self, now: Duration) -> usize {
        let silent: BTreeSet<_> = self
            .nodes
            .iter()
            .filter(|(_, node)| !node.is_pre_trusted && node.last_contact.is_some() && node.state != State::Active)
            .map(|(address, _)| *address)
            .collect();
        let gone: Vec<_> = silent.intersection(&self.candidates).copied().collect();
        gone.iter().for_each(|node| self.forget(*node, Why::Silent, now));
        self.candidates = silent.into_iter().filter(|node| self.nodes.contains_key(node)).collect();
        gone.len()
    }

    /// Returns the entry of a peer.
    pub fn get(&self, node: &Address) -> Option<&Node<T>> {
        self.nodes.get(node)
    }

    /// Returns the caller's data about a peer.
    pub fn about_mut(&mut self, node: &Address) -> Option<&mut T> {
        self.nodes.get_mut(node).map(|node| &mut node.about)
    }

    /// Returns whether a peer answered at the last contact.
    pub fn is_active(&self, node: &Address) -> bool {
        self.nodes.get(node).is_some_and(|node| node.state == State::Active)
    }

    /// Returns all entries in order of address.
    pub fn iter(&self) -> impl Iterator<Item = (&Address, &Node<T>)> {
        self.nodes.iter()
    }

    /// Returns the entries with one state, in order of address.
    pub fn in_state(&self, state: State) -> impl Iterator<Item = (&Address, &Node<T>)> {
        self.nodes.iter().filter(move |(_, node)| node.state == state)
    }

    /// Returns the number of peers.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the usage of the table, and of the fullest group of each kind.
    pub fn loads(&self) -> [Load; 5] {
        let fullest = |is_one: fn(&Group) -> bool| {
            let counts = self.groups.iter().filter(|(group, _)| is_one(group)).map(|(_, count)| *count);
            counts.max().unwrap_or(0)
        };
        let Limits { nodes, per_address, per_network, private } = self.limits;
        [
            Load::new("known nodes", self.nodes.len(), nodes),
            Load::new("nodes of one address", fullest(|group| matches!(group, Group::Host(_))), per_address),
            Load::new("nodes of one network", fullest(|group| matches!(group, Group::Network(_))), per_network),
            Load::new("nodes of private networks", fullest(|group| matches!(group, Group::Private)), private),
            Load::new("nodes that were dropped", self.dropped.len(), MAX_DROPPED),
        ]
    }

    /// Returns the operator's list, which may contain this node.
    pub fn pre_trusted(&self) -> &BTreeSet<Address> {
        &self.pre_trusted
    }

    /// Returns the peers for a trust calculation, without this node: active ones, busy ones that have answered before
    /// or are pre-trusted, and untried pre-trusted ones.
    pub fn for_trust(&self) -> Vec<Address> {
        let is_met = |node: &Node<T>| node.is_pre_trusted || node.last_contact.is_some();
        [State::Active, State::Busy, State::Untried]
            .into_iter()
            .flat_map(|state| self.in_state(state).filter(|(_, node)| is_met(node)).map(|(address, _)| *address))
            .collect()
    }

    /// Returns the peers that were dropped last, oldest first.
    pub fn dropped(&self) -> impl Iterator<Item = &Dropped<T>> {
        self.dropped.iter()
    }

    /// Counts a peer towards the groups of its address; evicts a peer if one is full.
    fn settle(&mut self, node: Address, ip: IpAddr, now: Duration) -> Result<(), Refused> {
        if node == self.local {
            return Err(Refused::Local);
        }
        let former = match self.nodes.get(&node) {
            Some(known) if known.is_pre_trusted || known.ip == Some(ip) => return Ok(()),
            known => known.and_then(|known| known.ip),
        };
        // At most one peer is evicted: an eviction from a host also frees a slot of its network and of the table.
        for group in Group::of(ip) {
            let stays = former.is_some_and(|former| Group::of(former).any(|other| other == group));
            let count = self.groups.get(&group).copied().unwrap_or(0);
            if count >= group.limit(&self.limits) && !stays {
                self.displace(Some(group), now).ok_or(Refused::Crowded)?;
            }
        }
        if self.nodes.len() >= self.limits.nodes && !self.nodes.contains_key(&node) {
            self.displace(None, now).ok_or(Refused::Full)?;
        }
        self.leave_groups(former);
        Group::of(ip).for_each(|group| *self.groups.entry(group).or_default() += 1);
        Ok(())
    }

    /// Drops the failed peer that answered longest ago, of a group if given. Linear in the table.
    fn displace(&mut self, group: Option<Group>, now: Duration) -> Option<()> {
        let belongs = |ip: Option<IpAddr>| {
            group.is_none_or(|group| ip.is_some_and(|ip| Group::of(ip).any(|other| other == group)))
        };
        let (victim, _) = self
            .nodes
            .iter()
            .filter(|(_, node)| !node.is_pre_trusted && node.state.is_shunned() && belongs(node.ip))
            .min_by_key(|(_, node)| node.last_contact)?;
        self.forget(*victim, Why::Displaced, now);
        Some(())
    }

    /// Removes a peer from the table.
    pub fn remove(&mut self, node: &Address) -> Option<Node<T>> {
        let known = self.nodes.remove(node)?;
        self.candidates.remove(node);
        if !known.is_pre_trusted {
            self.leave_groups(known.ip);
        }
        Some(known)
    }

    fn forget(&mut self, address: Address, why: Why, at: Duration) {
        let Some(node) = self.remove(&address) else { return };
        self.note_dropped(Dropped { address, node, at, why });
    }

    fn note_dropped(&mut self, dropped: Dropped<T>) {
        if self.dropped.len() == MAX_DROPPED {
            self.dropped.pop_front();
        }
        self.dropped.push_back(dropped);
    }

    fn leave_groups(&mut self, ip: Option<IpAddr>) {
        for group in ip.into_iter().flat_map(Group::of) {
            if let Some(count) = self.groups.get_mut(&group) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.groups.remove(&group);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
