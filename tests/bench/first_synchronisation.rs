//! Duration of a new node's initial block download, compared with an import.
//!
//! Alternates (a) `nisd import` of a chain, (b) `nisd run` on an empty folder with one peer on this machine, and (c)
//! with three. Times of (b) and (c) are given from the start of the program, which first contacts the peers, and from
//! the start of the block download. The chain is `all-forks`; NISD_CHAIN names a folder filled by the measurement
//! `chains`, NISD_STOP_AT a last height, NISD_ROUNDS the number of rounds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use super::support::{Memory, TIP, all_forks, folder, median, print_machine};
use crate::common::daemon::{Node, args, nisd};
use crate::common::from_environment;
use crate::common::http::Client;
use nisd::progress::Thousands;

const ROUNDS: usize = 3;
/// Interval between requests for the new node's height.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The chain that is downloaded, and a store with it.
struct Chain {
    config: PathBuf,
    blocks: PathBuf,
    last: u64,
    folder: tempfile::TempDir,
}

impl Chain {
    fn open() -> Chain {
        let (folder, stop) = (folder(), from_environment("NISD_STOP_AT"));
        let (config, blocks, last) = match std::env::var_os("NISD_CHAIN").map(PathBuf::from) {
            Some(chain) => (chain.join("network.properties"), chain.join("blocks.bin"), stop.expect("NISD_STOP_AT")),
            None => (all_forks("network.properties"), all_forks("blocks.bin.gz"), stop.unwrap_or(TIP)),
        };
        Chain { config, blocks, last, folder }
    }

    /// Runs `nisd import` into a new store; returns seconds and peak private memory in MiB.
    fn import(&self, store: &Path) -> (f64, f64) {
        let _ = fs::remove_dir_all(store);
        let arguments = args!["import", "--config", self.config, "--data", store, "--stop-at", self.last.to_string()];
        let mut command = nisd(arguments.iter().chain(&args![self.blocks]));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let begun = Instant::now();
        let mut child = command.spawn().expect("nisd starts");
        let mut most: f64 = 0.0;
        while child.try_wait().expect("its end").is_none() {
            most = most.max(Memory::of(child.id()).anon);
            std::thread::sleep(POLL_INTERVAL);
        }
        (begun.elapsed().as_secs_f64(), most / 1024.0)
    }

    /// Starts `nisd run` on a store with peers.
    fn run(&self, store: &Path, peers: &[Node]) -> Node {
        let peers = peers.iter().flat_map(|peer| args!["--peer", peer.http.to_string()]);
        let alone = ["nis.ipDetectionMode=Disabled", "nem.host=127.0.0.1", "nis.shouldAutoHarvestOnBoot=false"];
        let settings = alone.iter().flat_map(|setting| args!["--set", setting]);
        Node::start(args!["--config", self.config, "--data", store].into_iter().chain(peers).chain(settings))
    }

    /// Starts nodes that have the chain.
    fn start_peers(&self, count: usize) -> Vec<Node> {
        let start = |number: usize| {
            let store = self.folder.path().join(format!("other {number}"));
            fs::create_dir_all(&store).expect("a folder");
            if !store.join("data.mdb").exists() {
                fs::copy(self.folder.path().join("store/data.mdb"), store.join("data.mdb"))
                    .expect("a copy of the store");
            }
            self.run(&store, &[])
        };
        (0..count).map(start).collect()
    }
}

/// Measurements of a first synchronisation: seconds from the start of the program, seconds from the start of the block
/// download, and peak private memory in MiB.
struct SyncTimes {
    total: f64,
    download: f64,
    peak_memory: f64,
}

fn synchronise(chain: &Chain, count: usize) -> SyncTimes {
    let others = chain.start_peers(count);
    let folder = folder();
    let begun = Instant::now();
    let node = chain.run(&folder.path().join("store"), &others);
    let (mut most, mut catches_up) = (0.0_f64, None);
    // The test sends it no requests, like any node without a chain; its log shows the height.
    let end = format!("height {}: ", Thousands(chain.last));
    loop {
        let log = node.process.log();
        if catches_up.is_none() && log.contains("downloading blocks up to height") {
            catches_up = Some(Instant::now());
        }
        most = most.max(Memory::of(node.process.id()).anon);
        if log.contains(&end) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(3_600), "it does not end: {log}");
        std::thread::sleep(POLL_INTERVAL);
    }
    assert_eq!(Client::connect(node.http).height(), chain.last);
    let catching_up = catches_up.map_or(f64::NAN, |begun| begun.elapsed().as_secs_f64());
    SyncTimes { total: begun.elapsed().as_secs_f64(), download: catching_up, peak_memory: most / 1024.0 }
}

pub fn run(_: &[String]) -> ExitCode {
    print_machine();
    let chain = Chain::open();
    println!("{}, up to height {}", chain.blocks.display(), chain.last);
    let store = chain.folder.path().join("store");
    let mut ratios = [Vec::new(), Vec::new()];
    let rounds = from_environment("NISD_ROUNDS").unwrap_or(ROUNDS);
    for round in 1..=rounds {
        let (import, most) = chain.import(&store);
        println!("round {round}: import {import:.2} s, {most:.1} MiB");
        for (count, ratios) in [1, 3].into_iter().zip(&mut ratios) {
            let took = synchronise(&chain, count);
            println!(
                "  from {count}: {:.2} s, of which {:.2} s to catch up, {:.1} MiB; ratios {:.2} and {:.2}",
                took.total,
                took.download,
                took.peak_memory,
                took.total / import,
                took.download / import
            );
            ratios.push(took.download / import);
        }
    }
    let [one, three] = ratios.map(|mut ratios| median(&mut ratios));
    println!("median of the time to catch up by that of the import: {one:.2} from one node, {three:.2} from three");
    ExitCode::SUCCESS
}
