//! What all event streams share: the blocks that they tell, the blocks that were undone, the changes of the mempool, and
//! when each stream goes on.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::super::response::Cache;
use super::place::{BlockName, ShortHash, short};
use crate::budget::{Budget, cost};
use crate::chain::{ChainSnapshot, ConfirmedBlock};
use crate::mempool::{MempoolEntry, MempoolEvent};
use crate::model::transaction::Hashes;
use crate::model::{Address, Hash256, Height, Transaction};
use crate::net::service::ConnectionId;
use crate::store::{StoreError, stored_header};

/// Maximum bytes of the blocks that were read last. Streams that are further behind read blocks from the store.
const MAX_RECENT_BYTES: usize = 4 << 20;
/// Maximum bytes of all that the streams share; the last block and the last change are kept whatever their size.
pub const MAX_BYTES: usize = MAX_RECENT_BYTES + MAX_UNDONE_BYTES + MAX_CHANGE_BYTES;
/// Maximum bytes of undone blocks, the newest of which are kept. A stream that has told an older one is told only down to
/// which height everything is undone.
const MAX_UNDONE_BYTES: usize = 16 << 20;
/// Maximum bytes of the last changes of the mempool. A stream that is further behind is told the whole mempool again.
pub const MAX_CHANGE_BYTES: usize = 2 << 20;
/// Work units for a row of old blocks: it is mostly not in memory, and the node waits for the disk.
pub const OLD_ROW: u32 = 20;
/// Time without output after which a stream sends a sign of life.
pub const HEARTBEAT: Duration = Duration::from_secs(15);
/// Time that passes between two changes of the mempool that are told, for each stream that tells them: with many streams
/// they are told together, so that their cost follows the time and not the changes.
const CHANGE_INTERVAL: Duration = Duration::from_micros(100);
/// Memory of a block and of a transaction besides their bytes, estimated generously.
const OVERHEAD: usize = 1024;

/// A block, and the texts that all streams share.
pub struct FeedBlock {
    /// The block.
    pub block: ConfirmedBlock,
    /// Its name.
    pub name: Rc<BlockName>,
    /// The data of each transaction, written when it is first told.
    pub texts: Vec<OnceCell<Rc<[u8]>>>,
    /// Of an undone block, the last block of the chain before it, and the change of the chain after which this was found.
    common: Cell<(u64, Option<Height>)>,
    bytes: usize,
}

impl FeedBlock {
    fn new(block: ConfirmedBlock, name: BlockName) -> FeedBlock {
        let texts = vec![OnceCell::new(); block.transactions.len()];
        // A transaction and its text take some times the bytes that it has in the chain.
        let bytes = OVERHEAD * (1 + block.transactions.len()) + 4 * block.bytes;
        FeedBlock { block, name: Rc::new(name), texts, common: Cell::new((0, None)), bytes }
    }
}

/// A change of the mempool.
pub struct MempoolChange {
    /// The top-level transaction.
    pub transaction: Rc<Transaction>,
    /// Its hash and those of its children.
    pub hashes: Hashes,
    /// The accounts that it affects, and the cosignatories of its account.
    pub accounts: Vec<Address>,
    /// Its place in the order of arrival; a transaction that returns has another one.
    pub id: u64,
    /// What happened to it.
    pub event: MempoolEvent,
    /// Its data, written when it is first told.
    pub text: OnceCell<Rc<[u8]>>,
    bytes: usize,
}

/// A stream that waits.
struct WaitingStream {
    heartbeat: Duration,
    tells_mempool: bool,
}

/// What the event streams share.
#[derive(Default)]
pub struct EventFeed {
    /// The blocks of the chain that were read last.
    recent: Cache<Height, Rc<FeedBlock>>,
    undone: Cache<(Height, ShortHash), Rc<FeedBlock>>,
    /// Number of changes of the chain.
    chain_changes: u64,
    changes: VecDeque<Rc<MempoolChange>>,
    change_bytes: usize,
    /// Number of the first change that is known.
    pub first_change: u64,
    /// In the order in which they go on: that of a hash table would differ from run to run.
    waiting: BTreeMap<ConnectionId, WaitingStream>,
    /// Number of those that tell the mempool.
    mempool_streams: usize,
    heartbeats: BTreeSet<(Duration, ConnectionId)>,
    /// Streams that have more to tell at once.
    ready: Vec<ConnectionId>,
    has_new_blocks: bool,
    has_new_changes: bool,
    /// When changes of the mempool are told next at the earliest.
    changes_due: Duration,
}

