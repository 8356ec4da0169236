use std::time::Duration;

use crate::codec::{SigningForm, Writable};
use crate::crypto::Signature;
use crate::model::network::ChainParameters;
use crate::model::{Block, BlockKind, Checkpoint, Hash256, Height, Timestamp};
use crate::peer::block_download::{BlockDownload, DownloadOutcome, NextBlock};
use crate::peer::io::OwnTip;
use crate::peer::manager::synchronisation::{MIN_WORSE_TIME, OBSERVATION_TTL, QUERY_INTERVAL};
use crate::peer::manager::{ListedPeer, PeerSettings};
use crate::peer::schedule::Task;
use crate::peer::tests::*;
use crate::peer::wire::{
    AuthenticatedRequest, ChainRequest, Endpoint, HashChain, List, NodeInfo, Score, TransactionList,
};
use crate::rules::{Rejection, RuleResult, ValidationResult};

pub fn block(height: u64) -> Block {
    let signer = pair(77);
    let mut block = Block {
        kind: BlockKind::Regular,
        version: 0x9800_0001_u32 as i32,
        timestamp: Timestamp(height as i32),
        signer: signer.public(),
        signature: None,
        previous_hash: Hash256([1; 32]).into(),
        height: Height(height),
        transactions: Vec::new(),
    };
    block.signature = Some(signer.sign(&block.to_bytes(SigningForm::NonVerifiable)));
    block
}

/// Returns a node that has just asked its only peer for its score.
fn comparing() -> Scene {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.simulated_peers[0].behaviour = Behaviour::SilentAt("/chain/score");
    scene.run(Duration::from_millis(850));
    assert_eq!(last_question(&scene), "/chain/score");
    scene.simulated_peers[0].behaviour = Behaviour::Good;
    scene
}

fn last_question(scene: &Scene) -> &str {
    &scene.fake.waiting.back().expect("a question").request.target
}

fn answer(scene: &mut Scene, entity: impl Writable) {
    let sent = scene.fake.waiting.pop_back().expect("a question");
    let body = signed(&scene.simulated_peers[0], &sent.request, entity);
    scene.end(sent.call, ok(body, ip_of(0)));
}

fn timer(scene: &Scene) -> (bool, u64, u64) {
    let timer = scene.manager.timers().iter().find(|timer| timer.task == Task::Synchronisation).expect("a timer");
    (timer.is_executing, timer.successes, timer.failures)
}

/// Answers the score request and those after it, until blocks are requested.
fn answer_until_blocks(scene: &mut Scene) {
    answer(scene, Score(500));
    assert_eq!(last_question(scene), "/chain/last-block");
    answer(scene, block(2));
    assert_eq!(last_question(scene), "/chain/hashes-from");
    answer(scene, HashChain(vec![Hash256([1; 32]), Hash256([2; 32])]));
    assert_eq!(last_question(scene), "/chain/blocks-after");
}

/// Runs until blocks are to be validated.
fn pulled() -> Scene {
    let mut scene = comparing();
    answer_until_blocks(&mut scene);
    answer(&mut scene, List(vec![block(2)]));
    scene
}

#[test]
fn the_sync_peer_is_credited_with_the_validation_outcome_of_its_blocks() {
    for (result, experience) in
        [(Ok(()), (1, 0)), (harmful(), (0, 1)), (neutral(), (0, 0)), (Err(Rejection::TooDeep), (0, 0))]
    {
        let mut scene = pulled();
        let [pulled] = &scene.fake.fetched[..] else { panic!("{:?}", scene.fake.fetched) };
        assert_eq!((pulled.from, pulled.common, pulled.base), (address_of(0), Height(1), Hash256([1; 32])));
        assert_eq!(pulled.blocks.left(), 1);
        assert!(timer(&scene).0, "it goes on until they are judged");
        let now = scene.now();
        scene.manager.on_blocks_validated(&address_of(7), &result, now);
        assert!(timer(&scene).0, "that was another node's");
        scene.manager.on_blocks_validated(&address_of(0), &result, now);
        scene.manager.on_blocks_validated(&address_of(0), &result, now);
        let failures = u64::from(experience.1 > 0);
        assert_eq!((scene.experience(0), timer(&scene)), (experience, (false, 1 - failures, failures)), "{result:?}");
        assert_eq!(scene.manager.table.get(&address_of(0)).expect("a node").score, Some(500));
        let split = scene.manager.split_peers(now.monotonic).nodes.len();
        assert_eq!(split, usize::from(matches!(result, Err(Rejection::TooDeep))));
    }
}

