//! Compares our chain with the chain of a peer, answer by answer, to decide which one to follow.
//!
//! The caller requests the peer's score, passes it to a [`ChainComparer`], requests what the [`ComparisonStep`] names, and repeats
//! this until there is a [`ComparisonResult`]. If the peer does not answer, or not readably, the comparison ends without one.

use crate::crypto::Signature;
use crate::model::network::ChainParameters;
use crate::model::{Hash256, Height};

/// Result of a comparison, as NIS1's `ComparisonResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonResult {
    /// Not known.
    Unknown,
    /// The peer has no blocks.
    RemoteHasNoBlocks,
    /// Both chains have the same tip.
    RemoteIsSynced,
    /// The peer's tip is further below ours than the rewrite limit.
    RemoteIsTooFarBehind,
    /// The peer has blocks above the fork that may be better than ours.
    RemoteIsNotSynced(Fork),
    /// The peer reported an equal chain score.
    RemoteReportedEqualChainScore,
    /// The peer reported a lower chain score.
    RemoteReportedLowerChainScore,
    /// A block of the peer has an invalid signature.
    RemoteHasNonVerifiableBlock,
    /// The peer sent more hashes than allowed.
    RemoteReturnedTooManyHashes,
    /// The chains fork deeper than the rewrite limit, or belong to different networks.
    RemoteReturnedInvalidHashes,
    /// The peer has nothing above the common block, although it reported a higher score.
    RemoteLiedAboutChainScore,
}

/// Quality of an interaction with a peer, for its reputation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interaction {
    /// The peer was useful.
    Success,
    /// The peer was neither useful nor harmful.
    Neutral,
    /// The peer was harmful.
    Failure,
}

/// Where two chains fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Height of the last common block.
    pub common: Height,
    /// Whether the common block is our tip, so that nothing has to be rolled back.
    pub consistent: bool,
}

/// Bit set in the codes of findings that no honest peer causes.
const MALICIOUS: u32 = 0x8000_0000;

impl ComparisonResult {
    /// Returns the NIS1 code and name.
    fn code_and_name(self) -> (u32, &'static str) {
        match self {
            ComparisonResult::Unknown => (0, "UNKNOWN"),
            ComparisonResult::RemoteHasNoBlocks => (1, "REMOTE_HAS_NO_BLOCKS"),
            ComparisonResult::RemoteIsSynced => (2, "REMOTE_IS_SYNCED"),
            ComparisonResult::RemoteIsTooFarBehind => (3, "REMOTE_IS_TOO_FAR_BEHIND"),
            ComparisonResult::RemoteIsNotSynced(_) => (4, "REMOTE_IS_NOT_SYNCED"),
            ComparisonResult::RemoteReportedEqualChainScore => (5, "REMOTE_REPORTED_EQUAL_CHAIN_SCORE"),
            ComparisonResult::RemoteReportedLowerChainScore => (6, "REMOTE_REPORTED_LOWER_CHAIN_SCORE"),
            ComparisonResult::RemoteHasNonVerifiableBlock => (0x8000_0001, "REMOTE_HAS_NON_VERIFIABLE_BLOCK"),
            ComparisonResult::RemoteReturnedTooManyHashes => (0x8000_0002, "REMOTE_RETURNED_TOO_MANY_HASHES"),
            ComparisonResult::RemoteReturnedInvalidHashes => (0x8000_0003, "REMOTE_RETURNED_INVALID_HASHES"),
            ComparisonResult::RemoteLiedAboutChainScore => (0x8000_0004, "REMOTE_LIED_ABOUT_CHAIN_SCORE"),
        }
    }

    /// Returns the NIS1 code.
    pub fn code(self) -> u32 {
        self.code_and_name().0
    }

