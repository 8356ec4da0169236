//! Power cuts at any moment after which the disk has lost any of the unsynced writes and any of the unsynced renames:
//! the store holds the state after some commit, and not an earlier one than was reported. Before them, any write and any
//! sync may fail, alone, in series or at random; a failed sync may have dropped what it was to make durable.
//!
//! A process changes a store and records in a file what it commits and what was reported to it; all its disk operations are
//! logged (`common/slow_disk.rs`) and replayed here. `POWER_CUTS=5` tests five times as many losses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::slow_disk::{Faults, SlowDisk};
use crate::common::{Random, from_environment, print_notice};
use nisd::store::{
    AccessMode, BootId, ChainIdentity, Options, Read, Store, StoreError, StoreRebuild, SyncFile, Table, Write, WriteTxn,
};
use tempfile::TempDir;

const OPTIONS: Options = Options { map_size: 64 << 20 };
/// Unit that a disk writes atomically.
const PAGE: usize = 4096;
/// Openings and commits of a process whose disk fails.
const ATTEMPTS: usize = 12;
/// Maximum number of pages and names of a cut that are each lost alone and kept alone.
const MAX_EACH: usize = 20;
/// Set for a process that changes the store in this folder, and the part it performs.
const FOLDER: &str = "NISD_POWER_CUT_STORE";
const PART: &str = "NISD_POWER_CUT_PART";
/// The file in which that process records what it has committed and what was reported to it.
const MARKS: &str = "marks";

fn identity() -> ChainIdentity {
    ChainIdentity { name: "test".to_owned(), text: String::new() }
}

/// Returns one number for the whole content of a store.
fn digest(state: &impl Read) -> u64 {
    let mut hash = DefaultHasher::new();
    for table in Table::ALL.into_iter().filter(|table| *table != Table::Checksums) {
        for (key, value) in state.entries(table, &[]).expect("a table").map(|entry| entry.expect("an entry")) {
            for part in [key, value] {
                hash.write_usize(part.len());
                hash.write(part);
            }
        }
    }
    hash.finish()
}

/// Returns the files of a new helper process.
fn helper_files(store: &Store) -> Result<[File; 2], StoreError> {
    Ok(store.durability().helper_files()?.expect("files"))
}

/// A process that changes a store.
struct Writer {
    folder: PathBuf,
    random: Random,
}

impl Writer {
    fn mark(&self, text: String) {
        let mut marks = File::options().create(true).append(true).open(self.folder.join(MARKS)).expect("a file");
        marks.write_all(text.as_bytes()).expect("room");
    }

    /// Records a state that a power cut may lead to from now on.
    fn mark_possible(&self, state: &impl Read) {
        self.mark(format!("may {}", digest(state)));
    }

    /// Records that a power cut cannot lead to a state earlier than the one `before` commits ago.
    fn mark_reported(&self, before: usize) {
        self.mark(format!("reported {before}"));
    }

