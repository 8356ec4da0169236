use std::collections::VecDeque;
use std::time::Duration;

use super::*;
use crate::codec::Format;
use crate::crypto::{KeyPair, PrivateKey, Signature};
use crate::model::{BlockKind, Network, Timestamp};
use crate::peer::io::RandomSource;
use crate::peer::tests::{address, seeded};
use crate::peer::wire::{AnswerContext, AuthenticatedResponse, Challenge, List, limits};

impl BlockDownload {
    /// Returns the requests in flight, the bytes of waiting blocks and the number of waiting hashes.
    pub fn load(&self) -> (usize, usize, usize) {
        (self.in_flight.len(), self.batches.iter().map(BlockBatch::held_bytes).sum(), self.hashes.len())
    }
}

/// Maximum number of hashes in an answer.
const ANSWER: u64 = 40;

/// Returns blocks from height 2 on that follow each other; those of another branch differ above `fork`. Their
/// signatures are not checked here.
fn chain(last: u64, fork: u64, branch: u8) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for height in 2..=last {
        let previous_hash = blocks.last().map_or(Hash256([1; 32]), Block::hash).into();
        let signature = Some(Signature([if height > fork { branch } else { 0 }; 64]));
        blocks.push(Block {
            kind: BlockKind::Regular,
            version: 0x9800_0001_u32 as i32,
            timestamp: Timestamp(height as i32 * 60 + if height > fork { i32::from(branch) } else { 0 }),
            signer: key().public(),
            signature,
            previous_hash,
            height: Height(height),
            transactions: Vec::new(),
        });
    }
    blocks
}

fn key() -> KeyPair {
    KeyPair::new(&PrivateKey::from_seed(&[7; 32]))
}

fn base() -> Checkpoint {
    Checkpoint { height: Height(1), hash: Hash256([1; 32]) }
}

fn download(target: u64, checkpoint: Option<Checkpoint>) -> BlockDownload {
    let batch = ChainRequest { after: Height(1), min_blocks: None, max_transactions: None };
    BlockDownload::new(1, address(0), (base(), Height(target)), ANSWER, batch, checkpoint)
}

fn list(blocks: &[Block]) -> BlockList {
    let challenge = Challenge([9; 64]);
    let response = AuthenticatedResponse { entity: List(blocks.to_vec()), signature: challenge.sign(&key()) };
    let body = Format::Binary.to_bytes(&response);
    let key = key().public();
    let answer = AnswerContext { format: Format::Binary, context: context(), challenge, key: Some(key) };
    answer.open_list(body, limits::block(&Network::example().chain)).expect("blocks")
}

fn context() -> Context {
    Context::of(&Network::example())
}

/// Behaviour of a peer.
enum Behaviour {
    /// Has a chain and sends at most this many blocks at a time.
    Honest(Vec<Block>, usize),
    /// Fails every request.
    Failing,
    /// Never answers.
    Silent,
    /// Sends the hashes of one chain and the blocks of another.
    Byzantine(Vec<Block>, Vec<Block>),
}

/// A download among peers whose answers arrive in any order.
struct Scene {
    run: BlockDownload,
    nodes: Vec<Behaviour>,
    waiting: Vec<DownloadRequest>,
    taken: Vec<Block>,
    now: Duration,
    random: Box<dyn FnMut() -> u64>,
    most_held: usize,
}

impl Scene {
    fn new(nodes: Vec<Behaviour>, target: u64, checkpoint: Option<Checkpoint>, seed: u64) -> Scene {
        let mut run = download(target, checkpoint);
        (1..nodes.len()).for_each(|node| run.add_peer(address(node)));
        let random = Box::new(seeded(seed));
        Scene { run, nodes, waiting: Vec::new(), taken: Vec::new(), now: Duration::ZERO, random, most_held: 0 }
    }

