//! Helpers that several tests share.

pub mod bookkeeper;
pub mod conversation;
pub mod daemon;
pub mod data_folder;
pub mod exchange;
pub mod http;
pub mod json_text;
pub mod node_network;
pub mod recorded_chain;
pub mod remote_node;
pub mod replay_report;
pub mod schema;
pub mod simulated_node;
pub mod slow_disk;
pub mod websocket;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use nisd::config::{self, Origin, Override, Settings};
pub use nisd_oracle::{Random, private_network};

/// Returns the path of a file or folder recorded from NIS1 nodes.
pub fn recorded(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/recorded").join(name);
    assert!(path.exists(), "{} is absent", path.display());
    path
}

/// Reads a recorded text, which may be compressed.
pub fn read_recorded(name: &str) -> String {
    let mut text = String::new();
    open_maybe_compressed(&recorded(name)).read_to_string(&mut text).expect("a text");
    text
}

/// Reads the lines of a recorded text, each of which is JSON.
pub fn recorded_lines(name: &str) -> Vec<serde_json::Value> {
    read_recorded(name).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Settings of the public test network.
pub const TESTNET: [(&str, &str); 1] = [("nem.network", "testnet")];

/// Loads settings from a file, if one is given, changed by flags.
pub fn load_settings(config: Option<&Path>, flags: &[(&str, &str)]) -> Settings {
    let flag = |(key, value): &(&str, &str)| Override {
        key: (*key).to_owned(),
        value: (*value).to_owned().into(),
        origin: Origin::Flag("--set"),
    };
    config::load(config, flags.iter().map(flag).collect(), Some(Path::new("unused"))).expect("settings")
}

/// Reads a group of the vectors in a file.
pub fn vector_group(file: &str, group: &str) -> serde_json::Value {
    let mut all: serde_json::Value =
        serde_json::from_str(&read_recorded(&format!("vectors-{file}.json.gz"))).expect("JSON");
    let group = all[group].take();
    let is_empty = group.as_array().map(Vec::is_empty).or_else(|| group.as_object().map(|group| group.is_empty()));
    assert!(is_empty == Some(false), "the group has no vectors");
    group
}

/// Opens a file; one whose name ends in `.gz` is decompressed.
pub fn open_maybe_compressed(path: &Path) -> Box<dyn Read> {
    let file = std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_some_and(|extension| extension == "gz") {
        Box::new(flate2::read::GzDecoder::new(file))
    } else {
        Box::new(file)
    }
}

/// Returns the path of a file of the folder that `NISD_SHARED` names, or of `../shared`: data of other projects, which
/// is no part of this one. Skips the test and returns `None` where it is absent.
#[track_caller]
pub fn shared(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("NISD_SHARED").map(PathBuf::from);
    let root = root.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"));
    let found = root.join(path);
    if found.exists() {
        return Some(found);
    }
    skip(&format!("{path} is not beside this project"));
    None
}

/// Says that a test is skipped, because of what this machine lacks. Where `CI` is set nothing may be lacking: there it
/// fails.
#[track_caller]
pub fn skip(lacking: &str) {
    assert!(std::env::var_os("CI").is_none(), "{lacking}; where CI is set, no test is skipped");
    print_notice(&format!("SKIPPED: {lacking}"));
}

/// Returns a folder for the files of a service, which cannot lie in a temporary folder of the system.
pub fn folder_of_a_service() -> tempfile::TempDir {
    let is_temporary = |place: &&str| ["/tmp", "/var/tmp"].iter().any(|folder| Path::new(place).starts_with(folder));
    let place = [env!("CARGO_TARGET_TMPDIR"), "/dev/shm"].into_iter().find(|place| !is_temporary(place));
    tempfile::tempdir_in(place.expect("a place")).expect("a folder")
}

/// Prints a text past the test harness, which captures normal output.
pub fn print_notice(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Reads a number from an environment variable.
pub fn from_environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// Returns the path of a file of the smallest recorded chain.
pub fn tiny(name: &str) -> PathBuf {
    recorded("chains/tiny").join(name)
}
