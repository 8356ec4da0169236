//! Transfers between accounts as weighted outlinks.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::accounts::{Accounts, SortedAccounts};
use super::budget::{TREE_COST, WorkBudget};
use super::csr::{CountingSort, Csr};
use super::java_hash_map::java_hash;
use crate::model::{Address, Height};

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

/// Sender, recipient, and weight after decay.
type Link = (u32, u32, f64);

/// Log of outlinks in the order of arrival.
///
/// Participants are indices: first the eligible accounts in the order of ids, then all other recipients in the order of
/// first appearance.
#[derive(Debug, Default)]
pub struct OutlinkLog {
    chunks: Vec<Vec<Link>>,
    /// Indices of ineligible recipients by account id.
    others: BTreeMap<u32, u32>,
    /// Hashes of the addresses of ineligible recipients.
    hashes: Vec<u32>,
}

impl OutlinkLog {
    /// Adds an outlink of a certain age. Ignores it if the sender is ineligible, the outlink is outside the window, or
    /// the log is too large. `address` is called once per ineligible recipient.
    pub fn add<E>(
        &mut self,
        accounts: &Accounts,
        age: Age,
        [sender, recipient]: [u32; 2],
        weight: u64,
        address: impl FnOnce() -> Result<Address, E>,
    ) -> Result<(), E> {
        let (Some(sender), Some(decay)) = (accounts.find(sender), age.decay()) else { return Ok(()) };
        if self.is_too_many() {
            return Ok(());
        }
        let recipient = match accounts.find(recipient) {
            Some(index) => index,
            None => self.ineligible_index(accounts, recipient, address)?,
        };
        self.push((sender, recipient, weight as f64 * decay));
        Ok(())
    }

    fn ineligible_index<E>(
        &mut self,
        accounts: &Accounts,
        number: u32,
        address: impl FnOnce() -> Result<Address, E>,
    ) -> Result<u32, E> {
        let next = (accounts.len() + self.hashes.len()) as u32;
        match self.others.entry(number) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(place) => {
                self.hashes.push(java_hash(&address()?));
                Ok(*place.insert(next))
            }
        }
    }

    fn push(&mut self, link: Link) {
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(link),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(link);
                self.chunks.push(chunk);
            }
        }
    }

    /// Returns whether there are more outlinks than [`MAX_OUTLINKS`].
    pub fn is_too_many(&self) -> bool {
        self.chunks.len() > MAX_OUTLINKS / CHUNK
    }

    /// Returns whether the log is empty.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

/// Age of an outlink.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    /// Blocks from the transfer to the calculation; `None` if the transfer is later.
    blocks: Option<u64>,
    blocks_per_day: u64,
}

impl Age {
    /// Returns the age at height `end` of a transfer at `height`.
    pub fn new(height: Height, end: Height, blocks_per_day: u64) -> Age {
        let blocks = end.0.checked_sub(height.0).filter(|_| height >= Height::NEMESIS);
        Age { blocks, blocks_per_day: blocks_per_day.max(1) }
    }

    fn decay(self) -> Option<f64> {
        let blocks = self.blocks.filter(|blocks| *blocks <= self.blocks_per_day.saturating_mul(WINDOW_DAYS))?;
        decay(blocks / self.blocks_per_day)
    }
}

/// Outlinks by index of their accounts.
#[derive(Debug, Default)]
pub struct Outlinks {
    /// Per sender: recipient and weight, in recorded order.
    pub sent: Csr<(u32, f64)>,
    /// Per eligible recipient: sender and weight, by index of the sender, then in recorded order.
    pub received: Csr<(u32, f64)>,
    /// Hashes of the addresses of all participants.
    pub hashes: Vec<u32>,
}

/// Sorts outlinks by account incrementally.
#[derive(Debug)]
pub struct OutlinkSort {
    recorded: Vec<Vec<Link>>,
    others: BTreeMap<u32, u32>,
    ineligible_hashes: Vec<u32>,
    hashed: usize,
    sending: Option<CountingSort<(u32, f64)>>,
    receiving: CountingSort<(u32, f64)>,
    made: Outlinks,
}

impl OutlinkSort {
    /// Prepares to sort the log of a calculation with `accounts` eligible accounts.
    pub fn new(recorded: OutlinkLog, accounts: usize) -> OutlinkSort {
        OutlinkSort {
            recorded: recorded.chunks,
            others: recorded.others,
            ineligible_hashes: recorded.hashes,
            hashed: 0,
            sending: Some(CountingSort::new(accounts)),
            receiving: CountingSort::new(accounts),
            made: Outlinks::default(),
        }
    }

    /// Continues within the budget; returns true when finished. Appends the participants' hashes to `ordered`.
    pub fn step(&mut self, ordered: &mut SortedAccounts, budget: &mut WorkBudget) -> bool {
        // Freed piece by piece, because dropping a large map takes long.
        while !self.others.is_empty() {
            if !budget.charge(TREE_COST) {
                return false;
            }
            self.others.pop_first();
        }
        let more = budget.advance(&mut self.hashed, self.ineligible_hashes.len());
        ordered.hashes.extend_from_slice(&self.ineligible_hashes[more]);
        if let Some(sending) = &mut self.sending {
            let index = |party: u32| ordered.index.get(party as usize).copied().unwrap_or(party);
            let entry = |_, link: &Link| Some((index(link.0) as usize, (index(link.1), link.2)));
            if sending.step(&self.recorded, entry, budget) {
                self.made.sent = self.sending.take().map(CountingSort::finish).unwrap_or_default();
                self.recorded = Vec::new();
            }
            return false;
        }
        let accounts = ordered.index.len();
        let entry = |sender: usize, (party, weight): &(u32, f64)| {
            ((*party as usize) < accounts).then_some((*party as usize, (sender as u32, *weight)))
        };
        self.receiving.step(&self.made.sent, entry, budget)
    }

    /// Returns the sorted outlinks. Valid once a step has returned true.
    pub fn finish(mut self, ordered: &mut SortedAccounts) -> Outlinks {
        self.made.received = self.receiving.finish();
        self.made.hashes = std::mem::take(&mut ordered.hashes);
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlink_counts_for_thirty_days_inclusive() {
        let decay = |height, end| Age::new(Height(height), Height(end), 10).decay();
        assert_eq!(decay(1, 301), Some(f64::from_bits(0x3FA5B44B3CDCFC72)));
        assert_eq!(decay(1, 302), None);
        assert_eq!(decay(1, 1), Some(1.0));
        assert_eq!(decay(1, 11), Some(0.9));
        assert_eq!(decay(2, 1), None);
        assert_eq!(decay(0, 1), None);
    }
}
