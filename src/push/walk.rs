//! Jobs that publish a block, a transaction or an account: a sequence of messages, in the order in which NIS1
//! publishes.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::content::Content;
use super::hub::Hub;
use super::publication::{Audience, Publication};
use super::{AccountText, BlockText, Facts, FactsError, Owned, Ownership, SessionId, Settings, TransfersText, topics};
use crate::api::long::Found;
use crate::api::views::{TransactionMeta, TransactionPair};
use crate::model::{Address, Body, Height, MosaicId, NetworkByte, Timestamp, Transaction};
use crate::net::SharedPool;
use crate::net::machine::Effects;

/// Height reported for unconfirmed transactions.
const UNCONFIRMED_HEIGHT: Height = Height((1 << 53) - 1);

/// Transactions of a block that are read at a time.
const TRANSACTIONS_AT_A_TIME: usize = 16;
/// Work units for reading a transaction.
const TRANSACTION_UNITS: u32 = 2;
/// Memory of a job besides its messages, including transactions that were read ahead; in bytes.
const WALK_BYTES: usize = 16 * 1024;
/// Work units for looking up the levy of a mosaic.
const LEVY_UNITS: u32 = 4;

/// Context for publishing.
pub struct Means<'a> {
    /// Sessions and subscriptions.
    pub hub: &'a mut Hub,
    /// Source of the published data.
    pub facts: &'a dyn Facts,
    /// Holds the shared bodies.
    pub pool: &'a SharedPool,
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
pub struct Walk {
    audience: Audience,
    /// Height of the published block, if it is one.
    block: Option<Height>,
    ahead: Ahead,
    /// The current transaction.
    subject: Option<Subject>,
    /// The accounts that are still to be published for it.
    concerned: VecDeque<Address>,
    /// The accounts to publish after all transactions of the block.
    accounts: BTreeSet<Address>,
    /// The accounts whose owned items to publish after that.
    owned: BTreeSet<(Ownership, Address)>,
    telling: Option<Telling>,
    failure: Option<FactsError>,
}

/// What follows after the current transaction.
enum Ahead {
    Height(Height),
    Block(Height),
    Transactions(Remaining),
    Unconfirmed(VecDeque<Rc<Transaction>>),
    Accounts,
}

/// The transactions of a block that are still to be published.
struct Remaining {
    height: Height,
    /// Index of the first transaction that was not read yet.
    unread: usize,
    /// Transactions read ahead.
    read: VecDeque<Transaction>,
}

/// A transaction as published on the topics of addresses. It is always the outer transaction of the block or the
/// mempool, also for the accounts of an inner transaction. All accounts get the same body.
struct Subject {
    transaction: Rc<Transaction>,
    height: Height,
    /// Prefix of the accounts' topics.
    topic: &'static str,
    content: Option<Content>,
}

/// A message on its way, and the source of its body.
struct Telling {
    publication: Publication,
    theme: Theme,
    content: Option<Content>,
}

/// Content of a message.
enum Theme {
    Height(Height),
    Block(BlockText),
    /// The current transaction alone.
    Transaction,
    /// The current transaction with its metadata.
    Pair,
    Account(AccountText),
    Transfers(TransfersText),
    Node,
    /// Each item has its own message.
    Owned(Owned),
}

/// Result of creating the body of a message.
enum Made {
    Content(Content),
    NotYet,
    Nothing,
}

impl Walk {
    /// Publishes the first block of a chain update: its height, the block, its transactions, and the affected accounts.
    pub fn new_block(height: Height) -> Walk {
        Walk { block: Some(height), ..Walk::new(Audience::Everybody, Ahead::Height(height)) }
    }

    /// Publishes a block without its height: a further block of the update, or the answer to a query.
    pub fn block(height: Height, audience: Audience) -> Walk {
        Walk { block: Some(height), ..Walk::new(audience, Ahead::Block(height)) }
    }

    /// Publishes transactions of the mempool.
    pub fn unconfirmed(transactions: impl IntoIterator<Item = Rc<Transaction>>, audience: Audience) -> Walk {
        Walk::new(audience, Ahead::Unconfirmed(transactions.into_iter().collect()))
    }

    /// Answers a query for an account.
    pub fn account(address: Address, audience: Audience) -> Walk {
        Walk { accounts: BTreeSet::from([address]), ..Walk::new(audience, Ahead::Accounts) }
    }

    /// Answers a query for the newest transactions of an account; those of the mempool follow.
    pub fn transfers(
        address: Address,
        unconfirmed: Vec<Rc<Transaction>>,
        audience: Audience,
        means: &Means<'_>,
    ) -> Walk {
        let mut walk = Walk::unconfirmed(unconfirmed, audience);
        let topic = format!("{}{address}", topics::RECENT_OF);
        walk.begin(&topic, Theme::Transfers(TransfersText::new(address)), means);
        walk
    }

