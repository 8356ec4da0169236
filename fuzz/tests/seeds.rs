//! The committed seeds pass their targets, without a fuzzer.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nisd_fuzz::{TARGETS, peer_wire};

#[test]
fn every_seed_passes_and_every_target_has_effective_seeds() {
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

#[test]
fn peer_wire_seeds_decode_completely_and_cover_every_reader() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds/peer_wire");
    let mut readers = BTreeSet::new();
    for entry in fs::read_dir(&folder).expect("seeds") {
        let path = entry.expect("an entry").path();
        let seed = fs::read(&path).expect("a seed");
        readers.insert(seed[0] >> 1);
        let is_found = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("found-"));
        assert!(is_found || peer_wire::check(&seed) == 1, "{}", path.display());
    }
    assert_eq!(readers.len(), usize::from(peer_wire::READERS));
}
