//! Validation rules: small functions with named results.
//!
//! Rules are numbered in the order in which [`check_block`] and [`check_transaction`] apply them: B1–B11 for a block,
//! T1–T21 for a transaction, U1 for an unconfirmed one. The order matters, as the first failure gives the result.

mod balance;
mod block;
mod blocked_keys;
mod common;
mod conflicts;
mod context;
mod fee_tables;
mod fees;
mod importance_transfer;
mod mosaic;
mod multisig;
mod namespace;
mod remote;
mod result;
#[cfg(test)]
mod tests;
mod transaction;
mod transfer;
mod unstorable;

pub use block::{check_block, transactions_are_new};
pub use blocked_keys::may_not_harvest;
pub use conflicts::ConflictSet;
pub use context::{Purpose, ValidationContext};
pub use fees::{creation_fee, minimum_fee, rental_fee};
pub use remote::{may_sign_block, participants};
pub use result::{Exception, ExceptionKind, Rejection, ResultKind, RuleResult, ValidationResult};
pub use transaction::check_transaction;
pub use transfer::max_message_length;
