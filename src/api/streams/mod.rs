//! Streamed responses: views that can be too long to write at once.
//!
//! Each is written in steps, every step on a snapshot of the last commit. Between two steps a stream holds keys and
//! positions, never a snapshot.

mod items;

pub use items::{ItemSource, NextItem, OwnedDefinitions, OwnedMosaics, RentedNamespaces, item_list};

use std::collections::VecDeque;

use super::budget::Budget;
use super::chain_snapshot::ChainSnapshot;
use super::error::ApiError;
use super::media::Format;
use super::node_handle::NodeHandle;
use super::views::{DataListHead, View};
use crate::codec::SPLICE_BYTE;
use crate::codec::binary::{BinaryEncoder, SplicePoint};
use crate::codec::json::JsonEncoder;
use crate::crypto::Signature;
use crate::net::service::Progress;
use crate::peer::wire::AuthenticatedResponse;

/// A view that is written in steps.
pub trait ResponseStream {
    /// Writes until the budget is spent ([`Progress::Yield`]) or all is written ([`Progress::Done`]). Makes some
    /// progress with any budget. After an error it must not be called again, and the output is invalid.
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError>;

    /// Runs before each step, within the budget, with access to the node. `body` is the request body.
    fn prepare(
        &mut self,
        _body: &[u8],
        _: &ChainSnapshot<'_>,
        _: &mut dyn NodeHandle,
        _: &mut Budget,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    /// Returns the approximate memory in bytes held between two steps.
    fn held_bytes(&self) -> usize;

    /// Returns whether the output so far is final, so that it can be sent before the rest is written.
    fn is_streamable(&self, format: Format) -> bool {
        format == Format::Json
    }
}

/// Output of views.
pub struct BodyWriter<'a> {
    /// Format.
    pub format: Format,
    /// Buffer to which the output is appended.
    pub body: &'a mut Vec<u8>,
    /// Reused buffer.
    pub json: &'a mut JsonEncoder,
}

