//! Monitoring of a node: `GET /metrics`, `nisd status`, and the alert rules and the dashboard based on them.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::daemon::{Node, closed_port, nisd, run, wait_for};
use crate::common::http_client::{Client, ClientResponse};
use crate::common::private_network::{Genesis, TOTAL, address, key_pair, now, private_key};
use crate::common::websocket::Socket;
use crate::common::{print_notice, tiny};
use nisd::metrics::Scrape;
use nisd::model::Amount;
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Maximum wait.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Starts a node on the smallest chain, which does not grow; `settings` precede its own.
fn node(settings: &[&str]) -> (Node, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, config, blocks) = (folder.path().join("store"), tiny("config.json"), tiny("blocks.bin"));
    let paths = [&config, &data, &blocks].map(|path| path.to_str().expect("a path").to_owned());
    let [config, data, blocks] = paths.each_ref().map(String::as_str);
    run(["import", "--config", config, "--data", data, blocks]).expect_success();
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let all: Vec<&str> = ["--config", config, "--data", data, "--clock", "3240"].into_iter().chain(settings).collect();
    (Node::start(&all), folder)
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
    let (node, _folder) = node(&[]);
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
    assert_eq!(metric_names(&source("src/help/metrics.md")), written, "what src/help/metrics.md explains");
    for file in ["src/help/alerts.yml", "src/help/dashboard.json", "src/commands/status/screen.rs"] {
        let used = metric_names(&source(file));
        assert!(!used.is_empty() && used.is_subset(&written), "{file}: {:?}", used.difference(&written));
    }
    serde_json::from_str::<Value>(&source("src/help/dashboard.json")).expect("JSON");
}