/// Blocks.
impl EventFeed {
    /// Returns the block at a height of the chain. Who reads it first is charged for that.
    pub fn block(
        &mut self,
        height: Height,
        chain: &ChainSnapshot<'_>,
        budget: &mut Budget,
    ) -> Result<Rc<FeedBlock>, StoreError> {
        if let Some((known, _)) = self.recent.values.get(&height) {
            return Ok(Rc::clone(known));
        }
        let block = ConfirmedBlock::read(chain.snapshot, height, chain.network)?;
        let block = block.ok_or(StoreError::Damaged("a block is missing"))?;
        let transactions = cost::TRANSACTION.saturating_mul(block.transactions.len() as u32);
        budget.charge(OLD_ROW + cost::bytes(block.bytes) + transactions);
        let name = BlockName::of(&block.header, chain)?;
        let block = Rc::new(FeedBlock::new(block, name));
        self.recent.insert(height, Rc::clone(&block), block.bytes, MAX_RECENT_BYTES);
        Ok(block)
    }

    /// Returns whether the block at a height was read lately, or may be told by many streams: it can still be replaced.
    pub fn is_shared(&self, height: Height, chain: &ChainSnapshot<'_>) -> bool {
        let is_old = height.0.saturating_add(chain.network.chain.rewrite_limit) < chain.height.0;
        !is_old || self.recent.values.contains_key(&height)
    }

    /// Returns an undone block.
    pub fn undone(&self, height: Height, hash: &ShortHash) -> Option<Rc<FeedBlock>> {
        self.undone.values.get(&(height, *hash)).map(|(block, _)| Rc::clone(block))
    }

    /// Records that the chain has changed: blocks above the height `common` were added, and `undone` ones, highest first,
    /// are no longer in it. `chain` is the new one.
    pub fn chain_changed(
        &mut self,
        common: Height,
        undone: Vec<ConfirmedBlock>,
        chain: &ChainSnapshot<'_>,
    ) -> Result<(), StoreError> {
        self.has_new_blocks = true;
        self.chain_changes += 1;
        if self.recent.values.keys().any(|height| *height > common) {
            self.recent = Cache::default();
        }
        let hashes: HashMap<Height, Hash256> =
            undone.iter().map(|block| (block.header.height, block.header.hash)).collect();
        for block in undone.into_iter().rev() {
            let name = BlockName::with_ancestors(&block.header, chain, &hashes)?;
            let key = (block.header.height, name.hash);
            // It may have been undone before.
            if !self.undone.values.contains_key(&key) {
                let block = FeedBlock::new(block, name);
                let bytes = block.bytes;
                self.undone.insert(key, Rc::new(block), bytes, MAX_UNDONE_BYTES);
            }
        }
        Ok(())
    }

    /// Returns the height of the last block of the chain before an undone one, if all undone blocks down to it are known.
    pub fn common_of(&self, undone: &FeedBlock, chain: &ChainSnapshot<'_>) -> Result<Option<Height>, StoreError> {
        let (mut of, mut passed) = (undone, Vec::new());
        let common = loop {
            let (change, common) = of.common.get();
            if change == self.chain_changes {
                break common;
            }
            passed.push(of);
            let (height, parent) = (Height(of.block.header.height.0.saturating_sub(1)), of.block.parent);
            if stored_header(chain.snapshot, height)?.is_some_and(|header| header.hash == parent) {
                break Some(height);
            }
            match self.undone.values.get(&(height, short(&parent))) {
                Some((before, _)) => of = before,
                None => break None,
            }
        };
        // Each stream asks for all of them.
        for one in passed {
            one.common.set((self.chain_changes, common));
        }
        Ok(common)
    }
}

