//! The helper that synchronises the disk. It opens nothing; its files are opened for it alone.
//!
//! If the helper cannot be started or has ended, the node waits for the disk itself and answers no client meanwhile.

use std::fs::File;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use log::Level;
use mio::{Registry, Token};

use super::helper::{Helper, HelperEvent, Job};
use crate::store::{Store, SyncFile};

/// The job of the helper. Its standard input is the data file of the store, its standard output the record of what is
/// durable.
pub static JOB: Job = Job {
    argument: "helper-disk-sync",
    purpose: "wait for the disk",
    consequence: "the node does, and requests wait meanwhile",
    start_interval: Duration::from_secs(60),
    begin: |files| Box::new(move |request| sync(request, &files)),
};

/// Synchronises the file that a request names by one byte. The answer is a byte: 0, or the number of the system's error.
fn sync(request: &[u8], [data, record]: &[File; 2]) -> Vec<u8> {
    let result = match request {
        [file] if *file == SyncFile::Data as u8 => data.sync_data(),
        [file] if *file == SyncFile::Record as u8 => record.sync_data(),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    vec![result.map_or_else(|error| errno_byte(&error), |()| 0)]
}

/// Returns the number of an error as a byte; `EIO` if it has none that fits.
fn errno_byte(error: &io::Error) -> u8 {
    let number = error.raw_os_error().and_then(|number| u8::try_from(number).ok()).filter(|number| *number > 0);
    number.unwrap_or(rustix::io::Errno::IO.raw_os_error() as u8)
}

/// Poll token of the helper.
pub const TOKEN: Token = Token(1);

/// Time after which a disk that has not confirmed a write is reported.
const LATE_AFTER: Duration = Duration::from_secs(30);

/// Reports a disk that does not answer once, and the end of that.
#[derive(Debug, Default)]
struct LateReport {
    /// When the reported request was written.
    reported: Option<Duration>,
}

impl LateReport {
    /// Returns what to report, given when the request was written that the disk has not confirmed.
    fn next(&mut self, asked_at: Option<Duration>, now: Duration) -> Option<(Level, String)> {
        match self.reported {
            Some(since) if asked_at != Some(since) => {
                self.reported = None;
                let seconds = now.saturating_sub(since).as_secs();
                Some((Level::Info, format!("the disk has confirmed a write after {seconds} s")))
            }
            None if asked_at.is_some_and(|asked_at| now >= asked_at + LATE_AFTER) => {
                self.reported = asked_at;
                let text = format!(
                    "the disk has not confirmed a write for {} s; no block is processed until it does. See the system's log",
                    LATE_AFTER.as_secs()
                );
                Some((Level::Warn, text))
            }
            _ => None,
        }
    }
}

/// The helper of a store.
pub struct DiskSync<'a> {
    store: &'a Store,
    helper: Helper,
    late: LateReport,
}

impl<'a> DiskSync<'a> {
    /// Starts the helper of a store.
    pub fn start(store: &'a Store, registry: &Registry, now: Duration) -> io::Result<DiskSync<'a>> {
        let helper = Helper::new(&JOB, TOKEN, registry)?;
        let mut sync = DiskSync { store, helper, late: LateReport::default() };
        sync.try_start(now);
        Ok(sync)
    }

    fn try_start(&mut self, now: Duration) {
        let files = || Ok(self.store.durability().helper_files()?.map(|files| files.map(Stdio::from)));
        if self.helper.start(files, now) {
            self.store.durability().set_helper(true);
        }
    }

    /// Reads the answers of the helper.
    pub fn read_answers(&mut self) {
        while let Some(event) = self.helper.next_event() {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: HelperEvent) {
        match event {
            HelperEvent::Answer(answer) => self.store.durability().on_synced(match answer[..] {
                [0] => Ok(()),
                [error] => Err(io::Error::from_raw_os_error(error.into())),
                _ => Err(io::ErrorKind::InvalidData.into()),
            }),
            HelperEvent::Ended(why) => {
                log::warn!(
                    "the helper process that waits for the disk {why}; the node waits itself until it has another one"
                );
                self.late = LateReport::default();
                self.store.durability().set_helper(false);
            }
        }
    }

    /// Returns when the request was written that the disk has not confirmed.
    pub fn asked_at(&self) -> Option<Duration> {
        self.helper.asked_at()
    }

    /// Requests the next synchronisation that the store needs. Starts another helper if none is running and one is due.
    /// Reports a disk that does not answer.
    pub fn request_sync(&mut self, now: Duration) {
        if let Some((level, text)) = self.late.next(self.helper.asked_at(), now) {
            log::log!(level, "{text}");
        }
        if !self.helper.is_running() {
            self.try_start(now);
        }
        if self.helper.is_running()
            && let Some(file) = self.store.durability().next_sync()
            && let Err(why) = self.helper.ask(&[file as u8], now)
        {
            self.handle(HelperEvent::Ended(why));
        }
    }
}

impl Drop for DiskSync<'_> {
    /// On exit the node waits for the disk itself; the helper ends when its socket closes.
    fn drop(&mut self) {
        self.store.durability().set_helper(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_does_not_answer_is_reported_once_and_so_is_its_answer() {
        let seconds = Duration::from_secs;
        let mut late = LateReport::default();
        let mut levels = Vec::new();
        // The second request is answered in time, the third is late again.
        let requests = [(0..100, Some(10)), (100..110, None), (110..130, Some(110)), (130..200, Some(130))];
        for (times, asked_at) in requests {
            for now in times {
                if let Some((level, text)) = late.next(asked_at.filter(|at| *at <= now).map(seconds), seconds(now)) {
                    levels.push((now, level, text));
                }
            }
        }
        let found: Vec<_> = levels.iter().map(|(now, level, _)| (*now, *level)).collect();
        assert_eq!(found, [(40, Level::Warn), (100, Level::Info), (160, Level::Warn)]);
        assert!(levels[0].2.contains("has not confirmed a write for 30 s"), "{}", levels[0].2);
        assert_eq!(levels[1].2, "the disk has confirmed a write after 90 s");
    }
}
