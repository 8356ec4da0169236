//! A small wallet: keys, addresses, and transactions from the request to the node's answer.
//!
//! | Part | Content |
//! |---|---|
//! | [`address`] | addresses as people write them |
//! | [`key_file`] | files with private keys |
//! | [`transfer`], [`fees`] | building transactions |
//! | [`SignedTransaction`] | a signed transaction for announcement |
//! | [`describe`] | descriptions of transactions for people |
//! | [`NodeClient`] | requests to a node |
//! | `apostille` | notarised files |
//! | [`execute`] | the commands |
//!
//! Clocks, randomness and sleeping are passed in as [`Services`].

pub mod address;
pub mod describe;
pub mod fees;
pub mod key_file;
pub mod transfer;

mod announce_result;
mod apostille;
mod commands;
mod error;
mod node;
mod send;
mod signed_transaction;

pub use announce_result::{AnnounceResult, explain_result};
pub use apostille::ApostilleError;
pub use commands::{Services, execute};
pub use error::WalletError;
pub use node::{NodeClient, NodeError};
pub use signed_transaction::{SignedTransaction, SignedTransactionError, context, read_transaction};
