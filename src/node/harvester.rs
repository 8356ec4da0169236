//! Harvesting: one attempt every second.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use crate::chain::harvest::{HarvestProgress, HarvestRound, Harvested, KeyOrigin, UnlockResult, UnlockedAccounts};
use crate::chain::{ChainSnapshot, ChainUpdate};
use crate::config::Settings;
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::{Address, Block, Hash256, Transaction};
use crate::store::StoreError;

/// Time from the start of the node to the first attempt.
const FIRST_ROUND: Duration = Duration::from_secs(5);
/// Time from the end of one attempt to the next.
const ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of own block hashes kept. Older blocks can no longer be replaced.
const MAX_REMEMBERED: usize = 1_000;

/// The harvesting accounts and the attempt in progress.
pub struct Harvester<'s> {
    settings: &'s Settings,
    /// The harvesting accounts.
    pub unlocked: UnlockedAccounts,
    /// Number of own blocks added to the chain.
    pub harvested: u64,
    /// Hashes of the latest own blocks, the newest first.
    pub recent_hashes: VecDeque<Hash256>,
    /// When the next attempt is due, as time since the start.
    pub next_round: Duration,
    round: Option<Box<HarvestRound>>,
}

impl<'s> Harvester<'s> {
    /// Creates a harvester without accounts.
    pub fn new(settings: &'s Settings) -> Harvester<'s> {
        let unlocked = UnlockedAccounts::new(settings.peers.unlocked_limit);
        let (recent_hashes, next_round) = (VecDeque::new(), FIRST_ROUND);
        Harvester { settings, unlocked, harvested: 0, recent_hashes, next_round, round: None }
    }

    /// Unlocks the configured harvesting accounts when the node joins its network; each harvests as soon as it is
    /// allowed to. The account of `boot_key`, or else of the configured boot key, comes first.
    pub fn unlock_configured(
        &mut self,
        boot_key: Option<&PrivateKey>,
        confirmed: &ChainSnapshot<'_>,
    ) -> Result<(), StoreError> {
        let settings = self.settings;
        if !settings.peers.auto_harvest {
            return Ok(());
        }
        let first = boot_key.or(settings.node.boot_key.as_ref());
        for key in first.into_iter().chain(&settings.peers.harvester_keys) {
            let pair = Box::new(KeyPair::new(key));
            let address = Address::from_public_key(&pair.public(), confirmed.network.byte);
            match self.unlocked.unlock(pair, KeyOrigin::Configured, confirmed)? {
                UnlockResult::Success => log::info!("{address} harvests"),
                other => log::warn!("{address} does not harvest yet: {}", other.name()),
            }
        }
        Ok(())
    }

    /// Postpones the next attempt. One in progress is dropped, since its time stamp is not reliable.
    pub fn postpone(&mut self, until: Duration) {
        self.next_round = self.next_round.max(until);
        self.round = None;
    }

    /// Returns whether there is work that does not wait for a timer.
    pub fn has_work(&self) -> bool {
        self.round.is_some()
    }

    /// Performs one step. `now` is the time since the start; `unconfirmed` returns the candidate transactions.
    /// Returns a harvested block, which is to be added to the chain.
    pub fn step(
        &mut self,
        now: Duration,
        confirmed: &ChainSnapshot<'_>,
        unconfirmed: impl FnOnce() -> Vec<Rc<Transaction>>,
    ) -> Result<Option<Harvested>, StoreError> {
        let Some(mut round) = self.round.take() else {
            if now >= self.next_round {
                self.next_round = now + ROUND_INTERVAL;
                self.round = HarvestRound::begin(&mut self.unlocked, confirmed)?.map(Box::new);
            }
            return Ok(None);
        };
        let progress = round.step(&self.unlocked, unconfirmed, confirmed)?;
        self.next_round = now + ROUND_INTERVAL;
        match progress {
            HarvestProgress::Done(harvested) => return Ok(harvested),
            HarvestProgress::Discarded(address, error) => {
                log::warn!("the block harvested by {address} is invalid: {error}");
            }
            HarvestProgress::Working => {}
        }
        self.round = Some(round);
        Ok(None)
    }

    /// Records that a harvested block was added to the chain.
    pub fn record_own(&mut self, block: &Block, update: &ChainUpdate) {
        self.harvested += 1;
        self.recent_hashes.push_front(block.hash());
        self.recent_hashes.truncate(MAX_REMEMBERED);
        log::info!("harvested block: height {}, {} transactions", update.tip, update.confirmed.len());
    }
}
