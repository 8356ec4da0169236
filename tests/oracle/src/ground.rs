//! The node under test: a store of its own, to which chain parts and unconfirmed transactions are offered.

use std::path::Path;

use nisd::chain::{
    BlockImporter, BranchOutcome, CandidateBranch, ImportError, ImportOptions, ImportProgress, rollback,
};
use nisd::chain::{ChainSnapshot, StakeCache};
use nisd::codec::block_file::{BlockFile, write_block};
use nisd::codec::{Context, SigningForm};
use nisd::config::{self, Settings};
use nisd::mempool::Mempool;
use nisd::model::transaction::wire_version;
use nisd::model::{Address, Block, BlockKind, Hash256, Height, MosaicId, Network, Timestamp, Transaction};
use nisd::state::{self, Lease};
use nisd::store::{ChainIdentity, Options, Store, tip};
use tempfile::TempDir;

use super::bytes_of;
use super::model::{Link, Model};
use super::people::{AccountIndex, KeyRing};
use super::rule::ExpectedResult;
use super::world::TestNetwork;
use crate::invariants;

/// A network time later than every block.
pub const FAR_FUTURE: i32 = i32::MAX - 100;
const MAP_SIZE: usize = 1 << 30;
/// Start of the verdict on bytes that are not a block.
pub const UNREADABLE: &str = "cannot be read";
/// The verdict on a valid part that does not replace the present branch.
pub const NOT_BETTER: &str = "valid, but not better";

/// The node under test; see the module.
pub struct NodeUnderTest {
    settings: Settings,
    store: Store,
    _folder: TempDir,
    /// Hashes of the blocks, the first at index 0.
    hashes: Vec<Hash256>,
}

impl NodeUnderTest {
    /// Creates a node with the nemesis block of a world, whose files go into a folder.
    pub fn new(world: &TestNetwork, files: &Path) -> NodeUnderTest {
        NodeUnderTest::of(&world.write(files), files)
    }

    /// Like [`Ground::new`], with settings from a folder.
    pub fn of(settings: &Path, files: &Path) -> NodeUnderTest {
        let settings = config::load(Some(settings), Vec::new(), Some(files));
        let settings = settings.unwrap_or_else(|error| panic!("{error}"));
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
        let identity = ChainIdentity::of(&settings.network);
        let store = Store::open(folder.path(), &identity, Options { map_size: MAP_SIZE }).expect("a store");
        let nemesis = settings.nemesis.read().expect("the nemesis block");
        let options = ImportOptions::DEFAULT;
        let mut intake = BlockImporter::new(&store, &settings.network, nemesis, Vec::new(), options).expect("a store");
        while intake.step(Timestamp(FAR_FUTURE)).expect("a good nemesis block") != ImportProgress::Done {}
        drop(intake);
        let nemesis = tip(&store.snapshot().expect("a snapshot")).expect("a store").expect("a chain").hash;
        NodeUnderTest { settings, store, _folder: folder, hashes: vec![nemesis] }
    }

    pub fn network(&self) -> &Network {
        &self.settings.network
    }

    pub fn height(&self) -> u64 {
        self.hashes.len() as u64
    }

    /// Returns the hash of a block.
    pub fn hash(&self, height: u64) -> Hash256 {
        self.hashes[height as usize - 1]
    }

    /// Builds a signed block on the tip.
    pub fn block(&self, people: &KeyRing, signer: AccountIndex, time: i32, transactions: Vec<Transaction>) -> Block {
        let parent = self.hash(self.height());
        signed_block(people, signer, self.height() + 1, time, parent, transactions)
    }

    /// Offers blocks on top of the tip, in their wire form.
    pub fn offer(&mut self, blocks: &[Block], now: i32) -> ExpectedResult {
        self.offer_bytes(self.height(), &bytes_of(blocks), now).0
    }

    /// Offers blocks as bytes on top of any block of the chain. Also returns the transactions of replaced blocks.
    pub fn offer_bytes(&mut self, common: u64, blocks: &[Vec<u8>], now: i32) -> (ExpectedResult, Vec<Transaction>) {
        let read = |bytes: &Vec<u8>| Block::from_bytes(bytes, Context::of(self.network()));
        let read: Result<Vec<Block>, _> = blocks.iter().map(read).collect();
        let blocks = match read {
            Ok(blocks) => blocks,
            Err(error) => return (ExpectedResult::Exception(format!("{UNREADABLE}: {error}")), Vec::new()),
        };
        let hashes: Vec<Hash256> = blocks.iter().map(Block::hash).collect();
        let part = match CandidateBranch::new(&self.store, self.network(), Height(common), blocks) {
            Ok(part) => part,
            Err(error) => return (ExpectedResult::Exception(format!("{UNREADABLE}: {error}")), Vec::new()),
        };
        let outcome = process_branch(part, now);
        let verdict = match outcome.validity {
            Ok(()) if outcome.update.is_none() => ExpectedResult::Exception(NOT_BETTER.to_owned()),
            result => ExpectedResult::of(result),
        };
        let Some(switch) = outcome.update else { return (verdict, Vec::new()) };
        self.hashes.truncate(common as usize);
        self.hashes.extend(hashes);
        (verdict, switch.returned)
    }

