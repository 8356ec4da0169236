//! Clients of `/events` keep books of many accounts while the nodes that they read are killed, stopped and rolled back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use nisd::model::Amount;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::bookkeeper::{Books, RollbackCounts, StreamEvent, Undoing};
use crate::common::daemon::{Process, nisd, wait_for};
use crate::common::http::{Client, get_with, post};
use crate::common::node_network::{Member, announcement, network};
use crate::common::private_network::{TOTAL, address, key_pair, now, transfer};
use crate::common::{Random, from_environment, print_notice};

/// Key numbers of the nodes and of the accounts whose books are kept.
const NODES: [u64; 3] = [1, 2, 3];
const ACCOUNTS: std::ops::Range<u64> = 10..210;
/// What each account has at first, in whole units.
const BALANCE: u64 = 1_000;
/// Seconds of disturbances by default.
const SECONDS: u64 = 8;
/// Blocks that the nodes make together in a minute at first, and if the disturbances last for more than a minute: the
/// difficulty soon slows them down tenfold.
const BLOCKS_PER_MINUTE: u64 = 100;
const BLOCKS_PER_MINUTE_OF_MANY: u64 = 300;
/// Milliseconds between two payments, and between two turns of the test.
const PAYMENT_INTERVAL: usize = 150;
const TURN: Duration = Duration::from_millis(10);
/// Turns of a client per loss of its connection, on average, and events per state that it stores.
const TURNS_PER_LOSS: usize = 120;
const EVENTS_PER_STORED: usize = 4;
/// Time within which a command of `nisd watch` has ended.
const COMMAND_TIME: Duration = Duration::from_millis(500);
/// Time without a byte after which a client connects elsewhere.
const MAX_SILENCE: Duration = Duration::from_secs(4);
/// Time within which the clients must have read everything.
const MAX_SETTLING: Duration = Duration::from_secs(120);
/// Maximum hashes of a request for statuses.
const BATCH: usize = 500;

/// How often something happened.
#[derive(Debug, Default)]
struct Counts {
    kills: u64,
    pauses: u64,
    nodes_rolled_back: u64,
    payments: u64,
    connections: u64,
    client_kills: u64,
    /// Processes of `nisd watch` that were started, and killed, and events that they have told again.
    watches: u64,
    watch_kills: u64,
    repeated: u64,
    events: u64,
    rollbacks: RollbackCounts,
}

/// A client that reads one stream after another.
struct Bookkeeper {
    query: String,
    /// Its books, and the id of the last event that they contain.
    state: (Books, Option<String>),
    /// What it finds when it begins again after having been killed.
    stored: (Books, Option<String>),
    stream: Option<Stream>,
}

/// A connection to a node.
struct Stream {
    node: usize,
    socket: TcpStream,
    /// What was received: the head and chunks, and the text in these.
    received: Vec<u8>,
    has_head: bool,
    text: Vec<u8>,
    last_byte: Instant,
}

impl Stream {
    fn open(node: usize, member: &Member, query: &str, id: Option<&str>) -> Option<Stream> {
        let mut socket = TcpStream::connect_timeout(&member.http, Duration::from_secs(1)).ok()?;
        let id = id.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
        socket.write_all(get_with(&format!("/events?{query}"), &id).as_bytes()).ok()?;
        socket.set_nonblocking(true).expect("a socket");
        let (received, text) = (Vec::new(), Vec::new());
        Some(Stream { node, socket, received, has_head: false, text, last_byte: Instant::now() })
    }

