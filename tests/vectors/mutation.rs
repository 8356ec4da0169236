//! Applies one random change to a chain part.

use nisd::codec::{Context, SigningForm};
use nisd::model::{Block, Network};

use crate::common::Random;

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A bit of the bytes of a block, and so of any field of it and of its transactions.
    Bytes,
    /// Two blocks exchanged.
    SwapBlocks,
    /// A block omitted.
    OmitBlock,
    /// A block duplicated.
    DuplicateBlock,
    /// Two transactions of a block exchanged.
    SwapTransactions,
    /// A transaction omitted.
    OmitTransaction,
    /// A transaction duplicated, in the same block or another one.
    DuplicateTransaction,
}

impl Change {
    /// All kinds; bytes count as much as three others.
    pub const ALL: [Change; 9] = [
        Change::Bytes,
        Change::Bytes,
        Change::Bytes,
        Change::SwapBlocks,
        Change::OmitBlock,
        Change::DuplicateBlock,
        Change::SwapTransactions,
        Change::OmitTransaction,
        Change::DuplicateTransaction,
    ];
}

/// The result that a change must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The part becomes invalid.
    Rejected,
    /// The part stays the same: the hash of the previous block in each block is overwritten by that of the actual
    /// previous block.
    None,
    /// The part ends after this many blocks and is valid up to there.
    Shorter(usize),
}

/// Number of random places to try before the change counts as impossible.
const TRIES: u32 = 100;

/// Applies one change at a random place and returns the part with the required result. `None` if no place fits, or only
/// places whose bits are lost when blocks are normalized.
pub fn mutate(part: &[Block], change: Change, network: &Network, random: &mut Random) -> Option<(Vec<Block>, Effect)> {
    (0..TRIES).find_map(|_| {
        let mut changed = part.to_vec();
        apply(&mut changed, change, network, random)?;
        let effect = effect(part, changed.clone());
        (bytes_of(&changed) != bytes_of(part)).then_some((changed, effect))
    })
}

fn bytes_of(part: &[Block]) -> Vec<Vec<u8>> {
    part.iter().map(|block| block.to_bytes(SigningForm::Verifiable)).collect()
}

fn effect(part: &[Block], mut changed: Vec<Block>) -> Effect {
    changed.iter_mut().zip(part).for_each(|(block, own)| block.previous_hash = own.previous_hash.clone());
    match bytes_of(part).starts_with(&bytes_of(&changed)) {
        true if changed.len() == part.len() => Effect::None,
        true => Effect::Shorter(changed.len()),
        false => Effect::Rejected,
    }
}

fn apply(part: &mut Vec<Block>, change: Change, network: &Network, random: &mut Random) -> Option<()> {
    let (one, other) = (random.below(part.len()), random.below(part.len()));
    let block = &mut part[one];
    match change {
        Change::Bytes => {
            let mut bytes = block.to_bytes(SigningForm::Verifiable);
            let place = random.below(bytes.len());
            bytes[place] ^= 1 << random.below(8);
            *block = Block::from_bytes(&bytes, Context::of(network)).ok()?;
        }
        Change::SwapBlocks => part.swap(one, other),
        Change::OmitBlock => drop(part.remove(one)),
        Change::DuplicateBlock => part.insert(other, part[one].clone()),
        Change::SwapTransactions => {
            let places = [pick(&block.transactions, random)?, pick(&block.transactions, random)?];
            block.transactions.swap(places[0], places[1]);
        }
        Change::OmitTransaction => {
            let place = pick(&block.transactions, random)?;
            block.transactions.remove(place);
        }
        Change::DuplicateTransaction => {
            let transaction = block.transactions[pick(&block.transactions, random)?].clone();
            let place = random.below(part[other].transactions.len() + 1);
            part[other].transactions.insert(place, transaction);
        }
    }
    Some(())
}

/// Returns a random index; `None` for an empty list.
fn pick<T>(list: &[T], random: &mut Random) -> Option<usize> {
    (!list.is_empty()).then(|| random.below(list.len()))
}
