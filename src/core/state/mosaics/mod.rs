//! Mosaics in the state: definitions, supplies, balances and holdings.
//!
//! Redefinition, expiry and renewal copy and remove nothing. A balance is the last row written under the definition in
//! force or under an older one whose balances it keeps. A mosaic is gone when its ownership period is over.
//!
//! The key of a balance contains the definition and the lease state in force, so rows of the past never change. The end
//! or renewal of a lease changes no row of a holding: whether it counts follows from the lease state of its period.

#[cfg(test)]
mod tests;

use super::account::AccountId;
use super::bytes::{Stored, stored};
use super::expiry::{ExpiryKind, LoggedMosaics};
use super::ledger::Ledger;
use super::namespaces::{self, Lease, LeaseState, NameCounters, OwnershipPeriod};
use super::{StateError, StateResult};
use crate::codec::ByteReader;
use crate::model::transaction::SupplyChangeKind;
use crate::model::{Address, Height, Mosaic, MosaicDefinition, MosaicId};
use crate::store::{Entry, Read, Result, StoreError, Table, Write, next_key};

const DAMAGED: StoreError = StoreError::Damaged("a mosaic");
const MOSAIC_NUMBER: &str = "the number of a mosaic";

/// One definition of a mosaic, with the supply at the end of its time in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MosaicEntry {
    /// The definition.
    pub definition: MosaicDefinition,
    /// Supply in whole units.
    pub supply: u64,
}

stored!(MosaicEntry { supply, definition });

/// Internal number of a mosaic in an ownership period; the same name in another period has another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MosaicNumber(pub u32);

stored!(MosaicNumber { 0 });

/// Version of a mosaic's definition. A redefinition that changes only the description keeps the balances: they are not
/// copied, but written under the new version when they change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinitionVersion {
    /// The mosaic.
    pub mosaic: MosaicNumber,
    /// Version number; the oldest is 0.
    pub number: u32,
    /// Version under which the current balances began.
    pub balances_since: u32,
}

stored!(DefinitionVersion { mosaic, number, balances_since });

/// A mosaic that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentMosaic {
    ownership_period: OwnershipPeriod,
    /// Lease state of the ownership period.
    lease_state: LeaseState,
    /// Version of the definition in force.
    pub version: DefinitionVersion,
    /// The definition in force, and the current supply.
    pub entry: MosaicEntry,
    /// Height of the definition.
    defined_at: Height,
}

impl MosaicNumber {
    fn key(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }

    fn allocate(txn: &mut impl Write, ownership_period: OwnershipPeriod, id: &MosaicId) -> Result<MosaicNumber> {
        let number = MosaicNumber(NameCounters::allocate(txn, |counters| &mut counters.mosaics)?);
        txn.insert(Table::MosaicNumbers, &name_key(ownership_period, id), &number.to_stored())?;
        Ok(number)
    }
}

fn name_key(ownership_period: OwnershipPeriod, id: &MosaicId) -> Vec<u8> {
    [ownership_period.key().as_slice(), id.to_string().as_bytes()].concat()
}

impl DefinitionVersion {
    fn key(self) -> [[u8; 4]; 2] {
        [self.mosaic.key(), self.number.to_be_bytes()]
    }

    /// Returns the version of the next definition.
    fn next(self, keeps_balances: bool) -> DefinitionVersion {
        let number = self.number.saturating_add(1);
        DefinitionVersion { number, balances_since: if keeps_balances { self.balances_since } else { number }, ..self }
    }

    /// Decodes key and value of a definition row.
    fn of_row(mosaic: MosaicNumber, key: &[u8], value: &[u8]) -> Result<DefinitionVersion> {
        let number = key.get(4..).and_then(|number| number.try_into().ok()).map(u32::from_be_bytes);
        let number = number.ok_or(DAMAGED)?;
        let balances_since = u32::read(&mut ByteReader(value)).ok_or(DAMAGED)?;
        if balances_since > number { Err(DAMAGED) } else { Ok(DefinitionVersion { mosaic, number, balances_since }) }
    }
}

impl MosaicEntry {
    /// Returns the built-in `nem:xem`.
    pub fn xem() -> MosaicEntry {
        let definition = MosaicDefinition::xem();
        MosaicEntry { supply: definition.properties.initial_supply, definition }
    }

