//! The recorded transactions, announced again and confirmed by blocks of this program, while sessions have
//! subscriptions.
//!
//! Its blocks have their own heights and times. So messages are compared by topic and by their announcement, and
//! heights are translated.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Session, start};
use crate::common;
use crate::common::conversation::{Conversation, Line, ServerOutput, Step, body_of, conversations, read_file};
use crate::common::daemon::Node;
use crate::common::http::Client;
use crate::common::json_text::Json;
use crate::common::replay_report::ReplayReport;
use crate::common::websocket::Stomp;

/// A time after the last transaction was made, at which none has expired.
const CLOCK: &str = "367738600+";
/// A network whose configured total supply is so much larger than the actual one that it makes a block every second.
const FAST_BLOCKS: [&str; 2] = ["nem.network.totalAmount=9000000000000", "nis.shouldAutoHarvestOnBoot=true"];
/// Maximum wait for a recorded message.
const MAX_WAIT: Duration = Duration::from_secs(10);
const ALICE: &str = "TBL6KOCXUCMCGTWUGVQGSUVPZSYKREVXBX7LNET3";
const BANK: &str = "TBNWZ7OCWTPMMWMXI6PCFA6EKAP3OGA3VCGMKEVQ";

/// A repeated announcement, by the number of its recorded step.
struct Announcement {
    /// The transaction as JSON; `None` if it was not recorded because the node rejected it.
    transaction: Option<String>,
    answer: Json,
}

