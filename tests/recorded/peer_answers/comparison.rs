//! Compares answers of this node with the recorded ones.

use nisd::codec::{Context, Format, Readable, Writable};
use nisd::model::{Block, Height, Transaction};
use nisd::peer::wire::{
    AuthenticatedRequest, AuthenticatedResponse, ChainRequest, Challenge, CommunicationTimeStamps, Endpoint, ErrorBody,
    HashChain, List, NodeExperiences, NodeInfo, NodeList, Score, ShortIds,
};

use crate::common::http::Response;
use crate::common::http::post;
use crate::recorded::peer_recording::Call;

/// Parts of an answer that are not compared.
const PLATFORM: &str = "the platform";
const RANDOM_CHOICE: &str = "all but the signature: what it knows of others, or draws among them";
const CLOCK: &str = "all but the signature: the clock";
const ORDER: &str = "the order of the transactions";
const ERROR: &str = "the second of the error";
const REASON: &str = "the text and the second of the error";

/// Result of a comparison.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Equal byte for byte.
    Equal,
    /// Equal except for this part.
    Masked(&'static str),
    Skipped(&'static str),
    /// The answer must differ and does.
    Explained(&'static str),
    Differs(String),
}

/// The same request and its answer in JSON.
pub struct Translated {
    pub request: Vec<u8>,
    pub answer: Vec<u8>,
}

/// Converts a binary exchange to JSON; `None` if it is not binary or changes something.
pub fn in_json(call: &Call, context: Context) -> Option<Translated> {
    type Asked<T> = AuthenticatedRequest<T>;
    type Answered<T> = AuthenticatedResponse<T>;
    if call.status != Some(200) || [call.request_format(), call.response_format()] != [Format::Binary; 2] {
        return None;
    }
    let translate = match call.path.as_str() {
        "/chain/height" => translated::<Challenge, Answered<Height>>,
        "/chain/score" => translated::<Challenge, Answered<Score>>,
        "/chain/last-block" => translated::<Challenge, Answered<Block>>,
        "/block/at" => translated::<Asked<Height>, Answered<Block>>,
        "/chain/hashes-from" => translated::<Asked<Height>, Answered<HashChain>>,
        "/chain/blocks-after" => translated::<Asked<ChainRequest>, Answered<List<Block>>>,
        "/transactions/unconfirmed" => translated::<Asked<ShortIds>, Answered<List<Transaction>>>,
        "/node/cysm" => translated::<Endpoint, Endpoint>,
        _ => return None,
    };
    translate(call, context)
}

fn translated<Q: Readable + Writable, A: Readable + Writable>(call: &Call, context: Context) -> Option<Translated> {
    let asked: Q = Format::Binary.read(&call.request, context).ok()?;
    let answered: A = Format::Binary.read(&call.response, context).ok()?;
    let (body, answer) = (Format::Json.to_bytes(&asked), Format::Json.to_bytes(&answered));
    let text = String::from_utf8(body).expect("JSON is text");
    Some(Translated { request: post(&call.path, &text).into_bytes(), answer: [answer.as_slice(), b"\r\n"].concat() })
}

/// Compares an answer with that to a recorded request.
pub fn compare(call: &Call, got: &Response, context: Context) -> Outcome {
    if Some(got.status) != call.status {
        return Outcome::Differs(format!("{:?} was {}: {}", call.status, got.status, shown(&got.body)));
    }
    let (expected, headers) = (headers(&call.response_headers), headers(&got.headers));
    if expected != headers {
        return Outcome::Differs(format!("headers {expected:?} were {headers:?}"));
    }
    if call.response == got.body {
        return Outcome::Equal;
    }
    match (Masked { call, got, context }).compare() {
        Some(mask) => Outcome::Masked(mask),
        None => Outcome::Differs(format!("{}\n    was {}", shown(&call.response), shown(&got.body))),
    }
}

/// Two answers that are not byte for byte equal.
struct Masked<'a> {
    call: &'a Call,
    got: &'a Response,
    context: Context,
}

impl Masked<'_> {
    /// Returns the allowed difference; `None` if they may not differ so.
    fn compare(&self) -> Option<&'static str> {
        if self.got.status != 200 {
            return self.same_error();
        }
        match self.call.path.as_str() {
            "/node/info" if self.call.method == "GET" => {
                let [expected, mut got] = self.both::<NodeInfo>()?;
                got.meta_data.platform.clone_from(&expected.meta_data.platform);
                (expected == got).then_some(PLATFORM)
            }
            "/node/info" => {
                let [expected, mut got] = self.both::<AuthenticatedResponse<NodeInfo>>()?;
                got.entity.meta_data.platform.clone_from(&expected.entity.meta_data.platform);
                (expected == got).then_some(PLATFORM)
            }
            "/node/peer-list/active" => self.same_signature::<NodeList>(RANDOM_CHOICE),
            "/node/experiences" => self.same_signature::<NodeExperiences>(RANDOM_CHOICE),
            "/time-sync/network-time" if self.call.method == "GET" => {
                self.both::<CommunicationTimeStamps>().map(|_| CLOCK)
            }
            "/time-sync/network-time" => self.same_signature::<CommunicationTimeStamps>(CLOCK),
            "/transactions/unconfirmed" => {
                let sorted = |answer: &AuthenticatedResponse<List<Transaction>>| {
                    let mut hashes: Vec<_> = answer.entity.0.iter().map(|one| Format::Binary.to_bytes(one)).collect();
                    hashes.sort();
                    hashes
                };
                self.same_signature::<List<Transaction>>(ORDER)?;
                let [expected, got] = self.both::<AuthenticatedResponse<List<Transaction>>>()?;
                (sorted(&expected) == sorted(&got)).then_some(ORDER)
            }
            _ => None,
        }
    }

    fn both<T: Readable>(&self) -> Option<[T; 2]> {
        let read = |body: &[u8]| self.call.response_format().read::<T>(body, self.context).ok();
        Some([read(&self.call.response)?, read(&self.got.body)?])
    }

    fn same_signature<T: Readable>(&self, mask: &'static str) -> Option<&'static str> {
        let [expected, got] = self.both::<AuthenticatedResponse<T>>()?;
        (expected.signature == got.signature).then_some(mask)
    }

    fn same_error(&self) -> Option<&'static str> {
        let [mut expected, got] = self.both::<ErrorBody>()?;
        expected.timestamp = got.timestamp;
        if expected == got {
            return Some(ERROR);
        }
        expected.message.clone_from(&got.message);
        (expected == got).then_some(REASON)
    }
}

/// Returns the headers of an answer except those that tell how its end is marked.
fn headers(all: &[(String, String)]) -> Vec<(String, String)> {
    let left_out = ["server", "transfer-encoding", "content-length", "connection"];
    all.iter().filter(|(name, _)| !left_out.contains(&name.to_lowercase().as_str())).cloned().collect()
}

fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let shown: String = text.chars().take(300).collect();
    format!("{} bytes {shown:?}", body.len())
}