#[test]
fn a_moved_sync_peer_is_not_credited_with_blocks_from_its_former_endpoint() {
    for result in [Ok(()), harmful()] {
        let mut scene = pulled();
        let elsewhere = NodeInfo { endpoint: Endpoint::http("66.6.6.6", 7890), ..info(0) };
        scene.manager.add_listed_peers(vec![ListedPeer::Node(elsewhere)]);
        let now = scene.now();
        scene.manager.on_blocks_validated(&address_of(0), &result, now);
        assert_eq!((scene.experience(0), timer(&scene).0), ((0, 0), false), "{result:?}");
    }
}

#[test]
fn synchronisation_waits_until_the_blocks_are_validated() {
    let mut scene = pulled();
    scene.run_seconds(100);
    assert_eq!(scene.asked("/chain/score").len(), 1);
    let now = scene.now();
    scene.manager.on_blocks_validated(&address_of(0), &Ok(()), now);
    scene.run_seconds(4);
    assert_eq!(scene.asked("/chain/score").len(), 2, "three seconds later");
}

#[test]
fn a_successful_synchronisation_may_continue_without_delay() {
    let mut scene = pulled();
    let now = scene.now();
    scene.manager.on_blocks_validated(&address_of(0), &Ok(()), now);
    scene.manager.run_soon(Task::Synchronisation);
    scene.tick();
    assert_eq!(scene.asked("/chain/score").len(), 2);
}

#[test]
fn a_misbehaving_sync_peer_is_penalized() {
    let mut scene = comparing();
    answer(&mut scene, Score(500));
    answer(&mut scene, Block { signature: Some(Signature([1; 64])), ..block(2) });
    assert_eq!((scene.experience(0), timer(&scene)), ((0, 1), (false, 1, 0)));
}

/// Lets a peer claim a better chain of which no hash is ours, and returns whether it counts as split off. Our chain has
/// this many blocks.
fn claims_another_chain(is_listed: bool, has_delivered: bool, height: u64) -> bool {
    let mut scene = Scene::new(settings(if is_listed { &[0] } else { &[] }), 1);
    let ours: Vec<_> = (0..height).map(|height| Hash256([height as u8; 32])).collect();
    scene.fake.tip = Some(OwnTip { height: Height(height), hash: Hash256([7; 32]), signature: None, score: 100 });
    scene.fake.hashes = ours;
    scene.simulated_peers[0].behaviour = Behaviour::SilentAt("/chain/score");
    scene.run(Duration::from_millis(100));
    scene.greet(&info(0), ip_of(0));
    scene.run_seconds(3);
    scene.manager.table.get_mut(&address_of(0)).expect("a peer").has_delivered = has_delivered;
    scene.simulated_peers[0].behaviour = Behaviour::Good;
    answer(&mut scene, Score(500));
    answer(&mut scene, block(height + 1));
    assert_eq!(last_question(&scene), "/chain/hashes-from");
    answer(&mut scene, HashChain(vec![Hash256([0xee; 32]), Hash256([0xef; 32])]));
    assert_eq!(scene.experience(0), (0, 1));
    !scene.manager.split_peers(scene.now().monotonic).nodes.is_empty()
}

