//! Interface between the peer state machine and its host.
//!
//! The host passes in the time, the results of requests and the messages of peers, and carries out the [`Action`]s that
//! the state machine yields: an event loop with sockets, a simulation with queues.

use std::time::Duration;

use super::wire::BlockList;
use crate::crypto::Signature;
use crate::mempool::ShortId;
use crate::model::{Address, Hash256, Height, Timestamp};
use crate::net::fetch::{FetchError, FetchId, FetchRequest, FetchResponse};
use crate::net::service::ConnectionId;

/// The present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Time since the start of the node.
    pub monotonic: Duration,
    /// Network time, for timestamps.
    pub network: Timestamp,
    /// Network time in milliseconds, for comparing clocks.
    pub network_millis: i64,
}

/// Result of a request to a peer.
pub type Reply = Result<FetchResponse, FetchError>;

/// The store could not be read; the host knows the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store cannot be read")]
pub struct StoreUnreadable;

/// Our tip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnTip {
    /// Height of the last block.
    pub height: Height,
    /// Its hash.
    pub hash: Hash256,
    /// Its signature.
    pub signature: Option<Signature>,
    /// Score of the whole chain.
    pub score: i128,
}

/// Blocks of a peer to validate as a replacement of ours above the common block.
#[derive(Debug)]
pub struct FetchedBlocks {
    /// Peer that sent them, to be named with the validation result.
    pub from: Address,
    /// Last common block.
    pub common: Height,
    /// Our tip when the chains were compared; if it has changed, the blocks are discarded.
    pub base: Hash256,
    /// Undecoded blocks in order of height.
    pub blocks: BlockList,
}

/// Action that the host carries out.
#[derive(Debug)]
pub enum Action {
    /// Sends a request to a peer. [`super::Manager::on_reply`] must be called with the result, once.
    Fetch(FetchId, FetchRequest),
    /// Cancels a request. Its result must not be reported.
    Cancel(FetchId),
    /// Resumes the request of a client that waited; [`super::Manager::take_answer`] returns the answer.
    Resume(ConnectionId),
}

/// Reads of our chain and mempool. A trait because tests, the fuzzer and the replay of recordings have no store.
pub trait LocalChain {
    /// Returns our tip.
    fn tip(&self) -> Result<OwnTip, StoreUnreadable>;

    /// Returns the hashes of our blocks from height `first` on, at most `max`.
    fn hashes_from(&self, first: Height, max: u64) -> Result<Vec<Hash256>, StoreUnreadable>;

    /// Returns the short ids of all transactions in the mempool and of their cosignatures.
    fn short_ids(&self) -> Vec<ShortId>;

    /// Returns the importance of a node's account, or of the one that delegated its importance to it, at the last
    /// calculation; 0 if it was not computed then.
    fn importance(&self, node: &Address) -> Result<f64, StoreUnreadable>;

    /// Returns whether importances of these nodes can be read without waiting for the disk; if not, they can soon.
    fn has_read(&self, _nodes: &[Address]) -> bool {
        true
    }

    /// Returns the number of accounts in the last importance calculation.
    fn important_accounts(&self) -> Result<u64, StoreUnreadable>;
}

/// Returns the backoff after a failure that `before` others precede: `first`, doubling with each further one up to `max`.
pub fn backoff(first: Duration, before: u32, max: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(before)).min(max)
}

/// Source of random numbers; any closure that returns `u64` is one.
pub trait RandomSource {
    /// Returns 64 random bits.
    fn bits(&mut self) -> u64;

    /// Returns a number in [0, 1).
    fn fraction(&mut self) -> f64 {
        // 53 bits, the precision of a double: the result is exact.
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number below `count`, or 0 if `count` is 0. The bias is at most `count` in 2⁶⁴.
    fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.bits()) * count as u128) >> 64) as usize
    }

    /// Keeps `wanted` items, or all if there are fewer. Every choice and order is equally likely. Takes one number per
    /// kept item.
    fn choose<T>(&mut self, items: &mut Vec<T>, wanted: usize) {
        for place in 0..wanted.min(items.len()) {
            let chosen = place + self.below(items.len() - place);
            items.swap(place, chosen);
        }
        items.truncate(wanted);
    }
}

impl<F: FnMut() -> u64> RandomSource for F {
    fn bits(&mut self) -> u64 {
        self()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::tests::seeded;

    #[test]
    fn fractions_lie_from_0_up_to_1_without_it() {
        assert_eq!((|| 0).fraction(), 0.0);
        assert_eq!((|| u64::MAX).fraction(), 1.0 - f64::EPSILON / 2.0);
        let mut random = seeded(2);
        let mean = (0..10_000).map(|_| random.fraction()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
    }

    #[test]
    fn numbers_below_a_bound_are_uniform_and_exclude_the_bound() {
        assert_eq!((|| u64::MAX).below(7), 6);
        assert_eq!((|| u64::MAX).below(0), 0);
        let (mut random, mut met) = (seeded(2), [0; 7]);
        (0..70_000).for_each(|_| met[random.below(7)] += 1);
        assert!(met.iter().all(|times| (9_600..10_400).contains(times)), "{met:?}");
    }

    #[test]
    fn items_are_chosen_uniformly_and_without_repetition() {
        let (mut random, mut met) = (seeded(3), [0; 10]);
        for _ in 0..10_000 {
            let mut items: Vec<_> = (0..10).collect();
            random.choose(&mut items, 3);
            items.iter().for_each(|item| met[*item] += 1);
            items.sort_unstable();
            items.dedup();
            assert_eq!(items.len(), 3);
        }
        assert!(met.iter().all(|times| (2_800..3_200).contains(times)), "{met:?}");
        let mut few = vec![1, 2];
        random.choose(&mut few, 100);
        random.choose(&mut Vec::<u8>::new(), 1);
        few.sort_unstable();
        assert_eq!(few, [1, 2]);
    }
}
