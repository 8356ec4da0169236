use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::super::read_ahead::AheadKind;
use super::*;
use crate::clock::System;
use crate::codec::Format;
use crate::codec::block_file::BlockFile;
use crate::commands::{self, Command, CommandLine};
use crate::config::{self, Settings};
use crate::crypto::{KeyPair, PrivateKey, PublicKey};
use crate::model::{Hash256, Height};
use crate::peer::wire::{AnswerContext, AuthenticatedResponse, BlockList, Challenge, List, limits};
use crate::state;
use crate::store::{AccessMode, Options};

const SYSTEM: System = System { unix_millis: || 1_800_000_000_000, millis: || 0, sleep: |_| {}, random: |_| Ok(()) };
/// Network time after all blocks.
const AFTER_ALL_BLOCKS: Timestamp = Timestamp(i32::MAX - 100);
/// Time since the start.
const START: Duration = Duration::from_secs(10);
const NOW: Now = Now { monotonic: START, network: AFTER_ALL_BLOCKS, network_millis: 0 };
const SENDER: Pusher = Pusher { key: PublicKey([1; 32]), from: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST) };

/// Height of a block after which importances are recalculated.
const RECALCULATING: u64 = 359;

fn recorded(chain: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recorded/chains").join(chain).join(name)
}

fn tiny(name: &str) -> OsString {
    recorded("tiny", name).into()
}

/// A recorded chain up to a height, in its own store.
pub struct Chain {
    folder: TempDir,
    pub settings: Settings,
    blocks: PathBuf,
}

impl Chain {
    /// The smallest one.
    pub fn up_to(height: u64) -> Chain {
        Chain::of("tiny", tiny("blocks.bin").into(), tempfile::tempdir().unwrap(), height)
    }

    /// A longer one.
    fn of_one_year(height: u64) -> Chain {
        let (folder, mut bytes) = (tempfile::tempdir().unwrap(), Vec::new());
        let packed = std::fs::read(recorded("one-year", "blocks.bin.gz")).unwrap();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let blocks = folder.path().join("blocks.bin");
        std::fs::write(&blocks, bytes).unwrap();
        Chain::of("one-year", blocks, folder, height)
    }

    fn of(name: &str, blocks: PathBuf, folder: TempDir, height: u64) -> Chain {
        let words = ["nisd", "import", "--stop-at", &height.to_string(), "--data"].map(OsString::from);
        let config = recorded(name, "network.properties").into();
        let files = [folder.path().join("store").into(), "--config".into(), config, blocks.clone().into()];
        let line = CommandLine::parse(words.into_iter().chain(files), "").unwrap();
        let settings = config::load(line.config.as_deref(), line.overrides, Some(Path::new("unused"))).unwrap();
        let Command::Import(command) = &line.command else { unreachable!() };
        commands::import::import(command, &settings, SYSTEM, Default::default()).unwrap();
        Chain { folder, settings, blocks }
    }

    pub fn store(&self) -> Store {
        Store::open_existing(&self.folder.path().join("store"), AccessMode::Exclusive, Options { map_size: 1 << 26 })
            .unwrap()
            .0
    }

    /// The blocks of the recorded chain, from height 2.
    pub fn blocks(&self) -> Vec<Block> {
        let mut file = BlockFile::new(std::fs::File::open(&self.blocks).unwrap()).unwrap();
        let (mut blocks, mut bytes) = (Vec::new(), Vec::new());
        while file.next(&mut bytes).unwrap() {
            blocks.push(Block::from_bytes(&bytes, Context::of(&self.settings.network)).unwrap());
        }
        blocks
    }
}

/// Blocks as a peer's response contains them, in a list that claims to have `missing` more.
fn answered(blocks: &[Block], missing: u8, network: &Network) -> BlockList {
    let (challenge, pair) = (Challenge([1; 64]), KeyPair::new(&PrivateKey::from_seed(&[2; 32])));
    let answer = AuthenticatedResponse { entity: List(blocks.to_vec()), signature: challenge.sign(&pair) };
    let mut body = Format::Binary.to_bytes(&answer);
    // The length of the list comes first, then the number of its blocks.
    body[4] += missing;
    let (context, key) = (Context::of(network), pair.public());
    let expected = AnswerContext { format: Format::Binary, context, challenge, key: Some(key) };
    expected.open_list(body, limits::block(&network.chain)).unwrap()
}

fn pulled(blocks: &[Block], common: u64, base: Hash256, network: &Network) -> FetchedBlocks {
    let from = Address::from_public_key(&SENDER.key, network.byte);
    FetchedBlocks { from, common: Height(common), base, blocks: answered(blocks, 0, network) }
}

fn run(processor: &mut BlockProcessor<'_>) -> Vec<ProcessedBlocks> {
    run_at(AFTER_ALL_BLOCKS, processor)
}

