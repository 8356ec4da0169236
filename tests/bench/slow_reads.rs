//! Queries about cold accounts on a disk that reads slowly: how many pages each takes from the disk just after a start,
//! and how long cheap queries wait beside them.
//!
//! `cargo bench --bench measure -- slow_reads CONFIG STORE [MEGABYTES [PROGRAM…]]` measures a store that `nisd import` has
//! filled, best with a chain of `measure chains --mainnet --scale 10`, in a control group with this much memory (0: not
//! limited). It needs root, for the control groups of the kernel (version 1), which hold the disk to a number of reads a
//! second. Each program named is measured in turn. The last load takes ten minutes.
//!
//! `cargo bench --bench measure -- slow_blocks CONFIG STORE BLOCKS [MEGABYTES [PROGRAM…]]` pushes the blocks of a file that
//! follow those of the store one after the other, each when the one before is told, and prints how long a block takes until it is
//! told. Each measurement works on a copy of the store, beside it.

use std::fs::{self, File};
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise, major, minor};

use super::load::{Load, Sample};
use super::support::{print_machine, quantile};
use crate::common::Random;
use crate::common::daemon::{Node, args};
use crate::common::http::{Client, get, post_binary};
use crate::common::private_network::key_pair;
use nisd::codec::block_file::{BlockFile, block_height};
use nisd::codec::{Context, Format};
use nisd::commands;
use nisd::config;
use nisd::model::{Address, Block};
use nisd::peer::wire::SecureEntity;
use nisd::state;
use nisd::store;

/// How long each load runs, and how long the last one.
const PERIOD: Duration = Duration::from_secs(30);
const LONG_PERIOD: Duration = Duration::from_secs(600);
/// Accounts asked for one after the other to count reads.
const ACCOUNTS: usize = 60;
/// Reads per second of the disk, and cold queries per second.
const LOADS: [(u64, u64); 5] = [(0, 20), (1_500, 20), (500, 5), (500, 20), (100, 5)];
const LONG_LOAD: (u64, u64) = (500, 20);
/// Disks on which blocks are pushed: the first has no limit, the last writes slowly.
const DISKS: [Speed; 4] = [
    Speed { reads: 0, writes: 0, written_bytes: 0 },
    Speed { reads: 500, writes: 0, written_bytes: 0 },
    Speed { reads: 100, writes: 0, written_bytes: 0 },
    Speed { reads: 500, writes: 500, written_bytes: 10_000_000 },
];
/// Blocks pushed, and the numbers of transactions of those that are printed.
const BLOCKS: usize = 200;
const SIZES: [RangeInclusive<usize>; 3] = [0..=0, 1..=7, 8..=12];
/// Time from a start to the first block: a node gets none before it has asked its peers.
const JOINING: Duration = Duration::from_secs(3);
/// Time from a block that is told to the next.
const PAUSE: Duration = Duration::from_millis(200);
/// Key of the peer that pushes blocks.
const PUSHER: u64 = 100;
const QUESTIONS: [(&str, &str); 4] = [
    ("/account/get", "/account/get?address="),
    ("/account/transfers/all", "/account/transfers/all?address="),
    ("/account/mosaic/owned", "/account/mosaic/owned?address="),
    ("/account/harvests", "/account/harvests?address="),
];

