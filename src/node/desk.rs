//! Pool, harvester and chain as the interfaces use them, on top of one commit.

use std::rc::Rc;

use super::unconfirmed::Unconfirmed;
use crate::api::views::UnlockedInfo;
use crate::api::{Actions, ChainView};
use crate::chain::harvest::{UnlockResult, Unlocked};
use crate::crypto::KeyPair;
use crate::model::{Address, Timestamp, Transaction};
use crate::pool::Confirmed;
use crate::rules::Verdict;
use crate::store::StoreError;

/// What the interfaces have to do with.
pub struct Desk<'a> {
    pub unconfirmed: &'a mut Unconfirmed,
    pub unlocked: &'a mut Unlocked,
    pub view: ChainView<'a>,
    pub time: Timestamp,
}

impl<'a> Desk<'a> {
    fn confirmed(&self) -> Confirmed<'a> {
        let ChainView { snapshot, network, height, .. } = self.view;
        Confirmed { snapshot, network, height, now: self.time }
    }
}

impl Actions for Desk<'_> {
    fn announce(&mut self, transaction: Transaction) -> Verdict {
        let confirmed = self.confirmed();
        self.unconfirmed.announce(transaction, &confirmed)
    }

    fn unconfirmed(&self, account: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, StoreError> {
        if self.unconfirmed.pool.is_empty() {
            return Ok(Vec::new());
        }
        let roots = self.unconfirmed.pool.most_recent(account, limit, &self.confirmed())?;
        Ok(roots.into_iter().map(|root| Rc::clone(&root.transaction)).collect())
    }

    fn has_importance_transfer(&self, account: &Address) -> Result<bool, StoreError> {
        Ok(self.unconfirmed.pool.has_importance_transfer(account))
    }

    fn unlock(&mut self, pair: Box<KeyPair>) -> Result<UnlockResult, StoreError> {
        let ChainView { snapshot, network, height, .. } = self.view;
        self.unlocked.unlock(pair, height, snapshot, network)
    }

    fn lock(&mut self, address: &Address) {
        self.unlocked.lock(address);
    }

    fn is_unlocked(&self, address: &Address) -> bool {
        self.unlocked.contains(address)
    }

    fn unlocked_info(&self) -> UnlockedInfo {
        UnlockedInfo { max: self.unlocked.limit(), count: self.unlocked.count() as i32 }
    }
}
