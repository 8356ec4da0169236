//! Parameters of a generated chain.

use std::ops::Range;

use nisd::model::Height;

use super::people::HARVESTERS;
use crate::common::Random;

/// Maximum number of accounts that the nemesis block can fund without exceeding the maximum block size of a file.
const MAX_FUNDED: usize = 60_000;
/// Maximum transactions in a block.
const MAX_TRANSACTIONS: usize = 10_000;
/// Minimum number of accounts.
const MIN_ACCOUNTS: usize = 64;
/// Number of years in a chain, if the target time can be chosen accordingly.
const YEARS: u64 = 3;
const SECONDS_PER_DAY: u64 = 86_400;
/// Minimum number of blocks per day that a node accepts.
const MIN_BLOCKS_PER_DAY: u64 = 10;
/// Rewrite limit of the public network.
const PUBLIC_REWRITE_LIMIT: u64 = 360;
/// Target time of the public network in seconds.
const PUBLIC_TARGET_TIME: u32 = 60;
/// Maximum transactions in a block of the public network, including nested ones.
const PUBLIC_BLOCK_LIMIT: usize = 120;
/// Blocks, transactions and accounts of the public network.
const PUBLIC_BLOCKS: u64 = 5_600_000;
const PUBLIC_TRANSACTIONS: u64 = 20_000_000;
const PUBLIC_ACCOUNTS: u64 = 3_000_000;
/// Accounts besides harvesters and exchanges that begin with a stake, and their least number.
const PUBLIC_STAKES: u64 = 20_000;
const MIN_STAKES: u64 = 200;
/// Harvesters, each of which delegates its importance.
const PUBLIC_HARVESTERS: usize = 300;
/// Exchanges, which pay and are paid most.
pub const EXCHANGES: usize = 12;
/// Maximum divisor of the public network's size.
const MAX_SCALE: u64 = 3_000;
/// Transactions in each fiftieth of the chain of the public network, in relation to each other.
const WAVES: [u64; 50] = [
    2, 3, 4, 5, 6, 7, 7, 8, 8, 10, 20, 45, 75, 100, 85, 60, 45, 35, 30, 28, 26, 24, 22, 20, 18, 20, 26, 35, 48, 55, 45,
    34, 26, 22, 18, 16, 14, 13, 16, 22, 28, 24, 18, 14, 12, 11, 10, 10, 9, 9,
];
/// Average transactions of a block above which more than half of the blocks have some.
const HALF_EMPTY: f64 = 4.0;
/// Exponent of the Pareto distribution of the number of transactions in a block that is not empty.
const TAIL: f64 = 1.1;

/// The chain to generate.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Height of the last block.
    pub blocks: u64,
    /// Transactions in every block except the first, not counting nested ones; their maximum if there is a `scale`.
    pub transactions: usize,
    /// Number of known accounts at the end, not counting fee sinks.
    pub accounts: usize,
    /// The divisor of the public network's size, if the chain has the shape of that network's.
    pub scale: Option<u64>,
    /// The seed of all random choices.
    pub seed: u64,
    /// Whether blocks are harvested by proof of stake.
    pub stake: bool,
    /// Whether there are only transfers.
    pub plain: bool,
    /// Target time between blocks in seconds, if it is given.
    pub target_time: Option<u32>,
    /// Whether the file of blocks is compressed.
    pub gzip: bool,
    /// Whether the last block is empty.
    pub ends_empty: bool,
}

impl Plan {
    /// Returns the plan of a chain of all kinds of transactions by proof of importance.
    pub fn new(blocks: u64, transactions: usize, accounts: usize) -> Plan {
        let (stake, plain, gzip, ends_empty) = (false, false, false, false);
        let (scale, target_time) = (None, None);
        Plan { blocks, transactions, accounts, scale, seed: 1, stake, plain, target_time, gzip, ends_empty }
    }

    /// Returns the plan of a chain of the public network's shape, its size divided by `scale`.
    pub fn mainnet(scale: u64) -> Plan {
        let [blocks, accounts] = [PUBLIC_BLOCKS, PUBLIC_ACCOUNTS].map(|number| number / scale.max(1));
        let target_time = Some(PUBLIC_TARGET_TIME);
        Plan { scale: Some(scale), target_time, ..Plan::new(blocks, PUBLIC_BLOCK_LIMIT, accounts as usize) }
    }

    /// Checks that such a chain can be generated; the error gives the reason.
    pub fn check(&self) -> Result<(), String> {
        let Plan { blocks, transactions, accounts, scale, .. } = *self;
        if scale.is_some_and(|scale| !(1..=MAX_SCALE).contains(&scale)) {
            return Err(format!("--scale: a number from 1 to {MAX_SCALE}"));
        }
        if blocks < 2 {
            return Err("--blocks: the nemesis block is the first; ask for 2 or more".to_owned());
        }
        if transactions > MAX_TRANSACTIONS {
            return Err(format!("--transactions: a block holds at most {MAX_TRANSACTIONS}"));
        }
        if accounts < self.min_accounts() {
            let fewest = self.min_accounts();
            return Err(format!("--accounts: blocks of {transactions} transactions need at least {fewest} accounts"));
        }
        if self.wanted_funded() > MAX_FUNDED {
            return Err(format!(
                "--accounts: the nemesis block pays {MAX_FUNDED} at most, and of other accounts one is first seen in \
                 four transactions; ask for fewer accounts, or more blocks or transactions"
            ));
        }
        let longest = (SECONDS_PER_DAY / MIN_BLOCKS_PER_DAY) as u32;
        if self.target_time.is_some_and(|seconds| !(1..=longest).contains(&seconds)) {
            return Err(format!("--target-time: a number of seconds from 1 to {longest}"));
        }
        Ok(())
    }

