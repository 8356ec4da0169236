//! Streamed blocks, which can have thousands of transactions.

use super::{BodyWriter, ListSize, ListWriter, ResponseStream};
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::{BlockCursor, BlockReader, ChainSnapshot};
use crate::api::error::ApiError;
use crate::api::media::Format;
use crate::api::views::BlockHead;
use crate::crypto::Signature;
use crate::model::{Hash256, Height};
use crate::net::service::Progress;
use crate::peer::wire::AuthenticatedResponse;

/// A reorg replaced the block meanwhile.
pub(super) const REPLACED: ApiError = ApiError::Unavailable("the block was replaced while it was shown");

/// Stream of a block, with the output of [`crate::codec::block::write`]. Fails if the block leaves the chain meanwhile.
pub struct BlockStream {
    height: Height,
    /// Signature of a peer's challenge, for a peer.
    signature: Option<Signature>,
    /// Position, once it has started.
    position: Option<(BlockCursor, ListWriter)>,
}

impl BlockStream {
    /// Creates a stream of the block at a height.
    pub fn new(height: Height) -> BlockStream {
        BlockStream { height, signature: None, position: None }
    }

    /// Wraps the block in the response to a signed challenge.
    pub fn signed(self, signature: Signature) -> BlockStream {
        BlockStream { signature: Some(signature), ..self }
    }

    pub(super) fn height(&self) -> Height {
        self.height
    }

    /// Writes the next step as an element of a list.
    pub(super) fn write_in(
        &mut self,
        outer: &mut ListWriter,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        self.write_step(Some(outer), view, writer, budget)
    }

    fn begin<'v>(
        &self,
        outer: Option<&mut ListWriter>,
        view: &'v ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
    ) -> Result<(BlockReader<'v>, ListWriter), ApiError> {
        let (head, reader) = view.open_block(self.height)?.ok_or_else(|| ApiError::no_block(self.height))?;
        let block = BlockHead(&head);
        let size = ListSize { count: reader.count(), bytes: reader.transaction_bytes() };
        let list = match (outer, self.signature) {
            (Some(outer), _) => outer.open_sized_element(writer, &block, size),
            (None, Some(signature)) => {
                ListWriter::open_sized(writer, &AuthenticatedResponse { entity: block, signature }, size)
            }
            (None, None) => ListWriter::open_sized(writer, &block, size),
        };
        Ok((reader, list))
    }

    fn write_step(
        &mut self,
        outer: Option<&mut ListWriter>,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        let (mut reader, mut list) = match self.position.take() {
            Some((cursor, list)) => (view.reopen_block(cursor)?.ok_or(REPLACED)?, list),
            None => self.begin(outer, view, writer)?,
        };
        while let Some(raw) = reader.next_raw()? {
            match writer.format {
                Format::Json => {
                    list.push(writer, &raw.read()?);
                    budget.charge(cost::TRANSACTION + cost::bytes(raw.bytes.len()));
                }
                // They are stored in the form in which they are sent.
                Format::Binary => {
                    list.push_binary(writer, raw.bytes);
                    budget.charge(cost::copied(raw.bytes.len()));
                }
            }
            if budget.is_exhausted() {
                self.position = Some((reader.into_cursor(), list));
                return Ok(Progress::Yield);
            }
        }
        list.close(writer);
        Ok(Progress::Done)
    }
}

/// Searches the block with a hash, from the tip down as far as a reorg can reach, and streams it.
pub struct BlockByHashStream {
    hash: Hash256,
    /// Next height to check.
    next: Height,
    /// Lowest height to check.
    lowest: Height,
    found: Option<BlockStream>,
}

impl BlockByHashStream {
    /// Creates a search that starts at the tip.
    pub fn new(hash: Hash256, view: &ChainSnapshot<'_>) -> BlockByHashStream {
        let depth = view.network.chain.rewrite_limit;
        BlockByHashStream {
            hash,
            next: view.height,
            lowest: Height(view.height.0.saturating_sub(depth).max(1)),
            found: None,
        }
    }

    fn not_found(&self) -> ApiError {
        let Height(lowest) = self.lowest;
        ApiError::NotFound(format!("no block from height {lowest} on has the hash {}", self.hash))
    }
}

impl ResponseStream for BlockByHashStream {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        while self.found.is_none() {
            if self.next < self.lowest {
                return Err(self.not_found());
            }
            if budget.is_exhausted() {
                return Ok(Progress::Yield);
            }
            budget.charge(cost::HEADER);
            if view.header(self.next)?.is_some_and(|header| header.hash == self.hash) {
                self.found = Some(BlockStream::new(self.next));
            }
            self.next = Height(self.next.0.saturating_sub(1));
        }
        self.found.as_mut().map_or(Ok(Progress::Done), |block| block.write_chunk(view, writer, budget))
    }

    fn held_bytes(&self) -> usize {
        self.found.as_ref().map_or(0, ResponseStream::held_bytes)
    }

    /// A block that is not found is an error, so nothing may be sent before it is found.
    fn is_streamable(&self, _: Format) -> bool {
        self.found.is_some()
    }
}

impl ResponseStream for BlockStream {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        self.write_step(None, view, writer, budget)
    }

    fn held_bytes(&self) -> usize {
        self.position.as_ref().map_or(0, |(_, list)| list.held_bytes())
    }

    fn is_streamable(&self, _: Format) -> bool {
        true
    }
}
