//! Handling of blocks from other nodes: pushed blocks and those of a remote node that the node synchronises with.

use nisd::chain::{BranchOutcome, CandidateBranch, StakeCache, Verified, check_pushed, pushed_branch};
use nisd::codec::{Context, Format, Writable};
use nisd::crypto::{KeyPair, PrivateKey, Verifier};
use nisd::mempool::ShortId;
use nisd::model::{Address, Block, Hash256, Height, Network, Timestamp};
use nisd::peer::chain_comparison::{ChainComparison, Downloads, Misbehavior, SyncOutcome};
use nisd::peer::io::{LocalChain, OwnTip, StoreUnreadable};
use nisd::peer::wire::{AnswerContext, AuthenticatedResponse, Challenge, HashChain, List, Query, Score};
use nisd::rules::{Exception, Rejection, RuleResult, ValidationResult};
use nisd::store::{Store, stored_block, stored_header};
use serde_json::Value;

use super::recorded_chain::{Chain, copy_store, tip_of};

/// A node: a chain and a store with a part of it.
#[derive(Clone, Copy)]
pub struct LocalNode<'a> {
    /// The chain.
    pub chain: &'a Chain,
    /// The store.
    pub store: &'a Store,
}

/// A store at some height of a recorded chain, restored for every case.
pub struct StoreFixture<'c> {
    /// The chain.
    pub chain: &'c Chain,
    /// The chain up to the height; no case touches it.
    pristine: tempfile::TempDir,
    working: tempfile::TempDir,
    store: Option<Store>,
}

impl<'c> StoreFixture<'c> {
    /// Creates an empty stage.
    pub fn new(chain: &'c Chain) -> StoreFixture<'c> {
        StoreFixture {
            chain,
            pristine: tempfile::tempdir().unwrap(),
            working: tempfile::tempdir().unwrap(),
            store: None,
        }
    }

    /// Imports up to a height; never goes back.
    pub fn advance_to(&mut self, height: u64) {
        let store = self.chain.store(self.pristine.path());
        self.chain.import(&store, height);
        drop(store);
        self.restore();
    }

    /// Restores the store at that height.
    pub fn restore(&mut self) {
        self.store = None;
        copy_store(self.pristine.path(), self.working.path());
        self.store = Some(self.chain.store(self.working.path()));
    }

    /// Returns the store that cases work on.
    pub fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// Returns the local node.
    pub fn local(&self) -> LocalNode<'_> {
        LocalNode { chain: self.chain, store: self.store() }
    }
}

/// Decodes bytes from hex.
pub fn bytes_of(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap()
}

/// Returns the text of a result as the records of pushes write it.
pub fn text_of(result: &RuleResult) -> String {
    match result {
        Ok(()) => ValidationResult::Success.name().to_owned(),
        Err(Rejection::Result(result)) => result.name().to_owned(),
        Err(Rejection::Exception(Exception::Argument(text))) => format!("HTTP 400 {text}"),
        Err(Rejection::Exception(Exception::Other(text))) => format!("HTTP 500 {text}"),
        Err(other) => panic!("{other}"),
    }
}

/// Processes a branch until it is decided.
pub fn process_branch(mut branch: CandidateBranch<'_>, now: Timestamp) -> BranchOutcome {
    let mut stakes = StakeCache::default();
    loop {
        if let Some(outcome) = branch.step(now, &mut stakes).unwrap() {
            return outcome;
        }
    }
}

/// Pushes a block; returns the text of the result, and the outcome of the block as a candidate branch if it got that
/// far.
pub fn push(local: LocalNode<'_>, block: Block, now: Timestamp) -> (String, Option<BranchOutcome>) {
    let (store, network) = (local.store, &local.chain.network);
    let rejected = |rejection: Rejection| (text_of(&Err(rejection)), None);
    let front = check_pushed(
        &block,
        &block.encode_transactions(),
        &store.snapshot().unwrap(),
        network,
        &mut Verifier::default(),
    );
    if let Err(rejection) = front {
        return rejected(rejection);
    }
    match pushed_branch(store, network, block, Verified::default()) {
        Ok(branch) => {
            let outcome = process_branch(branch, now);
            (text_of(&outcome.as_push_result()), Some(outcome))
        }
        Err(rejection) => rejected(rejection),
    }
}

