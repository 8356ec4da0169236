//! Rules for multisig accounts.

use std::collections::BTreeSet;

use super::context::TransactionContext;
use super::result::ValidationResult::{
    FailureMultisigAccountCannotBeCosigner, FailureMultisigAlreadyACosigner, FailureMultisigInvalidCosigners,
    FailureMultisigMinCosignatoriesOutOfRange, FailureMultisigModificationMultipleDeletes,
    FailureMultisigModificationRedundantModifications, FailureMultisigNotACosigner, FailureTooManyMultisigCosigners,
    FailureTransactionNotAllowedForMultisig,
};
use super::result::{RuleResult, require};
use crate::crypto::PublicKey;
use crate::model::network::{MOSAIC_SINK, NAMESPACE_SINK};
use crate::model::transaction::{AggregateModification, ModificationKind, Multisig};
use crate::model::{Address, Body, NetworkByte, Transaction};
use crate::state::StateView;

/// Maximum number of cosignatories of an account.
const MAX_COSIGNATORIES: i64 = 32;

/// T9: a multisig account signs no transaction itself, except those listed for the treasury re-issuance.
pub fn multisig_account_does_not_sign<V: StateView>(subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    let TransactionContext { transaction, signer, context: case } = subject;
    if transaction.signature.is_none() || !case.is_multisig(signer)? {
        return Ok(());
    }
    let is_listed = || case.forks().treasury_hashes.contains(&transaction.hash());
    require(case.is_treasury() && is_listed(), FailureTransactionNotAllowedForMultisig)
}

/// T12: the signer of a multisig transaction is a cosignatory.
pub fn initiator_is_cosignatory<V: StateView>(body: &Multisig, subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    let account = body.inner.signer_address(subject.context.network.byte);
    let cosignatories = subject.context.state.cosignatories(&account)?;
    require(cosignatories.contains(&subject.signer), FailureMultisigNotACosigner)
}

/// T13: the fee sinks spend nothing after the treasury re-issuance. NIS1 compares with their testnet addresses on every
/// network, so the rule applies on testnet only.
pub fn fee_sink_cannot_spend<V: StateView>(body: &Multisig, subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    let context = subject.context;
    let in_force =
        context.network.byte == NetworkByte::TESTNET && context.height.0 > context.forks().treasury_reissuance;
    let is_sink = [NAMESPACE_SINK, MOSAIC_SINK].contains(&body.inner.signer);
    require(!(in_force && is_sink), FailureTransactionNotAllowedForMultisig)
}

/// T14: every modification is possible and has an effect.
pub fn modifications_are_possible<V: StateView>(
    body: &AggregateModification,
    subject: &TransactionContext<'_, '_, V>,
) -> RuleResult {
    let (context, account) = (subject.context, &subject.signer);
    let cosignatories = context.state.cosignatories(account)?;
    let (mut added, mut deleted) = (BTreeSet::new(), BTreeSet::new());
    for modification in &body.modifications {
        let other = Address::from_public_key(&modification.cosignatory, context.network.byte);
        let is_cosignatory = cosignatories.contains(&other);
        match modification.kind {
            ModificationKind::Add => {
                require(!is_cosignatory, FailureMultisigAlreadyACosigner)?;
                let is_fit = other != *account && !context.is_multisig(&other)?;
                require(is_fit, FailureMultisigAccountCannotBeCosigner)?;
                added.insert(other);
            }
            ModificationKind::Delete => {
                require(is_cosignatory, FailureMultisigNotACosigner)?;
                deleted.insert(other);
            }
            ModificationKind::Unknown => {}
        }
    }
    require(deleted.len() <= 1, FailureMultisigModificationMultipleDeletes)?;
    let distinct = added.len() + deleted.len();
    require(body.modifications.len() == distinct, FailureMultisigModificationRedundantModifications)?;
    require(!context.state.is_cosignatory(account)?, FailureMultisigAccountCannotBeCosigner)
}

/// T15: the result has at most 32 cosignatories and requires no more signatures than there are cosignatories.
pub fn counts_are_in_range<V: StateView>(
    body: &AggregateModification,
    subject: &TransactionContext<'_, '_, V>,
) -> RuleResult {
    let state = subject.context.state;
    let count = |kind| body.modifications.iter().filter(|m| m.kind == kind).count() as i64;
    let before = state.cosignatories(&subject.signer)?.len() as i64;
    let cosignatories = before + count(ModificationKind::Add) - count(ModificationKind::Delete);
    let needed = state.account(&subject.signer)?.min_cosignatories as i32;
    let needed = i64::from(needed.wrapping_add(body.min_cosignatories_change.unwrap_or(0)));
    require((0..=cosignatories).contains(&needed), FailureMultisigMinCosignatoriesOutOfRange)?;
    require(cosignatories <= MAX_COSIGNATORIES, FailureTooManyMultisigCosigners)
}

/// T21: enough cosignatories have signed, and nobody else. A cosignatory that is being deleted does not count.
pub fn signatures_are_complete<V: StateView>(body: &Multisig, subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    let context = subject.context;
    let address = |key: &PublicKey| Address::from_public_key(key, context.network.byte);
    let account = address(&body.inner.signer);
    let cosignatories: BTreeSet<Address> = context.state.cosignatories(&account)?.into_iter().collect();
    let mut signers: BTreeSet<Address> = body.cosignatures.iter().map(|one| address(&one.signer)).collect();
    signers.insert(subject.signer);
    require(signers.is_subset(&cosignatories), FailureMultisigInvalidCosigners)?;
    let deleted: BTreeSet<Address> = deleted_cosignatories(&body.inner).map(address).collect();
    let signed = signers.difference(&deleted).count();
    // All signers are cosignatories, so comparing counts suffices.
    let needed = match context.state.account(&account)?.min_cosignatories as usize {
        needed if needed == 0 || needed == cosignatories.len() => cosignatories.difference(&deleted).count(),
        needed => needed,
    };
    require(signed >= needed, FailureMultisigInvalidCosigners)
}

fn deleted_cosignatories(inner: &Transaction) -> impl Iterator<Item = &PublicKey> {
    let modifications = match &inner.body {
        Body::AggregateModification(body) => body.modifications.as_slice(),
        _ => &[],
    };
    modifications.iter().filter(|m| m.kind == ModificationKind::Delete).map(|m| &m.cosignatory)
}
