//! Quotas: who is served next, and who gives way. One rule for everything scarce.
//!
//! Owners have two levels: a network (/24 of IPv4, /48 of IPv6) and in it a client (an address of IPv4, a /64 of IPv6).
//! Each owner *holds* amounts (bytes or places) and has *used* work. A [`Quota`] answers two questions:
//!
//! - **Who is served next?** Of those that wait: the network that has used least, in it the client that has used least,
//!   of its items the one that has waited longest. A turn is charged with what it cost, not counted.
//! - **Who gives way?** The network that holds most, in it the client that holds most, of its items the largest. Among
//!   equals it is the one that was inactive longest. So a newcomer always gets in, unless it holds most itself: add it
//!   first, then remove what [`Quota::gives_way`] names while there is too much.
//!
//! Usage is counted from a floor, and usage below the floor is nothing. The floor rises to a little below the usage of the
//! owner served last, by half of what an equal share of all work is, and with time: usage decays as others are served, and
//! in any case by [`DECAY_PER_SECOND`]. A newcomer begins at the floor, so those that come in great numbers do not keep out
//! those that have been there longer.
//!
//! An owner that holds nothing and whose usage has decayed is forgotten. At most [`MAX_IDLE_OWNERS`] that hold nothing are
//! remembered; beyond that the one whose usage would decay first is forgotten. Every operation takes a number of steps
//! that is logarithmic in the number of owners and items. Nothing depends on the order of a hash table.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use crate::ip::{network, site};

/// Units of usage, each about a microsecond of work, that an owner is forgiven per second: a thousandth of the processor.
pub const DECAY_PER_SECOND: u64 = 1_000;
/// Maximum usage of an owner, in units: a tenth of a second of work, which has decayed after 100 seconds.
const MAX_USED: u64 = 100 * DECAY_PER_SECOND;
/// Units by which the floor is below the usage of the owner served last. By so much those that use less than their share
/// are ahead of those that use all of it.
const CREDIT: u64 = 1_000;
/// Usage is counted in fractions of a unit, because an equal share of a short turn is less than a unit.
const SCALE: u64 = 1_024;
/// Clients that hold nothing and are remembered for their usage.
pub const MAX_IDLE_OWNERS: usize = 4_096;
/// Idle clients forgotten in one operation. More than one, so that they become fewer.
const FORGOTTEN_AT_ONCE: usize = 2;

/// A client and its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    network: Network,
    client: IpAddr,
}

/// The address of a network, and whether it is this machine, which is a network of its own.
type Network = (bool, IpAddr);

impl Owner {
    /// Returns the owner at an address: an IPv4 address, or the /64 of an IPv6 address, which its owner usually has.
    pub fn at(address: IpAddr) -> Owner {
        let client = network(address, 32, 64);
        Owner { network: (false, site(client)), client }
    }

    /// Returns this machine as an owner, by one of its own addresses.
    pub fn local(address: IpAddr) -> Owner {
        let address = address.to_canonical();
        Owner { network: (true, address), client: address }
    }

    /// Returns whether this is a client of this machine.
    pub fn is_local(&self) -> bool {
        self.network.0
    }
}

/// What a network, a client or an item holds, and what the first two have used, as their level orders them.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    held: usize,
    /// When the item that gives way first was last active; `None` if there is no item.
    since: Option<Duration>,
    /// Number of the turn for which its next item waits.
    turn: Option<u64>,
    used: u64,
    /// When the usage of a client without items has decayed.
    idle_until: Duration,
}

/// Networks, the clients of a network, or the items of a client, in both orders.
#[derive(Debug)]
struct Orders<K> {
    /// Those that hold something; the first gives way.
    by_held: BTreeSet<(Reverse<usize>, Duration, K)>,
    /// Those that wait; the first is served next.
    by_used: BTreeSet<(u64, u64, K)>,
}

impl<K> Default for Orders<K> {
    fn default() -> Self {
        Orders { by_held: BTreeSet::new(), by_used: BTreeSet::new() }
    }
}