impl BodyWriter<'_> {
    /// Writes a whole view.
    pub fn write(&mut self, view: &impl View) {
        match self.format {
            Format::Json => self.json.append_to(self.body, |sink| view.write(sink)),
            Format::Binary => drop(BinaryEncoder::append_to(self.body, |sink| view.write(sink))),
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

/// A list whose elements are written one after another in place of the [`crate::codec::Encoder::spliced_list`] of a
/// view. A view can have several such lists, which are written in the order of the format.
#[derive(Debug)]
pub struct ListWriter {
    count: usize,
    /// Bytes that follow the last element.
    tail: Vec<u8>,
    /// Lengths to correct once the elements of this list and of the later ones are written; binary format only.
    placeholders: VecDeque<SplicePoint>,
}

impl ListWriter {
    /// Writes a view up to its first gap.
    pub fn open(writer: &mut BodyWriter<'_>, view: &impl View) -> ListWriter {
        ListWriter::open_as(writer, view, false)
    }

    /// The same for the only list of a view, with a known size in the binary format: no length is corrected later, so
    /// the output can be streamed.
    pub fn open_sized(writer: &mut BodyWriter<'_>, view: &impl View, size: ListSize) -> ListWriter {
        ListWriter::open(writer, view).with_size(writer, size)
    }

    /// Writes an element up to its first gap.
    pub fn open_element(&mut self, writer: &mut BodyWriter<'_>, element: &impl View) -> ListWriter {
        self.separate(writer);
        ListWriter::open_as(writer, element, true)
    }

    /// The same for an element that has one list of known size.
    pub fn open_sized_element(
        &mut self,
        writer: &mut BodyWriter<'_>,
        element: &impl View,
        size: ListSize,
    ) -> ListWriter {
        self.open_element(writer, element).with_size(writer, size)
    }

    fn with_size(mut self, writer: &mut BodyWriter<'_>, ListSize { count, bytes }: ListSize) -> ListWriter {
        if let Some(gap) = self.placeholders.pop_front() {
            gap.fill(writer.body, count, bytes);
        }
        self
    }

    fn open_as(writer: &mut BodyWriter<'_>, view: &impl View, is_element: bool) -> ListWriter {
        let start = writer.body.len();
        match writer.format {
            Format::Json => {
                writer.write(view);
                let gap = writer.body[start..].iter().position(|byte| *byte == SPLICE_BYTE);
                let gap = gap.map_or(writer.body.len(), |gap| start + gap);
                let tail = writer.body.get(gap + 1..).unwrap_or_default().to_vec();
                writer.body.truncate(gap);
                ListWriter { count: 0, tail, placeholders: VecDeque::new() }
            }
            Format::Binary => {
                let gaps = match is_element {
                    true => BinaryEncoder::append_element(writer.body, |sink| view.write(sink)),
                    false => BinaryEncoder::append_to(writer.body, |sink| view.write(sink)),
                };
                let end = gaps.first().map_or(writer.body.len(), SplicePoint::start);
                let tail = writer.body.split_off(end);
                ListWriter { count: 0, tail, placeholders: gaps.into() }
            }
        }
    }

    /// Counts one more element and writes the separator before it.
    fn separate(&mut self, writer: &mut BodyWriter<'_>) {
        if writer.format == Format::Json && self.count > 0 {
            writer.body.push(b',');
        }
        self.count += 1;
    }

    /// Writes an element.
    pub fn push(&mut self, writer: &mut BodyWriter<'_>, element: &impl View) {
        self.separate(writer);
        match writer.format {
            Format::Json => writer.write(element),
            Format::Binary => drop(BinaryEncoder::append_element(writer.body, |sink| element.write(sink))),
        }
    }

    /// Writes an element that is already encoded. Only for the binary format.
    pub fn push_binary(&mut self, writer: &mut BodyWriter<'_>, bytes: &[u8]) {
        writer.body.extend_from_slice(&(bytes.len() as i32).to_le_bytes());
        writer.body.extend_from_slice(bytes);
        self.count += 1;
    }

    /// Continues with the next list of the view.
    pub fn next(&mut self, writer: &mut BodyWriter<'_>) {
        self.correct(writer);
        let between = match writer.format {
            Format::Json => self.tail.iter().position(|byte| *byte == SPLICE_BYTE),
            Format::Binary => self.placeholders.front().map(|gap| gap.start().saturating_sub(writer.body.len())),
        };
        writer.body.extend(self.tail.drain(..between.unwrap_or(self.tail.len()).min(self.tail.len())));
        if writer.format == Format::Json && !self.tail.is_empty() {
            self.tail.remove(0);
        }
    }

    /// Closes the list and writes the rest of the view.
    pub fn close(&mut self, writer: &mut BodyWriter<'_>) {
        self.correct(writer);
        writer.body.append(&mut self.tail);
    }

    /// Corrects the lengths that include the elements of this list.
    fn correct(&mut self, writer: &mut BodyWriter<'_>) {
        let count = std::mem::take(&mut self.count);
        let Some(gap) = self.placeholders.pop_front() else { return };
        let size = writer.body.len().saturating_sub(gap.start());
        gap.fill(writer.body, count, size);
        self.placeholders.iter_mut().for_each(|later| later.shift(gap.start(), size));
    }

    /// Returns the memory in bytes that it holds.
    pub fn held_bytes(&self) -> usize {
        self.tail.capacity()
    }
}

/// What writes a list in one step: the snapshot, the budget, and the list to which elements are appended.
pub struct ListStep<'a, 'w, 's> {
    /// Snapshot of the last commit.
    pub view: &'a ChainSnapshot<'s>,
    /// The budget of the step.
    pub budget: &'a mut Budget,
    /// Approximate memory in bytes that the source of the elements holds between two steps.
    pub held_bytes: &'a mut usize,
    list: &'a mut ListWriter,
    writer: &'a mut BodyWriter<'w>,
    is_interrupted: bool,
}

impl ListStep<'_, '_, '_> {
    /// Writes an element.
    pub fn push(&mut self, element: &impl View) {
        self.list.push(self.writer, element);
    }

    /// Returns the size in bytes of the output so far.
    pub fn written(&self) -> usize {
        self.writer.body.len()
    }

    /// Returns whether to go on when `left` elements are left: not at the end of the list, nor once the budget is spent,
    /// in which case the next step continues.
    pub fn should_continue(&mut self, left: usize) -> bool {
        self.is_interrupted = left > 0 && self.budget.is_exhausted();
        left > 0 && !self.is_interrupted
    }

    /// Ends the step before the list is complete.
    pub fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// Returns whether the next step continues the list.
    pub fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }
}

/// Stream of a list. A function appends elements until [`ListStep::should_continue`] returns `false` or there are no
/// more; the next step calls it again.
pub struct ListStream<F> {
    write: F,
    signature: Option<Signature>,
    size: Option<ListSize>,
    fails_as_a_whole: bool,
    held_bytes: usize,
    list: Option<ListWriter>,
}

