//! Harvesting: one attempt every second, and the addition of the resulting block to the chain.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use crate::chain::harvest::{HarvestProgress, HarvestRound, Harvested, UnlockResult, UnlockedAccounts};
use crate::chain::{CandidateBranch, ChainUpdate, pushed_branch};
use crate::config::Settings;
use crate::crypto::{KeyPair, PrivateKey};
use crate::mempool::ConfirmedChain;
use crate::model::{Address, Block, Hash256, Network, Transaction};
use crate::rules::Rejection;
use crate::store::{Store, StoreError};

/// Time from the start of the node to the first attempt.
const FIRST_ROUND: Duration = Duration::from_secs(5);
/// Time from the end of one attempt to the next.
const ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of own block hashes kept. Older blocks can no longer be replaced.
const MAX_REMEMBERED: usize = 1_000;

/// The harvesting accounts and the block in progress.
pub struct Harvester<'s> {
    store: &'s Store,
    settings: &'s Settings,
    network: &'s Network,
    /// The harvesting accounts.
    pub unlocked: UnlockedAccounts,
    /// Number of own blocks added to the chain.
    harvested: u64,
    /// Hashes of the latest own blocks, the newest first.
    recent_hashes: VecDeque<Hash256>,
    next_round: Duration,
    work: Work<'s>,
}

enum Work<'s> {
    Idle,
    Round(Box<HarvestRound>),
    Block(Box<CandidateBranch<'s>>, Box<Block>),
}

impl<'s> Harvester<'s> {
    /// Creates a harvester without accounts.
    pub fn new(store: &'s Store, settings: &'s Settings) -> Harvester<'s> {
        let unlocked = UnlockedAccounts::new(settings.peers.unlocked_limit);
        let network = &settings.network;
        Harvester {
            store,
            settings,
            network,
            unlocked,
            harvested: 0,
            recent_hashes: VecDeque::new(),
            next_round: FIRST_ROUND,
            work: Work::Idle,
        }
    }

    /// Unlocks the configured harvesting accounts when the node joins its network; each harvests as soon as it is
    /// allowed to. The account of `boot_key`, or else of the configured boot key, comes first.
    pub fn unlock_configured(
        &mut self,
        boot_key: Option<&PrivateKey>,
        confirmed: &ConfirmedChain<'_>,
    ) -> Result<(), StoreError> {
        let settings = self.settings;
        if !settings.peers.auto_harvest {
            return Ok(());
        }
        if let Some(key) = boot_key {
            self.unlock(key, confirmed)?;
        }
        let configured = settings.node.boot_key.iter().filter(|_| boot_key.is_none());
        for secret in configured.chain(&settings.peers.harvester_keys) {
            // The configuration holds only hex digits.
            let Ok(private) = PrivateKey::from_hex(secret.expose_hex()) else { continue };
            self.unlock(&private, confirmed)?;
        }
        Ok(())
    }

    fn unlock(&mut self, key: &PrivateKey, confirmed: &ConfirmedChain<'_>) -> Result<(), StoreError> {
        let pair = Box::new(KeyPair::new(key));
        let address = Address::from_public_key(&pair.public(), self.network.byte);
        match self.unlocked.unlock_configured(pair, confirmed.height, confirmed.snapshot, self.network)? {
            UnlockResult::Success => log::info!("{address} harvests"),
            other => log::warn!("{address} does not harvest yet: {}", other.name()),
        }
        Ok(())
    }

    /// Number of own blocks added to the chain.
    pub fn harvested(&self) -> u64 {
        self.harvested
    }

    /// Returns whether the block with this hash is among the latest own blocks.
    pub fn has_harvested(&self, hash: &Hash256) -> bool {
        self.recent_hashes.contains(hash)
    }

    /// When the next attempt is due, as time since the start.
    pub fn due(&self) -> Duration {
        self.next_round
    }

    /// Postpones the next attempt. A block in progress is dropped, since its timestamp is not reliable, unless it is
    /// already committed.
    pub fn postpone(&mut self, until: Duration) {
        self.next_round = self.next_round.max(until);
        if !matches!(&self.work, Work::Block(part, _) if part.is_committed()) {
            self.work = Work::Idle;
        }
    }

    /// Returns whether there is work that does not wait for a timer.
    pub fn has_work(&self) -> bool {
        !matches!(self.work, Work::Idle)
    }

    /// Returns whether a block is being added to the chain; nothing else may change the chain meanwhile.
    pub fn holds_chain(&self) -> bool {
        matches!(self.work, Work::Block(..))
    }

    /// Performs one step. `running` is the time since the start; `unconfirmed` returns the candidate transactions.
    /// Returns the chain update and the block, once a block was added to the chain.
    pub fn step(
        &mut self,
        running: Duration,
        confirmed: &ConfirmedChain<'_>,
        unconfirmed: impl FnOnce() -> Vec<Rc<Transaction>>,
    ) -> Result<Option<(ChainUpdate, Box<Block>)>, StoreError> {
        match std::mem::replace(&mut self.work, Work::Idle) {
            Work::Idle if running >= self.next_round => {
                self.next_round = running + ROUND_INTERVAL;
                let tick = HarvestRound::begin(&mut self.unlocked, confirmed.now, confirmed.snapshot, self.network)?;
                self.work = tick.map_or(Work::Idle, |tick| Work::Round(Box::new(tick)));
            }
            Work::Idle => {}
            Work::Round(mut tick) => {
                match tick.step(&self.unlocked, unconfirmed, confirmed.snapshot, self.network)? {
                    HarvestProgress::Working => self.work = Work::Round(tick),
                    HarvestProgress::Discarded(address, error) => {
                        log::warn!("the block harvested by {address} is invalid: {error}");
                        self.work = Work::Round(tick);
                    }
                    HarvestProgress::Done(Some(harvested)) => self.begin_block(harvested)?,
                    HarvestProgress::Done(None) => {}
                }
                self.next_round = running + ROUND_INTERVAL;
            }
            Work::Block(mut part, block) => match part.step(confirmed.now)? {
                None => self.work = Work::Block(part, block),
                Some(outcome) => {
                    match &outcome.update {
                        Some(update) => {
                            self.harvested += 1;
                            self.recent_hashes.push_front(block.hash());
                            self.recent_hashes.truncate(MAX_REMEMBERED);
                            log::info!(
                                "harvested block: height {}, {} transactions",
                                update.tip,
                                update.confirmed.len()
                            );
                        }
                        None => log::warn!("the harvested block was not accepted: {:?}", outcome.validity),
                    }
                    return Ok(outcome.update.map(|update| (update, block)));
                }
            },
        }
        Ok(None)
    }

    fn begin_block(&mut self, harvested: Harvested) -> Result<(), StoreError> {
        let block = Box::new(harvested.block.clone());
        match pushed_branch(self.store, self.network, harvested.block, Some(harvested.hashes)) {
            Ok(part) => self.work = Work::Block(Box::new(part), block),
            Err(Rejection::Store(error)) => return Err(error),
            Err(refusal) => log::warn!("the harvested block was not accepted: {refusal}"),
        }
        Ok(())
    }
}
