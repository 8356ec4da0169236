//! Mosaics in the state: definitions, supplies, balances and holdings.
//!
//! Redefinition, expiry and renewal copy and remove nothing. A balance is the last row written under the definition in
//! force or under an older one whose balances it keeps. A mosaic is gone when its ownership period is over.

mod balances;
#[cfg(test)]
mod tests;

use super::StateError;
use super::account::AccountId;
use super::bytes::{ByteReader, ByteWriter, Stored, stored};
use super::ledger::Ledger;
use super::namespaces::{self, Lease, LeaseState, NameCounters, OwnershipPeriod};
use crate::crypto::PublicKey;
use crate::model::mosaic::{LevyKind, MAX_DIVISIBILITY};
use crate::model::transaction::SupplyChangeKind;
use crate::model::{Address, Height, Levy, Mosaic, MosaicDefinition, MosaicId, MosaicProperties};
use crate::store::{Read, Result, StoreError, Table, Write, next_key};

use self::balances::mark_not_invested;
pub use self::balances::{HoldingsPage, for_each_holder_after, holdings_after, holds_mosaic};
pub(super) use self::balances::{balances, for_each_balance, holdings};

const DAMAGED: StoreError = StoreError::Damaged("a mosaic");

/// One definition of a mosaic, with the supply at the end of its time in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MosaicEntry {
    /// The definition.
    pub definition: MosaicDefinition,
    /// Supply in whole units.
    pub supply: u64,
}

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

/// A mosaic that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentMosaic {
    ownership_period: OwnershipPeriod,
    /// Lease state of the ownership period.
    pub(super) lease_state: LeaseState,
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

    /// Returns the number of a mosaic in an ownership period.
    fn of(state: &impl Read, ownership_period: OwnershipPeriod, id: &MosaicId) -> Result<Option<MosaicNumber>> {
        let row = state.get(Table::MosaicNumbers, &name_key(ownership_period, id))?;
        row.map(MosaicNumber::read_row).transpose()
    }

    fn allocate(txn: &mut impl Write, ownership_period: OwnershipPeriod, id: &MosaicId) -> Result<MosaicNumber> {
        let number = MosaicNumber(NameCounters::allocate(txn, |counters| &mut counters.mosaics)?);
        txn.insert(Table::MosaicNumbers, &name_key(ownership_period, id), &number.to_stored())?;
        Ok(number)
    }

    fn read_row(value: &[u8]) -> Result<MosaicNumber> {
        MosaicNumber::from_stored(value, "the number of a mosaic")
    }
}

fn name_key(ownership_period: OwnershipPeriod, id: &MosaicId) -> Vec<u8> {
    [ownership_period.key().as_slice(), id.to_string().as_bytes()].concat()
}

impl DefinitionVersion {
    fn key(self) -> [u8; 8] {
        let mut key = [0; 8];
        key[..4].copy_from_slice(&self.mosaic.key());
        key[4..].copy_from_slice(&self.number.to_be_bytes());
        key
    }

    /// Returns the version of the next definition.
    fn next(self, keeps_balances: bool) -> DefinitionVersion {
        let number = self.number.saturating_add(1);
        DefinitionVersion { number, balances_since: if keeps_balances { self.balances_since } else { number }, ..self }
    }

    /// Decodes key and value of a definition row.
    fn read(mosaic: MosaicNumber, key: &[u8], value: &[u8]) -> Result<DefinitionVersion> {
        let number = key.get(4..).and_then(|number| number.try_into().ok()).map(u32::from_be_bytes);
        let number = number.ok_or(DAMAGED)?;
        let balances_since = u32::read(&mut ByteReader::new(value, "a mosaic"))?;
        if balances_since > number { Err(DAMAGED) } else { Ok(DefinitionVersion { mosaic, number, balances_since }) }
    }
}

impl MosaicEntry {
    /// Returns the built-in `nem:xem`.
    pub fn xem() -> MosaicEntry {
        let definition = MosaicDefinition::xem();
        MosaicEntry { supply: definition.properties.initial_supply, definition }
    }

