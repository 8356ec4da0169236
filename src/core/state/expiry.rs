//! What happens with the passing of time: leases end, old state is pruned, and a log of mosaics that expired or were
//! restored.
//!
//! A row of the log identifies the mosaics and the lease state of their ownership period. Balances are not copied: later
//! changes are written under a later lease state or another definition, so the old balances remain readable.
//!
//! Of what NIS1 prunes, this node prunes outlinks, leases and transaction hashes, but not the optional balance history.

use std::vec;

use super::StateResult;
use super::account::AccountId;
use super::bytes::{Stored, stored};
use super::hashes;
use super::ledger::Ledger;
use super::mosaics::{self, DefinitionVersion};
use super::namespaces::{self, Lease, LeaseState, OwnershipPeriod};
use super::registry::{self, ListingUpdate};
use crate::codec::ByteReader;
use crate::model::network::ChainParameters;
use crate::model::{Height, MosaicId, Timestamp, wire_enum};
use crate::store::{Read, Result, Table, Write, block_key};

/// The leases that end with a block, processed in steps of a few rows each. The number of steps of a lease depends on
/// the definitions ever made in it, not on the number of holders.
pub struct Expiry {
    roots: vec::IntoIter<(String, Lease)>,
    listing_update: Option<ListingUpdate>,
}

impl Expiry {
    /// Runs one step; returns whether work remains.
    pub fn step(&mut self, ledger: &mut Ledger<'_, impl Write>) -> StateResult<bool> {
        if let Some(update) = &mut self.listing_update {
            if !update.step(ledger.txn, ledger.network.byte)? {
                self.listing_update = None;
            }
            return Ok(true);
        }
        let Some((root, lease)) = self.roots.next() else { return Ok(false) };
        ledger.end_lease(&lease)?;
        self.listing_update = Some(registry::expire(ledger.txn, &root, lease)?);
        Ok(true)
    }
}

/// Blocks between two prunings, whatever the block time.
const INTERVAL: u64 = 360;
/// Days for which a lease is kept after its start: a year, a month and a day.
const LEASE_DAYS: u64 = 365 + 30 + 1;
const SECONDS_PER_HOUR: i64 = 3600;
/// Rows removed in one step.
const ROWS_PER_STEP: usize = 48;

/// The pruning of one block, in steps of a few rows each: what is still to be pruned. The work corresponds to the blocks of
/// the last interval.
#[derive(Debug)]
pub struct Pruning {
    height: Height,
    outlinks_below: Option<Height>,
    leases_below: Option<Height>,
    /// Time stamp of transactions; `None` also if all hashes are kept.
    hashes_below: Option<Timestamp>,
    /// Whether the height below which no hash is remembered is to be advanced.
    advances_hashes: bool,
}

impl Pruning {
    /// Returns the pruning that is due with a block: only at heights one above a multiple of 360.
    pub fn due(height: Height, timestamp: Timestamp, chain: &ChainParameters) -> Option<Pruning> {
        if height.0 % INTERVAL != 1 {
            return None;
        }
        let day = chain.blocks_per_day();
        let retention_start = |hours| (i64::from(timestamp.0) - i64::from(hours) * SECONDS_PER_HOUR).max(0) as i32;
        Some(Pruning {
            height,
            outlinks_below: Some(height.minus(chain.blocks_per_month() + day)),
            leases_below: Some(height.minus(LEASE_DAYS * day)),
            hashes_below: chain.hash_retention_hours.map(|hours: u32| Timestamp(retention_start(hours))),
            advances_hashes: false,
        })
    }

    /// Runs one step; returns whether work remains.
    pub fn step(&mut self, txn: &mut impl Write) -> StateResult<bool> {
        if let Some(height) = self.outlinks_below {
            let is_done = remove_below(txn, Table::Outlinks, &block_key(height))?;
            self.outlinks_below = Some(height).filter(|_| !is_done);
        } else if let Some(height) = self.leases_below {
            let has_more = namespaces::prune_oldest(txn, height)?;
            self.leases_below = Some(height).filter(|_| has_more);
        } else if let Some(limit) = self.hashes_below.take() {
            hashes::forget(txn, self.height, limit)?;
            self.advances_hashes = true;
        } else {
            return Ok(self.advances_hashes && hashes::forget_step(txn)?);
        }
        Ok(true)
    }
}

