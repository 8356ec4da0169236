//! Recorded conversations of NIS1 nodes: every message can be decoded and encodes to the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use crate::common::{print_notice, recorded};
use crate::recorded::peer_recording::{Call, Recording, read};
use nisd::codec::{Context, Format, Readable, Writable};
use nisd::model::{Block, Height, Transaction};
use nisd::peer::wire::{
    AnswerContext, AnswerError, AuthenticatedRequest, AuthenticatedResponse, ChainRequest, Challenge,
    CommunicationTimeStamps, Endpoint, ErrorBody, ExperienceEntry, HashChain, List, Message, NodeCollection,
    NodeExperiences, NodeInfo, NodeList, Query, Score, SecureEntity, ShortIds,
};

/// Paths of the interface for people and wallets, which other tests compare with recordings.
const CLIENT_PATHS: [&str; 8] = [
    "/transaction/announce",
    "/debug/connections/incoming",
    "/debug/connections/outgoing",
    "/debug/time-synchronization",
    "/debug/timers",
    "/heartbeat",
    "/status",
    "/node/extended-info",
];

/// Differences in the recording of faults: path, affected node or fault, and kind of difference (not decodable, or
/// other bytes).
const EXPLAINED: [(&str, &str, &str); 43] = [
    // Answers to T from others, with a signature of 63 bytes, text instead of an error body, JSON instead of binary,
    // surplus bytes, cut or random bodies, and lengths beyond the end.
    ("/node/info", "T asks wrong signature", "impersonated"),
    ("/node/info", "T asks signed by another key", "impersonated"),
    ("/node/info", "T asks other identity in the answer", "impersonated"),
    ("/node/info", "T asks version not a version", "unreadable"),
    ("/node/info", "T asks surplus bytes", "other bytes"),
    ("/node/info", "T asks status 429", "unreadable"),
    ("/node/info", "T asks status 503", "unreadable"),
    ("/chain/score", "phase 0", "impersonated"),
    ("/chain/score", "phase 1", "unreadable"),
    ("/chain/score", "phase 2", "unreadable"),
    ("/chain/score", "phase 3", "unreadable"),
    ("/chain/score", "phase 4", "unreadable"),
    ("/chain/score", "phase 7", "unreadable"),
    ("/chain/score", "phase 9", "other bytes"),
    ("/chain/blocks-after", "phase 19", "unreadable"),
    ("/chain/blocks-after", "phase 20", "unreadable"),
    ("/chain/blocks-after", "phase 21", "unreadable"),
    ("/chain/blocks-after", "phase 22", "unreadable"),
    // Challenges that NIS1 signs and this node rejects.
    ("/chain/height", "challenge of 0 bytes", "unreadable"),
    ("/chain/height", "challenge of 1 bytes", "unreadable"),
    ("/chain/height", "challenge of 32 bytes", "unreadable"),
    ("/chain/height", "challenge of 65 bytes", "unreadable"),
    ("/chain/height", "challenge of 2048 bytes", "unreadable"),
    ("/chain/height", "challenge of 2049 bytes", "unreadable"),
    ("/chain/height", "challenge of 3000 bytes", "unreadable"),
    // Requests to T that NIS1 also rejects.
    ("/chain/height", "challenge missing (null, length -1)", "unreadable"),
    ("/chain/height", "challenge longer than the body", "unreadable"),
    ("/chain/height", "empty body", "unreadable"),
    ("/chain/height", "content type text/plain", "unreadable"),
    ("/chain/hashes-from", "hashes-from height 0", "unreadable"),
    ("/chain/hashes-from", "hashes-from height -1", "unreadable"),
    ("/chain/blocks-after", "blocks-after height 0 minBlocks 10 maxTransactions 2400", "unreadable"),
    ("/block/at", "block/at height 0", "unreadable"),
    ("/block/at", "block/at height -1", "unreadable"),
    ("/transactions/unconfirmed", "unconfirmed, count 2147483647", "unreadable"),
    ("/node/cysm", "cysm gopher9 127.0.0.1 1", "unreadable"),
    ("/node/cysm", "cysm http 127.0.0.1 -2", "unreadable"),
    ("/node/sign-of-life", "sign of life, cut body", "unreadable"),
    ("/push/block", "push of a block, push signature wrong", "forged push"),
    ("/push/block", "push of a cut block", "unreadable"),
    ("/push/transactions", "push of a list: first with a wrong push signature, then a good one", "forged push"),
    // Requests to T that are decoded although NIS1 itself would send other bytes: spaces in JSON, and surplus bytes.
    ("/chain/height", "body and 100 surplus bytes", "other bytes"),
    ("/chain/height", "JSON both ways", "other bytes"),
];

