//! Monitoring of a node: `GET /metrics`, `nisd status`, and the alert rules and the dashboard based on them.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::daemon::{Node, args, closed_port, new_network, nisd, open_terminal, run, wait_for};
use crate::common::http::{Client, authorization, get, get_with};
use crate::common::skip;
use crate::common::websocket::Socket;
use nisd::metrics::Scrape;
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::{Value, json};

/// Starts a node on the smallest chain, which does not grow.
fn node(settings: &[&str]) -> Node {
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    Node::on_tiny(60, &["--clock", "3240"].into_iter().chain(settings).collect::<Vec<_>>())
}

fn scrape(node: SocketAddr) -> Scrape {
    let answer = Client::connect(node).get("/metrics");
    assert_eq!(answer.status, 200, "{answer:?}");
    Scrape::parse(answer.text()).expect("the text format")
}

/// Returns the number of answered requests for a route with a status.
fn answered(reading: &Scrape, route: &str, status: &str) -> f64 {
    let all = reading.samples_of("nisd_http_requests_total");
    let of_route = all.filter(|sample| sample.label("route") == route && sample.label("status") == status);
    of_route.map(|sample| sample.value).sum()
}

/// Returns the values of a metric with a label.
fn with_label(reading: &Scrape, metric: &str, label: &str, value: &str) -> Vec<f64> {
    reading.samples_of(metric).filter(|sample| sample.label(label) == value).map(|sample| sample.value).collect()
}

/// Returns the names of metrics in a text without the suffixes that Prometheus adds for histograms.
fn metric_names(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = text.split(|c: char| !is_name(c)).filter(|word| word.starts_with("nisd_"));
    let base = |word: &str| {
        let ends = ["_bucket", "_sum", "_count"];
        ends.iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word).to_owned()
    };
    words.map(base).collect()
}

fn source(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("a file of the project")
}

#[test]
fn every_metric_is_well_formed_and_documented() {
    let node = node(&[]);
    let answer = Client::connect(node.http).get("/metrics");
    assert_eq!(answer.header("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let (mut helped, mut typed, mut told) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for line in answer.text().lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["#", "HELP", name, help] => assert!(helped.insert(*name) && help.ends_with('.'), "{line}"),
            ["#", "TYPE", name, kind] => {
                assert!(typed.insert(*name) && helped.contains(name), "{line}");
                assert_eq!(*kind == "counter", name.ends_with("_total"), "{line}");
            }
            _ => drop(told.insert(line)),
        }
    }
    let samples = Scrape::parse(answer.text()).expect("the text format").samples;
    assert!(samples.len() == told.len() && samples.iter().all(|sample| sample.value.is_finite()));
    assert_eq!(metric_names(&told.into_iter().collect::<String>()).len(), typed.len());
    let written = metric_names(&source("src/node/metrics.rs"));
    let missing: Vec<_> = typed.iter().filter(|name| !written.contains(**name)).collect();
    assert!(typed == helped && missing.is_empty(), "{missing:?}");
    let explained = run(["help", "metrics"]).expect_success().text();
    assert_eq!(metric_names(&explained), written, "what nisd help metrics explains");
    for file in ["src/help/alerts.yml", "src/help/dashboard.json", "src/commands/status.rs"] {
        let used = metric_names(&source(file));
        assert!(!used.is_empty() && used.is_subset(&written), "{file}: {:?}", used.difference(&written));
    }
    serde_json::from_str::<Value>(&source("src/help/dashboard.json")).expect("JSON");
}

