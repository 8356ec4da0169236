//! Generates long valid chains for benchmarks: any number of blocks, accounts and transactions of all kinds.
//!
//! `cargo bench --bench measure -- chains FOLDER --blocks 60000 --transactions 32 --accounts 240000 --seed 1` writes
//! `network.properties`, `nemesis.bin`, `blocks.bin` and `summary.json` into the folder. The same arguments give the
//! same bytes. `nisd import --config FOLDER/network.properties --data STORE FOLDER/blocks.bin` imports all of it with
//! full validation.
//!
//! `--mainnet` in place of the three numbers gives the chain the size and the shape of the public network's, and
//! `--mainnet --scale 10` the same shape and a tenth of the size: heights of forks, quiet and busy times, empty and full
//! blocks, exchanges, and hundreds of harvesters of whom some are online. The whole takes more than an hour, 2 GB of
//! memory, 6 GB for the blocks, and 10 GB for the store in the temporary folder.
//!
//! The chain grows on a store of its own in a temporary folder below TMPDIR: /dev/shm spares the disk and needs as much
//! memory as the store is large. Harvesters that own a third of the currency make every block at the first second at
//! which one of them may.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use super::chains::{Plan, Progress, generate};

/// Generates a chain from a seed: settings, nemesis block and blocks for `nisd import`.
///
/// Unless --mainnet is given, all forks are in its past, and namespaces expire: unless --target-time or --plain is given,
/// the target time makes a year about a third of the chain, but at least 3,650 blocks. Importance counts the payments
/// of a month, and the rewrite limit is a day, at most 360 blocks. With the 60 seconds of the public network a month is
/// 43,200 blocks and a year 525,600, and importance recalculations take much longer.
#[derive(Parser)]
#[command(name = "chains")]
struct Arguments {
    /// Output folder for network.properties, nemesis.bin, blocks.bin, summary.json
    folder: PathBuf,
    /// Height of the last block
    #[arg(long, value_name = "NUMBER", required_unless_present = "mainnet")]
    blocks: Option<u64>,
    /// Transactions in each block except the first, not counting those nested in multisig transactions
    #[arg(long, value_name = "NUMBER", required_unless_present = "mainnet")]
    transactions: Option<usize>,
    /// Number of known accounts at the end; the nemesis block funds an eighth of them
    #[arg(long, value_name = "NUMBER", required_unless_present = "mainnet")]
    accounts: Option<usize>,
    /// Size and shape of the public network: 5,600,000 blocks, 20,000,000 transactions, 3,000,000 accounts
    #[arg(long, conflicts_with_all = ["blocks", "transactions", "accounts", "stake", "plain", "target_time"])]
    mainnet: bool,
    /// Divisor of the size of --mainnet
    #[arg(long, value_name = "NUMBER", default_value_t = 1, conflicts_with = "blocks")]
    scale: u64,
    /// Another seed generates another chain of the same size
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Harvest by proof of stake instead of proof of importance
    #[arg(long)]
    stake: bool,
    /// Only transfers, with short messages and without
    #[arg(long)]
    plain: bool,
    /// Target time between blocks in seconds, which also determines the length of namespace leases
    #[arg(long, value_name = "SECONDS")]
    target_time: Option<u32>,
    /// Compress the blocks: blocks.bin.gz
    #[arg(long)]
    gzip: bool,
}

pub fn run(arguments: &[String]) -> ExitCode {
    let name = "chains".to_owned();
    let Arguments { folder, blocks, transactions, accounts, mainnet, scale, seed, stake, plain, target_time, gzip } =
        Arguments::parse_from(std::iter::once(&name).chain(arguments));
    let plan = match (blocks, transactions, accounts) {
        (Some(blocks), Some(transactions), Some(accounts)) if !mainnet => {
            Plan { seed, stake, plain, target_time, gzip, ..Plan::new(blocks, transactions, accounts) }
        }
        _ => Plan { seed, gzip, ..Plan::mainnet(scale) },
    };
    let tell = |Progress { height, transactions, rates: [recent, all] }: Progress| {
        eprintln!("height {height}, {transactions} transactions, {recent:.0}/s, {all:.0}/s in all");
    };
    match generate(&plan, &folder, tell) {
        Ok((files, _)) => {
            println!("nisd import --config {} --data STORE {}", files.config.display(), files.blocks.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
