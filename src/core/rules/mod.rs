//! Validation rules: small functions with named results.
//!
//! Rules are numbered in the order in which [`check_block`] and [`check_transaction`] apply them: B1–B11 for a block,
//! T1–T21 for a transaction, U1 for an unconfirmed one. The order matters, as the first failure gives the result.

mod accounts;
mod assets;
mod block;
mod fees;
mod result;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use crate::state::Exception;
pub use accounts::{may_sign_block, participants};
pub use block::{ConflictSet, may_not_harvest, transactions_are_new};
pub use fees::FeeSchedule;
pub use result::{Rejection, RuleResult, ValidationResult, require};

use self::result::ValidationResult::*;
use crate::model::network::{ChainParameters, Forks};
use crate::model::transaction::{Hashes, Transfer, wire_network};
use crate::model::{Address, Block, Body, Height, Network, Timestamp, Transaction};
use crate::state::{self, Account, BlockContext, Effect, RemoteStatus, effects};
use crate::store::{Read, Result};

/// Purpose of a validation; decides which rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Processing a block of the chain, or selecting transactions for a new one.
    Block,
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

    /// Returns the account of an address; the default state if it is unknown.
    pub fn account(&self, address: &Address) -> Result<Cow<'a, Account>> {
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
    pub fn cosignatories(&self, account: &Address) -> Result<Vec<Address>> {
        state::cosignatories(&self.state, account)
    }
}

/// A transaction under validation.
pub struct TransactionContext<'a> {
    /// The transaction.
    pub transaction: &'a Transaction,
    /// Address of its signer.
    pub signer: Address,
    /// Context of the validation.
    pub context: &'a ValidationContext<'a>,
}