    /// Returns the NIS1 name.
    pub fn name(self) -> &'static str {
        self.code_and_name().1
    }

    /// Returns whether no honest peer causes it.
    pub fn is_malicious(self) -> bool {
        self.code() & MALICIOUS != 0
    }

    /// Returns the effect on the peer's reputation; `None` if that depends on the blocks it has yet to send.
    pub fn interaction(self) -> Option<Interaction> {
        match self {
            ComparisonResult::RemoteIsNotSynced(_) => None,
            ComparisonResult::RemoteIsSynced
            | ComparisonResult::RemoteReportedEqualChainScore
            | ComparisonResult::RemoteReportedLowerChainScore => Some(Interaction::Neutral),
            _ => Some(Interaction::Failure),
        }
    }

    /// Returns whether the chains are equal, so that unconfirmed transactions should be exchanged.
    pub fn is_in_sync(self) -> bool {
        matches!(self, ComparisonResult::RemoteIsSynced | ComparisonResult::RemoteReportedEqualChainScore)
    }
}

/// The fields of a chain's tip that a comparison needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TipInfo {
    /// Height of the block.
    pub height: Height,
    /// Hash of the block.
    pub hash: Hash256,
    /// Signature of the block, as in [`crate::model::Block`].
    pub signature: Option<Signature>,
}

/// What a comparison needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonStep {
    /// Ask the peer for its last block.
    AskLastBlock,
    /// Ask the peer for the hashes of its blocks from [`ChainComparer::first_hash`] on.
    AskHashes,
    /// Ask the peer for the block after the common one.
    AskBlockAfter(Fork),
    /// The comparison is over.
    Done(ComparisonResult),
}

/// A comparison of our chain with that of a peer. It starts with the peer's score.
#[derive(Clone, Copy, Debug)]
pub struct ChainComparer {
    score: i128,
    tip: TipInfo,
    rewrite_limit: u64,
    max_hashes: u64,
}

impl ChainComparer {
    /// Creates a comparison with the present state of our chain.
    pub fn new(score: i128, last: TipInfo, chain: &ChainParameters) -> ChainComparer {
        ChainComparer { score, tip: last, rewrite_limit: chain.rewrite_limit, max_hashes: chain.max_blocks_per_sync() }
    }

    /// Handles the peer's chain score.
    pub fn on_score(&self, remote: i128) -> ComparisonStep {
        match remote.cmp(&self.score) {
            std::cmp::Ordering::Less => ComparisonStep::Done(ComparisonResult::RemoteReportedLowerChainScore),
            std::cmp::Ordering::Equal => ComparisonStep::Done(ComparisonResult::RemoteReportedEqualChainScore),
            std::cmp::Ordering::Greater => ComparisonStep::AskLastBlock,
        }
    }

    /// Handles the peer's last block, if it has one. `is_verifiable` says whether its signature is valid.
    pub fn on_last_block(&self, remote: Option<&TipInfo>, is_verifiable: bool) -> ComparisonStep {
        let Some(remote) = remote else { return ComparisonStep::Done(ComparisonResult::RemoteHasNoBlocks) };
        if !is_verifiable {
            ComparisonStep::Done(ComparisonResult::RemoteHasNonVerifiableBlock)
        } else if *remote == self.tip {
            ComparisonStep::Done(ComparisonResult::RemoteIsSynced)
        } else if self.tip.height.0.saturating_sub(remote.height.0) > self.rewrite_limit {
            ComparisonStep::Done(ComparisonResult::RemoteIsTooFarBehind)
        } else {
            ComparisonStep::AskHashes
        }
    }

    /// Returns the height of the first block whose hash is compared.
    pub fn first_hash(&self) -> Height {
        self.tip.height.minus(self.rewrite_limit)
    }

    /// Handles the hashes of the peer's blocks from [`ChainComparer::first_hash`] on. `local` are ours from there to our
    /// tip.
    pub fn on_hashes(&self, local: &[Hash256], remote: &[Hash256]) -> ComparisonStep {
        if remote.len() as u64 > self.max_hashes {
            return ComparisonStep::Done(ComparisonResult::RemoteReturnedTooManyHashes);
        }
        let equal = local.iter().zip(remote).take_while(|(local, remote)| local == remote).count();
        if equal == 0 {
            return ComparisonStep::Done(ComparisonResult::RemoteReturnedInvalidHashes);
        }
        if equal == remote.len() {
            return ComparisonStep::Done(ComparisonResult::RemoteLiedAboutChainScore);
        }
        let fork = Fork { common: self.first_hash().plus(equal as u64 - 1), consistent: equal == local.len() };
        match fork.consistent {
            true => ComparisonStep::Done(ComparisonResult::RemoteIsNotSynced(fork)),
            false => ComparisonStep::AskBlockAfter(fork),
        }
    }