/// A remote node that shares our chain up to a height and has blocks of its own above.
pub struct Remote {
    score: i128,
    common: u64,
    blocks: Vec<Block>,
    hash_limit: usize,
    /// Answers that do not follow from its chain.
    last: Option<Block>,
    hashes: Option<Vec<Hash256>>,
    block_at: Option<Block>,
    branch: Option<Vec<Block>>,
}

impl Remote {
    /// Creates a remote with these blocks above our block at height `common`.
    pub fn new(score: i128, common: u64, blocks: Vec<Block>) -> Remote {
        let (last, hashes, block_at, branch) = (None, None, None, None);
        Remote { score, common, blocks, hash_limit: 400, last, hashes, block_at, branch }
    }

    /// Creates a remote from recorded answers.
    pub fn recorded(chain: &Chain, peer: &Value) -> Remote {
        let block = |value: &Value| chain.block(&bytes_of(value));
        let list = |name: &str| peer[name].as_array().map(|blocks| blocks.iter().map(block).collect::<Vec<_>>());
        let one = |name: &str| Some(&peer[name]).filter(|value| !value.is_null()).map(block);
        let hash = |value: &Value| Hash256::from_hex(value.as_str().unwrap()).unwrap();
        Remote {
            score: peer["score"].as_str().unwrap().parse().unwrap(),
            common: peer["commonHeight"].as_u64().unwrap(),
            blocks: list("blocks").unwrap(),
            hash_limit: peer["hashLimit"].as_u64().map_or(400, |limit| limit as usize),
            last: one("lastBlock"),
            hashes: peer["hashes"].as_array().map(|hashes| hashes.iter().map(hash).collect()),
            block_at: one("blockAt"),
            branch: list("part"),
        }
    }

    /// Returns our own block at a height, followed by the blocks of the remote.
    fn chain_above(&self, local: LocalNode<'_>, height: u64) -> Vec<Block> {
        let snapshot = local.store.snapshot().unwrap();
        let ours = |height| stored_block(&snapshot, Height(height)).unwrap().unwrap().1;
        let theirs = self.blocks.iter().skip((height.saturating_sub(self.common)) as usize).cloned();
        (height + 1..=self.common).map(ours).chain(theirs).collect()
    }

    fn last(&self, local: LocalNode<'_>) -> Option<Block> {
        self.last.clone().or_else(|| self.chain_above(local, self.common.saturating_sub(1)).pop())
    }

    fn hashes_from(&self, local: LocalNode<'_>, height: Height) -> Vec<Hash256> {
        let chain = || self.chain_above(local, height.0 - 1);
        self.hashes.clone().unwrap_or_else(|| chain().iter().map(Block::hash).take(self.hash_limit).collect())
    }

    fn blocks_after(&self, local: LocalNode<'_>, height: Height) -> Vec<Block> {
        // The recorded remote answered with its whole branch when it was asked for less, because its hashes were false.
        self.branch.clone().unwrap_or_else(|| self.chain_above(local, height.0.min(self.common)))
    }

    fn block_at(&self, local: LocalNode<'_>, height: Height) -> Option<Block> {
        self.block_at.clone().or_else(|| self.chain_above(local, height.0 - 1).into_iter().next())
    }
}

/// Our chain, as a comparison reads it.
pub struct OwnChain<F> {
    /// Its tip.
    pub tip: OwnTip,
    /// Returns the hash of the block at a height up to that of the tip.
    pub hash_at: F,
}

impl<F: Fn(Height) -> Hash256> LocalChain for OwnChain<F> {
    fn tip(&self) -> Result<OwnTip, StoreUnreadable> {
        Ok(self.tip)
    }

    fn hashes_from(&self, first: Height, max: u64) -> Result<Vec<Hash256>, StoreUnreadable> {
        Ok((first.0..=self.tip.height.0).take(max as usize).map(|height| (self.hash_at)(Height(height))).collect())
    }

    fn short_ids(&self) -> Vec<ShortId> {
        Vec::new()
    }

    fn importance(&self, _: &Address) -> Result<f64, StoreUnreadable> {
        Ok(0.0)
    }

    fn important_accounts(&self) -> Result<u64, StoreUnreadable> {
        Ok(0)
    }
}

/// Encodes and signs the answers of a remote node.
pub struct AnswerSigner(KeyPair);