fn json(text: &str) -> Json {
    Json::parse(text.trim_end_matches('\0')).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Groups the frames of a step by topic.
fn by_topic(said: impl IntoIterator<Item = ServerOutput>) -> BTreeMap<String, Vec<Stomp>> {
    let mut topics: BTreeMap<String, Vec<Stomp>> = BTreeMap::new();
    for said in said {
        let topic = said.topic().unwrap_or_default().to_owned();
        if let ServerOutput::Stomp(frame) = said {
            topics.entry(topic).or_default().push(frame);
        }
    }
    topics
}

fn recorded(step: &Step) -> BTreeMap<String, Vec<Stomp>> {
    by_topic(step.received.iter().map(ServerOutput::from_line))
}

/// Returns all announcements; a transaction that was announced before is taken from there.
fn announcements(lines: &[Line], live: &Conversation) -> BTreeMap<u64, Announcement> {
    let told = |number: u64| {
        let steps = live.steps.iter().filter(|step| step.number == number);
        let frames = steps.filter_map(|step| recorded(step).remove("/unconfirmed")).flatten();
        frames.map(|frame| frame.body).next()
    };
    let mut by_hash: BTreeMap<Json, String> = BTreeMap::new();
    let mut all = BTreeMap::new();
    for line in lines.iter().filter(|line| line.conversation == "announce") {
        let answer = json(&line.data);
        let hash = answer.get("transactionHash").expect("a hash").clone();
        let transaction = told(line.step).or_else(|| by_hash.get(&hash).cloned());
        by_hash.extend(transaction.clone().map(|transaction| (hash, transaction)));
        all.insert(line.step, Announcement { transaction, answer });
    }
    all
}

/// Announces a transaction again; the node itself converts the JSON to bytes.
fn announce(client: &mut Client, transaction: &str) -> Json {
    let prepared = client.post("/transaction/prepare", transaction);
    assert_eq!(prepared.status, 200, "{transaction}\n{}", prepared.text());
    let (data, signature) = (json(prepared.text()), json(transaction));
    let text = |json: &Json, name: &str| json.get(name).and_then(Json::as_str).expect("a text").to_owned();
    let body = format!(r#"{{"data":"{}","signature":"{}"}}"#, text(&data, "data"), text(&signature, "signature"));
    json(client.post("/transaction/announce", &body).text())
}

/// Returns the height of a block with transactions.
fn height_of_full(frame: &Stomp) -> Option<Json> {
    let block = body_of(frame);
    let transactions = block.get("transactions")?;
    (transactions.to_string() != "[]").then(|| block.get("height").cloned())?
}

/// The subscribed sessions and their messages so far.
struct LiveRun {
    live: Session,
    /// Messages by recorded step.
    received: Vec<(u64, ServerOutput)>,
    /// Own heights by recorded heights.
    heights: BTreeMap<Json, Json>,
}

impl LiveRun {
    /// Performs a step and reads the messages it causes.
    fn perform_step(
        &mut self,
        step: &Step,
        announcement: Option<&Announcement>,
        client: &mut Client,
        report: &mut ReplayReport,
    ) {
        match announcement {
            Some(Announcement { transaction: None, .. }) => {
                return report.skip("announcement that was refused, and so is not recorded");
            }
            Some(Announcement { transaction: Some(transaction), answer: expected }) => {
                let answer = announce(client, transaction);
                let found = (answer != *expected).then(|| format!("expected {expected}\n      got      {answer}"));
                report.note(&format!("announcement {}", step.number), found);
            }
            None => {
                let asks_for_block = step.sent.iter().any(|line| line.data.contains("/w/api/block/last"));
                if asks_for_block {
                    // The last block has no transactions, as in the recording.
                    self.receive_block(0);
                }
                step.sent.iter().for_each(|line| self.live.wire.send(line, line.data.as_bytes()));
                if asks_for_block {
                    self.receive_block(step.number);
                }
            }
        }
        let recorded = recorded(step);
        let begun = Instant::now();
        while !is_complete(&recorded, &self.received_in(step.number)) && begun.elapsed() < MAX_WAIT {
            self.received.extend(self.live.wire.receive(Duration::from_millis(100)).map(|said| (step.number, said)));
        }
        self.received.extend(self.live.wire.receive_pending().into_iter().map(|said| (step.number, said)));
        let full = |topics: &BTreeMap<String, Vec<Stomp>>| topics.get("/blocks")?.iter().find_map(height_of_full);
        self.heights.extend(full(&recorded).zip(full(&self.received_in(step.number))));
    }

    /// Checks that every block is reported once with its height, in order, and once more for the request at the end.
    fn check_blocks(&mut self, report: &mut ReplayReport) {
        let heard = by_topic(self.received.iter().map(|(_, said)| said.clone()));
        let heights = |topic: &str| -> Vec<u64> {
            let frames = heard.get(topic).into_iter().flatten();
            let heights = frames.map(|frame| body_of(frame).get("height").expect("a height").to_string());
            heights.map(|height| height.parse().expect("a number")).collect()
        };
        let (told, mut blocks) = (heights("/blocks/new"), heights("/blocks"));
        let before = blocks.len();
        blocks.dedup();
        let is_steady = told.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let is_good = is_steady && told == blocks && before == blocks.len() + 1;
        let found = (!is_good).then(|| format!("heights {told:?}, blocks {:?}", heights("/blocks")));
        report.note("live /blocks and /blocks/new", found);
        let frames: Vec<ServerOutput> = self.received.iter().map(|(_, said)| said.clone()).collect();
        self.live.check("live", &frames, report);
    }

    /// Reads messages until this many blocks were reported since the last one with transactions.
    fn receive_blocks(&mut self, count: usize) {
        let is_block = |said: &ServerOutput| said.topic() == Some("/blocks");
        let since = |heard: &[(u64, ServerOutput)]| {
            let blocks = heard.iter().rev().filter(|(_, said)| is_block(said));
            blocks.take_while(|(_, said)| height_of_full_in(said).is_none()).count()
        };
        while since(&self.received) < count {
            self.receive_block(0);
        }
    }

    /// Reads messages until a block without transactions is reported.
    fn receive_block(&mut self, step: u64) {
        while let Some(said) = self.live.wire.receive(MAX_WAIT) {
            let is_it = said.topic() == Some("/blocks") && height_of_full_in(&said).is_none();
            self.received.push((step, said));
            if is_it {
                return;
            }
        }
    }

    /// Returns the messages of a step by topic.
    fn received_in(&self, step: u64) -> BTreeMap<String, Vec<Stomp>> {
        by_topic(self.received.iter().filter(|(number, _)| *number == step).map(|(_, said)| said.clone()))
    }
}

/// Returns whether as many messages arrived as were recorded, not counting blocks without transactions.
fn is_complete(recorded: &BTreeMap<String, Vec<Stomp>>, heard: &BTreeMap<String, Vec<Stomp>>) -> bool {
    let count = |all: &BTreeMap<String, Vec<Stomp>>, topic: &String| {
        let frames = all.get(topic).map(Vec::as_slice).unwrap_or_default();
        frames.iter().filter(|frame| topic != "/blocks" || height_of_full(frame).is_some()).count()
    };
    let told = recorded.keys().filter(|topic| *topic != "/blocks/new");
    told.into_iter().all(|topic| count(heard, topic) >= count(recorded, topic))
}

fn height_of_full_in(said: &ServerOutput) -> Option<Json> {
    if let ServerOutput::Stomp(frame) = said { height_of_full(frame) } else { None }
}

/// Returns the bodies of a topic for comparison: without values of blocks of one run, and with translated heights.
fn bodies(topic: &str, frames: &[Stomp], heights: &BTreeMap<Json, Json>) -> Vec<Json> {
    let mut all: Vec<Json> = frames
        .iter()
        .filter(|frame| topic != "/blocks" || height_of_full(frame).is_some())
        .map(|frame| {
            let mut body = body_of(frame);
            if topic == "/blocks" {
                let free = ["/timeStamp", "/signature", "/prevBlockHash", "/height"];
                free.iter()
                    .for_each(|path| _ = body.at_path(path, &mut |value| *value = Json::Literal("free".to_owned())));
            }
            body.at_name("height", &mut |height| {
                if let Some(own) = heights.get(height) {
                    *height = own.clone();
                }
            });
            body
        })
        .collect();
    if topic.starts_with("/account/mosaic/") || topic.starts_with("/account/namespace/") {
        // The owned items of an account have no defined order.
        all.sort();
    }
    all
}

/// Compares the messages of a step with the recording, topic by topic.
fn compare(
    place: &str,
    recorded: &BTreeMap<String, Vec<Stomp>>,
    got: &BTreeMap<String, Vec<Stomp>>,
    heights: &BTreeMap<Json, Json>,
    report: &mut ReplayReport,
) {
    let topics: std::collections::BTreeSet<&String> = recorded.keys().chain(got.keys()).collect();
    for topic in topics.into_iter().filter(|topic| *topic != "/blocks/new") {
        let of = |all: &BTreeMap<String, Vec<Stomp>>| all.get(topic).cloned().unwrap_or_default();
        let (recorded, got) = (of(recorded), of(got));
        let subscriptions = |frames: &[Stomp]| -> Vec<String> {
            frames.iter().map(|frame| frame.header("subscription").to_owned()).collect()
        };
        let (expected, said) = (bodies(topic, &recorded, heights), bodies(topic, &got, &BTreeMap::new()));
        let mut found = Vec::new();
        if expected != said {
            let all =
                |bodies: &[Json]| bodies.iter().map(Json::to_string).collect::<Vec<_>>().join("\n               ");
            found.push(format!("expected {}\n      got      {}", all(&expected), all(&said)));
        } else if topic != "/blocks" && subscriptions(&recorded) != subscriptions(&got) {
            found.push(format!("subscriptions {:?}, got {:?}", subscriptions(&recorded), subscriptions(&got)));
        }
        report.note(&format!("{place} {topic}"), found);
    }
}

/// Opens a session and performs its first steps.
fn open(name: &str, address: SocketAddr, steps: &[Step], report: &mut ReplayReport) -> Session {
    let mut session = Session::new(name, address);
    steps.iter().for_each(|step| session.replay(step, MAX_WAIT, report));
    report.replayed += 1;
    session
}

/// Checks that this subscription of a session got the same messages about alice's transactions as the live session.
fn compare_implicit(session: &mut Session, id: &str, stage: &LiveRun, report: &mut ReplayReport) {
    let topic = format!("/transactions/{ALICE}");
    let own = by_topic(session.wire.receive_pending()).remove(&topic).unwrap_or_default();
    let live = by_topic(stage.received.iter().map(|(_, said)| said.clone())).remove(&topic).unwrap_or_default();
    let bodies = |frames: &[Stomp]| frames.iter().map(body_of).map(|body| body.to_string()).collect::<Vec<_>>();
    let mut found = Vec::new();
    if bodies(&own) != bodies(&live) {
        found.push(format!("expected what {} others were told, got {} messages", live.len(), own.len()));
    }
    let wrong = own.iter().find(|frame| frame.header("subscription") != id);
    found.extend(wrong.map(|frame| format!("expected the subscription {id}, got {frame:?}")));
    report.note(&format!("{} {topic}", session.name), found);
}

/// Checks a session registered by its subscription to an address: it gets every transaction and every block with one;
/// in the recording it does not.
fn compare_registered(session: &mut Session, report: &mut ReplayReport) {
    let got = session.wire.receive_pending();
    let heard: Vec<_> = got.iter().filter_map(ServerOutput::topic).map(str::to_owned).collect();
    let confirmed = ["transactions", "account"];
    let expected: Vec<String> = [["unconfirmed"].as_slice(), &confirmed, &["unconfirmed"], &confirmed]
        .concat()
        .into_iter()
        .map(|topic| format!("/{topic}/{BANK}"))
        .collect();
    let found = (heard != expected).then(|| format!("expected {expected:?}\n      got      {heard:?}"));
    report.note(&session.name, found);
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn reannounced_transactions_are_published_as_recorded() {
    let path = common::recorded("websocket/live.jsonl.gz");
    let node = start(CLOCK, &FAST_BLOCKS);
    let (lines, mut report) = (read_file(&path), ReplayReport::default());
    let all = conversations(&lines);
    let named = |name: &str| all.iter().find(|one| one.name == name).expect("the conversation");
    let live = named("live");
    let (opening, steps) = live.steps.split_at(live.steps.iter().take_while(|step| step.number < 100).count());
    let stage = open("live", node.websocket, opening, &mut report);
    let mut stage = LiveRun { live: stage, received: Vec::new(), heights: BTreeMap::new() };
    let bank = named("live-unregistered-bank");
    let mut bank = open(&bank.name, node.websocket, &bank.steps[..bank.steps.len() - 1], &mut report);
    let only = named("live-only-send-subscribe");
    let mut only = open(&only.name, node.websocket, &only.steps[..only.steps.len() - 1], &mut report);
    play(&mut stage, steps, &announcements(&lines, live), &node, &mut report);
    stage.check_blocks(&mut report);
    compare_registered(&mut bank, &mut report);
    compare_implicit(&mut only, "sub-0", &stage, &mut report);
    report.conclude("live.jsonl");
}

/// Performs all steps except the client's close, and compares each with the recording.
fn play(
    stage: &mut LiveRun,
    steps: &[Step],
    announcements: &BTreeMap<u64, Announcement>,
    node: &Node,
    report: &mut ReplayReport,
) {
    let mut client = Client::connect(node.http);
    let mut blocks = 0;
    for step in &steps[..steps.len() - 1] {
        if !step.sent.is_empty() {
            // Effects that need some blocks must have happened here as well.
            stage.receive_blocks(blocks);
        }
        for frame in recorded(step).get("/blocks").into_iter().flatten() {
            blocks = if height_of_full(frame).is_some() { 0 } else { blocks + 1 };
        }
        stage.perform_step(step, announcements.get(&step.number), &mut client, report);
        let (recorded, heard) = (recorded(step), stage.received_in(step.number));
        compare(&format!("live step {}", step.number), &recorded, &heard, &stage.heights, report);
    }
    // Late messages arrive with the next block.
    stage.receive_block(u64::MAX);
}
