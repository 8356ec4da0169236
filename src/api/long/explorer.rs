//! Streamed blocks for explorers: every transaction twice, once with its hashes.

use super::block::REPLACED;
use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::{BlockCursor, ChainView, RawTransaction};
use crate::api::failure::Failure;
use crate::api::media::Format;
use crate::api::views::{DataGap, ExplorerEntry, ExplorerWithGaps};
use crate::model::{Address, Height, Transaction};
use crate::net::machine::Taken;

/// The two transaction lists of such a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    /// As in the block.
    Bare,
    /// With hashes.
    Hashed,
}

/// Stream of a block with the data for explorers. Fails if the block leaves the chain before it is written.
pub struct ExplorerWriter {
    height: Height,
    begun: Option<Begun>,
}

/// Position in the block.
struct Begun {
    /// Start of the block.
    start: BlockCursor,
    cursor: BlockCursor,
    written: List,
    list: OpenList,
}

impl ExplorerWriter {
    /// Creates a stream of the block at a height.
    pub fn new(height: Height) -> ExplorerWriter {
        ExplorerWriter { height, begun: None }
    }

    fn begin(
        &self,
        view: &ChainView<'_>,
        outer: Option<&mut OpenList>,
        sheet: &mut Sheet<'_>,
    ) -> Result<Begun, Failure> {
        let (block, reader) = view.open_block(self.height)?.ok_or_else(|| Failure::no_block(self.height))?;
        let signer = || Address::from_public_key(&block.signer, view.network.byte);
        let beneficiary = reader.header.lessor.unwrap_or_else(signer);
        let shown = ExplorerWithGaps { block: &block, header: &reader.header, beneficiary };
        let list = match outer {
            Some(outer) => outer.open_element(sheet, &shown),
            None => OpenList::open(sheet, &shown),
        };
        let start = reader.into_cursor();
        let written = if sheet.format == Format::Json { List::Hashed } else { List::Bare };
        Ok(Begun { cursor: start.clone(), start, written, list })
    }

    /// Writes the next step, as an element of a list or standalone.
    fn go_on(
        &mut self,
        view: &ChainView<'_>,
        outer: Option<&mut OpenList>,
        sheet: &mut Sheet<'_>,
        budget: &mut Budget,
    ) -> Result<Taken, Failure> {
        let mut begun = match self.begun.take() {
            Some(begun) => begun,
            None => self.begin(view, outer, sheet)?,
        };
        let first = begun.written;
        loop {
            let is_written = begun.write_list(view, sheet, budget)?;
            if !is_written {
                self.begun = Some(begun);
                return Ok(Taken::Unfinished);
            }
            let is_second = (sheet.format == Format::Json) == (begun.written == List::Bare);
            if is_second {
                begun.list.close(sheet);
                return Ok(Taken::Done);
            }
            begun.list.next(sheet);
            begun.cursor = begun.start.clone();
            begun.written = if first == List::Bare { List::Hashed } else { List::Bare };
        }
    }
}

impl Begun {
    /// Continues one of the lists; returns whether it is complete.
    fn write_list(
        &mut self,
        view: &ChainView<'_>,
        sheet: &mut Sheet<'_>,
        budget: &mut Budget,
    ) -> Result<bool, Failure> {
        let mut reader = view.reopen_block(self.cursor.clone())?.ok_or(REPLACED)?;
        while let Some(raw) = reader.next_raw()? {
            self.write(&raw, sheet, budget)?;
            if budget.is_spent() {
                self.cursor = reader.into_cursor();
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write(&mut self, raw: &RawTransaction<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<(), Failure> {
        budget.spend(cost::TRANSACTION + cost::bytes(raw.bytes.len()));
        match (self.written, sheet.format) {
            (List::Bare, Format::Binary) => self.list.push_binary(sheet, raw.bytes),
            (List::Bare, Format::Json) => self.list.push(sheet, &raw.read()?),
            (List::Hashed, _) => {
                let transaction = &raw.read()?;
                let inner_hash = transaction.inner().map(Transaction::hash);
                budget.spend(cost::HASH);
                self.list.push(sheet, &ExplorerEntry { transaction, hash: transaction.hash(), inner_hash });
            }
        }
        Ok(())
    }
}

impl LongView for ExplorerWriter {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        self.go_on(view, None, sheet, budget)
    }

    fn held_bytes(&self) -> usize {
        self.begun.as_ref().map_or(0, |begun| begun.list.held_bytes())
    }
}

/// Stream of several such blocks.
pub struct ExplorerBlocks {
    present: ExplorerWriter,
    /// Last height.
    last: Height,
    list: Option<OpenList>,
}

impl ExplorerBlocks {
    /// Creates a stream from a height up to a height that the chain has; empty if the latter is lower.
    pub fn new(first: Height, last: Height) -> ExplorerBlocks {
        ExplorerBlocks { present: ExplorerWriter::new(first), last, list: None }
    }
}

impl LongView for ExplorerBlocks {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        let list = self.list.get_or_insert_with(|| OpenList::open(sheet, &DataGap));
        while self.present.height <= self.last {
            if self.present.go_on(view, Some(&mut *list), sheet, budget)? == Taken::Unfinished {
                return Ok(Taken::Unfinished);
            }
            self.present = ExplorerWriter::new(self.present.height.next());
            if budget.is_spent() {
                return Ok(Taken::Unfinished);
            }
        }
        list.close(sheet);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.list) + self.present.held_bytes()
    }
}
