//! The input: eligible accounts and their order, and transfers between accounts as weighted outlinks.

use super::java_hash_map::capacity;
use super::loops::{CountingSort, Csr, Loop};
use crate::model::{Address, Amount, Height};
use crate::state::Outlink;

/// Eligible accounts in ascending order of their ids.
#[derive(Debug, Default)]
pub struct Accounts {
    /// Vested balance in micro-units from which on an account is eligible.
    min_stake: Amount,
    /// Ids in ascending order.
    pub ids: Vec<u32>,
    addresses: Vec<Address>,
    /// Per account id its number plus one among the eligible accounts and then the other recipients of outlinks; 0 if it
    /// has none. Memory that no id uses is never touched.
    pub numbers: Vec<u32>,
    hashes: Vec<u32>,
    /// Vested balances in micro-units.
    pub vested: Vec<u64>,
    /// Per account its first height.
    sort_heights: Vec<u64>,
    /// Accounts counted, eligible or not.
    pub counted: u64,
    /// Those of them whose first height is the height of the calculation. The nemesis account is not included.
    new_accounts: u64,
    /// The accounts in the order sorted so far, as one group.
    order: Vec<Vec<u32>>,
    sort: CountingSort<u32>,
    /// The accounts in their final order.
    pub sorted: SortedAccounts,
}

/// The accounts are sorted by digits of this many bits of their buckets, the lowest first: three digits hold the 30 bits
/// of the largest table, and one for the new accounts.
const DIGIT_BITS: usize = 11;

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

