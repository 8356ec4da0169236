//! The recorded network of three NIS1 nodes, rebuilt with three nodes of ours that have the same settings and lists of
//! peers.

use std::fs;
use std::path::Path;

use crate::common::daemon::{Node, nisd, wait_for};
use crate::common::http::Client;
use crate::common::node_network::{active_peers, loopback};
use crate::common::recorded;
use tempfile::TempDir;

const NODES: [&str; 3] = ["A", "B", "C"];
/// Ports of the recorded nodes.
const RECORDED_PORTS: [u16; 3] = [17601, 17602, 17603];

/// Writes the files of a node into a folder of its own, with other ports.
fn lay_out(configs: &Path, node: &str, ports: &[u16]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::copy(configs.join("nemesis.bin"), folder.path().join("nemesis.bin")).expect("the nemesis block");
    for file in ["config-user.properties", "peers-config_peerrec.json"] {
        let mut text = fs::read_to_string(configs.join(node).join(file)).expect("a recorded file");
        for (recorded, port) in RECORDED_PORTS.iter().zip(ports) {
            text = text.replace(&recorded.to_string(), &port.to_string());
        }
        fs::write(folder.path().join(file), text).expect("room");
    }
    folder
}

fn start(folder: &TempDir) -> Node {
    let mut command = nisd(["run", "--bind", "127.0.0.1", "--websocket-port", "0"]);
    command.arg("--config").arg(folder.path().join("config-user.properties"));
    command.arg("--data").arg(folder.path().join("store"));
    Node::from_command(command)
}

#[test]
fn three_nodes_with_recorded_settings_find_each_other_and_make_one_chain() {
    let configs = recorded("peer/steady-config");
    let ports = NODES.map(|_| loopback(1).port());
    let folders = NODES.map(|node| lay_out(&configs, node, &ports));
    let nodes = folders.each_ref().map(start);
    for (name, node) in NODES.iter().zip(&nodes) {
        let others: Vec<_> = NODES.iter().filter(|other| *other != name).map(|other| format!("node {other}")).collect();
        wait_for("the others", || (active_peers(node.http, "/identity/name") == others).then_some(()));
    }
    let block = |node: &Node| {
        let mut client = Client::connect(node.http);
        (client.height() >= 3).then(|| client.block(3).json())
    };
    wait_for("one chain", || {
        let blocks = nodes.each_ref().map(block);
        (blocks[0].is_some() && blocks.iter().all(|block| *block == blocks[0])).then_some(())
    });
    for node in &nodes {
        assert!(!node.process.log().contains("panicked"), "{}", node.process.log());
    }
}
