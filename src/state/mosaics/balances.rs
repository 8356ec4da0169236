//! Mosaic balances.
//!
//! The key of a row contains the definition and the lease state in force, so rows of the past never change.

use super::{Current, Edition, MosaicNumber};
use crate::model::Address;
use crate::state::AccountNumber;
use crate::state::namespaces::Stand;
use crate::store::{Read, StoreError, Table, Write};

/// Length of the key prefix: mosaic and account.
const BALANCE_PREFIX: usize = 8;

/// Key of a balance: mosaic, account, and the lease state and definition in force when the row was written.
#[derive(Clone, Copy)]
struct BalanceKey {
    mosaic: MosaicNumber,
    account: AccountNumber,
    stand: Stand,
    definition: u32,
}

impl BalanceKey {
    fn to_bytes(self) -> [u8; 16] {
        let parts = [self.mosaic.0, self.account.0, self.stand.0, self.definition];
        let mut bytes = [0; 16];
        bytes.chunks_mut(4).zip(parts).for_each(|(place, part)| place.copy_from_slice(&part.to_be_bytes()));
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Result<BalanceKey, StoreError> {
        let mut parts = bytes.chunks(4).map(|part| part.try_into().map(u32::from_be_bytes));
        let mut next = || parts.next().and_then(Result::ok).ok_or(StoreError::Damaged("a balance"));
        Ok(BalanceKey {
            mosaic: MosaicNumber(next()?),
            account: AccountNumber(next()?),
            stand: Stand(next()?),
            definition: next()?,
        })
    }
}

/// Calls `visit` with the balances under a definition version up to a lease state, in the order of account ids after
/// `after`, until it returns `false`. An account with only other rows is visited with 0.
pub(in crate::state) fn each_balance(
    state: &impl Read,
    edition: Edition,
    stand: Stand,
    after: Option<AccountNumber>,
    mut visit: impl FnMut(AccountNumber, u64) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let Some(first) = after.map_or(Some(0), |after| after.0.checked_add(1)) else { return Ok(()) };
    let mut walk = state.walk(Table::Balances)?;
    let mut entry = walk.seek(&[edition.mosaic.key(), first.to_be_bytes()].concat())?;
    let mut present: Option<(AccountNumber, u64)> = None;
    while let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(&edition.mosaic.key())) {
        let row = BalanceKey::from_bytes(key)?;
        if let Some((account, quantity)) = present.take_if(|(account, _)| *account != row.account)
            && !visit(account, quantity)?
        {
            return Ok(());
        }
        let (_, quantity) = present.get_or_insert((row.account, 0));
        if (edition.first..=edition.number).contains(&row.definition) && row.stand <= stand {
            // Rows are in ascending order of age, so the newest comes last.
            *quantity = read_quantity(value)?;
        }
        entry = walk.next()?;
    }
    present.map_or(Ok(()), |(account, quantity)| visit(account, quantity).map(drop))
}

/// Returns the nonzero balances under one definition, in the order of account ids.
pub fn balances(state: &impl Read, edition: Edition) -> Result<Vec<(Address, u64)>, StoreError> {
    let mut balances = Vec::new();
    each_balance(state, edition, Stand(u32::MAX), None, |account, quantity| {
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
    state.each_before(Table::Balances, &end[..BALANCE_PREFIX], &end, |key, value| {
        if BalanceKey::from_bytes(key)?.definition >= first {
            found = read_quantity(value)?;
        }
        Ok(false)
    })?;
    Ok(found)
}

/// Returns the balance of an account in smallest units. `edition` must be the last definition of its mosaic.
pub(super) fn last_balance(state: &impl Read, edition: Edition, account: AccountNumber) -> Result<u64, StoreError> {
    let end = BalanceKey { mosaic: edition.mosaic, account, stand: Stand(u32::MAX), definition: u32::MAX };
    balance_before(state, end, edition.first)
}

fn read_quantity(value: &[u8]) -> Result<u64, StoreError> {
    value.try_into().map(u64::from_le_bytes).map_err(|_| StoreError::Damaged("a balance"))
}

impl Current {
    /// Returns the balance of an account in smallest units.
    pub fn balance(&self, state: &impl Read, account: AccountNumber) -> Result<u64, StoreError> {
        last_balance(state, self.edition, account)
    }

    pub(super) fn set_balance(
        &self,
        batch: &mut impl Write,
        account: AccountNumber,
        quantity: u64,
    ) -> Result<(), StoreError> {
        let Edition { mosaic, number, first } = self.edition;
        let key = BalanceKey { mosaic, account, stand: self.stand, definition: number };
        // A missing row means a zero balance, unless an older row holds another.
        match quantity == 0 && balance_before(batch, key, first)? == 0 {
            true => batch.delete(Table::Balances, &key.to_bytes()),
            false => batch.put(Table::Balances, &key.to_bytes(), &quantity.to_le_bytes()),
        }
    }
}
