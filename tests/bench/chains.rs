//! Makes long valid chains for measuring: any number of blocks, accounts and transactions of all kinds.
//!
//! `cargo bench --bench chains -- FOLDER --blocks 60000 --transactions 32 --accounts 240000 --seed 1` writes into the
//! folder `network.properties`, `nemesis.bin`, `blocks.bin` and `summary.json`. The same numbers give the same bytes.
//! `nisd import --config FOLDER/network.properties --data STORE FOLDER/blocks.bin` takes all of it in by all rules.
//!
//! The chain grows on a store of its own in a temporary folder, which TMPDIR names: /dev/shm spares the disk, and takes
//! as much memory as the store is large. Harvesters that own a third of all currency make every block at the first
//! second at which one of them may.

#[path = "../common/mod.rs"]
mod common;
#[path = "chains/mod.rs"]
mod generator;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use generator::{Plan, Progress};

/// Makes a chain from a seed: settings, nemesis block and blocks for `nisd import`.
///
/// All forks are behind it. Namespaces expire: unless --target-time or --plain says otherwise, blocks are so far apart
/// by the settings of the network that a year is about a third of the chain, but 3,650 blocks at least. For importance
/// the payments of a month count, and a day is what may be rolled back, 360 blocks at most. With the 60 seconds of the
/// public network a month is 43,200 blocks, a year 525,600, and recalculations of importances take much longer.
#[derive(Parser)]
#[command(name = "cargo bench --bench chains --")]
struct Arguments {
    /// Where the files go: network.properties, nemesis.bin, blocks.bin, summary.json
    folder: PathBuf,
    /// Height of the last block
    #[arg(long, value_name = "NUMBER")]
    blocks: u64,
    /// Transactions in each block but the first; those nested in multisig transactions come on top
    #[arg(long, value_name = "NUMBER")]
    transactions: usize,
    /// Accounts that are known in the end; an eighth of them begin with the nemesis block
    #[arg(long, value_name = "NUMBER")]
    accounts: usize,
    /// Another seed makes another chain of the same size
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Harvest by proof of stake, not by proof of importance
    #[arg(long)]
    stake: bool,
    /// Only transfers, with short messages and without
    #[arg(long)]
    plain: bool,
    /// Seconds between blocks by the settings of the network, from which the terms of namespaces follow
    #[arg(long, value_name = "SECONDS")]
    target_time: Option<u32>,
    /// Compress the blocks: blocks.bin.gz
    #[arg(long)]
    gzip: bool,
    /// What the bench harness adds
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    // All benchmarks are run at once without arguments.
    if std::env::args().skip(1).all(|argument| argument == "--bench") {
        println!("{}", Arguments::command().render_long_help());
        return ExitCode::SUCCESS;
    }
    let Arguments { folder, blocks, transactions, accounts, seed, stake, plain, target_time, gzip, .. } =
        Arguments::parse();
    let plan = Plan { blocks, transactions, accounts, seed, stake, plain, target_time, gzip };
    let tell = |Progress { height, transactions, rates: [recent, all] }: Progress| {
        eprintln!("height {height}, {transactions} transactions, {recent:.0}/s, {all:.0}/s in all");
    };
    match generator::generate(&plan, &folder, tell) {
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
