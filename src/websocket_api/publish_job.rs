//! The job that delivers a sequence of messages in the order in which NIS1 publishes.

use std::cell::OnceCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::task::Poll;

use super::content::{AccountTopic, Content, Item, Messages, SharedPair};
use super::session_table::{SessionId, SessionTable};
use super::topics::{self, matches_pattern};
use crate::api::streams::{BodyWriter, ResponseStream};
use crate::api::{AccountSearch, ApiError, Format, NodeContext};
use crate::codec::json::JsonEncoder;

use crate::model::{Address, Body, Height, MosaicId, Transaction};
use crate::net::service::{Effects, Progress};
use crate::state;

/// Height reported for unconfirmed transactions.
const UNCONFIRMED_HEIGHT: Height = Height((1 << 53) - 1);
/// Transactions of a block that are read at a time.
const TRANSACTIONS_AT_A_TIME: usize = 16;
/// Memory of a job besides its messages, including transactions that were read ahead; in bytes.
const JOB_BYTES: usize = 16 * 1024;
/// Work units for reading a transaction.
const TRANSACTION_UNITS: u32 = 2;
/// Work units for looking up the levy of a mosaic.
const LEVY_UNITS: u32 = 4;

/// Context for publishing.
pub struct PublishContext<'a> {
    /// Sessions and subscriptions.
    pub table: &'a mut SessionTable,
    /// The node, whose data is published, and the budget of the step.
    pub node: NodeContext<'a>,
    /// Receives the outgoing messages.
    pub effects: &'a mut dyn Effects,
    /// Whether the mempool is up to date with the chain.
    pub is_mempool_current: bool,
    /// Whether queries wait until what they need was read from the disk.
    pub reads_ahead: bool,
}

/// A resumable job that publishes a sequence of messages.
#[derive(Default)]
pub struct PublishJob {
    /// The only recipient, if it is subscribed; all subscribers if `None`.
    only: Option<SessionId>,
    /// Height of the published block, if it is one.
    pub block: Option<Height>,
    /// The items to publish next. An item adds those that it consists of to the front.
    queue: VecDeque<Item>,
    /// The topics of accounts to publish after that, each once.
    accounts: BTreeSet<(AccountTopic, Address)>,
    delivery: Option<Delivery>,
    /// The first error of an answer. News to all subscribers skips failed parts and logs them.
    pub failure: Option<ApiError>,
}

impl PublishJob {
    /// Creates the job for an item.
    pub fn new(item: Item, only: Option<SessionId>) -> PublishJob {
        let block = match item {
            Item::Height(height) | Item::Block(height) => Some(height),
            _ => None,
        };
        PublishJob { only, block, queue: VecDeque::from([item]), ..PublishJob::default() }
    }

    /// Publishes within the budget. Returns true when everything is published.
    pub fn work(&mut self, context: &mut PublishContext<'_>) -> bool {
        while !context.node.budget.is_exhausted() {
            let result = if let Some(mut delivery) = self.delivery.take() {
                delivery.work(context).map(|is_done| {
                    if !is_done {
                        self.delivery = Some(delivery);
                    }
                })
            } else if let Some(item) = self.next_item() {
                context.node.budget.charge(1);
                self.start(item, context)
            } else {
                return true;
            };
            result.unwrap_or_else(|error| self.record_failure(error));
        }
        self.delivery.is_none() && self.queue.is_empty() && self.accounts.is_empty()
    }

    /// Bytes of memory held, approximately.
    pub fn held_bytes(&self) -> usize {
        let delivery = self.delivery.as_ref().map_or(0, Delivery::held_bytes);
        let accounts = self.accounts.len() + self.queue.len();
        let searches = self.queue.iter().map(|item| match item {
            Item::UnconfirmedOf(search) => search.held_bytes(),
            _ => 0,
        });
        JOB_BYTES + delivery + accounts * 2 * size_of::<Address>() + searches.sum::<usize>()
    }

    fn next_item(&mut self) -> Option<Item> {
        let account = || self.accounts.pop_first().map(|(topic, address)| Item::OfAccount(topic, address));
        self.queue.pop_front().or_else(account)
    }

    fn record_failure(&mut self, error: ApiError) {
        if self.only.is_none() {
            log::warn!("a message cannot be published: {}", error.message);
        } else if self.failure.is_none() {
            self.failure = Some(error);
        }
    }

