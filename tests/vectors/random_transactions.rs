//! A short run of the generator of random signed transactions: the node must give each the result that the rules
//! require, and the state must follow.
//!
//! Every run tests the same cases; `NISD_SEED` selects others, `NISD_CASES=n` runs n times as many blocks.

use crate::common::{from_environment, print_notice};
use nisd_oracle::{Plan, Statistics, UNREACHABLE, replay, run};

/// Default number of blocks: those of six networks, one of each kind.
const BLOCKS: u64 = 10_000;
/// Cases at each height at which a network stops.
const CASES: usize = 10;
/// Default seed.
const SEED: u64 = 1;
/// A seed with which even a short run produces every kind of output file.
const WRITTEN_SEED: u64 = 3;

fn run_without_differences(plan: &Plan) -> Statistics {
    let statistics = run(plan, |_| {});
    assert!(statistics.differences.is_empty(), "NISD_SEED={}: {}", plan.seed, statistics.differences.join("\n"));
    statistics
}

#[test]
#[ignore = "slow: computes for long"]
fn every_rule_rejects_violations_with_its_result_and_valid_blocks_give_the_right_state() {
    let blocks = BLOCKS * from_environment("NISD_CASES").unwrap_or(1);
    let seed = from_environment("NISD_SEED");
    let statistics = run_without_differences(&Plan { cases: CASES, ..Plan::new(blocks, seed.unwrap_or(SEED)) });
    print_notice(&statistics.to_string());
    UNREACHABLE.iter().for_each(|(rule, why)| print_notice(&format!("cannot be reached: {rule}: {why}")));
    let never = statistics.rare_rules(1);
    // A run with a chosen seed may miss one by chance.
    assert!(never.is_empty() || seed.is_some(), "no case broke {never:?}");
    let scarce = statistics.rare_classes(1);
    assert!(scarce.is_empty() || seed.is_some(), "no case had {scarce:?}");
}

#[test]
#[ignore = "slow: computes for long"]
fn written_files_are_reproducible_and_replay_with_the_same_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str| {
        let target = folder.path().join(name);
        run_without_differences(&Plan {
            folder: Some(target.clone()),
            cases: 3,
            stops: 90,
            ..Plan::new(300, WRITTEN_SEED)
        });
        let network = std::fs::read_dir(target).expect("a folder").next().expect("a network").expect("a folder");
        network.path()
    };
    let (one, again) = (write("one"), write("again"));
    let lines = ["refused", "announced", "undone", "states", "pools"].map(|name| format!("{name}.jsonl"));
    for name in ["node.properties", "nemesis.bin", "blocks.bin"].into_iter().chain(lines.iter().map(String::as_str)) {
        let [one, again] = [&one, &again].map(|folder| std::fs::read(folder.join(name)).expect("a file"));
        assert!(!one.is_empty() && one == again, "{name}");
    }
    let text = |path: std::path::PathBuf| path.to_str().expect("a path").to_owned();
    let (config, data, blocks) = (one.join("node.properties"), one.join("store"), one.join("blocks.bin"));
    let [config, data, blocks] = [config, data, blocks].map(text);
    crate::common::daemon::run(["import", "--config", &config, "--data", &data, &blocks]).expect_success();
    let replayed = replay(&one).unwrap_or_else(|text| panic!("{text}"));
    print_notice(&format!("{replayed:?}"));
    let counts =
        [replayed.refused, replayed.undone, replayed.long, replayed.replacements, replayed.worse, replayed.odd];
    assert!(replayed.blocks > 60 && !counts.contains(&0), "{replayed:?}");
}
