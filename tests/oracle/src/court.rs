//! An oracle: the rules for transactions implemented from the text of the protocol, independently of the program's.

use std::collections::BTreeMap;

use nisd::model::transaction::{LinkMode, entity_version, wire_network};
use nisd::model::{Body, Hash256, MosaicId, NetworkByte, Transaction};

use super::model::{Model, StateChange};
use super::people::{AccountIndex, CREATION, KeyRing, NEMESIS, RENTAL};
use super::rule::{Rule, RuleViolation, require};
use super::terms::NetworkTerms;

const DAY: i32 = 86_400;
/// The last timestamp to which a day can be added.
const LAST_WITH_A_DAY: i32 = i32::MAX - DAY;
/// Seconds by which a timestamp may be ahead.
const AHEAD: i32 = 10;
/// Maximum fee of a cosignature in micro-units.
const MAX_COSIGNATURE_FEE: u64 = 1_000_000_000;

/// Purpose of a validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A block.
    Block,
    /// The mempool.
    Mempool,
}

/// The oracle and its inputs.
#[derive(Clone, Copy)]
pub struct Oracle<'a> {
    pub key_ring: &'a KeyRing,
    pub terms: &'a NetworkTerms,
    /// Required hashes of the treasury block, in order: the preferred set, and the alternative one.
    pub treasury: [&'a [Hash256]; 2],
    pub model: &'a Model,
    /// Height of the block.
    pub height: u64,
    /// Network time.
    pub now: i32,
    pub purpose: Purpose,
}

impl<'a> Oracle<'a> {
    /// Returns the effects of a transaction if it satisfies all rules for transactions.
    pub fn validate(&self, transaction: &Transaction) -> Result<Vec<StateChange>, RuleViolation> {
        let moves = self.validate_one(transaction)?;
        transaction.children().try_for_each(|child| self.validate_one(child).map(drop))?;
        let is_alone = matches!(transaction.body, Body::Cosignature(_)) && self.purpose == Purpose::Block;
        require(!is_alone, Rule::HazardAlone)?;
        let is_nested = transaction.inner().is_some_and(|inner| matches!(inner.body, Body::Cosignature(_)));
        require(!is_nested, Rule::HazardInner)?;
        Ok(moves)
    }

    fn validate_one(&self, transaction: &Transaction) -> Result<Vec<StateChange>, RuleViolation> {
        let signer = self.key_ring.of_key(&transaction.signer);
        self.deadline(transaction)?; // T1
        self.fee(transaction, signer)?; // T2
        self.version(transaction)?; // T3
        require(transaction.timestamp.0 <= self.now.saturating_add(AHEAD), Rule::T4)?;
        require(signer != NEMESIS || self.height == self.terms.forks.treasury, Rule::T5)?;
        let moves = self.moves(transaction)?;
        self.currency(&moves)?; // T6
        require(wire_network(transaction.version) == self.key_ring.network, Rule::T7)?;
        self.remotes(transaction, signer)?; // T8
        self.multisig_signer(transaction, signer)?; // T9
        match &transaction.body {
            Body::Transfer(body) => {
                self.message(body)?; // T10
                self.mosaic_list(body, signer)?; // T19
            }
            Body::ImportanceTransfer(body) => {
                self.importance_transfer(body.mode, signer, self.key_ring.of_key(&body.remote))?; // T11
            }
            Body::Multisig(body) => {
                let account = self.key_ring.of_key(&body.inner.signer);
                require(self.model.accounts[account].cosignatories.contains(&signer), Rule::T12)?;
                let is_later = self.height > self.terms.forks.treasury && self.key_ring.network == NetworkByte::TESTNET;
                require(!(is_later && [RENTAL, CREATION].contains(&account)), Rule::T13)?;
            }
            Body::AggregateModification(body) => {
                self.modifications(body, signer)?; // T14
                self.counts(body, signer)?; // T15
            }
            Body::ProvisionNamespace(body) => self.provision(body, signer)?, // T16
            Body::MosaicDefinitionCreation(body) => self.definition(body, signer)?, // T17
            Body::MosaicSupplyChange(body) => self.supply(body, signer)?,    // T18
            Body::Cosignature(_) => {}
        }
        self.mosaics(&moves)?; // T20
        match (&transaction.body, self.purpose) {
            (Body::Multisig(body), Purpose::Block) => self.signatures(body, signer)?, // T21
            (_, Purpose::Mempool) => {
                let is_live = transaction.self_and_children().all(|one| one.deadline.0 >= self.now);
                require(is_live, Rule::U1)?;
            }
            _ => {}
        }
        Ok(moves)
    }

    fn deadline(&self, transaction: &Transaction) -> Result<(), RuleViolation> {
        let (time, deadline) = (transaction.timestamp.0, transaction.deadline.0);
        require(time < deadline, Rule::T1Past)?;
        if time > LAST_WITH_A_DAY {
            return Err(RuleViolation::exception(Rule::T1Wraps, "time must be non-negative"));
        }
        require(deadline <= time + DAY, Rule::T1Future)
    }

    fn fee(&self, transaction: &Transaction, signer: AccountIndex) -> Result<(), RuleViolation> {
        if self.terms.ignore_fees || signer == NEMESIS {
            return Ok(());
        }
        let rule = [Rule::T2First, Rule::T2Second, Rule::T2Third][self.terms.era(self.height)];
        require(transaction.fee.0 >= self.min_fee(transaction)?, rule)?;
        let is_cosignature = matches!(transaction.body, Body::Cosignature(_));
        require(!is_cosignature || transaction.fee.0 <= MAX_COSIGNATURE_FEE, Rule::T2Cosignature)
    }

