//! Random events: nothing panics, no limit is exceeded, and no task gets stuck.

use std::time::Duration;

use proptest::prelude::*;

use super::synchronisation::tests::block;
use crate::model::{Hash256, Height};
use crate::peer::io::OwnTip;
use crate::peer::manager::{IpDetection, PeerSettings};
use crate::peer::tests::*;
use crate::peer::wire::{HashChain, List};

const OTHERS: usize = 40;

#[derive(Clone, Debug)]
enum Event {
    Pass { millis: u64 },
    End { which: usize, how: usize },
    Behave { node: usize, how: usize },
    List { node: usize, first: usize, count: usize },
    Greet { node: usize, from: usize },
    Push { node: usize, result: usize },
    Judge { node: usize, verdict: usize },
    Block,
    Transaction { number: usize },
    Grow { by: u64 },
    StoreFails { fails: bool },
    Nonsense { call: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0_u64..5_000).prop_map(|millis| Event::Pass { millis }),
        1 => (0_u64..400_000).prop_map(|millis| Event::Pass { millis }),
        12 => (0_usize..200, 0_usize..20).prop_map(|(which, how)| Event::End { which, how }),
        1 => (0..OTHERS, 0_usize..9).prop_map(|(node, how)| Event::Behave { node, how }),
        1 => (0..OTHERS, 0_usize..OTHERS, 0_usize..150).prop_map(|(node, first, count)| Event::List { node, first, count }),
        3 => (0..OTHERS, 0..OTHERS).prop_map(|(node, from)| Event::Greet { node, from }),
        1 => (0..OTHERS, 0_usize..3).prop_map(|(node, result)| Event::Push { node, result }),
        2 => (0..OTHERS, 0_usize..3).prop_map(|(node, verdict)| Event::Judge { node, verdict }),
        1 => Just(Event::Block),
        1 => (0_usize..50).prop_map(|number| Event::Transaction { number }),
        1 => (0_u64..5).prop_map(|by| Event::Grow { by }),
        1 => any::<bool>().prop_map(|fails| Event::StoreFails { fails }),
        1 => any::<u64>().prop_map(|call| Event::Nonsense { call }),
    ]
}

fn behaviour(how: usize) -> Behaviour {
    match how {
        0 => Behaviour::Silent,
        1 => Behaviour::Unreachable,
        2 => Behaviour::Broken,
        3 => Behaviour::Status(503, Some("NIS_ILLEGAL_STATE_NOT_BOOTED")),
        4 => Behaviour::SignedByAnother,
        5 => Behaviour::OtherIdentity,
        6 => Behaviour::Garbage,
        _ => Behaviour::Good,
    }
}

/// Returns an answer to a request, mostly a valid one.
fn reply(scene: &Scene, which: usize, how: usize) -> Reply {
    let sent = &scene.fake.waiting[which];
    let other = scene.simulated_peers.iter().find(|other| other.info.endpoint == sent.to);
    let signed = |body: fn(&SimulatedPeer, &FetchRequest) -> Vec<u8>| {
        let from = ip_of(0);
        other.map_or(timed_out(), |other| ok(body(other, &sent.request), from))
    };
    match (how, &*sent.request.target) {
        (0, _) => timed_out(),
        (1, _) => unreachable(),
        (2, _) => status(500, vec![1; 100]),
        (3, _) => ok(Vec::new(), ip_of(3)),
        (_, "/chain/last-block") => signed(signed_block),
        (_, "/chain/hashes-from") => {
            signed(|other, request| self::signed(other, request, HashChain(vec![Hash256([1; 32]), Hash256([2; 32])])))
        }
        (_, "/chain/blocks-after") => signed(|other, request| self::signed(other, request, List(vec![block(2)]))),
        _ => scene.reply(sent),
    }
}

fn signed_block(other: &SimulatedPeer, request: &FetchRequest) -> Vec<u8> {
    signed(other, request, block(2))
}

