//! Helper processes that read ahead: requests get the same answers with them, without them, and when they are killed or
//! stopped.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::common::daemon::{Node, Process, args, nisd, run, wait_for};
use crate::common::data_folder::digest;
use crate::common::http::Client;
use crate::common::tiny;
use nisd::commands;
use nisd::config;
use nisd::model::Address;
use nisd::node::SMALL_STORE;
use nisd::state;
use nisd::store::{Table, Write};

/// Readers of a node.
const READERS: usize = 2;
/// Tip of the chain.
const TIP: u64 = 60;
/// A clock after the last block.
const CLOCK: &str = "3240";

/// A store with the smallest recorded chain that is large enough to be read ahead.
struct LargeStore {
    folder: tempfile::TempDir,
    accounts: Vec<Address>,
}

impl LargeStore {
    /// Creates the store with the blocks up to a height.
    fn up_to(height: u64) -> LargeStore {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("store");
        let height = height.to_string();
        let own = args!["import", "--config", tiny("network.properties"), "--data", data, "--stop-at", height];
        run(own.into_iter().chain(args![tiny("blocks.bin")])).expect_success();
        let settings =
            config::load(Some(&tiny("network.properties")), Vec::new(), Some(folder.path())).expect("settings");
        let store = commands::store::open_store(&settings, &data).expect("a store");
        // Free pages count as well.
        for is_filled in [true, false] {
            let mut batch = store.begin_write().expect("a batch");
            for number in 0..=SMALL_STORE >> 16 {
                if is_filled {
                    batch.put(Table::SupplyChanges, &number.to_be_bytes(), &vec![1; 1 << 16]).expect("room");
                } else {
                    batch.delete(Table::SupplyChanges, &number.to_be_bytes()).expect("room");
                }
            }
            batch.commit().expect("a commit");
        }
        assert!(store.used_bytes() > SMALL_STORE);
        let mut accounts = Vec::new();
        state::for_each_account_after(&store.snapshot().expect("a snapshot"), None, |_, address, _| {
            accounts.push(address);
            Ok(true)
        })
        .expect("accounts");
        LargeStore { folder, accounts }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn start(&self, readers: usize, more: Vec<OsString>) -> Node {
        let own = args!["--config", tiny("network.properties"), "--data", self.data()];
        let readers = args!["--set", format!("nisd.readers={readers}")];
        Node::start(own.into_iter().chain(readers).chain(more))
    }

    /// Returns paths of queries that read the store.
    fn queries(&self) -> Vec<String> {
        let accounts = self.accounts.iter().flat_map(|account| {
            ["get", "transfers/all", "mosaic/owned", "harvests"]
                .map(|path| format!("/account/{path}?address={account}"))
        });
        accounts.chain(["/namespace/root/page".to_owned(), "/account/get?address=nobody".to_owned()]).collect()
    }
}

/// Returns the process ids of the readers of a node.
fn readers(node: &Node) -> Vec<u32> {
    let parent = node.process.id();
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).expect("the children");
    let is_reader = |child: &u32| {
        fs::read(format!("/proc/{child}/cmdline"))
            .is_ok_and(|line| line.windows(13).any(|word| word == b"helper-reader"))
    };
    children.split_whitespace().filter_map(|child| child.parse().ok()).filter(is_reader).collect()
}

fn read_ahead(client: &mut Client) -> u64 {
    count_of(client, "nisd_requests_read_ahead_total ")
}

fn count_of(client: &mut Client, metric: &str) -> u64 {
    let metrics = client.get("/metrics").text().to_owned();
    let line = metrics.lines().find_map(|line| line.strip_prefix(metric));
    line.expect("the metric").parse().expect("a number")
}

