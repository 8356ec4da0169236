//! The mempool: unconfirmed transactions.
//!
//! The mempool keeps transactions in memory, and an overlay state in which all of them are applied on top of the tip,
//! so that unconfirmed funds can be spent. After every change of the chain the overlay is rebuilt, one transaction per
//! step; meanwhile queries return the previous content.

mod admission;
mod conflicts;
mod fates;
mod rebuild;
mod recent_results;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;

pub use admission::Accepted;
pub use conflicts::Conflict;
pub use fates::{Fate, FateRecord, Fates, MAX_FATES};
pub use recent_results::{ContentHash, MAX_RESULTS, RecentResults};

use self::rebuild::{AddedBlocks, Rebuild};
use crate::budget::{Budget, cost};
use crate::chain::ChainSnapshot;
use crate::codec::SigningForm;
use crate::crypto::Verifier;
use crate::model::network::ChainParameters;
use crate::model::transaction::{Cosignature, Hashes};
use crate::model::{Address, Amount, Body, Hash256, NetworkByte, Timestamp, Transaction};
use crate::store::{Changes, Result};
use crate::{rules, state};

/// Maximum bytes of the transactions and their overlay state; further transactions are rejected as if the mempool were
/// full. With the network's defaults the limit on the number of transactions is reached first.
pub const MAX_BYTES: usize = 64 << 20;
/// Maximum number of transactions of each class, multisig or not, as a multiple of the maximum per block.
const MAX_CLASS_BLOCKS: u64 = 10;

/// Maximum number of former cosignatories of an account who are told what becomes of a transaction.
const MAX_FORMER_COSIGNATORIES: usize = 32;

/// Returns the maximum number of transactions of both classes together.
pub fn max_transactions(chain: &ChainParameters) -> usize {
    let of_class = MAX_CLASS_BLOCKS.saturating_mul(chain.max_transactions_per_block.into());
    usize::try_from(of_class.saturating_mul(2)).unwrap_or(usize::MAX)
}

/// A top-level transaction of the mempool, with derived values that are needed often.
#[derive(Clone, Debug)]
pub struct MempoolEntry {
    /// The transaction; a multisig transaction with the cosignatures received so far.
    pub transaction: Rc<Transaction>,
    /// Its hash and the hashes of its children.
    pub hashes: Hashes,
    /// Account that pays its fee.
    pub fee_payer: Address,
    /// All affected accounts.
    pub accounts: Vec<Address>,
    /// Size in bytes.
    pub bytes: usize,
    /// When it arrived, in network time.
    pub since: Timestamp,
    /// Its place in the order of arrival since the start of the node, from 1 on.
    pub id: u64,
    /// The cosignatories of the account of a multisig transaction, and some who ceased to be while it waited.
    pub cosignatories: Vec<Address>,
    /// How many of them must sign; 0 means all.
    min_cosignatories: u32,
    number: u64,
}

impl MempoolEntry {
    /// Creates an entry of a transaction that arrives at the time `since`.
    pub fn new(transaction: Transaction, network: NetworkByte, since: Timestamp) -> MempoolEntry {
        let hashes = transaction.hashes();
        let fee_payer = match &transaction.body {
            Body::Multisig(body) => body.inner.signer_address(network),
            Body::Cosignature(body) => body.other_account,
            _ => transaction.signer_address(network),
        };
        let accounts = rules::participants(&transaction, network);
        let bytes = transaction.to_bytes(SigningForm::Verifiable).len();
        MempoolEntry {
            transaction: Rc::new(transaction),
            hashes,
            fee_payer,
            accounts,
            bytes,
            since,
            id: 0,
            cosignatories: Vec::new(),
            min_cosignatories: 0,
            number: 0,
        }
    }

    /// Looks up who must sign a multisig transaction.
    fn look_up_cosignatories(&mut self, chain: &ChainSnapshot<'_>) -> Result<()> {
        if self.is_multisig() {
            let mut present = state::cosignatories(chain.snapshot, &self.fee_payer)?;
            self.cosignatories.retain(|one| !present.contains(one));
            self.cosignatories.truncate(MAX_FORMER_COSIGNATORIES);
            present.append(&mut self.cosignatories);
            self.cosignatories = present;
            self.min_cosignatories = state::account(chain.snapshot, &self.fee_payer)?.min_cosignatories;
        }
        Ok(())
    }

    /// Returns whether an earlier entry of the same transaction had other signatures, or others had to sign it.
    fn is_signed_otherwise(&self, earlier: &MempoolEntry) -> bool {
        let signing = |of: &MempoolEntry| (of.min_cosignatories, of.hashes.children.len());
        signing(self) != signing(earlier) || self.cosignatories != earlier.cosignatories
    }

