//! The transactions of a block, each valid on the state after the previous ones.

use std::collections::BTreeMap;

use nisd::crypto::PublicKey;
use nisd::model::transaction::{
    AggregateModification, Cosignature, Message, MessageKind, Modification, ModificationKind, MosaicSupplyChange,
    SupplyChangeKind, Transfer, wire_version,
};
use nisd::model::units::MICRO;
use nisd::model::{Amount, Body, Hash256, Height, Mosaic, MosaicId, NamespaceId, Network, Timestamp, Transaction};
use nisd::rules::{FeeSchedule, max_message_length};
use nisd::state::MosaicEntry;

use super::book::Statistics;
use super::groups::{Group, Link};
use super::growth::NextBlock;
use super::names::{Root, Token};
use super::people::{Accounts, PAYERS, Role};
use super::plan::Plan;
use crate::common::Random;

/// Micro-units in a fee unit.
pub const FEE_UNIT: u64 = 50_000;
/// Whole units of a transfer per fee unit, and maximum number of fee units.
const FEE_STEP: u64 = 10_000;
const MAX_FEE_UNITS: u64 = 25;
/// Bytes of a message per fee unit.
const MESSAGE_STEP: u64 = 32;
/// Seconds before the block within which transactions are made, and after it within which they expire.
const AGE: i32 = 3_600;
const TTL: i32 = 7_200;
/// Maximum lifetime of a transaction in seconds.
const MAX_TTL: i32 = 86_400;
/// Minimum of a large payment: the minimum that counts for importance.
const LARGE_PAYMENT: u64 = 1_000;
/// Whole units with which every tenth newcomer becomes eligible for importance; in a chain of the public network's shape
/// one of 80.
const ELIGIBLE_BALANCE: u64 = 12_000;
/// Whole units below which all payments to those accounts are that begin with nothing in such a chain.
const SMALL_PAYMENT: u64 = 500;

/// Blocks from one link of a harvester to that of the next.
const LINK_INTERVAL: u64 = 4;

/// Numbers of transactions per thousand by kind; the rest are transfers.
const MIX: [(usize, RandomKind); 8] = [
    (3, RandomKind::Root),
    (5, RandomKind::Sub),
    (2, RandomKind::Link),
    (3, RandomKind::Group),
    (40, RandomKind::Shared),
    (7, RandomKind::Supply),
    (150, RandomKind::Token),
    (2, RandomKind::TokenAndCurrency),
];

/// Kind of the next transaction.
#[derive(Clone, Copy, Debug)]
enum RandomKind {
    Root,
    Sub,
    Link,
    Group,
    Shared,
    Supply,
    Token,
    TokenAndCurrency,
}

/// A scheduled event.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// Rents a namespace that lasts as long as the chain and has a mosaic that everyone trades.
    Found,
    /// Rents another namespace.
    Rent,
    /// Defines a mosaic in a root namespace or in one of its sub-namespaces.
    Define { root: usize, sub: Option<usize>, popular: bool },
    /// Changes the description of a mosaic.
    Redefine(usize),
    /// The owner rents a root again.
    Renew(usize),
    /// Another account rents it.
    Claim(usize),
    /// Creates a multisig account.
    Group,
    /// A harvester delegates its importance to the first remote.
    Link,
    /// The link with this number ends.
    Unlink(usize),
    /// It starts again.
    Relink(usize),
}

/// Result of an event.
pub enum EventResult {
    /// It happens by this transaction.
    Now(Box<Transaction>),
    /// It is not possible in this block.
    Later,
    /// It is not possible any more.
    Never,
}

impl EventResult {
    pub fn now(transaction: Transaction) -> EventResult {
        EventResult::Now(Box::new(transaction))
    }
}

