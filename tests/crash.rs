//! `kill -9` while a chain is taken in: nothing that was told is lost, nothing half done is kept. (The system
//! outlives the process here, so that this says nothing about a power cut.)
//!
//! `NISD_CRASHES` sets their number (5 without it), `NISD_SEED` repeats a run.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::daemon::{Node, Process, nisd, run};
use common::http_client::Client;
use common::{Random, from_environment, loudly, shared};
use tempfile::TempDir;

/// Crashes if nothing else is asked for.
const CRASHES: u32 = 5;
/// How often a running node is asked for its height.
const ASK_EVERY: Duration = Duration::from_millis(3);

/// A chain to take in.
struct Chain {
    config: PathBuf,
    blocks: PathBuf,
}

/// A store that is crashed again and again.
struct Victim {
    _folder: TempDir,
    data: PathBuf,
    /// The greatest height that was reported as committed.
    reported: u64,
}

impl Victim {
    fn new() -> Victim {
        let folder = tempfile::tempdir().expect("a folder");
        Victim { data: folder.path().join("store"), _folder: folder, reported: 0 }
    }
}

fn up_to(random: &mut Random, most: Duration) -> Duration {
    Duration::from_micros(random.next() % most.as_micros().max(1) as u64)
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// The arguments of an import into `data`.
fn import<'a>(chain: &'a Chain, data: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let start = ["import", "--config", path(&chain.config), "--data", path(data)];
    start.iter().chain(more).copied().chain([path(&chain.blocks)]).collect()
}

/// Height and digest of a store; 0 if there is no chain in it yet.
fn digest(data: &Path) -> (u64, String) {
    let ended = run(["digest", "--data", path(data)]);
    if ended.code == Some(1) && ended.stderr.contains("no chain in the data folder") {
        return (0, String::new());
    }
    let line = ended.expect_success().text();
    let (height, digest) = line.trim_end().split_once(' ').expect("a height and a digest");
    (height.parse().expect("a height"), digest.to_owned())
}

/// Kills `nisd import` after `delay`.
fn crash_import(chain: &Chain, victim: &mut Victim, delay: Duration) {
    let mut process = Process::start(nisd(import(chain, &victim.data, &["--log", "debug"])));
    std::thread::sleep(delay);
    process.kill();
    for line in process.ended_within(Duration::from_secs(10)).stderr.lines() {
        let told = line.split_once("committed up to height ").and_then(|(_, height)| height.parse().ok());
        victim.reported = victim.reported.max(told.unwrap_or(0));
    }
}

/// Kills `nisd run --import` after `delay`, which it answers for.
fn crash_run(chain: &Chain, victim: &mut Victim, delay: Duration) {
    let (config, data, blocks) = (path(&chain.config), path(&victim.data), path(&chain.blocks));
    let mut node = Node::start(&["--config", config, "--data", data, "--import", blocks]);
    let mut client = Client::connect(node.http);
    let start = Instant::now();
    while start.elapsed() < delay {
        victim.reported = victim.reported.max(client.height());
        std::thread::sleep(ASK_EVERY.min(delay.saturating_sub(start.elapsed())));
    }
    node.process.kill();
}

/// How long a whole import takes here, and its height and digest.
fn measure(chain: &Chain) -> (Duration, u64, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("store");
    let start = Instant::now();
    run(import(chain, &data, &[])).expect_success();
    let taken = start.elapsed();
    let (height, digest) = digest(&data);
    (taken, height, digest)
}

/// Compares what crashes have left behind with a store that never crashed.
fn compare(chain: &Chain, found: &BTreeMap<u64, String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("store");
    for (height, after_crash) in found {
        run(import(chain, &data, &["--stop-at", &height.to_string()])).expect_success();
        assert_eq!(digest(&data), (*height, after_crash.clone()), "the state at height {height} after a crash");
    }
}

#[test]
fn a_kill_at_any_moment_of_an_import_loses_nothing_that_was_committed() {
    let Some(folder) = shared("data/chains/all-forks") else { return };
    let chain = Chain { config: folder.join("config.json"), blocks: folder.join("blocks.bin.gz") };
    let crashes = from_environment("NISD_CRASHES").unwrap_or(CRASHES);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let seed = from_environment("NISD_SEED").unwrap_or(now);
    let mut random = Random(seed);
    let (taken, tip, whole) = measure(&chain);
    loudly(&format!("{crashes} crashes, NISD_SEED={seed}; an import takes {taken:?}"));

    let mut victim = Victim::new();
    let mut found = BTreeMap::new();
    for crash in 0..crashes {
        let delay = up_to(&mut random, taken);
        let runs = random.coin();
        match runs {
            true => crash_run(&chain, &mut victim, delay),
            false => crash_import(&chain, &mut victim, delay),
        }
        let (height, digest) = digest(&victim.data);
        let how = if runs { "run --import" } else { "import" };
        loudly(&format!("crash {crash} of {how} after {delay:?}: height {height}, told {}", victim.reported));
        assert!(victim.reported <= height, "{} was told, but {height} is left", victim.reported);
        if height == tip {
            assert_eq!(digest, whole);
            victim = Victim::new();
        } else if height > 0 {
            let before = found.insert(height, digest.clone());
            assert!(before.is_none_or(|before| before == digest), "two states at height {height}");
            // The import completes at once, or the next crash hits the same store; chance has it.
            if random.coin() {
                run(import(&chain, &victim.data, &[])).expect_success();
                assert_eq!(self::digest(&victim.data), (tip, whole.clone()), "the import after crash {crash}");
                victim = Victim::new();
            }
        }
    }
    run(import(&chain, &victim.data, &[])).expect_success();
    assert_eq!(digest(&victim.data), (tip, whole));
    loudly(&format!("heights after crashes: {:?}", found.keys().collect::<Vec<_>>()));
    compare(&chain, &found);
}
