//! An event stream, and the data of its events.

use std::cmp::Reverse;
use std::rc::Rc;
use std::time::Duration;

use super::super::streams::{BodyWriter, ResponseStream};
use super::super::transaction_status::{TransactionStatus, signatures_of};
use super::super::transactions::{DAMAGED, TransactionPair, write_hash};
use super::super::{ApiError, NodeContext, NodeStatus, View};
use super::feed::{FeedBlock, HEARTBEAT, MempoolChange, OLD_ROW};
use super::place::{BlockName, END, Place, Position, short};
use super::{AddressReader, Filter, Kinds};
use crate::budget::cost;
use crate::codec::Encoder;
use crate::codec::json::JsonEncoder;
use crate::mempool::{MempoolEntry, MempoolEvent};
use crate::model::{Address, Hash256, Height, Transaction};
use crate::net::service::{ConnectionId, Progress};
use crate::state::{self, AccountTxCursor, Direction, HashEntry, TxLocation};
use crate::store::{StoreError, StoredHeader, stored_header};

/// Blocks between a stream and the blocks that can still be replaced from which on it follows the transaction lists of its
/// accounts.
const FAR: u64 = 64;
/// Transactions that a stream finds in transaction lists before it tells them.
const MAX_FOUND: usize = 1024;
/// Bytes of output after which a step ends.
const STEP_BYTES: usize = 16 << 10;
const FOREIGN: ApiError =
    ApiError::argument("the id is of no block of this chain; begin again with from= and a height");
const ABOVE: ApiError = ApiError::argument("from must not be above the next block");

/// Status of a node that is behind.
const SYNCHRONISING: &str = "synchronising";

/// Where a stream begins.
pub enum Start {
    /// After the event with this place.
    After(Place),
    /// With the block at this height.
    From(Height),
    /// With the next news.
    Now,
}

/// Transactions of some accounts between two heights, in blocks that no rollback reaches.
struct Window {
    first: TxLocation,
    end: Height,
    /// The first id above the window.
    before: u64,
    /// Number of lists that were searched: two of each account.
    searched: usize,
    /// The list that is being searched.
    list: Option<AccountTxCursor>,
    /// What was found; once all lists are searched, the first one is last.
    found: Vec<TxLocation>,
}

/// What a stream has told of the mempool.
#[derive(Clone, Copy)]
enum MempoolPlace {
    /// Nothing yet.
    Start,
    /// The transactions with hashes up to this one; the changes from this number on are told afterwards.
    Listing(Hash256, u64),
    /// The changes before this number.
    Changes(u64),
}

/// A stream.
pub struct EventStream {
    connection: ConnectionId,
    /// Reads its addresses. Boxed, since a stream soon has none.
    reader: Option<Box<AddressReader>>,
    filter: Filter,
    /// Where it begins, until the first output.
    start: Option<Start>,
    place: Place,
    /// Boxed, since a stream at the tip has none.
    window: Option<Box<Window>>,
    /// Blocks of the next window.
    span: u64,
    mempool: MempoolPlace,
    /// Id of the last transaction that had arrived when the listing of the mempool began. Later ones are told as changes.
    listed: u64,
    status: &'static str,
    heartbeat: Duration,
}

/// Returns whether a step ends: its budget is spent, or it has written enough.
fn is_step_over(out: &[u8], node: &NodeContext<'_>) -> bool {
    node.budget.is_exhausted() || out.len() >= STEP_BYTES
}

/// Appends an event whose data is `head`, then `rest`.
fn write_event(out: &mut Vec<u8>, kind: &str, place: &Place, head: &[u8], rest: &[u8]) {
    out.extend_from_slice(format!("id: {place}\nevent: {kind}\ndata: ").as_bytes());
    out.extend_from_slice(head);
    out.extend_from_slice(rest);
    out.extend_from_slice(b"\n\n");
}

/// Appends a transaction that has confirmations.
fn write_transaction(out: &mut Vec<u8>, place: &Place, confirmations: u64, text: &[u8]) {
    let head = format!("{{\"confirmations\":{confirmations},");
    write_event(out, "transaction", place, head.as_bytes(), text.get(1..).unwrap_or_default());
}

