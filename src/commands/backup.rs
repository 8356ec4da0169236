//! `nisd backup`: copies the store, also of a running node.

use std::fs;
use std::path::{Path, PathBuf, absolute};

use clap::Args;

use super::store::{StoreArguments, open_existing, progress_log, stored_network, verify_rows};
use super::{CommandError, Stop, folder, in_file, in_store, print, store_options, usage};
use crate::clock::System;
use crate::config::Settings;
use crate::model::{Network, utc};
use crate::state;
use crate::store::{self, AccessMode, Options, StoreBackup, StoreError};

/// Pattern of the name of a copy, with 0 for each digit: the time at which it was started, in UTC.
const NAME: &str = "0000-00-00T000000Z";

/// `nisd backup`.
#[derive(Args, Debug)]
pub struct Backup {
    /// The store.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Folder for the copy: empty, missing, or with an earlier copy, which is replaced
    #[arg(value_name = "DIR", value_parser = folder())]
    pub folder: PathBuf,
    /// Create a folder for this copy in DIR, named by the time; remove interrupted copies, and the oldest ones beyond N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub keep: Option<u16>,
}

/// Runs `nisd backup`. Prints the height of the copy and the digest of its state, as `nisd digest` does.
pub fn backup(command: &Backup, settings: &Settings, system: System, stop: Stop) -> Result<(), CommandError> {
    let data = &command.store.data;
    if store::is_work_folder(&absolute(&command.folder).map_err(in_file(&command.folder))?) {
        let folder = command.folder.display();
        return Err(usage(format!("{folder} is a name that `nisd` uses itself below a store: name another folder")));
    }
    let folder = match command.keep {
        Some(_) => command.folder.join(name((system.unix_millis)())),
        None => command.folder.clone(),
    };
    let (store, network) = open_existing(&command.store, settings, AccessMode::Shared, stop)?;
    let options = store_options(settings);
    if command.keep.is_some() {
        let copies = Copies::in_folder(&command.folder);
        if let Some(running) = copies.running.first() {
            return Err(StoreError::BackupRunning(running.clone()).into());
        }
        // Removed first: they may be what filled the disk.
        remove_all(&copies.interrupted, "interrupted");
    }
    if store::exists(&folder) {
        check_replaceable(data, &folder, &network, options)?;
    }
    let tip = store::tip(&store.snapshot()?)?.ok_or(StoreError::Empty)?;
    let size = store::size(data).map_err(in_file(data))?;
    let copy = StoreBackup::begin(&store, size, &folder).map_err(in_store(&folder))?;
    log::info!("copying the store at height {}; nodes keep running", tip.height);
    let bytes = copy.write(&mut progress_log(system, "copied", size))?;
    let (height, digest) = {
        let copy = copy.open(options).map_err(in_store(&folder))?;
        let snapshot = copy.snapshot()?;
        verify_rows(&snapshot, bytes, system)?;
        // A node may have gone on before the pages were copied.
        (store::tip(&snapshot)?.ok_or(StoreError::Empty)?.height, state::digest(&snapshot)?)
    };
    copy.install()?;
    log::info!("{} holds a copy of {} MiB", folder.display(), bytes.div_ceil(1 << 20));
    if let Some(keep) = command.keep {
        let mut others = Copies::in_folder(&command.folder).complete;
        others.retain(|copy| *copy != folder && may_be_of(&network, copy, options));
        warn_of_later(&others, &folder);
        let older = others.len().saturating_sub(usize::from(keep) - 1);
        remove_all(&others[..older], "older");
    }
    print(&format!("{height} {digest}\n"))
}

/// Rejects the target folder if it holds the store itself or a store of another network. Any other earlier copy may be
/// replaced, also one of another version or a damaged one.
fn check_replaceable(data: &Path, folder: &Path, network: &Network, options: Options) -> Result<(), CommandError> {
    let whole = |path: &Path| fs::canonicalize(path).map_err(in_file(path));
    if whole(data)? == whole(folder)? {
        return Err(usage("the copy must go to another folder than that of the store"));
    }
    match store::stored_network(folder, options).and_then(|text| stored_network(&text, Some(network))) {
        Ok(_) => Ok(()),
        Err(error @ StoreError::OtherNetwork { .. }) => Err(in_store(folder)(error)),
        Err(error) => {
            log::warn!("replacing the earlier copy in {}, which cannot be read: {error}", folder.display());
            Ok(())
        }
    }
}

