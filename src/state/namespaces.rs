//! Leases of namespaces, and how they go on and end.
//!
//! A lease by the same owner goes on with the sub-namespaces and mosaics of the one before, a lease by another owner
//! starts with none. So they belong to a [`Tenure`]: the leases of a root that follow one another by the same owner.
//! Nothing is copied when a lease is renewed, and nothing removed when it is lost.

use super::bytes::{ByteReader, ByteWriter};
use super::error::StateError;
use super::expiry_log::{ExpiryKind, ExpiryLog};
use super::numbers::NameTotals;
use crate::model::{Address, Height, NamespaceId};
use crate::store::{Read, StoreError, Table, Write};

/// A lease of a root namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who rents it.
    pub owner: Address,
    /// Height from which it is active.
    pub height: Height,
    /// What it goes on with.
    pub tenure: Tenure,
}

impl Lease {
    /// Whether it is active at a height.
    pub fn is_active(&self, height: Height, term: u64) -> bool {
        self.height <= height && height < self.height.plus(term)
    }
}

/// Number of a tenure: leases of a root that follow one another by the same owner. No other ever gets the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenure(pub u32);

/// Where a tenure stands: its last lease, and whether that has ended. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stand(pub u32);

impl Stand {
    /// At the beginning of a lease.
    pub fn of_lease(lease: &Lease) -> Stand {
        Stand((lease.height.0 as u32) << 1)
    }

    /// After its end.
    pub fn ended(self) -> Stand {
        Stand(self.0 | 1)
    }

    /// Whether the lease has ended, so that the mosaics have expired.
    pub fn has_ended(self) -> bool {
        self.0 & 1 == 1
    }

    /// Whether two are about the same lease.
    pub fn is_same_lease(self, other: Stand) -> bool {
        self.ended() == other.ended()
    }
}

impl Tenure {
    /// What keys begin with.
    pub(super) fn key(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }

    /// A new one.
    fn begin(batch: &mut impl Write) -> Result<Tenure, StoreError> {
        let mut totals = NameTotals::of(batch)?;
        let tenure = Tenure(totals.tenures);
        totals.tenures = totals.tenures.checked_add(1).ok_or(StoreError::Damaged("the number of tenures"))?;
        totals.put(batch)?;
        Ok(tenure)
    }

    pub(super) fn stand(self, state: &impl Read) -> Result<Stand, StoreError> {
        let row = state.get(Table::Tenures, &self.key())?.and_then(|row| row.try_into().ok());
        row.map(|row| Stand(u32::from_le_bytes(row))).ok_or(StoreError::Damaged("a tenure"))
    }

    fn put(self, batch: &mut impl Write, stand: Stand) -> Result<(), StoreError> {
        batch.put(Table::Tenures, &self.key(), &stand.0.to_le_bytes())
    }

    fn child_key(self, name: &str) -> Vec<u8> {
        [self.key().as_slice(), name.as_bytes()].concat()
    }
}

/// The leases of a root, the oldest first; empty if there are none. Those that are forgotten are not among them, so
/// they are few.
pub fn leases(state: &impl Read, root: &str) -> Result<Vec<Lease>, StoreError> {
    state.get(Table::Namespaces, root.as_bytes())?.map_or(Ok(Vec::new()), parse_leases)
}

/// Reads the stored form of the leases of a root.
pub fn parse_leases(bytes: &[u8]) -> Result<Vec<Lease>, StoreError> {
    let mut input = ByteReader::new(bytes, "a namespace");
    let mut leases = Vec::new();
    while !input.is_empty() {
        leases.push(Lease { owner: input.address()?, height: Height(input.u64()?), tenure: Tenure(input.u32()?) });
    }
    Ok(leases)
}

fn put_leases(batch: &mut impl Write, root: &str, leases: &[Lease]) -> Result<(), StoreError> {
    let mut out = ByteWriter::default();
    for lease in leases {
        out.array(lease.owner.as_bytes());
        out.u64(lease.height.0);
        out.u32(lease.tenure.0);
    }
    batch.put(Table::Namespaces, root.as_bytes(), &out.0)
}

fn owner_key(owner: &Address, root: &str) -> Vec<u8> {
    [owner.as_bytes().as_slice(), root.as_bytes()].concat()
}

fn lease_key(height: Height, root: &str) -> Vec<u8> {
    [&height.0.to_be_bytes(), root.as_bytes()].concat()
}

/// Whether a name exists in a lease of its root.
pub fn is_in_lease(state: &impl Read, lease: &Lease, name: &NamespaceId) -> Result<bool, StoreError> {
    if name.is_root() {
        return Ok(true);
    }
    let made = state.get(Table::Subnamespaces, &lease.tenure.child_key(name.as_str()))?;
    Ok(made.map(read_made).transpose()?.is_some_and(|made| made <= lease.height))
}

fn read_made(value: &[u8]) -> Result<Height, StoreError> {
    value.try_into().map(|bytes| Height(u64::from_le_bytes(bytes))).map_err(|_| StoreError::Damaged("a sub-namespace"))
}

