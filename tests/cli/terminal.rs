//! A stopped terminal, or a pipe that nobody reads, does not stop the node.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::daemon::{Node, args, nisd, open_terminal, wait_for};
use crate::common::http::Client;
use rustix::termios::{Action, LocalModes, tcflow, tcgetattr};
use tempfile::TempDir;

const MAX_WAIT: Duration = Duration::from_secs(60);
/// Capacity of a pipe in bytes.
const PIPE_CAPACITY: usize = 64 << 10;
/// Number of log lines at the start of the node: far more than it buffers.
const LINES: usize = 3_000;

/// Creates a private network whose node logs much at its start.
fn verbose_network() -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("devnet").to_str().expect("a path").to_owned();
    Node::start(["--data", &data]).stop();
    let settings = folder.path().join("devnet/devnet.properties");
    let text = fs::read_to_string(&settings).expect("settings") + &"nis.bootName = again\n".repeat(LINES);
    fs::write(settings, text).expect("room");
    (folder, data)
}

/// Starts a node that writes to `stderr`, and waits for an answer.
fn answering(data: &str, stderr: impl Into<Stdio>) -> Child {
    let arguments = ["run", "--data", data, "--http-port", "0", "--websocket-port", "0", "--bind", "127.0.0.1"];
    let mut command = nisd(arguments);
    let mut node = command.stdout(Stdio::null()).stderr(stderr).spawn().expect("the program starts");
    let begun = Instant::now();
    // Nobody reads the port in the log, so the file of the secret of local requests tells it.
    let cookie = Path::new(data).join("local-cookie");
    let port = loop {
        let told = fs::read_to_string(&cookie).unwrap_or_default();
        if let Some(port) = told.split_once('.').and_then(|(port, _)| port.parse::<u16>().ok()) {
            break port;
        }
        if begun.elapsed() > MAX_WAIT || node.try_wait().expect("a child").is_some() {
            let _ = node.kill();
            panic!("the node stands still");
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert!(Client::connect(([127, 0, 0, 1], port).into()).height() >= 1);
    node
}

/// Reads to the end; reading a terminal that is not open any more ends with an error.
fn read(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let (mut log, mut part) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = from.read(&mut part) {
            log.extend_from_slice(&part[..count]);
        }
        String::from_utf8(log).expect("text")
    })
}

fn stop(mut node: Child) {
    let line = format!("kill -s TERM {}", node.id());
    assert!(std::process::Command::new("sh").args(["-c", &line]).status().expect("a shell").success());
    let start = Instant::now();
    while node.try_wait().expect("a child").is_none() {
        if start.elapsed() > MAX_WAIT {
            let _ = node.kill();
            panic!("the node does not end");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Checks that every line is present or counted as missing.
#[track_caller]
fn check(log: &str) {
    let told = log.matches("nis.bootName was already set").count();
    let Some((before, _)) = log.split_once(" lines of this log are missing") else {
        panic!("{told} lines, and no word on what is missing: …{:?}", &log[log.len().saturating_sub(2_000)..]);
    };
    let missing: usize = before.rsplit_once(' ').expect("a number").1.parse().expect("a number");
    assert!((200..LINES).contains(&told), "{told}");
    assert!((LINES..LINES + 20).contains(&(told + missing)), "{told} lines and {missing} missing");
}

#[test]
fn a_full_log_pipe_does_not_stop_the_node_and_later_gets_the_count_of_lost_lines() {
    let (_folder, data) = verbose_network();
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(&[b'.'; PIPE_CAPACITY]).expect("room");
    let node = answering(&data, writer);
    reader.read_exact(&mut [0; PIPE_CAPACITY]).expect("what was written before");
    let reading = read(reader);
    stop(node);
    check(&reading.join().expect("the reader ends"));
}

/// As under systemd.
#[test]
fn a_full_log_socket_does_not_stop_the_node_and_later_gets_the_count_of_lost_lines() {
    let (_folder, data) = verbose_network();
    let (reader, mut writer) = UnixStream::pair().expect("a socket");
    writer.set_nonblocking(true).expect("a socket");
    while writer.write(&[b'.'; 4096]).is_ok() {}
    writer.set_nonblocking(false).expect("a socket");
    let node = answering(&data, OwnedFd::from(writer));
    let reading = read(reader);
    stop(node);
    check(&reading.join().expect("the reader ends"));
}

#[test]
fn a_node_ends_with_its_terminal_and_reloads_while_it_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let (screen, terminal) = open_terminal();
    let mut command = Node::command(args!["--data", folder.path()]);
    command.stdin(terminal);
    let node = Node::from_command(command);
    node.process.signal("HUP");
    wait_for("the reload", || node.process.log().contains("the settings are reloaded").then_some(()));
    drop(screen);
    node.process.signal("HUP");
    let ended = node.process.wait_with_timeout(MAX_WAIT).expect_success();
    assert!(ended.stderr.contains("the terminal of this node was closed"), "{}", ended.stderr);
}

#[test]
fn a_stopped_terminal_does_not_stop_the_node_and_later_gets_the_count_of_lost_lines() {
    let (_folder, data) = verbose_network();
    let (screen, terminal) = open_terminal();
    tcflow(&terminal, Action::OOff).expect("it stops");
    let node = answering(&data, terminal.try_clone().expect("a descriptor"));
    let reading = read(screen);
    tcflow(&terminal, Action::OOn).expect("it goes on");
    stop(node);
    drop(terminal);
    check(&reading.join().expect("the reader ends"));
}

#[test]
#[cfg(target_os = "linux")]
fn status_leaves_the_terminal_to_the_shell_while_it_is_suspended() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start(args!["--data", folder.path()]);
    let (mut screen, terminal) = open_terminal();
    let output = || terminal.try_clone().expect("a descriptor");
    let mut command = nisd(["status", "--node", &format!("http://{}", node.http)]);
    command.stdin(output()).stdout(output()).stderr(Stdio::inherit()).process_group(0);
    let mut status = command.spawn().expect("the program starts");
    let signal = |name: &str| {
        let line = format!("kill -s {name} {}", status.id());
        assert!(std::process::Command::new("sh").args(["-c", &line]).status().expect("a shell").success());
    };
    let is_canonical = || tcgetattr(&terminal).expect("a terminal").local_modes.contains(LocalModes::ICANON);
    let stat = format!("/proc/{}/stat", status.id());
    let is_stopped = || fs::read_to_string(&stat).expect("a process").contains(") T ");
    for _ in 0..2 {
        wait_for("the screen", || (!is_canonical()).then_some(()));
        screen.write_all(b"\x1a").expect("room");
        wait_for("the stop", || is_stopped().then_some(()));
        assert!(is_canonical(), "the shell gets its terminal back");
        signal("CONT");
    }
    wait_for("the screen", || (!is_canonical()).then_some(()));
    screen.write_all(b"q").expect("room");
    assert!(status.wait().expect("a child").success() && is_canonical());
    drop((terminal, command));
    let shown = read(screen).join().expect("the reader ends");
    let counts = ["\x1b[?1049h", "\x1b[?1049l"].map(|code| shown.matches(code).count());
    assert_eq!(counts, [3, 3], "{shown}");
}
