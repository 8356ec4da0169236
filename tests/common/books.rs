//! Who has how much, by adding up what blocks say: nothing of the state is used.

use std::collections::BTreeMap;

use nisd::model::{Address, Block, Body, Network, Transaction};

/// Balances in micro-units.
#[derive(Default)]
pub struct Books(BTreeMap<Address, i128>);

impl Books {
    /// Enters a block; `harvester` has its fees.
    pub fn enter(&mut self, block: &Block, harvester: Address, network: &Network) {
        for transaction in &block.transactions {
            transaction.children().chain([transaction]).for_each(|one| self.enter_one(one, transaction, network));
        }
        self.add(harvester, block.transactions.iter().flat_map(Transaction::self_and_children).map(fee).sum());
    }

    fn enter_one(&mut self, one: &Transaction, root: &Transaction, network: &Network) {
        // Of a multisig transaction and its cosignatures the multisig account pays the fees.
        let payer = root.inner().unwrap_or(root).signer_address(network.byte);
        self.add(payer, -fee(one));
        let (recipient, amount) = match &one.body {
            Body::Transfer(body) if body.mosaics.is_empty() => (body.recipient, body.amount),
            Body::ProvisionNamespace(body) => (body.rental_fee_sink, body.rental_fee),
            Body::MosaicDefinitionCreation(body) => (body.creation_fee_sink, body.creation_fee),
            _ => return,
        };
        self.add(payer, -i128::from(amount.0));
        self.add(recipient, i128::from(amount.0));
    }

    fn add(&mut self, account: Address, amount: i128) {
        *self.0.entry(account).or_default() += amount;
    }

    /// What an account has; the nemesis account owes what it gave away.
    pub fn balance(&self, account: &Address) -> i128 {
        self.0.get(account).copied().unwrap_or_default()
    }

    /// All accounts with their balances.
    pub fn all(&self) -> impl Iterator<Item = (&Address, i128)> {
        self.0.iter().map(|(account, balance)| (account, *balance))
    }
}

fn fee(transaction: &Transaction) -> i128 {
    i128::from(transaction.fee.0)
}
