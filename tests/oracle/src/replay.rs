//! Repeats recorded decisions from the files alone.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use nisd::codec::Context;
use nisd::codec::block_file::BlockFile;
use nisd::model::{Address, Block};
use serde_json::Value;

use super::ground::{FAR_FUTURE, NodeUnderTest};
use super::record::text;
use super::rule::ExpectedResult;

/// Counts of what was read from the files of a network.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayCounts {
    pub blocks: u64,
    pub refused: u64,
    pub undone: u64,
    /// Valid parts of several blocks.
    pub long: u64,
    /// Valid parts that replaced others.
    pub replacements: u64,
    /// Valid parts that were not better.
    pub worse: u64,
    /// Rejected blocks whose bytes no program writes.
    pub odd: u64,
}

/// Offers all blocks in the folder of a network to a node, and compares results and states with the recorded ones.
pub fn replay(folder: &Path) -> Result<ReplayCounts, String> {
    let files = tempfile::tempdir().expect("a folder");
    let settings = folder.join("node.properties");
    let mut ground = NodeUnderTest::of(&settings, files.path());
    // A node of their own for parts that are accepted and undone: a long one shortens the undo journal, which all others that
    // begin below the tip need.
    let mut other = NodeUnderTest::of(&settings, files.path());
    let mut replayed = ReplayCounts::default();
    let (mut refused, mut undone) = (lines(folder, "refused.jsonl"), lines(folder, "undone.jsonl"));
    let mut states = lines(folder, "states.jsonl").into_values().flatten();
    let mut file = BlockFile::new(File::open(folder.join("blocks.bin")).expect("a file")).expect("a file");
    let (mut chain, mut bytes) = (Vec::new(), Vec::new());
    while file.next(&mut bytes).expect("a block") {
        chain.push(bytes.clone());
    }
    loop {
        let tip = ground.height();
        let state = states.next().ok_or_else(|| format!("no state of height {tip}"))?;
        check_state(&ground, &state)?;
        for line in undone.remove(&tip).into_iter().flatten() {
            let count = |is_so: bool| u64::from(is_so);
            let is_better = line["verdict"] == "SUCCESS";
            replay_undone(if is_better { &mut other } else { &mut ground }, &chain, &line)?;
            replayed.undone += 1;
            replayed.long += count(is_better && line["states"].as_array().is_some_and(|states| states.len() > 1));
            replayed.replacements += count(is_better && line["instead"] != Value::Array(Vec::new()));
            replayed.worse += count(!is_better);
        }
        for line in refused.remove(&tip).into_iter().flatten() {
            replayed.odd += replay_refused(&mut ground, &line)?;
            replayed.refused += 1;
        }
        let Some(block) = chain.get(tip as usize - 1) else { break };
        for node in [&mut ground, &mut other] {
            offer(node, tip, std::slice::from_ref(block), FAR_FUTURE, &text(&ExpectedResult::Valid))?;
        }
        replayed.blocks += 1;
    }
    let is_over = refused.is_empty() && undone.is_empty() && states.next().is_none();
    if is_over { Ok(replayed) } else { Err("lines for a height that no block has".to_owned()) }
}

/// Returns the lines of a file by required tip height, or by their own height.
fn lines(folder: &Path, name: &str) -> BTreeMap<u64, Vec<Value>> {
    let text = std::fs::read_to_string(folder.join(name)).expect("a file");
    let mut lines: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("a line");
        let height = line.get("tip").unwrap_or(&line["height"]).as_u64().expect("a height");
        lines.entry(height).or_default().push(line);
    }
    lines
}

fn blocks(list: &Value) -> Vec<Vec<u8>> {
    let hex = |one: &Value| hex::decode(one.as_str().expect("hex")).expect("hex");
    list.as_array().expect("blocks").iter().map(hex).collect()
}

fn offer(
    ground: &mut NodeUnderTest,
    above: u64,
    blocks: &[Vec<u8>],
    now: i32,
    expected: &Value,
) -> Result<Vec<String>, String> {
    let (found, returned) = ground.offer_bytes(above, blocks, now);
    let hashes = returned.iter().map(|one| one.hash().to_string()).collect();
    if text(&found) == *expected { Ok(hashes) } else { Err(format!("above {above}: {found:?}, not {expected}")) }
}

