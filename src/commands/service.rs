//! `nisd service`: a systemd unit that runs this node with minimal rights.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf, absolute};

use clap::Args;

use super::{CommandError, folder, print, print_note};
use crate::config::Settings;
use crate::store;

/// Folder for data of packages: systemd creates a folder in it and gives it to the service's user.
const STATE_FOLDER: &str = "/var/lib";
/// Folders that are hidden from the service if none of its files lie in them.
const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];
/// Ports that only root, or a program with the capability `CAP_NET_BIND_SERVICE`, may listen on.
const LOW_PORTS: RangeInclusive<u16> = 1..=1023;

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

/// Parses a user name that systemd accepts: 1 to 31 letters, digits, `_` and `-`, not starting with `-`.
fn user(text: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let is_user = (1..=31).contains(&text.len()) && text.bytes().all(is_name) && !text.starts_with('-');
    is_user.then(|| text.to_owned()).ok_or_else(|| "a user name has 1 to 31 letters, digits, _ and -".to_owned())
}

impl Service {
    /// Returns the flags for `nisd run`; includes `--data` if `data` is given. Paths are absolute.
    fn arguments(&self, data: Option<&Path>) -> Vec<String> {
        let text = |path: &Path| absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned();
        let flags = [
            ("--config", self.config.as_deref().map(text)),
            ("--network", self.network.clone()),
            ("--data", data.map(text)),
        ];
        flags.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?])).flatten().collect()
    }
}

/// Runs `nisd service`: prints the systemd unit that runs this program.
pub fn print_unit(service: &Service, settings: &Settings) -> Result<(), CommandError> {
    // The default folder of the settings lies in the home folder of the user who prints the unit, not of the service.
    let data = match &service.data {
        None if !settings.has_explicit_data_folder() => Some(Path::new(DATA)),
        data => data.as_deref(),
    };
    let has_low_port = [settings.http.port, settings.websocket.port].iter().any(|port| LOW_PORTS.contains(port));
    let store = absolute(data.unwrap_or(&settings.data)).map_err(CommandError::System)?;
    let text = || unit(service, &std::env::current_exe()?, data, &store, has_low_port);
    print(&text().map_err(CommandError::System)?)?;
    note_other_store(&settings.data, &store);
    Ok(())
}

/// Says that the service has its store elsewhere than `nisd run` with the same settings, in `folder`.
fn note_other_store(folder: &Path, store: &Path) {
    if absolute(folder).is_ok_and(|folder| folder == store) {
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

/// Returns the unit file. `data` is the folder of the store if the unit names it, and `store` that folder in any case.
/// `has_low_port` is whether the service listens on a port for which it needs a right.
pub fn unit(
    service: &Service,
    program: &Path,
    data: Option<&Path>,
    store: &Path,
    has_low_port: bool,
) -> io::Result<String> {
    let mut command = vec![program.to_string_lossy().into_owned(), "run".to_owned()];
    command.extend(service.arguments(data));
    let command = command.iter().map(|word| quote_word(word)).collect::<Vec<_>>().join(" ");
    let config = service.config.as_deref().map(absolute).transpose()?;
    let folders = folders([Some(program), config.as_deref(), Some(store)], store);
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
        ("MOUNTS", &quote_path(store)),
        ("CAPABILITIES", capabilities),
    ];
    // A line has one of the words at most; a text put in may contain others.
    let line = |line: &str| {
        let found = words.iter().find(|(word, _)| line.contains(word));
        found.map_or_else(|| line.to_owned(), |(word, text)| line.replace(word, text))
    };
    Ok(UNIT.split_inclusive('\n').map(line).collect())
}

/// Returns the lines that limit what the service may see and write of the file system.
fn folders(used: [Option<&Path>; 3], data: &Path) -> String {
    let is_at_home = used.into_iter().flatten().any(|path| HOMES.iter().any(|home| path.starts_with(home)));
    let home = if is_at_home { "read-only" } else { "yes" };
    let folder = data.strip_prefix(STATE_FOLDER).ok().and_then(|rest| rest.components().next());
    let data = match folder {
        Some(name) => {
            format!(
                "StateDirectory={}\nStateDirectoryMode=0750",
                escape_specifiers(&Path::new(&name).to_string_lossy())
            )
        }
        None => format!("ReadWritePaths={}", quote_path(data)),
    };
    format!("{data}\nProtectHome={home}\n")
}

/// Quotes a path of a list of paths for systemd, which replaces no variables there.
fn quote_path(path: &Path) -> String {
    quote_word(&path.to_string_lossy()).replace("$$", "$")
}

/// Quotes a word of a command line for systemd.
fn quote_word(text: &str) -> String {
    let text = escape_specifiers(text).replace('\\', "\\\\").replace('"', "\\\"").replace('$', "$$");
    if text.contains([' ', '\t', '"', '\'', ';']) { format!("\"{text}\"") } else { text }
}

fn escape_specifiers(text: &str) -> String {
    text.replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(data: &str) -> Vec<String> {
        lines_with(data, false)
    }

    fn lines_with(data: &str, has_low_port: bool) -> Vec<String> {
        let config = Some("/etc/nisd/my node.properties".into());
        let service = Service { config, network: None, data: None, user: "nisd".to_owned() };
        let unit = unit(&service, Path::new("/usr/bin/nisd"), None, Path::new(data), has_low_port).unwrap();
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
        let (with, without) = (lines_with("/srv/nisd", true), lines("/srv/nisd"));
        for name in ["CapabilityBoundingSet", "AmbientCapabilities"] {
            assert!(with.contains(&format!("{name}=CAP_NET_BIND_SERVICE")), "{with:?}");
            assert!(without.contains(&format!("{name}=")), "{without:?}");
        }
        let has_private_users = |lines: &[String]| lines.iter().any(|line| line.starts_with("PrivateUsers="));
        assert!(!has_private_users(&with) && has_private_users(&without));
    }

    #[test]
    fn arguments_are_quoted_for_systemd() {
        assert_eq!(quote_word("a"), "a");
        assert_eq!(quote_word(r#"a "b" \c $d %e"#), r#""a \"b\" \\c $$d %%e""#);
    }
}
