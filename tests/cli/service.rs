//! The node as a service: notifications to systemd, and settings reloaded while the node answers.

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::daemon::{Node, Process, args, new_network, nisd, program, run, wait_for};
use crate::common::http::{Client, get};
use crate::common::private_network::{Genesis, TOTAL, address, key_pair, private_key};
use crate::common::{folder_of_a_service, skip};
use nisd::model::{Amount, Timestamp};
use tempfile::TempDir;

/// Maximum wait.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The configuration of a node of a private network.
struct Installation {
    folder: TempDir,
    genesis: Genesis,
}

impl Installation {
    fn new() -> Installation {
        let genesis = new_network();
        Installation { folder: tempfile::tempdir().expect("a folder"), genesis }
    }

    /// Rewrites the configuration; returns its path.
    fn configure(&self, settings: &[(&str, &str)]) -> PathBuf {
        self.genesis.write_hasty(self.folder.path(), &private_key(1).printed(), settings)
    }

    fn start(&self, environment: &[(&str, &str)]) -> Node {
        let mut command = Node::command(args!["--config", self.configure(&[])]);
        command.envs(environment.iter().copied());
        Node::from_command(command)
    }
}

/// The socket at which systemd listens.
struct Systemd {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Systemd {
    fn at(folder: &Path) -> Systemd {
        let path = folder.join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_read_timeout(Some(MAX_WAIT)).expect("a timeout");
        Systemd { socket, path }
    }

    fn path(&self) -> &str {
        self.path.to_str().expect("a path")
    }

    fn next(&self) -> String {
        let mut bytes = [0; 1024];
        let length = loop {
            match self.socket.recv(&mut bytes) {
                // Another test of this program may send signals.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                length => break length.expect("something is told"),
            }
        };
        String::from_utf8_lossy(&bytes[..length]).trim_end().to_owned()
    }

    /// Reads notifications up to and including one that starts like this.
    fn until(&self, start: &str) {
        while !self.next().starts_with(start) {}
    }