    fn changed<'s>(&mut self, store: &'s Store) -> WriteTxn<'s> {
        self.try_change(store).expect("room")
    }

    fn try_change<'s>(&mut self, store: &'s Store) -> Result<WriteTxn<'s>, StoreError> {
        let mut batch = store.begin_write()?;
        if self.random.below(2) == 0 {
            batch.collect_changes();
        }
        for _ in 0..2 + self.random.below(6) {
            let table = [Table::Accounts, Table::Harvests][self.random.below(2)];
            let key = (self.random.below(60) as u32).to_be_bytes();
            let length = [10, 200, 1500, 9000][self.random.below(4)];
            let byte = self.random.next() as u8;
            batch.put(table, &key, &vec![byte; length])?;
        }
        self.mark_possible(&batch);
        Ok(batch)
    }

    /// Commits in every possible way.
    fn commits(&mut self, store: &Store, count: usize) {
        for number in 0..count {
            let batch = self.changed(store);
            if number % 3 == 0 {
                batch.commit().expect("room");
                self.mark_reported(0);
                continue;
            }
            batch.commit_deferred_sync().expect("room");
            self.mark_reported(1);
            match number % 9 {
                2 => {
                    store.durability().sync().expect("a disk");
                    self.mark_reported(0);
                }
                4 | 5 => {
                    self.commit_with_helper(store).expect("a disk");
                    self.mark_reported(0);
                }
                _ => {}
            }
        }
    }

    /// Commits with a helper process.
    fn commit_with_helper(&mut self, store: &Store) -> Result<(), StoreError> {
        let files = helper_files(store)?;
        self.try_change(store)?.commit_deferred_sync()?;
        store.durability().set_helper(true);
        let synced = self.sync_by_helper(store, files);
        store.durability().set_helper(false);
        synced
    }

    /// Performs the work of a helper process. One that sees an error may end without a report; then another one takes its
    /// place. What fails may be tried again.
    fn sync_by_helper(&mut self, store: &Store, mut files: [File; 2]) -> Result<(), StoreError> {
        loop {
            match store.durability().poll_sync() {
                Ok(true) => return Ok(()),
                Err(error) if store.failure().is_some() || self.random.coin() => return Err(error),
                Ok(false) | Err(_) => {}
            }
            while let Some(file) = store.durability().next_sync() {
                let result = files[usize::from(file == SyncFile::Record)].sync_data();
                if result.is_err() && self.random.coin() {
                    store.durability().set_helper(false);
                    files = helper_files(store)?;
                    store.durability().set_helper(true);
                } else {
                    store.durability().on_synced(result);
                }
            }
        }
    }

    /// Records that a state was shown: a power cut cannot lead to an earlier one.
    fn mark_shown(&self, state: u64) {
        self.mark(format!("shown {state}"));
    }

    /// Opens the store as a node does: what it holds is shown once it is durable.
    fn open_failing(&self) -> Result<Store, StoreError> {
        let store = Store::open(&self.folder, &identity(), OPTIONS)?;
        let found = digest(&store.snapshot()?);
        self.mark(format!("found {found}"));
        store.durability().sync()?;
        self.mark_shown(found);
        Ok(store)
    }

    /// Makes the last commit durable, or another one, and shows it; then commits in any way.
    fn commit_failing(&mut self, store: &Store) -> Result<(), StoreError> {
        let mut before = digest(&store.snapshot()?);
        if self.random.coin() {
            if self.random.coin() {
                store.durability().sync()?
            } else {
                self.commit_with_helper(store)?
            }
            before = digest(&store.snapshot()?);
            self.mark_shown(before);
        }
        let batch = self.try_change(store)?;
        if self.random.coin() {
            batch.commit()?;
            self.mark_shown(digest(&store.snapshot()?));
        } else {
            batch.commit_deferred_sync()?;
            self.mark_shown(before);
        }
        Ok(())
    }

    /// Commits on a disk that fails. A store that can be used no longer is opened anew, like a node that ends and is
    /// started again.
    fn failing_run(&mut self) {
        let mut open = None;
        for _ in 0..ATTEMPTS {
            let Some(store) = open.take().or_else(|| self.open_failing().ok()) else { continue };
            let _ = self.commit_failing(&store);
            open = Some(store).filter(|store| store.failure().is_none());
        }
        // As after a kill.
        std::mem::forget(open);
    }

    /// A store from its creation on; the process ends during a commit that is not durable.
    fn first_run(&mut self) {
        let store = Store::open(&self.folder, &identity(), OPTIONS).expect("a store");
        self.mark_possible(&store.snapshot().expect("a snapshot"));
        self.mark_reported(0);
        self.commits(&store, 18);
        drop(store);
        self.mark_reported(0);
        let store = Store::open(&self.folder, &identity(), OPTIONS).expect("a store");
        self.commits(&store, 4);
        self.changed(&store).commit_deferred_sync().expect("room");
        self.mark_reported(1);
        // As after a kill.
        std::mem::forget(store);
    }

    /// A helper sees that the data of a commit cannot be written, and ends without a report.
    fn helper_end(&mut self) {
        let faults = |count: u32| {
            let path = std::env::var_os("NISD_TEST_FAULTS").expect("a path");
            fs::write(path, format!("0 0 0 {count} data.mdb")).expect("room");
        };
        let store = self.open_failing().expect("a store");
        let [data, _] = helper_files(&store).expect("files");
        self.changed(&store).commit_deferred_sync().expect("room");
        store.durability().set_helper(true);
        assert!(!store.durability().poll_sync().expect("a disk"));
        assert_eq!(store.durability().next_sync(), Some(SyncFile::Data));
        faults(1);
        data.sync_data().expect_err("a failure");
        faults(0);
        store.durability().set_helper(false);
        // The data file of another helper is opened after the error was reported.
        let synced = helper_files(&store).and_then(|files| {
            store.durability().set_helper(true);
            self.sync_by_helper(&store, files)
        });
        if synced.is_ok() {
            self.mark_shown(digest(&store.snapshot().expect("a snapshot")));
        }
        // As after a kill.
        std::mem::forget(store);
    }

    /// Another process opens that store or a copy of it.
    fn second_run(&mut self) {
        let store = Store::open(&self.folder, &identity(), OPTIONS).expect("a store");
        self.commits(&store, 4);
    }

    /// Opens that store after a system restart.
    fn recovery(&mut self) {
        let store = Store::open_with_boot(BootId::UNKNOWN, &self.folder, &identity(), OPTIONS).expect("a store");
        self.commits(&store, 9);
    }

    /// A new store replaces that one.
    fn replacement(&mut self) {
        let replacement = StoreRebuild::open(&self.folder, |_| Ok(identity()), OPTIONS).expect("a store");
        self.changed(&replacement.new).commit_deferred_sync().expect("room");
        let store = replacement.install().expect("room");
        self.mark_reported(0);
        self.commits(&store, 6);
    }
}

