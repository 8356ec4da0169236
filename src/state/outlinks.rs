//! Movements of currency as the importance calculation sees them.

use super::bytes::{ByteReader, ByteWriter};
use super::numbers::AccountNumber;
use super::vesting::VestedBalance;
use crate::model::Height;
use crate::store::{StoreError, Table, Write, block_key};

/// A movement of currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlink {
    /// Who paid.
    pub sender: AccountNumber,
    /// Who received.
    pub recipient: AccountNumber,
    /// Micro-units, reduced by the unvested share of what the sender had left.
    pub weight: u64,
}

const OUTLINK_BYTES: usize = 16;

impl Outlink {
    /// Weight of a movement of `amount` micro-units by a sender who has `left` after it.
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
        let (sender, recipient) = (AccountNumber(input.u32()?), AccountNumber(input.u32()?));
        Ok(Outlink { sender, recipient, weight: input.u64()? })
    }

    /// Reads movements of one block, those with the numbers `from` to at most `from + most`; also whether there are more.
    pub fn read_some(value: &[u8], from: usize, most: usize) -> Result<(Vec<Outlink>, bool), StoreError> {
        let (all, []) = value.as_chunks::<OUTLINK_BYTES>() else { return Err(StoreError::Damaged("outlinks")) };
        let some = all.iter().skip(from).take(most).map(Outlink::read);
        Ok((some.collect::<Result<_, _>>()?, all.len() > from.saturating_add(most)))
    }
}

/// The movements of a block in the making.
#[derive(Debug, Default)]
pub(super) struct BlockOutlinks(ByteWriter);

impl BlockOutlinks {
    pub fn add(&mut self, outlink: Outlink) {
        outlink.write(&mut self.0);
    }

    pub fn store(self, batch: &mut impl Write, height: Height) -> Result<(), StoreError> {
        match self.0.0.is_empty() {
            true => Ok(()),
            false => batch.insert(Table::Outlinks, &block_key(height), &self.0.0),
        }
    }
}
