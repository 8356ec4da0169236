//! Stored importances, and the outlinks from which they are calculated.
//!
//! Every recalculation writes one complete list, ordered by account id: the eligible accounts, and the formerly
//! eligible ones with their previous values. So the list of a height is the whole state at that height, undoing a
//! recalculation means deleting its list, and neither needs the journal. Lists that no rollback can reach are deleted.

use super::account::AccountId;
use super::balance::VestedBalance;
use super::bytes::{Stored, all_to_stored, stored, stored_as};
use crate::model::{Address, Height};
use crate::store::{Read, Result, StoreError, Table, Write as _, WriteTxn, block_key};

/// Entries per row: as many as fit into an LMDB page.
const CHUNK: usize = 169;
const ENTRY_BYTES: usize = 4 + 4 + 8 + 8;

/// Importance of an account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccountImportance {
    /// The account.
    pub account: AccountId,
    /// Importance height of the last recalculation for which the account was eligible.
    pub height: Height,
    /// Share of the total importance, 0 to 1.
    pub importance: f64,
    /// Page rank.
    pub page_rank: f64,
}

/// Header of a recalculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecalculationRecord {
    /// Importance height of the recalculation.
    pub height: Height,
    /// Accounts known at that height, the nemesis account not included.
    pub accounts_counted: u64,
    /// Those of them that were eligible.
    pub eligible: u64,
}

/// Returns the height of the list of a row.
fn list_of(key: &[u8]) -> Result<Height> {
    let height = key.first_chunk().ok_or(StoreError::Damaged("a recalculation's key"))?;
    Ok(Height(u64::from_be_bytes(*height)))
}

/// Returns the key of a chunk: height and last account of the chunk, so that a seek for an account finds its chunk.
fn chunk_key(height: Height, last: AccountId) -> Vec<u8> {
    [block_key(height).as_slice(), &last.key()].concat()
}

stored_as! {
    AccountImportance as ([u8; 4], (u32, (f64, f64))):
        |one| (one.account.key(), (one.height.0 as u32, (one.importance, one.page_rank))),
        |(id, (height, (importance, page_rank)))| {
            let (account, height) = (AccountId(u32::from_be_bytes(id)), Height(height.into()));
            Some(AccountImportance { account, height, importance, page_rank })
        };
}

/// Returns the last recalculation; `None` before the nemesis block.
pub fn last_recalculation(state: &impl Read) -> Result<Option<RecalculationRecord>> {
    let Some((key, _)) = state.cursor(Table::Importances)?.last()? else { return Ok(None) };
    let height = list_of(key)?;
    let Some(head) = state.get(Table::Importances, &block_key(height))? else { return Ok(None) };
    let (accounts_counted, eligible) = <(u64, u64)>::from_stored(head, "a recalculation")?;
    Ok(Some(RecalculationRecord { height, accounts_counted, eligible }))
}

/// Returns the importance of an account at the last recalculation; 0 if that did not include it.
pub fn current_importance(state: &impl Read, address: &Address) -> Result<f64> {
    let Some(last) = last_recalculation(state)? else { return Ok(0.0) };
    let own = importance(state, address)?.filter(|own| own.height == last.height);
    Ok(own.map_or(0.0, |own| own.importance))
}

/// Returns the importance of an account in the last recalculation; `None` if the account was never eligible.
pub fn importance(state: &impl Read, address: &Address) -> Result<Option<AccountImportance>> {
    let Some(account) = AccountId::of(state, address)? else { return Ok(None) };
    importance_at(state, account)
}

/// Returns the same by account id.
pub fn importance_at(state: &impl Read, id: AccountId) -> Result<Option<AccountImportance>> {
    last_recalculation(state)?.map_or(Ok(None), |last| importance_in(state, last.height, id))
}

/// Returns the same for the list of an earlier recalculation, if it is still stored.
pub fn importance_in(state: &impl Read, list: Height, id: AccountId) -> Result<Option<AccountImportance>> {
    let chunk = state.first_from(Table::Importances, &block_key(list), &chunk_key(list, id))?;
    let Some((_, bytes)) = chunk else { return Ok(None) };
    let (entries, _) = bytes.as_chunks::<ENTRY_BYTES>();
    let found = entries.binary_search_by(|entry| entry[..4].cmp(&id.key()));
    let Ok(index) = found else { return Ok(None) };
    AccountImportance::from_stored(&entries[index], "an importance").map(Some)
}

