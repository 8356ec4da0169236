//! A configured private key exists in the node's memory only once, wherever it was read from.
#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::daemon::{Node, args, nisd, program};
use crate::common::http::{Client, authorization, post_with};
use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};

/// Larger mappings belong to the store.
const MAX_MAPPING: u64 = 1 << 30;
/// A key that was never used.
const KEY: &str = "5be1cafe0ddba11f8badf00d1ceb00dafacade5ca1ab1e7ab1ade5eed0b5e55e";
/// A part of it, to find copies with an overwritten start.
const PART: Range<usize> = 20..52;

/// Returns the settings of a private network by key; the boot key is replaced by [`KEY`].
fn settings(folder: &Path) -> Vec<(String, String)> {
    let data = folder.join("devnet");
    start(args!["--data", data, "--fresh-keys"]).stop();
    let text = fs::read_to_string(data.join("devnet.properties")).expect("settings");
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let pairs = pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()));
    pairs.map(|(key, value)| if key == "nis.bootKey" { (key, KEY.to_owned()) } else { (key, value) }).collect()
}

/// Starts a node whose memory other processes may read too.
fn start(arguments: impl IntoIterator<Item = OsString>) -> Node {
    let mut command = Node::command(arguments);
    command.env("NISD_CORE_DUMPS", "1");
    Node::from_command(command)
}

/// Returns how often a text occurs in the writable memory of a process.
fn occurrences(process: u32, text: &str) -> usize {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).expect("the mappings of a child");
    let memory = File::open(format!("/proc/{process}/mem")).expect("the memory of a child");
    let mut found = 0;
    for line in maps.lines() {
        let mut words = line.split(' ');
        let (range, rights) = (words.next().expect("a range"), words.next().expect("rights"));
        let (start, end) = range.split_once('-').expect("a range");
        let [start, end] = [start, end].map(|number| u64::from_str_radix(number, 16).expect("hex"));
        if !rights.starts_with("rw") || end - start > MAX_MAPPING {
            continue;
        }
        let mut bytes = vec![0; (end - start) as usize];
        // Some mappings cannot be read by anyone.
        if memory.read_exact_at(&mut bytes, start).is_ok() {
            found += bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count();
        }
    }
    found
}

#[test]
fn a_configured_key_is_in_memory_at_most_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let pairs = settings(folder.path());
    let lines: String = pairs.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let continued = lines.replace(KEY, &format!("{}\\\n    {}\\\n  {}", &KEY[..10], &KEY[10..40], &KEY[40..]));
    let marked = format!("\u{feff}{lines}");
    let forms = [("a.properties", lines), ("b.properties", continued), ("c.properties", marked)];
    for (name, content) in forms {
        let file = folder.path().join("devnet").join(name);
        fs::write(&file, content).expect("room");
        let node = start(args!["--config", file]);
        let process = node.process.id();
        assert!(occurrences(process, KEY) <= 1, "{name}");
        assert!(occurrences(process, &KEY[PART]) <= 1, "{name}: a part of the key was left behind");
        assert!(
            occurrences(process, file.to_str().expect("a path")) > 0,
            "nothing is found, not even the command line"
        );
    }
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_key_from_a_request_is_erased_from_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("devnet");
    let node = start(args!["--data", data]);
    let process = node.process.id();
    let body = |text: &str| format!("{{\"value\":\"{text}\"}}");
    let boot = format!(
        "{{\"identity\":{{\"private-key\":\"{KEY}\"}},\"endpoint\":{{\"protocol\":\"http\",\"host\":\"localhost\",\
         \"port\":1}},\"metaData\":{{\"application\":\"x\"}}}}"
    );
    let local = authorization(node.http);
    let post = |path: &str, body: &str| post_with(path, body, &local);
    let head = "POST /account/unlock HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let requests = [
        post("/account/unlock", &body(KEY)),
        post("/account/lock", &body(KEY)),
        post("/local/account/isunlocked", &body(KEY)),
        post("/account/isunlocked", &body(KEY)),
        post("/account/isunlocked", &format!("{{\"account\":\"{KEY}\"}}")),
        post("/node/boot", &boot),
        post("/node/boot", &boot.replace("http", "nosuch")),
        // Malformed after the key, of wrong length, and for routes that expect no key.
        post("/account/unlock", &format!("{{\"value\":\"{KEY}\",\"x\":")),
        post("/account/unlock", &format!("{{\"x\":[1,{{\"y\":\"{KEY}\"}}],\"value\":7}}")),
        post("/account/unlock", &body(&format!("{KEY}zz"))),
        post("/transaction/prepare-announce", &format!("{{\"transaction\":{{}},\"privateKey\":\"{KEY}\"}}")),
        post("/chain/height", &body(KEY)),
        post("/no/such/path", &body(KEY)),
    ];
    for request in requests {
        Client::connect(node.http).request(&request);
        assert_nowhere(process, &request);
    }
    // Rejected by the node, and aborted by the client, in the middle.
    let declared = |length: usize| format!("{head}Content-Length: {length}\r\n\r\n{{\"value\":\"{KEY}\"");
    let mut client = Client::connect(node.http);
    client.send(declared(1_000_000));
    assert_eq!(client.answer().status, 413);
    assert_nowhere(process, "a request that is too large");
    let mut client = Client::connect(node.http);
    client.send(declared(200));
    std::thread::sleep(Duration::from_millis(100));
    assert!(occurrences(process, KEY) > 0, "while the body is not complete the key must be somewhere");
    drop(client);
    assert_nowhere(process, "a request that is given up");
}

