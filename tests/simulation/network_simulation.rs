//! Networks of whole nodes in virtual time. One seed determines everything: the members, latency and loss of messages,
//! partitions, restarts, slow machines, wrong clocks, and byzantine peers. Invariants are checked throughout.
//!
//! `NISD_SEED=…` repeats one network exactly, with `NISD_LOG=1` printing the logs of its nodes; `NISD_SEEDS=…` sets the
//! number of networks.

mod bad_requests;
mod byzantine_peer;
pub mod environment;
mod event_books;
mod event_client;
mod fault;
mod impersonation;
mod invariants;
mod member;
mod network;
mod node_log;
mod payments;
mod plan;
mod run;
mod wallet_audit;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{from_environment, print_notice};
use event_client::ClientCounts;
use fault::{Fault, Tally};
use invariants::PeakUsage;
use run::{
    Outcome, ProgressReport, simulate, simulate_books, simulate_one_left, simulate_partition, simulate_progress,
    simulate_restarts,
};

/// Default number of seeds.
const SEEDS: u64 = 1_000;
/// Default number of seeds of networks with books.
const BOOKS_SEEDS: u64 = 32;
/// Default number of seeds of networks beside peers that claim a chain far ahead, the numbers of these peers, and how
/// long one and a group of them may delay blocks.
const PROGRESS_SEEDS: u64 = 8;
const GROUPS: [usize; 3] = [1, 3, 12];
const MAX_DELAY: Duration = Duration::from_secs(5);
const MAX_GROUP_DELAY: Duration = Duration::from_secs(30);
/// Maximum time from when another member has a longer chain until a member with a fork has it too, without byzantine
/// peers: it draws a member to pull from every three seconds, and may draw one with its own fork.
const MAX_FORK: Duration = Duration::from_secs(6);
/// The same for a member without a fork: it may draw one that lacks the block as well, twice in seed 1,235.
const MAX_PULL: Duration = Duration::from_secs(6);
/// Number of failed seeds after which the run stops.
const MAX_FAILED: usize = 5;

/// Results of many seeds.
#[derive(Default)]
struct Results {
    tally: Tally,
    convergence: Vec<(Duration, u64)>,
    virtual_time: Duration,
    wasted_time: Duration,
    peak_usage: PeakUsage,
    blocks: u64,
    failed: Vec<u64>,
}

impl Results {
    fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.tally.merge(&outcome.tally);
        self.convergence.extend(outcome.convergence.map(|took| (took, seed)));
        self.virtual_time += outcome.virtual_time;
        self.wasted_time += outcome.wasted_time;
        self.peak_usage.merge(&outcome.peak_usage);
        self.blocks += outcome.blocks;
    }

    fn report(&mut self, took: Duration) {
        self.convergence.sort_unstable();
        let shown = |part: f64| {
            let place = (part * self.convergence.len() as f64) as usize;
            let found = self.convergence.get(place).or(self.convergence.last());
            found.map_or("none".to_owned(), |(took, seed)| format!("{:.0} s (seed {seed})", took.as_secs_f64()))
        };
        let hours = |time: Duration| time.as_secs_f64() / 3_600.0;
        print_notice(&format!(
            "{}{}  {} networks in {:.0} s: {:.1} hours of virtual time, {:.1} hours of waiting for byzantine peers, {} \
             blocks\n  time to one chain after all faults: median {}, 99 % {}, maximum {}",
            self.tally.table(),
            self.peak_usage.table(),
            self.convergence.len(),
            took.as_secs_f64(),
            hours(self.virtual_time),
            hours(self.wasted_time),
            self.blocks,
            shown(0.5),
            shown(0.99),
            shown(1.0)
        ));
    }
}

/// Simulates networks on all processors.
fn simulate_all(first: u64, count: u64) -> Results {
    let results = Mutex::new(Results::default());
    let begun = Instant::now();
    let failed = on_all_processors(first, count, "NISD_SEED", |seed| {
        let outcome = simulate(seed);
        results.lock().expect("results").add(seed, &outcome);
    });
    let mut results = results.into_inner().expect("results");
    results.failed = failed;
    results.report(begun.elapsed());
    results
}

