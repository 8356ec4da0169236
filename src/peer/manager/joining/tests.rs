use std::collections::BTreeSet;
use std::time::Duration;

use crate::model::{Address, Timestamp};
use crate::peer::manager::joining::{FIRST_BACKOFF, MAX_BACKOFF};
use crate::peer::manager::{IpDetection, ListedPeer, PeerSettings, UnidentifiedPeer};
use crate::peer::saved_peers::SavedPeer;
use crate::peer::schedule::Task;
use crate::peer::tests::*;
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

/// Lets this node be reached at a host.
fn lead_to_this_node(scene: &mut Scene, host: &str) {
    scene.relay(LOCAL, Endpoint::http(host, 7890));
}

/// Returns a scene whose peers see this node at 30.0.0.1.
fn seen(settings: PeerSettings, others: usize) -> Scene {
    let mut scene = Scene::new(settings, others);
    scene.simulated_peers.iter_mut().for_each(|peer| peer.sees = "30.0.0.1");
    scene
}

fn own_host(scene: &Scene) -> &str {
    &scene.manager.local.endpoint.host
}

#[test]
fn the_first_good_answer_boots_the_node_which_then_looks_for_itself_there() {
    for is_there in [false, true] {
        let mut scene = seen(settings(&[0, 1, 2]), 3);
        scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
        if is_there {
            lead_to_this_node(&mut scene, "30.0.0.1");
        }
        scene.tick();
        assert_eq!(scene.asked("/node/cysm").len(), 3, "all of the list, as nobody is known to be active");
        assert!(scene.manager.timers().is_empty());
        while !scene.manager.is_booted() {
            assert!(scene.answer_one());
        }
        assert_eq!(scene.manager.local, info(LOCAL), "a report alone decides nothing");
        assert_eq!(scene.manager.timers().len(), Task::ALL.len());
        scene.answer_all();
        // The host is taken, the port is not: peers cannot know it.
        let expected = if is_there { Endpoint::http("30.0.0.1", 7890) } else { info(LOCAL).endpoint };
        assert_eq!(scene.manager.local.endpoint, expected);
    }
}

#[test]
fn an_address_at_which_another_node_answers_is_not_this_nodes() {
    let mut scene = Scene::new(settings(&[0, 1]), 2);
    scene.simulated_peers.iter_mut().for_each(|peer| peer.sees = "66.66.66.66");
    scene.relay(5, Endpoint::http("66.66.66.66", 7890));
    scene.run_seconds(1_000);
    assert_eq!(scene.manager.local, info(LOCAL));
    assert!(scene.fake.history.iter().any(|(_, to, path)| to.contains("66.66.66.66") && path == "/node/info"));
}

#[test]
fn listed_peers_are_asked_for_the_own_address_and_others_only_if_no_listed_one_answers() {
    let strangers = 1..8;
    let mut scene = seen(settings(&[0]), 8);
    scene.simulated_peers[0].list = strangers.clone().map(info).collect();
    scene.simulated_peers[1..].iter_mut().for_each(|peer| peer.sees = "66.66.66.66");
    ["30.0.0.1", "66.66.66.66"].iter().for_each(|host| lead_to_this_node(&mut scene, host));
    scene.run_seconds(1_000);
    assert_eq!(own_host(&scene), "30.0.0.1");
    assert!(scene.asked("/node/cysm").iter().all(|peer| *peer == 0));
    scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
    scene.run_seconds(1_000);
    assert_eq!(own_host(&scene), "66.66.66.66");
    assert!(scene.asked("/node/cysm").iter().any(|peer| strangers.contains(peer)));
}

#[test]
fn strangers_count_once_for_each_network_when_they_report_the_own_address() {
    let mut scene = seen(PeerSettings { node_limit: 20, ..settings(&[]) }, 8);
    ["30.0.0.1", "66.66.66.66"].iter().for_each(|host| lead_to_this_node(&mut scene, host));
    scene.tick();
    for peer in 0..8 {
        // Six at one address, and two elsewhere.
        let host = if peer < 6 { "77.7.7.7".to_owned() } else { format!("78.7.{peer}.7") };
        scene.simulated_peers[peer].info.endpoint = Endpoint::http(host, 7_000 + peer as u16);
        scene.simulated_peers[peer].sees = if peer < 6 { "66.66.66.66" } else { "30.0.0.1" };
        let stranger = scene.simulated_peers[peer].info.clone();
        let from = stranger.endpoint.address().expect("an address");
        scene.greet(&stranger, from);
        scene.answer_all();
    }
    scene.run_seconds(2_000);
    assert_eq!(own_host(&scene), "30.0.0.1");
}