    /// Returns the importance of an account for the next block, if the last calculation included it.
    pub fn importance(&self, address: &Address) -> Option<f64> {
        let snapshot = self.store.snapshot().expect("a snapshot");
        let due = Height((self.height() / 359 * 359).max(1));
        let own = state::importance(&snapshot, address).expect("a store");
        own.filter(|own| own.height == due).map(|own| own.importance)
    }

    /// Returns the importances of accounts, each with the height it was computed for.
    pub fn importances(&self, people: &KeyRing) -> Vec<Option<(u64, f64)>> {
        (0..people.len()).map(|who| self.last_importance(&people.address(who))).collect()
    }

    /// Returns the importance of an account with the height it was computed for.
    pub fn last_importance(&self, address: &Address) -> Option<(u64, f64)> {
        let own = state::importance(&self.store.snapshot().expect("a snapshot"), address).expect("a store");
        own.map(|own| (own.height.0, own.importance))
    }

    /// Returns the present balance of an account.
    pub fn balance(&self, address: &Address) -> state::VestedBalance {
        let account = state::account(&self.store.snapshot().expect("a snapshot"), address).expect("a store");
        account.balance.at(Height(self.height()), &self.network().chain)
    }

    /// Returns whether a mosaic has the definition that a recorded state gives.
    pub fn has_definition(&self, id: &str, written: &serde_json::Value) -> bool {
        let id = MosaicId::parse(id).expect("a name");
        let found = state::mosaic_definition(&self.store.snapshot().expect("a snapshot"), &id).expect("a store");
        found.is_some_and(|found| super::record::definition(&found) == *written)
    }

    /// Returns the score of the whole chain.
    pub fn score(&self) -> i128 {
        tip(&self.store.snapshot().expect("a snapshot")).expect("a store").expect("a chain").score
    }

    /// Imports a block as a trusted checkpoint, without checking signatures and proof.
    pub fn import_trusted(&mut self, block: &Block) -> ExpectedResult {
        let mut file = Vec::new();
        write_block(&mut file, &block.to_bytes(SigningForm::Verifiable)).expect("memory");
        let file = BlockFile::new(file.as_slice()).expect("memory");
        let trusted_below = Height(u64::MAX);
        let options = ImportOptions { trusted_below, ..ImportOptions::DEFAULT };
        let mut intake =
            BlockImporter::new(&self.store, self.network(), Vec::new(), vec![file], options).expect("a store");
        loop {
            match intake.step(Timestamp(FAR_FUTURE)) {
                Ok(ImportProgress::Done) => return ExpectedResult::Valid,
                Ok(_) => {}
                Err(ImportError::Rejected(_, _, rejection)) => return ExpectedResult::of(Err(rejection)),
                Err(error) => return ExpectedResult::Exception(error.to_string()),
            }
        }
    }

    /// Offers an unconfirmed transaction to an empty mempool.
    pub fn announce(&self, transaction: &Transaction, now: i32) -> ExpectedResult {
        self.announce_to(&mut Mempool::default(), transaction, now)
    }

    /// Offers an unconfirmed transaction to a mempool.
    pub fn announce_to(&self, pool: &mut Mempool, transaction: &Transaction, now: i32) -> ExpectedResult {
        let snapshot = self.store.snapshot().expect("a snapshot");
        let (network, height) = (self.network(), Height(self.height()));
        let confirmed = ChainSnapshot { snapshot: &snapshot, network, height, now: Timestamp(now) };
        ExpectedResult::of(pool.add(transaction.clone(), &confirmed).map(drop))
    }

    /// Rolls back to a lower height.
    pub fn roll_back(&mut self, height: u64) {
        let mut batch = self.store.begin_write().expect("a batch");
        rollback(&mut batch, Height(height)).expect("blocks taken a moment ago");
        batch.commit().expect("room");
        self.hashes.truncate(height as usize);
    }

    pub fn digest(&self) -> Hash256 {
        state::digest(&self.store.snapshot().expect("a snapshot")).expect("a store")
    }

    /// Checks the invariants of every state.
    pub fn check_invariants(&self) -> Result<invariants::StateSummary, String> {
        invariants::check(&self.store, self.network())
    }