/// Runs a test for `count` seeds on all processors. Returns those that failed; `variable` repeats one.
fn on_all_processors(first: u64, count: u64, variable: &str, test: impl Fn(u64) + Sync) -> Vec<u64> {
    let (next, failed) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count || failed.lock().expect("seeds").len() >= MAX_FAILED {
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| test(seed))).is_err() {
                print_notice(&format!("FAILED: run again with {variable}={seed}"));
                failed.lock().expect("seeds").push(seed);
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    failed.into_inner().expect("seeds")
}

#[test]
#[ignore = "slow: a long simulation"]
fn networks_converge_despite_all_faults() {
    if let Some(seed) = from_environment("NISD_SEED") {
        node_log::open();
        let outcome = simulate(seed);
        print_notice(&outcome.tally.table());
        print_notice(&format!("one chain again after {:?}", outcome.convergence));
        return;
    }
    let first = from_environment("NISD_FIRST_SEED").unwrap_or(1);
    let count = from_environment("NISD_SEEDS").unwrap_or(SEEDS);
    let results = simulate_all(first, count);
    assert!(results.failed.is_empty(), "seeds that failed: {:?}", results.failed);
    let is_missing = |fault: &&Fault| results.tally.count(**fault) == 0;
    let missing: Vec<_> = Fault::ALL.iter().filter(is_missing).collect();
    assert!(count < SEEDS || missing.is_empty(), "{missing:?} never happened");
    // A lie may go unpenalized because the chain may change at that moment.
    let is_excused = |fault: &&Fault| {
        let (received, penalized) = results.tally.penalized(**fault);
        !fault.is_penalized() || penalized * 10 >= received * 8
    };
    let unpunished: Vec<_> = Fault::ALL.iter().filter(|fault| !is_excused(fault)).collect();
    assert!(unpunished.is_empty(), "{unpunished:?} are not penalized");
}

/// `NISD_BOOKS_SEED=…` repeats one network exactly, with `NISD_LOG=1` printing the logs of its nodes and what its clients
/// read; `NISD_BOOKS_SEEDS=…` sets the number of networks, and `NISD_BOOKS_FIRST_SEED=…` the first of them.
#[test]
#[ignore = "slow: a long simulation"]
fn clients_that_read_only_the_events_keep_books_that_are_always_right() {
    if let Some(seed) = from_environment("NISD_BOOKS_SEED") {
        node_log::open();
        print_notice(&format!("{:#?}", simulate_books(seed)));
        return;
    }
    let first = from_environment("NISD_BOOKS_FIRST_SEED").unwrap_or(1);
    let count = from_environment("NISD_BOOKS_SEEDS").unwrap_or(BOOKS_SEEDS);
    let (counts, begun) = (Mutex::new(ClientCounts::default()), Instant::now());
    let failed = on_all_processors(first, count, "NISD_BOOKS_SEED", |seed| {
        let of_all = simulate_books(seed);
        of_all.iter().for_each(|of_one| counts.lock().expect("counts").merge(of_one));
    });
    let counts = counts.into_inner().expect("counts");
    print_notice(&format!("  {count} networks in {:.0} s: {counts:?}", begun.elapsed().as_secs_f64()));
    assert!(failed.is_empty(), "seeds that failed: {failed:?}");
    let ClientCounts { rollbacks, final_blocks, unconfirmed, killed, .. } = counts;
    let happened = [rollbacks.listed, rollbacks.unknown, rollbacks.undone, final_blocks, killed, unconfirmed[0]];
    assert!(count < BOOKS_SEEDS || happened.iter().all(|times| *times >= count), "too little has happened");
    assert!(count < BOOKS_SEEDS || rollbacks.deepest >= 10 && unconfirmed[1] > 0, "too little has happened");
}

#[test]
#[ignore = "slow: a long simulation"]
fn wallets_in_a_partitioned_network_get_every_message_once() {
    for seed in 1..=3 {
        let counts = simulate_partition(seed);
        print_notice(&format!("  seed {seed}: {counts:?}"));
        assert!(counts.iter().any(|counts| counts.max_undone >= 5), "seed {seed}: no deep reorg");
        assert!(counts.iter().any(|counts| counts.returned > 0), "seed {seed}: no transaction was undone");
    }
}

