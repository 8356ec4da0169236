//! Pages of namespaces and definitions.

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::{ChainView, Page};
use crate::api::failure::Failure;
use crate::api::views::{DataGap, Namespace, Numbered};
use crate::model::{Address, NamespaceId};
use crate::net::machine::Taken;
use crate::state::catalogue::{List, Provision, definition_at};
use crate::store::StoreError;

/// Rows of a list, of which some are shown.
pub trait Rows {
    /// The list.
    fn list(&self) -> List<'_>;

    /// Writes the row with a number, unless it is not one of those that are asked for. Whether it is.
    fn write(
        &self,
        view: &ChainView<'_>,
        id: u64,
        list: &mut OpenList,
        sheet: &mut Sheet<'_>,
    ) -> Result<bool, StoreError>;
}

/// Writes a page of rows, the newest first.
pub struct PageWriter<R> {
    rows: R,
    /// The number below which the rest begins.
    before: u64,
    left: usize,
    list: Option<OpenList>,
}

impl<R: Rows> PageWriter<R> {
    /// A page of rows.
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

/// Root namespaces that are active.
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

/// Newest definitions of mosaics. All but those in a namespace are active.
pub enum DefinitionRows {
    /// Of all mosaics.
    All,
    /// Of those in exactly this namespace.
    In(NamespaceId),
    /// Of those by an account, without their numbers.
    By(Address),
    /// Of those by an account in exactly this namespace, without their numbers. They have few creators: the account
    /// that rents the namespace, and the ones before.
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
