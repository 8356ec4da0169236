use std::time::Duration;

use crate::ip::Scope;
use crate::model::NetworkByte;
use crate::peer::manager::probes::{MAX_GOSSIP_PROBES, MAX_PROBES_PER_LIST};
use crate::peer::manager::{ListedPeer, PeerSettings};
use crate::peer::peer_entry::State;
use crate::peer::schedule::Task;
use crate::peer::tests::*;
use crate::peer::wire::{Endpoint, ErrorBody, MetaData, NodeInfo, Version};

/// Returns a scene after the first refresh, whose first `listed` peers are listed.
fn refreshed(listed: usize, others: usize, prepare: impl FnOnce(&mut [SimulatedPeer])) -> Scene {
    let mut scene = Scene::new(settings(&(0..listed).collect::<Vec<_>>()), others);
    scene.tick();
    scene.answer_all();
    prepare(&mut scene.simulated_peers);
    scene.run(Duration::from_millis(300));
    scene
}

#[test]
fn listed_peers_are_active_only_after_an_answer() {
    let mut scene = Scene::new(settings(&[0, 1]), 2);
    scene.tick();
    assert_eq!(scene.state(0), Some(State::Untried));
    assert!(!scene.manager.has_active_node() && scene.manager.active().0.is_empty());
    scene.simulated_peers[1].behaviour = Behaviour::Unreachable;
    scene.simulated_peers[0].behaviour = Behaviour::Good;
    scene.run_seconds(1);
    assert_eq!((scene.state(0), scene.state(1)), (Some(State::Active), Some(State::Inactive)));
    assert_eq!(scene.manager.collection().inactive, [info(1)]);
}

#[test]
fn the_state_of_a_selected_peer_follows_from_its_answer() {
    let starting = [ErrorBody::NOT_BOOTED, ErrorBody::LOADING_CHAIN];
    let mut cases = vec![
        (Behaviour::Good, State::Active),
        (Behaviour::Unreachable, State::Inactive),
        (Behaviour::Broken, State::Failure),
        (Behaviour::Status(429, None), State::Failure),
        (Behaviour::Status(503, None), State::Failure),
        (Behaviour::Status(503, Some(ErrorBody::ALREADY_BOOTED)), State::Failure),
        (Behaviour::SignedByAnother, State::Failure),
        (Behaviour::OtherIdentity, State::Failure),
        (Behaviour::Garbage, State::Failure),
        (Behaviour::Silent, State::Busy),
        (Behaviour::SilentAt("/node/peer-list/active"), State::Busy),
    ];
    cases.extend(starting.map(|message| (Behaviour::Status(503, Some(message)), State::Busy)));
    for (behaviour, state) in cases {
        let mut scene = refreshed(1, 1, |others| others[0].behaviour = behaviour.clone());
        scene.run_seconds(11);
        assert_eq!(scene.state(0), Some(state), "{behaviour:?}");
    }
}

#[test]
fn a_peer_without_a_known_address_is_used_where_it_has_answered() {
    let mut scene = refreshed(1, 1, |others| others[0].behaviour = Behaviour::KnowsNoAddress);
    scene.run_seconds(200);
    assert_eq!(scene.state(0), Some(State::Active));
    assert_eq!(scene.manager.collection().active, [info(0)]);
}

#[test]
fn peers_of_another_network_or_an_incompatible_version_are_not_used() {
    let of = |network, version: &str| MetaData {
        network_id: MetaData::network_id_of(network),
        version: version.parse::<Version>().expect("a version"),
        ..MetaData::default()
    };
    for (meta_data, state) in [
        (of(NetworkByte::TESTNET, "0.7.1"), State::Active),
        (of(NetworkByte::TESTNET, "0.0.0"), State::Active),
        (of(NetworkByte::TESTNET, "0.5.9"), State::Failure),
        (of(NetworkByte::TESTNET, "1.6.1"), State::Failure),
        (of(NetworkByte::MAINNET, "0.6.102"), State::Failure),
    ] {
        let scene = refreshed(1, 1, |others| others[0].info.meta_data = meta_data.clone());
        assert_eq!(scene.state(0), Some(state), "{meta_data:?}");
    }
}