/// Entry point of the process that the tests below start.
#[test]
fn writer() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let mut writer = Writer { folder: folder.into(), random: Random(7) };
    match std::env::var(PART).as_deref() {
        Ok("life") => writer.first_run(),
        Ok("life again") => writer.second_run(),
        Ok("going back") => writer.recovery(),
        Ok("failing life") => writer.failing_run(),
        Ok("ended helper") => writer.helper_end(),
        _ => writer.replacement(),
    }
}

/// A store that is written to, and the log of its disk operations.
struct Recorded {
    folder: TempDir,
    log: PathBuf,
}

impl Recorded {
    fn new() -> Recorded {
        // In memory where possible: each loss is a store.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
        fs::create_dir(folder.path().join("store")).expect("a folder");
        Recorded { log: folder.path().join("log"), folder }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// Lets a process change the store on a disk that fails, after a first life on one that does not, and cuts the power
    /// at each of its steps.
    fn replay_failures(&self, disk: &SlowDisk, faults: Faults) {
        let from = self.steps().len();
        disk.set_faults(faults);
        self.run(disk, "failing life");
        disk.set_faults(Faults::NONE);
        // The next process finds what was shown, without a power cut too.
        self.run(disk, "failing life");
        print_notice(&format!("{faults:?}"));
        replay(Disk::default(), self, from);
    }

    fn run(&self, disk: &SlowDisk, part: &str) {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .args(["store::power_cuts::writer", "--exact", "--test-threads=1"])
            .env(FOLDER, self.store())
            .env(PART, part);
        disk.with_log(&mut command, &self.store(), &self.log);
        let ended = command.output().expect("a process");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    }

    /// Returns the disk after all operations.
    fn all(&self) -> Disk {
        self.steps().into_iter().fold(Disk::default(), |mut disk, step| {
            disk.apply(step);
            disk
        })
    }

    fn steps(&self) -> Vec<Step> {
        let log = fs::read(&self.log).expect("a log");
        let (mut rest, mut steps, mut from) = (log.as_slice(), Vec::new(), None);
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n').expect("a line");
            let line = std::str::from_utf8(&rest[..end]).expect("text");
            let mut words = line.splitn(4, ' ');
            let mut word = || words.next().expect("a word");
            let (call, place, length, path) = (word(), word(), word(), PathBuf::from(word()));
            let length = length.parse().expect("a number");
            rest = &rest[end + 1..];
            match call {
                "write" => {
                    let (bytes, behind) = rest.split_at(length);
                    rest = behind;
                    steps.push(if path.ends_with(MARKS) {
                        Step::Mark(String::from_utf8(bytes.to_vec()).expect("text"))
                    } else {
                        Step::Write(path, place.parse().expect("a number"), bytes.to_vec())
                    });
                }
                "sync" => steps.push(Step::Sync(path)),
                "fail" => steps.push(Step::FailedSync(path)),
                "from" => from = Some(path),
                "to" => steps.push(Step::Rename(from.take().expect("a name"), path)),
                other => panic!("{other}"),
            }
        }
        // LMDB's lock file is rebuilt after a system restart.
        steps.retain(|step| !matches!(step, Step::Write(path, ..) | Step::Sync(path) | Step::FailedSync(path) | Step::Rename(path, _) if path.ends_with("lock.mdb")));
        steps
    }
}

