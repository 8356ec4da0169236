//! Streamed blocks, which can have thousands of transactions.

use super::{ListSize, LongView, OpenList, Sheet};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::{BlockCursor, BlockReader, ChainView};
use crate::api::failure::Failure;
use crate::api::media::Format;
use crate::api::views::BlockWithGap;
use crate::crypto::Signature;
use crate::model::{Hash256, Height};
use crate::net::machine::Taken;
use crate::peer::wire::AuthenticatedResponse;

/// A reorg replaced the block meanwhile.
pub(super) const REPLACED: Failure = Failure::Unavailable("the block was replaced while it was shown");

/// Stream of a block, with the output of [`crate::codec::block::write`]. Fails if the block leaves the chain meanwhile.
pub struct BlockWriter {
    height: Height,
    /// Signature of a peer's challenge, for a peer.
    signature: Option<Signature>,
    /// Position, once it has started.
    begun: Option<(BlockCursor, OpenList)>,
}

impl BlockWriter {
    /// Creates a stream of the block at a height.
    pub fn new(height: Height) -> BlockWriter {
        BlockWriter { height, signature: None, begun: None }
    }

    /// Wraps the block in the response to a signed challenge.
    pub fn signed(self, signature: Signature) -> BlockWriter {
        BlockWriter { signature: Some(signature), ..self }
    }

    pub(super) fn height(&self) -> Height {
        self.height
    }

    /// Writes the next step as an element of a list.
    pub(super) fn write_in(
        &mut self,
        outer: &mut OpenList,
        view: &ChainView<'_>,
        sheet: &mut Sheet<'_>,
        budget: &mut Budget,
    ) -> Result<Taken, Failure> {
        self.go_on(Some(outer), view, sheet, budget)
    }

    fn begin<'v>(
        &self,
        outer: Option<&mut OpenList>,
        view: &'v ChainView<'_>,
        sheet: &mut Sheet<'_>,
    ) -> Result<(BlockReader<'v>, OpenList), Failure> {
        let (head, reader) = view.open_block(self.height)?.ok_or_else(|| Failure::no_block(self.height))?;
        let block = BlockWithGap(&head);
        let size = ListSize { count: reader.count(), bytes: reader.transaction_bytes() };
        let list = match (outer, self.signature) {
            (Some(outer), _) => outer.open_sized_element(sheet, &block, size),
            (None, Some(signature)) => {
                OpenList::open_sized(sheet, &AuthenticatedResponse { entity: block, signature }, size)
            }
            (None, None) => OpenList::open_sized(sheet, &block, size),
        };
        Ok((reader, list))
    }

    fn go_on(
        &mut self,
        outer: Option<&mut OpenList>,
        view: &ChainView<'_>,
        sheet: &mut Sheet<'_>,
        budget: &mut Budget,
    ) -> Result<Taken, Failure> {
        let (mut reader, mut list) = match self.begun.take() {
            Some((cursor, list)) => (view.reopen_block(cursor)?.ok_or(REPLACED)?, list),
            None => self.begin(outer, view, sheet)?,
        };
        while let Some(raw) = reader.next_raw()? {
            match sheet.format {
                Format::Json => {
                    list.push(sheet, &raw.read()?);
                    budget.spend(cost::TRANSACTION + cost::bytes(raw.bytes.len()));
                }
                // They are stored in the form in which they are sent.
                Format::Binary => {
                    list.push_binary(sheet, raw.bytes);
                    budget.spend(cost::copied(raw.bytes.len()));
                }
            }
            if budget.is_spent() {
                self.begun = Some((reader.into_cursor(), list));
                return Ok(Taken::Unfinished);
            }
        }
        list.close(sheet);
        Ok(Taken::Done)
    }
}

/// Searches the block with a hash, from the tip down as far as a reorg can reach, and streams it.
pub struct BlockByHash {
    hash: Hash256,
    /// Next height to check.
    next: Height,
    /// Lowest height to check.
    lowest: Height,
    found: Option<BlockWriter>,
}

impl BlockByHash {
    /// Creates a search that starts at the tip.
    pub fn new(hash: Hash256, view: &ChainView<'_>) -> BlockByHash {
        let depth = view.network.chain.rewrite_limit;
        BlockByHash { hash, next: view.height, lowest: Height(view.height.0.saturating_sub(depth).max(1)), found: None }
    }

    fn not_found(&self) -> Failure {
        let Height(lowest) = self.lowest;
        Failure::NotFound(format!("no block from height {lowest} on has the hash {}", self.hash))
    }
}

impl LongView for BlockByHash {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        while self.found.is_none() {
            if self.next < self.lowest {
                return Err(self.not_found());
            }
            if budget.is_spent() {
                return Ok(Taken::Unfinished);
            }
            budget.spend(cost::HEADER);
            if view.header(self.next)?.is_some_and(|header| header.hash == self.hash) {
                self.found = Some(BlockWriter::new(self.next));
            }
            self.next = Height(self.next.0.saturating_sub(1));
        }
        self.found.as_mut().map_or(Ok(Taken::Done), |block| block.write_on(view, sheet, budget))
    }

    fn held_bytes(&self) -> usize {
        self.found.as_ref().map_or(0, LongView::held_bytes)
    }

    /// A block that is not found is an error, so nothing may be sent before it is found.
    fn can_be_cut(&self, _: Format) -> bool {
        self.found.is_some()
    }
}

impl LongView for BlockWriter {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        self.go_on(None, view, sheet, budget)
    }

    fn held_bytes(&self) -> usize {
        self.begun.as_ref().map_or(0, |(_, list)| list.held_bytes())
    }

    fn can_be_cut(&self, _: Format) -> bool {
        true
    }
}
