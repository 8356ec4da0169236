//! The context of one request: what a handler receives, and how it reads parameters and responds.

use std::borrow::Cow;
use std::time::Duration;

use super::budget::{Budget, cost};
use super::chain_snapshot::{ChainSnapshot, Page};
use super::error::ApiError;
use super::media::{Format, body_format};
use super::node_handle::NodeHandle;
use super::request_history::RequestHistory;
use super::response_writer::ResponseWriter;
use super::routes::Access;
use super::settings;
use super::settings::Settings;
use super::streams::ResponseStream;
use super::url;
use super::views::{ClockState, View};
use crate::codec::ReadError;
pub use crate::codec::Readable;
use crate::codec::text::{parse_i32, parse_i64};
use crate::crypto::PublicKey;
use crate::crypto::hex_text::decode_hex;
use crate::model::{Address, Hash256, Height, MosaicId, NamespaceId, Timestamp};
use crate::net::http::{Request, StaticText};
use crate::net::service::{Client, Progress};
use crate::peer::wire::limits;
use crate::state::HashEntry;
use crate::store::StoreError;

/// Entries of a page: minimum, maximum and default.
const MIN_PAGE: i16 = 5;
const MAX_PAGE: i16 = 100;
const DEFAULT_PAGE: i16 = 25;
/// Maximum size of a JSON body in bytes. It is parsed in one go, which blocks every other request.
const JSON_LIMIT: usize = limits::PUSHED_JSON;

/// The current time.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Network time.
    pub network: Timestamp,
    /// Network time in milliseconds.
    pub network_millis: i64,
    /// Reliability of the clock.
    pub clock: ClockState,
    /// Time since the node started.
    pub uptime: Duration,
}

/// A request and everything needed to answer it.
pub struct RequestContext<'a> {
    /// The request.
    pub request: &'a Request<'a>,
    /// The client.
    pub client: Client,
    /// Path as sent, without the context path.
    pub path: &'a str,
    /// The snapshot that handlers read.
    pub chain: &'a ChainSnapshot<'a>,
    /// The node.
    pub node: &'a mut dyn NodeHandle,
    /// Settings of the interface.
    pub settings: &'a Settings,
    /// History of incoming requests.
    pub request_history: &'a mut RequestHistory,
    /// The current time.
    pub now: Now,
    /// Budget of this step.
    pub budget: &'a mut Budget,
    pub(super) writer: ResponseWriter<'a>,
    /// The remainder of the response, and how its last step ended.
    pub(super) pending: Option<(Box<dyn ResponseStream>, Progress)>,
}

impl<'a> RequestContext<'a> {
    /// Responds with an object.
    pub fn send(&mut self, view: &impl View) -> Result<(), ApiError> {
        self.writer.view(view);
        Ok(())
    }

    /// Responds with an object that contains a secret.
    pub fn send_secret(&mut self, view: &impl View) -> Result<(), ApiError> {
        self.writer.secret(view);
        Ok(())
    }

    /// Responds with an object that can take more than one step, or with 406 if the client accepts neither format.
    pub fn send_stream(&mut self, long: impl ResponseStream + 'static) -> Result<(), ApiError> {
        match self.writer.begin() {
            Some(_) => self.start_stream(long),
            None => {
                self.writer.container_error(406);
                Ok(())
            }
        }
    }

    /// Starts work that can take more than one step and succeeds without a body.
    pub fn run_stream(&mut self, long: impl ResponseStream + 'static) -> Result<(), ApiError> {
        self.start_stream(long)
    }

    fn start_stream(&mut self, mut long: impl ResponseStream + 'static) -> Result<(), ApiError> {
        let taken = self.step(&mut long)?;
        self.pending = (taken != Progress::Done).then(|| (Box::new(long) as Box<dyn ResponseStream>, taken));
        Ok(())
    }

    /// Continues a response.
    pub(super) fn resume(&mut self, mut long: Box<dyn ResponseStream>) -> Result<(), ApiError> {
        let taken = self.step(&mut *long)?;
        self.pending = (taken != Progress::Done).then_some((long, taken));
        Ok(())
    }