/// Path, subject and kind of a difference.
type Difference = (String, String, &'static str);

/// Results for a recording.
#[derive(Default)]
struct Results {
    /// Numbers of requests, answers and signatures by path.
    counts: BTreeMap<String, [usize; 3]>,
    client_calls: usize,
    unanswered: usize,
    errors: usize,
    differences: BTreeSet<Difference>,
}

impl Results {
    fn check(name: &str, recording: &Recording) -> Results {
        let mut found = Results::default();
        for call in &recording.calls {
            if CLIENT_PATHS.contains(&call.path.as_str()) {
                found.client_calls += 1;
                continue;
            }
            let count = found.counts.entry(call.path.clone()).or_default();
            let place = call.fault.clone().unwrap_or_else(|| format!("{} asks {}", call.from, call.to));
            let mut differ = |result: Result<(), &'static str>| {
                found.differences.extend(result.err().map(|how| (call.path.clone(), place.clone(), how)));
            };
            let checked = Checked { call, recording };
            if call.method == "POST" {
                count[0] += 1;
                differ(checked.request());
            }
            match call.status {
                None => found.unanswered += 1,
                Some(200) => {
                    count[1] += 1;
                    match checked.answer() {
                        Ok(signatures) => count[2] += signatures,
                        Err(how) => differ(Err(how)),
                    }
                }
                Some(_) => {
                    found.errors += 1;
                    differ(checked.error());
                }
            }
        }
        found.print(name);
        found
    }

    fn signatures(&self) -> usize {
        self.counts.values().map(|[_, _, signatures]| signatures).sum()
    }

    fn print(&self, name: &str) {
        let Results { counts, client_calls: for_people, unanswered, errors, .. } = self;
        let mut text = format!("{name}: {for_people} for people, {unanswered} unanswered, {errors} errors");
        for (path, [requests, answers, signatures]) in counts {
            text.push_str(&format!("\n  {path}: {requests} requests, {answers} answers, {signatures} signatures"));
        }
        print_notice(&text);
    }
}

/// The call being checked.
struct Checked<'a> {
    call: &'a Call,
    recording: &'a Recording,
}

