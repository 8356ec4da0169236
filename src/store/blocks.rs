//! Stored blocks.
//!
//! A row consists of a header, the block in its verifiable binary form, and an index of its transactions. Header and
//! index share a checksum, and each transaction has its own, so that a reader reads and verifies only what it needs of
//! a block of possibly several megabytes.

use super::checksums::checksum;
use super::{Read, StoreError, Table};
use crate::codec::{ByteReader, Context};
use crate::model::{Address, Amount, Block, Hash256, Height, Timestamp, Transaction};

/// The header of a stored block: data on the block in addition to the block itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHeader {
    /// Height of the block.
    pub height: Height,
    /// Hash of the block.
    pub hash: Hash256,
    /// Generation hash of the block.
    pub generation_hash: Hash256,
    /// Time stamp of the block.
    pub timestamp: Timestamp,
    /// Difficulty of the block.
    pub difficulty: u64,
    /// Score of the chain up to and including the block.
    pub score: i128,
    /// Fees of all its transactions.
    pub total_fee: Amount,
    /// The account credited with the block, if that is not its signer.
    pub beneficiary: Option<Address>,
    /// Id of its first transaction, and the first id after its last one.
    pub ids: (u64, u64),
}

pub(super) const HEADER_BYTES: usize = 32 + 32 + 4 + 8 + 16 + 8 + 40 + 8 + 8;
const NO_BENEFICIARY: [u8; 40] = [0; 40];
/// Bytes of an index entry: offset of the transaction's length in the block, and the transaction's checksum.
const ENTRY_BYTES: usize = 4 + 4;
/// Bytes after the entries: transaction count as NIS1 counts, number of entries, and the checksum of header, index and
/// the part of the block before its transactions.
const TRAILER_BYTES: usize = 4 + 4 + 4;

impl StoredHeader {
    /// Returns the row of a block.
    pub fn to_bytes(&self, block: &Block) -> Vec<u8> {
        let (body, starts) = block.to_indexed_bytes();
        let mut out = Vec::with_capacity(HEADER_BYTES + body.len() + starts.len() * ENTRY_BYTES + TRAILER_BYTES);
        out.extend_from_slice(&self.hash.0);
        out.extend_from_slice(&self.generation_hash.0);
        out.extend_from_slice(&self.timestamp.0.to_le_bytes());
        out.extend_from_slice(&self.difficulty.to_le_bytes());
        out.extend_from_slice(&self.score.to_le_bytes());
        out.extend_from_slice(&self.total_fee.0.to_le_bytes());
        out.extend_from_slice(self.beneficiary.as_ref().map_or(&NO_BENEFICIARY, |lessor| lessor.as_bytes()));
        out.extend_from_slice(&self.ids.0.to_le_bytes());
        out.extend_from_slice(&self.ids.1.to_le_bytes());
        out.extend_from_slice(&body);
        self.append_index(&mut out, &body, &starts, nis1_transaction_count(block));
        out
    }

    fn append_index(&self, out: &mut Vec<u8>, body: &[u8], starts: &[usize], counted: u32) {
        let key = block_key(self.height);
        let ends = starts.iter().skip(1).copied().chain([body.len()]);
        for (start, end) in starts.iter().zip(ends) {
            out.extend_from_slice(&(*start as u32).to_le_bytes());
            out.extend_from_slice(&checksum(Table::Blocks, &key, &[&body[*start..end]]).to_le_bytes());
        }
        out.extend_from_slice(&counted.to_le_bytes());
        out.extend_from_slice(&(starts.len() as u32).to_le_bytes());
        let head = HEADER_BYTES + starts.first().copied().unwrap_or(body.len());
        let sum = checksum(Table::Blocks, &key, &[&out[..head], &out[HEADER_BYTES + body.len()..]]);
        out.extend_from_slice(&sum.to_le_bytes());
    }

    fn from_bytes(height: Height, bytes: &[u8]) -> Option<StoredHeader> {
        let mut input = ByteReader(bytes);
        Some(StoredHeader {
            height,
            hash: Hash256(input.array()?),
            generation_hash: Hash256(input.array()?),
            timestamp: Timestamp(i32::from_le_bytes(input.array()?)),
            difficulty: u64::from_le_bytes(input.array()?),
            score: i128::from_le_bytes(input.array()?),
            total_fee: Amount(u64::from_le_bytes(input.array()?)),
            beneficiary: Some(input.array()?).filter(|bytes| *bytes != NO_BENEFICIARY).map(Address::from_stored),
            ids: (u64::from_le_bytes(input.array()?), u64::from_le_bytes(input.array()?)),
        })
    }
}

/// The row of a block. Header and index are verified when it is opened, each transaction when it is read.
#[derive(Clone, Copy, Debug)]
pub struct BlockRow<'a> {
    height: Height,
    header: &'a [u8],
    block: &'a [u8],
    entries: &'a [[u8; ENTRY_BYTES]],
    nis1_count: u32,
}

