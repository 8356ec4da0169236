//! `nisd service`: a systemd unit that runs this node with minimal rights.

use std::fs;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf, absolute};

use clap::Args;

use super::{CommandError, folder, print, print_note, usage};
use crate::config::{NemesisSource, Settings};
use crate::files::link_target;
use crate::store;

/// Folder for data of packages: systemd creates a folder in it and gives it to the service's user.
const STATE_FOLDER: &str = "/var/lib";
/// Folders that are hidden from the service if none of its files lie in them.
const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];
/// Folders of which the service has empty ones of its own, which are removed when it stops.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
/// Ports that only root, or a program with the capability `CAP_NET_BIND_SERVICE`, may listen on.
const LOW_PORTS: RangeInclusive<u16> = 1..=1023;

/// Open files for each connection of a client: itself, and a share for everything else.
const FILES_PER_CONNECTION: usize = 2;

/// The unit, with words in place of what differs.
const UNIT: &str = include_str!("../help/nisd.service");

/// Default folder of the store of a service.
pub const DATA: &str = "/var/lib/nisd";

/// `nisd service`.
#[derive(Args, Debug)]
pub struct Service {
    /// Settings of the node, as for `nisd run`
    #[arg(long, value_name = "FILE", required_unless_present = "network")]
    pub config: Option<PathBuf>,
    /// Network to join, as for `nisd run`
    #[arg(long, value_name = "NAME")]
    pub network: Option<String>,
    /// Folder of the chain store [default: that of the settings, else /var/lib/nisd]
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub data: Option<PathBuf>,
    /// User that runs the service; `useradd --system nisd` creates it
    #[arg(long, value_name = "USER", default_value = "nisd", value_parser = user)]
    pub user: String,
}

/// Parses a user that systemd accepts: 1 to 31 letters, digits, `_` and `-`, not starting with `-`. Digits alone are the
/// number of a user; the two largest numbers of 16 and 32 bits are nobody's.
fn user(text: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let is_number =
        || text.parse().is_ok_and(|id: u32| ![u16::MAX.into(), u32::MAX].contains(&id) && id.to_string() == text);
    let is_user = (1..=31).contains(&text.len()) && text.bytes().all(is_name) && !text.starts_with('-');
    let is_user = is_user && (!text.bytes().all(|byte| byte.is_ascii_digit()) || is_number());
    let reason = "a user has a name of 1 to 31 letters, digits, _ and -, or a number, which is not 65535 or 4294967295";
    is_user.then(|| text.to_owned()).ok_or_else(|| reason.to_owned())
}

/// A file or folder of a service.
struct Place {
    /// Its path as the unit has it: absolute, without `..`.
    path: PathBuf,
    /// Where that leads over all links, as far as it exists.
    target: PathBuf,
}

impl Place {
    /// Finds a file or folder. It is an error if the service has none at this path: the text begins with `what`, and ends with
    /// `advice`.
    fn find(what: &str, path: &Path, advice: &str) -> Result<Place, CommandError> {
        let place = Place::of(path)?;
        if let Some(folder) = place.temporary_folder() {
            return Err(usage(format!(
                "{what} {} lies in {folder}, of which a service has an empty one of its own (PrivateTmp=yes) until it \
                 stops: {advice}",
                place.path.display()
            )));
        }
        Ok(place)
    }

    fn of(path: &Path) -> Result<Place, CommandError> {
        let path = without_parents(&absolute(path).map_err(CommandError::System)?);
        Ok(Place { target: target(&path), path })
    }

    /// Returns the folder in which it lies if the service has an empty one in place of that.
    fn temporary_folder(&self) -> Option<&'static str> {
        TEMPORARY.into_iter().find(|folder| self.is_below(folder))
    }

    fn is_below(&self, folder: &str) -> bool {
        self.path.starts_with(folder) || self.target.starts_with(folder)
    }
}

/// Returns a path as text of a unit, which is UTF-8 without control characters.
fn unit_text(path: &Path) -> Result<&str, CommandError> {
    let text = path.to_str().filter(|text| !text.contains(char::is_control));
    text.ok_or_else(|| {
        usage(format!(
            "{path:?} is not UTF-8 or has a control character, which a unit cannot have: rename it, or name a link to it"
        ))
    })
}