    /// Decodes a row: the version from which balances are kept, the height of the definition, and the mosaic.
    fn of_row(value: &[u8]) -> Result<(Height, MosaicEntry)> {
        let (_, row) = <(u32, (Height, MosaicEntry))>::from_stored(value, "a mosaic")?;
        Ok(row)
    }
}

/// Returns the newest definition of a mosaic and its supply in whole units; `nem:xem` included.
pub fn mosaic(state: &impl Read, id: &MosaicId) -> Result<Option<MosaicEntry>> {
    if id.is_xem() { Ok(Some(MosaicEntry::xem())) } else { Ok(current_mosaic(state, id)?.map(|mosaic| mosaic.entry)) }
}

/// Returns the newest definition of a mosaic; `nem:xem` included.
pub fn mosaic_definition(state: &impl Read, id: &MosaicId) -> Result<Option<MosaicDefinition>> {
    Ok(mosaic(state, id)?.map(|entry| entry.definition))
}

/// Returns the balance of an account in a mosaic other than `nem:xem`; `None` if the mosaic does not exist.
pub fn owned_mosaic(state: &impl Read, account: &Address, id: MosaicId) -> Result<Option<Mosaic>> {
    let Some(mosaic) = current_mosaic(state, &id)? else { return Ok(None) };
    let account = AccountId::of(state, account)?;
    let quantity = account.map_or(Ok(0), |account| mosaic.balance(state, account))?;
    Ok(Some(Mosaic { id, quantity }))
}

/// Returns the smallest units an account has under the newest definition of a mosaic other than `nem:xem`.
pub fn mosaic_balance(state: &impl Read, id: &MosaicId, account: &Address) -> Result<u64> {
    Ok(owned_mosaic(state, account, id.clone())?.map_or(0, |owned| owned.quantity))
}

/// Returns a mosaic of the last lease of its namespace; never `nem:xem`.
pub fn current_mosaic(state: &impl Read, id: &MosaicId) -> Result<Option<CurrentMosaic>> {
    let Some(lease) = namespaces::leases(state, id.namespace.root())?.pop() else { return Ok(None) };
    let key = name_key(lease.ownership_period, id);
    let Some(mosaic) = MosaicNumber::get(state, Table::MosaicNumbers, &key, MOSAIC_NUMBER)? else { return Ok(None) };
    let (version, value) = last_definition(state, mosaic)?;
    let (defined_at, entry) = MosaicEntry::of_row(value)?;
    let Lease { ownership_period, .. } = lease;
    let lease_state = ownership_period.lease_state(state)?;
    Ok(Some(CurrentMosaic { ownership_period, lease_state, version, entry, defined_at }))
}

/// Returns the last definition of a mosaic, and its stored form.
fn last_definition(state: &impl Read, mosaic: MosaicNumber) -> Result<(DefinitionVersion, &[u8])> {
    let end = [mosaic.key(), [0xFF; 4]];
    let (key, value) = state.last_before(Table::Mosaics, &mosaic.key(), end.as_flattened())?.ok_or(DAMAGED)?;
    Ok((DefinitionVersion::of_row(mosaic, key, value)?, value))
}

/// Returns all definitions of an existing mosaic, oldest first.
pub fn history(state: &impl Read, id: &MosaicId) -> Result<Vec<(DefinitionVersion, MosaicEntry)>> {
    let Some(CurrentMosaic { version: DefinitionVersion { mosaic, .. }, .. }) = current_mosaic(state, id)? else {
        return Ok(Vec::new());
    };
    let read = |entry: Result<Entry<'_>>| {
        let (key, value) = entry?;
        Ok((DefinitionVersion::of_row(mosaic, key, value)?, MosaicEntry::of_row(value)?.1))
    };
    state.entries(Table::Mosaics, &mosaic.key())?.map(read).collect()
}

/// Returns the definition of a mosaic in force after the block at a height, if there was one.
pub(super) fn version_at(state: &impl Read, mosaic: MosaicNumber, height: Height) -> Result<Option<DefinitionVersion>> {
    let end = [mosaic.key(), [0xFF; 4]];
    for entry in state.entries_before(Table::Mosaics, &mosaic.key(), end.as_flattened())? {
        let (key, value) = entry?;
        let (_, made) = <(u32, Height)>::read(&mut ByteReader(value)).ok_or(DAMAGED)?;
        if made <= height {
            return DefinitionVersion::of_row(mosaic, key, value).map(Some);
        }
    }
    Ok(None)
}

