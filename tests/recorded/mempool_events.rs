//! All events of the node that made a recorded chain, in order: every announcement gets the recorded answer, and the
//! recorded blocks are made again byte for byte from the mempool.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::print_notice;
use crate::common::recorded_chain::{Chain, tip_of};
use crate::common::remote_node::{LocalNode, bytes_of, process_branch, push};
use nisd::budget::Budget;
use nisd::chain::ChainSnapshot;
use nisd::chain::harvest::{HarvestProgress, HarvestRound, KeyOrigin, UnlockResult, UnlockedAccounts};
use nisd::chain::{Verified, pushed_branch};
use nisd::codec::{Context, SigningForm};
use nisd::crypto::{KeyPair, PrivateKey, Signature};
use nisd::mempool::Mempool;
use nisd::model::{Block, Hash256, Height, Timestamp, Transaction};
use nisd::rules::{Rejection, RuleResult};
use nisd::store::Store;
use serde_json::Value;

/// The node: its chain and its mempool.
struct Node<'c> {
    chain: &'c Chain,
    store: &'c Store,
    blocks: BTreeMap<Height, Block>,
    keys: BTreeMap<[u8; 32], PrivateKey>,
    mempool: Mempool,
    announced: usize,
    wrong: Vec<String>,
}

/// Returns the text of an answer as recorded.
fn text_of_outcome(outcome: &RuleResult) -> String {
    match outcome {
        Ok(()) => "SUCCESS".to_owned(),
        Err(Rejection::Result(result)) => result.name().to_owned(),
        Err(Rejection::Exception(exception)) => format!("EXCEPTION: {exception}"),
        Err(other) => panic!("{other}"),
    }
}

