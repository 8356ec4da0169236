//! The accounts that harvest on this node.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;

use crate::chain::snapshot::ChainSnapshot;
use crate::crypto::KeyPair;
use crate::model::units::MIN_STAKE;
use crate::model::{Address, Amount, Height};
use crate::rules::may_not_harvest;
use crate::state::{self, LinkPhase, LinkRole};
use crate::store::Result;

/// Result of unlocking an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnlockResult {
    /// The account harvests now, or already did.
    Success,
    /// The limit of harvesting accounts is reached.
    ServerLimit,
    /// The key is blocked from harvesting on every network.
    HarvestingBlocked,
    /// The account occurs in no block.
    UnknownAccount,
    /// The account for which it harvests has too little vested balance, or its link has ended.
    HarvestingIneligible,
}

impl UnlockResult {
    /// Returns the name used in the HTTP interface.
    pub fn name(self) -> &'static str {
        match self {
            UnlockResult::Success => "SUCCESS",
            UnlockResult::ServerLimit => "FAILURE_SERVER_LIMIT",
            UnlockResult::HarvestingBlocked => "FAILURE_HARVESTING_BLOCKED",
            UnlockResult::UnknownAccount => "FAILURE_UNKNOWN_ACCOUNT",
            UnlockResult::HarvestingIneligible => "FAILURE_HARVESTING_INELIGIBLE",
        }
    }
}

/// Who gave the key of a harvesting account, the one with the least right to a place first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyOrigin {
    /// A client without local access.
    RemoteClient,
    /// A client with local access.
    LocalClient,
    /// The configuration. The key is retried after it had to stop.
    Configured,
}

/// Checks whether an account, or the owner of a remote account, has enough vested balance to harvest at a height. A
/// remote account whose link has ended can no longer harvest.
fn check_eligibility(address: &Address, height: Height, chain: &ChainSnapshot<'_>) -> Result<UnlockResult> {
    let state = chain.snapshot;
    let account = state::account(state, address)?;
    if !account.is_known() {
        return Ok(UnlockResult::UnknownAccount);
    }
    if account.remote_status(height, chain.network.chain.rewrite_limit) == Some((LinkRole::Remote, LinkPhase::Inactive))
    {
        return Ok(UnlockResult::HarvestingIneligible);
    }
    let owner = account.links.last().filter(|link| link.role == LinkRole::Remote).map(|link| link.linked_address);
    let harvesting = owner.map(|owner| state::account(state, &owner)).transpose()?.unwrap_or(account);
    let vested = Amount(harvesting.balance.at(height, &chain.network.chain).vested);
    Ok(if vested < MIN_STAKE { UnlockResult::HarvestingIneligible } else { UnlockResult::Success })
}

/// The keys that harvest, and configured keys that may not yet. Keys are erased when dropped, and boxed so that they
/// are never moved in memory before.
pub struct UnlockedAccounts {
    /// Maximum number of harvesting accounts; negative for no limit.
    pub limit: i32,
    keys: BTreeMap<Address, UnlockedKey>,
    /// Configured keys that may not harvest at present.
    pending: Vec<(Address, Box<KeyPair>)>,
    /// Increases whenever an account starts or stops to harvest.
    pub version: u64,
}

struct UnlockedKey {
    pair: Box<KeyPair>,
    origin: KeyOrigin,
    /// Value of `version` when the account started to harvest.
    since: u64,
}

impl UnlockedAccounts {
    /// Creates an empty set. At most `limit` accounts may harvest (`nis.unlockedLimit`); negative for no limit.
    pub fn new(limit: i32) -> UnlockedAccounts {
        UnlockedAccounts { limit, keys: BTreeMap::new(), pending: Vec::new(), version: 0 }
    }

    /// Starts harvesting with a key. A configured one that may not harvest now starts as soon as it may.
    pub fn unlock(&mut self, pair: Box<KeyPair>, origin: KeyOrigin, chain: &ChainSnapshot<'_>) -> Result<UnlockResult> {
        let address = Address::from_public_key(&pair.public(), chain.network.byte);
        let result = self.check_unlock(&address, &pair, origin, chain);
        match result {
            Ok(UnlockResult::Success) => self.insert(address, pair, origin),
            _ if origin == KeyOrigin::Configured => self.pending.push((address, pair)),
            _ => {}
        }
        result
    }