/// The sub-namespaces of a lease by name: those after a name, or the first if it is empty, and at most so many. How many
/// rows were looked at for that is at most as many as the sub-namespaces of the leases that went on with it.
pub fn subnamespaces_after(
    state: &impl Read,
    lease: &Lease,
    after: &str,
    limit: usize,
) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    let mut walk = state.walk(Table::Subnamespaces)?;
    let prefix = lease.tenure.key();
    let mut entry = walk.seek(&[lease.tenure.child_key(after).as_slice(), &[0]].concat())?;
    while let Some((key, value)) = entry.filter(|_| found.len() < limit) {
        let Some(name) = key.strip_prefix(prefix.as_slice()) else { break };
        if read_made(value)? <= lease.height {
            let name = std::str::from_utf8(name).map_err(|_| StoreError::Damaged("a sub-namespace"))?;
            found.push(name.to_owned());
        }
        entry = walk.next()?;
    }
    Ok(found)
}

/// Carries out a provision. `log` is told of mosaics that came back.
pub fn provision(
    batch: &mut impl Write,
    owner: Address,
    name: &NamespaceId,
    height: Height,
    term: u64,
    log: &mut ExpiryLog,
) -> Result<(), StateError> {
    match name.is_root() {
        true => Ok(provision_root(batch, owner, name.as_str(), height, term, log)?),
        false => provision_child(batch, owner, name),
    }
}

fn provision_root(
    batch: &mut impl Write,
    owner: Address,
    root: &str,
    height: Height,
    term: u64,
    log: &mut ExpiryLog,
) -> Result<(), StoreError> {
    let mut leases = leases(batch, root)?;
    let was_active = leases.iter().any(|lease| lease.is_active(height, term));
    let tenure = match leases.last() {
        Some(last) if last.owner == owner => {
            if !was_active {
                log.add_tenure(batch, ExpiryKind::Restored, last.tenure, Stand::of_lease(last).ended())?;
            }
            last.tenure
        }
        last => {
            if let Some(last) = last {
                batch.delete(Table::NamespacesByOwner, &owner_key(&last.owner, root))?;
            }
            Tenure::begin(batch)?
        }
    };
    let lease = Lease { owner, height, tenure };
    tenure.put(batch, Stand::of_lease(&lease))?;
    batch.put(Table::NamespacesByOwner, &owner_key(&owner, root), &[])?;
    batch.put(Table::LeasesByHeight, &lease_key(height, root), &[])?;
    leases.push(lease);
    put_leases(batch, root, &leases)
}

fn provision_child(batch: &mut impl Write, owner: Address, name: &NamespaceId) -> Result<(), StateError> {
    let impossible = |why: &str| StateError::impossible(format!("namespace {name}: {why}"));
    let lease = leases(batch, name.root())?.pop().ok_or_else(|| impossible("there is no such root"))?;
    if lease.owner != owner {
        return Err(impossible("the root belongs to another account"));
    }
    if let Some(parent) = name.parent()
        && !is_in_lease(batch, &lease, &parent)?
    {
        return Err(impossible("there is no such parent"));
    }
    if is_in_lease(batch, &lease, name)? {
        return Err(impossible("it exists already"));
    }
    Ok(batch.put(Table::Subnamespaces, &lease.tenure.child_key(name.as_str()), &lease.height.0.to_le_bytes())?)
}

/// Every root whose last lease ends at a height, and that lease: at most as many as were rented in one block.
pub fn ending_at(state: &impl Read, height: Height, term: u64) -> Result<Vec<(String, Lease)>, StoreError> {
    let mut ending = Vec::new();
    let Some(began) = height.0.checked_sub(term).filter(|began| *began > 0) else { return Ok(ending) };
    state.each(Table::LeasesByHeight, &began.to_be_bytes(), |key, _| {
        let root = root_of_key(key)?;
        let last = leases(state, root)?.pop().filter(|last| last.height.0 == began);
        ending.extend(last.map(|last| (root.to_owned(), last)));
        Ok(true)
    })?;
    Ok(ending)
}

/// Ends the last lease of a root: its mosaics have expired.
pub fn end(batch: &mut impl Write, lease: &Lease, log: &mut ExpiryLog) -> Result<(), StoreError> {
    lease.tenure.put(batch, Stand::of_lease(lease).ended())?;
    log.add_tenure(batch, ExpiryKind::Expired, lease.tenure, Stand::of_lease(lease))
}

/// Drops the oldest lease if it was made below `cut`; a root without a lease is forgotten, and so are its mosaics.
/// Whether there was such a lease.
pub fn prune_one(batch: &mut impl Write, cut: Height) -> Result<bool, StoreError> {
    let mut oldest = None;
    batch.each(Table::LeasesByHeight, &[], |key, _| {
        oldest = (key < cut.0.to_be_bytes().as_slice()).then(|| key.to_vec());
        Ok(false)
    })?;
    let Some(key) = oldest else { return Ok(false) };
    let root = root_of_key(&key)?;
    let mut leases = leases(batch, root)?;
    let last = leases.last().cloned();
    leases.retain(|lease| lease.height >= cut);
    match (leases.is_empty(), last) {
        (true, Some(last)) => {
            batch.delete(Table::NamespacesByOwner, &owner_key(&last.owner, root))?;
            batch.delete(Table::Namespaces, root.as_bytes())?;
        }
        (true, None) => {}
        (false, _) => put_leases(batch, root, &leases)?,
    }
    batch.delete(Table::LeasesByHeight, &key)?;
    Ok(true)
}

fn root_of_key(key: &[u8]) -> Result<&str, StoreError> {
    let root = key.get(8..).and_then(|root| std::str::from_utf8(root).ok());
    root.ok_or(StoreError::Damaged("a lease's key"))
}
