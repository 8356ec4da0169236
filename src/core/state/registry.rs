//! Registry of all namespace provisions and mosaic definitions, with row ids by which the API pages.
//!
//! Other state tables forget what has been lost; the registry forgets nothing. The listing indexes of active entries
//! follow the leases: entries go when a lease ends and return when it is renewed, so that a page is one range scan. The
//! supply of a mosaic at any height follows from its definitions and the supply changes since.

use super::account_tx_list::TxLocation;
use super::bytes::{Stored, stored};
use super::namespaces::{self, Lease};
use super::{Exception, StateResult};
use crate::codec::ByteReader;
use crate::model::transaction::{MosaicSupplyChange, SupplyChangeKind};
use crate::model::{Address, Block, Body, Height, MosaicDefinition, MosaicId, NamespaceId, NetworkByte, Transaction};
use crate::store::{Read, Result, StoreError, Table, Write, next_key};

/// Terminates a name in a key. It sorts before every character of a name.
const SEPARATOR: u8 = 0;

/// A namespace provision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provision {
    /// Height of its block.
    pub height: Height,
    /// The account that rents the namespace.
    pub owner: Address,
    /// The full name.
    pub name: NamespaceId,
}

stored!(Provision { height, owner, name });

impl Provision {
    /// Reads the provision with a row id.
    pub fn at(state: &impl Read, row: u64) -> Result<Provision> {
        let bytes = state.get(Table::Provisions, &row.to_be_bytes())?.unwrap_or_default();
        Provision::from_stored(bytes, "a provision")
    }
}

/// Reads the definition with a row id, and the height of its block.
pub fn definition_at(state: &impl Read, row: u64) -> Result<(Height, MosaicDefinition)> {
    let bytes = state.get(Table::Definitions, &row.to_be_bytes())?.unwrap_or_default();
    Stored::from_stored(bytes, "a mosaic definition")
}

/// A listing index: an ordered list of row ids. Where a mosaic has several definitions, "the definition" is the newest.
#[derive(Clone, Copy, Debug)]
pub enum ListingIndex<'a> {
    /// The newest provision of every active root.
    Roots,
    /// The definition of every mosaic with an active namespace.
    Definitions,
    /// The same, for one creator.
    DefinitionsBy(&'a Address),
    /// The definition of every mosaic of exactly this namespace, active or not.
    DefinitionsIn(&'a str),
    /// All definitions of a mosaic.
    DefinitionsOf(&'a MosaicId),
    /// All provisions of a name by an account.
    ProvisionsBy(&'a Address, &'a str),
    /// All provisions of a root, by any account.
    ProvisionsOf(&'a str),
}

impl ListingIndex<'_> {
    /// Returns the common prefix of the keys of the index.
    fn prefix(self) -> Vec<u8> {
        match self {
            ListingIndex::Roots => b"r".to_vec(),
            ListingIndex::Definitions => b"d".to_vec(),
            ListingIndex::DefinitionsBy(creator) => [b"c", creator.as_bytes().as_slice()].concat(),
            ListingIndex::DefinitionsIn(namespace) => [b"n", namespace.as_bytes(), &[SEPARATOR]].concat(),
            ListingIndex::DefinitionsOf(id) => [b"m", id.to_string().as_bytes(), &[SEPARATOR]].concat(),
            ListingIndex::ProvisionsBy(owner, name) => {
                [&provisions_prefix(owner, name), [SEPARATOR].as_slice()].concat()
            }
            ListingIndex::ProvisionsOf(root) => [b"p", root.as_bytes(), &[SEPARATOR]].concat(),
        }
    }

    fn key(self, row: u64) -> Vec<u8> {
        let mut key = self.prefix();
        key.extend_from_slice(&row.to_be_bytes());
        key
    }

    /// Returns the row ids below `end` in descending order.
    pub fn before<'s, S: Read>(self, state: &'s S, end: u64) -> Result<impl Iterator<Item = Result<u64>> + use<'s, S>> {
        let prefix = self.prefix();
        let entries = state.entries_before(Table::ListingIndex, &prefix, &self.key(end))?;
        Ok(entries.map(move |entry| parse_row_id(&entry?.0[prefix.len()..])))
    }

    /// Returns the last row id.
    pub fn last(self, state: &impl Read) -> Result<Option<u64>> {
        self.last_before(state, u64::MAX)
    }

    /// Returns the last row id below `end`.
    fn last_before(self, state: &impl Read, end: u64) -> Result<Option<u64>> {
        self.before(state, end)?.next().transpose()
    }

    /// Returns the first row id at or above `start`.
    fn first_from(self, state: &impl Read, start: u64) -> Result<Option<u64>> {
        let prefix = self.prefix();
        let entry = state.first_from(Table::ListingIndex, &prefix, &self.key(start))?;
        entry.map(|(key, _)| parse_row_id(&key[prefix.len()..])).transpose()
    }

    fn put(self, txn: &mut impl Write, row: u64, listed: bool) -> Result<()> {
        txn.set(Table::ListingIndex, &self.key(row), listed.then_some(&[]))
    }
}

