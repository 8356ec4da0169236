//! This node in the place of each recorded NIS1 node that receives requests: with that node's key and its chain at each
//! time, it answers with the same bytes.
//!
//! Blocks arrive when they arrived at the recorded node: pushed blocks as requests like all others, its own blocks when
//! it pushed them, fetched blocks when it received them.

mod comparison;
mod source;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::common::http::Response;
use crate::common::recorded_chain::copy_store;
use crate::common::simulated_node::ReplayedNode;
use crate::common::{print_notice, recorded};
use crate::recorded::peer_recording::Call;
use comparison::{Outcome, Translated, compare, in_json};
use nisd::config::Settings;
use nisd::model::Block;
use nisd::net::fetch::{self, FetchRequest};
use nisd::peer::wire::Challenge;
use nisd::store::{ChainIdentity, Options, Store};
use source::{Source, blocks_of};
use tempfile::TempDir;

/// Requests during the processing of a block, which the recorded node does concurrently: recording, node, second.
const DURING_BLOCK_PROCESSING: [(&str, &str, f64); 1] = [("steady", "C", 251.7168)];
/// Blocks that a node fetched and dropped because it had meanwhile made one: recording, node, and second of the answer.
const DROPPED: [(&str, &str, f64); 1] = [("fork", "B", 159.4)];
/// Maximum delay of a call back, in seconds.
const CALL_BACK: f64 = 2.0;

/// Why an exchange is not compared.
const UNANSWERED: &str = "there was no answer";
const DEPENDS_ON_HISTORY: &str = "tells what the node has gone through, or what others are doing";
const WHILE_STARTING: &str = "the node was starting";
const TOO_EARLY: &str = "the node had not got its chain yet";

/// Challenges that NIS1 signs and this node rejects, by their length in bytes.
const UNSIGNED_CHALLENGES: [&str; 7] = [
    "challenge of 0 bytes",
    "challenge of 1 bytes",
    "challenge of 32 bytes",
    "challenge of 65 bytes",
    "challenge of 2048 bytes",
    "challenge of 2049 bytes",
    "challenge of 3000 bytes",
];

/// Why an exchange has a different answer.
const CHALLENGE: &str = "a challenge that is not of 64 bytes, which is not signed here";
const UNRESOLVED: &str = "a name of a host that means nothing, and which is not looked up here";
const TRUE_AFTER_FORGED: &str =
    "a transaction that came after a copy with a wrong signature is there, which NIS1 refuses";
const NOT_CALLED_BACK: &str =
    "a sign of life of a node that is known, which is not asked back: it is asked where it is known";
const BEFORE_THE_BLOCK: &str = "was asked while a block was taken in, and answered without it";

/// Returns whether an answer has a signature of zeros.
fn is_unsigned(body: &[u8]) -> bool {
    let in_json = "00".repeat(64).into_bytes();
    body.windows(64).any(|part| part == [0; 64]) || body.windows(in_json.len()).any(|part| part == in_json)
}

/// An event of a node.
enum NodeEvent<'a> {
    /// It receives a request.
    Receives(&'a Call),
    /// It pushes its own block.
    Pushes(&'a Call),
    /// It receives blocks that it requested.
    Fetches(Vec<Block>),
}

/// The part of one node in a recording.
struct NodeReplay<'a> {
    source: &'a Source,
    node: &'static str,
    /// Calls of the node whose answers were used again.
    used: Vec<bool>,
    outcomes: BTreeMap<Outcome, usize>,
    /// Equal exchanges that were also repeated in JSON.
    in_json: usize,
}