    /// Decodes the height of a definition, the definition and its supply.
    fn read(id: &MosaicId, value: &[u8]) -> Result<(Height, MosaicEntry)> {
        let mut input = ByteReader::new(value, "a mosaic");
        let (_, (height, supply)) = <(u32, (Height, u64))>::read(&mut input)?;
        Ok((height, MosaicEntry { supply, definition: read_definition(&mut input, id.clone())? }))
    }
}

/// Writes a definition without its mosaic id.
pub fn write_definition(out: &mut ByteWriter, definition: &MosaicDefinition) {
    out.array(&definition.creator.0);
    out.text(&definition.description);
    definition.properties.divisibility.write(out);
    definition.properties.initial_supply.write(out);
    definition.properties.supply_mutable.write(out);
    definition.properties.transferable.write(out);
    if let Some(levy) = &definition.levy {
        (levy.kind.code() as u8).write(out);
        levy.recipient.write(out);
        levy.mosaic.write(out);
        levy.fee.write(out);
    }
}

/// Reads a definition without its mosaic id, up to the end of the input.
pub fn read_definition(input: &mut ByteReader<'_>, id: MosaicId) -> Result<MosaicDefinition> {
    let creator = PublicKey(input.array()?);
    let description = input.text()?.to_owned();
    let divisibility = Some(u8::read(input)?).filter(|divisibility| *divisibility <= MAX_DIVISIBILITY);
    let properties = MosaicProperties {
        divisibility: divisibility.ok_or(StoreError::Damaged("a divisibility"))?,
        initial_supply: u64::read(input)?,
        supply_mutable: bool::read(input)?,
        transferable: bool::read(input)?,
    };
    let levy = match input.is_empty() {
        true => None,
        false => Some(Levy {
            kind: LevyKind::from_code(u8::read(input)?.into()).ok_or(StoreError::Damaged("a levy"))?,
            recipient: Address::read(input)?,
            mosaic: MosaicId::read(input)?,
            fee: u64::read(input)?,
        }),
    };
    Ok(MosaicDefinition { creator, id, description, properties, levy })
}

/// Returns the newest definition of a mosaic and its supply in whole units; `nem:xem` included.
pub fn mosaic(state: &impl Read, id: &MosaicId) -> Result<Option<MosaicEntry>> {
    if id.is_xem() {
        return Ok(Some(MosaicEntry::xem()));
    }
    Ok(current_mosaic(state, id)?.map(|mosaic| mosaic.entry))
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
    let Some(mosaic) = MosaicNumber::of(state, lease.ownership_period, id)? else { return Ok(None) };
    let (version, value) = last_definition(state, mosaic)?;
    let (defined_at, entry) = MosaicEntry::read(id, value)?;
    let Lease { ownership_period, .. } = lease;
    let lease_state = ownership_period.lease_state(state)?;
    Ok(Some(CurrentMosaic { ownership_period, lease_state, version, entry, defined_at }))
}

/// Returns the last definition of a mosaic, and its stored form.
fn last_definition(state: &impl Read, mosaic: MosaicNumber) -> Result<(DefinitionVersion, &[u8])> {
    let end = [mosaic.key(), [0xFF; 4]].concat();
    let (key, value) = state.last_before(Table::Mosaics, &mosaic.key(), &end)?.ok_or(DAMAGED)?;
    Ok((DefinitionVersion::read(mosaic, key, value)?, value))
}

/// Returns all definitions of an existing mosaic, oldest first.
pub fn history(state: &impl Read, id: &MosaicId) -> Result<Vec<(DefinitionVersion, MosaicEntry)>> {
    let Some(CurrentMosaic { version: DefinitionVersion { mosaic, .. }, .. }) = current_mosaic(state, id)? else {
        return Ok(Vec::new());
    };
    let mut entries = Vec::new();
    state.for_each_prefix(Table::Mosaics, &mosaic.key(), |key, value| {
        entries.push((DefinitionVersion::read(mosaic, key, value)?, MosaicEntry::read(id, value)?.1));
        Ok(true)
    })?;
    Ok(entries)
}

