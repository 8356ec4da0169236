//! Leases of namespaces, their expiry, and the log of mosaics that expired with them.
//!
//! Only the newest lease of a root has mosaics: a lease by the same owner continues those of the one before,
//! a lease by another owner starts with none. So mosaics are kept per name, not per lease.

use super::bytes::{ByteReader, ByteWriter};
use super::error::StateError;
use super::mosaics;
use crate::model::{Address, Height, MosaicId, NamespaceId};
use crate::store::{Read, StoreError, Table, Write};

/// A lease of a root namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who rents it.
    pub owner: Address,
    /// Height from which it is active.
    pub height: Height,
    /// Full names of the sub-namespaces that hang on it, in order of text.
    pub children: Vec<String>,
}

impl Lease {
    /// Whether it is active at a height.
    pub fn is_active(&self, height: Height, term: u64) -> bool {
        self.height <= height && height < self.height.plus(term)
    }

    /// Whether a name of this root exists in it.
    pub fn contains(&self, name: &str) -> bool {
        !name.contains('.') || self.children.iter().any(|child| child == name)
    }
}

/// The leases of a root, the oldest first; empty if there are none.
pub fn leases(state: &impl Read, root: &str) -> Result<Vec<Lease>, StoreError> {
    state.get(Table::Namespaces, root.as_bytes())?.map_or(Ok(Vec::new()), parse_leases)
}

/// Reads the stored form of the leases of a root.
pub fn parse_leases(bytes: &[u8]) -> Result<Vec<Lease>, StoreError> {
    let mut input = ByteReader::new(bytes, "a namespace");
    let mut leases = Vec::new();
    while !input.is_empty() {
        let owner = input.address()?;
        let height = Height(input.u64()?);
        let count = input.u32()?;
        let children = (0..count).map(|_| input.text().map(str::to_owned));
        leases.push(Lease { owner, height, children: children.collect::<Result<_, _>>()? });
    }
    Ok(leases)
}

fn put_leases(batch: &mut impl Write, root: &str, leases: &[Lease]) -> Result<(), StoreError> {
    let mut out = ByteWriter::default();
    for lease in leases {
        out.array(lease.owner.as_bytes());
        out.u64(lease.height.0);
        out.u32(lease.children.len() as u32);
        lease.children.iter().for_each(|child| out.text(child));
    }
    batch.put(Table::Namespaces, root.as_bytes(), &out.0)
}

fn owner_key(owner: &Address, root: &str) -> Vec<u8> {
    [owner.as_bytes().as_slice(), root.as_bytes()].concat()
}

fn lease_key(height: Height, root: &str) -> Vec<u8> {
    [&height.0.to_be_bytes(), root.as_bytes()].concat()
}

/// Whether a name is active at a height: the oldest lease that is active decides.
pub fn is_active(leases: &[Lease], name: &str, height: Height, term: u64) -> bool {
    let lease = leases.iter().find(|lease| lease.is_active(height, term));
    lease.is_some_and(|lease| lease.contains(name))
}

/// Mosaics of a root and of all sub-namespaces of one of its leases, in order of text.
pub fn mosaics_of(state: &impl Read, root: &str, lease: &Lease) -> Result<Vec<MosaicId>, StoreError> {
    let mut ids = mosaics::in_namespace(state, root)?;
    for child in &lease.children {
        ids.extend(mosaics::in_namespace(state, child)?);
    }
    ids.sort_by_cached_key(MosaicId::to_string);
    Ok(ids)
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
        true => provision_root(batch, owner, name.as_str(), height, term, log),
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
) -> Result<(), StateError> {
    let mut leases = leases(batch, root)?;
    let was_active = is_active(&leases, root, height, term);
    let mut lease = Lease { owner, height, children: Vec::new() };
    if let Some(last) = leases.last() {
        let ids = mosaics_of(batch, root, last)?;
        if last.owner == owner {
            lease.children = last.children.clone();
            for id in &ids {
                restore(batch, id, was_active, log)?;
            }
        } else {
            ids.iter().try_for_each(|id| mosaics::remove(batch, id))?;
            batch.delete(Table::NamespacesByOwner, &owner_key(&last.owner, root))?;
        }
    }
    batch.put(Table::NamespacesByOwner, &owner_key(&owner, root), &[])?;
    batch.put(Table::LeasesByHeight, &lease_key(height, root), &[])?;
    leases.push(lease);
    Ok(put_leases(batch, root, &leases)?)
}

fn restore(batch: &mut impl Write, id: &MosaicId, was_active: bool, log: &mut ExpiryLog) -> Result<(), StateError> {
    let Some((edition, _)) = mosaics::current(batch, id)? else { return Ok(()) };
    let balances = mosaics::balances(batch, id, edition)?;
    for (account, _) in &balances {
        mosaics::set_holding(batch, account, id, true)?;
    }
    if !was_active {
        log.add(batch, id, ExpiryKind::Restored, &balances)?;
    }
    Ok(())
}

fn provision_child(batch: &mut impl Write, owner: Address, name: &NamespaceId) -> Result<(), StateError> {
    let impossible = |why: &str| StateError::impossible(format!("namespace {name}: {why}"));
    let mut leases = leases(batch, name.root())?;
    let lease = leases.last_mut().ok_or_else(|| impossible("there is no such root"))?;
    if lease.owner != owner {
        return Err(impossible("the root belongs to another account"));
    }
    let parent = name.as_str().rsplit_once('.').map_or("", |(parent, _)| parent);
    if parent.contains('.') && !lease.children.iter().any(|child| child == parent) {
        return Err(impossible("there is no such parent"));
    }
    match lease.children.binary_search_by(|child| child.as_str().cmp(name.as_str())) {
        Ok(_) => return Err(impossible("it exists already")),
        Err(place) => lease.children.insert(place, name.as_str().to_owned()),
    }
    Ok(put_leases(batch, name.root(), &leases)?)
}

