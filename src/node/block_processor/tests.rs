use std::ffi::OsString;
use std::path::Path;

use clap::Parser;
use tempfile::TempDir;

use super::*;
use crate::clock::System;
use crate::codec::Format;
use crate::codec::block_file::BlockFile;
use crate::commands::{self, Cli, Command};
use crate::config::{self, Settings};
use crate::crypto::{KeyPair, PrivateKey, PublicKey};
use crate::model::{Hash256, Height};
use crate::peer::wire::{AnswerContext, AuthenticatedResponse, BlockList, Challenge, List};
use crate::state;
use crate::store::{AccessMode, Options};

const SYSTEM: System = System { unix_millis: || 1_800_000_000_000, millis: || 0, sleep: |_| {}, random: |_| Ok(()) };
/// Network time after all blocks.
const AFTER_ALL_BLOCKS: Timestamp = Timestamp(i32::MAX - 100);
const SENDER: Pusher = Pusher { key: PublicKey([1; 32]), from: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST) };

fn tiny(name: &str) -> OsString {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recorded/chains/tiny").join(name).into()
}

/// The recorded chain up to a height, in its own store.
struct Chain {
    folder: TempDir,
    settings: Settings,
}

impl Chain {
    fn up_to(height: u64) -> Chain {
        let folder = tempfile::tempdir().unwrap();
        let words = ["nisd", "import", "--stop-at", &height.to_string(), "--data"].map(OsString::from);
        let files = [folder.path().into(), "--config".into(), tiny("network.properties"), tiny("blocks.bin")];
        let mut cli = Cli::try_parse_from(words.into_iter().chain(files)).unwrap();
        let (file, flags) = cli.command.take_settings().unwrap();
        let settings = config::load(file.as_deref(), flags, Some(Path::new("unused"))).unwrap();
        let Command::Import(command) = &cli.command else { unreachable!() };
        commands::import(command, &settings, SYSTEM, Default::default()).unwrap();
        Chain { folder, settings }
    }

    fn store(&self) -> Store {
        Store::open_existing(self.folder.path(), AccessMode::Exclusive, Options { map_size: 1 << 26 }).unwrap().0
    }

    /// The blocks of the recorded chain, from height 2.
    fn blocks(&self) -> Vec<Block> {
        let mut file = BlockFile::new(std::fs::File::open(tiny("blocks.bin")).unwrap()).unwrap();
        let (mut blocks, mut bytes) = (Vec::new(), Vec::new());
        while file.next(&mut bytes).unwrap() {
            blocks.push(Block::from_bytes(&bytes, Context::of(&self.settings.network)).unwrap());
        }
        blocks
    }
}

/// Blocks as a peer's response contains them.
fn answered(blocks: &[Block], network: &Network) -> BlockList {
    let (challenge, pair) = (Challenge([1; 64]), KeyPair::new(&PrivateKey::from_seed(&[2; 32])));
    let answer = AuthenticatedResponse { entity: List(blocks.to_vec()), signature: challenge.sign(&pair) };
    let body = Format::Binary.to_bytes(&answer);
    let (context, key) = (Context::of(network), pair.public());
    AnswerContext { format: Format::Binary, context, challenge, key }.open_list(body).unwrap()
}

fn pulled(blocks: &[Block], common: u64, base: Hash256, network: &Network) -> FetchedBlocks {
    let from = Address::from_public_key(&SENDER.key, network.byte);
    FetchedBlocks { from, common: Height(common), base, blocks: answered(blocks, network) }
}

fn run(processor: &mut BlockProcessor<'_>) -> Vec<ProcessedBlocks> {
    let mut all = Vec::new();
    for _ in 0..100_000 {
        if !processor.has_work() {
            return all;
        }
        all.extend(processor.step(AFTER_ALL_BLOCKS).unwrap());
    }
    panic!("it does not end");
}

fn result(processed: &[ProcessedBlocks]) -> &Outcome {
    assert_eq!(processed.len(), 1);
    &processed[0].outcome
}

fn tip_hash(store: &Store) -> Hash256 {
    tip(&store.snapshot().unwrap()).unwrap().unwrap().hash
}

#[test]
fn fetched_blocks_give_the_same_chain_as_an_import() {
    let (chain, whole) = (Chain::up_to(20), Chain::up_to(60));
    let (store, network) = (chain.store(), &chain.settings.network);
    let mut processor = BlockProcessor::new(&store, network);
    processor.pull(pulled(&chain.blocks()[19..59], 20, tip_hash(&store), network));
    let processed = run(&mut processor);
    assert_eq!(result(&processed), &Outcome::Result(ValidationResult::Success));
    let update = processed[0].chain_update.as_ref().unwrap();
    assert_eq!((update.common, update.tip), (Height(20), Height(60)));
    let digest = |store: &Store| state::digest(&store.snapshot().unwrap()).unwrap();
    assert_eq!(digest(&store), digest(&whole.store()));
}

