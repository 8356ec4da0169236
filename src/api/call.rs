//! The context of one request: what a handler receives, and how it reads parameters and responds.

use std::borrow::Cow;
use std::time::Duration;

use super::actions::Actions;
use super::audits::Audits;
use super::budget::{Budget, cost};
use super::chain_view::{ChainView, Page};
use super::failure::Failure;
use super::long::LongView;
use super::media::{Format, body_format};
use super::query;
use super::reply::Writer;
use super::rights;
use super::route::Access;
use super::settings::Settings;
use super::views::{ClockState, View};
pub use crate::codec::Readable;
use crate::codec::{ReadError, digits};
use crate::crypto::PublicKey;
use crate::crypto::hex_text::decode_hex;
use crate::model::{Address, Hash256, Height, MosaicId, NamespaceId, Timestamp};
use crate::net::http::{Request, StaticText};
use crate::net::machine::{Caller, Taken};
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
    pub running: Duration,
}

/// A request and everything needed to answer it.
pub struct Call<'a> {
    /// The request.
    pub request: &'a Request<'a>,
    /// The client.
    pub caller: Caller,
    /// Path as sent, without the context path.
    pub path: &'a str,
    /// The snapshot that handlers read.
    pub view: &'a ChainView<'a>,
    /// The node.
    pub actions: &'a mut dyn Actions,
    /// Settings of the interface.
    pub settings: &'a Settings,
    /// History of incoming requests.
    pub audits: &'a mut Audits,
    /// The current time.
    pub now: Now,
    /// Budget of this step.
    pub budget: &'a mut Budget,
    pub(super) writer: Writer<'a>,
    /// The remainder of the response, and how its last step ended.
    pub(super) rest: Option<(Box<dyn LongView>, Taken)>,
}

impl<'a> Call<'a> {
    /// Responds with an object.
    pub fn send(&mut self, view: &impl View) -> Result<(), Failure> {
        self.writer.view(view);
        Ok(())
    }

    /// Responds with an object that contains a secret.
    pub fn send_secret(&mut self, view: &impl View) -> Result<(), Failure> {
        self.writer.secret(view);
        Ok(())
    }

    /// Responds with an object that can take more than one step, or with 406 if the client accepts neither format.
    pub fn send_long(&mut self, long: impl LongView + 'static) -> Result<(), Failure> {
        match self.writer.begin() {
            Some(_) => self.go_on(long),
            None => {
                self.writer.container_error(406);
                Ok(())
            }
        }
    }

    /// Starts work that can take more than one step and succeeds without a body.
    pub fn do_long(&mut self, long: impl LongView + 'static) -> Result<(), Failure> {
        self.go_on(long)
    }

    fn go_on(&mut self, mut long: impl LongView + 'static) -> Result<(), Failure> {
        let taken = self.step(&mut long)?;
        self.rest = (taken != Taken::Done).then(|| (Box::new(long) as Box<dyn LongView>, taken));
        Ok(())
    }

    /// Continues a response.
    pub(super) fn resume(&mut self, mut long: Box<dyn LongView>) -> Result<(), Failure> {
        let taken = self.step(&mut *long)?;
        self.rest = (taken != Taken::Done).then_some((long, taken));
        Ok(())
    }

    fn step(&mut self, long: &mut dyn LongView) -> Result<Taken, Failure> {
        let format = self.writer.wanted.format.unwrap_or(Format::Json);
        long.look(self.request.body, self.view, self.actions, self.budget)?;
        let taken = long.write_on(self.view, &mut self.writer.sheet(format), self.budget)?;
        if taken == Taken::Done && self.writer.has_body() {
            self.writer.end(format);
        }
        Ok(taken)
    }

    /// Responds with a JSON text that is part of the program.
    pub fn send_static(&mut self, text: &StaticText) -> Result<(), Failure> {
        self.writer.static_json(text, self.settings.compress, self.request);
        self.budget.spend(cost::bytes(self.writer.reply.body.len()));
        Ok(())
    }

    /// Responds with a word of ASCII letters.
    pub fn send_text(&mut self, text: &'static str) -> Result<(), Failure> {
        self.writer.text(text, self.request.header("Accept"));
        Ok(())
    }

    /// Returns whether the client has local access.
    pub fn is_local(&self) -> bool {
        rights::is_local(&self.caller, self.request, self.settings)
    }

    /// Returns whether the client may use a route with this access.
    pub fn may_use(&self, access: Access) -> bool {
        match access {
            Access::Public => true,
            Access::Local => self.is_local(),
            Access::Metrics => self.is_local() || self.caller.listener == self.settings.metrics_listener,
        }
    }

    /// Fails unless the node has joined its network.
    pub fn need_network(&self) -> Result<(), Failure> {
        if self.view.is_booted() { Ok(()) } else { Err(Failure::NOT_BOOTED) }
    }

    /// Returns the body and its format.
    pub fn raw_body(&self) -> Result<(Format, &'a [u8]), Failure> {
        let content_type = self.request.header("Content-Type").filter(|value| !value.is_empty());
        let body = self.request.body;
        let missing = Failure::internal("Required request body is missing");
        if body.is_empty() && content_type.is_none() {
            return Err(missing);
        }
        let format = body_format(content_type).map_err(Failure::Internal)?;
        match format {
            _ if body.is_empty() => Err(missing),
            Format::Json if body.len() > JSON_LIMIT => {
                Err(Failure::argument("the body is too long for JSON; application/binary may be longer"))
            }
            _ => Ok((format, body)),
        }
    }

