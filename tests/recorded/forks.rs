//! Forks recorded from NIS1: given the input of the node that had to reorganize, step by step, this node gives the same
//! answers, follows the same branch, and keeps nothing of the other branch.

use std::collections::BTreeSet;

use crate::common::recorded_chain::{Chain, FAR_FUTURE, copy_store, digest_of, tip_of};
use crate::common::remote_node::{LocalNode, Remote, bytes_of, process_branch, push, synchronise, text_of};
use nisd::chain::{BranchOutcome, CandidateBranch, RollbackError};
use nisd::model::{Block, Height, Timestamp};
use nisd::store::{Store, stored_header};
use serde_json::Value;

/// Data of a recorded fork.
struct Fork {
    record: Value,
    common: u64,
    losing: Vec<Block>,
    winning: Vec<Block>,
}

impl Fork {
    fn new(record: Value, chain: &Chain, blocks: &[Block]) -> Fork {
        let height = |value: &Value| value.as_u64().unwrap();
        let losing = record["losingBranch"].as_array().unwrap().iter();
        let losing: Vec<Block> = losing.map(|one| chain.block(&bytes_of(&one["block"]))).collect();
        let [first, last] = [0, 1].map(|end| height(&record["winningHeights"][end]));
        let winning: Vec<Block> =
            blocks.iter().filter(|block| (first..=last).contains(&block.height.0)).cloned().collect();
        let lengths = [&record["losingLength"], &record["winningLength"]].map(|length| height(length) as usize);
        assert_eq!([losing.len(), winning.len()], lengths);
        Fork { common: height(&record["commonHeight"]), losing, winning, record }
    }

    fn score(&self, name: &str) -> i128 {
        self.record[name].as_str().unwrap().parse().unwrap()
    }

    /// Returns the clock at the arrival of the winning branch.
    fn clock(&self) -> Timestamp {
        Timestamp(self.record["clockAtDelivery"].as_i64().unwrap() as i32)
    }

    /// Returns the parts of the scores of the winning and losing branches that their comparison counts.
    fn partial_scores(&self) -> Option<(i64, i64)> {
        let partial = |name| (self.score(name) - self.score("commonScore")) as i64;
        Some((partial("losingScore"), partial("winningScore")))
    }
}

/// The node starts at the common block and harvests the losing branch by its own clock.
fn harvest_losing_branch(local: LocalNode<'_>, fork: &Fork, step: &Value) {
    for (block, recorded) in fork.losing.iter().zip(fork.record["losingBranch"].as_array().unwrap()) {
        let (result, outcome) = push(local, block.clone(), block.timestamp);
        assert_eq!(result, "SUCCESS", "block {}", recorded["hash"]);
        assert!(outcome.unwrap().update.unwrap().returned.is_empty());
        let tip = tip_of(local.store);
        assert_eq!(recorded["hash"], tip.hash.to_string());
        assert_eq!(recorded["generationHash"], tip.generation_hash.to_string());
        assert_eq!(recorded["difficulty"], tip.difficulty);
        assert_eq!(recorded["chainScore"], tip.score.to_string());
        assert_eq!(recorded["totalFee"], tip.total_fee.0);
        assert_eq!(recorded["lessor"].as_str(), tip.beneficiary.as_ref().map(|lessor| lessor.as_str()));
    }
    let heights = [fork.losing[0].height.0, tip_of(local.store).height.0];
    assert_eq!(step["heights"], serde_json::json!(heights));
    assert_eq!(step["chainScore"], tip_of(local.store).score.to_string());
}

/// The winning branch arrives as recorded.
fn deliver_winning_branch(local: LocalNode<'_>, fork: &Fork, step: &Value) -> BranchOutcome {
    let (result, outcome) = match fork.record["deliveredBy"].as_str().unwrap() {
        "push" => {
            let [block] = fork.winning.as_slice() else { panic!("one block is pushed") };
            push(local, block.clone(), fork.clock())
        }
        "sync" => {
            let remote = Remote::new(fork.score("winningScore"), fork.common, fork.winning.clone());
            let found = synchronise(local, &remote, fork.clock());
            assert_eq!((found.comparison, found.common), ("REMOTE_IS_NOT_SYNCED", Some(Height(fork.common))));
            let outcome = found.outcome.unwrap();
            (text_of(&outcome.as_sync_result()), Some(outcome))
        }
        other => panic!("delivered by {other}"),
    };
    assert_eq!(step["result"], result);
    outcome.unwrap()
}

/// Performs the steps of a fork; returns the outcome of the winning branch.
fn replay(local: LocalNode<'_>, fork: &Fork) -> BranchOutcome {
    let [begin, lose, win, again] = fork.record["steps"].as_array().unwrap().as_slice() else { panic!("four steps") };
    assert_eq!(begin["height"], tip_of(local.store).height.0);
    assert_eq!(tip_of(local.store).score, fork.score("commonScore"));
    harvest_losing_branch(local, fork, lose);
    assert_eq!(tip_of(local.store).score, fork.score("losingScore"));
    let before = digest_of(local.store);
    let outcome = deliver_winning_branch(local, fork, win);
    assert_ne!(digest_of(local.store), before);
    assert_eq!(tip_of(local.store).score, fork.score("winningScore"));
    let loser = fork.losing.last().unwrap().clone();
    assert_eq!(again["result"], push(local, loser, fork.clock()).0, "the losing block is pushed again");
    outcome
}