#[test]
fn a_better_chain_that_forked_beyond_the_rewrite_limit_is_detected() {
    assert!(claims_another_chain(true, false, 400) && claims_another_chain(false, true, 400));
}

#[test]
fn a_stranger_that_invents_hashes_splits_no_network() {
    assert!(!claims_another_chain(false, false, 400));
}

#[test]
fn a_chain_that_can_be_rolled_back_to_the_nemesis_block_is_not_split_off() {
    for height in [1, 360, 361] {
        assert!(!claims_another_chain(true, true, height), "{height}");
    }
    assert!(claims_another_chain(true, true, 362));
}

#[test]
fn peers_of_one_network_count_once_for_a_split() {
    let mut infos: Vec<_> = (0..4).map(info).collect();
    for (number, info) in infos[..3].iter_mut().enumerate() {
        info.endpoint = Endpoint::http(format!("77.7.7.{number}"), 7890);
    }
    let listed = infos.iter().cloned().map(ListedPeer::Node).collect();
    let mut scene = Scene::new(PeerSettings { listed, ..settings(&[]) }, 4);
    scene.fake.tip = Some(OwnTip { height: Height(400), hash: Hash256([7; 32]), signature: None, score: 100 });
    scene.fake.hashes = (0..400_u64).map(|height| Hash256([height as u8; 32])).collect();
    for (peer, info) in scene.simulated_peers.iter_mut().zip(infos) {
        (peer.info, peer.score, peer.hashes) = (info, 50, vec![Hash256([0xee; 32])]);
    }
    scene.simulated_peers[3].score = 100;
    scene.run(MIN_WORSE_TIME * 4);
    assert_eq!(apart(&scene), (1, 2));
}

#[test]
fn an_unreachable_or_malformed_sync_peer_is_not_penalized() {
    let good = || ok(vec![1, 2, 3], ip_of(0));
    let rejected = || status(500, b"no".to_vec());
    let replies: [fn() -> Reply; 5] = [timed_out, broken, unreachable, rejected, good];
    for reply in replies {
        let mut scene = comparing();
        answer(&mut scene, Score(500));
        let sent = scene.fake.waiting.pop_back().expect("a question");
        scene.end(sent.call, reply());
        assert_eq!((scene.experience(0), timer(&scene)), ((0, 0), (false, 0, 1)), "{reply:?}");
        scene.run_seconds(3);
        assert_eq!(scene.asked("/chain/score").len(), 2);
        assert_eq!(scene.manager.active().0, [info(0)], "and its state is as it was");
    }
}

#[test]
fn the_block_request_size_halves_on_failure_and_doubles_on_success() {
    let mut scene = comparing();
    let (mut failing, mut coming) = (Vec::new(), Vec::new());
    for comparison in 0..13 {
        if comparison > 0 {
            scene.simulated_peers[0].behaviour = Behaviour::SilentAt("/chain/score");
            scene.run_seconds(3);
            scene.simulated_peers[0].behaviour = Behaviour::Good;
        }
        answer_until_blocks(&mut scene);
        let sent = scene.fake.waiting.back().expect("a question");
        let asked: AuthenticatedRequest<ChainRequest> =
            settings(&[]).format.read(&sent.request.body, settings(&[]).context).expect("a request");
        let transactions = asked.entity.max_transactions.expect("a number");
        if comparison < 7 {
            failing.push(transactions);
            let call = scene.fake.waiting.pop_back().expect("a question").call;
            scene.end(call, broken());
        } else {
            coming.push(transactions);
            answer(&mut scene, List(vec![block(2)]));
            let now = scene.now();
            scene.manager.on_blocks_validated(&address_of(0), &Ok(()), now);
        }
    }
    assert_eq!(failing, [10_000, 5_000, 2_500, 1_250, 625, 625, 625]);
    assert_eq!(coming, [625, 1_250, 2_500, 5_000, 10_000, 10_000]);
}