impl<K: Copy + Ord> Orders<K> {
    /// Moves a member to its new places.
    fn replace(&mut self, key: K, before: Share, after: Share) {
        fn reorder<T: Ord>(order: &mut BTreeSet<T>, before: Option<T>, after: Option<T>) {
            if before != after {
                if let Some(before) = before {
                    order.remove(&before);
                }
                order.extend(after);
            }
        }
        let place = |share: Share| share.since.map(|since| (Reverse(share.held), since, key));
        reorder(&mut self.by_held, place(before), place(after));
        let turn = |share: Share| share.turn.map(|turn| (share.used, turn, key));
        reorder(&mut self.by_used, turn(before), turn(after));
    }

    /// Returns the member that gives way first, and when its item was last active.
    fn first_to_give_way(&self) -> Option<(Duration, K)> {
        self.by_held.first().map(|(_, since, key)| (*since, *key))
    }

    /// Returns the member that is served next, and the number of its turn.
    fn next(&self) -> Option<(u64, K)> {
        self.by_used.first().map(|(_, turn, key)| (*turn, *key))
    }

    /// Sets when the client or network that has these gives way and is served.
    fn set_share(&self, owner: &mut Share) {
        owner.since = self.first_to_give_way().map(|(since, _)| since);
        owner.turn = self.next().map(|(turn, _)| turn);
    }
}

/// The networks, or the clients of a network.
#[derive(Debug)]
struct Level<K, M> {
    members: BTreeMap<K, (Share, M)>,
    orders: Orders<K>,
    /// Usage that is nothing.
    floor: u64,
    decayed_at: Duration,
}

impl<K, M> Default for Level<K, M> {
    fn default() -> Self {
        Level { members: BTreeMap::new(), orders: Orders::default(), floor: 0, decayed_at: Duration::ZERO }
    }
}

impl<K: Copy + Ord, M: Default> Level<K, M> {
    /// Charges a member, a new one if there is none, lets `change` change it, and moves it in both orders. `change` gets the
    /// floor too, and returns whether the member stays; one that does not has neither items nor turns.
    fn update(&mut self, key: K, cost: u64, now: Duration, change: impl FnOnce(&mut Share, &mut M, u64) -> bool) {
        let passed = now.saturating_sub(self.decayed_at).as_millis() as u64 * SCALE * DECAY_PER_SECOND / 1_000;
        if passed > 0 {
            self.floor += passed;
            self.decayed_at = now;
        }
        let (share, member) = self.members.entry(key).or_default();
        let before = *share;
        share.used = share.used.max(self.floor).saturating_add(cost).min(self.floor + MAX_USED * SCALE);
        // Half of an equal share of work that was done for one member.
        let others = self.orders.by_used.len() - usize::from(before.turn.is_some());
        self.floor += cost / (2 * (1 + others as u64));
        let stays = change(share, member, self.floor);
        self.orders.replace(key, before, *share);
        if !stays {
            self.members.remove(&key);
        }
    }

    fn held(&self, key: K) -> usize {
        self.members.get(&key).map_or(0, |(share, _)| share.held)
    }
}

/// The clients of a network, each with its items.
type Clients<T> = Level<IpAddr, Orders<T>>;

/// Something that an owner holds.
#[derive(Clone, Copy, Debug)]
struct Item {
    owner: Owner,
    /// Its amount, when it was last active, and the turn for which it waits.
    share: Share,
}

/// The owners of one scarce thing, with their items and their usage. `T` identifies an item: a connection, a stream, a
/// session, a waiting block. Times are monotonic.
#[derive(Debug)]
pub struct Quota<T> {
    networks: Level<Network, Clients<T>>,
    items: BTreeMap<T, Item>,
    /// Clients without items, by the time at which their usage has decayed.
    idle: BTreeSet<(Duration, Owner)>,
    total: usize,
    last_turn: u64,
}

impl<T> Default for Quota<T> {
    fn default() -> Self {
        Quota { networks: Level::default(), items: BTreeMap::new(), idle: BTreeSet::new(), total: 0, last_turn: 0 }
    }
}

impl<T: Copy + Ord> Quota<T> {
    /// Sets what an item holds, who owns it, and that it is active now. An item that is not held yet is added; one that
    /// waits goes on waiting, also if it has a new owner.
    pub fn hold(&mut self, item: T, owner: Owner, amount: usize, now: Duration) {
        let turn = self.items.get(&item).and_then(|held| held.share.turn);
        let share = Share { held: amount, since: Some(now), turn, ..Share::default() };
        self.replace(item, Some(Item { owner, share }), now);
    }

