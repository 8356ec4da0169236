//! Maximum sizes of messages. All are bytes of the binary format unless stated otherwise; JSON bodies may be
//! [`JSON_FACTOR`] times as long.

use crate::codec::Format;
use crate::model::network::ChainParameters;

/// Maximum JSON bytes per binary byte: a byte takes two hex digits, and every field has a name.
pub const JSON_FACTOR: usize = 4;
/// Overhead of an answer: signature, error text instead of an answer, and a few ignored trailing bytes.
pub const ENVELOPE: usize = 1 << 10;
/// One or two numbers.
pub const NUMBERS: usize = 64;
/// Node with texts of maximum length.
pub const NODE: usize = 2 << 10;
/// Number of nodes in a list.
pub const LISTED_NODES: usize = 1000;
/// List of nodes. A node takes about 200 bytes.
pub const NODE_LIST: usize = 1 << 20;
/// Number of nodes in an experience report. NIS1 never sends more.
pub const EXPERIENCES: usize = 100;
/// Experience report.
pub const NODE_EXPERIENCES: usize = (EXPERIENCES + 1) * (NODE + NUMBERS);
/// Hash in a list.
pub const HASH: usize = 40;
/// Block without transactions.
pub const BLOCK_HEAD: usize = 256;
/// Transaction; one with the longest message and ten mosaics takes about 3,300. Inner transactions count separately.
pub const TRANSACTION: usize = 4 << 10;
/// Nemesis block, whose transactions have no limit. Mainnet's takes 279,786.
pub const NEMESIS: usize = 4 << 20;
/// Unconfirmed transactions of a peer. If there are more, they arrive with later blocks.
pub const UNCONFIRMED: usize = 4 << 20;

/// Push, whatever the chain parameters.
pub const PUSHED: usize = 1 << 20;
/// The same in JSON, which is decoded in one go: the worst case takes some milliseconds. A block of 120 transactions
/// with messages of 512 bytes takes about 200,000.
pub const PUSHED_JSON: usize = 256 << 10;

/// Returns the limit of a block other than the nemesis block.
pub fn block(chain: &ChainParameters) -> usize {
    blocks(1, u64::from(chain.max_transactions_per_block))
}

/// Returns the limit of this many blocks and transactions; inner transactions count too.
pub fn blocks(blocks: u64, transactions: u64) -> usize {
    let [blocks, transactions] = [blocks, transactions].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    blocks.saturating_mul(BLOCK_HEAD).saturating_add(transactions.saturating_mul(TRANSACTION))
}

/// Returns the limit of a push or a list of known transactions: the largest block, but at most [`PUSHED`] or
/// [`PUSHED_JSON`]. Longer blocks arrive by synchronisation.
pub fn pushed(chain: &ChainParameters, format: Format) -> usize {
    let most = match format {
        Format::Binary => PUSHED,
        Format::Json => PUSHED_JSON,
    };
    block(chain).saturating_add(ENVELOPE).min(most)
}

/// Returns the limit of a hash list.
pub fn hashes(chain: &ChainParameters) -> usize {
    usize::try_from(chain.max_blocks_per_sync()).unwrap_or(usize::MAX).saturating_mul(HASH)
}
