//! A client that queries a node continuously, and a monitor of the node's memory.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::daemon::process_memory;
use crate::common::http::Client;

/// Interval between two queries.
const QUERY_INTERVAL: Duration = Duration::from_millis(10);
const QUERIES: [&str; 4] = ["/chain/height", "/node/info", "/chain/last-block", "/status"];

/// Observations of a client.
pub struct Observations {
    pub queries: usize,
    /// Response times in seconds: 99th percentile and maximum.
    pub p99: f64,
    pub slowest: f64,
    /// Peak private memory of the process beyond its initial value, in MiB.
    pub memory: f64,
}

impl fmt::Display for Observations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Observations { queries, p99, slowest, memory } = self;
        let [p99, slowest] = [p99, slowest].map(|seconds| seconds * 1e3);
        write!(f, "{memory:+6.1} MiB; {queries:5} queries, p99 {p99:5.1} ms, max {slowest:6.1} ms")
    }
}

/// A running client.
pub struct QueryMonitor {
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<Observations>,
}

impl QueryMonitor {
    /// Starts querying.
    pub fn start(http: SocketAddr, process: u32) -> QueryMonitor {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        QueryMonitor { is_stopped: is_over, thread: thread::spawn(move || watch(http, process, &ends)) }
    }

    /// Stops and returns the observations.
    pub fn stop(self) -> Observations {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.thread.join().expect("every query is answered")
    }
}

fn watch(http: SocketAddr, process: u32, is_over: &AtomicBool) -> Observations {
    let mut client = Client::connect(http);
    assert_eq!(client.get(QUERIES[0]).status, 200);
    let (before, mut most, mut times) = (own_memory(process), 0_f64, Vec::new());
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let asked = Instant::now();
        assert_eq!(client.get(QUERIES[number % QUERIES.len()]).status, 200);
        times.push(asked.elapsed().as_secs_f64());
        most = most.max(own_memory(process) - before);
        thread::sleep(QUERY_INTERVAL.saturating_sub(asked.elapsed()));
    }
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times.get(times.len() * share / 100).or(times.last()).copied().unwrap_or(f64::INFINITY);
    Observations { queries: times.len(), p99: at(99), slowest: at(100), memory: most }
}

/// Returns the private memory of a process in MiB.
fn own_memory(process: u32) -> f64 {
    process_memory(process, "RssAnon").expect("a running process") as f64 / 1024.0
}
