//! Response times of queries while the node imports a chain at full speed.
//!
//! `cargo bench --bench latency` starts `nisd run --import` on an empty folder, several times, and sends 200 mixed
//! queries per second on keep-alive connections. The queries follow a fixed schedule, whatever the node does, and a
//! response time starts when its query is due, so that a stall shows in every query it delays. Only queries due during
//! the import count.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Client, KINDS, Node, QueryMix, TIP};

const BINARY: &str = env!("CARGO_BIN_EXE_nisd");
const IMPORTS: usize = 10;
const PER_SECOND: u64 = 200;
const CONNECTIONS: u64 = 10;

/// One query: when it was due, how long after that it was answered, and which part of that this client has overslept. A
/// missing answer is a failure.
struct Sample {
    number: u64,
    due: Instant,
    overslept: f64,
    answered: Option<f64>,
}

fn main() {
    println!("{}", common::machine());
    let mix = QueryMix::all_forks();
    let mut samples = Vec::new();
    for import in 1..=IMPORTS {
        let folder = common::folder();
        let node = Node::all_forks(BINARY, folder.path(), true);
        let (mut found, took) = one_import(&node, &mix);
        println!("import {import}: {took:.2} s, {} queries, {}", found.len(), in_millis(&found, |_| true));
        samples.append(&mut found);
    }
    println!();
    for (kind, name) in KINDS.iter().enumerate() {
        println!("{name:30} {}", in_millis(&samples, |sample| sample.number as usize % 8 == kind));
    }
    let mut late: Vec<f64> = samples.iter().map(|sample| sample.overslept).collect();
    println!("the client's own delay, contained in these times: {}", common::in_millis(&mut late));
    let failures = samples.iter().filter(|sample| sample.answered.is_none()).count();
    println!("{} queries, {failures} failures, {}", samples.len(), in_millis(&samples, |_| true));
}

fn in_millis(samples: &[Sample], counts: impl Fn(&Sample) -> bool) -> String {
    let mut times: Vec<f64> = samples.iter().filter(|s| counts(s)).filter_map(|s| s.answered).collect();
    common::in_millis(&mut times)
}

/// Returns the samples of one import, and its duration in seconds from the first answer on.
fn one_import(node: &Node, mix: &QueryMix) -> (Vec<Sample>, f64) {
    let (height, done) = (AtomicU64::new(1), AtomicBool::new(false));
    let mut watcher = node.first_answer();
    let begun = Instant::now();
    let (mut samples, ended) = std::thread::scope(|scope| {
        let (height, done) = (&height, &done);
        let clients = (0..CONNECTIONS).map(|first| {
            let client = Client::connect(node.http).expect("a connection");
            scope.spawn(move || query_on_schedule(client, mix, first, begun, height, done))
        });
        let clients: Vec<_> = clients.collect();
        while height.load(Ordering::Relaxed) < TIP {
            std::thread::sleep(Duration::from_millis(20));
            height.fetch_max(watcher.height(), Ordering::Relaxed);
            assert!(begun.elapsed() < common::MAX_WAIT, "the log says: {}", node.log());
        }
        let ended = Instant::now();
        done.store(true, Ordering::Relaxed);
        let samples: Vec<Sample> = clients.into_iter().flat_map(|client| client.join().expect("a client")).collect();
        (samples, ended)
    });
    samples.retain(|sample| sample.due < ended);
    (samples, (ended - begun).as_secs_f64())
}

/// Sends every tenth query of the schedule when it is due, or as soon as the previous answer has arrived.
fn query_on_schedule(
    mut client: Client,
    mix: &QueryMix,
    first: u64,
    begun: Instant,
    height: &AtomicU64,
    done: &AtomicBool,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    for number in (first..).step_by(CONNECTIONS as usize) {
        let due = begun + Duration::from_micros(1_000_000 / PER_SECOND * (number + 1));
        let free = Instant::now();
        std::thread::sleep(due.saturating_duration_since(free));
        if done.load(Ordering::Relaxed) {
            break;
        }
        let request = mix.request(number, height.load(Ordering::Relaxed));
        let overslept = due.max(free).elapsed().as_secs_f64();
        let good = client.send_request(&request).is_ok_and(|(status, _)| status == 200);
        let answered = good.then(|| due.elapsed().as_secs_f64());
        samples.push(Sample { number, due, overslept, answered });
    }
    samples
}
