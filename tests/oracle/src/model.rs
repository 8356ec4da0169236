//! The generator's model of the state, based on the text of the protocol alone.

use std::collections::{BTreeMap, BTreeSet};

use nisd::model::transaction::{LinkMode, ModificationKind, SupplyChangeKind};
use nisd::model::{Hash256, MosaicDefinition, MosaicId, NamespaceId};

use super::people::{AccountIndex, NEMESIS, RENTAL};
use super::proof::ProofState;
use super::terms::NetworkTerms;
use super::vesting::Weighted;

/// A link between an owner and a remote, seen from one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub is_owner: bool,
    pub other: AccountIndex,
    pub height: u64,
    pub mode: LinkMode,
}

/// Link state of an account as owner or remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    pub is_owner: bool,
    pub mode: LinkMode,
    pub is_recent: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    pub balance: u64,
    /// The vested and unvested parts of the balance.
    pub weighted: Weighted,
    /// Its importance, and the height it was computed for.
    pub importance: Option<(u64, f64)>,
    pub harvested: u64,
    pub referenced: u64,
    pub links: Vec<Link>,
    pub cosignatories: BTreeSet<AccountIndex>,
    pub cosignatory_of: BTreeSet<AccountIndex>,
    pub min_cosignatories: i64,
    pub mosaics: BTreeSet<MosaicId>,
}

impl Account {
    pub fn is_multisig(&self) -> bool {
        !self.cosignatories.is_empty()
    }

    /// Returns its newest link made at or below a height.
    fn link_at(&self, height: u64) -> Option<&Link> {
        self.links.iter().rev().find(|link| link.height <= height)
    }

    pub fn link_state(&self, height: u64, limit: u64) -> Option<LinkState> {
        let link = self.link_at(height)?;
        Some(LinkState { is_owner: link.is_owner, mode: link.mode, is_recent: height - link.height < limit })
    }

    /// Returns the account that receives the fees of a block that it signs, if it is another one.
    pub fn fee_recipient(&self, height: u64, limit: u64) -> Option<AccountIndex> {
        let link = self.link_at(height).filter(|link| !link.is_owner)?;
        let is_recent = height - link.height < limit;
        (is_recent == (link.mode == LinkMode::Deactivate)).then_some(link.other)
    }

    fn push(&mut self, link: Link) {
        self.links.push(link);
        if self.links.len() > 2 {
            self.links.remove(0);
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    pub owner: AccountIndex,
    pub height: u64,
    pub children: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub definition: MosaicDefinition,
    pub creator: AccountIndex,
    pub supply: u64,
    pub balances: BTreeMap<AccountIndex, u64>,
}

impl Token {
    pub fn of(&self, who: AccountIndex) -> u64 {
        self.balances.get(&who).copied().unwrap_or(0)
    }

    pub fn unit(&self) -> u64 {
        10u64.pow(u32::from(self.definition.properties.divisibility))
    }

    fn add(&mut self, who: AccountIndex, change: i128) {
        let sum = i128::from(self.of(who)) + change;
        match u64::try_from(sum).expect("a balance of a mosaic") {
            0 => drop(self.balances.remove(&who)),
            sum => drop(self.balances.insert(who, sum)),
        }
    }
}

/// A root namespace: its leases, and the mosaics of the newest lease.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Root {
    pub leases: Vec<Lease>,
    pub tokens: BTreeMap<MosaicId, Token>,
}

impl Root {
    pub fn newest(&self) -> &Lease {
        self.leases.last().expect("a root has a lease")
    }

    /// Returns whether a name exists in the newest lease.
    pub fn has(&self, name: &NamespaceId) -> bool {
        name.is_root() || self.newest().children.contains(name.as_str())
    }

    /// Returns the oldest lease that is active at a height.
    pub fn active(&self, height: u64, year: u64) -> Option<&Lease> {
        self.leases.iter().find(|lease| lease.height <= height && height < lease.height + year)
    }
}

/// An effect of a transaction.
#[derive(Clone, Debug)]
pub enum StateChange {
    Reference(AccountIndex),
    Pay { from: AccountIndex, to: AccountIndex, amount: u64 },
    Fee { from: AccountIndex, amount: u64 },
    Link { owner: AccountIndex, remote: AccountIndex, mode: LinkMode },
    Cosign { account: AccountIndex, kind: ModificationKind, other: AccountIndex },
    MinCosignatories { account: AccountIndex, change: i32 },
    Rent { owner: AccountIndex, name: NamespaceId },
    Define { creator: AccountIndex, definition: MosaicDefinition },
    Supply { signer: AccountIndex, id: MosaicId, kind: SupplyChangeKind, delta: u64 },
    Mosaic { from: AccountIndex, to: AccountIndex, id: MosaicId, quantity: u64 },
}

/// The state.
#[derive(Clone, Debug)]
pub struct Model {
    /// Height of the last block.
    pub height: u64,
    pub accounts: Vec<Account>,
    pub roots: BTreeMap<String, Root>,
    /// Hashes in the chain, with the timestamps of their transactions.
    pub hashes: BTreeMap<Hash256, i32>,
    pub proofs: ProofState,
    /// The height of the last importance calculation.
    pub importance_height: u64,
}

impl Model {
    pub fn new(accounts: usize, generation: Hash256) -> Model {
        let (accounts, proofs) = (vec![Account::default(); accounts], ProofState::new(generation));
        Model { height: 0, accounts, roots: BTreeMap::new(), hashes: BTreeMap::new(), proofs, importance_height: 0 }
    }