pub fn run(words: &[String]) -> ExitCode {
    let [config, store, others @ ..] = words else {
        eprintln!("give the settings, the store, the memory in MB, and programs to compare");
        return ExitCode::FAILURE;
    };
    let Some((disk, programs)) = disk_and_programs(config, store, others) else { return ExitCode::FAILURE };
    print_machine();
    let accounts = Arc::new(disk.accounts());
    println!("{} accounts, {} MB; reads of 4 KiB per query just after a start", accounts.len(), disk.megabytes());
    for program in &programs {
        println!("{program}");
        for (name, path) in QUESTIONS {
            let node = disk.start(program, Speed::default());
            let mut client = Client::connect(node.http);
            let mut random = Random(1);
            let mut reads: Vec<f64> = (0..ACCOUNTS)
                .map(|_| {
                    let before = bytes_read(node.process.id());
                    let account = accounts[random.below(accounts.len())];
                    assert_eq!(client.get(&format!("{path}{account}")).status, 200);
                    (bytes_read(node.process.id()) - before) as f64 / 4096.0
                })
                .collect();
            let (first, mean) = (reads[0], reads.iter().sum::<f64>() / ACCOUNTS as f64);
            let [p50, most] = [0.5, 1.0].map(|share| quantile(&mut reads, share));
            println!("  {name:24} first {first:3.0}, mean {mean:5.1}, p50 {p50:3.0}, most {most:3.0}");
        }
    }
    println!("cheap queries 50 times a second: p50 · p90 · p99 · max in ms; cold queries: the same");
    for (reads, per_second) in LOADS {
        for program in &programs {
            let cheap = |_| get("/chain/height");
            let times = disk.beside_cold_queries(program, reads, per_second, &accounts, PERIOD, cheap);
            println!("  {reads:5} reads/s, {per_second:2} cold/s: {times}; {program}");
        }
    }
    let (reads, per_second) = LONG_LOAD;
    for program in &programs {
        let warm = accounts[0];
        let cheap = move |number| match number % 3 {
            0 => get("/chain/height"),
            1 => get("/chain/last-block"),
            _ => get(&format!("/account/get?address={warm}")),
        };
        let times = disk.beside_cold_queries(program, reads, per_second, &accounts, LONG_PERIOD, cheap);
        println!(
            "  {reads:5} reads/s, {per_second:2} cold/s, ten minutes, also a block and an account: {times}; {program}"
        );
    }
    ExitCode::SUCCESS
}

/// Measures how long blocks take that are pushed.
pub fn run_blocks(words: &[String]) -> ExitCode {
    let [config, folder, blocks, others @ ..] = words else {
        eprintln!("give the settings, the store, the file of blocks, the memory in MB, and programs to compare");
        return ExitCode::FAILURE;
    };
    let Some((disk, programs)) = disk_and_programs(config, folder, others) else { return ExitCode::FAILURE };
    print_machine();
    let settings = config::load(Some(&disk.config), Vec::new(), None).expect("settings");
    let mut file = BlockFile::new(File::open(blocks).expect("blocks")).expect("blocks");
    let mut next = || {
        let mut bytes = Vec::new();
        file.next(&mut bytes).expect("blocks").then_some(bytes)
    };
    let pusher = key_pair(PUSHER);
    let opened = commands::store::open_store(&settings, &disk.store).expect("a store");
    let tip = store::tip(&opened.snapshot().expect("a snapshot")).expect("a tip").map(|tip| tip.height);
    drop(opened);
    let pushed: Vec<(usize, Vec<u8>)> = std::iter::from_fn(&mut next)
        .skip_while(|bytes| block_height(bytes) <= tip)
        .take(BLOCKS)
        .map(|bytes| {
            let block = Block::from_bytes(&bytes, Context::of(&settings.network)).expect("a block");
            let count = block.transactions.len();
            (count, Format::Binary.to_bytes(&SecureEntity::sign(block, &pusher, None)))
        })
        .collect();
    println!("milliseconds until a pushed block is told, and /chain/height meanwhile: p50 · p90 · p99 · max");
    for speed in DISKS {
        for program in &programs {
            let copy = disk.copy();
            let node = copy.disk.start(program, speed);
            let mut client = Client::connect(node.http);
            let (mut height, mut samples) = (client.height(), vec![Vec::new(); SIZES.len()]);
            let cheap = Load::local(50, 1).start(node.http, |_| get("/chain/height"));
            std::thread::sleep(JOINING);
            for (count, bytes) in &pushed {
                std::thread::sleep(PAUSE);
                let begun = Instant::now();
                assert_eq!(client.request(post_binary("/push/block", bytes)).status, 200);
                height += 1;
                while client.height() < height {
                    assert!(begun.elapsed() < Duration::from_secs(120), "block {height} is not told");
                    std::thread::sleep(Duration::from_millis(1));
                }
                if let Some(size) = SIZES.iter().position(|size| size.contains(count)) {
                    samples[size].push(begun.elapsed().as_secs_f64() * 1e3);
                }
            }
            let cheap = in_millis(&cheap.stop_now());
            let Speed { reads, writes, .. } = speed;
            println!("  {reads:5} reads/s, {writes:5} writes/s: /chain/height {cheap}; {program}");
            for (size, of_size) in SIZES.iter().zip(&mut samples).filter(|(_, of_size)| !of_size.is_empty()) {
                let [p50, p90, p99, max] = [0.5, 0.9, 0.99, 1.0].map(|share| quantile(of_size, share));
                println!("    {size:?} transactions: {p50:.0} · {p90:.0} · {p99:.0} · {max:.0} ({})", of_size.len());
            }
        }
    }
    ExitCode::SUCCESS
}

