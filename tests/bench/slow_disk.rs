//! Response times while a slow disk stores blocks.
//!
//! `cargo bench --bench slow_disk` starts a node on a private network that makes a block every second, on disks on
//! which syncing a file takes 0, 5, 50 and 200 ms, and sends it 200 cheap queries per second; a response time starts
//! when its query is due. NISD names another program to be measured in addition. The bar is 20 ms (p99) on each disk.

mod common;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::data::daemon::Node;
use common::data::http::Client;
use common::data::private_network::{Genesis, address, key_pair, now, private_key};
use common::data::slow_disk::SlowDisk;
use nisd::model::Amount;

const BINARY: &str = env!("CARGO_BIN_EXE_nisd");
const DELAYS: [u32; 4] = [0, 5, 50, 200];
const QUERY_INTERVAL: Duration = Duration::from_millis(5);
const QUERIES: usize = 2400;
const BAR_MILLIS: f64 = 20.0;

fn main() {
    println!("{}", common::machine());
    let Some(disk) = SlowDisk::new() else { return };
    let others = std::env::var("NISD").ok();
    let mut is_met = true;
    for binary in others.iter().map(String::as_str).chain([BINARY]) {
        println!("{binary}");
        for millis in DELAYS {
            let (mut times, blocks, memory) = measure(binary, &disk, millis);
            let shown = common::in_millis(&mut times);
            println!("  {millis:3} ms: {blocks:2} blocks, {shown}; helper: {memory}");
            is_met &= binary != BINARY || times[times.len() * 99 / 100] * 1e3 <= BAR_MILLIS;
        }
    }
    assert!(is_met, "somebody waits for the disk");
}

/// Returns the response times in seconds, sorted; the number of blocks made meanwhile; and the memory of the helper.
fn measure(binary: &str, disk: &SlowDisk, millis: u32) -> (Vec<f64>, u64, String) {
    let folder = common::folder();
    disk.set_millis(0);
    let node = start(binary, folder.path(), disk);
    let mut client = Client::connect(node.http);
    while client.height() < 3 {
        std::thread::sleep(QUERY_INTERVAL);
    }
    disk.set_millis(millis);
    let (first, begun, mut times) = (client.height(), Instant::now(), Vec::new());
    for number in 0..QUERIES {
        let due = begun + QUERY_INTERVAL * number as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        client.height();
        times.push(due.elapsed().as_secs_f64());
    }
    let blocks = client.height() - first;
    times.sort_by(f64::total_cmp);
    (times, blocks, memory_of_helper(node.process.id()))
}

fn start(binary: &str, folder: &Path, disk: &SlowDisk) -> Node {
    let funded = [(address(&key_pair(1)), Amount::whole(common::data::private_network::TOTAL))];
    let config = Genesis::new(now(), &funded).write_hasty(folder, &private_key(1).printed(), &[]);
    let known = Node::command(&["--config", config.to_str().expect("a path")]);
    let mut command = Command::new(binary);
    command.args(known.get_args());
    command.stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    // So that its memory can be inspected.
    command.env("NISD_CORE_DUMPS", "1");
    disk.for_program(&mut command);
    Node::from_command(command)
}

/// Returns the private memory of a node's helper, and its proportional set size (private memory plus its share of
/// shared pages).
fn memory_of_helper(node: u32) -> String {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let children = read(format!("/proc/{node}/task/{node}/children"));
    let Some(helper) = children.split_whitespace().next() else { return "none".to_owned() };
    let rollup = read(format!("/proc/{helper}/smaps_rollup"));
    let of = |name: &str| -> u64 {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
    };
    let own = of("Private_Clean:") + of("Private_Dirty:");
    format!("{own} KiB of its own, {} KiB with its share of what others have too", of("Pss:"))
}
