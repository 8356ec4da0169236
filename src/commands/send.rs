//! `nisd send`, `nisd sign`, `nisd announce` and `nisd status-of`: from a request to what became of it.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use rustix::event::PollFlags;
use serde::Serialize;

use super::keys::{load_key, public_key};
use super::{
    CommandError, DEFAULT_NODE, StopOnSignals, failed, finish_output, in_file, node, node_flag, not_text, print,
    print_json, print_note, random_bytes, usage, when_ready,
};
use crate::clock::System;
use crate::codec::text::text_of_file;
use crate::crypto::keys::decode_hex;
use crate::crypto::{KeyPair, PublicKey, cipher};
use crate::files;
use crate::logging::eprint_line;
use crate::model::transaction::{Message, MessageKind, wire_network};
use crate::model::{Address, Amount, Hash256, Mosaic, NetworkByte, Timestamp, Transaction};
use crate::state::MosaicEntry;
use crate::wallet::values::{self, NETWORKS, currency, decimal};
use crate::wallet::{
    Fate, NodeClient, SignedTransaction, TRANSACTIONS, TransactionStatus, TransferRequest, await_end, build, describe,
    explain_result, is_signed_transaction, levies, minimum_fee, printable, read_transaction,
};

/// Maximum bytes of a file with a transaction.
const MAX_INPUT_BYTES: usize = 256 * 1024;
/// Time after the deadline in which a block made before it may still arrive.
const CONFIRMATION_GRACE: Duration = Duration::from_secs(60);
/// Default deadline, in seconds.
const DEFAULT_DEADLINE_SECONDS: i32 = 3600;
/// How far the node's time may be ahead of this machine's, in seconds.
const MAX_SECONDS_AHEAD: i64 = 600;
/// Longest time between time stamp and deadline that nodes accept, in seconds.
const MAX_DEADLINE_SECONDS: i32 = 86_400;
/// Longest time in which an announced transaction may still be confirmed.
const MAX_LIFETIME: Duration = Duration::from_secs(MAX_DEADLINE_SECONDS as u64).saturating_add(CONFIRMATION_GRACE);

/// Returns the examples of a command, followed by one transaction of each kind.
pub(super) fn with_transactions(examples: &str) -> String {
    format!("{examples}\n\n{TRANSACTIONS}")
}

/// `nisd send`.
#[derive(Args, Debug)]
pub struct Send {
    /// Key file of the account that signs
    #[arg(long, value_name = "FILE")]
    pub from_key_file: PathBuf,
    /// Address of the recipient, with or without dashes
    #[arg(long, value_name = "ADDRESS")]
    pub to: String,
    /// XEM to send, with up to 6 decimal places
    #[arg(long, value_name = "XEM", value_parser = values::amount, required_unless_present = "mosaic", allow_negative_numbers = true)]
    pub amount: Option<Amount>,
    /// Message that everybody can read
    #[arg(long, value_name = "TEXT", group = "text")]
    pub message: Option<String>,
    /// Message that only sender and recipient can read; the node must know the recipient's public key
    #[arg(long, value_name = "TEXT", group = "text", conflicts_with = "multisig_account")]
    pub encrypt: Option<String>,
    /// Message given as bytes in hex
    #[arg(long, value_name = "HEX", group = "text")]
    pub hex: Option<String>,
    /// Mosaic to send, in smallest units; may be given several times
    #[arg(long, value_name = "NAMESPACE:NAME=QUANTITY", value_parser = values::mosaic)]
    pub mosaic: Vec<Mosaic>,
    #[command(flatten)]
    pub how: Delivery,
}

/// Multiple of the minimum fee above which a fee is taken for a mistake.
const MAX_USUAL_FEE: u64 = 100;

/// How a transfer is made and announced.
#[derive(Args, Debug)]
pub struct Delivery {
    /// Fee of the transfer [default: the minimum fee]
    #[arg(long, value_name = "XEM", value_parser = values::amount, allow_negative_numbers = true)]
    pub fee: Option<Amount>,
    /// Allow a fee, with levies in XEM, of more than 100 times the minimum
    #[arg(long)]
    pub allow_high_fee: bool,
    /// Seconds until the transaction expires, at most 86400 [default: 3600, and 86400 for multisig accounts]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i32).range(1..=MAX_DEADLINE_SECONDS as i64),
        allow_negative_numbers = true)]
    pub deadline: Option<i32>,
    /// The node to use
    #[arg(long, value_name = "URL", default_value = DEFAULT_NODE)]
    pub node: String,
    /// Public key of the multisig account to spend from; the signer must be one of its cosignatories
    #[arg(long, value_name = "PUBLICKEY")]
    pub multisig_account: Option<String>,
    /// Announce nothing; write the signed transaction to standard output
    #[arg(long)]
    pub dry_run: bool,
    /// Wait until the transaction is confirmed or has expired
    #[arg(long, conflicts_with = "dry_run")]
    pub wait: bool,
}

