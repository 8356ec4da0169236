//! The files of LMDB in a store's folder, as far as LMDB does not look after them itself.
//!
//! **The data file** is checked before LMDB maps it into memory. If it is shorter than its header says, as an
//! interrupted copy is, reading the missing part would kill the process (SIGBUS). So the length is compared with the
//! last page number in the meta page. Pages at the end that were freed before they were ever written may be missing:
//! they are in the list of free pages.
//!
//! **The lock table** has a slot for each reader. A process that was killed while reading still has one, and the pages
//! it read would not be reused before the last process closes the store. So slots of ended processes are released before
//! each write transaction. LMDB holds locks on this file, by which processes detect each other, and a process loses all
//! its locks on a file when it closes any descriptor of it. So it is opened before and closed after the LMDB environment.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use sha3::{Digest, Sha3_256};

use crate::files::{Access, open_own};
pub use crate::files::{DATA_FILE, sync_folder};

/// Name of the lock table.
pub const LOCK_TABLE_FILE: &str = "lock.mdb";

/// Returns whether there is a store in a folder. If that cannot be found out there is, so that whoever opens it gets the
/// error that says why.
pub fn exists(folder: &Path) -> bool {
    crate::files::exists(&folder.join(DATA_FILE))
}

/// Returns the size of the store in a folder in bytes.
pub fn size(folder: &Path) -> io::Result<u64> {
    Ok(std::fs::metadata(folder.join(DATA_FILE))?.len())
}

/// Returns the free bytes on the disk of a folder.
pub fn free_bytes(folder: &Path) -> Result<u64, Errno> {
    rustix::fs::statvfs(folder).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Disk space for building a store, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that must be free: about the size of the old store, minus what is already built.
    pub needed: u64,
    /// Bytes that are free, if the system can tell.
    pub free: Option<u64>,
}

impl DiskSpace {
    /// Returns the disk space for a store of `bytes` bytes in a folder.
    pub fn of(folder: &Path, bytes: u64) -> io::Result<DiskSpace> {
        /// Bytes that a store needs in addition to the old one's size.
        const MARGIN: u64 = 1 << 20;
        let free = match free_bytes(folder) {
            Err(Errno::NOSYS) => None,
            free => Some(free?),
        };
        Ok(DiskSpace { needed: bytes.saturating_add(MARGIN), free })
    }

    /// Returns whether there is enough, as far as the system can tell.
    pub fn is_enough(self) -> bool {
        self.free.is_none_or(|free| free >= self.needed)
    }
}

/// Why a data file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum FileFault {
    /// The file cannot be read.
    #[error("{}", crate::files::explain(.0, None))]
    Io(io::Error),
    /// The file is not LMDB's, or its meta pages are damaged.
    #[error("its beginning is damaged, or it is not a store; {}", REMEDY)]
    Header,
    /// The root pages are not those that were written.
    #[error("its root pages are damaged; {}", REMEDY)]
    Roots,
    /// The folder had a store, but the file is gone or empty.
    #[error(
        "it is missing or empty, but this folder had a store; restore it from a backup, or, to start over, remove \
         nisd.lock beside it or choose another data folder"
    )]
    Missing,
    /// The path no longer leads to the file that is open.
    #[error(
        "it was removed, replaced or moved while it was in use, so nothing more is written; put it back or restore the \
         folder from a backup, then start nisd again"
    )]
    Gone,
    /// The file ends before its last page.
    #[error("it has {bytes} of {expected} bytes, like an interrupted copy; copy it again, {}", REMEDY)]
    Short { bytes: u64, expected: u64 },
}

const REMEDY: &str = "restore it from a backup, or import the chain into an empty folder";

/// Bytes of a number or page number: LMDB writes them in the machine's word size.
const WORD: usize = size_of::<usize>();
/// Bytes of a page header: page number, 2 bytes of padding, 2 of flags, 4 of bounds.
const PAGE_HEADER: usize = WORD + 8;
/// Bytes of a database record: 4 of padding, 2 of flags, 2 of depth, then five numbers.
const DATABASE: usize = 8 + 5 * WORD;
/// First field of both meta pages, after the page header.
const MAGIC: u32 = 0xbeef_c0de;
const VERSION: u32 = 1;
const MIN_PAGE: usize = 512;
const MAX_PAGE: usize = 1 << 16;
/// Flag of a branch page.
const BRANCH: u16 = 1;
/// Flag of a leaf page.
const LEAF: u16 = 2;
/// Flags that tell branch pages and leaf pages apart.
const NODE_PAGE: u16 = 3;
/// Flag of a node whose value is on overflow pages.
const BIG_VALUE: u16 = 1;
/// Maximum bytes of the list of free pages that are read ahead.
const MAX_FREE_LIST: u64 = 4 << 20;
/// Maximum depth of a tree in LMDB.
const MAX_DEPTH: usize = 32;
/// Whether page numbers have more than 32 bits.
const HAS_LONG_PAGE_NUMBERS: bool = WORD > 4;
/// Page number that means no page.
const NO_PAGE: u64 = usize::MAX as u64;

