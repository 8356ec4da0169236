//! What the interface reads of namespaces and mosaics (specification 06 §7.8, §7.9).

use std::collections::BTreeMap;

use super::failure::Failure;
use super::ledger::Ledger;
use crate::model::{Address, Height, Mosaic, MosaicDefinition, MosaicId, NamespaceId};

/// A read-only view of namespaces and mosaics, active at the last block or not.
pub trait Catalogue {
    /// Whether a namespace is active; the built-in `nem` always is.
    fn is_active(&self, name: &NamespaceId) -> Result<bool, Failure>;
    /// A namespace, if it is active; `nem` is not among them.
    fn namespace(&self, name: &NamespaceId) -> Result<Option<Namespace>, Failure>;
    /// Root namespaces that are active, the newest first.
    fn root_namespaces(&self, page: Page) -> Result<Vec<Numbered<Namespace>>, Failure>;
    /// Namespaces that are active and that an account rented once, all or those below `parent`. At most so many of the
    /// account's provisions are looked at.
    fn namespaces_of(
        &self,
        owner: &Address,
        parent: Option<&NamespaceId>,
        provisions: usize,
    ) -> Result<Vec<Namespace>, Failure>;
    /// The newest definition of a mosaic, the built-in `nem:xem` included; it may have expired.
    fn definition(&self, id: &MosaicId) -> Result<Option<MosaicDefinition>, Failure>;
    /// Newest definitions, the newest first.
    fn definitions(&self, of: Definitions<'_>, page: Page) -> Result<Vec<Numbered<MosaicDefinition>>, Failure>;
    /// Whole units of a mosaic that the state still knows, `nem:xem` included.
    fn supply(&self, id: &MosaicId) -> Result<Option<u64>, Failure>;
    /// What an account has: `nem:xem` first, then the other mosaics in which it is invested.
    fn mosaics_of(&self, account: &Address) -> Result<Vec<Mosaic>, Failure>;
}

/// A namespace (specification 06 §6.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its full name.
    pub name: NamespaceId,
    /// Who rents its root.
    pub owner: Address,
    /// Height from which its root is rented.
    pub height: Height,
}

/// Whose definitions are asked for. All but those in a namespace must be active.
#[derive(Clone, Copy, Debug)]
pub enum Definitions<'a> {
    /// Those of all mosaics.
    All,
    /// Those in exactly this namespace.
    In(&'a NamespaceId),
    /// Those by an account, all or in exactly this namespace.
    By(&'a Address, Option<&'a NamespaceId>),
}

/// Something with the number by which it is paged through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered<T> {
    /// The number.
    pub id: u64,
    /// The thing.
    pub item: T,
}

/// A part of a long list (specification 06 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The number below which it begins.
    pub before: u64,
    /// Most entries.
    pub size: usize,
}

/// The definitions of all mosaics that an account has, of those in which their levies are paid, and of `nem:xem`,
/// each once, by text.
pub fn definitions_owned(ledger: &dyn Ledger, accounts: &[Address]) -> Result<Vec<MosaicDefinition>, Failure> {
    let mut found = BTreeMap::new();
    for account in accounts {
        for Mosaic { id, .. } in ledger.mosaics_of(account)? {
            if found.contains_key(&id) {
                continue;
            }
            let Some(definition) = ledger.mosaic_definition(&id)? else { continue };
            if let Some(levy) = &definition.levy
                && let Some(paid_in) = ledger.mosaic_definition(&levy.mosaic)?
            {
                found.insert(levy.mosaic.clone(), paid_in);
            }
            found.insert(id, definition);
        }
    }
    Ok(found.into_values().collect())
}
