//! Rules about balances, remote (delegated harvesting) accounts and multisig accounts.

use std::collections::{BTreeMap, BTreeSet};

use super::result::ValidationResult::*;
use super::result::{RuleResult, require};
use super::{TransactionContext, ValidationContext};
use crate::crypto::PublicKey;
use crate::model::network::{MOSAIC_SINK, NAMESPACE_SINK};
use crate::model::transaction::{AggregateModification, ImportanceTransfer, LinkMode, ModificationKind, Multisig};
use crate::model::{Address, Body, NetworkByte, Transaction};
use crate::state::{self, Account, Effect, LinkPhase, LinkRole, RemoteStatus};
use crate::store::Result;

/// Maximum number of cosignatories of an account.
const MAX_COSIGNATORIES: i64 = 32;

/// T6: no currency balance becomes negative at any transfer. Amounts received later do not count.
pub fn currency_suffices(effects: &[Effect<'_>], context: &ValidationContext<'_>) -> RuleResult {
    let payments = effects.iter().filter_map(|effect| match effect {
        Effect::Transfer { from, to, amount } => Some((from, Some(to), *amount)),
        Effect::Debit { from, amount } => Some((from, None, *amount)),
        _ => None,
    });
    balances_suffice(payments, |payer| Ok(context.account(payer)?.balance.total()))
}

/// T20: the same for other mosaics.
pub fn mosaics_suffice(effects: &[Effect<'_>], context: &ValidationContext<'_>) -> RuleResult {
    let payments = effects.iter().filter_map(|effect| match effect {
        Effect::MosaicTransfer { from, to, mosaic, quantity } => {
            Some(((from, mosaic.as_ref()), Some((to, mosaic.as_ref())), *quantity))
        }
        _ => None,
    });
    balances_suffice(payments, |(payer, mosaic)| state::mosaic_balance(&context.state, mosaic, payer))
}

/// Requires that every payer has enough when it pays. Payments are payer, recipient and amount, in their order; a balance
/// is read when first needed.
fn balances_suffice<K: Ord + Copy>(
    payments: impl Iterator<Item = (K, Option<K>, u64)>,
    read: impl Fn(K) -> Result<u64>,
) -> RuleResult {
    let mut accounts: BTreeMap<K, (i128, Option<u64>)> = BTreeMap::new();
    for (payer, recipient, amount) in payments {
        let (change, balance) = accounts.entry(payer).or_default();
        *change -= i128::from(amount);
        if *change < 0 {
            let balance = match *balance {
                Some(balance) => balance,
                None => *balance.insert(read(payer)?),
            };
            require(i128::from(balance) + *change >= 0, FailureInsufficientBalance)?;
        }
        if let Some(recipient) = recipient {
            accounts.entry(recipient).or_default().0 += i128::from(amount);
        }
    }
    Ok(())
}

/// T8: neither the signer nor another account of the transaction is a remote.
pub fn no_remote_takes_part(subject: &TransactionContext<'_>) -> RuleResult {
    let TransactionContext { transaction, context, .. } = subject;
    let accounts = participants(transaction, context.network.byte);
    // An importance transfer names the account that is or becomes a remote.
    let is_link = matches!(transaction.body, Body::ImportanceTransfer(_));
    for account in accounts.iter().take(if is_link { 1 } else { usize::MAX }) {
        require(is_usable(account, context)?, FailureTransactionNotAllowedForRemote)?;
    }
    Ok(())
}

/// Returns whether an account may take part: remotes may not; former remotes may since `mosaic_redefinition`.
fn is_usable(account: &Address, context: &ValidationContext<'_>) -> Result<bool> {
    let account = context.account(account)?;
    if account.links.last().is_none_or(|link| link.role == LinkRole::Owner) {
        return Ok(true);
    }
    let status = context.remote_status(&account);
    let is_over = matches!(status, None | Some((LinkRole::Remote, LinkPhase::Inactive)));
    Ok(is_over && context.is_since(context.forks().mosaic_redefinition))
}

/// Returns all accounts of a transaction, its signer first.
pub fn participants(transaction: &Transaction, network: NetworkByte) -> Vec<Address> {
    let mut accounts = vec![transaction.signer_address(network)];
    transaction.add_recipients(network, &mut accounts);
    accounts.extend(transaction.children().flat_map(|child| participants(child, network)));
    accounts
}

/// B3: returns whether an account with this status may sign a block.
pub fn may_sign_block(status: RemoteStatus) -> bool {
    use LinkPhase::{Activating, Active, Deactivating, Inactive};
    match status {
        None => true,
        Some((LinkRole::Owner, phase)) => matches!(phase, Activating | Inactive),
        Some((LinkRole::Remote, phase)) => matches!(phase, Active | Deactivating),
    }
}

/// T11: the importance link may be activated or deactivated.
pub fn link_may_change(body: &ImportanceTransfer, subject: &TransactionContext<'_>) -> RuleResult {
    let context = subject.context;
    let address = Address::from_public_key(&body.remote, context.network.byte);
    let (owner, remote) = (context.account(&subject.signer)?, context.account(&address)?);
    let is_recent = |account: &Account| {
        let last = account.links.last();
        last.is_some_and(|link| context.height.0.saturating_sub(link.height.0) < context.chain().rewrite_limit)
    };
    require(!is_recent(&remote), FailureImportanceTransferInProgress)?;
    // A remote that is linked to another owner must be free.
    if let Some(link) = remote.links.last()
        && link.role == LinkRole::Remote
        && link.linked_address != subject.signer
    {
        let is_tied = matches!(
            context.remote_status(&remote),
            Some((LinkRole::Remote, LinkPhase::Activating | LinkPhase::Active | LinkPhase::Deactivating))
        );
        require(!is_tied, FailureImportanceTransferNeedsToBeDeactivated)?;
    }
    require(!is_recent(&owner), FailureImportanceTransferInProgress)?;
    let is_active = owner.links.last().is_some_and(|link| link.mode == LinkMode::Activate);
    match body.mode {
        LinkMode::Activate => {
            require(!is_in_use(&address, &remote, context)?, FailureDestinationAccountInUse)?;
            require(!is_active, FailureImportanceTransferNeedsToBeDeactivated)
        }
        LinkMode::Deactivate => require(is_active, FailureImportanceTransferIsNotActive),
    }
}

/// Returns whether an account owns something or takes part in a multisig account, and so cannot become a remote.
fn is_in_use(address: &Address, account: &Account, context: &ValidationContext<'_>) -> Result<bool> {
    let state = &context.state;
    if account.balance.total() > 0 {
        return Ok(true);
    }
    Ok(context.is_since(context.forks().remote_account)
        && (state::holds_mosaic(state, address)?
            || state::owns_namespace(state, address)?
            || state::is_multisig(state, address)?
            || state::is_cosignatory(state, address)?))
}

/// T9: a multisig account signs no transaction itself, except those listed for the treasury re-issuance.
pub fn multisig_account_does_not_sign(subject: &TransactionContext<'_>) -> RuleResult {
    let TransactionContext { transaction, signer, context } = subject;
    if transaction.signature.is_none() || !state::is_multisig(&context.state, signer)? {
        return Ok(());
    }
    let is_listed = || context.forks().treasury_hashes.contains(&transaction.hash());
    require(context.is_treasury() && is_listed(), FailureTransactionNotAllowedForMultisig)
}

/// T12: the signer of a multisig transaction is a cosignatory.
pub fn initiator_is_cosignatory(body: &Multisig, subject: &TransactionContext<'_>) -> RuleResult {
    let account = body.inner.signer_address(subject.context.network.byte);
    require(subject.context.cosignatories(&account)?.contains(&subject.signer), FailureMultisigNotACosigner)
}

/// T13: the fee sinks spend nothing after the treasury re-issuance. NIS1 compares with their testnet addresses on every
/// network, so the rule applies on testnet only.
pub fn fee_sink_cannot_spend(body: &Multisig, subject: &TransactionContext<'_>) -> RuleResult {
    let context = subject.context;
    let in_force =
        context.network.byte == NetworkByte::TESTNET && context.height.0 > context.forks().treasury_reissuance;
    let is_sink = [NAMESPACE_SINK, MOSAIC_SINK].contains(&body.inner.signer);
    require(!(in_force && is_sink), FailureTransactionNotAllowedForMultisig)
}

/// T14: every modification is possible and has an effect.
pub fn modifications_are_possible(body: &AggregateModification, subject: &TransactionContext<'_>) -> RuleResult {
    let (context, account) = (subject.context, &subject.signer);
    let cosignatories = context.cosignatories(account)?;
    let (mut added, mut deleted) = (BTreeSet::new(), BTreeSet::new());
    for modification in &body.modifications {
        let other = Address::from_public_key(&modification.cosignatory, context.network.byte);
        let is_cosignatory = cosignatories.contains(&other);
        match modification.kind {
            ModificationKind::Add => {
                require(!is_cosignatory, FailureMultisigAlreadyACosigner)?;
                let is_fit = other != *account && !state::is_multisig(&context.state, &other)?;
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
    require(!state::is_cosignatory(&context.state, account)?, FailureMultisigAccountCannotBeCosigner)
}

/// T15: the result has at most 32 cosignatories and requires no more signatures than there are cosignatories.
pub fn counts_are_in_range(body: &AggregateModification, subject: &TransactionContext<'_>) -> RuleResult {
    let count = |kind| body.modifications.iter().filter(|m| m.kind == kind).count() as i64;
    let before = subject.context.cosignatories(&subject.signer)?.len() as i64;
    let cosignatories = before + count(ModificationKind::Add) - count(ModificationKind::Delete);
    let needed = subject.context.account(&subject.signer)?.min_cosignatories as i32;
    let needed = i64::from(needed.wrapping_add(body.min_cosignatories_change.unwrap_or(0)));
    require((0..=cosignatories).contains(&needed), FailureMultisigMinCosignatoriesOutOfRange)?;
    require(cosignatories <= MAX_COSIGNATORIES, FailureTooManyMultisigCosigners)
}

/// T21: enough cosignatories have signed, and nobody else. A cosignatory that is being deleted does not count.
pub fn signatures_are_complete(body: &Multisig, subject: &TransactionContext<'_>) -> RuleResult {
    let context = subject.context;
    let address = |key: &PublicKey| Address::from_public_key(key, context.network.byte);
    let account = address(&body.inner.signer);
    let cosignatories: BTreeSet<Address> = context.cosignatories(&account)?.into_iter().collect();
    let mut signers: BTreeSet<Address> = body.cosignatures.iter().map(|one| address(&one.signer)).collect();
    signers.insert(subject.signer);
    require(signers.is_subset(&cosignatories), FailureMultisigInvalidCosigners)?;
    let needed = context.account(&account)?.min_cosignatories;
    let (counting, required) = body.counting_signers(cosignatories, needed, context.network.byte);
    require(signers.intersection(&counting).count() >= required, FailureMultisigInvalidCosigners)
}
