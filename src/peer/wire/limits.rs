//! How long what other nodes send may be. All are bytes of the binary format unless they say what else they count;
//! bodies in JSON may be [`JSON_FACTOR`] times as long.

use crate::codec::Format;
use crate::model::network::ChainParameters;

/// Bytes of JSON for one of the binary format, at most: bytes become two digits, and every field has its name.
pub const JSON_FACTOR: usize = 4;
/// What goes with every answer: its signature, the text of an error instead, and a little behind it that is ignored.
pub const ENVELOPE: usize = 1 << 10;
/// A number or two.
pub const NUMBERS: usize = 64;
/// A node whose texts are as long as they may be.
pub const NODE: usize = 2 << 10;
/// Nodes in a list.
pub const LISTED_NODES: usize = 1000;
/// A list of nodes. A node takes about 200 bytes.
pub const NODE_LIST: usize = 1 << 20;
/// Nodes of whom a node tells its experiences. NIS1 never tells of more.
pub const EXPERIENCES: usize = 100;
/// The experiences of a node.
pub const NODE_EXPERIENCES: usize = (EXPERIENCES + 1) * (NODE + NUMBERS);
/// A hash in a list.
pub const HASH: usize = 40;
/// A block without its transactions.
pub const BLOCK_HEAD: usize = 256;
/// A transaction: one with the longest message and ten mosaics takes about 3,300. What is nested in it counts by
/// itself.
pub const TRANSACTION: usize = 4 << 10;
/// The nemesis block, whose transactions nobody limits. Mainnet's takes 279,786.
pub const NEMESIS: usize = 4 << 20;
/// The transactions of another node that wait for a block. There may be more of them, which come with the next blocks.
pub const UNCONFIRMED: usize = 4 << 20;

/// What another node passes on at a time, whatever the parameters of the chain.
pub const PUSHED: usize = 1 << 20;
/// The same in JSON, which is read in one go: the worst of it takes this machine's time for some milliseconds. A block of 120
/// transactions with messages of 512 bytes takes about 200,000.
pub const PUSHED_JSON: usize = 256 << 10;

/// A block but the first.
pub fn block(chain: &ChainParameters) -> usize {
    blocks(1, u64::from(chain.max_transactions_per_block))
}

/// So many blocks with so many transactions, those that are nested in others counted.
pub fn blocks(blocks: u64, transactions: u64) -> usize {
    let [blocks, transactions] = [blocks, transactions].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    blocks.saturating_mul(BLOCK_HEAD).saturating_add(transactions.saturating_mul(TRANSACTION))
}

/// A request with which another node passes a block or a list on, or says what it has: as long as the largest block, but
/// for [`PUSHED`] and [`PUSHED_JSON`]. A block that is longer comes by synchronisation.
pub fn pushed(chain: &ChainParameters, format: Format) -> usize {
    let most = match format {
        Format::Binary => PUSHED,
        Format::Json => PUSHED_JSON,
    };
    block(chain).saturating_add(ENVELOPE).min(most)
}

/// The hashes that a node sends at a time.
pub fn hashes(chain: &ChainParameters) -> usize {
    usize::try_from(chain.max_blocks_per_sync()).unwrap_or(usize::MAX).saturating_mul(HASH)
}
