//! `kill -9` during an import, a reindex, harvesting with announcements, and the creation of a private network: nothing
//! that was reported is lost, and nothing partial is kept. (The system outlives the process here, so power cuts are not
//! covered.)
//!
//! `NISD_CRASHES` sets the number of crashes (default 5), `NISD_SEED` repeats a run.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::common::daemon::{Node, Process, nisd, run, wait_for};
use crate::common::data_folder::{ChainFiles, DataFolder, digest, hasty_network, height_and_digest, text};
use crate::common::http::{Client, post};
use crate::common::node_network::announcement;
use crate::common::private_network::{address, key_pair, now, transfer};
use crate::common::{Random, from_environment, print_notice};
use nisd::model::Amount;

/// Default number of crashes.
const CRASHES: u32 = 5;
/// Interval between requests for the height of a running node.
const POLL_INTERVAL: Duration = Duration::from_millis(3);

/// Returns the number of crashes and the source of their random times.
fn crash_plan() -> (u32, Random) {
    let crashes = from_environment("NISD_CRASHES").unwrap_or(CRASHES);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let seed = from_environment("NISD_SEED").unwrap_or(now);
    print_notice(&format!("{crashes} crashes, NISD_SEED={seed}"));
    (crashes, Random(seed))
}

fn up_to(random: &mut Random, max: Duration) -> Duration {
    Duration::from_micros(random.next() % max.as_micros().max(1) as u64)
}

/// Returns the height and the digest of a store; height 0 if it has no chain yet.
fn digest_if_any(data: &Path) -> (u64, String) {
    let ended = run(["digest", "--data", text(data)]);
    match ended.code == Some(1) && ended.stderr.contains("no chain in the data folder") {
        true => (0, String::new()),
        false => height_and_digest(ended),
    }
}

/// Kills `nisd import` after `delay`; returns the greatest height that it reported as committed.
fn crash_import(chain: &ChainFiles, data: &Path, delay: Duration) -> u64 {
    let start =
        ["import", "--config", text(&chain.config), "--data", text(data), "--log", "debug", text(&chain.blocks)];
    let mut process = Process::start(nisd(start));
    std::thread::sleep(delay);
    process.kill();
    let log = process.wait_with_timeout(Duration::from_secs(10)).stderr;
    let heights = log.lines().filter_map(|line| line.split_once("committed up to height ")?.1.parse().ok());
    heights.max().unwrap_or(0)
}

/// Kills `nisd run --import` after `delay`; returns the greatest height that it answered.
fn crash_run(chain: &ChainFiles, data: &Path, delay: Duration) -> u64 {
    let mut node = chain.node(data, &["--import", text(&chain.blocks)]);
    let mut client = Client::connect(node.http);
    let (start, mut reported) = (Instant::now(), 0);
    while start.elapsed() < delay {
        reported = client.height().max(reported);
        std::thread::sleep(POLL_INTERVAL.min(delay.saturating_sub(start.elapsed())));
    }
    node.process.kill();
    reported
}

