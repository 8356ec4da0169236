//! What the interface may have the node do, and what it asks of the node's memory rather than of the chain.

use std::rc::Rc;

use super::failure::Failure;
use super::ledger::{AccountMeta, Ledger, RemoteStatus};
use crate::crypto::KeyPair;
use crate::model::{Address, Body, Transaction};
use crate::rules::ValidationResult;

/// The node at work, as the interface is allowed to use it.
pub trait Desk {
    /// Offers a signed transaction to the pool. [`Failure::NOT_BOOTED`] if the network is not joined, which is found
    /// out only after the network of the transaction (specification 06 §7.10).
    fn announce(&mut self, transaction: Transaction) -> Result<ValidationResult, Failure>;
    /// Judges an unsigned transaction by the confirmed state, as if it were in the next block.
    fn prepare(&self, transaction: &Transaction) -> Result<ValidationResult, Failure>;
    /// Transactions of the pool that concern an account, the youngest first, at most `limit`.
    fn unconfirmed(&self, account: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, Failure>;

    /// Lets an account harvest on this node.
    fn unlock(&mut self, pair: KeyPair) -> Result<(), Failure>;
    /// Ends that; no effect if it does not harvest.
    fn lock(&mut self, address: &Address);
    /// Whether an account harvests on this node.
    fn is_unlocked(&self, address: &Address) -> bool;
    /// How many accounts harvest on this node.
    fn unlocked_info(&self) -> UnlockedInfo;
}

/// How many accounts harvest on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnlockedInfo {
    /// At most.
    pub max: i32,
    /// Now.
    pub count: i32,
}

/// Why an account is not allowed to harvest on this node (specification 08 §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnlockRefusal {
    /// As many as allowed do already.
    ServerLimit,
    /// Its key is one of those that may not harvest.
    Blocked,
    /// The chain has not seen it.
    UnknownAccount,
    /// It, or the account that it harvests for, has too little vested.
    Ineligible,
}

impl UnlockRefusal {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            UnlockRefusal::ServerLimit => "FAILURE_SERVER_LIMIT",
            UnlockRefusal::Blocked => "FAILURE_HARVESTING_BLOCKED",
            UnlockRefusal::UnknownAccount => "FAILURE_UNKNOWN_ACCOUNT",
            UnlockRefusal::Ineligible => "FAILURE_HARVESTING_INELIGIBLE",
        }
    }
}

impl From<UnlockRefusal> for Failure {
    fn from(refusal: UnlockRefusal) -> Failure {
        Failure::argument(refusal.name())
    }
}

/// What goes with an account, as chain, pool and harvester have it together (specification 06 §6.2). An importance
/// transfer that waits in the pool shows as if it were in the chain; where the chain does not allow it, this fails.
pub fn account_meta(ledger: &dyn Ledger, desk: &dyn Desk, address: &Address) -> Result<AccountMeta, Failure> {
    let meta = ledger.account_meta(address)?;
    let waiting = desk.unconfirmed(address, usize::MAX)?;
    let changes = waiting.iter().any(|transaction| matches!(transaction.body, Body::ImportanceTransfer(_)));
    let remote_status = match (changes, meta.remote_status) {
        (false, status) => status,
        (true, RemoteStatus::Inactive) => RemoteStatus::Activating,
        (true, RemoteStatus::Active) => RemoteStatus::Deactivating,
        (true, _) => {
            return Err(Failure::internal("unexpected remote state for account with pending importance transfer"));
        }
    };
    Ok(AccountMeta { unlocked: desk.is_unlocked(address), remote_status, ..meta })
}
