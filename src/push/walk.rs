//! What there is to tell about a block, a transaction or an account: one publication after the other, in the order in
//! which NIS1 publishes.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use super::content::{BlockText, Content};
use super::hub::Hub;
use super::publication::{Audience, Publication};
use super::{BlocksNewBody, Facts, FactsError, topics};
use crate::api::views::{AccountPair, TransactionMeta, TransactionPair};
use crate::model::{Address, Block, Body, Height, NetworkByte, Transaction};
use crate::net::SharedPool;
use crate::net::machine::Effects;

/// What stands for the height of a transaction that has none yet.
const UNCONFIRMED_HEIGHT: Height = Height((1 << 53) - 1);
/// Units of work that it takes to read an account.
const ACCOUNT_UNITS: u32 = 20;
/// Units of work that it takes to find out whom a transaction concerns.
const TRANSACTION_UNITS: u32 = 2;

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
    /// The form in which heights are told.
    pub heights: BlocksNewBody,
    /// Takes what is sent.
    pub effects: &'a mut dyn Effects,
}

/// The way through what there is to tell.
pub struct Walk {
    audience: Audience,
    ahead: Ahead,
    /// The transaction in hand.
    subject: Option<Subject>,
    /// The accounts that are still to be told of it.
    concerned: VecDeque<Address>,
    /// The accounts that are to be told when all transactions of the block are.
    accounts: BTreeSet<Address>,
    telling: Option<Telling>,
    failure: Option<FactsError>,
}

/// What comes when the transaction in hand is told.
enum Ahead {
    Height(Height),
    Block(Height),
    Transactions { block: Rc<Block>, height: Height, next: usize },
    Unconfirmed(VecDeque<Rc<Transaction>>),
    Accounts,
}

/// A transaction as it appears on the topics of addresses: always the one that stands in block or pool, also for the
/// accounts of a transaction inside it. All of them get the same body.
struct Subject {
    place: Place,
    content: Option<Content>,
}

/// Where a transaction stands.
enum Place {
    Block { block: Rc<Block>, index: usize, height: Height },
    Pool(Rc<Transaction>),
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
    Account(Address),
}

impl Place {
    fn transaction(&self) -> Option<&Transaction> {
        match self {
            Place::Block { block, index, .. } => block.transactions.get(*index),
            Place::Pool(transaction) => Some(transaction),
        }
    }

    fn height(&self) -> Height {
        match self {
            Place::Block { height, .. } => *height,
            Place::Pool(_) => UNCONFIRMED_HEIGHT,
        }
    }

    /// What the topics of its accounts begin with.
    fn topic(&self) -> &'static str {
        match self {
            Place::Block { .. } => topics::TRANSACTIONS_OF,
            Place::Pool(_) => topics::UNCONFIRMED_OF,
        }
    }
}

impl Walk {
    /// The block at a height has become part of the chain: the height, the block, its transactions, and the accounts
    /// that they concern.
    pub fn new_block(height: Height) -> Walk {
        Walk::new(Audience::Everybody, Ahead::Height(height))
    }

    /// The same without the height, for one who asks.
    pub fn block(height: Height, audience: Audience) -> Walk {
        Walk::new(audience, Ahead::Block(height))
    }

    /// Transactions are in the pool.
    pub fn unconfirmed(transactions: impl IntoIterator<Item = Rc<Transaction>>, audience: Audience) -> Walk {
        Walk::new(audience, Ahead::Unconfirmed(transactions.into_iter().collect()))
    }

    /// An account, for one who asks.
    pub fn account(address: Address, audience: Audience) -> Walk {
        Walk { accounts: BTreeSet::from([address]), ..Walk::new(audience, Ahead::Accounts) }
    }

