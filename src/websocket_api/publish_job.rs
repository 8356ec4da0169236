//! Jobs that publish a block, a transaction or an account: a sequence of messages, in the order in which NIS1
//! publishes.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::content::Content;
use super::fanout::{Fanout, Recipients};
use super::session_table::SessionTable;
use super::{
    AccountText, BlockText, ChainSource, ChainSourceError, OwnedItems, OwnedKind, SessionId, Settings, TransfersText,
    topics,
};
use crate::api::streams::NextItem;
use crate::api::views::{TransactionMeta, TransactionPair};
use crate::model::{Address, Body, Height, MosaicId, NetworkByte, Timestamp, Transaction};
use crate::net::SharedBytesCounter;
use crate::net::service::Effects;

/// Height reported for unconfirmed transactions.
const UNCONFIRMED_HEIGHT: Height = Height((1 << 53) - 1);

/// Transactions of a block that are read at a time.
const TRANSACTIONS_AT_A_TIME: usize = 16;
/// Work units for reading a transaction.
const TRANSACTION_UNITS: u32 = 2;
/// Memory of a job besides its messages, including transactions that were read ahead; in bytes.
const JOB_BYTES: usize = 16 * 1024;
/// Work units for looking up the levy of a mosaic.
const LEVY_UNITS: u32 = 4;

/// Context for publishing.
pub struct PublishContext<'a> {
    /// Sessions and subscriptions.
    pub session_table: &'a mut SessionTable,
    /// Source of the published data.
    pub source: &'a dyn ChainSource,
    /// Holds the shared bodies.
    pub pool: &'a SharedBytesCounter,
    /// The network.
    pub network: NetworkByte,
    /// The settings and limits.
    pub settings: &'a Settings,
    /// Time since the start.
    pub now: Duration,
    /// Network time.
    pub time: Timestamp,
    /// Receives the outgoing messages.
    pub effects: &'a mut dyn Effects,
}

/// A resumable job that publishes a sequence of messages.
pub struct PublishJob {
    recipients: Recipients,
    /// Height of the published block, if it is one.
    block: Option<Height>,
    stage: Stage,
    /// The current transaction.
    current: Option<TransactionContext>,
    /// The accounts that are still to be published for it.
    affected: VecDeque<Address>,
    /// The accounts to publish after all transactions of the block.
    accounts: BTreeSet<Address>,
    /// The accounts whose owned items to publish after that.
    owned: BTreeSet<(OwnedKind, Address)>,
    delivery: Option<Delivery>,
    failure: Option<ChainSourceError>,
}

/// What follows after the current transaction.
enum Stage {
    Height(Height),
    Block(Height),
    Transactions(RemainingTransactions),
    Unconfirmed(VecDeque<Rc<Transaction>>),
    Accounts,
}

/// The transactions of a block that are still to be published.
struct RemainingTransactions {
    height: Height,
    /// Index of the first transaction that was not read yet.
    unread: usize,
    /// Transactions read ahead.
    read: VecDeque<Transaction>,
}

/// A transaction as published on the topics of addresses. It is always the outer transaction of the block or the
/// mempool, also for the accounts of an inner transaction. All accounts get the same body.
struct TransactionContext {
    transaction: Rc<Transaction>,
    height: Height,
    /// Prefix of the accounts' topics.
    topic: &'static str,
    content: Option<Content>,
}

/// A message on its way, and the source of its body.
struct Delivery {
    fanout: Fanout,
    payload: Payload,
    content: Option<Content>,
}

/// Content of a message.
enum Payload {
    Height(Height),
    Block(BlockText),
    /// The current transaction alone.
    Transaction,
    /// The current transaction with its metadata.
    TransactionWithMeta,
    Account(AccountText),
    Transfers(TransfersText),
    Node,
    /// Each item has its own message.
    Owned(OwnedItems),
}

/// Result of creating the body of a message.
enum BodyResult {
    Content(Content),
    Pending,
    End,
}

impl PublishJob {
    /// Publishes the first block of a chain update: its height, the block, its transactions, and the affected accounts.
    pub fn new_block(height: Height) -> PublishJob {
        PublishJob { block: Some(height), ..PublishJob::new(Recipients::All, Stage::Height(height)) }
    }

