//! What handlers receive: the request ([`RequestContext`]), with its parameters and its response, and the node
//! ([`NodeContext`]).

use std::borrow::Cow;
use std::rc::Rc;

use super::body_parser::ParsedBody;
use super::debug::RequestHistory;
use super::events::EventFeed;
use super::response::{CacheKey, ResponseWriter, body_format};
use super::routes::{BodyLimit, Caching, Route};
use super::streams::{KeptLists, ResponseStream};
use super::{ApiError, BootRequest, ClockState, Format, NodeStatus, Settings, routes};
use crate::budget::{Budget, cost};
use crate::chain::harvest::UnlockedAccounts;
use crate::chain::{ChainSnapshot, ReorgLog};
use crate::codec::json::JsonDecoder;
use crate::codec::text::{parse_i32, parse_i64};
use crate::codec::wipe::Wiped;
use crate::codec::{self, Readable, lenient_json};
use crate::crypto::keys::decode_hex;
use crate::crypto::{KeyPair, PublicKey, Randomness};
use crate::mempool::Mempool;
use crate::model::{Address, Block, Hash256, Height, MosaicId, NamespaceId, Timestamp};
use crate::net::http::{Request, SharedBody};
use crate::net::service::{Client, ConnectionId, Progress};
use crate::peer::io::Now;
use crate::peer::wire::{LazyList, NodeInfo, NodeList, limits};
use crate::peer::{Manager, Pusher};
use crate::state::{self, HashEntry};
use crate::store::StoreError;

/// Entries of a page: minimum, maximum and default.
const MIN_PAGE: i16 = 5;
const MAX_PAGE: i16 = 100;
const DEFAULT_PAGE: i16 = 25;
/// A hash that has lost a digit is not another one with a zero before it.
pub(super) const BAD_HASH: &str = "hash must have 64 hex digits";
/// Maximum size of a JSON body in bytes.
const JSON_LIMIT: usize = limits::PUSHED_JSON;
/// Size of a JSON body in bytes up to which it is parsed at once.
const SMALL_JSON: usize = 2 << 10;

/// The node as one step of a response sees and changes it, on the last commit.
pub struct NodeContext<'a> {
    /// The chain.
    pub chain: ChainSnapshot<'a>,
    /// Status of the node.
    pub status: NodeStatus,
    /// The current time.
    pub now: Now,
    /// Reliability of the clock.
    pub clock: ClockState,
    /// Hashes of old confirmed transactions are forgotten, as in the protocol (`nisd.forgetHashes`).
    pub forgets_hashes: bool,
    /// Unconfirmed transactions.
    pub mempool: &'a mut Mempool,
    /// Accounts that harvest on this node.
    pub unlocked: &'a mut UnlockedAccounts,
    /// The peers; `None` if this node does not join its network. The node carries out the actions that they yield.
    pub peers: Option<&'a mut Manager>,
    /// What peers see of this node.
    pub info: &'a NodeInfo,
    /// Network time of its start.
    pub started: Timestamp,
    /// Keys of this node's identity.
    pub keys: &'a KeyPair,
    /// Reorgs since the start.
    pub reorgs: &'a ReorgLog,
    /// What the event streams share.
    pub events: &'a mut EventFeed,
    /// Source of random numbers.
    pub randomness: &'a mut Randomness,
    /// Budget of the step.
    pub budget: Budget,
}

impl NodeContext<'_> {
    /// Fails unless the node has joined its network.
    pub fn require_joined(&self) -> Result<(), ApiError> {
        if self.status.is_joined() { Ok(()) } else { Err(ApiError::NOT_BOOTED) }
    }

    /// Returns the location of the confirmed transaction with a hash; not of an old one if the node forgets hashes.
    pub(super) fn find_hash(&self, hash: &Hash256) -> Result<Option<HashEntry>, StoreError> {
        let find = if self.forgets_hashes { state::find_remembered_hash } else { state::find_hash };
        find(self.chain.snapshot, hash)
    }

    /// Returns newly drawn sync peers and a random selection of other active peers.
    pub(super) fn peers_to_share(&mut self) -> NodeList {
        let mut random = || self.randomness.next_u64();
        self.peers.as_deref().map(|peers| peers.peers_to_share(&mut random)).unwrap_or_default()
    }
}

