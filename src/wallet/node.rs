//! Requests to a node, its answer to an announcement in plain words, and what became of a transaction.

use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::transaction::{SignedTransaction, context, transaction_of};
use crate::clock::System;
use crate::codec::json::JsonDecoder;
use crate::codec::{lenient_json, mosaic::read_definition};
use crate::crypto::PublicKey;
use crate::local_cookie::{FILE, LocalCookie};
use crate::metrics::Scrape;
use crate::model::{Address, Hash256, Height, MosaicId, NetworkByte, Timestamp, Transaction, is_invisible};
use crate::net::blocking_client::BlockingClient;
use crate::net::fetch::{Endpoint, FetchError, Response};
use crate::rules::ValidationResult;
use crate::state::MosaicEntry;

/// Default port of a node's HTTP interface.
const DEFAULT_PORT: u16 = 7890;
/// Data folder of a node without settings, in the user's home; those of other networks are beside it.
const DEFAULT_DATA: &str = "nem/nisd/mainnet";
/// Route of a transaction by its hash.
const TRANSACTION: &str = "/transaction/get";
/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum characters of a node's message that are shown.
const MAX_SHOWN: usize = 200;

/// A node did not answer a request as expected.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No answer.
    #[error("the node {node} does not answer: {error}. Is it running, and is --node right?")]
    NoAnswer { node: String, error: FetchError },
    /// A signal ended the wait for the answer.
    #[error("a signal ended the wait for the node {0}")]
    Stopped(String),
    /// The node rejected the request.
    #[error("{}", rejection(node, route, *status, words))]
    Rejected { node: String, route: &'static str, status: u16, words: String },
    /// The event stream has ended, which is usual when a node restarts.
    #[error("the event stream of the node {node} ended: {reason}")]
    StreamEnded { node: String, reason: String },
    /// The node does not answer as this program needs it; the text says how, and what to do.
    #[error("{0}")]
    Unusable(String),
}

impl NodeError {
    /// Returns whether the node may have done what was requested: no answer says that it did not.
    pub fn may_be_done(&self) -> bool {
        match self {
            NodeError::NoAnswer { error, .. } => !matches!(
                error,
                FetchError::UnknownHost(_)
                    | FetchError::OutOfScope(_)
                    | FetchError::Unreachable(_)
                    | FetchError::BadTarget
            ),
            NodeError::Rejected { status, words, .. } => *status >= 500 && !is_not_ready(*status, words),
            NodeError::Stopped(_) | NodeError::StreamEnded { .. } | NodeError::Unusable(_) => true,
        }
    }
}

/// Returns whether a node itself says that it is not ready; it has done nothing then. A proxy that lost the answer also
/// answers 503.
fn is_not_ready(status: u16, words: &str) -> bool {
    status == 503 && words.starts_with("NIS_ILLEGAL_STATE_")
}

fn rejection(node: &str, route: &str, status: u16, words: &str) -> String {
    match status {
        429 => format!("the node {node} has received too many requests; wait a moment"),
        503 if is_not_ready(status, words) => {
            format!("the node {node} is not ready ({words}); try again when it has started")
        }
        _ => format!("the node {node} rejected {route} with status {status}: {words}"),
    }
}

/// A node that is queried over HTTP.
pub struct NodeClient {
    pub(super) client: BlockingClient,
    /// The node does not tell what became of transactions, like NIS1.
    lacks_statuses: Cell<bool>,
    /// Why requests do not carry the secret of the node's data folder.
    lacks_cookie: String,
}

impl NodeClient {
    /// Creates a client for the node at a URL. It finds the secret of local requests in the data folder of the node, if that
    /// is known, or one beside it, or else in a default one. The error describes what is wrong with the URL.
    pub fn at(url: &str, data: Option<&Path>) -> Result<NodeClient, String> {
        let (endpoint, context) = Endpoint::parse(url, DEFAULT_PORT)?;
        let default = std::env::home_dir().unwrap_or_default().join(DEFAULT_DATA);
        let find = |folder: &Path| LocalCookie::find(folder, endpoint.port);
        let found = find(data.unwrap_or(&default)).or_else(|reason| find(&default).map_err(|_| reason));
        let lacks_cookie = found.as_ref().err().cloned().unwrap_or_default();
        let mut client = BlockingClient::new(endpoint, REQUEST_TIMEOUT);
        (client.context, client.cookie) = (context, found.ok());
        Ok(NodeClient { client, lacks_statuses: Cell::new(false), lacks_cookie })
    }

