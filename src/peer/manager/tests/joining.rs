use std::time::Duration;

use super::super::joining::{FIRST_BACKOFF, MAX_BACKOFF};
use crate::peer::manager::{IpDetection, PeerSettings, PreTrustedPeer, Unpinned};
use crate::peer::schedule::Task;
use crate::peer::testing::*;
use crate::peer::wire::{Endpoint, NodeInfo};

fn mode(ip_detection: IpDetection, known: &[usize]) -> PeerSettings {
    PeerSettings { ip_detection, ..settings(known) }
}

#[test]
fn a_node_without_known_peers_boots_in_every_ip_detection_mode() {
    for detection in [IpDetection::Required, IpDetection::Optional, IpDetection::Disabled] {
        let mut scene = Scene::new(mode(detection, &[]), 0);
        assert_eq!((scene.manager.is_booted(), scene.manager.failures_to_join()), (false, 0));
        scene.tick();
        assert!(scene.manager.is_booted(), "{detection:?}");
        assert!(scene.fake.history.is_empty());
    }
}

#[test]
fn the_first_good_answer_sets_the_own_address_and_boots_the_node() {
    let mut scene = Scene::new(settings(&[0, 1, 2]), 3);
    scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
    scene.simulated_peers[2].sees = "30.0.0.3";
    scene.tick();
    assert_eq!(scene.asked("/node/cysm").len(), 3, "all of the list, as nobody is known to be active");
    assert!(scene.manager.timers().is_empty());
    while !scene.manager.is_booted() {
        assert!(scene.answer_one());
    }
    // The host is taken, the port is not: peers cannot know it.
    let host = scene.manager.local.endpoint.host.clone();
    assert!(["30.0.0.1", "30.0.0.3"].contains(&host.as_str()), "{host}");
    assert_eq!(scene.manager.local.endpoint.port, 7890);
    // Later answers have no effect.
    scene.answer_all();
    assert_eq!(scene.manager.local.endpoint.host, host);
    assert_eq!(scene.manager.timers().len(), Task::ALL.len());
}

#[test]
fn required_address_detection_is_retried_with_growing_backoff() {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
    scene.run_seconds(600);
    let times: Vec<_> = scene.fake.history.iter().map(|(at, _, path)| (*at, &**path)).collect();
    let mut expected = vec![Duration::ZERO];
    for rest in [5, 10, 20, 40, 60, 60, 60] {
        expected.push(expected.last().expect("a time").saturating_add(Duration::from_secs(rest)));
    }
    assert_eq!((FIRST_BACKOFF.as_secs(), MAX_BACKOFF.as_secs()), (5, 60));
    assert_eq!(times.iter().map(|(at, _)| *at).take(8).collect::<Vec<_>>(), expected);
    assert!(times.iter().all(|(_, path)| *path == "/node/cysm"));
    assert!(!scene.manager.is_booted() && scene.manager.failures_to_join() > 7);
    scene.simulated_peers[0].behaviour = Behaviour::Good;
    scene.run_seconds(60);
    assert!(scene.manager.is_booted());
}

#[test]
fn a_node_with_optional_address_detection_boots_without_an_address() {
    let mut scene = Scene::new(mode(IpDetection::Optional, &[0]), 1);
    scene.simulated_peers[0].behaviour = Behaviour::Broken;
    scene.tick();
    assert_eq!((scene.manager.is_booted(), scene.manager.failures_to_join()), (false, 0));
    scene.answer_all();
    assert_eq!((scene.manager.is_booted(), &scene.manager.local), (true, &info(LOCAL)));
}

#[test]
fn a_node_with_a_configured_address_never_queries_peers_for_it() {
    let mut scene = Scene::new(mode(IpDetection::Disabled, &[0]), 1);
    scene.run_seconds(1_000);
    assert!(scene.asked("/node/cysm").is_empty());
    assert!(scene.manager.timers().iter().all(|timer| timer.task != Task::IpDetection));
    assert!(!scene.asked("/node/info").is_empty());
}

