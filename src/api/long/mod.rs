//! Views that may be too long to be written at once.
//!
//! Each is written in steps, on whatever is the last commit at the time of the step. Between two steps it holds keys
//! and places, never a view of the store.

mod account;
mod block;
mod chain_part;
mod expired;
mod explorer;
mod harvests;
mod history;
mod holders;
mod importances;
mod items;
mod names;
mod owned;
mod pages;
mod supply;
mod transaction;
mod transfers;

pub use account::{AccountBatch, AccountWriter};
pub use block::{BlockByHash, BlockWriter};
pub use chain_part::{ChainPartWriter, HashList};
pub use expired::ExpiredMosaics;
pub use explorer::{ExplorerBlocks, ExplorerWriter};
pub use harvests::HarvestPage;
pub use history::{HistoryPoints, HistoryWriter};
pub use holders::HolderPage;
pub use importances::ImportanceList;
pub use items::{Found, Items, ListWriter};
pub use names::RentedNames;
pub use owned::{OwnedDefinitions, OwnedMosaics};
pub use pages::{DefinitionRows, PageWriter, RootRows};
pub use supply::{SupplyAtHeight, SupplyBatch};
pub use transaction::UnconfirmedList;
pub use transfers::{TransferRows, Transfers};

use std::collections::VecDeque;

use super::actions::Actions;
use super::budget::Budget;
use super::chain_view::ChainView;
use super::failure::Failure;
use super::media::Format;
use super::views::View;
use crate::codec::GAP;
use crate::codec::binary::{BinarySink, Gap};
use crate::codec::json::JsonSink;
use crate::net::machine::Taken;

/// A view that is written in steps.
pub trait LongView {
    /// Writes on until the budget is spent ([`Taken::Unfinished`]) or all is written ([`Taken::Done`]). Some progress is
    /// made with any budget. After a failure it must not be called again, and what is on the sheet is worthless.
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure>;

    /// Looks at what only the node's memory knows, before each step, for as long as the budget lasts. `asked` is the body
    /// of the request, the same each time.
    fn look(&mut self, _asked: &[u8], _: &ChainView<'_>, _: &mut dyn Actions, _: &mut Budget) -> Result<(), Failure> {
        Ok(())
    }

    /// Bytes of memory that it holds between two steps, roughly.
    fn held_bytes(&self) -> usize;

    /// Whether what is on the sheet stays as it is, so that it can be sent before the rest is written.
    fn can_be_cut(&self, format: Format) -> bool {
        format == Format::Json
    }
}

/// Where views are written.
pub struct Sheet<'a> {
    /// In which format.
    pub format: Format,
    /// Takes what is written, behind what is there already.
    pub body: &'a mut Vec<u8>,
    /// Lends its memory.
    pub json: &'a mut JsonSink,
}

impl Sheet<'_> {
    /// Writes a view as a whole.
    pub fn write(&mut self, view: &impl View) {
        match self.format {
            Format::Json => self.json.append_to(self.body, |sink| view.write(sink)),
            Format::Binary => drop(BinarySink::append_to(self.body, |sink| view.write(sink))),
        }
    }
}

/// How long a list is going to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListSize {
    /// How many elements it has.
    pub count: usize,
    /// Bytes of all of them in the binary format, with the length before each.
    pub bytes: usize,
}

/// A list whose elements are written one after another into the [`crate::codec::Sink::gap`] of a view. A view may have
/// several such lists, which are written in the order in which they stand in the format.
#[derive(Debug)]
pub struct OpenList {
    count: usize,
    /// What follows the last element.
    tail: Vec<u8>,
    /// What is to be corrected once the elements of this list and of those behind it are there; in the binary format
    /// only.
    gaps: VecDeque<Gap>,
}

impl OpenList {
    /// Writes a view up to its first gap.
    pub fn open(sheet: &mut Sheet<'_>, view: &impl View) -> OpenList {
        OpenList::open_as(sheet, view, false)
    }

