//! Streamed lists of items that are searched one after another.

use std::collections::BTreeSet;
use std::vec;

use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::api::streams::{ResponseStream, list_stream};
use crate::api::views::{Namespace, View};
use crate::model::{Address, Mosaic, MosaicDefinition, MosaicId, NamespaceId};
use crate::state::registry::ProvisionCursor;
use crate::store::StoreError;

/// Result of the search for the next item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextItem<T> {
    /// The next item.
    Item(T),
    /// The budget is used up and no item was found yet.
    Pending,
    /// There are no more items.
    End,
}

impl<T> NextItem<T> {
    /// Maps the item.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> NextItem<U> {
        match self {
            NextItem::Item(item) => NextItem::Item(change(item)),
            NextItem::Pending => NextItem::Pending,
            NextItem::End => NextItem::End,
        }
    }
}

/// Source of items that are searched one after another, each on a snapshot of the last commit.
pub trait ItemSource {
    /// Type of the items.
    type Item;

    /// Searches the next item. Makes some progress with any budget.
    fn next(&mut self, view: &ChainSnapshot<'_>, budget: &mut Budget) -> Result<NextItem<Self::Item>, ApiError>;

    /// Returns the approximate memory in bytes held between two calls.
    fn held_bytes(&self) -> usize;
}

/// Creates the stream of all items as a list.
pub fn item_list<I: ItemSource<Item: View>>(mut items: I) -> impl ResponseStream {
    list_stream(move |step| {
        loop {
            match items.next(step.view, step.budget)? {
                NextItem::Item(item) => step.push(&item),
                NextItem::Pending => {}
                NextItem::End => return Ok(()),
            }
            *step.held_bytes = items.held_bytes();
            if !step.should_continue(usize::MAX) {
                return Ok(());
            }
        }
    })
}

/// The active namespaces that an account has rented, all or those below a parent.
pub struct RentedNamespaces {
    owner: Address,
    /// `None` if there are none.
    cursor: Option<ProvisionCursor>,
    /// Provisions left to scan.
    left: usize,
    /// Name of the last provision; a name may have many.
    last: Option<NamespaceId>,
    /// Namespaces that another account has rented since are left out.
    only_current: bool,
}

impl RentedNamespaces {
    /// Creates the source of all namespaces of `owner`, or those below `parent`. Scans at most `provisions` provisions.
    pub fn new(
        view: &ChainSnapshot<'_>,
        owner: Address,
        parent: Option<&NamespaceId>,
        provisions: usize,
    ) -> Result<RentedNamespaces, StoreError> {
        let walk = ProvisionCursor::new(view.snapshot, owner, parent)?;
        Ok(RentedNamespaces { owner, cursor: walk, left: provisions, last: None, only_current: false })
    }

    /// Leaves out namespaces that another account has rented since.
    pub fn current(self) -> RentedNamespaces {
        RentedNamespaces { only_current: true, ..self }
    }
}

impl ItemSource for RentedNamespaces {
    type Item = Namespace;

