//! Applies one random change to a chain part.

use nisd::codec::{Context, SigningForm};
use nisd::crypto::PublicKey;
use nisd::model::transaction::{LinkMode, SupplyChangeKind};
use nisd::model::{Address, Block, BlockKind, Body, Network, Transaction};

use super::Random;

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A bit of a field of a block.
    BlockField,
    /// A bit of a field of a transaction, of its inner transaction or of a cosignature.
    TransactionField,
    /// A bit of the bytes of a block.
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
    /// All kinds.
    pub const ALL: [Change; 9] = [
        Change::BlockField,
        Change::TransactionField,
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
        Change::BlockField => flip_block_field(block, random),
        Change::TransactionField => {
            let place = pick(&block.transactions, random)?;
            flip_transaction_field(&mut block.transactions[place], network, random);
        }
        Change::Bytes => {
            let mut bytes = block.to_bytes(SigningForm::Verifiable);
            flip(&mut bytes, random);
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

/// Flips one bit; does nothing with an empty slice.
fn flip(bytes: &mut [u8], random: &mut Random) {
    if let Some(place) = pick(bytes, random) {
        bytes[place] ^= 1 << random.below(8);
    }
}

fn flip_i32(number: &mut i32, random: &mut Random) {
    *number ^= 1 << random.below(32);
}

fn flip_u64(number: &mut u64, random: &mut Random) {
    *number ^= 1 << random.below(64);
}

fn flip_block_field(block: &mut Block, random: &mut Random) {
    match random.below(7) {
        0 => {
            block.kind = match block.kind {
                BlockKind::Nemesis => BlockKind::Regular,
                BlockKind::Regular => BlockKind::Nemesis,
            }
        }
        1 => flip_i32(&mut block.version, random),
        2 => flip_i32(&mut block.timestamp.0, random),
        3 => flip(&mut block.signer.0, random),
        4 => block.signature.iter_mut().for_each(|signature| flip(&mut signature.0, random)),
        5 => flip(&mut block.previous_hash.0, random),
        _ => flip_u64(&mut block.height.0, random),
    }
}

fn flip_transaction_field(transaction: &mut Transaction, network: &Network, random: &mut Random) {
    if let Body::Multisig(body) = &mut transaction.body {
        let place = random.below(body.cosignatures.len() + 3);
        match place.checked_sub(2) {
            None => {}
            Some(0) => return flip_transaction_field(&mut body.inner, network, random),
            Some(one) => return flip_transaction_field(&mut body.cosignatures[one - 1], network, random),
        }
    }
    match random.below(7) {
        0 => flip_i32(&mut transaction.version, random),
        1 => flip_i32(&mut transaction.timestamp.0, random),
        2 => flip(&mut transaction.signer.0, random),
        3 => transaction.signature.iter_mut().for_each(|signature| flip(&mut signature.0, random)),
        4 => flip_u64(&mut transaction.fee.0, random),
        5 => flip_i32(&mut transaction.deadline.0, random),
        _ => flip_body_field(&mut transaction.body, network, random),
    }
}

fn flip_body_field(body: &mut Body, network: &Network, random: &mut Random) {
    let mut key = PublicKey([0; 32]);
    flip(&mut key.0, random);
    let other = Address::from_public_key(&key, network.byte);
    let first = random.coin();
    match body {
        Body::Transfer(body) => match (random.below(4), &mut body.message, body.mosaics.first_mut()) {
            (0, Some(message), _) => flip(&mut message.payload, random),
            (1, _, Some(mosaic)) => flip_u64(&mut mosaic.quantity, random),
            (2, ..) => body.recipient = other,
            _ => flip_u64(&mut body.amount.0, random),
        },
        Body::ImportanceTransfer(body) if first => body.mode = toggled(body.mode),
        Body::ImportanceTransfer(body) => flip(&mut body.remote.0, random),
        Body::AggregateModification(body) => match (&mut body.min_cosignatories_change, body.modifications.first_mut())
        {
            (Some(change), _) if first => flip_i32(change, random),
            (_, Some(modification)) => flip(&mut modification.cosignatory.0, random),
            _ => {}
        },
        Body::Cosignature(body) if first => flip(&mut body.other_hash.0, random),
        Body::Cosignature(body) => body.other_account = other,
        Body::Multisig(body) => drop(body.cosignatures.pop()),
        Body::ProvisionNamespace(body) => match random.below(4) {
            0 => body.rental_fee_sink = other,
            1 => body.new_part.push('x'),
            2 => body.parent = None,
            _ => flip_u64(&mut body.rental_fee.0, random),
        },
        Body::MosaicDefinitionCreation(body) => match random.below(4) {
            0 => body.creation_fee_sink = other,
            1 => body.definition.description.push('x'),
            2 => body.definition.levy = None,
            _ => flip_u64(&mut body.creation_fee.0, random),
        },
        Body::MosaicSupplyChange(body) if first => {
            body.kind = match body.kind {
                SupplyChangeKind::Create => SupplyChangeKind::Delete,
                SupplyChangeKind::Delete => SupplyChangeKind::Create,
            }
        }
        Body::MosaicSupplyChange(body) => flip_u64(&mut body.delta, random),
    }
}

fn toggled(mode: LinkMode) -> LinkMode {
    match mode {
        LinkMode::Activate => LinkMode::Deactivate,
        LinkMode::Deactivate => LinkMode::Activate,
    }
}
