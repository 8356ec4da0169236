//! Verifies a whole store: rebuilds the state from its blocks by all rules in a scratch store and compares the result.
//! The scratch store holds only what block processing needs: the last blocks, and no write-only rows. The stored form
//! of hashes depends on when they were compacted, so hashes are checked against the blocks instead.

use thiserror::Error;

use crate::model::Height;
use crate::state::{self, HashVerifier, history_height};
use crate::store::{
    Entry, Read, Result, Store, StoreError, StoredHeader, Table, WriteTxn, block_key, journals_equal_except,
    stored_header,
};

/// Tables whose rows are written once and read by no rule. New rows are compared and deleted after each commit.
const INDEXES: [Table; 3] = [Table::AccountTxLists, Table::SkipPointers, Table::Harvests];

/// A difference between a store and the result of its blocks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreDifference {
    /// A header field of the block at this height.
    #[error("the {1} of the block at height {0} differs from the one computed from the blocks")]
    Block(Height, &'static str),
    /// An entry of the state at the tip.
    #[error(
        "the state at the tip differs from that of the blocks: the first difference is in table {} at {}",
        .0.name(), .1.escape_ascii()
    )]
    State(Table, Vec<u8>),
    /// Surplus rows, which no block produces; the number of them.
    #[error(
        "the state at the tip differs from that of the blocks: table {} has {} entries without a block",
        .0.name(), .1
    )]
    Rows(Table, u64),
    /// The undo journal with this key: a height, unless the table is damaged.
    #[error("{}", undo_difference(.0))]
    Undo(Vec<u8>),
}

fn undo_difference(key: &[u8]) -> String {
    match key.try_into().map(u64::from_be_bytes) {
        Ok(height) => {
            format!("the undo journal of the block at height {height} (table undo) differs from its changes")
        }
        Err(_) => format!("the table undo is damaged at {}", key.escape_ascii()),
    }
}

/// Why a comparison ends early.
#[derive(Debug, Error)]
pub enum ComparisonError {
    /// There is a difference.
    #[error(transparent)]
    Difference(#[from] StoreDifference),
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Result of a comparison, which ends with the first difference.
type Compared = Result<(), ComparisonError>;

/// Compares a store with the result of its blocks while they are imported into a scratch store.
pub struct StoreVerifier<'a, R> {
    ours: &'a R,
    scratch: &'a Store,
    /// Number of rows of [`INDEXES`] produced so far.
    index_rows: [u64; INDEXES.len()],
    hashes: HashVerifier,
    journals_from: Height,
    history: Option<HistoryVerifier>,
}

/// Account history, compared from the first height at which it is known.
struct HistoryVerifier {
    from: Height,
    /// Number of balance history rows produced so far from the height `from` on.
    balance_rows: u64,
}

impl<'a, R: Read> StoreVerifier<'a, R> {
    /// Creates a comparison with an empty scratch store. It compares undo journals from `journals_from` on, and
    /// account history from `history_from` on.
    pub fn new(
        ours: &'a R,
        scratch: &'a Store,
        journals_from: Height,
        history_from: Option<Height>,
    ) -> Result<StoreVerifier<'a, R>> {
        let mut batch = scratch.begin_write()?;
        state::copy_epoch_size(ours, &mut batch)?;
        batch.take_journal();
        batch.commit()?;
        let history = history_from.map(|from| HistoryVerifier { from, balance_rows: 0 });
        let (rows, hashes) = ([0; INDEXES.len()], HashVerifier::default());
        Ok(StoreVerifier { ours, scratch, index_rows: rows, hashes, journals_from, history })
    }

    /// Compares the header of an imported block, and the lookup of its transactions by hash.
    pub fn verify_block(&mut self, computed: &StoredHeader) -> Compared {
        let ours = stored_header(self.ours, computed.height)?.ok_or(StoreError::Damaged("a block is missing"))?;
        if let Some(member) = first_difference(&ours, computed) {
            return Err(StoreDifference::Block(computed.height, member).into());
        }
        let missing = self.hashes.verify_block(self.ours, computed.height)?;
        missing.map_or(Ok(()), |(table, key)| Err(StoreDifference::State(table, key).into()))
    }