    /// Starts the delivery of an item's message, and adds the items that follow from it to the queue.
    fn start(&mut self, item: Item, context: &mut PublishContext<'_>) -> Result<(), ApiError> {
        if let Item::UnconfirmedOf(search) = item {
            return self.search(search, context);
        }
        match &item {
            Item::Height(height) => self.queue.push_front(Item::Block(*height)),
            Item::LastBlock => {
                let height = context.node.chain.height;
                self.block = Some(height);
                self.queue.push_front(Item::Block(height));
            }
            Item::Block(height) => {
                let Some((block, _)) = context.node.chain.open_block(*height)? else { return Ok(()) };
                let signer = Address::from_public_key(&block.signer, context.node.chain.network.byte);
                self.accounts.insert((AccountTopic::Account, signer));
                self.queue.push_front(Item::Transactions(*height, 0));
            }
            Item::Transactions(height, from) => self.read_transactions(*height, *from, context)?,
            Item::Confirmed(transaction, height) => {
                self.record_owners(transaction, context);
                self.publish_statuses(transaction, context);
                let affected = self.publish_to_accounts(transaction, *height, topics::TRANSACTIONS_OF, context);
                self.accounts.extend(affected.into_iter().map(|address| (AccountTopic::Account, address)));
            }
            Item::Unconfirmed(transaction) => {
                self.publish_to_accounts(transaction, UNCONFIRMED_HEIGHT, topics::UNCONFIRMED_OF, context);
            }
            Item::OfAccount(AccountTopic::RecentTransfers, address) => {
                self.queue.push_back(Item::unconfirmed_of(*address));
            }
            _ => {}
        }
        let only = self.only;
        self.delivery = item.topic().map(|topic| Delivery {
            item,
            stream: None,
            text: Vec::new(),
            is_last: false,
            content: None,
            topic: Rc::from(topic),
            only,
            last_pattern: None,
            by_pattern: BTreeSet::new(),
            next: only.unwrap_or_default(),
            last: only.unwrap_or(context.table.last_session),
        });
        Ok(())
    }

    /// Goes on with a search for unconfirmed transactions, which are then published in its place.
    fn search(&mut self, mut search: Box<AccountSearch>, context: &mut PublishContext<'_>) -> Result<(), ApiError> {
        let NodeContext { mempool, chain, budget, .. } = &mut context.node;
        match mempool.search(&mut search, chain, budget)? {
            None => self.queue.push_front(Item::UnconfirmedOf(search)),
            Some(found) => {
                for entry in found.into_iter().rev() {
                    self.queue.push_front(Item::Unconfirmed(Rc::clone(&entry.transaction)));
                }
            }
        }
        Ok(())
    }

    /// Reads the next transactions of a block, unless nobody could receive them.
    fn read_transactions(
        &mut self,
        height: Height,
        from: usize,
        context: &mut PublishContext<'_>,
    ) -> Result<(), ApiError> {
        let has_statuses = self.only.is_none() && context.table.topics.has_statuses();
        if context.table.registered.is_empty() && !has_owner_subscribers(context.table) && !has_statuses {
            return Ok(());
        }
        let read = context.node.chain.transactions(height, from, TRANSACTIONS_AT_A_TIME)?;
        context.node.budget.charge(TRANSACTION_UNITS.saturating_mul(read.len() as u32));
        if !read.is_empty() {
            self.queue.push_front(Item::Transactions(height, from + read.len()));
        }
        for transaction in read.into_iter().rev() {
            self.queue.push_front(Item::Confirmed(Rc::new(transaction), height));
        }
        Ok(())
    }

    /// Adds the messages about a transaction to the registered accounts that it affects, and returns these.
    fn publish_to_accounts(
        &mut self,
        transaction: &Rc<Transaction>,
        height: Height,
        topic: &str,
        context: &mut PublishContext<'_>,
    ) -> Vec<Address> {
        let mut affected = Vec::new();
        if !context.table.registered.is_empty()
            && let Err(error) = affected_accounts(transaction, context, &mut affected)
        {
            self.record_failure(error);
        }
        context.node.budget.charge(affected.len() as u32);
        affected.retain(|address| context.table.registered.contains_key(address));
        let pair = Rc::new(SharedPair(Rc::clone(transaction), height, OnceCell::new()));
        for address in affected.iter().rev() {
            self.queue.push_front(Item::TransactionOf(format!("{topic}{address}"), Rc::clone(&pair)));
        }
        affected
    }