    /// Answers a query for the items of one kind that an account owns.
    pub fn owned(kind: Ownership, address: Address, audience: Audience) -> Walk {
        Walk { owned: BTreeSet::from([(kind, address)]), ..Walk::new(audience, Ahead::Accounts) }
    }

    /// Answers a query for the local node.
    pub fn node(audience: Audience, means: &Means<'_>) -> Walk {
        let mut walk = Walk::new(audience, Ahead::Accounts);
        walk.begin(topics::NODE_INFO, Theme::Node, means);
        walk
    }

    fn new(audience: Audience, ahead: Ahead) -> Walk {
        Walk {
            audience,
            block: None,
            ahead,
            subject: None,
            concerned: VecDeque::new(),
            accounts: BTreeSet::new(),
            owned: BTreeSet::new(),
            telling: None,
            failure: None,
        }
    }

    /// Publishes within the budget. Returns true when everything is published.
    pub fn work(&mut self, means: &mut Means<'_>, budget: &mut u32) -> bool {
        while *budget > 0 {
            if let Some(mut telling) = self.telling.take() {
                if !self.tell(&mut telling, means, budget) {
                    self.telling = Some(telling);
                }
            } else if self.is_over() {
                return true;
            } else {
                *budget = budget.saturating_sub(1);
                self.step(means, budget);
            }
        }
        self.telling.is_none() && self.is_over()
    }

    /// Height of the published block.
    pub fn height(&self) -> Option<Height> {
        self.block
    }

    /// Returns the first error of an answer. News to all subscribers skips failed parts and logs them.
    pub fn into_failure(self) -> Option<FactsError> {
        self.failure
    }

    /// Bytes of memory held, approximately.
    pub fn held_bytes(&self) -> usize {
        let telling = self.telling.as_ref().map_or(0, |telling| {
            let made = telling.content.as_ref().map_or(0, Content::len);
            made + match &telling.theme {
                Theme::Block(block) => block.text.capacity(),
                Theme::Account(account) => account.text.capacity(),
                Theme::Transfers(list) => list.text.capacity(),
                Theme::Owned(owned) => owned.held_bytes(),
                Theme::Height(_) | Theme::Transaction | Theme::Pair | Theme::Node => 0,
            }
        });
        let accounts = self.accounts.len() + self.owned.len() + self.concerned.len();
        WALK_BYTES + telling + accounts * 2 * size_of::<Address>()
    }

    fn is_over(&self) -> bool {
        self.subject.is_none()
            && match &self.ahead {
                Ahead::Accounts => self.accounts.is_empty() && self.owned.is_empty(),
                Ahead::Unconfirmed(transactions) => transactions.is_empty(),
                Ahead::Height(_) | Ahead::Block(_) | Ahead::Transactions { .. } => false,
            }
    }

    /// Advances to the next message.
    fn step(&mut self, means: &mut Means<'_>, budget: &mut u32) {
        if let Some(subject) = &self.subject {
            match self.concerned.pop_front() {
                Some(address) => {
                    let topic = format!("{}{address}", subject.topic);
                    self.begin(&topic, Theme::Pair, means);
                }
                None => self.subject = None,
            }
            return;
        }
        match &mut self.ahead {
            Ahead::Height(height) => {
                let height = *height;
                self.ahead = Ahead::Block(height);
                self.begin(topics::BLOCKS_NEW, Theme::Height(height), means);
            }
            Ahead::Block(height) => {
                let height = *height;
                self.read_block(height, means);
            }
            Ahead::Transactions(remaining) => match remaining.next(means, budget) {
                Ok(Some(transaction)) => {
                    let (height, topic) = (remaining.height, topics::TRANSACTIONS_OF);
                    self.note_owners(&transaction, means, budget);
                    self.take_up(Subject { transaction, height, topic, content: None }, means, budget);
                    self.accounts.extend(&self.concerned);
                }
                Ok(None) => self.ahead = Ahead::Accounts,
                Err(failure) => {
                    self.ahead = Ahead::Accounts;
                    self.fail(failure);
                }
            },
            Ahead::Unconfirmed(transactions) => {
                if let Some(transaction) = transactions.pop_front() {
                    let (height, topic) = (UNCONFIRMED_HEIGHT, topics::UNCONFIRMED_OF);
                    self.take_up(Subject { transaction, height, topic, content: None }, means, budget);
                    self.begin(topics::UNCONFIRMED, Theme::Transaction, means);
                }
            }
            Ahead::Accounts => {
                if let Some(address) = self.accounts.pop_first() {
                    self.begin(
                        &format!("{}{address}", topics::ACCOUNT_OF),
                        Theme::Account(AccountText::new(address)),
                        means,
                    );
                } else if let Some((kind, address)) = self.owned.pop_first() {
                    self.begin(&topic_of(kind, &address), Theme::Owned(Owned::new(kind, address)), means);
                }
            }
        }
    }

