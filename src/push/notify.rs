//! What is published when the chain grows (specification 07 §10).

use std::collections::BTreeSet;

use super::{Broker, Outbox};
use crate::api::views::{AccountPair, TransactionMeta, TransactionPair, View};
use crate::api::{Desk, Failure, Ledger, account_meta};
use crate::codec::json::JsonSink;
use crate::model::{Address, Block, Body, Hash256, Height, MosaicId, NetworkByte, Transaction};

/// What stands for the height of a transaction that has none yet (specification 07 §9.5).
const UNCONFIRMED_HEIGHT: Height = Height((1 << 53) - 1);

/// Publishes to whoever has subscribed. Bodies are made only if somebody has.
pub struct Notifier<'a, L> {
    /// Sessions and subscriptions.
    pub broker: &'a mut Broker,
    /// The committed state, at the end of the change that is published.
    pub ledger: &'a L,
    /// The pool, and which accounts harvest.
    pub desk: &'a dyn Desk,
    /// The network.
    pub network: NetworkByte,
    /// Takes what is to be sent.
    pub out: &'a mut Outbox,
}

/// The transaction as it appears on the topics of addresses: always the one that stands in the block or pool, also
/// for the accounts of a transaction inside it.
struct Root<'t> {
    transaction: &'t Transaction,
    hash: Hash256,
    height: Height,
    /// Topics with this before an address.
    topic: &'static str,
}

impl<L: Ledger> Notifier<'_, L> {
    /// A block was added: its height, the block, its transactions and the accounts they concern.
    pub fn block_added(&mut self, height: Height) -> Result<(), Failure> {
        self.broker.publish_height(height.0, self.out);
        self.block(height)
    }

    /// Everything about the block at `height` but its height.
    pub fn block(&mut self, height: Height) -> Result<(), Failure> {
        let Some(block) = self.ledger.block(height)? else { return Ok(()) };
        if self.broker.wanted("/blocks") {
            self.publish("/blocks", &block);
        }
        let mut accounts = BTreeSet::new();
        for transaction in &block.transactions {
            let root = Root { transaction, hash: transaction.hash(), height, topic: "/transactions/" };
            if let Err(failure) = self.transaction(&root, transaction, &mut accounts) {
                // One body that cannot be made must not hold back the others (specification 07 §10.5).
                log::warn!("transaction {} is not published: {}", root.hash, failure.message());
            }
        }
        accounts.insert(signer_of(&block, self.network));
        for address in accounts {
            if let Err(failure) = self.account(&address) {
                log::warn!("account {address} is not published: {}", failure.message());
            }
        }
        Ok(())
    }

    /// A transaction has come into the pool.
    pub fn unconfirmed(&mut self, transaction: &Transaction) -> Result<(), Failure> {
        if self.broker.wanted("/unconfirmed") {
            self.publish("/unconfirmed", transaction);
        }
        // A cosignature by itself is told to no account.
        if matches!(transaction.body, Body::Cosignature(_)) {
            return Ok(());
        }
        let (hash, height) = (transaction.hash(), UNCONFIRMED_HEIGHT);
        let root = Root { transaction, hash, height, topic: "/unconfirmed/" };
        self.transaction(&root, transaction, &mut BTreeSet::new())
    }

    /// The youngest transactions in the pool that concern an account, told to all whom they concern.
    pub fn unconfirmed_of(&mut self, address: &Address, limit: usize) -> Result<(), Failure> {
        for transaction in self.desk.unconfirmed(address, limit)? {
            self.unconfirmed(&transaction)?;
        }
        Ok(())
    }

    /// The account of an address.
    pub fn account(&mut self, address: &Address) -> Result<(), Failure> {
        let topic = format!("/account/{address}");
        if self.broker.wanted(&topic) {
            let (account, meta) = (self.ledger.account(address)?, account_meta(self.ledger, self.desk, address)?);
            self.publish(&topic, &AccountPair { account: &account, meta: &meta });
        }
        Ok(())
    }

    fn publish(&mut self, topic: &str, view: &impl View) {
        let body = JsonSink::document(|sink| view.write(sink));
        self.broker.publish(topic, &body, self.out);
    }

    /// Tells the accounts of `acting`, which is the root transaction or the one inside it.
    fn transaction(
        &mut self,
        root: &Root<'_>,
        acting: &Transaction,
        accounts: &mut BTreeSet<Address>,
    ) -> Result<(), Failure> {
        let signer = acting.signer_address(self.network);
        self.tell(root, &signer, accounts);
        match &acting.body {
            Body::Transfer(body) => self.tell(root, &body.recipient, accounts),
            Body::ImportanceTransfer(body) => {
                self.tell(root, &Address::from_public_key(&body.remote, self.network), accounts);
            }
            Body::AggregateModification(body) => {
                for modification in &body.modifications {
                    let cosignatory = Address::from_public_key(&modification.cosignatory, self.network);
                    self.tell(root, &cosignatory, accounts);
                }
            }
            Body::MosaicDefinitionCreation(body) => {
                let recipient = body.definition.levy.as_ref().map(|levy| levy.recipient);
                recipient.iter().for_each(|recipient| self.tell(root, recipient, accounts));
            }
            Body::MosaicSupplyChange(body) => {
                let recipient = self.levy_recipient(&body.mosaic)?;
                recipient.iter().for_each(|recipient| self.tell(root, recipient, accounts));
            }
            Body::Multisig(body) => self.transaction(root, &body.inner, accounts)?,
            Body::ProvisionNamespace(_) | Body::Cosignature(_) => {}
        }
        Ok(())
    }

    fn levy_recipient(&self, mosaic: &MosaicId) -> Result<Option<Address>, Failure> {
        let definition = self.ledger.mosaic_definition(mosaic)?;
        Ok(definition.and_then(|definition| definition.levy).map(|levy| levy.recipient))
    }

    fn tell(&mut self, root: &Root<'_>, address: &Address, accounts: &mut BTreeSet<Address>) {
        if !self.broker.is_registered(address.as_bytes()) {
            return;
        }
        accounts.insert(*address);
        let topic = format!("{}{address}", root.topic);
        if self.broker.wanted(&topic) {
            let inner_hash = root.transaction.inner().map(Transaction::hash);
            let meta = TransactionMeta { height: root.height, id: 0, hash: root.hash, inner_hash };
            self.publish(&topic, &TransactionPair { transaction: root.transaction, meta });
        }
    }
}

fn signer_of(block: &Block, network: NetworkByte) -> Address {
    Address::from_public_key(&block.signer, network)
}
