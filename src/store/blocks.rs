//! Blocks as they are stored.

use super::{Read, StoreError, Table};
use crate::codec::{Context, Form};
use crate::model::{Address, Amount, Block, Hash256, Height, Timestamp};

/// What is known of a block in the chain, besides the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    /// Its height.
    pub height: Height,
    /// Its hash.
    pub hash: Hash256,
    /// Its generation hash.
    pub generation_hash: Hash256,
    /// Its time stamp.
    pub timestamp: Timestamp,
    /// Its difficulty.
    pub difficulty: u64,
    /// Score of the chain up to it.
    pub score: i128,
    /// Fees of all its transactions.
    pub total_fee: Amount,
    /// The account it is credited to, if that is not its signer's.
    pub lessor: Option<Address>,
    /// Number of its first transaction, and of the first one after it.
    pub ids: (u64, u64),
}

pub(super) const HEADER_BYTES: usize = 32 + 32 + 4 + 8 + 16 + 8 + 40 + 8 + 8;
const NO_LESSOR: [u8; 40] = [0; 40];

impl StoredBlock {
    /// The stored form: this header, then the block in its verifiable binary form.
    pub fn to_bytes(&self, block: &Block) -> Vec<u8> {
        let body = block.to_bytes(Form::Verifiable);
        let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
        out.extend_from_slice(&self.hash.0);
        out.extend_from_slice(&self.generation_hash.0);
        out.extend_from_slice(&self.timestamp.0.to_le_bytes());
        out.extend_from_slice(&self.difficulty.to_le_bytes());
        out.extend_from_slice(&self.score.to_le_bytes());
        out.extend_from_slice(&self.total_fee.0.to_le_bytes());
        out.extend_from_slice(self.lessor.as_ref().map_or(&NO_LESSOR, |lessor| lessor.as_bytes()));
        out.extend_from_slice(&self.ids.0.to_le_bytes());
        out.extend_from_slice(&self.ids.1.to_le_bytes());
        out.extend_from_slice(&body);
        out
    }

    fn from_bytes(height: Height, bytes: &[u8]) -> Result<(StoredBlock, &[u8]), StoreError> {
        let mut input = Fields(bytes);
        let header = StoredBlock {
            height,
            hash: Hash256(input.take()?),
            generation_hash: Hash256(input.take()?),
            timestamp: Timestamp(i32::from_le_bytes(input.take()?)),
            difficulty: u64::from_le_bytes(input.take()?),
            score: i128::from_le_bytes(input.take()?),
            total_fee: Amount(u64::from_le_bytes(input.take()?)),
            lessor: Some(input.take()?).filter(|bytes| *bytes != NO_LESSOR).map(Address::from_stored),
            ids: (u64::from_le_bytes(input.take()?), u64::from_le_bytes(input.take()?)),
        };
        Ok((header, input.0))
    }
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(StoreError::Damaged("a block"))?;
        self.0 = rest;
        Ok(*field)
    }
}

/// Key of a block.
pub fn block_key(height: Height) -> [u8; 8] {
    height.0.to_be_bytes()
}

/// Header and verifiable binary form of the block at a height.
pub fn stored_header(state: &impl Read, height: Height) -> Result<Option<(StoredBlock, &[u8])>, StoreError> {
    let value = state.get(Table::Blocks, &block_key(height))?;
    value.map(|value| StoredBlock::from_bytes(height, value)).transpose()
}

/// Header and block at a height.
pub fn stored_block(
    state: &impl Read,
    height: Height,
    context: Context,
) -> Result<Option<(StoredBlock, Block)>, StoreError> {
    let Some((header, bytes)) = stored_header(state, height)? else { return Ok(None) };
    let block = Block::from_bytes(bytes, context.trusting()).map_err(|_| StoreError::Damaged("a block"))?;
    Ok(Some((header, block)))
}

/// The last block; `None` if there is none.
pub fn tip(state: &impl Read) -> Result<Option<StoredBlock>, StoreError> {
    let Some((key, value)) = state.walk(Table::Blocks)?.last()? else { return Ok(None) };
    let height = key.try_into().map_err(|_| StoreError::Damaged("a block's key"))?;
    let (header, _) = StoredBlock::from_bytes(Height(u64::from_be_bytes(height)), value)?;
    Ok(Some(header))
}
