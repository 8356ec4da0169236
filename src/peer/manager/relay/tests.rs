use std::time::Duration;

use crate::codec::Context;
use crate::model::network::ChainParameters;
use crate::model::transaction::{Message, MessageKind, Transfer};
use crate::model::{Amount, Block, BlockKind, Body, Hash256, Height, Network, Timestamp, Transaction};
use crate::peer::manager::PeerSettings;
use crate::peer::manager::relay::{MAX_BUFFERED, max_buffered_bytes};
use crate::peer::manager::requests::MAX_PUSHES_PER_TARGET;
use crate::peer::tests::*;
use crate::peer::wire::{Endpoint, List, NodeInfo, SecureEntity, limits};

pub fn transaction(number: usize, message_bytes: usize) -> Transaction {
    Transaction {
        version: 0x9800_0001_u32 as i32,
        timestamp: Timestamp(number as i32),
        signer: pair(1).public(),
        signature: Some(pair(1).sign(b"")),
        fee: Amount(1),
        deadline: Timestamp(number as i32 + 1),
        body: Body::Transfer(Transfer {
            recipient: address_of(2),
            amount: Amount(1),
            message: (message_bytes > 0).then(|| Message { kind: MessageKind::Plain, payload: vec![1; message_bytes] }),
            mosaics: Vec::new(),
        }),
    }
}

/// Returns a node with active peers.
fn among(partners: usize) -> Scene {
    let mut scene = Scene::new(settings(&(0..partners).collect::<Vec<_>>()), partners);
    scene.run_seconds(5);
    scene.fake.history.clear();
    scene
}

fn queue(scene: &mut Scene, number: usize, message_bytes: usize) -> bool {
    scene.manager.queue_transaction(&transaction(number, message_bytes))
}

fn pushed(scene: &Scene, path: &str) -> Vec<(u64, usize)> {
    let pushes = scene.fake.history.iter().filter(|(_, _, other)| *other == path);
    let number = |to: &str| scene.simulated_peers.iter().position(|other| other.info.endpoint.to_string() == to);
    pushes.map(|(at, to, _)| (at.as_secs(), number(to).expect("a partner"))).collect()
}

#[test]
fn transactions_of_one_second_are_pushed_once_in_one_signed_list() {
    let mut scene = among(1);
    assert!(queue(&mut scene, 1, 0) && queue(&mut scene, 2, 0));
    assert!(!queue(&mut scene, 1, 0), "it waits already");
    scene.now += Duration::from_secs(1);
    scene.tick();
    let sent =
        scene.fake.waiting.iter().find(|sent| sent.request.target == "/push/transactions").expect("a push").clone();
    let context = Context::of(&Network::example());
    let List(pushed) = FORMAT.read::<List<SecureEntity<Transaction>>>(&sent.request.body, context).expect("a list");
    assert_eq!(pushed.iter().map(|pushed| pushed.entity.timestamp.0).collect::<Vec<_>>(), [1, 2]);
    assert!(pushed.iter().all(|pushed| pushed.verify().0 && pushed.identity == info(LOCAL).identity));
    scene.run_seconds(5);
    assert_eq!(self::pushed(&scene, "/push/transactions").len(), 1, "an empty buffer sends nothing");
    assert!(queue(&mut scene, 1, 0), "it may come again later");
}

#[test]
fn the_relay_queue_is_limited_in_number_and_in_bytes() {
    let chain = ChainParameters { max_transactions_per_block: 1_000, ..ChainParameters::after_all_forks() };
    let mut scene = Scene::new(PeerSettings { chain, ..settings(&[0]) }, 1);
    scene.run_seconds(5);
    let taken = (0..MAX_BUFFERED + 100).filter(|number| queue(&mut scene, *number, 0)).count();
    assert_eq!(taken, MAX_BUFFERED);
    let mut scene = among(1);
    let taken = (0..MAX_BUFFERED).filter(|number| queue(&mut scene, *number, 1_000)).count();
    let one = SecureEntity::sign(transaction(0, 1_000), &pair(LOCAL), info(LOCAL).identity.name);
    assert_eq!(taken, max_buffered_bytes(&settings(&[])) / (FORMAT.to_bytes(&one).len() + 4));
    scene.now += Duration::from_secs(1);
    scene.tick();
    let sent = scene.fake.waiting.iter().find(|sent| sent.request.target == "/push/transactions").expect("a push");
    let (length, limit) = (sent.request.body.len(), limits::pushed(&settings(&[]).chain, FORMAT));
    assert!((limit - 3 * limits::ENVELOPE..=limit).contains(&length), "{length} bytes of {limit} that a node takes");
    assert!(queue(&mut scene, 0, 1_000), "there is space again");
}

