//! The secret of local requests: the file `local-cookie` in the data folder.
//!
//! An address proves nothing: behind a proxy on this machine every client of the internet is 127.0.0.1. Who can read the
//! data folder is the operator. The file is new at each start of the node, which holds a lock on it and removes it when
//! it stops.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use nisd_core::files::{self, Access};

/// Name of the file in the data folder.
pub const FILE: &str = "local-cookie";
/// The scheme of the header `Authorization`.
pub const SCHEME: &str = "Bearer";
/// Random bytes of a secret.
pub const SECRET_BYTES: usize = 32;
/// Bytes of the file that are read; it holds 176 at most.
const MAX_FILE_BYTES: u64 = 256;
/// Start of the URL of a node of which the secret has the rest only.
const LOOPBACK: &str = "http://127.0.0.1:";

/// The secret: `NODE.HEX`. NODE is the URL of the node's HTTP interface without `http://`, and without `127.0.0.1:`:
/// `7890`, or `10.0.0.5:7890/context`. Commands find the node by it, and send the secret to no other server. It is wiped
/// when dropped.
#[derive(Clone, derive_more::Debug)]
#[debug("LocalCookie(not shown)")]
pub struct LocalCookie(Zeroizing<String>);

impl LocalCookie {
    /// Creates the secret of the node at a URL from random bytes.
    pub fn new(url: &str, random: &[u8; SECRET_BYTES]) -> LocalCookie {
        let node = url.strip_prefix(LOOPBACK).or(url.strip_prefix("http://")).unwrap_or(url);
        LocalCookie(Zeroizing::new(format!("{node}.{}", Zeroizing::new(hex::encode(random)).as_str())))
    }

    /// Returns whether a value of the header `Authorization` is this secret. The time depends on its length only.
    pub fn is_in(&self, authorization: &str) -> bool {
        let Some((scheme, sent)) = authorization.trim().split_once(' ') else { return false };
        let (sent, own) = (sent.trim_start().as_bytes(), self.0.as_bytes());
        let difference = sent.iter().zip(own).fold(0, |difference, (sent, own)| difference | (sent ^ own));
        scheme.eq_ignore_ascii_case(SCHEME) && sent.len() == own.len() && difference == 0
    }

    /// Returns the value of the header `Authorization` for a request on a connection from `own` to `server`; `None` if that
    /// is not the server of this secret. A server at the address of this end is on this machine; at another address than
    /// that of the node, it may be somebody else's.
    pub fn authorization_for(&self, own: IpAddr, server: SocketAddr) -> Option<Zeroizing<String>> {
        let address = server.ip().to_canonical();
        let is_here = address.is_loopback() || address == own.to_canonical();
        let is_at_node = self.address().is_none_or(|node| node.to_canonical() == address);
        let is_own = is_here && is_at_node && self.port() == Some(server.port());
        is_own.then(|| Zeroizing::new(format!("{SCHEME} {}", self.0.as_str())))
    }

    /// Returns the URL of the node that runs on a data folder, as its file tells; an error of the kind `NotFound` if none
    /// runs there.
    pub fn url_in(folder: &Path) -> io::Result<String> {
        let (file, cookie) = LocalCookie::read(folder)?;
        // A running node holds the lock, if the file system has locks.
        if file.try_lock_shared().is_ok() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let node = cookie.node();
        Ok(if cookie.address().is_some() { format!("http://{node}") } else { format!("{LOOPBACK}{node}") })
    }

    /// Returns the address at which the node is reached; `None` if that is 127.0.0.1.
    pub fn address(&self) -> Option<IpAddr> {
        self.authority().parse().ok().map(|at: SocketAddr| at.ip())
    }

    /// Returns where the node is: `7890`, or `10.0.0.5:7890/context` if it is not at 127.0.0.1 or has a context.
    fn node(&self) -> &str {
        self.0.rsplit_once('.').map_or("", |(node, _)| node)
    }

    /// Returns the part of it before the context.
    fn authority(&self) -> &str {
        self.node().split('/').next().unwrap_or_default()
    }

    fn port(&self) -> Option<u16> {
        let authority = self.authority();
        authority.parse().ok().or_else(|| authority.parse().ok().map(|at: SocketAddr| at.port()))
    }