/// What a handler leaves to the node: it concerns more than a [`NodeContext`] holds. The node carries it out at once, and
/// the response fails if that fails.
pub enum Command {
    /// Joins the network with an identity.
    Boot(BootRequest),
    /// Submits a block of this network that a peer pushed. It is validated later, unless it came before or is of no use.
    PushBlock(Box<Block>, Pusher),
    /// Responds with the metrics.
    SendMetrics,
    /// Shuts the node down after the response is sent.
    ShutDown,
}

/// A page of a list, newest entries first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Exclusive upper bound of the ids.
    pub before: u64,
    /// Maximum number of entries.
    pub size: usize,
}

impl Page {
    /// Returns whether the page begins with the newest entry.
    pub fn is_first(&self) -> bool {
        self.before == u64::MAX
    }
}

/// A request and everything needed to answer it.
pub struct RequestContext<'a> {
    /// The request.
    pub request: &'a Request<'a>,
    /// The client.
    pub client: Client,
    /// Its connection.
    pub connection: ConnectionId,
    /// Path as sent, without the context path.
    pub path: &'a str,
    /// Its route, if there is one.
    pub route: Option<&'static Route>,
    /// The node.
    pub node: NodeContext<'a>,
    /// Settings of the interface.
    pub settings: &'a Settings,
    /// History of incoming requests.
    pub request_history: &'a mut RequestHistory,
    /// Lists that are written once for all clients.
    pub(super) kept_lists: &'a mut KeptLists,
    /// The body, if it was parsed in steps.
    pub(super) parsed_body: Option<ParsedBody>,
    /// What the node is to do.
    pub command: Option<Command>,
    /// The key under which the response is kept, if it is completed in this step.
    pub(super) cache_key: Option<CacheKey>,
    /// The response.
    pub(super) response: ResponseWriter<'a>,
    /// The remainder of the response, and how its last step ended.
    pub(super) pending: Option<(Box<dyn ResponseStream>, Progress)>,
}

impl<'a> RequestContext<'a> {
    /// Responds with an object that can take more than one step, or with 406 if the client accepts neither format.
    pub fn send_stream(&mut self, stream: impl ResponseStream + 'static) -> Result<(), ApiError> {
        if self.response.begin().is_none() {
            return Ok(());
        }
        self.run_stream(Box::new(stream))
    }

    /// Responds with a body that is kept for all clients, or with 406 if the client accepts no format.
    pub fn send_shared(&mut self, body: Rc<SharedBody>) {
        if self.response.begin().is_some() {
            self.set_shared(body);
        }
    }

    pub(super) fn set_shared(&mut self, body: Rc<SharedBody>) {
        self.node.budget.charge(cost::bytes(body.plain().len()));
        self.response.response.shared_body = Some(body);
    }

    /// Starts or continues a response that can take more than one step. It has no body unless the stream writes one.
    pub fn run_stream(&mut self, mut stream: Box<dyn ResponseStream>) -> Result<(), ApiError> {
        let format = self.response.accept.format.unwrap_or(Format::Json);
        let progress = stream.write_chunk(&mut self.node, &mut self.response.body_writer(format))?;
        if progress == Progress::Done {
            return stream.finish(self);
        }
        self.pending = Some((stream, progress));
        Ok(())
    }

    /// Returns the key under which the response is kept, if it may be.
    pub(super) fn cache_key(&self, route: &Route) -> Option<CacheKey> {
        let version = match route.caching {
            Caching::Never => return None,
            Caching::Chain => 0,
            Caching::AccountStatus if self.node.mempool.may_have_importance_transfers() => return None,
            Caching::AccountStatus => self.node.unlocked.version,
        };
        CacheKey::new(self.response.accept.format?, version, self.request)
    }

    /// Records the request for the operator.
    pub(super) fn record(&mut self) {
        let excluded = &self.settings.unaudited_paths;
        self.request_history.record(excluded, self.path, self.client.address, self.node.chain.now);
    }