#[test]
fn metrics_are_for_local_clients_unless_there_is_a_metrics_listener() {
    let node = node(&["nisd.metricsBind=127.0.0.1:0"]);
    let ask = |address: SocketAddr, target: &str, headers: &str| {
        Client::connect(address).request(format!("GET {target} HTTP/1.1\r\n{headers}\r\n"))
    };
    let foreign = [
        "Host: localhost\r\nX-Forwarded-For: 8.8.8.8\r\n",
        "Host: example.org\r\n",
        "Host: localhost\r\nOrigin: http://example.org\r\n",
    ];
    for headers in foreign {
        assert_eq!(ask(node.http, "/metrics", headers).status, 401, "{headers}");
    }
    let log = node.process.log();
    let (_, rest) = log.split_once("metrics for all clients on http://").expect("a word on the listener");
    let listener: SocketAddr = rest.split('/').next().and_then(|address| address.parse().ok()).expect("an address");
    for headers in foreign {
        assert_eq!(ask(listener, "/metrics", headers).status, 200, "{headers}");
    }
    for target in ["/", "/chain/height", "/local/peers", "/shutdown", "/nonsense", "/w/messages/info"] {
        assert_eq!(ask(listener, target, foreign[0]).status, 404, "{target}");
    }
    let mut client = Client::connect(listener);
    assert_eq!(client.request(get("/account/unlock").replace("GET", "OPTIONS")).status, 404);
    let posted = Client::connect(listener).post("/account/unlock", r#"{"value":"00"}"#);
    assert_eq!(posted.status, 413);
    assert_eq!(answered(&scrape(node.http), "/metrics", "200"), 3.0);
    assert_eq!(answered(&scrape(node.http), "/metrics", "401"), 3.0);
}

#[test]
fn requests_are_counted_and_clients_cannot_add_metric_names() {
    let node = node(&[]);
    let before = scrape(node.http);
    let mut client = Client::connect(node.http);
    for number in 0..300 {
        client.get("/chain/height");
        assert_eq!(client.get(&format!("/nonsense/{number}?a={number}")).status, 404);
        client.request(get_with("/status", &authorization(node.http)).replace("GET", &format!("M{number}")));
    }
    client.send("nonsense\r\n\r\n");
    client.expect_end();
    let mut socket = Socket::connected(node.websocket);
    socket.text("SUBSCRIBE\nid:a\ndestination:/node/info\n\n\0SEND\ndestination:/w/api/node/info\n\n\0");
    socket.next_text();

    let after = scrape(node.http);
    assert_eq!(answered(&after, "/chain/height", "200") - answered(&before, "/chain/height", "200"), 300.0);
    assert_eq!((answered(&after, "other", "404"), answered(&after, "other", "400")), (300.0, 1.0));
    assert_eq!(answered(&after, "websocket", "101"), 1.0);
    let heights = with_label(&after, "nisd_http_request_duration_seconds_count", "route", "/chain/height");
    assert_eq!(heights, [answered(&after, "/chain/height", "200")]);
    let labels = |name: &str| -> BTreeSet<String> {
        after.samples_of("nisd_http_requests_total").map(|sample| sample.label(name).to_owned()).collect()
    };
    assert_eq!(labels("route"), ["/chain/height", "/metrics", "other", "websocket"].map(str::to_owned).into());
    assert_eq!(labels("method"), ["GET", "other"].map(str::to_owned).into());

    assert_eq!(after.value("nisd_websocket_sessions"), Some(1.0));
    assert_eq!(after.value("nisd_websocket_messages_sent_total"), Some(1.0));
    let received = |reading: &Scrape| -> f64 {
        with_label(reading, "nisd_network_received_bytes_total", "connections", "incoming").into_iter().sum()
    };
    assert!(received(&after) - received(&before) > 300.0 * 100.0, "{}", received(&after));
    assert!(
        after.value("nisd_loop_step_duration_seconds_count") > before.value("nisd_loop_step_duration_seconds_count")
    );
    assert!(after.value("nisd_client_work_ratio") > Some(0.0), "the local caller is reckoned too");
    let text = Client::connect(node.http).get("/metrics").text().to_owned();
    assert!(!text.contains("127.0.0.1") && !text.contains("nonsense"), "{text}");
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn metrics_cover_the_chain_and_the_peers() {
    let genesis = new_network();
    let first = Node::on_fast_network(&genesis, 1, &[], &[]);
    let no_harvest = [("nis.shouldAutoHarvestOnBoot", "false")];
    let second = Node::on_fast_network(&genesis, 2, &no_harvest, &["--peer", &first.http.to_string()]);
    let (of_first, of_second) = wait_for("a block on both nodes", || {
        let (first, second) = (scrape(first.http), scrape(second.http));
        let knows = second.value("nisd_blocks_behind").is_some() && second.value("nisd_height") > Some(1.0);
        knows.then_some((first, second))
    });
    assert!(of_first.value("nisd_harvested_blocks_total") >= Some(1.0));
    assert!(of_first.value("nisd_commit_duration_seconds_count") >= of_first.value("nisd_harvested_blocks_total"));
    assert_eq!(of_first.value("nisd_harvesting_accounts"), Some(1.0));
    assert_eq!(of_second.value("nisd_harvested_blocks_total"), Some(0.0));
    assert_eq!(with_label(&of_second, "nisd_peers", "state", "active"), [1.0]);
    assert_eq!(of_second.sum("nisd_peers"), Some(1.0));
    assert!(with_label(&of_second, "nisd_network_sent_bytes_total", "connections", "outgoing")[0] > 0.0);
}

#[test]
fn the_store_of_a_running_node_is_readable_by_other_programs() {
    let node = node(&[]);
    let digest = || run(args!["digest", "--data", node.path("store")]).expect_success().text();
    let before = digest();
    for _ in 0..3 {
        scrape(node.http);
        assert_eq!(digest(), before);
        assert_eq!(Client::connect(node.http).get("/chain/last-block").status, 200);
    }
    let after = scrape(node.http);
    assert_eq!(after.value("nisd_store_failing"), Some(0.0));
    assert!(!node.process.log().contains("ERROR"), "{}", node.process.log());
}

#[test]
fn the_status_is_read_from_the_node_or_otherwise_from_its_store() {
    let mut node = node(&[]);
    let data = node.path("store").to_str().expect("a path").to_owned();
    let status = |arguments: &[&str]| run(["status"].iter().chain(arguments));
    let json = |arguments: &[&str]| -> Value {
        serde_json::from_str(&status(&[arguments, &["--json"]].concat()).expect_success().text()).expect("JSON")
    };
    let port = format!("nem.httpPort={}", node.http.port());
    let with_store = ["--data", &data, "--set", &port];
    let shown = status(&with_store).expect_success().text();
    assert!(shown.starts_with("nisd ") && shown.contains("height 60, last block "), "{shown}");
    assert!(!shown.contains('\x1b') && shown.contains("Memory"), "{shown}");
    let url = format!("http://{}", node.http);
    let told = json(&["--node", &url]);
    assert_eq!((&told["node"], &told["metrics"]["nisd_height"]), (&json!(url), &json!(60)));
    assert_eq!(told["metrics"]["nisd_peers"][0]["state"], "active");
    status(&["--node", &format!("http://{}", node.websocket)]).expect_failure(1, &["/metrics", "the port of its"]);

    let folder = node.folder.take().expect("a folder");
    node.stop();
    let shown = status(&with_store).expect_success().text();
    let is_of_store = |shown: &str| shown.contains(&format!(" in {data}, because no node answers"));
    assert!(is_of_store(&shown) && shown.contains("height 60"), "{shown}");
    let told = json(&with_store);
    assert_eq!((&told["store"], &told["metrics"]["nisd_height"]), (&json!(data), &json!(60)));
    status(&["--node", &url]).expect_failure(1, &["does not answer"]);
    let other = self::node(&[]);
    let shown = status(&["--data", &data, "--set", &format!("nem.httpPort={}", other.http.port())]);
    assert!(is_of_store(&shown.expect_success().text()), "a node that runs on another store is not asked");
    let nothing = folder.path().join("nothing").to_str().expect("a path").to_owned();
    let port = format!("nem.httpPort={}", closed_port().port());
    let beside = format!("no store in {nothing} either, but in {data}: `nisd run`");
    status(&["--data", &nothing]).expect_failure(1, &["No node runs on", &beside]);
    status(&["--set", &format!("nem.folder={nothing}"), "--set", &port])
        .expect_failure(1, &["does not answer", "no store in", &nothing, "`nisd run`"]);
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_status_on_a_terminal_refreshes_until_q_and_restores_the_terminal() {
    let node = node(&[]);
    let (mut screen, terminal) = open_terminal();
    let before = tcgetattr(&terminal).expect("modes").local_modes;
    assert!(before.contains(LocalModes::ECHO));
    let own = || Stdio::from(terminal.try_clone().expect("a descriptor"));
    let mut command = nisd(["status", "--node", &format!("http://{}", node.http)]);
    let mut status = command.stdin(own()).stdout(own()).spawn().expect("the program starts");
    let (mut drawn, mut part) = (String::new(), [0; 4096]);
    // Two frames; the second one shows changes.
    while !drawn.contains("a second") {
        let count = screen.read(&mut part).expect("what is drawn");
        drawn += &String::from_utf8_lossy(&part[..count]);
        assert!(drawn.len() < 100_000, "{drawn}");
    }
    assert!(drawn.contains("\x1b[?1049h") && drawn.contains("height 60") && drawn.contains("q quits"), "{drawn}");
    assert!(!tcgetattr(&terminal).expect("modes").local_modes.contains(LocalModes::ECHO));
    screen.write_all(b"q").expect("a key");
    assert!(wait_for("the end", || status.try_wait().expect("a child")).success());
    assert_eq!(tcgetattr(&terminal).expect("modes").local_modes, before);
}

/// Runs Prometheus' `promtool`; skips the test and returns `None` where it is not installed.
fn promtool(arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let mut command = Command::new("promtool");
    let command = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut tool) = command.spawn() else {
        skip("promtool is not installed; Debian's package is called prometheus");
        return None;
    };
    tool.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    let output = tool.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn promtool_accepts_the_metrics_and_the_alert_rules() {
    let node = node(&[]);
    let page = Client::connect(node.http).get("/metrics").text().to_owned();
    if let Some((is_well, said)) = promtool(&["check", "metrics"], &page) {
        assert!(is_well && said.is_empty(), "{said}");
        let rules = node.path("alerts.yml");
        std::fs::write(&rules, run(["help", "alerts"]).expect_success().stdout).expect("room");
        let (is_well, said) = promtool(&["check", "rules", rules.to_str().expect("a path")], "").expect("it was there");
        assert!(is_well, "{said}");
    }
}
