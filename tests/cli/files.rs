//! Files that are not what they should be: pipes, links, other owners, full disks; and what the program creates.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::daemon::{
    CommandOutput, Node, Process, assert_contains, closed_port, nisd, open_terminal, run, wait_for,
};
use crate::common::data_folder::{ChainFiles, DataFolder, text};
use crate::common::{folder_of_a_service, skip};
use socket2::SockRef;
use tempfile::TempDir;

/// Files of a data folder, as nisd names them.
const OWN: [&str; 4] = ["data.mdb", "lock.mdb", "nisd.lock", "settled"];

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

fn tiny() -> ChainFiles {
    ChainFiles::of("tiny")
}

/// Runs a command in a shell after `prefix`, such as a limit.
#[track_caller]
fn run_after(prefix: &str, arguments: &[&str]) -> CommandOutput {
    let program = nisd([] as [&str; 0]).get_program().to_owned();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{prefix}; exec \"$@\""), "sh"]).arg(program).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Process::start(command).wait_with_timeout(Duration::from_secs(120))
}

#[test]
fn a_pipe_in_place_of_a_file_is_named_and_nobody_waits_for_it() {
    let folder = DataFolder::new();
    let fifo = folder.beside("fifo");
    pipe(&fifo);
    let path = text(&fifo);
    for arguments in [
        &["run", "--config", path][..],
        &["config", "check", path],
        &["digest", "--data", "x", "--config", path],
        &["key", "inspect", path],
        &["address", path],
        &["apostille", "verify", path, "--transaction", &"00".repeat(32)],
        &["announce", path],
        &["watch", "--addresses-file", path],
        &["watch", "--state", path],
        &["run", "--config", text(&tiny().config), "--nemesis", path],
        &["run", "--config", text(&tiny().config), "--data", "x", "--import", path],
    ] {
        let ended = run(arguments);
        assert_ne!(ended.code, Some(0), "{arguments:?}");
        assert!(
            ended.stderr.contains(path) && ended.stderr.contains("it is a pipe"),
            "{arguments:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn an_import_from_a_pipe_says_that_it_waits_for_a_writer() {
    let (tiny, folder) = (tiny(), DataFolder::new());
    let (fifo, data) = (folder.beside("fifo"), folder.path());
    pipe(&fifo);
    let arguments = ["import", "--config", text(&tiny.config), "--data", text(&data), text(&fifo)];
    let writer = format!("(cat '{}' > '{}' &)", text(&tiny.blocks), text(&fifo));
    let imported = run_after(&writer, &arguments).expect_success();
    assert_contains(&imported.stderr, &["fifo is a pipe: waiting until another program writes blocks to it"]);
    let other = folder.beside("other");
    let standard_input = ["import", "--config", text(&tiny.config), "--data", text(&other), "-"];
    let piped = run_after(&format!("{writer}; exec < '{}'", text(&fifo)), &standard_input).expect_success();
    let end = |log: &str| log.split_once("the chain is at height ").map(|(_, height)| height.to_owned());
    assert_eq!((end(&piped.stderr), end(&piped.stderr).is_some()), (end(&imported.stderr), true));
    // A checkpoint needs the blocks twice.
    let checkpoint = format!("2:{}", "00".repeat(32));
    run_after(&writer, &[&arguments[..], &["--trust-below", &checkpoint]].concat())
        .expect_failure(1, &["a pipe does not allow"]);
}

#[test]
fn a_node_imports_no_pipe_and_says_what_does_before_it_makes_anything() {
    let (tiny, folder) = (tiny(), DataFolder::new());
    let (fifo, data) = (folder.beside("fifo"), folder.path());
    pipe(&fifo);
    let ended = run(["run", "--config", text(&tiny.config), "--data", text(&data), "--import", text(&fifo)]);
    ended.expect_failure(2, &["fifo: it is a pipe, not a regular file", "`nisd import` imports from a pipe"]);
    assert!(!data.exists());
}

/// Starts an import from a pipe and waits until it reads that.
fn import_from(fifo: &Path, data: &Path) -> Process {
    let process = Process::start(nisd(["import", "--config", text(&tiny().config), "--data", text(data), text(fifo)]));
    wait_for("the import", || process.log().contains("is a pipe: waiting").then_some(()));
    process
}

#[test]
fn an_import_ends_on_a_signal_while_nobody_writes_to_its_pipe() {
    let folder = DataFolder::new();
    let fifo = folder.beside("fifo");
    pipe(&fifo);
    for signal in ["TERM", "INT"] {
        let process = import_from(&fifo, &folder.path());
        process.signal(signal);
        process.wait_with_timeout(Duration::from_secs(20)).expect_failure(1, &["fifo: stopped while it was read"]);
    }
}

#[test]
fn an_import_commits_the_blocks_that_have_arrived_and_ends_on_a_signal_while_its_pipe_is_idle() {
    let (tiny, folder) = (tiny(), DataFolder::new());
    let (fifo, data) = (folder.beside("fifo"), folder.path());
    pipe(&fifo);
    let blocks = fs::read(&tiny.blocks).expect("blocks");
    // Twenty blocks, behind their lengths, and a part of the next one.
    let end =
        (0..20).fold(0, |at, _| at + 4 + u32::from_le_bytes(blocks[at..at + 4].try_into().expect("a length")) as usize);
    let process = import_from(&fifo, &data);
    let mut writer = fs::File::options().write(true).open(&fifo).expect("a pipe");
    writer.write_all(&blocks[..end + 9]).expect("a reader");
    wait_for("an empty pipe", || (rustix::io::ioctl_fionread(&writer).expect("a number") == 0).then_some(()));
    // It executes them at once, and waits for more then.
    std::thread::sleep(Duration::from_secs(1));
    process.signal("TERM");
    let ended = process.wait_with_timeout(Duration::from_secs(20));
    ended.expect_failure(1, &["stopped after height 21; the same command continues from there"]);
    drop(writer);
    assert!(folder.run("digest", &[]).expect_success().text().starts_with("21 "));
    tiny.import(&data, &[]).expect_success();
    folder.run("check", &[]).expect_success();
}

#[test]
fn a_pipe_or_link_in_place_of_a_file_of_the_store_is_named_and_changes_nothing() {
    let tiny = tiny();
    for name in OWN {
        let folder = DataFolder::with(&tiny, 3);
        let (path, victim) = (folder.path().join(name), folder.beside("victim"));
        fs::remove_file(&path).expect("a file");
        pipe(&path);
        for command in [folder.run("digest", &[]), tiny.import(&folder.path(), &[])] {
            if command.code != Some(0) {
                command.expect_failure(1, &[text(&path), "pipe"]);
            }
        }
        tiny.import(&folder.path(), &[]).expect_failure(1, &[text(&path), "pipe"]);
        fs::remove_file(&path).expect("a pipe");
        fs::write(&victim, "untouched").expect("room");
        symlink(&victim, &path).expect("a link");
        tiny.import(&folder.path(), &[]).expect_failure(1, &[text(&path), "symbolic link"]);
        assert_eq!(fs::read_to_string(&victim).expect("a file"), "untouched", "{name}");
    }
}

#[test]
fn what_a_command_writes_in_a_data_folder_is_for_its_owner_only() {
    let (tiny, folder) = (tiny(), DataFolder::new());
    let (data, copy) = (folder.path(), folder.beside("copy"));
    let (config, blocks) = (text(&tiny.config), text(&tiny.blocks));
    run_after("umask 0", &["import", "--config", config, "--data", text(&data), blocks]).expect_success();
    run_after("umask 0", &["backup", "--data", text(&data), text(&copy)]).expect_success();
    run_after("umask 0", &["reindex", "--data", text(&data)]).expect_success();
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    for path in OWN.map(|name| data.join(name)).iter().chain([&copy.join("data.mdb")]) {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
    for path in [data, copy] {
        assert_eq!(mode(&path) & 0o022, 0, "{}", path.display());
    }
}

#[test]
fn what_root_writes_in_the_store_of_another_user_stays_that_users() {
    let folder = DataFolder::full(&tiny());
    if fs::metadata(folder.path()).expect("a folder").uid() != 0 {
        skip("only root can give files away");
        return;
    }
    let data = folder.path();
    let entries = || fs::read_dir(&data).expect("a folder").map(|entry| entry.expect("an entry").path());
    for path in entries().chain([data.clone()]) {
        chown(path, Some(1234), Some(1234)).expect("root");
    }
    folder.run("reindex", &[]).expect_success();
    folder.run("rollback", &["--to", "3"]).expect_success();
    tiny().import(&data, &[]).expect_success();
    for path in entries() {
        assert_eq!(fs::metadata(&path).expect("a file").uid(), 1234, "{}", path.display());
    }
}

#[test]
fn a_store_that_another_user_may_not_enter_is_not_taken_for_a_missing_one() {
    let folder = DataFolder::full(&tiny());
    let data = folder.path();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("an own folder");
    let as_other = |arguments: &[&str]| {
        let mut command = nisd(arguments);
        command.uid(1234).gid(1234);
        Process::start(command).wait_with_timeout(Duration::from_secs(60))
    };
    let mut version = nisd(["--version"]);
    if !version.uid(1234).status().is_ok_and(|status| status.success()) {
        skip("only root can run a program as another user, who may run this one");
        return;
    }
    let (data, file) = (text(&data), folder.beside("blocks"));
    for command in [
        &["dump", "--data", data][..],
        &["check", "--data", data],
        &["digest", "--data", data],
        &["export", "--data", data, "--output", text(&file)],
        &["reindex", "--data", data],
        &["rollback", "--data", data, "--to", "3"],
        &["status", "--data", data],
        &["peers", "--data", data],
        &["devnet", "show", "--data", data],
        &["run", "--data", data, "--http-port", "0", "--websocket-port", "0"],
    ] {
        let ended = as_other(command);
        assert_ne!(ended.code, Some(0), "{command:?}");
        let said = ended.stderr;
        assert!(said.contains("Permission denied") || said.contains("not allowed"), "{command:?}: {said}");
        assert!(!said.contains("there is no") && !said.contains("There is no"), "{command:?}: {said}");
    }
}

#[test]
fn a_link_in_the_place_of_a_rebuild_is_removed_and_not_followed() {
    let (folder, tiny) = (DataFolder::full(&tiny()), tiny());
    let victim = DataFolder::with(&tiny, 5);
    symlink(victim.path(), folder.path().join("reindex")).expect("a link");
    let before = victim.digest();
    folder.run("reindex", &[]).expect_success();
    assert_eq!((victim.digest(), folder.path().join("reindex").is_symlink()), (before, false));
    assert_eq!(folder.digest(), DataFolder::full(&tiny).digest());
}

#[test]
fn a_data_folder_that_is_a_link_to_nothing_names_its_target() {
    let folder = DataFolder::new();
    let target = folder.beside("missing");
    symlink(&target, folder.path()).expect("a link");
    for ended in [tiny().import(&folder.path(), &[]), folder.run("digest", &[]), folder.run("status", &[])] {
        ended.expect_failure(1, &[text(&target), "does not exist"]);
    }
    assert!(!target.exists());
}

#[test]
fn a_limit_on_the_size_of_files_is_named_and_loses_nothing() {
    let (tiny, folder) = (tiny(), DataFolder::new());
    let (data, config, blocks) = (folder.path(), text(&tiny.config), text(&tiny.blocks));
    let import = ["import", "--config", config, "--data", text(&data), blocks];
    let mut has_failed = false;
    for kilobytes in [1, 4, 32, 84, 100, 150, 200, 300] {
        let blocks_of_512 = 2 * kilobytes;
        let ended = run_after(&format!("ulimit -f {blocks_of_512}"), &import);
        if ended.code != Some(0) {
            has_failed = true;
            let ended = ended.expect_failure(1, &["ulimit -f", &format!("{} bytes", 1024 * kilobytes)]);
            assert!(!ended.stderr.contains("may be failing"), "{kilobytes} KiB: {}", ended.stderr);
        }
    }
    assert!(has_failed);
    run(import).expect_success();
    assert_eq!(folder.digest(), DataFolder::full(&tiny).digest());
}

#[test]
fn an_export_never_replaces_a_file_of_a_store() {
    let folder = DataFolder::full(&tiny());
    let (data, before) = (folder.path(), folder.data_file());
    let [link, other] = ["link", "other"].map(|name| folder.beside(name));
    symlink(data.join("data.mdb"), &link).expect("a link");
    symlink(&data, &other).expect("a link");
    for output in [data.join("data.mdb"), data.join("blocks.bin"), other.join("lock.mdb"), link] {
        folder.run("export", &["-o", text(&output)]).expect_failure(2, &[text(&output), "is the folder of a store"]);
        assert!(folder.data_file() == before, "{}", output.display());
    }
    // Another name of the file is only a name.
    let name = folder.beside("name");
    fs::hard_link(data.join("data.mdb"), &name).expect("a name");
    folder.run("export", &["-o", text(&name)]).expect_success();
    assert!(folder.data_file() == before);
}

#[test]
fn an_earlier_export_stays_until_the_new_one_is_complete() {
    let (tiny, folder) = (tiny(), DataFolder::new());
    tiny.import(&folder.path(), &[]).expect_success();
    let (output, whole) = (folder.beside("blocks.bin"), fs::read(&tiny.blocks).expect("the chain"));
    folder.run("export", &["--to", "3", "-o", text(&output)]).expect_success();
    let earlier = fs::read(&output).expect("an export");
    assert!(whole.starts_with(&earlier) && whole.len() > 2 * earlier.len());
    let data = folder.path();
    let export = ["export", "--data", text(&data), "-o", text(&output)];
    run_after(&format!("ulimit -f {}", whole.len() / 1024), &export).expect_failure(1, &[text(&output), "ulimit -f"]);
    assert!(fs::read(&output).expect("an export") == earlier);
    assert_eq!(fs::read_dir(folder.0.path()).expect("a folder").count(), 2, "an unfinished export stays behind");
    run(export).expect_success();
    assert!(fs::read(&output).expect("an export") == whole);
}

#[test]
fn an_export_to_a_pipe_reaches_its_reader() {
    let (tiny, folder) = (tiny(), DataFolder::new());
    tiny.import(&folder.path(), &[]).expect_success();
    let (fifo, received, data) = (folder.beside("fifo"), folder.beside("received"), folder.path());
    pipe(&fifo);
    let reader = format!("cat '{}' > '{}' & trap 'wait' EXIT", text(&fifo), text(&received));
    let program = nisd([] as [&str; 0]).get_program().to_owned();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{reader}; \"$@\""), "sh"]).arg(program);
    command.args(["export", "--data", text(&data), "-o", text(&fifo)]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Process::start(command).wait_with_timeout(Duration::from_secs(120)).expect_success();
    assert!(fs::read(&received).expect("what the reader has") == fs::read(&tiny.blocks).expect("the chain"));
}

#[test]
fn the_second_signal_ends_a_command_that_waits_for_a_pipe() {
    let (tiny, folder) = (tiny(), DataFolder::new());
    tiny.import(&folder.path(), &["--stop-at", "2"]).expect_success();
    let fifo = folder.beside("fifo");
    pipe(&fifo);
    let mut process = Process::start(nisd(["export", "--data", text(&folder.path()), "-o", text(&fifo)]));
    let status = format!("/proc/{}/status", process.id());
    wait_for("handlers of signals", || {
        let status = fs::read_to_string(&status).expect("a process");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("its signals");
        (u64::from_str_radix(caught.trim(), 16).expect("a number") & (1 << 1) != 0).then_some(())
    });
    process.signal("INT");
    std::thread::sleep(Duration::from_millis(300));
    assert!(process.exit().is_none(), "the first one is for the command");
    process.signal("INT");
    assert_eq!(process.wait_with_timeout(Duration::from_secs(20)).code, Some(130));
}

#[test]
fn a_file_that_cannot_be_written_is_named_with_the_cause_and_advice() {
    let folder = DataFolder::new();
    let (key, state) = (folder.beside("new.key"), folder.beside("state"));
    let url = format!("http://{}", closed_port());
    for arguments in [&["key", "new", "-o", text(&key)][..], &["watch", "--node", &url, "--state", text(&state)]] {
        let ended = run_after("ulimit -f 0", arguments);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert_contains(&ended.stderr, &[arguments[arguments.len() - 1], "File too large", "ulimit -f"]);
        assert!(!ended.stderr.contains("at path"), "{}", ended.stderr);
    }
    let left = fs::read_dir(folder.0.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["state.lock"], "temporary files stay behind");
}

#[test]
fn a_first_start_that_fails_leaves_no_part_of_a_store() {
    let (tiny, folder) = (tiny(), DataFolder::new());
    let data = folder.path();
    fs::create_dir(&data).expect("a folder");
    // There is room for this, and for the first one of the two pages with which a store begins.
    fs::write(data.join("lock.mdb"), [0; 32 << 10]).expect("room");
    let import = ["import", "--config", text(&tiny.config), "--data", text(&data), text(&tiny.blocks)];
    run_after("ulimit -f 8", &import).expect_failure(1, &["data.mdb"]);
    assert!(!data.join("data.mdb").exists());
    run(import).expect_success();
}

#[test]
fn every_command_reads_the_name_of_a_data_folder_literally() {
    let (tiny, folder) = (tiny(), DataFolder::new());
    let names = [OsStr::new("x%h"), OsStr::new("sp "), OsStr::new("a|b"), OsStr::from_bytes(b"\xff\xfe")];
    let copied = |data: &Path| {
        let mut command = nisd(["import", "--stop-at", "3", "--config", text(&tiny.config), text(&tiny.blocks)]);
        command.arg("--data").arg(data);
        Process::start(command).wait_with_timeout(Duration::from_secs(120)).expect_success();
        let mut command = nisd(["status", "--data"]);
        command.arg(data).args(["--set", "nem.httpPort=1"]);
        let shown = Process::start(command).wait_with_timeout(Duration::from_secs(120)).expect_success().text();
        assert_contains(&shown, &["height 3"]);
        digest_of(data)
    };
    for name in names {
        let data = folder.0.path().join(name);
        assert!(copied(&data).starts_with("3 "), "{name:?}");
        fs::remove_dir_all(&data).expect("a folder of exactly this name");
        assert_eq!(fs::read_dir(folder.0.path()).expect("a folder").count(), 0, "{name:?}");
    }
    // A private network, too.
    let data = folder.beside("x%h");
    drop(Node::start(["--data", text(&data)]));
    assert!(data.join("data.mdb").exists());
    run(["devnet", "show", "--data", text(&data)]).expect_success();

    fn digest_of(data: &Path) -> String {
        let mut command = nisd(["digest", "--data"]);
        command.arg(data);
        Process::start(command).wait_with_timeout(Duration::from_secs(120)).expect_success().text()
    }
}

#[test]
fn a_closed_terminal_stops_a_command_unless_it_was_told_to_go_on() {
    let url = format!("http://{}", closed_port());
    // Whoever runs the tests may ignore the signal, as `nohup` does.
    let watch = |how: &str| {
        let mut command = Command::new("env");
        command.arg(format!("--{how}-signal=HUP")).arg(nisd([] as [&str; 0]).get_program());
        command.args(["watch", "--node", &url]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = Process::start(command);
        wait_for("the first attempt", || process.log().contains("connecting again").then_some(()));
        process
    };
    let process = watch("default");
    process.signal("HUP");
    process.wait_with_timeout(Duration::from_secs(60)).expect_success();
    let mut process = watch("ignore");
    process.signal("HUP");
    let attempts = |process: &Process| process.log().matches("connecting again").count();
    let before = attempts(&process);
    wait_for("the next attempt", || (attempts(&process) > before).then_some(()));
    assert!(process.exit().is_none());
    process.signal("TERM");
    process.wait_with_timeout(Duration::from_secs(60)).expect_success();
}

#[test]
fn a_command_that_cannot_print_fails() {
    for arguments in [
        &["settings", "--file"][..],
        &["settings"],
        &["help"],
        &["--help"],
        &["run", "-h"],
        &["--version"],
        &["completions", "bash"],
        &["key", "new"],
        &["address", "TALICELCD3XPH4FFI5STGGNSNSWPOTG5E4DS2TOS"],
    ] {
        let ended = run_after("exec >/dev/full", arguments);
        ended.expect_failure(1, &["cannot write the output: No space left", "free some space"]);
    }
}

/// Returns both ends of a stream that has room for a few bytes; that of a program is non-blocking, as a parent may leave it.
fn nonblocking_stream() -> (UnixStream, OwnedFd) {
    let (ours, theirs) = UnixStream::pair().expect("a socket");
    for end in [&ours, &theirs] {
        SockRef::from(end).set_send_buffer_size(1).expect("a small one");
    }
    theirs.set_nonblocking(true).expect("a socket");
    (ours, theirs.into())
}

#[test]
fn a_command_waits_for_the_reader_of_its_output_where_that_is_non_blocking() {
    let folder = DataFolder::full(&tiny());
    let data = folder.path();
    for arguments in [
        &["help", "operating"][..],
        &["dump", "--data", text(&data)],
        &["export", "--data", text(&data), "--output", "-"],
    ] {
        let expected = run(arguments).expect_success().stdout;
        let (mut reader, output) = nonblocking_stream();
        let mut process = nisd(arguments).stdout(output).stderr(Stdio::inherit()).spawn().expect("the program starts");
        // A few bytes at a time, so that there is never room for all of it.
        let (mut bytes, mut part) = (Vec::new(), [0; 64]);
        while let count @ 1.. = reader.read(&mut part).expect("bytes") {
            bytes.extend_from_slice(&part[..count]);
        }
        assert!(process.wait().expect("a child").success(), "{arguments:?}");
        assert!(bytes == expected, "{arguments:?}: {} of {} bytes", bytes.len(), expected.len());
    }
}

#[test]
fn a_command_waits_for_its_input_where_that_is_non_blocking() {
    let (mut writer, input) = nonblocking_stream();
    let command = nisd(["announce", "-"]).stdin(input).spawn().expect("the program starts");
    // The program reads each byte before there is room for the next ones.
    (0..2_000).for_each(|_| writer.write_all(b"x").expect("a reader"));
    drop(writer);
    let ended = command.wait_with_output().expect("a child");
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && told.contains("the input is not a transaction"), "{told}");
}

#[test]
fn an_exposed_key_file_is_read_with_a_warning_that_names_its_mode() {
    let folder = DataFolder::new();
    let key = folder.file("k", "0d02bca37b877f1321e0fc339f154b6135728780e9f42e98adf73416180d67fd\n");
    let set_mode = |path: &PathBuf, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("own");
    let read_key = || run(["key", "inspect", text(&key)]).expect_success().stderr;
    for (mode, is_exposed) in [(0o600, false), (0o666, true), (0o640, true), (0o604, true)] {
        set_mode(&key, mode);
        let told = read_key();
        assert_eq!(told.contains(&format!("mode {mode:04o}")) && told.contains("chmod 600"), is_exposed, "{told}");
    }
}

#[test]
fn settings_with_a_private_key_that_every_user_can_read_are_used_with_a_warning() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("node.properties");
    fs::write(&path, format!("nis.bootKey = {}\nnem.network = testnet\n", "1".repeat(64))).expect("room");
    for (mode, is_exposed) in [(0o600, false), (0o640, false), (0o644, true), (0o666, true)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("own");
        let settings = nisd::config::load(Some(&path), Vec::new(), Some(folder.path())).expect("settings");
        let warned = settings.diagnostics.iter().any(|told| told.text.contains(&format!("mode {mode:04o}")));
        assert_eq!(warned, is_exposed, "{mode:o}: {:?}", settings.diagnostics);
        assert!(!format!("{:?}", settings.diagnostics).contains("1111"));
    }
}