fn run_at(network: Timestamp, processor: &mut BlockProcessor<'_>) -> Vec<ProcessedBlocks> {
    let (mut all, now) = (Vec::new(), Now { monotonic: START, network, network_millis: 0 });
    for _ in 0..100_000 {
        if !processor.has_work(network) {
            return all;
        }
        all.extend(processor.step(now).unwrap());
    }
    panic!("it does not end");
}

fn code<T: std::fmt::Debug>(result: &Result<T, Rejection>) -> ValidationResult {
    match result {
        Ok(_) => ValidationResult::Success,
        Err(Rejection::Result(result)) => *result,
        other => panic!("{other:?}"),
    }
}

fn result(processed: &[ProcessedBlocks]) -> ValidationResult {
    assert_eq!(processed.len(), 1);
    code(&processed[0].result)
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
    assert_eq!(result(&processed), ValidationResult::Success);
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
    assert_eq!(result(&processed), ValidationResult::Success);
    let update = processed[0].chain_update.as_ref().unwrap();
    assert_eq!((update.common, update.tip), (Height(20), Height(31)));
    processor.pull(pulled(&chain.blocks()[15..30], 16, tip_hash(&store), network));
    let processed = run(&mut processor);
    assert_eq!(result(&processed), ValidationResult::FailureChainScoreInferior, "nothing is new");
    assert_eq!(tip(&store.snapshot().unwrap()).unwrap().unwrap().height, Height(31));
}

#[test]
fn our_own_blocks_are_not_replaced_by_themselves_whatever_parent_they_name() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let mut altered = chain.blocks()[15..20].to_vec();
    altered[0].previous_hash = Hash256([7; 32]).into();
    assert_ne!(altered[0].hash(), chain.blocks()[15].hash());
    // They are skipped before anything is proven.
    let mut processor = BlockProcessor::new(&store, network);
    processor.pull(pulled(&altered, 16, tip_hash(&store), network));
    let now = NOW;
    for _ in 0..4 {
        assert!(processor.step(now).unwrap().is_none());
    }
    let (left, read) = processor.decoding.as_ref().map(|(left, read)| (left.common, read.len())).unwrap();
    assert_eq!((left, read), (Height(20), 0));
    // The branch itself skips those that are proven first.
    let mut branch = CandidateBranch::new(&store, network, Height(16), altered).unwrap();
    let outcome = loop {
        if let Some(outcome) = branch.step(AFTER_ALL_BLOCKS, &mut StakeCache::default()).unwrap() {
            break outcome;
        }
    };
    let update = outcome.update.unwrap();
    assert_eq!((update.common, update.tip, update.undone.len()), (Height(20), Height(21), 0));
    assert!(update.returned.is_empty() && update.confirmed.len() == chain.blocks()[19].transactions.len());
}

#[test]
fn blocks_compared_with_an_older_tip_are_dropped_without_a_penalty() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let mut processor = BlockProcessor::new(&store, network);
    processor.pull(pulled(&chain.blocks()[19..30], 20, Hash256([7; 32]), network));
    assert_eq!(result(&run(&mut processor)), ValidationResult::Neutral);
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
        assert_eq!(result(&processed), ValidationResult::FailureChainScoreInferior);
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
    let push =
        |processor: &mut BlockProcessor<'_>, block: &Block| processor.push(block.clone(), SENDER, &snapshot, NOW);
    assert!(push(&mut processor, &blocks[19]).unwrap());
    assert!(!push(&mut processor, &blocks[19]).unwrap(), "it has come before");
    let gap = push(&mut processor, &blocks[25]);
    assert_eq!(code(&gap), ValidationResult::FailureEntityUnusableOutOfSync);
    let forged = Block { signature: blocks[3].signature, timestamp: Timestamp(1), ..blocks[19].clone() };
    assert_eq!(code(&push(&mut processor, &forged)), ValidationResult::FailureSignatureNotVerifiable);
    let processed = run(&mut processor);
    assert_eq!(result(&processed), ValidationResult::Success);
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
    let push = |processor: &mut BlockProcessor<'_>, block| processor.push(block, SENDER, &snapshot, NOW);
    let forged = Block { signature: blocks[3].signature, ..blocks[19].clone() };
    assert_eq!(forged.hash(), blocks[19].hash());
    let rejected = push(&mut processor, forged.clone());
    assert_eq!(code(&rejected), ValidationResult::FailureSignatureNotVerifiable);
    assert!(!push(&mut processor, forged).unwrap());
    assert!(push(&mut processor, blocks[19].clone()).unwrap());
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
    let sibling = Block { timestamp: Timestamp(blocks[18].timestamp.0 + 1), ..blocks[18].clone() };
    assert!(processor.push(sibling, SENDER, &snapshot, NOW).unwrap());
    drop(snapshot);
    let processed = run(&mut processor);
    assert_eq!(result(&processed), ValidationResult::FailureChainInvalid, "its signature is wrong");
    assert!(processed[0].chain_update.is_none());
    assert_eq!(tip_hash(&store), blocks[18].hash());
}