    /// Lets the wait for an answer end with an error once `stop` is set.
    pub fn stop_at(&mut self, stop: Arc<AtomicBool>) {
        self.client.stop = stop;
    }

    /// Returns the node's URL.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.client.endpoint, self.client.context)
    }

    /// Returns the node's network byte.
    pub fn network(&self) -> Result<NetworkByte, NodeError> {
        const ROUTE: &str = "/node/info";
        let id: i32 = self.get(ROUTE, "", "/metaData/networkId")?;
        let byte = i8::try_from(id).map(|signed| signed as u8).or(u8::try_from(id));
        byte.map(NetworkByte).map_err(|_| self.invalid_answer(ROUTE, format!("network {id}")))
    }

    /// Returns the name of the node's network, if it is a nisd that gives local access; other nodes do not reveal it.
    pub fn network_name(&self) -> Option<String> {
        let metrics = self.metrics().ok()?;
        let name = metrics.samples_of("nisd_info").next()?.label("network").to_owned();
        (!name.is_empty()).then(|| printable(&name))
    }

    /// Returns whether an account is the only one that harvests on the node.
    pub fn is_only_harvester(&self, address: &Address) -> Result<bool, NodeError> {
        const UNLOCKED: &str = "/account/unlocked/info";
        let status: String = self.get("/account/status", &format!("?address={address}"), "/status")?;
        if status != "UNLOCKED" {
            return Ok(false);
        }
        let count: i64 = self.read(UNLOCKED, self.client.post_json(UNLOCKED, b"{}"), "/num-unlocked")?;
        Ok(count == 1)
    }

    /// Returns network time, in whole seconds.
    pub fn time(&self) -> Result<Timestamp, NodeError> {
        const ROUTE: &str = "/time-sync/network-time";
        let millis: i64 = self.get(ROUTE, "", "/receiveTimeStamp")?;
        let seconds = i32::try_from(millis.div_euclid(1000)).ok().filter(|seconds| *seconds >= 0);
        seconds.map(Timestamp).ok_or_else(|| self.invalid_answer(ROUTE, format!("time {millis}")))
    }

    /// Returns the public key of an account, if the chain has revealed it. It is verified.
    pub fn public_key(&self, address: &Address, network: NetworkByte) -> Result<Option<PublicKey>, NodeError> {
        const ROUTE: &str = "/account/get";
        let account: Map<String, Value> = self.get(ROUTE, &format!("?address={address}"), "/account")?;
        let key: Option<String> = self.member(ROUTE, &account.into(), "/publicKey")?;
        let key = key.map(|text| PublicKey::from_hex(&text)).transpose();
        let key = key.map_err(|error| self.invalid_answer(ROUTE, error))?;
        match key {
            Some(key) if Address::from_public_key(&key, network) != *address => {
                Err(self.invalid_answer(ROUTE, "the public key of another account"))
            }
            key => Ok(key),
        }
    }

    /// Returns a mosaic's definition and supply.
    pub fn mosaic(&self, id: &MosaicId, network: NetworkByte) -> Result<MosaicEntry, NodeError> {
        const ROUTE: &str = "/mosaic/definition";
        let query = format!("?mosaicId={}", id.to_string().replace(' ', "%20"));
        let answer = self.success_body(ROUTE, self.client.get(&format!("{ROUTE}{query}")));
        let text = answer.map_err(|error| match error {
            NodeError::Rejected { node, status: 404, .. } => NodeError::Unusable(format!(
                "the node {node} knows no mosaic {id}: its name is another one, or its namespace has expired"
            )),
            other => other,
        })?;
        let value = lenient_json::parse(&text).map_err(|error| self.invalid_answer(ROUTE, error))?;
        let source = JsonDecoder::new(&value, context(network));
        let definition = source.and_then(|mut source| read_definition(&mut source));
        let definition = definition.map_err(|error| self.invalid_answer(ROUTE, error))?;
        if definition.id != *id {
            return Err(self.invalid_answer(ROUTE, "another mosaic"));
        }
        Ok(MosaicEntry { definition, supply: self.get("/mosaic/supply", &query, "/supply")? })
    }

    /// Announces a signed transaction.
    pub fn announce(&self, packet: &SignedTransaction) -> Result<AnnounceResult, NodeError> {
        const ROUTE: &str = "/transaction/announce";
        let answer: Value = self.read(ROUTE, self.client.post_json(ROUTE, packet.to_json().as_bytes()), "")?;
        let code = self.member(ROUTE, &answer, "/code")?;
        let name: String = self.member(ROUTE, &answer, "/message")?;
        let hash = packet.transaction.hash();
        if answer.pointer("/transactionHash/data").and_then(Value::as_str).and_then(Hash256::from_hex) != Some(hash) {
            return Err(self.invalid_answer(ROUTE, format!("another hash than {hash}")));
        }
        let inner_hash = packet.transaction.inner().map(Transaction::hash);
        Ok(AnnounceResult { code, name: printable(&name), hash, inner_hash })
    }

    /// Returns the node's peer report, as the text of its JSON and parsed.
    pub fn peers(&self) -> Result<(String, Value), NodeError> {
        const PEERS: &str = "/local/peers";
        let body = self.success_body(PEERS, self.client.get(PEERS))?;
        let report = self.parse(PEERS, &body, "")?;
        Ok((String::from_utf8_lossy(&body).into_owned(), report))
    }

    /// Returns the node's metrics, parsed from Prometheus' text format.
    pub fn metrics(&self) -> Result<Scrape, NodeError> {
        const METRICS: &str = "/metrics";
        let body = self.success_body(METRICS, self.client.get(METRICS))?;
        let text = String::from_utf8(body).map_err(|error| self.invalid_answer(METRICS, error))?;
        Scrape::parse(&text).map_err(|error| self.invalid_answer(METRICS, error))
    }

    /// Returns what became of a transaction. A node that does not tell it, like NIS1, only knows whether it is
    /// confirmed.
    pub fn status(&self, hash: &Hash256) -> Result<TransactionStatus, NodeError> {
        const ROUTE: &str = "/transaction/status";
        if !self.lacks_statuses.get() {
            match self.client.get(&format!("{ROUTE}?hash={hash}")) {
                Ok(Response { status: 404, .. }) => self.lacks_statuses.set(true),
                answer => {
                    let mut status: TransactionStatus = self.read(ROUTE, answer, "")?;
                    // It is the hash that was asked for.
                    status.details.as_object_mut().map(|details| details.remove("hash"));
                    return Ok(status);
                }
            }
        }
        let Some(answer) = self.transaction(hash)? else {
            return Ok(TransactionStatus { fate: Fate::Unknown, details: json!({}) });
        };
        let height: u64 = self.parse(TRANSACTION, &answer, "/meta/height")?;
        Ok(TransactionStatus { fate: Fate::Confirmed, details: json!({ "height": height }) })
    }

    /// Returns a confirmed transaction, without its signature, by its hash or that of its inner transaction, and the height
    /// of its block. The hash is verified, the height is not.
    pub fn confirmed(&self, hash: &Hash256) -> Result<Option<(Transaction, Height)>, NodeError> {
        let Some(answer) = self.transaction(hash)? else { return Ok(None) };
        let height = Height(self.parse(TRANSACTION, &answer, "/meta/height")?);
        let value = lenient_json::parse(&answer).map_err(|error| self.invalid_answer(TRANSACTION, error))?;
        let transaction = value.get("transaction").ok_or_else(|| self.invalid_answer(TRANSACTION, "no transaction"))?;
        let transaction = transaction_of(transaction).map_err(|error| self.invalid_answer(TRANSACTION, error))?;
        let hashes = [Some(transaction.hash()), transaction.inner().map(Transaction::hash)];
        if !hashes.contains(&Some(*hash)) {
            return Err(self.invalid_answer(TRANSACTION, format!("a transaction with another hash than {hash}")));
        }
        Ok(Some((transaction, height)))
    }

    /// Returns the time of the block at a height.
    pub fn time_of(&self, height: Height) -> Result<Timestamp, NodeError> {
        const ROUTE: &str = "/block/at/public";
        let body = format!("{{\"height\":{height}}}");
        self.read(ROUTE, self.client.post_json(ROUTE, body.as_bytes()), "/timeStamp").map(Timestamp)
    }

    /// Returns the answer to a query for a transaction; `None` if it is not confirmed.
    fn transaction(&self, hash: &Hash256) -> Result<Option<Vec<u8>>, NodeError> {
        let answer = self.client.get(&format!("{TRANSACTION}?hash={hash}&nested=true"));
        // Any other server also answers 404, which says nothing about the chain.
        let is_of_nem = |Response { status, body }: &Response| {
            let error = serde_json::from_slice::<Value>(body).unwrap_or_default();
            matches!(status, 400 | 404) && error["status"] == *status && error["message"].is_string()
        };
        if answer.as_ref().is_ok_and(is_of_nem) {
            return Ok(None);
        }
        self.success_body(TRANSACTION, answer).map(Some)
    }

    /// Returns the member at a JSON pointer of the answer to a GET request.
    fn get<T: DeserializeOwned>(&self, route: &'static str, query: &str, member: &str) -> Result<T, NodeError> {
        self.read(route, self.client.get(&format!("{route}{query}")), member)
    }

    fn read<T: DeserializeOwned>(
        &self,
        route: &'static str,
        answer: Result<Response, FetchError>,
        member: &str,
    ) -> Result<T, NodeError> {
        self.parse(route, &self.success_body(route, answer)?, member)
    }

    fn parse<T: DeserializeOwned>(&self, route: &'static str, body: &[u8], member: &str) -> Result<T, NodeError> {
        let value = serde_json::from_slice(body).map_err(|error| self.invalid_answer(route, error))?;
        self.member(route, &value, member)
    }

    /// Returns the member of an answer at a JSON pointer. A missing one counts as null.
    fn member<T: DeserializeOwned>(&self, route: &'static str, answer: &Value, member: &str) -> Result<T, NodeError> {
        let value = answer.pointer(member).unwrap_or(&Value::Null);
        T::deserialize(value).map_err(|error| self.invalid_answer(route, format!("{member}: {error}")))
    }

    /// Returns the body of a response with status 200; any other status is an error.
    pub(super) fn success_body(
        &self,
        route: &'static str,
        answer: Result<Response, FetchError>,
    ) -> Result<Vec<u8>, NodeError> {
        let node = self.url();
        let is_stopped = self.client.stop.load(Ordering::Relaxed);
        let answer = answer.map_err(|error| {
            let node = node.clone();
            if is_stopped { NodeError::Stopped(node) } else { NodeError::NoAnswer { node, error } }
        })?;
        let status = answer.status;
        if status == 200 {
            return Ok(answer.body);
        }
        if status == 401 {
            let reason = match self.client.cookie {
                Some(_) => {
                    "the one found is not of the node that listens there: the file is new at each start. Only a \
                            client on the node's own machine has local access"
                        .to_owned()
                }
                None => format!("{}. --data or --config name the folder", self.lacks_cookie),
            };
            return Err(NodeError::Unusable(format!(
                "the node {node} answers {route} only with the secret of the file {FILE} in its data folder, and {reason}"
            )));
        }
        let failure = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        let words = failure.get("message").and_then(Value::as_str).or_else(|| container_reason(&answer.body));
        let words = words.map(printable);
        Err(match words {
            None if status == 404 => NodeError::Unusable(format!(
                "the node {node} has no route {route}: is it a nisd of this version, and is this the port of its HTTP \
                 interface? If nem.apiContext is set, its URL ends with that"
            )),
            words => {
                let unknown =
                    if status == 429 { "too many requests at once; wait a moment" } else { "no reason given" };
                let words = words.unwrap_or_else(|| unknown.to_owned());
                NodeError::Rejected { node, route, status, words }
            }
        })
    }

    pub(super) fn invalid_answer(&self, route: &'static str, reason: impl fmt::Display) -> NodeError {
        let (node, reason) = (self.url(), printable(&reason.to_string()));
        NodeError::Unusable(format!(
            "the answer of the node {node} to {route} is invalid ({reason}); is it a NEM node?"
        ))
    }
}

