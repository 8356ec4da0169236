//! Namespace leases: start, renewal and end.
//!
//! A renewal by the same owner keeps sub-namespaces and mosaics; a lease by another owner starts with none. So both
//! belong to a [`OwnershipPeriod`], the consecutive leases of a root by one owner. No rows are copied or removed for this.

use super::account_ids::NameCounters;
use super::bytes::{ByteReader, ByteWriter};
use super::error::StateError;
use super::expiry_log::{ExpiryKind, ExpiryLog};
use crate::model::network::NAMESPACE_SINK;
use crate::model::{Address, Height, NamespaceId, NetworkByte};
use crate::store::{Read, StoreError, Table, Write};

/// A lease of a root namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The account that rents it.
    pub owner: Address,
    /// First height at which it is active.
    pub height: Height,
    /// Ownership period that it belongs to.
    pub ownership_period: OwnershipPeriod,
}

impl Lease {
    /// Returns whether it is active at a height, with leases of `term` blocks.
    pub fn is_active(&self, height: Height, term: u64) -> bool {
        self.height <= height && height < self.height.plus(term)
    }
}

/// Number of an ownership period: consecutive leases of a root by one owner. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnershipPeriod(pub u32);

/// Lease state of an ownership period: (height of the last lease) · 2, plus 1 if it has ended. Later is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LeaseState(pub u32);

impl LeaseState {
    /// Returns the state at the start of a lease.
    pub fn of_lease(lease: &Lease) -> LeaseState {
        LeaseState((lease.height.0 as u32) << 1)
    }

    /// Returns the state after the end of the lease.
    pub fn ended(self) -> LeaseState {
        LeaseState(self.0 | 1)
    }

    /// Returns whether the lease has ended, so that its mosaics have expired.
    pub fn has_ended(self) -> bool {
        self.0 & 1 == 1
    }

    /// Returns whether two states refer to the same lease.
    pub fn is_same_lease(self, other: LeaseState) -> bool {
        self.ended() == other.ended()
    }
}

impl OwnershipPeriod {
    /// Returns the key prefix.
    pub(super) fn key(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }

    /// Allocates a new ownership period.
    fn allocate(txn: &mut impl Write) -> Result<OwnershipPeriod, StoreError> {
        let mut totals = NameCounters::of(txn)?;
        let ownership_period = OwnershipPeriod(totals.ownership_periods);
        totals.ownership_periods =
            totals.ownership_periods.checked_add(1).ok_or(StoreError::Damaged("the number of ownership periods"))?;
        totals.put(txn)?;
        Ok(ownership_period)
    }

    pub(super) fn lease_state(self, state: &impl Read) -> Result<LeaseState, StoreError> {
        let row = state.get(Table::OwnershipPeriods, &self.key())?.and_then(|row| row.try_into().ok());
        row.map(|row| LeaseState(u32::from_le_bytes(row))).ok_or(StoreError::Damaged("an ownership period"))
    }

    fn put(self, txn: &mut impl Write, lease_state: LeaseState) -> Result<(), StoreError> {
        txn.put(Table::OwnershipPeriods, &self.key(), &lease_state.0.to_le_bytes())
    }

    fn child_key(self, name: &str) -> Vec<u8> {
        [self.key().as_slice(), name.as_bytes()].concat()
    }
}

/// Returns the leases of a root, oldest first; empty if there are none. There are few, because old ones are pruned.
pub fn leases(state: &impl Read, root: &str) -> Result<Vec<Lease>, StoreError> {
    state.get(Table::Namespaces, root.as_bytes())?.map_or(Ok(Vec::new()), parse_leases)
}

/// Decodes the leases of a root.
pub fn parse_leases(bytes: &[u8]) -> Result<Vec<Lease>, StoreError> {
    let mut input = ByteReader::new(bytes, "a namespace");
    let mut leases = Vec::new();
    while !input.is_empty() {
        leases.push(Lease {
            owner: input.address()?,
            height: Height(input.u64()?),
            ownership_period: OwnershipPeriod(input.u32()?),
        });
    }
    Ok(leases)
}

fn put_leases(txn: &mut impl Write, root: &str, leases: &[Lease]) -> Result<(), StoreError> {
    let mut out = ByteWriter::default();
    for lease in leases {
        out.array(lease.owner.as_bytes());
        out.u64(lease.height.0);
        out.u32(lease.ownership_period.0);
    }
    txn.put(Table::Namespaces, root.as_bytes(), &out.0)
}

