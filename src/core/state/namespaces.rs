//! Namespace leases: start, renewal and end.
//!
//! A renewal by the same owner keeps sub-namespaces and mosaics; a lease by another owner starts with none. So both
//! belong to a [`OwnershipPeriod`], the consecutive leases of a root by one owner. No rows are copied or removed for this.

use super::bytes::{Stored, all_to_stored, stored};
use super::expiry::{ExpiryKind, LoggedMosaics};
use super::ledger::Ledger;
use super::{StateError, StateResult};
use crate::model::network::NAMESPACE_SINK;
use crate::model::{Address, Height, NamespaceId, NetworkByte};
use crate::store::{Read, Result, StoreError, Table, Write, next_key};

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

stored!(Lease { owner, height, ownership_period });

impl Lease {
    /// Returns whether it is active at a height, with leases of `term` blocks.
    pub fn is_active(&self, height: Height, term: u64) -> bool {
        self.height <= height && height < self.height.plus(term)
    }
}

/// Number of an ownership period: consecutive leases of a root by one owner. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnershipPeriod(pub u32);

stored!(OwnershipPeriod { 0 });

/// Lease state of an ownership period: (height of the last lease) · 2, plus 1 if it has ended. Later is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LeaseState(pub u32);

stored!(LeaseState { 0 });

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

    pub(super) fn lease_state(self, state: &impl Read) -> Result<LeaseState> {
        let lease_state = LeaseState::get(state, Table::OwnershipPeriods, &self.key(), "an ownership period")?;
        lease_state.ok_or(StoreError::Damaged("an ownership period"))
    }

    fn put(self, txn: &mut impl Write, lease_state: LeaseState) -> Result<()> {
        txn.put(Table::OwnershipPeriods, &self.key(), &lease_state.to_stored())
    }

    fn child_key(self, name: &str) -> Vec<u8> {
        [self.key().as_slice(), name.as_bytes()].concat()
    }
}

/// The next numbers of ownership periods and mosaics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NameCounters {
    pub ownership_periods: u32,
    pub mosaics: u32,
}

stored!(NameCounters { ownership_periods, mosaics });

impl NameCounters {
    /// Takes a number from one of the counters.
    pub fn allocate(txn: &mut impl Write, counter: impl Fn(&mut NameCounters) -> &mut u32) -> Result<u32> {
        const KEY: &[u8] = b"names";
        const WHAT: &str = "the namespace and mosaic counters";
        let mut counters = NameCounters::get(txn, Table::Totals, KEY, WHAT)?.unwrap_or_default();
        let next = counter(&mut counters);
        let number = *next;
        *next = number.checked_add(1).ok_or(StoreError::Damaged(WHAT))?;
        txn.put(Table::Totals, KEY, &counters.to_stored())?;
        Ok(number)
    }
}

/// Returns the leases of a root, oldest first; empty if there are none. There are few, because old ones are pruned.
pub fn leases(state: &impl Read, root: &str) -> Result<Vec<Lease>> {
    Lease::all_from_stored(state.get(Table::Namespaces, root.as_bytes())?.unwrap_or_default(), "a namespace")
}

fn owner_key(owner: &Address, root: &str) -> Vec<u8> {
    [owner.as_bytes().as_slice(), root.as_bytes()].concat()
}

fn lease_key(height: Height, root: &str) -> Vec<u8> {
    [&height.0.to_be_bytes(), root.as_bytes()].concat()
}

/// Returns whether a name exists in a lease of its root.
pub fn is_in_lease(state: &impl Read, lease: &Lease, name: &NamespaceId) -> Result<bool> {
    if name.is_root() {
        return Ok(true);
    }
    let key = lease.ownership_period.child_key(name.as_str());
    let made = Height::get(state, Table::Subnamespaces, &key, "a sub-namespace")?;
    Ok(made.is_some_and(|made| made <= lease.height))
}

/// Returns whether a namespace is active at a height, with leases of `term` blocks.
pub fn is_namespace_active(state: &impl Read, name: &NamespaceId, height: Height, term: u64) -> Result<bool> {
    if name.is_built_in() {
        return Ok(true);
    }
    // The oldest active lease decides.
    let active = leases(state, name.root())?.into_iter().find(|lease| lease.is_active(height, term));
    active.map_or(Ok(false), |lease| is_in_lease(state, &lease, name))
}

