//! Validation rules: small functions with named results.
//!
//! Rules are numbered in the order in which [`check_block`] and [`check_transaction`] apply them: B1–B11 for a block,
//! T1–T21 for a transaction, U1 for an unconfirmed one. The order matters, as the first failure gives the result.

mod balance;
mod block;
mod block_content;
mod blocked_keys;
mod case;
mod common;
mod fee_tables;
mod fees;
mod hazard;
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

pub use block::{check_block, transactions_are_new};
pub use block_content::BlockContent;
pub use blocked_keys::may_not_harvest;
pub use case::{Case, Purpose};
pub use fees::{creation_fee, minimum_fee, rental_fee};
pub use remote::{accounts_of, may_sign_block};
pub use result::{Exception, ExceptionKind, Refusal, ResultKind, ValidationResult, Verdict};
pub use transaction::check_transaction;
pub use transfer::max_message_length;