/// Returns the data of a transaction of a block, which all streams share.
fn transaction_text(of: &FeedBlock, index: u32) -> Option<Rc<[u8]>> {
    let (id, transaction) = of.block.transactions.get(index as usize)?;
    let cell = of.texts.get(index as usize)?;
    let make = || text_of(transaction, *id, transaction.hash(), index, &of.block.header).into();
    Some(Rc::clone(cell.get_or_init(make)))
}

impl ResponseStream for EventStream {
    fn write_chunk(&mut self, node: &mut NodeContext<'_>, writer: &mut BodyWriter<'_>) -> Result<Progress, ApiError> {
        if let Some(reader) = &mut self.reader {
            let read = reader.advance(node.chain.network.byte, &mut node.budget)?;
            let Some(addresses) = read else { return Ok(Progress::Yield) };
            (self.filter.addresses, self.reader) = (Some(addresses), None);
            if node.budget.is_exhausted() {
                return Ok(Progress::Yield);
            }
        }
        let out = &mut *writer.body;
        if let Some(start) = self.start.take() {
            self.begin(start, node)?;
            self.heartbeat = node.now.monotonic + HEARTBEAT;
            // A line of the first event: some libraries take a block without data for an event.
            out.extend_from_slice(b"retry: 3000\n");
            self.tell_status(node, out);
        }
        let has_more = self.tell(node, out)?;
        self.tell_status(node, out);
        if out.is_empty() && node.now.monotonic >= self.heartbeat {
            // Without an empty line, which some libraries take for the end of an event.
            out.extend_from_slice(b":\n");
        }
        if !out.is_empty() {
            self.heartbeat = node.now.monotonic + HEARTBEAT;
        }
        node.events.wait(self.connection, self.heartbeat, self.filter.tells_mempool(), has_more);
        Ok(Progress::Streaming)
    }

    fn held_bytes(&self) -> usize {
        let addresses = self.filter.addresses.as_ref().map_or(0, |addresses| addresses.len() * size_of::<Address>());
        let unread = self.reader.as_ref().map_or(0, |reader| reader.held_bytes());
        let found = self
            .window
            .as_ref()
            .map_or(0, |window| size_of::<Window>() + window.found.capacity() * size_of::<TxLocation>());
        size_of::<EventStream>() + addresses + unread + found
    }
}

impl EventStream {
    /// Creates a stream for the accounts with these addresses, which are read in its first steps, or for all accounts.
    pub fn new(connection: ConnectionId, reader: Option<AddressReader>, filter: Filter, start: Start) -> EventStream {
        EventStream {
            connection,
            reader: reader.map(Box::new),
            filter,
            start: Some(start),
            place: Place::start(),
            window: None,
            span: u64::MAX,
            mempool: MempoolPlace::Start,
            listed: 0,
            status: "",
            heartbeat: Duration::ZERO,
        }
    }

    /// Tells the state of the node if it has changed, and with each sign of life while the node is behind.
    fn tell_status(&mut self, node: &NodeContext<'_>, out: &mut Vec<u8>) {
        let (own, told) = (node.chain.height, self.place.height);
        let status = match node.status {
            NodeStatus::Loading(_) => "loading",
            NodeStatus::Running => "not booted",
            NodeStatus::Booting => "booting",
            // Another node has told more than this one has.
            _ if told > own => SYNCHRONISING,
            NodeStatus::Booted => SYNCHRONISING,
            NodeStatus::Synchronized => "synchronised",
            NodeStatus::NoRemoteNode => "no peers",
        };
        let is_reminder = status == SYNCHRONISING && node.now.monotonic >= self.heartbeat;
        if status == self.status && !is_reminder {
            return;
        }
        self.status = status;
        let reported = node.peers.as_deref().and_then(|peers| peers.height_check.network_height());
        let reported = reported.filter(|_| status == SYNCHRONISING);
        let network_height = reported.into_iter().chain([own, told]).max().unwrap_or(own);
        let text = JsonEncoder::document(|sink| {
            sink.u64("height", own.0);
            sink.u64("networkHeight", network_height.0);
            sink.u64("behind", network_height.0.saturating_sub(own.0));
            sink.string("status", Some(status));
        });
        write_event(out, "synchronising", &self.place, &text, b"");
    }

