//! Whether a key may make the next block, and making it.

use crate::chain::admission::harvesting_importance;
use crate::chain::error::BlockError;
use crate::chain::proof;
use crate::codec::Form;
use crate::crypto::{KeyPair, PublicKey};
use crate::model::transaction::{Hashes, wire_version};
use crate::model::{Address, Block, BlockKind, Height, Network, Timestamp, Transaction};
use crate::rules::{Case, Purpose, check_block};
use crate::store::{Read, StoredBlock};

/// Where and when a block is to be made.
pub struct Place {
    /// The block before it.
    pub parent: StoredBlock,
    /// Its difficulty.
    pub difficulty: u64,
    /// Its time stamp.
    pub timestamp: Timestamp,
}

impl Place {
    /// Its height.
    pub fn height(&self) -> Height {
        self.parent.height.next()
    }

    /// What it adds to the score of the chain.
    pub fn score(&self) -> i64 {
        proof::block_score(self.difficulty, self.elapsed())
    }

    /// Seconds since the block before it.
    fn elapsed(&self) -> i32 {
        self.timestamp.0.wrapping_sub(self.parent.timestamp.0)
    }
}

/// What a key has drawn that may make a block.
pub struct Draw {
    /// Its hit.
    pub hit: u64,
    /// The importance that counts for it, in whole units.
    pub importance: u64,
}

impl Draw {
    /// Whether another draw for the same block would have hit earlier than this one, if time were not counted in whole
    /// seconds.
    pub fn is_behind(&self, other: &Draw) -> bool {
        let product = |hit: u64, importance: u64| u128::from(hit) * u128::from(importance);
        product(other.hit, self.importance) < product(self.hit, other.importance)
    }
}

/// What a key draws, if that is enough to make a block. The key that signs draws the hit; the importance is that of the
/// account for which it harvests.
pub fn draw(
    signer: &PublicKey,
    place: &Place,
    state: &impl Read,
    network: &Network,
) -> Result<Option<Draw>, BlockError> {
    let address = Address::from_public_key(signer, network.byte);
    let importance = harvesting_importance(state, &address, place.height(), network)?;
    let target = proof::target(place.elapsed(), importance, place.difficulty, &network.chain);
    let hit = proof::hit(&proof::generation_hash(&place.parent.generation_hash, signer));
    Ok(proof::is_hit(hit, &target).then_some(Draw { hit, importance }))
}

/// Makes a block of transactions with these hashes, and checks it by all rules for blocks on the state before it.
pub fn create(
    key: &KeyPair,
    transactions: Vec<Transaction>,
    hashes: &[Hashes],
    place: &Place,
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
    block.signature = Some(key.sign(&block.to_bytes(Form::NonVerifiable)));
    let case = Case { state, network, height: block.height, now: block.timestamp, purpose: Purpose::NewBlock };
    check_block(&block, hashes, &case).map_err(|refusal| BlockError::by_rule(refusal, None))?;
    Ok(block)
}
