//! Context of a validation.

use crate::model::network::{ChainParameters, Forks};
use crate::model::{Address, Height, Network, Timestamp, Transaction};
use crate::state::{RemoteStatus, StateView};
use crate::store::StoreError;

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
pub struct ValidationContext<'a, V> {
    /// The state before the transaction. For [`super::check_block`]: after the block's transactions.
    pub state: &'a V,
    /// The network.
    pub network: &'a Network,
    /// Height of the block that contains or would contain the transaction.
    pub height: Height,
    /// Current network time.
    pub now: Timestamp,
    /// Purpose of the validation.
    pub purpose: Purpose,
}

impl<'a, V: StateView> ValidationContext<'a, V> {
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

    /// Returns the status of an account as owner or remote.
    pub fn remote_status(&self, account: &Address) -> Result<RemoteStatus, StoreError> {
        Ok(self.state.account(account)?.remote_status(self.height, self.chain().rewrite_limit))
    }

    /// Returns whether an account is a multisig account.
    pub fn is_multisig(&self, account: &Address) -> Result<bool, StoreError> {
        Ok(!self.state.cosignatories(account)?.is_empty())
    }
}

/// A transaction under validation.
pub struct TransactionContext<'a, 't, V> {
    /// The transaction.
    pub transaction: &'t Transaction,
    /// Address of its signer.
    pub signer: Address,
    /// Context of the validation.
    pub context: &'a ValidationContext<'a, V>,
}

impl<'a, 't, V: StateView> TransactionContext<'a, 't, V> {
    /// Creates the subject and derives the signer's address.
    pub fn new(transaction: &'t Transaction, case: &'a ValidationContext<'a, V>) -> TransactionContext<'a, 't, V> {
        TransactionContext { transaction, signer: transaction.signer_address(case.network.byte), context: case }
    }

    /// Returns whether the nemesis account signed it.
    pub fn is_by_nemesis(&self) -> bool {
        self.signer == self.context.network.nemesis_signer
    }
}
