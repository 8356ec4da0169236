//! Rules about remote (delegated harvesting) accounts.

use super::context::{TransactionContext, ValidationContext};
use super::result::ValidationResult::FailureTransactionNotAllowedForRemote;
use super::result::{RuleResult, require};
use crate::model::{Address, Body, NetworkByte, Transaction};
use crate::state::{LinkPhase, LinkRole, RemoteStatus, StateView};
use crate::store::StoreError;

/// T8: neither the signer nor another account of the transaction is a remote.
pub fn no_remote_takes_part<V: StateView>(subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    let TransactionContext { transaction, signer, context: case } = subject;
    require(is_usable(signer, case)?, FailureTransactionNotAllowedForRemote)?;
    if matches!(transaction.body, Body::ImportanceTransfer(_)) {
        return Ok(());
    }
    let mut participants = Vec::new();
    other_participants(transaction, signer, case.network.byte, &mut participants);
    for other in &participants {
        require(is_usable(other, case)?, FailureTransactionNotAllowedForRemote)?;
    }
    Ok(())
}

/// Returns whether an account may take part: remotes may not; former remotes may since `mosaic_redefinition`.
fn is_usable<V: StateView>(account: &Address, context: &ValidationContext<'_, V>) -> Result<bool, StoreError> {
    let account = context.state.account(account)?;
    if account.links.last().is_none_or(|link| link.role == LinkRole::Owner) {
        return Ok(true);
    }
    let status = account.remote_status(context.height, context.chain().rewrite_limit);
    let is_over = matches!(status, RemoteStatus::NotSet | RemoteStatus::Remote(LinkPhase::Inactive));
    Ok(is_over && context.is_since(context.forks().mosaic_redefinition))
}

/// Returns all accounts of a transaction, its signer first.
pub fn participants(transaction: &Transaction, network: NetworkByte) -> Vec<Address> {
    let signer = transaction.signer_address(network);
    let mut accounts = vec![signer];
    other_participants(transaction, &signer, network, &mut accounts);
    accounts
}

/// Appends the accounts of a transaction other than its signer.
fn other_participants(transaction: &Transaction, signer: &Address, network: NetworkByte, out: &mut Vec<Address>) {
    let address = |key| Address::from_public_key(key, network);
    match &transaction.body {
        Body::Transfer(body) => out.push(body.recipient),
        Body::ImportanceTransfer(body) => out.push(address(&body.remote)),
        Body::AggregateModification(body) => out.extend(body.modifications.iter().map(|m| address(&m.cosignatory))),
        Body::ProvisionNamespace(body) => out.push(body.rental_fee_sink),
        Body::MosaicDefinitionCreation(body) => {
            out.push(body.creation_fee_sink);
            let levy = body.definition.levy.as_ref();
            out.extend(levy.map(|levy| levy.recipient).filter(|recipient| recipient != signer));
        }
        Body::Multisig(_) => {
            for child in transaction.children() {
                let signer = child.signer_address(network);
                out.push(signer);
                other_participants(child, &signer, network, out);
            }
        }
        Body::Cosignature(_) | Body::MosaicSupplyChange(_) => {}
    }
}

/// B3: returns whether an account with this status may sign a block.
pub fn may_sign_block(status: RemoteStatus) -> bool {
    use LinkPhase::{Activating, Active, Deactivating, Inactive};
    match status {
        RemoteStatus::NotSet => true,
        RemoteStatus::Owner(phase) => matches!(phase, Activating | Inactive),
        RemoteStatus::Remote(phase) => matches!(phase, Active | Deactivating),
    }
}
