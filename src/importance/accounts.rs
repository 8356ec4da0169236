//! Which accounts take part, and their order.

use std::collections::BTreeSet;

use super::allowance::{Allowance, TREE_COST};
use super::hash_order::{capacity, hash};
use crate::model::{Address, Amount, Height};

/// Vested balance from which on an account takes part.
pub const MIN_VESTED: Amount = Amount::whole(10_000);

/// Sections of a list of addresses, in its order: as an address is looked for twice for each movement of currency, it is
/// looked for among its neighbours only.
const SECTIONS: usize = 1 << 17;

/// The section of an address: 17 bits of what follows its first character, which is the same in a network.
fn section(address: &Address) -> usize {
    let digit = |place: usize| match address.as_bytes()[place] {
        digit @ b'2'..=b'7' => usize::from(digit - b'2'),
        letter => usize::from(letter.wrapping_sub(b'A') & 31).min(25) + 6,
    };
    digit(1) << 12 | digit(2) << 7 | digit(3) << 2 | digit(4) >> 3
}

/// Accounts that take part, in ascending order of their addresses.
#[derive(Debug, Default)]
pub struct Accounts {
    addresses: Vec<Address>,
    /// How many accounts come before those of each [`section`], as far as accounts have come.
    starts: Vec<u32>,
    hashes: Vec<u32>,
    vested: Vec<u64>,
    /// Per account the height or the place that orders it.
    places: Vec<u64>,
    /// Accounts that were counted, whether they take part or not.
    all: u64,
    /// Those of them, and the nemesis account, whose first height is the last block's.
    young: u64,
}

/// What decides about the order of accounts.
#[derive(Clone, Copy, Debug)]
pub enum AccountOrder {
    /// That of a node which takes in block by block: accounts that existed before the last block, by their
    /// buckets in a table of `known_accounts`, then the new ones, by their buckets in a table of their own;
    /// within a bucket the older first.
    HashTables {
        /// All account states before the last block, also those that do not take part.
        known_accounts: u64,
    },
    /// Ascending "first height", which may be any number.
    Given,
}

impl Accounts {
    /// No accounts yet, with room for `expected`.
    pub fn with_capacity(expected: usize) -> Accounts {
        Accounts {
            addresses: Vec::with_capacity(expected),
            starts: Vec::with_capacity(SECTIONS),
            hashes: Vec::with_capacity(expected),
            vested: Vec::with_capacity(expected),
            places: Vec::with_capacity(expected),
            ..Accounts::default()
        }
    }

    /// Counts an account and keeps it if it has enough. Accounts come in ascending order of address.
    pub fn add(&mut self, address: Address, vested: Amount, first_height: Height, height: Height) {
        assert!(self.addresses.last().is_none_or(|last| *last < address), "accounts come in ascending order");
        self.all += 1;
        self.young += u64::from(first_height == height);
        if vested >= MIN_VESTED {
            self.hashes.push(hash(&address));
            while self.starts.len() <= section(&address) {
                self.starts.push(self.addresses.len() as u32);
            }
            self.addresses.push(address);
            self.vested.push(vested.0);
            self.places.push(first_height.0);
        }
    }

    /// Accounts that were counted, whether they take part or not.
    pub fn all(&self) -> u64 {
        self.all
    }

    /// Accounts that take part.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// The number of an account in order of address.
    pub fn find(&self, address: &Address) -> Option<u32> {
        let section = section(address);
        let start = *self.starts.get(section)? as usize;
        let end = self.starts.get(section + 1).map_or(self.addresses.len(), |end| *end as usize);
        self.addresses[start..end].binary_search(address).ok().map(|found| (start + found) as u32)
    }

