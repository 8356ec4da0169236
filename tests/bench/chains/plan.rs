//! Parameters of a generated chain.

use super::people::HARVESTERS;

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

/// The chain to generate.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Height of the last block.
    pub blocks: u64,
    /// Transactions in every block except the first, not counting nested ones.
    pub transactions: usize,
    /// Number of known accounts at the end, not counting fee sinks.
    pub accounts: usize,
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
        Plan { blocks, transactions, accounts, seed: 1, stake, plain, target_time: None, gzip, ends_empty }
    }

    /// Checks that such a chain can be generated; the error gives the reason.
    pub fn check(&self) -> Result<(), String> {
        let Plan { blocks, transactions, accounts, .. } = *self;
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
        let later = (self.blocks - 1) as usize * self.transactions / 4;
        let usual = (self.accounts / 8).min(MAX_FUNDED);
        let enough = MIN_ACCOUNTS.max(8 * self.transactions).min(self.accounts - self.remotes());
        usual.max(enough).max((self.accounts - self.remotes()).saturating_sub(later)).max(HARVESTERS + 1)
    }

    /// Returns the number of accounts that only harvest for others.
    pub fn remotes(&self) -> usize {
        if self.plain { 0 } else { (self.accounts / 100).clamp(4, 500) }
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
        (2 * self.transactions as u64).max(120)
    }
}
