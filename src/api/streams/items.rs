//! Streamed lists of items that are searched one after another.

use super::{ResponseStream, list_stream};
use crate::api::budget::Budget;
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::api::views::View;

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
