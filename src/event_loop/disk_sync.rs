//! The helper that synchronises the disk. It opens nothing; its files are opened for it alone.
//!
//! If the helper cannot be started or has ended, the node waits for the disk itself and answers no client meanwhile.

use std::fs::File;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use log::Level;
use mio::{Registry, Token};

use super::helper::{Helper, Job};
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

/// Synchronises the file that a request names by one byte. The answer is JSON of the result, with the number of the system's
/// error, or of `EIO` if it has none.
fn sync(request: &[u8], [data, record]: &[File; 2]) -> Vec<u8> {
    let result = match request {
        [file] if *file == SyncFile::Data as u8 => data.sync_data(),
        [file] if *file == SyncFile::Record as u8 => record.sync_data(),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    let number = |error: io::Error| error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error());
    serde_json::to_vec(&result.map_err(number)).unwrap_or_default()
}

/// Poll token of the helper.
pub const TOKEN: Token = Token(1);

/// Time after which a disk that has not confirmed a write is reported.
const LATE_AFTER: Duration = Duration::from_secs(30);

/// Returns what to report of a disk that does not answer, once, and of the end of that. `reported` is when the reported
/// request was written, `asked_at` when the one was that the disk has not confirmed.
fn late_report(reported: &mut Option<Duration>, asked_at: Option<Duration>, now: Duration) -> Option<(Level, String)> {
    match *reported {
        Some(since) if asked_at != Some(since) => {
            *reported = None;
            let seconds = now.saturating_sub(since).as_secs();
            Some((Level::Info, format!("the disk has confirmed a write after {seconds} s")))
        }
        None if asked_at.is_some_and(|asked_at| now >= asked_at + LATE_AFTER) => {
            *reported = asked_at;
            let text = format!(
                "the disk has not confirmed a write for {} s; no block is processed until it does. See the system's log",
                LATE_AFTER.as_secs()
            );
            Some((Level::Warn, text))
        }
        _ => None,
    }
}

/// The helper of a store.
pub struct DiskSync<'a> {
    pub store: &'a Store,
    pub helper: Helper,
    /// When the request was written that was reported as late.
    reported: Option<Duration>,
}

impl<'a> DiskSync<'a> {
    /// Starts the helper of a store.
    pub fn start(store: &'a Store, registry: &Registry, now: Duration) -> io::Result<DiskSync<'a>> {
        let helper = Helper::new(&JOB, TOKEN, registry)?;
        let mut sync = DiskSync { store, helper, reported: None };
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
        while let Some(answer) = self.helper.next_answer() {
            match answer.map(|answer| serde_json::from_slice::<Result<(), i32>>(&answer)) {
                Ok(Ok(result)) => self.store.durability().on_synced(result.map_err(io::Error::from_raw_os_error)),
                Ok(Err(error)) => self.store.durability().on_synced(Err(error.into())),
                Err(why) => self.on_end(&why),
            }
        }
    }

    /// Handles the end of the helper.
    fn on_end(&mut self, why: &str) {
        log::warn!("the helper process that waits for the disk {why}; the node waits itself until it has another one");
        self.reported = None;
        self.store.durability().set_helper(false);
    }

    /// Requests the next synchronisation that the store needs. Starts another helper if none is running and one is due.
    /// Reports a disk that does not answer.
    pub fn request_sync(&mut self, now: Duration) {
        if let Some((level, text)) = late_report(&mut self.reported, self.helper.asked_at(), now) {
            log::log!(level, "{text}");
        }
        if !self.helper.is_running() {
            self.try_start(now);
        }
        if self.helper.is_running()
            && let Some(file) = self.store.durability().next_sync()
            && let Err(why) = self.helper.ask(&[file as u8], now)
        {
            self.on_end(&why);
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
        let mut reported = None;
        let mut levels = Vec::new();
        // The second request is answered in time, the third is late again.
        let requests = [(0..100, Some(10)), (100..110, None), (110..130, Some(110)), (130..200, Some(130))];
        for (times, asked_at) in requests {
            for now in times {
                let asked_at = asked_at.filter(|at| *at <= now).map(seconds);
                if let Some((level, text)) = late_report(&mut reported, asked_at, seconds(now)) {
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