    /// Returns its sort key in the order of selection for a block.
    fn rank(&self) -> (Reverse<Amount>, Timestamp, u64) {
        (Reverse(self.transaction.fee), self.transaction.timestamp, self.number)
    }

    /// Returns the hash of the inner transaction of a multisig transaction.
    pub fn inner_hash(&self) -> Option<&Hash256> {
        self.hashes.children.last().filter(|_| self.is_multisig())
    }

    /// Returns whether it is a multisig transaction; these have a separate limit.
    pub fn is_multisig(&self) -> bool {
        matches!(self.transaction.body, Body::Multisig(_))
    }

    /// Returns whether it is a multisig transaction that an account has cosigned.
    fn is_cosigned_by(&self, account: &Address, network: NetworkByte) -> bool {
        self.transaction.cosignatures().iter().any(|one| one.signer_address(network) == *account)
    }

    /// Inserts a cosignature into a multisig transaction, unless its signer has given one already.
    fn attach(&mut self, cosignature: &MempoolEntry, network: NetworkByte) {
        let added = cosignature.transaction.signer_address(network);
        let transaction = Rc::make_mut(&mut self.transaction);
        let Body::Multisig(multisig) = &mut transaction.body else { return };
        // Cosignatures are ordered by address, with one per signer.
        let place = multisig.cosignatures.binary_search_by_key(&added, |one| one.signer_address(network));
        let Err(place) = place else { return };
        multisig.cosignatures.insert(place, (*cosignature.transaction).clone());
        self.hashes.children.insert(place, cosignature.hashes.own);
        self.bytes += cosignature.bytes;
        if !self.accounts.contains(&added) {
            self.accounts.push(added);
        }
    }
}

/// What happened to a transaction of the mempool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MempoolEvent {
    /// It arrived.
    Arrived,
    /// It got a cosignature, or a block has changed which signatures it has or needs.
    Cosigned,
    /// It left without being confirmed.
    Left(FateRecord),
    /// A block has confirmed it.
    Confirmed,
}

/// The mempool.
#[derive(Default)]
pub struct Mempool {
    content: MempoolContent,
    /// Id of the transaction that arrived last.
    last_id: u64,
    /// Added blocks whose transactions are still to be removed.
    added_blocks: Option<AddedBlocks>,
    rebuild: Option<Rebuild>,
    /// Time since the start at the last tick. How long results are remembered is measured by it.
    uptime: Duration,
    /// Whether the clock has jumped, and may be wrong: what was accepted keeps its place whatever the time.
    pub is_clock_disputed: bool,
    /// When to remove expired transactions, as time since the start.
    pub next_expiry: Duration,
    verifier: Verifier,
    /// Results of recent pushes.
    recent_results: RecentResults,
    /// What became of transactions that are neither here nor in the chain.
    pub fates: Fates,
    /// Hashes of cosignatures without which their multisig transactions may be from now on. The rebuild decides that.
    cosignatures: VecDeque<Hash256>,
    /// Accepted transactions that are not published yet, oldest first, as they arrived, from whatever source: a multisig
    /// transaction without cosignatures attached since, a cosignature separately. Transactions that a rebuild takes over
    /// are not repeated.
    pub newly_accepted: VecDeque<Rc<Transaction>>,
    /// What else has happened and is not published yet, oldest first.
    pub newly_changed: VecDeque<(MempoolEntry, MempoolEvent)>,
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
    /// Numbers by id.
    by_id: BTreeMap<u64, u64>,
    /// Numbers in the order of selection for a block: highest fee first, then oldest first.
    by_fee: BTreeSet<(Reverse<Amount>, Timestamp, u64)>,
    /// Transactions by affected account, the youngest of each first.
    by_age: BTreeSet<ByAge>,
    /// Multisig transactions by paying account.
    multisigs_by_age: BTreeSet<ByAge>,
    /// Importance transfers by affected account.
    importance_transfers: BTreeSet<(Address, u64)>,
    /// Number of transactions that an account pays for, by class: multisig or not.
    by_fee_payer: BTreeMap<(bool, Address), usize>,
    /// Numbers of the transactions by the hashes of their children.
    children: BTreeMap<Hash256, u64>,
    /// Bytes of all transactions.
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
        self.recent_results.count()
    }

    /// Returns the number of signatures checked since the start.
    pub fn checked_signatures(&self) -> u64 {
        self.verifier.checked
    }

    /// Returns the id of the transaction that arrived last.
    pub fn last_id(&self) -> u64 {
        self.last_id
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Adds a transaction without validation.
    #[cfg(any(test, feature = "testing"))]
    pub fn add_unchecked(&mut self, transaction: Transaction, network: NetworkByte) {
        let id = self.next_id();
        self.content.push(MempoolEntry { id, ..MempoolEntry::new(transaction, network, Timestamp(0)) });
    }
}