/// Returns the reason on the page of a message that the node could not take.
fn container_reason(page: &[u8]) -> Option<&str> {
    let (_, reason) = str::from_utf8(page).ok()?.split_once("<pre>reason: ")?;
    reason.split_once("</pre>").map(|(reason, _)| reason)
}

/// Replaces characters in a node's message that could disturb the terminal, and cuts it to `MAX_SHOWN`.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_invisible(c) { ' ' } else { c }).take(MAX_SHOWN).collect()
}

/// A node's answer to an announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnounceResult {
    /// Result code.
    pub code: i32,
    /// Name of the result, as the node returned it.
    pub name: String,
    /// Hash of the transaction.
    pub hash: Hash256,
    /// Hash of the inner transaction of a multisig transaction; cosignatories sign it.
    pub inner_hash: Option<Hash256>,
}

impl AnnounceResult {
    /// Returns whether the node neither accepted nor rejected the transaction, as it knows it already.
    pub fn is_neutral(&self) -> bool {
        self.code == ValidationResult::Neutral.code()
    }

    /// Returns whether the node accepted the transaction.
    pub fn is_success(&self) -> bool {
        self.code == ValidationResult::Success.code()
    }
}

impl fmt::Display for AnnounceResult {
    /// Writes one line for each field, for people and scripts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "result: {}\ncode: {}\nhash: {}", self.name, self.code, self.hash)?;
        self.inner_hash.map_or(Ok(()), |hash| write!(f, "\ninner hash: {hash}"))
    }
}