    fn answer(&self, ask: &DownloadRequest) -> Option<Result<DownloadAnswer, ()>> {
        let number = (0..self.nodes.len()).find(|number| address(*number) == ask.peer).expect("a node");
        let after = |blocks: &[Block], height: Height, most: usize| -> Vec<Block> {
            blocks.iter().skip(height.0 as usize - 1).take(most).cloned().collect()
        };
        let hashes = |blocks: &[Block], first: Height| {
            let after = after(blocks, Height(first.0 - 1), ANSWER as usize);
            DownloadAnswer::Hashes(after.iter().map(Block::hash).collect())
        };
        Some(match (&self.nodes[number], ask.query.clone()) {
            (Behaviour::Silent, _) => return None,
            (Behaviour::Failing, _) => Err(()),
            (Behaviour::Honest(blocks, _) | Behaviour::Byzantine(blocks, _), Query::HashesFrom(first)) => {
                Ok(hashes(blocks, first))
            }
            (Behaviour::Honest(blocks, most), Query::BlocksAfter(ChainRequest { after: height, .. })) => {
                Ok(DownloadAnswer::Blocks(list(&after(blocks, height, *most))))
            }
            (Behaviour::Byzantine(_, blocks), Query::BlocksAfter(ChainRequest { after: height, .. })) => {
                Ok(DownloadAnswer::Blocks(list(&after(blocks, height, 20))))
            }
            (_, other) => panic!("{other:?}"),
        })
    }

    fn run(&mut self) -> DownloadOutcome {
        for _ in 0..100_000 {
            while let Some(ask) = self.run.next_request(self.now) {
                self.waiting.push(ask);
            }
            self.hear_one();
            let is_slow = (self.random)().is_multiple_of(3);
            match if is_slow { NextBlock::Waiting } else { self.run.next(context(), self.now) } {
                NextBlock::Block(block) => self.taken.push(*block),
                NextBlock::Working => {}
                NextBlock::Waiting => self.now += Duration::from_millis(100),
                NextBlock::Ended => return self.run.outcome.expect("an end"),
            }
            let (under_way, held, hashes) = self.run.load();
            self.most_held = self.most_held.max(held);
            assert!(
                under_way <= MAX_DOWNLOAD_PEERS * MAX_IN_FLIGHT_PER_PEER
                    && hashes < MAX_PENDING_HASHES + ANSWER as usize
            );
            assert!(self.waiting.iter().all(|ask| self.of_one(&ask.peer) <= MAX_IN_FLIGHT_PER_PEER));
        }
        panic!("it never ends");
    }

    fn of_one(&self, node: &Address) -> usize {
        self.waiting.iter().filter(|ask| ask.peer == *node).count()
    }

    fn hear_one(&mut self) {
        let answered: VecDeque<_> =
            (0..self.waiting.len()).filter(|place| self.answer(&self.waiting[*place]).is_some()).collect();
        if answered.is_empty() {
            return;
        }
        let place = answered[self.random.below(answered.len())];
        let ask = self.waiting.remove(place);
        match self.answer(&ask) {
            Some(Ok(received)) => self.run.on_answer(&ask, received),
            Some(Err(())) => self.run.on_failure(&ask, self.now),
            None => {}
        }
    }
}

fn honest(last: u64) -> Behaviour {
    Behaviour::Honest(chain(last, 0, 0), 33)
}

#[test]
#[ignore = "slow: computes for long"]
fn blocks_are_delivered_in_order_from_one_or_several_peers() {
    for (nodes, seed) in (1..=4).flat_map(|nodes| (0..10).map(move |seed| (nodes, seed))) {
        let mut scene = Scene::new((0..nodes).map(|_| honest(500)).collect(), 500, None, seed);
        assert_eq!(scene.run(), DownloadOutcome::Done, "{nodes} nodes, seed {seed}");
        assert!(scene.taken == chain(500, 0, 0), "{nodes} nodes, seed {seed}");
        let helpful: BTreeSet<_> = scene.run.useful_peers.drain(..).collect();
        assert_eq!(helpful.len(), nodes, "all have done something");
    }
}

#[test]
#[ignore = "slow: computes for long"]
fn failing_silent_or_short_peers_do_not_delay_the_download() {
    for seed in 0..20 {
        let nodes = vec![honest(500), Behaviour::Failing, Behaviour::Silent, honest(100), honest(500)];
        let mut scene = Scene::new(nodes, 500, None, seed);
        assert_eq!(scene.run(), DownloadOutcome::Done, "seed {seed}");
        assert!(scene.taken == chain(500, 0, 0), "seed {seed}");
        assert!(scene.now < Duration::from_secs(90), "{:?}", scene.now);
    }
}

#[test]
fn another_sync_peer_takes_over_when_the_first_is_gone() {
    for sync_peer in [Behaviour::Failing, honest(60)] {
        let mut scene = Scene::new(vec![sync_peer, honest(500), honest(500)], 500, None, 1);
        assert_eq!(scene.run(), DownloadOutcome::Done);
        assert!(scene.taken == chain(500, 0, 0));
    }
}