    /// Takes the place where the stream begins.
    fn begin(&mut self, start: Start, node: &mut NodeContext<'_>) -> Result<(), ApiError> {
        let (chain, told) = (&node.chain, self.told_height(node));
        self.place = match start {
            Start::After(place) => match self.position(&place, node)? {
                Position::Foreign => return Err(FOREIGN),
                _ => place,
            },
            Start::From(height) if height.0 > chain.height.0 + 1 => return Err(ABOVE),
            Start::From(height) => Place::after(Height(height.0 - 1), chain)?,
            Start::Now => Place::after(told, chain)?,
        };
        Ok(())
    }

    /// Returns the last height whose blocks have enough confirmations.
    fn told_height(&self, node: &NodeContext<'_>) -> Height {
        Height((node.chain.height.0 + 1).saturating_sub(self.filter.confirmations.max(1)))
    }

    /// Returns where a place is. A stream whose blocks have more confirmations than a rollback can undo takes nothing back:
    /// if the chain has other blocks, it waits until the chain is replaced, or is of another chain.
    fn position(&self, place: &Place, node: &NodeContext<'_>) -> Result<Position, StoreError> {
        let is_final = self.filter.confirmations > node.chain.network.chain.rewrite_limit;
        Ok(match place.position(&node.chain, node.events)? {
            Position::InChain => Position::InChain,
            _ if is_final && place.height > self.told_height(node) => Position::Ahead,
            _ if is_final => Position::Foreign,
            position => position,
        })
    }

    /// Tells what is to be told. Returns whether there is more.
    fn tell(&mut self, node: &mut NodeContext<'_>, out: &mut Vec<u8>) -> Result<bool, ApiError> {
        // Some progress is made with any budget.
        loop {
            node.budget.charge(cost::HEADER);
            match self.position(&self.place, node)? {
                // The chain has the block again, but a rollback that has begun is told to its end.
                Position::InChain if self.place.rollback.is_some() => {
                    let block = node.events.block(self.place.height, &node.chain, &mut node.budget)?;
                    self.tell_undone(&block, Height(self.place.height.0.saturating_sub(1)), node, out)?;
                }
                Position::InChain => break,
                Position::Ahead => return Ok(false),
                Position::Undone(block, common) => self.tell_undone(&block, common, node, out)?,
                Position::Forked(height) => {
                    let height = self.place.rollback.map_or(height, |told| height.min(told));
                    self.place = Place::after(height, &node.chain)?;
                    write_event(out, "rollback", &self.place, &rollback_text(height, false), b"");
                }
                Position::Foreign => return Err(FOREIGN),
            }
            if is_step_over(out, node) {
                return Ok(true);
            }
        }
        let target = self.told_height(node);
        loop {
            if self.window.is_some() {
                self.tell_window(node, out)?;
            } else if self.place.height < target && !self.filter.tells_chain() {
                node.budget.charge(cost::HEADER);
                self.place = Place::after(target, &node.chain)?;
            } else if let Some(window) = self.open_window(target, node)? {
                self.window = Some(Box::new(window));
            } else if self.place.height > target || (self.place.height == target && self.place.next == END) {
                return self.tell_mempool(node, out);
            } else {
                self.tell_block(node, out)?;
            }
            if is_step_over(out, node) {
                return Ok(true);
            }
        }
    }

    /// Returns the next window, if the stream is so far behind that it follows the transaction lists of its accounts.
    fn open_window(&self, target: Height, node: &NodeContext<'_>) -> Result<Option<Window>, StoreError> {
        let is_possible = self.filter.addresses.is_some() && !self.filter.kinds.blocks;
        let last = target.0.min(node.chain.height.0.saturating_sub(node.chain.network.chain.rewrite_limit));
        if !is_possible || self.place.height.0 + FAR >= last {
            return Ok(None);
        }
        let end = Height(last.min(self.place.height.0.saturating_add(self.span)));
        let first = match self.place.next {
            END => TxLocation { height: self.place.height.next(), index: 0 },
            index => TxLocation { height: self.place.height, index },
        };
        let before = stored_header(node.chain.snapshot, end)?.ok_or(DAMAGED)?.ids.1;
        Ok(Some(Window { first, end, before, searched: 0, list: None, found: Vec::new() }))
    }

