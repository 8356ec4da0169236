//! Queries about cold accounts on a disk that reads slowly: how many pages each takes from the disk just after a start,
//! and how long cheap queries wait beside them.
//!
//! `cargo bench --bench measure -- slow_reads CONFIG STORE [MEGABYTES [PROGRAM…]]` measures a store that `nisd import` has
//! filled, best with a chain of `measure chains --mainnet --scale 10`, in a control group with this much memory (0: not
//! limited). It needs root, for the control groups of the kernel (version 1), which hold the disk to a number of reads a
//! second. Each program named is measured in turn.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Advice, fadvise, major, minor};

use super::load::{Load, Sample};
use super::support::{print_machine, quantile};
use crate::common::Random;
use crate::common::daemon::{Node, args};
use crate::common::http::{Client, get};
use nisd::commands;
use nisd::config;
use nisd::model::Address;
use nisd::state;

/// How long each load runs.
const PERIOD: Duration = Duration::from_secs(30);
/// Accounts asked for one after the other to count reads.
const ACCOUNTS: usize = 60;
/// Reads per second of the disk (0: not limited), and cold queries per second.
const LOADS: [(u64, u64); 5] = [(0, 20), (1_500, 20), (500, 5), (500, 20), (100, 5)];
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
    let (memory, programs) = others.split_first().map_or(("0", &[][..]), |(memory, others)| (memory, others));
    let (Ok(memory), Some(groups)) = (memory.parse(), Groups::new()) else {
        eprintln!("the memory is a number of MB, and control groups of version 1 need root");
        return ExitCode::FAILURE;
    };
    print_machine();
    let disk = Disk { config: config.into(), store: store.into(), memory, groups };
    let own = [env!("CARGO_BIN_EXE_nisd").to_owned()];
    let programs = if programs.is_empty() { &own } else { programs };
    let accounts = Arc::new(disk.accounts());
    println!("{} accounts, {} MB; reads of 4 KiB per query just after a start", accounts.len(), disk.megabytes());
    for program in programs {
        println!("{program}");
        for (name, path) in QUESTIONS {
            let node = disk.start(program, 0);
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
    println!("/chain/height 50 times a second: p50 · p90 · p99 · max in ms; cold queries: the same");
    for (reads, per_second) in LOADS {
        for program in programs {
            let node = disk.start(program, reads);
            let cheap = Load::local(50, 1).start(node.http, |_| get("/chain/height"));
            let accounts = accounts.clone();
            let cold = Load::local(per_second, 1).start(node.http, move |number| {
                let account = accounts[Random(number + 1).below(accounts.len())];
                get(&format!("{}{account}", QUESTIONS[number as usize % 2].1))
            });
            std::thread::sleep(PERIOD);
            let [cheap, cold] = [cheap, cold].map(|load| in_millis(&load.stop_now()));
            println!("  {reads:5} reads/s, {per_second:2} cold/s: {cheap}; cold {cold}; {program}");
        }
    }
    ExitCode::SUCCESS
}

/// Returns quantiles of response times, and how many queries were not answered.
fn in_millis(samples: &[Sample]) -> String {
    let mut took: Vec<f64> = samples.iter().map(|sample| sample.took * 1e3).collect();
    let [p50, p90, p99, max] = [0.5, 0.9, 0.99, 1.0].map(|share| quantile(&mut took, share));
    let answered = samples.iter().filter(|sample| sample.is_answered).count();
    format!("{p50:.1} · {p90:.1} · {p99:.1} · {max:.0} ({answered} of {})", samples.len())
}

/// Returns the bytes that a process has read from disks.
fn bytes_read(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/io")).expect("counters of the process");
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: ")).expect("a counter");
    line.parse().expect("a number")
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

    /// Starts a node on the store, of which nothing is in memory.
    fn start(&self, program: &str, reads: u64) -> Node {
        let file = File::open(self.data()).expect("a store");
        file.sync_all()
            .and_then(|()| Ok(fadvise(&file, 0, None, Advice::DontNeed)?))
            .expect("the cache can be dropped");
        self.groups.limit(self.memory, &file, reads);
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

    /// Limits the memory in MB, and the reads per second of the disk that holds a file; 0 is no limit.
    fn limit(&self, memory: u64, file: &File, reads: u64) {
        let [memory_group, disk_group] = &self.0;
        let bytes = if memory == 0 { "-1".to_owned() } else { (memory << 20).to_string() };
        write(&memory_group.join("memory.limit_in_bytes"), &bytes);
        let device = file.metadata().expect("a file").dev();
        write(
            &disk_group.join("blkio.throttle.read_iops_device"),
            &format!("{}:{} {reads}", major(device), minor(device)),
        );
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