/// Returns the owner of a namespace that exists in the newest lease of its root; the lease may have expired.
pub fn namespace_owner(state: &impl Read, name: &NamespaceId) -> Result<Option<Address>> {
    if name.is_built_in() {
        // NIS1 uses the sink's testnet address on every network.
        return Ok(Some(Address::from_public_key(&NAMESPACE_SINK, NetworkByte::TESTNET)));
    }
    let Some(newest) = leases(state, name.root())?.pop() else { return Ok(None) };
    Ok(is_in_lease(state, &newest, name)?.then_some(newest.owner))
}

/// Returns whether an account owns the newest lease of a root namespace; the lease may have expired.
pub fn owns_namespace(state: &impl Read, account: &Address) -> Result<bool> {
    state.has_prefix(Table::NamespacesByOwner, account.as_bytes())
}

/// Returns at most `limit` sub-namespaces of a lease, ordered by name, starting after `after` (empty for the first).
/// Also reads the rows of sub-namespaces made in later leases of the ownership period.
pub fn subnamespaces_after(state: &impl Read, lease: &Lease, after: &str, limit: usize) -> Result<Vec<String>> {
    let (mut found, prefix) = (Vec::new(), lease.ownership_period.key());
    let from = next_key(&lease.ownership_period.child_key(after));
    for entry in state.entries_from(Table::Subnamespaces, &prefix, &from)? {
        let (key, value) = entry?;
        if found.len() == limit {
            break;
        }
        if Height::from_stored(value, "a sub-namespace")? <= lease.height {
            let name = std::str::from_utf8(&key[prefix.len()..]).map_err(|_| StoreError::Damaged("a sub-namespace"))?;
            found.push(name.to_owned());
        }
    }
    Ok(found)
}

impl<W: Write> Ledger<'_, W> {
    /// Applies a provision. Mosaics that it restores are appended to the log of expired mosaics.
    pub(super) fn provision(&mut self, owner: Address, name: &NamespaceId) -> StateResult {
        if name.is_root() { Ok(self.provision_root(owner, name.as_str())?) } else { self.provision_child(owner, name) }
    }

    fn provision_root(&mut self, owner: Address, root: &str) -> Result<()> {
        let (height, term) = (self.block.height, self.network.chain.blocks_per_year());
        let mut leases = leases(self.txn, root)?;
        let was_active = leases.iter().any(|lease| lease.is_active(height, term));
        let ownership_period = match leases.last() {
            Some(last) if last.owner == owner => {
                if !was_active {
                    let expired = LeaseState::of_lease(last).ended();
                    let content = LoggedMosaics::OwnershipPeriod(last.ownership_period);
                    self.log(ExpiryKind::Restored, expired, content)?;
                }
                last.ownership_period
            }
            last => {
                if let Some(last) = last {
                    self.txn.delete(Table::NamespacesByOwner, &owner_key(&last.owner, root))?;
                }
                OwnershipPeriod(NameCounters::allocate(self.txn, |counters| &mut counters.ownership_periods)?)
            }
        };
        let lease = Lease { owner, height, ownership_period };
        ownership_period.put(self.txn, LeaseState::of_lease(&lease))?;
        self.txn.put(Table::NamespacesByOwner, &owner_key(&owner, root), &[])?;
        self.txn.put(Table::LeasesByHeight, &lease_key(height, root), &[])?;
        leases.push(lease);
        self.txn.put(Table::Namespaces, root.as_bytes(), &all_to_stored(&leases))
    }

    fn provision_child(&mut self, owner: Address, name: &NamespaceId) -> StateResult {
        let impossible = |why: &str| StateError::impossible(format!("namespace {name}: {why}"));
        let lease = leases(self.txn, name.root())?.pop().ok_or_else(|| impossible("there is no such root"))?;
        if lease.owner != owner {
            return Err(impossible("the root belongs to another account"));
        }
        if let Some(parent) = name.parent()
            && !is_in_lease(self.txn, &lease, &parent)?
        {
            return Err(impossible("there is no such parent"));
        }
        if is_in_lease(self.txn, &lease, name)? {
            return Err(impossible("it exists already"));
        }
        let key = lease.ownership_period.child_key(name.as_str());
        Ok(self.txn.put(Table::Subnamespaces, &key, &lease.height.to_stored())?)
    }

    /// Returns the last lease of a namespace's root; fails if the namespace does not exist in it.
    pub(super) fn require_namespace(&self, name: &NamespaceId) -> StateResult<Lease> {
        let lease = leases(self.txn, name.root())?.pop();
        if let Some(lease) = lease
            && is_in_lease(self.txn, &lease, name)?
        {
            return Ok(lease);
        }
        Err(StateError::impossible(format!("there is no namespace {name}")))
    }

    /// Ends the last lease of a root: its mosaics have expired.
    pub(super) fn end_lease(&mut self, lease: &Lease) -> Result<()> {
        lease.ownership_period.put(self.txn, LeaseState::of_lease(lease).ended())?;
        let content = LoggedMosaics::OwnershipPeriod(lease.ownership_period);
        self.log(ExpiryKind::Expired, LeaseState::of_lease(lease), content)
    }
}

