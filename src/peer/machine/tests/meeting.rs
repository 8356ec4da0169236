use std::net::IpAddr;
use std::time::Duration;

use super::super::meetings::{MAX_MEETINGS, MAX_MEETINGS_PER_ADDRESS, Meeting, PATIENCE};
use crate::model::NetworkByte;
use crate::peer::machine::{KnownPeer, PushResult, Pusher};
use crate::peer::nodes::State;
use crate::peer::outside::{MeetingId, Outside};
use crate::peer::testing::{Behaviour, LOCAL, Scene, info, ip_of, pusher, settings};
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

/// A node of a number at a port of its own, of which nobody has heard.
fn stranger(host: &str, port: usize) -> NodeInfo {
    NodeInfo { endpoint: Endpoint::http(host, port as u16), ..info(1_000 + port) }
}

fn ip(host: &str) -> IpAddr {
    host.parse().expect("an address")
}

#[test]
fn strangers_that_wait_are_bounded_in_all_and_from_each_host() {
    let mut scene = alone(0);
    for port in 1..=MAX_MEETINGS_PER_ADDRESS {
        let node = stranger("20.0.8.1", port);
        assert!(matches!(greet(&mut scene, &node, ip("20.0.8.1")), Meeting::Waiting(_)));
    }
    assert!(matches!(greet(&mut scene, &stranger("20.0.8.1", 99), ip("20.0.8.1")), Meeting::Failed(_)));
    for node in 1..=MAX_MEETINGS - MAX_MEETINGS_PER_ADDRESS {
        assert!(matches!(greet(&mut scene, &info(node), ip_of(node)), Meeting::Waiting(_)), "{node}");
    }
    assert_eq!(scene.fake.waiting.len(), MAX_MEETINGS);
    scene.answer_all();
    assert_eq!(scene.fake.met.len(), MAX_MEETINGS);
    assert!(matches!(greet(&mut scene, &info(100), ip_of(100)), Meeting::Waiting(_)));
}

#[test]
fn of_strangers_who_do_not_answer_the_host_that_holds_most_places_gives_way_at_once() {
    let mut scene = alone(1);
    let hosts: Vec<_> = (1..=MAX_MEETINGS / MAX_MEETINGS_PER_ADDRESS).map(|host| format!("66.0.{host}.1")).collect();
    for host in &hosts {
        for port in 1..=MAX_MEETINGS_PER_ADDRESS {
            assert!(matches!(greet(&mut scene, &stranger(host, port), ip(host)), Meeting::Waiting(_)));
        }
    }
    let waiting: Vec<_> = scene.fake.waiting.iter().map(|sent| sent.call).collect();
    let honest = greet(&mut scene, &info(0), ip_of(0));
    assert!(matches!(honest, Meeting::Waiting(_)), "{honest:?}");
    // The place that was held longest went, with its call, and its sender is told.
    assert_eq!(scene.fake.met, [(MeetingId(1), Some("too many signs of life at once".to_owned()))]);
    assert_eq!(scene.fake.waiting.len(), MAX_MEETINGS);
    assert!(scene.fake.waiting.iter().all(|sent| sent.call != waiting[0]));
    assert_eq!(scene.peers.outstanding_calls().len(), MAX_MEETINGS);
    scene.answer_all();
    assert_eq!(scene.state(0), Some(State::Active));
}

#[test]
fn hosts_that_hold_a_place_each_give_way_to_another_one_after_two_seconds() {
    let mut scene = alone(1);
    let greet_all = |scene: &mut Scene| {
        (0..MAX_MEETINGS)
            .filter(|host| {
                let host = format!("66.0.{host}.1");
                matches!(greet(scene, &stranger(&host, 1), ip(&host)), Meeting::Waiting(_))
            })
            .count()
    };
    assert_eq!(greet_all(&mut scene), MAX_MEETINGS);
    scene.now += PATIENCE - Duration::from_millis(1);
    assert!(matches!(greet(&mut scene, &info(0), ip_of(0)), Meeting::Failed(_)));
    scene.now += Duration::from_millis(1);
    // They do not drive each other out, and renew nothing by asking again.
    assert_eq!(greet_all(&mut scene), 0);
    assert!(matches!(greet(&mut scene, &info(0), ip_of(0)), Meeting::Waiting(_)));
    assert_eq!(scene.fake.waiting.len(), MAX_MEETINGS);
    scene.answer_all();
    assert_eq!(scene.state(0), Some(State::Active));
}

