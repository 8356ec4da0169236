//! Letting the system begin to write what a commit has changed, a few pages at a time and without waiting.
//!
//! To synchronise a file takes as long as its changed pages take to be written, some 16 µs each on a fast disk, and all of
//! them at once. Where they are on their way before, it takes no time. `sync_file_range` begins writing a range, but is
//! not to be had without unsafe code. `posix_fadvise` with `DONTNEED` does the same, and then drops the pages of the range
//! from the page cache that are clean: but no page at the edge of which only a part is in the range. So it is called for
//! each run of pages that were written, and for a bit less than all their bytes; those between are under way by then.
//!
//! Which pages a commit has written, LMDB does not say. They were free before it, or behind the last page, and are not
//! free now. If that cannot be found out, synchronising takes longer, and nothing else is different.

use std::fs::File;

use rustix::fs::Advice;

use super::data_file;

/// Runs of pages that are begun with in one go.
const RUNS: usize = 32;
/// Longest run, in pages.
const LONGEST_RUN: u64 = 64;

/// The free pages of a state, one bit each; pages behind the last one are free too.
struct Free {
    transaction: u64,
    page_bytes: u64,
    pages: u64,
    bits: Vec<u64>,
}

impl Free {
    fn read(data: &File) -> Option<Free> {
        let (meta, found) = data_file::free_pages(data)?;
        let pages = meta.last_page + 1;
        let mut bits = vec![0u64; usize::try_from(pages / 64 + 1).ok()?];
        for page in found {
            *bits.get_mut(usize::try_from(page / 64).ok()?)? |= 1 << (page % 64);
        }
        Some(Free { transaction: meta.transaction, page_bytes: meta.page_bytes as u64, pages, bits })
    }

    /// The free ones of 64 pages.
    fn word(&self, number: usize) -> u64 {
        let behind = match self.pages.saturating_sub(64 * number as u64) {
            left @ 0..64 => !0 << left,
            _ => 0,
        };
        self.bits.get(number).copied().unwrap_or(0) | behind
    }
}

/// What the last commit has written.
#[derive(Default)]
pub struct WriteBack {
    free: Option<Free>,
    page_bytes: u64,
    /// Runs of pages with which nothing was begun yet: the first page of each, and their number.
    runs: Vec<(u64, u64)>,
}

impl WriteBack {
    /// Before a commit: remembers which pages are free.
    pub fn before_commit(&mut self, data: &File, transaction: u64) {
        if self.free.as_ref().is_none_or(|free| free.transaction != transaction) {
            self.free = Free::read(data);
        }
    }

    /// After the commit: finds out which are not free any more.
    pub fn after_commit(&mut self, data: &File) {
        let before = self.free.take();
        self.free = Free::read(data);
        self.runs.clear();
        let Some((before, after)) = before.zip(self.free.as_ref()) else { return };
        self.page_bytes = after.page_bytes;
        for number in 0..after.bits.len() {
            let mut written = before.word(number) & !after.word(number);
            while written != 0 {
                let page = 64 * number as u64 + u64::from(written.trailing_zeros());
                written &= written - 1;
                match self.runs.last_mut() {
                    Some((first, length)) if *first + *length == page && *length < LONGEST_RUN => *length += 1,
                    _ => self.runs.push((page, 1)),
                }
            }
        }
    }

    /// Begins to write some of them. False if there are none left.
    pub fn part(&mut self, data: &File) -> bool {
        let was_any = !self.runs.is_empty();
        let rest = self.runs.len().saturating_sub(RUNS);
        for (page, length) in self.runs.drain(rest..) {
            let (first, length) = (page * self.page_bytes, length * self.page_bytes);
            let _ = rustix::fs::fadvise(data, first + 1, (length - 2).try_into().ok(), Advice::DontNeed);
        }
        was_any
    }

    /// With what nothing was begun yet.
    #[cfg(test)]
    pub fn runs(&self) -> Vec<(u64, u64)> {
        self.runs.clone()
    }

    /// Nothing is left to be written.
    pub fn clear(&mut self) {
        self.runs.clear();
    }
}