#[test]
fn an_invalid_answer_is_not_taken_as_the_own_address() {
    for nonsense in ["example.org", "0.0.0.0", "224.0.0.1", ""] {
        let mut scene = Scene::new(settings(&[0]), 1);
        scene.simulated_peers[0].sees = nonsense;
        scene.tick();
        scene.answer_all();
        assert_eq!((scene.manager.is_booted(), scene.manager.failures_to_join()), (false, 1), "{nonsense}");
    }
}

#[test]
fn the_own_address_follows_the_majority_of_peers_and_a_tie_changes_nothing() {
    let mut scene = Scene::new(settings(&[0, 1, 2, 3]), 4);
    scene.run_seconds(1);
    assert_eq!(scene.manager.local.endpoint.host, "30.0.0.1");
    scene.simulated_peers[0].sees = "30.0.0.2";
    scene.simulated_peers[1].sees = "30.0.0.2";
    scene.run_seconds(10);
    assert_eq!(scene.manager.local.endpoint.host, "30.0.0.1", "two say so and two do not");
    scene.simulated_peers[2].sees = "30.0.0.2";
    scene.run_seconds(310);
    assert_eq!(scene.manager.local.endpoint.host, "30.0.0.2");
    scene.simulated_peers.iter_mut().for_each(|other| other.behaviour = Behaviour::Unreachable);
    scene.run_seconds(310);
    assert_eq!(scene.manager.local.endpoint.host, "30.0.0.2", "nobody answers");
}

#[test]
fn an_unpinned_peer_is_pinned_to_the_key_of_its_first_answer() {
    let endpoint = info(0).endpoint;
    let mut scene =
        Scene::new(PeerSettings { pre_trusted: vec![PreTrustedPeer::Endpoint(endpoint.clone())], ..settings(&[]) }, 2);
    assert_eq!(scene.manager.unpinned, [Unpinned::new(endpoint)]);
    scene.run_seconds(1);
    assert_eq!(scene.asked("/node/cysm"), [0]);
    assert_eq!(scene.manager.active().0, [info(0)]);
    assert!(
        scene.manager.unpinned.is_empty()
            && scene.manager.table.iter().next().is_some_and(|(_, peer)| peer.is_pre_trusted)
    );
    // Another node at its endpoint is not taken for it.
    scene.simulated_peers[0].pair = pair(1);
    scene.simulated_peers[0].info.identity = info(1).identity;
    scene.run_seconds(70);
    assert!(scene.manager.active().0.is_empty());
    assert_eq!(scene.manager.table.len(), 1);
}

#[test]
fn an_unpinned_peer_that_is_this_node_is_not_contacted_again() {
    let own = Endpoint::http("10.1.1.1", 7890);
    let mut scene =
        Scene::new(PeerSettings { pre_trusted: vec![PreTrustedPeer::Endpoint(own.clone())], ..settings(&[]) }, 1);
    scene.simulated_peers[0].pair = pair(LOCAL);
    scene.simulated_peers[0].info = NodeInfo { endpoint: own, ..info(LOCAL) };
    scene.run_seconds(200);
    assert_eq!(scene.asked("/node/info").len(), 1);
    assert!(scene.manager.unpinned.is_empty() && scene.manager.table.is_empty());
}

#[test]
fn a_failing_unpinned_peer_is_tried_at_each_refresh_and_its_failure_is_reported() {
    let known = vec![PreTrustedPeer::Endpoint(info(0).endpoint)];
    let mut scene =
        Scene::new(PeerSettings { pre_trusted: known, ip_detection: IpDetection::Optional, ..settings(&[]) }, 1);
    scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
    scene.run_seconds(100);
    assert_eq!(scene.asked("/node/info"), [0, 0]);
    assert_eq!(scene.manager.unpinned[0].last_failure.as_ref().expect("a failure").error.reason, "refused");
}