#[test]
fn a_kill_during_an_import_loses_no_committed_block() {
    let chain = ChainFiles::of("all-forks");
    let (crashes, mut random) = crash_plan();
    let start = Instant::now();
    let (tip, whole) = DataFolder::full(&chain).digest();
    let duration = start.elapsed();
    print_notice(&format!("an import takes {duration:?}"));

    let (mut folder, mut reported, mut found) = (DataFolder::new(), 0, BTreeMap::new());
    for crash in 0..crashes {
        let delay = up_to(&mut random, duration);
        let is_node = random.coin();
        let crash_one = if is_node { crash_run } else { crash_import };
        reported = crash_one(&chain, &folder.path(), delay).max(reported);
        let (height, digest) = digest_if_any(&folder.path());
        let how = if is_node { "run --import" } else { "import" };
        print_notice(&format!("crash {crash} of {how} after {delay:?}: height {height}, reported {reported}"));
        assert!(reported <= height, "{reported} was reported, but {height} is left");
        if height == tip {
            assert_eq!(digest, whole);
            (folder, reported) = (DataFolder::new(), 0);
        } else if height > 0 {
            let before = found.insert(height, digest.clone());
            assert!(before.is_none_or(|before| before == digest), "two states at height {height}");
            // At random, the import now completes, or the next crash hits the same store.
            if random.coin() {
                chain.import(&folder.path(), &[]).expect_success();
                assert_eq!(folder.digest(), (tip, whole.clone()), "the import after crash {crash}");
                (folder, reported) = (DataFolder::new(), 0);
            }
        }
    }
    chain.import(&folder.path(), &[]).expect_success();
    assert_eq!(folder.digest(), (tip, whole));
    // The same heights of a store that never crashed.
    print_notice(&format!("heights after crashes: {:?}", found.keys().collect::<Vec<_>>()));
    let straight = DataFolder::new();
    for (height, after_crash) in found {
        chain.import_to(&straight.path(), height);
        assert_eq!(straight.digest(), (height, after_crash), "the state at height {height} after a crash");
    }
}

/// Time range after the last block in which a crash may hit the replacement of the store.
const REPLACEMENT_WINDOW: Duration = Duration::from_millis(12);

#[test]
fn a_kill_during_a_reindex_leaves_a_store_and_the_next_one_completes_it() {
    let (crashes, mut random) = crash_plan();
    let folder = DataFolder::full(&ChainFiles::of("all-forks"));
    let (data, whole) = (folder.path(), folder.digest());
    let start = Instant::now();
    folder.run("reindex", &[]).expect_success();
    let duration = start.elapsed();
    print_notice(&format!("a reindex takes {duration:?}"));
    let (mut left, mut begun) = (duration, 0);
    for crash in 0..crashes {
        let mut process = Process::start(nisd(["reindex", "--data", text(&data)]));
        // Some crashes hit the very end, where the new store replaces the old one.
        let at_the_end = random.coin();
        let delay = up_to(&mut random, if at_the_end { REPLACEMENT_WINDOW } else { left });
        while at_the_end && !process.log().contains(" blocks in ") && process.exit().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(delay);
        process.kill();
        let is_begun = data.join("reindex/data.mdb").exists();
        print_notice(&format!("crash {crash} after {delay:?}, at the end: {at_the_end}, begun: {is_begun}"));
        assert_eq!(folder.digest(), whole, "the store after crash {crash}");
        begun += u32::from(is_begun);
        left = if is_begun { left.saturating_sub(delay) } else { duration };
        // At random, the next reindex completes it, or the next crash hits it.
        if random.coin() {
            folder.run("reindex", &[]).expect_success();
            assert_eq!(folder.digest(), whole, "the reindex after crash {crash}");
            left = duration;
        }
    }
    print_notice(&format!("{begun} of {crashes} crashes came before the new store was in place"));
    folder.run("reindex", &[]).expect_success();
    assert_eq!(folder.digest(), whole);
    assert!(!data.join("reindex").exists());
    assert_eq!(height_and_digest(folder.run("check", &[])), whole);
}

/// Number of sending accounts; their keys have the numbers from 2 on. Key 1 harvests.
const SENDERS: u64 = 50;
/// Time range after the log line of a harvested block in which a crash may hit its processing.
const PROCESSING_WINDOW: Duration = Duration::from_millis(40);
/// Maximum time from that line to any other crash.
const BETWEEN_BLOCKS: Duration = Duration::from_millis(1_200);