impl Node<'_> {
    fn with_mempool<T>(&mut self, now: Timestamp, act: impl FnOnce(&mut Mempool, &ChainSnapshot<'_>) -> T) -> T {
        let height = tip_of(self.store).height;
        let snapshot = self.store.snapshot().unwrap();
        let confirmed = ChainSnapshot { snapshot: &snapshot, network: &self.chain.network, height, now };
        act(&mut self.mempool, &confirmed)
    }

    fn on(&mut self, event: &Value) {
        let now = Timestamp(event["clock"].as_i64().unwrap() as i32);
        match event["event"].as_str().unwrap() {
            "announce" => self.announce(event, now),
            "block" => self.on_own_block(event, now),
            "push of a rival block" => self.push(event, now),
            "batch of unconfirmed transactions from a peer" => self.batch(event, now),
            other => panic!("{other}"),
        }
    }

    fn announce(&mut self, event: &Value, now: Timestamp) {
        let context = Context::of(&self.chain.network);
        let mut transaction =
            Transaction::from_bytes(&bytes_of(&event["data"]), SigningForm::NonVerifiable, context).unwrap();
        transaction.signature = Some(Signature(bytes_of(&event["signature"]).try_into().unwrap()));
        assert_eq!(event["hash"], transaction.hash().to_string());
        let outcome = self.with_mempool(now, |pool, confirmed| pool.add(transaction, confirmed).map(drop));
        let found = text_of_outcome(&outcome);
        self.announced += 1;
        if event["result"] != found {
            self.wrong.push(format!("{} at {now}: {}, found {found}", event["hash"], event["result"]));
        }
    }

    /// The node harvested a block from its mempool.
    fn on_own_block(&mut self, event: &Value, now: Timestamp) {
        let height = Height(event["height"].as_u64().unwrap());
        let block = self.blocks.remove(&height).unwrap();
        // The recorded node removed expired transactions only when it made a block.
        self.mempool.drop_expired(now);
        self.rebuild(now);
        let made = self.make(&block);
        if made.as_ref() != Some(&block) {
            let count = made.map(|made| made.transactions.len());
            self.wrong.push(format!("block {height} of {} transactions: made {count:?}", block.transactions.len()));
        }
        let hashes: BTreeSet<Hash256> = block.transactions.iter().map(Transaction::hash).collect();
        let part = pushed_branch(self.store, &self.chain.network, block, Verified::default()).unwrap();
        let reorg = process_branch(part, now).update.unwrap();
        self.mempool.chain_changed(reorg.common, hashes, reorg.returned);
        self.rebuild(now);
    }

    /// Returns the block that our harvester makes from the mempool at the time of `block`.
    fn make(&mut self, block: &Block) -> Option<Block> {
        let private = self.keys.get(&block.signer.0)?;
        let (network, height) = (&self.chain.network, tip_of(self.store).height);
        let snapshot = self.store.snapshot().unwrap();
        let chain = ChainSnapshot { snapshot: &snapshot, network, height, now: block.timestamp };
        let mut unlocked = UnlockedAccounts::new(1);
        let result = unlocked.unlock(Box::new(KeyPair::new(private)), KeyOrigin::LocalClient, &chain).unwrap();
        assert_eq!(result, UnlockResult::Success);
        let mut round = HarvestRound::begin(&mut unlocked, &chain).unwrap()?;
        loop {
            match round.step(&unlocked, || self.mempool.in_fee_order(), &chain).unwrap() {
                HarvestProgress::Working => {}
                HarvestProgress::Discarded(_, error) => panic!("{error}"),
                HarvestProgress::Done(harvested) => return harvested.map(|harvested| harvested.block),
            }
        }
    }

    fn rebuild(&mut self, now: Timestamp) {
        self.with_mempool(now, |pool, confirmed| {
            while pool.is_rebuilding() {
                pool.step_rebuild(confirmed, &mut Budget::new(0)).unwrap();
            }
        });
    }

    fn push(&mut self, event: &Value, now: Timestamp) {
        let local = LocalNode { chain: self.chain, store: self.store };
        let (result, _) = push(local, self.chain.block(&bytes_of(&event["block"])), now);
        if event["result"] != result {
            self.wrong.push(format!("rival at {now}: {}, found {result}", event["result"]));
        }
    }

    fn batch(&mut self, event: &Value, now: Timestamp) {
        let context = Context::of(&self.chain.network);
        let list = event["transactions"].as_array().unwrap().iter();
        let list =
            list.map(|bytes| Transaction::from_bytes(&bytes_of(bytes), SigningForm::Verifiable, context).unwrap());
        for transaction in list {
            let _ = self.with_mempool(now, |pool, confirmed| pool.add(transaction, confirmed));
        }
        if event["poolSizeAfter"] != self.mempool.len() {
            self.wrong.push(format!("batch at {now}: {}, found {}", event["poolSizeAfter"], self.mempool.len()));
        }
    }
}

/// Returns the private keys by public key.
fn keys_of(chain: &Chain) -> BTreeMap<[u8; 32], PrivateKey> {
    let keys: Value = serde_json::from_slice(&std::fs::read(chain.folder.join("keys.json")).unwrap()).unwrap();
    let private = |key: &Value| PrivateKey::from_hex(key["privateKey"].as_str().unwrap()).unwrap();
    let entry = |key: &Value| (bytes_of(&key["publicKey"]).try_into().unwrap(), private(key));
    keys["accounts"].as_array().unwrap().iter().map(entry).collect()
}

fn every_event_is_answered_as_recorded(name: &str) {
    let chain = Chain::open(name);
    let folder = tempfile::tempdir().unwrap();
    let store = chain.store(folder.path());
    chain.import(&store, 1);
    let blocks = chain.blocks().into_iter().map(|block| (block.height, block)).collect();
    let pool = Mempool::default();
    let mut node = Node {
        chain: &chain,
        store: &store,
        blocks,
        keys: keys_of(&chain),
        mempool: pool,
        announced: 0,
        wrong: Vec::new(),
    };
    for event in chain.lines("events.jsonl.gz") {
        node.on(&event);
    }
    print_notice(&format!("{name}: {} announcements, {} differences", node.announced, node.wrong.len()));
    assert!(node.announced > 0 && node.wrong.is_empty(), "{}", node.wrong.join("\n"));
    assert!(node.blocks.is_empty());
}

for_each_chain!(mempool_events_and_harvested_blocks, every_event_is_answered_as_recorded);
