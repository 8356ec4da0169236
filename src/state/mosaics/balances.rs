//! Mosaic balances.
//!
//! The key of a row contains the definition and the lease state in force, so rows of the past never change.

use super::{CurrentMosaic, DefinitionVersion, MosaicNumber};
use crate::model::Address;
use crate::state::AccountId;
use crate::state::namespaces::LeaseState;
use crate::store::{Read, StoreError, Table, Write};

/// Length of the key prefix: mosaic and account.
const BALANCE_PREFIX: usize = 8;

/// Key of a balance: mosaic, account, and the lease state and definition in force when the row was written.
#[derive(Clone, Copy)]
struct BalanceKey {
    mosaic: MosaicNumber,
    id: AccountId,
    lease_state: LeaseState,
    version: u32,
}

impl BalanceKey {
    fn to_bytes(self) -> [u8; 16] {
        let parts = [self.mosaic.0, self.id.0, self.lease_state.0, self.version];
        let mut bytes = [0; 16];
        bytes.chunks_mut(4).zip(parts).for_each(|(place, part)| place.copy_from_slice(&part.to_be_bytes()));
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Result<BalanceKey, StoreError> {
        let mut parts = bytes.chunks(4).map(|part| part.try_into().map(u32::from_be_bytes));
        let mut next = || parts.next().and_then(Result::ok).ok_or(StoreError::Damaged("a balance"));
        Ok(BalanceKey {
            mosaic: MosaicNumber(next()?),
            id: AccountId(next()?),
            lease_state: LeaseState(next()?),
            version: next()?,
        })
    }
}

/// Calls `visit` with the balances under a definition version up to a lease state, in the order of account ids after
/// `after`, until it returns `false`. An account with only other rows is visited with 0.
pub(in crate::state) fn for_each_balance(
    state: &impl Read,
    version: DefinitionVersion,
    lease_state: LeaseState,
    after: Option<AccountId>,
    mut visit: impl FnMut(AccountId, u64) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let Some(first) = after.map_or(Some(0), |after| after.0.checked_add(1)) else { return Ok(()) };
    let mut cursor = state.cursor(Table::Balances)?;
    let mut entry = cursor.seek(&[version.mosaic.key(), first.to_be_bytes()].concat())?;
    let mut pending: Option<(AccountId, u64)> = None;
    while let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(&version.mosaic.key())) {
        let row = BalanceKey::from_bytes(key)?;
        if let Some((account, quantity)) = pending.take_if(|(account, _)| *account != row.id)
            && !visit(account, quantity)?
        {
            return Ok(());
        }
        let (_, quantity) = pending.get_or_insert((row.id, 0));
        if (version.balances_since..=version.number).contains(&row.version) && row.lease_state <= lease_state {
            // Rows are in ascending order of age, so the newest comes last.
            *quantity = read_quantity(value)?;
        }
        entry = cursor.next()?;
    }
    pending.map_or(Ok(()), |(account, quantity)| visit(account, quantity).map(drop))
}

/// Returns the nonzero balances under one definition, in the order of account ids.
pub fn balances(state: &impl Read, version: DefinitionVersion) -> Result<Vec<(Address, u64)>, StoreError> {
    let mut balances = Vec::new();
    for_each_balance(state, version, LeaseState(u32::MAX), None, |account, quantity| {
        if quantity > 0 {
            balances.push((account.address(state)?, quantity));
        }
        Ok(true)
    })?;
    Ok(balances)
}

/// Returns the balance in the last row before `end`; 0 if that row is under a definition older than `first`.
fn balance_before(state: &impl Read, end: BalanceKey, first: u32) -> Result<u64, StoreError> {
    let (end, mut found) = (end.to_bytes(), 0);
    state.for_each_prefix_rev(Table::Balances, &end[..BALANCE_PREFIX], &end, |key, value| {
        if BalanceKey::from_bytes(key)?.version >= first {
            found = read_quantity(value)?;
        }
        Ok(false)
    })?;
    Ok(found)
}

/// Returns the balance of an account in smallest units. `edition` must be the last definition of its mosaic.
pub(super) fn last_balance(state: &impl Read, edition: DefinitionVersion, id: AccountId) -> Result<u64, StoreError> {
    let end = BalanceKey { mosaic: edition.mosaic, id, lease_state: LeaseState(u32::MAX), version: u32::MAX };
    balance_before(state, end, edition.balances_since)
}

fn read_quantity(value: &[u8]) -> Result<u64, StoreError> {
    value.try_into().map(u64::from_le_bytes).map_err(|_| StoreError::Damaged("a balance"))
}

impl CurrentMosaic {
    /// Returns the balance of an account in smallest units.
    pub fn balance(&self, state: &impl Read, id: AccountId) -> Result<u64, StoreError> {
        last_balance(state, self.version, id)
    }

    pub(super) fn set_balance(&self, txn: &mut impl Write, id: AccountId, quantity: u64) -> Result<(), StoreError> {
        let DefinitionVersion { mosaic, number, balances_since: first } = self.version;
        let key = BalanceKey { mosaic, id, lease_state: self.lease_state, version: number };
        // A missing row means a zero balance, unless an older row holds another.
        match quantity == 0 && balance_before(txn, key, first)? == 0 {
            true => txn.delete(Table::Balances, &key.to_bytes()),
            false => txn.put(Table::Balances, &key.to_bytes(), &quantity.to_le_bytes()),
        }
    }
}
