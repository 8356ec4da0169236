//! Notarised files: `nisd apostille`. A transfer whose message is a mark and the SHA-256 of a file proves that its
//! signer knew the file when the block was made.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use sha2::{Digest, Sha256};

use super::send::{Delivery, Sender, hash};
use super::{CommandError, DEFAULT_NODE, StopOnSignals, failed, in_file, node, notes, print, print_note};
use crate::clock::System;
use crate::files;
use crate::model::transaction::{Message, MessageKind, wire_network};
use crate::model::{Address, Amount, Body, Hash256, Transaction, utc};
use crate::wallet::values::{self, dashed};

/// Prefix of the message: the mark of the convention, and the number of an unsigned SHA-256.
const MARK: [u8; 5] = [0xfe, 0x4e, 0x54, 0x59, 0x03];

/// `nisd apostille`.
#[derive(Subcommand, Debug)]
pub enum ApostilleCommand {
    /// Announce the SHA-256 of a file
    #[command(after_help = notes!("apostille"))]
    Create(CreateApostille),
    /// Compare a file with the hash in a confirmed transaction
    #[command(after_help = notes!("apostille"))]
    Verify(VerifyApostille),
}

/// `nisd apostille create`.
#[derive(Args, Debug)]
pub struct CreateApostille {
    /// File to notarise; only its hash is announced
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Key file of the account that signs
    #[arg(long, value_name = "KEYFILE")]
    pub from_key_file: PathBuf,
    /// Recipient of the transfer of 0 XEM [default: the account itself]
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<String>,
    #[command(flatten)]
    pub how: Delivery,
}

/// `nisd apostille verify`.
#[derive(Args, Debug)]
pub struct VerifyApostille {
    /// File to verify
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Hash of the transaction, or of the inner one if a multisig account notarised the file
    #[arg(long, value_name = "HASH", value_parser = hash)]
    pub transaction: Hash256,
    /// The node to query
    #[arg(long, value_name = "URL", default_value = DEFAULT_NODE)]
    pub node: String,
}

/// Runs `nisd apostille`.
pub fn apostille(command: &ApostilleCommand, system: System, stop: StopOnSignals) -> Result<(), CommandError> {
    match command {
        ApostilleCommand::Create(command) => create(command, system, stop),
        ApostilleCommand::Verify(command) => verify(command),
    }
}

/// Announces the hash of a file, by default to the account itself.
fn create(command: &CreateApostille, system: System, stop: StopOnSignals) -> Result<(), CommandError> {
    command.to.as_deref().map(values::address).transpose().map_err(CommandError::Usage)?;
    let hash = hash_of(&command.file)?;
    let sender = Sender::new(&command.how, &command.from_key_file, system, stop)?;
    let recipient = match &command.to {
        Some(to) => values::address_on(to, sender.network).map_err(CommandError::Usage)?,
        None => sender.address(),
    };
    print_note(&format!("the SHA-256 of {} is {}", command.file.display(), hex::encode(hash)));
    let payload = [MARK.as_slice(), &hash].concat();
    sender.deliver(recipient, Amount::ZERO, Some(Message { kind: MessageKind::Plain, payload }), &[], &[])
}

/// Compares a file with the hash in a confirmed transaction, and prints who notarised it and when.
fn verify(command: &VerifyApostille) -> Result<(), CommandError> {
    let node = node(&command.node, None)?;
    let hash = command.transaction;
    let found = hash_of(&command.file)?;
    let not_verified = |reason: &str| failed(format!("not verified: {reason}"));
    let Some((transaction, height)) = node.confirmed(&hash)? else {
        return Err(not_verified(&format!(
            "the node knows no confirmed transaction {hash}; it may still be unconfirmed, or the node does not keep \
             hashes of old transactions (TRANSACTION_HASH_LOOKUP): name another with --node"
        )));
    };
    // For a multisig account the inner transaction has the message.
    let signed = transaction.inner().unwrap_or(&transaction);
    let notarised = notarised_hash(signed).map_err(not_verified)?;
    if notarised != found {
        return Err(not_verified(&format!(
            "{} has the SHA-256 {}, and the transaction notarises a file with {}",
            command.file.display(),
            hex::encode(found),
            hex::encode(notarised)
        )));
    }
    let time = node.time_of(height)?;
    let signer = Address::from_public_key(&signed.signer, wire_network(signed.version));
    print(&format!(
        "verified     {}\nsha-256      {}\ntransaction  {hash}\nsigner       {}\naddress      {}\nheight       {}\n\
         time         {} UTC\n",
        command.file.display(),
        hex::encode(found),
        signed.signer,
        dashed(&signer),
        height,
        utc(time.to_unix_millis()),
    ))
}

