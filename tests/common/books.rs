//! Balances computed from blocks alone, without the node's state.

use std::collections::BTreeMap;

use nisd::model::{Address, Block, Body, Network, Transaction};

/// Balances in micro-units.
#[derive(Default)]
pub struct BalanceSheet(BTreeMap<Address, i128>);

impl BalanceSheet {
    /// Adds a block; `harvester` receives its fees.
    pub fn add_block(&mut self, block: &Block, harvester: Address, network: &Network) {
        for transaction in &block.transactions {
            transaction.children().chain([transaction]).for_each(|one| self.add_transaction(one, transaction, network));
        }
        self.change(harvester, block.transactions.iter().flat_map(Transaction::self_and_children).map(fee).sum());
    }

    fn add_transaction(&mut self, one: &Transaction, root: &Transaction, network: &Network) {
        // The multisig account pays the fees of a multisig transaction and of its cosignatures.
        let payer = root.inner().unwrap_or(root).signer_address(network.byte);
        self.change(payer, -fee(one));
        let (recipient, amount) = match &one.body {
            Body::Transfer(body) if body.mosaics.is_empty() => (body.recipient, body.amount),
            Body::ProvisionNamespace(body) => (body.rental_fee_sink, body.rental_fee),
            Body::MosaicDefinitionCreation(body) => (body.creation_fee_sink, body.creation_fee),
            _ => return,
        };
        self.change(payer, -i128::from(amount.0));
        self.change(recipient, i128::from(amount.0));
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

fn fee(transaction: &Transaction) -> i128 {
    i128::from(transaction.fee.0)
}