#[test]
#[ignore = "slow: computes for long"]
fn a_sync_peer_without_the_blocks_of_its_hashes_never_gets_other_peers_penalized() {
    for seed in 0..20 {
        let sync_peer = Behaviour::Byzantine(chain(300, 100, 3), Vec::new());
        let mut scene = Scene::new(vec![sync_peer, honest(300), honest(300), honest(300)], 300, None, seed);
        let ending = scene.run();
        assert!(
            matches!(ending, DownloadOutcome::Done) || ending == DownloadOutcome::SyncPeerMisbehaved(address(0)),
            "{ending:?}, seed {seed}"
        );
        assert!(scene.taken == chain(300, 0, 0)[..scene.taken.len()], "seed {seed}");
    }
}

#[test]
fn the_download_ends_when_no_peers_are_left() {
    let mut scene = Scene::new(vec![Behaviour::Failing, Behaviour::Failing], 500, None, 1);
    assert_eq!(scene.run(), DownloadOutcome::NoPeersLeft);
    assert!(scene.taken.is_empty());
}

#[test]
fn blocks_that_do_not_match_the_hashes_are_requested_from_another_peer() {
    let (ours, other) = (chain(300, 0, 0), chain(300, 100, 3));
    for seed in 0..20 {
        let nodes = vec![honest(300), Behaviour::Byzantine(ours.clone(), other.clone()), honest(300)];
        let mut scene = Scene::new(nodes, 300, None, seed);
        assert_eq!(scene.run(), DownloadOutcome::Done);
        assert!(scene.taken == ours);
    }
}

