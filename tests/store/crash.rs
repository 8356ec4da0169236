//! `kill -9` during an import, a reindex, harvesting with announcements, and the creation of a private network: nothing
//! that was reported is lost, and nothing partial is kept. (The system outlives the process here, so power cuts are not
//! covered.)
//!
//! `NISD_CRASHES` sets the number of crashes (default 5), `NISD_SEED` repeats a run.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::common::daemon::{Node, Process, nisd, run};
use crate::common::http::{Client, post};
use crate::common::private_network::{Genesis, address, key_pair, now, private_key, transfer};
use crate::common::{Random, from_environment, print_notice, recorded};
use nisd::codec::SigningForm;
use nisd::model::Amount;
use tempfile::TempDir;

/// Default number of crashes.
const CRASHES: u32 = 5;
/// Interval between requests for the height of a running node.
const POLL_INTERVAL: Duration = Duration::from_millis(3);

/// A chain to import.
struct Chain {
    config: PathBuf,
    blocks: PathBuf,
}

/// A store that is crashed repeatedly.
struct CrashedStore {
    _folder: TempDir,
    data: PathBuf,
    /// The greatest height that was reported as committed.
    reported: u64,
}

impl CrashedStore {
    fn new() -> CrashedStore {
        let folder = tempfile::tempdir().expect("a folder");
        CrashedStore { data: folder.path().join("store"), _folder: folder, reported: 0 }
    }
}

/// Returns the number of crashes and the source of their random times.
fn crash_plan() -> (u32, Random) {
    let crashes = from_environment("NISD_CRASHES").unwrap_or(CRASHES);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let seed = from_environment("NISD_SEED").unwrap_or(now);
    print_notice(&format!("{crashes} crashes, NISD_SEED={seed}"));
    (crashes, Random(seed))
}

fn up_to(random: &mut Random, most: Duration) -> Duration {
    Duration::from_micros(random.next() % most.as_micros().max(1) as u64)
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// Returns the arguments of an import into `data`.
fn import<'a>(chain: &'a Chain, data: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let start = ["import", "--config", path(&chain.config), "--data", path(data)];
    start.iter().chain(more).copied().chain([path(&chain.blocks)]).collect()
}

/// Returns the height and the digest of a store; height 0 if it has no chain yet.
fn digest(data: &Path) -> (u64, String) {
    let ended = run(["digest", "--data", path(data)]);
    if ended.code == Some(1) && ended.stderr.contains("no chain in the data folder") {
        return (0, String::new());
    }
    let line = ended.expect_success().text();
    let (height, digest) = line.trim_end().split_once(' ').expect("a height and a digest");
    (height.parse().expect("a height"), digest.to_owned())
}

/// Kills `nisd import` after `delay`.
fn crash_import(chain: &Chain, victim: &mut CrashedStore, delay: Duration) {
    let mut process = Process::start(nisd(import(chain, &victim.data, &["--log", "debug"])));
    std::thread::sleep(delay);
    process.kill();
    for line in process.wait_with_timeout(Duration::from_secs(10)).stderr.lines() {
        let told = line.split_once("committed up to height ").and_then(|(_, height)| height.parse().ok());
        victim.reported = victim.reported.max(told.unwrap_or(0));
    }
}

/// Kills `nisd run --import` after `delay`; until then it answers requests.
fn crash_run(chain: &Chain, victim: &mut CrashedStore, delay: Duration) {
    let (config, data, blocks) = (path(&chain.config), path(&victim.data), path(&chain.blocks));
    let mut node = Node::start(["--config", config, "--data", data, "--import", blocks]);
    let mut client = Client::connect(node.http);
    let start = Instant::now();
    while start.elapsed() < delay {
        victim.reported = victim.reported.max(client.height());
        std::thread::sleep(POLL_INTERVAL.min(delay.saturating_sub(start.elapsed())));
    }
    node.process.kill();
}

