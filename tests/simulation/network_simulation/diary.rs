//! What the nodes of a network log, for people who look into one seed: `NISD_LOG=1`.

use std::cell::Cell;
use std::time::Duration;

use log::{LevelFilter, Log, Metadata, Record};

use crate::common::loudly;

thread_local! {
    /// Virtual time, and the member that does something.
    static PRESENT: Cell<(Duration, usize)> = const { Cell::new((Duration::ZERO, 0)) };
}

struct Diary;

impl Log for Diary {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let (now, member) = PRESENT.get();
        loudly(&format!("{:9.3} {member} {}", now.as_secs_f64(), record.args()));
    }

    fn flush(&self) {}
}

/// Shows what nodes log, if somebody wants to see it.
pub fn open() {
    if std::env::var_os("NISD_LOG").is_some() && log::set_logger(&Diary).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
}

/// A member does something.
pub fn turn_to(now: Duration, member: usize) {
    PRESENT.set((now, member));
}
