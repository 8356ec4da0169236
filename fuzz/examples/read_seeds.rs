//! Runs targets once on each of their seeds: `cargo run --example read_seeds -- TARGET...`. `fuzz/run --coverage` counts
//! what of the parsers they reach.

use std::fs;
use std::path::Path;

use nisd_fuzz::TARGETS;

fn main() {
    for name in std::env::args().skip(1) {
        let (_, check) = TARGETS.iter().find(|(target, _)| *target == name).expect("a target");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
        for entry in fs::read_dir(folder).expect("its seeds") {
            check(&fs::read(entry.expect("an entry").path()).expect("a seed"));
        }
    }
}
