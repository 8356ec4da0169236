//! A private network created by one command, as a new user meets it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::daemon::{CommandOutput, Node, Process, nisd, run, wait_for};
use crate::common::http::Client;
use crate::common::node_network::active_peers;
use crate::common::websocket::Socket;
use nisd::commands::devnet::Role;
use serde_json::Value;
use tempfile::TempDir;

/// The folder of a private network.
struct DevnetFolder {
    _folder: TempDir,
    data: String,
}

impl DevnetFolder {
    fn new() -> DevnetFolder {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("devnet").to_str().expect("a path").to_owned();
        DevnetFolder { _folder: folder, data }
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new(&self.data).join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("a path").to_owned()
    }

    fn start(&self, arguments: &[&str]) -> Node {
        Node::start(["--data", &self.data].iter().chain(arguments))
    }

    /// Creates a network and stops it at once.
    fn create(&self, arguments: &[&str]) -> CommandOutput {
        self.start(arguments).stop()
    }

    /// Creates a network that finds a block every second at any difficulty: the configured total supply is so much
    /// larger than the actual one that every importance counts a thousandfold.
    fn create_fast(&self, arguments: &[&str]) -> CommandOutput {
        let ended = self.create(arguments);
        let settings = fs::read_to_string(self.path("devnet.properties")).unwrap();
        let hasty = settings.replace("totalAmount = 8999999999\n", "totalAmount = 9000000000000\n");
        assert_ne!(hasty, settings);
        fs::write(self.path("devnet.properties"), hasty).unwrap();
        // It starts again from nothing.
        for file in ["data.mdb", "nisd.lock"] {
            fs::remove_file(self.path(file)).unwrap();
        }
        ended
    }

    fn on_store(&self, command: &str) -> String {
        run([command, "--data", &self.data]).expect_success().text()
    }
}

/// Returns the addresses of the accounts by name, as the introduction shows them.
fn addresses(introduction: &str) -> Vec<(String, String)> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, address) = (words.next()?, words.next()?);
        let is_account = Role::OWNERS.iter().any(|role| role.to_string() == name);
        is_account.then(|| (name.to_owned(), address.to_owned()))
    };
    introduction.lines().filter_map(line).collect()
}

fn address<'a>(accounts: &'a [(String, String)], name: &str) -> &'a str {
    &accounts.iter().find(|account| account.0 == name).expect("an account").1
}

