//! Blocks and chain parts that were offered to the real network software on top of the recorded chains: they get the
//! result that it gave, and leave the same chain behind.

mod common;
#[path = "common/recorded_chain.rs"]
mod recorded_chain;

use std::collections::BTreeMap;
use std::fs;

use common::{loudly, shared};
use nisd::chain::comparison::{Comparison, Interaction, LastBlock, Outcome as Compared, Step};
use nisd::chain::{ChainPart, Outcome, PartProgress, Validity, check_block_signature, check_pushed, pushed_part};
use nisd::codec::Context;
use nisd::crypto::Verifier;
use nisd::model::{Block, Hash256, Height, Timestamp};
use nisd::rules::{Exception, ExceptionKind, Refusal, ValidationResult};
use nisd::store::{Store, stored_block, stored_header};
use recorded_chain::{Chain, digest_of, tip_of};
use serde_json::{Value, json};

/// A store at some height of a recorded chain, which every case finds as it was.
struct Stage<'c> {
    chain: &'c Chain,
    /// The chain up to the height, never touched by a case.
    pristine: tempfile::TempDir,
    working: tempfile::TempDir,
    store: Option<Store>,
}

impl<'c> Stage<'c> {
    fn new(chain: &'c Chain) -> Stage<'c> {
        Stage { chain, pristine: tempfile::tempdir().unwrap(), working: tempfile::tempdir().unwrap(), store: None }
    }

    /// Goes on to a height, never back.
    fn raise(&mut self, height: u64) {
        let store = self.chain.store(self.pristine.path());
        self.chain.import(&store, height);
        drop(store);
        self.restore();
    }

    fn restore(&mut self) {
        self.store = None;
        for file in fs::read_dir(self.pristine.path()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), self.working.path().join(file.file_name())).unwrap();
        }
        self.store = Some(self.chain.store(self.working.path()));
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }
}