    /// Reads the secret of the node that runs on a data folder. Also returns its file.
    fn read(folder: &Path) -> io::Result<(File, LocalCookie)> {
        let file = files::open_own(&folder.join(FILE), Access::Read)?;
        let mut text = Zeroizing::new(String::with_capacity(MAX_FILE_BYTES as usize));
        (&file).take(MAX_FILE_BYTES).read_to_string(&mut text)?;
        let cookie = LocalCookie(Zeroizing::new(text.trim().to_owned()));
        let is_token = cookie.0.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:[]/-_~".contains(&byte));
        cookie.port().filter(|_| is_token).ok_or(io::ErrorKind::InvalidData)?;
        Ok((file, cookie))
    }

    /// Finds the secret of the node whose HTTP interface has this port: in its data folder, if a node runs on that; else
    /// in one of the folders beside it, where the nodes of other networks have theirs, and of several the last written.
    /// The error says why there is none.
    pub fn find(folder: &Path, port: u16) -> Result<LocalCookie, String> {
        let fitting = |folder: &Path| LocalCookie::read(folder).ok().filter(|(_, cookie)| cookie.port() == Some(port));
        let own = fitting(folder);
        // A running node holds the lock. The folders beside its own may belong to others, or to a disk that does not answer.
        let is_running = |file: &File| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        if let Some((_, cookie)) = own.as_ref().filter(|(file, _)| is_running(file)) {
            return Ok(cookie.clone());
        }
        let beside = folder.parent().into_iter().filter_map(|parent| fs::read_dir(parent).ok()).flatten().flatten();
        let found = beside.filter_map(|entry| fitting(&entry.path())).chain(own);
        let written = |file: &File| file.metadata().and_then(|found| found.modified()).ok();
        let last = found.max_by_key(|(file, _)| written(file)).map(|(_, cookie)| cookie);
        last.ok_or_else(|| {
            let file = folder.join(FILE).display().to_string();
            match LocalCookie::read(folder) {
                Ok(_) => format!("{file} is of a node with another port"),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    format!(
                        "there is no {file}: no node runs on this folder, or its log says why it cannot write the file"
                    )
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    format!("{file} is for the user of the node only; run this command as that user")
                }
                Err(error) => format!("{file} cannot be read: {}", files::explain(&error, None)),
            }
        })
    }
}

/// The file with the secret of a running node; dropping it removes the file.
#[derive(Debug)]
pub struct CookieFile {
    path: PathBuf,
    /// Locked, if the file system has locks.
    file: File,
}

impl CookieFile {
    /// Writes the file in a data folder, readable by its owner only. Replaces one that a killed node has left. It is
    /// written under a new name first: no link is followed, and no reader sees a part of it.
    pub fn write(folder: &Path, cookie: &LocalCookie) -> io::Result<CookieFile> {
        let path = folder.join(FILE);
        files::replace_own(&path, &[cookie.0.as_bytes()], false)?;
        let file = files::open_own(&path, Access::Read)?;
        let _ = file.try_lock();
        Ok(CookieFile { path, file })
    }

    /// Returns whether the file was not removed or replaced, as far as that can be seen.
    pub fn is_in_place(&self) -> bool {
        files::leads_to(&self.path, &self.file).unwrap_or(true)
    }
}

