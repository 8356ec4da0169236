//! Information about this process from the system.

use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

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
    use rustix::process::{Resource, Rlimit, setrlimit};
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
}
