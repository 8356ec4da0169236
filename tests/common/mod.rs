//! What several tests need.
#![allow(dead_code)] // not every test uses everything

pub mod daemon;
pub mod exchange;
pub mod http;
pub mod http_client;
pub mod json_text;
pub mod websocket;

use std::io::Write;
use std::path::PathBuf;

/// A file or folder of the data that lies beside the project; `None`, said aloud, where it is absent.
pub fn shared(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("NISD_SHARED").map(PathBuf::from);
    let root = root.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"));
    let found = root.join(path);
    if found.exists() {
        return Some(found);
    }
    loudly(&format!("SKIPPED: {path} is not beside this project"));
    None
}

/// Says something that the test harness does not swallow, as it would what is printed in the usual way.
pub fn loudly(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A file of the recorded chain `tiny` that lies in the project.
pub fn tiny(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/tiny").join(name)
}
