use std::collections::VecDeque;
use std::time::Duration;

use crate::codec::Format;
use crate::model::network::ChainParameters;
use crate::peer::block_download::DownloadRequest;
use crate::peer::io::Now;
use crate::peer::manager::probes::{Probe, ProbeReason};
use crate::peer::manager::relay::MAX_SIGNS_OF_LIFE;
use crate::peer::manager::requests::*;
use crate::peer::manager::synchronisation::tests::block;
use crate::peer::tests::*;
use crate::peer::wire::{CHALLENGE_BYTES, Challenge, Endpoint, List, Message, Query};

fn request(host: usize, purpose: RequestKind, bytes: usize) -> Request {
    let endpoint = Endpoint::http(format!("h{host}"), 1);
    let message = Message::CanYouSeeMe(&endpoint).request(Format::Binary);
    let message = FetchRequest { body: vec![0; bytes].into(), ..message };
    Request { endpoint, message, kind: purpose, priority: Priority::First, proof: None, sent: None }
}

/// Sends the requests that may be sent.
fn send(calls: &mut RequestQueue, now: Now, fake: &mut FakeIo) {
    let mut actions = Vec::new();
    calls.send(now, &mut actions);
    fake.carry_out(actions);
}

fn question(host: usize) -> Request {
    request(host, RequestKind::SignOfLife, 10)
}

