//! Duration of a proof-of-importance calculation, of its slices, and its memory use.
//!
//! Calculates over synthetic graphs whose degrees follow a power law. Half of the movements go to nearby accounts, so
//! that there are clusters; in the last graph one account has movements with every other. Each calculation runs several
//! times. A slice does the same work every time, so its shortest time is its own and the excess is due to other
//! processes. Arguments name the graphs, if not all.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::support::{Memory, in_millis, print_machine, seconds};
use crate::common::Random;
use nisd::crypto::PublicKey;
use nisd::importance::{Calculation, CalculationParameters, Importances};
use nisd::model::{Address, Amount, Height, NetworkByte};
use nisd::state::{AccountId, Outlink};

/// Units of work in a slice, about 0.1 ms in most phases and half a millisecond in the most expensive one.
const BUDGET: u32 = 20_000;
const RUNS: usize = 5;
const HEIGHT: Height = Height(359 * 200);
const BLOCKS_PER_DAY: u64 = 1440;

/// Name, number of eligible accounts, number of movements, and whether one account has movements with all others.
const GRAPHS: &[(&str, usize, usize, bool)] = &[
    ("small", 10_000, 200_000, false),
    ("mainnet", 40_000, 155_000, false),
    ("large", 100_000, 1_000_000, false),
    ("large-with-hub", 100_000, 1_000_000, true),
];

pub fn run(names: &[String]) -> ExitCode {
    print_machine();
    let is_named = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    for (name, accounts, links, hub) in GRAPHS.iter().filter(|graph| is_named(graph.0)) {
        let graph = Graph::new(*accounts);
        let runs: Vec<_> = (0..RUNS).map(|_| calculate(&graph, *links, *hub)).collect();
        println!("{name}: {accounts} accounts, {links} movements, slices of {BUDGET} units");
        let least = |slice: usize| runs.iter().map(|run| run.0[slice]).fold(f64::MAX, f64::min);
        for (what, mut slices) in [
            ("least of every slice", (0..runs[0].0.len()).map(least).collect::<Vec<_>>()),
            ("the first run", runs[0].0.clone()),
        ] {
            let total = slices.iter().sum::<f64>() * 1e3;
            println!("  {what}: {} slices, {total:.0} ms, {}", slices.len(), in_millis(&mut slices));
        }
        println!("  {}", runs[0].1);
    }
    ExitCode::SUCCESS
}

/// Runs one calculation; returns the seconds of its slices, the last of which is the retrieval of the results, and the
/// other measurements.
fn calculate(graph: &Graph, links: usize, hub: bool) -> (Vec<f64>, String) {
    // Forgets the peak so far.
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux");
    let memory = || Memory::of(std::process::id());
    let before = memory().all;
    let (mut calculation, feeding, longest_call) = feed(graph, links, hub);
    let (mut slices, mut is_unfinished) = (Vec::new(), true);
    while is_unfinished {
        slices.push(seconds(|| is_unfinished = calculation.step(BUDGET).expect("importances")));
    }
    let mut results = None;
    slices.push(seconds(|| results = Some(calculation.into_results())));
    let (results, bytes) = (results.expect("results"), (memory().peak - before) * 1024.0);
    let summary = format!(
        "feeding {:.0} ms, longest call {:.3} ms; {:.1} MB at the peak, {:.0} bytes a movement; {} iterations, {}",
        feeding.as_secs_f64() * 1e3,
        longest_call.as_secs_f64() * 1e3,
        bytes / 1e6,
        bytes / links as f64,
        results.iterations,
        checksum(&results)
    );
    (slices, summary)
}

/// Returns the calculation with its input, the time that feeding it took, and the longest single call.
fn feed(graph: &Graph, links: usize, hub: bool) -> (Calculation, Duration, Duration) {
    let mut random = Random(1);
    let (mut total, mut longest) = (Duration::ZERO, Duration::ZERO);
    let mut timed = |call: &mut dyn FnMut()| {
        let begun = Instant::now();
        call();
        let took = begun.elapsed();
        (total, longest) = (total + took, longest.max(took));
    };
    let known = graph.eligible.len() as u64;
    let account_ids = (graph.eligible.len() + graph.ineligible.len()) as u32;
    let settings = CalculationParameters { account_ids, ..CalculationParameters::new(HEIGHT, BLOCKS_PER_DAY, known) };
    let mut calculation = Calculation::new(settings);
    for (number, address) in (0..).zip(&graph.eligible) {
        let vested = Amount::whole(10_000 + random.below(1_000_000) as u64);
        timed(&mut || calculation.add_account(number, *address, vested, Height(1 + u64::from(number) % 70_000)));
    }
    for link in 0..links {
        let height = Height(HEIGHT.0 - 30 * BLOCKS_PER_DAY * (links - link) as u64 / links as u64);
        let weight = (1_000 + random.below(100_000) as u64) * 1_000_000;
        let (sender, recipient) = if hub && link < graph.eligible.len() { (0, link) } else { graph.pair(&mut random) };
        if sender != recipient {
            let recipient_hash = graph.address(recipient).java_hash();
            let (sender, recipient) = (AccountId(sender as u32), AccountId(recipient as u32));
            let outlink = Outlink { sender, recipient, weight, recipient_hash };
            timed(&mut || calculation.add_outlinks(height, [outlink]));
        }
    }
    (calculation, total, longest)
}

/// Addresses of a graph.
struct Graph {
    /// Eligible accounts, in ascending order.
    eligible: Vec<Address>,
    /// Half as many accounts that are not eligible.
    ineligible: Vec<Address>,
}

impl Graph {
    fn new(accounts: usize) -> Graph {
        let address = |number: usize| {
            let mut key = [7; 32];
            key[..8].copy_from_slice(&(number as u64).to_le_bytes());
            Address::from_public_key(&PublicKey(key), NetworkByte::TESTNET)
        };
        let mut eligible: Vec<_> = (0..accounts).map(address).collect();
        eligible.sort();
        Graph { eligible, ineligible: (accounts..accounts * 3 / 2).map(address).collect() }
    }

    /// Returns the address of a number; eligible accounts come first.
    fn address(&self, number: usize) -> Address {
        let other = || self.ineligible[number - self.eligible.len()];
        self.eligible.get(number).copied().unwrap_or_else(other)
    }

    /// Returns the sender and the recipient of a movement.
    fn pair(&self, random: &mut Random) -> (usize, usize) {
        let sender = skewed(random, self.eligible.len());
        let recipient = match random.below(10) {
            0 => return (sender, self.eligible.len() + skewed(random, self.ineligible.len())),
            1..=5 => (sender + 1 + random.below(12)) % self.eligible.len(),
            _ => skewed(random, self.eligible.len()),
        };
        (sender, recipient)
    }
}

/// Returns a number below `end`, small ones far more often.
fn skewed(random: &mut Random, end: usize) -> usize {
    let even = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
    (end as f64 * even * even * even) as usize
}

/// Returns a checksum of all bits of the results.
fn checksum(results: &Importances) -> String {
    let mix = |sum: u64, bits: u64| (sum ^ bits).wrapping_mul(0x0000_0100_0000_01b3);
    let bits = results.accounts.iter().map(|account| account.importance.to_bits());
    format!("checksum {:016x}", bits.fold(0xcbf2_9ce4_8422_2325, mix))
}
