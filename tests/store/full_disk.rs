//! A full disk, a read-only disk, and a limited address space: the node reports it, answers from what it has, and
//! continues by itself when there is space.
//!
//! The disks are small ones in memory, mounted in a namespace of their own (`unshare`); where that is not allowed, the
//! tests are skipped with a notice.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::daemon::{Node, Process, nisd, wait_for};
use crate::common::data_folder::{ChainFiles, DataFolder, hasty_network, text};
use crate::common::http::Client;
use crate::common::node_network::announcement;
use crate::common::private_network::{address, key_pair, now, transfer};
use crate::common::skip;
use nisd::model::Amount;
use tempfile::TempDir;

/// Maximum run time of a script.
const MAX_WAIT: Duration = Duration::from_secs(240);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Log text of a node on a full disk.
const FULL: &str = "cannot write in the data folder";
const RECOVERED: &str = "the store works again";

/// Mounts the disk, resizes it whenever the file `size` gives a new size (`used`: no byte is left), and executes the
/// command. It watches the file for as long as a script may run.
const MOUNTED: &str = r#"
mount -t tmpfs -o size="$SIZE" nisd "$DISK" || exit 99
for _ in $(seq 12000); do
    sleep 0.02
    [ -e "$SIGNALS" ] || exit
    [ -e "$SIGNALS/size" ] || continue
    size=$(cat "$SIGNALS/size")
    [ "$size" != used ] || size=$(df -k --output=used "$DISK" | tail -n 1 | tr -d ' ')k
    mount -o remount,size="$size" "$DISK" && rm "$SIGNALS/size"
done </dev/null >/dev/null 2>&1 &
exec "$@"
"#;

/// A disk of its own.
struct Disk {
    folder: TempDir,
}

