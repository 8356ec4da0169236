//! What is valid: each rule of specification 02 one small function that gives a named result.
//!
//! [`check_transaction`] and [`check_block`] read like the tables there (§8.2, §16).

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
pub use block_content::check_block_content;
pub use blocked_keys::may_not_harvest;
pub use case::{Case, Purpose};
pub use fees::{creation_fee, minimum_fee, rental_fee};
pub use remote::{accounts_of, may_sign_block};
pub use result::{Exception, ExceptionKind, Refusal, ResultKind, ValidationResult, Verdict};
pub use transaction::check_transaction;
pub use transfer::max_message_length;