    /// Reads what has come; returns whether the connection is still good.
    fn read(&mut self) -> bool {
        let mut chunk = [0; 64 << 10];
        let is_open = loop {
            match self.socket.read(&mut chunk) {
                Ok(0) => break false,
                Ok(count) => {
                    self.received.extend_from_slice(&chunk[..count]);
                    self.last_byte = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break self.last_byte.elapsed() < MAX_SILENCE,
                Err(_) => break false,
            }
        };
        if !self.has_head {
            let Some(end) = self.received.windows(4).position(|end| end == b"\r\n\r\n") else { return is_open };
            let head = String::from_utf8_lossy(&self.received[..end]).into_owned();
            // A node that starts or stops takes no requests.
            if head.starts_with("HTTP/1.1 503") {
                return false;
            }
            let answer = String::from_utf8_lossy(&self.received);
            assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{answer}");
            self.received.drain(..end + 4);
            self.has_head = true;
        }
        while let Ok(httparse::Status::Complete((start, size))) = httparse::parse_chunk_size(&self.received) {
            let end = start + size as usize;
            if self.received.len() < end + 2 {
                break;
            }
            self.text.extend_from_slice(&self.received[start..end]);
            self.received.drain(..end + 2);
        }
        is_open
    }
}

impl Bookkeeper {
    fn new(undoing: Undoing, confirmations: u64) -> Bookkeeper {
        let state = (Books::new(undoing, confirmations, false), None);
        let query = format!("from=1&kinds=transaction,block&confirmations={confirmations}");
        Bookkeeper { query, stored: state.clone(), state, stream: None }
    }

    /// Connects, or reads and enters what has come.
    fn turn(&mut self, members: &[Member], random: &mut Random, counts: &mut Counts) {
        let Some(stream) = &mut self.stream else {
            let node = random.below(members.len());
            if members[node].is_serving() {
                counts.connections += 1;
                self.stream = Stream::open(node, &members[node], &self.query, self.state.1.as_deref());
            }
            return;
        };
        let is_good = stream.read();
        while let Some(event) = StreamEvent::take_from(&mut stream.text) {
            counts.events += 1;
            self.state.0.apply(&event, &mut counts.rollbacks);
            self.state.1 = Some(event.id);
            if random.below(EVENTS_PER_STORED) == 0 {
                self.stored = self.state.clone();
            }
        }
        if !is_good {
            self.stream = None;
        }
    }

    /// Loses its connection and all that it has not stored.
    fn kill(&mut self, counts: &mut Counts) {
        counts.client_kills += 1;
        self.stream = None;
        self.state = self.stored.clone();
    }
}

/// A client that is `nisd watch` with a command, which appends each event to a file. The process is killed without
/// warning, and started again at another node.
struct Watcher {
    folder: TempDir,
    /// The process, and the node that it reads.
    process: Option<(Process, usize)>,
    /// When the next process may start: the command of a killed one has ended by then.
    next_start: Instant,
    books: Books,
    /// Bytes of the file that are in the books, and the id of the last event.
    read: u64,
    last: String,
}

impl Watcher {
    fn new() -> Watcher {
        let books = Books::new(Undoing::OneByOne, 1, false);
        let (folder, next_start) = (TempDir::new().expect("a folder"), Instant::now());
        Watcher { folder, process: None, next_start, books, read: 0, last: String::new() }
    }

    /// Starts the process if none runs, or enters what its command has written.
    fn turn(&mut self, members: &[Member], random: &mut Random, counts: &mut Counts) {
        if self.process.as_mut().is_some_and(|(process, _)| process.exit().is_some()) {
            let (process, _) = self.process.take().expect("a process");
            panic!("nisd watch has ended: {}", process.log());
        }
        if self.process.is_none() && Instant::now() >= self.next_start {
            let node = random.below(members.len());
            if members[node].is_serving() {
                self.process = Some((self.start(&members[node]), node));
                counts.watches += 1;
            }
        }
        // A line that is not whole is of an event that is told again.
        let Ok(mut file) = File::open(self.folder.path().join("events")) else { return };
        let mut text = String::new();
        file.seek(SeekFrom::Start(self.read)).and_then(|_| file.read_to_string(&mut text)).expect("a file");
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            self.read += line.len() as u64;
            let event: Value = serde_json::from_str(line).expect("JSON");
            let field = |name: &str| event[name].as_str().expect("a text").to_owned();
            let event = StreamEvent { id: field("id"), kind: field("event"), data: event["data"].clone() };
            // The command was done, but its event was not saved yet.
            if event.id == self.last {
                counts.repeated += 1;
                continue;
            }
            self.books.apply(&event, &mut counts.rollbacks);
            self.last = event.id;
        }
    }

