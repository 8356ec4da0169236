//! A small wallet: keys, addresses, and transactions from the request to the node's answer.
//!
//! | Part | Content |
//! |---|---|
//! | [`address`] | addresses as people write them |
//! | [`key_file`] | files with private keys |
//! | [`transfer`], [`fees`] | building transactions |
//! | [`Packet`] | a signed transaction for announcement |
//! | [`describe`] | descriptions of transactions for people |
//! | [`Node`] | requests to a node |
//! | `apostille` | notarised files |
//! | [`execute`] | the commands |
//!
//! Clocks, randomness and sleeping are passed in as [`Outside`].

pub mod address;
pub mod describe;
pub mod fees;
pub mod key_file;
pub mod transfer;

mod announced;
mod apostille;
mod commands;
mod error;
mod node;
mod packet;
mod send;

pub use announced::{Announced, plain_words};
pub use apostille::ApostilleError;
pub use commands::{Outside, execute};
pub use error::WalletError;
pub use node::{Node, NodeError};
pub use packet::{Packet, PacketError, context, read_transaction};
