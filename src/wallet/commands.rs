//! The commands `nisd key`, `address`, `sign` and `announce`; `send` and `apostille` have their own modules.
//!
//! Results go to standard output; descriptions of what the command will do, and warnings, go to standard error.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use zeroize::Zeroizing;

use super::address::{self, NETWORKS, dashed};
use super::describe::describe;
use super::error::WalletError;
use super::node::NodeClient;
use super::signed_transaction::{SignedTransaction, is_signed_transaction, read_transaction};
use super::{apostille, key_file, send};
use crate::cli::values::network_name;
use crate::cli::{self, KeyCommand, WalletCommand};
use crate::crypto::{KeyPair, PrivateKey, PublicKey};
use crate::model::{Address, NetworkByte};

/// Maximum bytes of a file with a transaction.
const MAX_INPUT_BYTES: u64 = 256 * 1024;
/// Hex digits of a public key.
const PUBLIC_KEY_DIGITS: usize = 64;
/// Minimum hex digits of a text that is meant as a key, complete or not, unless it is the name of a file.
const MIN_KEY_DIGITS: usize = 32;

/// Capacity for all output about a key pair.
const KEY_TEXT_BYTES: usize = 1024;

/// Services of the system that the commands need.
#[derive(Clone, Copy)]
pub struct Services {
    /// Milliseconds of Unix time.
    pub unix_millis: fn() -> i64,
    /// Milliseconds of a monotonic clock.
    pub millis: fn() -> u64,
    /// Sleeps for this time.
    pub sleep: fn(Duration),
    /// Fills bytes with the system's cryptographic randomness.
    pub random: fn(&mut [u8]) -> io::Result<()>,
}

impl Services {
    /// Returns random bytes.
    pub(super) fn random_bytes<const N: usize>(&self) -> Result<Zeroizing<[u8; N]>, WalletError> {
        let mut bytes = Zeroizing::new([0; N]);
        (self.random)(bytes.as_mut_slice()).map_err(WalletError::Randomness)?;
        Ok(bytes)
    }
}

/// Runs a command.
pub fn execute(command: &WalletCommand, services: Services) -> Result<(), WalletError> {
    match command {
        WalletCommand::Key(KeyCommand::New(command)) => new_key(command, services),
        WalletCommand::Key(KeyCommand::Inspect(command)) => inspect_key(command),
        WalletCommand::Address(command) => show_address(command),
        WalletCommand::Send(command) => send::send(command, services),
        WalletCommand::Apostille(command) => apostille::execute(command, services),
        WalletCommand::Sign(command) => sign(command),
        WalletCommand::Announce(command) => announce(command),
    }
}

fn new_key(command: &cli::NewKey, services: Services) -> Result<(), WalletError> {
    let key = PrivateKey::from_seed(&*services.random_bytes()?);
    let mut text = Zeroizing::new(key_lines(&KeyPair::new(&key).public(), command.network));
    match &command.output {
        Some(path) => {
            key_file::write(path, &key).map_err(|error| WalletError::KeyFile(path.clone(), error))?;
            text.push_str(&format!("key file     {}\n", path.display()));
        }
        None => {
            print_note("the private key is shown only now and stored nowhere; anyone who sees it controls the account");
            push_private_line(&mut text, &key);
        }
    }
    print(&text)
}

fn inspect_key(command: &cli::InspectKey) -> Result<(), WalletError> {
    let key = load_key(&command.file)?;
    let mut text = Zeroizing::new(key_lines(&KeyPair::new(&key).public(), command.network));
    if command.show_private {
        push_private_line(&mut text, &key);
    }
    print(&text)
}

/// Appends the private key. [`key_lines`] has reserved the capacity, so growth leaves no copy of the key behind.
fn push_private_line(text: &mut String, key: &PrivateKey) {
    text.push_str("private key  ");
    text.push_str(&key.printed());
    text.push('\n');
}

/// Formats the public key and its addresses on one network, or on the three known ones.
fn key_lines(key: &PublicKey, network: Option<NetworkByte>) -> String {
    let mut text = String::with_capacity(KEY_TEXT_BYTES);
    text.push_str(&format!("public key   {key}\n"));
    for network in network.map_or(NETWORKS.to_vec(), |network| vec![network]) {
        text.push_str(&address_line(&Address::from_public_key(key, network), network));
    }
    text
}

fn address_line(address: &Address, network: NetworkByte) -> String {
    format!("{:12} {address}  {}\n", network_name(network), dashed(address))
}