#[test]
fn common_blocks_are_skipped() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let mut processor = BlockProcessor::new(&store, network);
    processor.pull(pulled(&chain.blocks()[15..30], 16, tip_hash(&store), network));
    let processed = run(&mut processor);
    assert_eq!(result(&processed), &Outcome::Result(ValidationResult::Success));
    let update = processed[0].chain_update.as_ref().unwrap();
    assert_eq!((update.common, update.tip), (Height(20), Height(31)));
    processor.pull(pulled(&chain.blocks()[15..30], 16, tip_hash(&store), network));
    let processed = run(&mut processor);
    assert_eq!(result(&processed), &Outcome::Result(ValidationResult::FailureChainScoreInferior), "nothing is new");
    assert_eq!(tip(&store.snapshot().unwrap()).unwrap().unwrap().height, Height(31));
}

#[test]
fn blocks_compared_with_an_older_tip_are_dropped_without_a_penalty() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let mut processor = BlockProcessor::new(&store, network);
    processor.pull(pulled(&chain.blocks()[19..30], 20, Hash256([7; 32]), network));
    assert_eq!(result(&run(&mut processor)), &Outcome::Result(ValidationResult::Neutral));
    assert_eq!(tip(&store.snapshot().unwrap()).unwrap().unwrap().height, Height(20));
}

#[test]
fn missing_or_bad_blocks_are_penalized_and_change_nothing() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (blocks, before) = (chain.blocks(), tip_hash(&store));
    let mut forged = blocks[19..30].to_vec();
    forged[5].signature = forged[4].signature;
    let mut gap = blocks[19..30].to_vec();
    gap.remove(3);
    for bad in [Vec::new(), forged, gap] {
        let mut processor = BlockProcessor::new(&store, network);
        processor.pull(pulled(&bad, 20, before, network));
        let processed = run(&mut processor);
        assert_eq!(result(&processed), &Outcome::Result(ValidationResult::FailureChainScoreInferior));
        assert!(processed[0].chain_update.is_none());
        assert_eq!(tip_hash(&store), before);
    }
}

#[test]
fn a_pushed_block_is_accepted_once_and_offered_for_relay() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (blocks, mut processor) = (chain.blocks(), BlockProcessor::new(&store, network));
    let snapshot = store.snapshot().unwrap();
    let confirmed = ChainSnapshot { snapshot: &snapshot, network, height: Height(20), now: AFTER_ALL_BLOCKS };
    let push = |processor: &mut BlockProcessor<'_>, block: &Block| {
        processor.push(block.clone(), SENDER, &confirmed, true).unwrap()
    };
    assert_eq!(push(&mut processor, &blocks[19]), PushOutcome::Queued);
    assert_eq!(push(&mut processor, &blocks[19]), PushOutcome::Ignored, "it has come before");
    assert_eq!(
        push(&mut processor, &blocks[25]),
        PushOutcome::Rejected(ValidationResult::FailureEntityUnusableOutOfSync)
    );
    let forged = Block { signature: blocks[3].signature, timestamp: Timestamp(1), ..blocks[19].clone() };
    assert_eq!(push(&mut processor, &forged), PushOutcome::Rejected(ValidationResult::FailureSignatureNotVerifiable));
    let processed = run(&mut processor);
    assert_eq!(result(&processed), &Outcome::Result(ValidationResult::Success));
    let BlockOrigin::Pushed(pushed) = &processed[0].origin else { panic!("{:?}", processed[0].origin) };
    assert_eq!((pushed.by, &*pushed.block), (SENDER, &blocks[19]));
    assert_eq!(processed[0].chain_update.as_ref().unwrap().tip, Height(21));
    assert_eq!(tip_hash(&store), blocks[19].hash());
}

#[test]
fn a_forged_copy_does_not_block_the_genuine_block() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (blocks, mut processor) = (chain.blocks(), BlockProcessor::new(&store, network));
    let snapshot = store.snapshot().unwrap();
    let confirmed = ChainSnapshot { snapshot: &snapshot, network, height: Height(20), now: AFTER_ALL_BLOCKS };
    let push = |processor: &mut BlockProcessor<'_>, block| processor.push(block, SENDER, &confirmed, true).unwrap();
    let forged = Block { signature: blocks[3].signature, ..blocks[19].clone() };
    assert_eq!(forged.hash(), blocks[19].hash());
    assert_eq!(
        push(&mut processor, forged.clone()),
        PushOutcome::Rejected(ValidationResult::FailureSignatureNotVerifiable)
    );
    assert_eq!(push(&mut processor, forged), PushOutcome::Ignored);
    assert_eq!(push(&mut processor, blocks[19].clone()), PushOutcome::Queued);
    drop(snapshot);
    run(&mut processor);
    assert_eq!(tip_hash(&store), blocks[19].hash());
}