    fn read_block(&mut self, height: Height, means: &mut Means<'_>) {
        self.ahead = Ahead::Accounts;
        match means.facts.block_signer(height) {
            Ok(Some(signer)) => {
                self.accounts.insert(signer);
                self.ahead = Ahead::Transactions(Remaining { height, unread: 0, read: VecDeque::new() });
                self.begin(topics::BLOCKS, Theme::Block(BlockText::new(height)), means);
            }
            Ok(None) => {}
            Err(failure) => self.fail(failure),
        }
    }

    /// Makes a transaction the current one.
    fn take_up(&mut self, subject: Subject, means: &mut Means<'_>, budget: &mut u32) {
        let mut concerned = Vec::new();
        if means.hub.registry().len() > 0
            && let Err(failure) = concern(&subject.transaction, means, &mut concerned)
        {
            self.fail(failure);
        }
        *budget = budget.saturating_sub(concerned.len() as u32);
        concerned.retain(|address| means.hub.registry().contains(address));
        self.concerned = concerned.into();
        self.subject = Some(subject);
    }

    /// Records the accounts whose owned items a transaction changes, registered or not, if they have subscribers.
    fn note_owners(&mut self, transaction: &Transaction, means: &Means<'_>, budget: &mut u32) {
        if !hears_of_owners(means.hub) {
            return;
        }
        let mut owners = Vec::new();
        if let Err(failure) = owners_changed(transaction, means, budget, &mut owners) {
            self.fail(failure);
        }
        *budget = budget.saturating_sub(owners.len() as u32);
        owners.retain(|(kind, address)| is_heard(&topic_of(*kind, address), self.audience, means.hub));
        self.owned.extend(owners);
    }

    fn begin(&mut self, topic: &str, theme: Theme, means: &Means<'_>) {
        let publication = Publication::new(topic, self.audience, means.hub);
        self.telling = Some(Telling { publication, theme, content: None });
    }

    /// Continues the delivery of a message. Returns true when it is finished.
    fn tell(&mut self, telling: &mut Telling, means: &mut Means<'_>, budget: &mut u32) -> bool {
        loop {
            let content = match telling.content.take() {
                Some(content) => content,
                None => {
                    match telling.publication.find(means.hub, budget) {
                        None => return false,
                        Some(false) => return true,
                        Some(true) => {}
                    }
                    match self.make(&mut telling.theme, means, budget) {
                        Ok(Made::Content(content)) => content,
                        Ok(Made::NotYet) => return false,
                        Ok(Made::Nothing) => return true,
                        Err(failure) => {
                            self.fail(failure);
                            return true;
                        }
                    }
                }
            };
            if !telling.publication.deliver(&content, means.hub, means.effects, budget) {
                telling.content = Some(content);
                return false;
            }
            if !matches!(telling.theme, Theme::Owned(_)) {
                return true;
            }
            telling.publication.again();
            if *budget == 0 {
                return false;
            }
        }
    }

    /// Creates the body of a message, or of the next one. Long bodies are written in steps.
    fn make(&mut self, theme: &mut Theme, means: &Means<'_>, budget: &mut u32) -> Result<Made, FactsError> {
        let facts = means.facts;
        let is_written = match theme {
            Theme::Block(block) => facts.write_block(block, budget)?,
            Theme::Account(account) => facts.write_account(account, budget)?,
            Theme::Transfers(list) => facts.write_transfers(list, budget)?,
            Theme::Owned(_) | Theme::Node | Theme::Height(_) | Theme::Transaction | Theme::Pair => true,
        };
        if !is_written {
            return Ok(Made::NotYet);
        }
        let text = match theme {
            Theme::Block(block) => std::mem::take(&mut block.text),
            Theme::Account(account) => std::mem::take(&mut account.text),
            Theme::Transfers(list) => std::mem::take(&mut list.text),
            Theme::Owned(owned) => match facts.next_owned(owned, budget)? {
                Found::One(text) => text,
                Found::NotYet => return Ok(Made::NotYet),
                Found::End => return Ok(Made::Nothing),
            },
            Theme::Node => facts.node_info()?,
            Theme::Height(_) | Theme::Transaction | Theme::Pair => {
                let content = self.short_content(theme, means);
                *budget = budget.saturating_sub(content.as_ref().map_or(0, Content::units));
                return Ok(content.map_or(Made::Nothing, Made::Content));
            }
        };
        let content = Content::of(text, means.pool);
        *budget = budget.saturating_sub(content.units());
        Ok(Made::Content(content))
    }