    /// Returns the body and its format.
    fn raw_body(&self) -> Result<(Format, &'a [u8]), ApiError> {
        let content_type = self.request.header("Content-Type").filter(|value| !value.is_empty());
        let body = self.request.body;
        let missing = ApiError::internal("Required request body is missing: ");
        if body.is_empty() && content_type.is_none() {
            return Err(missing);
        }
        let format = body_format(content_type)?;
        match format {
            _ if body.is_empty() => Err(missing),
            Format::Json if body.len() > JSON_LIMIT => {
                Err(ApiError::argument("the body is too long for JSON; application/binary may be longer"))
            }
            _ => Ok((format, body)),
        }
    }

    /// Returns whether the body is parsed in steps: it is JSON and large, and was not parsed yet.
    pub(super) fn has_large_body(&self, route: &Route) -> bool {
        let is_large = |(format, body): (Format, &[u8])| format == Format::Json && body.len() > SMALL_JSON;
        // The addresses of a stream are JSON, whatever the client calls them.
        let of_addresses = route.body_limit == BodyLimit::Addresses && self.request.body.len() > SMALL_JSON;
        self.parsed_body.is_none() && (of_addresses || self.raw_body().is_ok_and(is_large))
    }

    /// Returns the body, which is JSON whatever the client calls it.
    pub(super) fn json_body(&mut self) -> ParsedBody {
        self.parsed_body.take().unwrap_or_else(|| {
            let body = self.request.body;
            self.node.budget.charge(cost::json(body.len()));
            lenient_json::parse(body).map(Wiped)
        })
    }

    /// Opens the list `data` of the body, whose elements are decoded one by one.
    pub fn body_list<T: Readable>(&mut self) -> Result<LazyList<T>, ApiError> {
        let context = self.node.chain.context();
        let (format, body) = self.raw_body()?;
        if format == Format::Binary {
            return Ok(LazyList::of_binary(body.to_vec(), context, false, body.len())?);
        }
        let value = self.json_body().map_err(codec::not_json)?;
        // Fails unless it is an object.
        JsonDecoder::new(&value, context)?;
        Ok(LazyList::of_json(value, body.len(), false)?)
    }

    /// Reads the body.
    pub fn body<T: Readable>(&mut self) -> Result<T, ApiError> {
        let context = self.node.chain.context();
        if let Some(parsed) = self.parsed_body.take() {
            return Ok(codec::read_json(&*parsed.map_err(codec::not_json)?, context)?);
        }
        let (format, body) = self.raw_body()?;
        self.node.budget.charge(match format {
            Format::Json => cost::json(body.len()),
            Format::Binary => cost::bytes(body.len()),
        });
        Ok(format.read(body, context)?)
    }

