//! The file in the data folder with peers kept over restarts. It is not part of the chain: without it, or with a
//! damaged one, a node starts with no known peers of its own.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::node::MAX_KEPT_BYTES as MAX_BYTES;

const FILE: &str = "known-peers";
/// Temporary file that replaces the file when complete.
const UNFINISHED: &str = "known-peers.new";

/// The peers file of a data folder.
#[derive(Debug)]
pub struct KeptPeersFile {
    folder: PathBuf,
    /// Whether a failure to write was logged.
    has_failed: bool,
}

impl KeptPeersFile {
    /// Creates the handle for a folder.
    pub fn of(folder: &Path) -> KeptPeersFile {
        KeptPeersFile { folder: folder.to_owned(), has_failed: false }
    }

    /// Returns the content, cut to its maximum size; empty if it cannot be read.
    pub fn read(&self) -> Vec<u8> {
        let read = || -> io::Result<Vec<u8>> {
            let mut text = Vec::new();
            File::open(self.folder.join(FILE))?.take(MAX_BYTES as u64).read_to_end(&mut text)?;
            Ok(text)
        };
        read().unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                log::warn!("{} cannot be read: {error}; it will be replaced", self.folder.join(FILE).display());
            }
            Vec::new()
        })
    }

    /// Replaces the content. Waits for the disk only before the program ends (`is_last`): after a power cut the file
    /// may be the old one or damaged, which only slows the next start.
    pub fn write(&mut self, text: &[u8], is_last: bool) {
        let unfinished = self.folder.join(UNFINISHED);
        let write = || -> io::Result<()> {
            let mut file = File::create(&unfinished)?;
            file.write_all(text)?;
            if is_last {
                file.sync_all()?;
            }
            fs::rename(&unfinished, self.folder.join(FILE))
        };
        match write() {
            Ok(()) => self.has_failed = false,
            Err(error) if !self.has_failed => {
                log::warn!("the known peers cannot be saved in {}: {error}", self.folder.join(FILE).display());
                self.has_failed = true;
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_saved_peers_file_is_replaced_atomically_and_is_empty_if_unreadable() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = KeptPeersFile::of(folder.path());
        assert_eq!(file.read(), b"");
        for (text, is_last) in [("one", false), ("two", true)] {
            file.write(text.as_bytes(), is_last);
            assert_eq!(file.read(), text.as_bytes());
        }
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [FILE]);
        fs::write(folder.path().join(FILE), vec![b'x'; MAX_BYTES + 1]).unwrap();
        assert_eq!(file.read().len(), MAX_BYTES);
        fs::remove_file(folder.path().join(FILE)).unwrap();
        fs::create_dir(folder.path().join(FILE)).unwrap();
        assert_eq!(file.read(), b"");
        file.write(b"three", false);
        assert!(file.has_failed);
    }
}
