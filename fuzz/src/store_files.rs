//! Fuzz target: the data file of a store and the record of its durable state, read before LMDB opens the store.

use std::fs;
use std::path::Path;

use nisd::store::{BootId, StoreError, check_data_file, recover_to_durable, reject_unrecovered};
use sha3::{Digest, Sha3_256};
use tempfile::TempDir;

/// The second slot of the record file, bytes of a checksum, and of everything in a record before its meta page: mark,
/// number, run of the system and checksum of the root pages.
const SLOT_OFFSET: usize = 4096;
const CHECKSUM: usize = 32;
const BEFORE_META: usize = 8 + 8 + 36 + CHECKSUM;
/// Bytes of a meta page in a record.
const META_BYTES: usize = 152;
const RECORD_BYTES: usize = CHECKSUM + BEFORE_META + META_BYTES;

thread_local! {
    static FOLDER: TempDir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
}

/// Checks that any two files are accepted or rejected with an error, that a recovered store needs no second recovery,
/// and that the data file is never made longer. Returns 1 for an accepted data file.
///
/// The input is: options (bit 0: the records get right checksums); length of the data file in units of 256 bytes;
/// the data file; the record file.
pub fn check(data: &[u8]) -> usize {
    let [options, length, rest @ ..] = data else { return 0 };
    let (data_file, record_file) = rest.split_at(rest.len().min(usize::from(*length) * 256));
    let mut record_file = record_file.to_vec();
    if options & 1 != 0 {
        correct_checksums(&mut record_file);
    }
    FOLDER.with(|folder| {
        let folder = folder.path();
        fs::write(folder.join("data.mdb"), data_file).expect("the data file");
        fs::write(folder.join("settled"), &record_file).expect("the record");
        let is_accepted = !data_file.is_empty() && check_data_file(&folder.join("data.mdb")).is_ok();
        if recover_to_durable(folder).is_ok() {
            assert!(recover_to_durable(folder).is_ok());
            let refused = reject_unrecovered(folder, BootId::UNKNOWN);
            assert!(!matches!(refused, Err(StoreError::RecoveryNeeded)));
        }
        assert_eq!(length_of(&folder.join("data.mdb")).max(MIN_FILE), (data_file.len() as u64).max(MIN_FILE));
        usize::from(is_accepted)
    })
}

/// Two meta pages of the largest page size: a recovery that writes them may lengthen a shorter file to this.
const MIN_FILE: u64 = 2 << 16;

fn length_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Makes a record's own checksum right, so that what is behind it is reached.
fn correct_checksums(file: &mut [u8]) {
    for slot in [0, SLOT_OFFSET] {
        if let Some(record) = file.get_mut(slot..slot + RECORD_BYTES) {
            let checksum = Sha3_256::digest(&record[CHECKSUM..]);
            record[..CHECKSUM].copy_from_slice(&checksum);
        }
    }
}