    /// Tells the last transaction of an undone block that was told, or goes on with its parent.
    fn tell_undone(
        &mut self,
        of: &Rc<FeedBlock>,
        common: Height,
        node: &mut NodeContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        let told = self.place.rollback;
        let common = told.map_or(common, |told| common.min(told));
        self.place.rollback = Some(common);
        if told != Some(common) {
            write_event(out, "rollback", &self.place, &rollback_text(common, true), b"");
        }
        let indexes = self.filter.indexes(of);
        node.budget.charge(cost::HEADER + cost::SKIP * indexes.len() as u32);
        let told = indexes.partition_point(|index| *index < self.place.next);
        for index in indexes.into_iter().take(told).rev() {
            self.place.next = index;
            if let Some(text) = transaction_text(of, index) {
                node.budget.charge(cost::TRANSACTION + cost::bytes(text.len()));
                write_event(out, "undone", &self.place, &text, b"");
            }
            if is_step_over(out, node) {
                return Ok(());
            }
        }
        let before = Height(of.block.header.height.0.saturating_sub(1));
        let parent = short(&of.block.parent);
        self.place = match node.events.undone(before, &parent) {
            Some(parent) if before > common => {
                Place { height: before, next: END, block: Rc::clone(&parent.name), rollback: None }
            }
            _ => Place::after(before, &node.chain)?,
        };
        self.place.rollback = Some(common).filter(|common| *common < before);
        Ok(())
    }

    /// Goes on after the block at a height without reading more than its header, if it has no transactions and is so old
    /// that few streams tell it. Returns whether it does.
    fn skip_empty_block(&mut self, height: Height, node: &mut NodeContext<'_>) -> Result<bool, StoreError> {
        if node.events.is_shared(height, &node.chain) {
            return Ok(false);
        }
        let header = stored_header(node.chain.snapshot, height)?.ok_or(DAMAGED)?;
        node.budget.charge(cost::HEADER);
        if header.ids.0 != header.ids.1 {
            return Ok(false);
        }
        node.budget.charge(cost::HEADER);
        self.place = Place { height, next: END, block: Rc::new(BlockName::of(&header, &node.chain)?), rollback: None };
        Ok(true)
    }

    /// Tells the rest of the block of the place, or goes on to the next block.
    fn tell_block(&mut self, node: &mut NodeContext<'_>, out: &mut Vec<u8>) -> Result<(), ApiError> {
        let is_new = self.place.next == END;
        let height = if is_new { self.place.height.next() } else { self.place.height };
        if is_new && !self.filter.kinds.blocks && self.skip_empty_block(height, node)? {
            return Ok(());
        }
        let of = node.events.block(height, &node.chain, &mut node.budget)?;
        let confirmations = (node.chain.height.0 + 1).saturating_sub(height.0);
        if is_new {
            node.budget.charge(cost::HEADER);
            self.place = Place { height, next: 0, block: Rc::clone(&of.name), rollback: None };
            if self.filter.kinds.blocks {
                write_event(out, "block", &self.place, &block_text(&of, confirmations), b"");
            }
        }
        let indexes = self.filter.indexes(&of);
        node.budget.charge(cost::SKIP + cost::SKIP * indexes.len() as u32);
        let told = indexes.partition_point(|index| *index < self.place.next);
        for index in indexes.into_iter().skip(told) {
            self.place.next = index + 1;
            if let Some(text) = transaction_text(&of, index) {
                node.budget.charge(cost::TRANSACTION + cost::bytes(text.len()));
                write_transaction(out, &self.place, confirmations, &text);
            }
            if is_step_over(out, node) {
                return Ok(());
            }
        }
        self.place.next = END;
        Ok(())
    }