    /// Reads notifications until blocks arrive. On a busy machine several may be made before one is reported.
    fn until_blocks_arrive(&self) {
        let is_later = |told: String| {
            let height = told.strip_prefix("STATUS=height ").and_then(|rest| rest.split_once(", "));
            height.is_some_and(|(height, _)| height.parse().is_ok_and(|height: u64| height >= 2))
        };
        while !is_later(self.next()) {}
    }
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn systemd_is_notified_of_readiness_liveness_status_and_stopping() {
    let installation = Installation::new();
    let systemd = Systemd::at(installation.folder.path());
    let node = installation.start(&[("NOTIFY_SOCKET", systemd.path()), ("WATCHDOG_USEC", "400000")]);
    systemd.until("READY=1");
    assert!(Client::connect(node.http).height() >= 1, "who is ready answers");
    systemd.until_blocks_arrive();
    let begun = Instant::now();
    (0..10).for_each(|_| systemd.until("WATCHDOG=1"));
    assert!(begun.elapsed() < 10 * Duration::from_millis(400), "ten signs of life took {:?}", begun.elapsed());
    node.process.signal("TERM");
    systemd.until("STOPPING=1");
    node.process.wait_with_timeout(MAX_WAIT).expect_success();
}

#[test]
fn the_package_is_configured_although_the_settings_are_removed_and_says_how_to_start_a_node_that_is_not_enabled() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["getent", "adduser", "systemctl", "chown", "chmod"] {
        // Those of the file fail if it is missing, and `systemctl` is given its answer.
        let script =
            "#!/bin/sh\ncase $0 in */ch*) [ -e \"$2\" ];; */systemctl) [ $1 = daemon-reload ] || exit $ANSWER;; esac\n";
        let path = folder.path().join(name);
        fs::write(&path, script).expect("a file");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("own");
    }
    let search = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a path"));
    for (answer, is_told) in [("0", false), ("1", true)] {
        let mut postinst = program("sh", [".packaging/debian/postinst", "configure", "1.0.0"]);
        postinst.current_dir(env!("CARGO_MANIFEST_DIR")).env("PATH", &search).env("ANSWER", answer);
        let ended = Process::start(postinst).wait_with_timeout(MAX_WAIT).expect_success();
        assert_eq!(ended.text().contains("nisd is installed"), is_told, "{}", ended.text());
    }
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_full_notify_socket_does_not_delay_the_node() {
    let installation = Installation::new();
    let systemd = Systemd::at(installation.folder.path());
    let node = installation.start(&[("NOTIFY_SOCKET", systemd.path()), ("WATCHDOG_USEC", "2000")]);
    let mut client = Client::connect(node.http);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1_500) {
        let asked = Instant::now();
        client.height();
        assert!(asked.elapsed() < Duration::from_secs(1), "an answer took {:?}", asked.elapsed());
    }
    // More notifications than a socket buffers.
    node.stop();
}

/// Sends requests on one connection and on new ones until stopped; returns the number of answers.
fn send_requests(node: SocketAddr, stop: Arc<AtomicBool>) -> thread::JoinHandle<usize> {
    thread::spawn(move || {
        let (mut kept, mut answers) = (Client::connect(node), 0);
        while !stop.load(Ordering::Relaxed) {
            assert_eq!(kept.get("/chain/height").status, 200);
            assert_eq!(Client::connect(node).get("/node/info").status, 200);
            answers += 2;
        }
        answers
    })
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_reload_of_the_settings_loses_no_request() {
    let installation = Installation::new();
    let node = installation.start(&[]);
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4).map(|_| send_requests(node.http, stop.clone())).collect();
    for round in 0..20 {
        let (buffered, level) = if round % 2 == 0 { ("1M", "debug") } else { ("2M", "info") };
        installation.configure(&[("nisd.maxBuffered", buffered), ("nisd.logLevel", level), ("nis.nodeLimit", "7")]);
        node.process.signal("HUP");
        let told = format!("nisd.maxBuffered is \"{buffered}\" now");
        wait_for(&told, || (node.process.log().matches(&told).count() == 1 + round / 2).then_some(()));
    }
    stop.store(true, Ordering::Relaxed);
    let answers: usize = clients.into_iter().map(|client| client.join().expect("every request is answered")).sum();
    assert!(answers > 100, "{answers} answers");
    let log = node.process.log();
    assert!(log.contains("nis.nodeLimit stays \"5\" until the node restarts"), "{log}");
    assert!(log.contains(" DEBUG "), "the level counts: {log}");
}

#[test]
fn an_invalid_reload_keeps_the_current_settings() {
    let installation = Installation::new();
    let node = installation.start(&[]);
    installation.configure(&[("nisd.maxBuffered", "much"), ("nisd.logLevel", "debug")]);
    node.process.signal("HUP");
    // The message has several lines.
    let words = ["no setting is changed", "nisd.maxBuffered"];
    wait_for("the error", || words.iter().all(|words| node.process.log().contains(words)).then_some(()));
    let log = node.process.log();
    assert!(!log.contains(" DEBUG "), "{log}");
    assert!(Client::connect(node.http).height() >= 1);
}

#[test]
fn a_file_without_settings_starts_no_node_and_changes_no_running_one() {
    let installation = Installation::new();
    let node = installation.start(&[]);
    let config = installation.configure(&[]);
    for emptied in ["", "# nem.network = testnet\n"] {
        fs::write(&config, emptied).expect("room");
        node.process.signal("HUP");
        let words = "no setting is changed: cannot use the configuration file";
        wait_for("the error", || node.process.log().contains(words).then_some(()));
        run(args!["run", "--config", &config]).expect_failure(2, &["it sets nothing", "nem.network = mainnet"]);
        run(args!["config", "check", &config]).expect_failure(2, &["does not start"]);
    }
    assert!(!node.process.log().contains("the settings are reloaded"));
    assert!(Client::connect(node.http).height() >= 1);
}

#[test]
fn a_check_rejects_a_nemesis_block_that_a_node_cannot_execute() {
    let folder = tempfile::tempdir().expect("a folder");
    let to = |number, amount| (address(&key_pair(number)), Amount::whole(amount));
    let start = Timestamp(1_000);
    let config = Genesis::new(start, &[to(1, TOTAL), to(2, 1)]).write(folder.path(), &[]);
    let why = "the block at height 1 is rejected: its transaction 1";
    // A node that has failed leaves a store without a block.
    for _ in 0..2 {
        let checked = run(args!["config", "check", &config]).expect_failure(2, &["does not start"]).text();
        let said = checked.lines().find(|line| line.contains("WRONG")).unwrap_or_default().to_owned();
        let arguments = args!["run", "--config", &config, "--http-port", "0", "--websocket-port", "0"];
        let refused = run(arguments).expect_failure(1, &[]);
        assert!(said.contains(why) && refused.stderr.contains(why), "{checked}{}", refused.stderr);
    }
    fs::remove_dir_all(folder.path().join("store")).expect("the store");
    Genesis::new(start, &[to(1, TOTAL - 1), to(2, 1)]).write(folder.path(), &[]);
    run(args!["config", "check", &config]).expect_success();
}

#[test]
fn a_check_rejects_a_data_folder_that_a_node_cannot_use() {
    let installation = Installation::new();
    installation.start(&[]).stop();
    let file = installation.configure(&[]);
    let file = file.to_str().expect("a path");
    let not_a_folder = "it is a file, or lies below one; name a folder";
    for (key, value, code, words) in [
        ("nisd.data", file, 1, not_a_folder),
        ("nisd.data", "/dev/null", 1, not_a_folder),
        ("nisd.data", "/dev/null/store", 1, not_a_folder),
        ("nis.blockChainRewriteLimit", "123", 2, "the store holds the chain of"),
    ] {
        let config = installation.configure(&[(key, value)]);
        let checked = run(args!["config", "check", &config]).expect_failure(2, &["does not start"]).text();
        assert!(checked.lines().any(|line| line.contains("WRONG") && line.contains(words)), "{checked}");
        run(args!["run", "--config", &config]).expect_failure(code, &[words]);
    }
    run(args!["config", "check", installation.configure(&[])]).expect_success();
}

#[test]
fn a_reloaded_setting_applies_to_the_next_request() {
    let installation = Installation::new();
    let node = installation.start(&[]);
    let status = || Client::connect(node.http).request(get("/local/peers")).status;
    assert_eq!(status(), 401);
    installation.configure(&[("nisd.localAccess", "address")]);
    node.process.signal("HUP");
    wait_for("local access", || (status() == 200).then_some(()));
}

#[test]
fn a_reload_warns_of_settings_as_a_start_does() {
    let installation = Installation::new();
    let node = installation.start(&[]);
    let warnings =
        ["connections instead of nisd.maxConnections = 1000000", "nisd.localAccess = address: the address of"];
    let are_there = |log: String| warnings.iter().all(|warning| log.contains(warning)).then_some(());
    assert!(are_there(node.process.log()).is_none());
    installation.configure(&[("nisd.localAccess", "address"), ("nisd.maxConnections", "1000000")]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -Hn | grep -qE '^[0-9]{1,6}$'"]);
    if !limited.status().expect("a shell").success() {
        return skip("this system allows a process any number of open files");
    }
    node.process.signal("HUP");
    wait_for("the warnings", || are_there(node.process.log()));
}

#[test]
#[cfg(target_os = "linux")]
fn no_helper_process_outlives_its_node_even_one_that_is_stopped() {
    let state = |process: &u32| fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let signal = |process: u32, name: &str| {
        let status = Command::new("kill").args(["-s", name, &process.to_string()]).status();
        assert!(status.expect("kill").success());
    };
    for end in ["TERM", "KILL"] {
        let installation = Installation::new();
        // So that its children can be inspected.
        let node = installation.start(&[("NISD_CORE_DUMPS", "1")]);
        let parent = node.process.id();
        let helpers = wait_for("a helper", || {
            let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).expect("the children");
            let is_helper = |child: &u32| {
                let arguments = fs::read_to_string(format!("/proc/{child}/cmdline"));
                arguments.is_ok_and(|arguments| arguments.contains("helper-"))
            };
            let children = children.split_whitespace().filter_map(|child| child.parse().ok());
            Some(children.filter(is_helper).collect::<Vec<u32>>()).filter(|helpers| !helpers.is_empty())
        });
        // Until they wait for requests.
        thread::sleep(Duration::from_millis(500));
        for helper in &helpers {
            signal(*helper, "STOP");
        }
        node.process.signal(end);
        let has_ended = |process: &u32| state(process).is_empty() || state(process).contains(") Z ");
        wait_for("the end of the helpers", || helpers.iter().all(has_ended).then_some(()));
    }
}

/// Maximum exposure that `systemd-analyze security` may report, in tenths; an unprotected unit has 96.
const MAX_EXPOSURE: &str = "15";

#[test]
fn systemd_accepts_the_unit_and_rates_its_exposure_low() {
    let folder = folder_of_a_service();
    let installation = Installation { folder, genesis: new_network() };
    let folder = installation.folder.path();
    let config = installation.configure(&[]);
    let paths = [config, folder.join("store")].map(|path| path.to_str().expect("a path").to_owned());
    let arguments = ["service", "--config", &paths[0], "--data", &paths[1], "--user", "daemon"];
    let unit = run(arguments).expect_success().text();
    assert!(unit.contains(&format!(" run --config {} --data {}\n", paths[0], paths[1])), "{unit}");
    fs::write(folder.join("nisd.service"), unit).expect("a file");
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        command.current_dir(folder).args(arguments).arg("./nisd.service").output()
    };
    let Ok(verified) = analyze(&["verify"]) else {
        return skip("systemd-analyze is not installed, so that the unit is not verified");
    };
    assert!(verified.status.success() && verified.stderr.is_empty(), "{verified:?}");
    let threshold = format!("--threshold={MAX_EXPOSURE}");
    let found = analyze(&["security", "--offline=true", "--no-pager", &threshold]).expect("systemd-analyze is there");
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stdout));
}

