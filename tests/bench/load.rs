//! Well-behaved clients that send queries on a fixed schedule, whatever the node does. A response time starts when its
//! query is due, so that a stall shows in every query it delays.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::support::{quantile, with_secret};
use crate::common::http::Client;

/// Maximum wait after the end for answers to queries that were sent or due before.
const GRACE: Duration = Duration::from_secs(5);

/// Queries that one or several connections send in turn.
pub struct Load {
    /// Queries per second of all connections together.
    pub per_second: u64,
    pub connections: u64,
    /// The address of the first connection. Others have the next ones, except on 127.0.0.1.
    pub from: Ipv4Addr,
}

/// A query.
pub struct Sample {
    pub number: u64,
    pub due: Instant,
    /// Seconds of `took` that this client has overslept.
    pub overslept: f64,
    /// Seconds from when it was due until it was answered with status 200, or given up.
    pub took: f64,
    pub is_answered: bool,
}

/// The running clients.
pub struct RunningLoad {
    end: Arc<OnceLock<Instant>>,
    threads: Vec<JoinHandle<Vec<Sample>>>,
}

impl Load {
    /// Returns a load of this machine.
    pub fn local(per_second: u64, connections: u64) -> Load {
        Load { per_second, connections, from: Ipv4Addr::LOCALHOST }
    }

    /// Starts the clients; `request` returns the bytes of a query by its number. Those of this machine send the secret of
    /// the node, and so have no rate limit.
    pub fn start(self, address: SocketAddr, request: impl Fn(u64) -> String + Send + Sync + 'static) -> RunningLoad {
        let (end, begun, request) = (Arc::new(OnceLock::new()), Instant::now(), Arc::new(request));
        let client = |first: u64| {
            let (end, request, from) = (end.clone(), request.clone(), self.address(first));
            let is_local = from == Ipv4Addr::LOCALHOST;
            std::thread::spawn(move || {
                raise_priority();
                let (mut samples, mut client) = (Vec::new(), None);
                for number in (first..).step_by(self.connections as usize) {
                    let due = begun + Duration::from_secs(1) * number as u32 / self.per_second as u32;
                    let free = Instant::now();
                    std::thread::sleep(due.saturating_duration_since(free));
                    if end.get().is_some_and(|end| due > *end) {
                        break;
                    }
                    let overslept = due.max(free).elapsed().as_secs_f64();
                    let request = request(number);
                    let request = if is_local { with_secret(address, &request) } else { request };
                    let is_answered = ask(&mut client, from, address, &request, &end);
                    samples.push(Sample { number, due, overslept, took: due.elapsed().as_secs_f64(), is_answered });
                }
                samples
            })
        };
        let threads = (0..self.connections).map(client).collect();
        RunningLoad { end, threads }
    }

    fn address(&self, connection: u64) -> Ipv4Addr {
        let [a, b, c, d] = self.from.octets();
        if self.from == Ipv4Addr::LOCALHOST { self.from } else { [a, b, c, d + connection as u8].into() }
    }
}

/// Sends a query, on a new connection where the last one is lost, until it is answered or given up.
fn ask(
    client: &mut Option<Client>,
    from: Ipv4Addr,
    address: SocketAddr,
    request: &str,
    end: &OnceLock<Instant>,
) -> bool {
    while end.get().is_none_or(|end| end.elapsed() <= GRACE) {
        if client.is_none() {
            *client = Client::connect_from(from, address).ok();
        }
        let answer =
            client.as_mut().and_then(|client| client.try_send(request).and_then(|()| client.try_answer()).ok());
        if answer.is_some_and(|answer| answer.status == 200) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
        *client = None;
    }
    false
}

/// What is measured shares the machine with these clients, which it would not in reality: this thread gets a higher
/// priority where the system allows it.
fn raise_priority() {
    let Ok(thread) = std::fs::read_link("/proc/thread-self") else { return };
    let Some(number) = thread.file_name() else { return };
    let mut command = Command::new("renice");
    let _ = command.args(["-n", "-15", "-p"]).arg(number).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

impl RunningLoad {
    /// Stops the clients; returns the samples of queries that were due between `from` and `to`.
    pub fn stop(self, from: Instant, to: Instant) -> Vec<Sample> {
        let _ = self.end.set(to);
        let samples = self.threads.into_iter().flat_map(|thread| thread.join().expect("a client"));
        samples.filter(|sample| (from..to).contains(&sample.due)).collect()
    }

    /// Stops the clients; returns all samples.
    pub fn stop_now(self) -> Vec<Sample> {
        let end = Instant::now();
        let all = end.checked_sub(Duration::from_secs(3_600)).unwrap_or(end);
        self.stop(all, end)
    }
}

/// Response times in milliseconds.
#[derive(Clone, Copy)]
pub struct ResponseTimes {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
    /// 99th percentile of the clients' own delay, which the other values contain.
    pub own_delay: f64,
    pub count: usize,
    /// Queries without an answer.
    pub lost: usize,
}

impl ResponseTimes {
    pub fn of<'s>(samples: impl IntoIterator<Item = &'s Sample>) -> ResponseTimes {
        let samples: Vec<&Sample> = samples.into_iter().collect();
        let mut took: Vec<f64> = samples.iter().map(|sample| sample.took * 1e3).collect();
        let mut late: Vec<f64> = samples.iter().map(|sample| sample.overslept * 1e3).collect();
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| quantile(&mut took, share));
        let lost = samples.iter().filter(|sample| !sample.is_answered).count();
        ResponseTimes { p50, p99, max, own_delay: quantile(&mut late, 0.99), count: samples.len(), lost }
    }
}

impl std::fmt::Display for ResponseTimes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ResponseTimes { p50, p99, max, own_delay, count, lost } = self;
        write!(f, "{count} queries: p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.2} ms, {lost} lost")?;
        write!(f, " (p99 of the client's own delay: {own_delay:.2} ms)")
    }
}
