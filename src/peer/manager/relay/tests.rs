use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use crate::codec::Context;
use crate::model::network::ChainParameters;
use crate::model::transaction::{Message, MessageKind, Transfer};
use crate::model::{Amount, Block, BlockKind, Body, Hash256, Height, Network, NetworkByte, Timestamp, Transaction};
use crate::peer::manager::probes::MAX_PINGS;
use crate::peer::manager::relay::{EVICTION_AGE, MAX_BUFFERED, MAX_SIGN_PROBES, max_buffered_bytes};
use crate::peer::manager::requests::MAX_PUSHES_PER_TARGET;
use crate::peer::manager::{ListedPeer, PeerSettings, Pusher};
use crate::peer::peer_entry::State;
use crate::peer::tests::seeded;
use crate::peer::tests::*;
use crate::peer::wire::{Endpoint, List, MetaData, NodeInfo, SecureEntity, limits};

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

/// Returns a node that has joined a network without knowing any peer.
fn alone(others: usize) -> Scene {
    let mut scene = Scene::new(settings(&[]), others);
    scene.tick();
    scene
}

#[test]
fn an_unknown_sender_is_answered_and_active_only_after_verification() {
    let mut scene = alone(1);
    assert_eq!(scene.greet(&info(0), ip_of(0)), None);
    assert!(scene.fake.answers.is_empty() && scene.manager.table.is_empty());
    scene.answer_all();
    assert_eq!(scene.fake.answers, [(ConnectionId(1), Ok(()))]);
    assert_eq!(scene.manager.active().0, [info(0)]);
    assert_eq!(scene.asked("/node/peer-list/active"), [0; 0]);
}

#[test]
fn a_known_peer_that_greets_is_probed_once_at_each_endpoint_whatever_others_are_probed() {
    let mut scene = alone(3);
    for number in 0..2 {
        scene.greet(&info(number), ip_of(number));
        scene.answer_all();
    }
    for number in 0..2 {
        scene.manager.table.get_mut(&address_of(number)).unwrap().state = State::Failure;
    }
    let before = scene.asked("/node/info").len();
    // Nobody answers yet.
    for number in [0, 0, 1, 1] {
        assert_eq!(scene.greet(&info(number), ip_of(number)), Some(Ok(())));
    }
    assert_eq!(scene.asked("/node/info")[before..], [0, 1]);
}

#[test]
fn a_sender_that_cannot_be_verified_gets_an_error_and_stays_unknown() {
    for behaviour in [
        Behaviour::Unreachable,
        Behaviour::Silent,
        Behaviour::SignedByAnother,
        Behaviour::Garbage,
        Behaviour::OtherIdentity,
    ] {
        let mut scene = alone(1);
        scene.simulated_peers[0].behaviour = behaviour.clone();
        assert_eq!(scene.greet(&info(0), ip_of(0)), None);
        scene.run_seconds(11);
        let [(ConnectionId(1), Err(reason))] = &scene.fake.answers[..] else {
            panic!("{behaviour:?}: {:?}", scene.fake.answers)
        };
        assert!(!reason.is_empty());
        assert!(scene.manager.table.is_empty(), "{behaviour:?}");
    }
}

#[test]
fn an_implausible_sign_of_life_is_ignored_without_a_call() {
    let mut scene = alone(1);
    let of_mainnet = MetaData { network_id: MetaData::network_id_of(NetworkByte::MAINNET), ..info(0).meta_data };
    let elsewhere = NodeInfo { endpoint: Endpoint::http("99.1.1.1", 7890), ..info(0) };
    for (node, from) in
        [(NodeInfo { meta_data: of_mainnet, ..info(0) }, ip_of(0)), (elsewhere, ip_of(0)), (info(LOCAL), ip_of(LOCAL))]
    {
        assert_eq!(scene.greet(&node, from), Some(Ok(())), "{node:?}");
    }
    assert!(scene.fake.history.is_empty());
}

#[test]
fn a_node_that_is_not_booted_ignores_signs_of_life() {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.tick();
    assert_eq!(scene.greet(&info(0), ip_of(0)), Some(Ok(())));
}