#[test]
fn a_peer_that_fills_the_push_queue_does_not_block_other_peers() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (blocks, mut processor) = (chain.blocks(), BlockProcessor::new(&store, network));
    let snapshot = store.snapshot().unwrap();
    // A sender has as many keys and, in an IPv6 network, addresses as it likes.
    let attacker = |number: u8| {
        let from = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, number.into()).into();
        Pusher { key: PublicKey([number; 32]), from }
    };
    let sibling = |second| Block { timestamp: Timestamp(blocks[18].timestamp.0 + second), ..blocks[18].clone() };
    for number in 0..MAX_QUEUED as u8 {
        let pushed = processor.push(sibling(i32::from(number) + 1), attacker(number), &snapshot, NOW).unwrap();
        assert!(pushed);
    }
    assert!(processor.push(sibling(1000), attacker(99), &snapshot, NOW).unwrap());
    assert!(processor.push(blocks[19].clone(), SENDER, &snapshot, NOW).unwrap());
    assert_eq!((processor.queue.len(), processor.quota.total()), (MAX_QUEUED, MAX_QUEUED_BYTES));
    drop(snapshot);
    let processed = run(&mut processor);
    assert_eq!(processed.iter().filter(|judged| judged.chain_update.is_some()).count(), 1);
    assert_eq!(tip_hash(&store), blocks[19].hash());
    // The two oldest of the attacker's blocks gave way, and may be pushed again.
    let snapshot = store.snapshot().unwrap();
    let mut push = |second| processor.push(sibling(second), attacker(1), &snapshot, NOW);
    for second in [1, 2] {
        assert_eq!(code(&push(second)), ValidationResult::FailureEntityUnusableOutOfSync);
    }
    assert!(!push(3).unwrap() && !push(1000).unwrap());
}

/// Returns how long the block of a newcomer waits for its turn while 63 networks, with two addresses each, push blocks
/// whose proofs are read from a slow disk: one in a millisecond, as long as `pushes` says so of the time until the newcomer
/// comes and the number of blocks that wait.
fn waiting_time_beside_63_networks(pushes: impl Fn(Duration, usize) -> bool) -> Duration {
    const READ_TIME: Duration = Duration::from_millis(50);
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (blocks, mut processor) = (chain.blocks(), BlockProcessor::new(&store, network));
    let (mut ahead, mut reading, mut hostile) = (ReadAhead::cold(START), Vec::new(), 0_u32);
    let comes_at = START + Duration::from_secs(20);
    for millis in 0..40_000 {
        let monotonic = START + Duration::from_millis(millis);
        let now = Now { monotonic, network: AFTER_ALL_BLOCKS, network_millis: 0 };
        let snapshot = store.snapshot().unwrap();
        if pushes(comes_at.saturating_sub(monotonic), processor.quota.len()) {
            hostile += 1;
            let mut key = PublicKey([9; 32]);
            key.0[..4].copy_from_slice(&hostile.to_le_bytes());
            // A sibling of the tip, of a signer without importance.
            let sibling = Block { signer: key, ..blocks[18].clone() };
            let from = std::net::Ipv4Addr::new(45, 1, (hostile % 63) as u8, (hostile / 63 % 2) as u8).into();
            assert!(processor.push(sibling, Pusher { key, from }, &snapshot, now).is_ok());
        }
        if monotonic == comes_at {
            let from = std::net::Ipv4Addr::new(46, 1, 1, 1).into();
            assert!(processor.push(blocks[19].clone(), Pusher { from, ..SENDER }, &snapshot, now).unwrap());
        }
        drop(snapshot);
        processor.read_ahead(Height(20), &mut ahead, now);
        while let Some((waiting, _)) = ahead.next(monotonic) {
            reading.push((monotonic + READ_TIME, waiting));
        }
        for (_, waiting) in reading.extract_if(.., |(at, _)| *at <= monotonic) {
            ahead.finish(waiting, Some(true), READ_TIME, monotonic);
        }
        processor.read_ahead(Height(20), &mut ahead, now);
        while processor.has_work(now.network) {
            let processed = processor.step(now).unwrap();
            if processed.is_some_and(|processed| processed.chain_update.is_some()) {
                return monotonic - comes_at;
            }
            processor.read_ahead(Height(20), &mut ahead, now);
        }
    }
    panic!("the block has lost its place")
}

