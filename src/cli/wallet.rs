//! Arguments of the commands for keys, addresses and transactions.
//!
//! None of them takes a private key on the command line, where other users can read it.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::values;
use crate::model::{Amount, Mosaic, NetworkByte};

const KEY_EXAMPLES: &str = "\
Examples:
  nisd key new --output alice.key                create a key pair; only you can read the file
  nisd key inspect alice.key                     show its public key and addresses

A key file holds the private key as one line of hex; lines that begin with # are comments.";

const ADDRESS_EXAMPLES: &str = "\
Examples:
  nisd address alice.key
  nisd address be6a7bb594e6c141a9ea1b671891a7a0c99999253f22bcf0fe36013bdeebded9 --network testnet
  nisd address TDHLS7-3IXYZF-FBPZWJ-FK3DVG-UUQ2BB-IGVUPE-6BMZ
      Checks an address and shows it with and without dashes.";

const SEND_EXAMPLES: &str = "\
Examples:
  nisd send --from-key-file alice.key --to TDHLS73IXYZFFBPZWJFK3DVGUUQ2BBIGVUPE6BMZ --amount 12.5
  nisd send --from-key-file alice.key --to TDHLS7… --amount 1 --message 'thank you' --wait
  nisd send --from-key-file alice.key --to TDHLS7… --mosaic devnet:coin=5000
      Sends 5000 smallest units: 5 coins, if they have three decimal places.
  nisd send --from-key-file alice.key --to TDHLS7… --amount 100 --multisig-account 8d02445a…
      Proposes to spend from a multisig account; the other cosignatories must agree.
  nisd send --from-key-file alice.key --to TDHLS7… --amount 1 --dry-run > signed.json
      Announces nothing; shows the transaction and writes it signed, for nisd announce.

The transaction is shown on standard error, the node's answer on standard output.";

const APOSTILLE_EXAMPLES: &str = "\
Examples:
  nisd apostille create contract.pdf --from-key-file alice.key --wait
      Announces a transfer whose message is FE4E545903 and the SHA-256 of the file.
  nisd apostille verify contract.pdf --transaction 513f6d57c377204556ca71f7e29f869f273d7f0aa4229253e424b8c5d1257e12
      Shows who notarised it, when and at which height. The exit code is 0 only if the file is the same.

nisd verifies the hash of the transaction, but trusts the node about the height.";

/// One transaction of each kind as JSON.
pub const TRANSACTIONS: &str = include_str!("../help/transactions.txt");

const SIGN_EXAMPLES: &str = "\
Examples:
  nisd sign --key-file alice.key namespace.json > signed.json
  nisd sign --key-file alice.key namespace.json | nisd announce

The transaction is the JSON that /transaction/prepare-announce takes, without a signature.";

const ANNOUNCE_EXAMPLES: &str = "\
Examples:
  nisd announce signed.json
  nisd announce --key-file alice.key namespace.json --node http://127.0.0.1:7890
      Signs the transaction first.";

/// Returns the examples of a command, followed by one transaction of each kind.
fn with_transactions(examples: &str) -> String {
    format!("{examples}\n\n{TRANSACTIONS}")
}

const DEFAULT_NODE: &str = "http://127.0.0.1:7890";
/// Default deadline, in seconds.
const DEFAULT_DEADLINE_SECONDS: i32 = 3600;
/// Longest time between time stamp and deadline that nodes accept, in seconds.
pub const MAX_DEADLINE_SECONDS: i32 = 86_400;

/// The commands for keys, addresses and transactions.
#[derive(Subcommand, Debug)]
pub enum WalletCommand {
    /// Create a key pair, or inspect a key file
    #[command(subcommand, after_help = KEY_EXAMPLES)]
    Key(KeyCommand),
    /// Show or check addresses
    #[command(after_help = ADDRESS_EXAMPLES)]
    Address(Address),
    /// Send XEM, mosaics and a message
    #[command(after_help = SEND_EXAMPLES)]
    Send(Send),
    /// Notarise files, and verify notarised files
    #[command(subcommand, after_help = APOSTILLE_EXAMPLES)]
    Apostille(ApostilleCommand),
    /// Sign a transaction of any kind
    #[command(after_help = with_transactions(SIGN_EXAMPLES))]
    Sign(Sign),
    /// Announce a signed transaction to a node
    #[command(after_help = with_transactions(ANNOUNCE_EXAMPLES))]
    Announce(Announce),
}

/// `nisd key`.
#[derive(Subcommand, Debug)]
pub enum KeyCommand {
    /// Create a key pair
    #[command(after_help = KEY_EXAMPLES)]
    New(NewKey),
    /// Show the public key and the addresses of a key file
    #[command(after_help = KEY_EXAMPLES)]
    Inspect(InspectKey),
}

/// `nisd key new`.
#[derive(Args, Debug)]
pub struct NewKey {
    /// Key file to write, readable by you only; never overwritten [default: the key is shown once]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Network of the address: mainnet, testnet, mijinnet or a byte [default: these three]
    #[arg(long, value_name = "NETWORK", value_parser = values::network, allow_hyphen_values = true)]
    pub network: Option<NetworkByte>,
}

/// `nisd key inspect`.
#[derive(Args, Debug)]
pub struct InspectKey {
    /// Key file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Show the private key as well
    #[arg(long)]
    pub show_private: bool,
    /// Network of the address: mainnet, testnet, mijinnet or a byte [default: these three]
    #[arg(long, value_name = "NETWORK", value_parser = values::network, allow_hyphen_values = true)]
    pub network: Option<NetworkByte>,
}

/// `nisd address`.
#[derive(Args, Debug)]
pub struct Address {
    /// Key file, public key (64 hex digits) or address, with or without dashes
    #[arg(value_name = "KEYFILE|PUBLICKEY|ADDRESS")]
    pub subject: String,
    /// Network: mainnet, testnet, mijinnet or a byte [default: these three, or that of the address]
    #[arg(long, value_name = "NETWORK", value_parser = values::network, allow_hyphen_values = true)]
    pub network: Option<NetworkByte>,
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

/// How a transfer is made and announced.
#[derive(Args, Debug)]
pub struct Delivery {
    /// Fee of the transfer [default: the minimum fee]
    #[arg(long, value_name = "XEM", value_parser = values::amount, allow_negative_numbers = true)]
    pub fee: Option<Amount>,
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

impl Delivery {
    /// Returns the deadline in seconds. It is longer for multisig accounts, since cosignatories need time.
    pub fn deadline_seconds(&self) -> i32 {
        let usual = if self.multisig_account.is_some() { MAX_DEADLINE_SECONDS } else { DEFAULT_DEADLINE_SECONDS };
        self.deadline.unwrap_or(usual)
    }
}

/// `nisd apostille`.
#[derive(Subcommand, Debug)]
pub enum ApostilleCommand {
    /// Announce the SHA-256 of a file
    #[command(after_help = APOSTILLE_EXAMPLES)]
    Create(CreateApostille),
    /// Compare a file with the hash in a confirmed transaction
    #[command(after_help = APOSTILLE_EXAMPLES)]
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
    #[arg(long, value_name = "HASH")]
    pub transaction: String,
    /// The node to query
    #[arg(long, value_name = "URL", default_value = DEFAULT_NODE)]
    pub node: String,
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