#[test]
fn a_sender_is_called_back_only_at_its_source_address() {
    let mut scene = alone(1);
    let named = NodeInfo { endpoint: Endpoint::http("victim.example", 7890), ..info(0) };
    assert_eq!(scene.greet(&named, ip_of(0)), None);
    assert_eq!(scene.fake.waiting[0].to, info(0).endpoint);
    // An IPv4-mapped IPv6 address is the same address.
    let IpAddr::V4(v4) = ip_of(0) else { panic!("IPv4") };
    assert_eq!(scene.greet(&info(0), v4.to_ipv6_mapped().into()), None);
    let v6: IpAddr = "2001:db8::5".parse().expect("an address");
    let there = NodeInfo { endpoint: Endpoint::http("[2001:db8:0:0:0:0:0:5]", 80), ..info(0) };
    assert_eq!(scene.greet(&there, v6), None);
    assert_eq!(scene.fake.waiting[2].to.to_string(), "http://[2001:db8::5]:80");
}

/// Returns an unknown node at a port of its own.
fn stranger(host: &str, port: usize) -> NodeInfo {
    NodeInfo { endpoint: Endpoint::http(host, port as u16), ..info(1_000 + port) }
}

fn ip(host: &str) -> IpAddr {
    host.parse().expect("an address")
}

#[test]
fn requests_that_signs_of_life_cause_are_limited() {
    let mut scene = alone(0);
    for port in 1..=MAX_SIGN_PROBES {
        assert!(scene.greet(&stranger("66.0.0.1", port), ip("66.0.0.1")).is_none());
    }
    assert!(matches!(scene.greet(&stranger("66.0.0.1", 99), ip("66.0.0.1")), Some(Err(_))));
    // Other clients get places, those of the same network too.
    assert!(scene.greet(&stranger("66.0.0.2", 1), ip("66.0.0.2")).is_none());
    for node in 1..MAX_SIGN_PROBES {
        assert!(scene.greet(&info(node), ip_of(node)).is_none(), "{node}");
    }
    assert_eq!((scene.manager.sign_probes.len(), scene.fake.answers.len()), (MAX_SIGN_PROBES, MAX_SIGN_PROBES));
    scene.answer_all();
    assert!(scene.manager.sign_probes.is_empty());
    assert!(scene.greet(&info(100), ip_of(100)).is_none());
}

#[test]
fn a_newcomer_takes_the_place_of_the_network_that_holds_most() {
    let mut scene = alone(1);
    let hosts: Vec<_> = (1..=8).map(|host| format!("66.0.{host}.1")).collect();
    for host in &hosts {
        for port in 1..=MAX_SIGN_PROBES / 8 {
            assert!(scene.greet(&stranger(host, port), ip(host)).is_none());
        }
    }
    let waiting: Vec<_> = scene.fake.waiting.iter().map(|sent| sent.call).collect();
    let honest = scene.greet(&info(0), ip_of(0));
    assert!(honest.is_none(), "{honest:?}");
    // The oldest slot was evicted with its request, and its sender gets an answer.
    assert_eq!(scene.fake.answers, [(ConnectionId(1), Err("too many signs of life at once".to_owned()))]);
    assert_eq!(scene.fake.waiting.len(), MAX_SIGN_PROBES);
    assert!(scene.fake.waiting.iter().all(|sent| sent.call != waiting[0]));
    assert_eq!(scene.manager.requests.outstanding().len(), MAX_SIGN_PROBES);
    scene.answer_all();
    assert_eq!(scene.state(0), Some(State::Active));
}