enum Step {
    Write(PathBuf, usize, Vec<u8>),
    Sync(PathBuf),
    FailedSync(PathBuf),
    Rename(PathBuf, PathBuf),
    Mark(String),
}

/// A file: its durable content, and the pages that may be on the disk.
#[derive(Clone, Default)]
struct Content {
    durable: Vec<u8>,
    /// Those that a failed sync may have dropped. Only writing their pages again makes them durable.
    doubtful: Vec<(usize, Vec<u8>)>,
    pending: Vec<(usize, Vec<u8>)>,
}

impl Content {
    /// Returns what is not certainly on the disk, in the order of the writes.
    fn unsynced(&self) -> impl Iterator<Item = &(usize, Vec<u8>)> {
        self.doubtful.iter().chain(&self.pending)
    }
}

/// A renamed file, with its previous name.
#[derive(Clone)]
struct PendingRename {
    file: usize,
    from: Option<PathBuf>,
    to: PathBuf,
}

/// A disk.
#[derive(Default)]
struct Disk {
    files: Vec<Content>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    pending_names: Vec<PendingRename>,
    /// The states of the store, and the index of the first one that a power cut may lead to.
    states: Vec<u64>,
    reported: usize,
    /// Number of tested losses.
    losses: usize,
}

impl Disk {
    /// Returns a disk with the files of a folder.
    fn from_folder(folder: &Path) -> Disk {
        let mut disk = Disk::default();
        for entry in fs::read_dir(folder).expect("a folder").flatten().filter(|entry| entry.path().is_file()) {
            disk.names.insert(entry.path(), disk.files.len());
            disk.files.push(Content { durable: fs::read(entry.path()).expect("a file"), ..Content::default() });
        }
        disk.durable_names.clone_from(&disk.names);
        disk
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Write(path, mut place, bytes) => {
                let file = *self.names.entry(path.clone()).or_insert_with(|| {
                    let file = self.files.len();
                    self.files.push(Content::default());
                    self.pending_names.push(PendingRename { file, from: None, to: path });
                    file
                });
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    let (piece, behind) = rest.split_at(rest.len().min(PAGE - place % PAGE));
                    self.files[file].pending.push((place, piece.to_vec()));
                    (rest, place) = (behind, place + piece.len());
                }
            }
            Step::Sync(path) => match self.names.get(&path) {
                Some(file) => {
                    let Content { durable, doubtful, pending } = &mut self.files[*file];
                    let written: BTreeSet<usize> = pending.iter().map(|(place, _)| place / PAGE).collect();
                    let again = doubtful.extract_if(.., |(place, _)| written.contains(&(*place / PAGE)));
                    again.chain(pending.drain(..)).for_each(|piece| put(durable, &piece));
                }
                // A folder.
                None => {
                    let (done, pending) = std::mem::take(&mut self.pending_names)
                        .into_iter()
                        .partition(|naming| naming.to.parent() == Some(&path));
                    self.pending_names = pending;
                    let done: Vec<PendingRename> = done;
                    done.iter().for_each(|naming| apply_rename(&mut self.durable_names, naming));
                }
            },
            Step::FailedSync(path) => {
                if let Some(file) = self.names.get(&path) {
                    let Content { doubtful, pending, .. } = &mut self.files[*file];
                    doubtful.append(pending);
                }
            }
            Step::Rename(from, to) => {
                let naming = PendingRename { file: self.names[&from], from: Some(from), to };
                apply_rename(&mut self.names, &naming);
                self.pending_names.push(naming);
            }
            Step::Mark(text) => match text.split_once(' ').expect("a mark") {
                ("may", digest) => self.states.push(digest.parse().expect("a number")),
                ("found", digest) => {
                    let digest = digest.parse().expect("a number");
                    assert!(
                        self.states[self.reported..].contains(&digest),
                        "a process finds a state before a shown one"
                    );
                    self.states.push(digest);
                }
                ("shown", digest) => {
                    let digest: u64 = digest.parse().expect("a number");
                    let shown = self.states.iter().rposition(|state| *state == digest).expect("a state");
                    self.reported = self.reported.max(shown);
                }
                (_, before) => {
                    let before: usize = before.parse().expect("a number");
                    self.reported = self.reported.max(self.states.len() - 1 - before);
                }
            },
        }
    }

    /// Cuts the power in many ways: of the pending writes, none is lost, all are, each alone, all but each, and random
    /// ones.
    fn cut(&mut self, store: &Path, random: &mut Random, chances: usize) {
        if self.reported == 0 && self.states.is_empty() {
            // There is no store yet.
            return;
        }
        let names = self.pending_names.len();
        let count = names + self.files.iter().map(|file| file.unsynced().count()).sum::<usize>();
        let mut kept = vec![vec![true; count]];
        if count > 0 {
            kept.push(vec![false; count]);
            kept.extend((0..count.min(MAX_EACH)).map(|one| (0..count).map(|other| other != one).collect()));
            kept.extend((0..count.min(MAX_EACH)).map(|one| (0..count).map(|other| other == one).collect()));
            kept.extend((0..chances).map(|_| (0..count).map(|_| random.coin()).collect()));
            // Names are few, so every combination is tested, with all, none and random ones of the pending pages.
            for choice in (0..1usize << names.min(6)).filter(|_| names > 0) {
                for files in [Some(true), Some(false)].into_iter().chain((0..chances).map(|_| None)) {
                    let is_kept = |one: usize| {
                        if one < names { choice >> one & 1 == 1 } else { files.unwrap_or_else(|| random.coin()) }
                    };
                    kept.push((0..count).map(is_kept).collect());
                }
            }
        }
        for kept in kept {
            self.losses += 1;
            let place = tempfile::tempdir_in(store.parent().expect("a folder")).expect("a folder");
            self.write(store, place.path(), &mut kept.iter().copied());
            let opened = Store::open_existing_with_boot(BootId::UNKNOWN, place.path(), AccessMode::Exclusive, OPTIONS);
            let found = opened.map(|(store, _)| digest(&store.snapshot().expect("a snapshot")));
            let allowed = &self.states[self.reported..];
            let is_right = found.as_ref().is_ok_and(|found| allowed.contains(found));
            let which = found.as_ref().ok().and_then(|found| self.states.iter().position(|state| state == found));
            assert!(
                is_right,
                "{:?} is left, state {which:?} of {}, reported {}; kept {kept:?}",
                found.map_err(|error| error.to_string()),
                self.states.len(),
                self.reported
            );
        }
    }

    /// Writes the content of the disk if these names and pages are kept.
    fn write(&self, store: &Path, place: &Path, kept: &mut impl Iterator<Item = bool>) {
        let mut names = self.durable_names.clone();
        self.pending_names
            .iter()
            .filter(|_| kept.next() == Some(true))
            .for_each(|naming| apply_rename(&mut names, naming));
        let mut contents: Vec<Vec<u8>> = Vec::new();
        for file in &self.files {
            let mut content = file.durable.clone();
            file.unsynced().filter(|_| kept.next() == Some(true)).for_each(|piece| put(&mut content, piece));
            contents.push(content);
        }
        for (path, file) in names {
            let path = place.join(path.strip_prefix(store).expect("a file of the store"));
            fs::create_dir_all(path.parent().expect("a folder")).expect("room");
            fs::write(path, &contents[file]).expect("room");
        }
    }
}

