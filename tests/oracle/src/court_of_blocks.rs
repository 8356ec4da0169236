//! Rules for a block with valid proof and signatures.

use std::collections::BTreeSet;

use nisd::model::transaction::{LinkMode, entity_version, wire_network};
use nisd::model::{Block, BlockKind, Body, Hash256, Transaction};

use super::court::Oracle;
use super::model::{Account, Model};
use super::people::AccountIndex;
use super::rule::{Rule, RuleViolation, require};

impl Oracle<'_> {
    /// Returns the state after a block if it is valid.
    pub fn validate_block(&self, block: &Block) -> Result<Model, RuleViolation> {
        self.validate_next(block, &mut BTreeSet::new())
    }

    /// Like [`Court::judge_block`], within a chain part; `seen` has the hashes in its blocks so far.
    pub fn validate_next(&self, block: &Block, seen: &mut BTreeSet<Hash256>) -> Result<Model, RuleViolation> {
        let mut after = self.model.clone();
        for transaction in &block.transactions {
            let hashes: Vec<Hash256> = transaction.self_and_children().map(Transaction::hash).collect();
            let rule = if seen.contains(&hashes[0]) { Rule::TwiceInPart } else { Rule::ChildTwiceInPart };
            require(!hashes.iter().any(|hash| seen.contains(hash)), rule)?;
            let moves = Oracle { model: &after, ..*self }.validate(transaction)?;
            moves.iter().for_each(|one| after.apply(one, self.height, self.terms));
            seen.extend(hashes);
        }
        let signer = self.key_ring.of_key(&block.signer);
        Oracle { model: &after, ..*self }.block_rules(block, signer)?;
        let fees = block.transactions.iter().flat_map(Transaction::self_and_children).map(|one| one.fee.0).sum();
        after.proofs.advance(&block.signer, block.timestamp.0, self.terms);
        after.finish_block(signer, self.height, block.timestamp.0, fees, self.terms);
        for one in block.transactions.iter().flat_map(Transaction::self_and_children) {
            after.hashes.insert(one.hash(), one.timestamp.0);
        }
        Ok(after)
    }

    /// Rules B1 to B11.
    fn block_rules(&self, block: &Block, signer: AccountIndex) -> Result<(), RuleViolation> {
        let transactions = &block.transactions;
        let all: Vec<&Transaction> = transactions.iter().flat_map(Transaction::self_and_children).collect();
        require(block.timestamp.0 <= self.now.saturating_add(10), Rule::B1)?;
        require(transactions.iter().all(|one| one.deadline >= block.timestamp), Rule::B2)?;
        let account = &self.model.accounts[signer];
        require(self.may_sign(account), Rule::B3Status)?;
        require(all.len() as u64 <= self.terms.per_block, Rule::B4)?;
        let owner = account.fee_recipient(self.height, self.terms.rewrite_limit);
        for one in transactions {
            let pays = self.key_ring.of_key(&one.signer);
            require(pays != signer, Rule::B5Signer)?;
            require(Some(pays) != owner, Rule::B5Owner)?;
        }
        // A mere duplicate has lower priority than any later failure.
        let known = self.are_new(transactions); // B6
        require(wire_network(block.version) == self.key_ring.network, Rule::B7)?;
        require(entity_version(block.version) == 1, Rule::B8)?;
        let hashes: Vec<Hash256> = transactions.iter().map(Transaction::hash).collect();
        require(self.height != self.terms.forks.treasury || self.treasury.contains(&&hashes[..]), Rule::B9)?;
        let mut changed = BTreeSet::new();
        let mut changes = all.iter().filter(|one| matches!(one.body, Body::AggregateModification(_)));
        require(changes.all(|one| changed.insert(one.signer.0)), Rule::B10)?;
        mosaics_fit(&all)?; // B11
        known?;
        require(block.kind == BlockKind::Regular, Rule::HazardKind)
    }

    pub fn may_sign(&self, account: &Account) -> bool {
        let Some(standing) = account.link_state(self.height, self.terms.rewrite_limit) else { return true };
        let is_active = standing.mode == LinkMode::Activate;
        match (standing.is_owner, is_active) {
            (true, true) | (false, false) => standing.is_recent,
            (true, false) | (false, true) => !standing.is_recent,
        }
    }

    fn are_new(&self, transactions: &[Transaction]) -> Result<(), RuleViolation> {
        for one in transactions {
            require(!self.model.hashes.contains_key(&one.hash()), Rule::B6)?;
            let is_new = |child: &Transaction| !self.model.hashes.contains_key(&child.hash());
            require(one.children().all(is_new), Rule::B6Child)?;
        }
        Ok(())
    }
}

fn mosaics_fit(all: &[&Transaction]) -> Result<(), RuleViolation> {
    let defined = all.iter().filter_map(|one| match &one.body {
        Body::MosaicDefinitionCreation(body) => Some(&body.definition.id),
        _ => None,
    });
    let defined: BTreeSet<_> = defined.collect();
    for one in all {
        match &one.body {
            Body::MosaicSupplyChange(body) => require(!defined.contains(&body.mosaic), Rule::B11Supply)?,
            Body::Transfer(body) => {
                let is_used = body.mosaics.iter().any(|mosaic| !mosaic.id.is_xem() && defined.contains(&mosaic.id));
                require(!is_used, Rule::B11Transfer)?;
            }
            Body::ProvisionNamespace(body) => {
                let name = body.name().expect("a name that was read already");
                require(!defined.iter().any(|id| id.namespace == name), Rule::B11Namespace)?;
            }
            _ => {}
        }
    }
    Ok(())
}
