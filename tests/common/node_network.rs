//! Nodes of one private network as processes.

use std::net::SocketAddr;
use std::path::Path;

use nisd::codec::SigningForm;
use nisd::model::Transaction;
use serde_json::json;

use super::http::Client;
use super::private_network::key_pair;

/// Returns the JSON announcement of a transaction.
pub fn announcement(transaction: &Transaction) -> String {
    let signature = transaction.signature.expect("a signature").to_string();
    json!({"data": hex::encode(transaction.to_bytes(SigningForm::NonVerifiable)), "signature": signature}).to_string()
}

/// Writes a list of peers, given by their key numbers and addresses, beside a configuration.
pub fn write_peers(folder: &Path, peers: impl IntoIterator<Item = (u64, SocketAddr)>) {
    let peer = |(number, address): (u64, SocketAddr)| {
        json!({
            "endpoint": {"protocol": "http", "host": address.ip().to_string(), "port": address.port()},
            "identity": {"name": name(number), "public-key": key_pair(number).public().to_string()},
        })
    };
    let list = json!({"knownPeers": peers.into_iter().map(peer).collect::<Vec<_>>()});
    std::fs::write(folder.join("peers-config_synthetic.json"), list.to_string()).expect("room");
}

/// Returns the name of the node with a key number.
pub fn name(number: u64) -> String {
    format!("node {number}")
}

/// Returns, in order, one text field, given by its JSON pointer, of every node that the node at `at` lists as active.
pub fn active_peers(at: SocketAddr, what: &str) -> Vec<String> {
    let nodes = Client::connect(at).get("/node/peer-list/all").json();
    let active = nodes["active"].as_array().into_iter().flatten();
    let mut texts: Vec<_> = active.filter_map(|node| Some(node.pointer(what)?.as_str()?.to_owned())).collect();
    texts.sort();
    texts
}
