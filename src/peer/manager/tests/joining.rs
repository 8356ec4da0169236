use std::time::Duration;

use super::super::own_address::{FIRST_BACKOFF, MAX_BACKOFF};
use crate::peer::manager::{IpDetection, Joined, PeerSettings, PreTrustedPeer, Unpinned};
use crate::peer::schedule::Task;
use crate::peer::testing::{Behaviour, LOCAL, Scene, info, pair, settings};
use crate::peer::wire::{Endpoint, NodeInfo};

fn mode(ip_detection: IpDetection, known: &[usize]) -> PeerSettings {
    PeerSettings { ip_detection, ..settings(known) }
}

#[test]
fn a_node_without_known_peers_starts_in_every_mode() {
    for detection in [IpDetection::Required, IpDetection::Optional, IpDetection::Disabled] {
        let mut scene = Scene::new(mode(detection, &[]), 0);
        assert_eq!(scene.manager.joined(), Joined::NotYet { failures: 0 });
        scene.tick();
        assert_eq!(scene.manager.joined(), Joined::Yes, "{detection:?}");
        assert!(scene.fake.history.is_empty());
    }
}

#[test]
fn the_first_good_answer_is_the_own_address_and_the_node_joins_with_it() {
    let mut scene = Scene::new(settings(&[0, 1, 2]), 3);
    scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
    scene.simulated_peers[2].sees = "30.0.0.3";
    scene.tick();
    assert_eq!(scene.asked("/node/cysm").len(), 3, "all of the list, as nobody is known to be active");
    assert!(scene.manager.timers().is_empty());
    while scene.manager.joined() != Joined::Yes {
        assert!(scene.answer_one());
    }
    // The host is taken, the port is not: peers cannot know it.
    let host = scene.manager.local().endpoint.host.clone();
    assert!(["30.0.0.1", "30.0.0.3"].contains(&host.as_str()), "{host}");
    assert_eq!(scene.manager.local().endpoint.port, 7890);
    // Later answers have no effect.
    scene.answer_all();
    assert_eq!(scene.manager.local().endpoint.host, host);
    assert_eq!(scene.manager.timers().len(), Task::ALL.len());
}

#[test]
fn a_node_that_needs_its_address_goes_on_asking_after_longer_and_longer_rests() {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
    scene.run_seconds(600);
    let times: Vec<_> = scene.fake.history.iter().map(|(at, _, path)| (*at, *path)).collect();
    let mut expected = vec![Duration::ZERO];
    for rest in [5, 10, 20, 40, 60, 60, 60] {
        expected.push(expected.last().expect("a time").saturating_add(Duration::from_secs(rest)));
    }
    assert_eq!((FIRST_BACKOFF.as_secs(), MAX_BACKOFF.as_secs()), (5, 60));
    assert_eq!(times.iter().map(|(at, _)| *at).take(8).collect::<Vec<_>>(), expected);
    assert!(times.iter().all(|(_, path)| *path == "/node/cysm"));
    assert!(matches!(scene.manager.joined(), Joined::NotYet { failures } if failures > 7));
    scene.simulated_peers[0].behaviour = Behaviour::Good;
    scene.run_seconds(60);
    assert_eq!(scene.manager.joined(), Joined::Yes);
}

#[test]
fn a_node_that_does_not_need_its_address_joins_without_it() {
    let mut scene = Scene::new(mode(IpDetection::Optional, &[0]), 1);
    scene.simulated_peers[0].behaviour = Behaviour::Broken;
    scene.tick();
    assert_eq!(scene.manager.joined(), Joined::NotYet { failures: 0 });
    scene.answer_all();
    assert_eq!((scene.manager.joined(), scene.manager.local()), (Joined::Yes, &info(LOCAL)));
}

#[test]
fn a_node_with_a_given_address_asks_nobody_for_it_at_any_time() {
    let mut scene = Scene::new(mode(IpDetection::Disabled, &[0]), 1);
    scene.run_seconds(1_000);
    assert!(scene.asked("/node/cysm").is_empty());
    assert!(scene.manager.timers().iter().all(|timer| timer.task != Task::IpDetection));
    assert!(!scene.asked("/node/info").is_empty());
}

