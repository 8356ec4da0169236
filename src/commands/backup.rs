//! Copying the store of a running node: `nisd backup`.

use super::{Clocks, CommandError, Stop, open_to_read};
use crate::cli;
use crate::config::Settings;
use crate::state;
use crate::store::{self, AccessMode, Options, Store, StoreCopy, StoreError};

/// Time between two lines that tell how far it is, in milliseconds.
const TELL_EVERY: u64 = 5_000;

/// `nisd backup`. Prints the height of the copy and the digest of its state, as `nisd digest` does.
pub fn backup(command: &cli::Backup, settings: &Settings, clocks: Clocks, stop: Stop) -> Result<(), CommandError> {
    let (data, folder) = (&command.store.data, &command.folder);
    let failed = |error| CommandError::Open(folder.clone(), error);
    let (store, _) = open_to_read(&command.store, settings, stop)?;
    let snapshot = store.snapshot()?;
    let tip = store::tip(&snapshot)?.ok_or(StoreError::Empty)?;
    let size = store::size(data).map_err(|error| CommandError::File(data.clone(), error))?;
    let options = Options { map_size: settings.map_size };
    let copy = StoreCopy::begin(&snapshot, size, folder, options).map_err(failed)?;
    log::info!("copying the store as it is at height {}; nodes go on meanwhile", tip.height);
    let mut told = Told { clocks, next: (clocks.millis)() + TELL_EVERY };
    let bytes = copy.write(&mut |bytes| told.tell("copied", bytes, size))?;
    copy.compare(&mut |done| told.tell("compared", done, bytes))?;
    copy.put_in_place()?;
    let (copy, _) = Store::open_existing(folder, AccessMode::Shared, options).map_err(failed)?;
    let digest = state::digest(&copy.snapshot()?)?;
    let copied = store::size(folder).unwrap_or(bytes);
    log::info!("{} holds a copy of {} MiB", folder.display(), copied.div_ceil(1 << 20));
    super::print(format_args!("{} {digest}", tip.height))
}

/// Tells how far the work is, not too often.
struct Told {
    clocks: Clocks,
    next: u64,
}

impl Told {
    fn tell(&mut self, what: &str, bytes: u64, of: u64) {
        let now = (self.clocks.millis)();
        if now >= self.next {
            self.next = now + TELL_EVERY;
            log::info!("{what} {} of at most {} MiB", bytes >> 20, of.div_ceil(1 << 20));
        }
    }
}