impl Accounts {
    /// Creates an empty table with capacity for `expected` eligible accounts, for `ids` account ids.
    pub fn new(min_stake: Amount, expected: usize, ids: usize) -> Accounts {
        Accounts {
            min_stake,
            numbers: vec![0; ids],
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
        self.counted += 1;
        self.new_accounts += u64::from(first_height == height);
        if vested >= self.min_stake {
            self.hashes.push(address.java_hash());
            self.ids.push(id);
            self.set_number(id, self.ids.len() as u32);
            self.addresses.push(address);
            self.vested.push(vested.0);
            self.sort_heights.push(first_height.0);
        }
    }

    /// Sets the number of all accounts, eligible or not, and of those that are new. Returns whether no more were added.
    pub fn set_known(&mut self, counted: u64, new_accounts: u64) -> bool {
        let fits = self.counted <= counted && self.new_accounts <= new_accounts;
        (self.counted, self.new_accounts) = (counted, new_accounts);
        fits
    }

    /// Returns the number of eligible accounts.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns the number of an account among the participants, if it has one.
    pub fn find(&self, id: u32) -> Option<u32> {
        self.numbers.get(id as usize)?.checked_sub(1)
    }

    fn set_number(&mut self, id: u32, number_plus_one: u32) {
        if self.numbers.len() <= id as usize {
            self.numbers.resize(id as usize + 1, 0);
        }
        self.numbers[id as usize] = number_plus_one;
    }

    /// Stage: starts with the accounts in the order of ids.
    pub fn begin_order(&mut self, work: &mut Loop) -> bool {
        let accounts = self.len();
        if work.at == 0 {
            self.order = vec![Vec::with_capacity(accounts)];
            self.sorted.index = vec![0; accounts];
            self.sorted.hashes = Vec::with_capacity(accounts);
            self.sorted.vested = Vec::with_capacity(accounts);
        }
        self.order[0].extend(work.advance(accounts).map(|account| account as u32));
        work.at == accounts
    }

    /// Stage: sorts the accounts by a digit of their buckets.
    pub fn sort_by_digit(&mut self, digit: usize, buckets: &Buckets, work: &mut Loop) -> bool {
        let Accounts { hashes, sort_heights, order, sort, .. } = self;
        let value = |account: usize| buckets.of(hashes[account], sort_heights[account]) >> (digit * DIGIT_BITS);
        let entry = |_, account: &u32| Some((value(*account as usize) as usize % (1 << DIGIT_BITS), *account));
        let Some(sorted) = sort.step(1 << DIGIT_BITS, order, entry, work) else { return false };
        self.order = vec![sorted.items];
        true
    }

    /// Stage: sorts the accounts of each bucket by age, oldest first, and by address.
    pub fn sort_buckets(&mut self, buckets: &Buckets, work: &mut Loop) -> bool {
        let Accounts { addresses, hashes, vested, sort_heights, order, sorted, .. } = self;
        let bucket = |account: &u32| buckets.of(hashes[*account as usize], sort_heights[*account as usize]);
        let order = &mut order[0];
        while let Some(first) = order.get(work.at) {
            let length = order[work.at..].iter().take_while(|account| bucket(account) == bucket(first)).count();
            if !work.charge(length as u32) {
                return false;
            }
            let members = &mut order[work.at..][..length];
            members.sort_unstable_by_key(|account| (sort_heights[*account as usize], addresses[*account as usize]));
            for account in members.iter().map(|account| *account as usize) {
                sorted.index[account] = sorted.hashes.len() as u32;
                sorted.hashes.push(hashes[account]);
                sorted.vested.push(vested[account] as f64);
            }
            work.at += length;
        }
        self.order = Vec::new();
        true
    }

    /// Returns the buckets of a calculation at a height, with `known` account states before the last block.
    pub fn buckets(&self, known: Option<u64>, height: Height) -> Buckets {
        // The first block also creates the nemesis account.
        let new = self.new_accounts + u64::from(height == Height::NEMESIS);
        Buckets { known: known.map(capacity), new: capacity(new), height }
    }
}

/// The hash tables in whose order a NIS1 node that processes block by block has the accounts: one of the accounts that
/// are older than the last block, and then one of the new ones.
#[derive(Clone, Copy, Debug)]
pub struct Buckets {
    /// Buckets of the older accounts. `None` orders all accounts by their first heights.
    known: Option<u32>,
    /// Buckets of the new accounts.
    new: u32,
    height: Height,
}

impl Buckets {
    /// Returns the bucket of an account.
    fn of(&self, hash: u32, first_height: u64) -> u32 {
        match self.known {
            None => 0,
            Some(_) if first_height == self.height.0 => 1 << 30 | hash & (self.new - 1),
            Some(known) => hash & (known - 1),
        }
    }
}

/// Days for which an outlink counts.
const WINDOW_DAYS: u64 = 30;

/// Outlinks per chunk of the log. Chunks are never moved.
const CHUNK: usize = 1 << 14;

/// Maximum number of outlinks of one calculation, so that all indices and counts fit 32 bits.
pub const MAX_OUTLINKS: usize = 1 << 30;

/// Powers of 0.9 per whole day of age, as bits of doubles.
#[rustfmt::skip]
const DECAY: [u64; WINDOW_DAYS as usize + 1] = [
    0x3FF0000000000000, 0x3FECCCCCCCCCCCCD, 0x3FE9EB851EB851EC, 0x3FE753F7CED91688,
    0x3FE4FEC56D5CFAAD, 0x3FE2E54B48D3AE69, 0x3FE101908E581CF8, 0x3FDE9C6A99D1CDBF,
    0x3FDB8CC6573CD2C6, 0x3FD8CB7F4E838A7F, 0x3FD650BF60432FD9, 0x3FD4157909D61176,
    0x3FD2135355A70FB8, 0x3FD04497CD165AF2, 0x3FCD484471283D4E, 0x3FCA5AA3FF7103F9,
    0x3FC7B7F9FF7F5060, 0x3FC558C765F29524, 0x3FC3364D0EF3ECA0, 0x3FC14A788D7521C4,
    0x3FBF1FA5CB6C6FFA, 0x3FBC02E203E197FB, 0x3FB935CB69E4A262, 0x3FB6B06A45B42BBF,
    0x3FB46B92D8555A92, 0x3FB260D0F5E66B1D, 0x3FB08A55AA1C2D34, 0x3FADC5CD6565EAF7,
    0x3FAACB9F41A886AC, 0x3FA81DA8EE4ADF9B, 0x3FA5B44B3CDCFC72,
];

/// Returns the factor for a weight after `days` whole days; `None` once it no longer counts.
pub fn decay(days: u64) -> Option<f64> {
    DECAY.get(usize::try_from(days).ok()?).map(|bits| f64::from_bits(*bits))
}

/// Returns the factor for a transfer at `height` in a calculation at height `end`; `None` if it does not count.
pub fn decay_between(height: Height, end: Height, blocks_per_day: u64) -> Option<f64> {
    let blocks = end.0.checked_sub(height.0).filter(|_| height >= Height::NEMESIS)?;
    let day = blocks_per_day.max(1);
    decay(blocks / day).filter(|_| blocks <= day.saturating_mul(WINDOW_DAYS))
}

/// Sender, recipient, and weight after decay.
type Link = (u32, u32, f64);

/// Outlinks: first a log in the order of arrival, then sorted by their accounts.
///
/// Participants of the log are numbers: first the eligible accounts in the order of ids, then all other recipients in
/// the order of first appearance.
#[derive(Debug, Default)]
pub struct Outlinks {
    log: Vec<Vec<Link>>,
    /// Hashes of the addresses of ineligible recipients.
    hashes: Vec<u32>,
    sort: CountingSort<(u32, f64)>,
    /// Per sender: recipient and weight, in recorded order.
    pub sent: Csr<(u32, f64)>,
    /// Per eligible recipient: sender and weight, by index of the sender, then in recorded order.
    pub received: Csr<(u32, f64)>,
}

impl Outlinks {
    /// Adds an outlink, whose weight decays by a factor ([`decay_between`]). Ignores it if the sender is ineligible or the
    /// log is too large.
    pub fn add(&mut self, accounts: &mut Accounts, outlink: &Outlink, decay: f64) {
        let Outlink { sender, recipient, weight, recipient_hash } = *outlink;
        let is_eligible = |number: &u32| (*number as usize) < accounts.len();
        let Some(sender) = accounts.find(sender.0).filter(is_eligible).filter(|_| !self.is_too_many()) else { return };
        let recipient = accounts.find(recipient.0).unwrap_or_else(|| {
            let next = (accounts.len() + self.hashes.len()) as u32;
            self.hashes.push(recipient_hash);
            accounts.set_number(recipient.0, next + 1);
            next
        });
        let link = (sender, recipient, weight as f64 * decay);
        if self.log.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.log.push(Vec::with_capacity(CHUNK));
        }
        self.log.last_mut().into_iter().for_each(|chunk| chunk.push(link));
    }

