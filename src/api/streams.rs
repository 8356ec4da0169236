//! Streamed responses: views that can be too long to write at once.
//!
//! Each is written in steps, every step on a snapshot of the last commit. Between two steps a stream holds keys and
//! positions, never a snapshot. Nearly all are lists, which [`list_stream`] writes: a function appends elements until the
//! budget is spent, and is called again in the next step.
//!
//! [`PendingStreams`] keeps the streams in progress, by connection. At most [`MAX_ACTIVE_PER_CLIENT`] streams of a client
//! advance at a time; its others wait for a turn. When all streams together hold too much memory, a [`Quota`] decides
//! whose gives way.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::accounts::CHANGED;
use super::error::ApiError;
use super::request_context::{NodeContext, RequestContext};
use super::response::end_of_body;
use super::{Format, View};
use crate::codec::binary::{BinaryEncoder, SplicePoint};
use crate::codec::json::JsonEncoder;
use crate::codec::{Encoder, SPLICE_BYTE};
use crate::crypto::Signature;
use crate::net::SharedBytesCounter;
use crate::net::http::SharedBody;
use crate::net::service::{ConnectionId, Progress};
use crate::peer::wire::AuthenticatedResponse;
use crate::quota::{Owner, Quota};

/// A view that is written in steps.
pub trait ResponseStream {
    /// Writes until the budget is spent ([`Progress::Yield`]) or all is written ([`Progress::Done`]), or waits for a peer
    /// ([`Progress::Suspended`]). Makes some progress with any budget. After an error it must not be called again, and the
    /// output is invalid.
    fn write_chunk(&mut self, node: &mut NodeContext<'_>, writer: &mut BodyWriter<'_>) -> Result<Progress, ApiError>;

    /// Returns the approximate memory in bytes held between two steps.
    fn held_bytes(&self) -> usize;

    /// Completes the response once all is written.
    fn finish(self: Box<Self>, context: &mut RequestContext<'_>) -> Result<(), ApiError> {
        context.response.end();
        Ok(())
    }

    /// Returns whether the output so far is final, so that it can be sent before the rest is written.
    fn is_streamable(&self, format: Format) -> bool {
        format == Format::Json
    }
}

/// `{"data": [...]}`, with an [`Encoder::spliced_list`] for the list.
pub struct DataListHead;

impl View for DataListHead {
    fn write(&self, sink: &mut impl Encoder) {
        sink.spliced_list("data");
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
        self.append(view, false);
    }

    /// Writes a view, or an element of a list. Returns the places of its [`Encoder::spliced_list`]s in the binary format.
    fn append(&mut self, view: &impl View, is_element: bool) -> Vec<SplicePoint> {
        match self.format {
            Format::Json => self.json.append_to(self.body, |sink| view.write(sink)),
            Format::Binary if is_element => return BinaryEncoder::append_element(self.body, |sink| view.write(sink)),
            Format::Binary => return BinaryEncoder::append_to(self.body, |sink| view.write(sink)),
        }
        Vec::new()
    }
}

/// A list whose elements are written one after another in place of the [`crate::codec::Encoder::spliced_list`] of a
/// view. A view can have several such lists, which are written in the order of the format.
#[derive(Debug, Default)]
pub struct ListWriter {
    count: usize,
    /// Bytes that follow the last element.
    tail: Vec<u8>,
    /// Lengths to correct once the elements of this list and of the later ones are written; binary format only.
    placeholders: VecDeque<SplicePoint>,
    is_sized: bool,
}

impl ListWriter {
    /// Writes a view, or an element of another list, up to its first gap.
    fn open(writer: &mut BodyWriter<'_>, view: &impl View, is_element: bool) -> ListWriter {
        let start = writer.body.len();
        let placeholders = writer.append(view, is_element);
        let gap = match writer.format {
            Format::Json => writer.body[start..].iter().position(|byte| *byte == SPLICE_BYTE).map(|gap| start + gap),
            Format::Binary => placeholders.first().map(SplicePoint::start),
        };
        let tail = writer.body.split_off(gap.unwrap_or(writer.body.len()));
        let mut list = ListWriter { count: 0, tail, placeholders: placeholders.into(), is_sized: false };
        list.skip_splice_byte(writer.format);
        list
    }

