//! Validation rules: small functions with named results.
//!
//! Rules are numbered in the order in which [`check_block`] and [`check_transaction`] apply them: B1–B11 for a block,
//! T1–T21 for a transaction, U1 for an unconfirmed one. The order matters, as the first failure gives the result.

mod accounts;
mod assets;
mod block;
mod common;
mod fees;
mod result;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use accounts::{may_sign_block, participants};
pub use block::{ConflictSet, may_not_harvest, transactions_are_new};
pub use common::max_message_length;
pub use fees::FeeSchedule;
pub use result::{Exception, ExceptionKind, Rejection, RuleResult, ValidationResult};

use crate::model::network::{ChainParameters, Forks};
use crate::model::transaction::Hashes;
use crate::model::{Address, Block, Body, Height, Network, Timestamp, Transaction};
use crate::state::{self, Account, BlockContext, Effect, RemoteStatus, effects_with_signer};
use crate::store::{Read, StoreError};

/// Purpose of a validation; decides which rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Processing blocks of the chain.
    BlockProcessing,
    /// Selecting transactions for a new block.
    NewBlock,
    /// Accepting an unconfirmed transaction into the mempool.
    Mempool,
    /// Answering `/transaction/prepare`.
    Prepare,
}

/// Context of a validation: state, network, height, time and purpose.
pub struct ValidationContext<'a> {
    /// The state before the transaction. For [`check_block`]: after the block's transactions.
    pub state: &'a dyn Read,
    /// The block in whose middle the state is; its accounts are not written to the state yet.
    pub block: Option<&'a BlockContext>,
    /// The network.
    pub network: &'a Network,
    /// Height of the block that contains or would contain the transaction.
    pub height: Height,
    /// Current network time.
    pub now: Timestamp,
    /// Purpose of the validation.
    pub purpose: Purpose,
}

impl<'a> ValidationContext<'a> {
    /// Returns the parameters of the chain.
    pub fn chain(&self) -> &'a ChainParameters {
        &self.network.chain
    }

    /// Returns the heights at which rules change.
    pub fn forks(&self) -> &'a Forks {
        &self.network.chain.forks
    }

    /// Returns whether the rules that start at height `fork` are in force.
    pub fn is_since(&self, fork: u64) -> bool {
        self.height.0 >= fork
    }

    /// Returns whether this is the height of the treasury re-issuance.
    pub fn is_treasury(&self) -> bool {
        self.height.0 == self.forks().treasury_reissuance
    }

    /// Returns whether a time is more than 10 seconds, the allowed clock difference, in the future.
    pub fn is_in_future(&self, time: Timestamp) -> bool {
        const TOLERANCE_SECONDS: i64 = 10;
        i64::from(time.0) > i64::from(self.now.0) + TOLERANCE_SECONDS
    }

    /// Returns the account of an address; the default state if it is unknown.
    pub fn account(&self, address: &Address) -> Result<Cow<'a, Account>, StoreError> {
        match self.block.and_then(|block| block.loaded_account(address)) {
            Some(account) => Ok(Cow::Borrowed(account)),
            None => state::account(&self.state, address).map(Cow::Owned),
        }
    }

    /// Returns the status of an account as owner or remote.
    pub fn remote_status(&self, account: &Account) -> RemoteStatus {
        account.remote_status(self.height, self.chain().rewrite_limit)
    }

    /// Returns the cosignatories of an account, by address; empty if it is no multisig account.
    pub fn cosignatories(&self, account: &Address) -> Result<Vec<Address>, StoreError> {
        state::cosignatories(&self.state, account)
    }
}

/// A transaction under validation.
pub struct TransactionContext<'a, 't> {
    /// The transaction.
    pub transaction: &'t Transaction,
    /// Address of its signer.
    pub signer: Address,
    /// Context of the validation.
    pub context: &'a ValidationContext<'a>,
}

impl<'a, 't> TransactionContext<'a, 't> {
    fn new(transaction: &'t Transaction, context: &'a ValidationContext<'a>) -> TransactionContext<'a, 't> {
        TransactionContext { transaction, signer: transaction.signer_address(context.network.byte), context }
    }

    /// Returns whether the nemesis account signed it.
    pub fn is_by_nemesis(&self) -> bool {
        self.signer == self.context.network.nemesis_signer
    }
}