/// Returns what was announced to both nodes, and at any fork only to the losing one.
fn announced(chain: &Chain, forks: &[Fork]) -> Vec<Value> {
    let to_one = forks.iter().flat_map(|fork| fork.record["announcedToLoserOnly"].as_array().unwrap().clone());
    let all = chain.lines("events.jsonl.gz").into_iter().chain(to_one);
    all.filter(|event| event["result"] == "SUCCESS" && event["hash"].is_string()).collect()
}

/// Checks that the reorg returns exactly the transactions that only the losing branch held, and that the mempool
/// afterwards holds nothing else but earlier unconfirmed transactions.
fn check_mempool(store: &Store, fork: &Fork, outcome: &BranchOutcome, announced: &[Value]) {
    let reorg = outcome.update.as_ref().unwrap();
    assert_eq!((reorg.common.0, reorg.tip), (fork.common, tip_of(store).height));
    let returned: BTreeSet<String> = reorg.returned.iter().map(|one| one.hash().to_string()).collect();
    assert_eq!(returned.len(), reorg.returned.len());
    let direct = |blocks: &[Block]| -> BTreeSet<String> {
        blocks.iter().flat_map(|block| &block.transactions).map(|one| one.hash().to_string()).collect()
    };
    let (losing, winning) = (direct(&fork.losing), direct(&fork.winning));
    assert_eq!(returned, losing.difference(&winning).cloned().collect());
    let unconfirmed: BTreeSet<&str> = announced
        .iter()
        .filter(|event| event["clock"].as_i64().unwrap() <= i64::from(fork.clock().0))
        .map(|event| event["hash"].as_str().unwrap())
        .collect();
    let pool = fork.record["poolAfterSwitch"].as_array().unwrap();
    assert_eq!(fork.record["poolSizeAfterSwitch"], pool.len());
    for hash in pool.iter().map(|hash| hash.as_str().unwrap()) {
        assert!(returned.contains(hash) || unconfirmed.contains(hash), "{hash} came from nowhere");
        assert!(!winning.contains(hash), "{hash} is confirmed");
    }
}

fn every_fork_is_resolved_as_recorded(name: &str) {
    let chain = Chain::open(name);
    let folder = tempfile::tempdir().unwrap();
    let (forked, blocks) = (chain.store(folder.path()), chain.blocks());
    let mut forks: Vec<Fork> =
        chain.lines("forks.jsonl.gz").into_iter().map(|record| Fork::new(record, &chain, &blocks)).collect();
    forks.sort_by_key(|fork| fork.common);
    assert!(!forks.is_empty());
    let announced = announced(&chain, &forks);
    for fork in forks {
        let number = &fork.record["fork"];
        chain.import(&forked, fork.common);
        let other = tempfile::tempdir().unwrap();
        copy_store(folder.path(), other.path());
        let straight = chain.store(other.path());
        let outcome = replay(LocalNode { chain: &chain, store: &forked }, &fork);
        assert_eq!(outcome.scores, fork.partial_scores(), "fork {number}");
        check_mempool(&forked, &fork, &outcome, &announced);
        chain.import(&straight, fork.winning.last().unwrap().height.0);
        let rival = &fork.record["rivalPushToWinner"];
        if !rival.is_null() {
            let result = push(LocalNode { chain: &chain, store: &straight }, fork.losing[0].clone(), fork.clock()).0;
            assert_eq!(*rival, result, "fork {number}: the rival is pushed to the winner");
        }
        assert_eq!(tip_of(&forked), tip_of(&straight), "fork {number}");
        assert_eq!(digest_of(&forked), digest_of(&straight), "fork {number}: the losing branch left a trace");
        assert_every_block_is_that_of_the_winner(&forked, &fork);
    }
}

fn assert_every_block_is_that_of_the_winner(store: &Store, fork: &Fork) {
    let snapshot = store.snapshot().unwrap();
    for block in &fork.winning {
        assert_eq!(stored_header(&snapshot, block.height).unwrap().unwrap().hash, block.hash());
    }
}

for_each_chain!(every_fork_is_resolved, every_fork_is_resolved_as_recorded);

#[test]
fn a_branch_beyond_the_rewrite_limit_is_rejected_and_changes_nothing() {
    let (chain, folder) = (Chain::open("one-year"), tempfile::tempdir().unwrap());
    let (store, blocks, limit) = (chain.store(folder.path()), chain.blocks(), chain.network.chain.rewrite_limit);
    chain.import(&store, 730);
    let (before, lowest) = ((tip_of(&store), digest_of(&store)), 730 - limit);
    let branch = |common: u64| {
        let part = blocks.iter().filter(|block| (common + 1..=735).contains(&block.height.0)).cloned().collect();
        CandidateBranch::new(&store, &chain.network, Height(common), part)
    };
    assert!(matches!(branch(lowest - 1), Err(RollbackError::TooDeep { lowest: found }) if found.0 == lowest));
    assert_eq!((tip_of(&store), digest_of(&store)), before);
    assert!(process_branch(branch(lowest).unwrap(), FAR_FUTURE).update.is_some());
    // A rollback uses up the limit: a part cannot undo further blocks.
    chain.roll_back(&store, 735 - limit).unwrap();
    assert!(matches!(branch(735 - limit - 1), Err(RollbackError::TooDeep { .. })));
}
