//! The nodes that are known, and what became of the last contact with each.
//!
//! A node becomes known when it has answered, never by hearsay. Nodes of the operator's list are known from the start,
//! stay whatever happens, and are active only once they have answered. Those that are kept from before the start are
//! known where they were then, without trust, and stay until others need their places, whether they answer or not.
//!
//! **A node stays where it is known.** An answer is signed, but the signature covers only what the node was challenged with:
//! whoever passes challenges on to a node can give its answers as his own, with another endpoint in them. So an answer
//! proves that the owner of the key lives, not where. A node of the operator's list is where the operator says, for good.
//! Any other one moves only after it has been out of reach for [`BEFORE_A_MOVE`], and is a stranger where it turns up.
//!
//! **Limits.** A stranger fills an entry only by answering at an address of its own. So many nodes fit into the table
//! in all, from one address and from one network ([`Limits`]); where there is no more room, a node that cannot be
//! reached makes room for one that answers, and one that answers never does. Addresses of private networks share a
//! part of the table, whatever their network, since a whole network of nodes may live on one machine. An entry takes
//! what the caller keeps of a node and about 300 bytes.
//!
//! **A node that fails is left alone for a while**: a minute at first, and twice as long after each further failure,
//! up to an hour. NIS1 shuns it for one to two hours at once, so that one that was just restarted is lost for that
//! long, and nodes that are started together lose each other. Here a restart costs a minute, and one that is gone for
//! good six calls in the first hour and one an hour later, which is as few as with NIS1.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::load::Load;
use crate::ip::{network, site};
use crate::model::Address;

/// How long a node that has failed once is left alone.
pub const FIRST_REST: Duration = Duration::from_secs(60);
/// How long it is left alone at most.
pub const LONGEST_REST: Duration = Duration::from_secs(60 * 60);
/// Between two contacts that a shunned node brings about by a sign of life.
pub const BETWEEN_SIGNS: Duration = Duration::from_secs(60);
/// The same for one that may be elsewhere. For so long one that was asked in vain counts as not being where it is known.
pub const BETWEEN_SIGNS_ELSEWHERE: Duration = Duration::from_secs(10);
/// How long a node has been out of reach before it may be elsewhere.
pub const BEFORE_A_MOVE: Duration = Duration::from_secs(60);
/// How long after it last said who it is an active node is asked again, if it is not drawn meanwhile: nobody draws one
/// without trust, which would stay active wherever it has gone, and would never be asked whom it knows.
pub const BEFORE_A_LOOK: Duration = Duration::from_secs(5 * 60);
/// How long after a sign of life, or after the start, an active node is given the next one, if it is not drawn meanwhile.
pub const BETWEEN_OWN_SIGNS: Duration = Duration::from_secs(4 * 60);
/// Most nodes that were dropped and are still told of.
pub const MAX_DROPPED: usize = 50;
/// Most characters of a reason that are kept.
pub const MAX_REASON: usize = 128;

/// How many nodes fit into the table.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// In all, those of the operator's list among them.
    pub nodes: usize,
    /// From one IPv4 address or one /64 of IPv6, which is what a host has to itself.
    pub per_address: usize,
    /// From one /24 of IPv4 or one /48 of IPv6, which is what a site has to itself.
    pub per_network: usize,
    /// From all addresses of private networks and of this machine.
    pub private: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { nodes: 1_000, per_address: 8, per_network: 16, private: 250 }
    }
}

/// What became of the last contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It is known from the start, and there was none yet.
    Untried,
    /// It answered.
    Active,
    /// It was silent for too long, or is not ready yet.
    Busy,
    /// It could not be reached.
    Inactive,
    /// It answered wrongly or not at all.
    Failure,
}

impl State {
    /// Whether such a node is left alone for a while.
    fn is_shunned(self) -> bool {
        matches!(self, State::Inactive | State::Failure)
    }
}

/// How a contact failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Silent for too long, or not ready yet.
    Busy,
    /// Not reached.
    Inactive,
    /// Anything else.
    Failure,
}

/// The last failure of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastTrouble {
    /// When, since the start of this node.
    pub at: Duration,
    /// What kind of failure.
    pub trouble: Trouble,
    /// What it was, for people; at most [`MAX_REASON`] characters.
    pub reason: String,
}