    /// The same for the only list of a view, whose number of elements and their bytes in the binary format are known:
    /// nothing is to be corrected later, so that what is written can be sent.
    pub fn open_sized(sheet: &mut Sheet<'_>, view: &impl View, size: ListSize) -> OpenList {
        OpenList::open(sheet, view).with_size(sheet, size)
    }

    /// Writes an element up to its first gap.
    pub fn open_element(&mut self, sheet: &mut Sheet<'_>, element: &impl View) -> OpenList {
        self.separate(sheet);
        OpenList::open_as(sheet, element, true)
    }

    /// The same for an element with one list whose size is known.
    pub fn open_sized_element(&mut self, sheet: &mut Sheet<'_>, element: &impl View, size: ListSize) -> OpenList {
        self.open_element(sheet, element).with_size(sheet, size)
    }

    fn with_size(mut self, sheet: &mut Sheet<'_>, ListSize { count, bytes }: ListSize) -> OpenList {
        if let Some(gap) = self.gaps.pop_front() {
            gap.fill(sheet.body, count, bytes);
        }
        self
    }

    fn open_as(sheet: &mut Sheet<'_>, view: &impl View, is_element: bool) -> OpenList {
        let start = sheet.body.len();
        match sheet.format {
            Format::Json => {
                sheet.write(view);
                let gap = sheet.body[start..].iter().position(|byte| *byte == GAP);
                let gap = gap.map_or(sheet.body.len(), |gap| start + gap);
                let tail = sheet.body.get(gap + 1..).unwrap_or_default().to_vec();
                sheet.body.truncate(gap);
                OpenList { count: 0, tail, gaps: VecDeque::new() }
            }
            Format::Binary => {
                let gaps = match is_element {
                    true => BinarySink::append_element(sheet.body, |sink| view.write(sink)),
                    false => BinarySink::append_to(sheet.body, |sink| view.write(sink)),
                };
                let end = gaps.first().map_or(sheet.body.len(), Gap::start);
                let tail = sheet.body.split_off(end);
                OpenList { count: 0, tail, gaps: gaps.into() }
            }
        }
    }

    /// Takes note of one more element, and separates it from the one before.
    fn separate(&mut self, sheet: &mut Sheet<'_>) {
        if sheet.format == Format::Json && self.count > 0 {
            sheet.body.push(b',');
        }
        self.count += 1;
    }

    /// Writes an element.
    pub fn push(&mut self, sheet: &mut Sheet<'_>, element: &impl View) {
        self.separate(sheet);
        match sheet.format {
            Format::Json => sheet.write(element),
            Format::Binary => drop(BinarySink::append_element(sheet.body, |sink| element.write(sink))),
        }
    }

    /// Writes an element whose binary form is at hand. Only for the binary format.
    pub fn push_binary(&mut self, sheet: &mut Sheet<'_>, bytes: &[u8]) {
        sheet.body.extend_from_slice(&(bytes.len() as i32).to_le_bytes());
        sheet.body.extend_from_slice(bytes);
        self.count += 1;
    }

    /// Goes on to the next list of the view.
    pub fn next(&mut self, sheet: &mut Sheet<'_>) {
        self.correct(sheet);
        let between = match sheet.format {
            Format::Json => self.tail.iter().position(|byte| *byte == GAP),
            Format::Binary => self.gaps.front().map(|gap| gap.start().saturating_sub(sheet.body.len())),
        };
        sheet.body.extend(self.tail.drain(..between.unwrap_or(self.tail.len()).min(self.tail.len())));
        if sheet.format == Format::Json && !self.tail.is_empty() {
            self.tail.remove(0);
        }
    }

    /// Writes what follows the list.
    pub fn close(&mut self, sheet: &mut Sheet<'_>) {
        self.correct(sheet);
        sheet.body.append(&mut self.tail);
    }

    /// Corrects the lengths in which the elements count, now that all are there.
    fn correct(&mut self, sheet: &mut Sheet<'_>) {
        let count = std::mem::take(&mut self.count);
        let Some(gap) = self.gaps.pop_front() else { return };
        let size = sheet.body.len().saturating_sub(gap.start());
        gap.fill(sheet.body, count, size);
        self.gaps.iter_mut().for_each(|later| later.shift(gap.start(), size));
    }