#[test]
fn what_is_no_address_is_not_taken_for_the_own_one() {
    for nonsense in ["example.org", "0.0.0.0", "224.0.0.1", ""] {
        let mut scene = Scene::new(settings(&[0]), 1);
        scene.simulated_peers[0].sees = nonsense;
        scene.tick();
        scene.answer_all();
        assert_eq!(scene.manager.joined(), Joined::NotYet { failures: 1 }, "{nonsense}");
    }
}

#[test]
fn later_the_address_that_most_partners_see_counts_and_a_tie_changes_nothing() {
    let mut scene = Scene::new(settings(&[0, 1, 2, 3]), 4);
    scene.run_seconds(1);
    assert_eq!(scene.manager.local().endpoint.host, "30.0.0.1");
    scene.simulated_peers[0].sees = "30.0.0.2";
    scene.simulated_peers[1].sees = "30.0.0.2";
    scene.run_seconds(10);
    assert_eq!(scene.manager.local().endpoint.host, "30.0.0.1", "two say so and two do not");
    scene.simulated_peers[2].sees = "30.0.0.2";
    scene.run_seconds(310);
    assert_eq!(scene.manager.local().endpoint.host, "30.0.0.2");
    scene.simulated_peers.iter_mut().for_each(|other| other.behaviour = Behaviour::Unreachable);
    scene.run_seconds(310);
    assert_eq!(scene.manager.local().endpoint.host, "30.0.0.2", "nobody answers");
}

#[test]
fn a_peer_without_a_key_is_asked_like_the_others_and_keeps_the_key_with_which_it_first_answers() {
    let endpoint = info(0).endpoint;
    let mut scene =
        Scene::new(PeerSettings { pre_trusted: vec![PreTrustedPeer::Endpoint(endpoint.clone())], ..settings(&[]) }, 2);
    assert_eq!(scene.manager.unpinned(), [Unpinned::new(endpoint)]);
    scene.run_seconds(1);
    assert_eq!(scene.asked("/node/cysm"), [0]);
    assert_eq!(scene.manager.active().0, [info(0)]);
    assert!(scene.manager.unpinned().is_empty() && scene.manager.known()[0].is_pre_trusted);
    // Another node at its endpoint is not taken for it.
    scene.simulated_peers[0].pair = pair(1);
    scene.simulated_peers[0].info.identity = info(1).identity;
    scene.run_seconds(70);
    assert!(scene.manager.active().0.is_empty());
    assert_eq!(scene.manager.known().len(), 1);
}

#[test]
fn a_peer_without_a_key_that_is_this_node_itself_is_not_contacted_again() {
    let own = Endpoint::http("10.1.1.1", 7890);
    let mut scene =
        Scene::new(PeerSettings { pre_trusted: vec![PreTrustedPeer::Endpoint(own.clone())], ..settings(&[]) }, 1);
    scene.simulated_peers[0].pair = pair(LOCAL);
    scene.simulated_peers[0].info = NodeInfo { endpoint: own, ..info(LOCAL) };
    scene.run_seconds(200);
    assert_eq!(scene.asked("/node/info").len(), 1);
    assert!(scene.manager.unpinned().is_empty() && scene.manager.known().is_empty());
}

#[test]
fn a_peer_without_a_key_that_fails_is_tried_with_each_refresh_and_its_failure_is_told() {
    let known = vec![PreTrustedPeer::Endpoint(info(0).endpoint)];
    let mut scene =
        Scene::new(PeerSettings { pre_trusted: known, ip_detection: IpDetection::Optional, ..settings(&[]) }, 1);
    scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
    scene.run_seconds(100);
    assert_eq!(scene.asked("/node/info"), [0, 0]);
    assert_eq!(scene.manager.unpinned()[0].last_failure.as_ref().expect("a failure").reason, "refused");
}