    /// Creates the body for a height or the current transaction.
    fn short_content(&mut self, theme: &Theme, means: &Means<'_>) -> Option<Content> {
        if let Theme::Height(height) = theme {
            return Some(Content::height(*height, means.settings.blocks_new, means.pool));
        }
        let subject = self.subject.as_mut()?;
        Some(match (theme, &subject.content) {
            (Theme::Transaction, _) => Content::view(&*subject.transaction, means.pool),
            (_, Some(content)) => content.clone(),
            (_, None) => subject.content.insert(pair(&subject.transaction, subject.height, means.pool)).clone(),
        })
    }

    fn fail(&mut self, failure: FactsError) {
        match self.audience {
            Audience::Everybody => log::warn!("something is not published: {failure}"),
            Audience::Only(_) => drop(self.failure.get_or_insert(failure)),
        }
    }
}

impl Remaining {
    /// Returns the next transaction. Reads none if nobody could receive it.
    fn next(&mut self, means: &Means<'_>, budget: &mut u32) -> Result<Option<Rc<Transaction>>, FactsError> {
        if means.hub.registry().len() == 0 && !hears_of_owners(means.hub) {
            return Ok(None);
        }
        if self.read.is_empty() {
            let read = means.facts.transactions(self.height, self.unread, TRANSACTIONS_AT_A_TIME)?;
            *budget = budget.saturating_sub(TRANSACTION_UNITS.saturating_mul(read.len() as u32));
            self.unread += read.len();
            self.read = read.into();
        }
        Ok(self.read.pop_front().map(Rc::new))
    }
}

fn pair(transaction: &Transaction, height: Height, pool: &SharedPool) -> Content {
    let inner_hash = transaction.inner().map(Transaction::hash);
    let meta = TransactionMeta { height, id: 0, hash: transaction.hash(), inner_hash };
    Content::view(&TransactionPair { transaction, meta }, pool)
}

/// Appends the accounts that a transaction affects, registered or not, in the order of publication.
fn concern(transaction: &Transaction, means: &Means<'_>, found: &mut Vec<Address>) -> Result<(), FactsError> {
    let network = means.network;
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
        Body::MosaicSupplyChange(body) => found.extend(means.facts.levy_recipient(&body.mosaic)?),
        Body::Multisig(body) => concern(&body.inner, means, found)?,
        Body::ProvisionNamespace(_) | Body::Cosignature(_) => {}
    }
    Ok(())
}

/// The topic of the owned items of an account.
fn topic_of(kind: Ownership, address: &Address) -> String {
    let start = match kind {
        Ownership::Namespaces => topics::NAMESPACES_OF,
        Ownership::Definitions => topics::DEFINITIONS_OF,
        Ownership::Mosaics => topics::MOSAICS_OF,
    };
    format!("{start}{address}")
}

/// Returns whether any session may be subscribed to owned items.
fn hears_of_owners(hub: &Hub) -> bool {
    [topics::NAMESPACES_OF, topics::MOSAICS_OF].iter().any(|start| hub.topics().has_below(start))
}

/// Returns whether any of the recipients may be subscribed to a topic.
fn is_heard(topic: &str, audience: Audience, hub: &Hub) -> bool {
    match audience {
        Audience::Only(session) => hub.session(session).is_some_and(|state| state.subscriptions.matches(topic)),
        Audience::Everybody => {
            let topics = hub.topics();
            topics.pattern_count() > 0 || topics.subscribed(&Rc::from(topic), SessionId(0)).next().is_some()
        }
    }
}

/// Appends the accounts whose owned items a confirmed transaction changes, with the kind of the items.
fn owners_changed(
    transaction: &Transaction,
    means: &Means<'_>,
    budget: &mut u32,
    found: &mut Vec<(Ownership, Address)>,
) -> Result<(), FactsError> {
    let acting = transaction.inner().unwrap_or(transaction);
    let signer = acting.signer_address(means.network);
    let mut levy_of = |mosaic: &MosaicId| {
        *budget = budget.saturating_sub(LEVY_UNITS);
        means.facts.levy_recipient(mosaic)
    };
    let mut accounts = vec![signer];
    match &acting.body {
        Body::Transfer(body) if body.other_mosaics().next().is_some() => {
            accounts.extend([transaction.signer_address(means.network), body.recipient]);
            for mosaic in body.other_mosaics() {
                accounts.extend(levy_of(&mosaic.id)?);
            }
        }
        Body::MosaicDefinitionCreation(body) => {
            accounts.extend(body.definition.levy.as_ref().map(|levy| levy.recipient))
        }
        Body::MosaicSupplyChange(body) => accounts.extend(levy_of(&body.mosaic)?),
        Body::ProvisionNamespace(_) => {
            found.push((Ownership::Namespaces, signer));
            return Ok(());
        }
        _ => return Ok(()),
    }
    for kind in [Ownership::Definitions, Ownership::Mosaics] {
        found.extend(accounts.iter().map(|account| (kind, *account)));
    }
    Ok(())
}
