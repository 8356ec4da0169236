//! A private network made for a test: its settings and its nemesis block.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nisd::codec::SigningForm;
use nisd::crypto::{KeyPair, PrivateKey};
use nisd::model::transaction::{Message, MessageKind, Transfer, wire_version};
use nisd::model::{
    Address, Amount, Block, BlockKind, Body, Hash256, Height, NetworkByte, Timestamp, Transaction, WireHash,
};

use crate::Random;

/// Network byte of all networks made here.
pub const NETWORK: NetworkByte = NetworkByte::TESTNET;
/// Generation hash of the nemesis blocks.
pub const GENERATION_HASH: Hash256 = Hash256([7; 32]);
/// Key number of the nemesis signer.
const NEMESIS: u64 = 0;
/// Currency in circulation, in whole units.
pub const TOTAL: u64 = 9_000_000_000;
/// Forks that are in the past of such a network unless its settings say otherwise.
const FORKS: [&str; 6] = ["multisigMOfN", "mosaics", "firstFee", "secondFee", "remoteAccount", "mosaicRedefinition"];

/// Returns the private key of a number.
pub fn private_key(number: u64) -> PrivateKey {
    let mut random = Random(number);
    let mut seed = [0; 32];
    seed.chunks_mut(8).for_each(|part| part.copy_from_slice(&random.next().to_le_bytes()));
    PrivateKey::from_seed(&seed)
}

/// Returns the key pair of a number; 0 is the nemesis signer.
pub fn key_pair(number: u64) -> KeyPair {
    KeyPair::new(&private_key(number))
}

/// Returns the address of a key pair.
pub fn address(keys: &KeyPair) -> Address {
    Address::from_public_key(&keys.public(), NETWORK)
}

/// Returns the current network time.
pub fn now() -> Timestamp {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    Timestamp::from_unix_millis(unix.as_millis() as i64)
}

/// Builds a signed transfer with a deadline one hour after its timestamp.
pub fn transfer(from: &KeyPair, to: Address, amount: Amount, fee: Amount, time: Timestamp) -> Transaction {
    transfer_with_message(from, to, amount, &[], fee, time)
}

/// Like [`transfer`], with a plain message unless it is empty.
pub fn transfer_with_message(
    from: &KeyPair,
    to: Address,
    amount: Amount,
    message: &[u8],
    fee: Amount,
    time: Timestamp,
) -> Transaction {
    let plain = || Message { kind: MessageKind::Plain, payload: message.to_vec() };
    let message = (!message.is_empty()).then(plain);
    let body = Body::Transfer(Transfer { recipient: to, amount, message, mosaics: Vec::new() });
    signed(from, 1, body, fee, time)
}

/// Builds a signed transaction of an entity version, with a deadline one hour after its timestamp.
pub fn signed(from: &KeyPair, entity_version: i32, body: Body, fee: Amount, time: Timestamp) -> Transaction {
    let (version, deadline) = (wire_version(NETWORK, entity_version), Timestamp(time.0 + 3600));
    let signer = from.public();
    let mut transaction = Transaction { version, timestamp: time, signer, signature: None, fee, deadline, body };
    transaction.signature = Some(from.sign(&transaction.signed_bytes()));
    transaction
}

/// Builds a signed block.
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
    block.signature = Some(signer.sign(&block.to_bytes(SigningForm::NonVerifiable)));
    block
}

/// The identity of such a network.
#[derive(Clone)]
pub struct Genesis {
    /// The nemesis block in verifiable binary form.
    pub block: Vec<u8>,
    /// Address of the nemesis signer.
    pub signer: String,
    /// Generation hash of the nemesis block in hex.
    pub generation_hash: String,
}

impl Genesis {
    /// Builds a nemesis block at `time` that funds these accounts.
    pub fn new(time: Timestamp, funded: &[(Address, Amount)]) -> Genesis {
        let nemesis = key_pair(NEMESIS);
        let transfers = funded.iter().map(|(to, amount)| transfer(&nemesis, *to, *amount, Amount::ZERO, time));
        let block = block(&nemesis, 1, time, Hash256::default(), transfers.collect());
        let (signer, generation_hash) = (address(&nemesis).to_string(), GENERATION_HASH.to_string());
        Genesis { block: block.to_bytes(SigningForm::Verifiable), signer, generation_hash }
    }

    /// Writes the nemesis block and the network settings and returns the path of the settings file; settings of `more`
    /// replace others.
    pub fn write(&self, folder: &Path, more: &[(&str, &str)]) -> PathBuf {
        fs::write(folder.join("nemesis.bin"), &self.block).expect("room");
        let mut text = String::new();
        let identity = [
            ("nem.network", "synthetic"),
            ("nem.network.version", "152"),
            ("nem.network.addressStartChar", "T"),
            ("nem.network.generationHash", &self.generation_hash),
            ("nem.network.nemesisSignerAddress", &self.signer),
            ("nem.network.totalAmount", &TOTAL.to_string()),
            ("nem.network.nemesisFilePath", "nemesis.bin"),
            ("nis.treasuryReissuanceForkHeight", "1"),
            ("nis.treasuryReissuanceForkTransactionHashes", ""),
            ("nis.treasuryReissuanceForkFallbackTransactionHashes", ""),
            ("nisd.data", "store"),
            ("nisd.loopbackPeers", "true"),
        ];
        let replaced = |key: &str| more.iter().any(|other| other.0 == key);
        for (key, value) in identity.iter().filter(|(key, _)| !replaced(key)).chain(more) {
            let _ = writeln!(text, "{key} = {value}");
        }
        for key in FORKS.map(|fork| format!("nis.{fork}ForkHeight")).iter().filter(|key| !replaced(key)) {
            let _ = writeln!(text, "{key} = 1");
        }
        let config = folder.join("node.properties");
        fs::write(&config, text).expect("room");
        config
    }

    /// Like [`Genesis::write`], for a network in which this key finds a block every second at any difficulty: the
    /// configured total supply is so much larger than the actual one that every importance counts a thousandfold.
    pub fn write_hasty(&self, folder: &Path, harvester: &str, more: &[(&str, &str)]) -> PathBuf {
        let hasty = [
            ("nem.network.totalAmount", "9000000000000"),
            ("nis.bootKey", harvester),
            ("nis.blockChainFeatures", "PROOF_OF_STAKE|WB_IMMEDIATE_VESTING"),
        ];
        self.write(folder, &[&hasty, more].concat())
    }
}