    /// Compares and deletes the index rows committed since the last call.
    pub fn verify_indexes(&mut self) -> Compared {
        let mut batch = self.scratch.begin_write()?;
        for (table, rows) in INDEXES.into_iter().zip(&mut self.index_rows) {
            for entry in batch.entries(table, &[])? {
                *rows += 1;
                require_entry(self.ours, table, entry?)?;
            }
            batch.clear(table)?;
        }
        if let Some(history) = &mut self.history {
            history.compare(self.ours, &mut batch)?;
        }
        Ok(batch.commit()?)
    }

    /// Compares the state and the undo journals after all blocks were imported.
    pub fn verify_state(&self) -> Compared {
        let (ours, computed) = (self.ours, self.scratch.snapshot()?);
        let require_same = |table, from: &[u8]| -> Compared {
            let key = different_key(ours, &computed, table, from, |a, b| a == b)?;
            key.map_or(Ok(()), |key| Err(StoreDifference::State(table, key).into()))
        };
        if let Some((table, more)) = self.hashes.surplus(ours)? {
            return Err(StoreDifference::Rows(table, more).into());
        }
        for table in Table::state().filter(|table| !matches!(table, Table::Hashes | Table::HashRuns)) {
            match INDEXES.iter().position(|index| *index == table) {
                Some(index) => require_no_surplus(table, count(ours, table)?, self.index_rows[index])?,
                None => require_same(table, &[])?,
            }
        }
        if let Some(history) = &self.history {
            history.compare_count(ours)?;
        }
        // After a rollback a store has fewer old importance lists and undo journals, but those it has are the newest. A
        // store that keeps a history has more importance lists.
        let first = first_key(ours, Table::Importances)?.max(first_key(&computed, Table::Importances)?);
        require_same(Table::Importances, &first)?;
        if state::last_recalculation(ours)? != state::last_recalculation(&computed)? {
            return Err(StoreDifference::State(Table::Importances, first).into());
        }
        let first = first_key(ours, Table::Undo)?;
        if first.is_empty() {
            return Ok(());
        }
        let first = first.max(block_key(self.journals_from).to_vec());
        // Whether a block recorded history decides what its undo journal restores there, and only the last blocks tell.
        let history_from = self.history.as_ref().map(|history| block_key(history.from));
        let keeps = |key: &[u8]| history_from.as_ref().is_some_and(|from| key > from.as_slice());
        let is_same = |a: Entry<'_>, b: Entry<'_>| {
            a == b || a.0 == b.0 && !keeps(a.0) && journals_equal_except(a.1, b.1, Table::BalanceHistory)
        };
        let different = different_key(ours, &computed, Table::Undo, &first, is_same)?;
        different.map_or(Ok(()), |key| Err(StoreDifference::Undo(key).into()))
    }
}

impl HistoryVerifier {
    /// Compares and deletes what was committed since the last call: balances, and all importance lists but the last.
    fn compare(&mut self, ours: &impl Read, txn: &mut WriteTxn<'_>) -> Compared {
        for entry in txn.entries(Table::BalanceHistory, &[])? {
            let entry = entry?;
            let Some(height) = history_height(entry.0) else { continue };
            self.balance_rows += u64::from(height >= self.from);
            require_entry(ours, Table::BalanceHistory, entry)?;
        }
        let last = state::last_recalculation(txn)?.map_or(Height(0), |last| last.height);
        for row in txn.entries_from(Table::Importances, &[], &block_key(self.from.importance_height()))? {
            let entry = row?;
            if entry.0 >= block_key(last).as_slice() {
                break;
            }
            require_entry(ours, Table::Importances, entry)?;
        }
        state::clear_history(txn)?;
        while state::delete_lists_below(txn, last)? {}
        Ok(())
    }

    /// Fails if the store has more history rows than the blocks produce.
    fn compare_count(&self, ours: &impl Read) -> Compared {
        let mut rows = 0_u64;
        for entry in ours.entries(Table::BalanceHistory, &[])? {
            rows += u64::from(history_height(entry?.0).is_some_and(|height| height >= self.from));
        }
        require_no_surplus(Table::BalanceHistory, rows, self.balance_rows)
    }
}

fn first_difference(a: &StoredHeader, b: &StoredHeader) -> Option<&'static str> {
    let members = [
        ("hash", a.hash == b.hash),
        ("generation hash", a.generation_hash == b.generation_hash),
        ("time stamp", a.timestamp == b.timestamp),
        ("difficulty", a.difficulty == b.difficulty),
        ("chain score", a.score == b.score),
        ("total fee", a.total_fee == b.total_fee),
        ("beneficiary", a.beneficiary == b.beneficiary),
        ("transaction ids", a.ids == b.ids),
        ("previous harvests", a.previous_harvests == b.previous_harvests),
    ];
    members.into_iter().find(|(_, same)| !same).map(|(member, _)| member)
}

