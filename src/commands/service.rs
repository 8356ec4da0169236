//! `nisd service`: a systemd unit that runs this node with minimal rights.

use std::path::{Path, PathBuf};

/// Folder for data of packages: systemd creates a folder in it and gives it to the service's user.
const STATE_FOLDER: &str = "/var/lib";
/// Folders that are hidden from the service if none of its files lie in them.
const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];

/// Default folder of the store of a service.
pub const DATA: &str = "/var/lib/nisd";

/// What a service runs. All paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The program.
    pub program: PathBuf,
    /// Arguments after `nisd run`: flags and their values.
    pub arguments: Vec<String>,
    /// The configuration file, if there is one.
    pub config: Option<PathBuf>,
    /// Folder of the chain store.
    pub data: PathBuf,
    /// User that runs the service.
    pub user: String,
}

/// Returns the unit file.
pub fn unit(installation: &Installation) -> String {
    let Installation { program, arguments, user, .. } = installation;
    let mut command = quote_word(&program.to_string_lossy());
    command.push_str(" run");
    arguments.iter().for_each(|argument| command.push_str(&format!(" {}", quote_word(argument))));
    UNIT.replace("COMMAND", &command).replace("USER", user).replace("FOLDERS\n", &folders(installation))
}

/// Returns the lines that limit what the service may see and write of the file system.
fn folders(installation: &Installation) -> String {
    let Installation { program, config, data, .. } = installation;
    let is_at_home = [Some(program), config.as_ref(), Some(data)]
        .into_iter()
        .flatten()
        .any(|path| HOMES.iter().any(|home| path.starts_with(home)));
    let home = if is_at_home { "read-only" } else { "yes" };
    let folder = data.strip_prefix(STATE_FOLDER).ok().and_then(|rest| rest.components().next());
    let data = match folder {
        Some(name) => {
            format!(
                "StateDirectory={}\nStateDirectoryMode=0750",
                escape_specifiers(&Path::new(&name).to_string_lossy())
            )
        }
        None => format!("ReadWritePaths={}", quote_word(&data.to_string_lossy())),
    };
    format!("{data}\nProtectHome={home}\n")
}

/// Quotes a word of a command line for systemd.
fn quote_word(text: &str) -> String {
    let text = escape_specifiers(text).replace('\\', "\\\\").replace('"', "\\\"").replace('$', "$$");
    match text.contains([' ', '\t', '"', '\'', ';']) {
        true => format!("\"{text}\""),
        false => text,
    }
}

fn escape_specifiers(text: &str) -> String {
    text.replace('%', "%%")
}

const UNIT: &str = "\
# A NEM (NIS1) node. Put this file into /etc/systemd/system/nisd.service, then:
#   systemctl daemon-reload && systemctl enable --now nisd
# `systemctl status nisd` shows the height, `journalctl -u nisd` the log, and
# `systemctl reload nisd` reloads the settings.

[Unit]
Description=NEM (NIS1) node
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
ExecStart=COMMAND
ExecReload=/bin/sh -c 'kill -HUP $MAINPID'
User=USER
Restart=on-failure
RestartSec=5
# A restart does not correct wrong settings.
RestartPreventExitStatus=2
# A store of an older version is rebuilt first, which can take hours.
TimeoutStartSec=infinity
TimeoutStopSec=2min
WatchdogSec=2min
LimitNOFILE=20000
# A core dump would contain private keys.
LimitCORE=0

# Folders that it may read and write.
FOLDERS
ProtectSystem=strict
PrivateTmp=yes
PrivateDevices=yes
ProtectProc=invisible
ProcSubset=pid
UMask=0077

# Rights.
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
PrivateUsers=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
";

#[cfg(test)]
mod tests {
    use super::*;

    fn installation(data: &str) -> Installation {
        Installation {
            program: "/usr/bin/nisd".into(),
            arguments: ["--config", "/etc/nisd/my node.properties"].map(str::to_owned).into(),
            config: Some("/etc/nisd/my node.properties".into()),
            data: data.into(),
            user: "nisd".to_owned(),
        }
    }

    fn lines(installation: &Installation) -> Vec<String> {
        unit(installation).lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_unit_runs_the_program_with_its_arguments() {
        let lines = lines(&installation("/var/lib/nisd"));
        let command = r#"ExecStart=/usr/bin/nisd run --config "/etc/nisd/my node.properties""#;
        for line in [command, "User=nisd", "StateDirectory=nisd", "ProtectHome=yes", "LimitCORE=0"] {
            assert!(lines.contains(&line.to_owned()), "{line} is missing in {lines:?}");
        }
    }

    #[test]
    fn a_unit_allows_writes_to_the_data_folder_and_reads_in_the_home_folder() {
        let lines = lines(&installation("/home/al/100%/store"));
        for line in ["ReadWritePaths=/home/al/100%%/store", "ProtectHome=read-only"] {
            assert!(lines.contains(&line.to_owned()), "{line} is missing in {lines:?}");
        }
        assert!(!lines.iter().any(|line| line.starts_with("StateDirectory")));
    }

    #[test]
    fn arguments_are_quoted_for_systemd() {
        assert_eq!(quote_word("a"), "a");
        assert_eq!(quote_word(r#"a "b" \c $d %e"#), r#""a \"b\" \\c $$d %%e""#);
    }
}
