//! Queries of the mempool.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::entry::MempoolEntry;
use super::{ByAge, ConfirmedChain, Mempool, MempoolContent};
use crate::model::{Address, Body, Hash256, Timestamp, Transaction};
use crate::state;
use crate::store::StoreError;

/// Short id of a hash between peers: its first eight bytes.
pub type ShortId = i64;

/// Returns the short id of a hash.
pub fn short_id(hash: &Hash256) -> ShortId {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.0[..8]);
    i64::from_be_bytes(bytes)
}

impl Mempool {
    /// Returns the transactions that affect an account, or wait for its cosignature, youngest first.
    pub fn most_recent(
        &self,
        account: &Address,
        limit: usize,
        confirmed: &ConfirmedChain<'_>,
    ) -> Result<Vec<&MempoolEntry>, StoreError> {
        let mut found: BTreeSet<(Reverse<Timestamp>, u64)> =
            self.content.youngest(&self.content.by_age, account).take(limit).collect();
        for multisig in state::cosignatory_of(confirmed.snapshot, account)? {
            found.extend(self.content.youngest(&self.content.multisigs_by_age, &multisig).take(limit));
        }
        Ok(found.iter().take(limit).filter_map(|(_, number)| self.content.entries.get(number)).collect())
    }

    /// Returns whether an importance transfer that affects an account is unconfirmed.
    pub fn has_importance_transfer(&self, account: &Address) -> bool {
        let mut numbers = self.content.importance_transfers.range((*account, 0)..=(*account, u64::MAX));
        numbers.any(|(_, number)| self.content.entries.contains_key(number))
    }

    /// Returns all transactions, highest fee first, then oldest first.
    pub fn by_fee(&self) -> impl Iterator<Item = &MempoolEntry> + Clone {
        self.content.by_fee()
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
    /// Returns time and number of an account's transactions in an index, youngest first.
    fn youngest(&self, index: &BTreeSet<ByAge>, account: &Address) -> impl Iterator<Item = (Reverse<Timestamp>, u64)> {
        let oldest = (*account, Reverse(Timestamp(i32::MIN)), u64::MAX);
        let of_account = index.range((*account, Reverse(Timestamp(i32::MAX)), 0)..=oldest);
        let here = of_account.filter(|(.., number)| self.entries.contains_key(number));
        here.map(|(_, time, number)| (*time, *number))
    }
}
