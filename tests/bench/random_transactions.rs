//! Random signed transactions over small networks, each with the verdict that the rules must give.

#[path = "../common/mod.rs"]
mod common;
#[path = "random/mod.rs"]
mod generator;
#[path = "../common/invariants.rs"]
mod invariants;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use generator::{Figures, Plan, UNREACHABLE, replay, run};

/// Refusals by each rule of which a long run has at least so many.
const GOAL: u64 = 100;

/// Offers random signed blocks and transactions to a node, and compares what it says with what the rules demand.
///
/// Each network has terms of its own: heights at which rules change, proof of stake or of importance, how balances
/// vest, whether fees are waived. A year of it has 3,650 blocks, so that namespaces expire and are forgotten. At
/// every height where it stops, cases that break one rule are offered; then a valid block takes it on. Every refused
/// part and every accepted block counts as one block's worth. Of six networks four have another target time, rewrite
/// limit, block size and network byte each, and late blocks may be easier in them; no year passes there.
///
/// With --write each network has a folder of its own, and a node judges once more by the files alone:
///
///   node.properties  settings of the network, as NIS1 and nisd read them
///   nemesis.bin      the first block, in verifiable binary form
///   blocks.bin       all blocks after it, as `nisd import` reads them
///   refused.jsonl    a line for each part that was refused: `above`, the height of the block that it follows; `tip`,
///                    that of the last block then, which is higher where a part begins with blocks of the chain;
///                    `network`, network time in seconds; `trusted`, whether a user vouched for it, so that neither
///                    signatures nor the proof were looked at; `rule`, what is wrong in our words; `verdict`, the name
///                    of our result, or an object with a `text` for what NIS1 has none; `blocks`, the bytes that were
///                    sent in hex, which are not always those in which a program writes such blocks
///   undone.jsonl     a line for each part that was valid but does not stay, or was gone back over and returns: `above`,
///                    `tip`, `network` and `blocks` likewise; `instead`, blocks that followed `above` then and were to be
///                    replaced, if not those of blocks.bin up to `tip`; `verdict`, SUCCESS, or an object with a `text`
///                    if the part is not better than what is there; `returned`, hashes of transactions that were in
///                    replaced blocks only; `states`, for each block of a part that was taken in what it changed, as in
///                    states.jsonl
///   states.jsonl     a line for each block that stays, the first included: `height`; `score` of the chain;
///                    `difficulty` of the block; `hashes`, how many are remembered; `accounts` and `namespaces`, those
///                    that have changed since the block before, as they are now, mosaics with their definitions and
///                    levies; `vested`, what counts of a balance at this height, and `importances`, each with the height
///                    for which it was computed, of all accounts for which that has changed
///   pools.jsonl      a line for each pool: `above` and `network` likewise; `transactions`, in the order in which they were
///                    offered, each with the `transaction` and the `verdict`
///   announced.jsonl  a line for each unconfirmed transaction that was offered to an empty pool: `above`, `network`,
///                    `verdict` and `transaction` likewise
#[derive(Parser)]
#[command(name = "cargo bench --bench random_transactions --", verbatim_doc_comment)]
struct Arguments {
    /// Blocks' worth of cases
    #[arg(long, value_name = "NUMBER", default_value_t = 2_000)]
    blocks: u64,
    /// Another seed has other cases
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Where everything is written
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// What the bench harness adds
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let Arguments { blocks, seed, write, .. } = Arguments::parse();
    let plan = Plan { folder: write, ..Plan::new(blocks, seed) };
    let figures = run(&plan, |figures: &Figures| {
        let rate = figures.offered as f64 / figures.elapsed.as_secs_f64();
        eprintln!("{} networks, {} blocks' worth, {rate:.0}/s", figures.worlds, figures.offered);
    });
    println!("{figures}");
    for (rule, why) in UNREACHABLE {
        println!("cannot be reached: {rule}: {why}");
    }
    let scarce = figures.below(GOAL);
    println!("{} rules were the reason of fewer than {GOAL} refusals", scarce.len());
    scarce.iter().for_each(|rule| println!("    {rule}"));
    let classes = figures.scarce(20);
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
