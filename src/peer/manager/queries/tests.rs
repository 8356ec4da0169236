use crate::model::network::ChainParameters;
use crate::model::{Address, Checkpoint, Hash256, Height};
use crate::peer::block_download::BlockDownload;
use crate::peer::manager::queries::{ASKED_HEIGHT_TIMEOUT, ASKED_HEIGHT_TTL};
use crate::peer::manager::{ListedPeer, PeerSettings};
use crate::peer::peer_entry::State;
use crate::peer::schedule::{Task, Timer};
use crate::peer::tests::*;
use crate::peer::trust::{EXPERIENCE_LIFETIME, Experience};
use crate::peer::wire::{ChainRequest, Endpoint, ExperiencePair, NodeInfo};

fn timer(scene: &Scene, task: Task) -> &Timer {
    scene.manager.timers().iter().find(|timer| timer.task == task).expect("a timer")
}

fn pairs(numbers: impl IntoIterator<Item = usize>) -> Vec<ExperiencePair> {
    let experience = Experience::new(20, 1);
    numbers.into_iter().map(|number| ExperiencePair { node: info(number), experience }).collect()
}

#[test]
fn a_node_counts_as_synchronised_until_peers_were_higher_four_times() {
    let mut scene = Scene::new(settings(&[0, 1]), 2);
    scene.run_seconds(2);
    assert!(scene.manager.height_check.is_synchronised());
    scene.simulated_peers.iter_mut().for_each(|peer| peer.height = 2);
    scene.run_seconds(100);
    assert!(scene.manager.height_check.is_synchronised());
    scene.run_seconds(30);
    assert!(!scene.manager.height_check.is_synchronised());
    let heights: Vec<_> = scene.manager.table.iter().map(|(node, peer)| (*node, peer.height)).collect();
    assert!([0, 1].iter().all(|peer| heights.contains(&(address_of(*peer), Some(Height(2))))));
    scene.simulated_peers[0].height = 1;
    scene.simulated_peers[1].behaviour = Behaviour::Garbage;
    scene.run_seconds(30);
    assert!(scene.manager.height_check.is_synchronised(), "the only height that is told is no higher");
}

#[test]
fn the_largest_height_of_peers_is_queried_once_for_all_requests() {
    let mut scene = Scene::new(settings(&[0, 1, 2]), 3);
    scene.run_seconds(1);
    scene.simulated_peers[..2].iter_mut().for_each(|peer| peer.height = 7);
    scene.simulated_peers[2].behaviour = Behaviour::Garbage;
    scene.fake.history.clear();
    assert_eq!([scene.ask_max_height(), scene.ask_max_height()], [None; 2]);
    scene.answer_all();
    let told = |client| (ConnectionId(client), Ok(()));
    assert_eq!((scene.asked("/chain/height").len(), &scene.fake.answers[..]), (3, &[told(1), told(2)][..]));
    assert_eq!(scene.manager.asked_height(), Height(7));
    assert_eq!(scene.ask_max_height(), Some(Height(7)), "it was told just now");
    scene.now += ASKED_HEIGHT_TTL;
    assert_eq!(scene.ask_max_height(), None);
    scene.simulated_peers.iter_mut().for_each(|other| other.behaviour = Behaviour::Broken);
    scene.answer_all();
    assert_eq!((&scene.fake.answers[2..], scene.manager.asked_height()), (&[told(4)][..], Height(1)));
    assert_eq!(Scene::new(settings(&[]), 0).ask_max_height(), Some(Height(1)));
}

#[test]
fn a_client_that_has_gone_gets_no_height() {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.run_seconds(1);
    assert_eq!([scene.ask_max_height(), scene.ask_max_height()], [None; 2]);
    scene.manager.forget_client(ConnectionId(1));
    scene.answer_all();
    assert_eq!(scene.fake.answers, [(ConnectionId(2), Ok(()))]);
}