impl MempoolContent {
    /// Returns whether a transaction or a child of it is contained, also as a child.
    fn contains(&self, hashes: &Hashes) -> bool {
        hashes.all().any(|hash| self.by_hash.contains_key(hash) || self.children.contains_key(hash))
    }

    fn push(&mut self, mut root: MempoolEntry) {
        let number = self.next_number;
        self.next_number += 1;
        root.number = number;
        self.bytes += root.bytes;
        self.by_hash.insert(root.hashes.own, number);
        self.by_id.insert(root.id, number);
        self.by_fee.insert(root.rank());
        self.index(&root);
        *self.by_fee_payer.entry((root.is_multisig(), root.fee_payer)).or_default() += 1;
        self.children.extend(root.hashes.children.iter().map(|child| (*child, number)));
        self.entries.insert(number, root);
    }

    /// Adds a transaction to the indexes by account.
    fn index(&mut self, root: &MempoolEntry) {
        let (number, time) = (root.number, Reverse(root.transaction.timestamp));
        for account in &root.accounts {
            self.by_age.insert((*account, time, number));
            if matches!(root.transaction.body, Body::ImportanceTransfer(_)) {
                self.importance_transfers.insert((*account, number));
            }
        }
        if root.is_multisig() {
            self.multisigs_by_age.insert((root.fee_payer, time, number));
        }
    }

    /// Returns the number of the oldest multisig transaction to which a cosignature belongs; whether its signer may
    /// cosign is not checked.
    fn cosigned(&self, cosignature: &Transaction, body: &Cosignature) -> Option<u64> {
        let matches = |root: &MempoolEntry| {
            let inner_hash = root.hashes.children.last();
            cosignature.signer != root.transaction.signer && inner_hash.is_some_and(|hash| body.other_hash == *hash)
        };
        let numbers = self.youngest(&self.multisigs_by_age, &body.other_account).map(|(_, number)| number);
        numbers.filter(|number| self.entries.get(number).is_some_and(&matches)).min()
    }
}

/// Short id of a hash between peers: its first eight bytes.
pub type ShortId = i64;

/// Returns the short id of a hash.
pub fn short_id(hash: &Hash256) -> ShortId {
    i64::from_be_bytes(hash.0.as_chunks().0[0])
}

/// Queries.
impl Mempool {
    /// Returns the transactions that arrived after the one with an id, in the order of arrival.
    pub fn arrived_after(&self, id: u64) -> impl Iterator<Item = &MempoolEntry> {
        let MempoolContent { by_id, entries, .. } = &self.content;
        by_id.range((Bound::Excluded(id), Bound::Unbounded)).filter_map(|(_, number)| entries.get(number))
    }

    /// Returns the transaction with a hash, or the one that contains it.
    pub fn by_hash(&self, hash: &Hash256) -> Option<&MempoolEntry> {
        self.content.by_hash(hash)
    }

    /// Returns the transaction with the lowest hash above one, or the lowest of all after the hash 0.
    pub fn after(&self, hash: &Hash256) -> Option<&MempoolEntry> {
        let MempoolContent { by_hash, entries, .. } = &self.content;
        let mut later = by_hash.range((Bound::Excluded(*hash), Bound::Unbounded));
        later.find_map(|(_, number)| entries.get(number))
    }

    /// Returns whether there may be unconfirmed importance transfers.
    pub fn may_have_importance_transfers(&self) -> bool {
        !self.content.importance_transfers.is_empty()
    }

    /// Returns whether an importance transfer that affects an account is unconfirmed.
    pub fn has_importance_transfer(&self, account: &Address) -> bool {
        let mut numbers = self.content.importance_transfers.range((*account, 0)..=(*account, u64::MAX));
        numbers.any(|(_, number)| self.content.entries.contains_key(number))
    }

    /// Returns all transactions, highest fee first, then oldest first.
    pub fn by_fee(&self) -> impl Iterator<Item = &MempoolEntry> + Clone {
        let content = &self.content;
        content.by_fee.iter().filter_map(move |(.., number)| content.entries.get(number))
    }

    /// Returns all transactions in the order in which they are selected for a block.
    pub fn in_fee_order(&self) -> Vec<Rc<Transaction>> {
        self.by_fee().map(|root| Rc::clone(&root.transaction)).collect()
    }

    /// Returns the short ids of all transactions, then of all attached cosignatures.
    pub fn short_ids(&self) -> Vec<ShortId> {
        let own = self.by_fee().map(|root| short_id(&root.hashes.own));
        let cosignatures = self.by_fee().flat_map(|root| {
            let count = root.transaction.cosignatures().len();
            root.hashes.children.iter().take(count).map(short_id)
        });
        own.chain(cosignatures).collect()
    }

