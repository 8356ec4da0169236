//! What is to be made.

use super::people::HARVESTERS;

/// Most accounts that the nemesis block can pay without being larger than a block of a file may be.
const MOST_FUNDED: usize = 60_000;
/// Most transactions in a block.
const MOST_TRANSACTIONS: usize = 10_000;
/// Fewest accounts.
const FEWEST_ACCOUNTS: usize = 64;
/// A chain has so many years, if only its target time makes them short enough.
const YEARS: u64 = 3;
const SECONDS_PER_DAY: u64 = 86_400;
/// Fewest blocks in a day that a node takes.
const FEWEST_BLOCKS_PER_DAY: u64 = 10;
/// Blocks that the public network may roll back.
const USUAL_REWRITE_LIMIT: u64 = 360;
/// Seconds between blocks of the public network.
const USUAL_TARGET_TIME: u32 = 60;

/// Which chain is to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Height of the last block.
    pub blocks: u64,
    /// Transactions in every block but the first, those nested in others not counted.
    pub transactions: usize,
    /// Accounts that are known in the end, fee sinks aside.
    pub accounts: usize,
    /// What everything follows from.
    pub seed: u64,
    /// Whether blocks are harvested by proof of stake.
    pub stake: bool,
    /// Whether there are only transfers.
    pub plain: bool,
    /// Seconds between blocks that the difficulty aims at, if they are given.
    pub target_time: Option<u32>,
    /// Whether the file of blocks is compressed.
    pub gzip: bool,
}

impl Plan {
    /// Whether such a chain can be made; why not.
    pub fn check(&self) -> Result<(), String> {
        let Plan { blocks, transactions, accounts, .. } = *self;
        if blocks < 2 {
            return Err("--blocks: the nemesis block is the first; ask for 2 or more".to_owned());
        }
        if transactions > MOST_TRANSACTIONS {
            return Err(format!("--transactions: a block holds at most {MOST_TRANSACTIONS}"));
        }
        if accounts < self.fewest_accounts() {
            let fewest = self.fewest_accounts();
            return Err(format!("--accounts: blocks of {transactions} transactions need at least {fewest} accounts"));
        }
        if self.wanted_funded() > MOST_FUNDED {
            return Err(format!(
                "--accounts: the nemesis block pays {MOST_FUNDED} at most, and of other accounts one is first seen in \
                 four transactions; ask for fewer accounts, or more blocks or transactions"
            ));
        }
        let longest = (SECONDS_PER_DAY / FEWEST_BLOCKS_PER_DAY) as u32;
        if self.target_time.is_some_and(|seconds| !(1..=longest).contains(&seconds)) {
            return Err(format!("--target-time: a number of seconds from 1 to {longest}"));
        }
        Ok(())
    }

    /// So many that nobody has to sign twice in a block.
    fn fewest_accounts(&self) -> usize {
        FEWEST_ACCOUNTS.max(8 * self.transactions)
    }

    /// Accounts that the nemesis block pays.
    pub fn funded(&self) -> usize {
        self.wanted_funded().min(MOST_FUNDED)
    }

    fn wanted_funded(&self) -> usize {
        let later = (self.blocks - 1) as usize * self.transactions / 4;
        let usual = (self.accounts / 8).min(MOST_FUNDED);
        let enough = FEWEST_ACCOUNTS.max(8 * self.transactions).min(self.accounts - self.remotes());
        usual.max(enough).max((self.accounts - self.remotes()).saturating_sub(later)).max(HARVESTERS + 1)
    }

    /// Accounts that do nothing but harvest for others.
    pub fn remotes(&self) -> usize {
        if self.plain { 0 } else { (self.accounts / 100).clamp(4, 500) }
    }

    /// Seconds between blocks that the difficulty aims at. The terms of namespaces follow from it: by default a year is
    /// about a third of the chain, so that leases run out, but for plain chains, which are like the public network's.
    pub fn target_time(&self) -> u32 {
        let per_day = (self.blocks / YEARS / 365).max(FEWEST_BLOCKS_PER_DAY);
        let short_years = (SECONDS_PER_DAY / per_day).max(u64::from(USUAL_TARGET_TIME)) as u32;
        self.target_time.unwrap_or(if self.plain { USUAL_TARGET_TIME } else { short_years })
    }

    /// Blocks that may be rolled back: those of a day at most.
    pub fn rewrite_limit(&self) -> u64 {
        USUAL_REWRITE_LIMIT.min(SECONDS_PER_DAY / u64::from(self.target_time()))
    }

    /// Most transactions in a synchronisation attempt.
    pub fn attempt_limit(&self) -> u64 {
        self.block_limit().max(10_000).min(self.block_limit() * self.rewrite_limit())
    }

    /// Most transactions in a block, those nested in others included.
    pub fn block_limit(&self) -> u64 {
        (2 * self.transactions as u64).max(120)
    }
}
