//! What of the store is on the disk for certain, so that a commit need not wait for the disk.
//!
//! LMDB commits without waiting here (`MDB_NOSYNC`): a commit is copied into the system's page cache, and the system may
//! write its pages, those that lead to all others included, in any order. A process that is killed loses nothing by
//! that. A system that stops may leave first pages that lead to what was never written.
//!
//! So a commit is *settled* afterwards: the data file is synchronised, then a record of its first page is written
//! beside it, in the file `settled`. After a stop of the system the store goes back to the recorded state, by putting
//! the recorded first page back in both places. What was committed since is lost as a whole; consistency never is.
//!
//! Why that state is still there: **there is never more than one unsettled commit when another batch is committed
//! without waiting.** Let S be settled and S+1 committed. LMDB writes no page twice: a batch writes pages that are free.
//! Batch T takes pages that were given back by batch T-2 or before (`mdb_page_alloc`, `mdb_find_oldest`), which no state
//! from T-2 on holds. So neither S+1 nor S+2 overwrites what S holds, and S+3 is not begun before S+1 or S+2 is settled.
//! Pages that a batch takes and gives back itself were free before; pages that it writes before its commit (spilled
//! ones) are such that it took; the file only grows. The two first pages are overwritten in turn, hence the record.
//!
//! The record has two places, each with a number and a checksum. The one that does not hold the present record is
//! overwritten, which needs no room on a disk that is full. A write that is cut short damages the record of no state
//! but the new one, and the old one is intact until the new record is synchronised, as nothing else is committed before.
//!
//! A record names the run of the system (boot) in which it was written. While that goes on, the page cache is whole,
//! and the newest commit is the state of the store, whatever has become of the processes. It is written before the first
//! batch of each opening, so that nothing is committed in another run than the record names. A store without a record is
//! taken as it is: it was written by a version that waited for the disk.
//!
//! If the disk does not take what was written, the system may have forgotten it already, and to try again proves
//! nothing (Linux reports such an error once and takes the pages for clean). So nothing is settled any more then, and no
//! batch is begun; the record is made to name no run, so that the next opening goes back to it.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sha3::{Digest, Sha3_256};

use super::data_file::{self, META_BYTES, Meta};
use super::error::StoreError;
use super::write_back::WriteBack;

/// The file of the record, beside the data file.
const FILE: &str = "settled";
const MARK: &[u8; 8] = b"settled1";
/// Bytes from one place of the record to the other: no disk damages more than that by a write that is cut short.
const PLACE: u64 = 4096;
const CHECKSUM: usize = 32;
const RECORD_BYTES: usize = CHECKSUM + MARK.len() + 8 + BOOT_BYTES + CHECKSUM + META_BYTES;

const BOOT_BYTES: usize = 36;

/// A run of the system: from its start to its stop, however that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boot([u8; BOOT_BYTES]);

impl Boot {
    /// Some run, nobody knows which.
    pub const UNKNOWN: Boot = Boot([0; BOOT_BYTES]);

    /// The present run. It is known on Linux only.
    pub fn present() -> Boot {
        let name = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        name.first_chunk().map_or(Boot::UNKNOWN, |name| Boot(*name))
    }

    /// A run with a name, for simulations.
    pub fn named(name: u8) -> Boot {
        Boot([name; BOOT_BYTES])
    }

    /// Whether both are the same run.
    fn is(self, other: Boot) -> bool {
        self != Boot::UNKNOWN && self == other
    }
}

/// A state that is on the disk.
#[derive(Clone)]
struct Record {
    /// Grows from record to record.
    number: u64,
    /// The run of the system in which it was written.
    boot: Boot,
    /// Checksum of the pages from which all others are reached: whether a data file is the one that is meant.
    roots: [u8; CHECKSUM],
    /// The first page of the data file.
    meta: Meta,
}