    /// Removes an item; it waits no longer. An item that is not held is ignored.
    pub fn release(&mut self, item: T, now: Duration) {
        self.replace(item, None, now);
    }

    /// Lets an item wait for a turn, unless it waits already. An item that is not held is ignored.
    pub fn wait(&mut self, item: T, now: Duration) {
        if let Some(mut held) = self.items.get(&item).copied().filter(|held| held.share.turn.is_none()) {
            self.last_turn += 1;
            held.share.turn = Some(self.last_turn);
            self.replace(item, Some(held), now);
        }
    }

    /// Returns the item to serve next, which waits no longer. Its cost is charged to its owner when it is known, before the
    /// next call.
    pub fn next(&mut self, now: Duration) -> Option<(Owner, T)> {
        let (_, network) = self.networks.orders.next()?;
        let (share, clients) = self.networks.members.get_mut(&network)?;
        let (_, client) = clients.orders.next()?;
        let (own, items) = clients.members.get(&client)?;
        let (_, item) = items.next()?;
        // Whoever has used less than the one served now would have been served before: its usage is nothing.
        clients.floor = clients.floor.max(own.used.saturating_sub(CREDIT * SCALE));
        self.networks.floor = self.networks.floor.max(share.used.saturating_sub(CREDIT * SCALE));
        let mut held = *self.items.get(&item)?;
        held.share.turn = None;
        self.replace(item, Some(held), now);
        Some((Owner { network, client }, item))
    }

    /// Charges an owner for the cost of a turn, in units of about a microsecond.
    pub fn charge(&mut self, owner: Owner, cost: u32, now: Duration) {
        self.update(owner, u64::from(cost) * SCALE, now, None);
        self.forget_idle(now);
    }

    /// Returns the item that gives way: of the network that holds most, the client that holds most, its largest item.
    /// `None` if nothing is held.
    pub fn gives_way(&self) -> Option<(Owner, T)> {
        self.gives_way_of(self.networks.orders.first_to_give_way()?.1)
    }

    /// Returns the item that gives way in the network of an owner, for a limit of each network.
    pub fn gives_way_beside(&self, owner: Owner) -> Option<(Owner, T)> {
        self.gives_way_of(owner.network)
    }

    fn gives_way_of(&self, network: Network) -> Option<(Owner, T)> {
        let (share, clients) = self.networks.members.get(&network).filter(|(share, _)| share.held > 0)?;
        debug_assert_eq!(share.since, clients.orders.first_to_give_way().map(|(since, _)| since));
        let (_, client) = clients.orders.first_to_give_way()?;
        let (_, items) = clients.members.get(&client)?;
        items.first_to_give_way().map(|(_, item)| (Owner { network, client }, item))
    }

    /// Returns what all owners hold.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns what a client holds.
    pub fn held_by_client(&self, owner: Owner) -> usize {
        self.networks.members.get(&owner.network).map_or(0, |(_, clients)| clients.held(owner.client))
    }

    /// Returns what the network of a client holds.
    pub fn held_by_network(&self, owner: Owner) -> usize {
        self.networks.held(owner.network)
    }

    /// Returns whether an item waits for a turn.
    pub fn has_waiting(&self) -> bool {
        !self.networks.orders.by_used.is_empty()
    }

    /// Replaces an item. Its former owner, if that is another, loses it first.
    fn replace(&mut self, item: T, new: Option<Item>, now: Duration) {
        let mut old = match new {
            Some(new) => self.items.insert(item, new),
            None => self.items.remove(&item),
        };
        let share = |of: Option<Item>| of.map_or(Share::default(), |of| of.share);
        self.total = self.total - share(old).held + share(new).held;
        if let Some(lost) = old.take_if(|old| new.is_none_or(|new| new.owner != old.owner)) {
            self.update(lost.owner, 0, now, Some((item, lost.share, Share::default())));
        }
        if let Some(new) = new {
            self.update(new.owner, 0, now, Some((item, share(old), new.share)));
        }
        self.forget_idle(now);
    }