    /// Publishes a block without its height: a further block of the update, or the answer to a query.
    pub fn block(height: Height, recipients: Recipients) -> PublishJob {
        PublishJob { block: Some(height), ..PublishJob::new(recipients, Stage::Block(height)) }
    }

    /// Publishes transactions of the mempool.
    pub fn unconfirmed(transactions: impl IntoIterator<Item = Rc<Transaction>>, recipients: Recipients) -> PublishJob {
        PublishJob::new(recipients, Stage::Unconfirmed(transactions.into_iter().collect()))
    }

    /// Answers a query for an account.
    pub fn account(address: Address, recipients: Recipients) -> PublishJob {
        PublishJob { accounts: BTreeSet::from([address]), ..PublishJob::new(recipients, Stage::Accounts) }
    }

    /// Answers a query for the newest transactions of an account; those of the mempool follow.
    pub fn transfers(
        address: Address,
        unconfirmed: Vec<Rc<Transaction>>,
        recipients: Recipients,
        context: &PublishContext<'_>,
    ) -> PublishJob {
        let mut job = PublishJob::unconfirmed(unconfirmed, recipients);
        let topic = format!("{}{address}", topics::RECENT_OF);
        job.start_delivery(&topic, Payload::Transfers(TransfersText::new(address)), context);
        job
    }

    /// Answers a query for the items of one kind that an account owns.
    pub fn owned(kind: OwnedKind, address: Address, recipients: Recipients) -> PublishJob {
        PublishJob { owned: BTreeSet::from([(kind, address)]), ..PublishJob::new(recipients, Stage::Accounts) }
    }

    /// Answers a query for the local node.
    pub fn node(recipients: Recipients, context: &PublishContext<'_>) -> PublishJob {
        let mut job = PublishJob::new(recipients, Stage::Accounts);
        job.start_delivery(topics::NODE_INFO, Payload::Node, context);
        job
    }

    fn new(recipients: Recipients, ahead: Stage) -> PublishJob {
        PublishJob {
            recipients,
            block: None,
            stage: ahead,
            current: None,
            affected: VecDeque::new(),
            accounts: BTreeSet::new(),
            owned: BTreeSet::new(),
            delivery: None,
            failure: None,
        }
    }

    /// Publishes within the budget. Returns true when everything is published.
    pub fn work(&mut self, context: &mut PublishContext<'_>, budget: &mut u32) -> bool {
        while *budget > 0 {
            if let Some(mut delivery) = self.delivery.take() {
                if !self.deliver(&mut delivery, context, budget) {
                    self.delivery = Some(delivery);
                }
            } else if self.is_finished() {
                return true;
            } else {
                *budget = budget.saturating_sub(1);
                self.step(context, budget);
            }
        }
        self.delivery.is_none() && self.is_finished()
    }

    /// Height of the published block.
    pub fn height(&self) -> Option<Height> {
        self.block
    }

    /// Returns the first error of an answer. News to all subscribers skips failed parts and logs them.
    pub fn into_failure(self) -> Option<ChainSourceError> {
        self.failure
    }

    /// Bytes of memory held, approximately.
    pub fn held_bytes(&self) -> usize {
        let delivery = self.delivery.as_ref().map_or(0, |telling| {
            let made = telling.content.as_ref().map_or(0, Content::len);
            made + match &telling.payload {
                Payload::Block(block) => block.text.capacity(),
                Payload::Account(account) => account.text.capacity(),
                Payload::Transfers(list) => list.text.capacity(),
                Payload::Owned(owned) => owned.held_bytes(),
                Payload::Height(_) | Payload::Transaction | Payload::TransactionWithMeta | Payload::Node => 0,
            }
        });
        let accounts = self.accounts.len() + self.owned.len() + self.affected.len();
        JOB_BYTES + delivery + accounts * 2 * size_of::<Address>()
    }

    fn is_finished(&self) -> bool {
        self.current.is_none()
            && match &self.stage {
                Stage::Accounts => self.accounts.is_empty() && self.owned.is_empty(),
                Stage::Unconfirmed(transactions) => transactions.is_empty(),
                Stage::Height(_) | Stage::Block(_) | Stage::Transactions { .. } => false,
            }
    }