#[test]
fn a_peer_that_reports_its_height_too_late_is_left_out() {
    let mut scene = Scene::new(settings(&[0, 1]), 2);
    scene.run_seconds(1);
    (scene.simulated_peers[0].height, scene.simulated_peers[1].height) = (7, 9);
    scene.simulated_peers[1].behaviour = Behaviour::SilentAt("/chain/height");
    let now = scene.now();
    assert_eq!(scene.ask_max_height(), None);
    scene.answer_all();
    scene.now += ASKED_HEIGHT_TIMEOUT;
    assert!(scene.fake.answers.is_empty() && scene.manager.next_due().is_some_and(|due| due <= scene.now));
    scene.tick();
    assert_eq!(scene.fake.answers, [(ConnectionId(1), Ok(()))]);
    assert_eq!(scene.manager.asked_height(), Height(7));
    scene.now += ASKED_HEIGHT_TTL;
    scene.simulated_peers[0].behaviour = Behaviour::Silent;
    assert_eq!(scene.ask_max_height(), None);
    let late = |sent: &&Sent| sent.at == now.monotonic && sent.request.target == "/chain/height";
    let late: Vec<_> = scene.fake.waiting.iter().filter(late).map(|call| call.call).collect();
    assert_eq!(late.len(), 1);
    late.into_iter().for_each(|late| scene.end(late, timed_out()));
    scene.answer_all();
    scene.now += ASKED_HEIGHT_TIMEOUT;
    assert_eq!(scene.fake.answers.len(), 1, "what comes late counts for nothing, and ends no later query");
    scene.tick();
    assert_eq!(scene.fake.answers.len(), 2);
}

#[test]
fn time_synchronisation_queries_only_important_and_listed_peers() {
    let mut scene = Scene::new(settings(&[0, 1, 2]), 4);
    scene.simulated_peers[0].list = vec![info(3)];
    scene.simulated_peers.iter_mut().for_each(|other| other.ahead = 700);
    scene.fake.importances.extend([(address_of(0), 0.01), (address_of(1), 0.000_24), (address_of(2), 0.000_25)]);
    scene.run_seconds(3);
    let mut asked = scene.asked("/time-sync/network-time");
    asked.sort_unstable();
    assert_eq!((asked, scene.manager.active().0.len()), (vec![0, 1, 2], 4));
    // Two of a hundred accounts have too small a share for the full change.
    let [round] = scene.manager.time_sync.rounds.iter().collect::<Vec<_>>()[..] else { panic!("a round") };
    assert_eq!((round.change, scene.manager.clock_shift), (358, 358));
    assert_eq!(timer(&scene, Task::TimeSynchronisation).successes, 1);
}

#[test]
fn a_time_synchronisation_round_without_samples_fails_and_changes_nothing() {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.simulated_peers[0].ahead = 700;
    scene.run_seconds(3);
    assert!(scene.asked("/time-sync/network-time").is_empty());
    assert_eq!((timer(&scene, Task::TimeSynchronisation).failures, scene.manager.clock_shift), (1, 0));
    let mut scene = Scene::new(PeerSettings { uses_network_time: false, ..settings(&[0]) }, 1);
    scene.fake.importances.insert(address_of(0), 0.01);
    scene.run_seconds(200);
    assert!(scene.asked("/time-sync/network-time").is_empty(), "it was not wanted");
}

#[test]
fn a_wrong_local_clock_is_reported() {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.simulated_peers[0].ahead = 9_000;
    scene.fake.importances.insert(address_of(0), 0.01);
    scene.run_seconds(3);
    assert_eq!(scene.manager.time_sync.clock_difference(), Some(9_000));
}

#[test]
fn a_time_from_the_former_endpoint_of_a_peer_changes_nothing() {
    for has_moved in [false, true] {
        let mut scene = Scene::new(settings(&[0]), 1);
        scene.fake.importances.extend([(address_of(0), 0.3)]);
        scene.simulated_peers[0].ahead = 700;
        scene.simulated_peers[0].behaviour = Behaviour::SilentAt("/time-sync/network-time");
        scene.run_seconds(3);
        let is_question = |sent: &&Sent| sent.request.target == "/time-sync/network-time";
        let question = scene.fake.waiting.iter().find(is_question).expect("a question");
        let (call, to) = (question.call, question.to.clone());
        scene.simulated_peers[0].behaviour = Behaviour::Good;
        let reply = scene.reply(question);
        if has_moved {
            let elsewhere = NodeInfo { endpoint: Endpoint::http("77.7.7.7", 7890), ..info(0) };
            scene.manager.add_listed_peers(vec![ListedPeer::Node(elsewhere)]);
        }
        scene.end(call, reply);
        assert_eq!((to, scene.manager.clock_shift != 0), (info(0).endpoint, !has_moved));
    }
}

#[test]
fn network_time_does_not_follow_a_minority_of_listed_peers_and_reports_it() {
    let mut scene = Scene::new(settings(&[0, 1, 2]), 3);
    scene.fake.importances.extend((0..3).map(|number| (address_of(number), 0.3)));
    scene.simulated_peers.iter_mut().take(2).for_each(|other| other.ahead = 3_600_000);
    scene.run_seconds(3);
    assert_eq!((scene.manager.clock_shift, scene.manager.time_sync.rejected_offset.is_some()), (0, true));
    assert_eq!(timer(&scene, Task::TimeSynchronisation).failures, 1);
    scene.simulated_peers[2].ahead = 3_600_000;
    scene.run_seconds(61);
    assert!((3_599_000..=3_600_000).contains(&scene.manager.clock_shift), "{}", scene.manager.clock_shift);
    assert_eq!(scene.manager.time_sync.rejected_offset, None);
}

