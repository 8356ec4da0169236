//! The accounts of a chain: their roles, and a lower bound of their balances.

use nisd::crypto::KeyPair;
use nisd::model::units::MICRO;
use nisd::model::{Address, Height};

use super::plan::{EXCHANGES, Plan, unit};
use crate::common::Random;
use crate::common::private_network::{TOTAL, address, key_pair};

/// Number of accounts that make the blocks; they come first.
pub const HARVESTERS: usize = 3;
/// Balance of each harvester in whole units.
const HARVESTER_BALANCE: u64 = 1_000_000_000;
/// Balances in whole units in a chain of the public network's shape: of all harvesters, of all exchanges, and the least
/// and the greatest of others.
const ALL_HARVESTERS_BALANCE: u64 = 4_050_000_000;
const ALL_EXCHANGES_BALANCE: u64 = 2_000_000_000;
const STAKES: [u64; 2] = [15_000, 5_000_000];
/// Micro-units that an account keeps in such a chain once it has them, so that it stays eligible for importance.
const KEPT: u64 = 10_500 * MICRO;
/// Attempts to find an account that can pay.
const TRIES: usize = 10_000;

/// The role of an account, which determines what it may do without being rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Pays and is paid.
    Ordinary,
    /// Pays and is paid much more often, also several times in a block.
    Exchange,
    /// Also owns namespaces and mosaics.
    NamespaceOwner,
    /// Owns a permanent namespace and keeps its balance for that.
    Founder,
    /// Also signs for multisig accounts.
    Cosignatory,
    /// Signs nothing itself.
    Multisig,
    /// Also delegates its importance.
    Delegator,
    /// Makes blocks, and pays nobody.
    Harvester,
    /// Harvests for another account, and does nothing else.
    Remote,
}

/// Roles that pay others.
pub const PAYERS: [Role; 5] =
    [Role::Ordinary, Role::Exchange, Role::NamespaceOwner, Role::Cosignatory, Role::Delegator];

/// An account.
pub struct GeneratedAccount {
    pub keys: KeyPair,
    pub address: Address,
    /// Lower bound of its balance in micro-units.
    pub balance: u64,
    pub role: Role,
    /// The last block with a transaction that it signed: except for exchanges, an account signs at most once per block.
    last_signed: Height,
    /// Number of transactions that it signed, and payments that it received.
    transactions: u32,
}

/// All accounts: those of the nemesis block, those that appear later, and remotes.
pub struct Accounts {
    all: Vec<GeneratedAccount>,
    /// Number of harvesters that are not paid; `None` if accounts do not have the roles of the public network's.
    unpaid: Option<usize>,
    /// Number of accounts that the nemesis block funds.
    funded: usize,
    /// Number of accounts that were paid so far.
    known: usize,
    /// The first remote, and the first unused one.
    first_remote: usize,
    next_remote: usize,
}

impl Accounts {
    /// Returns all accounts as they are after the nemesis block.
    pub fn new(plan: &Plan, random: &mut Random) -> Accounts {
        let keys = (1..=plan.accounts as u64).map(key_pair);
        let person = |keys: KeyPair| GeneratedAccount {
            address: address(&keys),
            keys,
            balance: 0,
            role: Role::Ordinary,
            last_signed: Height(0),
            transactions: 0,
        };
        let mut all: Vec<GeneratedAccount> = keys.map(person).collect();
        let funded = plan.funded();
        let unpaid = plan.scale.map(|_| plan.harvesters());
        let begin = if unpaid.is_some() { begin_as_public } else { begin_evenly };
        begin(plan, &mut all[..funded], random);
        let first_remote = plan.accounts - plan.remotes();
        all[first_remote..].iter_mut().for_each(|person| person.role = Role::Remote);
        Accounts { all, unpaid, funded, known: funded, first_remote, next_remote: first_remote }
    }

    /// Iterates over the addresses and micro-units that the nemesis block funds.
    pub fn funded(&self) -> impl Iterator<Item = (Address, u64)> {
        self.all[..self.funded].iter().map(|person| (person.address, person.balance))
    }

    pub fn get(&self, place: usize) -> &GeneratedAccount {
        &self.all[place]
    }

    pub fn get_mut(&mut self, place: usize) -> &mut GeneratedAccount {
        &mut self.all[place]
    }

    /// Returns the first account that only harvests for another.
    pub fn first_remote(&self) -> usize {
        self.first_remote
    }

    /// Returns the number of accounts that have not been paid yet.
    pub fn unseen(&self) -> usize {
        self.first_remote - self.known
    }

    /// Returns the number of accounts that were in a transaction so far.
    pub fn seen(&self) -> usize {
        self.known + self.next_remote.min(self.all.len()) - self.first_remote
    }

    /// Returns an account that is paid for the first time.
    pub fn newcomer(&mut self) -> usize {
        self.known += 1;
        self.all[self.known - 1].transactions += 1;
        self.known - 1
    }

    /// Returns an unused remote, if there is one.
    pub fn take_remote(&mut self) -> Option<usize> {
        let remote = self.next_remote;
        self.next_remote += 1;
        (remote < self.all.len()).then_some(remote)
    }

    /// Returns an account to pay; some are paid much more often than others.
    pub fn payee(&mut self, random: &mut Random) -> usize {
        let found = self.skewed(random);
        self.all[found].transactions += 1;
        found
    }