/// `nisd sign`.
#[derive(Args, Debug)]
pub struct Sign {
    /// Key file of the signer
    #[arg(long, value_name = "FILE")]
    pub key_file: PathBuf,
    /// Transaction as JSON, - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub file: PathBuf,
}

/// `nisd announce`.
#[derive(Args, Debug)]
pub struct Announce {
    /// Signed transaction as nisd sign writes it, or with --key-file a transaction as JSON; - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub file: PathBuf,
    /// Key file of the signer, to sign the transaction first
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// The node to use
    #[arg(long, value_name = "URL", default_value = DEFAULT_NODE)]
    pub node: String,
}

/// `nisd status-of`.
#[derive(Args, Debug)]
pub struct StatusOf {
    /// Hash of the transaction, or of its inner transaction: 64 hex digits
    #[arg(value_name = "HASH", value_parser = hash)]
    hash: Hash256,
    /// The node to use
    #[arg(long, value_name = "URL", default_value = DEFAULT_NODE)]
    node: String,
    /// Wait until the transaction is confirmed or has failed, at most a day
    #[arg(long)]
    wait: bool,
    /// Print JSON, as /transaction/status answers
    #[arg(long)]
    json: bool,
}

/// The answer as JSON.
#[derive(Serialize)]
struct Answer<'s> {
    hash: String,
    #[serde(flatten)]
    status: &'s TransactionStatus,
}

pub(super) fn hash(text: &str) -> Result<Hash256, &'static str> {
    Hash256::from_hex(text).ok_or("a hash has 64 hex digits")
}

/// Runs `nisd send`.
pub fn send(command: &Send, system: System, stop: StopOnSignals) -> Result<(), CommandError> {
    // Mistakes are reported before the node is asked.
    values::address(&command.to).map_err(CommandError::Usage)?;
    let sender = Sender::new(&command.how, &command.from_key_file, system, stop)?;
    let recipient = values::address_on(&command.to, sender.network).map_err(CommandError::Usage)?;
    let known = known_mosaics(command, &sender)?;
    let message = message(command, &sender, &recipient)?;
    sender.deliver(recipient, command.amount.unwrap_or(Amount::ZERO), message, &command.mosaic, &known)
}

/// Who sends a transfer, and how.
pub(super) struct Sender<'a> {
    how: &'a Delivery,
    system: System,
    stop: StopOnSignals,
    node: NodeClient,
    key: KeyPair,
    multisig_account: Option<PublicKey>,
    /// The network of the node.
    pub network: NetworkByte,
}