impl Drop for CookieFile {
    fn drop(&mut self) {
        if self.is_in_place()
            && let Err(error) = fs::remove_file(&self.path)
        {
            log::warn!("{} cannot be removed: {error}; it is of no use any more", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use std::time::SystemTime;

    use super::*;

    fn cookie(port: u16, byte: u8) -> LocalCookie {
        LocalCookie::new(&format!("http://127.0.0.1:{port}"), &[byte; SECRET_BYTES])
    }

    /// Writes the file that a killed node has left.
    fn leave(folder: &Path, cookie: &LocalCookie) {
        files::replace_own(&folder.join(FILE), &[cookie.0.as_bytes()], false).unwrap();
    }

    fn sent_to(cookie: &LocalCookie, own: &str, server: &str) -> Option<String> {
        cookie.authorization_for(own.parse().unwrap(), server.parse().unwrap()).map(|text| text.to_string())
    }

    #[test]
    fn only_the_whole_secret_is_accepted() {
        let (cookie, text) = (cookie(7890, 7), format!("7890.{}", "07".repeat(32)));
        for accepted in [format!("Bearer {text}"), format!("bearer  {text} "), format!("BEARER {text}")] {
            assert!(cookie.is_in(&accepted), "{accepted}");
        }
        let (short, other) = (&text[..text.len() - 1], "08".repeat(32));
        for rejected in
            ["".to_owned(), text.clone(), "Bearer".to_owned(), "Bearer ".to_owned(), format!("Basic {text}")]
                .into_iter()
                .chain([short, &format!("{text}0"), &format!("7890.{other}"), ""].map(|sent| format!("Bearer {sent}")))
        {
            assert!(!cookie.is_in(&rejected), "{rejected}");
        }
        assert_eq!(format!("{cookie:?}"), "LocalCookie(not shown)");
    }

    #[test]
    fn the_secret_is_sent_to_its_own_node_only() {
        let cookie = cookie(7890, 7);
        let own = Some(format!("Bearer 7890.{}", "07".repeat(32)));
        for server in ["127.0.0.1:7890", "[::1]:7890", "[::ffff:127.0.0.1]:7890"] {
            assert_eq!(sent_to(&cookie, "127.0.0.1", server), own, "{server}");
        }
        for server in ["127.0.0.1:7891", "10.0.0.1:7890", "[2001:db8::1]:7890", "0.0.0.0:7890"] {
            assert_eq!(sent_to(&cookie, "127.0.0.1", server), None, "{server}");
        }
        // The address of both ends is one of this machine; the same address in another form, too.
        for (from, server) in [
            ("10.0.0.1", "10.0.0.1:7890"),
            ("10.0.0.1", "[::ffff:10.0.0.1]:7890"),
            ("::ffff:10.0.0.1", "10.0.0.1:7890"),
            ("2001:db8::1", "[2001:db8::1]:7890"),
        ] {
            assert_eq!(sent_to(&cookie, from, server), own, "{server}");
        }
        // A node at another address than 127.0.0.1 is nowhere else.
        let elsewhere = LocalCookie::new("http://10.0.0.1:7890/api", &[7; SECRET_BYTES]);
        assert!(sent_to(&elsewhere, "10.0.0.1", "10.0.0.1:7890").is_some());
        for (from, server) in [("127.0.0.1", "127.0.0.1:7890"), ("::1", "[::1]:7890"), ("10.0.0.2", "10.0.0.2:7890")] {
            assert_eq!(sent_to(&elsewhere, from, server), None, "{server}");
        }
        for (from, server) in [
            ("10.0.0.1", "10.0.0.1:7891"),
            ("10.0.0.1", "10.0.0.2:7890"),
            ("10.0.0.1", "[::10.0.0.1]:7890"),
            ("2001:db8::1", "[2001:db8::2]:7890"),
        ] {
            assert_eq!(sent_to(&cookie, from, server), None, "{from} {server}");
        }
    }

    #[test]
    fn the_file_tells_where_its_node_is() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        assert!(LocalCookie::url_in(place).is_err());
        for (url, node, port) in [
            ("http://127.0.0.1:7890", "7890", 7890),
            ("http://127.0.0.1:7890/a.b/c-d_~", "7890/a.b/c-d_~", 7890),
            ("http://10.0.0.5:1", "10.0.0.5:1", 1),
            ("http://127.0.0.2:1/api", "127.0.0.2:1/api", 1),
            ("http://[2001:db8::1]:65535/7", "[2001:db8::1]:65535/7", 65535),
        ] {
            let _file = CookieFile::write(place, &LocalCookie::new(url, &[7; SECRET_BYTES])).unwrap();
            assert_eq!(fs::read_to_string(place.join(FILE)).unwrap(), format!("{node}.{}", "07".repeat(32)));
            assert_eq!(LocalCookie::url_in(place).unwrap(), url);
            let address = LocalCookie::find(place, port).unwrap().address().map(|address| address.to_string());
            assert_eq!(address.is_some(), node.contains(':'), "{url}");
            assert!(address.is_none_or(|address| url.contains(&address)), "{url}");
            assert!(LocalCookie::find(place, 2).is_err(), "{url}");
        }
        let longest = format!("http://[{0}:8888]:65535/{1}", "8888:".repeat(7).trim_end_matches(':'), "a".repeat(63));
        let _file = CookieFile::write(place, &LocalCookie::new(&longest, &[7; SECRET_BYTES])).unwrap();
        assert_eq!(fs::metadata(place.join(FILE)).unwrap().len(), 176);
        assert_eq!(LocalCookie::url_in(place).unwrap(), longest);
        // Of a killed node, and one that names no address.
        leave(place, &LocalCookie::new("http://127.0.0.1:7890", &[7; SECRET_BYTES]));
        assert_eq!(LocalCookie::url_in(place).unwrap_err().kind(), io::ErrorKind::NotFound);
        let _file = CookieFile::write(place, &LocalCookie::new("http://node.example:80", &[7; SECRET_BYTES])).unwrap();
        assert_eq!(LocalCookie::url_in(place).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn the_file_replaces_leftovers_follows_no_link_and_goes_with_the_node() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join(FILE), folder.path().join("victim"));
        let names = || fs::read_dir(folder.path()).unwrap().count();
        fs::write(&victim, "untouched").unwrap();
        symlink(&victim, &path).unwrap();
        let first = CookieFile::write(folder.path(), &cookie(1, 1)).unwrap();
        // The file of a killed node stays.
        std::mem::forget(first);
        let file = CookieFile::write(folder.path(), &cookie(1, 2)).unwrap();
        let found = fs::symlink_metadata(&path).unwrap();
        assert!(found.is_file() && found.mode() & 0o777 == 0o600 && names() == 2);
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("1.{}", "02".repeat(32)));
        assert!(LocalCookie::read(folder.path()).unwrap().1.is_in(&format!("Bearer 1.{}", "02".repeat(32))));
        drop(file);
        assert_eq!((names(), fs::read_to_string(&victim).unwrap()), (1, "untouched".to_owned()));
        fs::create_dir_all(path.join("full")).unwrap();
        assert!(CookieFile::write(folder.path(), &cookie(1, 3)).is_err());
    }

    #[test]
    fn a_file_that_was_removed_or_replaced_is_not_in_place_and_the_other_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let first = CookieFile::write(folder.path(), &cookie(1, 1)).unwrap();
        assert!(first.is_in_place());
        fs::remove_file(folder.path().join(FILE)).unwrap();
        assert!(!first.is_in_place());
        let second = CookieFile::write(folder.path(), &cookie(1, 1)).unwrap();
        assert!(second.is_in_place() && !first.is_in_place());
        drop(first);
        assert!(second.is_in_place());
        drop(second);
        assert!(!folder.path().join(FILE).exists());
    }