#[test]
fn metrics_are_for_local_clients_unless_there_is_a_metrics_listener() {
    let (node, _folder) = node(&["nisd.metricsBind=127.0.0.1:0"]);
    let ask = |address: SocketAddr, target: &str, headers: &str| -> ClientResponse {
        let mut client = Client::connect(address);
        client.send(format!("GET {target} HTTP/1.1\r\n{headers}\r\n"));
        client.answer()
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
    client.send("OPTIONS /account/unlock HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.answer().status, 404);
    let posted = Client::connect(listener).post("/account/unlock", r#"{"value":"00"}"#);
    assert_eq!(posted.status, 413);
    assert_eq!(answered(&scrape(node.http), "/metrics", "200"), 3.0);
    assert_eq!(answered(&scrape(node.http), "/metrics", "401"), 3.0);
}

#[test]
fn requests_are_counted_and_clients_cannot_add_metric_names() {
    let (node, _folder) = node(&[]);
    let before = scrape(node.http);
    let mut client = Client::connect(node.http);
    for number in 0..300 {
        client.get("/chain/height");
        client.send(format!("GET /nonsense/{number}?a={number} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(client.answer().status, 404);
        client.send(format!("M{number} /status HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        client.answer();
    }
    client.send("nonsense\r\n\r\n");
    client.expect_end();
    let mut socket = Socket::open(node.websocket);
    socket.text("CONNECT\n\n\0");
    socket.next_text();
    socket.text("SUBSCRIBE\nid:a\ndestination:/node/info\n\n\0SEND\ndestination:/w/api/node/info\n\n\0");
    socket.next_text();

    let after = scrape(node.http);
    assert_eq!(answered(&after, "/chain/height", "200") - answered(&before, "/chain/height", "200"), 300.0);
    assert_eq!((answered(&after, "other", "404"), answered(&after, "other", "400")), (300.0, 1.0));
    assert_eq!(answered(&after, "websocket", "101"), 1.0);
    let heights = after.samples_of("nisd_http_request_duration_seconds_count");
    let heights: Vec<f64> =
        heights.filter(|sample| sample.label("route") == "/chain/height").map(|sample| sample.value).collect();
    assert_eq!(heights, [answered(&after, "/chain/height", "200")]);
    let routes: BTreeSet<&str> =
        after.samples_of("nisd_http_requests_total").map(|sample| sample.label("route")).collect();
    assert_eq!(routes, BTreeSet::from(["/chain/height", "/metrics", "other", "websocket"]));
    let methods: BTreeSet<&str> =
        after.samples_of("nisd_http_requests_total").map(|sample| sample.label("method")).collect();
    assert_eq!(methods, BTreeSet::from(["GET", "other"]));

    assert_eq!(after.value("nisd_websocket_sessions"), Some(1.0));
    assert_eq!(after.value("nisd_websocket_messages_sent_total"), Some(1.0));
    let received = |reading: &Scrape| {
        let all = reading.samples_of("nisd_network_received_bytes_total");
        all.filter(|sample| sample.label("connections") == "incoming").map(|sample| sample.value).sum::<f64>()
    };
    assert!(received(&after) - received(&before) > 300.0 * 100.0, "{}", received(&after));
    assert!(
        after.value("nisd_loop_step_duration_seconds_count") > before.value("nisd_loop_step_duration_seconds_count")
    );
    assert!(after.value("nisd_caller_work_ratio") > Some(0.0), "the local caller is reckoned too");
    let text = Client::connect(node.http).get("/metrics").text().to_owned();
    assert!(!text.contains("127.0.0.1") && !text.contains("nonsense"), "{text}");
}

#[test]
fn metrics_cover_the_chain_and_the_peers() {
    let genesis = Genesis::new(now(), &[(address(&key_pair(1)), Amount::whole(TOTAL))]);
    let start = |number: u64, arguments: &[&str], settings: &[(&str, &str)]| {
        let folder = tempfile::tempdir().expect("a folder");
        let config = genesis.write_hasty(folder.path(), &private_key(number).printed(), settings);
        let data = folder.path().join("store");
        let paths = [&config, &data].map(|path| path.to_str().expect("a path"));
        (Node::start(&[&["--config", paths[0], "--data", paths[1]], arguments].concat()), folder)
    };
    let (first, _folder) = start(1, &[], &[]);
    let no_harvest = [("nis.shouldAutoHarvestOnBoot", "false")];
    let (second, _folder) = start(2, &["--peer", &first.http.to_string()], &no_harvest);
    let (of_first, of_second) = wait_for("a block on both nodes", || {
        let (first, second) = (scrape(first.http), scrape(second.http));
        let knows = second.value("nisd_blocks_behind").is_some() && second.value("nisd_height") > Some(1.0);
        knows.then_some((first, second))
    });
    assert!(of_first.value("nisd_harvested_blocks_total") >= Some(1.0));
    assert!(of_first.value("nisd_commit_duration_seconds_count") >= of_first.value("nisd_harvested_blocks_total"));
    assert_eq!(of_first.value("nisd_harvesting_accounts"), Some(1.0));
    assert_eq!(of_second.value("nisd_harvested_blocks_total"), Some(0.0));
    let active =
        of_second.samples_of("nisd_peers").find(|sample| sample.label("state") == "active").map(|sample| sample.value);
    assert_eq!((active, of_second.sum("nisd_peers")), (Some(1.0), Some(1.0)));
    let outgoing =
        of_second.samples_of("nisd_network_sent_bytes_total").find(|sample| sample.label("connections") == "outgoing");
    assert!(outgoing.is_some_and(|sample| sample.value > 0.0));
}

#[test]
fn the_store_of_a_running_node_is_readable_by_other_programs() {
    let (node, folder) = node(&[]);
    let data = folder.path().join("store");
    let digest = || run(["digest", "--data", data.to_str().expect("a path")]).expect_success().text();
    let before = digest();
    for _ in 0..3 {
        scrape(node.http);
        assert_eq!(digest(), before);
        assert_eq!(Client::connect(node.http).get("/chain/last-block").status, 200);
    }
    let after = scrape(node.http);
    assert_eq!((after.value("nisd_store_failing"), after.value("nisd_store_stale_readers")), (Some(0.0), Some(0.0)));
    assert!(!node.process.log().contains("ERROR"), "{}", node.process.log());
}

#[test]
fn the_status_is_read_from_the_node_or_otherwise_from_its_store() {
    let (node, folder) = node(&[]);
    let data = folder.path().join("store").to_str().expect("a path").to_owned();
    let port = format!("nem.httpPort={}", node.http.port());
    let with_store = ["status", "--data", &data, "--set", &port];
    let shown = run(with_store).expect_success().text();
    assert!(shown.starts_with("nisd ") && shown.contains("height 60, last block "), "{shown}");
    assert!(!shown.contains('\x1b') && shown.contains("Memory"), "{shown}");
    let url = format!("http://{}", node.http);
    let told: Value =
        serde_json::from_str(&run(["status", "--node", &url, "--json"]).expect_success().text()).expect("JSON");
    assert_eq!((&told["node"], &told["figures"]["nisd_height"]), (&json!(url), &json!(60)));
    assert_eq!(told["figures"]["nisd_peers"][0]["state"], "active");
    run(["status", "--node", &format!("http://{}", node.websocket)])
        .expect_failure(1, &["/metrics", "the port of its"]);

    node.process.signal("TERM");
    node.process.wait_with_timeout(MAX_WAIT).expect_success();
    let shown = run(with_store).expect_success().text();
    let is_of_store = |shown: &str| shown.contains(&format!(" in {data}, because no node answers"));
    assert!(is_of_store(&shown) && shown.contains("height 60"), "{shown}");
    let told: Value =
        serde_json::from_str(&run([&with_store[..], &["--json"]].concat()).expect_success().text()).expect("JSON");
    assert_eq!((&told["store"], &told["figures"]["nisd_height"]), (&json!(data), &json!(60)));
    run(["status", "--node", &url]).expect_failure(1, &["does not answer"]);
    let (other, _folder) = self::node(&[]);
    let shown = run(["status", "--data", &data, "--set", &format!("nem.httpPort={}", other.http.port())]);
    assert!(is_of_store(&shown.expect_success().text()), "a node that runs on another store is not asked");
    let nothing = folder.path().join("nothing").to_str().expect("a path").to_owned();
    let port = format!("nem.httpPort={}", closed_port().port());
    run(["status", "--data", &nothing, "--set", &port])
        .expect_failure(1, &["does not answer", "no store in", &nothing, "`nisd run`"]);
}

#[test]
fn a_status_on_a_terminal_refreshes_until_q_and_restores_the_terminal() {
    let (node, _folder) = node(&[]);
    let mut screen = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal"));
    grantpt(&screen).expect("a terminal");
    unlockpt(&screen).expect("a terminal");
    let name = ptsname(&screen, Vec::new()).expect("a name").into_string().expect("text");
    let flags = OFlags::NOCTTY.bits() as i32;
    let terminal = OpenOptions::new().read(true).write(true).custom_flags(flags).open(name).expect("a terminal");
    let before = tcgetattr(&terminal).expect("modes").local_modes;
    assert!(before.contains(LocalModes::ECHO));
    let mut command = nisd(["status", "--node", &format!("http://{}", node.http)]);
    let own = |terminal: &File| Stdio::from(terminal.try_clone().expect("a descriptor"));
    let mut status = command.stdin(own(&terminal)).stdout(own(&terminal)).spawn().expect("the program starts");
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
    let ended = wait_for("the end", || status.try_wait().expect("a child"));
    assert!(ended.success());
    assert_eq!(tcgetattr(&terminal).expect("modes").local_modes, before);
}

/// Runs Prometheus' `promtool`; prints a notice and returns `None` where it is not installed.
fn promtool(arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let mut command = Command::new("promtool");
    let command = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut tool) = command.spawn() else {
        print_notice("SKIPPED: promtool is not there; Debian's package is called prometheus");
        return None;
    };
    tool.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    let output = tool.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn promtool_accepts_the_metrics_and_the_alert_rules() {
    let (node, folder) = node(&[]);
    let page = Client::connect(node.http).get("/metrics").text().to_owned();
    if let Some((is_well, said)) = promtool(&["check", "metrics"], &page) {
        assert!(is_well && said.is_empty(), "{said}");
        let rules: PathBuf = folder.path().join("alerts.yml");
        std::fs::write(&rules, run(["help", "alerts"]).expect_success().stdout).expect("room");
        let (is_well, said) = promtool(&["check", "rules", rules.to_str().expect("a path")], "").expect("it was there");
        assert!(is_well, "{said}");
    }
}
