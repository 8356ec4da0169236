//! The helper that synchronises the disk. It opens nothing; its files are opened for it alone.
//!
//! If the helper cannot be started or has ended, the node waits for the disk itself and answers no client meanwhile.

use std::fs::File;
use std::io;
use std::process::Stdio;
use std::time::Duration;

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

/// The helper of a store.
pub struct DiskSync<'a> {
    store: &'a Store,
    helper: Helper,
}

impl<'a> DiskSync<'a> {
    /// Starts the helper of a store.
    pub fn start(store: &'a Store, registry: &Registry, now: Duration) -> io::Result<DiskSync<'a>> {
        let mut sync = DiskSync { store, helper: Helper::new(&JOB, TOKEN, registry)? };
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
                self.store.durability().set_helper(false);
            }
        }
    }

    /// Requests the next synchronisation that the store needs. Starts another helper if none is running and one is due.
    pub fn request_sync(&mut self, now: Duration) {
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