/// Applies the rules B1–B11 to a block, then rejects what no node can store. When a block of the chain is processed, the
/// state must be the one after the block's transactions and before its fees are credited and its hashes recorded.
/// `hashes` are those of the transactions, in their order. The height is taken from `context`.
pub fn check_block(block: &Block, hashes: &[Hashes], context: &ValidationContext<'_>) -> RuleResult {
    block::is_not_in_future(block, context)?; // B1
    block::transactions_are_not_expired(block)?; // B2
    block::signer_may_harvest(block, context)?; // B3
    block::is_not_too_large(block, context)?; // B4
    block::no_self_signed_transaction(block, context)?; // B5
    // `Neutral` has the lowest priority: a failure of a later rule replaces it.
    let are_new = transactions_are_new(hashes, &context.state); // B6
    block::network_matches(block, context)?; // B7
    block::version_is_known(block)?; // B8
    block::treasury_hashes_match(hashes, context)?; // B9
    ConflictSet::default().conflict_keys(&block.transactions)?; // B10, B11
    are_new?;
    block::is_storable(block)
}

/// Applies the rules T1–T21 and U1 to a transaction and then to each direct child, then rejects what no node can store.
///
/// Returns the effects of the transaction in order. They are computed from the state before the transaction, so the
/// caller must apply them before any other change.
pub fn check_transaction<'t>(
    transaction: &'t Transaction,
    context: &ValidationContext<'_>,
) -> Result<Vec<Effect<'t>>, Rejection> {
    let subject = TransactionContext::new(transaction, context);
    let mut effects = Vec::with_capacity(8);
    rules_before_effects(&subject)?;
    effects_with_signer(subject.signer, transaction, &context.state, context.network.byte, &mut effects)?;
    accounts::currency_suffices(&effects, context)?; // T6
    rules_on_state(&subject)?;
    accounts::mosaics_suffice(&effects, context)?; // T20
    rules_at_the_end(&subject)?;
    for child in transaction.children() {
        let child = TransactionContext::new(child, context);
        rules_before_effects(&child)?;
        // T6 and T20 hold: the effects of the children are part of the parent's effects.
        rules_on_state(&child)?;
        rules_at_the_end(&child)?;
    }
    common::is_storable(&subject)?;
    Ok(effects)
}

fn rules_before_effects(subject: &TransactionContext<'_, '_>) -> RuleResult {
    common::deadline_is_in_window(subject)?; // T1
    fees::fee_suffices(subject)?; // T2
    common::version_is_known(subject)?; // T3
    common::is_not_in_future(subject)?; // T4
    common::nemesis_signs_only_at_forks(subject) // T5
}

fn rules_on_state(subject: &TransactionContext<'_, '_>) -> RuleResult {
    common::network_matches(subject)?; // T7
    accounts::no_remote_takes_part(subject)?; // T8
    accounts::multisig_account_does_not_sign(subject)?; // T9
    match &subject.transaction.body {
        Body::Transfer(body) => {
            common::message_fits(body, subject)?; // T10
            assets::mosaics_may_move(body, subject) // T19
        }
        Body::ImportanceTransfer(body) => accounts::link_may_change(body, subject), // T11
        Body::Multisig(body) => {
            accounts::initiator_is_cosignatory(body, subject)?; // T12
            accounts::fee_sink_cannot_spend(body, subject) // T13
        }
        Body::AggregateModification(body) => {
            accounts::modifications_are_possible(body, subject)?; // T14
            accounts::counts_are_in_range(body, subject) // T15
        }
        Body::ProvisionNamespace(body) => assets::may_be_rented(body, subject), // T16
        Body::MosaicDefinitionCreation(body) => assets::may_be_defined(body, subject), // T17
        Body::MosaicSupplyChange(body) => assets::supply_may_change(body, subject), // T18
        Body::Cosignature(_) => Ok(()),
    }
}

fn rules_at_the_end(subject: &TransactionContext<'_, '_>) -> RuleResult {
    match (subject.context.purpose, &subject.transaction.body) {
        // A multisig transaction in the mempool may still lack cosignatures.
        (Purpose::Mempool, _) => common::is_not_expired(subject), // U1
        (Purpose::BlockProcessing | Purpose::NewBlock, Body::Multisig(body)) => {
            accounts::signatures_are_complete(body, subject) // T21
        }
        _ => Ok(()),
    }
}
