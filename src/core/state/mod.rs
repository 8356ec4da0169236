//! State changes by transactions and blocks.
//!
//! A transaction is converted to [`Effect`]s, which a [`Ledger`] applies one after another. A rollback does not invert
//! effects: the store restores the old values.

mod account;
mod account_ids;
mod account_tx_list;
mod balance;
mod bytes;
mod dump;
mod expiry;
mod harvests;
mod hashes;
mod importances;
mod ledger;
mod mosaics;
mod namespaces;
pub mod registry;

#[cfg(any(test, feature = "testing"))]
pub use account::put_account;
pub use account::{
    Account, AccountId, AccountTotals, LinkPhase, LinkRole, RemoteLink, RemoteStatus, account, account_at,
    account_with_id, cosignatories, cosignatory_of, cosignatory_of_after, for_each_account_after, is_cosignatory,
    is_cosignatory_of, is_multisig, public_key,
};
pub use account_tx_list::{
    AccountTxCursor, AccountTxList, Direction, TxLocation, affected_in_block, assign_ids, transaction_id,
};
pub use balance::{
    AccountHistory, HistoryEntry, HistoryRange, MAX_BALANCE, VestedBalance, clear_history, history_from, history_height,
};
pub use dump::{digest, dump};
pub use expiry::{ExpiredCursor, ExpiredMosaic, ExpiredRow, Expiry, ExpiryKind, Pruning};
pub use harvests::{HarvestList, for_each_harvest_before};
pub use hashes::{
    HashCompaction, HashEntry, HashEpoch, HashVerifier, TOTALS_KEY as HASH_TOTALS_KEY, copy_epoch_size, find_hash,
    find_remembered_hash, hash_epoch, insert_hashes, remembered_from, set_epoch_size,
};
pub use importances::{
    AccountImportance, ImportanceListWriter, Outlink, RecalculationRecord, chunk_after, current_importance,
    deletable_below, delete_lists_above, delete_lists_below, for_each_importance, importance, importance_at,
    importance_in, last_recalculation,
};
pub use ledger::{BlockContext, Effect, Ledger, effects};
pub use mosaics::{
    DefinitionVersion, MosaicEntry, for_each_holder_after, for_each_holding_after, holdings, holds_mosaic, mosaic,
    mosaic_balance, mosaic_definition, owned_mosaic,
};
pub use namespaces::{
    Lease, OwnershipPeriod, is_in_lease, is_namespace_active, leases, namespace_owner, owns_namespace,
    subnamespaces_after,
};

use crate::store::StoreError;

/// Invalid input for which NIS1 has an exception text, held here, instead of a result code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exception {
    /// Illegal argument.
    #[error("{0}")]
    Argument(String),
    /// Any other exception.
    #[error("{0}")]
    Other(String),
}

impl Exception {
    /// Creates an illegal-argument exception.
    pub fn argument(text: impl ToString) -> Exception {
        Exception::Argument(text.to_string())
    }
}

/// A failure while changing or reading the state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The store failed; the block may be valid.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The change is impossible, so the block is invalid.
    #[error("{0}")]
    Exception(#[from] Exception),
}

/// Result of a change of the state.
pub type StateResult<T = ()> = Result<T, StateError>;

impl StateError {
    /// Creates the error for a change that NIS1 cannot make either. Holds the reason.
    pub fn impossible(why: impl Into<String>) -> StateError {
        Exception::Other(why.into()).into()
    }
}