impl<'a> BlockRow<'a> {
    fn open(height: Height, row: &'a [u8]) -> Result<BlockRow<'a>, StoreError> {
        BlockRow::parse(height, row).ok_or_else(|| corrupt(height))
    }

    /// Splits a row and compares header and index with their checksum.
    fn parse(height: Height, row: &'a [u8]) -> Option<BlockRow<'a>> {
        let (header, rest) = row.split_at_checked(HEADER_BYTES)?;
        let (block, behind) = rest.split_at_checked(rest.len().checked_sub(index_length(row)?)?)?;
        let (entries, trailer) = behind.split_last_chunk::<TRAILER_BYTES>()?;
        let nis1_count = u32::from_le_bytes(*trailer.first_chunk()?);
        let row = BlockRow { height, header, block, entries: entries.as_chunks().0, nis1_count };
        let (indexed, sum) = behind.split_last_chunk()?;
        let head = block.get(..row.start(0))?;
        let is_valid =
            checksum(Table::Blocks, &block_key(height), &[header, head, indexed]) == u32::from_le_bytes(*sum);
        is_valid.then_some(row)
    }

    /// Returns the header.
    pub fn header(&self) -> Result<StoredHeader, StoreError> {
        StoredHeader::from_bytes(self.height, self.header).ok_or(StoreError::Damaged("a block"))
    }

    /// Returns the number of transactions.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of transactions as NIS1 counts them: a multisig transaction counts with its inner transaction
    /// and its cosignatures.
    pub fn nis1_transaction_count(&self) -> u64 {
        u64::from(self.nis1_count)
    }

    /// Returns the verifiable binary form up to the first transaction.
    pub fn head(&self) -> &'a [u8] {
        self.block.get(..self.start(0)).unwrap_or_default()
    }

    /// Returns the length of the verifiable binary form in bytes.
    pub fn bytes(&self) -> usize {
        self.block.len()
    }

    /// Returns the verifiable binary form of the transaction with an index; `None` if there is none.
    pub fn transaction(&self, index: usize) -> Result<Option<&'a [u8]>, StoreError> {
        let Some(entry) = self.entries.get(index) else { return Ok(None) };
        let [_, _, _, _, sum @ ..] = *entry;
        let bytes = self.block.get(self.start(index)..self.start(index + 1));
        let key = block_key(self.height);
        let bytes = bytes.filter(|bytes| checksum(Table::Blocks, &key, &[bytes]) == u32::from_le_bytes(sum));
        match bytes.and_then(|bytes| bytes.split_first_chunk::<4>()) {
            Some((_, transaction)) => Ok(Some(transaction)),
            None => Err(corrupt(self.height)),
        }
    }

    /// Returns the transactions in their verifiable binary form.
    pub fn transactions(self) -> impl Iterator<Item = Result<&'a [u8], StoreError>> {
        (0..self.count()).filter_map(move |index| self.transaction(index).transpose())
    }

    /// Returns the block in its verifiable binary form, after verifying all its transactions.
    pub fn verified_bytes(&self) -> Result<&'a [u8], StoreError> {
        for index in 0..self.count() {
            self.transaction(index)?;
        }
        Ok(self.block)
    }

    /// Returns the offset of a transaction in the block, or the end of the last one.
    fn start(&self, index: usize) -> usize {
        let start = |entry: &[u8; ENTRY_BYTES]| u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]) as usize;
        self.entries.get(index).map_or(self.block.len(), start)
    }
}

/// Returns the number of bytes after the block in a row.
pub(super) fn index_length(row: &[u8]) -> Option<usize> {
    let [_, _, _, _, count @ .., _, _, _, _] = row.last_chunk::<TRAILER_BYTES>()?;
    (u32::from_le_bytes(*count) as usize).checked_mul(ENTRY_BYTES)?.checked_add(TRAILER_BYTES)
}

fn nis1_transaction_count(block: &Block) -> u32 {
    let counted = |transaction: &Transaction| 1 + transaction.children().count() as u32;
    block.transactions.iter().map(counted).sum()
}

fn corrupt(height: Height) -> StoreError {
    StoreError::Corrupt { table: Table::Blocks, key: block_key(height).to_vec() }
}

/// Returns the key of a block.
pub fn block_key(height: Height) -> [u8; 8] {
    height.0.to_be_bytes()
}

/// Returns the row of the block at a height.
pub fn block_row(state: &impl Read, height: Height) -> Result<Option<BlockRow<'_>>, StoreError> {
    let row = state.get_unverified(Table::Blocks, &block_key(height))?;
    row.map(|row| BlockRow::open(height, row)).transpose()
}

/// Returns the header of the block at a height.
pub fn stored_header(state: &impl Read, height: Height) -> Result<Option<StoredHeader>, StoreError> {
    block_row(state, height)?.map(|row| row.header()).transpose()
}

