//! Mosaics in the state: definitions, supplies, balances and holdings.

use super::bytes::{ByteReader, ByteWriter};
use super::error::StateError;
use crate::crypto::PublicKey;
use crate::model::mosaic::{LevyKind, MAX_DIVISIBILITY};
use crate::model::transaction::SupplyChangeKind;
use crate::model::{Address, Levy, MosaicDefinition, MosaicId, MosaicProperties, NetworkByte};
use crate::store::{Read, StoreError, Table, Write};

/// One definition of a mosaic, with the supply as it was while the definition was current.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MosaicEntry {
    /// The definition.
    pub definition: MosaicDefinition,
    /// Whole units.
    pub supply: u64,
}

/// Ends the mosaic id in a key: it is smaller than every character of an id.
const SEPARATOR: u8 = 0;

/// Key of all definitions of a mosaic.
pub fn id_prefix(id: &MosaicId) -> Vec<u8> {
    let mut key = id.to_string().into_bytes();
    key.push(SEPARATOR);
    key
}

/// Key of one definition, the oldest having the number 0; prefix of the balances under it.
pub fn entry_key(id: &MosaicId, number: u32) -> Vec<u8> {
    let mut key = id_prefix(id);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn balance_key(id: &MosaicId, number: u32, account: &Address) -> Vec<u8> {
    let mut key = entry_key(id, number);
    key.extend_from_slice(account.as_bytes());
    key
}

fn holding_key(account: &Address, id: &MosaicId) -> Vec<u8> {
    [account.as_bytes().as_slice(), id.to_string().as_bytes()].concat()
}

impl MosaicEntry {
    /// The built-in `nem:xem`.
    pub fn xem() -> MosaicEntry {
        let definition = MosaicDefinition::xem();
        MosaicEntry { supply: definition.properties.initial_supply, definition }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = ByteWriter::default();
        out.u64(self.supply);
        write_terms(&mut out, &self.definition);
        out.0
    }

    fn from_bytes(id: &MosaicId, bytes: &[u8]) -> Result<MosaicEntry, StoreError> {
        let mut input = ByteReader::new(bytes, "a mosaic");
        let supply = input.u64()?;
        Ok(MosaicEntry { supply, definition: read_terms(&mut input, id.clone())? })
    }

    fn put(&self, batch: &mut impl Write, number: u32) -> Result<(), StoreError> {
        batch.put(Table::Mosaics, &entry_key(&self.definition.id, number), &self.to_bytes())
    }
}

/// Writes a definition without its id.
pub fn write_terms(out: &mut ByteWriter, definition: &MosaicDefinition) {
    out.array(&definition.creator.0);
    out.text(&definition.description);
    out.u8(definition.properties.divisibility);
    out.u64(definition.properties.initial_supply);
    out.u8(u8::from(definition.properties.supply_mutable));
    out.u8(u8::from(definition.properties.transferable));
    if let Some(levy) = &definition.levy {
        out.u8(levy.kind.code() as u8);
        out.array(levy.recipient.as_bytes());
        out.text(&levy.mosaic.to_string());
        out.u64(levy.fee);
    }
}

/// Reads a definition that was written without its id, up to the end.
pub fn read_terms(input: &mut ByteReader<'_>, id: MosaicId) -> Result<MosaicDefinition, StoreError> {
    let creator = PublicKey(input.array()?);
    let description = input.text()?.to_owned();
    let divisibility = Some(input.u8()?).filter(|divisibility| *divisibility <= MAX_DIVISIBILITY);
    let properties = MosaicProperties {
        divisibility: divisibility.ok_or(StoreError::Damaged("a divisibility"))?,
        initial_supply: input.u64()?,
        supply_mutable: input.u8()? != 0,
        transferable: input.u8()? != 0,
    };
    let levy = match input.is_empty() {
        true => None,
        false => Some(Levy {
            kind: LevyKind::from_code(i32::from(input.u8()?)).ok_or(StoreError::Damaged("a levy"))?,
            recipient: input.address()?,
            mosaic: MosaicId::parse(input.text()?).map_err(|_| StoreError::Damaged("a levy"))?,
            fee: input.u64()?,
        }),
    };
    Ok(MosaicDefinition { creator, id, description, properties, levy })
}

/// The current definition of a mosaic, with its number. `nem:xem` is not among them.
pub fn current(state: &impl Read, id: &MosaicId) -> Result<Option<(u32, MosaicEntry)>, StoreError> {
    let prefix = id_prefix(id);
    let mut after = prefix.clone();
    after[prefix.len() - 1] = SEPARATOR + 1;
    let mut last = None;
    state.each_before(Table::Mosaics, &prefix, &after, |key, value| {
        let number = key[prefix.len()..].try_into().map_err(|_| StoreError::Damaged("a mosaic's key"))?;
        last = Some((u32::from_be_bytes(number), MosaicEntry::from_bytes(id, value)?));
        Ok(false)
    })?;
    Ok(last)
}

/// All definitions of a mosaic, the oldest first.
pub fn history(state: &impl Read, id: &MosaicId) -> Result<Vec<MosaicEntry>, StoreError> {
    let mut entries = Vec::new();
    state.each(Table::Mosaics, &id_prefix(id), |_, value| {
        entries.push(MosaicEntry::from_bytes(id, value)?);
        Ok(true)
    })?;
    Ok(entries)
}

/// The mosaics whose current definition is in exactly this namespace.
pub fn in_namespace(state: &impl Read, namespace: &str) -> Result<Vec<MosaicId>, StoreError> {
    let mut ids: Vec<MosaicId> = Vec::new();
    state.each(Table::Mosaics, format!("{namespace}:").as_bytes(), |key, _| {
        let text = key.split(|byte| *byte == SEPARATOR).next().unwrap_or_default();
        let id = std::str::from_utf8(text).ok().and_then(|text| MosaicId::parse(text).ok());
        let id = id.ok_or(StoreError::Damaged("a mosaic's key"))?;
        if ids.last() != Some(&id) {
            ids.push(id);
        }
        Ok(true)
    })?;
    Ok(ids)
}

/// Balances under one definition, by address.
pub fn balances(state: &impl Read, id: &MosaicId, number: u32) -> Result<Vec<(Address, u64)>, StoreError> {
    let prefix = entry_key(id, number);
    let mut balances = Vec::new();
    state.each(Table::Balances, &prefix, |key, value| {
        let address = key[prefix.len()..].try_into().map_err(|_| StoreError::Damaged("a balance"))?;
        balances.push((Address::from_stored(address), read_quantity(value)?));
        Ok(true)
    })?;
    Ok(balances)
}

/// What an account has under one definition.
pub fn balance(state: &impl Read, id: &MosaicId, number: u32, account: &Address) -> Result<u64, StoreError> {
    let value = state.get(Table::Balances, &balance_key(id, number, account))?;
    value.map_or(Ok(0), read_quantity)
}

fn read_quantity(value: &[u8]) -> Result<u64, StoreError> {
    value.try_into().map(u64::from_le_bytes).map_err(|_| StoreError::Damaged("a balance"))
}

fn set_balance(
    batch: &mut impl Write,
    id: &MosaicId,
    number: u32,
    account: &Address,
    quantity: u64,
) -> Result<(), StoreError> {
    let key = balance_key(id, number, account);
    match quantity {
        0 => batch.delete(Table::Balances, &key),
        _ => batch.put(Table::Balances, &key, &quantity.to_le_bytes()),
    }
}

/// Makes an account count as invested in a mosaic, or not.
pub fn set_holding(batch: &mut impl Write, account: &Address, id: &MosaicId, held: bool) -> Result<(), StoreError> {
    let key = holding_key(account, id);
    match held {
        true if batch.contains(Table::Holdings, &key)? => Ok(()),
        true => batch.insert(Table::Holdings, &key, &[]),
        false => batch.delete(Table::Holdings, &key),
    }
}

/// The mosaics in which an account counts as invested, by text.
pub fn holdings(state: &impl Read, account: &Address) -> Result<Vec<String>, StoreError> {
    let mut ids = Vec::new();
    state.each(Table::Holdings, account.as_bytes(), |key, _| {
        let text = std::str::from_utf8(&key[account.as_bytes().len()..]);
        ids.push(text.map_err(|_| StoreError::Damaged("a holding"))?.to_owned());
        Ok(true)
    })?;
    Ok(ids)
}

/// Brings the holding of an account into line with its balance.
fn update_holding(
    batch: &mut impl Write,
    id: &MosaicId,
    account: &Address,
    network: NetworkByte,
) -> Result<(), StoreError> {
    let held = match current(batch, id)? {
        None => false,
        Some((number, entry)) => {
            balance(batch, id, number, account)? > 0
                || Address::from_public_key(&entry.definition.creator, network) == *account
        }
    };
    set_holding(batch, account, id, held)
}

/// Result of a definition: whether former balances were lost, as before the redefinition fork.
pub struct Defined {
    /// The balances under the definition that was replaced before the fork, to be logged as expired.
    pub lost: Option<Vec<(Address, u64)>>,
}

/// Carries out a definition.
pub fn define(
    batch: &mut impl Write,
    definition: &MosaicDefinition,
    after_fork: bool,
    network: NetworkByte,
) -> Result<Defined, StateError> {
    let id = &definition.id;
    let creator = Address::from_public_key(&definition.creator, network);
    let previous = current(batch, id)?;
    let number = previous.as_ref().map_or(0, |(number, _)| number + 1);
    let lost = match &previous {
        Some((number, _)) if !after_fork => Some(balances(batch, id, *number)?),
        _ => None,
    };
    match previous {
        Some((before, entry)) if after_fork && same_terms(&entry.definition, definition) => {
            MosaicEntry { definition: definition.clone(), supply: entry.supply }.put(batch, number)?;
            for (account, quantity) in balances(batch, id, before)? {
                set_balance(batch, id, number, &account, quantity)?;
            }
        }
        _ => {
            let properties = &definition.properties;
            let supply = properties.initial_supply;
            MosaicEntry { definition: definition.clone(), supply }.put(batch, number)?;
            set_balance(batch, id, number, &creator, supply * properties.multiplier())?;
        }
    }
    update_holding(batch, id, &creator, network)?;
    Ok(Defined { lost })
}

fn same_terms(a: &MosaicDefinition, b: &MosaicDefinition) -> bool {
    a.properties == b.properties && a.levy == b.levy
}

fn need_current(batch: &impl Read, id: &MosaicId) -> Result<(u32, MosaicEntry), StateError> {
    current(batch, id)?.ok_or_else(|| StateError::impossible(format!("there is no mosaic {id}")))
}

/// Carries out a supply change.
pub fn change_supply(
    batch: &mut impl Write,
    supplier: &Address,
    id: &MosaicId,
    delta: u64,
    kind: SupplyChangeKind,
    network: NetworkByte,
) -> Result<(), StateError> {
    let (number, mut entry) = need_current(batch, id)?;
    let properties = entry.definition.properties;
    let creator = Address::from_public_key(&entry.definition.creator, network);
    let owned = balance(batch, id, number, &creator)?;
    let impossible = || StateError::impossible(format!("the supply of {id} cannot change by {delta}"));
    let quantity = delta.checked_mul(properties.multiplier()).ok_or_else(impossible)?;
    let (supply, owned) = match kind {
        SupplyChangeKind::Create => (entry.supply.checked_add(delta), owned.checked_add(quantity)),
        SupplyChangeKind::Delete => (entry.supply.checked_sub(delta), owned.checked_sub(quantity)),
    };
    let (supply, owned) = supply.zip(owned).filter(|(s, _)| *s <= properties.max_supply()).ok_or_else(impossible)?;
    entry.supply = supply;
    entry.put(batch, number)?;
    set_balance(batch, id, number, &creator, owned)?;
    if kind == SupplyChangeKind::Delete && balance(batch, id, number, supplier)? == 0 {
        set_holding(batch, supplier, id, false)?;
    }
    Ok(())
}

/// Moves a quantity.
pub fn transfer(
    batch: &mut impl Write,
    id: &MosaicId,
    from: &Address,
    to: &Address,
    quantity: u64,
    network: NetworkByte,
) -> Result<(), StateError> {
    let (number, _) = need_current(batch, id)?;
    let left = balance(batch, id, number, from)?.checked_sub(quantity);
    let left = left.ok_or_else(|| StateError::impossible(format!("{from} has too little of {id}")))?;
    set_balance(batch, id, number, from, left)?;
    let sum = balance(batch, id, number, to)?.checked_add(quantity);
    set_balance(batch, id, number, to, sum.ok_or_else(|| StateError::impossible("a quantity exceeds 64 bits"))?)?;
    update_holding(batch, id, from, network)?;
    update_holding(batch, id, to, network)?;
    Ok(())
}

/// Forgets a mosaic with all its definitions and balances.
pub fn remove(batch: &mut impl Write, id: &MosaicId) -> Result<(), StoreError> {
    let prefix = id_prefix(id);
    for table in [Table::Mosaics, Table::Balances] {
        for key in batch.keys(table, &prefix)? {
            batch.delete(table, &key)?;
        }
    }
    Ok(())
}