#[test]
fn a_key_generated_for_a_client_is_erased_from_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("devnet");
    let node = start(args!["--data", data]);
    let mut seen = Vec::new();
    for accept in ["application/json", "application/binary", "application/json"] {
        let mut client = Client::connect(node.http);
        client.send(format!(
            "GET /account/generate HTTP/1.1\r\nHost: localhost\r\n{}Accept: {accept}\r\nAccept-Encoding: gzip\r\n\r\n",
            authorization(node.http)
        ));
        let answer = client.answer();
        assert_eq!(answer.status, 200);
        let text = String::from_utf8_lossy(&answer.body);
        let digits = text.split(|c: char| !c.is_ascii_hexdigit()).find(|part| part.len() >= 60);
        let key = digits.expect("a key").to_owned();
        assert!(!seen.contains(&key), "a key is made once");
        assert_key_nowhere(node.process.id(), &key, accept);
        seen.push(key);
    }
}

/// Waits for the node to finish with a connection.
#[track_caller]
fn assert_nowhere(process: u32, request: &str) {
    assert_key_nowhere(process, KEY, request);
}

#[track_caller]
fn assert_key_nowhere(process: u32, key: &str, request: &str) {
    let begun = std::time::Instant::now();
    while occurrences(process, key) + occurrences(process, &key[PART]) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(5), "the key was left behind by {request}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An unprivileged user for what this test otherwise does as root.
const NOBODY: u32 = 65_534;

#[test]
fn the_node_and_its_helper_write_no_core_dump_by_default() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("devnet");
    // Processes started from here on may dump core.
    let most = getrlimit(Resource::Core).maximum;
    setrlimit(Resource::Core, Rlimit { current: most, maximum: most }).expect("a limit");
    let own = fs::read_to_string("/proc/self/limits").expect("the limits of this process");
    assert_ne!(core_limits(&own), ["0", "0"], "cores are forbidden here, so that nothing can be seen");
    // The files in /proc of a process that is not dumpable belong to root, others to its user.
    let user = if getuid().is_root() { NOBODY } else { getuid().as_raw() };
    let mut version = nisd(["--version"]);
    let mut path = PathBuf::from(version.get_program());
    if getuid().is_root() && !version.uid(NOBODY).status().is_ok_and(|status| status.success()) {
        // That user cannot reach the folder of this build.
        let copy = folder.path().join("nisd");
        fs::copy(path, &copy).expect("room");
        path = copy;
    }
    chown(folder.path(), Some(user), None).expect("a folder");
    for is_asked_for in [false, true] {
        let mut command = program(&path, Node::command(args!["--data", data]).get_args());
        if is_asked_for {
            command.env("NISD_CORE_DUMPS", "1");
        }
        command.uid(user);
        let node = Node::from_command(command);
        let process = node.process.id();
        let helper = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).expect("its children");
        let processes = [process, helper.trim().parse().expect("a helper")];
        for process in processes {
            let limits = fs::read_to_string(format!("/proc/{process}/limits")).expect("its limits");
            let owner = || fs::metadata(format!("/proc/{process}/environ")).expect("its files").uid();
            let expected = if is_asked_for { (core_limits(&own), user) } else { (["0", "0"], 0) };
            // The node may answer before its helper has started; the helper holds nothing by then.
            let is_begun = || owner() == expected.1;
            (0..100).take_while(|_| !is_begun()).for_each(|_| std::thread::sleep(Duration::from_millis(20)));
            assert_eq!((core_limits(&limits), owner()), expected);
        }
        // The metrics of its own process remain available.
        let mut client = Client::connect(node.http);
        let metrics = client.get("/metrics").text().to_owned();
        assert!(metrics.contains("nisd_memory_resident_bytes"), "{metrics}");
        node.stop();
    }
}

/// Returns the soft and the hard limit of core dumps.
fn core_limits(limits: &str) -> [&str; 2] {
    let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).expect("the limit of cores");
    let mut words = core.split_whitespace();
    [words.next().expect("a limit"), words.next().expect("a limit")]
}