#[test]
fn nothing_from_the_network_moves_a_node_of_the_list() {
    let there = Endpoint::http("66.6.6.6", 7890);
    let relayed = NodeInfo { endpoint: there.clone(), ..info(0) };
    let check = |scene: &Scene, when: &str| {
        assert_eq!(scene.place(0), Some(info(0).endpoint), "{when}");
        assert!(scene.fake.history.iter().all(|(_, to, _)| *to != there.to_string()), "{when}");
    };
    for is_silent in [false, true] {
        let mut scene = Scene::new(settings(&[0, 1]), 2);
        scene.relay(0, there.clone());
        scene.others[1].list = vec![relayed.clone()];
        scene.turn();
        scene.answer_all();
        // Before it has answered.
        (0..50).for_each(|_| assert_eq!(greet(&mut scene, &relayed, ip("66.6.6.6")), Meeting::Ignored));
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
            scene.others[0].behaviour = Behaviour::Unreachable;
            scene.run_seconds(200);
            assert_eq!(scene.state(0), Some(State::Inactive));
        }
        for _ in 0..100 {
            greet(&mut scene, &relayed, ip("66.6.6.6"));
            scene.run_seconds(7);
            check(&scene, "later");
        }
        scene.others[0].behaviour = Behaviour::Good;
        scene.run_seconds(61);
        greet(&mut scene, &relayed, ip("66.6.6.6"));
        scene.answer_all();
        check(&scene, "back");
        assert_eq!(scene.state(0), Some(State::Active), "whoever says so, it is there");
    }
}

#[test]
fn a_node_that_is_known_moves_only_after_a_minute_without_an_answer_and_is_a_stranger_there() {
    let there = Endpoint::http("66.6.6.6", 7890);
    let relayed = NodeInfo { endpoint: there.clone(), ..info(1) };
    let mut scene = Scene::new(settings(&[0]), 2);
    scene.relay(1, there.clone());
    scene.others[0].list = vec![info(1)];
    scene.run_seconds(10);
    let now = scene.now();
    scene.peers.pushed(&pusher(1), PushResult::Useful, now);
    assert_eq!(scene.experience(1), (1, 0));
    // While it answers where it is known it stays there.
    for _ in 0..40 {
        greet(&mut scene, &relayed, ip("66.6.6.6"));
        scene.run_seconds(10);
    }
    assert_eq!((scene.place(1), scene.state(1)), (Some(info(1).endpoint), Some(State::Active)));
    assert!(scene.experience(1).0 == 1 && scene.trust(1).is_some());
    // It is silent: it is not active then, and still there for a minute at least.
    scene.others[1].behaviour = Behaviour::Unreachable;
    scene.others[0].list.clear();
    let mut failed_at = None;
    while scene.place(1) == Some(info(1).endpoint) {
        scene.run_seconds(5);
        failed_at = failed_at.or_else(|| (scene.state(1) != Some(State::Active)).then_some(scene.now));
        greet(&mut scene, &relayed, ip("66.6.6.6"));
        scene.answer_all();
        assert!(scene.now < Duration::from_secs(2_000), "it never moves");
    }
    let gone_for = scene.now - failed_at.expect("it is not active at first");
    assert!((55..200).contains(&gone_for.as_secs()), "{gone_for:?}");
    assert_eq!((scene.place(1), scene.state(1)), (Some(there.clone()), Some(State::Active)));
    assert_eq!((scene.experience(1), scene.trust(1)), ((0, 0), None), "nobody trusts it for what it was elsewhere");
    // What the node pushes from where it is is not to the credit of whoever is at the other place.
    let now = scene.now();
    scene.peers.pushed(&pusher(1), PushResult::Useful, now);
    assert_eq!(scene.experience(1), (0, 0));
    scene.peers.pushed(&Pusher { from: ip("66.6.6.6"), ..pusher(1) }, PushResult::Useful, now);
    assert_eq!(scene.experience(1), (1, 0));
}