    /// Charges a client, replaces one of its items, of which it gets the shares before and after, and updates all orders.
    fn update(&mut self, owner: Owner, cost: u64, now: Duration, change: Option<(T, Share, Share)>) {
        let Quota { networks, idle, .. } = self;
        networks.update(owner.network, cost, now, |network, clients, floor_of_networks| {
            clients.update(owner.client, cost, now, |client, items, floor| {
                if client.since.is_none() {
                    idle.remove(&(client.idle_until, owner));
                }
                if let Some((item, old, new)) = change {
                    items.replace(item, old, new);
                    for share in [&mut *network, &mut *client] {
                        share.held = share.held - old.held + new.held;
                    }
                    items.set_share(client);
                }
                let own_debt = client.used.saturating_sub(floor);
                let debt = network.used.saturating_sub(floor_of_networks).max(own_debt);
                let is_idle = client.since.is_none() && debt > 0;
                if is_idle {
                    client.idle_until = now + Duration::from_micros(debt * 1_000_000 / (DECAY_PER_SECOND * SCALE));
                    idle.insert((client.idle_until, owner));
                }
                is_idle || client.since.is_some()
            });
            clients.orders.set_share(network);
            !clients.members.is_empty()
        });
    }

    /// Forgets clients without items whose usage has decayed, or if there are too many.
    fn forget_idle(&mut self, now: Duration) {
        for _ in 0..FORGOTTEN_AT_ONCE {
            let is_due = |(until, _): &(Duration, Owner)| *until <= now || self.idle.len() > MAX_IDLE_OWNERS;
            let Some((until, owner)) = self.idle.first().copied().filter(is_due) else { return };
            self.idle.remove(&(until, owner));
            self.networks.update(owner.network, 0, now, |_, clients, _| {
                clients.members.remove(&owner.client);
                !clients.members.is_empty()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Owners by network and number: 10.0.1.2 is the second client of the first network.
    fn owner(network: u8, client: u8) -> Owner {
        Owner::at([10, 0, network, client].into())
    }

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    const START: Duration = Duration::from_secs(1_000);

    #[test]
    fn the_largest_item_of_the_largest_client_of_the_largest_network_gives_way() {
        let mut quota = Quota::default();
        let items = [(1, 1, 50), (1, 2, 30), (2, 1, 40), (2, 2, 20), (2, 2, 21), (3, 9, 70)];
        for (item, (network, client, amount)) in items.into_iter().enumerate() {
            quota.hold(item, owner(network, client), amount, START);
        }
        let order = [(2, 4), (1, 0), (3, 5), (2, 2), (1, 1), (2, 3)];
        for (network, item) in order {
            let (loser, first) = quota.gives_way().unwrap();
            assert_eq!((loser.network, first), (owner(network, 0).network, item));
            quota.release(first, START);
        }
        assert!(quota.gives_way().is_none() && quota.is_empty() && quota.networks.members.is_empty());
    }

    #[test]
    fn a_newcomer_gets_in_and_the_longest_inactive_of_equals_gives_way() {
        let mut quota = Quota::default();
        (0..100).for_each(|item| quota.hold(item, owner(item, 1), 1, START + at(u64::from(item))));
        quota.hold(0, owner(0, 1), 1, START + at(200));
        for newcomer in 100..200 {
            quota.hold(newcomer, owner(newcomer, 1), 1, START + at(300));
            let (_, first) = quota.gives_way().unwrap();
            assert_eq!(first, if newcomer == 199 { 0 } else { newcomer - 99 });
            quota.release(first, START);
        }
    }

    #[test]
    fn many_clients_of_one_network_give_way_to_one_of_another() {
        let mut quota = Quota::default();
        (0..250).for_each(|item| quota.hold(u16::from(item), owner(1, item), 1, START));
        (1_000..1_005).for_each(|item| quota.hold(item, owner(2, 1), 1, START));
        for _ in 0..245 {
            let (loser, first) = quota.gives_way().unwrap();
            assert_eq!(loser.network, owner(1, 0).network);
            quota.release(first, START);
        }
        assert_eq!((quota.held_by_network(owner(1, 9)), quota.held_by_client(owner(2, 1))), (5, 5));
    }

    /// Serves turns while all of these clients wait all the time; returns the turns of each. `cost` is that of each turn.
    fn turns(clients: &[Owner], costs: &[u32], count: usize) -> Vec<usize> {
        let (mut quota, mut served) = (Quota::default(), vec![0; clients.len()]);
        for (item, client) in clients.iter().enumerate() {
            quota.hold(item, *client, 0, START);
            quota.wait(item, START);
        }
        for _ in 0..count {
            let (client, item) = quota.next(START).unwrap();
            assert_eq!(client, clients[item]);
            served[item] += 1;
            quota.charge(client, costs[item], START);
            quota.wait(item, START);
        }
        served
    }

    #[test]
    fn a_turn_is_charged_with_its_cost() {
        let (clients, costs) = ([owner(1, 1), owner(2, 1), owner(3, 1)], [1, 10, 100]);
        let served = turns(&clients, &costs, 10_000);
        let work: Vec<usize> = served.iter().zip(costs).map(|(turns, cost)| turns * cost as usize).collect();
        assert!(work.iter().max().unwrap() - work.iter().min().unwrap() < 200, "{work:?}");
    }

    #[test]
    fn networks_share_equally_however_many_clients_they_have() {
        let crowd = (0..99).map(|client| owner(1, client));
        let clients: Vec<Owner> = crowd.chain([owner(2, 1)]).collect();
        let served = turns(&clients, &[10; 100], 990);
        assert_eq!((served[99], served[..99].iter().all(|turns| *turns == 5)), (495, true));
    }

    #[test]
    fn a_client_that_uses_little_is_served_next() {
        let (mut quota, mut now) = (Quota::default(), START);
        for network in 1..=200 {
            quota.hold(network, owner(network, 1), 1, now);
            quota.wait(network, now);
        }
        quota.hold(0, owner(0, 1), 1, now);
        for turn in 0..50_000 {
            if turn % 500 == 499 {
                quota.wait(0, now);
            }
            let (client, item) = quota.next(now).unwrap();
            assert!(turn < 1_000 || (turn % 500 == 499) == (item == 0), "{turn}");
            now += at(u64::from(item != 0));
            quota.charge(client, if item == 0 { 50 } else { 1_000 }, now);
            if item != 0 {
                quota.wait(item, now);
            }
        }
    }

    #[test]
    fn those_that_come_anew_keep_out_nobody_for_longer_than_usage_takes_to_decay() {
        let (mut quota, mut now, old) = (Quota::default(), START, owner(0, 1));
        quota.hold(0, old, 1, now);
        quota.charge(old, 1_000, now);
        quota.wait(0, now);
        for newcomer in 1..200u32 {
            let client = Owner::at([11, 0, newcomer as u8, 1].into());
            quota.hold(newcomer, client, 1, now);
            quota.wait(newcomer, now);
            now += at(1);
            let (client, item) = quota.next(now).unwrap();
            if item == 0 {
                return assert!(newcomer < 8, "{newcomer}");
            }
            quota.charge(client, 1_000, now);
        }
        panic!("never served");
    }

    #[test]
    fn usage_is_forgotten_when_it_has_decayed_and_when_too_many_are_remembered() {
        let mut quota: Quota<u32> = Quota::default();
        quota.charge(owner(1, 1), 2_000, START);
        assert_eq!((quota.networks.members.len(), quota.idle.len()), (1, 1));
        quota.charge(owner(2, 1), 0, START + at(1_001));
        assert_eq!((quota.networks.members.len(), quota.idle.len()), (0, 0));
        for client in 0..100_000u32 {
            let [_, high, middle, low] = client.to_be_bytes();
            quota.charge(Owner::at([10 + high, middle, low, 1].into()), 10_000 + client, START + at(2_000));
        }
        assert_eq!((quota.networks.members.len(), quota.idle.len()), (MAX_IDLE_OWNERS, MAX_IDLE_OWNERS));
        (0..MAX_IDLE_OWNERS).for_each(|_| quota.charge(owner(1, 1), 0, START + at(200_000)));
        assert_eq!((quota.networks.members.len(), quota.idle.len()), (0, 0));
    }

    #[test]
    fn this_machine_is_a_network_of_its_own() {
        let local = Owner::local("127.0.0.1".parse().unwrap());
        let named = |text: &str| Owner::at(text.parse().unwrap());
        assert_ne!(local.network, named("127.0.0.1").network);
        assert_eq!(local, Owner::local("::ffff:127.0.0.1".parse().unwrap()));
        assert_eq!(named("2001:db8:1:2::1"), named("2001:db8:1:2:3::"));
        assert_eq!(named("2001:db8:1:2::1").network, named("2001:db8:1:ffff::").network);
        assert!(local.is_local() && !named("127.0.0.1").is_local());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Hold(u8, u8, u8, usize),
        Release(u8),
        Wait(u8),
        Serve(u32),
        Pass(u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..20u8, 0..4u8, 0..4u8, 0..5usize).prop_map(|(i, n, c, amount)| Step::Hold(i, n, c, amount)),
            1 => (0..20u8).prop_map(Step::Release),
            3 => (0..20u8).prop_map(Step::Wait),
            3 => (0..500u32).prop_map(Step::Serve),
            1 => (0..500u16).prop_map(Step::Pass),
        ]
    }

    /// What a quota should hold: the owner, the amount and the last activity of each item, and whether it waits.
    type Model = BTreeMap<u8, (Owner, usize, Duration, bool)>;

    fn sum(model: &Model, is_meant: impl Fn(&Owner) -> bool) -> usize {
        model.values().filter(|(owner, ..)| is_meant(owner)).map(|(_, amount, ..)| amount).sum()
    }

    proptest! {
        #[test]
        fn sums_orders_and_turns_agree_with_a_plain_list(steps in prop::collection::vec(step(), 1..200)) {
            let (mut quota, mut model, mut now) = (Quota::default(), Model::new(), START);
            for step in steps {
                match step {
                    Step::Hold(item, network, client, amount) => {
                        let owner = owner(network, client);
                        let waits = model.get(&item).is_some_and(|(.., waits)| *waits);
                        model.insert(item, (owner, amount, now, waits));
                        quota.hold(item, owner, amount, now);
                    }
                    Step::Release(item) => {
                        model.remove(&item);
                        quota.release(item, now);
                    }
                    Step::Wait(item) => {
                        if let Some((.., waits)) = model.get_mut(&item) {
                            *waits = true;
                        }
                        quota.wait(item, now);
                    }
                    Step::Serve(cost) => {
                        let next = quota.next(now);
                        prop_assert_eq!(next.is_some(), model.values().any(|(.., waits)| *waits));
                        if let Some((owner, item)) = next {
                            let (of, _, _, waits) = model.get_mut(&item).unwrap();
                            prop_assert!(*of == owner && std::mem::take(waits));
                            quota.charge(owner, cost, now);
                        }
                    }
                    Step::Pass(millis) => now += at(millis.into()),
                }
                prop_assert_eq!((quota.total(), quota.len()), (sum(&model, |_| true), model.len()));
                prop_assert_eq!(quota.has_waiting(), model.values().any(|(.., waits)| *waits));
                let first = quota.gives_way();
                prop_assert_eq!(first.is_some(), quota.total() > 0);
                if let Some((loser, item)) = first {
                    let of_network = |owner: Owner| sum(&model, |other| other.network == owner.network);
                    let rank = |(owner, amount, since, _): (Owner, usize, Duration, bool)| {
                        (owner == loser, amount, Reverse(since))
                    };
                    prop_assert_eq!(Some(of_network(loser)), model.values().map(|held| of_network(held.0)).max());
                    let neighbours = model.values().filter(|(owner, ..)| owner.network == loser.network);
                    let most = neighbours.map(|(owner, ..)| sum(&model, |other| other == owner)).max();
                    prop_assert_eq!(Some(sum(&model, |other| *other == loser)), most);
                    prop_assert_eq!(Some(rank(model[&item])), model.values().map(|held| rank(*held)).max());
                }
                for (owner, ..) in model.values() {
                    prop_assert_eq!(quota.held_by_client(*owner), sum(&model, |other| other == owner));
                }
            }
            model.into_keys().for_each(|item| quota.release(item, now));
            (0..20).for_each(|_| quota.charge(owner(9, 9), 0, now + Duration::from_secs(100)));
            prop_assert!(quota.idle.is_empty() && quota.networks.members.is_empty());
        }
    }
}