    fn version(&self, transaction: &Transaction) -> Result<(), RuleViolation> {
        let forks = &self.terms.forks;
        let since_mosaics = || require(self.height >= forks.mosaics, Rule::T3Mosaics);
        match (&transaction.body, entity_version(transaction.version)) {
            (Body::Transfer(_) | Body::AggregateModification(_), 1) => Ok(()),
            (Body::Transfer(_), 2) => since_mosaics(),
            (Body::AggregateModification(_), 2) => require(self.height >= forks.multisig, Rule::T3Modification),
            (Body::ProvisionNamespace(_) | Body::MosaicDefinitionCreation(_) | Body::MosaicSupplyChange(_), 1) => {
                since_mosaics()
            }
            (_, version) => require(version == 1, Rule::T3Version),
        }
    }

    fn currency(&self, moves: &[StateChange]) -> Result<(), RuleViolation> {
        let mut deltas = BTreeMap::new();
        for one in moves {
            let (from, amount) = match one {
                StateChange::Pay { from, amount, .. } | StateChange::Fee { from, amount } => (*from, *amount),
                _ => continue,
            };
            let delta: &mut i128 = deltas.entry(from).or_default();
            *delta -= i128::from(amount);
            let balance = i128::from(self.model.accounts[from].balance);
            require(*delta >= 0 || balance >= -*delta, Rule::T6Balance)?;
            if let StateChange::Pay { to, .. } = one {
                *deltas.entry(*to).or_default() += i128::from(amount);
            }
        }
        Ok(())
    }

    fn mosaics(&self, moves: &[StateChange]) -> Result<(), RuleViolation> {
        let mut deltas: BTreeMap<(AccountIndex, &MosaicId), i128> = BTreeMap::new();
        let mut is_levy = false;
        for one in moves {
            let StateChange::Mosaic { from, to, id, quantity } = one else {
                is_levy = false;
                continue;
            };
            let delta = deltas.entry((*from, id)).or_default();
            *delta -= i128::from(*quantity);
            let balance = self.model.token(id).map_or(0, |token| i128::from(token.of(*from)));
            let rule = if is_levy { Rule::T20Levy } else { Rule::T20Balance };
            require(*delta >= 0 || balance >= -*delta, rule)?;
            *deltas.entry((*to, id)).or_default() += i128::from(*quantity);
            // After a mosaic whose levy is in another mosaic, the next one is that levy.
            let levy = self.model.token(id).and_then(|token| token.definition.levy.as_ref());
            is_levy = !is_levy && levy.is_some_and(|levy| !levy.mosaic.is_xem());
        }
        Ok(())
    }

    fn multisig_signer(&self, transaction: &Transaction, signer: AccountIndex) -> Result<(), RuleViolation> {
        let signs = transaction.signature.is_some() && self.model.accounts[signer].is_multisig();
        let is_treasury = self.height == self.terms.forks.treasury;
        let is_listed = || is_treasury && self.treasury[0].contains(&transaction.hash());
        require(!signs || is_listed(), Rule::T9)
    }

    /// Returns whether the links of an account allow it to take part in transactions.
    fn is_usable(&self, who: AccountIndex) -> bool {
        let account = &self.model.accounts[who];
        let is_owner_side = account.links.last().is_none_or(|link| link.is_owner);
        if self.height < self.terms.forks.redefinition {
            return is_owner_side;
        }
        let is_over = account
            .link_state(self.height, self.terms.rewrite_limit)
            .is_none_or(|standing| !standing.is_owner && standing.mode == LinkMode::Deactivate && !standing.is_recent);
        is_owner_side || is_over
    }

    fn remotes(&self, transaction: &Transaction, signer: AccountIndex) -> Result<(), RuleViolation> {
        require(self.is_usable(signer), Rule::T8Signer)?;
        if matches!(transaction.body, Body::ImportanceTransfer(_)) {
            return Ok(());
        }
        let rule = if transaction.inner().is_some() { Rule::T8Inner } else { Rule::T8Other };
        require(self.other_participants(transaction).into_iter().all(|who| self.is_usable(who)), rule)
    }

    /// Returns the accounts of a transaction except its signer.
    fn other_participants(&self, transaction: &Transaction) -> Vec<AccountIndex> {
        let signer = self.key_ring.of_key(&transaction.signer);
        match &transaction.body {
            Body::Transfer(body) => vec![self.key_ring.of_address(&body.recipient)],
            Body::ImportanceTransfer(body) => vec![self.key_ring.of_key(&body.remote)],
            Body::AggregateModification(body) => {
                body.modifications.iter().map(|one| self.key_ring.of_key(&one.cosignatory)).collect()
            }
            Body::Multisig(_) => {
                let of_child = |child: &Transaction| {
                    let signer = self.key_ring.of_key(&child.signer);
                    std::iter::once(signer).chain(self.other_participants(child)).collect::<Vec<_>>()
                };
                transaction.children().flat_map(of_child).collect()
            }
            Body::ProvisionNamespace(body) => vec![self.key_ring.of_address(&body.rental_fee_sink)],
            Body::MosaicDefinitionCreation(body) => {
                let levy = body.definition.levy.as_ref().map(|levy| self.key_ring.of_address(&levy.recipient));
                let sink = self.key_ring.of_address(&body.creation_fee_sink);
                [sink].into_iter().chain(levy.filter(|who| *who != signer)).collect()
            }
            Body::Cosignature(_) | Body::MosaicSupplyChange(_) => Vec::new(),
        }
    }
}
