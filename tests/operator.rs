//! What the operator of a node is told of other nodes, by `nisd peers` and by the routes for people.

mod common;

use std::net::SocketAddr;

use common::daemon::{Ended, Node, closed_port, run, wait_for};
use common::http_client::Client;
use common::private_network::{Genesis, TOTAL, address, key_pair, now, private_key};
use nisd::model::Amount;
use serde_json::Value;
use tempfile::TempDir;

/// Columns of the table.
const STATE: usize = 0;
const NAME: usize = 2;
const ENDPOINT: usize = 4;
const HEIGHT: usize = 6;
const NOTE: usize = 11;

/// A node of a network of its own making, and its folder.
fn node(genesis: &Genesis, number: u64, settings: &[(&str, &str)], arguments: &[&str]) -> (Node, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = genesis.write_hasty(folder.path(), &private_key(number).printed(), settings);
    let data = folder.path().join("store");
    let paths = [&config, &data].map(|path| path.to_str().expect("a path"));
    let all = [&["--config", paths[0], "--data", paths[1]], arguments].concat();
    (Node::start(&all), folder)
}

fn genesis() -> Genesis {
    Genesis::new(now(), &[(address(&key_pair(1)), Amount::whole(TOTAL))])
}

fn peers(node: SocketAddr, arguments: &[&str]) -> Ended {
    run([&["peers", "--node", &format!("http://{node}")], arguments].concat())
}

/// The rows of the table, without the names of the columns.
fn rows(ended: &Ended) -> Vec<Vec<String>> {
    let text = ended.text();
    let cells = |line: &str| line.split('\t').map(str::to_owned).collect();
    let mut rows: Vec<Vec<String>> = text.lines().map(cells).collect();
    assert_eq!((rows[0][STATE].as_str(), rows[0][NOTE].as_str()), ("STATE", "NOTE"), "{text}");
    rows.remove(0);
    rows
}

#[test]
fn two_nodes_are_told_of_each_other() {
    let genesis = genesis();
    let (first, _folder) = node(&genesis, 1, &[("nis.bootName", "alice")], &[]);
    let alone = peers(first.http, &[]).expect_success();
    assert!(rows(&alone).is_empty());
    assert!(alone.stderr.contains("the node knows no others") && alone.stderr.contains("--peer"), "{}", alone.stderr);

    let settings = [("nis.shouldAutoHarvestOnBoot", "false"), ("nis.bootName", "bob")];
    let (second, _folder) = node(&genesis, 2, &settings, &["--peer", &first.http.to_string()]);
    let of_second = wait_for("the height of the first", || {
        let rows = rows(&peers(second.http, &[]).expect_success());
        rows.into_iter().find(|row| row[STATE] == "active" && row[HEIGHT] != "-")
    });
    assert_eq!((of_second[NAME].as_str(), &of_second[ENDPOINT]), ("alice", &first.http.to_string()));
    // The system has chosen the port of the second, and that is the one at which the first has met it.
    let of_first = wait_for("the second", || rows(&peers(first.http, &[]).expect_success()).pop());
    assert_eq!((of_first[NAME].as_str(), &of_first[ENDPOINT]), ("bob", &second.http.to_string()));
    let info = Client::connect(second.http).get("/node/info").json();
    assert_eq!(info["endpoint"]["port"], second.http.port());

    let json = peers(second.http, &["--json"]).expect_success().text();
    let report: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(report["peers"][0]["node"]["identity"]["name"], "alice");

    // What the second tells of the largest height is what the first says.
    let largest = wait_for("a block", || {
        let told = Client::connect(second.http).get("/node/active-peers/max-chain-height").json();
        told["height"].as_u64().filter(|height| *height > 1)
    });
    assert!(largest <= Client::connect(first.http).height());
    let outgoing = Client::connect(second.http).get("/debug/connections/outgoing").json();
    let latest = outgoing["most-recent"].as_array().expect("a list");
    let is_first = |call: &Value| call["host"] == first.http.ip().to_string();
    assert!(!latest.is_empty() && latest.iter().all(is_first), "{outgoing}");
    assert!(latest.iter().any(|call| call["path"] == "/chain/height"), "{outgoing}");
    let incoming = Client::connect(first.http).get("/debug/connections/incoming").json();
    let paths: Vec<_> = incoming["most-recent"].as_array().expect("a list").iter().map(|call| &call["path"]).collect();
    assert!(paths.iter().any(|path| **path == "/local/peers"), "{incoming}");
    assert!(!paths.iter().any(|path| **path == "/chain/height"), "{incoming}");
}

#[test]
fn a_node_whose_address_nobody_tells_is_not_booted_and_says_why() {
    let nobody = closed_port().to_string();
    let (node, _folder) = node(&genesis(), 1, &[], &["--peer", &nobody]);
    let mut client = Client::connect(node.http);
    assert_eq!(client.get("/status").json()["code"], 4);
    let refused = client.get("/node/info");
    assert_eq!((refused.status, &refused.json()["message"]), (503, &"NIS_ILLEGAL_STATE_NOT_BOOTED".into()));
    let boot = r#"{"identity":{"private-key":"01"},"endpoint":{"protocol":"http","host":"a","port":1},"metaData":{"application":"a"}}"#;
    let again = client.post("/node/boot", boot);
    assert_eq!((again.status, &again.json()["message"]), (503, &"NIS_ILLEGAL_STATE_ALREADY_BOOTED".into()));
    wait_for("a failure", || {
        let told = peers(node.http, &[]).expect_success();
        assert_eq!((rows(&told)[0][STATE].as_str(), &rows(&told)[0][ENDPOINT]), ("unknown", &nobody));
        (told.stderr.contains("in 1 attempts") && told.stderr.contains("AutoOptional")).then_some(())
    });
}

#[test]
fn a_node_that_was_not_told_to_join_says_so() {
    let settings = [("nis.shouldAutoBoot", "false"), ("nis.bootKey", "")];
    let (node, _folder) = node(&genesis(), 1, &settings, &[]);
    let told = peers(node.http, &[]).expect_success();
    assert!(rows(&told).is_empty() && told.stderr.contains("/node/boot"), "{}", told.stderr);
}

#[test]
fn who_asks_in_the_wrong_place_is_told_what_to_do() {
    let (node, folder) = node(&genesis(), 1, &[], &[]);
    peers(closed_port(), &[]).expect_failure(1, &["does not answer", "Is it running, and is --node right?"]);
    peers(node.websocket, &[]).expect_failure(1, &["/local/peers", "the port of its HTTP interface?"]);
    let config = folder.path().join("node.properties");
    let config = config.to_str().expect("a path");
    run(["peers", "--config", config, "--set", "nem.httpPort=0"]).expect_failure(2, &["--node http://127.0.0.1:PORT"]);
    let port = format!("nem.httpPort={}", node.http.port());
    assert!(rows(&run(["peers", "--config", config, "--set", &port]).expect_success()).is_empty());
    run(["peers", "--node", "https://a"]).expect_failure(2, &["https is not supported"]);
}