    /// Starts the waiting configured accounts that are now eligible.
    pub(super) fn retry(&mut self, chain: &ChainSnapshot<'_>) -> Result<()> {
        let mut index = 0;
        while let Some((address, pair)) = self.pending.get(index) {
            if self.check_unlock(address, pair, KeyOrigin::Configured, chain)? == UnlockResult::Success {
                let (address, pair) = self.pending.remove(index);
                self.insert(address, pair, KeyOrigin::Configured);
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    /// Adds a key that may harvest. At the limit another one gives way to it.
    fn insert(&mut self, address: Address, pair: Box<KeyPair>, origin: KeyOrigin) {
        if let Some(key) = self.keys.get_mut(&address) {
            key.origin = key.origin.max(origin);
            return;
        }
        if self.is_full()
            && let Some(evicted) = self.evictable_for(origin)
        {
            log::info!("{evicted} no longer harvests: {address} has a better right to its place");
            self.keys.remove(&evicted);
        }
        self.version += 1;
        self.keys.insert(address, UnlockedKey { pair, origin, since: self.version });
    }

    fn is_full(&self) -> bool {
        i64::try_from(self.count()) == Ok(i64::from(self.limit))
    }

    /// Returns the account that gives way to a key of this origin: of the least origin, if that is a lesser one, the
    /// account that started last, so that newcomers do not end what has harvested for long.
    fn evictable_for(&self, origin: KeyOrigin) -> Option<Address> {
        let (address, key) = self.keys.iter().min_by_key(|(_, key)| (key.origin, Reverse(key.since)))?;
        (key.origin < origin).then_some(*address)
    }

    /// Checks limit, key and balance. An account that already harvests is not counted again.
    fn check_unlock(
        &self,
        address: &Address,
        pair: &KeyPair,
        origin: KeyOrigin,
        chain: &ChainSnapshot<'_>,
    ) -> Result<UnlockResult> {
        if !self.contains(address) && self.is_full() && self.evictable_for(origin).is_none() {
            return Ok(UnlockResult::ServerLimit);
        }
        if may_not_harvest(&pair.public()) {
            return Ok(UnlockResult::HarvestingBlocked);
        }
        check_eligibility(address, chain.height, chain)
    }

    /// Stops an account from harvesting, even a configured one.
    pub fn lock(&mut self, address: &Address) {
        self.version += u64::from(self.keys.remove(address).is_some());
        self.pending.retain(|(waiting, _)| waiting != address);
    }

    /// Stops the accounts that may not harvest at a height. Configured ones are retried later.
    pub(super) fn prune(&mut self, height: Height, chain: &ChainSnapshot<'_>) -> Result<()> {
        let mut ended = Vec::new();
        for address in self.keys.keys() {
            if check_eligibility(address, height, chain)? != UnlockResult::Success {
                ended.push(*address);
            }
        }
        self.version += ended.len() as u64;
        let ended = ended.into_iter().filter_map(|address| Some((address, self.keys.remove(&address)?)));
        let is_configured = |(_, key): &(Address, UnlockedKey)| key.origin == KeyOrigin::Configured;
        let ended = ended.filter(is_configured).map(|(address, key)| (address, key.pair));
        self.pending.extend(ended);
        Ok(())
    }

    /// Returns whether an account harvests.
    pub fn contains(&self, address: &Address) -> bool {
        self.keys.contains_key(address)
    }

    /// Returns the number of accounts that harvest.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// Returns the key of an account that harvests.
    pub(super) fn key(&self, address: &Address) -> Option<&KeyPair> {
        self.keys.get(address).map(|key| &*key.pair)
    }

    /// Returns the first harvesting account whose address is greater than `address`, or the first of all.
    pub(super) fn next_after(&self, address: Option<&Address>) -> Option<(Address, &KeyPair)> {
        let from = address.map_or(Bound::Unbounded, Bound::Excluded);
        let (address, key) = self.keys.range::<Address, _>((from, Bound::Unbounded)).next()?;
        Some((*address, &key.pair))
    }
}