#[test]
fn experiences_are_accepted_only_about_known_peers_from_the_peer_itself() {
    let between = |scene: &Scene, who: usize, of: usize| -> u64 {
        scene.manager.experiences.between(&address_of(who), &address_of(of)).calls()
    };
    let mut scene = Scene::new(settings(&[0, 3]), 1);
    scene.simulated_peers[0].experiences = pairs([3, 4]);
    scene.run_seconds(2);
    assert_eq!((between(&scene, 0, 3), between(&scene, 0, 5)), (21, 0));
    assert_eq!(between(&scene, 0, 4), 0, "it is not known");
    for speaks_for in [info(1), info(LOCAL)] {
        let mut scene = Scene::new(settings(&[0, 3]), 1);
        scene.simulated_peers[0].experiences = pairs([3, 4]);
        scene.simulated_peers[0].speaks_for = Some(speaks_for);
        scene.run_seconds(2);
        assert_eq!([0, 1, LOCAL].map(|who| between(&scene, who, 3)), [0, 0, 0]);
        assert_eq!(timer(&scene, Task::UpdatingExperiences).failures, 1);
    }
    let mut scene = Scene::new(settings(&[0, 3]), 1);
    scene.simulated_peers[0].experiences = pairs(0..101);
    scene.run_seconds(2);
    assert_eq!(between(&scene, 0, 3), 0, "too many of them");
}

#[test]
fn experiences_with_a_peer_at_another_endpoint_are_ignored() {
    let calls = |endpoint: Option<Endpoint>| {
        let mut scene = Scene::new(settings(&[0]), 2);
        scene.simulated_peers[0].list = vec![info(1)];
        let mut about = pairs([1]);
        endpoint.into_iter().for_each(|endpoint| about[0].node.endpoint = endpoint);
        scene.simulated_peers[0].experiences = about;
        scene.run_seconds(2);
        scene.manager.experiences.between(&address_of(0), &address_of(1)).calls()
    };
    assert_eq!((calls(None), calls(Some(Endpoint::http("99.9.9.9", 7890)))), (21, 0));
}

#[test]
fn pushes_count_only_for_known_peers_that_are_not_backed_off() {
    let mut scene = Scene::new(settings(&[0, 1, 2]), 3);
    scene.simulated_peers[1].behaviour = Behaviour::Silent;
    scene.simulated_peers[2].behaviour = Behaviour::Broken;
    scene.run_seconds(20);
    let now = scene.now();
    for number in 0..4 {
        for result in [Ok(()), harmful(), neutral(), Ok(())] {
            scene.manager.record_push(&pusher(number), &result, now);
        }
    }
    // The second peer has never answered: harmful pushes may come from anybody.
    assert_eq!([0, 1, 2].map(|number| scene.experience(number)), [(2, 1), (2, 0), (0, 0)]);
    let reported = scene.manager.experiences(&mut || 0).experiences;
    let about = |number: usize| {
        let is_about = |pair: &&ExperiencePair| pair.node.identity.key == info(number).identity.key;
        reported.iter().find(is_about).map(|pair| (pair.experience.successes, pair.experience.failures))
    };
    assert_eq!([0, 1, 2].map(about), [Some((2, 1)), Some((2, 0)), None]);
}

#[test]
#[ignore = "slow: computes for long"]
fn own_experiences_expire_after_a_day() {
    let mut scene = Scene::new(settings(&[0]), 1);
    scene.run_seconds(1);
    let now = scene.now();
    scene.manager.record_push(&pusher(0), &Ok(()), now);
    scene.run_seconds(EXPERIENCE_LIFETIME.as_secs() - 3_600);
    assert_eq!(scene.experience(0), (1, 0));
    scene.run_seconds(8 * 3_600);
    assert_eq!(scene.experience(0), (0, 0));
}

#[test]
fn the_seed_determines_the_run() {
    let run = |seed| {
        let mut scene = Scene::seeded(settings(&(0..20).collect::<Vec<_>>()), 60, seed);
        for number in 0..20 {
            scene.simulated_peers[number].list = (20..60).map(info).collect();
        }
        scene.run_seconds(200);
        let known: Vec<Address> = scene.manager.table.iter().map(|(node, _)| *node).collect();
        (scene.fake.history, known)
    };
    let first = run(1);
    assert!(first.0.len() > 200, "{}", first.0.len());
    assert!(first == run(1) && first != run(2));
}