/// Returns an absolute path without `..`: the folder above a link is that of its target.
fn without_parents(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        if component == Component::ParentDir {
            plain = fs::canonicalize(&plain).unwrap_or(plain);
            plain.pop();
        } else {
            plain.push(component);
        }
    }
    plain
}

/// Returns where an absolute path leads over all links. What is missing there may be on a disk that is not mounted.
fn target(path: &Path) -> PathBuf {
    let leads_to = |above: &Path| match fs::canonicalize(above) {
        Ok(target) => Some(target),
        Err(error) if error.kind() == ErrorKind::NotFound && above.is_symlink() => {
            Some(target(&without_parents(&link_target(above))))
        }
        Err(_) => None,
    };
    let Some((above, target)) = path.ancestors().find_map(|above| Some((above, leads_to(above)?))) else {
        return path.to_owned();
    };
    let missing = path.strip_prefix(above).unwrap_or(Path::new(""));
    target.join(missing).components().collect()
}

/// Runs `nisd service`: prints the systemd unit that runs this program.
pub fn print_unit(service: &Service, settings: &Settings) -> Result<(), CommandError> {
    // The default folder of the settings lies in the home folder of the user who prints the unit, not of the service.
    let data = match &service.data {
        None if !settings.has_explicit_data_folder() => Some(Path::new(DATA)),
        data => data.as_deref(),
    };
    let (interfaces, metrics) = settings.listeners();
    let has_low_port = interfaces.iter().chain(&metrics).any(|listener| LOW_PORTS.contains(&listener.port));
    let program = std::env::current_exe().map_err(CommandError::System)?;
    let store = data.unwrap_or(&settings.data);
    let (files, connections) = (files_beside(service, settings)?, settings.http.connections);
    print(&unit(service, &program, data, store, &files, has_low_port, connections)?)?;
    note_other_store(&settings.data, store);
    if let Some(folder) = Place::of(&program)?.temporary_folder() {
        print_note(&format!(
            "this program lies in {folder}, which the service does not see: install it elsewhere, for example in \
             /usr/local/bin, and print the unit with that"
        ));
    }
    Ok(())
}

/// Returns the files that the settings name, besides the folder of the store: the nemesis block, and the list of peers.
fn files_beside(service: &Service, settings: &Settings) -> Result<Vec<PathBuf>, CommandError> {
    const NEMESIS: &str = "nem.network.nemesisFilePath";
    let mut files = Vec::new();
    if let NemesisSource::File(path) = &settings.nemesis {
        if settings.explicit.get(NEMESIS).is_some_and(|text| text.contains("%h")) {
            return Err(usage(format!(
                "{NEMESIS} has %h, which is another folder for the user of the service: write the whole path"
            )));
        }
        files.push(path.clone());
    }
    if service.config.is_some() && settings.peers_file.exists() {
        files.push(settings.peers_file.clone());
    }
    Ok(files)
}

/// Says that the service has its store elsewhere than `nisd run` with the same settings, in `folder`.
fn note_other_store(folder: &Path, store: &Path) {
    let place = |path: &Path| absolute(path).map(|path| target(&without_parents(&path)));
    if matches!((place(folder), place(store)), (Ok(folder), Ok(store)) if folder == store) {
        return;
    }
    let present =
        if store::exists(folder) { ", where there is one: move it, or name that folder with --data" } else { "" };
    print_note(&format!(
        "the service keeps its store in {}; `nisd run` with these settings does in {}{present}",
        store.display(),
        folder.display()
    ));
}