/// Explains a result and gives advice.
pub fn explain_result(code: i32) -> String {
    let Some(result) = ValidationResult::from_code(code) else {
        return "a result that is unknown to this program".to_owned();
    };
    let option = match result {
        ValidationResult::FailurePastDeadline => " (--deadline)",
        ValidationResult::FailureInsufficientFee => "; `nisd send` without --fee pays it",
        ValidationResult::FailureTransactionNotAllowedForMultisig => ", with --multisig-account",
        _ => "",
    };
    result.explanation() + option
}

/// Poll interval while waiting for the end of a transaction.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The status of a transaction. Names are those of the HTTP interface, numbers the exit codes of `nisd status-of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It is in the chain.
    Confirmed = 0,
    /// It is in the mempool.
    Unconfirmed = 3,
    /// It is invalid, or a block made it invalid.
    Rejected = 4,
    /// Its deadline passed.
    Expired = 5,
    /// The mempool was full.
    Evicted = 6,
    /// Its block was rolled back, and it is invalid in the chain that replaced it.
    Replaced = 7,
    /// Nothing is known of it.
    Unknown = 8,
}

/// What became of a transaction: the answer of `/transaction/status`, as far as the node tells it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct TransactionStatus {
    /// The status.
    #[serde(rename = "status")]
    pub fate: Fate,
    #[serde(flatten)]
    details: Value,
}

