//! The committed seeds hold what they promise, without a fuzzer.

use std::fs;
use std::path::Path;

use nisd_fuzz::TARGETS;

#[test]
fn every_seed_passes_its_target_and_every_target_finds_something_in_them() {
    for (name, check) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
        let mut found = 0;
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("an entry").path();
            println!("{}", path.display());
            found += check(&fs::read(&path).expect("a seed"));
        }
        assert!(found > 0, "the seeds of {name} hold nothing of value");
    }
}
