//! An oracle: the rules for transactions implemented from the text of the protocol, independently of the program's.

use std::collections::BTreeMap;

use nisd::model::transaction::{LinkMode, entity_version, wire_network};
use nisd::model::{Body, Hash256, MosaicId, NetworkByte, Transaction};

use super::model::{Model, Move};
use super::people::{CREATION, NEMESIS, People, RENTAL, Who};
use super::rule::{Rule, Ruling, require};
use super::terms::Terms;

const DAY: i32 = 86_400;
/// The last timestamp to which a day can be added.
const LAST_WITH_A_DAY: i32 = i32::MAX - DAY;
/// Seconds by which a timestamp may be ahead.
const AHEAD: i32 = 10;
/// Maximum fee of a cosignature in micro-units.
const MOST_OF_COSIGNATURE: u64 = 1_000_000_000;

/// Purpose of a validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A block.
    Block,
    /// The mempool.
    Pool,
}

/// The oracle and its inputs.
#[derive(Clone, Copy)]
pub struct Court<'a> {
    pub people: &'a People,
    pub terms: &'a Terms,
    /// Required hashes of the treasury block, in order: the preferred set, and the alternative one.
    pub treasury: [&'a [Hash256]; 2],
    pub model: &'a Model,
    /// Height of the block.
    pub height: u64,
    /// Network time.
    pub now: i32,
    pub purpose: Purpose,
}

impl<'a> Court<'a> {
    /// Returns the effects of a transaction if it satisfies all rules for transactions.
    pub fn judge(&self, transaction: &Transaction) -> Result<Vec<Move>, Ruling> {
        let moves = self.judge_one(transaction)?;
        transaction.children().try_for_each(|child| self.judge_one(child).map(drop))?;
        let is_alone = matches!(transaction.body, Body::Cosignature(_)) && self.purpose == Purpose::Block;
        require(!is_alone, Rule::HazardAlone)?;
        let is_nested = transaction.inner().is_some_and(|inner| matches!(inner.body, Body::Cosignature(_)));
        require(!is_nested, Rule::HazardInner)?;
        Ok(moves)
    }

