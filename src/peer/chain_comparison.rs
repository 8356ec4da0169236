//! Comparison of our chain with that of one peer, which determines the blocks to download and validate, if any.
//!
//! All requests go to the same peer, one after the other: its score; its last block, if its score is greater; the
//! hashes of as many blocks as can be rolled back, and more; the first block after the common one, if blocks of ours
//! would be replaced; and the blocks. Our own chain may change meanwhile, so it is read again with each score, last
//! block and hash list, and the comparison ends as soon as there is nothing to gain.

use std::cmp::Ordering;

use super::io::{LocalChain, OwnTip};
use super::peer_entry::PeerError;
use super::wire::{AnswerContext, BlockList, ChainRequest, HashChain, Query, Score, limits};
use crate::chain::check_block_signature;
use crate::crypto::Verifier;
use crate::model::network::ChainParameters;
use crate::model::{Block, Hash256, Height};

/// Returns how many blocks a chain must be ahead to be downloaded from several peers: four single-peer downloads.
pub fn far_ahead(chain: &ChainParameters) -> u64 {
    const ATTEMPTS: u64 = 4;
    ATTEMPTS.saturating_mul(chain.max_blocks_per_sync())
}

/// Misbehavior of a peer that is malicious or broken. [`InvalidHashes`](Misbehavior::InvalidHashes) also occurs if the chains
/// forked further back than the rewrite limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misbehavior {
    /// The signature of a block is invalid.
    NonVerifiableBlock,
    /// The peer sent more hashes than the protocol allows.
    TooManyHashes,
    /// Not even the first hash matches our chain.
    InvalidHashes,
    /// The peer announced a greater score, but has no block that we lack.
    LiedAboutScore,
}

/// Result of a comparison.
#[derive(Debug)]
pub enum SyncOutcome {
    /// Both chains are the same or have the same score. The peer may have unconfirmed transactions that we lack.
    Same,
    /// Our chain has the greater score.
    LowerScore,
    /// The peer's chain extends ours from this tip up to this height, by more than `far_ahead` blocks.
    FarAhead(Box<OwnTip>, Height),
    /// The peer's chain ends more than the rewrite limit below ours, whatever its score.
    TooFarBehind,
    /// The peer misbehaved.
    Misbehaved(Misbehavior),
    /// Blocks to validate.
    Blocks {
        /// Height of the last common block.
        common: Height,
        /// Hash of our tip at the time of the comparison.
        base: Hash256,
        /// The blocks.
        blocks: BlockList,
    },
}

/// Query that follows an answer, or the end of the comparison.
pub type NextStep = Result<Query, SyncOutcome>;

/// State of a comparison that waits for an answer.
#[derive(Clone, Debug)]
pub struct ChainComparison {
    stage: ComparisonStage,
    /// Score of the peer's chain; 0 before [`ComparisonStage::Score`] is answered.
    score: i128,
    /// The peer's chain is far ahead if it extends ours by more than this many blocks.
    far_ahead: u64,
    /// Whether a chain that is far ahead is left to the block download, as [`Downloads`] says.
    downloads: Downloads,
    /// Whether the peer claims a chain that is far ahead.
    pub is_far_ahead: bool,
    /// Maximum number of transactions to request with the blocks.
    max_transactions: u32,
}

/// When a chain that is far ahead is left to the block download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Downloads {
    /// The first blocks of this peer's chain were valid.
    Proven,
    /// Only if the chain claims to reach the trusted checkpoint at this height, to which its hashes are followed first.
    /// Otherwise its first blocks are requested and validated, as of any chain.
    Checkpoint(Option<Height>),
}

/// Point where our chain and the peer's diverge.
#[derive(Clone, Copy, Debug)]
struct Fork {
    common: Height,
    base: OwnTip,
}

#[derive(Clone, Debug)]
enum ComparisonStage {
    Score,
    LastBlock,
    /// Hashes from height `from` on, of a chain that ends at `last`.
    Hashes {
        from: Height,
        last: Height,
    },
    /// The first block that would replace one of ours.
    FirstReplacement(Fork),
    Blocks(Fork),
}

/// Checks the signature of a block, and returns its hash.
fn check_signature(block: &Block) -> Result<Hash256, SyncOutcome> {
    let (hash, is_signed) = check_block_signature(block, &block.encode_transactions(), false, &mut Verifier::default());
    is_signed.then_some(hash).ok_or(SyncOutcome::Misbehaved(Misbehavior::NonVerifiableBlock))
}

