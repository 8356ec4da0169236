//! What is asked of a node.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::announced::Announced;
use super::packet::{Packet, context, transaction_of};
use crate::codec::json::JsonSource;
use crate::codec::{lax_json, mosaic::read_definition};
use crate::crypto::PublicKey;
use crate::figures::Reading;
use crate::model::{Address, Hash256, Height, MosaicId, NetworkByte, Timestamp, Transaction};
use crate::net::client::Client;
use crate::net::fetch::{Endpoint, FetchError, Response};
use crate::state::MosaicEntry;

/// Port of a node's interface unless another is named.
const DEFAULT_PORT: u16 = 7890;
/// The route that tells what a node knows of others.
const PEERS: &str = "/local/peers";
/// The route that tells its figures.
const METRICS: &str = "/metrics";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Characters of a node's own words that are shown.
const MAX_SHOWN: usize = 200;

/// A node did not give what it was asked for.
#[derive(Debug)]
pub struct NodeError {
    node: String,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    /// There is no answer.
    NoAnswer(FetchError),
    /// It does not know the route.
    NoRoute { route: &'static str },
    /// It refused.
    Refused { route: &'static str, status: u16, words: String },
    /// The answer makes no sense.
    Nonsense { route: &'static str, reason: String },
}

impl NodeError {
    /// Whether nobody was there to answer.
    pub fn is_unanswered(&self) -> bool {
        matches!(self.problem, Problem::NoAnswer(_))
    }

    /// Whether the same question may be answered later.
    pub fn is_temporary(&self) -> bool {
        match &self.problem {
            Problem::NoAnswer(_) => true,
            Problem::Refused { status, .. } => matches!(status, 429 | 503),
            Problem::NoRoute { .. } | Problem::Nonsense { .. } => false,
        }
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = &self.node;
        match &self.problem {
            Problem::NoAnswer(error) => {
                write!(f, "the node {node} does not answer: {error}. Is it running, and is --node right?")
            }
            Problem::Refused { status: 429, .. } => {
                write!(f, "the node {node} has had too many requests; wait a little")
            }
            Problem::Refused { status: 503, words, .. } => {
                write!(f, "the node {node} is not ready ({words}); try again when it has started")
            }
            Problem::NoRoute { route } => write!(
                f,
                "the node {node} knows nothing of {route}: is it a nisd of this version, and is this the port of its HTTP \
                 interface?"
            ),
            Problem::Refused { route, status: 401, words } => write!(
                f,
                "the node {node} answers {route} only to callers from its own machine, who name it by an address of that \
                 ({words}); nis.additionalLocalIps and nisd.hostNames allow others"
            ),
            Problem::Refused { route, status, words } => {
                write!(f, "the node {node} refused {route} with status {status}: {words}")
            }
            Problem::Nonsense { route, reason } => {
                write!(f, "the node {node} answered {route} with nonsense ({reason}); is it a NEM node?")
            }
        }
    }
}

impl std::error::Error for NodeError {}

/// A node that is asked over HTTP.
pub struct Node {
    client: Client,
}

#[derive(Deserialize)]
struct NodeInfo {
    #[serde(rename = "metaData")]
    meta: NodeMeta,
}

#[derive(Deserialize)]
struct NodeMeta {
    #[serde(rename = "networkId")]
    network: i32,
}

#[derive(Deserialize)]
struct NetworkTime {
    #[serde(rename = "receiveTimeStamp")]
    millis: i64,
}

#[derive(Deserialize)]
struct AccountPair {
    account: AccountInfo,
}

#[derive(Deserialize)]
struct AccountInfo {
    #[serde(rename = "publicKey")]
    public_key: Option<String>,
}

#[derive(Deserialize)]
struct MosaicSupply {
    supply: u64,
}

#[derive(Deserialize)]
struct Announcement {
    code: i32,
    message: String,
    #[serde(rename = "transactionHash", default)]
    hash: HashObject,
}

#[derive(Deserialize, Default)]
struct HashObject {
    data: Option<String>,
}

#[derive(Deserialize)]
struct AccountStatus {
    status: String,
}

#[derive(Deserialize)]
struct UnlockedCount {
    #[serde(rename = "num-unlocked")]
    count: i64,
}

#[derive(Deserialize)]
struct TransactionPair {
    meta: TransactionMeta,
}

#[derive(Deserialize)]
struct TransactionMeta {
    height: u64,
}

#[derive(Deserialize)]
struct BlockHead {
    #[serde(rename = "timeStamp")]
    timestamp: i32,
}

/// A transaction, and the height of the block that it is in.
pub struct Confirmed {
    /// The transaction, without its signature.
    pub transaction: Transaction,
    /// The height.
    pub height: Height,
}

/// The object that says why a request failed.
#[derive(Deserialize)]
struct Failure {
    message: Option<String>,
}

impl Node {
    /// The node at a URL. The error says what is wrong with that.
    pub fn at(url: &str) -> Result<Node, &'static str> {
        Ok(Node { client: Client::new(Endpoint::parse(url, DEFAULT_PORT)?, PATIENCE) })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}", self.client.endpoint())
    }

    /// Its network.
    pub fn network(&self) -> Result<NetworkByte, NodeError> {
        const ROUTE: &str = "/node/info";
        let info: NodeInfo = self.get(ROUTE, "")?;
        let byte = i8::try_from(info.meta.network).map(|signed| signed as u8).or(u8::try_from(info.meta.network));
        byte.map(NetworkByte).map_err(|_| self.nonsense(ROUTE, format!("network {}", info.meta.network)))
    }

    /// The name of its network, if it is a node of this program and this machine, which others do not tell.
    pub fn network_name(&self) -> Option<String> {
        let figures = self.figures("").ok()?;
        let name = figures.of("nisd_info").next()?.label("network").to_owned();
        (!name.is_empty()).then(|| printable(&name))
    }

    /// Whether an account harvests on it, and no other does.
    pub fn harvests_alone(&self, address: &Address) -> Result<bool, NodeError> {
        const UNLOCKED: &str = "/account/unlocked/info";
        let account: AccountStatus = self.get("/account/status", &format!("?address={address}"))?;
        if account.status != "UNLOCKED" {
            return Ok(false);
        }
        let unlocked: UnlockedCount = self.read(UNLOCKED, self.client.post_json(UNLOCKED, b"{}"))?;
        Ok(unlocked.count == 1)
    }

    /// Network time, in whole seconds.
    pub fn time(&self) -> Result<Timestamp, NodeError> {
        const ROUTE: &str = "/time-sync/network-time";
        let time: NetworkTime = self.get(ROUTE, "")?;
        let seconds = i32::try_from(time.millis.div_euclid(1000)).ok().filter(|seconds| *seconds >= 0);
        seconds.map(Timestamp).ok_or_else(|| self.nonsense(ROUTE, format!("time {}", time.millis)))
    }

    /// The public key of an account, if the chain has revealed it.
    pub fn public_key(&self, address: &Address) -> Result<Option<PublicKey>, NodeError> {
        const ROUTE: &str = "/account/get";
        let pair: AccountPair = self.get(ROUTE, &format!("?address={address}"))?;
        let key = pair.account.public_key.map(|text| PublicKey::from_hex(&text)).transpose();
        key.map_err(|error| self.nonsense(ROUTE, error))
    }

    /// A mosaic's definition and supply.
    pub fn mosaic(&self, id: &MosaicId, network: NetworkByte) -> Result<MosaicEntry, NodeError> {
        const ROUTE: &str = "/mosaic/definition";
        let query = format!("?mosaicId={}", id.to_string().replace(' ', "%20"));
        let text = self.successful(ROUTE, self.client.get(&format!("{ROUTE}{query}")))?;
        let value = lax_json::parse(&text).map_err(|error| self.nonsense(ROUTE, error))?;
        let source = JsonSource::new(&value, context(network));
        let definition = source.and_then(|mut source| read_definition(&mut source));
        let definition = definition.map_err(|error| self.nonsense(ROUTE, error))?;
        if definition.id != *id {
            return Err(self.nonsense(ROUTE, "another mosaic"));
        }
        let supply: MosaicSupply = self.get("/mosaic/supply", &query)?;
        Ok(MosaicEntry { definition, supply: supply.supply })
    }

    /// Hands a signed transaction over.
    pub fn announce(&self, packet: &Packet) -> Result<Announced, NodeError> {
        const ROUTE: &str = "/transaction/announce";
        let answer: Announcement = self.read(ROUTE, self.client.post_json(ROUTE, packet.to_json().as_bytes()))?;
        let hash = packet.hash();
        if answer.hash.data.as_deref().and_then(Hash256::from_hex) != Some(hash) {
            return Err(self.nonsense(ROUTE, format!("another hash than {hash}")));
        }
        let inner_hash = packet.transaction().inner().map(Transaction::hash);
        Ok(Announced { code: answer.code, name: printable(&answer.message), hash, inner_hash })
    }

    /// What it knows of other nodes, in its own JSON, at the path `context` in front of all others.
    pub fn peers(&self, context: &str) -> Result<Vec<u8>, NodeError> {
        self.successful(PEERS, self.client.get(&format!("{context}{PEERS}")))
    }

    /// Its figures, in Prometheus' text format, at the path `context` in front of all others.
    pub fn figures(&self, context: &str) -> Result<Reading, NodeError> {
        let body = self.successful(METRICS, self.client.get(&format!("{context}{METRICS}")))?;
        let text = String::from_utf8(body).map_err(|error| self.nonsense(METRICS, error))?;
        Reading::parse(&text).map_err(|error| self.nonsense(METRICS, error))
    }

    /// What it says of other nodes makes no sense.
    pub fn misunderstood_peers(&self, reason: &impl fmt::Display) -> NodeError {
        self.nonsense(PEERS, reason)
    }

    /// Height of the block that a transaction is in, if it is in one.
    pub fn height_of(&self, hash: &Hash256) -> Result<Option<Height>, NodeError> {
        const ROUTE: &str = "/transaction/get";
        match self.client.get(&format!("{ROUTE}?hash={hash}")) {
            Ok(Response { status: 400 | 404, .. }) => Ok(None),
            answer => self.read(ROUTE, answer).map(|pair: TransactionPair| Some(Height(pair.meta.height))),
        }
    }

    /// A transaction that is in a block, by its hash or that of the transaction inside. That it has this hash is checked,
    /// and the height believed.
    pub fn confirmed(&self, hash: &Hash256) -> Result<Option<Confirmed>, NodeError> {
        const ROUTE: &str = "/transaction/get";
        let answer = match self.client.get(&format!("{ROUTE}?hash={hash}")) {
            Ok(Response { status: 400 | 404, .. }) => return Ok(None),
            answer => self.successful(ROUTE, answer)?,
        };
        let pair: TransactionPair = serde_json::from_slice(&answer).map_err(|error| self.nonsense(ROUTE, error))?;
        let value = lax_json::parse(&answer).map_err(|error| self.nonsense(ROUTE, error))?;
        let transaction = value.get("transaction").ok_or_else(|| self.nonsense(ROUTE, "no transaction"))?;
        let transaction = transaction_of(transaction).map_err(|error| self.nonsense(ROUTE, error))?;
        let hashes = [Some(transaction.hash()), transaction.inner().map(Transaction::hash)];
        match hashes.contains(&Some(*hash)) {
            true => Ok(Some(Confirmed { transaction, height: Height(pair.meta.height) })),
            false => Err(self.nonsense(ROUTE, format!("a transaction with another hash than {hash}"))),
        }
    }

    /// The time of the block at a height.
    pub fn time_of(&self, height: Height) -> Result<Timestamp, NodeError> {
        const ROUTE: &str = "/block/at/public";
        let block: BlockHead =
            self.read(ROUTE, self.client.post_json(ROUTE, format!("{{\"height\":{height}}}").as_bytes()))?;
        Ok(Timestamp(block.timestamp))
    }

    fn get<T: DeserializeOwned>(&self, route: &'static str, query: &str) -> Result<T, NodeError> {
        self.read(route, self.client.get(&format!("{route}{query}")))
    }

    fn read<T: DeserializeOwned>(
        &self,
        route: &'static str,
        answer: Result<Response, FetchError>,
    ) -> Result<T, NodeError> {
        let body = self.successful(route, answer)?;
        serde_json::from_slice(&body).map_err(|error| self.nonsense(route, error))
    }

    /// The body of an answer whose status is 200.
    fn successful(&self, route: &'static str, answer: Result<Response, FetchError>) -> Result<Vec<u8>, NodeError> {
        let answer = answer.map_err(|error| self.error(Problem::NoAnswer(error)))?;
        let status = answer.status;
        if status == 200 {
            return Ok(answer.body);
        }
        let failure = serde_json::from_slice::<Failure>(&answer.body).ok();
        let words = failure.and_then(|failure| failure.message).map(|words| printable(&words));
        Err(self.error(match words {
            None if status == 404 => Problem::NoRoute { route },
            words => {
                let words = words.unwrap_or_else(|| "no reason given".to_owned());
                Problem::Refused { route, status, words }
            }
        }))
    }

    fn nonsense(&self, route: &'static str, reason: impl fmt::Display) -> NodeError {
        self.error(Problem::Nonsense { route, reason: printable(&reason.to_string()) })
    }

    fn error(&self, problem: Problem) -> NodeError {
        NodeError { node: self.url(), problem }
    }
}

/// A node's words without what could disturb a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_SHOWN).collect()
}
