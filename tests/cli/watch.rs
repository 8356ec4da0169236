//! `nisd watch` against a server that plays recorded streams.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::daemon::{CommandOutput, Process, in_container, nisd, program, run, wait_for};
use crate::common::http::{MAX_WAIT, ReceivedRequest, receive_request, response};
use crate::common::skip;
use serde_json::{Value, json};
use tempfile::TempDir;

const BOB: &str = "TDHLS73IXYZFFBPZWJFK3DVGUUQ2BBIGVUPE6BMZ";
const ALICE_PUBLIC: &str = "be6a7bb594e6c141a9ea1b671891a7a0c99999253f22bcf0fe36013bdeebded9";
const SINK_ON_MAINNET: &str = "NAMESPACEWH4MKFMBCVFERDPOOP4FK7MTBXDPZZA";
/// The start of every stream.
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// What a server does with a connection.
enum Connection {
    /// Sends these bytes and closes it.
    Close(Vec<u8>),
    /// Sends these bytes and keeps it open until the client closes it.
    Keep(Vec<u8>),
}

/// A server that handles one connection after another.
struct EventServer {
    url: String,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl EventServer {
    fn start(script: Vec<Connection>) -> EventServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        thread::spawn(move || {
            for (connection, stream) in script.into_iter().zip(listener.incoming()) {
                let mut stream = stream.expect("a connection");
                stream.set_read_timeout(Some(MAX_WAIT)).expect("a time limit");
                let mut rest = Vec::new();
                let request = receive_request(&mut stream, &mut rest).expect("a request in time").expect("a request");
                seen.lock().expect("no panic").push(request);
                let (Connection::Close(bytes) | Connection::Keep(bytes)) = &connection;
                // The other side may have disconnected.
                let _ = stream.write_all(bytes);
                if matches!(connection, Connection::Keep(_)) {
                    let _ = receive_request(&mut stream, &mut rest);
                }
            }
        });
        EventServer { url, requests }
    }

    /// Returns the value of a header of each request; empty if it is missing.
    fn headers(&self, name: &str) -> Vec<String> {
        let value = |request: &ReceivedRequest| {
            let found = request.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            found.unwrap_or_default().to_owned()
        };
        self.requests.lock().expect("no panic").iter().map(value).collect()
    }

    fn paths(&self) -> Vec<String> {
        let line = |request: &ReceivedRequest| format!("{} {}", request.method, request.path);
        self.requests.lock().expect("no panic").iter().map(line).collect()
    }
}