/// Returns header and block at a height.
pub fn stored_block(
    state: &impl Read,
    height: Height,
    context: Context,
) -> Result<Option<(StoredHeader, Block)>, StoreError> {
    let Some(row) = block_row(state, height)? else { return Ok(None) };
    let block =
        Block::from_bytes(row.verified_bytes()?, context.trusted()).map_err(|_| StoreError::Damaged("a block"))?;
    Ok(Some((row.header()?, block)))
}

/// Returns the header of the last block; `None` if there is none.
pub fn tip(state: &impl Read) -> Result<Option<StoredHeader>, StoreError> {
    let Some((key, row)) = state.cursor(Table::Blocks)?.last()? else { return Ok(None) };
    let height = key.try_into().map_err(|_| StoreError::Damaged("a block's key"))?;
    BlockRow::open(Height(u64::from_be_bytes(height)), row)?.header().map(Some)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::SigningForm;
    use crate::crypto::{PublicKey, Signature};
    use crate::model::network::NAMESPACE_SINK;
    use crate::model::transaction::{Transfer, wire_version};
    use crate::model::{BlockKind, Body, NetworkByte};

    const BYTE: NetworkByte = NetworkByte::TESTNET;

    fn transfer(amount: u64) -> Transaction {
        let recipient = Address::from_public_key(&NAMESPACE_SINK, BYTE);
        Transaction {
            version: wire_version(BYTE, 1),
            timestamp: Timestamp(1),
            signer: PublicKey([3; 32]),
            signature: Some(Signature([4; 64])),
            fee: Amount(1),
            deadline: Timestamp(2),
            body: Body::Transfer(Transfer { recipient, amount: Amount(amount), message: None, mosaics: Vec::new() }),
        }
    }

    /// Returns a block at a height with transactions, and its header.
    pub fn block(height: Height, transactions: usize) -> (StoredHeader, Block) {
        let header = StoredHeader {
            height,
            hash: Hash256([1; 32]),
            generation_hash: Hash256([2; 32]),
            timestamp: Timestamp(5),
            difficulty: 6,
            score: 7,
            total_fee: Amount(8),
            beneficiary: None,
            ids: (1, 1 + transactions as u64),
        };
        let block = Block {
            kind: BlockKind::Regular,
            version: wire_version(BYTE, 1),
            timestamp: Timestamp(5),
            signer: PublicKey([9; 32]),
            signature: Some(Signature([8; 64])),
            previous_hash: Hash256([7; 32]).into(),
            height,
            transactions: (0..transactions as u64).map(transfer).collect(),
        };
        (header, block)
    }

    #[test]
    fn a_block_row_returns_the_block_its_transactions_and_its_header() {
        for count in [0, 1, 5] {
            let (header, block) = block(Height(7), count);
            let bytes = header.to_bytes(&block);
            let row = BlockRow::open(header.height, &bytes).unwrap();
            assert_eq!(row.header().unwrap(), header);
            assert_eq!(row.verified_bytes().unwrap(), block.to_bytes(SigningForm::Verifiable));
            assert_eq!((row.count(), row.nis1_transaction_count()), (count, count as u64));
            for (index, transaction) in block.transactions.iter().enumerate() {
                assert_eq!(
                    row.transaction(index).unwrap(),
                    Some(transaction.to_bytes(SigningForm::Verifiable).as_slice())
                );
            }
            assert_eq!(row.transaction(count).unwrap(), None);
            assert_eq!(row.transactions().count(), count);
            assert!(BlockRow::open(Height(8), &bytes).is_err());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_flipped_bit_is_detected_when_its_part_is_read(count in 0usize..4, place: prop::sample::Index) {
            let (header, block) = block(Height(7), count);
            let mut bytes = header.to_bytes(&block);
            let whole = block.to_bytes(SigningForm::Verifiable);
            let bit = place.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let starts = block.to_indexed_bytes().1;
            let in_block = (bit / 8).checked_sub(HEADER_BYTES).filter(|at| *at < whole.len());
            let changed = in_block.and_then(|at| starts.iter().rposition(|start| *start <= at));
            match (BlockRow::open(header.height, &bytes), changed) {
                (Err(_), None) => {}
                (Ok(row), Some(changed)) => {
                    prop_assert!(row.verified_bytes().is_err());
                    for index in 0..count {
                        prop_assert_eq!(row.transaction(index).is_err(), index == changed);
                    }
                }
                (opened, _) => prop_assert!(false, "{opened:?} {changed:?}"),
            }
        }

        #[test]
        fn arbitrary_bytes_are_rejected_as_a_block_row(bytes: Vec<u8>, count in 0u32..5, tail: [u8; 4]) {
            let row = [bytes.as_slice(), &[0; HEADER_BYTES], &count.to_le_bytes(), &tail].concat();
            prop_assert!(BlockRow::open(Height(1), &row).is_err());
            prop_assert!(BlockRow::open(Height(1), &bytes).is_err());
        }
    }
}