#[test]
fn a_gossiped_peer_is_known_only_after_it_has_answered_itself() {
    let scene = refreshed(1, 4, |others| {
        others[0].list = [1, 2, 3].map(info).to_vec();
        others[2].behaviour = Behaviour::Unreachable;
        others[3].behaviour = Behaviour::SignedByAnother;
    });
    assert_eq!([0, 1, 2, 3].map(|node| scene.state(node)), [Some(State::Active), Some(State::Active), None, None]);
    // Only selected peers are asked for their peers.
    assert_eq!(scene.asked("/node/peer-list/active"), [0]);
}

#[test]
fn a_bad_entry_in_a_peer_list_is_skipped() {
    let scene = refreshed(1, 3, |others| {
        let mut wrong = info(1);
        wrong.endpoint = Endpoint { port: 70_000, ..wrong.endpoint };
        let mut dead = info(77);
        dead.endpoint.host = "no.such.host".to_owned();
        others[0].list = vec![wrong, dead, info(2)];
    });
    assert_eq!([0, 1, 2].map(|node| scene.state(node)), [Some(State::Active), None, Some(State::Active)]);
}

#[test]
fn gossip_about_this_node_and_known_peers_causes_no_probes() {
    let scene = refreshed(2, 3, |others| {
        others[0].list = vec![info(LOCAL), info(0), info(1), info(2), info(2)];
        others[1].list = vec![info(2), info(0)];
    });
    let mut asked = scene.asked("/node/info");
    asked.sort_unstable();
    assert_eq!(asked, [0, 1, 2]);
}

#[test]
fn false_gossip_about_an_endpoint_does_not_hide_the_peer() {
    for liar in [0, 1] {
        let scene = refreshed(2, 3, |others| {
            others[liar].list = vec![NodeInfo { endpoint: Endpoint::http("99.1.1.1", 7890), ..info(2) }];
            others[1 - liar].list = vec![info(2)];
        });
        assert_eq!(scene.state(2), Some(State::Active));
    }
}

#[test]
fn an_unreachable_peer_is_found_at_any_gossiped_endpoint() {
    for place in 0..3 {
        let mut scene = Scene::new(settings(&[0, 1, 2]), 4);
        scene.simulated_peers[0].list = vec![info(3)];
        scene.run_seconds(10);
        assert_eq!(scene.state(3), Some(State::Active));
        let there = Endpoint::http("77.7.7.7", 7890);
        scene.simulated_peers[3].behaviour = Behaviour::Unreachable;
        scene.relay(3, there.clone());
        let reported = |host: &str| vec![NodeInfo { endpoint: Endpoint::http(host, 7890), ..info(3) }];
        (0..3).for_each(|teller| scene.simulated_peers[teller].list = reported(&format!("99.1.1.{teller}")));
        scene.simulated_peers[place].list = reported("77.7.7.7");
        scene.run_seconds(400);
        assert_eq!(scene.place(3), Some(there), "{place}");
    }
}

#[test]
fn probes_are_limited_per_peer_list_and_in_total() {
    let scene = refreshed(1, 1, |others| others[0].list = (10..1_000).map(info).collect());
    assert_eq!(scene.fake.history.iter().filter(|(_, _, path)| *path == "/node/info").count(), 1 + MAX_PROBES_PER_LIST);
    let scene = refreshed(8, 8, |others| {
        for (number, other) in others.iter_mut().enumerate() {
            other.list = (100 * number + 100..100 * number + 200).map(info).collect();
        }
    });
    let contacts = scene.fake.history.iter().filter(|(_, _, path)| *path == "/node/info").count();
    assert_eq!(contacts, 8 + MAX_GOSSIP_PROBES);
}

#[test]
fn inactive_peers_of_a_long_list_are_probed_first() {
    let mut scene = refreshed(1, 40, |others| others[0].list = (1..15).map(info).collect());
    assert_eq!(scene.manager.active().0.len(), 15);
    scene.simulated_peers[0].list = (1..31).map(info).collect();
    scene.run_seconds(70);
    assert_eq!(scene.manager.active().0.len(), 31);
}

/// Returns the hosts that are called, with the scope that their addresses must have, when a listed peer names all of them.
fn called(least_scope: Scope, hosts: &[&str]) -> Vec<(String, Scope)> {
    let mut scene = Scene::new(PeerSettings { least_scope, ..settings(&[0]) }, 1);
    let place = |(number, host): (usize, &&str)| NodeInfo { endpoint: Endpoint::http(*host, 80), ..info(10 + number) };
    scene.simulated_peers[0].list = hosts.iter().enumerate().map(place).collect();
    let mut called = Vec::new();
    for _ in 0..20 {
        scene.now += Duration::from_millis(100);
        scene.tick();
        while let Some(sent) = scene.fake.waiting.front() {
            called.push((sent.to.host.clone(), sent.request.least_scope));
            scene.answer_one();
        }
    }
    called.retain(|(host, _)| *host != info(0).endpoint.host);
    called.sort();
    called
}

