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

/// Which definition of a mosaic it is. One that changes nothing but the description goes on with the balances of the one
/// before: they are not copied, but written anew under its number as they change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edition {
    /// Its number; the oldest has 0.
    pub number: u32,
    /// Number of the definition with which its balances began.
    pub first: u32,
}

/// Ends the mosaic id in a key: it is smaller than every character of an id.
const SEPARATOR: u8 = 0;

/// Key of all definitions of a mosaic.
pub fn id_prefix(id: &MosaicId) -> Vec<u8> {
    let mut key = id.to_string().into_bytes();
    key.push(SEPARATOR);
    key
}

/// Key of one definition, the oldest having the number 0.
fn entry_key(id: &MosaicId, number: u32) -> Vec<u8> {
    let mut key = id_prefix(id);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Prefix of all balances that an account has or had of a mosaic.
fn account_prefix(id: &MosaicId, account: &Address) -> Vec<u8> {
    let mut key = id_prefix(id);
    key.extend_from_slice(account.as_bytes());
    key
}

fn balance_key(id: &MosaicId, number: u32, account: &Address) -> Vec<u8> {
    let mut key = account_prefix(id, account);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Account and number of the definition in the key of a balance, behind the id.
fn parse_balance_key(rest: &[u8]) -> Result<(Address, u32), StoreError> {
    let (address, number) = rest.split_first_chunk().ok_or(StoreError::Damaged("a balance"))?;
    let number = number.try_into().map_err(|_| StoreError::Damaged("a balance"))?;
    Ok((Address::from_stored(*address), u32::from_be_bytes(number)))
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

    fn put(&self, batch: &mut impl Write, edition: Edition) -> Result<(), StoreError> {
        let mut out = ByteWriter::default();
        out.u32(edition.first);
        out.u64(self.supply);
        write_terms(&mut out, &self.definition);
        batch.put(Table::Mosaics, &entry_key(&self.definition.id, edition.number), &out.0)
    }

    /// Reads it from its value and what follows the id in its key.
    fn read(id: &MosaicId, number: &[u8], value: &[u8]) -> Result<(Edition, MosaicEntry), StoreError> {
        let number = number.try_into().map_err(|_| StoreError::Damaged("a mosaic's key"))?;
        let number = u32::from_be_bytes(number);
        let mut input = ByteReader::new(value, "a mosaic");
        let first = Some(input.u32()?).filter(|first| *first <= number).ok_or(StoreError::Damaged("a mosaic"))?;
        let supply = input.u64()?;
        let entry = MosaicEntry { supply, definition: read_terms(&mut input, id.clone())? };
        Ok((Edition { number, first }, entry))
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

/// The current definition of a mosaic. `nem:xem` is not among them.
pub fn current(state: &impl Read, id: &MosaicId) -> Result<Option<(Edition, MosaicEntry)>, StoreError> {
    let prefix = id_prefix(id);
    let mut after = prefix.clone();
    after[prefix.len() - 1] = SEPARATOR + 1;
    let mut last = None;
    state.each_before(Table::Mosaics, &prefix, &after, |key, value| {
        last = Some(MosaicEntry::read(id, &key[prefix.len()..], value)?);
        Ok(false)
    })?;
    Ok(last)
}

/// All definitions of a mosaic, the oldest first.
pub fn history(state: &impl Read, id: &MosaicId) -> Result<Vec<(Edition, MosaicEntry)>, StoreError> {
    let prefix = id_prefix(id);
    let mut entries = Vec::new();
    state.each(Table::Mosaics, &prefix, |key, value| {
        entries.push(MosaicEntry::read(id, &key[prefix.len()..], value)?);
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

/// Balances under one definition, by address; none of them is 0.
pub fn balances(state: &impl Read, id: &MosaicId, edition: Edition) -> Result<Vec<(Address, u64)>, StoreError> {
    let prefix = id_prefix(id);
    let mut balances: Vec<(Address, u64)> = Vec::new();
    state.each(Table::Balances, &prefix, |key, value| {
        let (account, number) = parse_balance_key(&key[prefix.len()..])?;
        if (edition.first..=edition.number).contains(&number) {
            // The newest comes last.
            balances.pop_if(|last| last.0 == account);
            balances.push((account, read_quantity(value)?));
        }
        Ok(true)
    })?;
    balances.retain(|(_, quantity)| *quantity > 0);
    Ok(balances)
}

/// What an account has under one definition.
pub fn balance(state: &impl Read, id: &MosaicId, edition: Edition, account: &Address) -> Result<u64, StoreError> {
    let value = state.get(Table::Balances, &balance_key(id, edition.number, account))?;
    match value {
        Some(value) => read_quantity(value),
        None => Ok(older_balance(state, id, edition, account)?.unwrap_or(0)),
    }
}

/// What an account had when the definition was made, if that was written then.
fn older_balance(
    state: &impl Read,
    id: &MosaicId,
    edition: Edition,
    account: &Address,
) -> Result<Option<u64>, StoreError> {
    if edition.first == edition.number {
        return Ok(None);
    }
    let (prefix, end) = (account_prefix(id, account), balance_key(id, edition.number, account));
    let mut found = None;
    state.each_before(Table::Balances, &prefix, &end, |key, value| {
        let number = key[prefix.len()..].try_into().map_err(|_| StoreError::Damaged("a balance"))?;
        if u32::from_be_bytes(number) >= edition.first {
            found = Some(read_quantity(value)?);
        }
        Ok(false)
    })?;
    Ok(found)
}

fn read_quantity(value: &[u8]) -> Result<u64, StoreError> {
    value.try_into().map(u64::from_le_bytes).map_err(|_| StoreError::Damaged("a balance"))
}

fn set_balance(
    batch: &mut impl Write,
    id: &MosaicId,
    edition: Edition,
    account: &Address,
    quantity: u64,
) -> Result<(), StoreError> {
    let key = balance_key(id, edition.number, account);
    // Nothing is the same as no row, unless an older row says otherwise.
    match quantity == 0 && older_balance(batch, id, edition, account)?.unwrap_or(0) == 0 {
        true => batch.delete(Table::Balances, &key),
        false => batch.put(Table::Balances, &key, &quantity.to_le_bytes()),
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
        Some((edition, entry)) => {
            balance(batch, id, edition, account)? > 0
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
    let number = previous.as_ref().map_or(0, |(edition, _)| edition.number + 1);
    let lost = match &previous {
        Some((edition, _)) if !after_fork => Some(balances(batch, id, *edition)?),
        _ => None,
    };
    match previous {
        Some((Edition { first, .. }, entry)) if after_fork && same_terms(&entry.definition, definition) => {
            let entry = MosaicEntry { definition: definition.clone(), supply: entry.supply };
            entry.put(batch, Edition { number, first })?;
        }
        _ => {
            let (properties, edition) = (&definition.properties, Edition { number, first: number });
            let supply = properties.initial_supply;
            MosaicEntry { definition: definition.clone(), supply }.put(batch, edition)?;
            set_balance(batch, id, edition, &creator, supply * properties.multiplier())?;
        }
    }
    update_holding(batch, id, &creator, network)?;
    Ok(Defined { lost })
}

fn same_terms(a: &MosaicDefinition, b: &MosaicDefinition) -> bool {
    a.properties == b.properties && a.levy == b.levy
}

fn need_current(batch: &impl Read, id: &MosaicId) -> Result<(Edition, MosaicEntry), StateError> {
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
    let (edition, mut entry) = need_current(batch, id)?;
    let properties = entry.definition.properties;
    let creator = Address::from_public_key(&entry.definition.creator, network);
    let owned = balance(batch, id, edition, &creator)?;
    let impossible = || StateError::impossible(format!("the supply of {id} cannot change by {delta}"));
    let quantity = delta.checked_mul(properties.multiplier()).ok_or_else(impossible)?;
    let (supply, owned) = match kind {
        SupplyChangeKind::Create => (entry.supply.checked_add(delta), owned.checked_add(quantity)),
        SupplyChangeKind::Delete => (entry.supply.checked_sub(delta), owned.checked_sub(quantity)),
    };
    let (supply, owned) = supply.zip(owned).filter(|(s, _)| *s <= properties.max_supply()).ok_or_else(impossible)?;
    entry.supply = supply;
    entry.put(batch, edition)?;
    set_balance(batch, id, edition, &creator, owned)?;
    if kind == SupplyChangeKind::Delete && balance(batch, id, edition, supplier)? == 0 {
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
    let (edition, _) = need_current(batch, id)?;
    let left = balance(batch, id, edition, from)?.checked_sub(quantity);
    let left = left.ok_or_else(|| StateError::impossible(format!("{from} has too little of {id}")))?;
    set_balance(batch, id, edition, from, left)?;
    let sum = balance(batch, id, edition, to)?.checked_add(quantity);
    set_balance(batch, id, edition, to, sum.ok_or_else(|| StateError::impossible("a quantity exceeds 64 bits"))?)?;
    update_holding(batch, id, from, network)?;
    update_holding(batch, id, to, network)?;
    Ok(())
}

/// Forgets a mosaic with all its definitions and balances.
pub fn remove(batch: &mut impl Write, id: &MosaicId) -> Result<(), StoreError> {
    while !remove_some(batch, id, usize::MAX)? {}
    Ok(())
}

/// Forgets some rows of a mosaic, at most so many; whether none are left.
pub fn remove_some(batch: &mut impl Write, id: &MosaicId, most: usize) -> Result<bool, StoreError> {
    let prefix = id_prefix(id);
    let mut removed = 0;
    for table in [Table::Mosaics, Table::Balances] {
        let mut keys = Vec::new();
        batch.each(table, &prefix, |key, _| {
            let has_room = removed + keys.len() < most;
            if has_room {
                keys.push(key.to_vec());
            }
            Ok(has_room)
        })?;
        removed += keys.len();
        keys.iter().try_for_each(|key| batch.delete(table, key))?;
    }
    Ok(removed < most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::mosaic::MosaicProperties;
    use crate::store::{Batch, test_store};

    const NETWORK: NetworkByte = NetworkByte::TESTNET;

    fn account(number: u8) -> Address {
        Address::from_public_key(&PublicKey([number; 32]), NETWORK)
    }

    fn definition(description: &str, supply: u64) -> MosaicDefinition {
        MosaicDefinition {
            creator: PublicKey([0; 32]),
            id: MosaicId::parse("alice.vouchers:gift").unwrap(),
            description: description.to_owned(),
            properties: MosaicProperties {
                divisibility: 0,
                initial_supply: supply,
                supply_mutable: true,
                transferable: true,
            },
            levy: None,
        }
    }

    /// What happens to a mosaic.
    #[derive(Clone, Copy, Debug)]
    enum Deed {
        /// A definition with this description and supply.
        Define(u8, u64),
        /// So many units from one account to another.
        Transfer(u8, u8, u64),
        Supply(u64, bool),
    }

    fn deeds() -> impl Strategy<Value = Vec<Deed>> {
        let deed = prop_oneof![
            (0..3u8, 100..102u64).prop_map(|(text, supply)| Deed::Define(text, supply)),
            (0..4u8, 0..4u8, 0..60u64).prop_map(|(from, to, quantity)| Deed::Transfer(from, to, quantity)),
            (0..4u8, 0..4u8, Just(100)).prop_map(|(from, to, all)| Deed::Transfer(from, to, all)),
            (1..50u64, any::<bool>()).prop_map(|(delta, more)| Deed::Supply(delta, more)),
        ];
        prop::collection::vec(deed, 1..40)
    }

    /// The balances of every definition, copied each time that one goes on with those of the one before.
    #[derive(Default)]
    struct Copies(Vec<(u64, std::collections::BTreeMap<Address, u64>)>);

    impl Copies {
        /// Does the same, and whether it is possible.
        fn carry_out(&mut self, deed: Deed) -> bool {
            match (deed, self.0.last_mut()) {
                (Deed::Define(_, supply), Some((last, balances))) if *last == supply => {
                    let copy = (supply, balances.clone());
                    self.0.push(copy);
                }
                (Deed::Define(_, supply), _) => self.0.push((supply, [(account(0), supply)].into())),
                (_, None) => return false,
                (Deed::Transfer(from, to, quantity), Some((_, balances))) => {
                    let has = balances.get(&account(from)).copied().unwrap_or(0);
                    if has < quantity {
                        return false;
                    }
                    balances.insert(account(from), has - quantity);
                    *balances.entry(account(to)).or_default() += quantity;
                }
                (Deed::Supply(delta, true), Some((_, balances))) => *balances.entry(account(0)).or_default() += delta,
                (Deed::Supply(delta, false), Some((_, balances))) => {
                    match balances.get(&account(0)).and_then(|has| has.checked_sub(delta)) {
                        Some(left) => drop(balances.insert(account(0), left)),
                        None => return false,
                    }
                }
            }
            true
        }
    }

    fn carry_out(batch: &mut Batch<'_>, deed: Deed) -> bool {
        let id = &definition("", 0).id;
        let done = match deed {
            Deed::Define(text, supply) => {
                define(batch, &definition(&text.to_string(), supply), true, NETWORK).map(drop)
            }
            Deed::Transfer(from, to, quantity) => transfer(batch, id, &account(from), &account(to), quantity, NETWORK),
            Deed::Supply(delta, more) => {
                let kind = if more { SupplyChangeKind::Create } else { SupplyChangeKind::Delete };
                change_supply(batch, &account(0), id, delta, kind, NETWORK)
            }
        };
        done.is_ok()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn every_definition_has_the_balances_that_it_would_have_if_they_were_copied(deeds in deeds()) {
            let (store, _folder) = test_store();
            let (mut batch, mut copies) = (store.begin().unwrap(), Copies::default());
            for deed in deeds {
                // What is impossible may have changed something: whoever does it gives the whole block up.
                let mut trial = Copies(copies.0.clone());
                if trial.carry_out(deed) {
                    copies = trial;
                    prop_assert!(carry_out(&mut batch, deed), "{deed:?}");
                }
                let history = history(&batch, &definition("", 0).id).unwrap();
                prop_assert_eq!(history.len(), copies.0.len());
                for ((edition, entry), (_, expected)) in history.iter().zip(&copies.0) {
                    let id = &entry.definition.id;
                    let expected: Vec<_> = expected.iter().map(|(a, b)| (*a, *b)).filter(|(_, b)| *b > 0).collect();
                    prop_assert_eq!(&balances(&batch, id, *edition).unwrap(), &expected);
                    for number in 0..4 {
                        let one = expected.iter().find(|(a, _)| *a == account(number)).map_or(0, |(_, b)| *b);
                        prop_assert_eq!(balance(&batch, id, *edition, &account(number)).unwrap(), one);
                    }
                }
            }
        }
    }

    #[test]
    fn a_new_description_costs_the_same_however_many_hold_the_mosaic() {
        let cost = |holders: u32| {
            let (store, _folder) = test_store();
            let mut batch = store.begin().unwrap();
            define(&mut batch, &definition("old", 1_000_000), true, NETWORK).unwrap();
            for number in 0..holders {
                let mut key = [7; 32];
                key[..4].copy_from_slice(&number.to_le_bytes());
                let to = Address::from_public_key(&PublicKey(key), NETWORK);
                transfer(&mut batch, &definition("", 0).id, &account(0), &to, 1, NETWORK).unwrap();
            }
            batch.take_journal();
            define(&mut batch, &definition("new", 1_000_000), true, NETWORK).unwrap();
            batch.take_journal().len()
        };
        assert_eq!(cost(3_000), cost(3));
    }
}
