//! A small wallet: keys, addresses, and transactions from the request to the node's answer.
//!
//! | Part | Content |
//! |---|---|
//! | [`values`] | amounts, networks and addresses as people write them |
//! | [`key_file`] | files with private keys |
//! | [`TransferRequest`] | building transfers |
//! | [`SignedTransaction`] | a signed transaction for announcement, and its description |
//! | [`NodeClient`] | requests to a node |
//! | [`TransactionStatus`] | what became of a transaction |
//! | [`events`] | the event stream of a node |

pub mod events;
pub mod key_file;
mod node;
mod transaction;
pub mod values;

pub use node::{AnnounceResult, Fate, NodeClient, NodeError, TransactionStatus, await_end, explain_result, printable};
pub use transaction::{
    SignedTransaction, TransferRequest, build, context, describe, is_signed_transaction, levies, minimum_fee,
    read_transaction,
};

/// One transaction of each kind as JSON.
pub const TRANSACTIONS: &str = include_str!("../help/transactions.txt");
