//! The transactions that affect an account, or wait for its cosignature, found in steps.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Bound;

use super::{Mempool, MempoolEntry};
use crate::budget::{Budget, cost};
use crate::chain::ChainSnapshot;
use crate::model::{Address, Timestamp};
use crate::state;
use crate::store::Result;

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
