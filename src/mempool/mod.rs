//! The mempool: unconfirmed transactions.
//!
//! The mempool keeps transactions in memory, and an overlay state in which all of them are applied on top of the tip,
//! so that unconfirmed funds can be spent. After every change of the chain the overlay is rebuilt, one transaction per
//! step; meanwhile queries return the previous content.

mod admission;
mod entry;
mod queries;
mod rebuild;
mod recent_results;
mod spam_filter;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

pub use entry::MempoolEntry;
pub use queries::{ShortId, short_id};
pub use recent_results::{ContentHash, MAX_RESULTS, RecentResults};

use self::rebuild::Rebuild;
use crate::model::network::ChainParameters;
use crate::model::transaction::Hashes;
use crate::model::{Address, Amount, Body, Hash256, Height, Network, Timestamp, Transaction};
use crate::store::{Changes, Snapshot};

/// Maximum bytes of the transactions and their overlay state; further transactions are rejected as if the mempool were
/// full. With the network's defaults the limit on the number of transactions is reached first.
pub const MAX_BYTES: usize = 64 << 20;
/// Maximum number of transactions of each class, multisig or not, as a multiple of the maximum per block.
const MAX_CLASS_BLOCKS: u64 = 10;

/// Returns the maximum number of transactions of both classes together.
pub fn max_transactions(chain: &ChainParameters) -> usize {
    let of_class = MAX_CLASS_BLOCKS.saturating_mul(chain.max_transactions_per_block.into());
    usize::try_from(of_class.saturating_mul(2)).unwrap_or(usize::MAX)
}

/// The confirmed chain, on which the mempool builds.
#[derive(Clone, Copy)]
pub struct ConfirmedChain<'a> {
    /// Snapshot of the last commit.
    pub snapshot: &'a Snapshot<'a>,
    /// The network.
    pub network: &'a Network,
    /// Height of the tip.
    pub height: Height,
    /// Network time.
    pub now: Timestamp,
}

/// The mempool.
#[derive(Default)]
pub struct Mempool {
    content: MempoolContent,
    rebuild: Option<Rebuild>,
    /// Results of recent pushes.
    recent_results: RecentResults,
    /// Newly accepted transactions that are not published yet.
    newly_accepted: VecDeque<Rc<Transaction>>,
}

/// Transactions, and the state in which they are applied. A removed transaction is gone from `entries`; its number stays
/// in the indexes and its effects in the state until the rebuild, which follows at once.
#[derive(Default)]
struct MempoolContent {
    /// By number, in order of arrival.
    entries: BTreeMap<u64, MempoolEntry>,
    next_number: u64,
    /// Numbers by hash.
    by_hash: BTreeMap<Hash256, u64>,
    /// Numbers in the order of selection for a block: highest fee first, then oldest first.
    by_fee: BTreeSet<(Reverse<Amount>, Timestamp, u64)>,
    /// Numbers by affected account.
    by_account: BTreeSet<(Address, u64)>,
    /// The same, the youngest of each account first.
    by_age: BTreeSet<ByAge>,
    /// Multisig transactions by paying account.
    multisigs_by_age: BTreeSet<ByAge>,
    /// Importance transfers by affected account.
    importance_transfers: BTreeSet<(Address, u64)>,
    /// Number of transactions that an account pays for, by class: multisig or not.
    by_fee_payer: BTreeMap<(bool, Address), usize>,
    /// Number of multisig transactions.
    multisigs: usize,
    /// Hashes of all children, including surplus cosignatures.
    children: BTreeSet<Hash256>,
    /// Bytes of all transactions, including surplus cosignatures.
    bytes: usize,
    changes: Changes,
}

/// Account, time and number of a transaction.
type ByAge = (Address, Reverse<Timestamp>, u64);

impl Mempool {
    /// Returns the number of transactions; attached cosignatures do not count.
    pub fn len(&self) -> usize {
        self.content.entries.len()
    }

    /// Returns whether the mempool is empty.
    pub fn is_empty(&self) -> bool {
        self.content.entries.is_empty()
    }

    /// Returns the bytes of all transactions and of their overlay state.
    pub fn bytes(&self) -> usize {
        self.content.bytes + self.content.changes.bytes()
    }

    /// Returns the number of remembered results: at most [`MAX_RESULTS`].
    pub fn remembered_results(&self) -> usize {
        self.recent_results.len()
    }

    /// Returns whether accepted transactions are not published yet.
    pub fn has_newly_accepted(&self) -> bool {
        !self.newly_accepted.is_empty()
    }

    /// Removes and returns the oldest accepted transaction that is not published yet, as it arrived, from whatever
    /// source: a multisig transaction without cosignatures attached since, a cosignature separately. Transactions that
    /// a rebuild takes over are not repeated.
    pub fn pop_newly_accepted(&mut self) -> Option<Rc<Transaction>> {
        self.newly_accepted.pop_front()
    }
}

impl MempoolContent {
    /// Returns whether a transaction or a child of it is contained, also as a child.
    fn contains(&self, hashes: &Hashes) -> bool {
        hashes.all().any(|hash| self.by_hash.contains_key(hash) || self.children.contains(hash))
    }

    fn push(&mut self, mut root: MempoolEntry) {
        let number = self.next_number;
        self.next_number += 1;
        root.number = number;
        self.bytes += root.bytes;
        self.by_hash.insert(root.hashes.own, number);
        self.by_fee.insert(root.rank());
        self.index(&root);
        *self.by_fee_payer.entry((root.is_multisig(), root.fee_payer)).or_default() += 1;
        self.multisigs += usize::from(root.is_multisig());
        self.children.extend(&root.hashes.children);
        self.entries.insert(number, root);
    }

    /// Adds a transaction to the indexes by account.
    fn index(&mut self, root: &MempoolEntry) {
        let (number, time) = (root.number, Reverse(root.transaction.timestamp));
        for account in &root.accounts {
            self.by_account.insert((*account, number));
            self.by_age.insert((*account, time, number));
            if matches!(root.transaction.body, Body::ImportanceTransfer(_)) {
                self.importance_transfers.insert((*account, number));
            }
        }
        if root.is_multisig() {
            self.multisigs_by_age.insert((root.fee_payer, time, number));
        }
    }

    /// Returns the transactions that affect an account, in order of arrival.
    fn affecting(&self, account: &Address) -> impl Iterator<Item = &MempoolEntry> {
        let numbers = self.by_account.range((*account, 0)..=(*account, u64::MAX));
        numbers.filter_map(|(_, number)| self.entries.get(number))
    }

    /// Returns all transactions, highest fee first, then oldest first.
    fn by_fee(&self) -> impl Iterator<Item = &MempoolEntry> + Clone {
        self.by_fee.iter().filter_map(|(.., number)| self.entries.get(number))
    }
}