#[test]
fn unconfirmed_transactions_are_requested_only_from_a_peer_with_the_same_score() {
    let mut scene = comparing();
    answer(&mut scene, Score(0));
    assert_eq!(last_question(&scene), "/transactions/unconfirmed");
    scene.answer_all();
    assert_eq!((scene.fake.unconfirmed, timer(&scene)), (1, (false, 1, 0)));
    let mut scene = comparing();
    scene.fake.tip = scene.fake.tip.map(|tip| OwnTip { score: 10, ..tip });
    answer(&mut scene, Score(9));
    assert_eq!((scene.fake.waiting.len(), timer(&scene), scene.experience(0)), (0, (false, 1, 0), (0, 0)));
}

#[test]
fn unconfirmed_transactions_of_an_impostor_are_discarded() {
    let mut scene = comparing();
    answer(&mut scene, Score(0));
    scene.simulated_peers[0].behaviour = Behaviour::SignedByAnother;
    scene.answer_all();
    assert_eq!((scene.fake.unconfirmed, timer(&scene), scene.experience(0)), (0, (false, 1, 0), (0, 0)));
}

#[test]
fn a_peer_whose_unconfirmed_transaction_has_a_wrong_signature_is_backed_off() {
    let mut scene = comparing();
    answer(&mut scene, Score(0));
    scene.answer_all();
    let retry_at = |scene: &Scene| {
        let table = &scene.manager.table;
        table.sync_retry_at(table.get(&address_of(0)).expect("a peer"))
    };
    let (now, before) = (scene.now(), retry_at(&scene));
    scene.manager.reject_remote_transactions(now);
    assert_eq!(retry_at(&scene), before, "nothing of a peer is here");
    for _ in 0..3 {
        let list = TransactionList::of_binary(vec![0; 4], settings(&[]).context, false, 0).expect("an empty list");
        scene.manager.remote_mempool = Some((address_of(0), list, 1));
        scene.manager.reject_remote_transactions(now);
        assert!(scene.manager.remote_mempool.is_none());
    }
    assert!(retry_at(&scene) >= before + Duration::from_secs(10), "it doubles with each failure");
}

#[test]
fn an_unreadable_store_ends_the_synchronisation_without_a_penalty() {
    let mut scene = comparing();
    scene.fake.tip = None;
    answer(&mut scene, Score(500));
    assert_eq!((timer(&scene), scene.experience(0)), ((false, 0, 1), (0, 0)));
}

/// Returns the score requests: peer and time since the start.
fn comparisons(scene: &Scene) -> Vec<(usize, Duration)> {
    let asked = scene.fake.history.iter().filter(|(_, _, path)| *path == "/chain/score");
    let times = asked.map(|(at, _, _)| *at);
    scene.asked("/chain/score").into_iter().zip(times).collect()
}

#[test]
fn a_silent_sync_peer_gets_little_time_if_there_is_another() {
    let mut scene = Scene::new(settings(&[0, 1]), 2);
    scene.simulated_peers[0].behaviour = Behaviour::SilentAt("/chain/score");
    scene.run_seconds(3_600);
    let times: Vec<_> = comparisons(&scene).into_iter().filter(|(node, _)| *node == 0).map(|(_, at)| at).collect();
    let least = Duration::from_secs(10 + 100);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= least), "{times:?}");
    // It doubles with each failure.
    assert!((5..=12).contains(&times.len()), "{} of 3600 s are wasted", 10 * times.len());
}

