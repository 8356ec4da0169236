//! `nisd devnet`: the private network that nisd has created. Its introduction is also shown at its start.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use super::{CommandError, print};
use crate::config::{Bind, Endpoint, Settings, network_properties};
use crate::crypto::KeyPair;
use crate::devnet::{Account, Devnet, DevnetError, Role};
use crate::model::Address;
use crate::wallet::values::currency;

/// `nisd devnet`.
#[derive(Subcommand, Debug)]
pub enum DevnetCommand {
    /// Show the accounts of a private network, and commands to copy
    Show {
        /// Folder of the private network [default: that of nisd run]
        #[arg(long, value_name = "DIR")]
        data: Option<String>,
        /// Port of the node's HTTP interface [default: nem.httpPort of its settings]
        #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
        http_port: Option<String>,
    },
    /// Write what another node, nisd or NIS1, needs to join a private network
    ExportConfig {
        /// Folder of the private network [default: that of nisd run]
        #[arg(long, value_name = "DIR")]
        data: Option<String>,
        /// Folder to write to
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
        /// Host name or address at which other nodes reach this node [default: nem.host of its settings]
        #[arg(long, value_name = "HOST")]
        host: Option<String>,
        /// Port at which other nodes reach this node [default: nem.httpPort of its settings]
        #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
        http_port: Option<String>,
    },
}

/// `nisd devnet`.
pub fn devnet(command: &DevnetCommand, settings: &Settings, devnet: &Devnet) -> Result<(), CommandError> {
    match command {
        DevnetCommand::Show { .. } => print_introduction(devnet, settings),
        DevnetCommand::ExportConfig { output, host, .. } => {
            let (url, files) = join_files(settings, host.as_deref())?;
            let paths = write_new(&files, output)?;
            log::info!("other nodes will reach this node at {url}; --host and --http-port name another endpoint");
            // The flags of the running node are not known here.
            let own = &settings.endpoint.host;
            if let Some(host) = host.as_ref().filter(|host| *host != own) {
                log::info!("NIS1 nodes use the address that the node reports: run it with --set nem.host={host}");
            }
            if settings.http.bind.is_loopback() {
                log::info!("its settings allow only this machine: run it with --bind '*', or set nisd.bindAddress");
            }
            print(&paths.iter().map(|path| format!("{}\n", path.display())).collect::<String>())
        }
    }
}

/// Prints how to use a private network.
pub fn print_introduction(devnet: &Devnet, settings: &Settings) -> Result<(), CommandError> {
    let program = std::env::args().next().unwrap_or_else(|| "nisd".to_owned());
    print(&introduction(devnet, settings, &program))
}

/// Returns the accounts, and commands to copy. `program` is how nisd was called.
fn introduction(devnet: &Devnet, settings: &Settings, program: &str) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "\n{}\n\n{}", summary(devnet, settings), accounts(devnet));
    let _ = writeln!(text, "In another terminal:\n\n{}", commands(devnet, settings, program));
    text
}

fn summary(devnet: &Devnet, settings: &Settings) -> String {
    let chain = &settings.network.chain;
    let consensus = if chain.proof_of_stake { "stake" } else { "importance" };
    let keys = if devnet.accounts.iter().any(|account| account.is_demo) {
        "THE KEYS ARE PUBLICLY KNOWN DEMO KEYS: WORTHLESS. For your own keys: --fresh-keys --data DIR"
    } else {
        "Its keys are your own; keep the key files."
    };
    format!(
        "A private network of your own: a block every {} s, proof of {consensus}.\nIt is stored in {}; every later start \
         continues it.\n{keys}\n{}",
        chain.target_time,
        devnet.folder.display(),
        reach(devnet, settings.http.bind)
    )
}

/// Describes which machines can reach the node.
fn reach(devnet: &Devnet, bind: Bind) -> String {
    let has_demo_keys = devnet.accounts.iter().any(|account| account.is_demo);
    let place = match bind {
        Bind::All => "all addresses of this machine".to_owned(),
        Bind::Loopback => "127.0.0.1 and ::1".to_owned(),
        Bind::One(address) => address.to_string(),
    };
    let remark = match (bind.is_loopback(), has_demo_keys) {
        (true, _) => ": other machines cannot reach it. --bind '*' allows them",
        (false, true) => ", SO OTHER MACHINES CAN REACH IT AND ITS PUBLICLY KNOWN KEYS. --bind localhost prevents this",
        (false, false) => ": other machines can reach it. --bind localhost prevents this",
    };
    format!("It listens on {place}{remark}.")
}

fn accounts(devnet: &Devnet) -> String {
    let line = |account: &Account| {
        let Account { role, address, balance, key_file, .. } = account;
        let (name, balance, file) = (role.name(), currency(*balance), key_file.display());
        let remark = if *role == Role::Harvester { "  (harvests the blocks; must not send)" } else { "" };
        format!("  {name:<9}  {address}  {balance:>14}  {file}{remark}\n")
    };
    devnet.accounts.iter().map(line).collect()
}

