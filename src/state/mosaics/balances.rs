//! Balances of mosaics, and the mosaics in which accounts are invested.
//!
//! The key of a balance contains the definition and the lease state in force, so rows of the past never change. The end
//! or renewal of a lease changes no row of a holding: whether it counts follows from the lease state of its period.

use super::{CurrentMosaic, DefinitionVersion, MosaicNumber, current_mosaic, last_definition};
use crate::model::{Address, MosaicId};
use crate::state::AccountId;
use crate::state::bytes::{Stored, stored};
use crate::state::namespaces::{LeaseState, OwnershipPeriod};
use crate::store::{Read, Result, StoreError, Table, Write, next_key};

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

    fn from_bytes(bytes: &[u8]) -> Result<BalanceKey> {
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
pub fn for_each_balance(
    state: &impl Read,
    version: DefinitionVersion,
    lease_state: LeaseState,
    after: Option<AccountId>,
    mut visit: impl FnMut(AccountId, u64) -> Result<bool>,
) -> Result<()> {
    let Some(first) = after.map_or(Some(0), |after| after.0.checked_add(1)) else { return Ok(()) };
    let (mosaic, mut pending) = (version.mosaic.key(), None::<(AccountId, u64)>);
    let mut is_wanted = true;
    state.for_each_from(Table::Balances, &mosaic, &[mosaic, first.to_be_bytes()].concat(), |key, value| {
        let row = BalanceKey::from_bytes(key)?;
        if let Some((account, quantity)) = pending.take_if(|(account, _)| *account != row.id) {
            is_wanted = visit(account, quantity)?;
        }
        let (_, quantity) = pending.get_or_insert((row.id, 0));
        if (version.balances_since..=version.number).contains(&row.version) && row.lease_state <= lease_state {
            // Rows are in ascending order of age, so the newest comes last.
            *quantity = read_quantity(value)?;
        }
        Ok(is_wanted)
    })?;
    match pending.filter(|_| is_wanted) {
        Some((account, quantity)) => visit(account, quantity).map(drop),
        None => Ok(()),
    }
}

/// Returns the nonzero balances under one definition, in the order of account ids.
pub fn balances(state: &impl Read, version: DefinitionVersion) -> Result<Vec<(Address, u64)>> {
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
fn balance_before(state: &impl Read, end: BalanceKey, first: u32) -> Result<u64> {
    let end = end.to_bytes();
    match state.last_before(Table::Balances, &end[..BALANCE_PREFIX], &end)? {
        Some((key, value)) if BalanceKey::from_bytes(key)?.version >= first => read_quantity(value),
        _ => Ok(0),
    }
}

/// Returns the balance of an account in smallest units. `version` must be the last definition of its mosaic.
fn last_balance(state: &impl Read, version: DefinitionVersion, id: AccountId) -> Result<u64> {
    let end = BalanceKey { mosaic: version.mosaic, id, lease_state: LeaseState(u32::MAX), version: u32::MAX };
    balance_before(state, end, version.balances_since)
}

/// Calls `visit` with the balances of a mosaic of the last lease of its namespace, in the order of account ids,
/// starting after `after`, until it returns `false`. Balances of 0 may be included.
pub fn for_each_holder_after(
    state: &impl Read,
    mosaic: &MosaicId,
    after: Option<AccountId>,
    visit: impl FnMut(AccountId, u64) -> Result<bool>,
) -> Result<()> {
    match current_mosaic(state, mosaic)? {
        Some(current) => for_each_balance(state, current.version, current.lease_state, after, visit),
        None => Ok(()),
    }
}

fn read_quantity(value: &[u8]) -> Result<u64> {
    u64::from_stored(value, "a balance")
}

impl CurrentMosaic {
    /// Returns the balance of an account in smallest units.
    pub fn balance(&self, state: &impl Read, id: AccountId) -> Result<u64> {
        last_balance(state, self.version, id)
    }

    pub(super) fn set_balance(&self, txn: &mut impl Write, id: AccountId, quantity: u64) -> Result<()> {
        let DefinitionVersion { mosaic, number, balances_since: first } = self.version;
        let key = BalanceKey { mosaic, id, lease_state: self.lease_state, version: number };
        // A missing row means a zero balance, unless an older row holds another.
        match quantity == 0 && balance_before(txn, key, first)? == 0 {
            true => txn.delete(Table::Balances, &key.to_bytes()),
            false => txn.put(Table::Balances, &key.to_bytes(), &quantity.to_le_bytes()),
        }
    }
}

/// A row that may make an account invested in a mosaic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holding {
    mosaic: MosaicNumber,
    ownership_period: OwnershipPeriod,
    /// Lease state when the row was written.
    as_of: LeaseState,
    /// Whether the row counts only from the next lease on.
    effective_next_lease: bool,
}

stored!(Holding { mosaic, ownership_period, as_of, effective_next_lease });

impl CurrentMosaic {
    /// Marks an account as invested.
    pub(super) fn mark_invested(&self, txn: &mut impl Write, id: AccountId) -> Result<()> {
        self.holding(false).put(txn, id, &self.entry.definition.id)
    }

    /// Marks the creator as invested from the next lease on; a supply increase alone has no earlier effect.
    pub(super) fn mark_invested_next_lease(&self, txn: &mut impl Write, creator: AccountId) -> Result<()> {
        let id = &self.entry.definition.id;
        if txn.contains(Table::Holdings, &holding_key(creator, id))? {
            return Ok(());
        }
        self.holding(true).put(txn, creator, id)
    }

    fn holding(&self, effective_next_lease: bool) -> Holding {
        let CurrentMosaic { version: DefinitionVersion { mosaic, .. }, ownership_period, lease_state, .. } = *self;
        Holding { mosaic, ownership_period, as_of: lease_state, effective_next_lease }
    }
}

/// Marks an account as not invested.
pub(super) fn mark_not_invested(txn: &mut impl Write, account: AccountId, id: &MosaicId) -> Result<()> {
    txn.delete(Table::Holdings, &holding_key(account, id))
}

fn holding_key(account: AccountId, id: &MosaicId) -> Vec<u8> {
    [account.key().as_slice(), id.to_string().as_bytes()].concat()
}

impl Holding {
    fn put(self, txn: &mut impl Write, account: AccountId, id: &MosaicId) -> Result<()> {
        let row = self.to_stored();
        let key = holding_key(account, id);
        match txn.get(Table::Holdings, &key)? {
            Some(old) if old == row => Ok(()),
            Some(_) => txn.put(Table::Holdings, &key, &row),
            None => txn.insert(Table::Holdings, &key, &row),
        }
    }

    /// Returns whether the account counts as invested. Once a lease has ended, an older row counts only if the balance
    /// is 0: holders of an expired mosaic do not count, but a creator without a balance does.
    fn is_invested(self, state: &impl Read, id: AccountId) -> Result<bool> {
        let lease_state = self.ownership_period.lease_state(state)?;
        if self.effective_next_lease && self.as_of.is_same_lease(lease_state) {
            return Ok(false);
        }
        if !lease_state.has_ended() || self.as_of == lease_state {
            return Ok(true);
        }
        // A later transfer would have rewritten the row, so the last balance is the one at the end of the lease.
        let (version, _) = last_definition(state, self.mosaic)?;
        Ok(last_balance(state, version, id)? == 0)
    }
}

/// One page of the mosaics in which an account is invested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldingsPage {
    /// The mosaics found, ordered by text.
    pub ids: Vec<MosaicId>,
    /// The mosaic after which the next page starts; `None` for the last page.
    pub next_after: Option<MosaicId>,
}