/// Returns a stream, in chunks of a few bytes.
fn stream(text: &str) -> Vec<u8> {
    let chunk = |part: &[u8]| [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
    let chunks: Vec<_> = text.as_bytes().chunks(37).map(chunk).collect();
    [HEAD.as_bytes(), &chunks.concat()].concat()
}

fn event(id: &str, name: &str, data: &Value) -> String {
    format!("id: {id}\r\nevent: {name}\r\ndata: {data}\r\n\r\n")
}

fn synchronising(id: &str) -> String {
    let data = json!({"height": 9, "networkHeight": 9, "behind": 0, "status": "synchronised"});
    format!("retry: 3000\n\n:\n\n{}", event(id, "synchronising", &data))
}

/// Returns a payment of `number` XEM in the block of the same height.
fn payment(id: &str, name: &str, number: u64) -> String {
    let mut data = json!({
        "height": number, "index": 0, "blockHash": "ab", "timeStamp": 60 * number,
        "meta": {"height": number, "id": number, "hash": {"data": format!("{number:064x}")}, "innerHash": {}},
        "transaction": {
            "type": 257, "version": -1744830463, "timeStamp": 0, "deadline": 3600, "fee": 50000, "amount": number * 1_000_000,
            "signer": ALICE_PUBLIC, "recipient": BOB, "signature": "00",
            "message": {"type": 1, "payload": hex::encode(format!("customer {number}"))},
        },
    });
    if name == "transaction" {
        data["confirmations"] = 1.into();
    }
    event(id, name, &data)
}

fn watch(server: &EventServer, folder: &Path, arguments: &[&str]) -> Process {
    let mut command = nisd(["watch", "--node", &server.url]);
    command.args(arguments).current_dir(folder);
    Process::start(command)
}

/// Waits until a process ends.
#[track_caller]
fn end(process: Process) -> CommandOutput {
    process.wait_with_timeout(MAX_WAIT)
}

/// Returns the id in a state file, if there is a file with one.
fn saved_id(folder: &Path) -> Option<String> {
    let state: Value = serde_json::from_slice(&fs::read(folder.join("state")).ok()?).expect("JSON");
    Some(state["id"].as_str()?.to_owned())
}

/// Returns the events that commands have got: their ids.
fn done(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("done")).unwrap_or_default();
    let values = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    values.map(|value| format!("{} {}", value["event"].as_str().unwrap(), value["id"].as_str().unwrap())).collect()
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_watch_resumes_at_the_event_whose_command_failed_and_after_a_lost_connection() {
    let folder = TempDir::new().unwrap();
    let first = [synchronising("0.z"), payment("1.0.a", "transaction", 1), payment("1.1.a", "transaction", 2)].concat();
    let third = payment("2.0.b", "transaction", 3);
    let (half, _) = third.split_at(third.len() - 5);
    let rollback = event("1.9.a", "rollback", &json!({"height": 1, "transactions": "listed"}));
    let (undone, again) = (payment("1.8.a", "undone", 3), payment("2.0.c", "transaction", 4));
    let last = [rollback.as_str(), &undone, &again];
    let server = EventServer::start(vec![
        Connection::Close(stream(&(first + half))),
        Connection::Keep(stream(&(synchronising("1.1.a") + &third + &payment("2.1.b", "transaction", 5)))),
        Connection::Keep(stream(&(synchronising("2.0.b") + &last.concat()))),
    ]);
    let common = [BOB, "--from", "1", "--state", "state", "--exec"];
    let failing = "line=$(cat); case $line in *'\"id\":\"2.0.b\"'*) exit 3;; esac; echo \"$line\" >>done";
    let ended = end(watch(&server, folder.path(), &[&common[..], &[failing]].concat()));
    let ended =
        ended.expect_failure(1, &["failed with exit code 3 at the event transaction 2.0.b", "the next run begins"]);
    assert!(ended.stderr.contains("ended: it closed the connection (connecting again in 1 s)"), "{}", ended.stderr);
    assert_eq!(done(folder.path()), ["transaction 1.0.a", "transaction 1.1.a"]);
    assert_eq!(saved_id(folder.path()).as_deref(), Some("1.1.a"));
    // Its command runs again even if its block has been replaced meanwhile, so that the stream behind it undoes it.
    let state: Value = serde_json::from_slice(&fs::read(folder.path().join("state")).unwrap()).unwrap();
    assert_eq!(state["event"]["id"], "2.0.b");

    let process = watch(&server, folder.path(), &[&common[..], &["cat >>done"]].concat());
    wait_for("the last event", || (done(folder.path()).len() == 6).then_some(()));
    process.signal("TERM");
    let ended = end(process).expect_success();
    let rest = ["transaction 2.0.b", "rollback 1.9.a", "undone 1.8.a", "transaction 2.0.c"];
    assert_eq!(done(folder.path())[2..], rest);
    assert_eq!(saved_id(folder.path()).as_deref(), Some("2.0.c"));
    assert!(ended.stderr.contains("after the event 1.1.a of the state file, which --from does not change"));
    let text = ended.text();
    let lines: Vec<_> = text.lines().collect();
    let paid = "  3 XEM  \"customer 3\"  0000";
    assert!(lines[0].starts_with("2015-03-29 00:09:25 UTC  height 3  1 confirmation  T"), "{text}");
    assert!(lines[0].contains(&format!(" → {BOB}{paid}")), "{text}");
    assert_eq!(lines[1], "rollback  every block above height 1 is undone");
    assert!(lines[2].starts_with("undone  2015-03-29 00:09:25 UTC  height 3  T") && lines[2].contains(paid), "{text}");
    assert_eq!(lines.len(), 4);

    assert_eq!(server.headers("Last-Event-ID"), ["", "1.1.a", "2.0.b"]);
    assert_eq!(server.paths(), ["POST /events?from=1", "POST /events", "POST /events"]);
    let body = server.requests.lock().unwrap()[0].body.clone();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), json!({"addresses": [BOB]}));
}

