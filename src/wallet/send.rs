//! `nisd send`.

use std::time::Duration;

use super::commands::{Services, load_key, node, print, print_note, print_stderr, public_key, submit};
use super::describe::{describe, describe_on};
use super::error::WalletError;
use super::node::NodeClient;
use super::signed_transaction::SignedTransaction;
use super::transfer::{TransferRequest, build};
use super::{address, fees};
use crate::cli;
use crate::cli::values::{currency, decimal};
use crate::crypto::hex_text::decode_hex;
use crate::crypto::{KeyPair, cipher};
use crate::model::transaction::{Message, MessageKind, wire_network};
use crate::model::{Address, Amount, NetworkByte, Timestamp, Transaction};
use crate::state::MosaicEntry;

/// Poll interval while waiting for confirmation.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Time after the deadline in which a block made before it may still arrive.
const CONFIRMATION_GRACE: Duration = Duration::from_secs(60);

/// Runs `nisd send`.
pub fn send(command: &cli::Send, services: Services) -> Result<(), WalletError> {
    let how = &command.how;
    let node = node(&how.node)?;
    let multisig_account = how.multisig_account.as_deref().map(public_key).transpose()?;
    address::parse(&command.to)?;
    let key = KeyPair::new(&load_key(&command.from_key_file)?);

    let network = node.network()?;
    let recipient = address::parse_on(&command.to, network)?;
    let known = known_mosaics(command, &node, network)?;
    let intent = TransferRequest {
        network,
        now: network_time(&node, services),
        deadline: how.deadline_seconds(),
        signer: key.public(),
        multisig_account,
        recipient,
        amount: command.amount.unwrap_or(Amount::ZERO),
        message: message(command, &key, &recipient, &node, services)?,
        mosaics: command.mosaic.clone(),
        fee: how.fee,
    };
    deliver(&node, &key, intent, &known, how, services)
}

/// Builds a transfer, describes it, and announces it unless it is a dry run. `known` are the mosaics in it.
pub(super) fn deliver(
    node: &NodeClient,
    key: &KeyPair,
    intent: TransferRequest,
    known: &[MosaicEntry],
    how: &cli::Delivery,
    services: Services,
) -> Result<(), WalletError> {
    let transaction = build(intent, known)?;
    warn_of_low_fee(&transaction, known);
    let packet = SignedTransaction::sign(&transaction, key)?;
    let what = if how.dry_run { "would announce" } else { "announcing" };
    let name = node.network_name();
    let shown = match &name {
        Some(name) => describe_on(packet.transaction(), name),
        None => describe(packet.transaction()),
    };
    print_stderr(&format!("{what} to {}:\n{shown}", node.url()));
    warn_if_only_harvester(node, packet.transaction(), name.as_deref());
    if how.dry_run {
        return print(&format!("{}\n", packet.to_json()));
    }
    submit(node, &packet)?;
    if how.wait { wait(node, &packet, services) } else { Ok(()) }
}

/// Returns the node's time, which it compares deadlines with; the system's time if the node does not answer.
pub(super) fn network_time(node: &NodeClient, services: Services) -> Timestamp {
    node.time().unwrap_or_else(|error| {
        print_note(&format!("{error}; the clock of this machine is used instead"));
        Timestamp::from_unix_millis((services.unix_millis)())
    })
}

/// Returns the node's data about the mosaics to send. Prints their amounts in whole units, and levies.
fn known_mosaics(
    command: &cli::Send,
    node: &NodeClient,
    network: NetworkByte,
) -> Result<Vec<MosaicEntry>, WalletError> {
    let mut known = Vec::with_capacity(command.mosaic.len());
    for mosaic in &command.mosaic {
        let entry = node.mosaic(&mosaic.id, network)?;
        let (id, whole) = (&mosaic.id, decimal(mosaic.quantity, entry.definition.properties.divisibility));
        print_note(&format!("{} smallest units of {id} are {whole} whole units", mosaic.quantity));
        if let Some(levy) = &entry.definition.levy {
            print_note(&format!("a levy in {} is paid in addition, to {}", levy.mosaic, levy.recipient));
        }
        known.push(entry);
    }
    Ok(known)
}