#[test]
fn the_pushed_block_of_a_newcomer_waits_less_than_five_seconds_whatever_63_networks_push() {
    let (second, most) = (Duration::from_secs(1), Duration::from_secs(5));
    let without_pause = waiting_time_beside_63_networks(|_, _| true);
    assert!(without_pause < most, "{without_pause:?}");
    let burst = waiting_time_beside_63_networks(|left, _| (1..1_000).contains(&left.as_millis()));
    assert!(burst < most, "{burst:?}");
    // Those whose blocks were looked at before come after the newcomer.
    let refilled = waiting_time_beside_63_networks(|_, waiting| waiting < MAX_QUEUED - 2);
    assert!(refilled < second, "{refilled:?}");
}

#[test]
fn pushed_blocks_need_a_booted_node_and_their_queue_is_limited() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (blocks, mut processor) = (chain.blocks(), BlockProcessor::new(&store, network));
    let snapshot = store.snapshot().unwrap();
    assert!(processor.push_before_join(&blocks[19], START));
    assert!(!processor.push(blocks[19].clone(), SENDER, &snapshot, NOW).unwrap());
    assert!(!processor.has_work(AFTER_ALL_BLOCKS));
    let sibling = |second| Block { timestamp: Timestamp(blocks[18].timestamp.0 + second), ..blocks[18].clone() };
    for second in 0..MAX_QUEUED as i32 {
        assert!(processor.push(sibling(second + 1), SENDER, &snapshot, NOW).unwrap());
    }
    assert!(processor.push(sibling(1000), SENDER, &snapshot, NOW).unwrap());
    assert_eq!(processor.queue.len(), MAX_QUEUED);
    assert_eq!(run(&mut processor).len(), MAX_QUEUED);
    assert_eq!((processor.quota.total(), processor.quota.len()), (0, 0));
    assert!(processor.push(sibling(1001), SENDER, &snapshot, NOW).unwrap(), "there is space again");
}

/// Returns the outcome of a branch, and the number of steps until it is known.
fn process(mut branch: CandidateBranch<'_>) -> (ValidationResult, usize) {
    for steps in 1..100_000 {
        if let Some(outcome) = branch.step(AFTER_ALL_BLOCKS, &mut StakeCache::default()).unwrap() {
            return (code(&outcome.validity), steps);
        }
    }
    panic!("it does not end");
}

#[test]
fn a_sibling_that_is_not_proven_or_not_better_undoes_nothing() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let ours = &chain.blocks()[18];
    let stranger = KeyPair::new(&PrivateKey::from_seed(&[7; 32]));
    let signed = |second| {
        let timestamp = Timestamp(ours.timestamp.0 + second);
        let block = Block { timestamp, signer: stranger.public(), ..ours.clone() };
        Block { signature: Some(stranger.sign(&block.to_bytes(SigningForm::NonVerifiable))), ..block }
    };
    let forged = Block { signature: signed(1).signature, ..signed(2) };
    let sibling = |block| process(pushed_branch(&store, network, block, Verified::default()).unwrap());
    let rejected = |result| (result, 2);
    assert_eq!(sibling(forged), rejected(ValidationResult::FailureBlockUnverifiable));
    assert_eq!(sibling(signed(2)), rejected(ValidationResult::FailureBlockNotHit));
    // What was verified before is not verified again.
    let verified = Verified { hash: Some(signed(1).hash()), ..Verified::default() };
    let forged = Block { signature: signed(2).signature, ..signed(1) };
    let known = pushed_branch(&store, network, forged, verified).unwrap();
    assert_eq!(process(known), rejected(ValidationResult::FailureBlockNotHit));
    // A part of our own chain is proven, but not better.
    let part = CandidateBranch::new(&store, network, Height(10), chain.blocks()[9..18].to_vec()).unwrap();
    assert_eq!(process(part), (ValidationResult::Success, 1 + 9 + 1));
}