/// Returns a server that tells of this many payments, and the arguments of a watch that runs a command for each.
fn payments(count: u64, command: &'static str) -> (EventServer, [&'static str; 3]) {
    let events = (1..=count).map(|number| payment(&format!("{number}.0.a"), "transaction", number));
    let server =
        EventServer::start(vec![Connection::Keep(stream(&(synchronising("0.z") + &events.collect::<String>())))]);
    (server, ["--state=state", "--exec", command])
}

#[test]
fn a_command_that_has_succeeded_is_not_run_again_although_the_parent_ignores_the_end_of_processes() {
    let folder = TempDir::new().unwrap();
    let (server, arguments) = payments(2, "cat >>done");
    let watch = nisd(["watch", "--node", &server.url].iter().chain(&arguments));
    let mut ignoring = program("env", ["--ignore-signal=CHLD"]);
    ignoring.arg(watch.get_program()).args(watch.get_args()).current_dir(folder.path());
    let process = Process::start(ignoring);
    wait_for("both payments", || (saved_id(folder.path()).as_deref() == Some("2.0.a")).then_some(()));
    process.signal("TERM");
    end(process).expect_success();
    assert_eq!(done(folder.path()), ["transaction 1.0.a", "transaction 2.0.a"]);
}

/// Writes a shell script that can be run.
fn write_script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("room");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("own");
}

/// Returns the script of `nisd help payments`.
fn documented_script() -> String {
    let help = include_str!("../../src/help/payments.md").lines();
    let lines = help.skip_while(|line| *line != "    #!/bin/sh");
    let script: Vec<_> = lines.map_while(|line| line.strip_prefix("    ")).collect();
    assert!(script.len() > 10, "the script is not in the help");
    script.join("\n") + "\n"
}

#[test]
fn the_script_of_the_help_credits_deposits_and_fails_whenever_a_part_of_it_fails() {
    if !program("jq", ["--version"]).output().is_ok_and(|ended| ended.status.success()) {
        return skip("jq is not installed");
    }
    let folder = TempDir::new().unwrap();
    let place = |name: &str| folder.path().join(name);
    write_script(&place("credit"), &documented_script());
    for name in ["credit-deposit", "reverse-above"] {
        let note =
            format!("#!/bin/sh\n[ ! -e refused ] || exit 5\nprintf '{name}' >>books\nprintf ' <%s>' \"$@\" >>books\n");
        write_script(&place("bin").join(name), &note);
    }
    // It ends as if it were killed at the call whose number is in the file.
    let jq =
        "#!/bin/sh\necho >>calls\n[ $(wc -l <calls) != \"$(cat failing)\" ] || exit 137\nPATH=$REST exec jq \"$@\"\n";
    write_script(&place("bin/jq"), jq);
    let rest = std::env::var("PATH").expect("a path");
    // Runs the script for an event. Returns its exit code, and what it did.
    let credit = |event: &str, failing: u32| {
        fs::write(place("event"), event).expect("room");
        fs::write(place("failing"), failing.to_string()).expect("room");
        for name in ["books", "calls"] {
            fs::write(place(name), "").expect("room");
        }
        let mut script = program("./credit", [""; 0]);
        script.current_dir(folder.path()).stdin(fs::File::open(place("event")).expect("it"));
        script.env("REST", &rest).env("PATH", format!("{}:{rest}", place("bin").display()));
        let status = script.output().expect("it runs").status;
        (status.code(), fs::read_to_string(place("books")).expect("text"))
    };
    let line = |name: &str, data: Value| json!({"event": name, "id": "7.0.a", "data": data}).to_string() + "\n";
    let paid = payment("7.0.a", "transaction", 7);
    let paid: Value = serde_json::from_str(paid.split("data: ").nth(1).expect("data")).expect("JSON");
    let hash = format!("{:064x}", 7);
    let credited = format!("credit-deposit <{hash}> <7> <7000000> <1> <{}>", hex::encode("customer 7"));
    let mut without_message = paid.clone();
    without_message["transaction"]["message"] = json!({});
    let mut inner = paid.clone();
    inner["transaction"] = json!({"type": 4100, "otherTrans": paid["transaction"]});
    let mut sent = paid.clone();
    sent["transaction"]["recipient"] = SINK_ON_MAINNET.into();
    let mut of_mosaics = paid.clone();
    of_mosaics["transaction"]["mosaics"] = json!([{"quantity": 1}]);
    let rollback = json!({"height": 6, "transactions": "listed"});

    for (name, data, effect) in [
        ("transaction", &paid, credited.as_str()),
        ("transaction", &inner, &credited),
        ("transaction", &without_message, &format!("credit-deposit <{hash}> <7> <7000000> <0> <>")),
        ("transaction", &sent, ""),
        ("transaction", &of_mosaics, ""),
        ("rollback", &rollback, "reverse-above <6>"),
        ("undone", &paid, ""),
        ("unconfirmed", &paid, ""),
        ("left", &json!({}), ""),
        ("block", &json!({"height": 7}), ""),
    ] {
        let event = line(name, data.clone());
        assert_eq!(credit(&event, 0), (Some(0), effect.to_owned()), "{event}");
        let calls = fs::read_to_string(place("calls")).expect("text").lines().count() as u32;
        assert!(calls > 0, "{event}");
        for failing in 1..=calls {
            let (code, done) = credit(&event, failing);
            assert!(code != Some(0) && done.is_empty(), "{event} at call {failing} of jq: {code:?}, {done}");
        }
        fs::write(place("refused"), "").expect("room");
        assert_eq!(credit(&event, 0).0 == Some(0), effect.is_empty(), "{event}");
        fs::remove_file(place("refused")).expect("own");
    }
    for event in ["", "{\"event\":\"trans", "{}", &line("another", json!({})), &line("rollback", json!({}))] {
        let (code, done) = credit(event, 0);
        assert!(code != Some(0) && done.is_empty(), "{event}: {code:?}, {done}");
    }
}