/// Returns the unit file. `data` is the folder of the store if the unit names it, and `store` that folder in any case;
/// `others` are files that the settings name. `has_low_port` is whether the service listens on a port for which it needs a
/// right; `connections` is their maximum number. It is an error if the service could not use one of the files.
pub fn unit(
    service: &Service,
    program: &Path,
    data: Option<&Path>,
    store: &Path,
    others: &[PathBuf],
    has_low_port: bool,
    connections: usize,
) -> Result<String, CommandError> {
    const MOVE: &str = "move it, for example to /etc/nisd";
    let program = Place::of(program)?;
    let config = service.config.as_deref().map(|path| Place::find("the configuration", path, MOVE)).transpose()?;
    let store = Place::find("the folder of the store", store, "name another one with --data")?;
    let others: Vec<Place> =
        others.iter().map(|path| Place::find("the file", path, MOVE)).collect::<Result<_, CommandError>>()?;
    let mut command = vec![unit_text(&program.path)?, "run"];
    if command[0].contains(['$', '"', '\'', '\\']) {
        return Err(usage(format!(
            "{} has one of $ \" ' \\, which systemd takes in no path of a program: install this one elsewhere, for example \
             in /usr/local/bin",
            command[0]
        )));
    }
    if let Some(config) = &config {
        command.extend(["--config", unit_text(&config.path)?]);
    }
    if let Some(network) = &service.network {
        command.extend(["--network", network]);
    }
    if data.is_some() {
        command.extend(["--data", unit_text(&store.path)?]);
    }
    let command = command.into_iter().map(quote_word).collect::<Vec<_>>().join(" ");
    let is_at_home = [&program, &store]
        .into_iter()
        .chain(&config)
        .chain(&others)
        .any(|place| HOMES.iter().any(|home| place.is_below(home)));
    let home = if is_at_home { "read-only" } else { "yes" };
    let folders = format!("{}\nProtectHome={home}\n", store_folder(&store)?);
    // Users of a private name space have no rights over the ports of the host.
    let capabilities = if has_low_port {
        "CapabilityBoundingSet=CAP_NET_BIND_SERVICE\nAmbientCapabilities=CAP_NET_BIND_SERVICE"
    } else {
        "CapabilityBoundingSet=\nAmbientCapabilities=\nPrivateUsers=yes"
    };
    let words = [
        ("COMMAND", command.as_str()),
        ("USER", &service.user),
        ("FOLDERS\n", &folders),
        ("MOUNTS", &quote_path(unit_text(&store.target)?)),
        ("CAPABILITIES", capabilities),
        ("FILES", &connections.saturating_mul(FILES_PER_CONNECTION).to_string()),
    ];
    // A line has one of the words at most; a text put in may contain others.
    let line = |line: &str| {
        let found = words.iter().find(|(word, _)| line.contains(word));
        found.map_or_else(|| line.to_owned(), |(word, text)| line.replace(word, text))
    };
    Ok(UNIT.split_inclusive('\n').map(line).collect())
}

/// Returns the lines that let the service write the folder of its store.
fn store_folder(store: &Place) -> Result<String, CommandError> {
    /// Returns whether systemd takes a name as it is; it splits others at blanks and colons.
    fn is_plain(name: &str) -> bool {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    }
    let below = store.path.strip_prefix(STATE_FOLDER).ok().and_then(|rest| rest.components().next());
    // systemd keeps the folder `private` for itself.
    let name = below.and_then(|name| name.as_os_str().to_str()).filter(|name| is_plain(name) && *name != "private");
    // systemd follows no link in place of the folder, and allows no writes behind one in it.
    let is_real = |name: &&str| {
        let folder = Path::new(STATE_FOLDER).join(name);
        !folder.is_symlink() && store.target.starts_with(target(&folder))
    };
    Ok(match name.filter(is_real) {
        Some(name) => format!("StateDirectory={name}\nStateDirectoryMode=0750"),
        None => format!("ReadWritePaths={}", quote_path(unit_text(&store.target)?)),
    })
}

/// Quotes a path of a list of paths for systemd, which replaces no variables there.
fn quote_path(path: &str) -> String {
    quote_word(path).replace("$$", "$")
}

