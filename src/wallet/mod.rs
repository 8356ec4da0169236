//! A small wallet: keys, addresses, and transactions from the request to the node's answer.
//!
//! | Part | Content |
//! |---|---|
//! | [`values`] | amounts, networks and addresses as people write them |
//! | [`key_file`] | files with private keys |
//! | [`transfer`] | building transfers |
//! | [`SignedTransaction`] | a signed transaction for announcement, and its description |
//! | [`NodeClient`] | requests to a node |
//! | [`TransactionStatus`] | what became of a transaction |
//! | [`events`] | the event stream of a node |

pub mod events;
pub mod key_file;
mod node;
mod signed_transaction;
mod status;
pub mod transfer;
pub mod values;

pub use node::{AnnounceResult, NodeClient, NodeError, explain_result, printable};
pub use signed_transaction::{SignedTransaction, context, describe, is_signed_transaction, read_transaction};
pub use status::{Fate, TransactionStatus, await_end};

/// One transaction of each kind as JSON.
pub const TRANSACTIONS: &str = include_str!("../help/transactions.txt");