    /// Returns where the state of the node differs from the model.
    pub fn compare(&self, world: &TestNetwork, model: &Model) -> Result<(), String> {
        let snapshot = self.store.snapshot().expect("a snapshot");
        let last = tip(&snapshot).expect("a store").expect("a chain").height.0;
        check_equal("height", "", model.height, last)?;
        for who in 0..world.key_ring.len() {
            self.compare_account(&snapshot, world, model, who)?;
        }
        for (name, root) in &model.roots {
            let leases = state::leases(&snapshot, name).expect("a store");
            let children =
                |lease: &Lease| state::subnamespaces_after(&snapshot, lease, "", usize::MAX).expect("a store");
            let found: Vec<_> =
                leases.iter().map(|lease| (lease.owner, lease.height.0, children(lease).len())).collect();
            let lease =
                |lease: &super::model::Lease| (world.key_ring.address(lease.owner), lease.height, lease.children.len());
            check_equal("leases of", name, root.leases.iter().map(lease).collect::<Vec<_>>(), found)?;
            for (id, token) in &root.tokens {
                let entry = state::mosaic(&snapshot, id).expect("a store");
                let found = entry.map(|entry| (entry.supply, entry.definition));
                check_equal("mosaic", &id.to_string(), Some((token.supply, token.definition.clone())), found)?;
                for who in 0..world.key_ring.len() {
                    let found = state::mosaic_balance(&snapshot, id, &world.key_ring.address(who)).expect("a store");
                    check_equal(
                        "balance of a mosaic of",
                        &world.key_ring.address(who).to_string(),
                        token.of(who),
                        found,
                    )?;
                }
            }
        }
        Ok(())
    }

    fn compare_account(
        &self,
        state: &impl nisd::store::Read,
        world: &TestNetwork,
        model: &Model,
        who: AccountIndex,
    ) -> Result<(), String> {
        let (expected, address) = (&model.accounts[who], world.key_ring.address(who));
        let name = address.to_string();
        let found = state::account(state, &address).expect("a store");
        check_equal("balance of", &name, expected.balance, found.balance.total())?;
        let vested = found.balance.at(Height(model.height), &self.network().chain).vested;
        check_equal("vested balance of", &name, model.vested(who, &world.terms), vested)?;
        check_equal("blocks of", &name, expected.harvested, found.harvested_blocks)?;
        check_equal("touches of", &name, expected.referenced, found.references)?;
        check_equal("least cosignatories of", &name, expected.min_cosignatories, i64::from(found.min_cosignatories))?;
        let link = |link: &Link| (link.is_owner, world.key_ring.address(link.other), link.height, link.mode);
        let found_link = |link: &state::RemoteLink| {
            (link.role == state::LinkRole::Owner, link.linked_address, link.height.0, link.mode)
        };
        let expected_links: Vec<_> = expected.links.iter().map(link).collect();
        check_equal("links of", &name, expected_links, found.links.iter().map(found_link).collect::<Vec<_>>())?;
        let addresses = |list: &std::collections::BTreeSet<AccountIndex>| {
            let mut list: Vec<Address> = list.iter().map(|who| world.key_ring.address(*who)).collect();
            list.sort();
            list
        };
        let cosignatories = state::cosignatories(state, &address).expect("a store");
        check_equal("cosignatories of", &name, addresses(&expected.cosignatories), cosignatories)?;
        let others = state::cosignatory_of(state, &address).expect("a store");
        check_equal("accounts cosigned by", &name, addresses(&expected.cosignatory_of), others)?;
        let mut mosaics = state::holdings(state, &address).expect("a store");
        mosaics.sort();
        check_equal("mosaics of", &name, expected.mosaics.iter().cloned().collect::<Vec<_>>(), mosaics)
    }
}

/// Builds a signed block.
pub fn signed_block(
    people: &KeyRing,
    signer: AccountIndex,
    height: u64,
    time: i32,
    parent: Hash256,
    transactions: Vec<Transaction>,
) -> Block {
    let mut block = Block {
        kind: if height == 1 { BlockKind::Nemesis } else { BlockKind::Regular },
        version: wire_version(people.network, 1),
        timestamp: Timestamp(time),
        signer: people.public(signer),
        signature: None,
        previous_hash: parent.into(),
        height: Height(height),
        transactions,
    };
    block.signature = Some(people.keys(signer).sign(&block.to_bytes(SigningForm::NonVerifiable)));
    block
}

fn check_equal<T: PartialEq + std::fmt::Debug>(what: &str, whose: &str, expected: T, found: T) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("{what} {whose}: expected {expected:?}, found {found:?}")) }
}

/// Processes a branch until it is decided.
fn process_branch(mut part: CandidateBranch<'_>, now: i32) -> BranchOutcome {
    let mut stakes = StakeCache::default();
    loop {
        if let Some(outcome) = part.step(Timestamp(now), &mut stakes).expect("a store that works") {
            return outcome;
        }
    }
}
