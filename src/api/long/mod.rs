//! Streamed responses: views that can be too long to write at once.
//!
//! Each is written in steps, every step on a snapshot of the last commit. Between two steps a stream holds keys and
//! positions, never a snapshot.

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
    /// Writes until the budget is spent ([`Taken::Unfinished`]) or all is written ([`Taken::Done`]). Makes some
    /// progress with any budget. After an error it must not be called again, and the output is invalid.
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure>;

    /// Runs before each step, within the budget, with access to the node. `asked` is the request body.
    fn look(&mut self, _asked: &[u8], _: &ChainView<'_>, _: &mut dyn Actions, _: &mut Budget) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns the approximate memory in bytes held between two steps.
    fn held_bytes(&self) -> usize;

    /// Returns whether the output so far is final, so that it can be sent before the rest is written.
    fn can_be_cut(&self, format: Format) -> bool {
        format == Format::Json
    }
}

/// Output of views.
pub struct Sheet<'a> {
    /// Format.
    pub format: Format,
    /// Buffer to which the output is appended.
    pub body: &'a mut Vec<u8>,
    /// Reused buffer.
    pub json: &'a mut JsonSink,
}

impl Sheet<'_> {
    /// Writes a whole view.
    pub fn write(&mut self, view: &impl View) {
        match self.format {
            Format::Json => self.json.append_to(self.body, |sink| view.write(sink)),
            Format::Binary => drop(BinarySink::append_to(self.body, |sink| view.write(sink))),
        }
    }
}

/// Size of a list that is known in advance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListSize {
    /// Number of elements.
    pub count: usize,
    /// Total size in bytes of the elements in the binary format, with their length prefixes.
    pub bytes: usize,
}

/// A list whose elements are written one after another in place of the [`crate::codec::Sink::gap`] of a view. A view
/// can have several such lists, which are written in the order of the format.
#[derive(Debug)]
pub struct OpenList {
    count: usize,
    /// Bytes that follow the last element.
    tail: Vec<u8>,
    /// Lengths to correct once the elements of this list and of the later ones are written; binary format only.
    gaps: VecDeque<Gap>,
}

impl OpenList {
    /// Writes a view up to its first gap.
    pub fn open(sheet: &mut Sheet<'_>, view: &impl View) -> OpenList {
        OpenList::open_as(sheet, view, false)
    }

    /// The same for the only list of a view, with a known size in the binary format: no length is corrected later, so
    /// the output can be streamed.
    pub fn open_sized(sheet: &mut Sheet<'_>, view: &impl View, size: ListSize) -> OpenList {
        OpenList::open(sheet, view).with_size(sheet, size)
    }

    /// Writes an element up to its first gap.
    pub fn open_element(&mut self, sheet: &mut Sheet<'_>, element: &impl View) -> OpenList {
        self.separate(sheet);
        OpenList::open_as(sheet, element, true)
    }

    /// The same for an element that has one list of known size.
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

    /// Counts one more element and writes the separator before it.
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

    /// Writes an element that is already encoded. Only for the binary format.
    pub fn push_binary(&mut self, sheet: &mut Sheet<'_>, bytes: &[u8]) {
        sheet.body.extend_from_slice(&(bytes.len() as i32).to_le_bytes());
        sheet.body.extend_from_slice(bytes);
        self.count += 1;
    }

    /// Continues with the next list of the view.
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

    /// Closes the list and writes the rest of the view.
    pub fn close(&mut self, sheet: &mut Sheet<'_>) {
        self.correct(sheet);
        sheet.body.append(&mut self.tail);
    }

    /// Corrects the lengths that include the elements of this list.
    fn correct(&mut self, sheet: &mut Sheet<'_>) {
        let count = std::mem::take(&mut self.count);
        let Some(gap) = self.gaps.pop_front() else { return };
        let size = sheet.body.len().saturating_sub(gap.start());
        gap.fill(sheet.body, count, size);
        self.gaps.iter_mut().for_each(|later| later.shift(gap.start(), size));
    }

    /// Returns the memory in bytes that it holds.
    pub fn held_bytes(&self) -> usize {
        self.tail.capacity()
    }
}

/// Returns the memory in bytes of an optional list.
fn held_by(list: &Option<OpenList>) -> usize {
    list.as_ref().map_or(0, OpenList::held_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Sink;

    /// An object around a list of heights, with a field before and after the list.
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

    /// Two lists. The first in JSON is the last in the binary format.
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