    /// Advances to the next message.
    fn step(&mut self, context: &mut PublishContext<'_>, budget: &mut u32) {
        if let Some(subject) = &self.current {
            match self.affected.pop_front() {
                Some(address) => {
                    let topic = format!("{}{address}", subject.topic);
                    self.start_delivery(&topic, Payload::TransactionWithMeta, context);
                }
                None => self.current = None,
            }
            return;
        }
        match &mut self.stage {
            Stage::Height(height) => {
                let height = *height;
                self.stage = Stage::Block(height);
                self.start_delivery(topics::BLOCKS_NEW, Payload::Height(height), context);
            }
            Stage::Block(height) => {
                let height = *height;
                self.read_block(height, context);
            }
            Stage::Transactions(remaining) => match remaining.next(context, budget) {
                Ok(Some(transaction)) => {
                    let (height, topic) = (remaining.height, topics::TRANSACTIONS_OF);
                    self.record_owners(&transaction, context, budget);
                    self.set_current(TransactionContext { transaction, height, topic, content: None }, context, budget);
                    self.accounts.extend(&self.affected);
                }
                Ok(None) => self.stage = Stage::Accounts,
                Err(failure) => {
                    self.stage = Stage::Accounts;
                    self.record_failure(failure);
                }
            },
            Stage::Unconfirmed(transactions) => {
                if let Some(transaction) = transactions.pop_front() {
                    let (height, topic) = (UNCONFIRMED_HEIGHT, topics::UNCONFIRMED_OF);
                    self.set_current(TransactionContext { transaction, height, topic, content: None }, context, budget);
                    self.start_delivery(topics::UNCONFIRMED, Payload::Transaction, context);
                }
            }
            Stage::Accounts => {
                if let Some(address) = self.accounts.pop_first() {
                    self.start_delivery(
                        &format!("{}{address}", topics::ACCOUNT_OF),
                        Payload::Account(AccountText::new(address)),
                        context,
                    );
                } else if let Some((kind, address)) = self.owned.pop_first() {
                    self.start_delivery(
                        &owned_topic(kind, &address),
                        Payload::Owned(OwnedItems::new(kind, address)),
                        context,
                    );
                }
            }
        }
    }

    fn read_block(&mut self, height: Height, context: &mut PublishContext<'_>) {
        self.stage = Stage::Accounts;
        match context.source.block_signer(height) {
            Ok(Some(signer)) => {
                self.accounts.insert(signer);
                self.stage = Stage::Transactions(RemainingTransactions { height, unread: 0, read: VecDeque::new() });
                self.start_delivery(topics::BLOCKS, Payload::Block(BlockText::new(height)), context);
            }
            Ok(None) => {}
            Err(failure) => self.record_failure(failure),
        }
    }

    /// Makes a transaction the current one.
    fn set_current(&mut self, subject: TransactionContext, context: &mut PublishContext<'_>, budget: &mut u32) {
        let mut affected = Vec::new();
        if context.session_table.registry().len() > 0
            && let Err(failure) = affected_accounts(&subject.transaction, context, &mut affected)
        {
            self.record_failure(failure);
        }
        *budget = budget.saturating_sub(affected.len() as u32);
        affected.retain(|address| context.session_table.registry().contains(address));
        self.affected = affected.into();
        self.current = Some(subject);
    }

    /// Records the accounts whose owned items a transaction changes, registered or not, if they have subscribers.
    fn record_owners(&mut self, transaction: &Transaction, context: &PublishContext<'_>, budget: &mut u32) {
        if !has_owner_subscribers(context.session_table) {
            return;
        }
        let mut owners = Vec::new();
        if let Err(failure) = owners_changed(transaction, context, budget, &mut owners) {
            self.record_failure(failure);
        }
        *budget = budget.saturating_sub(owners.len() as u32);
        owners.retain(|(kind, address)| {
            has_subscribers(&owned_topic(*kind, address), self.recipients, context.session_table)
        });
        self.owned.extend(owners);
    }

    fn start_delivery(&mut self, topic: &str, payload: Payload, context: &PublishContext<'_>) {
        let fanout = Fanout::new(topic, self.recipients, context.session_table);
        self.delivery = Some(Delivery { fanout, payload, content: None });
    }