/// Measures the duration of a whole import; returns it with the height and the digest.
fn measure(chain: &Chain) -> (Duration, u64, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("store");
    let start = Instant::now();
    run(import(chain, &data, &[])).expect_success();
    let taken = start.elapsed();
    let (height, digest) = digest(&data);
    (taken, height, digest)
}

/// Compares the states after crashes with a store that never crashed.
fn compare(chain: &Chain, found: &BTreeMap<u64, String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("store");
    for (height, after_crash) in found {
        run(import(chain, &data, &["--stop-at", &height.to_string()])).expect_success();
        assert_eq!(digest(&data), (*height, after_crash.clone()), "the state at height {height} after a crash");
    }
}

#[test]
fn a_kill_during_an_import_loses_no_committed_block() {
    let folder = recorded("chains/all-forks");
    let chain = Chain { config: folder.join("config.json"), blocks: folder.join("blocks.bin.gz") };
    let (crashes, mut random) = crash_plan();
    let (taken, tip, whole) = measure(&chain);
    print_notice(&format!("an import takes {taken:?}"));

    let mut victim = CrashedStore::new();
    let mut found = BTreeMap::new();
    for crash in 0..crashes {
        let delay = up_to(&mut random, taken);
        let runs = random.coin();
        match runs {
            true => crash_run(&chain, &mut victim, delay),
            false => crash_import(&chain, &mut victim, delay),
        }
        let (height, digest) = digest(&victim.data);
        let how = if runs { "run --import" } else { "import" };
        print_notice(&format!("crash {crash} of {how} after {delay:?}: height {height}, told {}", victim.reported));
        assert!(victim.reported <= height, "{} was told, but {height} is left", victim.reported);
        if height == tip {
            assert_eq!(digest, whole);
            victim = CrashedStore::new();
        } else if height > 0 {
            let before = found.insert(height, digest.clone());
            assert!(before.is_none_or(|before| before == digest), "two states at height {height}");
            // At random, the import now completes, or the next crash hits the same store.
            if random.coin() {
                run(import(&chain, &victim.data, &[])).expect_success();
                assert_eq!(self::digest(&victim.data), (tip, whole.clone()), "the import after crash {crash}");
                victim = CrashedStore::new();
            }
        }
    }
    run(import(&chain, &victim.data, &[])).expect_success();
    assert_eq!(digest(&victim.data), (tip, whole));
    print_notice(&format!("heights after crashes: {:?}", found.keys().collect::<Vec<_>>()));
    compare(&chain, &found);
}

#[test]
fn a_kill_during_a_reindex_leaves_a_store_and_the_next_one_completes_it() {
    let folder = recorded("chains/all-forks");
    let chain = Chain { config: folder.join("config.json"), blocks: folder.join("blocks.bin.gz") };
    let (crashes, mut random) = crash_plan();
    let victim = CrashedStore::new();
    run(import(&chain, &victim.data, &[])).expect_success();
    let whole = digest(&victim.data);
    let reindex = ["reindex", "--data", path(&victim.data)];
    let start = Instant::now();
    run(reindex).expect_success();
    let taken = start.elapsed();
    print_notice(&format!("a reindex takes {taken:?}"));
    let (mut left, mut begun) = (taken, 0);
    for crash in 0..crashes {
        let mut process = Process::start(nisd(reindex));
        // Some crashes hit the very end, where the new store replaces the old one.
        let at_the_end = random.coin();
        let delay = up_to(&mut random, if at_the_end { REPLACEMENT_WINDOW } else { left });
        while at_the_end && !process.log().contains(" blocks in ") && process.exit().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(delay);
        process.kill();
        let is_begun = victim.data.join("reindex/data.mdb").exists();
        let (when, what) =
            (if at_the_end { " from the last block" } else { "" }, if is_begun { "begun" } else { "done" });
        print_notice(&format!("crash {crash} of reindex after {delay:?}{when}: {what}"));
        assert_eq!(digest(&victim.data), whole, "what is in place after crash {crash}");
        begun += u32::from(is_begun);
        left = if is_begun { left.saturating_sub(delay) } else { taken };
        // At random, the next reindex completes it, or the next crash hits it.
        if random.coin() {
            run(reindex).expect_success();
            assert_eq!(digest(&victim.data), whole, "the reindex after crash {crash}");
            left = taken;
        }
    }
    print_notice(&format!("{begun} of {crashes} crashes came before the new store was in place"));
    run(reindex).expect_success();
    assert_eq!(digest(&victim.data), whole);
    assert!(!victim.data.join("reindex").exists());
    let checked = run(["check", "--data", path(&victim.data)]).expect_success().text();
    assert_eq!(checked.trim_end(), format!("{} {}", whole.0, whole.1));
}