impl<'a> NodeReplay<'a> {
    fn new(source: &'a Source, node: &'static str) -> NodeReplay<'a> {
        let used = vec![false; source.recording.calls.len()];
        NodeReplay { source, node, used, outcomes: BTreeMap::new(), in_json: 0 }
    }

    /// Returns its events from a second of the recording on, in order.
    fn events(&self, from: f64) -> Vec<(Duration, NodeEvent<'a>)> {
        let mut all = Vec::new();
        for call in self.source.recording.calls.iter().filter(|call| call.at >= from) {
            let is_pull = call.path == "/chain/blocks-after" && call.status == Some(200);
            let ended = call.at + call.duration_millis / 1_000.0;
            let is_dropped = DROPPED.iter().any(|(name, node, second)| {
                (*name, *node) == (self.source.name, self.node) && (call.at - second).abs() < 1.0
            });
            if call.to == self.node {
                all.push((call.at + call.delay_millis / 1_000.0, NodeEvent::Receives(call)));
            } else if call.from == self.node && call.path == "/push/block" {
                all.push((call.at, NodeEvent::Pushes(call)));
            } else if call.from == self.node && is_pull && !is_dropped {
                all.push((ended, NodeEvent::Fetches(blocks_of(call, self.source.context()))));
            }
        }
        all.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        all.into_iter().map(|(at, event)| (Duration::from_secs_f64(at), event)).collect()
    }

    /// Replays the events from a second of the recording on, with the chain in a folder.
    fn replay(&mut self, folder: &Path, settings: &Settings, from: f64) {
        let store = Store::open(folder, &ChainIdentity::of(&settings.network), Options::default()).expect("a store");
        let asked = |call: &&Call| call.to == self.node && call.at < from;
        let too_early = self.source.recording.calls.iter().filter(asked).count();
        self.outcomes.extend((too_early > 0).then_some((Outcome::Skipped(TOO_EARLY), too_early)));
        let began = self.source.started_at();
        let mut node = ReplayedNode::start(&store, settings, began, Duration::from_secs_f64(from)).expect("a node");
        for (at, event) in self.events(from) {
            node.run_to(at, &mut |fetch, now| self.answer(fetch, now));
            match event {
                NodeEvent::Fetches(blocks) => node = node.add_fetched_blocks(&blocks),
                NodeEvent::Pushes(call) => drop(self.send_request(&mut node, &bytes_of(call))),
                NodeEvent::Receives(call) => self.replay_call(call, &mut node),
            }
        }
    }

    fn send_request(&mut self, node: &mut ReplayedNode<'_>, request: &[u8]) -> Response {
        node.request(request, &mut |fetch, now| self.answer(fetch, now))
    }

    /// Sends the recorded request and compares the answers.
    fn replay_call(&mut self, call: &Call, node: &mut ReplayedNode<'_>) {
        let outcome = match reason_to_skip(call) {
            Some(reason) => Outcome::Skipped(reason),
            None => {
                let got = self.send_request(node, &bytes_of(call));
                self.compare(call, &got)
            }
        };
        if outcome == Outcome::Equal
            && let Some(Translated { request, answer }) = in_json(call, self.source.context())
        {
            self.in_json += 1;
            let got = self.send_request(node, &request);
            let shown = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
            assert_eq!((got.status, shown(&got.body)), (200, shown(&answer)), "{} in JSON", call.path);
        }
        *self.outcomes.entry(outcome).or_default() += 1;
    }

    /// Returns the recorded answer to the same request of the recorded node at that time.
    fn answer(&mut self, request: &FetchRequest, now: Duration) -> Option<fetch::Response> {
        let recording = &self.source.recording;
        let peer = recording.ports.get(&request.endpoint.port)?;
        let is_it = |call: &Call| {
            let is_now = (call.at - now.as_secs_f64()).abs() < CALL_BACK;
            call.from == self.node && call.to == *peer && call.path == request.target && is_now
        };
        let mut calls = recording.calls.iter().enumerate();
        let (number, call) = calls.find(|(number, call)| !self.used[*number] && is_it(call))?;
        self.used[number] = true;
        let challenges = (call.request.last_chunk(), request.body.last_chunk());
        let (Some(recorded), Some(challenge)) = challenges else { return None };
        let (recorded, challenge) = (Challenge(*recorded), Challenge(*challenge));
        let body = recording.signed_again(call.response.clone(), &recorded, &challenge);
        Some(fetch::Response { status: call.status?, body })
    }

    /// Returns why an exchange must have a different answer, and whether it has.
    fn exception(&self, call: &Call, got: &Response) -> Option<(&'static str, bool)> {
        let what = call.fault.as_deref().unwrap_or_default();
        let is_here = |(name, node, second): &(&str, &str, f64)| {
            (*name, *node, *second) == (self.source.name, self.node, call.at)
        };
        match what {
            _ if DURING_BLOCK_PROCESSING.iter().any(is_here) => {
                Some((BEFORE_THE_BLOCK, got.status == 200 && call.response != got.body))
            }
            _ if UNSIGNED_CHALLENGES.contains(&what) => {
                Some((CHALLENGE, [400, 500].contains(&got.status) || is_unsigned(&got.body)))
            }
            "unconfirmed after the pushes" => {
                Some((TRUE_AFTER_FORGED, got.status == 200 && got.body.len() > call.response.len()))
            }
            // NIS1 answers that it could not call the sender back. Here nothing depends on that: a message in the name
            // of a known node does not influence where that node is contacted.
            _ if call.path == "/node/sign-of-life" && call.status == Some(500) && got.status == 200 => {
                Some((NOT_CALLED_BACK, self.source.name != "misbehave"))
            }
            "cysm http no.such.host.invalid 1" => Some((UNRESOLVED, got.status == 200)),
            _ => None,
        }
    }

    fn compare(&self, call: &Call, got: &Response) -> Outcome {
        let outcome = match self.exception(call, got) {
            Some((why, true)) => Outcome::Explained(why),
            Some((why, false)) => Outcome::Differs(format!("not as explained: {why}")),
            None => compare(call, got, self.source.context()),
        };
        match outcome {
            Outcome::Differs(how) => {
                let what = call.fault.as_deref().unwrap_or_default();
                let Call { at, from, to, path, .. } = call;
                Outcome::Differs(format!("{at:.3} s, {from} asks {to}: {path} {what}: {how}"))
            }
            outcome => outcome,
        }
    }
}