    /// Parses the body.
    pub fn body<T: Readable>(&mut self) -> Result<T, Failure> {
        let (format, body) = self.raw_body()?;
        self.budget.spend(match format {
            Format::Json => cost::json(body.len()),
            Format::Binary => cost::bytes(body.len()),
        });
        Ok(format.read(body, self.view.context())?)
    }

    /// Returns a query parameter.
    pub fn parameter(&self, name: &str) -> Result<Option<Cow<'a, str>>, Failure> {
        query::parameter(self.request.query, name)
    }

    /// Returns the parameter `address`.
    pub fn address(&self) -> Result<Address, Failure> {
        let text = self.parameter("address")?.ok_or(Failure::argument("encoded address cannot be null"))?;
        Address::parse(&text, self.view.network.byte).ok_or(Failure::BAD_ADDRESS)
    }

    /// Returns the parameter `publicKey`. It need not be a point of the curve.
    pub fn public_key(&self) -> Result<PublicKey, Failure> {
        let bytes = self.hex("publicKey")?;
        let key = PublicKey::try_from(bytes.as_slice());
        key.map_err(|error| Failure::Argument(error.to_string().into()))
    }

    /// Returns a required parameter in hex.
    pub fn hex(&self, name: &'static str) -> Result<Vec<u8>, Failure> {
        decode_hex(&self.required(name)?).map_err(|error| Failure::bad_hex(&error))
    }

    /// Returns the parameter `hash`, hex of any length; an empty one counts as missing.
    pub fn optional_hash(&self) -> Result<Option<Vec<u8>>, Failure> {
        let text = self.parameter("hash")?.filter(|text| !text.is_empty());
        text.map(|text| decode_hex(&text).map_err(|error| Failure::bad_hex(&error))).transpose()
    }

    fn required(&self, name: &'static str) -> Result<Cow<'a, str>, Failure> {
        self.parameter(name)?.ok_or_else(|| Failure::Internal(format!("the parameter {name} is missing").into()))
    }

    /// Returns the parameter `namespace`.
    pub fn namespace(&self) -> Result<NamespaceId, Failure> {
        parse_namespace(&self.required("namespace")?)
    }

    /// Returns the parameter `parent`, a namespace; an empty one counts as missing.
    pub fn parent(&self) -> Result<Option<NamespaceId>, Failure> {
        let text = self.parameter("parent")?.filter(|text| !text.is_empty());
        text.map(|text| parse_namespace(&text)).transpose()
    }

    /// Returns the parameter `mosaicId`.
    pub fn mosaic_id(&self) -> Result<MosaicId, Failure> {
        let id = MosaicId::parse(&self.required("mosaicId")?);
        id.map_err(|error| Failure::Argument(error.to_string().into()))
    }

    /// Returns the page that the parameters `id` and `pageSize` select.
    pub fn page(&self) -> Result<Page, Failure> {
        parse_page(self.parameter("id")?.as_deref(), self.parameter("pageSize")?.as_deref())
    }

    /// Returns the location of the confirmed transaction with a hash; not of an old one if the node prunes hashes.
    pub fn find_hash(&self, hash: &Hash256) -> Result<Option<HashEntry>, StoreError> {
        match self.settings.forgets_hashes {
            true => self.view.hash_entry(hash),
            false => self.view.find_hash(hash),
        }
    }

    /// Returns the parameter `height`; the maximum height if it is missing or empty.
    pub fn height(&self) -> Result<Height, Failure> {
        let text = self.parameter("height")?.filter(|text| !text.is_empty());
        text.map_or(Ok(Height(i64::MAX.unsigned_abs())), |text| parse_height(&text))
    }

    /// Returns a required parameter that is a number. A missing one is a 400, unlike elsewhere.
    pub fn number(&self, name: &'static str) -> Result<i64, Failure> {
        let text = self.parameter(name)?;
        let text = text.ok_or_else(|| Failure::Argument(format!("the parameter {name} is missing").into()))?;
        digits::parse_i64(&text).ok_or_else(|| not_a_number(&text))
    }

    /// Returns the address of a public key.
    pub fn address_of(&self, key: &PublicKey) -> Address {
        Address::from_public_key(key, self.view.network.byte)
    }
}

/// Parses a page from an id and a size.
pub fn parse_page(id: Option<&str>, size: Option<&str>) -> Result<Page, Failure> {
    let before = match id {
        // Ids start at 1.
        Some(text) => u64::try_from(digits::parse_i64(text).ok_or_else(|| not_a_number(text))?).unwrap_or(0),
        None => u64::MAX,
    };
    let size = size.map_or(Ok(DEFAULT_PAGE), page_size)?;
    Ok(Page { before, size: size.clamp(MIN_PAGE, MAX_PAGE).unsigned_abs().into() })
}

fn parse_namespace(text: &str) -> Result<NamespaceId, Failure> {
    NamespaceId::parse(text).map_err(|error| Failure::Argument(error.to_string().into()))
}

fn parse_height(text: &str) -> Result<Height, Failure> {
    positive_height(digits::parse_i64(text).ok_or_else(|| not_a_number(text))?)
}

/// Converts a height that a client sent.
pub fn positive_height(number: i64) -> Result<Height, Failure> {
    let height = u64::try_from(number).ok().filter(|number| *number > 0);
    height.map(Height).ok_or(Failure::argument("height must be positive"))
}

fn not_a_number(text: &str) -> Failure {
    ReadError::NotANumber(text.to_owned()).into()
}

fn page_size(text: &str) -> Result<i16, Failure> {
    let number = digits::parse_i32(text).ok_or_else(|| not_a_number(text))?;
    let too_large = |_| Failure::Argument(format!("Value out of range. Value:\"{text}\" Radix:10").into());
    number.try_into().map_err(too_large)
}