/// `NISD_RESTART_SEEDS=…` sets the number of networks.
#[test]
#[ignore = "slow: a long simulation"]
fn three_nodes_restarted_in_turn_for_an_hour_have_one_chain() {
    let count = from_environment("NISD_RESTART_SEEDS").unwrap_or(3);
    let (mut starts, mut undone) = (0, 0);
    for seed in 1..=count {
        let (lives, deepest) = simulate_restarts(seed, Duration::from_secs(3_600));
        assert!(lives > 3 + 10, "seed {seed}: {lives} starts");
        (starts, undone) = (starts + lives, undone.max(deepest));
    }
    print_notice(&format!(
        "  {count} hours of three nodes, {starts} starts: one chain, {undone} blocks undone at once at most"
    ));
}

#[test]
fn a_node_with_known_peers_harvests_nothing_for_a_minute_if_none_answers() {
    let heights = simulate_one_left(1, &[30, 55, 300].map(Duration::from_secs));
    assert_eq!(heights[..2], [1, 1], "it does not go on alone at once");
    assert!(heights[2] > 1, "it goes on alone in the end");
}

/// `NISD_PROGRESS_SEED=…` repeats the networks of a seed, with `NISD_LOG=1` printing the logs of their nodes;
/// `NISD_PROGRESS_SEEDS=…` sets the number of seeds, and `NISD_PROGRESS_FIRST_SEED=…` the first of them.
#[test]
#[ignore = "slow: a long simulation"]
fn byzantine_peers_that_prove_nothing_delay_nothing() {
    let check = |seed: u64| {
        let alone = simulate_progress(seed, 0);
        GROUPS.map(|byzantine_peers| {
            let beside = simulate_progress(seed, byzantine_peers);
            let limit = if byzantine_peers == 1 { MAX_DELAY } else { MAX_GROUP_DELAY };
            let what = || format!("seed {seed}, {byzantine_peers} byzantine peers: {beside:?}, alone {alone:?}");
            assert!(beside.own_delay <= alone.own_delay.max(limit), "{}", what());
            assert!(beside.push_delay <= alone.push_delay + limit, "{}", what());
            assert!(beside.pull_delay <= alone.pull_delay.max(MAX_PULL) + limit, "{}", what());
            assert!(beside.fork_delay <= alone.fork_delay.max(MAX_FORK) + limit, "{}", what());
            // The time from a block to the next is random.
            assert!(beside.blocks * 10 >= alone.blocks * 7, "{}", what());
            [alone, beside]
        })
    };
    let print = |reports: &[[[ProgressReport; 2]; GROUPS.len()]]| {
        for (group, byzantine_peers) in GROUPS.iter().enumerate() {
            let most = |value: fn(&ProgressReport) -> Duration| {
                let [alone, beside] = [0, 1].map(|place| {
                    let values = reports.iter().map(|report| value(&report[group][place]));
                    values.max().unwrap_or_default().as_secs_f64()
                });
                format!("{beside:.1} s (alone {alone:.1})")
            };
            let own = most(|report| report.own_delay);
            let [pushed, pulled] = [most(|report| report.push_delay), most(|report| report.pull_delay)];
            let forked = most(|report| report.fork_delay);
            print_notice(&format!(
                "  {} seeds beside {byzantine_peers}: own blocks at most {own} late, pushed {pushed}, pulled {pulled}, \
                 forks {forked}",
                reports.len()
            ));
        }
    };
    if let Some(seed) = from_environment("NISD_PROGRESS_SEED") {
        node_log::open();
        return print(&[check(seed)]);
    }
    let first = from_environment("NISD_PROGRESS_FIRST_SEED").unwrap_or(1);
    let count = from_environment("NISD_PROGRESS_SEEDS").unwrap_or(PROGRESS_SEEDS);
    let reports = Mutex::new(Vec::new());
    let failed = on_all_processors(first, count, "NISD_PROGRESS_SEED", |seed| {
        let report = check(seed);
        reports.lock().expect("reports").push(report);
    });
    print(&reports.into_inner().expect("reports"));
    assert!(failed.is_empty(), "seeds that failed: {failed:?}");
}

#[test]
fn the_seed_determines_the_simulation() {
    for seed in [3, 4, 5] {
        let [one, again] = [simulate(seed), simulate(seed)];
        assert!(one == again && !one.digests.is_empty(), "seed {seed} is not repeated");
    }
}
