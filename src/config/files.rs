//! Files beside the settings: the nemesis block, and the peers that a node knows at startup.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use super::reader::{Diagnostic, quoted};
use crate::codec::Context;
use crate::codec::json::JsonDecoder;
use crate::codec::lenient_json::{self, Value};
use crate::codec::text::text_of_file;
use crate::files;
use crate::ip::parse_host;
use crate::model::Network;
use crate::peer::wire::{NodeInfo, limits};

/// Largest nemesis block in bytes; a larger file is rejected. Mainnet's has 279,786.
pub const MAX_NEMESIS_BYTES: usize = 16 << 20;
/// Largest peer list in bytes; a larger file is rejected.
pub const MAX_PEERS_BYTES: usize = limits::NODE_LIST;

/// Returns an absolute path, so that messages show in which folder a file is expected.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Where the nemesis block of a network comes from.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub enum NemesisSource {
    /// The block of a public network, compressed by gzip, is part of the program.
    #[debug("Embedded({} bytes)", _0.len())]
    Embedded(&'static [u8]),
    /// This file holds it.
    File(PathBuf),
}

impl NemesisSource {
    /// Reads the block in verifiable binary form, without parsing it.
    pub fn read(&self) -> Result<Vec<u8>, NemesisError> {
        let mut bytes = Vec::new();
        let read = match self {
            NemesisSource::Embedded(compressed) => GzDecoder::new(*compressed).read_to_end(&mut bytes).map(|_| bytes),
            NemesisSource::File(path) => {
                files::read(path, MAX_NEMESIS_BYTES).map(|mut read| std::mem::take(&mut *read))
            }
        };
        read.map_err(|error| NemesisError { path: self.path(), error })
    }

    /// Returns the absolute path of the file; an embedded block has an empty one.
    pub fn path(&self) -> PathBuf {
        match self {
            NemesisSource::Embedded(_) => PathBuf::new(),
            NemesisSource::File(path) => absolute(path),
        }
    }
}

/// The nemesis block cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot read the nemesis block {}; copy the file from another node of the network and name it with \
     nem.network.nemesisFilePath or --nemesis",
    files::describe_at(path, error)
)]
pub struct NemesisError {
    /// The file, as an absolute path.
    pub path: PathBuf,
    /// The system's error.
    #[source]
    pub error: io::Error,
}

/// Returns the name of the file with the peers that a node of a network knows at startup, in NIS1's format: an object with
/// the list `knownPeers`.
pub(super) fn peers_file_name(network: &str) -> String {
    format!("{PEERS_FILE_START}{network}{PEERS_FILE_END}")
}

/// What is in front of the network and behind it in the name of such a file.
pub(super) const PEERS_FILE_START: &str = "peers-config_";
pub(super) const PEERS_FILE_END: &str = ".json";

/// The peers that a node knows at startup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownPeers {
    /// The peers, without duplicates. They are listed.
    pub nodes: Vec<NodeInfo>,
    /// The number of each peer's entry in the list, from 1.
    pub numbers: Vec<usize>,
    /// Whether these are the built-in peers, because there is no file.
    pub is_built_in: bool,
    /// Warnings about the list.
    pub diagnostics: Vec<Diagnostic>,
}

impl KnownPeers {
    /// Reads the list in a file. Without a file, returns the built-in peers, which only mainnet and testnet have. The error
    /// says what is wrong with which file.
    pub fn read(path: &Path, network: &Network) -> Result<KnownPeers, String> {
        let read = match files::read(path, MAX_PEERS_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(KnownPeers::built_in(&network.name)),
            Err(error) => Err(format!("cannot be read: {}", files::explain(&error, Some(path)))),
            Ok(text) => KnownPeers::parse(&text, Context::of(network)),
        };
        // Absolute, so that messages show in which folder the file is expected.
        read.map_err(|text| format!("the list of peers {}: {text}", absolute(path).display()))
    }

    /// Parses the content of a file. An entry whose endpoint is invalid is left out with a warning; the error
    /// describes any other defect.
    pub fn parse(text: &[u8], context: Context) -> Result<KnownPeers, String> {
        let text = text_of_file(text).map_err(|error| error.to_string())?;
        let value = lenient_json::parse(text.as_bytes()).map_err(|error| error.to_string())?;
        let entries = match (&value, value.get("knownPeers")) {
            (Value::Object(_), None | Some(Value::Null)) => &[],
            (_, Some(Value::Array(entries))) => entries.as_slice(),
            _ => return Err("it must be an object with a list knownPeers".to_owned()),
        };
        if entries.len() > limits::LISTED_NODES {
            return Err(format!("it has more than {} entries", limits::LISTED_NODES));
        }
        let mut peers = KnownPeers::default();
        for (index, entry) in entries.iter().enumerate() {
            peers.add(index + 1, entry, context)?;
        }
        Ok(peers)
    }

    fn add(&mut self, number: usize, entry: &Value, context: Context) -> Result<(), String> {
        let text = |object, member| match entry.get(object).and_then(|object| object.get(member)) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let name = || text("identity", "name").map(|name| format!(" ({})", quoted(name))).unwrap_or_default();
        let read = JsonDecoder::new(entry, context).and_then(|mut source| NodeInfo::read_unchecked(&mut source));
        match read.map_err(|error| format!("entry {number}{}: {error}", name()))? {
            Ok(node) if self.nodes.iter().any(|known| known.identity.key == node.identity.key) => {}
            Ok(node) => {
                self.nodes.push(node);
                self.numbers.push(number);
            }
            Err(error) => {
                let wrong_host = text("endpoint", "host").and_then(|host| parse_host(host).err());
                let why = wrong_host.map(|why| format!(" ({why})")).unwrap_or_default();
                let text = format!("entry {number}{} of the list of peers is left out: {error}{why}", name());
                self.diagnostics.push(Diagnostic::warn(text));
            }
        }
        Ok(())
    }