/// Returns 1 if the bytes are odd, otherwise 0.
fn replay_refused(ground: &mut NodeUnderTest, line: &Value) -> Result<u64, String> {
    let (tip, above) = (ground.height(), line["above"].as_u64().expect("a height"));
    let (now, bytes) = (line["time"].as_i64().expect("a time") as i32, blocks(&line["blocks"]));
    let read = |bytes: &Vec<u8>| Block::from_bytes(bytes, Context::of(ground.network()));
    let is_odd = bytes.iter().any(|one| read(one).is_ok_and(|block| super::bytes_of(&[block])[0] != *one));
    if line["trusted"] == true {
        let block = read(&bytes[0]).expect("a block");
        let found = text(&ground.import_trusted(&block));
        return if found == line["verdict"] { Ok(0) } else { Err(format!("trusted above {above}: {found}")) };
    }
    offer(ground, above, &bytes, now, &line["verdict"])?;
    if ground.height() == tip { Ok(u64::from(is_odd)) } else { Err(format!("taken in above {above}")) }
}

/// Restores the situation, offers the part, and rolls back.
fn replay_undone(ground: &mut NodeUnderTest, chain: &[Vec<u8>], line: &Value) -> Result<(), String> {
    let (tip, above) = (ground.height(), line["above"].as_u64().expect("a height"));
    let now = line["time"].as_i64().expect("a time") as i32;
    let (instead, part) = (blocks(&line["instead"]), blocks(&line["blocks"]));
    let valid = text(&ExpectedResult::Valid);
    if !instead.is_empty() {
        ground.roll_back(above);
        offer(ground, above, &instead, FAR_FUTURE, &valid)?;
    }
    let returned = offer(ground, above, &part, now, &line["verdict"])?;
    let expected: Vec<&str> = line["returned"].as_array().expect("hashes").iter().filter_map(Value::as_str).collect();
    if returned != expected {
        return Err(format!("above {above}: {returned:?} came back, not {expected:?}"));
    }
    if line["verdict"] == valid {
        // From last to first, because that only needs rollbacks.
        for state in line["states"].as_array().expect("states").iter().rev() {
            check_state(ground, state)?;
            ground.roll_back(ground.height() - 1);
        }
        if ground.height() != above {
            return Err(format!("above {above}: not one state for each block"));
        }
        for block in &chain[above as usize - 1..tip as usize - 1] {
            offer(ground, ground.height(), std::slice::from_ref(block), FAR_FUTURE, &valid)?;
        }
    }
    Ok(())
}

/// Compares the observable state with a recorded line.
fn check_state(ground: &NodeUnderTest, line: &Value) -> Result<(), String> {
    let height = ground.height();
    let differs = |what: &str| format!("{what} after height {height} is not that of {line}");
    if line["height"] != height || line["score"] != ground.score().to_string() {
        return Err(differs("the score"));
    }
    let entries = |name: &str| line[name].as_object().expect("an object").iter();
    let address = |text: &str| Address::parse(text, ground.network().byte).expect("an address");
    for (owner, account) in entries("accounts") {
        if account["balance"] != ground.balance(&address(owner)).total() {
            return Err(differs("a balance"));
        }
    }
    for (owner, vested) in entries("vested") {
        if *vested != ground.balance(&address(owner)).vested {
            return Err(differs("a vested balance"));
        }
    }
    for (owner, own) in entries("importances") {
        let found = ground.last_importance(&address(owner)).map(|(height, _)| height);
        if own["height"].as_u64() != found {
            return Err(differs("an importance"));
        }
    }
    for mosaic in entries("namespaces").filter_map(|(_, root)| root["mosaics"].as_object()).flatten() {
        if !ground.has_definition(mosaic.0, &mosaic.1["definition"]) {
            return Err(differs("a mosaic"));
        }
    }
    Ok(())
}
