//! Pool, harvester and chain as the interfaces use them, on top of one commit.

use std::borrow::Cow;
use std::rc::Rc;

use super::unconfirmed::Unconfirmed;
use crate::api::media::Format;
use crate::api::views::UnlockedInfo;
use crate::api::{AccountWriter, Actions, Budget, ChainView, Failure, LongView, Sheet};
use crate::chain::harvest::{UnlockResult, Unlocked};
use crate::codec::json::JsonSink;
use crate::crypto::KeyPair;
use crate::model::{Address, Height, MosaicId, Timestamp, Transaction};
use crate::net::machine::Taken;
use crate::pool::Confirmed;
use crate::push::{AccountText, BlockText, Facts, FactsError};
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

    /// Goes on with a JSON text; true when it is complete.
    fn write_on(&self, writer: &mut dyn LongView, text: &mut Vec<u8>, units: &mut Budget) -> Result<bool, Failure> {
        let mut sheet = Sheet { format: Format::Json, body: text, json: &mut JsonSink::default() };
        Ok(writer.write_on(&self.view, &mut sheet, units)? == Taken::Done)
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

impl Facts for Desk<'_> {
    fn height(&self) -> Height {
        self.view.height
    }

    fn block_signer(&self, height: Height) -> Result<Option<Address>, FactsError> {
        let opened = self.view.open_block(height).map_err(failed)?;
        Ok(opened.map(|(block, _)| Address::from_public_key(&block.signer, self.view.network.byte)))
    }

    fn write_block(&self, block: &mut BlockText, budget: &mut u32) -> Result<bool, FactsError> {
        let mut units = Budget::new(*budget);
        let is_done = self.write_on(&mut block.writer, &mut block.text, &mut units);
        *budget = budget.saturating_sub(units.used());
        is_done.map_err(told)
    }

    fn transactions(&self, height: Height, from: usize, most: usize) -> Result<Vec<Transaction>, FactsError> {
        self.view.transactions(height, from, most).map_err(failed)
    }

    fn write_account(&self, account: &mut AccountText, budget: &mut u32) -> Result<bool, FactsError> {
        let mut units = Budget::new(*budget);
        let AccountText { address, text, writer } = account;
        let writer = match writer {
            Some(writer) => writer,
            None => writer.insert(AccountWriter::new(&self.view, self, *address, &mut units).map_err(told)?),
        };
        let is_done = self.write_on(writer, text, &mut units);
        *budget = budget.saturating_sub(units.used());
        is_done.map_err(told)
    }

    fn levy_recipient(&self, mosaic: &MosaicId) -> Result<Option<Address>, FactsError> {
        let definition = self.view.mosaic_definition(mosaic).map_err(failed)?;
        Ok(definition.and_then(|definition| definition.levy).map(|levy| levy.recipient))
    }

    fn unconfirmed(&self, address: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, FactsError> {
        Actions::unconfirmed(self, address, limit).map_err(failed)
    }
}

fn told(failure: Failure) -> FactsError {
    FactsError(Cow::Owned(failure.message().to_owned()))
}

/// The client can do nothing about it; the operator is told by whoever works on the store.
fn failed(_: StoreError) -> FactsError {
    FactsError(Cow::Borrowed("the node's store failed"))
}