/// Returns every root whose last lease ends at a height, and that lease; at most as many as were rented in one block.
pub fn ending_at(state: &impl Read, height: Height, term: u64) -> Result<Vec<(String, Lease)>> {
    let mut ending = Vec::new();
    let Some(began) = height.0.checked_sub(term).filter(|began| *began > 0) else { return Ok(ending) };
    for entry in state.entries(Table::LeasesByHeight, &began.to_be_bytes())? {
        let root = root_of_key(entry?.0)?;
        let last = leases(state, root)?.pop().filter(|last| last.height.0 == began);
        ending.extend(last.map(|last| (root.to_owned(), last)));
    }
    Ok(ending)
}

/// Prunes the root with the oldest lease if that lease was made below `cut`: removes all its leases below `cut`, and
/// the root with its mosaics if none remains. Returns false if no lease is below `cut`.
pub fn prune_oldest(txn: &mut impl Write, cut: Height) -> Result<bool> {
    let Some(key) = txn.first_key_below(Table::LeasesByHeight, &cut.0.to_be_bytes())? else { return Ok(false) };
    let root = root_of_key(&key)?;
    let mut leases = leases(txn, root)?;
    let last = leases.last().cloned();
    leases.retain(|lease| lease.height >= cut);
    if !leases.is_empty() {
        txn.put(Table::Namespaces, root.as_bytes(), &all_to_stored(&leases))?;
    } else if let Some(last) = last {
        txn.delete(Table::NamespacesByOwner, &owner_key(&last.owner, root))?;
        txn.delete(Table::Namespaces, root.as_bytes())?;
    }
    txn.delete(Table::LeasesByHeight, &key)?;
    Ok(true)
}

fn root_of_key(key: &[u8]) -> Result<&str> {
    key.get(8..).and_then(|root| std::str::from_utf8(root).ok()).ok_or(StoreError::Damaged("a lease's key"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::test_store;

    #[test]
    fn a_lease_that_has_ended_stays_ended() {
        let ended = LeaseState(14).ended();
        assert!(ended.has_ended() && ended.ended() == ended && ended.is_same_lease(LeaseState(14)));
    }

    #[test]
    fn subnamespaces_of_a_lease_are_listed_by_name_in_parts_without_those_of_later_leases() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let ownership_period = OwnershipPeriod(3);
        let lease = Lease { owner: Address::from_stored([b'T'; 40]), height: Height(20), ownership_period };
        for (period, name, height) in
            [(3, "a.a", 20), (3, "a.b", 21), (3, "a.c", 5), (3, "a.d", 20), (3, "a.e", 20), (4, "b.a", 1)]
        {
            let key = OwnershipPeriod(period).child_key(name);
            batch.put(Table::Subnamespaces, &key, &Height(height).to_stored()).unwrap();
        }
        let names = |after, limit| subnamespaces_after(&batch, &lease, after, limit).unwrap();
        assert_eq!(names("", 9), ["a.a", "a.c", "a.d", "a.e"]);
        assert_eq!(names("", 2), ["a.a", "a.c"]);
        assert_eq!(names("a.c", 1), ["a.d"]);
        assert_eq!(names("a.e", 1), [""; 0]);
    }
}