    fn step(&mut self, long: &mut dyn ResponseStream) -> Result<Progress, ApiError> {
        let format = self.writer.accept.format.unwrap_or(Format::Json);
        long.prepare(self.request.body, self.chain, self.node, self.budget)?;
        let taken = long.write_chunk(self.chain, &mut self.writer.body_writer(format), self.budget)?;
        if taken == Progress::Done && self.writer.has_body() {
            self.writer.end(format);
        }
        Ok(taken)
    }

    /// Responds with a JSON text that is part of the program.
    pub fn send_static(&mut self, text: &StaticText) -> Result<(), ApiError> {
        self.writer.static_json(text, self.settings.compress, self.request);
        self.budget.charge(cost::bytes(self.writer.response.body.len()));
        Ok(())
    }

    /// Responds with a word of ASCII letters.
    pub fn send_text(&mut self, text: &'static str) -> Result<(), ApiError> {
        self.writer.text(text, self.request.header("Accept"));
        Ok(())
    }

    /// Returns whether the client has local access.
    pub fn is_local(&self) -> bool {
        settings::is_local(&self.client, self.request, self.settings)
    }

    /// Returns whether the client may use a route with this access.
    pub fn may_use(&self, access: Access) -> bool {
        match access {
            Access::Public => true,
            Access::Local => self.is_local(),
            Access::Metrics => self.is_local() || self.client.listener == self.settings.metrics_listener,
        }
    }

    /// Fails unless the node has joined its network.
    pub fn require_joined(&self) -> Result<(), ApiError> {
        if self.chain.is_booted() { Ok(()) } else { Err(ApiError::NOT_BOOTED) }
    }

    /// Returns the body and its format.
    pub fn raw_body(&self) -> Result<(Format, &'a [u8]), ApiError> {
        let content_type = self.request.header("Content-Type").filter(|value| !value.is_empty());
        let body = self.request.body;
        let missing = ApiError::internal("Required request body is missing");
        if body.is_empty() && content_type.is_none() {
            return Err(missing);
        }
        let format = body_format(content_type).map_err(ApiError::Internal)?;
        match format {
            _ if body.is_empty() => Err(missing),
            Format::Json if body.len() > JSON_LIMIT => {
                Err(ApiError::argument("the body is too long for JSON; application/binary may be longer"))
            }
            _ => Ok((format, body)),
        }
    }

    /// Parses the body.
    pub fn body<T: Readable>(&mut self) -> Result<T, ApiError> {
        let (format, body) = self.raw_body()?;
        self.budget.charge(match format {
            Format::Json => cost::json(body.len()),
            Format::Binary => cost::bytes(body.len()),
        });
        Ok(format.read(body, self.chain.context())?)
    }