/// Returns the disk that the words describe, and the programs to measure.
fn disk_and_programs(config: &str, store: &str, others: &[String]) -> Option<(Disk, Vec<String>)> {
    let (memory, programs) = others.split_first().map_or(("0", &[][..]), |(memory, others)| (memory, others));
    let (Ok(memory), Some(groups)) = (memory.parse(), Groups::new()) else {
        eprintln!("the memory is a number of MB, and control groups of version 1 need root");
        return None;
    };
    let disk = Disk { config: config.into(), store: store.into(), memory, groups };
    let own = || vec![env!("CARGO_BIN_EXE_nisd").to_owned()];
    Some((disk, if programs.is_empty() { own() } else { programs.to_vec() }))
}

/// Returns quantiles of response times, and how many queries were not answered.
fn in_millis(samples: &[Sample]) -> String {
    let mut took: Vec<f64> = samples.iter().map(|sample| sample.took * 1e3).collect();
    let [p50, p90, p99, max] = [0.5, 0.9, 0.99, 1.0].map(|share| quantile(&mut took, share));
    let answered = samples.iter().filter(|sample| sample.is_answered).count();
    format!("{p50:.1} · {p90:.1} · {p99:.1} · {max:.0} ({answered} of {})", samples.len())
}

/// Returns the bytes that a node and its helpers have read from disks.
fn bytes_read(node: u32) -> u64 {
    let helpers = fs::read_to_string(format!("/proc/{node}/task/{node}/children")).expect("the helpers");
    let processes = helpers.split_whitespace().filter_map(|helper| helper.parse().ok()).chain([node]);
    // A helper may end meanwhile.
    let counters = processes.filter_map(|process| fs::read_to_string(format!("/proc/{process}/io")).ok());
    counters
        .filter_map(|text| text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.parse::<u64>().ok())
        .sum()
}

/// Operations and bytes per second of a disk; 0 is no limit.
#[derive(Clone, Copy, Default)]
struct Speed {
    reads: u64,
    writes: u64,
    written_bytes: u64,
}

/// A copy of a store, removed with the value.
struct Copy {
    disk: Disk,
    _folder: tempfile::TempDir,
}

/// A store on a disk of limited speed.
struct Disk {
    config: PathBuf,
    store: PathBuf,
    memory: u64,
    groups: Groups,
}

impl Disk {
    /// Returns the addresses of all accounts.
    fn accounts(&self) -> Vec<Address> {
        let settings = config::load(Some(&self.config), Vec::new(), None).expect("settings");
        let store = commands::store::open_store(&settings, &self.store).expect("a store");
        let mut accounts = Vec::new();
        state::for_each_account_after(&store.snapshot().expect("a snapshot"), None, |_, address, _| {
            accounts.push(address);
            Ok(true)
        })
        .expect("accounts");
        accounts
    }