/// Bytes of a meta page that are used.
pub const META_BYTES: usize = PAGE_HEADER + 8 + 2 * WORD + 2 * DATABASE + 2 * WORD;

/// Content of one of the two meta pages.
#[derive(Clone)]
pub struct MetaPage {
    pub page_bytes: usize,
    pub last_page: u64,
    /// Root of the free-page tree.
    free_root: u64,
    /// Root of the tree of tables.
    main_root: u64,
    /// Id of the transaction that wrote it.
    pub transaction_id: u64,
    /// All used bytes.
    pub bytes: [u8; META_BYTES],
}

impl MetaPage {
    /// Returns whether this meta page is of a later commit than `other`, or the same.
    pub fn is_as_new_as(&self, other: &MetaPage) -> bool {
        self.transaction_id > other.transaction_id || self.is_same_as(other)
    }

    /// Returns whether both meta pages have the same content.
    pub fn is_same_as(&self, other: &MetaPage) -> bool {
        // Each page starts with its own page number.
        self.bytes[WORD..] == other.bytes[WORD..]
    }
}

/// Checks a data file that exists and is not empty.
pub fn check_data_file(path: &Path) -> Result<(), FileFault> {
    let mut file = open_own(path, Access::Read).map_err(FileFault::Io)?;
    // In this order: another process may be extending the file.
    let meta = newest_meta(&mut file)?;
    let bytes = file.metadata().map_err(FileFault::Io)?.len();
    let page_bytes = meta.page_bytes as u64;
    let expected = (meta.last_page.checked_add(1)).and_then(|pages| pages.checked_mul(page_bytes));
    let expected = expected.ok_or(FileFault::Header)?;
    let missing = bytes / page_bytes..expected / page_bytes;
    let missing_pages = missing.end.saturating_sub(missing.start);
    let mut free =
        FreePages { file: &file, page_bytes: meta.page_bytes, read_budget: bytes, missing, found: BTreeSet::new() };
    let is_whole = missing_pages == 0
        || free.visit(meta.free_root, MAX_DEPTH).is_some() && free.found.len() as u64 == missing_pages;
    if is_whole { Ok(()) } else { Err(FileFault::Short { bytes, expected }) }
}

/// Reads the first [`MAX_FREE_LIST`] bytes of the list of free pages of a data file, which the first commit after an opening
/// reads, so that they are in memory. Another process may change it meanwhile. Returns the bytes read.
pub fn read_free_pages(path: &Path) -> Result<u64, FileFault> {
    let mut file = open_own(path, Access::Read).map_err(FileFault::Io)?;
    let MetaPage { page_bytes, free_root, .. } = newest_meta(&mut file)?;
    let mut free =
        FreePages { file: &file, page_bytes, read_budget: MAX_FREE_LIST, missing: 0..0, found: BTreeSet::new() };
    // What is too long or changes is read in part.
    let _ = free.visit(free_root, MAX_DEPTH);
    Ok(MAX_FREE_LIST - free.read_budget)
}

/// Returns a checksum of the two root pages that a meta page names.
pub fn root_checksum(file: &File, meta: &MetaPage) -> io::Result<[u8; 32]> {
    let mut hash = Sha3_256::new();
    for root in [meta.free_root, meta.main_root] {
        let mut page = vec![0; meta.page_bytes];
        if root != NO_PAGE {
            file.read_exact_at(&mut page, root.saturating_mul(meta.page_bytes as u64))?;
        }
        hash.update(&page);
    }
    Ok(hash.finalize().into())
}

/// Restores the state of a meta page by writing it to both places. All its pages must still be present. The caller
/// synchronises the file before the next commit; after a stop before that, the next opening repeats this.
pub fn restore_meta(folder: &Path, meta: &MetaPage) -> io::Result<()> {
    let file = open_own(&folder.join(DATA_FILE), Access::Change)?;
    for number in [0usize, 1] {
        // Each page starts with its own page number.
        let mut bytes = meta.bytes;
        bytes[..WORD].copy_from_slice(&number.to_ne_bytes());
        file.write_all_at(&bytes, (number * meta.page_bytes) as u64)?;
    }
    Ok(())
}