#[test]
fn an_invalid_sibling_of_the_tip_is_rejected_and_changes_nothing() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (blocks, mut processor) = (chain.blocks(), BlockProcessor::new(&store, network));
    let snapshot = store.snapshot().unwrap();
    let confirmed = ChainSnapshot { snapshot: &snapshot, network, height: Height(20), now: AFTER_ALL_BLOCKS };
    let sibling = Block { timestamp: Timestamp(blocks[18].timestamp.0 + 1), ..blocks[18].clone() };
    assert_eq!(processor.push(sibling, SENDER, &confirmed, true).unwrap(), PushOutcome::Queued);
    drop(snapshot);
    let processed = run(&mut processor);
    assert_eq!(result(&processed), &Outcome::Result(ValidationResult::FailureChainInvalid), "its signature is wrong");
    assert!(processed[0].chain_update.is_none());
    assert_eq!(tip_hash(&store), blocks[18].hash());
}

#[test]
fn a_peer_that_fills_the_push_queue_does_not_block_other_peers() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (blocks, mut processor) = (chain.blocks(), BlockProcessor::new(&store, network));
    let snapshot = store.snapshot().unwrap();
    let confirmed = ChainSnapshot { snapshot: &snapshot, network, height: Height(20), now: AFTER_ALL_BLOCKS };
    // A sender has as many keys and, in an IPv6 network, addresses as it likes.
    let attacker = |number: u8| {
        let from = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, number.into()).into();
        Pusher { key: PublicKey([number; 32]), from }
    };
    let sibling = |second| Block { timestamp: Timestamp(blocks[18].timestamp.0 + second), ..blocks[18].clone() };
    for number in 0..MAX_QUEUED as u8 {
        let pushed = processor.push(sibling(i32::from(number) + 1), attacker(number), &confirmed, true).unwrap();
        assert_eq!(pushed, PushOutcome::Queued);
    }
    assert_eq!(processor.push(sibling(1000), attacker(99), &confirmed, true).unwrap(), PushOutcome::Ignored);
    assert_eq!(processor.push(blocks[19].clone(), SENDER, &confirmed, true).unwrap(), PushOutcome::Queued);
    assert_eq!((processor.queue.len(), processor.queue.back().unwrap().by), (MAX_QUEUED, SENDER));
    let bytes: usize =
        processor.queue.iter().map(|waiting| waiting.block.to_bytes(SigningForm::Verifiable).len()).sum();
    assert_eq!(processor.queue_bytes, bytes);
    drop(snapshot);
    let processed = run(&mut processor);
    assert_eq!(processed.iter().filter(|judged| judged.chain_update.is_some()).count(), 1);
    assert_eq!(tip_hash(&store), blocks[19].hash());
    // The newest of the attacker's blocks was dropped, and may be pushed again.
    let snapshot = store.snapshot().unwrap();
    let confirmed = ChainSnapshot { snapshot: &snapshot, network, height: Height(21), now: AFTER_ALL_BLOCKS };
    let push = |processor: &mut BlockProcessor<'_>, second| {
        processor.push(sibling(second), attacker(1), &confirmed, true).unwrap()
    };
    assert_eq!(push(&mut processor, MAX_QUEUED as i32 - 1), PushOutcome::Ignored);
    assert_eq!(
        push(&mut processor, MAX_QUEUED as i32),
        PushOutcome::Rejected(ValidationResult::FailureEntityUnusableOutOfSync)
    );
}

#[test]
fn pushed_blocks_need_a_booted_node_and_their_queue_is_limited() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (blocks, mut processor) = (chain.blocks(), BlockProcessor::new(&store, network));
    let snapshot = store.snapshot().unwrap();
    let confirmed = ChainSnapshot { snapshot: &snapshot, network, height: Height(20), now: AFTER_ALL_BLOCKS };
    assert_eq!(processor.push(blocks[19].clone(), SENDER, &confirmed, false).unwrap(), PushOutcome::NotBooted);
    assert_eq!(processor.push(blocks[19].clone(), SENDER, &confirmed, true).unwrap(), PushOutcome::Ignored);
    assert!(!processor.has_work());
    let sibling = |second| Block { timestamp: Timestamp(blocks[18].timestamp.0 + second), ..blocks[18].clone() };
    for second in 0..MAX_QUEUED as i32 {
        assert_eq!(processor.push(sibling(second + 1), SENDER, &confirmed, true).unwrap(), PushOutcome::Queued);
    }
    assert_eq!(processor.push(sibling(1000), SENDER, &confirmed, true).unwrap(), PushOutcome::Ignored);
    assert_eq!(processor.queue.len(), MAX_QUEUED);
    assert_eq!(run(&mut processor).len(), MAX_QUEUED);
    assert_eq!(processor.queue_bytes, 0);
    assert_eq!(
        processor.push(sibling(1000), SENDER, &confirmed, true).unwrap(),
        PushOutcome::Queued,
        "there is space again"
    );
}