/// Quotes a word of a command line for systemd.
fn quote_word(text: &str) -> String {
    let text = text.replace('%', "%%").replace('\\', "\\\\").replace('"', "\\\"").replace('$', "$$");
    if text.contains([' ', '\t', '"', '\'', ';']) { format!("\"{text}\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Service {
        let config = Some("/etc/nisd/my node.properties".into());
        Service { config, network: None, data: None, user: "nisd".to_owned() }
    }

    fn lines(data: &str) -> Vec<String> {
        lines_with(data, &[], false)
    }

    fn lines_with(data: &str, others: &[PathBuf], has_low_port: bool) -> Vec<String> {
        let unit =
            unit(&service(), Path::new("/usr/bin/nisd"), None, Path::new(data), others, has_low_port, 10_000).unwrap();
        unit.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_unit_runs_the_program_with_its_arguments() {
        let lines = lines("/var/lib/nisd");
        let command = r#"ExecStart=/usr/bin/nisd run --config "/etc/nisd/my node.properties""#;
        for line in [command, "User=nisd", "StateDirectory=nisd", "ProtectHome=yes", "LimitCORE=0"] {
            assert!(lines.contains(&line.to_owned()), "{line} is missing in {lines:?}");
        }
    }

    /// The node reads `/proc/meminfo` and `/proc/sys/kernel/random/boot_id`.
    #[test]
    fn a_unit_hides_no_file_that_the_node_reads() {
        let hides = |line: &String| ["ProcSubset=", "InaccessiblePaths="].iter().any(|name| line.starts_with(name));
        assert!(!lines("/var/lib/nisd").iter().any(hides));
    }

    #[test]
    fn a_unit_allows_writes_to_the_data_folder_and_reads_in_the_home_folder() {
        let lines = lines("/home/al/100%/store");
        for line in ["ReadWritePaths=/home/al/100%%/store", "ProtectHome=read-only"] {
            assert!(lines.contains(&line.to_owned()), "{line} is missing in {lines:?}");
        }
        assert!(!lines.iter().any(|line| line.starts_with("StateDirectory")));
    }

    #[test]
    fn a_path_may_contain_the_words_of_the_template() {
        let lines = lines("/mnt/USER/MOUNTS FOLDERS");
        assert!(lines.contains(&r#"RequiresMountsFor="/mnt/USER/MOUNTS FOLDERS""#.to_owned()), "{lines:?}");
        assert!(lines.contains(&r#"ReadWritePaths="/mnt/USER/MOUNTS FOLDERS""#.to_owned()), "{lines:?}");
    }

    #[test]
    fn a_unit_waits_for_the_disk_of_the_store() {
        assert!(lines("/mnt/usb disk/$a").contains(&r#"RequiresMountsFor="/mnt/usb disk/$a""#.to_owned()));
    }

    #[test]
    fn a_unit_with_a_low_port_has_the_right_to_it_and_no_private_users() {
        let (with, without) = (lines_with("/srv/nisd", &[], true), lines("/srv/nisd"));
        for name in ["CapabilityBoundingSet", "AmbientCapabilities"] {
            assert!(with.contains(&format!("{name}=CAP_NET_BIND_SERVICE")), "{with:?}");
            assert!(without.contains(&format!("{name}=")), "{without:?}");
        }
        let has_private_users = |lines: &[String]| lines.iter().any(|line| line.starts_with("PrivateUsers="));
        assert!(!has_private_users(&with) && has_private_users(&without));
    }

    #[test]
    fn the_folder_of_the_store_has_one_plain_path() {
        for (data, line, mount) in [
            ("/var/lib/../../srv/n", "ReadWritePaths=/srv/n", "/srv/n"),
            ("/../x", "ReadWritePaths=/x", "/x"),
            ("/srv/./a/../n", "ReadWritePaths=/srv/n", "/srv/n"),
            ("/srv/../var/lib/nisd/store", "StateDirectory=nisd", "/var/lib/nisd/store"),
            ("/var/lib", "ReadWritePaths=/var/lib", "/var/lib"),
            ("/var/lib/my store", r#"ReadWritePaths="/var/lib/my store""#, r#""/var/lib/my store""#),
            ("/var/lib/private/x", "ReadWritePaths=/var/lib/private/x", "/var/lib/private/x"),
            ("/var/lib/a:b", "ReadWritePaths=/var/lib/a:b", "/var/lib/a:b"),
        ] {
            let lines = lines(data);
            for line in [line.to_owned(), format!("RequiresMountsFor={mount}")] {
                assert!(lines.contains(&line), "{line} is missing for {data} in {lines:?}");
            }
        }
    }

    #[test]
    fn a_path_leads_where_its_links_lead() {
        let folder = tempfile::tempdir().unwrap();
        let folder = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(folder.join("real/deep")).unwrap();
        std::os::unix::fs::symlink("real/deep", folder.join("link")).unwrap();
        assert_eq!(without_parents(&folder.join("link/../n")), folder.join("real/n"));
        assert_eq!(without_parents(&folder.join("missing/../n")), folder.join("n"));
        assert_eq!(target(&folder.join("link/n/m")), folder.join("real/deep/n/m"));
        assert_eq!(target(&folder.join("link")), folder.join("real/deep"));
        // The target is on a disk that is not mounted.
        std::os::unix::fs::symlink("link/../disk/nisd", folder.join("dangling")).unwrap();
        assert_eq!(target(&folder.join("dangling/n")), folder.join("real/disk/nisd/n"));
        std::os::unix::fs::symlink("loop", folder.join("loop")).unwrap();
        assert_eq!(target(&folder.join("loop/n")), folder.join("loop/n"));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_of_the_settings_at_home_is_read() {
        let with = |file: &str| lines_with("/var/lib/nisd", &[file.into()], false);
        assert!(with("/home/alice/n.bin").contains(&"ProtectHome=read-only".to_owned()));
        assert!(with("/etc/../root/n.bin").contains(&"ProtectHome=read-only".to_owned()));
        assert!(with("/etc/nisd/n.bin").contains(&"ProtectHome=yes".to_owned()));
    }

    #[test]
    fn a_unit_that_could_not_work_is_an_error_with_advice() {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        let not_utf8 = PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"/srv/\xff"));
        let error = |config: &Path, store: &Path, other: &Path| {
            let service = Service { config: Some(config.to_owned()), ..service() };
            let unit =
                unit(&service, Path::new("/usr/bin/nisd"), Some(store), store, &[other.to_owned()], false, 10_000);
            unit.unwrap_err().to_string()
        };
        let [config, store, other] = ["/etc/nisd/a", "/srv/nisd", "/etc/nisd/b"].map(Path::new);
        for (told, words) in [
            (error(config, Path::new("/tmp/nisd"), other), "folder of the store /tmp/nisd lies in /tmp"),
            (error(config, Path::new("/var/tmp/../tmp/n"), other), "/var/tmp/n lies in /var/tmp"),
            (error(config, &link.join("nisd"), other), "name another one with --data"),
            (error(Path::new("/var/tmp/a"), store, other), "the configuration /var/tmp/a lies in"),
            (error(config, store, Path::new("/tmp/nemesis.bin")), "the file /tmp/nemesis.bin lies in"),
            (error(Path::new("/etc/a\nUser=root"), store, other), r#""/etc/a\nUser=root" is not UTF-8 or has"#),
            (error(config, &not_utf8, other), r#""/srv/\xFF" is not UTF-8"#),
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
    }

    #[test]
    fn a_program_whose_path_systemd_does_not_take_is_an_error_with_advice() {
        let unit = |program: &str| {
            let store = Path::new("/srv/nisd");
            unit(&service(), Path::new(program), None, store, &[], false, 10_000)
        };
        for name in ["do$lar", "it's", "q\"uote", "back\\slash"] {
            let error = unit(&format!("/opt/{name}/nisd")).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("/usr/local/bin"), "{error}");
        }
        assert!(unit("/opt/100% my/nisd").unwrap().contains("ExecStart=\"/opt/100%% my/nisd\" run"));
    }

    #[test]
    fn a_user_is_one_that_systemd_accepts() {
        for accepted in ["nisd", "_nisd-1", "0", "1000", "65534", "65536", "00a"] {
            assert_eq!(user(accepted).as_deref(), Ok(accepted));
        }
        for refused in ["", "-nisd", "a b", "a.b", "65535", "4294967295", "4294967296", "00", "007", &"a".repeat(32)] {
            assert!(user(refused).unwrap_err().contains("65535"), "{refused}");
        }
    }

    #[test]
    fn arguments_are_quoted_for_systemd() {
        assert_eq!(quote_word("a"), "a");
        assert_eq!(quote_word(r#"a "b" \c $d %e"#), r#""a \"b\" \\c $$d %%e""#);
    }
}