    /// Returns a query parameter.
    pub fn parameter(&self, name: &str) -> Result<Option<Cow<'a, str>>, ApiError> {
        routes::parameter(self.request.query, name)
    }

    /// Returns a parameter that is `true` or `false`; `false` if it is missing.
    pub fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.parameter(name)?.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(ApiError::new(400, format!("{name} must be true or false"))),
        }
    }

    /// Returns the parameter `address`.
    pub fn address(&self) -> Result<Address, ApiError> {
        let text = self.parameter("address")?.ok_or(ApiError::argument("encoded address cannot be null"))?;
        Address::parse(&text, self.node.chain.network.byte).ok_or(ApiError::BAD_ADDRESS)
    }

    /// Returns the parameter `publicKey`. It need not be a point of the curve.
    pub fn public_key(&self) -> Result<PublicKey, ApiError> {
        let bytes = self.hex("publicKey")?;
        let key = PublicKey::try_from(bytes.as_slice());
        key.map_err(|error| ApiError::new(400, error.to_string()))
    }

    /// Returns a required parameter in hex.
    pub fn hex(&self, name: &'static str) -> Result<Vec<u8>, ApiError> {
        Ok(decode_hex(&self.required(name)?)?)
    }

    /// Returns the required parameter `hash` of a route that NIS1 does not have.
    pub fn hash(&self) -> Result<Hash256, ApiError> {
        let text = self.parameter("hash")?.ok_or(ApiError::argument("the parameter hash is missing"))?;
        Hash256::from_hex(&text).ok_or(ApiError::argument(BAD_HASH))
    }

    /// Returns the parameter `hash`, hex of any length; an empty one counts as missing.
    pub fn optional_hash(&self) -> Result<Option<Vec<u8>>, ApiError> {
        Ok(self.unless_empty("hash")?.map(|text| decode_hex(&text)).transpose()?)
    }

    /// Returns a parameter; an empty one counts as missing.
    fn unless_empty(&self, name: &str) -> Result<Option<Cow<'a, str>>, ApiError> {
        Ok(self.parameter(name)?.filter(|text| !text.is_empty()))
    }

    fn required(&self, name: &'static str) -> Result<Cow<'a, str>, ApiError> {
        self.parameter(name)?.ok_or_else(|| ApiError::new(500, format!("the parameter {name} is missing")))
    }

    /// Returns the parameter `namespace`.
    pub fn namespace(&self) -> Result<NamespaceId, ApiError> {
        Ok(NamespaceId::parse(&self.required("namespace")?)?)
    }

    /// Returns the parameter `parent`, a namespace; an empty one counts as missing.
    pub fn parent(&self) -> Result<Option<NamespaceId>, ApiError> {
        Ok(self.unless_empty("parent")?.map(|text| NamespaceId::parse(&text)).transpose()?)
    }

    /// Returns the parameter `mosaicId`.
    pub fn mosaic_id(&self) -> Result<MosaicId, ApiError> {
        Ok(MosaicId::parse(&self.required("mosaicId")?)?)
    }

    /// Returns the page that the parameters `id` and `pageSize` select.
    pub fn page(&self) -> Result<Page, ApiError> {
        parse_page(self.parameter("id")?.as_deref(), self.parameter("pageSize")?.as_deref())
    }

    /// Returns the location of the confirmed transaction with a hash; not of an old one if the node prunes hashes. A hash
    /// of another length is not an error; no transaction has it.
    pub fn find_hash(&self, hash: &[u8]) -> Result<Option<(Hash256, HashEntry)>, StoreError> {
        let Ok(hash) = Hash256::try_from(hash) else { return Ok(None) };
        Ok(self.node.find_hash(&hash)?.map(|entry| (hash, entry)))
    }

    /// Returns the parameter `height`; the maximum height if it is missing or empty.
    pub fn height(&self) -> Result<Height, ApiError> {
        let Some(text) = self.unless_empty("height")? else { return Ok(Height(i64::MAX.unsigned_abs())) };
        positive_height(parse_i64(&text)?)
    }

    /// Returns a required parameter that is a number. A missing one is a 400, unlike elsewhere.
    pub fn number(&self, name: &'static str) -> Result<i64, ApiError> {
        let text = self.parameter(name)?;
        let text = text.ok_or_else(|| ApiError::new(400, format!("the parameter {name} is missing")))?;
        Ok(parse_i64(&text)?)
    }

    /// Returns the address of a public key.
    pub fn address_of(&self, key: &PublicKey) -> Address {
        Address::from_public_key(key, self.node.chain.network.byte)
    }
}

/// Parses a page from an id and a size.
pub fn parse_page(id: Option<&str>, size: Option<&str>) -> Result<Page, ApiError> {
    // Ids start at 1.
    let before = id.map_or(Ok(u64::MAX), |text| parse_i64(text).map(|id| u64::try_from(id).unwrap_or(0)))?;
    let size = size.map_or(Ok(DEFAULT_PAGE), page_size)?;
    Ok(Page { before, size: size.clamp(MIN_PAGE, MAX_PAGE).unsigned_abs().into() })
}

/// Converts a height that a client sent.
pub fn positive_height(number: i64) -> Result<Height, ApiError> {
    let height = u64::try_from(number).ok().filter(|number| *number > 0);
    height.map(Height).ok_or(ApiError::argument("height must be positive"))
}

fn page_size(text: &str) -> Result<i16, ApiError> {
    let number = parse_i32(text)?;
    let too_large = |_| ApiError::new(400, format!("Value out of range. Value:\"{text}\" Radix:10"));
    number.try_into().map_err(too_large)
}

#[cfg(test)]
mod tests;