    /// Handles the peer's block after the fork. `is_verifiable` says whether its signature is valid.
    pub fn on_block_after(&self, fork: Fork, is_verifiable: bool) -> ComparisonStep {
        match is_verifiable {
            true => ComparisonStep::Done(ComparisonResult::RemoteIsNotSynced(fork)),
            false => ComparisonStep::Done(ComparisonResult::RemoteHasNonVerifiableBlock),
        }
    }
}

/// What to do with valid blocks of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// They add nothing to the score, and count as invalid.
    Nothing,
    /// Keep our blocks: the peer's are not better above the common block.
    Keep,
    /// Replace our blocks above the common block.
    Switch,
}

/// Decides between our blocks and a peer's above the common block by the sums of their scores. On a tie our blocks
/// stay.
pub fn decide(our_score: i64, peer_score: i64) -> Decision {
    if peer_score == 0 {
        Decision::Nothing
    } else if peer_score <= our_score {
        Decision::Keep
    } else {
        Decision::Switch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(height: u64, number: u8) -> TipInfo {
        TipInfo { height: Height(height), hash: Hash256([number; 32]), signature: Some(Signature([number; 64])) }
    }

    fn at(height: u64) -> ChainComparer {
        ChainComparer::new(1000, block(height, 1), &ChainParameters::after_all_forks())
    }

    fn hashes(count: usize, number: u8) -> Vec<Hash256> {
        vec![Hash256([number; 32]); count]
    }

    #[test]
    fn only_a_peer_with_a_higher_score_is_queried_further() {
        assert_eq!(at(500).on_score(999), ComparisonStep::Done(ComparisonResult::RemoteReportedLowerChainScore));
        assert_eq!(at(500).on_score(1000), ComparisonStep::Done(ComparisonResult::RemoteReportedEqualChainScore));
        assert_eq!(at(500).on_score(1001), ComparisonStep::AskLastBlock);
    }

    #[test]
    fn the_last_blocks_decide_whether_hashes_are_requested() {
        let local = at(500);
        assert_eq!(local.on_last_block(None, true), ComparisonStep::Done(ComparisonResult::RemoteHasNoBlocks));
        let not_verifiable = ComparisonStep::Done(ComparisonResult::RemoteHasNonVerifiableBlock);
        assert_eq!(local.on_last_block(Some(&block(500, 1)), false), not_verifiable);
        assert_eq!(
            local.on_last_block(Some(&block(500, 1)), true),
            ComparisonStep::Done(ComparisonResult::RemoteIsSynced)
        );
        assert_eq!(
            local.on_last_block(Some(&block(139, 2)), true),
            ComparisonStep::Done(ComparisonResult::RemoteIsTooFarBehind)
        );
        assert_eq!(local.on_last_block(Some(&block(140, 2)), true), ComparisonStep::AskHashes);
        assert_eq!(local.on_last_block(Some(&block(u64::MAX, 2)), true), ComparisonStep::AskHashes);
        let other_signature = TipInfo { signature: Some(Signature([2; 64])), ..block(500, 1) };
        assert_eq!(local.on_last_block(Some(&other_signature), true), ComparisonStep::AskHashes);
    }

    #[test]
    fn missing_or_disjoint_hashes_are_malicious() {
        let invalid = ComparisonStep::Done(ComparisonResult::RemoteReturnedInvalidHashes);
        assert_eq!(at(500).on_hashes(&hashes(361, 1), &[]), invalid);
        assert_eq!(at(500).on_hashes(&hashes(361, 1), &hashes(361, 2)), invalid);
        assert_eq!(at(500).on_hashes(&[], &hashes(1, 2)), invalid);
    }

    #[test]
    fn a_peer_may_send_as_many_hashes_as_a_synchronisation_has_blocks_and_no_more() {
        let (local, max) = (hashes(361, 1), ChainParameters::after_all_forks().max_blocks_per_sync() as usize);
        let too_many = ComparisonStep::Done(ComparisonResult::RemoteReturnedTooManyHashes);
        let fork = ComparisonResult::RemoteIsNotSynced(Fork { common: Height(500), consistent: true });
        assert_eq!(at(500).on_hashes(&local, &hashes(max, 1)), ComparisonStep::Done(fork));
        assert_eq!(at(500).on_hashes(&local, &hashes(max + 1, 1)), too_many);
        assert_eq!(at(500).on_hashes(&local, &hashes(max + 2, 1)), too_many);
    }

    #[test]
    fn the_block_after_a_fork_must_be_verifiable() {
        let fork = Fork { common: Height(140), consistent: false };
        let mut remote = hashes(2, 2);
        remote[0] = Hash256([1; 32]);
        assert_eq!(at(500).on_hashes(&hashes(361, 1), &remote), ComparisonStep::AskBlockAfter(fork));
        assert_eq!(at(500).on_block_after(fork, true), ComparisonStep::Done(ComparisonResult::RemoteIsNotSynced(fork)));
        assert_eq!(
            at(500).on_block_after(fork, false),
            ComparisonStep::Done(ComparisonResult::RemoteHasNonVerifiableBlock)
        );
    }

    #[test]
    fn comparison_results_have_their_codes_and_consequences() {
        let fork = Fork { common: Height(1), consistent: true };
        let (neutral, failure) = (Some(Interaction::Neutral), Some(Interaction::Failure));
        let table = [
            (ComparisonResult::Unknown, 0, "UNKNOWN", failure),
            (ComparisonResult::RemoteHasNoBlocks, 1, "REMOTE_HAS_NO_BLOCKS", failure),
            (ComparisonResult::RemoteIsSynced, 2, "REMOTE_IS_SYNCED", neutral),
            (ComparisonResult::RemoteIsTooFarBehind, 3, "REMOTE_IS_TOO_FAR_BEHIND", failure),
            (ComparisonResult::RemoteIsNotSynced(fork), 4, "REMOTE_IS_NOT_SYNCED", None),
            (ComparisonResult::RemoteReportedEqualChainScore, 5, "REMOTE_REPORTED_EQUAL_CHAIN_SCORE", neutral),
            (ComparisonResult::RemoteReportedLowerChainScore, 6, "REMOTE_REPORTED_LOWER_CHAIN_SCORE", neutral),
            (ComparisonResult::RemoteHasNonVerifiableBlock, 0x8000_0001, "REMOTE_HAS_NON_VERIFIABLE_BLOCK", failure),
            (ComparisonResult::RemoteReturnedTooManyHashes, 0x8000_0002, "REMOTE_RETURNED_TOO_MANY_HASHES", failure),
            (ComparisonResult::RemoteReturnedInvalidHashes, 0x8000_0003, "REMOTE_RETURNED_INVALID_HASHES", failure),
            (ComparisonResult::RemoteLiedAboutChainScore, 0x8000_0004, "REMOTE_LIED_ABOUT_CHAIN_SCORE", failure),
        ];
        for (outcome, code, name, interaction) in table {
            assert_eq!((outcome.code(), outcome.name(), outcome.interaction()), (code, name, interaction));
            assert_eq!(outcome.is_malicious(), code > 6, "{name}");
            assert_eq!(outcome.is_in_sync(), [2, 5].contains(&code), "{name}");
        }
    }

    #[test]
    fn a_chain_switch_needs_a_strictly_higher_positive_score() {
        assert_eq!(decide(5, 6), Decision::Switch);
        assert_eq!(decide(5, 5), Decision::Keep);
        assert_eq!(decide(0, -1), Decision::Keep);
        assert_eq!(decide(0, 0), Decision::Nothing);
        assert_eq!(decide(-1, 0), Decision::Nothing);
    }
}
