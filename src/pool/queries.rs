//! What is asked of the pool (specification 08 §6).

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::root::Root;
use super::{Confirmed, Pool};
use crate::model::{Address, Body, Hash256, Transaction};
use crate::state;
use crate::store::StoreError;

/// A short name of a hash among nodes: its first eight bytes.
pub type ShortId = i64;

/// The short name of a hash.
pub fn short_id(hash: &Hash256) -> ShortId {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.0[..8]);
    i64::from_be_bytes(bytes)
}

impl Pool {
    /// Transactions that concern an account, or wait for its cosignature, the youngest first.
    pub fn most_recent(
        &self,
        account: &Address,
        limit: usize,
        confirmed: &Confirmed<'_>,
    ) -> Result<Vec<&Root>, StoreError> {
        let own = self.content.of_account(account);
        let mut numbers: BTreeSet<u64> = own.map(|root| root.number).collect();
        for multisig in state::cosignatory_of(confirmed.snapshot, account)? {
            let waiting = self.content.of_account(&multisig);
            let waiting = waiting.filter(|root| root.is_multisig() && root.debtor == multisig);
            numbers.extend(waiting.map(|root| root.number));
        }
        let mut roots: Vec<&Root> = numbers.iter().filter_map(|number| self.content.roots.get(number)).collect();
        roots.sort_by_key(|root| Reverse(root.transaction.timestamp));
        roots.truncate(limit);
        Ok(roots)
    }

    /// All transactions, those that pay most first, and of these the oldest first.
    pub fn by_fee(&self) -> impl Iterator<Item = &Root> + Clone {
        self.content.by_fee()
    }

    /// All transactions, in the order in which they are chosen for a block.
    pub fn in_fee_order(&self) -> Vec<Rc<Transaction>> {
        self.by_fee().map(|root| Rc::clone(&root.transaction)).collect()
    }

    /// Short names of all transactions, then of all attached cosignatures.
    pub fn short_ids(&self) -> Vec<ShortId> {
        let own = self.by_fee().map(|root| short_id(&root.hashes.own));
        let cosignatures = self.by_fee().flat_map(|root| {
            let count = root.transaction.cosignatures().len();
            root.hashes.children.iter().take(count).map(short_id)
        });
        own.chain(cosignatures).collect()
    }

    /// Transactions, and attached cosignatures by themselves, that a node does not know which knows these.
    pub fn unknown_to(&self, known: &BTreeSet<ShortId>) -> Vec<Transaction> {
        let mut unknown = Vec::new();
        for root in self.content.roots.values() {
            if !known.contains(&short_id(&root.hashes.own)) {
                unknown.push((*root.transaction).clone());
            }
            if let Body::Multisig(multisig) = &root.transaction.body {
                let pairs = multisig.cosignatures.iter().zip(&root.hashes.children);
                unknown.extend(pairs.filter(|(_, hash)| !known.contains(&short_id(hash))).map(|(one, _)| one.clone()));
            }
        }
        unknown
    }
}
