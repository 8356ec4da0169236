//! Tests of large bodies.

use std::time::Duration;

use super::{MAX_PARSED_BODIES, TURN_TIME};
use crate::api::Api;
use crate::api::routes::{Method, ROUTES};
use crate::api::streams::tests::{OVERRUN, STEP, in_steps};
use crate::api::tests::*;
use crate::net::http::Response;
use crate::net::service::{ConnectionId, Progress};

#[test]
#[ignore = "slow: computes for long"]
fn every_route_parses_a_large_body_in_steps() {
    let scene = Scene::new();
    let lists = format!("{{\"data\":[{}]}}", "[],".repeat(16_000));
    let members: String = (0..1_000).map(|number| format!("{number}:0,")).collect();
    let members = format!("{{objects:[{}]}}", format!("{{{members}}},").repeat(8));
    let text = format!("{{value:'{}'}}", "x".repeat(60_000));
    for route in ROUTES.iter().filter(|route| route.method == Method::Post) {
        let line = format!("POST {}", route.path);
        for body in [&lists, &members, &text] {
            let sent = TestRequest::new(&line).json(body);
            let (whole, stepped) = (sent.send(&scene), in_steps(&sent, &scene, |_| {}));
            // A text is one step.
            assert!(stepped.steps > if body == &text { 0 } else { 5 }, "{line}: {} steps", stepped.steps);
            let most = STEP + OVERRUN + if body == &text { 1_600 } else { 0 };
            assert!(stepped.max_step_cost <= most, "{line} took {} units", stepped.max_step_cost);
            assert_eq!((stepped.reply.status, stepped.body), (whole.status, whole.body), "{line}");
        }
    }
}

#[test]
fn large_bodies_of_many_clients_are_parsed_a_few_at_a_time_and_all_are_answered() {
    for line in ["POST /push/transactions", "POST /events"] {
        parse_bodies_of_many_clients(line);
    }
}

fn parse_bodies_of_many_clients(line: &str) {
    const ALL: usize = 60;
    let (scene, mut api, mut node) = (Scene::new(), Api::new(settings()), TestNode::default());
    let body = format!("{{\"data\":[{}[]]}}", "[],".repeat(16_000));
    let mut replies: Vec<Response> = (0..ALL).map(|_| Response::new()).collect();
    let mut is_begun = [false; ALL];
    let mut step = |api: &mut Api, number: usize| {
        let sent = TestRequest {
            connection: ConnectionId(number as u64),
            ..TestRequest::new(line).json(&body).from([10, 0, number as u8, 1])
        };
        let is_resumed = std::mem::replace(&mut is_begun[number], true);
        sent.step(api, &scene, &mut node, &mut replies[number], is_resumed, STEP).unwrap().0
    };
    let resumable = |api: &mut Api| {
        let connections = api.take_resumable(NOW.monotonic);
        connections.into_iter().map(|connection| connection.0 as usize).collect::<Vec<_>>()
    };
    let progress: Vec<Progress> = (0..ALL).map(|number| step(&mut api, number)).collect();
    let (first, others) = progress.split_at(MAX_PARSED_BODIES);
    assert!(first.iter().all(|progress| *progress == Progress::Yield), "{first:?}");
    assert!(others.iter().all(|progress| *progress == Progress::Suspended), "{others:?}");
    // One that disconnects while it waits, and one while it is parsed.
    api.on_disconnect(ConnectionId(7), NOW.monotonic);
    api.on_disconnect(ConnectionId(2), NOW.monotonic);
    let mut going: Vec<usize> = [0, 1, 3].into_iter().chain(resumable(&mut api)).collect();
    while !going.is_empty() {
        assert!(going.len() <= MAX_PARSED_BODIES && api.pending_streams.len() <= MAX_PARSED_BODIES);
        going.retain(|number| step(&mut api, *number) == Progress::Yield);
        going.extend(resumable(&mut api));
    }
    for (number, reply) in replies.iter().enumerate().filter(|(number, _)| ![2, 7].contains(number)) {
        assert_eq!(reply.status, 400, "{number}");
    }
    assert!(api.pending_streams.is_clear());
}

#[test]
fn a_client_of_another_network_parses_its_body_before_the_many_of_one() {
    let (scene, mut api, mut node) = (Scene::new(), Api::new(settings()), TestNode::default());
    let body = format!("{{\"data\":[{}[]]}}", "[],".repeat(16_000));
    let mut reply = Response::new();
    let mut step = |api: &mut Api, number: u64, from: [u8; 4], is_resumed| {
        let sent = TestRequest {
            connection: ConnectionId(number),
            ..TestRequest::new("POST /push/transactions").json(&body).from(from)
        };
        sent.step(api, &scene, &mut node, &mut reply, is_resumed, STEP).unwrap().0
    };
    for number in 0..100 {
        step(&mut api, number, [10, 0, 0, 1], false);
    }
    assert_eq!(step(&mut api, 1_000, [10, 0, 1, 1], false), Progress::Suspended);
    while step(&mut api, 0, [10, 0, 0, 1], true) != Progress::Done {}
    assert_eq!(api.take_resumable(NOW.monotonic), [ConnectionId(1_000)]);
    // Its turn is kept, also if others ask meanwhile, but not for another request on its connection.
    assert_eq!(step(&mut api, 101, [10, 0, 2, 1], false), Progress::Suspended);
    assert_eq!(step(&mut api, 1_000, [10, 0, 1, 1], true), Progress::Yield);
    api.on_disconnect(ConnectionId(1_000), NOW.monotonic);
    assert_eq!(api.take_resumable(NOW.monotonic), [ConnectionId(101)]);
    assert_eq!(step(&mut api, 101, [10, 0, 2, 1], false), Progress::Suspended);
    assert_eq!(api.take_resumable(NOW.monotonic), [ConnectionId(101)]);
}

#[test]
fn bodies_whose_clients_are_not_served_delay_others_by_a_turn_only() {
    let (scene, mut api, mut node) = (Scene::new(), Api::new(settings()), TestNode::default());
    let body = format!("{{\"data\":[{}[]]}}", "[],".repeat(16_000));
    let mut reply = Response::new();
    for number in 0..=MAX_PARSED_BODIES as u64 {
        let sent = TestRequest {
            connection: ConnectionId(number),
            ..TestRequest::new("POST /push/transactions").json(&body).from([10, 0, number as u8, 1])
        };
        sent.step(&mut api, &scene, &mut node, &mut reply, false, STEP).unwrap();
    }
    // The first ones were parsed a little, and then their clients have no turn.
    let last = ConnectionId(MAX_PARSED_BODIES as u64);
    assert_eq!(api.next_due(), Some(NOW.monotonic + TURN_TIME));
    assert_eq!(api.take_resumable(NOW.monotonic + TURN_TIME - Duration::from_nanos(1)), []);
    assert_eq!(api.take_resumable(NOW.monotonic + TURN_TIME), [last]);
    assert_eq!(api.next_due(), None);
}