/// Returns the entries of the chunk of a list that contains, or would contain, the first account after `after`.
pub fn chunk_after(state: &impl Read, list: Height, after: Option<AccountId>) -> Result<Vec<AccountImportance>> {
    let mut key = block_key(list).to_vec();
    key.extend(after.into_iter().flat_map(AccountId::key));
    // The extra byte puts the key after that of the account itself, or after the header of the list.
    key.push(0);
    let chunk = state.first_from(Table::Importances, &block_key(list), &key)?;
    let Some((key, bytes)) = chunk else { return Ok(Vec::new()) };
    let entries = AccountImportance::all_from_stored(bytes, "importances")?;
    // A caller that continues after the last entry must not get the same chunk again.
    match entries.last() {
        Some(last) if key[block_key(list).len()..] != last.account.key() => {
            Err(StoreError::Damaged("a list of importances"))
        }
        _ => Ok(entries),
    }
}

/// Calls `visit` with the entries of the last recalculation in the order of account ids.
pub fn for_each_importance(state: &impl Read, mut visit: impl FnMut(AccountImportance) -> Result<()>) -> Result<()> {
    let Some(last) = last_recalculation(state)? else { return Ok(()) };
    let mut entries = chunk_after(state, last.height, None)?;
    while let Some(end) = entries.last().map(|entry| entry.account) {
        entries.into_iter().try_for_each(&mut visit)?;
        entries = chunk_after(state, last.height, Some(end))?;
    }
    Ok(())
}

/// Writes the list of a recalculation chunk by chunk. Entries must come in the order of account ids.
pub struct ImportanceListWriter {
    height: Height,
    chunk: Vec<AccountImportance>,
}

impl ImportanceListWriter {
    /// Starts a list. Rows that an interrupted recalculation left at its height are overwritten or deleted.
    pub fn begin(recalculation: RecalculationRecord, txn: &mut WriteTxn<'_>) -> Result<ImportanceListWriter> {
        let RecalculationRecord { height, accounts_counted, eligible } = recalculation;
        txn.put_unjournaled(Table::Importances, &block_key(height), &(accounts_counted, eligible).to_stored())?;
        Ok(ImportanceListWriter { height, chunk: Vec::with_capacity(CHUNK) })
    }

    /// Appends an entry.
    pub fn push(&mut self, entry: AccountImportance, txn: &mut WriteTxn<'_>) -> Result<()> {
        self.chunk.push(entry);
        if self.chunk.len() == CHUNK { self.flush(txn) } else { Ok(()) }
    }

    /// Writes the last chunk.
    pub fn finish(mut self, txn: &mut WriteTxn<'_>) -> Result<()> {
        self.flush(txn)
    }

    fn flush(&mut self, txn: &mut WriteTxn<'_>) -> Result<()> {
        let Some(last) = self.chunk.last() else { return Ok(()) };
        txn.put_unjournaled(Table::Importances, &chunk_key(self.height, last.account), &all_to_stored(&self.chunk))?;
        self.chunk.clear();
        Ok(())
    }
}

/// Deletes the lists above a height, as their blocks are undone.
pub fn delete_lists_above(txn: &mut WriteTxn<'_>, height: Height) -> Result<()> {
    let lowest = block_key(height.next());
    loop {
        let last = txn.cursor(Table::Importances)?.last()?.map(|(key, _)| key.to_vec());
        match last.filter(|key| key.as_slice() >= lowest.as_slice()) {
            Some(key) => txn.delete_unjournaled(Table::Importances, &key)?,
            None => return Ok(()),
        }
    }
}

/// Returns the height below which lists can be deleted when those below `lowest` are no longer needed. Covers at most
/// two lists, so that a long history is deleted in small parts.
pub fn deletable_below(state: &impl Read, lowest: Height) -> Result<Height> {
    let mut from = Height(0);
    for _ in 0..2 {
        let Some((key, _)) = state.first_from(Table::Importances, &[], &block_key(from))? else { return Ok(lowest) };
        from = list_of(key)?.next();
    }
    Ok(from.min(lowest))
}

/// Deletes at most one chunk of the lists below a height; returns whether more may exist.
pub fn delete_lists_below(txn: &mut WriteTxn<'_>, height: Height) -> Result<bool> {
    let Some(key) = txn.first_key_below(Table::Importances, &block_key(height))? else { return Ok(false) };
    txn.delete_unjournaled(Table::Importances, &key)?;
    Ok(true)
}