#[test]
fn hosts_with_one_verification_slot_are_evicted_only_after_two_seconds() {
    let mut scene = alone(1);
    let greet_all = |scene: &mut Scene| {
        (0..MAX_SIGN_PROBES)
            .filter(|host| {
                let host = format!("66.0.{host}.1");
                scene.greet(&stranger(&host, 1), ip(&host)).is_none()
            })
            .count()
    };
    assert_eq!(greet_all(&mut scene), MAX_SIGN_PROBES);
    scene.now += EVICTION_AGE - Duration::from_millis(1);
    assert!(matches!(scene.greet(&info(0), ip_of(0)), Some(Err(_))));
    scene.now += Duration::from_millis(1);
    // They do not evict each other, and asking again renews nothing.
    assert_eq!(greet_all(&mut scene), 0);
    assert!(scene.greet(&info(0), ip_of(0)).is_none());
    assert_eq!(scene.fake.waiting.len(), MAX_SIGN_PROBES);
    scene.answer_all();
    assert_eq!(scene.state(0), Some(State::Active));
}

#[test]
fn a_network_with_many_hosts_does_not_regain_evicted_verification_slots() {
    for host in [(|n| format!("66.0.0.{n}")) as fn(usize) -> String, |n| format!("2a01:1:2:{n:x}::1")] {
        let mut scene = alone(10);
        for number in 0..MAX_SIGN_PROBES {
            let host = host(number);
            let node = stranger(&if host.contains(':') { format!("[{host}]") } else { host.clone() }, 1);
            assert!(scene.greet(&node, ip(&host)).is_none());
        }
        scene.simulated_peers.iter_mut().for_each(|other| other.behaviour = Behaviour::Silent);
        for honest in 0..10 {
            assert!(scene.greet(&info(honest), ip_of(honest)).is_none(), "{honest}");
            scene.now += EVICTION_AGE;
            // Another host of the network evicts only a slot of its own network.
            let again = host(200 + honest);
            let node = stranger(&if again.contains(':') { format!("[{again}]") } else { again.clone() }, 1);
            scene.greet(&node, ip(&again));
            let is_honest = |number: usize| scene.fake.waiting.iter().any(|sent| sent.to == info(number).endpoint);
            assert!((0..=honest).all(is_honest), "{honest}");
        }
    }
}

#[test]
fn a_verification_slot_is_evicted_only_for_a_reachable_endpoint() {
    let mut scene = alone(0);
    for host in 0..MAX_SIGN_PROBES {
        let host = format!("66.0.{host}.1");
        assert!(scene.greet(&stranger(&host, 1), ip(&host)).is_none());
    }
    scene.now += EVICTION_AGE;
    let nowhere = NodeInfo { endpoint: Endpoint { port: 0, ..info(0).endpoint }, ..info(0) };
    assert!(matches!(scene.greet(&nowhere, ip_of(0)), Some(Err(_))));
    assert!(scene.fake.answers.is_empty() && scene.fake.waiting.len() == MAX_SIGN_PROBES);
}

#[test]
fn probes_of_known_peers_after_signs_of_life_share_the_places() {
    let mut scene = alone(1);
    scene.greet(&info(0), ip_of(0));
    scene.answer_all();
    scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
    scene.run_seconds(600);
    assert_eq!(scene.state(0), Some(State::Inactive));
    scene.now += Duration::from_secs(60);
    for port in 1..=MAX_SIGN_PROBES {
        assert!(scene.greet(&stranger("66.0.0.1", port), ip("66.0.0.1")).is_none());
    }
    scene.greet(&info(0), ip_of(0));
    assert!(scene.fake.waiting.iter().any(|sent| sent.to == info(0).endpoint));
    assert_eq!((scene.fake.waiting.len(), scene.manager.sign_probes.len()), (MAX_SIGN_PROBES, MAX_SIGN_PROBES));
}