    /// Adds the statuses of a confirmed transaction and of those that it contains, if they have subscribers. An answer to
    /// a query has none.
    fn publish_statuses(&mut self, transaction: &Transaction, context: &mut PublishContext<'_>) {
        if self.only.is_some() || !context.table.topics.has_statuses() {
            return;
        }
        let hashes = transaction.hashes();
        for hash in hashes.all() {
            context.node.budget.charge(1);
            if context.table.topics.has_status_of(hash) {
                self.queue.push_front(Item::Status(*hash));
            }
        }
    }

    /// Records the accounts whose owned items a transaction changes, registered or not, if they have subscribers.
    fn record_owners(&mut self, transaction: &Transaction, context: &mut PublishContext<'_>) {
        if !has_owner_subscribers(context.table) {
            return;
        }
        match owners_changed(transaction, context) {
            Ok(owners) => {
                context.node.budget.charge(owners.len() as u32);
                self.accounts.extend(owners);
            }
            Err(error) => self.record_failure(error),
        }
    }
}

/// An item on its way: its message, or its messages one after the other, on one topic. It holds only the id of the next
/// recipient, since sessions may come and go between two steps. Sessions opened after it was created are excluded.
struct Delivery {
    item: Item,
    /// The messages of the item, if they are written in steps and the first has begun.
    stream: Option<Box<dyn ResponseStream>>,
    /// The text of the next message as far as it is written.
    text: Vec<u8>,
    /// No message follows.
    is_last: bool,
    /// The message that is being sent.
    content: Option<Content>,
    topic: Rc<str>,
    /// The only recipient; all subscribers if `None`.
    only: Option<SessionId>,
    /// The pattern that was compared with the topic last.
    last_pattern: Option<Rc<str>>,
    /// Sessions subscribed to a pattern that matches the topic.
    by_pattern: BTreeSet<SessionId>,
    /// The next and the last possible recipient.
    next: SessionId,
    last: SessionId,
}

impl Delivery {
    /// Delivers within the budget. Returns true when all recipients have everything. Nothing is made without recipients.
    fn work(&mut self, context: &mut PublishContext<'_>) -> Result<bool, ApiError> {
        loop {
            let content = match self.content.take() {
                Some(content) => content,
                None => match self.make_content(context)? {
                    Poll::Ready(Some(content)) => content,
                    Poll::Pending => return Ok(false),
                    Poll::Ready(None) => return Ok(true),
                },
            };
            while let Some(session) = self.next_recipient(context.table) {
                if context.node.budget.is_exhausted() {
                    self.content = Some(content);
                    return Ok(false);
                }
                let sent = context.table.deliver(session, &self.topic, &content, context.effects);
                context.node.budget.charge(sent.max(1));
                self.next = SessionId(session.0 + 1);
            }
            if self.is_last {
                return Ok(true);
            }
            self.next = self.only.unwrap_or_default();
            if context.node.budget.is_exhausted() {
                return Ok(false);
            }
        }
    }

    /// Creates the next message, if it has recipients. Long ones are written in steps.
    fn make_content(&mut self, context: &mut PublishContext<'_>) -> Result<Poll<Option<Content>>, ApiError> {
        match self.find_recipients(context) {
            None => return Ok(Poll::Pending),
            Some(false) => return Ok(Poll::Ready(None)),
            Some(true) => {}
        }
        let PublishContext { table, node, .. } = context;
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => match self.item.open(node, &table.pool)? {
                Messages::Stream(stream) => self.stream.insert(stream),
                Messages::One(content) => {
                    self.is_last = true;
                    node.budget.charge(content.units());
                    return Ok(Poll::Ready(Some(content)));
                }
            },
        };
        let json = &mut JsonEncoder::default();
        let mut writer = BodyWriter { format: Format::Json, body: &mut self.text, json };
        let progress = stream.write_chunk(node, &mut writer)?;
        self.is_last = progress == Progress::Done;
        if !self.is_last && progress != Progress::Streaming {
            return Ok(Poll::Pending);
        }
        if self.text.is_empty() {
            return Ok(Poll::Ready(None));
        }
        let content = Content::of(std::mem::take(&mut self.text), &table.pool);
        node.budget.charge(content.units());
        Ok(Poll::Ready(Some(content)))
    }

    /// Looks for recipients within the budget. Returns whether there are any, once that is known.
    fn find_recipients(&mut self, context: &mut PublishContext<'_>) -> Option<bool> {
        let PublishContext { table, node: NodeContext { budget, .. }, .. } = context;
        if let Some(session) = self.only {
            let Some(session) = table.sessions.get(&session) else { return Some(false) };
            budget.charge(1 + session.subscriptions.pattern_count() as u32);
            return Some(session.subscriptions.matches(&self.topic));
        }
        while let Some((pattern, sessions)) = table.topics.pattern_after(self.last_pattern.as_ref()) {
            if budget.is_exhausted() {
                return None;
            }
            budget.charge(1);
            if matches_pattern(pattern, &self.topic) {
                self.by_pattern.extend(sessions);
                budget.charge(u32::try_from(sessions.len() / 10).unwrap_or(u32::MAX));
            }
            self.last_pattern = Some(Rc::clone(pattern));
        }
        Some(!self.by_pattern.is_empty() || table.topics.subscribed(&self.topic, self.next).next().is_some())
    }

    /// Bytes of memory held, approximately.
    fn held_bytes(&self) -> usize {
        let stream = self.stream.as_ref().map_or(0, |stream| stream.held_bytes());
        stream + self.text.capacity() + self.content.as_ref().map_or(0, Content::len)
    }

    fn next_recipient(&self, table: &SessionTable) -> Option<SessionId> {
        if self.next > self.last {
            return None;
        }
        if self.only.is_some() {
            return self.only;
        }
        let exact = table.topics.subscribed(&self.topic, self.next).next();
        let by_pattern = self.by_pattern.range(self.next..).next().copied();
        exact.into_iter().chain(by_pattern).min().filter(|session| *session <= self.last)
    }
}

