//! Supply of a mosaic at any height, from its definitions and the supply changes since.

use super::{ListingIndex, Provision, definition_and_height_at, next_row_id};
use crate::model::transaction::{MosaicSupplyChange, SupplyChangeKind};
use crate::model::{Height, MosaicDefinition, MosaicId};
use crate::state::account_tx_list::TxLocation;
use crate::state::bytes::{ByteReader, Stored};
use crate::store::{Read, Result, StoreError, Table, Write, next_key};

/// Blocks within which the next provision of a root counts as a renewal: 396 days (a year, a month and a day) of 1440
/// blocks. NIS1 uses 1440 whatever the block time of the network.
const TERM: u64 = (365 + 30 + 1) * 1440;

/// Records a supply change under the definition in force.
pub(super) fn record(txn: &mut impl Write, change: &MosaicSupplyChange, location: TxLocation) -> Result<()> {
    let row =
        ListingIndex::DefinitionsOf(&change.mosaic).last(txn)?.ok_or(StoreError::Damaged("a definition is missing"))?;
    let key = change_key(row, location);
    let units = change.delta as i64;
    let change = match change.kind {
        SupplyChangeKind::Create => units,
        SupplyChangeKind::Delete => units.wrapping_neg(),
    };
    txn.insert(Table::SupplyChanges, &key, &change.to_stored())
}

/// Returns the key of a supply change under a definition.
fn change_key(definition: u64, location: TxLocation) -> Vec<u8> {
    let TxLocation { height, index } = location;
    [definition.to_be_bytes().as_slice(), &height.0.to_be_bytes(), &index.to_be_bytes()].concat()
}

/// Returns the lowest key of a definition's supply changes from a height on.
fn changes_from(definition: u64, height: Height) -> Vec<u8> {
    change_key(definition, TxLocation { height, index: 0 })
}

/// A mosaic at a height.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoricalSupply {
    /// Its definition.
    pub definition: MosaicDefinition,
    /// Supply in whole units.
    pub units: i64,
    /// Height at which the namespace expires by NIS1's calculation for this query, including renewals after the
    /// requested height; `None` if the root was first rented in the block of the definition.
    pub expiration: Option<Height>,
}

/// A resumable calculation of the supply of a mosaic at a height. It reads one row at a time: the definitions that
/// differ from the newest only in their description, the supply changes since the oldest of them, and the provisions of
/// the root. It holds no reference to the store, so it stays valid between snapshots while the chain grows. Two levies
/// are equal here if all their fields are equal; NIS1 treats equal numbers above 127 as different.
#[derive(Clone, Debug)]
pub struct SupplyQuery {
    height: Height,
    defined_at: Height,
    supply: HistoricalSupply,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    /// Sums the supply changes under the definition with this row id, from a key on.
    Changes { definition: u64, from: Vec<u8> },
    /// Searches the provision of the root in force before the definition.
    FirstLease,
    /// Searches renewals from this row id on.
    Renewals { from: u64 },
    /// All is known.
    Done,
}

impl SupplyQuery {
    /// Starts at the newest definition at or below a height; returns `None` if there is none.
    pub fn new(state: &impl Read, id: &MosaicId, height: Height) -> Result<Option<SupplyQuery>> {
        let end = first_row_at(state, Table::Definitions, height.next())?;
        let Some(newest) = ListingIndex::DefinitionsOf(id).last_before(state, end)? else { return Ok(None) };
        let (defined_at, definition) = definition_and_height_at(state, newest)?;
        let units = i64::try_from(definition.properties.initial_supply).unwrap_or(i64::MAX);
        let supply = HistoricalSupply { definition, units, expiration: None };
        Ok(Some(SupplyQuery { height, defined_at, supply, stage: Stage::changes(newest) }))
    }

    /// Continues while `visit`, called once per row, returns `true`. Returns the supply once it is known.
    pub fn resume(&mut self, state: &impl Read, mut visit: impl FnMut() -> bool) -> Result<Option<HistoricalSupply>> {
        loop {
            let next = match &mut self.stage {
                Stage::Changes { definition, from } => {
                    let definition = *definition;
                    if !add_changes(state, (definition, from), self.height, &mut self.supply.units, &mut visit)? {
                        return Ok(None);
                    }
                    self.previous_definition(state, definition)?
                }
                Stage::FirstLease => self.first_lease(state)?,
                Stage::Renewals { from } => {
                    let from = *from;
                    self.next_lease(state, from)?
                }
                Stage::Done => return Ok(Some(self.supply.clone())),
            };
            self.stage = next;
            if !visit() {
                return Ok(None);
            }
        }
    }

    /// Moves to the previous definition if it differs only in its description.
    fn previous_definition(&self, state: &impl Read, row: u64) -> Result<Stage> {
        let newest = &self.supply.definition;
        let Some(before) = ListingIndex::DefinitionsOf(&newest.id).last_before(state, row)? else {
            return Ok(Stage::FirstLease);
        };
        let (_, older) = definition_and_height_at(state, before)?;
        let is_same =
            (&older.creator, &older.properties, &older.levy) == (&newest.creator, &newest.properties, &newest.levy);
        Ok(if is_same { Stage::changes(before) } else { Stage::FirstLease })
    }

    /// Finds the newest provision of the root below the height of the definition.
    fn first_lease(&mut self, state: &impl Read) -> Result<Stage> {
        let end = first_row_at(state, Table::Provisions, self.defined_at)?;
        let Some(row) = self.provisions().last_before(state, end)? else { return Ok(Stage::Done) };
        self.supply.expiration = Some(Provision::at(state, row)?.height.plus(TERM));
        let from = first_row_at(state, Table::Provisions, self.defined_at.next())?;
        Ok(Stage::Renewals { from })
    }