/// Returns the first mosaic of an ownership period, by text, after another one or of all.
pub(super) fn mosaic_after(
    state: &impl Read,
    ownership_period: OwnershipPeriod,
    after: Option<&MosaicId>,
) -> Result<Option<(MosaicId, MosaicNumber)>> {
    let from = after.map_or(ownership_period.key().to_vec(), |after| next_key(&name_key(ownership_period, after)));
    let entry = state.first_from(Table::MosaicNumbers, &ownership_period.key(), &from)?;
    let Some((key, value)) = entry else { return Ok(None) };
    let text = key.get(4..).and_then(|text| std::str::from_utf8(text).ok());
    let id = text.and_then(|text| MosaicId::parse(text).ok()).ok_or(StoreError::Damaged("a mosaic's key"))?;
    Ok(Some((id, MosaicNumber::from_stored(value, MOSAIC_NUMBER)?)))
}

impl CurrentMosaic {
    fn put(&self, txn: &mut impl Write) -> Result<()> {
        let mut row = (self.version.balances_since, self.defined_at).to_stored();
        self.entry.write(&mut row);
        txn.put(Table::Mosaics, self.version.key().as_flattened(), &row)
    }
}

fn required_mosaic(state: &impl Read, id: &MosaicId) -> StateResult<CurrentMosaic> {
    current_mosaic(state, id)?.ok_or_else(|| StateError::impossible(format!("there is no mosaic {id}")))
}

/// Key of a balance: mosaic, account, and the lease state and definition in force when the row was written.
#[derive(Clone, Copy)]
struct BalanceKey {
    mosaic: MosaicNumber,
    id: AccountId,
    lease_state: LeaseState,
    version: u32,
}

impl BalanceKey {
    fn to_bytes(self) -> [[u8; 4]; 4] {
        [self.mosaic.0, self.id.0, self.lease_state.0, self.version].map(u32::to_be_bytes)
    }

    fn from_bytes(bytes: &[u8]) -> Result<BalanceKey> {
        let ([mosaic, id, lease_state, version], []) = bytes.as_chunks() else {
            return Err(StoreError::Damaged("a balance"));
        };
        let [mosaic, id, lease_state, version] =
            [mosaic, id, lease_state, version].map(|part| u32::from_be_bytes(*part));
        Ok(BalanceKey {
            mosaic: MosaicNumber(mosaic),
            id: AccountId(id),
            lease_state: LeaseState(lease_state),
            version,
        })
    }
}

/// Calls `visit` with the balances under a definition version up to a lease state, in the order of account ids after
/// `after`, until it returns `false`. An account with only other rows is visited with 0.
pub(super) fn for_each_balance(
    state: &impl Read,
    version: DefinitionVersion,
    lease_state: LeaseState,
    after: Option<AccountId>,
    mut visit: impl FnMut(AccountId, u64) -> Result<bool>,
) -> Result<()> {
    let Some(first) = after.map_or(Some(0), |after| after.0.checked_add(1)) else { return Ok(()) };
    let (mosaic, mut pending) = (version.mosaic.key(), None::<(AccountId, u64)>);
    for entry in state.entries_from(Table::Balances, &mosaic, &[mosaic, first.to_be_bytes()].concat())? {
        let (key, value) = entry?;
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
    }
    pending.map_or(Ok(()), |(account, quantity)| visit(account, quantity).map(drop))
}