impl Disk {
    /// Creates a mount point, if mounting is possible.
    fn new() -> Option<Disk> {
        let may_mount =
            Command::new("unshare").args(["-rm", "sh", "-c", "mount -t tmpfs -o size=1m nisd /mnt"]).status();
        if !may_mount.is_ok_and(|status| status.success()) {
            skip("no disk can be mounted here");
            return None;
        }
        let disk = Disk { folder: tempfile::tempdir().expect("a folder") };
        for name in ["disk", "signals"] {
            std::fs::create_dir(disk.folder.path().join(name)).expect("a folder");
        }
        Some(disk)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a folder on the disk as an argument.
    fn data(&self) -> String {
        text(&self.path("disk/store")).to_owned()
    }

    /// Wraps a command so that the disk is mounted for it alone.
    fn mounted(&self, size: &str, command: &Command) -> Command {
        let mut inside = Command::new("unshare");
        inside.args(["-rm", "bash", "-c", MOUNTED, "bash"]).arg(command.get_program()).args(command.get_args());
        inside.env("SIZE", size).env("DISK", self.path("disk")).env("SIGNALS", self.path("signals"));
        inside.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        inside
    }

    /// Resizes the mounted disk.
    fn resize(&self, size: &str) {
        let (new, file) = (self.path("new"), self.path("signals/size"));
        std::fs::write(&new, size).expect("a file");
        std::fs::rename(new, &file).expect("a file");
        wait_for("another size of the disk", || (!file.exists()).then_some(()));
    }
}

fn count(node: &Node, words: &str) -> usize {
    node.process.log().matches(words).count()
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn an_import_waits_for_space_on_a_full_disk_and_continues() {
    let Some(disk) = Disk::new() else { return };
    let (tiny, data) = (ChainFiles::of("tiny"), disk.data());
    let reference = DataFolder::full(&tiny);
    let whole = tiny.node(&reference.path(), &[]);
    let mut client = Client::connect(whole.http);
    let (height, last) = (client.height(), client.get("/chain/last-block").text().to_owned());

    let arguments = ["--config", text(&tiny.config), "--data", &data, "--import", text(&tiny.blocks)];
    let node = Node::from_command(disk.mounted("240k", &Node::command(arguments)));
    wait_for("a full disk", || (count(&node, FULL) > 0).then_some(()));
    let mut client = Client::connect(node.http);
    let (stuck, begun) = (client.height(), Instant::now());
    assert!(stuck < height, "all {height} blocks fit");
    while begun.elapsed() < Duration::from_secs(2) {
        let asked = Instant::now();
        assert_eq!(client.height(), stuck);
        assert!(asked.elapsed() < Duration::from_millis(500), "an answer took {:?}", asked.elapsed());
        std::thread::sleep(POLL_INTERVAL);
    }
    let log = node.process.log();
    assert_eq!(count(&node, FULL), 1, "it is logged once:\n{log}");
    assert!(log.contains(&data) && log.contains("MiB are free") && log.contains("free some space"), "{log}");
    disk.resize("64m");
    wait_for("the rest of the chain", || (client.height() == height).then_some(()));
    assert_eq!(client.get("/chain/last-block").text(), last);
    wait_for("the message about it", || (count(&node, RECOVERED) > 0).then_some(()));
    assert_eq!(count(&node, RECOVERED), 1);
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn a_harvester_waits_for_space_on_a_full_disk_and_loses_no_transaction() {
    const SENDERS: u64 = 40;
    let Some(disk) = Disk::new() else { return };
    // The disk, and with it the secret of the node, is seen by the node alone.
    let config = hasty_network(disk.folder.path(), SENDERS, &[("nem.useDosFilter", "false")]);
    let arguments = ["--config", text(&config), "--data", &disk.data()];
    let node = Node::from_command(disk.mounted("64m", &Node::command(arguments)));
    let mut client = Client::connect(node.http);
    let mut announced = Vec::new();
    let mut announce = |client: &mut Client| {
        for sender in 2..SENDERS + 2 {
            let amount = Amount(announced.len() as u64);
            let payment = transfer(&key_pair(sender), address(&key_pair(1)), amount, Amount(50_000), now());
            let answer = client.post("/transaction/announce", &announcement(&payment));
            assert!(answer.text().contains("SUCCESS"), "{answer:?}");
            announced.push(payment.hash().to_string());
        }
    };
    wait_for("blocks", || (client.height() > 2).then_some(()));
    disk.resize("used");
    // The store has some free pages of its own.
    let begun = Instant::now();
    while count(&node, FULL) == 0 {
        announce(&mut client);
        assert!(begun.elapsed() < MAX_WAIT, "the disk is never full");
        std::thread::sleep(Duration::from_millis(500));
    }
    let (stuck, said) = (client.height(), count(&node, "harvested block"));
    announce(&mut client);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        assert_eq!(client.height(), stuck);
        std::thread::sleep(POLL_INTERVAL);
    }
    assert_eq!(count(&node, "harvested block"), said, "no block is logged as harvested before its commit");
    assert_eq!(count(&node, FULL), 1, "it is logged once:\n{}", node.process.log());
    disk.resize("64m");
    wait_for("further blocks", || (client.height() > stuck).then_some(()));
    for hash in announced {
        let is_confirmed = || (client.get(&format!("/transaction/get?hash={hash}")).status == 200).then_some(());
        wait_for("the transaction", is_confirmed);
    }
    wait_for("the message about it", || (count(&node, RECOVERED) > 0).then_some(()));
    assert_eq!(count(&node, RECOVERED), 1);
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn a_node_that_starts_on_a_full_disk_writes_the_secret_of_local_requests_once_there_is_space() {
    const SCRIPT: &str = r#"
"$1" import --config "$3" --data "$2" "$4"
mount -o remount,size=$(df -k --output=used "$DISK" | tail -n 1 | tr -d ' ')k "$DISK"
exec "$1" run --bind 127.0.0.1 --http-port 0 --websocket-port 0 --config "$3" --data "$2"
"#;
    const FAILED: &str = "the secret of local requests cannot be written";
    const WRITTEN: &str = "the secret of local requests is";
    let Some(disk) = Disk::new() else { return };
    let (tiny, mut shell) = (ChainFiles::of("tiny"), Command::new("bash"));
    shell.args(["-ec", SCRIPT, "bash"]).arg(nisd([""; 0]).get_program());
    shell.arg(disk.data()).args([tiny.config, tiny.blocks]);
    let node = Node::from_command(disk.mounted("64m", &shell));
    assert_eq!([FAILED, WRITTEN].map(|words| count(&node, words)), [1, 0], "{}", node.process.log());
    disk.resize("64m");
    wait_for("the secret", || (count(&node, WRITTEN) > 0).then_some(()));
    assert_eq!([FAILED, WRITTEN].map(|words| count(&node, words)), [1, 1], "{}", node.process.log());
}

/// Runs a shell script on a disk of this size. Its arguments are the program, the data folder, and the configuration and
/// the blocks of a chain, which it imports first; then it prints the digest. Returns the lines that it prints.
fn in_a_shell(disk: &Disk, size: &str, chain: &str, script: &str) -> (Vec<String>, String) {
    const IMPORT: &str = "\"$1\" import --config \"$3\" --data \"$2\" \"$4\"; \"$1\" digest --data \"$2\"\n";
    let (program, chain) = (nisd([""; 0]).get_program().to_owned(), ChainFiles::of(chain));
    let mut shell = Command::new("bash");
    shell.args(["-ec", &[IMPORT, script].concat(), "bash"]).arg(program);
    shell.arg(disk.data()).args([chain.config, chain.blocks]);
    let ended = Process::start(disk.mounted(size, &shell)).wait_with_timeout(MAX_WAIT).expect_success();
    (ended.text().lines().map(str::to_owned).collect(), ended.stderr)
}

const READ_COMMANDS: &str = r#"
for command in digest check; do "$1" $command --data "$2"; done
"$1" dump --data "$2" | wc -l
"$1" export --data "$2" --output - >/dev/null && echo exported
"#;

#[test]
#[ignore = "slow: a program on a real disk"]
fn a_store_on_a_read_only_or_full_disk_can_be_read() {
    let Some(disk) = Disk::new() else { return };
    let read_only = "mount -o remount,ro \"$DISK\"\n";
    // A copy has no reader table, and there is no space to create one.
    let copy_on_full_disk = "rm \"$2/lock.mdb\"\n\
        mount -o remount,size=$(df -k --output=used \"$DISK\" | tail -n 1 | tr -d ' ')k \"$DISK\"\n";
    for script in [read_only, copy_on_full_disk] {
        let (lines, _) = in_a_shell(&disk, "64m", "tiny", &[script, READ_COMMANDS].concat());
        assert!(lines.len() == 5 && lines[1] == lines[0] && lines[2] == lines[0], "{script}: {lines:?}");
        assert!(lines[3].trim().parse::<u32>().is_ok_and(|dumped| dumped > 0), "{script}: {lines:?}");
        assert_eq!(lines[4], "exported", "{script}");
    }
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn a_reindex_reports_the_needed_space_and_does_not_start_with_less() {
    let Some(disk) = Disk::new() else { return };
    let script = r#"
mount -o remount,size=$(( $(df -k --output=used "$DISK" | tail -n 1) + 200 ))k "$DISK"
if "$1" reindex --data "$2"; then exit 5; fi
[ ! -e "$2/reindex" ]; "$1" digest --data "$2"
mount -o remount,size=64m "$DISK"
"$1" reindex --data "$2"; "$1" digest --data "$2"
"#;
    let (lines, log) = in_a_shell(&disk, "64m", "tiny", script);
    assert!(lines.len() == 3 && lines[1] == lines[0] && lines[2] == lines[0], "{lines:?}");
    assert!(log.contains("needs about") && log.contains("0 MiB are free"), "{log}");
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn a_disk_that_fills_up_during_a_reindex_ends_it_and_the_next_one_succeeds() {
    let Some(disk) = Disk::new() else { return };
    // There is just enough space, and something else uses it once the new store exists.
    let script = r#"
head -c $(($(stat -f -c '%a * %S' "$DISK") - 25000000)) /dev/zero >"$DISK/filler"
"$1" reindex --data "$2" & reindex=$!
while [ ! -e "$2/reindex/data.mdb" ]; do sleep 0.01; done
cat /dev/zero >>"$DISK/filler" 2>/dev/null || true
if wait $reindex; then exit 5; fi
"$1" digest --data "$2"
rm "$DISK/filler"
"$1" reindex --data "$2"; "$1" digest --data "$2"
[ ! -e "$2/reindex" ]
"#;
    let (lines, log) = in_a_shell(&disk, "256m", "all-forks", script);
    assert!(lines.len() == 3 && lines[1] == lines[0] && lines[2] == lines[0], "{lines:?}");
    assert!(log.contains(FULL), "{log}");
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn a_small_address_space_gives_a_smaller_map_with_a_warning() {
    let (tiny, folder) = (ChainFiles::of("tiny"), DataFolder::new());
    let limited = |kib: u32| {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("ulimit -v {kib}; exec \"$@\""), "bash"]).arg(nisd([""; 0]).get_program());
        shell.args(["import", "--config", text(&tiny.config), "--data", text(&folder.path()), text(&tiny.blocks)]);
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Process::start(shell).wait_with_timeout(MAX_WAIT)
    };
    limited(60_000).expect_failure(1, &["ulimit -v", "nisd.mapSize"]);
    let ended = limited(2_000_000).expect_success();
    assert!(ended.stderr.contains("nisd.mapSize"), "{}", ended.stderr);
    assert_eq!(folder.digest(), DataFolder::full(&tiny).digest());
}