/// Calls `visit` with every root whose last lease ends at `height`, and with that lease.
pub fn each_expired<W: Write, E: From<StoreError>>(
    batch: &mut W,
    height: Height,
    term: u64,
    mut visit: impl FnMut(&mut W, &str, &Lease) -> Result<(), E>,
) -> Result<(), E> {
    let Some(began) = height.0.checked_sub(term).filter(|began| *began > 0) else { return Ok(()) };
    for key in batch.keys(Table::LeasesByHeight, &began.to_be_bytes())? {
        let root = root_of_key(&key)?;
        let leases = leases(batch, root)?;
        if let Some(last) = leases.last().filter(|last| last.height.0 == began) {
            visit(batch, root, last)?;
        }
    }
    Ok(())
}

/// Lets the mosaics of all roots expire whose last lease ends at `height`.
pub fn expire(batch: &mut impl Write, height: Height, term: u64, log: &mut ExpiryLog) -> Result<(), StateError> {
    each_expired(batch, height, term, |batch, root, last| {
        for id in mosaics_of(batch, root, last)? {
            let Some((edition, _)) = mosaics::current(batch, &id)? else { continue };
            let balances = mosaics::balances(batch, &id, edition)?;
            for (account, _) in &balances {
                mosaics::set_holding(batch, account, &id, false)?;
            }
            log.add(batch, &id, ExpiryKind::Expired, &balances)?;
        }
        Ok(())
    })
}

/// Drops the oldest lease if it was made below `cut`; a root without a lease is forgotten. The mosaics that are to be
/// forgotten with it; `None` if there is no such lease.
pub fn prune_one(batch: &mut impl Write, cut: Height) -> Result<Option<Vec<MosaicId>>, StateError> {
    let mut oldest = None;
    batch.each(Table::LeasesByHeight, &[], |key, _| {
        oldest = (key < cut.0.to_be_bytes().as_slice()).then(|| key.to_vec());
        Ok(false)
    })?;
    let Some(key) = oldest else { return Ok(None) };
    let root = root_of_key(&key)?;
    let mut leases = leases(batch, root)?;
    let last = leases.last().cloned();
    leases.retain(|lease| lease.height >= cut);
    let mut forgotten = Vec::new();
    match (leases.is_empty(), last) {
        (true, Some(last)) => {
            forgotten = mosaics_of(batch, root, &last)?;
            batch.delete(Table::NamespacesByOwner, &owner_key(&last.owner, root))?;
            batch.delete(Table::Namespaces, root.as_bytes())?;
        }
        (true, None) => {}
        (false, _) => put_leases(batch, root, &leases)?,
    }
    batch.delete(Table::LeasesByHeight, &key)?;
    Ok(Some(forgotten))
}

fn root_of_key(key: &[u8]) -> Result<&str, StoreError> {
    let root = key.get(8..).and_then(|root| std::str::from_utf8(root).ok());
    root.ok_or(StoreError::Damaged("a lease's key"))
}

/// Why a mosaic is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryKind {
    /// Its namespace expired, or it was redefined before the fork.
    Expired,
    /// Its namespace was rented again.
    Restored,
}

impl ExpiryKind {
    /// The number in the log.
    pub fn code(self) -> u8 {
        match self {
            ExpiryKind::Expired => 1,
            ExpiryKind::Restored => 2,
        }
    }
}

/// Appends to the log of mosaics that expired or came back in one block.
#[derive(Debug)]
pub struct ExpiryLog {
    height: Height,
    entries: u32,
}

impl ExpiryLog {
    /// The log of a block.
    pub fn new(height: Height) -> ExpiryLog {
        ExpiryLog { height, entries: 0 }
    }

    /// Appends an entry.
    pub fn add(
        &mut self,
        batch: &mut impl Write,
        id: &MosaicId,
        kind: ExpiryKind,
        balances: &[(Address, u64)],
    ) -> Result<(), StoreError> {
        let key = [self.height.0.to_be_bytes().as_slice(), &self.entries.to_be_bytes()].concat();
        let mut out = ByteWriter::default();
        out.u8(kind.code());
        out.text(&id.to_string());
        for (account, quantity) in balances {
            out.array(account.as_bytes());
            out.u64(*quantity);
        }
        self.entries += 1;
        batch.insert(Table::ExpiredMosaics, &key, &out.0)
    }
}

/// An entry of the log.
pub struct ExpiryEntry {
    /// 1 expired, 2 restored.
    pub kind: u8,
    /// The mosaic.
    pub mosaic: String,
    /// Balances at that time.
    pub balances: Vec<(Address, u64)>,
}

/// Reads an entry of the log.
pub fn parse_log_entry(bytes: &[u8]) -> Result<ExpiryEntry, StoreError> {
    let mut input = ByteReader::new(bytes, "the log of expired mosaics");
    let kind = input.u8()?;
    let mosaic = input.text()?.to_owned();
    let mut balances = Vec::new();
    while !input.is_empty() {
        balances.push((input.address()?, input.u64()?));
    }
    Ok(ExpiryEntry { kind, mosaic, balances })
}