impl AnswerSigner {
    const CHALLENGE: Challenge = Challenge([9; 64]);

    /// Returns the body of an answer.
    pub fn sign(&self, entity: impl Writable) -> Vec<u8> {
        Format::Binary.to_bytes(&AuthenticatedResponse { entity, signature: Self::CHALLENGE.sign(&self.0) })
    }
}

/// Compares our chain with that of a remote node. Returns the NIS1 name of the result, and the common height if blocks
/// of the remote were requested.
pub fn compare(
    own: &dyn LocalChain,
    network: &Network,
    answer: impl Fn(&Query, &AnswerSigner) -> Vec<u8>,
) -> (&'static str, Option<Height>) {
    let signer = AnswerSigner(KeyPair::new(&PrivateKey::from_seed(&[1; 32])));
    let (format, challenge, key) = (Format::Binary, AnswerSigner::CHALLENGE, signer.0.public());
    let context = AnswerContext { format, context: Context::of(network), challenge, key: Some(key) };
    let (mut comparison, mut query) =
        ChainComparison::begin(u64::MAX, Downloads::Proven, network.chain.max_transactions);
    let outcome = loop {
        match comparison.on_answer(answer(&query, &signer), &context, own, &network.chain).unwrap() {
            Ok(next) => query = next,
            Err(outcome) => break outcome,
        }
    };
    let name = match &outcome {
        SyncOutcome::Same if query == Query::Score => "REMOTE_REPORTED_EQUAL_CHAIN_SCORE",
        SyncOutcome::Same => "REMOTE_IS_SYNCED",
        SyncOutcome::LowerScore => "REMOTE_REPORTED_LOWER_CHAIN_SCORE",
        SyncOutcome::TooFarBehind => "REMOTE_IS_TOO_FAR_BEHIND",
        SyncOutcome::FarAhead(..) | SyncOutcome::Blocks { .. } => "REMOTE_IS_NOT_SYNCED",
        SyncOutcome::Misbehaved(Misbehavior::NonVerifiableBlock) => "REMOTE_HAS_NON_VERIFIABLE_BLOCK",
        SyncOutcome::Misbehaved(Misbehavior::TooManyHashes) => "REMOTE_RETURNED_TOO_MANY_HASHES",
        SyncOutcome::Misbehaved(Misbehavior::InvalidHashes) => "REMOTE_RETURNED_INVALID_HASHES",
        SyncOutcome::Misbehaved(Misbehavior::LiedAboutScore) => "REMOTE_LIED_ABOUT_CHAIN_SCORE",
    };
    let common = if let SyncOutcome::Blocks { common, .. } = outcome { Some(common) } else { None };
    (name, common)
}

/// Result of a synchronisation.
pub struct Synchronisation {
    /// NIS1 name of the result of the comparison.
    pub comparison: &'static str,
    /// The last common block, if the blocks above it were requested.
    pub common: Option<Height>,
    /// Outcome of these blocks.
    pub outcome: Option<BranchOutcome>,
}

/// Compares with a remote and adopts its blocks if they are better.
pub fn synchronise(local: LocalNode<'_>, remote: &Remote, now: Timestamp) -> Synchronisation {
    let (store, network) = (local.store, &local.chain.network);
    let snapshot = store.snapshot().unwrap();
    let (tip, block) = stored_block(&snapshot, tip_of(store).height).unwrap().unwrap();
    let tip = OwnTip { height: tip.height, hash: tip.hash, signature: block.signature, score: tip.score };
    let own = OwnChain { tip, hash_at: |height| stored_header(&snapshot, height).unwrap().unwrap().hash };
    let (comparison, common) = compare(&own, network, |query, signer| match query {
        Query::Score => signer.sign(Score(remote.score)),
        Query::LastBlock => signer.sign(remote.last(local).unwrap()),
        Query::HashesFrom(first) => signer.sign(HashChain(remote.hashes_from(local, *first))),
        Query::BlockAt(height) => signer.sign(remote.block_at(local, *height).unwrap()),
        // The blocks are processed below.
        _ => signer.sign(List::<Block>(Vec::new())),
    });
    drop(snapshot);
    let outcome = common.map(|common| {
        let branch = CandidateBranch::new(store, network, common, remote.blocks_after(local, common)).unwrap();
        process_branch(branch, now)
    });
    Synchronisation { comparison, common, outcome }
}
