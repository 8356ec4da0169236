//! Many connections and many subscribers, some of which do not read.
//!
//! `bash -c 'ulimit -n 20000 && cargo bench --bench measure -- subscribers'` has two parts:
//!
//! * 2,000 idle HTTP connections and 2,000 websocket sessions, each subscribed to `/blocks/new` and `/blocks`, on a
//!   private network that makes a block every second. It reports memory, how many blocks every session got, and the time
//!   between the first and the last session that got a message. This client reads all of them in one thread, so the time
//!   includes its own work.
//! * 50 sessions that read `/blocks` of `all-forks` at the full speed of an import, without and with 50 more that
//!   subscribe and never read.

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::attacks::published::{PIECE, spreads, subscribe};
use super::attacks::swarm::{ConnectionScript, Swarm};
use super::support::{Memory, TIP, cpu_seconds, folder, in_millis, node_on_all_forks, print_machine, with_secret};
use crate::common::daemon::{Node, new_network};
use crate::common::http::{Client, get};

/// Maximum wait.
const MAX_WAIT: Duration = Duration::from_secs(60);
const IDLE: usize = 2_000;
const SUBSCRIBERS: usize = 2_000;
/// Number of blocks, one a second, that part one observes; an idle connection is closed after 30 s.
const BLOCKS: usize = 20;
/// Connections that part one opens at a time. More might not fit into the queue of a listening socket, whose overflow
/// costs a client a second; [`burst`] shows that.
const BURST: usize = 100;
const READERS: usize = 50;
const STALLED: usize = 50;
/// Time without messages after which an import has ended.
const SILENCE: Duration = Duration::from_secs(2);

pub fn run(_: &[String]) -> ExitCode {
    print_machine();
    burst();
    many_subscribers();
    println!("\n{READERS} sessions that read /blocks at full speed of import");
    for stalled in [0, STALLED, 0, STALLED] {
        slow_readers(stalled);
    }
    ExitCode::SUCCESS
}

/// Measures connection times of clients that all connect at once.
fn burst() {
    let node = Node::on_fast_network(&new_network(), 1, &[], &[]);
    let begun = Instant::now();
    let clients: Vec<Client> = (0..IDLE).map(|_| Client::connect(node.http)).collect();
    println!("{} connections opened at once: {:.2} s", clients.len(), begun.elapsed().as_secs_f64());
}

/// Opens sessions of this machine that are subscribed to topics.
fn sessions(node: &Node, count: usize, topics: &[&str]) -> Swarm {
    let topics: Vec<_> = topics.iter().map(|topic| (*topic).to_owned()).collect();
    let mut swarm = Swarm::new(node.websocket, PIECE);
    swarm.open(count, |_| Ipv4Addr::LOCALHOST, ConnectionScript::session(subscribe(&topics)));
    let are_subscribed = swarm.run(MAX_WAIT, |swarm| swarm.connections.iter().all(|peer| peer.receipts > 0));
    assert!(are_subscribed, "some sessions cannot subscribe");
    swarm
}

/// Prints how many messages of a topic reached all sessions, and how fast; returns their number.
fn report(swarm: &Swarm, topic: &str) -> usize {
    let (prefix, sessions) = (format!("{topic} "), swarm.connections.len());
    let all: Vec<_> = swarm.deliveries_on(&prefix).collect();
    let mut spreads = spreads(all.iter().copied().filter(|delivery| delivery.times == sessions));
    let count = spreads.len();
    println!("{topic}: {count} of {} blocks reached all; first to last: {}", all.len(), in_millis(&mut spreads));
    count
}

/// Part one.
fn many_subscribers() {
    let node = Node::on_fast_network(&new_network(), 1, &[], &[]);
    let memory = || Memory::of(node.process.id());
    println!("alone:                        {}", memory());
    let begun = Instant::now();
    let mut idle: Vec<Client> = Vec::new();
    while idle.len() < IDLE {
        let mut more: Vec<_> = (0..BURST).map(|_| Client::connect(node.http)).collect();
        request_heights(&mut more);
        idle.append(&mut more);
    }
    println!("with {IDLE} idle connections:  {}", memory());
    let mut swarm = sessions(&node, SUBSCRIBERS, &["/blocks/new", "/blocks"]);
    println!("all connected {:.2} s after the start", begun.elapsed().as_secs_f64());
    let cpu = cpu_seconds(node.process.id());
    let of_all = |swarm: &Swarm| swarm.deliveries_on("/blocks ").filter(|block| block.times == SUBSCRIBERS).count();
    swarm.run(MAX_WAIT, |swarm| of_all(swarm) >= BLOCKS);
    println!("with {SUBSCRIBERS} sessions too:      {}", memory());
    let blocks = ["/blocks/new", "/blocks"].map(|topic| report(&swarm, topic))[1];
    let each = (cpu_seconds(node.process.id()) - cpu) / blocks as f64;
    println!("processor time of the node: {:.1} ms a block; {} sessions closed", each * 1e3, swarm.closed);
    request_heights(&mut idle);
    println!("all {IDLE} idle connections are answered at the end");
}

/// Requests the height on every connection, on all before the first answer is read, so that the scheduler of a busy
/// machine has no influence.
fn request_heights(clients: &mut [Client]) {
    let node = clients[0].stream().peer_addr().expect("a node");
    let request = with_secret(node, &get("/chain/height"));
    clients.iter_mut().for_each(|client| client.send(&request));
    for client in clients {
        assert_eq!(client.answer().status, 200);
    }
}

/// Part two.
fn slow_readers(stalled: usize) {
    let folder = folder();
    let node = node_on_all_forks(folder.path(), true);
    let mut readers = sessions(&node, READERS, &["/blocks"]);
    let mut deaf = sessions(&node, stalled, &["/blocks"]);
    let begun = Instant::now();
    readers.run_until_silence(SILENCE, MAX_WAIT);
    let last = readers.deliveries.values().map(|delivery| delivery.last - begun).max().unwrap_or_default();
    let height = Client::connect(node.http).height();
    println!("with {stalled} that do not read: height {height} of {TIP} after {:.2} s", last.as_secs_f64());
    report(&readers, "/blocks");
    deaf.run_until_silence(SILENCE, MAX_WAIT);
    let told = node.process.log().matches("does not receive its messages").count();
    println!(
        "{} of {stalled} that did not read were dropped ({told} in the log); {} readers",
        deaf.closed, readers.closed
    );
    println!("memory: {}", Memory::of(node.process.id()));
}