#[test]
fn a_tilde_that_the_shell_has_left_is_explained() {
    run(["digest", "--data=~/x"]).expect_failure(2, &["~", "--data ~/x"]);
    run(["run", "--network", "testnet", "--data=~"]).expect_failure(2, &["~", "%h"]);
    let told = run(["key", "inspect", "--network=testnet", "--", "~/k"]);
    assert_eq!(told.code, Some(1));
    assert_contains(&run(["watch", "--state=~/none/x"]).stderr, &["`--state ~/…`"]);
}

#[test]
fn a_terminal_that_cannot_draw_gets_the_status_once() {
    let folder = DataFolder::full(&tiny());
    let (_screen, terminal) = open_terminal();
    for kind in [Some("dumb"), Some(""), None] {
        let mut command = nisd(["status", "--data", text(&folder.path())]);
        let (stdin, stdout) =
            (terminal.try_clone().expect("a descriptor"), terminal.try_clone().expect("a descriptor"));
        command.stdin(stdin).stdout(stdout).stderr(Stdio::null()).env_remove("TERM");
        if let Some(kind) = kind {
            command.env("TERM", kind);
        }
        let mut status = command.spawn().expect("the program starts");
        assert!(wait_for("the end", || status.try_wait().expect("a child")).success());
    }
}

