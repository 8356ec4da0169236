//! The rules for a block, in their order.

use super::block_content::{mosaics_do_not_conflict, one_modification_per_account};
use super::blocked_keys::may_not_harvest;
use super::case::Case;
use super::hazard;
use super::remote::may_sign_block;
use super::result::ValidationResult::{
    FailureCannotHarvestFromBlockedAccount, FailureEntityInvalidVersion, FailureIneligibleBlockSigner,
    FailurePastDeadline, FailureSelfSignedTransaction, FailureTimestampTooFarInFuture, FailureTooManyTransactions,
    FailureUnknown, FailureWrongNetwork, Neutral,
};
use super::result::{Verdict, require};
use crate::model::transaction::{Hashes, entity_version, wire_network};
use crate::model::{Address, Block, Hash256};
use crate::state::StateView;

/// Applies the rules B1–B11 to a block, then the checks of `hazard`. When a block of the chain is processed, the state
/// must be the one after the block's transactions and before its fees are credited and its hashes recorded. `hashes`
/// are those of the transactions, in their order. The height is taken from `case`.
pub fn check_block<V: StateView>(block: &Block, hashes: &[Hashes], case: &Case<'_, V>) -> Verdict {
    is_not_in_future(block, case)?; // B1
    transactions_are_not_expired(block)?; // B2
    signer_may_harvest(block, case)?; // B3
    is_not_too_large(block, case)?; // B4
    signer_pays_nothing(block, case)?; // B5
    // `Neutral` has the lowest priority: a failure of a later rule replaces it.
    let are_new = transactions_are_new(hashes, case.state); // B6
    network_is_ours(block, case)?; // B7
    version_is_known(block)?; // B8
    treasury_is_as_agreed(hashes, case)?; // B9
    one_modification_per_account(&block.transactions)?; // B10
    mosaics_do_not_conflict(&block.transactions)?; // B11
    are_new?;
    hazard::block_can_be_kept(block)
}

/// B6, and the batch rule of the mempool: no transaction and none of its children is in the chain.
pub fn transactions_are_new(hashes: &[Hashes], state: &impl StateView) -> Verdict {
    for hash in hashes.iter().flat_map(Hashes::all) {
        require(!state.knows_hash(hash)?, Neutral)?;
    }
    Ok(())
}

fn is_not_in_future<V: StateView>(block: &Block, case: &Case<'_, V>) -> Verdict {
    require(!case.is_in_future(block.timestamp), FailureTimestampTooFarInFuture)
}

fn transactions_are_not_expired(block: &Block) -> Verdict {
    let all_live = block.transactions.iter().all(|transaction| transaction.deadline >= block.timestamp);
    require(all_live, FailurePastDeadline)
}

fn signer_may_harvest<V: StateView>(block: &Block, case: &Case<'_, V>) -> Verdict {
    require(!may_not_harvest(&block.signer), FailureCannotHarvestFromBlockedAccount)?;
    let signer = Address::from_public_key(&block.signer, case.network.byte);
    require(may_sign_block(case.remote_status(&signer)?), FailureIneligibleBlockSigner)
}

fn is_not_too_large<V: StateView>(block: &Block, case: &Case<'_, V>) -> Verdict {
    let count: usize = block.transactions.iter().map(|transaction| transaction.self_and_children().count()).sum();
    require(count as u64 <= u64::from(case.chain().max_transactions_per_block), FailureTooManyTransactions)
}

/// B5: neither the block's signer nor the account for which it harvests would earn the fee of its own transaction.
fn signer_pays_nothing<V: StateView>(block: &Block, case: &Case<'_, V>) -> Verdict {
    let network = case.network.byte;
    let signer = Address::from_public_key(&block.signer, network);
    let owner = case.state.account(&signer)?.forwarded(case.height, case.chain().rewrite_limit);
    let pays_itself = block.transactions.iter().any(|transaction| {
        let is_owner = |owner| transaction.signer_address(network) == owner;
        transaction.signer == block.signer || owner.is_some_and(is_owner)
    });
    require(!pays_itself, FailureSelfSignedTransaction)
}

fn network_is_ours<V: StateView>(block: &Block, case: &Case<'_, V>) -> Verdict {
    require(wire_network(block.version) == case.network.byte, FailureWrongNetwork)
}

fn version_is_known(block: &Block) -> Verdict {
    require(entity_version(block.version) == 1, FailureEntityInvalidVersion)
}

fn treasury_is_as_agreed<V: StateView>(hashes: &[Hashes], case: &Case<'_, V>) -> Verdict {
    let forks = case.forks();
    let are = |list: &[Hash256]| hashes.iter().map(|hashes| &hashes.own).eq(list);
    let is_agreed = || are(&forks.treasury_hashes) || are(&forks.treasury_fallback_hashes);
    require(!case.is_treasury() || is_agreed(), FailureUnknown)
}
