//! Cases that break one rule.

use nisd::model::mosaic::LevyKind;
use nisd::model::transaction::{
    LinkMode, ModificationKind, Multisig, SupplyChangeKind, entity_version, wire_network, wire_version,
};
use nisd::model::{Amount, Body, Levy, Mosaic, MosaicId, NamespaceId, Timestamp, Transaction};

use super::court::Purpose;
use super::maker::{MICRO, Maker};
use super::model::Token;
use super::people::{AccountIndex, COSIGNATORIES, CREATION, DELEGATOR, FIRST_ORDINARY, HARVESTERS, NEMESIS, RENTAL};
use super::rule::Rule;

/// Transactions that no block may hold in this order.
pub type ViolatingTransactions = Option<Vec<Transaction>>;

impl Maker<'_> {
    /// Returns transactions meant to break a rule for transactions, if the state allows it.
    pub fn violate(&mut self, aim: Rule) -> ViolatingTransactions {
        use Rule::*;
        let (network, other_network) = (self.oracle.key_ring.network, self.oracle.key_ring.other_network());
        match aim {
            T1Past => {
                self.change_anywhere(|random, one| one.deadline.0 = (one.timestamp.0 - random.below(2) as i32).max(0))
            }
            T1Future => {
                self.change_anywhere(|random, one| one.deadline.0 = one.timestamp.0 + 86_401 + random.below(9) as i32)
            }
            T1Wraps => self.change_anywhere(|random, one| {
                one.timestamp = Timestamp(i32::MAX - 86_399 + random.below(80_000) as i32);
                one.deadline = Timestamp(i32::MAX);
            }),
            T2First | T2Second | T2Third => self.low_fee(),
            T2Cosignature => self.high_cosignature(),
            T2Unknown | T19Unknown => self.unknown_mosaic(),
            T3Version => self.change_anywhere(|random, one| {
                one.version = wire_version(network, if random.coin() { 0 } else { 3 });
            }),
            T3Mosaics => self.before_mosaics(),
            T3Modification => {
                let (who, other) = (self.random_single_payer(1_000)?, self.random_account());
                let draft = self.modify(who, &[(ModificationKind::Add, other)], Some(1));
                self.finished(Some(draft))
            }
            T4 => {
                let now = self.oracle.now;
                self.change_anywhere(|random, one| {
                    one.timestamp = Timestamp(now.saturating_add(11 + random.below(2) as i32));
                    one.deadline = Timestamp(one.timestamp.0.saturating_add(5_000));
                })
            }
            T5 => {
                let to = self.random_account();
                let draft = self.transfer_of(NEMESIS, to, MICRO, Vec::new());
                self.finished(Some(version_1(draft)))
            }
            T6Balance => self.too_much(),
            T6Name => self.long_name(),
            T6Quantity => self.large_quantity(),
            T6Levy => self.negative_levy(),
            T7 => self.change_anywhere(|_, one| one.version = wire_version(other_network, entity_version(one.version))),
            T8Signer => self.by_remote(),
            T8Other | T8Inner => self.with_remote(aim == T8Inner),
            T9 => {
                let who = self.random_account_where(|who, account| account.is_multisig() && who < RENTAL)?;
                let mut draft = self.draft_by(who)?;
                self.sign(&mut draft);
                Some(vec![draft])
            }
            T10First | T10Second | T10Third => self.long_message(),
            T11RemoteRecent | T11RemoteTied | T11OwnerRecent | T11Balance | T11Mosaic | T11Namespace | T11Multisig
            | T11Cosignatory | T11Activated | T11NotActive => self.bad_link(aim),
            T12 => {
                let inner = self.draft_of_multisig()?;
                let who = self.random_single_payer(0)?;
                let draft = self.wrap_by(inner, who, &[]);
                self.finished(Some(draft))
            }
            T13 => {
                let (sink, to) = (if self.once_in(9) { CREATION } else { RENTAL }, self.random_account());
                let inner = self.transfer_of(sink, to, MICRO, Vec::new());
                let draft = self.wrap_by(version_1(inner), COSIGNATORIES[0], &COSIGNATORIES[1..]);
                self.finished(Some(draft))
            }
            T14Already | T14AddMultisig | T14AddSelf | T14DeleteUnknown | T14Deletes | T14Redundant | T14Kind
            | T14Cosignatory => self.bad_modification(aim),
            T15Negative | T15Above | T15Many => self.bad_count(aim),
            T16Reserved | T16Sink | T16Unknown | T16Expired | T16Owner | T16Exists | T16EarlyOwner | T16EarlyOther
            | T16RootFee | T16SubFee => self.bad_provision(aim),
            T17Expired | T17Missing | T17Owner | T17Same | T17Spread | T17Transferable | T17Sink | T17Fee
            | T17LevyUnknown | T17LevyFixed => self.bad_definition(aim),
            T18Unknown | T18Expired | T18Creator | T18Immutable | T18Above | T18Below => self.bad_supply(aim),
            T19Many | T19Fraction | T19Expired | T19Fixed | T19Levy | T20Balance | T20Levy => self.bad_mosaic_list(aim),
            T21Few | T21Foreign => self.bad_signatures(aim),
            HazardAlone => {
                let whole = self.wrapped()?;
                whole.cosignatures().first().cloned().map(|one| vec![one])
            }
            HazardInner => self.nested_cosignature(),
            _ => None,
        }
    }

    /// Returns a draft with all signatures.
    fn finished(&mut self, draft: Option<Transaction>) -> ViolatingTransactions {
        self.finish(draft?).map(|whole| vec![whole])
    }

    /// Changes a valid transaction: a plain one, an inner one, or a multisig one.
    fn change_anywhere(
        &mut self,
        mut change: impl FnMut(&mut crate::Random, &mut Transaction),
    ) -> ViolatingTransactions {
        let mut draft = if self.once_in(3) { self.draft_of_multisig()? } else { self.valid_draft()? };
        let signer = self.oracle.key_ring.of_key(&draft.signer);
        if !self.account(signer).is_multisig() || self.once_in(3) {
            change(self.random, &mut draft);
            return self.finished(Some(draft));
        }
        let mut whole = self.wrap(draft)?;
        let Body::Multisig(body) = &mut whole.body else { return None };
        match body.cosignatures.first_mut() {
            Some(cosignature) if self.random.coin() => change(self.random, cosignature),
            _ => change(self.random, &mut whole),
        }
        self.finished(Some(whole))
    }

    /// Returns a valid draft of a multisig account.
    pub fn draft_of_multisig(&mut self) -> Option<Transaction> {
        let who = self.random_account_where(|who, account| {
            account.is_multisig() && who < RENTAL && account.balance > 100 * MICRO
        })?;
        if self.can_act(who) { self.draft_by(who) } else { None }
    }

    /// Returns a small transfer of an account.
    fn draft_by(&mut self, who: AccountIndex) -> Option<Transaction> {
        let to = self.random_payee();
        let amount = self.random.next() % MICRO;
        let draft = self.transfer_of(who, to, amount, Vec::new());
        Some(version_1(draft))
    }

    /// Returns a multisig transaction.
    fn wrapped(&mut self) -> Option<Transaction> {
        let inner = self.draft_of_multisig()?;
        let mut whole = self.wrap(inner)?;
        self.sign(&mut whole);
        Some(whole)
    }

    fn low_fee(&mut self) -> ViolatingTransactions {
        let draft = self.valid_draft()?;
        let signer = self.oracle.key_ring.of_key(&draft.signer);
        let is_multisig = self.account(signer).is_multisig();
        let mut whole = if is_multisig && self.random.coin() { self.wrap(draft)? } else { draft };
        let target = match &mut whole.body {
            Body::Multisig(body) if !body.cosignatures.is_empty() && self.random.coin() => &mut body.cosignatures[0],
            _ => &mut whole,
        };
        let least = self.oracle.min_fee(target).ok()?;
        target.fee = Amount(least.saturating_sub(1 + self.random.next() % 2));
        self.finished(Some(whole))
    }

    fn high_cosignature(&mut self) -> ViolatingTransactions {
        let inner = self.draft_of_multisig()?;
        let mut whole = self.wrap(inner)?;
        if let Body::Multisig(body) = &mut whole.body {
            body.cosignatures.first_mut()?.fee = Amount(1_000 * MICRO + 1);
        }
        self.finished(Some(whole))
    }

    fn unknown_mosaic(&mut self) -> ViolatingTransactions {
        let name = self.root_name();
        let id = MosaicId::new(name, "nowhere").expect("a name");
        let (from, to) = (self.random_single_payer(100)?, self.random_payee());
        let draft = self.transfer_of(from, to, MICRO, vec![Mosaic { id, quantity: 1 }]);
        self.finished(Some(draft))
    }

    fn before_mosaics(&mut self) -> ViolatingTransactions {
        let (from, to) = (self.random_single_payer(100)?, self.random_payee());
        let name = self.root_name();
        let draft = match self.random.below(4) {
            0 => self.transfer_of(from, to, MICRO, Vec::new()),
            1 => self.rent(from, None, name.as_str()),
            2 => {
                let definition = self.definition_of(from, MosaicId::new(name, "m0").expect("a name"));
                self.define(from, definition)
            }
            _ => {
                let id = MosaicId::new(name, "m0").expect("a name");
                self.change_supply(from, id, SupplyChangeKind::Create, 1)
            }
        };
        self.finished(Some(draft))
    }

    fn too_much(&mut self) -> ViolatingTransactions {
        let from = self.random_payer(1)?;
        let (to, balance) = (self.random_payee(), self.account(from).balance);
        let mut draft = version_1(self.transfer_of(from, to, balance, Vec::new()));
        if self.random.coin() {
            // The shortfall is as small as possible.
            let Body::Transfer(body) = &mut draft.body else { return None };
            body.amount = Amount((balance + 1).checked_sub(draft.fee.0)?);
        }
        self.finished(Some(draft))
    }

    fn long_name(&mut self) -> ViolatingTransactions {
        let signer = self.random_single_payer(100)?;
        let (parent, part) = match self.random.below(3) {
            0 => (None, "x".repeat(17)),
            1 => (Some("r0"), "x".repeat(65)),
            _ => (Some("r0.s0.t0"), "x".to_owned()),
        };
        let parent = parent.map(|parent| NamespaceId::parse(parent).expect("a name"));
        let draft = self.rent(signer, parent, &part);
        self.finished(Some(draft))
    }

    fn large_quantity(&mut self) -> ViolatingTransactions {
        let id = if self.random.coin() { MosaicId::xem() } else { self.token(|_, token| token.supply > 0)?.0.clone() };
        let (from, to) = (self.random_single_payer(1_000)?, self.random_payee());
        let quantity = 9_000_000_000_000_000;
        let draft = self.transfer_of(from, to, 2_000 * MICRO, vec![Mosaic { id, quantity }]);
        self.finished(Some(draft))
    }

    fn negative_levy(&mut self) -> ViolatingTransactions {
        let is_huge = |token: &Token| {
            let levy = token.definition.levy.as_ref();
            levy.is_some_and(|levy| levy.kind == LevyKind::Percentile && levy.fee >= 2_000)
        };
        let (id, token) = self.token(|_, token| is_huge(token))?;
        let (from, to) = (self.random_single_payer(1_000)?, self.random_payee());
        // The product is at least 2⁶³ but below 2⁶⁴.
        let fee = token.definition.levy.as_ref()?.fee;
        let quantity = i64::MAX as u64 / fee + 1 + self.random.next() % 1_000;
        let draft = self.transfer_of(from, to, MICRO, vec![Mosaic { id: id.clone(), quantity }]);
        self.finished(Some(draft))
    }

    /// Returns an account that is or was a remote, preferably one that can pay.
    fn any_remote(&mut self) -> Option<AccountIndex> {
        let rich = self.random_account_where(|_, account| {
            account.balance > 100 * MICRO && account.links.last().is_some_and(|link| !link.is_owner)
        });
        match rich {
            Some(who) if self.random.coin() => Some(who),
            _ => self.random_account_where(|_, account| account.links.last().is_some_and(|link| !link.is_owner)),
        }
    }

    fn by_remote(&mut self) -> ViolatingTransactions {
        let remote = self.any_remote()?;
        if let Some(account) = self.account(remote).cosignatory_of.first().copied() {
            let inner = self.draft_by(account)?;
            let draft = self.wrap_by(inner, remote, &[]);
            return self.finished(Some(draft));
        }
        let mut draft = self.draft_by(remote)?;
        if let Body::Transfer(body) = &mut draft.body {
            body.amount = Amount(0);
        }
        if self.oracle.terms.ignore_fees {
            draft.fee = Amount(0);
        }
        self.finished(Some(draft))
    }

    fn with_remote(&mut self, is_inner: bool) -> ViolatingTransactions {
        let remote = self.any_remote()?;
        let payer = self.random_single_payer(1_000)?;
        let from = if is_inner {
            self.random_account_where(|who, account| account.is_multisig() && who < RENTAL)?
        } else {
            payer
        };
        let draft = match self.random.below(4) {
            0 if is_inner => {
                let draft = self.link_to(from, remote, LinkMode::Deactivate);
                return self.finished(Some(draft));
            }
            0 => self.modify(from, &[(ModificationKind::Add, remote)], None),
            _ => version_1(self.transfer_of(from, remote, MICRO, Vec::new())),
        };
        self.finished(Some(draft))
    }

    fn long_message(&mut self) -> ViolatingTransactions {
        let forks = &self.oracle.terms.forks;
        let most = match self.oracle.height {
            height if height >= forks.remote => 1_024,
            height if height >= forks.multisig => 160,
            _ => 96,
        };
        let (from, to) = (self.random_payer(100_000)?, self.random_payee());
        let length = if self.random.coin() { most + 1 } else { most + self.random.below(200) };
        let message = self.message(length);
        let mut draft = version_1(self.transfer_of(from, to, MICRO, Vec::new()));
        if let Body::Transfer(body) = &mut draft.body {
            body.message = message;
        }
        draft.fee = Amount(self.oracle.min_fee(&draft).ok()?);
        self.finished(Some(draft))
    }

    fn bad_link(&mut self, aim: Rule) -> ViolatingTransactions {
        let (height, limit) = (self.oracle.height, self.oracle.terms.rewrite_limit);
        let is_recent = |height: u64, at: u64| height - at < limit;
        let free = self.random_account_where(|who, account| {
            who >= FIRST_ORDINARY && account.links.is_empty() && account.balance == 0
        });
        let owner = self.random_payer(100).filter(|who| !HARVESTERS.contains(who))?;
        let (owner, remote, mode) = match aim {
            Rule::T11RemoteRecent => {
                let recent = self.random_account_where(|_, account| {
                    account.links.last().is_some_and(|link| !link.is_owner && is_recent(height, link.height))
                });
                (owner, recent?, LinkMode::Activate)
            }
            Rule::T11RemoteTied => {
                let tied = self.random_account_where(|_, account| {
                    let last = account.links.last();
                    last.is_some_and(|link| {
                        !link.is_owner
                            && link.other != owner
                            && link.mode == LinkMode::Activate
                            && !is_recent(height, link.height)
                    })
                });
                (owner, tied?, LinkMode::Activate)
            }
            Rule::T11OwnerRecent | Rule::T11Activated => {
                let wants_recent = aim == Rule::T11OwnerRecent;
                let lender = self.random_account_where(|_, account| {
                    account.links.last().is_some_and(|link| {
                        link.is_owner
                            && is_recent(height, link.height) == wants_recent
                            && (wants_recent || link.mode == LinkMode::Activate)
                    })
                });
                (lender.filter(|who| self.can_act(*who))?, free?, LinkMode::Activate)
            }
            Rule::T11Balance => {
                (owner, self.random_account_where(|_, account| account.balance > 0)?, LinkMode::Activate)
            }
            Rule::T11NotActive => (owner, self.random_account(), LinkMode::Deactivate),
            _ => {
                let model = self.oracle.model;
                let is_landlord = |who: AccountIndex| model.roots.values().any(|root| root.newest().owner == who);
                let found = self.random_account_where(|who, account| {
                    account.balance == 0
                        && match aim {
                            Rule::T11Mosaic => !account.mosaics.is_empty(),
                            Rule::T11Namespace => account.mosaics.is_empty() && is_landlord(who),
                            Rule::T11Multisig => account.is_multisig(),
                            _ => !account.cosignatory_of.is_empty(),
                        }
                });
                (owner, found?, LinkMode::Activate)
            }
        };
        let draft = self.link_to(owner, remote, mode);
        self.finished(Some(draft))
    }

    fn bad_modification(&mut self, aim: Rule) -> ViolatingTransactions {
        use ModificationKind::{Add, Delete, Unknown};
        let multisig = self.random_account_where(|who, account| {
            account.is_multisig() && who < RENTAL && account.balance > 100 * MICRO && account.cosignatories.len() > 1
        });
        let single = self.random_single_payer(100)?;
        let stranger = self.random_account_where(|who, account| {
            who >= FIRST_ORDINARY && !account.is_multisig() && who != single && account.links.is_empty()
        })?;
        let model = self.oracle.model;
        let cosignatories = |who: AccountIndex| model.accounts[who].cosignatories.iter().copied().collect::<Vec<_>>();
        let (who, changes) = match aim {
            Rule::T14Already => {
                let who = multisig?;
                let known = cosignatories(who);
                (who, vec![(Add, *self.random_element(&known)?)])
            }
            Rule::T14AddMultisig => (single, vec![(Add, multisig?)]),
            Rule::T14AddSelf => (single, vec![(Add, single)]),
            Rule::T14DeleteUnknown => {
                let who = multisig.filter(|_| self.random.coin()).unwrap_or(single);
                (who, vec![(Delete, stranger)])
            }
            Rule::T14Deletes => {
                let who = multisig?;
                let known = cosignatories(who);
                (who, vec![(Delete, known[0]), (Delete, known[1])])
            }
            Rule::T14Redundant if self.random.coin() => {
                let who = multisig?;
                let known = cosignatories(who);
                (who, vec![(Delete, known[0]), (Delete, known[0])])
            }
            Rule::T14Redundant => (single, vec![(Add, stranger), (Add, stranger)]),
            Rule::T14Kind => (single, vec![(Add, stranger), (Unknown, stranger)]),
            _ => {
                let who =
                    self.random_account_where(|who, account| !account.cosignatory_of.is_empty() && who != stranger)?;
                (who, vec![(Add, stranger)])
            }
        };
        let draft = self.modify(who, &changes, None);
        self.finished(Some(draft))
    }

    fn bad_count(&mut self, aim: Rule) -> ViolatingTransactions {
        use ModificationKind::{Add, Delete};
        if aim == Rule::T15Many {
            let who = self.random_single_payer(1_000).filter(|who| self.account(*who).cosignatory_of.is_empty())?;
            let is_fit = |other: &AccountIndex| {
                let account = self.account(*other);
                *other != who && !account.is_multisig() && !self.is_remote(*other)
            };
            let others = (0..self.oracle.key_ring.len()).rev().filter(is_fit).take(33);
            let changes: Vec<_> = others.map(|other| (Add, other)).collect();
            let draft = self.modify(who, &changes, None);
            return self.finished(Some(draft));
        }
        let who = self.random_account_where(|who, account| {
            account.is_multisig() && who < RENTAL && account.balance > 100 * MICRO
        })?;
        let account = self.account(who);
        let (size, least) = (account.cosignatories.len() as i64, account.min_cosignatories);
        if aim == Rule::T15Above && least == size && self.random.coin() {
            // One cosignatory fewer remains than must sign.
            let draft = self.modify(who, &[(Delete, *account.cosignatories.first()?)], None);
            return self.finished(Some(draft));
        }
        let change = if aim == Rule::T15Negative { -least - 1 } else { size - least + 1 };
        let draft = self.modify(who, &[], Some(change as i32));
        self.finished(Some(draft))
    }

    fn bad_provision(&mut self, aim: Rule) -> ViolatingTransactions {
        const RESERVED: [&str; 11] =
            ["nem", "user", "account", "org", "com", "biz", "net", "edu", "mil", "gov", "info"];
        let (height, year, month) = (self.oracle.height, self.oracle.terms.year(), self.oracle.terms.month());
        let signer = self.random_payer(60_000)?;
        let owned = self.root(|root| root.active(height, year).is_some());
        let fresh = format!("f{}", self.random.below(1_000));
        let draft = match aim {
            Rule::T16Reserved => {
                let part = *self.random_element(&RESERVED)?;
                let parent = owned.map(|(name, _)| name).filter(|_| self.random.coin());
                self.rent(signer, parent, part)
            }
            Rule::T16Sink => {
                let mut draft = self.rent(signer, None, &fresh);
                let other = self.random_payee();
                if let Body::ProvisionNamespace(body) = &mut draft.body {
                    body.rental_fee_sink = self.oracle.key_ring.address(other);
                }
                draft
            }
            Rule::T16Unknown => {
                let parent = if self.random.coin() { "f-nobody" } else { "r0.nobody" };
                self.rent(signer, Some(NamespaceId::parse(parent).ok()?), &fresh)
            }
            Rule::T16Expired => {
                let (name, root) = self.root(|root| root.active(height, year).is_none())?;
                let owner = root.newest().owner;
                let signer = if self.can_act(owner) { owner } else { signer };
                self.rent(signer, Some(name), &fresh)
            }
            Rule::T16Owner => self.rent(signer, Some(owned?.0), &fresh),
            Rule::T16Exists => {
                let (_, root) =
                    self.root(|root| root.active(height, year).is_some() && !root.newest().children.is_empty())?;
                let name = root.newest().children.first()?;
                let (parent, part) = name.rsplit_once('.')?;
                let owner = root.newest().owner;
                if !self.can_act(owner) {
                    return None;
                }
                self.rent(owner, Some(NamespaceId::parse(parent).ok()?), part)
            }
            Rule::T16EarlyOwner => {
                let (name, root) = self.root(|root| root.newest().height + year - month > height)?;
                let owner = root.newest().owner;
                if !self.can_act(owner) {
                    return None;
                }
                self.rent(owner, None, name.as_str())
            }
            Rule::T16EarlyOther => {
                let (name, _) = self.root(|root| root.newest().height + year + month > height)?;
                self.rent(signer, None, name.as_str())
            }
            Rule::T16RootFee => self.cheaper_rent(signer, None, &fresh),
            _ => {
                let (name, root) = owned?;
                let owner = root.newest().owner;
                if !self.can_act(owner) {
                    return None;
                }
                self.cheaper_rent(owner, Some(name), &fresh)
            }
        };
        self.finished(Some(draft))
    }

    fn cheaper_rent(&mut self, signer: AccountIndex, parent: Option<NamespaceId>, part: &str) -> Transaction {
        let mut draft = self.rent(signer, parent, part);
        if let Body::ProvisionNamespace(body) = &mut draft.body {
            body.rental_fee.0 -= 1;
        }
        draft
    }

    fn bad_definition(&mut self, aim: Rule) -> ViolatingTransactions {
        let court = self.oracle;
        let (height, year) = (court.height, court.terms.year());
        let is_live = |id: &MosaicId| court.model.is_active(&id.namespace, height, year);
        if matches!(aim, Rule::T17Same | Rule::T17Spread | Rule::T17Transferable) {
            let is_spread = |token: &Token| token.of(token.creator) != token.supply * token.unit();
            let (_, token) = self.token(|id, token| is_live(id) && (aim != Rule::T17Spread || is_spread(token)))?;
            let mut definition = token.definition.clone();
            match aim {
                Rule::T17Same => {}
                Rule::T17Spread => definition.properties.supply_mutable ^= true,
                _ => definition.properties.transferable ^= true,
            }
            let draft = self.can_act(token.creator).then(|| self.define(token.creator, definition));
            return self.finished(draft);
        }
        if aim == Rule::T17Expired {
            let (name, root) = self.root(|root| root.active(height, year).is_none())?;
            let owner = root.newest().owner;
            let id = self.token_name(name);
            let definition = self.definition_of(owner, id);
            let draft = self.can_act(owner).then(|| self.define(owner, definition));
            return self.finished(draft);
        }
        let (name, owner) = self.random_own_namespace()?;
        let other = self.random_payer(60_000)?;
        let who = if matches!(aim, Rule::T17Owner | Rule::T17Missing) { other } else { owner };
        let name = if aim == Rule::T17Missing { name.child("nobody").ok()? } else { name };
        let id = MosaicId::new(name, &format!("x{}", self.random.below(100))).ok()?;
        let mut definition = self.definition_of(who, id.clone());
        definition.levy = self.bad_levy(aim, &id);
        if definition.levy.as_ref().is_some_and(|levy| levy.mosaic == id) {
            definition.properties.transferable = false;
        }
        let mut draft = self.define(who, definition);
        let somebody = self.random_payee();
        if let Body::MosaicDefinitionCreation(body) = &mut draft.body {
            match aim {
                Rule::T17Sink => body.creation_fee_sink = court.key_ring.address(somebody),
                Rule::T17Fee => body.creation_fee.0 -= 1,
                _ => {}
            }
        }
        self.finished(Some(draft))
    }

    fn bad_levy(&mut self, aim: Rule, own: &MosaicId) -> Option<Levy> {
        let mosaic = match aim {
            Rule::T17LevyUnknown => MosaicId::new(self.root_name(), "nowhere").ok()?,
            Rule::T17LevyFixed if self.random.coin() => own.clone(),
            Rule::T17LevyFixed => self.token(|_, token| !token.definition.properties.transferable)?.0.clone(),
            _ => return None,
        };
        let recipient = self.oracle.key_ring.address(DELEGATOR);
        Some(Levy { kind: LevyKind::Absolute, recipient, mosaic, fee: 1 })
    }

    fn bad_supply(&mut self, aim: Rule) -> ViolatingTransactions {
        use SupplyChangeKind::{Create, Delete};
        let court = self.oracle;
        let (height, year) = (court.height, court.terms.year());
        let signer = self.random_payer(1_000)?;
        if aim == Rule::T18Unknown {
            let id = MosaicId::new(self.root_name(), "nowhere").ok()?;
            let draft = self.change_supply(signer, id, Create, 1);
            return self.finished(Some(draft));
        }
        let (id, token) = self.token(|id, token| {
            let is_active = court.model.is_active(&id.namespace, height, year);
            let is_mutable = token.definition.properties.supply_mutable;
            is_active == (aim != Rule::T18Expired) && is_mutable == (aim != Rule::T18Immutable)
        })?;
        let (most, owned) = (9_000_000_000_000_000 / token.unit(), token.of(token.creator) / token.unit());
        let (kind, delta) = match aim {
            Rule::T18Above => (Create, most - token.supply + 1),
            Rule::T18Below => (Delete, owned + 1),
            _ => (Create, 1),
        };
        let who = if aim == Rule::T18Creator { signer } else { token.creator };
        let is_possible = self.can_act(who) && delta <= 9_000_000_000_000_000;
        let draft = is_possible.then(|| self.change_supply(who, id.clone(), kind, delta));
        self.finished(draft)
    }

    fn bad_mosaic_list(&mut self, aim: Rule) -> ViolatingTransactions {
        let court = self.oracle;
        let (height, year) = (court.height, court.terms.year());
        let is_live = |id: &MosaicId| court.model.is_active(&id.namespace, height, year);
        let is_free = |token: &Token| token.definition.properties.transferable;
        let (mut from, to) = (self.random_payer(1_000)?, self.random_payee());
        if aim == Rule::T19Many {
            let mut all: Vec<MosaicId> = self.tokens().into_iter().map(|(id, _)| id.clone()).collect();
            while all.len() > 11 {
                all.swap_remove(self.random.below(all.len()));
            }
            let mosaics = all.into_iter().map(|id| Mosaic { id, quantity: 0 }).collect();
            let draft = self.transfer_of(from, to, MICRO, mosaics);
            return self.finished(Some(draft));
        }
        let has_foreign_levy = |id: &MosaicId, token: &Token| {
            let levy = token.definition.levy.as_ref();
            levy.is_some_and(|levy| !levy.mosaic.is_xem() && levy.mosaic != *id)
        };
        let (id, token) = self.token(|id, token| match aim {
            Rule::T19Expired => !is_live(id),
            Rule::T19Fixed => is_live(id) && !is_free(token),
            Rule::T19Levy => {
                let levy = token.definition.levy.as_ref();
                is_live(id)
                    && levy.is_some_and(|levy| !levy.mosaic.is_xem() && court.model.token(&levy.mosaic).is_none())
            }
            Rule::T20Levy => is_live(id) && is_free(token) && has_foreign_levy(id, token) && token.supply > 0,
            _ => is_live(id) && is_free(token),
        })?;
        let (mut amount, mut quantity) = (MICRO, 0);
        match aim {
            Rule::T19Fraction => amount += 1 + self.random.next() % (MICRO - 1),
            Rule::T20Balance => quantity = token.of(from) + 1,
            Rule::T20Levy => {
                let holders: Vec<AccountIndex> =
                    token.balances.keys().copied().filter(|who| self.can_act(*who)).collect();
                from = *self.random_element(&holders)?;
                quantity = token.of(from);
            }
            _ => {}
        }
        let draft = self.transfer_of(from, to, amount, vec![Mosaic { id: id.clone(), quantity }]);
        self.finished(Some(draft))
    }

    fn bad_signatures(&mut self, aim: Rule) -> ViolatingTransactions {
        let account = self.random_account_where(|who, account| {
            let is_alone = account.min_cosignatories == 1 || account.cosignatories.len() == 1;
            account.is_multisig() && who < RENTAL && (aim == Rule::T21Foreign || !is_alone)
        })?;
        let inner = self.draft_by(account)?;
        let mut signers: Vec<AccountIndex> = self.account(account).cosignatories.iter().copied().collect();
        signers.retain(|who| self.can_act(*who));
        if aim == Rule::T21Foreign {
            let stranger =
                self.random_account_where(|who, one| who < RENTAL && !one.cosignatory_of.contains(&account))?;
            signers.push(stranger);
        } else {
            signers.swap_remove(self.random.below(signers.len().max(1)).min(signers.len().checked_sub(1)?));
            let least = self.account(account).min_cosignatories;
            if least > 0 && (least as usize) < self.account(account).cosignatories.len() {
                signers.truncate(least as usize - 1);
            }
        }
        let (first, others) = signers.split_first()?;
        let draft = self.wrap_by(inner, *first, others);
        self.finished(Some(draft))
    }

    fn nested_cosignature(&mut self) -> ViolatingTransactions {
        let whole = self.wrapped()?;
        let account = self.oracle.key_ring.of_key(&whole.inner()?.signer);
        let mut inner = whole.cosignatures().first()?.clone();
        inner.signature = None;
        inner.signer = self.oracle.key_ring.public(account);
        let signers: Vec<AccountIndex> = self.account(account).cosignatories.iter().copied().collect();
        let draft = self.wrap_by(inner, signers[0], &signers[1..]);
        let is_small = self.oracle.purpose == Purpose::Block && signers.len() < 8;
        if is_small { self.finished(Some(draft)) } else { None }
    }

    /// Returns two multisig transactions with the same inner transaction.
    pub fn twin_multisigs(&mut self) -> ViolatingTransactions {
        let inner = self.draft_of_multisig()?;
        let account = self.oracle.key_ring.of_key(&inner.signer);
        let all: Vec<AccountIndex> = self.account(account).cosignatories.iter().copied().collect();
        if all.len() > 6 || all.iter().any(|who| !self.can_act(*who)) {
            return None;
        }
        let mut one = self.wrap_by(inner, all[0], &all[1..]);
        one.fee.0 = one.fee.0.max(MICRO * 10);
        let mut other = one.clone();
        other.fee.0 += 1;
        if let Body::Multisig(body) = &mut other.body {
            let Multisig { cosignatures, .. } = &mut **body;
            cosignatures.iter_mut().for_each(|one| one.fee.0 += 1);
        }
        self.sign(&mut one);
        self.sign(&mut other);
        Some(vec![one, other])
    }
}

/// Returns the same transaction with version 1.
pub fn version_1(mut transaction: Transaction) -> Transaction {
    transaction.version = wire_version(wire_network(transaction.version), 1);
    transaction
}
