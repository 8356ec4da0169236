//! Forgetting what is old.
//!
//! Of all that NIS1 prunes only outlinks, leases and hashes are kept here, as balances have no history.

use super::error::StateError;
use super::namespaces;
use crate::model::network::ChainParameters;
use crate::model::{Height, Timestamp};
use crate::store::{Read, StoreError, Table, Write};

/// Blocks between two prunings, whatever the configured block time.
const INTERVAL: u64 = 360;
/// Days after its beginning for which a lease is kept: a year, a month and a day.
const LEASE_DAYS: u64 = 365 + 30 + 1;
const SECONDS_PER_HOUR: i64 = 3600;

/// Forgets what is old, in every block whose height is one above a multiple of the interval.
pub fn prune(
    batch: &mut impl Write,
    height: Height,
    timestamp: Timestamp,
    chain: &ChainParameters,
) -> Result<(), StateError> {
    if height.0 % INTERVAL != 1 {
        return Ok(());
    }
    let day = chain.blocks_per_day();
    prune_outlinks(batch, height.minus(chain.blocks_per_month() + day))?;
    namespaces::prune(batch, height.minus(LEASE_DAYS * day))?;
    prune_hashes(batch, timestamp, chain.hash_retention_hours)?;
    Ok(())
}

fn prune_outlinks(batch: &mut impl Write, cut: Height) -> Result<(), StoreError> {
    for key in keys_below(batch, Table::Outlinks, &cut.0.to_be_bytes())? {
        batch.delete(Table::Outlinks, &key)?;
    }
    Ok(())
}

fn prune_hashes(batch: &mut impl Write, now: Timestamp, retention_hours: Option<u32>) -> Result<(), StoreError> {
    let Some(hours) = retention_hours else { return Ok(()) };
    let limit = (i64::from(now.0) - i64::from(hours) * SECONDS_PER_HOUR).max(0) as u32;
    for key in keys_below(batch, Table::HashesByTime, &limit.to_be_bytes())? {
        batch.delete(Table::Hashes, &key[4..])?;
        batch.delete(Table::HashesByTime, &key)?;
    }
    Ok(())
}

fn keys_below(batch: &impl Read, table: Table, limit: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut keys = Vec::new();
    batch.each(table, &[], |key, _| {
        let below = key < limit;
        if below {
            keys.push(key.to_vec());
        }
        Ok(below)
    })?;
    Ok(keys)
}