    /// Returns whether there are more outlinks than [`MAX_OUTLINKS`].
    pub fn is_too_many(&self) -> bool {
        self.log.len() > MAX_OUTLINKS / CHUNK
    }

    /// Returns whether the log is empty.
    pub fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Stage: appends the hashes of the ineligible recipients to those of the accounts.
    pub fn append_hashes(&mut self, hashes: &mut Vec<u32>, work: &mut Loop) -> bool {
        hashes.extend_from_slice(&self.hashes[work.advance(self.hashes.len())]);
        work.at == self.hashes.len()
    }

    /// Stage: sorts the log by sender. `index` is the final order of the accounts.
    pub fn sort_sent(&mut self, index: &[u32], work: &mut Loop) -> bool {
        let place = |party: u32| index.get(party as usize).copied().unwrap_or(party);
        let entry = |_, link: &Link| Some((place(link.0) as usize, (place(link.1), link.2)));
        let Some(sent) = self.sort.step(index.len(), &self.log, entry, work) else { return false };
        (self.sent, self.log) = (sent, Vec::new());
        true
    }

    /// Stage: sorts the same by recipient.
    pub fn sort_received(&mut self, accounts: usize, work: &mut Loop) -> bool {
        let entry = |sender: usize, (party, weight): &(u32, f64)| {
            ((*party as usize) < accounts).then_some((*party as usize, (sender as u32, *weight)))
        };
        let received = self.sort.step(accounts, &self.sent, entry, work);
        received.map(|received| self.received = received).is_some()
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
            let mut accounts = Accounts::new(MIN_STAKE, 0, 0);
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

    #[test]
    fn an_outlink_counts_for_thirty_days_inclusive() {
        let decay = |height, end| decay_between(Height(height), Height(end), 10);
        assert_eq!(decay(1, 301), Some(f64::from_bits(0x3FA5B44B3CDCFC72)));
        assert_eq!(decay(1, 302), None);
        assert_eq!(decay(1, 1), Some(1.0));
        assert_eq!(decay(1, 11), Some(0.9));
        assert_eq!(decay(2, 1), None);
        assert_eq!(decay(0, 1), None);
    }
}