fn happen(scene: &mut Scene, event: Event) {
    let now = scene.now();
    match event {
        Event::Pass { millis } => {
            scene.now += std::time::Duration::from_millis(millis);
            scene.act(|manager, now, fake| manager.tick(now, 10, fake));
        }
        Event::End { which, how } => {
            if let Some(which) = which.checked_rem(scene.fake.waiting.len()) {
                let reply = reply(scene, which, how);
                let sent = scene.fake.waiting.remove(which).expect("a request");
                scene.end(sent.call, reply);
            }
        }
        Event::Behave { node, how } => scene.simulated_peers[node].behaviour = behaviour(how),
        Event::List { node, first, count } => {
            scene.simulated_peers[node].list = (first..first + count).map(|number| info(number % 60)).collect();
        }
        Event::Greet { node, from } => {
            scene.greet(&info(node), ip_of(from));
        }
        Event::Push { node, result } => {
            scene.manager.record_push(&pusher(node), &[Ok(()), neutral(), harmful()][result], now);
        }
        Event::Judge { node, verdict } => {
            let node = scene.fake.fetched.pop().map_or(address_of(node), |pulled| pulled.from);
            scene.manager.on_blocks_validated(&node, &[Ok(()), neutral(), harmful()][verdict], now);
        }
        Event::Block => scene.act(|manager, now, _| manager.push_block(block(9), now)),
        Event::Transaction { number } => {
            let transaction = super::relay::tests::transaction(number, 900);
            scene.manager.queue_transaction(&transaction);
        }
        Event::Grow { by } => {
            scene.simulated_peers.iter_mut().for_each(|other| (other.height, other.score) = (1 + by, i128::from(by)));
        }
        Event::StoreFails { fails } => {
            let nemesis = OwnTip { height: Height(1), hash: Hash256([1; 32]), signature: None, score: 0 };
            scene.fake.tip = (!fails).then_some(nemesis);
        }
        Event::Nonsense { call } => scene.end(FetchId(call | 1 << 40), timed_out()),
    }
}

fn check_limits(scene: &Scene) {
    let peers = &scene.manager;
    let exceeded = peers.usage().into_iter().find(|load| load.used > load.max);
    assert_eq!(exceeded, None);
    assert_eq!(peers.requests.usage()[0].used, scene.fake.waiting.len(), "what is under way is what was sent");
}

/// Checks that every task runs again once the peers behave well.
fn check_that_nothing_is_stuck(scene: &mut Scene) {
    scene.simulated_peers.iter_mut().for_each(|other| (other.behaviour, other.score) = (Behaviour::Good, 0));
    happen(scene, Event::StoreFails { fails: false });
    for _ in 0..3 {
        scene.answer_all();
        while let Some(sent) = scene.fake.waiting.pop_front() {
            scene.end(sent.call, timed_out());
        }
        while let Some(pulled) = scene.fake.fetched.pop() {
            let now = scene.now();
            scene.manager.on_blocks_validated(&pulled.from, &neutral(), now);
        }
        scene.run_seconds(10);
    }
    let before: Vec<_> = scene.manager.timers().iter().map(|timer| timer.executions).collect();
    // Longer than any delay; then all are due at once.
    scene.now += Duration::from_secs(7 * 3_600);
    scene.run_seconds(60);
    assert!(!before.is_empty(), "the network is joined");
    for (timer, before) in scene.manager.timers().iter().zip(before) {
        assert!(timer.executions > before, "{:?}", timer.task);
    }
    let unfinished = scene.manager.requests.usage()[..3].iter().map(|usage| usage.used).sum::<usize>();
    assert_eq!((unfinished, scene.manager.sign_probes.len()), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "slow: computes for long"]
    fn arbitrary_events_exceed_no_limit_and_block_no_task(
        seed in any::<u64>(),
        mode in 0_usize..3,
        listed in 0_usize..20,
        events in prop::collection::vec(event(), 1..300),
    ) {
        let ip_detection = [IpDetection::Required, IpDetection::Optional, IpDetection::Disabled][mode];
        let listed: Vec<_> = (0..listed).collect();
        let mut scene = Scene::seeded(PeerSettings { ip_detection, ..settings(&listed) }, OTHERS, seed);
        scene.fake.importances.extend((0..OTHERS).map(|number| (address_of(number), 0.01)));
        for event in events {
            happen(&mut scene, event);
            check_limits(&scene);
        }
        check_that_nothing_is_stuck(&mut scene);
    }
}
