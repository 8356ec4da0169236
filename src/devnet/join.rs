//! Files that another node needs to join a private network.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::DevnetError;
use crate::config::{Endpoint, Settings, network_properties};
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::Address;

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

/// Settings, nemesis block and a peer list with one entry, for another node.
#[derive(Debug)]
pub struct JoinFiles {
    /// URL at which other nodes reach this node.
    pub url: String,
    files: [(String, Vec<u8>); 3],
}

impl JoinFiles {
    /// Creates the files to join the network of these settings through their node. `host` is its address for other
    /// nodes; the default is that of the settings.
    pub fn new(settings: &Settings, host: Option<&str>) -> Result<JoinFiles, DevnetError> {
        let network = &settings.network;
        let secret = settings.node.boot_key.as_ref().ok_or(DevnetError::Missing("nis.bootKey"))?;
        // The configuration holds hex digits only.
        let key = PrivateKey::from_hex(secret.expose_hex()).map_err(|_| DevnetError::Missing("nis.bootKey"))?;
        let public = KeyPair::new(&key).public();
        let name = settings.node.boot_name.clone();
        let name = name.unwrap_or_else(|| Address::from_public_key(&public, network.byte).to_string());
        let Endpoint { protocol, host: own_host, port } = &settings.endpoint;
        if *port == 0 {
            return Err(DevnetError::NoPort);
        }
        let host = host.unwrap_or(own_host);
        let peers = json!({"knownPeers": [{
            "endpoint": {
                "protocol": protocol,
                "port": port,
                "host": host,
            },
            "identity": {"name": name, "public-key": public.to_string()},
        }]});
        let nemesis = settings.nemesis.read().map_err(|error| DevnetError::File(error.path, error.error))?;
        let nemesis_file = format!("nemesis-{}.bin", network.name);
        let text = format!("{HEADER}{}{NODE_HEADER}", network_properties(network, &nemesis_file));
        Ok(JoinFiles {
            url: format!("{protocol}://{host}:{port}"),
            files: [
                (SETTINGS_FILE.to_owned(), text.into_bytes()),
                (nemesis_file, nemesis),
                (format!("peers-config_{}.json", network.name), format!("{peers:#}\n").into_bytes()),
            ],
        })
    }

    /// Writes the files and returns their paths. Fails if any of them exists.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, DevnetError> {
        fs::create_dir_all(folder).map_err(|error| DevnetError::Folder(folder.to_owned(), error))?;
        let paths: Vec<_> = self.files.iter().map(|(name, _)| folder.join(name)).collect();
        if let Some(path) = paths.iter().find(|path| path.exists()) {
            return Err(DevnetError::Exists(path.clone()));
        }
        for ((_, content), path) in self.files.iter().zip(&paths) {
            fs::write(path, content).map_err(|error| DevnetError::File(path.clone(), error))?;
        }
        Ok(paths)
    }
}
