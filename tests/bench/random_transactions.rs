//! Random signed transactions on small networks, each with the result that the rules require.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use nisd_oracle::{Plan, Statistics, UNREACHABLE, replay};

/// Minimum number of rejections by each rule in a long run.
const GOAL: u64 = 100;

/// Offers random signed blocks and transactions to a node, and compares its results with those the rules require.
///
/// Each network has its own terms: fork heights, proof of stake or of importance, how balances vest, whether fees are
/// waived. Its year has 3,650 blocks, so that namespaces expire and are pruned. At every height where it stops, cases
/// that break one rule are offered; then a valid block advances it. Every rejected part and every accepted block counts
/// as one block. Of six networks four have another target time, rewrite limit, block size and network byte each, and
/// may make late blocks easier; no year passes in them.
///
/// With --write each network has its own folder, and a node repeats all decisions from the files alone:
///
///   node.properties  settings of the network, as NIS1 and nisd read them
///   nemesis.bin      the first block, in verifiable binary form
///   blocks.bin       all blocks after it, as `nisd import` reads them
///   refused.jsonl    a line for each rejected part: `above`, the height of the block that it follows; `tip`, the tip
///                    height at that time, which is higher where a part starts with blocks of the chain; `network`,
///                    network time in seconds; `trusted`, whether it was offered as a trusted checkpoint, without
///                    checks of signatures and proof; `rule`, our name of the error; `verdict`, the name of our result,
///                    or an object with a `text` where NIS1 has none; `blocks`, the bytes that were sent in hex, which
///                    are not always those that a program writes for such blocks
///   undone.jsonl     a line for each valid part that does not stay, or that was undone and offered again: `above`,
///                    `tip`, `network` and `blocks` likewise; `instead`, blocks that followed `above` and were to be
///                    replaced, if they are not those of blocks.bin up to `tip`; `verdict`, SUCCESS, or an object with
///                    a `text` if the part is not better than the present branch; `returned`, hashes of transactions
///                    that were only in replaced blocks; `states`, for each block of an accepted part its changes, as
///                    in states.jsonl
///   states.jsonl     a line for each block that stays, including the first: `height`; `score` of the chain;
///                    `difficulty` of the block; `hashes`, the number of stored hashes; `accounts` and `namespaces`
///                    that have changed since the previous block, with their present values, mosaics with their
///                    definitions and levies; `vested`, the vested balance at this height, and `importances`, each
///                    with the height it was computed for, of all accounts for which that has changed
///   pools.jsonl      a line for each mempool: `above` and `network` likewise; `transactions`, in the order in which
///                    they were offered, each with the `transaction` and the `verdict`
///   announced.jsonl  a line for each unconfirmed transaction that was offered to an empty mempool: `above`, `network`,
///                    `verdict` and `transaction` likewise
#[derive(Parser)]
#[command(name = "random_transactions", verbatim_doc_comment)]
struct Arguments {
    /// Number of cases, counted in blocks
    #[arg(long, value_name = "NUMBER", default_value_t = 2_000)]
    blocks: u64,
    /// Another seed has other cases
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Output folder
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
}

pub fn run(arguments: &[String]) -> ExitCode {
    let name = "random_transactions".to_owned();
    let Arguments { blocks, seed, write } = Arguments::parse_from(std::iter::once(&name).chain(arguments));
    let plan = Plan { folder: write, ..Plan::new(blocks, seed) };
    let figures = nisd_oracle::run(&plan, |figures: &Statistics| {
        let rate = figures.offered as f64 / figures.elapsed.as_secs_f64();
        eprintln!("{} networks, {} blocks' worth, {rate:.0}/s", figures.networks, figures.offered);
    });
    println!("{figures}");
    for (rule, why) in UNREACHABLE {
        println!("cannot be reached: {rule}: {why}");
    }
    let scarce = figures.rare_rules(GOAL);
    println!("{} rules were the reason of fewer than {GOAL} refusals", scarce.len());
    scarce.iter().for_each(|rule| println!("    {rule}"));
    let classes = figures.rare_classes(20);
    println!("{} kinds of cases came to pass fewer than 20 times", classes.len());
    classes.iter().for_each(|class| println!("    {class}"));
    figures.differences.iter().for_each(|difference| println!("DIFFERENCE: {difference}"));
    for network in plan.folder.iter().flat_map(|folder| std::fs::read_dir(folder).expect("a folder")) {
        let folder = network.expect("a folder").path();
        match replay(&folder) {
            Ok(judged) => println!("judged once more: {}: {judged:?}", folder.display()),
            Err(text) => {
                println!("DIFFERENCE: {}: {text}", folder.display());
                return ExitCode::FAILURE;
            }
        }
    }
    if figures.differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