/// A node and what became of it. `T` is what is known about it: its name, endpoint and the like.
#[derive(Clone, Debug)]
pub struct Node<T> {
    /// What is known about it.
    pub about: T,
    /// Where it answered; `None` before it did.
    pub ip: Option<IpAddr>,
    /// What became of the last contact.
    pub state: State,
    /// Whether it is on the operator's list.
    pub is_pre_trusted: bool,
    /// When it last answered, since the start of this node.
    pub last_contact: Option<Duration>,
    /// When it last said where it is known who it is, since the start of this node.
    introduced: Option<Duration>,
    /// When it was last given a sign of life, since the start of this node; zero if it never was.
    given_sign: Duration,
    /// Its last failure, whatever has been since.
    pub last_trouble: Option<LastTrouble>,
    /// Failures since it last answered.
    pub failures: u32,
    /// When the first of these failures was.
    fails_since: Option<Duration>,
    /// When the last of them was, if nothing at all answered where it is known.
    unreached: Option<Duration>,
    /// Attempts to synchronise with it.
    pub synchronisations: u32,
    /// When one that has failed is looked at again.
    look_again: Duration,
    /// When a failure or a sign of life last led to a look at it.
    looked: Option<Duration>,
    /// The host at which a sign of life had it asked at once, just after it was asked in vain, and when.
    asked_at_once: Option<(IpAddr, Duration)>,
    /// Until when the chain is synchronised with others rather than with it.
    rests_until: Duration,
}

impl<T> Node<T> {
    /// One that was not known where it has just said who it is.
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

    /// When one that has failed is looked at again of its own accord.
    pub fn asked_again(&self) -> Option<Duration> {
        (!matches!(self.state, State::Untried | State::Active)).then_some(self.look_again)
    }

    /// When it is looked at again whether it is drawn or not; `None` if it was never tried.
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

/// How long a node is left alone that has failed `before` times before, since it last answered.
fn rest(before: u32) -> Duration {
    let factor = 2_u32.checked_pow(before).unwrap_or(u32::MAX);
    FIRST_REST.saturating_mul(factor).min(LONGEST_REST)
}

/// A node that is known no more.
#[derive(Clone, Debug)]
pub struct Dropped<T> {
    /// Which one.
    pub address: Address,
    /// What was known of it at last.
    pub node: Node<T>,
    /// When, since the start of this node.
    pub at: Duration,
    /// Why.
    pub why: Why,
}

/// Why a node is known no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It did not answer for a long time.
    Silent,
    /// It was not to be reached, and another took its place.
    Displaced,
    /// It was not to be reached, and is elsewhere now.
    Moved,
}

/// Why a node is not taken into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is this node itself.
    Local,
    /// There are too many nodes from its address or its network.
    Crowded,
    /// There are too many nodes.
    Full,
}

/// Who shares a part of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// A host, by the first address that it has.
    Host(IpAddr),
    /// A network, by its first address.
    Network(IpAddr),
    /// All private addresses.
    Private,
}

/// Whether an address is of a private network or of this machine.
pub fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_private() || ip.is_loopback() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_loopback() || ip.is_unicast_link_local(),
    }
}