#[test]
fn an_address_that_only_a_minority_reports_is_never_tried_though_a_relay_there_leads_to_this_node() {
    for first in [0, 3] {
        // Behind a router that does not pass on connections from inside, the address of the majority leads nowhere.
        let mut scene = seen(settings(&[0, 1, 2, 3]), 4);
        scene.simulated_peers[first].sees = "66.66.66.66";
        lead_to_this_node(&mut scene, "66.66.66.66");
        scene.run_seconds(1_000);
        assert_eq!(scene.manager.local, info(LOCAL));
        let tried = |host: &str| scene.fake.history.iter().any(|(_, to, _)| to.contains(host));
        assert!(tried("30.0.0.1") && !tried("66.66.66.66"));
    }
}

#[test]
fn strangers_of_one_network_cannot_move_the_own_address() {
    for (networks, moves) in [(1, false), (2, true)] {
        let mut scene = Scene::new(settings(&[]), networks);
        lead_to_this_node(&mut scene, "66.66.66.66");
        scene.tick();
        for stranger in 0..networks {
            scene.simulated_peers[stranger].sees = "66.66.66.66";
            scene.greet(&info(stranger), ip_of(stranger));
            scene.answer_all();
        }
        scene.run_seconds(1_000);
        assert_eq!(own_host(&scene) == "66.66.66.66", moves);
    }
}