/// Returns the requests in flight, the waiting ones, and the bytes of their bodies.
fn usage(calls: &RequestQueue) -> [usize; 3] {
    [0, 1, 2].map(|place| calls.usage()[place].used)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Ends all sent requests and returns their number.
fn end_all(calls: &mut RequestQueue, fake: &mut FakeIo, now: Duration) -> usize {
    let sent: Vec<_> = fake.waiting.drain(..).collect();
    sent.iter().for_each(|sent| assert!(calls.complete(sent.call, timed_out(), now).is_some()));
    sent.len()
}

#[test]
fn a_peer_gets_at_most_forty_requests_a_second() {
    let (mut calls, mut fake) = (RequestQueue::new(MAX_IN_FLIGHT), FakeIo::new());
    (0..200).for_each(|_| assert!(calls.enqueue(question(0)).is_some()));
    let mut sent = Vec::new();
    for step in 0..6_000 {
        let now = millis(step);
        loop {
            send(&mut calls, at(now), &mut fake);
            let count = end_all(&mut calls, &mut fake, now);
            sent.extend(std::iter::repeat_n(now, count));
            if count == 0 {
                break;
            }
        }
    }
    assert_eq!(sent.len(), 200);
    assert!(
        sent.windows(MAX_PER_SECOND + 1).all(|window| window[MAX_PER_SECOND] >= window[0] + RATE_WINDOW),
        "{sent:?}"
    );
    assert_eq!(sent[199], millis(4_000), "and no slower than it may be");
}

#[test]
fn rate_limited_requests_report_when_they_are_due() {
    let (mut calls, mut fake) = (RequestQueue::new(MAX_IN_FLIGHT), FakeIo::new());
    (0..=MAX_PER_SECOND).for_each(|_| assert!(calls.enqueue(question(0)).is_some()));
    for _ in 0..MAX_PER_SECOND {
        send(&mut calls, at(millis(5)), &mut fake);
        end_all(&mut calls, &mut fake, millis(5));
    }
    assert_eq!(calls.next_due(), Some(millis(1_005)));
    send(&mut calls, at(millis(1_004)), &mut fake);
    assert!(fake.waiting.is_empty());
    send(&mut calls, at(millis(1_005)), &mut fake);
    assert_eq!((fake.waiting.len(), calls.next_due()), (1, None));
}

#[test]
fn requests_in_flight_are_limited_per_peer_and_in_total() {
    let (mut calls, mut fake) = (RequestQueue::new(MAX_IN_FLIGHT), FakeIo::new());
    (0..20).for_each(|_| assert!(calls.enqueue(question(0)).is_some()));
    send(&mut calls, at(millis(0)), &mut fake);
    assert_eq!(fake.waiting.len(), MAX_IN_FLIGHT_PER_TARGET);
    (1..=200).for_each(|host| assert!(calls.enqueue(question(host)).is_some()));
    send(&mut calls, at(millis(0)), &mut fake);
    // Requests that wait for a slow peer block no others.
    assert_eq!(fake.waiting.len(), MAX_IN_FLIGHT);
    assert_eq!(usage(&calls), [100, 120, 2_200]);
    assert_eq!(calls.next_due(), None, "it waits for answers, not for time");
    // A program with few connections sends fewer.
    let (mut calls, mut fake) = (RequestQueue::new(3), FakeIo::new());
    (0..10).for_each(|host| assert!(calls.enqueue(question(host)).is_some()));
    send(&mut calls, at(millis(0)), &mut fake);
    assert_eq!((fake.waiting.len(), calls.next_due()), (3, None));
}

#[test]
fn the_second_half_of_the_requests_in_flight_is_for_peers_that_have_none() {
    let (mut calls, mut fake) = (RequestQueue::new(MAX_IN_FLIGHT), FakeIo::new());
    for host in 0..MAX_IN_FLIGHT {
        (0..8).for_each(|_| assert!(calls.enqueue(question(host)).is_some()));
    }
    send(&mut calls, at(millis(0)), &mut fake);
    assert_eq!(fake.waiting.len(), MAX_IN_FLIGHT);
    let hosts = MAX_IN_FLIGHT / 2 / MAX_IN_FLIGHT_PER_TARGET + MAX_IN_FLIGHT / 2;
    let asked: std::collections::BTreeSet<_> = fake.waiting.iter().map(|sent| sent.request.endpoint.clone()).collect();
    assert!(asked.len() >= hosts, "{} hosts", asked.len());
}

#[test]
fn queued_requests_are_limited_in_number_and_in_bytes() {
    let (mut calls, mut fake) = (RequestQueue::new(MAX_IN_FLIGHT), FakeIo::new());
    let taken = (0..MAX_WAITING + 10).filter(|_| calls.enqueue(question(0)).is_some()).count();
    assert_eq!(taken, MAX_WAITING);
    let mut calls = RequestQueue::new(MAX_IN_FLIGHT);
    assert!(calls.enqueue(request(0, RequestKind::Push(address(0)), MAX_PUSHED_BYTES + 1)).is_none());
    assert!(calls.enqueue(request(0, RequestKind::Push(address(0)), MAX_PUSHED_BYTES)).is_some());
    assert!(calls.enqueue(request(1, RequestKind::Push(address(0)), 1)).is_none());
    assert!(calls.enqueue(question(1)).is_some(), "pushes leave space for others");
    assert!(calls.enqueue(request(1, RequestKind::SignOfLife, MAX_BYTES - MAX_PUSHED_BYTES)).is_none());
    send(&mut calls, at(millis(0)), &mut fake);
    end_all(&mut calls, &mut fake, millis(0));
    assert_eq!(usage(&calls), [0, 0, 0]);
    assert!(calls.enqueue(request(1, RequestKind::Push(address(0)), MAX_PUSHED_BYTES)).is_some());
}

#[test]
fn queued_pushes_are_limited_per_peer() {
    let (mut calls, mut fake) = (RequestQueue::new(MAX_IN_FLIGHT), FakeIo::new());
    let taken = (0..10).filter(|_| calls.enqueue(request(0, RequestKind::Push(address(0)), 1)).is_some()).count();
    assert_eq!(taken, MAX_PUSHES_PER_TARGET);
    assert!(
        calls.enqueue(request(1, RequestKind::Push(address(0)), 1)).is_some() && calls.enqueue(question(0)).is_some()
    );
    send(&mut calls, at(millis(0)), &mut fake);
    end_all(&mut calls, &mut fake, millis(0));
    assert!(calls.enqueue(request(0, RequestKind::Push(address(0)), 1)).is_some());
}

#[test]
fn requests_to_unreachable_endpoints_are_rejected() {
    let mut calls = RequestQueue::new(MAX_IN_FLIGHT);
    for port in [-1, 0, 70_000] {
        let endpoint = Endpoint { port, ..Endpoint::http("a", 1) };
        assert!(calls.enqueue(Request { endpoint, ..question(0) }).is_none());
    }
    assert_eq!(usage(&calls), [0, 0, 0]);
}

#[test]
fn rate_counters_of_targets_last_a_second_and_are_limited() {
    let (mut calls, mut fake) = (RequestQueue::new(MAX_IN_FLIGHT), FakeIo::new());
    let mut taken = 0;
    for host in 0..2 * MAX_TARGETS {
        taken += usize::from(calls.enqueue(question(host)).is_some());
        send(&mut calls, at(millis(0)), &mut fake);
        end_all(&mut calls, &mut fake, millis(0));
    }
    assert_eq!(taken, MAX_TARGETS);
    send(&mut calls, at(millis(1_000)), &mut fake);
    assert!(calls.enqueue(question(2 * MAX_TARGETS)).is_some());
}

#[test]
fn a_call_completes_only_once_and_only_if_it_was_started() {
    let (mut calls, mut fake) = (RequestQueue::new(MAX_IN_FLIGHT), FakeIo::new());
    assert!(calls.enqueue(question(0)).is_some());
    send(&mut calls, at(millis(0)), &mut fake);
    assert!(calls.complete(FetchId(99), timed_out(), millis(0)).is_none());
    assert!(calls.complete(FetchId(1), timed_out(), millis(0)).is_some());
    assert!(calls.complete(FetchId(1), timed_out(), millis(0)).is_none());
}

#[test]
fn the_call_history_lists_the_latest_fifty_and_all_outstanding_calls() {
    let (mut calls, mut fake) = (RequestQueue::new(MAX_IN_FLIGHT), FakeIo::new());
    for host in 0..60 {
        assert!(calls.enqueue(question(host)).is_some());
        send(&mut calls, at(millis(host as u64 * 1_000)), &mut fake);
    }
    let latest: Vec<_> = calls.latest.iter().collect();
    assert_eq!((latest.len(), latest[0].number, latest[49].number), (MAX_LATEST, 60, 11));
    assert_eq!((&*latest[0].host, &*latest[0].path), ("h59", "/node/cysm"));
    assert_eq!(latest[0].started, at(millis(59_000)).network);
    calls.complete(fake.waiting[3].call, timed_out(), millis(60_000));
    let outstanding: Vec<_> = calls.outstanding().iter().map(|entry| entry.number).collect();
    assert_eq!((outstanding.len(), &outstanding[..4]), (59, &[1, 2, 3, 5][..]));
}

fn of_priority(priority: Priority, hosts: std::ops::Range<usize>) -> impl Iterator<Item = Request> {
    hosts.map(move |host| Request { priority, ..question(host) })
}

#[test]
fn requests_of_a_priority_leave_places_for_higher_ones() {
    for (places, taken) in [(100, [38, 50, 75, 100]), (8, [3, 4, 6, 8]), (3, [2, 2, 3, 3]), (1, [1; 4])] {
        let (mut calls, mut fake) = (RequestQueue::new(places), FakeIo::new());
        for (round, priority) in Priority::ALL.into_iter().rev().enumerate() {
            of_priority(priority, 200 * round..200 * round + 200)
                .for_each(|request| assert!(calls.enqueue(request).is_some()));
            send(&mut calls, at(millis(0)), &mut fake);
            assert_eq!(fake.waiting.len(), taken[round], "{places} places, {priority:?}");
            assert_eq!(calls.next_due(), None, "what waits has no place, whatever the time is");
        }
        // A place that is free again goes to the highest priority that may have it.
        let ended = fake.waiting.pop_back().expect("a request");
        assert!(calls.complete(ended.call, timed_out(), millis(0)).is_some());
        send(&mut calls, at(millis(0)), &mut fake);
        let host: usize = fake.waiting.back().expect("a request").request.endpoint.host[1..].parse().expect("a number");
        assert!(host >= 600, "{places} places, h{host}");
    }
}

#[test]
fn what_brings_blocks_to_or_from_a_listed_or_proven_peer_goes_first_and_looking_after_the_table_last() {
    let mut scene = Scene::new(settings(&[0]), 3);
    scene.simulated_peers[0].list = vec![info(1), info(2)];
    scene.run_seconds(130);
    scene.manager.table.get_mut(&address_of(2)).unwrap().has_delivered = true;
    let download = |peer| DownloadRequest { download: 1, peer, query: Query::HashesFrom(Height(2)) };
    for (number, expected) in [(0, Priority::First), (1, Priority::Normal), (2, Priority::First)] {
        let node = address_of(number);
        for kind in [RequestKind::Push(node), RequestKind::BlockDownload(download(node))] {
            assert_eq!(scene.manager.priority_of(&kind), expected, "{kind:?}");
        }
        assert_eq!(scene.manager.priority_of(&RequestKind::Ping(node)), Priority::Last);
    }
    let probe = |reason| RequestKind::Probe(Box::new(Probe::of(&info(1), reason)));
    assert_eq!(scene.manager.priority_of(&probe(ProbeReason::Selected)), Priority::Last);
    assert_eq!(scene.manager.priority_of(&probe(ProbeReason::SignOfLife)), Priority::SignProbe);
    assert_eq!(scene.manager.priority_of(&RequestKind::SignOfLife), Priority::Normal);
}

#[test]
fn waiting_requests_are_sent_by_priority_and_then_in_order() {
    let (mut calls, mut fake) = (RequestQueue::new(MAX_IN_FLIGHT), FakeIo::new());
    let waiting =
        [(Priority::Last, 0), (Priority::Normal, 1), (Priority::First, 2), (Priority::Last, 3), (Priority::First, 4)];
    for (priority, host) in waiting {
        assert!(calls.enqueue(Request { priority, ..question(host) }).is_some());
    }
    send(&mut calls, at(millis(0)), &mut fake);
    let hosts: Vec<_> = fake.waiting.iter().map(|sent| &*sent.request.endpoint.host).collect();
    assert_eq!(hosts, ["h2", "h4", "h1", "h0", "h3"]);
}

#[test]
fn requests_of_the_first_priority_to_one_peer_are_not_held_up_by_others_to_others() {
    let (mut calls, mut fake) = (RequestQueue::new(MAX_IN_FLIGHT), FakeIo::new());
    let others = of_priority(Priority::Last, 1..100).chain(of_priority(Priority::SignProbe, 100..200));
    others.for_each(|request| assert!(calls.enqueue(request).is_some()));
    send(&mut calls, at(millis(0)), &mut fake);
    (0..MAX_IN_FLIGHT_PER_TARGET).for_each(|_| assert!(calls.enqueue(question(0)).is_some()));
    (0..2).for_each(|_| assert!(calls.enqueue(Request { priority: Priority::Normal, ..question(300) }).is_some()));
    send(&mut calls, at(millis(0)), &mut fake);
    let to = |host: &str| fake.waiting.iter().filter(|sent| sent.request.endpoint.host == host).count();
    assert_eq!((to("h0"), to("h300")), (MAX_IN_FLIGHT_PER_TARGET, 1));
}

#[test]
fn strangers_that_do_not_answer_delay_no_block_to_a_listed_peer() {
    let (silent, more) = (1..80, 80..160);
    let mut scene = Scene::new(settings(&[0]), more.end);
    scene.run_seconds(1);
    for stranger in silent.clone() {
        scene.greet(&info(stranger), ip_of(stranger));
        scene.answer_all();
    }
    scene.simulated_peers[1..].iter_mut().for_each(|peer| peer.behaviour = Behaviour::Silent);
    // They are pinged once they were silent for a while, and others say that they are there.
    while scene.manager.requests.pings() < 40 {
        assert!(scene.now < Duration::from_secs(90), "{} pings", scene.manager.requests.pings());
        scene.run_seconds(1);
    }
    for stranger in more {
        scene.greet(&info(stranger), ip_of(stranger));
    }
    assert!(scene.manager.requests.usage()[1].used > 0, "some wait");
    scene.act(|manager, now, _| manager.push_block(block(2), now));
    assert!(scene.asked("/push/block").contains(&0), "and no stranger keeps it waiting");
}

/// Peers that are neither listed nor proven, in 63 networks with two addresses each, answer every push, sign of life and
/// query for a height or a clock byte by byte, until its timeout. This node sends as many as in its busiest hours.
#[test]
fn a_request_to_an_unproven_peer_waits_less_than_five_seconds_whatever_126_others_hold() {
    const HOSTILE: usize = 126;
    let (mut calls, mut fake) = (RequestQueue::new(MAX_IN_FLIGHT), FakeIo::new());
    let chain = ChainParameters::after_all_forks();
    let push = Message::PushTransactions(&List(Vec::new())).request(FORMAT);
    let sign = Message::SignOfLife(&info(LOCAL)).request(FORMAT);
    let query = |query: Query| query.request(&Challenge([0; CHALLENGE_BYTES]), FORMAT, &chain);
    let (height, clock) = (query(Query::Height), query(Query::NetworkTime));
    let (mut random, mut worst) = (seeded(1), 0);
    let mut asked: VecDeque<(u64, FetchId)> = VecDeque::new();
    for second in 0..600 {
        let now = millis(1_000 * second);
        fake.now = now;
        let is_over = |sent: &&Sent| now >= sent.at + sent.request.timeout;
        let over: Vec<_> = fake.waiting.iter().filter(is_over).map(|sent| sent.call).collect();
        fake.waiting.retain(|sent| !over.contains(&sent.call));
        over.into_iter().for_each(|call| assert!(calls.complete(call, timed_out(), now).is_some()));
        // By default `nis.nodeLimit` is 5 and `nis.timeSyncNodeLimit` 20.
        let signs = (300, MAX_SIGNS_OF_LIFE, &sign, false);
        let busy = [(1, 5, &push, true), (30, 5, &height, false), (60, 20, &clock, false), signs];
        for (_, count, message, is_push) in busy.into_iter().filter(|(every, ..)| second % every == 0) {
            for _ in 0..count {
                let host = random() as usize % HOSTILE;
                let kind = if is_push { RequestKind::Push(address(host)) } else { RequestKind::SignOfLife };
                let endpoint = question(host).endpoint;
                let (message, priority) = (message.clone(), Priority::Normal);
                calls.enqueue(Request { endpoint, message, kind, priority, proof: None, sent: None });
            }
        }
        let honest = Request { priority: Priority::Normal, ..question(HOSTILE + second as usize) };
        asked.extend(calls.enqueue(honest).map(|id| (second, id)));
        send(&mut calls, at(now), &mut fake);
        asked.retain(|(since, id)| {
            worst = worst.max(second - since);
            let is_sent = calls.is_sent_for(*id, Duration::ZERO, at(now));
            if is_sent {
                fake.waiting.retain(|sent| sent.call != *id);
                assert!(calls.complete(*id, timed_out(), now).is_some());
            }
            !is_sent
        });
    }
    assert!(worst < 5, "{worst} s");
}
