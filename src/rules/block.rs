//! The rules for a block, in their order.

use super::blocked_keys::may_not_harvest;
use super::conflicts::{mosaics_do_not_conflict, one_modification_per_account};
use super::context::ValidationContext;
use super::remote::may_sign_block;
use super::result::ValidationResult::{
    FailureCannotHarvestFromBlockedAccount, FailureEntityInvalidVersion, FailureIneligibleBlockSigner,
    FailurePastDeadline, FailureSelfSignedTransaction, FailureTimestampTooFarInFuture, FailureTooManyTransactions,
    FailureUnknown, FailureWrongNetwork, Neutral,
};
use super::result::{RuleResult, require};
use super::unstorable;
use crate::model::transaction::{Hashes, entity_version, wire_network};
use crate::model::{Address, Block, Hash256};
use crate::state::StateView;

/// Applies the rules B1–B11 to a block, then the checks of `unstorable`. When a block of the chain is processed, the state
/// must be the one after the block's transactions and before its fees are credited and its hashes recorded. `hashes`
/// are those of the transactions, in their order. The height is taken from `context`.
pub fn check_block<V: StateView>(block: &Block, hashes: &[Hashes], context: &ValidationContext<'_, V>) -> RuleResult {
    is_not_in_future(block, context)?; // B1
    transactions_are_not_expired(block)?; // B2
    signer_may_harvest(block, context)?; // B3
    is_not_too_large(block, context)?; // B4
    no_self_signed_transaction(block, context)?; // B5
    // `Neutral` has the lowest priority: a failure of a later rule replaces it.
    let are_new = transactions_are_new(hashes, context.state); // B6
    network_matches(block, context)?; // B7
    version_is_known(block)?; // B8
    treasury_hashes_match(hashes, context)?; // B9
    one_modification_per_account(&block.transactions)?; // B10
    mosaics_do_not_conflict(&block.transactions)?; // B11
    are_new?;
    unstorable::block_is_storable(block)
}

/// B6, and the batch rule of the mempool: no transaction and none of its children is in the chain.
pub fn transactions_are_new(hashes: &[Hashes], state: &impl StateView) -> RuleResult {
    for hash in hashes.iter().flat_map(Hashes::all) {
        require(!state.contains_hash(hash)?, Neutral)?;
    }
    Ok(())
}

fn is_not_in_future<V: StateView>(block: &Block, context: &ValidationContext<'_, V>) -> RuleResult {
    require(!context.is_in_future(block.timestamp), FailureTimestampTooFarInFuture)
}

fn transactions_are_not_expired(block: &Block) -> RuleResult {
    let all_live = block.transactions.iter().all(|transaction| transaction.deadline >= block.timestamp);
    require(all_live, FailurePastDeadline)
}

fn signer_may_harvest<V: StateView>(block: &Block, context: &ValidationContext<'_, V>) -> RuleResult {
    require(!may_not_harvest(&block.signer), FailureCannotHarvestFromBlockedAccount)?;
    let signer = Address::from_public_key(&block.signer, context.network.byte);
    require(may_sign_block(context.remote_status(&signer)?), FailureIneligibleBlockSigner)
}

fn is_not_too_large<V: StateView>(block: &Block, context: &ValidationContext<'_, V>) -> RuleResult {
    let count: usize = block.transactions.iter().map(|transaction| transaction.self_and_children().count()).sum();
    require(count as u64 <= u64::from(context.chain().max_transactions_per_block), FailureTooManyTransactions)
}

/// B5: neither the block's signer nor the account for which it harvests would earn the fee of its own transaction.
fn no_self_signed_transaction<V: StateView>(block: &Block, context: &ValidationContext<'_, V>) -> RuleResult {
    let network = context.network.byte;
    let signer = Address::from_public_key(&block.signer, network);
    let owner = context.state.account(&signer)?.forwarded(context.height, context.chain().rewrite_limit);
    let pays_itself = block.transactions.iter().any(|transaction| {
        let is_owner = |owner| transaction.signer_address(network) == owner;
        transaction.signer == block.signer || owner.is_some_and(is_owner)
    });
    require(!pays_itself, FailureSelfSignedTransaction)
}

fn network_matches<V: StateView>(block: &Block, context: &ValidationContext<'_, V>) -> RuleResult {
    require(wire_network(block.version) == context.network.byte, FailureWrongNetwork)
}

fn version_is_known(block: &Block) -> RuleResult {
    require(entity_version(block.version) == 1, FailureEntityInvalidVersion)
}

fn treasury_hashes_match<V: StateView>(hashes: &[Hashes], context: &ValidationContext<'_, V>) -> RuleResult {
    let forks = context.forks();
    let are = |list: &[Hash256]| hashes.iter().map(|hashes| &hashes.own).eq(list);
    let is_agreed = || are(&forks.treasury_hashes) || are(&forks.treasury_fallback_hashes);
    require(!context.is_treasury() || is_agreed(), FailureUnknown)
}
