//! Copying the store of a running node: `nisd backup`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;

use super::{Clocks, CommandError, Stop, open_to_read, refuse_other_network};
use crate::cli;
use crate::codec::network_from_text;
use crate::config::Settings;
use crate::model::Network;
use crate::state;
use crate::store::{self, AccessMode, Options, Store, StoreCopy, StoreError};

/// Time between two lines that tell how far it is, in milliseconds.
const TELL_EVERY: u64 = 5_000;
/// The form of the name of a copy among others, with 0 for each digit: the time at which it was begun, in UTC.
const NAME: &str = "0000-00-00T000000Z";

/// `nisd backup`. Prints the height of the copy and the digest of its state, as `nisd digest` does.
pub fn backup(command: &cli::Backup, settings: &Settings, clocks: Clocks, stop: Stop) -> Result<(), CommandError> {
    let data = &command.store.data;
    let folder = match command.keep {
        Some(_) => command.folder.join(name((clocks.unix_millis)())),
        None => command.folder.clone(),
    };
    let failed = |error| CommandError::Open(folder.clone(), error);
    let (store, network) = open_to_read(&command.store, settings, stop)?;
    let options = Options { map_size: settings.map_size };
    if store::exists(&folder) {
        refuse_other_store(data, &folder, &network, options)?;
    }
    let snapshot = store.snapshot()?;
    let tip = store::tip(&snapshot)?.ok_or(StoreError::Empty)?;
    let size = store::size(data).map_err(|error| CommandError::File(data.clone(), error))?;
    let copy = StoreCopy::begin(&snapshot, size, &folder, options).map_err(failed)?;
    log::info!("copying the store as it is at height {}; nodes go on meanwhile", tip.height);
    let mut told = Told { clocks, next: (clocks.millis)() + TELL_EVERY };
    let bytes = copy.write(&mut |bytes| told.tell("copied", bytes, size))?;
    copy.compare(&mut |done| told.tell("compared", done, bytes))?;
    copy.put_in_place()?;
    let (copy, _) = Store::open_existing(&folder, AccessMode::Shared, options).map_err(failed)?;
    let digest = state::digest(&copy.snapshot()?)?;
    let copied = store::size(&folder).unwrap_or(bytes);
    log::info!("{} holds a copy of {} MiB", folder.display(), copied.div_ceil(1 << 20));
    if let Some(keep) = command.keep {
        remove_older(&command.folder, usize::from(keep))
            .map_err(|error| CommandError::File(command.folder.clone(), error))?;
    }
    super::print(format_args!("{} {digest}", tip.height))
}

/// Refuses to replace a store that is not an earlier copy of this one: the store itself, or one of another network.
fn refuse_other_store(data: &Path, folder: &Path, network: &Network, options: Options) -> Result<(), CommandError> {
    let failed = |error| CommandError::Open(folder.to_owned(), error);
    let whole = |path: &Path| fs::canonicalize(path).map_err(|error| CommandError::File(path.to_owned(), error));
    if whole(data)? == whole(folder)? {
        let text = "the copy has to go to another folder than that of the store";
        return Err(CommandError::Usage(text.to_owned()));
    }
    let (_, text) = Store::open_existing(folder, AccessMode::Shared, options).map_err(failed)?;
    let stored = network_from_text(&text);
    let stored = stored.ok_or_else(|| failed(StoreError::Damaged("the description of the network")))?;
    refuse_other_network(&stored, Some(network)).map_err(failed)
}

/// The name of a copy that is begun now.
fn name(unix_millis: i64) -> String {
    let now = OffsetDateTime::from_unix_timestamp(unix_millis.div_euclid(1000)).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = (now.year(), u8::from(now.month()), now.day());
    let (hour, minute, second) = now.to_hms();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Removes copies that were not completed, and the oldest ones beyond so many. What is not named like a copy stays.
fn remove_older(folder: &Path, keep: usize) -> io::Result<()> {
    let mut copies: Vec<PathBuf> = fs::read_dir(folder)?
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().is_some_and(is_name))
        .map(|entry| entry.path())
        .collect();
    // The names are in the order of time.
    copies.sort_unstable();
    let (complete, incomplete): (Vec<_>, Vec<_>) = copies.into_iter().partition(|copy| store::exists(copy));
    let older = complete.len().saturating_sub(keep);
    for copy in incomplete.iter().chain(&complete[..older]) {
        store::remove_copy(copy)?;
        log::info!("removed the older copy {}", copy.display());
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    let digits_as_0 = |c: char| if c.is_ascii_digit() { '0' } else { c };
    text.chars().map(digits_as_0).eq(NAME.chars())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_copies_are_in_the_order_of_time() {
        assert_eq!(name(1_427_587_585_000), "2015-03-29T000625Z");
        assert!(is_name(&name(0)) && name(0) < name(1_000) && name(999) == name(0));
        for text in ["", "2015-03-29", "2015-03-29T000625Z.old", "2015-03-29T00062xZ", "x"] {
            assert!(!is_name(text), "{text}");
        }
    }

    #[test]
    fn only_copies_are_removed_and_the_newest_stay() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        for second in 1..=4 {
            fs::create_dir(of(&name(second * 1000))).unwrap();
            fs::write(of(&name(second * 1000)).join("data.mdb"), "a").unwrap();
        }
        fs::create_dir_all(of(&name(5000)).join("unfinished")).unwrap();
        fs::create_dir(of("other")).unwrap();
        remove_older(folder.path(), 2).unwrap();
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [name(3000), name(4000), "other".to_owned()]);
        // What somebody has put there is not lost.
        fs::write(of(&name(3000)).join("settled"), "a").unwrap();
        assert!(remove_older(folder.path(), 1).is_err());
        assert!(of(&name(3000)).join("settled").exists());
    }
}
