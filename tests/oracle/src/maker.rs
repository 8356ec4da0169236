//! Makes transactions that are likely to be valid, based on the state.

use nisd::model::mosaic::{LevyKind, MosaicProperties};
use nisd::model::transaction::{
    AggregateModification, Cosignature, ImportanceTransfer, LinkMode, Message, MessageKind, Modification,
    ModificationKind, MosaicDefinitionCreation, MosaicSupplyChange, Multisig, ProvisionNamespace, SupplyChangeKind,
    Transfer, wire_version,
};
use nisd::model::{Amount, Body, Levy, Mosaic, MosaicDefinition, MosaicId, NamespaceId, Timestamp, Transaction};

use super::court::Oracle;
use super::model::{Account, Root, Token};
use super::people::{
    ALWAYS_POOR, AccountIndex, COSIGNATORIES, CREATION, DELEGATOR, FIRST_ORDINARY, FIRST_POOR, HARVESTERS, MULTISIG,
    NEMESIS, RENTAL,
};
use crate::Random;

pub const MICRO: u64 = 1_000_000;
/// Names of roots to rent; one has every allowed kind of character and the maximum length.
const ROOTS: [&str; 8] = ["r0", "r1", "r2", "r3", "r4", "5-_0123456789abc", "r6", "r7"];
/// Maximum UTF-16 units of a description.
pub const MAX_DESCRIPTION: usize = 512;
const TRIES: usize = 12;

/// Makes transactions for one block.
pub struct Maker<'a> {
    pub oracle: Oracle<'a>,
    pub random: &'a mut Random,
    /// Time of the block.
    pub time: i32,
    /// The signer of the block and the account it harvests for; neither may sign a transaction.
    pub harvesters: [AccountIndex; 2],
}

