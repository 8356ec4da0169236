//! What a handler is given, and how it reads and answers (specification 06 §1.7, §5).

use std::borrow::Cow;

use super::answer::Writer;
use super::desk::Desk;
use super::failure::Failure;
use super::ledger::Ledger;
use super::media::{Format, body_format};
use super::request::Request;
use super::secret;
use super::settings::Settings;
use super::views::View;
use crate::codec::binary::BinarySource;
use crate::codec::json::JsonSource;
use crate::codec::lax_json;
use crate::codec::{ReadError, Source};
use crate::crypto::PublicKey;
use crate::crypto::hex_text::decode_hex;
use crate::model::Address;

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
        let missing = || Failure::Internal(format!("the parameter {name} is missing").into());
        let text = self.parameter(name)?.ok_or_else(missing)?;
        decode_hex(&text).map_err(|error| Failure::bad_hex(&error))
    }

    /// The address of the account with a public key.
    pub fn address_of(&self, key: &PublicKey) -> Address {
        Address::from_public_key(key, self.settings.context.network)
    }
}