#[test]
fn gossip_causes_calls_only_to_addresses_of_the_scope_of_the_network() {
    let nowhere = ["0.0.0.0", "[::]", "224.0.0.1", "[ff02::1]", "255.255.255.255"];
    let loopback = ["127.0.0.1", "127.1.2.3", "[::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::1]"];
    let private = ["10.0.0.5", "100.64.0.1", "192.0.0.1", "198.18.0.1", "240.0.0.1", "[fec0::1]"];
    let all = [&nowhere[..], &loopback, &private].concat();
    let sorted = |hosts: &[&str], scope| {
        let mut hosts: Vec<_> = hosts.iter().map(|host| ((*host).to_owned(), scope)).collect();
        hosts.sort();
        hosts
    };
    assert_eq!(called(Scope::Global, &all), []);
    assert_eq!(called(Scope::Private, &all), sorted(&private, Scope::Private));
    assert_eq!(called(Scope::Loopback, &loopback), sorted(&loopback, Scope::Loopback));
    // What a name resolves to is tested when it is connected to.
    let names = ["127.1", "0x7f.0.0.1", "0177.0.0.1", "localhost", "localhost.localdomain", "x.lan"];
    for scope in [Scope::Global, Scope::Private] {
        assert_eq!(called(scope, &names), sorted(&names, scope));
    }
}

#[test]
fn a_listed_address_is_called_whatever_its_scope_and_a_listed_name_only_on_a_private_network() {
    let hosts = ["127.0.0.1", "192.168.1.5", "node.example"];
    for (least_scope, of_name) in [(Scope::Global, Scope::Global), (Scope::Private, Scope::Loopback)] {
        let listed = hosts.map(|host| ListedPeer::Endpoint(Endpoint::http(host, 80)));
        let elsewhere = NodeInfo { endpoint: Endpoint::http("127.0.0.1", 81), ..info(1) };
        let listed = listed.into_iter().chain([ListedPeer::Node(info(0))]).collect();
        let mut scene = Scene::new(PeerSettings { listed, least_scope, ..settings(&[]) }, 1);
        scene.simulated_peers[0].list = vec![elsewhere];
        scene.tick();
        let mut called: Vec<_> = scene.fake.waiting.iter().map(|sent| sent.request.least_scope).collect();
        called.sort();
        let mut expected = [Scope::Loopback, Scope::Loopback, Scope::Loopback, of_name];
        expected.sort();
        assert_eq!(called, expected);
        scene.run_seconds(200);
        assert!(scene.fake.history.iter().all(|(_, to, _)| *to != "http://127.0.0.1:81"), "another port is not listed");
    }
}

#[test]
fn a_peer_keeps_its_endpoint_whatever_it_reports() {
    let mut scene = Scene::new(settings(&[0]), 2);
    scene.simulated_peers[0].list = vec![info(1)];
    scene.run_seconds(10);
    // A relay listens there.
    for number in [0, 1] {
        let there = Endpoint::http(format!("99.9.9.{number}"), 7890);
        let relay = scene.relay(number, there.clone());
        scene.simulated_peers[number].reported_info = Some(NodeInfo { endpoint: there, ..info(number) });
        scene.simulated_peers[relay].reported_info = scene.simulated_peers[number].reported_info.clone();
    }
    scene.run_seconds(1_000);
    for number in [0, 1] {
        assert_eq!((scene.state(number), scene.place(number)), (Some(State::Active), Some(info(number).endpoint)));
    }
    assert!(scene.fake.history.iter().all(|(_, to, _)| !to.contains("99.9.9")));
}

#[test]
fn a_gossiped_peer_is_added_at_the_endpoint_where_it_answered() {
    let mut scene = Scene::new(settings(&[0]), 2);
    scene.simulated_peers[0].list = vec![info(1)];
    scene.run(Duration::from_millis(100));
    scene.now = Duration::from_millis(200);
    scene.tick();
    while scene.fake.waiting.front().is_some_and(|sent| sent.to == info(0).endpoint) {
        scene.answer_one();
    }
    let sent = scene.fake.waiting.pop_front().expect("a question");
    let elsewhere = NodeInfo { endpoint: Endpoint::http("99.9.9.9", 7890), ..info(1) };
    let body = signed(&scene.simulated_peers[1], &sent.request, elsewhere);
    scene.end(sent.call, ok(body, ip_of(1)));
    assert!(scene.manager.active().0.contains(&info(1)), "{:?}", scene.manager.active());
}