/// Returns whether a copy may be one of this network, as far as it can be read. A warning names one of another network.
fn may_be_of(network: &Network, copy: &Path, options: Options) -> bool {
    let read = store::stored_network(copy, options).and_then(|text| stored_network(&text, Some(network)));
    let is_other = matches!(read, Err(StoreError::OtherNetwork { .. }));
    if is_other {
        log::warn!("{} is a copy of another network: it is kept, and does not count", copy.display());
    }
    !is_other
}

/// Returns the name of a copy that is started now.
fn name(unix_millis: i64) -> String {
    let now = utc(unix_millis);
    let (date, time) = now.split_once(' ').unwrap_or_default();
    format!("{date}T{}Z", time.split('.').next().unwrap_or_default().replace(':', ""))
}

/// The copies in a folder, each kind oldest first.
#[derive(Debug, Default, PartialEq, Eq)]
struct Copies {
    complete: Vec<PathBuf>,
    /// Those that a process writes.
    running: Vec<PathBuf>,
    interrupted: Vec<PathBuf>,
}

impl Copies {
    /// Finds the copies in a folder. Entries whose names do not match [`NAME`] are ignored, and so are links, which lead to
    /// copies elsewhere.
    fn in_folder(folder: &Path) -> Copies {
        let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        let is_copy = |entry: &fs::DirEntry| {
            entry.file_name().to_str().is_some_and(is_name) && entry.file_type().is_ok_and(|kind| kind.is_dir())
        };
        let mut all: Vec<_> = entries.filter(is_copy).map(|entry| entry.path()).collect();
        // Names sort by time.
        all.sort_unstable();
        let mut copies = Copies::default();
        for copy in all {
            if store::is_backup_running(&copy) {
                copies.running.push(copy);
            } else if store::exists(&copy) {
                copies.complete.push(copy);
            } else {
                copies.interrupted.push(copy);
            }
        }
        copies
    }
}

/// Warns of copies whose names are of a later time than that of the copy made now.
fn warn_of_later(others: &[PathBuf], made: &Path) {
    let later: Vec<_> =
        others.iter().filter(|copy| copy.as_path() > made).map(|copy| copy.display().to_string()).collect();
    if !later.is_empty() {
        log::warn!(
            "the clock of this machine is wrong, or was when these copies were made, which have a later date and so count \
             as the newest: {}. Remove them if they are old",
            later.join(", ")
        );
    }
}

/// Removes copies. One that cannot be removed stays, with a warning.
fn remove_all(copies: &[PathBuf], which: &str) {
    for copy in copies {
        match store::remove_backup(copy) {
            Ok(()) => log::info!("removed the {which} copy {}", copy.display()),
            Err(error) => log::warn!("the {which} copy {} is not removed: {error}", copy.display()),
        }
    }
}

fn is_name(text: &str) -> bool {
    let digits_as_0 = |c: char| if c.is_ascii_digit() { '0' } else { c };
    text.chars().map(digits_as_0).eq(NAME.chars())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backup_names_sort_by_time() {
        assert_eq!(name(1_427_587_585_000), "2015-03-29T000625Z");
        assert!(is_name(&name(0)) && name(0) < name(1_000) && name(999) == name(0));
        for text in ["", "2015-03-29", "2015-03-29T000625Z.old", "2015-03-29T00062xZ", "x"] {
            assert!(!is_name(text), "{text}");
        }
    }

    #[test]
    fn removal_deletes_only_backups_and_keeps_those_with_added_files() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        for second in 1..=3 {
            fs::create_dir(of(&name(second * 1000))).unwrap();
            fs::write(of(&name(second * 1000)).join("data.mdb"), "a").unwrap();
        }
        fs::create_dir_all(of(&name(4000)).join("unfinished")).unwrap();
        fs::create_dir(of("other")).unwrap();
        fs::write(of(&name(4000)).join("unfinished/data.mdb"), "a").unwrap();
        let copies = Copies::in_folder(folder.path());
        assert_eq!(copies.complete, [1000, 2000, 3000].map(|time| of(&name(time))));
        assert_eq!((copies.running, &copies.interrupted), (Vec::new(), &vec![of(&name(4000))]));
        // A node may run on this copy.
        fs::write(of(&name(1000)).join("settled"), "a").unwrap();
        remove_all(&copies.interrupted, "interrupted");
        remove_all(&copies.complete[..2], "older");
        let left = Copies::in_folder(folder.path());
        assert_eq!(left.complete, [1000, 3000].map(|time| of(&name(time))));
        assert!(left.interrupted.is_empty() && of("other").exists());
        assert!(of(&name(1000)).join("data.mdb").exists());
        assert_eq!(Copies::in_folder(&of("nothing")), Copies::default());
    }
}
