//! Start time and memory use of a node.
//!
//! `cargo bench --bench footprint` imports the chain `all-forks` with `nisd run --import`, sends that process 1,000
//! mixed queries, and then starts nodes on the resulting store.

mod common;

use std::path::Path;
use std::time::Instant;

use common::{Node, QueryMix};

const BINARY: &str = env!("CARGO_BIN_EXE_nisd");
const STARTS: usize = 10;
const QUERIES: u64 = 1_000;

fn main() {
    println!("{}", common::machine());
    let size = std::fs::metadata(BINARY).expect("the program").len();
    println!("program: {:.2} MiB", size as f64 / (1 << 20) as f64);
    let (mix, folder) = (QueryMix::all_forks(), common::folder());
    memory(&mix, folder.path());
    starts(folder.path());
    let node = Node::all_forks(BINARY, folder.path(), false);
    node.first_answer();
    println!("started on the store:        {}", node.memory());
    send_queries(&node, &mix);
    println!("after {QUERIES} mixed queries:  {}", node.memory());
}

fn memory(mix: &QueryMix, folder: &Path) {
    let node = Node::all_forks(BINARY, folder, true);
    node.wait_for_tip();
    println!("after the import:            {}", node.memory());
    send_queries(&node, mix);
    println!("after {QUERIES} mixed queries:  {}", node.memory());
    let store = std::fs::metadata(folder.join("store/data.mdb")).expect("the store").len();
    println!("store: {:.1} MiB", store as f64 / (1 << 20) as f64);
}

fn send_queries(node: &Node, mix: &QueryMix) {
    let mut client = node.first_answer();
    for number in 0..QUERIES {
        let request = mix.request(number, common::TIP);
        let (status, _) = client.send_request(&request).expect("an answer");
        assert_eq!(status, 200, "{request}");
    }
}

fn starts(folder: &Path) {
    let mut times: Vec<f64> = (0..STARTS)
        .map(|_| {
            let begun = Instant::now();
            let node = Node::all_forks(BINARY, folder, false);
            node.first_answer();
            begun.elapsed().as_secs_f64()
        })
        .collect();
    println!("from exec to the first answer, {STARTS} starts: {}", common::in_millis(&mut times));
}
