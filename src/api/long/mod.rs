//! Views that may be too long to be written at once.
//!
//! Each is written in steps, on whatever is the last commit at the time of the step. Between two steps it holds keys
//! and places, never a view of the store.

mod account;
mod block;
mod items;
mod names;
mod owned;
mod pages;
mod transaction;
mod transfers;

pub use account::AccountWriter;
pub use block::BlockWriter;
pub use items::{Found, Items, ListWriter};
pub use names::RentedNames;
pub use owned::{OwnedDefinitions, OwnedMosaics};
pub use pages::{DefinitionRows, PageWriter, RootRows};
pub use transaction::{FoundTransaction, UnconfirmedList};
pub use transfers::{TransferRows, Transfers};

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

/// A list whose elements are written one after another into the [`crate::codec::Sink::gap`] of a view.
#[derive(Debug)]
pub struct OpenList {
    count: usize,
    /// What follows the last element.
    tail: Vec<u8>,
    /// What is to be corrected once the elements are there; in the binary format only.
    gap: Option<Gap>,
}

impl OpenList {
    /// Writes a view up to its gap.
    pub fn open(sheet: &mut Sheet<'_>, view: &impl View) -> OpenList {
        let start = sheet.body.len();
        match sheet.format {
            Format::Json => {
                sheet.write(view);
                let gap = sheet.body[start..].iter().position(|byte| *byte == GAP);
                let gap = gap.map_or(sheet.body.len(), |gap| start + gap);
                let tail = sheet.body.get(gap + 1..).unwrap_or_default().to_vec();
                sheet.body.truncate(gap);
                OpenList { count: 0, tail, gap: None }
            }
            Format::Binary => {
                let gap = BinarySink::append_to(sheet.body, |sink| view.write(sink));
                let end = gap.as_ref().map_or(sheet.body.len(), Gap::start);
                let tail = sheet.body.split_off(end);
                OpenList { count: 0, tail, gap }
            }
        }
    }

    /// The same for a list that ends its view and whose length is known: nothing is to be corrected later.
    pub fn open_counted(sheet: &mut Sheet<'_>, view: &impl View, count: usize) -> OpenList {
        let mut list = OpenList::open(sheet, view);
        if let Some(gap) = list.gap.take() {
            gap.fill(sheet.body, count, 0);
        }
        list
    }

    /// Writes an element.
    pub fn push(&mut self, sheet: &mut Sheet<'_>, element: &impl View) {
        match sheet.format {
            Format::Json => {
                if self.count > 0 {
                    sheet.body.push(b',');
                }
                sheet.write(element);
            }
            Format::Binary => BinarySink::append_element(sheet.body, |sink| element.write(sink)),
        }
        self.count += 1;
    }

    /// Writes an element whose binary form is at hand. Only for the binary format.
    pub fn push_binary(&mut self, sheet: &mut Sheet<'_>, bytes: &[u8]) {
        sheet.body.extend_from_slice(&(bytes.len() as i32).to_le_bytes());
        sheet.body.extend_from_slice(bytes);
        self.count += 1;
    }

    /// Writes what follows the list.
    pub fn close(&mut self, sheet: &mut Sheet<'_>) {
        let end = sheet.body.len();
        sheet.body.append(&mut self.tail);
        if let Some(gap) = self.gap.take() {
            gap.fill(sheet.body, self.count, end.saturating_sub(gap.start()));
        }
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
}