/// Returns the first key of a table, or an empty key if the table is empty.
fn first_key(state: &impl Read, table: Table) -> Result<Vec<u8>> {
    Ok(state.first_from(table, &[], &[])?.map(|(key, _)| key.to_vec()).unwrap_or_default())
}

fn count(state: &impl Read, table: Table) -> Result<u64> {
    state.entries(table, &[])?.try_fold(0, |count, entry| entry.map(|_| count + 1))
}

/// Fails if a table does not have an entry that the blocks produce.
fn require_entry(ours: &impl Read, table: Table, (key, value): Entry<'_>) -> Compared {
    let is_there = ours.get(table, key)? == Some(value);
    if is_there { Ok(()) } else { Err(StoreDifference::State(table, key.to_vec()).into()) }
}

/// Fails if a table has more rows than the blocks produce.
fn require_no_surplus(table: Table, rows: u64, produced: u64) -> Compared {
    let more = rows.saturating_sub(produced);
    if more == 0 { Ok(()) } else { Err(StoreDifference::Rows(table, more).into()) }
}

/// Returns whether an entry depends on settings that a node is free to choose.
fn is_node_specific(table: Table, entry: Option<Entry<'_>>) -> bool {
    table == Table::Totals && entry.is_some_and(|(key, _)| key == state::HASH_TOTALS_KEY)
}

