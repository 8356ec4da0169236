//! Balances computed from blocks alone, without the node's state.

use std::collections::BTreeMap;

use nisd::model::{Address, Block, Body, Network};

/// Balances in micro-units.
#[derive(Default)]
pub struct BalanceSheet(BTreeMap<Address, i128>);

impl BalanceSheet {
    /// Adds a block of transfers; `harvester` receives its fees.
    pub fn add_block(&mut self, block: &Block, harvester: Address, network: &Network) {
        for transaction in &block.transactions {
            let Body::Transfer(transfer) = &transaction.body else { panic!("not a transfer: {transaction:?}") };
            let amount = i128::from(transfer.amount.0);
            self.change(transaction.signer_address(network.byte), -amount - i128::from(transaction.fee.0));
            self.change(transfer.recipient, amount);
        }
        self.change(harvester, block.total_fee().0.into());
    }

    fn change(&mut self, account: Address, amount: i128) {
        *self.0.entry(account).or_default() += amount;
    }

    /// Returns the balance of an account; that of the nemesis account is negative by the amount it gave away.
    pub fn balance(&self, account: &Address) -> i128 {
        self.0.get(account).copied().unwrap_or_default()
    }

    /// Iterates over all accounts with their balances.
    pub fn balances(&self) -> impl Iterator<Item = (&Address, i128)> {
        self.0.iter().map(|(account, balance)| (account, *balance))
    }
}