#[test]
fn a_failed_peer_is_reported_and_probed_again() {
    let mut scene = refreshed(2, 2, |others| others[1].behaviour = Behaviour::Status(500, Some("\nno\tgood")));
    assert_eq!(scene.state(1), Some(State::Failure));
    let failed = scene.manager.table.get(&address_of(1)).expect("a node");
    assert_eq!(failed.last_failure.as_ref().expect("a failure").error.reason, "status 500: ?no?good");
    scene.simulated_peers[1].behaviour = Behaviour::Good;
    scene.run_seconds(130);
    assert_eq!(scene.state(1), Some(State::Active));
}

#[test]
fn tasks_start_after_the_first_refresh_at_their_offsets() {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.fake.importances.insert(address_of(0), 0.1);
    scene.run_seconds(4);
    let path = |(at, _, path): &(Duration, String, String)| (at.as_millis() as u64, path.clone());
    let questions: Vec<_> = scene.fake.history.iter().map(path).collect();
    let expected = [
        (0, "/node/cysm"),
        (200, "/node/info"),
        (200, "/node/peer-list/active"),
        (600, "/node/sign-of-life"),
        (800, "/chain/score"),
        (800, "/transactions/unconfirmed"),
        (1_200, "/chain/height"),
        (1_600, "/node/experiences"),
        (2_000, "/time-sync/network-time"),
        (2_200, "/node/cysm"),
        (3_800, "/chain/score"),
        (3_800, "/transactions/unconfirmed"),
    ];
    assert_eq!(questions, expected.map(|(at, path)| (at, path.to_owned())));
    assert!(scene.manager.height_check.is_synchronised() && scene.manager.has_active_node());
}

#[test]
#[ignore = "slow: computes for long"]
fn unresponsive_peers_are_pruned_and_reported_as_dropped() {
    let mut scene = refreshed(1, 2, |others| others[0].list = vec![info(1)]);
    scene.run_seconds(1_000);
    assert_eq!(scene.state(1), Some(State::Active));
    scene.simulated_peers[1].behaviour = Behaviour::Unreachable;
    scene.simulated_peers[0].list.clear();
    scene.run_seconds(3 * 3_600);
    assert_eq!(scene.state(1), None);
    assert_eq!(scene.manager.table.dropped.iter().map(|dropped| dropped.address).collect::<Vec<_>>(), [address_of(1)]);
}

#[test]
fn gossiped_peers_are_queried_within_two_minutes() {
    let mut scene = refreshed(1, 6, |others| others[0].list = (1..6).map(info).collect());
    scene.run_seconds(120);
    let mut asked = scene.asked("/chain/height");
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_refresh_lasts_until_probes_for_moves_have_ended() {
    let elsewhere = NodeInfo { endpoint: Endpoint::http("77.7.7.7", 7890), ..info(1) };
    let mut scene = refreshed(1, 2, |others| others[0].list = vec![info(1)]);
    assert_eq!(scene.state(1), Some(State::Active));
    scene.simulated_peers[1].behaviour = Behaviour::Unreachable;
    scene.simulated_peers[0].list = vec![elsewhere.clone()];
    let moved = scene.relay(1, elsewhere.endpoint.clone());
    scene.simulated_peers[moved].behaviour = Behaviour::Silent;
    let is_moving = |scene: &Scene| scene.fake.waiting.iter().any(|sent| sent.to == elsewhere.endpoint);
    while !is_moving(&scene) {
        scene.run_seconds(1);
        assert!(scene.now < Duration::from_secs(2_000), "it is never probed elsewhere");
    }
    let refresh = |scene: &Scene| {
        let timer = scene.manager.timers().iter().find(|timer| timer.task == Task::Refresh).expect("a timer");
        (timer.is_executing, timer.successes)
    };
    let (is_executing, successes) = refresh(&scene);
    assert!(is_executing);
    scene.run_seconds(11);
    assert!(!is_moving(&scene));
    assert_eq!(refresh(&scene), (false, successes + 1));
}