#[test]
fn listed_peers_keep_their_endpoint_whatever_the_network_reports() {
    let there = Endpoint::http("66.6.6.6", 7890);
    let relayed = NodeInfo { endpoint: there.clone(), ..info(0) };
    let check = |scene: &Scene, when: &str| {
        assert_eq!(scene.place(0), Some(info(0).endpoint), "{when}");
        assert!(scene.fake.history.iter().all(|(_, to, _)| *to != there.to_string()), "{when}");
    };
    for is_silent in [false, true] {
        let mut scene = Scene::new(settings(&[0, 1]), 2);
        scene.relay(0, there.clone());
        scene.simulated_peers[1].list = vec![relayed.clone()];
        scene.tick();
        scene.answer_all();
        // Before the first answer.
        (0..50).for_each(|_| assert_eq!(scene.greet(&relayed, ip("66.6.6.6")), Some(Ok(()))));
        check(&scene, "at the start");
        assert_eq!(
            scene.state(0),
            Some(State::Untried),
            "it is not believed before it has answered where it is listed"
        );
        let looks = scene.fake.waiting.iter().filter(|sent| sent.to == info(0).endpoint).count();
        assert_eq!(looks, 1, "it is looked at there, once");
        scene.answer_all();
        assert_eq!(scene.state(0), Some(State::Active));
        scene.run_seconds(10);
        if is_silent {
            scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
            scene.run_seconds(200);
            assert_eq!(scene.state(0), Some(State::Inactive));
        }
        for _ in 0..100 {
            scene.greet(&relayed, ip("66.6.6.6"));
            scene.run_seconds(7);
            check(&scene, "later");
        }
        scene.simulated_peers[0].behaviour = Behaviour::Good;
        scene.run_seconds(61);
        scene.greet(&relayed, ip("66.6.6.6"));
        scene.answer_all();
        check(&scene, "back");
        assert_eq!(scene.state(0), Some(State::Active), "whoever says so, it is there");
    }
}

#[test]
fn a_known_peer_moves_only_after_a_minute_without_an_answer_and_loses_its_history() {
    let there = Endpoint::http("66.6.6.6", 7890);
    let relayed = NodeInfo { endpoint: there.clone(), ..info(1) };
    let mut scene = Scene::new(settings(&[0]), 2);
    scene.relay(1, there.clone());
    scene.simulated_peers[0].list = vec![info(1)];
    scene.run_seconds(10);
    let now = scene.now();
    scene.manager.record_push(&pusher(1), &Ok(()), now);
    assert_eq!(scene.experience(1), (1, 0));
    // It keeps its endpoint while it answers there.
    for _ in 0..40 {
        scene.greet(&relayed, ip("66.6.6.6"));
        scene.run_seconds(10);
    }
    assert_eq!((scene.place(1), scene.state(1)), (Some(info(1).endpoint), Some(State::Active)));
    assert!(scene.experience(1).0 == 1 && scene.trust(1).is_some());
    // It fails: it becomes inactive, but keeps its endpoint for at least a minute.
    scene.simulated_peers[1].behaviour = Behaviour::Unreachable;
    scene.simulated_peers[0].list.clear();
    let mut failed_at = None;
    while scene.place(1) == Some(info(1).endpoint) {
        scene.run_seconds(5);
        failed_at = failed_at.or_else(|| (scene.state(1) != Some(State::Active)).then_some(scene.now));
        scene.greet(&relayed, ip("66.6.6.6"));
        scene.answer_all();
        assert!(scene.now < Duration::from_secs(2_000), "it never moves");
    }
    let gone_for = scene.now - failed_at.expect("it is not active at first");
    assert!((55..200).contains(&gone_for.as_secs()), "{gone_for:?}");
    assert_eq!((scene.place(1), scene.state(1)), (Some(there.clone()), Some(State::Active)));
    assert_eq!((scene.experience(1), scene.trust(1)), ((0, 0), None), "nobody trusts it for what it was elsewhere");
    // A push from the known endpoint gives no credit to the other endpoint.
    let now = scene.now();
    scene.manager.record_push(&pusher(1), &Ok(()), now);
    assert_eq!(scene.experience(1), (0, 0));
    scene.manager.record_push(&Pusher { from: ip("66.6.6.6"), ..pusher(1) }, &Ok(()), now);
    assert_eq!(scene.experience(1), (1, 0));
}

/// Returns a scene with a listed peer and another one that moved to a relay which has left.
fn taken_for_a_relay() -> (Scene, NodeInfo) {
    let mut scene = Scene::new(settings(&[0]), 2);
    let there = Endpoint::http("66.6.6.6", 7890);
    let relay = scene.relay(1, there.clone());
    scene.run_seconds(10);
    let relayed = NodeInfo { endpoint: there, ..info(1) };
    scene.greet(&relayed, ip("66.6.6.6"));
    scene.answer_all();
    assert_eq!(scene.place(1), Some(relayed.endpoint.clone()));
    scene.simulated_peers[relay].behaviour = Behaviour::Unreachable;
    (scene, relayed)
}

