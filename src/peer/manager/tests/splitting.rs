use std::time::Duration;

use crate::model::{Hash256, Height};
use crate::peer::io::OwnTip;
use crate::peer::manager::synchronisation::{MIN_WORSE_TIME, OBSERVATION_TTL, QUERY_INTERVAL};
use crate::peer::testing::*;

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
