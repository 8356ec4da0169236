//! Well-behaved clients that send cheap queries on a fixed schedule, whatever the node does: one of this machine, 200
//! per second, which the node exempts from many limits, and four remote ones, 20 per second each.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::{Client, quantile};

const PER_SECOND: u32 = 200;
const REMOTE_PER_SECOND: u32 = 80;
/// Maximum wait after the end for answers to queries that were sent or due before.
const GRACE: Duration = Duration::from_secs(5);
/// Connections that share the queries of each kind of client.
const CONNECTIONS: u32 = 4;
const QUERIES: [&str; 4] = ["/chain/height", "/heartbeat", "/chain/height", "/node/info"];

/// A query.
struct Sample {
    due: Instant,
    /// The part of `took` that this client has overslept.
    overslept: f64,
    /// Time from when it was due until it was answered or given up.
    response_time: f64,
    is_answered: bool,
}

/// The running clients.
pub struct WellBehavedClients {
    end: Arc<OnceLock<Instant>>,
    local: Vec<JoinHandle<Vec<Sample>>>,
    remote: Vec<JoinHandle<Vec<Sample>>>,
}

/// Response times of clients in milliseconds.
#[derive(Clone, Copy)]
pub struct ResponseTimes {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
    /// 99th percentile of the clients' own delay, which the other values contain.
    pub own_delay: f64,
    /// Queries without an answer.
    pub lost: usize,
}

impl WellBehavedClients {
    /// Starts the clients.
    pub fn start(address: SocketAddr) -> WellBehavedClients {
        let (end, begun) = (Arc::new(OnceLock::new()), Instant::now());
        let ask = |from: Ipv4Addr, first: u32, per_second: u32| {
            let (end, schedule) = (end.clone(), Schedule { begun, first, per_second });
            std::thread::spawn(move || {
                raise_priority();
                query_on_schedule(from, address, schedule, &end)
            })
        };
        let local = (0..CONNECTIONS).map(|first| ask(Ipv4Addr::LOCALHOST, first, PER_SECOND)).collect();
        let stranger = |number| Ipv4Addr::new(127, 9, 0, 1 + number as u8);
        let strangers = (0..CONNECTIONS).map(|first| ask(stranger(first), first, REMOTE_PER_SECOND)).collect();
        WellBehavedClients { local, remote: strangers, end }
    }

    /// Stops the clients; returns the response times of local and of remote clients for queries that were due between
    /// `from` and `to`.
    pub fn stop(self, from: Instant, to: Instant) -> [ResponseTimes; 2] {
        let _ = self.end.set(to);
        [self.local, self.remote].map(|threads| ResponseTimes::of(threads, from, to))
    }
}

impl ResponseTimes {
    fn of(threads: Vec<JoinHandle<Vec<Sample>>>, from: Instant, to: Instant) -> ResponseTimes {
        let samples = threads.into_iter().flat_map(|thread| thread.join().expect("a client"));
        let samples: Vec<Sample> = samples.filter(|sample| (from..to).contains(&sample.due)).collect();
        let mut took: Vec<f64> = samples.iter().map(|sample| sample.response_time).collect();
        let mut late: Vec<f64> = samples.iter().map(|sample| sample.overslept).collect();
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| quantile(&mut took, share) * 1e3);
        let lost = samples.iter().filter(|sample| !sample.is_answered).count();
        ResponseTimes { p50, p99, max, own_delay: quantile(&mut late, 0.99) * 1e3, lost }
    }
}

/// The attackers of a benchmark share the machine with this client, which they would not in reality: this thread gets a
/// higher priority where the system allows it.
fn raise_priority() {
    let Ok(thread) = std::fs::read_link("/proc/thread-self") else { return };
    let Some(number) = thread.file_name() else { return };
    let mut command = Command::new("renice");
    let _ = command.args(["-n", "-15", "-p"]).arg(number).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Times at which queries are due; each connection sends every fourth.
#[derive(Clone, Copy)]
struct Schedule {
    begun: Instant,
    first: u32,
    per_second: u32,
}

/// Sends each query when it is due, or as soon as the previous answer has arrived.
fn query_on_schedule(from: Ipv4Addr, address: SocketAddr, schedule: Schedule, end: &OnceLock<Instant>) -> Vec<Sample> {
    let Schedule { begun, first, per_second } = schedule;
    let (mut samples, mut client) = (Vec::new(), Client::connect_from(from, address).ok());
    let is_given_up = || end.get().is_some_and(|end| end.elapsed() > GRACE);
    for number in (first..).step_by(CONNECTIONS as usize) {
        let due = begun + Duration::from_secs(1) * number / per_second;
        let free = Instant::now();
        std::thread::sleep(due.saturating_duration_since(free));
        if end.get().is_some_and(|end| due > *end) {
            break;
        }
        let late = due.max(free).elapsed().as_secs_f64();
        let question = QUERIES[number as usize / CONNECTIONS as usize % QUERIES.len()];
        let mut is_answered = false;
        while !is_answered && !is_given_up() {
            is_answered = client.as_mut().is_some_and(|client| client.get(question).is_ok_and(|(code, _)| code == 200));
            if !is_answered {
                std::thread::sleep(Duration::from_millis(5));
                client = Client::connect_from(from, address).ok();
            }
        }
        samples.push(Sample { due, overslept: late, response_time: due.elapsed().as_secs_f64(), is_answered });
    }
    samples
}