    fn data(&self) -> PathBuf {
        self.store.join("data.mdb")
    }

    fn megabytes(&self) -> u64 {
        fs::metadata(self.data()).expect("a store").len() >> 20
    }

    /// Returns the response times of 50 cheap queries a second, and of some about cold accounts beside them.
    fn beside_cold_queries(
        &self,
        program: &str,
        reads: u64,
        per_second: u64,
        accounts: &Arc<Vec<Address>>,
        period: Duration,
        cheap: impl Fn(u64) -> String + Send + Sync + 'static,
    ) -> String {
        let node = self.start(program, Speed { reads, ..Speed::default() });
        let cheap = Load::local(50, 1).start(node.http, cheap);
        let accounts = accounts.clone();
        let cold = Load::local(per_second, 1).start(node.http, move |number| {
            let account = accounts[Random(number + 1).below(accounts.len())];
            get(&format!("{}{account}", QUESTIONS[number as usize % 2].1))
        });
        std::thread::sleep(period);
        let [cheap, cold] = [cheap, cold].map(|load| in_millis(&load.stop_now()));
        format!("{cheap}; cold {cold}")
    }

    /// Copies the store into a folder beside it.
    fn copy(&self) -> Copy {
        let folder = tempfile::tempdir_in(self.store.parent().expect("a folder")).expect("a folder");
        let copied = Command::new("cp").arg("--sparse=always").arg(self.data()).arg(folder.path()).status();
        assert!(copied.expect("cp").success());
        let groups = Groups::new().expect("control groups");
        let disk = Disk { config: self.config.clone(), store: folder.path().to_owned(), memory: self.memory, groups };
        Copy { disk, _folder: folder }
    }

    /// Starts a node on the store, of which nothing is in memory.
    fn start(&self, program: &str, speed: Speed) -> Node {
        let file = File::open(self.data()).expect("a store");
        file.sync_all()
            .and_then(|()| Ok(fadvise(&file, 0, None, Advice::DontNeed)?))
            .expect("the cache can be dropped");
        self.groups.limit(self.memory, &file, speed);
        let mut command = Command::new("sh");
        let enter = format!("for group in {}; do echo $$ > $group/cgroup.procs; done; exec \"$0\" \"$@\"", self.groups);
        command.args(["-c", &enter, program]);
        command.args(["run", "--bind", "127.0.0.1", "--http-port", "0", "--websocket-port", "0"]);
        command.args(args!["--config", self.config, "--data", self.store]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Node::from_command(command)
    }
}

/// Control groups for the memory and the disk of a node, removed with the value.
struct Groups([PathBuf; 2]);

impl Groups {
    fn new() -> Option<Groups> {
        let groups = ["memory", "blkio"].map(|kind| PathBuf::from(format!("/sys/fs/cgroup/{kind}/nisd-slow-reads")));
        let made = groups.iter().all(|group| group.is_dir() || fs::create_dir(group).is_ok());
        made.then_some(Groups(groups))
    }

    /// Limits the memory in MB, and the speed of the disk that holds a file.
    fn limit(&self, memory: u64, file: &File, speed: Speed) {
        let [memory_group, disk_group] = &self.0;
        let bytes = if memory == 0 { "-1".to_owned() } else { (memory << 20).to_string() };
        write(&memory_group.join("memory.limit_in_bytes"), &bytes);
        let device = file.metadata().expect("a file").dev();
        let limits = [
            ("read_iops_device", speed.reads),
            ("write_iops_device", speed.writes),
            ("write_bps_device", speed.written_bytes),
        ];
        for (name, limit) in limits {
            let path = disk_group.join(format!("blkio.throttle.{name}"));
            write(&path, &format!("{}:{} {limit}", major(device), minor(device)));
        }
    }
}

impl std::fmt::Display for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|group| write!(f, "{} ", group.display()))
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.0.iter().for_each(|group| drop(fs::remove_dir(group)));
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