impl TransactionStatus {
    /// Returns whether it will not be confirmed, as far as the node knows.
    pub fn is_failure(&self) -> bool {
        matches!(self.fate, Fate::Rejected | Fate::Expired | Fate::Evicted | Fate::Replaced)
    }

    /// Returns whether the node, which keeps the fates of transactions, knows nothing of it: not since its last start.
    pub fn is_forgotten(&self) -> bool {
        self.fate == Fate::Unknown && self.number("knownSince") > 0
    }

    /// Returns whether waiting for another status is of no use.
    pub fn is_final(&self) -> bool {
        self.is_failure() || self.fate == Fate::Confirmed
    }

    /// Returns a number of the answer; 0 if it is missing.
    pub fn number(&self, name: &str) -> u64 {
        self.details.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    fn time(&self, name: &str) -> String {
        let second = i32::try_from(self.number(name)).unwrap_or(i32::MAX);
        format!("{} UTC", Timestamp(second).date_and_time())
    }
}

/// Returns a text of an answer as it may be shown.
fn text(object: &Value, name: &str) -> String {
    object.get(name).and_then(Value::as_str).map(printable).unwrap_or_default()
}

/// Returns how many cosignatories a multisig transaction needs, and the addresses of those that have signed it and of those
/// that have not.
pub(super) fn signatures(multisig: &Value) -> (u64, [Vec<String>; 2]) {
    let signers = |name| multisig.get(name).and_then(Value::as_array).into_iter().flatten();
    let addresses = |name| signers(name).map(|signer| text(signer, "address")).collect();
    let required = multisig.get("required").and_then(Value::as_u64);
    (required.unwrap_or_default(), ["signed", "missing"].map(addresses))
}

impl fmt::Display for TransactionStatus {
    /// Writes lines for people, without the last line end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |name: &str| self.details.get(name).filter(|value| !value.is_null());
        match self.fate {
            Fate::Unconfirmed => {
                write!(f, "unconfirmed since {}, deadline {}", self.time("since"), self.time("deadline"))?;
                let Some(multisig) = known("multisig") else { return Ok(()) };
                let (required, [signed, missing]) = signatures(multisig);
                write!(f, "\nsigned by {} of {required} needed: {}", signed.len(), signed.join(" "))?;
                if missing.is_empty() { Ok(()) } else { write!(f, "\nnot signed by: {}", missing.join(" ")) }
            }
            Fate::Confirmed => {
                write!(f, "confirmed at height {}", self.number("height"))?;
                if known("blockHash").is_none() {
                    return Ok(());
                }
                let (index, hash) = (self.number("index"), text(&self.details, "blockHash"));
                write!(f, ", transaction {index} of block {hash}, confirmations: {}", self.number("confirmations"))
            }
            Fate::Rejected | Fate::Expired | Fate::Evicted | Fate::Replaced => {
                let word = format!("{:?}", self.fate).to_lowercase();
                let [reason, message] = ["reason", "message"].map(|name| text(&self.details, name));
                write!(f, "{word} since {}: {reason} ({message})", self.time("since"))?;
                let Some(conflict) = known("conflict") else { return Ok(()) };
                write!(f, "\nin conflict with {}, ", text(conflict, "hash"))?;
                match conflict.get("height").and_then(Value::as_u64) {
                    Some(height) => write!(f, "confirmed at height {height}"),
                    None => write!(f, "unconfirmed"),
                }
            }
            Fate::Unknown if known("knownSince").is_some() => {
                let since = self.time("knownSince");
                write!(f, "unknown: the node has not seen it since {since}, and it is not in the chain")
            }
            Fate::Unknown => {
                write!(f, "unknown: the node finds no confirmed transaction of this hash, and tells nothing of others")
            }
        }
    }
}

