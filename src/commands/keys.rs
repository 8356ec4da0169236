//! `nisd key` and `nisd address`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use zeroize::Zeroizing;

use super::{CommandError, failed, notes, print, print_note, random_bytes, usage};
use crate::clock::System;
use crate::crypto::keys::incomplete_key_note;
use crate::crypto::{KeyPair, PrivateKey, PublicKey};
use crate::model::{Address, NetworkByte};
use crate::wallet::key_file;
use crate::wallet::values::{self, NETWORKS, dashed, network_name};

/// Hex digits of a public key.
const PUBLIC_KEY_DIGITS: usize = 64;

/// Minimum hex digits of a text that is meant as a key, complete or not, unless it is the name of a file.
const MIN_KEY_DIGITS: usize = 32;

/// `nisd key`.
#[derive(Subcommand, Debug)]
pub enum KeyCommand {
    /// Create a key pair
    #[command(after_help = notes!("key"))]
    New {
        /// Key file to write, readable by you only; never overwritten [default: the key is shown once]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Network of the address: mainnet, testnet, mijinnet or a byte [default: these three]
        #[arg(long, value_name = "NETWORK", value_parser = values::network, allow_hyphen_values = true)]
        network: Option<NetworkByte>,
    },
    /// Show the public key and the addresses of a key file
    #[command(after_help = notes!("key"))]
    Inspect {
        /// Key file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Show the private key as well
        #[arg(long)]
        show_private: bool,
        /// Network of the address: mainnet, testnet, mijinnet or a byte [default: these three]
        #[arg(long, value_name = "NETWORK", value_parser = values::network, allow_hyphen_values = true)]
        network: Option<NetworkByte>,
    },
}

/// `nisd address`.
#[derive(Args, Debug)]
pub struct ShowAddress {
    /// Key file, public key (64 hex digits) or address, with or without dashes
    #[arg(value_name = "KEYFILE|PUBLICKEY|ADDRESS")]
    pub subject: String,
    /// Network: mainnet, testnet, mijinnet or a byte [default: these three, or that of the address]
    #[arg(long, value_name = "NETWORK", value_parser = values::network, allow_hyphen_values = true)]
    pub network: Option<NetworkByte>,
}

/// Parses a public key of the command line. Errors do not show it: it may be a private key given by mistake.
pub(super) fn public_key(text: &str) -> Result<PublicKey, CommandError> {
    let error = || usage(format!("a public key has {PUBLIC_KEY_DIGITS} hex digits; this one is different"));
    PublicKey::from_hex(text).ok().filter(|_| text.len() == PUBLIC_KEY_DIGITS).ok_or_else(error)
}

/// Returns the error of reading or writing a key file.
pub(super) fn in_key_file(path: &Path) -> impl FnOnce(String) -> CommandError {
    move |error| failed(format!("key file {}: {error}", path.display()))
}

/// Reads a key file, and warns about an exposed or incomplete key.
pub(super) fn load_key(path: &Path) -> Result<PrivateKey, CommandError> {
    let file = key_file::read(path).map_err(in_key_file(path))?;
    let name = path.display();
    if let Some(mode) = file.exposed_mode {
        print_note(&format!(
            "the key file {name} has mode {mode:04o}, so other users have access to the key; prevent this: chmod 600 {name}"
        ));
    }
    if let Some(note) = incomplete_key_note(file.digits) {
        print_note(&format!("the key file {name} holds {note}"));
    }
    Ok(file.key)
}

/// Runs `nisd key`.
pub fn key(command: &KeyCommand, system: System) -> Result<(), CommandError> {
    let (key, network, show_private) = match command {
        KeyCommand::New { output, network } => {
            (PrivateKey::from_seed(&*random_bytes(system)?), network, output.is_none())
        }
        KeyCommand::Inspect { file, show_private, network } => (load_key(file)?, network, *show_private),
    };
    let mut text = key_lines(&KeyPair::new(&key).public(), *network);
    if let KeyCommand::New { output, .. } = command {
        if let Some(path) = output {
            if path.as_os_str() == "-" || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                let path = path.display();
                return Err(usage(format!("--output {path}: name a file; without --output the key is shown")));
            }
            key_file::write(path, &key).map_err(in_key_file(path))?;
            text.push_str(&format!("key file     {}\n", path.display()));
        } else {
            print_note("the private key is shown only now and stored nowhere; anyone who sees it controls the account");
        }
    }
    if !show_private {
        return print(&text);
    }
    // Allocated once, so that no copy of the key stays behind.
    print(&Zeroizing::new([text.as_str(), "private key  ", &key.printed(), "\n"].concat()))
}

/// Formats the public key and its addresses on one network, or on the three known ones.
fn key_lines(key: &PublicKey, network: Option<NetworkByte>) -> String {
    let line = |network| address_line(&Address::from_public_key(key, network), network);
    let addresses: String = network.map_or(NETWORKS.map(|(_, network)| line(network)).concat(), line);
    format!("public key   {key}\n{addresses}")
}

fn address_line(address: &Address, network: NetworkByte) -> String {
    format!("{:12} {address}  {}\n", network_name(network), dashed(address))
}

/// Runs `nisd address`.
pub fn show_address(command: &ShowAddress) -> Result<(), CommandError> {
    let subject = &command.subject;
    let is_hex = subject.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_file = Path::new(subject).exists();
    if is_hex && subject.len() == PUBLIC_KEY_DIGITS {
        return print(&key_lines(&public_key(subject)?, command.network));
    }
    if values::looks_like_address(subject) && !is_file {
        let (address, network) = values::address(subject).map_err(CommandError::Usage)?;
        if let Some(wanted) = command.network {
            values::address_on(subject, wanted).map_err(CommandError::Usage)?;
        }
        return print(&address_line(&address, network));
    }
    if is_hex && subject.len() >= MIN_KEY_DIGITS && !is_file {
        return Err(usage(format!(
            "a public key has {PUBLIC_KEY_DIGITS} hex digits, and this text has {}; copy it again (there is no key \
             file of this name either)",
            subject.len()
        )));
    }
    let key = load_key(Path::new(subject))?;
    print(&key_lines(&KeyPair::new(&key).public(), command.network))
}
