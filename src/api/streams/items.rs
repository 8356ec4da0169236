//! Streamed lists of items that are searched one after another.

use super::{BodyWriter, ListWriter, ResponseStream, list_bytes};
use crate::api::budget::Budget;
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::api::views::{DataListHead, View};
use crate::net::service::Progress;

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

/// Stream of all items as a list.
pub struct ListStream<I> {
    items: I,
    list: Option<ListWriter>,
}

impl<I: ItemSource> ListStream<I> {
    /// Creates a stream of these items.
    pub fn new(items: I) -> ListStream<I> {
        ListStream { items, list: None }
    }
}

impl<I: ItemSource<Item: View>> ResponseStream for ListStream<I> {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        let list = self.list.get_or_insert_with(|| ListWriter::open(writer, &DataListHead));
        loop {
            match self.items.next(view, budget)? {
                NextItem::Item(item) => list.push(writer, &item),
                NextItem::Pending => {}
                NextItem::End => {
                    list.close(writer);
                    return Ok(Progress::Done);
                }
            }
            if budget.is_exhausted() {
                return Ok(Progress::Yield);
            }
        }
    }

    fn held_bytes(&self) -> usize {
        list_bytes(&self.list) + self.items.held_bytes()
    }
}