#[test]
fn no_signature_of_a_transaction_is_checked_before_its_block_is_proven() {
    let chain = Chain::up_to(20);
    let (store, mut network) = (chain.store(), chain.settings.network.clone());
    // The hits of blocks further above the common one than this follow only from those before.
    network.chain.rewrite_limit = 3;
    let mut blocks = chain.blocks()[19..40].to_vec();
    let stranger = KeyPair::new(&PrivateKey::from_seed(&[7; 32]));
    let mut transaction = chain.blocks().iter().find_map(|block| block.transactions.first().cloned()).unwrap();
    transaction.signature = Some(crate::crypto::Signature([7; 64]));
    let sign = |block: &mut Block, parent: Hash256, signer: &KeyPair| {
        (block.previous_hash, block.signer) = (parent.into(), signer.public());
        block.signature = Some(signer.sign(&block.to_bytes(SigningForm::NonVerifiable)));
    };
    blocks.truncate(5);
    blocks[3].transactions = vec![transaction; 50];
    for place in 3..5 {
        let parent = blocks[place - 1].hash();
        sign(&mut blocks[place], parent, &stranger);
    }
    let mut processor = BlockProcessor::new(&store, &network);
    let mut ahead = ReadAhead::cold(START);
    processor.validating = Some((
        Box::new(CandidateBranch::new(&store, &network, Height(20), blocks.clone()).unwrap()),
        BlockOrigin::Pulled(Address::from_public_key(&SENDER.key, network.byte)),
    ));
    let now = NOW;
    let mut most = 0;
    for _ in 0..1_000 {
        processor.read_ahead(Height(20), &mut ahead, now);
        most = most.max(processor.ahead.len());
        while let Some((waiting, _)) = ahead.next(START) {
            ahead.finish(waiting, Some(true), Duration::ZERO, START);
        }
        if let Some(processed) = processor.step(now).unwrap() {
            assert_eq!(result(&[processed]), ValidationResult::FailureChainScoreInferior);
            break;
        }
    }
    assert_eq!(most, 3, "nothing is read for what is not proven");
    let branch = CandidateBranch::new(&store, &network, Height(20), blocks).unwrap();
    assert_eq!(process(branch).0, ValidationResult::FailureBlockNotHit);
}

#[test]
fn a_branch_that_is_proven_in_parts_gives_the_same_chain_as_an_import() {
    let (chain, whole) = (Chain::up_to(20), Chain::up_to(60));
    let (store, mut network) = (chain.store(), chain.settings.network.clone());
    network.chain.rewrite_limit = 7;
    let branch = CandidateBranch::new(&store, &network, Height(15), chain.blocks()[14..59].to_vec()).unwrap();
    assert_eq!(process(branch).0, ValidationResult::Success);
    let digest = |store: &Store| state::digest(&store.snapshot().unwrap()).unwrap();
    assert_eq!(digest(&store), digest(&whole.store()));
}

#[test]
fn a_pushed_block_of_the_near_future_waits_for_its_time() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (next, mut processor) = (chain.blocks()[19].clone(), BlockProcessor::new(&store, network));
    let snapshot = store.snapshot().unwrap();
    let early = |seconds| Now { network: Timestamp(next.timestamp.0 - seconds), ..NOW };
    let mut push = |seconds| processor.push(next.clone(), SENDER, &snapshot, early(seconds)).unwrap();
    assert_eq!([push(61), push(60), push(60), push(11)], [false, true, false, false]);
    drop(snapshot);
    assert!(run_at(early(11).network, &mut processor).is_empty() && processor.queue.len() == 1);
    assert_eq!((processor.quota.len(), processor.early_quota.len()), (0, 1));
    let processed = run_at(early(10).network, &mut processor);
    assert_eq!(result(&processed), ValidationResult::Success);
    assert_eq!(tip_hash(&store), next.hash());
    assert_eq!((processor.quota.len(), processor.early_quota.len()), (0, 0));
}

#[test]
fn blocks_of_the_future_take_no_place_of_a_block_whose_time_has_come_however_many_networks_push_them() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (blocks, mut processor) = (chain.blocks(), BlockProcessor::new(&store, network));
    let snapshot = store.snapshot().unwrap();
    let now = Now { network: blocks[19].timestamp, ..NOW };
    let child = |seconds| {
        let signer = KeyPair::new(&PrivateKey::from_seed(&[7; 32]));
        let timestamp = Timestamp(now.network.0 + seconds);
        let block = Block { timestamp, signer: signer.public(), ..blocks[19].clone() };
        Block { signature: Some(signer.sign(&block.to_bytes(SigningForm::NonVerifiable))), ..block }
    };
    let mut push = |number: u8, seconds, now| {
        let pusher = Pusher { from: std::net::Ipv4Addr::new(45, 1, number, 1).into(), ..SENDER };
        processor.push(child(seconds), pusher, &snapshot, now).unwrap()
    };
    for number in 0..200_u8 {
        assert!(push(number, 11 + i32::from(number % 50), now), "a newcomer gets in");
        assert!(!push(number, 61 + i32::from(number), now), "its time is too far away");
    }
    assert_eq!((processor.early_quota.len(), processor.early_quota.total()), (MAX_EARLY, MAX_EARLY_BYTES));
    assert_eq!((processor.queue.len(), processor.quota.len()), (MAX_EARLY, 0));
    assert!(processor.push(blocks[19].clone(), SENDER, &snapshot, now).unwrap());
    drop(snapshot);
    assert_eq!(result(&run_at(now.network, &mut processor)), ValidationResult::Success);
    // After the clock was set back, those whose time is too far away are dropped.
    processor.place_early(Now { network: Timestamp(0), ..now });
    assert_eq!((processor.queue.len(), processor.early_quota.len()), (0, 0));
}

