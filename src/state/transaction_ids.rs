//! Transaction ids, and the accounts that a transaction affects.

use std::collections::BTreeSet;

use super::account_tx_list::Direction;
use super::error::StateError;
use super::queries;
use crate::model::{Address, Block, Body, NetworkByte, Transaction, transaction::kind};
use crate::store::Read;

/// Assigns ids to the transactions of a block, starting at `first`. Returns the ids of the top-level transactions by
/// index, and the id after the last.
///
/// Clients see the ids, so the order is NIS1's: importance transfers, mosaic definitions, supply changes and aggregate
/// modifications, kind by kind, nested ones included; then each multisig transaction, followed by its inner transaction
/// if that is of another kind and by its cosignatures; then provisions; then transfers.
pub fn assign_ids(block: &Block, first: u64) -> (Vec<u64>, u64) {
    let mut ids = vec![0; block.transactions.len()];
    let mut next = first;
    let mut allocate = |count: usize| {
        let id = next;
        next += count as u64;
        id
    };
    let kinds = [
        kind::IMPORTANCE_TRANSFER,
        kind::MOSAIC_DEFINITION_CREATION,
        kind::MOSAIC_SUPPLY_CHANGE,
        kind::AGGREGATE_MODIFICATION,
    ];
    for kind in kinds {
        for (transaction, id) in block.transactions.iter().zip(&mut ids) {
            if transaction.body.kind() == kind {
                *id = allocate(1);
            } else if transaction.inner().is_some_and(|inner| inner.body.kind() == kind) {
                allocate(1);
            }
        }
    }
    for (transaction, id) in block.transactions.iter().zip(&mut ids) {
        if let Some(inner) = transaction.inner() {
            *id = allocate(1);
            allocate(usize::from(matches!(inner.body, Body::Transfer(_) | Body::ProvisionNamespace(_))));
            allocate(transaction.cosignatures().len());
        }
    }
    for kind in [kind::PROVISION_NAMESPACE, kind::TRANSFER] {
        for (transaction, id) in block.transactions.iter().zip(&mut ids) {
            if transaction.body.kind() == kind {
                *id = allocate(1);
            }
        }
    }
    (ids, next)
}

/// Returns the accounts that a top-level transaction affects. Must be called after the whole block was applied, because
/// a multisig transaction affects the cosignatories at that time.
pub fn affected_accounts(
    state: &impl Read,
    transaction: &Transaction,
    network: NetworkByte,
) -> Result<BTreeSet<(Address, Direction)>, StateError> {
    let inner_or_self = transaction.inner().unwrap_or(transaction);
    let signer = inner_or_self.signer_address(network);
    let nested = transaction.inner().is_some();
    let cosignatories = if nested { queries::cosignatories(state, &signer)? } else { Vec::new() };
    let senders = std::iter::once(signer).chain(cosignatories).map(|address| (address, Direction::Outgoing));
    let recipients =
        recipients(inner_or_self, nested, network).into_iter().map(|address| (address, Direction::Incoming));
    Ok(senders.chain(recipients).collect())
}

/// Returns the recipients of a transaction. The fee sink and levy recipient of a definition count only inside a
/// multisig transaction.
fn recipients(transaction: &Transaction, nested: bool, network: NetworkByte) -> Vec<Address> {
    let address = |key| Address::from_public_key(key, network);
    match &transaction.body {
        Body::Transfer(body) => vec![body.recipient],
        Body::ImportanceTransfer(body) => vec![address(&body.remote)],
        Body::AggregateModification(body) => body.modifications.iter().map(|m| address(&m.cosignatory)).collect(),
        Body::ProvisionNamespace(body) => vec![body.rental_fee_sink],
        Body::MosaicDefinitionCreation(body) if nested => {
            let levy = body.definition.levy.as_ref().map(|levy| levy.recipient);
            let levy = levy.filter(|recipient| *recipient != transaction.signer_address(network));
            std::iter::once(body.creation_fee_sink).chain(levy).collect()
        }
        _ => Vec::new(),
    }
}
