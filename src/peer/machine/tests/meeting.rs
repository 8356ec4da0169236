use std::net::IpAddr;
use std::time::Duration;

use super::super::meetings::{MAX_MEETINGS, MAX_MEETINGS_PER_ADDRESS, Meeting};
use crate::model::NetworkByte;
use crate::peer::nodes::State;
use crate::peer::outside::MeetingId;
use crate::peer::testing::{Behaviour, LOCAL, Scene, info, ip_of, settings};
use crate::peer::wire::{Endpoint, MetaData, NodeInfo};

/// A node that has joined a network of which it knows nobody.
fn alone(others: usize) -> Scene {
    let mut scene = Scene::new(settings(&[]), others);
    scene.turn();
    scene
}

fn greet(scene: &mut Scene, node: &NodeInfo, from: IpAddr) -> Meeting {
    scene.fake.now = scene.now;
    let now = scene.now();
    scene.peers.sign_of_life(node, from, now, &mut scene.fake)
}

#[test]
fn a_stranger_becomes_active_when_it_proves_who_it_is_and_is_answered_only_then() {
    let mut scene = alone(1);
    assert_eq!(greet(&mut scene, &info(0), ip_of(0)), Meeting::Waiting(MeetingId(1)));
    assert!(scene.fake.met.is_empty() && scene.peers.known().is_empty());
    scene.answer_all();
    assert_eq!(scene.fake.met, [(MeetingId(1), None)]);
    assert_eq!(scene.peers.active().0, [info(0)]);
    assert_eq!(scene.asked("/node/peer-list/active"), [0; 0]);
}

#[test]
fn a_sender_that_cannot_be_asked_back_is_told_so_and_stays_unknown() {
    for behaviour in [
        Behaviour::Unreachable,
        Behaviour::Silent,
        Behaviour::SignedByAnother,
        Behaviour::Garbage,
        Behaviour::OtherIdentity,
    ] {
        let mut scene = alone(1);
        scene.others[0].behaviour = behaviour.clone();
        assert_eq!(greet(&mut scene, &info(0), ip_of(0)), Meeting::Waiting(MeetingId(1)));
        scene.run_seconds(11);
        let [(MeetingId(1), Some(reason))] = &scene.fake.met[..] else { panic!("{behaviour:?}: {:?}", scene.fake.met) };
        assert!(!reason.is_empty());
        assert!(scene.peers.known().is_empty(), "{behaviour:?}");
    }
}

#[test]
fn whoever_cannot_be_what_it_says_is_ignored_without_a_call() {
    let mut scene = alone(1);
    let of_mainnet = MetaData { network_id: MetaData::network_id_of(NetworkByte::MAINNET), ..info(0).meta_data };
    let elsewhere = NodeInfo { endpoint: Endpoint::http("99.1.1.1", 7890), ..info(0) };
    for (node, from) in
        [(NodeInfo { meta_data: of_mainnet, ..info(0) }, ip_of(0)), (elsewhere, ip_of(0)), (info(LOCAL), ip_of(LOCAL))]
    {
        assert_eq!(greet(&mut scene, &node, from), Meeting::Ignored, "{node:?}");
    }
    assert!(scene.fake.history.is_empty());
}

#[test]
fn before_it_has_joined_the_network_a_node_meets_nobody() {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.turn();
    assert_eq!(greet(&mut scene, &info(0), ip_of(0)), Meeting::Ignored);
}

#[test]
fn a_sender_is_called_back_only_at_the_address_that_it_comes_from() {
    let mut scene = alone(1);
    let named = NodeInfo { endpoint: Endpoint::http("victim.example", 7890), ..info(0) };
    assert_eq!(greet(&mut scene, &named, ip_of(0)), Meeting::Waiting(MeetingId(1)));
    assert_eq!(scene.fake.waiting[0].to, info(0).endpoint);
    // An address of IPv4 in the clothes of one of IPv6 is the same address.
    let IpAddr::V4(v4) = ip_of(0) else { panic!("IPv4") };
    assert_eq!(greet(&mut scene, &info(0), v4.to_ipv6_mapped().into()), Meeting::Waiting(MeetingId(2)));
    let v6: IpAddr = "2001:db8::5".parse().expect("an address");
    let there = NodeInfo { endpoint: Endpoint::http("[2001:db8:0:0:0:0:0:5]", 80), ..info(0) };
    assert_eq!(greet(&mut scene, &there, v6), Meeting::Waiting(MeetingId(3)));
    assert_eq!(scene.fake.waiting[2].to.to_string(), "http://[2001:db8::5]:80");
}