#[test]
fn a_sync_peer_whose_chain_most_peers_lack_is_abandoned() {
    for seed in 0..20 {
        let sync_peer = Behaviour::Honest(chain(300, 100, 3), 20);
        let mut scene = Scene::new(vec![sync_peer, honest(300), honest(300), honest(300)], 300, None, seed);
        match scene.run() {
            DownloadOutcome::SyncPeerMisbehaved(node) => assert_eq!(node, address(0)),
            // It supplied all blocks before enough other peers were queried.
            DownloadOutcome::Done => assert!(scene.run.disagreeing.len() < 3, "seed {seed}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn hashes_that_form_no_chain_are_misbehavior_of_the_sync_peer() {
    let mut broken = chain(300, 0, 0);
    broken[150].previous_hash = Hash256([5; 32]).into();
    let mut scene = Scene::new(vec![Behaviour::Honest(broken, 33)], 300, None, 1);
    assert_eq!(scene.run(), DownloadOutcome::SyncPeerMisbehaved(address(0)));
    assert_eq!(scene.taken.len(), 150);
    let mut run = download(300, None);
    let ask = run.next_request(Duration::ZERO).expect("a question");
    run.on_answer(&ask, DownloadAnswer::Hashes(vec![Hash256([1; 32]); ANSWER as usize + 1]));
    assert_eq!(run.outcome, Some(DownloadOutcome::SyncPeerMisbehaved(address(0))), "more than a node gives");
}

fn checkpoint(blocks: &[Block], height: u64) -> Checkpoint {
    Checkpoint { height: Height(height), hash: blocks[height as usize - 2].hash() }
}

#[test]
fn no_block_is_delivered_before_the_hashes_reach_the_checkpoint() {
    let blocks = chain(300, 0, 0);
    for seed in 0..10 {
        let checkpoint = Some(checkpoint(&blocks, 217));
        let mut scene = Scene::new(vec![honest(300), honest(300)], 300, checkpoint, seed);
        while scene.run.verifying().is_some() {
            assert!(scene.taken.is_empty() && scene.run.trusted_below() == Height(0));
            while let Some(ask) = scene.run.next_request(scene.now) {
                scene.waiting.push(ask);
            }
            scene.hear_one();
            assert!(!matches!(scene.run.next(context(), scene.now), NextBlock::Block(_) | NextBlock::Ended));
        }
        assert_eq!(scene.run.trusted_below(), Height(217));
        assert_eq!(scene.run(), DownloadOutcome::Done);
        assert!(scene.taken == blocks, "seed {seed}");
    }
}

#[test]
fn a_chain_without_the_checkpoint_delivers_no_block() {
    let (blocks, other) = (chain(300, 0, 0), chain(300, 100, 3));
    let vouched = checkpoint(&blocks, 217);
    let mut scene = Scene::new(vec![Behaviour::Honest(other.clone(), 33)], 300, Some(vouched), 1);
    let found = checkpoint(&other, 217).hash;
    assert_eq!(scene.run(), DownloadOutcome::CheckpointMismatch(address(0), found));
    assert!(scene.taken.is_empty());
    // A checkpoint above the sync peer's chain is ignored.
    let run = download(216, Some(vouched));
    assert!(run.verifying().is_none());
}

#[test]
fn blocks_below_a_verified_checkpoint_cannot_be_replaced() {
    let (blocks, other) = (chain(300, 0, 0), chain(300, 100, 3));
    let mut scene = Scene::new(vec![honest(300)], 300, Some(checkpoint(&blocks, 217)), 1);
    while scene.run.verifying().is_some() {
        while let Some(ask) = scene.run.next_request(scene.now) {
            scene.waiting.push(ask);
        }
        scene.hear_one();
        scene.run.next(context(), scene.now);
    }
    scene.nodes[0] = Behaviour::Honest(other, 33);
    assert_eq!(scene.run(), DownloadOutcome::NoPeersLeft);
    assert!(scene.taken == blocks[..scene.taken.len()] && scene.taken.len() < 120);
}

/// Verifies blocks up to a checkpoint that one peer sends, this many at a time and one list per interval, its hashes at once.
/// Returns how long it took, and the outcome if it has ended.
fn verify(count: usize, interval: Duration) -> (Duration, Option<DownloadOutcome>) {
    let blocks = chain(300, 0, 0);
    let scene = Scene::new(vec![Behaviour::Honest(blocks.clone(), count)], 300, None, 1);
    let mut run = download(300, Some(checkpoint(&blocks, 217)));
    let (mut waiting, mut now, mut next_blocks) = (VecDeque::new(), Duration::ZERO, interval);
    while run.verifying().is_some() && run.outcome.is_none() {
        waiting.extend(std::iter::from_fn(|| run.next_request(now)));
        let is_due = |ask: &DownloadRequest| now >= next_blocks || matches!(ask.query, Query::HashesFrom(_));
        if let Some(ask) = waiting.iter().position(is_due).and_then(|place| waiting.remove(place)) {
            if matches!(ask.query, Query::BlocksAfter(_)) {
                next_blocks += interval;
            }
            let received = scene.answer(&ask).expect("an answer").expect("no failure");
            run.on_answer(&ask, received);
        }
        if matches!(run.next(context(), now), NextBlock::Waiting) {
            now += Duration::from_millis(100);
        }
    }
    (now, run.outcome)
}

#[test]
fn blocks_that_are_verified_too_slowly_end_the_download() {
    let seconds = Duration::from_secs;
    for (count, interval) in [(1, 9), (1, 29), (20, 9)] {
        let (time, outcome) = verify(count, seconds(interval));
        // What has come adds a quarter of a second for each block.
        let most = VERIFYING_PATIENCE + PATIENCE_PER_BLOCK * (216 + count as u32);
        assert!(
            matches!(outcome, Some(DownloadOutcome::TooSlow(_))) && time <= most,
            "{count} per {interval} s: {time:?}"
        );
    }
    let (time, outcome) = verify(1, seconds(9));
    assert!(matches!(outcome, Some(DownloadOutcome::TooSlow(_))) && time < seconds(12), "{time:?}");
    // A pace that suffices on average may pause for longer than the chain may be kept.
    let (time, outcome) = verify(40, seconds(8));
    assert!(outcome.is_none() && time >= seconds(40), "{time:?}");
}

#[test]
fn peers_that_do_not_answer_cannot_make_a_sync_peer_too_slow() {
    let blocks = chain(300, 0, 0);
    for seed in 0..5 {
        let mut nodes = vec![honest(300)];
        nodes.extend((1..MAX_DOWNLOAD_PEERS).map(|_| Behaviour::Silent));
        let mut scene = Scene::new(nodes, 300, Some(checkpoint(&blocks, 217)), seed);
        assert_eq!(scene.run(), DownloadOutcome::Done, "seed {seed}");
        assert!(scene.taken == blocks, "seed {seed}");
    }
}

#[test]
fn a_late_batch_that_is_verified_is_requested_from_the_sync_peer_next() {
    let blocks = chain(300, 0, 0);
    let mut run = download(300, Some(checkpoint(&blocks, 217)));
    (1..4).for_each(|node| run.add_peer(address(node)));
    let ask = run.next_request(Duration::ZERO).expect("a request");
    run.on_answer(&ask, DownloadAnswer::Hashes(blocks[..ANSWER as usize].iter().map(Block::hash).collect()));
    for (time, asked) in [(Duration::ZERO, 1), (HEDGE_DELAY, 0)] {
        let mut requests = std::iter::from_fn(|| run.next_request(time));
        let blocks = requests.find(|ask| matches!(ask.query, Query::BlocksAfter(_))).expect("a request");
        assert_eq!(blocks.peer, address(asked), "{time:?}");
    }
}

#[test]
fn a_peer_has_agreed_as_long_as_its_blocks_are_those_of_the_hashes() {
    let (blocks, other) = (chain(300, 0, 0), chain(300, 100, 3));
    let nodes = vec![honest(300), honest(300), Behaviour::Byzantine(blocks.clone(), other)];
    let mut scene = Scene::new(nodes, 300, Some(checkpoint(&blocks, 217)), 1);
    assert!(!scene.run.has_agreed(&address(1)));
    assert_eq!(scene.run(), DownloadOutcome::Done);
    assert!(scene.run.has_agreed(&address(1)) && !scene.run.has_agreed(&address(2)));
}

/// Returns all requests that a download sends now.
fn requests(run: &mut BlockDownload, now: Duration) -> Vec<DownloadRequest> {
    std::iter::from_fn(|| run.next_request(now)).collect()
}

/// Returns a download of the blocks up to a height whose first hashes have arrived, among so many peers.
fn begun(blocks: &[Block], peers: usize) -> BlockDownload {
    let mut run = download(blocks.len() as u64 + 1, None);
    (1..peers).for_each(|node| run.add_peer(address(node)));
    let hashes = run.next_request(Duration::ZERO).unwrap();
    assert_eq!(hashes.query, Query::HashesFrom(Height(2)));
    let first = blocks.iter().take(ANSWER as usize).map(Block::hash).collect();
    run.on_answer(&hashes, DownloadAnswer::Hashes(first));
    run
}

#[test]
fn peers_are_added_up_to_a_limit_once_and_not_again_after_their_removal() {
    let (mut run, chosen) = (download(100, None), Duration::from_secs(1));
    assert!(run.wants_peers(Duration::ZERO));
    run.add_peers((0..20).map(address).collect(), chosen);
    let nodes = |run: &BlockDownload| run.peers.iter().map(|peer| peer.node).collect::<Vec<_>>();
    assert_eq!(nodes(&run), (0..MAX_DOWNLOAD_PEERS).map(address).collect::<Vec<_>>());
    let later = chosen + SELECT_INTERVAL;
    assert!(!run.wants_peers(later));
    run.remove_peer(address(1));
    assert!(!run.wants_peers(later - Duration::from_millis(1)) && run.wants_peers(later));
    [1, 2].into_iter().for_each(|known| run.add_peer(address(known)));
    assert_eq!(run.peers.len(), MAX_DOWNLOAD_PEERS - 1);
    [30, 31].into_iter().for_each(|new| run.add_peer(address(new)));
    assert_eq!((run.peers.len(), nodes(&run).last()), (MAX_DOWNLOAD_PEERS, Some(&address(30))));
}

#[test]
fn several_batches_are_requested_at_once_and_without_room_only_the_next_one() {
    let blocks = chain(400, 0, 0);
    for (usual_bytes, expected) in [(1, 3), (MAX_BUFFERED_BYTES, 1)] {
        let mut run = begun(&blocks, 3);
        (run.usual_blocks, run.usual_bytes) = (10, usual_bytes);
        let asked = requests(&mut run, Duration::ZERO);
        let batches = asked.iter().filter(|asked| matches!(asked.query, Query::BlocksAfter(_))).count();
        assert!(batches.min(3) == expected, "{asked:?}");
    }
}

#[test]
fn a_peer_is_asked_for_hashes_only_as_the_sync_peer_and_for_a_late_batch_only_once() {
    let blocks = chain(400, 0, 0);
    let mut run = begun(&blocks, 1);
    // The only peer is asked for more hashes and for the first batch, which is late.
    let asked = requests(&mut run, Duration::ZERO);
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_eq!(requests(&mut run, HEDGE_DELAY), []);
    run.add_peer(address(1));
    let hedged = requests(&mut run, HEDGE_DELAY);
    assert_eq!(hedged.iter().map(|asked| asked.peer).collect::<Vec<_>>(), [address(1)]);
    // Hashes of a former sync peer are not used.
    run.change_sync_peer(address(1));
    let hashes = asked.iter().find(|asked| matches!(asked.query, Query::HashesFrom(_))).unwrap();
    run.next_hash_height = Height(2 + ANSWER);
    run.on_answer(hashes, DownloadAnswer::Hashes(vec![Hash256([5; 32]); ANSWER as usize]));
    assert!(run.hashes.is_empty());
    // A sync peer that is busy is waited for.
    let mut run = begun(&blocks, 2);
    for after in 500..500 + MAX_IN_FLIGHT_PER_PEER as u64 {
        let query = Query::BlocksAfter(ChainRequest { after: Height(after), ..run.batch_request });
        run.in_flight.push((DownloadRequest { download: 1, peer: address(0), query }, Duration::ZERO));
    }
    assert!(requests(&mut run, Duration::ZERO).iter().all(|asked| matches!(asked.query, Query::BlocksAfter(_))));
}

#[test]
fn a_peer_that_fails_four_times_without_an_answer_is_removed() {
    let mut run = begun(&chain(400, 0, 0), 3);
    let fail = |run: &mut BlockDownload| {
        let asked = DownloadRequest { download: 1, peer: address(1), query: Query::HashesFrom(Height(900)) };
        run.in_flight.push((asked.clone(), Duration::ZERO));
        run.on_failure(&asked, Duration::ZERO);
        run.has_peer(&address(1))
    };
    assert!((1..MAX_FAILURES).all(|_| fail(&mut run)));
    let answered = DownloadRequest { download: 1, peer: address(1), query: Query::HashesFrom(Height(901)) };
    run.in_flight.push((answered.clone(), Duration::ZERO));
    run.on_answer(&answered, DownloadAnswer::Hashes(Vec::new()));
    assert!((1..MAX_FAILURES).all(|_| fail(&mut run)) && !fail(&mut run));
}

#[test]
fn a_batch_follows_the_size_of_answers() {
    let blocks = chain(400, 0, 0);
    let mut run = begun(&blocks, 2);
    let asked = requests(&mut run, Duration::ZERO);
    let first = asked.iter().find(|asked| matches!(asked.query, Query::BlocksAfter(_))).unwrap();
    run.on_answer(first, DownloadAnswer::Blocks(list(&blocks[..20])));
    assert_eq!(run.usual_blocks, 28, "a little less than the mean of 40 and 20");
}

#[test]
fn a_download_goes_on_when_a_request_is_late_a_peer_may_be_asked_again_or_the_patience_ends() {
    let (now, blocks) = (Duration::from_secs(100), chain(400, 0, 0));
    let mut run = begun(&blocks, 1);
    run.add_peers(Vec::new(), now);
    assert_eq!(run.next_due(), Some(now + SELECT_INTERVAL));
    let asked = requests(&mut run, now);
    assert_eq!(run.next_due(), Some(now + HEDGE_DELAY));
    run.on_failure(&asked[0], now);
    assert_eq!(run.next_due(), Some(now + FIRST_BACKOFF));
    // What is due has happened at the next poll.
    let _ = run.next_request(now + HEDGE_DELAY);
    run.add_peers((1..10).map(address).collect(), now);
    assert_eq!(run.next_due(), Some(now + HEDGE_DELAY * 2));
    run.in_flight.clear();
    assert_eq!(run.next_due(), None);
    assert!(matches!(run.next(context(), now + HEDGE_DELAY), NextBlock::Waiting));
    assert_eq!(run.next_due(), Some(now + HEDGE_DELAY + run.patience));
    let _ = run.next_request(now + HEDGE_DELAY + run.patience);
    assert!(run.next_due().is_some_and(|due| due > now + HEDGE_DELAY + run.patience));
}

#[test]
#[ignore = "slow: computes for long"]
fn buffered_blocks_are_limited_however_slowly_they_are_consumed() {
    let blocks = chain(60_000, 0, 0);
    let bytes: usize = blocks.iter().map(|block| block.to_bytes(crate::codec::SigningForm::Verifiable).len()).sum();
    assert!(bytes > 4 * MAX_BUFFERED_BYTES);
    let nodes = (0..4).map(|_| Behaviour::Honest(blocks.clone(), ANSWER as usize)).collect();
    let mut scene = Scene::new(nodes, 60_000, None, 1);
    for _ in 0..2_000 {
        while let Some(ask) = scene.run.next_request(scene.now) {
            scene.waiting.push(ask);
        }
        scene.hear_one();
    }
    let (_, held, _) = scene.run.load();
    assert!(held <= MAX_BUFFERED_BYTES && held > MAX_BUFFERED_BYTES / 2, "{held}");
    assert!(scene.run.next_request(scene.now).is_none());
}
