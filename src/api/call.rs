//! What a handler is given, and how it reads and answers (specification 06 §1.7, §5).

use std::borrow::Cow;

use super::Now;
use super::answer::Writer;
use super::catalogue::Page;
use super::desk::Desk;
use super::failure::Failure;
use super::ledger::{Ledger, NodeStatus};
use super::media::{Format, body_format};
use super::request::Request;
use super::secret;
use super::settings::Settings;
use super::views::View;
use crate::codec::binary::BinarySource;
use crate::codec::digits;
use crate::codec::json::JsonSource;
use crate::codec::lax_json;
use crate::codec::{ReadError, Source};
use crate::crypto::PublicKey;
use crate::crypto::hex_text::decode_hex;
use crate::model::{Address, MosaicId, NamespaceId};

/// Entries of a page: at least, at most, and unless the client says (specification 06 §5).
const MIN_PAGE: i16 = 5;
const MAX_PAGE: i16 = 100;
const DEFAULT_PAGE: i16 = 25;

const NOT_AN_OBJECT: Failure = Failure::argument("JSON Object was expected");

/// Something that can be the body of a request.
pub trait Readable: Sized {
    /// Whether it holds a private key, so that what it was read from is wiped.
    const IS_SECRET: bool = false;

    /// Reads the fields in definition order.
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError>;
}

/// One request on its way to its answer.
pub struct Call<'a> {
    /// The request.
    pub request: &'a Request<'a>,
    /// What is read.
    pub ledger: &'a dyn Ledger,
    /// What is done.
    pub desk: &'a mut dyn Desk,
    /// The settings of the interface.
    pub settings: &'a Settings,
    /// The present moment.
    pub now: Now,
    pub(super) writer: Writer<'a>,
}

impl<'a> Call<'a> {
    /// Answers with an object.
    pub fn send(&mut self, view: &impl View) -> Result<(), Failure> {
        self.writer.view(view);
        Ok(())
    }

    /// Answers with a word of ASCII letters (specification 06 §7.4).
    pub fn send_text(&mut self, text: &'static str) -> Result<(), Failure> {
        self.writer.text(text, self.request.header("Accept"));
        Ok(())
    }

    /// Whether the caller counts as local.
    pub fn is_local(&self) -> bool {
        (self.settings.is_local)(self.request.peer)
    }

    /// Refuses a call that only a node that has joined its network answers.
    pub fn need_network(&self) -> Result<(), Failure> {
        match self.ledger.node_status() {
            NodeStatus::Running | NodeStatus::Booting => Err(Failure::NOT_BOOTED),
            _ => Ok(()),
        }
    }

    /// Reads the body.
    pub fn body<T: Readable>(&self) -> Result<T, Failure> {
        let content_type = self.request.header("Content-Type").filter(|value| !value.is_empty());
        let body = self.request.body;
        let missing = Failure::internal("Required request body is missing");
        if body.is_empty() && content_type.is_none() {
            return Err(missing);
        }
        let format = body_format(content_type).map_err(Failure::Internal)?;
        if body.is_empty() {
            return Err(missing);
        }
        let context = self.settings.context;
        match format {
            Format::Json => {
                let mut value = lax_json::parse(body).map_err(|_| NOT_AN_OBJECT)?;
                let read = JsonSource::new(&value, context).and_then(|mut source| T::read(&mut source));
                if T::IS_SECRET {
                    secret::wipe(&mut value);
                }
                Ok(read?)
            }
            Format::Binary => Ok(T::read(&mut BinarySource::new(body, context))?),
        }
    }

    /// The value of a query parameter.
    pub fn parameter(&self, name: &str) -> Result<Option<Cow<'a, str>>, Failure> {
        self.request.parameter(name)
    }

    /// The parameter `address`.
    pub fn address(&self) -> Result<Address, Failure> {
        let text = self.parameter("address")?.ok_or(Failure::argument("encoded address cannot be null"))?;
        Address::parse(&text, self.settings.context.network).ok_or(Failure::argument("address must be valid"))
    }

    /// The parameter `publicKey`. It need not be a point of the curve.
    pub fn public_key(&self) -> Result<PublicKey, Failure> {
        let bytes = self.hex("publicKey")?;
        let key = PublicKey::try_from(bytes.as_slice());
        key.map_err(|error| Failure::Argument(error.to_string().into()))
    }

    /// A required parameter in hex.
    pub fn hex(&self, name: &'static str) -> Result<Vec<u8>, Failure> {
        decode_hex(&self.required(name)?).map_err(|error| Failure::bad_hex(&error))
    }

    fn required(&self, name: &'static str) -> Result<Cow<'a, str>, Failure> {
        self.parameter(name)?.ok_or_else(|| Failure::Internal(format!("the parameter {name} is missing").into()))
    }

    /// The parameter `namespace`.
    pub fn namespace(&self) -> Result<NamespaceId, Failure> {
        parse_namespace(&self.required("namespace")?)
    }

    /// The parameter `parent`, a namespace; an empty one is none.
    pub fn parent(&self) -> Result<Option<NamespaceId>, Failure> {
        let text = self.parameter("parent")?.filter(|text| !text.is_empty());
        text.map(|text| parse_namespace(&text)).transpose()
    }

    /// The parameter `mosaicId`.
    pub fn mosaic_id(&self) -> Result<MosaicId, Failure> {
        let id = MosaicId::parse(&self.required("mosaicId")?);
        id.map_err(|error| Failure::Argument(error.to_string().into()))
    }

    /// The parameters `id` and `pageSize`.
    pub fn page(&self) -> Result<Page, Failure> {
        let before = match self.parameter("id")? {
            // Numbers begin with 1.
            Some(text) => u64::try_from(digits::parse_i64(&text).ok_or_else(|| not_a_number(&text))?).unwrap_or(0),
            None => u64::MAX,
        };
        let size = match self.parameter("pageSize")? {
            Some(text) => page_size(&text)?,
            None => DEFAULT_PAGE,
        };
        Ok(Page { before, size: size.clamp(MIN_PAGE, MAX_PAGE).unsigned_abs().into() })
    }

    /// The address of the account with a public key.
    pub fn address_of(&self, key: &PublicKey) -> Address {
        Address::from_public_key(key, self.settings.context.network)
    }
}

fn parse_namespace(text: &str) -> Result<NamespaceId, Failure> {
    NamespaceId::parse(text).map_err(|error| Failure::Argument(error.to_string().into()))
}

fn not_a_number(text: &str) -> Failure {
    ReadError::NotANumber(text.to_owned()).into()
}

fn page_size(text: &str) -> Result<i16, Failure> {
    let number = digits::parse_i32(text).ok_or_else(|| not_a_number(text))?;
    let too_large = |_| Failure::Argument(format!("Value out of range. Value:\"{text}\" Radix:10").into());
    number.try_into().map_err(too_large)
}