    /// Drops the byte that has the place of the elements.
    fn skip_splice_byte(&mut self, format: Format) {
        if format == Format::Json && !self.tail.is_empty() {
            self.tail.remove(0);
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
        writer.append(element, true);
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
        self.skip_splice_byte(writer.format);
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
        for later in &mut self.placeholders {
            later.shift(gap.start(), size);
        }
    }
}

/// What writes a list in one step: the node, the budget, and the list to which elements are appended.
pub struct ListStep<'a, 'n, 'w> {
    /// The node on the last commit, and the budget of the step.
    pub node: &'a mut NodeContext<'n>,
    /// Approximate memory in bytes that the source of the elements holds between two steps.
    pub held_bytes: &'a mut usize,
    writer: &'a mut BodyWriter<'w>,
    /// Signature of the challenge of the peer that gets the list.
    signature: Option<Signature>,
    /// The step ends after an element.
    is_separate: bool,
    /// The open lists: each but the first belongs to the current element of the one before.
    lists: &'a mut Vec<ListWriter>,
    /// Place among them of the list to which elements are appended, once it is open.
    level: usize,
    /// The step ends before the list is complete; the next step continues it.
    pub is_interrupted: bool,
}

impl ListStep<'_, '_, '_> {
    /// Returns the format.
    pub fn format(&self) -> Format {
        self.writer.format
    }

    /// Writes a view up to its list, in the first step; a list that is not opened is a [`DataListHead`].
    pub fn open(&mut self, view: &impl View) {
        if self.is_open() {
            return;
        }
        let list = if let Some(outer) = self.lists.last_mut() {
            outer.separate(self.writer);
            ListWriter::open(self.writer, view, true)
        } else if let Some(signature) = self.signature {
            ListWriter::open(self.writer, &AuthenticatedResponse { entity: view, signature }, false)
        } else {
            ListWriter::open(self.writer, view, false)
        };
        self.lists.push(list);
    }

    fn is_open(&self) -> bool {
        self.lists.len() > self.level
    }

    /// The same for the only list of a view whose number of elements is known, and their bytes in the binary format
    /// with their length prefixes: no length is corrected later, so the output is final.
    pub fn open_sized(&mut self, view: &impl View, count: usize, bytes: usize) {
        if !self.is_open() {
            self.open(view);
            let list = &mut self.lists[self.level];
            list.is_sized = true;
            if let Some(gap) = list.placeholders.pop_front() {
                gap.fill(self.writer.body, count, bytes);
            }
        }
    }

    /// Writes an element.
    pub fn push(&mut self, element: &impl View) {
        self.open(&DataListHead);
        self.lists[self.level].push(self.writer, element);
    }

    /// Writes an element that is already encoded. Only for the binary format.
    pub fn push_binary(&mut self, bytes: &[u8]) {
        self.open(&DataListHead);
        self.lists[self.level].push_binary(self.writer, bytes);
    }

    /// Writes an element that has a list of its own, as far as the budget reaches; returns whether it is complete. If it is
    /// not, the next step must continue it.
    pub fn element(
        &mut self,
        write: impl FnOnce(&mut ListStep<'_, '_, '_>) -> Result<(), ApiError>,
    ) -> Result<bool, ApiError> {
        self.open(&DataListHead);
        self.level += 1;
        write(self)?;
        if !self.is_interrupted {
            self.close();
        }
        self.level -= 1;
        Ok(!self.is_interrupted)
    }

    /// Continues with the next list of the view.
    pub fn next_list(&mut self) {
        self.lists[self.level].next(self.writer);
    }

    fn close(&mut self) {
        self.open(&DataListHead);
        if let Some(mut list) = self.lists.pop() {
            list.close(self.writer);
        }
    }

    /// Returns the size in bytes of the output so far.
    pub fn written(&self) -> usize {
        self.writer.body.len()
    }

    /// Returns whether to go on when `left` elements are left: not at the end of the list, nor once the budget is spent
    /// or a separate element is written, in which cases the next step continues.
    pub fn should_continue(&mut self, left: usize) -> bool {
        let is_over = self.node.budget.is_exhausted() || self.is_separate && self.level == 0 && self.written() > 0;
        self.is_interrupted = left > 0 && is_over;
        left > 0 && !self.is_interrupted
    }

    /// Writes an element for each of some items, which hold `item_bytes` each until then, as far as the budget reaches.
    pub fn push_each<T>(
        &mut self,
        items: &mut std::vec::IntoIter<T>,
        item_bytes: usize,
        mut write: impl FnMut(&mut Self, T) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        while let Some(item) = items.next() {
            write(self, item)?;
            *self.held_bytes = items.len() * item_bytes;
            if !self.should_continue(items.len()) {
                break;
            }
        }
        Ok(())
    }

    /// Interrupts the list if the budget is spent, and returns whether it is.
    pub fn must_pause(&mut self) -> bool {
        !self.should_continue(usize::MAX)
    }
}