impl<'a> TransactionContext<'a> {
    fn new(transaction: &'a Transaction, context: &'a ValidationContext<'a>) -> TransactionContext<'a> {
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
) -> RuleResult<Vec<Effect<'t>>> {
    let subject = TransactionContext::new(transaction, context);
    let mut list = Vec::with_capacity(8);
    rules_before_effects(&subject)?;
    effects(transaction, &context.state, context.network.byte, &mut list)?;
    accounts::currency_suffices(&list, context)?; // T6
    rules_on_state(&subject)?;
    accounts::mosaics_suffice(&list, context)?; // T20
    rules_at_the_end(&subject)?;
    for child in transaction.children() {
        let child = TransactionContext::new(child, context);
        rules_before_effects(&child)?;
        // T6 and T20 hold: the effects of the children are part of the parent's effects.
        rules_on_state(&child)?;
        rules_at_the_end(&child)?;
    }
    is_storable(&subject)?;
    Ok(list)
}

fn rules_before_effects(subject: &TransactionContext<'_>) -> RuleResult {
    deadline_is_in_window(subject)?; // T1
    fees::fee_suffices(subject)?; // T2
    version_is_known(subject)?; // T3
    is_not_in_future(subject)?; // T4
    nemesis_signs_only_at_forks(subject) // T5
}

fn rules_on_state(subject: &TransactionContext<'_>) -> RuleResult {
    network_matches(subject)?; // T7
    accounts::no_remote_takes_part(subject)?; // T8
    accounts::multisig_account_does_not_sign(subject)?; // T9
    match &subject.transaction.body {
        Body::Transfer(body) => {
            message_fits(body, subject)?; // T10
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

fn rules_at_the_end(subject: &TransactionContext<'_>) -> RuleResult {
    match (subject.context.purpose, &subject.transaction.body) {
        // A multisig transaction in the mempool may still lack cosignatures.
        (Purpose::Mempool, _) => is_not_expired(subject), // U1
        (Purpose::Block, Body::Multisig(body)) => {
            accounts::signatures_are_complete(body, subject) // T21
        }
        _ => Ok(()),
    }
}

/// Returns whether a time is more than 10 seconds, the allowed clock difference, after the present.
pub fn is_in_future(time: Timestamp, now: Timestamp) -> bool {
    const TOLERANCE_SECONDS: i64 = 10;
    i64::from(time.0) > i64::from(now.0) + TOLERANCE_SECONDS
}

/// Maximum time in seconds between time stamp and deadline.
const MAX_LIFETIME: i32 = 86_400;

/// T1: the deadline is after the time stamp, by a day at most.
fn deadline_is_in_window(subject: &TransactionContext<'_>) -> RuleResult {
    let (timestamp, deadline) = (subject.transaction.timestamp.0, subject.transaction.deadline.0);
    require(timestamp < deadline, FailurePastDeadline)?;
    let latest = timestamp.checked_add(MAX_LIFETIME).ok_or_else(|| Exception::argument("time must be non-negative"))?;
    require(deadline <= latest, FailureFutureDeadline)
}

/// T3: the version exists and is allowed at this height.
fn version_is_known(subject: &TransactionContext<'_>) -> RuleResult {
    let (context, forks) = (subject.context, subject.context.forks());
    match (&subject.transaction.body, subject.transaction.entity_version()) {
        (Body::ProvisionNamespace(_) | Body::MosaicDefinitionCreation(_) | Body::MosaicSupplyChange(_), 1)
        | (Body::Transfer(_), 2) => require(context.is_since(forks.mosaics), FailureTransactionBeforeSecondFork),
        (Body::AggregateModification(_), 2) => {
            require(context.is_since(forks.multisig_m_of_n), FailureMultisigV2AggregateModificationBeforeFork)
        }
        (_, version) => require(version == 1, FailureEntityInvalidVersion),
    }
}

/// T4: the time stamp is not in the future.
fn is_not_in_future(subject: &TransactionContext<'_>) -> RuleResult {
    require(!is_in_future(subject.transaction.timestamp, subject.context.now), FailureTimestampTooFarInFuture)
}

/// T5: the nemesis account signs only in the nemesis block and in the block of the treasury re-issuance.
fn nemesis_signs_only_at_forks(subject: &TransactionContext<'_>) -> RuleResult {
    let may_sign = subject.context.height == Height::NEMESIS || subject.context.is_treasury();
    require(may_sign || !subject.is_by_nemesis(), FailureNemesisAccountTransactionAfterNemesisBlock)
}

/// T7: the transaction was made for this network.
fn network_matches(subject: &TransactionContext<'_>) -> RuleResult {
    require(wire_network(subject.transaction.version) == subject.context.network.byte, FailureWrongNetwork)
}

/// T10: the message is not too long.
fn message_fits(body: &Transfer, subject: &TransactionContext<'_>) -> RuleResult {
    let max = max_message_length(subject.context.forks(), subject.context.height);
    require(body.message_length() <= max, FailureMessageTooLarge)
}

/// Returns the maximum length of a message in bytes.
pub fn max_message_length(forks: &Forks, height: Height) -> usize {
    match height.0 {
        height if height >= forks.remote_account => 1024,
        height if height >= forks.multisig_m_of_n => 160,
        _ => 96,
    }
}

/// U1: neither the deadline of the transaction nor that of a direct child has passed.
fn is_not_expired(subject: &TransactionContext<'_>) -> RuleResult {
    require(!subject.transaction.is_expired(subject.context.now), FailurePastDeadline)
}

/// Rejects a cosignature as the inner transaction of a multisig transaction, and a cosignature on its own in a block.
/// NIS1 nodes accept these and then fail to store them, so the chain can never contain one. They are rejected after all
/// rules, so that everything else gets NIS1's result.
fn is_storable(subject: &TransactionContext<'_>) -> RuleResult {
    let wraps_cosignature = subject.transaction.inner().is_some_and(|inner| matches!(inner.body, Body::Cosignature(_)));
    require(!wraps_cosignature, FailureTransactionNotAllowedForMultisig)?;
    let is_cosignature = matches!(subject.transaction.body, Body::Cosignature(_));
    require(subject.context.purpose != Purpose::Block || !is_cosignature, FailureTransactionNotAllowedForMultisig)
}