#[test]
fn waiting_senders_are_bounded_in_all_and_from_each_host() {
    let mut scene = alone(0);
    for port in 1..=MAX_MEETINGS_PER_ADDRESS as u16 {
        let node = NodeInfo { endpoint: Endpoint::http(info(0).endpoint.host, port), ..info(0) };
        assert!(matches!(greet(&mut scene, &node, ip_of(0)), Meeting::Waiting(_)));
    }
    assert!(matches!(greet(&mut scene, &info(0), ip_of(0)), Meeting::Failed(_)));
    for node in 1..=MAX_MEETINGS - MAX_MEETINGS_PER_ADDRESS {
        assert!(matches!(greet(&mut scene, &info(node), ip_of(node)), Meeting::Waiting(_)), "{node}");
    }
    assert!(matches!(greet(&mut scene, &info(100), ip_of(100)), Meeting::Failed(_)));
    scene.answer_all();
    assert_eq!(scene.fake.met.len(), MAX_MEETINGS);
    assert!(matches!(greet(&mut scene, &info(100), ip_of(100)), Meeting::Waiting(_)));
}

#[test]
fn a_node_that_has_failed_is_looked_at_again_after_a_sign_of_life_at_most_once_a_minute() {
    let mut scene = Scene::new(settings(&[0, 1]), 2);
    scene.others[1].behaviour = Behaviour::Broken;
    scene.run_seconds(20);
    assert_eq!(scene.state(1), Some(State::Failure));
    let looks = |scene: &Scene| scene.asked("/node/peer-list/active").iter().filter(|node| **node == 1).count();
    scene.others[1].behaviour = Behaviour::SilentAt("/node/peer-list/active");
    // Its failure is not a minute old.
    greet(&mut scene, &info(1), ip_of(1));
    scene.answer_all();
    assert_eq!((scene.state(1), looks(&scene)), (Some(State::Failure), 0));
    scene.now += Duration::from_secs(45);
    for _ in 0..3 {
        greet(&mut scene, &info(1), ip_of(1));
        scene.answer_all();
    }
    assert_eq!(looks(&scene), 1);
    scene.run_seconds(11);
    assert_eq!(scene.state(1), Some(State::Busy), "it gets the state that follows");
    scene.others[1].behaviour = Behaviour::Good;
    greet(&mut scene, &info(1), ip_of(1));
    scene.answer_all();
    assert_eq!(scene.state(1), Some(State::Active));
}

#[test]
fn a_sign_of_life_of_an_active_node_changes_nothing_about_it() {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.run_seconds(1);
    scene.others[0].info.identity.name = Some("renamed".to_owned());
    greet(&mut scene, &info(0), ip_of(0));
    scene.answer_all();
    assert_eq!(scene.peers.active().0, [info(0)]);
    assert_eq!(scene.fake.met.len(), 1);
}

#[test]
fn a_node_that_is_looked_at_again_after_a_sign_of_life_does_not_bring_others_into_a_refresh() {
    let mut scene = Scene::new(settings(&[0, 1]), 3);
    scene.others[1].behaviour = Behaviour::Broken;
    scene.run_seconds(20);
    // The refresh at second 131 waits for the other node of the list.
    scene.others[0].behaviour = Behaviour::SilentAt("/node/info");
    scene.run_seconds(115);
    assert!(scene.fake.waiting.iter().any(|sent| sent.request.path == "/node/info"));
    (scene.others[1].behaviour, scene.others[1].list) = (Behaviour::Good, vec![info(2)]);
    greet(&mut scene, &info(1), ip_of(1));
    scene.run_seconds(10);
    assert_eq!((scene.state(1), scene.state(2)), (Some(State::Active), None));
}
