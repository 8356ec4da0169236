//! Namespaces that are rented, renewed, abandoned and claimed by others, and mosaics that move among many holders.

use std::collections::HashMap;

use nisd::crypto::PublicKey;
use nisd::model::mosaic::LevyKind;
use nisd::model::transaction::{MosaicDefinitionCreation, MosaicSupplyChange, ProvisionNamespace, SupplyChangeKind};
use nisd::model::units::MICRO;
use nisd::model::{
    Amount, Body, Height, Levy, Mosaic, MosaicDefinition, MosaicId, MosaicProperties, NamespaceId, Transaction,
};
use nisd::state::MosaicEntry;

use super::growth::NextBlock;
use super::people::Role;
use super::traffic::{Event, EventResult, FEE_UNIT, Traffic, currency, fee_of_units, message_fee};

/// Least balance of a founder, and the part it keeps for its rents, in micro-units.
const FOUNDER_BALANCE: u64 = 20_000 * MICRO;
const RESERVE: u64 = 5_000 * MICRO;
/// Supply of the currency that mosaics are valued against, in whole units.
const CURRENCY_SUPPLY: u128 = 8_999_999_999;
/// Number of blocks within which the owner of a namespace defines its mosaics.
const DEFINED_WITHIN: u64 = 50;
/// Attempts to find something suitable.
const TRIES: usize = 8;
/// Number of redefinitions of the first popular mosaic.
const REDEFINITIONS: u64 = 3;
/// Fees of the two kinds of levies: ten-thousandths of the mosaic itself, and micro-units.
const PERCENTILE: u64 = 50;
const ABSOLUTE: u64 = 10_000;

/// Fate of a lease after its year.
#[derive(Clone, Copy)]
enum Fate {
    Renewed,
    /// Renewed after its expiration.
    RenewedLate,
    /// Another account rents the name.
    Claimed,
    Abandoned,
}

/// Leases have these fates in turn.
const FATES: [Fate; 8] = [
    Fate::RenewedLate,
    Fate::Claimed,
    Fate::Renewed,
    Fate::Abandoned,
    Fate::Renewed,
    Fate::Renewed,
    Fate::Claimed,
    Fate::Renewed,
];

/// A root namespace with everything in it.
pub struct Root {
    name: NamespaceId,
    owner: usize,
    /// Start of its last lease, and end of the previous one if that is later.
    leased: Height,
    previous_end: Height,
    subs: Vec<Sub>,
    /// The last block that defines a mosaic in it.
    defined: Height,
    is_permanent: bool,
}

struct Sub {
    name: NamespaceId,
    /// The block after which it is active.
    from: Height,
}

/// A mosaic.
pub struct Token {
    id: MosaicId,
    root: usize,
    /// The owner of the root; the mosaic is lost when the owner changes.
    creator: usize,
    properties: MosaicProperties,
    levy: Option<LevyKind>,
    supply: u64,
    descriptions: u64,
    /// The last block that defines it.
    defined: Height,
    quantities: HashMap<usize, u64>,
    /// Every account that ever had some.
    holders: Vec<usize>,
    lost: bool,
}

impl Token {
    /// Returns what the fee of a transfer depends on.
    fn entry(&self, creator: PublicKey) -> MosaicEntry {
        let (id, properties, description, levy) = (self.id.clone(), self.properties, String::new(), None);
        MosaicEntry { definition: MosaicDefinition { creator, id, description, properties, levy }, supply: self.supply }
    }

    fn quantity(&self, holder: usize) -> u64 {
        self.quantities.get(&holder).copied().unwrap_or(0)
    }

    fn credit(&mut self, to: usize, quantity: u64) {
        match self.quantities.get_mut(&to) {
            Some(has) => *has += quantity,
            None => {
                self.holders.push(to);
                self.quantities.insert(to, quantity);
            }
        }
    }

    fn debit(&mut self, from: usize, quantity: u64) {
        let has = self.quantities.get_mut(&from).expect("a holder");
        *has = has.checked_sub(quantity).expect("enough");
    }

    /// Returns the levy on a transfer of this quantity, in smallest units.
    fn levy_on(&self, quantity: u64) -> u64 {
        if self.levy == Some(LevyKind::Percentile) { quantity * PERCENTILE / 10_000 } else { 0 }
    }

    /// Returns the value of this many smallest units, in whole units of the currency.
    fn value(&self, quantity: u64) -> u64 {
        let total = u128::from(self.supply) * u128::from(self.properties.multiplier());
        (CURRENCY_SUPPLY * u128::from(quantity) / total) as u64
    }
}