/// Whether an address is that of one host.
pub fn is_of_one_host(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    !ip.is_unspecified() && !ip.is_multicast() && ip != IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// The first address that a host has to itself.
pub fn host(ip: IpAddr) -> IpAddr {
    network(ip, 32, 64)
}

impl Group {
    /// Those that an address belongs to.
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

/// The table of nodes.
#[derive(Debug)]
pub struct Nodes<T> {
    local: Address,
    limits: Limits,
    nodes: BTreeMap<Address, Node<T>>,
    /// The operator's list; this node may be on it.
    pre_trusted: BTreeSet<Address>,
    /// Nodes of each group that are in the table and not on the operator's list.
    groups: BTreeMap<Group, usize>,
    /// Nodes that did not answer when the table was last pruned, nor since.
    candidates: BTreeSet<Address>,
    dropped: VecDeque<Dropped<T>>,
}

impl<T> Nodes<T> {
    /// An empty table of the node with this address.
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

    /// The node that this table belongs to.
    pub fn local(&self) -> Address {
        self.local
    }

    /// Takes a node of the operator's list. It counts towards the limit in all only. This node itself may be on the
    /// list; it does not come into the table.
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

    /// Takes a node that was known before the start, if it is not known yet, with its address, if it was not reached by a
    /// name.
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

    /// A node answered at `ip`, where it is known or was not known before: it is active from now on, and `about` is what is
    /// known about it. One whose name stands for another address, where there is no room, becomes active all the same; what
    /// was known about it stays.
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

    /// A node that is out of reach where it was known answered elsewhere, at `ip`. Nothing of what was known stays.
    pub fn moved(&mut self, node: Address, ip: IpAddr, about: T, now: Duration) -> Result<(), Refused> {
        let ip = ip.to_canonical();
        self.settle(node, ip, now)?;
        self.candidates.remove(&node);
        if let Some(former) = self.nodes.insert(node, Node::introduced(about, ip, now)) {
            self.note_dropped(Dropped { address: node, node: former, at: now, why: Why::Moved });
        }
        Ok(())
    }

    /// Whether a node may be asked elsewhere if it does not answer where it is known: it is not of the operator's list, and
    /// has been out of reach for [`BEFORE_A_MOVE`].
    pub fn may_move(&self, node: &Address, now: Duration) -> bool {
        let is_gone = |since: Duration| now.saturating_sub(since) >= BEFORE_A_MOVE;
        self.nodes.get(node).is_some_and(|node| !node.is_pre_trusted && node.fails_since.is_some_and(is_gone))
    }

    /// Nothing answered where a node is known. It has been out of reach since then if it was not before, whoever told of it.
    pub fn unreached(&mut self, node: &Address, now: Duration) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.unreached = Some(now);
            node.fails_since = node.fails_since.or(Some(now));
        }
    }

    /// Whether a node may move, and was just asked in vain where it is known.
    pub fn may_move_at_once(&self, node: &Address, now: Duration) -> bool {
        let is_new = |unreached: Duration| now.saturating_sub(unreached) < BETWEEN_SIGNS_ELSEWHERE;
        self.may_move(node, now) && self.nodes.get(node).is_some_and(|node| node.unreached.is_some_and(is_new))
    }

    /// Whether a sign of life from this host leads to a question there although the node was just asked in vain where it is
    /// known: since it may move, or has not answered since the start and `is_there`, where it is known. That counts as asked
    /// then: from one host at most once in [`BETWEEN_SIGNS`], unless another one gives signs in between.
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

    /// Something of a node was just accepted: an answer, or what it has sent. It is active, if it has ever said where it is known
    /// who it is. Says whether it was not.
    pub fn is_alive(&mut self, node: &Address, now: Duration) -> bool {
        let Some(known) = self.nodes.get_mut(node).filter(|known| known.last_contact.is_some()) else { return false };
        let is_back = known.state != State::Active;
        known.has_answered(now);
        self.candidates.remove(node);
        is_back
    }

    /// A contact with a node failed. One that is not known stays so.
    pub fn failed(&mut self, node: &Address, trouble: Trouble, reason: &str, now: Duration) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.has_failed(trouble, reason, now);
        }
    }

    /// Takes note of an attempt to synchronise with a node.
    pub fn synchronising(&mut self, node: &Address) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.synchronisations = node.synchronisations.saturating_add(1);
        }
    }

    /// The chain is to be synchronised with others rather than with this node for a while.
    pub fn let_rest(&mut self, node: &Address, until: Duration) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.rests_until = node.rests_until.max(until);
        }
    }

    /// Whether the chain is to be synchronised with others rather than with a node.
    pub fn is_resting(&self, node: &Address, now: Duration) -> bool {
        self.nodes.get(node).is_some_and(|node| now < node.rests_until)
    }

    /// Whether a node may be contacted of its own accord: one that is unknown, or is not left alone at the moment, and
    /// is not this one.
    pub fn may_be_contacted(&self, node: &Address, now: Duration) -> bool {
        *node != self.local
            && self.nodes.get(node).is_none_or(|node| !node.state.is_shunned() || node.look_again <= now)
    }

    /// Nodes that are to be looked at again, at most `most`: those that have failed, then those that have not said who they
    /// are for [`BEFORE_A_LOOK`], each kind in turn.
    pub fn to_look_at_again(&self, now: Duration, most: usize, share: usize) -> Vec<Address> {
        let due = |node: &Node<T>| {
            let next_look = node.next_look().filter(|next_look| *next_look <= now)?;
            Some((node.state == State::Active, next_look))
        };
        self.in_turn(due, most, share)
    }

    /// Active nodes besides those that are `drawn` that are to be given a sign of life, at most `most`: they were given none
    /// for [`BETWEEN_OWN_SIGNS`].
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

    /// A node is given a sign of life.
    pub fn sign_given(&mut self, node: &Address, now: Duration) {
        self.nodes.get_mut(node).into_iter().for_each(|node| node.given_sign = now);
    }

    /// The nodes for which `due` tells a place in a queue, at most `most`, those of the operator's list before others, and
    /// as long as there are nodes of other networks at most `share` of one. Looks through the whole table.
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

    /// Whether a sign of life of this node leads to a look at it, although it may be left alone otherwise, which then counts
    /// as taken: at most once in [`BETWEEN_SIGNS`], or in [`BETWEEN_SIGNS_ELSEWHERE`] if it may move.
    pub fn look_after_sign(&mut self, node: &Address, now: Duration) -> bool {
        let rest = if self.may_move(node, now) { BETWEEN_SIGNS_ELSEWHERE } else { BETWEEN_SIGNS };
        let Some(node) = self.nodes.get_mut(node) else { return false };
        let may = node.looked.is_none_or(|looked| now.saturating_sub(looked) >= rest);
        if may {
            node.looked = Some(now);
        }
        may
    }

    /// Forgets nodes that did not answer at the last pruning and have not since. Those of the operator's list stay, and
    /// those that are kept from before the start and have not answered since. Returns how many went.
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

    /// What is known of a node.
    pub fn get(&self, node: &Address) -> Option<&Node<T>> {
        self.nodes.get(node)
    }

    /// What the caller keeps of a node.
    pub fn about_mut(&mut self, node: &Address) -> Option<&mut T> {
        self.nodes.get_mut(node).map(|node| &mut node.about)
    }

    /// Whether a node answered at the last contact.
    pub fn is_active(&self, node: &Address) -> bool {
        self.nodes.get(node).is_some_and(|node| node.state == State::Active)
    }

    /// All nodes in the order of their addresses.
    pub fn iter(&self) -> impl Iterator<Item = (&Address, &Node<T>)> {
        self.nodes.iter()
    }

    /// Nodes in one state, in the order of their addresses.
    pub fn in_state(&self, state: State) -> impl Iterator<Item = (&Address, &Node<T>)> {
        self.nodes.iter().filter(move |(_, node)| node.state == state)
    }

    /// How many nodes are known.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How full the table is, and the fullest of its groups of each kind.
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

    /// The operator's list, on which this node may be.
    pub fn pre_trusted(&self) -> &BTreeSet<Address> {
        &self.pre_trusted
    }

    /// The nodes for which trust is calculated, without this one: those that answered, those that are busy and have answered
    /// before or are on the operator's list, and those on it that were not tried yet.
    pub fn for_trust(&self) -> Vec<Address> {
        let is_met = |node: &Node<T>| node.is_pre_trusted || node.last_contact.is_some();
        [State::Active, State::Busy, State::Untried]
            .into_iter()
            .flat_map(|state| self.in_state(state).filter(|(_, node)| is_met(node)).map(|(address, _)| *address))
            .collect()
    }

    /// The nodes that were dropped last, the oldest first.
    pub fn dropped(&self) -> impl Iterator<Item = &Dropped<T>> {
        self.dropped.iter()
    }

    /// Counts a node towards the groups of its address, in which there must be room.
    fn settle(&mut self, node: Address, ip: IpAddr, now: Duration) -> Result<(), Refused> {
        if node == self.local {
            return Err(Refused::Local);
        }
        let former = match self.nodes.get(&node) {
            Some(known) if known.is_pre_trusted || known.ip == Some(ip) => return Ok(()),
            known => known.and_then(|known| known.ip),
        };
        // At most one node is displaced: whoever leaves a host leaves its network and the table too.
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

    /// Drops the node that has been out of reach longest, of a group if one is named. Looks through the whole table.
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

    /// Takes a node out of the table.
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
