//! Checks whether a key may create the next block, and creates it.

use crate::chain::block_execution::harvesting_importance;
use crate::chain::error::BlockError;
use crate::chain::proof;
use crate::codec::SigningForm;
use crate::crypto::{KeyPair, PublicKey};
use crate::model::transaction::{Hashes, wire_version};
use crate::model::{Address, Block, BlockKind, Height, Network, Timestamp, Transaction};
use crate::rules::{Purpose, ValidationContext, check_block};
use crate::store::{Read, StoredHeader};

/// Parent, difficulty and time of the block to create.
pub struct NextBlockInfo {
    /// The parent block.
    pub parent: StoredHeader,
    /// Difficulty of the new block.
    pub difficulty: u64,
    /// Time stamp of the new block.
    pub timestamp: Timestamp,
}

impl NextBlockInfo {
    /// Returns the height of the new block.
    pub fn height(&self) -> Height {
        self.parent.height.next()
    }

    /// Returns the block's contribution to the chain score.
    pub fn score(&self) -> i64 {
        proof::block_score(self.difficulty, self.elapsed())
    }

    /// Returns the seconds since the parent.
    fn elapsed(&self) -> i32 {
        self.timestamp.0.wrapping_sub(self.parent.timestamp.0)
    }
}

/// The hit of a key that may create a block.
pub struct HarvestHit {
    /// The hit.
    pub hit: u64,
    /// The importance that counts for the key, in whole units.
    pub importance: u64,
}

impl HarvestHit {
    /// Returns whether `other` would have hit earlier for the same block if time were not counted in whole seconds.
    pub fn hits_after(&self, other: &HarvestHit) -> bool {
        let product = |hit: u64, importance: u64| u128::from(hit) * u128::from(importance);
        product(other.hit, self.importance) < product(self.hit, other.importance)
    }
}

/// Returns the draw of a key, if its hit is below its target. The hit is that of the signing key; the importance is
/// that of the account for which it harvests.
pub fn test_hit(
    signer: &PublicKey,
    place: &NextBlockInfo,
    state: &impl Read,
    network: &Network,
) -> Result<Option<HarvestHit>, BlockError> {
    let address = Address::from_public_key(signer, network.byte);
    let importance = harvesting_importance(state, &address, place.height(), network)?;
    let target = proof::target(place.elapsed(), importance, place.difficulty, &network.chain);
    let hit = proof::hit(&proof::generation_hash(&place.parent.generation_hash, signer));
    Ok(proof::is_hit(hit, &target).then_some(HarvestHit { hit, importance }))
}

/// Creates a block of transactions with these hashes and checks it by all rules for blocks on the state before it.
pub fn create(
    key: &KeyPair,
    transactions: Vec<Transaction>,
    hashes: &[Hashes],
    place: &NextBlockInfo,
    state: &impl Read,
    network: &Network,
) -> Result<Block, BlockError> {
    let mut block = Block {
        kind: BlockKind::Regular,
        version: wire_version(network.byte, 1),
        timestamp: place.timestamp,
        signer: key.public(),
        signature: None,
        previous_hash: place.parent.hash.into(),
        height: place.height(),
        transactions,
    };
    block.signature = Some(key.sign(&block.to_bytes(SigningForm::NonVerifiable)));
    let (height, now, purpose) = (block.height, block.timestamp, Purpose::NewBlock);
    let context = ValidationContext { state, block: None, network, height, now, purpose };
    check_block(&block, hashes, &context).map_err(|rejection| BlockError::from_rejection(rejection, None))?;
    Ok(block)
}