    fn start(&self, member: &Member) -> Process {
        let node = format!("http://{}", member.http);
        // The line of an event whose process is killed meanwhile is not whole: then `read` fails.
        let append = "read -r event && printf '%s\\n' \"$event\" >>events";
        let mut command = nisd(["watch", "--node", &node, "--from", "1", "--kinds", "transaction,block"]);
        command.args(["--json", "--state", "state", "--exec", append]).current_dir(self.folder.path());
        Process::start(command)
    }

    /// Kills the process without warning.
    fn kill(&mut self, counts: &mut Counts) {
        if let Some((mut process, _)) = self.process.take() {
            process.kill();
            self.next_start = Instant::now() + COMMAND_TIME;
            counts.watch_kills += 1;
        }
    }
}

/// The nodes, their clients, and those that pay.
struct World {
    members: Vec<Member>,
    clients: Vec<Bookkeeper>,
    watcher: Watcher,
    random: Random,
    counts: Counts,
    /// Hashes of announced payments.
    announced: Vec<String>,
    next_payment: Instant,
}

impl World {
    fn start(seed: u64, blocks_per_minute: u64) -> World {
        let accounts: Vec<_> = ACCOUNTS.map(|number| (number, BALANCE)).collect();
        let share = TOTAL / 3 - BALANCE * accounts.len() as u64;
        let rest = TOTAL - 2 * share - BALANCE * accounts.len() as u64;
        let nodes = [(NODES[0], rest), (NODES[1], share), (NODES[2], share)];
        let funded: Vec<_> = nodes.into_iter().chain(accounts).collect();
        let mut members = network(&NODES, &funded, blocks_per_minute);
        members.iter_mut().for_each(Member::start);
        let clients = vec![
            Bookkeeper::new(Undoing::OneByOne, 1),
            Bookkeeper::new(Undoing::AtOnce, 1),
            Bookkeeper::new(Undoing::AtOnce, 3),
        ];
        let (random, counts) = (Random(seed), Counts::default());
        let watcher = Watcher::new();
        World { members, clients, watcher, random, counts, announced: Vec::new(), next_payment: Instant::now() }
    }