/// Polls until a transaction is confirmed or will not be, at most for this time; returns the last status. Calls `tell`
/// for each status that is another than before.
pub fn await_end(
    node: &NodeClient,
    hash: &Hash256,
    limit: Duration,
    system: System,
    mut tell: impl FnMut(&TransactionStatus),
) -> Result<TransactionStatus, NodeError> {
    let end = (system.millis)().saturating_add(limit.as_millis() as u64);
    let mut before = None;
    loop {
        let is_last = (system.millis)() >= end;
        match node.status(hash) {
            Ok(status) if is_last || status.is_final() => return Ok(status),
            Ok(status) => {
                if before.as_ref() != Some(&status) {
                    tell(&status);
                    before = Some(status);
                }
            }
            // A retry may succeed.
            Err(NodeError::NoAnswer { .. } | NodeError::Rejected { status: 429 | 503, .. }) if !is_last => {}
            Err(error) => return Err(error),
        }
        (system.sleep)(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_a_node_cannot_disturb_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\u{202e}c\u{200d}d\u{2066}e\nf é 漢"), "a [31mb c d e f é 漢");
    }

    #[test]
    fn results_are_explained_in_plain_words() {
        let words = explain_result(ValidationResult::FailureInsufficientBalance.code());
        assert!(words.starts_with("insufficient balance: the account"), "{words}");
        assert_eq!(explain_result(128), "namespace provision too early");
        let page = |reason| format!("<h1>Bad Message 503</h1><pre>reason: {reason}</pre>");
        assert_eq!(container_reason(page("too many connections").as_bytes()), Some("too many connections"));
        assert_eq!([&b"<pre>reason: x"[..], b"{}", b"\xff"].map(container_reason), [None; 3]);
        // A second signature of one account is rejected with this result, too.
        let words = explain_result(ValidationResult::FailureMultisigNoMatchingMultisig.code());
        assert!(words.contains("which may have signed already"), "{words}");
        assert!(explain_result(-7).contains("unknown"));
        for result in ValidationResult::ALL {
            let words = explain_result(result.code());
            assert!(!words.contains("FAILURE") && !words.contains('_'), "{words}");
        }
    }

    #[test]
    fn an_announce_result_has_one_line_per_field() {
        let mut answer = AnnounceResult {
            code: 1,
            name: "SUCCESS".to_owned(),
            hash: Hash256([1; 32]),
            inner_hash: Some(Hash256([2; 32])),
        };
        let expected = format!("result: SUCCESS\ncode: 1\nhash: {}\ninner hash: {}", "01".repeat(32), "02".repeat(32));
        assert_eq!(answer.to_string(), expected);
        answer.inner_hash = None;
        assert_eq!(answer.to_string().lines().count(), 3);
    }
}

#[cfg(test)]
mod status_tests {
    use super::*;

    fn shown(json: &str) -> (String, bool) {
        let status: TransactionStatus = serde_json::from_str(json).unwrap();
        (status.to_string(), status.is_final())
    }

    #[test]
    fn each_status_is_shown_in_words() {
        let since = "since 2015-03-29 01:00:25 UTC";
        let unconfirmed = format!("unconfirmed {since}, deadline 2015-03-29 02:00:25 UTC");
        let because = r#","since":3240,"code":5,"message":"FAILURE_X","reason":"too\tlittle"}"#;
        let multisig = r#"{"signed":[{"address":"TA"}],"missing":[{"address":"TB"},{"address":"TC"}],"required":2}"#;
        let cases = [
            (
                r#"{"hash":"ab","status":"unconfirmed","since":3240,"deadline":6840}"#.to_owned(),
                unconfirmed.clone(),
                false,
            ),
            (
                format!(r#"{{"status":"unconfirmed","since":3240,"deadline":6840,"multisig":{multisig}}}"#),
                format!("{unconfirmed}\nsigned by 1 of 2 needed: TA\nnot signed by: TB TC"),
                false,
            ),
            (
                r#"{"status":"confirmed","height":55,"index":0,"blockHash":"0f","confirmations":6}"#.to_owned(),
                "confirmed at height 55, transaction 0 of block 0f, confirmations: 6".to_owned(),
                true,
            ),
            (
                r#"{"status":"unknown","knownSince":3240}"#.to_owned(),
                format!("unknown: the node has not seen it {since}, and it is not in the chain"),
                false,
            ),
        ];
        let failures = ["rejected", "expired", "evicted", "replaced"].map(|word| {
            let text = format!("{word} {since}: too little (FAILURE_X)");
            (format!(r#"{{"status":"{word}"{because}"#), text, true)
        });
        let conflicts =
            [(r#"{"hash":"cd","height":56}"#, "confirmed at height 56"), (r#"{"hash":"cd"}"#, "unconfirmed")];
        let replaced = conflicts.map(|(conflict, words)| {
            let json = failures[3].0.replace('}', &format!(r#","conflict":{conflict}}}"#));
            (json, format!("{}\nin conflict with cd, {words}", failures[3].1), true)
        });
        for (json, text, is_final) in cases.into_iter().chain(failures).chain(replaced) {
            assert_eq!(shown(&json), (text, is_final), "{json}");
        }
        assert_eq!(shown(r#"{"status":"confirmed","height":7}"#).0, "confirmed at height 7");
    }
}
