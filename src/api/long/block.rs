//! Blocks, which may have many thousands of transactions.

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::{BlockCursor, ChainView};
use crate::api::failure::Failure;
use crate::api::media::Format;
use crate::api::views::BlockWithGap;
use crate::model::{Block, Hash256, Height};
use crate::net::machine::Taken;
use crate::store::StoreError;

/// The chain was switched to another branch meanwhile.
pub(super) const REPLACED: Failure = Failure::Unavailable("the block was replaced while it was shown");

/// Writes a block of the chain, transaction after transaction: as [`crate::codec::block::write`] does at once. It fails
/// if the block leaves the chain before it is written.
pub struct BlockWriter {
    cursor: BlockCursor,
    /// The block without its transactions, until it is written.
    head: Option<Box<Block>>,
    list: Option<OpenList>,
}

impl BlockWriter {
    /// The block at a height, if there is one.
    pub fn new(view: &ChainView<'_>, height: Height) -> Result<Option<BlockWriter>, StoreError> {
        let opened = view.open_block(height)?;
        Ok(opened.map(|(head, cursor)| BlockWriter { cursor, head: Some(Box::new(head)), list: None }))
    }

    /// Hash of the block.
    pub fn hash(&self) -> Hash256 {
        self.cursor.hash()
    }
}

impl LongView for BlockWriter {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        if let Some(head) = self.head.take() {
            self.list = Some(OpenList::open_counted(sheet, &BlockWithGap(&head), self.cursor.count()));
        }
        let Some(list) = &mut self.list else { return Ok(Taken::Done) };
        let mut reader = self.cursor.read(view)?.ok_or(REPLACED)?;
        while let Some(raw) = reader.next_raw()? {
            match sheet.format {
                Format::Json => list.push(sheet, &raw.read()?),
                Format::Binary => list.push_binary(sheet, raw.bytes),
            }
            budget.spend(cost::TRANSACTION + cost::bytes(raw.bytes.len()));
            if budget.is_spent() {
                return Ok(Taken::Unfinished);
            }
        }
        list.close(sheet);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.list)
    }

    fn can_be_cut(&self, _: Format) -> bool {
        true
    }
}