/// Time range after the last block in which a crash may hit the replacement of the store.
const REPLACEMENT_WINDOW: Duration = Duration::from_millis(12);

/// Number of sending accounts; their keys have the numbers from 2 on. Key 1 harvests.
const SENDERS: u64 = 50;
/// Time range after the log line of a harvested block in which a crash may hit its processing.
const PROCESSING_WINDOW: Duration = Duration::from_millis(40);
/// Maximum time from that line to any other crash.
const BETWEEN_BLOCKS: Duration = Duration::from_millis(1_200);
/// Maximum time for a node to harvest.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Creates a network that makes a block of up to 2,000 transactions every second.
fn fast_network(folder: &Path) -> PathBuf {
    let amount = |number| Amount::whole(if number == 1 { 8_000_000_000 } else { 1_000_000 });
    let funded: Vec<_> = (1..SENDERS + 2).map(|number| (address(&key_pair(number)), amount(number))).collect();
    let limits = [("nis.maxTransactionsPerBlock", "2000"), ("nis.maxTransactions", "20000")];
    Genesis::new(now(), &funded).write_hasty(folder, &private_key(1).printed(), &limits)
}

/// Announces payments one after another until the node is gone; returns the hashes of the accepted ones.
fn announce_until_crash(node: SocketAddr, first: u64) -> Vec<String> {
    let mut accepted = Vec::new();
    let mut stream = TcpStream::connect(node).expect("a connection");
    let mut answers = BufReader::new(stream.try_clone().expect("a connection"));
    let senders: Vec<_> = (2..SENDERS + 2).map(key_pair).collect();
    let recipient = address(&key_pair(1));
    for (number, sender) in (first..).zip(senders.iter().cycle()) {
        let payment = transfer(sender, recipient, Amount(number), Amount(50_000), now());
        let data = hex::encode(payment.to_bytes(SigningForm::NonVerifiable));
        let body = format!(r#"{{"data":"{data}","signature":"{}"}}"#, payment.signature.expect("signed"));
        let sent = stream.write_all(post("/transaction/announce", &body).as_bytes());
        match sent.and_then(|()| next_body(&mut answers)) {
            Ok(answer) if answer.contains("\"SUCCESS\"") => accepted.push(payment.hash().to_string()),
            // The mempool already holds enough for ten blocks.
            Ok(answer) => assert!(answer.contains("CACHE_TOO_FULL"), "{answer}"),
            Err(_) => break,
        }
    }
    accepted
}

/// Reads the body of the next response.
fn next_body(answers: &mut impl BufRead) -> io::Result<String> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if answers.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap_or(0),
            Some(_) => {}
            None if line == "\r\n" => break,
            None => {}
        }
    }
    let mut body = vec![0; length];
    answers.read_exact(&mut body)?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// What clients were told before a crash and must find after it.
#[derive(Default)]
struct ReportedState {
    height: u64,
    /// The tip.
    block: String,
    /// A payment and the block that contains it.
    payment: Option<(String, u64)>,
}

impl ReportedState {
    fn query(client: &mut Client, accepted: &[String]) -> ReportedState {
        let height = client.height();
        let block = client.block(height).text().to_owned();
        let payment = accepted.iter().rev().find_map(|hash| {
            let answer = client.get(&format!("/transaction/get?hash={hash}"));
            let height = (answer.status == 200).then(|| answer.json()["meta"]["height"].as_u64())??;
            Some((hash.clone(), height))
        });
        ReportedState { height, block, payment }
    }