    /// Searches the window, or tells what was found in it.
    fn tell_window(&mut self, node: &mut NodeContext<'_>, out: &mut Vec<u8>) -> Result<(), ApiError> {
        let Some(window) = &mut self.window else { return Ok(()) };
        let addresses = self.filter.addresses.as_deref().unwrap_or_default();
        let chain = node.chain;
        if let Some(address) = addresses.get(window.searched / 2) {
            let mut list = match window.list.take() {
                Some(list) => list,
                None => {
                    node.budget.charge(cost::TX_LIST);
                    let direction = [Direction::Incoming, Direction::Outgoing][window.searched % 2];
                    AccountTxCursor::new(chain.snapshot, address, direction, window.before)?
                }
            };
            while let Some((_, location)) = list.peek().filter(|(_, location)| *location >= window.first) {
                node.budget.charge(OLD_ROW);
                window.found.push(location);
                list.advance(chain.snapshot)?;
                if window.found.len() > MAX_FOUND && window.end.0 > self.place.height.0 + 1 {
                    // A smaller window is searched instead.
                    self.span = (window.end.0 - self.place.height.0) / 2;
                    self.window = None;
                    return Ok(());
                }
                if node.budget.is_exhausted() {
                    window.list = Some(list);
                    return Ok(());
                }
            }
            window.searched += 1;
            if window.searched == 2 * addresses.len() {
                window.found.sort_unstable_by_key(|location| Reverse(*location));
                window.found.dedup();
            }
            return Ok(());
        }
        let Some(location) = window.found.pop() else {
            self.span = (window.end.0 - self.place.height.0).max(1).saturating_mul(2);
            self.place = Place::after(window.end, &chain)?;
            self.window = None;
            return Ok(());
        };
        let (header, raw) = chain.transaction_and_header(location)?.ok_or(DAMAGED)?;
        let (transaction, id) = (raw.read()?, state::transaction_id(chain.snapshot, location)?.ok_or(DAMAGED)?);
        node.budget.charge(OLD_ROW + cost::TRANSACTION + cost::bytes(2 * raw.bytes.len()));
        if location.height > self.place.height {
            let block = Rc::new(BlockName::of(&header, &chain)?);
            self.place = Place { height: location.height, next: END, block, rollback: None };
        }
        self.place.next = location.index + 1;
        if self.filter.kinds.transactions && self.filter.moves_mosaic(&transaction) {
            let text = text_of(&transaction, id, raw.hash(&transaction), location.index, &header);
            write_transaction(out, &self.place, chain.height.0 - location.height.0 + 1, &text);
        }
        Ok(())
    }

    /// Tells the mempool, once the chain is told. Returns whether there is more.
    fn tell_mempool(&mut self, node: &mut NodeContext<'_>, out: &mut Vec<u8>) -> Result<bool, ApiError> {
        if !self.filter.tells_mempool() {
            return Ok(false);
        }
        loop {
            node.budget.charge(cost::SKIP);
            match self.mempool {
                MempoolPlace::Start => {
                    self.mempool = MempoolPlace::Listing(Hash256::default(), node.events.next_change());
                    self.listed = node.mempool.last_id();
                }
                MempoolPlace::Listing(last, changes) => match node.mempool.after(&last) {
                    None => self.mempool = MempoolPlace::Changes(changes),
                    Some(entry) => {
                        self.mempool = MempoolPlace::Listing(entry.hashes.own, changes);
                        let concerns = |accounts: &[Address]| self.filter.has_one_of(accounts);
                        let is_told = self.filter.kinds.unconfirmed
                            && entry.id <= self.listed
                            && (concerns(&entry.accounts) || concerns(&entry.cosignatories))
                            && self.filter.moves_mosaic(&entry.transaction);
                        if is_told {
                            let text = unconfirmed_text(entry, node)?;
                            self.tell_change_of_mempool("unconfirmed", &text, node, out);
                        }
                    }
                },
                MempoolPlace::Changes(number) if number < node.events.first_change => {
                    self.mempool = MempoolPlace::Start;
                }
                MempoolPlace::Changes(number) => {
                    let Some(change) = node.events.change(number) else { return Ok(false) };
                    self.mempool = MempoolPlace::Changes(number + 1);
                    self.tell_change(&change, node, out)?;
                }
            }
            if is_step_over(out, node) {
                return Ok(true);
            }
        }
    }

