//! Account ids: short keys for accounts in large tables.
//!
//! An account gets the next id when a block first changes it, and keeps it. Undoing that block releases the id.

use super::bytes::{ByteReader, ByteWriter};
use crate::crypto::PublicKey;
use crate::model::address::RAW_LENGTH;
use crate::model::{Address, Height};
use crate::store::{Read, StoreError, Table, Write};

/// Id of an account in this store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub u32);

const DAMAGED: StoreError = StoreError::Damaged("the address or key of an account");

impl AccountId {
    /// Encodes the id for keys.
    pub fn key(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }

    /// Splits a key that starts with an id into the id and the rest.
    pub fn split_key(key: &[u8]) -> Result<(AccountId, &[u8]), StoreError> {
        let (number, rest) = key.split_first_chunk().ok_or(StoreError::Damaged("an account id"))?;
        Ok((AccountId(u32::from_be_bytes(*number)), rest))
    }

    /// Returns the id of an address, if it has one.
    pub fn of(state: &impl Read, address: &Address) -> Result<Option<AccountId>, StoreError> {
        let number = state.get(Table::AccountIds, &address.to_raw())?;
        let number = number.map(|bytes| bytes.try_into().map(u32::from_le_bytes).map(AccountId));
        number.transpose().map_err(|_| StoreError::Damaged("an account id"))
    }

    /// Returns the address with the id.
    pub fn address(self, state: &impl Read) -> Result<Address, StoreError> {
        let row = state.get(Table::AccountAddresses, &self.key())?.ok_or(DAMAGED)?;
        row.first_chunk().map(Address::from_raw).ok_or(DAMAGED)
    }

    /// Returns the public key of the account, if it is known.
    pub fn public_key(self, state: &impl Read) -> Result<Option<PublicKey>, StoreError> {
        let row = state.get(Table::AccountAddresses, &self.key())?.ok_or(DAMAGED)?;
        match row.get(RAW_LENGTH..).ok_or(DAMAGED)? {
            [] => Ok(None),
            key => key.try_into().map(|key| Some(PublicKey(key))).map_err(|_| DAMAGED),
        }
    }

    /// Assigns the id to an address.
    pub(super) fn assign(self, txn: &mut impl Write, address: &Address) -> Result<(), StoreError> {
        txn.insert(Table::AccountIds, &address.to_raw(), &self.0.to_le_bytes())?;
        txn.insert(Table::AccountAddresses, &self.key(), &address.to_raw())
    }

    /// Records the public key of the address.
    pub(super) fn record_public_key(
        self,
        txn: &mut impl Write,
        address: &Address,
        key: &PublicKey,
    ) -> Result<(), StoreError> {
        txn.put(Table::AccountAddresses, &self.key(), &[address.to_raw().as_slice(), &key.0].concat())
    }
}

/// Counts over all accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountTotals {
    /// Number of accounts with an id; also the next id.
    pub allocated: u32,
    /// Number of accounts that were ever referenced.
    pub known: u32,
    /// Number of rows in [`Table::EligibleAccounts`].
    pub stakes: u32,
    /// Height of the last block that referenced accounts for the first time, and their number.
    pub last_new: (Height, u32),
}

const TOTALS_KEY: &[u8] = b"accounts";

impl AccountTotals {
    /// Reads the counts.
    pub fn of(state: &impl Read) -> Result<AccountTotals, StoreError> {
        let Some(row) = state.get(Table::Totals, TOTALS_KEY)? else { return Ok(AccountTotals::default()) };
        let mut input = ByteReader::new(row, "the account totals");
        Ok(AccountTotals {
            allocated: input.u32()?,
            known: input.u32()?,
            stakes: input.u32()?,
            last_new: (Height(input.u64()?), input.u32()?),
        })
    }

    /// Returns how many accounts a block referenced for the first time. Valid only if no later block did so.
    pub fn new_at(&self, height: Height) -> u32 {
        if self.last_new.0 == height { self.last_new.1 } else { 0 }
    }

    /// Counts an account that a block references for the first time.
    pub(super) fn count_new(&mut self, height: Height) {
        self.last_new = (height, self.new_at(height).saturating_add(1));
        self.known = self.known.saturating_add(1);
    }

    pub(super) fn put(self, txn: &mut impl Write) -> Result<(), StoreError> {
        let mut out = ByteWriter::default();
        out.u32(self.allocated);
        out.u32(self.known);
        out.u32(self.stakes);
        out.u64(self.last_new.0.0);
        out.u32(self.last_new.1);
        txn.put(Table::Totals, TOTALS_KEY, &out.0)
    }
}

/// The next numbers of ownership periods and mosaics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NameCounters {
    pub ownership_periods: u32,
    pub mosaics: u32,
}

impl NameCounters {
    const KEY: &[u8] = b"names";

    pub fn of(state: &impl Read) -> Result<NameCounters, StoreError> {
        let Some(row) = state.get(Table::Totals, NameCounters::KEY)? else { return Ok(NameCounters::default()) };
        let mut input = ByteReader::new(row, "the namespace and mosaic counters");
        Ok(NameCounters { ownership_periods: input.u32()?, mosaics: input.u32()? })
    }

    pub fn put(self, txn: &mut impl Write) -> Result<(), StoreError> {
        let mut out = ByteWriter::default();
        out.u32(self.ownership_periods);
        out.u32(self.mosaics);
        txn.put(Table::Totals, NameCounters::KEY, &out.0)
    }
}
