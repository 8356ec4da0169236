//! State changes by transactions and blocks.
//!
//! A transaction is converted to [`Effect`]s, which a [`Ledger`] applies one after another. A rollback does not invert
//! effects: the store restores the old values.

mod account;
mod account_ids;
mod account_tx_list;
mod balance_history;
mod bytes;
mod digest;
mod dump;
mod effects;
mod error;
mod expiry;
mod expiry_log;
mod hashes;
mod importances;
mod ledger;
mod mosaics;
mod namespaces;
mod outlinks;
mod pruning;
mod queries;
pub mod registry;
mod transaction_ids;
mod vesting;

pub use account::{Account, LinkPhase, LinkRole, RemoteLink, RemoteStatus};
pub use account_ids::{AccountId, AccountTotals};
pub use account_tx_list::{AccountTxCursor, AccountTxList, Direction, TxLocation, transaction_id};
pub use balance_history::{AccountHistory, HistoryEntry, HistoryRange, clear_history, history_from, history_height};
pub use digest::digest;
pub use dump::dump;
pub use effects::{Effect, effects, effects_with_signer};
pub use error::StateError;
pub use expiry::Expiry;
pub use expiry_log::{ExpiredCursor, ExpiredMosaic, ExpiredRow, ExpiryKind, for_each_expired};
pub use hashes::{
    HashCompaction, HashEntry, HashEpoch, HashVerifier, TOTALS_KEY as HASH_TOTALS_KEY, copy_epoch_size, find_hash,
    find_remembered_hash, hash_epoch, insert_hashes, remembered_from, set_epoch_size,
};
pub use importances::{
    AccountImportance, ImportanceListWriter, RecalculationRecord, chunk_after, deletable_below, delete_lists_above,
    delete_lists_below, for_each_importance, importance, importance_at, last_recalculation,
};
pub use ledger::{BlockContext, Ledger};
pub use mosaics::{DefinitionVersion, HoldingsPage, MosaicEntry, mosaic};
pub use namespaces::{
    Lease, OwnershipPeriod, is_in_lease, is_namespace_active, leases, namespace_owner, owns_namespace,
    subnamespaces_after,
};
pub use outlinks::Outlink;
pub use pruning::Pruning;
pub use queries::{
    account, account_at, cosignatories, cosignatory_of, cosignatory_of_after, for_each_account_after,
    for_each_harvest_before, for_each_holder_after, holdings_after, holds_mosaic, is_cosignatory, is_multisig,
    mosaic_balance, mosaic_definition, owned_mosaic, public_key, put_account,
};
pub use transaction_ids::assign_ids;
pub use vesting::{MAX_BALANCE, VestedBalance};