#[test]
fn a_node_that_is_starting_is_there_and_does_not_move() {
    let there = Endpoint::http("66.6.6.6", 7890);
    let mut scene = Scene::new(settings(&[]), 1);
    scene.relay(0, there.clone());
    scene.turn();
    greet(&mut scene, &info(0), ip_of(0));
    scene.answer_all();
    scene.others[0].behaviour = Behaviour::Status(503, Some("NIS_ILLEGAL_STATE_LOADING_CHAIN"));
    for _ in 0..20 {
        scene.run_seconds(61);
        greet(&mut scene, &NodeInfo { endpoint: there.clone(), ..info(0) }, ip("66.6.6.6"));
        scene.answer_all();
    }
    assert_eq!((scene.place(0), scene.state(0)), (Some(info(0).endpoint), Some(State::Busy)));
}

#[test]
fn the_operator_moves_a_node_that_has_come_by_itself_and_it_is_asked_anew() {
    let mut scene = Scene::new(settings(&[]), 1);
    let there = Endpoint::http("66.6.6.6", 7890);
    scene.relay(0, there.clone());
    scene.turn();
    greet(&mut scene, &NodeInfo { endpoint: there.clone(), ..info(0) }, ip("66.6.6.6"));
    scene.answer_all();
    assert_eq!((scene.place(0), scene.state(0)), (Some(there), Some(State::Active)));
    scene.peers.know(vec![KnownPeer::Node(info(0))]);
    assert_eq!((scene.place(0), scene.state(0)), (Some(info(0).endpoint), Some(State::Untried)));
    scene.run_seconds(200);
    assert_eq!(scene.state(0), Some(State::Active));
    // Also one that is listed already.
    let elsewhere = NodeInfo { endpoint: Endpoint::http("77.7.7.7", 7890), ..info(0) };
    scene.peers.know(vec![KnownPeer::Node(elsewhere.clone())]);
    assert_eq!((scene.place(0), scene.state(0)), (Some(elsewhere.endpoint), Some(State::Untried)));
}

#[test]
fn a_node_whose_push_or_answer_was_just_accepted_is_active() {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.run_seconds(10);
    scene.others[0].behaviour = Behaviour::Unreachable;
    scene.run_seconds(200);
    assert_eq!(scene.state(0), Some(State::Inactive));
    let now = scene.now();
    for result in [PushResult::Neutral, PushResult::Harmful] {
        scene.peers.pushed(&pusher(0), result, now);
        assert_eq!(scene.state(0), Some(State::Inactive), "{result:?}");
    }
    let elsewhere = Pusher { from: ip("66.6.6.6"), ..pusher(0) };
    scene.peers.pushed(&elsewhere, PushResult::Useful, now);
    assert_eq!((scene.state(0), scene.place(0)), (Some(State::Active), Some(info(0).endpoint)));
    assert!(scene.peers.has_active_node());
    // The same by an answer: it is asked for its chain as nobody else of the list is there.
    scene.run_seconds(70);
    assert_eq!(scene.state(0), Some(State::Inactive));
    scene.others[0].behaviour = Behaviour::Good;
    scene.run_seconds(4);
    assert_eq!(scene.state(0), Some(State::Active));
}

#[test]
fn the_second_node_of_a_small_network_is_a_partner_within_a_minute() {
    let mut scene = Scene::new(settings(&[0]), 2);
    scene.run_seconds(100);
    greet(&mut scene, &info(1), ip_of(1));
    scene.run_seconds(60);
    assert!(scene.trust(1).is_some_and(|trust| trust > 0.0));
    assert!((0..20).any(|_| scene.peers.partners(&mut || scene.fake.random()).0.contains(&info(1))));
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
    scene.now += Duration::from_secs(60);
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
    assert!(scene.fake.waiting.is_empty() && scene.asked("/node/info").len() == 1, "nobody is asked");
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
