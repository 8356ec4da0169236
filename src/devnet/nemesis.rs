//! The first block of a private network.

use crate::codec::SigningForm;
use crate::crypto::KeyPair;
use crate::crypto::hash::keccak256_parts;
use crate::model::transaction::{Transfer, wire_version};
use crate::model::{Address, Amount, Block, BlockKind, Body, Hash256, Height, NetworkByte, Timestamp, Transaction};

/// Creates the nemesis block with the initial balances.
///
/// Its time stamp should be the present: after an older one, blocks come too fast at first, then too slowly. Where
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