/// Returns whether any session may be subscribed to owned items.
fn has_owner_subscribers(table: &SessionTable) -> bool {
    // The prefix of the topic of mosaics is also that of their definitions.
    [AccountTopic::Namespaces, AccountTopic::Mosaics].iter().any(|topic| table.topics.has_prefix(topic.path()))
}

/// Appends the accounts that a transaction affects, registered or not, in the order of publication.
fn affected_accounts(
    transaction: &Transaction,
    context: &PublishContext<'_>,
    found: &mut Vec<Address>,
) -> Result<(), ApiError> {
    let network = context.node.chain.network.byte;
    // A cosignature alone is not published to any account.
    if matches!(transaction.body, Body::Cosignature(_)) {
        return Ok(());
    }
    found.push(transaction.signer_address(network));
    match &transaction.body {
        Body::Transfer(_) | Body::ImportanceTransfer(_) | Body::AggregateModification(_) => {
            transaction.add_recipients(network, found);
        }
        Body::MosaicDefinitionCreation(body) => found.extend(body.definition.levy.as_ref().map(|levy| levy.recipient)),
        Body::MosaicSupplyChange(body) => found.extend(levy_recipient(&body.mosaic, context)?),
        Body::Multisig(body) => affected_accounts(&body.inner, context, found)?,
        Body::ProvisionNamespace(_) | Body::Cosignature(_) => {}
    }
    Ok(())
}

/// Returns the accounts whose owned items a confirmed transaction changes, with the kind of the items.
fn owners_changed(
    transaction: &Transaction,
    context: &mut PublishContext<'_>,
) -> Result<Vec<(AccountTopic, Address)>, ApiError> {
    let acting = transaction.inner().unwrap_or(transaction);
    let network = context.node.chain.network.byte;
    let signer = acting.signer_address(network);
    let mut levy_of = |mosaic: &MosaicId| {
        context.node.budget.charge(LEVY_UNITS);
        levy_recipient(mosaic, context)
    };
    let mut accounts = vec![signer];
    match &acting.body {
        Body::Transfer(body) if body.other_mosaics().next().is_some() => {
            accounts.extend([transaction.signer_address(network), body.recipient]);
            for mosaic in body.other_mosaics() {
                accounts.extend(levy_of(&mosaic.id)?);
            }
        }
        Body::MosaicDefinitionCreation(body) => {
            accounts.extend(body.definition.levy.as_ref().map(|levy| levy.recipient))
        }
        Body::MosaicSupplyChange(body) => accounts.extend(levy_of(&body.mosaic)?),
        Body::ProvisionNamespace(_) => return Ok(vec![(AccountTopic::Namespaces, signer)]),
        _ => return Ok(Vec::new()),
    }
    let both = |account| [(AccountTopic::Definitions, account), (AccountTopic::Mosaics, account)];
    Ok(accounts.into_iter().flat_map(both).collect())
}

/// Returns the account that receives the levy of a mosaic, if it has one.
fn levy_recipient(mosaic: &MosaicId, context: &PublishContext<'_>) -> Result<Option<Address>, ApiError> {
    let definition = state::mosaic_definition(context.node.chain.snapshot, mosaic)?;
    Ok(definition.and_then(|definition| definition.levy).map(|levy| levy.recipient))
}

#[cfg(test)]
mod tests;