#[test]
fn a_new_store_in_a_folder_of_the_settings_is_said_aloud() {
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().join("store");
    fs::create_dir(&data).expect("a folder");
    fs::write(data.join("known-peers"), "").expect("room");
    let tiny = tiny();
    let node = tiny.node(&data, &[]);
    let log = node.stop().stderr;
    assert_contains(&log, &["there is no store in", "but known-peers of an earlier run", "disk is mounted"]);
    let log = tiny.node(&data, &[]).stop().stderr;
    assert!(!log.contains("there is no store in"), "{log}");
}

#[test]
fn a_service_whose_store_is_elsewhere_than_that_of_run_says_so() {
    let home = folder_of_a_service();
    let mut command = nisd(["service", "--network", "testnet"]);
    command.env("HOME", home.path());
    let ended = Process::start(command).wait_with_timeout(Duration::from_secs(60)).expect_success();
    let own = home.path().join("nem/nisd/testnet");
    assert_contains(&ended.stderr, &["note: the service keeps its store in /var/lib/nisd", text(&own)]);
    assert_contains(&ended.text(), &["RequiresMountsFor=/var/lib/nisd\n"]);
    let settings = home.path().join("node.properties");
    fs::write(&settings, "nem.network = testnet\nnem.httpPort = 80\nnisd.data = /srv/nisd\n").expect("room");
    let ended = run(["service", "--config", text(&settings)]).expect_success();
    assert!(!ended.stderr.contains("note"), "{}", ended.stderr);
    assert_contains(&ended.text(), &["AmbientCapabilities=CAP_NET_BIND_SERVICE", "RequiresMountsFor=/srv/nisd\n"]);
}
