//! Pool, harvester and chain as the interfaces use them, on top of one commit.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::harvester::Harvester;
use super::identity::Identity;
use super::judge::{Judge, Pushed};
use super::randomness::Randomness;
use super::unconfirmed::Unconfirmed;
use crate::api::views::UnlockedInfo;
use crate::api::{Actions, BootRequest, ChainView, NodeDescription};
use crate::chain::harvest::UnlockResult;
use crate::crypto::{KeyPair, PrivateKey, PublicKey, Signature};
use crate::model::{Address, Block, Hash256, Timestamp, Transaction};
use crate::peer::wire::Challenge;
use crate::pool::{Confirmed, ShortId};
use crate::rules::{ValidationResult, Verdict};
use crate::store::StoreError;

/// What the interfaces have to do with.
pub struct Desk<'a, 's> {
    pub unconfirmed: &'a mut Unconfirmed,
    pub harvester: &'a mut Harvester<'s>,
    pub judge: &'a mut Judge<'s>,
    pub identity: &'a mut Identity,
    pub randomness: &'a mut Randomness,
    /// Somebody asks the node to end.
    pub is_to_end: bool,
    pub view: ChainView<'a>,
    pub time: Timestamp,
}

impl<'a> Desk<'a, '_> {
    fn confirmed(&self) -> Confirmed<'a> {
        let ChainView { snapshot, network, height, .. } = self.view;
        Confirmed { snapshot, network, height, now: self.time }
    }
}

impl Actions for Desk<'_, '_> {
    fn announce(&mut self, transaction: Transaction) -> Verdict {
        let confirmed = self.confirmed();
        self.unconfirmed.announce(transaction, &confirmed)
    }

    fn push_block(&mut self, block: Block, by: PublicKey) -> Result<bool, StoreError> {
        let confirmed = self.confirmed();
        let pushed = self.judge.push(block, by, &confirmed, self.identity.is_booted)?;
        Ok(pushed != Pushed::Early)
    }

    fn note_early(&mut self, hash: &Hash256) -> Option<ValidationResult> {
        self.unconfirmed.pool.note_early(hash, self.time)
    }

    fn unknown_to(&self, known: &BTreeSet<ShortId>) -> Vec<Rc<Transaction>> {
        self.unconfirmed.pool.unknown_to(known)
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
        self.harvester.unlocked.unlock(pair, height, snapshot, network)
    }

    fn lock(&mut self, address: &Address) {
        self.harvester.unlocked.lock(address);
    }

    fn is_unlocked(&self, address: &Address) -> bool {
        self.harvester.unlocked.contains(address)
    }

    fn unlocked_info(&self) -> UnlockedInfo {
        UnlockedInfo { max: self.harvester.unlocked.limit(), count: self.harvester.unlocked.count() as i32 }
    }

    fn node(&self) -> &NodeDescription {
        &self.identity.description
    }

    fn sign_challenge(&self, challenge: &Challenge) -> Signature {
        self.identity.sign_challenge(challenge)
    }

    fn new_key(&mut self) -> PrivateKey {
        PrivateKey::from_seed(&self.randomness.draw())
    }

    fn boot(&mut self, request: BootRequest) -> Result<(), StoreError> {
        let confirmed = self.confirmed();
        self.harvester.unlock_configured(Some(&request.private_key), &confirmed)?;
        self.identity.boot(request);
        log::info!("joined the network as {}", self.identity.description.info.identity.key);
        Ok(())
    }

    fn shut_down(&mut self) {
        self.is_to_end = true;
    }
}