/// Returns the message in its serialised form; `None` if it is empty.
fn message(
    command: &cli::Send,
    key: &KeyPair,
    recipient: &Address,
    node: &NodeClient,
    services: Services,
) -> Result<Option<Message>, WalletError> {
    let (kind, payload) = match (&command.message, &command.hex, &command.encrypt) {
        (Some(text), ..) => (MessageKind::Plain, text.clone().into_bytes()),
        (_, Some(hex), _) => (MessageKind::Plain, bytes_of(hex)?),
        (.., Some(text)) => (MessageKind::Secure, encrypted(text, key, recipient, node, services)?),
        _ => return Ok(None),
    };
    Ok((!payload.is_empty()).then_some(Message { kind, payload }))
}

fn bytes_of(hex: &str) -> Result<Vec<u8>, WalletError> {
    let whole_bytes = hex.len().is_multiple_of(2);
    let bytes = decode_hex(hex).map_err(|error| WalletError::Usage(format!("--hex: {error}")))?;
    let odd = || WalletError::Usage("--hex: there is an odd number of digits; a byte has two".to_owned());
    Some(bytes).filter(|_| whole_bytes).ok_or_else(odd)
}

fn encrypted(
    text: &str,
    key: &KeyPair,
    recipient: &Address,
    node: &NodeClient,
    services: Services,
) -> Result<Vec<u8>, WalletError> {
    let unknown = "the node does not know the recipient's public key, because the account has not sent anything yet";
    let public = node.public_key(recipient)?.ok_or(WalletError::Encryption(unknown))?;
    let (salt, iv) = (services.random_bytes()?, services.random_bytes()?);
    cipher::encrypt(key, &public, *salt, *iv, text.as_bytes())
        .map_err(|_| WalletError::Encryption("the recipient's public key is not a point of the curve"))
}

fn warn_of_low_fee(transaction: &Transaction, known: &[MosaicEntry]) {
    let paying = transaction.inner().unwrap_or(transaction);
    if let Ok(least) = fees::minimum(paying, known)
        && paying.fee < least
    {
        print_note(&format!("the fee is below the minimum of {}; most nodes will reject it", currency(least)));
    }
}

/// Warns if the signer makes all blocks: they hold no transactions of their harvester, so this one is never confirmed.
fn warn_if_only_harvester(node: &NodeClient, transaction: &Transaction, network: Option<&str>) {
    const PUBLIC: [&str; 3] = ["mainnet", "testnet", "mijinnet"];
    let signer = transaction.signer_address(wire_network(transaction.version));
    let is_private = network.is_some_and(|name| !PUBLIC.contains(&name));
    if is_private && node.is_only_harvester(&signer).unwrap_or(false) {
        print_note(&format!(
            "{signer} is the only account that harvests on this node, and a block contains no transactions of its own \
             harvester: unless another node harvests, this transaction is never confirmed. Send from another account"
        ));
    }
}

/// Polls until the transaction is confirmed or has expired.
fn wait(node: &NodeClient, packet: &SignedTransaction, services: Services) -> Result<(), WalletError> {
    let transaction = packet.transaction();
    let seconds = transaction.deadline.0.saturating_sub(transaction.timestamp.0);
    let limit = Duration::from_secs(seconds.unsigned_abs().into()) + CONFIRMATION_GRACE;
    let end = (services.millis)().saturating_add(limit.as_millis() as u64);
    let hash = packet.hash();
    print_stderr("waiting until it is confirmed\n");
    loop {
        let last = (services.millis)() >= end;
        match node.height_of(&hash) {
            Ok(Some(height)) => return print(&format!("confirmed at height: {height}\n")),
            Err(error) if last || !error.is_temporary() => return Err(error.into()),
            Ok(None) if last => return Err(WalletError::NotConfirmed),
            Ok(None) | Err(_) => (services.sleep)(POLL_INTERVAL),
        }
    }
}
