//! Streamed pages of namespaces and mosaic definitions.

use super::{BodyWriter, ListWriter, ResponseStream, list_bytes};
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::{ChainSnapshot, Page};
use crate::api::error::ApiError;
use crate::api::views::{DataListHead, Namespace, Numbered};
use crate::model::{Address, NamespaceId};
use crate::net::service::Progress;
use crate::state::registry::{ListingIndex, Provision, definition_at};
use crate::store::StoreError;

/// A list of which some rows are shown.
pub trait Rows {
    /// Returns the list.
    fn list(&self) -> ListingIndex<'_>;

    /// Writes the row with an id, unless it is filtered out. Returns whether it was written.
    fn write(
        &self,
        view: &ChainSnapshot<'_>,
        id: u64,
        list: &mut ListWriter,
        writer: &mut BodyWriter<'_>,
    ) -> Result<bool, StoreError>;
}

/// Stream of a page of rows, newest first.
pub struct PageStream<R> {
    rows: R,
    /// Exclusive upper bound of the remaining ids.
    before: u64,
    left: usize,
    list: Option<ListWriter>,
}

impl<R: Rows> PageStream<R> {
    /// Creates a stream of a page of rows.
    pub fn new(rows: R, page: Page) -> PageStream<R> {
        PageStream { rows, before: page.before, left: page.size, list: None }
    }
}

impl<R: Rows> ResponseStream for PageStream<R> {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        let PageStream { rows, before, left, list } = self;
        let list = list.get_or_insert_with(|| ListWriter::open(writer, &DataListHead));
        let mut is_interrupted = false;
        rows.list().for_each_before(view.snapshot, *before, |id| {
            *before = id;
            *left -= usize::from(rows.write(view, id, list, writer)?);
            budget.charge(cost::DEFINITION);
            is_interrupted = *left > 0 && budget.is_exhausted();
            Ok(*left > 0 && !is_interrupted)
        })?;
        if is_interrupted {
            return Ok(Progress::Yield);
        }
        list.close(writer);
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        list_bytes(&self.list)
    }
}

/// The active root namespaces.
pub struct RootRows;

impl Rows for RootRows {
    fn list(&self) -> ListingIndex<'_> {
        ListingIndex::Roots
    }

    fn write(
        &self,
        view: &ChainSnapshot<'_>,
        id: u64,
        list: &mut ListWriter,
        writer: &mut BodyWriter<'_>,
    ) -> Result<bool, StoreError> {
        let Provision { height, owner, name } = Provision::at(view.snapshot, id)?;
        list.push(writer, &Numbered { id, item: Namespace { name, owner, height } });
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
    fn list(&self) -> ListingIndex<'_> {
        match self {
            DefinitionRows::All => ListingIndex::Definitions,
            DefinitionRows::By(creator) => ListingIndex::DefinitionsBy(creator),
            DefinitionRows::In(namespace) | DefinitionRows::ByIn(_, namespace) => {
                ListingIndex::DefinitionsIn(namespace.as_str())
            }
        }
    }

    fn write(
        &self,
        view: &ChainSnapshot<'_>,
        id: u64,
        list: &mut ListWriter,
        writer: &mut BodyWriter<'_>,
    ) -> Result<bool, StoreError> {
        let item = definition_at(view.snapshot, id)?;
        match self {
            DefinitionRows::All | DefinitionRows::In(_) => list.push(writer, &Numbered { id, item }),
            DefinitionRows::ByIn(creator, _)
                if Address::from_public_key(&item.creator, view.network.byte) != *creator =>
            {
                return Ok(false);
            }
            DefinitionRows::By(_) | DefinitionRows::ByIn(..) => list.push(writer, &item),
        }
        Ok(true)
    }
}