#[test]
fn a_listed_peer_that_is_active_is_not_looked_for_where_it_greets_from() {
    let mut scene = Scene::new(settings(&[0]), 1);
    let there = Endpoint::http("66.6.6.6", 7890);
    let relay = scene.relay(0, there.clone());
    scene.run_seconds(10);
    let asked = scene.asked("/node/info").len();
    scene.greet(&NodeInfo { endpoint: there, ..info(0) }, ip("66.6.6.6"));
    scene.answer_all();
    assert_eq!((scene.asked("/node/info").len(), scene.asked("/node/info").contains(&relay)), (asked, false));
}

#[test]
fn pushes_from_another_address_do_not_keep_an_unresponsive_endpoint() {
    let (mut scene, _) = taken_for_a_relay();
    for _ in 0..40 {
        scene.run_seconds(10);
        let now = scene.now();
        scene.manager.record_push(&pusher(1), &Ok(()), now);
        scene.greet(&info(1), ip_of(1));
        scene.answer_all();
    }
    assert_eq!((scene.place(1), scene.state(1)), (Some(info(1).endpoint), Some(State::Active)));
}

#[test]
fn a_push_from_any_loopback_address_counts_for_a_local_peer() {
    let mut scene = Scene::new(settings(&[]), 0);
    let relay = scene.relay(1, Endpoint::http("127.0.0.2", 7890));
    scene.tick();
    scene.greet(&NodeInfo { endpoint: Endpoint::http("127.0.0.2", 7890), ..info(1) }, ip("127.0.0.2"));
    scene.answer_all();
    scene.simulated_peers[relay].behaviour = Behaviour::Unreachable;
    scene.run_seconds(200);
    assert_eq!(scene.state(1), Some(State::Inactive));
    let now = scene.now();
    scene.manager.record_push(&pusher(1), &Ok(()), now);
    assert_eq!(scene.state(1), Some(State::Inactive));
    scene.manager.record_push(&Pusher { from: ip("127.0.0.1"), ..pusher(1) }, &Ok(()), now);
    assert_eq!((scene.state(1), scene.experience(1)), (Some(State::Active), (1, 0)));
}

#[test]
fn only_a_valid_block_that_comes_from_a_peers_own_address_is_a_delivery() {
    for (from, result, is_delivery) in
        [(0, Ok(()), true), (1, Ok(()), false), (0, neutral(), false), (0, harmful(), false)]
    {
        let mut scene = alone(1);
        scene.greet(&info(0), ip_of(0));
        scene.answer_all();
        let now = scene.now();
        scene.manager.record_pushed_block(&Pusher { from: ip_of(from), ..pusher(0) }, &result, now);
        let known = scene.manager.table.get(&address_of(0)).expect("a peer");
        assert_eq!(known.has_delivered, is_delivery, "{from} {result:?}");
    }
}

#[test]
fn a_sign_of_life_after_a_failed_probe_probes_its_source_address() {
    let (mut scene, relayed) = taken_for_a_relay();
    let fails = |scene: &mut Scene| {
        let looks = |scene: &Scene| scene.asked("/node/info").iter().filter(|node| **node == 2).count();
        let before = looks(scene);
        while looks(scene) == before {
            scene.run_seconds(1);
        }
    };
    while scene.state(1) == Some(State::Active) {
        scene.run_seconds(1);
    }
    scene.run_seconds(10);
    scene.greet(&info(1), ip_of(1));
    scene.answer_all();
    assert_eq!(scene.place(1), Some(relayed.endpoint.clone()), "it has not been away for a minute");
    fails(&mut scene);
    let asked = scene.fake.history.len();
    // The relay was there before, which does not lock the peer out; nor is it probed for each of its signs.
    (0..20).for_each(|_| {
        _ = scene.greet(&NodeInfo { endpoint: Endpoint::http("66.6.6.7", 1), ..info(1) }, ip("66.6.6.7"))
    });
    scene.answer_all();
    assert_eq!(scene.fake.history.len(), asked + 1);
    scene.greet(&info(1), ip_of(1));
    scene.answer_all();
    assert_eq!((scene.place(1), scene.state(1)), (Some(info(1).endpoint), Some(State::Active)));
}