impl Traffic<'_> {
    /// Lets an account rent a new root.
    pub fn rent_root(&mut self, place: &NextBlock, lasts: bool) -> Transaction {
        let owner = if lasts {
            self.assign_role(place, FOUNDER_BALANCE.max(RESERVE + self.prices.founding()), Role::Founder)
        } else {
            self.namespace_owner(place)
        };
        let name = NamespaceId::parse(&self.new_name("root")).expect("a name");
        let (root, height) = (self.roots.len(), place.height);
        let (subs, none) = (Vec::new(), Height(0));
        let previous_end = none;
        self.roots.push(Root { name, owner, leased: height, previous_end, subs, defined: none, is_permanent: lasts });
        let mosaics = if lasts { 1 } else { 1 + self.random.below(2) };
        self.schedule_definitions(root, height, mosaics);
        self.lease(place, root)
    }

    fn namespace_owner(&mut self, place: &NextBlock) -> usize {
        let roles = [Role::Ordinary, Role::NamespaceOwner];
        let least = (2 * self.prices.root_rent).max(self.prices.founding());
        let found = self.accounts.payer(&mut self.random, place.height, least, &roles);
        self.accounts.get_mut(found).role = Role::NamespaceOwner;
        found
    }

    fn new_name(&mut self, kind: &str) -> String {
        self.names += 1;
        format!("{kind}{}", self.names)
    }

    fn schedule_definitions(&mut self, root: usize, height: Height, count: usize) {
        for _ in 0..count {
            let (sub, popular) = (None, self.roots[root].is_permanent);
            let soon = height.plus(1 + if popular { 0 } else { self.random.next() % DEFINED_WITHIN });
            self.schedule(soon, Event::Define { root, sub, popular });
        }
    }

    /// Returns the transaction with which the owner rents a root, and schedules the fate of the lease.
    fn lease(&mut self, place: &NextBlock, root: usize) -> Transaction {
        let chain = &self.network.chain;
        let (month, end) = (chain.blocks_per_month(), place.height.plus(chain.blocks_per_year()));
        let chance = self.random.next() % month;
        let fate = if self.roots[root].is_permanent { Fate::Renewed } else { FATES[self.leases % FATES.len()] };
        self.leases += usize::from(!self.roots[root].is_permanent);
        match fate {
            Fate::Renewed => self.schedule(end.minus(1 + chance), Event::Renew(root)),
            Fate::RenewedLate => self.schedule(end.plus(chance / 2), Event::Renew(root)),
            Fate::Claimed => self.schedule(end.plus(month + chance), Event::Claim(root)),
            Fate::Abandoned => {}
        }
        let (owner, new_part) = (self.roots[root].owner, self.roots[root].name.to_string());
        self.rent(place, owner, self.prices.root_rent, new_part, None)
    }

    fn rent(
        &mut self,
        place: &NextBlock,
        owner: usize,
        rent: u64,
        new_part: String,
        parent: Option<NamespaceId>,
    ) -> Transaction {
        let (rental_fee_sink, rental_fee) = (self.network.namespace_sink(), Amount(rent));
        let body = ProvisionNamespace { rental_fee_sink, rental_fee, new_part, parent };
        self.accounts.spend(owner, rent);
        self.signed(place, owner, 1, self.prices.fee, Body::ProvisionNamespace(body))
    }

    /// Lets the owner rent a root again, before it expires or soon after.
    pub fn renew(&mut self, place: &NextBlock, root: usize) -> EventResult {
        let (term, height) = (self.network.chain.blocks_per_year(), place.height);
        if self.roots[root].defined == height {
            return EventResult::Later;
        }
        self.run_action(place, self.roots[root].owner, self.prices.root_rent + self.prices.fee, |traffic| {
            let entry = &mut traffic.roots[root];
            let end = entry.leased.plus(term);
            traffic.statistics.count(if end > height { "renewals" } else { "renewalsAfterExpiry" }, 1);
            (entry.previous_end, entry.leased) = (end, height);
            traffic.lease(place, root)
        })
    }

    /// Lets another account rent an expired root; its content is lost.
    pub fn claim(&mut self, place: &NextBlock, root: usize) -> EventResult {
        let owner = self.namespace_owner(place);
        let entry = &mut self.roots[root];
        (entry.owner, entry.leased, entry.previous_end) = (owner, place.height, Height(0));
        entry.subs.clear();
        self.tokens.iter_mut().filter(|token| token.root == root).for_each(|token| token.lost = true);
        self.statistics.count("claims", 1);
        self.schedule_definitions(root, place.height, 1);
        EventResult::now(self.lease(place, root))
    }

    fn is_active(&self, root: usize, height: Height) -> bool {
        height < self.roots[root].leased.plus(self.network.chain.blocks_per_year())
    }

    /// Returns an active root.
    pub fn random_root(&mut self, height: Height) -> Option<usize> {
        let count = self.roots.len().max(1);
        let mut tries = (0..TRIES).map(|_| self.random.below(count)).collect::<Vec<_>>().into_iter();
        tries.find(|root| *root < self.roots.len() && self.is_active(*root, height))
    }

    /// Lets the owner of a root rent a sub-namespace in it, if possible.
    pub fn rent_sub(&mut self, place: &NextBlock, root: usize) -> Option<Transaction> {
        let owner = self.roots[root].owner;
        if !self.accounts.can_pay(owner, place.height, self.prices.sub_rent + self.prices.fee) {
            return None;
        }
        let new_part = self.new_name("sub");
        let Root { name, subs, .. } = &self.roots[root];
        let below = |name: &&NamespaceId| name.parts().count() < 3;
        let above = subs.get(self.random.below(2 * subs.len() + 1)).map(|sub| &sub.name).filter(below);
        let parent = above.unwrap_or(name).clone();
        self.statistics.count("nestedNamespaces", (parent.parts().count() > 1).into());
        // While the lease before a renewal lasts, added names are not active.
        let from = place.height.max(self.roots[root].previous_end);
        let (name, number) = (parent.child(&new_part).expect("a name"), self.roots[root].subs.len());
        self.roots[root].subs.push(Sub { name, from });
        if self.random.coin() {
            let soon = from.plus(1 + self.random.next() % DEFINED_WITHIN);
            self.schedule(soon, Event::Define { root, sub: Some(number), popular: false });
        }
        Some(self.rent(place, owner, self.prices.sub_rent, new_part, Some(parent)))
    }

    /// Lets the owner of a root define a mosaic in it or in a sub-namespace.
    pub fn define(&mut self, place: &NextBlock, root: usize, sub: Option<usize>, popular: bool) -> EventResult {
        let Root { name, subs, leased, owner, .. } = &self.roots[root];
        let namespace = match sub {
            None => Some(name),
            // Another account may have claimed the root since.
            Some(number) => subs.get(number).filter(|sub| sub.from < place.height).map(|sub| &sub.name),
        };
        let Some(namespace) = namespace.filter(|_| self.is_active(root, place.height)).cloned() else {
            return EventResult::Never;
        };
        // A root is not rented in a block that defines a mosaic in it.
        if *leased == place.height {
            return EventResult::Later;
        }
        self.run_action(place, *owner, self.prices.creation_fee + self.prices.fee, |traffic| {
            let token = traffic.new_token(place, root, namespace, popular);
            traffic.definition_transaction(place, token)
        })
    }

    fn new_token(&mut self, place: &NextBlock, root: usize, namespace: NamespaceId, popular: bool) -> usize {
        let id = MosaicId::new(namespace, &self.new_name("token")).expect("a name");
        let creator = self.roots[root].owner;
        let divisibility = if popular { 3 } else { self.random.below(7) as u8 };
        let digits = if popular { 9 } else { 3 + self.random.below(7) as u32 };
        let (supply_mutable, transferable) = (popular || self.random.coin(), popular || self.random.below(10) > 0);
        let supply = 10u64.pow(digits);
        let properties = MosaicProperties { divisibility, initial_supply: supply, supply_mutable, transferable };
        let levy = match self.random.below(10) {
            0 if !popular && transferable => Some(LevyKind::Percentile),
            1 if !popular => Some(LevyKind::Absolute),
            _ => None,
        };
        self.statistics.count("mosaicsWithLevies", levy.is_some().into());
        let quantities = HashMap::from([(creator, supply * properties.multiplier())]);
        let (descriptions, defined, holders, lost) = (0, Height(0), vec![creator], false);
        let token = self.tokens.len();
        self.tokens.push(Token {
            id,
            root,
            creator,
            properties,
            levy,
            supply,
            descriptions,
            defined,
            quantities,
            holders,
            lost,
        });
        self.schedule_redefinitions(place, token, popular);
        token
    }

    fn schedule_redefinitions(&mut self, place: &NextBlock, token: usize, popular: bool) {
        let year = self.network.chain.blocks_per_year();
        if !popular {
            let height = place.height.plus(1 + self.random.next() % (year / 2));
            let wanted = self.random.below(4) == 0;
            return if wanted {
                self.schedule(height, Event::Redefine(token))
            };
        }
        self.popular.push(token);
        if self.popular.len() == 1 {
            // Each one rewrites all balances.
            let parts = REDEFINITIONS + 1;
            (1..parts).for_each(|part| {
                let height = Height(self.plan.blocks * part / parts).max(place.height.next());
                self.schedule(height, Event::Redefine(token));
            });
        }
    }

    /// Returns the transaction that defines a mosaic or changes its description.
    fn definition_transaction(&mut self, place: &NextBlock, token: usize) -> Transaction {
        let entry = &mut self.tokens[token];
        entry.descriptions += 1;
        entry.defined = place.height;
        self.roots[entry.root].defined = place.height;
        let creator = self.accounts.get(entry.creator);
        let levy = |kind| {
            let (mosaic, fee) = match kind {
                LevyKind::Percentile => (entry.id.clone(), PERCENTILE),
                LevyKind::Absolute => (MosaicId::xem(), ABSOLUTE),
            };
            Levy { kind, recipient: creator.address, mosaic, fee }
        };
        let definition = MosaicDefinition {
            creator: creator.keys.public(),
            id: entry.id.clone(),
            description: format!("{} as described for the {}. time", entry.id, entry.descriptions),
            properties: entry.properties,
            levy: entry.levy.map(levy),
        };
        let (creation_fee_sink, creation_fee) = (self.network.mosaic_sink(), Amount(self.prices.creation_fee));
        let body = MosaicDefinitionCreation { definition, creation_fee_sink, creation_fee };
        let creator = entry.creator;
        self.accounts.spend(creator, self.prices.creation_fee);
        self.signed(place, creator, 1, self.prices.fee, Body::MosaicDefinitionCreation(Box::new(body)))
    }

    /// Lets the creator of a mosaic change its description.
    pub fn redefine(&mut self, place: &NextBlock, token: usize) -> EventResult {
        let Token { root, creator, lost, defined, .. } = self.tokens[token];
        match () {
            _ if lost || !self.is_active(root, place.height) => EventResult::Never,
            _ if defined == place.height || self.roots[root].leased == place.height => EventResult::Later,
            _ => self.run_action(place, creator, self.prices.creation_fee + self.prices.fee, |traffic| {
                traffic.statistics.count("redefinitions", 1);
                traffic.definition_transaction(place, token)
            }),
        }
    }

    /// Returns a mosaic that may move in this block, popular ones more often.
    fn random_token(&mut self, place: &NextBlock) -> Option<usize> {
        let token = match (self.random.below(10), self.popular.is_empty()) {
            (0..4, false) => self.popular[0],
            (4..6, false) => self.popular[self.random.below(self.popular.len())],
            _ if self.tokens.is_empty() => return None,
            _ => self.random.below(self.tokens.len()),
        };
        self.may_move(token, place.height).then_some(token)
    }

    fn may_move(&self, token: usize, height: Height) -> bool {
        let Token { root, defined, lost, .. } = self.tokens[token];
        !lost && defined < height && self.is_active(root, height)
    }

    /// Lets a creator increase or decrease the supply of a mosaic.
    pub fn change_supply(&mut self, place: &NextBlock) -> Option<Transaction> {
        let index = self.random_token(place)?;
        let (chance, coin) = (self.random.next(), self.random.coin());
        let token = &mut self.tokens[index];
        let (creator, multiplier) = (token.creator, token.properties.multiplier());
        if !token.properties.supply_mutable || !self.accounts.can_pay(creator, place.height, self.prices.fee) {
            return None;
        }
        let delta = 1 + chance % (token.supply / 100).max(1);
        let kind = if coin && token.quantity(creator) / multiplier >= delta && token.supply > delta {
            SupplyChangeKind::Delete
        } else if token.supply + delta <= token.properties.max_supply() {
            SupplyChangeKind::Create
        } else {
            return None;
        };
        match kind {
            SupplyChangeKind::Create => {
                token.supply += delta;
                token.credit(creator, delta * multiplier);
            }
            SupplyChangeKind::Delete => {
                token.supply -= delta;
                token.debit(creator, delta * multiplier);
            }
        }
        let body = MosaicSupplyChange { mosaic: token.id.clone(), kind, delta };
        Some(self.signed(place, creator, 1, self.prices.fee, Body::MosaicSupplyChange(body)))
    }

    /// Returns a holder of a mosaic that may send it: in one of three cases its creator.
    fn seller(&mut self, place: &NextBlock, index: usize) -> Option<usize> {
        let token = &self.tokens[index];
        let is_by_creator = !token.properties.transferable || self.random.below(3) == 0;
        (0..TRIES).find_map(|_| {
            let from =
                if is_by_creator { token.creator } else { token.holders[self.random.below(token.holders.len())] };
            let is_founder = self.accounts.get(from).role == Role::Founder;
            let money = if is_founder { RESERVE } else { MICRO * 3 };
            (token.quantity(from) > 0 && self.accounts.can_pay(from, place.height, money)).then_some(from)
        })
    }

    /// Lets an account send a mosaic, with or without attached currency, if a suitable sender is found.
    pub fn trade(&mut self, place: &NextBlock, left: u64, with_currency: bool) -> Option<Transaction> {
        let index = self.random_token(place)?;
        let from = self.seller(place, index)?;
        let times = [1, 1, 1, 2, 5][self.random.below(5)];
        let token = &self.tokens[index];
        let has = token.quantity(from);
        let quantity = 1 + self.random.next() % (has / 8 / times).max(1);
        let moved = quantity * times;
        let levy = token.levy_on(moved);
        if moved + levy > has {
            return None;
        }
        let mut mosaics = vec![Mosaic { id: token.id.clone(), quantity }];
        let mut fee = fee_of_units(token.value(moved));
        let levy_kind = token.levy;
        let creator = token.creator;
        if with_currency {
            mosaics.push(currency(1 + self.random.next() % (MICRO / 10)));
            fee += FEE_UNIT;
        }
        let also = self.second_popular_token(place, index, from, times);
        if let Some(other) = also {
            mosaics.push(Mosaic { id: self.tokens[other].id.clone(), quantity: 1 });
            fee += FEE_UNIT;
        }
        // The order on the wire.
        mosaics.sort_by_cached_key(|mosaic| format!("{} : {}", mosaic.id, mosaic.quantity));
        let message = self.message();
        fee += message_fee(message.as_ref());
        let key = self.accounts.get(creator).keys.public();
        let entries: Vec<MosaicEntry> =
            [index].into_iter().chain(also).map(|one| self.tokens[one].entry(key)).collect();
        let mut body = self.payment(creator, times * MICRO, message, mosaics);
        fee = fee.max(self.prices.minimum_fee_with(&Body::Transfer(body.clone()), &entries));
        let mosaics = &body.mosaics;
        let currency_moved: u64 = mosaics.iter().filter(|one| one.id.is_xem()).map(|one| one.quantity * times).sum();
        let currency_levy = if levy_kind == Some(LevyKind::Absolute) { ABSOLUTE } else { 0 };
        if !self.accounts.can_pay(from, place.height, fee + currency_moved + currency_levy) {
            return None;
        }
        let (to, _) = self.payee(left);
        self.accounts.pay(from, to, currency_moved);
        self.accounts.pay(from, creator, currency_levy);
        self.move_token(index, from, to, moved);
        self.move_token(index, from, creator, levy);
        also.into_iter().for_each(|other| self.move_token(other, from, to, times));
        body.recipient = self.accounts.get(to).address;
        Some(self.signed(place, from, 2, fee, Body::Transfer(body)))
    }

    fn move_token(&mut self, token: usize, from: usize, to: usize, quantity: u64) {
        if quantity > 0 {
            self.tokens[token].debit(from, quantity);
            self.tokens[token].credit(to, quantity);
        }
    }

    /// Sometimes attaches the other popular mosaic.
    fn second_popular_token(&mut self, place: &NextBlock, index: usize, from: usize, times: u64) -> Option<usize> {
        let other = *self.popular.iter().find(|other| **other != index)?;
        let fits = self.popular.contains(&index) && self.random.below(10) == 0 && self.may_move(other, place.height);
        (fits && self.tokens[other].quantity(from) >= times).then_some(other)
    }

    /// Returns the maximum number of holders of one mosaic.
    pub fn max_holders(&self) -> usize {
        let holders = |token: &Token| token.holders.iter().filter(|one| token.quantity(**one) > 0).count();
        self.tokens.iter().filter(|token| !token.lost).map(holders).max().unwrap_or(0)
    }
}