/// Reads both meta pages. Returns the newer one. Both must be valid.
pub fn newest_meta(file: &mut (impl Read + Seek)) -> Result<MetaPage, FileFault> {
    let first = read_meta(file, 0)?;
    let second = read_meta(file, first.page_bytes as u64)?;
    if first.page_bytes != second.page_bytes {
        return Err(FileFault::Header);
    }
    Ok(if second.transaction_id > first.transaction_id { second } else { first })
}

/// Returns the newer meta page of a store that another process may be changing: read until nothing changes meanwhile.
pub fn settled_meta(file: &mut (impl Read + Seek)) -> Result<MetaPage, FileFault> {
    let mut meta = newest_meta(file)?;
    loop {
        let again = newest_meta(file)?;
        if again.is_same_as(&meta) {
            return Ok(meta);
        }
        meta = again;
    }
}

fn read_meta(file: &mut (impl Read + Seek), place: u64) -> Result<MetaPage, FileFault> {
    let mut bytes = [0; META_BYTES];
    file.seek(SeekFrom::Start(place)).map_err(FileFault::Io)?;
    file.read_exact(&mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => FileFault::Header,
        _ => FileFault::Io(error),
    })?;
    parse_meta(bytes).ok_or(FileFault::Header)
}

/// Parses a meta page.
pub fn parse_meta(bytes: [u8; META_BYTES]) -> Option<MetaPage> {
    let meta = &bytes[PAGE_HEADER..];
    let databases = 8 + 2 * WORD;
    let is_known = u32_at(meta, 0)? == MAGIC && u32_at(meta, 4)? == VERSION;
    let meta = MetaPage {
        page_bytes: u32_at(meta, databases)? as usize,
        free_root: word_at(meta, databases + 8 + 4 * WORD)?,
        main_root: word_at(meta, databases + DATABASE + 8 + 4 * WORD)?,
        last_page: word_at(meta, databases + 2 * DATABASE)?,
        transaction_id: word_at(meta, databases + 2 * DATABASE + WORD)?,
        bytes,
    };
    let is_page = meta.page_bytes.is_power_of_two() && (MIN_PAGE..=MAX_PAGE).contains(&meta.page_bytes);
    (is_known && is_page).then_some(meta)
}

/// Reads the free-page tree and searches it for the missing pages. Anything invalid gives `None`. It reads no more bytes than the
/// file has, as no page is in the tree twice.
struct FreePages<'a> {
    file: &'a File,
    page_bytes: usize,
    /// Bytes that may still be read.
    read_budget: u64,
    /// Pages beyond the end of the file.
    missing: Range<u64>,
    /// Missing pages that are free.
    found: BTreeSet<u64>,
}

impl FreePages<'_> {
    /// Visits a subtree of at most `levels` levels.
    fn visit(&mut self, page: u64, levels: usize) -> Option<()> {
        if page == NO_PAGE {
            return Some(());
        }
        let levels = levels.checked_sub(1)?;
        let bytes = self.read(page, 0, self.page_bytes)?;
        let flags = u16_at(&bytes, WORD + 2)?;
        let nodes = usize::from(u16_at(&bytes, WORD + 4)?).checked_sub(PAGE_HEADER)? / 2;
        for number in 0..nodes {
            let node = bytes.get(usize::from(u16_at(&bytes, PAGE_HEADER + 2 * number)?)..)?;
            match flags & NODE_PAGE {
                BRANCH => self.visit(child_of(node)?, levels)?,
                LEAF => self.add_entry(node)?,
                _ => return None,
            }
        }
        Some(())
    }

    /// Adds the free pages of one entry: their count, then their numbers.
    fn add_entry(&mut self, node: &[u8]) -> Option<()> {
        let length = u32_at(node, 0)? as usize;
        let key_bytes = usize::from(u16_at(node, 6)?);
        let value = node.get(8 + key_bytes..)?;
        let list = match u16_at(node, 4)? & BIG_VALUE {
            0 => value.get(..length)?.to_vec(),
            _ => self.read(word_at(value, 0)?, PAGE_HEADER, length)?,
        };
        let count = usize::try_from(word_at(&list, 0)?).ok()?;
        for number in 1..=count {
            let page = word_at(&list, number.checked_mul(WORD)?)?;
            if self.missing.contains(&page) {
                self.found.insert(page);
            }
        }
        Some(())
    }

    /// Reads bytes at an offset in a page. Returns `None` if they are not in the file.
    fn read(&mut self, page: u64, place: usize, length: usize) -> Option<Vec<u8>> {
        self.read_budget = self.read_budget.checked_sub(length as u64)?;
        let start = page.checked_mul(self.page_bytes as u64)?.checked_add(place as u64)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start).ok()?;
        Some(bytes)
    }
}

