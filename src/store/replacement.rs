//! A new store that is built beside another one, to take its place.
//!
//! It grows in a folder inside that of the other one. Until the end nothing of the old store is touched; then three files
//! are renamed: LMDB's list of readers, the record of what is on the disk, and last that in which everything is kept. In
//! between and afterwards each file is whole, so that it does not matter where the process ends:
//!
//! - before the first, the old store is in place, and the new one is gone on with;
//! - between them the old store is in place with a list of readers that nobody uses, which LMDB begins anew, and maybe
//!   with a record that speaks of another file, which is not used: all of the old store is on the disk;
//! - after the last the new one is in place. What is left of its folder is removed.
//!
//! The other way round the new store might be opened with the list of the old one while somebody still reads that, and
//! LMDB would take the number of the last commit from there. For the same reason the new store stays open throughout: a
//! process that opens the folder in just that moment finds a list that is in use.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::blocks::tip;
use super::error::StoreError;
use super::older::OldStore;
use super::open::{self, ChainIdentity, DATA_FILE, Options, Store};
use super::readers::READERS_FILE;
use super::settled;

/// The folder in which the new store grows.
const FOLDER: &str = "reindex";
/// What a store needs at its end besides its pages.
const MARGIN: u64 = 1 << 20;

/// A store, and the one that is to take its place.
pub struct Replacement {
    /// The store that is there. Others are kept from changing it.
    pub old: OldStore,
    /// The one that is being built.
    pub new: Store,
    folder: PathBuf,
}

/// What building a store needs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// What the disk must have free: about as much as the old store takes, without what is built already.
    pub needed: u64,
    /// What it has free, if it can say so.
    pub free: Option<u64>,
}

/// Whether a replacement was begun in a folder and is not in place.
pub fn is_begun(folder: &Path) -> bool {
    open::exists(&folder.join(FOLDER))
}

impl Replacement {
    /// Opens the store in a folder, and the new one beside it: where it was left, or empty if none was begun or what was
    /// begun does not lead to the present chain. What is remembered of its network is made of what the old one remembers.
    pub fn open(
        folder: &Path,
        identity: impl Fn(&str) -> Result<ChainIdentity, StoreError>,
        options: Options,
    ) -> Result<Replacement, StoreError> {
        let old = OldStore::open(folder, options)?;
        let place = folder.join(FOLDER);
        let identity = identity(old.network())?;
        let begun = match resume(&old, &place, &identity, options) {
            Err(error) if !is_of_no_use(&error) => return Err(error),
            begun => begun.ok().flatten(),
        };
        if begun.is_none() {
            remove(&place).map_err(|error| StoreError::Folder(place.clone(), error))?;
        }
        let is_complete = begun.as_ref().is_some_and(|(_, is_complete)| *is_complete);
        let room = room(folder)?;
        if !is_complete && !room.is_enough() {
            return Err(StoreError::NoRoom { folder: folder.to_owned(), room });
        }
        let new = match begun {
            Some((new, _)) => new,
            None => Store::open(&place, &identity, options)?,
        };
        Ok(Replacement { old, new, folder: folder.to_owned() })
    }

    /// What is needed still.
    pub fn room(&self) -> Result<Room, StoreError> {
        room(&self.folder)
    }

    /// Puts the new store, which must be complete, into the place of the old one.
    pub fn put_in_place(self) -> Result<Store, StoreError> {
        let Replacement { old, new, folder } = self;
        new.settle()?;
        let place = folder.join(FOLDER);
        let settle_old = || File::open(folder.join(DATA_FILE))?.sync_all();
        settle_old().map_err(|error| StoreError::Folder(folder.clone(), error))?;
        let lock = old.into_lock();
        let rename = |name: &str| match std::fs::rename(place.join(name), folder.join(name)) {
            // It was renamed before an earlier process ended.
            Err(error) if name == settled::FILE && error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        let names = [READERS_FILE, settled::FILE, DATA_FILE];
        let renamed = names.into_iter().try_for_each(rename).and_then(|()| sync_folder(&folder));
        renamed.map_err(|error| StoreError::Folder(folder.clone(), error))?;
        if let Err(error) = remove(&place) {
            log::warn!("{} can be removed, which failed: {error}", place.display());
        }
        Ok(new.moved(folder, lock))
    }
}

/// The store that was begun, if it is part of the old one's chain, and whether it is all of it.
fn resume(
    old: &OldStore,
    place: &Path,
    identity: &ChainIdentity,
    options: Options,
) -> Result<Option<(Store, bool)>, StoreError> {
    if !open::exists(place) {
        return Ok(None);
    }
    let new = Store::open(place, identity, options)?;
    let reached = tip(&new.snapshot()?)?.map(|block| (block.height, block.hash));
    let blocks = old.blocks()?;
    let is_ours = match reached {
        Some((height, hash)) => blocks.at(height)?.is_some_and(|(ours, _)| ours == hash),
        None => true,
    };
    Ok(is_ours.then_some((new, reached == blocks.tip()?)))
}

/// Whether a store that was begun is to be begun anew: it is damaged, or of another version or network.
fn is_of_no_use(error: &StoreError) -> bool {
    !matches!(
        error,
        StoreError::InUse
            | StoreError::Folder(..)
            | StoreError::Disk { .. }
            | StoreError::AddressSpace { .. }
            | StoreError::Lmdb(lmdb::Error::Other(_) | lmdb::Error::MapFull | lmdb::Error::ReadersFull)
    )
}

fn room(folder: &Path) -> Result<Room, StoreError> {
    let size = |folder: &Path| open::size(folder).unwrap_or(0);
    Room::of(folder, size(folder).saturating_sub(size(&folder.join(FOLDER))))
}

impl Room {
    /// Room for a store of so many bytes in a folder.
    pub(super) fn of(folder: &Path, bytes: u64) -> Result<Room, StoreError> {
        let free = match open::free_bytes(folder) {
            Ok(free) => Some(free),
            Err(Errno::NOSYS) => None,
            Err(error) => return Err(StoreError::Folder(folder.to_owned(), error.into())),
        };
        Ok(Room { needed: bytes.saturating_add(MARGIN), free })
    }

    pub(super) fn is_enough(self) -> bool {
        self.free.is_none_or(|free| free >= self.needed)
    }
}

/// Removes what is left of a store that was begun.
pub(super) fn remove(place: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes what was renamed in a folder last.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
