//! Messages with many frames.

use super::*;

/// A message of 64 KB with short frames.
fn many_frames() -> String {
    let pair = "SUBSCRIBE\nid:a\ndestination:/blocks\n\n\0UNSUBSCRIBE\nid:a\n\n\0";
    pair.repeat(65_536 / pair.len())
}

#[test]
fn a_message_of_many_frames_is_processed_in_steps_and_charged() {
    let mut bench = Bench::default();
    let frames = many_frames().matches('\0').count();
    let waits = bench.feed(1, many_frames().as_bytes()).unwrap();
    assert!(waits >= frames / 100, "{frames} frames in {waits} steps");
    assert!(bench.charged(1) >= frames as u64, "{frames} frames for {} units", bench.charged(1));
    assert_eq!(bench.charged(2), 0);
    assert_eq!(bench.broker.usage().topics, 0);
}

#[test]
fn the_rest_of_a_message_is_processed_before_later_input_of_the_session() {
    let mut bench = Bench::default();
    let message = many_frames() + "CONNECT\n\n\0";
    let taken = bench.broker.on_message(ConnectionId(1), message.as_bytes(), true, PRESENT, &mut bench.effects);
    assert_eq!((taken, bench.effects.drain().len()), (Progress::Yield, 0));
    assert_eq!(bench.receive(2, "CONNECT\n\n\0").len(), 1, "others need not wait");
    while bench.broker.on_resumed(ConnectionId(1), PRESENT, &mut bench.effects) == Progress::Yield {}
    assert_eq!(bench.effects.drain(), ["1 CONNECTED\nheart-beat:0,0\n\n\0"]);
}

#[test]
fn a_frame_costs_the_same_with_many_subscriptions() {
    let cost = |held: usize| {
        let mut bench = Bench::default();
        (0..held).for_each(|n| bench.subscribe(1, &format!("s{n}"), &format!("/blocks/{n}")));
        let before = bench.charged(1);
        bench.feed(1, many_frames().as_bytes());
        bench.charged(1) - before
    };
    assert_eq!(cost(0), cost(990));
}

#[test]
fn a_frame_with_too_many_headers_is_rejected() {
    let mut bench = Bench::default();
    let frame = |headers: usize| format!("SEND\n{}\n\0", "a:\n".repeat(headers));
    assert_eq!(bench.receive(1, &frame(1_000)), NOTHING);
    assert!(bench.receive(1, &frame(1_001))[0].contains("more than 1000 headers"));
}
