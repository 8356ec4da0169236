//! Response times of queries while the node imports a chain at full speed: 200 mixed queries per second on ten
//! connections. Only queries due during the import count.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::load::{Load, ResponseTimes};
use super::support::{KINDS, QueryMix, TIP, folder, node_on_all_forks, print_machine};
use crate::common::http::Client;

const IMPORTS: usize = 10;

pub fn run(_: &[String]) -> ExitCode {
    print_machine();
    let (mix, mut samples) = (Arc::new(QueryMix::new()), Vec::new());
    for import in 1..=IMPORTS {
        let folder = folder();
        let node = node_on_all_forks(folder.path(), true);
        let (mut watcher, height, begun) = (Client::connect(node.http), Arc::new(AtomicU64::new(1)), Instant::now());
        let (mix, known) = (mix.clone(), height.clone());
        let load =
            Load::local(200, 10).start(node.http, move |number| mix.request(number, known.load(Ordering::Relaxed)));
        while height.load(Ordering::Relaxed) < TIP {
            std::thread::sleep(Duration::from_millis(20));
            height.fetch_max(watcher.height(), Ordering::Relaxed);
        }
        let found = load.stop(begun, Instant::now());
        println!("import {import}: {:.2} s, {}", begun.elapsed().as_secs_f64(), ResponseTimes::of(&found));
        samples.extend(found);
    }
    for (kind, name) in KINDS.iter().enumerate() {
        let of_kind = samples.iter().filter(|sample| sample.number as usize % KINDS.len() == kind);
        println!("{name:30} {}", ResponseTimes::of(of_kind));
    }
    println!("all: {}", ResponseTimes::of(&samples));
    ExitCode::SUCCESS
}