/// Returns the page to which a branch node leads. Its number takes the place of length and flags.
fn child_of(node: &[u8]) -> Option<u64> {
    let [a, b, c, d] = u32_at(node, 0)?.to_le_bytes();
    let [e, f] = if HAS_LONG_PAGE_NUMBERS { u16_at(node, 4)?.to_le_bytes() } else { [0; 2] };
    Some(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
}

fn array_at<const N: usize>(bytes: &[u8], place: usize) -> Option<[u8; N]> {
    bytes.get(place..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], place: usize) -> Option<u16> {
    array_at(bytes, place).map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    array_at(bytes, place).map(u32::from_ne_bytes)
}

fn word_at(bytes: &[u8], place: usize) -> Option<u64> {
    array_at(bytes, place).map(|word| usize::from_ne_bytes(word) as u64)
}

/// The part that LMDB maps is allocated on the disk: touching a page without space would be fatal (SIGBUS).
#[cfg(target_os = "linux")]
const LOCK_TABLE_BYTES: u64 = 32 << 10;
/// Bytes of a slot: transaction, process, thread, and padding.
const SLOT_BYTES: usize = 64;
/// Transaction id of a slot without a snapshot.
const NO_TRANSACTION: [u8; WORD] = [0xff; WORD];
/// Bytes of the process id in a slot, which is zero in an unused one.
const PROCESS_BYTES: usize = 4;

/// A used slot of the lock table.
struct Slot {
    /// Offset of the process id in the file.
    process_offset: u64,
    process: u32,
    has_snapshot: bool,
}

/// The lock table of an open store.
#[derive(Debug)]
pub struct LockTable(File);

impl LockTable {
    /// Opens the lock table of the store in a folder, before LMDB opens it, and allocates its disk space.
    pub fn open(folder: &Path) -> io::Result<LockTable> {
        let path = folder.join(LOCK_TABLE_FILE);
        let file = open_own(&path, Access::Create)?;
        // Other systems cannot do this without extending the file.
        #[cfg(target_os = "linux")]
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, LOCK_TABLE_BYTES) {
            // Some file systems do not support this.
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(error) => return Err(crate::files::named(&path)(error.into())),
        }
        Ok(LockTable(file))
    }

    /// Returns the used slots of a table with this number of slots.
    fn slots(&self, places: u32) -> io::Result<Vec<Slot>> {
        let mut list = vec![0; SLOT_BYTES * places as usize];
        let head = self.0.metadata()?.len().saturating_sub(list.len() as u64);
        self.0.read_exact_at(&mut list, head)?;
        let mut slots = Vec::new();
        for (number, place) in list.chunks_exact(SLOT_BYTES).enumerate() {
            let (transaction, rest) = place.split_at(WORD);
            let process = array_at(rest, 0).map_or(0, u32::from_ne_bytes);
            if process != 0 {
                let process_offset = head + (number * SLOT_BYTES + WORD) as u64;
                slots.push(Slot { process_offset, process, has_snapshot: transaction != NO_TRANSACTION });
            }
        }
        Ok(slots)
    }

    /// Counts the readers that have a snapshot, in a table with this number of slots.
    pub fn count(&self, places: u32) -> io::Result<usize> {
        Ok(self.slots(places)?.iter().filter(|slot| slot.has_snapshot).count())
    }

    /// Releases the slots of ended processes, as LMDB's `mdb_reader_check` does. Only the process that may change the store
    /// does this: a slot that it has seen in use is not taken by another process before it is released.
    pub fn release_ended(&self, places: u32) -> io::Result<()> {
        let own = std::process::id();
        for slot in self.slots(places)?.iter().filter(|slot| slot.process != own) {
            if !self.is_alive(slot.process)? {
                self.0.write_all_at(&[0; PROCESS_BYTES], slot.process_offset)?;
                log::info!("a program has ended while it read the store; what it read is kept no longer");
            }
        }
        Ok(())
    }

    /// Returns whether another process has the store open. It holds a lock on the byte at the offset of its id, which is
    /// seen from everywhere, unlike the process in another container. LMDB sets it before it takes a slot.
    fn is_alive(&self, process: u32) -> io::Result<bool> {
        let lock = Flock { start: process.into(), length: 1, ..FlockType::WriteLock.into() };
        Ok(fcntl_getlk(&self.0, &lock)?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::PathBuf;
    use std::process::Command;

    use lmdb::{Environment, Transaction, WriteFlags};

    use super::*;
    use crate::store::{
        AccessMode, ChainIdentity, Options, Read as _, Store, StoreError, Table, Write as _, test_store,
    };

    const MAP: Options = Options { map_size: 64 << 20 };

    /// Creates a store that has grown and shrunk. Returns the sum of its bytes.
    fn store(folder: &Path) -> usize {
        let identity = ChainIdentity { name: "test".to_owned(), text: String::new() };
        let store = Store::open(folder, &identity, MAP).unwrap();
        for round in 0..12u32 {
            let mut batch = store.begin_write().unwrap();
            for number in 0..400u32 {
                let key = [number.to_be_bytes(), (number * round).to_be_bytes()].concat();
                batch.put(Table::Accounts, &key, &vec![round as u8; 100 + (number as usize * 37) % 5000]).unwrap();
            }
            for number in 0..300u32 {
                let key = [number.to_be_bytes(), (number * round / 2).to_be_bytes()].concat();
                batch.delete(Table::Accounts, &key).unwrap();
            }
            batch.commit().unwrap();
        }
        weight(&store)
    }

    /// Reads every byte of every value. Returns their sum.
    fn weight(store: &Store) -> usize {
        let snapshot = store.snapshot().unwrap();
        let entries = Table::ALL.into_iter().flat_map(|table| snapshot.entries(table, &[]).unwrap());
        let values = entries.map(|entry| entry.unwrap().1);
        values.flatten().map(|byte| usize::from(*byte) + 1).sum()
    }

    fn data_file(folder: &Path) -> PathBuf {
        folder.join("data.mdb")
    }

    fn opened(folder: &Path) -> Result<usize, StoreError> {
        Store::open_existing(folder, AccessMode::Exclusive, MAP).map(|(store, _)| weight(&store))
    }

    #[test]
    fn a_meta_page_that_changes_while_it_is_read_is_read_again() {
        /// Gives the first content to the first reader and the second one to all later ones.
        struct Changing([Vec<u8>; 2], usize, u64);
        impl Read for Changing {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                let content = if self.1 > 2 { &self.0[1] } else { &self.0[0] };
                let length = (&content[self.2 as usize..]).read(into)?;
                self.2 += length as u64;
                Ok(length)
            }
        }
        impl Seek for Changing {
            fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
                let SeekFrom::Start(place) = to else { return Err(io::ErrorKind::Unsupported.into()) };
                (self.1, self.2) = (self.1 + 1, place);
                Ok(place)
            }
        }
        let (store, folder) = crate::store::test_store();
        let path = folder.path().join(DATA_FILE);
        let before = std::fs::read(&path).unwrap();
        let mut batch = store.begin_write().unwrap();
        crate::store::Write::put(&mut batch, crate::store::Table::Accounts, b"a", b"row").unwrap();
        batch.commit().unwrap();
        let after = std::fs::read(&path).unwrap();
        let newest = newest_meta(&mut io::Cursor::new(&after)).unwrap();
        let settled = settled_meta(&mut Changing([before, after], 0, 0)).unwrap();
        assert!(settled.is_same_as(&newest));
    }

    #[test]
    fn a_truncated_data_file_is_rejected_or_complete() {
        let folder = tempfile::tempdir().unwrap();
        let whole = store(folder.path());
        let bytes = std::fs::read(data_file(folder.path())).unwrap();
        let mut refused = 0;
        for part in (0..200).map(|part| bytes.len() * part / 200).chain([bytes.len() - 1, bytes.len() - 4096]) {
            std::fs::write(data_file(folder.path()), &bytes[..part]).unwrap();
            match opened(folder.path()) {
                Ok(weight) => assert_eq!(weight, whole, "{part} of {} bytes", bytes.len()),
                Err(StoreError::DataFile(..)) => refused += 1,
                Err(error) => panic!("{part} of {} bytes: {error}", bytes.len()),
            }
        }
        assert!(refused > 190, "{refused} of 202 were refused");
        std::fs::write(data_file(folder.path()), &bytes).unwrap();
        assert_eq!(opened(folder.path()).unwrap(), whole);
    }

    #[test]
    fn trailing_free_pages_that_were_never_written_may_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let whole = store(folder.path());
        let identity = ChainIdentity { name: "test".to_owned(), text: String::new() };
        let opened_store = Store::open(folder.path(), &identity, MAP).unwrap();
        // Pages are allocated at the end of the file and freed in the same transaction.
        let mut batch = opened_store.begin_write().unwrap();
        (0..300u32).for_each(|key| batch.put(Table::Harvests, &key.to_be_bytes(), &[7; 3000]).unwrap());
        (0..300u32).for_each(|key| batch.delete(Table::Harvests, &key.to_be_bytes()).unwrap());
        batch.commit().unwrap();
        drop(opened_store);
        check_data_file(&data_file(folder.path())).unwrap();
        assert_eq!(opened(folder.path()).unwrap(), whole);
    }

    #[test]
    fn only_trailing_free_pages_may_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let identity = ChainIdentity { name: "test".to_owned(), text: String::new() };
        let store = Store::open(folder.path(), &identity, MAP).unwrap();
        let change = |change: &dyn Fn(&mut crate::store::WriteTxn<'_>)| {
            let mut batch = store.begin_write().unwrap();
            change(&mut batch);
            batch.commit().unwrap();
        };
        let delete = |range: Range<u32>| {
            change(&|batch| range.clone().for_each(|n| batch.delete(Table::Accounts, &n.to_be_bytes()).unwrap()));
        };
        // The pages with the checksums of the first values move to free ones.
        let touch = |value: u8| {
            change(&|batch| {
                (0..300u32)
                    .step_by(50)
                    .for_each(|n| batch.put(Table::Harvests, &n.to_be_bytes(), &[value; 3000]).unwrap());
            });
        };
        // The first values stay; large values follow. One transaction frees those at the end, more than one page of the
        // list holds. The others are freed a few at a time while a reader still uses them, so that the list has several
        // pages.
        change(&|batch| (0..300u32).for_each(|n| batch.put(Table::Harvests, &n.to_be_bytes(), &[7; 3000]).unwrap()));
        change(&|batch| (0..3000u32).for_each(|n| batch.put(Table::Accounts, &n.to_be_bytes(), &[9; 5000]).unwrap()));
        delete(1000..3000);
        (0..4).for_each(touch);
        let reader = store.snapshot().unwrap();
        (0..1000u32).step_by(25).for_each(|first| delete(first..first + 25));
        drop(reader);
        let whole = weight(&store);
        drop(store);

        let bytes = std::fs::read(data_file(folder.path())).unwrap();
        let pages = bytes.len() / 4096;
        let opens_without = |missing: usize| {
            std::fs::write(data_file(folder.path()), &bytes[..(pages - missing) * 4096]).unwrap();
            let is_accepted = check_data_file(&data_file(folder.path())).is_ok();
            match opened(folder.path()) {
                Ok(weight) => is_accepted && weight == whole,
                Err(StoreError::DataFile(..)) if !is_accepted => false,
                Err(error) => panic!("without {missing} pages: {error}"),
            }
        };
        // The file opens as long as only free pages are missing, and never if more are.
        let (mut opens, mut refused) = (0, pages - 2);
        while refused - opens > 1 {
            let middle = opens.midpoint(refused);
            *(if opens_without(middle) { &mut opens } else { &mut refused }) = middle;
        }
        assert!(opens > 2000, "{opens} of {pages} pages may be missing");
        assert!(
            (1..20).all(|fewer| opens_without(opens - fewer)) && (0..20).all(|more| !opens_without(refused + more))
        );
    }

    #[test]
    fn a_list_of_free_pages_is_read_ahead_with_all_its_pages() {
        let folder = tempfile::tempdir().unwrap();
        let identity = ChainIdentity { name: "test".to_owned(), text: String::new() };
        let store = Store::open(folder.path(), &identity, MAP).unwrap();
        let rows = |change: &dyn Fn(&mut crate::store::WriteTxn<'_>, [u8; 4])| {
            let mut batch = store.begin_write().unwrap();
            (0..3000u32).for_each(|row| change(&mut batch, row.to_be_bytes()));
            batch.commit().unwrap();
        };
        let read = || read_free_pages(&data_file(folder.path())).unwrap();
        rows(&|batch, key| batch.put(Table::Accounts, &key, &[9; 5000]).unwrap());
        let before = read();
        rows(&|batch, key| batch.delete(Table::Accounts, &key).unwrap());
        // Each row took two pages, and the list has eight bytes for each.
        assert!(read() >= before + 2 * 8 * 3000, "{} after {before}", read());
        assert!(read() <= 4 * 8 * 3000);
    }

    #[test]
    fn no_page_at_the_end_may_be_missing_if_none_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::new().set_map_size(1 << 20).open(folder.path()).unwrap();
        let table = environment.open_db(None).unwrap();
        let mut transaction = environment.begin_rw_txn().unwrap();
        transaction.put(table, b"key", &[7; 9000], WriteFlags::empty()).unwrap();
        transaction.commit().unwrap();
        let path = data_file(folder.path());
        let meta = newest_meta(&mut File::open(&path).unwrap()).unwrap();
        assert_eq!(meta.free_root, NO_PAGE);
        check_data_file(&path).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        for pages in (2..=meta.last_page).rev() {
            file.set_len(pages * 4096).unwrap();
            assert!(matches!(check_data_file(&path), Err(FileFault::Short { .. })), "{pages} pages");
        }
    }

    #[test]
    fn a_file_that_ends_in_a_meta_page_is_no_store() {
        let folder = tempfile::tempdir().unwrap();
        store(folder.path());
        let path = data_file(folder.path());
        let file = File::options().write(true).open(&path).unwrap();
        for length in [4096 + META_BYTES - 1, 4096, META_BYTES - 1, 1] {
            file.set_len(length as u64).unwrap();
            assert!(matches!(check_data_file(&path), Err(FileFault::Header)), "{length} bytes");
        }
    }

    #[test]
    fn a_branch_node_leads_to_a_page_of_up_to_48_bits() {
        let (low, high) = (0x8765_4321_u32.to_ne_bytes(), 0xcba9_u16.to_ne_bytes());
        let expected = if WORD == 8 { 0xcba9_8765_4321 } else { 0x8765_4321 };
        assert_eq!(child_of(&[low.as_slice(), &high, &[0; 2]].concat()), Some(expected));
        assert_eq!(child_of(&low[1..]), None);
    }

    #[test]
    fn a_cyclic_free_page_list_is_rejected_at_once() {
        let folder = tempfile::tempdir().unwrap();
        store(folder.path());
        let path = data_file(folder.path());
        let mut bytes = std::fs::read(&path).unwrap();
        let meta = newest_meta(&mut std::io::Cursor::new(&bytes)).unwrap();
        let page = usize::try_from(meta.free_root).unwrap() * 4096;
        // A branch page, all of whose nodes lead to itself.
        bytes[page + WORD + 2..page + WORD + 4].copy_from_slice(&BRANCH.to_ne_bytes());
        bytes[page + WORD + 4..page + WORD + 6].copy_from_slice(&2048u16.to_ne_bytes());
        for number in 0..(2048 - PAGE_HEADER) / 2 {
            bytes[page + PAGE_HEADER + 2 * number..][..2].copy_from_slice(&3000u16.to_ne_bytes());
        }
        bytes[page + 3000..][..4].copy_from_slice(&(meta.free_root as u32).to_ne_bytes());
        bytes[page + 3004..][..4].copy_from_slice(&[0; 4]);
        bytes.truncate(bytes.len() - 4096);
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(check_data_file(&path), Err(FileFault::Short { .. })));
    }

    #[test]
    fn corrupt_meta_pages_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        store(folder.path());
        let bytes = std::fs::read(data_file(folder.path())).unwrap();
        for place in [PAGE_HEADER, PAGE_HEADER + 4, 4096 + PAGE_HEADER, PAGE_HEADER + 8 + 2 * WORD] {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x55;
            std::fs::write(data_file(folder.path()), damaged).unwrap();
            let error = check_data_file(&data_file(folder.path())).unwrap_err();
            assert!(matches!(error, FileFault::Header), "{place}: {error}");
        }
    }

    #[test]
    fn a_damaged_root_page_of_the_durable_state_is_rejected() {
        let (store, folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        batch.put(Table::Accounts, b"key", b"value").unwrap();
        batch.commit().unwrap();
        drop(store);
        let path = data_file(folder.path());
        let bytes = std::fs::read(&path).unwrap();
        let meta = newest_meta(&mut std::io::Cursor::new(&bytes)).unwrap();
        let open = |access| Store::open_existing(folder.path(), access, MAP).map(drop);
        for root in [meta.free_root, meta.main_root] {
            let mut damaged = bytes.clone();
            // LMDB does not read the padding in a page header.
            damaged[usize::try_from(root).unwrap() * 4096 + WORD] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            for access in [AccessMode::Shared, AccessMode::Exclusive] {
                let result = open(access);
                assert!(matches!(result, Err(StoreError::DataFile(_, FileFault::Roots))), "{root}: {result:?}");
            }
        }
        std::fs::write(&path, bytes).unwrap();
        open(AccessMode::Exclusive).unwrap();
    }

    #[test]
    fn a_page_size_that_lmdb_does_not_use_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        store(folder.path());
        let path = data_file(folder.path());
        let bytes = std::fs::read(&path).unwrap();
        let place = PAGE_HEADER + 8 + 2 * WORD;
        assert_eq!(u32_at(&bytes, place), Some(4096));
        for page_bytes in [0u32, 1000, 256, 1 << 17] {
            let mut damaged = bytes.clone();
            damaged[place..place + 4].copy_from_slice(&page_bytes.to_ne_bytes());
            let meta = damaged.first_chunk().copied().and_then(parse_meta);
            assert!(meta.is_none(), "{page_bytes}");
        }
    }

    #[test]
    fn the_meta_page_of_the_later_commit_is_newer_and_of_equal_ones_the_first_counts() {
        let folder = tempfile::tempdir().unwrap();
        store(folder.path());
        let bytes = std::fs::read(data_file(folder.path())).unwrap();
        let meta = |transaction: u64, last_page: u64| {
            let mut page: [u8; META_BYTES] = *bytes.first_chunk().unwrap();
            let (numbers, id) = page[META_BYTES - 2 * WORD..].split_at_mut(WORD);
            numbers.copy_from_slice(&(last_page as usize).to_ne_bytes());
            id.copy_from_slice(&(transaction as usize).to_ne_bytes());
            parse_meta(page).unwrap()
        };
        let newest = |first: &MetaPage, second: &MetaPage| {
            let mut file = vec![0; 2 * 4096];
            file[..META_BYTES].copy_from_slice(&first.bytes);
            file[4096..4096 + META_BYTES].copy_from_slice(&second.bytes);
            newest_meta(&mut std::io::Cursor::new(file)).unwrap().last_page
        };
        let (old, new, other) = (meta(7, 50), meta(8, 60), meta(8, 70));
        assert_eq!(
            [newest(&old, &new), newest(&new, &old), newest(&new, &other), newest(&other, &new)],
            [60, 60, 60, 70]
        );
        let is_as_new = |meta: &MetaPage| [&old, &new, &other].map(|than| meta.is_as_new_as(than));
        assert_eq!(is_as_new(&old), [true, false, false]);
        assert_eq!(is_as_new(&new), [true, true, false]);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic_the_check() {
        let folder = tempfile::tempdir().unwrap();
        store(folder.path());
        let bytes = std::fs::read(data_file(folder.path())).unwrap();
        let path = folder.path().join("damaged");
        // Each byte of the first two pages is changed in a file that is cut, so that the free-page tree is read.
        std::fs::write(&path, &bytes[..bytes.len() * 9 / 10]).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        for place in 0..8192 {
            file.write_all_at(&[!bytes[place]], place as u64).unwrap();
            let _ = check_data_file(&path);
            file.write_all_at(&bytes[place..=place], place as u64).unwrap();
        }
    }

    #[test]
    fn a_commit_releases_the_snapshots_of_ended_processes_and_no_others() {
        let (store, folder) = test_store();
        let count = || store.metrics().unwrap().readers.unwrap();
        assert_eq!(count(), 0);
        let snapshots = [store.snapshot().unwrap(), store.snapshot().unwrap()];
        assert_eq!(count(), 2);
        // The second reader is changed to a process that has ended.
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let path = folder.path().join(LOCK_TABLE_FILE);
        let (list, own) = (std::fs::read(&path).unwrap(), std::process::id().to_ne_bytes());
        let places: Vec<usize> = (0..list.len() - 4).filter(|at| list[*at..*at + 4] == own).collect();
        let place = *places.iter().find(|at| *at % SLOT_BYTES == WORD).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&child.id().to_ne_bytes(), place as u64).unwrap();
        assert_eq!(count(), 2);
        drop(store.begin_write().unwrap());
        assert_eq!(count(), 1);
        // Nothing but its process id is changed.
        let (mut expected, found) = (list, std::fs::read(&path).unwrap());
        expected[place..place + PROCESS_BYTES].fill(0);
        let slot = place - WORD..place - WORD + SLOT_BYTES;
        assert_eq!(found[slot.clone()], expected[slot]);
        drop(snapshots);
    }

    #[test]
    fn reading_the_lock_table_keeps_the_locks_of_lmdb() {
        let (store, folder) = test_store();
        let number = std::fs::metadata(folder.path().join(LOCK_TABLE_FILE)).unwrap().ino();
        let is_of_the_list = |line: &&str| line.contains(&format!(":{number} "));
        let locks = || std::fs::read_to_string("/proc/locks").unwrap().lines().filter(is_of_the_list).count();
        let snapshot = store.snapshot().unwrap();
        let before = locks();
        store.metrics().unwrap();
        store.begin_write().unwrap().commit().unwrap();
        assert!(before > 0 && locks() == before, "{} of {before}", locks());
        drop(snapshot);
    }
}