    /// Returns the present vested balance of an account.
    pub fn vested(&self, who: AccountIndex, terms: &NetworkTerms) -> u64 {
        self.accounts[who].weighted.vested(self.height, terms)
    }

    /// Returns the shares of the total vested balance, which are the importances under proof of stake.
    pub fn stakes(&self, terms: &NetworkTerms) -> Vec<f64> {
        let takes_part = |who: &AccountIndex| *who != NEMESIS && self.accounts[*who].referenced > 0;
        let vested = |who: AccountIndex| if takes_part(&who) { self.vested(who, terms) } else { 0 };
        let all: Vec<f64> = (0..self.accounts.len()).map(|who| vested(who) as f64).collect();
        let sum: f64 = all.iter().sum();
        all.into_iter().map(|one| one / sum).collect()
    }

    /// Returns a mosaic other than the currency.
    pub fn token(&self, id: &MosaicId) -> Option<&Token> {
        self.roots.get(id.namespace.root())?.tokens.get(id)
    }

    fn token_mut(&mut self, id: &MosaicId) -> &mut Token {
        let root = self.roots.get_mut(id.namespace.root()).expect("the root of a mosaic");
        root.tokens.get_mut(id).expect("a mosaic")
    }

    /// Returns whether a namespace is active at a height.
    pub fn is_active(&self, name: &NamespaceId, height: u64, year: u64) -> bool {
        let lease = self.roots.get(name.root()).and_then(|root| root.active(height, year));
        name.as_str() == "nem" || lease.is_some_and(|lease| name.is_root() || lease.children.contains(name.as_str()))
    }

    /// Applies an effect in the block at a height.
    pub fn apply(&mut self, one: &StateChange, height: u64, terms: &NetworkTerms) {
        match one {
            StateChange::Reference(who) => self.accounts[*who].referenced += 1,
            StateChange::Pay { from, to, amount } => {
                self.receive(*to, *amount, height, terms);
                self.pay(*from, *amount, height, terms);
            }
            StateChange::Fee { from, amount } => self.pay(*from, *amount, height, terms),
            StateChange::Link { owner, remote, mode } => self.link(*owner, *remote, *mode, height, terms),
            StateChange::Cosign { account, kind, other } => match kind {
                ModificationKind::Add => {
                    self.accounts[*account].cosignatories.insert(*other);
                    self.accounts[*other].cosignatory_of.insert(*account);
                }
                _ => {
                    self.accounts[*account].cosignatories.remove(other);
                    self.accounts[*other].cosignatory_of.remove(account);
                }
            },
            StateChange::MinCosignatories { account, change } => {
                self.accounts[*account].min_cosignatories += i64::from(*change)
            }
            StateChange::Rent { owner, name } => self.rent(*owner, name, height),
            StateChange::Define { creator, definition } => self.define(*creator, definition, height, terms),
            StateChange::Supply { signer, id, kind, delta } => self.change_supply(*signer, id, *kind, *delta),
            StateChange::Mosaic { from, to, id, quantity } => self.transfer(*from, *to, id, *quantity),
        }
    }

    /// Adds to a balance. Payments in the first block vest at once.
    pub fn receive(&mut self, to: AccountIndex, amount: u64, height: u64, terms: &NetworkTerms) {
        let account = &mut self.accounts[to];
        account.balance += amount;
        account.weighted.receive(height, amount, terms);
        if height == 1 && to != NEMESIS {
            account.weighted.vest();
        }
    }

    fn pay(&mut self, from: AccountIndex, amount: u64, height: u64, terms: &NetworkTerms) {
        let account = &mut self.accounts[from];
        account.balance = account.balance.checked_sub(amount).expect("what was checked");
        account.weighted.send(height, amount, terms);
    }

    fn link(&mut self, owner: AccountIndex, named: AccountIndex, mode: LinkMode, height: u64, terms: &NetworkTerms) {
        let is_named = mode == LinkMode::Activate || height < terms.forks.redefinition;
        let linked = || self.accounts[owner].links.last().expect("a link to end").other;
        let remote = if is_named { named } else { linked() };
        self.accounts[owner].push(Link { is_owner: true, other: remote, height, mode });
        self.accounts[remote].push(Link { is_owner: false, other: owner, height, mode });
    }