fn commands(devnet: &Devnet, settings: &Settings, program: &str) -> String {
    /// Default port of `nisd send`.
    const USUAL_PORT: u16 = 7890;
    let (http, websocket) = (settings.http.port, settings.websocket.port);
    let url = format!("http://127.0.0.1:{http}");
    let mut text = String::new();
    if settings.http.explorer {
        let _ = writeln!(text, "  {url}/explorer in a browser");
    }
    let at = if http == USUAL_PORT { String::new() } else { format!(" --node {url}") };
    let _ = writeln!(text, "  {program} status{at}");
    let _ = writeln!(text, "  curl {url}/chain/height");
    let (Some(alice), Some(bob)) = (devnet.account(Role::Alice), devnet.account(Role::Bob)) else { return text };
    let (key_file, bob) = (alice.key_file.display(), &bob.address);
    let _ = writeln!(
        text,
        "  {program} send --from-key-file {key_file} --to {bob} --amount 12.5 --message hello{at} --wait"
    );
    let _ = writeln!(text, "  curl '{url}/account/get?address={bob}'");
    let _ = writeln!(
        text,
        "\nMessages, STOMP at ws://127.0.0.1:{websocket}/w/messages/websocket: /blocks/new, /unconfirmed/{bob},\n\
         /transactions/{bob}"
    );
    text
}

const SETTINGS_FILE: &str = "config-user.properties";
const HEADER: &str = "\
# Settings with which another node joins this private network. With nisd:
#
#   nisd run --config config-user.properties
#
# With NIS1: put the three files into the folder of its own configuration (on its class path).
#
# All nodes of the network must have the same values here:
";
const NODE_HEADER: &str = "
# The node that joins. Without its own key (nis.bootKey) it generates one at each start. To harvest, set nis.bootKey to
# the key of an account of the network that has importance, and the value below to true.
nis.shouldAutoHarvestOnBoot = false
# Peers report the node's address to it. If they cannot, set nem.host, and this to Disabled.
nis.ipDetectionMode = AutoOptional
";

/// The content of a file, with its name.
type NamedFile = (String, Vec<u8>);

/// Returns what another node needs to join the network of these settings through their node: the URL of this node, and
/// settings, nemesis block and a peer list with one entry. `host` is its address for other nodes; the default is that of
/// the settings.
fn join_files(settings: &Settings, host: Option<&str>) -> Result<(String, [NamedFile; 3]), CommandError> {
    let network = &settings.network;
    let failed = |text: &str| CommandError::Failed(text.to_owned());
    let key = settings.node.boot_key.as_ref();
    let key = key.ok_or_else(|| failed("nis.bootKey is missing in the settings of the private network"))?;
    let public = KeyPair::new(key).public();
    let name = settings.node.boot_name.clone();
    let name = name.unwrap_or_else(|| Address::from_public_key(&public, network.byte).to_string());
    let Endpoint { protocol, host: own_host, port } = &settings.endpoint;
    if *port == 0 {
        return Err(failed(
            "nem.httpPort is 0, so the system chooses another port at each start; name one with --http-port, and start \
             the node with the same port",
        ));
    }
    let host = host.unwrap_or(own_host);
    let peers = json!({"knownPeers": [{
        "endpoint": {"protocol": protocol, "port": port, "host": host},
        "identity": {"name": name, "public-key": public.to_string()},
    }]});
    let nemesis_file = format!("nemesis-{}.bin", network.name);
    let text = format!("{HEADER}{}{NODE_HEADER}", network_properties(network, &nemesis_file));
    let files = [
        (SETTINGS_FILE.to_owned(), text.into_bytes()),
        (nemesis_file, settings.nemesis.read()?),
        (format!("peers-config_{}.json", network.name), format!("{peers:#}\n").into_bytes()),
    ];
    Ok((format!("{protocol}://{host}:{port}"), files))
}

/// Writes files and returns their paths. Fails if any of them exists.
fn write_new(files: &[NamedFile], folder: &Path) -> Result<Vec<PathBuf>, CommandError> {
    fs::create_dir_all(folder).map_err(|error| DevnetError::Folder(folder.to_owned(), error))?;
    let paths: Vec<_> = files.iter().map(|(name, _)| folder.join(name)).collect();
    if let Some(path) = paths.iter().find(|path| path.exists()) {
        let path = path.display();
        return Err(CommandError::Failed(format!(
            "{path} exists and is not overwritten; choose another folder with --output"
        )));
    }
    for ((_, content), path) in files.iter().zip(&paths) {
        fs::write(path, content).map_err(|error| CommandError::File(path.clone(), error))?;
    }
    Ok(paths)
}