fn owner_key(owner: &Address, root: &str) -> Vec<u8> {
    [owner.as_bytes().as_slice(), root.as_bytes()].concat()
}

fn lease_key(height: Height, root: &str) -> Vec<u8> {
    [&height.0.to_be_bytes(), root.as_bytes()].concat()
}

/// Returns whether a name exists in a lease of its root.
pub fn is_in_lease(state: &impl Read, lease: &Lease, name: &NamespaceId) -> Result<bool, StoreError> {
    if name.is_root() {
        return Ok(true);
    }
    let made = state.get(Table::Subnamespaces, &lease.ownership_period.child_key(name.as_str()))?;
    Ok(made.map(read_creation_height).transpose()?.is_some_and(|made| made <= lease.height))
}

/// Returns whether a namespace is active at a height, with leases of `term` blocks.
pub fn is_namespace_active(
    state: &impl Read,
    name: &NamespaceId,
    height: Height,
    term: u64,
) -> Result<bool, StoreError> {
    if name.is_built_in() {
        return Ok(true);
    }
    // The oldest active lease decides.
    let active = leases(state, name.root())?.into_iter().find(|lease| lease.is_active(height, term));
    active.map_or(Ok(false), |lease| is_in_lease(state, &lease, name))
}

/// Returns the owner of a namespace that exists in the newest lease of its root; the lease may have expired.
pub fn namespace_owner(state: &impl Read, name: &NamespaceId) -> Result<Option<Address>, StoreError> {
    if name.is_built_in() {
        // NIS1 uses the sink's testnet address on every network.
        return Ok(Some(Address::from_public_key(&NAMESPACE_SINK, NetworkByte::TESTNET)));
    }
    let Some(newest) = leases(state, name.root())?.pop() else { return Ok(None) };
    Ok(is_in_lease(state, &newest, name)?.then_some(newest.owner))
}

/// Returns whether an account owns the newest lease of a root namespace; the lease may have expired.
pub fn owns_namespace(state: &impl Read, account: &Address) -> Result<bool, StoreError> {
    state.has_prefix(Table::NamespacesByOwner, account.as_bytes())
}

fn read_creation_height(value: &[u8]) -> Result<Height, StoreError> {
    value.try_into().map(|bytes| Height(u64::from_le_bytes(bytes))).map_err(|_| StoreError::Damaged("a sub-namespace"))
}

/// Returns at most `limit` sub-namespaces of a lease, ordered by name, starting after `after` (empty for the first).
/// Also reads the rows of sub-namespaces made in later leases of the ownership period.
pub fn subnamespaces_after(
    state: &impl Read,
    lease: &Lease,
    after: &str,
    limit: usize,
) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    let mut cursor = state.cursor(Table::Subnamespaces)?;
    let prefix = lease.ownership_period.key();
    let mut entry = cursor.seek(&[lease.ownership_period.child_key(after).as_slice(), &[0]].concat())?;
    while let Some((key, value)) = entry.filter(|_| found.len() < limit) {
        let Some(name) = key.strip_prefix(prefix.as_slice()) else { break };
        if read_creation_height(value)? <= lease.height {
            let name = std::str::from_utf8(name).map_err(|_| StoreError::Damaged("a sub-namespace"))?;
            found.push(name.to_owned());
        }
        entry = cursor.next()?;
    }
    Ok(found)
}

/// Applies a provision. Mosaics that it restores are appended to `log`.
pub fn provision(
    txn: &mut impl Write,
    owner: Address,
    name: &NamespaceId,
    height: Height,
    term: u64,
    log: &mut ExpiryLog,
) -> Result<(), StateError> {
    match name.is_root() {
        true => Ok(provision_root(txn, owner, name.as_str(), height, term, log)?),
        false => provision_child(txn, owner, name),
    }
}