#[test]
fn a_download_that_fails_backs_off_the_peer_that_claimed_the_chain_and_not_the_last_sync_peer() {
    for outcome in [DownloadOutcome::NoPeersLeft, DownloadOutcome::Stalled] {
        let mut scene = Scene::new(settings(&[0, 1]), 2);
        scene.run_seconds(60);
        let base = Checkpoint { height: Height(1), hash: Hash256([1; 32]) };
        let batch = ChainRequest::new(base.height, 10, 1_000, &ChainParameters::after_all_forks());
        let retry_at = |scene: &Scene, peer| {
            scene.manager.table.get(&address_of(peer)).expect("a peer").sync_backoff.retry_at.saturating_sub(scene.now)
        };
        let before = retry_at(&scene, 1);
        for backoff in [5, 10, 20] {
            let claimed = (base, Height(5_000));
            let mut download = BlockDownload::new(1, address_of(0), claimed, 400, batch, None);
            (download.sync_peer, download.outcome) = (address_of(1), Some(outcome));
            scene.manager.block_download = Some(download);
            scene.manager.end_block_download(None, scene.now());
            assert_eq!((retry_at(&scene, 0), retry_at(&scene, 1)), (Duration::from_secs(backoff), before));
        }
        assert_eq!((scene.experience(0), scene.experience(1)), ((0, 3), (0, 0)));
    }
}

#[test]
fn a_download_of_a_false_chain_is_the_fault_of_the_peer_that_supplied_it_and_its_claim_too() {
    let (base, false_hash) = (Checkpoint { height: Height(1), hash: Hash256([1; 32]) }, Hash256([9; 32]));
    let batch = ChainRequest::new(base.height, 10, 1_000, &ChainParameters::after_all_forks());
    let misbehaved = DownloadOutcome::SyncPeerMisbehaved(address_of(1));
    for (outcome, rejection) in [
        (misbehaved, None),
        (DownloadOutcome::CheckpointMismatch(address_of(1), false_hash), None),
        (DownloadOutcome::Done, Some("a block is invalid")),
    ] {
        let mut scene = Scene::new(settings(&[0, 1]), 2);
        scene.run_seconds(60);
        let mut download = BlockDownload::new(1, address_of(0), (base, Height(5_000)), 400, batch, None);
        (download.sync_peer, download.outcome) = (address_of(1), Some(outcome));
        scene.manager.block_download = Some(download);
        let retry_at = |scene: &Scene, peer| scene.manager.table.get(&address_of(peer)).unwrap().sync_backoff.retry_at;
        let before = [0, 1].map(|peer| retry_at(&scene, peer));
        scene.manager.end_block_download(rejection, scene.now());
        assert_eq!((scene.experience(0), scene.experience(1)), ((0, 0), (0, 1)), "{outcome}");
        assert!([0, 1].into_iter().zip(before).all(|(peer, before)| retry_at(&scene, peer) > before), "{outcome}");
    }
}

#[test]
fn blocks_that_change_nothing_back_off_their_peer_unless_our_chain_has_changed_meanwhile() {
    let early = || Err(ValidationResult::FailureTimestampTooFarInFuture.into());
    let (too_deep, unusable) = (|| Err(Rejection::TooDeep), || Err(Rejection::Unusable));
    let results: [fn() -> RuleResult; 5] = [neutral, early, too_deep, unusable, harmful];
    let backoffs = [[0, 0, 0], [5, 5, 5], [5, 5, 5], [5, 10, 20], [5, 10, 20]];
    for (result, backoffs) in results.into_iter().zip(backoffs) {
        let mut scene = comparing();
        for (round, backoff) in backoffs.into_iter().enumerate() {
            if round > 0 {
                scene.simulated_peers[0].behaviour = Behaviour::SilentAt("/chain/score");
                scene.run_seconds(3);
                scene.simulated_peers[0].behaviour = Behaviour::Good;
            }
            answer_until_blocks(&mut scene);
            answer(&mut scene, List(vec![block(2)]));
            let before = scene.manager.table.get(&address_of(0)).expect("a peer").sync_backoff.retry_at;
            let now = scene.now();
            scene.manager.on_blocks_validated(&address_of(0), &result(), now);
            let after = scene.manager.table.get(&address_of(0)).expect("a peer").sync_backoff.retry_at;
            // Besides, ten times the few milliseconds that were wasted.
            let added = if after == before { 0 } else { (after - scene.now).as_secs() };
            assert_eq!(added, backoff, "{:?}, round {round}", result());
        }
        let blamed = if result().is_err_and(|rejection| rejection.blames_sender()) { 3 } else { 0 };
        assert_eq!(scene.experience(0), (0, blamed), "{:?}", result());
    }
}