    /// Returns the built-in peers of a network: those that NIS1 ships with.
    fn built_in(network: &str) -> KnownPeers {
        let text = match network {
            "mainnet" => include_str!("peers-config_mainnet.json"),
            "testnet" => include_str!("peers-config_testnet.json"),
            _ => "{}",
        };
        // Nothing in the list depends on the network.
        let peers = KnownPeers::parse(text.as_bytes(), Context::trusted_store()).unwrap_or_default();
        KnownPeers { is_built_in: true, ..peers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::wire::{Endpoint, MetaData};

    const KEY: &str = "7c814b3b44b1a98b917d223d81a9ff36a3eba9dc784634fa93627a29b56c235d";
    const OTHER: &str = "95ba0e864cd5edb3ec03b6486b5d64b4e3125d9085a4898aeb5748b88a010ef4";

    fn parse(text: &str) -> Result<KnownPeers, String> {
        let context = Context::of(&Network::example());
        KnownPeers::parse(text.as_bytes(), context)
    }

    fn entry(host: &str, key: &str) -> String {
        format!(
            r#"{{"endpoint":{{"protocol":"http","port":7890,"host":"{host}"}},
                "identity":{{"name":"n","public-key":"{key}"}}}}"#
        )
    }

    fn file(entries: &[String]) -> String {
        format!(r#"{{"_info":"any","knownPeers":[{}]}}"#, entries.join(","))
    }

    #[test]
    fn known_peers_are_read_once_and_without_meta_data() {
        let peers = parse(&file(&[entry("a", KEY), entry("b", OTHER), entry("c", KEY)])).unwrap();
        let hosts: Vec<_> = peers.nodes.iter().map(|node| node.endpoint.host.as_str()).collect();
        assert_eq!(hosts, ["a", "b"]);
        assert_eq!(peers.nodes[0].identity.key.to_string(), KEY);
        assert_eq!(peers.nodes[0].meta_data, MetaData::default());
        assert_eq!((peers.diagnostics.len(), peers.is_built_in), (0, false));
    }

    #[test]
    fn an_empty_peer_list_is_accepted() {
        for text in ["{}", r#"{"knownPeers":[]}"#, r#"{"knownPeers":null}"#, r#"{"_info":[1]}"#] {
            assert_eq!(parse(text), Ok(KnownPeers::default()), "{text}");
        }
    }

    #[test]
    fn a_known_peer_with_a_bad_endpoint_is_skipped_with_a_warning() {
        let peers =
            parse(&file(&[entry("http://a", KEY), entry("b", OTHER).replace("http", "gopher"), entry("c", KEY)]))
                .unwrap();
        assert_eq!(peers.nodes.len(), 1);
        let notices: Vec<_> = peers.diagnostics.iter().map(|notice| format!("{} {notice}", notice.level)).collect();
        assert_eq!(
            notices,
            [
                "WARN entry 1 (\"n\") of the list of peers is left out: host is unknown (write only a)",
                "WARN entry 2 (\"n\") of the list of peers is left out: url is malformed"
            ]
        );
    }

    #[test]
    fn any_other_defect_is_an_error_that_names_its_entry() {
        let good = entry("a", KEY);
        let wrong = |second: String| parse(&file(&[good.clone(), second])).unwrap_err();
        assert_eq!(wrong(entry("b", "00")), "entry 2 (\"n\"): publicKey must be in compressed form");
        assert_eq!(wrong("7".to_owned()), "entry 2: JSON Object was expected");
        let without = good.replace("\"endpoint\"", "\"other\"");
        assert_eq!(wrong(without), "entry 2 (\"n\"): expected value for property endpoint, but none was found");
        assert!(wrong(good.replace("7890", "\"x\"")).starts_with("entry 2 (\"n\"): property port"));
        for text in ["[]", "7", r#"{"knownPeers":{}}"#, r#"{"knownPeers":7}"#] {
            assert!(parse(text).unwrap_err().contains("a list knownPeers"), "{text}");
        }
        assert!(parse("{").unwrap_err().contains("ends too early"));
        let large = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&large, " ".repeat(MAX_PEERS_BYTES + 1)).unwrap();
        let error = KnownPeers::read(large.path(), &Network::example()).unwrap_err();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
        let many = vec!["{}".to_owned(); limits::LISTED_NODES + 1];
        assert!(parse(&file(&many)).unwrap_err().contains("more than 1000 entries"));
    }

    #[test]
    fn the_public_networks_have_built_in_peers() {
        for (network, count) in [("mainnet", 10), ("testnet", 3), ("mijinnet", 0), ("devnet", 0)] {
            let peers = KnownPeers::built_in(network);
            assert_eq!((peers.nodes.len(), peers.is_built_in), (count, true), "{network}");
            for node in &peers.nodes {
                assert_eq!(Endpoint::parse(&node.endpoint.to_string()).as_ref(), Ok(&node.endpoint));
            }
        }
    }
}