impl Record {
    fn to_bytes(&self) -> [u8; RECORD_BYTES] {
        let parts = [&MARK[..], &self.number.to_le_bytes(), &self.boot.0, &self.roots, &self.meta.bytes];
        let content = parts.concat();
        let mut bytes = [0; RECORD_BYTES];
        bytes[..CHECKSUM].copy_from_slice(&Sha3_256::digest(&content));
        bytes[CHECKSUM..].copy_from_slice(&content);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Record> {
        let (checksum, content) = bytes.split_at_checked(CHECKSUM)?;
        let rest = content.strip_prefix(MARK)?;
        let (number, rest) = rest.split_first_chunk()?;
        let (boot, rest) = rest.split_first_chunk()?;
        let (roots, meta) = rest.split_first_chunk()?;
        let meta = data_file::parse_meta(meta.try_into().ok()?)?;
        let is_whole = Sha3_256::digest(content).as_slice() == checksum;
        is_whole.then_some(Record { number: u64::from_le_bytes(*number), boot: Boot(*boot), roots: *roots, meta })
    }

    /// The newest record that is whole.
    fn read(folder: &Path) -> io::Result<Option<Record>> {
        let file = match File::open(folder.join(FILE)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut newest: Option<Record> = None;
        for place in [0, PLACE] {
            let mut bytes = [0; RECORD_BYTES];
            let record = match file.read_exact_at(&mut bytes, place) {
                Ok(()) => Record::from_bytes(&bytes),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
                Err(error) => return Err(error),
            };
            let is_newer = |record: &Record| newest.as_ref().is_none_or(|newest| record.number > newest.number);
            newest = record.filter(is_newer).or(newest);
        }
        Ok(newest)
    }

    /// Writes the record, on the disk when it returns. It does not touch the place of the record before it. The `first`
    /// one of an opening makes sure of the file itself.
    fn write(&self, folder: &Path, first: bool) -> io::Result<()> {
        let file = File::options().write(true).create(true).truncate(false).open(folder.join(FILE))?;
        file.write_all_at(&self.to_bytes(), self.number % 2 * PLACE)?;
        if !first {
            return file.sync_data();
        }
        if file.metadata()?.len() < PLACE + RECORD_BYTES as u64 {
            // From now on a full disk has room for the other place.
            file.write_all_at(&[0; RECORD_BYTES], (self.number + 1) % 2 * PLACE)?;
        }
        file.sync_all()?;
        match File::open(folder)?.sync_all() {
            // Some file systems cannot do that.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(()),
            other => other,
        }
    }
}

/// The record to which a store must go back: the system has stopped since, and more was committed.
fn to_go_back_to(folder: &Path, boot: Boot) -> io::Result<Option<Record>> {
    let mut data = match File::open(folder.join(data_file::NAME)) {
        Ok(file) if file.metadata()?.len() > 0 => file,
        _ => return Ok(None),
    };
    // Before the record: a process that changes the store writes it before it commits anything.
    let newest = data_file::newest_meta(&mut data).ok();
    let Some(record) = Record::read(folder)? else { return Ok(None) };
    if record.boot.is(boot) || newest.is_some_and(|newest| newest.transaction <= record.meta.transaction) {
        return Ok(None);
    }
    let is_meant = data_file::roots(&data, &record.meta).is_ok_and(|roots| roots == record.roots);
    if !is_meant {
        let path = folder.join(FILE);
        log::warn!("{} speaks of another data file than the one beside it, and is not used", path.display());
    }
    Ok(is_meant.then_some(record))
}

/// Puts a store back to what is on the disk for certain, if the system has stopped since it was changed. For who may
/// change it, before LMDB opens it.
pub fn go_back(folder: &Path, boot: Boot) -> Result<(), StoreError> {
    let put_back = || -> io::Result<()> {
        let Some(record) = to_go_back_to(folder, boot)? else { return Ok(()) };
        log::warn!(
            "the system has stopped before the last commits were on the disk; the store goes back to the last that was, \
             and the blocks after it are to be taken in again"
        );
        data_file::put_back(folder, &record.meta)
    };
    put_back().map_err(|error| StoreError::disk(folder, error))
}

/// Refuses a store that must go back, for who may not change it.
pub fn refuse_unsettled(folder: &Path, boot: Boot) -> Result<(), StoreError> {
    match to_go_back_to(folder, boot) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(StoreError::Unsettled),
        Err(error) => Err(StoreError::Folder(folder.to_owned(), error)),
    }
}

/// How much is known of what is on the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Nothing yet: no batch was begun since the store was opened.
    Opened,
    /// The last commit is settled.
    Settled,
    /// The last commit is not.
    Unsettled,
    /// The disk did not take what was written.
    Failed(i32),
}

/// Settles what is committed. Of a process that may change the store.
pub struct Durability {
    folder: PathBuf,
    data: File,
    boot: Boot,
    record: RefCell<Option<Record>>,
    standing: Cell<Standing>,
    write_back: RefCell<WriteBack>,
    /// Lets the disk fail.
    #[cfg(test)]
    pub fails: Cell<bool>,
}