fn provision_root(
    txn: &mut impl Write,
    owner: Address,
    root: &str,
    height: Height,
    term: u64,
    log: &mut ExpiryLog,
) -> Result<(), StoreError> {
    let mut leases = leases(txn, root)?;
    let was_active = leases.iter().any(|lease| lease.is_active(height, term));
    let tenure = match leases.last() {
        Some(last) if last.owner == owner => {
            if !was_active {
                log.add_ownership_period(
                    txn,
                    ExpiryKind::Restored,
                    last.ownership_period,
                    LeaseState::of_lease(last).ended(),
                )?;
            }
            last.ownership_period
        }
        last => {
            if let Some(last) = last {
                txn.delete(Table::NamespacesByOwner, &owner_key(&last.owner, root))?;
            }
            OwnershipPeriod::allocate(txn)?
        }
    };
    let lease = Lease { owner, height, ownership_period: tenure };
    tenure.put(txn, LeaseState::of_lease(&lease))?;
    txn.put(Table::NamespacesByOwner, &owner_key(&owner, root), &[])?;
    txn.put(Table::LeasesByHeight, &lease_key(height, root), &[])?;
    leases.push(lease);
    put_leases(txn, root, &leases)
}

fn provision_child(txn: &mut impl Write, owner: Address, name: &NamespaceId) -> Result<(), StateError> {
    let impossible = |why: &str| StateError::impossible(format!("namespace {name}: {why}"));
    let lease = leases(txn, name.root())?.pop().ok_or_else(|| impossible("there is no such root"))?;
    if lease.owner != owner {
        return Err(impossible("the root belongs to another account"));
    }
    if let Some(parent) = name.parent()
        && !is_in_lease(txn, &lease, &parent)?
    {
        return Err(impossible("there is no such parent"));
    }
    if is_in_lease(txn, &lease, name)? {
        return Err(impossible("it exists already"));
    }
    Ok(txn.put(
        Table::Subnamespaces,
        &lease.ownership_period.child_key(name.as_str()),
        &lease.height.0.to_le_bytes(),
    )?)
}

/// Returns every root whose last lease ends at a height, and that lease; at most as many as were rented in one block.
pub fn ending_at(state: &impl Read, height: Height, term: u64) -> Result<Vec<(String, Lease)>, StoreError> {
    let mut ending = Vec::new();
    let Some(began) = height.0.checked_sub(term).filter(|began| *began > 0) else { return Ok(ending) };
    state.for_each_prefix(Table::LeasesByHeight, &began.to_be_bytes(), |key, _| {
        let root = root_of_key(key)?;
        let last = leases(state, root)?.pop().filter(|last| last.height.0 == began);
        ending.extend(last.map(|last| (root.to_owned(), last)));
        Ok(true)
    })?;
    Ok(ending)
}

/// Ends the last lease of a root: its mosaics have expired.
pub fn end_lease(txn: &mut impl Write, lease: &Lease, log: &mut ExpiryLog) -> Result<(), StoreError> {
    lease.ownership_period.put(txn, LeaseState::of_lease(lease).ended())?;
    log.add_ownership_period(txn, ExpiryKind::Expired, lease.ownership_period, LeaseState::of_lease(lease))
}

/// Prunes the root with the oldest lease if that lease was made below `cut`: removes all its leases below `cut`, and
/// the root with its mosaics if none remains. Returns false if no lease is below `cut`.
pub fn prune_oldest(txn: &mut impl Write, cut: Height) -> Result<bool, StoreError> {
    let mut oldest = None;
    txn.for_each_prefix(Table::LeasesByHeight, &[], |key, _| {
        oldest = (key < cut.0.to_be_bytes().as_slice()).then(|| key.to_vec());
        Ok(false)
    })?;
    let Some(key) = oldest else { return Ok(false) };
    let root = root_of_key(&key)?;
    let mut leases = leases(txn, root)?;
    let last = leases.last().cloned();
    leases.retain(|lease| lease.height >= cut);
    match (leases.is_empty(), last) {
        (true, Some(last)) => {
            txn.delete(Table::NamespacesByOwner, &owner_key(&last.owner, root))?;
            txn.delete(Table::Namespaces, root.as_bytes())?;
        }
        (true, None) => {}
        (false, _) => put_leases(txn, root, &leases)?,
    }
    txn.delete(Table::LeasesByHeight, &key)?;
    Ok(true)
}

fn root_of_key(key: &[u8]) -> Result<&str, StoreError> {
    let root = key.get(8..).and_then(|root| std::str::from_utf8(root).ok());
    root.ok_or(StoreError::Damaged("a lease's key"))
}