#[test]
fn a_slow_useless_sync_peer_is_backed_off_and_a_quick_one_is_not() {
    for (took, rests) in [(9, false), (11, true)] {
        let mut scene = Scene::new(settings(&[0, 1]), 2);
        scene.simulated_peers.iter_mut().for_each(|other| other.behaviour = Behaviour::SilentAt("/chain/score"));
        scene.run(Duration::from_millis(850));
        let sent = scene.fake.waiting.pop_back().expect("a question");
        let slow = comparisons(&scene)[0].0;
        scene.now += Duration::from_secs(took);
        scene.simulated_peers.iter_mut().for_each(|other| other.behaviour = Behaviour::Good);
        let from = ip_of(slow);
        let body = signed(&scene.simulated_peers[slow], &sent.request, Score(0));
        scene.end(sent.call, ok(body, from));
        scene.run_seconds(59);
        let is_asked = comparisons(&scene).into_iter().skip(1).any(|(node, _)| node == slow);
        assert_eq!(is_asked, !rests, "{took} s");
    }
}

#[test]
fn a_slow_answer_with_unconfirmed_transactions_delays_no_comparison() {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.simulated_peers[0].behaviour = Behaviour::SilentAt("/transactions/unconfirmed");
    scene.run_seconds(10);
    let asked = [scene.asked("/chain/score").len(), scene.asked("/transactions/unconfirmed").len()];
    assert_eq!(asked, [4, 1], "one answer is waited for at a time");
    scene.run_seconds(10);
    assert!(scene.asked("/transactions/unconfirmed").len() > 1);
}

#[test]
fn synchronisation_attempts_are_counted_including_failures() {
    let mut scene = comparing();
    scene.simulated_peers[0].behaviour = Behaviour::SilentAt("/chain/score");
    scene.run_seconds(15);
    let entries = scene.manager.experience_entries();
    assert_eq!((entries.len(), entries[0].syncs), (1, 2));
}

#[test]
fn synchronisation_without_peers_fails_at_once() {
    let mut scene = Scene::new(settings(&[]), 0);
    scene.run_seconds(2);
    assert_eq!(timer(&scene), (false, 0, 1));
}

/// Returns a node with a chain of 400 blocks and peers with worse chains.
fn scene(others: usize) -> Scene {
    let mut scene = Scene::new(settings(&(0..others).collect::<Vec<_>>()), others);
    let hashes: Vec<_> = (0..400_u64).map(|height| Hash256([height as u8; 32])).collect();
    let (height, hash) = (Height(400), hashes[399]);
    scene.fake.tip = Some(OwnTip { height, hash, signature: None, score: 100 });
    scene.fake.hashes = hashes;
    scene.simulated_peers.iter_mut().for_each(|other| other.score = 50);
    scene
}

fn apart(scene: &Scene) -> (usize, usize) {
    let apart = scene.manager.split_peers(scene.now().monotonic);
    (apart.nodes.len(), apart.active)
}

#[test]
fn a_peer_with_a_persistently_worse_chain_is_queried_for_the_fork_height() {
    let mut scene = scene(1);
    scene.simulated_peers[0].hashes = vec![Hash256([0xee; 32])];
    scene.run(MIN_WORSE_TIME - Duration::from_secs(5));
    assert_eq!((scene.asked("/chain/hashes-from").len(), apart(&scene)), (0, (0, 1)));
    scene.run_seconds(15);
    assert_eq!((scene.asked("/chain/hashes-from").len(), apart(&scene)), (1, (1, 1)));
    // It is queried seldom, and its answer counts for a while.
    scene.run(QUERY_INTERVAL * 2);
    assert_eq!(scene.asked("/chain/hashes-from").len(), 3);
    scene.simulated_peers[0].behaviour = Behaviour::SilentAt("/chain/score");
    scene.run(OBSERVATION_TTL);
    assert_eq!(apart(&scene), (0, 1), "that was long ago");
}

