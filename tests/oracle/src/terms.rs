//! The parameters of a small network: fork heights and durations.

use nisd::model::NetworkByte;

use super::rule::Rule;
use crate::Random;

/// Heights at which rules change.
#[derive(Clone, Debug)]
pub struct ForkHeights {
    pub multisig: u64,
    pub mosaics: u64,
    pub first_fee: u64,
    pub remote: u64,
    pub redefinition: u64,
    pub second_fee: u64,
    pub treasury: u64,
}

impl ForkHeights {
    /// Returns all of them.
    pub fn all(&self) -> [u64; 7] {
        let ForkHeights { multisig, mosaics, first_fee, remote, redefinition, second_fee, treasury } = *self;
        [multisig, mosaics, first_fee, remote, redefinition, second_fee, treasury]
    }
}

/// Parameters that vary between networks.
#[derive(Clone, Copy)]
struct Kind {
    target_time: u64,
    rewrite_limit: u64,
    per_block: u64,
    network: NetworkByte,
    stabilize: bool,
}

/// Ten blocks a day: a year is as short as the protocol allows.
const RARE: Kind =
    Kind { target_time: 8_640, rewrite_limit: 10, per_block: 16, network: NetworkByte::TESTNET, stabilize: false };
/// Kinds in which no year passes.
const KINDS: [Kind; 4] = [
    Kind { target_time: 60, rewrite_limit: 360, per_block: 120, network: NetworkByte::MAINNET, stabilize: true },
    Kind { target_time: 1_800, rewrite_limit: 17, per_block: 24, network: NetworkByte::TESTNET, stabilize: false },
    Kind { target_time: 600, rewrite_limit: 40, per_block: 8, network: NetworkByte(0x13), stabilize: true },
    Kind { target_time: 3_600, rewrite_limit: 24, per_block: 40, network: NetworkByte::MIJINNET, stabilize: false },
];

/// Everything that rules depend on besides the state.
#[derive(Clone, Debug)]
pub struct NetworkTerms {
    /// The kind of a network in which no year passes.
    pub kind: Option<usize>,
    pub forks: ForkHeights,
    /// Target time between blocks in seconds.
    pub target_time: u64,
    /// Rewrite limit, which is also the number of blocks until a link takes effect.
    pub rewrite_limit: u64,
    /// Maximum transactions in a block.
    pub per_block: u64,
    pub ignore_fees: bool,
    /// Hours for which hashes are kept; negative means forever.
    pub retention: i64,
    pub stake: bool,
    pub immediate: bool,
    /// Whether late blocks become easier.
    pub stabilize: bool,
    pub network: NetworkByte,
}

impl NetworkTerms {
    /// Draws the terms; every third network waives fees. Of six networks the first two have years, and each of the
    /// others has its own kind, in which rules change earlier.
    pub fn of(number: u64, random: &mut Random) -> NetworkTerms {
        let place = ((number + 3) % 6) as usize;
        let kind = (place < KINDS.len()).then_some(place);
        let Kind { target_time, rewrite_limit, per_block, network, stabilize } = kind.map_or(RARE, |kind| KINDS[kind]);
        let step = if kind.is_some() { 12 } else { 45 };
        // In a random order each time, except that the fee forks keep theirs.
        let mut heights: Vec<u64> =
            (0..6).map(|place| step / 2 + step * place + random.next() % (2 * step / 3)).collect();
        for place in (1..heights.len()).rev() {
            heights.swap(place, random.below(place + 1));
        }
        let treasury = 7 * step + 5 + random.next() % (2 * step / 3);
        let [multisig, mosaics, one, other, remote, redefinition] = heights[..] else { unreachable!("six heights") };
        let forks = ForkHeights {
            multisig,
            mosaics,
            first_fee: one.min(other),
            remote,
            redefinition,
            second_fee: one.max(other),
            treasury,
        };
        NetworkTerms {
            kind,
            forks,
            target_time,
            rewrite_limit,
            per_block,
            ignore_fees: number % 3 == 2,
            retention: if random.below(3) == 0 { -1 } else { 36 },
            // Of the networks with years every other one has proof of importance.
            stake: if kind.is_some() { random.below(4) > 0 } else { number.is_multiple_of(2) },
            immediate: random.below(4) == 0,
            stabilize,
            network,
        }
    }

    pub fn day(&self) -> u64 {
        86_400 / self.target_time
    }

    pub fn month(&self) -> u64 {
        30 * self.day()
    }

    pub fn year(&self) -> u64 {
        365 * self.day()
    }