#[test]
fn a_new_own_address_is_announced_at_once() {
    let mut scene = seen(settings(&[0]), 1);
    lead_to_this_node(&mut scene, "30.0.0.1");
    scene.run_seconds(20);
    lead_to_this_node(&mut scene, "30.0.0.2");
    scene.simulated_peers[0].sees = "30.0.0.2";
    while own_host(&scene) == "30.0.0.1" {
        scene.run_seconds(1);
    }
    let adopted_at = scene.now;
    scene.run_seconds(2);
    let announced = |(at, _, path): &&(Duration, String, String)| {
        path == "/node/sign-of-life" && *at >= adopted_at - Duration::from_secs(1)
    };
    assert_eq!(scene.fake.history.iter().filter(announced).count(), 1);
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
fn the_own_address_follows_the_majority_of_peers_that_leads_here_and_a_tie_changes_nothing() {
    let mut scene = seen(settings(&[0, 1, 2, 3]), 4);
    ["30.0.0.1", "30.0.0.2", "[2001:4860:0:0:0:0:0:1]"].iter().for_each(|host| lead_to_this_node(&mut scene, host));
    scene.run_seconds(1);
    assert_eq!(own_host(&scene), "30.0.0.1");
    scene.simulated_peers[0].sees = "30.0.0.2";
    scene.simulated_peers[1].sees = "30.0.0.2";
    scene.run_seconds(310);
    assert_eq!(own_host(&scene), "30.0.0.1", "two say so and two do not");
    scene.simulated_peers[2].sees = "30.0.0.2";
    scene.run_seconds(310);
    assert_eq!(own_host(&scene), "30.0.0.2");
    // A minority is not followed even if the majority is wrong.
    scene.simulated_peers[..3].iter_mut().for_each(|peer| peer.sees = "66.66.66.66");
    scene.simulated_peers[3].sees = "30.0.0.1";
    scene.run_seconds(310);
    assert_eq!(own_host(&scene), "30.0.0.2");
    scene.simulated_peers[..3].iter_mut().for_each(|peer| peer.sees = "[2001:4860:0:0:0:0:0:1]");
    scene.run_seconds(310);
    assert_eq!(own_host(&scene), "[2001:4860:0:0:0:0:0:1]");
    scene.simulated_peers.iter_mut().for_each(|other| other.behaviour = Behaviour::Unreachable);
    scene.run_seconds(310);
    assert_eq!(own_host(&scene), "[2001:4860:0:0:0:0:0:1]", "nobody answers");
}

#[test]
fn half_of_the_peers_is_enough_if_the_others_see_the_node_at_an_address_of_the_other_family() {
    const SIX: &str = "[2001:4860:0:0:0:0:0:1]";
    for (sees, expected) in [
        (["30.0.0.1", "30.0.0.1", SIX, SIX], "30.0.0.1"),
        ([SIX, "30.0.0.1", SIX, "30.0.0.1"], "30.0.0.1"),
        ([SIX, SIX, "30.0.0.1", "30.0.0.2"], SIX),
        (["30.0.0.1", "30.0.0.1", SIX, "30.0.0.2"], "69.199.8.1"),
        (["30.0.0.1", SIX, SIX, SIX], SIX),
        (["30.0.0.1", "30.0.0.2", SIX, "[2001:4860:0:0:0:0:0:2]"], "69.199.8.1"),
    ] {
        let mut scene = seen(settings(&[0, 1, 2, 3]), 4);
        ["30.0.0.1", "30.0.0.2", SIX].iter().for_each(|host| lead_to_this_node(&mut scene, host));
        scene.simulated_peers.iter_mut().zip(sees).for_each(|(peer, sees)| peer.sees = sees);
        scene.run_seconds(1);
        assert_eq!(own_host(&scene), expected, "{sees:?}");
        assert_eq!(scene.manager.has_warned_of_reports, expected == "69.199.8.1", "{sees:?}");
    }
}

#[test]
fn saved_peers_that_do_not_answer_are_asked_a_few_times_and_again_once_nobody_answers() {
    let mut scene = Scene::new(settings(&[]), 3);
    (1..3).for_each(|silent| scene.simulated_peers[silent].behaviour = Behaviour::Unreachable);
    let saved = |number| SavedPeer { info: info(number), answered: Timestamp(5) };
    scene.manager.add_saved_peers(&[0, 1, 2].map(saved));
    scene.run_seconds(1);
    let asked = |scene: &Scene, drawn: &[Address]| {
        let probes = scene.manager.reconnect_probes(drawn);
        let asked: BTreeSet<Address> = probes.into_iter().map(|(address, _)| address).collect();
        asked
    };
    let [answers, first, second] = [0, 1, 2].map(address_of);
    assert_eq!(asked(&scene, &[]), [first, second].into(), "the other has answered");
    assert_eq!(asked(&scene, &[first]), [second].into(), "a selected one is asked already");
    scene.run_seconds(1_200);
    assert_eq!(asked(&scene, &[]), BTreeSet::new());
    scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
    scene.run_seconds(300);
    assert!(!scene.manager.has_active_node() && !asked(&scene, &[]).contains(&answers));
    assert_eq!(asked(&scene, &[]), [first, second].into());
}

#[test]
fn of_two_peers_that_see_the_node_at_addresses_of_both_families_the_one_by_ipv4_counts() {
    let mut scene = seen(settings(&[0, 1]), 2);
    let sees = ["[2001:4860:0:0:0:0:0:1]", "30.0.0.1"];
    sees.iter().for_each(|host| lead_to_this_node(&mut scene, host));
    scene.simulated_peers.iter_mut().zip(sees).for_each(|(peer, sees)| peer.sees = sees);
    scene.run_seconds(1);
    assert_eq!(own_host(&scene), "30.0.0.1");
}

#[test]
fn an_unidentified_peer_is_pinned_to_the_key_of_its_first_answer() {
    let endpoint = info(0).endpoint;
    let mut scene =
        Scene::new(PeerSettings { listed: vec![ListedPeer::Endpoint(endpoint.clone())], ..settings(&[]) }, 2);
    assert_eq!(scene.manager.unidentified, [UnidentifiedPeer { endpoint, last_failure: None }]);
    scene.run_seconds(1);
    assert_eq!(scene.asked("/node/cysm"), [0]);
    assert_eq!(scene.manager.active().0, [info(0)]);
    assert!(
        scene.manager.unidentified.is_empty()
            && scene.manager.table.iter().next().is_some_and(|(_, peer)| peer.is_listed)
    );
    // Another node at its endpoint is not taken for it.
    scene.simulated_peers[0].pair = pair(1);
    scene.simulated_peers[0].info.identity = info(1).identity;
    scene.run_seconds(70);
    assert!(scene.manager.active().0.is_empty());
    assert_eq!(scene.manager.table.len(), 1);
}

#[test]
fn an_unidentified_peer_that_is_this_node_is_not_contacted_again() {
    let own = Endpoint::http("10.1.1.1", 7890);
    let mut scene = Scene::new(PeerSettings { listed: vec![ListedPeer::Endpoint(own.clone())], ..settings(&[]) }, 1);
    scene.simulated_peers[0].pair = pair(LOCAL);
    scene.simulated_peers[0].info = NodeInfo { endpoint: own, ..info(LOCAL) };
    scene.run_seconds(200);
    assert_eq!(scene.asked("/node/info").len(), 1);
    assert!(scene.manager.unidentified.is_empty() && scene.manager.table.is_empty());
}

#[test]
fn a_failing_unidentified_peer_is_tried_at_each_refresh_and_its_failure_is_reported() {
    let known = vec![ListedPeer::Endpoint(info(0).endpoint)];
    let mut scene = Scene::new(PeerSettings { listed: known, ip_detection: IpDetection::Optional, ..settings(&[]) }, 1);
    scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
    scene.run_seconds(100);
    assert_eq!(scene.asked("/node/info"), [0, 0]);
    assert_eq!(scene.manager.unidentified[0].last_failure.as_ref().expect("a failure").error.reason, "refused");
}