    /// Lets everybody go on for a time.
    fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.turn(true);
        }
    }

    /// Lets the clients read, and an account pay; clients are killed at random if `is_rough`.
    fn turn(&mut self, is_rough: bool) {
        for client in &mut self.clients {
            client.turn(&self.members, &mut self.random, &mut self.counts);
            if is_rough && self.random.below(TURNS_PER_LOSS) == 0 {
                client.kill(&mut self.counts);
            }
        }
        self.watcher.turn(&self.members, &mut self.random, &mut self.counts);
        if is_rough && self.random.below(TURNS_PER_LOSS) == 0 {
            self.watcher.kill(&mut self.counts);
        }
        if is_rough && Instant::now() >= self.next_payment {
            self.pay();
            self.next_payment = Instant::now() + Duration::from_millis(self.random.below(2 * PAYMENT_INTERVAL) as u64);
        }
        thread::sleep(TURN);
    }

    /// An account pays another one through some node.
    fn pay(&mut self) {
        let mut account = || ACCOUNTS.start + self.random.below((ACCOUNTS.end - ACCOUNTS.start) as usize) as u64;
        let (from, to) = (account(), account());
        let amount = Amount(1 + self.random.below(20_000_000) as u64);
        let member = &self.members[self.random.below(self.members.len())];
        if !member.is_serving() {
            return;
        }
        let payment = transfer(&key_pair(from), address(&key_pair(to)), amount, Amount(500_000), now());
        let mut client = Client::connect(member.http);
        client.send(post("/transaction/announce", &announcement(&payment)));
        // It does not matter what becomes of it.
        let _ = client.try_answer();
        self.counts.payments += 1;
        self.announced.push(payment.hash().to_string());
    }

    /// Kills a node without warning, or stops one and rolls its chain back; starts it again after a while.
    fn kill_a_node(&mut self) {
        let node = self.random.below(NODES.len());
        if self.random.below(3) == 0 {
            self.members[node].stop();
            let height = self.members[node].folder.digest().0;
            let back = height.saturating_sub(1 + self.random.below(4) as u64).max(1);
            self.members[node].folder.run("rollback", &["--to", &back.to_string()]).expect_success();
            self.counts.nodes_rolled_back += 1;
        } else {
            self.members[node].kill();
            self.counts.kills += 1;
        }
        let away = Duration::from_millis(100 + self.random.below(1_500) as u64);
        self.pass(away);
        self.members[node].start();
    }

    /// Makes two branches: the others go on while a node is stopped, then this one goes on while they are.
    fn fork(&mut self) {
        let node = self.random.below(NODES.len());
        let away = |world: &mut World, is_node: bool, least: usize| {
            let stopped: Vec<_> = (0..NODES.len()).filter(|other| (*other == node) == is_node).collect();
            stopped.iter().for_each(|other| world.members[*other].pause());
            world.counts.pauses += stopped.len() as u64;
            let time = Duration::from_millis((least + world.random.below(2_000)) as u64);
            world.pass(time);
            stopped.iter().for_each(|other| world.members[*other].resume());
        };
        away(self, true, 2_500);
        away(self, false, 1_500);
    }

    /// Lets the nodes have one chain, which does not grow any more, and the clients read it to its end. Compares the books
    /// with it.
    fn settle(&mut self) {
        // Of equally good branches, the next block decides.
        self.members[1..].iter().zip(&NODES[1..]).for_each(|(member, key)| member.end_harvesting(*key));
        self.wait_for_one_tip();
        self.members[0].end_harvesting(NODES[0]);
        self.wait_for_one_tip();
        // The last one is the watcher.
        let mut open: BTreeSet<usize> = (0..=self.clients.len()).collect();
        let begun = Instant::now();
        while let Some(number) = open.first().copied() {
            self.turn(false);
            assert!(begun.elapsed() < MAX_SETTLING, "client {number} does not come to the end of the chain");
            let (books, node) = match self.clients.get(number) {
                Some(client) => (&client.state.0, client.stream.as_ref().map(|stream| stream.node)),
                None => (&self.watcher.books, self.watcher.process.as_ref().map(|(_, node)| *node)),
            };
            if node.is_some_and(|node| self.is_right(books, &self.members[node])) {
                open.remove(&number);
            }
        }
    }

    fn wait_for_one_tip(&mut self) {
        wait_for("one chain", || {
            self.turn(false);
            let tips: Vec<_> = self.members.iter().map(tip).collect();
            tips.iter().all(|tip| *tip == tips[0]).then_some(())
        });
    }

    /// Compares books with the chain of a node; returns `false` if the chain has gone on meanwhile, or the books have not
    /// come to its end.
    fn is_right(&self, books: &Books, member: &Member) -> bool {
        let before = tip(member);
        let height = before["height"].as_u64().expect("a height");
        let told = height + 1 - books.confirmations;
        if books.last_block().map(|(height, _)| height) != Some(told) {
            return false;
        }
        let mut balances = BTreeMap::new();
        if books.confirmations == 1 {
            let addresses: Vec<_> = ACCOUNTS.map(|number| address(&key_pair(number))).collect();
            let list: Vec<_> = addresses.iter().map(|address| json!({"account": address.as_str()})).collect();
            let body = json!({ "data": list }).to_string();
            let answer = member.request(|client| client.post("/account/get/batch", &body)).json();
            for one in answer["data"].as_array().expect("a list") {
                let account = &one["account"];
                balances
                    .insert(account["address"].as_str().expect("an address").to_owned(), account["balance"].clone());
            }
            assert_eq!(balances.len(), addresses.len(), "{answer}");
        }
        let blocks: Vec<_> = (1..=told).map(|height| member.block(height)).collect();
        let confirmed = self.confirmed(member, told);
        if tip(member) != before {
            return false;
        }
        let of_block = |(height, block): (u64, &Value)| {
            let transactions = block["transactions"].as_array().expect("a list").len() as u64;
            [(height, None)].into_iter().chain((0..transactions).map(move |index| (height, Some(index))))
        };
        let expected: Vec<_> = (1..).zip(&blocks).flat_map(of_block).collect();
        let entries: Vec<_> = books.entries.iter().map(|entry| (entry.height, entry.index)).collect();
        // The last block comes before its transactions.
        if entries.len() < expected.len() && entries == expected[..entries.len()] {
            return false;
        }
        assert_eq!(entries, expected, "the entries of the chain");
        let payments = books.entries.iter().filter(|entry| entry.index.is_some() && entry.height > 1);
        let hashes: Vec<_> = payments.map(|entry| entry.hash.clone()).collect();
        assert_eq!(hashes.iter().cloned().collect::<BTreeSet<_>>(), confirmed, "the payments of the chain");
        assert_eq!(hashes.len(), confirmed.len(), "each payment once");
        let kept = books.balances();
        for (account, balance) in balances {
            let kept = kept.iter().find(|(address, _)| address.as_str() == account).map_or(0, |(_, kept)| *kept);
            assert_eq!(balance.as_i64().map(i128::from), Some(kept), "{account}");
        }
        true
    }

    /// Returns those of the announced payments that are confirmed up to a height.
    fn confirmed(&self, member: &Member, last: u64) -> BTreeSet<String> {
        let mut confirmed = BTreeSet::new();
        for batch in self.announced.chunks(BATCH) {
            let list: Vec<_> = batch.iter().map(|hash| json!({ "hash": hash })).collect();
            let body = json!({ "data": list }).to_string();
            let answer = member.request(|client| client.post("/transaction/status/batch", &body)).json();
            let all = answer["data"].as_array().expect("a list").iter();
            let found = all.filter(|one| one["status"] == "confirmed" && one["height"].as_u64() <= Some(last));
            confirmed.extend(found.filter_map(|one| one["hash"].as_str()).map(str::to_owned));
        }
        confirmed
    }
}

