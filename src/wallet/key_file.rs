//! Key files: one line of hex, and comments.
//!
//! Errors never show any content of a key file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;
use zeroize::Zeroizing;

use crate::crypto::{KeyPair, PrivateKey};

/// Maximum bytes of a key file, comments included.
const MAX_FILE_BYTES: usize = 16 * 1024;
/// Hex digits of the longest key: 32 bytes and a sign byte.
const MAX_DIGITS: usize = 66;
/// Minimum digits of an ordinary key; a shorter one does not occur by chance.
const USUAL_DIGITS: usize = 58;
/// Permission bits of group and others.
const GROUP_AND_OTHERS: u32 = 0o077;

/// A key file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// A file could not be read or written.
    #[error(transparent)]
    Io(io::Error),
    /// The file exists, and is not overwritten.
    #[error("it exists, and a key file is never overwritten; choose another name")]
    Exists,
    /// The file is too long for a key file.
    #[error("it is too long for a key file")]
    TooLong,
    /// The file has no line besides comments.
    #[error("there is no private key in it, only comments")]
    Empty,
    /// This line is a second key.
    #[error("line {0} is a second key; only one is allowed, and comments begin with #")]
    SecondKey(usize),
    /// This line is not hex, or not text.
    #[error("line {0} is not a private key in hex")]
    NotHex(usize),
    /// This line has more digits than a key.
    #[error("line {0} is too long for a private key, which has 64 hex digits (or 66 with 00 in front)")]
    TooManyDigits(usize),
}

impl From<io::Error> for KeyFileError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::AlreadyExists => KeyFileError::Exists,
            _ => KeyFileError::Io(error),
        }
    }
}

/// Content of a key file, with warnings about it.
pub struct KeyFile {
    /// The key.
    pub key: PrivateKey,
    /// Whether users other than the owner have access to the file.
    pub is_exposed: bool,
    /// Whether the key is so short that it was probably cut or invented.
    pub is_short: bool,
}

/// Reads a key file.
pub fn read(path: &Path) -> Result<KeyFile, KeyFileError> {
    let file = File::open(path)?;
    let is_exposed = file.metadata()?.permissions().mode() & GROUP_AND_OTHERS != 0;
    // With the full capacity, growth leaves no copy of the key behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_FILE_BYTES + 1));
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(KeyFileError::TooLong);
    }
    let (key, digits) = parse(&bytes)?;
    Ok(KeyFile { key, is_exposed, is_short: digits < USUAL_DIGITS })
}

/// Returns the key in a file's content, and the number of its digits.
fn parse(bytes: &[u8]) -> Result<(PrivateKey, usize), KeyFileError> {
    let mut found = None;
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let number = index + 1;
        if found.is_some() {
            return Err(KeyFileError::SecondKey(number));
        }
        let text = str::from_utf8(line).map_err(|_| KeyFileError::NotHex(number))?;
        if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(KeyFileError::NotHex(number));
        }
        if text.len() > MAX_DIGITS || (text.len() > MAX_DIGITS - 2 && !text.starts_with("00")) {
            return Err(KeyFileError::TooManyDigits(number));
        }
        let key = PrivateKey::from_hex(text).map_err(|_| KeyFileError::NotHex(number))?;
        found = Some((key, text.len()));
    }
    found.ok_or(KeyFileError::Empty)
}

/// Writes a new key file atomically, readable by its owner only.
pub fn write(path: &Path, key: &PrivateKey) -> Result<(), KeyFileError> {
    let public = KeyPair::new(key).public();
    let head = format!("# NEM private key; anyone who reads it controls the account. Public key: {public}\n");
    let with_advice = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            io::Error::new(io::ErrorKind::NotFound, "its folder does not exist; create it first")
        }
        kind => kind.into(),
    };
    let printed = key.printed();
    let parts = [head.as_bytes(), printed.as_bytes(), b"\n"];
    let file = private_file(path, &parts).map_err(with_advice)?;
    file.persist_noclobber(path).map_err(|refused| refused.error)?;
    Ok(())
}

/// Writes a temporary file beside `path`, readable by its owner only, and waits until it is on the disk.
pub fn private_file(path: &Path, parts: &[&[u8]]) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(folder)?;
    for part in parts {
        file.write_all(part)?;
    }
    file.as_file().sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: &str = "0d02bca37b877f1321e0fc339f154b6135728780e9f42e98adf73416180d67fd";

    fn printed(content: &str) -> String {
        parse(content.as_bytes()).unwrap().0.printed().to_string()
    }

    #[test]
    fn a_key_is_read_from_its_own_line_between_comments() {
        for content in [
            ALICE.to_owned(),
            format!("{ALICE}\n"),
            format!("# a comment\r\n\r\n  {}  \r\n# another", ALICE.to_uppercase()),
            format!("00{ALICE}\n"),
        ] {
            assert_eq!(printed(&content), ALICE);
        }
        let high = "f".repeat(64);
        assert_eq!(printed(&high), format!("00{high}"));
        assert_eq!(printed(&format!("00{high}")), format!("00{high}"));
    }

    #[test]
    fn an_invalid_key_is_rejected_without_showing_it() {
        let error = |content: &str| parse(content.as_bytes()).map(|_| ()).unwrap_err();
        assert!(matches!(error("# only a comment\n"), KeyFileError::Empty));
        assert!(matches!(error(&format!("#\n{ALICE}\n{ALICE}")), KeyFileError::SecondKey(3)));
        assert!(matches!(error(&format!("0x{ALICE}")), KeyFileError::NotHex(1)));
        assert!(matches!(error("\u{e9}"), KeyFileError::NotHex(1)));
        assert!(matches!(error(&format!("01{ALICE}")), KeyFileError::TooManyDigits(1)));
        assert!(matches!(error(&format!("0000{ALICE}")), KeyFileError::TooManyDigits(1)));
        let shown = error(&format!("{ALICE}g")).to_string();
        assert!(!shown.contains('g') && !shown.contains("0d02"), "{shown}");
        assert!(parse(b"\xff").is_err());
    }

    #[test]
    fn a_written_key_file_is_private_and_round_trips() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alice.key");
        let key = PrivateKey::from_hex(ALICE).unwrap();
        write(&path, &key).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read_back = read(&path).unwrap();
        assert_eq!(read_back.key.printed().as_str(), ALICE);
        assert!(!read_back.is_exposed && !read_back.is_short);
        assert!(matches!(write(&path, &key), Err(KeyFileError::Exists)));
    }

    #[test]
    fn an_exposed_short_or_endless_key_file_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k");
        std::fs::write(&path, &ALICE[..20]).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let found = read(&path).unwrap();
        assert!(found.is_exposed && found.is_short);
        std::fs::write(&path, vec![b'#'; MAX_FILE_BYTES + 1]).unwrap();
        assert!(matches!(read(&path), Err(KeyFileError::TooLong)));
    }
}
