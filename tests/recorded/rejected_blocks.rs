//! Blocks and chain parts offered to NIS1 on top of the recorded chains: they have the recorded results and leave the
//! same chain.

use std::collections::BTreeMap;

use crate::common::recorded_chain::{Chain, digest_of, tip_of};
use crate::common::remote_node::{Remote, StoreFixture, Synchronisation, bytes_of, push, synchronise};
use crate::common::{print_notice, recorded_lines};
use nisd::chain::BranchOutcome;
use nisd::codec::{Context, ReadError};
use nisd::model::{Block, Timestamp};
use nisd::rules::Rejection;
use serde_json::{Value, json};

/// Returns the cases of a file by chain and height.
pub fn cases_by_height(file: &str) -> BTreeMap<String, BTreeMap<u64, Vec<Value>>> {
    let mut groups: BTreeMap<String, BTreeMap<u64, Vec<Value>>> = BTreeMap::new();
    for case in recorded_lines(&format!("rejects/{file}.gz")) {
        let heights = groups.entry(case["chain"].as_str().unwrap().to_owned()).or_default();
        heights.entry(case["height"].as_u64().unwrap()).or_default().push(case);
    }
    groups
}

/// Returns how the result of a case differs from the recorded one.
type Check = fn(&mut StoreFixture<'_>, &Value) -> Vec<String>;

/// The files of cases and their checks.
const CHECKS: [(&str, Check); 3] = [
    ("blocks.jsonl", check_push_case),
    ("blocks.jsonl", check_block_by_synchronisation),
    ("chain-parts.jsonl", check_chain_part),
];

#[test]
#[ignore = "slow: a whole recorded chain"]
fn every_pushed_block_synchronised_block_and_branch_gets_the_recorded_result() {
    let mut cases: BTreeMap<String, BTreeMap<u64, Vec<(Check, Value)>>> = BTreeMap::new();
    for (file, check) in CHECKS {
        for (chain, heights) in cases_by_height(file) {
            let of_chain = cases.entry(chain).or_default();
            for (height, found) in heights {
                of_chain.entry(height).or_default().extend(found.into_iter().map(|case| (check, case)));
            }
        }
    }
    let (mut count, mut wrong) = (0, Vec::new());
    for (name, heights) in cases {
        let chain = Chain::open(&name);
        let mut fixture = StoreFixture::new(&chain);
        for (height, cases) in heights {
            fixture.advance_to(height);
            let before = (digest_of(fixture.store()), tip_of(fixture.store()));
            for (check, case) in &cases {
                count += 1;
                let differences = check(&mut fixture, case);
                wrong.extend(differences.iter().map(|text| format!("{} ({}): {text}", case["id"], case["note"])));
            }
            assert_eq!((digest_of(fixture.store()), tip_of(fixture.store())), before, "{name} at {height}");
        }
    }
    print_notice(&format!("{count} blocks and branches, {} differences", wrong.len()));
    assert!(count > 1_500 && wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Chain parts in which the first block does not hit and the second has a transaction with a wrong signature. This node
/// checks the proofs of all blocks first. The result is the same for the peer; NIS1 only logs the other reason.
const PROOFS_FIRST: [&str; 2] = ["cp-025", "cp-181"];

fn time_of(case: &Value) -> Timestamp {
    Timestamp(case["time"].as_i64().unwrap() as i32)
}

/// Returns the validation result of a chain part as recorded.
fn validity_of(outcome: &BranchOutcome) -> Value {
    match &outcome.validity {
        Ok(()) => json!("SUCCESS"),
        Err(Rejection::Result(result)) => json!(result.name()),
        Err(_) => Value::Null,
    }
}

fn scores_of(outcome: &BranchOutcome) -> Value {
    let texts = |(ours, theirs): (i64, i64)| json!([ours.to_string(), theirs.to_string()]);
    outcome.scores.map_or(Value::Null, texts)
}

/// Adds the difference between the expected and the found value.
fn compare(what: &str, expected: &Value, found: &Value, out: &mut Vec<String>) {
    if expected != found {
        out.push(format!("{what}: recorded {expected}, found {found}"));
    }
}

/// Scores are recorded only for better chain parts.
fn compare_scores(recorded: &Value, outcome: Option<&BranchOutcome>, out: &mut Vec<String>) {
    if !recorded.is_null() {
        compare("scores", recorded, &outcome.map_or(Value::Null, scores_of), out);
    }
}

/// A block of an account that lost its importance: NIS1 aborts with this text, this node finds no hit.
fn is_stale_importance(text: &Value) -> bool {
    text.as_str().is_some_and(|text| text.contains("importance not set at wanted height"))
}

/// Compares the chain after a reorg.
fn compare_after(fixture: &StoreFixture<'_>, case: &Value, outcome: Option<&BranchOutcome>, out: &mut Vec<String>) {
    let (tip, after) = (tip_of(fixture.store()), &case["after"]);
    compare("last block", &after["tip"], &json!(tip.hash.to_string()), out);
    compare("last height", &after["height"], &json!(tip.height.0), out);
    let score = if case["revertError"] == true {
        // NIS1 accepted the part and then failed to compute its score.
        let number = |value: &Value| value.as_str().unwrap().parse::<i128>().unwrap();
        let scores = &case["scores"];
        number(&case["score"]) - number(&scores[0]) + number(&scores[1])
    } else {
        after["score"].as_str().unwrap().parse().unwrap()
    };
    compare("chain score", &json!(score.to_string()), &json!(tip.score.to_string()), out);
    let returned = outcome.and_then(|outcome| outcome.update.as_ref()).map(|reorg| &reorg.returned);
    let returned: Vec<String> = returned.into_iter().flatten().map(|one| one.hash().to_string()).collect();
    for hash in after["pool"].as_array().into_iter().flatten() {
        if !returned.iter().any(|one| hash == one) {
            out.push(format!("transaction {hash} was not returned"));
        }
    }
}

/// Returns a decoding error as it reads where the block is part of a larger request.
fn nested(error: &ReadError) -> String {
    match error.http_status() {
        400 => format!("HTTP 500 java.lang.IllegalArgumentException: {error}"),
        status => format!("HTTP {status} {error}"),
    }
}

/// Pushes the block of a case if it can be decoded.
fn push_case(fixture: &StoreFixture<'_>, case: &Value) -> (String, Option<BranchOutcome>) {
    match Block::from_bytes(&bytes_of(&case["block"]), Context::of(&fixture.chain.network)) {
        Ok(block) => push(fixture.local(), block, time_of(case)),
        Err(error) => (nested(&error), None),
    }
}

fn check_push_case(fixture: &mut StoreFixture<'_>, case: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let (result, outcome) = push_case(fixture, case);
    let validity = outcome.as_ref().map_or(Value::Null, validity_of);
    let accepted = outcome.as_ref().is_some_and(|outcome| outcome.update.is_some());
    if case["hazard"] == true {
        if accepted || result == "SUCCESS" {
            out.push(format!("a hazard was accepted: {result}"));
        }
    } else if is_stale_importance(&case["result"]) {
        compare("result", &json!("FAILURE_CHAIN_INVALID"), &json!(result), &mut out);
        compare("chain part", &json!("FAILURE_BLOCK_NOT_HIT"), &validity, &mut out);
    } else {
        let recorded = case["result"].as_str().unwrap();
        // Vectors without a text for an undecodable block contain that of another platform.
        let same_status = result.starts_with("HTTP 500") && recorded.starts_with("HTTP 500");
        let textless = recorded == "HTTP 500 null" || case["hash"].is_null();
        if !(same_status && textless && !recorded.contains("IllegalArgumentException")) {
            compare("result", &case["result"], &json!(result), &mut out);
        }
        compare("chain part", &case["chainPart"], &validity, &mut out);
        compare_scores(&case["scores"], outcome.as_ref(), &mut out);
    }
    if let Some(outcome) = outcome.filter(|_| accepted) {
        compare_after(fixture, case, Some(&outcome), &mut out);
    }
    if accepted {
        fixture.restore();
    }
    out
}

fn interaction_of(synchronisation: &Synchronisation) -> String {
    match (&synchronisation.outcome, synchronisation.comparison) {
        (Some(outcome), _) => match outcome.as_sync_result() {
            Ok(()) => "SUCCESS".to_owned(),
            Err(Rejection::Result(_)) => "FAILURE".to_owned(),
            Err(rejection) => format!("EXCEPTION {rejection}"),
        },
        (None, "REMOTE_IS_SYNCED" | "REMOTE_REPORTED_EQUAL_CHAIN_SCORE" | "REMOTE_REPORTED_LOWER_CHAIN_SCORE") => {
            "NEUTRAL".to_owned()
        }
        (None, _) => "FAILURE".to_owned(),
    }
}

/// Compares a synchronisation with the recording.
fn compare_synchronisation(recorded: &Value, common: &str, found: &Synchronisation, out: &mut Vec<String>) {
    compare("comparison", &recorded["comparison"], &json!(found.comparison), out);
    compare("common height", &recorded[common], &json!(found.common.map(|common| common.0)), out);
    let (mut validity, mut result) = (Value::Null, Value::Null);
    if let Some(outcome) = &found.outcome {
        validity = validity_of(outcome);
        result = match outcome.as_sync_result() {
            Ok(()) => json!("SUCCESS"),
            Err(Rejection::Result(result)) => json!(result.name()),
            Err(_) => Value::Null,
        };
    }
    if is_stale_importance(&recorded["interaction"]) {
        return compare("chain part", &json!("FAILURE_BLOCK_NOT_HIT"), &validity, out);
    }
    let is_proof_first = PROOFS_FIRST.iter().any(|id| recorded["id"] == *id);
    let expected = if is_proof_first { json!("FAILURE_BLOCK_NOT_HIT") } else { recorded["chainPart"].clone() };
    compare("chain part", &expected, &validity, out);
    compare("result", &recorded["result"], &result, out);
    compare("interaction", &recorded["interaction"], &json!(interaction_of(found)), out);
    compare_scores(&recorded["scores"], found.outcome.as_ref(), out);
}

fn was_accepted(found: &Synchronisation) -> bool {
    found.outcome.as_ref().is_some_and(|outcome| outcome.update.is_some())
}

fn check_block_by_synchronisation(fixture: &mut StoreFixture<'_>, case: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let Ok(block) = Block::from_bytes(&bytes_of(&case["block"]), Context::of(&fixture.chain.network)) else {
        // NIS1 decodes an empty transaction and fails on it later.
        if case["sync"]["interaction"] != "EXCEPTION" {
            compare("readable", &Value::Null, &case["sync"], &mut out);
        }
        return out;
    };
    let score = tip_of(fixture.store()).score + 1;
    let remote = Remote::new(score, case["parentHeight"].as_u64().unwrap(), vec![block]);
    let found = synchronise(fixture.local(), &remote, time_of(case));
    if case["hazard"] != true {
        compare_synchronisation(&case["sync"], "commonHeight", &found, &mut out);
    } else if was_accepted(&found) {
        out.push("a hazard was accepted".to_owned());
    }
    if was_accepted(&found) {
        fixture.restore();
    }
    out
}

fn check_chain_part(fixture: &mut StoreFixture<'_>, case: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let remote = Remote::recorded(fixture.chain, &case["peer"]);
    let height = tip_of(fixture.store()).height;
    let found = synchronise(fixture.local(), &remote, time_of(case));
    compare_synchronisation(case, "requestedAfter", &found, &mut out);
    if let Some(common) = found.common {
        let least = height.0 - common.0;
        // NIS1 requests at least ten blocks.
        compare("least number of blocks", &case["minBlocks"], &json!(least.max(10)), &mut out);
    }
    compare_after(fixture, case, found.outcome.as_ref(), &mut out);
    if was_accepted(&found) {
        fixture.restore();
    }
    out
}