/// Writes a list as far as the budget reaches.
type WriteList = dyn FnMut(&mut ListStep<'_, '_, '_>) -> Result<(), ApiError>;

/// Stream of a list. A function appends elements until [`ListStep::should_continue`] returns `false` or there are no
/// more; the next step calls it again.
pub struct ListStream {
    write: Box<WriteList>,
    fails_as_a_whole: bool,
    signature: Option<Signature>,
    is_separate: bool,
    held_bytes: usize,
    lists: Vec<ListWriter>,
}

/// Creates the stream of a list that a function writes.
pub fn list_stream(write: impl FnMut(&mut ListStep<'_, '_, '_>) -> Result<(), ApiError> + 'static) -> ListStream {
    let (write, lists, held_bytes) = (Box::new(write), Vec::new(), 0);
    ListStream { write, fails_as_a_whole: false, signature: None, is_separate: false, held_bytes, lists }
}

impl ListStream {
    /// Sends nothing before all is written, because a later element may fail.
    pub fn failing_as_a_whole(self) -> ListStream {
        ListStream { fails_as_a_whole: true, ..self }
    }

    /// Writes the response with the signature of a peer's challenge, if it sent one.
    pub fn signed(self, signature: impl Into<Option<Signature>>) -> ListStream {
        ListStream { signature: signature.into(), ..self }
    }

    /// Writes each element as a text of its own, without a list around them. A step ends with [`Progress::Streaming`] after
    /// each but the last.
    pub fn separately(self) -> ListStream {
        ListStream { is_separate: true, ..self }
    }
}

impl ResponseStream for ListStream {
    fn write_chunk(&mut self, node: &mut NodeContext<'_>, writer: &mut BodyWriter<'_>) -> Result<Progress, ApiError> {
        let (signature, is_separate) = (self.signature, self.is_separate);
        let ListStream { write, held_bytes, lists, .. } = self;
        if is_separate {
            *lists = vec![ListWriter::default()];
        }
        let (level, is_interrupted) = (0, false);
        let mut step = ListStep { node, held_bytes, writer, signature, is_separate, lists, level, is_interrupted };
        write(&mut step)?;
        if step.is_interrupted {
            return Ok(if is_separate && step.written() > 0 { Progress::Streaming } else { Progress::Yield });
        }
        step.close();
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        self.held_bytes + self.lists.iter().map(|list| list.tail.capacity()).sum::<usize>()
    }

    fn is_streamable(&self, format: Format) -> bool {
        let is_sized = self.lists.first().is_some_and(|list| list.is_sized);
        !self.fails_as_a_whole && (format == Format::Json || is_sized)
    }
}

/// Creates the stream of a list with an element for each of some items, which hold `item_bytes` each until then.
pub fn list_of_each<T: 'static>(
    items: Vec<T>,
    item_bytes: usize,
    mut write: impl FnMut(&mut ListStep<'_, '_, '_>, T) -> Result<(), ApiError> + 'static,
) -> ListStream {
    let mut items = items.into_iter();
    list_stream(move |step| step.push_each(&mut items, item_bytes, &mut write))
}

/// Maximum memory in bytes of kept lists, of all formats and versions together.
pub const MAX_LIST_BYTES: usize = 16 << 20;
/// Maximum number of elements of a kept list: about half of that memory.
pub const MAX_LIST_ELEMENTS: usize = 48 << 10;

/// A list that is the same for all clients until the chain changes. It is written once, by the requests for it in turns.
struct KeptList {
    format: Format,
    bytes: Vec<u8>,
    /// What writes the rest. If there is neither this nor the whole list, the chain has changed, and it cannot be written to
    /// its end.
    rest: Option<Box<dyn ResponseStream>>,
    /// All of it, once it is written; `bytes` is empty then.
    whole: Option<Rc<SharedBody>>,
    pool: SharedBytesCounter,
}

/// Kept lists, the oldest first. Requests for an older version go on while there is memory for it.
#[derive(Default)]
pub struct KeptLists {
    lists: VecDeque<Rc<RefCell<KeptList>>>,
    /// Number of lists, at the end, that agree with the chain.
    current: usize,
    /// Counts the lists that are written, also those that were dropped and are still being sent.
    pub pool: SharedBytesCounter,
}

impl KeptLists {
    /// Returns a response with the list of a format, which `start` begins to write if there is none.
    pub fn stream(&mut self, format: Format, start: impl FnOnce() -> Box<dyn ResponseStream>) -> KeptListStream {
        let current = self.lists.iter().rev().take(self.current);
        let is_usable = |list: &KeptList| list.format == format && (list.rest.is_some() || list.whole.is_some());
        let mut usable = current.filter(|list| is_usable(&list.borrow()));
        if let Some(list) = usable.next() {
            return KeptListStream(Rc::downgrade(list));
        }
        while self.bytes() > MAX_LIST_BYTES / 2 {
            self.lists.pop_front();
        }
        let (rest, pool) = (Some(start()), self.pool.clone());
        let list = Rc::new(RefCell::new(KeptList { format, bytes: Vec::new(), rest, whole: None, pool }));
        let stream = KeptListStream(Rc::downgrade(&list));
        self.lists.push_back(list);
        self.current = (self.current + 1).min(self.lists.len());
        stream
    }

    /// Returns the bytes of all lists.
    pub fn bytes(&self) -> usize {
        let bytes =
            |list: &KeptList| list.bytes.capacity() + list.whole.as_ref().map_or(0, |whole| whole.plain().len());
        self.lists.iter().map(|list| bytes(&list.borrow())).sum()
    }

    /// Begins new versions: the chain has changed.
    pub fn chain_changed(&mut self) {
        self.current = 0;
    }
}

/// A request for a kept list. It writes what is missing of the list with the others that wait for it, and then all send the
/// same bytes.
pub struct KeptListStream(Weak<RefCell<KeptList>>);

impl ResponseStream for KeptListStream {
    fn write_chunk(&mut self, node: &mut NodeContext<'_>, writer: &mut BodyWriter<'_>) -> Result<Progress, ApiError> {
        let list = self.0.upgrade().ok_or(CHANGED)?;
        let KeptList { format, bytes, rest, whole, pool } = &mut *list.borrow_mut();
        let Some(mut unwritten) = rest.take() else { return whole.as_ref().map(|_| Progress::Done).ok_or(CHANGED) };
        let mut list_writer = BodyWriter { format: *format, body: bytes, json: &mut *writer.json };
        if unwritten.write_chunk(node, &mut list_writer)? == Progress::Done {
            bytes.extend_from_slice(end_of_body(*format));
            *whole = Some(Rc::new(SharedBody::new(std::mem::take(bytes), pool)));
            return Ok(Progress::Done);
        }
        *rest = Some(unwritten);
        Ok(Progress::Yield)
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>()
    }

    /// The list may have been dropped since: then it had failed.
    fn finish(self: Box<Self>, context: &mut RequestContext<'_>) -> Result<(), ApiError> {
        let whole = self.0.upgrade().and_then(|list| list.borrow().whole.clone());
        context.set_shared(whole.ok_or(CHANGED)?);
        Ok(())
    }
}

/// Maximum number of streams of a client that advance at a time.
pub const MAX_ACTIVE_PER_CLIENT: usize = 32;
/// Maximum memory of all streams in bytes. Beyond it the largest of the client that holds most gives way, with 503.
pub const MAX_PENDING_BYTES: usize = 64 << 20;

const EVICTED: ApiError = ApiError::unavailable("the long answers being written take too much memory");

/// The streams in progress.
#[derive(Default)]
pub struct PendingStreams {
    streams: BTreeMap<ConnectionId, PendingStream>,
    /// Their memory. Its time is the number of steps of all streams.
    memory: Quota<ConnectionId>,
    /// Clients with streams that advance or wait for a turn.
    clients: BTreeMap<Owner, ClientStreams>,
    /// Number of steps of all streams so far.
    steps: u64,
    /// Connections to resume.
    resumable: Vec<ConnectionId>,
}

struct PendingStream {
    /// `None` once it is evicted, until its request is resumed.
    stream: Option<Box<dyn ResponseStream>>,
    client: Owner,
    /// Number of its last step.
    step: u64,
    /// Why it is not complete: it advances (`Yield`), waits for a turn among the streams of its client (`Queued`), or waits for
    /// something else.
    progress: Progress,
}

#[derive(Default)]
struct ClientStreams {
    /// Streams that wait for a turn, in order of arrival.
    queued: BTreeSet<(u64, ConnectionId)>,
    active: usize,
}

impl PendingStreams {
    /// Stores the stream of a connection after a step with this progress; `bytes` is the memory that it holds,
    /// including the unsent body. Returns the state of the request, `Queued` if other streams of the client go first,
    /// or 503 if the stream was evicted at once.
    pub fn insert(
        &mut self,
        connection: ConnectionId,
        client: Owner,
        rest: Box<dyn ResponseStream>,
        bytes: usize,
        progress: Progress,
    ) -> Result<Progress, ApiError> {
        self.detach(connection);
        self.steps += 1;
        let of_client = self.clients.entry(client).or_default();
        let progress = match progress {
            Progress::Yield if of_client.active < MAX_ACTIVE_PER_CLIENT => {
                of_client.active += 1;
                Progress::Yield
            }
            Progress::Yield => {
                of_client.queued.insert((self.steps, connection));
                Progress::Queued
            }
            waiting => waiting,
        };
        self.memory.hold(connection, client, bytes, self.time());
        self.streams.insert(connection, PendingStream { stream: Some(rest), client, step: self.steps, progress });
        self.evict();
        // The caller learns the state from the result, so it must not be resumed as well.
        self.resumable.retain(|due| *due != connection);
        match self.streams.get(&connection) {
            Some(PendingStream { stream: None, .. }) => {
                self.streams.remove(&connection);
                Err(EVICTED)
            }
            // An eviction may have given it a turn.
            kept => Ok(kept.map_or(progress, |kept| kept.progress)),
        }
    }

    /// Removes and returns the stream of a connection, or the error if it was evicted.
    pub fn remove(&mut self, connection: ConnectionId) -> Option<Result<Box<dyn ResponseStream>, ApiError>> {
        self.detach(connection).map(|kept| kept.stream.ok_or(EVICTED))
    }

    /// Gives free turns to the waiting streams of a client.
    pub fn activate_queued(&mut self, client: Owner) {
        let Some(of_client) = self.clients.get_mut(&client) else { return };
        while of_client.active < MAX_ACTIVE_PER_CLIENT
            && let Some((_, connection)) = of_client.queued.pop_first()
        {
            of_client.active += 1;
            if let Some(stream) = self.streams.get_mut(&connection) {
                stream.progress = Progress::Yield;
            }
            self.resumable.push(connection);
        }
    }

    /// Drops the stream of a closed connection.
    pub fn on_disconnect(&mut self, connection: ConnectionId) {
        if let Some(PendingStream { client, .. }) = self.detach(connection) {
            self.activate_queued(client);
        }
    }

    /// Returns the connections to resume, each once.
    pub fn take_resumable(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.resumable)
    }

    fn time(&self) -> Duration {
        Duration::from_nanos(self.steps)
    }

    fn detach(&mut self, connection: ConnectionId) -> Option<PendingStream> {
        let kept = self.streams.remove(&connection)?;
        self.memory.release(connection, self.time());
        let Some(of_client) = self.clients.get_mut(&kept.client) else { return Some(kept) };
        of_client.queued.remove(&(kept.step, connection));
        if kept.progress == Progress::Yield {
            of_client.active = of_client.active.saturating_sub(1);
        }
        if of_client.queued.is_empty() && of_client.active == 0 {
            self.clients.remove(&kept.client);
        }
        Some(kept)
    }

    /// Evicts the streams that give way until the total is within the limit.
    fn evict(&mut self) {
        while self.memory.total() > MAX_PENDING_BYTES
            && let Some((client, connection)) = self.memory.gives_way()
            && let Some(evicted) = self.detach(connection)
        {
            if evicted.progress != Progress::Yield {
                self.resumable.push(connection);
            }
            let evicted = PendingStream { stream: None, progress: Progress::Suspended, ..evicted };
            self.streams.insert(connection, evicted);
            self.activate_queued(client);
        }
    }
}

#[cfg(test)]
mod writer_tests {
    use super::*;

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
            let mut list = ListWriter::open(&mut writer, &ListInObject, false);
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
            let mut outer = ListWriter::open(&mut writer, &ListInObject, false);
            (0..2).for_each(|_| outer.push(&mut writer, &TwoLists(Some((block, txes)))));
            outer.close(&mut writer);
            let mut writer = BodyWriter { format, body: &mut parts, json: &mut json };
            let mut outer = ListWriter::open(&mut writer, &ListInObject, false);
            for _ in 0..2 {
                outer.separate(&mut writer);
                let mut inner = ListWriter::open(&mut writer, &TwoLists(None), true);
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

#[cfg(test)]
mod pending_tests {
    use super::*;
    use crate::net::service::{Client, ListenerId};

    impl PendingStreams {
        /// Returns the number of streams, including evicted ones whose request is not resumed yet.
        pub(in crate::api) fn len(&self) -> usize {
            self.streams.len()
        }

        /// Returns whether no stream and no accounting is left.
        pub(in crate::api) fn is_clear(&self) -> bool {
            self.len() == 0 && self.clients.is_empty() && self.memory.is_empty()
        }
    }

    struct EmptyStream;

    impl ResponseStream for EmptyStream {
        fn write_chunk(&mut self, _: &mut NodeContext<'_>, _: &mut BodyWriter<'_>) -> Result<Progress, ApiError> {
            Ok(Progress::Done)
        }

        fn held_bytes(&self) -> usize {
            0
        }
    }

    fn client(number: u8) -> Owner {
        let client = Client::direct(ListenerId(0), [10, 0, 0, number].into());
        Owner::of(&client)
    }

    /// Stores a stream; `None` if it was evicted at once.
    fn keep(
        unfinished: &mut PendingStreams,
        connection: u64,
        of: u8,
        bytes: usize,
        progress: Progress,
    ) -> Option<Progress> {
        unfinished.insert(ConnectionId(connection), client(of), Box::new(EmptyStream), bytes, progress).ok()
    }

    fn due(unfinished: &mut PendingStreams) -> Vec<u64> {
        unfinished.take_resumable().into_iter().map(|connection| connection.0).collect()
    }

    #[test]
    fn streams_of_one_client_are_queued_without_delaying_other_clients() {
        let mut unfinished = PendingStreams::default();
        let (most, all) = (MAX_ACTIVE_PER_CLIENT as u64, 250);
        for connection in 0..all {
            let expected = if connection < most { Progress::Yield } else { Progress::Queued };
            assert_eq!(keep(&mut unfinished, connection, 1, 1_000, Progress::Yield), Some(expected));
        }
        assert_eq!(keep(&mut unfinished, 1_000, 2, 1_000, Progress::Yield), Some(Progress::Yield));
        assert_eq!(
            keep(&mut unfinished, 1_001, 1, 0, Progress::Suspended),
            Some(Progress::Suspended),
            "it takes no turn"
        );
        // A stream that advances keeps its turn; one that ends gives it to the first that waits.
        assert!(unfinished.remove(ConnectionId(5)).is_some());
        assert_eq!(keep(&mut unfinished, 5, 1, 2_000, Progress::Yield), Some(Progress::Yield));
        assert_eq!(due(&mut unfinished), [0; 0]);
        for connection in 0..all {
            assert!(unfinished.remove(ConnectionId(connection)).is_some());
            unfinished.activate_queued(client(1));
            let next = connection + most;
            assert_eq!(due(&mut unfinished), if next < all { vec![next] } else { vec![] });
            if next < all {
                assert!(unfinished.remove(ConnectionId(next)).is_some_and(|rest| rest.is_ok()));
                assert_eq!(keep(&mut unfinished, next, 1, 9, Progress::Yield), Some(Progress::Yield));
            }
        }
        [1_000, 1_001].into_iter().for_each(|connection| unfinished.on_disconnect(ConnectionId(connection)));
        assert!(unfinished.is_clear());
    }

    #[test]
    fn a_disconnect_activates_the_next_queued_stream() {
        let mut unfinished = PendingStreams::default();
        let most = MAX_ACTIVE_PER_CLIENT as u64;
        for connection in 0..most + 3 {
            assert!(keep(&mut unfinished, connection, 1, 1, Progress::Yield).is_some());
        }
        unfinished.on_disconnect(ConnectionId(most + 1));
        assert_eq!(due(&mut unfinished), [0; 0]);
        unfinished.on_disconnect(ConnectionId(3));
        unfinished.on_disconnect(ConnectionId(4));
        assert_eq!(due(&mut unfinished), [most, most + 2]);
    }

    #[test]
    fn a_stream_activated_by_an_eviction_continues_without_being_resumed() {
        let mut unfinished = PendingStreams::default();
        let (most, share) = (MAX_ACTIVE_PER_CLIENT as u64, MAX_PENDING_BYTES / MAX_ACTIVE_PER_CLIENT);
        for connection in 0..most {
            assert!(keep(&mut unfinished, connection, 1, share, Progress::Yield).is_some());
        }
        // The first is evicted for it, and fails when it is resumed.
        assert_eq!(keep(&mut unfinished, most, 1, share, Progress::Yield), Some(Progress::Yield));
        assert_eq!(due(&mut unfinished), [0; 0]);
        assert_eq!(
            keep(&mut unfinished, most + 1, 1, 0, Progress::Yield),
            Some(Progress::Queued),
            "all turns are taken"
        );
        unfinished.on_disconnect(ConnectionId(most));
        assert_eq!(due(&mut unfinished), [most + 1]);
        // A stream evicted at once is reported at once, and not resumed.
        assert!(keep(&mut unfinished, 100, 2, MAX_PENDING_BYTES + 1, Progress::Suspended).is_none());
        assert!(!due(&mut unfinished).contains(&100));
    }

    #[test]
    fn the_largest_client_loses_its_largest_stream_of_equals_the_least_recently_written() {
        let mut unfinished = PendingStreams::default();
        let share = MAX_PENDING_BYTES / 16;
        for connection in 0..10 {
            assert!(keep(&mut unfinished, connection, 1, share, Progress::Yield).is_some());
        }
        for connection in 10..16 {
            assert!(keep(&mut unfinished, connection, 2, share, Progress::Suspended).is_some());
        }
        unfinished.remove(ConnectionId(0));
        assert!(keep(&mut unfinished, 0, 1, share, Progress::Yield).is_some());
        assert_eq!(keep(&mut unfinished, 20, 3, 1, Progress::Yield), Some(Progress::Yield));
        assert!(unfinished.remove(ConnectionId(1)).is_some_and(|rest| rest.is_err()));
        assert!(unfinished.remove(ConnectionId(0)).is_some_and(|rest| rest.is_ok()));
        assert_eq!(due(&mut unfinished), [0; 0], "one that is written on goes on by itself, and hears of it");
        // A waiting stream is resumed with the error; a client that asks for too much loses that stream at once.
        assert!(keep(&mut unfinished, 30, 1, 0, Progress::Yield).is_some());
        assert!(keep(&mut unfinished, 40, 4, 3 * share, Progress::Yield).is_some());
        assert!(keep(&mut unfinished, 41, 4, MAX_PENDING_BYTES - share, Progress::Yield).is_none());
        (0..50).for_each(|connection| unfinished.on_disconnect(ConnectionId(connection)));
        assert!(unfinished.is_clear());
    }

    #[test]
    fn streams_of_many_clients_in_one_network_give_way_to_one_of_another() {
        let mut unfinished = PendingStreams::default();
        let share = MAX_PENDING_BYTES / 64;
        let far = Owner::of(&Client::direct(ListenerId(0), [10, 0, 9, 1].into()));
        let largest = Box::new(EmptyStream);
        assert!(unfinished.insert(ConnectionId(1_000), far, largest, 8 * share, Progress::Suspended).is_ok());
        for connection in 0..200 {
            keep(&mut unfinished, connection, connection as u8, share, Progress::Suspended);
        }
        assert!(unfinished.remove(ConnectionId(1_000)).is_some_and(|rest| rest.is_ok()));
        assert_eq!(unfinished.streams.values().filter(|kept| kept.stream.is_some()).count(), 56);
    }
}

#[cfg(test)]
pub(super) mod tests;
