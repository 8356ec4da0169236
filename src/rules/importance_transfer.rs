//! Rules for importance transfers.

use super::context::{TransactionContext, ValidationContext};
use super::result::ValidationResult::{
    FailureDestinationAccountInUse, FailureImportanceTransferInProgress, FailureImportanceTransferIsNotActive,
    FailureImportanceTransferNeedsToBeDeactivated,
};
use super::result::{RuleResult, require};
use crate::model::transaction::{ImportanceTransfer, LinkMode};
use crate::model::{Address, Height};
use crate::state::{Account, LinkPhase, LinkRole, RemoteStatus, StateView};
use crate::store::StoreError;

/// T11: the importance link may be activated or deactivated.
pub fn link_may_change<V: StateView>(body: &ImportanceTransfer, subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    let context = subject.context;
    let remote = Address::from_public_key(&body.remote, context.network.byte);
    let owner_state = context.state.account(&subject.signer)?;
    let remote_state = context.state.account(&remote)?;
    remote_is_free(&remote_state, &subject.signer, context)?;
    require(!is_recent(&owner_state, context), FailureImportanceTransferInProgress)?;
    let last_mode = owner_state.links.last().map(|link| link.mode);
    match body.mode {
        LinkMode::Activate => {
            require(!is_in_use(&remote, &remote_state, context)?, FailureDestinationAccountInUse)?;
            require(last_mode != Some(LinkMode::Activate), FailureImportanceTransferNeedsToBeDeactivated)
        }
        LinkMode::Deactivate => require(last_mode == Some(LinkMode::Activate), FailureImportanceTransferIsNotActive),
    }
}

/// Returns whether the last link of an account is younger than the rewrite limit.
fn is_recent<V: StateView>(account: &Account, context: &ValidationContext<'_, V>) -> bool {
    let age = |made: Height| context.height.0.saturating_sub(made.0);
    account.links.last().is_some_and(|link| age(link.height) < context.chain().rewrite_limit)
}

/// Rejects a remote that is linked to another owner or has a recent link.
fn remote_is_free<V: StateView>(remote: &Account, owner: &Address, context: &ValidationContext<'_, V>) -> RuleResult {
    require(!is_recent(remote, context), FailureImportanceTransferInProgress)?;
    let Some(link) = remote.links.last() else { return Ok(()) };
    if link.role == LinkRole::Owner || link.linked_address == *owner {
        return Ok(());
    }
    let status = remote.remote_status(context.height, context.chain().rewrite_limit);
    let is_tied =
        matches!(status, RemoteStatus::Remote(LinkPhase::Activating | LinkPhase::Active | LinkPhase::Deactivating));
    require(!is_tied, FailureImportanceTransferNeedsToBeDeactivated)
}

/// Returns whether an account owns something or takes part in a multisig account, and so cannot become a remote.
fn is_in_use<V: StateView>(
    address: &Address,
    account: &Account,
    context: &ValidationContext<'_, V>,
) -> Result<bool, StoreError> {
    let state = context.state;
    if account.balance.total() > 0 {
        return Ok(true);
    }
    Ok(context.is_since(context.forks().remote_account)
        && (state.holds_mosaic(address)?
            || state.owns_namespace(address)?
            || context.is_multisig(address)?
            || state.is_cosignatory(address)?))
}