fn show_address(command: &cli::Address) -> Result<(), WalletError> {
    let subject = &command.subject;
    if subject.len() == PUBLIC_KEY_DIGITS && subject.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return print(&key_lines(&public_key(subject)?, command.network));
    }
    if address::looks_like_address(subject) && !Path::new(subject).exists() {
        let (address, network) = address::parse(subject)?;
        if let Some(wanted) = command.network {
            address::parse_on(subject, wanted)?;
        }
        return print(&address_line(&address, network));
    }
    if subject.len() >= MIN_KEY_DIGITS
        && subject.bytes().all(|byte| byte.is_ascii_hexdigit())
        && !Path::new(subject).exists()
    {
        return Err(WalletError::Usage(format!(
            "a public key has {PUBLIC_KEY_DIGITS} hex digits, and this text has {}; copy it again (there is no key \
             file of this name either)",
            subject.len()
        )));
    }
    let key = load_key(Path::new(subject))?;
    print(&key_lines(&KeyPair::new(&key).public(), command.network))
}

/// Parses a public key of the command line. Errors do not show it: it may be a private key given by mistake.
pub(super) fn public_key(text: &str) -> Result<PublicKey, WalletError> {
    let error =
        || WalletError::Usage(format!("a public key has {PUBLIC_KEY_DIGITS} hex digits; this one is different"));
    PublicKey::from_hex(text).ok().filter(|_| text.len() == PUBLIC_KEY_DIGITS).ok_or_else(error)
}

fn sign(command: &cli::Sign) -> Result<(), WalletError> {
    let key = KeyPair::new(&load_key(&command.key_file)?);
    let packet = SignedTransaction::sign(&read_transaction(&read_input(&command.file)?)?, &key)?;
    print_stderr(&format!("signed:\n{}", describe(packet.transaction())));
    print(&format!("{}\n", packet.to_json()))
}

fn announce(command: &cli::Announce) -> Result<(), WalletError> {
    let node = node(&command.node)?;
    let key = command.key_file.as_deref().map(load_key).transpose()?;
    let input = read_input(&command.file)?;
    let packet = match key {
        _ if is_signed_transaction(&input) => SignedTransaction::parse(&input)?,
        Some(key) => SignedTransaction::sign(&read_transaction(&input)?, &KeyPair::new(&key))?,
        None => {
            // Other errors in the transaction are reported first.
            read_transaction(&input)?;
            let text = "this transaction has no signature; give the signer's key file with --key-file, or sign it with \
                        nisd sign";
            return Err(WalletError::Usage(text.to_owned()));
        }
    };
    print_stderr(&format!("announcing to {}:\n{}", node.url(), describe(packet.transaction())));
    submit(&node, &packet)
}

/// Announces a transaction and prints the answer.
pub(super) fn submit(node: &NodeClient, packet: &SignedTransaction) -> Result<(), WalletError> {
    let answer = node.announce(packet)?;
    print(&format!("{answer}\n"))?;
    if answer.is_success() { Ok(()) } else { Err(WalletError::Rejected(answer)) }
}

/// Returns the node at a URL of the command line.
pub(super) fn node(url: &str) -> Result<NodeClient, WalletError> {
    NodeClient::at(url).map_err(|reason| WalletError::Usage(format!("--node {url:?}: {reason}")))
}

/// Reads a key file, and warns about an exposed or short key.
pub(super) fn load_key(path: &Path) -> Result<PrivateKey, WalletError> {
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

/// Reads a file, or standard input if the name is `-`.
fn read_input(path: &Path) -> Result<Vec<u8>, WalletError> {
    let read = || -> io::Result<Vec<u8>> {
        let input: Box<dyn Read> = match path.as_os_str() == "-" {
            true => Box::new(io::stdin().lock()),
            false => Box::new(File::open(path)?),
        };
        let mut bytes = Vec::new();
        input.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > MAX_INPUT_BYTES {
            true => Err(io::Error::other("it is too long for a transaction")),
            false => Ok(bytes),
        }
    };
    read().map_err(|error| WalletError::File(path.to_owned(), error))
}

/// Writes to standard output.
pub(super) fn print(text: &str) -> Result<(), WalletError> {
    io::stdout().write_all(text.as_bytes()).map_err(WalletError::Output)
}

/// Writes a note for the user to standard error.
pub(super) fn print_note(text: &str) {
    print_stderr(&format!("note: {text}\n"));
}

/// Writes to standard error; ignores errors, since nobody could read about them.
pub(super) fn print_stderr(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
