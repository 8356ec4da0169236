//! Index of accounts by address.
//!
//! Addresses are spread evenly, so a row per address would mostly consist of the store's own data, and every lookup would
//! touch another page. A row here holds the entries of a range of addresses instead: the first bytes of each address, and
//! the id of its account, whose row has the whole address and verifies the entry. A full row is split. The index takes 17
//! bytes per account, and a change writes one row of some 200 bytes.

use super::account::AccountId;
use crate::model::Address;
use crate::model::address::RAW_LENGTH;
use crate::store::{Read, Result, StoreError, Table, Write, next_key};

/// Bytes of an address in an entry: those after the byte of the network. Accounts may agree in them, which costs whoever
/// looks for one of these accounts the rows of the others.
const PREFIX_BYTES: usize = 6;
const ENTRY_BYTES: usize = PREFIX_BYTES + size_of::<AccountId>();
/// A row with more entries is split.
const MAX_ENTRIES: usize = 32;

/// The first bytes of an address, then the id.
type Entry = [u8; ENTRY_BYTES];

/// Key of the first row. The key of any other is the first entry that it had when it was split off.
const FIRST_ROW: Entry = [0; ENTRY_BYTES];

const DAMAGED: StoreError = StoreError::Damaged("the index of addresses");

fn entry(raw: &[u8; RAW_LENGTH], id: AccountId) -> Entry {
    let mut entry = FIRST_ROW;
    entry[..PREFIX_BYTES].copy_from_slice(&raw[1..=PREFIX_BYTES]);
    entry[PREFIX_BYTES..].copy_from_slice(&id.key());
    entry
}

fn entries(row: &[u8]) -> Result<&[Entry]> {
    let (entries, rest) = row.as_chunks();
    if rest.is_empty() && !entries.is_empty() { Ok(entries) } else { Err(DAMAGED) }
}

/// Returns the id of an address and the row of its account, if it has one.
pub(super) fn find<'a>(state: &'a impl Read, address: &Address) -> Result<Option<(AccountId, &'a [u8])>> {
    let raw = address.to_raw();
    let (first, end) = (entry(&raw, AccountId(0)), next_key(&entry(&raw, AccountId(u32::MAX))));
    // The row of an account proves that it is the right one, so that only an unknown address needs complete rows.
    if let Some((_, row)) = state.cursor(Table::AccountIds)?.unverified().seek_before(&end)?
        && let Some(found) = find_in(state, entries(row)?, &raw)?
    {
        return Ok(Some(found));
    }
    for row in state.entries_before(Table::AccountIds, &[], &end)? {
        let (key, row) = row?;
        if let Some(found) = find_in(state, entries(row)?, &raw)? {
            return Ok(Some(found));
        }
        // Only if the row starts within the entries with these bytes, the one before it may have more of them.
        if !key.starts_with(&first[..PREFIX_BYTES]) {
            break;
        }
    }
    Ok(None)
}

/// Returns the id of an address and the row of its account, if one of the entries is that of the address.
fn find_in<'a>(
    state: &'a impl Read,
    entries: &[Entry],
    raw: &[u8; RAW_LENGTH],
) -> Result<Option<(AccountId, &'a [u8])>> {
    let [first, last] = [0, u32::MAX].map(|id| entry(raw, AccountId(id)));
    let start = entries.partition_point(|entry| *entry < first);
    for entry in entries[start..].iter().take_while(|entry| **entry <= last) {
        let (id, _) = AccountId::split_key(&entry[PREFIX_BYTES..])?;
        let account = state.get(Table::Accounts, &id.key())?.ok_or(DAMAGED)?;
        if account.starts_with(raw) {
            return Ok(Some((id, account)));
        }
    }
    Ok(None)
}

