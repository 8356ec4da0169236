//! Notifications to systemd by the `sd_notify` protocol: readiness, status, watchdog.
//!
//! The socket never blocks the loop, whatever its reader does. Libraries are not used because they all write to a
//! blocking socket.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::time::Duration;

/// Minimum time between two status lines.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// Watchdog notifications per watchdog timeout.
const NOTIFICATIONS_PER_TIMEOUT: u32 = 4;

/// The supervisor (systemd) that started the node, if there is one.
pub struct SystemdNotifier {
    notify_socket: Option<NotifySocket>,
    /// Interval of watchdog notifications.
    interval: Option<Duration>,
    watchdog_due: Duration,
    status_due: Duration,
    status: String,
    is_ready: bool,
}

/// The notification socket.
struct NotifySocket {
    socket: UnixDatagram,
    to: SocketAddr,
}

impl SystemdNotifier {
    /// Creates it from the environment.
    pub fn from_env() -> SystemdNotifier {
        let line = env::var_os("NOTIFY_SOCKET").and_then(|name| match NotifySocket::to(&name) {
            Ok(line) => Some(line),
            Err(error) => {
                log::warn!("systemd cannot be notified at {}: {error}", name.display());
                None
            }
        });
        let is_meant = env::var("WATCHDOG_PID").is_ok_and(|pid| pid == process::id().to_string());
        let allowed = env::var("WATCHDOG_USEC").ok().filter(|_| is_meant || env::var_os("WATCHDOG_PID").is_none());
        let interval = allowed.and_then(|micros| micros.parse().ok()).map(Duration::from_micros);
        SystemdNotifier {
            notify_socket: line,
            interval: interval.map(|allowed| allowed / NOTIFICATIONS_PER_TIMEOUT),
            watchdog_due: Duration::ZERO,
            status_due: Duration::ZERO,
            status: String::new(),
            is_ready: false,
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

    /// Notifies that the node is alive, and of its `status`. `running` is the time since the start.
    pub fn notify_alive(&mut self, running: Duration, status: impl FnOnce() -> String) {
        if self.notify_socket.is_none() {
            return;
        }
        if let Some(interval) = self.interval.filter(|_| running >= self.watchdog_due) {
            self.watchdog_due = running + interval;
            self.notify("WATCHDOG=1\n");
        }
        if running >= self.status_due {
            self.status_due = running + STATUS_INTERVAL;
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
        self.notify_socket
            .as_ref()
            .is_none_or(|NotifySocket { socket, to }| socket.send_to_addr(text.as_bytes(), to).is_ok())
    }
}

impl NotifySocket {
    /// Opens a socket to a path, or to an abstract name after an `@`.
    fn to(name: &OsStr) -> io::Result<NotifySocket> {
        let to = match name.as_bytes().strip_prefix(b"@") {
            #[cfg(target_os = "linux")]
            Some(name) => <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(NotifySocket { socket, to })
    }
}
