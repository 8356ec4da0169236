//! Cost of attacks for the node and for other clients, under the limits of a production node.
//!
//! `bash -c 'ulimit -n 20000 && cargo bench --bench measure -- attacks'` runs all known attacks one after another;
//! further arguments select attacks by a part of their names. Each attack runs against a new node on a private network
//! that makes a block every second. Meanwhile a well-behaved client of this machine sends 200 cheap queries per
//! second, and four remote clients send 80. A response time starts when its query is due and contains the delay of
//! that client itself, which is printed. Attackers and remote clients use 127.0.0.2 and further addresses, which the
//! node treats like any other. NISD names another program to attack, NISD_OTHER one more: then both are attacked
//! alternately in one run. The run fails if a bar of the first program is missed.

mod bare;
mod connections;
mod crowds;
mod events;
mod frames;
mod payer;
mod places;
pub mod published;
mod reader;
mod requests;
mod shares;
mod stage;
pub mod swarm;

use std::process::ExitCode;
use std::time::Duration;

use super::support::print_machine;
use stage::{AttackStage, Bar, Outcome};

/// An attack.
struct Attack {
    name: &'static str,
    about: &'static str,
    run: fn(&str) -> Outcome,
}

const fn attack(name: &'static str, about: &'static str, run: fn(&str) -> Outcome) -> Attack {
    Attack { name, about, run }
}

const ATTACKS: [Attack; 51] = [
    attack("peace", "nobody attacks", baseline),
    attack("errors", "20 sessions x 1,000 subscriptions to /errors, 256 bad SENDs", published::errors),
    attack("last-block", "20 sessions x 1,000 subscriptions to /blocks, 32 x block/last", published::last_block),
    attack("next-block", "20 sessions x 1,000 subscriptions to /blocks, the next full block", published::next_block),
    attack("subscribers", "5,000 subscribers of /blocks, blocks of 120 transactions", published::subscribers),
    attack("subscribers-messages", "the same with messages of 1,000 bytes", published::subscribers_of_messages),
    attack("unconfirmed", "5,000 subscribers of /unconfirmed, 60 announcements", published::unconfirmed),
    attack(
        "owners",
        "5,000 subscribers, each of its own account, blocks with 120 transfers to some",
        published::owners,
    ),
    attack("overflow", "600 requests in one message, listened to by a stranger", frames::overflow),
    attack("frames", "40 connections, messages of 2,000 SUBSCRIBE and UNSUBSCRIBE", frames::frames),
    attack("registrations", "one client registers addresses without end", frames::registrations),
    attack("told-twice", "a stranger asks for what others wait for", frames::repeated_requests),
    attack("batch", "definition/batch, one account 20,559 times", |binary| requests::batch(binary, false)),
    attack("batch-largest", "definition/batch, the largest body that is answered", |binary| {
        requests::batch(binary, true)
    }),
    attack("keys", "1 MiB of JSON with 131,000 keys, 45 a second", |binary| requests::keys(binary, "/block/at/public")),
    attack("keys-largest", "JSON of keys to /transaction/announce, as large as it takes", |binary| {
        requests::keys(binary, "/transaction/announce")
    }),
    attack("keys-pushed", "JSON of keys to /push/block, as large as it reads", |binary| {
        requests::keys(binary, "/push/block")
    }),
    attack("blocks-pushed", "10 strangers push the largest block, 50 a second", requests::pushed_blocks),
    attack("big-block", "a block of 2,500 transactions is made", requests::big_block),
    attack("big-block-asked", "10 attackers ask for a block of 2,500 transactions", requests::big_block_requests),
    attack("pipeline", "5,000 connections of one stranger pipeline requests", connections::pipeline),
    attack("files-soft", "ulimit -Sn 1024, 1,010 connections", |binary| {
        connections::few_files(binary, "ulimit -Sn 1024", 1_010)
    }),
    attack("files-hard", "ulimit -n 1024, 1,010 connections", |binary| {
        connections::few_files(binary, "ulimit -n 1024", 1_010)
    }),
    attack("files-64", "ulimit -n 64, 200 connections", |binary| connections::few_files(binary, "ulimit -n 64", 200)),
    attack("bodies-6", "6 addresses push lists of empty lists", |binary| shares::bodies(binary, 6, 20.0)),
    attack("bodies-10", "10 of them", |binary| shares::bodies(binary, 10, 20.0)),
    attack("bodies-100", "100 of them", |binary| shares::bodies(binary, 100, 50.0)),
    attack("importances", "1,000 /64 of one /48 ask for all importances and read slowly", shares::importances),
    attack("crowd-250", "250 addresses of one /24 ask 45 times a second each", |binary| {
        shares::crowd(binary, 250, 1, 20.0)
    }),
    attack("crowd-1000", "1,000 addresses in 63 networks ask 45 times a second each", |binary| {
        shares::crowd(binary, 1_000, 63, 100.0)
    }),
    attack("streams-reset", "31,000 streams of 10,000 addresses are opened and reset", shares::reset_streams),
    attack("streams-of-accounts", "the same with streams for 10,000 accounts each", shares::reset_streams_of_accounts),
    attack("unfinished", "bodies that lack their last byte, twice as much as is buffered", |binary| {
        connections::unfinished_bodies(binary, "/transaction/announce", 1)
    }),
    attack("unfinished-many", "the same from eight addresses", |binary| {
        connections::unfinished_bodies(binary, "/transaction/announce", 8)
    }),
    attack("unfinished-block", "the same with blocks, from one address", |binary| {
        connections::unfinished_bodies(binary, "/push/block", 1)
    }),
    attack("unfinished-blocks", "the same with blocks, from sixty addresses", |binary| {
        connections::unfinished_bodies(binary, "/push/block", 60)
    }),
    attack("places-sessions", "42 addresses open 250 websockets each", places::sessions),
    attack(
        "places-answers",
        "64 answers at once of one client that are written in steps, and 45 of eight strangers each",
        places::long_answers,
    ),
    attack("idle-33", "33 addresses hold 250 connections each and ask 340 times a second", crowds::busy_connections),
    attack("unread", "12 addresses, 200 connections each that read nothing of a long answer", crowds::unread_responses),
    attack("connect-close", "four addresses connect and close as fast as they can", crowds::connect_and_close),
    attack(
        "refused-sending",
        "64 connections of eight addresses go on sending when they were refused",
        crowds::invalid_requests,
    ),
    attack("chunk-extensions", "64 connections of eight addresses send chunks of one byte", crowds::extensions),
    attack("chunks-tiny", "64 connections of one address send the smallest chunks", crowds::tiny_chunks),
    attack("trickle", "64 connections of one address send a body by the byte", crowds::trickle),
    attack("streams", "5,000 streams of events, each of its own account, full blocks pay some", events::streams),
    attack("streams-addresses", "250 streams of 10,000 addresses each of one attacker, full blocks", events::addresses),
    attack("streams-unread", "12 addresses, 200 streams of the whole chain each that nobody reads", events::unread),
    attack("streams-dropped", "40 addresses open and drop streams, 1,800 a second", events::dropped),
    attack("streams-nowhere", "the same with ids that no chain has", events::nowhere),
    attack("equal-holders", "8,000 addresses hold a websocket each, and this machine connects", crowds::equal_holders),
];