/// Returns a recorded request as it was sent; the host name and the length of the body were not always recorded.
fn bytes_of(call: &Call) -> Vec<u8> {
    let mut head = format!("{} {} HTTP/1.1\r\n", call.method, call.path);
    let length = call.request.len().to_string();
    let lacking =
        [("Host", "127.0.0.1"), ("Content-Length", &length)].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let is_lacking = |(name, _): &&(String, String)| call.request_headers.iter().all(|(other, _)| other != name);
    for (name, value) in call.request_headers.iter().chain(lacking.iter().filter(is_lacking)) {
        head += &format!("{name}: {value}\r\n");
    }
    [head.as_bytes(), b"\r\n", &call.request].concat()
}

/// Returns why an exchange is not replayed; `None` if it is.
fn reason_to_skip(call: &Call) -> Option<&'static str> {
    let of_the_course = [
        "/debug/connections/incoming",
        "/debug/connections/outgoing",
        "/debug/time-synchronization",
        "/debug/timers",
        "/node/active-peers/max-chain-height",
        "/node/extended-info",
        "/node/peer-list/all",
        "/node/peer-list/reachable",
        "/status",
    ];
    match call.status {
        None => Some(UNANSWERED),
        Some(503) => Some(WHILE_STARTING),
        _ if of_the_course.contains(&call.path.as_str()) => Some(DEPENDS_ON_HISTORY),
        _ if call.method == "GET" && ["/node/peer-list/active", "/node/experiences"].contains(&call.path.as_str()) => {
            Some(DEPENDS_ON_HISTORY)
        }
        _ => None,
    }
}

/// Replays the parts of several nodes of a recording. Compares the numbers of exchanges that are equal, equal again in
/// JSON, equal except for a masked part, different for a known reason, and skipped.
fn check(name: &'static str, nodes: &[&'static str], expected: [usize; 5]) {
    let source = Source::read(&recorded("peer"), name);
    let (mut outcomes, mut in_json): (BTreeMap<Outcome, usize>, usize) = (BTreeMap::new(), 0);
    let mut built: Option<(Vec<Block>, TempDir)> = None;
    for node in nodes {
        let (settings, (blocks, from)) = (source.settings(node), source.initial_chain(node));
        // Most of them start with the same chain.
        let pristine = match built.take().filter(|(others, _)| *others == blocks) {
            Some((_, pristine)) => pristine,
            None => {
                let pristine = tempfile::tempdir().expect("a folder");
                source.build_chain(&blocks, pristine.path(), &settings);
                pristine
            }
        };
        let folder = tempfile::tempdir().expect("a folder");
        copy_store(pristine.path(), folder.path());
        built = Some((blocks, pristine));
        let mut part = NodeReplay::new(&source, node);
        part.replay(folder.path(), &settings, from);
        part.outcomes.into_iter().for_each(|(outcome, count)| *outcomes.entry(outcome).or_default() += count);
        in_json += part.in_json;
    }
    let calls = source.recording.calls.iter().filter(|call| nodes.contains(&call.to.as_str())).count();
    assert_eq!(outcomes.values().sum::<usize>(), calls, "every call has an outcome");
    print_notice(&format!("{name}: {outcomes:#?}"));
    let mut counts = [0, in_json, 0, 0, 0];
    let mut differences = Vec::new();
    for (outcome, count) in outcomes {
        match outcome {
            Outcome::Equal => counts[0] += count,
            Outcome::Masked(_) => counts[2] += count,
            Outcome::Explained(_) => counts[3] += count,
            Outcome::Skipped(_) => counts[4] += count,
            Outcome::Differs(how) => differences.push(how),
        }
    }
    assert!(differences.is_empty(), "{name}: {} differ\n{}", differences.len(), differences.join("\n"));
    assert_eq!(counts, expected, "{name}");
}

#[test]
#[ignore = "slow: a whole recorded chain"]
fn recorded_bootstrap_requests_are_answered_as_recorded() {
    check("bootstrap", &["A", "B", "C"], [1793, 1784, 139, 1, 6]);
}

#[test]
fn recorded_steady_state_requests_are_answered_as_recorded() {
    check("steady", &["A", "B", "C"], [1136, 776, 116, 1, 5]);
}

#[test]
fn recorded_fork_requests_are_answered_as_recorded() {
    check("fork", &["A", "B", "C"], [235, 174, 22, 0, 96]);
}

#[test]
fn recorded_join_requests_are_answered_as_recorded() {
    check("join", &["A", "B", "C", "D"], [442, 351, 44, 0, 46]);
}

#[test]
fn recorded_faulty_requests_get_the_recorded_errors() {
    check("misbehave", &["T"], [57, 21, 8, 9, 0]);
}