/// Removes the first rows below the key `limit`; returns whether none remain.
fn remove_below(txn: &mut impl Write, table: Table, limit: &[u8]) -> Result<bool> {
    // One walk, as it passes the rows that were removed before and are not written yet.
    let mut keys = Vec::with_capacity(ROWS_PER_STEP);
    for entry in txn.entries(table, &[])?.take(ROWS_PER_STEP) {
        let (key, _) = entry?;
        if key >= limit {
            break;
        }
        keys.push(key.to_vec());
    }
    keys.iter().try_for_each(|key| txn.delete(table, key))?;
    Ok(keys.len() < ROWS_PER_STEP)
}

wire_enum! {
    /// Reason for a log entry, with the code used by NIS1's API.
    ExpiryKind {
        /// The namespace expired, or the mosaic was redefined before the fork.
        Expired = 1,
        /// The namespace was rented again.
        Restored = 2,
    }
}

/// The mosaics of a log entry.
pub(super) enum LoggedMosaics {
    /// All mosaics of an ownership period.
    OwnershipPeriod(OwnershipPeriod),
    /// One mosaic, as it was before a redefinition.
    Mosaic(DefinitionVersion, MosaicId),
}

impl Stored for LoggedMosaics {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            LoggedMosaics::OwnershipPeriod(period) => period.write(out),
            LoggedMosaics::Mosaic(version, id) => {
                version.write(out);
                id.write(out);
            }
        }
    }

    fn read(input: &mut ByteReader<'_>) -> Option<LoggedMosaics> {
        Some(if input.0.len() == size_of::<OwnershipPeriod>() {
            LoggedMosaics::OwnershipPeriod(OwnershipPeriod::read(input)?)
        } else {
            LoggedMosaics::Mosaic(DefinitionVersion::read(input)?, MosaicId::read(input)?)
        })
    }
}

struct LogEntry {
    kind: ExpiryKind,
    /// Lease state up to which balances count.
    lease_state: LeaseState,
    content: LoggedMosaics,
}

stored!(LogEntry { kind, lease_state, content });

fn log_key(height: Height, entry: u32) -> Vec<u8> {
    [block_key(height).as_slice(), &entry.to_be_bytes()].concat()
}

impl<W: Write> Ledger<'_, W> {
    /// Returns the leases that end with the block.
    pub fn expiry(&self) -> Result<Expiry> {
        let roots = namespaces::ending_at(self.txn, self.block.height, self.network.chain.blocks_per_year())?;
        Ok(Expiry { roots: roots.into_iter(), listing_update: None })
    }

    /// Appends mosaics to the log, with their balances up to a lease state.
    pub(super) fn log(&mut self, kind: ExpiryKind, lease_state: LeaseState, content: LoggedMosaics) -> Result<()> {
        let key = log_key(self.block.height, self.block.log_entries);
        self.block.log_entries += 1;
        self.txn.insert(Table::ExpiredMosaics, &key, &LogEntry { kind, lease_state, content }.to_stored())
    }
}

/// A mosaic that expired or was restored, with access to its balances at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredMosaic {
    /// Reason for the entry.
    pub kind: ExpiryKind,
    /// The mosaic.
    pub id: MosaicId,
    pub(super) version: DefinitionVersion,
    pub(super) lease_state: LeaseState,
}

impl ExpiredMosaic {
    /// Calls `visit` with the balances at that time in the order of account ids, starting after `after`, until it
    /// returns `false`. Accounts that had a balance only at another time are visited with 0.
    pub fn for_each_balance(
        &self,
        state: &impl Read,
        after: Option<AccountId>,
        visit: impl FnMut(AccountId, u64) -> Result<bool>,
    ) -> Result<()> {
        mosaics::for_each_balance(state, self.version, self.lease_state, after, visit)
    }
}

/// A resumable cursor over the mosaics that expired or were restored at a height, in that order. It reads one row at a
/// time and holds no reference to the store, so it stays valid between snapshots.
#[derive(Clone, Debug)]
pub struct ExpiredCursor {
    height: Height,
    /// Number of the current log entry.
    entry: u32,
    /// The last mosaic visited of the current ownership period.
    after: Option<MosaicId>,
}

/// Result of one step of an [`ExpiredCursor`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpiredRow {
    /// A mosaic.
    Mosaic(ExpiredMosaic),
    /// No mosaic in this row: it did not exist at that height, or the entry has no more mosaics.
    Absent,
    /// No more rows.
    End,
}

impl ExpiredCursor {
    /// Starts at the first entry of a height.
    pub fn new(height: Height) -> ExpiredCursor {
        ExpiredCursor { height, entry: 0, after: None }
    }

