//! Row checksums, which detect values that a disk has damaged.
//!
//! The checksum covers table, key and value, so that a row in the wrong place is detected too. [`Table::Meta`] has
//! none, so that a program of any version can read it; it is compared with the checksum of its range whenever a store
//! is opened. A part of a long value that contains its own checksum can be read without the rest
//! ([`super::Read::get_unverified`]).

use super::error::StoreError;
use super::tables::Table;

/// Bytes of a checksum (CRC-32, little-endian) after the value.
pub const CHECKSUM_BYTES: usize = 4;

/// Returns the stored length of a value in a table.
pub fn stored_length(table: Table, value: &[u8]) -> usize {
    match table {
        Table::Meta => value.len(),
        _ => value.len() + CHECKSUM_BYTES,
    }
}

/// Writes a value with its checksum into `place`, which has the stored_length [`stored_length`].
pub fn append_checksum(table: Table, key: &[u8], value: &[u8], place: &mut [u8]) {
    let (own, checksum) = place.split_at_mut(value.len());
    own.copy_from_slice(value);
    if table != Table::Meta {
        checksum.copy_from_slice(&compute_checksum(table, key, value).to_le_bytes());
    }
}

/// Returns the value of a row after verifying its checksum.
pub fn verify<'a>(table: Table, key: &[u8], row: &'a [u8]) -> Result<&'a [u8], StoreError> {
    if table == Table::Meta {
        return Ok(row);
    }
    match row.split_last_chunk() {
        Some((value, checksum)) if compute_checksum(table, key, value) == u32::from_le_bytes(*checksum) => Ok(value),
        _ => Err(StoreError::Corrupt { table, key: key.to_vec() }),
    }
}

/// Returns the value of a row without verifying its checksum.
pub fn strip<'a>(table: Table, key: &[u8], row: &'a [u8]) -> Result<&'a [u8], StoreError> {
    let checksum = if table == Table::Meta { 0 } else { CHECKSUM_BYTES };
    let value = row.len().checked_sub(checksum).and_then(|length| row.get(..length));
    value.ok_or_else(|| StoreError::Corrupt { table, key: key.to_vec() })
}

/// Returns the checksum of a value, or of a part of one.
pub fn compute_checksum(table: Table, key: &[u8], value: &[u8]) -> u32 {
    checksum_of_parts(table, key, [value])
}

/// Returns the checksum of several parts of a value.
pub fn checksum_of_parts<const N: usize>(table: Table, key: &[u8], parts: [&[u8]; N]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[table as u8]);
    hasher.update(key);
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_row_with_a_flipped_bit_is_rejected(key: [u8; 12], value: Vec<u8>, place: usize) {
            let mut row = vec![0; stored_length(Table::Accounts, &value)];
            append_checksum(Table::Accounts, &key, &value, &mut row);
            prop_assert_eq!(verify(Table::Accounts, &key, &row).unwrap(), value.as_slice());
            prop_assert!(verify(Table::EligibleAccounts, &key, &row).is_err());
            let mut other = key;
            other[place % 12] ^= 1 << (place % 8);
            prop_assert!(verify(Table::Accounts, &other, &row).is_err());
            let bits = row.len() * 8;
            row[place % bits / 8] ^= 1 << (place % 8);
            prop_assert!(verify(Table::Accounts, &key, &row).is_err());
        }
    }
}
