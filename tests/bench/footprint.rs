//! Start time and memory use of a node: one that imports the chain `all-forks` and answers 1,000 mixed queries, and
//! ones that are started on the resulting store.

use std::process::ExitCode;
use std::time::Instant;

use super::support::{Memory, QueryMix, TIP, folder, in_millis, node_on_all_forks, print_machine, with_secret};
use crate::common::daemon::Node;
use crate::common::http::Client;

const STARTS: usize = 10;
const QUERIES: u64 = 1_000;
const MIB: f64 = (1 << 20) as f64;

pub fn run(_: &[String]) -> ExitCode {
    print_machine();
    let size = std::fs::metadata(env!("CARGO_BIN_EXE_nisd")).expect("the program").len();
    println!("program: {:.2} MiB", size as f64 / MIB);
    let (mix, folder) = (QueryMix::new(), folder());
    let report = |node: &Node, what: &str| {
        let mut client = Client::connect(node.http);
        client.wait_for_height(TIP);
        println!("{what:28} {}", Memory::of(node.process.id()));
        (0..QUERIES).for_each(|number| {
            assert_eq!(client.request(with_secret(node.http, &mix.request(number, TIP))).status, 200)
        });
        println!("after {QUERIES} mixed queries:   {}", Memory::of(node.process.id()));
    };
    report(&node_on_all_forks(folder.path(), true), "after the import:");
    let store = std::fs::metadata(folder.path().join("store/data.mdb")).expect("the store").len();
    println!("store: {:.1} MiB", store as f64 / MIB);
    let start = |_| {
        let begun = Instant::now();
        let node = node_on_all_forks(folder.path(), false);
        Client::connect(node.http).height();
        begun.elapsed().as_secs_f64()
    };
    let mut times: Vec<f64> = (0..STARTS).map(start).collect();
    println!("from exec to the first answer, {STARTS} starts: {}", in_millis(&mut times));
    report(&node_on_all_forks(folder.path(), false), "started on the store:");
    ExitCode::SUCCESS
}