#[test]
fn a_peer_that_is_behind_or_forked_recently_is_not_split_off() {
    // Our block 40 is the lowest that can be rolled back.
    for (theirs, is_apart) in [
        (vec![], false),
        (vec![Hash256([39; 32]), Hash256([0xee; 32])], false),
        (vec![Hash256([0xee; 32]), Hash256([40; 32])], true),
    ] {
        let mut scene = scene(1);
        scene.simulated_peers[0].hashes = theirs.clone();
        scene.run(MIN_WORSE_TIME * 2);
        // A peer without a block there is queried once more, for one that it has.
        let asked = if theirs.is_empty() { 2 } else { 1 };
        assert_eq!((scene.asked("/chain/hashes-from").len(), apart(&scene).0 == 1), (asked, is_apart), "{theirs:?}");
    }
}

#[test]
fn a_peer_with_a_better_chain_is_no_longer_split_off() {
    let mut scene = scene(2);
    scene.simulated_peers.iter_mut().for_each(|other| other.hashes = vec![Hash256([0xee; 32])]);
    scene.run(MIN_WORSE_TIME * 3);
    assert_eq!(apart(&scene), (2, 2));
    scene.simulated_peers[0].score = 100;
    scene.run_seconds(60);
    assert_eq!(apart(&scene), (1, 2));
}

#[test]
fn a_shorter_chain_is_split_off_if_its_fork_exceeds_the_rewrite_limit() {
    // Our lowest block that can be rolled back is above the end of the peer's chain, which can go back to block 20.
    for (common, is_apart) in [(19, true), (20, false), (25, false)] {
        let mut scene = scene(1);
        let ours: Vec<_> = (0..800_u64).map(|height| Hash256([(height % 251) as u8; 32])).collect();
        scene.fake.tip = Some(OwnTip { height: Height(800), hash: ours[799], signature: None, score: 100 });
        let theirs = |height: usize| if height <= common { ours[height - 1] } else { Hash256([0xee; 32]) };
        scene.simulated_peers[0].chain = (1..=380).map(theirs).collect();
        scene.simulated_peers[0].height = 380;
        scene.fake.hashes = ours;
        scene.run(MIN_WORSE_TIME * 2);
        assert_eq!((scene.asked("/chain/hashes-from").len(), apart(&scene).0 == 1), (2, is_apart), "{common}");
    }
}

/// Returns a download of a chain that a peer claims, whose hashes are followed to a checkpoint first, if there is one.
fn verified_claim(claimed_by: usize, checkpoint: Option<Checkpoint>) -> BlockDownload {
    let base = Checkpoint { height: Height(1), hash: Hash256([1; 32]) };
    let batch = ChainRequest::new(base.height, 10, 1_000, &ChainParameters::after_all_forks());
    BlockDownload::new(1, address_of(claimed_by), (base, Height(5_000)), 400, batch, checkpoint)
}

#[test]
fn chains_are_compared_beside_a_download_unless_its_blocks_arrive_in_time() {
    let checkpoint = Checkpoint { height: Height(300), hash: Hash256([9; 32]) };
    for (checkpoint, is_late, is_compared) in
        [(None, false, false), (None, true, true), (Some(checkpoint), false, true), (Some(checkpoint), true, true)]
    {
        let mut scene = Scene::new(settings(&[0]), 1);
        scene.run_seconds(60);
        let mut download = verified_claim(0, checkpoint);
        let context = scene.manager.settings.context;
        let since = if is_late { Duration::ZERO } else { scene.now };
        assert!(matches!(download.next(context, since), NextBlock::Waiting));
        scene.manager.block_download = Some(download);
        let before = scene.asked("/chain/score").len();
        scene.manager.run_soon(Task::Synchronisation);
        scene.tick();
        assert_eq!(scene.asked("/chain/score").len() > before, is_compared, "{checkpoint:?} {is_late}");
    }
}

