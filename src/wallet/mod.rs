//! A small wallet: keys, addresses, and transactions from the request to the node's answer.
//!
//! | Part | Content |
//! |---|---|
//! | `keys` | the commands `nisd key` and `nisd address` |
//! | `send` | the commands `nisd send`, `nisd sign` and `nisd announce` |
//! | `apostille` | notarised files |
//! | [`values`] | amounts, networks and addresses as people write them |
//! | [`key_file`] | files with private keys |
//! | [`transfer`] | building transfers |
//! | [`SignedTransaction`] | a signed transaction for announcement, and its description |
//! | [`NodeClient`] | requests to a node |
//! | [`TransactionStatus`] | what became of a transaction |
//! | [`events`] | the event stream of a node |
//!
//! Results go to standard output; descriptions of what a command will do, and warnings, go to standard error. No command
//! takes a private key on the command line, where other users can read it.

mod apostille;
pub mod events;
pub mod key_file;
mod keys;
mod node;
mod send;
mod signed_transaction;
mod status;
pub mod transfer;
pub mod values;

pub use apostille::ApostilleError;
pub use node::{AnnounceResult, NodeClient, NodeError, explain_result};
pub use send::{DEFAULT_NODE, MAX_LIFETIME};
pub use signed_transaction::{SignedTransaction, SignedTransactionError, context, read_transaction};
pub use status::{TransactionStatus, await_end};

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use zeroize::Zeroizing;

use self::apostille::ApostilleCommand;
use self::key_file::KeyFileError;
use self::keys::{KeyCommand, ShowAddress};
use self::send::{Announce, Send, Sign, with_transactions};
use self::transfer::TransferError;
use self::values::AddressError;
use crate::clock::System;
use crate::crypto::{PrivateKey, PublicKey};

/// Hex digits of a public key.
const PUBLIC_KEY_DIGITS: usize = 64;

/// Returns the examples and notes below the help of a command.
macro_rules! notes {
    ($command:literal) => {
        include_str!(concat!("../help/commands/", $command, ".txt")).trim_ascii_end()
    };
}
pub(crate) use notes;

/// The commands for keys, addresses and transactions.
#[derive(Subcommand, Debug)]
pub enum WalletCommand {
    /// Create a key pair, or inspect a key file
    #[command(subcommand, after_help = notes!("key"))]
    Key(KeyCommand),
    /// Show or check addresses
    #[command(after_help = notes!("address"))]
    Address(ShowAddress),
    /// Send XEM, mosaics and a message
    #[command(after_help = notes!("send"))]
    Send(Send),
    /// Notarise files, and verify notarised files
    #[command(subcommand, after_help = notes!("apostille"))]
    Apostille(ApostilleCommand),
    /// Sign a transaction of any kind
    #[command(after_help = with_transactions(notes!("sign")))]
    Sign(Sign),
    /// Announce a signed transaction to a node
    #[command(after_help = with_transactions(notes!("announce")))]
    Announce(Announce),
}

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
    /// The transaction was accepted and will not be confirmed, as far as the node knows.
    #[error("the transaction is not in the chain: {0}")]
    Failed(TransactionStatus),
    /// The transaction was not confirmed before its deadline.
    #[error(
        "the transaction is not in the chain although its deadline has passed; it can no longer be confirmed, \
                 unless the node itself is behind"
    )]
    NotConfirmed,
}

impl WalletError {
    /// Returns whether the command line is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, WalletError::Usage(_) | WalletError::Address(_) | WalletError::Transfer(_))
    }
}

/// Runs a command.
pub fn execute(command: &WalletCommand, system: System) -> Result<(), WalletError> {
    match command {
        WalletCommand::Key(command) => keys::key(command, system),
        WalletCommand::Address(command) => keys::show_address(command),
        WalletCommand::Send(command) => send::send(command, system),
        WalletCommand::Apostille(command) => apostille::execute(command, system),
        WalletCommand::Sign(command) => send::sign(command),
        WalletCommand::Announce(command) => send::announce(command),
    }
}

/// Returns random bytes.
fn random_bytes<const N: usize>(system: System) -> Result<Zeroizing<[u8; N]>, WalletError> {
    let mut bytes = Zeroizing::new([0; N]);
    (system.random)(bytes.as_mut_slice()).map_err(WalletError::Randomness)?;
    Ok(bytes)
}

/// Parses a public key of the command line. Errors do not show it: it may be a private key given by mistake.
fn public_key(text: &str) -> Result<PublicKey, WalletError> {
    let error =
        || WalletError::Usage(format!("a public key has {PUBLIC_KEY_DIGITS} hex digits; this one is different"));
    PublicKey::from_hex(text).ok().filter(|_| text.len() == PUBLIC_KEY_DIGITS).ok_or_else(error)
}

/// Returns the node at a URL of the command line.
fn node(url: &str) -> Result<NodeClient, WalletError> {
    NodeClient::at(url).map_err(|reason| WalletError::Usage(format!("--node {url:?}: {reason}")))
}

/// Reads a key file, and warns about an exposed or short key.
fn load_key(path: &Path) -> Result<PrivateKey, WalletError> {
    let file = key_file::read(path).map_err(|error| WalletError::KeyFile(path.to_owned(), error))?;
    let name = path.display();
    if file.is_exposed {
        print_note(&format!("other users can read the key file {name}; prevent this: chmod 600 {name}"));
    }
    if file.is_short {
        print_note(&format!("the key in {name} is shorter than usual; was it copied completely?"));
    }
    Ok(file.key)
}

/// Writes to standard output.
fn print(text: &str) -> Result<(), WalletError> {
    io::stdout().write_all(text.as_bytes()).map_err(WalletError::Output)
}

/// Writes a note for the user to standard error.
fn print_note(text: &str) {
    print_stderr(&format!("note: {text}\n"));
}

/// Writes to standard error; ignores errors, since nobody could read about them.
fn print_stderr(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
