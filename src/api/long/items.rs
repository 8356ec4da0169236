//! Lists of things that are found one after another.

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::Budget;
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::views::{DataGap, View};
use crate::net::machine::Taken;

/// What came of looking for the next of many things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// This is the next one.
    One(T),
    /// The budget was spent before one was found.
    NotYet,
    /// There are no more.
    End,
}

impl<T> Found<T> {
    /// Makes something else of what was found.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Found::One(item) => Found::One(change(item)),
            Found::NotYet => Found::NotYet,
            Found::End => Found::End,
        }
    }
}

/// Things that are found one after another, each on whatever is the last commit then.
pub trait Items {
    /// What is found.
    type Item;

    /// Looks for the next one, at least a little whatever the budget is.
    fn next(&mut self, view: &ChainView<'_>, budget: &mut Budget) -> Result<Found<Self::Item>, Failure>;

    /// Bytes of memory that are held until the next one is looked for, roughly.
    fn held_bytes(&self) -> usize;
}

/// Writes the list of all things.
pub struct ListWriter<I> {
    items: I,
    list: Option<OpenList>,
}

impl<I: Items> ListWriter<I> {
    /// The list of these.
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
