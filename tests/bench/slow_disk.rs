//! Response times while a slow disk stores blocks: a node makes a block every second on disks on which syncing a file
//! takes 0, 5, 50 and 200 ms, and gets 200 cheap queries per second. The bar is 20 ms (p99) on each disk. NISD names
//! another program.

use std::process::ExitCode;
use std::time::Duration;

use super::load::{Load, ResponseTimes};
use super::support::{folder, print_machine};
use crate::common::daemon::{Node, args, new_network};
use crate::common::http::{Client, get};
use crate::common::private_network::private_key;
use crate::common::slow_disk::SlowDisk;

const BAR_MILLIS: f64 = 20.0;

pub fn run(_: &[String]) -> ExitCode {
    print_machine();
    let Some(disk) = SlowDisk::new() else { return ExitCode::SUCCESS };
    let mut is_met = true;
    for millis in [0, 5, 50, 200] {
        let folder = folder();
        let config = new_network().write_hasty(folder.path(), &private_key(1).printed(), &[]);
        let mut command = Node::command(args!["--config", config]);
        // So that the memory of its helper can be inspected.
        command.env("NISD_CORE_DUMPS", "1");
        disk.set_millis(0);
        disk.for_program(&mut command);
        let node = Node::from_command(command);
        let mut client = Client::connect(node.http);
        let first = client.wait_for_height(3);
        disk.set_millis(millis);
        let load = Load::local(200, 1).start(node.http, |_| get("/chain/height"));
        std::thread::sleep(Duration::from_secs(12));
        let times = ResponseTimes::of(&load.stop_now());
        let (blocks, memory) = (client.height() - first, memory_of_helper(node.process.id()));
        println!("{millis:3} ms: {blocks:2} blocks, {times}; helper: {memory}");
        is_met &= times.p99 <= BAR_MILLIS;
    }
    if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
