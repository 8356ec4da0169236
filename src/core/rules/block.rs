//! Rules for a block as a whole.

use std::collections::BTreeSet;

use super::result::ValidationResult::*;
use super::result::{RuleResult, require};
use super::{ValidationContext, is_in_future, may_sign_block};
use crate::crypto::PublicKey;
use crate::model::transaction::{Hashes, entity_version, wire_network};
use crate::model::{Address, Block, BlockKind, Body, Hash256, Height, MosaicId, NamespaceId, Transaction};
use crate::state;
use crate::store::Read;

/// Public keys that may not harvest, on any network; one per line in hexadecimal digits.
static BLOCKED_KEYS: &str = include_str!("blocked_keys.txt");

/// Returns whether a key is blocked from signing blocks and from being unlocked for harvesting.
pub fn may_not_harvest(key: &PublicKey) -> bool {
    let key = key.to_string();
    BLOCKED_KEYS.lines().any(|blocked| blocked == key)
}

/// B1: the time stamp is not in the future.
pub fn is_not_in_future(block: &Block, context: &ValidationContext<'_>) -> RuleResult {
    require(!is_in_future(block.timestamp, context.now), FailureTimestampTooFarInFuture)
}

/// B2: no deadline of a transaction is before the block.
pub fn transactions_are_not_expired(block: &Block) -> RuleResult {
    let all_live = block.transactions.iter().all(|transaction| transaction.deadline >= block.timestamp);
    require(all_live, FailurePastDeadline)
}

/// B3: the signer's key is not blocked, and its status as owner or remote allows it to sign.
pub fn signer_may_harvest(block: &Block, context: &ValidationContext<'_>) -> RuleResult {
    require(!may_not_harvest(&block.signer), FailureCannotHarvestFromBlockedAccount)?;
    let signer = context.account(&Address::from_public_key(&block.signer, context.network.byte))?;
    require(may_sign_block(context.remote_status(&signer)), FailureIneligibleBlockSigner)
}

/// B4: the block has not too many transactions, children included.
pub fn is_not_too_large(block: &Block, context: &ValidationContext<'_>) -> RuleResult {
    let count: usize = block.transactions.iter().map(|transaction| transaction.self_and_children().count()).sum();
    require(count as u64 <= u64::from(context.chain().max_transactions_per_block), FailureTooManyTransactions)
}

/// B5: neither the block's signer nor the account for which it harvests would earn the fee of its own transaction.
pub fn no_self_signed_transaction(block: &Block, context: &ValidationContext<'_>) -> RuleResult {
    let network = context.network.byte;
    let signer = context.account(&Address::from_public_key(&block.signer, network))?;
    let owner = signer.harvests_for(context.height, context.chain().rewrite_limit);
    let pays_itself = block.transactions.iter().any(|transaction| {
        let is_owner = |owner| transaction.signer_address(network) == owner;
        transaction.signer == block.signer || owner.is_some_and(is_owner)
    });
    require(!pays_itself, FailureSelfSignedTransaction)
}

/// B6, and the batch rule of the mempool: no transaction and none of its children is in the chain.
pub fn transactions_are_new(hashes: &[Hashes], state: &impl Read) -> RuleResult {
    for hash in hashes.iter().flat_map(Hashes::all) {
        require(state::find_remembered_hash(state, hash)?.is_none(), Neutral)?;
    }
    Ok(())
}

/// B7: the block was made for this network.
pub fn network_matches(block: &Block, context: &ValidationContext<'_>) -> RuleResult {
    require(wire_network(block.version) == context.network.byte, FailureWrongNetwork)
}

/// B8: the version exists.
pub fn version_is_known(block: &Block) -> RuleResult {
    require(entity_version(block.version) == 1, FailureEntityInvalidVersion)
}

/// B9: the block of the treasury re-issuance has exactly the transactions that the network agreed on.
pub fn treasury_hashes_match(hashes: &[Hashes], context: &ValidationContext<'_>) -> RuleResult {
    let forks = context.forks();
    let are = |list: &[Hash256]| hashes.iter().map(|hashes| &hashes.own).eq(list);
    let is_agreed = || are(&forks.treasury_hashes) || are(&forks.treasury_fallback_hashes);
    require(!context.is_treasury() || is_agreed(), FailureUnknown)
}

/// Rejects a block of the nemesis kind at any height but the first, which no node can store.
pub fn is_storable(block: &Block) -> RuleResult {
    require(block.kind == BlockKind::Regular || block.height == Height::NEMESIS, FailureBlockUnverifiable)
}

/// What transactions of one block must not share: their conflict keys. Checking the next transaction of a block that is
/// being filled costs only that transaction's own size.
#[derive(Default)]
pub struct ConflictSet {
    /// Public keys of the accounts whose cosignatories change.
    changed: BTreeSet<[u8; 32]>,
    defined: BTreeSet<MosaicId>,
    /// Namespaces of the mosaics that are defined.
    defined_in: BTreeSet<NamespaceId>,
    /// Mosaics that are transferred or whose supply changes.
    used: BTreeSet<MosaicId>,
    rented: BTreeSet<NamespaceId>,
}

impl ConflictSet {
    /// Returns the conflict keys of further transactions of the block. Fails if these conflict with each other or with
    /// the others.
    ///
    /// B10: no account changes its cosignatories twice. B11: no mosaic is used, and its namespace is not rented, in the
    /// block that defines it, whatever the order.
    pub fn conflict_keys(&self, transactions: &[Transaction]) -> RuleResult<ConflictSet> {
        let mut own = ConflictSet::default();
        for transaction in transactions.iter().flat_map(Transaction::self_and_children) {
            match &transaction.body {
                Body::AggregateModification(_) => {
                    require(own.changed.insert(transaction.signer.0), FailureConflictingMultisigModification)?;
                }
                Body::Transfer(body) => own.used.extend(body.mosaics.iter().map(|mosaic| mosaic.id.clone())),
                Body::MosaicSupplyChange(body) => own.used.extend([body.mosaic.clone()]),
                Body::ProvisionNamespace(body) => own.rented.extend(body.name()),
                Body::MosaicDefinitionCreation(body) => {
                    own.defined_in.extend([body.definition.id.namespace.clone()]);
                    own.defined.extend([body.definition.id.clone()]);
                }
                _ => {}
            }
        }
        require(self.changed.is_disjoint(&own.changed), FailureConflictingMultisigModification)?;
        let conflicts = own.conflicts_with(&own) || own.conflicts_with(self) || self.conflicts_with(&own);
        require(!conflicts, FailureConflictingMosaicCreation)?;
        Ok(own)
    }

    /// Adds the conflict keys of a transaction.
    pub fn add(&mut self, addition: ConflictSet) {
        self.changed.extend(addition.changed);
        self.defined.extend(addition.defined);
        self.defined_in.extend(addition.defined_in);
        self.used.extend(addition.used);
        self.rented.extend(addition.rented);
    }

    /// Returns whether `others` use or rent something that is defined here.
    fn conflicts_with(&self, others: &ConflictSet) -> bool {
        !self.defined.is_disjoint(&others.used) || !self.defined_in.is_disjoint(&others.rented)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_file_is_blocked() {
        let keys: Vec<[u8; 32]> =
            BLOCKED_KEYS.lines().map(|key| hex::decode(key).unwrap().try_into().unwrap()).collect();
        assert!(keys.len() == 110 && keys.is_sorted());
        assert!(keys.into_iter().all(|key| may_not_harvest(&PublicKey(key))));
        assert!(!may_not_harvest(&PublicKey([0; 32])));
    }
}