    /// Returns the number of accounts with which no account has to sign twice in a block.
    fn min_accounts(&self) -> usize {
        MIN_ACCOUNTS.max(8 * self.transactions)
    }

    /// Returns the number of accounts that the nemesis block funds.
    pub fn funded(&self) -> usize {
        self.wanted_funded().min(MAX_FUNDED)
    }

    fn wanted_funded(&self) -> usize {
        if let Some(scale) = self.scale {
            return self.harvesters() + EXCHANGES + (PUBLIC_STAKES / scale).max(MIN_STAKES) as usize;
        }
        let later = (self.blocks - 1) as usize * self.transactions / 4;
        let usual = (self.accounts / 8).min(MAX_FUNDED);
        let enough = MIN_ACCOUNTS.max(8 * self.transactions).min(self.accounts - self.remotes());
        usual.max(enough).max((self.accounts - self.remotes()).saturating_sub(later)).max(HARVESTERS + 1)
    }

    /// Returns the number of harvesters.
    pub fn harvesters(&self) -> usize {
        self.scale.map_or(HARVESTERS, |_| (self.accounts / 100).min(PUBLIC_HARVESTERS))
    }

    /// Returns the harvesters that delegate their importance to the first remote accounts.
    pub fn delegating(&self) -> Range<usize> {
        let first = self.scale.map_or(HARVESTERS - 1, |_| 0);
        if self.plain { 0..0 } else { first..self.harvesters() }
    }

    /// Returns the number of accounts that only harvest for others.
    pub fn remotes(&self) -> usize {
        match self.scale {
            _ if self.plain => 0,
            None => (self.accounts / 100).clamp(4, 500),
            Some(_) => self.harvesters() + self.accounts / 1_000,
        }
    }

    /// Returns the maximum number of multisig accounts.
    pub fn max_groups(&self) -> usize {
        self.scale.map_or(self.accounts.div_ceil(40), |_| (self.accounts / 600).max(20))
    }

    /// Returns the number of transactions in the whole chain; with a `scale` it is approximate.
    pub fn all_transactions(&self) -> u64 {
        self.scale.map_or((self.blocks - 1) * self.transactions as u64, |scale| PUBLIC_TRANSACTIONS / scale)
    }

    /// Returns how many transactions a block should have if the blocks before it have `made`.
    pub fn transactions_at(&self, height: Height, made: u64, random: &mut Random) -> usize {
        if self.scale.is_none() {
            return self.transactions;
        }
        let parts = WAVES.len() as u64;
        let part = (height.0 - 1) * parts / self.blocks;
        let end = (part + 1) * self.blocks / parts;
        let wave = WAVES[..=part as usize].iter().sum::<u64>();
        let planned = self.all_transactions() * wave / WAVES.iter().sum::<u64>();
        let average = planned.saturating_sub(made) as f64 / (end + 1).saturating_sub(height.0).max(1) as f64;
        if unit(random) * (average + HALF_EMPTY) >= average {
            return 0;
        }
        pareto(average + HALF_EMPTY, self.transactions, unit(random))
    }

    /// Returns the target time between blocks in seconds. It determines the length of leases: by default a year is
    /// about a third of the chain, so that leases expire, except for plain chains, which resemble the public network's.
    pub fn target_time(&self) -> u32 {
        let per_day = (self.blocks / YEARS / 365).max(MIN_BLOCKS_PER_DAY);
        let short_years = (SECONDS_PER_DAY / per_day).max(u64::from(PUBLIC_TARGET_TIME)) as u32;
        self.target_time.unwrap_or(if self.plain { PUBLIC_TARGET_TIME } else { short_years })
    }

    /// Returns the rewrite limit: at most the blocks of a day.
    pub fn rewrite_limit(&self) -> u64 {
        PUBLIC_REWRITE_LIMIT.min(SECONDS_PER_DAY / u64::from(self.target_time()))
    }

    /// Returns the maximum number of transactions in a synchronisation attempt.
    pub fn attempt_limit(&self) -> u64 {
        self.block_limit().max(10_000).min(self.block_limit() * self.rewrite_limit())
    }

    /// Returns the maximum number of transactions in a block, including nested ones.
    pub fn block_limit(&self) -> u64 {
        self.scale.map_or((2 * self.transactions as u64).max(120), |_| self.transactions as u64)
    }

    /// Returns how many transactions of a block are made even if many others are nested.
    pub fn reserved(&self) -> u64 {
        self.scale.map_or(self.transactions as u64, |_| 0)
    }
}

/// Returns a number from 0 to 1.
pub fn unit(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns a number from 1 to `most` by Pareto's law with this average, if most numbers are much smaller than `most`;
/// `place` is a random number from 0 to 1.
fn pareto(average: f64, most: usize, place: f64) -> usize {
    let most = most as f64;
    // The average of the distribution cut at `most` is (TAIL · least − least^TAIL · most^(1 − TAIL)) / (TAIL − 1).
    let cut = most.powf(1.0 - TAIL);
    let least = (0..8).fold(1.0f64, |least, _| ((TAIL - 1.0) * average + cut * least.powf(TAIL)) / TAIL);
    (least * (1.0 - place).powf(-1.0 / TAIL)).round().clamp(1.0, most) as usize
}
