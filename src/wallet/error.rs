//! Errors of the wallet commands.

use std::io;
use std::path::PathBuf;

use super::address::AddressError;
use super::announce_result::{AnnounceResult, explain_result};
use super::apostille::ApostilleError;
use super::key_file::KeyFileError;
use super::node::NodeError;
use super::signed_transaction::SignedTransactionError;
use super::transfer::TransferError;
use crate::cli::{EXIT_FAILURE, EXIT_USAGE};

/// An error of a wallet command.
#[derive(Debug, thiserror::Error)]
pub enum WalletError {
    /// The command line asks for something impossible; the text says what to do.
    #[error("{0}")]
    Usage(String),
    /// An address on the command line is wrong.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The transfer is invalid.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// This key file cannot be read or written.
    #[error("key file {path}: {1}", path = .0.display())]
    KeyFile(PathBuf, KeyFileError),
    /// This file, or standard input as `-`, cannot be read.
    #[error("{path}: {1}", path = .0.display())]
    File(PathBuf, io::Error),
    /// A file holds no transaction that can be announced.
    #[error(transparent)]
    SignedTransaction(#[from] SignedTransactionError),
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// The system provided no randomness.
    #[error("the system provides no random numbers: {0}")]
    Randomness(io::Error),
    /// The message cannot be encrypted for the recipient.
    #[error("the message cannot be encrypted: {0}; omit it, or send it unencrypted with --message")]
    Encryption(&'static str),
    /// The node did not answer a request as expected.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A file does not match a transaction.
    #[error(transparent)]
    Apostille(#[from] ApostilleError),
    /// The node rejected the transaction.
    #[error("the node rejected the transaction ({}): {}", .0.name, explain_result(.0.code))]
    Rejected(AnnounceResult),
    /// The transaction was not confirmed before its deadline.
    #[error(
        "the transaction is not in the chain although its deadline has passed; it can no longer be confirmed, \
                 unless the node itself is behind"
    )]
    NotConfirmed,
}

impl WalletError {
    /// Returns the exit code of the program.
    pub fn exit_code(&self) -> u8 {
        match self {
            WalletError::Usage(_) | WalletError::Address(_) | WalletError::Transfer(_) => EXIT_USAGE,
            _ => EXIT_FAILURE,
        }
    }
}
