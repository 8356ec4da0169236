//! What there is to tell about a block, a transaction or an account: one publication after the other, in the order in
//! which NIS1 publishes.

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

/// What stands for the height of a transaction that has none yet.
const UNCONFIRMED_HEIGHT: Height = Height((1 << 53) - 1);

/// Transactions of a block that are read at a time.
const TRANSACTIONS_AT_A_TIME: usize = 16;
/// Units of work that it takes to read a transaction.
const TRANSACTION_UNITS: u32 = 2;
/// Memory that a walk takes besides what it makes, with transactions that were read ahead.
const WALK_BYTES: usize = 16 * 1024;
/// Units of work that it takes to look for the levy of a mosaic.
const LEVY_UNITS: u32 = 4;

/// What telling takes.
pub struct Means<'a> {
    /// Sessions and subscriptions.
    pub hub: &'a mut Hub,
    /// What can be told.
    pub facts: &'a dyn Facts,
    /// Where bodies are held.
    pub pool: &'a SharedPool,
    /// The network.
    pub network: NetworkByte,
    /// The switches and limits.
    pub settings: &'a Settings,
    /// Time since the node was started.
    pub now: Duration,
    /// Network time.
    pub time: Timestamp,
    /// Takes what is sent.
    pub effects: &'a mut dyn Effects,
}

/// The way through what there is to tell.
pub struct Walk {
    audience: Audience,
    /// The block that is told, if it is one.
    block: Option<Height>,
    ahead: Ahead,
    /// The transaction in hand.
    subject: Option<Subject>,
    /// The accounts that are still to be told of it.
    concerned: VecDeque<Address>,
    /// The accounts that are to be told when all transactions of the block are.
    accounts: BTreeSet<Address>,
    /// What is to be told after them of what accounts own.
    owned: BTreeSet<(Ownership, Address)>,
    telling: Option<Telling>,
    failure: Option<FactsError>,
}

/// What comes when the transaction in hand is told.
enum Ahead {
    Height(Height),
    Block(Height),
    Transactions(Remaining),
    Unconfirmed(VecDeque<Rc<Transaction>>),
    Accounts,
}

/// The transactions of a block that are still to be told.
struct Remaining {
    height: Height,
    /// Index of the first that was not read yet.
    unread: usize,
    /// Those that were.
    read: VecDeque<Transaction>,
}

/// A transaction as it appears on the topics of addresses: always the one that stands in block or pool, also for the
/// accounts of a transaction inside it. All of them get the same body.
struct Subject {
    transaction: Rc<Transaction>,
    height: Height,
    /// What the topics of its accounts begin with.
    topic: &'static str,
    content: Option<Content>,
}

/// A publication and what its body is made of.
struct Telling {
    publication: Publication,
    theme: Theme,
    content: Option<Content>,
}

/// What a message tells of.
enum Theme {
    Height(Height),
    Block(BlockText),
    /// The transaction in hand, by itself.
    Transaction,
    /// The transaction in hand, with its meta data.
    Pair,
    Account(AccountText),
    Transfers(TransfersText),
    Node,
    /// Each thing has a message of its own.
    Owned(Owned),
}

/// What came of making the body of a message.
enum Made {
    Content(Content),
    NotYet,
    Nothing,
}

impl Walk {
    /// The first block of a change of the chain: its height, the block, its transactions, and the accounts that they
    /// concern.
    pub fn new_block(height: Height) -> Walk {
        Walk { block: Some(height), ..Walk::new(Audience::Everybody, Ahead::Height(height)) }
    }

    /// The same without the height: a further block of the change, or for one who asks.
    pub fn block(height: Height, audience: Audience) -> Walk {
        Walk { block: Some(height), ..Walk::new(audience, Ahead::Block(height)) }
    }

    /// Transactions are in the pool.
    pub fn unconfirmed(transactions: impl IntoIterator<Item = Rc<Transaction>>, audience: Audience) -> Walk {
        Walk::new(audience, Ahead::Unconfirmed(transactions.into_iter().collect()))
    }

    /// An account, for one who asks.
    pub fn account(address: Address, audience: Audience) -> Walk {
        Walk { accounts: BTreeSet::from([address]), ..Walk::new(audience, Ahead::Accounts) }
    }

    /// The newest transactions of an account, and then those of the pool, for one who asks.
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

    /// What an account owns of a kind, for one who asks.
    pub fn owned(kind: Ownership, address: Address, audience: Audience) -> Walk {
        Walk { owned: BTreeSet::from([(kind, address)]), ..Walk::new(audience, Ahead::Accounts) }
    }

    /// The local node, for one who asks.
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

    /// Tells until the units in `budget` are used up; true when everything is told.
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

    /// The height of the block that is told.
    pub fn height(&self) -> Option<Height> {
        self.block
    }

    /// The first thing that the node could not say to one who asked. News to everybody go on without what cannot be
    /// said, which the log tells.
    pub fn into_failure(self) -> Option<FactsError> {
        self.failure
    }

    /// Bytes of memory that it holds, roughly.
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

    /// Goes on to what is told next.
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

    /// Makes a transaction the one in hand.
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

    /// Notes of whom is told at the end what they own, as a transaction changes it: registered or not, if somebody hears.
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

    /// Goes on with a publication; true when it is finished.
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

    /// Makes the body of a message, or of the next one. What may be long is written in steps.
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

    /// The body of a message that tells of a height or of the transaction in hand.
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
    /// The next transaction. None are read if nobody could be told of them.
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

/// Appends the accounts that a transaction concerns, registered or not, in the order in which they are told.
fn concern(transaction: &Transaction, means: &Means<'_>, found: &mut Vec<Address>) -> Result<(), FactsError> {
    let network = means.network;
    // A cosignature by itself is told to no account.
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

/// The topic of what an account owns.
fn topic_of(kind: Ownership, address: &Address) -> String {
    let start = match kind {
        Ownership::Namespaces => topics::NAMESPACES_OF,
        Ownership::Definitions => topics::DEFINITIONS_OF,
        Ownership::Mosaics => topics::MOSAICS_OF,
    };
    format!("{start}{address}")
}

/// Whether anybody may hear of what accounts own.
fn hears_of_owners(hub: &Hub) -> bool {
    [topics::NAMESPACES_OF, topics::MOSAICS_OF].iter().any(|start| hub.topics().has_below(start))
}

/// Whether anybody of an audience may hear a message on a topic.
fn is_heard(topic: &str, audience: Audience, hub: &Hub) -> bool {
    match audience {
        Audience::Only(session) => hub.session(session).is_some_and(|state| state.subscriptions.matches(topic)),
        Audience::Everybody => {
            let topics = hub.topics();
            topics.pattern_count() > 0 || topics.subscribed(&Rc::from(topic), SessionId(0)).next().is_some()
        }
    }
}

/// Appends who owns something else since a confirmed transaction, and of which kind.
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
