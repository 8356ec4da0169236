//! Rules on sufficient balances.

use std::collections::BTreeMap;

use super::context::ValidationContext;
use super::result::ValidationResult::FailureInsufficientBalance;
use super::result::{RuleResult, require};
use crate::state::{Effect, StateView};
use crate::store::StoreError;

/// T6: no currency balance becomes negative at any transfer. Amounts received later do not count.
pub fn currency_suffices<V: StateView>(effects: &[Effect<'_>], context: &ValidationContext<'_, V>) -> RuleResult {
    let mut balances = RunningBalances::default();
    let balance = |address| Ok(context.state.account(address)?.balance.total());
    for effect in effects {
        match effect {
            Effect::Transfer { from, to, amount } => {
                balances.pay(from, *amount, || balance(from))?;
                balances.receive(to, *amount);
            }
            Effect::Debit { from, amount } => balances.pay(from, *amount, || balance(from))?,
            _ => {}
        }
    }
    Ok(())
}

/// T20: the same for other mosaics.
pub fn mosaics_suffice<V: StateView>(effects: &[Effect<'_>], context: &ValidationContext<'_, V>) -> RuleResult {
    let mut balances = RunningBalances::default();
    for effect in effects {
        if let Effect::MosaicTransfer { from, to, mosaic, quantity } = effect {
            let mosaic = mosaic.as_ref();
            balances.pay((from, mosaic), *quantity, || context.state.mosaic_balance(mosaic, from))?;
            balances.receive((to, mosaic), *quantity);
        }
    }
    Ok(())
}

/// Balance changes of a transaction by account. The balances themselves are read when first needed.
struct RunningBalances<K>(BTreeMap<K, RunningBalance>);

#[derive(Default)]
struct RunningBalance {
    delta: i128,
    balance: Option<u64>,
}

impl<K> Default for RunningBalances<K> {
    fn default() -> Self {
        RunningBalances(BTreeMap::new())
    }
}

impl<K: Ord> RunningBalances<K> {
    fn pay(&mut self, key: K, amount: u64, balance: impl FnOnce() -> Result<u64, StoreError>) -> RuleResult {
        let running = self.0.entry(key).or_default();
        running.delta -= i128::from(amount);
        if running.delta >= 0 {
            return Ok(());
        }
        let balance = match running.balance {
            Some(balance) => balance,
            None => *running.balance.insert(balance()?),
        };
        require(i128::from(balance) + running.delta >= 0, FailureInsufficientBalance)
    }

    fn receive(&mut self, key: K, amount: u64) {
        self.0.entry(key).or_default().delta += i128::from(amount);
    }
}