impl Checked<'_> {
    fn context(&self) -> Context {
        Context::of(&self.recording.network)
    }

    /// Decodes a body, encodes it again and compares.
    fn same<T: Readable + Writable>(&self, format: Format, body: &[u8]) -> Result<T, &'static str> {
        let entity: T = format.read(body, self.context()).map_err(|_| "unreadable")?;
        let written = format.to_bytes(&entity);
        let body = if format == Format::Json { body.trim_ascii_end() } else { body };
        if written == body { Ok(entity) } else { Err("other bytes") }
    }

    /// Checks the request, also as this node would send it.
    fn request(&self) -> Result<(), &'static str> {
        let (format, body) = (self.call.request_format(), self.call.request.as_slice());
        let sent = match self.call.path.as_str() {
            "/node/cysm" => Message::CanYouSeeMe(&self.same::<Endpoint>(format, body)?).request(format),
            "/node/sign-of-life" => Message::SignOfLife(&self.same::<NodeInfo>(format, body)?).request(format),
            "/node/ping" => return self.same::<NodeExperiences>(format, body).map(drop),
            "/push/block" => {
                let pushed = self.same::<SecureEntity<Block>>(format, body)?;
                verified(&pushed)?;
                Message::PushBlock(&pushed).request(format)
            }
            "/push/transaction" => return verified(&self.same::<SecureEntity<Transaction>>(format, body)?),
            "/push/transactions" => {
                let pushed = self.same::<List<SecureEntity<Transaction>>>(format, body)?;
                pushed.0.iter().try_for_each(verified)?;
                Message::PushTransactions(&pushed).request(format)
            }
            _ => {
                let (query, challenge) = self.query()?;
                query.request(&challenge, format, &self.recording.network.chain)
            }
        };
        assert_eq!(sent.target, self.call.path);
        if *sent.body != *body {
            return Err("sent otherwise");
        }
        if self.call.response.len() > sent.body_limit { Err("an answer beyond the limit") } else { Ok(()) }
    }

    /// Returns the query and its challenge.
    fn query(&self) -> Result<(Query, Challenge), &'static str> {
        let (format, body) = (self.call.request_format(), self.call.request.as_slice());
        fn with<T>(
            (entity, challenge): (T, Challenge),
            query: impl Fn(T) -> Query,
        ) -> Result<(Query, Challenge), &'static str> {
            Ok((query(entity), challenge))
        }
        let plain = |query| Ok((query, self.same::<Challenge>(format, body)?));
        match self.call.path.as_str() {
            "/node/info" => plain(Query::NodeInfo),
            "/node/peer-list/active" => plain(Query::ActivePeers),
            "/node/experiences" => plain(Query::Experiences),
            "/chain/height" => plain(Query::Height),
            "/chain/score" => plain(Query::Score),
            "/chain/last-block" => plain(Query::LastBlock),
            "/time-sync/network-time" => plain(Query::NetworkTime),
            "/chain/hashes-from" => with(self.request_body(format, body)?, Query::HashesFrom),
            "/chain/blocks-after" => with(self.request_body::<ChainRequest>(format, body)?, Query::BlocksAfter),
            "/block/at" => with(self.request_body(format, body)?, Query::BlockAt),
            "/transactions/unconfirmed" => with(self.request_body::<ShortIds>(format, body)?, Query::Unconfirmed),
            path => panic!("{path} is not checked"),
        }
    }

    fn request_body<T: Readable + Writable>(
        &self,
        format: Format,
        body: &[u8],
    ) -> Result<(T, Challenge), &'static str> {
        let request: AuthenticatedRequest<T> = self.same(format, body)?;
        Ok((request.entity, request.challenge))
    }

    /// Checks an answer with status 200; returns the number of verified signatures of the answering node.
    fn answer(&self) -> Result<usize, &'static str> {
        match self.call.path.as_str() {
            "/node/sign-of-life" | "/node/ping" | "/push/block" | "/push/transaction" | "/push/transactions" => {
                if self.call.response.is_empty() { Ok(0) } else { Err("not empty") }
            }
            "/node/cysm" => self.bare::<Endpoint>(),
            "/node/peer-list/all" => self.bare::<NodeCollection>(),
            "/node/peer-list/reachable" => self.bare::<NodeList>(),
            "/node/active-peers/max-chain-height" => self.bare::<Height>(),
            "/node/experiences" if self.call.method == "GET" => self.bare::<List<ExperienceEntry>>(),
            "/node/info" => {
                self.introduction()?;
                self.signed::<NodeInfo>()
            }
            "/node/peer-list/active" => self.signed::<NodeList>(),
            "/node/experiences" => self.signed::<NodeExperiences>(),
            "/chain/height" => self.signed::<Height>(),
            "/chain/score" => self.signed::<Score>(),
            "/chain/last-block" | "/block/at" => self.signed::<Block>(),
            "/time-sync/network-time" => self.signed::<CommunicationTimeStamps>(),
            "/chain/hashes-from" => self.signed::<HashChain>(),
            "/chain/blocks-after" => self.blocks(),
            "/transactions/unconfirmed" => self.signed::<List<Transaction>>(),
            path => panic!("{path} is not checked"),
        }
    }

    fn bare<T: Readable + Writable>(&self) -> Result<usize, &'static str> {
        self.same::<T>(self.call.response_format(), &self.call.response).map(|_| 0)
    }

    /// Checks a signed answer to a challenge, or the answer to a GET.
    fn signed<T: Readable + Writable + PartialEq + Debug>(&self) -> Result<usize, &'static str> {
        if self.call.method == "GET" {
            return self.bare::<T>();
        }
        let (format, body) = (self.call.response_format(), self.call.response.as_slice());
        let (_, challenge) = self.query()?;
        let key = self.recording.keys[&self.call.to];
        let read = AnswerContext { format, context: self.context(), challenge, key: Some(key) }.read::<T>(body);
        let entity = read.map_err(describe)?;
        let response = self.same::<AuthenticatedResponse<T>>(format, body)?;
        assert_eq!(response.entity, entity);
        Ok(1)
    }

    /// A node of unknown key is identified by the key it proves.
    fn introduction(&self) -> Result<(), &'static str> {
        if self.call.method == "GET" {
            return Ok(());
        }
        let (_, challenge) = self.query()?;
        let body = self.call.response.as_slice();
        let format = self.call.response_format();
        let read = AnswerContext { format, context: self.context(), challenge, key: None }.read_introduction(body);
        let node = read.map_err(describe)?;
        if node.identity.key == self.recording.keys[&self.call.to] { Ok(()) } else { Err("another node") }
    }

    /// Checks a list of blocks as a whole and one by one.
    fn blocks(&self) -> Result<usize, &'static str> {
        let signatures = self.signed::<List<Block>>()?;
        let (format, body) = (self.call.response_format(), self.call.response.as_slice());
        let whole: AuthenticatedResponse<List<Block>> = self.same(format, body)?;
        let (_, challenge) = self.query()?;
        let key = &self.recording.keys[&self.call.to];
        let expected = AnswerContext { format, context: self.context(), challenge: challenge.clone(), key: Some(*key) };
        let mut list = expected.open_list::<Block>(body.to_vec(), body.len()).expect("a list");
        assert_eq!(list.left(), whole.entity.0.len());
        let mut blocks = Vec::new();
        while let Some(block) = list.next(self.context()) {
            blocks.push(block.expect("a block"));
        }
        assert_eq!((blocks, list.left()), (whole.entity.0, 0));
        Ok(signatures)
    }

    /// Checks an error answer.
    fn error(&self) -> Result<(), &'static str> {
        let error: ErrorBody = self.same(self.call.response_format(), &self.call.response)?;
        assert_eq!(Some(error.status), self.call.status.map(i32::from));
        assert_eq!(error.is_starting(), error.status == 503);
        Ok(())
    }
}