    /// Returns a known account, some much more often than others: by Zipf's law in a chain of the public network's shape.
    fn skewed(&self, random: &mut Random) -> usize {
        match self.unpaid {
            None => skewed(random, self.known),
            Some(unpaid) => unpaid + ((self.known - unpaid) as f64).powf(unit(random)) as usize - 1,
        }
    }

    /// Returns whether an account can sign in this block and has this many micro-units.
    pub fn can_pay(&self, place: usize, height: Height, micro: u64) -> bool {
        let person = &self.all[place];
        let signs = !matches!(person.role, Role::Multisig | Role::Harvester | Role::Remote);
        signs && !self.has_signed(place, height) && person.balance >= micro
    }

    /// Returns an account with one of these roles that can pay this many micro-units.
    pub fn payer(&self, random: &mut Random, height: Height, micro: u64, roles: &[Role]) -> usize {
        self.search(roles, height, micro, || self.skewed(random))
    }

    /// Returns an ordinary account that can pay this many micro-units, to give it another role.
    pub fn ordinary(&self, random: &mut Random, height: Height, micro: u64) -> usize {
        let roles = [Role::Ordinary];
        match self.unpaid {
            None => self.payer(random, height, micro, &roles),
            // Those that pay most go on with that.
            Some(unpaid) => self
                .search(&roles, height, micro, || unpaid + EXCHANGES + random.below(self.known - unpaid - EXCHANGES)),
        }
    }

    fn search(&self, roles: &[Role], height: Height, micro: u64, mut draw: impl FnMut() -> usize) -> usize {
        let fits = |place: usize| roles.contains(&self.all[place].role) && self.keeps_enough(place, micro);
        let found = (0..TRIES).map(|_| draw()).find(|place| fits(*place) && self.can_pay(*place, height, micro));
        found.expect("there is somebody who can pay")
    }

    /// Returns whether an account stays eligible if it is and pays this many micro-units.
    fn keeps_enough(&self, place: usize, micro: u64) -> bool {
        let balance = self.all[place].balance;
        self.unpaid.is_none() || balance < KEPT || balance >= KEPT + micro
    }

    /// Records that an account signs in this block.
    pub fn sign(&mut self, place: usize, height: Height) {
        assert!(!self.has_signed(place, height), "nobody signs twice in a block");
        let person = &mut self.all[place];
        person.last_signed = height;
        person.transactions += 1;
    }

    /// Returns whether an account has signed in this block.
    pub fn has_signed(&self, place: usize, height: Height) -> bool {
        let person = &self.all[place];
        person.last_signed >= height && person.role != Role::Exchange
    }

    /// Returns the numbers of transactions of all accounts that have some, in descending order.
    pub fn activities(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.all.iter().map(|person| person.transactions).filter(|count| *count > 0).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        all
    }

    /// Moves micro-units.
    pub fn pay(&mut self, from: usize, to: usize, micro: u64) {
        self.spend(from, micro);
        self.all[to].balance += micro;
    }

    /// Subtracts micro-units.
    pub fn spend(&mut self, from: usize, micro: u64) {
        let balance = &mut self.all[from].balance;
        *balance = balance.checked_sub(micro).expect("enough");
    }
}

/// Returns a number below `end`, small ones far more often.
pub fn skewed(random: &mut Random, end: usize) -> usize {
    let even = unit(random);
    (end as f64 * even * even * even) as usize
}

/// Gives roles and balances to funded accounts: a third of the currency to each harvester, and the rest to all others.
fn begin_evenly(_: &Plan, funded: &mut [GeneratedAccount], random: &mut Random) {
    let each = (TOTAL - HARVESTERS as u64 * HARVESTER_BALANCE) / (funded.len() - HARVESTERS) as u64;
    for (place, person) in funded.iter_mut().enumerate() {
        let is_harvester = place < HARVESTERS;
        let units = if is_harvester { HARVESTER_BALANCE } else { each / 4 + random.next() % (each * 3 / 4) };
        person.balance = units * MICRO;
        person.role = if is_harvester { Role::Harvester } else { Role::Ordinary };
    }
}

/// Gives roles and balances to funded accounts as in the public network: to harvesters, then exchanges, then others.
fn begin_as_public(plan: &Plan, funded: &mut [GeneratedAccount], random: &mut Random) {
    let (harvesters, others) = funded.split_at_mut(plan.harvesters());
    let (exchanges, others) = others.split_at_mut(EXCHANGES);
    share_out(harvesters, Role::Harvester, ALL_HARVESTERS_BALANCE, 10);
    share_out(exchanges, Role::Exchange, ALL_EXCHANGES_BALANCE, 1);
    let [least, most] = STAKES;
    others
        .iter_mut()
        .for_each(|person| person.balance = most.min((least as f64 / (1.0 - unit(random))) as u64) * MICRO);
}

/// Gives a role to accounts, and whole units in inverse proportion to their places, of which the first is `first`.
fn share_out(accounts: &mut [GeneratedAccount], role: Role, units: u64, first: u64) {
    let part = |place: u64| 1_000_000 / (first + place);
    let parts: u64 = (0..accounts.len() as u64).map(part).sum();
    for (place, person) in (0..).zip(accounts) {
        person.balance = units * part(place) / parts * MICRO;
        person.role = role;
    }
}