/// Creates the stream of a list that a function writes.
pub fn list_stream<F>(write: F) -> ListStream<F>
where
    F: FnMut(&mut ListStep<'_, '_, '_>) -> Result<(), ApiError>,
{
    ListStream { write, signature: None, size: None, fails_as_a_whole: false, held_bytes: 0, list: None }
}

impl<F> ListStream<F> {
    /// Wraps the list in the response to a signed challenge.
    pub fn signed(self, signature: Signature) -> ListStream<F> {
        ListStream { signature: Some(signature), ..self }
    }

    /// Writes this number of elements, so that the binary format can be streamed too.
    pub fn with_count(self, count: usize) -> ListStream<F> {
        // No enclosing length includes the list: it is the whole response.
        ListStream { size: Some(ListSize { count, bytes: 0 }), ..self }
    }

    /// Sends nothing before all is written, because a later element may fail.
    pub fn failing_as_a_whole(self) -> ListStream<F> {
        ListStream { fails_as_a_whole: true, ..self }
    }

    /// Holds memory from the beginning on.
    pub fn holding(self, held_bytes: usize) -> ListStream<F> {
        ListStream { held_bytes, ..self }
    }
}

impl<F> ResponseStream for ListStream<F>
where
    F: FnMut(&mut ListStep<'_, '_, '_>) -> Result<(), ApiError>,
{
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        let ListStream { write, signature, size, held_bytes, list, .. } = self;
        let list = list.get_or_insert_with(|| {
            let list = match *signature {
                Some(signature) => ListWriter::open(writer, &AuthenticatedResponse { entity: DataListHead, signature }),
                None => ListWriter::open(writer, &DataListHead),
            };
            match *size {
                Some(size) => list.with_size(writer, size),
                None => list,
            }
        });
        let mut step = ListStep { view, budget, held_bytes, list, writer, is_interrupted: false };
        write(&mut step)?;
        if step.is_interrupted {
            return Ok(Progress::Yield);
        }
        list.close(writer);
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        list_bytes(&self.list) + self.held_bytes
    }

    fn is_streamable(&self, format: Format) -> bool {
        !self.fails_as_a_whole && (format == Format::Json || self.size.is_some())
    }
}

/// Returns the memory in bytes of an optional list.
pub fn list_bytes(list: &Option<ListWriter>) -> usize {
    list.as_ref().map_or(0, ListWriter::held_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Encoder;

    /// An object around a list of heights, with a field before and after the list.
    struct ListInObject;

    impl View for ListInObject {
        fn write(&self, sink: &mut impl Encoder) {
            sink.i32("before", 1);
            sink.object("inner", |sink| {
                sink.spliced_list("list");
                sink.i32("behind", 2);
            });
            sink.i32("after", 3);
        }
    }

    struct Number(i32);

    impl View for Number {
        fn write(&self, sink: &mut impl Encoder) {
            sink.i32("n", self.0);
        }
    }

    struct CompleteObject;

    impl View for CompleteObject {
        fn write(&self, sink: &mut impl Encoder) {
            sink.i32("before", 1);
            sink.object("inner", |sink| {
                sink.list("list", &[7, 8, 9], |sink, item| Number(*item).write(sink));
                sink.i32("behind", 2);
            });
            sink.i32("after", 3);
        }
    }

    #[test]
    fn a_list_written_element_by_element_equals_one_written_at_once() {
        for format in [Format::Json, Format::Binary] {
            let (mut whole, mut parts) = (b"x".to_vec(), b"x".to_vec());
            let mut json = JsonEncoder::default();
            BodyWriter { format, body: &mut whole, json: &mut json }.write(&CompleteObject);
            let mut writer = BodyWriter { format, body: &mut parts, json: &mut json };
            let mut list = ListWriter::open(&mut writer, &ListInObject);
            [7, 8, 9].into_iter().for_each(|item| list.push(&mut writer, &Number(item)));
            list.close(&mut writer);
            assert_eq!(parts, whole, "{format:?}");
        }
    }

    /// Two lists. The first in JSON is the last in the binary format.
    struct TwoLists<'a>(Option<(&'a [i32], &'a [i32])>);

    impl View for TwoLists<'_> {
        fn write(&self, sink: &mut impl Encoder) {
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

    fn write_list(sink: &mut impl Encoder, items: Option<&[i32]>) {
        match items {
            Some(items) => sink.list("txes", items, |sink, item| Number(*item).write(sink)),
            None => sink.spliced_list("txes"),
        }
    }

    #[test]
    fn elements_with_nested_lists_equal_those_written_at_once() {
        let (block, txes) = (&[7, 8][..], &[9][..]);
        for (format, parts_in_order) in [(Format::Json, [txes, block]), (Format::Binary, [block, txes])] {
            let (mut whole, mut parts) = (Vec::new(), Vec::new());
            let mut json = JsonEncoder::default();
            let mut writer = BodyWriter { format, body: &mut whole, json: &mut json };
            let mut outer = ListWriter::open(&mut writer, &ListInObject);
            (0..2).for_each(|_| outer.push(&mut writer, &TwoLists(Some((block, txes)))));
            outer.close(&mut writer);
            let mut writer = BodyWriter { format, body: &mut parts, json: &mut json };
            let mut outer = ListWriter::open(&mut writer, &ListInObject);
            for _ in 0..2 {
                let mut inner = outer.open_element(&mut writer, &TwoLists(None));
                parts_in_order[0].iter().for_each(|item| inner.push(&mut writer, &Number(*item)));
                inner.next(&mut writer);
                parts_in_order[1].iter().for_each(|item| inner.push(&mut writer, &Number(*item)));
                inner.close(&mut writer);
            }
            outer.close(&mut writer);
            assert_eq!(parts, whole, "{format:?}");
        }
    }
}
