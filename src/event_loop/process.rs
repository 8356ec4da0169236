//! This process: its memory, its core dumps, the connections that the system allows it, and its supervisor.
//!
//! systemd is notified by the `sd_notify` protocol: readiness, status, watchdog. The socket never blocks the loop, whatever
//! its reader does. Libraries are not used because they all write to a blocking socket.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process;
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

/// Returns how often this process has waited for a page from the disk; 0 if the system does not tell.
pub fn reads_from_disk() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, which may contain anything, is in parentheses.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(9).find_map(|faults| faults.parse().ok()).unwrap_or(0)
}

/// Returns the bytes of memory that this process may use: those of the machine, or fewer if its control group (`MemoryMax=`
/// of systemd, a container) is limited. `None` if the system gives no information.
pub fn memory_limit() -> Option<u64> {
    smallest_limit(|path| fs::read_to_string(path).unwrap_or_default())
}

fn smallest_limit(read: impl Fn(&Path) -> String) -> Option<u64> {
    let total = bytes(&read(Path::new("/proc/meminfo")), "MemTotal:");
    let groups = read(Path::new("/proc/self/cgroup"));
    let limits = group_limits(&groups).filter_map(|path| read(&path).trim().parse().ok());
    total.into_iter().chain(limits).min()
}

/// Returns the files that may limit the memory of a process in these control groups, given as in `/proc/self/cgroup`: those of
/// each group and of the groups around it, for both versions of the interface.
fn group_limits(groups: &str) -> impl Iterator<Item = PathBuf> {
    groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (root, file) = match fields.next() {
            Some("") => ("/sys/fs/cgroup", "memory.max"),
            Some("memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return Vec::new(),
        };
        let group = Path::new(fields.next().unwrap_or_default());
        group
            .ancestors()
            .map(|group| Path::new(root).join(group.strip_prefix("/").unwrap_or(group)).join(file))
            .collect()
    })
}

/// Parses a line such as `VmRSS:      3584 kB` as bytes.
fn bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// File descriptors reserved for the store, the log, listeners, helpers, and connections that are being rejected; at most half of
/// all.
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
    let rest = (descriptors - RESERVE.min(descriptors / 2)).max(16);
    let fetches = rest / FETCH_DIVISOR;
    (rest - fetches, fetches)
}

/// Minimum time between two status lines.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// Watchdog notifications per watchdog timeout.
const NOTIFICATIONS_PER_TIMEOUT: u32 = 4;

/// The supervisor (systemd) that started the node, if there is one.
#[derive(Default)]
pub struct SystemdNotifier {
    /// The notification socket, and its address.
    notify_socket: Option<(UnixDatagram, SocketAddr)>,
    /// Interval of watchdog notifications.
    interval: Option<Duration>,
    watchdog_due: Duration,
    status_due: Duration,
    status: String,
    is_ready: bool,
}

impl SystemdNotifier {
    /// Creates it from the environment.
    pub fn from_env() -> SystemdNotifier {
        let notify_socket = env::var_os("NOTIFY_SOCKET").and_then(|name| {
            let warn = |error: &io::Error| log::warn!("systemd cannot be notified at {}: {error}", name.display());
            notify_socket(&name).inspect_err(warn).ok()
        });
        let is_meant = env::var("WATCHDOG_PID").is_ok_and(|pid| pid == process::id().to_string());
        let allowed = env::var("WATCHDOG_USEC").ok().filter(|_| is_meant || env::var_os("WATCHDOG_PID").is_none());
        let interval =
            allowed.and_then(|micros| micros.parse().ok()).filter(|micros| *micros > 0).map(Duration::from_micros);
        SystemdNotifier {
            notify_socket,
            interval: interval.map(|allowed| allowed / NOTIFICATIONS_PER_TIMEOUT),
            ..SystemdNotifier::default()
        }
    }

    /// Returns the longest time until the next notification is due.
    pub fn max_interval(&self) -> Option<Duration> {
        self.notify_socket.as_ref().and(self.interval)
    }

    /// Notifies that the node answers requests, even if it has no chain yet. Sent once.
    pub fn notify_ready(&mut self) {
        self.is_ready = self.is_ready || self.notify("READY=1\n");
    }

    /// Notifies that the node is alive, and of its `status`. `uptime` is the time since the start.
    pub fn notify_alive(&mut self, uptime: Duration, status: impl FnOnce() -> String) {
        if self.notify_socket.is_none() {
            return;
        }
        if let Some(interval) = self.interval.filter(|_| uptime >= self.watchdog_due) {
            self.watchdog_due = uptime + interval;
            self.notify("WATCHDOG=1\n");
        }
        if uptime >= self.status_due {
            self.status_due = uptime + STATUS_INTERVAL;
            let status = status();
            if status != self.status && self.notify(&format!("STATUS={status}\n")) {
                self.status = status;
            }
        }
    }

    /// Notifies that the node is stopping. A lost notification does no harm, since the exit is noticed soon.
    pub fn notify_stopping(&self) {
        let _ = self.notify("STOPPING=1\n");
    }

    /// Sends a notification; true also without a supervisor. One that would block is dropped: it is repeated or
    /// unimportant.
    fn notify(&self, text: &str) -> bool {
        self.notify_socket.as_ref().is_none_or(|(socket, to)| socket.send_to_addr(text.as_bytes(), to).is_ok())
    }
}

/// Opens a socket to a path, or to an abstract name after an `@`.
fn notify_socket(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let to = match name.as_bytes().strip_prefix(b"@") {
        #[cfg(target_os = "linux")]
        Some(name) => <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_group_is_limited_by_the_groups_around_it() {
        let paths: Vec<_> = group_limits("4:memory:/a/b\n1:cpu,cpuacct:/a\n0::/c\nnonsense").collect();
        let expected = [
            "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/c/memory.max",
            "/sys/fs/cgroup/memory.max",
        ];
        assert_eq!(paths, expected.map(PathBuf::from));
    }

    #[test]
    fn the_smallest_limit_on_memory_counts_and_one_that_is_not_told_does_not() {
        let limit = |files: &[(&str, &str)]| {
            let content =
                |path: &Path| files.iter().find(|file| Path::new(file.0) == path).map(|file| file.1.to_owned());
            smallest_limit(|path| content(path).unwrap_or_default())
        };
        let machine = ("/proc/meminfo", "MemTotal:  4 kB\n");
        let group = ("/proc/self/cgroup", "0::/a/b\n");
        let of_group = |limit| ("/sys/fs/cgroup/a/memory.max", limit);
        assert_eq!(limit(&[machine, group, of_group("1000\n")]), Some(1000));
        assert_eq!(limit(&[machine, group, of_group("5000\n")]), Some(4096));
        assert_eq!(limit(&[machine, group, of_group("max\n")]), Some(4096));
        assert_eq!(limit(&[group, of_group("1000\n")]), Some(1000));
        assert_eq!(limit(&[group, of_group("max\n")]), None);
    }

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