#[test]
fn a_unit_has_plain_paths_and_none_that_its_service_cannot_use() {
    let folder = folder_of_a_service();
    let service = |arguments: &[&str]| {
        let mut command = nisd(["service", "--network", "testnet"]);
        command.args(arguments).current_dir("/usr");
        Process::start(command).wait_with_timeout(MAX_WAIT)
    };
    let unit = service(&["--data", "../srv/./n"]).expect_success().text();
    for line in [" run --network testnet --data /srv/n\n", "ReadWritePaths=/srv/n\n", "RequiresMountsFor=/srv/n\n"] {
        assert!(unit.contains(line), "{line} is missing in {unit}");
    }
    service(&["--data", "/tmp/nisd"]).expect_failure(2, &["/tmp/nisd lies in /tmp", "PrivateTmp", "--data"]);
    let installation = Installation { folder, genesis: new_network() };
    let unit_of = |nemesis: &str| {
        let config = installation.configure(&[("nem.network.nemesisFilePath", nemesis)]);
        run(args!["service", "--config", config, "--data", "/var/lib/nisd"])
    };
    assert!(unit_of("/home/alice/n.bin").expect_success().text().contains("ProtectHome=read-only\n"));
    unit_of("/var/tmp/n.bin").expect_failure(2, &["/var/tmp/n.bin lies in /var/tmp", "/etc/nisd"]);
    unit_of("%h/n.bin").expect_failure(2, &["nem.network.nemesisFilePath has %h", "whole path"]);
}

#[test]
fn metrics_are_logged_on_the_usr1_signal() {
    let installation = Installation::new();
    let node = installation.start(&[]);
    node.process.signal("USR1");
    wait_for("the figures", || node.process.log().contains("\n    nisd_height ").then_some(()));
    assert!(!node.process.log().contains("# HELP"));
}

#[test]
fn a_peer_added_by_a_reload_is_contacted() {
    let one = Installation::new();
    let node = one.start(&[]);
    let second = Node::on_fast_network(&one.genesis, 2, &[("nis.bootName", "another")], &[]);
    one.configure(&[("nisd.peers", &second.http.to_string())]);
    node.process.signal("HUP");
    let data = one.folder.path().join("store");
    let peers =
        || run(args!["peers", "--node", format!("http://{}", node.http), "--data", data]).expect_success().text();
    wait_for("the other node", || peers().contains("another").then_some(()));
    assert!(node.process.log().contains("new peers on the operator's list: 1"));
}
