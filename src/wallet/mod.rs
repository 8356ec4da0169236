//! A small wallet: keys, addresses, and transactions from intent to the node's answer.
//!
//! | part | what it is |
//! |---|---|
//! | [`address`] | addresses as people write them |
//! | [`key_file`] | private keys at rest |
//! | [`transfer`], [`fees`] | transactions from what is wanted |
//! | [`Packet`] | a signed transaction: what is announced |
//! | [`describe`] | transactions for people |
//! | [`Node`] | what is asked of a node |
//! | `apostille` | files that are notarised |
//! | [`execute`] | the commands |
//!
//! Clocks, randomness and waiting come from outside, as [`Outside`].

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
