//! A node under attack, with well-behaved clients beside it and a monitor of its memory.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::payer::{HARVESTER, Payer};
use crate::common::daemon::{Node, args, program};
use crate::common::http::{Client, get};
use crate::common::private_network::{Genesis, now, private_key};
use crate::load::{Load, ResponseTimes, RunningLoad};
use crate::support::{Memory, cpu_seconds, folder};

/// Interval between two memory samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// Time during which the well-behaved clients are alone with the node.
const BASELINE_TIME: Duration = Duration::from_millis(500);
const MIB: f64 = 1024.0;
/// Queries of the well-behaved clients.
const QUERIES: [&str; 4] = ["/chain/height", "/heartbeat", "/chain/height", "/node/info"];

/// Settings of a stage, in addition to those of a network that makes a block every second.
#[derive(Default)]
pub struct Setup<'a> {
    pub settings: &'a [(&'a str, &'a str)],
    /// A limit that a shell sets before it starts the node.
    pub limit: Option<&'a str>,
}

/// Everything in an attack except the attackers.
pub struct AttackStage {
    pub node: Node,
    pub payer: Payer,
    /// A client from 127.0.0.1 for the queries of the attack itself.
    pub client: Client,
    /// Clients of this machine, which the node exempts from many limits, and remote ones.
    well_behaved: [RunningLoad; 2],
    memory_monitor: MemoryMonitor,
    before: Memory,
    started_at: Instant,
    _folder: TempDir,
}

/// A condition that must hold.
pub enum Bar {
    /// Maximum 99th percentile of the response times of the others in milliseconds, local and remote.
    Others(f64),
    /// Maximum response time of the others in milliseconds.
    Longest(f64),
    /// Maximum increase of the node's private memory in MiB.
    Memory(f64),
    /// Something else.
    Is(&'static str, bool),
}

/// Result of an attack.
pub struct Outcome {
    pub before: Memory,
    pub peak: Memory,
    pub waits: ResponseTimes,
    /// Response times of remote clients.
    pub remote_waits: ResponseTimes,
    /// Measurements specific to this attack.
    pub notes: Vec<String>,
    /// The conditions, and whether each holds.
    pub checks: Vec<(String, bool)>,
}

impl AttackStage {
    /// Creates a stage with production settings.
    pub fn new(binary: &str) -> AttackStage {
        AttackStage::with(binary, &Setup::default())
    }

    /// Creates a stage with other settings.
    pub fn with(binary: &str, setup: &Setup<'_>) -> AttackStage {
        let (folder, payer) = (folder(), Payer::new());
        let key = private_key(HARVESTER).printed();
        let config = Genesis::new(now(), &payer.funded()).write_hasty(folder.path(), &key, setup.settings);
        let command = Node::command(args!["--config", config]);
        let node = Node::from_command(match setup.limit {
            Some(limit) => {
                let shell = args!["-c", format!("{limit} && exec \"$0\" \"$@\""), binary];
                program("sh", shell.iter().map(AsRef::as_ref).chain(command.get_args()))
            }
            None => program(binary, command.get_args()),
        });
        let client = Client::connect(node.http);
        let query = |number: u64| get(QUERIES[number as usize / 4 % QUERIES.len()]);
        let remote = Load { per_second: 80, connections: 4, from: Ipv4Addr::new(127, 9, 0, 1) };
        let others = [Load::local(200, 4), remote].map(|load| load.start(node.http, query));
        let watch = MemoryMonitor::start(node.process.id());
        std::thread::sleep(BASELINE_TIME);
        let (before, begun) = (Memory::of(node.process.id()), Instant::now());
        AttackStage {
            node,
            payer,
            client,
            well_behaved: others,
            memory_monitor: watch,
            before,
            started_at: begun,
            _folder: folder,
        }
    }

    /// Starts the measurement of memory and response times; what precedes is not part of the attack.
    pub fn begin(&mut self) {
        (self.before, self.started_at) = (self.memory(), Instant::now());
    }

    fn memory(&self) -> Memory {
        Memory::of(self.node.process.id())
    }

    /// Returns the processor time of the node so far in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        cpu_seconds(self.node.process.id())
    }

    /// Returns when the measurement started.
    pub fn started_at(&self) -> Instant {
        self.started_at
    }

    /// Ends the attack and evaluates it.
    pub fn end(self, notes: Vec<String>, bars: &[Bar]) -> Outcome {
        let ended = Instant::now();
        let [waits, strangers] = self.well_behaved.map(|load| ResponseTimes::of(&load.stop(self.started_at, ended)));
        let peak = self.memory_monitor.peak_since(self.started_at, self.before);
        let more = (peak.anon - self.before.anon) / MIB;
        let judge = |bar: &Bar| match bar {
            Bar::Others(limit) => {
                (format!("others and strangers p99 <= {limit} ms"), waits.p99.max(strangers.p99) <= *limit)
            }
            Bar::Longest(limit) => (format!("others max <= {limit} ms"), waits.max <= *limit),
            Bar::Memory(limit) => (format!("memory {more:+.0} <= +{limit} MiB"), more <= *limit),
            Bar::Is(name, holds) => ((*name).to_owned(), *holds),
        };
        let mut judged: Vec<_> = bars.iter().map(judge).collect();
        judged.extend(Memory::of(self.node.process.id()).all.is_nan().then(|| ("the node lives".to_owned(), false)));
        Outcome { before: self.before, peak, waits, remote_waits: strangers, notes, checks: judged }
    }
}

/// Monitors the memory of a process.
struct MemoryMonitor {
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(Instant, Memory)>>,
}

impl MemoryMonitor {
    fn start(process: u32) -> MemoryMonitor {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                seen.push((Instant::now(), Memory::of(process)));
                std::thread::sleep(SAMPLE_INTERVAL);
            }
            seen
        });
        MemoryMonitor { is_stopped: is_over, thread }
    }

    /// Returns the peak since a time, at least the value at that time.
    fn peak_since(self, from: Instant, before: Memory) -> Memory {
        self.is_stopped.store(true, Ordering::Relaxed);
        let seen = self.thread.join().expect("the watch");
        seen.iter().filter(|(at, _)| *at >= from).fold(before, |most, (_, now)| Memory {
            all: most.all.max(now.all),
            anon: most.anon.max(now.anon),
            file: most.file.max(now.file),
            peak: most.peak.max(now.peak),
        })
    }
}
