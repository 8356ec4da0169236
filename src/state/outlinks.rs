//! Outlinks: currency transfers as the importance calculation uses them.

use super::account_ids::AccountId;
use super::bytes::{ByteReader, ByteWriter};
use super::vesting::VestedBalance;
use crate::model::Height;
use crate::store::{StoreError, Table, Write, block_key};

/// A currency transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlink {
    /// The sender.
    pub sender: AccountId,
    /// The recipient.
    pub recipient: AccountId,
    /// Amount in micro-units, reduced by the unvested share of the sender's remaining balance.
    pub weight: u64,
}

const OUTLINK_BYTES: usize = 16;

impl Outlink {
    /// Returns the weight of a transfer of `amount` micro-units by a sender with the balance `left` after it.
    pub fn weigh(amount: u64, left: &VestedBalance) -> u64 {
        match left.unvested {
            0 => amount,
            _ => (u128::from(amount) * u128::from(left.vested) / u128::from(left.total())) as u64,
        }
    }

    fn write(&self, out: &mut ByteWriter) {
        out.u32(self.sender.0);
        out.u32(self.recipient.0);
        out.u64(self.weight);
    }

    fn read(bytes: &[u8; OUTLINK_BYTES]) -> Result<Outlink, StoreError> {
        let mut input = ByteReader::new(bytes, "an outlink");
        let (sender, recipient) = (AccountId(input.u32()?), AccountId(input.u32()?));
        Ok(Outlink { sender, recipient, weight: input.u64()? })
    }

    /// Reads at most `limit` outlinks of one block, starting at index `from`. Also returns whether there are more.
    pub fn read_range(value: &[u8], from: usize, limit: usize) -> Result<(Vec<Outlink>, bool), StoreError> {
        let (all, []) = value.as_chunks::<OUTLINK_BYTES>() else { return Err(StoreError::Damaged("outlinks")) };
        let some = all.iter().skip(from).take(limit).map(Outlink::read);
        Ok((some.collect::<Result<_, _>>()?, all.len() > from.saturating_add(limit)))
    }
}

/// Collects the outlinks of a block.
#[derive(Debug, Default)]
pub(super) struct BlockOutlinks(ByteWriter);

impl BlockOutlinks {
    pub fn add(&mut self, outlink: Outlink) {
        outlink.write(&mut self.0);
    }

    pub fn store(self, txn: &mut impl Write, height: Height) -> Result<(), StoreError> {
        match self.0.0.is_empty() {
            true => Ok(()),
            false => txn.insert(Table::Outlinks, &block_key(height), &self.0.0),
        }
    }
}
