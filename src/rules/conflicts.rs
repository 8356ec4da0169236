//! Rules on conflicts between transactions of one block.

use std::collections::BTreeSet;

use super::result::ValidationResult::{FailureConflictingMosaicCreation, FailureConflictingMultisigModification};
use super::result::{Rejection, RuleResult, require};
use crate::model::{Body, MosaicId, NamespaceId, Transaction};

/// Accumulated conflict keys of the transactions of a block that is being filled. Checking the next transaction costs
/// only that transaction's own size.
#[derive(Default)]
pub struct ConflictSet {
    /// Public keys of the accounts whose cosignatories change.
    changed: BTreeSet<[u8; 32]>,
    defined: BTreeSet<MosaicId>,
    /// Namespaces of the mosaics that are defined.
    defined_in: BTreeSet<NamespaceId>,
    /// Mosaics that are transferred or whose supply changes.
    used: BTreeSet<MosaicId>,
    rented: BTreeSet<NamespaceId>,
}

impl ConflictSet {
    /// Returns the conflict keys of a transaction. Fails if it conflicts with the others under B10 or B11.
    pub fn conflict_keys(&self, transaction: &Transaction) -> Result<ConflictSet, Rejection> {
        one_modification_per_account([transaction])?;
        let mut own = ConflictSet::default();
        transaction.self_and_children().for_each(|one| own.add_keys(one));
        require(self.changed.is_disjoint(&own.changed), FailureConflictingMultisigModification)?;
        let conflicts = own.conflicts_with(&own) || own.conflicts_with(self) || self.conflicts_with(&own);
        require(!conflicts, FailureConflictingMosaicCreation)?;
        Ok(own)
    }

    /// Adds the conflict keys of a transaction.
    pub fn add(&mut self, addition: ConflictSet) {
        self.changed.extend(addition.changed);
        self.defined.extend(addition.defined);
        self.defined_in.extend(addition.defined_in);
        self.used.extend(addition.used);
        self.rented.extend(addition.rented);
    }

    fn add_keys(&mut self, transaction: &Transaction) {
        match &transaction.body {
            Body::AggregateModification(_) => self.changed.extend([transaction.signer.0]),
            Body::Transfer(body) => self.used.extend(body.mosaics.iter().map(|mosaic| mosaic.id.clone())),
            Body::MosaicSupplyChange(body) => self.used.extend([body.mosaic.clone()]),
            Body::ProvisionNamespace(body) => self.rented.extend(body.name()),
            Body::MosaicDefinitionCreation(body) => {
                self.defined_in.extend([body.definition.id.namespace.clone()]);
                self.defined.extend([body.definition.id.clone()]);
            }
            _ => {}
        }
    }

    /// Returns whether `others` use or rent something that is defined here.
    fn conflicts_with(&self, others: &ConflictSet) -> bool {
        !self.defined.is_disjoint(&others.used) || !self.defined_in.is_disjoint(&others.rented)
    }
}

/// B10: no account changes its cosignatories twice.
pub fn one_modification_per_account<'t>(transactions: impl IntoIterator<Item = &'t Transaction>) -> RuleResult {
    let mut changed = BTreeSet::new();
    for transaction in transactions.into_iter().flat_map(Transaction::self_and_children) {
        let is_change = matches!(transaction.body, Body::AggregateModification(_));
        require(!is_change || changed.insert(transaction.signer.0), FailureConflictingMultisigModification)?;
    }
    Ok(())
}

/// B11: no mosaic is used, and its namespace is not rented, in the block that defines it, whatever the order.
pub fn mosaics_do_not_conflict<'t>(transactions: impl IntoIterator<Item = &'t Transaction> + Clone) -> RuleResult {
    let all = || transactions.clone().into_iter().flat_map(Transaction::self_and_children);
    let defined: BTreeSet<&MosaicId> = all().filter_map(defined_mosaic).collect();
    let conflicts = |transaction: &Transaction| match &transaction.body {
        Body::Transfer(body) => body.mosaics.iter().any(|mosaic| defined.contains(&mosaic.id)),
        Body::MosaicSupplyChange(body) => defined.contains(&body.mosaic),
        Body::ProvisionNamespace(body) => {
            body.name().is_ok_and(|name| defined.iter().any(|mosaic| mosaic.namespace == name))
        }
        _ => false,
    };
    require(defined.is_empty() || !all().any(conflicts), FailureConflictingMosaicCreation)
}

fn defined_mosaic(transaction: &Transaction) -> Option<&MosaicId> {
    match &transaction.body {
        Body::MosaicDefinitionCreation(body) => Some(&body.definition.id),
        _ => None,
    }
}