/// Returns the first key, from `from` on, at which two stores have different entries in a table. Entries that depend on
/// settings are skipped.
fn different_key(
    ours: &impl Read,
    computed: &impl Read,
    table: Table,
    from: &[u8],
    is_same: impl Fn(Entry<'_>, Entry<'_>) -> bool,
) -> Result<Option<Vec<u8>>> {
    let (mut a, mut b) = (ours.cursor(table)?, computed.cursor(table)?);
    let mut entries = (a.seek(from)?, b.seek(from)?);
    while entries.0.is_some() || entries.1.is_some() {
        if is_node_specific(table, entries.0) {
            entries.0 = a.next()?;
        } else if is_node_specific(table, entries.1) {
            entries.1 = b.next()?;
        } else if !entries.0.zip(entries.1).is_some_and(|(a, b)| is_same(a, b)) {
            // The lower of two different keys is missing in the other store.
            let keys = entries.0.into_iter().chain(entries.1).map(|(key, _)| key);
            return Ok(keys.min().map(<[u8]>::to_vec));
        } else {
            entries = (a.next()?, b.next()?);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{AccountId, AccountImportance, ImportanceListWriter, RecalculationRecord};
    use crate::store::{Write, test_store};

    /// The history of the tests is known from here on.
    const FROM: Height = Height(400);

    fn balance_key(height: u32) -> Vec<u8> {
        [7u32.to_be_bytes(), height.to_be_bytes()].concat()
    }

    /// Writes a list of importances with one account.
    fn put_list(txn: &mut WriteTxn<'_>, height: u64, importance: f64) {
        let height = Height(height);
        let record = RecalculationRecord { height, accounts_counted: 1, eligible: 1 };
        let mut list = ImportanceListWriter::begin(record, txn).unwrap();
        list.push(AccountImportance { account: AccountId(7), height, importance, page_rank: 0.5 }, txn).unwrap();
        list.finish(txn).unwrap();
    }

    /// Writes lists of importances and old balances on both sides of the first known height, and the known heights.
    fn fill(txn: &mut WriteTxn<'_>) {
        [1, 359, 718, 1077].into_iter().for_each(|height| put_list(txn, height, 0.5));
        txn.put(Table::BalanceHistory, &[0], b"known heights").unwrap();
        [398, 399, 400]
            .into_iter()
            .for_each(|height| txn.put(Table::BalanceHistory, &balance_key(height), b"old").unwrap());
    }

    /// Returns the difference with which a comparison has ended.
    fn found(compared: Compared) -> Option<StoreDifference> {
        match compared {
            Ok(()) => None,
            Err(ComparisonError::Difference(difference)) => Some(difference),
            Err(ComparisonError::Store(error)) => panic!("{error}"),
        }
    }

    /// Compares a store that `change` has changed with one that was not changed.
    fn difference(change: impl FnOnce(&mut WriteTxn<'_>)) -> Option<StoreDifference> {
        let (ours, computed) = (test_store(), test_store());
        let (mut ours, mut computed) = (ours.0.begin_write().unwrap(), computed.0.begin_write().unwrap());
        [&mut ours, &mut computed].into_iter().for_each(fill);
        change(&mut ours);
        found(HistoryVerifier { from: FROM, balance_rows: 0 }.compare(&ours, &mut computed))
    }

    /// Returns the height of the list of importances that differs once `change` has changed a store.
    fn different_list(change: impl FnOnce(&mut WriteTxn<'_>)) -> Option<u64> {
        difference(change).map(|difference| match difference {
            StoreDifference::State(Table::Importances, key) => u64::from_be_bytes(*key.first_chunk().unwrap()),
            other => panic!("{other}"),
        })
    }

    fn delete_list(txn: &mut WriteTxn<'_>, height: u64) {
        for key in txn.keys_with_prefix(Table::Importances, &height.to_be_bytes()).unwrap() {
            txn.delete_unjournaled(Table::Importances, &key).unwrap();
        }
    }

    #[test]
    fn importances_are_compared_from_the_first_known_list_up_to_the_last_but_one() {
        assert_eq!(different_list(|_| {}), None);
        for (height, expected) in [(1, None), (359, Some(359)), (718, Some(718)), (1077, None)] {
            assert_eq!(different_list(|ours| put_list(ours, height, 0.25)), expected, "another list at {height}");
            assert_eq!(different_list(|ours| delete_list(ours, height)), expected, "no list at {height}");
        }
    }

    #[test]
    fn an_old_balance_that_is_missing_or_another_one_is_a_difference() {
        let expected = Some(StoreDifference::State(Table::BalanceHistory, balance_key(400)));
        let table = Table::BalanceHistory;
        assert_eq!(difference(|ours| ours.put(table, &balance_key(400), b"other").unwrap()), expected);
        assert_eq!(difference(|ours| ours.delete(table, &balance_key(400)).unwrap()), expected);
        // The first difference is reported.
        let both = |ours: &mut WriteTxn<'_>| {
            ours.delete(table, &balance_key(400)).unwrap();
            delete_list(ours, 359);
        };
        assert_eq!(difference(both), expected);
    }

    #[test]
    fn an_old_balance_that_no_block_produces_is_counted_however_often_rows_are_compared() {
        let (ours, computed) = (test_store(), test_store());
        let (mut ours, mut computed) = (ours.0.begin_write().unwrap(), computed.0.begin_write().unwrap());
        [&mut ours, &mut computed].into_iter().for_each(fill);
        let mut history = HistoryVerifier { from: FROM, balance_rows: 0 };
        for _ in 0..3 {
            history.compare(&ours, &mut computed).unwrap();
        }
        history.compare_count(&ours).unwrap();
        assert_eq!(state::last_recalculation(&computed).unwrap().map(|last| last.height), Some(Height(1077)));
        // Below the first known height nothing is counted.
        ours.put(Table::BalanceHistory, &balance_key(397), b"old").unwrap();
        history.compare_count(&ours).unwrap();
        ours.put(Table::BalanceHistory, &balance_key(401), b"old").unwrap();
        let surplus = StoreDifference::Rows(Table::BalanceHistory, 1);
        assert_eq!(found(history.compare_count(&ours)), Some(surplus));
    }

    /// Compares a store without blocks that `change` has changed with an unchanged one.
    fn state_difference(change: impl FnOnce(&mut WriteTxn<'_>)) -> Option<StoreDifference> {
        let (ours, scratch) = (test_store(), test_store());
        let mut ours = ours.0.begin_write().unwrap();
        change(&mut ours);
        found(StoreVerifier::new(&ours, &scratch.0, Height(0), None).unwrap().verify_state())
    }

    #[test]
    fn rows_without_a_block_are_differences_but_the_totals_of_the_hashes_may_differ() {
        assert_eq!(state_difference(|_| {}), None);
        // The usual epoch size, which is not copied to the scratch store.
        assert_eq!(state_difference(|ours| state::set_epoch_size(ours, 13).unwrap()), None);
        let key = b"key".as_slice();
        let put = |table| state_difference(|ours| ours.put(table, key, b"value").unwrap());
        assert_eq!(put(Table::Totals), Some(StoreDifference::State(Table::Totals, key.to_vec())));
        for table in INDEXES {
            assert_eq!(put(table), Some(StoreDifference::Rows(table, 1)));
        }
    }
}