    #[test]
    fn the_secret_of_a_running_node_is_that_in_its_own_folder_whatever_is_beside_it() {
        let home = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| home.path().join(name));
        for folder in [&own, &other] {
            fs::create_dir(folder).unwrap();
        }
        let found = |byte: u8| {
            let found = LocalCookie::find(&own, 1).unwrap();
            found.is_in(&format!("Bearer 1.{}", hex::encode([byte; SECRET_BYTES])))
        };
        let file = CookieFile::write(&own, &cookie(1, 7)).unwrap();
        leave(&other, &cookie(1, 8));
        let later = SystemTime::now() + std::time::Duration::from_secs(3600);
        fs::File::open(other.join(FILE)).unwrap().set_modified(later).unwrap();
        assert!(found(7));
        drop(file);
        assert!(found(8));
    }

    #[test]
    fn the_secret_is_found_by_the_port_of_its_node() {
        let home = tempfile::tempdir().unwrap();
        let [mainnet, devnet, absent] = ["mainnet", "devnet", "absent"].map(|name| home.path().join(name));
        let files = [(&mainnet, 1), (&devnet, 2)].map(|(folder, port)| {
            fs::create_dir(folder).unwrap();
            CookieFile::write(folder, &cookie(port, 1)).unwrap()
        });
        let port = |folder: &Path, port| LocalCookie::find(folder, port).map(|found| found.port());
        assert_eq!(port(&mainnet, 1), Ok(Some(1)));
        assert_eq!(port(&mainnet, 2), Ok(Some(2)));
        assert_eq!(port(&absent, 2), Ok(Some(2)));
        // A killed node has left its file, and another node has the port now.
        leave(&mainnet, &cookie(2, 9));
        let file = fs::File::open(mainnet.join(FILE)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(LocalCookie::find(&mainnet, 2).unwrap().is_in(&format!("Bearer 2.{}", "01".repeat(32))));
        leave(&mainnet, &cookie(1, 1));
        assert!(port(&mainnet, 3).unwrap_err().contains("another port"));
        assert!(port(&absent, 3).unwrap_err().contains("no node runs"));
        for text in ["", "7890", "x.00", "3.a\nb", "3.a b", "3.é"] {
            fs::write(mainnet.join(FILE), text).unwrap();
            assert!(port(&mainnet, 3).unwrap_err().contains("cannot be read"), "{text:?}");
        }
        drop(files);
    }
}