    /// Addresses in ascending order.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Where an account belongs: its group and bucket, its age, and its address.
    fn key(&self, account: usize, order: AccountOrder, height: Height) -> (u64, u64, u32) {
        let (place, hash) = (self.places[account], self.hashes[account]);
        let is_young = place == height.0;
        let bucket = match order {
            AccountOrder::Given => 0,
            AccountOrder::HashTables { .. } if is_young => {
                // The first block brings the nemesis account too.
                let new = self.young + u64::from(height == Height::NEMESIS);
                1 << 32 | u64::from(hash & (capacity(new) - 1))
            }
            AccountOrder::HashTables { known_accounts } => u64::from(hash & (capacity(known_accounts) - 1)),
        };
        (bucket, place, account as u32)
    }
}

/// Accounts being put in order.
#[derive(Debug)]
pub struct Ordering {
    sorted: BTreeSet<(u64, u64, u32)>,
    keyed: usize,
    made: Ordered,
}

/// Accounts in order, by index.
#[derive(Debug, Default)]
pub struct Ordered {
    /// Per account in order of address its index.
    pub index: Vec<u32>,
    /// Hashes of the addresses.
    pub hashes: Vec<u32>,
    /// Vested balances in micro-units.
    pub vested: Vec<f64>,
}

impl Ordering {
    /// Of `accounts` accounts.
    pub fn new(accounts: usize) -> Ordering {
        let (index, hashes) = (Vec::with_capacity(accounts), Vec::with_capacity(accounts));
        let made = Ordered { index, hashes, vested: Vec::with_capacity(accounts) };
        Ordering { sorted: BTreeSet::new(), keyed: 0, made }
    }

    /// Goes on; true when done.
    pub fn step(
        &mut self,
        accounts: &Accounts,
        order: AccountOrder,
        height: Height,
        allowance: &mut Allowance,
    ) -> bool {
        while self.keyed < accounts.len() {
            if !allowance.spend(TREE_COST) {
                return false;
            }
            self.sorted.insert(accounts.key(self.keyed, order, height));
            self.made.index.push(0);
            self.keyed += 1;
        }
        while allowance.spend(TREE_COST) {
            let Some((_, _, account)) = self.sorted.pop_first() else { return true };
            let account = account as usize;
            self.made.index[account] = self.made.hashes.len() as u32;
            self.made.hashes.push(accounts.hashes[account]);
            self.made.vested.push(accounts.vested[account] as f64);
        }
        false
    }

    /// The accounts in order, once a step has returned true.
    pub fn finish(self) -> Ordered {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::PublicKey;
    use crate::model::NetworkByte;

    #[test]
    fn accounts_are_found_by_their_addresses_and_others_are_not() {
        let address = |number: u32| {
            let mut key = [0; 32];
            key[..4].copy_from_slice(&number.to_le_bytes());
            Address::from_public_key(&PublicKey(key), NetworkByte::TESTNET)
        };
        for count in [0, 1, 2, 40, 20_000] {
            let mut all: Vec<_> = (0..count).map(address).collect();
            all.sort();
            let mut accounts = Accounts::default();
            for (place, address) in all.iter().enumerate() {
                let vested = if place % 3 == 0 { Amount(0) } else { MIN_VESTED };
                accounts.add(*address, vested, Height(1), Height(2));
            }
            let kept: Vec<_> =
                all.iter().enumerate().filter(|(place, _)| place % 3 != 0).map(|(_, one)| *one).collect();
            for (number, address) in kept.iter().enumerate() {
                assert_eq!(accounts.find(address), Some(number as u32));
            }
            let left_out = all.iter().enumerate().filter(|(place, _)| place % 3 == 0).map(|(_, one)| *one);
            for other in left_out.chain((count..count + 1_000).map(address)) {
                assert_eq!(accounts.find(&other), None);
            }
        }
    }

    #[test]
    fn sections_are_in_the_order_of_addresses() {
        let mut all: Vec<_> = (0..=255u8)
            .map(|number| Address::from_public_key(&PublicKey([number; 32]), NetworkByte::MAINNET))
            .collect();
        all.sort();
        assert!(all.iter().map(section).is_sorted());
        assert!(all.iter().all(|address| section(address) < SECTIONS));
    }
}
