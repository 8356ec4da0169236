//! Pruning of old state.
//!
//! Of what NIS1 prunes, this node prunes outlinks, leases and transaction hashes, but not the optional balance history.

use super::error::StateError;
use super::hashes;
use super::namespaces;
use crate::model::network::ChainParameters;
use crate::model::{Height, Timestamp};
use crate::store::{StoreError, Table, Write, block_key};

/// Blocks between two prunings, whatever the block time.
const INTERVAL: u64 = 360;
/// Days for which a lease is kept after its start: a year, a month and a day.
const LEASE_DAYS: u64 = 365 + 30 + 1;
const SECONDS_PER_HOUR: i64 = 3600;
/// Rows removed in one step.
const ROWS_PER_STEP: usize = 48;

/// The pruning of one block, in steps of a few rows each. The work corresponds to the blocks of the last interval.
#[derive(Debug)]
pub struct Pruning {
    outlinks_below: Height,
    leases_below: Height,
    height: Height,
    /// Time stamp of transactions; `None` keeps all hashes.
    hashes_below: Option<Timestamp>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Outlinks,
    Leases,
    Hashes,
    /// Advances the height below which no hash is remembered.
    ForgottenHashes,
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
            outlinks_below: height.minus(chain.blocks_per_month() + day),
            leases_below: height.minus(LEASE_DAYS * day),
            hashes_below: chain.hash_retention_hours.map(|hours: u32| Timestamp(retention_start(hours))),
            stage: Stage::Outlinks,
        })
    }

    /// Runs one step; returns whether work remains.
    pub fn step(&mut self, txn: &mut impl Write) -> Result<bool, StateError> {
        match &mut self.stage {
            Stage::Outlinks => {
                if remove_below(txn, Table::Outlinks, &block_key(self.outlinks_below))? {
                    self.stage = Stage::Leases;
                }
            }
            Stage::Leases => {
                if !namespaces::prune_oldest(txn, self.leases_below)? {
                    self.stage = Stage::Hashes;
                }
            }
            Stage::Hashes => {
                let Some(limit) = self.hashes_below else { return Ok(false) };
                hashes::forget(txn, self.height, limit)?;
                self.stage = Stage::ForgottenHashes;
            }
            Stage::ForgottenHashes => return Ok(hashes::forget_step(txn)?),
        }
        Ok(true)
    }
}

/// Removes the first rows below the key `limit`; returns whether none remain.
fn remove_below(txn: &mut impl Write, table: Table, limit: &[u8]) -> Result<bool, StoreError> {
    let mut keys = Vec::with_capacity(ROWS_PER_STEP);
    txn.for_each_prefix(table, &[], |key, _| {
        let is_old = key < limit && keys.len() < ROWS_PER_STEP;
        if is_old {
            keys.push(key.to_vec());
        }
        Ok(is_old)
    })?;
    keys.iter().try_for_each(|key| txn.delete(table, key))?;
    Ok(keys.len() < ROWS_PER_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Read, test_store};

    const CHAIN: fn() -> ChainParameters = ChainParameters::after_all_forks;

    #[test]
    fn old_rows_are_pruned_in_small_steps_and_the_rest_stays() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let (height, timestamp) = (Height(360 * 200 + 1), Timestamp(10_000_000));
        let mut pruning = Pruning::due(height, timestamp, &CHAIN()).unwrap();
        let limit = pruning.outlinks_below.0;
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
}