impl ChainComparison {
    /// Starts a comparison and returns the first request. A chain that extends ours by more than `far_ahead` blocks
    /// ends it with [`SyncOutcome::FarAhead`] if `downloads` allows it; otherwise blocks with at most `max_transactions`
    /// transactions are requested.
    pub fn begin(far_ahead: u64, downloads: Downloads, max_transactions: u32) -> (ChainComparison, Query) {
        let (stage, score, is_far_ahead) = (ComparisonStage::Score, 0, false);
        (ChainComparison { stage, score, far_ahead, downloads, is_far_ahead, max_transactions }, Query::Score)
    }

    /// Returns whether blocks have been requested.
    pub fn waits_for_blocks(&self) -> bool {
        matches!(self.stage, ComparisonStage::Blocks(_))
    }

    /// Returns the score of the peer's chain, if known.
    pub fn score(&self) -> Option<i128> {
        (!matches!(self.stage, ComparisonStage::Score)).then_some(self.score)
    }

    /// Processes the answer to the last request. An invalid answer, or an unreadable store, is an error.
    pub fn on_answer(
        &mut self,
        body: Vec<u8>,
        context: &AnswerContext,
        own: &dyn LocalChain,
        chain: &ChainParameters,
    ) -> Result<NextStep, PeerError> {
        match self.stage.clone() {
            ComparisonStage::Score => {
                Score(self.score) = context.read(&body)?;
                self.stage = ComparisonStage::LastBlock;
                Ok(self.end_unless_better(own.tip()?).map(|()| Query::LastBlock))
            }
            ComparisonStage::LastBlock => {
                let last = context.read(&body)?;
                Ok(self.compare_last(&last, own.tip()?, chain))
            }
            ComparisonStage::Hashes { from, last } => {
                let HashChain(theirs) = context.read(&body)?;
                let (ours, own) = (own.hashes_from(from, chain.max_blocks_per_sync())?, own.tip()?);
                Ok(self.compare_hashes((from, last), &ours, &theirs, own, chain))
            }
            ComparisonStage::FirstReplacement(fork) => {
                let block = context.read(&body)?;
                Ok(check_signature(&block).map(|_| self.request_blocks(fork, chain)))
            }
            ComparisonStage::Blocks(Fork { common, base }) => {
                let blocks = context.open_list(body, limits::block(chain))?;
                Ok(Err(SyncOutcome::Blocks { common, base: base.hash, blocks }))
            }
        }
    }

    /// Ends the comparison if our chain is no worse by now.
    fn end_unless_better(&self, own: OwnTip) -> Result<(), SyncOutcome> {
        match self.score.cmp(&own.score) {
            Ordering::Equal => Err(SyncOutcome::Same),
            Ordering::Less => Err(SyncOutcome::LowerScore),
            Ordering::Greater => Ok(()),
        }
    }

    fn compare_last(&mut self, last: &Block, own: OwnTip, chain: &ChainParameters) -> NextStep {
        self.end_unless_better(own)?;
        let hash = check_signature(last)?;
        if (last.height, hash, last.signature) == (own.height, own.hash, own.signature) {
            return Err(SyncOutcome::Same);
        }
        if own.height.0.saturating_sub(last.height.0) > chain.rewrite_limit {
            return Err(SyncOutcome::TooFarBehind);
        }
        let from = chain.lowest_rollback(own.height);
        self.stage = ComparisonStage::Hashes { from, last: last.height };
        Ok(Query::HashesFrom(from))
    }

    fn compare_hashes(
        &mut self,
        (from, last): (Height, Height),
        ours: &[Hash256],
        theirs: &[Hash256],
        base: OwnTip,
        chain: &ChainParameters,
    ) -> NextStep {
        if ours.is_empty() {
            // A reorg has made our chain shorter than `from` meanwhile.
            return Err(SyncOutcome::LowerScore);
        }
        self.end_unless_better(base)?;
        let same = ours.iter().zip(theirs).take_while(|(ours, theirs)| ours == theirs).count();
        if theirs.len() as u64 > chain.max_blocks_per_sync() {
            return Err(SyncOutcome::Misbehaved(Misbehavior::TooManyHashes));
        }
        if same == 0 {
            return Err(SyncOutcome::Misbehaved(Misbehavior::InvalidHashes));
        }
        if same == theirs.len() {
            return Err(SyncOutcome::Misbehaved(Misbehavior::LiedAboutScore));
        }
        let common = Height(from.0 + same as u64 - 1);
        let fork = Fork { common, base };
        self.is_far_ahead = common == base.height && last.0.saturating_sub(common.0) > self.far_ahead;
        let may_download = match self.downloads {
            Downloads::Proven => true,
            Downloads::Checkpoint(height) => height.is_some_and(|height| height > base.height && height <= last),
        };
        if self.is_far_ahead && may_download {
            return Err(SyncOutcome::FarAhead(Box::new(base), last));
        }
        if same == ours.len() {
            return Ok(self.request_blocks(fork, chain));
        }
        self.stage = ComparisonStage::FirstReplacement(fork);
        Ok(Query::BlockAt(common.next()))
    }