pub fn run(words: &[String]) -> ExitCode {
    let chosen = |attack: &&Attack| words.is_empty() || words.iter().any(|word| attack.name.contains(word.as_str()));
    let own = std::env::var("NISD").unwrap_or_else(|_| env!("CARGO_BIN_EXE_nisd").to_owned());
    let mut programs = vec![("this", own)];
    programs.extend(std::env::var("NISD_OTHER").map(|other| ("other", other)));
    print_machine();
    programs.iter().for_each(|(name, path)| println!("{name}: {path}"));
    warn_if_few_files();
    println!(
        "{:<20} {:<5} {:>13} {:>13} {:>8} {:>8} {:>8} {:>6} {:>8} {:>8}  figures | must be",
        "attack", "on", "memory MiB", "of its own", "p50 ms", "p99 ms", "max ms", "own", "str. p99", "max ms"
    );
    let mut failed = Vec::new();
    for attack in ATTACKS.iter().filter(chosen) {
        println!("{}: {}", attack.name, attack.about);
        for (program, path) in &programs {
            let outcome = (attack.run)(path);
            print(attack.name, program, &outcome);
            if *program == "this" && outcome.checks.iter().any(|(_, holds)| !holds) {
                failed.push(attack.name);
            }
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("not met: {failed:?}");
    ExitCode::FAILURE
}

/// The connections of this process and of the node need file descriptors.
fn warn_if_few_files() {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let files = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0);
    assert!(
        files >= 12_000,
        "{files} open files are too few: bash -c 'ulimit -n 20000 && cargo bench --bench measure -- attacks'"
    );
}

/// Measures response times without an attack.
fn baseline(binary: &str) -> Outcome {
    let mut stage = AttackStage::new(binary);
    stage.begin();
    std::thread::sleep(Duration::from_secs(5));
    stage.end(Vec::new(), &[Bar::Others(20.0)])
}

/// Prints one line of the table.
fn print(attack: &str, program: &str, outcome: &Outcome) {
    let Outcome { before, peak, waits, remote_waits: strangers, notes, checks: judged } = outcome;
    let grown = |before: f64, peak: f64| format!("{:.0} -> {:.0}", before / 1024.0, peak / 1024.0);
    let judged: Vec<_> = judged.iter().map(|(bar, holds)| (if *holds { "met" } else { "NOT MET" }, bar)).collect();
    let judged: Vec<_> = judged.iter().map(|(verdict, bar)| format!("{verdict}: {bar}")).collect();
    let lost = match waits.lost + strangers.lost {
        0 => String::new(),
        _ => format!("{} questions lost, {} of strangers, ", waits.lost, strangers.lost),
    };
    println!(
        "{attack:<20} {program:<5} {:>13} {:>13} {:>8.2} {:>8.2} {:>8.2} {:>6.2} {:>8.2} {:>8.2}  {lost}{} | {}",
        grown(before.all, peak.all),
        grown(before.anon, peak.anon),
        waits.p50,
        waits.p99,
        waits.max,
        waits.own_delay,
        strangers.p99,
        strangers.max,
        notes.join(", "),
        judged.join("; "),
    );
}