#[test]
fn a_silent_peer_does_not_delay_pushes_to_others_and_is_skipped_temporarily() {
    let mut scene = among(2);
    scene.simulated_peers[0].behaviour = Behaviour::SilentAt("/push/transactions");
    for number in 0..9 {
        assert!(queue(&mut scene, number, 0));
        scene.run_seconds(1);
    }
    let pushes = pushed(&scene, "/push/transactions");
    let to = |sync_peer| pushes.iter().filter(|(_, to)| *to == sync_peer).count();
    assert_eq!((to(0), to(1)), (MAX_PUSHES_PER_TARGET, 9));
    assert!(scene.manager.active().0.contains(&info(0)), "its state is as it was");
}

#[test]
fn a_block_is_pushed_to_all_selected_peers_at_once_signed_by_this_node() {
    let mut scene = among(3);
    let block = Block {
        kind: BlockKind::Regular,
        version: 0x9800_0001_u32 as i32,
        timestamp: Timestamp(5),
        signer: pair(1).public(),
        signature: Some(pair(1).sign(b"")),
        previous_hash: Hash256([1; 32]).into(),
        height: Height(9),
        transactions: Vec::new(),
    };
    scene.act(|manager, now, _| manager.push_block(block.clone(), now));
    assert_eq!(scene.fake.waiting.len(), 3);
    let body = &scene.fake.waiting[0].request.body;
    let pushed = FORMAT.read::<SecureEntity<Block>>(body, Context::of(&Network::example())).expect("a block");
    assert!(pushed.verify().0 && pushed.entity == block && pushed.identity.key == pair(LOCAL).public());
}

#[test]
fn a_node_that_is_not_booted_relays_nothing() {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.tick();
    assert!(!queue(&mut scene, 1, 0));
}

#[test]
fn signs_of_life_are_sent_every_five_minutes_with_the_detected_address() {
    let mut scene = Scene::new(settings(&[0, 1]), 2);
    scene.simulated_peers.iter_mut().for_each(|peer| peer.sees = "30.0.0.1");
    scene.relay(LOCAL, Endpoint::http("30.0.0.1", 7890));
    scene.run_seconds(1);
    let asked = scene.asked("/node/sign-of-life");
    assert_eq!(asked.len(), 2);
    scene.run_seconds(299);
    assert_eq!(scene.asked("/node/sign-of-life").len(), 2);
    scene.now += Duration::from_secs(1);
    scene.tick();
    let sent = scene.fake.waiting.iter().find(|sent| sent.request.target == "/node/sign-of-life").expect("a sign");
    let reported = FORMAT.read::<NodeInfo>(&sent.request.body, Context::of(&Network::example())).expect("a node");
    assert_eq!((reported.endpoint.host.as_str(), reported.identity), ("30.0.0.1", info(LOCAL).identity));
    assert!(!sent.request.is_idempotent);
}

#[test]
fn an_unreachable_listed_peer_is_still_shared() {
    let mut scene = among(1);
    assert_eq!(scene.manager.peers_to_share(&mut || 0).0, [info(0)]);
    scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
    scene.run_seconds(400);
    // A listed peer is selected when none is active.
    assert_eq!(scene.manager.peers_to_share(&mut || 0).0, [info(0)]);
    assert!(scene.manager.table.iter().all(|(address, _)| *address == address_of(0)));
}