/// Adds an address, which must not be there.
pub(super) fn insert(txn: &mut impl Write, raw: &[u8; RAW_LENGTH], id: AccountId) -> Result<()> {
    let added = entry(raw, id);
    let row = txn.last_before(Table::AccountIds, &[], &next_key(&added))?;
    let Some((key, before)) = row.map(|(key, value)| (key.to_vec(), value.to_vec())) else {
        return txn.insert(Table::AccountIds, &FIRST_ROW, &added);
    };
    let mut entries = entries(&before)?.to_vec();
    entries.insert(entries.partition_point(|entry| *entry < added), added);
    if entries.len() > MAX_ENTRIES {
        let upper = entries.split_off(entries.len() / 2);
        txn.insert(Table::AccountIds, &upper[0], upper.as_flattened())?;
    }
    txn.put(Table::AccountIds, &key, entries.as_flattened())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::account::{Account, AccountTotals, put_account};
    use super::*;
    use crate::store::test_store;

    /// Returns an address of a few that begin with the same bytes. Its other bytes are those of `number`.
    fn address(group: u8, number: u16) -> Address {
        let mut raw = [0; RAW_LENGTH];
        raw[0] = 152;
        // In the first bytes, between them, or behind them.
        raw[1 + usize::from(group) % 8] = group;
        raw[20..22].copy_from_slice(&number.to_be_bytes());
        Address::from_raw(&raw)
    }

    /// The index holds `found` and nothing else, in rows that are neither too long nor too short.
    fn check(state: &impl Read, found: &BTreeMap<Address, AccountId>, absent: &[Address]) {
        for (address, id) in found {
            assert_eq!(AccountId::of(state, address).unwrap(), Some(*id));
            assert_eq!(id.address(state).unwrap(), *address);
        }
        for address in absent.iter().filter(|address| !found.contains_key(*address)) {
            assert_eq!(AccountId::of(state, address).unwrap(), None);
        }
        let (mut all, mut lengths) = (Vec::new(), Vec::new());
        for row in state.entries(Table::AccountIds, &[]).unwrap() {
            let entries = entries(row.unwrap().1).unwrap();
            all.extend_from_slice(entries);
            lengths.push(entries.len());
        }
        assert!(all.is_sorted());
        assert_eq!(all.len(), found.len());
        let least = if lengths.len() > 1 { MAX_ENTRIES / 2 } else { 0 };
        assert!(lengths.iter().all(|length| (least..=MAX_ENTRIES).contains(length)), "{lengths:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn each_address_is_found_however_many_begin_alike(
            numbers in prop::collection::vec((0u8..24, 0u16..400), 0..600),
            others in prop::collection::vec((0u8..24, 0u16..400), 60),
            undone in 0usize..600,
        ) {
            let (store, _folder) = test_store();
            let mut batch = store.begin_write().unwrap();
            let mut found = BTreeMap::new();
            let mut undo = Vec::new();
            let others: Vec<_> = others.into_iter().map(|(group, number)| address(group, number)).collect();
            for (place, (group, number)) in numbers.iter().enumerate() {
                if place == undone {
                    batch.take_journal();
                    undo.push((found.clone(), AccountTotals::of(&batch).unwrap()));
                }
                let address = address(*group, *number);
                let id = put_account(&mut batch, &address, &Account::default()).unwrap();
                found.insert(address, id);
            }
            check(&batch, &found, &others);
            if let Some((before, totals)) = undo.pop() {
                let journal = batch.take_journal();
                batch.undo(&journal).unwrap();
                check(&batch, &before, &others);
                prop_assert_eq!(AccountTotals::of(&batch).unwrap(), totals);
            }
        }
    }

    #[test]
    fn a_row_that_no_block_wrote_is_damage() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        put_account(&mut batch, &address(1, 1), &Account::default()).unwrap();
        for row in [&[][..], &[1; ENTRY_BYTES + 1]] {
            batch.put(Table::AccountIds, &FIRST_ROW, row).unwrap();
            assert!(matches!(AccountId::of(&batch, &address(1, 1)), Err(StoreError::Damaged(_))));
        }
        // The account of an entry is missing.
        batch.put(Table::AccountIds, &FIRST_ROW, &entry(&address(2, 1).to_raw(), AccountId(7))).unwrap();
        assert!(matches!(AccountId::of(&batch, &address(2, 1)), Err(StoreError::Damaged(_))));
        assert_eq!(AccountId::of(&batch, &address(3, 1)).unwrap(), None);
    }
}
