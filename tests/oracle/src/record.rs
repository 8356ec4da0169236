//! Writes the offered blocks and transactions with their results.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use nisd::codec::SigningForm;
use nisd::codec::block_file::write_block;
use nisd::model::{Block, MosaicDefinition, Transaction};
use serde_json::{Map, Value, json};

use super::model::{Account, Model, Root};
use super::rule::{ExpectedResult, Rule};
use super::world::TestNetwork;

/// A valid part of a chain and its result.
pub struct Part<'a> {
    /// Height of the block that it follows.
    pub above: u64,
    /// Tip height at the time of the offer.
    pub tip: u64,
    /// Network time.
    pub now: i32,
    /// Blocks that followed that block at the time, if they are not those of the final chain.
    pub replaced: &'a [Vec<u8>],
    pub blocks: &'a [Vec<u8>],
    pub found: ExpectedResult,
    /// Transactions of replaced blocks that were returned.
    pub returned: &'a [Transaction],
}

impl<'a> Part<'a> {
    /// Creates a part on the tip of a state.
    pub fn after(before: &Model, blocks: &'a [Vec<u8>], now: i32) -> Part<'a> {
        let height = before.height;
        Part { above: height, tip: height, now, replaced: &[], blocks, found: ExpectedResult::Valid, returned: &[] }
    }
}

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

    /// Writes a block that stays.
    pub fn accepted(&mut self, block: &Block) {
        write_block(&mut self.blocks, &block.to_bytes(SigningForm::Verifiable)).expect("room");
    }

    /// Writes blocks that were rejected as a part above a height, as the bytes that were sent.
    pub fn refused(
        &mut self,
        above: u64,
        blocks: &[Vec<u8>],
        (tip, now): (u64, i32),
        rule: Rule,
        found: &ExpectedResult,
    ) {
        let (name, verdict, trusted) = (rule.name(), text(found), rule == Rule::B3Blocked);
        let line = json!({
            "above": above, "tip": tip, "time": now, "trusted": trusted, "rule": name, "verdict": verdict,
            "blocks": hexes(blocks),
        });
        writeln!(self.refused, "{line}").expect("room");
    }

    /// Writes a valid part that does not stay or is offered again, with the state before it and after each of its
    /// blocks.
    pub fn undone(&mut self, world: &TestNetwork, part: &Part<'_>, states: &[&Model]) {
        let states: Vec<Value> = states.windows(2).map(|pair| changes(world, pair[0], pair[1])).collect();
        let returned: Vec<String> = part.returned.iter().map(|one| one.hash().to_string()).collect();
        let line = json!({
            "above": part.above, "tip": part.tip, "time": part.now, "instead": hexes(part.replaced),
            "blocks": hexes(part.blocks), "verdict": text(&part.found), "returned": returned, "states": states,
        });
        writeln!(self.undone, "{line}").expect("room");
    }

    /// Writes the changes of a block that stays.
    pub fn state(&mut self, world: &TestNetwork, before: &Model, after: &Model) {
        writeln!(self.states, "{}", changes(world, before, after)).expect("room");
    }

    /// Writes unconfirmed transactions offered to one mempool.
    pub fn pool(&mut self, above: u64, now: i32, offered: &[(Transaction, ExpectedResult)]) {
        let offered: Vec<Value> = offered
            .iter()
            .map(|(one, found)| json!({ "transaction": hex::encode(one.to_bytes(SigningForm::Verifiable)), "verdict": text(found) }))
            .collect();
        let line = json!({ "above": above, "time": now, "transactions": offered });
        writeln!(self.pools, "{line}").expect("room");
    }

    /// Writes an unconfirmed transaction.
    pub fn announced(&mut self, transaction: &Transaction, above: u64, now: i32, found: &ExpectedResult) {
        let hex = hex::encode(transaction.to_bytes(SigningForm::Verifiable));
        let line = json!({ "above": above, "time": now, "verdict": text(found), "transaction": hex });
        writeln!(self.announced, "{line}").expect("room");
    }
}

fn hexes(blocks: &[Vec<u8>]) -> Vec<String> {
    blocks.iter().map(hex::encode).collect()
}

/// Returns a verdict in its written form.
pub fn text(verdict: &ExpectedResult) -> Value {
    match verdict {
        ExpectedResult::Valid => json!("SUCCESS"),
        ExpectedResult::Rejected(result) => json!(result.name()),
        ExpectedResult::Exception(text) => json!({ "text": text }),
        ExpectedResult::RejectedSomehow => Value::Null,
    }
}

/// Returns the differences between two states.
fn changes(world: &TestNetwork, before: &Model, after: &Model) -> Value {
    let name = |who: &usize| world.key_ring.address(*who).to_string();
    let names = |all: &BTreeSet<usize>| all.iter().map(name).collect::<Vec<_>>();
    let account = |one: &Account| {
        let links = one.links.iter().map(|link| {
            let mode = link.mode.code();
            json!({ "owner": link.is_owner, "other": name(&link.other), "height": link.height, "mode": mode })
        });
        json!({
            "balance": one.balance,
            "harvested": one.harvested,
            "references": one.referenced,
            "least": one.min_cosignatories,
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
            let definition = definition(&token.definition);
            let creator = name(&token.creator);
            let token =
                json!({ "creator": creator, "supply": token.supply, "definition": definition, "balances": balances });
            (id.to_string(), token)
        });
        json!({ "leases": leases.collect::<Vec<_>>(), "mosaics": mosaics.collect::<Map<_, _>>() })
    };
    let accounts = after.accounts.iter().enumerate().filter(|(who, one)| before.accounts[*who] != **one);
    let accounts: Map<String, Value> = accounts.map(|(who, one)| (name(&who), account(one))).collect();
    let roots = before.roots.keys().chain(after.roots.keys()).collect::<BTreeSet<_>>();
    let roots = roots.into_iter().filter(|name| before.roots.get(*name) != after.roots.get(*name));
    let roots: Map<String, Value> =
        roots.map(|name| (name.clone(), after.roots.get(name).map_or(Value::Null, root))).collect();
    let all = || 0..after.accounts.len();
    let vested = |model: &Model, who| model.vested(who, &world.terms);
    let newly_vested = all().filter(|who| vested(before, *who) != vested(after, *who));
    let newly_vested: Map<String, Value> = newly_vested.map(|who| (name(&who), json!(vested(after, who)))).collect();
    let importances = all().filter(|who| before.accounts[*who].importance != after.accounts[*who].importance);
    let importances: Map<String, Value> = importances
        .filter_map(|who| after.accounts[who].importance.map(|one| (who, one)))
        .map(|(who, (height, share))| (name(&who), json!({ "height": height, "importance": share })))
        .collect();
    json!({
        "height": after.height,
        "vested": newly_vested,
        "importances": importances,
        "score": after.proofs.score.to_string(),
        "difficulty": after.proofs.last_difficulty(),
        "hashes": after.hashes.len(),
        "accounts": accounts,
        "namespaces": roots,
    })
}

/// Returns a definition in its written form.
pub fn definition(one: &MosaicDefinition) -> Value {
    let levy = one.levy.as_ref().map(|levy| {
        let (recipient, mosaic) = (levy.recipient.to_string(), levy.mosaic.to_string());
        json!({ "type": levy.kind.code(), "recipient": recipient, "mosaic": mosaic, "fee": levy.fee })
    });
    let properties = &one.properties;
    json!({
        "description": one.description,
        "divisibility": properties.divisibility,
        "initialSupply": properties.initial_supply,
        "supplyMutable": properties.supply_mutable,
        "transferable": properties.transferable,
        "levy": levy,
    })
}