/// Returns the hash that a transaction notarises, or why it notarises none.
fn notarised_hash(transaction: &Transaction) -> Result<[u8; 32], &'static str> {
    let message = match &transaction.body {
        Body::Transfer(transfer) => transfer.message.as_ref(),
        _ => return Err("the transaction is no transfer, and only those have messages"),
    };
    let message = message.ok_or("the transaction has no message")?;
    if message.kind == MessageKind::Secure {
        return Err("the message of the transaction is encrypted");
    }
    match message.payload.strip_prefix(&MARK).map(<[u8; 32]>::try_from) {
        Some(Ok(hash)) => Ok(hash),
        Some(Err(_)) => Err("the mark FE4E545903 is not followed by a hash of 32 bytes"),
        None => Err(
            "the message of the transaction does not begin with FE4E545903, the mark of a SHA-256 without a signature",
        ),
    }
}

/// Returns the SHA-256 of a file.
fn hash_of(path: &Path) -> Result<[u8; 32], CommandError> {
    let mut hashed = Hashed(Sha256::new());
    let read = files::open(path).and_then(|mut file| io::copy(&mut file, &mut hashed));
    read.map_err(in_file(path))?;
    Ok(hashed.0.finalize().into())
}

/// The SHA-256 of what is written to it.
struct Hashed(Sha256);

impl io::Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::PublicKey;
    use crate::model::transaction::{Transfer, wire_version};
    use crate::model::{NetworkByte, Timestamp};

    fn transfer(kind: MessageKind, payload: Option<&str>) -> Transaction {
        let payload = payload.map(|hex| hex::decode(hex).unwrap());
        let message = payload.map(|payload| Message { kind, payload });
        let recipient = Address::from_public_key(&PublicKey([0; 32]), NetworkByte::TESTNET);
        Transaction {
            version: wire_version(NetworkByte::TESTNET, 1),
            timestamp: Timestamp(1),
            signer: PublicKey([0; 32]),
            signature: None,
            fee: Amount::ZERO,
            deadline: Timestamp(2),
            body: Body::Transfer(Transfer { recipient, amount: Amount::ZERO, message, mosaics: Vec::new() }),
        }
    }

    #[test]
    fn a_notarisation_is_a_plain_message_with_the_marker_and_a_whole_hash() {
        let hash = "ab".repeat(32);
        let read = |kind, payload: Option<&str>| notarised_hash(&transfer(kind, payload));
        assert_eq!(read(MessageKind::Plain, Some(&format!("FE4E545903{hash}"))), Ok([0xab; 32]));
        assert_eq!(read(MessageKind::Plain, Some(&format!("fe4e545903{hash}"))), Ok([0xab; 32]));
        let rejected = [
            (MessageKind::Secure, Some(format!("fe4e545903{hash}")), "encrypted"),
            (MessageKind::Plain, None, "no message"),
            (MessageKind::Plain, Some("fe4e545903".to_owned()), "not followed by a hash of 32 bytes"),
            (MessageKind::Plain, Some(format!("fe4e545903{hash}00")), "not followed by a hash of 32 bytes"),
            (MessageKind::Plain, Some(format!("fe4e545983{hash}")), "does not begin"),
            (MessageKind::Plain, Some("fe4e".to_owned()), "does not begin"),
        ];
        for (kind, payload, words) in rejected {
            let said = read(kind, payload.as_deref()).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
    }
}