/// Returns the balance in the last row before `end`; 0 if that row is under a definition older than `first`.
fn balance_before(state: &impl Read, end: BalanceKey, first: u32) -> Result<u64> {
    let end = end.to_bytes();
    match state.last_before(Table::Balances, end[..2].as_flattened(), end.as_flattened())? {
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
    let Some(current) = current_mosaic(state, mosaic)? else { return Ok(()) };
    for_each_balance(state, current.version, current.lease_state, after, visit)
}

fn read_quantity(value: &[u8]) -> Result<u64> {
    u64::from_stored(value, "a balance")
}

impl CurrentMosaic {
    /// Returns the balance of an account in smallest units.
    pub fn balance(&self, state: &impl Read, id: AccountId) -> Result<u64> {
        last_balance(state, self.version, id)
    }

    fn set_balance(&self, txn: &mut impl Write, id: AccountId, quantity: u64) -> Result<()> {
        let DefinitionVersion { mosaic, number: version, balances_since } = self.version;
        let key = BalanceKey { mosaic, id, lease_state: self.lease_state, version };
        // A missing row means a zero balance, unless an older row holds another.
        if quantity == 0 && balance_before(txn, key, balances_since)? == 0 {
            return txn.delete(Table::Balances, key.to_bytes().as_flattened());
        }
        txn.put(Table::Balances, key.to_bytes().as_flattened(), &quantity.to_le_bytes())
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
    /// Marks an account as invested: from now on, or from the next lease on unless it is already. That is for a creator,
    /// because a supply increase alone has no earlier effect.
    fn mark_invested(&self, txn: &mut impl Write, account: AccountId, effective_next_lease: bool) -> Result<()> {
        let (key, mosaic) = (holding_key(account, &self.entry.definition.id), self.version.mosaic);
        let CurrentMosaic { ownership_period, lease_state: as_of, .. } = *self;
        let row = Holding { mosaic, ownership_period, as_of, effective_next_lease }.to_stored();
        match txn.get(Table::Holdings, &key)? {
            Some(old) if effective_next_lease || old == row => Ok(()),
            _ => txn.put(Table::Holdings, &key, &row),
        }
    }
}

/// Marks an account as not invested.
fn mark_not_invested(txn: &mut impl Write, account: AccountId, id: &MosaicId) -> Result<()> {
    txn.delete(Table::Holdings, &holding_key(account, id))
}

fn holding_key(account: AccountId, id: &MosaicId) -> Vec<u8> {
    [account.key().as_slice(), id.to_string().as_bytes()].concat()
}

impl Holding {
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

/// Calls `visit` with the mosaics that an account has or had, ordered by text, after `after`, and whether it is invested in
/// each, until it returns `false`.
pub fn for_each_holding_after(
    state: &impl Read,
    account: &Address,
    after: Option<&MosaicId>,
    mut visit: impl FnMut(MosaicId, bool) -> Result<bool>,
) -> Result<()> {
    let Some(account) = AccountId::of(state, account)? else { return Ok(()) };
    let prefix = account.key();
    let from = after.map_or(prefix.to_vec(), |after| next_key(&holding_key(account, after)));
    for entry in state.entries_from(Table::Holdings, &prefix, &from)? {
        let (key, value) = entry?;
        let id = std::str::from_utf8(&key[prefix.len()..]).ok().and_then(|text| MosaicId::parse(text).ok());
        let id = id.ok_or(StoreError::Damaged("a holding"))?;
        let is_invested = Holding::from_stored(value, "a holding")?.is_invested(state, account)?;
        if !visit(id, is_invested)? {
            break;
        }
    }
    Ok(())
}

/// Returns all mosaics in which an account is invested, ordered by text.
pub fn holdings(state: &impl Read, account: &Address) -> Result<Vec<MosaicId>> {
    let mut ids = Vec::new();
    for_each_holding_after(state, account, None, |id, is_invested| {
        if is_invested {
            ids.push(id);
        }
        Ok(true)
    })?;
    Ok(ids)
}

/// Returns whether an account is invested in any mosaic. Reads holdings until one counts.
pub fn holds_mosaic(state: &impl Read, account: &Address) -> Result<bool> {
    let Some(account) = AccountId::of(state, account)? else { return Ok(false) };
    for entry in state.entries(Table::Holdings, &account.key())? {
        if Holding::from_stored(entry?.1, "a holding")?.is_invested(state, account)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl<W: Write> Ledger<'_, W> {
    /// Applies a mosaic definition.
    pub(super) fn define(&mut self, definition: &MosaicDefinition) -> StateResult {
        let id = &definition.id;
        let lease = self.require_namespace(&id.namespace)?;
        let creator = self.account_id(&Address::from_public_key(&definition.creator, self.network.byte))?;
        let after_fork = self.block.height.0 >= self.network.chain.forks.mosaic_redefinition;
        let before = current_mosaic(self.txn, id)?;
        if let Some(before) = before.as_ref().filter(|_| !after_fork) {
            let content = LoggedMosaics::Mosaic(before.version, id.clone());
            self.log(ExpiryKind::Expired, before.lease_state, content)?;
        }
        let kept = before.as_ref().filter(|before| after_fork && before.entry.definition.has_terms_of(definition));
        let properties = &definition.properties;
        let supply = kept.map_or(properties.initial_supply, |kept| kept.entry.supply);
        let mosaic = CurrentMosaic {
            ownership_period: lease.ownership_period,
            lease_state: lease.ownership_period.lease_state(self.txn)?,
            version: match &before {
                None => DefinitionVersion {
                    mosaic: MosaicNumber::allocate(self.txn, lease.ownership_period, id)?,
                    number: 0,
                    balances_since: 0,
                },
                Some(before) => before.version.next(kept.is_some()),
            },
            entry: MosaicEntry { definition: definition.clone(), supply },
            defined_at: self.block.height,
        };
        mosaic.put(self.txn)?;
        if kept.is_none() {
            mosaic.set_balance(self.txn, creator, supply * properties.multiplier())?;
        }
        Ok(mosaic.mark_invested(self.txn, creator, false)?)
    }

    /// Applies a supply change.
    pub(super) fn change_supply(
        &mut self,
        supplier: &Address,
        id: &MosaicId,
        delta: u64,
        kind: SupplyChangeKind,
    ) -> StateResult {
        let mut mosaic = required_mosaic(self.txn, id)?;
        let properties = mosaic.entry.definition.properties;
        let creator =
            self.account_id(&Address::from_public_key(&mosaic.entry.definition.creator, self.network.byte))?;
        let owned = mosaic.balance(self.txn, creator)?;
        let impossible = || StateError::impossible(format!("the supply of {id} cannot change by {delta}"));
        let quantity = delta.checked_mul(properties.multiplier()).ok_or_else(impossible)?;
        let (supply, owned) = match kind {
            SupplyChangeKind::Create => (mosaic.entry.supply.checked_add(delta), owned.checked_add(quantity)),
            SupplyChangeKind::Delete => (mosaic.entry.supply.checked_sub(delta), owned.checked_sub(quantity)),
        };
        let (supply, owned) =
            supply.zip(owned).filter(|(s, _)| *s <= properties.max_supply()).ok_or_else(impossible)?;
        mosaic.entry.supply = supply;
        mosaic.put(self.txn)?;
        mosaic.set_balance(self.txn, creator, owned)?;
        match kind {
            SupplyChangeKind::Create => Ok(mosaic.mark_invested(self.txn, creator, true)?),
            SupplyChangeKind::Delete => {
                let supplier = self.account_id(supplier)?;
                if mosaic.balance(self.txn, supplier)? == 0 {
                    mark_not_invested(self.txn, supplier, id)?;
                }
                Ok(())
            }
        }
    }

    /// Transfers a quantity of a mosaic.
    pub(super) fn transfer_mosaic(
        &mut self,
        id: &MosaicId,
        from: &Address,
        to: &Address,
        quantity: u64,
    ) -> StateResult {
        let mosaic = required_mosaic(self.txn, id)?;
        let (sender, recipient) = (self.account_id(from)?, self.account_id(to)?);
        let left = mosaic.balance(self.txn, sender)?.checked_sub(quantity);
        let left = left.ok_or_else(|| StateError::impossible(format!("{from} has too little of {id}")))?;
        mosaic.set_balance(self.txn, sender, left)?;
        let sum = mosaic.balance(self.txn, recipient)?.checked_add(quantity);
        let sum = sum.ok_or_else(|| StateError::impossible("a quantity exceeds 64 bits"))?;
        mosaic.set_balance(self.txn, recipient, sum)?;
        let creator = Address::from_public_key(&mosaic.entry.definition.creator, self.network.byte);
        let left = if from == to { sum } else { left };
        for (address, account, has) in [(from, sender, left), (to, recipient, sum)] {
            if *address == creator || has > 0 {
                mosaic.mark_invested(self.txn, account, false)?;
            } else {
                mark_not_invested(self.txn, account, id)?;
            }
        }
        Ok(())
    }
}