    fn tell_change(
        &mut self,
        change: &MempoolChange,
        node: &mut NodeContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        let Kinds { left, unconfirmed, .. } = self.filter.kinds;
        let is_wanted = match change.event {
            MempoolEvent::Left(_) => left,
            MempoolEvent::Confirmed => left && self.filter.addresses.is_some(),
            // What has been listed is not told again.
            MempoolEvent::Arrived => unconfirmed && change.id > self.listed,
            MempoolEvent::Cosigned => unconfirmed,
        };
        let is_told =
            is_wanted && self.filter.has_one_of(&change.accounts) && self.filter.moves_mosaic(&change.transaction);
        if !is_told {
            return Ok(());
        }
        let entry = node.mempool.by_hash(&change.hashes.own).filter(|entry| entry.id == change.id);
        let (kind, text) = match (change.event, change.text.get(), entry) {
            (MempoolEvent::Left(fate), ..) => {
                let status = TransactionStatus::ended(change.hashes.own, fate);
                let make = || JsonEncoder::document(|sink| status.write(sink)).into();
                ("left", Rc::clone(change.text.get_or_init(make)))
            }
            // The chain's transaction lists are of fewer accounts: others do not hear of it with its block.
            (MempoolEvent::Confirmed, ..) => {
                let confirmed = node.find_hash(&change.hashes.own)?;
                let Some(HashEntry { height, index, .. }) = confirmed else { return Ok(()) };
                let block = node.events.block(height, &node.chain, &mut node.budget)?;
                if self.filter.indexes(&block).contains(&index) {
                    return Ok(());
                }
                let status = TransactionStatus::look_up(change.hashes.own, node)?;
                ("left", JsonEncoder::document(|sink| status.write(sink)).into())
            }
            // It has been confirmed meanwhile, or its end or its return follows.
            (_, _, None) => return Ok(()),
            (_, Some(text), Some(_)) => ("unconfirmed", Rc::clone(text)),
            (_, None, Some(entry)) => {
                let text = unconfirmed_text(entry, node)?;
                ("unconfirmed", Rc::clone(change.text.get_or_init(|| text)))
            }
        };
        self.tell_change_of_mempool(kind, &text, node, out);
        Ok(())
    }

    fn tell_change_of_mempool(&self, kind: &str, text: &[u8], node: &mut NodeContext<'_>, out: &mut Vec<u8>) {
        node.budget.charge(cost::TRANSACTION + cost::bytes(text.len()));
        write_event(out, kind, &self.place, text, b"");
    }
}

/// Returns the data of `rollback`: everything told above a height is undone, and the undone transactions follow or not.
fn rollback_text(height: Height, is_listed: bool) -> Vec<u8> {
    JsonEncoder::document(|sink| {
        sink.u64("height", height.0);
        sink.string("transactions", Some(if is_listed { "listed" } else { "unknown" }));
    })
}

/// Returns the data of `block`.
fn block_text(of: &FeedBlock, confirmations: u64) -> Vec<u8> {
    let block = &of.block;
    JsonEncoder::document(|sink| {
        sink.u64("confirmations", confirmations);
        sink.u64("height", block.header.height.0);
        sink.bytes("hash", Some(&block.header.hash.0));
        sink.i32("timeStamp", block.header.timestamp.0);
        sink.bytes("signer", Some(&block.signer.0));
        sink.string("harvester", Some(block.harvester.as_str()));
        sink.u64("totalFee", block.header.total_fee.0);
        sink.i32("transactions", block.transactions.len() as i32);
    })
}

/// Returns the data of `transaction` and `undone`, without the confirmations: a transaction with its id and hash, and its
/// index in the block with a header.
fn text_of(transaction: &Transaction, id: u64, hash: Hash256, index: u32, header: &StoredHeader) -> Vec<u8> {
    JsonEncoder::document(|sink| {
        sink.u64("height", header.height.0);
        sink.i32("index", index as i32);
        sink.bytes("blockHash", Some(&header.hash.0));
        sink.i32("timeStamp", header.timestamp.0);
        TransactionPair::new(transaction, header.height, id, hash).write(sink);
    })
}

/// Returns the data of `unconfirmed`.
fn unconfirmed_text(entry: &MempoolEntry, node: &NodeContext<'_>) -> Result<Rc<[u8]>, StoreError> {
    let signatures = signatures_of(entry, node)?;
    let MempoolEntry { transaction, hashes, since, .. } = entry;
    let text = JsonEncoder::document(|sink| {
        sink.object("meta", |sink| {
            sink.hash("hash", &hashes.own.0);
            write_hash(sink, "innerHash", entry.inner_hash());
        });
        sink.i32("since", since.0);
        sink.i32("deadline", transaction.deadline.0);
        if let Some(signatures) = &signatures {
            sink.object("multisig", |sink| signatures.write(sink));
        }
        sink.object("transaction", |sink| transaction.write(sink));
    });
    Ok(Rc::from(text))
}