impl<'a> Sender<'a> {
    pub fn new(
        how: &'a Delivery,
        key_file: &Path,
        system: System,
        stop: StopOnSignals,
    ) -> Result<Sender<'a>, CommandError> {
        let node = node(&how.node, None)?;
        let multisig_account = how.multisig_account.as_deref().map(public_key).transpose()?;
        let key = KeyPair::new(&load_key(key_file)?);
        let network = node.network()?;
        Ok(Sender { how, system, stop, node, key, multisig_account, network })
    }

    /// Returns the address of the account that pays.
    pub fn address(&self) -> Address {
        Address::from_public_key(&self.multisig_account.unwrap_or(self.key.public()), self.network)
    }

    /// Builds a transfer, describes it, and announces it unless it is a dry run. `known` describes its mosaics.
    pub fn deliver(
        mut self,
        recipient: Address,
        amount: Amount,
        message: Option<Message>,
        mosaics: &[Mosaic],
        known: &[MosaicEntry],
    ) -> Result<(), CommandError> {
        let Sender { how, node, key, multisig_account, network, .. } = &self;
        // Cosignatories need time.
        let usual = if multisig_account.is_some() { MAX_DEADLINE_SECONDS } else { DEFAULT_DEADLINE_SECONDS };
        let intent = TransferRequest {
            network: *network,
            now: self.network_time()?,
            deadline: how.deadline.unwrap_or(usual),
            signer: key.public(),
            multisig_account: *multisig_account,
            recipient,
            amount,
            message,
            mosaics: mosaics.to_vec(),
            fee: how.fee,
        };
        let transaction = build(intent, known).map_err(CommandError::Usage)?;
        check_fee(&transaction, known, how.allow_high_fee)?;
        let packet = SignedTransaction::sign(&transaction, key).map_err(CommandError::Failed)?;
        let what = if how.dry_run { "would announce" } else { "announcing" };
        let name = node.network_name();
        let shown = describe(&packet.transaction, name.as_deref());
        eprint_line(&format!("{what} to {}:\n{shown}", node.url()));
        warn_if_only_harvester(node, &packet.transaction, name.as_deref());
        if how.dry_run {
            return print(&format!("{}\n", packet.to_json()));
        }
        if !submit(&mut self.node, &packet, self.stop)? {
            // Another time stamp would pay twice if the node lied.
            return Err(failed(
                "an equal transaction was sent before, in the same second, so nothing more is paid; run the command again \
                 if another payment is meant",
            ));
        }
        if self.how.wait { wait(&self.node, &packet, self.system) } else { Ok(()) }
    }

    /// Returns the node's time, which it compares deadlines with; the system's time if the node does not answer. A node
    /// whose time is ahead would get a signature that is valid later, when the user has long paid elsewhere.
    fn network_time(&self) -> Result<Timestamp, CommandError> {
        let here = Timestamp::from_unix_millis((self.system.unix_millis)());
        let time = self.node.time().unwrap_or_else(|error| {
            print_note(&format!("{error}; the clock of this machine is used instead"));
            here
        });
        if i64::from(time.0) - i64::from(here.0) > MAX_SECONDS_AHEAD {
            return Err(failed(format!(
                "nothing is signed: the node's time is {} UTC, and this machine's is {} UTC. Set the clock that is wrong, \
                 or use another node",
                time.date_and_time(),
                here.date_and_time()
            )));
        }
        Ok(time)
    }

    fn encrypted(&self, text: &str, recipient: &Address) -> Result<Vec<u8>, CommandError> {
        let unknown =
            "the node does not know the recipient's public key, because the account has not sent anything yet";
        let public = self.node.public_key(recipient, self.network)?.ok_or(cannot_encrypt(unknown))?;
        let (salt, iv) = (random_bytes(self.system)?, random_bytes(self.system)?);
        cipher::encrypt(&self.key, &public, *salt, *iv, text.as_bytes())
            .map_err(|_| cannot_encrypt("the recipient's public key is not a point of the curve"))
    }
}

fn cannot_encrypt(reason: &str) -> CommandError {
    let advice = "omit it, or send it unencrypted with --message";
    failed(format!("the message cannot be encrypted: {reason}; {advice}"))
}

/// Returns the node's data about the mosaics to send. Prints their amounts in whole units.
fn known_mosaics(command: &Send, sender: &Sender<'_>) -> Result<Vec<MosaicEntry>, CommandError> {
    let mut known = Vec::with_capacity(command.mosaic.len());
    for mosaic in &command.mosaic {
        let entry = sender.node.mosaic(&mosaic.id, sender.network)?;
        let (id, whole) = (&mosaic.id, decimal(mosaic.quantity, entry.definition.properties.divisibility));
        print_note(&format!("{} smallest units of {id} are {whole} whole units", mosaic.quantity));
        known.push(entry);
    }
    Ok(known)
}

/// Returns the message in its serialised form; `None` if it is empty.
fn message(command: &Send, sender: &Sender<'_>, recipient: &Address) -> Result<Option<Message>, CommandError> {
    let (kind, payload) = match (&command.message, &command.hex, &command.encrypt) {
        (Some(text), ..) => (MessageKind::Plain, text.clone().into_bytes()),
        (_, Some(hex), _) => (MessageKind::Plain, bytes_of(hex)?),
        (.., Some(text)) => (MessageKind::Secure, sender.encrypted(text, recipient)?),
        _ => return Ok(None),
    };
    Ok((!payload.is_empty()).then_some(Message { kind, payload }))
}

fn bytes_of(hex: &str) -> Result<Vec<u8>, CommandError> {
    let bytes = decode_hex(hex).map_err(|error| usage(format!("--hex: {error}")))?;
    if !hex.len().is_multiple_of(2) {
        return Err(usage("--hex: there is an odd number of digits; a byte has two"));
    }
    Ok(bytes)
}

