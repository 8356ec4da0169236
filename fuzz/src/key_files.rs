//! Fuzz target: key files of the wallet.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nisd::crypto::{KeyPair, PrivateKey};
use nisd::wallet::key_file;
use tempfile::TempDir;

/// Maximum bytes of a key file.
const MAX_BYTES: usize = 16 * 1024;
/// Consecutive hex digits that count as a leak.
const LEAK_DIGITS: usize = 8;

thread_local! {
    static FOLDER: TempDir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
}

/// Checks that any file holds a key or is rejected, and that one which is too long is not read whole. Neither the error
/// nor the debug output of the key shows content of the file, and a written key can be read again.
pub fn check(data: &[u8]) -> usize {
    let Some((choice, content)) = data.split_last() else { return 0 };
    let content = content.repeat(1 << (choice & 3));
    FOLDER.with(|folder| {
        let path = folder.path().join("k");
        let is_exposed = choice & 4 != 0;
        store(&path, &content, if is_exposed { 0o644 } else { 0o600 });
        match key_file::read(&path) {
            Ok(found) => {
                assert!(content.len() <= MAX_BYTES);
                assert_eq!(found.exposed_mode.is_some(), is_exposed);
                let shown = format!("{:?} {:?}", found.key, KeyPair::new(&found.key));
                let printed = found.key.printed();
                assert!(
                    printed.len() < LEAK_DIGITS || !shown.replace(&public(&found.key), "").contains(printed.as_str())
                );
                check_round_trip(&found.key, folder.path().join("again"));
                1
            }
            Err(error) => {
                assert_eq!(error == format!("it has more than {MAX_BYTES} bytes"), content.len() > MAX_BYTES);
                check_error_hides(&content, &error);
                0
            }
        }
    })
}

fn store(path: &Path, content: &[u8], mode: u32) {
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).expect("a file");
    file.write_all(content).expect("room");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("permissions");
}

fn public(key: &PrivateKey) -> String {
    KeyPair::new(key).public().to_string()
}

/// Checks that a written key can be read again, by its owner only.
fn check_round_trip(key: &PrivateKey, path: PathBuf) {
    let _ = fs::remove_file(&path);
    key_file::write(&path, key).expect("room for a key");
    let again = key_file::read(&path).expect("a key");
    assert_eq!(again.exposed_mode, None);
    assert!(key_file::write(&path, key).unwrap_err().contains("never overwritten"));
    assert_eq!(*again.key.printed(), *key.printed());
}

/// Checks that an error names a line of the file, and none of its digits.
fn check_error_hides(content: &[u8], error: &str) {
    let lines = content.split(|byte| *byte == b'\n').count();
    if let Some(rest) = error.strip_prefix("line ") {
        let line = rest.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
        assert!((1..=lines).contains(&line));
    }
    let shown = error.as_bytes();
    let mut digits = shown.windows(LEAK_DIGITS).filter(|part| part.iter().all(u8::is_ascii_hexdigit));
    assert!(digits.next().is_none(), "{error}");
}
