//! Errors of the wallet commands.

use std::fmt;
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
#[derive(Debug)]
pub enum WalletError {
    /// The command line asks for something impossible; the text says what to do.
    Usage(String),
    /// An address on the command line is wrong.
    Address(AddressError),
    /// The transfer is invalid.
    Transfer(TransferError),
    /// This key file cannot be read or written.
    KeyFile(PathBuf, KeyFileError),
    /// This file, or standard input as `-`, cannot be read.
    File(PathBuf, io::Error),
    /// A file holds no transaction that can be announced.
    SignedTransaction(SignedTransactionError),
    /// Standard output cannot be written.
    Output(io::Error),
    /// The system provided no randomness.
    Randomness(io::Error),
    /// The message cannot be encrypted for the recipient.
    Encryption(&'static str),
    /// The node did not answer a request as expected.
    Node(NodeError),
    /// A file does not match a transaction.
    Apostille(ApostilleError),
    /// The node rejected the transaction.
    Rejected(AnnounceResult),
    /// The transaction was not confirmed before its deadline.
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

impl fmt::Display for WalletError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WalletError::Usage(text) => f.write_str(text),
            WalletError::Address(error) => error.fmt(f),
            WalletError::Transfer(error) => error.fmt(f),
            WalletError::KeyFile(path, error) => write!(f, "key file {}: {error}", path.display()),
            WalletError::File(path, error) => write!(f, "{}: {error}", path.display()),
            WalletError::SignedTransaction(error) => error.fmt(f),
            WalletError::Output(error) => write!(f, "cannot write the output: {error}"),
            WalletError::Randomness(error) => write!(f, "the system provides no random numbers: {error}"),
            WalletError::Encryption(reason) => {
                write!(f, "the message cannot be encrypted: {reason}; omit it, or send it unencrypted with --message")
            }
            WalletError::Node(error) => error.fmt(f),
            WalletError::Apostille(error) => error.fmt(f),
            WalletError::Rejected(answer) => {
                write!(f, "the node rejected the transaction ({}): {}", answer.name, explain_result(answer.code))
            }
            WalletError::NotConfirmed => f.write_str(
                "the transaction is not in the chain although its deadline has passed; it can no longer be confirmed, \
                 unless the node itself is behind",
            ),
        }
    }
}

impl std::error::Error for WalletError {}

macro_rules! from_error {
    ($($error:ty => $variant:ident),*) => {
        $(impl From<$error> for WalletError {
            fn from(error: $error) -> Self {
                WalletError::$variant(error)
            }
        })*
    };
}

from_error!(
    AddressError => Address,
    TransferError => Transfer,
    SignedTransactionError => SignedTransaction,
    NodeError => Node,
    ApostilleError => Apostille
);
