//! State changes by transactions and blocks.
//!
//! A transaction is converted to [`Effect`]s, which a [`Ledger`] applies one after another. A rollback does not invert
//! effects: the store restores the old values.

mod account;
mod balance_history;
mod bytes;
pub mod catalogue;
mod digest;
mod dump;
mod effects;
mod error;
mod expiry;
mod expiry_log;
mod hashes;
mod history;
mod importances;
mod ledger;
mod mosaics;
mod namespaces;
mod numbers;
mod outlinks;
mod pruning;
mod queries;
mod trail;
mod vesting;
mod view;

pub use account::{Account, LinkPhase, LinkRole, RemoteLink, RemoteStatus};
pub use balance_history::{AccountHistory, HistoryEntry, HistoryRange, forget_history, history_from, history_height};
pub use digest::digest;
pub use dump::dump;
pub use effects::{Effect, effects, effects_by};
pub use error::StateError;
pub use expiry::Expiry;
pub use expiry_log::{ExpiredMosaic, ExpiredRow, ExpiredWalk, ExpiryKind, each_expired};
pub use hashes::{
    Era, HashComparison, HashEntry, HashPacking, TOTALS_KEY as HASH_TOTALS_KEY, begin_eras, begin_eras_like, find_hash,
    hash_entry, hash_era, insert_hashes, remembered_from,
};
pub use history::assign_ids;
pub use importances::{
    AccountImportance, ListWriter, RecalculationRecord, chunk_after, each_importance, forget_above, forget_below,
    forgettable_below, importance, importance_at, last_recalculation,
};
pub use ledger::{BlockContext, Ledger};
pub use mosaics::{Edition, HoldingsPart, MosaicEntry};
pub use namespaces::{Lease, Tenure, subnamespaces_after};
pub use numbers::{AccountNumber, AccountTotals};
pub use outlinks::Outlink;
pub use pruning::Pruning;
pub use queries::{
    account, account_at, cosignatories, cosignatory_of, cosignatory_of_after, each_account_after, each_harvest_before,
    each_holder_after, holdings_after, mosaic_definition, owned_mosaic, public_key, put_account,
};
pub use trail::{Direction, Place, Trail, TrailWalk, transaction_id};
pub use vesting::{MAX_BALANCE, VestedBalance};
pub use view::StateView;