/// Returns the definition of a mosaic in force after the block at a height, if there was one.
pub(super) fn version_at(state: &impl Read, mosaic: MosaicNumber, height: Height) -> Result<Option<DefinitionVersion>> {
    let mut found = None;
    let behind = [mosaic.key(), [0xFF; 4]].concat();
    state.for_each_prefix_rev(Table::Mosaics, &mosaic.key(), &behind, |key, value| {
        let (_, made) = <(u32, Height)>::read(&mut ByteReader::new(value, "a mosaic"))?;
        if made <= height {
            found = Some(DefinitionVersion::read(mosaic, key, value)?);
        }
        Ok(found.is_none())
    })?;
    Ok(found)
}

/// Returns the first mosaic of an ownership period, by text, after another one or of all.
pub(super) fn mosaic_after(
    state: &impl Read,
    ownership_period: OwnershipPeriod,
    after: Option<&MosaicId>,
) -> Result<Option<(MosaicId, MosaicNumber)>> {
    let from = after.map_or(ownership_period.key().to_vec(), |after| next_key(&name_key(ownership_period, after)));
    let entry = state.cursor(Table::MosaicNumbers)?.seek(&from)?;
    let entry = entry.filter(|(key, _)| key.starts_with(&ownership_period.key()));
    entry.map(|(key, value)| Ok((read_name(key)?, MosaicNumber::read_row(value)?))).transpose()
}

/// Calls `visit` with all mosaics of an ownership period, ordered by text, until it returns `false`.
pub(super) fn for_each_mosaic(
    state: &impl Read,
    ownership_period: OwnershipPeriod,
    mut visit: impl FnMut(MosaicId, MosaicNumber) -> Result<bool>,
) -> Result<()> {
    state.for_each_prefix(Table::MosaicNumbers, &ownership_period.key(), |key, value| {
        visit(read_name(key)?, MosaicNumber::read_row(value)?)
    })
}

/// Decodes the mosaic id of a key that starts with the ownership period.
fn read_name(key: &[u8]) -> Result<MosaicId> {
    let text = key.get(4..).and_then(|text| std::str::from_utf8(text).ok());
    text.and_then(|text| MosaicId::parse(text).ok()).ok_or(StoreError::Damaged("a mosaic's key"))
}

impl CurrentMosaic {
    fn put(&self, txn: &mut impl Write) -> Result<()> {
        let mut out = ByteWriter::default();
        (self.version.balances_since, (self.defined_at, self.entry.supply)).write(&mut out);
        write_definition(&mut out, &self.entry.definition);
        txn.put(Table::Mosaics, &self.version.key(), &out.0)
    }
}

fn required_mosaic(state: &impl Read, id: &MosaicId) -> Result<CurrentMosaic, StateError> {
    current_mosaic(state, id)?.ok_or_else(|| StateError::impossible(format!("there is no mosaic {id}")))
}

fn same_terms(a: &MosaicDefinition, b: &MosaicDefinition) -> bool {
    a.properties == b.properties && a.levy == b.levy
}

impl<W: Write> Ledger<'_, W> {
    /// Applies a mosaic definition.
    pub(super) fn define(&mut self, definition: &MosaicDefinition) -> Result<(), StateError> {
        let id = &definition.id;
        let lease = self.require_namespace(&id.namespace)?;
        let creator = self.account_id(&Address::from_public_key(&definition.creator, self.network.byte))?;
        let after_fork = self.block.height.0 >= self.network.chain.forks.mosaic_redefinition;
        let before = current_mosaic(self.txn, id)?;
        if let Some(before) = before.as_ref().filter(|_| !after_fork) {
            self.log_redefined(id, before.version, before.lease_state)?;
        }
        let kept = before.as_ref().filter(|before| after_fork && same_terms(&before.entry.definition, definition));
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
        Ok(mosaic.mark_invested(self.txn, creator)?)
    }

    /// Applies a supply change.
    pub(super) fn change_supply(
        &mut self,
        supplier: &Address,
        id: &MosaicId,
        delta: u64,
        kind: SupplyChangeKind,
    ) -> Result<(), StateError> {
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
            SupplyChangeKind::Create => Ok(mosaic.mark_invested_next_lease(self.txn, creator)?),
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
    ) -> Result<(), StateError> {
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
            match *address == creator || has > 0 {
                true => mosaic.mark_invested(self.txn, account)?,
                false => mark_not_invested(self.txn, account, id)?,
            }
        }
        Ok(())
    }
}