    /// Continues the delivery of a message. Returns true when it is finished.
    fn deliver(&mut self, delivery: &mut Delivery, context: &mut PublishContext<'_>, budget: &mut u32) -> bool {
        loop {
            let content = match delivery.content.take() {
                Some(content) => content,
                None => {
                    match delivery.fanout.find_recipients(context.session_table, budget) {
                        None => return false,
                        Some(false) => return true,
                        Some(true) => {}
                    }
                    match self.make_body(&mut delivery.payload, context, budget) {
                        Ok(BodyResult::Content(content)) => content,
                        Ok(BodyResult::Pending) => return false,
                        Ok(BodyResult::End) => return true,
                        Err(failure) => {
                            self.record_failure(failure);
                            return true;
                        }
                    }
                }
            };
            if !delivery.fanout.deliver(&content, context.session_table, context.effects, budget) {
                delivery.content = Some(content);
                return false;
            }
            if !matches!(delivery.payload, Payload::Owned(_)) {
                return true;
            }
            delivery.fanout.restart();
            if *budget == 0 {
                return false;
            }
        }
    }

    /// Creates the body of a message, or of the next one. Long bodies are written in steps.
    fn make_body(
        &mut self,
        payload: &mut Payload,
        context: &PublishContext<'_>,
        budget: &mut u32,
    ) -> Result<BodyResult, ChainSourceError> {
        let source = context.source;
        let is_written = match payload {
            Payload::Block(block) => source.write_block(block, budget)?,
            Payload::Account(account) => source.write_account(account, budget)?,
            Payload::Transfers(list) => source.write_transfers(list, budget)?,
            Payload::Owned(_)
            | Payload::Node
            | Payload::Height(_)
            | Payload::Transaction
            | Payload::TransactionWithMeta => true,
        };
        if !is_written {
            return Ok(BodyResult::Pending);
        }
        let text = match payload {
            Payload::Block(block) => std::mem::take(&mut block.text),
            Payload::Account(account) => std::mem::take(&mut account.text),
            Payload::Transfers(list) => std::mem::take(&mut list.text),
            Payload::Owned(owned) => match source.next_owned(owned, budget)? {
                NextItem::Item(text) => text,
                NextItem::Pending => return Ok(BodyResult::Pending),
                NextItem::End => return Ok(BodyResult::End),
            },
            Payload::Node => source.node_info()?,
            Payload::Height(_) | Payload::Transaction | Payload::TransactionWithMeta => {
                let content = self.short_content(payload, context);
                *budget = budget.saturating_sub(content.as_ref().map_or(0, Content::units));
                return Ok(content.map_or(BodyResult::End, BodyResult::Content));
            }
        };
        let content = Content::of(text, context.pool);
        *budget = budget.saturating_sub(content.units());
        Ok(BodyResult::Content(content))
    }

    /// Creates the body for a height or the current transaction.
    fn short_content(&mut self, payload: &Payload, context: &PublishContext<'_>) -> Option<Content> {
        if let Payload::Height(height) = payload {
            return Some(Content::height(*height, context.settings.blocks_new, context.pool));
        }
        let subject = self.current.as_mut()?;
        Some(match (payload, &subject.content) {
            (Payload::Transaction, _) => Content::view(&*subject.transaction, context.pool),
            (_, Some(content)) => content.clone(),
            (_, None) => subject.content.insert(pair(&subject.transaction, subject.height, context.pool)).clone(),
        })
    }

    fn record_failure(&mut self, error: ChainSourceError) {
        match self.recipients {
            Recipients::All => log::warn!("a message cannot be published: {error}"),
            Recipients::Only(_) => drop(self.failure.get_or_insert(error)),
        }
    }
}

impl RemainingTransactions {
    /// Returns the next transaction. Reads none if nobody could receive it.
    fn next(
        &mut self,
        context: &PublishContext<'_>,
        budget: &mut u32,
    ) -> Result<Option<Rc<Transaction>>, ChainSourceError> {
        if context.session_table.registry().len() == 0 && !has_owner_subscribers(context.session_table) {
            return Ok(None);
        }
        if self.read.is_empty() {
            let read = context.source.transactions(self.height, self.unread, TRANSACTIONS_AT_A_TIME)?;
            *budget = budget.saturating_sub(TRANSACTION_UNITS.saturating_mul(read.len() as u32));
            self.unread += read.len();
            self.read = read.into();
        }
        Ok(self.read.pop_front().map(Rc::new))
    }
}