fn describe(error: AnswerError) -> &'static str {
    match error {
        AnswerError::Unreadable(_) => "unreadable",
        AnswerError::Impersonated => "impersonated",
    }
}

fn verified<T: Writable>(pushed: &SecureEntity<T>) -> Result<(), &'static str> {
    if pushed.verify().0 { Ok(()) } else { Err("forged push") }
}

/// Checks a recording of well-behaved nodes with this many calls and signed answers.
fn check(name: &str, calls: usize, signatures: usize) {
    let folder = recorded("peer");
    let recording = read(&folder, name);
    let found = Results::check(name, &recording);
    assert_eq!((recording.calls.len(), found.signatures()), (calls, signatures));
    assert_eq!(found.differences, BTreeSet::new());
}

#[test]
fn recorded_bootstrap_messages_are_decoded() {
    check("bootstrap", 1939, 1915);
}

#[test]
fn recorded_join_messages_are_decoded() {
    check("join", 532, 387);
}

#[test]
fn recorded_steady_state_messages_are_decoded() {
    check("steady", 1258, 883);
}

#[test]
fn recorded_fork_messages_are_decoded() {
    check("fork", 353, 197);
}

#[test]
fn recorded_messages_of_faulty_peers_are_decoded_except_for_their_faults() {
    let folder = recorded("peer");
    let recording = read(&folder, "misbehave");
    let found = Results::check("misbehave", &recording);
    assert_eq!((recording.calls.len(), found.signatures()), (266, 144));
    let explained = EXPLAINED.map(|(path, place, how)| (path.to_owned(), place.to_owned(), how));
    assert_eq!(found.differences, BTreeSet::from(explained));
}
