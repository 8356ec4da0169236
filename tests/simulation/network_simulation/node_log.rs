//! Prints the logs of a network's nodes for debugging one seed: `NISD_LOG=1`.

use std::cell::Cell;
use std::time::Duration;

use log::{LevelFilter, Log, Metadata, Record};

use crate::common::print_notice;

thread_local! {
    /// Virtual time and the acting member.
    static CURRENT: Cell<(Duration, usize)> = const { Cell::new((Duration::ZERO, 0)) };
}

struct NodeLog;

impl Log for NodeLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let (now, member) = CURRENT.get();
        print_notice(&format!("{:9.3} {member} {}", now.as_secs_f64(), record.args()));
    }

    fn flush(&self) {}
}

/// Prints the logs of nodes if `NISD_LOG` asks for it.
pub fn open() {
    if std::env::var_os("NISD_LOG").is_some() && log::set_logger(&NodeLog).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
}

/// Sets the acting member.
pub fn set_current(now: Duration, member: usize) {
    CURRENT.set((now, member));
}