#[test]
fn the_claim_of_a_listed_peer_replaces_that_of_another_one_that_is_being_verified() {
    let checkpoint = Checkpoint { height: Height(300), hash: Hash256([9; 32]) };
    // The claimant is peer 0; it is listed or not, and so is the one whose claim is being verified, if it is not proven yet.
    for (listed, claimed_by, is_verifying, is_replaced) in [
        (&[0][..], 1, true, true),
        (&[0], 1, false, false),
        (&[0], 0, true, false),
        (&[0, 1], 1, true, false),
        (&[], 1, true, false),
    ] {
        let settings = PeerSettings { checkpoint: Some(checkpoint), ..settings(listed) };
        let mut scene = Scene::new(settings, 1);
        scene.simulated_peers[0].behaviour = Behaviour::SilentAt("/chain/score");
        scene.run(Duration::from_millis(100));
        scene.greet(&info(0), ip_of(0));
        scene.run_seconds(3);
        assert_eq!(last_question(&scene), "/chain/score");
        scene.simulated_peers[0].behaviour = Behaviour::Good;
        scene.manager.block_download = Some(verified_claim(claimed_by, is_verifying.then_some(checkpoint)));
        answer(&mut scene, Score(500));
        answer(&mut scene, block(400));
        answer(&mut scene, HashChain(vec![Hash256([1; 32]), Hash256([2; 32])]));
        let target = scene.manager.block_download.as_ref().expect("a download").target;
        assert_eq!(target == Height(400), is_replaced, "{listed:?}, {claimed_by}, {is_verifying}");
    }
}

#[test]
fn a_claim_whose_blocks_come_too_slowly_costs_its_peer_like_one_that_stalls() {
    let checkpoint = Checkpoint { height: Height(300), hash: Hash256([9; 32]) };
    let mut scene = Scene::new(settings(&[0, 1]), 2);
    scene.run_seconds(60);
    let mut download = verified_claim(0, Some(checkpoint));
    (download.sync_peer, download.outcome) = (address_of(1), Some(DownloadOutcome::TooSlow(address_of(0))));
    scene.manager.block_download = Some(download);
    scene.manager.end_block_download(None, scene.now());
    assert_eq!((scene.experience(0), scene.experience(1)), ((0, 1), (0, 0)));
    let peer = scene.manager.table.get(&address_of(0)).expect("a peer");
    assert_eq!(peer.sync_backoff.retry_at, scene.now + Duration::from_secs(5));
}

#[test]
fn a_network_of_strangers_alone_is_synchronised_with_each_time() {
    let mut scene = Scene::new(settings(&[]), 1);
    scene.run_seconds(1);
    scene.greet(&info(0), ip_of(0));
    scene.answer_all();
    scene.run_seconds(120);
    let (_, successes, failures) = timer(&scene);
    assert!(successes >= 30 && failures <= 1, "{successes}, {failures}");
}

#[test]
fn every_second_synchronisation_is_with_a_listed_peer_before_any_has_delivered() {
    let strangers = 40;
    let mut scene = Scene::new(settings(&[0]), 1 + strangers);
    scene.run_seconds(1);
    for stranger in 1..=strangers {
        scene.greet(&info(stranger), ip_of(stranger));
        scene.answer_all();
    }
    scene.run_seconds(120);
    let compared = scene.asked("/chain/score");
    let with_listed = compared.iter().filter(|peer| **peer == 0).count();
    assert!(compared.len() >= 30 && 5 * with_listed >= 2 * compared.len(), "{with_listed} of {}", compared.len());
}