    fn next(&mut self, view: &ChainSnapshot<'_>, budget: &mut Budget) -> Result<NextItem<Namespace>, ApiError> {
        let RentedNamespaces { owner, cursor: walk, left, last, only_current } = self;
        let Some(walk) = walk.as_mut().filter(|_| *left > 0) else { return Ok(NextItem::End) };
        let mut found = None;
        let is_at_end = walk.resume(view.snapshot, |name, is_wanted| {
            budget.charge(cost::SKIP);
            if is_wanted {
                *left -= 1;
                if last.as_ref() != Some(&name) {
                    budget.charge(cost::NAMESPACE);
                    *last = Some(name.clone());
                    found = match only_current {
                        true => view.namespace(&name)?.filter(|namespace| namespace.owner == *owner),
                        false if view.is_active(&name)? => Some(view.rented(owner, name)?),
                        false => None,
                    };
                }
            }
            Ok(found.is_none() && *left > 0 && !budget.is_exhausted())
        })?;
        Ok(match found {
            Some(namespace) => NextItem::Item(namespace),
            None if is_at_end || *left == 0 => NextItem::End,
            None => NextItem::Pending,
        })
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

/// Mosaics fetched at a time.
const CHUNK: usize = 32;
/// Approximate memory in bytes of the name of a mosaic.
const ID_BYTES: usize = 160;

/// The mosaics that an account holds: `nem:xem` first, then the others, ordered by name.
pub struct OwnedMosaics {
    account: Address,
    has_started: bool,
    /// Fetched mosaics that are not returned yet.
    fetched: vec::IntoIter<MosaicId>,
    /// Where to fetch more, if there may be any.
    after: Option<Option<MosaicId>>,
}

impl OwnedMosaics {
    /// Creates the source of the mosaics of an address.
    pub fn new(account: Address) -> OwnedMosaics {
        OwnedMosaics { account, has_started: false, fetched: Vec::new().into_iter(), after: Some(None) }
    }
}

impl ItemSource for OwnedMosaics {
    type Item = Mosaic;

    fn next(&mut self, view: &ChainSnapshot<'_>, budget: &mut Budget) -> Result<NextItem<Mosaic>, ApiError> {
        if !self.has_started {
            self.has_started = true;
            budget.charge(cost::MOSAIC);
            return Ok(NextItem::Item(view.xem_balance(&self.account)?));
        }
        loop {
            for id in self.fetched.by_ref() {
                budget.charge(cost::MOSAIC);
                if let Some(mosaic) = view.mosaic_balance(&self.account, id)? {
                    return Ok(NextItem::Item(mosaic));
                }
                if budget.is_exhausted() {
                    return Ok(NextItem::Pending);
                }
            }
            let Some(after) = self.after.take() else { return Ok(NextItem::End) };
            let part = view.holdings_after(&self.account, after.as_ref(), CHUNK)?;
            budget.charge(cost::HOLDINGS);
            self.fetched = part.ids.into_iter();
            self.after = part.next_after.map(Some);
            if budget.is_exhausted() {
                return Ok(NextItem::Pending);
            }
        }
    }

    fn held_bytes(&self) -> usize {
        self.fetched.len() * ID_BYTES
    }
}

/// The definitions of all mosaics that accounts hold, of the mosaics of their levies, and of `nem:xem`, each once,
/// ordered by name. All names are collected before the definitions are read.
pub struct OwnedDefinitions {
    accounts: vec::IntoIter<Address>,
    /// The current account and the last of its mosaics that was scanned.
    account: Option<(Address, Option<MosaicId>)>,
    found: BTreeSet<MosaicId>,
    /// Whether collecting is complete.
    has_all: bool,
}

impl OwnedDefinitions {
    /// Creates the source for the accounts of some addresses.
    pub fn new(accounts: Vec<Address>) -> OwnedDefinitions {
        OwnedDefinitions { accounts: accounts.into_iter(), account: None, found: BTreeSet::new(), has_all: false }
    }

    /// Scans the mosaics of the next few accounts; returns whether all are scanned.
    fn find(&mut self, view: &ChainSnapshot<'_>, budget: &mut Budget) -> Result<bool, ApiError> {
        loop {
            if self.account.is_none() {
                let Some(account) = self.accounts.next() else { return Ok(true) };
                self.found.insert(MosaicId::xem());
                self.account = Some((account, None));
            }
            let Some((account, after)) = &mut self.account else { return Ok(true) };
            let part = view.holdings_after(account, after.as_ref(), CHUNK)?;
            budget.charge(cost::HOLDINGS);
            for id in part.ids {
                *after = Some(id.clone());
                add_with_levy(&mut self.found, id, view, budget)?;
                if budget.is_exhausted() {
                    return Ok(false);
                }
            }
            match part.next_after {
                None => self.account = None,
                last => *after = last,
            }
            if budget.is_exhausted() {
                return Ok(false);
            }
        }
    }
}

/// Adds a mosaic and the mosaic of its levy. The levy of a mosaic added before, for whatever reason, is ignored.
fn add_with_levy(
    found: &mut BTreeSet<MosaicId>,
    id: MosaicId,
    view: &ChainSnapshot<'_>,
    budget: &mut Budget,
) -> Result<(), ApiError> {
    budget.charge(cost::SKIP);
    if found.contains(&id) {
        return Ok(());
    }
    budget.charge(cost::DEFINITION);
    let Some(definition) = view.mosaic_definition(&id)? else { return Ok(()) };
    if let Some(levy) = definition.levy {
        found.insert(levy.mosaic);
    }
    found.insert(id);
    Ok(())
}

impl ItemSource for OwnedDefinitions {
    type Item = MosaicDefinition;

    fn next(&mut self, view: &ChainSnapshot<'_>, budget: &mut Budget) -> Result<NextItem<MosaicDefinition>, ApiError> {
        if !self.has_all {
            self.has_all = self.find(view, budget)?;
        }
        while self.has_all {
            let Some(id) = self.found.pop_first() else { return Ok(NextItem::End) };
            budget.charge(cost::DEFINITION);
            if let Some(definition) = view.mosaic_definition(&id)? {
                return Ok(NextItem::Item(definition));
            }
            if budget.is_exhausted() {
                break;
            }
        }
        Ok(NextItem::Pending)
    }

    fn held_bytes(&self) -> usize {
        self.accounts.len() * size_of::<Address>() + self.found.len() * ID_BYTES
    }
}
