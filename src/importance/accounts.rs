//! Eligible accounts and their order.

use std::collections::BTreeSet;

use super::csr::{Loop, TREE_COST};
use super::java_hash_map::{capacity, java_hash};
use crate::model::{Address, Amount, Height};

/// Width of the sections of account ids by which [`Accounts::find`] narrows its search: each outlink needs two lookups.
const SECTION: usize = 64;

/// Eligible accounts in ascending order of their ids.
#[derive(Debug, Default)]
pub struct Accounts {
    /// Vested balance in micro-units from which on an account is eligible.
    min_stake: Amount,
    /// Ids in ascending order.
    pub ids: Vec<u32>,
    addresses: Vec<Address>,
    /// Per section of ids, the number of accounts below it, up to the last account that was added.
    starts: Vec<u32>,
    hashes: Vec<u32>,
    /// Vested balances in micro-units.
    pub vested: Vec<u64>,
    /// Per account its first height, or any other sort key under [`AccountOrder::Given`].
    sort_heights: Vec<u64>,
    /// Accounts counted, eligible or not.
    pub counted: u64,
    /// Those of them whose first height is the height of the calculation. The nemesis account is not included.
    new_accounts: u64,
    keys: BTreeSet<Key>,
    /// The accounts in their final order.
    pub sorted: SortedAccounts,
}

/// Age group and bucket, first height, address, index.
type Key = (u64, u64, Address, u32);

/// Eligible accounts in their final order.
#[derive(Debug, Default)]
pub struct SortedAccounts {
    /// Per account in the order of ids, its index in the final order.
    pub index: Vec<u32>,
    /// Hashes of the addresses; then those of the ineligible recipients of outlinks.
    pub hashes: Vec<u32>,
    /// Vested balances in micro-units.
    pub vested: Vec<f64>,
}

/// How accounts are ordered. Some sums depend on the order.
#[derive(Clone, Copy, Debug)]
pub enum AccountOrder {
    /// The order of a NIS1 node that processes block by block: first the accounts older than the last block, by bucket
    /// of a hash table of `known_accounts`, then the new ones, by bucket of their own table; within a bucket by age,
    /// oldest first.
    HashTables {
        /// Number of account states before the last block, ineligible ones included.
        known_accounts: u64,
    },
    /// Ascending "first height", which may be any number.
    Given,
}

impl Accounts {
    /// Creates an empty table with capacity for `expected` accounts.
    pub fn new(min_stake: Amount, expected: usize) -> Accounts {
        Accounts {
            min_stake,
            ids: Vec::with_capacity(expected),
            addresses: Vec::with_capacity(expected),
            hashes: Vec::with_capacity(expected),
            vested: Vec::with_capacity(expected),
            sort_heights: Vec::with_capacity(expected),
            ..Accounts::default()
        }
    }

    /// Counts an account, and stores it if its vested balance suffices. Ids must be ascending.
    pub fn add(&mut self, id: u32, address: Address, vested: Amount, first_height: Height, height: Height) {
        assert!(self.ids.last().is_none_or(|last| *last < id), "accounts must be added in ascending order");
        self.skip_ineligible(1, u64::from(first_height == height));
        if vested >= self.min_stake {
            self.hashes.push(java_hash(&address));
            while self.starts.len() <= id as usize / SECTION {
                self.starts.push(self.ids.len() as u32);
            }
            self.ids.push(id);
            self.addresses.push(address);
            self.vested.push(vested.0);
            self.sort_heights.push(first_height.0);
        }
    }

    /// Counts `accounts` ineligible accounts, of which `young` are new.
    pub fn skip_ineligible(&mut self, accounts: u64, young: u64) {
        self.counted += accounts;
        self.new_accounts += young;
    }

    /// Returns the number of eligible accounts.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns the index of an eligible account in the order of ids.
    pub fn find(&self, number: u32) -> Option<u32> {
        let section = number as usize / SECTION;
        let start = *self.starts.get(section)? as usize;
        let end = self.starts.get(section + 1).map_or(self.ids.len(), |end| *end as usize);
        self.ids[start..end].binary_search(&number).ok().map(|found| (start + found) as u32)
    }

    /// Returns the sort key of an account.
    fn key(&self, account: usize, order: AccountOrder, height: Height) -> Key {
        let (place, hash) = (self.sort_heights[account], self.hashes[account]);
        let is_young = place == height.0;
        let bucket = match order {
            AccountOrder::Given => 0,
            AccountOrder::HashTables { .. } if is_young => {
                // The first block also creates the nemesis account.
                let new = self.new_accounts + u64::from(height == Height::NEMESIS);
                1 << 32 | u64::from(hash & (capacity(new) - 1))
            }
            AccountOrder::HashTables { known_accounts } => u64::from(hash & (capacity(known_accounts) - 1)),
        };
        (bucket, place, self.addresses[account], account as u32)
    }

    /// Stage: puts the accounts into a tree that sorts them.
    pub fn insert_keys(&mut self, order: AccountOrder, height: Height, work: &mut Loop) -> bool {
        if work.at == 0 {
            let (accounts, sorted) = (self.len(), &mut self.sorted);
            sorted.index = Vec::with_capacity(accounts);
            sorted.hashes = Vec::with_capacity(accounts);
            sorted.vested = Vec::with_capacity(accounts);
        }
        while work.at < self.len() {
            if !work.charge(TREE_COST) {
                return false;
            }
            self.keys.insert(self.key(work.at, order, height));
            self.sorted.index.push(0);
            work.at += 1;
        }
        true
    }

    /// Stage: takes the accounts out of the tree.
    pub fn pop_keys(&mut self, work: &mut Loop) -> bool {
        while work.charge(TREE_COST) {
            let Some((.., account)) = self.keys.pop_first() else { return true };
            let account = account as usize;
            self.sorted.index[account] = self.sorted.hashes.len() as u32;
            self.sorted.hashes.push(self.hashes[account]);
            self.sorted.vested.push(self.vested[account] as f64);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::PublicKey;
    use crate::model::NetworkByte;
    use crate::model::units::MIN_STAKE;

    #[test]
    fn only_eligible_accounts_are_found_by_id() {
        let address = Address::from_public_key(&PublicKey([1; 32]), NetworkByte::TESTNET);
        for (count, gap) in [(0, 1), (1, 1), (2, 70), (40, 3), (20_000, 1), (3_000, 50)] {
            let mut accounts = Accounts::new(MIN_STAKE, 0);
            for number in (0..count).map(|place| place * gap) {
                let vested = if number % 3 == 0 { Amount(0) } else { MIN_STAKE };
                accounts.add(number, address, vested, Height(1), Height(2));
            }
            let mut index = 0;
            for number in 0..count * gap + 200 {
                let is_kept = number % gap == 0 && number / gap < count && number % 3 != 0;
                assert_eq!(accounts.find(number), is_kept.then_some(index));
                index += u32::from(is_kept);
            }
        }
    }
}