/// Runs all cases of a file, chain by chain and height by height.
fn replay(file: &str, mut check: impl FnMut(&mut Stage<'_>, &Value) -> Vec<String>) {
    let Some(path) = shared(&format!("data/rejects/{file}")) else { return };
    let mut groups: BTreeMap<String, BTreeMap<u64, Vec<Value>>> = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let heights = groups.entry(case["chain"].as_str().unwrap().to_owned()).or_default();
        heights.entry(case["height"].as_u64().unwrap()).or_default().push(case);
    }
    let (mut count, mut wrong) = (0, Vec::new());
    for (name, heights) in &groups {
        let chain = Chain::open(name).unwrap();
        let mut stage = Stage::new(&chain);
        for (height, cases) in heights {
            stage.raise(*height);
            let before = (digest_of(stage.store()), tip_of(stage.store()));
            for case in cases {
                count += 1;
                let differences = check(&mut stage, case);
                wrong.extend(differences.iter().map(|text| format!("{} ({}): {text}", case["id"], case["note"])));
            }
            assert_eq!((digest_of(stage.store()), tip_of(stage.store())), before, "{name} at {height}");
        }
    }
    loudly(&format!("{file}: {count} cases, {} differences", wrong.len()));
    assert!(count > 0 && wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn time_of(case: &Value) -> Timestamp {
    Timestamp(case["time"].as_i64().unwrap() as i32)
}

fn bytes_of(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap()
}

/// The text of a result in the records of pushes.
fn text_of(result: Result<ValidationResult, &Exception>) -> String {
    match result {
        Ok(result) => result.name().to_owned(),
        Err(exception) => format!("HTTP {} {}", exception.http_status(), exception.text),
    }
}

/// What the rules say of a part, as it is recorded.
fn validity_of(outcome: &Outcome) -> Value {
    match &outcome.validity {
        Validity::Valid => json!("SUCCESS"),
        Validity::Refused(result) => json!(result.name()),
        Validity::Exception(_) => Value::Null,
    }
}

fn scores_of(outcome: &Outcome) -> Value {
    let texts = |(ours, theirs): (i64, i64)| json!([ours.to_string(), theirs.to_string()]);
    outcome.scores.map_or(Value::Null, texts)
}

fn judge(mut part: Box<ChainPart<'_>>, now: Timestamp) -> Outcome {
    loop {
        match part.step(now).unwrap() {
            PartProgress::Working(next) => part = next,
            PartProgress::Done(outcome) => return outcome,
        }
    }
}

/// Where what was found differs from what is recorded.
fn compare(what: &str, expected: &Value, found: &Value, out: &mut Vec<String>) {
    if expected != found {
        out.push(format!("{what}: recorded {expected}, found {found}"));
    }
}

/// Scores are recorded for better parts only.
fn compare_scores(recorded: &Value, outcome: Option<&Outcome>, out: &mut Vec<String>) {
    if !recorded.is_null() {
        compare("scores", recorded, &outcome.map_or(Value::Null, scores_of), out);
    }
}

/// A block of an account that has lost its importance: the network ends the attempt with this text, here it is no hit.
fn is_stale_importance(text: &Value) -> bool {
    text.as_str().is_some_and(|text| text.contains("importance not set at wanted height"))
}

/// What a switch has made of the chain.
fn compare_after(stage: &Stage<'_>, case: &Value, outcome: Option<&Outcome>, out: &mut Vec<String>) {
    let (tip, after) = (tip_of(stage.store()), &case["after"]);
    compare("last block", &after["tip"], &json!(tip.hash.to_string()), out);
    compare("last height", &after["height"], &json!(tip.height.0), out);
    let score = match case["revertError"] == true {
        // The network took the part and then failed to count its score.
        true => {
            let number = |value: &Value| value.as_str().unwrap().parse::<i128>().unwrap();
            let scores = &case["scores"];
            number(&case["score"]) - number(&scores[0]) + number(&scores[1])
        }
        false => after["score"].as_str().unwrap().parse().unwrap(),
    };
    compare("chain score", &json!(score.to_string()), &json!(tip.score.to_string()), out);
    let returned = outcome.and_then(|outcome| outcome.switch.as_ref()).map(|switch| &switch.returned);
    let returned: Vec<String> = returned.into_iter().flatten().map(|one| one.hash().to_string()).collect();
    for hash in after["pool"].as_array().into_iter().flatten() {
        if !returned.iter().any(|one| hash == one) {
            out.push(format!("transaction {hash} was not returned"));
        }
    }
}

/// How an error in reading shows where the block is part of a larger request.
fn nested(exception: Exception) -> Exception {
    match exception.kind {
        ExceptionKind::Argument => Exception {
            kind: ExceptionKind::Other,
            text: format!("java.lang.IllegalArgumentException: {}", exception.text),
        },
        _ => exception,
    }
}

fn push(stage: &Stage<'_>, case: &Value) -> (String, Option<Outcome>) {
    let (store, network) = (stage.store(), &stage.chain.network);
    let block = match Block::from_bytes(&bytes_of(&case["block"]), Context::of(network)) {
        Ok(block) => block,
        Err(error) => return (text_of(Err(&nested(error.into()))), None),
    };
    let refused = |refusal: Refusal| match refusal {
        Refusal::Result(result) => (text_of(Ok(result)), None),
        Refusal::Exception(exception) => (text_of(Err(&exception)), None),
        Refusal::Store(error) => panic!("{error}"),
    };
    let front = check_pushed(&block, &store.snapshot().unwrap(), network, &mut Verifier::default());
    if let Err(refusal) = front {
        return refused(refusal);
    }
    match pushed_part(store, network, block) {
        Ok(part) => {
            let outcome = judge(part, time_of(case));
            (text_of(outcome.of_push()), Some(outcome))
        }
        Err(refusal) => refused(refusal),
    }
}

fn check_push_case(stage: &mut Stage<'_>, case: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let (result, outcome) = push(stage, case);
    let validity = outcome.as_ref().map_or(Value::Null, validity_of);
    let accepted = outcome.as_ref().is_some_and(|outcome| outcome.switch.is_some());
    if case["hazard"] == true {
        if accepted || result == "SUCCESS" {
            out.push(format!("a hazard was accepted: {result}"));
        }
    } else if is_stale_importance(&case["result"]) {
        compare("result", &json!("FAILURE_CHAIN_INVALID"), &json!(result), &mut out);
        compare("chain part", &json!("FAILURE_BLOCK_NOT_HIT"), &validity, &mut out);
    } else {
        let recorded = case["result"].as_str().unwrap();
        // Where the specification gives no text for what cannot be read, that of another platform stands there.
        let same_status = result.starts_with("HTTP 500") && recorded.starts_with("HTTP 500");
        let textless = recorded == "HTTP 500 null" || case["hash"].is_null();
        if !(same_status && textless && !recorded.contains("IllegalArgumentException")) {
            compare("result", &case["result"], &json!(result), &mut out);
        }
        compare("chain part", &case["chainPart"], &validity, &mut out);
        compare_scores(&case["scores"], outcome.as_ref(), &mut out);
    }
    if let Some(outcome) = outcome.filter(|_| accepted) {
        compare_after(stage, case, Some(&outcome), &mut out);
    }
    if accepted {
        stage.restore();
    }
    out
}

#[test]
fn every_pushed_block_gets_the_recorded_result() {
    replay("blocks.jsonl", check_push_case);
}

/// A remote whose chain is ours up to a height, with blocks of its own above.
struct Remote {
    score: i128,
    common: u64,
    blocks: Vec<Block>,
    hash_limit: usize,
    /// Answers that do not follow from its chain.
    last: Option<Block>,
    hashes: Option<Vec<Hash256>>,
    block_at: Option<Block>,
    part: Option<Vec<Block>>,
}

impl Remote {
    /// One that has a single block on top of ours.
    fn with_block(score: i128, common: u64, block: Block) -> Remote {
        let (last, hashes, block_at, part) = (None, None, None, None);
        Remote { score, common, blocks: vec![block], hash_limit: 400, last, hashes, block_at, part }
    }

    fn of(stage: &Stage<'_>, peer: &Value) -> Remote {
        let block = |value: &Value| stage.chain.block(&bytes_of(value));
        let list = |name: &str| peer[name].as_array().map(|blocks| blocks.iter().map(block).collect::<Vec<_>>());
        let one = |name: &str| Some(&peer[name]).filter(|value| !value.is_null()).map(block);
        let hash = |value: &Value| Hash256::from_hex(value.as_str().unwrap()).unwrap();
        Remote {
            score: peer["score"].as_str().unwrap().parse().unwrap(),
            common: peer["commonHeight"].as_u64().unwrap(),
            blocks: list("blocks").unwrap(),
            hash_limit: peer["hashLimit"].as_u64().map_or(400, |limit| limit as usize),
            last: one("lastBlock"),
            hashes: peer["hashes"].as_array().map(|hashes| hashes.iter().map(hash).collect()),
            block_at: one("blockAt"),
            part: list("part"),
        }
    }

    /// Our own block at a height, and the remote's above.
    fn chain_above(&self, stage: &Stage<'_>, height: u64) -> Vec<Block> {
        let snapshot = stage.store().snapshot().unwrap();
        let context = Context::of(&stage.chain.network);
        let ours = |height| stored_block(&snapshot, Height(height), context).unwrap().unwrap().1;
        let theirs = self.blocks.iter().skip((height.saturating_sub(self.common)) as usize).cloned();
        (height + 1..=self.common).map(ours).chain(theirs).collect()
    }

    fn last(&self, stage: &Stage<'_>) -> Option<Block> {
        self.last.clone().or_else(|| self.chain_above(stage, self.common.saturating_sub(1)).pop())
    }

    fn hashes_from(&self, stage: &Stage<'_>, height: Height) -> Vec<Hash256> {
        let chain = || self.chain_above(stage, height.0 - 1);
        self.hashes.clone().unwrap_or_else(|| chain().iter().map(Block::hash).take(self.hash_limit).collect())
    }

    fn blocks_after(&self, stage: &Stage<'_>, height: Height) -> Vec<Block> {
        // Asked for less than its branch, because its hashes lied, it was recorded to answer with the whole of it.
        self.part.clone().unwrap_or_else(|| self.chain_above(stage, height.0.min(self.common)))
    }

    fn block_at(&self, stage: &Stage<'_>, height: Height) -> Option<Block> {
        self.block_at.clone().or_else(|| self.chain_above(stage, height.0 - 1).into_iter().next())
    }
}

/// What a synchronisation came to.
struct Synchronisation {
    comparison: Compared,
    outcome: Option<Outcome>,
}

fn last_block(block: &Block) -> LastBlock {
    LastBlock { height: block.height, hash: block.hash(), signature: block.signature }
}

/// Compares with a remote, and takes its blocks if they are better.
fn synchronise(stage: &Stage<'_>, remote: &Remote, now: Timestamp) -> Synchronisation {
    let (store, network) = (stage.store(), &stage.chain.network);
    let tip = tip_of(store);
    let snapshot = store.snapshot().unwrap();
    let (_, ours) = stored_block(&snapshot, tip.height, Context::of(network)).unwrap().unwrap();
    let comparison = Comparison::new(tip.score, last_block(&ours), &network.chain);
    let is_good = |block: &Block| check_block_signature(block, false, &mut Verifier::default()).1;
    let hash_at = |height| stored_header(&snapshot, Height(height)).unwrap().unwrap().0.hash;
    let mut step = comparison.on_score(remote.score);
    let compared = loop {
        step = match step {
            Step::AskLastBlock => {
                let last = remote.last(stage);
                let known = last.as_ref().map(last_block);
                comparison.on_last_block(known.as_ref(), last.as_ref().is_some_and(is_good))
            }
            Step::AskHashes => {
                let local: Vec<Hash256> = (comparison.first_hash().0..=tip.height.0).map(hash_at).collect();
                comparison.on_hashes(&local, &remote.hashes_from(stage, comparison.first_hash()))
            }
            Step::AskBlockAfter(fork) => {
                let block = remote.block_at(stage, fork.common.next());
                comparison.on_block_after(fork, block.as_ref().is_some_and(is_good))
            }
            Step::Done(compared) => break compared,
        }
    };
    drop(snapshot);
    let outcome = match compared {
        Compared::RemoteIsNotSynced(fork) => {
            let part = ChainPart::new(store, network, fork.common, remote.blocks_after(stage, fork.common)).unwrap();
            Some(judge(Box::new(part), now))
        }
        _ => None,
    };
    Synchronisation { comparison: compared, outcome }
}

fn interaction_of(synchronisation: &Synchronisation) -> String {
    let name = |interaction| match interaction {
        Interaction::Success => "SUCCESS".to_owned(),
        Interaction::Neutral => "NEUTRAL".to_owned(),
        Interaction::Failure => "FAILURE".to_owned(),
    };
    match (&synchronisation.outcome, synchronisation.comparison.interaction()) {
        (Some(outcome), _) => match outcome.of_synchronisation() {
            Ok(result) if result.is_success() => name(Interaction::Success),
            Ok(_) => name(Interaction::Failure),
            Err(exception) => format!("EXCEPTION {}", exception.text),
        },
        (None, Some(interaction)) => name(interaction),
        (None, None) => String::new(),
    }
}

/// Compares a synchronisation with what is recorded of it.
fn compare_synchronisation(recorded: &Value, common: &str, found: &Synchronisation, out: &mut Vec<String>) {
    compare("comparison", &recorded["comparison"], &json!(found.comparison.name()), out);
    let asked = match found.comparison {
        Compared::RemoteIsNotSynced(fork) => json!(fork.common.0),
        _ => Value::Null,
    };
    compare("common height", &recorded[common], &asked, out);
    let (mut validity, mut result) = (Value::Null, Value::Null);
    if let Some(outcome) = &found.outcome {
        validity = validity_of(outcome);
        result = outcome.of_synchronisation().map_or(Value::Null, |result| json!(result.name()));
    }
    if is_stale_importance(&recorded["interaction"]) {
        return compare("chain part", &json!("FAILURE_BLOCK_NOT_HIT"), &validity, out);
    }
    compare("chain part", &recorded["chainPart"], &validity, out);
    compare("result", &recorded["result"], &result, out);
    compare("interaction", &recorded["interaction"], &json!(interaction_of(found)), out);
    compare_scores(&recorded["scores"], found.outcome.as_ref(), out);
}

fn was_accepted(found: &Synchronisation) -> bool {
    found.outcome.as_ref().is_some_and(|outcome| outcome.switch.is_some())
}

fn check_block_by_synchronisation(stage: &mut Stage<'_>, case: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let Ok(block) = Block::from_bytes(&bytes_of(&case["block"]), Context::of(&stage.chain.network)) else {
        // The network reads a transaction of no bytes and fails over it later.
        if case["sync"]["interaction"] != "EXCEPTION" {
            compare("readable", &Value::Null, &case["sync"], &mut out);
        }
        return out;
    };
    let score = tip_of(stage.store()).score + 1;
    let remote = Remote::with_block(score, case["parentHeight"].as_u64().unwrap(), block);
    let found = synchronise(stage, &remote, time_of(case));
    match case["hazard"] == true {
        true if was_accepted(&found) => out.push("a hazard was accepted".to_owned()),
        true => {}
        false => compare_synchronisation(&case["sync"], "commonHeight", &found, &mut out),
    }
    if was_accepted(&found) {
        stage.restore();
    }
    out
}

#[test]
fn every_block_gets_the_recorded_result_by_synchronisation_too() {
    replay("blocks.jsonl", check_block_by_synchronisation);
}

fn check_chain_part(stage: &mut Stage<'_>, case: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let remote = Remote::of(stage, &case["peer"]);
    let height = tip_of(stage.store()).height;
    let found = synchronise(stage, &remote, time_of(case));
    compare_synchronisation(case, "requestedAfter", &found, &mut out);
    if let Compared::RemoteIsNotSynced(fork) = found.comparison {
        let least = height.0 - fork.common.0;
        // The network asks for ten blocks at least.
        compare("least number of blocks", &case["minBlocks"], &json!(least.max(10)), &mut out);
    }
    compare_after(stage, case, found.outcome.as_ref(), &mut out);
    if was_accepted(&found) {
        stage.restore();
    }
    out
}

#[test]
fn every_chain_part_gets_the_recorded_result() {
    replay("chain-parts.jsonl", check_chain_part);
}