    fn check_kept(&self, client: &mut Client) {
        if self.height > 0 {
            assert!(client.height() >= self.height);
            assert_eq!(client.block(self.height).text(), self.block);
        }
        if let Some((hash, height)) = &self.payment {
            let answer = client.get(&format!("/transaction/get?hash={hash}"));
            assert_eq!(answer.json()["meta"]["height"], *height, "{answer:?}");
        }
    }
}

#[test]
fn a_kill_during_harvesting_and_announcing_loses_no_published_block() {
    let (crashes, mut random) = crash_plan();
    let folder = tempfile::tempdir().expect("a folder");
    let config = fast_network(folder.path());
    let (config, data) = (path(&config), folder.path().join("store"));
    let (mut told, mut announced) = (ReportedState::default(), 0);
    for crash in 0..crashes {
        let mut node = Node::start(["--config", config]);
        let mut client = Client::connect(node.http);
        told.check_kept(&mut client);
        let (address, first) = (node.http, 1 + announced);
        let announcing = std::thread::spawn(move || announce_until_crash(address, first));
        // The first block of this run, some more, and then the one that the crash hits.
        let blocks = 1 + random.below(3);
        let start = Instant::now();
        while node.process.log().matches("harvested block").count() < blocks {
            told.height = told.height.max(client.height());
            assert!(start.elapsed() < MAX_WAIT, "no blocks are made");
            std::thread::sleep(POLL_INTERVAL);
        }
        let while_taken = random.coin();
        let delay = up_to(&mut random, if while_taken { PROCESSING_WINDOW } else { BETWEEN_BLOCKS });
        std::thread::sleep(delay);
        told.height = told.height.max(client.height());
        node.process.kill();
        let accepted = announcing.join().expect("a client");
        announced += accepted.len() as u64;

        let (height, digest) = digest(&data);
        assert!(told.height <= height, "{} was told, but {height} is left", told.height);
        let checked = run(["check", "--data", path(&data)]).expect_success().text();
        assert_eq!(checked.trim_end(), format!("{height} {digest}"));
        print_notice(&format!(
            "crash {crash}, {delay:?} after a block was made: height {height}, told {}, {} payments accepted",
            told.height,
            accepted.len()
        ));
        // What is on the chain now must stay there.
        let mut node = Node::start(["--config", config]);
        told = ReportedState::query(&mut Client::connect(node.http), &accepted);
        node.process.kill();
    }
    let node = Node::start(["--config", config]);
    let mut client = Client::connect(node.http);
    told.check_kept(&mut client);
    let start = Instant::now();
    while client.height() < told.height + 2 {
        assert!(start.elapsed() < MAX_WAIT, "the chain does not go on");
        std::thread::sleep(POLL_INTERVAL);
    }
    print_notice(&format!("{announced} payments were accepted in all, and the chain goes on above {}", told.height));
}

#[test]
fn a_kill_during_the_creation_of_a_private_network_is_recovered() {
    let (crashes, mut random) = crash_plan();
    for _ in 0..crashes {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("devnet");
        let ports = ["run", "--http-port", "0", "--websocket-port", "0", "--bind", "127.0.0.1", "--data", path(&data)];
        let mut process = Process::start(nisd(ports));
        let delay = up_to(&mut random, Duration::from_millis(25));
        std::thread::sleep(delay);
        process.kill();
        let mut files: Vec<_> =
            std::fs::read_dir(&data).into_iter().flatten().flatten().map(|one| one.file_name()).collect();
        files.sort();
        print_notice(&format!("killed after {delay:?}, which left {files:?}"));
        let node = Node::start(["--data", path(&data)]);
        assert!(Client::connect(node.http).height() >= 1);
        let shown = run(["devnet", "show", "--data", path(&data)]).expect_success().text();
        assert!(shown.contains("WORTHLESS") && shown.contains("alice"), "{shown}");
    }
}
