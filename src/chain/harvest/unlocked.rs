//! The accounts that harvest on this node.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::crypto::KeyPair;
use crate::model::units::MIN_STAKE;
use crate::model::{Address, Amount, Height, Network};
use crate::rules::may_not_harvest;
use crate::state::{LinkRole, StateView};
use crate::store::StoreError;

/// What came of unlocking an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnlockResult {
    /// The account harvests now, or did before.
    Success,
    /// No more accounts may harvest on this node.
    ServerLimit,
    /// The key is one of those that may harvest on no network.
    HarvestingBlocked,
    /// The account occurs in no block.
    UnknownAccount,
    /// The account it harvests for has too little vested balance.
    HarvestingIneligible,
}

impl UnlockResult {
    /// The name, as it is sent over HTTP.
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

/// Whether an account has enough vested balance, or harvests for one that has, to harvest at a height.
pub fn may_be_unlocked(
    address: &Address,
    height: Height,
    state: &impl StateView,
    network: &Network,
) -> Result<UnlockResult, StoreError> {
    let account = state.account(address)?;
    if !account.is_known() {
        return Ok(UnlockResult::UnknownAccount);
    }
    let owner = account.links.last().filter(|link| link.role == LinkRole::Remote).map(|link| link.other);
    let behind = owner.map(|owner| state.account(&owner)).transpose()?.unwrap_or(account);
    let vested = Amount(behind.balance.at(height, &network.chain).vested);
    Ok(if vested < MIN_STAKE { UnlockResult::HarvestingIneligible } else { UnlockResult::Success })
}

/// The keys that harvest, and those of the configuration that are to. They are erased when they are dropped, and boxed
/// so that until then they stay in one place.
pub struct Unlocked {
    limit: i32,
    keys: BTreeMap<Address, Unlocking>,
    /// Keys of the configuration that may not harvest at present.
    waiting: Vec<(Address, Box<KeyPair>)>,
}

struct Unlocking {
    pair: Box<KeyPair>,
    /// Whether the configuration names the key, so that it is tried again once it has to stop.
    configured: bool,
}

impl Unlocked {
    /// No account yet. At most `limit` will harvest (`nis.unlockedLimit`), any number if it is negative.
    pub fn new(limit: i32) -> Unlocked {
        Unlocked { limit, keys: BTreeMap::new(), waiting: Vec::new() }
    }

    /// Lets an account harvest that somebody unlocks; `height` is that of the last block.
    pub fn unlock(
        &mut self,
        pair: Box<KeyPair>,
        height: Height,
        state: &impl StateView,
        network: &Network,
    ) -> Result<UnlockResult, StoreError> {
        let address = address_of(&pair, network);
        let result = self.examine(&address, &pair, height, state, network)?;
        if result == UnlockResult::Success {
            self.keys.entry(address).or_insert(Unlocking { pair, configured: false });
        }
        Ok(result)
    }

    /// Lets an account harvest that the configuration names: at once, or as soon as it may.
    pub fn unlock_configured(
        &mut self,
        pair: Box<KeyPair>,
        height: Height,
        state: &impl StateView,
        network: &Network,
    ) -> Result<UnlockResult, StoreError> {
        let address = address_of(&pair, network);
        let result = self.examine(&address, &pair, height, state, network);
        match result {
            Ok(UnlockResult::Success) => self.insert_configured(address, pair),
            _ => self.waiting.push((address, pair)),
        }
        result
    }

    /// Lets those accounts of the configuration harvest that now may.
    pub fn retry(&mut self, height: Height, state: &impl StateView, network: &Network) -> Result<(), StoreError> {
        let mut index = 0;
        while let Some((address, pair)) = self.waiting.get(index) {
            if self.examine(address, pair, height, state, network)? == UnlockResult::Success {
                let (address, pair) = self.waiting.remove(index);
                self.insert_configured(address, pair);
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    fn insert_configured(&mut self, address: Address, pair: Box<KeyPair>) {
        self.keys.insert(address, Unlocking { pair, configured: true });
    }

    /// An account that harvests already is not counted anew.
    fn examine(
        &self,
        address: &Address,
        pair: &KeyPair,
        height: Height,
        state: &impl StateView,
        network: &Network,
    ) -> Result<UnlockResult, StoreError> {
        if !self.contains(address) && i64::try_from(self.count()) == Ok(i64::from(self.limit)) {
            return Ok(UnlockResult::ServerLimit);
        }
        if may_not_harvest(&pair.public()) {
            return Ok(UnlockResult::HarvestingBlocked);
        }
        may_be_unlocked(address, height, state, network)
    }

    /// Stops an account from harvesting, also if the configuration names it.
    pub fn lock(&mut self, address: &Address) {
        self.keys.remove(address);
        self.waiting.retain(|(waiting, _)| waiting != address);
    }

    /// Stops the accounts that may not harvest at a height. Those of the configuration are tried again.
    pub fn prune(&mut self, height: Height, state: &impl StateView, network: &Network) -> Result<(), StoreError> {
        let mut ended = Vec::new();
        for address in self.keys.keys() {
            if may_be_unlocked(address, height, state, network)? != UnlockResult::Success {
                ended.push(*address);
            }
        }
        let ended = ended.into_iter().filter_map(|address| Some((address, self.keys.remove(&address)?)));
        let ended = ended.filter(|(_, key)| key.configured).map(|(address, key)| (address, key.pair));
        self.waiting.extend(ended);
        Ok(())
    }

    /// Whether an account harvests.
    pub fn contains(&self, address: &Address) -> bool {
        self.keys.contains_key(address)
    }

    /// How many accounts harvest.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// Most accounts that may harvest; any number may if it is negative.
    pub fn limit(&self) -> i32 {
        self.limit
    }

    /// The key of an account that harvests.
    pub(super) fn key(&self, address: &Address) -> Option<&KeyPair> {
        self.keys.get(address).map(|key| &*key.pair)
    }

    /// The account that harvests whose address comes after another, or first.
    pub(super) fn after(&self, address: Option<&Address>) -> Option<(Address, &KeyPair)> {
        let from = address.map_or(Bound::Unbounded, Bound::Excluded);
        let (address, key) = self.keys.range::<Address, _>((from, Bound::Unbounded)).next()?;
        Some((*address, &key.pair))
    }
}

fn address_of(pair: &KeyPair, network: &Network) -> Address {
    Address::from_public_key(&pair.public(), network.byte)
}
