//! Writes what was offered and what came of it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use nisd::codec::Form;
use nisd::codec::block_file::write_block;
use nisd::model::{Block, Transaction};
use serde_json::{Value, json};

use super::rule::{Rule, Verdict};

/// Files in the folder of a network.
pub struct Recorder {
    blocks: BufWriter<File>,
    refused: BufWriter<File>,
    announced: BufWriter<File>,
}

impl Recorder {
    pub fn new(folder: &Path) -> Recorder {
        let create = |name: &str| BufWriter::new(File::create(folder.join(name)).expect("a file"));
        let (blocks, refused, announced) = ("blocks.bin", "refused.jsonl", "announced.jsonl");
        Recorder { blocks: create(blocks), refused: create(refused), announced: create(announced) }
    }

    /// A block that stays.
    pub fn accepted(&mut self, block: &Block) {
        write_block(&mut self.blocks, &block.to_bytes(Form::Verifiable)).expect("room");
    }

    /// Blocks that were refused as a part.
    pub fn refused(&mut self, blocks: &[Block], now: i32, rule: Rule, found: &Verdict) {
        let hex: Vec<String> = blocks.iter().map(|block| hex::encode(block.to_bytes(Form::Verifiable))).collect();
        let above = blocks[0].height.0 - 1;
        let line = json!({ "above": above, "time": now, "rule": rule.name(), "verdict": text(found), "blocks": hex });
        writeln!(self.refused, "{line}").expect("room");
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