/// Returns the key prefix of an account's provisions of names that start with `start`.
fn provisions_prefix(owner: &Address, start: &str) -> Vec<u8> {
    [b"o", owner.as_bytes().as_slice(), start.as_bytes()].concat()
}

fn parse_row_id(bytes: &[u8]) -> Result<u64> {
    bytes.try_into().map(u64::from_be_bytes).map_err(|_| StoreError::Damaged("a row id"))
}

/// A resumable cursor over the provisions of an account, ordered by name.
#[derive(Clone, Debug)]
pub struct ProvisionCursor {
    owner: Address,
    parent: String,
    /// Key at which to continue.
    from: Vec<u8>,
}

impl ProvisionCursor {
    /// Selects all provisions, or those of names below `parent`. An underscore in `parent` matches any character.
    /// Returns `None` if the account never rented the root of `parent`.
    pub fn new(state: &impl Read, owner: Address, parent: Option<&NamespaceId>) -> Result<Option<ProvisionCursor>> {
        if let Some(parent) = parent
            && ListingIndex::ProvisionsBy(&owner, parent.root()).last(state)?.is_none()
        {
            return Ok(None);
        }
        let parent = parent.map_or("", NamespaceId::as_str).to_owned();
        let from = provisions_prefix(&owner, literal_prefix(&parent));
        Ok(Some(ProvisionCursor { owner, parent, from }))
    }