#[test]
fn a_pushed_block_whose_time_has_come_may_be_pushed_again_after_the_clock_was_set_back() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (next, mut processor) = (chain.blocks()[19].clone(), BlockProcessor::new(&store, network));
    let snapshot = store.snapshot().unwrap();
    assert!(processor.push(next.clone(), SENDER, &snapshot, NOW).unwrap());
    let now = NOW;
    assert!(processor.choose_pushed(now).is_some());
    let early = Now { network: Timestamp(next.timestamp.0 - 11), ..now };
    let processed = std::iter::repeat_with(|| processor.step(early).unwrap()).find_map(|processed| processed);
    let rejection = processed.and_then(|processed| processed.result.err()).unwrap();
    assert!(!rejection.blames_sender());
    assert!(processor.push(next.clone(), SENDER, &snapshot, NOW).unwrap());
    drop(snapshot);
    assert_eq!(result(&run(&mut processor)), ValidationResult::Success);
}

#[test]
fn a_list_that_ends_early_is_of_no_use_and_nobody_is_blamed() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let mut processor = BlockProcessor::new(&store, network);
    let base = tip_hash(&store);
    let fetched = pulled(&[], 20, base, network);
    processor.pull(FetchedBlocks { blocks: answered(&chain.blocks()[19..20], 1, network), ..fetched });
    let processed = run(&mut processor);
    assert!(matches!(processed[..], [ProcessedBlocks { result: Err(Rejection::Unusable), .. }]), "{processed:?}");
    assert_eq!(tip_hash(&store), base);
    let early = ValidationResult::FailureTimestampTooFarInFuture.into();
    assert!(!Rejection::Unusable.blames_sender() && !Rejection::blames_sender(&early));
}

#[test]
fn of_pulled_blocks_those_of_the_future_are_left_and_nobody_is_blamed() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (blocks, mut processor) = (chain.blocks(), BlockProcessor::new(&store, network));
    let before = |block: &Block| Timestamp(block.timestamp.0 - 11);
    processor.pull(pulled(&blocks[19..24], 20, tip_hash(&store), network));
    let processed = run_at(before(&blocks[19]), &mut processor);
    assert!(matches!(processed[..], [ProcessedBlocks { result: Err(Rejection::Unusable), .. }]), "{processed:?}");
    processor.pull(pulled(&blocks[19..24], 20, tip_hash(&store), network));
    let processed = run_at(before(&blocks[21]), &mut processor);
    assert_eq!(result(&processed), ValidationResult::Success);
    assert_eq!(tip_hash(&store), blocks[20].hash());
    // All blocks before are ours, or they are wrong.
    let of_ours = pulled(&blocks[17..24], 18, tip_hash(&store), network);
    let wrong = pulled(&[&blocks[17..18], &blocks[21..24]].concat(), 20, tip_hash(&store), network);
    for (part, expected) in [(of_ours, "Unusable"), (wrong, "Result(FailureChainScoreInferior)")] {
        processor.pull(part);
        let processed = run_at(before(&blocks[21]), &mut processor);
        assert_eq!(format!("{:?}", processed[0].result), format!("Err({expected})"));
    }
}

#[test]
fn a_worse_branch_before_a_block_of_the_future_is_early() {
    let chain = Chain::up_to(58);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (blocks, mut processor) = (chain.blocks(), BlockProcessor::new(&store, network));
    let (mut file, mut bytes) =
        (BlockFile::new(std::fs::File::open(tiny("losing-52.bin")).unwrap()).unwrap(), Vec::new());
    assert!(file.next(&mut bytes).unwrap());
    let losing = Block::from_bytes(&bytes, Context::of(network)).unwrap();
    let (height, future) = (losing.height.0, blocks[58].clone());
    let now = Timestamp(future.timestamp.0 - 11);
    assert_ne!(losing.hash(), blocks[height as usize - 2].hash());
    processor.pull(pulled(&[losing, future], height - 1, tip_hash(&store), network));
    assert_eq!(result(&run_at(now, &mut processor)), ValidationResult::FailureTimestampTooFarInFuture);
}

