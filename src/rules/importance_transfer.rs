//! Rules for importance transfers (specification 02 §12).

use super::context::{Context, Subject};
use super::result::ValidationResult::{
    FailureDestinationAccountInUse, FailureImportanceTransferInProgress, FailureImportanceTransferIsNotActive,
    FailureImportanceTransferNeedsToBeDeactivated,
};
use super::result::{Outcome, require};
use crate::model::transaction::{ImportanceTransfer, LinkMode};
use crate::model::{Address, Height};
use crate::state::{Account, LinkPhase, LinkRole, RemoteStatus, View};
use crate::store::StoreError;

/// T11: importance may be lent to this remote, or taken back.
pub fn link_may_change<V: View>(body: &ImportanceTransfer, subject: &Subject<'_, '_, V>) -> Outcome {
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

/// Whether the last link of an account is younger than the rewrite limit.
fn is_recent<V: View>(account: &Account, context: &Context<'_, V>) -> bool {
    let age = |made: Height| context.height.0.saturating_sub(made.0);
    account.links.last().is_some_and(|link| age(link.height) < context.chain().rewrite_limit)
}

/// The remote is not tied to another owner.
fn remote_is_free<V: View>(remote: &Account, owner: &Address, context: &Context<'_, V>) -> Outcome {
    require(!is_recent(remote, context), FailureImportanceTransferInProgress)?;
    let Some(link) = remote.links.last() else { return Ok(()) };
    if link.role == LinkRole::Owner || link.other == *owner {
        return Ok(());
    }
    let status = remote.remote_status(context.height, context.chain().rewrite_limit);
    let is_tied =
        matches!(status, RemoteStatus::Remote(LinkPhase::Activating | LinkPhase::Active | LinkPhase::Deactivating));
    require(!is_tied, FailureImportanceTransferNeedsToBeDeactivated)
}

/// Whether an account has a life of its own, so that it cannot become a remote.
fn is_in_use<V: View>(address: &Address, account: &Account, context: &Context<'_, V>) -> Result<bool, StoreError> {
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