impl<'a> Maker<'a> {
    pub fn account(&self, who: AccountIndex) -> &'a Account {
        &self.oracle.model.accounts[who]
    }

    /// Returns `true` once in `count` calls on average.
    pub fn once_in(&mut self, count: usize) -> bool {
        self.random.below(count) == 0
    }

    /// Returns a random account that meets a condition.
    pub fn random_account_where(&mut self, is_fit: impl Fn(AccountIndex, &Account) -> bool) -> Option<AccountIndex> {
        let model = self.oracle.model;
        let fit: Vec<AccountIndex> =
            (0..model.accounts.len()).filter(|who| is_fit(*who, &model.accounts[*who])).collect();
        self.random_element(&fit).copied()
    }

    pub fn random_element<'t, T>(&mut self, list: &'t [T]) -> Option<&'t T> {
        (!list.is_empty()).then(|| &list[self.random.below(list.len())])
    }

    /// Returns whether an account may sign transactions in this block, by itself or through its cosignatories.
    pub fn can_act(&self, who: AccountIndex) -> bool {
        let can_sign = self.oracle.key_ring.can_sign(who) || self.account(who).is_multisig();
        can_sign && who != NEMESIS && !self.harvesters.contains(&who) && !self.is_remote(who)
    }

    /// Returns whether an account is or was a remote.
    pub fn is_remote(&self, who: AccountIndex) -> bool {
        self.account(who).links.last().is_some_and(|link| !link.is_owner)
    }

    /// Returns an account with at least this many whole units.
    pub fn random_payer(&mut self, units: u64) -> Option<AccountIndex> {
        for _ in 0..4 * TRIES {
            let who = self.random.below(FIRST_POOR + 10);
            if self.can_act(who) && self.account(who).balance >= units * MICRO {
                return Some(who);
            }
        }
        None
    }

    /// Like [`Maker::payer`], but not a multisig account.
    pub fn random_single_payer(&mut self, units: u64) -> Option<AccountIndex> {
        (0..TRIES).find_map(|_| self.random_payer(units).filter(|who| !self.account(*who).is_multisig()))
    }

    pub fn random_account(&mut self) -> AccountIndex {
        self.random.below(self.oracle.key_ring.len())
    }

    /// Returns an account that may receive currency; others stay suitable as remotes.
    pub fn random_payee(&mut self) -> AccountIndex {
        let who = self.random.below(ALWAYS_POOR + 2);
        if who < ALWAYS_POOR { who } else { RENTAL + who - ALWAYS_POOR }
    }

    /// Sometimes makes a transaction spend the signer's whole balance.
    fn spend_all(&mut self, mut draft: Transaction, paid: u64) -> Transaction {
        let signer = self.oracle.key_ring.of_key(&draft.signer);
        let account = self.account(signer);
        let is_fit = (FIRST_ORDINARY..RENTAL).contains(&signer) && !account.is_multisig();
        if is_fit && (signer >= ALWAYS_POOR || self.once_in(6)) {
            draft.fee = Amount(draft.fee.0.max(account.balance.saturating_sub(paid)));
        }
        draft
    }

    /// Returns an unsigned transaction with the minimum fee.
    pub fn draft(&mut self, signer: AccountIndex, version: i32, body: Body) -> Transaction {
        let timestamp = (self.time - self.random.below(3_000) as i32).max(0);
        let life = 4_000 + self.random.below(82_401) as i32;
        let mut transaction = Transaction {
            version: wire_version(self.oracle.key_ring.network, version),
            timestamp: Timestamp(timestamp),
            signer: self.oracle.key_ring.public(signer),
            signature: None,
            fee: Amount(0),
            deadline: Timestamp(timestamp + life),
            body,
        };
        // The nemesis account pays no fees.
        if signer == NEMESIS {
            return transaction;
        }
        let least = self.oracle.min_fee(&transaction).unwrap_or(MICRO);
        // One in four pays more than the minimum.
        transaction.fee = Amount(least + if self.once_in(4) { self.random.next() % MICRO } else { 0 });
        transaction
    }

    /// Signs a transaction; one of a multisig account is wrapped in a multisig transaction of a cosignatory.
    pub fn finish(&mut self, draft: Transaction) -> Option<Transaction> {
        let signer = self.oracle.key_ring.of_key(&draft.signer);
        let is_plain = !self.account(signer).is_multisig() || matches!(draft.body, Body::Multisig(_));
        let mut whole = if is_plain { draft } else { self.wrap(draft)? };
        self.sign(&mut whole);
        Some(whole)
    }

    pub fn sign(&self, transaction: &mut Transaction) {
        if let Body::Multisig(body) = &mut transaction.body {
            body.cosignatures.iter_mut().for_each(|one| self.sign(one));
        }
        let signer = self.oracle.key_ring.of_key(&transaction.signer);
        // Nobody can sign for a fee sink; the substitute is rejected for another reason first.
        let signer = if self.oracle.key_ring.can_sign(signer) { signer } else { NEMESIS };
        transaction.signature = Some(self.oracle.key_ring.keys(signer).sign(&transaction.signed_bytes()));
    }

    /// Wraps a transaction in a multisig transaction with the required number of cosignatures, rarely more.
    pub fn wrap(&mut self, inner: Transaction) -> Option<Transaction> {
        let account = self.oracle.key_ring.of_key(&inner.signer);
        let state = self.account(account);
        let is_free = |who: &AccountIndex| !self.harvesters.contains(who);
        let removed = removed(&inner).map(|key| self.oracle.key_ring.of_key(&key)).collect::<Vec<_>>();
        let mut signers: Vec<AccountIndex> = state.cosignatories.iter().copied().filter(is_free).collect();
        if signers.len() > 1 {
            signers.retain(|who| !removed.contains(who));
        }
        for place in (1..signers.len()).rev() {
            signers.swap(place, self.random.below(place + 1));
        }
        let all = state.cosignatories.len();
        let needed = if state.min_cosignatories == 0 || state.min_cosignatories as usize == all {
            all
        } else {
            state.min_cosignatories as usize
        };
        let more = usize::from(self.once_in(4));
        signers.truncate(needed + more);
        let (first, others) = signers.split_first()?;
        Some(self.wrap_by(inner, *first, others))
    }

    /// Wraps a transaction in a multisig transaction initiated by `first`, with cosignatures of `others`.
    pub fn wrap_by(&mut self, inner: Transaction, first: AccountIndex, others: &[AccountIndex]) -> Transaction {
        let account = self.oracle.key_ring.of_key(&inner.signer);
        let other_account = self.oracle.key_ring.address(account);
        let other_hash = inner.hash();
        let mut cosignatures: Vec<Transaction> = others
            .iter()
            .map(|who| {
                let body = Cosignature { other_hash: other_hash.into(), other_account };
                self.draft(*who, 1, Body::Cosignature(body))
            })
            .collect();
        cosignatures.sort_by_key(|one| one.signer_address(self.oracle.key_ring.network));
        self.draft(first, 1, Body::Multisig(Box::new(Multisig { inner, cosignatures })))
    }

    /// Returns a random transaction that is probably valid, without signatures.
    pub fn random_transaction(&mut self) -> Option<Transaction> {
        let has_mosaics = self.oracle.height >= self.oracle.terms.forks.mosaics;
        match self.random.below(if has_mosaics { 20 } else { 8 }) {
            0..4 => self.transfer(),
            4 | 5 => self.modification(),
            6 | 7 => self.link(),
            8..11 => self.token_transfer(),
            11..14 => self.provision(),
            14..18 => self.definition(),
            _ => self.supply_change(),
        }
    }

    /// Returns a draft that is valid once it is signed.
    pub fn valid_draft(&mut self) -> Option<Transaction> {
        (0..TRIES).find_map(|_| {
            let draft = self.random_transaction()?;
            let whole = self.finish(draft.clone())?;
            self.oracle.validate(&whole).ok().map(|_| draft)
        })
    }

    pub fn message(&mut self, length: usize) -> Option<Message> {
        let kind = if self.random.coin() { MessageKind::Plain } else { MessageKind::Secure };
        let byte = self.random.next() as u8;
        (length > 0).then(|| Message { kind, payload: vec![byte; length] })
    }

    pub fn transfer(&mut self) -> Option<Transaction> {
        let from = self.random_payer(1_000)?;
        let to = self.random_payee();
        let balance = self.account(from).balance;
        // Harvesters spend what they earn, except for the balance that keeps them important.
        let amount = match self.random.below(6) {
            _ if from == DELEGATOR => balance / 2_000,
            0..3 if HARVESTERS.contains(&from) => balance / 100,
            0 => 0,
            1 => self.random.next() % (balance / 20),
            _ => self.random.next() % (20_000 * MICRO).min(balance / 2),
        };
        let length = if self.once_in(3) { 1 + self.random.below(96) } else { 0 };
        let message = self.message(length);
        let body =
            Transfer { recipient: self.oracle.key_ring.address(to), amount: Amount(amount), message, mosaics: vec![] };
        Some(self.draft(from, 1, Body::Transfer(body)))
    }

    /// Returns all existing mosaics.
    pub fn tokens(&self) -> Vec<(&'a MosaicId, &'a Token)> {
        self.oracle.model.roots.values().flat_map(|root| &root.tokens).collect()
    }

    /// Returns a random mosaic that meets a condition.
    pub fn token(&mut self, is_fit: impl Fn(&MosaicId, &Token) -> bool) -> Option<(&'a MosaicId, &'a Token)> {
        let fit: Vec<_> = self.tokens().into_iter().filter(|(id, token)| is_fit(id, token)).collect();
        self.random_element(&fit).copied()
    }

    pub fn token_transfer(&mut self) -> Option<Transaction> {
        let court = self.oracle;
        let is_live = |id: &MosaicId| court.model.is_active(&id.namespace, court.height, court.terms.year());
        let payable = |token: &Token, who: AccountIndex| court.expired_levy(token).is_some_and(|levy| levy.of(who) > 0);
        let with_expired_levy =
            self.token(|id, token| is_live(id) && token.balances.keys().any(|who| payable(token, *who)));
        let (id, token) = match with_expired_levy {
            Some(found) if self.random.coin() => found,
            _ => self.token(|id, token| token.supply > 0 && is_live(id))?,
        };
        let mut holders: Vec<AccountIndex> = token.balances.keys().copied().collect();
        if holders.iter().any(|who| payable(token, *who)) {
            holders.retain(|who| payable(token, *who));
        }
        let from = *self.random_element(&holders)?;
        if !self.can_act(from) {
            return None;
        }
        if self.once_in(4) {
            return self.transfer_of_many(from);
        }
        let to = if token.definition.properties.transferable { self.random_account() } else { token.creator };
        let multiplier = 1 + self.random.next() % 3;
        let has = token.of(from);
        let quantity = match self.random.below(4) {
            0 if multiplier == 1 => has,
            1 => 0,
            _ => self.random.next() % (has / multiplier / 4 + 1),
        };
        let mut mosaics = vec![Mosaic { id: id.clone(), quantity }];
        if self.once_in(3) {
            let quantity = self.random.next() % (5 * MICRO);
            mosaics.push(Mosaic { id: MosaicId::xem(), quantity });
        }
        Some(self.transfer_of(from, to, multiplier * MICRO, mosaics))
    }

    /// Returns a transfer of nine or ten mosaics, most of which move nothing; ten is the maximum, besides XEM.
    fn transfer_of_many(&mut self, from: AccountIndex) -> Option<Transaction> {
        let court = self.oracle;
        let is_fit = |id: &MosaicId, token: &Token| {
            let levy = token.definition.levy.as_ref();
            let is_live = court.model.is_active(&id.namespace, court.height, court.terms.year());
            // An absolute levy is due for nothing, too.
            is_live
                && token.definition.properties.transferable
                && levy.is_none_or(|levy| levy.kind == LevyKind::Percentile)
        };
        let mut fit: Vec<_> = self.tokens().into_iter().filter(|(id, token)| is_fit(id, token)).collect();
        let count = 9 + self.random.below(2);
        while fit.len() > count {
            fit.swap_remove(self.random.below(fit.len()));
        }
        let quantity = |token: &Token| token.of(from).min(1);
        let mosaics: Vec<Mosaic> =
            fit.iter().map(|(id, token)| Mosaic { id: (*id).clone(), quantity: quantity(token) }).collect();
        let to = self.random_payee();
        (mosaics.len() == count).then(|| self.transfer_of(from, to, MICRO, mosaics))
    }

    /// Builds a transfer with mosaics in wire order.
    pub fn transfer_of(
        &mut self,
        from: AccountIndex,
        to: AccountIndex,
        amount: u64,
        mut mosaics: Vec<Mosaic>,
    ) -> Transaction {
        mosaics.sort_by_key(|mosaic| format!("{} : {}", mosaic.id, mosaic.quantity));
        let recipient = self.oracle.key_ring.address(to);
        let body = Transfer { recipient, amount: Amount(amount), message: None, mosaics };
        self.draft(from, 2, Body::Transfer(body))
    }

    pub fn modification(&mut self) -> Option<Transaction> {
        let who = match self.random.below(6) {
            0 => {
                self.random_account_where(|who, account| (ALWAYS_POOR..RENTAL).contains(&who) && account.balance > 0)?
            }
            1 | 2 => self.random_account_where(|_, account| account.is_multisig())?,
            _ => self.random_payer(10_000)?,
        };
        let account = self.account(who);
        let is_fixed = HARVESTERS.contains(&who) || COSIGNATORIES.contains(&who);
        if is_fixed || !self.can_act(who) || !account.cosignatory_of.is_empty() {
            return None;
        }
        let size = account.cosignatories.len();
        let may_delete = who != MULTISIG && size > 0 && self.random.coin();
        // The number of multisig accounts is limited so that enough accounts remain that can sign for others.
        let count = self.oracle.model.accounts.iter().filter(|account| account.is_multisig()).count();
        if size == 0 && count >= 8 && who < ALWAYS_POOR {
            return None;
        }
        let mut changes = Vec::new();
        let adds = if may_delete { 0 } else { 1 + self.random.below(3) };
        for _ in 0..adds {
            let other =
                self.random_account_where(|who, account| who > DELEGATOR && who < RENTAL && !account.is_multisig())?;
            changes.push((ModificationKind::Add, other));
        }
        if may_delete {
            let all: Vec<AccountIndex> = account.cosignatories.iter().copied().collect();
            changes.push((ModificationKind::Delete, *self.random_element(&all)?));
        }
        let left = (size + adds - usize::from(may_delete)) as i64;
        let is_new = self.oracle.height >= self.oracle.terms.forks.multisig;
        let change = if is_new && self.random.below(4) > 0 {
            Some((self.random.next() as i64).rem_euclid(left + 1) - account.min_cosignatories)
        } else {
            None
        };
        let draft = self.modify(who, &changes, change.map(|change| change as i32));
        Some(self.spend_all(draft, 0))
    }

    /// Builds a change of cosignatories in wire order.
    pub fn modify(
        &mut self,
        who: AccountIndex,
        changes: &[(ModificationKind, AccountIndex)],
        least: Option<i32>,
    ) -> Transaction {
        let people = self.oracle.key_ring;
        let mut changes = changes.to_vec();
        changes.sort_by_key(|(kind, other)| (*kind, people.address(*other)));
        let modifications =
            changes.into_iter().map(|(kind, other)| Modification { kind, cosignatory: people.public(other) }).collect();
        let body = AggregateModification { modifications, min_cosignatories_change: least };
        let version = if least.is_some() { 2 } else { 1 };
        self.draft(who, version, Body::AggregateModification(body))
    }

    pub fn link(&mut self) -> Option<Transaction> {
        let height = self.oracle.height;
        let lender = (self.random.coin() && !self.harvesters.contains(&DELEGATOR)).then_some(DELEGATOR);
        let owner = match lender {
            Some(owner) => owner,
            None => self.random_payer(1_000).filter(|who| !HARVESTERS.contains(who))?,
        };
        let last = self.account(owner).links.last();
        if last.is_some_and(|link| link.mode == LinkMode::Activate) {
            let linked = last?.other;
            let is_odd = self.once_in(6) || self.account(owner).is_multisig();
            let named = if is_odd { FIRST_ORDINARY + self.random.below(RENTAL - FIRST_ORDINARY) } else { linked };
            return Some(self.link_to(owner, named, LinkMode::Deactivate));
        }
        let is_fit = |who: AccountIndex, account: &Account| {
            let is_free = account.links.last().is_none_or(|link| {
                link.mode == LinkMode::Deactivate && height - link.height >= self.oracle.terms.rewrite_limit
            });
            who > DELEGATOR && who < RENTAL && account.balance == 0 && is_free
        };
        let remote = self.least_paid_account_where(is_fit)?;
        Some(self.link_to(owner, remote, LinkMode::Activate))
    }

    fn least_paid_account_where(&self, is_fit: impl Fn(AccountIndex, &Account) -> bool) -> Option<AccountIndex> {
        let model = self.oracle.model;
        // The last of them is the one paid least often.
        (0..model.accounts.len()).rev().find(|who| is_fit(*who, &model.accounts[*who]))
    }

    pub fn link_to(&mut self, owner: AccountIndex, remote: AccountIndex, mode: LinkMode) -> Transaction {
        let body = ImportanceTransfer { mode, remote: self.oracle.key_ring.public(remote) };
        self.draft(owner, 1, Body::ImportanceTransfer(body))
    }

    pub fn root_name(&mut self) -> NamespaceId {
        NamespaceId::parse(ROOTS[self.random.below(ROOTS.len())]).expect("a name")
    }

    /// Returns a random root that meets a condition.
    pub fn root(&mut self, is_fit: impl Fn(&Root) -> bool) -> Option<(NamespaceId, &'a Root)> {
        let model = self.oracle.model;
        let fit: Vec<_> = model.roots.iter().filter(|(_, root)| is_fit(root)).collect();
        let (name, root) = *self.random_element(&fit)?;
        Some((NamespaceId::parse(name).expect("a name"), root))
    }

    pub fn provision(&mut self) -> Option<Transaction> {
        if self.random.coin() {
            let (height, [year, month]) = (self.oracle.height, [self.oracle.terms.year(), self.oracle.terms.month()]);
            let due = self.root(|root| root.newest().height + year <= height + month);
            let name = match due {
                Some((name, _)) if self.random.coin() => name,
                _ => self.root_name(),
            };
            let owner = self.oracle.model.roots.get(name.as_str()).map(|root| root.newest().owner);
            let payer = self.random_payer(60_000)?;
            let is_kept = !is_abandoned(name.as_str()) && self.random.below(8) > 0;
            let signer = owner.filter(|_| is_kept).unwrap_or(payer);
            let draft = self.can_act(signer).then(|| self.rent(signer, None, name.as_str()))?;
            return Some(self.spend_all(draft, self.oracle.rent(&name)));
        }
        let (root, state) = self.root(|_| true)?;
        let owner = state.newest().owner;
        let children: Vec<&String> = state.newest().children.iter().collect();
        let parent = match self.random_element(&children) {
            Some(child) if self.random.coin() => NamespaceId::parse(child).expect("a name"),
            _ => root,
        };
        let part = match self.random.below(12) {
            0 => "-_z".repeat(7)[2..].to_owned(),
            1 if parent.is_root() => "9".repeat(64),
            _ => format!("s{}", self.random.below(3)),
        };
        self.can_act(owner).then(|| self.rent(owner, Some(parent), &part))
    }

    pub fn rent(&mut self, signer: AccountIndex, parent: Option<NamespaceId>, part: &str) -> Transaction {
        let name = match &parent {
            Some(parent) => parent.child(part),
            None => NamespaceId::parse(part),
        };
        let rental_fee = Amount(name.map_or(0, |name| self.oracle.rent(&name)));
        let rental_fee_sink = self.oracle.key_ring.address(RENTAL);
        let body = ProvisionNamespace { rental_fee_sink, rental_fee, new_part: part.to_owned(), parent };
        self.draft(signer, 1, Body::ProvisionNamespace(body))
    }

    pub fn token_name(&mut self, namespace: NamespaceId) -> MosaicId {
        // Some names start with another name and sort before it.
        let odd = ["m0 1", "m0'", "m1-", "m2 'x _y", "m3456789 123456789 123456789 1234"];
        let usual = ["m0", "m1", "m2", "m3"];
        let name = if self.once_in(4) { odd[self.random.below(odd.len())] } else { usual[self.random.below(4)] };
        MosaicId::new(namespace, &name[..name.len().min(32)]).expect("a name")
    }

    /// Returns a namespace whose owner can act.
    pub fn random_own_namespace(&mut self) -> Option<(NamespaceId, AccountIndex)> {
        let (root, state) = self.root(|_| true)?;
        let owner = state.newest().owner;
        let children: Vec<&String> = state.newest().children.iter().collect();
        let name = match self.random_element(&children) {
            Some(child) if self.once_in(3) => NamespaceId::parse(child).expect("a name"),
            _ => root,
        };
        self.can_act(owner).then_some((name, owner))
    }

    pub fn properties(&mut self) -> MosaicProperties {
        let divisibility = self.random.below(7) as u8;
        let most = 9_000_000_000_000_000 / 10u64.pow(u32::from(divisibility));
        let initial_supply = match self.random.below(5) {
            0 => most,
            1 => self.random.next() % 3,
            2 => self.random.next() % most,
            _ => 1 + self.random.next() % 20_000,
        };
        let (supply_mutable, transferable) = (self.random.coin(), self.random.below(3) > 0);
        MosaicProperties { divisibility, initial_supply, supply_mutable, transferable }
    }

    fn levy_in_own(&mut self, owner: AccountIndex, id: &MosaicId) -> Option<Levy> {
        let recipient = self.random_account_where(|who, account| who != NEMESIS && account.links.is_empty())?;
        let mosaic = match self.random.below(8) {
            0 => MosaicId::xem(),
            1 => id.clone(),
            2 | 3 => self.token(|_, token| token.definition.properties.transferable)?.0.clone(),
            _ => {
                let is_fit = |id: &MosaicId, token: &Token| {
                    is_abandoned(id.namespace.root()) && token.definition.properties.transferable
                };
                // If possible one that the owner can pay.
                let own = self.token(|id, token| is_fit(id, token) && token.of(owner) > 0);
                own.or_else(|| self.token(is_fit))?.0.clone()
            }
        };
        let kind = if self.random.coin() { LevyKind::Absolute } else { LevyKind::Percentile };
        // 2,000 times the maximum is negative; 10,000 times it exceeds 2⁶⁴.
        let fee = match (kind, self.random.below(3)) {
            (_, 0) => 1 + self.random.next() % 50,
            (LevyKind::Percentile, 1) => 10_000,
            (LevyKind::Percentile, _) => 2_000,
            (LevyKind::Absolute, _) => self.random.next() % 5_000,
        };
        Some(Levy { kind, recipient: self.oracle.key_ring.address(recipient), mosaic, fee })
    }

    pub fn definition(&mut self) -> Option<Transaction> {
        let (namespace, owner) = self.random_own_namespace()?;
        let id = self.token_name(namespace);
        let mut definition = self.definition_of(owner, id.clone());
        if let Some(token) = self.oracle.model.token(&id) {
            if self.random.coin() {
                (definition.properties, definition.levy) = (token.definition.properties, token.definition.levy.clone());
            } else {
                definition.properties.transferable = token.definition.properties.transferable;
            }
        }
        Some(self.define(owner, definition))
    }

    pub fn definition_of(&mut self, owner: AccountIndex, id: MosaicId) -> MosaicDefinition {
        let properties = self.properties();
        let levy = if self.once_in(2) { self.levy_in_own(owner, &id) } else { None };
        let number = self.random.next();
        let description = match self.random.below(16) {
            0 => "d".repeat(MAX_DESCRIPTION),
            1 => "\u{1f600}".repeat(MAX_DESCRIPTION / 2),
            2 | 3 => format!("not \u{fffd} {number}"),
            4 => format!(" \t\u{e9}\u{0}{number}\n "),
            _ => format!("number {number}"),
        };
        MosaicDefinition { creator: self.oracle.key_ring.public(owner), id, description, properties, levy }
    }

    pub fn define(&mut self, owner: AccountIndex, definition: MosaicDefinition) -> Transaction {
        let creation_fee_sink = self.oracle.key_ring.address(CREATION);
        let creation_fee = Amount(self.oracle.creation_fee());
        let body = MosaicDefinitionCreation { definition, creation_fee_sink, creation_fee };
        self.draft(owner, 1, Body::MosaicDefinitionCreation(Box::new(body)))
    }

    pub fn supply_change(&mut self) -> Option<Transaction> {
        let (id, token) = self.token(|_, token| token.definition.properties.supply_mutable)?;
        let most = 9_000_000_000_000_000 / token.unit();
        let owned = token.of(token.creator) / token.unit();
        let (kind, limit) = if self.random.coin() {
            (SupplyChangeKind::Create, most - token.supply)
        } else {
            (SupplyChangeKind::Delete, owned)
        };
        let delta = if self.once_in(3) { limit } else { self.random.next() % (limit / 2 + 1) };
        (delta > 0 && self.can_act(token.creator)).then(|| self.change_supply(token.creator, id.clone(), kind, delta))
    }

    pub fn change_supply(
        &mut self,
        who: AccountIndex,
        mosaic: MosaicId,
        kind: SupplyChangeKind,
        delta: u64,
    ) -> Transaction {
        self.draft(who, 1, Body::MosaicSupplyChange(MosaicSupplyChange { mosaic, kind, delta }))
    }
}

/// Returns whether a root is never renewed.
fn is_abandoned(root: &str) -> bool {
    ["r6", "r7"].contains(&root)
}

/// Returns the keys of the accounts that a transaction removes as cosignatories.
fn removed(inner: &Transaction) -> impl Iterator<Item = nisd::crypto::PublicKey> + '_ {
    let modifications = match &inner.body {
        Body::AggregateModification(body) => &body.modifications[..],
        _ => &[],
    };
    modifications.iter().filter(|one| one.kind == ModificationKind::Delete).map(|one| one.cosignatory)
}
