//! What the interface may have the node do, and what it asks of the node's memory rather than of the chain.

use std::rc::Rc;

use super::views::UnlockedInfo;
use crate::chain::harvest::UnlockResult;
use crate::crypto::KeyPair;
use crate::model::{Address, Transaction};
use crate::rules;
use crate::store::StoreError;

/// Pool and harvester as the interface may use them, on top of the same commit as the [`super::ChainView`] beside them.
pub trait Actions {
    /// Offers a signed transaction of this network, or of another, to the pool.
    fn announce(&mut self, transaction: Transaction) -> rules::Verdict;

    /// Transactions of the pool that concern an account, the youngest first, at most `limit`. What this costs must not
    /// grow with the number of transactions of the account.
    fn unconfirmed(&self, account: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, StoreError>;

    /// Whether an importance transfer that concerns an account waits in the pool, among those that
    /// [`Actions::unconfirmed`] would give without a limit.
    fn has_importance_transfer(&self, account: &Address) -> Result<bool, StoreError>;

    /// Lets an account harvest on this node. Boxed, so that the key stays in one place.
    fn unlock(&mut self, pair: Box<KeyPair>) -> Result<UnlockResult, StoreError>;

    /// Ends that; no effect if it does not harvest.
    fn lock(&mut self, address: &Address);

    /// Whether an account harvests on this node.
    fn is_unlocked(&self, address: &Address) -> bool;

    /// How many accounts harvest on this node.
    fn unlocked_info(&self) -> UnlockedInfo;
}