    /// Returns the number of blocks after which a lease is pruned.
    pub fn lease_retention(&self) -> u64 {
        396 * self.day()
    }

    /// Returns which of the three fee schedules applies at a height.
    pub fn era(&self, height: u64) -> usize {
        usize::from(height >= self.forks.first_fee) + usize::from(height >= self.forks.second_fee)
    }

    /// Returns the time of the block at a height, slightly irregular.
    pub fn time(&self, height: u64) -> i32 {
        let odd = height.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((height - 1) * self.target_time + if height == 1 { 0 } else { odd % (self.target_time / 7) }) as i32
    }

    /// Returns the settings of such a network.
    pub fn settings(&self, preferred: &str, fallback: &str) -> Vec<(&'static str, String)> {
        let importance = if self.stake { "PROOF_OF_STAKE" } else { "PROOF_OF_IMPORTANCE" };
        let vesting = if self.immediate { "WB_IMMEDIATE_VESTING" } else { "WB_TIME_BASED_VESTING" };
        let stabilize = if self.stabilize { "|STABILIZE_BLOCK_TIMES" } else { "" };
        vec![
            ("nis.blockGenerationTargetTime", self.target_time.to_string()),
            ("nis.blockChainRewriteLimit", self.rewrite_limit.to_string()),
            ("nis.maxTransactionsPerBlock", self.per_block.to_string()),
            ("nis.maxTransactions", (self.per_block * self.rewrite_limit).to_string()),
            ("nis.blockChainFeatures", format!("{importance}|{vesting}{stabilize}")),
            ("nis.ignoreFees", self.ignore_fees.to_string()),
            ("nis.transactionHashRetentionTime", self.retention.to_string()),
            ("nis.multisigMOfNForkHeight", self.forks.multisig.to_string()),
            ("nis.mosaicsForkHeight", self.forks.mosaics.to_string()),
            ("nis.firstFeeForkHeight", self.forks.first_fee.to_string()),
            ("nis.remoteAccountForkHeight", self.forks.remote.to_string()),
            ("nis.mosaicRedefinitionForkHeight", self.forks.redefinition.to_string()),
            ("nis.secondFeeForkHeight", self.forks.second_fee.to_string()),
            ("nis.treasuryReissuanceForkHeight", self.forks.treasury.to_string()),
            ("nis.treasuryReissuanceForkTransactionHashes", preferred.to_owned()),
            ("nis.treasuryReissuanceForkFallbackTransactionHashes", fallback.to_owned()),
        ]
    }
}

impl Rule {
    /// Returns whether the rule, broken in this way, can be the error at a height.
    pub fn is_in_force(self, height: u64, terms: &NetworkTerms) -> bool {
        use Rule::*;
        let forks = &terms.forks;
        let (era, is_free) = (terms.era(height), terms.ignore_fees);
        match self {
            T2First => era == 0 && !is_free,
            T2Second => era == 1 && !is_free,
            T2Third => era == 2 && !is_free,
            T2Cosignature => !is_free,
            T2Unknown => height >= forks.mosaics && !is_free,
            T19Unknown => height >= forks.mosaics && is_free,
            T3Mosaics => height < forks.mosaics,
            T3Modification => height < forks.multisig,
            T6Name | T6Quantity | T6Levy => height >= forks.mosaics,
            T10First => height < forks.multisig.min(forks.remote),
            T10Second => height >= forks.multisig && height < forks.remote,
            T10Third => height >= forks.remote,
            T11Mosaic | T11Namespace | T11Multisig | T11Cosignatory => height >= forks.remote,
            T13 => height > forks.treasury && terms.network == NetworkByte::TESTNET,
            B9 => height == forks.treasury,
            // The network agreed on those transactions, whoever signed them.
            BadTransactionSignature | BadCosignatureSignature => height != forks.treasury,
            T16Reserved | T16Sink | T16Unknown | T16Expired | T16Owner | T16Exists | T16EarlyOwner | T16EarlyOther
            | T16RootFee | T16SubFee | T17Expired | T17Missing | T17Owner | T17Same | T17Spread | T17Transferable
            | T17Sink | T17Fee | T17LevyUnknown | T17LevyFixed | T18Unknown | T18Expired | T18Creator
            | T18Immutable | T18Above | T18Below | T19Many | T19Fraction | T19Expired | T19Fixed | T19Levy
            | T20Balance | T20Levy | B11Supply | B11Transfer | B11Namespace => height >= forks.mosaics,
            _ => true,
        }
    }
}
