//! What systemd is told of the node, by the protocol of `sd_notify`: that it is ready, what it does, that it is alive.
//!
//! The socket never makes the loop wait, whatever becomes of who reads it; that is why this is not left to a library,
//! all of which write to a blocking one.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::time::Duration;

/// Least time between two status lines.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// How often in the time that it allows the supervisor is told that the node is alive.
const SIGNS_OF_LIFE: u32 = 4;

/// Who has started the node and looks after it, if anybody does.
pub struct Supervisor {
    line: Option<Line>,
    /// How often it is to be told that the node is alive.
    interval: Option<Duration>,
    alive_due: Duration,
    status_due: Duration,
    status: String,
    is_ready: bool,
}

/// The way to the supervisor.
struct Line {
    socket: UnixDatagram,
    to: SocketAddr,
}

impl Supervisor {
    /// The one that the environment names.
    pub fn of_environment() -> Supervisor {
        let line = env::var_os("NOTIFY_SOCKET").and_then(|name| match Line::to(&name) {
            Ok(line) => Some(line),
            Err(error) => {
                log::warn!("systemd cannot be told anything at {}: {error}", name.display());
                None
            }
        });
        let is_meant = env::var("WATCHDOG_PID").is_ok_and(|pid| pid == process::id().to_string());
        let allowed = env::var("WATCHDOG_USEC").ok().filter(|_| is_meant || env::var_os("WATCHDOG_PID").is_none());
        let interval = allowed.and_then(|micros| micros.parse().ok()).map(Duration::from_micros);
        Supervisor {
            line,
            interval: interval.map(|allowed| allowed / SIGNS_OF_LIFE),
            alive_due: Duration::ZERO,
            status_due: Duration::ZERO,
            status: String::new(),
            is_ready: false,
        }
    }

    /// The longest time until it is to be told something again.
    pub fn patience(&self) -> Option<Duration> {
        self.line.as_ref().and(self.interval)
    }

    /// The node answers requests, be it that it has no chain yet.
    pub fn ready(&mut self) {
        self.is_ready = self.is_ready || self.tell("READY=1\n");
    }

    /// The node is alive, and does what `status` says; `running` is the time since it was started.
    pub fn alive(&mut self, running: Duration, status: impl FnOnce() -> String) {
        if self.line.is_none() {
            return;
        }
        if let Some(interval) = self.interval.filter(|_| running >= self.alive_due) {
            self.alive_due = running + interval;
            self.tell("WATCHDOG=1\n");
        }
        if running >= self.status_due {
            self.status_due = running + STATUS_INTERVAL;
            let status = status();
            if status != self.status && self.tell(&format!("STATUS={status}\n")) {
                self.status = status;
            }
        }
    }

    /// The node ends. If that cannot be told, it is seen soon.
    pub fn stopping(&self) {
        let _ = self.tell("STOPPING=1\n");
    }

    /// Whether that is told. What cannot be sent at once is dropped: it is told again, or not worth waiting.
    fn tell(&self, text: &str) -> bool {
        self.line.as_ref().is_none_or(|Line { socket, to }| socket.send_to_addr(text.as_bytes(), to).is_ok())
    }
}

impl Line {
    /// To the socket at a path, or with an abstract name behind an `@`.
    fn to(name: &OsStr) -> io::Result<Line> {
        let to = match name.as_bytes().strip_prefix(b"@") {
            #[cfg(target_os = "linux")]
            Some(name) => <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Line { socket, to })
    }
}
