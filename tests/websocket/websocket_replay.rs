//! Replays recorded conversations with NIS1, frame by frame, with the program itself.
//!
//! The recordings' README defines the comparison.
//! Allowed differences are listed in [`DIFFERENCES`] with their reasons; conversations that are not replayed are
//! counted and named.

mod live;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use crate::common::conversation::{
    Conversation, Line, MAX_WAIT, ServerOutput, Step, Wire, check_frame, conversations, difference, read_file,
};
use crate::common::daemon::{Node, args};
use crate::common::recorded;
use crate::common::replay_report::ReplayReport;

/// The publicly known key of the harvesting account.
const HARVESTER: &str = "3e6ca1f28ad3ba79fd697d7182cd94b8e2e26c34a7fccd4a9c60470bcdb482a3";
/// A network time shortly before the recording of what does not depend on it.
const CLOCK: &str = "367738300";

/// Longer pauses of a client are cut to this.
const PAUSE: Duration = Duration::from_millis(300);

/// How the program's output differs from the recording.
enum Change {
    /// In this step of a conversation, exactly this is sent.
    Sends(&'static str, u64, &'static [&'static str]),
    /// In this step of a conversation, this follows the recorded output.
    Adds(&'static str, u64, &'static [&'static str]),
    /// In this step of a conversation, the message is sent for these subscriptions in this order.
    For(&'static str, u64, &'static [&'static str]),
    /// In this step of a conversation, this many more SockJS frames are sent; only their form is checked.
    Frames(&'static str, u64, usize),
    /// An error message that starts like the first text reads like the second.
    Rewords(&'static str, &'static str),
    /// The response to a request with an `Origin` names that origin.
    NamesOrigin,
    /// The response to a request for a transport of SockJS over HTTP is an empty 404.
    HasNoHttpTransports,
}

use Change::{Adds, For, Frames, HasNoHttpTransports, NamesOrigin, Rewords, Sends};

/// All allowed differences from the recordings, with their reasons.
const DIFFERENCES: [(Change, &str); 20] = [
    (Frames("sockjs-websocket", 7, 1), "all strings of a message count, and not only the first"),
    (HasNoHttpTransports, "they do not work in NIS1 either, so nobody uses them"),
    (NamesOrigin, "browsers want their origin by name to send credentials, as newer versions of SockJS do"),
    (Sends("connect-v10", 1, &["CONNECTED\nversion:1.0\nheart-beat:0,0\n\n"]), "forgiving: 1.0 alone is answered"),
    (
        Sends("connect-v11-blank-v12", 1, &["CONNECTED\nversion:1.2\nheart-beat:0,0\n\n"]),
        "forgiving: blanks around values do not count",
    ),
    (
        Sends(
            "connect-v13",
            1,
            &[
                "ERROR\nmessage:Supported protocol versions are 1.0, 1.1, 1.2\ncontent-length:0\n\n",
                "close 1002",
                "end",
            ],
        ),
        "a client that speaks no common version is told, instead of waiting for ever",
    ),
    (
        Sends("malformed-stray-nul", 2, &["CONNECTED\nheart-beat:0,0\n\n"]),
        "forgiving: a NUL between frames is no part of the next command",
    ),
    (
        Adds("big-stomp-over-messages", 2, &["close 1002", "end"]),
        "a session whose buffer is full cannot be used any more, and is closed instead of left open",
    ),
    (
        Sends(
            "big-content-length-70000",
            1,
            &[
                "ERROR\nmessage:STOMP 'content-length' header value 70000  exceeds configured buffer size limit 65536\n\
                 content-length:0\n\n",
                "close 1002",
                "end",
            ],
        ),
        "a frame that cannot fit is rejected at once, and the session is closed instead of left unusable",
    ),
    (Sends("subscribe-all", 72, &[]), "nobody but the node publishes: what clients send to topics is dropped"),
    (
        For("subscription-semantics", 13, &["a", PATTERN]),
        "subscriptions are served in the order in which they were made",
    ),
    (For("subscription-semantics", 19, &["a", PATTERN, "sel"]), "no client uses selectors, and they are ignored"),
    (
        For("subscription-semantics", 21, &["a", PATTERN, "sel", "ackc"]),
        "no client uses selectors, and they are ignored",
    ),
    (Sends("other-session", 3, &[]), "answers go to the session that asked"),
    (Rewords("Could not resolve method parameter", "unexpected data: null"), "the text names classes of the platform"),
    (Rewords("class java.lang.Integer", WRONG_TYPE), "the text names classes of the platform"),
    (Rewords("class java.lang.Boolean", WRONG_TYPE), "the text names classes of the platform"),
    (Rewords("class java.lang.Double", WRONG_TYPE), "the text names classes of the platform"),
    (Rewords("class net.minidev.json.JSONArray", WRONG_TYPE), "the text names classes of the platform"),
    (Rewords("class net.minidev.json.JSONObject", WRONG_TYPE), "the text names classes of the platform"),
];

/// The id of a subscription to `/node/*`.
const PATTERN: &str = "c\\cd\\nx\\\\";
const WRONG_TYPE: &str = "property account has an incompatible value";

/// Texts that the recording truncated, by conversation, and what followed the repeated last character.
const ENDS: [(&str, &str); 4] =
    [("big-65536", "\0"), ("big-65537", "\0"), ("big-65537-binary", "\0"), ("big-header-60000", "\n\n\0")];
/// Texts that are not UTF-8: each character stands for a byte.
const BYTES: [&str; 1] = ["ws-bad-utf8"];

/// Returns the bytes that the client of a line sent.
fn bytes(line: &Line) -> Vec<u8> {
    if line.op == "close" || BYTES.contains(&line.conversation.as_str()) {
        return line.data.chars().map(|character| u8::try_from(u32::from(character)).expect("a byte")).collect();
    }
    let Some((shown, count)) = line.data.strip_suffix(" bytes)").and_then(|text| text.rsplit_once("...(")) else {
        return line.data.clone().into_bytes();
    };
    let end = ENDS.iter().find(|(name, _)| *name == line.conversation).map_or("", |(_, end)| end);
    let (mut whole, count) = (shown.as_bytes().to_vec(), count.parse::<usize>().expect("a number"));
    whole.resize(count - end.len(), *whole.last().expect("a text"));
    [&whole, end.as_bytes()].concat()
}

/// Returns the expected output of a step, with all differences applied.
fn expected(conversation: &str, step: &Step) -> Vec<ServerOutput> {
    let mut all: Vec<ServerOutput> = step.received.iter().map(ServerOutput::from_line).collect();
    let short = |texts: &[&str]| texts.iter().map(|text| ServerOutput::from_short(text)).collect::<Vec<_>>();
    for (change, _) in &DIFFERENCES {
        match change {
            // The client's close and what follows form a step of the same number, which is unchanged.
            Sends(name, number, texts) if (*name, *number) == (conversation, step.number) && !is_last(step) => {
                all = short(texts);
            }
            Adds(name, number, texts) if (*name, *number) == (conversation, step.number) => {
                all.append(&mut short(texts))
            }
            For(name, number, subscriptions) if (*name, *number) == (conversation, step.number) => {
                all = for_subscriptions(&all, subscriptions);
            }
            Rewords(recorded, ours) => all.iter_mut().for_each(|said| reword(said, recorded, ours)),
            NamesOrigin => name_origin(&mut all, step),
            HasNoHttpTransports => reject_http_transports(&mut all, step),
            _ => {}
        }
    }
    all
}

/// Returns the first message for each of these subscriptions.
fn for_subscriptions(all: &[ServerOutput], subscriptions: &[&str]) -> Vec<ServerOutput> {
    let Some(ServerOutput::Stomp(first)) = all.first() else { panic!("no message") };
    let message = |subscription: &&str| {
        let mut message = first.clone();
        let header = message.headers.iter_mut().find(|(name, _)| name == "subscription");
        header.expect("the header").1 = (*subscription).to_owned();
        ServerOutput::Stomp(message)
    };
    subscriptions.iter().map(message).collect()
}

fn is_last(step: &Step) -> bool {
    step.sent.iter().any(|line| line.op == "close")
}

/// Replaces an error message that starts like `recorded`.
fn reword(said: &mut ServerOutput, recorded: &str, ours: &str) {
    let (ServerOutput::Stomp(frame) | ServerOutput::Sockjs(frame)) = said else { return };
    let Some(place) = frame.body.find(&format!("\"message\":\"{recorded}")) else { return };
    let start = place + "\"message\":\"".len();
    let end = start + frame.body[start..].find('"').expect("the end of a text");
    frame.body.replace_range(start..end, ours);
}

fn name_origin(all: &mut [ServerOutput], step: &Step) {
    let origin = step.sent.iter().flat_map(|line| line.data.lines()).find_map(|line| line.strip_prefix("Origin: "));
    for said in all {
        if let (ServerOutput::Response(answer), Some(origin)) = (said, origin) {
            let allowed = answer.headers.iter_mut().find(|(name, _)| name == "Access-Control-Allow-Origin");
            allowed.expect("the header").1 = origin.to_owned();
            answer.headers.push(("Access-Control-Allow-Credentials".to_owned(), "true".to_owned()));
            answer.headers.push(("Vary".to_owned(), "Origin".to_owned()));
        }
    }
}

fn reject_http_transports(all: &mut [ServerOutput], step: &Step) {
    let path_of = |line: &Line| line.data.split(' ').nth(1).unwrap_or_default().to_owned();
    let is_meant = |path: String| ["/xhr", "/xhr_send", "/jsonp_send"].iter().any(|name| path.ends_with(name));
    let is_meant = step.sent.iter().map(path_of).any(is_meant);
    for said in all.iter_mut().filter(|_| is_meant) {
        if let ServerOutput::Response(answer) = said {
            answer.status = 404;
            let is_of_all = |name: &str, value: &str| match name {
                "Allow" => value == "GET, HEAD, POST, OPTIONS",
                _ => !["Cache-Control", "Expires"].contains(&name),
            };
            answer.headers.retain(|(name, value)| is_of_all(name, value));
        }
    }
}

/// Returns the differences between expected and actual output.
fn differences(expected: &[ServerOutput], got: &[ServerOutput]) -> Vec<String> {
    let compare = |place: usize| match (expected.get(place), got.get(place)) {
        (Some(expected), Some(got)) => difference(expected, got),
        (Some(expected), None) => Some(format!("missing  {expected}")),
        (None, got) => got.map(|got| format!("too much {got}")),
    };
    (0..expected.len().max(got.len())).filter_map(compare).collect()
}

/// A conversation in progress.
struct Session {
    name: String,
    wire: Wire,
    ids: BTreeSet<String>,
}

impl Session {
    fn new(name: &str, address: SocketAddr) -> Session {
        Session { name: name.to_owned(), wire: Wire::connect(address), ids: BTreeSet::new() }
    }

    /// Performs the client's part of a step and compares the output.
    fn replay(&mut self, step: &Step, patience: Duration, report: &mut ReplayReport) {
        for (line, before) in step.sent.iter().zip(std::iter::once(None).chain(step.sent.iter().map(Some))) {
            // A client that paused between two lines waited for something elsewhere.
            let has_waited = before.is_some_and(|before| line.time - before.time > PAUSE.as_secs_f64());
            if has_waited {
                std::thread::sleep(PAUSE);
            }
            self.wire.send(line, &bytes(line));
        }
        let place = format!("{} step {}", self.name, step.number);
        let expected = expected(&self.name, step);
        let more = self.more_frames(step);
        let mut got = self.wire.receive_all(expected.len() + more, patience, is_last(step));
        self.check(&place, &got, report);
        let frames = got.iter().rev().take_while(|said| matches!(said, ServerOutput::Sockjs(_))).count();
        got.truncate(got.len() - more.min(frames));
        report.note(&place, differences(&expected, &got));
    }

    /// Returns the number of SockJS frames in a step beyond the recorded ones.
    fn more_frames(&self, step: &Step) -> usize {
        let meant = |change: &Change| match change {
            Frames(name, number, count) if (*name, *number) == (self.name.as_str(), step.number) => *count,
            _ => 0,
        };
        DIFFERENCES.iter().map(|(change, _)| meant(change)).sum()
    }

    /// Checks what holds for every frame.
    fn check(&mut self, place: &str, got: &[ServerOutput], report: &mut ReplayReport) {
        let frames = got.iter().filter_map(ServerOutput::frame);
        report.note(place, frames.filter_map(|frame| check_frame(frame, &mut self.ids)).collect::<Vec<_>>());
    }
}

/// Replays whole conversations one after another, except for one that happens while another one waits.
fn replay(all: &[Conversation], address: SocketAddr, report: &mut ReplayReport) {
    const WAITING: (&str, &str) = ("other-session", "other-session-sender");
    let during = all.iter().find(|conversation| conversation.name == WAITING.1);
    for conversation in all.iter().filter(|conversation| conversation.name != WAITING.1) {
        let during = during.filter(|_| conversation.name == WAITING.0);
        replay_conversation(conversation, during, address, MAX_WAIT, report);
    }
}

/// Replays a conversation, and another one while the first waits for something that it did not request.
fn replay_conversation(
    conversation: &Conversation,
    during: Option<&Conversation>,
    address: SocketAddr,
    patience: Duration,
    report: &mut ReplayReport,
) {
    report.replayed += 1;
    let mut session = Session::new(&conversation.name, address);
    for step in &conversation.steps {
        if let (true, Some(other)) = (step.sent.is_empty(), during) {
            replay_conversation(other, None, address, patience, report);
            std::thread::sleep(PAUSE);
        }
        if step.received.iter().any(|line| line.op == "text" && line.data == "h") {
            report.skip("SockJS heart-beat after 25 seconds, which a test with virtual time awaits");
            continue;
        }
        session.replay(step, patience, report);
        if session.wire.has_ended() {
            break;
        }
    }
}

/// Starts a node on the network of the recording.
fn start(clock: &str, more: &[&str]) -> Node {
    let config = recorded("websocket/devnet/config-user.properties");
    let store = tempfile::tempdir().expect("a folder for the store");
    let key = format!("nis.bootKey={HARVESTER}");
    let settings = [&key, "nis.bootName=devnet-nis1", "nisd.localAccess=address"];
    let settings = settings.iter().chain(more).flat_map(|setting| args!["--set", setting]);
    let own = args!["--config", config, "--data", store.path(), "--clock", clock];
    Node { folder: Some(store), ..Node::start(own.into_iter().chain(settings)) }
}

fn replay_file(name: &str) {
    let path = recorded("websocket").join(name);
    let node = start(CLOCK, &[]);
    let mut report = ReplayReport::default();
    replay(&conversations(&read_file(&path)), node.websocket, &mut report);
    report.conclude(name);
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn valid_and_invalid_handshakes_and_frames_are_answered_as_recorded() {
    replay_file("frames.jsonl.gz");
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn topics_and_requests_are_answered_as_recorded() {
    replay_file("topics.jsonl.gz");
}

#[test]
fn plain_http_is_answered_as_recorded() {
    replay_file("http.jsonl.gz");
}

/// The recording waits for 300 seconds, this test for the minimum setting, and for all sessions at once.
#[test]
#[ignore = "slow: a program on the real clock"]
fn silent_sessions_are_closed_as_recorded() {
    let all = conversations(&read_file(&recorded("websocket").join("idle.jsonl.gz")));
    let node = start(CLOCK, &["nisd.websocketIdleTimeout=10"]);
    let replay = |conversation: &Conversation| {
        let mut report = ReplayReport::default();
        replay_conversation(conversation, None, node.websocket, Duration::from_secs(20), &mut report);
        report.conclude(&conversation.name);
    };
    std::thread::scope(|scope| all.iter().for_each(|one| _ = scope.spawn(move || replay(one))));
}