    /// Calls `visit` with the name of each provision and whether it matches, until it returns `false`.
    pub fn resume(
        &mut self,
        state: &impl Read,
        mut visit: impl FnMut(NamespaceId, bool) -> Result<bool>,
    ) -> Result<()> {
        let prefix = provisions_prefix(&self.owner, literal_prefix(&self.parent));
        let ProvisionCursor { owner, parent, from } = self;
        for entry in state.entries_from(Table::ListingIndex, &prefix, from)? {
            let (key, _) = entry?;
            let name = key[provisions_prefix(owner, "").len()..].split(|byte| *byte == SEPARATOR).next();
            let name = name.and_then(|name| std::str::from_utf8(name).ok());
            let name = name.and_then(|name| NamespaceId::parse(name).ok()).ok_or(StoreError::Damaged("a name"))?;
            let is_match = parent.is_empty() || is_below(parent, name.as_str());
            *from = next_key(key);
            if !visit(name, is_match)? {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the literal prefix of a pattern.
fn literal_prefix(pattern: &str) -> &str {
    pattern.split('_').next().unwrap_or_default()
}

/// Returns whether a name starts with the pattern `parent` and a dot.
fn is_below(parent: &str, name: &str) -> bool {
    let alike = parent.bytes().zip(name.bytes()).all(|(pattern, letter)| pattern == b'_' || pattern == letter);
    alike && name.as_bytes().get(parent.len()) == Some(&b'.')
}

/// Returns the next free row id of a table.
fn next_row_id(state: &impl Read, table: Table) -> Result<u64> {
    let last = state.cursor(table)?.last()?.map(|(key, _)| parse_row_id(key)).transpose()?;
    Ok(last.unwrap_or(0).saturating_add(1))
}

/// Assigns row ids to the provisions and definitions of a block, by transaction; 0 for other transactions. Provisions
/// and definitions have separate sequences. Provisions inside multisig transactions precede the others.
pub fn assign_row_ids(state: &impl Read, block: &Block) -> Result<Vec<u64>> {
    let mut rows = vec![0; block.transactions.len()];
    let mut next = next_row_id(state, Table::Provisions)?;
    for is_nested in [true, false] {
        for (transaction, row) in block.transactions.iter().zip(&mut rows) {
            let is_provision = matches!(inner_or_self(transaction).body, Body::ProvisionNamespace(_));
            if is_provision && transaction.inner().is_some() == is_nested {
                *row = next;
                next += 1;
            }
        }
    }
    let mut next = next_row_id(state, Table::Definitions)?;
    for (transaction, row) in block.transactions.iter().zip(&mut rows) {
        if matches!(inner_or_self(transaction).body, Body::MosaicDefinitionCreation(_)) {
            *row = next;
            next += 1;
        }
    }
    Ok(rows)
}

fn inner_or_self(transaction: &Transaction) -> &Transaction {
    transaction.inner().unwrap_or(transaction)
}

/// Adds a transaction to the registry, after its whole block was applied. Returns the pending update of the listing
/// indexes, if there is one.
pub fn record(
    txn: &mut impl Write,
    transaction: &Transaction,
    row: u64,
    location: TxLocation,
    network: NetworkByte,
) -> StateResult<Option<ListingUpdate>> {
    let transaction = inner_or_self(transaction);
    let height = location.height;
    match &transaction.body {
        Body::ProvisionNamespace(body) => {
            let name = body.name().map_err(Exception::argument)?;
            let provision = Provision { height, owner: transaction.signer_address(network), name };
            return Ok(Some(record_provision(txn, &provision, row)?));
        }
        Body::MosaicDefinitionCreation(body) => record_definition(txn, &body.definition, row, height, network)?,
        Body::MosaicSupplyChange(body) => record_supply_change(txn, body, location)?,
        _ => {}
    }
    Ok(None)
}

fn record_provision(txn: &mut impl Write, provision: &Provision, row: u64) -> Result<ListingUpdate> {
    let name = &provision.name;
    let own = ListingIndex::ProvisionsBy(&provision.owner, name.as_str());
    let mut lease = None;
    if name.is_root() {
        ListingIndex::ProvisionsOf(name.as_str()).put(txn, row, true)?;
        // If the previous lease has not ended, its provision is still listed, and it belongs to the same account.
        if let Some(before) = own.last(txn)? {
            ListingIndex::Roots.put(txn, before, false)?;
        }
        ListingIndex::Roots.put(txn, row, true)?;
        lease = namespaces::leases(txn, name.as_str())?.pop();
    }
    own.put(txn, row, true)?;
    txn.insert(Table::Provisions, &row.to_be_bytes(), &provision.to_stored())?;
    Ok(ListingUpdate::new(name.as_str(), lease, true))
}

fn record_definition(
    txn: &mut impl Write,
    definition: &MosaicDefinition,
    row: u64,
    height: Height,
    network: NetworkByte,
) -> Result<()> {
    let id = &definition.id;
    if let Some(before) = ListingIndex::DefinitionsOf(id).last(txn)? {
        set_definition_listed(txn, before, false, network)?;
        ListingIndex::DefinitionsIn(id.namespace.as_str()).put(txn, before, false)?;
    }
    let mut out = height.to_stored();
    definition.write(&mut out);
    txn.insert(Table::Definitions, &row.to_be_bytes(), &out)?;
    set_definition_listed(txn, row, true, network)?;
    ListingIndex::DefinitionsIn(id.namespace.as_str()).put(txn, row, true)?;
    ListingIndex::DefinitionsOf(id).put(txn, row, true)
}

/// Removes a root whose last lease ends from the listing index. Returns the pending update of its mosaics.
pub fn expire(txn: &mut impl Write, root: &str, lease: Lease) -> Result<ListingUpdate> {
    if let Some(row) = ListingIndex::ProvisionsBy(&lease.owner, root).last(txn)? {
        ListingIndex::Roots.put(txn, row, false)?;
    }
    Ok(ListingUpdate::new(root, Some(lease), false))
}

/// Definitions listed or unlisted in one step.
const ROWS_PER_STEP: usize = 32;

/// An incremental update of the listing indexes: adds or removes the mosaics of namespaces, some rows per step.
pub struct ListingUpdate {
    listed: bool,
    /// The current namespace, and the row id below which its definitions are still to be processed.
    name: String,
    before: u64,
    /// The lease whose sub-namespaces follow.
    lease: Option<Lease>,
}

impl ListingUpdate {
    /// Creates the update of a namespace and, if it is a root, of all sub-namespaces of one of its leases.
    fn new(name: &str, lease: Option<Lease>, listed: bool) -> ListingUpdate {
        ListingUpdate { listed, name: name.to_owned(), before: u64::MAX, lease }
    }

    /// Runs one step; returns whether work remains.
    pub fn step(&mut self, txn: &mut impl Write, network: NetworkByte) -> Result<bool> {
        let rows = ListingIndex::DefinitionsIn(&self.name).before(txn, self.before)?.take(ROWS_PER_STEP);
        let rows = rows.collect::<Result<Vec<_>>>()?;
        rows.iter().try_for_each(|row| set_definition_listed(txn, *row, self.listed, network))?;
        if let Some(last) = rows.last().filter(|_| rows.len() == ROWS_PER_STEP) {
            self.before = *last;
            return Ok(true);
        }
        let after = if self.name.contains('.') { self.name.as_str() } else { "" };
        let Some(lease) = &self.lease else { return Ok(false) };
        let Some(next) = namespaces::subnamespaces_after(txn, lease, after, 1)?.pop() else { return Ok(false) };
        (self.name, self.before) = (next, u64::MAX);
        Ok(true)
    }
}

fn set_definition_listed(txn: &mut impl Write, row: u64, listed: bool, network: NetworkByte) -> Result<()> {
    let creator = Address::from_public_key(&definition_at(txn, row)?.1.creator, network);
    ListingIndex::Definitions.put(txn, row, listed)?;
    ListingIndex::DefinitionsBy(&creator).put(txn, row, listed)
}

/// Blocks within which the next provision of a root counts as a renewal: 396 days (a year, a month and a day) of 1440
/// blocks. NIS1 uses 1440 whatever the block time of the network.
const TERM: u64 = (365 + 30 + 1) * 1440;

/// Records a supply change under the definition in force.
fn record_supply_change(txn: &mut impl Write, change: &MosaicSupplyChange, location: TxLocation) -> Result<()> {
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

/// A resumable calculation of the supply of a mosaic at a height. It reads the definitions that differ from the newest
/// only in their description, the supply changes since the oldest of them, row by row, and then the provisions of the
/// root, of which there is one in most of a year. It holds no reference to the store, so it stays valid between snapshots
/// while the chain grows. Two levies are equal here if all their fields are equal; NIS1 treats equal numbers above 127 as
/// different.
#[derive(Clone, Debug)]
pub struct SupplyQuery {
    height: Height,
    defined_at: Height,
    supply: HistoricalSupply,
    /// Row id of the definition whose supply changes are summed, and the key from which on; `None` once all are.
    changes: Option<(u64, Vec<u8>)>,
    /// Row id from which on renewals of the root are read; `None` until the provision before them is.
    renewals: Option<u64>,
}

impl SupplyQuery {
    /// Starts at the newest definition at or below a height; returns `None` if there is none.
    pub fn new(state: &impl Read, id: &MosaicId, height: Height) -> Result<Option<SupplyQuery>> {
        let end = first_row_at(state, Table::Definitions, height.next())?;
        let Some(newest) = ListingIndex::DefinitionsOf(id).last_before(state, end)? else { return Ok(None) };
        let (defined_at, definition) = definition_at(state, newest)?;
        let units = i64::try_from(definition.properties.initial_supply).unwrap_or(i64::MAX);
        let supply = HistoricalSupply { definition, units, expiration: None };
        let changes = Some((newest, changes_from(newest, Height(0))));
        Ok(Some(SupplyQuery { height, defined_at, supply, changes, renewals: None }))
    }

    /// Continues while `visit`, called once per row, returns `true`. Returns the supply once it is known.
    pub fn resume(&mut self, state: &impl Read, mut visit: impl FnMut() -> bool) -> Result<Option<HistoricalSupply>> {
        while let Some((definition, from)) = &mut self.changes {
            let definition = *definition;
            let end = changes_from(definition, self.height.next());
            for entry in state.entries_from(Table::SupplyChanges, &[], from)? {
                let (key, value) = entry?;
                if key >= end.as_slice() {
                    break;
                }
                self.supply.units = self.supply.units.saturating_add(i64::from_stored(value, "a change of supply")?);
                *from = next_key(key);
                if !visit() {
                    return Ok(None);
                }
            }
            let before = self.previous_definition(state, definition)?;
            self.changes = before.map(|before| (before, changes_from(before, Height(0))));
            if !visit() {
                return Ok(None);
            }
        }
        while self.extend_lease(state)? {
            if !visit() {
                return Ok(None);
            }
        }
        Ok(Some(self.supply.clone()))
    }

    /// Returns the previous definition if it differs only in its description.
    fn previous_definition(&self, state: &impl Read, row: u64) -> Result<Option<u64>> {
        let newest = &self.supply.definition;
        let Some(before) = ListingIndex::DefinitionsOf(&newest.id).last_before(state, row)? else { return Ok(None) };
        let (_, older) = definition_at(state, before)?;
        Ok(Some(before).filter(|_| older.creator == newest.creator && older.has_terms_of(newest)))
    }

    /// Reads the newest provision of the root below the height of the definition, then its renewals one after the other:
    /// each is the next provision, if it lies within [`TERM`] of the previous one. Returns whether there was one.
    fn extend_lease(&mut self, state: &impl Read) -> Result<bool> {
        let provisions = ListingIndex::ProvisionsOf(self.supply.definition.id.namespace.root());
        let row = match self.renewals {
            None => provisions.last_before(state, first_row_at(state, Table::Provisions, self.defined_at)?)?,
            Some(from) => provisions.first_from(state, from)?,
        };
        let Some(row) = row else { return Ok(false) };
        let height = Provision::at(state, row)?.height;
        if self.supply.expiration.is_some_and(|end| height > end) {
            return Ok(false);
        }
        self.renewals = Some(match self.renewals {
            None => first_row_at(state, Table::Provisions, self.defined_at.next())?,
            Some(_) => row.saturating_add(1),
        });
        self.supply.expiration = Some(height.plus(TERM));
        Ok(true)
    }
}

/// Returns the first row id at or above a height in the table of provisions or definitions, whose rows have ascending
/// ids and start with their height.
fn first_row_at(state: &impl Read, table: Table, height: Height) -> Result<u64> {
    let (mut low, mut high) = (1, next_row_id(state, table)?);
    while low < high {
        let middle = low + (high - low) / 2;
        let row = state.get(table, &middle.to_be_bytes())?.ok_or(StoreError::Damaged("a row is missing"))?;
        if Height::read(&mut ByteReader(row)).ok_or(StoreError::Damaged("a row"))? < height {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::PublicKey;
    use crate::model::transaction::{MosaicDefinitionCreation, Multisig, ProvisionNamespace, wire_version};
    use crate::model::{Amount, BlockKind, Hash256, Timestamp};
    use crate::store::test_store;

    const NETWORK: NetworkByte = NetworkByte::TESTNET;

    fn transaction(body: Body) -> Transaction {
        Transaction {
            version: wire_version(NETWORK, 1),
            timestamp: Timestamp(1),
            signer: PublicKey([1; 32]),
            signature: None,
            fee: Amount::ZERO,
            deadline: Timestamp(2),
            body,
        }
    }

    #[test]
    fn provisions_in_multisig_transactions_have_the_lower_row_ids_and_definitions_keep_their_order() {
        let sink = Address::from_stored([b'T'; 40]);
        let provision = || {
            let (rental_fee, new_part) = (Amount::ZERO, "a".to_owned());
            transaction(Body::ProvisionNamespace(ProvisionNamespace {
                rental_fee_sink: sink,
                rental_fee,
                new_part,
                parent: None,
            }))
        };
        let define = || {
            let (definition, creation_fee) = (MosaicDefinition::xem(), Amount::ZERO);
            let body = MosaicDefinitionCreation { definition, creation_fee_sink: sink, creation_fee };
            transaction(Body::MosaicDefinitionCreation(Box::new(body)))
        };
        let nested = |inner| transaction(Body::Multisig(Box::new(Multisig { inner, cosignatures: Vec::new() })));
        let block = Block {
            kind: BlockKind::Regular,
            version: wire_version(NETWORK, 1),
            timestamp: Timestamp(1),
            signer: PublicKey([1; 32]),
            signature: None,
            previous_hash: Hash256::default().into(),
            height: Height(2),
            transactions: vec![provision(), define(), nested(provision()), nested(define()), provision()],
        };
        let (store, _folder) = test_store();
        assert_eq!(assign_row_ids(&store.snapshot().unwrap(), &block).unwrap(), [2, 1, 1, 2, 3]);
    }

    #[test]
    fn the_definitions_of_a_namespace_are_unlisted_in_steps_of_a_few_rows() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let count = 2 * ROWS_PER_STEP + 3;
        for row in 1..=count as u64 {
            let id = MosaicId::parse(&format!("a:m{row}")).unwrap();
            let definition = MosaicDefinition { id, ..MosaicDefinition::xem() };
            record_definition(&mut batch, &definition, row, Height(1), NETWORK).unwrap();
        }
        let mut update = ListingUpdate::new("a", None, false);
        let mut steps = Vec::new();
        while steps.last() != Some(&false) {
            steps.push(update.step(&mut batch, NETWORK).unwrap());
            let listed = batch.keys_with_prefix(Table::ListingIndex, &ListingIndex::Definitions.prefix()).unwrap();
            assert_eq!(listed.len(), count.saturating_sub(steps.len() * ROWS_PER_STEP));
        }
        assert_eq!(steps, [true, true, false]);
    }

    #[test]
    fn a_name_is_below_a_pattern_if_it_starts_with_it_and_a_dot() {
        for (parent, name, expected) in [
            ("ab", "ab.c", true),
            ("ab", "ab.c.d", true),
            ("ab", "ab", false),
            ("ab", "ac.c", false),
            ("ab", "abc.c", false),
            ("ab", "abc", false),
            ("a_", "ab.c", true),
            ("a_", "a_.c", true),
            ("_b", "ab.c", true),
            ("_b", "ac.c", false),
            ("__", "ab.c", true),
        ] {
            assert_eq!(is_below(parent, name), expected, "{name} below {parent}");
        }
    }

    #[test]
    fn a_cursor_over_the_provisions_below_a_name_visits_only_names_that_start_like_it() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let owner = Address::from_stored([b'T'; 40]);
        for (row, name) in (1..).zip(["a", "ab", "ab.c", "ab.d", "abc", "ac", "ac.c", "b"]) {
            ListingIndex::ProvisionsBy(&owner, name).put(&mut batch, row, true).unwrap();
        }
        let visited = |parent: &str| {
            let (parent, mut names) = (NamespaceId::parse(parent).unwrap(), Vec::new());
            let mut cursor = ProvisionCursor::new(&batch, owner, Some(&parent)).unwrap().expect("a root");
            let visit = |name: NamespaceId, is_match| {
                names.push((name.to_string(), is_match));
                Ok(true)
            };
            cursor.resume(&batch, visit).unwrap();
            names
        };
        let names = |names: &[(&str, bool)]| -> Vec<(String, bool)> {
            names.iter().map(|(name, is_match)| ((*name).to_owned(), *is_match)).collect()
        };
        assert_eq!(visited("ab"), names(&[("ab", false), ("ab.c", true), ("ab.d", true), ("abc", false)]));
        assert_eq!(visited("ac"), names(&[("ac", false), ("ac.c", true)]));
    }
}

#[cfg(test)]
mod supply_tests {
    use super::*;
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
    fn a_query_of_a_supply_pauses_after_every_row() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        build(&mut batch, &[4, 6, 6 + TERM, 6 + 2 * TERM], &[(5, 0)]);
        let mut query = SupplyQuery::new(&batch, &definition().id, Height(5)).unwrap().unwrap();
        let mut pauses = 0;
        let found = loop {
            match query.resume(&batch, || false).unwrap() {
                Some(found) => break found,
                None => pauses += 1,
            }
        };
        assert_eq!((found, pauses), (at(&batch, 5).unwrap(), 5));
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
