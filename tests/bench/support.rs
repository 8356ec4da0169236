//! What several measurements need: the recorded chain, nodes, queries about it, and statistics.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nisd::chain::{BlockImporter, ImportOptions, ImportProgress};
use nisd::codec::block_file::BlockFile;
use nisd::config::Settings;
use nisd::model::{Height, Timestamp};
use nisd::store::Store;

use crate::common::daemon::{Node, args};
use crate::common::http::{Client, authorization, get, post};
use crate::common::{Random, recorded};

/// Height of the last block of `all-forks`.
pub const TIP: u64 = 4010;
/// A network time later than every block.
const FAR_FUTURE: Timestamp = Timestamp(i32::MAX - 100);

/// Returns the path of a file of the chain `all-forks`.
pub fn all_forks(file: &str) -> PathBuf {
    recorded("chains/all-forks").join(file)
}

/// Returns the bytes of a request with the secret of a node, if it has one: then no limit applies to it.
pub fn with_secret(node: SocketAddr, request: &str) -> String {
    request.replacen("Host: localhost\r\n", &format!("Host: localhost\r\n{}", authorization(node)), 1)
}

/// Creates a temporary folder, removed with the value.
pub fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("nisd-bench-").tempdir().expect("a temporary folder")
}

/// Starts a node on a store of `all-forks` in a folder, with a clock shortly after its last block; `import` makes it
/// fill the store first.
pub fn node_on_all_forks(folder: &Path, import: bool) -> Node {
    let own = args!["--clock", "241500", "--config", all_forks("network.properties"), "--data", folder.join("store")];
    let more = args!["--import", all_forks("blocks.bin.gz")];
    Node::start(own.iter().chain(more.iter().filter(|_| import)))
}

/// Imports blocks into a store as the program does; returns the seconds of every step except those that commit.
pub fn import_timed(
    store: &Store,
    settings: &Settings,
    files: Vec<BlockFile<'static>>,
    stop_at: Option<Height>,
) -> Vec<f64> {
    let nemesis = settings.nemesis.read().expect("the nemesis block");
    let options = ImportOptions { batch_rows: 4_000, batch_blocks: 1_000, stop_at, ..ImportOptions::DEFAULT };
    let mut importer = BlockImporter::new(store, &settings.network, nemesis, files, options).expect("an importer");
    let mut steps = Vec::new();
    loop {
        let begun = Instant::now();
        match importer.step(FAR_FUTURE).expect("a good chain") {
            ImportProgress::Working => steps.push(begun.elapsed().as_secs_f64()),
            ImportProgress::Syncing | ImportProgress::Committed { .. } => {}
            ImportProgress::Done => return steps,
        }
    }
}

/// Kinds of queries in the mix.
pub const KINDS: [&str; 8] = [
    "/chain/height",
    "/chain/last-block",
    "/block/at/public",
    "/transaction/get",
    "/account/get",
    "/account/get/from-public-key",
    "/heartbeat",
    "/status",
];

/// Number of blocks below the tip whose transactions are requested.
const RECENT: u64 = 1_000;

/// Mixed queries about the content of `all-forks` up to some height.
pub struct QueryMix(Vec<serde_json::Value>);

impl QueryMix {
    pub fn new() -> QueryMix {
        let lines = flate2::read::MultiGzDecoder::new(File::open(all_forks("blocks.jsonl.gz")).expect("blocks"));
        let lines = BufReader::new(lines).lines();
        QueryMix(lines.map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON")).collect())
    }

    /// Returns query `number`, of the kind `KINDS[number % 8]`, that a node at `height` can answer.
    pub fn request(&self, number: u64, height: u64) -> String {
        let random = Random(number).next();
        let block = &self.0[(random % height.clamp(1, TIP)) as usize];
        let text = |name: &str| block[name].as_str().expect("a text");
        match number % 8 {
            2 => post("/block/at/public", &format!("{{\"height\":{}}}", block["height"])),
            3 => {
                // A node without the feature TRANSACTION_HASH_LOOKUP knows only the hashes of the last 36 hours.
                let recent = height.saturating_sub(random % RECENT).clamp(1, TIP) as usize;
                let mut lists = self.0[..recent].iter().rev().filter_map(|block| block["transactions"].as_array());
                let list = lists.find(|list| !list.is_empty()).expect("transactions");
                let hash = list[(random >> 32) as usize % list.len()].as_str().expect("a hash");
                get(&format!("/transaction/get?hash={hash}"))
            }
            4 => get(&format!("/account/get?address={}", text("signerAddress"))),
            5 => get(&format!("/account/get/from-public-key?publicKey={}", text("signer"))),
            kind => get(KINDS[kind as usize]),
        }
    }
}

/// Waits until the chain has grown by this many blocks.
pub fn wait_for_blocks(client: &mut Client, count: u64) {
    let height = client.height();
    client.wait_for_height(height + count);
}

/// Returns the processor time that a process used so far in seconds.
pub fn cpu_seconds(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("/proc/PID/stat");
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // User and system time, in hundredths of a second on every Linux.
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Resident memory in KiB; NaN values once the process has ended.
#[derive(Clone, Copy)]
pub struct Memory {
    pub all: f64,
    pub anon: f64,
    pub file: f64,
    pub peak: f64,
}

impl Memory {
    pub fn of(process: u32) -> Memory {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN)
        };
        Memory { all: kib("VmRSS"), anon: kib("RssAnon"), file: kib("RssFile"), peak: kib("VmHWM") }
    }
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [all, anon, file, peak] = [self.all, self.anon, self.file, self.peak].map(|kib| kib / 1024.0);
        write!(f, "{all:.1} MiB resident ({anon:.1} own, {file:.1} of files: store and program), peak {peak:.1}")
    }
}

/// Returns a quantile of the values; sorts them.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * share).ceil() as usize;
    values.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Returns the median of the values; sorts them.
pub fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// Returns `p50 … p99 … max …` in milliseconds; sorts the values.
pub fn in_millis(values: &mut [f64]) -> String {
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| quantile(values, share) * 1e3);
    format!("p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.2} ms")
}

/// Runs something; returns the seconds it took.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_secs_f64()
}

/// Prints how busy the machine is, for judging the results.
pub fn print_machine() {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("machine: {cores} cores, load {}", load.split(' ').next().unwrap_or("?"));
}
