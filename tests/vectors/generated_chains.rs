//! The generator of long chains for benchmarks: the program imports short ones with full validation.

use std::fs;
use std::path::Path;

use crate::common::daemon::run;
use crate::vectors::chains::{Files, Plan, Progress, Statistics};

const ALL_KINDS: [&str; 9] = [
    "aggregateModification",
    "cosignature",
    "importanceTransfer",
    "mosaicDefinitionCreation",
    "mosaicSupplyChange",
    "mosaicTransfer",
    "multisig",
    "provisionNamespace",
    "transfer",
];

fn plan(blocks: u64, transactions: usize, seed: u64) -> Plan {
    Plan { seed, ..Plan::new(blocks, transactions, 200) }
}

fn generate(plan: &Plan, folder: &Path) -> (Files, Statistics) {
    let mut last = None;
    let made = crate::vectors::chains::generate(plan, folder, |progress| last = Some(progress));
    let (files, statistics) = made.expect("such a chain can be made");
    let Progress { height, transactions, rates } = last.expect("the last progress");
    assert_eq!((height, transactions), (plan.blocks, statistics.transactions));
    assert!(rates.iter().all(|rate| *rate > 0.0), "{rates:?}");
    (files, statistics)
}

/// Imports a chain with the program and checks the height it reaches.
fn assert_is_imported(plan: &Plan, files: &Files, folder: &Path) {
    let store = folder.join("store");
    let [config, blocks, data] = [&files.config, &files.blocks, &store].map(|path| path.to_str().expect("a path"));
    run(["import", "--config", config, "--data", data, blocks]).expect_success();
    let digest = run(["digest", "--data", data]).expect_success().text();
    assert!(digest.starts_with(&format!("{} ", plan.blocks)), "{digest}");
}

#[test]
#[ignore = "slow: computes for long"]
fn a_generated_chain_of_all_kinds_in_which_namespaces_expire_is_valid() {
    let (folder, plan) = (tempfile::tempdir().expect("a folder"), plan(4_300, 3, 1));
    let (files, statistics) = generate(&plan, folder.path());
    assert_eq!(statistics.kinds.keys().copied().collect::<Vec<_>>(), ALL_KINDS);
    assert_eq!(statistics.transactions, (plan.blocks - 1) * plan.transactions as u64);
    for what in [
        "renewals",
        "renewalsAfterExpiry",
        "claims",
        "nestedNamespaces",
        "redefinitions",
        "mosaicsWithLevies",
        "linksEnded",
        "linksMadeAgain",
        "cosignatoriesAdded",
        "blocksByRemotes",
    ] {
        assert!(
            statistics.other_counts.get(what).is_some_and(|count| *count > 0),
            "{what}: {:?}",
            statistics.other_counts
        );
    }
    assert_is_imported(&plan, &files, folder.path());
}

#[test]
#[ignore = "slow: computes for long"]
fn a_generated_chain_of_plain_payments_by_proof_of_stake_is_valid() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = Plan { stake: true, plain: true, gzip: true, ..plan(400, 10, 1) };
    let (files, statistics) = generate(&plan, folder.path());
    assert_eq!(statistics.kinds.keys().copied().collect::<Vec<_>>(), ["transfer"]);
    assert!(statistics.other_counts["messages"] > 0);
    assert_is_imported(&plan, &files, folder.path());
}

#[test]
#[ignore = "slow: computes for long"]
fn a_small_chain_of_the_shape_of_the_public_networks_is_valid() {
    let (folder, plan) = (tempfile::tempdir().expect("a folder"), Plan::mainnet(3_000));
    let (files, statistics) = generate(&plan, folder.path());
    assert_eq!(statistics.kinds.keys().copied().collect::<Vec<_>>(), ALL_KINDS);
    let planned = plan.all_transactions();
    assert!(statistics.transactions.abs_diff(planned) * 20 < planned, "{}", statistics.transactions);
    assert!(2 * statistics.blocks[0] > plan.blocks && statistics.blocks.len() > 100, "{:?}", statistics.blocks);
    assert!(statistics.activities[0] > 500 && statistics.activities[plan.accounts / 2] < 10);
    assert_eq!(statistics.tenths.len(), 11);
    assert!(statistics.other_counts["blocksByRemotes"] > plan.blocks / 2);
    assert_is_imported(&plan, &files, folder.path());
}

#[test]
fn the_seed_determines_the_generated_files() {
    let contents = |seed: u64| {
        let folder = tempfile::tempdir().expect("a folder");
        generate(&plan(100, 10, seed), folder.path());
        let names = ["network.properties", "nemesis.bin", "blocks.bin", "summary.json"];
        names.map(|name| fs::read(folder.path().join(name)).expect("a file"))
    };
    let (one, again, other) = (contents(1), contents(1), contents(2));
    assert!(one == again);
    assert!(one[1] != other[1] && one[2] != other[2]);
}

#[test]
fn impossible_chains_are_rejected_with_the_faulty_option() {
    let rejection = |plan: Plan| plan.check().unwrap_err();
    assert!(rejection(plan(1, 3, 1)).starts_with("--blocks:"));
    assert!(rejection(plan(100, 10_001, 1)).starts_with("--transactions:"));
    assert!(rejection(plan(100, 100, 1)).starts_with("--accounts:"));
    assert!(rejection(Plan { accounts: 100_000, ..plan(100, 3, 1) }).starts_with("--accounts:"));
    assert!(rejection(Plan { target_time: Some(8_641), ..plan(100, 3, 1) }).starts_with("--target-time:"));
    assert!(rejection(Plan::mainnet(0)).starts_with("--scale:"));
    assert!(rejection(Plan::mainnet(3_001)).starts_with("--scale:"));
    assert_eq!(plan(2, 3, 1).check(), Ok(()));
}