fn signal(process: u32, name: &str) {
    let status = std::process::Command::new("kill").args(["-s", name, &process.to_string()]).status();
    assert!(status.expect("kill").success());
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn answers_are_the_same_with_readers_and_without() {
    let store = LargeStore::up_to(TIP);
    let queries = store.queries();
    let answers = |count: usize| {
        let node = store.start(count, Vec::new());
        let mut client = Client::connect(node.http);
        // The node looks at the store once a second.
        if count > 0 {
            wait_for("a request that is read ahead", || {
                client.get("/account/get?address=nobody");
                (read_ahead(&mut client) > 0).then_some(())
            });
        }
        let answers: Vec<_> = queries.iter().map(|query| client.get(query)).collect();
        // An error contains the time.
        let text = |text: &str| text.split_once("\"error\":").map_or(text, |(_, error)| error).to_owned();
        let answers: Vec<_> = answers.into_iter().map(|answer| (answer.status, text(answer.text()))).collect();
        (answers, read_ahead(&mut client), readers(&node).len())
    };
    let (expected, none, processes) = answers(0);
    assert_eq!((none, processes), (0, 0));
    assert!(expected.iter().filter(|(status, _)| *status == 200).count() > queries.len() / 2);
    let (found, count, processes) = answers(READERS);
    for ((query, found), expected) in queries.iter().zip(&found).zip(&expected) {
        assert_eq!(found, expected, "{query}");
    }
    assert!(count as usize >= queries.len() / 2 && (1..=READERS).contains(&processes), "{count}, {processes}");
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn nobody_waits_for_a_reader_that_is_killed_and_only_its_client_a_moment_for_one_that_is_stopped() {
    let store = LargeStore::up_to(TIP);
    let node = store.start(READERS, Vec::new());
    let (mut client, mut other) = (Client::connect(node.http), Client::connect(node.http));
    let running = wait_for("a reader", || {
        client.get("/account/get?address=nobody");
        Some(readers(&node)).filter(|running| !running.is_empty())
    });
    running.iter().for_each(|reader| signal(*reader, "KILL"));
    let begun = Instant::now();
    for query in store.queries().iter().take(20) {
        assert!(matches!(client.get(query).status, 200 | 400));
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "a killed reader is not waited for: {:?}", begun.elapsed());
    let stopped = wait_for("another reader", || {
        client.get("/account/harvests?address=nobody");
        readers(&node).first().copied()
    });
    signal(stopped, "STOP");
    let late = store.queries()[30].clone();
    client.send(crate::common::http::get(&late));
    let begun = Instant::now();
    for query in store.queries().iter().skip(40).take(20) {
        assert!(matches!(other.get(query).status, 200 | 400));
        assert!(other.get("/chain/height").status == 200);
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "others wait: {:?}", begun.elapsed());
    assert_eq!(client.answer().status, 200, "another reader has answered");
    assert!(begun.elapsed() < Duration::from_secs(5), "its client waits: {:?}", begun.elapsed());
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn the_client_of_a_stopped_reader_waits_less_than_a_tenth_of_a_second() {
    let store = LargeStore::up_to(TIP);
    let node = store.start(READERS, Vec::new());
    let mut client = Client::connect(node.http);
    let queries = store.queries();
    // Two readers that both have opened the store.
    let mut others: Vec<_> = (0..READERS).map(|_| Client::connect(node.http)).collect();
    let mut unread = queries.iter();
    let running = wait_for("the readers", || {
        others.iter_mut().for_each(|other| other.send(crate::common::http::get(unread.next().expect("a query"))));
        others.iter_mut().for_each(|other| assert!(matches!(other.answer().status, 200 | 400)));
        Some(readers(&node)).filter(|running| running.len() == READERS)
    });
    let before = read_ahead(&mut client);
    let waits: Vec<_> = (0..5)
        .map(|_| {
            // The first idle reader gets the next request.
            signal(running[0], "STOP");
            let begun = Instant::now();
            assert!(matches!(client.get(unread.next().expect("a query")).status, 200 | 400));
            let wait = begun.elapsed();
            signal(running[0], "CONT");
            std::thread::sleep(Duration::from_millis(200));
            wait
        })
        .collect();
    assert_eq!(readers(&node), running, "none was replaced");
    assert_eq!(read_ahead(&mut client), before + 5, "another reader has read each");
    // A machine that is busy with other things delays some.
    let (least, most) = (waits.iter().min().expect("a wait"), waits.iter().max().expect("a wait"));
    assert!(*least >= Duration::from_millis(40) && *least < Duration::from_millis(100), "{waits:?}");
    assert!(*most < Duration::from_secs(1), "{waits:?}");
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn blocks_of_files_and_of_peers_are_read_ahead_and_give_the_same_chain() {
    let begun = 20;
    let whole = LargeStore::up_to(TIP);
    let expected = digest(&whole.data());
    let peer = Node::on_tiny(TIP, &["--clock", CLOCK]);
    let from_file = args!["--clock", CLOCK, "--import", tiny("blocks.bin")];
    for (source, more) in [("a file", from_file), ("a peer", args!["--clock", CLOCK, "--peer", peer.http.to_string()])]
    {
        let store = LargeStore::up_to(begun);
        let node = store.start(READERS, more.to_vec());
        let mut client = Client::connect(node.http);
        wait_for("the chain", || (client.height() == TIP).then_some(()));
        let blocks = count_of(&mut client, "nisd_blocks_read_ahead_total ");
        assert!((1..=2 * (TIP - begun)).contains(&blocks), "{source}: {blocks}");
        node.stop();
        assert_eq!(digest(&store.data()), expected, "{source}");
    }
}

#[test]
fn a_reader_answers_nothing_but_its_node() {
    let command = nisd(["helper-reader"]);
    Process::start(command).wait_with_timeout(Duration::from_secs(20)).expect_failure(2, &["helper-reader"]);
}