    /// Returns the transactions, and attached cosignatures separately, that a peer with the `known` ids lacks.
    pub fn unknown_to(&self, known: &BTreeSet<ShortId>) -> Vec<Rc<Transaction>> {
        let mut unknown = Vec::new();
        for root in self.content.entries.values() {
            if !known.contains(&short_id(&root.hashes.own)) {
                unknown.push(Rc::clone(&root.transaction));
            }
            if let Body::Multisig(multisig) = &root.transaction.body {
                let pairs = multisig.cosignatures.iter().zip(&root.hashes.children);
                let unknown_ones = pairs.filter(|(_, hash)| !known.contains(&short_id(hash)));
                unknown.extend(unknown_ones.map(|(one, _)| Rc::new(one.clone())));
            }
        }
        unknown
    }
}

impl MempoolContent {
    fn by_hash(&self, hash: &Hash256) -> Option<&MempoolEntry> {
        let number = self.by_hash.get(hash).or_else(|| self.children.get(hash));
        number.and_then(|number| self.entries.get(number))
    }

    /// Returns time and number of an account's transactions in an index, youngest first.
    fn youngest(&self, index: &BTreeSet<ByAge>, account: &Address) -> impl Iterator<Item = (Reverse<Timestamp>, u64)> {
        let oldest = (*account, Reverse(Timestamp(i32::MIN)), u64::MAX);
        let of_account = index.range((*account, Reverse(Timestamp(i32::MAX)), 0)..=oldest);
        let here = of_account.filter(|(.., number)| self.entries.contains_key(number));
        here.map(|(_, time, number)| (*time, *number))
    }
}

/// Progress of the search among the multisig accounts with transactions.
#[derive(Clone, Copy, Debug)]
enum Place {
    Start,
    /// After the one that was looked up last.
    After(Address),
    End,
}

/// A search for the transactions that affect an account, or wait for its cosignature, youngest first.
#[derive(Clone, Debug)]
pub struct AccountSearch {
    account: Address,
    limit: usize,
    place: Place,
    /// Ids of transactions.
    found: BTreeSet<u64>,
}

impl AccountSearch {
    /// Creates a search for at most `limit` transactions.
    pub fn new(account: Address, limit: usize) -> AccountSearch {
        AccountSearch { account, limit, place: Place::Start, found: BTreeSet::new() }
    }

    /// Returns the approximate memory in bytes that is held.
    pub fn held_bytes(&self) -> usize {
        size_of::<AccountSearch>() + 2 * self.found.len() * size_of::<u64>()
    }
}

impl Mempool {
    /// Goes on with a search within the budget. Returns what it has found once it is complete, `None` before. The cost does
    /// not grow with the number of transactions of the account, nor with the multisig accounts that name it, as anybody can
    /// create these: only those with transactions here are looked up, one after another.
    pub fn search(
        &self,
        search: &mut AccountSearch,
        confirmed: &ChainSnapshot<'_>,
        budget: &mut Budget,
    ) -> Result<Option<Vec<&MempoolEntry>>> {
        let content = &self.content;
        let ids = |numbers: &mut dyn Iterator<Item = (Reverse<Timestamp>, u64)>| {
            let entries = numbers.take(search.limit).filter_map(|(_, number)| content.entries.get(&number));
            entries.map(|entry| entry.id).collect::<Vec<_>>()
        };
        loop {
            let first = match search.place {
                Place::Start => {
                    search.found.extend(ids(&mut content.youngest(&content.by_age, &search.account)));
                    budget.charge(cost::SKIP * search.found.len() as u32);
                    Bound::Unbounded
                }
                Place::After(last) => Bound::Excluded((last, Reverse(Timestamp(i32::MIN)), u64::MAX)),
                Place::End => break,
            };
            let Some((multisig, ..)) = content.multisigs_by_age.range((first, Bound::Unbounded)).next() else {
                search.place = Place::End;
                continue;
            };
            search.place = Place::After(*multisig);
            budget.charge(cost::ACCOUNT);
            if state::is_cosignatory_of(confirmed.snapshot, &search.account, multisig)? {
                let waiting = ids(&mut content.youngest(&content.multisigs_by_age, multisig));
                budget.charge(cost::SKIP * waiting.len() as u32);
                search.found.extend(waiting);
            }
            if budget.is_exhausted() {
                return Ok(None);
            }
        }
        // A rebuild between two steps may have changed the numbers.
        let numbers = search.found.iter().filter_map(|id| content.by_id.get(id));
        let mut entries: Vec<&MempoolEntry> = numbers.filter_map(|number| content.entries.get(number)).collect();
        entries.sort_by_key(|entry| (Reverse(entry.transaction.timestamp), entry.number));
        entries.truncate(search.limit);
        Ok(Some(entries))
    }
}
