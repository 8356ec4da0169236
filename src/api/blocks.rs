//! The chain and its blocks: handlers and streams. A block can have thousands of transactions.

use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::{BlockCursor, BlockReader, ChainSnapshot, RawTransaction};
use crate::api::error::ApiError;
use crate::api::media::Format;
use crate::api::request_context::{RequestContext, positive_height};
use crate::api::streams::{BodyWriter, ListSize, ListWriter, ResponseStream, list_bytes};
use crate::api::views::{BlockHead, DataListHead, ExplorerBlockHead, ExplorerEntry};
use crate::crypto::Signature;
use crate::model::{Address, Hash256, Height, Transaction};
use crate::net::service::Progress;
use crate::peer::wire::{AuthenticatedResponse, Score};

/// Maximum number of blocks in a response for explorers.
const MAX_BLOCKS: u64 = 10;

/// `GET /chain/height`
pub fn height(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.send(&context.chain.height)
}

/// `GET /chain/score`
pub fn score(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let score = context.chain.score()?;
    context.send(&Score(score))
}

/// `GET /chain/last-block`
pub fn last_block(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    send_block(context, context.chain.height)
}

/// `POST /block/at/public`
pub fn block_at(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let height = context.body()?;
    send_block(context, height)
}

/// `GET /block/get`: the block with a hash, if a reorg can still replace it. Blocks are stored by height: an index of
/// all hashes would cost each block the write of a row at a random position.
pub fn block_by_hash(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let hash = Hash256::try_from(context.hex("hash")?.as_slice());
    let hash = hash.map_err(|_| ApiError::argument("the hash of a block has 32 bytes"))?;
    context.send_stream(BlockByHashStream::new(hash, context.chain))
}

fn send_block(context: &mut RequestContext<'_>, height: Height) -> Result<(), ApiError> {
    if !context.chain.has_block(height) {
        return Err(ApiError::no_block(height));
    }
    context.send_stream(BlockStream::new(height))
}

/// `POST /local/block/at`
pub fn explorer_block(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let height = context.body()?;
    if !context.chain.has_block(height) {
        return Err(ApiError::Internal(format!("there is no block at height {height}").into()));
    }
    context.send_stream(ExplorerBlockStream::new(height))
}

/// `POST /local/chain/blocks-after`
pub fn explorer_blocks(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let Height(after) = context.body()?;
    // In NIS1 the height after the maximum is negative.
    let first = positive_height((after as i64).wrapping_add(1))?;
    let last = Height(after.saturating_add(MAX_BLOCKS)).min(context.chain.height);
    context.send_stream(ExplorerBlocksStream::new(first, last))
}

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