#[test]
fn a_block_is_read_ahead_in_parts_with_all_its_transactions() {
    let chain = Chain::up_to(1);
    let blocks = chain.blocks();
    let block = blocks.iter().max_by_key(|block| block.transactions.len()).unwrap();
    let transactions: Vec<_> = block.transactions.iter().cycle().take(1_000).cloned().collect();
    let block = Block { transactions, ..block.clone() };
    let mut ahead = ReadAhead::cold(START);
    let ticket = ahead.read_block(&block, &[], START);
    let mut read = Vec::new();
    while let Some((waiting, work)) = ahead.next(START) {
        assert!(work.kind == AheadKind::Block && work.bytes.len() < 70 << 10 && ahead.is_reading(ticket));
        let part = Block::from_bytes(&work.bytes, Context::of(&chain.settings.network)).unwrap();
        assert_eq!((part.height, part.signer), (block.height, block.signer));
        read.extend(part.transactions);
        ahead.finish(waiting, Some(true), Duration::ZERO, START);
    }
    assert!(!ahead.is_reading(ticket) && read == block.transactions);
    let mut ahead = ReadAhead::default();
    ahead.read_block(&block, &[], START);
    assert!(!ahead.has_waiting(), "there are no helpers");
}

#[test]
fn a_block_waits_for_what_its_recalculation_reads_unless_everything_is_in_memory() {
    let block = Chain::up_to(1).blocks().remove(0);
    let parts = vec![RecalculationPart::from_bytes(&[0; 17]).unwrap(); 2];
    let mut ahead = ReadAhead::cold(START);
    let ticket = ahead.read_block(&block, &parts, START);
    for kind in [AheadKind::Block, AheadKind::Recalculation, AheadKind::Recalculation] {
        assert!(ahead.is_reading(ticket));
        let (waiting, work) = ahead.next(START).unwrap();
        assert_eq!(work.kind, kind);
        ahead.finish(waiting, Some(true), Duration::ZERO, START);
    }
    assert!(!ahead.is_reading(ticket));
    let mut warm = ReadAhead::default();
    warm.read_block(&block, &parts, START);
    assert!(!warm.has_waiting(), "there are no helpers");
}

#[test]
fn a_block_from_anywhere_waits_for_what_the_recalculation_after_it_reads_and_enters_the_chain() {
    for origin in ["pulled", "pushed", "harvested"] {
        let chain = Chain::of_one_year(RECALCULATING - 1);
        let (store, network) = (chain.store(), &chain.settings.network);
        let (parent, block) = (tip_hash(&store), chain.blocks().remove(RECALCULATING as usize - 2));
        let (mut processor, mut ahead) = (BlockProcessor::new(&store, network), ReadAhead::cold(START));
        match origin {
            "pulled" => processor.pull(pulled(std::slice::from_ref(&block), RECALCULATING - 1, parent, network)),
            "pushed" => {
                assert!(processor.push(block.clone(), SENDER, &store.snapshot().unwrap(), NOW).unwrap());
            }
            _ => {
                let hashes = block.transactions.iter().map(|transaction| transaction.hashes()).collect();
                processor.add_harvested(Harvested { block: block.clone(), hashes, score: 1 }).unwrap();
            }
        }
        let now = NOW;
        let (mut read, mut processed) = (Vec::new(), None);
        while processed.is_none() {
            processor.read_ahead(Height(RECALCULATING - 1), &mut ahead, now);
            if processor.has_work(AFTER_ALL_BLOCKS) {
                processed = processor.step(now).unwrap();
            } else {
                assert_eq!(tip_hash(&store), parent, "{origin}: it waits");
                let (waiting, work) = ahead.next(START).expect("what the block waits for");
                read.push(work.kind);
                ahead.finish(waiting, Some(true), Duration::ZERO, START);
            }
        }
        read.retain(|kind| *kind != AheadKind::Accounts);
        let recalculation = [AheadKind::Recalculation; 3];
        let is_whole = read.split_first() == Some((&AheadKind::Block, &recalculation[..]));
        assert!(is_whole, "{origin}: the accounts, the last month, and the last lists: {read:?}");
        assert_eq!(code(&processed.unwrap().result), ValidationResult::Success, "{origin}");
        assert_eq!(tip_hash(&store), block.hash(), "{origin}");
    }
}

#[test]
fn what_a_recalculation_needs_is_read_ahead_some_blocks_before_and_after_everything_else() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let now = NOW;
    let read_at = |tips: &[u64], ahead: &mut ReadAhead| {
        let (mut processor, mut read) = (BlockProcessor::new(&store, network), Vec::new());
        for tip in tips {
            processor.read_ahead(Height(*tip), ahead, now);
            while let Some((waiting, work)) = ahead.next(START) {
                assert!(!ahead.has_waiting() && processor.has_work(AFTER_ALL_BLOCKS) == processor.holds_chain());
                read.push((*tip, work.kind));
                ahead.finish(waiting, Some(true), Duration::ZERO, START);
                processor.read_ahead(Height(*tip), ahead, now);
            }
        }
        read
    };
    let first = RECALCULATING - EARLY_BLOCKS;
    // The accounts, the last month, and the last lists, once.
    let expected = [(first, AheadKind::Recalculation); 3];
    assert_eq!(read_at(&[first - 1, first, first + 1, RECALCULATING], &mut ReadAhead::cold(START)), expected);
    assert_eq!(read_at(&[first], &mut ReadAhead::default()), [], "everything is in memory");
    let mut ahead = ReadAhead::cold(START);
    BlockProcessor::new(&store, network).read_ahead(Height(first), &mut ahead, now);
    let account = Address::from_public_key(&SENDER.key, network.byte);
    ahead.read_accounts(&[account], START);
    for expected in [AheadKind::Accounts, AheadKind::Recalculation] {
        let (waiting, work) = ahead.next(START).unwrap();
        assert!(work.kind == expected && ahead.next(START).is_none(), "one after the other");
        ahead.finish(waiting, Some(true), Duration::ZERO, START);
    }
}

