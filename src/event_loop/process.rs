//! This process: its memory, its core dumps, and the connections that the system allows it.

use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::net::MAX_REJECTED_CONNECTIONS;
use crate::node::Memory;

/// Source on Linux; other systems give no information.
const STATUS: &str = "/proc/self/status";

/// Returns the monotonic time since the first call.
pub fn uptime() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Keeps private keys out of core dumps: disables core dumps of this process, and access to its memory by other
/// programs of the same user. Does nothing where the system refuses.
pub fn forbid_core_dumps() {
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // The limit does not apply to a dump that is piped into a program.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

/// Returns the memory use of the process.
pub fn memory() -> Memory {
    let status = fs::read_to_string(STATUS).unwrap_or_default();
    Memory { resident: bytes(&status, "VmRSS:"), private: bytes(&status, "RssAnon:") }
}

/// Parses a line such as `VmRSS:      3584 kB` as bytes.
fn bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// File descriptors reserved for the store, the log, listeners, DNS, and connections that are being rejected.
const RESERVE: usize = 64 + MAX_REJECTED_CONNECTIONS;
/// Divisor for the share of descriptors reserved for requests to other servers.
const FETCH_DIVISOR: usize = 8;

/// Raises the limit on file descriptors as far as the system allows. Returns how many client connections and how many
/// requests to other servers fit into it.
pub fn raise_descriptor_limit() -> (usize, usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_err() {
        log::warn!("the limit on open files cannot be raised");
    }
    let limit = getrlimit(Resource::Nofile).current;
    split_descriptors(limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)))
}

fn split_descriptors(descriptors: usize) -> (usize, usize) {
    let rest = descriptors.saturating_sub(RESERVE).max(16);
    let fetches = rest / FETCH_DIVISOR;
    (rest - fetches, fetches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_usage_is_read_from_proc() {
        assert_eq!(bytes("VmHWM:\t  99 kB\nVmRSS:\t    3584 kB\n", "VmRSS:"), Some(3584 * 1024));
        assert_eq!(bytes("VmHWM:\t  99 kB\n", "VmRSS:"), None);
        let Memory { resident, private } = memory();
        assert!(resident.zip(private).is_none_or(|(resident, private)| resident > private && private > 1 << 16));
    }

    #[test]
    fn the_connection_limit_leaves_descriptors_for_other_uses() {
        assert_eq!(split_descriptors(1024), (784, 112));
        assert_eq!(split_descriptors(10), (14, 2));
        assert!(split_descriptors(usize::MAX).0 > 1 << 40);
    }
}
