//! Key files: one line of hex, and comments.
//!
//! Errors never show any content of a key file.

use std::io;
use std::path::Path;

use crate::codec::text::text_of_file;
use crate::crypto::{KeyPair, PrivateKey, PublicKey};
use crate::files;

/// Maximum bytes of a key file, comments included.
const MAX_FILE_BYTES: usize = 16 * 1024;
/// Hex digits of the longest key: 32 bytes and a sign byte.
const MAX_DIGITS: usize = 66;
/// What is in front of the public key in the comment that [`write()`] puts above a key.
const HEAD: &str = "# NEM private key; anyone who reads it controls the account. Public key: ";
/// Permission bits of group and others.
const GROUP_AND_OTHERS: u32 = 0o077;

/// Content of a key file, with warnings about it.
pub struct KeyFile {
    /// The key.
    pub key: PrivateKey,
    /// Its permissions, if users other than the owner have access to it.
    pub exposed_mode: Option<u32>,
    /// Number of its hex digits.
    pub digits: usize,
}

/// Reads a key file. The error says what is wrong with it.
pub fn read(path: &Path) -> Result<KeyFile, String> {
    let read = files::read_with_mode(path, MAX_FILE_BYTES);
    let (bytes, mode) = read.map_err(|error| files::explain(&error, Some(path)))?;
    let (key, digits) = parse(&bytes)?;
    let exposed_mode = Some(mode).filter(|mode| mode & GROUP_AND_OTHERS != 0);
    Ok(KeyFile { key, exposed_mode, digits })
}

/// Returns the key in a file's content, and the number of its digits.
fn parse(bytes: &[u8]) -> Result<(PrivateKey, usize), String> {
    let (mut found, mut public) = (None, None);
    let text = text_of_file(bytes).map_err(|error| error.to_string())?;
    for (line, number) in text.lines().map(str::trim_ascii).zip(1..) {
        if line.is_empty() || line.starts_with('#') {
            public = line.strip_prefix(HEAD).and_then(|hex| PublicKey::from_hex(hex).ok()).or(public);
            continue;
        }
        if found.is_some() {
            return Err(format!("line {number} is a second key; only one is allowed, and comments begin with #"));
        }
        if !line.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("line {number} is not a private key in hex"));
        }
        if line.len() > MAX_DIGITS || (line.len() > MAX_DIGITS - 2 && !line.starts_with("00")) {
            return Err(format!(
                "line {number} is too long for a private key, which has 64 hex digits (or 66 with 00 in front)"
            ));
        }
        let key = PrivateKey::from_hex(line).map_err(|_| format!("line {number} is not a private key in hex"))?;
        found = Some((key, line.len()));
    }
    let (key, digits) = found.ok_or("there is no private key in it, only comments")?;
    if public.is_some_and(|public| KeyPair::new(&key).public() != public) {
        return Err(
            "the private key in it is not that of the public key in its comment: one of them is damaged".to_owned()
        );
    }
    Ok((key, digits))
}

/// Writes a new key file atomically, readable by its owner only. The error says why there is none.
pub fn write(path: &Path, key: &PrivateKey) -> Result<(), String> {
    let public = KeyPair::new(key).public();
    let head = format!("{HEAD}{public}\n");
    let printed = key.printed();
    let written = files::create_named(path, &[head.as_bytes(), printed.as_bytes(), b"\n"], files::FILE_MODE);
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            "it exists, and a key file is never overwritten; choose another name".to_owned()
        }
        io::ErrorKind::NotFound => "its folder does not exist; create it first".to_owned(),
        _ => files::explain(&error, Some(path)),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
            format!("\u{feff}{ALICE}\r\n"),
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
        assert!(error("# only a comment\n").contains("only comments"));
        assert!(error(&format!("#\n{ALICE}\n{ALICE}")).starts_with("line 3 is a second key"));
        assert!(error(&format!("0x{ALICE}")).starts_with("line 1 is not"));
        assert!(error("\u{e9}").starts_with("line 1 is not"));
        assert!(error(&format!("01{ALICE}")).starts_with("line 1 is too long"));
        assert!(error(&format!("0000{ALICE}")).starts_with("line 1 is too long"));
        let shown = error(&format!("{ALICE}g"));
        assert!(!shown.contains('g') && !shown.contains("0d02"), "{shown}");
        let error =
            parse(format!("#\n{ALICE}\n").encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>().as_slice());
        assert!(error.is_err_and(|error| error.contains("save it as UTF-8")));
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
        assert!(read_back.exposed_mode.is_none() && read_back.digits == 64);
        assert!(write(&path, &key).unwrap_err().contains("never overwritten"));
        let written = std::fs::read_to_string(&path).unwrap();
        let comment = format!("# Public key: {}\n{ALICE}\n", "ab".repeat(32));
        assert!(parse(comment.as_bytes()).is_ok(), "a comment of the user may tell of another account");
        for damaged in [written.replace("0d02bc", "0d12bc"), written.replace("80d67fd", "80d67")] {
            assert!(
                parse(damaged.as_bytes()).is_err_and(|error| error.contains("not that of the public key")),
                "{damaged}"
            );
        }
    }

    #[test]
    fn an_exposed_short_or_endless_key_file_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k");
        std::fs::write(&path, &ALICE[..20]).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let found = read(&path).unwrap();
        assert!(found.exposed_mode == Some(0o640) && found.digits == 20);
        std::fs::write(&path, vec![b'#'; MAX_FILE_BYTES + 1]).unwrap();
        assert!(read(&path).is_err_and(|error| error.contains("more than 16384 bytes")));
    }
}