fn put(content: &mut Vec<u8>, (place, piece): &(usize, Vec<u8>)) {
    let end = place + piece.len();
    content.resize(content.len().max(end), 0);
    content[*place..end].copy_from_slice(piece);
}

fn apply_rename(names: &mut BTreeMap<PathBuf, usize>, naming: &PendingRename) {
    if let Some(from) = &naming.from {
        names.remove(from);
    }
    names.insert(naming.to.clone(), naming.file);
}

/// Cuts the power before every operation that makes something durable, after every report, and at the end; not within
/// the first `from` steps.
fn replay(mut disk: Disk, recorded: &Recorded, from: usize) {
    let (mut random, chances) = (Random(11), 6 * from_environment("POWER_CUTS").unwrap_or(1));
    let (mut cuts, mut steps) = (0, recorded.steps());
    let rest = steps.split_off(from);
    steps.into_iter().for_each(|step| disk.apply(step));
    for step in rest {
        let is_mark = matches!(step, Step::Mark(_));
        if matches!(step, Step::Sync(_)) {
            disk.cut(&recorded.store(), &mut random, chances);
            cuts += 1;
        }
        disk.apply(step);
        if is_mark {
            disk.cut(&recorded.store(), &mut random, chances);
            cuts += 1;
        }
    }
    disk.cut(&recorded.store(), &mut random, chances);
    print_notice(&format!("{} losses at {cuts} cuts of the power, {} states", disk.losses, disk.states.len()));
    assert!(disk.losses > 200, "{}", disk.losses);
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn a_power_cut_leaves_the_last_published_state_or_a_later_one() {
    let Some(disk) = SlowDisk::new() else { return };
    let recorded = Recorded::new();
    recorded.run(&disk, "life");
    recorded.run(&disk, "life again");
    replay(Disk::default(), &recorded, 0);
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn a_power_cut_after_restoring_a_copied_data_file_leaves_its_state_or_a_later_one() {
    let Some(disk) = SlowDisk::new() else { return };
    let recorded = Recorded::new();
    recorded.run(&disk, "life");
    let held = recorded.all().states.pop().expect("a state");
    for entry in fs::read_dir(recorded.store()).expect("a folder").flatten() {
        if entry.file_name() != "data.mdb" {
            fs::remove_file(entry.path()).expect("a file");
        }
    }
    fs::remove_file(&recorded.log).expect("a log");
    let found = Disk { states: vec![held], ..Disk::from_folder(&recorded.store()) };
    recorded.run(&disk, "life again");
    replay(found, &recorded, 0);
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn a_power_cut_during_or_after_a_recovery_loses_no_published_state() {
    let Some(disk) = SlowDisk::new() else { return };
    let recorded = Recorded::new();
    recorded.run(&disk, "life");
    // The reported state is the one it goes back to.
    let Disk { states, reported, .. } = recorded.all();
    fs::remove_file(&recorded.log).expect("a log");
    let found = Disk { states, reported, ..Disk::from_folder(&recorded.store()) };
    recorded.run(&disk, "going back");
    replay(found, &recorded, 0);
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn a_power_cut_during_a_store_replacement_leaves_the_old_or_the_new_store() {
    let Some(disk) = SlowDisk::new() else { return };
    let recorded = Recorded::new();
    recorded.run(&disk, "life");
    let before = recorded.steps().len();
    recorded.run(&disk, "replacement");
    replay(Disk::default(), &recorded, before);
}

/// Returns a store after its first life.
fn lived(disk: &SlowDisk) -> Recorded {
    let recorded = Recorded::new();
    recorded.run(disk, "life");
    recorded
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn random_failures_of_writes_and_syncs_lose_no_shown_state() {
    let Some(disk) = SlowDisk::new() else { return };
    for seed in 1..=4 * from_environment("POWER_CUTS").unwrap_or(1) as u64 {
        lived(&disk).replay_failures(&disk, Faults { seed, permille: 300, ..Faults::NONE });
    }
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn a_series_of_failures_of_writes_and_syncs_loses_no_shown_state() {
    let Some(disk) = SlowDisk::new() else { return };
    for (first, count) in [(3, 1), (5, 2), (8, 1), (11, 3), (14, 1), (20, 4)] {
        lived(&disk).replay_failures(&disk, Faults { first, count, ..Faults::NONE });
    }
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn a_helper_that_sees_an_error_and_ends_without_a_report_loses_no_shown_state() {
    let Some(disk) = SlowDisk::new() else { return };
    let recorded = lived(&disk);
    let before = recorded.steps().len();
    recorded.run(&disk, "ended helper");
    // The next process finds what was shown, without a power cut too.
    recorded.run(&disk, "failing life");
    replay(Disk::default(), &recorded, before);
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn records_that_fail_again_and_again_while_the_data_is_synced_lose_no_shown_state() {
    let Some(disk) = SlowDisk::new() else { return };
    for count in 1..=5 {
        lived(&disk).replay_failures(&disk, Faults { first: 6, count, of: "settled", ..Faults::NONE });
    }
}
