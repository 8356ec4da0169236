//! Information for the operator of a node: about peers, by `nisd peers` and the routes for people; about replaced
//! blocks; and the log.

use std::net::SocketAddr;

use crate::common::daemon::{CommandOutput, Node, args, closed_port, new_network, run, wait_for};
use crate::common::http::{Client, cookie_file};
use crate::common::private_network::{Genesis, TOTAL, address, key_pair, now, private_key, signed, transfer};
use nisd::metrics::Scrape;
use nisd::model::transaction::Transfer;
use nisd::model::{Address, Amount, Body, Mosaic, MosaicId, Timestamp};
use serde_json::Value;

/// Columns of the table.
const STATE: usize = 0;
const NAME: usize = 2;
const ENDPOINT: usize = 4;
const HEIGHT: usize = 6;
const NOTE: usize = 11;

fn peers(node: SocketAddr, arguments: &[&str]) -> CommandOutput {
    let cookie = cookie_file(node);
    let data = cookie.as_ref().and_then(|file| file.parent()?.to_str()).map(|data| ["--data", data]);
    let data = data.as_ref().map_or(&[][..], |data| data);
    run([&["peers", "--node", &format!("http://{node}")], arguments, data].concat())
}

/// Returns the rows of the table without the header.
fn rows(ended: &CommandOutput) -> Vec<Vec<String>> {
    let text = ended.text();
    let cells = |line: &str| line.split('\t').map(str::to_owned).collect();
    let mut rows: Vec<Vec<String>> = text.lines().map(cells).collect();
    assert_eq!((rows[0][STATE].as_str(), rows[0][NOTE].as_str()), ("STATE", "NOTE"), "{text}");
    rows.remove(0);
    rows
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn two_nodes_show_each_other_as_peers() {
    let genesis = new_network();
    let first = Node::on_fast_network(&genesis, 1, &[("nis.bootName", "alice")], &[]);
    let alone = peers(first.http, &[]).expect_success();
    assert!(rows(&alone).is_empty());
    assert!(alone.stderr.contains("the node knows no peers") && alone.stderr.contains("--peer"), "{}", alone.stderr);

    let settings = [("nis.shouldAutoHarvestOnBoot", "false"), ("nis.bootName", "bob")];
    let second = Node::on_fast_network(&genesis, 2, &settings, &["--peer", &first.http.to_string()]);
    let of_second = wait_for("the height of the first", || {
        let rows = rows(&peers(second.http, &[]).expect_success());
        rows.into_iter().find(|row| row[STATE] == "active" && row[HEIGHT] != "-")
    });
    assert_eq!((of_second[NAME].as_str(), &of_second[ENDPOINT]), ("alice", &first.http.to_string()));
    // The system has chosen the port of the second node, and the first one reaches it there.
    let of_first = wait_for("the second", || rows(&peers(first.http, &[]).expect_success()).pop());
    assert_eq!((of_first[NAME].as_str(), &of_first[ENDPOINT]), ("bob", &second.http.to_string()));
    let info = Client::connect(second.http).get("/node/info").json();
    assert_eq!(info["endpoint"]["port"], second.http.port());

    let json = peers(second.http, &["--json"]).expect_success().text();
    let report: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(report["peers"][0]["node"]["identity"]["name"], "alice");

    // The second node reports the first one's height as the largest.
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
fn a_node_without_a_detected_address_is_not_booted_and_reports_why() {
    let nobody = closed_port().to_string();
    let node = Node::on_fast_network(&new_network(), 1, &[], &["--peer", &nobody]);
    let mut client = Client::connect(node.http);
    assert_eq!(client.get("/status").json()["code"], 4);
    let rejected = client.get("/node/info");
    assert_eq!((rejected.status, &rejected.json()["message"]), (503, &"NIS_ILLEGAL_STATE_NOT_BOOTED".into()));
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
fn a_node_without_auto_boot_reports_that_it_is_not_booted() {
    let settings = [("nis.shouldAutoBoot", "false"), ("nis.bootKey", "")];
    let node = Node::on_fast_network(&new_network(), 1, &settings, &[]);
    let told = peers(node.http, &[]).expect_success();
    assert!(rows(&told).is_empty() && told.stderr.contains("/node/boot"), "{}", told.stderr);
}

#[test]
fn the_peers_command_explains_a_wrong_address_or_port() {
    let mut node = Node::on_fast_network(&new_network(), 1, &[], &[]);
    peers(closed_port(), &[]).expect_failure(1, &["does not answer", "Is it running, and is --node right?"]);
    peers(node.websocket, &[]).expect_failure(1, &["/local/peers", "the port of its HTTP interface?"]);
    let (config, closed) = (node.path("node.properties"), closed_port().port());
    let with_port = |port: u16| run(args!["peers", "--config", config, "--set", format!("nem.httpPort={port}")]);
    for port in [0, node.http.port(), closed] {
        assert!(rows(&with_port(port).expect_success()).is_empty(), "the node of the folder is found");
    }
    run(["peers", "--node", "https://a"]).expect_failure(2, &["https is not supported"]);
    let _folder = node.folder.take();
    node.stop();
    with_port(0).expect_failure(2, &["--node http://127.0.0.1:PORT"]);
    with_port(closed).expect_failure(1, &["does not answer"]);
}

/// Returns the value of a metric without labels.
fn metric(client: &mut Client, name: &str) -> f64 {
    let metrics = Scrape::parse(client.get("/metrics").text()).expect("the text format");
    metrics.value(name).unwrap_or_else(|| panic!("{name} is missing"))
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn lost_harvested_blocks_are_reported_even_if_their_account_is_locked() {
    let shares = [(1, TOTAL / 2 - 50), (2, TOTAL / 2 - 50), (3, 100)];
    let shares = shares.map(|(number, units)| (address(&key_pair(number)), Amount::whole(units)));
    let genesis = Genesis::new(now(), &shares);
    let first = Node::on_fast_network(&genesis, 1, &[], &[]);
    // It makes blocks alone, too, before they meet.
    let mut second = Node::on_fast_network(&genesis, 2, &[], &[]);
    let mut client = Client::connect(first.http);
    let mut other = Client::connect(second.http);
    // Only one of these payments can be in the chain on which they agree.
    for (client, recipient) in [(&mut client, 4), (&mut other, 5)] {
        let (recipient, time) = (address(&key_pair(recipient)), Timestamp(now().0 - 60));
        let payment = transfer(&key_pair(3), recipient, Amount::whole(90), Amount::whole(1), time);
        let signature = hex::encode(payment.signature.expect("a signature").0);
        let bytes = hex::encode(payment.signed_bytes());
        let announced = format!(r#"{{"data":"{bytes}","signature":"{signature}"}}"#);
        assert_eq!(client.post("/transaction/announce", &announced).json()["message"], "SUCCESS");
    }
    client.wait_for_height(3);
    let key = format!(r#"{{"value":"{}"}}"#, *private_key(1).printed());
    assert_eq!(client.post("/account/lock", &key).status, 200);
    let lost_height = wait_for("the last block", || {
        let height = client.height();
        std::thread::sleep(std::time::Duration::from_secs(2));
        (client.height() == height).then_some(height)
    });
    let lost = client.block(lost_height).json();
    assert_eq!(client.get("/local/reorgs").json()["data"], Value::Array(Vec::new()));
    assert_eq!(metric(&mut client, "nisd_reorgs_total"), 0.0);

    other.wait_for_height(lost_height + 3);
    let (config, _folder) = (second.path("node.properties"), second.folder.take());
    drop(second);
    let _second = Node::start(args!["--config", config, "--peer", first.http.to_string()]);

    let reorgs = wait_for("a reorg", || {
        let told = client.get("/local/reorgs").json();
        (!told["data"].as_array()?.is_empty()).then_some(told)
    });
    let reorg = &reorgs["data"][0];
    let replaced = reorg["replaced"].as_array().expect("a list");
    assert_eq!((&reorg["commonHeight"], replaced.len() as u64), (&1.into(), lost_height - 1));
    assert!(reorg["height"].as_u64().expect("a height") > lost_height, "{reorg}");
    let last = replaced.last().expect("a block");
    assert_eq!((&last["height"], &last["timeStamp"]), (&lost["height"], &lost["timeStamp"]));
    let harvester = address(&key_pair(1));
    for block in replaced {
        assert_eq!((&block["isOwn"], &block["harvester"]), (&1.into(), &harvester.as_str().into()));
    }
    let count = replaced.len() as u64;
    for (name, expected) in
        [("nisd_reorgs_total", 1), ("nisd_replaced_blocks_total", count), ("nisd_harvested_blocks_lost_total", count)]
    {
        assert_eq!(metric(&mut client, name), expected as f64, "{name}");
    }
    let log = first.process.log();
    let line = format!("reorg: blocks 2 to {lost_height} are replaced ({count} back)");
    assert!(
        log.contains(&line)
            && log
                .contains(&format!("they were harvested by {harvester}; the new blocks lack 1 of their transactions")),
        "{log}"
    );
    let hash = last["hash"].as_str().expect("a hash");
    let line =
        format!("the block {hash} that was harvested here is lost: another block replaced it at height {lost_height}");
    assert!(log.contains(&line), "{log}");
    wait_for("the void payment", || {
        first.process.log().contains("transactions of the replaced blocks that are invalid now: 1;").then_some(())
    });
}

/// Builds a transfer of two mosaics, signed in the order its sender chose.
fn out_of_order(to: Address, time: Timestamp) -> (Vec<u8>, String) {
    const MOSAIC_BYTES: usize = 26;
    let mosaic = |name| Mosaic { id: MosaicId::parse(name).expect("a name"), quantity: 1 };
    let mosaics = vec![mosaic("a:a"), mosaic("a:b")];
    let body = Body::Transfer(Transfer { recipient: to, amount: Amount::whole(1), message: None, mosaics });
    let keys = key_pair(1);
    let transaction = signed(&keys, 2, body, Amount::whole(1), time);
    let mut bytes = transaction.signed_bytes();
    let (first, second) = (bytes.len() - 2 * MOSAIC_BYTES, bytes.len() - MOSAIC_BYTES);
    bytes[first..].rotate_left(MOSAIC_BYTES);
    assert_ne!(bytes[first..second], transaction.signed_bytes()[first..second]);
    let signature = keys.sign(&bytes).to_string();
    (bytes, signature)
}

#[test]
fn a_transaction_signed_in_another_order_is_rejected_and_the_log_explains_it() {
    let node = Node::on_fast_network(&new_network(), 1, &[], &[]);
    let mut client = Client::connect(node.http);
    let (bytes, signature) = out_of_order(address(&key_pair(2)), now());
    let announced = format!(r#"{{"data":"{}","signature":"{signature}"}}"#, hex::encode(bytes));
    let answer = client.post("/transaction/announce", &announced).json();
    assert_eq!(answer["message"], "FAILURE_SIGNATURE_NOT_VERIFIABLE", "{answer}");
    wait_for("a line in the log", || {
        let log = node.process.log();
        let says_it = |line: &str| {
            ["FAILURE_SIGNATURE_NOT_VERIFIABLE", "another order", "coming-from-nis1"]
                .iter()
                .all(|word| line.contains(word))
        };
        log.lines().any(says_it).then_some(())
    });
}

#[test]
fn a_node_announces_the_configured_version_and_logs_its_explorer_address() {
    let node = Node::on_fast_network(&new_network(), 1, &[("nisd.announcedVersion", "0.6.107")], &[]);
    let info = Client::connect(node.http).get("/node/info").json();
    assert_eq!(info["metaData"]["version"], "0.6.107");
    let url = format!("http://127.0.0.1:{}", node.http.port());
    let line = format!("view the node: {url}/explorer, nisd status --node {url}");
    wait_for("the line", || node.process.log().contains(&line).then_some(()));

    let plain = Node::on_fast_network(&new_network(), 1, &[("nisd.explorer", "false")], &[]);
    let info = Client::connect(plain.http).get("/node/info").json();
    assert_eq!(info["metaData"]["version"], "0.6.102");
    let line = format!("view the node: nisd status --node http://127.0.0.1:{}", plain.http.port());
    wait_for("the line", || plain.process.log().contains(&line).then_some(()));
}
