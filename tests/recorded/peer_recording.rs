//! Recorded conversations between NIS1 nodes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;
use nisd::codec::Format;
use nisd::config::{Settings, load};
use nisd::crypto::{KeyPair, PrivateKey, PublicKey, Signature};
use nisd::model::Network;
use nisd::peer::wire::Challenge;
use serde_json::Value;

use crate::common::exchange::decode_base64;

/// A request and its response.
pub struct Call {
    /// Arrival of the request, in seconds since the start of the recording.
    pub at: f64,
    /// Milliseconds until the response arrived or the request was given up.
    pub duration_millis: f64,
    /// Milliseconds by which the recorder delayed it.
    pub delay_millis: f64,
    pub from: String,
    pub to: String,
    pub method: String,
    pub path: String,
    pub request_headers: Vec<(String, String)>,
    pub request: Vec<u8>,
    /// `None` if there was no response.
    pub status: Option<u16>,
    pub response_headers: Vec<(String, String)>,
    pub response: Vec<u8>,
    /// The fault, in a recording of faults.
    pub fault: Option<String>,
}

/// A recording with the data of its nodes.
pub struct Recording {
    pub calls: Vec<Call>,
    /// Public keys of the nodes by name.
    pub keys: BTreeMap<String, PublicKey>,
    /// Key pairs of the nodes; they were made only for the recordings.
    pub pairs: BTreeMap<String, KeyPair>,
    /// Names of the nodes by their port on 127.0.0.1.
    pub ports: BTreeMap<u16, String>,
    pub network: Network,
}

impl Call {
    fn parse(line: &str) -> Option<Call> {
        let row: Value = serde_json::from_str(line).expect("a line is JSON");
        let text = |name: &str| row[name].as_str().map(str::to_owned);
        let path = text("path")?;
        let body = |name: &str| row[name].as_str().map_or(Vec::new(), |text| decode_base64(text).expect("base64"));
        let header = |pair: &Value| [&pair[0], &pair[1]].map(|part| part.as_str().expect("a text").to_owned());
        let headers = |name: &str| {
            let headers = row[name].as_array().into_iter().flatten().map(header);
            headers.map(|[name, value]| (name, value)).collect()
        };
        let phase = row["phase"].as_u64().map(|phase| format!("phase {phase}"));
        Some(Call {
            at: row["t"].as_f64().expect("a time"),
            duration_millis: row["ms"].as_f64().unwrap_or_default(),
            delay_millis: row["heldMs"].as_f64().unwrap_or_default(),
            from: text("from").expect("a name"),
            to: text("to").expect("a name"),
            method: text("method").expect("a method"),
            path,
            request_headers: headers("requestHeaders"),
            request: body("requestBody"),
            status: row["status"].as_u64().map(|status| u16::try_from(status).expect("a status")),
            response_headers: headers("responseHeaders"),
            response: body("responseBody"),
            fault: text("what").or(phase),
        })
    }

    fn format(&self, header: &str) -> Format {
        let value = self.request_headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(header));
        if value.is_some_and(|(_, value)| value == "application/binary") { Format::Binary } else { Format::Json }
    }

    /// Returns the format of the request.
    pub fn request_format(&self) -> Format {
        self.format("Content-Type")
    }

    /// Returns the format of the response.
    pub fn response_format(&self) -> Format {
        self.format("Accept")
    }
}

impl Recording {
    /// Re-signs a response with a new challenge if it carries a signature of any recorded node over the recorded
    /// challenge.
    pub fn signed_again(&self, mut body: Vec<u8>, recorded: &Challenge, challenge: &Challenge) -> Vec<u8> {
        let place = body.first_chunk().map(|length| u32::from_le_bytes(*length) as usize + 8);
        let Some(signature) = place.and_then(|place| body.get_mut(place..place + 64)) else { return body };
        let old = Signature((&*signature).try_into().expect("64 bytes"));
        let signer = self.pairs.values().find(|pair| recorded.is_signed_by(&pair.public(), &old));
        if let Some(pair) = signer {
            signature.copy_from_slice(&challenge.sign(pair).0);
        }
        body
    }
}

/// Reads a recording from a folder.
pub fn read(folder: &Path, name: &str) -> Recording {
    let file = std::fs::File::open(folder.join(format!("{name}.jsonl.gz"))).expect("a recording");
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    let calls = lines.filter_map(|line| Call::parse(&line.expect("a line"))).collect();
    let configs = folder.join(format!("{name}-config"));
    let nodes = std::fs::read(configs.join("nodes.json")).expect("the nodes of the recording");
    let nodes: BTreeMap<String, Value> = serde_json::from_slice(&nodes).expect("JSON");
    let key = |node: &Value| {
        let text = [&node["publicKey"], &node["pub"]].into_iter().find_map(Value::as_str).expect("a key");
        PublicKey::from_hex(text).expect("a key")
    };
    let keys = nodes.iter().map(|(name, node)| (name.clone(), key(node))).collect();
    let pair = |node: &Value| {
        let text = [&node["privateKey"], &node["priv"]].into_iter().find_map(Value::as_str)?;
        Some(KeyPair::new(&PrivateKey::from_hex(text).expect("a key")))
    };
    let pairs = nodes.iter().filter_map(|(name, node)| Some((name.clone(), pair(node)?))).collect();
    let port = |node: &Value| [&node["publicPort"], &node["port"]].into_iter().find_map(Value::as_u64);
    let ports =
        nodes.iter().filter_map(|(name, node)| Some((u16::try_from(port(node)?).ok()?, name.clone()))).collect();
    Recording { calls, keys, pairs, ports, network: settings(&configs).network }
}

/// Returns the settings of one of the nodes; all nodes share its network.
fn settings(configs: &Path) -> Settings {
    let mut folders = std::fs::read_dir(configs).expect("a folder").map(|entry| entry.expect("an entry").path());
    let folder = folders.find(|path| path.is_dir()).expect("the settings of a node");
    load(Some(&folder.join("config-user.properties")), Vec::new(), Some(Path::new("/"))).expect("settings")
}
