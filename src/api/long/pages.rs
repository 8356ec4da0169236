//! Streamed pages of namespaces and mosaic definitions.

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::{ChainView, Page};
use crate::api::failure::Failure;
use crate::api::views::{DataGap, Namespace, Numbered};
use crate::model::{Address, NamespaceId};
use crate::net::machine::Taken;
use crate::state::catalogue::{List, Provision, definition_at};
use crate::store::StoreError;

/// A list of which some rows are shown.
pub trait Rows {
    /// Returns the list.
    fn list(&self) -> List<'_>;

    /// Writes the row with an id, unless it is filtered out. Returns whether it was written.
    fn write(
        &self,
        view: &ChainView<'_>,
        id: u64,
        list: &mut OpenList,
        sheet: &mut Sheet<'_>,
    ) -> Result<bool, StoreError>;
}

/// Stream of a page of rows, newest first.
pub struct PageWriter<R> {
    rows: R,
    /// Exclusive upper bound of the remaining ids.
    before: u64,
    left: usize,
    list: Option<OpenList>,
}

impl<R: Rows> PageWriter<R> {
    /// Creates a stream of a page of rows.
    pub fn new(rows: R, page: Page) -> PageWriter<R> {
        PageWriter { rows, before: page.before, left: page.size, list: None }
    }
}

impl<R: Rows> LongView for PageWriter<R> {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        let PageWriter { rows, before, left, list } = self;
        let list = list.get_or_insert_with(|| OpenList::open(sheet, &DataGap));
        let mut is_interrupted = false;
        rows.list().each_before(view.snapshot, *before, |id| {
            *before = id;
            *left -= usize::from(rows.write(view, id, list, sheet)?);
            budget.spend(cost::DEFINITION);
            is_interrupted = *left > 0 && budget.is_spent();
            Ok(*left > 0 && !is_interrupted)
        })?;
        if is_interrupted {
            return Ok(Taken::Unfinished);
        }
        list.close(sheet);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.list)
    }
}

/// The active root namespaces.
pub struct RootRows;

impl Rows for RootRows {
    fn list(&self) -> List<'_> {
        List::Roots
    }

    fn write(
        &self,
        view: &ChainView<'_>,
        id: u64,
        list: &mut OpenList,
        sheet: &mut Sheet<'_>,
    ) -> Result<bool, StoreError> {
        let Provision { height, owner, name } = Provision::at(view.snapshot, id)?;
        list.push(sheet, &Numbered { id, item: Namespace { name, owner, height } });
        Ok(true)
    }
}

/// Newest definitions of mosaics. Except for `In` and `ByIn`, only active ones are listed.
pub enum DefinitionRows {
    /// Of all mosaics.
    All,
    /// Of the mosaics in exactly this namespace.
    In(NamespaceId),
    /// Of the mosaics of a creator, without ids.
    By(Address),
    /// Of a creator's mosaics in exactly this namespace, without ids. A namespace has few creators: its owners so far.
    ByIn(Address, NamespaceId),
}

impl Rows for DefinitionRows {
    fn list(&self) -> List<'_> {
        match self {
            DefinitionRows::All => List::Definitions,
            DefinitionRows::By(creator) => List::DefinitionsBy(creator),
            DefinitionRows::In(namespace) | DefinitionRows::ByIn(_, namespace) => {
                List::DefinitionsIn(namespace.as_str())
            }
        }
    }

    fn write(
        &self,
        view: &ChainView<'_>,
        id: u64,
        list: &mut OpenList,
        sheet: &mut Sheet<'_>,
    ) -> Result<bool, StoreError> {
        let item = definition_at(view.snapshot, id)?;
        match self {
            DefinitionRows::All | DefinitionRows::In(_) => list.push(sheet, &Numbered { id, item }),
            DefinitionRows::ByIn(creator, _)
                if Address::from_public_key(&item.creator, view.network.byte) != *creator =>
            {
                return Ok(false);
            }
            DefinitionRows::By(_) | DefinitionRows::ByIn(..) => list.push(sheet, &item),
        }
        Ok(true)
    }
}