impl Durability {
    /// Of a store that LMDB has opened.
    pub fn new(folder: &Path, boot: Boot) -> Result<Durability, StoreError> {
        let open =
            || Ok((File::options().read(true).write(true).open(folder.join(data_file::NAME))?, Record::read(folder)?));
        let (data, record) = open().map_err(|error| StoreError::Folder(folder.to_owned(), error))?;
        Ok(Durability {
            folder: folder.to_owned(),
            data,
            boot,
            record: RefCell::new(record),
            standing: Cell::new(Standing::Opened),
            write_back: RefCell::default(),
            #[cfg(test)]
            fails: Cell::new(false),
        })
    }

    /// Before a batch is begun: there is a record of this run of the system.
    pub fn begin(&self) -> Result<(), StoreError> {
        match self.standing.get() {
            Standing::Settled | Standing::Unsettled => Ok(()),
            Standing::Opened | Standing::Failed(_) => self.settle(),
        }
    }

    /// Whether something is committed that is not settled.
    pub fn is_unsettled(&self) -> bool {
        self.standing.get() == Standing::Unsettled
    }

    /// Before a commit that is written back: what was committed before is settled.
    pub fn before_soon(&self) -> Result<(), StoreError> {
        self.settle()?;
        let transaction = self.record.borrow().as_ref().map_or(0, |record| record.meta.transaction);
        self.write_back.borrow_mut().before_commit(&self.data, transaction);
        Ok(())
    }

    /// After that commit.
    pub fn after_soon(&self) {
        self.write_back.borrow_mut().after_commit(&self.data);
    }

    /// After each commit: it is not settled yet.
    pub fn committed(&self) {
        self.standing.set(Standing::Unsettled);
    }

    /// Lets the system begin to write a part of what is committed, without waiting for it. False if all was begun; then
    /// little is left for which [`Durability::settle`] must wait.
    pub fn write_back(&self) -> bool {
        self.write_back.borrow_mut().part(&self.data)
    }

    /// Waits until what is committed is on the disk, and records it.
    pub fn settle(&self) -> Result<(), StoreError> {
        match self.standing.get() {
            Standing::Settled => return Ok(()),
            Standing::Failed(error) => return Err(self.not_taken(error)),
            Standing::Opened | Standing::Unsettled => {}
        }
        if let Err(error) = self.synchronise() {
            let error = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            self.standing.set(Standing::Failed(error));
            self.distrust();
            return Err(self.not_taken(error));
        }
        self.record_present().map_err(|error| StoreError::disk(&self.folder, error))?;
        self.standing.set(Standing::Settled);
        self.write_back.borrow_mut().clear();
        Ok(())
    }

    fn synchronise(&self) -> io::Result<()> {
        #[cfg(test)]
        if self.fails.get() {
            return Err(Errno::IO.into());
        }
        self.data.sync_data()
    }

    /// Records what is committed, which is on the disk.
    fn record_present(&self) -> io::Result<()> {
        let meta = data_file::newest_meta(&mut &self.data).map_err(|fault| io::Error::other(fault.to_string()))?;
        let roots = data_file::roots(&self.data, &meta)?;
        let mut last = self.record.borrow_mut();
        let is_known = |last: &Record| last.boot.is(self.boot) && last.meta.bytes == meta.bytes;
        if last.as_ref().is_some_and(is_known) {
            return Ok(());
        }
        let record = Record { number: last.as_ref().map_or(0, |last| last.number + 1), boot: self.boot, roots, meta };
        record.write(&self.folder, self.standing.get() == Standing::Opened)?;
        *last = Some(record);
        Ok(())
    }

    /// Lets the next opening go back to the record, as far as the disk still takes that.
    fn distrust(&self) {
        let last = self.record.borrow().clone();
        if let Some(last) = last {
            let record = Record { number: last.number + 1, boot: Boot::UNKNOWN, ..last };
            if let Err(error) = record.write(&self.folder, false) {
                log::error!("{}: {error}", self.folder.join(FILE).display());
            }
        }
    }

    fn not_taken(&self, error: i32) -> StoreError {
        StoreError::NotTaken { folder: self.folder.clone(), error: io::Error::from_raw_os_error(error) }
    }
}

impl Drop for Durability {
    /// A process that ends leaves nothing unsettled.
    fn drop(&mut self) {
        if self.is_unsettled()
            && let Err(error) = self.settle()
        {
            log::error!("{error}");
        }
    }
}