#[test]
fn processes_that_a_command_leaves_behind_are_collected_by_the_first_process_of_a_container() {
    let folder = TempDir::new().unwrap();
    let (server, arguments) =
        payments(4, "(true &); sleep 0.1; cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ' >>ended; true");
    let mut watch = nisd(["watch", "--node", &server.url]);
    watch.args(arguments).current_dir(folder.path());
    let Some(inside) = in_container(&watch) else { return };
    let _process = Process::start(inside);
    wait_for("all payments", || (saved_id(folder.path()).as_deref() == Some("4.0.a")).then_some(()));
    let counts = fs::read_to_string(folder.path().join("ended")).expect("counts");
    assert!(counts.lines().all(|count| ["0", "1"].contains(&count)), "more than that of the last command: {counts}");
}

#[test]
fn a_watch_prints_json_lines_and_ends_at_a_signal_with_its_state_saved() {
    let folder = TempDir::new().unwrap();
    let text = synchronising("0.z") + &payment("1.0.a", "unconfirmed", 1) + "id: 5.0.q\n\n";
    let server = EventServer::start(vec![Connection::Keep(stream(&text))]);
    let process = watch(&server, folder.path(), &["--json", "--confirmations", "0", "--state", "state"]);
    wait_for("the state", || saved_id(folder.path()).filter(|id| id == "5.0.q"));
    process.signal("INT");
    let ended = end(process).expect_success();
    let lines = ended.text();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let names: Vec<_> =
        lines.iter().map(|line| (line["event"].as_str().unwrap(), line["id"].as_str().unwrap())).collect();
    assert_eq!(names, [("synchronising", "0.z"), ("unconfirmed", "1.0.a")]);
    assert_eq!(lines[1]["data"]["transaction"]["amount"], 1_000_000);
    assert_eq!(server.paths(), ["GET /events?confirmations=0"]);
    assert!(ended.stderr.contains("watching all accounts") && ended.stderr.contains("height 9: synchronised"));
}

