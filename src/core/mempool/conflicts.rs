//! With which other transaction one of a replaced block conflicts.

use super::{ChainSnapshot, MempoolContent, MempoolEntry};
use crate::budget::Budget;
use crate::model::{Address, Body, Hash256, Height, MosaicId, NamespaceId, Transaction};
use crate::rules::ValidationResult;
use crate::state::{self, AccountTxCursor, Direction};
use crate::store::{Overlay, Result, StoreError};

/// Maximum number of transactions of an account that are read to find the one with which another conflicts.
const MAX_SEARCHED: usize = 32;
/// Work units for reading one of them from a block.
const UNITS_PER_SEARCHED: u32 = 20;

/// A transaction with which another one conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Its hash.
    pub hash: Hash256,
    /// Height of its block; `None` if it is in the mempool.
    pub height: Option<Height>,
}

/// What a transaction of a replaced block and the one with which it conflicts have in common.
#[derive(PartialEq)]
enum Contested {
    /// The funds of an account.
    Funds,
    /// The remote account of an account, or the account that it is remote of.
    Importance,
    /// The cosignatories of an account.
    Cosignatories,
    /// The definition and supply of a mosaic.
    Mosaic(MosaicId),
    /// The lease of a namespace.
    Namespace(NamespaceId),
}

impl Contested {
    /// Returns what an invalid transaction contests by its result; `None` if its result follows from no other
    /// transaction, or from one that is missing.
    fn of(acting: &Transaction, result: ValidationResult) -> Option<Contested> {
        use ValidationResult::*;
        match result {
            FailureInsufficientBalance => Some(Contested::Funds),
            FailureNamespaceOwnerConflict => match &acting.body {
                Body::MosaicDefinitionCreation(body) => {
                    Some(Contested::Namespace(body.definition.id.namespace.clone()))
                }
                _ => Contested::changed_by(acting),
            },
            FailureNamespaceAlreadyExists
            | FailureNamespaceProvisionTooEarly
            | FailureMosaicModificationNotAllowed
            | FailureMosaicSupplyImmutable
            | FailureMosaicMaxSupplyExceeded
            | FailureMosaicSupplyNegative => Contested::changed_by(acting),
            FailureImportanceTransferInProgress
            | FailureImportanceTransferNeedsToBeDeactivated
            | FailureImportanceTransferIsNotActive
            | FailureTransactionNotAllowedForRemote => Some(Contested::Importance),
            FailureMultisigNotACosigner
            | FailureTransactionNotAllowedForMultisig
            | FailureMultisigAlreadyACosigner
            | FailureTooManyMultisigCosigners
            | FailureMultisigMinCosignatoriesOutOfRange => Some(Contested::Cosignatories),
            _ => None,
        }
    }

    /// Returns what a transaction changes besides funds.
    fn changed_by(acting: &Transaction) -> Option<Contested> {
        match &acting.body {
            Body::ImportanceTransfer(_) => Some(Contested::Importance),
            Body::AggregateModification(_) => Some(Contested::Cosignatories),
            Body::MosaicDefinitionCreation(body) => Some(Contested::Mosaic(body.definition.id.clone())),
            Body::MosaicSupplyChange(body) => Some(Contested::Mosaic(body.mosaic.clone())),
            Body::ProvisionNamespace(body) => body.name().ok().map(Contested::Namespace),
            Body::Transfer(_) | Body::Multisig(_) | Body::Cosignature(_) => None,
        }
    }

    /// Returns whether another transaction of the same account contests the same.
    fn is_contested_by(&self, other: &Transaction) -> bool {
        match (self, Contested::changed_by(other.inner().unwrap_or(other))) {
            (Contested::Funds, _) => true,
            // A lease of the root decides about all names below it.
            (Contested::Namespace(name), Some(Contested::Namespace(other))) => {
                other == *name || other.is_root() && other.root() == name.root()
            }
            (contested, changed) => changed.as_ref() == Some(contested),
        }
    }
}

impl MempoolContent {
    /// Returns the newest transaction with which one of a replaced block conflicts that is invalid with this result: one
    /// that its account has above the height `common` in the chain, or else in the mempool, and that spends the same
    /// funds or changes the same; of a namespace that another account has rented, one of that account.
    pub(super) fn conflict(
        &mut self,
        root: &MempoolEntry,
        result: ValidationResult,
        common: Height,
        confirmed: &ChainSnapshot<'_>,
        budget: &mut Budget,
    ) -> Result<Option<Conflict>> {
        if result == ValidationResult::Neutral {
            // Another transaction around the same inner one waits.
            let other = root.hashes.children.iter().find_map(|child| self.by_hash(child));
            return Ok(other.map(|other| Conflict { hash: other.hashes.own, height: None }));
        }
        let acting = root.transaction.inner().unwrap_or(&root.transaction);
        let Some(contested) = Contested::of(acting, result) else { return Ok(None) };
        let account = match &contested {
            Contested::Namespace(name) => {
                let overlay = Overlay::new(confirmed.snapshot, &mut self.changes);
                state::leases(&overlay, name.root())?.last().map_or(root.fee_payer, |lease| lease.owner)
            }
            _ => root.fee_payer,
        };
        match confirmed_conflict(&contested, &account, common, confirmed, budget)? {
            Some(found) => Ok(Some(found)),
            None => Ok(self.unconfirmed_conflict(&contested, &account)),
        }
    }

    fn unconfirmed_conflict(&self, contested: &Contested, account: &Address) -> Option<Conflict> {
        let entries = self.youngest(&self.by_age, account).filter_map(|(_, number)| self.entries.get(&number));
        let mut paid = entries.take(MAX_SEARCHED).filter(|entry| entry.fee_payer == *account);
        let found = paid.find(|entry| contested.is_contested_by(&entry.transaction))?;
        Some(Conflict { hash: found.hashes.own, height: None })
    }
}

fn confirmed_conflict(
    contested: &Contested,
    account: &Address,
    common: Height,
    confirmed: &ChainSnapshot<'_>,
    budget: &mut Budget,
) -> Result<Option<Conflict>> {
    let mut list = AccountTxCursor::new(confirmed.snapshot, account, Direction::Outgoing, u64::MAX)?;
    for _ in 0..MAX_SEARCHED {
        let Some((_, location)) = list.peek().filter(|(_, location)| location.height > common) else { break };
        budget.charge(UNITS_PER_SEARCHED);
        let raw = confirmed.transaction(location)?.ok_or(StoreError::Damaged("the location of a transaction"))?;
        let found = raw.read()?;
        // The list of a cosignatory has the transactions of its multisig accounts, too.
        let acting = found.inner().unwrap_or(&found);
        if acting.signer_address(confirmed.network.byte) == *account && contested.is_contested_by(&found) {
            return Ok(Some(Conflict { hash: raw.hash(&found), height: Some(location.height) }));
        }
        list.advance(confirmed.snapshot)?;
    }
    Ok(None)
}