#[test]
fn a_loading_peer_is_busy_and_keeps_its_endpoint() {
    let there = Endpoint::http("66.6.6.6", 7890);
    let mut scene = Scene::new(settings(&[]), 1);
    scene.relay(0, there.clone());
    scene.tick();
    scene.greet(&info(0), ip_of(0));
    scene.answer_all();
    scene.simulated_peers[0].behaviour = Behaviour::Status(503, Some("NIS_ILLEGAL_STATE_LOADING_CHAIN"));
    for _ in 0..20 {
        scene.run_seconds(61);
        scene.greet(&NodeInfo { endpoint: there.clone(), ..info(0) }, ip("66.6.6.6"));
        scene.answer_all();
    }
    assert_eq!((scene.place(0), scene.state(0)), (Some(info(0).endpoint), Some(State::Busy)));
}

#[test]
fn a_configured_endpoint_replaces_the_known_one_and_is_probed() {
    let mut scene = Scene::new(settings(&[]), 1);
    let there = Endpoint::http("66.6.6.6", 7890);
    scene.relay(0, there.clone());
    scene.tick();
    scene.greet(&NodeInfo { endpoint: there.clone(), ..info(0) }, ip("66.6.6.6"));
    scene.answer_all();
    assert_eq!((scene.place(0), scene.state(0)), (Some(there), Some(State::Active)));
    scene.manager.add_listed_peers(vec![ListedPeer::Node(info(0))]);
    assert_eq!((scene.place(0), scene.state(0)), (Some(info(0).endpoint), Some(State::Untried)));
    scene.run_seconds(200);
    assert_eq!(scene.state(0), Some(State::Active));
    // The same for a peer that is listed already.
    let elsewhere = NodeInfo { endpoint: Endpoint::http("77.7.7.7", 7890), ..info(0) };
    scene.manager.add_listed_peers(vec![ListedPeer::Node(elsewhere.clone())]);
    assert_eq!((scene.place(0), scene.state(0)), (Some(elsewhere.endpoint), Some(State::Untried)));
}

#[test]
fn a_useful_push_or_an_answer_makes_a_peer_active() {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.run_seconds(10);
    scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
    scene.run_seconds(200);
    assert_eq!(scene.state(0), Some(State::Inactive));
    let now = scene.now();
    for result in [neutral(), harmful()] {
        scene.manager.record_push(&pusher(0), &result, now);
        assert_eq!(scene.state(0), Some(State::Inactive), "{result:?}");
    }
    let elsewhere = Pusher { from: ip("66.6.6.6"), ..pusher(0) };
    scene.manager.record_push(&elsewhere, &Ok(()), now);
    assert_eq!((scene.state(0), scene.place(0)), (Some(State::Active), Some(info(0).endpoint)));
    assert!(scene.manager.has_active_node());
    // The same by an answer: it is asked for its chain, as no other listed peer answers.
    scene.run_seconds(70);
    assert_eq!(scene.state(0), Some(State::Inactive));
    scene.simulated_peers[0].behaviour = Behaviour::Good;
    scene.run_seconds(4);
    assert_eq!(scene.state(0), Some(State::Active));
}