/// Returns the mosaics in which an account is invested, ordered by text, after `after`. Reads at most `limit` rows.
pub fn holdings_after(
    state: &impl Read,
    account: &Address,
    after: Option<&MosaicId>,
    limit: usize,
) -> Result<HoldingsPage> {
    let mut page = HoldingsPage { ids: Vec::new(), next_after: None };
    let Some(account) = AccountId::of(state, account)? else { return Ok(page) };
    let prefix = account.key();
    let from = after.map_or(prefix.to_vec(), |after| next_key(&holding_key(account, after)));
    let mut rows = 0;
    state.for_each_from(Table::Holdings, &prefix, &from, |key, value| {
        let id = std::str::from_utf8(&key[prefix.len()..]).ok().and_then(|text| MosaicId::parse(text).ok());
        let id = id.ok_or(StoreError::Damaged("a holding"))?;
        let counts = Holding::from_stored(value, "a holding")?.is_invested(state, account)?;
        rows += 1;
        page.next_after = (rows >= limit).then(|| id.clone());
        page.ids.extend(Some(id).filter(|_| counts));
        Ok(rows < limit)
    })?;
    Ok(page)
}

/// Returns all mosaics in which an account is invested, ordered by text.
pub fn holdings(state: &impl Read, account: &Address) -> Result<Vec<String>> {
    let page = holdings_after(state, account, None, usize::MAX)?;
    Ok(page.ids.iter().map(MosaicId::to_string).collect())
}

/// Returns whether an account is invested in any mosaic. Reads holdings until one counts.
pub fn holds_mosaic(state: &impl Read, account: &Address) -> Result<bool> {
    let Some(account) = AccountId::of(state, account)? else { return Ok(false) };
    let mut holds = false;
    state.for_each_prefix(Table::Holdings, &account.key(), |_, value| {
        holds = Holding::from_stored(value, "a holding")?.is_invested(state, account)?;
        Ok(!holds)
    })?;
    Ok(holds)
}
