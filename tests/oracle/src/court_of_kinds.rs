//! Rules for transactions of one kind.

use std::collections::BTreeSet;

use nisd::model::transaction::{
    AggregateModification, LinkMode, ModificationKind, MosaicDefinitionCreation, MosaicSupplyChange, Multisig,
    ProvisionNamespace, SupplyChangeKind, Transfer,
};
use nisd::model::{Body, Mosaic, NamespaceId, NetworkByte};

use super::court::Oracle;
use super::model::{LinkState, Token};
use super::people::{AccountIndex, CREATION, RENTAL};
use super::rule::{Rule, RuleViolation, require};

const RESERVED: [&str; 11] = ["nem", "user", "account", "org", "com", "biz", "net", "edu", "mil", "gov", "info"];
const MICRO: u64 = 1_000_000;
/// Maximum supply of a mosaic in smallest units.
const MAX_UNITS: u64 = 9_000_000_000_000_000;

impl Oracle<'_> {
    /// T10.
    pub fn message(&self, body: &Transfer) -> Result<(), RuleViolation> {
        let length = body.message.as_ref().map_or(0, |message| message.payload.len());
        let (most, rule) = match () {
            _ if self.height >= self.terms.forks.remote => (1024, Rule::T10Third),
            _ if self.height >= self.terms.forks.multisig => (160, Rule::T10Second),
            _ => (96, Rule::T10First),
        };
        require(length <= most, rule)
    }

    /// T11.
    pub fn importance_transfer(
        &self,
        mode: LinkMode,
        owner: AccountIndex,
        remote: AccountIndex,
    ) -> Result<(), RuleViolation> {
        let limit = self.terms.rewrite_limit;
        let [lessor, lessee] = [owner, remote].map(|who| &self.model.accounts[who]);
        let is_recent = |who: AccountIndex| {
            let last = self.model.accounts[who].links.last();
            last.is_some_and(|link| self.height - link.height < limit)
        };
        require(!is_recent(remote), Rule::T11RemoteRecent)?;
        if let Some(link) = lessee.links.last().filter(|link| !link.is_owner && link.other != owner) {
            let is_over = matches!(
                lessee.link_state(self.height, limit),
                Some(LinkState { mode: LinkMode::Deactivate, is_recent: false, .. })
            );
            require(is_over, Rule::T11RemoteTied)?;
            assert!(link.height <= self.height);
        }
        require(!is_recent(owner), Rule::T11OwnerRecent)?;
        let is_active = lessor.links.last().is_some_and(|link| link.mode == LinkMode::Activate);
        if mode == LinkMode::Deactivate {
            return require(is_active, Rule::T11NotActive);
        }
        require(lessee.balance == 0, Rule::T11Balance)?;
        if self.height >= self.terms.forks.remote {
            require(lessee.mosaics.is_empty(), Rule::T11Mosaic)?;
            require(self.model.roots.values().all(|root| root.newest().owner != remote), Rule::T11Namespace)?;
            require(!lessee.is_multisig(), Rule::T11Multisig)?;
            require(lessee.cosignatory_of.is_empty(), Rule::T11Cosignatory)?;
        }
        require(!is_active, Rule::T11Activated)
    }

    /// T14.
    pub fn modifications(&self, body: &AggregateModification, signer: AccountIndex) -> Result<(), RuleViolation> {
        let account = &self.model.accounts[signer];
        let (mut added, mut deleted) = (BTreeSet::new(), BTreeSet::new());
        for one in &body.modifications {
            let other = self.key_ring.of_key(&one.cosignatory);
            let is_there = account.cosignatories.contains(&other);
            match one.kind {
                ModificationKind::Add => {
                    require(!is_there, Rule::T14Already)?;
                    require(!self.model.accounts[other].is_multisig(), Rule::T14AddMultisig)?;
                    require(other != signer, Rule::T14AddSelf)?;
                    added.insert(other);
                }
                ModificationKind::Delete => {
                    require(is_there, Rule::T14DeleteUnknown)?;
                    deleted.insert(other);
                }
                ModificationKind::Unknown => {}
            }
        }
        require(deleted.len() <= 1, Rule::T14Deletes)?;
        let is_strange = body.modifications.iter().any(|one| one.kind == ModificationKind::Unknown);
        let rule = if is_strange { Rule::T14Kind } else { Rule::T14Redundant };
        require(body.modifications.len() == added.len() + deleted.len(), rule)?;
        require(account.cosignatory_of.is_empty(), Rule::T14Cosignatory)
    }

    /// T15.
    pub fn counts(&self, body: &AggregateModification, signer: AccountIndex) -> Result<(), RuleViolation> {
        let account = &self.model.accounts[signer];
        let count = |kind| body.modifications.iter().filter(|one| one.kind == kind).count() as i64;
        let size = account.cosignatories.len() as i64 + count(ModificationKind::Add) - count(ModificationKind::Delete);
        let least = (account.min_cosignatories as i32).wrapping_add(body.min_cosignatories_change.unwrap_or(0));
        require(least >= 0, Rule::T15Negative)?;
        require(i64::from(least) <= size, Rule::T15Above)?;
        require(size <= 32, Rule::T15Many)
    }

    /// T16.
    pub fn provision(&self, body: &ProvisionNamespace, signer: AccountIndex) -> Result<(), RuleViolation> {
        let name = body.name().expect("a name that was read already");
        let (year, month) = (self.terms.year(), self.terms.month());
        require(!name.parts().any(|part| RESERVED.contains(&part)), Rule::T16Reserved)?;
        require(self.key_ring.of_address(&body.rental_fee_sink) == RENTAL, Rule::T16Sink)?;
        let root = self.model.roots.get(name.root());
        if let Some(parent) = &body.parent {
            let root = root.filter(|root| root.has(parent)).ok_or(Rule::T16Unknown)?;
            require(root.active(self.height, year).is_some(), Rule::T16Expired)?;
            require(root.newest().owner == signer, Rule::T16Owner)?;
        }
        if let Some(root) = root.filter(|root| root.has(&name)) {
            require(name.is_root(), Rule::T16Exists)?;
            let (lease, height) = (root.newest(), self.height);
            let expiry = lease.height + year;
            require(expiry <= height + month, Rule::T16EarlyOwner.for_other_account(lease.owner != signer))?;
            require(lease.owner == signer || expiry + month <= height, Rule::T16EarlyOther)?;
        }
        let rule = if name.is_root() { Rule::T16RootFee } else { Rule::T16SubFee };
        require(body.rental_fee.0 >= self.rent(&name), rule)
    }

    fn namespace(&self, name: &NamespaceId, otherwise: Rule) -> Result<(), RuleViolation> {
        require(self.model.is_active(name, self.height, self.terms.year()), otherwise)
    }

    /// T17.
    pub fn definition(&self, body: &MosaicDefinitionCreation, signer: AccountIndex) -> Result<(), RuleViolation> {
        let new = &body.definition;
        let owner = self.model.owner(&new.id.namespace);
        self.namespace(&new.id.namespace, if owner.is_some() { Rule::T17Expired } else { Rule::T17Missing })?;
        require(owner == Some(signer), Rule::T17Owner)?;
        if let Some(token) = self.model.token(&new.id) {
            let old = &token.definition;
            if old.properties == new.properties && old.levy == new.levy {
                require(old.description != new.description, Rule::T17Same)?;
            } else {
                require(old.properties.transferable == new.properties.transferable, Rule::T17Transferable)?;
                require(token.of(token.creator) == token.supply * token.unit(), Rule::T17Spread)?;
            }
        }
        require(self.key_ring.of_address(&body.creation_fee_sink) == CREATION, Rule::T17Sink)?;
        require(body.creation_fee.0 >= self.creation_fee(), Rule::T17Fee)?;
        match &new.levy {
            Some(levy) if levy.mosaic == new.id => require(new.properties.transferable, Rule::T17LevyFixed),
            Some(levy) if !levy.mosaic.is_xem() => {
                let token = self.model.token(&levy.mosaic).ok_or(Rule::T17LevyUnknown)?;
                require(token.definition.properties.transferable, Rule::T17LevyFixed)
            }
            _ => Ok(()),
        }
    }

    /// T18.
    pub fn supply(&self, body: &MosaicSupplyChange, signer: AccountIndex) -> Result<(), RuleViolation> {
        let id = &body.mosaic;
        if id.is_xem() {
            return require(signer == RENTAL && self.key_ring.network == NetworkByte::TESTNET, Rule::T18Creator);
        }
        let token = self.model.token(id).ok_or(Rule::T18Unknown)?;
        self.namespace(&id.namespace, Rule::T18Expired)?;
        require(token.creator == signer, Rule::T18Creator)?;
        require(token.definition.properties.supply_mutable, Rule::T18Immutable)?;
        match body.kind {
            SupplyChangeKind::Create => require(token.supply + body.delta <= MAX_UNITS / token.unit(), Rule::T18Above),
            SupplyChangeKind::Delete => require(token.of(signer) / token.unit() >= body.delta, Rule::T18Below),
        }
    }

    /// T19.
    pub fn mosaic_list(&self, body: &Transfer, signer: AccountIndex) -> Result<(), RuleViolation> {
        let others: Vec<&Mosaic> = body.mosaics.iter().filter(|mosaic| !mosaic.id.is_xem()).collect();
        require(others.len() <= 10, Rule::T19Many)?;
        require(others.is_empty() || body.amount.0.is_multiple_of(MICRO), Rule::T19Fraction)?;
        let recipient = self.key_ring.of_address(&body.recipient);
        others.into_iter().try_for_each(|mosaic| {
            let token = self.model.token(&mosaic.id).ok_or(Rule::T19Unknown)?;
            self.namespace(&mosaic.id.namespace, Rule::T19Expired)?;
            let is_free = token.definition.properties.transferable || [signer, recipient].contains(&token.creator);
            require(is_free, Rule::T19Fixed)?;
            require(self.has_levy_mosaic(token), Rule::T19Levy)
        })
    }

    /// Returns the mosaic in which a levy is paid, if its namespace has expired.
    pub fn expired_levy(&self, token: &Token) -> Option<&Token> {
        let levy = token.definition.levy.as_ref().filter(|levy| !levy.mosaic.is_xem())?;
        let is_active = self.model.is_active(&levy.mosaic.namespace, self.height, self.terms.year());
        self.model.token(&levy.mosaic).filter(|_| !is_active)
    }

    fn has_levy_mosaic(&self, token: &Token) -> bool {
        let levy = token.definition.levy.as_ref();
        levy.is_none_or(|levy| levy.mosaic.is_xem() || self.model.token(&levy.mosaic).is_some())
    }

    /// T21.
    pub fn signatures(&self, body: &Multisig, initiator: AccountIndex) -> Result<(), RuleViolation> {
        let account = &self.model.accounts[self.key_ring.of_key(&body.inner.signer)];
        let mut signers: BTreeSet<AccountIndex> =
            body.cosignatures.iter().map(|one| self.key_ring.of_key(&one.signer)).collect();
        signers.insert(initiator);
        require(signers.is_subset(&account.cosignatories), Rule::T21Foreign)?;
        let mut expected = account.cosignatories.clone();
        if let Body::AggregateModification(inner) = &body.inner.body {
            for one in inner.modifications.iter().filter(|one| one.kind == ModificationKind::Delete) {
                let removed = self.key_ring.of_key(&one.cosignatory);
                signers.remove(&removed);
                expected.remove(&removed);
            }
        }
        let are_all_needed =
            account.min_cosignatories == 0 || account.min_cosignatories == account.cosignatories.len() as i64;
        let are_enough =
            if are_all_needed { signers == expected } else { signers.len() as i64 >= account.min_cosignatories };
        require(are_enough, Rule::T21Few)
    }
}

impl Rule {
    /// Returns the variant of this rule for a break by an account other than the owner.
    fn for_other_account(self, is_other: bool) -> Rule {
        if is_other { Rule::T16EarlyOther } else { self }
    }
}
