//! What a block writes to the disk when each is committed alone, as in step with the network.
//!
//! `cargo bench --bench measure -- in_step CONFIG STORE BLOCKS DEVICE` adds the blocks of a file to a store, one commit
//! each, and counts sectors written to a block device, such as `loop0`, that holds nothing else. `nisd export` writes such
//! a file of the last blocks, and `nisd rollback` then removes them from the store.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::support::{median, print_machine};
use nisd::chain::{BlockImporter, ImportOptions, ImportProgress};
use nisd::codec::block_file::BlockFile;
use nisd::commands;
use nisd::config;
use nisd::model::{Height, Timestamp};
use nisd::store::{stored_block, tip};

/// Bytes of a sector in the statistics of the system.
const SECTOR: u64 = 512;
/// Time after all blocks.
const LATE: Timestamp = Timestamp(i32::MAX - 100);

pub fn run(words: &[String]) -> ExitCode {
    let [config, store, blocks, device] = words else {
        eprintln!("give the settings, the store, the file of blocks, and the device of the store");
        return ExitCode::FAILURE;
    };
    print_machine();
    let settings = config::load(Some(Path::new(config)), Vec::new(), None).expect("settings");
    let store = commands::store::open_store(&settings, &PathBuf::from(store)).expect("a store");
    let files = vec![BlockFile::new(File::open(blocks).expect("blocks")).expect("blocks")];
    let nemesis = settings.nemesis.read().expect("the nemesis block");
    let options = ImportOptions { batch_blocks: 1, ..ImportOptions::DEFAULT };
    let mut importer = BlockImporter::new(&store, &settings.network, nemesis, files, options).expect("an importer");
    let height = || tip(&store.snapshot().expect("a snapshot")).expect("a tip").map_or(Height(0), |tip| tip.height);
    let (mut last, mut before, mut found) = (height(), sectors(device), Vec::new());
    loop {
        let is_done = importer.step(LATE).expect("a good block") == ImportProgress::Done;
        let now = height();
        if now > last {
            let snapshot = store.snapshot().expect("a snapshot");
            let block = stored_block(&snapshot, now).expect("a block");
            let sectors = sectors(device);
            found.push((block.map_or(0, |(_, block)| block.transactions.len()), (sectors - before) * SECTOR));
            (last, before) = (now, sectors);
        }
        if is_done {
            break;
        }
    }
    println!("transactions   blocks   median KB   most KB");
    for (from, to) in [(0, 0), (1, 4), (5, 8), (9, 11), (12, 20), (21, 60), (61, 120)] {
        let of_size = found.iter().filter(|(count, _)| (from..=to).contains(count));
        let mut sizes: Vec<f64> = of_size.map(|(_, bytes)| *bytes as f64 / 1024.0).collect();
        if sizes.is_empty() {
            continue;
        }
        let most = sizes.iter().copied().fold(0.0, f64::max);
        println!("{from:4} to {to:3}    {:7}   {:9.0}   {most:7.0}", sizes.len(), median(&mut sizes));
    }
    ExitCode::SUCCESS
}

/// Returns the sectors written to a device so far.
fn sectors(device: &str) -> u64 {
    let statistics = std::fs::read_to_string("/proc/diskstats").expect("statistics of the disks");
    let line = statistics.lines().find(|line| line.split_whitespace().nth(2) == Some(device)).expect("the device");
    line.split_whitespace().nth(9).and_then(|count| count.parse().ok()).expect("a number")
}
