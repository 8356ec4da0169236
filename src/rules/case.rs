//! The case in which something is checked.

use crate::model::network::{ChainParameters, Forks};
use crate::model::{Address, Height, Network, Timestamp, Transaction};
use crate::state::{RemoteStatus, StateView};
use crate::store::StoreError;

/// What a check is for; it decides which rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Taking blocks in.
    ChainPart,
    /// Choosing transactions for a new block.
    NewBlock,
    /// Keeping a transaction as unconfirmed.
    Pool,
    /// Answering `/transaction/prepare`.
    Prepare,
}

/// The case that is judged: on which state, when, and for what.
pub struct Case<'a, V> {
    /// The state before the thing that is checked.
    pub state: &'a V,
    /// The network.
    pub network: &'a Network,
    /// Height of the block that the thing is or would be in.
    pub height: Height,
    /// Current network time.
    pub now: Timestamp,
    /// What the check is for.
    pub purpose: Purpose,
}

impl<'a, V: StateView> Case<'a, V> {
    /// Parameters of the chain.
    pub fn chain(&self) -> &'a ChainParameters {
        &self.network.chain
    }

    /// Heights at which rules change.
    pub fn forks(&self) -> &'a Forks {
        &self.network.chain.forks
    }

    /// Whether the rules that begin at a height are in force.
    pub fn is_since(&self, fork: u64) -> bool {
        self.height.0 >= fork
    }

    /// Whether this is the height of the treasury re-issuance.
    pub fn is_treasury(&self) -> bool {
        self.height.0 == self.forks().treasury_reissuance
    }

    /// Whether a time is further ahead than clocks may differ.
    pub fn is_in_future(&self, time: Timestamp) -> bool {
        const TOLERANCE_SECONDS: i64 = 10;
        i64::from(time.0) > i64::from(self.now.0) + TOLERANCE_SECONDS
    }

    /// Where an account stands as owner or remote.
    pub fn remote_status(&self, account: &Address) -> Result<RemoteStatus, StoreError> {
        Ok(self.state.account(account)?.remote_status(self.height, self.chain().rewrite_limit))
    }

    /// Whether an account is a multisig account.
    pub fn is_multisig(&self, account: &Address) -> Result<bool, StoreError> {
        Ok(!self.state.cosignatories(account)?.is_empty())
    }
}

/// A transaction that is being checked.
pub struct Subject<'a, 't, V> {
    /// The transaction.
    pub transaction: &'t Transaction,
    /// Its signer.
    pub signer: Address,
    /// The case it is judged in.
    pub case: &'a Case<'a, V>,
}

impl<'a, 't, V: StateView> Subject<'a, 't, V> {
    /// A transaction in its case.
    pub fn new(transaction: &'t Transaction, case: &'a Case<'a, V>) -> Subject<'a, 't, V> {
        Subject { transaction, signer: transaction.signer_address(case.network.byte), case }
    }

    /// Whether the nemesis account signed it.
    pub fn is_by_nemesis(&self) -> bool {
        self.signer == self.case.network.nemesis_signer
    }
}
