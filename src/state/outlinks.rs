//! Movements of currency as the importance calculation sees them.

use super::vesting::VestedBalance;
use crate::model::{Address, Height};
use crate::store::{StoreError, Table, Write};

/// A movement of currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlink {
    /// Height of its block.
    pub height: Height,
    /// Who paid.
    pub sender: Address,
    /// Who received.
    pub recipient: Address,
    /// Micro-units, reduced by the unvested share of what the sender had left.
    pub weight: u64,
}

impl Outlink {
    /// Weight of a movement of `amount` micro-units by a sender who has `left` after it.
    pub fn weigh(amount: u64, left: &VestedBalance) -> u64 {
        match left.unvested {
            0 => amount,
            _ => (u128::from(amount) * u128::from(left.vested) / u128::from(left.total())) as u64,
        }
    }

    /// Remembers the movement as that with a number in its block.
    pub(super) fn insert(&self, batch: &mut impl Write, number: u32) -> Result<(), StoreError> {
        let key = [self.height.0.to_be_bytes().as_slice(), &number.to_be_bytes()].concat();
        let value = [self.sender.as_bytes().as_slice(), self.recipient.as_bytes(), &self.weight.to_le_bytes()].concat();
        batch.insert(Table::Outlinks, &key, &value)
    }

    /// Reads an entry of the table.
    pub fn from_entry(key: &[u8], value: &[u8]) -> Result<Outlink, StoreError> {
        Outlink::parse(key, value).ok_or(StoreError::Damaged("an outlink"))
    }

    fn parse(key: &[u8], value: &[u8]) -> Option<Outlink> {
        let (sender, rest) = value.split_first_chunk()?;
        let (recipient, weight) = rest.split_first_chunk()?;
        Some(Outlink {
            height: Height(u64::from_be_bytes(*key.first_chunk()?)),
            sender: Address::from_stored(*sender),
            recipient: Address::from_stored(*recipient),
            weight: u64::from_le_bytes(weight.try_into().ok()?),
        })
    }
}
