//! What is asked of the pool.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::root::Root;
use super::{ByAge, Confirmed, Pool, PoolContent};
use crate::model::{Address, Timestamp, Transaction};
use crate::state;
use crate::store::StoreError;

impl Pool {
    /// Transactions that concern an account, or wait for its cosignature, the youngest first.
    pub fn most_recent(
        &self,
        account: &Address,
        limit: usize,
        confirmed: &Confirmed<'_>,
    ) -> Result<Vec<&Root>, StoreError> {
        let mut found: BTreeSet<(Reverse<Timestamp>, u64)> =
            self.content.youngest(&self.content.by_age, account).take(limit).collect();
        for multisig in state::cosignatory_of(confirmed.snapshot, account)? {
            found.extend(self.content.youngest(&self.content.multisigs_by_age, &multisig).take(limit));
        }
        Ok(found.iter().take(limit).filter_map(|(_, number)| self.content.roots.get(number)).collect())
    }

    /// Whether an importance transfer waits that concerns an account.
    pub fn has_importance_transfer(&self, account: &Address) -> bool {
        let mut numbers = self.content.importance_transfers.range((*account, 0)..=(*account, u64::MAX));
        numbers.any(|(_, number)| self.content.roots.contains_key(number))
    }

    /// All transactions, those that pay most first, and of these the oldest first.
    pub fn by_fee(&self) -> impl Iterator<Item = &Root> + Clone {
        self.content.by_fee()
    }

    /// All transactions, in the order in which they are chosen for a block.
    pub fn in_fee_order(&self) -> Vec<Rc<Transaction>> {
        self.by_fee().map(|root| Rc::clone(&root.transaction)).collect()
    }
}

impl PoolContent {
    /// Time and number of an account's transactions in an index, the youngest first.
    fn youngest(&self, index: &BTreeSet<ByAge>, account: &Address) -> impl Iterator<Item = (Reverse<Timestamp>, u64)> {
        let oldest = (*account, Reverse(Timestamp(i32::MIN)), u64::MAX);
        let of_account = index.range((*account, Reverse(Timestamp(i32::MAX)), 0)..=oldest);
        let here = of_account.filter(|(.., number)| self.roots.contains_key(number));
        here.map(|(_, time, number)| (*time, *number))
    }
}
