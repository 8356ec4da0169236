//! Writes what was offered and what came of it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use nisd::codec::Form;
use nisd::codec::block_file::write_block;
use nisd::model::{Block, Transaction};
use serde_json::{Map, Value, json};

use super::model::{Account, Model, Root};
use super::rule::{Rule, Verdict};
use super::world::World;

/// Files in the folder of a network.
pub struct Recorder {
    blocks: BufWriter<File>,
    refused: BufWriter<File>,
    announced: BufWriter<File>,
    undone: BufWriter<File>,
    states: BufWriter<File>,
    pools: BufWriter<File>,
}

impl Recorder {
    pub fn new(folder: &Path) -> Recorder {
        let create = |name: &str| BufWriter::new(File::create(folder.join(name)).expect("a file"));
        Recorder {
            blocks: create("blocks.bin"),
            refused: create("refused.jsonl"),
            announced: create("announced.jsonl"),
            undone: create("undone.jsonl"),
            states: create("states.jsonl"),
            pools: create("pools.jsonl"),
        }
    }

    /// A block that stays.
    pub fn accepted(&mut self, block: &Block) {
        write_block(&mut self.blocks, &block.to_bytes(Form::Verifiable)).expect("room");
    }

    /// Blocks that were refused as a part.
    pub fn refused(&mut self, blocks: &[Block], at: (u64, i32), rule: Rule, found: &Verdict) {
        let bytes: Vec<Vec<u8>> = blocks.iter().map(|block| block.to_bytes(Form::Verifiable)).collect();
        self.refused_bytes(blocks[0].height.0 - 1, &bytes, at, rule, found);
    }

    /// The same as the bytes that were sent, which are to follow the block at a height.
    pub fn refused_bytes(
        &mut self,
        above: u64,
        blocks: &[Vec<u8>],
        (tip, now): (u64, i32),
        rule: Rule,
        found: &Verdict,
    ) {
        let (rule, verdict) = (rule.name(), text(found));
        let blocks: Vec<String> = blocks.iter().map(hex::encode).collect();
        let line =
            json!({ "above": above, "tip": tip, "time": now, "rule": rule, "verdict": verdict, "blocks": blocks });
        writeln!(self.refused, "{line}").expect("room");
    }

    /// A part that was taken in and undone, between two states.
    pub fn undone(&mut self, world: &World, blocks: &[Vec<u8>], (tip, now): (u64, i32), [before, after]: [&Model; 2]) {
        let blocks: Vec<String> = blocks.iter().map(hex::encode).collect();
        let state = changes(world, before, after);
        let line = json!({ "above": before.height, "tip": tip, "time": now, "blocks": blocks, "state": state });
        writeln!(self.undone, "{line}").expect("room");
    }

    /// What a block that stays, or several, have changed.
    pub fn state(&mut self, world: &World, before: &Model, after: &Model) {
        writeln!(self.states, "{}", changes(world, before, after)).expect("room");
    }

    /// Unconfirmed transactions that were offered to one pool.
    pub fn pool(&mut self, above: u64, now: i32, offered: &[(Transaction, Verdict)]) {
        let offered: Vec<Value> = offered
            .iter()
            .map(|(one, found)| json!({ "transaction": hex::encode(one.to_bytes(Form::Verifiable)), "verdict": text(found) }))
            .collect();
        let line = json!({ "above": above, "time": now, "transactions": offered });
        writeln!(self.pools, "{line}").expect("room");
    }

    /// An unconfirmed transaction.
    pub fn announced(&mut self, transaction: &Transaction, above: u64, now: i32, found: &Verdict) {
        let hex = hex::encode(transaction.to_bytes(Form::Verifiable));
        let line = json!({ "above": above, "time": now, "verdict": text(found), "transaction": hex });
        writeln!(self.announced, "{line}").expect("room");
    }
}

fn text(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Valid => json!("SUCCESS"),
        Verdict::Refused(result) => json!(result.name()),
        Verdict::Exception(text) => json!({ "text": text }),
        Verdict::Somehow => Value::Null,
    }
}

/// All that is another in a state than in the one before it.
fn changes(world: &World, before: &Model, after: &Model) -> Value {
    let name = |who: &usize| world.people.address(*who).to_string();
    let names = |all: &BTreeSet<usize>| all.iter().map(name).collect::<Vec<_>>();
    let account = |one: &Account| {
        let links = one.links.iter().map(|link| {
            let mode = link.mode.code();
            json!({ "owner": link.is_owner, "other": name(&link.other), "height": link.height, "mode": mode })
        });
        json!({
            "balance": one.balance,
            "harvested": one.harvested,
            "references": one.touched,
            "least": one.least,
            "cosignatories": names(&one.cosignatories),
            "cosignatoryOf": names(&one.cosignatory_of),
            "links": links.collect::<Vec<_>>(),
            "mosaics": one.mosaics.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    };
    let root = |one: &Root| {
        let leases = one
            .leases
            .iter()
            .map(|lease| json!({ "owner": name(&lease.owner), "height": lease.height, "children": lease.children }));
        let mosaics = one.tokens.iter().map(|(id, token)| {
            let balances: Map<String, Value> =
                token.balances.iter().map(|(who, quantity)| (name(who), json!(quantity))).collect();
            (id.to_string(), json!({ "creator": name(&token.creator), "supply": token.supply, "balances": balances }))
        });
        json!({ "leases": leases.collect::<Vec<_>>(), "mosaics": mosaics.collect::<Map<_, _>>() })
    };
    let accounts = after.accounts.iter().enumerate().filter(|(who, one)| before.accounts[*who] != **one);
    let accounts: Map<String, Value> = accounts.map(|(who, one)| (name(&who), account(one))).collect();
    let roots = before.roots.keys().chain(after.roots.keys()).collect::<BTreeSet<_>>();
    let roots = roots.into_iter().filter(|name| before.roots.get(*name) != after.roots.get(*name));
    let roots: Map<String, Value> =
        roots.map(|name| (name.clone(), after.roots.get(name).map_or(Value::Null, root))).collect();
    json!({
        "height": after.height,
        "score": after.proofs.score.to_string(),
        "difficulty": after.proofs.last_difficulty(),
        "hashes": after.hashes.len(),
        "accounts": accounts,
        "namespaces": roots,
    })
}
