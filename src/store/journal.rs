//! Undo journals: the old values of everything that a block changed.
//!
//! Stored as a sequence of: table (1 byte), length of the key (2), key, length of the old value plus one, or zero if
//! there was none (4), old value. Lengths are little-endian.

use super::error::StoreError;
use super::tables::Table;

/// One entry of a journal.
#[derive(Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// Table of the change.
    pub table: Table,
    /// Key of the change.
    pub key: &'a [u8],
    /// The value before the change; `None` if the key was absent.
    pub before: Option<&'a [u8]>,
}

/// Old values in the order in which they were overwritten.
#[derive(Default)]
pub struct Journal {
    bytes: Vec<u8>,
}

impl Journal {
    /// Records the old value of a key.
    pub fn record(&mut self, table: Table, key: &[u8], before: Option<&[u8]>) {
        self.bytes.push(table as u8);
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(key);
        let length = before.map_or(0, |value| value.len() as u32 + 1);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(before.unwrap_or_default());
    }

    /// Returns the stored form and empties the journal.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

/// Parses a stored journal.
pub fn parse(mut bytes: &[u8]) -> Result<Vec<Change<'_>>, StoreError> {
    let mut changes = Vec::new();
    while !bytes.is_empty() {
        let (change, rest) = parse_one(bytes).ok_or(StoreError::Damaged("an undo journal"))?;
        changes.push(change);
        bytes = rest;
    }
    Ok(changes)
}

/// Returns whether two stored journals are equal, except for changes of the table `but_in`.
pub fn journals_equal_except(a: &[u8], b: &[u8], but_in: Table) -> bool {
    let changes = |bytes| Some(parse(bytes).ok()?.into_iter().filter(|change| change.table != but_in));
    a == b || changes(a).zip(changes(b)).is_some_and(|(a, b)| a.eq(b))
}

fn parse_one(bytes: &[u8]) -> Option<(Change<'_>, &[u8])> {
    let (table, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    let (length, rest) = rest.split_first_chunk()?;
    let length = u32::from_le_bytes(*length) as usize;
    let (before, rest) = match length {
        0 => (None, rest),
        _ => {
            let (value, rest) = rest.split_at_checked(length - 1)?;
            (Some(value), rest)
        }
    };
    Some((Change { table: Table::from_number(*table)?, key, before }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_round_trips() {
        let mut journal = Journal::default();
        journal.record(Table::Accounts, b"key", None);
        journal.record(Table::Harvests, b"", Some(b""));
        journal.record(Table::Hashes, b"k", Some(b"old"));
        let bytes = journal.take();
        let changes = parse(&bytes).unwrap();
        assert_eq!(changes.len(), 3);
        assert_eq!(changes[0], Change { table: Table::Accounts, key: b"key", before: None });
        assert_eq!(changes[1].before, Some(&b""[..]));
        assert_eq!(changes[2].before, Some(&b"old"[..]));
    }

    #[test]
    fn a_truncated_journal_is_corruption_and_no_panic() {
        let mut journal = Journal::default();
        journal.record(Table::Hashes, b"key", Some(b"old"));
        let bytes = journal.take();
        for length in 1..bytes.len() {
            assert!(parse(&bytes[..length]).is_err(), "{length}");
        }
    }
}