    fn judge_one(&self, transaction: &Transaction) -> Result<Vec<Move>, Ruling> {
        let signer = self.people.of_key(&transaction.signer);
        self.deadline(transaction)?; // T1
        self.fee(transaction, signer)?; // T2
        self.version(transaction)?; // T3
        require(transaction.timestamp.0 <= self.now.saturating_add(AHEAD), Rule::T4)?;
        require(signer != NEMESIS || self.height == self.terms.forks.treasury, Rule::T5)?;
        let moves = self.moves(transaction)?;
        self.currency(&moves)?; // T6
        require(wire_network(transaction.version) == self.people.network, Rule::T7)?;
        self.remotes(transaction, signer)?; // T8
        self.multisig_signer(transaction, signer)?; // T9
        match &transaction.body {
            Body::Transfer(body) => {
                self.message(body)?; // T10
                self.bag(body, signer)?; // T19
            }
            Body::ImportanceTransfer(body) => {
                self.importance_transfer(body.mode, signer, self.people.of_key(&body.remote))?; // T11
            }
            Body::Multisig(body) => {
                let account = self.people.of_key(&body.inner.signer);
                require(self.model.accounts[account].cosignatories.contains(&signer), Rule::T12)?;
                let is_later = self.height > self.terms.forks.treasury && self.people.network == NetworkByte::TESTNET;
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
            (_, Purpose::Pool) => {
                let is_live = transaction.self_and_children().all(|one| one.deadline.0 >= self.now);
                require(is_live, Rule::U1)?;
            }
            _ => {}
        }
        Ok(moves)
    }

    fn deadline(&self, transaction: &Transaction) -> Result<(), Ruling> {
        let (time, deadline) = (transaction.timestamp.0, transaction.deadline.0);
        require(time < deadline, Rule::T1Past)?;
        if time > LAST_WITH_A_DAY {
            return Err(Ruling::exception(Rule::T1Wraps, "time must be non-negative"));
        }
        require(deadline <= time + DAY, Rule::T1Future)
    }

    fn fee(&self, transaction: &Transaction, signer: Who) -> Result<(), Ruling> {
        if self.terms.ignore_fees || signer == NEMESIS {
            return Ok(());
        }
        let rule = [Rule::T2First, Rule::T2Second, Rule::T2Third][self.terms.era(self.height)];
        require(transaction.fee.0 >= self.least_fee(transaction)?, rule)?;
        let is_cosignature = matches!(transaction.body, Body::Cosignature(_));
        require(!is_cosignature || transaction.fee.0 <= MOST_OF_COSIGNATURE, Rule::T2Cosignature)
    }

    fn version(&self, transaction: &Transaction) -> Result<(), Ruling> {
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

    fn currency(&self, moves: &[Move]) -> Result<(), Ruling> {
        let mut deltas = BTreeMap::new();
        for one in moves {
            let (from, amount) = match one {
                Move::Pay { from, amount, .. } | Move::Fee { from, amount } => (*from, *amount),
                _ => continue,
            };
            let delta: &mut i128 = deltas.entry(from).or_default();
            *delta -= i128::from(amount);
            let balance = i128::from(self.model.accounts[from].balance);
            require(*delta >= 0 || balance >= -*delta, Rule::T6Balance)?;
            if let Move::Pay { to, .. } = one {
                *deltas.entry(*to).or_default() += i128::from(amount);
            }
        }
        Ok(())
    }

    fn mosaics(&self, moves: &[Move]) -> Result<(), Ruling> {
        let mut deltas: BTreeMap<(Who, &MosaicId), i128> = BTreeMap::new();
        let mut is_levy = false;
        for one in moves {
            let Move::Mosaic { from, to, id, quantity } = one else {
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

    fn multisig_signer(&self, transaction: &Transaction, signer: Who) -> Result<(), Ruling> {
        let signs = transaction.signature.is_some() && self.model.accounts[signer].is_multisig();
        let is_treasury = self.height == self.terms.forks.treasury;
        let is_listed = || is_treasury && self.treasury[0].contains(&transaction.hash());
        require(!signs || is_listed(), Rule::T9)
    }

    /// Returns whether the links of an account allow it to take part in transactions.
    fn is_usable(&self, who: Who) -> bool {
        let account = &self.model.accounts[who];
        let is_owner_side = account.links.last().is_none_or(|link| link.is_owner);
        if self.height < self.terms.forks.redefinition {
            return is_owner_side;
        }
        let is_over = account
            .standing(self.height, self.terms.rewrite_limit)
            .is_none_or(|standing| !standing.is_owner && standing.mode == LinkMode::Deactivate && !standing.is_recent);
        is_owner_side || is_over
    }

    fn remotes(&self, transaction: &Transaction, signer: Who) -> Result<(), Ruling> {
        require(self.is_usable(signer), Rule::T8Signer)?;
        if matches!(transaction.body, Body::ImportanceTransfer(_)) {
            return Ok(());
        }
        let rule = if transaction.inner().is_some() { Rule::T8Inner } else { Rule::T8Other };
        require(self.others(transaction).into_iter().all(|who| self.is_usable(who)), rule)
    }

    /// Returns the accounts of a transaction except its signer.
    fn others(&self, transaction: &Transaction) -> Vec<Who> {
        let signer = self.people.of_key(&transaction.signer);
        match &transaction.body {
            Body::Transfer(body) => vec![self.people.of_address(&body.recipient)],
            Body::ImportanceTransfer(body) => vec![self.people.of_key(&body.remote)],
            Body::AggregateModification(body) => {
                body.modifications.iter().map(|one| self.people.of_key(&one.cosignatory)).collect()
            }
            Body::Multisig(_) => {
                let of_child = |child: &Transaction| {
                    let signer = self.people.of_key(&child.signer);
                    std::iter::once(signer).chain(self.others(child)).collect::<Vec<_>>()
                };
                transaction.children().flat_map(of_child).collect()
            }
            Body::ProvisionNamespace(body) => vec![self.people.of_address(&body.rental_fee_sink)],
            Body::MosaicDefinitionCreation(body) => {
                let levy = body.definition.levy.as_ref().map(|levy| self.people.of_address(&levy.recipient));
                let sink = self.people.of_address(&body.creation_fee_sink);
                [sink].into_iter().chain(levy.filter(|who| *who != signer)).collect()
            }
            Body::Cosignature(_) | Body::MosaicSupplyChange(_) => Vec::new(),
        }
    }
}