/// The mempool.
impl EventFeed {
    /// Records what happened to a transaction.
    pub fn mempool_changed(&mut self, entry: &MempoolEntry, event: MempoolEvent) {
        let accounts = [entry.accounts.as_slice(), &entry.cosignatories].concat();
        let bytes = OVERHEAD + 4 * entry.bytes + accounts.len() * size_of::<Address>();
        let (transaction, hashes, id) = (Rc::clone(&entry.transaction), entry.hashes.clone(), entry.id);
        let change = MempoolChange { transaction, hashes, accounts, id, event, text: OnceCell::new(), bytes };
        self.changes.push_back(Rc::new(change));
        self.change_bytes += bytes;
        while self.change_bytes > MAX_CHANGE_BYTES && self.changes.len() > 1 {
            self.change_bytes -= self.changes.pop_front().map_or(0, |oldest| oldest.bytes);
            self.first_change += 1;
        }
        self.has_new_changes = true;
    }

    /// Returns the number of the next change to come.
    pub fn next_change(&self) -> u64 {
        self.first_change + self.changes.len() as u64
    }

    /// Returns a change, unless it is still to come. It is known if its number is at least that of the first one.
    pub fn change(&self, number: u64) -> Option<Rc<MempoolChange>> {
        let index = usize::try_from(number.checked_sub(self.first_change)?).ok()?;
        self.changes.get(index).cloned()
    }

    /// Returns whether a stream that tells the mempool is open.
    pub fn tells_mempool(&self) -> bool {
        self.mempool_streams > 0
    }
}

/// Streams.
impl EventFeed {
    /// Lets a stream wait for news, or until its `heartbeat` is due; one that `has_more` goes on in its next turn.
    pub fn wait(&mut self, connection: ConnectionId, heartbeat: Duration, tells_mempool: bool, has_more: bool) {
        self.remove(connection);
        self.waiting.insert(connection, WaitingStream { heartbeat, tells_mempool });
        self.mempool_streams += usize::from(tells_mempool);
        self.heartbeats.insert((heartbeat, connection));
        if has_more {
            self.ready.push(connection);
        }
    }

    /// Forgets a stream that has ended.
    pub fn remove(&mut self, connection: ConnectionId) {
        if let Some(stream) = self.waiting.remove(&connection) {
            self.heartbeats.remove(&(stream.heartbeat, connection));
            self.mempool_streams -= usize::from(stream.tells_mempool);
        }
    }

    /// Returns the streams that go on now.
    pub fn take_due(&mut self, now: Duration) -> Vec<ConnectionId> {
        let mut due = std::mem::take(&mut self.ready);
        let tells_changes = self.has_new_changes && now >= self.changes_due;
        if tells_changes || self.has_new_blocks {
            self.has_new_changes = false;
            self.changes_due = now + CHANGE_INTERVAL * self.mempool_streams as u32;
        }
        if std::mem::take(&mut self.has_new_blocks) {
            return self.waiting.keys().copied().collect();
        }
        if tells_changes {
            due.extend(
                self.waiting.iter().filter(|(_, stream)| stream.tells_mempool).map(|(connection, _)| *connection),
            );
        }
        let with_heartbeat = self.heartbeats.iter().take_while(|(at, _)| *at <= now);
        due.extend(with_heartbeat.map(|(_, connection)| *connection));
        due
    }

    /// Returns when a stream goes on next, unless there are news.
    pub fn next_due(&self) -> Option<Duration> {
        let heartbeat = self.heartbeats.first().map(|(at, _)| *at)?;
        Some(if self.has_new_blocks || !self.ready.is_empty() {
            Duration::ZERO
        } else if self.has_new_changes {
            heartbeat.min(self.changes_due)
        } else {
            heartbeat
        })
    }

    /// Returns the number of open streams.
    pub fn streams(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the bytes of blocks and changes.
    pub fn bytes(&self) -> usize {
        self.recent.bytes + self.undone.bytes + self.change_bytes
    }
}