/// Warns of a fee that is too low, and rejects one that is high by mistake, such as one in micro XEM. Shows levies; those in
/// XEM count like a fee.
fn check_fee(transaction: &Transaction, known: &[MosaicEntry], allow_high: bool) -> Result<(), CommandError> {
    let paying = transaction.inner().unwrap_or(transaction);
    let Ok(least) = minimum_fee(paying, known) else { return Ok(()) };
    if paying.fee < least {
        print_note(&format!("the fee is below the minimum of {}; most nodes will reject it", currency(least)));
    }
    let mut fee = paying.fee;
    for (levy, amount) in levies(paying, known) {
        let what = if levy.mosaic.is_xem() {
            fee.0 = fee.0.saturating_add(amount);
            currency(Amount(amount))
        } else {
            format!("{amount} smallest units of {}", printable(&levy.mosaic.to_string()))
        };
        print_note(&format!("a levy of {what} is paid in addition, to {}", levy.recipient));
    }
    if fee.0 / MAX_USUAL_FEE > least.0 && !allow_high {
        let (kind, fee, least) =
            (if fee > paying.fee { "fee and levy" } else { "fee" }, currency(fee), currency(least));
        return Err(usage(format!(
            "the {kind} of {fee} is more than {MAX_USUAL_FEE} times the minimum of {least}; if it is meant, add --allow-high-fee"
        )));
    }
    Ok(())
}

/// Warns if the signer makes all blocks: they hold no transactions of their harvester, so this one is never confirmed.
fn warn_if_only_harvester(node: &NodeClient, transaction: &Transaction, network: Option<&str>) {
    let signer = transaction.signer_address(wire_network(transaction.version));
    let is_private = network.is_some_and(|name| NETWORKS.iter().all(|(public, _)| *public != name));
    if is_private && node.is_only_harvester(&signer).unwrap_or(false) {
        print_note(&format!(
            "{signer} is the only account that harvests on this node, and a block contains no transactions of its own \
             harvester: unless another node harvests, this transaction is never confirmed. Send from another account"
        ));
    }
}

/// Waits until the transaction is confirmed, or will not be.
fn wait(node: &NodeClient, packet: &SignedTransaction, system: System) -> Result<(), CommandError> {
    let transaction = &packet.transaction;
    let seconds = transaction.deadline.0.saturating_sub(transaction.timestamp.0);
    let limit = Duration::from_secs(seconds.unsigned_abs().into()) + CONFIRMATION_GRACE;
    eprint_line("waiting until it is confirmed");
    // The same transaction is confirmed once, however often it is announced.
    let announce_again = |status: &TransactionStatus| {
        if status.is_forgotten() {
            eprint_line("the node no longer knows the transaction, as after a restart: it is announced again");
            if let Err(error) = node.announce(packet) {
                eprint_line(&error.to_string());
            }
        }
    };
    let status = await_end(node, &packet.transaction.hash(), limit, system, announce_again);
    let status = status.map_err(|error| sent_once(node, packet, "was announced", &error.to_string()))?;
    if status.fate == Fate::Confirmed {
        let height = status.number("height");
        let fate = format!("was confirmed at height {height}");
        return print_outcome(node, packet, &fate, &format!("confirmed at height: {height}\n"));
    }
    Err(failed(if status.is_failure() {
        format!("the transaction is not in the chain: {status}")
    } else {
        "the transaction is not in the chain although its deadline has passed; it can no longer be confirmed, unless \
         the node itself is behind"
            .to_owned()
    }))
}

/// Runs `nisd sign`.
pub fn sign(command: &Sign) -> Result<(), CommandError> {
    let key = KeyPair::new(&load_key(&command.key_file)?);
    let input = read_input(&command.file)?;
    let packet = read_transaction(input.as_bytes()).and_then(|transaction| SignedTransaction::sign(&transaction, &key));
    let packet = packet.map_err(CommandError::Failed)?;
    eprint_line(&format!("signed:\n{}", describe(&packet.transaction, None)));
    print(&format!("{}\n", packet.to_json()))
}

/// Runs `nisd announce`.
pub fn announce(command: &Announce, stop: StopOnSignals) -> Result<(), CommandError> {
    let mut node = node(&command.node, None)?;
    let key = command.key_file.as_deref().map(load_key).transpose()?;
    let input = read_input(&command.file)?;
    let packet = if is_signed_transaction(input.as_bytes()) {
        SignedTransaction::parse(input.as_bytes())
    } else {
        // Errors in the transaction are reported before a missing key.
        let transaction = read_transaction(input.as_bytes()).map_err(CommandError::Failed)?;
        let Some(key) = key else {
            return Err(usage(
                "this transaction has no signature; give the signer's key file with --key-file, or sign it with nisd \
                 sign",
            ));
        };
        SignedTransaction::sign(&transaction, &KeyPair::new(&key))
    };
    let packet = packet.map_err(CommandError::Failed)?;
    let name = node.network_name();
    eprint_line(&format!("announcing to {}:\n{}", node.url(), describe(&packet.transaction, name.as_deref())));
    submit(&mut node, &packet, stop)?;
    Ok(())
}