#[test]
fn an_answer_to_any_request_makes_a_peer_active() {
    for path in ["/node/experiences", "/time-sync/network-time", "/transactions/unconfirmed"] {
        let mut scene = Scene::new(settings(&[0]), 1);
        scene.fake.importances.insert(address_of(0), 0.1);
        while !scene.fake.waiting.iter().any(|sent| sent.request.target == path) {
            scene.now += Duration::from_millis(100);
            scene.tick();
            while let Some(place) = scene.fake.waiting.iter().position(|sent| sent.request.target != path) {
                let sent = scene.fake.waiting.remove(place).expect("a request");
                let reply = scene.reply(&sent);
                scene.end(sent.call, reply);
            }
        }
        let sent = scene.fake.waiting.pop_front().expect("a request");
        scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
        scene.run_seconds(200);
        assert_eq!(scene.state(0), Some(State::Inactive), "{path}");
        scene.simulated_peers[0].behaviour = Behaviour::Good;
        let reply = scene.reply(&sent);
        scene.end(sent.call, reply);
        assert_eq!(scene.state(0), Some(State::Active), "{path}");
    }
}

#[test]
fn the_second_peer_of_a_small_network_is_trusted_and_shared_within_a_minute() {
    let mut scene = Scene::new(settings(&[0]), 2);
    scene.run_seconds(100);
    scene.greet(&info(1), ip_of(1));
    scene.run_seconds(60);
    assert!(scene.trust(1).is_some_and(|trust| trust > 0.0));
    let mut random = seeded(1);
    assert!((0..20).any(|_| scene.manager.peers_to_share(&mut random).0.contains(&info(1))));
}

#[test]
fn active_peers_that_are_not_selected_are_shared_up_to_the_node_limit() {
    for (limit, reported) in [(20, 6), (5, 5), (3, 3), (1, 2)] {
        let mut scene = Scene::new(PeerSettings { node_limit: limit, ..settings(&[0]) }, 6);
        scene.run_seconds(100);
        for node in 1..6 {
            scene.greet(&info(node), ip_of(node));
            scene.answer_all();
        }
        // Trust was calculated before they appeared: only the listed peer is selected.
        let mut random = seeded(1);
        let lists: Vec<_> = (0..60).map(|_| scene.manager.peers_to_share(&mut random).0).collect();
        for list in &lists {
            let named: BTreeSet<_> = list.iter().map(|node| node.identity.key).collect();
            assert_eq!((list.len(), named.len()), (reported, reported), "limit {limit}");
        }
        assert!((0..6).all(|node| lists.iter().flatten().any(|one| *one == info(node))), "limit {limit}");
    }
}

#[test]
fn a_sign_of_life_of_a_failed_peer_causes_a_probe_at_most_once_a_minute() {
    let mut scene = Scene::new(settings(&[0, 1]), 2);
    scene.simulated_peers[1].behaviour = Behaviour::Broken;
    scene.run_seconds(20);
    assert_eq!(scene.state(1), Some(State::Failure));
    let looks = |scene: &Scene| scene.asked("/node/peer-list/active").iter().filter(|node| **node == 1).count();
    scene.simulated_peers[1].behaviour = Behaviour::SilentAt("/node/peer-list/active");
    // Its failure is less than a minute old.
    scene.greet(&info(1), ip_of(1));
    scene.answer_all();
    assert_eq!((scene.state(1), looks(&scene)), (Some(State::Failure), 0));
    scene.now += Duration::from_secs(45);
    for _ in 0..3 {
        scene.greet(&info(1), ip_of(1));
        scene.answer_all();
    }
    assert_eq!(looks(&scene), 1);
    scene.run_seconds(11);
    assert_eq!(scene.state(1), Some(State::Busy), "it gets the state that follows");
    scene.simulated_peers[1].behaviour = Behaviour::Good;
    scene.now += Duration::from_secs(60);
    scene.greet(&info(1), ip_of(1));
    scene.answer_all();
    assert_eq!(scene.state(1), Some(State::Active));
}

#[test]
fn a_sign_of_life_of_an_active_peer_changes_nothing() {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.run_seconds(1);
    scene.simulated_peers[0].info.identity.name = Some("renamed".to_owned());
    scene.greet(&info(0), ip_of(0));
    scene.answer_all();
    assert_eq!(scene.manager.active().0, [info(0)]);
    assert!(scene.fake.waiting.is_empty() && scene.asked("/node/info").len() == 1, "nobody is asked");
}