#[test]
fn a_state_file_is_for_one_watch_at_a_time_and_keeps_its_permissions() {
    let folder = TempDir::new().unwrap();
    let (state, link) = (folder.path().join("state"), folder.path().join("link"));
    std::os::unix::fs::symlink("state", &link).expect("a link");
    let server = EventServer::start(vec![
        Connection::Keep(stream(&(synchronising("0.z") + &payment("1.0.a", "transaction", 1)))),
        Connection::Keep(stream(&(synchronising("1.0.a") + &payment("2.0.a", "transaction", 2)))),
    ]);
    let arguments = [BOB, "--exec", "cat >>done", "--state"];
    let first = watch(&server, folder.path(), &[&arguments[..], &["state"]].concat());
    wait_for("the state", || saved_id(folder.path()).filter(|id| id == "1.0.a"));
    for state in ["state", "link"] {
        let second = end(watch(&server, folder.path(), &[&arguments[..], &[state]].concat()));
        let reason = format!("the state file {state} is in use: another nisd watch runs with it");
        second.expect_failure(1, &[&reason]);
    }
    first.signal("TERM");
    end(first).expect_success();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o640)).expect("own");
    let third = watch(&server, folder.path(), &[&arguments[..], &["link"]].concat());
    wait_for("the state", || saved_id(folder.path()).filter(|id| id == "2.0.a"));
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o640);
    third.signal("TERM");
    end(third).expect_success();
    assert_eq!(done(folder.path()), ["transaction 1.0.a", "transaction 2.0.a"]);
}

#[test]
#[cfg(target_os = "linux")]
fn an_empty_state_file_mounted_alone_in_a_read_only_folder_is_begun_and_locked() {
    const MOUNT: &str = "mount --bind ro ro && mount --bind state ro/state && mount -o remount,ro,bind ro";
    let folder = TempDir::new().unwrap();
    let lock = folder.path().join("ro/state.lock");
    fs::create_dir(folder.path().join("ro")).expect("a folder");
    for file in ["state", "ro/state", "ro/state.lock"] {
        fs::write(folder.path().join(file), "").expect("room");
    }
    let mounted = |script: &str| {
        let mut command = program("unshare", ["-rm", "sh", "-c", &format!("{MOUNT} && {script}"), "sh"]);
        command.current_dir(folder.path());
        command
    };
    if !mounted("! touch ro/other").status().is_ok_and(|status| status.success()) {
        return skip("nothing can be mounted here");
    }
    let (server, [_, exec, command]) = payments(1, "cat >>done");
    let watch = nisd(["watch", "--node", &server.url, "--from", "1", "--state", "ro/state", exec, command]);
    let mut inside = mounted("exec \"$@\"");
    inside.arg(watch.get_program()).args(watch.get_args());
    let process = Process::start(inside);
    wait_for("the payment", || (done(folder.path()).len() == 1).then_some(()));
    assert!(fs::File::open(lock).expect("it").try_lock().is_err(), "another watch could run with it");
    process.signal("TERM");
    end(process).expect_success();
    assert_eq!(saved_id(folder.path()).as_deref(), Some("1.0.a"));
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_watch_explains_what_it_cannot_follow() {
    let folder = TempDir::new().unwrap();
    let failure = |status: &str, message: &str| {
        let body = json!({"timeStamp": 1, "error": "Words", "message": message, "status": 400}).to_string();
        Connection::Close(response(status, body.as_bytes()))
    };
    let server = EventServer::start(vec![
        Connection::Close(stream(&synchronising("1.0.a"))),
        failure("400 Bad Request", "this id is of another chain: start again with from="),
        failure("404 Not Found", "no such thing"),
        Connection::Close(stream("id: 1\ndata: {\"a\":\n\n")),
        Connection::Close(stream("id: a b\ndata: {}\n\n")),
    ]);
    let words = [
        "status 400: this id is of another chain: start again with from=",
        "the id of the state file state was 1.0.a; without that file, --from names the start",
    ];
    end(watch(&server, folder.path(), &[BOB, "--state", "state"])).expect_failure(1, &words);
    for words in [
        "has no /events; it needs a nisd node",
        "event message: its data are not JSON",
        "event message: its id is too long or not plain ASCII",
    ] {
        end(watch(&server, folder.path(), &[BOB])).expect_failure(1, &[words]);
    }
    run(["watch", BOB, SINK_ON_MAINNET]).expect_failure(2, &["belongs to mainnet, but testnet is required"]);
    run(["watch", &BOB[1..]]).expect_failure(2, &["39 characters"]);
    run(["watch", BOB, "--kinds", "payments"]).expect_failure(2, &["transaction, block, unconfirmed, left"]);
    run(["watch", BOB, "--kinds", "block,left"]).expect_failure(2, &["--kinds left needs --confirmations 0"]);
    run(["watch", BOB, "--node", "https://a"]).expect_failure(2, &["https is not supported"]);
}