/// Returns the last block of a node.
fn tip(member: &Member) -> Value {
    member.request(|client| client.get("/chain/last-block")).json()
}

/// `NISD_KILL_SECONDS=…` sets the time in which nodes and clients are killed, and `NISD_KILL_SEED=…` the random choices.
#[test]
#[ignore = "slow: a program on the real clock"]
fn clients_keep_right_books_while_nodes_and_clients_are_killed_stopped_and_rolled_back() {
    let seconds = from_environment("NISD_KILL_SECONDS").unwrap_or(SECONDS);
    let speed = if seconds > 60 { BLOCKS_PER_MINUTE_OF_MANY } else { BLOCKS_PER_MINUTE };
    let mut world = World::start(from_environment("NISD_KILL_SEED").unwrap_or(1), speed);
    wait_for("blocks", || {
        world.turn(false);
        (world.members[0].height() >= 3).then_some(())
    });
    let begun = Instant::now();
    let undone = |world: &World| world.counts.rollbacks.listed + world.counts.rollbacks.unknown;
    while begun.elapsed() < Duration::from_secs(seconds) || undone(&world) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(seconds) + MAX_SETTLING, "no block is replaced");
        world.fork();
        world.kill_a_node();
        let time = Duration::from_millis(world.random.below(2_000) as u64);
        world.pass(time);
    }
    world.settle();
    let counts = &world.counts;
    let (height, hash) = world.clients[0].state.0.last_block().expect("a block");
    print_notice(&format!("  the books are right at height {height}, block {hash:.16}: {counts:?}"));
}
