//! Streamed lists of items that are searched one after another.

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::Budget;
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::views::{DataGap, View};
use crate::net::machine::Taken;

/// Result of the search for the next item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// The next item.
    One(T),
    /// The budget is used up and no item was found yet.
    NotYet,
    /// There are no more items.
    End,
}

impl<T> Found<T> {
    /// Maps the item.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Found::One(item) => Found::One(change(item)),
            Found::NotYet => Found::NotYet,
            Found::End => Found::End,
        }
    }
}

/// Source of items that are searched one after another, each on a snapshot of the last commit.
pub trait Items {
    /// Type of the items.
    type Item;

    /// Searches the next item. Makes some progress with any budget.
    fn next(&mut self, view: &ChainView<'_>, budget: &mut Budget) -> Result<Found<Self::Item>, Failure>;

    /// Returns the approximate memory in bytes held between two calls.
    fn held_bytes(&self) -> usize;
}

/// Stream of all items as a list.
pub struct ListWriter<I> {
    items: I,
    list: Option<OpenList>,
}

impl<I: Items> ListWriter<I> {
    /// Creates a stream of these items.
    pub fn new(items: I) -> ListWriter<I> {
        ListWriter { items, list: None }
    }
}

impl<I: Items<Item: View>> LongView for ListWriter<I> {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        let list = self.list.get_or_insert_with(|| OpenList::open(sheet, &DataGap));
        loop {
            match self.items.next(view, budget)? {
                Found::One(item) => list.push(sheet, &item),
                Found::NotYet => {}
                Found::End => {
                    list.close(sheet);
                    return Ok(Taken::Done);
                }
            }
            if budget.is_spent() {
                return Ok(Taken::Unfinished);
            }
        }
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.list) + self.items.held_bytes()
    }
}