    /// Moves to the next provision of the root if it lies within [`TERM`] of the previous one.
    fn next_lease(&mut self, state: &impl Read, from: u64) -> Result<Stage> {
        let Some(row) = self.provisions().first_from(state, from)? else { return Ok(Stage::Done) };
        let height = Provision::at(state, row)?.height;
        if self.supply.expiration.is_none_or(|expiration| height > expiration) {
            return Ok(Stage::Done);
        }
        self.supply.expiration = Some(height.plus(TERM));
        Ok(Stage::Renewals { from: row.saturating_add(1) })
    }

    fn provisions(&self) -> ListingIndex<'_> {
        ListingIndex::ProvisionsOf(self.supply.definition.id.namespace.root())
    }
}

impl Stage {
    fn changes(definition: u64) -> Stage {
        Stage::Changes { definition, from: changes_from(definition, Height(0)) }
    }
}

/// Adds the supply changes under a definition up to a height, from a key on. Returns whether all were added.
fn add_changes(
    state: &impl Read,
    (definition, from): (u64, &mut Vec<u8>),
    height: Height,
    units: &mut i64,
    visit: &mut impl FnMut() -> bool,
) -> Result<bool> {
    let (end, start, mut is_wanted) = (changes_from(definition, height.next()), from.clone(), true);
    state.for_each_from(Table::SupplyChanges, &[], &start, |key, value| {
        if key >= end.as_slice() {
            return Ok(false);
        }
        *units = units.saturating_add(i64::from_stored(value, "a change of supply")?);
        *from = next_key(key);
        is_wanted = visit();
        Ok(is_wanted)
    })?;
    Ok(is_wanted)
}

/// Returns the first row id at or above a height in the table of provisions or definitions, whose rows have ascending
/// ids and start with their height.
fn first_row_at(state: &impl Read, table: Table, height: Height) -> Result<u64> {
    let (mut low, mut high) = (1, next_row_id(state, table)?);
    while low < high {
        let middle = low + (high - low) / 2;
        let row = state.get(table, &middle.to_be_bytes())?.ok_or(StoreError::Damaged("a row is missing"))?;
        match Height::read(&mut ByteReader::new(row, "a row"))? < height {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::super::{record_definition, record_provision};
    use super::*;
    use crate::model::{Address, NamespaceId, NetworkByte};
    use crate::store::{WriteTxn, test_store};

    const NETWORK: NetworkByte = NetworkByte::TESTNET;

    /// Adds provisions of the root `a` and definitions of the mosaic `a:b`, by height; a definition also has the fee of
    /// its levy, 0 for none.
    fn build(txn: &mut WriteTxn<'_>, provisions: &[u64], definitions: &[(u64, u64)]) {
        let owner = Address::from_stored([b'T'; 40]);
        for (row, height) in (1..).zip(provisions) {
            let provision = Provision { height: Height(*height), owner, name: NamespaceId::parse("a").unwrap() };
            record_provision(txn, &provision, row).unwrap();
        }
        for (row, (height, fee)) in (1..).zip(definitions) {
            let mut definition = definition();
            definition.description = format!("since {height}");
            definition.levy = (*fee > 0).then(|| crate::model::mosaic::Levy {
                kind: crate::model::mosaic::LevyKind::Absolute,
                recipient: owner,
                mosaic: MosaicId::xem(),
                fee: *fee,
            });
            record_definition(txn, &definition, row, Height(*height), NETWORK).unwrap();
        }
    }

    fn definition() -> MosaicDefinition {
        let mut definition = MosaicDefinition::xem();
        definition.id = MosaicId::parse("a:b").unwrap();
        definition.properties.initial_supply = 100;
        definition
    }

    fn at(txn: &WriteTxn<'_>, height: u64) -> Option<HistoricalSupply> {
        let mut cursor = SupplyQuery::new(txn, &definition().id, Height(height)).unwrap()?;
        Some(cursor.resume(txn, || true).unwrap().expect("an end"))
    }

    #[test]
    fn the_expiration_follows_the_last_provision_and_its_timely_renewals() {
        for (provisions, expected) in [
            (&[5][..], None),
            (&[4], Some(4)),
            (&[2, 4, 5], Some(4)),
            (&[4, 4 + TERM], Some(4 + TERM)),
            (&[4, 5 + TERM, 6 + TERM], Some(4)),
            (&[4, 6, 6 + TERM, 6 + 2 * TERM], Some(6 + 2 * TERM)),
        ] {
            let (store, _folder) = test_store();
            let mut batch = store.begin_write().unwrap();
            build(&mut batch, provisions, &[(5, 0)]);
            assert_eq!(at(&batch, 4), None);
            let expiration = at(&batch, 5).unwrap().expiration;
            assert_eq!(expiration, expected.map(|height| Height(height + TERM)), "{provisions:?}");
        }
    }

    #[test]
    fn supply_changes_count_across_redefinitions_of_only_the_description() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        build(&mut batch, &[1], &[(5, 0), (10, 200), (20, 200)]);
        for (row, height, units) in [(1u64, 6, 1000i64), (2, 11, 10), (2, 12, -3), (3, 20, 5), (3, 30, 1)] {
            let key = changes_from(row, Height(height));
            batch.insert(Table::SupplyChanges, &key, &units.to_le_bytes()).unwrap();
        }
        let supplies =
            [(5, 100), (9, 1100), (10, 100), (11, 110), (19, 107), (20, 112), (29, 112), (u64::MAX - 1, 113)];
        for (height, units) in supplies {
            let supply = at(&batch, height).unwrap();
            assert_eq!(supply.units, units, "at {height}");
            let since = [20, 10, 5].into_iter().find(|since| *since <= height).unwrap();
            assert_eq!(supply.definition.description, format!("since {since}"));
        }
    }
}
