//! Unconfirmed transactions.
//!
//! The pool holds transactions in memory, and a state of its own in which all of them were carried out on top of the
//! last block: what is received unconfirmed can be spent unconfirmed. After every change of the chain that state is
//! built anew, one transaction a step, while queries are answered from what the pool held before.

mod admission;
mod filter;
mod push_memory;
mod queries;
mod rebuild;
mod root;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

pub use push_memory::{ContentHash, MAX_ANSWERS, PushMemory};
pub use queries::{ShortId, short_id};
pub use root::Root;

use self::rebuild::Rebuild;
use crate::model::network::ChainParameters;
use crate::model::transaction::Hashes;
use crate::model::{Address, Amount, Body, Hash256, Height, Network, Timestamp, Transaction};
use crate::store::{Changes, Snapshot};

/// Most bytes of transactions and of the state that they make; further transactions are refused as if the pool were
/// full. With the network's defaults the count of transactions is the limit that is reached first.
pub const MAX_BYTES: usize = 64 << 20;
/// Transactions of either class, multisig or not, per transaction that fits into a block.
const BLOCKS_WORTH: u64 = 10;

/// Transactions that the pool holds at most, those of both classes together.
pub fn most_transactions(chain: &ChainParameters) -> usize {
    let of_class = BLOCKS_WORTH.saturating_mul(chain.max_transactions_per_block.into());
    usize::try_from(of_class.saturating_mul(2)).unwrap_or(usize::MAX)
}

/// The confirmed chain as the pool is told of it.
#[derive(Clone, Copy)]
pub struct Confirmed<'a> {
    /// The last commit.
    pub snapshot: &'a Snapshot<'a>,
    /// The network.
    pub network: &'a Network,
    /// Height of the last block.
    pub height: Height,
    /// Network time.
    pub now: Timestamp,
}

/// The pool.
#[derive(Default)]
pub struct Pool {
    content: PoolContent,
    rebuild: Option<Rebuild>,
    /// Answers given lately.
    memory: PushMemory,
    /// Transactions that have come in and nobody was told of yet.
    arrivals: VecDeque<Rc<Transaction>>,
}

/// Transactions, and the state in which they were carried out. One that has left is gone from `roots`; its number is
/// still found by other ways, and what it does to the state stays, until the pool is built anew, which follows at once.
#[derive(Default)]
struct PoolContent {
    /// By number, which is the order in which they came in.
    roots: BTreeMap<u64, Root>,
    next_number: u64,
    /// Numbers by hash.
    by_hash: BTreeMap<Hash256, u64>,
    /// Numbers in the order of blocks: those that pay most first, and of these the oldest first.
    by_fee: BTreeSet<(Reverse<Amount>, Timestamp, u64)>,
    /// Numbers by the accounts that are concerned.
    by_account: BTreeSet<(Address, u64)>,
    /// The same, the youngest of each account first.
    by_age: BTreeSet<ByAge>,
    /// Those of multisig transactions, by the account that pays.
    multisigs_by_age: BTreeSet<ByAge>,
    /// Those of importance transfers, by the accounts that are concerned.
    importance_transfers: BTreeSet<(Address, u64)>,
    /// How many an account pays for, of multisig transactions and of others.
    by_debtor: BTreeMap<(bool, Address), usize>,
    /// How many are multisig transactions.
    multisigs: usize,
    /// Hashes of all children, those of surplus cosignatures included.
    children: BTreeSet<Hash256>,
    /// Bytes of all transactions, surplus cosignatures included.
    bytes: usize,
    changes: Changes,
}

/// An account, and the time and number of a transaction.
type ByAge = (Address, Reverse<Timestamp>, u64);

impl Pool {
    /// Number of transactions; attached cosignatures do not count.
    pub fn len(&self) -> usize {
        self.content.roots.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.content.roots.is_empty()
    }

    /// Bytes of all transactions and of the state that they make.
    pub fn bytes(&self) -> usize {
        self.content.bytes + self.content.changes.bytes()
    }

    /// Answers that are remembered: at most [`MAX_ANSWERS`].
    pub fn answers(&self) -> usize {
        self.memory.len()
    }

    /// Whether a transaction has come in that nobody was told of yet.
    pub fn has_arrivals(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// A transaction that has come in and nobody was told of yet, the oldest first. It is as it came in, from wherever
    /// it did: a multisig transaction without what was attached since, a cosignature by itself. What is merely taken
    /// over when the pool is built anew has come in before.
    pub fn next_arrival(&mut self) -> Option<Rc<Transaction>> {
        self.arrivals.pop_front()
    }
}

impl PoolContent {
    /// Whether a transaction, or a child of it, is among those here or their children.
    fn contains(&self, hashes: &Hashes) -> bool {
        hashes.all().any(|hash| self.by_hash.contains_key(hash) || self.children.contains(hash))
    }

    fn push(&mut self, mut root: Root) {
        let number = self.next_number;
        self.next_number += 1;
        root.number = number;
        self.bytes += root.bytes;
        self.by_hash.insert(root.hashes.own, number);
        self.by_fee.insert(root.rank());
        self.index(&root);
        *self.by_debtor.entry((root.is_multisig(), root.debtor)).or_default() += 1;
        self.multisigs += usize::from(root.is_multisig());
        self.children.extend(&root.hashes.children);
        self.roots.insert(number, root);
    }

    /// Has a transaction found by the accounts that it concerns.
    fn index(&mut self, root: &Root) {
        let (number, time) = (root.number, Reverse(root.transaction.timestamp));
        for account in &root.accounts {
            self.by_account.insert((*account, number));
            self.by_age.insert((*account, time, number));
            if matches!(root.transaction.body, Body::ImportanceTransfer(_)) {
                self.importance_transfers.insert((*account, number));
            }
        }
        if root.is_multisig() {
            self.multisigs_by_age.insert((root.debtor, time, number));
        }
    }

    /// Those that concern an account, in the order in which they came in.
    fn of_account(&self, account: &Address) -> impl Iterator<Item = &Root> {
        let numbers = self.by_account.range((*account, 0)..=(*account, u64::MAX));
        numbers.filter_map(|(_, number)| self.roots.get(number))
    }

    /// All, those that pay most first, and of these the oldest first.
    fn by_fee(&self) -> impl Iterator<Item = &Root> + Clone {
        self.by_fee.iter().filter_map(|(.., number)| self.roots.get(number))
    }
}