    fn rent(&mut self, owner: AccountIndex, name: &NamespaceId, height: u64) {
        let root = self.roots.entry(name.root().to_owned()).or_default();
        if !name.is_root() {
            let newest = root.leases.last_mut().expect("a lease");
            newest.children.insert(name.as_str().to_owned());
            return;
        }
        let before = root.leases.last().filter(|lease| lease.owner == owner);
        let children = before.map(|lease| lease.children.clone());
        if children.is_none() {
            root.tokens.clear();
        }
        root.leases.push(Lease { owner, height, children: children.unwrap_or_default() });
        for (id, token) in &root.tokens {
            for who in token.balances.keys() {
                self.accounts[*who].mosaics.insert(id.clone());
            }
        }
    }

    fn define(&mut self, creator: AccountIndex, definition: &MosaicDefinition, height: u64, terms: &NetworkTerms) {
        let id = &definition.id;
        let root = self.roots.get_mut(id.namespace.root()).expect("the root of a mosaic");
        let mut token = Token { definition: definition.clone(), creator, supply: 0, balances: BTreeMap::new() };
        let same_terms =
            |old: &&Token| old.definition.properties == definition.properties && old.definition.levy == definition.levy;
        match root.tokens.get(id).filter(|_| height >= terms.forks.redefinition).filter(same_terms) {
            Some(old) => (token.supply, token.balances) = (old.supply, old.balances.clone()),
            None => {
                token.supply = definition.properties.initial_supply;
                token.add(creator, i128::from(token.supply * token.unit()));
            }
        }
        root.tokens.insert(id.clone(), token);
        self.accounts[creator].mosaics.insert(id.clone());
    }

    fn change_supply(&mut self, signer: AccountIndex, id: &MosaicId, kind: SupplyChangeKind, delta: u64) {
        let token = self.token_mut(id);
        let units = i128::from(delta * token.unit());
        let creator = token.creator;
        match kind {
            SupplyChangeKind::Create => {
                token.supply += delta;
                token.add(creator, units);
            }
            SupplyChangeKind::Delete => {
                token.supply -= delta;
                token.add(creator, -units);
                if token.of(signer) == 0 {
                    self.accounts[signer].mosaics.remove(id);
                }
            }
        }
    }

    fn transfer(&mut self, from: AccountIndex, to: AccountIndex, id: &MosaicId, quantity: u64) {
        let token = self.token_mut(id);
        token.add(from, -i128::from(quantity));
        token.add(to, i128::from(quantity));
        let creator = token.creator;
        for who in [from, to] {
            let keeps = who == creator || self.token(id).is_some_and(|token| token.of(who) > 0);
            let mosaics = &mut self.accounts[who].mosaics;
            if keeps {
                mosaics.insert(id.clone())
            } else {
                mosaics.remove(id)
            };
        }
    }

    /// Applies what follows after the transactions of a block.
    pub fn finish_block(&mut self, signer: AccountIndex, height: u64, time: i32, fees: u64, terms: &NetworkTerms) {
        let paid = self.accounts[signer].fee_recipient(height, terms.rewrite_limit).unwrap_or(signer);
        self.receive(paid, fees, height, terms);
        self.accounts[paid].harvested += 1;
        self.expire(height, terms);
        if height % 360 == 1 {
            self.prune(height, time, terms);
        }
        self.height = height;
    }

    fn expire(&mut self, height: u64, terms: &NetworkTerms) {
        for root in self.roots.values().filter(|root| root.newest().height + terms.year() == height) {
            for (id, token) in &root.tokens {
                for who in token.balances.keys() {
                    self.accounts[*who].mosaics.remove(id);
                }
            }
        }
    }

    fn prune(&mut self, height: u64, time: i32, terms: &NetworkTerms) {
        let cut = height.saturating_sub(terms.lease_retention()).max(1);
        self.roots.values_mut().for_each(|root| root.leases.retain(|lease| lease.height >= cut));
        self.roots.retain(|_, root| !root.leases.is_empty());
        if terms.retention >= 0 {
            let limit = (i64::from(time) - terms.retention * 3_600).max(0);
            self.hashes.retain(|_, time| i64::from(*time) >= limit);
        }
    }

    /// Returns the owner of a namespace in its newest lease.
    pub fn owner(&self, name: &NamespaceId) -> Option<AccountIndex> {
        if name.as_str() == "nem" {
            return Some(RENTAL);
        }
        let root = self.roots.get(name.root())?;
        root.has(name).then(|| root.newest().owner)
    }
}