fn balance(client: &mut Client, address: &str) -> u64 {
    client.get(&format!("/account/get?address={address}")).json()["account"]["balance"].as_u64().expect("a balance")
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn the_first_run_creates_a_network_shows_its_accounts_and_harvests() {
    let place = DevnetFolder::new();
    let node = place.start(&[]);
    let mut client = Client::connect(node.http);
    let nemesis = client.block(1).json();
    assert_eq!((&nemesis["type"], &nemesis["transactions"].as_array().unwrap().len()), (&(-1).into(), &5));
    let shown = run(["devnet", "show", "--data", &place.data]).expect_success().text();
    let accounts = addresses(&shown);
    let balances: Vec<_> = accounts.iter().map(|(_, address)| balance(&mut client, address) / 1_000_000).collect();
    assert_eq!(balances, [8_000_000_000, 699_999_999, 100_000_000, 100_000_000, 100_000_000]);
    client.wait_for_height(2);
    assert_eq!(client.block(2).json()["signer"], harvester_key(&place).as_str());

    let http = node.http.port();
    let said = node.stop().text();
    assert_eq!(addresses(&said), accounts);
    let bob = address(&accounts, "bob");
    let alice_key = place.text("alice.key");
    for text in [
        "WORTHLESS",
        "a block every 10 s, proof of stake",
        &format!("curl http://127.0.0.1:{http}/chain/height"),
        &format!("send --from-key-file {alice_key} --to {bob} --amount 12.5"),
        &format!("--node http://127.0.0.1:{http}"),
    ] {
        assert!(said.contains(text), "{text}:\n{said}");
    }
    for secret in ["devnet.properties", "alice.key", "harvester.key"] {
        let mode = fs::metadata(place.path(secret)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{secret} is for its owner only");
    }
    assert!(!said.contains(fs::read_to_string(place.path("alice.key")).unwrap().lines().last().unwrap()));
}

/// Returns the public key of the harvester.
fn harvester_key(place: &DevnetFolder) -> String {
    let shown = run(["key", "inspect", &place.text("harvester.key")]).expect_success().text();
    shown.split_whitespace().nth(2).expect("a key").to_owned()
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_private_network_continues_where_it_stopped_even_with_its_exported_settings() {
    let place = DevnetFolder::new();
    place.create_fast(&[]);
    let node = place.start(&[]);
    Client::connect(node.http).wait_for_height(2);
    node.stop();
    let before = place.on_store("digest");
    let (height, _) = before.split_once(' ').unwrap();
    let height: u64 = height.parse().unwrap();
    // The written settings are a configuration like any other.
    let node = Node::start(["--config", &place.text("devnet.properties")]);
    let mut client = Client::connect(node.http);
    assert!(client.height() >= height);
    client.wait_for_height(height + 1);
    node.stop();
    let digest = place.on_store("digest");
    assert_eq!(place.on_store("check"), digest);
}

#[test]
fn fresh_keys_differ_each_time_and_demo_keys_are_constant() {
    let accounts = |arguments: &[&str]| {
        let place = DevnetFolder::new();
        let said = place.create(arguments).text();
        let accounts = addresses(&said);
        assert_eq!(accounts.len(), 5, "{said}");
        (accounts, said.contains("WORTHLESS"))
    };
    let (demo, first, second) = (accounts(&[]), accounts(&["--fresh-keys"]), accounts(&["--fresh-keys"]));
    assert_eq!(demo, accounts(&[]));
    assert!(demo.1 && !first.1 && !second.1);
    for (one, other) in [(&demo, &first), (&first, &second)] {
        assert!(one.0.iter().zip(&other.0).all(|(one, other)| one.0 == other.0 && one.1 != other.1));
    }
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn the_rules_are_fixed_when_the_network_is_created() {
    let place = DevnetFolder::new();
    let rules = "nis.blockChainFeatures=PROOF_OF_IMPORTANCE|WB_TIME_BASED_VESTING";
    let said = place.create_fast(&["--block-time", "300", "--set", rules]).text();
    assert!(said.contains("a block every 300 s, proof of importance"), "{said}");
    let node = place.start(&[]);
    Client::connect(node.http).wait_for_height(3);
    node.stop();
    let again = |arguments: &[&str]| {
        let all = ["run", "--data", &place.data, "--http-port", "0", "--websocket-port", "0"];
        run(all.iter().chain(arguments))
    };
    for arguments in [["--block-time", "301"], ["--set", "nis.blockChainFeatures=PROOF_OF_STAKE|WB_TIME_BASED_VESTING"]]
    {
        again(&arguments).expect_failure(2, &["was created with another block time or other rules", "--data"]);
    }
    again(&["--fresh-keys"]).expect_failure(2, &["has demo keys", "--data"]);
    again(&["--set", "nem.network.version=96"]).expect_failure(2, &["nem.network.version", "--config"]);
    // Settings of what a node keeps in addition are not rules of the network.
    let node =
        place.start(&["--block-time", "300", "--set", rules, "--set", "nis.optionalFeatures=HISTORICAL_ACCOUNT_DATA"]);
    assert!(Client::connect(node.http).height() >= 3);
    node.stop();
}

#[test]
fn a_private_network_is_not_created_in_a_store_of_another_chain() {
    let place = DevnetFolder::new();
    let (config, blocks) = (crate::common::tiny("network.properties"), crate::common::tiny("blocks.bin"));
    let import = ["import", "--data", &place.data, "--config"].map(PathBuf::from);
    run(import.iter().chain([&config, &blocks])).expect_success();
    let digest = place.on_store("digest");
    run(["run", "--data", &place.data]).expect_failure(2, &["a chain with another configuration", "--config"]);
    assert_eq!(place.on_store("digest"), digest);
    assert!(!place.path("devnet.properties").exists() && !place.path("alice.key").exists());
}

#[test]
fn an_interrupted_creation_is_completed_with_the_existing_keys() {
    let place = DevnetFolder::new();
    place.create(&["--fresh-keys"]);
    let alice = fs::read_to_string(place.path("alice.key")).unwrap();
    for file in ["devnet.properties", "data.mdb", "nisd.lock", "carol.key"] {
        fs::remove_file(place.path(file)).unwrap();
    }
    place.create(&["--fresh-keys"]);
    assert_eq!(fs::read_to_string(place.path("alice.key")).unwrap(), alice);
    let carol = fs::read_to_string(place.path("carol.key")).unwrap();
    // The same command continues a network that is complete.
    place.create(&["--fresh-keys"]);
    assert_eq!(fs::read_to_string(place.path("carol.key")).unwrap(), carol);
}

#[test]
fn demo_keys_and_others_are_never_mixed() {
    let count = |place: &DevnetFolder| fs::read_dir(&place.data).expect("a folder").count();
    let begin = |place: &DevnetFolder, more: &[&str]| {
        run([&["run", "--data", &place.data, "--http-port", "0", "--websocket-port", "0"], more].concat())
    };
    let own = DevnetFolder::new();
    fs::create_dir(&own.data).expect("a folder");
    run(["key", "new", "--output", &own.text("carol.key")]).expect_success();
    begin(&own, &[]).expect_failure(2, &["carol.key has a key of its own", "--fresh-keys it is used", "--data"]);
    assert_eq!(count(&own), 1, "nothing is created beside it");
    let carol = fs::read_to_string(own.path("carol.key")).unwrap();
    let said = own.create(&["--fresh-keys"]).text();
    assert!(said.contains("Its keys are your own"), "{said}");
    assert_eq!(fs::read_to_string(own.path("carol.key")).unwrap(), carol);

    let demo = DevnetFolder::new();
    demo.create(&[]);
    // One of a different role is known as well.
    fs::rename(demo.path("alice.key"), demo.path("carol.key")).unwrap();
    for file in ["devnet.properties", "data.mdb", "nisd.lock", "harvester.key", "bank.key", "bob.key"] {
        fs::remove_file(demo.path(file)).unwrap();
    }
    let before = count(&demo);
    begin(&demo, &["--fresh-keys"]).expect_failure(2, &["carol.key has a publicly known demo key", "--fresh-keys"]);
    assert_eq!(count(&demo), before, "nothing is created beside it");
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn another_node_joins_with_the_exported_settings() {
    let place = DevnetFolder::new();
    place.create_fast(&[]);
    let node = place.start(&[]);
    Client::connect(node.http).wait_for_height(3);
    let port = node.http.port();
    node.stop();
    let other = DevnetFolder::new();
    let export_to = |other: &DevnetFolder, place: &DevnetFolder, host: &str, port: u16| {
        let port = port.to_string();
        let arguments = ["--data", &place.data, "--output", &other.data, "--host", host, "--http-port", &port];
        run(["devnet", "export-config"].iter().chain(&arguments))
    };
    let export = |place: &DevnetFolder, host: &str| export_to(&other, place, host, port);
    let written = export(&place, "10.1.2.3").expect_success();
    let said = [format!("at http://10.1.2.3:{port};"), "its settings allow only this machine".to_owned()];
    assert!(said.iter().all(|words| written.stderr.contains(words)), "{}", written.stderr);
    let written = written.text();
    let names = ["config-user.properties", "nemesis-devnet.bin", "peers-config_devnet.json"];
    assert_eq!(written.lines().collect::<Vec<_>>(), names.map(|name| other.text(name)));
    export(&place, "h").expect_failure(1, &["config-user.properties exists", "--output"]);
    export(&DevnetFolder::new(), "h").expect_failure(2, &["there is no private network", "nisd run"]);

    let peers: Value = serde_json::from_slice(&fs::read(other.path(names[2])).unwrap()).unwrap();
    let peer = &peers["knownPeers"][0];
    assert_eq!((&peer["endpoint"]["host"], &peer["endpoint"]["port"]), (&"10.1.2.3".into(), &port.into()));
    assert_eq!(peer["identity"]["public-key"], harvester_key(&place).as_str());
    let settings = fs::read_to_string(other.path(names[0])).unwrap();
    let key = fs::read_to_string(place.path("harvester.key")).unwrap();
    assert!(!settings.contains(key.lines().last().unwrap()), "a private key is never exported");

    // A joining node reaches the same state with the same blocks.
    let blocks = other.text("blocks.bin");
    run(["export", "--data", &place.data, "--output", &blocks]).expect_success();
    let store = other.text("store");
    run(["import", "--config", &other.text(names[0]), "--data", &store, &blocks]).expect_success();
    assert_eq!(run(["digest", "--data", &store]).expect_success().text(), place.on_store("digest"));
    let node = Node::start(["--config", &other.text(names[0]), "--data", &store]);
    assert!(Client::connect(node.http).height() >= 3);
    let log = node.stop().stderr;
    assert!(!log.contains("STANDS STILL"), "it knows another node: {log}");

    // One that reaches the other node needs no blocks.
    let (first, third) = (place.start(&[]), DevnetFolder::new());
    export_to(&third, &place, "127.0.0.1", first.http.port()).expect_success();
    let joined = Node::start(["--config", &third.text(names[0]), "--data", &third.text("store")]);
    for node in [&first, &joined] {
        wait_for("the other node", || (active_peers(node.http, "/endpoint/host") == ["127.0.0.1"]).then_some(()));
    }
    let [one, two] = [&first, &joined].map(|node| {
        let mut client = Client::connect(node.http);
        client.wait_for_height(4);
        client.block(4).json()
    });
    assert_eq!(one, two);

    // A helper process looks up the name of its peer.
    drop(joined);
    fs::remove_file(third.path("peers-config_devnet.json")).unwrap();
    let peer = format!("localhost:{}", first.http.port());
    let named = Node::start(["--config", &third.text(names[0]), "--data", &third.text("store"), "--peer", &peer]);
    wait_for("the named node", || (!active_peers(named.http, "/endpoint/host").is_empty()).then_some(()));
    let process = named.process.id();
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    let mut commands =
        children.split_whitespace().map(|child| fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap());
    assert!(commands.any(|command| command.contains("helper-resolver")), "{children}");
}

#[test]
fn the_exported_port_is_the_configured_or_the_given_one_and_never_0() {
    let place = DevnetFolder::new();
    place.create(&[]);
    let port = |more: &[&str]| {
        let other = DevnetFolder::new();
        let arguments = ["devnet", "export-config", "--data", &place.data, "--output", &other.data];
        run(arguments.iter().chain(more)).expect_success();
        let peers = fs::read(other.path("peers-config_devnet.json")).unwrap();
        serde_json::from_slice::<Value>(&peers).unwrap()["knownPeers"][0]["endpoint"]["port"].as_u64().unwrap()
    };
    assert_eq!(port(&[]), 7890);
    let settings = place.path("devnet.properties");
    fs::write(&settings, fs::read_to_string(&settings).unwrap() + "nem.httpPort = 17890\n").unwrap();
    assert_eq!(port(&[]), 17890);
    assert_eq!(port(&["--http-port", "9000"]), 9000);
    let none = ["devnet", "export-config", "--data", &place.data, "--output", &place.text("x"), "--http-port", "0"];
    run(none).expect_failure(1, &["nem.httpPort is 0", "--http-port"]);
    let shown = run(["devnet", "show", "--data", &place.data, "--http-port", "9000"]).expect_success().text();
    assert!(shown.contains("http://127.0.0.1:9000/chain/height"), "{shown}");
}

#[test]
fn an_export_of_the_configuration_that_fails_can_be_repeated() {
    let place = DevnetFolder::new();
    place.create(&[]);
    let other = DevnetFolder::new();
    let arguments = ["devnet", "export-config", "--data", &place.data, "--output", &other.data];
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1; exec \"$@\"", "sh"]).arg(nisd([] as [&str; 0]).get_program()).args(arguments);
    limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = Process::start(limited).wait_with_timeout(Duration::from_secs(60));
    ended.expect_failure(1, &[&other.data, "ulimit -f"]);
    assert_eq!(fs::read_dir(&other.data).unwrap().count(), 0);
    run(arguments).expect_success();
    assert_eq!(fs::read_dir(&other.data).unwrap().count(), 3);
    run(arguments).expect_failure(1, &["exists and is not overwritten"]);
    let file = other._folder.path().join("file");
    fs::write(&file, "").unwrap();
    let output = file.join("below");
    let words = format!("{}: it is a file, or lies below one; name a folder", file.display());
    for output in [&file, &output] {
        let output = output.to_str().unwrap();
        run(["devnet", "export-config", "--data", &place.data, "--output", output]).expect_failure(1, &[&words]);
    }
}

/// Returns the address of bob on the network in a folder.
fn bob(place: &DevnetFolder) -> String {
    let shown = run(["address", &place.text("bob.key"), "--network", "testnet"]).expect_success().text();
    let line = shown.lines().find(|line| line.starts_with("testnet")).expect("an address");
    line.split_whitespace().nth(1).expect("an address").to_owned()
}

#[test]
fn every_url_that_is_shown_leads_to_the_node() {
    for (bind, host) in
        [("127.0.0.1", "127.0.0.1"), ("*", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("127.0.0.2", "127.0.0.2")]
    {
        let place = DevnetFolder::new();
        let arguments = ["run", "--bind", bind, "--http-port", "0", "--websocket-port", "0", "--data", &place.data];
        let node = Node::from_command(nisd(arguments.iter().chain(&["--set", "nem.apiContext=/a/b"])));
        let (http, websocket) = (node.http.port(), node.websocket.port());
        let url = format!("http://{host}:{http}/a/b");
        run(["status", "--once", "--node", &url, "--data", &place.data]).expect_failure(2, &["--node"]);
        let config = place.text("devnet.properties");
        for node in [["--data", &place.data], ["--config", &config], ["--node", &url]] {
            if node[0] != "--node" {
                run([&["peers"], &node[..]].concat()).expect_success();
            }
            let shown = run([&["status", "--once"], &node[..]].concat()).expect_success().text();
            assert!(shown.contains(&format!("devnet, {url}, up ")), "{shown}");
        }
        let (key, bob, hash) = (place.text("alice.key"), bob(&place), "00".repeat(32));
        let send = ["send", "--from-key-file", &key, "--to", &bob, "--amount", "1", "--node"];
        let status_of = ["status-of", &hash, "--node"];
        run([&send[..], &[&url]].concat()).expect_success();
        run([&status_of[..], &[&format!("{url}/")]].concat()).expect_failure(8, &[]);
        let introduction = || run(["devnet", "show", "--data", &place.data]).expect_success().text();
        let shown = introduction();
        assert!(shown.contains(&format!("status --node {url}\n")), "{shown}");
        // Without the path, no wrong answer.
        let outside = url.trim_end_matches("/a/b");
        run([&send[..], &[outside]].concat()).expect_failure(1, &["no route", "nem.apiContext"]);
        run([&status_of[..], &[outside]].concat()).expect_failure(1, &["no route", "nem.apiContext"]);
        let ended = node.stop();
        assert!(introduction().contains("curl http://127.0.0.1:7890/chain/height\n"), "those of the settings");
        let shown = ended.text();
        // A shell would take brackets for a pattern.
        let quote = if url.contains('[') { "'" } else { "" };
        for words in [
            format!("  {url}/explorer in a browser"),
            format!("status --node {quote}{url}{quote}\n"),
            format!("curl {quote}{url}/chain/height{quote}\n"),
            format!("--node {quote}{url}{quote} --wait\n"),
            format!("ws://{host}:{websocket}/w/messages/websocket"),
        ] {
            assert!(shown.contains(&words), "{words} is missing in {shown}");
        }
    }
}

#[test]
fn a_network_with_demo_keys_listens_only_on_this_machine_by_default() {
    let shown = |place: &DevnetFolder| run(["devnet", "show", "--data", &place.data]).expect_success().text();
    let demo = DevnetFolder::new();
    let said = demo.create(&[]).text();
    // The tests set the address with a flag, which takes precedence.
    assert!(said.contains("It listens on 127.0.0.1: other machines cannot reach it"), "{said}");
    assert!(shown(&demo).contains("It listens on 127.0.0.1 and ::1: other machines cannot reach it"));
    let settings = demo.path("devnet.properties");
    let text = fs::read_to_string(&settings).unwrap();
    assert!(text.contains("nisd.bindAddress = localhost"), "{text}");
    fs::write(&settings, text.replace("nisd.bindAddress = localhost", "")).unwrap();
    assert!(shown(&demo).contains("It listens on all addresses of this machine, SO OTHER MACHINES CAN REACH IT"));
    let fresh = DevnetFolder::new();
    fresh.create(&["--fresh-keys"]);
    assert!(shown(&fresh).contains("It listens on all addresses of this machine: other machines can reach it"));
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn the_status_of_a_payment_is_published_and_told_on_the_command_line() {
    let place = DevnetFolder::new();
    place.create_fast(&[]);
    let accounts = addresses(&run(["devnet", "show", "--data", &place.data]).expect_success().text());
    let node = place.start(&[]);
    let url = format!("http://{}", node.http);
    Client::connect(node.http).wait_for_height(2);
    let key = place.text("alice.key");
    let bob = address(&accounts, "bob");
    let signed = run(["send", "--from-key-file", &key, "--to", bob, "--amount", "1", "--dry-run", "--node", &url]);
    let hash = signed.stderr.lines().find_map(|line| line.strip_prefix("hash")).expect("a hash").trim().to_owned();
    let topic = format!("/status/{hash}");
    let mut socket = Socket::connected(node.websocket);
    socket.subscribe("s", &topic);
    assert_eq!(socket.next_stomp().json(&topic, "s")["status"], "unknown");
    assert_eq!(run(["status-of", &hash, "--node", &url]).code, Some(8));
    fs::write(place.path("signed.json"), signed.text()).expect("room");
    run(["announce", &place.text("signed.json"), "--node", &url]).expect_success();
    assert_eq!(socket.next_stomp().json(&topic, "s")["status"], "unconfirmed");
    let told = run(["status-of", &hash, "--wait", "--node", &url]).expect_success().text();
    assert!(told.starts_with("confirmed at height "), "{told}");
    let confirmed = socket.next_stomp().json(&topic, "s");
    let line = format!("/transaction/status?hash={hash}");
    let answer = Client::connect(node.http).get(&line).json();
    for member in ["hash", "status", "height", "index", "blockHash"] {
        assert_eq!(confirmed[member], answer[member], "{member}");
    }
    assert_eq!(confirmed["confirmations"], 1);
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_payment_is_published_as_unconfirmed_and_as_confirmed() {
    let place = DevnetFolder::new();
    place.create_fast(&[]);
    let accounts = addresses(&run(["devnet", "show", "--data", &place.data]).expect_success().text());
    let (alice, bob) = (address(&accounts, "alice"), address(&accounts, "bob"));
    let node = place.start(&[]);
    let url = format!("http://{}", node.http);
    let mut client = Client::connect(node.http);
    let mut socket = Socket::connected(node.websocket);
    socket.subscribe("u", &format!("/unconfirmed/{bob}"));
    socket.subscribe("t", &format!("/transactions/{bob}"));
    client.wait_for_height(2);
    let key = place.text("alice.key");
    let send = ["send", "--from-key-file", &key, "--to", bob, "--amount", "12.5", "--message", "hello", "--node", &url];
    let sent = run(send.iter().chain(&["--wait"])).expect_success();
    let said = sent.text();
    assert!(said.contains("SUCCESS") && said.contains("confirmed"), "{said}");
    let network = |said: &str| said.lines().find(|line| line.starts_with("network")).map(str::to_owned);
    assert!(network(&sent.stderr).is_some_and(|line| line.ends_with(" devnet")), "{}", sent.stderr);
    // Only the harvester's own transactions wait for another harvester.
    assert!(!sent.stderr.contains("the only account that harvests"), "{}", sent.stderr);
    let harvester = place.text("harvester.key");
    let send = ["send", "--from-key-file", &harvester, "--to", bob, "--amount", "1", "--dry-run", "--node", &url];
    let warned = run(send).expect_success().stderr;
    let of = address(&accounts, "harvester");
    assert!(warned.contains(&format!("{of} is the only account that harvests on this node")), "{warned}");

    let unconfirmed = socket.next_stomp().json(&format!("/unconfirmed/{bob}"), "u");
    let confirmed = socket.next_stomp().json(&format!("/transactions/{bob}"), "t");
    assert_eq!(unconfirmed["transaction"], confirmed["transaction"]);
    assert_eq!(unconfirmed["transaction"]["amount"], 12_500_000);
    let hash = confirmed["meta"]["hash"]["data"].as_str().unwrap();
    let found = client.get(&format!("/transaction/get?hash={hash}")).json();
    assert_eq!(found["meta"]["height"], confirmed["meta"]["height"]);
    assert_eq!(balance(&mut client, bob), 100_000_012_500_000);
    let fee = found["transaction"]["fee"].as_u64().unwrap();
    assert_eq!(balance(&mut client, alice), 99_999_987_500_000 - fee);
    assert_eq!(balance(&mut client, address(&accounts, "harvester")), 8_000_000_000_000_000 + fee);
}