    /// Returns a query parameter.
    pub fn parameter(&self, name: &str) -> Result<Option<Cow<'a, str>>, ApiError> {
        url::parameter(self.request.query, name)
    }

    /// Returns the parameter `address`.
    pub fn address(&self) -> Result<Address, ApiError> {
        let text = self.parameter("address")?.ok_or(ApiError::argument("encoded address cannot be null"))?;
        Address::parse(&text, self.chain.network.byte).ok_or(ApiError::BAD_ADDRESS)
    }

    /// Returns the parameter `publicKey`. It need not be a point of the curve.
    pub fn public_key(&self) -> Result<PublicKey, ApiError> {
        let bytes = self.hex("publicKey")?;
        let key = PublicKey::try_from(bytes.as_slice());
        key.map_err(|error| ApiError::Argument(error.to_string().into()))
    }

    /// Returns a required parameter in hex.
    pub fn hex(&self, name: &'static str) -> Result<Vec<u8>, ApiError> {
        decode_hex(&self.required(name)?).map_err(|error| ApiError::bad_hex(&error))
    }

    /// Returns the parameter `hash`, hex of any length; an empty one counts as missing.
    pub fn optional_hash(&self) -> Result<Option<Vec<u8>>, ApiError> {
        let text = self.parameter("hash")?.filter(|text| !text.is_empty());
        text.map(|text| decode_hex(&text).map_err(|error| ApiError::bad_hex(&error))).transpose()
    }

    fn required(&self, name: &'static str) -> Result<Cow<'a, str>, ApiError> {
        self.parameter(name)?.ok_or_else(|| ApiError::Internal(format!("the parameter {name} is missing").into()))
    }

    /// Returns the parameter `namespace`.
    pub fn namespace(&self) -> Result<NamespaceId, ApiError> {
        parse_namespace(&self.required("namespace")?)
    }

    /// Returns the parameter `parent`, a namespace; an empty one counts as missing.
    pub fn parent(&self) -> Result<Option<NamespaceId>, ApiError> {
        let text = self.parameter("parent")?.filter(|text| !text.is_empty());
        text.map(|text| parse_namespace(&text)).transpose()
    }

    /// Returns the parameter `mosaicId`.
    pub fn mosaic_id(&self) -> Result<MosaicId, ApiError> {
        let id = MosaicId::parse(&self.required("mosaicId")?);
        id.map_err(|error| ApiError::Argument(error.to_string().into()))
    }

    /// Returns the page that the parameters `id` and `pageSize` select.
    pub fn page(&self) -> Result<Page, ApiError> {
        parse_page(self.parameter("id")?.as_deref(), self.parameter("pageSize")?.as_deref())
    }

    /// Returns the location of the confirmed transaction with a hash; not of an old one if the node prunes hashes.
    pub fn find_hash(&self, hash: &Hash256) -> Result<Option<HashEntry>, StoreError> {
        match self.settings.prunes_hashes {
            true => self.chain.hash_entry(hash),
            false => self.chain.find_hash(hash),
        }
    }

    /// Returns the parameter `height`; the maximum height if it is missing or empty.
    pub fn height(&self) -> Result<Height, ApiError> {
        let text = self.parameter("height")?.filter(|text| !text.is_empty());
        text.map_or(Ok(Height(i64::MAX.unsigned_abs())), |text| parse_height(&text))
    }

    /// Returns a required parameter that is a number. A missing one is a 400, unlike elsewhere.
    pub fn number(&self, name: &'static str) -> Result<i64, ApiError> {
        let text = self.parameter(name)?;
        let text = text.ok_or_else(|| ApiError::Argument(format!("the parameter {name} is missing").into()))?;
        parse_i64(&text).ok_or_else(|| not_a_number(&text))
    }

    /// Returns the address of a public key.
    pub fn address_of(&self, key: &PublicKey) -> Address {
        Address::from_public_key(key, self.chain.network.byte)
    }
}

/// Parses a page from an id and a size.
pub fn parse_page(id: Option<&str>, size: Option<&str>) -> Result<Page, ApiError> {
    let before = match id {
        // Ids start at 1.
        Some(text) => u64::try_from(parse_i64(text).ok_or_else(|| not_a_number(text))?).unwrap_or(0),
        None => u64::MAX,
    };
    let size = size.map_or(Ok(DEFAULT_PAGE), page_size)?;
    Ok(Page { before, size: size.clamp(MIN_PAGE, MAX_PAGE).unsigned_abs().into() })
}

fn parse_namespace(text: &str) -> Result<NamespaceId, ApiError> {
    NamespaceId::parse(text).map_err(|error| ApiError::Argument(error.to_string().into()))
}

fn parse_height(text: &str) -> Result<Height, ApiError> {
    positive_height(parse_i64(text).ok_or_else(|| not_a_number(text))?)
}

/// Converts a height that a client sent.
pub fn positive_height(number: i64) -> Result<Height, ApiError> {
    let height = u64::try_from(number).ok().filter(|number| *number > 0);
    height.map(Height).ok_or(ApiError::argument("height must be positive"))
}

fn not_a_number(text: &str) -> ApiError {
    ReadError::NotANumber(text.to_owned()).into()
}

fn page_size(text: &str) -> Result<i16, ApiError> {
    let number = parse_i32(text).ok_or_else(|| not_a_number(text))?;
    let too_large = |_| ApiError::Argument(format!("Value out of range. Value:\"{text}\" Radix:10").into());
    number.try_into().map_err(too_large)
}
