//! One attempt to create the next block, with every account that harvests on this node.

use std::rc::Rc;

use super::creation::{HarvestHit, NextBlockInfo, create, test_hit};
use super::tx_selection::TxSelection;
use super::unlocked::UnlockedAccounts;
use crate::chain::difficulty::DifficultyWindow;
use crate::chain::error::BlockError;
use crate::crypto::KeyPair;
use crate::model::transaction::Hashes;
use crate::model::{Address, Block, Network, Timestamp, Transaction};
use crate::state;
use crate::store::{Snapshot, StoreError, tip};

/// A harvested block, not yet on the chain.
#[derive(Clone, Debug)]
pub struct Harvested {
    /// The block.
    pub block: Block,
    /// Hashes of its transactions. Their signatures are valid, as they come from the mempool.
    pub hashes: Vec<Hashes>,
    /// The block's contribution to the chain score.
    pub score: i64,
}

/// Result of one step of a harvest round.
#[derive(Debug)]
pub enum HarvestProgress {
    /// There is more to do.
    Working,
    /// The block of this account is invalid. The remaining accounts are still tried.
    Discarded(Address, BlockError),
    /// The harvest round is over, with a block or without one.
    Done(Option<Harvested>),
}

/// A harvest attempt in progress. Parent, time and block score are the same for all accounts, and the protocol does not
/// say which of the accounts that hit creates the block. Here it is the one that would have hit first if time were not
/// counted in whole seconds, so that blocks are shared in proportion to importance.
pub struct HarvestRound {
    next_block: NextBlockInfo,
    /// Address of the account that was tried last.
    last_tried: Option<Address>,
    /// Accounts that have hit; the best is last.
    hits: Vec<(HarvestHit, Address)>,
    /// The account whose block is being created, and the selection of its transactions.
    current: Option<(Address, TxSelection)>,
}

impl HarvestRound {
    /// Starts a harvest round at the network time `now`. Expired unconfirmed transactions must be removed before.
    /// Accounts that may no longer harvest are stopped, and configured accounts that now may are started. Returns
    /// `None` if no account harvests, there is no chain, or a better chain is known (`is_behind`).
    pub fn begin(
        unlocked: &mut UnlockedAccounts,
        now: Timestamp,
        is_behind: bool,
        state: &Snapshot<'_>,
        network: &Network,
    ) -> Result<Option<HarvestRound>, StoreError> {
        let Some(parent) = tip(state)? else { return Ok(None) };
        unlocked.prune(parent.height.next(), state, network)?;
        unlocked.retry(parent.height, state, network)?;
        if is_behind || unlocked.count() == 0 {
            return Ok(None);
        }
        let difficulty = DifficultyWindow::load(state, parent.height)?.difficulty(network.chain.target_time);
        let tick = |difficulty| {
            let place = NextBlockInfo { parent, difficulty, timestamp: now };
            HarvestRound { next_block: place, last_tried: None, hits: Vec::new(), current: None }
        };
        Ok(difficulty.map(tick))
    }

    /// Tries one account or one transaction, or creates the block. The tick is over if the tip has changed.
    /// `unconfirmed` is called when all accounts were tried and one has hit. It returns all unconfirmed transactions,
    /// ordered by fee (highest first), then by age (oldest first). Fails only if the store does.
    pub fn step(
        &mut self,
        unlocked: &UnlockedAccounts,
        unconfirmed: impl FnOnce() -> Vec<Rc<Transaction>>,
        state: &Snapshot<'_>,
        network: &Network,
    ) -> Result<HarvestProgress, StoreError> {
        if tip(state)?.is_none_or(|tip| tip.hash != self.next_block.parent.hash) {
            return Ok(HarvestProgress::Done(None));
        }
        let (address, progress) = match self.current.take() {
            Some((address, choice)) => (address, self.continue_block(address, choice, unlocked, state, network)),
            None => match unlocked.next_after(self.last_tried.as_ref()) {
                Some((address, key)) => (address, self.try_key(address, key, state, network)),
                None => {
                    let Some((_, address)) = self.hits.pop() else { return Ok(HarvestProgress::Done(None)) };
                    (address, self.begin_block(address, unconfirmed, state, network))
                }
            },
        };
        match progress {
            Err(BlockError::Store(error)) => Err(error),
            Err(error) => Ok(HarvestProgress::Discarded(address, error)),
            Ok(progress) => Ok(progress),
        }
    }

    fn try_key(
        &mut self,
        address: Address,
        key: &KeyPair,
        state: &Snapshot<'_>,
        network: &Network,
    ) -> Result<HarvestProgress, BlockError> {
        self.last_tried = Some(address);
        if let Some(hit) = test_hit(&key.public(), &self.next_block, state, network)? {
            let place = self.hits.partition_point(|(other, _)| other.hits_after(&hit));
            self.hits.insert(place, (hit, address));
        }
        Ok(HarvestProgress::Working)
    }

    fn begin_block(
        &mut self,
        address: Address,
        unconfirmed: impl FnOnce() -> Vec<Rc<Transaction>>,
        state: &Snapshot<'_>,
        network: &Network,
    ) -> Result<HarvestProgress, BlockError> {
        let (height, limit) = (self.next_block.height(), network.chain.rewrite_limit);
        let owner = state::account(state, &address)?.forwarded(height, limit).unwrap_or(address);
        let choice = TxSelection::new(unconfirmed(), &owner, height, self.next_block.timestamp, network);
        self.current = Some((address, choice));
        Ok(HarvestProgress::Working)
    }

    fn continue_block(
        &mut self,
        address: Address,
        mut choice: TxSelection,
        unlocked: &UnlockedAccounts,
        state: &Snapshot<'_>,
        network: &Network,
    ) -> Result<HarvestProgress, BlockError> {
        if choice.step(state, network)? {
            self.current = Some((address, choice));
            return Ok(HarvestProgress::Working);
        }
        // The account may have been locked meanwhile.
        let Some(key) = unlocked.key(&address) else { return Ok(HarvestProgress::Working) };
        let (transactions, hashes) = choice.into_parts();
        let block = create(key, transactions, &hashes, &self.next_block, state, network)?;
        Ok(HarvestProgress::Done(Some(Harvested { block, hashes, score: self.next_block.score() })))
    }
}
