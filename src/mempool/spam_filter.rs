//! The spam filter: the fuller the mempool, the higher the fee or the importance of the account must be.

use super::entry::MempoolEntry;
use super::{ConfirmedChain, MAX_BYTES, MAX_CLASS_BLOCKS, MempoolContent};
use crate::model::Address;
use crate::state;
use crate::store::StoreError;

/// Maximum that a fee adds to the importance, reached at 10 XEM.
const MAX_FEE_IMPORTANCE: f64 = 0.01;

impl MempoolContent {
    /// Returns whether there is room for a transaction.
    pub(super) fn has_room_for(&self, root: &MempoolEntry, confirmed: &ConfirmedChain<'_>) -> Result<bool, StoreError> {
        if self.bytes + self.changes.bytes() + root.bytes > MAX_BYTES {
            return Ok(false);
        }
        let is_multisig = root.is_multisig();
        let count = if is_multisig { self.multisigs } else { self.entries.len() - self.multisigs } as u64;
        let per_block = u64::from(confirmed.network.chain.max_transactions_per_block);
        if count < per_block {
            return Ok(true);
        }
        let of_fee_payer = self.by_fee_payer.get(&(is_multisig, root.fee_payer)).copied().unwrap_or(0);
        let importance = current_importance(&root.fee_payer, confirmed)?;
        Ok((of_fee_payer as i64) < max_per_account(importance, root.transaction.fee.0, count, per_block))
    }
}

/// Returns the importance of an account at the last recalculation; 0 if that did not include it.
fn current_importance(account: &Address, confirmed: &ConfirmedChain<'_>) -> Result<f64, StoreError> {
    let last = state::last_recalculation(confirmed.snapshot)?.map(|last| last.height);
    let own = state::importance(confirmed.snapshot, account)?;
    Ok(own.filter(|own| Some(own.height) == last).map_or(0.0, |own| own.importance))
}

/// Returns how many transactions an account may have in a mempool that holds `count` of their class.
fn max_per_account(importance: f64, fee: u64, count: u64, per_block: u64) -> i64 {
    let limit = (MAX_CLASS_BLOCKS * per_block) as f64;
    let count = count as f64;
    let effective = importance + MAX_FEE_IMPORTANCE.min(fee as f64 / 1_000_000_000.0);
    (effective * (-3.0 * count / limit).exp() * 100.0 * (limit - count)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows by count, columns by fee.
    #[test]
    fn an_account_without_importance_is_limited_as_in_the_table() {
        let fees = [50_000, 100_000, 150_000, 500_000, 1_000_000, 5_000_000, 10_000_000];
        let table = [
            (120, [4, 8, 12, 40, 80, 400, 800]),
            (150, [3, 7, 10, 36, 72, 360, 721]),
            (200, [3, 6, 9, 30, 60, 303, 606]),
            (300, [2, 4, 6, 21, 42, 212, 425]),
            (400, [1, 2, 4, 14, 29, 147, 294]),
            (500, [1, 2, 3, 10, 20, 100, 200]),
            (600, [0, 1, 2, 6, 13, 66, 133]),
            (800, [0, 0, 0, 2, 5, 27, 54]),
            (1000, [0, 0, 0, 0, 1, 8, 16]),
            (1100, [0, 0, 0, 0, 0, 3, 6]),
            (1150, [0, 0, 0, 0, 0, 1, 2]),
            (1199, [0, 0, 0, 0, 0, 0, 0]),
            (1200, [0, 0, 0, 0, 0, 0, 0]),
        ];
        for (count, row) in table {
            assert_eq!(fees.map(|fee| max_per_account(0.0, fee, count, 120)), row, "{count}");
        }
        assert_eq!(max_per_account(0.0, 50_000_000, 120, 120), 800);
        assert_eq!(max_per_account(0.001, 50_000, 600, 120), 14);
    }
}
