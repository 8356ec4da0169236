//! The accounts of a chain: their roles, and a lower bound of their balances.

use nisd::crypto::KeyPair;
use nisd::model::units::MICRO;
use nisd::model::{Address, Height};

use super::plan::Plan;
use crate::common::Random;
use crate::common::private_network::{TOTAL, address, key_pair};

/// Number of accounts that make the blocks; they come first.
pub const HARVESTERS: usize = 3;
/// The harvester that delegates its importance to the first remote account.
pub const DELEGATING_HARVESTER: usize = HARVESTERS - 1;
/// Balance of each harvester in whole units.
const HARVESTER_BALANCE: u64 = 1_000_000_000;
/// Attempts to find an account that can pay.
const TRIES: usize = 10_000;

/// The role of an account, which determines what it may do without being rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Pays and is paid.
    Ordinary,
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
pub const PAYERS: [Role; 4] = [Role::Ordinary, Role::NamespaceOwner, Role::Cosignatory, Role::Delegator];

/// An account.
pub struct GeneratedAccount {
    pub keys: KeyPair,
    pub address: Address,
    /// Lower bound of its balance in micro-units.
    pub balance: u64,
    pub role: Role,
    /// The last block with a transaction that it signed: an account signs at most once per block.
    last_signed: Height,
}

/// All accounts: those of the nemesis block, those that appear later, and remotes.
pub struct Accounts {
    all: Vec<GeneratedAccount>,
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
        };
        let mut all: Vec<GeneratedAccount> = keys.map(person).collect();
        let funded = plan.funded();
        let each = (TOTAL - HARVESTERS as u64 * HARVESTER_BALANCE) / (funded - HARVESTERS) as u64;
        for (place, person) in all.iter_mut().enumerate().take(funded) {
            let is_harvester = place < HARVESTERS;
            let units = if is_harvester { HARVESTER_BALANCE } else { each / 4 + random.next() % (each * 3 / 4) };
            person.balance = units * MICRO;
            person.role = if is_harvester { Role::Harvester } else { Role::Ordinary };
        }
        let first_remote = plan.accounts - plan.remotes();
        all[first_remote..].iter_mut().for_each(|person| person.role = Role::Remote);
        Accounts { all, funded, known: funded, first_remote, next_remote: first_remote }
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

    /// Returns the account that harvests for [`LENDING_HARVESTER`].
    pub fn harvesting_remote(&self) -> Option<usize> {
        (self.first_remote < self.all.len()).then_some(self.first_remote)
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
        self.known - 1
    }

    /// Returns an unused remote, if there is one.
    pub fn take_remote(&mut self) -> Option<usize> {
        let remote = self.next_remote;
        self.next_remote += 1;
        (remote < self.all.len()).then_some(remote)
    }

    /// Returns an account to pay; some are paid much more often than others.
    pub fn payee(&self, random: &mut Random) -> usize {
        skewed(random, self.known)
    }

    /// Returns whether an account can sign in this block and has this many micro-units.
    pub fn can_pay(&self, place: usize, height: Height, micro: u64) -> bool {
        let person = &self.all[place];
        let signs = !matches!(person.role, Role::Multisig | Role::Harvester | Role::Remote);
        signs && person.last_signed < height && person.balance >= micro
    }

    /// Returns an account with one of these roles that can pay this many micro-units.
    pub fn payer(&self, random: &mut Random, height: Height, micro: u64, roles: &[Role]) -> usize {
        let fits = |place: usize| roles.contains(&self.all[place].role);
        let tries = (0..TRIES).map(|_| skewed(random, self.known));
        let found = { tries }.find(|place| fits(*place) && self.can_pay(*place, height, micro));
        found.expect("there is somebody who can pay")
    }

    /// Records that an account signs in this block.
    pub fn sign(&mut self, place: usize, height: Height) {
        let person = &mut self.all[place];
        assert!(person.last_signed < height, "nobody signs twice in a block");
        person.last_signed = height;
    }

    /// Returns whether an account has signed in this block.
    pub fn has_signed(&self, place: usize, height: Height) -> bool {
        self.all[place].last_signed >= height
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
    let even = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
    (end as f64 * even * even * even) as usize
}