/// Announces payments one after another until the node is gone; returns the hashes of the accepted ones.
fn announce_until_crash(node: SocketAddr, first: u64) -> Vec<String> {
    let mut accepted = Vec::new();
    let mut stream = TcpStream::connect(node).expect("a connection");
    let senders: Vec<_> = (2..SENDERS + 2).map(key_pair).collect();
    for (number, sender) in (first..).zip(senders.iter().cycle()) {
        let payment = transfer(sender, address(&key_pair(1)), Amount(number), Amount(50_000), now());
        match request(&mut stream, &post("/transaction/announce", &announcement(&payment))) {
            Ok(answer) if answer.contains("\"SUCCESS\"") => accepted.push(payment.hash().to_string()),
            // The mempool already holds enough for ten blocks.
            Ok(answer) => assert!(answer.contains("CACHE_TOO_FULL"), "{answer}"),
            Err(_) => break,
        }
    }
    accepted
}

/// Sends a request and reads the response, which ends with an object; fails once the node is gone.
fn request(stream: &mut TcpStream, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    while !response.ends_with(b"}\r\n") {
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => response.extend_from_slice(&chunk[..count]),
        }
    }
    Ok(String::from_utf8_lossy(&response).into_owned())
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
    let folder = DataFolder::new();
    // Blocks of up to 2,000 transactions.
    let limits = [("nis.maxTransactionsPerBlock", "2000"), ("nis.maxTransactions", "20000")];
    let config = hasty_network(folder.0.path(), SENDERS, &limits);
    let (mut reported, mut announced) = (ReportedState::default(), 0);
    for crash in 0..crashes {
        let mut node = Node::start(["--config", text(&config)]);
        let mut client = Client::connect(node.http);
        reported.check_kept(&mut client);
        let (http, first) = (node.http, 1 + announced);
        let announcing = std::thread::spawn(move || announce_until_crash(http, first));
        // The first block of this run, some more, and then the one that the crash hits.
        let blocks = 1 + random.below(3);
        wait_for("blocks", || {
            reported.height = reported.height.max(client.height());
            (node.process.log().matches("harvested block").count() >= blocks).then_some(())
        });
        let window = if random.coin() { PROCESSING_WINDOW } else { BETWEEN_BLOCKS };
        let delay = up_to(&mut random, window);
        std::thread::sleep(delay);
        reported.height = reported.height.max(client.height());
        node.process.kill();
        let accepted = announcing.join().expect("a client");
        announced += accepted.len() as u64;

        let (height, digest) = digest(&folder.path());
        assert!(reported.height <= height, "{} was reported, but {height} is left", reported.height);
        assert_eq!(height_and_digest(folder.run("check", &[])), (height, digest));
        print_notice(&format!(
            "crash {crash}, {delay:?} after a block: height {height}, reported {}, {} payments accepted",
            reported.height,
            accepted.len()
        ));
        // What is on the chain now must stay there.
        let mut node = Node::start(["--config", text(&config)]);
        reported = ReportedState::query(&mut Client::connect(node.http), &accepted);
        node.process.kill();
    }
    let node = Node::start(["--config", text(&config)]);
    let mut client = Client::connect(node.http);
    reported.check_kept(&mut client);
    wait_for("further blocks", || (client.height() >= reported.height + 2).then_some(()));
    print_notice(&format!("{announced} payments were accepted, and the chain continues above {}", reported.height));
}

#[test]
fn a_kill_during_the_creation_of_a_private_network_is_recovered() {
    let (crashes, mut random) = crash_plan();
    for _ in 0..crashes {
        let folder = DataFolder::new();
        let data = folder.path();
        let mut process = Process::start(Node::command(["--data", text(&data)]));
        let delay = up_to(&mut random, Duration::from_millis(25));
        std::thread::sleep(delay);
        process.kill();
        let files = std::fs::read_dir(&data).into_iter().flatten().flatten().map(|one| one.file_name());
        print_notice(&format!("killed after {delay:?}, which left {:?}", files.collect::<Vec<_>>()));
        let node = Node::start(["--data", text(&data)]);
        assert!(Client::connect(node.http).height() >= 1);
        let shown = run(["devnet", "show", "--data", text(&data)]).expect_success().text();
        assert!(shown.contains("WORTHLESS") && shown.contains("alice"), "{shown}");
    }
}