    fn request_blocks(&mut self, fork: Fork, chain: &ChainParameters) -> Query {
        self.stage = ComparisonStage::Blocks(fork);
        let undone = fork.base.height.0.saturating_sub(fork.common.0);
        let least = i32::try_from(undone).unwrap_or(i32::MAX);
        let transactions = i32::try_from(self.max_transactions).unwrap_or(i32::MAX);
        Query::BlocksAfter(ChainRequest::new(fork.common, least, transactions, chain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::binary::BinaryEncoder;
    use crate::codec::{Context, Encoder, Format, ReadError, Writable};
    use crate::crypto::{KeyPair, PrivateKey, Signature};
    use crate::model::{BlockKind, Network, Timestamp};
    use crate::peer::io::StoreUnreadable;
    use crate::peer::tests::FakeIo;
    use crate::peer::wire::{AnswerError, AuthenticatedResponse, Challenge, List};

    /// Returns a host whose chain has these blocks and a score of 10 for each; its store is unreadable without any.
    fn chain_of(hashes: Vec<Hash256>) -> FakeIo {
        let height = hashes.len() as u64;
        let score = i128::from(height) * 10;
        let tip = hashes.last().map(|hash| OwnTip { height: Height(height), hash: *hash, signature: None, score });
        let mut host = FakeIo::new();
        (host.tip, host.hashes) = (tip, hashes);
        host
    }

    fn pair(number: u8) -> KeyPair {
        KeyPair::new(&PrivateKey::from_seed(&[number; 32]))
    }

    fn hash(branch: u8, height: u64) -> Hash256 {
        let mut hash = Hash256([branch; 32]);
        hash.0[..8].copy_from_slice(&height.to_le_bytes());
        hash
    }

    /// Hashes of the trunk up to `common`, then of a branch up to `last`.
    fn hashes(common: u64, branch: u8, last: u64) -> Vec<Hash256> {
        (1..=last).map(|height| hash(if height <= common { 0 } else { branch }, height)).collect()
    }

    fn chain() -> ChainParameters {
        ChainParameters { rewrite_limit: 20, ..ChainParameters::after_all_forks() }
    }

    fn block(height: u64) -> Block {
        let signer = pair(7);
        let mut block = Block {
            kind: BlockKind::Regular,
            version: 0x9800_0001_u32 as i32,
            timestamp: Timestamp(height as i32),
            signer: signer.public(),
            signature: None,
            previous_hash: hash(0, height - 1).into(),
            height: Height(height),
            transactions: Vec::new(),
        };
        block.signature = Some(signer.sign(&block.to_bytes(crate::codec::SigningForm::NonVerifiable)));
        block
    }

    fn forged(height: u64) -> Block {
        Block { signature: Some(Signature([1; 64])), ..block(height) }
    }

    fn answer(comparison: &mut ChainComparison, own: &FakeIo, entity: impl Writable) -> Result<NextStep, PeerError> {
        answer_by(comparison, own, entity, &pair(1))
    }

    fn answer_by(
        comparison: &mut ChainComparison,
        own: &FakeIo,
        entity: impl Writable,
        signer: &KeyPair,
    ) -> Result<NextStep, PeerError> {
        let (challenge, format) = (Challenge([9; 64]), Format::Binary);
        let body = format.to_bytes(&AuthenticatedResponse { entity, signature: challenge.sign(signer) });
        let context = Context::of(&Network::example());
        let expected = AnswerContext { format, challenge, key: Some(pair(1).public()), context };
        comparison.on_answer(body, &expected, own, &chain())
    }

    fn asks(next: Result<NextStep, PeerError>) -> Query {
        match next {
            Ok(Ok(query)) => query,
            other => panic!("{other:?}"),
        }
    }

    fn ends(next: Result<NextStep, PeerError>) -> SyncOutcome {
        match next {
            Ok(Err(ending)) => ending,
            other => panic!("{other:?}"),
        }
    }

    fn begin(downloads: Downloads) -> (ChainComparison, Query) {
        ChainComparison::begin(far_ahead(&chain()), downloads, chain().max_transactions)
    }

    /// Returns a comparison that waits for hashes, with a peer whose first blocks were valid.
    fn at_hashes(own: &FakeIo, last: u64) -> ChainComparison {
        at_hashes_of(own, last, Downloads::Proven)
    }

    fn at_hashes_of(own: &FakeIo, last: u64, downloads: Downloads) -> ChainComparison {
        let (mut comparison, query) = begin(downloads);
        assert_eq!(query, Query::Score);
        assert_eq!(asks(answer(&mut comparison, own, Score(i128::from(last) * 10 + 1))), Query::LastBlock);
        let from = (own.hashes.len() as u64).saturating_sub(20).max(1);
        assert_eq!(asks(answer(&mut comparison, own, block(last))), Query::HashesFrom(Height(from)));
        comparison
    }

    #[test]
    fn a_peer_without_a_higher_score_is_not_queried_further() {
        let own = chain_of(hashes(30, 0, 30));
        for (score, is_same) in [(300, true), (299, false), (0, false)] {
            let (mut comparison, _) = begin(Downloads::Proven);
            let ending = ends(answer(&mut comparison, &own, Score(score)));
            assert!(matches!((ending, is_same), (SyncOutcome::Same, true) | (SyncOutcome::LowerScore, false)));
        }
    }

    #[test]
    fn missing_blocks_are_requested_from_a_longer_chain() {
        let own = chain_of(hashes(30, 0, 30));
        let mut comparison = at_hashes(&own, 40);
        let theirs = HashChain(hashes(40, 0, 40).split_off(9));
        let wanted = ChainRequest::new(Height(30), 10, 10_000, &chain());
        assert_eq!(asks(answer(&mut comparison, &own, theirs)), Query::BlocksAfter(wanted));
        let ending = ends(answer(&mut comparison, &own, List(vec![block(31), block(32)])));
        let SyncOutcome::Blocks { common, base, blocks } = ending else { panic!("{ending:?}") };
        assert_eq!((common, base, blocks.left()), (Height(30), hash(0, 30), 2));
    }

    #[test]
    fn a_block_that_is_too_long_is_not_decoded() {
        struct Bytes(usize);
        impl Writable for Bytes {
            fn write(&self, sink: &mut impl Encoder) {
                sink.bytes("data", Some(&vec![0; self.0]));
            }
        }
        let own = chain_of(hashes(30, 0, 30));
        let max = limits::block(&chain());
        for (bytes, is_decoded) in [(max, true), (max + 1, false)] {
            let mut comparison = at_hashes(&own, 40);
            asks(answer(&mut comparison, &own, HashChain(hashes(40, 0, 40).split_off(9))));
            let ending = ends(answer(&mut comparison, &own, List(vec![Bytes(bytes - BinaryEncoder::LENGTH_BYTES)])));
            let SyncOutcome::Blocks { mut blocks, .. } = ending else { panic!("{ending:?}") };
            let error = blocks.next(Context::of(&Network::example())).expect("one").unwrap_err();
            assert_eq!(!matches!(error, ReadError::Internal(_)), is_decoded, "{error}");
        }
    }

    #[test]
    fn a_far_longer_chain_on_our_tip_is_left_to_the_block_download() {
        let own = chain_of(hashes(30, 0, 30));
        let theirs = |common: u64| HashChain(hashes(common, 2, 69).split_off(9));
        let mut comparison = at_hashes(&own, 271);
        let ending = ends(answer(&mut comparison, &own, theirs(30)));
        assert!(matches!(&ending, SyncOutcome::FarAhead(base, Height(271)) if base.hash == hash(0, 30)), "{ending:?}");
        let mut comparison = at_hashes(&own, 270);
        assert!(matches!(asks(answer(&mut comparison, &own, theirs(30))), Query::BlocksAfter(_)));
        let mut comparison = at_hashes(&own, 271);
        assert_eq!(asks(answer(&mut comparison, &own, theirs(15))), Query::BlockAt(Height(16)));
    }

    #[test]
    fn the_first_blocks_of_a_far_longer_chain_are_validated_like_others_unless_it_claims_to_reach_the_checkpoint() {
        let own = chain_of(hashes(30, 0, 30));
        let theirs = || HashChain(hashes(30, 2, 69).split_off(9));
        for (checkpoint, is_download) in
            [(None, false), (Some(30), false), (Some(31), true), (Some(271), true), (Some(272), false)]
        {
            let mut comparison = at_hashes_of(&own, 271, Downloads::Checkpoint(checkpoint.map(Height)));
            match answer(&mut comparison, &own, theirs()) {
                Ok(Ok(Query::BlocksAfter(_))) => assert!(!is_download, "{checkpoint:?}"),
                Ok(Err(SyncOutcome::FarAhead(..))) => assert!(is_download, "{checkpoint:?}"),
                other => panic!("{other:?}"),
            }
            assert!(comparison.is_far_ahead);
        }
    }

    #[test]
    fn a_fork_is_verified_before_as_many_blocks_as_it_replaces_are_requested() {
        let own = chain_of(hashes(15, 1, 30));
        let mut comparison = at_hashes(&own, 33);
        let theirs = HashChain(hashes(15, 2, 33).split_off(9));
        assert_eq!(asks(answer(&mut comparison, &own, theirs)), Query::BlockAt(Height(16)));
        let wanted = ChainRequest::new(Height(15), 15, 10_000, &chain());
        assert_eq!(asks(answer(&mut comparison, &own, block(16))), Query::BlocksAfter(wanted));
        let mut comparison = at_hashes(&own, 33);
        let theirs = HashChain(hashes(15, 2, 33).split_off(9));
        asks(answer(&mut comparison, &own, theirs));
        let ending = ends(answer(&mut comparison, &own, forged(16)));
        assert!(matches!(ending, SyncOutcome::Misbehaved(Misbehavior::NonVerifiableBlock)));
    }

    #[test]
    fn misbehavior_ends_the_comparison() {
        let own = chain_of(hashes(30, 0, 30));
        let many = || (10..71).map(|height| hash(0, height)).collect();
        for (theirs, evil) in [
            (many(), Misbehavior::TooManyHashes),
            (Vec::new(), Misbehavior::InvalidHashes),
            (hashes(0, 3, 40).split_off(9), Misbehavior::InvalidHashes),
            (hashes(30, 0, 30).split_off(9), Misbehavior::LiedAboutScore),
            (hashes(30, 0, 10).split_off(9), Misbehavior::LiedAboutScore),
        ] {
            let mut comparison = at_hashes(&own, 40);
            let ending = ends(answer(&mut comparison, &own, HashChain(theirs)));
            assert!(
                matches!(ending, SyncOutcome::Misbehaved(found) if found == evil),
                "{ending:?} instead of {evil:?}"
            );
        }
        let (mut comparison, _) = begin(Downloads::Proven);
        asks(answer(&mut comparison, &own, Score(1000)));
        let ending = ends(answer(&mut comparison, &own, forged(40)));
        assert!(matches!(ending, SyncOutcome::Misbehaved(Misbehavior::NonVerifiableBlock)));
    }

    #[test]
    fn a_peer_is_too_far_behind_only_beyond_the_rewrite_limit() {
        let own = chain_of(hashes(40, 0, 40));
        for (last, is_too_far) in [(20, false), (19, true)] {
            let (mut comparison, _) = begin(Downloads::Proven);
            asks(answer(&mut comparison, &own, Score(1000)));
            match answer(&mut comparison, &own, block(last)) {
                Ok(Err(SyncOutcome::TooFarBehind)) => assert!(is_too_far),
                Ok(Ok(query)) => assert_eq!((query, is_too_far), (Query::HashesFrom(Height(20)), false)),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_change_of_our_tip_ends_the_comparison() {
        let (short, long) = (chain_of(hashes(30, 0, 30)), chain_of(hashes(60, 0, 60)));
        let (mut comparison, _) = begin(Downloads::Proven);
        asks(answer(&mut comparison, &short, Score(400)));
        assert!(matches!(ends(answer(&mut comparison, &long, block(40))), SyncOutcome::LowerScore));
        let mut comparison = at_hashes(&short, 40);
        assert!(matches!(ends(answer(&mut comparison, &long, HashChain(hashes(40, 0, 40)))), SyncOutcome::LowerScore));
        let (mut comparison, last) = (at_hashes(&chain_of(hashes(60, 0, 60)), 61), hashes(61, 0, 61));
        assert!(
            matches!(ends(answer(&mut comparison, &short, HashChain(last))), SyncOutcome::LowerScore),
            "it has become shorter"
        );
    }

    #[test]
    fn impersonated_or_malformed_answers_end_the_comparison_without_a_penalty() {
        let own = chain_of(hashes(30, 0, 30));
        let (mut comparison, _) = begin(Downloads::Proven);
        let result = answer_by(&mut comparison, &own, Score(1000), &pair(2));
        assert_eq!(result.map(drop), Err(AnswerError::Impersonated.into()));
        let (mut comparison, _) = begin(Downloads::Proven);
        assert_eq!(answer(&mut comparison, &chain_of(Vec::new()), Score(1)).map(drop), Err(StoreUnreadable.into()));
        let mut comparison = at_hashes(&own, 40);
        let error = answer(&mut comparison, &own, Height(3)).expect_err("no hashes");
        assert!(error.reason.starts_with("the answer cannot be decoded"), "{error}");
    }
}