/// Announces a transaction and prints the answer. Returns whether the node did not know it before. From here on a signal ends the wait for the node, with an error that says
/// what may have happened.
fn submit(node: &mut NodeClient, packet: &SignedTransaction, stop: StopOnSignals) -> Result<bool, CommandError> {
    node.stop_at(stop()?);
    let answer = node.announce(packet).map_err(|error| {
        let is_open = error.may_be_done();
        if is_open { sent_once(node, packet, "may have been accepted", &error.to_string()) } else { error.into() }
    })?;
    let printed = print_outcome(node, packet, "was announced", &format!("{answer}\n"));
    if answer.is_success() {
        return printed.map(|()| true);
    }
    let known = |hash: &Hash256| {
        let status = answer.is_neutral().then(|| node.status(hash)).and_then(Result::ok);
        status.filter(|status| matches!(status.fate, Fate::Confirmed | Fate::Unconfirmed))
    };
    if let Some(status) = known(&answer.hash) {
        print_note(&format!("the node knows this transaction already: {status}"));
        return printed.map(|()| false);
    }
    if let Some((inner, status)) = answer.inner_hash.and_then(|inner| Some((inner, known(&inner)?))) {
        return Err(failed(format!(
            "another multisig transaction has the same inner transaction, so this one is not needed: {status}\nTo agree, \
             announce a multisig signature whose otherHash is the inner hash, {inner} (`nisd announce --help`)"
        )));
    }
    let (reason, until) = (explain_result(answer.code), packet.transaction.deadline.date_and_time());
    Err(failed(format!(
        "the node rejected the transaction ({}): {reason}. It may give the same answer for ten minutes, whatever changes \
         meanwhile; who has the transaction can announce it again until {until} UTC",
        answer.name
    )))
}

/// Prints what became of a transaction. The error says it, too, as `fate`: who sends the transaction again pays twice.
fn print_outcome(node: &NodeClient, packet: &SignedTransaction, fate: &str, outcome: &str) -> Result<(), CommandError> {
    print(outcome).and_then(|()| finish_output()).map_err(|error| match error {
        CommandError::Failed(reason) => sent_once(node, packet, fate, &reason),
        other => other,
    })
}

/// Returns the error of a command whose transaction is, or may be, at the node.
fn sent_once(node: &NodeClient, packet: &SignedTransaction, fate: &str, reason: &str) -> CommandError {
    let (hash, at) = (packet.transaction.hash(), node_flag(&node.url()));
    failed(format!(
        "the transaction {hash} {fate}: do not send it again; `nisd status-of {hash}{at}` shows its status. {reason}"
    ))
}

/// Runs `nisd status-of`. Ends with the exit code of the status.
pub fn status_of(command: &StatusOf, system: System) -> Result<(), CommandError> {
    let (node, hash) = (node(&command.node, None)?, &command.hash);
    let limit = if command.wait { MAX_LIFETIME } else { Duration::ZERO };
    let status = await_end(&node, hash, limit, system, |status| eprint_line(&status.to_string()))?;
    if command.json {
        print_json(&serde_json::to_string(&Answer { hash: hash.to_string(), status: &status }).unwrap_or_default())?;
    } else {
        print(&format!("{status}\n"))?;
    }
    Err(CommandError::Exit(status.fate as u8))
}

/// Reads the text of a file, or of standard input if the name is `-`.
fn read_input(path: &Path) -> Result<String, CommandError> {
    let read = || -> io::Result<Vec<u8>> {
        if path.as_os_str() != "-" {
            return Ok(files::read(path, MAX_INPUT_BYTES)?.to_vec());
        }
        let (mut bytes, mut input) = (Vec::new(), io::stdin().lock().take(MAX_INPUT_BYTES as u64 + 1));
        when_ready(&io::stdin(), PollFlags::IN, || input.read_to_end(&mut bytes))?;
        if bytes.len() > MAX_INPUT_BYTES {
            return Err(io::Error::other("it is too long for a transaction"));
        }
        Ok(bytes)
    };
    let bytes = read().map_err(in_file(path))?;
    text_of_file(&bytes).map(str::to_owned).map_err(not_text(path))
}