/// Prices at a height, in micro-units, and the maximum length of a message.
pub struct Prices {
    schedule: FeeSchedule,
    /// Fee of everything except the following and transfers.
    pub fee: u64,
    /// Fee of a multisig transaction, a cosignature or an importance transfer.
    pub multisig_fee: u64,
    /// Maximum fee of a change of cosignatories, or of a payment of a multisig account.
    pub change_fee: u64,
    pub root_rent: u64,
    pub sub_rent: u64,
    pub creation_fee: u64,
    max_message: usize,
}

impl Prices {
    fn at(height: Height, network: &Network) -> Prices {
        let forks = &network.chain.forks;
        let schedule = FeeSchedule::at(forks, height);
        let supply_change = MosaicSupplyChange { mosaic: MosaicId::xem(), kind: SupplyChangeKind::Create, delta: 0 };
        let (other_hash, other_account) = (Hash256::default().into(), network.namespace_sink());
        let cosignature = Cosignature { other_hash, other_account };
        let modification = Modification { kind: ModificationKind::Add, cosignatory: PublicKey([0; 32]) };
        let (modifications, min_cosignatories_change) = (vec![modification; 4], Some(1));
        let change = AggregateModification { modifications, min_cosignatories_change };
        let root = NamespaceId::parse("root").expect("a name");
        let mut prices = Prices {
            schedule,
            fee: 0,
            multisig_fee: 0,
            change_fee: 0,
            root_rent: schedule.rental_fee(&root).0,
            sub_rent: schedule.rental_fee(&root.child("sub").expect("a name")).0,
            creation_fee: schedule.creation_fee().0,
            max_message: max_message_length(forks, height),
        };
        prices.fee = prices.minimum_fee(&Body::MosaicSupplyChange(supply_change));
        prices.multisig_fee = prices.minimum_fee(&Body::Cosignature(cosignature));
        prices.change_fee = prices.minimum_fee(&Body::AggregateModification(change));
        prices
    }

    /// Returns the minimum fee of a transaction without mosaics.
    pub fn minimum_fee(&self, body: &Body) -> u64 {
        self.minimum_fee_with(body, &[])
    }

    /// Returns the minimum fee of a transaction with these mosaics and perhaps the currency.
    pub fn minimum_fee_with(&self, body: &Body, mosaics: &[MosaicEntry]) -> u64 {
        let entry = |id: &MosaicId| {
            if id.is_xem() {
                Some(MosaicEntry::xem())
            } else {
                mosaics.iter().find(|entry| entry.definition.id == *id).cloned()
            }
        };
        self.schedule.minimum_fee(body, |id| Ok(entry(id))).expect("the mosaics are there").0
    }

    /// Returns what it costs to rent a root and to define a mosaic in it.
    pub fn founding(&self) -> u64 {
        self.root_rent + self.creation_fee + 2 * self.fee
    }
}

/// All accounts and their possessions.
pub struct Traffic<'n> {
    pub plan: &'n Plan,
    pub network: &'n Network,
    pub accounts: Accounts,
    pub random: Random,
    pub statistics: Statistics,
    pub roots: Vec<Root>,
    pub tokens: Vec<Token>,
    /// Mosaics that everyone trades.
    pub popular: Vec<usize>,
    pub groups: Vec<Group>,
    pub links: Vec<Link>,
    pub events: BTreeMap<Height, Vec<Event>>,
    /// Prices at the height of the current block.
    pub prices: Prices,
    /// Transactions of the blocks before it.
    made: u64,
    /// Transactions of the current block, including nested ones.
    pub count: u64,
    /// Makes names unique.
    pub names: u64,
    /// Number of leases of roots that are not permanent.
    pub leases: usize,
}

