//! A private network of one's own, created from nothing.
//!
//! | Part | Content |
//! |---|---|
//! | [`Role`] | accounts, balances and demo keys |
//! | [`nemesis_block`] | the first block |
//! | [`Devnet`] | the folder of the network: settings, keys and nemesis block beside the store |
//!
//! Time and randomness are passed in as [`System`](crate::clock::System).

mod folder;

pub use folder::{Account, Devnet};

use std::io;
use std::path::PathBuf;

use crate::codec::SigningForm;
use crate::config::ConfigError;
use crate::crypto::hash::keccak256_parts;
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::transaction::{Transfer, wire_version};
use crate::model::{Address, Amount, Block, BlockKind, Body, Hash256, Height, NetworkByte, Timestamp, Transaction};
use crate::store::folder_error_text;
use crate::wallet::key_file::KeyFileError;
use zeroize::Zeroizing;

/// An error about a private network. `Display` says what to do.
#[derive(Debug, thiserror::Error)]
pub enum DevnetError {
    /// The settings are wrong.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// This folder cannot be created.
    #[error("the folder {} cannot be used: {}", .0.display(), folder_error_text(.1))]
    Folder(PathBuf, io::Error),
    /// This file cannot be read or written.
    #[error("{path}: {1}", path = .0.display())]
    File(PathBuf, io::Error),
    /// This key file cannot be read or written.
    #[error("the key file {path}: {1}", path = .0.display())]
    KeyFile(PathBuf, KeyFileError),
    /// The system provides no randomness for keys.
    #[error("the system provides no random numbers for keys: {0}")]
    Randomness(io::Error),
    /// Fresh keys were requested for a network that has keys.
    #[error("the private network in {} already has its keys; choose another folder with --data, or remove this one", .0.display())]
    HasKeys(PathBuf),
    /// Settings of the command line would change the chain of an existing network.
    #[error("the private network in {} was created with another block time or other rules, which cannot change \
                 later; choose another folder with --data, or remove this one", .0.display())]
    OtherChain(PathBuf),
    /// This setting of the command line is part of the network's identity, which nisd chooses.
    #[error(
        "{0} cannot be set for nisd's own private network; omit it, or pass your own configuration with \
                 --config"
    )]
    Identity(String),
    /// The folder holds the store of another chain.
    #[error("{} holds the store of a chain with another configuration; pass that configuration with --config, or \
                 choose another folder with --data", .0.display())]
    ForeignStore(PathBuf),
    /// There is no private network in this folder.
    #[error("there is no private network in {}; nisd run creates one, and --data names another folder", .0.display())]
    Absent(PathBuf),
}

/// Creates the nemesis block with the initial balances.
///
/// Its time stamp should be the current time: after an older one, blocks come too fast at first, then too slowly. Where
/// balances vest over time, an account may occur only once.
pub fn nemesis_block(signer: &KeyPair, time: Timestamp, network: NetworkByte, grants: &[(Address, Amount)]) -> Block {
    let transactions = grants.iter().map(|grant| transfer(signer, time, network, *grant)).collect();
    let mut block = Block {
        kind: BlockKind::Nemesis,
        version: wire_version(network, 1),
        timestamp: time,
        signer: signer.public(),
        signature: None,
        previous_hash: Hash256([0; 32]).into(),
        height: Height::NEMESIS,
        transactions,
    };
    block.signature = Some(signer.sign(&block.to_bytes(SigningForm::NonVerifiable)));
    block
}

/// Creates a transfer of the nemesis account. Its fee is zero, also in the signed data.
fn transfer(signer: &KeyPair, time: Timestamp, network: NetworkByte, grant: (Address, Amount)) -> Transaction {
    /// Seconds until the deadline, which is never checked.
    const DEADLINE_SECONDS: i32 = 3_600;
    let (recipient, amount) = grant;
    let mut transaction = Transaction {
        version: wire_version(network, 1),
        timestamp: time,
        signer: signer.public(),
        signature: None,
        fee: Amount::ZERO,
        deadline: Timestamp(time.0.saturating_add(DEADLINE_SECONDS)),
        body: Body::Transfer(Transfer { recipient, amount, message: None, mosaics: Vec::new() }),
    };
    transaction.signature = Some(signer.sign(&transaction.signed_bytes()));
    transaction
}

/// Returns a generation hash for a new network. Any value works, but two networks should not share one.
pub fn generation_hash(signer: &KeyPair, time: Timestamp) -> Hash256 {
    Hash256(keccak256_parts(&[&signer.public().0, &time.0.to_le_bytes()]))
}

/// Total supply in whole XEM: the supply of `nem:xem` in the protocol.
pub const SUPPLY: u64 = 8_999_999_999;
/// Maximum initial balance of the harvester, in whole XEM.
const LARGEST_STAKE: u64 = 8_000_000_000;
/// Maximum of stake, in whole XEM, times block time, in seconds: above it even the greatest difficulty cannot slow
/// blocks down to the block time, since 10^15 = 1024 · seconds · stake · 1.9.
const LARGEST_STAKE_SECONDS: u64 = 500_000_000_000;
/// Initial balance of an account for experiments, in whole XEM.
const TEST_BALANCE: u64 = 100_000_000;
/// Prefix from which demo keys are derived; the name of the role follows.
const DEMO: &[u8] = b"nisd devnet: a demo key that everybody knows: ";