#[test]
fn a_proven_branch_waits_before_each_block_until_it_is_read_ahead() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (mut processor, mut ahead) = (BlockProcessor::new(&store, network), ReadAhead::cold(START));
    processor.pull(pulled(&chain.blocks()[19..22], 20, tip_hash(&store), network));
    let now = NOW;
    let work_until_it_waits = |processor: &mut BlockProcessor<'_>, ahead: &mut ReadAhead| {
        for _ in 0..10_000 {
            processor.read_ahead(Height(20), ahead, now);
            if !processor.has_work(AFTER_ALL_BLOCKS) {
                return None;
            }
            if let Some(processed) = processor.step(now).unwrap() {
                return Some(processed);
            }
        }
        panic!("it does not end");
    };
    // First for what proves each block, unless the one before has the same signer.
    let mut signers: Vec<PublicKey> = chain.blocks()[19..22].iter().map(|block| block.signer).collect();
    signers.dedup();
    for signer in signers {
        assert!(work_until_it_waits(&mut processor, &mut ahead).is_none());
        let signer = Address::from_public_key(&signer, network.byte);
        let (waiting, work) = ahead.next(START).unwrap();
        assert_eq!((work.kind, work.bytes.as_slice()), (AheadKind::Accounts, signer.as_bytes().as_slice()));
        ahead.finish(waiting, Some(true), Duration::ZERO, START);
    }
    for read in 0..3 {
        assert!(work_until_it_waits(&mut processor, &mut ahead).is_none());
        assert!(processor.holds_chain() && ahead.has_waiting());
        let next = processor.validating.as_ref().unwrap().0.next_to_execute();
        assert_eq!(next, Some(read), "the blocks before are executed");
        let (waiting, work) = ahead.next(START).unwrap();
        let block = Block::from_bytes(&work.bytes, Context::of(network)).unwrap();
        assert_eq!(block.height, Height(21 + read as u64));
        ahead.finish(waiting, Some(true), Duration::ZERO, START);
    }
    let processed = work_until_it_waits(&mut processor, &mut ahead).unwrap();
    assert_eq!(result(&[processed]), ValidationResult::Success);
    // What a branch no longer needs is not read.
    processor.pull(pulled(&chain.blocks()[22..25], 23, tip_hash(&store), network));
    assert!(work_until_it_waits(&mut processor, &mut ahead).is_none() && ahead.has_waiting());
    processor.validating = None;
    processor.read_ahead(Height(20), &mut ahead, now);
    assert!(!ahead.has_waiting());
}

#[test]
fn a_pushed_block_holds_no_chain_while_what_proves_it_is_read_ahead() {
    let chain = Chain::up_to(20);
    let (store, network) = (chain.store(), &chain.settings.network);
    let (mut processor, mut ahead) = (BlockProcessor::new(&store, network), ReadAhead::cold(START));
    let now = NOW;
    let snapshot = store.snapshot().unwrap();
    let block = &chain.blocks()[19];
    let next = Block { timestamp: Timestamp(block.timestamp.0 + 1), ..block.clone() };
    assert!(processor.push(block.clone(), SENDER, &snapshot, NOW).unwrap());
    processor.queue.insert(99, PushedBlock { block: Box::new(next), ..processor.queue[&1].clone() });
    processor.read_ahead(Height(20), &mut ahead, now);
    assert!(!processor.has_work(AFTER_ALL_BLOCKS) && !processor.holds_chain() && processor.may_pull());
    let (waiting, work) = ahead.next(START).unwrap();
    assert_eq!(work.kind, AheadKind::Accounts);
    assert!(!ahead.has_waiting(), "one is read for at a time");
    ahead.finish(waiting, Some(true), Duration::ZERO, START);
    processor.read_ahead(Height(20), &mut ahead, now);
    assert!(processor.has_work(AFTER_ALL_BLOCKS) && processor.step(now).unwrap().is_none() && processor.holds_chain());
}