    fn new(audience: Audience, ahead: Ahead) -> Walk {
        Walk {
            audience,
            ahead,
            subject: None,
            concerned: VecDeque::new(),
            accounts: BTreeSet::new(),
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

    /// The first thing that the node could not say to one who asked. News to everybody go on without what cannot be
    /// said, which the log tells.
    pub fn into_failure(self) -> Option<FactsError> {
        self.failure
    }

    fn is_over(&self) -> bool {
        self.subject.is_none()
            && match &self.ahead {
                Ahead::Accounts => self.accounts.is_empty(),
                Ahead::Unconfirmed(transactions) => transactions.is_empty(),
                Ahead::Height(_) | Ahead::Block(_) | Ahead::Transactions { .. } => false,
            }
    }

    /// Goes on to what is told next.
    fn step(&mut self, means: &mut Means<'_>, budget: &mut u32) {
        if let Some(subject) = &self.subject {
            match self.concerned.pop_front() {
                Some(address) => {
                    let topic = format!("{}{address}", subject.place.topic());
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
                self.read_block(height, means, budget);
            }
            Ahead::Transactions { block, height, next } => {
                let place = Place::Block { block: Rc::clone(block), index: *next, height: *height };
                *next += 1;
                if place.transaction().is_some() {
                    self.take_up(place, means, budget);
                } else {
                    self.accounts.insert(Address::from_public_key(&block.signer, means.network));
                    self.ahead = Ahead::Accounts;
                }
            }
            Ahead::Unconfirmed(transactions) => {
                if let Some(transaction) = transactions.pop_front() {
                    self.take_up(Place::Pool(transaction), means, budget);
                    self.begin(topics::UNCONFIRMED, Theme::Transaction, means);
                }
            }
            Ahead::Accounts => {
                if let Some(address) = self.accounts.pop_first() {
                    self.begin(&format!("{}{address}", topics::ACCOUNT_OF), Theme::Account(address), means);
                }
            }
        }
    }

    fn read_block(&mut self, height: Height, means: &mut Means<'_>, budget: &mut u32) {
        self.ahead = Ahead::Accounts;
        match means.facts.block(height) {
            Ok(Some(block)) => {
                let units = TRANSACTION_UNITS.saturating_mul(block.transactions.len() as u32);
                *budget = budget.saturating_sub(units);
                let block = Rc::new(block);
                self.ahead = Ahead::Transactions { block: Rc::clone(&block), height, next: 0 };
                self.begin(topics::BLOCKS, Theme::Block(BlockText::new(block)), means);
            }
            Ok(None) => {}
            Err(failure) => self.fail(failure),
        }
    }

    /// Makes a transaction the one in hand.
    fn take_up(&mut self, place: Place, means: &mut Means<'_>, budget: &mut u32) {
        if means.hub.registry().len() > 0
            && let Some(transaction) = place.transaction()
        {
            let mut concerned = Vec::new();
            if let Err(failure) = concern(transaction, means, &mut concerned) {
                self.fail(failure);
            }
            *budget = budget.saturating_sub(TRANSACTION_UNITS + concerned.len() as u32);
            concerned.retain(|address| means.hub.registry().contains(address));
            if matches!(place, Place::Block { .. }) {
                self.accounts.extend(&concerned);
            }
            self.concerned = concerned.into();
        }
        self.subject = Some(Subject { place, content: None });
    }

    fn begin(&mut self, topic: &str, theme: Theme, means: &Means<'_>) {
        let publication = Publication::new(topic, self.audience, means.hub);
        self.telling = Some(Telling { publication, theme, content: None });
    }

    /// Goes on with a publication; true when it is finished.
    fn tell(&mut self, telling: &mut Telling, means: &mut Means<'_>, budget: &mut u32) -> bool {
        if telling.content.is_none() {
            match telling.publication.find(means.hub, budget) {
                None => return false,
                Some(false) => return true,
                Some(true) => {}
            }
            if let Theme::Block(text) = &mut telling.theme
                && !text.work(budget)
            {
                return false;
            }
            match self.content(&mut telling.theme, means, budget) {
                Ok(None) => return true,
                Ok(content) => telling.content = content,
                Err(failure) => {
                    self.fail(failure);
                    return true;
                }
            }
        }
        let Some(content) = &telling.content else { return true };
        telling.publication.deliver(content, means.hub, means.effects, budget)
    }

    /// The body of a message.
    fn content(
        &mut self,
        theme: &mut Theme,
        means: &Means<'_>,
        budget: &mut u32,
    ) -> Result<Option<Content>, FactsError> {
        let pool = means.pool;
        let content = match theme {
            Theme::Height(height) => Content::height(*height, means.heights, pool),
            Theme::Block(text) => text.finish(pool),
            Theme::Account(address) => {
                let (account, meta) = means.facts.account(address)?;
                *budget = budget.saturating_sub(ACCOUNT_UNITS);
                Content::view(&AccountPair { account: &account, meta: &meta }, pool)
            }
            Theme::Transaction | Theme::Pair => {
                let Some(subject) = &mut self.subject else { return Ok(None) };
                let Some(transaction) = subject.place.transaction() else { return Ok(None) };
                match (&theme, &subject.content) {
                    (Theme::Transaction, _) => Content::view(transaction, pool),
                    (_, Some(content)) => return Ok(Some(content.clone())),
                    (_, None) => {
                        let content = pair(transaction, subject.place.height(), pool);
                        subject.content.insert(content).clone()
                    }
                }
            }
        };
        *budget = budget.saturating_sub(content.units());
        Ok(Some(content))
    }

    fn fail(&mut self, failure: FactsError) {
        match self.audience {
            Audience::Everybody => log::warn!("something is not published: {failure}"),
            Audience::Only(_) => drop(self.failure.get_or_insert(failure)),
        }
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
