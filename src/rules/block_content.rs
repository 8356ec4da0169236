//! Rules about transactions that do not go together in one block.

use std::collections::BTreeSet;

use super::result::ValidationResult::{FailureConflictingMosaicCreation, FailureConflictingMultisigModification};
use super::result::{Verdict, require};
use crate::model::{Body, MosaicId, Transaction};

/// The rules that hold already while a new block is being filled.
pub fn check_block_content<'t>(transactions: impl IntoIterator<Item = &'t Transaction> + Clone) -> Verdict {
    one_modification_per_account(transactions.clone())?;
    mosaics_do_not_conflict(transactions)
}

/// B10: no account changes its cosignatories twice.
pub fn one_modification_per_account<'t>(transactions: impl IntoIterator<Item = &'t Transaction>) -> Verdict {
    let mut changed = BTreeSet::new();
    for transaction in transactions.into_iter().flat_map(Transaction::self_and_children) {
        let is_change = matches!(transaction.body, Body::AggregateModification(_));
        require(!is_change || changed.insert(transaction.signer.0), FailureConflictingMultisigModification)?;
    }
    Ok(())
}

/// B11: no mosaic is used, nor its namespace rented, in the block that defines it, whatever the order.
pub fn mosaics_do_not_conflict<'t>(transactions: impl IntoIterator<Item = &'t Transaction> + Clone) -> Verdict {
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