    /// Bytes of memory that it holds.
    pub fn held_bytes(&self) -> usize {
        self.tail.capacity()
    }
}

/// Bytes that an optional list holds.
fn held_by(list: &Option<OpenList>) -> usize {
    list.as_ref().map_or(0, OpenList::held_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Sink;

    /// An object around a list of heights, with something before it and behind it.
    struct Around;

    impl View for Around {
        fn write(&self, sink: &mut impl Sink) {
            sink.i32("before", 1);
            sink.object("inner", |sink| {
                sink.gap("list");
                sink.i32("behind", 2);
            });
            sink.i32("after", 3);
        }
    }

    struct Number(i32);

    impl View for Number {
        fn write(&self, sink: &mut impl Sink) {
            sink.i32("n", self.0);
        }
    }

    struct Whole;

    impl View for Whole {
        fn write(&self, sink: &mut impl Sink) {
            sink.i32("before", 1);
            sink.object("inner", |sink| {
                sink.list("list", &[7, 8, 9], |sink, item| Number(*item).write(sink));
                sink.i32("behind", 2);
            });
            sink.i32("after", 3);
        }
    }

    #[test]
    fn a_list_put_in_element_by_element_is_as_one_written_at_once_in_either_format() {
        for format in [Format::Json, Format::Binary] {
            let (mut whole, mut parts) = (b"x".to_vec(), b"x".to_vec());
            let mut json = JsonSink::default();
            Sheet { format, body: &mut whole, json: &mut json }.write(&Whole);
            let mut sheet = Sheet { format, body: &mut parts, json: &mut json };
            let mut list = OpenList::open(&mut sheet, &Around);
            [7, 8, 9].into_iter().for_each(|item| list.push(&mut sheet, &Number(item)));
            list.close(&mut sheet);
            assert_eq!(parts, whole, "{format:?}");
        }
    }

    /// Two lists: the one that comes first in JSON comes last in the binary format.
    struct Two<'a>(Option<(&'a [i32], &'a [i32])>);

    impl View for Two<'_> {
        fn write(&self, sink: &mut impl Sink) {
            let list = |sink: &mut _, items: Option<&[i32]>| write_list(sink, items);
            sink.object("block", |sink| {
                list(sink, self.0.map(|(first, _)| first));
                sink.i32("n", 4);
            });
            sink.i32("hash", 5);
            list(sink, self.0.map(|(_, second)| second));
            sink.i32("totalFee", 6);
        }
    }

    fn write_list(sink: &mut impl Sink, items: Option<&[i32]>) {
        match items {
            Some(items) => sink.list("txes", items, |sink, item| Number(*item).write(sink)),
            None => sink.gap("txes"),
        }
    }

    #[test]
    fn elements_that_have_lists_of_their_own_are_as_ones_written_at_once() {
        let (block, txes) = (&[7, 8][..], &[9][..]);
        for (format, parts_in_order) in [(Format::Json, [txes, block]), (Format::Binary, [block, txes])] {
            let (mut whole, mut parts) = (Vec::new(), Vec::new());
            let mut json = JsonSink::default();
            let mut sheet = Sheet { format, body: &mut whole, json: &mut json };
            let mut outer = OpenList::open(&mut sheet, &Around);
            (0..2).for_each(|_| outer.push(&mut sheet, &Two(Some((block, txes)))));
            outer.close(&mut sheet);
            let mut sheet = Sheet { format, body: &mut parts, json: &mut json };
            let mut outer = OpenList::open(&mut sheet, &Around);
            for _ in 0..2 {
                let mut inner = outer.open_element(&mut sheet, &Two(None));
                parts_in_order[0].iter().for_each(|item| inner.push(&mut sheet, &Number(*item)));
                inner.next(&mut sheet);
                parts_in_order[1].iter().for_each(|item| inner.push(&mut sheet, &Number(*item)));
                inner.close(&mut sheet);
            }
            outer.close(&mut sheet);
            assert_eq!(parts, whole, "{format:?}");
        }
    }
}