/// An account of the nemesis block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Signs the nemesis block, and never anything else.
    Nemesis,
    /// Makes the blocks. It must not send: no other account would confirm its transactions.
    Harvester,
    /// Owns the rest of the supply.
    Bank,
    /// For experiments.
    Alice,
    /// For experiments.
    Bob,
    /// For experiments.
    Carol,
}

impl Role {
    /// The roles with an initial balance.
    pub const OWNERS: [Role; 5] = [Role::Harvester, Role::Bank, Role::Alice, Role::Bob, Role::Carol];

    /// Returns its name, which is also that of its key file.
    pub fn name(self) -> &'static str {
        match self {
            Role::Nemesis => "nemesis",
            Role::Harvester => "harvester",
            Role::Bank => "bank",
            Role::Alice => "alice",
            Role::Bob => "bob",
            Role::Carol => "carol",
        }
    }

    /// Returns its initial balance on a network with a block time of `target_time` seconds.
    pub fn balance(self, target_time: u32) -> Amount {
        let stake = (LARGEST_STAKE_SECONDS / u64::from(target_time.max(1))).min(LARGEST_STAKE);
        Amount::whole(match self {
            Role::Nemesis => 0,
            Role::Harvester => stake,
            Role::Bank => SUPPLY - stake - 3 * TEST_BALANCE,
            Role::Alice | Role::Bob | Role::Carol => TEST_BALANCE,
        })
    }

    /// Returns its key on every network with demo keys. The key is worthless, since anyone can compute it.
    pub fn demo_key(self) -> PrivateKey {
        key_from_seed(Zeroizing::new(keccak256_parts(&[DEMO, self.name().as_bytes()])))
    }
}

/// Creates a key from 32 random bytes. Its top bit is cleared, so that it is always printed with 64 digits: NIS1 puts
/// `00` before other keys, which some software does not accept.
pub fn key_from_seed(mut seed: Zeroizing<[u8; 32]>) -> PrivateKey {
    seed[31] &= 0x7f;
    PrivateKey::from_seed(&seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::PrivateKey;

    /// The nemesis block of the golden chain, which NIS1 accepted.
    #[test]
    fn the_golden_nemesis_block_is_made_byte_for_byte() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/data/golden-chain.json")).unwrap();
        let key =
            |role: &str| KeyPair::new(&PrivateKey::from_hex(golden["privateKeys"][role].as_str().unwrap()).unwrap());
        let network = NetworkByte::TESTNET;
        let grants = [
            ("harvester", 8_000_000_000),
            ("alice", 999_000_000),
            ("bob", 333_333),
            ("carol", 333_333),
            ("multisig", 333_333),
        ]
        .map(|(role, xem)| (Address::from_public_key(&key(role).public(), network), Amount::whole(xem)));
        let block = nemesis_block(&key("nemesis"), Timestamp(300_000_000), network, &grants);
        assert_eq!(hex::encode(block.to_bytes(SigningForm::Verifiable)), golden["nemesis"].as_str().unwrap());
    }

    #[test]
    fn other_signers_and_times_have_other_generation_hashes() {
        let signer = |seed| KeyPair::new(&PrivateKey::from_seed(&[seed; 32]));
        let hash = |seed, time| generation_hash(&signer(seed), Timestamp(time));
        assert_eq!(hash(1, 5), hash(1, 5));
        assert_ne!(hash(1, 5), hash(1, 6));
        assert_ne!(hash(1, 5), hash(2, 5));
    }
}

#[cfg(test)]
mod accounts_tests {
    use super::*;

    #[test]
    fn the_initial_balances_sum_to_the_supply_at_any_block_time() {
        for target_time in [10, 60, 62, 63, 300, 8_640, 86_400] {
            let total: u64 = Role::OWNERS.iter().map(|role| role.balance(target_time).0).sum();
            assert_eq!(Amount(total), Amount::whole(SUPPLY), "{target_time}");
        }
        assert_eq!(Role::Harvester.balance(10), Amount::whole(8_000_000_000));
        assert_eq!(Role::Harvester.balance(300), Amount::whole(1_666_666_666));
    }

    #[test]
    fn demo_keys_are_the_same_on_every_machine_and_have_64_digits() {
        let keys = Role::OWNERS.map(|role| role.demo_key().printed());
        assert!(keys.iter().all(|key| key.len() <= 64));
        let alice = keys[2].as_str();
        assert_eq!(alice, "1281c9cbc953c0e341e4dbe99bf15f74c0f3f243b41a9907b40ed99a66dbfcb8");
        assert!(keys.iter().filter(|key| key.as_str() == alice).count() == 1);
    }
}