    /// Reads the next row.
    pub fn step(&mut self, state: &impl Read) -> Result<ExpiredRow> {
        let key = log_key(self.height, self.entry);
        let entry = LogEntry::get(state, Table::ExpiredMosaics, &key, "the log of expired mosaics")?;
        let Some(LogEntry { kind, lease_state, content }) = entry else { return Ok(ExpiredRow::End) };
        let (id, version) = match content {
            LoggedMosaics::Mosaic(version, id) => {
                self.entry += 1;
                (id, Some(version))
            }
            LoggedMosaics::OwnershipPeriod(ownership_period) => {
                let Some((id, number)) = mosaics::mosaic_after(state, ownership_period, self.after.as_ref())? else {
                    (self.entry, self.after) = (self.entry + 1, None);
                    return Ok(ExpiredRow::Absent);
                };
                self.after = Some(id.clone());
                // A restoration precedes any definition of the same block in the namespace.
                let last = Height(self.height.0.saturating_sub(u64::from(kind == ExpiryKind::Restored)));
                (id, mosaics::version_at(state, number, last)?)
            }
        };
        let mosaic = |version| ExpiredRow::Mosaic(ExpiredMosaic { kind, id, version, lease_state });
        Ok(version.map_or(ExpiredRow::Absent, mosaic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::network::test_network;
    use crate::model::{Address, NetworkByte};
    use crate::state::BlockContext;
    use crate::state::mosaics::MosaicNumber;
    use crate::store::test_store;

    const CHAIN: fn() -> ChainParameters = ChainParameters::after_all_forks;

    #[test]
    fn old_rows_are_pruned_in_small_steps_and_the_rest_stays() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let (height, timestamp) = (Height(360 * 200 + 1), Timestamp(10_000_000));
        let mut pruning = Pruning::due(height, timestamp, &CHAIN()).unwrap();
        let limit = pruning.outlinks_below.unwrap().0;
        for number in 0..1_000u64 {
            batch.put(Table::Outlinks, &(limit - 900 + number).to_be_bytes(), &[]).unwrap();
        }
        let mut more = true;
        while more {
            batch.take_journal();
            more = pruning.step(&mut batch).unwrap();
            // A change takes less than 100 bytes here.
            let bytes = batch.take_journal().len();
            assert!(bytes <= 2 * ROWS_PER_STEP * 100, "{bytes} bytes of journal in one step");
        }
        let rows = batch.keys_with_prefix(Table::Outlinks, &[]).unwrap();
        assert_eq!(rows.len(), 100);
        assert_eq!(rows[0], limit.to_be_bytes());
    }

    #[test]
    fn a_step_removes_a_limited_number_of_rows() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        (0..100u64).for_each(|number| batch.put(Table::Outlinks, &number.to_be_bytes(), &[]).unwrap());
        let mut step = |limit: u64| {
            let is_done = remove_below(&mut batch, Table::Outlinks, &limit.to_be_bytes()).unwrap();
            (is_done, batch.keys_with_prefix(Table::Outlinks, &[]).unwrap().len())
        };
        assert_eq!(step(90), (false, 100 - ROWS_PER_STEP));
        assert_eq!(step(90), (true, 10));
        assert_eq!(step(90), (true, 10));
    }

    #[test]
    fn pruning_is_due_only_one_above_multiples_of_360() {
        let due: Vec<u64> =
            (1..1500).filter(|height| Pruning::due(Height(*height), Timestamp(0), &CHAIN()).is_some()).collect();
        assert_eq!(due, [1, 361, 721, 1081, 1441]);
    }

    #[test]
    fn the_log_entries_of_a_block_are_read_in_their_order() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let network = test_network(NetworkByte::TESTNET, Address::from_stored([b'T'; 40]));
        let mut block = BlockContext::new(Height(7));
        let mut ledger = Ledger { txn: &mut batch, block: &mut block, network: &network };
        let version = DefinitionVersion { mosaic: MosaicNumber(0), number: 0, balances_since: 0 };
        for name in ["a:b", "a:a"] {
            let content = LoggedMosaics::Mosaic(version, MosaicId::parse(name).unwrap());
            ledger.log(ExpiryKind::Expired, LeaseState(2), content).unwrap();
        }
        let mut cursor = ExpiredCursor::new(Height(7));
        let mut next = || match cursor.step(&batch).unwrap() {
            ExpiredRow::Mosaic(expired) => Some(expired.id.to_string()),
            ExpiredRow::Absent | ExpiredRow::End => None,
        };
        assert_eq!([next(), next(), next()], [Some("a:b".to_owned()), Some("a:a".to_owned()), None]);
    }
}