/// Returns a scene of listed peers and strangers with these heights, all of them active.
fn heights(listed: &[u64], strangers: &[u64]) -> Scene {
    let numbers: Vec<_> = (0..listed.len()).collect();
    let mut scene = Scene::new(PeerSettings { node_limit: 20, ..settings(&numbers) }, listed.len() + strangers.len());
    let all = [listed, strangers].concat();
    scene.simulated_peers.iter_mut().zip(all).for_each(|(peer, height)| peer.height = height);
    scene.fake.tip.as_mut().expect("a tip").height = Height(100);
    scene.tick();
    scene.answer_all();
    for stranger in listed.len()..scene.simulated_peers.len() {
        scene.greet(&info(stranger), ip_of(stranger));
        scene.answer_all();
    }
    scene.run_seconds(200);
    scene
}

#[test]
fn only_the_median_of_listed_peers_makes_a_node_believe_that_it_is_behind() {
    for (listed, strangers, network, is_synchronised) in [
        (&[100][..], &[5_000_000; 8][..], 100, true),
        (&[5_000_000, 100, 101], &[], 101, false),
        (&[5_000_000, 100, 100], &[], 100, true),
        (&[5_000_000, 100], &[], 100, true),
        (&[104, 103, 105, 1, 1], &[1, 1, 1, 1], 103, false),
        (&[1, 1, 104], &[], 1, true),
        (&[], &[5_000_000, 5_000_001], 0, true),
        (&[], &[99, 5_000_000], 99, true),
    ] {
        let mut scene = heights(listed, strangers);
        let expected = (Some(Height(network)).filter(|height| height.0 > 0), is_synchronised);
        assert_eq!(
            (scene.manager.height_check.network_height(), scene.manager.height_check.is_synchronised()),
            expected,
            "{listed:?} {strangers:?}"
        );
        // What clients are told of the network follows the same rule.
        scene.now += ASKED_HEIGHT_TTL;
        assert_eq!(scene.ask_max_height(), None);
        scene.answer_all();
        assert_eq!(scene.manager.asked_height(), Height(network.max(1)), "{listed:?} {strangers:?}");
    }
}

#[test]
fn listed_peers_of_one_network_count_once() {
    let mut scene = Scene::new(settings(&[]), 5);
    let listed = (0..5).map(|number| {
        let host = if number < 3 { format!("66.6.6.{number}") } else { format!("77.{number}.7.7") };
        let info = NodeInfo { endpoint: Endpoint::http(host, 7890), ..info(number) };
        let peer = &mut scene.simulated_peers[number];
        (peer.info, peer.height) = (info.clone(), if number < 3 { 5_000_000 } else { 1 });
        ListedPeer::Node(info)
    });
    let listed = listed.collect();
    scene.manager.add_listed_peers(listed);
    scene.run_seconds(200);
    assert_eq!(
        (scene.manager.height_check.network_height(), scene.manager.height_check.is_synchronised()),
        (Some(Height(1)), true)
    );
}

#[test]
fn a_listed_peer_that_a_reload_adds_is_contacted_at_once() {
    for added in [ListedPeer::Endpoint(info(1).endpoint), ListedPeer::Node(info(1))] {
        for is_refreshing in [false, true] {
            let mut scene = Scene::new(settings(&[0]), 2);
            scene.run_seconds(20);
            if is_refreshing {
                scene.manager.begin_refresh();
            }
            scene.manager.add_listed_peers(vec![added.clone()]);
            scene.run_seconds(3);
            let state = scene.manager.table.get(&address_of(1)).map(|peer| peer.state);
            assert_eq!(state, Some(State::Active), "{added:?} {is_refreshing}");
        }
    }
}

#[test]
fn the_target_of_a_block_download_counts_after_its_first_valid_block() {
    let mut scene = heights(&[100], &[]);
    let base = Checkpoint { height: Height(100), hash: Hash256([1; 32]) };
    let batch = ChainRequest::new(base.height, 10, 1_000, &ChainParameters::after_all_forks());
    let download = BlockDownload::new(1, address_of(0), (base, Height(5_000_000)), 400, batch, None);
    scene.manager.block_download = Some(download);
    let state = |scene: &mut Scene, height| {
        scene.fake.tip.as_mut().expect("a tip").height = Height(height);
        scene.tick();
        (scene.manager.height_check.network_height().expect("a height").0, scene.manager.height_check.is_synchronised())
    };
    assert_eq!(state(&mut scene, 100), (100, true), "a promise is nothing");
    assert_eq!(state(&mut scene, 101), (5_000_000, false));
    scene.manager.block_download = None;
    assert_eq!(state(&mut scene, 101), (100, true));
}