impl<'n> Traffic<'n> {
    /// Starts after the nemesis block.
    pub fn new(plan: &'n Plan, network: &'n Network, people: Accounts, random: Random) -> Traffic<'n> {
        let mut traffic = Traffic {
            plan,
            network,
            accounts: people,
            random,
            statistics: Statistics::default(),
            roots: Vec::new(),
            tokens: Vec::new(),
            popular: Vec::new(),
            groups: Vec::new(),
            links: Vec::new(),
            events: BTreeMap::new(),
            prices: Prices::at(Height::NEMESIS, network),
            made: 0,
            count: 0,
            names: 0,
            leases: 0,
        };
        if !plan.plain {
            let first = [Event::Found, Event::Link, Event::Found, Event::Group, Event::Rent, Event::Rent, Event::Rent];
            first.into_iter().for_each(|event| traffic.schedule(Height::NEMESIS.next(), event));
            for link in 1..plan.delegating().len() as u64 {
                traffic.schedule(Height::NEMESIS.plus(LINK_INTERVAL * link), Event::Link);
            }
        }
        traffic
    }

    /// Schedules an event at a height, or at the next one at which it is possible.
    pub fn schedule(&mut self, height: Height, event: Event) {
        let forks = &self.network.chain.forks;
        let first = match event {
            Event::Found | Event::Rent => forks.mosaics,
            // Earlier it would take the mosaic from its holders.
            Event::Redefine(_) => forks.mosaic_redefinition,
            _ => 0,
        };
        let height = height.max(Height(first));
        if height.0 > self.plan.blocks {
            return;
        }
        self.events.entry(height).or_default().push(event);
    }

    /// Returns all transactions of a block.
    pub fn fill(&mut self, place: &NextBlock) -> Vec<Transaction> {
        let wanted = self.plan.transactions_at(place.height, self.made, &mut self.random);
        // The block of the treasury re-issuance must have the transactions that its network lists: none.
        if wanted == 0 || place.height.0 == self.network.chain.forks.treasury_reissuance {
            return Vec::new();
        }
        self.prices = Prices::at(place.height, self.network);
        let mut all = Vec::with_capacity(wanted);
        self.count = 0;
        self.run_events(place, wanted, &mut all);
        while all.len() < wanted && self.count < self.plan.block_limit() {
            let left = self.plan.all_transactions().saturating_sub(self.made + all.len() as u64);
            let transaction = self.random_transaction(place, left);
            self.add(transaction, &mut all);
        }
        self.made += all.len() as u64;
        self.statistics.other_counts.insert("accountsSeen", self.accounts.seen() as u64);
        all
    }

    fn add(&mut self, transaction: Transaction, all: &mut Vec<Transaction>) {
        self.count += transaction.self_and_children().count() as u64;
        all.push(transaction);
    }

    /// Executes scheduled events first. What does not fit or is not possible now waits for the next block.
    fn run_events(&mut self, place: &NextBlock, wanted: usize, all: &mut Vec<Transaction>) {
        while let Some(entry) = self.events.first_entry().filter(|entry| *entry.key() <= place.height) {
            for event in entry.remove() {
                let has_room = all.len() < wanted;
                match if has_room { self.run_event(event, place) } else { EventResult::Later } {
                    EventResult::Now(transaction) => self.add(*transaction, all),
                    EventResult::Later => self.schedule(place.height.next(), event),
                    EventResult::Never => self.statistics.count("eventsDropped", 1),
                }
            }
        }
    }

    fn run_event(&mut self, event: Event, place: &NextBlock) -> EventResult {
        match event {
            Event::Found => EventResult::now(self.rent_root(place, true)),
            Event::Rent => EventResult::now(self.rent_root(place, false)),
            Event::Define { root, sub, popular } => self.define(place, root, sub, popular),
            Event::Redefine(token) => self.redefine(place, token),
            Event::Renew(root) => self.renew(place, root),
            Event::Claim(root) => self.claim(place, root),
            Event::Group => EventResult::now(self.convert_to_multisig(place)),
            Event::Link => self.link(place).map_or(EventResult::Later, EventResult::now),
            Event::Unlink(link) => self.unlink(place, link),
            Event::Relink(link) => self.relink(place, link),
        }
    }

    /// Performs an action of an account if it can pay this many micro-units and has not signed in this block.
    pub fn run_action(
        &mut self,
        place: &NextBlock,
        signer: usize,
        micro: u64,
        act: impl FnOnce(&mut Self) -> Transaction,
    ) -> EventResult {
        match () {
            _ if self.accounts.has_signed(signer, place.height) => EventResult::Later,
            _ if !self.accounts.can_pay(signer, place.height, micro) => EventResult::Never,
            _ => EventResult::now(act(self)),
        }
    }

    /// Returns a random transaction; `left` is the number of transactions still to be made in the whole chain.
    fn random_transaction(&mut self, place: &NextBlock, left: u64) -> Transaction {
        let wish = if self.plan.plain { None } else { self.random_kind() };
        let made = wish.and_then(|wish| match wish {
            RandomKind::Root => self.has_mosaics(place).then(|| self.rent_root(place, false)),
            RandomKind::Sub => self.random_root(place.height).and_then(|root| self.rent_sub(place, root)),
            RandomKind::Link => self.link(place),
            RandomKind::Group => (self.groups.len() < self.plan.max_groups()).then(|| self.convert_to_multisig(place)),
            RandomKind::Shared => self.use_multisig(place),
            RandomKind::Supply => self.change_supply(place),
            RandomKind::Token => self.trade(place, left, false),
            RandomKind::TokenAndCurrency => self.trade(place, left, true),
        });
        made.unwrap_or_else(|| self.transfer(place, left))
    }

    fn has_mosaics(&self, place: &NextBlock) -> bool {
        place.height.0 >= self.network.chain.forks.mosaics
    }

    fn random_kind(&mut self) -> Option<RandomKind> {
        let mut place = self.random.below(1_000);
        for (share, wish) in MIX {
            match place.checked_sub(share) {
                None => return Some(wish),
                Some(rest) => place = rest,
            }
        }
        None
    }

    /// Returns an account to pay, and whether it is new; newcomers are so frequent that all have appeared some time
    /// before the end, or about at the end in a chain of the public network's shape.
    pub fn payee(&mut self, left: u64) -> (usize, bool) {
        let unseen = self.accounts.unseen() as u64;
        let (unseen_parts, left_parts) = if self.plan.scale.is_some() { (5, 4) } else { (3, 1) };
        let is_newcomer = unseen_parts * unseen > self.random.next() % (left_parts * left).max(1) && unseen > 0;
        let to = if is_newcomer { self.accounts.newcomer() } else { self.accounts.payee(&mut self.random) };
        (to, is_newcomer)
    }

    fn transfer(&mut self, place: &NextBlock, left: u64) -> Transaction {
        let (to, is_new) = self.payee(left);
        let units = match self.plan.scale {
            None => self.units(is_new),
            Some(_) => self.units_as_public(to, is_new),
        };
        let amount = units * MICRO + [0, self.random.next() % MICRO][self.random.below(2)];
        let message = self.message();
        let body = Body::Transfer(self.payment(to, amount, message, Vec::new()));
        let fee = self.prices.minimum_fee(&body);
        let from = self.accounts.payer(&mut self.random, place.height, amount + fee, &PAYERS);
        self.accounts.pay(from, to, amount);
        self.signed(place, from, 1, fee, body)
    }

    /// Returns the whole units of a payment.
    fn units(&mut self, is_new: bool) -> u64 {
        match (is_new, self.random.below(20)) {
            (true, 0..2) => ELIGIBLE_BALANCE + self.random.next() % ELIGIBLE_BALANCE,
            (true, _) => 50 + self.random.next() % 2_000,
            (false, 0) => 20 * LARGE_PAYMENT + self.random.next() % (20 * LARGE_PAYMENT),
            (false, 1..10) => LARGE_PAYMENT + self.random.next() % (2 * LARGE_PAYMENT),
            (false, _) => 1 + self.random.next() % LARGE_PAYMENT,
        }
    }

    /// Returns the whole units of a payment in a chain of the public network's shape. Payments to accounts that began with
    /// nothing are small, so that few of them become eligible for importance later.
    fn units_as_public(&mut self, to: usize, is_new: bool) -> u64 {
        if is_new && self.random.below(80) == 0 {
            ELIGIBLE_BALANCE + self.random.next() % ELIGIBLE_BALANCE
        } else if !is_new && to < self.plan.funded() {
            self.units(false)
        } else {
            1 + self.random.next() % SMALL_PAYMENT
        }
    }

    /// Builds a payment.
    pub fn payment(&self, to: usize, amount: u64, message: Option<Message>, mosaics: Vec<Mosaic>) -> Transfer {
        Transfer { recipient: self.accounts.get(to).address, amount: Amount(amount), message, mosaics }
    }

    /// Sometimes returns a short message.
    pub fn message(&mut self) -> Option<Message> {
        let (kind, length) = match self.random.below(20) {
            0..6 => (MessageKind::Plain, 1 + self.random.below(40)),
            6 if !self.plan.plain => (MessageKind::Secure, 48 + 16 * self.random.below(5)),
            _ => return None,
        };
        let mut payload = vec![0; length.min(self.prices.max_message)];
        payload.chunks_mut(8).for_each(|part| {
            let length = part.len();
            part.copy_from_slice(&self.random.next().to_le_bytes()[..length]);
        });
        if kind == MessageKind::Plain {
            payload.iter_mut().for_each(|byte| *byte = b"abcdefghijklmnopqrstuvwxyz 01234"[usize::from(*byte % 32)]);
        }
        Some(Message { kind, payload })
    }

    /// Builds an unsigned transaction without charging its fee.
    pub fn unsigned(&mut self, place: &NextBlock, signer: usize, version: i32, fee: u64, body: Body) -> Transaction {
        let (last, first) = (place.time.0, (place.parent.0 + 1).max(place.time.0 - AGE));
        let time = first + self.random.below((last - first + 1) as usize) as i32;
        Transaction {
            version: wire_version(self.network.byte, version),
            timestamp: Timestamp(time),
            signer: self.accounts.get(signer).keys.public(),
            signature: None,
            fee: Amount(fee),
            deadline: Timestamp((last + TTL).min(time + MAX_TTL)),
            body,
        }
    }

    /// Builds a signed transaction and charges its fee to the signer.
    pub fn signed(&mut self, place: &NextBlock, signer: usize, version: i32, fee: u64, body: Body) -> Transaction {
        let transaction = self.unsigned(place, signer, version, fee, body);
        self.accounts.spend(signer, fee);
        self.sign(place, signer, transaction)
    }

    /// Signs a transaction.
    pub fn sign(&mut self, place: &NextBlock, signer: usize, mut transaction: Transaction) -> Transaction {
        self.accounts.sign(signer, place.height);
        transaction.signature = Some(self.accounts.get(signer).keys.sign(&transaction.signed_bytes()));
        transaction
    }

    /// Gives a new role to an ordinary account that can pay this many micro-units.
    pub fn assign_role(&mut self, place: &NextBlock, micro: u64, role: Role) -> usize {
        let found = self.accounts.ordinary(&mut self.random, place.height, micro);
        self.accounts.get_mut(found).role = role;
        found
    }
}

/// Returns the minimum fee for sending something worth this many whole units.
pub fn fee_of_units(units: u64) -> u64 {
    (units / FEE_STEP).clamp(1, MAX_FEE_UNITS) * FEE_UNIT
}

/// Returns the fee of a message.
pub fn message_fee(message: Option<&Message>) -> u64 {
    message.map_or(0, |message| (message.payload.len() as u64 / MESSAGE_STEP + 1) * FEE_UNIT)
}

/// Returns the currency as a mosaic.
pub fn currency(quantity: u64) -> Mosaic {
    Mosaic { id: MosaicId::xem(), quantity }
}
