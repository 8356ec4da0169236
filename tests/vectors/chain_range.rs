//! A range of a recorded chain with the expected state at each height, on the main chain and on the recorded losing
//! branches.

use std::path::Path;

use nisd::model::{Block, Hash256, Height};
use nisd::store::{Store, StoredHeader};
use tempfile::TempDir;

use crate::common::recorded_chain::{Chain, copy_store, digest_of, import_list, tip_of};

/// The known state after a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownState {
    /// The last block.
    pub tip: StoredHeader,
    /// Digest of the state.
    pub digest: Hash256,
}

impl KnownState {
    /// Returns the point of a store.
    pub fn of(store: &Store) -> KnownState {
        KnownState { tip: tip_of(store), digest: digest_of(store) }
    }
}

/// Consecutive blocks with the state after each.
struct Branch {
    /// The last height on the main chain.
    common: u64,
    blocks: Vec<(Block, KnownState)>,
}

/// Index of the main chain.
pub const MAIN: usize = 0;

/// A range of a recorded chain.
pub struct ChainRange {
    /// The chain.
    pub chain: Chain,
    /// The first height; the states below are unknown.
    pub start: u64,
    first: KnownState,
    /// The main chain, then the losing branches.
    branches: Vec<Branch>,
    /// A store at the first height.
    pristine: TempDir,
}

impl ChainRange {
    /// Replays the heights from `start` to `end` and the losing branches that fork there, each once and linearly.
    pub fn new(chain: Chain, start: u64, end: u64) -> ChainRange {
        let pristine = tempfile::tempdir().unwrap();
        let store = chain.store(pristine.path());
        chain.import(&store, start);
        let first = KnownState::of(&store);
        drop(store);
        let forks = losing_branches(&chain);
        let forks = forks.iter().filter(|(common, _)| (start..end).contains(common));
        let blocks: Vec<Block> =
            chain.blocks().into_iter().filter(|block| (start + 1..=end).contains(&block.height.0)).collect();
        let mut range = ChainRange { chain, start, first, branches: Vec::new(), pristine };
        let main = range.replay(start, &[], &blocks);
        let losing = forks.map(|(common, branch)| range.replay(*common, &blocks, branch)).collect::<Vec<_>>();
        range.branches.push(main);
        range.branches.extend(losing);
        range
    }

    /// Replays `before` up to the height `common`, then `blocks`.
    fn replay(&self, common: u64, before: &[Block], blocks: &[Block]) -> Branch {
        let folder = tempfile::tempdir().unwrap();
        let store = self.open_store(folder.path());
        let before: Vec<&Block> = before.iter().take_while(|block| block.height.0 <= common).collect();
        self.import(&store, &before);
        let after = |block: &Block| {
            self.import(&store, &[block]);
            (block.clone(), KnownState::of(&store))
        };
        Branch { common, blocks: blocks.iter().map(after).collect() }
    }

    /// Creates a store at the first height, in an empty folder.
    pub fn open_store(&self, folder: &Path) -> Store {
        copy_store(self.pristine.path(), folder);
        self.chain.store(folder)
    }

    /// Imports blocks as from a file.
    pub fn import(&self, store: &Store, blocks: &[&Block]) {
        import_list(store, &self.chain.network, &self.chain.nemesis, blocks.iter().copied());
    }

    /// Returns the number of branches, including the main chain.
    pub fn branches(&self) -> usize {
        self.branches.len()
    }

    /// Returns the last height that a branch shares with the main chain.
    pub fn common(&self, branch: usize) -> u64 {
        if branch == MAIN { self.last(MAIN) } else { self.branches[branch].common }
    }

    /// Returns the last height of a branch.
    pub fn last(&self, branch: usize) -> u64 {
        let branch = &self.branches[branch];
        branch.common + branch.blocks.len() as u64
    }

    fn at(&self, branch: usize, height: u64) -> &(Block, KnownState) {
        let branch = &self.branches[if height <= self.common(branch) { MAIN } else { branch }];
        &branch.blocks[(height - branch.common - 1) as usize]
    }

    /// Returns the state after the block at a height of a branch.
    pub fn point(&self, branch: usize, height: u64) -> &KnownState {
        if height == self.start { &self.first } else { &self.at(branch, height).1 }
    }

    /// Returns the blocks of a branch above the height `common`, up to `last`.
    pub fn blocks(&self, branch: usize, common: u64, last: u64) -> Vec<Block> {
        (common + 1..=last).map(|height| self.at(branch, height).0.clone()).collect()
    }
}

/// Returns the heights at which recorded branches fork, with their blocks.
fn losing_branches(chain: &Chain) -> Vec<(u64, Vec<Block>)> {
    if !chain.folder.join("forks.jsonl.gz").exists() {
        // The branch that is part of the project.
        return vec![(52, chain.blocks_in("losing-52.bin"))];
    }
    let block = |one: &serde_json::Value| chain.block(&hex::decode(one["block"].as_str().unwrap()).unwrap());
    let fork = |fork: serde_json::Value| {
        let losing = fork["losingBranch"].as_array().unwrap().iter().map(block).collect();
        (fork["commonHeight"].as_u64().unwrap(), losing)
    };
    chain.lines("forks.jsonl.gz").into_iter().map(fork).collect()
}

/// Returns the lowest height that a store at `height` can roll back to if it keeps `limit` undo records.
pub fn lowest_rollback_height(height: u64, limit: u64) -> u64 {
    Height(height).minus(limit).0
}