/// A currency transfer, as the importance calculation uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlink {
    /// The sender.
    pub sender: AccountId,
    /// The recipient.
    pub recipient: AccountId,
    /// Amount in micro-units, reduced by the unvested share of the sender's remaining balance.
    pub weight: u64,
    /// Java hash of the recipient's address, so that a recalculation need not read the addresses of all recipients.
    pub recipient_hash: u32,
}

stored!(Outlink { sender, recipient, weight, recipient_hash });

impl Outlink {
    /// Returns the weight of a transfer of `amount` micro-units by a sender with the balance `left` after it.
    pub fn weigh(amount: u64, left: &VestedBalance) -> u64 {
        match left.unvested {
            0 => amount,
            _ => (u128::from(amount) * u128::from(left.vested) / u128::from(left.total())) as u64,
        }
    }

    /// Reads the outlinks of one block.
    pub fn read_all(row: &[u8]) -> Result<Vec<Outlink>> {
        Outlink::all_from_stored(row, "outlinks")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::test_store;

    #[test]
    fn importance_lists_of_a_long_history_are_deleted_two_at_a_time() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        assert_eq!(deletable_below(&batch, Height(9)).unwrap(), Height(9));
        for height in [1, 359, 718, 1077].map(Height) {
            let recalculation = RecalculationRecord { height, accounts_counted: 2, eligible: 2 };
            ImportanceListWriter::begin(recalculation, &mut batch).unwrap().finish(&mut batch).unwrap();
        }
        for (lowest, expected) in [(1, 1), (359, 359), (718, 360), (1077, 360), (2000, 360)] {
            assert_eq!(deletable_below(&batch, Height(lowest)).unwrap(), Height(expected), "{lowest}");
        }
        while delete_lists_below(&mut batch, Height(360)).unwrap() {}
        let lists = batch.keys_with_prefix(Table::Importances, &[]).unwrap();
        assert_eq!(lists, [718, 1077].map(|height| block_key(Height(height)).to_vec()));
    }

    #[test]
    fn a_list_with_a_wrong_last_account_is_corruption_and_ends_the_iteration() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let entry = |number| AccountImportance {
            account: AccountId(number),
            height: Height(1),
            importance: 0.5,
            page_rank: 0.5,
        };
        let recalculation = RecalculationRecord { height: Height(7), accounts_counted: 2, eligible: 2 };
        let mut list = ImportanceListWriter::begin(recalculation, &mut batch).unwrap();
        list.push(entry(1), &mut batch).unwrap();
        list.push(entry(3), &mut batch).unwrap();
        list.finish(&mut batch).unwrap();
        let mut found = Vec::new();
        let visited = for_each_importance(&batch, |entry| {
            found.push(entry);
            Ok(())
        });
        assert!(visited.is_ok() && found == [entry(1), entry(3)]);
        let key = chunk_key(Height(7), entry(3).account);
        batch.put_unjournaled(Table::Importances, &key, &entry(2).to_stored()).unwrap();
        assert!(matches!(for_each_importance(&batch, |_| Ok(())), Err(StoreError::Damaged(_))));
    }

    #[test]
    fn a_list_is_written_in_full_chunks() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let recalculation = RecalculationRecord { height: Height(7), accounts_counted: 0, eligible: 0 };
        let mut writer = ImportanceListWriter::begin(recalculation, &mut batch).unwrap();
        for account in (0..=CHUNK as u32).map(AccountId) {
            let entry = AccountImportance { account, height: Height(7), importance: 0.5, page_rank: 0.5 };
            writer.push(entry, &mut batch).unwrap();
        }
        writer.finish(&mut batch).unwrap();
        // The header of the list comes first.
        let last = [CHUNK as u32 - 1, CHUNK as u32].map(|last| chunk_key(Height(7), AccountId(last)).to_vec());
        assert_eq!(batch.keys_with_prefix(Table::Importances, &[]).unwrap()[1..], last);
    }

    #[test]
    fn outlinks_are_read_as_they_were_stored() {
        let outlink = |number| Outlink {
            sender: AccountId(number),
            recipient: AccountId(u32::MAX - number),
            weight: u64::MAX / 3 - u64::from(number),
            recipient_hash: number << 20,
        };
        let row: Vec<u8> = (0..3).flat_map(|number| outlink(number).to_stored()).collect();
        let read = Outlink::read_all(&row).unwrap();
        assert_eq!(read, [0, 1, 2].map(outlink));
        assert!(Outlink::read_all(&row[1..]).is_err());
    }
}
