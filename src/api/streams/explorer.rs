//! Streamed blocks for explorers: every transaction twice, once with its hashes.

use super::block::REPLACED;
use super::{BodyWriter, ListWriter, ResponseStream, list_bytes};
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::{BlockCursor, ChainSnapshot, RawTransaction};
use crate::api::error::ApiError;
use crate::api::media::Format;
use crate::api::views::{DataListHead, ExplorerBlockHead, ExplorerEntry};
use crate::model::{Address, Height, Transaction};
use crate::net::service::Progress;

/// The two transaction lists of such a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    /// As in the block.
    Plain,
    /// With hashes.
    Hashed,
}

/// Stream of a block with the data for explorers. Fails if the block leaves the chain before it is written.
pub struct ExplorerBlockStream {
    height: Height,
    position: Option<Position>,
}

/// Position in the block.
struct Position {
    /// Start of the block.
    start: BlockCursor,
    cursor: BlockCursor,
    written: List,
    list: ListWriter,
}

impl ExplorerBlockStream {
    /// Creates a stream of the block at a height.
    pub fn new(height: Height) -> ExplorerBlockStream {
        ExplorerBlockStream { height, position: None }
    }

    fn begin(
        &self,
        view: &ChainSnapshot<'_>,
        outer: Option<&mut ListWriter>,
        writer: &mut BodyWriter<'_>,
    ) -> Result<Position, ApiError> {
        let (block, reader) = view.open_block(self.height)?.ok_or_else(|| ApiError::no_block(self.height))?;
        let signer = || Address::from_public_key(&block.signer, view.network.byte);
        let beneficiary = reader.header.beneficiary.unwrap_or_else(signer);
        let shown = ExplorerBlockHead { block: &block, header: &reader.header, beneficiary };
        let list = match outer {
            Some(outer) => outer.open_element(writer, &shown),
            None => ListWriter::open(writer, &shown),
        };
        let start = reader.into_cursor();
        let written = if writer.format == Format::Json { List::Hashed } else { List::Plain };
        Ok(Position { cursor: start.clone(), start, written, list })
    }

    /// Writes the next step, as an element of a list or standalone.
    fn write_step(
        &mut self,
        view: &ChainSnapshot<'_>,
        outer: Option<&mut ListWriter>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        let mut begun = match self.position.take() {
            Some(begun) => begun,
            None => self.begin(view, outer, writer)?,
        };
        let first = begun.written;
        loop {
            let is_written = begun.write_list(view, writer, budget)?;
            if !is_written {
                self.position = Some(begun);
                return Ok(Progress::Yield);
            }
            let is_second = (writer.format == Format::Json) == (begun.written == List::Plain);
            if is_second {
                begun.list.close(writer);
                return Ok(Progress::Done);
            }
            begun.list.next(writer);
            begun.cursor = begun.start.clone();
            begun.written = if first == List::Plain { List::Hashed } else { List::Plain };
        }
    }
}

impl Position {
    /// Continues one of the lists; returns whether it is complete.
    fn write_list(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<bool, ApiError> {
        let mut reader = view.reopen_block(self.cursor.clone())?.ok_or(REPLACED)?;
        while let Some(raw) = reader.next_raw()? {
            self.write(&raw, writer, budget)?;
            if budget.is_exhausted() {
                self.cursor = reader.into_cursor();
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write(
        &mut self,
        raw: &RawTransaction<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<(), ApiError> {
        budget.charge(cost::TRANSACTION + cost::bytes(raw.bytes.len()));
        match (self.written, writer.format) {
            (List::Plain, Format::Binary) => self.list.push_binary(writer, raw.bytes),
            (List::Plain, Format::Json) => self.list.push(writer, &raw.read()?),
            (List::Hashed, _) => {
                let transaction = &raw.read()?;
                let inner_hash = transaction.inner().map(Transaction::hash);
                budget.charge(cost::HASH);
                self.list.push(writer, &ExplorerEntry { transaction, hash: transaction.hash(), inner_hash });
            }
        }
        Ok(())
    }
}

impl ResponseStream for ExplorerBlockStream {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        self.write_step(view, None, writer, budget)
    }

    fn held_bytes(&self) -> usize {
        self.position.as_ref().map_or(0, |begun| begun.list.held_bytes())
    }
}

/// Stream of several such blocks.
pub struct ExplorerBlocksStream {
    current: ExplorerBlockStream,
    /// Last height.
    last: Height,
    list: Option<ListWriter>,
}

impl ExplorerBlocksStream {
    /// Creates a stream from a height up to a height that the chain has; empty if the latter is lower.
    pub fn new(first: Height, last: Height) -> ExplorerBlocksStream {
        ExplorerBlocksStream { current: ExplorerBlockStream::new(first), last, list: None }
    }
}

impl ResponseStream for ExplorerBlocksStream {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        let list = self.list.get_or_insert_with(|| ListWriter::open(writer, &DataListHead));
        while self.current.height <= self.last {
            if self.current.write_step(view, Some(&mut *list), writer, budget)? == Progress::Yield {
                return Ok(Progress::Yield);
            }
            self.current = ExplorerBlockStream::new(self.current.height.next());
            if budget.is_exhausted() {
                return Ok(Progress::Yield);
            }
        }
        list.close(writer);
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        list_bytes(&self.list) + self.current.held_bytes()
    }
}