fn pair(transaction: &Transaction, height: Height, pool: &SharedBytesCounter) -> Content {
    let inner_hash = transaction.inner().map(Transaction::hash);
    let meta = TransactionMeta { height, id: 0, hash: transaction.hash(), inner_hash };
    Content::view(&TransactionPair { transaction, meta }, pool)
}

/// Appends the accounts that a transaction affects, registered or not, in the order of publication.
fn affected_accounts(
    transaction: &Transaction,
    context: &PublishContext<'_>,
    found: &mut Vec<Address>,
) -> Result<(), ChainSourceError> {
    let network = context.network;
    // A cosignature alone is not published to any account.
    if matches!(transaction.body, Body::Cosignature(_)) {
        return Ok(());
    }
    found.push(transaction.signer_address(network));
    match &transaction.body {
        Body::Transfer(body) => found.push(body.recipient),
        Body::ImportanceTransfer(body) => found.push(Address::from_public_key(&body.remote, network)),
        Body::AggregateModification(body) => {
            let modifications = body.modifications.iter();
            found.extend(modifications.map(|one| Address::from_public_key(&one.cosignatory, network)));
        }
        Body::MosaicDefinitionCreation(body) => found.extend(body.definition.levy.as_ref().map(|levy| levy.recipient)),
        Body::MosaicSupplyChange(body) => found.extend(context.source.levy_recipient(&body.mosaic)?),
        Body::Multisig(body) => affected_accounts(&body.inner, context, found)?,
        Body::ProvisionNamespace(_) | Body::Cosignature(_) => {}
    }
    Ok(())
}

/// The topic of the owned items of an account.
fn owned_topic(kind: OwnedKind, address: &Address) -> String {
    let start = match kind {
        OwnedKind::Namespaces => topics::NAMESPACES_OF,
        OwnedKind::Definitions => topics::DEFINITIONS_OF,
        OwnedKind::Mosaics => topics::MOSAICS_OF,
    };
    format!("{start}{address}")
}

/// Returns whether any session may be subscribed to owned items.
fn has_owner_subscribers(session_table: &SessionTable) -> bool {
    [topics::NAMESPACES_OF, topics::MOSAICS_OF].iter().any(|start| session_table.topics().has_prefix(start))
}

/// Returns whether any of the recipients may be subscribed to a topic.
fn has_subscribers(topic: &str, recipients: Recipients, session_table: &SessionTable) -> bool {
    match recipients {
        Recipients::Only(session) => {
            session_table.session(session).is_some_and(|state| state.subscriptions.matches(topic))
        }
        Recipients::All => {
            let topics = session_table.topics();
            topics.pattern_count() > 0 || topics.subscribed(&Rc::from(topic), SessionId(0)).next().is_some()
        }
    }
}

/// Appends the accounts whose owned items a confirmed transaction changes, with the kind of the items.
fn owners_changed(
    transaction: &Transaction,
    context: &PublishContext<'_>,
    budget: &mut u32,
    found: &mut Vec<(OwnedKind, Address)>,
) -> Result<(), ChainSourceError> {
    let acting = transaction.inner().unwrap_or(transaction);
    let signer = acting.signer_address(context.network);
    let mut levy_of = |mosaic: &MosaicId| {
        *budget = budget.saturating_sub(LEVY_UNITS);
        context.source.levy_recipient(mosaic)
    };
    let mut accounts = vec![signer];
    match &acting.body {
        Body::Transfer(body) if body.other_mosaics().next().is_some() => {
            accounts.extend([transaction.signer_address(context.network), body.recipient]);
            for mosaic in body.other_mosaics() {
                accounts.extend(levy_of(&mosaic.id)?);
            }
        }
        Body::MosaicDefinitionCreation(body) => {
            accounts.extend(body.definition.levy.as_ref().map(|levy| levy.recipient))
        }
        Body::MosaicSupplyChange(body) => accounts.extend(levy_of(&body.mosaic)?),
        Body::ProvisionNamespace(_) => {
            found.push((OwnedKind::Namespaces, signer));
            return Ok(());
        }
        _ => return Ok(()),
    }
    for kind in [OwnedKind::Definitions, OwnedKind::Mosaics] {
        found.extend(accounts.iter().map(|account| (kind, *account)));
    }
    Ok(())
}
