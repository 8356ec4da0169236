//! A private network made up for a test: its settings and its nemesis block (specification 08 §18).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use nisd::codec::Form;
use nisd::crypto::{KeyPair, PrivateKey};
use nisd::model::transaction::{Transfer, wire_version};
use nisd::model::{
    Address, Amount, Block, BlockKind, Body, Hash256, Height, NetworkByte, Timestamp, Transaction, WireHash,
};

use super::Random;

/// The byte of all networks made here.
pub const NETWORK: NetworkByte = NetworkByte::TESTNET;
const GENERATION_HASH: Hash256 = Hash256([7; 32]);
/// Signs the nemesis block.
const NEMESIS: u64 = 0;
/// Whole units in circulation.
pub const TOTAL: u64 = 9_000_000_000;
/// Forks, all of which such a network has behind it.
const FORKS: [&str; 6] = ["multisigMOfN", "mosaics", "firstFee", "secondFee", "remoteAccount", "mosaicRedefinition"];

/// The private key with this number.
pub fn private_key(number: u64) -> PrivateKey {
    let mut random = Random(number);
    let mut seed = [0; 32];
    seed.chunks_mut(8).for_each(|part| part.copy_from_slice(&random.next().to_le_bytes()));
    PrivateKey::from_seed(&seed)
}

/// The keys with this number; 0 signs the nemesis block.
pub fn key_pair(number: u64) -> KeyPair {
    KeyPair::new(&private_key(number))
}

/// Their address.
pub fn address(keys: &KeyPair) -> Address {
    Address::from_public_key(&keys.public(), NETWORK)
}

/// A signed transfer that lives for an hour.
pub fn transfer(from: &KeyPair, to: Address, amount: Amount, fee: Amount, time: Timestamp) -> Transaction {
    let body = Body::Transfer(Transfer { recipient: to, amount, message: None, mosaics: Vec::new() });
    let (version, deadline) = (wire_version(NETWORK, 1), Timestamp(time.0 + 3600));
    let signer = from.public();
    let mut transaction = Transaction { version, timestamp: time, signer, signature: None, fee, deadline, body };
    transaction.signature = Some(from.sign(&transaction.signed_bytes()));
    transaction
}

/// A signed block.
pub fn block(signer: &KeyPair, height: u64, time: Timestamp, parent: Hash256, transactions: Vec<Transaction>) -> Block {
    let mut block = Block {
        kind: if height == 1 { BlockKind::Nemesis } else { BlockKind::Regular },
        version: wire_version(NETWORK, 1),
        timestamp: time,
        signer: signer.public(),
        signature: None,
        previous_hash: WireHash::from(parent),
        height: Height(height),
        transactions,
    };
    block.signature = Some(signer.sign(&block.to_bytes(Form::NonVerifiable)));
    block
}

/// Writes nemesis block and settings of a network that begins at `time` and in which these accounts own something;
/// `more` settings come last. Gives the file of the settings.
pub fn write(folder: &Path, time: Timestamp, funded: &[(Address, Amount)], more: &[(&str, &str)]) -> PathBuf {
    let nemesis = key_pair(NEMESIS);
    let transfers = funded.iter().map(|(to, amount)| transfer(&nemesis, *to, *amount, Amount::ZERO, time)).collect();
    let block = block(&nemesis, 1, time, Hash256::default(), transfers);
    fs::write(folder.join("nemesis.bin"), block.to_bytes(Form::Verifiable)).expect("room");
    let (signer, generation_hash) = (address(&nemesis), GENERATION_HASH.to_string());
    let mut text = String::new();
    let identity = [
        ("nem.network", "synthetic"),
        ("nem.network.version", "152"),
        ("nem.network.addressStartChar", "T"),
        ("nem.network.generationHash", &generation_hash),
        ("nem.network.nemesisSignerAddress", signer.as_str()),
        ("nem.network.totalAmount", &TOTAL.to_string()),
        ("nem.network.nemesisFilePath", "nemesis.bin"),
        ("nis.treasuryReissuanceForkHeight", "1"),
        ("nis.treasuryReissuanceForkTransactionHashes", ""),
        ("nis.treasuryReissuanceForkFallbackTransactionHashes", ""),
    ];
    for (key, value) in identity.iter().chain(more) {
        let _ = writeln!(text, "{key} = {value}");
    }
    for fork in FORKS {
        let _ = writeln!(text, "nis.{fork}ForkHeight = 1");
    }
    let config = folder.join("node.properties");
    fs::write(&config, text).expect("room");
    config
}