#[test]
fn a_probe_after_a_sign_of_life_adds_no_gossip_to_a_refresh() {
    let mut scene = Scene::new(settings(&[0, 1]), 3);
    scene.simulated_peers[1].behaviour = Behaviour::Broken;
    scene.run_seconds(20);
    // The refresh at second 131 waits for the other listed peer.
    scene.simulated_peers[0].behaviour = Behaviour::SilentAt("/node/info");
    scene.run_seconds(115);
    assert!(scene.fake.waiting.iter().any(|sent| sent.request.target == "/node/info"));
    (scene.simulated_peers[1].behaviour, scene.simulated_peers[1].list) = (Behaviour::Good, vec![info(2)]);
    scene.greet(&info(1), ip_of(1));
    scene.run_seconds(10);
    assert_eq!((scene.state(1), scene.state(2)), (Some(State::Active), None));
}

#[test]
#[ignore = "slow: computes for long"]
fn silence_is_noticed_within_a_minute_and_a_newcomer_enters_beside_a_thousand_peers_of_few_networks() {
    let place = |number: usize| {
        let host = format!("66.{}.7.{}", number / 16, 1 + number / 8 % 2);
        NodeInfo { endpoint: Endpoint::http(host, 7_000 + (number % 8) as u16), ..info(10 + number) }
    };
    let mut scene = Scene::new(settings(&[]), 2);
    scene.tick();
    scene.greet(&info(0), ip_of(0));
    scene.answer_all();
    for number in 0..1_008 {
        let stranger = place(number);
        scene.relay(10 + number, stranger.endpoint.clone());
        let from = stranger.endpoint.address().expect("an address");
        scene.greet(&stranger, from);
        scene.answer_all();
    }
    assert_eq!(scene.manager.table.len(), 500);
    scene.greet(&info(1), ip_of(1));
    scene.answer_all();
    assert_eq!((scene.state(0), scene.state(1)), (Some(State::Active), Some(State::Active)));
    scene.simulated_peers.iter_mut().skip(2).for_each(|peer| peer.behaviour = Behaviour::Unreachable);
    scene.run_seconds(60);
    let mut active: Vec<_> = scene.manager.table.in_state(State::Active).map(|(node, _)| *node).collect();
    active.sort_unstable();
    let mut expected = [address_of(0), address_of(1)];
    expected.sort_unstable();
    assert_eq!(active, expected);
}

/// Returns a node to which this many peers have introduced themselves.
fn with_introduced_peers(count: usize) -> Scene {
    let mut scene = Scene::new(settings(&[]), count);
    scene.tick();
    for number in 0..count {
        scene.greet(&info(number), ip_of(number));
        scene.answer_all();
    }
    scene
}

#[test]
#[ignore = "slow: computes for long"]
fn five_hundred_peers_that_fall_silent_at_once_are_active_in_no_list_after_a_minute() {
    let mut scene = with_introduced_peers(500);
    scene.simulated_peers.iter_mut().for_each(|peer| peer.behaviour = Behaviour::Silent);
    let named = |scene: &Scene| (scene.manager.active().0.len(), scene.manager.collection().active.len());
    assert!(named(&scene).0 > 400, "{:?}", named(&scene));
    scene.run_seconds(60);
    assert_eq!(named(&scene), (0, 0));
    scene.run_seconds(140);
    assert_eq!(scene.manager.table.in_state(State::Active).count(), 0);
}

#[test]
fn a_silent_peer_is_noticed_within_a_minute_beside_many_that_are_as_silent() {
    let mut scene = with_introduced_peers(120);
    scene.run_seconds(30);
    scene.simulated_peers.iter_mut().for_each(|peer| peer.behaviour = Behaviour::Silent);
    let most = |scene: &Scene| scene.fake.waiting.iter().filter(|sent| sent.request.target == "/chain/height").count();
    for _ in 0..60 {
        scene.run_seconds(1);
        assert!(most(&scene) <= MAX_PINGS + 2 * 6, "{}", most(&scene));
    }
    assert_eq!(scene.manager.table.in_state(State::Active).count(), 0);
}
